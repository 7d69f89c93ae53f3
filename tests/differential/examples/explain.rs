//! Registers in which random programs differ from a record with all bytes, and the programs.
//!
//! `explain RECORD SEED…`

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use r3_differential::case::Case;
use r3_differential::record::{self, Entry};
use r3_differential::{cases, device};
use r3_replay::device::cpu::{CpuDevice, CpuOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("explain RECORD SEED…")?;
    let (_, entries) = record::read(Path::new(&path))?;
    for seed in arguments {
        let cases = cases::all(&["random/".into()], seed.parse()?);
        let name = format!("random/{seed}");
        let case = cases.iter().find(|case| case.name == name);
        let entry = entries.iter().find(|entry| entry.name == name);
        explain(
            case.ok_or("there is no such program")?,
            entry.ok_or("it is not recorded")?,
        )?;
    }
    Ok(())
}

fn explain(case: &Case, entry: &Entry) -> Result<(), Box<dyn Error>> {
    let mut on = CpuDevice::new(CpuOptions::default(), Box::new(|_| ()));
    let ours = device::run(&mut on, case)?.remove(0);
    let theirs = entry.results.first().and_then(|result| result.bytes());
    let theirs = theirs.ok_or("the record has not all bytes")?;
    let (body, stores) = case
        .ptx
        .split_once("CLEARED:\n")
        .and_then(|(_, rest)| rest.rsplit_once("bar.sync 0;\n"))
        .ok_or("not a random program")?;
    let threads = case.block[0] as usize;
    let mixed = case.buffers.iter().find_map(|b| b.result.as_ref());
    let mixed = mixed.and_then(|result| result.mixed.as_ref());
    let stride = mixed.ok_or("not a random program")?.stride as usize;
    println!("{}: {threads} threads", case.name);
    for (offset, register) in registers(stores) {
        let bytes = if register.starts_with("%l") || register.starts_with("%d") {
            8
        } else {
            4
        };
        let value = |thread: usize, data: &[u8]| -> String {
            let at = thread * stride + offset;
            let bytes = data.get(at..at + bytes).unwrap_or_default();
            bytes.iter().rev().map(|b| format!("{b:02x}")).collect()
        };
        let different: Vec<String> = (0..threads)
            .filter(|&thread| value(thread, &ours) != value(thread, &theirs))
            .map(|thread| {
                let (ours, theirs) = (value(thread, &ours), value(thread, &theirs));
                format!("thread {thread} {ours}, not {theirs}")
            })
            .collect();
        if !different.is_empty() {
            let some = different.get(..5).unwrap_or(&different);
            println!(
                "  {register}: in {} threads; {}",
                different.len(),
                some.join("; ")
            );
        }
    }
    if ours.get(threads * stride..) != theirs.get(threads * stride..) {
        println!("  sums differ");
    }
    println!("{body}");
    Ok(())
}

/// The register of each offset of a thread's results.
fn registers(stores: &str) -> BTreeMap<usize, String> {
    let mut registers = BTreeMap::new();
    let mut before = "";
    for line in stores.lines() {
        if let Some((offset, register)) = line
            .split_once("[%out+")
            .and_then(|(_, rest)| rest.split_once("], "))
        {
            // What is stored from %t0 was converted in the line before.
            let text = if register == "%t0;" { before } else { register };
            let register = text
                .split([' ', ',', ';'])
                .rfind(|word| word.starts_with('%'));
            if let (Ok(offset), Some(register)) = (offset.parse(), register) {
                registers.insert(offset, register.to_owned());
            }
        }
        before = line;
    }
    registers
}
