//! What services say of lengths when a question does not fit: numbers in a sentence, or in fields of their own.
//!
//! Most services count the answer that was allowed with the prompt, so that a question of any length is refused when the answer may be as
//! long as the model's whole context. What is said here tells the two apart: with a shorter answer, the question fits.

use serde_json::Value;

/// Tokens, as far as a service says them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// What the model takes, prompt and answer together.
    pub context: Option<u64>,
    /// What the prompt has.
    pub prompt: Option<u64>,
    /// What an answer may have at most, whatever the prompt has.
    pub answer: Option<u64>,
}

/// Words after which the context stands.
const CONTEXT_AFTER: &[&str] = &[
    "context length is",
    "context length of",
    "context window of",
    "context size of",
    "context window (",
    "context size (",
    "context length (",
    "`max_new_tokens` must be <=",
];

/// Words before which it stands.
const CONTEXT_BEFORE: &[&str] = &["maximum"];

/// Words before which the prompt's tokens stand.
const PROMPT_BEFORE: &[&str] = &[
    "in the messages",
    "in your prompt",
    "input tokens",
    "tokens from the input",
    "`inputs` tokens",
    "tokens) exceeds the available context",
    "tokens) is longer than",
    "tokens from the prompt",
];

/// Words after which they stand.
const PROMPT_AFTER: &[&str] = &[
    "messages resulted in",
    "prompt is too long:",
    "exceed context limit:",
    "your prompt contains",
];

/// Words before which the most tokens of an answer stand.
const ANSWER_BEFORE: &[&str] = &["completion tokens", "output tokens"];

impl Lengths {
    /// What is said in an error and the sentence in it.
    pub fn said(message: &str, error: &Value) -> Self {
        let text = message.to_lowercase();
        let field = |name: &str| error.get(name).and_then(Value::as_u64);
        let after = |words: &[&str]| words.iter().find_map(|words| number_after(&text, words));
        let before = |words: &[&str]| words.iter().find_map(|words| number_before(&text, words));
        // "at most 4096 completion tokens" is a limit; "8192 completion tokens" alone is what was asked for.
        let answer = before(ANSWER_BEFORE).filter(|_| text.contains("at most"));
        Self {
            context: field("n_ctx")
                .or_else(|| after(CONTEXT_AFTER))
                .or_else(|| before(CONTEXT_BEFORE)),
            prompt: field("n_prompt_tokens")
                .or_else(|| before(PROMPT_BEFORE))
                .or_else(|| after(PROMPT_AFTER)),
            answer,
        }
    }
}

/// The number that stands right after some words.
fn number_after(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("at least").unwrap_or(rest).trim_start();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The number that stands right before some words.
fn number_before(text: &str, words: &str) -> Option<u64> {
    text.match_indices(words).find_map(|(at, _)| {
        let before = text.get(..at)?.trim_end();
        let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        before.get(before.len() - digits..)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn lengths_are_found_as_services_say_them() {
        let none = json!({});
        let llama = json!({"n_prompt_tokens": 9000, "n_ctx": 4096});
        for (message, error, context, prompt, answer) in [
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (808 in the messages, 8192 \
                 in the completion). Please reduce the length of the messages or completion.",
                &none,
                Some(8192),
                Some(808),
                None,
            ),
            (
                "This model's maximum context length is 4097 tokens. However, your messages resulted in 9000 tokens.",
                &none,
                Some(4097),
                Some(9000),
                None,
            ),
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 8192 tokens and your \
                 request has 1234 input tokens (8192 > 8192 - 1234).",
                &none,
                Some(8192),
                Some(1234),
                None,
            ),
            (
                "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 9000 tokens: \
                 808 tokens from the input messages and 8192 tokens for the completion.",
                &none,
                Some(4096),
                Some(808),
                None,
            ),
            (
                "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                &none,
                Some(4096),
                Some(9000),
                None,
            ),
            (
                "the request exceeds it",
                &llama,
                Some(4096),
                Some(9000),
                None,
            ),
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 808 `inputs` tokens and 8192 \
                 `max_new_tokens`",
                &none,
                Some(4096),
                Some(808),
                None,
            ),
            (
                "prompt is too long: 210000 tokens > 200000 maximum",
                &none,
                Some(200_000),
                Some(210_000),
                None,
            ),
            (
                "max_tokens is too large: 100000. This model supports at most 4096 completion tokens, whereas you provided 100000.",
                &none,
                None,
                None,
                Some(4096),
            ),
            ("too long", &none, None, None, None),
        ] {
            let is = Lengths {
                context,
                prompt,
                answer,
            };
            assert_eq!(Lengths::said(message, error), is, "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_sentence_makes_it_panic(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("context length is"), Just("in the messages"), Just("maximum"), Just("at most"), Just(" "), Just("ü"),
                    Just("99999999999999999999999"), Just("12"), Just("completion tokens"), Just("at least"),
                ],
                0..12,
            ),
        ) {
            let _ = Lengths::said(&parts.concat(), &json!({"n_ctx": -1}));
        }
    }
}
