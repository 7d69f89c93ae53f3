//! The evaluator for other programs: HTTP/1.1 and JSON over a Unix socket or TCP.
//!
//! In flow requests (candidates, in batches); out flow numbers of jobs, and their events as a stream of JSON lines.
//! `docs/serve.md` describes the protocol with examples from a real run. The modules are in the order of a request's way:
//!
//! 1. [`client`]: what other programs of R3 call, blocking. [`child`] starts a server that nobody else can reach.
//! 2. [`address`], [`token`]: where a server listens, and who may speak to it.
//! 3. [`listen`]: sockets. One server for an address; a socket file that a killed one left behind is replaced.
//! 4. `connections`: how many there are, and how long a client may take.
//! 5. `routes`: endpoints. [`protocol`] has what goes over the wire, [`problem`] what is answered when something is wrong.
//! 6. `hub`: jobs and their events, kept up to a size.
//! 7. [`backend`]: what a server needs of an evaluator; `evaluator` gives it.
//! 8. [`server`]: all of it, started and ended. `metrics` are its numbers.
//!
//! # Invariants
//!
//! - **A client cannot hold up the evaluator.** Events are kept once, up to a size; a reader takes what it wants when it has
//!   room, and is told which it missed. Nothing is queued for a reader.
//! - **A full queue is said at once**: a batch is taken as far as there is room, and the answer says how far.
//! - **Every request is checked before its body is read**: a peer of a Unix socket must be of this user, and over TCP there is no
//!   request without the token, which is compared in constant time.
//! - **Sizes and times are bounded**: bodies, batches, connections, headers, how long a request takes to arrive and an answer to
//!   be taken.
//! - **Nothing is left behind**: at the end running jobs are cancelled, workers have ended, and the socket file is gone.

pub mod client;

pub mod child;

pub mod ending;

pub mod address;

pub mod token;

pub mod listen;

mod connections;

mod routes;

pub mod protocol;

pub mod problem;

mod hub;

pub mod backend;

mod evaluator;

mod metrics;

pub mod server;

#[cfg(test)]
mod tests;
