//! Endpoints.

use std::convert::Infallible;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Bytes, Frame};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{SemaphorePermit, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::hub::{Interest, Newest};
use super::metrics;
use super::problem::{Code, Problem};
use super::protocol::{
    Archives, ArtifactRequest, CancelAnswer, CancelRequest, DescribeRequest, EventsQuery, Hello,
    INSTANCE_HEADER, Kernels, Line, OpenArchive, OpenRequest, PROTOCOL, PrepareAnswer,
    PrepareRequest, ServerStatus, StatusAnswer, SubmitAnswer, SubmitRequest, WireLimits,
};
use super::server::Shared;
use crate::evaluate::evaluator::{ArchiveId, JobId};

/// Bytes of a body at most.
pub(super) const LARGEST_BODY: usize = 64 << 20;
/// Bodies above this size are read a few at a time.
const SMALL_BODY: usize = 1 << 20;
/// Requests of a batch at most.
pub(super) const LARGEST_BATCH: usize = 1024;
/// Characters of a group's name.
const LONGEST_GROUP: usize = 128;
/// How long a request waits for others of its kind.
const TURN: Duration = Duration::from_secs(60);
/// Seconds that an answer may be waited for at most.
pub(super) const LONGEST_WAIT: u64 = 300;
/// How often a stream says that it is there.
const ALIVE: Duration = Duration::from_secs(10);
/// Bytes of events that are made ready for a reader at a time.
const PORTION: usize = 256 << 10;
/// Bytes of a message about a request, which may repeat parts of it.
const LONGEST_MESSAGE: usize = 4 << 10;

type Answer = Result<Response, Problem>;
type SharedState = State<Arc<Shared>>;
/// The variable part of a path; an error when it is no text.
type PathText = Result<Path<String>, PathRejection>;

/// All endpoints, behind the check of who asks.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1", get(hello))
        .route("/v1/archives", get(archives).post(open))
        .route("/v1/archives/{archive}/kernels", get(kernels))
        .route("/v1/describe", post(describe))
        .route("/v1/prepare", post(prepare))
        .route("/v1/artifact", post(artifact))
        .route("/v1/jobs", post(submit))
        .route("/v1/jobs/{job}", get(job))
        .route("/v1/cancel", post(cancel))
        .route("/v1/events", get(events))
        .route("/v1/status", get(status))
        .route("/v1/metrics", get(metrics_text))
        .route("/v1/shutdown", post(shutdown))
        .fallback(no_endpoint)
        .method_not_allowed_fallback(other_method)
        // Bodies are read by `read`, which has limits of its own.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), check))
        .with_state(shared)
}

/// Lets requests through that have the token.
async fn check(State(shared): SharedState, request: Request, next: Next) -> Response {
    let mut response = if knows_token(&shared, request.headers()) {
        next.run(request).await
    } else {
        shared.counters.unauthorized.fetch_add(1, Ordering::Relaxed);
        Problem::new(Code::Unauthorized, "the token is missing or wrong").into_response()
    };
    shared.counters.requests.fetch_add(1, Ordering::Relaxed);
    let headers = response.headers_mut();
    if let Ok(instance) = HeaderValue::from_str(&shared.instance) {
        headers.insert(INSTANCE_HEADER, instance);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn knows_token(shared: &Shared, headers: &HeaderMap) -> bool {
    let Some(token) = &shared.token else {
        return true;
    };
    headers
        .get(AUTHORIZATION)
        .and_then(|value| value.as_bytes().split_at_checked(7))
        .is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case(b"bearer ") & token.matches(given)
        })
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        let mut end = LONGEST_MESSAGE.min(self.message.len());
        while !self.message.is_char_boundary(end) {
            end -= 1;
        }
        if end < self.message.len() {
            self.message.truncate(end);
            self.message.push('…');
        }
        let status = StatusCode::from_u16(self.code.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = json(status, &self);
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if matches!(self.code, Code::QueueFull | Code::Busy) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => with_type(status, "application/json", body),
        Err(error) => with_type(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain",
            error.to_string().into_bytes(),
        ),
    }
}

