//! Textures and surfaces: objects, and the references of older programs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use r3_emu::memory::textures::{AddressMode, Format, Image, Level, Object, Sampler, Texture};

use crate::api::{In, Out, Text, api};
use crate::array::{Array, Mipmaps};
use crate::context::{self, Context};
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::module::Module;
use crate::process::lock;

/// `CUDA_RESOURCE_DESC`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Resource {
    pub kind: u32,
    pub padding: u32,
    pub value: ResourceValue,
    pub flags: u64,
}

/// The member for linear and pitched memory; arrays have their handle in the place of the address.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ResourceValue {
    address: u64,
    format: u32,
    channels: u32,
    /// Bytes of linear memory, width of pitched memory.
    size: u64,
    height: u64,
    pitch: u64,
    rest: [u64; 11],
}

/// `CUDA_TEXTURE_DESC`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Description {
    pub address: [u32; 3],
    pub filter: u32,
    pub flags: u32,
    pub anisotropy: u32,
    pub mip_filter: u32,
    pub mip_bias: f32,
    pub mip_clamp: [f32; 2],
    pub border: [f32; 4],
    pub reserved: [u32; 12],
}

/// `CUDA_RESOURCE_VIEW_DESC`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    pub format: u32,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub first_level: u32,
    pub last_level: u32,
    pub first_layer: u32,
    pub last_layer: u32,
    pub reserved: [u32; 16],
}

const ARRAY: u32 = 0;
const MIPMAPS: u32 = 1;
const LINEAR: u32 = 2;
const PITCHED: u32 = 3;

const READ_AS_INTEGER: u32 = 1;
const NORMALIZED: u32 = 2;
const SRGB: u32 = 0x10;

const LAYERED: u32 = 1;
const CUBE: u32 = 4;

fn small(n: u64) -> Res<u32> {
    u32::try_from(n).map_err(|_| CuError::INVALID_VALUE)
}

fn level(array: &Array) -> Res<Level> {
    let (descriptor, shape) = (&array.descriptor, array.shape());
    let layered = descriptor.flags & (LAYERED | CUBE) != 0;
    Ok(Level {
        address: array.address(),
        width: small(descriptor.width)?,
        height: small(descriptor.height)?,
        depth: if layered { 0 } else { small(descriptor.depth)? },
        row_pitch: shape.row,
        slice_pitch: shape.row * shape.rows,
    })
}

fn image_of(arrays: &[Arc<Array>]) -> Res<Image> {
    let descriptor = arrays.first().ok_or(CuError::INVALID_VALUE)?.descriptor;
    let layered = descriptor.flags & (LAYERED | CUBE) != 0;
    Ok(Image {
        format: Format::from_number(descriptor.format).ok_or(CuError::NOT_SUPPORTED)?,
        channels: descriptor.channels,
        layers: if layered {
            small(descriptor.depth.max(1))?
        } else {
            0
        },
        linear: false,
        levels: arrays
            .iter()
            .map(|array| level(array))
            .collect::<Res<_>>()?,
    })
}

