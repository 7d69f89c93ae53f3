//! An instruction for each modifier of each form.

use std::fmt::Write;

use crate::isa::{
    Form, Mnemonic, Numbers, Opcode, OperandKind, OperandSpec, Place, Presence, ScalarType, Space,
    TypeRule, Word,
};

/// One instruction of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The instruction, with `;`.
    pub text: String,
    /// The modifiers, or the operand, that it tries.
    pub tries: String,
}

/// Instructions of a form: the plainest; then for each modifier one with it; for each optional operand one
/// with it.
pub fn examples(form: &Form) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut add = |choice: &[Option<Word>], optional: Option<usize>, tries: String| {
        if let Some(text) = instruction(form, choice, optional)
            && !examples.iter().any(|example| example.text == text)
        {
            examples.push(Example { text, tries });
        }
    };
    let base: Vec<Option<Word>> = form
        .slots
        .iter()
        .map(|slot| {
            slot.words
                .first()
                .copied()
                .filter(|_| !slot.optional && !slot.joined)
        })
        .collect();
    add(&base, None, "the plainest".into());
    for (i, slot) in form.slots.iter().enumerate() {
        for &word in &slot.words {
            let mut choice = base.clone();
            choice[i] = Some(word);
            // What goes together stands together.
            for (j, other) in form.slots.iter().enumerate() {
                let together = other.joined && slot.optional && j > i;
                let before = slot.joined && other.optional && j + 1 == i;
                if together && form.slots[i + 1..=j].iter().all(|s| s.joined) || before {
                    choice[j] = other.words.first().copied();
                }
            }
            add(&choice, None, format!(".{word}"));
        }
    }
    for (i, operand) in form.operands.iter().enumerate() {
        if operand.presence == Presence::Optional || operand.second == Some(Presence::Optional) {
            add(&base, Some(i), format!("operand {}", i + 1));
        }
    }
    examples
}

fn instruction(form: &Form, choice: &[Option<Word>], optional: Option<usize>) -> Option<String> {
    let mut text = form.opcode.text().to_owned();
    for word in choice.iter().flatten() {
        _ = write!(text, ".{word}");
    }
    let mnemonic = Mnemonic::parse(&text).ok()?;
    let mut writer = Writer {
        mnemonic: &mnemonic,
        next: 1,
    };
    let mut operands = Vec::new();
    for (i, operand) in form.operands.iter().enumerate() {
        let chosen = optional == Some(i);
        let there = match operand.presence {
            Presence::Always => true,
            Presence::Optional => chosen,
            Presence::With(word) => mnemonic.has(word),
        };
        if there {
            operands.extend(writer.operand(operand, chosen));
        }
    }
    let separator = if operands.is_empty() { "" } else { " " };
    Some(format!("{text}{separator}{};", operands.join(", ")))
}

struct Writer<'a> {
    mnemonic: &'a Mnemonic,
    next: usize,
}

/// Name of register `n` for a type: registers of [`module`].
fn register(ty: ScalarType, n: usize) -> String {
    let prefix = match ty {
        ScalarType::Pred => "%p",
        ScalarType::F32 => "%f",
        ScalarType::F64 => "%fd",
        _ => match ty.bytes() {
            1 => "%rb",
            2 => "%rs",
            4 => "%r",
            8 => "%rd",
            _ => "%rq",
        },
    };
    format!("{prefix}{n}")
}

