//! Handles: opaque numbers for what the driver made. None is used twice, so a stale one is noticed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::error::{CuError, Res};

/// A `CUcontext`, `CUstream`, …, as a number.
pub type Handle = u64;

macro_rules! objects {
    ($( $kind:ident = $path:path, $error:ident; )*) => {
        /// Something with a handle.
        #[derive(Clone)]
        pub enum Object { $( $kind(Arc<$path>) ),* }

        $( impl Handled for $path {
            const UNKNOWN: CuError = CuError::$error;
            fn object(this: &Arc<Self>) -> Object { Object::$kind(this.clone()) }
            fn of(object: &Object) -> Option<&Arc<Self>> {
                match object { Object::$kind(this) => Some(this), _ => None }
            }
        } )*
    };
}

/// A type that has handles.
pub trait Handled: Sized {
    /// What a handle that is none of this kind gives.
    const UNKNOWN: CuError;
    fn object(this: &Arc<Self>) -> Object;
    fn of(object: &Object) -> Option<&Arc<Self>>;
}

objects! {
    Context = crate::context::Context, INVALID_CONTEXT;
    Stream = crate::stream::Stream, INVALID_HANDLE;
    Event = crate::event::Event, INVALID_HANDLE;
    Module = crate::module::Module, INVALID_HANDLE;
    Function = crate::function::Function, INVALID_HANDLE;
    Library = crate::library::Library, INVALID_HANDLE;
    Kernel = crate::library::Kernel, INVALID_HANDLE;
    Link = crate::link::Link, INVALID_HANDLE;
    Pool = crate::pool::Pool, INVALID_VALUE;
    Physical = crate::vmm::Physical, INVALID_VALUE;
    Array = crate::array::Array, INVALID_HANDLE;
    Reference = crate::texture::Reference, INVALID_HANDLE;
    Mipmaps = crate::array::Mipmaps, INVALID_HANDLE;
    Graph = crate::graph::Graph, INVALID_VALUE;
    Node = crate::graph::Node, INVALID_VALUE;
    Exec = crate::graph::Exec, INVALID_VALUE;
    Owned = crate::graph::UserObject, INVALID_VALUE;
}

static OBJECTS: LazyLock<RwLock<HashMap<Handle, Object>>> = LazyLock::new(Default::default);

/// Handles look like pointers into a range in which nothing is mapped.
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
    const BYTES: usize = 1 << 30;
    let start = crate::space::reserve(BYTES as u64, None, 4096).unwrap_or(0x10_0000_0000);
    AtomicU64::new(start)
});

/// A handle for something that is made elsewhere.
pub fn fresh() -> Handle {
    NEXT.fetch_add(64, Ordering::Relaxed)
}

/// Makes an object that knows its handle.
pub fn create<T: Handled>(make: impl FnOnce(Handle) -> T) -> Arc<T> {
    let handle = fresh();
    let object = Arc::new(make(handle));
    put(handle, &object);
    object
}

/// Gives an object a handle that [`fresh`] made.
pub fn put<T: Handled>(handle: Handle, object: &Arc<T>) {
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    objects.insert(handle, T::object(object));
}

/// What a handle stands for.
pub fn any(handle: Handle) -> Option<Object> {
    OBJECTS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&handle)
        .cloned()
}

/// What a handle stands for, of this kind.
pub fn get<T: Handled>(handle: Handle) -> Res<Arc<T>> {
    let objects = OBJECTS.read().unwrap_or_else(PoisonError::into_inner);
    objects
        .get(&handle)
        .and_then(T::of)
        .cloned()
        .ok_or(T::UNKNOWN)
}

/// Makes a handle invalid.
pub fn remove<T: Handled>(handle: Handle) -> Res<Arc<T>> {
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    let object = objects
        .get(&handle)
        .and_then(T::of)
        .cloned()
        .ok_or(T::UNKNOWN)?;
    objects.remove(&handle);
    Ok(object)
}
