//! The table of forms: readable text, read once.
//!
//! A line is the mnemonic, its operands, and after `|` its properties:
//!
//! ```text
//! shfl.sync.(up down bfly idx).b32    =b32|pred, b32, b32, b32, b32    | convergent, ptx 6.0, sm 30
//! ```
//!
//! Modifiers: `.x` must stand there, `{.x}` may, `{.x.y}` both or none, `.(x y)` is one of these, `.$set` one of a set that a
//! line `$set = x y` named before (or anywhere in the file), `%set` inside a word makes one word for each
//! entry of the set.
//!
//! Operands begin with what is done with them: `=` written, `+` read and written, `*` an address that is
//! not accessed, nothing: read. Then:
//!
//! | text | what |
//! |---|---|
//! | `T` `U` `V` `W` `X` | the first … fifth type among the modifiers; `2T`: twice as wide; else a type by name |
//! | `T~` | a register may be wider than the type |
//! | `T*v` `T*4` `T*x` `T<>` | as many as `.v2` says; 4; as `.x4` and the shape say; one or its parts in braces |
//! | `&T` | also an address |
//! | `T_` | also `_` |
//! | `T\|pred` `T\|\|pred` | a second destination that may, must follow |
//! | `T.sel` `T.-sel` | with a selector of bytes or halves; and a sign |
//! | `!pred` | a predicate that may be negated |
//! | `#` `#0..7` `#4/8` `#0..15:u32` | a number; in a range; one of; or a register |
//! | `[1]` `[2]` `[shared]` `[tmem]` | memory in the first, second space among the modifiers; in this space |
//! | `A` `B` `C` `D` `F` | registers of a matrix; `F`: the one that a modifier names |
//! | `…?` `…?word` | may be left out; is there when the modifier is |

use std::collections::HashMap;
use std::sync::LazyLock;

use super::form::{
    Access, Count, Effects, Form, FormId, Matrix, Numbers, OperandKind, OperandSpec, Place,
    Presence, Slot, Sm, TypeRule,
};
use super::{Opcode, ScalarType, Space, Word};

/// The files of the table: name, text.
const FILES: &[(&str, &str)] = &[
    ("arithmetic", include_str!("forms/arithmetic.txt")),
    ("logic", include_str!("forms/logic.txt")),
    ("memory", include_str!("forms/memory.txt")),
    ("control", include_str!("forms/control.txt")),
    ("async", include_str!("forms/async.txt")),
    ("matrix", include_str!("forms/matrix.txt")),
    ("tcgen05", include_str!("forms/tcgen05.txt")),
    ("texture", include_str!("forms/texture.txt")),
    ("video", include_str!("forms/video.txt")),
];

/// The table.
#[derive(Debug)]
pub struct Forms {
    forms: Vec<Form>,
    by_opcode: HashMap<Opcode, Vec<FormId>>,
    /// Lines that could not be read. Empty: a test watches over it.
    pub unread: Vec<String>,
}

static TABLE: LazyLock<Forms> = LazyLock::new(Forms::read);

impl Forms {
    /// The table.
    pub fn table() -> &'static Self {
        &TABLE
    }

    /// All forms, by [`FormId`].
    pub fn all(&self) -> &[Form] {
        &self.forms
    }

    /// One form.
    pub fn get(&self, id: FormId) -> Option<&Form> {
        self.forms.get(usize::from(id.0))
    }

    /// Forms of an instruction.
    pub fn of(&self, opcode: Opcode) -> &[FormId] {
        self.by_opcode.get(&opcode).map_or(&[], |forms| forms)
    }

    fn read() -> Self {
        let mut table = Self {
            forms: Vec::new(),
            by_opcode: HashMap::new(),
            unread: Vec::new(),
        };
        for (file, text) in FILES {
            let sets = sets(text);
            let lines = text.lines().map(str::trim);
            for line in lines.filter(|l| !l.is_empty() && !l.starts_with(['#', '$'])) {
                let Some(form) = form(line, &sets) else {
                    table.unread.push(format!("{file}: {line}"));
                    continue;
                };
                let id = FormId(table.forms.len() as u16);
                table.by_opcode.entry(form.opcode).or_default().push(id);
                table.forms.push(form);
            }
        }
        table
    }
}

type Sets<'a> = HashMap<&'a str, Vec<&'a str>>;

fn sets(text: &str) -> Sets<'_> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('$'));
    let sets = lines.filter_map(|line| line.split_once('='));
    sets.map(|(name, words)| (name.trim(), words.split_whitespace().collect()))
        .collect()
}