impl Writer<'_> {
    fn register(&mut self, ty: ScalarType) -> String {
        self.next += 1;
        // Few predicates and few wide registers are declared.
        let n = match ty {
            ScalarType::Pred => self.next % 8,
            _ => self.next,
        };
        register(ty, n)
    }

    fn braced(&mut self, ty: ScalarType, n: usize) -> String {
        let list: Vec<_> = (0..n).map(|_| self.register(ty)).collect();
        format!("{{{}}}", list.join(", "))
    }

    fn ty(&self, rule: TypeRule) -> ScalarType {
        self.mnemonic.resolve(rule).unwrap_or(ScalarType::B32)
    }

    fn operand(&mut self, spec: &OperandSpec, second: bool) -> Option<String> {
        let first = self.single(spec)?;
        let pair = spec.second == Some(Presence::Always) || (second && spec.second.is_some());
        Some(match pair {
            true => format!("{first}|{}", self.register(ScalarType::Pred)),
            false => first,
        })
    }

    fn single(&mut self, spec: &OperandSpec) -> Option<String> {
        use OperandKind as K;
        let m = self.mnemonic;
        Some(match spec.kind {
            K::Value {
                ty, count, address, ..
            } => {
                let ty = self.ty(ty);
                if address && m.opcode() == Opcode::Cvta {
                    return Some(symbol(m.space().unwrap_or(Space::Global)).into());
                }
                match m.count(count) {
                    Some(n) => self.braced(ty, n),
                    None => self.register(ty),
                }
            }
            K::Predicate => self.register(ScalarType::Pred),
            K::Immediate(numbers) | K::Bounded(numbers, _) => match numbers {
                Numbers::Any if m.opcode() == Opcode::Alloca => "8".into(),
                Numbers::Any => "1".into(),
                Numbers::Range(from, _) => from.to_string(),
                Numbers::OneOf(list) => list.last()?.to_string(),
            },
            K::Selected(ty, _) => {
                let ty = self.ty(ty);
                self.register(ty)
            }
            K::Fragment(matrix) => {
                let (ty, n) = m.fragment(matrix)?;
                self.braced(ty, n)
            }
            K::Memory(place) => {
                let space = match place {
                    Place::Nth(n) => m.spaces().nth(usize::from(n)),
                    Place::In(space) => m.spaces().next().map(|_| space),
                    Place::Tensor => return Some(format!("[{}]", self.register(ScalarType::B32))),
                };
                match space {
                    Some(space) => format!("[{}]", symbol(space)),
                    None => format!("[{}]", self.register(ScalarType::B64)),
                }
            }
            K::TensorMap => {
                let n = self.dimensions();
                let coordinates = self.braced(ScalarType::B32, n);
                format!("[{}, {coordinates}]", self.register(ScalarType::B64))
            }
            K::Texture => self.texture(),
            K::Surface => {
                let n = match m.words().iter().find_map(|w| geometry(*w)) {
                    Some((false, 1)) => 1,
                    Some((false, 2) | (true, 1)) => 2,
                    _ => 4,
                };
                let coordinates = self.braced(ScalarType::B32, n);
                format!("[surface, {coordinates}]")
            }
            K::Handle => match (m.opcode(), spec.access) {
                (Opcode::Suq, _) => "[surface]".into(),
                (Opcode::Txq, _) if m.any_of(OF_SAMPLERS).is_some() => "[sampler]".into(),
                (Opcode::Txq, _) => "[texture]".into(),
                _ => self.register(ScalarType::B64),
            },
            K::GenericAddress => self.register(ScalarType::B64),
            K::Im2colOffsets => {
                let n = match () {
                    () if m.has(Word::Im2col) => self.dimensions().saturating_sub(2),
                    () => match m.has(Word::Im2colW) || m.has(Word::Im2colW128) {
                        true => 2,
                        false => return None,
                    },
                };
                self.braced(ScalarType::B16, n)
            }
            K::LaneMask => {
                let n = if m.has(Word::CtaGroup2) { 8 } else { 4 };
                self.braced(ScalarType::B32, n)
            }
            K::SourceSize => self.register(ScalarType::B32),
            K::Gradient => self.texel(ScalarType::F32),
            K::TexelOffset => self.texel(ScalarType::B32),
            K::Depth => self.register(ScalarType::F32),
            K::Label => "after".into(),
            K::BranchTargets => "targets".into(),
            K::Call => "(result), function, (argument)".into(),
        })
    }

    fn dimensions(&self) -> usize {
        let m = self.mnemonic;
        if m.any_of(&[Word::TileGather4, Word::TileScatter4]).is_some() {
            return 5;
        }
        let dims = [Word::D1, Word::D2, Word::D3, Word::D4, Word::D5];
        let found = dims.iter().position(|&word| m.has(word));
        found.map_or(1, |n| n + 1)
    }

    fn texel(&mut self, ty: ScalarType) -> String {
        match self.mnemonic.words().iter().find_map(|w| geometry(*w)) {
            Some((_, 1)) => self.braced(ty, 1),
            Some((_, 2)) => self.braced(ty, 2),
            _ => self.braced(ty, 4),
        }
    }

    fn texture(&mut self) -> String {
        let m = self.mnemonic;
        let float = m.types().get(1) == Some(&ScalarType::F32);
        let ty = if float {
            ScalarType::F32
        } else {
            ScalarType::B32
        };
        let coordinates = match m.words().iter().find_map(|w| geometry(*w)) {
            Some((false, 1)) => self.braced(ty, 1),
            Some((false, 2)) if !m.has(Word::D2ms) => self.braced(ty, 2),
            Some((true, n)) => {
                // The layer comes first; places that are not needed fill up to a power of two.
                let mut list = vec![self.register(ScalarType::B32)];
                let n = if n == 1 { 1 } else { 3 };
                list.extend((0..n).map(|_| self.register(ty)));
                format!("{{{}}}", list.join(", "))
            }
            _ => self.braced(ty, 4),
        };
        format!("[texture, {coordinates}]")
    }
}

