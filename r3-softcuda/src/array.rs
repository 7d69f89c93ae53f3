//! Arrays: memory in rows of texels. Here they are linear; nothing promises a program otherwise.

use std::sync::Arc;

use crate::api::{In, Out, api};
use crate::context;
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::space::{self, Kind, Request};

/// An array.
pub struct Array {
    pub handle: Handle,
    pub descriptor: Descriptor3d,
    shape: Shape,
    address: u64,
    /// It is a level of mipmaps, which own the memory.
    level: bool,
}

/// Mipmaps: arrays of halving sizes.
pub struct Mipmaps {
    pub handle: Handle,
    pub levels: Vec<Arc<Array>>,
    descriptor: Descriptor3d,
}

/// Sizes in bytes and rows.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub row: u64,
    pub rows: u64,
    pub slices: u64,
}

/// `CUDA_ARRAY_DESCRIPTOR`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    pub width: u64,
    pub height: u64,
    pub format: u32,
    pub channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor3d {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub format: u32,
    pub channels: u32,
    pub flags: u32,
}

/// `CUDA_ARRAY_MEMORY_REQUIREMENTS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Requirements {
    size: u64,
    align: u64,
    reserved: [u32; 4],
}

/// Bytes of a channel of a `CUarray_format`.
pub fn format_bytes(format: u32) -> Res<u64> {
    Ok(match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => return Err(CuError::NOT_SUPPORTED),
    })
}

const LAYERED: u32 = 1;
const CUBE: u32 = 4;

impl Descriptor3d {
    /// Bytes of a texel.
    pub fn texel(&self) -> Res<u64> {
        if !matches!(self.channels, 1 | 2 | 4) {
            return Err(CuError::INVALID_VALUE);
        }
        Ok(format_bytes(self.format)? * u64::from(self.channels))
    }

    fn shape(&self) -> Res<Shape> {
        let texel = self.texel()?;
        if self.width == 0
            || [self.width, self.height, self.depth]
                .iter()
                .any(|n| *n > 1 << 28)
        {
            return Err(CuError::INVALID_VALUE);
        }
        Ok(Shape {
            row: self.width * texel,
            rows: self.height.max(1),
            slices: self.depth.max(1),
        })
    }

    fn level(&self, level: u32) -> Self {
        let half = |n: u64| if n == 0 { 0 } else { (n >> level).max(1) };
        let layers = self.flags & (LAYERED | CUBE) != 0;
        Self {
            width: half(self.width),
            height: half(self.height),
            depth: if layers { self.depth } else { half(self.depth) },
            ..*self
        }
    }
}

impl Shape {
    fn bytes(&self) -> Res<u64> {
        let bytes = self
            .row
            .checked_mul(self.rows)
            .and_then(|n| n.checked_mul(self.slices));
        bytes.ok_or(CuError::OUT_OF_MEMORY)
    }
}

impl Array {
    fn create(descriptor: Descriptor3d, address: u64, level: bool) -> Res<Arc<Self>> {
        let shape = descriptor.shape()?;
        Ok(handle::create(|handle| Self {
            handle,
            descriptor,
            shape,
            address,
            level,
        }))
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Device address of the first texel.
    pub fn address(&self) -> u64 {
        self.address
    }
}

fn memory(len: u64) -> Res<u64> {
    let context = context::current()?;
    let request = Request {
        kind: Kind::Global,
        len,
        device: context.device,
        context: context.handle,
        flags: 0,
        owner: 0,
    };
    space::allocate(request, &[])
}

fn create(out: Out<Handle>, descriptor: Descriptor3d) -> Res {
    out.required()?;
    let address = memory(descriptor.shape()?.bytes()?)?;
    out.set(Array::create(descriptor, address, false)?.handle)
}

api! {
    fn cuArrayCreate_v2(array: Out<Handle>, descriptor: In<Descriptor>) {
        let Descriptor { width, height, format, channels } = descriptor.get()?;
        create(array, Descriptor3d { width, height, depth: 0, format, channels, flags: 0 })
    }

    fn cuArray3DCreate_v2(array: Out<Handle>, descriptor: In<Descriptor3d>) {
        create(array, descriptor.get()?)
    }

    fn cuArrayDestroy(array: Handle) {
        if handle::get::<Array>(array)?.level {
            return Err(CuError::INVALID_HANDLE);
        }
        if let Ok(context) = context::current() {
            let _ = crate::stream::wait_all(&context);
        }
        let array = handle::remove::<Array>(array)?;
        space::free(array.address, |_| true)
    }

    fn cuArrayGetDescriptor_v2(descriptor: Out<Descriptor>, array: Handle) {
        let Descriptor3d { width, height, format, channels, .. } = handle::get::<Array>(array)?.descriptor;
        descriptor.set(Descriptor { width, height, format, channels })
    }

    fn cuArray3DGetDescriptor_v2(descriptor: Out<Descriptor3d>, array: Handle) {
        descriptor.set(handle::get::<Array>(array)?.descriptor)
    }

    fn cuArrayGetMemoryRequirements(requirements: Out<Requirements>, array: Handle, device: i32) {
        crate::device::get(device)?;
        let size = handle::get::<Array>(array)?.shape.bytes()?;
        requirements.set(Requirements { size, align: 512, reserved: [0; 4] })
    }

    fn cuArrayGetPlane(_plane: Out<Handle>, array: Handle, _index: u32) {
        handle::get::<Array>(array)?;
        Err(CuError::INVALID_VALUE)
    }

    fn cuMipmappedArrayCreate(mipmaps: Out<Handle>, descriptor: In<Descriptor3d>, levels: u32) {
        mipmaps.required()?;
        let descriptor = descriptor.get()?;
        let largest = descriptor.width.max(descriptor.height).max(descriptor.depth).max(1);
        let count = levels.clamp(1, largest.ilog2() + 1);
        let shapes = (0..count).map(|level| descriptor.level(level).shape()?.bytes());
        let sizes = shapes.collect::<Res<Vec<u64>>>()?;
        let steps: Vec<u64> = sizes.iter().map(|size| size.next_multiple_of(512)).collect();
        let mut address = memory(steps.iter().sum())?;
        let mut made = Vec::new();
        for (level, step) in (0..count).zip(steps) {
            made.push(Array::create(descriptor.level(level), address, true)?);
            address += step;
        }
        mipmaps.set(handle::create(|handle| Mipmaps { handle, levels: made, descriptor }).handle)
    }

    fn cuMipmappedArrayGetLevel(array: Out<Handle>, mipmaps: Handle, level: u32) {
        let mipmaps = handle::get::<Mipmaps>(mipmaps)?;
        array.set(mipmaps.levels.get(level as usize).ok_or(CuError::INVALID_VALUE)?.handle)
    }

    fn cuMipmappedArrayGetMemoryRequirements(requirements: Out<Requirements>, mipmaps: Handle, device: i32) {
        crate::device::get(device)?;
        let mipmaps = handle::get::<Mipmaps>(mipmaps)?;
        let size = mipmaps.descriptor.shape()?.bytes()? * 2;
        requirements.set(Requirements { size, align: 512, reserved: [0; 4] })
    }

    fn cuMipmappedArrayDestroy(mipmaps: Handle) {
        if let Ok(context) = context::current() {
            let _ = crate::stream::wait_all(&context);
        }
        let mipmaps = handle::remove::<Mipmaps>(mipmaps)?;
        for level in &mipmaps.levels {
            let _ = handle::remove::<Array>(level.handle);
        }
        match mipmaps.levels.first() {
            Some(first) => space::free(first.address, |_| true),
            None => Ok(()),
        }
    }
}
