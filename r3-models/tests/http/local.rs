//! Servers of one's own machine: small contexts, one question at a time, models that are still being loaded, errors in odd places. Each
//! answer here is one that llama.cpp's server or the one of its Python bindings gives.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use r3_models::account::Totals;
use r3_models::chat::{
    Answer as Answered, Ask, Embed, Failure, Finished, Message, Question, Request, Role, State,
};
use r3_models::ledger::{Book, Ledger};
use r3_models::pool::Models;
use r3_models::settings::{Endpoint, Model, Part, Pauses, Settings};
use serde_json::{Value, json};

use super::http::{Answer, Server, Then, completion, pieces};
use super::{PATIENCE, models};

fn settings(url: &str) -> Settings {
    let mut endpoint = Endpoint::new(url);
    endpoint.pauses = Pauses {
        first: 0.01,
        most: 0.05,
    };
    Settings {
        endpoints: vec![endpoint],
        models: vec![
            Model::new("m", Part::Accurate),
            Model::new("vectors", Part::Embedding),
        ],
        ..Settings::default()
    }
}

fn question(text: &str) -> Question {
    Question::Chat(Request {
        model: "m".to_owned(),
        messages: vec![Message {
            role: Role::User,
            content: text.to_owned(),
        }],
        max_tokens: None,
        temperature: None,
        seed: None,
    })
}

fn ask(models: &mut Models, question: Question) -> Finished {
    models.submit(question);
    let mut finished = models.finished(PATIENCE);
    assert_eq!(finished.len(), 1, "{finished:?}, {:?}", models.state());
    finished.remove(0)
}

fn text(finished: &Finished) -> &str {
    match &finished.outcome {
        Ok(Answered::Reply(reply)) => &reply.text,
        other => panic!("{other:?}"),
    }
}

fn whole() -> Answer {
    Answer::events(pieces("text", 3, "stop", 10, 0, 5))
}