/// Queries of samplers.
const OF_SAMPLERS: &[Word] = &[
    Word::ForceUnnormalizedCoords,
    Word::FilterMode,
    Word::AddrMode0,
    Word::AddrMode1,
    Word::AddrMode2,
];

/// Layers, and dimensions, of a geometry.
fn geometry(word: Word) -> Option<(bool, usize)> {
    Some(match word {
        Word::D1 => (false, 1),
        Word::D2 => (false, 2),
        Word::D3 | Word::Cube => (false, 3),
        Word::A1d => (true, 1),
        Word::A2d | Word::A2dms => (true, 2),
        Word::Acube => (true, 3),
        Word::D2ms => (false, 2),
        _ => return None,
    })
}

/// A variable of [`module`] in a space.
fn symbol(space: Space) -> &'static str {
    match space {
        Space::Const => "constant",
        Space::Local => "stack",
        Space::Param | Space::ParamEntry => "parameter",
        Space::ParamFunc => "argument",
        space if space.is_shared() => "shared",
        _ => "global",
    }
}

/// A module with one kernel that has the instructions, one a line. The line of the first is the second
/// value, counted from 1.
pub fn module(version: &str, target: &str, instructions: &[&str]) -> (String, u32) {
    // Samplers of their own are a mode of the target.
    let (mode, sampler) = match instructions.iter().any(|text| text.contains("[sampler]")) {
        true => (", texmode_independent", ".global .samplerref sampler;\n"),
        false => ("", ""),
    };
    let head = format!(
        ".version {version}
.target {target}{mode}
.address_size 64
.global .align 128 .b8 global[1024];
.const .align 128 .b8 constant[1024];
.shared .align 128 .b8 shared[1024];
.global .texref texture;
.global .surfref surface;
{sampler}.func (.param .b32 result) function (.param .b32 argument)
{{
ret;
}}
.visible .entry kernel(.param .align 64 .b8 parameter[128])
{{
.reg .pred %p<8>; .reg .b8 %rb<300>; .reg .b16 %rs<300>; .reg .b32 %r<300>; .reg .b64 %rd<300>;
.reg .b128 %rq<300>; .reg .f32 %f<300>; .reg .f64 %fd<300>;
.local .align 128 .b8 stack[1024];
.param .b32 argument;
.param .b32 result;
targets: .branchtargets after;
"
    );
    let line = head.lines().count() as u32 + 1;
    (
        format!("{head}{}\nafter:\nret;\n}}\n", instructions.join("\n")),
        line,
    )
}
