//! How a program reaches the driver, and how the hooks get in between.
//!
//! There are three ways to a driver function: an exported symbol (this library exports the same
//! names and comes first), `dlsym`/`dlvsym` (exported here too), and `cuGetProcAddress`, which is
//! itself reached by one of the other two. In the last two a hook is handed out only for an address
//! that the driver really returned: the address decides, not the name.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_LAZY};

use crate::guard::Quiet;
use crate::{elf, ffi, hooks, log};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// libc's own `dlsym` and `dlvsym`. Null until first needed, which can be before any constructor runs.
static REAL_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static REAL_DLVSYM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// libc since glibc 2.34, libdl before.
const LIBC_OBJECTS: &[&str] = &["libc.so.6", "libdl.so.2"];

fn real(slot: &AtomicPtr<c_void>, symbol: &CStr) -> *mut c_void {
    let known = slot.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let found = elf::find_function(LIBC_OBJECTS, symbol);
    slot.store(found, Ordering::Release);
    found
}

/// libc's `dlsym`.
///
/// # Safety
/// As `dlsym`.
pub unsafe fn real_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let function = real(&REAL_DLSYM, c"dlsym");
    if function.is_null() {
        return null_mut();
    }
    // SAFETY: found under this name in libc; the caller keeps `dlsym`'s contract.
    unsafe { std::mem::transmute::<*mut c_void, Dlsym>(function)(handle, name) }
}

/// `dlsym`, as the program sees it.
///
/// For a name that is not hooked this is a jump to libc's function with the caller's own return
/// address on the stack, because `RTLD_NEXT` and `RTLD_DEFAULT` are relative to the caller.
///
/// # Safety
/// As `dlsym`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {hook}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "cmp rax, 1",
        "jb 2f",
        "jne 3f",
        "xor eax, eax",
        "3:",
        "ret",
        "2:",
        "jmp qword ptr [rip + {real}]",
        hook = sym hook_for_dlsym,
        real = sym REAL_DLSYM,
    )
}

/// `dlvsym`, as the program sees it. See [`dlsym`].
///
/// # Safety
/// As `dlvsym`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    std::arch::naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {hook}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "cmp rax, 1",
        "jb 2f",
        "jne 3f",
        "xor eax, eax",
        "3:",
        "ret",
        "2:",
        "jmp qword ptr [rip + {real}]",
        hook = sym hook_for_dlvsym,
        real = sym REAL_DLVSYM,
    )
}

/// Answer of [`hook_for_dlsym`] that makes the look-up fail. No function has this address.
const FAIL: *mut c_void = std::ptr::without_provenance_mut(1);

/// The hook to hand out for a `dlsym` call; null to let libc answer; [`FAIL`] for no such symbol.
///
/// # Safety
/// As `dlsym`.
unsafe extern "C" fn hook_for_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if real(&REAL_DLSYM, c"dlsym").is_null() {
        return FAIL;
    }
    // SAFETY: `name` is the caller's C string.
    let Some(index) = (unsafe { hooked_name(name) }) else {
        return null_mut();
    };
    let _quiet = Quiet::enter();
    // First, so that the program's own look-up is the last one that `dlerror` tells of.
    let _ = driver();
    // SAFETY: the caller's own arguments.
    let found = unsafe { real_dlsym(handle, name) };
    substitute(index, name, found)
}

/// As [`hook_for_dlsym`], for `dlvsym`.
///
/// # Safety
/// As `dlvsym`.
unsafe extern "C" fn hook_for_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    let function = real(&REAL_DLVSYM, c"dlvsym");
    if function.is_null() {
        return FAIL;
    }
    // SAFETY: `name` is the caller's C string.
    let Some(index) = (unsafe { hooked_name(name) }) else {
        return null_mut();
    };
    let _quiet = Quiet::enter();
    let _ = driver();
    // SAFETY: found under this name in libc; the caller's own arguments.
    let found =
        unsafe { std::mem::transmute::<*mut c_void, Dlvsym>(function)(handle, name, version) };
    substitute(index, name, found)
}

