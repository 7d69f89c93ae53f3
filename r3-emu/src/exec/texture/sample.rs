//! Sampling an image: addressing, filtering, conversion of texels.
//!
//! Weights of linear filtering have 8 bits of fraction, as CUDA documents for the hardware. What the hardware does inside is
//! not documented, so results of filtering are close to its own but not the same.

use crate::arith::half::{F16, Half};
use crate::memory::View;
use crate::memory::textures::{AddressMode, Format, Image, Level, Sampler};

/// A texel: bits of `.f32`, or integers, by the image's format and the sampler.
pub(crate) type Texel = [u32; 4];

/// A texel that is not mapped: its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotMapped(pub u64);

/// Which parts of the coordinates an image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Dimensions: 1, 2, 3.
    pub dimensions: u32,
    /// The first coordinate is a layer.
    pub array: bool,
    /// Three coordinates are a direction.
    pub cube: bool,
}

/// Where to sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// x, y, z.
    pub float: [f32; 3],
    /// The same as integers; used where `integer` is set.
    pub int: [i32; 3],
    /// Coordinates are integers.
    pub integer: bool,
    /// Layer, of arrays and cubes.
    pub layer: u32,
    /// Added to the texels' indices.
    pub offset: [i32; 3],
}

/// The two texels of an axis and the weight of the second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Footprint {
    index: [Option<u32>; 2],
    weight: f32,
}

/// Reads with filtering between levels.
pub(crate) fn sample(
    view: &mut View,
    hint: usize,
    (image, sampler): (&Image, &Sampler),
    geometry: Geometry,
    at: &At,
    level: f32,
) -> Result<Texel, NotMapped> {
    let most = image.levels.len().saturating_sub(1) as f32;
    let [low, high] = sampler.mip_clamp;
    let level = (level + sampler.mip_bias)
        .max(low)
        .min(high)
        .clamp(0.0, most);
    let mut read = |index: f32| match image.levels.get(index as usize) {
        Some(level) => one_level(view, hint, (image, sampler, level), geometry, at),
        None => Ok([0; 4]),
    };
    if most == 0.0 {
        return read(0.0);
    }
    if !sampler.mip_linear {
        return read((level + 0.5).floor().min(most));
    }
    let below = level.floor();
    let a = read(below)?;
    let weight = fraction(level - below);
    if weight == 0.0 || !is_float(image, sampler) {
        return Ok(a);
    }
    let b = read(below + 1.0)?;
    Ok(std::array::from_fn(|i| mix(a[i], b[i], weight)))
}

fn one_level(
    view: &mut View,
    hint: usize,
    (image, sampler, level): (&Image, &Sampler, &Level),
    geometry: Geometry,
    at: &At,
) -> Result<Texel, NotMapped> {
    let axes = footprints(image, sampler, level, geometry, at);
    let linear = sampler.linear && !at.integer && !image.linear && is_float(image, sampler);
    let mut pick = |x: usize, y: usize, z: usize| {
        fetch(
            view,
            hint,
            (image, sampler, level),
            [axes[0].index[x], axes[1].index[y], axes[2].index[z]],
            at.layer,
            geometry,
        )
    };
    if !linear {
        return pick(0, 0, 0);
    }
    let mut sum = [0f32; 4];
    let sides = |d: u32| if geometry.dimensions > d { 2 } else { 1 };
    for z in 0..sides(2) {
        for y in 0..sides(1) {
            for x in 0..sides(0) {
                let weight = part(&axes[0], x) * part(&axes[1], y) * part(&axes[2], z);
                if weight != 0.0 {
                    let texel = pick(x, y, z)?;
                    for (sum, bits) in sum.iter_mut().zip(texel) {
                        *sum += weight * f32::from_bits(bits);
                    }
                }
            }
        }
    }
    Ok(sum.map(f32::to_bits))
}

/// `tld4`: one channel of the four texels that a bilinear filter would mix, counter-clockwise from the lower left.
pub(crate) fn gather(
    view: &mut View,
    hint: usize,
    (image, sampler): (&Image, &Sampler),
    geometry: Geometry,
    at: &At,
    channel: usize,
) -> Result<Texel, NotMapped> {
    let Some(level) = image.levels.first() else {
        return Ok([0; 4]);
    };
    let sampler = Sampler {
        linear: true,
        ..*sampler
    };
    let axes = footprints(image, &sampler, level, geometry, at);
    let mut out = [0; 4];
    for (out, (x, y)) in out.iter_mut().zip([(0, 1), (1, 1), (1, 0), (0, 0)]) {
        let index = [axes[0].index[x], axes[1].index[y], None];
        let texel = fetch(
            view,
            hint,
            (image, &sampler, level),
            index,
            at.layer,
            geometry,
        )?;
        *out = texel[channel % 4];
    }
    Ok(out)
}

