//! The machine with a clock that the tests set, and services that answer as the tests say.

use proptest::prelude::*;

use super::*;
use crate::account::{Budget, Cap};
use crate::chat::{Answer, Finish, Message, Request, Role};
use crate::client::Back;
use crate::fault::Quirk;
use crate::reply::Whole;
use crate::settings::{Endpoint, Model, Pauses, Price};
use crate::too_long::Lengths;

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn settings() -> Settings {
    let mut endpoint = Endpoint::new("http://localhost:1");
    endpoint.parallel = 2;
    endpoint.attempts = 3;
    endpoint.pauses = Pauses {
        first: 1.0,
        most: 8.0,
    };
    endpoint.timeouts = Timeouts {
        connect: 5.0,
        first_token: 30.0,
        between_tokens: 10.0,
        attempt: 100.0,
        question: 200.0,
    };
    let mut model = Model::new("m", Part::Accurate);
    model.max_tokens = 100;
    model.price = Some(Price {
        input: 1.0,
        cached: None,
        output: 10.0,
    });
    Settings {
        endpoints: vec![endpoint],
        models: vec![model, Model::new("n", Part::Fast)],
        ..Settings::default()
    }
}

fn ask(model: &str, text: &str) -> Question {
    Question::Chat(Request {
        model: model.to_owned(),
        messages: vec![Message {
            role: Role::User,
            content: text.to_owned(),
        }],
        max_tokens: None,
        temperature: Some(0.5),
        seed: None,
    })
}

fn answer(text: &str) -> Result<Back, Lost> {
    Ok(Back::Whole(Whole {
        text: text.to_owned(),
        thoughts: String::new(),
        finish: Finish::Stop,
        said_why: true,
        usage: Usage {
            prompt: 20,
            cached: 10,
            completion: 30,
            estimated: false,
        },
        served_by: None,
    }))
}

fn fault(fault: Fault) -> Result<Back, Lost> {
    Err(Lost::from(fault))
}

fn broken() -> Result<Back, Lost> {
    fault(Fault::broken("HTTP 500: nothing said".to_owned()))
}

fn unreachable() -> Result<Back, Lost> {
    fault(Fault::Unreachable {
        message: "connection refused".to_owned(),
    })
}

fn refused() -> Result<Back, Lost> {
    fault(Fault::Refused {
        status: 400,
        message: "HTTP 400: no".to_owned(),
    })
}

struct Bed {
    schedule: Schedule,
    now: Duration,
    /// Sent, and not answered yet.
    held: Vec<Sending>,
}

impl Bed {
    fn new(settings: &Settings) -> Self {
        Self {
            schedule: Schedule::new(settings, Totals::default(), 1),
            now: Duration::ZERO,
            held: Vec::new(),
        }
    }

    fn ask(&mut self, text: &str) -> Ticket {
        self.schedule.submit(self.now, ask("m", text))
    }

    /// What is sent now.
    fn sent(&mut self) -> Option<Sending> {
        match self.schedule.next(self.now) {
            Order::Send(sending) => Some(sending),
            Order::Wait(_) => None,
        }
    }

    fn must_send(&mut self) -> Sending {
        self.sent().expect("something is to be sent")
    }

    fn back(&mut self, sending: &Sending, result: Result<Back, Lost>) {
        self.schedule.back(self.now, sending.attempt, result);
    }

    /// Time goes on to where something is to be done.
    fn wait(&mut self) -> Duration {
        match self.schedule.next(self.now) {
            Order::Wait(Some(until)) => {
                assert!(until > self.now, "a wait that ends at once");
                self.now = until;
                until
            }
            order => panic!("{order:?} and no wait"),
        }
    }

    fn finished(&mut self) -> Vec<Finished> {
        self.schedule.take_finished()
    }

    fn failure(&mut self) -> Failure {
        let mut finished = self.finished();
        assert_eq!(finished.len(), 1, "{finished:?}");
        finished.remove(0).outcome.unwrap_err()
    }

