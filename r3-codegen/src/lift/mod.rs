//! Checked PTX to LLVM IR.
//!
//! [`lift`] makes one LLVM module of one checked PTX module. On the way of a function, which is the order of the
//! modules below: its signature and directives (`params`, `directives`), which registers hold pointers into what
//! (`pointers`), basic blocks and where values meet (`cfg`, `ssa`), then its instructions in dominator order
//! (`function`), each by a handler of its family (`ops`) or, where there is none, as inline assembly (`asm`). `module` goes
//! over the functions, `globals` has what they share, `operand` makes values of operands.
//!
//! - A register is one SSA value at a time. An integer register is `iN`, `.f32` a `float`, `.f64` a `double`, `.f16` and
//!   `.bf16` are `i16`, packed ones `i32`, a predicate `i1`; a register that `pointers` found to hold an address is a `ptr`.
//! - Variables of the module stay text: IR only declares them, and [`emit`](crate::emit) puts the original definitions
//!   back. So LLVM can neither shrink nor assume what a host program may read or write.
//! - `contract` on an `fadd`, `fsub` or `fmul` means: the original let the assembler fuse it. LLVM must not fuse it by
//!   itself: see `fence_contraction` in [`passes`](crate::passes).

mod asm;
mod blocks;
mod calls;
mod carry;
mod cfg;
mod control;
mod directives;
mod function;
mod globals;
mod guard;
mod mnemonics;
mod mode;
mod module;
mod operand;
mod ops;
mod params;
mod pending;
mod pointers;
mod special;
mod ssa;
pub(crate) mod variables;

use inkwell::context::Context;
use inkwell::module::Module;
use r3_ptx::typed;

use crate::error::LiftError;

/// What the lifter may decide.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Keep this kernel, what it calls and what it names; `None` keeps everything.
    pub kernel: Option<String>,
    /// Keep `.pragma "nounroll"` (as loop metadata).
    pub keep_nounroll: bool,
    /// Keep calls of device functions as calls (`noinline`).
    pub keep_calls: bool,
    /// A guarded load, store or reduction stays one instruction with its guard, as inline assembly, where it would become a
    /// branch around it: closer to what some compilers write, but LLVM cannot see through it.
    pub keep_guards: bool,
}

/// A lifted module.
#[derive(Debug)]
pub struct Lifted<'ctx> {
    /// The IR. Its target and data layout are set by [`passes`](crate::passes).
    pub module: Module<'ctx>,
    /// Functions that stay as PTX text, with the reason. [`emit`](crate::emit) puts them in.
    pub verbatim: Vec<(String, String)>,
    /// Instructions lifted to IR or intrinsics, and those that became inline assembly, by their mnemonic.
    pub natively: u64,
    /// See `natively`.
    pub assembly: std::collections::BTreeMap<String, u64>,
}

/// Lifts a module.
///
/// # Errors
/// When there is no kernel of the wanted name, or LLVM's builder refused something.
pub fn lift<'ctx>(
    context: &'ctx Context,
    module: &typed::Module,
    options: &Options,
) -> Result<Lifted<'ctx>, LiftError> {
    module::lift(context, module, options)
}
