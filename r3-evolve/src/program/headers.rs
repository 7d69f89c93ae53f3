//! The device's part of headers.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use r3_codegen::source::files;
use r3_codegen::source::options::{Dialect, Options, Preprocess};
use r3_source::syntax::Unit;

use super::{Program, only_device};

/// Most headers, and most bytes of them together, that are given with a source. A source with more is for a compiler that
/// takes host code.
const MOST: usize = 64;
const MOST_BYTES: usize = 512 << 10;

/// The headers of which the device's part is less, as that part, by the name by which they are included.
pub(super) fn device_parts(program: &Program) -> Vec<(String, String)> {
    let Some(all) = included(program) else {
        return Vec::new();
    };
    let parts = all.into_iter().filter_map(|header| {
        let part = only_device(&header.text);
        (part != header.text).then_some((header.name, part))
    });
    parts.collect()
}

/// The header that has a kernel.
pub(super) fn with_kernel(program: &Program, kernel: &str) -> Option<PathBuf> {
    let has = |header: &Header| {
        let unit = Unit::parse(&header.text);
        unit.is_ok_and(|unit| unit.kernel(kernel).is_ok())
    };
    let all = included(program)?;
    all.into_iter().find(has).map(|header| header.path)
}

struct Header {
    /// As it is included.
    name: String,
    path: PathBuf,
    text: String,
}

/// Headers in quotes that the text includes, and those that they include, as far as they are found. `None`: too many.
fn included(program: &Program) -> Option<Vec<Header>> {
    let Some(directory) = program.how.directory.as_ref().map(PathBuf::from) else {
        return Some(Vec::new());
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
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    let mut bytes = 0;
    while let Some((name, folder)) = open.pop_front() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let places = std::iter::once(&folder).chain(&folders);
        let mut places = places.map(|folder| folder.join(&name));
        let Some(path) = places.find(|path| path.is_file()) else {
            continue;
        };
        let text = match files::text(&path, MOST_BYTES as u64) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::FileTooLarge => return None,
            Err(_) => continue,
        };
        let inner = path.parent().map(Path::to_owned).unwrap_or_default();
        open.extend(quoted(&text).map(|name| (name.to_owned(), inner.clone())));
        bytes += text.len();
        if found.len() == MOST || bytes > MOST_BYTES {
            return None;
        }
        found.push(Header { name, path, text });
    }
    Some(found)
}

/// Names in quotes that a text includes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("include")?.trim_start();
        rest.strip_prefix('"')?.split('"').next()
    })
}
