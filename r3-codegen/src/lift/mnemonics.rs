//! What the lifter has to know of a mnemonic, found once a module.

use r3_ptx::isa::{Forms, Mnemonic, Opcode, Scope, Word};
use r3_ptx::typed;

use super::function::Handler;
use super::ops;

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// To the next.
    Next,
    /// `bra`
    Branch,
    /// `brx.idx`
    Table,
    /// `ret`
    Return,
    /// `exit`
    Exit,
    /// `trap`
    Trap,
    /// `call`
    Call,
}

/// What a mnemonic is, found once a module.
#[derive(Clone, Copy)]
pub(crate) struct MnemonicInfo {
    /// The handler of its family.
    pub handler: Option<Handler>,
    /// Where control goes.
    pub flow: Flow,
    /// It can be executed without its guard, and its result thrown away: cheap, and without effects.
    pub harmless: bool,
    /// It hands a carry on or takes one.
    pub carry: bool,
}

/// Instructions so cheap that a selection of the result costs less than a branch around them.
const CHEAP: &[Opcode] = &[
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
    Opcode::Cvt,
    Opcode::Cvta,
    Opcode::Dp2a,
    Opcode::Dp4a,
    Opcode::Fma,
    Opcode::Lop3,
    Opcode::Mad,
    Opcode::Mad24,
    Opcode::Max,
    Opcode::Min,
    Opcode::Mov,
    Opcode::Mul,
    Opcode::Mul24,
    Opcode::Neg,
    Opcode::Not,
    Opcode::Or,
    Opcode::Popc,
    Opcode::Prmt,
    Opcode::Sad,
    Opcode::Selp,
    Opcode::Set,
    Opcode::Setp,
    Opcode::Shf,
    Opcode::Shl,
    Opcode::Shr,
    Opcode::Slct,
    Opcode::Sub,
    Opcode::Szext,
    Opcode::Testp,
    Opcode::Xor,
];

/// The target of a module: what LLVM's code generator has instructions for.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    number: u16,
    suffixed: bool,
    version: (u16, u16),
}

impl Target {
    /// Reads it.
    pub fn of(module: &typed::Module) -> Self {
        let text = module.target.first().map_or("", String::as_str);
        let text = text.strip_prefix("sm_").unwrap_or_default();
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        Self {
            number: digits.parse().unwrap_or(0),
            suffixed: digits.len() < text.len(),
            version: module.version,
        }
    }

    /// Whether the target has an instruction: for one that it lacks LLVM's code generator would give up, in assembly it is the
    /// assembler that says so.
    fn has(self, mnemonic: &Mnemonic) -> bool {
        let form = mnemonic.form().and_then(|id| Forms::table().get(id));
        let sm = form.and_then(|form| form.sm);
        let version = form.and_then(|form| form.ptx).unwrap_or_default();
        let enough =
            sm.is_none_or(|sm| self.number >= sm.number && (sm.suffix.is_none() || self.suffixed));
        let clusters = self.number >= 90 || mnemonic.scope() != Some(Scope::Cluster);
        let later = LATER_IN_LLVM
            .iter()
            .all(|&(opcode, word, number, version)| {
                opcode != mnemonic.opcode()
                    || word.is_some_and(|word| !mnemonic.has(word))
                    || (self.number >= number && self.version >= version)
            });
        let version = (u16::from(version.0), u16::from(version.1));
        enough && clusters && later && self.version >= version
    }
}

/// An instruction, a modifier if it is about that, the first target, the first version.
type Later = (Opcode, Option<Word>, u16, (u16, u16));

/// Instructions that LLVM's code generator has for later targets and versions only than PTX does.
const LATER_IN_LLVM: &[Later] = &[
    (Opcode::Prefetch, None, 90, (8, 0)),
    (Opcode::Prefetchu, None, 90, (8, 0)),
    (Opcode::Barrier, Some(Word::Relaxed), 90, (8, 0)),
];

impl MnemonicInfo {
    /// What a mnemonic is for a target.
    pub fn of(mnemonic: &Mnemonic, target: Target) -> Self {
        let opcode = mnemonic.opcode();
        let effects = mnemonic.effects();
        let carry = effects.carry_in || effects.carry_out;
        let flow = match opcode {
            Opcode::Bra => Flow::Branch,
            Opcode::Brx => Flow::Table,
            Opcode::Ret => Flow::Return,
            Opcode::Exit => Flow::Exit,
            Opcode::Trap => Flow::Trap,
            Opcode::Call => Flow::Call,
            _ => Flow::Next,
        };
        Self {
            handler: ops::handler(opcode).filter(|_| target.has(mnemonic)),
            flow,
            harmless: CHEAP.contains(&opcode) && !carry,
            carry,
        }
    }
}
