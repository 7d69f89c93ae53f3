//! What a client can do, and what it is told.

use std::time::Duration;

use r3_archive::model::LaunchId;

use super::raw::{exchange, text};
use super::scripted::Scripted;
use super::{Running, request, requests};
use crate::evaluate::candidate::CandidateCode;
use crate::evaluate::evaluator::{ArchiveId, JobId, JobState};
use crate::evaluate::outcome::Verdict;
use crate::evaluate::plan::Plan;
use crate::serve::address::Address;
use crate::serve::client::{Client, ClientError, EventsFrom, Next, Update};
use crate::serve::problem::Code;
use crate::serve::protocol::ArtifactRequest;
use crate::serve::server::{ServeError, Server, ServerOptions};
use crate::serve::token::Token;

fn code(error: ClientError) -> Code {
    match error {
        ClientError::Refused(problem) => problem.code,
        other => panic!("{other}"),
    }
}

/// Words for the states of some updates.
fn told(updates: &[Update]) -> Vec<String> {
    updates
        .iter()
        .map(|update| match update {
            Update::Event(event) => {
                let state = match &event.state {
                    JobState::Done(outcome) => outcome.verdict.word(),
                    JobState::Queued => "queued",
                    JobState::Compiling => "compiling",
                    JobState::Waiting => "waiting",
                    JobState::Running => "running",
                };
                format!("{} {} {state}", event.sequence, event.job.0)
            }
            Update::Missed { from, to } => format!("missed {from} to {to}"),
        })
        .collect()
}

#[test]
fn a_candidate_goes_its_way_over_a_unix_socket_and_over_tcp() {
    for mut server in [
        Running::unix(Scripted::at_once(0)),
        Running::tcp(Scripted::at_once(0)),
    ] {
        let (client, archive) = server.opened();
        assert_eq!(client.open(&server.archive()).unwrap().archive, archive);
        assert_eq!(client.archives().unwrap().len(), 1);
        assert_eq!(client.kernels(archive).unwrap()[0].name, "saxpy");
        assert_eq!(client.describe(archive, "saxpy").unwrap().max_threads, 1024);
        let prepared = client.prepare(archive, "saxpy", &[LaunchId(1)]).unwrap();
        assert_eq!(prepared[0].launch, LaunchId(1));

        let wanted = ArtifactRequest {
            archive,
            kernel: "saxpy".to_owned(),
            candidate: request(archive, 1).candidate,
            plan: Plan::default(),
        };
        assert_eq!(client.artifact(&wanted).unwrap().bytes, b".version 9.0");

        let submitted = client.submit(&requests(archive, 2), Some("run")).unwrap();
        assert_eq!(submitted.jobs, [JobId(1), JobId(2)]);
        assert_eq!(submitted.problem, None);
        let report = client.job(JobId(2), Some(Duration::from_secs(60))).unwrap();
        assert_eq!(report.group.as_deref(), Some("run"));
        assert_eq!(report.candidate, request(archive, 2).candidate.id());
        assert!(matches!(
            report.event.unwrap().state,
            JobState::Done(outcome) if outcome.candidate == report.candidate
        ));

        let events: Vec<Update> = client
            .events(EventsFrom::default())
            .take(10)
            .map(Result::unwrap)
            .collect();
        assert_eq!(
            told(&events),
            [
                "1 1 queued",
                "2 1 compiling",
                "3 1 waiting",
                "4 1 running",
                "5 1 right",
                "6 2 queued",
                "7 2 compiling",
                "8 2 waiting",
                "9 2 running",
                "10 2 right",
            ]
        );

        let status = client.status().unwrap();
        assert_eq!(status.evaluator.done, 2);
        assert_eq!(status.server.sequence, 10);
        assert_eq!(status.server.process, std::process::id());
        let metrics = client.metrics().unwrap();
        assert!(
            metrics.contains("\nr3_jobs_done_total{verdict=\"right\"} 2\n"),
            "{metrics}"
        );
        assert!(metrics.contains("# TYPE r3_jobs gauge\n"), "{metrics}");

        client.shutdown().unwrap();
        server.end();
        assert!(server.backend.has_ended());
    }
}