fn footprints(
    image: &Image,
    sampler: &Sampler,
    level: &Level,
    geometry: Geometry,
    at: &At,
) -> [Footprint; 3] {
    let sizes = [level.width, level.height, level.depth];
    std::array::from_fn(|d| {
        if d as u32 >= geometry.dimensions {
            return Footprint {
                index: [Some(0); 2],
                weight: 0.0,
            };
        }
        // Faces of a cube do not continue in each other here: they end at their edges.
        let mode = if geometry.cube {
            AddressMode::Clamp
        } else if image.linear {
            AddressMode::Border
        } else {
            sampler.address[d]
        };
        let normalized = sampler.normalized || geometry.cube;
        if at.integer {
            let i = i64::from(at.int[d]) + i64::from(at.offset[d]);
            let index = [resolve(i, sizes[d], mode, false); 2];
            return Footprint { index, weight: 0.0 };
        }
        axis(
            at.float[d],
            sizes[d],
            mode,
            (normalized, sampler.linear),
            at.offset[d],
        )
    })
}

/// The texels of a coordinate along one axis of `size` texels.
fn axis(
    x: f32,
    size: u32,
    mode: AddressMode,
    (normalized, linear): (bool, bool),
    offset: i32,
) -> Footprint {
    let x = if x.is_nan() { 0.0 } else { x };
    let n = size as f32;
    let u = match mode {
        _ if !normalized => x,
        AddressMode::Wrap => (x - x.floor()) * n,
        AddressMode::Mirror => {
            let turn = x.floor();
            let part = x - turn;
            n * if turn.rem_euclid(2.0) == 0.0 {
                part
            } else {
                1.0 - part
            }
        }
        _ => x * n,
    };
    // Far outside, all are the same; the conversion saturates.
    let index = |i: f32| resolve(i as i64 + i64::from(offset), size, mode, normalized);
    if !linear {
        return Footprint {
            index: [index(u.floor()); 2],
            weight: 0.0,
        };
    }
    let b = u - 0.5;
    let low = b.floor();
    Footprint {
        index: [index(low), index(low + 1.0)],
        weight: fraction(b - low),
    }
}

/// An index within the image, or the border.
fn resolve(i: i64, size: u32, mode: AddressMode, normalized: bool) -> Option<u32> {
    let n = i64::from(size.max(1));
    let i = match mode {
        AddressMode::Border => return (0..n).contains(&i).then_some(i as u32),
        AddressMode::Wrap if normalized => i.rem_euclid(n),
        AddressMode::Mirror if normalized => {
            let i = i.rem_euclid(2 * n);
            i.min(2 * n - 1 - i)
        }
        _ => i.clamp(0, n - 1),
    };
    Some(i as u32)
}

/// A weight with 8 bits of fraction.
fn fraction(weight: f32) -> f32 {
    (weight * 256.0).round() / 256.0
}

fn part(axis: &Footprint, side: usize) -> f32 {
    if side == 0 {
        1.0 - axis.weight
    } else {
        axis.weight
    }
}

fn mix(a: u32, b: u32, weight: f32) -> u32 {
    ((1.0 - weight) * f32::from_bits(a) + weight * f32::from_bits(b)).to_bits()
}

/// Whether texels are read as `.f32`.
fn is_float(image: &Image, sampler: &Sampler) -> bool {
    image.format.is_float() || (sampler.normalized_float && image.format.bytes() < 4)
}