fn with_type(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

async fn no_endpoint(uri: Uri) -> Problem {
    Problem::new(Code::NoEndpoint, format!("there is no {}", uri.path()))
}

async fn other_method(method: axum::http::Method, uri: Uri) -> Problem {
    Problem::new(
        Code::Method,
        format!("{} does not take {method}", uri.path()),
    )
}

async fn hello(State(shared): SharedState) -> Response {
    json(
        StatusCode::OK,
        &Hello {
            service: "r3-replay".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            instance: shared.instance.clone(),
            limits: WireLimits {
                body_bytes: LARGEST_BODY as u64,
                batch: LARGEST_BATCH as u64,
                connections: shared.most_connections as u64,
                wait_seconds: LONGEST_WAIT,
            },
        },
    )
}

async fn archives(State(shared): SharedState) -> Answer {
    let status = blocking({
        let shared = Arc::clone(&shared);
        move || shared.backend.status()
    })
    .await?;
    let archives = status
        .archives
        .into_iter()
        .map(|(archive, path)| OpenArchive { archive, path })
        .collect();
    Ok(json(StatusCode::OK, &Archives { archives }))
}

async fn open(State(shared): SharedState, request: Request) -> Answer {
    let OpenRequest { path } = read(&shared, request).await?;
    if path.is_relative() {
        return Err(Problem::new(
            Code::Archive,
            format!("{}: the path of an archive is absolute", path.display()),
        ));
    }
    let (archive, path) = long(&shared, move |shared| {
        let archive = shared.backend.open(&path)?;
        Ok::<(ArchiveId, PathBuf), Problem>((archive, path))
    })
    .await??;
    Ok(json(StatusCode::OK, &OpenArchive { archive, path }))
}

async fn kernels(State(shared): SharedState, path: PathText) -> Answer {
    let archive = path_text(path)?;
    let archive = archive.parse().map(ArchiveId).map_err(|_| {
        Problem::new(
            Code::NoArchive,
            format!("`{archive}` is no archive's number"),
        )
    })?;
    let kernels = long(&shared, move |shared| shared.backend.kernels(archive)).await??;
    Ok(json(StatusCode::OK, &Kernels { kernels }))
}

async fn describe(State(shared): SharedState, request: Request) -> Answer {
    let DescribeRequest { archive, kernel } = read(&shared, request).await?;
    let described = long(&shared, move |shared| {
        shared.backend.describe(archive, &kernel)
    });
    Ok(json(StatusCode::OK, &described.await??))
}

async fn prepare(State(shared): SharedState, request: Request) -> Answer {
    let PrepareRequest {
        archive,
        kernel,
        launches,
    } = read(&shared, request).await?;
    let prepared = long(&shared, move |shared| {
        shared.backend.prepare(archive, &kernel, &launches)
    });
    let launches = prepared.await??;
    Ok(json(StatusCode::OK, &PrepareAnswer { launches }))
}

async fn artifact(State(shared): SharedState, request: Request) -> Answer {
    let wanted: ArtifactRequest = read(&shared, request).await?;
    let artifact = long(&shared, move |shared| shared.backend.artifact(&wanted)).await??;
    Ok(json(StatusCode::OK, &artifact))
}

async fn submit(State(shared): SharedState, request: Request) -> Answer {
    let SubmitRequest { group, requests } = read(&shared, request).await?;
    let group = group.map(group_name).transpose()?;
    if requests.is_empty() {
        return Err(Problem::new(Code::BadRequest, "requests: there is none"));
    }
    if requests.len() > LARGEST_BATCH {
        return Err(Problem::new(
            Code::TooLarge,
            format!(
                "{} requests: a batch has {LARGEST_BATCH} at most",
                requests.len()
            ),
        ));
    }
    let (jobs, problem) = blocking({
        let shared = Arc::clone(&shared);
        move || {
            shared
                .hub
                .submit(&*shared.backend, group.as_deref(), requests)
        }
    })
    .await?;
    match problem {
        None => Ok(json(StatusCode::ACCEPTED, &SubmitAnswer { jobs })),
        Some(problem) => Err(problem),
    }
}

fn group_name(group: String) -> Result<String, Problem> {
    if (1..=LONGEST_GROUP).contains(&group.chars().count()) {
        return Ok(group);
    }
    Err(Problem::new(
        Code::BadRequest,
        format!("group: a name has 1 to {LONGEST_GROUP} characters"),
    ))
}

/// Query of `GET /v1/jobs/ID`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct JobQuery {
    /// Seconds to wait for the end of the job.
    wait: u64,
}

