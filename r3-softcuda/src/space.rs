//! The address space: which addresses are whose, and the host bytes behind them.
//!
//! Device memory has two addresses. Its device address lies in a range of this process that is reserved and not
//! accessible, so that nothing else gets it and a host that follows a device pointer faults as it would with a GPU.
//! Its bytes are elsewhere, and the devices' [`r3_emu::Memory`] maps the first to the second. Pinned and managed
//! memory has one address for both.
//!
//! Kernels see exactly the bytes that were asked for: an access one byte behind them is a fault.
//!
//! Host bytes that are freed while a kernel runs are kept until every kernel that ran then has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use crate::device::{self, Device};
use crate::error::{CuError, Res};
use crate::handle::Handle;
use crate::process::lock;

/// Device memory comes in blocks of this size.
pub const BLOCK: u64 = 2 << 20;
/// A reservation with a hint is put there when it is so aligned.
pub const RESERVE_ALIGN: u64 = 32 << 20;
/// Small allocations share a block, in steps of this size.
const STEP: u64 = 256;

/// Families of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cuMemAlloc`
    Device,
    /// `cuMemAllocAsync` and the like.
    Pool,
    /// `cuMemAllocManaged`
    Managed,
    /// `cuMemHostAlloc`
    Host,
    /// `cuMemHostRegister`
    Registered,
    /// `cuMemMap`
    Mapped,
    /// `cuIpcOpenMemHandle`
    Ipc,
    /// A variable of a module.
    Global,
}

impl Kind {
    /// The host uses it at the same address.
    pub fn on_host(self) -> bool {
        matches!(self, Kind::Managed | Kind::Host | Kind::Registered)
    }
}

/// An allocation. Cheap to clone.
#[derive(Clone)]
pub struct Allocation {
    pub base: u64,
    pub len: u64,
    pub kind: Kind,
    pub device: i32,
    pub context: Handle,
    pub flags: u32,
    pub id: u64,
    /// Pool, or physical memory, it is of; else 0.
    pub owner: Handle,
    /// Host address of its first byte.
    host: usize,
    bytes: Bytes,
    /// Devices whose kernels see it.
    visible: BTreeSet<i32>,
}

impl Allocation {
    pub fn host(&self) -> *mut u8 {
        self.host as *mut u8
    }

    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.len)
    }

    pub fn visible_to(&self, device: i32) -> bool {
        self.visible.contains(&device)
    }
}

/// What keeps host bytes alive.
#[allow(dead_code, reason = "held for their destructors")]
#[derive(Clone)]
pub enum Bytes {
    /// A mapping of this process.
    Region(Arc<Region>),
    /// A part of a block.
    Slot(Arc<Slot>),
    /// The program's.
    Foreign,
}

/// Address space of this process: unmapped when the last who knows it is gone.
pub struct Region {
    start: u64,
    len: u64,
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region was mapped by `map_host_bytes` or `reserve` and nobody knows it any more.
        unsafe { libc::munmap(self.start as *mut _, self.len as usize) };
    }
}

struct Block {
    address: Region,
    bytes: Region,
    /// Where the bytes are, once another process may see them.
    file: OnceLock<File>,
    /// Offset and length of what is free.
    free: Mutex<BTreeMap<u64, u64>>,
}

/// A part of a block.
pub struct Slot {
    block: Arc<Block>,
    offset: u64,
    len: u64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut free = lock(&self.block.free);
        let (mut start, mut len) = (self.offset, self.len);
        if let Some((&before, &size)) = free.range(..start).next_back()
            && before + size == start
        {
            free.remove(&before);
            (start, len) = (before, len + size);
        }
        if let Some(size) = free.remove(&(start + len)) {
            len += size;
        }
        free.insert(start, len);
    }
}

static SPACE: LazyLock<RwLock<BTreeMap<u64, Allocation>>> = LazyLock::new(Default::default);
static BLOCKS: Mutex<BTreeMap<i32, Vec<Arc<Block>>>> = Mutex::new(BTreeMap::new());
/// Which device sees whose memory.
static PEERS: Mutex<BTreeSet<(i32, i32)>> = Mutex::new(BTreeSet::new());
static IDS: AtomicU64 = AtomicU64::new(1);

