//! Compiles the stand-in driver and the test programs with the C compiler.
//!
//! A program's first line names what it is linked with: `/* cc: -lcuda */`. A file `lib*.c` becomes
//! a shared library beside the programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const STAND_IN_FLAGS: &[&str] = &[
    "-shared",
    "-fPIC",
    "-pthread",
    "-Wl,-soname,libcuda.so.1",
    // As in the real driver, calls inside it do not go through hooks.
    "-Wl,-Bsymbolic",
];

fn main() {
    let here = PathBuf::from(env("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env("OUT_DIR"));
    let stand_in = here.join("stand-in");
    let programs = here.join("programs");
    for folder in [&stand_in, &programs] {
        println!("cargo::rerun-if-changed={}", folder.display());
    }

    let library = out.join("libcuda.so.1");
    let mut command = compiler();
    command
        .args(STAND_IN_FLAGS)
        .arg(version_script(&stand_in.join("stand-in.map")));
    command
        .arg("-o")
        .arg(&library)
        .args(sources(&stand_in))
        .arg("-lm");
    run(&mut command);
    let link_name = out.join("libcuda.so");
    if !link_name.exists() {
        std::os::unix::fs::symlink("libcuda.so.1", &link_name).expect("a link can be made");
    }

    // The device file that a driver keeps open.
    fs::write(out.join("nvidia-uvm"), "").expect("OUT_DIR can be written");

    let ptx = fs::read_to_string(programs.join("kernels.ptx")).expect("kernels.ptx");
    fs::write(out.join("kernels_ptx.h"), header(&ptx)).expect("OUT_DIR can be written");
    for source in sources(&programs) {
        let name = source
            .file_stem()
            .expect("a file name")
            .to_string_lossy()
            .into_owned();
        let mut command = compiler();
        command
            .arg("-pthread")
            .arg("-I")
            .arg(&stand_in)
            .arg("-I")
            .arg(&out);
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

fn version_script(map: &Path) -> String {
    format!("-Wl,--version-script={}", map.display())
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
