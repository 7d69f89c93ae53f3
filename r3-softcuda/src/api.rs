//! The border: how an entry point is defined, and what every call passes before its own code.
//!
//! A call goes through [`enter`]: is the driver initialised (in this process, not in a parent's fork), and neither a
//! panic nor a cancellation of the thread leaves it. Arguments that are pointers have the types below, which check
//! for null; that they point to what the driver API says is the caller's promise, as with any driver.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{CuError, Res};
use crate::{process, work};

/// An out-pointer.
#[repr(transparent)]
pub struct Out<T>(*mut T);

/// A pointer to input.
#[repr(transparent)]
pub struct In<T>(*const T);

/// A string.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}
impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

impl<T: Copy> Out<T> {
    /// Wraps a pointer that came in inside a structure.
    pub fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The same place, as another type.
    pub fn cast<U: Copy>(self) -> Out<U> {
        Out(self.0.cast())
    }

    pub fn pointer(self) -> *mut T {
        self.0
    }

    /// Refuses null before anything else is done.
    pub fn required(self) -> Res<Self> {
        if self.is_null() {
            Err(CuError::INVALID_VALUE)
        } else {
            Ok(self)
        }
    }

    pub fn set(self, value: T) -> Res {
        self.required()?;
        // SAFETY: the API's caller passes null or a place for a value of this type.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes, where the caller wants the value.
    pub fn set_if_wanted(self, value: T) {
        let _ = self.set(value);
    }

    pub fn get(self) -> Res<T> {
        self.required()?;
        // SAFETY: as in `set`; it is an in-out argument.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The place of element `index` of an array.
    pub fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    pub fn fill(self, values: &[T]) -> Res {
        for (index, value) in values.iter().enumerate() {
            self.required()?.at(index).set(*value)?;
        }
        Ok(())
    }
}

impl<T: Copy> In<T> {
    pub fn new(pointer: *const T) -> Self {
        Self(pointer)
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn pointer(self) -> *const T {
        self.0
    }

    pub fn get(self) -> Res<T> {
        if self.is_null() {
            return Err(CuError::INVALID_VALUE);
        }
        // SAFETY: the API's caller passes null or a value of this type.
        Ok(unsafe { self.0.read_unaligned() })
    }

    pub fn list(self, count: usize) -> Res<Vec<T>> {
        if self.is_null() && count > 0 {
            return Err(CuError::INVALID_VALUE);
        }
        (0..count)
            .map(|index| Self(self.0.wrapping_add(index)).get())
            .collect()
    }
}

impl Text {
    pub fn bytes<'a>(self) -> Res<&'a [u8]> {
        if self.0.is_null() {
            return Err(CuError::INVALID_VALUE);
        }
        // SAFETY: the API's caller passes null or a string, which lives as long as the call.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    pub fn get<'a>(self) -> Res<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| CuError::INVALID_VALUE)
    }
}

/// One call of an entry point.
pub struct Call {
    /// Exported name.
    pub name: &'static str,
    /// Stream 0 is the per-thread default stream.
    pub per_thread: bool,
}

/// What works before `cuInit`.
const BEFORE_INIT: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuGetProcAddress_v2_ptsz",
    "cuGetExportTable",
    "cuCoredumpGetAttribute",
    "cuCoredumpGetAttributeGlobal",
    "cuCoredumpSetAttribute",
    "cuCoredumpSetAttributeGlobal",
];

thread_local! {
    static CALL: std::cell::Cell<&'static str> = const { std::cell::Cell::new("") };
}

/// The entry point that this thread is in, for messages.
pub fn current_call() -> &'static str {
    CALL.get()
}

/// A thread is cancelled (`pthread_cancel`) by unwinding it, which Rust's frames do not survive: a cancellation waits
/// until the call is over.
struct Uncancelled(i32);

unsafe extern "C" {
    fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
}

const CANCEL_DISABLE: i32 = 1;

impl Uncancelled {
    fn begin() -> Self {
        let mut before = 0;
        // SAFETY: sets a flag of this thread and writes the former one.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut unused = 0;
        // SAFETY: as above. It is no point where a cancellation acts, as the type is deferred.
        unsafe { pthread_setcancelstate(self.0, &raw mut unused) };
    }
}

/// Runs the body of an entry point.
pub fn enter(name: &'static str, per_thread: bool, body: impl FnOnce(&Call) -> Res) -> i32 {
    let outer = CALL.replace(name);
    let _whole = Uncancelled::begin();
    let result = catch_unwind(AssertUnwindSafe(|| {
        if !BEFORE_INIT.contains(&name) || name == "cuInit" {
            process::check(name == "cuInit")?;
            work::refuse_in_callback(name)?;
        }
        body(&Call { name, per_thread })
    }));
    CALL.set(outer);
    match result {
        Ok(Ok(())) => 0,
        Ok(Err(CuError(code))) => code,
        // The panic's own message is on standard error already.
        Err(_) => CuError::UNKNOWN.0,
    }
}

/// An entry point that this driver does not have.
pub fn missing(name: &'static str) -> i32 {
    enter(name, false, |call| {
        process::once(
            call.name,
            &format!("softcuda: {} is not supported", call.name),
        );
        Err(CuError::NOT_SUPPORTED)
    })
}

/// Defines entry points. `fn name(…) { … }` is one; `fn name/name_ptsz(…) |call| { … }` is one with its twin for the
/// per-thread default stream. The body gives a [`Res`]. (build.rs finds the names: one `fn` a line, four blanks in front.)
macro_rules! api {
    ($( $(#[$doc:meta])* fn $name:ident $(/ $twin:ident)? ( $($arg:ident : $ty:ty),* $(,)? ) $(|$call:ident|)? $body:block )*) => {
        $( $crate::api::entry! {
            [$name $($twin)?] [$($arg: $ty),*] [$($call)?] $body
        } )*
    };
}

macro_rules! entry {
    ([$name:ident] [$($arg:ident : $ty:ty),*] [] $body:block) => {
        $crate::api::entry! { [$name] [$($arg: $ty),*] [_call] $body }
    };
    ([$name:ident] [$($arg:ident : $ty:ty),*] [$call:ident] $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub extern "C" fn $name($($arg: $ty),*) -> i32 {
            $crate::api::enter(stringify!($name), false, |$call| $body)
        }
    };
    ([$name:ident $twin:ident] [$($arg:ident : $ty:ty),*] [$call:ident] $body:block) => {
        const _: () = {
            #[allow(non_snake_case, clippy::too_many_arguments)]
            fn body($call: &$crate::api::Call, $($arg: $ty),*) -> $crate::error::Res $body
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub extern "C" fn $name($($arg: $ty),*) -> i32 {
                $crate::api::enter(stringify!($name), false, |call| body(call, $($arg),*))
            }
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub extern "C" fn $twin($($arg: $ty),*) -> i32 {
                $crate::api::enter(stringify!($twin), true, |call| body(call, $($arg),*))
            }
        };
    };
}

pub(crate) use {api, entry};
