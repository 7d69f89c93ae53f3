//! Language models behind OpenAI-compatible endpoints.
//!
//! In flow messages; out flow replies with what they cost. Any server that speaks `/v1/chat/completions` does: vLLM, llama.cpp,
//! Ollama, hosted services. This crate knows nothing of kernels.
//!
//! 1. [`settings`]: endpoints, models, prices, limits: from the environment or TOML.
//! 2. [`chat`]: questions, answers, and the trait of whoever can be asked.
//! 3. `body`, `client`, `sse`, `reply`, `usage`, `embeddings`: one request over HTTP, and what servers really send for an answer.
//! 4. `fault`, `too_long`, `retry`: what an attempt can fail of, what follows from it, after which pause.
//! 5. `schedule`: what is sent when: retries, limits, outages, budgets, as a machine without clock, threads and network.
//! 6. [`pool`]: that machine with all three.
//! 7. [`account`]: tokens, cached tokens, money; budgets that are not passed. [`ledger`]: what was sent, in a file, for who comes after
//!    a process that was killed.
//! 8. [`choice`]: which model is asked: by whether devices stand idle, and by what paid.
//!
//! Whoever uses it holds an [`chat::Ask`]: [`pool::Models`], or [`scripted::Scripted`] in tests.
//!
//! # Invariants
//!
//! - A key is never in a message, an error or a debug text.
//! - What fails of the service is no candidate's failure: it is an outage, and says since when.
//! - No request starts that could pass a budget.

pub mod account;
pub mod chat;
pub mod choice;
pub mod ledger;
pub mod pool;
pub mod scripted;
pub mod settings;

mod body;
mod client;
mod embeddings;
mod fault;
mod limit;
mod reply;
mod retry;
mod roots;
mod schedule;
mod small;
mod sse;
mod too_long;
mod url;
mod usage;
