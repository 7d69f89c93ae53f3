//! The notation of `forms/*.txt`: one line is one instruction, or several that differ in their modifiers.
//!
//! ```text
//! add.{rn,rz}.f32 : T = T T                     the instruction on registers of these types
//! setp.eq.s32 : p|p = s32 s32                   two destinations joined by `|`
//! carry : u32 u32 = u32 u32 :: add.cc …; …;     a body of its own, with $d0 $d1 … $a0 $a1 …
//! ```
//!
//! `{a,b}` stands for one line each; in a body `$0`, `$1`, … repeat what was chosen. Types of operands:
//! - a PTX type; `T` is the last type in the mnemonic, `T0` the first, `W` twice as wide as `T`;
//! - `p`: a predicate; `#x`: the literal `x`;
//! - `n`: a count of bits, often too large; `n5`: 0 to 31; `k`: a small signed number; `c`: the third operand
//!   of a shuffle; `t`: a value of type `T` out of a few.
//!
//! Declarations for a body follow after `; ;`.

/// One line, all choices made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// File it comes from, without extension.
    pub family: String,
    /// What stands before the colon.
    pub title: String,
    /// Destinations.
    pub dests: Vec<Operand>,
    /// Whether the destinations are joined by `|`.
    pub paired: bool,
    /// Sources.
    pub sources: Vec<Operand>,
    /// Instructions, where they are not simply the title.
    pub body: Option<String>,
    /// Declarations of the body.
    pub declarations: String,
}

/// One operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register of this type, with values of this kind.
    Register(String, Values),
    /// A literal.
    Literal(String),
}

impl Operand {
    /// Type of a register; empty for a literal.
    pub fn ty(&self) -> &str {
        match self {
            Self::Register(ty, _) => ty,
            Self::Literal(_) => "",
        }
    }
}

/// Which values an operand takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Edge values of the type, and random bits.
    Edges,
    /// Counts of bits.
    Counts,
    /// 0 to 31.
    Lane,
    /// -40 to 40.
    Small,
    /// Third operand of a shuffle.
    Clamp,
    /// One of few.
    Few,
}

const FILES: [(&str, &str); 9] = [
    ("integer", include_str!("../forms/integer.txt")),
    ("bits", include_str!("../forms/bits.txt")),
    ("compare", include_str!("../forms/compare.txt")),
    ("float", include_str!("../forms/float.txt")),
    ("half", include_str!("../forms/half.txt")),
    ("convert", include_str!("../forms/convert.txt")),
    ("approximate", include_str!("../forms/approximate.txt")),
    ("video", include_str!("../forms/video.txt")),
    ("warp", include_str!("../forms/warp.txt")),
];

/// All forms of all files.
///
/// # Panics
/// When a file is wrong.
pub fn all() -> Vec<Form> {
    let mut forms = Vec::new();
    for (family, text) in FILES {
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            for (line, choices) in expand(line) {
                forms.push(
                    parse(family, &line, &choices).unwrap_or_else(|| panic!("{family}: {line}")),
                );
            }
        }
    }
    forms
}

/// All choices of the first part that has braces, and so on; with what was chosen.
fn expand(line: &str) -> Vec<(String, Vec<String>)> {
    // Braces of a body are PTX's own.
    let (head, body) = line
        .split_once("::")
        .map_or((line, None), |(h, b)| (h, Some(b)));
    let mut done = Vec::new();
    let mut open = vec![(head.to_owned(), Vec::new())];
    while let Some((text, choices)) = open.pop() {
        let Some(start) = text.find('{') else {
            let whole = body.map_or(text.clone(), |body| format!("{text}::{body}"));
            done.push((whole, choices));
            continue;
        };
        let end = start + text[start..].find('}').expect("closed");
        for choice in text[start + 1..end].split(',').rev() {
            let mut chosen = choices.clone();
            chosen.push(choice.to_owned());
            open.push((
                format!("{}{choice}{}", &text[..start], &text[end + 1..]),
                chosen,
            ));
        }
    }
    done
}

fn parse(family: &str, line: &str, choices: &[String]) -> Option<Form> {
    let (title, rest) = line.split_once(" : ")?;
    let (operands, body) = rest
        .split_once("::")
        .map_or((rest, None), |(o, b)| (o, Some(b)));
    let (dests, sources) = operands.split_once('=')?;
    let paired = dests.contains('|');
    let list = |text: &str| {
        text.split(|c: char| c == '|' || c.is_whitespace())
            .filter(|word| !word.is_empty())
            .map(|word| operand(word, title))
            .collect::<Option<Vec<_>>>()
    };
    let (body, declarations) = match body {
        None => (None, String::new()),
        Some(body) => {
            let mut text = body.to_owned();
            for (index, choice) in choices.iter().enumerate() {
                text = text.replace(&format!("${index}"), choice);
            }
            let (body, declarations) = text.split_once("; ;").unwrap_or((&text, ""));
            (
                Some(format!("{};", body.trim().trim_end_matches(';'))),
                declarations.trim().to_owned(),
            )
        }
    };
    Some(Form {
        family: family.to_owned(),
        title: title.trim().to_owned(),
        dests: list(dests)?,
        paired,
        sources: list(sources)?,
        body,
        declarations,
    })
}

fn operand(word: &str, title: &str) -> Option<Operand> {
    let types: Vec<&str> = title.split('.').filter(|word| is_type(word)).collect();
    let last = types.last().copied();
    let register = |ty: &str, values| Some(Operand::Register(ty.to_owned(), values));
    match word {
        "T" => register(last?, Values::Edges),
        "T0" => register(types.first()?, Values::Edges),
        "W" => register(
            match last? {
                "u16" => "u32",
                "s16" => "s32",
                "u32" => "u64",
                "s32" => "s64",
                _ => return None,
            },
            Values::Edges,
        ),
        "p" => register("pred", Values::Edges),
        "n" => register("b32", Values::Counts),
        "n5" => register("b32", Values::Lane),
        "k" => register("s32", Values::Small),
        "c" => register("b32", Values::Clamp),
        "t" => register(last?, Values::Few),
        _ if word.starts_with('#') => Some(Operand::Literal(word[1..].to_owned())),
        _ if is_type(word) => register(word, Values::Edges),
        _ => None,
    }
}

/// Whether a word is a type of PTX that has values here.
pub fn is_type(word: &str) -> bool {
    matches!(
        word,
        "pred"
            | "b8"
            | "b16"
            | "b32"
            | "b64"
            | "u8"
            | "u16"
            | "u32"
            | "u64"
            | "s8"
            | "s16"
            | "s32"
            | "s64"
            | "f16"
            | "f16x2"
            | "bf16"
            | "bf16x2"
            | "f32"
            | "f64"
            | "u16x2"
            | "s16x2"
            | "tf32"
            | "e4m3x2"
            | "e5m2x2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_choices_stands_for_all_of_them() {
        let lines: Vec<String> = expand("add.{rn,rz}.{f32,f64} : T = T T")
            .into_iter()
            .map(|(l, _)| l)
            .collect();
        assert_eq!(
            lines,
            [
                "add.rn.f32 : T = T T",
                "add.rn.f64 : T = T T",
                "add.rz.f32 : T = T T",
                "add.rz.f64 : T = T T"
            ]
        );
    }

    #[test]
    fn every_line_of_the_files_is_understood_and_named_once() {
        let mut names: Vec<String> = all()
            .iter()
            .map(|f| format!("{} {:?} {:?}", f.title, f.dests, f.sources))
            .collect();
        let count = names.len();
        assert!(count > 900, "{count}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