/// One texel.
fn fetch(
    view: &mut View,
    hint: usize,
    (image, sampler, level): (&Image, &Sampler, &Level),
    [x, y, z]: [Option<u32>; 3],
    layer: u32,
    geometry: Geometry,
) -> Result<Texel, NotMapped> {
    let float = is_float(image, sampler);
    let z = if geometry.dimensions > 2 { z } else { Some(0) };
    let (Some(x), Some(y), Some(z)) = (x, y, z) else {
        if image.linear {
            return Ok([0; 4]);
        }
        return Ok(sampler
            .border
            .map(|b| if float { b.to_bits() } else { b as i32 as u32 }));
    };
    let slice = if geometry.array || geometry.cube {
        layer.min(image.layers.max(1) - 1)
    } else {
        z
    };
    let bytes = image.texel_bytes();
    let address = level
        .address
        .wrapping_add(u64::from(x) * u64::from(bytes))
        .wrapping_add(u64::from(y).wrapping_mul(level.row_pitch))
        .wrapping_add(u64::from(slice).wrapping_mul(level.slice_pitch));
    let mut raw = [0u8; 16];
    let raw = &mut raw[..(bytes as usize).min(16)];
    if !view.read(hint, address, raw) {
        return Err(NotMapped(address));
    }
    let one = if float { 1f32.to_bits() } else { 1 };
    let mut texel = [0, 0, 0, one];
    let width = image.format.bytes() as usize;
    for (i, (out, channel)) in texel.iter_mut().zip(raw.chunks_exact(width)).enumerate() {
        let bits = channel
            .iter()
            .rev()
            .fold(0u32, |a, b| a << 8 | u32::from(*b));
        *out = decode(
            image.format,
            bits,
            sampler.normalized_float,
            sampler.srgb && i < 3,
        );
    }
    Ok(texel)
}

/// A channel as `.f32` bits or as an integer of 32 bits.
fn decode(format: Format, bits: u32, normalized: bool, srgb: bool) -> u32 {
    let float = match format {
        Format::F32 | Format::U32 | Format::S32 => return bits,
        Format::F16 => F16::widen(bits as u16),
        Format::U8 if normalized && srgb => linear(bits as f32 / 255.0),
        Format::U8 if normalized => bits as f32 / 255.0,
        Format::U16 if normalized => bits as f32 / 65535.0,
        Format::S8 if normalized => (f32::from(bits as i8) / 127.0).max(-1.0),
        Format::S16 if normalized => (f32::from(bits as i16) / 32767.0).max(-1.0),
        Format::U8 | Format::U16 => return bits,
        Format::S8 => return i32::from(bits as i8) as u32,
        Format::S16 => return i32::from(bits as i16) as u32,
    };
    float.to_bits()
}

fn linear(c: f32) -> f32 {
    if c <= 0.04045 {
        c / 12.92
    } else {
        ((c + 0.055) / 1.055).powf(2.4)
    }
}

/// Face, and place in it from 0 to 1, of a direction.
pub(crate) fn cube_face([x, y, z]: [f32; 3]) -> (u32, [f32; 2]) {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    let (face, m, s, t) = if ax >= ay && ax >= az {
        if x >= 0.0 {
            (0, ax, -z, -y)
        } else {
            (1, ax, z, -y)
        }
    } else if ay >= az {
        if y >= 0.0 {
            (2, ay, x, z)
        } else {
            (3, ay, x, -z)
        }
    } else if z >= 0.0 {
        (4, az, x, -y)
    } else {
        (5, az, -x, -y)
    };
    (face, [(s / m + 1.0) / 2.0, (t / m + 1.0) / 2.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_wrap_mirror_clamp_and_leave() {
        let indices = |mode, normalized| -> Vec<i64> {
            (-5..9)
                .map(|i| resolve(i, 4, mode, normalized).map_or(-1, i64::from))
                .collect()
        };
        let expected: [(AddressMode, [i64; 14]); 4] = [
            (
                AddressMode::Wrap,
                [3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0],
            ),
            (
                AddressMode::Mirror,
                [3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0],
            ),
            (
                AddressMode::Clamp,
                [0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3],
            ),
            (
                AddressMode::Border,
                [-1, -1, -1, -1, -1, 0, 1, 2, 3, -1, -1, -1, -1, -1],
            ),
        ];
        for (mode, want) in expected {
            assert_eq!(indices(mode, true), want, "{mode:?}");
        }
        assert_eq!(indices(AddressMode::Wrap, false), expected[2].1);
    }

    #[test]
    fn linear_weights_have_eight_bits() {
        let f = axis(2.0 + 1.0 / 1024.0, 8, AddressMode::Clamp, (false, true), 0);
        assert_eq!(f.index, [Some(1), Some(2)]);
        assert_eq!(f.weight, 0.5);
        let f = axis(0.25, 8, AddressMode::Wrap, (true, true), 0);
        assert_eq!((f.index, f.weight), ([Some(1), Some(2)], 0.5));
    }

    #[test]
    fn directions_find_their_face() {
        assert_eq!(cube_face([1.0, 0.0, 0.0]), (0, [0.5, 0.5]));
        assert_eq!(cube_face([-2.0, 1.0, 0.0]).0, 1);
        assert_eq!(cube_face([0.5, 1.0, 0.0]), (2, [0.75, 0.5]));
        assert_eq!(cube_face([0.0, 0.0, -1.0]), (5, [0.5, 0.5]));
    }
}