    /// Asks and answers once, so that the service is known to be there.
    fn warm(&mut self) {
        self.ask("warm");
        let sending = self.must_send();
        self.back(&sending, answer("warm"));
        self.finished();
    }
}

fn is_small(sending: &Sending) -> bool {
    matches!(&*sending.question, Question::Chat(request) if request.max_tokens == Some(16))
}

fn text_of(sending: &Sending) -> String {
    match &*sending.question {
        Question::Chat(request) => request.messages[0].content.clone(),
        Question::Embed(embed) => embed.texts.concat(),
    }
}

#[test]
fn an_answer_comes_back_with_what_it_took() {
    let mut bed = Bed::new(&settings());
    let ticket = bed.ask("hello");
    let sending = bed.must_send();
    sending.watch.progress(s(1.0), 4);
    bed.now = s(3.0);
    bed.back(&sending, answer("text"));
    let finished = bed.finished();
    assert_eq!(finished[0].ticket, ticket);
    assert!((finished[0].spent.cost - (20.0 + 300.0) / 1e6).abs() < 1e-15);
    let Ok(Answer::Reply(reply)) = &finished[0].outcome else {
        panic!("{finished:?}")
    };
    assert_eq!(
        (reply.seconds, reply.first_token, reply.retries),
        (3.0, Some(1.0), 0)
    );
    assert_eq!(bed.schedule.totals().models["m"], finished[0].spent);
    assert_eq!(bed.schedule.open(), 0);
}

#[test]
fn no_more_are_under_way_than_the_endpoint_takes_and_they_go_in_turn() {
    let mut bed = Bed::new(&settings());
    for text in ["a", "b", "c"] {
        bed.ask(text);
    }
    let (a, b) = (bed.must_send(), bed.must_send());
    assert_eq!((text_of(&a), text_of(&b)), ("a".to_owned(), "b".to_owned()));
    assert!(bed.sent().is_none());
    bed.back(&b, answer("b"));
    assert_eq!(text_of(&bed.must_send()), "c");
}

#[test]
fn a_fault_is_tried_again_after_a_pause_and_then_given_up() {
    let mut bed = Bed::new(&settings());
    bed.ask("poison");
    // Others are answered in between: it is this question and not the service.
    for attempt in 1..=3 {
        bed.warm_others();
        let sending = bed.must_send_text("poison");
        bed.back(&sending, broken());
        assert!(bed.schedule.outage().is_none());
        if attempt < 3 {
            let before = bed.now;
            bed.wait();
            assert!(bed.now - before >= s(0.5), "a pause lies between attempts");
        }
    }
    let failure = bed.failure();
    assert!(
        matches!(&failure, Failure::Exhausted { attempts: 3, .. }),
        "{failure:?}"
    );
}

impl Bed {
    fn warm_others(&mut self) {
        let ticket = self.ask("other");
        while let Some(sending) = self.sent() {
            if text_of(&sending) == "other" {
                self.back(&sending, answer("other"));
                break;
            }
            self.held.push(sending);
        }
        let finished = self.finished();
        assert!(finished.iter().any(|f| f.ticket == ticket));
    }

    fn must_send_text(&mut self, text: &str) -> Sending {
        if let Some(place) = self
            .held
            .iter()
            .position(|sending| text_of(sending) == text)
        {
            return self.held.remove(place);
        }
        let sending = self.must_send();
        assert_eq!(text_of(&sending), text);
        sending
    }
}

/// ShinkaEvolve #143: retries of several layers multiplied to days.
#[test]
fn a_service_that_stalls_is_an_outage_and_holds_no_question_longer_than_its_limits() {
    let mut bed = Bed::new(&settings());
    bed.warm();
    bed.ask("x");
    let first = bed.must_send();
    assert_eq!(bed.wait(), s(30.0), "to the first token");
    bed.schedule.next(bed.now);
    assert!(first.watch.is_abandoned());
    assert!(
        bed.schedule.outage().is_none(),
        "once is a fault of this request"
    );
    bed.wait();
    let second = bed.must_send();
    bed.wait();
    bed.schedule.next(bed.now);
    assert!(second.watch.is_abandoned());
    let outage = bed.schedule.outage().expect("twice is an outage").clone();
    assert!(outage.reason.contains("within 30 s"), "{}", outage.reason);
    assert!(bed.now < s(70.0), "{:?}", bed.now);
    // What comes after it was given up is not heard.
    bed.back(&first, answer("late"));
    assert!(bed.finished().is_empty());
}

