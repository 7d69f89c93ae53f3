//! How many tokens a request took, in the forms in which services say so.
//!
//! | service | where |
//! |---|---|
//! | OpenAI, vLLM, Gemini, Ollama | `usage.prompt_tokens`, `completion_tokens`, `prompt_tokens_details.cached_tokens` |
//! | DeepSeek | `usage.prompt_cache_hit_tokens` |
//! | Moonshot | `usage.cached_tokens`, in a stream also `choices[0].usage` |
//! | Anthropic's form | `usage.input_tokens`, `output_tokens`, `cache_read_input_tokens`, `cache_creation_input_tokens` beside them |
//! | Groq | `x_groq.usage` |
//! | llama.cpp | `timings.prompt_n` (without those of the cache), `cache_n` (not in older versions), `predicted_n` |
//!
//! Where nothing is said, or only a part of it, the rest is estimated from the bytes.

use serde_json::Value;

use crate::chat::{Message, Usage};

/// Bytes that a token stands for, on average, in English and in C++: what an estimate divides by.
const BYTES_PER_TOKEN: u64 = 4;

/// Tokens that a message takes beside its text, at most, in the templates of chat models.
const TOKENS_PER_MESSAGE: u64 = 16;

/// Tokens that a conversation takes beside its messages, at most: templates add a system text of their own.
const TOKENS_PER_CONVERSATION: u64 = 96;

/// What a service has said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    prompt: Option<u64>,
    cached: Option<u64>,
    completion: Option<u64>,
    /// Tokens of the prompt that it read anew: its cache had the rest.
    read: Option<u64>,
}

impl Said {
    /// Takes what an answer, or a piece of one, says. A later piece corrects an earlier one.
    pub fn take(&mut self, body: &Value) {
        let places = [
            body.get("usage"),
            body.pointer("/choices/0/usage"),
            body.pointer("/x_groq/usage"),
            body.get("timings"),
        ];
        for (form, place) in places.into_iter().enumerate() {
            let Some(place) = place.filter(|place| place.is_object()) else {
                continue;
            };
            let said = if form == 3 {
                timings(place)
            } else {
                usage(place)
            };
            // llama.cpp sends both; its `usage` says less, and is not contradicted.
            let keep = form == 3;
            merge(&mut self.read, said.read, false);
            merge(&mut self.prompt, said.prompt, keep);
            merge(&mut self.cached, said.cached, keep);
            merge(&mut self.completion, said.completion, keep);
        }
    }

    /// What it comes to for an answer of `answer` bytes, thoughts included, to `prompt`.
    pub fn usage(&self, prompt: u64, answer: u64) -> Usage {
        let estimated = self.prompt.is_none() || self.completion.is_none();
        let prompt = self.prompt.unwrap_or(prompt);
        let cached = self
            .cached
            .or_else(|| self.read.map(|read| prompt.saturating_sub(read)))
            .filter(|_| self.prompt.is_some());
        Usage {
            prompt,
            cached: cached.unwrap_or(0).min(prompt),
            completion: self.completion.unwrap_or_else(|| of_bytes(answer)),
            estimated,
        }
    }
}

fn merge(into: &mut Option<u64>, said: Option<u64>, keep: bool) {
    if said.is_some() && !(keep && into.is_some()) {
        *into = said;
    }
}

fn usage(place: &Value) -> Said {
    let any = |names: &[&str]| names.iter().find_map(|name| number(place.pointer(name)?));
    let cached = any(&[
        "/prompt_tokens_details/cached_tokens",
        "/input_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/cached_tokens",
        "/cache_read_input_tokens",
    ]);
    // In this form the tokens of the cache are beside the others and not among them.
    let beside = any(&["/cache_read_input_tokens"]).unwrap_or(0)
        + any(&["/cache_creation_input_tokens"]).unwrap_or(0);
    let prompt = any(&["/prompt_tokens"])
        .or_else(|| any(&["/input_tokens"]).map(|input| input.saturating_add(beside)));
    let completion = any(&["/completion_tokens", "/output_tokens"]).or_else(|| {
        any(&["/total_tokens"])
            .zip(prompt)
            .and_then(|(total, prompt)| total.checked_sub(prompt))
    });
    Said {
        prompt,
        cached,
        completion,
        read: None,
    }
}

