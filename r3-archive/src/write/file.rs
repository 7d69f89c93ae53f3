//! The growing file: space, mapping, blocks.
//!
//! A block is reserved under a short lock, which also writes its header in state *reserved*; the
//! payload is copied outside the lock, and the state word becomes *committed* last, with release
//! order. Whenever the process is killed, the file is then a chain of headers of which some may
//! be reserved only, and a reader hops over those.

use std::{
    io,
    mem::ManuallyDrop,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use memmap2::{Advice, MmapOptions, MmapRaw};

use super::{
    error::WriteError,
    fd::{self, Fd},
};
use crate::{
    chunk::ChunkId,
    format::{
        self, BLOCK_COMMITTED, BLOCK_RESERVED, BLOCK_STATE_OFFSET, BLOCKS_START, BlockHeader,
        CLOSING_LEN, Closing, Codec, Encoding, HEADER_LEN, IDENTITY_LEN, Identity, Kind,
    },
    index::{INDEX_VERSION, Index, RecordEntry},
};

/// The file grows by its own length, within these bounds.
const MIN_STEP: u64 = 4 << 20;
const MAX_STEP: u64 = 256 << 20;

/// How much of it is mapped: what is mapped counts as the process's memory.
const WINDOW: u64 = 32 << 20;

/// How long `finish` waits for threads that are in the middle of a block.
const PATIENCE: Duration = Duration::from_secs(5);

/// A mapped part of the file. Writers in the middle of a block keep theirs alive while the file
/// grows into the next one.
struct Window {
    start: u64,
    map: ManuallyDrop<MmapRaw>,
    owner: u32,
}

impl Drop for Window {
    fn drop(&mut self) {
        // In a child made by fork the mapping is not there, and something else may be.
        if self.owner == std::process::id() {
            // SAFETY: `self.map` is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.map) }
        }
    }
}

struct State {
    fd: Fd,
    /// Where the next block goes.
    end: u64,
    /// Length of the file; all of it has blocks on the disk.
    allocated: u64,
    window: Option<Arc<Window>>,
    /// Blocks that are reserved and not yet committed.
    in_flight: usize,
    records: Vec<RecordEntry>,
    finished: bool,
    error: Option<WriteError>,
}

/// What is in a block.
pub(super) struct Block<'a> {
    pub kind: Kind,
    pub version: u16,
    pub codec: Codec,
    pub encoding: Encoding,
    pub raw_len: u64,
    pub hash: ChunkId,
    pub payload: &'a [u8],
}

pub(super) struct BlockFile {
    path: Arc<PathBuf>,
    owner: u32,
    uuid: [u8; 16],
    budget: u64,
    state: Mutex<State>,
    committed: Condvar,
}