fn form(line: &str, sets: &Sets<'_>) -> Option<Form> {
    // `|` also joins two destinations: the properties stand after the last that has a blank before it.
    let (text, properties) = match line.rsplit_once(" |") {
        Some((text, properties)) => (text.trim(), properties),
        None => (line, ""),
    };
    let (mnemonic, operands) = match mnemonic_end(text) {
        Some(end) => text.split_at(end),
        None => (text, ""),
    };
    let (opcode, slots) = slots(mnemonic, sets)?;
    let operands = operands.trim();
    let operands = match operands {
        "" => Vec::new(),
        _ => operands
            .split(", ")
            .map(|o| operand(o.trim()))
            .collect::<Option<_>>()?,
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut form = Form {
        opcode,
        slots,
        operands,
        effects: Effects::default(),
        ptx: None,
        sm: None,
        spelled: spell(&text, sets),
        text,
    };
    for operand in &form.operands {
        if is_memory(operand.kind) {
            form.effects.reads |= matches!(operand.access, Access::Read | Access::ReadWrite);
            form.effects.writes |= matches!(operand.access, Access::Write | Access::ReadWrite);
        }
    }
    for property in properties
        .split(',')
        .map(str::trim)
        .filter(|p| !p.is_empty())
    {
        apply(&mut form, property)?;
    }
    Some(form)
}

/// Writes out the sets.
fn spell(text: &str, sets: &Sets<'_>) -> String {
    let mut pieces = text.split('$');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric());
        let (name, rest) = piece.split_at(end.unwrap_or(piece.len()));
        let words = sets.get(name).map(|words| words.join(" "));
        out.push_str(&format!("({})", words.unwrap_or_default()));
        out.push_str(rest);
    }
    out
}

fn is_memory(kind: OperandKind) -> bool {
    use OperandKind as K;
    matches!(kind, K::Memory(_) | K::TensorMap | K::Texture | K::Surface)
}

/// The first blank outside parentheses.
fn mnemonic_end(text: &str) -> Option<usize> {
    let mut depth = 0i32;
    text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0 && c == ' ').then_some(at)
    })
}

fn slots(mnemonic: &str, sets: &Sets<'_>) -> Option<(Opcode, Vec<Slot>)> {
    let end = mnemonic.find(['.', '{']).unwrap_or(mnemonic.len());
    let (opcode, mut rest) = mnemonic.split_at(end);
    let opcode = Opcode::from_text(opcode)?;
    let mut slots = Vec::new();
    while !rest.is_empty() {
        let optional = rest.starts_with('{');
        let group = if optional {
            let end = rest.find('}')?;
            let group = rest.get(1..end)?;
            rest = rest.get(end + 1..)?;
            group
        } else {
            let end = group_end(rest);
            let group = rest.get(..end)?;
            rest = rest.get(end..)?;
            group
        };
        for (i, part) in parts(group).into_iter().enumerate() {
            slots.push(Slot {
                words: alternatives(part, sets)?,
                optional: optional && i == 0,
                joined: optional && i > 0,
            });
        }
    }
    Some((opcode, slots))
}

/// End of `.word` or `.(a b)` at the start.
fn group_end(rest: &str) -> usize {
    let mut depth = 0i32;
    let end = rest.char_indices().skip(1).find(|&(_, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0 && (c == '.' || c == '{')
    });
    end.map_or(rest.len(), |(at, _)| at)
}

fn parts(group: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = group;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(group_end(rest));
        parts.push(part.trim_start_matches('.'));
        rest = after;
    }
    parts
}

fn alternatives(part: &str, sets: &Sets<'_>) -> Option<Vec<Word>> {
    if let Some(set) = part.strip_prefix('$') {
        return sets.get(set)?.iter().map(|w| Word::from_text(w)).collect();
    }
    if let Some(list) = part.strip_prefix('(') {
        let words = list.strip_suffix(')')?.split_whitespace();
        return words.map(Word::from_text).collect();
    }
    if let Some((before, rest)) = part.split_once('%') {
        // The name of the set ends where `k` of the shape begins.
        let (set, after) = rest.split_at(rest.find('k')?);
        let numbers = sets.get(set)?.iter();
        return numbers
            .map(|n| Word::from_text(&format!("{before}{n}{after}")))
            .collect();
    }
    Some(vec![Word::from_text(part)?])
}

fn operand(text: &str) -> Option<OperandSpec> {
    let (access, text) = match text.as_bytes().first()? {
        b'=' => (Access::Write, text.get(1..)?),
        b'+' => (Access::ReadWrite, text.get(1..)?),
        b'*' => (Access::Address, text.get(1..)?),
        _ => (Access::Read, text),
    };
    let (text, presence) = match text.split_once('?') {
        None => (text, Presence::Always),
        Some((text, "")) => (text, Presence::Optional),
        Some((text, word)) => (text, Presence::With(Word::from_text(word)?)),
    };
    let (text, second) = if let Some(text) = text.strip_suffix("||pred") {
        (text, Some(Presence::Always))
    } else if let Some(text) = text.strip_suffix("|pred") {
        (text, Some(Presence::Optional))
    } else {
        (text, None)
    };
    Some(OperandSpec {
        access,
        kind: kind(text)?,
        presence,
        second,
    })
}

