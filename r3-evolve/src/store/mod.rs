//! A run's database: every candidate, every evaluation, every sample, what the run is and how far it is.
//!
//! One SQLite file in the run's folder, [`FILE`]. What belongs together is written in one transaction: a batch of proposals, an
//! outcome with its samples, what the strategy was told with the time that was spent. So a run that is killed at any instant
//! has lost what was being measured, and nothing else; [`tune`](crate::tune) goes on from there.
//!
//! - `schema`: the tables, with their version. [`rows`](self): what is in them, as values.
//! - `write`, `read`: the two directions. `slots`: the same for a search over source.

mod error;
mod read;
mod rows;
mod schema;
mod slots;
mod write;

use std::fs::{File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use error::StoreError;
pub use rows::{
    CandidateNumber, Evaluation, EvaluationNumber, Happened, NewEvaluation, Phase, Reason, State,
};
pub use slots::{Answered, NewVariant, OfSlot, RequestRow, SlotRow, VariantRow};

/// Name of the database in a run's folder.
pub const FILE: &str = "run.db";

/// Keys of the table `run`.
pub mod key {
    /// [`Settings`](crate::tune::Settings).
    pub const SETTINGS: &str = "settings";
    /// [`Environment`](crate::tune::Environment).
    pub const ENVIRONMENT: &str = "environment";
    /// The space, as TOML.
    pub const SPACE: &str = "space";
    /// The kernel's description.
    pub const KERNEL: &str = "kernel";
    /// [`Choice`](crate::tune::Choice) of launches.
    pub const LAUNCHES: &str = "launches";
    /// What the evaluator found out about the launches.
    pub const PREPARED: &str = "prepared";
    /// The phase that is under way.
    pub const PHASE: &str = "phase";
    /// Why the search of this round ended, once it has.
    pub const END: &str = "end";
    /// How often the search went on after its end.
    pub const ROUND: &str = "round";
    /// Seconds of searching so far, pauses left out.
    pub const ELAPSED: &str = "elapsed";
    /// Part of the time in which compilers and devices were busy.
    pub const LOAD: &str = "load";
    /// [`Summary`](crate::tune::Summary), at the end.
    pub const SUMMARY: &str = "summary";
    /// [`Settings`](crate::evolve::Settings) of a search over source. A run that has none is one of `tune`.
    pub const EVOLVE: &str = "evolve";
    /// The source of a search over source, and how it is compiled: [`Program`](crate::program::Program).
    pub const PROGRAM: &str = "program";
    /// The same as it was given, before a compiler was chosen.
    pub const GIVEN: &str = "given";
    /// What vectors of texts took, by model: [`Totals`](r3_models::account::Totals).
    pub const EMBEDDED: &str = "embedded";
    /// Where the time of a search over source goes: [`Load`](crate::evolve::progress::Load).
    pub const BUSY: &str = "busy";
}

/// A run's database.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    path: PathBuf,
    /// Version of its tables.
    version: i32,
    /// Where `db` is, when the run's own folder cannot be written.
    _copy: Option<Copied>,
    /// Held as long as this process works on the run.
    _lock: Option<File>,
    /// Transactions until one fails, as if the process were killed before it.
    #[cfg(test)]
    pub(crate) left: std::cell::Cell<Option<u64>>,
}

impl Store {
    /// Makes the folder and a new database in it.
    pub fn create(folder: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::File {
            path: folder.to_owned(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let lock = lock(folder)?;
        let path = folder.join(FILE);
        if Self::has_begun(folder)? {
            return Err(StoreError::Exists(folder.to_owned()));
        }
        for left in [
            FILE.to_owned(),
            format!("{FILE}-wal"),
            format!("{FILE}-shm"),
        ] {
            let _ = std::fs::remove_file(folder.join(left));
        }
        // It gets its name when the tables are in it: a process that is killed here leaves no run.
        let unfinished = folder.join(format!("{FILE}.new"));
        let _ = std::fs::remove_file(&unfinished);
        let build = || {
            let mut db = Connection::open(&unfinished)?;
            let all = db.transaction()?;
            all.execute_batch(schema::TABLES)?;
            all.execute_batch(schema::SINCE_1)?;
            all.pragma_update(None, "application_id", schema::APPLICATION)?;
            all.pragma_update(None, "user_version", schema::VERSION)?;
            all.commit()?;
            db.close().map_err(|(_, error)| error)
        };
        build().map_err(|source| StoreError::Database {
            path: unfinished.clone(),
            source,
        })?;
        std::fs::rename(&unfinished, &path).map_err(failed)?;
        Self::connect(&path, &path, Some(lock))
    }

    /// Whether there is a run in a folder. One whose process was killed while it wrote down what the run is has not begun.
    pub fn has_begun(folder: &Path) -> Result<bool, StoreError> {
        match existing(folder) {
            Ok(_) => Ok(Self::look(folder)?.text(key::SPACE)?.is_some()),
            Err(_) => Ok(false),
        }
    }

    /// Opens a run to work on it.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = existing(folder)?;
        let lock = lock(folder)?;
        Self::connect(&path, &path, Some(lock))
    }

    /// Opens a run to look at it, also while somebody works on it.
    pub fn look(folder: &Path) -> Result<Self, StoreError> {
        let path = existing(folder)?;
        // Not read-only: a log that a killed process left is to be read, too.
        match Self::connect(&path, &path, None) {
            Err(StoreError::Database { source, .. }) if needs_writing(&source) => {
                // Somebody else's, or on a medium that takes nothing: looked at as a copy.
                let copy = Copied::of(&path)?;
                let mut store = Self::connect(&path, &copy.path.join(FILE), None)?;
                store._copy = Some(copy);
                Ok(store)
            }
            other => other,
        }
    }

    /// Opens the run's database `path`, or the copy of it `at`.
    fn connect(path: &Path, at: &Path, lock: Option<File>) -> Result<Self, StoreError> {
        let path = path.to_owned();
        let open = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let db = Connection::open_with_flags(at, flags)?;
            db.busy_timeout(std::time::Duration::from_secs(10))?;
            let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
            let (application, version) = (number("application_id")?, number("user_version")?);
            let known = (schema::OLDEST..=schema::VERSION).contains(&version);
            if lock.is_some() && application == schema::APPLICATION && known {
                db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
                db.pragma_update(None, "synchronous", "NORMAL")?;
                db.pragma_update(None, "foreign_keys", true)?;
            }
            Ok((db, application, version))
        };
        let (mut db, application, mut version) = open().map_err(|source| match source {
            rusqlite::Error::SqliteFailure(error, _)
                if matches!(
                    error.code,
                    rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt
                ) =>
            {
                StoreError::Damaged {
                    path: path.clone(),
                    what: "it is no SQLite database".into(),
                }
            }
            source => StoreError::Database {
                path: path.clone(),
                source,
            },
        })?;
        if application != schema::APPLICATION {
            return Err(StoreError::Foreign(path));
        }
        if !(schema::OLDEST..=schema::VERSION).contains(&version) {
            return Err(StoreError::Version {
                path,
                found: version,
            });
        }
        if lock.is_some() && version == 1 {
            let mut bring = || {
                let all = db.transaction()?;
                all.execute_batch(schema::SINCE_1)?;
                all.pragma_update(None, "user_version", schema::VERSION)?;
                all.commit()
            };
            bring().map_err(|source| StoreError::Database {
                path: path.clone(),
                source,
            })?;
            version = schema::VERSION;
        }
        let store = Self {
            db,
            path,
            version,
            _copy: None,
            _lock: lock,
            #[cfg(test)]
            left: std::cell::Cell::new(None),
        };
        store.check()?;
        Ok(store)
    }

