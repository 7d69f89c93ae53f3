//! What R3 has in each of the program's contexts: a stream, events, the fingerprint kernel.
//!
//! All of it ends with its context. One lock serialises the recording of launches; it is the only lock
//! of R3 that is held across driver calls, and is taken with a time limit.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::copy::{Copier, CopyError};
use crate::driver::{self, DriverError, Event, Stream};
use crate::fingerprint::{Fingerprinter, WORTHWHILE};
use crate::reach::Map;
use crate::session::Session;
use crate::skip::Skip;
use crate::snapshot::Snapshots;
use crate::{log, staging};

/// Contexts by handle, as opaque numbers.
pub type Contexts = HashMap<usize, Context>;

/// Streams and events of ours, by context.
pub struct Context {
    pub device: i32,
    stream: Stream,
    events: [Event; Copier::EVENTS],
    /// Marks the program's stream.
    pub mark: Event,
    fingerprints: Fingerprints,
}

/// The fingerprint kernel in a context: loaded when a launch first reaches much memory.
enum Fingerprints {
    NotYet,
    Ready(Fingerprinter),
    Unavailable,
}

static CONTEXTS: Mutex<Option<Contexts>> = Mutex::new(None);
/// Contexts that ended while another thread held the lock.
static ENDED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Primary contexts by device, as the program retained them.
static PRIMARY: Mutex<Vec<(i32, usize)>> = Mutex::new(Vec::new());

/// `cuDevicePrimaryCtxRetain`.
pub fn primary(device: i32, context: usize) {
    let mut primary = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    primary.retain(|(known, _)| *known != device);
    primary.push((device, context));
}

/// The primary context of a device, if it was ever retained.
pub fn primary_of(device: i32) -> Option<usize> {
    let primary = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    primary
        .iter()
        .find(|(known, _)| *known == device)
        .map(|(_, context)| *context)
}

/// A context is about to end, and our stream with it.
pub fn forget(context: usize) {
    ENDED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(context);
    // Whoever records at this moment does it before the next launch: a handle can be given out again.
    if let Ok(mut contexts) = CONTEXTS.try_lock() {
        drop_ended(&mut contexts);
    }
    staging::context_gone();
}

fn drop_ended(contexts: &mut Option<Contexts>) {
    let ended = std::mem::take(&mut *ENDED.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(contexts) = contexts.as_mut() {
        contexts.retain(|context, _| !ended.contains(context));
    }
}

/// Takes the lock, until `deadline`.
pub fn lock(deadline: Instant) -> Result<MutexGuard<'static, Option<Contexts>>, Skip> {
    loop {
        let mut contexts = match CONTEXTS.try_lock() {
            Ok(contexts) => contexts,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err("another launch was being recorded for R3_TIMEOUT".into());
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
        };
        drop_ended(&mut contexts);
        return Ok(contexts);
    }
}

impl Context {
    /// What takes the snapshots of a launch. Loads the fingerprint kernel if there is enough memory for
    /// it to pay.
    pub fn snapshots<'a>(
        &'a mut self,
        session: &'a Session,
        map: &'a Map,
        memory: u64,
        deadline: Instant,
    ) -> Result<Snapshots<'a>, CopyError> {
        let slots = usize::try_from(memory).unwrap_or(usize::MAX) / staging::SLOT;
        let copier = Copier {
            writer: &session.writer,
            stream: self.stream,
            events: &self.events,
            slots: slots.max(2),
            deadline,
        };
        let pays = map.allocations().iter().any(|a| a.len >= WORTHWHILE);
        if pays && matches!(self.fingerprints, Fingerprints::NotYet) {
            self.fingerprints = match Fingerprinter::new() {
                Ok(ready) => Fingerprints::Ready(ready),
                Err(error) => {
                    log::info(format_args!(
                        "memory is copied without fingerprints: {error}"
                    ));
                    Fingerprints::Unavailable
                }
            };
        }
        let fingerprinter = match &mut self.fingerprints {
            Fingerprints::Ready(ready) if pays => {
                ready.upload(map, &copier)?.map(|tables| (ready, tables))
            }
            _ => None,
        };
        Ok(Snapshots {
            copier,
            map,
            fingerprinter,
        })
    }

    /// Work of ours did not get through: what is queued on our stream may stay there. From now on
    /// memory is copied, on another stream.
    pub fn distrust(&mut self) {
        self.fingerprints = Fingerprints::Unavailable;
        match Self::parts() {
            Ok((stream, events, mark)) => {
                (self.stream, self.events, self.mark) = (stream, events, mark)
            }
            Err(error) => log::info(format_args!("no other stream: {error}")),
        }
    }

    fn parts() -> Result<(Stream, [Event; Copier::EVENTS], Event), DriverError> {
        let stream = Stream::new()?;
        let mut events = [Event::new()?; Copier::EVENTS];
        for event in &mut events[1..] {
            *event = Event::new()?;
        }
        Ok((stream, events, Event::new()?))
    }
}

/// The entry of a context, made if there is none.
pub fn open(contexts: &mut Option<Contexts>, key: usize) -> Result<&mut Context, Skip> {
    use std::collections::hash_map::Entry;
    match contexts.get_or_insert_with(HashMap::new).entry(key) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(vacant) => {
            let device = driver::current_device().ok_or("there is no current context")?;
            let (stream, events, mark) = Context::parts()?;
            let fingerprints = Fingerprints::NotYet;
            Ok(vacant.insert(Context {
                device,
                stream,
                events,
                mark,
                fingerprints,
            }))
        }
    }
}
