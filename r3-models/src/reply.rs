//! What servers really send for an answer, whole or in pieces, made into one.
//!
//! The description of the interface is kept by few: fields are missing or null, the text is a string, a list of parts or under another
//! name, an error comes with status 200 or in the middle of a stream, the last `[DONE]` does not come, thoughts stand in a field of
//! their own or before the text between `<think>` marks. Everything here looks for what it needs and passes over the rest.

use serde_json::Value;

use crate::chat::{Finish, Usage};
use crate::fault::Fault;
use crate::sse::Event;
use crate::usage::Said;

/// Bytes of an answer at most: more than any limit of tokens lets through.
const MOST: usize = 16 << 20;

/// An answer that is being put together.
#[derive(Debug, Default)]
pub struct Draft {
    text: String,
    thoughts: String,
    finish: Option<Finish>,
    refused: bool,
    said: Said,
    served_by: Option<String>,
    done: bool,
}

/// An answer that was put together.
#[derive(Clone, Debug, PartialEq)]
pub struct Whole {
    /// The text.
    pub text: String,
    /// What was thought before.
    pub thoughts: String,
    /// Why it ended.
    pub finish: Finish,
    /// Whether the service said so.
    pub said_why: bool,
    /// Tokens.
    pub usage: Usage,
    /// Who answered.
    pub served_by: Option<String>,
}

impl Draft {
    /// Takes an event of a stream. True when it carried something of the answer: what keeps a connection open alone does not.
    pub fn event(&mut self, event: &Event) -> Result<bool, Fault> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(true);
        }
        if data.is_empty() {
            return Ok(false);
        }
        let body: Value = serde_json::from_str(data).map_err(|error| {
            Fault::broken(format!(
                "a piece of the stream is not JSON ({error}): {}",
                crate::fault::short(data)
            ))
        })?;
        if event.kind == "error" && body.get("error").is_none_or(is_nothing) {
            return Err(crate::fault::of_error_object(200, &body, &body));
        }
        self.piece(&body)
    }

    /// Takes an answer that came whole.
    pub fn whole(&mut self, body: &str) -> Result<(), Fault> {
        let body: Value = serde_json::from_str(body).map_err(|_| {
            Fault::broken(format!(
                "the answer is not JSON: {}",
                crate::fault::short(body)
            ))
        })?;
        self.piece(&body)?;
        self.done = true;
        Ok(())
    }

    /// Whether the stream said that it is over.
    pub fn is_done(&self) -> bool {
        self.done
    }

    fn piece(&mut self, body: &Value) -> Result<bool, Fault> {
        if let Some(error) = body.get("error").filter(|error| !is_nothing(error)) {
            return Err(crate::fault::of_error_object(200, error, body));
        }
        self.said.take(body);
        if let Some(model) = body.get("model").and_then(Value::as_str) {
            self.served_by.get_or_insert_with(|| model.to_owned());
        }
        let Some(choice) = first_choice(body) else {
            return Ok(false);
        };
        let before = self.bytes();
        let message = choice
            .get("delta")
            .filter(|delta| !is_nothing(delta))
            .or_else(|| choice.get("message"))
            .unwrap_or(&Value::Null);
        match message {
            // Some answer with the text alone.
            Value::String(text) => self.text.push_str(text),
            message => {
                if let Some(content) = message.get("content") {
                    self.content(content);
                }
                for name in ["reasoning_content", "reasoning", "thinking"] {
                    if let Some(thoughts) = message.get(name).and_then(Value::as_str)
                        && !thoughts.is_empty()
                    {
                        self.thoughts.push_str(thoughts);
                        break;
                    }
                }
                if let Some(refusal) = message.get("refusal").and_then(Value::as_str)
                    && !refusal.is_empty()
                {
                    self.text.push_str(refusal);
                    self.refused = true;
                }
            }
        }
        // The older interface.
        if let Some(text) = choice.get("text").and_then(Value::as_str) {
            self.text.push_str(text);
        }
        if self.bytes() > MOST {
            return Err(Fault::broken(format!(
                "the answer is longer than {MOST} bytes"
            )));
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish(reason)?);
        }
        Ok(self.bytes() > before)
    }

    fn content(&mut self, content: &Value) {
        match content {
            Value::String(text) => self.text.push_str(text),
            Value::Array(parts) => {
                for part in parts {
                    self.part(part);
                }
            }
            Value::Object(_) => self.part(content),
            _ => {}
        }
    }

    fn part(&mut self, part: &Value) {
        if let Value::String(text) = part {
            self.text.push_str(text);
            return;
        }
        let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
        let is_thought = matches!(kind, "thinking" | "reasoning" | "redacted_thinking");
        let text = ["text", "content", "thinking", "reasoning"]
            .iter()
            .find_map(|name| part.get(name))
            .unwrap_or(&Value::Null);
        match (text, is_thought) {
            (Value::String(text), true) => self.thoughts.push_str(text),
            (Value::String(text), false) => self.text.push_str(text),
            // Mistral's thoughts are parts within a part.
            (Value::Array(parts), true) => {
                for text in parts.iter().filter_map(|part| part.get("text")?.as_str()) {
                    self.thoughts.push_str(text);
                }
            }
            _ => {}
        }
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.thoughts.len()
    }

    /// Whether nothing at all has come, not even the end.
    pub fn has_nothing(&self) -> bool {
        self.bytes() == 0 && self.finish.is_none() && self.served_by.is_none() && !self.done
    }

    /// Bytes that came so far: what an attempt that failed is charged for.
    pub fn received(&self) -> u64 {
        self.bytes() as u64
    }

    /// What was said of tokens so far, for a prompt of about `prompt`.
    pub fn usage(&self, prompt: u64) -> Usage {
        self.said.usage(prompt, self.received())
    }

    /// The answer to a prompt of about `prompt` tokens. `framed` says whether the connection itself tells a complete answer from one
    /// that broke off.
    pub fn finish(self, prompt: u64, framed: bool) -> Result<Whole, Fault> {
        if !(self.done || framed || self.finish.is_some()) {
            return Err(Fault::broken("the answer broke off".to_owned()));
        }
        let usage = self.usage(prompt);
        let said_why = self.finish.is_some();
        let mut finish = self.finish.unwrap_or(Finish::Other);
        if self.refused {
            finish = Finish::Filtered;
        }
        let (before, text) = thoughts_before(&self.text);
        let mut thoughts = self.thoughts;
        thoughts.push_str(before);
        if text.trim().is_empty()
            && thoughts.is_empty()
            && matches!(finish, Finish::Stop | Finish::Other)
        {
            return Err(Fault::broken("the answer is empty".to_owned()));
        }
        Ok(Whole {
            text: text.to_owned(),
            thoughts,
            finish,
            said_why,
            usage,
            served_by: self.served_by,
        })
    }
}

