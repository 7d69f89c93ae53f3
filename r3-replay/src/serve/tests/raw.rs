//! HTTP as bytes, for what a good client never sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Running;
use crate::serve::address::Address;

pub(super) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// What an answer says.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Response {
    /// The kind of the problem in it.
    pub(super) fn code(&self) -> String {
        let problem: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        assert!(!problem["message"].as_str().unwrap().is_empty());
        assert!(!problem["help"].as_str().unwrap().is_empty());
        problem["code"].as_str().unwrap().to_owned()
    }
}

/// A connection without a client's manners. Reading gives up after a minute.
pub(super) fn connect(server: &Running) -> Box<dyn Stream> {
    let limit = Some(Duration::from_secs(60));
    match &server.address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(limit).unwrap();
            Box::new(stream)
        }
        Address::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).unwrap();
            stream.set_read_timeout(limit).unwrap();
            Box::new(stream)
        }
    }
}

/// Sends bytes on a new connection, and reads until the server closes it.
pub(super) fn exchange(server: &Running, bytes: &[u8]) -> Response {
    let mut stream = connect(server);
    // The server may have said enough before all was sent.
    let _ = stream.write_all(bytes);
    read_response(&mut *stream)
}

/// Reads until the server closes the connection.
pub(super) fn read_response(stream: &mut dyn Stream) -> Response {
    let mut all = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(got) => all.extend_from_slice(&part[..got]),
            // Closed with bytes of ours unread.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}, after {:?}", String::from_utf8_lossy(&all)),
        }
    }
    let all = String::from_utf8(all).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Response {
        status: status.unwrap_or(0),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// A request that closes the connection after its answer.
pub(super) fn text(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .into_bytes()
}
