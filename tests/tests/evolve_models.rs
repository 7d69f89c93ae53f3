//! A search over source with a scripted service of language models, end to end: on the CPU device, with a server that answers as models
//! do, breaks now and then, and goes away in the middle.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use r3_tests::models::http::{Answer, Asked, Server, Then};
use r3_tests::models::script::{Given, Script};
use r3_tests::{Bed, End, Run};
use serde_json::{Value, json};

/// Longer than such a search takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

const ANSWERS: &str = include_str!("../src/models/saxpy.md");

/// US dollars per million tokens: of the prompt, of what a cache served, of the answer.
const PRICE: [f64; 3] = [3.0, 0.3, 15.0];

const RUN: &[&str] = &[
    "evolve",
    "a.r3",
    "--kernel",
    "saxpy",
    "--source",
    "saxpy.cu",
    "--compiler",
    "clang",
    "--run",
    "run",
    "--models",
    "models.toml",
    "--settings",
    "search.toml",
    "--device",
    "cpu",
    "--workers",
    "2",
    "--seed",
    "5",
    "--quiet",
    "--json",
];

/// A bed with the archive, its source, and settings for a server.
fn bed(url: &str, search: &str) -> Bed {
    let bed = Bed::new();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture-samples");
    let copy = |from: &str, to: &str| {
        std::fs::copy(samples.join(from), bed.path().join(to)).expect("a copy of a sample");
    };
    copy("archives/saxpy.r3", "a.r3");
    copy("programs/saxpy.cu", "saxpy.cu");
    copy("programs/sample.h", "sample.h");
    let models = format!(
        r#"
        [[endpoint]]
        url = "{url}"
        key = "sk-of-the-test"
        parallel = 2
        pauses = {{ first = 0.02, most = 0.1 }}
        timeouts = {{ first_token = 20.0, between_tokens = 5.0 }}

        [[model]]
        name = "scripted"
        id = "vendor/scripted-1"
        max_tokens = 4096
        price = {{ input = {}, cached = {}, output = {} }}
        "#,
        PRICE[0], PRICE[1], PRICE[2]
    );
    std::fs::write(bed.path().join("models.toml"), models).expect("a file");
    std::fs::write(bed.path().join("search.toml"), search).expect("a file");
    bed
}

/// What is known of a run.
fn status(bed: &Bed) -> Value {
    let run = bed.evolve(&["status", "run", "--json"]).run();
    parsed(&run)
}

fn parsed(run: &Run) -> Value {
    assert_eq!(run.end, End::Exit(0), "{run}");
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

fn rows<'a>(view: &'a Value, name: &str) -> &'a [Value] {
    view[name].as_array().map_or(&[], Vec::as_slice)
}

