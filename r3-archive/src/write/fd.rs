//! The file's descriptor, in a process that is not ours.
//!
//! Programs close descriptors that they did not open (daemons, launchers), and the number is then
//! given to something else. Growing or truncating that would destroy the program's data, so the
//! descriptor is compared with the file before each such call, and opened again when it is lost.

use std::{
    ffi::CString,
    fs::File,
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
    is_named: bool,
}

impl Fd {
    /// Creates the file, without its name where the file system can do that: a process killed before
    /// [`publish`](Self::publish) leaves nothing behind. Fails when the file exists.
    pub fn create(path: &Path) -> io::Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // What a GPU's memory holds is as private as a core file.
        let mut options = File::options();
        options.read(true).write(true).mode(0o600);
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let nameless = options
            .clone()
            .custom_flags(libc::O_TMPFILE)
            .open(folder.unwrap_or(Path::new(".")));
        let (file, is_named) = match nameless {
            Ok(file) => (file, false),
            // Not on this file system (NFS, some FUSE file systems).
            Err(_) => (options.create_new(true).open(path)?, true),
        };
        let file = move_up(file);
        let metadata = file.metadata()?;
        Ok(Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            file: ManuallyDrop::new(file),
            owner: std::process::id(),
            is_named,
        })
    }

    /// Gives the file its name. Fails when another file has it.
    pub fn publish(&mut self) -> io::Result<()> {
        if self.is_named {
            return Ok(());
        }
        let from = CString::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        let to = CString::new(self.path.as_os_str().as_bytes())?;
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
        self.is_named = true;
        Ok(())
    }

    /// Takes back a file that could not be begun.
    pub fn discard(self) {
        if self.is_named {
            let _ = std::fs::remove_file(&self.path);
        }
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
