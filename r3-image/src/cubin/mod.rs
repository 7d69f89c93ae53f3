//! Cubins: kernels and variables of an ELF file for one architecture.
//!
//! Sections and symbols are read through [`object`]; what they mean is said by their names
//! (`.text.<kernel>`, `.nv.shared.<kernel>`) and by the attributes in `.nv.info`.

mod info;
mod symbols;

use std::collections::BTreeMap;

use object::LittleEndian as LE;
use object::elf::{EM_CUDA, FileHeader64, SHT_SYMTAB};
use object::read::elf::{FileHeader, SectionHeader};

use crate::bytes::{u16_at, u32_at};
use crate::entry::{CodeForm, Contents};
use crate::kernel::{KernelInfo, Param, params_len, threads};
use crate::problem::{ProblemKind, Problems};
use info::{ParamRecord, Record, Records, Stop, Value, attribute};
use symbols::{Names, Sections, Symbols};

type Elf = FileHeader64<LE>;

/// Register count that stands for no cap.
const NO_MAXREG: u32 = 255;

/// A 64-bit little-endian ELF file for NVIDIA GPUs.
pub(crate) fn is_cubin(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01") && u16_at(bytes, 18) == Some(EM_CUDA.0)
}

/// Architecture and suffix, from the ELF flags.
///
/// Their layout changed with ABI version 8 (CUDA 13, and CUDA 12.9 for `sm_100` and up): the
/// architecture moved from the lowest byte to the second. Up to 12.9 a flag says that the code is
/// for this architecture only; CUDA 13 says so in the section `.nv.compat`.
pub(crate) fn architecture(bytes: &[u8]) -> (u32, Option<char>) {
    const ABI_8: u8 = 8;
    const ACCELERATED: u32 = 0x800;
    const ACCELERATED_ABI_8: u32 = 0x8;
    let flags = u32_at(bytes, 48).unwrap_or(0);
    let abi = bytes.get(8).copied().unwrap_or(0);
    let (sm, accelerated) = if abi < ABI_8 {
        (flags & 0xFF, flags & ACCELERATED != 0)
    } else {
        let flagged = flags & ACCELERATED_ABI_8 != 0;
        (
            (flags >> 8) & 0xFF,
            flagged || compat_accelerated(bytes).unwrap_or(false),
        )
    };
    (sm, accelerated.then_some('a'))
}

/// Whether `.nv.compat` says that the code is for one architecture only.
fn compat_accelerated(bytes: &[u8]) -> Option<bool> {
    const ACCELERATOR_TARGET: u8 = 0x09;
    let header = Elf::parse(bytes).ok()?;
    let sections = header.sections(LE, bytes).ok()?;
    let names = Names::of_sections(header, &sections, bytes);
    let section = sections
        .iter()
        .find(|s| names.get(s.sh_name(LE)) == Some(b".nv.compat"))?;
    let record = Records(section.data(LE, bytes).ok()?)
        .map_while(Result::ok)
        .find(|record| record.attribute == ACCELERATOR_TARGET)?;
    Some(record.value == Value::Number(1))
}

/// Reads kernels and variables.
pub(crate) fn read(bytes: &[u8]) -> Contents {
    let mut problems = Problems::default();
    let mut contents = Contents::default();
    if let Err(error) = read_elf(bytes, &mut contents, &mut problems) {
        problems.add("file", ProblemKind::Elf(error.to_string()));
    }
    contents.kernels.sort_by(|a, b| a.name.cmp(&b.name));
    contents.kernels.dedup_by(|a, b| a.name == b.name);
    contents.problems = problems.into_vec();
    contents
}

fn read_elf(bytes: &[u8], contents: &mut Contents, problems: &mut Problems) -> object::Result<()> {
    let header = Elf::parse(bytes)?;
    let sections = header.sections(LE, bytes)?;
    let names = Names::of_sections(header, &sections, bytes);
    let table = sections.symbols(LE, bytes, SHT_SYMTAB)?;
    let symbols = Symbols::new(table, &sections, bytes);
    let (sm, _) = architecture(bytes);

    let mut found = find(&sections, names, bytes, problems);
    let of_functions = FunctionNumbers::read(found.module_info, problems);
    for (index, name) in symbols.kernels() {
        let text = String::from_utf8_lossy(name).into_owned();
        let mut kernel = KernelInfo::named(text, CodeForm::Cubin);
        let part = found.functions.remove(name).unwrap_or_default();
        let stack = of_functions.stack.get(&index).copied().unwrap_or(0);
        kernel.registers = of_functions
            .registers
            .get(&index)
            .copied()
            .or(part.registers);
        kernel.local_bytes = Some(stack.max(part.local));
        kernel.static_shared = Some(static_shared(part.shared, sm));
        kernel.const_bytes = Some(found.constants);
        let place = format!(".nv.info.{}", kernel.name);
        if let Some(info) = part.info {
            fill(&mut kernel, &place, info, &symbols, problems);
        } else {
            let what = "section of a kernel's attributes";
            problems.add(place, ProblemKind::Missing { what });
        }
        contents.kernels.push(kernel);
    }
    contents.variables = symbols.variables(&sections, names, bytes);
    if symbols.exhausted() {
        problems.add("symbols", ProblemKind::Limit("too many bytes of names"));
    }
    Ok(())
}

