//! Tables of pieces, as the kernels read them, and what they answer.

use super::TILE;
use crate::compare::{ElementType, Tolerance};
use crate::device::AddressRange;
use crate::device::operations::{JudgeJob, Judged, MarkJob, MaskChange, MaskJob, Place, Source};
use crate::device::stream::Stream;

/// Tiles of a launch at most: 1 GiB. What is longer goes in several.
const MOST_TILES: u64 = 64 << 10;
/// Pieces of a launch at most.
const MOST_PIECES: usize = 1024;
/// Words of the largest piece.
const MOST_WORDS: usize = 17;
/// Bytes of a table at most.
pub const MOST_BYTES: usize =
    (4 * (MOST_PIECES + 1)).next_multiple_of(16) + 8 * MOST_WORDS * MOST_PIECES;

/// A part of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which piece.
    pub piece: usize,
    /// Where it begins, in bytes: a multiple of [`TILE`].
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// What goes in one launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch(Vec<Cut>);

impl Batch {
    /// How many parts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The parts.
    pub fn parts(&self) -> impl Iterator<Item = &Cut> {
        self.0.iter()
    }

    /// How many tiles.
    pub fn tiles(&self) -> u32 {
        let tiles: u64 = self.0.iter().map(|cut| cut.len.div_ceil(TILE)).sum();
        u32::try_from(tiles).unwrap_or(u32::MAX)
    }
}

/// Pieces of these lengths, launch by launch.
pub fn batches(lens: impl Iterator<Item = u64>) -> impl Iterator<Item = Batch> {
    let mut cuts = lens
        .enumerate()
        .flat_map(|(piece, len)| {
            let most = MOST_TILES * TILE;
            (0..len.div_ceil(most)).map(move |index| Cut {
                piece,
                offset: index * most,
                len: (len - index * most).min(most),
            })
        })
        .peekable();
    std::iter::from_fn(move || {
        let mut batch = Batch::default();
        let mut tiles = 0;
        while let Some(cut) = cuts.next_if(|cut| {
            tiles + cut.len.div_ceil(TILE) <= MOST_TILES && batch.0.len() < MOST_PIECES
        }) {
            tiles += cut.len.div_ceil(TILE);
            batch.0.push(cut);
        }
        (!batch.0.is_empty()).then_some(batch)
    })
}

/// A piece that a table can have.
pub trait Part {
    /// The words of a part of it.
    fn words(&self, offset: u64, len: u64, out: &mut Vec<u64>);
}

/// A table.
pub struct Table {
    /// As the kernels read it.
    pub bytes: Vec<u8>,
    /// How many pieces.
    pub count: u64,
    /// How many tiles.
    pub tiles: u32,
}

