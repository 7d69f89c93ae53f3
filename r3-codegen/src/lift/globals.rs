//! What all functions of a module share: LLVM's types and attributes, declarations, and what each mnemonic is.

use std::collections::{BTreeMap, HashMap};

use inkwell::attributes::Attribute;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::types::{BasicType, BasicTypeEnum, FloatType, IntType};
use inkwell::values::{FunctionValue, PointerValue};
use inkwell::{AddressSpace, types::PointerType};
use r3_ptx::isa::{Effects, FormId, Forms, ScalarType, Space, SpecialRegister};
use r3_ptx::typed::{self, FnId};

use super::mnemonics::{MnemonicInfo, Target};
use super::{Options, special};

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
        let name = special::INTRINSICS
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
