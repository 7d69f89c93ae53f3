//! Candidates and plans out of files.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use r3_codegen::source::files;
use serde_json::Value;

use super::super::Failure;
use super::PlanKind;
use crate::evaluate::candidate::Candidate;
use crate::evaluate::plan::Plan;

/// A line with more bytes is no candidate.
const LONGEST: u64 = 256 << 20;

/// Lines that are read ahead.
const AHEAD: usize = 64;

/// A candidate to be evaluated.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it is called in the output.
    pub label: String,
    /// What is tried.
    pub candidate: Candidate,
    /// How thoroughly.
    pub plan: Plan,
}

/// What is not said of each candidate.
pub fn base_plan(kind: PlanKind, file: Option<&Path>) -> Result<Plan, Failure> {
    let Some(path) = file else {
        return Ok(match kind {
            PlanKind::Judge => Plan::judge_only(),
            PlanKind::Search => Plan::default(),
            PlanKind::Final => Plan::final_claim(),
        });
    };
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::Message(format!("--plan-file {}: {error}", path.display()))
    };
    let text = files::text(path, files::SETTINGS).map_err(|error| wrong(&error))?;
    if path
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        return toml::from_str(&text).map_err(|error| wrong(&error));
    }
    serde_json::from_str(&text).map_err(|error| wrong(&error))
}

/// Candidates as they come; without a file, the original.
pub fn read(path: Option<&Path>, plan: Plan) -> Result<Receiver<Result<Line, Failure>>, Failure> {
    let (send, lines) = sync_channel(AHEAD);
    let Some(path) = path else {
        let original = Line {
            label: "original".to_owned(),
            candidate: Candidate::default(),
            plan: Plan {
                again: true,
                ..plan
            },
        };
        // There is room for one.
        _ = send.send(Ok(original));
        return Ok(lines);
    };
    let name = path.display().to_string();
    let input: Box<dyn Read + Send> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        let file = File::open(path)
            .map_err(|error| Failure::Message(format!("--candidates {name}: {error}")))?;
        Box::new(file)
    };
    // Reading may wait for ever; the thread ends with the process.
    std::thread::Builder::new()
        .name("candidates".into())
        .spawn(move || read_all(input, &name, &plan, &send))
        .map_err(|error| Failure::Message(format!("no thread could be started: {error}")))?;
    Ok(lines)
}

fn read_all(
    input: Box<dyn Read + Send>,
    name: &str,
    plan: &Plan,
    send: &SyncSender<Result<Line, Failure>>,
) {
    let mut input = BufReader::new(input);
    for number in 1u64.. {
        let mut text = Vec::new();
        let read = input.by_ref().take(LONGEST).read_until(b'\n', &mut text);
        let line = match read {
            Ok(0) => return,
            Ok(read) if read as u64 == LONGEST && !text.ends_with(b"\n") => Err(format!(
                "it has more than {} MiB, and no candidate has",
                LONGEST >> 20
            )),
            Ok(_) if text.iter().all(u8::is_ascii_whitespace) => continue,
            Ok(_) => parse(&text, number, plan),
            Err(error) => Err(error.to_string()),
        };
        let failed = line.is_err();
        let line = line
            .map_err(|why| Failure::Message(format!("--candidates {name}, line {number}: {why}")));
        if send.send(line).is_err() || failed {
            return;
        }
    }
}

/// One line: a candidate, or an object with one.
fn parse(text: &[u8], number: u64, plan: &Plan) -> Result<Line, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let mut line = Line {
        label: number.to_string(),
        candidate: Candidate::default(),
        plan: plan.clone(),
    };
    let Value::Object(mut fields) = value else {
        return Err("a candidate is expected, as a JSON object".to_owned());
    };
    let Some(candidate) = fields.remove("candidate") else {
        line.candidate =
            serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
        return Ok(line);
    };
    line.candidate = serde_json::from_value(candidate).map_err(|error| error.to_string())?;
    if let Some(label) = fields.remove("label") {
        line.label = match label {
            Value::String(label) => label,
            other => other.to_string(),
        };
    }
    match fields.remove("plan") {
        None | Some(Value::Null) => {}
        Some(Value::Object(changes)) => line.plan = changed(plan, changes)?,
        Some(_) => return Err("\"plan\" is an object with what differs from --plan".to_owned()),
    }
    match fields.keys().next() {
        None => Ok(line),
        Some(unknown) => Err(format!(
            "`{unknown}` is unknown beside \"candidate\": \"label\" and \"plan\" are known"
        )),
    }
}

/// A plan with some fields replaced.
fn changed(plan: &Plan, changes: serde_json::Map<String, Value>) -> Result<Plan, String> {
    let mut whole = serde_json::to_value(plan).map_err(|error| error.to_string())?;
    if let Value::Object(fields) = &mut whole {
        fields.extend(changes);
    }
    serde_json::from_value(whole).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Line, String> {
        parse(text.as_bytes(), 7, &Plan::final_claim())
    }

    #[test]
    fn a_line_is_a_candidate_or_has_one_with_a_label_and_what_differs_in_the_plan() {
        let bare = line(r#"{"launch": {"block": [64, 1, 1]}}"#).unwrap();
        assert_eq!(bare.label, "7");
        assert_eq!(bare.candidate.launch.block, Some([64, 1, 1]));
        assert_eq!(bare.plan, Plan::final_claim());
        let wrapped =
            line(r#"{"candidate": {}, "label": "a/a", "plan": {"again": true}}"#).unwrap();
        assert_eq!(wrapped.label, "a/a");
        let expected = Plan {
            again: true,
            ..Plan::final_claim()
        };
        assert_eq!(wrapped.plan, expected);
    }

    #[test]
    fn what_is_misspelt_is_told_by_name() {
        for (text, told) in [
            (r#"{"candidate": {}, "lable": "x"}"#, "lable"),
            (r#"{"candidate": {"lunch": {}}}"#, "lunch"),
            (r#"{"candidate": {}, "plan": {"pears": 3}}"#, "pears"),
            ("[]", "object"),
        ] {
            let error = line(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