/// Kinds that have a name of their own.
const NAMED: &[(&str, OperandKind)] = &[
    ("!pred", OperandKind::Predicate),
    ("A", OperandKind::Fragment(Matrix::A)),
    ("B", OperandKind::Fragment(Matrix::B)),
    ("C", OperandKind::Fragment(Matrix::C)),
    ("D", OperandKind::Fragment(Matrix::D)),
    ("F", OperandKind::Fragment(Matrix::Named)),
    ("[1]", OperandKind::Memory(Place::Nth(0))),
    ("[2]", OperandKind::Memory(Place::Nth(1))),
    ("[shared]", OperandKind::Memory(Place::In(Space::Shared))),
    ("[tmem]", OperandKind::Memory(Place::Tensor)),
    ("[tensor]", OperandKind::TensorMap),
    ("[tex]", OperandKind::Texture),
    ("[surf]", OperandKind::Surface),
    ("[handle]", OperandKind::Handle),
    ("handle", OperandKind::Handle),
    ("addr", OperandKind::GenericAddress),
    ("offsets", OperandKind::Im2colOffsets),
    ("ignore", OperandKind::SourceSize),
    ("lanes", OperandKind::LaneMask),
    ("gradient", OperandKind::Gradient),
    ("offset", OperandKind::TexelOffset),
    ("depth", OperandKind::Depth),
    ("label", OperandKind::Label),
    ("labels", OperandKind::BranchTargets),
    ("call", OperandKind::Call),
];

fn kind(text: &str) -> Option<OperandKind> {
    if let Some((_, kind)) = NAMED.iter().find(|(name, _)| *name == text) {
        return Some(*kind);
    }
    if let Some(text) = text.strip_prefix('#') {
        return match text.split_once(':') {
            Some((range, ty)) => Some(OperandKind::Bounded(
                numbers(range)?,
                ScalarType::from_text(ty)?,
            )),
            None => Some(OperandKind::Immediate(numbers(text)?)),
        };
    }
    if let Some(ty) = text.strip_suffix(".-sel") {
        return Some(OperandKind::Selected(type_rule(ty)?, true));
    }
    if let Some(ty) = text.strip_suffix(".sel") {
        return Some(OperandKind::Selected(type_rule(ty)?, false));
    }
    let (address, text) = strip(text.strip_prefix('&'), text);
    let (sink, text) = strip(text.strip_suffix('_'), text);
    let (text, count) = match (text.strip_suffix("<>"), text.split_once('*')) {
        (Some(text), _) => (text, Count::Parts),
        (None, Some((text, "v"))) => (text, Count::Vector),
        (None, Some((text, "x"))) => (text, Count::Repeat),
        (None, Some((text, n))) => (text, Count::Exactly(n.parse().ok()?)),
        (None, None) => (text, Count::One),
    };
    let (relaxed, text) = strip(text.strip_suffix('~'), text);
    Some(OperandKind::Value {
        ty: type_rule(text)?,
        relaxed,
        count,
        address,
        sink,
    })
}

fn strip<'a>(stripped: Option<&'a str>, text: &'a str) -> (bool, &'a str) {
    (stripped.is_some(), stripped.unwrap_or(text))
}

fn type_rule(text: &str) -> Option<TypeRule> {
    if text == "2T" {
        return Some(TypeRule::Wide);
    }
    if let Some(n) = ["T", "U", "V", "W", "X"].iter().position(|t| *t == text) {
        return Some(TypeRule::Nth(n as u8));
    }
    ScalarType::from_text(text).map(TypeRule::Fixed)
}

fn numbers(text: &str) -> Option<Numbers> {
    match text {
        "" => return Some(Numbers::Any),
        "4/8/16" => return Some(Numbers::OneOf(&[4, 8, 16])),
        "-1/1" => return Some(Numbers::OneOf(&[-1, 1])),
        _ => {}
    }
    match text.split_once("..") {
        Some((from, to)) => Some(Numbers::Range(from.parse().ok()?, to.parse().ok()?)),
        None => {
            let only = text.parse().ok()?;
            Some(Numbers::Range(only, only))
        }
    }
}

fn apply(form: &mut Form, property: &str) -> Option<()> {
    let effects = &mut form.effects;
    match property {
        "convergent" => effects.convergent = true,
        "sync" => effects.sync = true,
        "control" => effects.control = true,
        "reads" => effects.reads = true,
        "writes" => effects.writes = true,
        "carry in" => effects.carry_in = true,
        "carry out" => effects.carry_out = true,
        "approximate" => effects.approximate = true,
        "old" => effects.old = true,
        _ => match property.split_once(' ')? {
            ("ptx", version) => {
                let (major, minor) = version.split_once('.')?;
                form.ptx = Some((major.parse().ok()?, minor.parse().ok()?));
            }
            ("sm", target) => {
                let number = target.trim_end_matches(['a', 'f']);
                form.sm = Some(Sm {
                    number: number.parse().ok()?,
                    suffix: target.get(number.len()..)?.chars().next(),
                });
            }
            _ => return None,
        },
    }
    Some(())
}
