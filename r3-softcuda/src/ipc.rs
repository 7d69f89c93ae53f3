//! Memory shared between processes: `cuIpcGetMemHandle` and its kin.
//!
//! What is exported moves into a file in memory, which the other process finds in `/proc` and maps. Memory that is open
//! stays, also when the process that made it has freed it or is gone.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use crate::api::{Out, api};
use crate::capture;
use crate::context;
use crate::error::{CuError, Res};
use crate::process::lock;
use crate::space::{self, Kind, Request};
use crate::stream;

/// `CUipcMemHandle`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemHandle {
    magic: u64,
    process: i32,
    descriptor: i32,
    /// Of the file, by which a number that means something else by now is noticed.
    inode: u64,
    offset: u64,
    len: u64,
    unused: [u64; 3],
}

const _: () = assert!(size_of::<MemHandle>() == 64);

const MAGIC: u64 = u64::from_le_bytes(*b"softcuda");
const LAZY_PEER_ACCESS: u32 = 1;

/// What is open: where, and how often.
static OPEN: Mutex<BTreeMap<MemHandle, (u64, u32)>> = Mutex::new(BTreeMap::new());

fn process() -> i32 {
    std::process::id().cast_signed()
}

fn export(address: u64) -> Res<MemHandle> {
    capture::refuse_unsafe()?;
    let context = context::current()?;
    let found = space::find(address)
        .filter(|found| found.base == address && found.kind == Kind::Device)
        .ok_or(CuError::INVALID_VALUE)?;
    // Work that writes the memory while it moves would be lost.
    stream::wait_all(&context)?;
    let (file, offset) = space::share(&found)?;
    let copy = file.try_clone_to_owned().map(File::from);
    let about = copy.and_then(|copy| copy.metadata());
    let inode = about.map_err(|_| CuError::OPERATING_SYSTEM)?.ino();
    Ok(MemHandle {
        magic: MAGIC,
        process: process(),
        descriptor: file.as_raw_fd(),
        inode,
        offset,
        len: found.len,
        unused: [0; 3],
    })
}

/// The exporter's file.
fn file_of(handle: &MemHandle) -> Res<File> {
    let path = format!("/proc/{}/fd/{}", handle.process, handle.descriptor);
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|_| CuError::INVALID_VALUE)?;
    let about = file.metadata().map_err(|_| CuError::OPERATING_SYSTEM)?;
    let end = handle.offset.checked_add(handle.len);
    if about.ino() != handle.inode || end.is_none_or(|end| end > about.len()) || handle.len == 0 {
        return Err(CuError::INVALID_VALUE);
    }
    Ok(file)
}

fn open(handle: MemHandle, flags: u32) -> Res<u64> {
    capture::refuse_unsafe()?;
    let context = context::current()?;
    if handle.magic != MAGIC || flags != LAZY_PEER_ACCESS {
        return Err(CuError::INVALID_VALUE);
    }
    // As on a GPU: a process does not open what is its own.
    if handle.process == process() {
        return Err(CuError::INVALID_CONTEXT);
    }
    let mut open = lock(&OPEN);
    if let Some((address, times)) = open.get_mut(&handle)
        && space::find(*address).is_some_and(|found| found.kind == Kind::Ipc)
    {
        *times += 1;
        return Ok(*address);
    }
    let (address, host, bytes) = space::map_shared(&file_of(&handle)?, handle.offset, handle.len)?;
    let request = Request {
        kind: Kind::Ipc,
        len: handle.len,
        device: context.device,
        context: context.handle,
        flags: 0,
        owner: 0,
    };
    space::adopt(request, address, host, bytes, &[context.device.ordinal])?;
    open.insert(handle, (address, 1));
    Ok(address)
}

fn close(address: u64) -> Res {
    capture::refuse_unsafe()?;
    let context = context::current()?;
    let mut open = lock(&OPEN);
    let known = open.iter_mut().find(|(_, (at, _))| *at == address);
    let (handle, times) = known
        .map(|(handle, (_, times))| (*handle, times))
        .ok_or(CuError::INVALID_VALUE)?;
    *times -= 1;
    if *times > 0 {
        return Ok(());
    }
    open.remove(&handle);
    drop(open);
    stream::wait_all(&context)?;
    space::free(address, |found| found.kind == Kind::Ipc)
}

api! {
    fn cuIpcGetMemHandle(handle: Out<MemHandle>, address: u64) {
        handle.required()?;
        handle.set(export(address)?)
    }

    fn cuIpcOpenMemHandle(address: Out<u64>, handle: MemHandle, flags: u32) {
        address.required()?;
        address.set(open(handle, flags)?)
    }

    fn cuIpcOpenMemHandle_v2(address: Out<u64>, handle: MemHandle, flags: u32) {
        address.required()?;
        address.set(open(handle, flags)?)
    }

    fn cuIpcCloseMemHandle(address: u64) {
        close(address)
    }
}
