//! Files with the content of an archive: as private as archives are, and never half of one.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Failure;

/// A file that only its owner can read, and that gets its name when it is complete.
pub struct PrivateFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: BufWriter<File>,
}

impl PrivateFile {
    /// Begins a file, under another name beside `path`.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let unfinished = path.with_file_name(name);
        // Of a run that was killed.
        let _ = std::fs::remove_file(&unfinished);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .map_err(|error| failed(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            file: BufWriter::new(file),
        })
    }

    /// Appends.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file
            .write_all(bytes)
            .map_err(|error| failed(&self.path, &error))
    }

    /// Gives the file its name; one of this name is replaced.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.file
            .flush()
            .and_then(|()| std::fs::rename(&self.unfinished, &self.path))
            .map_err(|error| failed(&self.path, &error))
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        // Not there any more when it was finished.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Message(format!("cannot write {}: {error}", path.display()))
}
