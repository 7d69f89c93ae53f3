//! Which element of a matrix each lane holds at each place of its fragment.
//!
//! Nearly all fragments are made of one pattern, that of 8 × 8 tiles whose rows belong to groups of four lanes: a lane
//! is `4 * group + member`, and each 32-bit register holds `32 / bits` neighbours of a row (of a column, for B).
//! `wmma` leaves its mapping open; here it is that of the `mma` which compilers make of it for GPUs from `sm_80` on.
//! `m8n32` is done as the transposed product there. Registers beyond the matrix (half precision has twice as many as
//! are needed) repeat the first.

/// Lanes of a warp.
const LANES: usize = 32;

/// Elements of a matrix over the lanes of a warp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Bits of an element in the registers; elements lie from low to high.
    pub bits: usize,
    /// Elements of a lane.
    pub per_lane: usize,
    /// For lane after lane, place after place: index of the element. A matrix A or accumulator is indexed row by row, a
    /// matrix B column by column.
    pub index: Box<[u16]>,
}

impl Fragment {
    fn new(bits: usize, per_lane: usize, element: impl Fn(usize, usize) -> usize) -> Self {
        let index = (0..LANES)
            .flat_map(|lane| (0..per_lane).map(move |i| (lane, i)))
            .map(|(lane, i)| element(lane, i) as u16)
            .collect();
        Self {
            bits,
            per_lane,
            index,
        }
    }

    /// A of `m` rows and `k` columns. `m` is 8 or a multiple of 16.
    pub(crate) fn a(m: usize, k: usize, bits: usize) -> Self {
        let neighbours = (32 / bits).max(1);
        let rows = m.min(16);
        let halves = rows / 8;
        let per_block = rows * k / LANES;
        Self::new(bits, m * k / LANES, |lane, i| {
            let (group, member) = (lane / 4, lane % 4);
            let (block, i) = (i / per_block, i % per_block);
            let register = i / neighbours;
            let row = 16 * block + group + 8 * (register % halves);
            let column =
                member * neighbours + i % neighbours + 4 * neighbours * (register / halves);
            row * k + column
        })
    }

    /// B of `k` rows and `n` columns.
    pub(crate) fn b(k: usize, n: usize, bits: usize) -> Self {
        let neighbours = (32 / bits).max(1);
        let per_block = 8 * k / LANES;
        Self::new(bits, n * k / LANES, |lane, i| {
            let (group, member) = (lane / 4, lane % 4);
            let (block, i) = (i / per_block, i % per_block);
            let row = member * neighbours + i % neighbours + 4 * neighbours * (i / neighbours);
            (8 * block + group) * k + row
        })
    }

    /// Accumulator of `m` rows and `n` columns.
    pub(crate) fn accumulator(m: usize, n: usize, bits: usize) -> Self {
        let per_tile = if m == 8 { 2 } else { 4 };
        let tiles = n / 8;
        Self::new(bits, m * n / LANES, |lane, i| {
            let (group, member) = (lane / 4, lane % 4);
            let (tile, i) = (i / per_tile, i % per_tile);
            let row = 16 * (tile / tiles) + group + 8 * (i / 2);
            let column = 8 * (tile % tiles) + 2 * member + i % 2;
            row * n + column
        })
    }

    /// Accumulator of `m` rows and `n` columns whose transpose is computed.
    pub(crate) fn transposed_accumulator(m: usize, n: usize, bits: usize) -> Self {
        let mut fragment = Self::accumulator(n, m, bits);
        for index in &mut fragment.index {
            let (row, column) = (usize::from(*index) % m, usize::from(*index) / m);
            *index = (row * n + column) as u16;
        }
        fragment
    }

    /// A of `m8n8k4`: four 8 × 4 matrices after another, one for each pair of quads of lanes (lanes 0–3 and 16–19 hold
    /// the first). Rows of a matrix in memory are rows here.
    pub(crate) fn quad_a(row_major: bool) -> Self {
        Self::new(16, 4, |lane, i| {
            let (quad, upper) = (lane / 4 % 4, lane / 16);
            let (row, column) = if row_major {
                (lane % 4 + 4 * upper, i)
            } else {
                (i + 4 * upper, lane % 4)
            };
            32 * quad + 4 * row + column
        })
    }

