//! Whether a function of a text can be the captured kernel.

use r3_replay::evaluate::describe::KernelDescription;
use r3_replay::names::qualified;
use r3_source::region::{Regions, line_of};
use r3_source::syntax::{Function, Unit, base_name};

use super::ProgramError;

/// The kernel of a name with so many parameters, where there is one.
pub(super) fn function(unit: &Unit, name: &str, parameters: Option<usize>) -> Option<Function> {
    let plain = base_name(name);
    let functions = unit.functions();
    let named = || {
        functions
            .iter()
            .filter(|function| function.kernel && function.name == plain)
    };
    let fits =
        |function: &&Function| parameters.is_none_or(|count| function.parameters.len() == count);
    named().find(fits).or_else(|| named().next()).cloned()
}

/// Types whose size is known, without `const`, `unsigned` and the like.
const SIZES: &[(&str, u32)] = &[
    ("bool", 1),
    ("char", 1),
    ("int8_t", 1),
    ("uint8_t", 1),
    ("short", 2),
    ("int16_t", 2),
    ("uint16_t", 2),
    ("__half", 2),
    ("half", 2),
    ("__nv_bfloat16", 2),
    ("int", 4),
    ("float", 4),
    ("int32_t", 4),
    ("uint32_t", 4),
    ("long", 8),
    ("double", 8),
    ("int64_t", 8),
    ("uint64_t", 8),
    ("size_t", 8),
    ("float2", 8),
    ("int2", 8),
    ("uint2", 8),
    ("float3", 12),
    ("int3", 12),
    ("float4", 16),
    ("int4", 16),
    ("uint4", 16),
    ("double2", 16),
];

/// The size of a parameter, where its type alone tells it.
fn size(ty: &str) -> Option<u32> {
    if ty.contains('*') || ty.contains("[]") {
        return Some(8);
    }
    if ty.contains(['&', '<', '[', '(', '.']) {
        return None;
    }
    let all: Vec<&str> = ty
        .split_whitespace()
        .map(|word| word.trim_start_matches("std::"))
        .collect();
    let signs = ["signed", "unsigned"];
    let idle = ["const", "volatile", "__restrict__", "__grid_constant__"];
    let mut words: Vec<&str> = all
        .iter()
        .copied()
        .filter(|word| !idle.contains(word) && !signs.contains(word))
        .collect();
    // `long long`, `long int`.
    words.dedup();
    if let [_, "int"] = words.as_slice() {
        words.pop();
    }
    match words.as_slice() {
        [] => all.iter().any(|word| signs.contains(word)).then_some(4),
        [one] => SIZES
            .iter()
            .find(|(name, _)| name == one)
            .map(|(_, size)| *size),
        _ => None,
    }
}

/// Refuses a function that takes other parameters than the captured kernel. What its text does not tell is found out when
/// it is compiled.
pub(super) fn check(
    file: &str,
    function: &Function,
    kernel: &KernelDescription,
) -> Result<(), ProgramError> {
    let captured = &kernel.params;
    let open = function.parameters.iter().any(|one| one.ty.contains("..."));
    if captured.is_empty() || open {
        return Ok(());
    }
    let own: Vec<Option<u32>> = function
        .parameters
        .iter()
        .map(|one| size(&one.ty))
        .collect();
    let differs = |(own, captured): (&Option<u32>, u32)| own.is_some_and(|own| own != captured);
    let sizes = captured.iter().map(|one| one.size);
    if own.len() == captured.len() && !own.iter().zip(sizes).any(differs) {
        return Ok(());
    }
    let mut rows = vec![format!(
        "{:>9}  {:<40}  {}",
        "parameter", "in the text", "captured"
    )];
    for index in 0..own.len().max(captured.len()) {
        let here = match (function.parameters.get(index), own.get(index)) {
            (Some(one), Some(Some(size))) => format!("{} {} ({size} bytes)", one.ty, one.name),
            (Some(one), _) => format!("{} {}", one.ty, one.name),
            _ => "none".to_owned(),
        };
        let there = match captured.get(index) {
            Some(one) if one.pointer => format!("{} bytes at {}, a pointer", one.size, one.offset),
            Some(one) => format!("{} bytes at {}", one.size, one.offset),
            None => "none".to_owned(),
        };
        rows.push(format!("{index:>9}  {here:<40}  {there}"));
    }
    Err(ProgramError::Parameters {
        file: file.to_owned(),
        function: function.name.clone(),
        kernel: kernel.readable.clone(),
        layouts: rows.join("\n"),
    })
}

/// How C++ names the instance of a template that a readable name is of; `None` where it is none, or cannot be named.
pub(super) fn instance(readable: &str) -> Option<String> {
    let name = qualified(readable);
    if !name.ends_with('>') || name.contains('{') {
        return None;
    }
    Some(name.replace("(anonymous namespace)::", ""))
}

/// Which lines of the file a region is, for people.
pub(super) fn lines(file: &str, regions: &Regions, marked: &str) -> String {
    let mut at = 0;
    let texts = regions.texts(marked).map(|text| {
        let text = text.trim_end();
        let found = file.get(at..).and_then(|rest| rest.find(text));
        let start = found.map_or(at, |found| at + found);
        at = start + text.len();
        let (first, last) = (line_of(file, start), line_of(file, at));
        match first == last {
            true => format!("line {first}"),
            false => format!("lines {first} to {last}"),
        }
    });
    texts.collect::<Vec<_>>().join(", ")
}
