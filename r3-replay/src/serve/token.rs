//! The secret that a client must know.

use std::fmt;
use std::hint::black_box;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Characters at least, so that nobody guesses it.
const SHORTEST: usize = 16;

/// Characters at most, so that it fits into a header.
const LONGEST: usize = 1024;

/// A secret shared by a server and its clients, sent as `Authorization: Bearer …`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("{path}: the token cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others can read the file.
    #[error(
        "{path}: mode {mode:o} lets others read the token: `chmod 600` it, and better change the token too"
    )]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It cannot be a token.
    #[error("{place}: a token has {SHORTEST} to {LONGEST} visible ASCII characters in one line")]
    Form {
        /// The file, or what else it came from.
        place: String,
    },
    /// The system has no random numbers.
    #[error("no token can be made: the system gives no random numbers: {0}")]
    Random(std::io::Error),
}

impl Token {
    /// A new one: 256 random bits.
    pub fn generate() -> Result<Self, TokenError> {
        random_hex(32).map(Self).map_err(TokenError::Random)
    }

    /// The only line of a file that nobody else can read.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Read {
            path: path.to_owned(),
            source,
        };
        // A pipe would be waited for.
        let file = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(TokenError::Readable {
                path: path.to_owned(),
                mode,
            });
        }
        let mut text = String::new();
        file.take(LONGEST as u64 + 2)
            .read_to_string(&mut text)
            .map_err(failed)?;
        Self::new(
            text.trim_end_matches(['\r', '\n']),
            &path.display().to_string(),
        )
    }

    /// A given one. `place` is where it came from, for the error.
    pub fn new(text: &str, place: &str) -> Result<Self, TokenError> {
        let fits = (SHORTEST..=LONGEST).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(TokenError::Form {
                place: place.to_owned(),
            })
        }
    }

    /// Whether `given` is it. Takes as long whatever of it is right; only its length shows.
    pub fn matches(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        if own.len() != given.len() {
            return false;
        }
        let difference = own
            .iter()
            .zip(given)
            .fold(0, |all, (own, given)| black_box(all | (own ^ given)));
        black_box(difference) == 0
    }

    /// The secret itself, to be sent or shown once.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// So many random bytes as hexadecimal digits.
pub(super) fn random_hex(count: usize) -> std::io::Result<String> {
    let mut bytes = vec![0u8; count];
    // SAFETY: the buffer is valid for its length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // Up to 256 bytes come whole.
    if usize::try_from(got) != Ok(count) {
        return Err(std::io::Error::last_os_error());
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_matches_itself_alone_and_is_not_printed() {
        let token = Token::generate().unwrap();
        let secret = token.secret().to_owned();
        assert_eq!(secret.len(), 64);
        assert!(token.matches(secret.as_bytes()));
        assert!(!token.matches(&secret.as_bytes()[1..]));
        assert!(!token.matches(b""));
        for place in 0..secret.len() {
            let mut other = secret.clone().into_bytes();
            other[place] ^= 1;
            assert!(!token.matches(&other));
        }
        assert!(!format!("{token:?}").contains(&secret));
        assert_ne!(Token::generate().unwrap(), token);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_and_so_is_what_nobody_would_call_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        write("0123456789abcdef\n", 0o600);
        assert!(Token::read(&path).unwrap().matches(b"0123456789abcdef"));
        write("0123456789abcdef\n", 0o640);
        assert!(matches!(
            Token::read(&path),
            Err(TokenError::Readable { mode: 0o640, .. })
        ));
        for text in [
            "",
            "short",
            "0123456789abcdef\nsecond line",
            "0123456789 abcdef",
            &"a".repeat(1025),
        ] {
            write(text, 0o600);
            assert!(
                matches!(Token::read(&path), Err(TokenError::Form { .. })),
                "{text}"
            );
        }
    }
}
