//! Parameters and results: how they are passed, where they live in a function, and `ld.param` and `st.param`.
//!
//! What the host lays out (parameters of kernels) and what other code may call (functions) keeps its layout to the byte:
//!
//! - A kernel's parameter is a value when all accesses take it as a whole; else it is memory (`byval`), in LLVM's address
//!   space of parameters.
//! - A function's parameter or result of 4 or 8 bytes is a value. All others are arrays, passed by value with their
//!   alignment: LLVM prints the `.param` array that was there. (`byval` would do too, but with 32-bit local pointers
//!   LLVM 22 cannot take the address of such a parameter without optimisation.)
//! - The parts of a call sequence, and results, are values when each is written and read as a whole in one basic block,
//!   as compilers write it; else they are memory on the stack.

mod access;
mod frame;
mod whole;

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::module::Linkage;
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum, FunctionType};
use inkwell::values::FunctionValue;
use r3_ptx::isa::{ScalarType, Space};
use r3_ptx::typed::{self, Body, FnId, Operand, Symbol, Variable};

use super::directives;
use super::globals::Globals;
use super::pointers::Roots;
use crate::error::LiftError;

pub(crate) use access::{load, store};
pub(crate) use frame::{Frame, address_bits, argument, enter, leave, receive, symbol, variable};

use access::{Access, Place};

/// How a parameter or a result is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    /// A scalar, by value.
    Scalar(ScalarType),
    /// An address, as a pointer into this address space of LLVM.
    Pointer(u16),
    /// Memory that the host filled: `ptr byval`.
    Memory,
    /// An array of integers, by value.
    Array {
        /// Width of an element.
        bits: u32,
        /// How many.
        count: u32,
    },
}

/// How the body of a kernel uses a parameter.
#[derive(Clone, Copy, Default)]
struct Use {
    /// Accesses of all bytes at once.
    whole: u32,
    /// Everything that names it.
    named: u32,
    /// Its address is a value.
    address: bool,
}

/// The type of the same width without a meaning.
fn bits(ty: ScalarType) -> ScalarType {
    match (ty, ty.bytes()) {
        (ScalarType::Pred, _) => ty,
        (_, 1) => ScalarType::B8,
        (_, 2) => ScalarType::B16,
        (_, 4) => ScalarType::B32,
        (_, 8) => ScalarType::B64,
        _ => ty,
    }
}

/// A parameter of a kernel.
fn of_kernel(variable: &Variable, used: Use, root: Option<u32>) -> Passing {
    let scalar = matches!(variable.size, 1 | 2 | 4 | 8)
        && variable.align == variable.size
        && !variable.unsized_array;
    let ty = match variable.size {
        size if size == variable.ty.bytes() => variable.ty,
        1 => ScalarType::B8,
        2 => ScalarType::B16,
        4 => ScalarType::B32,
        _ => ScalarType::B64,
    };
    match (scalar && used.whole == used.named, root) {
        (false, _) => Passing::Memory,
        (true, Some(space)) if variable.size == 8 => {
            Passing::Pointer(u16::try_from(space).unwrap_or_default())
        }
        (true, _) => Passing::Scalar(ty),
    }
}

/// A parameter or a result of a function.
pub(crate) fn of_function(variable: &Variable) -> Passing {
    let natural = variable.ty.bytes();
    let register = variable.space == Space::Reg;
    let plain = matches!(natural, 4 | 8)
        && variable.size == natural
        && variable.align == natural
        && !variable.unsized_array;
    if plain || register {
        // Always as bits: a prototype may say `.b32` where the function says `.f32`.
        return Passing::Scalar(bits(variable.ty));
    }
    let widest = variable.align.clamp(1, 8);
    let bytes = match variable.size {
        0 => 1,
        size => widest.min(1 << size.trailing_zeros().min(3)),
    };
    Passing::Array {
        bits: bytes as u32 * 8,
        count: u32::try_from(variable.size / bytes).unwrap_or(u32::MAX),
    }
}

impl Passing {
    fn ty<'ctx>(self, globals: &Globals<'ctx>) -> BasicTypeEnum<'ctx> {
        let types = &globals.types;
        match self {
            Self::Scalar(ty) => types.register(globals.context, ty),
            Self::Pointer(space) => types.pointer(space).into(),
            Self::Memory => types.pointer(0).into(),
            Self::Array { bits, count } => {
                types.int(globals.context, bits).array_type(count).into()
            }
        }
    }
}

