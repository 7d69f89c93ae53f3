//! The driver's life in a process: start, fork, end; its settings and messages.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::error::{CuError, Res};

const NEW: u8 = 0;
const READY: u8 = 1;
/// The child of a process that had started the driver.
const FORKED: u8 = 2;
const ENDED: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(NEW);

/// Locks, also after a panic elsewhere: what the locks here guard is whole at every moment.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The variables that concern the driver, as they were when it was first asked for one: a program may change its environment
/// at any time, also in the middle of a read.
static VARIABLES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let own = |name: &str| name.starts_with("SOFTCUDA_") || name.starts_with("CUDA_");
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    variables.filter(|(name, _)| own(name)).collect()
});

/// A variable of CUDA's, where it is set.
pub fn variable(name: &str) -> Option<&'static str> {
    VARIABLES.get(name).map(String::as_str)
}

/// `SOFTCUDA_…`, where it is set and not empty.
pub fn setting(name: &str) -> Option<String> {
    let value = variable(&format!("SOFTCUDA_{name}"))?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// The same as a number.
pub fn number(name: &str) -> Option<u64> {
    let text = setting(name)?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => {
            once(
                name,
                &format!("softcuda: SOFTCUDA_{name}={text} is not a number; it is ignored"),
            );
            None
        }
    }
}

/// Whether the driver may be used.
pub fn check(is_init: bool) -> Res {
    match STATE.load(Ordering::Acquire) {
        READY => Ok(()),
        NEW if is_init => Ok(()),
        ENDED => Err(CuError::DEINITIALIZED),
        _ => Err(CuError::NOT_INITIALIZED),
    }
}

/// Whether the driver was started (in this process).
pub fn started() -> bool {
    STATE.load(Ordering::Acquire) == READY
}

extern "C" fn in_child() {
    if STATE.load(Ordering::Acquire) == READY {
        STATE.store(FORKED, Ordering::Release);
    }
}

extern "C" fn at_exit() {
    let _ = STATE.compare_exchange(READY, ENDED, Ordering::AcqRel, Ordering::Acquire);
    crate::launch::cancel_all();
}

/// The driver shuts down when the process unwinds its libraries, after the program's own handlers.
/// `SOFTCUDA_TEARDOWN=atexit`: before those that were registered before `cuInit`, which the real one also may.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_UNLOAD: extern "C" fn() = at_exit;

/// `cuInit`.
pub fn start() -> Res {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = lock(&STARTING);
    check(true)?;
    if started() {
        return Ok(());
    }
    if crate::device::count() == 0 {
        return Err(CuError::NO_DEVICE);
    }
    // SAFETY: both functions only touch atomics.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
        if setting("TEARDOWN").is_some() {
            libc::atexit(at_exit);
        }
    }
    STATE.store(READY, Ordering::Release);
    Ok(())
}

/// Says something on standard error, once for each key.
pub fn once(key: &str, message: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if lock(&SAID).insert(key.to_owned()) {
        say(message);
    }
}

/// Says something on standard error.
pub fn say(message: &str) {
    // In one piece: other threads write there, too.
    let _ = std::io::stderr().write_all(format!("{message}\n").as_bytes());
}
