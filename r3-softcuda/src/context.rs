//! Contexts: the primary one of each device and others; which is current in a thread; limits; errors that stay.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use crate::api::{In, Out, api};
use crate::device::{self, Device};
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::process::{lock, say};
use crate::stream::{self, Stream};
use crate::threads::{AtEnd, Stack};
use crate::{capture, launch, module, space};

/// A context.
pub struct Context {
    pub handle: Handle,
    pub id: u64,
    pub device: &'static Device,
    primary: bool,
    flags: AtomicU32,
    limits: Mutex<[usize; LIMITS]>,
    cache_config: AtomicI32,
    shared_config: AtomicI32,
    /// The code of the fault that broke it; 0 while it is whole.
    sticky: AtomicI32,
    destroyed: AtomicBool,
    /// Streams that were created, the default ones included. The lock is also the order of work between them.
    pub streams: Mutex<Vec<Arc<Stream>>>,
    legacy: OnceLock<Arc<Stream>>,
    /// Output of `printf` that was not shown yet.
    prints: Mutex<Vec<u8>>,
    peers: Mutex<BTreeSet<i32>>,
}

const LIMITS: usize = 10;
const DEFAULT_LIMITS: [usize; LIMITS] = [1024, 1 << 20, 8 << 20, 0, 2048, 64, 0, 0, 0, 0];
/// `CU_LIMIT_PRINTF_FIFO_SIZE`
const PRINTF: usize = 1;

thread_local! {
    static STACK: Stack<Arc<Context>> = const { Stack::new() };
}

fn with_stack<T>(use_it: impl FnOnce(&mut Vec<Arc<Context>>) -> T) -> Res<T> {
    thread_local! {
        static EMPTIED: AtEnd = const { AtEnd(|| STACK.with(|stack| _ = stack.with(Vec::clear))) };
    }
    let _ = EMPTIED.try_with(|_| ());
    STACK.with(|stack| stack.with(use_it))
}

/// The current context, whole or not.
pub fn top() -> Res<Option<Arc<Context>>> {
    with_stack(|stack| stack.last().cloned())
}

/// The current context, for what needs a working one.
pub fn current() -> Res<Arc<Context>> {
    let context = top()?.ok_or(CuError::INVALID_CONTEXT)?;
    context.usable()?;
    Ok(context)
}

/// A context by its handle; 0 is the current one.
pub fn get(handle: Handle) -> Res<Arc<Context>> {
    if handle == 0 {
        current()
    } else {
        handle::get(handle)
    }
}

impl Context {
    fn new(device: &'static Device, flags: u32, primary: bool) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let context = handle::create(|handle| Self {
            handle,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            device,
            primary,
            flags: AtomicU32::new(flags),
            limits: Mutex::new(DEFAULT_LIMITS),
            cache_config: AtomicI32::new(0),
            shared_config: AtomicI32::new(0),
            sticky: AtomicI32::new(0),
            destroyed: AtomicBool::new(false),
            streams: Mutex::default(),
            legacy: OnceLock::new(),
            prints: Mutex::default(),
            peers: Mutex::default(),
        });
        let legacy = Stream::legacy(&context);
        lock(&context.streams).push(legacy.clone());
        let _ = context.legacy.set(legacy);
        context
    }

    /// The default stream that waits for the others.
    pub fn legacy(&self) -> Res<Arc<Stream>> {
        self.legacy.get().cloned().ok_or(CuError::INVALID_CONTEXT)
    }

    /// Neither destroyed nor broken.
    pub fn usable(&self) -> Res {
        if self.destroyed.load(Ordering::Acquire) {
            return Err(CuError::CONTEXT_IS_DESTROYED);
        }
        self.sticky()
    }

    /// The error that a fault left.
    pub fn sticky(&self) -> Res {
        match self.sticky.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(CuError(code)),
        }
    }

    /// Breaks the context: from now on its calls give this error. The first one stays.
    pub fn broken(&self, error: CuError) {
        let _ = self
            .sticky
            .compare_exchange(0, error.0, Ordering::AcqRel, Ordering::Acquire);
    }

    pub fn limit(&self, limit: usize) -> usize {
        lock(&self.limits).get(limit).copied().unwrap_or(0)
    }

    /// Keeps output of a kernel until the next synchronisation. What does not fit is lost, as on a GPU.
    pub fn print(&self, bytes: &[u8]) {
        let room = self.limit(PRINTF);
        let mut prints = lock(&self.prints);
        if prints.len() + bytes.len() <= room {
            prints.extend_from_slice(bytes);
        }
    }

    /// Shows what kernels printed.
    pub fn show_prints(&self) {
        let bytes = std::mem::take(&mut *lock(&self.prints));
        if bytes.is_empty() {
            return;
        }
        unsafe extern "C" {
            static stdout: *mut libc::FILE;
        }
        // SAFETY: the C library's own stream, in step with the program's `printf`; it locks for itself.
        unsafe {
            libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stdout);
            libc::fflush(stdout);
        }
    }

    /// Waits for all work, ends the streams, and frees what belongs to it.
    fn destroy(self: &Arc<Self>) {
        // First nothing new can come, then what is there ends, then what it used goes.
        self.destroyed.store(true, Ordering::Release);
        let streams = std::mem::take(&mut *lock(&self.streams));
        for stream in &streams {
            capture::forget(stream);
            stream.close();
        }
        streams.iter().for_each(|stream| stream.last().wait());
        self.show_prints();
        module::end_context(self);
        space::end_context(self.handle);
        let _ = handle::remove::<Self>(self.handle);
    }
}

