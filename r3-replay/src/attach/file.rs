//! Files of code that a user names.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest file of code that is read, in bytes. Modules of the largest CUDA libraries have 25 MiB of PTX.
pub const LARGEST: u64 = 512 << 20;

/// All bytes of a file.
///
/// # Errors
/// When it cannot be read, or has more than [`LARGEST`] bytes (`/dev/zero` has).
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, LARGEST)
}

fn read_at_most(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(largest + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        let what = format!("more than {} MiB: this is no file of code", largest >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_an_error() {
        let error = read_at_most(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(
            error.to_string(),
            "more than 1 MiB: this is no file of code"
        );
    }

    #[test]
    fn a_file_of_the_largest_size_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 1000]).unwrap();
        assert_eq!(read_at_most(file.path(), 1000).unwrap().len(), 1000);
        assert!(read_at_most(file.path(), 999).is_err());
    }
}
