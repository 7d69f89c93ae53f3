//! Memory of the older families: device, pinned, registered and managed; what pointers are; advice.

use crate::api::{In, Out, api};
use crate::capture;
use crate::context;
use crate::device;
use crate::error::{CuError, Res};
use crate::graph;
use crate::handle;
use crate::pool;
use crate::space::{self, Allocation, Bytes, Kind, Request};
use crate::stream;

/// `CU_MEMORYTYPE_HOST`, `CU_MEMORYTYPE_DEVICE`
const HOST: u32 = 1;
const DEVICE: u32 = 2;

fn new(kind: Kind, len: usize, flags: u32) -> Res<u64> {
    capture::refuse_unsafe()?;
    let context = context::current()?;
    let request = Request {
        kind,
        len: len as u64,
        device: context.device,
        context: context.handle,
        flags,
        owner: 0,
    };
    space::allocate(request, &[])
}

fn free(address: u64, kinds: &[Kind]) -> Res {
    if address == 0 {
        return Ok(());
    }
    capture::refuse_unsafe()?;
    let found =
        space::find(address).filter(|found| found.base == address && kinds.contains(&found.kind));
    let found = found.ok_or(CuError::INVALID_VALUE)?;
    if pool::is_freeing(address) {
        return Err(CuError::INVALID_VALUE);
    }
    // Work that is queued may use it.
    if let Ok(context) = handle::get::<context::Context>(found.context) {
        let _ = stream::wait_all(&context);
    }
    if let Ok(context) = context::current() {
        stream::wait_all(&context)?;
    }
    if graph::memory::known(address) && !graph::memory::free(address)? {
        return Ok(());
    }
    space::free(address, |found| kinds.contains(&found.kind))
}

fn pitch_of(width: usize) -> usize {
    width.next_multiple_of(512)
}

api! {
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let device = context::current()?.device;
        let used = device.used.load(std::sync::atomic::Ordering::Relaxed).max(0) as u64;
        total.set_if_wanted(device.total() as usize);
        free.set_if_wanted(device.total().saturating_sub(used) as usize);
        Ok(())
    }

    fn cuMemAlloc_v2(address: Out<u64>, len: usize) {
        address.required()?;
        address.set(new(Kind::Device, len, 0)?)
    }

    fn cuMemAllocPitch_v2(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) {
        address.required()?;
        pitch.required()?;
        if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 {
            return Err(CuError::INVALID_VALUE);
        }
        let row = pitch_of(width);
        let len = row.checked_mul(height).ok_or(CuError::OUT_OF_MEMORY)?;
        pitch.set(row)?;
        address.set(new(Kind::Device, len, 0)?)
    }

    fn cuMemFree_v2(address: u64) {
        free(address, &[Kind::Device, Kind::Managed, Kind::Pool])
    }

    fn cuMemGetAddressRange_v2(base: Out<u64>, len: Out<usize>, address: u64) {
        context::current()?;
        let found = space::find(address).ok_or(CuError::NOT_FOUND)?;
        base.set_if_wanted(found.base);
        len.set_if_wanted(found.len as usize);
        Ok(())
    }

    fn cuMemAllocHost_v2(pointer: Out<u64>, len: usize) {
        pointer.required()?;
        pointer.set(new(Kind::Host, len, 0)?)
    }

    fn cuMemHostAlloc(pointer: Out<u64>, len: usize, flags: u32) {
        pointer.required()?;
        if flags & !7 != 0 {
            return Err(CuError::INVALID_VALUE);
        }
        pointer.set(new(Kind::Host, len, flags)?)
    }

    fn cuMemFreeHost(pointer: u64) {
        free(pointer, &[Kind::Host])
    }

    fn cuMemHostGetDevicePointer_v2(address: Out<u64>, pointer: u64, flags: u32) {
        context::current()?;
        let found = space::find(pointer).filter(|found| matches!(found.kind, Kind::Host | Kind::Registered));
        if flags != 0 || found.is_none() {
            return Err(CuError::INVALID_VALUE);
        }
        address.set(pointer)
    }

    fn cuMemHostGetFlags(flags: Out<u32>, pointer: u64) {
        context::current()?;
        let found = space::find(pointer).filter(|found| matches!(found.kind, Kind::Host | Kind::Registered));
        // All pinned memory is mapped for the device.
        flags.set(found.ok_or(CuError::INVALID_VALUE)?.flags | 2)
    }

    fn cuMemHostRegister_v2(pointer: u64, len: usize, flags: u32) {
        capture::refuse_unsafe()?;
        let context = context::current()?;
        if pointer == 0 || len == 0 || flags & !0xf != 0 {
            return Err(CuError::INVALID_VALUE);
        }
        let visible: Vec<i32> = device::all().iter().map(|device| device.ordinal).collect();
        let request = Request {
            kind: Kind::Registered,
            len: len as u64,
            device: context.device,
            context: context.handle,
            flags,
            owner: 0,
        };
        space::adopt(request, pointer, pointer, Bytes::Foreign, &visible)
    }

    fn cuMemHostUnregister(pointer: u64) {
        capture::refuse_unsafe()?;
        let context = context::current()?;
        stream::wait_all(&context)?;
        space::free(pointer, |found| found.kind == Kind::Registered)
            .map_err(|_| CuError::HOST_MEMORY_NOT_REGISTERED)
    }

    fn cuMemAllocManaged(address: Out<u64>, len: usize, flags: u32) {
        address.required()?;
        if !matches!(flags, 1 | 2) {
            return Err(CuError::INVALID_VALUE);
        }
        address.set(new(Kind::Managed, len, flags)?)
    }

    fn cuPointerGetAttribute(data: Out<u8>, attribute: u32, pointer: u64) {
        context::current()?;
        let found = space::find(pointer).ok_or(CuError::INVALID_VALUE)?;
        attribute_of(&found, pointer, attribute)?.put(data)
    }

    fn cuPointerGetAttributes(count: u32, attributes: In<u32>, data: In<u64>, pointer: u64) {
        context::current()?;
        let (attributes, data) = (attributes.list(count as usize)?, data.list(count as usize)?);
        let found = space::find(pointer);
        for (attribute, data) in attributes.into_iter().zip(data) {
            let value = match &found {
                Some(found) => attribute_of(found, pointer, attribute).ok(),
                None => None,
            };
            // What is not known reads as zero.
            let value = value.unwrap_or_else(|| zero_of(attribute));
            value.put(Out::new(data as *mut u8))?;
        }
        Ok(())
    }

    fn cuPointerSetAttribute(value: In<u32>, attribute: u32, pointer: u64) {
        context::current()?;
        value.get()?;
        if attribute != 6 || space::find(pointer).is_none() {
            return Err(CuError::INVALID_VALUE);
        }
        Ok(())
    }
}

