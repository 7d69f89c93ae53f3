//! A source as a file that a compiler can be given.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::{files, refused};
use crate::assemble::scratch::Scratch;
use crate::recipe::{Failure, FailureKind, Source};

/// Where everything of one compilation is.
pub(super) struct Unit {
    /// Folder for what the compiler makes.
    pub scratch: Scratch,
    /// The file to be compiled.
    pub file: PathBuf,
    /// Folder in which the compiler runs.
    pub directory: PathBuf,
    /// Folders of headers that were given with the source, or lie beside it.
    pub includes: Vec<PathBuf>,
}

impl Unit {
    /// The source's own file where it has the same text, else a new one. Headers that were given by name are written into
    /// a folder.
    pub fn new(source: &Source) -> Result<Self, Failure> {
        let scratch = Scratch::new().map_err(|error| {
            refused(format!(
                "no folder for temporary files could be made: {error}"
            ))
        })?;
        let directory = match &source.directory {
            Some(directory) if directory.is_dir() => directory.clone(),
            Some(directory) => {
                return Err(refused(format!(
                    "the folder of the compile command, {}, is not on this machine",
                    directory.display()
                )));
            }
            None => std::env::current_dir().unwrap_or_else(|_| scratch.path().to_owned()),
        };
        let mut includes = Vec::new();
        let own = directory.join(&source.name);
        let length = u64::try_from(source.text.len()).unwrap_or(u64::MAX);
        let same = files::read(&own, length).is_ok_and(|text| text == source.text.as_bytes());
        let file = if same && source.headers.is_empty() && source.name_expressions.is_empty() {
            own
        } else {
            includes.extend(
                own.parent()
                    .filter(|folder| folder.is_dir())
                    .map(Path::to_owned),
            );
            let name = source.name.file_name().unwrap_or("source.cu".as_ref());
            let mut file = scratch.path().join("source").join(name);
            if file.extension().is_none() {
                file.set_extension("cu");
            }
            write(&file, &with_instances(source))?;
            file
        };
        if !source.headers.is_empty() {
            let folder = scratch.path().join("headers");
            for (name, text) in &source.headers {
                write(&inside(&folder, name)?, text)?;
            }
            includes.insert(0, folder);
        }
        Ok(Self {
            scratch,
            file,
            directory,
            includes,
        })
    }
}

impl Unit {
    /// A compiler's words without the folders for one compilation, which are others each time.
    pub fn plain(&self, failure: Failure) -> Failure {
        let plain = |text: &str| {
            let mut text = text.to_owned();
            for inner in ["source", "headers"] {
                let folder = self.scratch.path().join(inner);
                text = text.replace(&format!("{}/", folder.display()), "");
            }
            text
        };
        Failure {
            message: plain(&failure.message),
            log: plain(&failure.log),
            ..failure
        }
    }

    /// Whether the file is a copy, in a folder that is another one each time.
    pub fn is_copy(&self) -> bool {
        self.file.starts_with(self.scratch.path())
    }

    /// What makes `__FILE__` the name alone, for compilers whose options are GCC's: what is compiled is the same each time then.
    pub fn prefix_maps(&self) -> Vec<String> {
        let folders = ["source", "headers"].map(|inner| self.scratch.path().join(inner));
        let map = |folder: &PathBuf| format!("-fmacro-prefix-map={}/=", folder.display());
        folders.iter().map(map).collect()
    }

    /// PTX of nvcc with other names of what only one file can see. They have a hash of the file's folder in them, which would make
    /// the same text come out otherwise each time that it is compiled.
    pub fn with_steady_names(&self, ptx: String, text: &str) -> String {
        if !self.is_copy() {
            return ptx;
        }
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let steady = format!("{:08x}", xxh3_64(text.as_bytes()) >> 32);
        steady_names(ptx, &name, &steady)
    }
}

/// Replaces the eight digits in `_GLOBAL__N__ac3fd4b3_7_anon_cu` and the like.
fn steady_names(ptx: String, file: &str, steady: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let file: String = file.chars().map(plain).collect();
    let mark = format!("_{}_{file}", file.len());
    let mut out = String::with_capacity(ptx.len());
    let mut at = 0;
    for (found, _) in ptx.match_indices(&mark) {
        let start = found.saturating_sub(8);
        let digits = ptx.get(start..found).unwrap_or_default();
        let before = ptx.get(at..start);
        if digits.len() == 8
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            && let Some(before) = before
            && before.ends_with('_')
        {
            out.push_str(before);
            out.push_str(steady);
            at = found;
        }
    }
    out.push_str(ptx.get(at..).unwrap_or_default());
    out
}

/// The text, with a function of the host behind it that uses the instances of templates which the code must have.
fn with_instances(source: &Source) -> String {
    let mut text = source.text.clone();
    if !source.name_expressions.is_empty() {
        let uses = source.name_expressions.iter();
        let uses: String = uses.map(|name| format!(" (void)(&{name});")).collect();
        text.push_str(&format!("\nvoid r3_instances() {{{uses} }}\n"));
    }
    text
}

/// The path of a header. Names come from archives: none leads out of the folder.
fn inside(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    use std::path::Component;
    let plain = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match plain {
        true => Ok(folder.join(name)),
        false => Err(refused(format!(
            "the header {name} has a name that leads out of its folder"
        ))),
    }
}

pub(super) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let parent = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    // Not refused: that would be kept as the answer.
    let failed = |error: std::io::Error| Failure {
        kind: FailureKind::Machine,
        ..refused(format!("{} cannot be written: {error}", file.display()))
    };
    parent
        .and_then(|()| std::fs::write(file, text))
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_takes_no_files_is_no_fault_of_the_source() {
        let failure = write(Path::new("/dev/null/k.cu"), "").unwrap_err();
        assert_eq!(failure.kind, FailureKind::Machine);
        assert!(failure.message.contains("/dev/null/k.cu"), "{failure}");
    }

    #[test]
    fn names_of_what_one_file_sees_do_not_depend_on_its_folder() {
        let ptx = |hash: &str| {
            format!(
                ".entry _ZN33_GLOBAL__N__{hash}_4_k_cu__Z1fv2anEPf(\nld [_ZN31_INTERNAL_{hash}_4_k_cu__Z1fv33_GLOBAL__N__{hash}_4_k_cu__Z1fv5tableE]; \
                 // other_4_k_cu"
            )
        };
        let steady = |hash: &str| steady_names(ptx(hash), "k.cu", "00112233");
        assert_eq!(steady("3cf966d0"), ptx("00112233"));
        assert_eq!(steady("3cf966d0"), steady("ba6d147e"));
        assert_eq!(steady_names("_4_k_cu".to_owned(), "k.cu", "0"), "_4_k_cu");
    }
}