/// Flags that `cuCtxCreate` and primary contexts take.
fn check_flags(flags: u32) -> Res {
    let scheduling = flags & 7;
    if flags & !0x3ff != 0 || !matches!(scheduling, 0 | 1 | 2 | 4) {
        return Err(CuError::INVALID_VALUE);
    }
    Ok(())
}

fn create(out: Out<Handle>, flags: u32, device: i32) -> Res {
    out.required()?;
    check_flags(flags)?;
    let context = Context::new(device::get(device)?, flags, false);
    out.set(context.handle)?;
    with_stack(|stack| stack.push(context))
}

fn destroy(context: Handle) -> Res {
    let context = handle::get::<Context>(context)?;
    if context.primary {
        return Err(CuError::INVALID_CONTEXT);
    }
    with_stack(|stack| {
        if stack.last().is_some_and(|top| Arc::ptr_eq(top, &context)) {
            stack.pop();
        }
    })?;
    context.destroy();
    Ok(())
}

fn push(context: Handle) -> Res {
    let context = handle::get::<Context>(context)?;
    with_stack(|stack| stack.push(context))
}

fn pop(context: Out<Handle>) -> Res {
    let popped = with_stack(Vec::pop)?.ok_or(CuError::INVALID_CONTEXT)?;
    context.set_if_wanted(popped.handle);
    Ok(())
}

fn set_current(context: Handle) -> Res {
    let context = if context == 0 {
        None
    } else {
        Some(handle::get::<Context>(context)?)
    };
    with_stack(|stack| {
        stack.pop();
        stack.extend(context);
    })
}

api! {
    fn cuCtxCreate(context: Out<Handle>, flags: u32, device: i32) {
        create(context, flags, device)
    }

    fn cuCtxCreate_v2(context: Out<Handle>, flags: u32, device: i32) {
        create(context, flags, device)
    }

    fn cuCtxCreate_v3(context: Out<Handle>, affinity: In<u64>, count: i32, flags: u32, device: i32) {
        if !affinity.is_null() || count != 0 {
            return Err(CuError::UNSUPPORTED_EXEC_AFFINITY);
        }
        create(context, flags, device)
    }

    fn cuCtxCreate_v4(context: Out<Handle>, parameters: In<[u64; 3]>, flags: u32, device: i32) {
        if let Ok([affinity, _, graphics]) = parameters.get()
            && (affinity != 0 || graphics != 0)
        {
            return Err(CuError::NOT_SUPPORTED);
        }
        create(context, flags, device)
    }

    fn cuCtxDestroy(context: Handle) {
        destroy(context)
    }

    fn cuCtxDestroy_v2(context: Handle) {
        destroy(context)
    }

    fn cuCtxAttach(context: Out<Handle>, _flags: u32) {
        context.set(current()?.handle)
    }

    fn cuCtxDetach(context: Handle) {
        handle::get::<Context>(context)?;
        Ok(())
    }

    fn cuCtxPushCurrent(context: Handle) {
        push(context)
    }

    fn cuCtxPushCurrent_v2(context: Handle) {
        push(context)
    }

    fn cuCtxPopCurrent(context: Out<Handle>) {
        pop(context)
    }

    fn cuCtxPopCurrent_v2(context: Out<Handle>) {
        pop(context)
    }

    fn cuCtxSetCurrent(context: Handle) {
        set_current(context)
    }

    fn cuCtxGetCurrent(context: Out<Handle>) {
        context.set(top()?.map_or(0, |context| context.handle))
    }

    fn cuCtxGetDevice(device: Out<i32>) {
        device.set(top()?.ok_or(CuError::INVALID_CONTEXT)?.device.ordinal)
    }

    fn cuCtxGetDevice_v2(device: Out<i32>, context: Handle) {
        device.set(get(context)?.device.ordinal)
    }

    fn cuCtxGetFlags(flags: Out<u32>) {
        flags.set(top()?.ok_or(CuError::INVALID_CONTEXT)?.flags.load(Ordering::Relaxed))
    }

    fn cuCtxSetFlags(flags: u32) {
        check_flags(flags)?;
        current()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetId(context: Handle, id: Out<u64>) {
        let context = if context == 0 { top()?.ok_or(CuError::INVALID_CONTEXT)? } else { get(context)? };
        id.set(context.id)
    }

    fn cuCtxGetApiVersion(context: Handle, version: Out<u32>) {
        get(context)?;
        version.set(3020)
    }

    fn cuCtxSynchronize() {
        let context = current()?;
        stream::synchronise_context(&context)
    }

    fn cuCtxSynchronize_v2(context: Handle) {
        let context = get(context)?;
        context.usable()?;
        stream::synchronise_context(&context)
    }

    fn cuCtxGetLimit(value: Out<usize>, limit: u32) {
        let context = current()?;
        let limit = usize::try_from(limit).ok().filter(|limit| *limit < LIMITS).ok_or(CuError::UNSUPPORTED_LIMIT)?;
        value.set(context.limit(limit))
    }

    fn cuCtxSetLimit(limit: u32, value: usize) {
        const HEAP: u32 = 2;
        let context = current()?;
        if limit == HEAP && !context.device.memory.set_heap_limit(value as u64) {
            // A kernel has used the heap already.
            return Err(CuError::INVALID_VALUE);
        }
        let mut limits = lock(&context.limits);
        *limits.get_mut(limit as usize).ok_or(CuError::UNSUPPORTED_LIMIT)? = value;
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        current().map(drop)
    }

    fn cuCtxGetCacheConfig(config: Out<i32>) {
        config.set(current()?.cache_config.load(Ordering::Relaxed))
    }

    fn cuCtxSetCacheConfig(config: i32) {
        current()?.cache_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetSharedMemConfig(config: Out<i32>) {
        config.set(current()?.shared_config.load(Ordering::Relaxed))
    }

    fn cuCtxSetSharedMemConfig(config: i32) {
        current()?.shared_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        current()?;
        least.set_if_wanted(stream::LEAST_PRIORITY);
        greatest.set_if_wanted(stream::GREATEST_PRIORITY);
        Ok(())
    }

    fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) {
        let context = current()?;
        let peer = handle::get::<Context>(peer)?;
        if flags != 0 {
            return Err(CuError::INVALID_VALUE);
        }
        if peer.device.ordinal == context.device.ordinal {
            return Err(CuError::INVALID_DEVICE);
        }
        if !lock(&context.peers).insert(peer.device.ordinal) {
            return Err(CuError::PEER_ACCESS_ALREADY_ENABLED);
        }
        space::open_peer(context.device, peer.device)
    }

    fn cuCtxDisablePeerAccess(peer: Handle) {
        let context = current()?;
        let peer = handle::get::<Context>(peer)?;
        if !lock(&context.peers).remove(&peer.device.ordinal) {
            return Err(CuError::PEER_ACCESS_NOT_ENABLED);
        }
        space::close_peer(context.device, peer.device);
        Ok(())
    }

    fn cuCtxGetExecAffinity(_affinity: Out<u64>, _kind: u32) {
        Err(CuError::UNSUPPORTED_EXEC_AFFINITY)
    }
}

/// The primary context of a device.
#[derive(Default)]
struct Primary {
    context: Option<Arc<Context>>,
    retained: u32,
    flags: u32,
}

static PRIMARIES: LazyLock<Vec<Mutex<Primary>>> =
    LazyLock::new(|| device::all().iter().map(|_| Mutex::default()).collect());

fn primary(device: i32) -> Res<&'static Mutex<Primary>> {
    device::get(device)?;
    PRIMARIES
        .get(device as usize)
        .ok_or(CuError::INVALID_DEVICE)
}

