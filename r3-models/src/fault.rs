//! What an attempt can fail of, and what follows from that.
//!
//! | fault | what follows |
//! |---|---|
//! | [`Fault::Unreachable`] | an outage |
//! | [`Fault::Broken`] | the question is tried again; twice without an answer between them are an outage |
//! | [`Fault::Silent`] | the same, and the question is asked for a whole answer: what is wrong may then be said |
//! | [`Fault::Busy`] | all questions to the model wait for as long as the service says |
//! | [`Fault::Somebody`] | an outage that somebody has to end: a key, a quota, a name |
//! | [`Fault::Unwanted`] | the question is asked at once without what the service does not know |
//! | [`Fault::TooLong`] | with a shorter answer it would fit: it is asked again so; else the question has failed |
//! | [`Fault::Refused`] | the question has failed |

use std::time::Duration;

use serde_json::Value;

use crate::too_long::Lengths;

/// An attempt failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Nobody is there: no such host, no connection, no TLS.
    Unreachable {
        /// For people.
        message: String,
    },
    /// Somebody is there and did not answer as they should: an error of the server, a stalled, cut or unreadable answer.
    Broken {
        /// For people.
        message: String,
    },
    /// A stream that began and ended with nothing in it: servers that have said already that all is well can say no error any more.
    Silent {
        /// For people.
        message: String,
    },
    /// Too many requests.
    Busy {
        /// After which time the service wants to be asked again.
        after: Option<Duration>,
        /// For people.
        message: String,
    },
    /// Nothing will go until somebody does something.
    Somebody {
        /// For people.
        message: String,
    },
    /// The service does not know something of how it was asked.
    Unwanted {
        /// What is left out, or said otherwise.
        quirk: Quirk,
        /// Status of HTTP.
        status: u16,
        /// For people.
        message: String,
    },
    /// The service does not take this question.
    Refused {
        /// Status of HTTP.
        status: u16,
        /// For people.
        message: String,
    },
    /// Longer than what the model takes.
    TooLong {
        /// How long what is, as far as it is said.
        lengths: Lengths,
        /// For people.
        message: String,
    },
}

/// Something of the interface that not every service has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quirk {
    /// `max_tokens` is called `max_completion_tokens`.
    CompletionTokens,
    /// No `temperature` but its own.
    NoTemperature,
    /// No `seed`.
    NoSeed,
    /// No `stream_options`: it does not say the usage of a streamed answer.
    NoStreamOptions,
    /// No answers in pieces.
    NoStream,
    /// No messages of the system: they go before the first of the user.
    NoSystem,
}

impl Fault {
    pub(crate) fn broken(message: String) -> Self {
        Self::Broken { message }
    }

    /// For people.
    pub fn message(&self) -> &str {
        match self {
            Self::Unreachable { message }
            | Self::Broken { message }
            | Self::Silent { message }
            | Self::Busy { message, .. }
            | Self::Somebody { message }
            | Self::Unwanted { message, .. }
            | Self::Refused { message, .. }
            | Self::TooLong { message, .. } => message,
        }
    }

    /// The same with another text.
    pub(crate) fn map_message(mut self, map: impl FnOnce(&str) -> String) -> Self {
        let (Self::Unreachable { message }
        | Self::Broken { message }
        | Self::Silent { message }
        | Self::Busy { message, .. }
        | Self::Somebody { message }
        | Self::Unwanted { message, .. }
        | Self::Refused { message, .. }
        | Self::TooLong { message, .. }) = &mut self;
        *message = map(message);
        self
    }
}

/// Words, in lower case, by which services say that a question is too long.
const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "maximum context length",
    "context window",
    "context length",
    "available context",
    "prompt is too long",
    "too many tokens",
    "input is too long",
    "string_above_max_length",
    "request_too_large",
    "`max_new_tokens` must be",
    "supports at most",
    "is longer than the model",
];

/// Those that say it whatever the status: some servers call it an error of their own.
const TOO_LONG_ALWAYS: &[&str] = &[
    "exceed context window",
    "exceed_context_size",
    "context_length_exceeded",
    "context size has been exceeded",
    "input is too large to process",
    "larger than the max context size",
    "exceeds the available context size",
];

/// Words by which they say that somebody has to do something, whatever the status.
const SOMEBODY: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient_balance",
    "insufficient credits",
    "billing",
    "invalid_api_key",
    "incorrect api key",
    "authentication_error",
    "model_not_found",
    "does not exist or you do not have access",
];

/// Words by which a service refuses what a question says, with a status that else means its key.
const FLAGGED: &[&str] = &[
    "moderation",
    "flagged",
    "content_policy",
    "content policy",
    "content_filter",
];

/// Words by which they say that a field is unknown to them.
const UNKNOWN_FIELD: &[&str] = &[
    "unsupported",
    "not support",
    "n't support",
    "not permitted",
    "not allowed",
    "unknown",
    "unrecognized",
    "unexpected",
    "extra",
    "only the default",
    "deprecated",
];

