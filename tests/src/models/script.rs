//! Which answer is given to which question.
//!
//! The answers are in a text (`saxpy.md`), with what is to come of each. A question gets the first one that was not given before and fits
//! it best, by words of its task; what repairs an answer goes to whoever was told that it was wrong. The same question gets the same
//! answer again, however often it is asked: a run that was killed goes on as it would have.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::http::{Answer, Asked, completion, pieces};

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its name.
    pub name: String,
    /// What is to come of it.
    pub expected: String,
    /// What else is said of it, by name.
    pub fields: HashMap<String, String>,
    /// Its text.
    pub text: String,
}

impl Reply {
    /// What is said of it under a name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// The answers of a text.
pub fn replies(text: &str) -> Vec<Reply> {
    let mut replies: Vec<Reply> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("@@@ ") {
            let mut parts = head.split("; ");
            let (name, expected) = parts
                .next()
                .and_then(|part| part.split_once(" = "))
                .unwrap_or_else(|| panic!("{line}: no name and what comes of it"));
            replies.push(Reply {
                name: name.to_owned(),
                expected: expected.to_owned(),
                fields: parts
                    .map(|part| {
                        part.split_once('=')
                            .unwrap_or_else(|| panic!("{line}: {part}"))
                    })
                    .map(|(name, value)| (name.to_owned(), value.replace("\\n", "\n")))
                    .collect(),
                text: String::new(),
            });
        } else if let Some(reply) = replies.last_mut() {
            reply.text.push_str(line);
            reply.text.push('\n');
        }
    }
    replies
}

/// A question that was answered.
#[derive(Clone, Debug)]
pub struct Given {
    /// Name of the answer.
    pub reply: String,
    /// The conversation.
    pub messages: Value,
    /// Tokens of it, those of them in the cache, and of the answer.
    pub tokens: (u64, u64, u64),
}

/// The service.
pub struct Script {
    replies: Vec<Reply>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    given: Vec<Given>,
    /// By conversation, the place in `given`.
    by_question: HashMap<String, usize>,
}

/// Bytes for a token.
const BYTES: usize = 4;

/// Bytes of a prompt that a cache keeps together.
const BLOCK: usize = 16 * BYTES;

impl Script {
    /// With the answers of a text.
    pub fn new(text: &str) -> Self {
        Self {
            replies: replies(text),
            memory: Mutex::new(Memory::default()),
        }
    }

    /// An answer by its name.
    pub fn reply(&self, name: &str) -> Option<&Reply> {
        self.replies.iter().find(|reply| reply.name == name)
    }

