//! Instructions of the table of forms, and kernels of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use r3_ptx::generate::examples;
use r3_ptx::isa::{Form, Forms, Mnemonic, Opcode, ScalarType as T, Slot};

use super::run::THREADS;
use super::values::{Kind, Random, value};

/// One instruction, its registers by class.
#[derive(Clone, Debug)]
pub struct Instruction {
    pub mnemonic: Mnemonic,
    /// The operands, with `@0`, `@1`, … for registers.
    operands: String,
    /// Class of each register.
    classes: Vec<Class>,
    /// How many of them are destinations.
    dests: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Pred,
    B16,
    B32,
    B64,
    F32,
    F64,
}

impl Class {
    fn of(name: &str) -> Option<Self> {
        Some(match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "%p" => Self::Pred,
            // A register of 8 bits is one of 16.
            "%rs" | "%rb" => Self::B16,
            "%r" => Self::B32,
            "%rd" => Self::B64,
            "%f" => Self::F32,
            "%fd" => Self::F64,
            _ => return None,
        })
    }

    fn ty(self) -> &'static str {
        match self {
            Self::Pred => "pred",
            Self::B16 => "b16",
            Self::B32 => "b32",
            Self::B64 => "b64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

/// The families that are arithmetic.
const OPCODES: &[Opcode] = &[
    Opcode::Abs,
    Opcode::Add,
    Opcode::And,
    Opcode::Bfe,
    Opcode::Bfi,
    Opcode::Bfind,
    Opcode::Bmsk,
    Opcode::Brev,
    Opcode::Clz,
    Opcode::Cnot,
    Opcode::Copysign,
    Opcode::Cos,
    Opcode::Cvt,
    Opcode::Div,
    Opcode::Dp2a,
    Opcode::Dp4a,
    Opcode::Ex2,
    Opcode::Fma,
    Opcode::Fns,
    Opcode::Lg2,
    Opcode::Lop3,
    Opcode::Mad,
    Opcode::Mad24,
    Opcode::Max,
    Opcode::Min,
    Opcode::Mul,
    Opcode::Mul24,
    Opcode::Neg,
    Opcode::Not,
    Opcode::Or,
    Opcode::Popc,
    Opcode::Prmt,
    Opcode::Rcp,
    Opcode::Rem,
    Opcode::Rsqrt,
    Opcode::Sad,
    Opcode::Selp,
    Opcode::Set,
    Opcode::Setp,
    Opcode::Shf,
    Opcode::Shl,
    Opcode::Shr,
    Opcode::Sin,
    Opcode::Slct,
    Opcode::Sqrt,
    Opcode::Sub,
    Opcode::Szext,
    Opcode::Tanh,
    Opcode::Testp,
    Opcode::Xor,
];

/// Every instruction of the arithmetic families that `sm_90` has, with every combination of its modifiers.
pub fn all() -> Vec<Instruction> {
    let mut seen = BTreeSet::new();
    let mut list = Vec::new();
    for form in Forms::table().all() {
        let newer = form.sm.is_some_and(|sm| sm.number > 90);
        let carry = form.effects.carry_in || form.effects.carry_out;
        if newer || carry || !OPCODES.contains(&form.opcode) {
            continue;
        }
        for instruction in of_form(form) {
            if seen.insert(instruction.text(0)) {
                list.push(instruction);
            }
        }
    }
    list
}

fn of_form(form: &Form) -> Vec<Instruction> {
    // Operands follow from the types among the modifiers: an example of each gives them.
    let mut by_types = BTreeMap::new();
    for example in examples(form) {
        let text = example.text.trim_end_matches(';');
        let (mnemonic, operands) = text.split_once(' ').expect("operands");
        let types: Vec<&str> = mnemonic
            .split('.')
            .filter(|word| T::from_text(word).is_some())
            .collect();
        let count = operands.split(['|', ',']).count();
        // The one with an optional operand is another instruction.
        let entry = by_types.entry((types.join("."), count));
        entry.or_insert_with(|| operands.to_owned());
    }
    let mut mnemonics = vec![form.opcode.text().to_owned()];
    let mut slots = form.slots.iter().peekable();
    while let Some(slot) = slots.next() {
        let mut joined: Vec<&Slot> = Vec::new();
        while let Some(next) = slots.next_if(|next| next.joined) {
            joined.push(next);
        }
        let mut longer = Vec::new();
        for mnemonic in &mnemonics {
            if slot.optional {
                longer.push(mnemonic.clone());
            }
            for word in &slot.words {
                let mut text = format!("{mnemonic}.{word}");
                for slot in &joined {
                    let _ = write!(text, ".{}", slot.words[0]);
                }
                longer.push(text);
            }
        }
        mnemonics = longer;
    }
    let mut list = Vec::new();
    for text in mnemonics {
        let mnemonic = Mnemonic::parse(&text).expect("a mnemonic of the table");
        let types: Vec<&str> = text
            .split('.')
            .filter(|word| T::from_text(word).is_some())
            .collect();
        let joined = types.join(".");
        let mut known: Vec<String> = by_types
            .iter()
            .filter(|((types, _), _)| *types == joined)
            .map(|(_, operands)| operands.clone())
            .collect();
        if known.is_empty() {
            // Examples change one type at a time.
            known.extend(
                by_types
                    .values()
                    .filter_map(|operands| retyped(form.opcode, &types, operands)),
            );
            known.dedup();
        }
        for operands in known {
            list.extend(Instruction::new(mnemonic.clone(), &operands));
        }
    }
    // What stands in the table but not in the language, some combinations, does not pass the checker.
    list.retain(Instruction::checks);
    list
}

/// Operands with registers for other types: the destination has the first, sources have the last.
fn retyped(opcode: Opcode, types: &[&str], operands: &str) -> Option<String> {
    let sources = match opcode {
        Opcode::Cvt | Opcode::Set => 1,
        Opcode::Slct => 3,
        Opcode::Dp4a | Opcode::Dp2a => return Some(operands.to_owned()),
        _ => return None,
    };
    let register = |ty: &str, n: usize| match ty {
        "f32" => format!("%f{n}"),
        "f64" => format!("%fd{n}"),
        _ => match T::from_text(ty).map_or(4, T::bytes) {
            1 | 2 => format!("%rs{n}"),
            4 => format!("%r{n}"),
            _ => format!("%rd{n}"),
        },
    };
    let (first, last) = (types.first()?, types.last()?);
    let list: Vec<String> = operands
        .split(", ")
        .enumerate()
        .map(|(n, operand)| match operand.starts_with("%p") {
            true => operand.to_owned(),
            false => register(if n < sources { first } else { last }, n + 1),
        })
        .collect();
    Some(list.join(", "))
}

impl Instruction {
    /// Of a mnemonic and operands with registers named as in the examples.
    pub fn new(mnemonic: Mnemonic, text: &str) -> Option<Self> {
        let mut operands = String::new();
        let mut classes = Vec::new();
        let mut dests = 0;
        let mut rest = text;
        while let Some(start) = rest.find('%') {
            operands.push_str(&rest[..start]);
            let tail = &rest[start..];
            let end = tail[1..]
                .find(|c: char| !c.is_ascii_alphanumeric())
                .map_or(tail.len(), |n| n + 1);
            let _ = write!(operands, "@{}@", classes.len());
            classes.push(Class::of(&tail[..end])?);
            rest = &tail[end..];
            if !operands.contains(',') {
                dests = classes.len();
            }
        }
        operands.push_str(rest);
        Some(Self {
            mnemonic,
            operands,
            classes,
            dests,
        })
    }

    /// As text, with registers `%x<n>_<k>`.
    pub fn text(&self, n: usize) -> String {
        let mut operands = self.operands.clone();
        for k in 0..self.classes.len() {
            operands = operands.replace(&format!("@{k}@"), &format!("%x{n}_{k}"));
        }
        format!("{} {operands};", self.mnemonic)
    }

    fn checks(&self) -> bool {
        let text = kernel(std::slice::from_ref(self));
        r3_ptx::parse(&text).is_ok_and(|tree| r3_ptx::check(&tree).is_ok())
    }

    /// What the values of a source are.
    fn kind(&self, register: usize) -> Kind {
        let types = self.mnemonic.types();
        let any = |list: &[T]| types.iter().any(|ty| list.contains(ty));
        match self.classes[register] {
            Class::Pred => Kind::Pred,
            Class::F32 => Kind::F32,
            Class::F64 => Kind::F64,
            Class::B64 => Kind::Int(64),
            Class::B16 if any(&[T::F16]) => Kind::F16,
            Class::B16 if any(&[T::BF16]) => Kind::BF16,
            Class::B16 => Kind::Int(16),
            Class::B32 if any(&[T::F16x2]) => Kind::F16x2,
            Class::B32 if any(&[T::BF16x2]) => Kind::BF16x2,
            // Places: -2³¹ of them overflow in the device.
            Class::B32 if self.mnemonic.opcode() == Opcode::Fns && register == 3 => Kind::Small,
            Class::B32 => Kind::Int(32),
        }
    }

    /// Makes all NaNs of a result the same, where the instruction computes one.
    fn canonical(&self, dest: usize, bits: u64) -> u64 {
        let copies = [Opcode::Selp, Opcode::Slct, Opcode::Copysign];
        if copies.contains(&self.mnemonic.opcode()) {
            return bits;
        }
        let half = |bits: u64, infinity: u64| match bits & 0x7fff > infinity {
            true => 0x7fff,
            false => bits,
        };
        match (self.classes[dest], self.mnemonic.ty()) {
            (Class::F32, _) if bits & 0x7fff_ffff > 0x7f80_0000 => 0x7fff_ffff,
            (Class::F64, _) if bits & (u64::MAX >> 1) > 0x7ff0 << 48 => 0x7ff8 << 48,
            (Class::B16, Some(T::F16)) => half(bits, 0x7c00),
            (Class::B16, Some(T::BF16)) => half(bits, 0x7f80),
            (Class::B32, Some(T::F16x2)) => {
                half(bits >> 16, 0x7c00) << 16 | half(bits & 0xffff, 0x7c00)
            }
            (Class::B32, Some(T::BF16x2)) => {
                half(bits >> 16, 0x7f80) << 16 | half(bits & 0xffff, 0x7f80)
            }
            // `.tf32` lives in a register of bits.
            (Class::B32, Some(T::TF32)) if bits & 0x7fff_ffff > 0x7f80_0000 => 0x7fff_ffff,
            _ => bits,
        }
    }
}

/// A kernel of instructions whose sources are loaded, and whose results are stored, 8 bytes each: a column of [`THREADS`] for each
/// register.
pub fn kernel(instructions: &[Instruction]) -> String {
    build(instructions, None)
}

/// A kernel with constants in place of what is loaded: each instruction has other ones.
pub fn constant_kernel(instructions: &[Instruction]) -> String {
    build(instructions, Some(&mut Random::of("constants")))
}

fn build(instructions: &[Instruction], mut constants: Option<&mut Random>) -> String {
    let mut ptx = String::from(
        ".version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {
.reg .b32 %i, %flag; .reg .b64 %in, %out, %at;
mov.u32 %i, %tid.x;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mad.wide.u32 %in, %i, 8, %in; mad.wide.u32 %out, %i, 8, %out;
",
    );
    let mut stores = String::new();
    let mut bodies = String::new();
    let columns = columns(instructions);
    let mut result = 0;
    for (n, instruction) in instructions.iter().enumerate() {
        for (k, &class) in instruction.classes.iter().enumerate() {
            let register = format!("%x{n}_{k}");
            let _ = writeln!(ptx, ".reg .{} {register};", class.ty());
            if k < instruction.dests {
                let at = result * THREADS * 8;
                result += 1;
                let _ = match class {
                    Class::Pred => writeln!(
                        stores,
                        "selp.b32 %flag, 1, 0, {register}; st.global.b32 [%out+{at}], %flag;"
                    ),
                    _ => writeln!(stores, "st.global.{} [%out+{at}], {register};", class.ty()),
                };
                continue;
            }
            if let Some(random) = constants.as_deref_mut() {
                let bits = value(instruction.kind(k), random);
                let _ = match class {
                    Class::Pred => writeln!(ptx, "setp.eq.u32 {register}, {}, 0;", 1 - bits),
                    Class::F32 => writeln!(ptx, "mov.f32 {register}, 0f{bits:08X};"),
                    Class::F64 => writeln!(ptx, "mov.f64 {register}, 0d{bits:016X};"),
                    _ => writeln!(ptx, "mov.{} {register}, 0x{bits:x};", class.ty()),
                };
                continue;
            }
            let at = columns[&(instruction.kind(k), k)] * THREADS * 8;
            let _ = match class {
                Class::Pred => writeln!(
                    ptx,
                    "ld.global.u32 %flag, [%in+{at}]; setp.ne.u32 {register}, %flag, 0;"
                ),
                _ => writeln!(ptx, "ld.global.{} {register}, [%in+{at}];", class.ty()),
            };
        }
        let _ = writeln!(bodies, "{}", instruction.text(n));
    }
    ptx + &bodies + &stores + "ret;\n}\n"
}

/// The column of input for each kind of operand at each place: instructions share them, so that what is equal to LLVM is
/// computed once.
fn columns(instructions: &[Instruction]) -> BTreeMap<(Kind, usize), usize> {
    let mut columns = BTreeMap::new();
    for instruction in instructions {
        for k in instruction.dests..instruction.classes.len() {
            let next = columns.len();
            columns.entry((instruction.kind(k), k)).or_insert(next);
        }
    }
    columns
}

/// Input of a kernel.
pub fn input(instructions: &[Instruction]) -> Vec<u8> {
    let mut list: Vec<_> = columns(instructions).into_iter().collect();
    list.sort_by_key(|&(_, column)| column);
    let mut bytes = Vec::new();
    for ((kind, k), _) in list {
        let mut random = Random::of(&format!("{kind:?} {k}"));
        for _ in 0..THREADS {
            bytes.extend(value(kind, &mut random).to_le_bytes());
        }
    }
    bytes
}

/// Bytes of the output of a kernel.
pub fn output(instructions: &[Instruction]) -> usize {
    instructions.iter().map(|i| i.dests).sum::<usize>() * THREADS * 8
}

/// The first difference between two outputs, by what they mean; with the sources of that thread.
pub fn difference(
    instructions: &[Instruction],
    input: &[u8],
    threads: usize,
    expected: &[u8],
    actual: &[u8],
) -> Option<String> {
    let word = |bytes: &[u8], column: usize, row: usize| {
        let at = (column * THREADS + row) * 8;
        let bytes = bytes.get(at..at + 8).unwrap_or(&[0; 8]);
        u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
    };
    let columns = columns(instructions);
    let mut result = 0;
    for (n, instruction) in instructions.iter().enumerate() {
        for dest in 0..instruction.dests {
            for row in 0..threads {
                let expected = instruction.canonical(dest, word(expected, result + dest, row));
                let actual = instruction.canonical(dest, word(actual, result + dest, row));
                if expected != actual {
                    let values: Vec<String> = (instruction.dests..instruction.classes.len())
                        .map(|k| columns[&(instruction.kind(k), k)])
                        .map(|column| format!("{:#x}", word(input, column, row)))
                        .collect();
                    return Some(format!(
                        "{} of {}: result {dest} is {actual:#x}, not {expected:#x}",
                        instruction.text(n),
                        values.join(", ")
                    ));
                }
            }
        }
        result += instruction.dests;
    }
    None
}
