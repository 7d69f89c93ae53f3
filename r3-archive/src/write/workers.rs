//! The threads that hash, compress and store what was submitted.
//!
//! They are started at the first use, with all signals blocked so that the program's handlers
//! never run on them, and are never joined: they end with the process, or on their own once the
//! writer is gone and nothing is queued.

use std::{
    collections::VecDeque,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::{Inner, error::WriteError};
use crate::chunk::{CHUNK_SIZE, ChunkRef};

/// zstd and the writer need a few dozen KiB; the rest is for programs with much thread-local
/// storage, which the C library takes from the same mapping.
const STACK: usize = 1 << 20;

/// Chunks that a worker takes at a time.
const BATCH: usize = 4;

pub(super) struct Workers {
    count: usize,
    started: Once,
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// A job came, or the writer is gone.
    work: Condvar,
    /// Nothing is left to do.
    idle: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Jobs of which some chunks are not yet taken.
    jobs: VecDeque<Arc<Job>>,
    /// Jobs that are not done.
    pending: usize,
    threads: usize,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workers {
    pub fn new(count: usize) -> Self {
        let shared = Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            idle: Condvar::new(),
        };
        Self {
            count,
            started: Once::new(),
            shared: Arc::new(shared),
        }
    }

    /// Queues `buffer`. Where there are no threads, the work is done here and now.
    pub fn submit<B: AsRef<[u8]> + Send + 'static>(&self, inner: &Arc<Inner>, buffer: B) -> Ticket {
        if let Err(error) = inner.file.check_owner() {
            return Ticket::ready(inner, Err(error));
        }
        let job = Arc::new(Job::new(buffer));
        if job.total == 0 {
            job.release();
            return Ticket {
                inner: inner.clone(),
                outcome: Outcome::Queued(job),
            };
        }
        self.started.call_once(|| self.start(inner));
        let mut queue = self.shared.lock();
        if queue.threads == 0 {
            drop(queue);
            while let Some(range) = job.take() {
                job.work(inner, range, &mut Vec::new());
            }
        } else {
            queue.pending += 1;
            queue.jobs.push_back(job.clone());
            drop(queue);
            self.shared.work.notify_all();
        }
        Ticket {
            inner: inner.clone(),
            outcome: Outcome::Queued(job),
        }
    }

    fn start(&self, inner: &Arc<Inner>) {
        let before = block_signals();
        for _ in 0..self.count {
            let (shared, inner) = (self.shared.clone(), inner.clone());
            let thread = std::thread::Builder::new()
                .name("r3-archive".into())
                .stack_size(STACK);
            // Without a thread, the caller does the work.
            if room_for_a_thread() && thread.spawn(move || run(&shared, &inner)).is_ok() {
                self.shared.lock().threads += 1;
            }
        }
        restore_signals(&before);
    }

    /// Waits until nothing is queued or being worked on.
    pub fn drain(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut queue = self.shared.lock();
        while queue.pending > 0 {
            queue = match deadline {
                None => self
                    .shared
                    .idle
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let waited = self.shared.idle.wait_timeout(queue, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }

    /// Lets the threads end once nothing is queued.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }
}

fn run(shared: &Shared, inner: &Inner) {
    let mut scratch = Vec::new();
    let mut queue = shared.lock();
    loop {
        let Some(job) = queue.jobs.front().cloned() else {
            if queue.closed {
                queue.threads -= 1;
                return;
            }
            queue = shared
                .work
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let Some(range) = job.take() else {
            // Another thread may have removed it, and the next one be in front.
            if queue
                .jobs
                .front()
                .is_some_and(|front| Arc::ptr_eq(front, &job))
            {
                queue.jobs.pop_front();
            }
            continue;
        };
        drop(queue);
        let done = job.work(inner, range, &mut scratch);
        queue = shared.lock();
        if done {
            queue.pending -= 1;
            if queue.pending == 0 {
                shared.idle.notify_all();
            }
        }
    }
}

/// A buffer of a caller, whose bytes several threads read.
struct Buffer {
    bytes: NonNull<[u8]>,
    owner: NonNull<dyn Send>,
}

// SAFETY: the owner can be sent; it is touched again only to drop it, by one thread. The bytes
// are plain data, which threads may share.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    fn new<B: AsRef<[u8]> + Send + 'static>(buffer: B) -> Self {
        let owner = NonNull::from(Box::leak(Box::new(buffer)));
        // SAFETY: `owner` was made from a box just now and nobody else has it.
        let bytes = NonNull::from(unsafe { owner.as_ref() }.as_ref());
        Self { bytes, owner }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: made by `Box::leak`, and dropped once.
        drop(unsafe { Box::from_raw(self.owner.as_ptr()) });
    }
}

pub(super) struct Job {
    bytes: NonNull<[u8]>,
    /// Keeps `bytes` alive until all chunks are done.
    buffer: Mutex<Option<Buffer>>,
    /// Number of chunks.
    total: usize,
    /// The first chunk that nobody has taken.
    next: AtomicUsize,
    progress: Mutex<Progress>,
    finished: Condvar,
}

struct Progress {
    done: usize,
    finished: bool,
    chunks: Vec<ChunkRef>,
    error: Option<WriteError>,
}

// SAFETY: `bytes` points into `buffer`, which may be shared and sent.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    fn new<B: AsRef<[u8]> + Send + 'static>(buffer: B) -> Self {
        let buffer = Buffer::new(buffer);
        let total = buffer.bytes.len().div_ceil(CHUNK_SIZE);
        Self {
            bytes: buffer.bytes,
            buffer: Mutex::new(Some(buffer)),
            total,
            next: AtomicUsize::new(0),
            progress: Mutex::new(Progress {
                done: 0,
                finished: false,
                chunks: vec![ChunkRef::Zero; total],
                error: None,
            }),
            finished: Condvar::new(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some chunks that are then the caller's to do.
    fn take(&self) -> Option<Range<usize>> {
        let start = self.next.fetch_add(BATCH, Ordering::Relaxed);
        (start < self.total).then(|| start..self.total.min(start + BATCH))
    }

    /// Stores the chunks of `range`. True when they were the last ones.
    fn work(&self, inner: &Inner, range: Range<usize>, scratch: &mut Vec<u8>) -> bool {
        let (first, count) = (range.start, range.len());
        let failed = self.progress().error.is_some();
        let stored = if failed {
            Ok(Vec::new())
        } else {
            // SAFETY: the buffer is dropped by `release`, after the last chunk of the job; this
            // one is not done before `done` is counted below.
            let bytes = unsafe { self.bytes.as_ref() };
            catch_unwind(AssertUnwindSafe(|| {
                let end = bytes.len().min(range.end * CHUNK_SIZE);
                bytes
                    .get(range.start * CHUNK_SIZE..end)
                    .unwrap_or_default()
                    .chunks(CHUNK_SIZE)
                    .map(|chunk| inner.put(chunk, scratch))
                    .collect::<Result<Vec<_>, _>>()
            }))
            .unwrap_or_else(|_| {
                Err(WriteError::Worker {
                    reason: "it panicked".into(),
                })
            })
        };
        let mut progress = self.progress();
        match stored {
            Ok(stored) => {
                for (to, from) in progress.chunks.iter_mut().skip(first).zip(stored) {
                    *to = from;
                }
            }
            Err(error) => {
                progress.error.get_or_insert(error);
            }
        }
        progress.done += count;
        let done = progress.done == self.total;
        drop(progress);
        if done {
            self.release();
        }
        done
    }

    /// Drops the buffer, then wakes those who wait.
    fn release(&self) {
        let buffer = self
            .buffer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // The type is the caller's, and so is what its drop does.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(buffer)));
        self.progress().finished = true;
        self.finished.notify_all();
    }
}

/// What [`ArchiveWriter::submit`](crate::ArchiveWriter::submit) returns: the chunks, once they are
/// stored. Dropping it does not stop the work.
#[must_use = "the chunks are known only to the ticket"]
pub struct Ticket {
    inner: Arc<Inner>,
    outcome: Outcome,
}

enum Outcome {
    Queued(Arc<Job>),
    Ready(Result<Vec<ChunkRef>, WriteError>),
}

impl Ticket {
    fn ready(inner: &Arc<Inner>, outcome: Result<Vec<ChunkRef>, WriteError>) -> Self {
        Self {
            inner: inner.clone(),
            outcome: Outcome::Ready(outcome),
        }
    }

    /// Whether [`wait`](Self::wait) returns at once.
    pub fn is_done(&self) -> bool {
        match &self.outcome {
            Outcome::Ready(_) => true,
            Outcome::Queued(_) if self.inner.file.check_owner().is_err() => true,
            Outcome::Queued(job) => job.progress().finished,
        }
    }

    /// Waits until all of the buffer is stored and the buffer is dropped. The chunks are in the
    /// order of the buffer.
    pub fn wait(self) -> Result<Vec<ChunkRef>, WriteError> {
        let job = match self.outcome {
            Outcome::Ready(outcome) => return outcome,
            Outcome::Queued(job) => job,
        };
        // The threads do not exist in a child made by fork.
        self.inner.file.check_owner()?;
        let mut progress = job.progress();
        while !progress.finished {
            progress = job
                .finished
                .wait(progress)
                .unwrap_or_else(PoisonError::into_inner);
        }
        match progress.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut progress.chunks)),
        }
    }
}

/// Whether a new thread would find memory. Where address space runs out, a thread can still get a stack that another one left;
/// its first allocation fails then, and Rust's own start of a thread ends the process.
pub fn room_for_a_thread() -> bool {
    /// A stack, and what an allocator reserves for a thread.
    const ROOM: usize = 80 << 20;
    // SAFETY: a new mapping, which is given back.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let start = libc::mmap(std::ptr::null_mut(), ROOM, libc::PROT_NONE, flags, -1, 0);
        start != libc::MAP_FAILED && libc::munmap(start, ROOM) == 0
    }
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are local and initialised by the calls; a sigset_t of zeros is valid.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: `before` is the mask that `block_signals` returned.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut());
    }
}
