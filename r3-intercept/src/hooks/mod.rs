//! The hooked functions: one table, and the exported functions that it generates.
//!
//! A hook is thin: it finds the real function, hands the call on, and tells the part of R3 that the
//! call concerns. [`table`] lists them all with their signatures; [`HOOKS`] is the same as data.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

mod code;
mod launch;
mod lookup;
mod memory;
mod nvrtc;
mod streams;
mod table;

pub use table::HOOKS;

/// One hooked function.
pub struct Hook {
    name: &'static CStr,
    hook: fn() -> *mut c_void,
    real: AtomicPtr<c_void>,
}

impl Hook {
    const fn new(name: &'static CStr, hook: fn() -> *mut c_void) -> Self {
        Self {
            name,
            hook,
            real: AtomicPtr::new(null_mut()),
        }
    }

    /// Exported name, suffixes included.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Address of our function.
    pub fn address(&self) -> *mut c_void {
        (self.hook)()
    }

    /// The function that it stands for; null as long as its library is not loaded.
    pub fn real(&self) -> *mut c_void {
        self.real.load(Ordering::Acquire)
    }

    /// Sets the real function unless it is known already; returns the one that holds.
    pub fn bind(&self, address: *mut c_void) -> *mut c_void {
        match self
            .real
            .compare_exchange(null_mut(), address, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => address,
            Err(bound) => bound,
        }
    }

    /// Whether it stands for a function of NVRTC and not of the driver.
    pub fn is_nvrtc(&self) -> bool {
        self.name.to_bytes().starts_with(b"nvrtc")
    }
}

/// Makes the program's own call.
pub type Call<'a> = &'a dyn Fn() -> crate::ffi::CUresult;

/// Makes the real call, then does R3's own work if the call succeeded. The result is the driver's.
fn after(call: Call<'_>, work: impl FnOnce()) -> crate::ffi::CUresult {
    let result = call();
    if result == crate::ffi::CUDA_SUCCESS && crate::process::is_on() {
        crate::guard::guard(work);
    }
    result
}

/// What the driver wrote to an out-pointer of a call that succeeded.
///
/// # Safety
/// `pointer` is null, or valid for reading a `T`.
unsafe fn written<T: Copy>(pointer: *const T) -> Option<T> {
    // SAFETY: by the caller.
    (!pointer.is_null()).then(|| unsafe { pointer.read_unaligned() })
}

/// Index of a hooked function by its exact name. No allocation, no lock.
pub fn index_of(name: &CStr) -> Option<usize> {
    let name = name.to_bytes();
    table::SORTED
        .binary_search_by(|&i| HOOKS[i as usize].name.to_bytes().cmp(name))
        .ok()
        .map(|at| table::SORTED[at] as usize)
}

/// Whether `base` with some suffix (`_v2`, `_ptsz`, …) is a hooked function.
pub fn has_variant(base: &CStr) -> bool {
    let base = base.to_bytes();
    HOOKS.iter().any(|hook| {
        hook.name
            .to_bytes()
            .strip_prefix(base)
            .is_some_and(|rest| rest.first() == Some(&b'_'))
    })
}

/// The real function of hook `index`, or null.
fn real(index: usize) -> *mut c_void {
    let bound = HOOKS[index].real();
    if bound.is_null() {
        crate::loader::bind(index)
    } else {
        bound
    }
}

