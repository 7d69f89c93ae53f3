//! The checked module: every name resolved, every operand with its type. What a device or a compiler reads.
//!
//! [`check`](crate::check()) makes it from a [`tree::Module`](crate::tree::Module). Invariants, which its
//! readers may rely on:
//! - an instruction's mnemonic matches a form of the [table](crate::isa), and its operands match that form in
//!   number, kind and type;
//! - all ids are in range; a branch goes to an instruction index in `0..=body.len()` (the end is a return);
//! - a call has three or four operands: [`Operand::List`] of results, the callee ([`Operand::Address`] of a
//!   function, or a register), [`Operand::List`] of arguments, and for an indirect call its table or
//!   prototype, where one is given;
//! - operands that a form leaves open (`{, x}`) are absent when the text does not have them;
//! - numbers are bits of the type the operand has, extended or cut to it as the ISA says.

use crate::isa::{FormId, Mnemonic, ScalarType, Selector, Space, SpecialRegister};
use crate::source::Pos;
use crate::tree::{FunctionDirective, Linkage, MnemonicId, PtrAttribute};

/// Index of a register in [`Body::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegId(pub u32);

/// Index into [`Module::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(pub u32);

/// Index into [`Body::locals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalId(pub u32);

/// Index into [`Module::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FnId(pub u32);

/// A checked module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// `.version`
    pub version: (u16, u16),
    /// `.target`
    pub target: Vec<String>,
    /// Bytes of a generic address: 8, or 4 for `.address_size 32`.
    pub address_bytes: u8,
    /// Variables of the module, all spaces (`.global`, `.const`, `.shared`, textures).
    pub variables: Vec<Variable>,
    /// Functions, declared and defined. One entry for each name: a definition replaces its declarations.
    pub functions: Vec<Function>,
    /// Other names of functions (`.alias`).
    pub aliases: Vec<(Box<str>, FnId)>,
    /// Mnemonics in use, by [`MnemonicId`].
    pub mnemonics: Vec<Mnemonic>,
}

/// A variable in memory: of the module, of a function, or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Place of its name.
    pub pos: Pos,
    /// Name.
    pub name: Box<str>,
    /// Linkage.
    pub linkage: Linkage,
    /// Space.
    pub space: Space,
    /// Type of an element (of a vector's element).
    pub ty: ScalarType,
    /// Elements of its vector type: 1, 2, 4 or 8.
    pub vector: u8,
    /// Size in bytes; 0 for an array without a length.
    pub size: u64,
    /// Alignment in bytes, as given or natural.
    pub align: u64,
    /// An array without a length: dynamic shared memory, or varargs.
    pub unsized_array: bool,
    /// `.managed`
    pub managed: bool,
    /// `.ptr` of a kernel parameter.
    pub ptr: Option<PtrAttribute>,
    /// Initial bytes, `size` of them; `None` means zeros.
    pub init: Option<Vec<u8>>,
    /// Addresses to be added to the initial bytes.
    pub relocations: Vec<Relocation>,
}

/// An address in an initialiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Offset of its first byte in the variable.
    pub offset: u64,
    /// Bytes that it fills: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Right shift of the address before it is cut to `bytes` (of `0xFF00(name)` forms).
    pub shift: u8,
    /// What it is the address of.
    pub symbol: Symbol,
    /// Added to the address.
    pub addend: i64,
    /// As a generic address, not one in the variable's own space.
    pub generic: bool,
}

/// Something with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A variable of the module.
    Variable(VarId),
    /// A variable of the function: local, shared, or a `.param` for calls.
    Local(LocalId),
    /// A parameter of the function, by position.
    Param(u32),
    /// A result of the function (`.func (.param .b32 r) f`), by position.
    Result(u32),
    /// A function.
    Function(FnId),
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Place of its name.
    pub pos: Pos,
    /// Name.
    pub name: Box<str>,
    /// Linkage.
    pub linkage: Linkage,
    /// A kernel.
    pub entry: bool,
    /// Parameters. `space` is [`Space::Param`], or [`Space::Reg`] for old-style register parameters.
    pub params: Vec<Variable>,
    /// Offset of each parameter in the parameter buffer (kernels), in bytes.
    pub param_offsets: Vec<u32>,
    /// Bytes of the parameter buffer, not padded at its end.
    pub param_bytes: u32,
    /// Results.
    pub results: Vec<Variable>,
    /// Directives, as in the text.
    pub directives: Vec<FunctionDirective>,
    /// Body; `None` when it is defined elsewhere (`vprintf`, `malloc`, another module).
    pub body: Option<Body>,
}

