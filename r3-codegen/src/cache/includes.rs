//! Files that a source reads, found by its text and its options alone.
//!
//! `#include`s are followed wherever they are, whatever `#if` they stand behind; each place at which a compiler would look is
//! told, also where nothing is: a header that comes there later is another question. What is in none of the user's folders is
//! the compiler's own, or the system's.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::key::File;
use crate::recipe::{Compiler, Source};
use crate::source::options::{Dialect, Options, Preprocess};

/// Most files that are looked for.
const MOST: usize = 20_000;

/// Deepest nesting of headers; compilers have such a limit too.
const DEEPEST: usize = 200;

/// Longest header that is read.
const LONGEST: u64 = 4 << 20;

/// Variables with options and folders of headers for compilers of source: what they name may change any time.
const OPTIONS_OF_COMPILERS: &[&str] = &[
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
];

/// An `#include`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Include {
    name: String,
    /// In quotes: looked for beside the file first.
    quoted: bool,
}

/// What is included by files that were read before, by their state.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<PathBuf, (File, Includes)>>);

/// Includes of a file; `None` where one is named by a macro.
type Includes = Option<Arc<Vec<Include>>>;

impl Known {
    fn of(&self, path: &Path, file: &File) -> Includes {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, includes)) = lock().get(path)
            && known == file
        {
            return includes.clone();
        }
        let includes = match file.bytes() {
            Some(bytes) if bytes <= LONGEST => {
                let bytes = std::fs::read(path).ok()?;
                includes(&String::from_utf8_lossy(&bytes)).map(Arc::new)
            }
            _ => None,
        };
        let mut all = lock();
        if all.len() > MOST {
            all.clear();
        }
        all.insert(path.to_owned(), (file.clone(), includes.clone()));
        includes
    }
}

/// The files that a source may read, apart from the compiler's own, as they are now. `None` where they cannot be known.
pub(super) fn files(source: &Source, known: &Known) -> Option<Vec<File>> {
    let set = |name: &str| std::env::var_os(name).is_some();
    if OPTIONS_OF_COMPILERS.iter().any(|name| set(name)) {
        return None;
    }
    let mut scan = Scan::of(source, known)?;
    let beside = source.directory.as_ref().map(|directory| {
        let own = directory.join(&source.name);
        own.parent().unwrap_or(directory).to_owned()
    });
    scan.text(&source.text, beside.as_deref())?;
    for (_, text) in &source.headers {
        scan.text(text, None)?;
    }
    for file in std::mem::take(&mut scan.forced) {
        scan.included(
            &Include {
                name: file,
                quoted: true,
            },
            beside.as_deref(),
        )?;
    }
    Some(scan.found)
}

struct Scan<'a> {
    source: &'a Source,
    known: &'a Known,
    folders: Vec<PathBuf>,
    /// `-include`.
    forced: Vec<String>,
    found: Vec<File>,
    seen: BTreeSet<PathBuf>,
    /// How many files include each other here.
    depth: usize,
}

impl<'a> Scan<'a> {
    fn of(source: &'a Source, known: &'a Known) -> Option<Self> {
        let dialect = match source.compiler {
            Compiler::Nvcc | Compiler::Any => Dialect::Nvcc,
            Compiler::Nvrtc => Dialect::Nvrtc,
            Compiler::Clang => Dialect::Clang,
        };
        let options = Options::read(&source.options, dialect);
        // Whatever else names a file.
        let strange = |words: &[String]| words.iter().any(|word| word.contains('/'));
        let own: Vec<String> = options.own.iter().map(|(_, word)| word.clone()).collect();
        if strange(&options.unknown)
            || strange(&options.host)
            || strange(&own)
            || !options.option_files.is_empty()
            || source.options.iter().any(|option| option.starts_with('@'))
        {
            return None;
        }
        let mut scan = Self {
            source,
            known,
            folders: Vec::new(),
            forced: Vec::new(),
            found: Vec::new(),
            seen: BTreeSet::new(),
            depth: 0,
        };
        for item in &options.preprocess {
            match item {
                Preprocess::Include(folder)
                | Preprocess::System(folder)
                | Preprocess::Quote(folder)
                | Preprocess::After(folder) => {
                    let folder = scan.absolute(folder)?;
                    scan.folders.push(folder);
                }
                Preprocess::File(file) => scan.forced.push(file.clone()),
                Preprocess::Define(_) | Preprocess::Undefine(_) => {}
            }
        }
        let tools = [&options.host_compiler, &options.toolkit];
        let tools: Vec<PathBuf> = tools.into_iter().flatten().map(PathBuf::from).collect();
        scan.found.extend(tools.iter().map(|tool| File::of(tool)));
        Some(scan)
    }

    fn absolute(&self, path: &str) -> Option<PathBuf> {
        match &self.source.directory {
            Some(directory) => Some(directory.join(path)),
            None => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
        }
    }

    fn text(&mut self, text: &str, folder: Option<&Path>) -> Option<()> {
        for include in includes(text)? {
            self.included(&include, folder)?;
        }
        Some(())
    }

