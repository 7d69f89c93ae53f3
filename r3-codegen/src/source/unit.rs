//! A source as a file that a compiler can be given.

use std::path::{Path, PathBuf};

use super::refused;
use crate::assemble::scratch::Scratch;
use crate::recipe::{Failure, Source};

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
        let same = std::fs::read(&own).is_ok_and(|text| text == source.text.as_bytes());
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
    parent
        .and_then(|()| std::fs::write(file, text))
        .map_err(|error| refused(format!("{} cannot be written: {error}", file.display())))
}