#[test]
fn a_server_that_ends_cancels_jobs_tells_readers_and_leaves_no_file() {
    let mut server = Running::unix(Scripted::patient(10));
    let (client, archive) = server.opened();
    client.submit(&requests(archive, 1), None).unwrap();
    let mut events = client.events(EventsFrom::default());
    let first = events.next().unwrap().unwrap();
    assert_eq!(told(&[first]), ["1 1 queued"]);
    let reader = std::thread::spawn(move || events.map(Result::unwrap).collect::<Vec<_>>());
    client.shutdown().unwrap();
    server.end();
    assert_eq!(told(&reader.join().unwrap()), ["2 1 cancelled"]);
    assert_eq!(std::fs::read_dir(server.folder.path()).unwrap().count(), 0);
    assert!(client.status().unwrap_err().is_gone());
}

#[test]
fn a_batch_is_taken_as_far_as_the_queue_has_room_and_the_answer_says_how_far() {
    let server = Running::unix(Scripted::patient(3));
    let (client, archive) = server.opened();
    let batch = requests(archive, 5);
    let first = client.submit(&batch, None).unwrap();
    assert_eq!(first.jobs, [JobId(1), JobId(2), JobId(3)]);
    assert!(first.is_full());
    assert_eq!(first.retry_after, Some(Duration::from_secs(1)));

    let again = client.submit(&batch[3..], None).unwrap();
    assert!(again.jobs.is_empty() && again.is_full());

    server.backend.finish(JobId(2), Verdict::Wrong);
    let rest = client.submit(&batch[3..], None).unwrap();
    assert_eq!(rest.jobs, [JobId(4)]);
    assert!(rest.is_full());
    let report = client.job(JobId(4), None).unwrap();
    assert_eq!(report.candidate, batch[3].candidate.id());
}

#[test]
fn a_request_that_is_refused_stops_its_batch_there() {
    let server = Running::unix(Scripted::patient(10));
    let (client, archive) = server.opened();
    let mut batch = requests(archive, 3);
    batch[1].kernel = "other".to_owned();
    let submitted = client.submit(&batch, None).unwrap();
    assert_eq!(submitted.jobs, [JobId(1)]);
    let problem = submitted.problem.unwrap();
    assert_eq!(problem.code, Code::Kernel);
    assert!(
        problem
            .message
            .contains("request 1: no kernel is called other"),
        "{problem}"
    );

    batch[0].archive = ArchiveId(9);
    assert_eq!(
        code(client.submit(&batch, None).unwrap_err()),
        Code::NoArchive
    );
    assert_eq!(
        code(client.submit(&[], None).unwrap_err()),
        Code::BadRequest
    );
    assert_eq!(client.status().unwrap().evaluator.queued, 1);
}

#[test]
fn more_than_a_batch_goes_in_several_and_stops_where_one_is_not_taken() {
    let server = Running::unix(Scripted::patient(2500));
    let (client, archive) = server.opened();
    let submitted = client.submit(&requests(archive, 3000), None).unwrap();
    assert_eq!(submitted.jobs, (1..=2500).map(JobId).collect::<Vec<_>>());
    assert!(submitted.is_full());

    let server = Running::unix(Scripted::patient(2500));
    let (client, archive) = server.opened();
    let mut batch = requests(archive, 2000);
    batch[1024].kernel = "other".to_owned();
    let submitted = client.submit(&batch, None).unwrap();
    assert_eq!(submitted.jobs.len(), 1024);
    assert_eq!(submitted.problem.unwrap().code, Code::Kernel);

    let mut large = request(archive, 1);
    large.candidate.code = CandidateCode::Ptx("a".repeat(65 << 20));
    assert_eq!(
        code(client.submit(&[large], None).unwrap_err()),
        Code::TooLarge
    );
    client.status().unwrap();
}

#[test]
fn cancelling_ends_what_is_not_done_and_a_group_at_once() {
    let server = Running::unix(Scripted::patient(10));
    let (client, archive) = server.opened();
    let batch = requests(archive, 2);
    client.submit(&batch, Some("one")).unwrap();
    client.submit(&batch, Some("two")).unwrap();
    server.backend.finish(JobId(1), Verdict::Right);
    let cancelled = client.cancel(&[JobId(1), JobId(3), JobId(99)]).unwrap();
    assert_eq!(cancelled, [JobId(3)]);
    assert_eq!(client.cancel_group("one").unwrap(), [JobId(2)]);
    assert_eq!(client.cancel_group("nobody's").unwrap(), []);

    let from = EventsFrom {
        group: Some("one".to_owned()),
        done: true,
        ..EventsFrom::default()
    };
    let events: Vec<Update> = client.events(from).take(2).map(Result::unwrap).collect();
    assert_eq!(told(&events), ["5 1 right", "7 2 cancelled"]);
}

