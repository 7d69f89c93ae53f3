//! Stream capture: work that goes into a graph instead of running, and the calls that this forbids.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use crate::api::{Call, In, Out, api};
use crate::error::{CuError, Res};
use crate::event::Event;
use crate::graph::{Graph, Node, nodes_of};
use crate::handle::{self, Handle};
use crate::process::lock;
use crate::stream::{self, Stream};
use crate::threads::{AtEnd, Stack};
use crate::work::Work;

const GLOBAL: i32 = 0;
const RELAXED: i32 = 2;

struct Capture {
    mode: i32,
    invalid: bool,
    graph: Arc<Graph>,
    /// Id of the stream on which it began.
    origin: u64,
    owner: ThreadId,
}

/// A stream that is captured.
struct Member {
    capture: u64,
    /// What its next work depends on.
    frontier: Vec<Arc<Node>>,
}

#[derive(Default)]
struct State {
    next: u64,
    captures: BTreeMap<u64, Capture>,
    /// By stream id.
    members: BTreeMap<u64, Member>,
}

static STATE: Mutex<State> = Mutex::new(State {
    next: 1,
    captures: BTreeMap::new(),
    members: BTreeMap::new(),
});

thread_local! {
    static MODE: Cell<i32> = const { Cell::new(GLOBAL) };
}

/// A place in a capture.
#[derive(Clone)]
pub struct Captured {
    capture: u64,
    frontier: Vec<Arc<Node>>,
}

impl State {
    fn of(&mut self, stream: &Stream) -> Option<(&mut Member, &mut Capture)> {
        let member = self.members.get_mut(&stream.id)?;
        let capture = self.captures.get_mut(&member.capture)?;
        Some((member, capture))
    }
}

/// Adds the work to the graph, when the stream is captured.
pub fn take(stream: &Stream, work: &Work) -> Res<bool> {
    let mut state = lock(&STATE);
    let Some((member, capture)) = state.of(stream) else {
        return Ok(false);
    };
    if capture.invalid {
        return Err(CuError::STREAM_CAPTURE_INVALIDATED);
    }
    let node = capture
        .graph
        .add(work.clone(), std::mem::take(&mut member.frontier));
    member.frontier = vec![node];
    Ok(true)
}

/// Whether work of this stream goes into a graph.
pub fn is_captured(stream: &Stream) -> bool {
    lock(&STATE).of(stream).is_some()
}

/// Where a recording on this stream stands, when it is captured.
pub fn record(stream: &Stream) -> Res<Option<Captured>> {
    let mut state = lock(&STATE);
    let Some((member, capture)) = state.of(stream) else {
        return Ok(None);
    };
    if capture.invalid {
        return Err(CuError::STREAM_CAPTURE_INVALIDATED);
    }
    Ok(Some(Captured {
        capture: member.capture,
        frontier: member.frontier.clone(),
    }))
}

/// A stream waits for an event: `true` when that is a matter of a capture, which the stream may join by it.
pub fn wait_event(stream: &Stream, event: &Event) -> Res<bool> {
    let captured = event.captured();
    let mut state = lock(&STATE);
    let own = state.members.get(&stream.id).map(|member| member.capture);
    let error = match (&captured, own) {
        (None, None) => return Ok(false),
        (None, Some(_)) => CuError::STREAM_CAPTURE_ISOLATION,
        (Some(captured), Some(own)) if captured.capture != own => CuError::STREAM_CAPTURE_MERGE,
        (Some(captured), _) => {
            if !state.captures.contains_key(&captured.capture) {
                return Err(CuError::INVALID_VALUE);
            }
            if stream.is_legacy() {
                CuError::STREAM_CAPTURE_IMPLICIT
            } else {
                let member = Member {
                    capture: captured.capture,
                    frontier: Vec::new(),
                };
                let member = state.members.entry(stream.id).or_insert(member);
                for node in &captured.frontier {
                    if !member.frontier.iter().any(|known| Arc::ptr_eq(known, node)) {
                        member.frontier.push(node.clone());
                    }
                }
                return Ok(true);
            }
        }
    };
    let both = [own, captured.map(|captured| captured.capture)];
    for capture in both.iter().flatten() {
        if let Some(capture) = state.captures.get_mut(capture) {
            capture.invalid = true;
        }
    }
    Err(error)
}

/// Refuses a call that a capture of this very stream cannot bear, which also ends the capture's validity.
pub fn refuse(stream: &Stream) -> Res {
    match lock(&STATE).of(stream) {
        Some((_, capture)) => {
            capture.invalid = true;
            Err(CuError::STREAM_CAPTURE_UNSUPPORTED)
        }
        None => Ok(()),
    }
}

