//! Waits until the memory of a recorded launch is stored, then writes the launch's record.
//!
//! One thread does this for all launches, in order, so that the program need not wait for compression.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use r3_archive::chunk::{ChunkList, ChunkRef};
use r3_archive::model::{
    ChunkChange, LaunchRecord, RegionOwner, RegionSnapshot, Snapshot, SnapshotDelta,
};
use r3_archive::{Ticket, WriteError};

use crate::fingerprint::Fingerprint;
use crate::select::Counter;
use crate::session::{self, Session};
use crate::{fingerprint, guard, log};

/// Consecutive chunks of a region.
pub enum Part {
    /// So many chunks of zeros.
    Zeros(u64),
    /// The archive has them.
    Known(Vec<ChunkRef>),
    /// They were copied; with their fingerprints, where those were made.
    Copied(Vec<Ticket>, Vec<Option<Fingerprint>>),
}

/// What is known of a region after the launch.
pub enum After {
    /// All of it was copied.
    Whole(Vec<Ticket>),
    /// The chunks whose fingerprints changed: index of the first, and what is there now.
    Changes(Vec<(u64, Part)>),
}

/// A region of memory on its way to the archive.
pub struct PendingRegion {
    pub owner: RegionOwner,
    pub address: u64,
    pub len: u64,
    pub before: Vec<Part>,
    pub after: After,
}

/// A recorded launch whose memory may still be being written.
pub struct PendingLaunch {
    pub counter: &'static Counter,
    /// Complete but for the memory.
    pub record: LaunchRecord,
    /// Ascending by address.
    pub regions: Vec<PendingRegion>,
}

static QUEUE: OnceLock<Option<Mutex<Sender<PendingLaunch>>>> = OnceLock::new();
static WAITING: Mutex<usize> = Mutex::new(0);
static DONE: Condvar = Condvar::new();

/// Hands a launch to the thread; writes it on this one if there is no thread to be had.
pub fn submit(session: &'static Session, launch: PendingLaunch) {
    let queue = QUEUE.get_or_init(|| {
        let (sender, receiver) = channel::<PendingLaunch>();
        if !r3_archive::room_for_a_thread() {
            return None;
        }
        let thread = without_signals(|| {
            std::thread::Builder::new()
                .name("r3-record".into())
                .stack_size(256 << 10)
                .spawn(move || {
                    for launch in receiver {
                        guard::guard(|| write(session, launch));
                        *WAITING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                        DONE.notify_all();
                    }
                })
        });
        thread.ok().map(|_| Mutex::new(sender))
    });
    let Some(queue) = queue else {
        return write(session, launch);
    };
    *WAITING.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    let sent = queue
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send(launch);
    if sent.is_err() {
        *WAITING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

/// Waits until everything that was submitted is written; `false` when `limit` passed first.
pub fn drain(limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    while *waiting > 0 {
        let Some(left) = deadline.checked_duration_since(Instant::now()) else {
            return false;
        };
        (waiting, _) = DONE
            .wait_timeout(waiting, left)
            .unwrap_or_else(PoisonError::into_inner);
    }
    true
}

/// Threads inherit the signal mask: ours take none of the program's signals.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are ours; the mask is put back below.
    unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        let result = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
        result
    }
}

fn write(session: &Session, launch: PendingLaunch) {
    let PendingLaunch {
        counter,
        mut record,
        regions,
    } = launch;
    let kernel = record.kernel;
    let result = settle(&mut record, regions)
        .and_then(|()| session.writer.append(&record))
        .and_then(|()| {
            counter.captured();
            session.progress(kernel)
        });
    match result {
        Ok(()) => log::debug(format_args!(
            "launch {} recorded: {} occurrence {}",
            record.id,
            counter.kernel().name,
            record.occurrence
        )),
        Err(error) => {
            session.captured.fetch_sub(1, Ordering::Relaxed);
            counter.skipped("its memory could not be written");
            session.fail(&error);
            session::message(format!("launch {}: {error}", record.id));
        }
    }
}

/// Waits for the chunks and puts the snapshots together.
fn settle(record: &mut LaunchRecord, regions: Vec<PendingRegion>) -> Result<(), WriteError> {
    let mut before = Snapshot::default();
    let mut after = SnapshotDelta::default();
    for (index, region) in (0u32..).zip(regions) {
        let mut old = ChunkList::new();
        for part in region.before {
            match part {
                Part::Zeros(count) => old.push_zeros(count),
                part => chunks(part)?.into_iter().for_each(|chunk| old.push(chunk)),
            }
        }
        let mut change = |chunk, data| {
            after.changes.push(ChunkChange {
                region: index,
                chunk,
                data,
            });
        };
        match region.after {
            After::Whole(tickets) => {
                let new = chunks(Part::Copied(tickets, Vec::new()))?;
                for ((chunk, new), old) in (0u64..).zip(new).zip(old.iter()) {
                    if new != old {
                        change(chunk, new);
                    }
                }
            }
            // Their fingerprints differ, so they do.
            After::Changes(parts) => {
                for (first, part) in parts {
                    for (chunk, data) in (first..).zip(chunks(part)?) {
                        change(chunk, data);
                    }
                }
            }
        }
        before.regions.push(RegionSnapshot {
            owner: region.owner,
            address: region.address,
            len: region.len,
            chunks: old,
        });
    }
    record.before = before;
    record.after = after;
    Ok(())
}

fn chunks(part: Part) -> Result<Vec<ChunkRef>, WriteError> {
    match part {
        Part::Zeros(count) => Ok(vec![ChunkRef::Zero; count as usize]),
        Part::Known(chunks) => Ok(chunks),
        Part::Copied(tickets, fingerprints) => {
            let mut chunks = Vec::new();
            for ticket in tickets {
                chunks.extend(ticket.wait()?);
            }
            let known = fingerprints.into_iter().zip(chunks.iter().copied());
            fingerprint::learn(known.filter_map(|(print, chunk)| Some((print?, chunk))));
            Ok(chunks)
        }
    }
}