#[test]
fn the_whole_of_a_question_is_bounded_whatever_its_attempts_do() {
    let mut settings = settings();
    settings.endpoints[0].attempts = 1000;
    let mut bed = Bed::new(&settings);
    bed.ask("slow poison");
    // Tokens trickle, so that only the limit of the attempt ends it, and the service answers others.
    let mut attempts = 0;
    let failure = loop {
        bed.warm_others();
        let sending = bed.must_send_text("slow poison");
        attempts += 1;
        let begun = bed.now;
        while !sending.watch.is_abandoned() {
            sending.watch.progress(bed.now - begun, 1);
            bed.now += s(5.0);
            bed.schedule.give_up_stalled(bed.now, &mut Wake(None));
            assert!(bed.now - begun <= s(105.0));
        }
        if let Some(finished) = bed.finished().pop() {
            break finished.outcome.unwrap_err();
        }
        bed.wait();
    };
    assert!(matches!(failure, Failure::Exhausted { .. }));
    assert!(
        attempts <= 3 && bed.now < s(330.0),
        "{attempts} attempts, {:?}",
        bed.now
    );
}

#[test]
fn an_answer_that_comes_whole_has_the_time_of_an_attempt() {
    let mut settings = settings();
    settings.endpoints[0].stream = false;
    let mut bed = Bed::new(&settings);
    bed.ask("x");
    let sending = bed.must_send();
    assert_eq!(bed.wait(), s(100.0));
    bed.schedule.next(bed.now);
    assert!(sending.watch.is_abandoned());
}

#[test]
fn an_answer_that_stalls_in_the_middle_is_noticed_sooner_than_one_that_does_not_begin() {
    let mut bed = Bed::new(&settings());
    bed.ask("x");
    let sending = bed.must_send();
    sending.watch.progress(s(2.0), 400);
    assert_eq!(bed.wait(), s(12.0));
    bed.schedule.next(bed.now);
    assert!(sending.watch.is_abandoned());
    // The service may charge what it had written.
    let all = bed.schedule.totals().all();
    assert_eq!(
        (
            all.requests,
            all.failed,
            all.usage.completion,
            all.usage.estimated
        ),
        (1, 1, 100, true)
    );
}

/// openevolve #288: with the service down the run burned its iterations.
#[test]
fn an_outage_holds_questions_and_fails_none() {
    let mut bed = Bed::new(&settings());
    let tickets: Vec<Ticket> = ["a", "b", "c"].iter().map(|text| bed.ask(text)).collect();
    let (a, b) = (bed.must_send(), bed.must_send());
    bed.now = s(1.0);
    bed.back(&a, unreachable());
    bed.back(&b, unreachable());
    let outage = bed.schedule.outage().expect("an outage").clone();
    assert_eq!(
        (outage.since, outage.reason.as_str()),
        (s(1.0), "connection refused")
    );
    // Hours of it: small questions, ever rarer, and none of the others.
    let mut tries = 0;
    while bed.now < s(4000.0) {
        bed.wait();
        let sending = bed.must_send();
        assert!(is_small(&sending));
        assert!(bed.sent().is_none(), "one small question at a time");
        bed.back(&sending, unreachable());
        tries += 1;
    }
    assert!(
        (500..2000).contains(&tries),
        "{tries} tries in 4000 s with pauses up to 8 s"
    );
    assert!(bed.finished().is_empty());
    assert_eq!(bed.schedule.outage().expect("still").since, s(1.0));
    bed.wait();
    let sending = bed.must_send();
    bed.back(&sending, answer("OK"));
    assert!(bed.schedule.outage().is_none());
    for _ in 0..3 {
        let sending = bed.must_send();
        bed.back(&sending, answer("text"));
    }
    let finished = bed.finished();
    assert_eq!(
        finished.iter().map(|f| f.ticket).collect::<Vec<_>>(),
        tickets
    );
    assert!(finished.iter().all(|f| f.outcome.is_ok()));
    assert_eq!(
        finished[0].spent.failed, 1,
        "the attempt that met it is in what was spent"
    );
    assert_eq!(bed.schedule.totals().all().requests, 2 + tries + 1 + 3);
}

