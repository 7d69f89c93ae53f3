//! Where a server listens.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes of a path that fit into the address of a Unix socket, without the zero at its end.
const LONGEST_PATH: usize = 107;

/// Where a server listens: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A socket file.
    Unix(PathBuf),
    /// A host (name, IPv4 address, or IPv6 address without brackets) and a port; port 0 is any free one.
    Tcp(String, u16),
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is written in another way.
    #[error("`{0}` is no address: `unix:PATH` or `tcp:HOST:PORT` is expected")]
    Syntax(String),
    /// The port is no number.
    #[error("`{text}`: `{port}` is no port: a number from 0 to 65535 is expected")]
    Port {
        /// The whole address.
        text: String,
        /// The port.
        port: String,
    },
    /// The path is longer than the system takes.
    #[error(
        "{path}: the path of a socket has {LONGEST_PATH} bytes at most, and this one has {len}: choose a shorter one"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        len: usize,
    },
    /// The folder for sockets cannot be made.
    #[error("{path}: the folder for sockets cannot be made: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others could put a socket there.
    #[error(
        "{path} is not a folder that only this user can enter: {why}. Give another place with `unix:PATH`"
    )]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Address {
    /// The default: `r3-replay/serve.sock` in `XDG_RUNTIME_DIR`, else `serve.sock` in a private folder among the temporary
    /// files. The folder is made, and must be this user's alone.
    pub fn of_user() -> Result<Self, AddressError> {
        let folder = match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
            Some(runtime) => PathBuf::from(runtime).join("r3-replay"),
            None => std::env::temp_dir().join(format!("r3-replay-{}", user())),
        };
        private_folder(&folder)?;
        Self::unix(folder.join("serve.sock"))
    }

    /// A socket file.
    pub fn unix(path: PathBuf) -> Result<Self, AddressError> {
        let len = path.as_os_str().as_bytes().len();
        if len > LONGEST_PATH {
            return Err(AddressError::TooLong { path, len });
        }
        Ok(Self::Unix(path))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let syntax = || AddressError::Syntax(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(syntax)?;
        match kind {
            "unix" if !rest.is_empty() => Self::unix(PathBuf::from(OsStr::new(rest))),
            "tcp" => {
                let (host, port) = rest.rsplit_once(':').ok_or_else(syntax)?;
                let bracketed = host
                    .strip_prefix('[')
                    .and_then(|host| host.strip_suffix(']'));
                // An IPv6 address without brackets could have its last part taken for a port.
                let host = bracketed.unwrap_or(host);
                if host.is_empty() || (bracketed.is_none() && host.contains(':')) {
                    return Err(syntax());
                }
                let port = port.parse().map_err(|_| AddressError::Port {
                    text: text.to_owned(),
                    port: port.to_owned(),
                })?;
                Ok(Self::Tcp(host.to_owned(), port))
            }
            _ => Err(syntax()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host, port) if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "tcp:{host}:{port}"),
        }
    }
}

/// Makes a folder that only this user can enter, or makes sure that one is so.
pub(super) fn private_folder(path: &Path) -> Result<(), AddressError> {
    let made = std::fs::DirBuilder::new().mode(0o700).create(path);
    if let Err(source) = made
        && source.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(AddressError::Folder {
            path: path.to_owned(),
            source,
        });
    }
    // Not what a link leads to: somebody else may have made the link.
    let found = std::fs::symlink_metadata(path).map_err(|source| AddressError::Folder {
        path: path.to_owned(),
        source,
    })?;
    let why = if !found.is_dir() {
        Some("it is something else".to_owned())
    } else if found.uid() != user() {
        Some(format!("it belongs to user {}", found.uid()))
    } else if found.mode() & 0o077 != 0 {
        Some(format!("its mode is {:o}, not 700", found.mode() & 0o7777))
    } else {
        None
    };
    match why {
        None => Ok(()),
        Some(why) => Err(AddressError::NotPrivate {
            path: path.to_owned(),
            why,
        }),
    }
}

/// Who this process acts as.
pub(super) fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_address_comes_back_as_it_was_written() {
        for text in [
            "unix:/run/user/1000/r3.sock",
            "unix:relative.sock",
            "tcp:localhost:7333",
            "tcp:127.0.0.1:0",
            "tcp:[::1]:65535",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_is_expected() {
        for text in [
            "",
            "unix:",
            "/run/r3.sock",
            "tcp:localhost",
            "tcp::1",
            "tcp:::1:80",
            "http:a:1",
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("tcp:HOST:PORT"), "{text}: {error}");
        }
        for text in ["tcp:localhost:65536", "tcp:localhost:-1", "tcp:localhost:"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("65535"), "{text}: {error}");
        }
        let long = format!("unix:/{}", "a".repeat(107));
        assert!(
            long.parse::<Address>()
                .unwrap_err()
                .to_string()
                .contains("108")
        );
    }

    #[test]
    fn a_folder_that_others_can_enter_and_a_link_hold_no_sockets() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(
            private_folder(&open),
            Err(AddressError::NotPrivate { .. })
        ));

        let private = folder.path().join("private");
        private_folder(&private).unwrap();
        private_folder(&private).unwrap();
        let mode = std::fs::metadata(&private).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);

        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&private, &link).unwrap();
        assert!(matches!(
            private_folder(&link),
            Err(AddressError::NotPrivate { .. })
        ));
    }
}