/// What stands between `<think>` marks before an answer, and the answer. Templates of some models write the first mark themselves, so
/// that only the last one comes back; an answer that is cut off within its thoughts has only the first.
fn thoughts_before(text: &str) -> (&str, &str) {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let opened = text.trim_start().strip_prefix(OPEN);
    match (opened, text.split_once(CLOSE)) {
        (Some(_), Some((before, after))) => {
            let before = before.trim_start().strip_prefix(OPEN).unwrap_or(before);
            (before.trim(), after.trim_start())
        }
        (None, Some((before, after))) if !before.contains(OPEN) => {
            (before.trim(), after.trim_start())
        }
        (Some(rest), None) => (rest.trim(), ""),
        _ => ("", text),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn first_choice(body: &Value) -> Option<&Value> {
    let choices = body.get("choices")?.as_array()?;
    choices
        .iter()
        .find(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0)
}

/// Why it ended, by the words of different services.
fn finish(reason: &str) -> Result<Finish, Fault> {
    const WORDS: &[(&str, Finish)] = &[
        ("stop", Finish::Stop),
        ("eos", Finish::Stop),
        ("eos_token", Finish::Stop),
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("length", Finish::Length),
        ("max_tokens", Finish::Length),
        ("model_length", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("content_filter", Finish::Filtered),
        ("safety", Finish::Filtered),
        ("refusal", Finish::Filtered),
    ];
    let reason = reason.to_ascii_lowercase();
    match reason.as_str() {
        // The service gave up in the middle.
        "error" | "insufficient_system_resource" | "abort" => Err(Fault::broken(format!(
            "the service ended the answer: {reason}"
        ))),
        reason => Ok(WORDS
            .iter()
            .find(|(word, _)| *word == reason)
            .map_or(Finish::Other, |(_, finish)| *finish)),
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
