//! A server: started, stopped, ended.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::address::Address;
use super::backend::Backend;
use super::connections::{accept_tcp, accept_unix};
use super::hub::Hub;
use super::listen::{Claim, ListenError, Listener, Socket};
use super::routes;
use super::token::{Token, random_hex};

/// Requests at a time that wait for an archive or a device.
const LONG_REQUESTS: usize = 8;
/// Large bodies that are read at a time.
const LARGE_BODIES: usize = 4;
/// How long the backend may take to end its workers.
const WORKERS_END: Duration = Duration::from_secs(15);
/// How long clients may take to read the last of their answers.
const CLIENTS_END: Duration = Duration::from_secs(3);

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where it listens: one place or several.
    pub listen: Vec<Address>,
    /// What clients must know. TCP is not without.
    pub token: Option<Token>,
    /// Bytes of events and outcomes that are kept for clients.
    pub history: usize,
    /// Connections at a time.
    pub connections: usize,
    /// How long clients may take.
    pub patience: Patience,
}

/// How long clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the head of a request; and how long a connection may be idle.
    pub head: Duration,
    /// For the body of a request.
    pub body: Duration,
    /// Without reading anything of an answer.
    pub stall: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(60),
            stall: Duration::from_secs(60),
        }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            token: None,
            history: 256 << 20,
            connections: 256,
            patience: Patience::default(),
        }
    }
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No address.
    #[error("there is no address to listen on")]
    Nowhere,
    /// TCP without a token.
    #[error(
        "{0}: over TCP every user and program of this machine can reach the server, so that it needs a token"
    )]
    NoToken(Address),
    /// The system refused something else.
    #[error("the server cannot be started: {0}")]
    Own(std::io::Error),
}

/// What connections share.
pub(super) struct Shared {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) hub: Hub,
    pub(super) token: Option<Token>,
    pub(super) instance: String,
    pub(super) most_connections: usize,
    pub(super) connections: Arc<Semaphore>,
    pub(super) long: Semaphore,
    pub(super) bodies: Semaphore,
    pub(super) counters: Counters,
    pub(super) patience: Patience,
    stop: watch::Sender<bool>,
}

/// Counts since the start.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) refused: AtomicU64,
    pub(super) unauthorized: AtomicU64,
    pub(super) requests: AtomicU64,
}

impl Shared {
    /// Lets the server end.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns when it ends.
    pub(super) async fn stopping(&self) {
        // The sender lives as long as this.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}

/// A server that answers. [`wait`](Self::wait) ends it.
pub struct Server {
    runtime: Runtime,
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    public: bool,
    claims: Vec<Claim>,
}

/// Ends a server from elsewhere.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Lets the server end; [`Server::wait`] returns when it has.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Server {
    /// Listens, and answers from now on.
    pub fn start(backend: Arc<dyn Backend>, options: &ServerOptions) -> Result<Self, ServeError> {
        if options.listen.is_empty() {
            return Err(ServeError::Nowhere);
        }
        if options.token.is_none()
            && let Some(tcp) = options
                .listen
                .iter()
                .find(|address| matches!(address, Address::Tcp(..)))
        {
            return Err(ServeError::NoToken(tcp.clone()));
        }
        let listeners = options
            .listen
            .iter()
            .map(Listener::bind)
            .collect::<Result<Vec<_>, _>>()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(64)
            .thread_name("serve")
            .enable_all()
            .build()
            .map_err(ServeError::Own)?;
        let shared = Arc::new(Shared {
            backend,
            hub: Hub::new(options.history),
            token: options.token.clone(),
            instance: random_hex(8).map_err(ServeError::Own)?,
            most_connections: options.connections,
            connections: Arc::new(Semaphore::new(options.connections)),
            long: Semaphore::new(LONG_REQUESTS),
            bodies: Semaphore::new(LARGE_BODIES),
            counters: Counters::default(),
            patience: options.patience,
            stop: watch::Sender::new(false),
        });
        let mut server = Self {
            runtime,
            shared,
            addresses: Vec::new(),
            public: false,
            claims: Vec::new(),
        };
        let followed = Arc::clone(&server.shared);
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || followed.hub.follow(&*followed.backend))
            .map_err(ServeError::Own)?;
        for listener in listeners {
            server.answer(listener)?;
        }
        Ok(server)
    }

    fn answer(&mut self, listener: Listener) -> Result<(), ServeError> {
        let router = routes::router(Arc::clone(&self.shared));
        let shared = Arc::clone(&self.shared);
        let _inside = self.runtime.enter();
        match listener.socket {
            Socket::Unix(socket) => {
                socket.set_nonblocking(true).map_err(ServeError::Own)?;
                let socket = UnixListener::from_std(socket).map_err(ServeError::Own)?;
                self.runtime.spawn(accept_unix(shared, router, socket));
            }
            Socket::Tcp(socket) => {
                socket.set_nonblocking(true).map_err(ServeError::Own)?;
                let socket = TcpListener::from_std(socket).map_err(ServeError::Own)?;
                self.runtime.spawn(accept_tcp(shared, router, socket));
            }
        }
        self.addresses.push(listener.address);
        self.public |= listener.public;
        self.claims.extend(listener.claim);
        Ok(())
    }

    /// Where it listens, with ports that the system chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Whether other machines can reach it.
    pub fn is_public(&self) -> bool {
        self.public
    }

    /// This start of it.
    pub fn instance(&self) -> &str {
        &self.shared.instance
    }

    /// Ends it from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Waits until somebody ends it (by the endpoint or a [`Stopper`]), then ends everything: running jobs are
    /// cancelled, workers have ended, clients were told, and the socket file is gone.
    pub fn wait(self) {
        let Self {
            runtime,
            shared,
            claims,
            ..
        } = self;
        runtime.block_on(async {
            shared.stopping().await;
            let backend = Arc::clone(&shared.backend);
            let ended = tokio::task::spawn_blocking(move || backend.shutdown());
            // Whatever the workers do, the process ends, and they with it.
            let _ = timeout(WORKERS_END, ended).await;
            let mut newest = shared.hub.newest();
            let _ = timeout(CLIENTS_END, newest.wait_for(|newest| newest.ended)).await;
            let all = u32::try_from(shared.most_connections).unwrap_or(u32::MAX);
            let _ = timeout(CLIENTS_END, shared.connections.acquire_many(all)).await;
        });
        drop(claims);
        runtime.shutdown_timeout(CLIENTS_END);
    }
}
