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
        let mut bank = recorded_bank(&typed, addresses, globals);
        let program = Program::load(&[&typed], memory, &mut |wanted| {
            let left = total.saturating_sub(addresses.mapped());
            if wanted.size > left {
                let size = wanted.size;
                return Err(format!(
                    "it has {size} bytes, {left} are left on this device"
                ));
            }
            let range = place(wanted, memory, addresses, globals, bank)?;
            if wanted.constant {
                bank.get_or_insert(range.start() & UPPER);
            }
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

/// The half of an address that all constants of a module have in common: kernels may keep the other one alone
/// ([`r3_emu`] completes it), as they can on a GPU, where constant memory is small.
const UPPER: u64 = !0xffff_ffff;

/// That half, where a constant of this module goes to the place that it had in the recorded process.
fn recorded_bank(
    typed: &typed::Module,
    addresses: &Addresses,
    globals: &[(&str, AddressRange)],
) -> Option<u64> {
    let constants = typed.variables.iter();
    let mut constants = constants.filter(|variable| variable.space == r3_ptx::isa::Space::Const);
    constants.find_map(|variable| {
        let place = (&*variable.name, variable.size, variable.align);
        Some(recorded(place, addresses, globals)?.start() & UPPER)
    })
}

/// Where a variable (its name, size and alignment) was in the recorded process, when nothing else is there.
fn recorded(
    (name, size, align): (&str, u64, u64),
    addresses: &Addresses,
    globals: &[(&str, AddressRange)],
) -> Option<AddressRange> {
    globals
        .iter()
        .filter(|(known, _)| *known == name)
        .map(|(_, range)| *range)
        .find(|range| {
            range.len() == size
                && range.start().is_multiple_of(align.max(1))
                && addresses.free(*range)
        })
}

/// Memory for a variable. A constant gets it in `bank`, when there is room.
fn place(
    wanted: &Placement<'_>,
    memory: &Memory,
    addresses: &mut Addresses,
    globals: &[(&str, AddressRange)],
    bank: Option<u64>,
) -> Result<AddressRange, String> {
    let range = match recorded((wanted.name, wanted.size, wanted.align), addresses, globals) {
        Some(range) => {
            addresses
                .reserve(range)
                .map_err(|error| error.to_string())?;
            range
        }
        None => {
            let len = wanted.size.max(1);
            // Constants of the recorded process lie at the lower end of a bank, with other memory of it around them.
            let near = bank
                .filter(|_| wanted.constant)
                .and_then(|bank| addresses.reserve_below(bank | !UPPER, bank, len, wanted.align));
            let start = match near {
                Some(start) => start,
                None => addresses
                    .reserve_aligned(len, wanted.align)
                    .map_err(|error| error.to_string())?,
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_that_were_not_recorded_lie_in_the_bank_of_those_that_were() {
        let ptx = ".version 8.5\n.target sm_90\n.address_size 64\n\
                   .const .align 4 .b8 before[16] = {1, 2};\n\
                   .const .align 4 .b8 known[16];\n\
                   .const .align 4 .b8 behind[16] = {3};\n\
                   .global .align 4 .b8 table[16] = {4};\n\
                   .visible .entry k() { ret; }\n";
        let at = AddressRange::new(0x7f64_0600_0100, 16).unwrap();
        let memory = Memory::new();
        let mut addresses = Addresses::default();
        let load = |addresses: &mut Addresses| {
            let module = Module::load(
                ptx.as_bytes(),
                90,
                (&memory, 1 << 30),
                addresses,
                &[("known", at)],
            );
            module.unwrap().program
        };
        let start = |program: &Program, name: &str| program.global(name).unwrap().0;
        let first = load(&mut addresses);
        assert_eq!(start(&first, "known"), at.start());
        for name in ["before", "behind"] {
            assert_eq!(start(&first, name) & UPPER, at.start() & UPPER, "{name}");
        }
        assert_ne!(start(&first, "table") & UPPER, at.start() & UPPER);
        // A second one finds that place taken: its constants have another bank, and share it too.
        let second = load(&mut addresses);
        assert_ne!(start(&second, "known"), at.start());
        for name in ["before", "behind"] {
            assert_eq!(
                start(&second, name) & UPPER,
                start(&second, "known") & UPPER,
                "{name}"
            );
        }
    }
}