/// The type of a function of PTX, and the alignments of what is passed as an array: of the result first.
pub(crate) struct Signature<'ctx> {
    /// LLVM's type.
    pub ty: FunctionType<'ctx>,
    /// Alignments, with their places.
    pub alignments: Vec<(AttributeLoc, u64)>,
}

/// The signature of a function, or of a prototype.
pub(crate) fn signature<'ctx>(
    globals: &Globals<'ctx>,
    params: &[Variable],
    results: &[Variable],
) -> Signature<'ctx> {
    let passing: Vec<Passing> = params.iter().map(of_function).collect();
    let mut signature = typed_signature(globals, &passing, results);
    for (index, (variable, passing)) in (0..).zip(params.iter().zip(passing)) {
        if matches!(passing, Passing::Array { .. }) {
            let place = AttributeLoc::Param(index);
            signature.alignments.push((place, variable.align));
        }
    }
    signature
}

fn typed_signature<'ctx>(
    globals: &Globals<'ctx>,
    params: &[Passing],
    results: &[Variable],
) -> Signature<'ctx> {
    let params: Vec<BasicMetadataTypeEnum<'ctx>> =
        params.iter().map(|p| p.ty(globals).into()).collect();
    let mut alignments = Vec::new();
    let ty = match results {
        [] => globals.context.void_type().fn_type(&params, false),
        [only] => {
            let passing = of_function(only);
            if matches!(passing, Passing::Array { .. }) {
                alignments.push((AttributeLoc::Return, only.align));
            }
            passing.ty(globals).fn_type(&params, false)
        }
        // Several results exist only in registers: old assembly.
        list => {
            let list: Vec<_> = list.iter().map(|r| of_function(r).ty(globals)).collect();
            let list = globals.context.struct_type(&list, false);
            list.fn_type(&params, false)
        }
    };
    Signature { ty, alignments }
}

/// An attribute that LLVM knows by name.
pub(crate) fn attribute(globals: &Globals<'_>, name: &str, value: u64) -> Attribute {
    let kind = Attribute::get_named_enum_kind_id(name);
    globals.context.create_enum_attribute(kind, value)
}

/// How a kernel's parameters are passed, and of which the address is a value.
fn of_entry(
    module: &typed::Module,
    function: &typed::Function,
    roots: Option<&Roots>,
) -> Vec<(Passing, bool)> {
    let mut uses = vec![Use::default(); function.params.len()];
    if let Some(body) = &function.body {
        count_uses(module, function, body, &mut uses);
    }
    let params = function.params.iter().zip(uses).enumerate();
    params
        .map(|(index, (variable, used))| {
            let root = roots.and_then(|roots| roots.parameter(index));
            (of_kernel(variable, used, root), used.address)
        })
        .collect()
}

fn count_uses(module: &typed::Module, function: &typed::Function, body: &Body, uses: &mut [Use]) {
    for operand in &body.operands {
        if let &(Operand::Address(Symbol::Param(n), _) | Operand::MemorySymbol(Symbol::Param(n), _)) =
            operand
            && let Some(used) = uses.get_mut(n as usize)
        {
            used.named += 1;
            used.address |= matches!(operand, Operand::Address(..));
        }
    }
    for instruction in &body.instructions {
        let access = Access::of(module, body, instruction);
        if let Some(access) = access
            && let Place::Symbol(Symbol::Param(n), offset) = access.place
            && let (Some(used), Some(param)) =
                (uses.get_mut(n as usize), function.params.get(n as usize))
            && access.load
        {
            let whole = offset == 0 && access.bytes() == param.size && access.count == 1;
            used.whole += u32::from(whole);
        }
    }
    // An instruction other than a load that names a parameter needs its address.
    for instruction in &body.instructions {
        if Access::of(module, body, instruction).is_none() {
            for operand in body.operands(instruction) {
                if let Operand::MemorySymbol(Symbol::Param(n), _) = operand
                    && let Some(used) = uses.get_mut(*n as usize)
                {
                    used.address = true;
                }
            }
        }
    }
}