/// What sections say of a module.
#[derive(Default)]
struct Found<'a> {
    module_info: Option<&'a [u8]>,
    constants: u32,
    functions: BTreeMap<&'a [u8], Parts<'a>>,
}

/// What sections say of one function.
#[derive(Default)]
struct Parts<'a> {
    shared: u32,
    local: u32,
    registers: Option<u32>,
    info: Option<&'a [u8]>,
}

fn find<'a>(
    sections: &Sections<'a>,
    names: Names<'a>,
    bytes: &'a [u8],
    problems: &mut Problems,
) -> Found<'a> {
    let mut found = Found::default();
    // Sections may overlap in a hostile file: bound the work by what an honest one needs.
    let mut budget = bytes.len();
    for (index, section) in sections.iter().enumerate() {
        let Some(name) = names.get(section.sh_name(LE)) else {
            let value = section.sh_name(LE).into();
            let kind = ProblemKind::BadValue {
                what: "name of a section",
                value,
            };
            problems.add(format_args!("section {index}"), kind);
            continue;
        };
        let place = || format!("section {}", String::from_utf8_lossy(name));
        let size = u32::try_from(section.sh_size(LE)).unwrap_or(u32::MAX);
        let mut data = || {
            let Ok(data) = section.data(LE, bytes) else {
                let needed = section.sh_size(LE);
                let offset = section.sh_offset(LE);
                let present = (bytes.len() as u64).saturating_sub(offset);
                problems.add(
                    place(),
                    ProblemKind::Truncated {
                        what: "section",
                        needed,
                        present,
                    },
                );
                return None;
            };
            let left = budget.checked_sub(data.len());
            if left.is_none() {
                problems.add(place(), ProblemKind::Limit("sections overlap"));
            }
            budget = left?;
            Some(data)
        };
        if name == b".nv.info" {
            found.module_info = data();
        } else if name == b".nv.constant3" {
            found.constants = size;
        } else if let Some(function) = name.strip_prefix(b".nv.info.") {
            found.functions.entry(function).or_default().info = data();
        } else if let Some(function) = name.strip_prefix(b".text.") {
            // CUDA 11 has the register count in the upper byte; later it is zero there.
            let count = section.sh_info(LE) >> 24;
            found.functions.entry(function).or_default().registers = (count != 0).then_some(count);
        } else if let Some(function) = name.strip_prefix(b".nv.shared.") {
            found.functions.entry(function).or_default().shared = size;
        } else if let Some(function) = name.strip_prefix(b".nv.local.") {
            found.functions.entry(function).or_default().local = size;
        }
    }
    found
}

/// Static shared memory from the size of a section. From `sm_90` on, the section of a kernel that
/// uses any shared memory begins with the KiB that the system reserves in each block.
fn static_shared(section: u32, sm: u32) -> u32 {
    const RESERVED: u32 = 1024;
    if sm >= 90 {
        section.saturating_sub(RESERVED)
    } else {
        section
    }
}

/// Numbers that `.nv.info` gives by a function's symbol.
#[derive(Default)]
struct FunctionNumbers {
    registers: BTreeMap<u32, u32>,
    stack: BTreeMap<u32, u32>,
}

impl FunctionNumbers {
    fn read(module_info: Option<&[u8]>, problems: &mut Problems) -> FunctionNumbers {
        let mut numbers = FunctionNumbers::default();
        let (records, _) = records(".nv.info", module_info.unwrap_or_default(), problems);
        for record in records {
            let Value::Bytes(bytes) = record.value else {
                continue;
            };
            let Some((symbol, number)) = info::symbol_and_number(bytes) else {
                continue;
            };
            match record.attribute {
                attribute::REGCOUNT => _ = numbers.registers.insert(symbol, number),
                // The frame of the function, and the stack that it needs with its callees.
                attribute::FRAME_SIZE | attribute::MIN_STACK_SIZE => {
                    let stack = numbers.stack.entry(symbol).or_default();
                    *stack = number.max(*stack);
                }
                _ => {}
            }
        }
        numbers
    }
}

