//! What all functions of a module share: LLVM's types and attributes, declarations, and what each mnemonic is.

use std::collections::{BTreeMap, HashMap};

use inkwell::attributes::Attribute;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::types::{BasicType, BasicTypeEnum, FloatType, IntType};
use inkwell::values::{FunctionValue, PointerValue};
use inkwell::{AddressSpace, types::PointerType};
use r3_ptx::isa::{
    Effects, FormId, Forms, Mnemonic, Opcode, ScalarType, Scope, Space, SpecialRegister, Word,
};
use r3_ptx::typed::{self, FnId};

use super::Options;
use super::function::Handler;
use super::ops;

/// Caches and declarations of a module.
pub(crate) struct Globals<'ctx> {
    /// LLVM's context.
    pub context: &'ctx Context,
    /// What the lifter may decide.
    pub options: Options,
    /// Pointers into shared, constant and local memory have 32 bits.
    pub short_pointers: bool,
    /// Types of every day.
    pub types: Types<'ctx>,
    /// Attributes of calls and functions.
    pub attributes: Attributes,
    /// The functions of the module, by [`FnId`]; `None`: not declared.
    pub functions: Vec<Option<FunctionValue<'ctx>>>,
    /// Variables of the module that have been declared, by [`VarId`](typed::VarId).
    pub variables: Vec<Option<PointerValue<'ctx>>>,
    /// What each mnemonic is.
    pub mnemonics: Vec<MnemonicInfo>,
    /// Instructions lifted without inline assembly.
    pub natively: u64,
    /// Instructions that became inline assembly, by [`MnemonicId`](r3_ptx::tree::MnemonicId).
    pub assembly: Vec<u64>,
    intrinsics: HashMap<String, Vec<Declaration<'ctx>>>,
    special: HashMap<SpecialRegister, FunctionValue<'ctx>>,
}

/// An intrinsic with the types it is declared for.
struct Declaration<'ctx> {
    overloads: Vec<BasicTypeEnum<'ctx>>,
    function: Option<FunctionValue<'ctx>>,
}

/// LLVM's types.
#[derive(Clone, Copy)]
pub(crate) struct Types<'ctx> {
    /// `i1`
    pub i1: IntType<'ctx>,
    /// `i8`
    pub i8: IntType<'ctx>,
    /// `i16`
    pub i16: IntType<'ctx>,
    /// `i32`
    pub i32: IntType<'ctx>,
    /// `i64`
    pub i64: IntType<'ctx>,
    /// `i128`
    pub i128: IntType<'ctx>,
    /// `half`
    pub half: FloatType<'ctx>,
    /// `bfloat`
    pub bfloat: FloatType<'ctx>,
    /// `float`
    pub float: FloatType<'ctx>,
    /// `double`
    pub double: FloatType<'ctx>,
    pointers: [PointerType<'ctx>; 8],
    param: PointerType<'ctx>,
}

/// LLVM's attributes, made once.
pub(crate) struct Attributes {
    /// `convergent`
    pub convergent: Attribute,
    /// `nounwind`
    pub nounwind: Attribute,
    /// `willreturn`
    pub willreturn: Attribute,
    /// `memory(none)`
    pub no_memory: Attribute,
    /// `memory(read)`
    pub reads_memory: Attribute,
    /// `noinline`
    pub noinline: Attribute,
    /// `noreturn`
    pub noreturn: Attribute,
}

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
struct Target {
    number: u16,
    suffixed: bool,
    version: (u16, u16),
}

