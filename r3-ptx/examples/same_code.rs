//! Compares two cubins: `same_code A.cubin B.cubin`.
//!
//! The same are code, constants, initial values, what the driver is told about kernels, and relocations of these.
//! Line tables and the copies of the PTX that debugging adds may differ.

use std::collections::BTreeMap;
use std::process::ExitCode;

use object::{Object, ObjectSection};

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = files.as_slice() else {
        eprintln!("usage: same_code A.cubin B.cubin");
        return ExitCode::FAILURE;
    };
    let (a, b) = match (sections(a), sections(b)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(why), _) | (_, Err(why)) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let names = a.keys().chain(b.keys());
    let mut different: Vec<&String> = names.filter(|name| a.get(*name) != b.get(*name)).collect();
    different.sort();
    different.dedup();
    for name in &different {
        println!("{name} differs");
    }
    if different.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Size and bytes of all sections of one name, by name.
type Sections = BTreeMap<String, Vec<(u64, Vec<u8>)>>;

/// Sections that make the code what it is: size and bytes of all of one name.
fn sections(file: &str) -> Result<Sections, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let elf = object::read::elf::ElfFile64::<object::Endianness>::parse(&*bytes)
        .map_err(|error| format!("{file}: {error}"))?;
    let mut found = Sections::new();
    for section in elf.sections() {
        let name = section.name().unwrap_or_default();
        let of = name
            .strip_prefix(".rela")
            .or_else(|| name.strip_prefix(".rel"));
        let of = of.unwrap_or(name);
        let compared = [".text", ".nv.", ".bss", ".data"];
        if of.contains("debug") || !compared.iter().any(|prefix| of.starts_with(prefix)) {
            continue;
        }
        let data = section.data().unwrap_or_default();
        let list = found.entry(name.to_string()).or_default();
        list.push((section.size(), data.to_vec()));
    }
    Ok(found)
}