/// What goes wrong with the service, by the number of the request.
fn misbehave(asked: &Asked) -> Option<Answer> {
    let busy = json!({"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}});
    match asked.number {
        3 => Some(Answer::page(502, "502 Bad Gateway")),
        7 => Some(Answer::Whole {
            status: 429,
            headers: vec![("Retry-After".to_owned(), "0".to_owned())],
            kind: "application/json",
            body: busy.to_string(),
        }),
        12 => Some(Answer::Pieces {
            pieces: vec![
                "data: {\"choices\":[{\"delta\":{\"content\":\"Idea: \"}}]}\n\n".to_owned(),
            ],
            then: Then::Cut,
        }),
        16 => Some(Answer::json(
            &json!({"error": {"message": "Provider returned error", "code": 503}}),
        )),
        _ => None,
    }
}

/// What came of an answer.
#[derive(Debug)]
struct Came<'a> {
    given: &'a Given,
    request: &'a Value,
    variant: Option<&'a Value>,
    closing: &'a Value,
}

/// Answers with what came of them. One slot is open at a time, so that questions were asked in their order.
fn came<'a>(given: &'a [Given], view: &'a Value) -> Vec<Came<'a>> {
    let requests = rows(view, "requests");
    assert_eq!(requests.len(), given.len(), "each question was asked once");
    let of = |row: &Value, request: &Value| row["slot"] == request["slot"];
    requests
        .iter()
        .zip(given)
        .map(|(request, given)| {
            let messages = given.messages.as_array().expect("messages");
            let bytes: usize = messages
                .iter()
                .filter_map(|m| m["content"].as_str())
                .map(str::len)
                .sum();
            assert_eq!(request["bytes"], json!(bytes), "{}", given.reply);
            let variant = rows(view, "variants")
                .iter()
                .find(|variant| of(variant, request) && variant["turn"] == request["turn"]);
            let slot = rows(view, "slots").iter().find(|slot| of(slot, request));
            Came {
                given,
                request,
                variant,
                closing: &slot.expect("the slot of a request")["closing"],
            }
        })
        .collect()
}

/// The same in the words of the answers' text.
fn outcome(came: &Came<'_>, is_last: bool) -> String {
    match came.variant {
        Some(variant) if variant["equal"] != Value::Null => "equal".to_owned(),
        Some(variant) => match variant["verdict"].as_str() {
            Some("cheat") => format!("cheat: {}", variant["reason"].as_str().unwrap_or_default()),
            Some(verdict) => verdict.replace('_', " "),
            None => "nothing".to_owned(),
        },
        None if is_last && came.closing["ended"].get("duplicate").is_some() => "equal".to_owned(),
        None => "unusable".to_owned(),
    }
}

/// Whether what came of an answer is what was to come of it.
fn is_as_expected(expected: &str, came: &str) -> bool {
    match expected.split_once(' ') {
        Some(("cheat", rule)) => {
            // A refusal begins with the name of its rule.
            let reason = came.strip_prefix("cheat: ");
            reason.is_some_and(|reason| reason.to_lowercase().contains(rule))
        }
        // What a compiler makes the same of is known by then.
        _ => expected == came || (expected == "right" && came == "equal"),
    }
}

/// Built-in rewrites: none is to come between the answers.
const REWRITES: &[&str] = &[
    "align-structure",
    "const",
    "divide-by-constant",
    "divide-by-power-of-two",
    "fast-division",
    "fast-intrinsics",
    "force-inline",
    "fuse-loops",
    "fused-multiply-add",
    "grid-stride",
    "hold-in-register",
    "interchange",
    "interchange-sums",
    "invert-divisor",
    "launch-bounds",
    "merge-exponentials",
    "narrow-integers",
    "pad-shared-memory",
    "power",
    "read-only-loads",
    "restrict",
    "rsqrt",
    "single-precision-literals",
    "split-sums",
    "unroll",
    "vector-access",
    "vector-sums",
];

/// The search of these tests: models alone, one slot at a time, so that each answer comes after what was made of the one before.
fn search(variants: u32) -> String {
    format!(
        r#"
        depth = 1
        islands.count = 1
        limits.variants = {variants}
        halving.budgets = [4, 8]
        rewrites.without = {REWRITES:?}
        models = {{ share = 1.0, repairs = 2, outage = 300.0 }}
        "#
    )
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_run_with_models_ends_with_the_right_elites_and_refuses_every_cheat() {
    let script = Arc::new(Script::new(ANSWERS));
    let of_server = Arc::clone(&script);
    let server =
        Server::start(move |asked| misbehave(asked).unwrap_or_else(|| of_server.answer(asked)));
    let bed = bed(&server.url(), &search(44));
    let running = bed.evolve(RUN).start();

    // In the middle nobody is there any longer, until the run has noticed.
    while script.given().len() < 15 {
        assert!(!running.has_ended(), "{}", running.wait());
        std::thread::sleep(Duration::from_millis(20));
    }
    server.set_up(false);
    let happened = |name: &str| {
        let view = status(&bed);
        rows(&view, "events")
            .iter()
            .filter(|event| event["kind"] == name)
            .count()
    };
    while happened("outage") == 0 {
        assert!(!running.has_ended(), "{}", running.wait());
    }
    let before = script.given().len();
    assert_eq!(happened("back"), 0);
    server.set_up(true);
    let run = running.wait_within(PATIENCE);
    let summary = parsed(&run);
    let view = status(&bed);
    let given = script.given();
    assert!(given.len() > before, "it went on");
    assert_eq!((happened("outage"), happened("back")), (1, 1));

    // What came of each answer.
    let came = came(&given, &view);
    let mut seen = BTreeMap::new();
    let mut wrong = Vec::new();
    for (index, one) in came.iter().enumerate() {
        let Some(reply) = script.reply(&one.given.reply) else {
            continue;
        };
        let next = came.get(index + 1);
        let is_last = next.is_none_or(|next| next.request["slot"] != one.request["slot"]);
        let outcome = outcome(one, is_last);
        if !is_as_expected(&reply.expected, &outcome) {
            wrong.push(format!(
                "{}: expected {}, came {outcome}",
                reply.name, reply.expected
            ));
        }
        if let (Some(cheats), Some(variant)) = (reply.field("cheats"), one.variant) {
            let has_reason = variant["reason"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty());
            if !has_reason || variant["cell"] != Value::Null {
                wrong.push(format!(
                    "{}: {cheats}. Not refused: {variant:#}",
                    reply.name
                ));
            }
        }
        seen.insert(reply.name.clone(), outcome);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen.len() >= 40, "{} answers: {seen:#?}", seen.len());
    for kind in ["right", "equal", "wrong", "fault", "no code", "unusable"] {
        assert!(
            seen.values().any(|outcome| outcome == kind),
            "none is {kind}: {seen:#?}"
        );
    }
    assert!(
        seen.values()
            .filter(|outcome| outcome.starts_with("cheat"))
            .count()
            >= 7,
        "{seen:#?}"
    );

    // No slot was lost to the service.
    for slot in rows(&view, "slots") {
        assert!(
            slot["closing"]["ended"].get("no_answer").is_none(),
            "{slot:#}"
        );
    }

    // Elites are right, and the best of all that are right is the best.
    let right: Vec<&Value> = rows(&view, "variants")
        .iter()
        .filter(|v| v["verdict"] == "right")
        .collect();
    let elites = rows(&view, "variants")
        .iter()
        .filter(|variant| variant["cell"][1] == json!(true));
    let mut count = 0;
    for elite in elites {
        assert_eq!(elite["verdict"], "right");
        count += 1;
    }
    assert!(count >= 5, "{count} elites");
    let time = |variant: &Value| number(&variant["ratio"]["median"]);
    let best = right
        .iter()
        .min_by(|a, b| time(a).total_cmp(&time(b)))
        .expect("one is right");
    assert_eq!(view["best"], best["number"], "{best:#}");
    assert!(time(best) < 0.85, "{best:#}");
    assert_eq!(summary["claim"], true, "{summary:#}");

    // Tokens and money, to the last one.
    let mut tokens = [0_u64; 3];
    for one in &came {
        let spent = &one.request["spent"];
        let (prompt, cached, answer) = one.given.tokens;
        for (sum, add) in tokens.iter_mut().zip([prompt, cached, answer]) {
            *sum += add;
        }
        if spent["failed"] == json!(0) {
            let usage = &spent["usage"];
            assert_eq!(
                (
                    &usage["prompt"],
                    &usage["cached"],
                    &usage["completion"],
                    &usage["estimated"]
                ),
                (
                    &json!(prompt),
                    &json!(cached),
                    &json!(answer),
                    &json!(false)
                ),
                "{}",
                one.given.reply
            );
            let full = (prompt - cached) as f64 * PRICE[0];
            let cost = (full + cached as f64 * PRICE[1] + answer as f64 * PRICE[2]) / 1e6;
            assert!((number(&spent["cost"]) - cost).abs() < 1e-9, "{spent}");
        }
    }
    let all = &view["models"]["models"]["scripted"];
    for (name, sum) in ["prompt", "cached", "completion"].iter().zip(tokens) {
        // Attempts that broke off may be charged: they count too.
        assert!(number(&all["usage"][name]) >= sum as f64, "{name}: {all}");
    }
    let requests: f64 = came
        .iter()
        .map(|one| number(&one.request["spent"]["requests"]))
        .sum();
    assert_eq!(number(&all["requests"]), requests);
    assert!(
        number(&all["failed"]) >= 4.0,
        "what was done wrong on purpose: {all}"
    );

    // Prompts begin like the one before on their island, and a cache is worth having.
    let shared: f64 = came
        .iter()
        .skip(1)
        .map(|one| number(&one.request["shared"]))
        .sum();
    let bytes: f64 = came
        .iter()
        .skip(1)
        .map(|one| number(&one.request["bytes"]))
        .sum();
    assert!(shared / bytes >= 0.6, "{shared} of {bytes} bytes");
    assert!(tokens[1] as f64 / tokens[0] as f64 >= 0.6, "{tokens:?}");

    // The key is nowhere but in the settings.
    for file in bed.files() {
        if file.file_name().is_some_and(|name| name != "models.toml") {
            let bytes = std::fs::read(&file).expect("a file");
            let key = b"sk-of-the-test";
            assert!(
                !bytes.windows(key.len()).any(|part| part == key),
                "{}",
                file.display()
            );
        }
    }
    assert!(!run.stderr.contains("sk-of-the-test"));
}

/// What of a run does not depend on time.
fn repeatable(view: &Value) -> Value {
    let variants: Vec<Value> = rows(view, "variants")
        .iter()
        .map(|v| {
            json!([
                v["number"],
                v["text"],
                v["verdict"],
                v["ratio"],
                v["cell"],
                v["lineage"],
                v["equal"]
            ])
        })
        .collect();
    let requests: Vec<Value> = rows(view, "requests")
        .iter()
        .map(|r| json!([r["slot"], r["turn"], r["bytes"], r["shared"], r["finish"]]))
        .collect();
    json!({ "variants": variants, "requests": requests, "best": view["best"], "counts": view["counts"] })
}

#[test]
fn killed_and_resumed_it_asks_nothing_twice_and_ends_as_if_it_had_not_been() {
    let serve = |script: &Arc<Script>| {
        let script = Arc::clone(script);
        Server::start(move |asked| script.answer(asked))
    };
    let calm_script = Arc::new(Script::new(ANSWERS));
    let calm_server = serve(&calm_script);
    let calm = bed(&calm_server.url(), &search(8));
    parsed(&calm.evolve(RUN).start().wait_within(PATIENCE));
    let expected = repeatable(&status(&calm));

    let script = Arc::new(Script::new(ANSWERS));
    let server = serve(&script);
    let bed = bed(&server.url(), &search(8));
    let resume = [
        "resume",
        "run",
        "--models",
        "models.toml",
        "--quiet",
        "--json",
    ];
    for answers in [1, 3, 4, 7] {
        let has_begun = bed.path().join("run").exists();
        let running = bed.evolve(if has_begun { &resume } else { RUN }).start();
        while script.given().len() < answers && !running.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        running.signal(libc::SIGKILL);
        running.wait_within(PATIENCE);
    }
    parsed(&bed.evolve(&resume).start().wait_within(PATIENCE));
    assert_eq!(repeatable(&status(&bed)), expected);
    // A question whose answer was on its way when the run was killed may be asked again, and is the same question.
    let names = |script: &Script| -> Vec<String> {
        script
            .given()
            .into_iter()
            .map(|given| given.reply)
            .collect()
    };
    assert_eq!(names(&script), names(&calm_script));
    assert!(server.asked().len() <= calm_server.asked().len() + 4);
}
