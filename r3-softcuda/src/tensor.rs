//! Tensor maps: what `cp.async.bulk.tensor` reads about a tensor.

use r3_emu::tensor_map::{DataType, Im2col, Swizzle, TensorMap, encode};

use crate::api::{In, Out, api};
use crate::error::{CuError, Res};

type Bytes = [u8; 128];

/// Arguments that all forms share.
struct Common {
    data_type: u32,
    rank: u32,
    address: u64,
    dims: In<u64>,
    strides: In<u64>,
    element_strides: In<u32>,
    interleave: u32,
    swizzle: u32,
    l2_promotion: u32,
    fill: u32,
}

impl Common {
    fn map(self) -> Res<TensorMap> {
        let rank = self.rank as usize;
        if !(1..=5).contains(&rank) || self.interleave > 2 || self.fill > 1 || self.l2_promotion > 3
        {
            return Err(CuError::INVALID_VALUE);
        }
        Ok(TensorMap {
            data_type: DataType::from_number(self.data_type).ok_or(CuError::INVALID_VALUE)?,
            rank: rank as u8,
            address: self.address,
            dims: padded(self.dims, rank, 1)?,
            strides: padded(self.strides, rank - 1, 0)?,
            box_dims: [1; 5],
            element_strides: padded(self.element_strides, rank, 1)?,
            interleave: self.interleave as u8,
            swizzle: Swizzle::from_number(self.swizzle).ok_or(CuError::INVALID_VALUE)?,
            l2_promotion: self.l2_promotion as u8,
            nan_fill: self.fill == 1,
            im2col: None,
        })
    }
}

fn padded<T: Copy, const N: usize>(list: In<T>, count: usize, rest: T) -> Res<[T; N]> {
    let mut values = [rest; N];
    for (place, value) in values.iter_mut().zip(list.list(count)?) {
        *place = value;
    }
    Ok(values)
}

fn put(out: Out<Bytes>, map: &TensorMap) -> Res {
    if !(out.pointer() as u64).is_multiple_of(64) {
        return Err(CuError::INVALID_VALUE);
    }
    out.set(encode(map).map_err(|_| CuError::INVALID_VALUE)?)
}

fn corner(list: In<i32>, rank: u32) -> Res<[i16; 3]> {
    let spatial = (rank as usize)
        .checked_sub(2)
        .filter(|n| (1..=3).contains(n))
        .ok_or(CuError::INVALID_VALUE)?;
    let values: [i32; 3] = padded(list, spatial, 0)?;
    let mut corner = [0; 3];
    for (place, value) in corner.iter_mut().zip(values) {
        *place = i16::try_from(value).map_err(|_| CuError::INVALID_VALUE)?;
    }
    Ok(corner)
}

api! {
    fn cuTensorMapEncodeTiled(out: Out<Bytes>, data_type: u32, rank: u32, address: u64, dims: In<u64>, strides: In<u64>, box_dims: In<u32>, element_strides: In<u32>, interleave: u32, swizzle: u32, l2_promotion: u32, fill: u32) {
        let common = Common { data_type, rank, address, dims, strides, element_strides, interleave, swizzle, l2_promotion, fill };
        let box_dims = padded(box_dims, rank.min(5) as usize, 1)?;
        put(out, &TensorMap { box_dims, ..common.map()? })
    }

    fn cuTensorMapEncodeIm2col(out: Out<Bytes>, data_type: u32, rank: u32, address: u64, dims: In<u64>, strides: In<u64>, lower: In<i32>, upper: In<i32>, channels: u32, pixels: u32, element_strides: In<u32>, interleave: u32, swizzle: u32, l2_promotion: u32, fill: u32) {
        let common = Common { data_type, rank, address, dims, strides, element_strides, interleave, swizzle, l2_promotion, fill };
        let narrow = |n: u32| u16::try_from(n).map_err(|_| CuError::INVALID_VALUE);
        let im2col = Im2col {
            lower: corner(lower, rank)?,
            upper: corner(upper, rank)?,
            channels: narrow(channels)?,
            pixels: narrow(pixels)?,
        };
        put(out, &TensorMap { im2col: Some(im2col), ..common.map()? })
    }

    fn cuTensorMapReplaceAddress(map: Out<Bytes>, address: u64) {
        let decoded = r3_emu::tensor_map::decode(&map.get()?).map_err(|_| CuError::INVALID_VALUE)?;
        put(map, &TensorMap { address, ..decoded })
    }
}
