//! Copies regions of device memory to the host and hands them to the archive's workers.
//!
//! Copies run on a stream of our own, a few slots ahead of the work on what has arrived. The program's
//! thread waits for the copies, and for the workers only when all slots are in use.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use r3_archive::{ArchiveWriter, Ticket};

use crate::driver::{DriverError, Event, Stream};
use crate::process;
use crate::staging::{SLOT, Slot};

/// Slots whose copies are under way at a time. Two keep the bus busy; more hide the work between.
const AHEAD: usize = 4;
/// Copies start at multiples of this in a slot.
const ALIGN: usize = 256;

/// Copies under way, by whichever thread.
static COPYING: Mutex<usize> = Mutex::new(0);
static COPIED: Condvar = Condvar::new();
static ANY_COPYING: AtomicBool = AtomicBool::new(false);

/// While it lives, memory that another thread wants to free stays: a copy from freed memory would be
/// an error that the program sees.
pub struct Copying(());

impl Copying {
    pub fn begin() -> Self {
        *COPYING.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        ANY_COPYING.store(true, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        let mut copying = COPYING.lock().unwrap_or_else(PoisonError::into_inner);
        *copying -= 1;
        ANY_COPYING.store(*copying > 0, Ordering::SeqCst);
        COPIED.notify_all();
    }
}

/// The program is about to free memory: waits until no copy is under way, within `R3_TIMEOUT`.
pub fn wait_for_copies() {
    if !ANY_COPYING.load(Ordering::SeqCst) {
        return;
    }
    let limit = process::settings().map_or(Duration::ZERO, |s| s.options.timeout);
    let copying = COPYING.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = COPIED.wait_timeout_while(copying, limit, |copying| *copying > 0);
}

/// A range to copy.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub address: u64,
    pub len: u64,
}

/// Why memory could not be copied.
#[derive(Debug)]
pub enum CopyError {
    Driver(DriverError),
    /// The stream did not get there in time.
    Timeout,
    /// What was copied before could not be compressed and written in time.
    Backlog,
}

impl From<DriverError> for CopyError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

/// One range on its way to the archive.
pub struct Copied {
    pub tickets: Vec<Ticket>,
    /// Why it could not be read; what it has then is not complete.
    pub error: Option<DriverError>,
}

