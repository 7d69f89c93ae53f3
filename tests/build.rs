//! Compiles the test programs, and the layer that misbehaves on request, with the C compiler.
//!
//! A program's first line names what it is linked with: `/* cc: -lcuda */`. A file `lib*.c` becomes
//! a shared library beside the programs. What this makes in `OUT_DIR`:
//!
//! - the programs,
//! - `driver/libcuda.so.1`, a link to the software driver, which the tests build,
//! - `layer/libcuda.so.1`, the layer, which goes on to `layer/driver/libcuda.so.1`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const LAYER_FLAGS: &[&str] = &[
    "-shared",
    "-fPIC",
    "-pthread",
    "-fvisibility=hidden",
    "-Wl,-soname,libcuda.so.1",
    // As in the real driver, calls inside it do not go through hooks, and it stays.
    "-Wl,-Bsymbolic",
    "-Wl,-z,nodelete",
    "-Wl,--hash-style=gnu",
];

fn main() {
    let here = PathBuf::from(env("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env("OUT_DIR"));
    let programs = here.join("programs");
    let layer = out.join("layer");
    let names = here.join("../r3-softcuda/entry_points.txt");
    for input in [&here.join("layer"), &programs, &names] {
        println!("cargo::rerun-if-changed={}", input.display());
    }

    // …/target/debug/build/r3-tests-0123456789abcdef/out
    let profile = out.ancestors().nth(3).expect("OUT_DIR lies in a profile");
    for folder in [&out.join("driver"), &layer] {
        fs::create_dir_all(folder).expect("OUT_DIR can be written");
    }
    link(
        &profile.join("libcuda.so"),
        &out.join("driver/libcuda.so.1"),
    );
    link(Path::new("../driver"), &layer.join("driver"));
    let table = fs::read_to_string(names).expect("the driver's entry points");
    fs::write(out.join("entry_points.inc"), entries(&table)).expect("OUT_DIR can be written");
    let mut command = compiler();
    command
        .args(LAYER_FLAGS)
        .arg("-I")
        .arg(&programs)
        .arg("-I")
        .arg(&out);
    command.arg("-o").arg(layer.join("libcuda.so.1"));
    run(command.arg(here.join("layer/layer.c")));
    link(Path::new("libcuda.so.1"), &layer.join("libcuda.so"));

    // The device file that a driver keeps open.
    fs::write(layer.join("nvidia-uvm"), "").expect("OUT_DIR can be written");

    let ptx = fs::read_to_string(programs.join("kernels.ptx")).expect("kernels.ptx");
    fs::write(out.join("kernels_ptx.h"), header(&ptx)).expect("OUT_DIR can be written");
    for source in sources(&programs) {
        let name = source
            .file_stem()
            .expect("a file name")
            .to_string_lossy()
            .into_owned();
        let mut command = compiler();
        command.arg("-pthread").arg("-I").arg(&out);
        if name.starts_with("lib") {
            command
                .args(["-shared", "-fPIC"])
                .arg("-o")
                .arg(out.join(format!("{name}.so")));
        } else {
            command.arg("-o").arg(out.join(&name));
        }
        command
            .arg(&source)
            .arg("-L")
            .arg(&layer)
            .arg("-L")
            .arg(&out)
            .args(link_flags(&source))
            .arg("-lm");
        run(&mut command);
    }
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn compiler() -> Command {
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra"]);
    command
}

/// A line for each entry point of the driver.
fn entries(table: &str) -> String {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    // A function that is found under two names has two lines.
    let names: BTreeSet<_> = lines.filter_map(|line| line.split(' ').next()).collect();
    let entry = |(number, name)| format!("ENTRY({number}, {name})\n");
    names.into_iter().enumerate().map(entry).collect()
}

fn link(to: &Path, from: &Path) {
    let _ = fs::remove_file(from);
    symlink(to, from).expect("a link can be made");
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    let mut sources: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    // Libraries first: programs are linked with them.
    let is_program = |path: &PathBuf| {
        !path
            .file_name()
            .is_some_and(|n| n.as_encoded_bytes().starts_with(b"lib"))
    };
    sources.sort_by_key(|path| (is_program(path), path.clone()));
    sources
}

fn link_flags(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source).expect("a readable source");
    let first = text.lines().next().unwrap_or_default();
    let flags = first
        .strip_prefix("/* cc:")
        .and_then(|rest| rest.strip_suffix("*/"));
    let flags = flags.unwrap_or_else(|| panic!("{}: line 1 is not /* cc: … */", source.display()));
    flags.split_whitespace().map(str::to_owned).collect()
}

fn header(ptx: &str) -> String {
    let lines: Vec<_> = ptx
        .lines()
        .map(|line| {
            format!(
                "    \"{}\\n\"",
                line.replace('\\', "\\\\").replace('"', "\\\"")
            )
        })
        .collect();
    format!("#define KERNELS_PTX \\\n{}\n", lines.join(" \\\n"))
}

fn run(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
