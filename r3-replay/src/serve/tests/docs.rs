//! The examples of `docs/serve.md` are what this program reads and writes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::evaluate::describe::KernelDescription;
use crate::evaluate::outcome::Outcome;
use crate::evaluate::plan::Plan;
use crate::evaluate::{Candidate, Verdict};
use crate::serve::problem::{PROBLEMS, Problem};
use crate::serve::protocol::{
    DescribeRequest, Hello, JobReport, Line, PrepareAnswer, PrepareRequest, StatusAnswer,
    SubmitAnswer, SubmitRequest,
};

const TEXT: &str = include_str!("../../../../docs/serve.md");

/// Examples of JSON with the type that they are of.
fn examples() -> Vec<(String, String)> {
    let mut examples = Vec::new();
    let mut lines = TEXT.lines();
    while let Some(line) = lines.next() {
        if let Some(of) = line.strip_prefix("```json") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            examples.push((of.trim().to_owned(), body.join("\n")));
        }
    }
    examples
}

/// What a client sends: what it leaves out is filled in.
fn sent<T: DeserializeOwned>(text: &str) {
    if let Err(error) = serde_json::from_str::<T>(text) {
        panic!("{error}: {text}");
    }
}

/// What a server sends: nothing is left out, and nothing is there that the type does not have.
fn answered<T: DeserializeOwned + Serialize>(text: &str) -> T {
    let value: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let written: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(&value).unwrap(), written);
    value
}

#[test]
fn examples_are_of_the_types_that_they_name() {
    let mut verdicts = Vec::new();
    let examples = examples();
    assert!(examples.len() >= 15);
    for (of, text) in examples {
        match of.as_str() {
            "SubmitRequest" => sent::<SubmitRequest>(&text),
            "DescribeRequest" => sent::<DescribeRequest>(&text),
            "PrepareRequest" => sent::<PrepareRequest>(&text),
            "Candidate" => sent::<Candidate>(&text),
            "Plan" => sent::<Plan>(&text),
            "SubmitAnswer" => drop(answered::<SubmitAnswer>(&text)),
            "Hello" => drop(answered::<Hello>(&text)),
            "JobReport" => drop(answered::<JobReport>(&text)),
            "KernelDescription" => drop(answered::<KernelDescription>(&text)),
            "PrepareAnswer" => drop(answered::<PrepareAnswer>(&text)),
            "StatusAnswer" => drop(answered::<StatusAnswer>(&text)),
            "Problem" => drop(answered::<Problem>(&text)),
            "Outcome" => verdicts.push(answered::<Outcome>(&text).verdict),
            "lines" => text.lines().for_each(|line| drop(answered::<Line>(line))),
            other => panic!("`{other}` is no type"),
        }
    }
    assert_eq!(verdicts, [Verdict::NoCode, Verdict::Wrong]);
}

#[test]
fn all_kinds_of_problems_are_listed() {
    for (code, status, help) in PROBLEMS {
        let code = serde_json::to_value(code).unwrap();
        let row = format!("| `{}` | {status} | {help} |", code.as_str().unwrap());
        assert!(TEXT.contains(&row), "{row}");
    }
}