/// A function's body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// Registers, over all scopes. Vector registers are one entry an element.
    pub registers: Vec<Register>,
    /// For old-style functions: registers of the parameters and of the results, else empty.
    pub param_registers: Vec<RegId>,
    /// See `param_registers`.
    pub result_registers: Vec<RegId>,
    /// Variables of the function, over all scopes.
    pub locals: Vec<Variable>,
    /// Instructions.
    pub instructions: Vec<Instruction>,
    /// Arena of operands.
    pub operands: Vec<Operand>,
    /// Targets of `.branchtargets` lists, as instruction indices.
    pub branch_tables: Vec<Vec<u32>>,
    /// `.calltargets` lists.
    pub call_tables: Vec<Vec<FnId>>,
    /// `.callprototype`s.
    pub prototypes: Vec<Prototype>,
    /// Where labels stand: name, instruction index. For messages and printing.
    pub labels: Vec<(Box<str>, u32)>,
    /// `.pragma`s inside the body: instruction index before which they stand, text.
    pub pragmas: Vec<(u32, Box<str>)>,
}

/// A register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Name, with element (`%v.x`) for a vector's.
    pub name: Box<str>,
    /// Type as declared. `.pred` is [`ScalarType::Pred`].
    pub ty: ScalarType,
}

/// A prototype of indirect calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype {
    /// Its label.
    pub name: Box<str>,
    /// Results.
    pub results: Vec<Variable>,
    /// Parameters.
    pub params: Vec<Variable>,
    /// `.noreturn`
    pub noreturn: bool,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instruction {
    /// Place in the text.
    pub pos: Pos,
    /// Predicate, and whether it is negated.
    pub guard: Option<(RegId, bool)>,
    /// Opcode with modifiers.
    pub mnemonic: MnemonicId,
    /// The form that its modifiers and operands match.
    pub form: FormId,
    /// First of its operands in [`Body::operands`].
    pub first_operand: u32,
    /// How many operands.
    pub operands: u32,
}

impl Body {
    /// Operands of an instruction.
    pub fn operands(&self, instruction: &Instruction) -> &[Operand] {
        self.list(instruction.first_operand, instruction.operands)
    }

    /// A nested list of operands.
    pub fn list(&self, first: u32, len: u32) -> &[Operand] {
        let first = first as usize;
        self.operands
            .get(first..first + len as usize)
            .unwrap_or(&[])
    }
}

/// An operand, resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// A register.
    Register(RegId),
    /// `!%p`
    NotRegister(RegId),
    /// `-%r`, `%r.h1`, `-%r.b0`: a register of a video instruction.
    Selected {
        /// The register.
        register: RegId,
        /// `-` before it.
        negated: bool,
        /// The selector after it.
        selector: Option<Selector>,
    },
    /// A special register.
    Special(SpecialRegister),
    /// A number: bits of the operand's type in the low bits, the rest 0 (sign bits of a negative integer cut).
    Number(u64),
    /// An address as a value (`mov.u64 %rd1, var+4`), in the symbol's own space unless a form says otherwise.
    Address(Symbol, i64),
    /// `_`
    Sink,
    /// Two destinations `d|p`: the first, then the second.
    Pair(u32),
    /// `{a, b, …}`: first index in [`Body::operands`], count.
    Vector(u32, u32),
    /// `(a, b, …)` of a call.
    List(u32, u32),
    /// `[register+offset]`
    MemoryRegister(RegId, i64),
    /// `[symbol+offset]`
    MemorySymbol(Symbol, i64),
    /// `[number]`
    MemoryAbsolute(u64),
    /// `[a, b, …]` of textures and tensors.
    MemoryList(u32, u32),
    /// A branch target: index of the instruction.
    Label(u32),
    /// A list of [`Body::branch_tables`].
    BranchTable(u32),
    /// A list of [`Body::call_tables`].
    CallTable(u32),
    /// One of [`Body::prototypes`].
    Prototype(u32),
}