/// With so many tokens of context: refuses as the Python bindings' server and vLLM do.
fn of_context(context: u64, body: &Value) -> Answer {
    let bytes = body["messages"][0]["content"].as_str().unwrap_or("").len() as u64;
    let prompt = bytes / 3 + 20;
    let answer = body["max_tokens"].as_u64().unwrap_or(0);
    if prompt + answer <= context {
        return Answer::events(pieces("text", 3, "stop", prompt, 0, 5));
    }
    let message = format!(
        "This model's maximum context length is {context} tokens. However, you requested {} tokens ({prompt} in the messages, {answer} \
         in the completion). Please reduce the length of the messages or completion.",
        prompt + answer
    );
    Answer::status(
        400,
        &json!({"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}),
    )
}

#[test]
fn where_the_answer_may_be_as_long_as_the_context_a_shorter_one_is_asked_for() {
    let server = Server::start(|asked| of_context(8192, &asked.body));
    // 8192 tokens of an answer are what R3 allows by itself.
    let mut models = models(&settings(&server.url()));
    let prompt = "x".repeat(6000);
    assert_eq!(text(&ask(&mut models, question(&prompt))), "text");
    assert_eq!(server.asked().len(), 2);
    assert_eq!(server.asked()[1].body["max_tokens"], json!(8192 - 2020));
    // It is known from then on.
    assert_eq!(text(&ask(&mut models, question(&prompt))), "text");
    assert_eq!(server.asked().len(), 3);
    assert_eq!(models.state(), State::Up);
}

#[test]
fn a_context_that_is_said_is_kept_from_the_first_question_on() {
    let server = Server::start(|asked| of_context(4096, &asked.body));
    let mut settings = settings(&server.url());
    settings.models[0].context = Some(4096);
    let mut models = models(&settings);
    for bytes in [1, 1000, 4000, 8000] {
        let finished = ask(&mut models, question(&"x".repeat(bytes)));
        assert_eq!(text(&finished), "text", "{bytes}");
    }
    assert_eq!(server.asked().len(), 4);
}

#[test]
fn a_prompt_that_does_not_fit_fails_and_is_no_outage() {
    let server = Server::start(|asked| of_context(2048, &asked.body));
    let mut models = models(&settings(&server.url()));
    for _ in 0..4 {
        let finished = ask(&mut models, question(&"x".repeat(9000)));
        let failure = finished.outcome.expect_err("it is too long");
        assert!(matches!(failure, Failure::TooLong { .. }), "{failure:?}");
        let text = failure.to_string();
        assert!(text.contains("2048") && text.contains("context"), "{text}");
    }
    assert_eq!(models.state(), State::Up);
    assert_eq!(server.asked().len(), 4, "nothing is asked again");
}

/// With status 200, in a stream that has begun, under a name that is none of server-sent events.
#[test]
fn an_error_in_place_of_data_is_read() {
    let error = json!({"code": 400, "message": "the request exceeds the available context size. try increasing the context size or \
        enable context shift", "type": "invalid_request_error"});
    let server = Server::start(move |_| Answer::Pieces {
        pieces: vec![format!("error: {error}\n\n")],
        then: Then::End,
    });
    let finished = ask(&mut models(&settings(&server.url())), question("x"));
    assert!(
        matches!(finished.outcome, Err(Failure::TooLong { .. })),
        "{finished:?}"
    );
    assert_eq!(server.asked().len(), 1);
}

/// The Python bindings' server has said 200 by the time it counts the prompt; then it can only end the stream.
#[test]
fn a_stream_that_ends_with_nothing_in_it_is_asked_for_whole_and_says_what_is_wrong() {
    for then in [Then::End, Then::Cut] {
        let server = Server::start(move |asked| match asked.body["stream"] == json!(true) {
            true => Answer::Pieces {
                pieces: vec![": ping\n\n".to_owned()],
                then,
            },
            false => of_context(2048, &asked.body),
        });
        let mut models = models(&settings(&server.url()));
        let finished = ask(&mut models, question(&"x".repeat(9000)));
        assert!(
            matches!(finished.outcome, Err(Failure::TooLong { .. })),
            "{finished:?}"
        );
        assert_eq!(server.asked().len(), 2);
        assert_eq!(models.state(), State::Up);
    }
}

/// As an error of the server: a service of vectors that is asked for a long text is not down.
#[test]
fn a_text_that_is_too_long_for_a_vector_has_none_and_the_next_one_has() {
    for message in [
        "input is too large to process. increase the physical batch size",
        "Requested tokens (3047) exceed context window of 2048",
    ] {
        let server = Server::start(move |asked| {
            let long = asked.body["input"][0].as_str().unwrap_or("").len() > 100;
            if long {
                return Answer::status(
                    500,
                    &json!({"error": {"code": 500, "message": message, "type": "server_error"}}),
                );
            }
            Answer::json(&json!({"data": [{"index": 0, "embedding": [1.0, 0.5]}],
                "usage": {"prompt_tokens": 3, "total_tokens": 3}}))
        });
        let mut models = models(&settings(&server.url()));
        let embed = |text: String| {
            Question::Embed(Embed {
                model: "vectors".to_owned(),
                texts: vec![text],
            })
        };
        let finished = ask(&mut models, embed("x".repeat(1000)));
        assert!(
            matches!(finished.outcome, Err(Failure::TooLong { .. })),
            "{finished:?}"
        );
        let finished = ask(&mut models, embed("x".to_owned()));
        assert_eq!(
            finished.outcome,
            Ok(Answered::Vectors(vec![vec![1.0, 0.5]]))
        );
        assert_eq!(server.asked().len(), 2, "{message}");
    }
}

#[test]
fn a_model_that_is_still_being_loaded_is_waited_for() {
    let server = Server::start(|asked| match asked.number {
        0..5 => Answer::status(
            503,
            &json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
        ),
        _ => whole(),
    });
    let mut models = models(&settings(&server.url()));
    let (woken, wakes) = std::sync::mpsc::channel();
    models.wake_by(Box::new(move || {
        let _ = woken.send(());
    }));
    models.submit(question("x"));
    loop {
        wakes.recv_timeout(PATIENCE).expect("somebody is woken");
        if let State::Down {
            reason,
            needs_somebody,
            ..
        } = models.state()
        {
            assert!(
                reason.contains("Loading model") && !needs_somebody,
                "{reason}"
            );
            break;
        }
    }
    let finished = models.finished(PATIENCE);
    assert_eq!(text(&finished[0]), "text");
    assert_eq!(
        finished[0].spent.usage.prompt, 10,
        "what was refused cost nothing"
    );
}

/// A server that answers one question at a time ends the one that is under way when another one comes, with all signs of a complete
/// answer but the reason of its end.
#[test]
fn an_answer_that_another_question_interrupted_is_asked_for_again() {
    let interrupted = || {
        Answer::events([
            json!({"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": null}]})
                .to_string(),
            json!({"choices": [{"index": 0, "delta": {"content": "ha"}, "finish_reason": null}]})
                .to_string(),
            "[DONE]".to_owned(),
        ])
    };
    let server = Server::start(move |asked| match asked.number {
        1 => interrupted(),
        _ => whole(),
    });
    let mut models = models(&settings(&server.url()));
    assert_eq!(text(&ask(&mut models, question("a"))), "text");
    let finished = ask(&mut models, question("b"));
    assert_eq!(text(&finished), "text");
    assert_eq!((finished.spent.requests, finished.spent.failed), (2, 1));
}

