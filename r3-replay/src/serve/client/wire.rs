//! One connection to a server, and one request on it at a time.

use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::ClientError;
use crate::serve::address::Address;
use crate::serve::token::Token;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// A server closes connections that are idle; one as old as this is not tried.
const FRESH: Duration = Duration::from_secs(5);
/// Bytes of an answer at most: nobody's memory is filled by whoever listens there.
const LARGEST_ANSWER: usize = 1 << 30;

/// A connection, driven by the thread that calls.
#[derive(Debug)]
pub(super) struct Wire {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
    used: Instant,
}

/// A whole answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

impl Wire {
    /// Connects.
    pub(super) fn open(address: &Address) -> Result<Self, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ClientError::Own)?;
        let sender = runtime.block_on(connect(address))?;
        Ok(Self {
            runtime,
            sender,
            used: Instant::now(),
        })
    }

    /// Asks, and waits for the whole answer.
    pub(super) fn call(
        &mut self,
        address: &Address,
        token: Option<&Token>,
        method: Method,
        path: &str,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Answer, ClientError> {
        let Self {
            runtime,
            sender,
            used,
        } = self;
        let asked = async {
            let response = ask(address, token, sender, *used, method, path, body).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, LARGEST_ANSWER).collect().await;
            let body = body.map_err(|error| ClientError::Broken {
                address: address.clone(),
                reason: error.to_string(),
            })?;
            let retry_after = head
                .headers
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.parse().ok())
                .map(Duration::from_secs);
            Ok(Answer {
                status: head.status,
                retry_after,
                body: body.to_bytes(),
            })
        };
        let answer = runtime.block_on(async {
            timeout(limit, asked).await.unwrap_or_else(|_| {
                Err(ClientError::Late {
                    address: address.clone(),
                    limit,
                })
            })
        });
        self.used = Instant::now();
        answer
    }

    /// Asks, and returns as soon as the answer begins. The rest is read by `runtime`.
    pub(super) fn begin(
        mut self,
        address: &Address,
        token: Option<&Token>,
        path: &str,
    ) -> Result<(Runtime, Response<Incoming>), ClientError> {
        let asked = ask(
            address,
            token,
            &mut self.sender,
            self.used,
            Method::GET,
            path,
            Vec::new(),
        );
        let response = self.runtime.block_on(async {
            timeout(CONNECT, asked).await.unwrap_or_else(|_| {
                Err(ClientError::Late {
                    address: address.clone(),
                    limit: CONNECT,
                })
            })
        })?;
        Ok((self.runtime, response))
    }
}

async fn ask(
    address: &Address,
    token: Option<&Token>,
    sender: &mut SendRequest<Full<Bytes>>,
    used: Instant,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<Response<Incoming>, ClientError> {
    let broken = |error: hyper::Error| ClientError::Broken {
        address: address.clone(),
        reason: error.to_string(),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost");
    if !body.is_empty() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    if let Some(token) = token {
        let value = HeaderValue::try_from(format!("Bearer {}", token.secret()));
        let mut value = value.map_err(|error| ClientError::Own(std::io::Error::other(error)))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let mut request = request
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| ClientError::Own(std::io::Error::other(error)))?;
    if used.elapsed() < FRESH && sender.ready().await.is_ok() {
        match sender.try_send_request(request).await {
            Ok(response) => return Ok(response),
            // The server closed the idle connection: nothing was sent. Otherwise it may have arrived, and is not repeated.
            Err(mut error) => match error.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(broken(error.into_error())),
            },
        }
    }
    *sender = connect(address).await?;
    sender.send_request(request).await.map_err(broken)
}

async fn connect(address: &Address) -> Result<SendRequest<Full<Bytes>>, ClientError> {
    let failed = |source| ClientError::Connect {
        address: address.clone(),
        source,
    };
    let late = || failed(std::io::ErrorKind::TimedOut.into());
    match address {
        Address::Unix(path) => {
            let stream = timeout(CONNECT, UnixStream::connect(path)).await;
            shake(address, stream.map_err(|_| late())?.map_err(failed)?).await
        }
        Address::Tcp(host, port) => {
            let stream = timeout(CONNECT, TcpStream::connect((host.as_str(), *port))).await;
            let stream = stream.map_err(|_| late())?.map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            shake(address, stream).await
        }
    }
}

async fn shake<S>(address: &Address, stream: S) -> Result<SendRequest<Full<Bytes>>, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| ClientError::Broken {
            address: address.clone(),
            reason: error.to_string(),
        })?;
    // How it ends shows at the request.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
