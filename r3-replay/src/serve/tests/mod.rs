//! The protocol against a backend that does what a test says, over Unix sockets and TCP.

mod docs;
mod hostile;
mod protocol;
mod raw;
mod scripted;
mod streams;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::address::Address;
use super::client::Client;
use super::server::{Server, ServerOptions, Stopper};
use super::token::Token;
use crate::evaluate::Candidate;
use crate::evaluate::evaluator::{ArchiveId, Priority, Request};
use crate::evaluate::plan::Plan;
use scripted::Scripted;

/// A server with its backend, ended when the test is over.
struct Running {
    backend: Arc<Scripted>,
    address: Address,
    token: Option<Token>,
    stopper: Stopper,
    waiting: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Running {
    fn start(backend: Scripted, address: Option<Address>, mut options: ServerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let backend = Arc::new(backend);
        let address = address.unwrap_or_else(|| Address::Unix(folder.path().join("serve.sock")));
        if matches!(address, Address::Tcp(..)) {
            options
                .token
                .get_or_insert_with(|| Token::generate().unwrap());
        }
        options.listen = vec![address];
        let dynamic: Arc<dyn super::backend::Backend> = Arc::clone(&backend) as _;
        let server = Server::start(dynamic, &options).unwrap();
        Self {
            backend,
            address: server.addresses()[0].clone(),
            token: options.token,
            stopper: server.stopper(),
            waiting: Some(std::thread::spawn(move || server.wait())),
            folder,
        }
    }

    fn unix(backend: Scripted) -> Self {
        Self::start(backend, None, ServerOptions::default())
    }

    fn tcp(backend: Scripted) -> Self {
        let any = Address::Tcp("127.0.0.1".to_owned(), 0);
        Self::start(backend, Some(any), ServerOptions::default())
    }

    fn client(&self) -> Client {
        Client::connect(self.address.clone(), self.token.clone()).unwrap()
    }

    /// A client with an archive.
    fn opened(&self) -> (Client, ArchiveId) {
        let client = self.client();
        let archive = client.open(&self.archive()).unwrap().archive;
        (client, archive)
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("sample.r3")
    }

    /// Waits until it has ended.
    fn end(&mut self) {
        self.stopper.stop();
        if let Some(waiting) = self.waiting.take() {
            waiting.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A candidate that differs from others by its block.
fn request(archive: ArchiveId, block: u32) -> Request {
    let mut candidate = Candidate::default();
    candidate.launch.block = Some([block, 1, 1]);
    Request {
        archive,
        kernel: "saxpy".to_owned(),
        candidate,
        plan: Plan::default(),
        priority: Priority::default(),
    }
}

fn requests(archive: ArchiveId, count: u32) -> Vec<Request> {
    (1..=count).map(|block| request(archive, block)).collect()
}