/// A value of a pointer's attribute, with its size.
enum Value {
    Byte(bool),
    Word(u32),
    Long(u64),
    Tokens,
}

impl Value {
    fn put(self, data: Out<u8>) -> Res {
        let data = data.pointer();
        match self {
            Value::Byte(value) => Out::new(data.cast::<u8>()).set(u8::from(value)),
            Value::Word(value) => Out::new(data.cast::<u32>()).set(value),
            Value::Long(value) => Out::new(data.cast::<u64>()).set(value),
            Value::Tokens => Out::new(data.cast::<[u64; 2]>()).set([0; 2]),
        }
    }
}

fn zero_of(attribute: u32) -> Value {
    match attribute {
        2 => Value::Word(0),
        9 => Value::Word((-2i32).cast_unsigned()),
        5 => Value::Tokens,
        1 | 3 | 4 | 7 | 11 | 12 | 14 | 17 | 18 | 19 | 20 => Value::Long(0),
        16 => Value::Word(0),
        _ => Value::Byte(false),
    }
}

fn attribute_of(found: &Allocation, pointer: u64, attribute: u32) -> Res<Value> {
    let host = found.kind.on_host();
    Ok(match attribute {
        1 => match found.kind {
            Kind::Pool | Kind::Mapped => return Err(CuError::INVALID_VALUE),
            _ => Value::Long(found.context),
        },
        2 => Value::Word(if matches!(found.kind, Kind::Host | Kind::Registered) {
            HOST
        } else {
            DEVICE
        }),
        3 => Value::Long(pointer),
        4 if host => Value::Long(pointer),
        4 => return Err(CuError::INVALID_VALUE),
        5 => Value::Tokens,
        6 => Value::Word(0),
        7 | 20 => Value::Long(found.id),
        8 => Value::Byte(found.kind == Kind::Managed),
        9 => Value::Word(found.device.cast_unsigned()),
        10 => Value::Byte(false),
        11 | 19 => Value::Long(found.base),
        12 | 18 => Value::Long(found.len),
        13 => Value::Byte(true),
        14 => Value::Long(0),
        15 => Value::Byte(false),
        16 => {
            let device = context::current()?.device.ordinal;
            Value::Word(if found.visible_to(device) { 3 } else { 0 })
        }
        17 => Value::Long(if found.kind == Kind::Pool {
            found.owner
        } else {
            0
        }),
        21 => Value::Byte(false),
        _ => return Err(CuError::INVALID_VALUE),
    })
}