/// A question on which the service breaks every time, alone.
#[test]
fn a_question_that_breaks_its_service_does_not_stop_the_run() {
    let mut bed = Bed::new(&settings());
    bed.ask("poison");
    let mut sent = 0;
    let failure = loop {
        assert!(sent < 20, "it goes on for ever");
        match bed.sent() {
            Some(sending) if is_small(&sending) => bed.back(&sending, answer("OK")),
            Some(sending) => {
                sent += 1;
                bed.back(&sending, broken());
            }
            None => match bed.finished().pop() {
                Some(finished) => break finished.outcome.unwrap_err(),
                None => {
                    bed.wait();
                }
            },
        }
    };
    assert!(matches!(failure, Failure::Exhausted { .. }), "{failure:?}");
    assert!(bed.schedule.outage().is_none());
    assert!(sent <= 6, "{sent}");
}

#[test]
fn an_answer_to_a_question_under_way_ends_an_outage() {
    let mut bed = Bed::new(&settings());
    bed.ask("a");
    bed.ask("b");
    let (a, b) = (bed.must_send(), bed.must_send());
    bed.back(&a, unreachable());
    assert!(bed.schedule.outage().is_some());
    bed.back(&b, answer("b"));
    assert!(bed.schedule.outage().is_none());
}

#[test]
fn one_model_can_be_down_alone() {
    let mut bed = Bed::new(&settings());
    bed.ask("a");
    let sending = bed.must_send();
    bed.back(
        &sending,
        fault(Fault::Somebody {
            message: "HTTP 404: no such model".to_owned(),
        }),
    );
    assert!(bed.schedule.outage_of("m").expect("m").needs_somebody);
    assert!(bed.schedule.outage_of("n").is_none());
    assert!(
        bed.schedule.outage().is_some(),
        "what is waited for is down"
    );
    bed.schedule.submit(bed.now, ask("n", "x"));
    assert!(
        bed.schedule.outage().is_none(),
        "one of those that are waited for is not"
    );
    let sending = bed.must_send();
    assert_eq!(text_of(&sending), "x");
}

#[test]
fn the_pause_that_a_service_wants_is_kept_and_is_no_fault_of_the_question() {
    let mut bed = Bed::new(&settings());
    bed.warm();
    bed.ask("a");
    bed.ask("b");
    let a = bed.must_send();
    let b = bed.must_send();
    let busy = |seconds| {
        fault(Fault::Busy {
            after: Some(s(seconds)),
            message: "HTTP 429: slow down".to_owned(),
        })
    };
    bed.back(&a, busy(20.0));
    bed.back(&b, busy(15.0));
    assert!(bed.schedule.outage().is_none());
    assert_eq!(bed.wait(), s(20.0));
    let a = bed.must_send();
    bed.back(&a, busy(300.0));
    assert!(bed.schedule.outage().is_some(), "so long a pause is shown");
    assert_eq!(bed.wait(), s(320.0));
    let small = bed.must_send();
    bed.back(&small, answer("OK"));
    for _ in 0..2 {
        let sending = bed.must_send();
        bed.back(&sending, answer("text"));
    }
    assert!(
        bed.finished()
            .iter()
            .all(|finished| finished.outcome.is_ok())
    );
}

