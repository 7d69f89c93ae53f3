//! What a request says: the JSON of `/v1/chat/completions`.
//!
//! The order of fields is the same in all requests, and the messages come as they are: what two conversations begin with is the same
//! bytes, so that services with a cache of prompts find it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::chat::{Message, Request, Role};
use crate::fault::Quirk;

/// How a model is asked, beside the request itself.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// What the endpoint calls the model.
    pub id: String,
    /// Tokens of an answer at most.
    pub max_tokens: u32,
    /// Tokens of an answer that there is room for beside the prompt, as far as that is known.
    pub room: Option<u32>,
    /// How freely it answers.
    pub temperature: Option<f64>,
    /// Whether the answer comes in pieces.
    pub stream: bool,
    /// Further fields.
    pub extra: Map<String, Value>,
    /// What the service was found not to know.
    pub quirks: BTreeSet<Quirk>,
}

impl Manner {
    /// Tokens of an answer to a request, at most.
    pub fn most_tokens(&self, request: &Request) -> u32 {
        let most = request.max_tokens.unwrap_or(self.max_tokens);
        self.room.map_or(most, |room| most.min(room))
    }

    /// Whether the answer comes in pieces, as far as is known of the service.
    pub fn streams(&self) -> bool {
        self.stream && !self.quirks.contains(&Quirk::NoStream)
    }

    /// Whether leaving something out would change what is sent.
    pub fn can_do_without(&self, quirk: Quirk, request: &Request) -> bool {
        if self.quirks.contains(&quirk) {
            return false;
        }
        match quirk {
            Quirk::CompletionTokens => true,
            Quirk::NoTemperature => request.temperature.or(self.temperature).is_some(),
            Quirk::NoSeed => request.seed.is_some(),
            Quirk::NoStreamOptions | Quirk::NoStream => self.streams(),
            Quirk::NoSystem => request
                .messages
                .iter()
                .any(|message| message.role == Role::System),
        }
    }

    /// The body of a request.
    pub fn body(&self, request: &Request) -> Value {
        let has = |quirk| self.quirks.contains(&quirk);
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
        put("model", json!(self.id));
        put(
            "messages",
            messages(&request.messages, has(Quirk::NoSystem)),
        );
        let limit = if has(Quirk::CompletionTokens) {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        put(limit, json!(self.most_tokens(request)));
        if let Some(temperature) = request.temperature.or(self.temperature)
            && !has(Quirk::NoTemperature)
        {
            put("temperature", json!(temperature));
        }
        if let Some(seed) = request.seed
            && !has(Quirk::NoSeed)
        {
            // Services take 31 or 63 bits; the lower ones do for all.
            put("seed", json!(seed & 0x7fff_ffff));
        }
        put("stream", json!(self.streams()));
        if self.streams() && !has(Quirk::NoStreamOptions) {
            put("stream_options", json!({ "include_usage": true }));
        }
        for (name, value) in &self.extra {
            put(name, value.clone());
        }
        Value::Object(body)
    }
}

fn messages(messages: &[Message], no_system: bool) -> Value {
    let word = |role| match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let mut before = String::new();
    let mut all = Vec::new();
    for message in messages {
        if no_system && message.role == Role::System {
            before.push_str(&message.content);
            before.push_str("\n\n");
            continue;
        }
        let content = if message.role == Role::User && !before.is_empty() {
            std::mem::take(&mut before) + &message.content
        } else {
            message.content.clone()
        };
        all.push(json!({ "role": word(message.role), "content": content }));
    }
    if !before.is_empty() {
        all.push(json!({ "role": "user", "content": before.trim_end() }));
    }
    Value::Array(all)
}

/// The fields of a TOML table as JSON.
pub(crate) fn json_of(table: &toml::Table) -> Map<String, Value> {
    fn value(toml: &toml::Value) -> Value {
        match toml {
            toml::Value::String(text) => Value::from(text.as_str()),
            toml::Value::Integer(number) => Value::from(*number),
            toml::Value::Float(number) => Value::from(*number),
            toml::Value::Boolean(flag) => Value::from(*flag),
            toml::Value::Datetime(time) => Value::from(time.to_string()),
            toml::Value::Array(values) => values.iter().map(value).collect(),
            toml::Value::Table(table) => Value::Object(json_of(table)),
        }
    }
    table
        .iter()
        .map(|(name, toml)| (name.clone(), value(toml)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, content: &str) -> Message {
        Message {
            role,
            content: content.to_owned(),
        }
    }

    fn request() -> Request {
        Request {
            model: "m".to_owned(),
            messages: vec![
                message(Role::System, "head"),
                message(Role::User, "a"),
                message(Role::Assistant, "b"),
                message(Role::User, "c"),
            ],
            max_tokens: None,
            temperature: Some(0.5),
            seed: Some(u64::MAX),
        }
    }

    fn manner() -> Manner {
        Manner {
            id: "vendor/m".to_owned(),
            max_tokens: 100,
            stream: true,
            extra: json!({"reasoning_effort": "low"})
                .as_object()
                .cloned()
                .unwrap(),
            ..Manner::default()
        }
    }

    #[test]
    fn a_request_as_it_is_sent() {
        insta::assert_snapshot!(manner().body(&request()), @r#"{"max_tokens":100,"messages":[{"content":"head","role":"system"},{"content":"a","role":"user"},{"content":"b","role":"assistant"},{"content":"c","role":"user"}],"model":"vendor/m","reasoning_effort":"low","seed":2147483647,"stream":true,"stream_options":{"include_usage":true},"temperature":0.5}"#);
    }

    #[test]
    fn what_a_service_does_not_know_is_left_out() {
        use Quirk::*;
        let mut manner = manner();
        manner.quirks = [
            CompletionTokens,
            NoTemperature,
            NoSeed,
            NoStreamOptions,
            NoSystem,
        ]
        .into();
        insta::assert_snapshot!(manner.body(&request()), @r#"{"max_completion_tokens":100,"messages":[{"content":"head\n\na","role":"user"},{"content":"b","role":"assistant"},{"content":"c","role":"user"}],"model":"vendor/m","reasoning_effort":"low","stream":true}"#);
        for quirk in manner.quirks.clone() {
            assert!(
                !manner.can_do_without(quirk, &request()),
                "{quirk:?} would be sent for ever"
            );
        }
        assert!(manner.can_do_without(NoStream, &request()));
    }

    #[test]
    fn what_two_conversations_begin_with_is_the_same_bytes() {
        let mut other = request();
        other.messages.truncate(1);
        other.messages.push(message(Role::User, "else"));
        let (a, b) = (
            manner().body(&request()).to_string(),
            manner().body(&other).to_string(),
        );
        let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        assert!(a[..same].contains("\"head\""), "{}", &a[..same]);
    }
}
