//! Language models behind OpenAI-compatible endpoints.
//!
//! In flow messages; out flow replies with what they cost. Any server that speaks `/v1/chat/completions` does: vLLM, llama.cpp,
//! Ollama, hosted services. This crate knows nothing of kernels.
//!
//! 1. [`settings`]: endpoints, models, prices, limits: from the environment or TOML.
//! 2. [`chat`]: a request, a reply, and who can be asked.
//! 3. [`client`]: the real one: one request over HTTP, streamed or not. [`embeddings`]: vectors of texts.
//! 4. [`retry`]: what is tried again, after which pause. [`limit`]: requests and tokens per minute.
//! 5. [`pool`]: several requests under way at a time; an outage pauses all of them.
//! 6. [`account`]: tokens, cached tokens, money; budgets that are not passed.
//! 7. [`choice`]: which model is asked: by whether devices stand idle, and by what paid.
//!
//! Whoever uses it holds an [`chat::Ask`]: [`pool::Models`], or [`scripted::Scripted`] in tests.
//!
//! # Invariants
//!
//! - A key is never in a message, an error or a debug text.
//! - What fails of the service is no candidate's failure: it is an outage, and says since when.
//! - No request starts that could pass a budget.

pub mod settings;

pub mod chat;

pub mod client;

pub mod embeddings;

pub mod retry;

pub mod limit;

pub mod pool;

pub mod account;

pub mod choice;

pub mod scripted;