    /// B of `m8n8k4`, likewise.
    pub(crate) fn quad_b(row_major: bool) -> Self {
        Self::new(16, 4, |lane, i| {
            let (quad, upper) = (lane / 4 % 4, lane / 16);
            let (row, column) = if row_major {
                (lane % 4, i + 4 * upper)
            } else {
                (i, lane % 4 + 4 * upper)
            };
            32 * quad + 4 * column + row
        })
    }

    /// Accumulator of `m8n8k4`, likewise: of half or single precision, which differ.
    pub(crate) fn quad_accumulator(bits: usize) -> Self {
        Self::new(bits, 8, |lane, i| {
            let (quad, upper) = (lane / 4 % 4, lane / 16);
            let (row, column) = if bits == 16 {
                (lane % 4 + 4 * upper, i)
            } else {
                (
                    (lane & 1) + (i & 2) + 4 * upper,
                    (i & 4) + (lane & 2) + (i & 1),
                )
            };
            64 * quad + 8 * row + column
        })
    }

    /// 32-bit registers of a lane.
    pub(crate) fn registers(&self) -> usize {
        (self.per_lane * self.bits).div_ceil(32)
    }

    /// Takes the elements out of registers. `register(r)` gives the `r`th of all lanes; those beyond
    /// [`Self::registers`] are copies.
    #[inline(always)]
    pub(crate) fn gather(&self, register: impl Fn(usize) -> [u32; LANES]) -> Vec<u32> {
        let per_register = 32 / self.bits;
        let mask = if self.bits == 32 {
            u32::MAX
        } else {
            (1 << self.bits) - 1
        };
        let mut out = vec![0; self.index.len()];
        for r in 0..self.registers() {
            let values = register(r);
            for i in 0..per_register.min(self.per_lane) {
                for (lane, value) in values.iter().enumerate() {
                    let place = lane * self.per_lane + r * per_register + i;
                    out[usize::from(self.index[place])] = (value >> (i * self.bits)) & mask;
                }
            }
        }
        out
    }

    /// As [`Self::gather`], of elements with 64 bits.
    #[inline(always)]
    pub(crate) fn gather_wide(&self, register: impl Fn(usize) -> [u64; LANES]) -> Vec<u64> {
        let mut out = vec![0; self.index.len()];
        for r in 0..self.per_lane {
            for (lane, value) in register(r).iter().enumerate() {
                out[usize::from(self.index[lane * self.per_lane + r])] = *value;
            }
        }
        out
    }

    /// As [`Self::scatter`], of elements with 64 bits.
    pub(crate) fn scatter_wide(&self, elements: &[u64], r: usize) -> [u64; LANES] {
        std::array::from_fn(|lane| {
            let place = lane * self.per_lane + r % self.per_lane;
            elements[usize::from(self.index[place])]
        })
    }

    /// Puts the elements into the `r`th register of all lanes.
    pub(crate) fn scatter(&self, elements: &[u32], r: usize) -> [u32; LANES] {
        let per_register = 32 / self.bits;
        let mut out = [0; LANES];
        let first = r * per_register % self.per_lane;
        for i in 0..per_register {
            for (lane, out) in out.iter_mut().enumerate() {
                let at = usize::from(self.index[lane * self.per_lane + first + i]);
                *out |= elements[at] << (i * self.bits);
            }
        }
        out
    }
}

