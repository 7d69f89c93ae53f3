//! The process that the library sits in: start, fork, exit. The only file that reads the environment.

use std::ffi::OsString;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::{Once, OnceLock};

use r3_options::{LogLevel, Options, ProcessFacts, Selection};

use crate::{allocations, loader, log, modules, nvrtc, session, trigger};

/// What was decided when the library was loaded.
pub struct Settings {
    pub options: Options,
    pub facts: ProcessFacts,
    selection: Selection,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();
/// Whether launches are looked at: not decided yet, yes, or no (not selected, forked, an error of ours).
static STATE: AtomicU8 = AtomicU8::new(UNDECIDED);
const UNDECIDED: u8 = 0;
const ON: u8 = 1;
const OFF: u8 = 2;
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Whether launches are looked at.
#[inline]
pub fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        ON => true,
        UNDECIDED => decide(),
        _ => false,
    }
}

/// From now on every hook only hands its call on.
pub fn switch_off() {
    STATE.store(OFF, Ordering::Relaxed);
}

/// Whether this is the process in which the library was set up: a child made by a bare `clone` runs
/// no fork handler but can run exit handlers.
pub fn is_owner() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getpid() == OWNER.load(Ordering::Relaxed) }
}

/// The settings; `None` before the constructor has run.
pub fn settings() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// Whether the user's selection names this kernel. Costly: asked once for each kernel.
pub fn kernel_selected(name: &str) -> bool {
    settings().is_some_and(|settings| settings.selection.kernel_selected(name))
}

/// The smallest selected occurrence above `after`.
pub fn next_selected(after: u64) -> Option<u64> {
    settings()?.selection.next_selected(after)
}

/// Runs when the library is loaded: reads the options, starts nothing. Whether this process uses a
/// GPU at all is not known yet, so a mistake in the options is reported with the first launch.
#[ctor::ctor(unsafe)]
fn start() {
    is_on();
}

/// Reads the options, with the constructor or with the first hook, whichever comes first: constructors
/// of other libraries can run before ours and use a GPU.
#[cold]
fn decide() -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let on = std::panic::catch_unwind(set_up).unwrap_or(false);
        STATE.store(if on { ON } else { OFF }, Ordering::Relaxed);
    });
    STATE.load(Ordering::Relaxed) == ON
}

static MISTAKES: OnceLock<Vec<String>> = OnceLock::new();

/// Whether this process is to be recorded.
fn set_up() -> bool {
    // `guard` says what there is to say.
    std::panic::set_hook(Box::new(|_| {}));
    log::remember_stderr();
    // SAFETY: no arguments, cannot fail.
    OWNER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    let facts = ProcessFacts {
        host: host(),
        pid: std::process::id(),
        rank: r3_options::rank_from_env(|name| std::env::var(name).ok()),
        exe: std::env::current_exe()
            .map(OsString::from)
            .unwrap_or_else(|_| "unknown".into()),
    };
    let options = match Options::from_env(std::env::vars_os()) {
        Ok(options) => options,
        Err(errors) => {
            let _ = MISTAKES.set(errors.iter().map(ToString::to_string).collect());
            // Hooks see the first launch, say what is wrong, and switch off.
            return true;
        }
    };
    log::set_level(match options.log {
        LogLevel::Off => log::Level::Off,
        LogLevel::Error => log::Level::Error,
        LogLevel::Warn => log::Level::Warn,
        LogLevel::Info => log::Level::Info,
        LogLevel::Debug => log::Level::Debug,
    });
    if !options.process_selected(&facts) {
        return false;
    }
    trigger::install(options.trigger.clone());
    let selection = Selection::new(&options);
    if SETTINGS
        .set(Settings {
            options,
            facts,
            selection,
        })
        .is_err()
    {
        return false;
    }
    // SAFETY: the handlers are plain functions of this library, which is never unloaded.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
        libc::atexit(report_bypass);
    }
    true
}

/// The program launches its first kernel. Says what is wrong with the options, if anything is.
pub fn on_first_launch() {
    if let Some(mistakes) = MISTAKES.get() {
        switch_off();
        for mistake in mistakes {
            log::error(format_args!("{mistake}"));
        }
        log::error(format_args!("nothing is recorded; the program runs on"));
    }
}

/// A forked child cannot use a parent's CUDA contexts, its archive or its threads. If it makes its
/// own contexts, which it can only do before the parent has any, it records into its own file.
extern "C" fn in_child() {
    // A lock of ours can have been held by another thread when the parent forked; only a parent
    // that used CUDA ever takes one.
    if session::exists() || modules::any_seen() || allocations::any_seen() || nvrtc::any_seen() {
        switch_off();
    } else {
        // SAFETY: no arguments, cannot fail.
        OWNER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    }
}

/// At exit: a program that used a GPU without one of its look-ups meeting a hook went past this
/// library, as libraries opened with `RTLD_DEEPBIND` do. It would otherwise look like a program that
/// launched nothing.
extern "C" fn report_bypass() {
    if !is_owner() || loader::is_attached() {
        return;
    }
    let _ = std::panic::catch_unwind(|| {
        let uses_gpu = std::fs::read_dir("/proc/self/fd").is_ok_and(|descriptors| {
            descriptors.flatten().any(|descriptor| {
                std::fs::read_link(descriptor.path()).is_ok_and(|to| to.ends_with("nvidia-uvm"))
            })
        });
        if uses_gpu {
            log::warn(format_args!(
                "the program used a GPU, but none of its calls came through libr3.so (a library \
                 opened with RTLD_DEEPBIND goes past preloaded ones); nothing is recorded"
            ));
        }
    });
}

fn host() -> OsString {
    let mut name = [0u8; 256];
    // SAFETY: the length is the array's; one byte is left for the NUL.
    let code = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let len = if code == 0 {
        name.iter().position(|b| *b == 0).unwrap_or(0)
    } else {
        0
    };
    String::from_utf8_lossy(&name[..len]).into_owned().into()
}

/// The variables that an archive keeps: `CUDA_*` and `R3_*`, nothing else of the environment.
pub fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .filter(|(name, _)| name.starts_with("CUDA_") || name.starts_with("R3_"))
        .collect()
}
