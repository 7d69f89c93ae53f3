//! Element types of buffers, from how a kernel's PTX loads and stores through its parameters.
//!
//! A register is followed from the parameter that it was loaded from through copies, conversions
//! and additions. What reaches a load, store or atomic tells the type there; where the access has
//! only a size (`.b32`), the arithmetic on its value does. Where accesses of one parameter
//! disagree, or tell nothing, nothing is said: a wrong type would be worse than none. Pointers that
//! were themselves loaded from memory are not followed, nor are values through shared memory.

use std::collections::HashMap;

use r3_archive::model::KernelRecord;
use r3_image::{CodeForm, Image};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Space};
use r3_ptx::tree::{Body, Function, Item, Module, Name, Operand, Statement};

use super::{ElementType, argument};

/// Element types by buffer name (`arg0`, `arg2+0x10`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InferredTypes(HashMap<String, ElementType>);

impl InferredTypes {
    /// From the PTX of a kernel, when its image has any that can be read.
    pub fn of(image: &Image, kernel: &KernelRecord) -> Self {
        image
            .entries()
            .iter()
            .rev()
            .filter(|entry| entry.form == CodeForm::Ptx)
            .find_map(|entry| {
                let payload = entry.payload().ok()?;
                let module = r3_ptx::parse(&String::from_utf8_lossy(&payload)).ok()?;
                Self::of_module(&module, kernel)
            })
            .unwrap_or_default()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The type of a buffer that goes by several names.
    pub fn get<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<ElementType> {
        let mut types = names.into_iter().filter_map(|name| self.0.get(name));
        let first = *types.next()?;
        // Two arguments in one allocation may have different types.
        types.all(|ty| *ty == first).then_some(first)
    }

    /// `None` when the module does not define the kernel.
    fn of_module(module: &Module, kernel: &KernelRecord) -> Option<Self> {
        let (function, body) = module.items.iter().find_map(|item| match item {
            Item::Function(function)
                if function.entry && module.name(function.name) == kernel.name =>
            {
                Some((function, function.body.as_ref()?))
            }
            _ => None,
        })?;
        let mut flow = Flow::new(module, function, body, kernel);
        let instructions: Vec<_> = body
            .statements
            .iter()
            .filter_map(|statement| match statement {
                Statement::Instruction(instruction) => Some((
                    module.mnemonics.get(instruction.mnemonic.0 as usize)?,
                    body.range(instruction.operands),
                )),
                _ => None,
            })
            .collect();
        // Twice, for registers that a loop sets after they are used.
        for _ in 0..2 {
            for (mnemonic, operands) in &instructions {
                flow.follow(mnemonic, operands);
            }
        }
        let mut seen: HashMap<String, Option<ElementType>> = HashMap::new();
        for (mnemonic, operands) in &instructions {
            let Some((place, Some(element))) = flow.access(mnemonic, operands) else {
                continue;
            };
            seen.entry(place)
                .and_modify(|known| {
                    if *known != Some(element) {
                        *known = None;
                    }
                })
                .or_insert(Some(element));
        }
        Some(Self(
            seen.into_iter()
                .filter_map(|(name, element)| Some((name, element?)))
                .collect(),
        ))
    }
}

/// What is known of registers.
struct Flow<'m> {
    module: &'m Module,
    body: &'m Body,
    kernel: &'m KernelRecord,
    /// Parameters by name.
    params: HashMap<&'m str, usize>,
    /// The buffer name of the parameter that a register points to; `None` for several.
    origins: HashMap<Name, Option<String>>,
    /// The type by which an instruction computed with a register.
    types: HashMap<Name, ElementType>,
}

impl<'m> Flow<'m> {
    fn new(
        module: &'m Module,
        function: &'m Function,
        body: &'m Body,
        kernel: &'m KernelRecord,
    ) -> Self {
        let params = function
            .params
            .iter()
            .enumerate()
            .map(|(index, param)| (module.name(param.name), index))
            .collect();
        Self {
            module,
            body,
            kernel,
            params,
            origins: HashMap::new(),
            types: HashMap::new(),
        }
    }

