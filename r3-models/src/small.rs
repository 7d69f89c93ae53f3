//! Small files that settings name: read as far as files of their kind go.
//!
//! A pipe is waited for: a program that gives a key may ask its user first.

use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::path::Path;

/// Longest file of a key, in bytes.
pub const KEY: u64 = 64 << 10;

/// Longest file of certificates, in bytes. Those of whole distributions have 300 KiB.
pub const CERTIFICATES: u64 = 16 << 20;

/// All bytes of a file, of which there are `longest` at most.
pub fn bytes(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(longest.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= longest) {
        return Ok(bytes);
    }
    Err(Error::new(
        ErrorKind::FileTooLarge,
        format!(
            "it has more than {} KiB, the most that is read of a file of this kind",
            longest >> 10
        ),
    ))
}

/// As [`bytes`], of a file of text.
pub fn text(path: &Path, longest: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, longest)?)
        .map_err(|error| Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_read_further_than_its_kind_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in [0, 1, 1 << 10, (1 << 10) + 1, 1 << 20] {
            std::fs::write(&path, vec![b'k'; length]).unwrap();
            let read = text(&path, 1 << 10);
            assert_eq!(read.is_ok(), length <= 1 << 10, "{length}: {read:?}");
        }
        let endless = bytes(Path::new("/dev/zero"), KEY).unwrap_err().to_string();
        assert!(endless.contains("64 KiB"), "{endless}");
        std::fs::write(&path, [0xff]).unwrap();
        assert!(text(&path, KEY).is_err());
    }
}