#[test]
fn waiting_for_an_event_ends_with_it_or_with_the_time() {
    let server = Running::unix(Scripted::patient(10));
    let (client, archive) = server.opened();
    let mut events = client.events(EventsFrom::default());
    assert_eq!(
        events.next_within(Duration::from_millis(20)).unwrap(),
        Next::Nothing
    );
    client.submit(&requests(archive, 1), None).unwrap();
    assert!(matches!(
        events.next_within(Duration::from_secs(60)).unwrap(),
        Next::Update(Update::Event(_))
    ));

    // The same by hand.
    let answer = exchange(&server, &text("GET", "/v1/events?wait=60", "", ""));
    assert!(
        answer
            .body
            .contains(r#"{"event":{"sequence":1,"job":1,"state":"queued"}}"#),
        "{}",
        answer.body
    );
    assert!(
        answer.body.contains(r#"{"end":{"sequence":1}}"#),
        "{}",
        answer.body
    );
    let answer = exchange(&server, &text("GET", "/v1/events?after=1&wait=0", "", ""));
    assert!(!answer.body.contains("event"), "{}", answer.body);
    assert!(
        answer.body.contains(r#"{"end":{"sequence":1}}"#),
        "{}",
        answer.body
    );

    let waiting = {
        let client = client.clone();
        std::thread::spawn(move || client.job(JobId(1), Some(Duration::from_secs(60))).unwrap())
    };
    server.backend.finish(JobId(1), Verdict::Fault);
    let report = waiting.join().unwrap();
    assert!(matches!(report.event.unwrap().state, JobState::Done(_)));
}

#[test]
fn errors_name_what_is_missing() {
    let server = Running::unix(Scripted::patient(10));
    let client = server.client();
    let missing = server.folder.path().join("missing.r3");
    let error = client.open(&missing).unwrap_err();
    assert!(error.to_string().contains("missing.r3"), "{error}");
    assert_eq!(code(error), Code::Archive);
    assert_eq!(
        code(client.kernels(ArchiveId(7)).unwrap_err()),
        Code::NoArchive
    );
    assert_eq!(code(client.job(JobId(7), None).unwrap_err()), Code::NoJob);
    assert_eq!(code(client.job(JobId(0), None).unwrap_err()), Code::NoJob);
    let archive = client.open(&server.archive()).unwrap().archive;
    assert_eq!(
        code(client.describe(archive, "other").unwrap_err()),
        Code::Kernel
    );
}

#[test]
fn tcp_needs_a_token_and_nothing_is_answered_without_it() {
    let open = ServerOptions {
        listen: vec![Address::Tcp("127.0.0.1".to_owned(), 0)],
        ..ServerOptions::default()
    };
    let backend = std::sync::Arc::new(Scripted::patient(1));
    assert!(matches!(
        Server::start(backend, &open),
        Err(ServeError::NoToken(_))
    ));

    let server = Running::tcp(Scripted::patient(1));
    let other = Token::generate().unwrap();
    for token in [None, Some(other)] {
        let error = Client::connect(server.address.clone(), token).unwrap_err();
        assert_eq!(code(error), Code::Unauthorized);
    }
    let secret = server.token.as_ref().unwrap().secret();
    for (scheme, status) in [
        ("Bearer", 200),
        ("bearer", 200),
        ("Basic", 401),
        ("Bearer ", 401),
    ] {
        let header = format!("authorization: {scheme} {secret}\r\n");
        let answer = exchange(&server, &text("GET", "/v1", &header, ""));
        assert_eq!(answer.status, status, "{scheme}");
    }
    // The body is not even waited for.
    let head = b"POST /v1/jobs HTTP/1.1\r\nhost: test\r\ncontent-length: 1000000000\r\n\r\n";
    let answer = exchange(&server, head);
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (401, "unauthorized")
    );
    for path in ["/v1/shutdown", "/nothing", "/v1/events"] {
        let answer = exchange(&server, &text("GET", path, "", ""));
        assert_eq!(answer.status, 401, "{path}");
    }
    assert!(server.client().status().unwrap().server.unauthorized >= 8);
}

#[test]
fn a_unix_socket_may_have_a_token_too() {
    let options = ServerOptions {
        token: Some(Token::generate().unwrap()),
        ..ServerOptions::default()
    };
    let server = Running::start(Scripted::patient(1), None, options);
    let error = Client::connect(server.address.clone(), None).unwrap_err();
    assert_eq!(code(error), Code::Unauthorized);
    server.client().status().unwrap();
}