    /// The questions that were answered, each once, in the order in which they came first.
    pub fn given(&self) -> Vec<Given> {
        self.lock().given.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request.
    pub fn answer(&self, asked: &Asked) -> Answer {
        if asked.path.ends_with("/embeddings") {
            return embeddings(&asked.body);
        }
        let problem = checked(&asked.body);
        if let Some(problem) = problem {
            return Answer::status(
                400,
                &json!({"error": {"message": problem, "type": "invalid_request_error"}}),
            );
        }
        let messages = &asked.body["messages"];
        if last(messages).contains("Answer with the word OK") {
            return Answer::json(&completion("OK", 8, 0, 1));
        }
        let given = self.give(messages);
        let Some(reply) = self.reply(&given.reply) else {
            return Answer::json(&completion(
                NOTHING_MORE,
                given.tokens.0,
                given.tokens.1,
                given.tokens.2,
            ));
        };
        sent(reply, given.tokens, asked.body["stream"] == json!(true))
    }

    fn give(&self, messages: &Value) -> Given {
        let mut memory = self.lock();
        let key = messages.to_string();
        if let Some(given) = memory
            .by_question
            .get(&key)
            .and_then(|place| memory.given.get(*place))
        {
            return given.clone();
        }
        let reply = self.choose(messages, &memory);
        let prompt = flat(messages);
        let cached = memory
            .given
            .iter()
            .map(|given| same(&flat(&given.messages), &prompt) / BLOCK * BLOCK)
            .max()
            .unwrap_or(0);
        let answer = reply.map_or(NOTHING_MORE.len(), |reply| reply.text.len());
        let given = Given {
            reply: reply.map_or_else(String::new, |reply| reply.name.clone()),
            messages: messages.clone(),
            tokens: (
                prompt.len().div_ceil(BYTES) as u64,
                (cached / BYTES) as u64,
                answer.div_ceil(BYTES) as u64,
            ),
        };
        let place = memory.given.len();
        memory.by_question.insert(key, place);
        memory.given.push(given.clone());
        given
    }

    fn choose(&self, messages: &Value, memory: &Memory) -> Option<&Reply> {
        let before = messages
            .as_array()
            .and_then(|messages| messages.iter().rev().nth(1))
            .filter(|message| message["role"] == json!("assistant"));
        if let Some(before) = before {
            let said = before["content"].as_str().unwrap_or_default().trim();
            let wrong = self
                .replies
                .iter()
                .find(|reply| !said.is_empty() && reply.text.trim().ends_with(said))?;
            return self
                .replies
                .iter()
                .find(|reply| reply.field("after") == Some(&wrong.name));
        }
        let question = last(messages);
        let task = question.rsplit("# The task").next().unwrap_or_default();
        let parent = question.rsplit("# The parent").next().unwrap_or_default();
        let fit = |reply: &&Reply| {
            reply.field("for").map_or(usize::MAX, |words| {
                words.split(',').filter(|word| task.contains(word)).count()
            })
        };
        self.replies
            .iter()
            .filter(|reply| reply.field("after").is_none())
            .filter(|reply| {
                reply
                    .field("needs")
                    .is_none_or(|text| parent.contains(text))
            })
            .filter(|reply| memory.given.iter().all(|given| given.reply != reply.name))
            // The first of those that fit best.
            .rev()
            .max_by_key(fit)
    }
}

/// What is answered when all answers were given.
const NOTHING_MORE: &str = "I have no further ideas for this kernel; it looks good as it is.";

/// What is wrong with a request, by what services demand of one.
fn checked(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    let roles: Vec<&str> = messages.iter().filter_map(|m| m["role"].as_str()).collect();
    let empty = messages
        .iter()
        .any(|m| m["content"].as_str().is_none_or(str::is_empty));
    let turns = roles
        .iter()
        .skip(usize::from(roles.first() == Some(&"system")));
    let alternate = turns
        .enumerate()
        .all(|(turn, role)| *role == if turn % 2 == 0 { "user" } else { "assistant" });
    if messages.is_empty() || roles.last() != Some(&"user") || !alternate {
        return Some(format!(
            "Conversation roles must alternate user/assistant: {roles:?}"
        ));
    }
    if empty {
        return Some("messages: text content blocks must be non-empty".to_owned());
    }
    if !body["max_tokens"].is_u64() || !body["model"].is_string() {
        return Some("max_tokens and model are required".to_owned());
    }
    None
}

fn last(messages: &Value) -> &str {
    messages
        .as_array()
        .and_then(|messages| messages.last()?["content"].as_str())
        .unwrap_or_default()
}

fn flat(messages: &Value) -> String {
    let texts = messages.as_array().into_iter().flatten();
    texts
        .filter_map(|message| message["content"].as_str())
        .collect()
}

/// Bytes that two texts begin with alike.
pub fn same(one: &str, other: &str) -> usize {
    one.bytes()
        .zip(other.bytes())
        .take_while(|(a, b)| a == b)
        .count()
}

/// An answer in the form in which it is sent.
fn sent(reply: &Reply, (prompt, cached, answer): (u64, u64, u64), stream: bool) -> Answer {
    let finish = reply.field("finish").unwrap_or("stop");
    let text = reply.text.trim();
    match reply.field("form") {
        Some("parts") => {
            let (one, other) = text.split_at(text.find("\n\n").unwrap_or(0));
            let mut body = completion("", prompt, cached, answer);
            body["choices"][0]["message"]["content"] =
                json!([{"type": "text", "text": one}, {"type": "text", "text": other}]);
            Answer::json(&body)
        }
        _ if stream => Answer::events(pieces(text, 24, finish, prompt, cached, answer)),
        _ => {
            let mut body = completion(text, prompt, cached, answer);
            body["choices"][0]["finish_reason"] = json!(finish);
            Answer::json(&body)
        }
    }
}

/// Vectors of texts: counts of their trigrams.
fn embeddings(body: &Value) -> Answer {
    let texts: Vec<&str> = body["input"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let mut vector = [0.0_f32; 64];
            for gram in text.as_bytes().windows(3) {
                let hash = gram.iter().fold(7_usize, |hash, byte| {
                    hash.wrapping_mul(31) + usize::from(*byte)
                });
                vector[hash % 64] += 1.0;
            }
            json!({"index": index, "object": "embedding", "embedding": vector.to_vec()})
        })
        .collect();
    let tokens: usize = texts.iter().map(|text| text.len().div_ceil(BYTES)).sum();
    Answer::json(
        &json!({"object": "list", "data": data, "model": "scripted-embedding",
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}),
    )
}
