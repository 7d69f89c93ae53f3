//! One request over HTTP, and its answer.
//!
//! Blocking, on a thread of its own. The connection has limits of time of its own; the finer ones (to the first token, from one to the
//! next) are kept by who holds the [`Watch`]: services send comments so that a connection stays open, and only a token is progress.
//! Nothing is tried again here, and no redirection is followed: it would carry the key elsewhere.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use ureq::Agent;

use crate::body::Manner;
use crate::chat::{Question, Usage};
use crate::embeddings;
use crate::fault::{self, Fault};
use crate::reply::{Draft, Whole};
use crate::retry;
use crate::roots;
use crate::settings::{Endpoint, SettingsError, Timeouts};
use crate::sse;
use crate::url::Url;
use crate::usage;

/// Bytes of an error's body that are read.
const MOST_OF_AN_ERROR: u64 = 64 << 10;

/// Bytes of an answer that came whole.
const MOST_OF_AN_ANSWER: u64 = 64 << 20;

/// How far a request is, for others to see, and whether anybody still waits for it.
#[derive(Default)]
pub struct Watch {
    begins: OnceLock<Box<dyn Fn() + Send + Sync>>,
    abandoned: AtomicBool,
    received: AtomicU64,
    /// Milliseconds since the request began, plus one; 0 for never.
    first: AtomicU64,
    last: AtomicU64,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("abandoned", &self.is_abandoned())
            .field("received", &self.received())
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Calls `told` when an answer begins: from then on it can stall.
    pub fn when_it_begins(&self, told: impl Fn() + Send + Sync + 'static) {
        let _ = self.begins.set(Box::new(told));
    }

    /// Nobody waits for it any longer.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Whether nobody waits for it any longer.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Something of the answer came, `after` the request began.
    pub fn progress(&self, after: Duration, received: u64) {
        let mark = u64::try_from(after.as_millis()).unwrap_or(u64::MAX - 1) + 1;
        let began = self
            .first
            .compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed);
        self.last.store(mark, Ordering::Relaxed);
        self.received.store(received, Ordering::Relaxed);
        if let (Ok(_), Some(told)) = (began, self.begins.get()) {
            told();
        }
    }

    /// How long after the request began the first token came.
    pub fn first(&self) -> Option<Duration> {
        moment(self.first.load(Ordering::Relaxed))
    }

    /// How long after the request began the last token so far came.
    pub fn last(&self) -> Option<Duration> {
        moment(self.last.load(Ordering::Relaxed))
    }

    /// Bytes of the answer so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

fn moment(mark: u64) -> Option<Duration> {
    mark.checked_sub(1).map(Duration::from_millis)
}

/// What a request gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Back {
    /// An answer.
    Whole(Whole),
    /// Vectors, and what they took.
    Vectors(Vec<Vec<f32>>, Usage),
}

/// An attempt failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// Of what.
    pub fault: Fault,
    /// What the service may charge nevertheless.
    pub usage: Usage,
}

impl From<Fault> for Lost {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            usage: Usage::default(),
        }
    }
}

/// Who carries a request to a service.
pub trait Wire: Send + Sync {
    /// Asks, and waits for the answer.
    fn send(&self, question: &Question, manner: &Manner, watch: &Watch) -> Result<Back, Lost>;
}

/// A service over HTTP.
pub struct Client {
    agent: Agent,
    url: Url,
    headers: Vec<(String, String)>,
    key: Option<String>,
    patience: String,
}

