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

use super::{ElementType, argument};

/// Element types by buffer name (`arg0`, `arg2+0x10`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InferredTypes(HashMap<String, ElementType>);

impl InferredTypes {
    /// From the PTX of a kernel, when its image has any.
    pub fn of(image: &Image, kernel: &KernelRecord) -> Self {
        let text = image.entries().iter().rev().find_map(|entry| {
            let payload = (entry.form == CodeForm::Ptx).then(|| entry.payload().ok())??;
            let text = String::from_utf8_lossy(&payload).into_owned();
            body(&text, &kernel.name).map(str::to_owned)
        });
        match text {
            Some(body) => Self::of_body(&body, kernel),
            None => Self::default(),
        }
    }

    /// The type of a buffer that goes by several names.
    pub fn get<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<ElementType> {
        let mut types = names.into_iter().filter_map(|name| self.0.get(name));
        let first = *types.next()?;
        // Two arguments in one allocation may have different types.
        types.all(|ty| *ty == first).then_some(first)
    }

    fn of_body(body: &str, kernel: &KernelRecord) -> Self {
        let statements = statements(body);
        let mut flow = Flow::new(kernel);
        // Twice, for registers that a loop sets after they are used.
        for _ in 0..2 {
            for statement in &statements {
                flow.follow(statement);
            }
        }
        let mut seen: HashMap<String, Option<ElementType>> = HashMap::new();
        for statement in &statements {
            let Some((place, element)) = flow.access(statement) else {
                continue;
            };
            let Some(element) = element else { continue };
            seen.entry(place)
                .and_modify(|known| {
                    if *known != Some(element) {
                        *known = None;
                    }
                })
                .or_insert(Some(element));
        }
        Self(
            seen.into_iter()
                .filter_map(|(name, element)| Some((name, element?)))
                .collect(),
        )
    }
}

/// The text between the braces of an entry function.
fn body<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut from = 0;
    loop {
        let entry = from + text.get(from..)?.find(".entry")?;
        from = entry + ".entry".len();
        let rest = text.get(from..)?.trim_start();
        let Some(after) = rest.strip_prefix(name) else {
            continue;
        };
        if !after.starts_with(|c: char| c == '(' || c == '{' || c.is_whitespace()) {
            continue;
        }
        let start = after.find('{')? + 1;
        let mut depth = 1;
        let end = after.get(start..)?.char_indices().find_map(|(at, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(start + at)
        })?;
        return after.get(start..end);
    }
}

/// One instruction: its opcode in parts, and its operands.
#[derive(Debug, PartialEq, Eq)]
struct Statement<'t> {
    opcode: Vec<&'t str>,
    operands: Vec<&'t str>,
}

fn statements(body: &str) -> Vec<Statement<'_>> {
    body.split('\n')
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(|line| line.split(';'))
        .filter_map(statement)
        .collect()
}

/// Instructions stand on a line of their own, as all compilers write them; what does not is left
/// out.
fn statement(text: &str) -> Option<Statement<'_>> {
    let mut text = text.trim().trim_start_matches(['{', '}']).trim();
    if text.starts_with('@') {
        text = text.split_once(char::is_whitespace)?.1.trim();
    }
    let (opcode, operands) = text.split_once(char::is_whitespace)?;
    if opcode.starts_with('.') || opcode.ends_with(':') {
        return None;
    }
    Some(Statement {
        opcode: opcode.split('.').collect(),
        operands: split_operands(operands),
    })
}

