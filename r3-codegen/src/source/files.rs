//! Files that a user names: read as far as files of their kind go, and no further.
//!
//! A name may be that of a device, a pipe, a folder, or of something with gigabytes. None of them may fill the memory or be waited
//! for without end: what is longer than its kind ever is, or brings nothing, is an error that says so. Callers name the file.

use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Longest file of settings, tolerances, spaces and options, in bytes.
pub const SETTINGS: u64 = 4 << 20;

/// Longest source, in bytes.
pub const SOURCE: u64 = 8 << 20;

/// Longest list of candidates or of compile commands, and longest table of a measured space, in bytes.
pub const LIST: u64 = 512 << 20;

/// Longest file of code, in bytes. Modules of the largest CUDA libraries have 25 MiB of PTX.
pub const CODE: u64 = 512 << 20;

/// What is read of a device at most: they have no end, or no content.
const DEVICE: u64 = 1 << 20;

/// How long a pipe or a terminal may bring nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// All bytes of a file, which may be a pipe.
///
/// # Errors
/// When it cannot be read, is a folder or a socket, has more than `longest` bytes, or is a pipe that brings nothing.
pub fn read(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (file, longest) = opened(path, longest)?;
    file.take(longest.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= longest => Ok(bytes),
        _ => Err(too_long(longest)),
    }
}

/// All of a file of text.
///
/// # Errors
/// As [`read`], and when it is no UTF-8.
pub fn text(path: &Path, longest: u64) -> io::Result<String> {
    let bytes = read(path, longest)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let bytes = error.as_bytes();
        let wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        let what = match wide {
            true => "it is text in UTF-16: `iconv -f UTF-16 -t UTF-8` makes it one that can be read".to_owned(),
            false => format!(
                "it is no text in UTF-8 ({}). `iconv -t UTF-8` makes it one where it is text in another encoding",
                error.utf8_error()
            ),
        };
        Error::new(ErrorKind::InvalidData, what)
    })?;
    match text.find('\0') {
        Some(at) => Err(Error::new(
            ErrorKind::InvalidData,
            format!("it is no text: byte {at} of it is NUL"),
        )),
        None => Ok(text),
    }
}

/// Opens a file, and says how much is read of it at most.
fn opened(path: &Path, longest: u64) -> io::Result<(Patient, u64)> {
    // A pipe that nobody writes to would be waited for.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            // A socket, or a device that is not there.
            Some(libc::ENXIO) => Error::new(error.kind(), "this is no file"),
            _ => error,
        })?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "this is a folder"));
    }
    if about.is_file() && about.len() > longest {
        return Err(too_long(longest));
    }
    let kind = about.file_type();
    let is_device = kind.is_char_device() || kind.is_block_device();
    let patient = Patient {
        is_pipe: kind.is_fifo(),
        file,
        any: false,
    };
    let longest = if is_device {
        longest.min(DEVICE)
    } else {
        longest
    };
    Ok((patient, longest))
}

fn too_long(longest: u64) -> Error {
    let size = match longest {
        0..1024 => format!("{longest} bytes"),
        0x400..0x10_0000 => format!("{} KiB", longest >> 10),
        _ => format!("{} MiB", longest >> 20),
    };
    Error::new(
        ErrorKind::FileTooLarge,
        format!("it has more than {size}, the most that is read of a file of this kind"),
    )
}

/// A file that does not block, of which something is waited for, and not longer than is reasonable.
struct Patient {
    file: File,
    is_pipe: bool,
    any: bool,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buffer) {
                Ok(0) if self.is_pipe && !self.any && !buffer.is_empty() => {
                    return Err(Error::new(
                        ErrorKind::UnexpectedEof,
                        "this is a pipe, and nobody writes to it",
                    ));
                }
                Ok(count) => {
                    self.any |= count > 0;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&self.file, PATIENCE)?,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits until there is something to be read.
fn wait(file: &File, patience: Duration) -> io::Result<()> {
    let mut wanted = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let milliseconds = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one structure, which lives until the call returns; the file is open.
    match unsafe { libc::poll(&raw mut wanted, 1, milliseconds) } {
        0 => Err(Error::new(
            ErrorKind::TimedOut,
            format!("nothing came out of it within {} s", patience.as_secs()),
        )),
        count if count < 0 => match Error::last_os_error() {
            // A signal, of a child that ended or a window that changed: there is nothing to read yet, and it is waited for again.
            error if error.kind() == ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    fn pipe(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        path
    }

    #[test]
    fn what_is_no_file_of_its_kind_is_refused_in_words_and_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large");
        // Without blocks on the disk.
        File::create(&large).unwrap().set_len(10 << 30).unwrap();
        let socket = folder.path().join("socket");
        let _listens = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, said) in [
            ("/dev/zero".into(), "more than 64 KiB"),
            ("/dev/urandom".into(), "more than 64 KiB"),
            (large, "more than 64 KiB"),
            (folder.path().to_owned(), "this is a folder"),
            (pipe(folder.path()), "nobody writes to it"),
            (socket, "this is no file"),
            (folder.path().join("none"), "No such file"),
        ] {
            let error = text(&path, 64 << 10).unwrap_err().to_string();
            assert!(error.contains(said), "{}: {error}", path.display());
        }
        // As long as its kind goes is not too long.
        let exact = folder.path().join("exact");
        std::fs::write(&exact, [b'x'; 1000]).unwrap();
        assert_eq!(read(&exact, 1000).unwrap().len(), 1000);
        assert!(read(&exact, 999).is_err());
    }

    #[test]
    fn pipes_with_a_writer_and_files_without_a_length_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        // Open on both ends, as `<(…)` is.
        let mut both = File::options().read(true).write(true).open(&path).unwrap();
        both.write_all(b"depth = 3").unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || text(&path, 1 << 10)
        });
        let mut more = writer;
        more.write_all(b"\n").unwrap();
        // What it has not read when both are closed would be lost.
        while !reader.is_finished() && waiting(&both) > 0 {
            std::thread::yield_now();
        }
        drop((both, more));
        assert_eq!(reader.join().unwrap().unwrap(), "depth = 3\n");
        assert!(
            text(Path::new("/proc/self/status"), 1 << 20)
                .unwrap()
                .contains("Pid")
        );
        assert_eq!(text(Path::new("/dev/null"), 1 << 20).unwrap(), "");
    }

    /// Bytes in a pipe.
    fn waiting(pipe: &File) -> i32 {
        let mut bytes = 0;
        // SAFETY: the request writes a number into the place that it is given.
        unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
        bytes
    }

    #[test]
    fn a_pipe_that_stays_silent_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let both = File::options().read(true).write(true).open(&path).unwrap();
        let error = wait(&both, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("nothing came out of it"), "{error}");
    }

    #[test]
    fn text_in_other_encodings_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.cu");
        for (bytes, said) in [
            (&b"\xff\xfe_\0_\0"[..], "UTF-16"),
            (b"\xfe\xff\0_", "UTF-16"),
            (b"// caf\xe9\n", "no text in UTF-8"),
            (b"\x7fELF\x02\x01\xff", "no text in UTF-8"),
            (b"int a;\0int b;", "byte 6 of it is NUL"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = text(&path, SOURCE).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
