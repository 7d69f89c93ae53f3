//! Pieces of work: what streams run and graphs hold.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::context::Context;
use crate::copy::{Copy, Fill};
use crate::error::{CuError, Res};
use crate::event::Event;
use crate::graph::{Plan, memory};
use crate::launch::Launch;
use crate::pool;
use crate::process;
use crate::space;
use crate::stream::Point;

/// One piece of work.
#[derive(Clone)]
pub enum Work {
    Kernel(Arc<Launch>),
    Copy(Arc<Copy>),
    Fill(Fill),
    /// A function of the program's, with its argument.
    Host(HostFn),
    /// `cuStreamAddCallback`
    Callback(Callback),
    /// Writes the time into an event.
    Record(Arc<Event>, u64),
    /// Waits for the last recording of an event (in graphs; a launch makes a position of it).
    WaitEvent(Arc<Event>),
    WaitPoint(Point),
    Graph(Arc<Plan>),
    /// Memory of a pool is given back.
    Free(u64),
    /// Memory of a graph comes (it is there all the time; this keeps it).
    Allocated(Arc<memory::Owned>),
    /// Memory of a graph goes.
    Freed(u64),
    MemOps(Arc<[MemOp]>),
    Nothing,
}

/// A host function.
#[derive(Clone, Copy)]
pub struct HostFn {
    pub function: Option<extern "C" fn(*mut c_void)>,
    pub data: u64,
}

impl HostFn {
    pub fn call(&self) {
        if let Some(function) = self.function {
            call_back(|| function(self.data as *mut c_void));
        }
    }
}

thread_local! {
    static CALLED_BACK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs a function of the program's, which may not call the driver.
fn call_back(function: impl FnOnce()) {
    let before = CALLED_BACK.replace(true);
    function();
    CALLED_BACK.set(before);
}

/// Refuses a call out of a function that the driver called.
pub fn refuse_in_callback(name: &str) -> Res {
    if !CALLED_BACK.get() {
        return Ok(());
    }
    process::once(
        "callback",
        &format!(
            "softcuda: {name} was called in a host function or callback of a stream, where the driver may not be called: \
             call it in another thread"
        ),
    );
    Err(CuError::NOT_PERMITTED)
}

/// A callback.
#[derive(Clone, Copy)]
pub struct Callback {
    pub stream: u64,
    pub function: Option<extern "C" fn(u64, i32, *mut c_void)>,
    pub data: u64,
}

/// A memory operation of a stream.
#[derive(Clone, Copy, Debug)]
pub enum MemOp {
    Write {
        address: u64,
        value: u64,
        wide: bool,
    },
    Wait {
        address: u64,
        value: u64,
        wide: bool,
        condition: u32,
    },
    Nothing,
}

impl Work {
    /// Runs it to its end. After a fault in the context nothing runs any more but what others wait for.
    pub fn run(&self, context: &Arc<Context>) -> Res {
        let broken = context.sticky().is_err();
        match self {
            Work::Record(event, recording) => {
                event.happened(*recording);
                Ok(())
            }
            Work::Callback(callback) => {
                if let Some(function) = callback.function {
                    let status = context.sticky().err().map_or(0, |error| error.0);
                    call_back(|| {
                        function(callback.stream, status, callback.data as *mut c_void);
                    });
                }
                Ok(())
            }
            Work::Free(address) => {
                pool::release(*address);
                Ok(())
            }
            Work::Nothing | Work::Allocated(_) | Work::Freed(_) => Ok(()),
            _ if broken => Ok(()),
            Work::Kernel(launch) => launch.run(context),
            Work::Copy(copy) => copy.run(),
            Work::Fill(fill) => fill.run(),
            Work::Host(host) => {
                host.call();
                Ok(())
            }
            Work::WaitPoint(point) => {
                point.wait();
                Ok(())
            }
            Work::WaitEvent(event) => {
                event.wait();
                Ok(())
            }
            Work::Graph(plan) => plan.run(context),
            Work::MemOps(operations) => operations
                .iter()
                .try_for_each(|operation| operation.run(context)),
        }
    }
}

impl MemOp {
    fn run(&self, context: &Context) -> Res {
        let _in_use = space::InUse::begin();
        match *self {
            MemOp::Nothing => Ok(()),
            MemOp::Write {
                address,
                value,
                wide,
            } => {
                match Cell::of(address, wide)? {
                    Cell::Narrow(cell) => cell.store(value as u32, Ordering::SeqCst),
                    Cell::Wide(cell) => cell.store(value, Ordering::SeqCst),
                }
                Ok(())
            }
            MemOp::Wait {
                address,
                value,
                wide,
                condition,
            } => {
                let mut pause = Duration::from_micros(1);
                loop {
                    let (now, sign) = match Cell::of(address, wide)? {
                        Cell::Narrow(cell) => {
                            let now = cell.load(Ordering::SeqCst);
                            (
                                u64::from(now),
                                i64::from(now.wrapping_sub(value as u32).cast_signed()),
                            )
                        }
                        Cell::Wide(cell) => {
                            let now = cell.load(Ordering::SeqCst);
                            (now, now.wrapping_sub(value).cast_signed())
                        }
                    };
                    let mask = if wide { u64::MAX } else { u64::from(u32::MAX) };
                    let holds = match condition & 3 {
                        0 => sign >= 0,
                        1 => now == value & mask,
                        2 => now & value != 0,
                        _ => !(now | value) & mask != 0,
                    };
                    if holds || context.sticky().is_err() || crate::launch::cancelled() {
                        return Ok(());
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(1));
                }
            }
        }
    }
}

/// A number in memory that kernels or the host change meanwhile.
enum Cell<'a> {
    Narrow(&'a AtomicU32),
    Wide(&'a AtomicU64),
}

impl Cell<'_> {
    fn of(address: u64, wide: bool) -> Res<Self> {
        let len = if wide { 8 } else { 4 };
        let spans = space::spans(address, len, true)?;
        let [(host, size)] = spans[..] else {
            return Err(CuError::INVALID_VALUE);
        };
        if size as u64 != len || !(host as u64).is_multiple_of(len) {
            return Err(CuError::INVALID_VALUE);
        }
        // SAFETY: allocated, aligned, and freed bytes stay while the caller's `InUse` lives.
        Ok(unsafe {
            if wide {
                Cell::Wide(AtomicU64::from_ptr(host.cast()))
            } else {
                Cell::Narrow(AtomicU32::from_ptr(host.cast()))
            }
        })
    }
}