impl Target {
    fn of(module: &typed::Module) -> Self {
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

/// Instructions that LLVM's code generator has for later targets and versions only than PTX does.
const LATER_IN_LLVM: &[(Opcode, Option<Word>, u16, (u16, u16))] = &[
    (Opcode::Prefetch, None, 90, (8, 0)),
    (Opcode::Prefetchu, None, 90, (8, 0)),
    (Opcode::Barrier, Some(Word::Relaxed), 90, (8, 0)),
];

impl MnemonicInfo {
    fn of(mnemonic: &Mnemonic, target: Target) -> Self {
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

/// Effects of a form.
pub(crate) fn effects(form: FormId) -> Effects {
    Forms::table()
        .get(form)
        .map_or_else(Effects::default, |form| form.effects)
}

/// LLVM's number of an address space. Parameters of kernels are 101.
pub(crate) fn address_space(space: Space) -> u16 {
    match space {
        Space::Global => 1,
        Space::Const => 4,
        Space::Local => 5,
        Space::Shared | Space::SharedCta => 3,
        Space::SharedCluster => 7,
        Space::Param | Space::ParamEntry | Space::ParamFunc => 101,
        _ => 0,
    }
}

impl<'ctx> Types<'ctx> {
    fn new(context: &'ctx Context) -> Self {
        let pointer = |n: u16| context.ptr_type(AddressSpace::from(n));
        Self {
            i1: context.bool_type(),
            i8: context.i8_type(),
            i16: context.i16_type(),
            i32: context.i32_type(),
            i64: context.i64_type(),
            i128: context.i128_type(),
            half: context.f16_type(),
            bfloat: context.bf16_type(),
            float: context.f32_type(),
            double: context.f64_type(),
            pointers: [0, 1, 2, 3, 4, 5, 6, 7].map(pointer),
            param: pointer(101),
        }
    }

    /// A pointer into an address space of LLVM.
    pub fn pointer(&self, address_space: u16) -> PointerType<'ctx> {
        self.pointers
            .get(usize::from(address_space))
            .copied()
            .unwrap_or(self.param)
    }

    /// An integer of so many bits.
    pub fn int(&self, context: &'ctx Context, bits: u32) -> IntType<'ctx> {
        match bits {
            1 => self.i1,
            8 => self.i8,
            16 => self.i16,
            32 => self.i32,
            64 => self.i64,
            128 => self.i128,
            bits => std::num::NonZeroU32::new(bits)
                .and_then(|bits| context.custom_width_int_type(bits).ok())
                .unwrap_or(self.i8),
        }
    }

    /// The type of a register.
    pub fn register(&self, context: &'ctx Context, ty: ScalarType) -> BasicTypeEnum<'ctx> {
        match ty {
            ScalarType::Pred => self.i1.as_basic_type_enum(),
            ScalarType::F32 => self.float.as_basic_type_enum(),
            ScalarType::F64 => self.double.as_basic_type_enum(),
            _ => self.int(context, ty.bits()).as_basic_type_enum(),
        }
    }

    /// The type of a value in arithmetic.
    pub fn value(&self, context: &'ctx Context, ty: ScalarType) -> BasicTypeEnum<'ctx> {
        match ty {
            ScalarType::F16 => self.half.as_basic_type_enum(),
            ScalarType::BF16 => self.bfloat.as_basic_type_enum(),
            _ => self.register(context, ty),
        }
    }
}

impl Attributes {
    fn new(context: &Context) -> Self {
        let named = |name: &str, value: u64| {
            context.create_enum_attribute(Attribute::get_named_enum_kind_id(name), value)
        };
        // Two bits for each kind of location: 1 reads, 2 writes.
        let every_location_read = 0x5555_5555;
        Self {
            convergent: named("convergent", 0),
            nounwind: named("nounwind", 0),
            willreturn: named("willreturn", 0),
            no_memory: named("memory", 0),
            reads_memory: named("memory", every_location_read),
            noinline: named("noinline", 0),
            noreturn: named("noreturn", 0),
        }
    }
}

impl<'ctx> Globals<'ctx> {
    /// Caches for a module.
    pub fn new(context: &'ctx Context, module: &typed::Module, options: &Options) -> Self {
        let target = Target::of(module);
        Self {
            context,
            options: options.clone(),
            short_pointers: module.address_bytes == 8,
            types: Types::new(context),
            attributes: Attributes::new(context),
            functions: vec![None; module.functions.len()],
            variables: vec![None; module.variables.len()],
            mnemonics: module
                .mnemonics
                .iter()
                .map(|mnemonic| MnemonicInfo::of(mnemonic, target))
                .collect(),
            natively: 0,
            assembly: vec![0; module.mnemonics.len()],
            intrinsics: HashMap::new(),
            special: HashMap::new(),
        }
    }

    /// A declared function.
    pub fn function(&self, id: FnId) -> Option<FunctionValue<'ctx>> {
        self.functions.get(id.0 as usize).copied().flatten()
    }

    /// The declaration of an intrinsic; `None` when this LLVM does not know it.
    pub fn intrinsic(
        &mut self,
        llvm: &Module<'ctx>,
        name: &str,
        overloads: &[BasicTypeEnum<'ctx>],
    ) -> Option<FunctionValue<'ctx>> {
        if let Some(declared) = self.intrinsics.get(name)
            && let Some(found) = declared.iter().find(|d| d.overloads == overloads)
        {
            return found.function;
        }
        let function = Intrinsic::find(name).and_then(|i| i.get_declaration(llvm, overloads));
        self.intrinsics
            .entry(name.to_owned())
            .or_default()
            .push(Declaration {
                overloads: overloads.to_vec(),
                function,
            });
        function
    }

    /// The intrinsic that reads a special register, where LLVM has one.
    pub fn special(
        &mut self,
        llvm: &Module<'ctx>,
        register: SpecialRegister,
    ) -> Option<FunctionValue<'ctx>> {
        if let Some(&found) = self.special.get(&register) {
            return Some(found);
        }
        let name = SPECIAL
            .iter()
            .find(|(known, _)| *known == register)
            .map(|(_, name)| *name)?;
        let function = self.intrinsic(llvm, name, &[])?;
        self.special.insert(register, function);
        Some(function)
    }

    /// Counts of inline assembly by mnemonic.
    pub fn assembly(&self, module: &typed::Module) -> BTreeMap<String, u64> {
        let counts = module.mnemonics.iter().zip(&self.assembly);
        counts
            .filter(|(_, count)| **count > 0)
            .map(|(mnemonic, count)| (mnemonic.text().to_owned(), *count))
            .collect()
    }
}

/// Special registers that never change while a thread runs, and the intrinsics that read them: LLVM may merge and move
/// such reads.
const SPECIAL: &[(SpecialRegister, &str)] = &[
    (SpecialRegister::TidX, "llvm.nvvm.read.ptx.sreg.tid.x"),
    (SpecialRegister::TidY, "llvm.nvvm.read.ptx.sreg.tid.y"),
    (SpecialRegister::TidZ, "llvm.nvvm.read.ptx.sreg.tid.z"),
    (SpecialRegister::NtidX, "llvm.nvvm.read.ptx.sreg.ntid.x"),
    (SpecialRegister::NtidY, "llvm.nvvm.read.ptx.sreg.ntid.y"),
    (SpecialRegister::NtidZ, "llvm.nvvm.read.ptx.sreg.ntid.z"),
    (SpecialRegister::CtaidX, "llvm.nvvm.read.ptx.sreg.ctaid.x"),
    (SpecialRegister::CtaidY, "llvm.nvvm.read.ptx.sreg.ctaid.y"),
    (SpecialRegister::CtaidZ, "llvm.nvvm.read.ptx.sreg.ctaid.z"),
    (SpecialRegister::NctaidX, "llvm.nvvm.read.ptx.sreg.nctaid.x"),
    (SpecialRegister::NctaidY, "llvm.nvvm.read.ptx.sreg.nctaid.y"),
    (SpecialRegister::NctaidZ, "llvm.nvvm.read.ptx.sreg.nctaid.z"),
    (SpecialRegister::LaneId, "llvm.nvvm.read.ptx.sreg.laneid"),
    (
        SpecialRegister::LanemaskEq,
        "llvm.nvvm.read.ptx.sreg.lanemask.eq",
    ),
    (
        SpecialRegister::LanemaskLe,
        "llvm.nvvm.read.ptx.sreg.lanemask.le",
    ),
    (
        SpecialRegister::LanemaskLt,
        "llvm.nvvm.read.ptx.sreg.lanemask.lt",
    ),
    (
        SpecialRegister::LanemaskGe,
        "llvm.nvvm.read.ptx.sreg.lanemask.ge",
    ),
    (
        SpecialRegister::LanemaskGt,
        "llvm.nvvm.read.ptx.sreg.lanemask.gt",
    ),
    (
        SpecialRegister::ClusteridX,
        "llvm.nvvm.read.ptx.sreg.clusterid.x",
    ),
    (
        SpecialRegister::ClusteridY,
        "llvm.nvvm.read.ptx.sreg.clusterid.y",
    ),
    (
        SpecialRegister::ClusteridZ,
        "llvm.nvvm.read.ptx.sreg.clusterid.z",
    ),
    (
        SpecialRegister::NclusteridX,
        "llvm.nvvm.read.ptx.sreg.nclusterid.x",
    ),
    (
        SpecialRegister::NclusteridY,
        "llvm.nvvm.read.ptx.sreg.nclusterid.y",
    ),
    (
        SpecialRegister::NclusteridZ,
        "llvm.nvvm.read.ptx.sreg.nclusterid.z",
    ),
    (
        SpecialRegister::ClusterCtaidX,
        "llvm.nvvm.read.ptx.sreg.cluster.ctaid.x",
    ),
    (
        SpecialRegister::ClusterCtaidY,
        "llvm.nvvm.read.ptx.sreg.cluster.ctaid.y",
    ),
    (
        SpecialRegister::ClusterCtaidZ,
        "llvm.nvvm.read.ptx.sreg.cluster.ctaid.z",
    ),
    (
        SpecialRegister::ClusterNctaidX,
        "llvm.nvvm.read.ptx.sreg.cluster.nctaid.x",
    ),
    (
        SpecialRegister::ClusterNctaidY,
        "llvm.nvvm.read.ptx.sreg.cluster.nctaid.y",
    ),
    (
        SpecialRegister::ClusterNctaidZ,
        "llvm.nvvm.read.ptx.sreg.cluster.nctaid.z",
    ),
    (
        SpecialRegister::ClusterCtarank,
        "llvm.nvvm.read.ptx.sreg.cluster.ctarank",
    ),
    (
        SpecialRegister::ClusterNctarank,
        "llvm.nvvm.read.ptx.sreg.cluster.nctarank",
    ),
];