fn page(len: u64) -> u64 {
    len.max(1).div_ceil(4096).saturating_mul(4096)
}

/// Takes addresses that nobody may access. `at` gives the place; then it is there or nowhere.
pub fn reserve(len: u64, at: Option<u64>, align: u64) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    if let Some(at) = at {
        // SAFETY: a new mapping, which replaces none.
        let start = unsafe {
            libc::mmap(
                at as *mut _,
                len as usize,
                libc::PROT_NONE,
                flags | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        if start as u64 != at {
            // SAFETY: made above. (An old kernel takes the address as a hint.)
            unsafe { libc::munmap(start, len as usize) };
            return None;
        }
        return Some(at);
    }
    let whole = len.checked_add(align)?;
    // SAFETY: a new mapping.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            usize::try_from(whole).ok()?,
            libc::PROT_NONE,
            flags,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start as u64;
    let aligned = start.next_multiple_of(align);
    let (head, tail) = (aligned - start, start + whole - (aligned + len));
    // SAFETY: the ends of the mapping above.
    unsafe {
        if head > 0 {
            libc::munmap(start as *mut _, head as usize);
        }
        if tail > 0 {
            libc::munmap((aligned + len) as *mut _, tail as usize);
        }
    }
    Some(aligned)
}

/// Gives back addresses of [`reserve`].
pub fn unreserve(start: u64, len: u64) {
    drop(Region { start, len });
}

/// Zero bytes, backed when they are touched.
pub fn host_bytes(len: u64) -> Res<Region> {
    let len = page(len);
    // SAFETY: a new mapping.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            usize::try_from(len).map_err(|_| CuError::OUT_OF_MEMORY)?,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(CuError::OUT_OF_MEMORY);
    }
    Ok(Region {
        start: start as u64,
        len,
    })
}

impl Region {
    pub fn start(&self) -> u64 {
        self.start
    }
}

/// Addresses for device memory. `SOFTCUDA_ARENA=0x…`: from there on, where they are free.
fn reserve_device(len: u64) -> Res<u64> {
    static NEXT: LazyLock<Option<AtomicU64>> = LazyLock::new(|| {
        let text = crate::process::setting("ARENA")?;
        let start = u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()?;
        Some(AtomicU64::new(start.next_multiple_of(BLOCK)))
    });
    let asked = NEXT
        .as_ref()
        .map(|next| next.fetch_add(len, Ordering::Relaxed));
    let there = asked.and_then(|at| reserve(len, Some(at), BLOCK));
    there
        .or_else(|| reserve(len, None, BLOCK))
        .ok_or(CuError::OUT_OF_MEMORY)
}

/// Device address, host address, and what keeps them.
fn place(device: i32, len: u64) -> Res<(u64, usize, Bytes)> {
    let size = len.max(1).next_multiple_of(STEP);
    if size < BLOCK / 2 {
        let mut blocks = lock(&BLOCKS);
        let blocks = blocks.entry(device).or_default();
        for block in blocks.iter() {
            if let Some(placed) = take_slot(block, size) {
                return Ok(placed);
            }
        }
        let address = reserve_device(BLOCK)?;
        let block = Arc::new(Block {
            address: Region {
                start: address,
                len: BLOCK,
            },
            bytes: host_bytes(BLOCK)?,
            file: OnceLock::new(),
            free: Mutex::new(BTreeMap::from([(0, BLOCK)])),
        });
        let placed = take_slot(&block, size).ok_or(CuError::OUT_OF_MEMORY)?;
        blocks.push(block);
        return Ok(placed);
    }
    let whole = len
        .checked_next_multiple_of(BLOCK)
        .ok_or(CuError::OUT_OF_MEMORY)?;
    let address = reserve_device(whole)?;
    let address = Region {
        start: address,
        len: whole,
    };
    let bytes = host_bytes(len)?;
    let (start, host) = (address.start, bytes.start as usize);
    Ok((start, host, one_slot(address, bytes)))
}

/// A block that is one allocation as a whole.
fn one_slot(address: Region, bytes: Region) -> Bytes {
    let len = address.len;
    let block = Arc::new(Block {
        address,
        bytes,
        file: OnceLock::new(),
        free: Mutex::default(),
    });
    Bytes::Slot(Arc::new(Slot {
        block,
        offset: 0,
        len,
    }))
}

