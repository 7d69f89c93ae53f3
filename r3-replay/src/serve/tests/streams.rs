//! Readers that are slow, go away, or come late.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::raw::connect;
use super::scripted::Scripted;
use super::{Running, requests};
use crate::evaluate::evaluator::JobId;
use crate::serve::address::Address;
use crate::serve::client::{Client, ClientError, EventsFrom, Next, Update};
use crate::serve::problem::Code;
use crate::serve::protocol::Line;
use crate::serve::server::{Patience, ServerOptions};

const REQUEST: &[u8] = b"GET /v1/events HTTP/1.1\r\nhost: test\r\n\r\n";

/// Waits until something is so. It is a failure of the test when it never is.
fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_reader_that_does_not_read_holds_up_nobody_and_is_told_what_it_missed() {
    let options = ServerOptions {
        history: 256 << 10,
        ..ServerOptions::default()
    };
    let server = Running::start(Scripted::at_once(4 << 10), None, options);
    let (client, archive) = server.opened();
    let mut slow = connect(&server);
    slow.write_all(REQUEST).unwrap();
    // 40 MB of outcomes, of which some fit into the socket and 256 KiB are kept.
    for _ in 0..10 {
        assert_eq!(
            client
                .submit(&requests(archive, 1000), None)
                .unwrap()
                .problem,
            None
        );
    }
    until(|| client.status().unwrap().server.sequence == 50_000);
    let status = client.status().unwrap();
    assert_eq!(status.evaluator.done, 10_000);
    assert!(status.server.event_bytes <= 256 << 10);

    let mut expected = 1;
    let mut missed = 0;
    for line in BufReader::new(slow).lines() {
        let line = line.unwrap();
        // Sizes of chunks, ends of chunks, and the head.
        if !line.starts_with('{') {
            continue;
        }
        match serde_json::from_str(&line).unwrap() {
            Line::Event(event) => {
                assert_eq!(event.sequence, expected);
                expected += 1;
            }
            Line::Missed { from, to } => {
                assert_eq!(from, expected);
                expected = to + 1;
                missed += to + 1 - from;
            }
            Line::Alive { .. } | Line::End { .. } => {}
        }
        if expected > 50_000 {
            break;
        }
    }
    assert!(missed > 10_000, "{missed}");
}

#[test]
fn an_answer_that_nobody_reads_is_given_up() {
    let options = ServerOptions {
        patience: Patience {
            stall: Duration::from_millis(200),
            ..Patience::default()
        },
        ..ServerOptions::default()
    };
    let server = Running::start(Scripted::at_once(64 << 10), None, options);
    let (client, archive) = server.opened();
    let mut slow = connect(&server);
    slow.write_all(REQUEST).unwrap();
    client.submit(&requests(archive, 200), None).unwrap();
    // The client has one connection.
    until(|| client.status().unwrap().server.connections == 1);
}

#[test]
fn a_late_reader_begins_with_what_is_kept_and_old_outcomes_are_gone() {
    let options = ServerOptions {
        history: 64 << 10,
        ..ServerOptions::default()
    };
    let server = Running::start(Scripted::at_once(1 << 10), None, options);
    let (client, archive) = server.opened();
    client.submit(&requests(archive, 1000), None).unwrap();
    until(|| client.status().unwrap().server.sequence == 5000);
    let oldest = client.status().unwrap().server.oldest;
    let mut events = client.events(EventsFrom::default());
    match events.next().unwrap().unwrap() {
        Update::Missed { from: 1, to } => assert_eq!(to + 1, oldest),
        other => panic!("{other:?}"),
    }
    match events.next().unwrap().unwrap() {
        Update::Event(event) => assert_eq!(event.sequence, oldest),
        other => panic!("{other:?}"),
    }
    match client.job(JobId(1), None).unwrap_err() {
        ClientError::Refused(problem) => assert_eq!(problem.code, Code::JobGone),
        other => panic!("{other}"),
    }
    client.job(JobId(1000), None).unwrap();
}

#[test]
fn after_a_broken_connection_events_go_on_where_they_were() {
    let server = Running::tcp(Scripted::at_once(100));
    let Address::Tcp(host, port) = server.address.clone() else {
        panic!();
    };
    // Something between that closes each connection after some bytes.
    let between = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp("127.0.0.1".to_owned(), between.local_addr().unwrap().port());
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
    std::thread::spawn(move || {
        for client in between.incoming() {
            CONNECTIONS.fetch_add(1, Ordering::Relaxed);
            let mut client = client.unwrap();
            let mut server = TcpStream::connect((host.as_str(), port)).unwrap();
            let mut up = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut up.0, &mut up.1));
            std::thread::spawn(move || {
                let mut some = (&mut server).take(20_000);
                let _ = std::io::copy(&mut some, &mut client);
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    let client = Client::connect(address, server.token.clone()).unwrap();
    let (direct, archive) = server.opened();
    direct.submit(&requests(archive, 400), None).unwrap();
    let sequences: Vec<u64> = client
        .events(EventsFrom::default())
        .take(2000)
        .map(|update| match update.unwrap() {
            Update::Event(event) => event.sequence,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sequences, (1..=2000).collect::<Vec<u64>>());
    assert!(CONNECTIONS.load(Ordering::Relaxed) > 3);
}

#[test]
fn a_server_that_was_started_anew_is_told_from_the_old_one() {
    let mut first = Running::unix(Scripted::at_once(0));
    let (client, archive) = first.opened();
    client.submit(&requests(archive, 3), None).unwrap();
    let mut events = client.events(EventsFrom::default());
    for _ in 0..15 {
        events.next().unwrap().unwrap();
    }
    let address = first.address.clone();
    let reading = std::thread::spawn(move || {
        let ended = events.next_within(Duration::from_secs(60)).unwrap();
        assert_eq!(ended, Next::Ended);
    });
    first.end();
    reading.join().unwrap();

    let second = Running::start(
        Scripted::at_once(0),
        Some(address),
        ServerOptions::default(),
    );
    let from = EventsFrom {
        after: 15,
        ..EventsFrom::default()
    };
    let error = client.events(from.clone()).next().unwrap().unwrap_err();
    assert!(error.is_other_server(), "{error}");
    // Also somebody who does not know that it is another one.
    let error = second.client().events(from).next().unwrap().unwrap_err();
    assert!(error.is_other_server(), "{error}");
}
