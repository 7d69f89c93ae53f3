//! Textures: `tex`, `tld4`, `txq`, `suq`.

mod query;
mod sample;

pub(super) use sample::Geometry;

use super::{Flow, LANES, Op, Slot, lanes};
use crate::arith::half::{F16, Half};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::fault::FaultKind;
use crate::launch::Class;
use crate::memory::textures::{Object, Sampler, Texture};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use r3_ptx::typed::Operand;
use sample::{At, NotMapped};
use std::sync::Arc;

/// Where the handle of a texture, sampler or surface is.
#[derive(Clone, Copy)]
pub(super) enum Handle {
    /// In a register.
    Slot(Slot),
    /// In the 8 bytes of a module's `.texref`, `.samplerref` or `.surfref` variable, whose address is in the slot.
    Variable(Slot),
}

impl Handle {
    /// Decodes the operand.
    pub fn decode(d: &mut Decoder<'_>, operand: Operand) -> Result<Self, Unsupported> {
        match operand {
            Operand::MemorySymbol(symbol, offset) | Operand::Address(symbol, offset) => {
                let value = Operand::Address(symbol, offset);
                Ok(Self::Variable(d.src_of::<u64>(value)?))
            }
            Operand::MemoryRegister(register, 0) => {
                Ok(Self::Slot(d.src_of::<u64>(Operand::Register(register))?))
            }
            operand => Ok(Self::Slot(d.src_of::<u64>(operand)?)),
        }
    }

    /// The handle of a lane.
    pub fn lane(self, warp: &mut Warp, hint: usize, lane: usize) -> Result<u64, Flow> {
        match self {
            Self::Slot(slot) => Ok(warp.lane::<u64>(slot, lane)),
            Self::Variable(slot) => {
                let address = warp.lane::<u64>(slot, lane);
                let mut bytes = [0; 8];
                if !warp.view().read(hint, address, &mut bytes) {
                    return Err(not_mapped(warp, lane, address, 8, false));
                }
                Ok(u64::from_le_bytes(bytes))
            }
        }
    }
}

#[cold]
pub(super) fn not_mapped(
    warp: &mut Warp,
    lane: usize,
    address: u64,
    len: u32,
    write: bool,
) -> Flow {
    let nearby = warp.view().nearby(address);
    warp.fault(
        lane,
        FaultKind::OutOfBounds {
            space: "global",
            address,
            len,
            write,
            nearby,
        },
    )
}

/// A handle that stands for nothing, or for something else.
#[cold]
pub(super) fn bad_handle(warp: &mut Warp, lane: usize, handle: u64, wanted: &str) -> Flow {
    warp.fault(
        lane,
        FaultKind::Invalid(format!("{handle:#x} is no handle of a {wanted}")),
    )
}

fn texture(warp: &mut Warp, lane: usize, handle: u64) -> Result<Arc<Texture>, Flow> {
    match warp.view().memory().object(handle) {
        Some(Object::Texture(texture)) => Ok(texture),
        _ => Err(bad_handle(warp, lane, handle, "texture")),
    }
}

fn sampler(warp: &mut Warp, lane: usize, handle: u64) -> Result<Sampler, Flow> {
    match warp.view().memory().object(handle) {
        Some(Object::Sampler(sampler)) => Ok(*sampler),
        Some(Object::Texture(texture)) => Ok(texture.sampler),
        _ => Err(bad_handle(warp, lane, handle, "sampler")),
    }
}

/// The geometry that a mnemonic names.
pub(super) fn geometry(mnemonic: &Mnemonic) -> Result<Geometry, Unsupported> {
    let of = |dimensions, array, cube| {
        Ok(Geometry {
            dimensions,
            array,
            cube,
        })
    };
    let word = mnemonic.any_of(&[
        Word::D1,
        Word::D2,
        Word::D3,
        Word::A1d,
        Word::A2d,
        Word::Cube,
        Word::Acube,
    ]);
    match word {
        Some(Word::D1) => of(1, false, false),
        Some(Word::D2) => of(2, false, false),
        Some(Word::D3) => of(3, false, false),
        Some(Word::A1d) => of(1, true, false),
        Some(Word::A2d) => of(2, true, false),
        Some(Word::Cube) => of(2, false, true),
        Some(Word::Acube) => of(2, true, true),
        _ => Err(Unsupported::new("texture of this geometry (multisampled?)")),
    }
}