    /// The database.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn database(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Database {
            path: self.path.clone(),
            source,
        }
    }

    pub(crate) fn damaged(&self, what: impl std::fmt::Display) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            what: what.to_string(),
        }
    }

    /// Where tests end a process: before a transaction.
    fn before_transaction(&self) -> Result<(), StoreError> {
        #[cfg(test)]
        if let Some(left) = self.left.get() {
            self.left.set(Some(left.saturating_sub(1)));
            if left == 0 {
                return Err(self.damaged("killed by the test"));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), StoreError> {
        let said: String = self
            .db
            .pragma_query_value(None, "quick_check", |row| row.get(0))
            .map_err(|source| match source {
                rusqlite::Error::SqliteFailure(error, _)
                    if error.code == rusqlite::ErrorCode::DatabaseCorrupt =>
                {
                    self.damaged("its pages are not those of a database")
                }
                source => self.database(source),
            })?;
        if said == "ok" {
            return Ok(());
        }
        // The check lists every page.
        let mut lines = said.lines().filter(|line| !line.starts_with("***"));
        let first = lines
            .next()
            .unwrap_or("its pages are not those of a database");
        Err(match lines.count() {
            0 => self.damaged(first),
            more => self.damaged(format!("{first}, and {more} more faults")),
        })
    }

    /// A value of the table `run`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        match self.text(key)? {
            Some(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| self.damaged(format!("`{key}` of the table `run`: {error}"))),
            None => Ok(None),
        }
    }

    /// The same, where a run cannot be without it.
    pub fn need<T: DeserializeOwned>(&self, key: &str) -> Result<T, StoreError> {
        self.get(key)?
            .ok_or_else(|| self.damaged(format!("`{key}` is missing in the table `run`")))
    }

    /// Sets a value of the table `run`.
    pub fn put<T: Serialize>(&self, key: &str, value: &T) -> Result<(), StoreError> {
        let text = serde_json::to_string(value).map_err(|error| self.damaged(error))?;
        self.put_text(key, &text)
    }
}

fn existing(folder: &Path) -> Result<PathBuf, StoreError> {
    let path = folder.join(FILE);
    if path.is_file() {
        Ok(path)
    } else {
        Err(StoreError::NoRun(folder.to_owned()))
    }
}

/// Whether a database cannot be opened since nothing can be written beside it: readers write a log's index.
fn needs_writing(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error, rusqlite::Error::SqliteFailure(error, _) if matches!(error.code, CannotOpen | ReadOnly))
}

/// A copy of a database and its log, in a folder of its own that goes with it.
#[derive(Debug)]
struct Copied {
    path: PathBuf,
}

impl Copied {
    fn of(database: &Path) -> Result<Self, StoreError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::File { path, source }
        };
        let mut bytes = vec![(
            FILE.to_owned(),
            std::fs::read(database).map_err(failed(database))?,
        )];
        let log = database.with_file_name(format!("{FILE}-wal"));
        match std::fs::read(&log) {
            Ok(log) => bytes.push((format!("{FILE}-wal"), log)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&log)(error)),
        }
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "r3-evolve-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        // Fails where something is there already: nobody can put a file in its place.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(failed(&path))?;
        let copy = Self { path };
        for (name, bytes) in bytes {
            let at = copy.path.join(name);
            std::fs::write(&at, bytes).map_err(failed(&at))?;
        }
        Ok(copy)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // It is only a folder in a place for temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("run.lock");
    let failed = |source| StoreError::File {
        path: path.clone(),
        source,
    };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests;