#[test]
fn a_server_with_one_slot_never_sees_two_requests() {
    let open = std::sync::Arc::new(AtomicUsize::new(0));
    let most = std::sync::Arc::new(AtomicUsize::new(0));
    let (of_server, seen) = (std::sync::Arc::clone(&open), std::sync::Arc::clone(&most));
    let server = Server::start(move |_| {
        let now = of_server.fetch_add(1, Ordering::SeqCst) + 1;
        seen.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        of_server.fetch_sub(1, Ordering::SeqCst);
        Answer::json(&completion("text", 10, 0, 5))
    });
    let mut settings = settings(&server.url());
    settings.endpoints[0].parallel = 1;
    let mut models = models(&settings);
    for _ in 0..6 {
        models.submit(question("x"));
    }
    let mut came = 0;
    while came < 6 {
        let finished = models.finished(PATIENCE);
        assert!(!finished.is_empty() && finished.iter().all(|f| f.outcome.is_ok()));
        came += finished.len();
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// Without usage in its stream, as the Python bindings' server has it.
#[test]
fn what_is_not_said_of_tokens_is_estimated_and_marked() {
    let server = Server::start(|_| {
        Answer::events([
            json!({"choices": [{"index": 0, "delta": {"content": "four bytes for a token"}, "finish_reason": null}]}).to_string(),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).to_string(),
            "[DONE]".to_owned(),
        ])
    });
    let finished = ask(&mut models(&settings(&server.url())), question("hello"));
    let usage = finished.spent.usage;
    assert!(
        usage.estimated && usage.prompt > 0 && usage.completion > 0,
        "{usage:?}"
    );
}

/// A process that ends while requests are under way, with or without a last word: what they can have cost is known to the next one.
#[test]
fn what_was_under_way_at_the_end_is_in_the_ledger() {
    let server = Server::start(|asked| match asked.number {
        0 => whole(),
        _ => Answer::Stall,
    });
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("models.jsonl");
    let mut settings = settings(&server.url());
    settings.endpoints[0].parallel = 2;
    settings.budget.requests = Some(3);
    let prompt = "x".repeat(1000);
    let spent = {
        let ledger = Ledger::open(&file, &Totals::default()).expect("a ledger");
        let mut models = Models::with_ledger(&settings, ledger).expect("models");
        assert_eq!(text(&ask(&mut models, question(&prompt))), "text");
        for _ in 0..3 {
            models.submit(question(&prompt));
        }
        while server.asked().len() < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        models.totals()
    };
    let book = Book::read(&file).expect("a book");
    assert_eq!(book.took, spent);
    let lost = book.not_in(&spent, true)["m"];
    assert_eq!((lost.requests, lost.completion), (2, 2 * 8192));
    assert!(lost.prompt >= 2000);
    // The third of them was not sent. Whoever comes next may send none: all three of the budget are gone.
    let mut models = Models::with_ledger(&settings, Ledger::open(&file, &spent).expect("a ledger"))
        .expect("models");
    assert_eq!(models.totals().all().requests, 3);
    models.submit(question(&prompt));
    let finished = models.finished(PATIENCE);
    assert!(
        matches!(finished[0].outcome, Err(Failure::Budget { .. })),
        "{finished:?}"
    );
}
