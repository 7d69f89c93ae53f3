//! `txq`, `suq`: properties of textures, samplers and surfaces.

use super::{Handle, bad_handle};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::{Flow, LANES, Op, Slot, lanes};
use crate::launch::Class;
use crate::memory::textures::{AddressMode, Format, Image, Object, Sampler};
use r3_ptx::isa::{Mnemonic, Word};

/// The record.
struct How {
    handle: Handle,
    what: Word,
    level: Option<Slot>,
}

fn query(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let how = warp.data::<How>(op);
    let hint = op.instruction as usize;
    let mut out = [0u32; LANES];
    for lane in lanes(mask) {
        let handle = how.handle.lane(warp, hint, lane)?;
        let level = how.level.map_or(0, |slot| warp.lane::<u32>(slot, lane));
        out[lane] = match warp.view().memory().object(handle) {
            Some(Object::Texture(t)) => match sampler(&t.sampler, how.what) {
                Some(value) => value,
                None => image(&t.image, how.what, level),
            },
            Some(Object::Surface(i)) => image(&i, how.what, level),
            Some(Object::Sampler(s)) => sampler(&s, how.what).unwrap_or(0),
            None => return Err(bad_handle(warp, lane, handle, "texture or surface")),
        };
    }
    warp.put(op.d, mask, &out);
    Ok(())
}

/// Numbers of the ISA's tables.
fn image(image: &Image, what: Word, level: u32) -> u32 {
    let Some(size) = image.levels.get(level as usize) else {
        return 0;
    };
    match what {
        Word::Width => size.width,
        Word::Height => size.height,
        Word::Depth => size.depth,
        Word::ArraySize => image.layers,
        Word::NumMipmapLevels => image.levels.len() as u32,
        Word::NumSamples => 1,
        Word::ChannelDataType => match image.format {
            Format::S8 => 0x10d7,
            Format::S16 => 0x10d8,
            Format::S32 => 0x10d9,
            Format::U8 => 0x10da,
            Format::U16 => 0x10db,
            Format::U32 => 0x10dc,
            Format::F16 => 0x10dd,
            Format::F32 => 0x10de,
        },
        Word::ChannelOrder => match image.channels {
            1 => 0x10b0,
            2 => 0x10b2,
            3 => 0x10b4,
            _ => 0x10b5,
        },
        _ => 0,
    }
}

fn sampler(sampler: &Sampler, what: Word) -> Option<u32> {
    let mode = |i: usize| match sampler.address[i] {
        AddressMode::Wrap => 0,
        AddressMode::Mirror => 1,
        AddressMode::Clamp => 2,
        AddressMode::Border => 3,
    };
    Some(match what {
        Word::NormalizedCoords => u32::from(sampler.normalized),
        Word::ForceUnnormalizedCoords => u32::from(!sampler.normalized),
        Word::FilterMode => u32::from(sampler.linear),
        Word::AddrMode0 => mode(0),
        Word::AddrMode1 => mode(1),
        Word::AddrMode2 => mode(2),
        _ => return None,
    })
}

/// Decodes a query.
pub(super) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let known = [
        Word::Width,
        Word::Height,
        Word::Depth,
        Word::ArraySize,
        Word::NumMipmapLevels,
        Word::NumSamples,
        Word::ChannelDataType,
        Word::ChannelOrder,
        Word::NormalizedCoords,
        Word::ForceUnnormalizedCoords,
        Word::FilterMode,
        Word::AddrMode0,
        Word::AddrMode1,
        Word::AddrMode2,
    ];
    let what = mnemonic
        .any_of(&known)
        .ok_or_else(|| Unsupported::new("query of this property"))?;
    let operand = d.operand(1)?;
    let handle = Handle::decode(d, operand)?;
    let level = if mnemonic.has(Word::Level) {
        Some(d.src::<u32>(2)?)
    } else {
        None
    };
    let mut op = d.whole(Class::Texture, |warp, op, mask| {
        match query(warp, op, mask) {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    });
    op.d = d.dst::<u32>(0)?;
    d.record(
        &mut op,
        How {
            handle,
            what,
            level,
        },
    );
    Ok(op)
}
