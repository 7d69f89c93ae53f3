//! How `ldmatrix`, `stmatrix` and `movmatrix` spread the rows of small matrices over lanes.

const LANES: usize = 32;

/// One row in shared memory.
pub(crate) type Row = [u8; 16];

/// What `ldmatrix` reads as one matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tile {
    /// `.m8n8.b16`: 8 rows of 8 elements; a lane gets two neighbours.
    Halves,
    /// `.m16n16.b8`: 16 rows of 16 bytes; a lane gets four neighbours of two rows, 8 apart.
    Bytes16,
    /// `.m8n16.b8`: 8 rows of 16 bytes; a lane gets four neighbours.
    Bytes8,
}

/// How elements are packed in memory, where a register has a byte for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Not at all.
    Plain,
    /// `.b6x16_p32`: 16 elements of 6 bits, then 32 bits of padding.
    Six,
    /// `.b4x16_p64`: 16 elements of 4 bits, then 64 bits of padding. They go to the middle of their bytes.
    Four,
}

impl Tile {
    /// Rows of a matrix, and with them lanes that give an address.
    pub(crate) fn rows(self) -> usize {
        match self {
            Self::Bytes16 => 16,
            _ => 8,
        }
    }

    /// Registers of a lane for one matrix.
    pub(crate) fn registers(self) -> usize {
        self.rows() / 8
    }

    /// The `register`th register of all lanes.
    pub(crate) fn load(self, rows: &[Row], transposed: bool, register: usize) -> [u32; LANES] {
        std::array::from_fn(|lane| {
            let (group, member) = (lane / 4, lane % 4);
            match self {
                Self::Halves => {
                    let half = |i: usize| {
                        let (row, column) = if transposed {
                            (2 * member + i, group)
                        } else {
                            (group, 2 * member + i)
                        };
                        u32::from(u16::from_le_bytes([
                            rows[row][2 * column],
                            rows[row][2 * column + 1],
                        ]))
                    };
                    half(0) | half(1) << 16
                }
                Self::Bytes16 | Self::Bytes8 => {
                    let row = group + 8 * register;
                    u32::from_le_bytes(std::array::from_fn(|i| {
                        let column = 4 * member + i;
                        if transposed {
                            rows[column][row]
                        } else {
                            rows[row][column]
                        }
                    }))
                }
            }
        })
    }
}

impl Packing {
    /// One byte for each element.
    pub(crate) fn unpack(self, row: Row) -> Row {
        let bits = match self {
            Self::Plain => return row,
            Self::Six => 6,
            Self::Four => 4,
        };
        let all = u128::from_le_bytes(row);
        std::array::from_fn(|i| {
            let element = (all >> (i * bits)) as u8 & ((1 << bits) - 1);
            if bits == 4 { element << 2 } else { element }
        })
    }
}

/// Rows of an 8 × 8 matrix of 16-bit elements out of a register of all lanes: the inverse of [`Tile::load`].
pub(crate) fn rows_of(register: &[u32; LANES], transposed: bool) -> [Row; 8] {
    let mut rows = [[0; 16]; 8];
    for (lane, value) in register.iter().enumerate() {
        for i in 0..2 {
            let half = ((value >> (16 * i)) as u16).to_le_bytes();
            let (a, b) = (lane / 4, 2 * (lane % 4) + i);
            let (row, column) = if transposed { (b, a) } else { (a, b) };
            rows[row][2 * column..2 * column + 2].copy_from_slice(&half);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered() -> Vec<Row> {
        (0..16u8)
            .map(|row| std::array::from_fn(|i| row * 16 + i as u8))
            .collect()
    }

    #[test]
    fn a_group_of_four_lanes_gets_a_row() {
        let rows = numbered();
        let lanes = Tile::Halves.load(&rows, false, 0);
        assert_eq!(lanes[0], 0x0302_0100, "two halves of row 0");
        assert_eq!(lanes[5], 0x1716_1514, "row 1, elements 2 and 3");
        let lanes = Tile::Halves.load(&rows, true, 0);
        assert_eq!(lanes[0], 0x1110_0100, "rows 0 and 1 of column 0");
        assert_eq!(lanes[5], 0x3332_2322, "rows 2 and 3 of column 1");
    }

    #[test]
    fn stores_undo_loads() {
        let rows = numbered();
        for transposed in [false, true] {
            let lanes = Tile::Halves.load(&rows, transposed, 0);
            assert_eq!(rows_of(&lanes, transposed)[..], rows[..8]);
        }
    }

    #[test]
    fn packed_elements_get_a_byte_each() {
        let mut row = [0; 16];
        row[0] = 0xa5;
        assert_eq!(Packing::Four.unpack(row)[..3], [0x5 << 2, 0xa << 2, 0]);
        row[1] = 0x0f;
        assert_eq!(Packing::Six.unpack(row)[..3], [0x25, 0x3e, 0]);
    }
}