impl BlockFile {
    pub fn create(path: &Path, budget: u64) -> Result<Self, WriteError> {
        // The program may change its working directory later.
        let path = Arc::new(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let uuid = random_uuid();
        let mut writer = [0; 16];
        for (to, from) in writer.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
            *to = from;
        }
        let identity = Identity {
            version: format::FORMAT_VERSION,
            uuid,
            writer,
        };
        let mut start = [0; BLOCKS_START as usize];
        start[..IDENTITY_LEN].copy_from_slice(&identity.to_bytes());
        start[IDENTITY_LEN..IDENTITY_LEN + CLOSING_LEN]
            .copy_from_slice(&Closing::default().to_bytes());
        let fd = Fd::create(&path, &start).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Exists { path: path.clone() },
            _ => WriteError::Create {
                path: path.clone(),
                error: Arc::new(error),
            },
        })?;
        Ok(Self {
            owner: std::process::id(),
            uuid,
            budget,
            state: Mutex::new(State {
                fd,
                end: BLOCKS_START,
                allocated: BLOCKS_START,
                window: None,
                in_flight: 0,
                records: Vec::new(),
                finished: false,
                error: None,
            }),
            committed: Condvar::new(),
            path,
        })
    }

    pub fn path(&self) -> &Arc<PathBuf> {
        &self.path
    }

    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Refuses to go on in a child made by fork, before any lock: the thread that held it may
    /// not exist here.
    pub fn check_owner(&self) -> Result<(), WriteError> {
        if std::process::id() == self.owner {
            Ok(())
        } else {
            Err(WriteError::Forked { owner: self.owner })
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn end(&self) -> u64 {
        if self.check_owner().is_err() {
            return 0;
        }
        self.lock().end
    }

    /// The error after which nothing more is written.
    pub fn error(&self) -> Option<WriteError> {
        if let Err(error) = self.check_owner() {
            return Some(error);
        }
        self.lock().error.clone()
    }

    /// Appends a block and returns its offset.
    pub fn append(&self, block: &Block<'_>) -> Result<u64, WriteError> {
        self.check_owner()?;
        let mut state = self.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        if state.finished {
            return Err(WriteError::Finished {
                path: self.path.clone(),
            });
        }
        let (offset, window) = self.reserve(&mut state, block)?;
        state.in_flight += 1;
        drop(state);

        self.fill(&window, offset, block);

        let mut state = self.lock();
        state.in_flight -= 1;
        if block.kind != Kind::CHUNK {
            state.records.push(RecordEntry {
                offset,
                kind: block.kind,
                version: block.version,
            });
        }
        if state.in_flight == 0 {
            self.committed.notify_all();
        }
        Ok(offset)
    }

    /// Takes space for `block` and writes its header in state *reserved*.
    fn reserve(
        &self,
        state: &mut State,
        block: &Block<'_>,
    ) -> Result<(u64, Arc<Window>), WriteError> {
        let offset = state.end;
        let len = format::block_len(block.payload.len() as u64);
        let Some((len, end)) = len.and_then(|len| Some((len, offset.checked_add(len)?))) else {
            return Err(self.full(offset, u64::MAX, io::Error::from_raw_os_error(libc::EFBIG)));
        };
        if block.kind == Kind::CHUNK && end > self.budget {
            return Err(WriteError::Budget {
                path: self.path.clone(),
                budget: self.budget,
            });
        }
        let window = match self.window_for(state, offset, len) {
            Ok(window) => window,
            Err(error) => {
                state.error = Some(error.clone());
                return Err(error);
            }
        };
        let header = BlockHeader {
            kind: block.kind,
            version: block.version,
            codec: block.codec.number(),
            encoding: block.encoding.number(),
            state: BLOCK_RESERVED,
            stored_len: block.payload.len() as u64,
            raw_len: block.raw_len,
            hash: block.hash,
            tag: format::tag_of(&self.uuid),
        };
        copy(&window, offset, &header.to_bytes());
        state.end = end;
        Ok((offset, window))
    }

    /// Copies the payload, then says that the block is complete.
    fn fill(&self, window: &Window, offset: u64, block: &Block<'_>) {
        copy(window, offset + HEADER_LEN as u64, block.payload);
        let at = (offset - window.start) as usize + BLOCK_STATE_OFFSET;
        debug_assert!(at + 4 <= window.map.len());
        // SAFETY: `reserve` made the window cover the block; blocks are 64-byte aligned in a
        // page-aligned mapping, so the word is aligned; nobody else writes to this block.
        let word = unsafe { AtomicU32::from_ptr(window.map.as_mut_ptr().add(at).cast()) };
        word.store(BLOCK_COMMITTED.to_le(), Ordering::Release);
    }

    /// A window that covers `len` bytes from `offset`, growing the file if need be.
    fn window_for(
        &self,
        state: &mut State,
        offset: u64,
        len: u64,
    ) -> Result<Arc<Window>, WriteError> {
        let end = offset.saturating_add(len);
        if let Some(window) = &state.window
            && offset >= window.start
            && end - window.start <= window.map.len() as u64
        {
            return Ok(window.clone());
        }
        let Some(file) = state.fd.file() else {
            return Err(WriteError::Lost {
                path: self.path.clone(),
            });
        };
        if end > state.allocated {
            let mut step = state
                .allocated
                .clamp(MIN_STEP, MAX_STEP)
                .min(fd::spare(file));
            loop {
                let wish = state
                    .allocated
                    .saturating_add(step)
                    .min(self.budget)
                    .min(fd::size_limit())
                    .max(end)
                    .next_multiple_of(BLOCKS_START);
                match fd::allocate(file, state.allocated, wish) {
                    Ok(()) => {
                        state.allocated = wish;
                        break;
                    }
                    // Nearly full: what is left may do for this block.
                    Err(error) if is_full(&error) && wish > end.next_multiple_of(BLOCKS_START) => {
                        let _ = file.set_len(state.allocated);
                        step /= 4;
                    }
                    Err(error) => {
                        let _ = file.set_len(state.allocated);
                        return Err(if is_full(&error) {
                            self.full(offset, len, error)
                        } else {
                            self.failed("grow", error)
                        });
                    }
                }
            }
        }
        let start = offset - offset % BLOCKS_START;
        let mapped_to = state.allocated.min(end.max(start + WINDOW));
        let map = usize::try_from(mapped_to - start)
            .map_err(io::Error::other)
            .and_then(|len| MmapOptions::new().offset(start).len(len).map_raw(file))
            .map_err(|error| self.failed("map", error))?;
        // A child made by fork has no business in the file.
        let _ = map.advise(Advice::DontFork);
        let window = Arc::new(Window {
            start,
            map: ManuallyDrop::new(map),
            owner: self.owner,
        });
        state.window = Some(window.clone());
        Ok(window)
    }

    fn full(&self, written: u64, needed: u64, error: io::Error) -> WriteError {
        WriteError::Full {
            path: self.path.clone(),
            needed,
            written,
            error: Arc::new(error),
        }
    }

    fn failed(&self, action: &'static str, error: io::Error) -> WriteError {
        WriteError::File {
            action,
            path: self.path.clone(),
            error: Arc::new(error),
        }
    }

    /// Refuses further blocks and waits for those in flight, then writes the index over `chunks`
    /// and everything else that was committed, cuts the file to its length, and marks it complete.
    pub fn finish(
        &self,
        chunks: impl FnOnce() -> Vec<(ChunkId, crate::index::ChunkEntry)>,
    ) -> Result<(), WriteError> {
        self.check_owner()?;
        // This runs at exit, perhaps in a signal handler on top of the thread that holds the lock.
        let deadline = Instant::now() + PATIENCE;
        let mut state = loop {
            match self.state.try_lock() {
                Ok(state) => break state,
                Err(std::sync::TryLockError::Poisoned(state)) => break state.into_inner(),
                Err(std::sync::TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(std::sync::TryLockError::WouldBlock) => {
                    return Err(self.failed("lock", io::ErrorKind::TimedOut.into()));
                }
            }
        };
        if state.finished {
            return state.error.clone().map_or(Ok(()), Err);
        }
        state.finished = true;
        while state.in_flight > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self
                .committed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let records = std::mem::take(&mut state.records);
        // Threads that store a chunk hold its table while they wait for this lock.
        drop(state);
        let index = Index {
            records,
            chunks: chunks(),
        };
        let mut state = self.lock();
        let closed = self.close(&mut state, &index);
        match (&state.error, closed) {
            (Some(error), _) => Err(error.clone()),
            (None, Err(error)) => {
                state.error = Some(error.clone());
                Err(error)
            }
            (None, Ok(())) => Ok(()),
        }
    }

    fn close(&self, state: &mut State, index: &Index) -> Result<(), WriteError> {
        let bytes = index.to_bytes();
        let block = Block {
            kind: Kind::INDEX,
            version: INDEX_VERSION,
            codec: Codec::None,
            encoding: Encoding::Bytes,
            raw_len: bytes.len() as u64,
            hash: ChunkId::of(&bytes),
            payload: &bytes,
        };
        let indexed = self.reserve(state, &block).map(|(offset, window)| {
            self.fill(&window, offset, &block);
            offset
        });
        let end = state.end;
        let Some(file) = state.fd.file() else {
            return Err(WriteError::Lost {
                path: self.path.clone(),
            });
        };
        file.set_len(end)
            .map_err(|error| self.failed("truncate", error))?;
        let offset = indexed?;
        let closing = Closing {
            complete: true,
            index_offset: offset,
            index_len: end - offset,
            file_len: end,
        };
        file.write_all_at(&closing.to_bytes(), IDENTITY_LEN as u64)
            .map_err(|error| self.failed("close", error))
    }
}

impl Drop for BlockFile {
    /// A writer that goes away unfinished gives back the space that it did not use.
    fn drop(&mut self) {
        if self.check_owner().is_err() {
            return;
        }
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let end = state.end;
        if let Some(file) = state.fd.file() {
            let _ = file.set_len(end);
        }
    }
}

/// Copies `bytes` to `offset` of the file, which `window` covers.
fn copy(window: &Window, offset: u64, bytes: &[u8]) {
    let at = (offset - window.start) as usize;
    debug_assert!(at + bytes.len() <= window.map.len());
    // SAFETY: `window_for` made the window cover the block; the mapping is shared, writable and
    // as long as the file is allocated; each block is written by one thread.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), window.map.as_mut_ptr().add(at), bytes.len());
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
    )
}

/// A version 4 UUID. Random enough to tell files apart, even where the system has no randomness.
fn random_uuid() -> [u8; 16] {
    let mut uuid = [0u8; 16];
    // SAFETY: writes at most the length of `uuid` to it.
    let got = unsafe { libc::getrandom(uuid.as_mut_ptr().cast(), uuid.len(), libc::GRND_NONBLOCK) };
    if got != uuid.len() as isize {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let seed = [
            now.as_nanos().to_le_bytes(),
            u128::from(std::process::id()).to_le_bytes(),
        ];
        uuid = xxhash_rust::xxh3::xxh3_128(seed.as_flattened()).to_le_bytes();
    }
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
