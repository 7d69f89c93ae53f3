//! Requests that no good client sends, and more connections than there may be.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::raw::{connect, exchange, read_response, text};
use super::scripted::Scripted;
use super::{Running, requests};
use crate::serve::server::{Patience, ServerOptions};

#[test]
fn what_is_no_request_is_answered_with_what_is_wrong() {
    let server = Running::unix(Scripted::patient(10));
    server.opened();
    let nested = format!(
        r#"{{"requests": {}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let nested_value = format!(
        r#"{{"requests": [{{"archive": 1, "kernel": "saxpy", "candidate": {}1{}}}]}}"#,
        r#"{"a":"#.repeat(100_000),
        "}".repeat(100_000)
    );
    let job = |candidate: &str| {
        format!(
            r#"{{"requests": [{{"archive": 1, "kernel": "saxpy", "candidate": {candidate}}}]}}"#
        )
    };
    let many: Vec<String> = (0..1025)
        .map(|_| r#"{"archive": 1, "kernel": "saxpy", "candidate": {}}"#.to_owned())
        .collect();
    let many = format!(r#"{{"requests": [{}]}}"#, many.join(","));
    let long_name = format!(r#"{{"group": "{}", "requests": []}}"#, "g".repeat(129));
    let cases: &[(&str, &str, &str, u16, &str, &str)] = &[
        ("POST", "/v1/jobs", &many, 413, "too_large", "1025"),
        ("POST", "/v1/jobs", "", 400, "bad_request", "EOF"),
        ("POST", "/v1/jobs", "{", 400, "bad_request", "EOF"),
        (
            "POST",
            "/v1/jobs",
            "\0\u{1}\u{2}",
            400,
            "bad_request",
            "expected value",
        ),
        ("POST", "/v1/jobs", "null", 400, "bad_request", "null"),
        ("POST", "/v1/jobs", &nested, 400, "bad_request", "requests"),
        (
            "POST",
            "/v1/jobs",
            &nested_value,
            400,
            "bad_request",
            "requests[0].candidate",
        ),
        (
            "POST",
            "/v1/jobs",
            &job(r#"{"launch": {"block": [1e999, 1, 1]}}"#),
            400,
            "bad_request",
            "number out of range",
        ),
        (
            "POST",
            "/v1/jobs",
            &job(r#"{"launch": {"block": [4294967296, 1, 1]}}"#),
            400,
            "bad_request",
            "requests[0].candidate.launch.block[0]",
        ),
        (
            "POST",
            "/v1/jobs",
            &job(r#"{"launch": {"block": [-1, 1, 1]}}"#),
            400,
            "bad_request",
            "requests[0].candidate.launch.block[0]",
        ),
        (
            "POST",
            "/v1/jobs",
            &job(r#"{"launch": {"blok": [1, 1, 1]}}"#),
            400,
            "bad_request",
            "unknown field `blok`",
        ),
        (
            "POST",
            "/v1/jobs",
            &job(r#"{"code": {"cubin": "*"}}"#),
            400,
            "bad_request",
            "requests[0].candidate.code",
        ),
        (
            "POST",
            "/v1/jobs",
            r#"{"requests": []} {"#,
            400,
            "bad_request",
            "trailing",
        ),
        ("POST", "/v1/jobs", &long_name, 400, "bad_request", "group"),
        (
            "POST",
            "/v1/archives",
            r#"{"path": "relative.r3"}"#,
            422,
            "archive",
            "absolute",
        ),
        (
            "GET",
            "/v1/archives/x/kernels",
            "",
            404,
            "no_archive",
            "`x`",
        ),
        (
            "GET",
            "/v1/archives/4294967296/kernels",
            "",
            404,
            "no_archive",
            "4294967296",
        ),
        ("GET", "/v1/jobs/-1", "", 404, "no_job", "`-1`"),
        (
            "GET",
            "/v1/jobs/18446744073709551616",
            "",
            404,
            "no_job",
            "18446744073709551616",
        ),
        (
            "GET",
            "/v1/jobs/1?wait=soon",
            "",
            400,
            "bad_request",
            "wait",
        ),
        (
            "GET",
            "/v1/events?after=-1",
            "",
            400,
            "bad_request",
            "after",
        ),
        ("GET", "/v1/events?afer=1", "", 400, "bad_request", "afer"),
        ("GET", "/v1/events?after=5", "", 410, "other_server", "5"),
        ("GET", "/v2", "", 404, "no_endpoint", "/v2"),
        (
            "GET",
            "/v1/../../etc/passwd",
            "",
            404,
            "no_endpoint",
            "passwd",
        ),
        ("GET", "/v1/jobs/%ff", "", 400, "bad_request", "UTF-8"),
        ("GET", "/v1/jobs/%00", "", 404, "no_job", ""),
        ("PUT", "/v1/jobs", "", 405, "method", "PUT"),
        ("DELETE", "/v1/shutdown", "", 405, "method", "DELETE"),
    ];
    for (method, path, body, status, code, says) in cases {
        let answer = exchange(&server, &text(method, path, "", body));
        let what = format!("{method} {path}: {:.300}", answer.body);
        assert_eq!(answer.status, *status, "{what}");
        assert_eq!(answer.code(), *code, "{what}");
        assert!(answer.body.contains(says), "{what}");
        assert!(answer.body.len() < 8 << 10, "{what}");
    }
    let other_method = exchange(&server, &text("PUT", "/v1/jobs", "", ""));
    assert!(
        other_method.head.contains("allow: post"),
        "{}",
        other_method.head
    );
    assert_eq!(server.client().status().unwrap().evaluator.queued, 0);
}

#[test]
fn what_is_no_http_closes_its_connection_and_nothing_else() {
    let server = Running::unix(Scripted::patient(10));
    let client = server.client();
    let long_header = format!("GET /v1 HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
    let many_headers = format!("GET /v1 HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000));
    let cases: &[(&[u8], u16)] = &[
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"\0\0\0\0\0\0\0\0\r\n\r\n", 400),
        (b"GET /v1\r\n\r\n", 400),
        (b"GET /v1 HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (
            b"POST /v1/jobs HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            400,
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (long_header.as_bytes(), 431),
        (many_headers.as_bytes(), 431),
    ];
    for (bytes, status) in cases {
        let answer = exchange(&server, bytes);
        let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
        assert!(
            [*status, 0].contains(&answer.status),
            "{beginning:?}: {answer:?}"
        );
        client.status().unwrap();
    }
}

#[test]
fn a_body_larger_than_the_limit_is_refused_before_it_is_sent_and_while_it_is() {
    let server = Running::unix(Scripted::patient(10));
    let head = b"POST /v1/jobs HTTP/1.1\r\nhost: test\r\ncontent-length: 1073741824\r\n\r\n";
    let answer = exchange(&server, head);
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));

    let mut stream = connect(&server);
    let head = b"POST /v1/jobs HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head).unwrap();
    let mut part = b"100000\r\n".to_vec();
    part.resize(part.len() + (1 << 20), b' ');
    part.extend_from_slice(b"\r\n");
    // Until the server closes it.
    for _ in 0..1024 {
        if stream.write_all(&part).is_err() {
            break;
        }
    }
    let answer = read_response(&mut *stream);
    assert_eq!(answer.status, 413, "{answer:?}");
}

/// A server that waits half a second for heads and bodies.
fn impatient(connections: usize) -> Running {
    let short = Duration::from_millis(500);
    let options = ServerOptions {
        connections,
        patience: Patience {
            head: short,
            body: short,
            ..Patience::default()
        },
        ..ServerOptions::default()
    };
    Running::start(Scripted::patient(10), None, options)
}

#[test]
fn half_a_request_is_waited_for_a_while_only() {
    let server = impatient(10);
    for half in [
        "",
        "POST /v1/jobs HTT",
        "POST /v1/jobs HTTP/1.1\r\nhost: test\r\n",
    ] {
        let mut stream = connect(&server);
        stream.write_all(half.as_bytes()).unwrap();
        // Closed by the server, with or without a word.
        let answer = read_response(&mut *stream);
        assert!([0, 408].contains(&answer.status), "{half:?}: {answer:?}");
    }
    let mut stream = connect(&server);
    let half =
        "POST /v1/jobs HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: 10\r\n\r\n{";
    stream.write_all(half.as_bytes()).unwrap();
    let answer = read_response(&mut *stream);
    assert_eq!((answer.status, answer.code().as_str()), (408, "slow"));
}

#[test]
fn more_connections_than_there_may_be_are_refused_and_come_in_later() {
    let server = impatient(20);
    let began = Instant::now();
    let (mut idle, answer) = loop {
        let idle: Vec<_> = (0..20).map(|_| connect(&server)).collect();
        let mut refused = connect(&server);
        let _ = refused.write_all(&text("GET", "/v1", "", ""));
        let answer = read_response(&mut *refused);
        // Unless this machine is so slow that the first ones were closed already.
        if answer.status == 503 || began.elapsed() > Duration::from_secs(30) {
            break (idle, answer);
        }
    };
    assert_eq!(answer.code(), "busy");
    assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
    // The idle ones are closed by and by.
    for stream in &mut idle {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
    }
    let began = Instant::now();
    while crate::serve::client::Client::connect(server.address.clone(), None).is_err() {
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn five_hundred_connections_leave_the_work_alone() {
    let options = ServerOptions {
        patience: Patience {
            head: Duration::from_secs(60),
            ..Patience::default()
        },
        ..ServerOptions::default()
    };
    let server = Running::start(Scripted::at_once(0), None, options);
    let (client, archive) = server.opened();
    let mut crowd: Vec<_> = (0..500).map(|_| connect(&server)).collect();
    for stream in &mut crowd {
        // Refused ones may be closed already.
        let _ = stream.write_all(&text("GET", "/v1/status", "", ""));
    }
    let statuses: Vec<u16> = crowd
        .iter_mut()
        .map(|stream| read_response(&mut **stream).status)
        .collect();
    assert!(
        statuses.iter().all(|status| [200, 503].contains(status)),
        "{statuses:?}"
    );
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert!(served >= 200, "{served}");
    drop(crowd);
    let batch = requests(archive, 10);
    // Its own connection may have been closed in the meantime, and the crowd be still there.
    let began = Instant::now();
    let submitted = loop {
        match client.submit(&batch, None) {
            Ok(submitted) => break submitted,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(30), "{error}"),
        }
    };
    assert_eq!(submitted.jobs.len(), 10);
}
