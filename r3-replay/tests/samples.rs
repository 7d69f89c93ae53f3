//! Archives that were captured on a real GPU.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use assert_cmd::Command;
use r3_archive::Archive;
use r3_image::Image;
use r3_replay::compare::InferredTypes;
use r3_replay::inspect::info::info;

fn archives() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "r3"));
    paths.sort();
    assert!(paths.len() >= 10);
    paths
}

fn sample(name: &str) -> Archive {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives/");
    Archive::open(format!("{folder}{name}.r3")).unwrap()
}

/// `kernel arg0=f32 arg1=u32 …` for each kernel of an archive, as its PTX says.
fn types(name: &str) -> Vec<String> {
    let archive = sample(name);
    archive
        .kernels()
        .iter()
        .filter(|kernel| kernel.module.is_some())
        .map(|kernel| {
            let module = archive.module(kernel.module.unwrap()).unwrap();
            let image = Image::from_vec(archive.read_blob(&module.image).unwrap());
            let types = InferredTypes::of(&image, kernel);
            let mut line = r3_replay::names::readable(&kernel.name);
            for offset in 0..64 {
                for name in [format!("arg{offset}"), format!("arg0+{:#x}", 8 * offset)] {
                    if let Some(element) = types.get([name.as_str()]) {
                        line.push_str(&format!(" {name}={element}"));
                    }
                }
            }
            line
        })
        .collect()
}

#[test]
fn every_archive_can_be_looked_into() {
    for path in archives() {
        let run = |arguments: &[&str]| {
            let mut command = Command::cargo_bin("r3-replay").unwrap();
            let (name, rest) = arguments.split_first().unwrap();
            command.arg(name).arg(&path).args(rest).assert().success();
        };
        run(&["info"]);
        run(&["ls"]);
        run(&["fsck"]);
        run(&["convert"]);
        for launch in Archive::open(&path).unwrap().launch_heads() {
            run(&["show", &launch.id.to_string()]);
        }
    }
}

#[test]
fn what_is_special_about_kernels_is_seen() {
    let flags = |name: &str| {
        let info = info(&sample(name));
        info.kernels
            .iter()
            .flat_map(|kernel| kernel.flags.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(flags("printf_heap"), ["printf", "heap"]);
    assert_eq!(flags("cluster"), ["cluster"]);
    assert_eq!(flags("cooperative"), ["cooperative"]);
    assert_eq!(flags("saxpy"), [""; 0]);
    assert!(
        info(&sample("nvrtc"))
            .kernels
            .iter()
            .all(|kernel| kernel.source)
    );
    assert_eq!(info(&sample("graph")).launches.into_graphs, 2);
    assert_eq!(info(&sample("wilson_sass")).kernels[0].code, "SASS sm_90");
}

#[test]
fn element_types_are_those_of_the_sources() {
    // Pointers to const come first in the signatures, results last.
    assert_eq!(
        types("saxpy"),
        ["saxpy(int, int, float const*, float*) arg2=f32 arg3=f32"]
    );
    assert_eq!(
        types("wilson"),
        [
            "dslash(Lattice, Link const*, Spinor const*, Spinor*, int, float) arg1=f32 arg2=f32 arg3=f32"
        ]
    );
    // Atomics, shared memory between load and store, vector types.
    assert_eq!(
        types("reduction"),
        [
            "block_sums(float const*, float*, int) arg0=f32 arg1=f32",
            "scatter(float const*, float*, int) arg0=f32 arg1=f32",
        ]
    );
    assert_eq!(
        types("nbody_ptx"),
        ["step(float4 const*, float4*, float4*, int, float) arg0=f32 arg1=f32 arg2=f32"]
    );
    assert_eq!(
        types("cluster"),
        ["histogram(unsigned int const*, int, unsigned int*) arg0=u32 arg2=u32"]
    );
    // A pointer inside a structure.
    assert_eq!(types("pointer_chase"), ["chase(Chase) arg0+0x18=f32"]);
    // Two buffers that change places in a loop: not known. Machine code only: nothing to read.
    assert_eq!(types("cooperative"), ["jacobi(float*, float*, int, int)"]);
    assert_eq!(
        types("wilson_sass"),
        ["dslash(Lattice, Link const*, Spinor const*, Spinor*, int, float)"]
    );
}