/// Where the elements of a sparse matrix A of 16 rows stand: for row after row, stored element after stored element,
/// its column.
///
/// `bits` is the width of an element, `k` the number of columns, `selector` chooses the lanes whose `metadata` counts.
/// Each nibble of metadata belongs to a chunk of the row: two 2-bit indices of what is stored. A chunk has four elements
/// of 8 or 16 bits, two of `tf32` (the indices count halves), or four pairs of 4-bit elements.
pub(crate) fn sparse_columns(
    bits: usize,
    k: usize,
    selector: usize,
    metadata: &[u32; LANES],
) -> Vec<u16> {
    let chunk = match bits {
        32 => 2,
        4 => 8,
        _ => 4,
    };
    let chunks = k / chunk;
    let mut columns = Vec::with_capacity(16 * k / 2);
    for row in 0..16 {
        let (group, upper) = (row % 8, row / 8);
        for c in 0..chunks {
            let (lane, shift) = match (chunks, bits) {
                // 16 bits a row: two rows in the word of one lane.
                (4, _) => (4 * group + selector % 4, 16 * upper + 4 * c),
                // 32 bits a row, wide elements: a half of two rows in each of two lanes.
                (8, 16 | 32) => (
                    4 * group + 2 * (selector % 2) + c / 4,
                    16 * upper + 4 * (c % 4),
                ),
                // 32 bits a row, narrow elements: a row in each of two lanes.
                (8, _) => (4 * group + 2 * (selector % 2) + upper, 4 * c),
                // 64 bits a row.
                _ => (4 * group + 2 * (c / 8) + upper, 4 * (c % 8)),
            };
            let nibble = metadata[lane] >> shift;
            let (low, high) = ((nibble & 3) as u16, (nibble >> 2 & 3) as u16);
            let start = (c * chunk) as u16;
            match bits {
                32 => columns.push(start + low / 2),
                4 => columns.extend([
                    start + 2 * low,
                    start + 2 * low + 1,
                    start + 2 * high,
                    start + 2 * high + 1,
                ]),
                _ => columns.extend([start + low, start + high]),
            }
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element of the matrix is in exactly one place.
    fn is_bijective(fragment: &Fragment, elements: usize) {
        let mut seen = vec![false; elements];
        for &index in &fragment.index {
            assert!(!std::mem::replace(&mut seen[usize::from(index)], true));
        }
        assert!(seen.iter().all(|&s| s));
    }

    #[test]
    fn fragments_cover_their_matrix_once() {
        for (m, k, bits) in [
            (16, 8, 16),
            (16, 16, 16),
            (32, 16, 16),
            (8, 16, 16),
            (16, 4, 32),
            (16, 8, 32),
            (8, 4, 64),
            (16, 4, 64),
            (16, 8, 64),
            (16, 16, 64),
            (8, 16, 8),
            (16, 16, 8),
            (32, 16, 8),
            (16, 32, 8),
            (8, 32, 4),
            (16, 32, 4),
            (16, 64, 4),
            (8, 4, 32),
            (16, 8, 32),
        ] {
            is_bijective(&Fragment::a(m, k, bits), m * k);
        }
        for (k, n, bits) in [
            (8, 8, 16),
            (16, 8, 16),
            (16, 16, 16),
            (16, 32, 16),
            (32, 8, 16),
            (4, 8, 32),
            (8, 16, 32),
            (4, 8, 64),
            (16, 8, 64),
            (16, 8, 8),
            (64, 8, 8),
            (128, 8, 4),
        ] {
            is_bijective(&Fragment::b(k, n, bits), k * n);
        }
        for (m, n) in [(8, 8), (16, 8), (16, 16), (32, 8), (8, 32), (16, 256)] {
            is_bijective(&Fragment::accumulator(m, n, 32), m * n);
        }
        is_bijective(&Fragment::transposed_accumulator(8, 32, 32), 256);
        is_bijective(&Fragment::quad_a(true), 128);
        is_bijective(&Fragment::quad_a(false), 128);
        is_bijective(&Fragment::quad_b(true), 128);
        is_bijective(&Fragment::quad_b(false), 128);
        is_bijective(&Fragment::quad_accumulator(16), 256);
        is_bijective(&Fragment::quad_accumulator(32), 256);
    }

    /// The formulas of the ISA's section on `mma.m16n8k16` with floating-point type.
    #[test]
    fn m16n8k16_is_as_published() {
        let a = Fragment::a(16, 16, 16);
        let b = Fragment::b(16, 8, 16);
        let c = Fragment::accumulator(16, 8, 32);
        for lane in 0..32 {
            let (group, member) = (lane >> 2, lane % 4);
            for i in 0..8 {
                let row = if i < 2 || (4..6).contains(&i) {
                    group
                } else {
                    group + 8
                };
                let col = member * 2 + (i & 1) + if i < 4 { 0 } else { 8 };
                assert_eq!(usize::from(a.index[lane * 8 + i]), row * 16 + col);
            }
            for i in 0..4 {
                let row = member * 2 + (i & 1) + if i < 2 { 0 } else { 8 };
                assert_eq!(usize::from(b.index[lane * 4 + i]), group * 16 + row);
                let row = if i < 2 { group } else { group + 8 };
                assert_eq!(
                    usize::from(c.index[lane * 4 + i]),
                    row * 8 + member * 2 + (i & 1)
                );
            }
        }
    }
}
