//! The file's descriptor, in a process that is not ours.
//!
//! Programs close descriptors that they did not open (daemons, launchers), and the number is then
//! given to something else. Growing or truncating that would destroy the program's data, so the
//! descriptor is compared with the file before each such call, and opened again when it is lost.

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io,
    mem::ManuallyDrop,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::ffi::OsStrExt,
        unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// Descriptors are moved here, where programs that count on small numbers do not notice them.
const LOWEST: libc::c_int = 200;

pub(super) struct Fd {
    path: PathBuf,
    device: u64,
    inode: u64,
    file: ManuallyDrop<File>,
    owner: u32,
}

impl Fd {
    /// Creates the file with `start` in it; fails when it exists. Where the file system can do
    /// that, it gets its name only then: a process that is killed leaves nothing, or a file that
    /// can be read.
    pub fn create(path: &Path, start: &[u8]) -> io::Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match Self::create_nameless(path, start) {
            // Not on this file system (NFS, some FUSE file systems), or there is no /proc.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Self::create_named(path, start)
            }
            done => done,
        }
    }

    fn create_nameless(path: &Path, start: &[u8]) -> io::Result<Self> {
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let file = move_up(options().custom_flags(libc::O_TMPFILE).open(folder)?);
        begin(&file, start)?;
        let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let to = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: both are C strings.
        let linked = unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        };
        if linked != 0 {
            return Err(io::Error::last_os_error());
        }
        Self::new(path, file)
    }

    fn create_named(path: &Path, start: &[u8]) -> io::Result<Self> {
        let file = move_up(options().create_new(true).open(path)?);
        begin(&file, start)
            .and_then(|()| Self::new(path, file))
            .inspect_err(|_| {
                let _ = std::fs::remove_file(path);
            })
    }

    fn new(path: &Path, file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            file: ManuallyDrop::new(file),
            owner: std::process::id(),
        })
    }

    fn is(&self, file: &File) -> bool {
        file.metadata()
            .is_ok_and(|m| m.dev() == self.device && m.ino() == self.inode)
    }

    /// The file, or `None` when it cannot be reached any more.
    pub fn file(&mut self) -> Option<&File> {
        if !self.is(&self.file) {
            // The number is not ours any more: it must not be closed.
            let again = File::options()
                .read(true)
                .write(true)
                .open(&self.path)
                .ok()?;
            if !self.is(&again) {
                return None;
            }
            self.file = ManuallyDrop::new(move_up(again));
        }
        Some(&self.file)
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        if self.owner == std::process::id() && self.is(&self.file) {
            // SAFETY: `self.file` is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.file) }
        }
    }
}

fn options() -> OpenOptions {
    let mut options = File::options();
    // What a GPU's memory holds is as private as a core file.
    options.read(true).write(true).mode(0o600);
    options
}

fn begin(file: &File, start: &[u8]) -> io::Result<()> {
    allocate(file, 0, start.len() as u64)?;
    file.write_all_at(start, 0)
}

fn move_up(file: File) -> File {
    // SAFETY: duplicates a descriptor that `file` keeps open.
    let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, LOWEST) };
    if moved < 0 {
        return file;
    }
    // SAFETY: `moved` is new, and nobody else owns it.
    unsafe { File::from_raw_fd(moved) }
}

/// Gives the file the range from `len` to `new_len`, with blocks behind every byte, so that a
/// write to its mapping cannot fail.
pub(super) fn allocate(file: &File, len: u64, new_len: u64) -> io::Result<()> {
    // The kernel answers a file above the limit with SIGXFSZ, which would end the process.
    if new_len > size_limit() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let (Ok(offset), Ok(count)) = (
        libc::off_t::try_from(len),
        libc::off_t::try_from(new_len.saturating_sub(len)),
    ) else {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    };
    loop {
        // SAFETY: a system call on an open descriptor.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, count) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // Not on this file system (NFS 3, FAT, some FUSE file systems).
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => {
                return write_zeros(file, len, new_len);
            }
            _ => return Err(error),
        }
    }
}

/// What `allocate` does where the system has no call for it.
pub(super) fn write_zeros(file: &File, len: u64, new_len: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut at = len;
    while at < new_len {
        let count = (new_len - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

/// What the file may take of the file system beyond what it needs now: most of what is free is
/// left to the program.
pub(super) fn spare(file: &File) -> u64 {
    // SAFETY: a statvfs of zeros is valid, and the call writes to it only.
    let (failed, found) = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::fstatvfs(file.as_raw_fd(), &mut found) != 0, found)
    };
    if failed {
        u64::MAX
    } else {
        found.f_bavail.saturating_mul(found.f_frsize) / 8
    }
}

/// The process's limit on the size of a file.
pub(super) fn size_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes to `limit` only.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0 {
        limit.rlim_cur
    } else {
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_written_where_the_system_cannot_allocate() {
        let dir = tempfile::tempdir().unwrap();
        let mut fd = Fd::create(&dir.path().join("a"), b"").unwrap();
        let file = fd.file().unwrap();
        file.write_all_at(b"before", 0).unwrap();
        write_zeros(file, 4096, 300_001).unwrap();
        let bytes = std::fs::read(dir.path().join("a")).unwrap();
        assert_eq!(bytes.len(), 300_001);
        assert!(bytes.starts_with(b"before") && bytes[6..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_file_is_begun_with_and_without_the_help_of_the_file_system() {
        for create in [Fd::create, Fd::create_nameless, Fd::create_named] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            drop(create(&path, b"start").unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), b"start");
            let again = create(&path, b"again").map(drop).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&path).unwrap(), b"start");
            assert_eq!(dir.path().read_dir().unwrap().count(), 1);
        }
    }

    #[test]
    fn a_descriptor_that_became_another_file_is_opened_again_and_not_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut fd = Fd::create(&path, b"").unwrap();
        let other = File::create(dir.path().join("other")).unwrap();
        let number = fd.file().unwrap().as_raw_fd();
        // SAFETY: `number` is the descriptor of `fd`, which must cope with exactly this.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert_ne!(fd.file().unwrap().as_raw_fd(), number);
        fd.file().unwrap().write_all_at(b"mine", 0).unwrap();
        drop(fd);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        assert_eq!(other.metadata().unwrap().len(), 0);
        // SAFETY: takes over the descriptor made by `dup2`, which is still open.
        assert!(unsafe { File::from_raw_fd(number) }.metadata().is_ok());
    }
}
