//! Sockets to listen on.
//!
//! A server owns the path of its socket by a lock on a file beside it. Whoever has the lock may replace a socket file: its
//! server was killed. Whoever does not get it is told that there is a server.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::address::Address;

/// A socket that is listened on.
#[derive(Debug)]
pub struct Listener {
    /// Where, with the port that the system chose.
    pub address: Address,
    /// Whether other machines can reach it.
    pub public: bool,
    pub(super) socket: Socket,
    /// Removes the socket file.
    pub(super) claim: Option<Claim>,
}

#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// There is a server already.
    #[error("{address}: a server listens there{}. `r3-replay status --connect {address}` shows it", of_process(*.process))]
    Taken {
        /// The address.
        address: Address,
        /// The server's process, when it is known.
        process: Option<u32>,
    },
    /// Something else has the name.
    #[error("{path} is no socket, and is not replaced: remove it, or choose another address")]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// Anything else.
    #[error("{address}: {what}: {source}")]
    Failed {
        /// The address.
        address: Address,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

fn of_process(process: Option<u32>) -> String {
    process.map_or(String::new(), |id| format!(" (process {id})"))
}

impl Listener {
    /// Listens.
    pub fn bind(address: &Address) -> Result<Self, ListenError> {
        let failed = |what| {
            move |source| ListenError::Failed {
                address: address.clone(),
                what,
                source,
            }
        };
        match address {
            Address::Unix(path) => {
                let mut claim = Claim::take(address, path)?;
                let socket = UnixListener::bind(path).map_err(failed("cannot listen"))?;
                // Only this user may connect; who connects before this line is asked for his identity as everybody is.
                let private = std::fs::Permissions::from_mode(0o600);
                std::fs::set_permissions(path, private)
                    .map_err(failed("the socket's mode cannot be set"))?;
                claim.bound = identity(path);
                Ok(Self {
                    address: address.clone(),
                    public: false,
                    socket: Socket::Unix(socket),
                    claim: Some(claim),
                })
            }
            Address::Tcp(host, port) => {
                let socket = TcpListener::bind((host.as_str(), *port)).map_err(|source| {
                    if source.kind() == std::io::ErrorKind::AddrInUse {
                        ListenError::Taken {
                            address: address.clone(),
                            process: None,
                        }
                    } else {
                        failed("cannot listen")(source)
                    }
                })?;
                let local = socket.local_addr().map_err(failed("no address"))?;
                Ok(Self {
                    address: Address::Tcp(host.clone(), local.port()),
                    public: !local.ip().is_loopback(),
                    socket: Socket::Tcp(socket),
                    claim: None,
                })
            }
        }
    }
}

/// The right to a socket's path, as long as this lives.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    lock: PathBuf,
    /// The socket file, once it is there: nobody else's is removed.
    bound: Option<(u64, u64)>,
    _held: File,
}

impl Claim {
    fn take(address: &Address, path: &Path) -> Result<Self, ListenError> {
        let failed = |what| {
            move |source| ListenError::Failed {
                address: address.clone(),
                what,
                source,
            }
        };
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        let mut held = loop {
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&lock)
                .map_err(failed("its lock file cannot be made"))?;
            // SAFETY: takes numbers.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::WouldBlock {
                    return Err(failed("its lock file cannot be locked")(error));
                }
                let mut text = String::new();
                // It says who has it, if it does.
                let _ = (&file).take(32).read_to_string(&mut text);
                return Err(ListenError::Taken {
                    address: address.clone(),
                    process: text.trim().parse().ok(),
                });
            }
            // Another server may have removed the file between opening and locking.
            let own = file.metadata().map(|own| (own.dev(), own.ino())).ok();
            if own.is_some() && identity(&lock) == own {
                break file;
            }
        };
        held.set_len(0)
            .and_then(|()| held.rewind())
            .and_then(|()| writeln!(held, "{}", std::process::id()))
            .map_err(failed("its lock file cannot be written"))?;
        let claim = Self {
            path: path.to_owned(),
            lock,
            bound: None,
            _held: held,
        };
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("cannot listen")(error)),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(ListenError::NoSocket {
                    path: path.to_owned(),
                });
            }
            // A server of another kind takes no lock.
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(ListenError::Taken {
                    address: address.clone(),
                    process: None,
                });
            }
            Ok(_) => std::fs::remove_file(path).map_err(failed(
                "the socket of a server that was killed cannot be removed",
            ))?,
        }
        Ok(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The lock's file goes last, as long as it is locked.
        if self.bound.is_some() && identity(&self.path) == self.bound {
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = std::fs::remove_file(&self.lock);
    }
}

/// Which file a path names.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_server_on_a_socket_is_refused_and_the_file_goes_with_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.sock");
        let address = Address::Unix(path.clone());
        let first = Listener::bind(&address).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        match Listener::bind(&address) {
            Err(ListenError::Taken { process, .. }) => {
                assert_eq!(process, Some(std::process::id()))
            }
            other => panic!("{other:?}"),
        }
        drop(first);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        Listener::bind(&address).unwrap();
    }

    #[test]
    fn the_socket_of_a_killed_server_is_replaced_and_anything_else_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.sock");
        let address = Address::Unix(path.clone());
        // Nobody listens any more, and the file is still there.
        drop(UnixListener::bind(&path).unwrap());
        drop(Listener::bind(&address).unwrap());

        std::fs::write(&path, "notes").unwrap();
        assert!(matches!(
            Listener::bind(&address),
            Err(ListenError::NoSocket { .. })
        ));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes");
        std::fs::remove_file(&path).unwrap();

        let other = UnixListener::bind(&path).unwrap();
        assert!(matches!(
            Listener::bind(&address),
            Err(ListenError::Taken { process: None, .. })
        ));
        drop(other);
        assert!(path.exists());
    }
}
