//! How much a model takes, and what of it is left for an answer.
//!
//! Services count the answer that a request allows with its prompt. What the settings say of the context, or the service when it refused
//! a question, bounds answers from then on; how many bytes a token has is learned from what the service counts.

use crate::chat::{Message, Usage};
use crate::settings::BYTES_PER_TOKEN;
use crate::too_long::Lengths;

/// An answer shorter than this is of no use.
const LEAST_ANSWER: u64 = 128;

/// Tokens between what is reckoned and what is said: templates are not known.
const SPARE: u64 = 16;

/// What is known of a model's context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    tokens: Option<u64>,
    answer: Option<u64>,
    /// The fewest bytes of a token that were seen in a prompt.
    bytes: Option<f64>,
}

impl Context {
    /// As the settings say.
    pub fn new(tokens: Option<u32>) -> Self {
        Self {
            tokens: tokens.map(u64::from),
            answer: None,
            bytes: None,
        }
    }

    /// Tokens that an answer may have beside a prompt; `None` where nothing is known. Where there is hardly room the service decides.
    pub fn room(&self, messages: &[Message]) -> Option<u32> {
        let left = self.tokens.map(|tokens| {
            let prompt = self.reckoned(messages);
            tokens.saturating_sub(prompt + SPARE).max(LEAST_ANSWER)
        });
        let least = [left, self.answer].into_iter().flatten().min()?;
        Some(u32::try_from(least).unwrap_or(u32::MAX))
    }

    /// A service counted a prompt.
    pub fn learn(&mut self, messages: &[Message], usage: &Usage) {
        let bytes = bytes_of(messages);
        // A few words are mostly what templates add.
        if !usage.estimated && usage.prompt > 0 && bytes >= 1000 {
            let of_token = bytes as f64 / usage.prompt as f64;
            // No tokenizer makes more than one of a byte: a service that counts so is mistaken.
            if of_token < 1.0 {
                return;
            }
            self.bytes = Some(self.bytes.map_or(of_token, |before| before.min(of_token)));
        }
    }

    /// A service says that a question is too long, with an answer of `sent` tokens at most. The tokens of an answer with which it would
    /// fit: fewer than `sent`, so that this comes to an end.
    pub fn too_long(&mut self, said: &Lengths, messages: &[Message], sent: u32) -> Option<u32> {
        let sent = u64::from(sent);
        if let Some(context) = said.context {
            self.tokens = Some(self.tokens.map_or(context, |known| known.min(context)));
        }
        if let Some(answer) = said.answer {
            self.answer = Some(self.answer.map_or(answer, |known| known.min(answer)));
        }
        let left = match (said.context, said.prompt) {
            // As it counts, to the token.
            (Some(context), Some(prompt)) => context.checked_sub(prompt)?,
            (Some(context), None) => context.checked_sub(self.reckoned(messages) + SPARE)?,
            (None, _) => said.answer?,
        };
        let left = self.answer.map_or(left, |answer| left.min(answer));
        (left >= LEAST_ANSWER && left < sent).then(|| u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// About how many tokens a prompt has, rather too many.
    fn reckoned(&self, messages: &[Message]) -> u64 {
        let of_bytes = bytes_of(messages) as f64 / self.bytes.unwrap_or(BYTES_PER_TOKEN);
        of_bytes.ceil() as u64 + messages.len() as u64 * SPARE
    }
}

fn bytes_of(messages: &[Message]) -> usize {
    messages.iter().map(|message| message.content.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Role;

    #[test]
    fn what_a_service_counts_is_taken_where_it_can_be() {
        let question = [Message {
            role: Role::User,
            content: "x".repeat(3000),
        }];
        let room_after = |prompt: u64| {
            let mut context = Context::new(Some(4096));
            let usage = Usage {
                prompt,
                ..Usage::default()
            };
            context.learn(&question, &usage);
            context.room(&question).unwrap()
        };
        let before = Context::new(Some(4096)).room(&question).unwrap();
        assert!(room_after(2000) < before, "more tokens than were reckoned");
        for absurd in [3001, 1_000_000_000, u64::MAX] {
            assert_eq!(room_after(absurd), before, "{absurd}");
        }
    }
}