/// Fields that can be left out, or said otherwise.
const FIELDS: &[(&str, Quirk)] = &[
    ("max_tokens", Quirk::CompletionTokens),
    ("temperature", Quirk::NoTemperature),
    ("seed", Quirk::NoSeed),
    ("stream_options", Quirk::NoStreamOptions),
    ("stream", Quirk::NoStream),
    ("system role", Quirk::NoSystem),
    ("role 'system'", Quirk::NoSystem),
    ("role: system", Quirk::NoSystem),
    ("conversation roles must alternate", Quirk::NoSystem),
];

/// What an answer with a status that is not 200 means.
pub fn of_status(status: u16, after: Option<Duration>, body: &str) -> Fault {
    let fault = match serde_json::from_str::<Value>(body) {
        Ok(body) if body.is_object() => {
            let error = body.get("error").filter(|error| !error.is_null());
            of_error_object(status, error.unwrap_or(&body), &body)
        }
        _ => of_words(status, &Words::of_text(body)),
    };
    match fault {
        Fault::Busy { message, .. } => Fault::Busy { after, message },
        fault => fault,
    }
}

/// What an error in JSON means, which may come with status 200.
pub fn of_error_object(status: u16, error: &Value, body: &Value) -> Fault {
    let field = |name: &str| {
        [error, body]
            .into_iter()
            .find_map(|place| match place.get(name)? {
                Value::String(text) if !text.is_empty() => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            })
    };
    let message = error
        .as_str()
        .map(str::to_owned)
        .or_else(|| field("message"))
        .or_else(|| detail(body.get("detail")?))
        .unwrap_or_else(|| error.to_string());
    let code = field("code").unwrap_or_default();
    // Where an error comes with 200, its own number says more.
    let status = match code.parse::<u16>() {
        Ok(code) if status == 200 && (400..600).contains(&code) => code,
        _ if status == 200 => 500,
        _ => status,
    };
    let kind = field("type").unwrap_or_default();
    let all = format!("{code} {kind} {message}").to_lowercase();
    let words = Words {
        parameter: field("param").unwrap_or_default(),
        lengths: Lengths::said(&message, error),
        message: short(&message),
        all,
    };
    of_words(status, &words)
}

/// What FastAPI says of a request that does not fit its description.
fn detail(detail: &Value) -> Option<String> {
    if let Value::String(text) = detail {
        return Some(text.clone());
    }
    let parts: Vec<String> = detail
        .as_array()?
        .iter()
        .map(|part| {
            let place: Vec<String> = part
                .get("loc")
                .and_then(Value::as_array)
                .map(|loc| {
                    loc.iter()
                        .map(|step| step.as_str().map_or(step.to_string(), str::to_owned))
                        .collect()
                })
                .unwrap_or_default();
            let what = part.get("msg").and_then(Value::as_str).unwrap_or_default();
            format!("{}: {what}", place.join("."))
        })
        .collect();
    Some(parts.join("; "))
}

struct Words {
    parameter: String,
    lengths: Lengths,
    message: String,
    all: String,
}

impl Words {
    fn of_text(text: &str) -> Self {
        Self {
            parameter: String::new(),
            lengths: Lengths::said(text, &Value::Null),
            message: short(text),
            all: text.to_lowercase(),
        }
    }

    fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.all.contains(word))
    }

    fn quirk(&self) -> Option<Quirk> {
        let by_name = FIELDS.iter().find(|(field, _)| *field == self.parameter);
        let quirk = by_name
            .or_else(|| FIELDS.iter().find(|(field, _)| self.all.contains(field)))
            .map(|(_, quirk)| *quirk)?;
        let is_unknown = self.has(UNKNOWN_FIELD) || quirk == Quirk::NoSystem;
        // A number that is too large is another matter than a name that is not known.
        let is_other_name =
            quirk != Quirk::CompletionTokens || self.all.contains("max_completion_tokens");
        (is_unknown && is_other_name).then_some(quirk)
    }
}

fn of_words(status: u16, words: &Words) -> Fault {
    let said = if words.message.is_empty() {
        "nothing said"
    } else {
        &words.message
    };
    let message = format!("HTTP {status}: {said}");
    if status < 500 && words.has(TOO_LONG) || words.has(TOO_LONG_ALWAYS) || status == 413 {
        return Fault::TooLong {
            lengths: words.lengths,
            message,
        };
    }
    if words.has(SOMEBODY) {
        return Fault::Somebody { message };
    }
    if status == 429 || words.all.contains("rate_limit_exceeded") {
        return Fault::Busy {
            after: None,
            message,
        };
    }
    if status == 403 && words.has(FLAGGED) {
        return Fault::Refused { status, message };
    }
    match status {
        400 | 422 => match words.quirk() {
            Some(quirk) => Fault::Unwanted {
                quirk,
                status,
                message,
            },
            None => Fault::Refused { status, message },
        },
        300..=399 => Fault::Somebody {
            message: format!("{message}; R3 follows no redirection, give the address itself"),
        },
        401..=407 | 410 | 411 | 415 | 426 | 451 | 501 | 505 => Fault::Somebody { message },
        408 | 409 | 425 => Fault::Broken { message },
        400..=499 => Fault::Refused { status, message },
        _ => Fault::Broken { message },
    }
}

