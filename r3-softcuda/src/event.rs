//! Events: a position in a stream, and the time at which it was passed.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::api::{Call, Out, api};
use crate::capture::{self, Captured};
use crate::context::{self, Context};
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::process::lock;
use crate::stream::{self, Point};
use crate::work::Work;

const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// An event.
pub struct Event {
    pub handle: Handle,
    flags: u32,
    context: Arc<Context>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How often it was recorded.
    recording: u64,
    point: Option<Point>,
    captured: Option<Captured>,
    time: Option<Instant>,
}

impl Event {
    /// Where it was recorded last.
    pub fn point(&self) -> Option<Point> {
        lock(&self.state).point.clone()
    }

    /// Where in a capture it was recorded last.
    pub fn captured(&self) -> Option<Captured> {
        lock(&self.state).captured.clone()
    }

    /// The work of a recording ran.
    pub fn happened(&self, recording: u64) {
        let mut state = lock(&self.state);
        if recording == 0 || recording == state.recording {
            state.time = Some(Instant::now());
        }
    }

    /// Waits for the last recording.
    pub fn wait(&self) {
        if let Some(point) = self.point() {
            point.wait();
        }
    }

    /// A graph that records it was launched.
    pub fn recorded_at(&self, point: &Point) {
        let mut state = lock(&self.state);
        state.recording += 1;
        state.point = Some(point.clone());
        state.captured = None;
    }
}

fn record(event: Handle, stream: Handle, call: &Call) -> Res {
    let event = handle::get::<Event>(event)?;
    let stream = stream::resolve(stream, call.per_thread)?;
    if !Arc::ptr_eq(&event.context, &stream.context()?) {
        return Err(CuError::INVALID_HANDLE);
    }
    if let Some(captured) = capture::record(&stream)? {
        let mut state = lock(&event.state);
        state.captured = Some(captured);
        state.point = None;
        return Ok(());
    }
    let recording = {
        let mut state = lock(&event.state);
        state.recording += 1;
        state.recording
    };
    let point = stream::enqueue(&stream, Vec::new(), Work::Record(event.clone(), recording))?;
    let mut state = lock(&event.state);
    state.point = Some(point);
    state.captured = None;
    Ok(())
}

fn elapsed(milliseconds: Out<f32>, start: Handle, end: Handle) -> Res {
    let time = |event: Handle| {
        let event = handle::get::<Event>(event)?;
        if event.flags & DISABLE_TIMING != 0 {
            return Err(CuError::INVALID_HANDLE);
        }
        let state = lock(&event.state);
        if state.captured.is_some() {
            return Err(CuError::CAPTURED_EVENT);
        }
        let point = state.point.clone().ok_or(CuError::INVALID_HANDLE)?;
        drop(state);
        if !point.reached() {
            return Err(CuError::NOT_READY);
        }
        event.context.sticky()?;
        lock(&event.state).time.ok_or(CuError::NOT_READY)
    };
    let (start, end) = (time(start)?, time(end)?);
    let seconds = match end.checked_duration_since(start) {
        Some(after) => after.as_secs_f64(),
        None => -start.duration_since(end).as_secs_f64(),
    };
    milliseconds.set((seconds * 1e3) as f32)
}

api! {
    fn cuEventCreate(event: Out<Handle>, flags: u32) {
        event.required()?;
        // Events for other processes cannot measure time.
        if flags & !7 != 0 || flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS {
            return Err(CuError::INVALID_VALUE);
        }
        let context = context::current()?;
        let made = handle::create(|handle| Event { handle, flags, context, state: Mutex::default() });
        event.set(made.handle)
    }

    fn cuEventDestroy(event: Handle) {
        handle::remove::<Event>(event).map(drop)
    }

    fn cuEventDestroy_v2(event: Handle) {
        handle::remove::<Event>(event).map(drop)
    }

    fn cuEventRecord/cuEventRecord_ptsz(event: Handle, stream: Handle) |call| {
        record(event, stream, call)
    }

    fn cuEventRecordWithFlags/cuEventRecordWithFlags_ptsz(event: Handle, stream: Handle, _flags: u32) |call| {
        record(event, stream, call)
    }

    fn cuEventQuery(event: Handle) {
        let event = handle::get::<Event>(event)?;
        if event.captured().is_some() {
            return Err(CuError::CAPTURED_EVENT);
        }
        event.context.sticky()?;
        match event.point() {
            Some(point) if !point.reached() => Err(CuError::NOT_READY),
            _ => Ok(()),
        }
    }

    fn cuEventSynchronize(event: Handle) {
        let event = handle::get::<Event>(event)?;
        if event.captured().is_some() {
            return Err(CuError::CAPTURED_EVENT);
        }
        event.wait();
        event.context.show_prints();
        event.context.sticky()
    }

    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
}
