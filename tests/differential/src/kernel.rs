//! A kernel that runs one form: each thread loads its operands, runs it, and stores what it gave.

use std::fmt::Write;

use crate::case::{Buffer, Case, Element, Result};
use crate::forms::{Form, Operand};
use crate::values::{self, Random};

/// Threads of a case: whole warps, so that exchange between lanes has all of them.
pub const THREADS: usize = 2048;
const BLOCK: usize = 256;

/// The case of a form. `exact` tells whether the results of an instruction are to be the same bits.
pub fn case(form: &Form, exact: &dyn Fn(&str) -> bool) -> Case {
    let mut random = Random::of(&format!("{} {:?}", form.title, form.sources));
    let sources: Vec<(&str, values::Kind)> = form
        .sources
        .iter()
        .filter_map(|operand| match operand {
            Operand::Register(ty, values) => Some((ty.as_str(), *values)),
            Operand::Literal(_) => None,
        })
        .collect();
    let columns = values::columns(&sources, THREADS, &mut random);

    let mut buffers: Vec<Buffer> = sources
        .iter()
        .zip(&columns)
        .map(|((ty, _), column)| Buffer {
            bytes: column
                .iter()
                .flat_map(|v| v.to_le_bytes().into_iter().take(values::bytes(ty)))
                .collect(),
            result: None,
        })
        .collect();
    let approximate = (form.body.is_none() && !exact(&form.title)).then(|| form.title.clone());
    for dest in &form.dests {
        let ty = dest.ty();
        buffers.push(Buffer {
            // Not zeros, so that a thread that stores nothing is seen.
            bytes: vec![0xa5; THREADS * stored(ty)],
            result: Some(Result {
                element: element(ty),
                approximate: approximate.clone(),
                sources: (0..sources.len()).collect(),
                mixed: None,
            }),
        });
    }
    Case {
        name: name(form),
        ptx: text(form, buffers.len()),
        kernel: "k".into(),
        grid: [(THREADS / BLOCK) as u32, 1, 1],
        block: [BLOCK as u32, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        as_written: false,
        buffers,
    }
}

/// A name that tells forms of one title apart by their literals and operands.
fn name(form: &Form) -> String {
    let mut name = format!("{}/{}", form.family, form.title);
    let mut operands = form.sources.iter().peekable();
    while let Some(operand) = operands.next() {
        match operand {
            Operand::Literal(text) => {
                let _ = write!(name, " {text}");
            }
            Operand::Register(ty, _)
                if form.family == "compare" && ty == "pred" && operands.peek().is_none() =>
            {
                name.push_str(" p");
            }
            Operand::Register(..) => {}
        }
    }
    if form.family == "warp" && !form.paired && form.title.starts_with("shfl") {
        name.push_str(" no predicate");
    }
    name
}

fn text(form: &Form, parameters: usize) -> String {
    let mut ptx =
        String::from(".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(\n");
    for index in 0..parameters {
        let comma = if index + 1 < parameters { "," } else { "" };
        let _ = writeln!(ptx, "  .param .u64 p{index}{comma}");
    }
    ptx.push_str(")\n{\n  .reg .b32 %thread, %block, %i, %flag;\n  .reg .b64 %base, %at;\n");
    let mut load = String::new();
    let mut names = Vec::new();
    let mut parameter = 0;
    for operand in &form.sources {
        match operand {
            Operand::Literal(text) => names.push(text.clone()),
            Operand::Register(ty, _) => {
                let register = format!("%a{parameter}");
                let _ = writeln!(ptx, "  .reg {} {register};", class(ty));
                let _ = writeln!(load, "  ld.param.u64 %base, [p{parameter}];");
                let _ = writeln!(
                    load,
                    "  mad.wide.u32 %at, %i, {}, %base;",
                    values::bytes(ty)
                );
                if ty == "pred" {
                    let _ = writeln!(
                        load,
                        "  ld.global.b32 %flag, [%at];\n  setp.ne.b32 {register}, %flag, 0;"
                    );
                } else {
                    let _ = writeln!(load, "  ld.global.{} {register}, [%at];", access(ty));
                }
                names.push(register);
                parameter += 1;
            }
        }
    }
    let mut store = String::new();
    let mut dests = Vec::new();
    for (index, dest) in form.dests.iter().enumerate() {
        let ty = dest.ty();
        let register = format!("%d{index}");
        let _ = writeln!(ptx, "  .reg {} {register};", class(ty));
        let _ = writeln!(store, "  ld.param.u64 %base, [p{parameter}];");
        let _ = writeln!(store, "  mad.wide.u32 %at, %i, {}, %base;", stored(ty));
        if ty == "pred" {
            let _ = writeln!(
                store,
                "  selp.b32 %flag, 1, 0, {register};\n  st.global.b32 [%at], %flag;"
            );
        } else {
            let _ = writeln!(store, "  st.global.b{} [%at], {register};", stored(ty) * 8);
        }
        dests.push(register);
        parameter += 1;
    }
    for declaration in form
        .declarations
        .split(';')
        .map(str::trim)
        .filter(|d| !d.is_empty())
    {
        let _ = writeln!(ptx, "  {};", declaration.replace('$', "%"));
    }
    ptx.push_str("  mov.u32 %thread, %tid.x;\n  mov.u32 %block, %ctaid.x;\n");
    let _ = writeln!(ptx, "  mad.lo.u32 %i, %block, {BLOCK}, %thread;");
    ptx.push_str(&load);
    match &form.body {
        Some(body) => {
            let _ = writeln!(ptx, "  {}", body.replace('$', "%"));
        }
        None => {
            let separator = if form.paired { "|" } else { ", " };
            let operands: Vec<String> = std::iter::once(dests.join(separator))
                .chain(names)
                .collect();
            let _ = writeln!(ptx, "  {} {};", form.title, operands.join(", "));
        }
    }
    ptx.push_str(&store);
    ptx.push_str("  ret;\n}\n");
    ptx
}

/// Register class of a type.
fn class(ty: &str) -> &'static str {
    match ty {
        "pred" => ".pred",
        "f32" => ".f32",
        "f64" => ".f64",
        "b64" | "u64" | "s64" => ".b64",
        "b8" | "u8" | "s8" | "b16" | "u16" | "s16" | "f16" | "bf16" | "e4m3x2" | "e5m2x2" => ".b16",
        _ => ".b32",
    }
}

/// Bytes that a result is stored in: the whole register, so that its extension is seen.
fn stored(ty: &str) -> usize {
    match class(ty) {
        ".b16" => 2,
        ".b64" | ".f64" => 8,
        _ => 4,
    }
}

/// Type of the load of an operand.
fn access(ty: &str) -> String {
    match ty {
        "u8" | "s8" => ty.to_owned(),
        _ => format!("b{}", values::bytes(ty) * 8),
    }
}

fn element(ty: &str) -> Element {
    match ty {
        "f16" => Element::F16,
        "f16x2" => Element::F16x2,
        "bf16" => Element::Bf16,
        "bf16x2" => Element::Bf16x2,
        "f32" => Element::F32,
        "f64" => Element::F64,
        _ => Element::Bits(stored(ty) as u8),
    }
}