#[test]
fn what_a_service_does_not_know_is_left_out_from_then_on() {
    let mut bed = Bed::new(&settings());
    bed.ask("a");
    bed.ask("b");
    let (a, b) = (bed.must_send(), bed.must_send());
    let unwanted = || {
        fault(Fault::Unwanted {
            quirk: Quirk::NoTemperature,
            status: 400,
            message: "temperature".to_owned(),
        })
    };
    bed.back(&a, unwanted());
    let again = bed.must_send();
    assert!(again.manner.quirks.contains(&Quirk::NoTemperature));
    // What was under way before that was known.
    bed.back(&b, unwanted());
    let b = bed.must_send();
    bed.back(&again, answer("a"));
    // Without it, it is a refusal: it would go round for ever.
    bed.back(&b, unwanted());
    let finished = bed.finished();
    assert!(finished[0].outcome.is_ok());
    assert!(matches!(finished[1].outcome, Err(Failure::Refused { .. })));
}

#[test]
fn a_refused_question_fails_and_nothing_but_refusals_are_an_outage() {
    let mut bed = Bed::new(&settings());
    for _ in 0..2 {
        bed.ask("x");
        let sending = bed.must_send();
        bed.back(&sending, refused());
        assert!(matches!(bed.failure(), Failure::Refused { .. }));
    }
    bed.ask("x");
    let sending = bed.must_send();
    bed.back(&sending, refused());
    assert!(bed.finished().is_empty(), "the third is not lost");
    assert!(bed.schedule.outage().expect("an outage").needs_somebody);
    bed.wait();
    let small = bed.must_send();
    assert!(is_small(&small));
    bed.back(&small, answer("OK"));
    // The service takes questions, and not this one.
    let sending = bed.must_send();
    bed.back(&sending, refused());
    assert!(matches!(bed.failure(), Failure::Refused { .. }));
}

#[test]
fn a_question_that_is_too_long_fails_at_once() {
    let mut bed = Bed::new(&settings());
    bed.ask("x");
    let sending = bed.must_send();
    bed.back(&sending, too_long(Lengths::default()));
    assert!(matches!(bed.failure(), Failure::TooLong { .. }));
}

fn too_long(lengths: Lengths) -> Result<Back, Lost> {
    fault(Fault::TooLong {
        lengths,
        message: "context".to_owned(),
    })
}

#[test]
fn where_one_is_asked_at_a_time_vectors_do_not_wait_for_all_conversations() {
    let mut settings = settings();
    settings.endpoints[0].parallel = 1;
    settings.models.push(Model::new("v", Part::Embedding));
    let mut bed = Bed::new(&settings);
    bed.ask("a");
    bed.ask("b");
    let first = bed.must_send();
    let embed = Question::Embed(crate::chat::Embed {
        model: "v".to_owned(),
        texts: vec!["c".to_owned()],
    });
    bed.schedule.submit(bed.now, embed);
    assert!(bed.sent().is_none());
    bed.back(&first, answer("a"));
    let next = bed.must_send();
    assert!(matches!(*next.question, Question::Embed(_)));
    bed.back(&next, Ok(Back::Vectors(vec![vec![1.0]], Usage::default())));
    assert_eq!(text_of(&bed.must_send()), "b");
}

#[test]
fn an_answer_that_ends_without_the_usual_reason_was_cut_off() {
    let cut = || match answer("half") {
        Ok(Back::Whole(whole)) => Ok(Back::Whole(Whole {
            finish: Finish::Other,
            said_why: false,
            ..whole
        })),
        other => other,
    };
    // A service that never gives a reason is taken as it is.
    let mut bed = Bed::new(&settings());
    for _ in 0..3 {
        bed.ask("x");
        let sending = bed.must_send();
        bed.back(&sending, cut());
        assert!(bed.finished().iter().all(|f| f.outcome.is_ok()));
    }
    bed.ask("x");
    let sending = bed.must_send();
    bed.back(&sending, answer("whole"));
    assert_eq!(bed.finished().len(), 1);
    bed.ask("x");
    let sending = bed.must_send();
    bed.back(&sending, cut());
    assert!(bed.finished().is_empty(), "half an answer is none");
    bed.wait();
    let again = bed.must_send();
    bed.back(&again, answer("whole"));
    let finished = bed.finished();
    assert_eq!(
        (finished[0].spent.requests, finished[0].spent.failed),
        (2, 1)
    );
}