/// The records of a section, and whether these are all; what cuts them off is a problem.
fn records<'a>(place: &str, section: &'a [u8], problems: &mut Problems) -> (Vec<Record<'a>>, bool) {
    let mut records = Vec::new();
    let mut complete = true;
    for record in Records(section) {
        let kind = match record {
            Ok(record) => {
                records.push(record);
                if record.attribute <= attribute::LAST_KNOWN {
                    continue;
                }
                let value = record.attribute.into();
                ProblemKind::Unknown {
                    what: "attribute",
                    value,
                }
            }
            Err(stop) => {
                complete = false;
                match stop {
                    Stop::UnknownFormat(format) => {
                        let value = format.into();
                        ProblemKind::Unknown {
                            what: "format of an attribute",
                            value,
                        }
                    }
                    Stop::Truncated { needed, present } => {
                        let (needed, present) = (needed as u64, present as u64);
                        ProblemKind::Truncated {
                            what: "attribute",
                            needed,
                            present,
                        }
                    }
                }
            }
        };
        problems.add(place, kind);
    }
    (records, complete)
}

fn fill(
    kernel: &mut KernelInfo,
    place: &str,
    info: &[u8],
    symbols: &Symbols<'_>,
    problems: &mut Problems,
) {
    let (records, complete) = records(place, info, problems);
    let mut params = BTreeMap::new();
    let mut declared_len = None;
    for Record { attribute, value } in records {
        match (attribute, value) {
            (attribute::KPARAM_INFO, Value::Bytes(bytes)) => {
                params.extend(info::param_v1(bytes).map(|p| (p.ordinal, p)));
            }
            (attribute::KPARAM_INFO_V2, Value::Bytes(bytes)) => {
                params.extend(info::param_v2(bytes).map(|p| (p.ordinal, p)));
            }
            (attribute::CBANK_PARAM_SIZE, Value::Number(len)) => declared_len = Some(len.into()),
            (attribute::EXTERNS, Value::Bytes(bytes)) => {
                let indices = bytes.chunks_exact(4).filter_map(|index| u32_at(index, 0));
                kernel
                    .externs
                    .extend(indices.filter_map(|index| symbols.name(index)));
            }
            (attribute::MAX_THREADS, Value::Bytes(bytes)) => kernel.max_block = info::dims(bytes),
            (attribute::REQNTID, Value::Bytes(bytes)) => kernel.required_block = info::dims(bytes),
            (attribute::MAXREG_COUNT, Value::Number(count)) => {
                kernel.max_registers = Some(count.into()).filter(|&count| count < NO_MAXREG);
            }
            (attribute::CTA_PER_CLUSTER, Value::Bytes(bytes)) => {
                kernel.cluster_dims = info::dims(bytes);
            }
            (attribute::EXPLICIT_CLUSTER, _) => kernel.explicit_cluster = true,
            (attribute::MAX_CLUSTER_RANK, Value::Bytes(bytes)) => {
                kernel.max_cluster_rank = u32_at(bytes, 0);
            }
            _ => {}
        }
    }
    let params = layout(params, declared_len).map_err(|kind| problems.add(place, kind));
    kernel.params_known = complete && params.is_ok();
    kernel.params = params.unwrap_or_default();
    kernel.externs.sort_unstable();
    kernel.externs.dedup();
    kernel.max_threads = kernel.required_block.or(kernel.max_block).map(threads);
}

/// The layout, when the parameters are complete and end where the total says.
fn layout(
    params: BTreeMap<u16, ParamRecord>,
    declared_len: Option<u32>,
) -> Result<Vec<Param>, ProblemKind> {
    if params
        .keys()
        .enumerate()
        .any(|(index, &ordinal)| index != usize::from(ordinal))
    {
        let value = params.len() as u64;
        return Err(ProblemKind::BadValue {
            what: "number of parameters",
            value,
        });
    }
    let params = params.into_values();
    let params = params.map(|p| Param {
        offset: p.offset.into(),
        size: p.size.into(),
    });
    let params: Vec<_> = params.collect();
    match declared_len {
        Some(len) if len != params_len(&params) => {
            let value = len.into();
            Err(ProblemKind::BadValue {
                what: "length of all parameters",
                value,
            })
        }
        _ => Ok(params),
    }
}