    fn follow(&mut self, mnemonic: &Mnemonic, operands: &[Operand]) {
        let Some((target, sources)) = operands.split_first() else {
            return;
        };
        let origin = match mnemonic.opcode() {
            Opcode::Ld if mnemonic.space().is_some_and(Space::is_param) => {
                sources.first().and_then(|source| self.parameter(source))
            }
            Opcode::Mov | Opcode::Cvta => sources.first().and_then(|source| self.origin(source)),
            Opcode::Add | Opcode::Sub | Opcode::Mad | Opcode::Selp => {
                let mut found = sources.iter().filter_map(|source| self.origin(source));
                match (found.next(), found.next()) {
                    (Some(one), Some(other)) if one != other => Some(None),
                    (one, _) => one,
                }
            }
            _ => None,
        };
        if let (Some(origin), Operand::Name(target)) = (origin, target) {
            self.origins
                .entry(*target)
                .and_modify(|known| {
                    if *known != origin {
                        *known = None;
                    }
                })
                .or_insert(origin);
        }
        if ARITHMETIC.contains(&mnemonic.opcode())
            && let Some(element) = mnemonic.types().last().copied().and_then(float)
        {
            for operand in operands {
                if let Operand::Name(register) = operand {
                    self.types.insert(*register, element);
                }
            }
        }
    }

    /// `[kernel_param_2+8]`
    fn parameter(&self, operand: &Operand) -> Option<Option<String>> {
        let (name, offset) = match operand {
            Operand::Address(name, offset) => (name, *offset),
            Operand::AddressPlusZero(name) => (name, 0),
            _ => return None,
        };
        let index = *self.params.get(self.module.name(*name))?;
        let param = self.kernel.params.get(index)?;
        let offset = u32::try_from(offset).ok()?;
        Some(Some(argument(
            self.kernel,
            param.offset.checked_add(offset)?,
        )))
    }

    fn origin(&self, operand: &Operand) -> Option<Option<String>> {
        match operand {
            Operand::Name(register) => self.origins.get(register).cloned(),
            _ => None,
        }
    }

    /// The buffer that an instruction accesses, and as what.
    fn access(
        &self,
        mnemonic: &Mnemonic,
        operands: &[Operand],
    ) -> Option<(String, Option<ElementType>)> {
        let (address, value) = match mnemonic.opcode() {
            Opcode::Ld | Opcode::Atom => (operands.get(1)?, operands.first()?),
            Opcode::St | Opcode::Red => (operands.first()?, operands.get(1)?),
            _ => return None,
        };
        let elsewhere = |space: Space| {
            space.is_shared() || space.is_param() || matches!(space, Space::Local | Space::Const)
        };
        if mnemonic.space().is_some_and(elsewhere) {
            return None;
        }
        let (Operand::Address(register, _) | Operand::AddressPlusZero(register)) = address else {
            return None;
        };
        let place = self.origins.get(register)?.clone()?;
        let ty = mnemonic.types().last().copied()?;
        let by_value = || {
            let first = match value {
                Operand::Vector(range) => self.body.range(*range).first()?,
                one => one,
            };
            let Operand::Name(register) = first else {
                return None;
            };
            let element = *self.types.get(register)?;
            (element.size() as u64 == ty.bytes()).then_some(element)
        };
        Some((place, float(ty).or_else(|| integer(ty)).or_else(by_value)))
    }
}

/// Instructions whose type is that of what their registers hold.
const ARITHMETIC: [Opcode; 18] = [
    Opcode::Add,
    Opcode::Sub,
    Opcode::Mul,
    Opcode::Fma,
    Opcode::Mad,
    Opcode::Div,
    Opcode::Rcp,
    Opcode::Sqrt,
    Opcode::Rsqrt,
    Opcode::Neg,
    Opcode::Abs,
    Opcode::Min,
    Opcode::Max,
    Opcode::Ex2,
    Opcode::Lg2,
    Opcode::Sin,
    Opcode::Cos,
    Opcode::Tanh,
];

/// The element type of a floating-point type.
pub fn float(ty: ScalarType) -> Option<ElementType> {
    match ty {
        ScalarType::F64 => Some(ElementType::F64),
        ScalarType::F32 => Some(ElementType::F32),
        ScalarType::F16 | ScalarType::F16x2 => Some(ElementType::F16),
        ScalarType::BF16 | ScalarType::BF16x2 => Some(ElementType::BF16),
        _ => None,
    }
}