/// The record of a fetch. `op.list`: coordinates (32 bits), then level or gradients, then offsets; then destinations.
struct How {
    texture: Handle,
    sampler: Option<Handle>,
    geometry: Geometry,
    integer: bool,
    coordinates: Vec<Slot>,
    level: Option<Slot>,
    gradients: Vec<Slot>,
    offsets: Vec<Slot>,
    /// `tld4`: the channel.
    gather: Option<usize>,
    to: Vec<Slot>,
    ty: ScalarType,
    resident: Option<Slot>,
}

fn fetch(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let how = warp.data::<How>(op);
    let hint = op.instruction as usize;
    let mut out = [[0u32; LANES]; 4];
    let mut last: Option<(u64, Arc<Texture>)> = None;
    for lane in lanes(mask) {
        let handle = how.texture.lane(warp, hint, lane)?;
        let found = match &last {
            Some((h, texture)) if *h == handle => texture.clone(),
            _ => texture(warp, lane, handle)?,
        };
        last = Some((handle, found.clone()));
        let sampler = match how.sampler {
            Some(s) => {
                let handle = s.lane(warp, hint, lane)?;
                sampler(warp, lane, handle)?
            }
            None => found.sampler,
        };
        let at = place(warp, how, lane);
        let level = match how.level {
            Some(slot) => f32::from_bits(warp.lane::<u32>(slot, lane)),
            None => level_of(warp, how, &found, lane),
        };
        let image = &found.image;
        let texel = match how.gather {
            Some(channel) => sample::gather(
                warp.view(),
                hint,
                (image, &sampler),
                how.geometry,
                &at,
                channel,
            ),
            None => sample::sample(
                warp.view(),
                hint,
                (image, &sampler),
                how.geometry,
                &at,
                level,
            ),
        };
        match texel {
            Ok(texel) => {
                for (out, value) in out.iter_mut().zip(texel) {
                    out[lane] = value;
                }
            }
            Err(NotMapped(address)) => {
                return Err(not_mapped(warp, lane, address, image.texel_bytes(), false));
            }
        }
    }
    write(warp, how, mask, &out);
    Ok(())
}

/// Coordinates of a lane.
fn place(warp: &Warp, how: &How, lane: usize) -> At {
    let g = how.geometry;
    let raw = |i: usize| match how.coordinates.get(i) {
        Some(slot) => warp.lane::<u32>(*slot, lane),
        None => 0,
    };
    let first = usize::from(g.array);
    let mut layer = if g.array { raw(0) } else { 0 };
    let bits = [raw(first), raw(first + 1), raw(first + 2)];
    let mut float = bits.map(f32::from_bits);
    if g.cube {
        let (face, [s, t]) = sample::cube_face(float);
        layer = layer.saturating_mul(6).saturating_add(face);
        float = [s, t, 0.0];
    }
    let mut offset = [0; 3];
    for (offset, slot) in offset.iter_mut().zip(&how.offsets) {
        *offset = warp.lane::<u32>(*slot, lane) as i32;
    }
    At {
        float,
        int: bits.map(|b| b as i32),
        integer: how.integer,
        layer,
        offset,
    }
}

/// The level that gradients ask for: the longer one spans one texel of it.
fn level_of(warp: &Warp, how: &How, texture: &Texture, lane: usize) -> f32 {
    let n = how.gradients.len() / 2;
    let Some(level) = texture.image.levels.first() else {
        return 0.0;
    };
    if n == 0 {
        return 0.0;
    }
    let sizes = [level.width, level.height, level.depth];
    let length = |slots: &[Slot]| {
        let parts = slots.iter().zip(sizes).map(|(slot, size)| {
            let size = if texture.sampler.normalized {
                size as f32
            } else {
                1.0
            };
            f32::from_bits(warp.lane::<u32>(*slot, lane)) * size
        });
        parts.map(|p| p * p).sum::<f32>().sqrt()
    };
    let (x, y) = how.gradients.split_at(n);
    length(x).max(length(y)).log2().max(0.0)
}

