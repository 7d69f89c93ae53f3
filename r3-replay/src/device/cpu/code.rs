//! From an image to a program: its PTX, read, checked, linked, with its variables in place.

use r3_emu::{LoadError, Memory, Placement, Program};
use r3_image::{CodeForm, Entry, Image};
use r3_ptx::typed;

use super::addresses::Addresses;
use crate::code::spell_forms;
use crate::device::{AddressRange, DeviceError};
use crate::names::printable;

/// Loaded code.
#[derive(Debug)]
pub struct Module {
    /// The program.
    pub program: Program,
    /// What it was made from.
    pub typed: typed::Module,
    /// Version of its PTX.
    pub version: (u16, u16),
    /// Memory of its variables.
    pub variables: Vec<AddressRange>,
}

/// Most errors in the text that are told.
const ERRORS_TOLD: usize = 3;

impl Module {
    /// Loads the PTX of an image that a GPU of architecture `sm` would compile. Variables go where `globals` says
    /// that they were, when nothing else is there. The device has `total` bytes of memory.
    pub fn load(
        image: &[u8],
        sm: u32,
        (memory, total): (&Memory, u64),
        addresses: &mut Addresses,
        globals: &[(&str, AddressRange)],
    ) -> Result<Self, DeviceError> {
        let typed = read(&text(&Image::parse(image), sm)?)?;
        let mut variables = Vec::new();
        let program = Program::load(&[&typed], memory, &mut |wanted| {
            let left = total.saturating_sub(addresses.mapped());
            if wanted.size > left {
                let size = wanted.size;
                return Err(format!(
                    "it has {size} bytes, {left} are left on this device"
                ));
            }
            let range = place(wanted, memory, addresses, globals)?;
            variables.push(range);
            Ok(range.start())
        });
        match program {
            Ok(program) => Ok(Self {
                program,
                version: typed.version,
                typed,
                variables,
            }),
            Err(error) => {
                for range in variables {
                    addresses.release(range)?;
                    addresses.count(-(range.len() as i64));
                    // The error of the load is the one to tell.
                    let _ = memory.unmap(range.start(), range.len());
                }
                Err(match error {
                    LoadError::Unsupported { .. } => DeviceError::CannotRun(error.to_string()),
                    error => DeviceError::Code(error.to_string()),
                })
            }
        }
    }
}

/// The PTX text of an image: that of the highest architecture up to `sm`, else that of any.
fn text(image: &Image, sm: u32) -> Result<String, DeviceError> {
    let mut entries: Vec<&Entry> = image
        .entries()
        .iter()
        .filter(|entry| entry.form == CodeForm::Ptx)
        .collect();
    entries.sort_by_key(|entry| (entry.runs_on(sm), entry.sm, entry.arch_suffix));
    let Some(entry) = entries.last() else {
        return Err(DeviceError::CannotRun(format!(
            "the CPU device runs PTX, and this image has none: it has {}",
            spell_forms(&image.code_forms())
        )));
    };
    let bytes = entry
        .payload()
        .map_err(|error| DeviceError::Code(format!("the PTX cannot be unpacked: {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read(text: &str) -> Result<typed::Module, DeviceError> {
    let told = |mut errors: r3_ptx::Errors| {
        let more = errors.list.len().saturating_sub(ERRORS_TOLD);
        errors.list.truncate(ERRORS_TOLD);
        let mut message = format!("the PTX cannot be read: {}", errors.render(text).trim_end());
        if more > 0 {
            message.push_str(&format!("\nand {more} more errors"));
        }
        let lines: Vec<String> = message.lines().map(printable).collect();
        DeviceError::Code(lines.join("\n"))
    };
    r3_ptx::parse(text)
        .and_then(|tree| r3_ptx::check(&tree))
        .map_err(told)
}

/// Memory for a variable.
fn place(
    wanted: &Placement<'_>,
    memory: &Memory,
    addresses: &mut Addresses,
    globals: &[(&str, AddressRange)],
) -> Result<AddressRange, String> {
    let recorded = globals
        .iter()
        .filter(|(name, _)| *name == wanted.name)
        .map(|(_, range)| *range)
        .find(|range| {
            range.len() == wanted.size
                && range.start().is_multiple_of(wanted.align.max(1))
                && addresses.free(*range)
        });
    let range = match recorded {
        Some(range) => {
            addresses
                .reserve(range)
                .map_err(|error| error.to_string())?;
            range
        }
        None => {
            let len = wanted.size.max(1);
            let start = addresses
                .reserve_aligned(len, wanted.align)
                .map_err(|error| error.to_string())?;
            AddressRange::new(start, len).ok_or("too large")?
        }
    };
    if let Err(error) = memory.map(range.start(), range.len()) {
        let _ = addresses.release(range);
        return Err(error.to_string());
    }
    addresses.count(range.len() as i64);
    Ok(range)
}
