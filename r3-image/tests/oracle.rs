//! What is read from real images, against what `cuobjdump` says of them.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;

use common::{fixture, image, images};
use r3_image::{CodeForm, Image, KernelInfo};

/// One line of an oracle file: what `cuobjdump` prints, in a fixed form.
fn oracle(name: &str) -> BTreeSet<String> {
    let text = String::from_utf8(fixture(&format!("{name}.expected"))).unwrap();
    let mut facts = BTreeSet::new();
    let mut function = "";
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Function", name] => function = name.trim_end_matches(':'),
            [reg, stack, shared, ..] if reg.starts_with("REG:") => {
                facts.insert(format!("{function} {reg} {stack} {shared}"));
            }
            ["EXTERNS", kernel, names @ ..] => {
                let mut names = names.to_vec();
                names.sort();
                facts.insert(format!("EXTERNS {kernel} {}", names.join(" ")));
            }
            ["PARAM" | "ELF" | "PTX", ..] => {
                facts.insert(line.to_owned());
            }
            _ => {}
        }
    }
    facts
}

#[test]
fn cuobjdump_says_the_same_of_kernels_and_entries() {
    for name in images(&[".cubin", ".fatbin"]) {
        let image = image(&name);
        let mut found = BTreeSet::new();
        let mut kernels = BTreeSet::new();
        for entry in image.entries() {
            let payload = entry.payload().unwrap();
            let suffix = entry.arch_suffix.map(String::from).unwrap_or_default();
            match entry.form {
                CodeForm::Ptx => _ = found.insert(format!("PTX sm_{}{suffix}", entry.sm)),
                CodeForm::Cubin => _ = found.insert(format!("ELF sm_{}{suffix}", entry.sm)),
                // cuobjdump lists none.
                _ => continue,
            }
            let part = Image::parse(&payload);
            for kernel in part
                .kernel_names()
                .iter()
                .map(|name| part.kernel(name).unwrap())
            {
                if kernel.from == CodeForm::Cubin {
                    facts_of(&kernel, entry.sm, &oracle(&name), &mut found);
                }
                kernels.insert(kernel.name);
            }
        }
        // Functions that are no kernels, and the two names that it has for one family of GPUs.
        let oracle: BTreeSet<_> = oracle(&name)
            .into_iter()
            .filter(|fact| {
                let mut words = fact.split(' ');
                let first = words.next().unwrap();
                let subject = if matches!(first, "PARAM" | "EXTERNS") {
                    words.next()
                } else {
                    Some(first)
                };
                matches!(first, "ELF" | "PTX") || kernels.contains(subject.unwrap())
            })
            .map(|fact| {
                if fact == "ELF sm_100" && name.starts_with("suffixes") {
                    "ELF sm_100f".into()
                } else {
                    fact
                }
            })
            .collect();
        assert_eq!(found, oracle, "{name}");
    }
}

/// The facts of a kernel as `cuobjdump` writes them.
fn facts_of(kernel: &KernelInfo, sm: u32, oracle: &BTreeSet<String>, facts: &mut BTreeSet<String>) {
    let name = &kernel.name;
    let registers = kernel.registers.unwrap();
    let stack = kernel.local_bytes.unwrap();
    let shared = kernel.static_shared.unwrap();
    // It counts the KiB that the system reserves from sm_90 on, in modules that use shared memory.
    let with_reserved = format!(
        "{name} REG:{registers} STACK:{stack} SHARED:{}",
        shared + 1024
    );
    if sm >= 90 && (shared > 0 || oracle.contains(&with_reserved)) {
        facts.insert(with_reserved);
    } else {
        facts.insert(format!(
            "{name} REG:{registers} STACK:{stack} SHARED:{shared}"
        ));
    }
    for (ordinal, param) in kernel.params.iter().enumerate() {
        facts.insert(format!(
            "PARAM {name} {ordinal:#x} {:#x} {:#x}",
            param.offset, param.size
        ));
    }
    if !kernel.externs.is_empty() {
        facts.insert(format!("EXTERNS {name} {}", kernel.externs.join(" ")));
    }
}
