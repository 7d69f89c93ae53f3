//! Connections: how many there are, whose they are, and how long a client may take.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep, timeout};

use super::address::user;
use super::problem::{Code, Problem};
use super::server::Shared;

/// Bytes of a request's head, and of what is buffered of an answer.
const BUFFER: usize = 64 << 10;
/// Pause after a connection that could not be accepted: file descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections on a Unix socket until the server stops.
pub(super) async fn accept_unix(shared: Arc<Shared>, router: Router, listener: UnixListener) {
    loop {
        let accepted = tokio::select! {
            () = shared.stopping() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((mut stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let peer = stream.peer_cred().map(|peer| peer.uid());
        if !peer.is_ok_and(|peer| peer == user() || peer == 0) {
            shared.counters.unauthorized.fetch_add(1, Ordering::Relaxed);
            let problem = Problem::new(Code::Unauthorized, "this server is another user's");
            refuse(&mut stream, &problem).await;
            continue;
        }
        admit(&shared, &router, stream).await;
    }
}

/// Accepts connections on TCP until the server stops.
pub(super) async fn accept_tcp(shared: Arc<Shared>, router: Router, listener: TcpListener) {
    loop {
        let accepted = tokio::select! {
            () = shared.stopping() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        // It is only slower without.
        let _ = stream.set_nodelay(true);
        admit(&shared, &router, stream).await;
    }
}

async fn admit<S>(shared: &Arc<Shared>, router: &Router, mut stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match Arc::clone(&shared.connections).try_acquire_owned() {
        Ok(permit) => {
            tokio::spawn(serve(Arc::clone(shared), router.clone(), stream, permit));
        }
        Err(_) => {
            shared.counters.refused.fetch_add(1, Ordering::Relaxed);
            let problem = Problem::new(Code::Busy, "there are as many connections as there may be");
            refuse(&mut stream, &problem).await;
        }
    }
}

/// Says why and closes. A fresh connection has room for that, so that nobody is waited for.
async fn refuse(stream: &mut (impl AsyncWrite + Unpin), problem: &Problem) {
    let body = serde_json::to_string(problem).unwrap_or_default();
    let (status, retry) = match problem.code {
        Code::Busy => ("503 Service Unavailable", "retry-after: 1\r\n"),
        _ => ("401 Unauthorized", ""),
    };
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n{retry}connection: close\r\n\r\n{body}",
        body.len()
    );
    // Nobody is left to tell.
    let _ = timeout(PAUSE, stream.write_all(text.as_bytes())).await;
}

async fn serve<S>(shared: Arc<Shared>, router: Router, stream: S, permit: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.patience.head)
        .max_buf_size(BUFFER)
        .serve_connection(
            TokioIo::new(Patient::new(stream, shared.patience.stall)),
            service,
        );
    let mut connection = std::pin::pin!(connection);
    // How a connection ends is its client's business.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = shared.stopping() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
    drop(permit);
}

/// A stream whose writes fail when there is no room for some time.
struct Patient<S> {
    stream: S,
    limit: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            stalled: None,
        }
    }

    fn watch<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(shut, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