async fn job(State(shared): SharedState, path: PathText, uri: Uri) -> Answer {
    let job = path_text(path)?;
    let JobQuery { wait } = query(&uri)?;
    let until = Instant::now() + Duration::from_secs(wait.min(LONGEST_WAIT));
    let job = job
        .parse()
        .map(JobId)
        .map_err(|_| Problem::new(Code::NoJob, format!("`{job}` is no job's number")))?;
    let mut newest = shared.hub.newest();
    loop {
        let ended = newest.borrow_and_update().ended;
        let report = shared.hub.job(job)?;
        if report.done || ended || Instant::now() >= until {
            return Ok(json(StatusCode::OK, &report));
        }
        // Whichever comes first is looked at.
        let _ = tokio::time::timeout_at(until, newest.changed()).await;
    }
}

async fn cancel(State(shared): SharedState, request: Request) -> Answer {
    let CancelRequest { mut jobs, group } = read(&shared, request).await?;
    let cancelled = blocking({
        let shared = Arc::clone(&shared);
        move || {
            if let Some(group) = group {
                jobs.extend(shared.hub.unfinished(&group));
            }
            jobs.sort_unstable();
            jobs.dedup();
            jobs.retain(|job| shared.backend.cancel(*job));
            jobs
        }
    })
    .await?;
    Ok(json(StatusCode::OK, &CancelAnswer { cancelled }))
}

async fn status(State(shared): SharedState) -> Answer {
    Ok(json(StatusCode::OK, &whole_status(&shared).await?))
}

async fn metrics_text(State(shared): SharedState) -> Answer {
    let text = metrics::text(&whole_status(&shared).await?);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(with_type(StatusCode::OK, kind, text.into_bytes()))
}

async fn whole_status(shared: &Arc<Shared>) -> Result<StatusAnswer, Problem> {
    let evaluator = blocking({
        let shared = Arc::clone(shared);
        move || shared.backend.status()
    })
    .await?;
    let size = shared.hub.size();
    let open = shared.most_connections - shared.connections.available_permits();
    let counters = &shared.counters;
    Ok(StatusAnswer {
        server: ServerStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: shared.instance.clone(),
            process: std::process::id(),
            connections: open as u64,
            refused_connections: counters.refused.load(Ordering::Relaxed),
            unauthorized: counters.unauthorized.load(Ordering::Relaxed),
            requests: counters.requests.load(Ordering::Relaxed),
            sequence: size.sequence,
            oldest: size.oldest,
            event_bytes: size.bytes,
        },
        evaluator,
    })
}

async fn shutdown(State(shared): SharedState) -> Response {
    shared.stop();
    json(StatusCode::ACCEPTED, &serde_json::json!({}))
}

/// Waits for what may take long, a few at a time: the rest of the server stays quick.
async fn long<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> T + Send + 'static,
) -> Result<T, Problem> {
    let turn = turn(shared.long.acquire()).await?;
    let shared = Arc::clone(shared);
    let done = blocking(move || work(&shared)).await;
    drop(turn);
    done
}

async fn turn<'a>(
    turn: impl Future<Output = Result<SemaphorePermit<'a>, tokio::sync::AcquireError>>,
) -> Result<SemaphorePermit<'a>, Problem> {
    match timeout(TURN, turn).await {
        Ok(Ok(turn)) => Ok(turn),
        _ => Err(Problem::new(
            Code::Busy,
            "there are as many requests of this kind as there may be",
        )),
    }
}

/// Does what may block on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Problem::new(Code::Failed, "the request failed in the server"))
}

/// A value from the body of a request.
async fn read<T: DeserializeOwned + Send + 'static>(
    shared: &Shared,
    request: Request,
) -> Result<T, Problem> {
    let too_large = || {
        Problem::new(
            Code::TooLarge,
            format!("a request has {LARGEST_BODY} bytes at most"),
        )
    };
    let body = request.into_body();
    let least = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if least > LARGEST_BODY {
        return Err(too_large());
    }
    let most = body.size_hint().upper().unwrap_or(u64::MAX);
    // Until the value is there: it can be larger than its text.
    let _room = if most > SMALL_BODY as u64 {
        Some(turn(shared.bodies.acquire()).await?)
    } else {
        None
    };
    let patience = shared.patience.body;
    let collected = timeout(patience, Limited::new(body, LARGEST_BODY).collect()).await;
    let bytes = match collected {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => return Err(too_large()),
        Ok(Err(error)) => {
            return Err(Problem::new(
                Code::BadRequest,
                format!("the body did not arrive whole: {error}"),
            ));
        }
        Err(_) => {
            return Err(Problem::new(
                Code::Slow,
                format!("the body did not arrive within {} s", patience.as_secs()),
            ));
        }
    };
    if bytes.len() <= SMALL_BODY {
        return parsed(&bytes);
    }
    blocking(move || parsed(&bytes)).await?
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let bad = |message: String| Problem::new(Code::BadRequest, message);
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| bad(format!("{}: {}", error.path(), error.inner())))?;
    json.end().map_err(|error| bad(error.to_string()))?;
    Ok(value)
}

