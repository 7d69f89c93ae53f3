//! Whether results agree: exact ones bit for bit, approximate ones within the bound of their instruction.

use std::collections::HashMap;

use r3_replay::device::Device;

use crate::bounds;
use crate::case::{Case, Element, Result};
use crate::device::run;
use crate::known;
use crate::record::{Entry, identity};

/// What comparing a case gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Elements compared; 0 when only hashes were.
    pub elements: usize,
    /// Elements with other bits.
    pub different: usize,
    /// Largest error of an approximate result, where its bound holds.
    pub worst: bounds::Error,
    /// What is wrong, with the first place.
    pub failure: Option<String>,
    /// The difference is a defect of the other side.
    pub known: Option<&'static str>,
}

/// Runs each case on a device and compares with its entry. A case without one fails.
pub fn all<'a>(
    device: &mut dyn Device,
    cases: &'a [Case],
    entries: &[Entry],
) -> Vec<(&'a Case, Verdict)> {
    let entries: HashMap<&str, &Entry> = entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry))
        .collect();
    cases
        .iter()
        .map(|case| {
            let verdict = match entries.get(case.name.as_str()) {
                Some(entry) if entry.case == identity(case) => {
                    let results = run(device, case).map_err(|error| error.to_string());
                    compare(case, &results, entry)
                }
                Some(_) => failed("the record is of another case of this name: record again"),
                None => failed("not in the record: record again"),
            };
            (case, verdict)
        })
        .collect()
}

fn failed(why: &str) -> Verdict {
    Verdict {
        failure: Some(why.into()),
        ..Verdict::default()
    }
}

/// Compares what a device gave with what was recorded of another.
pub fn compare(
    case: &Case,
    results: &std::result::Result<Vec<Vec<u8>>, String>,
    recorded: &Entry,
) -> Verdict {
    let mut verdict = differences(case, results, recorded);
    if let Some(why) = known::defect(&case.name) {
        if verdict.failure.is_none() {
            verdict.failure = Some(format!(
                "agrees now; it was known that {why}: take it off the list"
            ));
        } else if results.is_ok() {
            verdict.failure = None;
            verdict.known = Some(why);
        }
    }
    verdict
}

/// The same, without a look at what is known to differ.
pub fn differences(
    case: &Case,
    results: &std::result::Result<Vec<Vec<u8>>, String>,
    recorded: &Entry,
) -> Verdict {
    let mut verdict = Verdict::default();
    let results = match (results, &recorded.error) {
        (Ok(results), None) => results,
        (Err(error), None) => {
            verdict.failure = Some(error.clone());
            return verdict;
        }
        (_, Some(error)) => {
            verdict.failure = Some(format!("nothing to compare with: {error}"));
            return verdict;
        }
    };
    let described = case
        .buffers
        .iter()
        .filter_map(|buffer| buffer.result.as_ref());
    if results.len() != described.clone().count() || recorded.results.len() != results.len() {
        verdict.failure = Some("not as many results as the case has".into());
        return verdict;
    }
    for (index, ((bytes, result), recorded)) in results
        .iter()
        .zip(described)
        .zip(&recorded.results)
        .enumerate()
    {
        match recorded.complete(result, bytes) {
            Ok(expected) => buffer(case, index, result, bytes, &expected, &mut verdict),
            Err(why) => {
                verdict.different += 1;
                verdict
                    .failure
                    .get_or_insert(format!("result {index}: {why}"));
            }
        }
    }
    verdict
}

fn buffer(
    case: &Case,
    index: usize,
    result: &Result,
    actual: &[u8],
    expected: &[u8],
    verdict: &mut Verdict,
) {
    let bytes = result.element.bytes();
    for (row, (actual, expected)) in actual.chunks(bytes).zip(expected.chunks(bytes)).enumerate() {
        verdict.elements += 1;
        if actual == expected {
            continue;
        }
        verdict.different += 1;
        let wrong = match result.approximation(row * bytes) {
            None => Some(String::new()),
            Some((mnemonic, element)) => {
                let sources = source_values(case, result, row);
                let mut wrong = None;
                for (part, (actual, expected)) in element
                    .values(actual)
                    .into_iter()
                    .zip(element.values(expected))
                    .enumerate()
                {
                    let sources: Vec<f64> = sources
                        .iter()
                        .map(|s| s.get(part).copied().unwrap_or(f64::NAN))
                        .collect();
                    match bounds::judge(mnemonic, element, &sources, actual, expected) {
                        bounds::Judgement::Within(error) => {
                            if error.of_allowed > verdict.worst.of_allowed {
                                verdict.worst = error;
                            }
                        }
                        bounds::Judgement::Unchecked => {}
                        bounds::Judgement::Beyond(why) => wrong = Some(why),
                    }
                }
                wrong
            }
        };
        if let Some(why) = wrong
            && verdict.failure.is_none()
        {
            verdict.failure = Some(format!(
                "result {index}, row {row}: {}, not {}{}{why}, from {}",
                hex(actual),
                hex(expected),
                if why.is_empty() { "" } else { ": " },
                sources_text(case, row)
            ));
        }
    }
}

/// Values of the sources of a row, each as the one or two numbers that it holds.
fn source_values(case: &Case, result: &Result, row: usize) -> Vec<Vec<f64>> {
    let source = |index: &usize| {
        let buffer = case.buffers.get(*index)?;
        let bytes = result.element.bytes();
        Some(
            result
                .element
                .values(buffer.bytes.get(row * bytes..(row + 1) * bytes)?),
        )
    };
    result.sources.iter().filter_map(source).collect()
}

/// The sources of a row, for people, when there is one element a thread.
fn sources_text(case: &Case, row: usize) -> String {
    let threads = case.grid.iter().chain(&case.block).product::<u32>() as usize;
    let texts: Vec<String> = case
        .buffers
        .iter()
        .filter(|buffer| buffer.result.is_none() && threads > 0)
        .filter_map(|buffer| {
            let bytes = buffer.bytes.len() / threads;
            buffer.bytes.get(row * bytes..(row + 1) * bytes).map(hex)
        })
        .collect();
    texts.join(" ")
}

/// Bytes as one number in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .rev()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Element {
    /// The numbers that an element holds.
    pub fn values(self, bytes: &[u8]) -> Vec<f64> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let f16 = |at| f64::from(half::f16::from_bits(half(at)));
        let bf16 = |at| f64::from(half::bf16::from_bits(half(at)));
        match self {
            Self::Bits(_) => Vec::new(),
            Self::F16 => vec![f16(0)],
            Self::F16x2 => vec![f16(0), f16(2)],
            Self::Bf16 => vec![bf16(0)],
            Self::Bf16x2 => vec![bf16(0), bf16(2)],
            Self::F32 => vec![f64::from(f32::from_bits(u32::from_le_bytes([
                bytes[0], bytes[1], bytes[2], bytes[3],
            ])))],
            Self::F64 => {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                vec![f64::from_bits(u64::from_le_bytes(word))]
            }
        }
    }
}