impl Table {
    /// The table of a batch.
    pub fn new<P: Part>(pieces: &[P], batch: &Batch) -> Self {
        let mut bytes = Vec::new();
        let mut words = Vec::new();
        let mut tiles = 0u32;
        for cut in &batch.0 {
            bytes.extend(tiles.to_le_bytes());
            tiles += cut.len.div_ceil(TILE) as u32;
            if let Some(piece) = pieces.get(cut.piece) {
                piece.words(cut.offset, cut.len, &mut words);
            }
        }
        bytes.extend(tiles.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
        Self {
            bytes,
            count: batch.0.len() as u64,
            tiles,
        }
    }
}

/// `Stream` of the kernels.
fn stream(stream: Option<Stream>) -> [u64; 3] {
    stream.map_or([0; 3], |stream| {
        [stream.key, stream.whitening(), stream.offset]
    })
}

/// `Source` of the kernels.
fn source(source: Source) -> [u64; 5] {
    let [key, whitening, offset] = stream(source.stream);
    let has = u64::from(source.memory.is_some()) | u64::from(source.stream.is_some()) << 1;
    [source.memory.unwrap_or(0), key, whitening, offset, has]
}

impl Part for Place {
    fn words(&self, offset: u64, len: u64, out: &mut Vec<u64>) {
        let from = self.from.map(|from| from.after(offset));
        let has = u64::from(from.is_some()) | u64::from(self.poison.is_some()) << 1;
        out.extend([self.to.wrapping_add(offset), len]);
        out.extend(source(from.unwrap_or_default()));
        out.push(
            self.poison
                .map_or(0, |poison| poison.mask.wrapping_add(offset / 8)),
        );
        out.extend(stream(
            self.poison.map(|poison| poison.stream.after(offset)),
        ));
        out.push(has);
    }
}

/// `Change` of the kernels.
fn change(change: MaskChange) -> u64 {
    match change {
        MaskChange::Set => 0,
        MaskChange::Not => 1,
        MaskChange::And => 2,
        MaskChange::AndNot => 3,
        MaskChange::Or => 4,
    }
}

impl Part for MarkJob {
    fn words(&self, offset: u64, len: u64, out: &mut Vec<u64>) {
        out.extend(source(self.a.after(offset)));
        out.extend(source(self.b.after(offset)));
        out.extend([len, self.mask.wrapping_add(offset / 8), change(self.change)]);
    }
}

impl Part for MaskJob {
    fn words(&self, offset: u64, len: u64, out: &mut Vec<u64>) {
        out.extend([
            self.mask.wrapping_add(offset),
            self.bits.wrapping_add(offset),
            len,
            change(self.change),
        ]);
    }
}

impl Part for AddressRange {
    fn words(&self, offset: u64, len: u64, out: &mut Vec<u64>) {
        out.extend([self.start().wrapping_add(offset), len, offset]);
    }
}

impl Part for JudgeJob {
    fn words(&self, offset: u64, len: u64, out: &mut Vec<u64>) {
        let Tolerance {
            absolute,
            relative,
            ulp,
        } = self.tolerance;
        let has = u64::from(self.tolerance.is_exact()) | u64::from(ulp.is_some()) << 1;
        out.extend(source(self.actual.after(offset)));
        out.extend(source(self.expected.after(offset)));
        out.extend([len, self.element.size() as u64, element(self.element), has]);
        out.extend([absolute.to_bits(), relative.to_bits(), ulp.unwrap_or(0)]);
    }
}

/// `Element` of the kernels.
fn element(element: ElementType) -> u64 {
    match element {
        ElementType::Bits => 0,
        ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => 1,
        ElementType::I8 | ElementType::I16 | ElementType::I32 | ElementType::I64 => 2,
        ElementType::F16 => 3,
        ElementType::BF16 => 4,
        ElementType::F32 => 5,
        ElementType::F64 => 6,
    }
}

/// Bytes of `Found` of the kernels.
pub const FOUND_LEN: u64 = 80;

/// What `Found` of the kernels says; `None` when it is not the answer to the call of that number.
pub fn found(bytes: &[u8], wanted: u64) -> Option<Judged> {
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let &[
        bytes,
        out,
        within,
        not_finite,
        absolute,
        relative,
        ulp,
        largest_at,
        first_out,
        ticket,
    ] = words.as_slice()
    else {
        return None;
    };
    let place = |at: u64| (at != u64::MAX).then_some(at);
    (ticket == wanted).then(|| Judged {
        bytes,
        out,
        within,
        not_finite,
        largest_absolute: absolute.checked_sub(1).map(f64::from_bits),
        largest_relative: relative.checked_sub(1).map(f64::from_bits),
        largest_ulp: ulp.checked_sub(1),
        largest_at: place(largest_at),
        first_out: place(first_out),
    })
}

/// Adds what was found in the part of a job that begins at `offset`.
pub fn join(judged: &mut Judged, mut found: Judged, offset: u64) {
    for at in [&mut found.largest_at, &mut found.first_out] {
        *at = at.map(|at| at + offset);
    }
    judged.merge(&found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_goes_in_several_launches_without_gaps() {
        let most = MOST_TILES * TILE;
        let lens = [10, 0, 2 * most + 5, most, 1];
        let all: Vec<Batch> = batches(lens.into_iter()).collect();
        assert!(
            all.iter()
                .all(|batch| u64::from(batch.tiles()) <= MOST_TILES)
        );
        let mut seen = [0; 5];
        for cut in all.iter().flat_map(Batch::parts) {
            assert_eq!(cut.offset, seen[cut.piece], "in order and without gaps");
            assert_eq!(cut.offset % TILE, 0);
            seen[cut.piece] += cut.len;
        }
        assert_eq!(seen, lens);
        let many: Vec<Batch> = batches(std::iter::repeat_n(1, 2500)).collect();
        let lens: Vec<usize> = many.iter().map(Batch::len).collect();
        assert_eq!(lens, [1024, 1024, 452]);
    }
}
