//! Streams. Each has a thread that runs its work in order; across streams, work waits for positions in others.
//!
//! Every wait is for something that was submitted earlier, so streams cannot wait for each other in a circle.
//! No lock is held while work runs.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::api::{In, Out, api};
use crate::capture;
use crate::context::{self, Context};
use crate::error::{CuError, Res};
use crate::event::Event;
use crate::handle::{self, Handle};
use crate::process::{lock, number};
use crate::threads::{AtEnd, Stack};
use crate::work::{Callback, HostFn, MemOp, Work};

/// Stream priorities: lower numbers go first. They are kept and have no effect.
pub const LEAST_PRIORITY: i32 = 0;
pub const GREATEST_PRIORITY: i32 = -5;

/// Pieces of work that wait in one stream.
const QUEUE: usize = 1024;
const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`
const LEGACY: Handle = 1;
const PER_THREAD: Handle = 2;

/// A stream.
pub struct Stream {
    pub handle: Handle,
    pub id: u64,
    context: Weak<Context>,
    pub flags: u32,
    pub priority: i32,
    is_legacy: bool,
    queue: Mutex<Queue>,
    changed: Condvar,
    attributes: Mutex<BTreeMap<u32, [u64; 8]>>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    pushed: u64,
    done: u64,
    started: bool,
    closed: bool,
}

struct Item {
    after: Vec<Point>,
    work: Work,
}

/// A position in a stream.
#[derive(Clone)]
pub struct Point {
    pub stream: Arc<Stream>,
    position: u64,
}

impl Point {
    pub fn reached(&self) -> bool {
        lock(&self.stream.queue).done >= self.position
    }

    pub fn wait(&self) {
        let mut queue = lock(&self.stream.queue);
        while queue.done < self.position {
            queue = self
                .stream
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Stream {
    fn new(context: &Arc<Context>, flags: u32, priority: i32, is_legacy: bool) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        handle::create(|handle| Self {
            handle: if is_legacy { LEGACY } else { handle },
            id: IDS.fetch_add(1, Ordering::Relaxed),
            context: Arc::downgrade(context),
            flags,
            priority,
            is_legacy,
            queue: Mutex::default(),
            changed: Condvar::new(),
            attributes: Mutex::default(),
        })
    }

    /// The default stream of a context.
    pub fn legacy(context: &Arc<Context>) -> Arc<Self> {
        Self::new(context, 0, 0, true)
    }

    fn create(context: &Arc<Context>, flags: u32, priority: i32) -> Res<Arc<Self>> {
        if flags & !NON_BLOCKING != 0 {
            return Err(CuError::INVALID_VALUE);
        }
        let stream = Self::new(
            context,
            flags,
            priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY),
            false,
        );
        let mut streams = lock(&context.streams);
        // Under the lock: a context that ends takes all streams that are in it.
        context
            .usable()
            .inspect_err(|_| _ = handle::remove::<Self>(stream.handle))?;
        streams.push(stream.clone());
        drop(streams);
        Ok(stream)
    }

    pub fn context(&self) -> Res<Arc<Context>> {
        self.context.upgrade().ok_or(CuError::CONTEXT_IS_DESTROYED)
    }

    pub fn blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    pub fn is_legacy(&self) -> bool {
        self.is_legacy
    }

    /// No more work comes. What is queued still runs.
    pub fn close(&self) {
        lock(&self.queue).closed = true;
        self.changed.notify_all();
        let _ = handle::remove::<Stream>(self.handle);
    }

    /// A queue has an end, as the hardware's: a program that only launches waits here.
    fn wait_for_room(&self) {
        let mut queue = lock(&self.queue);
        while queue.items.len() >= QUEUE {
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn gone(&self) -> bool {
        let queue = lock(&self.queue);
        queue.closed && queue.done == queue.pushed
    }

    /// Where the last work stands.
    pub fn last(self: &Arc<Self>) -> Point {
        Point {
            stream: self.clone(),
            position: lock(&self.queue).pushed,
        }
    }

    fn push(self: &Arc<Self>, after: Vec<Point>, work: Work) -> Res<Point> {
        let mut queue = lock(&self.queue);
        if queue.closed {
            // Its thread may have ended: nothing would ever run this.
            return Err(CuError::INVALID_HANDLE);
        }
        if !queue.started {
            start(self.clone())?;
            queue.started = true;
        }
        queue.items.push_back(Item { after, work });
        queue.pushed += 1;
        let position = queue.pushed;
        drop(queue);
        self.changed.notify_all();
        Ok(Point {
            stream: self.clone(),
            position,
        })
    }

    /// What new work of this stream has to wait for. The caller holds the context's order (`streams`).
    fn before(self: &Arc<Self>, context: &Context, streams: &[Arc<Stream>]) -> Vec<Point> {
        let others: Vec<Point> = if self.is_legacy {
            streams
                .iter()
                .filter(|other| other.blocking() && !other.is_legacy)
                .map(Stream::last)
                .collect()
        } else if self.blocking() {
            context.legacy().iter().map(Stream::last).collect()
        } else {
            Vec::new()
        };
        others
            .into_iter()
            .filter(|point| !point.reached())
            .collect()
    }
}

fn start(stream: Arc<Stream>) -> Res {
    // The program's signals are the program's.
    // SAFETY: signal sets on the stack; the mask is put back.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        before
    };
    let started = std::thread::Builder::new()
        .name("softcuda-stream".into())
        .spawn(move || serve(&stream));
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    started.map(drop).map_err(|_| CuError::OPERATING_SYSTEM)
}

fn serve(stream: &Arc<Stream>) {
    let delay = number("DELAY_US").unwrap_or(0);
    let mut seed = stream.id;
    loop {
        let mut queue = lock(&stream.queue);
        let item = loop {
            if let Some(item) = queue.items.pop_front() {
                break item;
            }
            if queue.closed {
                return;
            }
            queue = stream
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        let Item { after, work } = item;
        after.iter().for_each(Point::wait);
        if delay > 0 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_micros((seed >> 33) % delay));
        }
        if let Ok(context) = stream.context() {
            let ended = catch_unwind(AssertUnwindSafe(|| work.run(&context)));
            if let Err(error) = ended.unwrap_or(Err(CuError::UNKNOWN)) {
                context.broken(error);
            }
        }
        drop((after, work));
        lock(&stream.queue).done += 1;
        stream.changed.notify_all();
    }
}

thread_local! {
    /// The per-thread default streams of a thread, by context. They end with it.
    static MINE: Stack<(u64, Arc<Stream>)> = const { Stack::new() };
    static CLOSED: AtEnd = const { AtEnd(|| MINE.with(|mine| _ = mine.with(close_mine))) };
}

fn close_mine(mine: &mut Vec<(u64, Arc<Stream>)>) {
    mine.drain(..).for_each(|(_, stream)| stream.close());
}

fn mine(context: &Arc<Context>) -> Res<Arc<Stream>> {
    let _ = CLOSED.try_with(|_| ());
    MINE.with(|mine| {
        mine.with(|mine| {
            if let Some((_, stream)) = mine.iter().find(|(id, _)| *id == context.id) {
                return Ok(stream.clone());
            }
            let stream = Stream::create(context, 0, 0)?;
            mine.push((context.id, stream.clone()));
            Ok(stream)
        })
    })?
}

/// The stream that a handle means.
pub fn resolve(handle: Handle, per_thread: bool) -> Res<Arc<Stream>> {
    match handle {
        0 if !per_thread => context::current()?.legacy(),
        LEGACY => context::current()?.legacy(),
        0 | PER_THREAD => mine(&context::current()?),
        _ => {
            let stream = handle::get::<Stream>(handle)?;
            stream.context()?.sticky()?;
            Ok(stream)
        }
    }
}

/// Queues work, or adds it to the graph that the stream is captured into; then there is no position.
pub fn submit(stream: &Arc<Stream>, work: Work) -> Res<Option<Point>> {
    if capture::take(stream, &work)? {
        return Ok(None);
    }
    enqueue(stream, Vec::new(), work).map(Some)
}

/// Queues work behind these positions, whether or not the stream is captured.
pub fn enqueue(stream: &Arc<Stream>, mut after: Vec<Point>, work: Work) -> Res<Point> {
    capture::refuse_implicit(stream, true)?;
    let context = stream.context()?;
    stream.wait_for_room();
    let mut streams = lock(&context.streams);
    if streams.len() > 8 {
        streams.retain(|stream| !stream.gone());
    }
    after.extend(stream.before(&context, &streams));
    stream.push(after, work)
}

/// Queues work and waits until it has run.
pub fn submit_and_wait(stream: &Arc<Stream>, work: Work) -> Res {
    if let Some(point) = submit(stream, work)? {
        point.wait();
    }
    let context = stream.context()?;
    context.show_prints();
    context.sticky()
}

/// Waits for everything in a context.
pub fn wait_all(context: &Context) -> Res {
    let points: Vec<Point> = lock(&context.streams).iter().map(Stream::last).collect();
    points.iter().for_each(Point::wait);
    context.show_prints();
    context.sticky()
}

/// The same for the program: not while a stream of the context is captured.
pub fn synchronise_context(context: &Arc<Context>) -> Res {
    let streams = lock(&context.streams).clone();
    let mut refused = Ok(());
    for stream in &streams {
        refused = capture::refuse(stream).and(refused);
    }
    refused?;
    wait_all(context)
}

/// The position that a synchronisation of this stream waits for.
fn present(stream: &Arc<Stream>) -> Res<Vec<Point>> {
    capture::refuse(stream)?;
    capture::refuse_implicit(stream, true)?;
    let context = stream.context()?;
    let streams = lock(&context.streams);
    let mut points = stream.before(&context, &streams);
    points.push(stream.last());
    Ok(points)
}

fn destroy(stream: Handle) -> Res {
    let stream = handle::get::<Stream>(stream)?;
    capture::forget(&stream);
    stream.close();
    Ok(())
}

fn put_mem_ops(stream: Handle, call: &crate::api::Call, operations: Vec<MemOp>) -> Res {
    let stream = resolve(stream, call.per_thread)?;
    submit(&stream, Work::MemOps(operations.into())).map(drop)
}

/// `CUstreamBatchMemOpParams`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchMemOp {
    pub operation: u32,
    pub flags_of_barrier: u32,
    pub address: u64,
    pub value: u64,
    pub flags: u32,
    pub padding: u32,
    pub alias: u64,
    pub rest: u64,
}

impl BatchMemOp {
    fn operation(self) -> Res<MemOp> {
        let Self {
            address,
            value,
            flags,
            ..
        } = self;
        Ok(match self.operation {
            1 => MemOp::Wait {
                address,
                value: value & 0xffff_ffff,
                wide: false,
                condition: flags,
            },
            2 => MemOp::Write {
                address,
                value,
                wide: false,
            },
            4 => MemOp::Wait {
                address,
                value,
                wide: true,
                condition: flags,
            },
            5 => MemOp::Write {
                address,
                value,
                wide: true,
            },
            3 | 6 => MemOp::Nothing,
            _ => return Err(CuError::INVALID_VALUE),
        })
    }
}

api! {
    fn cuStreamCreate(stream: Out<Handle>, flags: u32) {
        stream.required()?;
        stream.set(Stream::create(&context::current()?, flags, 0)?.handle)
    }

    fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: u32, priority: i32) {
        stream.required()?;
        stream.set(Stream::create(&context::current()?, flags, priority)?.handle)
    }

    fn cuStreamDestroy(stream: Handle) {
        destroy(stream)
    }

    fn cuStreamDestroy_v2(stream: Handle) {
        destroy(stream)
    }

    fn cuStreamGetPriority/cuStreamGetPriority_ptsz(stream: Handle, priority: Out<i32>) |call| {
        priority.set(resolve(stream, call.per_thread)?.priority)
    }

    fn cuStreamGetFlags/cuStreamGetFlags_ptsz(stream: Handle, flags: Out<u32>) |call| {
        flags.set(resolve(stream, call.per_thread)?.flags)
    }

    fn cuStreamGetId/cuStreamGetId_ptsz(stream: Handle, id: Out<u64>) |call| {
        id.set(resolve(stream, call.per_thread)?.id)
    }

    fn cuStreamGetDevice/cuStreamGetDevice_ptsz(stream: Handle, device: Out<i32>) |call| {
        device.set(resolve(stream, call.per_thread)?.context()?.device.ordinal)
    }

    fn cuStreamGetCtx/cuStreamGetCtx_ptsz(stream: Handle, context: Out<Handle>) |call| {
        context.set(resolve(stream, call.per_thread)?.context()?.handle)
    }

    fn cuStreamGetCtx_v2/cuStreamGetCtx_v2_ptsz(stream: Handle, context: Out<Handle>, green: Out<Handle>) |call| {
        green.set_if_wanted(0);
        context.set(resolve(stream, call.per_thread)?.context()?.handle)
    }

    fn cuStreamSynchronize/cuStreamSynchronize_ptsz(stream: Handle) |call| {
        let stream = resolve(stream, call.per_thread)?;
        present(&stream)?.iter().for_each(Point::wait);
        let context = stream.context()?;
        context.show_prints();
        context.sticky()
    }

    fn cuStreamQuery/cuStreamQuery_ptsz(stream: Handle) |call| {
        let stream = resolve(stream, call.per_thread)?;
        let ready = present(&stream)?.iter().all(Point::reached);
        stream.context()?.sticky()?;
        if ready { Ok(()) } else { Err(CuError::NOT_READY) }
    }

    fn cuStreamWaitEvent/cuStreamWaitEvent_ptsz(stream: Handle, event: Handle, _flags: u32) |call| {
        let event = handle::get::<Event>(event)?;
        let stream = resolve(stream, call.per_thread)?;
        if capture::wait_event(&stream, &event)? {
            return Ok(());
        }
        let Some(point) = event.point() else { return Ok(()) };
        enqueue(&stream, vec![point], Work::Nothing).map(drop)
    }

    fn cuStreamAddCallback/cuStreamAddCallback_ptsz(stream: Handle, function: Option<extern "C" fn(u64, i32, *mut std::ffi::c_void)>, data: u64, flags: u32) |call| {
        if flags != 0 || function.is_none() {
            return Err(CuError::INVALID_VALUE);
        }
        let on = resolve(stream, call.per_thread)?;
        capture::refuse(&on)?;
        submit(&on, Work::Callback(Callback { stream, function, data })).map(drop)
    }

    fn cuLaunchHostFunc/cuLaunchHostFunc_ptsz(stream: Handle, function: Option<extern "C" fn(*mut std::ffi::c_void)>, data: u64) |call| {
        if function.is_none() {
            return Err(CuError::INVALID_VALUE);
        }
        submit(&resolve(stream, call.per_thread)?, Work::Host(HostFn { function, data })).map(drop)
    }

    fn cuStreamAttachMemAsync/cuStreamAttachMemAsync_ptsz(stream: Handle, address: u64, _len: usize, _flags: u32) |call| {
        resolve(stream, call.per_thread)?;
        let managed = crate::space::find(address).is_some_and(|found| found.kind == crate::space::Kind::Managed);
        if managed { Ok(()) } else { Err(CuError::INVALID_VALUE) }
    }

    fn cuStreamCopyAttributes/cuStreamCopyAttributes_ptsz(to: Handle, from: Handle) |call| {
        let (to, from) = (resolve(to, call.per_thread)?, resolve(from, call.per_thread)?);
        let attributes = lock(&from.attributes).clone();
        *lock(&to.attributes) = attributes;
        Ok(())
    }

    fn cuStreamGetAttribute/cuStreamGetAttribute_ptsz(stream: Handle, attribute: u32, value: Out<[u64; 8]>) |call| {
        let stream = resolve(stream, call.per_thread)?;
        let set = lock(&stream.attributes).get(&attribute).copied();
        let otherwise = match attribute {
            1 | 3 | 9 | 10 => [0; 8],
            // The priority, in the low half.
            8 => [u64::from(stream.priority.cast_unsigned()), 0, 0, 0, 0, 0, 0, 0],
            _ => return Err(CuError::INVALID_VALUE),
        };
        value.set(set.unwrap_or(otherwise))
    }

    fn cuStreamSetAttribute/cuStreamSetAttribute_ptsz(stream: Handle, attribute: u32, value: In<[u64; 8]>) |call| {
        let stream = resolve(stream, call.per_thread)?;
        if !matches!(attribute, 1 | 3 | 8 | 9 | 10) {
            return Err(CuError::INVALID_VALUE);
        }
        lock(&stream.attributes).insert(attribute, value.get()?);
        Ok(())
    }

    fn cuStreamWriteValue32_v2/cuStreamWriteValue32_v2_ptsz(stream: Handle, address: u64, value: u32, _flags: u32) |call| {
        put_mem_ops(stream, call, vec![MemOp::Write { address, value: value.into(), wide: false }])
    }

    fn cuStreamWriteValue64_v2/cuStreamWriteValue64_v2_ptsz(stream: Handle, address: u64, value: u64, _flags: u32) |call| {
        put_mem_ops(stream, call, vec![MemOp::Write { address, value, wide: true }])
    }

    fn cuStreamWaitValue32_v2/cuStreamWaitValue32_v2_ptsz(stream: Handle, address: u64, value: u32, flags: u32) |call| {
        put_mem_ops(stream, call, vec![MemOp::Wait { address, value: value.into(), wide: false, condition: flags }])
    }

    fn cuStreamWaitValue64_v2/cuStreamWaitValue64_v2_ptsz(stream: Handle, address: u64, value: u64, flags: u32) |call| {
        put_mem_ops(stream, call, vec![MemOp::Wait { address, value, wide: true, condition: flags }])
    }

    fn cuStreamWriteValue32/cuStreamWriteValue32_ptsz(stream: Handle, address: u64, value: u32, _flags: u32) |call| {
        put_mem_ops(stream, call, vec![MemOp::Write { address, value: value.into(), wide: false }])
    }

    fn cuStreamWriteValue64/cuStreamWriteValue64_ptsz(stream: Handle, address: u64, value: u64, _flags: u32) |call| {
        put_mem_ops(stream, call, vec![MemOp::Write { address, value, wide: true }])
    }

    fn cuStreamWaitValue32/cuStreamWaitValue32_ptsz(stream: Handle, address: u64, value: u32, flags: u32) |call| {
        put_mem_ops(stream, call, vec![MemOp::Wait { address, value: value.into(), wide: false, condition: flags }])
    }

    fn cuStreamWaitValue64/cuStreamWaitValue64_ptsz(stream: Handle, address: u64, value: u64, flags: u32) |call| {
        put_mem_ops(stream, call, vec![MemOp::Wait { address, value, wide: true, condition: flags }])
    }

    fn cuStreamBatchMemOp/cuStreamBatchMemOp_ptsz(stream: Handle, count: u32, operations: In<BatchMemOp>, _flags: u32) |call| {
        batch(stream, call, count, operations)
    }

    fn cuStreamBatchMemOp_v2/cuStreamBatchMemOp_v2_ptsz(stream: Handle, count: u32, operations: In<BatchMemOp>, _flags: u32) |call| {
        batch(stream, call, count, operations)
    }
}

fn batch(stream: Handle, call: &crate::api::Call, count: u32, operations: In<BatchMemOp>) -> Res {
    if count > 256 {
        return Err(CuError::INVALID_VALUE);
    }
    let operations = operations.list(count as usize)?;
    put_mem_ops(
        stream,
        call,
        operations
            .into_iter()
            .map(BatchMemOp::operation)
            .collect::<Res<_>>()?,
    )
}