/// Generates the exported functions and the table.
///
/// Each line is `fn names(arguments) => handler;`. The handler is called with a closure that makes
/// the real call with the program's own arguments, the name of the hook, and the arguments; what it
/// returns goes back to the program. A line that starts with `gate function` asks that function first,
/// with the arguments: where it answers [`Gate::Open`](crate::select::Gate), the real call is all that
/// happens.
macro_rules! hooks {
    ($( $(gate $gate:path;)? fn $($name:ident)|+ ( $($arg:ident : $ty:ty),* $(,)? ) => $handler:path; )*) => {
        #[repr(usize)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($($name,)+)* Count }

        /// Every hooked function.
        pub static HOOKS: [super::Hook; Index::Count as usize] = [
            $($(
                super::Hook::new(
                    // SAFETY: `concat!` appends the only NUL.
                    unsafe {
                        std::ffi::CStr::from_bytes_with_nul_unchecked(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )
                    },
                    || $name as *mut std::ffi::c_void,
                ),
            )+)*
        ];

        const NAMES: [&str; Index::Count as usize] = [$($(stringify!($name),)+)*];

        $( hooks!(@each [$($gate)?] [$($name)+] ($($arg : $ty),*) $handler); )*
    };
    (@each $gate:tt [] $args:tt $handler:path) => {};
    (@each $gate:tt [$name:ident $($rest:ident)*] ($($arg:ident : $ty:ty),*) $handler:path) => {
        #[doc = concat!("Hook of `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the driver's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::ffi::CUresult {
            const INDEX: usize = Index::$name as usize;
            const IS_NVRTC: bool = super::is_nvrtc(NAMES[INDEX]);
            let real = if IS_NVRTC { $crate::loader::nvrtc_function(INDEX) } else { super::real(INDEX) };
            if real.is_null() {
                return $crate::ffi::CUDA_ERROR_NOT_SUPPORTED;
            }
            type Real = unsafe extern "C" fn($($ty),*) -> $crate::ffi::CUresult;
            // SAFETY: `real` is the driver's function of this name, whose signature this is.
            let real = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Real>(real) };
            hooks!(@call $gate $handler, real, stringify!($name), $($arg),*)
        }
        hooks!(@each $gate [$($rest)*] ($($arg : $ty),*) $handler);
    };
    (@call [] $handler:path, $real:ident, $name:expr, $($arg:ident),*) => {{
        // SAFETY: the program's own arguments.
        let call = move || unsafe { $real($($arg),*) };
        $handler(&call, $name, $($arg),*)
    }};
    (@call [$gate:path] $handler:path, $real:ident, $name:expr, $($arg:ident),*) => {
        match $gate($($arg),*) {
            // SAFETY: the program's own arguments.
            $crate::select::Gate::Open => unsafe { $real($($arg),*) },
            gate => {
                // SAFETY: the program's own arguments.
                let call = move || unsafe { $real($($arg),*) };
                $handler(&call, $name, gate, $($arg),*)
            }
        }
    };
}
use hooks;

/// Whether a function is one of NVRTC and not of the driver.
const fn is_nvrtc(name: &str) -> bool {
    let (name, prefix) = (name.as_bytes(), b"nvrtc");
    let mut i = 0;
    while i < prefix.len() && i < name.len() && name[i] == prefix[i] {
        i += 1;
    }
    i == prefix.len()
}

/// Indices of the table in ascending order of name, computed at compile time.
const fn sorted<const N: usize>(names: &[&str; N]) -> [u16; N] {
    let mut order = [0u16; N];
    let mut i = 0;
    while i < N {
        let mut at = i;
        while at > 0
            && less(
                names[i].as_bytes(),
                names[order[at - 1] as usize].as_bytes(),
            )
        {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = i as u16;
        i += 1;
    }
    order
}

const fn less(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return a[i] < b[i];
        }
        i += 1;
    }
    a.len() < b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        for (index, hook) in HOOKS.iter().enumerate() {
            assert_eq!(index_of(hook.name()), Some(index), "{:?}", hook.name());
        }
        // Names that share the prefix `cu` and are not the driver's (bug reports of libraries that
        // matched the prefix).
        for name in [
            c"cudnnCreate",
            c"cublasCreate_v2",
            c"curl_easy_init",
            c"cu",
            c"cuInitX",
            c"",
        ] {
            assert_eq!(index_of(name), None);
        }
    }

    #[test]
    fn a_base_name_has_variants_only_after_an_underscore() {
        assert!(has_variant(c"cuMemAlloc"));
        assert!(!has_variant(c"cuMem"));
    }

    #[test]
    fn each_per_thread_variant_has_its_own_hook() {
        let a = index_of(c"cuLaunchKernel").map(|i| HOOKS[i].address());
        let b = index_of(c"cuLaunchKernel_ptsz").map(|i| HOOKS[i].address());
        assert!(a.is_some() && b.is_some() && a != b);
    }
}
