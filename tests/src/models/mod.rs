//! A scripted service of language models: it speaks the interface of OpenAI, and has its answers already.

pub mod http;
pub mod script;
