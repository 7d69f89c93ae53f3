//! Surfaces: `suld`, `sust`, `sured`.
//!
//! `.b` forms address bytes in a row, `.p` forms texels, which they convert. Outside the surface: a fault (`.trap`), the nearest
//! place (`.clamp`), or zeros and nothing written (`.zero`).

use super::atomic::{Function, RmwWord, function};
use super::texture::{Geometry, Handle, bad_handle, geometry, not_mapped, parts};
use super::{Flow, LANES, Op, Slot, lanes};
use crate::arith::half::{F16, Half};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::fault::FaultKind;
use crate::launch::Class;
use crate::memory::textures::{Format, Image, Object};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use std::sync::Arc;

/// What happens outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outside {
    Trap,
    Clamp,
    Zero,
}

/// What an instruction does.
#[derive(Clone, Copy)]
enum What {
    Load,
    Store,
    Reduce(Function),
}

/// The record of an op.
struct How {
    surface: Handle,
    geometry: Geometry,
    coordinates: Vec<Slot>,
    /// Texels, not bytes.
    formatted: bool,
    outside: Outside,
    what: What,
    /// Bytes of an element.
    bytes: u32,
    /// Destinations or sources.
    elements: Vec<Slot>,
}

fn run(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let how = warp.data::<How>(op);
    let hint = op.instruction as usize;
    let mut loaded = vec![[0u64; LANES]; how.elements.len()];
    for lane in lanes(mask) {
        let handle = how.surface.lane(warp, hint, lane)?;
        let image = match warp.view().memory().object(handle) {
            Some(Object::Surface(image)) => image,
            _ => return Err(bad_handle(warp, lane, handle, "surface")),
        };
        let len = if how.formatted && !matches!(how.what, What::Reduce(_)) {
            image.texel_bytes()
        } else {
            how.bytes * how.elements.len() as u32
        };
        let Some(address) = locate(warp, how, &image, lane, len)? else {
            continue;
        };
        match how.what {
            What::Load => {
                let mut bytes = [0u8; 32];
                let bytes = &mut bytes[..len.min(32) as usize];
                if !warp.view().read(hint, address, bytes) {
                    return Err(not_mapped(warp, lane, address, len, false));
                }
                for (out, raw) in loaded
                    .iter_mut()
                    .zip(bytes.chunks_exact(how.bytes as usize))
                {
                    out[lane] = raw.iter().rev().fold(0, |a, b| a << 8 | u64::from(*b));
                }
            }
            What::Store => {
                let mut bytes = Vec::with_capacity(32);
                if how.formatted {
                    for i in 0..image.channels as usize {
                        let slot = how.elements.get(i).copied();
                        let bits = slot.map_or(0, |slot| warp.lane::<u32>(slot, lane));
                        let raw = encode(image.format, bits).to_le_bytes();
                        bytes.extend_from_slice(&raw[..image.format.bytes() as usize]);
                    }
                } else {
                    for slot in &how.elements {
                        let raw = value(warp, *slot, lane, how.bytes).to_le_bytes();
                        bytes.extend_from_slice(&raw[..how.bytes as usize]);
                    }
                }
                if !warp.view().write(hint, address, &bytes) {
                    return Err(not_mapped(warp, lane, address, len, true));
                }
            }
            What::Reduce(f) => {
                let Some(at) = warp.view().locate(hint, address, u64::from(len)) else {
                    return Err(not_mapped(warp, lane, address, len, true));
                };
                if !address.is_multiple_of(u64::from(len)) {
                    return Err(misaligned(warp, lane, address, len));
                }
                let b = how
                    .elements
                    .first()
                    .map_or(0, |slot| value(warp, *slot, lane, how.bytes));
                // SAFETY: mapped and aligned as just checked.
                unsafe {
                    if how.bytes == 8 {
                        u64::update(at, |a| f(a, b, 0));
                    } else {
                        u32::update(at, |a| f(a, b, 0));
                    }
                }
            }
        }
    }
    if let What::Load = how.what {
        for (slot, values) in how.elements.iter().zip(&loaded) {
            match how.bytes {
                1 | 2 => warp.put(*slot, mask, &values.map(|v| v as u16)),
                4 => warp.put(*slot, mask, &values.map(|v| v as u32)),
                _ => warp.put(*slot, mask, values),
            }
        }
    }
    Ok(())
}

fn value(warp: &Warp, slot: Slot, lane: usize, bytes: u32) -> u64 {
    match bytes {
        1 | 2 => u64::from(warp.lane::<u16>(slot, lane)),
        4 => u64::from(warp.lane::<u32>(slot, lane)),
        _ => warp.lane::<u64>(slot, lane),
    }
}

#[cold]
fn misaligned(warp: &mut Warp, lane: usize, address: u64, align: u32) -> Flow {
    warp.fault(
        lane,
        FaultKind::Misaligned {
            space: "surface",
            address,
            align,
        },
    )
}

