//! Kernels of real archives, described for a search.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

use r3_archive::Archive;
use r3_replay::device::cpu::{CpuDevice, CpuOptions};
use r3_replay::evaluate::describe::{KernelDescription, describe};

fn descriptions(name: &str) -> Vec<KernelDescription> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives/");
    let archive = Archive::open(format!("{folder}{name}.r3")).unwrap();
    let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| {}));
    archive
        .kernels()
        .iter()
        .map(|kernel| describe(&archive, kernel.id, &mut device).unwrap())
        .collect()
}

fn of(name: &str) -> KernelDescription {
    descriptions(name).remove(0)
}

#[test]
fn every_kernel_of_the_samples_is_described() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives/");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "r3"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    let mut table = String::new();
    for name in names {
        for kernel in descriptions(&name) {
            let params: String = kernel
                .params
                .iter()
                .map(|param| match (param.pointer, &param.constant) {
                    (true, _) => 'p',
                    (false, Some(_)) => 'c',
                    (false, None) => 'v',
                })
                .collect();
            let census = kernel.census.clone().unwrap_or_default();
            let flags = |reads: [bool; 3]| -> String {
                let named = reads.iter().zip("xyz".chars());
                named.filter(|(reads, _)| **reads).map(|(_, c)| c).collect()
            };
            writeln!(
                table,
                "{name} {} | forms {} compilable {} runs {} | max {} | params {params} | loops {} barriers {} exchanges {} shared {}{} \
                 block [{}] grid [{}] index [{}] loads {} stores {} atomics {} float {} div {} wide {} | launches {}",
                kernel.readable,
                kernel.forms.len(),
                u8::from(kernel.compilable),
                u8::from(kernel.recorded_runs),
                kernel.max_threads,
                census.loops,
                census.barriers,
                census.warp_exchanges,
                census.static_shared,
                if census.dynamic_shared { "+dynamic" } else { "" },
                flags(census.reads_block),
                flags(census.reads_grid),
                flags(census.reads_block_index),
                census.global_loads,
                census.global_stores,
                census.atomics,
                census.float_operations,
                census.integer_divisions,
                u8::from(census.grid_wide),
                kernel.launches.len(),
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn launches_of_a_shape_share_what_the_application_did() {
    for kernel in descriptions("streams") {
        let all: f64 = kernel.launches.iter().map(|launch| launch.weight).sum();
        assert!(all >= kernel.launches.len() as f64);
        assert!(kernel.launches.iter().all(|launch| launch.bytes > 0));
    }
}

#[test]
fn a_constant_is_no_pointer_and_has_one_value() {
    let saxpy = of("saxpy");
    for param in &saxpy.params {
        match &param.constant {
            Some(bytes) => {
                assert!(!param.pointer);
                assert_eq!(param.values, 1);
                assert_eq!(bytes.len(), param.size as usize);
            }
            None => assert!(param.pointer || param.values > 1),
        }
    }
    assert!(saxpy.params.iter().any(|param| param.constant.is_some()));
    assert!(saxpy.params.iter().any(|param| param.pointer));
}

#[test]
fn pointers_that_never_lead_into_one_allocation_have_different_numbers() {
    let numbers = |name: &str| -> Vec<u32> {
        let params = of(name).params;
        let targets = params.iter().filter_map(|param| param.target);
        targets.map(|target| target.allocation).collect()
    };
    let saxpy = numbers("saxpy");
    assert_eq!(saxpy.len(), 2);
    assert!(saxpy[0] != saxpy[1] && !saxpy.contains(&0), "{saxpy:?}");
    // The first one is the address of a variable of the module: nothing is known to be apart from it.
    let global = of("global_pointers").params;
    let first = global[0].target;
    assert!(
        first.is_none_or(|target| target.allocation == 0),
        "{first:?}"
    );
    // Positions are read from one buffer and written to another. These change places from launch to launch, and are never the
    // same in one.
    let mut nbody = numbers("nbody");
    nbody.sort_unstable();
    nbody.dedup();
    assert_eq!(nbody.len(), 3);
}