/// Splits at commas outside of braces and brackets.
fn split_operands(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(|c| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

/// What is known of registers.
struct Flow<'k> {
    kernel: &'k KernelRecord,
    /// The buffer name of the parameter that a register points to; `None` for several.
    origins: HashMap<String, Option<String>>,
    /// The type by which an instruction computed with a register.
    types: HashMap<String, ElementType>,
}

impl<'k> Flow<'k> {
    fn new(kernel: &'k KernelRecord) -> Self {
        Self {
            kernel,
            origins: HashMap::new(),
            types: HashMap::new(),
        }
    }

    fn follow(&mut self, statement: &Statement<'_>) {
        let [head, rest @ ..] = statement.opcode.as_slice() else {
            return;
        };
        let Some((target, sources)) = statement.operands.split_first() else {
            return;
        };
        let origin = match *head {
            "ld" if rest.contains(&"param") => sources.first().and_then(|s| self.parameter(s)),
            "mov" | "cvta" => sources.first().and_then(|s| self.origin(s)),
            "add" | "sub" | "mad" | "selp" => {
                let mut found = sources.iter().filter_map(|s| self.origin(s));
                match (found.next(), found.next()) {
                    (Some(one), Some(other)) if one != other => Some(None),
                    (one, _) => one,
                }
            }
            _ => None,
        };
        if let Some(origin) = origin {
            self.origins
                .entry((*target).to_owned())
                .and_modify(|known| {
                    if *known != origin {
                        *known = None;
                    }
                })
                .or_insert(origin);
        }
        let arithmetic = matches!(
            *head,
            "add"
                | "sub"
                | "mul"
                | "fma"
                | "mad"
                | "div"
                | "rcp"
                | "sqrt"
                | "rsqrt"
                | "neg"
                | "abs"
                | "min"
                | "max"
                | "ex2"
                | "lg2"
                | "sin"
                | "cos"
                | "tanh"
        );
        if arithmetic && let Some(element) = rest.last().and_then(|ty| float(ty)) {
            for register in &statement.operands {
                self.types.insert((*register).to_owned(), element);
            }
        }
    }

    /// `[name_param_2+8]`: the parameter's name as the PTX of all compilers ends it.
    fn parameter(&self, operand: &str) -> Option<Option<String>> {
        let inside = operand.strip_prefix('[')?.strip_suffix(']')?;
        let (name, offset) = match inside.split_once('+') {
            Some((name, offset)) => (name.trim(), offset.trim().parse::<u32>().ok()?),
            None => (inside.trim(), 0),
        };
        let index: usize = name.rsplit_once("_param_")?.1.parse().ok()?;
        let param = self.kernel.params.get(index)?;
        Some(Some(argument(
            self.kernel,
            param.offset.checked_add(offset)?,
        )))
    }

    fn origin(&self, register: &str) -> Option<Option<String>> {
        self.origins.get(register).cloned()
    }

    /// The buffer that an instruction accesses, and as what.
    fn access(&self, statement: &Statement<'_>) -> Option<(String, Option<ElementType>)> {
        let [head, rest @ ..] = statement.opcode.as_slice() else {
            return None;
        };
        let (address, value) = match *head {
            "ld" | "atom" => (statement.operands.get(1)?, statement.operands.first()?),
            "st" | "red" => (statement.operands.first()?, statement.operands.get(1)?),
            _ => return None,
        };
        let elsewhere = ["param", "shared", "local", "const"];
        if rest
            .iter()
            .any(|part| elsewhere.iter().any(|space| part.starts_with(space)))
        {
            return None;
        }
        let inside = address.strip_prefix('[')?.strip_suffix(']')?;
        let register = inside.split('+').next().unwrap_or_default().trim();
        let place = self.origin(register)??;
        let ty = rest.last()?;
        let by_value = || {
            let first = value
                .trim_start_matches('{')
                .split(',')
                .next()?
                .trim_end_matches('}');
            let element = *self.types.get(first.trim())?;
            let bits: usize = ty.get(1..)?.parse().ok()?;
            (element.size() * 8 == bits).then_some(element)
        };
        Some((place, float(ty).or_else(|| integer(ty)).or_else(by_value)))
    }
}

fn float(ty: &str) -> Option<ElementType> {
    match ty {
        "f64" => Some(ElementType::F64),
        "f32" => Some(ElementType::F32),
        "f16" | "f16x2" => Some(ElementType::F16),
        "bf16" | "bf16x2" => Some(ElementType::BF16),
        _ => None,
    }
}

/// Integers of 32 bits and more: narrower ones are how halves are loaded and stored, too.
fn integer(ty: &str) -> Option<ElementType> {
    match ty {
        "u32" => Some(ElementType::U32),
        "s32" => Some(ElementType::I32),
        "u64" => Some(ElementType::U64),
        "s64" => Some(ElementType::I64),
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
