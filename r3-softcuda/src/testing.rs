//! What tests ask of the driver through the environment: a log, calls that fail, take long or meet, handles that come back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{self, CuError, Res};
use crate::handle::Handle;
use crate::process::{lock, say, setting};

/// `SOFTCUDA_LOG=FILE`: one line a call: thread, name. `SOFTCUDA_SLOW=NAME`: a call of NAME takes a tenth of a second.
pub fn log(name: &str) {
    static SLOW: LazyLock<Option<String>> = LazyLock::new(|| setting("SLOW"));
    if SLOW.as_deref() == Some(name) {
        // A call in which its thread can be cancelled.
        // SAFETY: no pointers.
        unsafe { libc::usleep(100_000) };
    }
    static LOG: LazyLock<Option<File>> = LazyLock::new(|| {
        let path = setting("LOG")?;
        File::options().create(true).append(true).open(path).ok()
    });
    if let Some(mut file) = LOG.as_ref() {
        // SAFETY: no arguments.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        let _ = file.write_all(format!("{thread} {name}\n").as_bytes());
    }
}

/// `SOFTCUDA_FAIL=NAME:N[+][:ERROR],…`: the Nth call of NAME (with `+`, each one from there) fails.
pub fn refusal(name: &str) -> Res {
    struct Rule {
        from: u64,
        on: bool,
        error: CuError,
        seen: AtomicU64,
    }
    static RULES: LazyLock<BTreeMap<String, Rule>> = LazyLock::new(|| {
        let text = setting("FAIL").unwrap_or_default();
        let rule = |item: &str| {
            let mut parts = item.split(':');
            let name = parts.next()?.to_owned();
            let count = parts.next()?;
            let on = count.ends_with('+');
            let from = count.trim_end_matches('+').parse().ok()?;
            let error = match parts.next() {
                Some(error) => error::parse(error)?,
                None => CuError::UNKNOWN,
            };
            Some((
                name,
                Rule {
                    from,
                    on,
                    error,
                    seen: AtomicU64::new(0),
                },
            ))
        };
        text.split(',').filter_map(rule).collect()
    });
    let Some(rule) = RULES.get(name) else {
        return Ok(());
    };
    let seen = rule.seen.fetch_add(1, Ordering::Relaxed) + 1;
    if seen == rule.from || (rule.on && seen > rule.from) {
        return Err(rule.error);
    }
    Ok(())
}

/// After `cuProfilerStart`, calls can be asked to meet.
static MEETING: AtomicBool = AtomicBool::new(false);

/// `cuProfilerStart`
pub fn begin_meeting() {
    MEETING.store(true, Ordering::Release);
}

/// `SOFTCUDA_MEET=A,B`: after `cuProfilerStart`, the next call of A and the next call of B wait for each other. Calls that
/// cannot meet end the process: somebody holds a lock across one of them.
pub fn meet(name: &str) {
    static HERE: Mutex<[bool; 2]> = Mutex::new([false; 2]);
    static CHANGED: Condvar = Condvar::new();
    static NAMES: LazyLock<Option<(String, String)>> = LazyLock::new(|| {
        setting("MEET")?
            .split_once(',')
            .map(|(one, other)| (one.into(), other.into()))
    });
    let Some((one, other)) = NAMES.as_ref().filter(|_| MEETING.load(Ordering::Acquire)) else {
        return;
    };
    let (own, partner) = match name {
        _ if name == one => (0, 1),
        _ if name == other => (1, 0),
        _ => return,
    };
    let mut here = lock(&HERE);
    here[own] = true;
    CHANGED.notify_all();
    let waited = CHANGED.wait_timeout_while(here, Duration::from_secs(20), |here| !here[partner]);
    if waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
        say(&format!(
            "softcuda: {one} and {other} did not meet: a lock is held across one of them"
        ));
        std::process::abort();
    }
}

/// `SOFTCUDA_FULL=1`: each kernel fills the device, so that one runs at a time.
pub fn fill_device() -> Option<MutexGuard<'static, ()>> {
    static DEVICE: Mutex<()> = Mutex::new(());
    static FULL: LazyLock<bool> = LazyLock::new(|| setting("FULL").is_some());
    FULL.then(|| lock(&DEVICE))
}

static LEFT: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

/// `SOFTCUDA_REUSE=1`: the functions of the next module get the handles of the last one that was unloaded.
pub fn leave_handles(handles: impl Iterator<Item = Handle>) {
    if setting("REUSE").is_some() {
        *lock(&LEFT) = handles.collect();
    }
}

/// The handles that are to be given out again.
pub fn left_handles() -> Vec<Handle> {
    std::mem::take(&mut *lock(&LEFT))
}
