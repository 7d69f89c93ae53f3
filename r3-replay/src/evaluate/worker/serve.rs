//! The worker process: reads orders, has the engine do them, answers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use r3_codegen::worker::{frame, isolate};

use super::engines::{DeviceEngine, Devices, Engines};
use super::protocol::{Answer, Made, Order, Said, Setup, Trouble};
use super::watchdog::{Outlet, Watchdog, say};
use crate::evaluate::engine::Lost;
use crate::restore::reexec;

/// Stack of the thread that runs the engine: PTX can be nested deeply.
const STACK: usize = 64 << 20;

/// Makes this process a device's worker. To be called before anything else; never returns.
pub fn serve() -> ! {
    serve_with(Devices::default)
}

/// As [`serve`], with engines of another kind. Standard input is the connection, both ways.
pub fn serve_with<E: Engines>(engines: impl FnOnce() -> E + Send + 'static) -> ! {
    if let Err(error) = work(engines) {
        eprintln!("worker: {error}");
        isolate::exit(1);
    }
    isolate::exit(0)
}

fn work<E: Engines>(engines: impl FnOnce() -> E + Send + 'static) -> io::Result<()> {
    // What this end writes to standard output is part of the log from here on, whatever it was before.
    let (mut input, _) = isolate::cut_off()?;
    let Some(setup) = frame::read::<Setup>(&mut input)? else {
        return Ok(());
    };
    let watched = [input.as_raw_fd(), isolate::terminations()?];
    let outlet: Outlet = Arc::new(Mutex::new(input.try_clone()?));
    let watchdog = Watchdog::start(outlet.clone(), setup.beat)?;
    let session = Session {
        input,
        outlet,
        watchdog,
    };
    std::thread::Builder::new()
        .name("device".into())
        .stack_size(STACK)
        .spawn(move || {
            let outcome = session.run(engines(), &setup);
            if let Err(error) = &outcome {
                eprintln!("worker: {error}");
            }
            isolate::exit(outcome.is_err().into())
        })?;
    isolate::wait_for_end(watched);
    isolate::end_group()
}

struct Session {
    input: File,
    outlet: Outlet,
    watchdog: Watchdog,
}

impl Session {
    fn run(mut self, mut engines: impl Engines, setup: &Setup) -> io::Result<()> {
        self.watchdog.begin("opening the device");
        let opened = guarded(|| {
            let opened = engines.open(setup);
            opened
                .map(|device| Made::Device(Box::new(device)))
                .map_err(Trouble::Refused)
        });
        let usable = opened.is_ok();
        self.answer(opened, 0)?;
        if !usable {
            return Ok(());
        }
        let mut next = self.next()?;
        while let Some(order) = next.take() {
            if let Order::Describe(archive, kernel) = &order {
                self.watchdog.begin("describing a kernel");
                let described = guarded(|| {
                    let described = engines.describe(archive, *kernel);
                    described
                        .map(|kernel| Made::Description(Box::new(kernel)))
                        .map_err(Trouble::Refused)
                });
                self.answer(described, 0)?;
                next = self.next()?;
                continue;
            }
            let shares = engines.shares_addresses();
            self.watchdog.begin("opening the archive");
            let archive = order.archive().clone();
            let mut first = Some(order);
            let mut served: io::Result<()> = Ok(());
            let made = engines.with_engine(&archive, &mut |engine| {
                served = (|| {
                    while let Some(order) = first.take() {
                        // Another archive, or what needs the device, is for another round.
                        let here = order.archive() == &archive;
                        if !here || matches!(order, Order::Describe(..)) {
                            next = Some(order);
                            return Ok(());
                        }
                        self.order(engine, &order, shares)?;
                        first = self.next()?;
                    }
                    Ok(())
                })();
            });
            served?;
            if let Err(reason) = made {
                self.answer(Err(Trouble::Refused(reason)), 0)?;
                next = self.next()?;
            }
        }
        Ok(())
    }

    fn order(&self, engine: &mut dyn DeviceEngine, order: &Order, shares: bool) -> io::Result<()> {
        let watch = &self.watchdog;
        let mut collisions = Vec::new();
        let result = guarded(|| {
            let made = match order {
                Order::Prepare(_, kernel, launches) => {
                    watch.begin("taking recorded addresses");
                    engine.reserve().and_then(|taken| {
                        collisions = taken;
                        if shares && !collisions.is_empty() && reexec::may_start_over() {
                            return Ok(Made::Prepared(Vec::new()));
                        }
                        collisions.clear();
                        watch.begin("making launches ready");
                        engine.prepare(*kernel, launches, watch).map(Made::Prepared)
                    })
                }
                Order::Evaluate(_, task) => {
                    watch.begin("work on the host for the candidate");
                    let result = engine.evaluate(task, watch);
                    result.map(|result| Made::Result(Box::new(result)))
                }
                Order::Describe(..) => {
                    return Err(Trouble::Refused("nothing to describe on".into()));
                }
            };
            made.map_err(Trouble::Lost)
        });
        if !collisions.is_empty() {
            self.start_over();
        }
        let memory = engine.device_memory();
        self.answer(result, memory)
    }

    /// Starts this process over with another layout of its addresses. Returns when that cannot be done.
    fn start_over(&self) {
        self.watchdog.end();
        if say(&self.outlet, &Said::StartingOver).is_err() {
            return;
        }
        // The new program image finds the connection where the first one did.
        let failed = match isolate::replace(self.input.as_raw_fd(), libc::STDIN_FILENO) {
            Ok(()) => match reexec::start_over() {
                Ok(never) => match never {},
                Err(error) => error,
            },
            Err(error) => error,
        };
        eprintln!("worker: starting over with another layout of addresses failed: {failed}");
        isolate::exit(1)
    }

    fn next(&mut self) -> io::Result<Option<Order>> {
        frame::read(&mut self.input)
    }

    fn answer(&self, result: Result<Made, Trouble>, device_memory: u64) -> io::Result<()> {
        self.watchdog.end();
        let answer = Answer {
            result,
            resident: isolate::resident(),
            device_memory,
        };
        let whole = frame::encode(&Said::Answer(Box::new(answer))).or_else(|error| {
            // Too long to be sent.
            frame::encode(&Said::Answer(Box::new(Answer {
                result: Err(Trouble::Refused(format!("the answer: {error}"))),
                resident: isolate::resident(),
                device_memory,
            })))
        })?;
        let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        io::Write::write_all(&mut *outlet, &whole)
    }
}

/// A panic costs this worker, like a device that is lost: nobody knows in which state the engine is.
fn guarded(work: impl FnOnce() -> Result<Made, Trouble>) -> Result<Made, Trouble> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Trouble::Lost(Lost::of_machine(format!(
            "the worker panicked: {}",
            said.unwrap_or("no message")
        ))))
    })
}