impl Client {
    /// For an endpoint. `roots` takes the place of the system's roots of trust.
    pub fn new(
        endpoint: &Endpoint,
        roots: Option<&std::path::Path>,
    ) -> Result<Self, SettingsError> {
        let url = Url::parse(&endpoint.url).map_err(|what| SettingsError::Value {
            origin: format!("endpoint {}", endpoint.name),
            what,
        })?;
        let times = &endpoint.timeouts;
        let seconds = |value| Some(Timeouts::duration(value));
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("r3/", env!("CARGO_PKG_VERSION")))
            .accept("application/json, text/event-stream")
            .timeout_resolve(seconds(times.connect))
            .timeout_connect(seconds(times.connect))
            .timeout_per_write(seconds(times.between_tokens))
            .timeout_global(seconds(times.attempt));
        if url.is_loopback() {
            config = config.proxy(None);
        }
        if url.secure {
            let tls = roots::config(roots, endpoint.ca_file.as_deref()).map_err(|source| {
                SettingsError::Roots {
                    endpoint: endpoint.name.clone(),
                    source,
                }
            })?;
            config = config.tls_config(tls);
        }
        Ok(Self {
            agent: config.build().new_agent(),
            url,
            headers: endpoint.headers.clone().into_iter().collect(),
            key: endpoint.key.as_ref().map(|key| key.text().to_owned()),
            patience: format!("{} s", times.attempt),
        })
    }

    fn post(&self, path: &str, body: &Value) -> Result<ureq::http::Response<ureq::Body>, Fault> {
        let mut request = self
            .agent
            .post(self.url.to(path))
            .header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut response = request
            .send(body.to_string())
            .map_err(|error| self.fault(error))?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(response);
        }
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let after = retry::wanted(header, SystemTime::now());
        let target = header("location").map(fault::short).unwrap_or_default();
        let mut text = Vec::new();
        // What can be read of it is better than nothing.
        let _ = response
            .body_mut()
            .as_reader()
            .take(MOST_OF_AN_ERROR)
            .read_to_end(&mut text);
        let mut text = String::from_utf8_lossy(&text).into_owned();
        if (300..400).contains(&status) {
            text = format!("sends on to {target}");
        }
        Err(self.without_key(fault::of_status(status, after, &text)))
    }

    fn chat(
        &self,
        request: &crate::chat::Request,
        manner: &Manner,
        watch: &Watch,
    ) -> Result<Back, Lost> {
        let begun = Instant::now();
        let prompt = usage::of_messages(&request.messages);
        let mut response = self.post("chat/completions", &manner.body(request))?;
        let header = |name: &str| {
            Some(
                response
                    .headers()
                    .get(name)?
                    .to_str()
                    .ok()?
                    .to_ascii_lowercase(),
            )
        };
        // Whether a connection that ends says by itself that nothing is missing.
        let framed = header("content-length").is_some()
            || header("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
        let kind = header("content-type").unwrap_or_default();
        let mut draft = Draft::default();
        let mut reader = response.body_mut().as_reader();
        let mut shape = Shape::of_kind(&kind);
        let mut buffer = vec![0; 16 << 10];
        // Whether the service itself said what is wrong.
        let mut was_said = false;
        let read = loop {
            if watch.is_abandoned() {
                break Err(Fault::broken("nobody waits for it any longer".to_owned()));
            }
            let count = match reader.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => break Err(self.fault(error.into())),
            };
            let bytes = buffer.get(..count).unwrap_or_default();
            match shape.take(bytes, &mut draft) {
                Ok(true) => watch.progress(begun.elapsed(), draft.received()),
                Ok(false) => {}
                Err(fault) => {
                    was_said = true;
                    break Err(fault);
                }
            }
            if count == 0 || draft.is_done() {
                break Ok(());
            }
        };
        let charged = draft.usage(prompt);
        let nothing = matches!(shape, Shape::Stream(_)) && draft.has_nothing() && !was_said;
        let whole = match read.and_then(|()| draft.finish(prompt, framed)) {
            Err(Fault::Broken { message }) if nothing && !watch.is_abandoned() => {
                Err(Fault::Silent { message })
            }
            whole => whole,
        };
        whole.map(Back::Whole).map_err(|fault| Lost {
            fault: self.without_key(fault),
            usage: charged,
        })
    }

    fn embed(&self, texts: &[String], manner: &Manner) -> Result<Back, Lost> {
        let body = embeddings::body(&manner.id, texts, &manner.extra);
        let mut response = self.post("embeddings", &body)?;
        let mut bytes = Vec::new();
        response
            .body_mut()
            .as_reader()
            .take(MOST_OF_AN_ANSWER)
            .read_to_end(&mut bytes)
            .map_err(|error| self.fault(error.into()))?;
        let text = String::from_utf8_lossy(&bytes);
        let prompt = texts
            .iter()
            .map(|text| usage::of_bytes(text.len() as u64))
            .sum();
        let (vectors, said) =
            embeddings::read(&text, texts.len()).map_err(|fault| self.without_key(fault))?;
        Ok(Back::Vectors(vectors, embeddings::usage(&said, prompt)))
    }

    /// What an error of the connection means.
    fn fault(&self, error: ureq::Error) -> Fault {
        use ureq::{Error, Timeout};
        let to = &self.url.authority;
        let fault = match error {
            Error::Timeout(Timeout::Resolve | Timeout::Connect) => Fault::Unreachable {
                message: format!("{to} cannot be reached: no connection in time"),
            },
            Error::Timeout(_) => Fault::broken(format!(
                "{to} did not answer in time (attempts end after {})",
                self.patience
            )),
            Error::HostNotFound => Fault::Unreachable {
                message: format!("{to} cannot be reached: no such host"),
            },
            Error::ConnectionFailed | Error::ConnectProxyFailed(_) => Fault::Unreachable {
                message: format!("{to} cannot be reached: {error}"),
            },
            Error::Rustls(error) => tls(to, &error),
            Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(inner) => tls(to, inner),
                None => io(to, &error),
            },
            Error::BadUri(_)
            | Error::Http(_)
            | Error::InvalidProxyUrl
            | Error::Tls(_)
            | Error::TlsRequired
            | Error::Pem(_) => Fault::Somebody {
                message: format!("{to}: {error}"),
            },
            error => Fault::broken(format!("{to}: {error}")),
        };
        self.without_key(fault)
    }

    /// Services repeat keys in their messages.
    fn without_key(&self, fault: Fault) -> Fault {
        match &self.key {
            Some(key) if fault.message().contains(key.as_str()) => {
                fault.map_message(|message| message.replace(key.as_str(), "…"))
            }
            _ => fault,
        }
    }
}

