//! What kernels use: from a cubin, and from what its assembler said.

use std::collections::BTreeMap;

use object::LittleEndian as LE;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use r3_image::Image;

use crate::recipe::Resources;

/// All kernels of a cubin, by name.
pub(super) fn read(cubin: &[u8], log: &str) -> Vec<Resources> {
    let image = Image::parse(cubin);
    let sizes = code_sizes(cubin);
    let mut spills = spills(log);
    image
        .kernel_names()
        .into_iter()
        .filter_map(|name| {
            let kernel = image.kernel(&name)?;
            Some(Resources {
                registers: kernel.registers.unwrap_or(0),
                spills: spills.remove(&name),
                local: kernel.local_bytes.unwrap_or(0),
                shared: kernel.static_shared.unwrap_or(0),
                mix: None,
                code_bytes: sizes.get(&name).copied().unwrap_or(0),
                kernel: name,
            })
        })
        .collect()
}

/// Bytes of each function's machine code.
fn code_sizes(cubin: &[u8]) -> BTreeMap<String, u64> {
    let read = || -> object::Result<BTreeMap<String, u64>> {
        let header = FileHeader64::<LE>::parse(cubin)?;
        let sections = header.sections(LE, cubin)?;
        Ok(sections
            .iter()
            .filter_map(|section| {
                let name = sections.section_name(LE, section).ok()?;
                let function = name.strip_prefix(b".text.")?;
                let function = String::from_utf8_lossy(function).into_owned();
                Some((function, section.sh_size(LE)))
            })
            .collect())
    };
    read().unwrap_or_default()
}

/// Bytes of spill stores and loads of each function, of a log with `-v`:
///
/// ```text
/// ptxas info    : Function properties for kernel
///     128 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
/// ```
fn spills(log: &str) -> BTreeMap<String, (u32, u32)> {
    let mut found = BTreeMap::new();
    let mut function = None;
    for line in log.lines() {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            function = Some(name.trim().trim_end_matches(':').trim_matches('\''));
        } else if let Some(name) = function
            && let (Some(stores), Some(loads)) = (
                number_before(line, " bytes spill stores"),
                number_before(line, " bytes spill loads"),
            )
        {
            found.insert(name.to_owned(), (stores, loads));
            function = None;
        }
    }
    found
}

fn number_before(line: &str, words: &str) -> Option<u32> {
    let (before, _) = line.split_once(words)?;
    before.rsplit([' ', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_are_read_from_both_assemblers() {
        let ptxas = "ptxas info    : Compiling entry function 'k' for 'sm_90'\n\
            ptxas info    : Function properties for k\n\
            \x20   128 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads\n\
            ptxas info    : Used 10 registers, used 0 barriers\n\
            ptxas info    : Function properties for helper\n\
            \x20   0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
        let linked = ptxas.replace("\n    ", "\nptxas         .     ");
        let expected = BTreeMap::from([("k".into(), (8, 16)), ("helper".into(), (0, 0))]);
        assert_eq!(spills(ptxas), expected);
        assert_eq!(spills(&linked), expected);
    }

    #[test]
    fn what_is_no_cubin_has_no_kernels() {
        assert_eq!(read(b"\x7fELF", ""), []);
        assert_eq!(read(b"", "Function properties for k\n1 bytes"), []);
    }
}
