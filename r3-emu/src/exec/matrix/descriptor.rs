//! Matrices in shared memory as `wgmma` finds them: descriptors, strides and swizzles.
//!
//! A matrix is made of chunks of 16 bytes. Eight chunks, one a row (a column, where the matrix lies the other way),
//! make a core matrix; how core matrices follow each other is in the descriptor. Swizzling then exchanges chunks:
//! bits of the address above the chunk are xor-ed with those three places higher.

/// A 64-bit matrix descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    start: u32,
    leading: u32,
    stride: u32,
    base: u32,
    /// Chunks in a row of the swizzle pattern: 1 (none), 2, 4 or 8.
    width: u32,
}

impl Descriptor {
    pub(crate) fn new(bits: u64) -> Self {
        let field = |shift: u32| (((bits >> shift) & 0x3fff) << 4) as u32;
        Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: (bits >> 49 & 7) as u32,
            width: [1, 8, 4, 2][(bits >> 62) as usize],
        }
    }

    /// Address of an element's first byte in shared memory. `mn` is its row in A or its column in B, `bytes` the size
    /// of an element; `k_major` says that elements along `k` are neighbours.
    pub(crate) fn address(self, mn: u32, k: u32, bytes: u32, k_major: bool) -> u32 {
        let per_chunk = 16 / bytes;
        let offset = if k_major {
            let (chunk, within) = (k / per_chunk, k % per_chunk);
            // Without swizzle the chunks of a row are apart, else side by side.
            let along = if self.width == 1 { self.leading } else { 16 };
            mn % 8 * 16 * self.width + mn / 8 * self.stride + chunk * along + within * bytes
        } else {
            let (chunk, within) = (mn / per_chunk, mn % per_chunk);
            let (repeat, eights) = if self.width == 1 {
                (self.stride, self.leading)
            } else {
                (self.leading, self.stride)
            };
            chunk % self.width * 16
                + chunk / self.width * repeat
                + k % 8 * 16 * self.width
                + k / 8 * eights
                + within * bytes
        };
        let address = self.start.wrapping_add(offset);
        let row = (address >> 7).wrapping_sub(self.base);
        address ^ (row & (self.width - 1)) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(start: u64, leading: u64, stride: u64, mode: u64) -> Descriptor {
        Descriptor::new(start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62)
    }

    /// The examples of the ISA's section on strides, by their published layouts.
    #[test]
    fn elements_lie_where_the_canonical_layouts_say() {
        // K-major, no swizzle, tf32: ((8,2),(4,4)):((4,32),(1,64)).
        let d = descriptor(0, 64 * 4, 32 * 4, 0);
        for m in 0..16 {
            for k in 0..8 {
                let at = m % 8 * 4 + m / 8 * 32 + k % 4 + k / 4 * 64;
                assert_eq!(d.address(m, k, 4, true), at * 4);
            }
        }
        // MN-major, no swizzle, bf16: ((8,1,2),(8,2)):((1,8,64),(8,128)).
        let d = descriptor(0, 128 * 2, 64 * 2, 0);
        for m in 0..16 {
            for k in 0..16 {
                let at = m % 8 + m / 8 * 64 + k % 8 * 8 + k / 8 * 128;
                assert_eq!(d.address(m, k, 2, false), at * 2);
            }
        }
        // MN-major, 32-byte swizzle, bf16: Swizzle<1,4,3> o ((8,2,2),(8,2)):((1,8,128),(16,256)).
        let d = descriptor(0, 128 * 2, 256 * 2, 3);
        for m in 0..32 {
            for k in 0..16 {
                let at = 2 * (m % 8 + m / 8 % 2 * 8 + m / 16 * 128 + k % 8 * 16 + k / 8 * 256);
                assert_eq!(d.address(m, k, 2, false), at ^ (at >> 7 & 1) << 4);
            }
        }
    }

    #[test]
    fn rows_of_128_bytes_have_their_chunks_exchanged() {
        let d = descriptor(1024, 16, 1024, 1);
        for row in 0..16 {
            for k in 0..16 {
                let plain = 1024 + row * 128 + 2 * k;
                assert_eq!(d.address(row, k, 2, true), plain ^ (row % 8) << 4);
            }
        }
        // The next 16 columns: the descriptor moved on by 32 bytes.
        let next = descriptor(1024 + 32, 16, 1024, 1);
        assert_eq!(next.address(3, 0, 2, true), 1024 + 3 * 128 + (32 ^ 3 << 4));
    }
}
