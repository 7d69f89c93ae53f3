//! One timing at a time on a GPU, whichever processes do them.
//!
//! Two programs of this kind on one GPU would measure each other. Around timed sections each holds a lock on a file
//! that is named after the GPU. It goes away with the process, however that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The lock of a GPU.
#[derive(Debug)]
pub struct TimingLock {
    path: PathBuf,
    file: io::Result<File>,
}

/// The lock is held as long as this lives.
#[derive(Debug)]
pub struct Held<'l> {
    file: Option<&'l File>,
    /// Why the lock is not held, for people: times may be disturbed.
    pub note: Option<String>,
}

/// How often a lock that is taken is tried again.
const AGAIN: Duration = Duration::from_millis(5);

impl TimingLock {
    /// For a GPU, by its identity. The file is in `folder`, or where the system keeps temporary files.
    pub fn new(gpu: &str, folder: Option<&Path>) -> Self {
        let name: String = gpu
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        let folder = folder.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let path = folder.join(format!("r3-timing-{name}.lock"));
        let file = open(&path);
        Self { path, file }
    }

    /// Takes the lock, or gives up after some time and says so. `waiting` is called before each further try.
    pub fn hold(&self, timeout: Duration, mut waiting: impl FnMut()) -> Held<'_> {
        let without = |why: String| Held {
            file: None,
            note: Some(format!(
                "other processes may have timed on this GPU at the same time: {why}"
            )),
        };
        let path = self.path.display();
        let file = match &self.file {
            Ok(file) => file,
            Err(error) => return without(format!("{path}: {error}")),
        };
        let until = Instant::now() + timeout;
        loop {
            match file.try_lock() {
                Ok(()) => {
                    return Held {
                        file: Some(file),
                        note: None,
                    };
                }
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    waiting();
                    std::thread::sleep(AGAIN);
                }
                Err(TryLockError::WouldBlock) => {
                    return without(format!(
                        "{path} was held by another one for {:.0} s",
                        timeout.as_secs_f64()
                    ));
                }
                Err(TryLockError::Error(error)) => return without(format!("{path}: {error}")),
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file {
            // The lock ends with the process in any case.
            let _ = file.unlock();
        }
    }
}

/// Everybody may lock the file, and nobody writes to it. Where others' files must not be opened for creation
/// (`fs.protected_regular`), reading is enough.
fn open(path: &Path) -> io::Result<File> {
    let mut create = OpenOptions::new();
    create
        .read(true)
        .append(true)
        .create(true)
        .mode(0o666)
        .custom_flags(libc::O_NOFOLLOW);
    create.open(path).or_else(|_| {
        let mut read = OpenOptions::new();
        read.read(true).custom_flags(libc::O_NOFOLLOW).open(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time_and_the_other_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let lock = || TimingLock::new("GPU-1234/../x", Some(folder.path()));
        let (one, other) = (lock(), lock());
        let held = one.hold(Duration::ZERO, || {});
        assert_eq!(held.note, None);
        let mut tries = 0;
        let refused = other.hold(Duration::from_millis(20), || tries += 1);
        assert!(
            refused
                .note
                .as_deref()
                .is_some_and(|note| note.contains("GPU-1234"))
        );
        assert!(tries > 0);
        drop(refused);
        drop(held);
        assert_eq!(other.hold(Duration::ZERO, || {}).note, None);
    }

    #[test]
    fn without_a_file_times_are_taken_all_the_same() {
        let lock = TimingLock::new("GPU-1", Some(Path::new("/nonexistent/folder")));
        let held = lock.hold(Duration::ZERO, || {});
        assert!(
            held.note
                .as_deref()
                .is_some_and(|note| note.contains("/nonexistent"))
        );
    }

    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("precious");
        std::os::unix::fs::symlink(&target, folder.path().join("r3-timing-GPU-1.lock")).unwrap();
        let lock = TimingLock::new("GPU-1", Some(folder.path()));
        assert!(lock.hold(Duration::ZERO, || {}).note.is_some());
        assert!(!target.exists());
    }
}
