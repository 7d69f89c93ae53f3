//! Models over real connections: to a server of the tests, which answers, breaks, stalls, goes away and comes back.

use std::time::Duration;

use r3_models::account::Totals;
use r3_models::chat::{
    Answer as Answered, Ask, Embed, Failure, Finish, Finished, Message, Question, Reply, Request,
    Role, State,
};
use r3_models::pool::Models;
use r3_models::settings::{Endpoint, Key, Model, Part, Pauses, Price, Settings};
use serde_json::json;

#[path = "../../tests/src/models/http.rs"]
mod http;
#[path = "http/local.rs"]
mod local;

use http::{Answer, Asked, Server, Then, completion, pieces};

/// Nothing here takes as long as this by intent.
const PATIENCE: Duration = Duration::from_secs(60);

fn settings(url: &str) -> Settings {
    let mut endpoint = Endpoint::new(url);
    endpoint.key = Some(Key::new("sk-secret"));
    endpoint.pauses = Pauses {
        first: 0.01,
        most: 0.05,
    };
    let mut model = Model::new("m", Part::Accurate);
    model.id = Some("vendor/m".to_owned());
    model.price = Some(Price {
        input: 1.0,
        cached: Some(0.1),
        output: 2.0,
    });
    Settings {
        endpoints: vec![endpoint],
        models: vec![model, Model::new("vectors", Part::Embedding)],
        ..Settings::default()
    }
}

fn models(settings: &Settings) -> Models {
    Models::new(settings, Totals::default()).expect("models")
}

fn question(text: &str) -> Question {
    Question::Chat(Request {
        model: "m".to_owned(),
        messages: vec![Message {
            role: Role::User,
            content: text.to_owned(),
        }],
        max_tokens: Some(64),
        temperature: Some(0.25),
        seed: Some(1),
    })
}

fn one(models: &mut Models) -> Finished {
    let mut finished = models.finished(PATIENCE);
    assert_eq!(finished.len(), 1, "{finished:?}, {:?}", models.state());
    finished.remove(0)
}

fn ask(models: &mut Models, text: &str) -> Finished {
    let ticket = models.submit(question(text));
    let finished = one(models);
    assert_eq!(finished.ticket, ticket);
    finished
}