/// Integers of 32 bits and more: narrower ones are how halves are loaded and stored, too.
fn integer(ty: ScalarType) -> Option<ElementType> {
    match ty {
        ScalarType::U32 => Some(ElementType::U32),
        ScalarType::S32 => Some(ElementType::I32),
        ScalarType::U64 => Some(ElementType::U64),
        ScalarType::S64 => Some(ElementType::I64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use r3_archive::model::{KernelId, LayoutSource, ParamLayout};

    use super::*;

    fn kernel(name: &str, params: &[(u32, u32)]) -> KernelRecord {
        KernelRecord {
            id: KernelId(1),
            module: None,
            name: name.to_owned(),
            params: params
                .iter()
                .map(|&(offset, size)| ParamLayout { offset, size })
                .collect(),
            layout: LayoutSource::Ptx,
            attributes: Vec::new(),
        }
    }

    fn inferred(name: &str, params: &[(u32, u32)], text: &str) -> InferredTypes {
        InferredTypes::of(&Image::parse(text.as_bytes()), &kernel(name, params))
    }

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    #[test]
    fn what_nvcc_writes_for_saxpy() {
        let text = format!(
            "{HEAD}.visible .entry saxpy(.param .u64 saxpy_param_0, .param .u64 saxpy_param_1)\n{{\n\
             \tld.param.u64 \t%rd1, [saxpy_param_0];\n\
             \tld.param.u64 \t%rd2, [saxpy_param_1];\n\
             \tcvta.to.global.u64 \t%rd3, %rd1;\n\
             \tcvta.to.global.u64 \t%rd4, %rd2;\n\
             \tadd.s64 \t%rd6, %rd4, %rd5;\n\
             \tld.global.nc.f32 \t%f2, [%rd6];\n\
             \tadd.s64 \t%rd7, %rd3, %rd5;\n\
             \tst.global.f32 \t[%rd7+4], %f4;\n\
             \tret;\n}}\n"
        );
        let types = inferred("saxpy", &[(0, 8), (8, 8)], &text);
        assert_eq!(types.get(["arg0"]), Some(ElementType::F32));
        assert_eq!(types.get(["alloc 7", "arg1"]), Some(ElementType::F32));
        assert_eq!(types.get(["arg2"]), None);
    }

    #[test]
    fn atomics_structures_and_other_kernels() {
        let text = format!(
            "{HEAD}.visible .entry other(.param .u64 other_param_0) {{\n\
             ld.param.u64 %rd1, [other_param_0];\nst.global.u32 [%rd1], %r1;\n}}\n\
             .visible .entry k(\n.param .align 8 .b8 k_param_0[24]\n)\n{{\n\
             ld.param.u64 %rd1, [k_param_0+16];\n\
             cvta.to.global.u64 %rd2, %rd1;\n\
             mad.wide.s32 %rd3, %r1, 8, %rd2;\n\
             @%p1 red.global.add.f64 [%rd3], %fd1;\n}}\n"
        );
        let types = inferred("k", &[(0, 24)], &text);
        assert_eq!(types.get(["arg0+0x10"]), Some(ElementType::F64));
        assert_eq!(types.get(["arg0"]), None);
    }

    #[test]
    fn the_value_tells_what_an_untyped_store_writes() {
        // As Triton's back end writes it.
        let text = format!(
            "{HEAD}.visible .entry k(.param .u64 .ptr .global .align 1 k_param_0) {{\n\
             ld.param.b64 %rd1, [k_param_0];\n\
             mad.wide.s32 %rd2, %r1, 4, %rd1;\n\
             fma.rn.f32 %r5, %r6, %r7, %r8;\n\
             @%p1 st.global.v4.b32 [ %rd2 + 0 ], {{ %r5, %r9, %r10, %r11 }};\n}}\n"
        );
        assert_eq!(
            inferred("k", &[(0, 8)], &text).get(["arg0"]),
            Some(ElementType::F32)
        );
    }

    #[test]
    fn disagreement_is_no_answer() {
        let text = format!(
            "{HEAD}.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1) {{\n\
             ld.param.u64 %rd1, [k_param_0];\n\
             ld.param.u64 %rd2, [k_param_1];\n\
             selp.b64 %rd3, %rd1, %rd2, %p1;\n\
             st.global.f32 [%rd3], %f1;\n\
             st.global.u32 [%rd1], %r1;\n\
             st.global.f32 [%rd1], %f1;\n}}\n"
        );
        assert_eq!(
            inferred("k", &[(0, 8), (8, 8)], &text),
            InferredTypes::default()
        );
    }

    #[test]
    fn real_images_are_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../r3-image/tests/fixtures/");
        let text = std::fs::read_to_string(format!("{folder}triton.ptx")).unwrap();
        let params = [(0, 8), (8, 8), (16, 4), (20, 4), (24, 8), (32, 8)];
        let types = inferred("scale", &params, &text);
        assert_eq!(types.get(["arg0"]), Some(ElementType::F32));
        // What is stored comes back from shared memory: not followed.
        assert_eq!(types.get(["arg1"]), None);
    }
}