impl Wire for Client {
    fn send(&self, question: &Question, manner: &Manner, watch: &Watch) -> Result<Back, Lost> {
        match question {
            Question::Chat(request) => self.chat(request, manner, watch),
            Question::Embed(embed) => self.embed(&embed.texts, manner),
        }
    }
}

fn tls(to: &str, error: &rustls::Error) -> Fault {
    let what_to_do = match error {
        rustls::Error::InvalidCertificate(_) => {
            "; if this is an authority of your own, name its certificate by ca_file"
        }
        rustls::Error::InvalidMessage(_) => "; does it speak http and not https?",
        _ => {
            return Fault::Unreachable {
                message: format!("{to}: TLS: {error}"),
            };
        }
    };
    Fault::Somebody {
        message: format!("{to}: TLS: {error}{what_to_do}"),
    }
}

fn io(to: &str, error: &std::io::Error) -> Fault {
    use std::io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable,
    };
    match error.kind() {
        ConnectionRefused | HostUnreachable | NetworkUnreachable | NetworkDown
        | AddrNotAvailable => Fault::Unreachable {
            message: format!("{to} cannot be reached: {error}"),
        },
        _ => Fault::broken(format!("the connection to {to} broke: {error}")),
    }
}

/// In which form an answer comes. Not every service says so, and some answer whole when they were asked for pieces.
enum Shape {
    Unknown(Vec<u8>),
    Whole(Vec<u8>),
    Stream(sse::Reader),
}

impl Shape {
    /// By what the service says.
    fn of_kind(kind: &str) -> Self {
        if kind.contains("event-stream") {
            Self::Stream(sse::Reader::default())
        } else if kind.contains("json") {
            Self::Whole(Vec::new())
        } else {
            Self::Unknown(Vec::new())
        }
    }

    /// By how it begins.
    fn of_bytes(bytes: &[u8]) -> Self {
        const FIELDS: [&[u8]; 4] = [b":", b"data", b"event", b"id:"];
        let begin = bytes.trim_ascii_start();
        if FIELDS.iter().any(|field| begin.starts_with(field)) {
            Self::Stream(sse::Reader::default())
        } else {
            Self::Whole(Vec::new())
        }
    }

    /// Takes what came; nothing is the end. True when it was something of the answer.
    fn take(&mut self, bytes: &[u8], draft: &mut Draft) -> Result<bool, Fault> {
        let is_end = bytes.is_empty();
        let Self::Unknown(before) = self else {
            return self.take_known(bytes, is_end, draft);
        };
        before.extend_from_slice(bytes);
        if before.trim_ascii_start().len() < b"event".len() && !is_end {
            return Ok(false);
        }
        let all = std::mem::take(before);
        *self = Self::of_bytes(&all);
        self.take_known(&all, is_end, draft)
    }

    fn take_known(&mut self, bytes: &[u8], is_end: bool, draft: &mut Draft) -> Result<bool, Fault> {
        match self {
            Self::Unknown(_) => Ok(false),
            Self::Whole(all) => {
                all.extend_from_slice(bytes);
                if all.len() as u64 > MOST_OF_AN_ANSWER {
                    return Err(Fault::broken(format!(
                        "the answer is longer than {MOST_OF_AN_ANSWER} bytes"
                    )));
                }
                if is_end {
                    draft.whole(&String::from_utf8_lossy(all))?;
                }
                Ok(is_end)
            }
            Self::Stream(reader) => {
                let mut events = reader
                    .feed(bytes)
                    .map_err(|error| Fault::broken(error.to_string()))?;
                if is_end {
                    events.extend(reader.finish());
                }
                let mut any = false;
                for event in events {
                    any |= draft.event(&event)?;
                    if draft.is_done() {
                        break;
                    }
                }
                Ok(any)
            }
        }
    }
}

/// Clients of all endpoints, in their order.
pub(crate) fn clients(
    endpoints: &[Endpoint],
    roots: Option<&std::path::Path>,
) -> Result<Vec<Arc<dyn Wire>>, SettingsError> {
    endpoints
        .iter()
        .map(|endpoint| Ok(Arc::new(Client::new(endpoint, roots)?) as Arc<dyn Wire>))
        .collect()
}