fn answer_of(sending: &Sending) -> u64 {
    match &*sending.question {
        Question::Chat(request) => u64::from(sending.manner.most_tokens(request)),
        Question::Embed(_) => 0,
    }
}

#[test]
fn a_question_that_fits_with_a_shorter_answer_is_asked_again_with_one() {
    let mut settings = settings();
    settings.models[0].max_tokens = 8192;
    let mut bed = Bed::new(&settings);
    bed.ask("x");
    let sending = bed.must_send();
    assert_eq!(answer_of(&sending), 8192);
    let said = Lengths {
        context: Some(8192),
        prompt: Some(3000),
        answer: None,
    };
    bed.back(&sending, too_long(said));
    let again = bed.must_send();
    assert_eq!(answer_of(&again), 5192, "to the token");
    bed.back(&again, answer("y"));
    assert!(bed.finished().iter().all(|f| f.outcome.is_ok()));
    // What was found out once is known: nothing is refused again.
    bed.ask(&"y".repeat(5000));
    let next = answer_of(&bed.must_send());
    assert!((5000..=6200).contains(&next), "{next}");
}

#[test]
fn a_service_that_says_the_same_of_every_length_is_not_asked_for_ever() {
    for said in [
        Lengths::default(),
        Lengths {
            context: Some(1 << 20),
            ..Lengths::default()
        },
        Lengths {
            context: Some(9000),
            prompt: Some(10),
            answer: None,
        },
        Lengths {
            context: Some(100),
            prompt: Some(3000),
            answer: None,
        },
        Lengths {
            answer: Some(4096),
            ..Lengths::default()
        },
    ] {
        let mut settings = settings();
        settings.models[0].max_tokens = 8192;
        let mut bed = Bed::new(&settings);
        bed.ask("x");
        let mut sent = 0;
        while let Some(sending) = bed.sent() {
            sent += 1;
            assert!(sent < 4, "{said:?}");
            bed.back(&sending, too_long(said));
        }
        assert!(matches!(bed.failure(), Failure::TooLong { .. }), "{said:?}");
    }
}

#[test]
fn a_context_that_the_settings_name_bounds_the_first_answer() {
    let mut settings = settings();
    settings.models[0].max_tokens = 8192;
    settings.models[0].context = Some(4096);
    let mut bed = Bed::new(&settings);
    bed.ask(&"x".repeat(5000));
    let answer = answer_of(&bed.must_send());
    assert!((1900..=2100).contains(&answer), "{answer}");
}

#[test]
fn a_model_that_is_not_in_the_settings_is_said() {
    let mut bed = Bed::new(&settings());
    bed.schedule.submit(bed.now, ask("z", "x"));
    assert_eq!(
        bed.failure().to_string(),
        "no model of the settings is called \"z\"; there are: m, n"
    );
}

#[test]
fn a_budget_lets_nothing_through_that_could_pass_it() {
    let mut settings = settings();
    settings.endpoints[0].parallel = 4;
    settings.budget = Budget {
        tokens: Some(600),
        ..Budget::default()
    };
    let mut bed = Bed::new(&settings);
    bed.ask("a");
    bed.ask("b");
    bed.ask("c");
    // Each can take 100 tokens and some for the frame of a conversation: the third waits for what the first comes to.
    let (a, b) = (bed.must_send(), bed.must_send());
    assert!(bed.sent().is_none());
    assert!(bed.finished().is_empty());
    bed.back(&a, answer("a"));
    let c = bed.must_send();
    bed.back(&b, answer("b"));
    bed.back(&c, answer("c"));
    bed.finished();
    assert_eq!(bed.schedule.totals().all().usage.prompt, 60);
    let rest = "x".repeat(400);
    bed.ask(&rest);
    assert!(bed.sent().is_none());
    let failures: Vec<_> = bed
        .finished()
        .into_iter()
        .filter_map(|f| f.outcome.err())
        .collect();
    assert_eq!(failures, [Failure::Budget { cap: Cap::Tokens }]);
}

