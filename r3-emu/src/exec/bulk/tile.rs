//! Which elements of a tensor a box has, and where they are in shared memory.
//!
//! A box is a list of rows along the first dimension, packed one after the other; the chunks of a row are then
//! permuted by the swizzle. What is outside the tensor reads as the fill value and is not written.

use crate::tensor_map::TensorMap;

/// One row of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Address of the first element that is inside the tensor; of no meaning when none is.
    pub address: u64,
    /// Elements of the row in front of the first that is inside.
    pub skip: u32,
    /// Elements that are inside.
    pub inside: u32,
}

/// The rows of the box at `start`, in the order of shared memory.
pub(super) fn rows(map: &TensorMap, start: [i32; 5]) -> Vec<Row> {
    let rank = usize::from(map.rank);
    // Elements along each dimension. The stride of the first one is ignored, as on the hardware.
    let counts: [u32; 5] = std::array::from_fn(|d| match d {
        0 => map.box_dims[0],
        d if d < rank => map.box_dims[d].div_ceil(map.element_strides[d].max(1)),
        _ => 1,
    });
    let mut rows = Vec::new();
    let mut at = [0; 5];
    loop {
        let coordinates = std::array::from_fn(|d| {
            let step = if d == 0 {
                1
            } else {
                map.element_strides[d].max(1)
            };
            i64::from(start[d]) + i64::from(at[d] * step)
        });
        rows.push(row(map, coordinates, rank));
        let Some(d) = (1..5).find(|&d| {
            at[d] += 1;
            if at[d] < counts[d] {
                return true;
            }
            at[d] = 0;
            false
        }) else {
            return rows;
        };
        debug_assert!(d < rank);
    }
}

/// The row that begins at these coordinates.
pub(super) fn row(map: &TensorMap, coordinates: [i64; 5], rank: usize) -> Row {
    let size = map.box_dims[0];
    let outside = Row {
        address: 0,
        skip: size,
        inside: 0,
    };
    let mut address = map.address;
    let others = coordinates.iter().zip(&map.dims).skip(1);
    for ((&c, &size), &stride) in others.zip(&map.strides).take(rank - 1) {
        if c < 0 || c as u64 >= size {
            return outside;
        }
        address = address.wrapping_add((c as u64).wrapping_mul(stride));
    }
    let first = coordinates[0].max(0);
    let end = (coordinates[0] + i64::from(size)).min(map.dims[0] as i64);
    if first >= end {
        return outside;
    }
    Row {
        address: address.wrapping_add(first as u64 * u64::from(map.data_type.bytes())),
        skip: (first - coordinates[0]) as u32,
        inside: (end - first) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_map::{DataType, Swizzle};

    fn map() -> TensorMap {
        TensorMap {
            data_type: DataType::U32,
            rank: 2,
            address: 0x1000,
            dims: [10, 5, 1, 1, 1],
            strides: [48, 0, 0, 0],
            box_dims: [4, 3, 1, 1, 1],
            element_strides: [1, 1, 1, 1, 1],
            interleave: 0,
            swizzle: Swizzle::None,
            l2_promotion: 0,
            nan_fill: false,
            im2col: None,
        }
    }

    fn text(map: &TensorMap, start: [i32; 5]) -> String {
        rows(map, start)
            .iter()
            .map(|r| format!("{:#x}+{}:{} ", r.address, r.skip, r.inside))
            .collect()
    }

    #[test]
    fn boxes_inside_have_all_elements_and_those_at_the_edges_some() {
        let map = map();
        assert_eq!(
            text(&map, [2, 1, 0, 0, 0]),
            "0x1038+0:4 0x1068+0:4 0x1098+0:4 "
        );
        assert_eq!(
            text(&map, [-1, -1, 0, 0, 0]),
            "0x0+4:0 0x1000+1:3 0x1030+1:3 "
        );
        assert_eq!(
            text(&map, [8, 3, 0, 0, 0]),
            "0x10b0+0:2 0x10e0+0:2 0x0+4:0 "
        );
        assert_eq!(text(&map, [10, 0, 0, 0, 0]), "0x0+4:0 0x0+4:0 0x0+4:0 ");
    }

    #[test]
    fn strides_of_elements_skip_rows() {
        let mut map = map();
        map.element_strides[1] = 2;
        assert_eq!(text(&map, [0, 0, 0, 0, 0]), "0x1000+0:4 0x1060+0:4 ");
    }
}