fn timings(place: &Value) -> Said {
    let cached = place.get("cache_n").and_then(number);
    Said {
        prompt: place
            .get("prompt_n")
            .and_then(number)
            .map(|read| read.saturating_add(cached.unwrap_or(0))),
        cached,
        completion: place.get("predicted_n").and_then(number),
        read: place.get("prompt_n").and_then(number),
    }
}

/// A count, however it is written. What is negative or absurd is none.
fn number(value: &Value) -> Option<u64> {
    let count = match value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_f64().filter(|f| *f >= 0.0).map(|f| f as u64))?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (count < 1 << 40).then_some(count)
}

/// About how many tokens so many bytes are.
pub fn of_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// About how many tokens a conversation is.
pub fn of_messages(messages: &[Message]) -> u64 {
    messages
        .iter()
        .map(|message| of_bytes(message.content.len() as u64) + TOKENS_PER_MESSAGE / 4)
        .sum()
}

/// More tokens than a conversation can be: no token stands for less than a byte.
pub fn bound_of_messages(messages: &[Message]) -> u64 {
    messages
        .iter()
        .map(|message| message.content.len() as u64 + TOKENS_PER_MESSAGE)
        .sum::<u64>()
        + TOKENS_PER_CONVERSATION
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Usage {
        let mut said = Said::default();
        said.take(&body);
        said.usage(1000, 400)
    }

    fn is(prompt: u64, cached: u64, completion: u64, estimated: bool) -> Usage {
        Usage {
            prompt,
            cached,
            completion,
            estimated,
        }
    }

    #[test]
    fn every_form_of_a_cached_share_is_read() {
        let forms = [
            json!({"usage": {"prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950,
                "prompt_tokens_details": {"cached_tokens": 768, "audio_tokens": 0}}}),
            json!({"usage": {"prompt_tokens": 900, "completion_tokens": 50,
                "prompt_cache_hit_tokens": 768, "prompt_cache_miss_tokens": 132}}),
            json!({"usage": {"prompt_tokens": 900, "total_tokens": 950, "cached_tokens": 768}}),
            json!({"usage": {"input_tokens": 100, "output_tokens": 50,
                "cache_read_input_tokens": 768, "cache_creation_input_tokens": 32}}),
            json!({"choices": [{"index": 0, "usage": {"prompt_tokens": 900, "completion_tokens": 50, "cached_tokens": 768}}]}),
            json!({"usage": null, "x_groq": {"usage": {"prompt_tokens": 900.0, "completion_tokens": "50",
                "prompt_tokens_details": {"cached_tokens": 768}}}}),
            json!({"timings": {"prompt_n": 132, "cache_n": 768, "predicted_n": 50, "predicted_ms": 3.5}}),
            json!({"usage": {"prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950},
                "timings": {"prompt_n": 132, "cache_n": 768, "predicted_n": 50}}),
            json!({"usage": {"prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950},
                "timings": {"prompt_n": 132, "prompt_ms": 90.5, "predicted_n": 50}}),
        ];
        for form in forms {
            assert_eq!(read(form.clone()), is(900, 768, 50, false), "{form}");
        }
    }

    #[test]
    fn null_details_are_no_cache() {
        let body = json!({"usage": {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": null}});
        assert_eq!(read(body), is(9, 0, 5, false));
    }

    #[test]
    fn what_is_not_said_is_estimated_and_says_so() {
        assert_eq!(read(json!({"choices": []})), is(1000, 0, 100, true));
        assert_eq!(
            read(json!({"usage": {"prompt_tokens": 7}})),
            is(7, 0, 100, true)
        );
        assert_eq!(
            read(json!({"usage": {"prompt_tokens": -7, "completion_tokens": 1e300}})),
            is(1000, 0, 100, true)
        );
    }

    #[test]
    fn a_cache_serves_no_more_than_the_prompt() {
        let body =
            json!({"usage": {"prompt_tokens": 9, "completion_tokens": 5, "cached_tokens": 100}});
        assert_eq!(read(body), is(9, 9, 5, false));
    }

    #[test]
    fn the_last_of_running_totals_counts() {
        let mut said = Said::default();
        for completion in [1, 2, 3] {
            said.take(&json!({"usage": {"prompt_tokens": 10, "completion_tokens": completion}}));
        }
        said.take(&json!({"choices": []}));
        assert_eq!(said.usage(0, 0), is(10, 0, 3, false));
    }
}