/// Declares a function: type, linkage, attributes.
///
/// # Errors
/// When it has parameters that cannot be expressed.
pub(crate) fn declare<'ctx>(
    globals: &mut Globals<'ctx>,
    llvm: &inkwell::module::Module<'ctx>,
    module: &typed::Module,
    id: FnId,
    roots: Option<&Roots>,
) -> Result<FunctionValue<'ctx>, LiftError> {
    let Some(source) = module.functions.get(id.0 as usize) else {
        return Err(LiftError::NoKernel {
            kernel: format!("number {}", id.0),
            has: format!("{} functions", module.functions.len()),
        });
    };
    let inexpressible = |what: &str| LiftError::Inexpressible {
        function: source.name.to_string(),
        pos: source.pos,
        what: what.into(),
    };
    let all = source.params.iter().chain(&source.results);
    if all.clone().any(|variable| variable.unsized_array) {
        return Err(inexpressible("it takes a variable number of arguments"));
    }
    if all.clone().any(|v| v.size == 0 || v.size > MOST_BYTES) {
        return Err(inexpressible("a parameter of no or very many bytes"));
    }
    if all.clone().any(|v| v.align > MOST_ALIGN) {
        return Err(inexpressible(
            "a parameter with more alignment than there is",
        ));
    }
    let too_many =
        |v: &Variable| matches!(of_function(v), Passing::Array { count, .. } if count > MOST_PARTS);
    if !source.entry && all.clone().any(too_many) {
        return Err(inexpressible("a parameter of very many parts"));
    }
    if source.body.is_none() && source.results.len() > 1 {
        return Err(inexpressible(
            "several results of a function defined elsewhere",
        ));
    }
    let linkage = linkage(globals, source);
    let function;
    if source.entry {
        let passing = of_entry(module, source, roots);
        let types: Vec<Passing> = passing.iter().map(|(passing, _)| *passing).collect();
        let signature = typed_signature(globals, &types, &[]);
        function = llvm.add_function(&source.name, signature.ty, Some(linkage));
        function.set_call_conventions(PTX_KERNEL);
        for (index, (variable, (passing, address))) in (0..).zip(source.params.iter().zip(passing))
        {
            kernel_param(globals, function, index, variable, passing, address);
        }
    } else {
        let signature = signature(globals, &source.params, &source.results);
        function = llvm.add_function(&source.name, signature.ty, Some(linkage));
        for (place, align) in signature.alignments {
            function.add_attribute(place, attribute(globals, "alignstack", align));
        }
    }
    directives::apply(globals, function, source);
    Ok(function)
}

/// The attribute of a parameter of which the address is a value.
const ADDRESS: &str = "nvvm.grid_constant";

/// The calling convention of kernels.
const PTX_KERNEL: u32 = 71;

/// More than any assembler takes.
const MOST_BYTES: u64 = 1 << 16;

/// Of a parameter, in PTX.
const MOST_ALIGN: u64 = 128;

/// Values of which an array is passed: each takes LLVM some work.
const MOST_PARTS: u32 = 2048;

fn linkage(globals: &Globals<'_>, source: &typed::Function) -> Linkage {
    use r3_ptx::tree::Linkage as Ptx;
    let elsewhere = source.entry || source.body.is_none();
    // Somebody may link the whole module with others; never what was cut out of it for one kernel.
    let kept = globals.options.kernel.is_none() && source.linkage != Ptx::Internal;
    match elsewhere || kept {
        true => Linkage::External,
        false => Linkage::Internal,
    }
}

fn kernel_param<'ctx>(
    globals: &Globals<'ctx>,
    function: FunctionValue<'ctx>,
    index: u32,
    variable: &Variable,
    passing: Passing,
    address: bool,
) {
    let place = AttributeLoc::Param(index);
    let align = |bytes: u64| attribute(globals, "align", bytes);
    match passing {
        Passing::Memory => {
            let size = u32::try_from(variable.size).unwrap_or(u32::MAX);
            let ty = globals.types.i8.array_type(size);
            let kind = Attribute::get_named_enum_kind_id("byval");
            let byval = globals.context.create_type_attribute(kind, ty.into());
            function.add_attribute(place, byval);
            function.add_attribute(place, align(variable.align));
            if address {
                // Without it LLVM copies the parameter to where it can be written.
                let constant = globals.context.create_string_attribute(ADDRESS, "");
                function.add_attribute(place, constant);
            }
        }
        Passing::Pointer(_) => {
            let given = variable.ptr.and_then(|ptr| ptr.align);
            if let Some(bytes) = given.filter(|bytes| bytes.is_power_of_two()) {
                function.add_attribute(place, align(u64::from(bytes)));
            }
        }
        Passing::Scalar(_) | Passing::Array { .. } => {}
    }
}