/// Waits for an event, giving up at `deadline`.
pub fn wait(event: Event, deadline: Instant) -> Result<(), CopyError> {
    let mut polls = 0u32;
    while !event.is_done()? {
        if Instant::now() >= deadline {
            return Err(CopyError::Timeout);
        }
        polls += 1;
        match polls {
            0..200 => std::hint::spin_loop(),
            200..2000 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    Ok(())
}

struct Piece {
    range: usize,
    at: usize,
    len: usize,
}

struct Flight {
    slot: Slot,
    pieces: Vec<Piece>,
    event: Event,
}

/// What copying needs.
pub struct Copier<'a> {
    pub writer: &'a ArchiveWriter,
    pub stream: Stream,
    /// Events to use, at least [`Copier::EVENTS`].
    pub events: &'a [Event],
    /// Slots that may exist.
    pub slots: usize,
    pub deadline: Instant,
}

impl Copier<'_> {
    /// Events that a copier needs.
    pub const EVENTS: usize = AHEAD + 1;

    /// Copies all ranges. `look` sees the bytes of each range in order, in pieces.
    pub fn copy(
        &self,
        ranges: &[Range],
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<Vec<Copied>, CopyError> {
        let mut transfer = Transfer {
            copied: ranges
                .iter()
                .map(|_| Copied {
                    tickets: Vec::new(),
                    error: None,
                })
                .collect(),
            flights: VecDeque::new(),
            open: None,
            next_event: 0,
        };
        match self.run(ranges, &mut transfer, &mut look) {
            Ok(()) => Ok(transfer.copied),
            Err(error) => {
                // The driver may still write to these slots: they are never used again.
                std::mem::forget((transfer.open, transfer.flights));
                Err(error)
            }
        }
    }

    /// Copies a little of our own device memory to the host.
    pub fn read(&self, address: u64, len: usize) -> Result<Slot, CopyError> {
        self.through_slot(len, |stream, slot| {
            // SAFETY: the slot has this many bytes and is ours until the stream is waited for.
            unsafe { stream.copy_to_host(slot, address, len) }
        })
    }

    /// Starts a copy of `len` bytes, at most a slot, between a slot and the device, and waits for it.
    pub fn through_slot(
        &self,
        len: usize,
        start: impl FnOnce(Stream, *mut u8) -> Result<(), DriverError>,
    ) -> Result<Slot, CopyError> {
        let mut slot = Slot::wait(self.slots, self.deadline).ok_or(CopyError::Backlog)?;
        slot.used = len.min(SLOT);
        let Some(event) = self.events.first() else {
            return Err(CopyError::Backlog);
        };
        let done = start(self.stream, slot.pointer())
            .and_then(|()| event.record(self.stream))
            .map_err(CopyError::from)
            .and_then(|()| wait(*event, self.deadline));
        match done {
            Ok(()) => Ok(slot),
            Err(error) => {
                // The driver may still use it.
                std::mem::forget(slot);
                Err(error)
            }
        }
    }

    fn run(
        &self,
        ranges: &[Range],
        transfer: &mut Transfer,
        look: &mut impl FnMut(usize, &[u8]),
    ) -> Result<(), CopyError> {
        for (index, range) in ranges.iter().enumerate() {
            let mut offset = 0;
            while offset < range.len && transfer.copied[index].error.is_none() {
                let wanted = usize::try_from(range.len - offset)
                    .unwrap_or(SLOT)
                    .min(SLOT);
                // A piece lies in one slot; large ranges start a fresh one.
                if transfer
                    .open
                    .as_ref()
                    .is_some_and(|(slot, _)| slot.used + wanted > SLOT)
                {
                    self.depart(transfer)?;
                }
                while transfer.flights.len() >= AHEAD {
                    self.arrive(transfer, look)?;
                }
                if transfer.open.is_none() {
                    transfer.open = Some((self.slot(transfer, look)?, Vec::new()));
                }
                let Some((slot, pieces)) = &mut transfer.open else {
                    break;
                };
                let at = slot.used;
                // SAFETY: `wanted` bytes at `at` are inside the slot, which we hold until the event
                // behind the copy has passed.
                let started = unsafe {
                    self.stream.copy_to_host(
                        slot.pointer().wrapping_add(at),
                        range.address + offset,
                        wanted,
                    )
                };
                match started {
                    Ok(()) => {
                        pieces.push(Piece {
                            range: index,
                            at,
                            len: wanted,
                        });
                        slot.used = (at + wanted).next_multiple_of(ALIGN).min(SLOT);
                    }
                    Err(error) => transfer.copied[index].error = Some(error),
                }
                offset += wanted as u64;
            }
        }
        self.depart(transfer)?;
        while !transfer.flights.is_empty() {
            self.arrive(transfer, look)?;
        }
        Ok(())
    }

    /// A free slot. While there is none, what has arrived is handed to the workers, who give slots back.
    fn slot(
        &self,
        transfer: &mut Transfer,
        look: &mut impl FnMut(usize, &[u8]),
    ) -> Result<Slot, CopyError> {
        loop {
            if let Some(slot) = Slot::take(self.slots) {
                return Ok(slot);
            }
            if transfer.flights.is_empty() {
                return Slot::wait(self.slots, self.deadline).ok_or(CopyError::Backlog);
            }
            self.arrive(transfer, look)?;
        }
    }

    /// The open slot is full: an event marks the end of its copies.
    fn depart(&self, transfer: &mut Transfer) -> Result<(), CopyError> {
        let Some((slot, pieces)) = transfer.open.take() else {
            return Ok(());
        };
        let event = self.events[transfer.next_event % self.events.len()];
        transfer.next_event += 1;
        // Kept even when this fails: the copies may be under way.
        let recorded = event.record(self.stream);
        transfer.flights.push_back(Flight {
            slot,
            pieces,
            event,
        });
        Ok(recorded?)
    }

    /// Waits for the oldest slot and hands its pieces to the workers.
    fn arrive(
        &self,
        transfer: &mut Transfer,
        look: &mut impl FnMut(usize, &[u8]),
    ) -> Result<(), CopyError> {
        let Some(oldest) = transfer.flights.front() else {
            return Ok(());
        };
        wait(oldest.event, self.deadline)?;
        let Some(Flight { slot, pieces, .. }) = transfer.flights.pop_front() else {
            return Ok(());
        };
        let slot = Arc::new(slot);
        for Piece { range, at, len } in pieces {
            let part = Part {
                slot: Arc::clone(&slot),
                at,
                len,
            };
            look(range, part.as_ref());
            transfer.copied[range]
                .tickets
                .push(self.writer.submit(part));
        }
        Ok(())
    }
}

/// The state of one call to [`Copier::copy`].
struct Transfer {
    copied: Vec<Copied>,
    flights: VecDeque<Flight>,
    open: Option<(Slot, Vec<Piece>)>,
    next_event: usize,
}

/// A part of a slot. The slot is free again when the archive has read all its parts.
struct Part {
    slot: Arc<Slot>,
    at: usize,
    len: usize,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.slot
            .as_ref()
            .as_ref()
            .get(self.at..self.at + self.len)
            .unwrap_or(&[])
    }
}
