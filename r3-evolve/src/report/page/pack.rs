//! The data of a page, made small: what is clicked is unpacked by the page's own script.
//!
//! 1. A variant's text is its difference to its parent, and of that only what the parent does not say: places, and lines that are new.
//! 2. What is empty is left out, and numbers have the digits that are shown.
//! 3. The JSON of that is deflated, and written as base64: letters that are nothing in HTML.
//!
//! `script.js` does the same backwards, and so do the tests here.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::report::data::{Report, Variant};

/// How hard is tried to make it small, of 10: more takes several times as long for a hundredth.
const LEVEL: u8 = 8;

/// The data of a report as the content of an element: letters, digits, `+`, `/` and `=`.
pub(super) fn pack(of: &Report) -> String {
    let data = slim(of).to_string();
    STANDARD.encode(miniz_oxide::deflate::compress_to_vec(
        data.as_bytes(),
        LEVEL,
    ))
}

/// A report in which nothing is said twice.
fn slim(of: &Report) -> Value {
    let mut variants = Vec::with_capacity(of.variants.len());
    // Texts as the script will have them.
    let mut texts: BTreeMap<i64, String> = BTreeMap::new();
    for one in &of.variants {
        let (written, text) = variant(one, &texts);
        texts.extend(text.map(|text| (one.number, text)));
        variants.push(written);
    }
    // Plain numbers and texts: there is nothing in it that cannot be written.
    let mut all = serde_json::to_value(Report {
        variants: Vec::new(),
        ..of.clone()
    })
    .unwrap_or_default();
    if let Some(fields) = all.as_object_mut() {
        fields.insert("variants".to_owned(), Value::Array(variants));
    }
    all
}

/// A variant as it is written, and its text where that is known.
fn variant(of: &Variant, texts: &BTreeMap<i64, String>) -> (Value, Option<String>) {
    let mut written = serde_json::to_value(of).unwrap_or_default();
    let parent = of.parents.first().and_then(|parent| texts.get(parent));
    let edit = edit(&of.diff);
    let rebuilt = parent
        .zip(edit.as_deref())
        .and_then(|(parent, edit)| apply(parent, edit))
        .filter(|rebuilt| format!("{}{}", head(of), rebuilt.diff) == of.diff)
        .filter(|rebuilt| of.text.is_empty() || of.text == rebuilt.text);
    let text = match &rebuilt {
        Some(rebuilt) => Some(rebuilt.text.clone()),
        None if of.text.is_empty() && of.diff.is_empty() => parent.cloned(),
        None => (!of.text.is_empty()).then(|| of.text.clone()),
    };
    if let (Some(fields), Some(_), Some(edit)) = (written.as_object_mut(), &rebuilt, edit) {
        fields.insert("edit".to_owned(), Value::String(edit));
        fields.remove("diff");
        fields.insert("whole".to_owned(), Value::Bool(!of.text.is_empty()));
        fields.remove("text");
    }
    shorten(&mut written);
    (written, text)
}

/// The first two lines of a difference.
fn head(of: &Variant) -> String {
    let parent = of.parents.first().copied().unwrap_or_default();
    format!("--- variant {parent}\n+++ variant {}\n", of.number)
}

/// Leaves out what is empty, and digits that nobody is shown.
fn shorten(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(shorten);
            fields.retain(|_, value| !is_empty(value));
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().map(|value| (value * 1e5).round() / 1e5);
            if let Some(rounded) = rounded.and_then(serde_json::Number::from_f64) {
                *number = rounded;
            }
        }
        _ => {}
    }
}

/// Whether a field is what the script takes for a field that is not there.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => false,
    }
}

