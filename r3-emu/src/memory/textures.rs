//! Textures, samplers and surfaces: what their handles stand for.
//!
//! Texels lie in ordinary device memory, row by row: an array of the driver is a mapping of it, of a layout that this device
//! chooses. Numbers of enums are those of `cuda.h`.

use super::Memory;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// Format of a channel: `CUarray_format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// 8 bits, unsigned.
    U8,
    /// 16 bits, unsigned.
    U16,
    /// 32 bits, unsigned.
    U32,
    /// 8 bits, signed.
    S8,
    /// 16 bits, signed.
    S16,
    /// 32 bits, signed.
    S32,
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

impl Format {
    /// From a `CUarray_format`; `None` for the compressed, packed and video formats.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0x01 => Self::U8,
            0x02 => Self::U16,
            0x03 => Self::U32,
            0x08 => Self::S8,
            0x09 => Self::S16,
            0x0a => Self::S32,
            0x10 => Self::F16,
            0x20 => Self::F32,
            _ => return None,
        })
    }

    /// Bytes of a channel.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            _ => 4,
        }
    }

    /// Whether values are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32)
    }
}

/// One level of an image: all but the first are of mipmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Address of the first texel.
    pub address: u64,
    /// Texels in a row.
    pub width: u32,
    /// Rows; 0 in one dimension.
    pub height: u32,
    /// Slices of three dimensions; else 0.
    pub depth: u32,
    /// Bytes from row to row.
    pub row_pitch: u64,
    /// Bytes from slice to slice, or from layer to layer (a cube has six).
    pub slice_pitch: u64,
}

/// Texels in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Format of a channel.
    pub format: Format,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// Layers of an array; 0 where there are none. Of cubes: faces of all cubes.
    pub layers: u32,
    /// Linear memory without filtering: texels outside are 0.
    pub linear: bool,
    /// Levels, the biggest first.
    pub levels: Vec<Level>,
}

impl Image {
    /// Bytes of a texel.
    pub fn texel_bytes(&self) -> u32 {
        self.format.bytes() * self.channels
    }
}

/// `CUaddress_mode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressMode {
    /// The image repeats (normalised coordinates only).
    Wrap,
    /// The texel at the edge.
    #[default]
    Clamp,
    /// The image repeats, every other time mirrored (normalised coordinates only).
    Mirror,
    /// The border colour.
    Border,
}

impl AddressMode {
    /// From the number in `cuda.h`.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Wrap,
            1 => Self::Clamp,
            2 => Self::Mirror,
            3 => Self::Border,
            _ => return None,
        })
    }
}

/// How an image is read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampler {
    /// Of x, y and z.
    pub address: [AddressMode; 3],
    /// Interpolates between texels.
    pub linear: bool,
    /// Coordinates go from 0 to 1.
    pub normalized: bool,
    /// Integers of 8 and 16 bits are read as numbers from 0 (or -1) to 1.
    pub normalized_float: bool,
    /// The first three channels are in sRGB.
    pub srgb: bool,
    /// Outside the image with [`AddressMode::Border`].
    pub border: [f32; 4],
    /// Interpolates between levels.
    pub mip_linear: bool,
    /// Added to the level.
    pub mip_bias: f32,
    /// Smallest and biggest level.
    pub mip_clamp: [f32; 2],
}

/// An image with the way to read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Texture {
    /// The texels.
    pub image: Image,
    /// How they are read; an instruction with a sampler operand uses that one.
    pub sampler: Sampler,
}

/// What a handle stands for.
#[derive(Clone, Debug)]
pub enum Object {
    /// For `tex`.
    Texture(Arc<Texture>),
    /// For `tex` with a sampler of its own.
    Sampler(Arc<Sampler>),
    /// For `suld`, `sust`, `sured`.
    Surface(Arc<Image>),
}

/// Handles of a device.
#[derive(Debug, Default)]
pub(super) struct Handles {
    objects: BTreeMap<u64, Object>,
    last: u64,
}

impl Memory {
    /// Gives an object a new handle. Never 0.
    pub fn add_object(&self, object: Object) -> u64 {
        let mut handles = self
            .inner
            .handles
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        while handles.last == 0 || handles.objects.contains_key(&handles.last) {
            handles.last += 1;
        }
        let handle = handles.last;
        handles.objects.insert(handle, object);
        handle
    }

    /// Gives an object the handle it had when it was captured.
    pub fn set_object(&self, handle: u64, object: Object) {
        let mut handles = self
            .inner
            .handles
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        handles.objects.insert(handle, object);
    }

    /// Takes a handle away; whether there was one.
    pub fn remove_object(&self, handle: u64) -> bool {
        let mut handles = self
            .inner
            .handles
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        handles.objects.remove(&handle).is_some()
    }

    /// What a handle stands for.
    pub fn object(&self, handle: u64) -> Option<Object> {
        let handles = self
            .inner
            .handles
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        handles.objects.get(&handle).cloned()
    }
}
