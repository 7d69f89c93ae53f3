//! `compile_commands.json`: how each file of a program is compiled.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

/// One file's command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// Where the command is run; relative to the database's folder when it is relative.
    pub directory: PathBuf,
    /// The file.
    pub file: PathBuf,
    /// The command as a shell takes it.
    #[serde(default)]
    pub command: String,
    /// The command as words, in its place.
    #[serde(default)]
    pub arguments: Option<Vec<String>>,
    /// What it makes.
    #[serde(default)]
    pub output: Option<String>,
}

/// Why a file's command was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// It cannot be read.
    #[error("{database}: {reason}")]
    Read {
        /// The database.
        database: String,
        /// Why.
        reason: String,
    },
    /// The file is not in it.
    #[error(
        "{database} has no command for {file}; it has {}. Give the build's own database, or the command itself in its place",
        match .alike.as_slice() {
            [] if *count == 1 => "one other file".to_owned(),
            [] => format!("{count} other files"),
            alike => format!("files of the same name in other folders: {}", alike.join(", ")),
        }
    )]
    NoFile {
        /// The database.
        database: String,
        /// The file.
        file: String,
        /// How many it has.
        count: usize,
        /// Files of this name that it has.
        alike: Vec<String>,
    },
}

/// The commands for a file, in the order of the database. Several, when it is compiled several times.
pub fn commands(database: &Path, file: &Path) -> Result<Vec<Entry>, DatabaseError> {
    // A folder is meant as the build folder.
    let database = match database.is_dir() {
        true => database.join("compile_commands.json"),
        false => database.to_owned(),
    };
    let failed = |reason: String| DatabaseError::Read {
        database: database.display().to_string(),
        reason,
    };
    let text = super::files::read(&database, super::files::LIST)
        .map_err(|error| failed(error.to_string()))?;
    let mut entries: Vec<Entry> =
        serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
    let database_folder = absolute(database.parent().unwrap_or(Path::new("")));
    for entry in &mut entries {
        entry.directory = plain(&database_folder.join(&entry.directory));
        entry.file = plain(&entry.directory.join(&entry.file));
    }
    let wanted = [plain(&absolute(file)), real(file)];
    let same = |entry: &Entry| wanted.contains(&entry.file) || wanted.contains(&real(&entry.file));
    let count = entries.len();
    let alike: Vec<String> = entries
        .iter()
        .filter(|entry| entry.file.file_name() == file.file_name())
        .map(|entry| entry.file.display().to_string())
        .collect();
    entries.retain(same);
    if entries.is_empty() {
        return Err(DatabaseError::NoFile {
            database: database.display().to_string(),
            file: file.display().to_string(),
            count,
            alike,
        });
    }
    Ok(entries)
}

pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Without links, where the file is there.
pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize()
        .unwrap_or_else(|_| plain(&absolute(path)))
}

/// Without `.` and `..`.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if out.pop() => {}
            part => out.push(part),
        }
    }
    out
}