/// The index of `name` in the hook table. This is all that happens for other names: no allocation,
/// no lock, no call.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn hooked_name(name: *const c_char) -> Option<usize> {
    if name.is_null() {
        return None;
    }
    // SAFETY: a C string; reading stops at its first NUL.
    let (first, second) = unsafe {
        let first = *name as u8;
        (first, if first == 0 { 0 } else { *name.add(1) as u8 })
    };
    if !matches!((first, second), (b'c', b'u') | (b'n', b'v')) {
        return None;
    }
    // SAFETY: a C string.
    hooks::index_of(unsafe { CStr::from_ptr(name) })
}

/// The hook with this index if `found`, the answer of libc's own look-up, is an address that it stands
/// for; null to let libc answer.
fn substitute(index: usize, name: *const c_char, found: *mut c_void) -> *mut c_void {
    if found.is_null() {
        // Libc asked once more, with the program as the caller, could meet our export.
        return FAIL;
    }
    let own = hooks::HOOKS[index].address();
    if found == own {
        // The look-up met our own export first (RTLD_DEFAULT, or a handle of the main program).
        // It only counts if the library that we stand for is there.
        let there = if hooks::HOOKS[index].is_nvrtc() {
            elf::find_function(&["libnvrtc.so"], hooks::HOOKS[index].name())
        } else {
            bind(index)
        };
        if !there.is_null() {
            return own;
        }
        // Leaves the message in `dlerror`.
        // SAFETY: the caller's C string.
        unsafe { real_dlsym(libc::RTLD_NEXT, name) };
        return FAIL;
    }
    if hooks::HOOKS[index].is_nvrtc() {
        // Several NVRTC libraries can be loaded; the hooks serve the first one.
        return match hooks::HOOKS[index].bind(found) {
            bound if bound == found => own,
            _ => null_mut(),
        };
    }
    if !is_in_driver(found) {
        return null_mut();
    }
    hook_for_address(found).unwrap_or(null_mut())
}

/// The driver library and its functions, once it is loaded.
pub struct Driver {
    handle: *mut c_void,
    /// First and last address of its mapped segments.
    range: (usize, usize),
    /// Address of each hooked function in the driver, ascending, with its index in the hook table.
    by_address: Vec<(usize, usize)>,
    /// File from which it was loaded.
    pub path: String,
}

// SAFETY: the handle is only passed to `dlsym`, which is thread-safe.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Whether any hook or look-up ever met the driver.
pub fn is_attached() -> bool {
    DRIVER.get().is_some()
}

/// The driver, if the program has loaded it. Never loads it.
pub fn driver() -> Option<&'static Driver> {
    if let Some(driver) = DRIVER.get() {
        return Some(driver);
    }
    // SAFETY: RTLD_NOLOAD runs no initialiser; the handle is kept for the life of the process.
    let library =
        unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()?;
    let handle = library.into_raw();
    let driver = Driver::attach(handle)?;
    Some(DRIVER.get_or_init(|| driver))
}

impl Driver {
    fn attach(handle: *mut c_void) -> Option<Self> {
        // Any function that every driver exports tells where the library lies.
        // SAFETY: a valid handle and a C string.
        let anchor = unsafe { real_dlsym(handle, c"cuInit".as_ptr()) };
        let elf::Object { path, range, .. } = elf::object_of(anchor)?;
        let mut by_address = Vec::with_capacity(hooks::HOOKS.len());
        for (index, hook) in hooks::HOOKS.iter().enumerate() {
            if hook.is_nvrtc() {
                continue;
            }
            // SAFETY: a valid handle and a C string.
            let address = unsafe { real_dlsym(handle, hook.name().as_ptr()) };
            if !address.is_null() && (range.0..range.1).contains(&(address as usize)) {
                hook.bind(address);
                by_address.push((address as usize, index));
            }
        }
        by_address.sort_unstable();
        // A driver that exports one function under two names: the first name's hook serves both.
        by_address.dedup_by_key(|(address, _)| *address);
        log::debug(format_args!(
            "driver {path}: {} functions hooked",
            by_address.len()
        ));
        Some(Self {
            handle,
            range,
            by_address,
            path,
        })
    }

    /// A driver function that is not hooked.
    pub fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a valid handle and a C string.
        unsafe { real_dlsym(self.handle, name.as_ptr()) }
    }
}

