//! A small HTTP server for tests: it answers as a function says, and can go away and come back.
//!
//! One thread for each connection, one request for each connection. What it cannot read it refuses, so that a test sees a request that
//! is not well formed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Which it is, from 0.
    pub number: usize,
    /// Its path.
    pub path: String,
    /// Its headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Value,
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A whole body.
    Whole {
        /// Status.
        status: u16,
        /// Headers beside those of its length and form.
        headers: Vec<(String, String)>,
        /// Its form.
        kind: &'static str,
        /// The body.
        body: String,
    },
    /// Pieces, in chunks of HTTP.
    Pieces {
        /// The pieces.
        pieces: Vec<String>,
        /// What follows the last one.
        then: Then,
    },
    /// The connection ends without an answer.
    Cut,
    /// Nothing comes until the server is dropped.
    Stall,
}

/// What follows the last piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The end of the chunks.
    End,
    /// The connection ends in the middle.
    Cut,
    /// Nothing, until the server is dropped.
    Stall,
    /// Comments, for ever.
    KeepAlive,
}

impl Answer {
    /// JSON with status 200.
    pub fn json(body: &Value) -> Self {
        Self::status(200, body)
    }

    /// JSON with a status.
    pub fn status(status: u16, body: &Value) -> Self {
        Self::Whole {
            status,
            headers: Vec::new(),
            kind: "application/json",
            body: body.to_string(),
        }
    }

    /// A page.
    pub fn page(status: u16, title: &str) -> Self {
        Self::Whole {
            status,
            headers: Vec::new(),
            kind: "text/html",
            body: format!(
                "<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
            ),
        }
    }

    /// Events of a stream, whole.
    pub fn events(events: impl IntoIterator<Item = String>) -> Self {
        Self::Pieces {
            pieces: events
                .into_iter()
                .map(|data| format!("data: {data}\n\n"))
                .collect(),
            then: Then::End,
        }
    }
}

/// Makes an answer of a request.
pub type Answerer = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

struct Shared {
    answerer: Answerer,
    asked: Mutex<Vec<Asked>>,
    count: AtomicUsize,
    up: AtomicBool,
    closed: AtomicBool,
}

/// The server. It ends when it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it on a free port of this machine.
    pub fn start(answerer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            answerer: Arc::new(answerer),
            asked: Mutex::new(Vec::new()),
            count: AtomicUsize::new(0),
            up: AtomicBool::new(true),
            closed: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(&of_thread, listener, address));
        Self {
            shared,
            address,
            thread: Some(thread),
        }
    }

    /// Its address, as a setting of an endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// From now on nobody is there, or somebody again.
    pub fn set_up(&self, up: bool) {
        self.shared.up.store(up, Ordering::SeqCst);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How often is looked whether something changed.
const TICK: Duration = Duration::from_millis(2);

fn serve(shared: &Arc<Shared>, listener: TcpListener, address: SocketAddr) {
    let mut listener = Some(listener);
    while !shared.closed.load(Ordering::SeqCst) {
        if !shared.up.load(Ordering::SeqCst) {
            listener = None;
            std::thread::sleep(TICK);
            continue;
        }
        let Some(open) = &listener else {
            // The port of before: its connections are closed, and nobody else was given it.
            listener = TcpListener::bind(address).ok();
            std::thread::sleep(TICK);
            continue;
        };
        let _ = open.set_nonblocking(true);
        match open.accept() {
            Ok((stream, _)) => {
                let shared = Arc::clone(shared);
                std::thread::spawn(move || {
                    let _ = stream.set_nonblocking(false);
                    let _ = connection(&shared, stream);
                });
            }
            Err(_) => std::thread::sleep(TICK),
        }
    }
}

fn connection(shared: &Shared, mut stream: TcpStream) -> std::io::Result<()> {
    let Some(mut asked) = read(&stream)? else {
        let body = "this is no request that a client of models sends";
        return write!(
            stream,
            "HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
    };
    asked.number = shared.count.fetch_add(1, Ordering::SeqCst);
    shared
        .asked
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(asked.clone());
    let stall = || {
        while !shared.closed.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
        }
    };
    match (shared.answerer)(&asked) {
        Answer::Whole {
            status,
            headers,
            kind,
            body,
        } => {
            write!(
                stream,
                "HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\n"
            )?;
            for (name, value) in headers {
                write!(stream, "{name}: {value}\r\n")?;
            }
            write!(
                stream,
                "Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            )?;
        }
        Answer::Pieces { pieces, then } => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            )?;
            let mut chunk = |text: &str| {
                write!(stream, "{:x}\r\n{text}\r\n", text.len()).and_then(|()| stream.flush())
            };
            for piece in pieces {
                chunk(&piece)?;
            }
            match then {
                Then::End => write!(stream, "0\r\n\r\n")?,
                Then::Cut => {}
                Then::Stall => stall(),
                Then::KeepAlive => {
                    while !shared.closed.load(Ordering::SeqCst) {
                        chunk(": keep-alive\n\n")?;
                        std::thread::sleep(TICK);
                    }
                }
            }
        }
        Answer::Cut => {}
        Answer::Stall => stall(),
    }
    stream.flush()
}

fn read(stream: &TcpStream) -> std::io::Result<Option<Asked>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some("POST"), Some(path), Some("HTTP/1.1")) = (words.next(), words.next(), words.next())
    else {
        return Ok(None);
    };
    let path = path.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else {
            return Ok(None);
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let Some(Ok(length)) = headers
        .get("content-length")
        .map(|text| text.parse::<u64>())
    else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    reader.take(length).read_to_end(&mut bytes)?;
    let Ok(body) = serde_json::from_slice(&bytes) else {
        return Ok(None);
    };
    Ok(Some(Asked {
        number: 0,
        path,
        headers,
        body,
    }))
}

/// A whole answer of a conversation.
pub fn completion(text: &str, prompt: u64, cached: u64, answer: u64) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "scripted-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer,
            "prompt_tokens_details": {"cached_tokens": cached}},
    })
}

/// The same in pieces of so many characters.
pub fn pieces(
    text: &str,
    length: usize,
    finish: &str,
    prompt: u64,
    cached: u64,
    answer: u64,
) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "scripted-1",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        .to_string()
    };
    let mut events = vec![chunk(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    events.extend(characters.chunks(length.max(1)).map(|part| {
        chunk(
            json!({ "content": part.iter().collect::<String>() }),
            Value::Null,
        )
    }));
    events.push(chunk(json!({}), json!(finish)));
    events.push(
        json!({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": answer,
            "prompt_tokens_details": {"cached_tokens": cached}}})
        .to_string(),
    );
    events.push("[DONE]".to_owned());
    events
}