/// Address of a lane's `len` bytes; `None`: outside, and nothing is to be done.
fn locate(
    warp: &mut Warp,
    how: &How,
    image: &Arc<Image>,
    lane: usize,
    len: u32,
) -> Result<Option<u64>, Flow> {
    let Some(level) = image.levels.first() else {
        return Ok(None);
    };
    let g = how.geometry;
    let raw = |i: usize| match how.coordinates.get(i) {
        Some(slot) => i64::from(warp.lane::<u32>(*slot, lane) as i32),
        None => 0,
    };
    let first = usize::from(g.array);
    let layer = if g.array { raw(0) } else { 0 };
    let texel = i64::from(image.texel_bytes());
    let unit = if how.formatted { texel } else { 1 };
    let mut at = [raw(first) * unit, raw(first + 1), raw(first + 2)];
    // In bytes along a row, so that an access lies wholly inside.
    let row = i64::from(level.width) * texel;
    let ends = [
        row - i64::from(len),
        i64::from(level.height) - 1,
        i64::from(level.depth) - 1,
    ];
    let inside = |d: usize| (0..=ends[d]).contains(&at[d]);
    let dimensions = g.dimensions as usize;
    let layers = i64::from(image.layers.max(1));
    let ok = (0..dimensions).all(inside) && (0..layers).contains(&layer);
    let mut layer = layer;
    if !ok {
        match how.outside {
            Outside::Zero => return Ok(None),
            Outside::Clamp => {
                for d in 0..dimensions {
                    at[d] = at[d].clamp(0, ends[d].max(0));
                }
                layer = layer.clamp(0, layers - 1);
            }
            Outside::Trap => {
                let text = format!(
                    "coordinates {:?}, layer {layer}, in a surface of {} x {} x {} texels of {texel} bytes, {} layers",
                    &at[..dimensions],
                    level.width,
                    level.height,
                    level.depth,
                    image.layers
                );
                let kind = FaultKind::OutOfBounds {
                    space: "surface",
                    address: at[0] as u64,
                    len,
                    write: !matches!(how.what, What::Load),
                    nearby: Some(text),
                };
                return Err(warp.fault(lane, kind));
            }
        }
    }
    if at[0] % i64::from(how.bytes) != 0 && !how.formatted {
        return Err(misaligned(warp, lane, at[0] as u64, how.bytes));
    }
    let y = if dimensions > 1 { at[1] as u64 } else { 0 };
    let slice = match (g.array, dimensions) {
        (true, _) => layer as u64,
        (_, 3) => at[2] as u64,
        _ => 0,
    };
    let address = level
        .address
        .wrapping_add(at[0] as u64)
        .wrapping_add(y.wrapping_mul(level.row_pitch))
        .wrapping_add(slice.wrapping_mul(level.slice_pitch));
    Ok(Some(address))
}

/// A 32-bit value in the format of a channel. Integers are cut to the nearest that the format has.
fn encode(format: Format, bits: u32) -> u32 {
    match format {
        Format::F16 => u32::from(F16::narrow(f32::from_bits(bits))),
        Format::U8 => bits.min(0xff),
        Format::U16 => bits.min(0xffff),
        Format::S8 => (bits as i32).clamp(-0x80, 0x7f) as u32,
        Format::S16 => (bits as i32).clamp(-0x8000, 0x7fff) as u32,
        _ => bits,
    }
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        Opcode::Suld | Opcode::Sust | Opcode::Sured => Some(surface(d, mnemonic)),
        _ => None,
    }
}

fn surface(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let ty = mnemonic
        .ty()
        .ok_or_else(|| Unsupported::new("surface access without a type"))?;
    let loads = mnemonic.opcode() == Opcode::Suld;
    let what = match mnemonic.opcode() {
        Opcode::Suld => What::Load,
        Opcode::Sust => What::Store,
        _ => {
            // `.b32` and `.b64` of the formatted ones are unsigned.
            let ty = match ty {
                ScalarType::B32 => ScalarType::U32,
                ScalarType::B64 => ScalarType::U64,
                other => other,
            };
            let f = mnemonic.operation().and_then(|o| function(o, ty, false));
            What::Reduce(f.ok_or_else(|| Unsupported::new("reduction of this type"))?)
        }
    };
    let operand = d.operand(usize::from(loads))?;
    let (handle, sampler, coordinates) = parts(d, operand)?;
    if sampler.is_some() {
        return Err(Unsupported::new("surface operand of this form"));
    }
    let values = d.operand(usize::from(!loads))?;
    let mut elements = Vec::new();
    for element in d.elements(values) {
        elements.push(match (loads, ty.bytes()) {
            (true, 1 | 2) => d.dst_of::<u16>(element)?,
            (true, 4) => d.dst_of::<u32>(element)?,
            (true, _) => d.dst_of::<u64>(element)?,
            (false, 1 | 2) => d.src_of::<u16>(element)?,
            (false, 4) => d.src_of::<u32>(element)?,
            (false, _) => d.src_of::<u64>(element)?,
        });
    }
    let outside = match mnemonic.any_of(&[Word::Trap, Word::Clamp, Word::Zero]) {
        Some(Word::Clamp) => Outside::Clamp,
        Some(Word::Zero) => Outside::Zero,
        _ => Outside::Trap,
    };
    let mut op = d.whole(Class::Texture, |warp, op, mask| match run(warp, op, mask) {
        Ok(()) => Flow::Next,
        Err(flow) => flow,
    });
    let how = How {
        surface: handle,
        geometry: geometry(mnemonic)?,
        coordinates,
        formatted: mnemonic.has(Word::P),
        outside,
        what,
        bytes: ty.bytes() as u32,
        elements,
    };
    d.record(&mut op, how);
    Ok(op)
}