fn is_in_driver(address: *mut c_void) -> bool {
    driver().is_some_and(|driver| (driver.range.0..driver.range.1).contains(&(address as usize)))
}

/// The hook that stands for a driver function, by the function's address.
fn hook_for_address(address: *mut c_void) -> Option<*mut c_void> {
    let driver = driver()?;
    let at = driver
        .by_address
        .binary_search_by_key(&(address as usize), |&(a, _)| a)
        .ok()?;
    Some(hooks::HOOKS[driver.by_address[at].1].address())
}

/// The real function behind hook `index`, looked up when the hook was reached through our exported
/// symbol before any look-up of the program.
pub fn bind(index: usize) -> *mut c_void {
    let hook = &hooks::HOOKS[index];
    let bound = hook.real();
    if !bound.is_null() {
        return bound;
    }
    let _quiet = Quiet::enter();
    let _ = driver();
    hook.real()
}

/// NVRTC's function of hook `index` for whoever calls the hook.
///
/// Several copies of NVRTC can be loaded, and a program that is linked to one must get that one. So the
/// function is looked up for the object that makes the call.
/// Whoever is linked to none has got the hook by `dlsym`, which hands it out for one copy only.
pub fn nvrtc_function(index: usize) -> *mut c_void {
    static BY_CALLER: Mutex<Vec<(usize, usize, usize)>> = Mutex::new(Vec::new());
    let _quiet = Quiet::enter();
    let hook = &hooks::HOOKS[index];
    let known = || BY_CALLER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(caller) = elf::caller_of_this_library() else {
        return hook.real();
    };
    let base = caller.range.0;
    if let Some((_, _, found)) = known().iter().find(|(b, i, _)| *b == base && *i == index) {
        return *found as *mut c_void;
    }
    let found = linked_function(&caller, hook);
    let found = if found.is_null() { hook.real() } else { found };
    if !found.is_null() {
        known().push((base, index, found as usize));
    }
    found
}

/// `hook`'s function as the dynamic linker would give it to `caller` without this library: from the
/// global scope, else from the libraries that `caller` is linked to; null when there is none.
fn linked_function(caller: &elf::Object, hook: &hooks::Hook) -> *mut c_void {
    // SAFETY: a C string.
    let global = unsafe { real_dlsym(libc::RTLD_NEXT, hook.name().as_ptr()) };
    if !global.is_null() || caller.is_main_program {
        return global;
    }
    // SAFETY: RTLD_NOLOAD runs no initialiser.
    let opened = unsafe { Library::open(Some(&caller.path), RTLD_LAZY | libc::RTLD_NOLOAD) };
    match opened {
        // SAFETY: a valid handle and a C string.
        Ok(library) => unsafe { real_dlsym(library.into_raw(), hook.name().as_ptr()) },
        Err(_) => null_mut(),
    }
}

/// Replaces what `cuGetProcAddress` returned by the hook for that address.
///
/// # Safety
/// As `cuGetProcAddress`: `symbol` is null or a C string, `function` null or writable.
pub unsafe fn after_get_proc_address(
    result: ffi::CUresult,
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: libc::c_int,
    flags: u64,
) {
    if result != ffi::CUDA_SUCCESS || function.is_null() || symbol.is_null() {
        return;
    }
    // SAFETY: written by the driver, which reported success.
    let returned = unsafe { *function };
    if returned.is_null() {
        return;
    }
    if let Some(hook) = hook_for_address(returned) {
        // SAFETY: as above.
        unsafe { *function = hook };
        return;
    }
    if hooks::HOOKS.iter().any(|hook| hook.address() == returned) {
        // A driver that looks its own functions up as symbols finds our exports.
        return;
    }
    // SAFETY: a C string, which the driver has just read.
    let symbol = unsafe { CStr::from_ptr(symbol) };
    if hooks::index_of(symbol).is_some() || hooks::has_variant(symbol) {
        static REPORTED: AtomicU32 = AtomicU32::new(0);
        // The driver gave an address that it does not export: a variant that the table does not know.
        if REPORTED.fetch_add(1, Ordering::Relaxed) < 16 {
            log::info(format_args!(
                "not hooked: {} at version {version}, flags {flags}: the driver's address is not \
                 one of its exported functions",
                symbol.to_string_lossy()
            ));
        }
    }
}