fn path_text(path: PathText) -> Result<String, Problem> {
    path.map(|Path(text)| text)
        .map_err(|error| Problem::new(Code::BadRequest, error.body_text()))
}

fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    match Query::try_from_uri(uri) {
        Ok(Query(query)) => Ok(query),
        Err(error) => Err(Problem::new(Code::BadRequest, error.body_text())),
    }
}

async fn events(State(shared): SharedState, uri: Uri) -> Answer {
    let EventsQuery {
        after,
        group,
        done,
        instance,
        wait,
    } = query(&uri)?;
    let newest = shared.hub.newest();
    let sequence = newest.borrow().sequence;
    if instance.is_some_and(|instance| instance != shared.instance) || after > sequence {
        return Err(Problem::new(
            Code::OtherServer,
            format!("event {after} is none of this server, which was started later"),
        ));
    }
    let until = wait.map(|wait| Instant::now() + Duration::from_secs(wait.min(LONGEST_WAIT)));
    let reader = Reader {
        shared,
        newest,
        interest: Interest { group, done },
        after,
        until,
        told: false,
        over: false,
    };
    let body = Portions {
        next: Box::pin(reader.next()),
    };
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-ndjson"),
    );
    Ok(response)
}

/// A client that reads events.
struct Reader {
    shared: Arc<Shared>,
    newest: watch::Receiver<Newest>,
    interest: Interest,
    after: u64,
    /// When the answer ends at the latest.
    until: Option<Instant>,
    /// Whether something was sent.
    told: bool,
    over: bool,
}

impl Reader {
    /// Waits for the next portion, and makes it ready when the connection has room for it: not before.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if self.over {
            return None;
        }
        let alive = Instant::now() + ALIVE;
        loop {
            let newest = *self.newest.borrow_and_update();
            let batch = self.shared.hub.after(self.after, &self.interest, PORTION);
            self.after = batch.after;
            if batch.missed.is_some() || !batch.events.is_empty() {
                let mut lines = Vec::new();
                if let Some((from, to)) = batch.missed {
                    line(&mut lines, &Line::Missed { from, to });
                }
                for event in &batch.events {
                    line(&mut lines, &WrittenLine { event });
                }
                self.told = true;
                return Some((lines.into(), self));
            }
            let now = Instant::now();
            let late = self.until.is_some_and(|until| self.told || now >= until);
            if newest.ended || late {
                self.over = true;
                let sequence = self.after;
                return Some((one_line(&Line::End { sequence }), self));
            }
            if now >= alive {
                let sequence = self.after;
                return Some((one_line(&Line::Alive { sequence }), self));
            }
            let wake = self.until.map_or(alive, |until| until.min(alive));
            tokio::select! {
                changed = self.newest.changed() => if changed.is_err() {
                    return None;
                },
                () = sleep_until(wake) => {}
            }
        }
    }
}

/// [`Line::Event`] with an event that is written already.
#[derive(Serialize)]
struct WrittenLine<'a> {
    event: &'a RawValue,
}

fn line(to: &mut Vec<u8>, value: &impl Serialize) {
    // Memory takes everything, and these values are all representable.
    let _ = serde_json::to_writer(&mut *to, value);
    to.push(b'\n');
}

fn one_line(value: &Line) -> Bytes {
    let mut bytes = Vec::new();
    line(&mut bytes, value);
    bytes.into()
}

type NextPortion = Pin<Box<dyn Future<Output = Option<(Bytes, Reader)>> + Send>>;

/// The body of an answer that goes on: portion by portion, as the connection has room.
struct Portions {
    next: NextPortion,
}

impl hyper::body::Body for Portions {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.next.as_mut().poll(context).map(|portion| {
            portion.map(|(bytes, reader)| {
                self.next = Box::pin(reader.next());
                Ok(Frame::data(bytes))
            })
        })
    }
}
