//! The device's part of headers.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use r3_codegen::source::options::{Dialect, Options, Preprocess};

use super::{Program, only_device};

/// Most headers, and most bytes of them together, that are given with a source. A source with more is for a compiler that
/// takes host code.
const MOST: usize = 64;
const MOST_BYTES: usize = 512 << 10;

/// Headers in quotes that the text includes, and those that they include, where the device's part is less than the header: by the
/// name by which they are included.
pub(super) fn device_parts(program: &Program) -> Vec<(String, String)> {
    let Some(directory) = program.how.directory.as_ref().map(PathBuf::from) else {
        return Vec::new();
    };
    let options = Options::read(&program.how.options, Dialect::Nvcc);
    let folders: Vec<PathBuf> = options
        .preprocess
        .iter()
        .filter_map(|item| match item {
            Preprocess::Include(folder)
            | Preprocess::System(folder)
            | Preprocess::Quote(folder)
            | Preprocess::After(folder) => Some(directory.join(folder)),
            Preprocess::Define(_) | Preprocess::Undefine(_) | Preprocess::File(_) => None,
        })
        .collect();
    let own = directory.join(&program.name);
    let beside = own.parent().map(Path::to_owned).unwrap_or(directory);
    let mut open: VecDeque<(String, PathBuf)> = quoted(&program.text)
        .map(|name| (name.to_owned(), beside.clone()))
        .collect();
    let mut seen: Vec<String> = Vec::new();
    let mut parts: Vec<(String, String)> = Vec::new();
    let mut bytes = 0;
    while let Some((name, folder)) = open.pop_front() {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name.clone());
        let places = std::iter::once(&folder).chain(&folders);
        let Some(path) = places
            .map(|folder| folder.join(&name))
            .find(|path| path.is_file())
        else {
            continue;
        };
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let inner = path.parent().map(Path::to_owned).unwrap_or_default();
        open.extend(quoted(&text).map(|name| (name.to_owned(), inner.clone())));
        let part = only_device(&text);
        bytes += part.len();
        if seen.len() > MOST || bytes > MOST_BYTES {
            return Vec::new();
        }
        if part != text {
            parts.push((name, part));
        }
    }
    parts
}

/// Names in quotes that a text includes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("include")?.trim_start();
        rest.strip_prefix('"')?.split('"').next()
    })
}