fn reply(finished: Finished) -> Reply {
    match finished.outcome {
        Ok(Answered::Reply(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

/// The reply to one question that the server answers in a way.
fn answered(answerer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> (Finished, Vec<Asked>) {
    let server = Server::start(answerer);
    let finished = ask(&mut models(&settings(&server.url())), "hello");
    (finished, server.asked())
}

#[test]
fn a_streamed_answer_comes_with_its_tokens_and_its_price() {
    let (finished, asked) =
        answered(|_| Answer::events(pieces("some text ∂x", 3, "stop", 1000, 800, 50)));
    assert!((finished.spent.cost - (200.0 + 80.0 + 100.0) / 1e6).abs() < 1e-12);
    assert_eq!(finished.spent.usage.cached_share(), Some(0.8));
    let reply = reply(finished);
    assert_eq!(
        (reply.text.as_str(), reply.finish),
        ("some text ∂x", Finish::Stop)
    );
    assert!(reply.first_token.is_some());
    let [asked] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.headers["authorization"], "Bearer sk-secret");
    assert_eq!(
        asked.body,
        json!({"model": "vendor/m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 64, "temperature": 0.25,
            "seed": 1, "stream": true, "stream_options": {"include_usage": true}})
    );
}

#[test]
fn an_answer_that_comes_whole_though_pieces_were_asked_for_is_taken() {
    let (finished, _) = answered(|_| Answer::json(&completion("text", 10, 0, 5)));
    assert_eq!(reply(finished).text, "text");
}

#[test]
fn a_stream_that_does_not_say_what_it_is_is_taken() {
    let body = pieces("text", 2, "stop", 1, 0, 1)
        .iter()
        .map(|data| format!("data: {data}\r\n\r\n"))
        .collect::<String>();
    let (finished, _) = answered(move |_| Answer::Whole {
        status: 200,
        headers: Vec::new(),
        kind: "text/plain",
        body: format!("\r\n: hello\r\n\r\n{body}"),
    });
    assert_eq!(reply(finished).text, "text");
}

#[test]
fn an_answer_that_is_not_streamed_is_asked_for_as_such() {
    let server = Server::start(|_| Answer::json(&completion("text", 10, 4, 5)));
    let mut settings = settings(&server.url());
    settings.endpoints[0].stream = false;
    let reply = reply(ask(&mut models(&settings), "hello"));
    assert_eq!((reply.text.as_str(), reply.first_token), ("text", None));
    let asked = server.asked();
    assert_eq!(asked[0].body["stream"], json!(false));
    assert_eq!(asked[0].body.get("stream_options"), None);
}

#[test]
fn what_breaks_once_is_tried_again() {
    let first: [fn() -> Answer; 6] = [
        || Answer::status(500, &json!({"error": {"message": "internal"}})),
        || Answer::page(502, "502 Bad Gateway"),
        || Answer::page(200, "Log in to the network"),
        || Answer::Cut,
        || Answer::Pieces {
            pieces: vec!["data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n".to_owned()],
            then: Then::Cut,
        },
        || Answer::json(&json!({"error": {"message": "overloaded", "code": 503}})),
    ];
    for (case, first) in first.into_iter().enumerate() {
        let (finished, asked) = answered(move |asked| match asked.number {
            0 => first(),
            _ => Answer::events(pieces("text", 3, "stop", 10, 0, 5)),
        });
        assert_eq!(
            (finished.spent.requests, finished.spent.failed),
            (2, 1),
            "{case}"
        );
        let reply = reply(finished);
        assert_eq!((reply.text.as_str(), reply.retries), ("text", 1), "{case}");
        assert_eq!(asked[0].body, asked[1].body, "the same is asked again");
    }
}

/// Comments keep a connection open; tokens are what counts.
#[test]
fn an_answer_that_stalls_is_given_up_though_its_connection_lives() {
    for then in [Then::Stall, Then::KeepAlive] {
        let server = Server::start(move |asked| match asked.number {
            0 => Answer::Pieces {
                pieces: vec![
                    "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n".to_owned(),
                ],
                then,
            },
            _ => Answer::events(pieces("text", 3, "stop", 10, 0, 5)),
        });
        let mut settings = settings(&server.url());
        settings.endpoints[0].timeouts.between_tokens = 0.05;
        let finished = ask(&mut models(&settings), "hello");
        assert!(
            finished.spent.usage.estimated,
            "what it had written may be charged"
        );
        assert_eq!(reply(finished).text, "text");
    }
}

#[test]
fn a_server_that_takes_a_request_and_says_nothing_is_an_outage_and_the_question_outlives_it() {
    let server = Server::start(|asked| match asked.number {
        0..4 => Answer::Stall,
        _ => Answer::events(pieces("text", 3, "stop", 10, 0, 5)),
    });
    let mut settings = settings(&server.url());
    settings.endpoints[0].timeouts.first_token = 0.05;
    let mut models = models(&settings);
    assert_eq!(reply(ask(&mut models, "hello")).text, "text");
    // Twice itself, twice a small question, then both were answered.
    assert_eq!(server.asked().len(), 6);
    assert_eq!(models.state(), State::Up);
}

#[test]
fn a_server_that_goes_away_and_comes_back_costs_no_question() {
    let server = Server::start(|_| Answer::events(pieces("text", 3, "stop", 10, 0, 5)));
    let mut models = models(&settings(&server.url()));
    assert!(ask(&mut models, "before").outcome.is_ok());
    server.set_up(false);
    // Its port is closed when a connection is refused.
    let address = server.url().replace("http://", "").replace("/v1", "");
    while std::net::TcpStream::connect(&address).is_ok() {
        std::thread::yield_now();
    }
    let (woken, wakes) = std::sync::mpsc::channel();
    models.wake_by(Box::new(move || {
        let _ = woken.send(());
    }));
    for number in 0..6 {
        models.submit(question(&format!("during {number}")));
    }
    let reason = loop {
        wakes
            .recv_timeout(PATIENCE)
            .expect("somebody is woken by an outage");
        if let State::Down {
            reason,
            needs_somebody,
            ..
        } = models.state()
        {
            assert!(!needs_somebody);
            break reason;
        }
    };
    assert!(reason.contains("cannot be reached"), "{reason}");
    assert_eq!(models.open(), 6);
    server.set_up(true);
    let mut came = 0;
    while came < 6 {
        let finished = models.finished(PATIENCE);
        assert!(
            !finished.is_empty() && finished.iter().all(|f| f.outcome.is_ok()),
            "{finished:?}"
        );
        came += finished.len();
    }
    assert_eq!(models.state(), State::Up);
    assert_eq!(
        models.totals().all().requests - models.totals().all().failed,
        server.asked().len() as u64
    );
}

#[test]
fn a_key_that_is_refused_is_an_outage_that_needs_somebody_and_never_shows_the_key() {
    let server = Server::start(|asked| {
        let key = &asked.headers["authorization"];
        Answer::status(
            401,
            &json!({"error": {"message": format!("Incorrect API key provided: {key}"), "code": "invalid_api_key"}}),
        )
    });
    let mut models = models(&settings(&server.url()));
    models.submit(question("hello"));
    loop {
        assert!(models.finished(Duration::from_millis(5)).is_empty());
        if let State::Down {
            reason,
            needs_somebody,
            ..
        } = models.state()
        {
            assert!(needs_somebody);
            assert!(
                reason.contains("Incorrect API key") && !reason.contains("secret"),
                "{reason}"
            );
            break;
        }
    }
}

#[test]
fn a_redirection_is_not_followed() {
    let elsewhere = Server::start(|_| Answer::json(&completion("stolen", 1, 0, 1)));
    let target = format!("{}/chat/completions", elsewhere.url());
    let server = Server::start(move |_| Answer::Whole {
        status: 307,
        headers: vec![("Location".to_owned(), target.clone())],
        kind: "text/plain",
        body: String::new(),
    });
    let mut models = models(&settings(&server.url()));
    models.submit(question("hello"));
    while models.state() == State::Up {
        assert!(models.finished(Duration::from_millis(5)).is_empty());
    }
    assert!(elsewhere.asked().is_empty());
}

#[test]
fn what_a_service_does_not_know_is_left_out_by_itself() {
    let server = Server::start(|asked| {
        let unknown = |field: &str| {
            let message = format!(
                "Unsupported parameter: '{field}' is not supported with this model. Use 'max_completion_tokens' instead."
            );
            Answer::status(
                400,
                &json!({"error": {"message": message, "param": field, "code": "unsupported_parameter"}}),
            )
        };
        for field in ["max_tokens", "temperature"] {
            if asked.body.get(field).is_some() {
                return unknown(field);
            }
        }
        assert_eq!(asked.body["max_completion_tokens"], json!(64));
        Answer::events(pieces("text", 3, "stop", 10, 0, 5))
    });
    let mut models = models(&settings(&server.url()));
    assert!(ask(&mut models, "first").outcome.is_ok());
    assert!(ask(&mut models, "second").outcome.is_ok());
    assert_eq!(server.asked().len(), 4, "found out once");
}

#[test]
fn a_question_that_is_too_long_says_so() {
    let (finished, _) = answered(|_| {
        Answer::status(
            400,
            &json!({"error": {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}}),
        )
    });
    assert!(
        matches!(finished.outcome, Err(Failure::TooLong { .. })),
        "{finished:?}"
    );
}

#[test]
fn vectors_of_texts() {
    let server = Server::start(|asked| {
        assert_eq!(asked.path, "/v1/embeddings");
        assert_eq!(asked.body["input"], json!(["a", "bc"]));
        Answer::json(
            &json!({"data": [{"index": 0, "embedding": [1.0, 0.0]}, {"index": 1, "embedding": [0.0, 2.0]}],
            "usage": {"prompt_tokens": 3, "total_tokens": 3}}),
        )
    });
    let mut models = models(&settings(&server.url()));
    models.submit(Question::Embed(Embed {
        model: "vectors".to_owned(),
        texts: vec!["a".to_owned(), "bc".to_owned()],
    }));
    let finished = one(&mut models);
    assert_eq!(
        finished.outcome,
        Ok(Answered::Vectors(vec![vec![1.0, 0.0], vec![0.0, 2.0]]))
    );
    assert_eq!(finished.spent.usage.prompt, 3);
}

#[test]
fn a_budget_holds_with_many_under_way() {
    let server = Server::start(|_| Answer::events(pieces("text", 3, "stop", 100, 0, 60)));
    let mut settings = settings(&server.url());
    settings.endpoints[0].parallel = 8;
    settings.budget.tokens = Some(1000);
    let mut models = models(&settings);
    for _ in 0..20 {
        models.submit(question(&"x".repeat(100)));
    }
    let mut finished = Vec::new();
    while finished.len() < 20 {
        finished.extend(models.finished(PATIENCE));
    }
    let answered = finished.iter().filter(|f| f.outcome.is_ok()).count();
    assert!(
        finished
            .iter()
            .all(|f| matches!(f.outcome, Ok(_) | Err(Failure::Budget { .. })))
    );
    assert_eq!(answered as u64, models.totals().all().requests);
    let all = models.totals().all().usage;
    assert!(
        answered >= 4 && all.prompt + all.completion <= 1000,
        "{answered}: {all:?}"
    );
}