#[test]
fn a_spent_budget_is_heard_in_an_outage_too() {
    let mut settings = settings();
    settings.budget = Budget {
        requests: Some(1),
        ..Budget::default()
    };
    let mut bed = Bed::new(&settings);
    bed.ask("a");
    let sending = bed.must_send();
    bed.back(&sending, unreachable());
    assert!(bed.sent().is_none());
    assert_eq!(bed.failure(), Failure::Budget { cap: Cap::Requests });
}

#[test]
fn requests_in_a_minute_are_counted() {
    let mut settings = settings();
    settings.endpoints[0].requests_per_minute = Some(2);
    let mut bed = Bed::new(&settings);
    for _ in 0..3 {
        bed.ask("x");
    }
    for _ in 0..2 {
        let sending = bed.must_send();
        bed.back(&sending, answer("x"));
    }
    assert_eq!(bed.wait(), s(60.0));
    assert!(bed.sent().is_some());
}

proptest! {
    /// Whatever services do: every question comes back once or waits in an outage, budgets hold, and what is told adds up.
    #[test]
    fn every_question_comes_back_once_and_everything_adds_up(
        asked in proptest::collection::vec((0usize..2, 1usize..60), 1..20),
        fates in proptest::collection::vec(0u8..12, 1..200),
        budget in proptest::option::of(5u64..60),
    ) {
        let mut settings = settings();
        settings.budget = Budget { requests: budget, ..Budget::default() };
        let mut bed = Bed::new(&settings);
        let mut tickets = std::collections::BTreeSet::new();
        for (model, length) in asked {
            let question = ask(["m", "n"][model], &"x".repeat(length));
            tickets.insert(bed.schedule.submit(bed.now, question));
        }
        let mut told = Totals::default();
        let mut small = 0;
        let mut fates = fates.into_iter();
        let mut held = Vec::new();
        for step in 0.. {
            prop_assert!(step < 10_000, "it goes on for ever");
            for finished in bed.finished() {
                prop_assert!(tickets.remove(&finished.ticket), "{:?} came back twice", finished.ticket);
                told.add(&finished.model, &finished.spent);
            }
            if tickets.is_empty() {
                break;
            }
            match bed.schedule.next(bed.now) {
                Order::Send(sending) => {
                    small += u64::from(is_small(&sending));
                    held.push(sending);
                }
                Order::Wait(until) => {
                    if let Some(sending) = held.pop() {
                        bed.now += s(0.1);
                        // After all that was to go wrong, everything goes well.
                        let result = match fates.next() {
                            Some(0 | 1) => broken(),
                            Some(2) => unreachable(),
                            Some(3) => refused(),
                            Some(4) => fault(Fault::Somebody { message: "key".to_owned() }),
                            Some(5) => fault(Fault::Busy { after: None, message: "busy".to_owned() }),
                            Some(6) => fault(Fault::Unwanted { quirk: Quirk::NoTemperature, status: 400, message: "t".to_owned() }),
                            Some(7) => {
                                // It stalls until it is given up.
                                continue;
                            }
                            _ => answer("fine"),
                        };
                        bed.back(&sending, result);
                    } else if bed.schedule.has_finished() {
                        // A budget ended it.
                    } else {
                        let until = until.expect("nothing is under way, and nothing is waited for");
                        prop_assert!(until > bed.now);
                        bed.now = until;
                    }
                }
            }
        }
        let all = bed.schedule.totals().all();
        prop_assert!(budget.is_none_or(|most| all.requests <= most));
        prop_assert_eq!(bed.schedule.open(), 0);
        prop_assert!(all.requests >= told.all().requests);
        prop_assert!(all.requests - told.all().requests <= small, "only small questions belong to nobody");
    }
}
