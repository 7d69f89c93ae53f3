//! Why a run's database cannot be used.

use std::path::PathBuf;

/// Why a run's database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is a run already.
    #[error("{}: there is a run already. `--resume` goes on with it; `--run DIR` begins another one", .0.display())]
    Exists(PathBuf),
    /// There is none.
    #[error("{}: there is no run here (no {})", .0.display(), super::FILE)]
    NoRun(PathBuf),
    /// Nothing is in it.
    #[error(
        "{}: nothing is in this run: it was killed before it began, or run.db was copied without run.db-wal beside it. Copy the whole \
         folder, or begin again",
        .0.display()
    )]
    Empty(PathBuf),
    /// Another process works on it.
    #[error("{}: another r3-evolve is working on this run", .0.display())]
    InUse(PathBuf),
    /// It is something else.
    #[error("{}: this is a database, but no run of r3-evolve", .0.display())]
    Foreign(PathBuf),
    /// Another R3 wrote it.
    #[error("{}: the run was written by another version of R3 (tables {found}, this one has {}). Read it with that version; a search cannot be carried over", path.display(), super::schema::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
    },
    /// What is in it makes no sense.
    #[error(
        "{}: damaged: {what}. Put back a copy of the whole folder, with run.db-wal where there is one, or begin another run with --run DIR",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The database says no.
    #[error("{}: {source}{}", path.display(), advice(source))]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The file system says no.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn advice(error: &rusqlite::Error) -> &'static str {
    match error {
        rusqlite::Error::SqliteFailure(error, _)
            if matches!(
                error.code,
                rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::SystemIoFailure
            ) =>
        {
            ". What was measured before is kept: make room, and `r3-evolve tune --resume` or `r3-evolve resume` goes on"
        }
        _ => "",
    }
}