/// Lines with their ends, as differences have them: `\n`, `\r\n` or `\r`.
fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(place) = rest.find(['\n', '\r']) {
        let end = if rest[place..].starts_with("\r\n") {
            place + 2
        } else {
            place + 1
        };
        let (line, after) = rest.split_at(end);
        lines.push(line);
        rest = after;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// A difference without its head and without the lines that the parent has. `None` without a difference.
fn edit(diff: &str) -> Option<String> {
    let all = lines(diff);
    let mut out = String::new();
    for line in all.get(2..)? {
        match line.chars().next() {
            Some(' ') => out.push_str(" \n"),
            Some('-') => out.push_str("-\n"),
            _ => out.push_str(line),
        }
    }
    (!out.is_empty()).then_some(out)
}

/// What an edit makes of a parent's text.
struct Rebuilt {
    /// The text.
    text: String,
    /// The difference, without its head.
    diff: String,
}

/// As `script.js` does it. `None` where the edit is not one of this text.
fn apply(parent: &str, edit: &str) -> Option<Rebuilt> {
    let old = lines(parent);
    let (mut text, mut diff) = (String::with_capacity(parent.len()), String::new());
    let mut at = 0;
    for line in lines(edit) {
        match line.chars().next()? {
            '@' => {
                let begin = begin(line)?;
                text.extend(old.get(at..begin)?.iter().copied());
                at = begin;
                diff.push_str(line);
            }
            kind @ (' ' | '-') => {
                let one = *old.get(at)?;
                at += 1;
                diff.push(kind);
                diff.push_str(one);
                if !one.ends_with(['\n', '\r']) {
                    diff.push('\n');
                }
                if kind == ' ' {
                    text.push_str(one);
                }
            }
            '+' => {
                text.push_str(line.get(1..)?);
                diff.push_str(line);
            }
            // The line before has no end.
            '\\' => {
                if diff.lines().next_back()?.starts_with('+') {
                    text.pop();
                }
                diff.push_str(line);
            }
            _ => return None,
        }
    }
    text.extend(old.get(at..)?.iter().copied());
    Some(Rebuilt { text, diff })
}

/// How many lines of the old text lie before a hunk: `@@ -12,7 +12,8 @@` has 11.
fn begin(line: &str) -> Option<usize> {
    let old = line.strip_prefix("@@ -")?.split(' ').next()?;
    let (from, count) = old.split_once(',').unwrap_or((old, "1"));
    let from: usize = from.parse().ok()?;
    if count == "0" {
        Some(from)
    } else {
        from.checked_sub(1)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use r3_source::diff;

    use super::*;

    /// What a page's script has of packed data.
    pub(crate) fn unpack(packed: &str) -> Report {
        let bytes = STANDARD.decode(packed).unwrap();
        let bytes = miniz_oxide::inflate::decompress_to_vec(&bytes).unwrap();
        let mut all: Value = serde_json::from_slice(&bytes).unwrap();
        let mut texts: BTreeMap<i64, String> = BTreeMap::new();
        for one in all["variants"].as_array_mut().unwrap() {
            let number = one["number"].as_i64().unwrap();
            let parent = one["parents"][0].as_i64();
            let before = parent.and_then(|parent| texts.get(&parent));
            if let Some(edit) = one["edit"].as_str() {
                let rebuilt = apply(before.unwrap(), edit).unwrap();
                let head = format!(
                    "--- variant {}\n+++ variant {number}\n",
                    parent.unwrap_or(0)
                );
                one["diff"] = Value::String(head + &rebuilt.diff);
                if one["whole"] == true {
                    one["text"] = Value::String(rebuilt.text.clone());
                }
                texts.insert(number, rebuilt.text);
            } else if let Some(text) = one["text"].as_str() {
                texts.insert(number, text.to_owned());
            } else if let Some(before) = before.cloned() {
                texts.insert(number, before);
            }
        }
        serde_json::from_value(all).unwrap()
    }

    fn packed(number: i64, parents: &[i64], text: &str, diff: String) -> Variant {
        Variant {
            number,
            parents: parents.to_vec(),
            text: text.to_owned(),
            diff,
            ..Variant::default()
        }
    }

    fn differing(before: &str, after: &str) -> Report {
        let names = ("variant 1", "variant 2");
        Report {
            variants: vec![
                packed(1, &[], before, String::new()),
                packed(2, &[1], after, diff::unified(before, after, names)),
            ],
            ..Report::default()
        }
    }

    #[test]
    fn what_a_difference_says_is_not_written_as_a_text_too() {
        let before: String = (0..400).map(|line| format!("int a{line};\n")).collect();
        let after = before.replace("a7;", "b7;").replace("a300;", "");
        let report = differing(&before, &after);
        let slim = slim(&report);
        let of = &slim["variants"][1];
        assert!(of["text"].is_null() && of["diff"].is_null(), "{of}");
        let edit = of["edit"].as_str().unwrap();
        assert!(
            edit.contains("+int b7;\n") && !edit.contains("a7"),
            "{edit}"
        );
        assert_eq!(unpack(&pack(&report)), report);
    }

    #[test]
    fn a_difference_to_a_text_that_is_not_known_stays_as_it_is() {
        let mut report = differing("a\nb\n", "a\nc\n");
        report.variants[1].diff = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n".to_owned();
        assert_eq!(unpack(&pack(&report)), report);
        let mut report = differing("a\nb\n", "a\nc\n");
        report.variants[0].text.clear();
        assert_eq!(unpack(&pack(&report)), report);
        let mut report = differing("a\nb\n", "a\nc\n");
        report.variants[1].text.clear();
        assert_eq!(unpack(&pack(&report)), report);
    }

    #[test]
    fn numbers_have_the_digits_that_are_shown() {
        let mut value = serde_json::json!({"median": 0.123_456_789, "pairs": 7, "low": 0.0});
        shorten(&mut value);
        assert_eq!(value, serde_json::json!({"median": 0.12346, "pairs": 7}));
    }

    proptest! {
        #[test]
        fn any_two_texts_come_back(
            before in "([ab+@\\\\ -]{0,3}(\n|\r\n|\r|\u{0}|\u{2028}|é)){0,12}[ab]?",
            after in "([ab+@\\\\ -]{0,3}(\n|\r\n|\r|\u{0}|\u{2028}|é)){0,12}[ab]?",
        ) {
            let report = differing(&before, &after);
            prop_assert_eq!(unpack(&pack(&report)), report);
        }
    }
}
