//! Cubins: kernels and variables of an ELF file for one architecture.
//!
//! Sections and symbols are read through [`object`]; what they mean is said by their names
//! (`.text.<kernel>`, `.nv.shared.<kernel>`) and by the attributes in `.nv.info`.

mod info;
mod symbols;

use std::collections::BTreeMap;

use object::LittleEndian as LE;
use object::elf::{EM_CUDA, FileHeader64, SHT_NOBITS, SHT_SYMTAB};
use object::read::elf::{FileHeader, SectionHeader};

use crate::bytes::{u16_at, u32_at};
use crate::image::{CodeForm, Contents};
use crate::kernel::{KernelInfo, Param};
use crate::problem::{ProblemKind, Problems};
use info::{Record, Records, Stop, Value, attribute};
use symbols::Symbols;

type Elf = FileHeader64<LE>;

/// A 64-bit little-endian ELF file for NVIDIA GPUs.
pub(crate) fn is_cubin(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01") && u16_at(bytes, 18) == Some(EM_CUDA.0)
}

/// Architecture and suffix.
///
/// The ELF flags changed their layout with ABI version 8 (CUDA 13): the architecture moved from
/// the lowest byte to the second.
pub(crate) fn architecture(bytes: &[u8]) -> (u32, Option<char>) {
    let flags = u32_at(bytes, 48).unwrap_or(0);
    let abi = bytes.get(8).copied().unwrap_or(0);
    if abi >= 8 {
        ((flags >> 8) & 0xFF, None)
    } else {
        (flags & 0xFF, None)
    }
}

/// What is known of one function while sections are walked.
#[derive(Default)]
struct Parts<'a> {
    text: bool,
    shared: Option<u64>,
    registers: Option<u32>,
    info: Option<&'a [u8]>,
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
    let table = sections.symbols(LE, bytes, SHT_SYMTAB)?;
    let symbols = Symbols::new(&table, bytes.len());

    let mut parts: BTreeMap<&[u8], Parts<'_>> = BTreeMap::new();
    let mut module_info = None;
    let mut constants = None;
    // Sections may overlap in a hostile file: bound the work by what an honest one needs.
    let mut budget = bytes.len();
    for section in sections.iter() {
        let Ok(name) = sections.section_name(LE, section) else {
            continue;
        };
        let size = section.sh_size(LE);
        let mut data = || {
            if section.sh_type(LE) == SHT_NOBITS {
                return None;
            }
            let data = section.data(LE, bytes).ok()?;
            budget = budget.checked_sub(data.len())?;
            Some(data)
        };
        if name == b".nv.info" {
            module_info = data();
        } else if let Some(kernel) = name.strip_prefix(b".nv.info.") {
            parts.entry(kernel).or_default().info = data();
        } else if let Some(kernel) = name.strip_prefix(b".text.") {
            let part = parts.entry(kernel).or_default();
            part.text = true;
            part.registers = Some(section.sh_info(LE) >> 24).filter(|&count| count != 0);
        } else if let Some(kernel) = name.strip_prefix(b".nv.shared.") {
            parts.entry(kernel).or_default().shared = Some(size);
        } else if name == b".nv.constant3" {
            constants = u32::try_from(size).ok();
        }
    }

    let mut registers = BTreeMap::new();
    let mut frames: BTreeMap<u32, u32> = BTreeMap::new();
    for record in records(".nv.info", module_info, problems) {
        if let Value::Bytes(bytes) = record.value
            && let Some((symbol, number)) = info::symbol_and_number(bytes)
        {
            match record.attribute {
                attribute::REGCOUNT => _ = registers.insert(symbol, number),
                attribute::FRAME_SIZE | attribute::MIN_STACK_SIZE => {
                    let frame = frames.entry(symbol).or_default();
                    *frame = number.max(*frame);
                }
                _ => {}
            }
        }
    }

    for (index, name) in symbols.kernels() {
        let text = String::from_utf8_lossy(name).into_owned();
        let mut kernel = KernelInfo::named(text, CodeForm::Cubin);
        let part = parts.remove(name).unwrap_or_default();
        kernel.registers = registers.get(&index).copied().or(part.registers);
        kernel.local_bytes = Some(frames.get(&index).copied().unwrap_or(0));
        kernel.static_shared = Some(part.shared.and_then(|s| u32::try_from(s).ok()).unwrap_or(0));
        kernel.const_bytes = Some(constants.unwrap_or(0));
        let place = format!(".nv.info.{}", kernel.name);
        fill(&mut kernel, records(&place, part.info, problems), &symbols);
        contents.kernels.push(kernel);
    }
    contents.variables = symbols::variables(&table, &sections);
    Ok(())
}

/// All records of a section; what cuts them off is a problem.
fn records<'a>(place: &str, section: Option<&'a [u8]>, problems: &mut Problems) -> Vec<Record<'a>> {
    let mut records = Vec::new();
    for record in Records(section.unwrap_or_default()) {
        match record {
            Ok(record) => {
                if record.attribute > attribute::LAST_KNOWN {
                    let value = record.attribute.into();
                    problems.add(
                        place,
                        ProblemKind::Unknown {
                            what: "attribute",
                            value,
                        },
                    );
                }
                records.push(record);
            }
            Err(Stop::UnknownFormat(format)) => {
                let kind = ProblemKind::Unknown {
                    what: "format of an attribute",
                    value: format.into(),
                };
                problems.add(place, kind);
            }
            Err(Stop::Truncated { needed, present }) => {
                let (needed, present) = (needed as u64, present as u64);
                problems.add(
                    place,
                    ProblemKind::Truncated {
                        what: "attribute",
                        needed,
                        present,
                    },
                );
            }
        }
    }
    records
}

fn fill(kernel: &mut KernelInfo, records: Vec<Record<'_>>, symbols: &Symbols<'_>) {
    let mut params = BTreeMap::new();
    for Record { attribute, value } in records {
        match (attribute, value) {
            (attribute::KPARAM_INFO, Value::Bytes(bytes)) => {
                params.extend(info::param_v1(bytes).map(|p| (p.ordinal, p)));
            }
            (attribute::KPARAM_INFO_V2, Value::Bytes(bytes)) => {
                params.extend(info::param_v2(bytes).map(|p| (p.ordinal, p)));
            }
            (attribute::EXTERNS, Value::Bytes(bytes)) => {
                let indices = bytes.chunks_exact(4).filter_map(|index| u32_at(index, 0));
                kernel
                    .externs
                    .extend(indices.filter_map(|index| symbols.name(index)));
            }
            (attribute::MAX_THREADS, Value::Bytes(bytes)) => kernel.max_block = info::dims(bytes),
            (attribute::REQNTID, Value::Bytes(bytes)) => kernel.required_block = info::dims(bytes),
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
    kernel.params = params
        .into_values()
        .map(|p| Param {
            offset: p.offset.into(),
            size: p.size.into(),
        })
        .collect();
    kernel.externs.sort_unstable();
    kernel.externs.dedup();
    kernel.max_threads = kernel
        .required_block
        .or(kernel.max_block)
        .map(crate::ptx::threads);
}