/// Writes the four channels, or as many as are wanted, in the type that is wanted.
fn write(warp: &mut Warp, how: &How, mask: u32, out: &[[u32; LANES]; 4]) {
    let half = |bits: u32| F16::narrow(f32::from_bits(bits));
    for (i, slot) in how.to.iter().enumerate() {
        match how.ty {
            ScalarType::F16 => {
                let values = out[i % 4].map(half);
                warp.put(*slot, mask, &values);
            }
            ScalarType::F16x2 => {
                let (low, high) = (out[i * 2 % 4], out[(i * 2 + 1) % 4]);
                let pair = |l: usize| u32::from(half(low[l])) | u32::from(half(high[l])) << 16;
                let values: [u32; LANES] = std::array::from_fn(pair);
                warp.put(*slot, mask, &values);
            }
            _ => warp.put(*slot, mask, &out[i % 4]),
        }
    }
    if let Some(slot) = how.resident {
        warp.set_predicate(slot, mask, mask);
    }
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        Opcode::Tex | Opcode::Tld4 => Some(decode_fetch(d, mnemonic)),
        Opcode::Txq | Opcode::Suq => Some(query::decode(d, mnemonic)),
        _ => None,
    }
}

/// Parts of the operand in brackets: texture, sampler if there is one, coordinates.
pub(super) fn parts(
    d: &mut Decoder<'_>,
    operand: Operand,
) -> Result<(Handle, Option<Handle>, Vec<Slot>), Unsupported> {
    let elements = d.elements(operand);
    let (first, sampler, coordinates) = match elements.as_slice() {
        [t, c] => (*t, None, *c),
        [t, s, c] => (*t, Some(*s), *c),
        _ => return Err(Unsupported::new("texture operand of this form")),
    };
    let handle = Handle::decode(d, first)?;
    let sampler = match sampler {
        Some(s) => Some(Handle::decode(d, s)?),
        None => None,
    };
    Ok((handle, sampler, words(d, coordinates)?))
}

/// Slots of a vector of 32-bit values.
fn words(d: &mut Decoder<'_>, operand: Operand) -> Result<Vec<Slot>, Unsupported> {
    let elements = d.elements(operand);
    elements.into_iter().map(|e| d.src_of::<u32>(e)).collect()
}

fn decode_fetch(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let geometry = geometry(mnemonic)?;
    let (texture, sampler, coordinates) = {
        let operand = d.operand(1)?;
        parts(d, operand)?
    };
    let types = mnemonic.types();
    let &[ty, coordinate] = types else {
        return Err(Unsupported::new("texture fetch without two types"));
    };
    let mut next = 2;
    let mut level = None;
    let mut gradients = Vec::new();
    if mnemonic.has(Word::Level) {
        level = Some(d.src::<u32>(next)?);
        next += 1;
    }
    if mnemonic.has(Word::Grad) {
        for _ in 0..2 {
            let operand = d.operand(next)?;
            let mut slots = words(d, operand)?;
            slots.truncate(geometry.dimensions as usize);
            gradients.append(&mut slots);
            next += 1;
        }
    }
    let mut offsets = Vec::new();
    if d.operand_count() > next {
        let operand = d.operand(next)?;
        if d.elements(operand).len() < geometry.dimensions as usize {
            return Err(Unsupported::new("depth comparison of a texture"));
        }
        offsets = words(d, operand)?;
    }
    let (target, resident) = match d.operand(0)? {
        pair @ Operand::Pair(_) => match d.elements(pair).as_slice() {
            [to, resident] => (*to, Some(d.dst_predicate_of(*resident)?)),
            _ => return Err(Unsupported::new("texture destination of this form")),
        },
        operand => (operand, None),
    };
    let mut to = Vec::new();
    for element in d.elements(target) {
        to.push(match ty {
            ScalarType::F16 => d.dst_of::<u16>(element)?,
            _ => d.dst_of::<u32>(element)?,
        });
    }
    let gather = match mnemonic.opcode() {
        Opcode::Tld4 => Some(
            match mnemonic.any_of(&[Word::R, Word::G, Word::B, Word::A]) {
                Some(Word::G) => 1,
                Some(Word::B) => 2,
                Some(Word::A) => 3,
                _ => 0,
            },
        ),
        _ => None,
    };
    let mut op = d.whole(Class::Texture, |warp, op, mask| {
        match fetch(warp, op, mask) {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    });
    let how = How {
        texture,
        sampler,
        geometry,
        integer: coordinate == ScalarType::S32,
        coordinates,
        level,
        gradients,
        offsets,
        gather,
        to,
        ty,
        resident,
    };
    d.record(&mut op, how);
    Ok(op)
}
