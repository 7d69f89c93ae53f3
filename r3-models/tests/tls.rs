//! Whom a connection trusts: a server with a certificate of an authority that no system knows.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use r3_models::account::Totals;
use r3_models::chat::{Ask, Message, Question, Request, Role, State};
use r3_models::pool::Models;
use r3_models::settings::{Endpoint, Model, Part, Settings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const ANSWER: &str = r#"{"choices":[{"message":{"content":"over TLS"},"finish_reason":"stop"}]}"#;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/certificates")
        .join(name)
}

/// A server that answers each request in the same way; its port.
fn server(address: &str) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_file(file("server.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(file("server.key")).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate and its key");
    let config = Arc::new(config);
    let listener = TcpListener::bind((address, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            // A client that does not trust this server says so by going away.
            let _ = answer(StreamOwned::new(connection, stream));
        }
    });
    port
}

fn answer(mut stream: impl Read + Write) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"}") && stream.read(&mut byte)? > 0 {
        request.extend(byte);
    }
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{ANSWER}",
        ANSWER.len()
    )?;
    stream.flush()
}

fn settings(url: String, ca_file: Option<PathBuf>) -> Settings {
    let mut endpoint = Endpoint::new(&url);
    endpoint.ca_file = ca_file;
    // This machine's own roots play no part.
    Settings {
        endpoints: vec![endpoint],
        models: vec![Model::new("m", Part::Accurate)],
        roots: Some(file("authority.pem")),
        ..Settings::default()
    }
}

/// The answer, or why there is none.
fn ask(settings: &Settings) -> Result<String, String> {
    let mut models = Models::new(settings, Totals::default()).map_err(|error| error.to_string())?;
    models.submit(Question::Chat(Request {
        model: "m".to_owned(),
        messages: vec![Message {
            role: Role::User,
            content: "hello".to_owned(),
        }],
        max_tokens: None,
        temperature: None,
        seed: None,
    }));
    loop {
        if let Some(finished) = models.finished(Duration::from_millis(5)).pop() {
            return Ok(format!("{:?}", finished.outcome));
        }
        if let State::Down {
            reason,
            needs_somebody: true,
            ..
        } = models.state()
        {
            return Err(reason);
        }
    }
}

#[test]
fn an_authority_that_is_named_is_trusted() {
    let url = format!("https://localhost:{}/v1", server("127.0.0.1"));
    // In the place of the system's roots, and beside others.
    assert!(
        ask(&settings(url.clone(), None))
            .expect("an answer")
            .contains("over TLS")
    );
    let mut beside = settings(url, Some(file("authority.pem")));
    beside.roots = Some(file("server.pem"));
    assert!(ask(&beside).expect("an answer").contains("over TLS"));
}

#[test]
fn one_that_nobody_named_is_not_and_the_message_says_what_to_do() {
    let mut settings = settings(
        format!("https://localhost:{}/v1", server("127.0.0.1")),
        None,
    );
    settings.roots = Some(file("server.pem"));
    let reason = ask(&settings).expect_err("nobody vouches for it");
    assert!(reason.contains("ca_file"), "{reason}");
}

#[test]
fn a_certificate_for_another_name_is_not_taken() {
    // This machine as well, and not in the certificate.
    let url = format!("https://127.0.0.2:{}/v1", server("127.0.0.2"));
    let settings = settings(url, None);
    let reason = ask(&settings).expect_err("another name");
    assert!(reason.contains("TLS"), "{reason}");
}

#[test]
fn a_server_that_speaks_http_is_told_from_one_that_cannot_be_trusted() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let reason = ask(&settings(format!("https://127.0.0.1:{port}/v1"), None)).expect_err("no TLS");
    assert!(reason.contains("speak http and not https"), "{reason}");
}