    /// Follows an include of a file in a folder.
    fn included(&mut self, include: &Include, folder: Option<&Path>) -> Option<()> {
        let given = self.source.headers.iter();
        if given.into_iter().any(|(name, _)| *name == include.name) {
            return Some(());
        }
        let beside = folder.filter(|_| include.quoted).map(Path::to_owned);
        let places: Vec<PathBuf> = beside
            .into_iter()
            .chain(self.folders.iter().cloned())
            .map(|folder| folder.join(&include.name))
            .collect();
        for path in places {
            if self.seen.contains(&path) {
                // It was looked at, and followed where it is there.
                match path.is_file() {
                    true => return Some(()),
                    false => continue,
                }
            }
            if self.seen.len() >= MOST {
                return None;
            }
            self.seen.insert(path.clone());
            let file = File::of(&path);
            let there = file.bytes().is_some() && path.is_file();
            self.found.push(file.clone());
            if there {
                let folder = path.parent().map(Path::to_owned);
                if self.depth == DEEPEST {
                    return None;
                }
                self.depth += 1;
                for include in self.known.of(&path, &file)?.iter() {
                    self.included(include, folder.as_deref())?;
                }
                self.depth -= 1;
                return Some(());
            }
        }
        Some(())
    }
}

/// All includes of a text; `None` where one is named by a macro, or something else reads files.
fn includes(text: &str) -> Option<Vec<Include>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('#') {
        let rest = text.get(at + 1..)?.trim_start_matches([' ', '\t']);
        let rest = match rest.strip_prefix("include") {
            Some(rest) => rest.strip_prefix("_next").unwrap_or(rest),
            None if rest.starts_with("embed") => return None,
            None => continue,
        };
        let rest = rest.trim_start_matches([' ', '\t']);
        let (quoted, end) = match rest.chars().next() {
            Some('"') => (true, '"'),
            Some('<') => (false, '>'),
            // Another word, or a macro.
            Some(c) if c.is_ascii_alphabetic() || c == '_' => return None,
            _ => continue,
        };
        let line = rest.get(1..)?.lines().next().unwrap_or_default();
        if let Some((name, _)) = line.split_once(end) {
            found.push(Include {
                name: name.to_owned(),
                quoted,
            });
        }
    }
    for (at, word) in text.match_indices("__has_include") {
        let rest = text.get(at + word.len()..)?;
        let rest = rest.trim_start_matches("_next").trim_start();
        let Some(rest) = rest.strip_prefix('(').map(str::trim_start) else {
            continue;
        };
        let quoted = rest.starts_with('"');
        let name = rest.get(1..).and_then(|rest| rest.split(['"', '>']).next());
        found.extend(name.map(|name| Include {
            name: name.to_owned(),
            quoted,
        }));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str, options: &[&str]) -> Source {
        Source {
            text: text.to_owned(),
            name: "k.cu".into(),
            headers: vec![("given.h".to_owned(), "int x;".to_owned())],
            name_expressions: Vec::new(),
            compiler: Compiler::Any,
            program: None,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            directory: None,
        }
    }

    fn names(source: &Source) -> Option<Vec<(String, bool)>> {
        let root = source.directory.clone().unwrap_or_default();
        let files = files(source, &Known::default())?;
        Some(
            files
                .iter()
                .map(|file| {
                    let name = file.path().strip_prefix(&root).unwrap_or(file.path());
                    (name.display().to_string(), file.bytes().is_some())
                })
                .collect(),
        )
    }

    #[test]
    fn what_reads_files_that_cannot_be_known_is_not_kept() {
        let text = "__global__ void k() {}";
        assert_eq!(
            names(&source(text, &["-O3", "-DN=3", "-use_fast_math"])),
            Some(Vec::new())
        );
        for options in [
            &["-I", "include"][..],
            &["--options-file", "/x"],
            &["@file"],
            &["-Xcicc=-x=/x"],
        ] {
            assert_eq!(names(&source(text, options)), None, "{options:?}");
        }
        for text in ["#include NAME", "#embed \"x\"", "# include  NAME(x)"] {
            assert_eq!(names(&source(text, &[])), None, "{text}");
        }
        assert_eq!(
            names(&source("#include \"given.h\"\n#include <cuda_fp16.h>", &[])),
            Some(Vec::new())
        );
    }

    #[test]
    fn headers_are_followed_and_places_without_one_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("inc/a.h", "#include <b.h>\n#include \"c.h\"");
        write("inc/c.h", "#ifdef X\n#include \"a.h\"\n#endif");
        write("last/b.h", "");
        let mut source = source(
            "#include \"a.h\"\n#if __has_include(<maybe.h>)\n#endif\n#include <vector>",
            &["-Iinc", "-isystem", "last"],
        );
        source.directory = Some(folder.path().to_owned());
        let names = names(&source).unwrap();
        let expected = [
            ("a.h", false),
            ("inc/a.h", true),
            ("inc/b.h", false),
            ("last/b.h", true),
            ("inc/c.h", true),
            ("inc/vector", false),
            ("last/vector", false),
            ("inc/maybe.h", false),
            ("last/maybe.h", false),
        ];
        let expected = expected.map(|(name, there)| (name.to_owned(), there));
        assert_eq!(names, expected);
    }

    #[test]
    fn a_changed_header_is_another_question() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = source("#include \"a.h\"", &[]);
        source.directory = Some(folder.path().to_owned());
        let known = Known::default();
        let none = files(&source, &known).unwrap();
        std::fs::write(folder.path().join("a.h"), "").unwrap();
        let first = files(&source, &known).unwrap();
        assert_ne!(none, first);
        assert_eq!(files(&source, &known).unwrap(), first);
        std::fs::write(folder.path().join("a.h"), "#include \"b.h\"").unwrap();
        let second = files(&source, &known).unwrap();
        assert_eq!(second.len(), 2, "{second:?}");
    }
}