/// The beginning of a text, on one line; of a page its title.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 240;
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|open| {
        let begin = open + "<title>".len();
        let end = begin + lower.get(begin..)?.find("</title>")?;
        text.get(begin..end)
    });
    let text = title.unwrap_or(text);
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()).take(MOST));
        if line.len() > MOST {
            let cut = line
                .char_indices()
                .map(|(at, _)| at)
                .take_while(|at| *at <= MOST)
                .last();
            line.truncate(cut.unwrap_or(0));
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, body as seen in public reports of several servers, and what follows.
    const SEEN: &[(u16, &str, &str)] = &[
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            "somebody",
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            "somebody",
        ),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance"}}"#,
            "somebody",
        ),
        (
            404,
            r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","code":404}"#,
            "somebody",
        ),
        (404, "404 page not found", "somebody"),
        (307, "", "somebody"),
        (
            429,
            r#"{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}"#,
            "busy",
        ),
        (429, "Too Many Requests", "busy"),
        (
            200,
            r#"{"error":{"message":"Provider returned error","code":429}}"#,
            "busy",
        ),
        (
            200,
            r#"{"error":{"message":"Provider returned error","code":502}}"#,
            "broken",
        ),
        (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            "broken",
        ),
        (
            502,
            "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
            "broken",
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "broken",
        ),
        (500, "", "broken"),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            "too long",
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_ctx":4096}}"#,
            "too long",
        ),
        (
            400,
            r#"{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 8192 tokens","code":400}"#,
            "too long",
        ),
        (413, "", "too long"),
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}"#,
            "max_completion_tokens",
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is supported.","param":"temperature","code":"unsupported_value"}}"#,
            "temperature",
        ),
        (
            422,
            r#"{"detail":[{"loc":["body","stream_options"],"msg":"extra fields not permitted","type":"value_error.extra"}]}"#,
            "stream_options",
        ),
        (
            400,
            r#"{"object":"error","message":"System role not supported","code":400}"#,
            "system",
        ),
        (
            400,
            r#"{"error":{"message":"max_tokens is too large: 100000. This model supports at most 4096 completion tokens.","param":"max_tokens"}}"#,
            "too long",
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"input is too large to process. increase the physical batch size","type":"server_error"}}"#,
            "too long",
        ),
        (
            500,
            r#"{"error":{"message":"Requested tokens (3047) exceed context window of 2048","type":"internal_server_error","param":null,"code":null}}"#,
            "too long",
        ),
        (
            500,
            r#"{"error":{"message":"Unexpected error while counting too many tokens"}}"#,
            "broken",
        ),
        (400, r#"{"error":{"message":"Invalid prompt"}}"#, "refused"),
        (
            403,
            r#"{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["violence"]}}}"#,
            "refused",
        ),
        (403, "Forbidden", "somebody"),
    ];

    #[test]
    fn what_servers_say_is_told_apart() {
        for (status, body, follows) in SEEN {
            let fault = of_status(*status, None, body);
            let got = match &fault {
                Fault::Unreachable { .. } => "unreachable",
                Fault::Broken { .. } => "broken",
                Fault::Silent { .. } => "silent",
                Fault::Busy { .. } => "busy",
                Fault::Somebody { .. } => "somebody",
                Fault::Refused { .. } => "refused",
                Fault::TooLong { .. } => "too long",
                Fault::Unwanted { quirk, .. } => match quirk {
                    Quirk::CompletionTokens => "max_completion_tokens",
                    Quirk::NoTemperature => "temperature",
                    Quirk::NoSeed => "seed",
                    Quirk::NoStreamOptions => "stream_options",
                    Quirk::NoStream => "stream",
                    Quirk::NoSystem => "system",
                },
            };
            assert_eq!(got, *follows, "{status} {body}");
        }
    }

    #[test]
    fn a_page_is_said_by_its_title_and_a_long_text_by_its_beginning() {
        assert_eq!(
            short("<HTML><head><TITLE>502 Bad\nGateway</TITLE>"),
            "502 Bad Gateway"
        );
        assert_eq!(short("a\n  b\u{7}"), "a b");
        assert!(short(&"ü ".repeat(1000)).len() < 300);
        assert!(short(&"ü".repeat(100_000)).len() < 500);
    }

    #[test]
    fn the_pause_that_a_service_wants_is_kept() {
        let after = Some(Duration::from_secs(20));
        let fault = of_status(429, after, "slow down");
        assert!(matches!(fault, Fault::Busy { after: kept, .. } if kept == after));
    }
}
