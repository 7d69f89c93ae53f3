//! Makes the table of entry points, and the link options of a driver library.
//!
//! `entry_points.txt` lists what a driver exports. What `src/` defines inside `api! { … }` is found by its text; every
//! other name becomes an entry point that refuses. A name that is defined but not listed stops the build.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=entry_points.txt");
    println!("cargo::rerun-if-changed=src");
    let table = fs::read_to_string("entry_points.txt").expect("entry_points.txt");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').collect())
        .collect();
    let defined = defined(Path::new("src"));
    let listed: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    for name in &defined {
        assert!(
            listed.contains(name.as_str()),
            "{name} is not in entry_points.txt"
        );
    }

    let mut code = String::from("pub static ENTRIES: &[Entry] = &[\n");
    for row in &rows {
        let [name, base, version, twin] = row[..] else {
            panic!("entry_points.txt: four words a line: {row:?}")
        };
        let per_thread = twin != "-";
        writeln!(
            code,
            "    Entry {{ name: {name:?}, base: {base:?}, version: {version}, per_thread: {per_thread}, address: Function({name}) }},"
        )
        .expect("a string");
    }
    code.push_str("];\n");
    for name in listed {
        let code = if defined.contains(name) {
            writeln!(code, "unsafe extern \"C\" {{ fn {name}() -> i32; }}")
        } else {
            writeln!(
                code,
                "#[unsafe(no_mangle)]\nunsafe extern \"C\" fn {name}() -> i32 {{ crate::api::missing({name:?}) }}"
            )
        };
        code.expect("a string");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("entries.rs"), code).expect("OUT_DIR can be written");

    for argument in [
        "-Wl,-soname,libcuda.so.1",
        // Calls inside the driver, and the addresses it hands out, do not go through a preloaded library.
        "-Wl,-Bsymbolic",
        // Its threads run on after dlclose.
        "-Wl,-z,nodelete",
        "-Wl,-z,defs",
    ] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}

/// Names after `fn ` at the start of a line inside `api! { … }`, with the twin after a slash.
fn defined(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("src") {
            let path = entry.expect("src").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file");
            let mut inside = false;
            for line in text.lines() {
                match line {
                    "api! {" => inside = true,
                    "}" => inside = false,
                    _ => {}
                }
                let Some(rest) = line.strip_prefix("    fn cu") else {
                    continue;
                };
                if !inside {
                    continue;
                }
                let head = rest.split('(').next().unwrap_or_default();
                let mut parts = head.split('/').map(str::trim);
                names.insert(format!("cu{}", parts.next().unwrap_or_default()));
                names.extend(parts.map(str::to_owned));
            }
        }
    }
    names
}