impl Resource {
    fn image(&self) -> Res<Image> {
        let value = &self.value;
        match self.kind {
            ARRAY => image_of(&[handle::get(value.address)?]),
            MIPMAPS => image_of(&handle::get::<Mipmaps>(value.address)?.levels),
            LINEAR | PITCHED => {
                let format = Format::from_number(value.format).ok_or(CuError::INVALID_VALUE)?;
                if !matches!(value.channels, 1 | 2 | 4) {
                    return Err(CuError::INVALID_VALUE);
                }
                let texel = u64::from(format.bytes() * value.channels);
                let linear = self.kind == LINEAR;
                let (width, height, pitch) = if linear {
                    (value.size / texel, 0, value.size)
                } else {
                    (value.size, value.height, value.pitch)
                };
                let bytes = if linear {
                    value.size
                } else {
                    pitch.checked_mul(height).ok_or(CuError::INVALID_VALUE)?
                };
                crate::space::spans(value.address, bytes, true)?;
                let level = Level {
                    address: value.address,
                    width: small(width)?,
                    height: small(height)?,
                    depth: 0,
                    row_pitch: pitch,
                    slice_pitch: bytes,
                };
                Ok(Image {
                    format,
                    channels: value.channels,
                    layers: 0,
                    linear,
                    levels: vec![level],
                })
            }
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    fn array(array: Handle) -> Self {
        let value = ResourceValue {
            address: array,
            format: 0,
            channels: 0,
            size: 0,
            height: 0,
            pitch: 0,
            rest: [0; 11],
        };
        Self {
            kind: ARRAY,
            padding: 0,
            value,
            flags: 0,
        }
    }
}

impl Description {
    fn sampler(&self) -> Res<Sampler> {
        let mode = |number| AddressMode::from_number(number).ok_or(CuError::INVALID_VALUE);
        if self.filter > 1 || self.mip_filter > 1 {
            return Err(CuError::INVALID_VALUE);
        }
        let [x, y, z] = self.address;
        Ok(Sampler {
            address: [mode(x)?, mode(y)?, mode(z)?],
            linear: self.filter == 1,
            normalized: self.flags & NORMALIZED != 0,
            normalized_float: self.flags & READ_AS_INTEGER == 0,
            srgb: self.flags & SRGB != 0,
            border: self.border,
            mip_linear: self.mip_filter == 1,
            mip_bias: self.mip_bias,
            mip_clamp: self.mip_clamp,
        })
    }
}

/// What an object was made of.
#[derive(Clone, Copy)]
struct Made {
    resource: Resource,
    description: Description,
    view: Option<View>,
}

/// By device and object.
static MADE: Mutex<BTreeMap<(i32, u64), Made>> = Mutex::new(BTreeMap::new());

fn create(out: Out<u64>, object: Object, made: Made) -> Res {
    out.required()?;
    let device = context::current()?.device;
    let handle = device.memory.add_object(object);
    lock(&MADE).insert((device.ordinal, handle), made);
    out.set(handle)
}

fn made(object: u64) -> Res<Made> {
    let device = context::current()?.device.ordinal;
    lock(&MADE)
        .get(&(device, object))
        .copied()
        .ok_or(CuError::INVALID_VALUE)
}

fn destroy(object: u64) -> Res {
    let device = context::current()?.device;
    lock(&MADE)
        .remove(&(device.ordinal, object))
        .ok_or(CuError::INVALID_VALUE)?;
    device.memory.remove_object(object);
    Ok(())
}

/// A texture or surface reference of a module: a variable that holds an object's handle.
pub struct Reference {
    pub handle: Handle,
    context: Arc<Context>,
    variable: u64,
    surface: bool,
    state: Mutex<ReferenceState>,
}

#[derive(Clone, Copy)]
struct ReferenceState {
    resource: Option<Resource>,
    description: Description,
    format: (u32, u32),
    object: u64,
}

impl Reference {
    fn of(module: Handle, name: Text, surface: bool) -> Res<Arc<Self>> {
        let module = handle::get::<Module>(module)?;
        let (variable, _) = module.global(name.get()?)?;
        let context = module.context()?;
        let state = ReferenceState {
            resource: None,
            description: Description {
                address: [1; 3],
                ..Description::default()
            },
            format: (0x20, 1),
            object: 0,
        };
        Ok(handle::create(|handle| Self {
            handle,
            context,
            variable,
            surface,
            state: Mutex::new(state),
        }))
    }

    /// Changes something, and puts the new object into the variable.
    fn change(&self, change: impl FnOnce(&mut ReferenceState)) -> Res {
        let mut state = lock(&self.state);
        change(&mut state);
        let Some(resource) = state.resource else {
            return Ok(());
        };
        let memory = &self.context.device.memory;
        let image = resource.image()?;
        let object = if self.surface {
            Object::Surface(Arc::new(image))
        } else {
            Object::Texture(Arc::new(Texture {
                image,
                sampler: state.description.sampler()?,
            }))
        };
        if state.object != 0 {
            memory.remove_object(state.object);
        }
        state.object = memory.add_object(object);
        memory
            .write(self.variable, &state.object.to_le_bytes())
            .map_err(|_| CuError::INVALID_VALUE)
    }
}

fn change(reference: Handle, edit: impl FnOnce(&mut ReferenceState)) -> Res {
    handle::get::<Reference>(reference)?.change(edit)
}

fn memory_resource(
    state: &ReferenceState,
    kind: u32,
    address: u64,
    size: u64,
    height: u64,
    pitch: u64,
) -> Resource {
    let (format, channels) = state.format;
    let value = ResourceValue {
        address,
        format,
        channels,
        size,
        height,
        pitch,
        rest: [0; 11],
    };
    Resource {
        kind,
        padding: 0,
        value,
        flags: 0,
    }
}

api! {
    fn cuTexObjectCreate(object: Out<u64>, resource: In<Resource>, description: In<Description>, view: In<View>) {
        let resource = resource.get()?;
        let description = description.get()?;
        let view = if view.is_null() { None } else { Some(view.get()?) };
        let texture = Texture { image: resource.image()?, sampler: description.sampler()? };
        create(object, Object::Texture(Arc::new(texture)), Made { resource, description, view })
    }

    fn cuTexObjectDestroy(object: u64) {
        destroy(object)
    }

    fn cuTexObjectGetResourceDesc(resource: Out<Resource>, object: u64) {
        resource.set(made(object)?.resource)
    }

    fn cuTexObjectGetTextureDesc(description: Out<Description>, object: u64) {
        description.set(made(object)?.description)
    }

    fn cuTexObjectGetResourceViewDesc(view: Out<View>, object: u64) {
        view.set(made(object)?.view.ok_or(CuError::INVALID_VALUE)?)
    }

    fn cuSurfObjectCreate(object: Out<u64>, resource: In<Resource>) {
        let resource = resource.get()?;
        if resource.kind != ARRAY {
            return Err(CuError::INVALID_VALUE);
        }
        let surface = Object::Surface(Arc::new(resource.image()?));
        create(object, surface, Made { resource, description: Description::default(), view: None })
    }

    fn cuSurfObjectDestroy(object: u64) {
        destroy(object)
    }

    fn cuSurfObjectGetResourceDesc(resource: Out<Resource>, object: u64) {
        resource.set(made(object)?.resource)
    }

    fn cuModuleGetTexRef(reference: Out<Handle>, module: Handle, name: Text) {
        reference.required()?;
        reference.set(Reference::of(module, name, false)?.handle)
    }

    fn cuModuleGetSurfRef(reference: Out<Handle>, module: Handle, name: Text) {
        reference.required()?;
        reference.set(Reference::of(module, name, true)?.handle)
    }

    fn cuTexRefSetArray(reference: Handle, array: Handle, _flags: u32) {
        handle::get::<Array>(array)?;
        change(reference, |state| state.resource = Some(Resource::array(array)))
    }

    fn cuTexRefSetMipmappedArray(reference: Handle, mipmaps: Handle, _flags: u32) {
        handle::get::<Mipmaps>(mipmaps)?;
        change(reference, |state| state.resource = Some(Resource { kind: MIPMAPS, ..Resource::array(mipmaps) }))
    }

    fn cuSurfRefSetArray(reference: Handle, array: Handle, _flags: u32) {
        handle::get::<Array>(array)?;
        change(reference, |state| state.resource = Some(Resource::array(array)))
    }

    fn cuTexRefSetAddress_v2(offset: Out<usize>, reference: Handle, address: u64, len: usize) {
        change(reference, |state| state.resource = Some(memory_resource(state, LINEAR, address, len as u64, 0, 0)))?;
        offset.set_if_wanted(0);
        Ok(())
    }

    fn cuTexRefSetAddress2D_v3(reference: Handle, descriptor: In<[u64; 3]>, address: u64, pitch: usize) {
        let [width, height, format] = descriptor.get()?;
        change(reference, |state| {
            state.format = (format as u32, (format >> 32) as u32);
            state.resource = Some(memory_resource(state, PITCHED, address, width, height, pitch as u64));
        })
    }

    fn cuTexRefSetFormat(reference: Handle, format: u32, channels: i32) {
        change(reference, |state| {
            state.format = (format, channels.unsigned_abs());
            if let Some(resource) = &mut state.resource {
                (resource.value.format, resource.value.channels) = state.format;
            }
        })
    }

    fn cuTexRefSetAddressMode(reference: Handle, dimension: i32, mode: u32) {
        let index = usize::try_from(dimension).ok().filter(|index| *index < 3).ok_or(CuError::INVALID_VALUE)?;
        change(reference, |state| state.description.address[index] = mode)
    }

    fn cuTexRefSetFilterMode(reference: Handle, mode: u32) {
        change(reference, |state| state.description.filter = mode)
    }

    fn cuTexRefSetMipmapFilterMode(reference: Handle, mode: u32) {
        change(reference, |state| state.description.mip_filter = mode)
    }

    fn cuTexRefSetMipmapLevelBias(reference: Handle, bias: f32) {
        change(reference, |state| state.description.mip_bias = bias)
    }

    fn cuTexRefSetMipmapLevelClamp(reference: Handle, least: f32, most: f32) {
        change(reference, |state| state.description.mip_clamp = [least, most])
    }

    fn cuTexRefSetMaxAnisotropy(reference: Handle, anisotropy: u32) {
        change(reference, |state| state.description.anisotropy = anisotropy)
    }

    fn cuTexRefSetBorderColor(reference: Handle, color: In<[f32; 4]>) {
        let color = color.get()?;
        change(reference, |state| state.description.border = color)
    }

    fn cuTexRefSetFlags(reference: Handle, flags: u32) {
        change(reference, |state| state.description.flags = flags)
    }

    fn cuTexRefGetFlags(flags: Out<u32>, reference: Handle) {
        flags.set(lock(&handle::get::<Reference>(reference)?.state).description.flags)
    }

    fn cuParamSetTexRef(_function: Handle, _unit: i32, reference: Handle) {
        handle::get::<Reference>(reference).map(drop)
    }
}