/// The default stream may not be used while a blocking stream of its context is captured.
pub fn refuse_implicit(stream: &Stream, invalidate: bool) -> Res {
    if !stream.is_legacy() {
        return Ok(());
    }
    if lock(&STATE).members.is_empty() {
        return Ok(());
    }
    let streams: Vec<Arc<Stream>> = lock(&stream.context()?.streams).clone();
    let mut state = lock(&STATE);
    let mut result = Ok(());
    for other in streams.iter().filter(|other| other.blocking()) {
        if let Some((_, capture)) = state.of(other) {
            capture.invalid |= invalidate;
            result = Err(CuError::STREAM_CAPTURE_IMPLICIT);
        }
    }
    result
}

/// Refuses a potentially unsafe call while a capture forbids it.
pub fn refuse_unsafe() -> Res {
    let mode = MODE.get();
    let mut state = lock(&STATE);
    let mut result = Ok(());
    for capture in state.captures.values_mut() {
        if mode == RELAXED || capture.mode == RELAXED {
            continue;
        }
        let own = capture.owner == std::thread::current().id();
        if own || (mode == GLOBAL && capture.mode == GLOBAL) {
            capture.invalid = true;
            result = Err(CuError::STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    result
}

/// A stream is destroyed.
pub fn forget(stream: &Stream) {
    let mut state = lock(&STATE);
    let Some((member, capture)) = state.of(stream) else {
        return;
    };
    capture.invalid = true;
    let id = member.capture;
    let origin = capture.origin == stream.id;
    state.members.remove(&stream.id);
    if !origin {
        return;
    }
    // Nobody can end it any more.
    state.members.retain(|_, member| member.capture != id);
    let ended = state.captures.remove(&id);
    drop(state);
    if let Some(capture) = ended {
        capture.graph.discard();
    }
}

fn begin(
    stream: Handle,
    call: &Call,
    graph: Option<Arc<Graph>>,
    frontier: Vec<Arc<Node>>,
    mode: i32,
) -> Res {
    if !(0..=RELAXED).contains(&mode) {
        return Err(CuError::INVALID_VALUE);
    }
    let stream = stream::resolve(stream, call.per_thread)?;
    if stream.is_legacy() {
        return Err(CuError::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut state = lock(&STATE);
    if state.of(&stream).is_some() {
        return Err(CuError::ILLEGAL_STATE);
    }
    let id = state.next;
    state.next += 1;
    let graph = graph.unwrap_or_else(Graph::create);
    let owner = std::thread::current().id();
    state.captures.insert(
        id,
        Capture {
            mode,
            invalid: false,
            graph,
            origin: stream.id,
            owner,
        },
    );
    state.members.insert(
        stream.id,
        Member {
            capture: id,
            frontier,
        },
    );
    Ok(())
}

fn end(stream: Handle, call: &Call, graph: Out<Handle>) -> Res {
    graph.required()?;
    let stream = stream::resolve(stream, call.per_thread)?;
    let mut state = lock(&STATE);
    let Some((member, capture)) = state.of(&stream) else {
        return Err(CuError::ILLEGAL_STATE);
    };
    if capture.origin != stream.id {
        return Err(CuError::STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != RELAXED && capture.owner != std::thread::current().id() {
        return Err(CuError::STREAM_CAPTURE_WRONG_THREAD);
    }
    let id = member.capture;
    let joined = ancestors(&member.frontier);
    let members: Vec<u64> = state
        .members
        .iter()
        .filter(|(_, member)| member.capture == id)
        .map(|(stream, _)| *stream)
        .collect();
    let mut unjoined = false;
    for stream in members {
        if let Some(member) = state.members.remove(&stream) {
            unjoined |= member
                .frontier
                .iter()
                .any(|node| !joined.contains(&node.handle));
        }
    }
    let Some(capture) = state.captures.remove(&id) else {
        return Err(CuError::ILLEGAL_STATE);
    };
    drop(state);
    if capture.invalid || unjoined {
        graph.set(0)?;
        capture.graph.discard();
        let error = if capture.invalid {
            CuError::STREAM_CAPTURE_INVALIDATED
        } else {
            CuError::STREAM_CAPTURE_UNJOINED
        };
        return Err(error);
    }
    graph.set(capture.graph.handle)
}

fn ancestors(nodes: &[Arc<Node>]) -> BTreeSet<Handle> {
    let mut seen = BTreeSet::new();
    let mut open = nodes.to_vec();
    while let Some(node) = open.pop() {
        if seen.insert(node.handle) {
            open.extend(node.dependencies());
        }
    }
    seen
}

struct Info {
    status: u32,
    id: u64,
    graph: Handle,
    frontier: Vec<Handle>,
}

fn info(stream: Handle, call: &Call) -> Res<Info> {
    let stream = stream::resolve(stream, call.per_thread)?;
    refuse_implicit(&stream, false)?;
    let mut state = lock(&STATE);
    Ok(match state.of(&stream) {
        None => Info {
            status: 0,
            id: 0,
            graph: 0,
            frontier: Vec::new(),
        },
        Some((member, capture)) => Info {
            status: if capture.invalid { 2 } else { 1 },
            id: member.capture,
            graph: capture.graph.handle,
            frontier: member.frontier.iter().map(|node| node.handle).collect(),
        },
    })
}

/// Lists of dependencies that were given out live as long as their thread asks for no other.
fn lend(list: Vec<Handle>) -> u64 {
    thread_local! {
        static LENT: Stack<Handle> = const { Stack::new() };
        static EMPTIED: AtEnd = const { AtEnd(|| LENT.with(|lent| _ = lent.with(|lent| *lent = Vec::new()))) };
    }
    let _ = EMPTIED.try_with(|_| ());
    let lent = LENT.with(|lent| {
        lent.with(|lent| {
            *lent = list;
            lent.as_ptr() as u64
        })
    });
    lent.unwrap_or(0)
}

fn put_info(
    info: Info,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    list: Out<u64>,
    count: Out<usize>,
) -> Res {
    status.set(info.status)?;
    id.set_if_wanted(info.id);
    graph.set_if_wanted(info.graph);
    count.set_if_wanted(info.frontier.len());
    if !list.is_null() {
        list.set(lend(info.frontier))?;
    }
    Ok(())
}

fn update(stream: Handle, call: &Call, list: In<Handle>, count: usize, flags: u32) -> Res {
    let stream = stream::resolve(stream, call.per_thread)?;
    let nodes = nodes_of(list, count)?;
    let mut state = lock(&STATE);
    let Some((member, capture)) = state.of(&stream) else {
        return Err(CuError::ILLEGAL_STATE);
    };
    if capture.invalid {
        return Err(CuError::STREAM_CAPTURE_INVALIDATED);
    }
    if flags & 1 != 0 {
        member.frontier = nodes;
    } else {
        member.frontier.extend(nodes);
    }
    Ok(())
}

api! {
    fn cuStreamBeginCapture/cuStreamBeginCapture_ptsz(stream: Handle) |call| {
        begin(stream, call, None, Vec::new(), GLOBAL)
    }

    fn cuStreamBeginCapture_v2/cuStreamBeginCapture_v2_ptsz(stream: Handle, mode: i32) |call| {
        begin(stream, call, None, Vec::new(), mode)
    }

    fn cuStreamBeginCaptureToGraph/cuStreamBeginCaptureToGraph_ptsz(stream: Handle, graph: Handle, list: In<Handle>, _edges: In<u64>, count: usize, mode: i32) |call| {
        let graph = handle::get::<Graph>(graph)?;
        let frontier = nodes_of(list, count)?;
        begin(stream, call, Some(graph), frontier, mode)
    }

    fn cuStreamEndCapture/cuStreamEndCapture_ptsz(stream: Handle, graph: Out<Handle>) |call| {
        end(stream, call, graph)
    }

    fn cuStreamIsCapturing/cuStreamIsCapturing_ptsz(stream: Handle, status: Out<u32>) |call| {
        status.set(info(stream, call)?.status)
    }

    fn cuStreamGetCaptureInfo/cuStreamGetCaptureInfo_ptsz(stream: Handle, status: Out<u32>, id: Out<u64>) |call| {
        let info = info(stream, call)?;
        id.set_if_wanted(info.id);
        status.set(info.status)
    }

    fn cuStreamGetCaptureInfo_v2/cuStreamGetCaptureInfo_v2_ptsz(stream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, list: Out<u64>, count: Out<usize>) |call| {
        put_info(info(stream, call)?, status, id, graph, list, count)
    }

    fn cuStreamGetCaptureInfo_v3/cuStreamGetCaptureInfo_v3_ptsz(stream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, list: Out<u64>, edges: Out<u64>, count: Out<usize>) |call| {
        edges.set_if_wanted(0);
        put_info(info(stream, call)?, status, id, graph, list, count)
    }

    fn cuStreamUpdateCaptureDependencies/cuStreamUpdateCaptureDependencies_ptsz(stream: Handle, list: In<Handle>, count: usize, flags: u32) |call| {
        update(stream, call, list, count, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2/cuStreamUpdateCaptureDependencies_v2_ptsz(stream: Handle, list: In<Handle>, _edges: In<u64>, count: usize, flags: u32) |call| {
        update(stream, call, list, count, flags)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: Out<i32>) {
        let new = mode.get()?;
        if !(0..=RELAXED).contains(&new) {
            return Err(CuError::INVALID_VALUE);
        }
        mode.set(MODE.replace(new))
    }
}