fn end_primary(device: i32, all: bool) -> Res {
    let mut primary = lock(primary(device)?);
    if primary.retained == 0 {
        return if all {
            Ok(())
        } else {
            Err(CuError::INVALID_CONTEXT)
        };
    }
    primary.retained = if all { 0 } else { primary.retained - 1 };
    let ended = if primary.retained == 0 {
        primary.context.take()
    } else {
        None
    };
    drop(primary);
    if let Some(context) = ended {
        context.destroy();
    }
    Ok(())
}

api! {
    fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: i32) {
        context.required()?;
        let mut primary = lock(primary(device)?);
        let device = device::get(device)?;
        let flags = primary.flags;
        let retained = primary.context.get_or_insert_with(|| Context::new(device, flags, true));
        // A fault outlives a retain: only a reset, or the last release, takes it away.
        context.set(retained.handle)?;
        primary.retained += 1;
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease(device: i32) {
        end_primary(device, false)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        end_primary(device, false)
    }

    fn cuDevicePrimaryCtxReset(device: i32) {
        end_primary(device, true)
    }

    fn cuDevicePrimaryCtxReset_v2(device: i32) {
        end_primary(device, true)
    }

    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) {
        let primary = lock(primary(device)?);
        let now = primary.context.as_ref().map_or(primary.flags, |context| context.flags.load(Ordering::Relaxed));
        flags.set_if_wanted(now);
        active.set_if_wanted(i32::from(primary.context.is_some()));
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags(device: i32, flags: u32) {
        set_primary_flags(device, flags)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) {
        set_primary_flags(device, flags)
    }
}

fn set_primary_flags(device: i32, flags: u32) -> Res {
    check_flags(flags)?;
    let mut primary = lock(primary(device)?);
    primary.flags = flags;
    if let Some(context) = &primary.context {
        context.flags.store(flags, Ordering::Relaxed);
    }
    Ok(())
}

/// Breaks a context because of a fault, and says so on standard error.
pub fn fault(context: &Context, fault: &r3_emu::Fault) {
    context.broken(launch::code_of(&fault.kind));
    say(&format!("softcuda: {fault}"));
}