fn take_slot(block: &Arc<Block>, size: u64) -> Option<(u64, usize, Bytes)> {
    let mut free = lock(&block.free);
    let (&offset, &room) = free.iter().find(|(_, room)| **room >= size)?;
    free.remove(&offset);
    if room > size {
        free.insert(offset + size, room - size);
    }
    drop(free);
    let slot = Slot {
        block: block.clone(),
        offset,
        len: size,
    };
    Some((
        block.address.start + offset,
        (block.bytes.start + offset) as usize,
        Bytes::Slot(Arc::new(slot)),
    ))
}

/// Moves the bytes of an allocation, and of what shares a block with it, into a file that other processes can map: the
/// descriptor, which stays as long as they do, and the place. Their addresses stay.
pub fn share(allocation: &Allocation) -> Res<(BorrowedFd<'_>, u64)> {
    let Bytes::Slot(slot) = &allocation.bytes else {
        return Err(CuError::INVALID_VALUE);
    };
    let block = &slot.block;
    // While the bytes move nothing may write them.
    let still = loop {
        let running = lock(&RUNNING);
        if running.active.is_empty() {
            break running;
        }
        drop(running);
        std::thread::sleep(Duration::from_millis(1));
    };
    if block.file.get().is_none() {
        let file = move_to_file(&block.bytes).map_err(|_| CuError::OPERATING_SYSTEM)?;
        let _ = block.file.set(file);
    }
    drop(still);
    let file = block.file.get().ok_or(CuError::OPERATING_SYSTEM)?;
    Ok((file.as_fd(), slot.offset))
}

