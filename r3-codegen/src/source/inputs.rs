//! Which files a command compiles, and whether the one that is meant is among them.
//!
//! Options come from the command and the text from the file: where the two are not about the same, code comes out that no build
//! ever made. Files are compared by where they are, with and without links.

use std::path::Path;

use super::command::{CommandError, Invocation};
use super::database::{absolute, plain, real};
use super::files;

/// Ends of names of what compilers take as source.
const SOURCES: &[&str] = &[
    "cu", "cup", "cui", "hip", "c", "cc", "cp", "cpp", "cxx", "c++", "C", "CPP", "i", "ii",
];

/// Ends of names of what is only linked, or is no source of device code.
const OTHERS: &[&str] = &[
    "o", "obj", "a", "so", "lib", "dylib", "ptx", "cubin", "fatbin", "ltoir", "bc", "ll", "s", "S",
    "d", "rsp", "res", "json", "map", "def", "lds", "ld",
];

/// Ends of names of what other files include.
const HEADERS: &[&str] = &[
    "h", "hh", "hpp", "hxx", "h++", "H", "cuh", "inc", "inl", "ipp", "tpp", "txx", "tcc", "impl",
];

impl Invocation {
    /// The files that it compiles, as they are written. Values of options of which nothing is known are none.
    pub fn sources(&self) -> impl Iterator<Item = &String> {
        let is_source = |file: &&String| {
            let end = Path::new(file).extension().unwrap_or_default();
            let one_of = |ends: &[&str]| ends.iter().any(|known| end == *known);
            file.as_str() != "-"
                && (one_of(SOURCES) || (!one_of(OTHERS) && self.directory.join(file).is_file()))
        };
        self.options.files.iter().filter(is_source)
    }

    /// Whether it compiles a file.
    pub fn compiles(&self, file: &Path) -> bool {
        let wanted = [plain(&absolute(file)), real(file)];
        // Whatever it is called: `-x cu` makes a source of anything.
        let mut files = self.options.files.iter();
        files.any(|named| {
            let named = absolute(&self.directory.join(named));
            wanted.contains(&plain(&named)) || wanted.contains(&real(&named))
        })
    }

    /// Refuses a file that the command does not compile. A header, which others include, and a copy may have the command of
    /// another file, and what is returned says so; options without a file are for any.
    pub fn check(&self, file: &Path) -> Result<Option<String>, CommandError> {
        if self.compiles(file) {
            return Ok(None);
        }
        let named: Vec<String> = self.sources().map(String::to_owned).collect();
        if named.is_empty() {
            return Ok(None);
        }
        let names = named.join(", ");
        let is_header = file
            .extension()
            .is_some_and(|end| HEADERS.iter().any(|known| end == *known));
        if is_header {
            return Ok(Some(format!(
                "the command compiles {names}: its options are taken for {}, a header",
                file.display()
            )));
        }
        let full = |named: &String| absolute(&self.directory.join(named));
        if let Some(copy) = named.iter().find(|named| same_text(&full(named), file)) {
            return Ok(Some(format!(
                "the command compiles {copy}: its options are taken for {}, which has the same content",
                file.display()
            )));
        }
        Err(CommandError::OtherFile {
            file: file.display().to_string(),
            advice: self.advice(&named, file),
            named: names,
        })
    }

    fn advice(&self, named: &[String], file: &Path) -> String {
        // `nvcc -c k.cu` of a build that runs it in the file's folder.
        let full = absolute(file);
        let elsewhere = named.iter().find_map(|named| {
            let inner = plain(Path::new(named));
            let folder = full.ancestors().nth(inner.components().count())?;
            (inner.is_relative() && full.ends_with(&inner)).then_some(folder)
        });
        match elsewhere {
            Some(folder) => format!(
                "it runs in {}, and {} is in another folder: `cd {} && …` in front says where the build runs it",
                self.directory.display(),
                file.display(),
                folder.display()
            ),
            None => "give this file's own command, or leave the other file out of it where its options are right for this one"
                .to_owned(),
        }
    }
}

/// Whether two files have the same content; not of devices and pipes.
fn same_text(one: &Path, other: &Path) -> bool {
    let read = |path: &Path| files::read(path, files::SOURCE).ok();
    one.is_file() && other.is_file() && read(one).is_some_and(|text| Some(text) == read(other))
}