fn move_to_file(bytes: &Region) -> std::io::Result<File> {
    // SAFETY: a C string; the descriptor that is made is nobody else's.
    let mut file = unsafe {
        let descriptor = libc::memfd_create(c"softcuda".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    // SAFETY: mapped, and as long as said.
    file.write_all(unsafe {
        std::slice::from_raw_parts(bytes.start as *const u8, bytes.len as usize)
    })?;
    // SAFETY: takes the place of the mapping that the region stands for, with the same bytes.
    let start = unsafe {
        libc::mmap(
            bytes.start as *mut _,
            bytes.len as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    Ok(file)
}

/// A part of another process's file as device memory: device address, host address, and what keeps them.
pub fn map_shared(file: &File, offset: u64, len: u64) -> Res<(u64, u64, Bytes)> {
    let start = offset / 4096 * 4096;
    let size = page(offset - start + len);
    // SAFETY: a new mapping.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            start.cast_signed(),
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(CuError::OUT_OF_MEMORY);
    }
    let bytes = Region {
        start: mapped as u64,
        len: size,
    };
    let whole = len.next_multiple_of(BLOCK);
    let address = Region {
        start: reserve_device(whole)?,
        len: whole,
    };
    let (base, host) = (address.start, bytes.start + offset - start);
    Ok((base, host, one_slot(address, bytes)))
}

/// What is asked for.
pub struct Request {
    pub kind: Kind,
    pub len: u64,
    pub device: &'static Device,
    pub context: Handle,
    pub flags: u32,
    pub owner: Handle,
}

/// Makes an allocation; kernels of `visible` see it (those of all devices, when it is the host's too).
pub fn allocate(request: Request, visible: &[i32]) -> Res<u64> {
    let Request {
        kind,
        len,
        device,
        context,
        flags,
        owner,
    } = request;
    if len == 0 {
        return Err(CuError::INVALID_VALUE);
    }
    if kind != Kind::Host {
        device.take(len)?;
    }
    let placed = if kind.on_host() {
        host_bytes(len).map(|region| {
            (
                region.start,
                region.start as usize,
                Bytes::Region(Arc::new(region)),
            )
        })
    } else {
        place(device.ordinal, len)
    };
    let (base, host, bytes) =
        placed.inspect_err(|_| device.give_back(if kind == Kind::Host { 0 } else { len }))?;
    let id = IDS.fetch_add(1, Ordering::Relaxed);
    let mut allocation = Allocation {
        base,
        len,
        kind,
        device: device.ordinal,
        context,
        flags,
        id,
        owner,
        host,
        bytes,
        visible: BTreeSet::new(),
    };
    let mut devices: BTreeSet<i32> = visible.iter().copied().collect();
    if kind.on_host() {
        devices.extend(device::all().iter().map(|device| device.ordinal));
    } else {
        devices.insert(device.ordinal);
        if kind != Kind::Pool {
            let peers = lock(&PEERS);
            devices.extend(
                peers
                    .iter()
                    .filter(|(_, owner)| *owner == device.ordinal)
                    .map(|(from, _)| *from),
            );
        }
    }
    for device in devices {
        show(&mut allocation, device)?;
    }
    write_space().insert(base, allocation);
    Ok(base)
}

fn write_space() -> std::sync::RwLockWriteGuard<'static, BTreeMap<u64, Allocation>> {
    SPACE.write().unwrap_or_else(PoisonError::into_inner)
}

fn show(allocation: &mut Allocation, device: i32) -> Res {
    if !allocation.visible.insert(device) {
        return Ok(());
    }
    let memory = &device::get(device)?.memory;
    // SAFETY: the bytes live as long as the allocation, and longer while kernels run (`retire`). Registered memory is
    // the program's, which promises the same.
    let mapped = unsafe { memory.map_host(allocation.base, allocation.len, allocation.host()) };
    mapped.map_err(|_| CuError::OUT_OF_MEMORY)
}

fn hide(allocation: &mut Allocation, device: i32) {
    if allocation.visible.remove(&device)
        && let Ok(device) = device::get(device)
    {
        let _ = device.memory.unmap(allocation.base, allocation.len);
    }
}

/// Adds memory of the program's, or a mapping of physical memory, at a given address.
pub fn adopt(request: Request, base: u64, host: u64, bytes: Bytes, visible: &[i32]) -> Res {
    let Request {
        kind,
        len,
        device,
        context,
        flags,
        owner,
    } = request;
    let mut space = write_space();
    if overlaps(&space, base, len) {
        return Err(CuError::HOST_MEMORY_ALREADY_REGISTERED);
    }
    let id = IDS.fetch_add(1, Ordering::Relaxed);
    let mut allocation = Allocation {
        base,
        len,
        kind,
        device: device.ordinal,
        context,
        flags,
        id,
        owner,
        host: host as usize,
        bytes,
        visible: BTreeSet::new(),
    };
    for device in visible {
        show(&mut allocation, *device)?;
    }
    space.insert(base, allocation);
    Ok(())
}

fn overlaps(space: &BTreeMap<u64, Allocation>, base: u64, len: u64) -> bool {
    let end = base.saturating_add(len);
    space
        .range(..end)
        .next_back()
        .is_some_and(|(_, before)| before.end() > base)
}

/// Changes which devices see an allocation that begins here.
pub fn set_visible(base: u64, device: i32, see: bool) -> Res {
    let mut space = write_space();
    let allocation = space.get_mut(&base).ok_or(CuError::INVALID_VALUE)?;
    if see {
        show(allocation, device)
    } else {
        hide(allocation, device);
        Ok(())
    }
}

/// The allocation in which an address lies.
pub fn find(address: u64) -> Option<Allocation> {
    let space = SPACE.read().unwrap_or_else(PoisonError::into_inner);
    let (_, allocation) = space.range(..=address).next_back()?;
    (address < allocation.end()).then(|| allocation.clone())
}

/// Allocations that begin in a range.
pub fn within(base: u64, len: u64) -> Vec<Allocation> {
    let space = SPACE.read().unwrap_or_else(PoisonError::into_inner);
    space
        .range(base..base.saturating_add(len))
        .map(|(_, allocation)| allocation.clone())
        .collect()
}

/// Takes an allocation away that begins here and for which `fits` holds. Its bytes live on while kernels run.
pub fn free(base: u64, fits: impl Fn(&Allocation) -> bool) -> Res<()> {
    let mut space = write_space();
    if !space.get(&base).is_some_and(fits) {
        return Err(CuError::INVALID_VALUE);
    }
    let Some(mut allocation) = space.remove(&base) else {
        return Err(CuError::INVALID_VALUE);
    };
    for device in allocation.visible.clone() {
        hide(&mut allocation, device);
    }
    drop(space);
    if matches!(
        allocation.kind,
        Kind::Device | Kind::Pool | Kind::Managed | Kind::Global
    ) && let Ok(device) = device::get(allocation.device)
    {
        device.give_back(allocation.len);
    }
    retire(allocation.bytes);
    Ok(())
}

/// Frees everything of a context that ends.
pub fn end_context(context: Handle) {
    let space = SPACE.read().unwrap_or_else(PoisonError::into_inner);
    let of_it = |allocation: &&Allocation| {
        allocation.context == context && !matches!(allocation.kind, Kind::Pool | Kind::Mapped)
    };
    let bases: Vec<u64> = space
        .values()
        .filter(of_it)
        .map(|allocation| allocation.base)
        .collect();
    drop(space);
    for base in bases {
        let _ = free(base, |_| true);
    }
}

/// Lets a device see another one's memory.
pub fn open_peer(device: &Device, of: &Device) -> Res {
    lock(&PEERS).insert((device.ordinal, of.ordinal));
    for allocation in write_space().values_mut() {
        if allocation.device == of.ordinal && matches!(allocation.kind, Kind::Device | Kind::Global)
        {
            show(allocation, device.ordinal)?;
        }
    }
    Ok(())
}

/// The opposite of [`open_peer`].
pub fn close_peer(device: &Device, of: &Device) {
    lock(&PEERS).remove(&(device.ordinal, of.ordinal));
    for allocation in write_space().values_mut() {
        if allocation.device == of.ordinal && matches!(allocation.kind, Kind::Device | Kind::Global)
        {
            hide(allocation, device.ordinal);
        }
    }
}

/// Host addresses behind a range: of device memory, or the range itself when it is the program's own memory.
/// `device_only`: the latter is an error.
pub fn spans(address: u64, len: u64, device_only: bool) -> Res<Vec<(*mut u8, usize)>> {
    let mut spans = Vec::new();
    let (mut at, mut left) = (address, len);
    while left > 0 {
        let Some(allocation) = find(at) else {
            if device_only || !spans.is_empty() || reserved(at) {
                return Err(CuError::INVALID_VALUE);
            }
            return Ok(vec![(address as *mut u8, len as usize)]);
        };
        let step = left.min(allocation.end() - at);
        if allocation.kind.on_host() && !device_only {
            // The program's memory may go on behind what is registered of it.
            let rest_unknown = find(at + step).is_none() && step < left;
            let step = if rest_unknown { left } else { step };
            spans.push((at as *mut u8, step as usize));
            (at, left) = (at + step, left - step);
            continue;
        }
        if allocation.visible.is_empty() {
            return Err(CuError::INVALID_VALUE);
        }
        spans.push((
            allocation
                .host()
                .wrapping_add((at - allocation.base) as usize),
            step as usize,
        ));
        (at, left) = (at + step, left - step);
    }
    Ok(spans)
}

/// Whether an address is in a range that the driver keeps for device memory.
fn reserved(address: u64) -> bool {
    let blocks = lock(&BLOCKS);
    let of_block =
        |block: &Arc<Block>| (block.address.start..block.address.start + BLOCK).contains(&address);
    blocks.values().flatten().any(of_block)
}

/// Bytes that kernels may still use.
#[derive(Default)]
struct Running {
    next: u64,
    active: BTreeSet<u64>,
    retired: Vec<(u64, Bytes)>,
}

static RUNNING: Mutex<Running> = Mutex::new(Running {
    next: 0,
    active: BTreeSet::new(),
    retired: Vec::new(),
});

/// A piece of work that uses device memory. While it lives, freed bytes stay.
pub struct InUse(u64);

impl InUse {
    pub fn begin() -> Self {
        let mut running = lock(&RUNNING);
        running.next += 1;
        let number = running.next;
        running.active.insert(number);
        Self(number)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut running = lock(&RUNNING);
        running.active.remove(&self.0);
        let oldest = running.active.first().copied().unwrap_or(u64::MAX);
        let (keep, ended): (Vec<_>, Vec<_>) = running
            .retired
            .drain(..)
            .partition(|(since, _)| *since >= oldest);
        running.retired = keep;
        drop(running);
        drop(ended);
    }
}

fn retire(bytes: Bytes) {
    let mut running = lock(&RUNNING);
    if !running.active.is_empty() {
        let now = running.next;
        running.retired.push((now, bytes));
        return;
    }
    drop(running);
    drop(bytes);
}
