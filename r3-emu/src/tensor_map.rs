//! Tensor maps: what `cp.async.bulk.tensor` reads about a tensor in global memory.
//!
//! The 128 bytes of a `CUtensorMap` are opaque and their layout on real GPUs is not published. This device has its own,
//! which begins with [`MAGIC`]; a software driver fills it with [`encode`]. The bytes of a real driver do not have the
//! magic and are refused by name, so a captured map needs the arguments of the `cuTensorMapEncode…` call that made it.
//!
//! Numbers of enums are those of `cuda.h`.

/// First bytes of a map of this device.
pub const MAGIC: [u8; 4] = *b"R3TM";

/// Bytes of a map.
pub const SIZE: usize = 128;

/// A tensor and the box that one instruction moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Type of an element.
    pub data_type: DataType,
    /// Dimensions, 1 to 5.
    pub rank: u8,
    /// Address of the first element.
    pub address: u64,
    /// Elements in each dimension, the fastest first.
    pub dims: [u64; 5],
    /// Bytes from one to the next, of dimensions 1 to 4.
    pub strides: [u64; 4],
    /// Elements of the box in each dimension.
    pub box_dims: [u32; 5],
    /// Each how many-th element of the box is moved, in each dimension.
    pub element_strides: [u32; 5],
    /// `CUtensorMapInterleave`: 0 none, 1 16 bytes, 2 32 bytes.
    pub interleave: u8,
    /// How the 16-byte chunks are permuted in shared memory.
    pub swizzle: Swizzle,
    /// `CUtensorMapL2promotion`: kept, without effect.
    pub l2_promotion: u8,
    /// What is outside the tensor reads as NaN, not as 0.
    pub nan_fill: bool,
    /// Of the im2col mode; `None` in the tiled one.
    pub im2col: Option<Im2col>,
}

/// The further arguments of im2col maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Im2col {
    /// Lower corner of the bounding box, of the spatial dimensions, W first.
    pub lower: [i16; 3],
    /// Upper corner.
    pub upper: [i16; 3],
    /// Channels that one instruction moves of each pixel.
    pub channels: u16,
    /// Pixels that one instruction moves.
    pub pixels: u16,
}

macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant = $value,)* }

        impl $name {
            /// From the number in `cuda.h`.
            pub fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
/// `CUtensorMapDataType`, without the packed 4- and 6-bit types.
DataType {
    /// 8 bits.
    U8 = 0,
    /// 16 bits.
    U16 = 1,
    /// 32 bits.
    U32 = 2,
    /// 32 bits, signed.
    S32 = 3,
    /// 64 bits.
    U64 = 4,
    /// 64 bits, signed.
    S64 = 5,
    /// Half precision.
    F16 = 6,
    /// Single precision.
    F32 = 7,
    /// Double precision.
    F64 = 8,
    /// bfloat16.
    Bf16 = 9,
    /// Single precision, denormals read as 0.
    F32Ftz = 10,
    /// Single precision, rounded to 10 bits of mantissa when it is read.
    Tf32 = 11,
    /// Both.
    Tf32Ftz = 12,
}
}

numbered! {
/// `CUtensorMapSwizzle`.
Swizzle {
    /// None.
    None = 0,
    /// Within 32 bytes.
    B32 = 1,
    /// Within 64 bytes.
    B64 = 2,
    /// Within 128 bytes.
    B128 = 3,
    /// Within 128 bytes, in units of 32.
    B128Atom32 = 4,
    /// The same, with the 8-byte halves of each 16 exchanged in odd rows.
    B128Atom32Flip8 = 5,
    /// Within 128 bytes, in units of 64.
    B128Atom64 = 6,
}
}

impl DataType {
    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U64 | Self::S64 | Self::F64 => 8,
            _ => 4,
        }
    }

    /// The NaN with which a load fills what is outside.
    pub(crate) fn nan(self) -> u64 {
        match self {
            Self::F16 => 0x7fff,
            Self::Bf16 => 0x7fff,
            Self::F64 => 0x7fff_ffff_ffff_ffff,
            _ => 0x7fff_ffff,
        }
    }

    fn is_float(self) -> bool {
        !matches!(
            self,
            Self::U8 | Self::U16 | Self::U32 | Self::S32 | Self::U64 | Self::S64
        )
    }
}

impl Swizzle {
    /// Bytes within which chunks are permuted: a row of the box is at most so long, and takes so much room.
    pub fn span(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            _ => Some(128),
        }
    }

    /// Where the byte that belongs at shared address `address` goes.
    #[inline]
    pub fn apply(self, address: u32) -> u32 {
        let row = address >> 7;
        match self {
            Self::None => address,
            Self::B32 => address ^ ((row & 1) << 4),
            Self::B64 => address ^ ((row & 3) << 4),
            Self::B128 => address ^ ((row & 7) << 4),
            Self::B128Atom32 => address ^ ((row & 3) << 5),
            Self::B128Atom32Flip8 => address ^ ((row & 3) << 5) ^ ((row & 1) << 3),
            Self::B128Atom64 => address ^ ((row & 1) << 6),
        }
    }
}

/// Why a tensor map is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// An argument is outside what the driver's documentation allows.
    #[error("tensor map: {what} is {value}, {expected} is expected")]
    Argument {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        expected: &'static str,
    },
    /// The bytes were not made by [`encode`].
    #[error(
        "the 128 bytes of the tensor map are not of this device: {0}. The layout of a GPU driver's maps is not \
         published; make the map with cuTensorMapEncode… of the software driver"
    )]
    Foreign(&'static str),
}

fn allowed(
    ok: bool,
    what: &'static str,
    value: u64,
    expected: &'static str,
) -> Result<(), TensorMapError> {
    if ok {
        return Ok(());
    }
    Err(TensorMapError::Argument {
        what,
        value,
        expected,
    })
}

/// Checks the arguments as the driver's documentation states them, and writes the map.
pub fn encode(map: &TensorMap) -> Result<[u8; SIZE], TensorMapError> {
    map.validate()?;
    let mut w = Writer::default();
    w.put(&MAGIC);
    w.put(&[
        map.data_type as u8,
        map.rank,
        map.interleave,
        map.swizzle as u8,
        map.l2_promotion,
        u8::from(map.nan_fill),
        u8::from(map.im2col.is_some()),
        0,
    ]);
    w.put(&[0; 4]);
    w.put(&map.address.to_le_bytes());
    for stride in map.strides {
        w.put(&stride.to_le_bytes());
    }
    for dim in map.dims {
        // 1 to 2^32 elements.
        w.put(&(dim.wrapping_sub(1) as u32).to_le_bytes());
    }
    for n in map.box_dims {
        w.put(&(n as u16).to_le_bytes());
    }
    for n in map.element_strides {
        w.put(&[n as u8]);
    }
    w.put(&[0]);
    let im2col = map.im2col.unwrap_or(Im2col {
        lower: [0; 3],
        upper: [0; 3],
        channels: 0,
        pixels: 0,
    });
    for n in im2col.lower.iter().chain(&im2col.upper) {
        w.put(&n.to_le_bytes());
    }
    w.put(&im2col.channels.to_le_bytes());
    w.put(&im2col.pixels.to_le_bytes());
    Ok(w.bytes)
}

/// Reads a map that [`encode`] wrote (and that `tensormap.replace` may have changed).
pub fn decode(bytes: &[u8; SIZE]) -> Result<TensorMap, TensorMapError> {
    let mut r = Reader { bytes, at: 0 };
    if r.take::<4>() != MAGIC {
        let zero = bytes.iter().all(|b| *b == 0);
        return Err(TensorMapError::Foreign(if zero {
            "they are zeros"
        } else {
            "they do not begin with R3TM"
        }));
    }
    let [
        data_type,
        rank,
        interleave,
        swizzle,
        l2_promotion,
        nan_fill,
        im2col,
        _,
    ] = r.take::<8>();
    r.take::<4>();
    let foreign = |what| TensorMapError::Foreign(what);
    let address = u64::from_le_bytes(r.take());
    let strides = std::array::from_fn(|_| u64::from_le_bytes(r.take()));
    let dims = std::array::from_fn(|_| u64::from(u32::from_le_bytes(r.take())) + 1);
    let box_dims = std::array::from_fn(|_| u32::from(u16::from_le_bytes(r.take())));
    let element_strides = std::array::from_fn(|_| u32::from(u8::from_le_bytes(r.take())));
    r.take::<1>();
    let more = Im2col {
        lower: std::array::from_fn(|_| i16::from_le_bytes(r.take())),
        upper: std::array::from_fn(|_| i16::from_le_bytes(r.take())),
        channels: u16::from_le_bytes(r.take()),
        pixels: u16::from_le_bytes(r.take()),
    };
    Ok(TensorMap {
        data_type: DataType::from_number(data_type.into())
            .ok_or(foreign("their type is unknown"))?,
        rank,
        address,
        dims,
        strides,
        box_dims,
        element_strides,
        interleave,
        swizzle: Swizzle::from_number(swizzle.into()).ok_or(foreign("their swizzle is unknown"))?,
        l2_promotion,
        nan_fill: nan_fill != 0,
        im2col: (im2col != 0).then_some(more),
    })
}

impl TensorMap {
    /// The limits that the driver's documentation states.
    pub fn validate(&self) -> Result<(), TensorMapError> {
        let rank = usize::from(self.rank);
        let least = match (&self.im2col, self.interleave) {
            (None, 0) => 1,
            _ => 3,
        };
        allowed(
            (least..=5).contains(&rank),
            "tensorRank",
            rank as u64,
            "1 to 5 (3 to 5 for im2col and interleaved ones)",
        )?;
        let bytes = u64::from(self.data_type.bytes());
        let align = if self.interleave == 2 { 32 } else { 16 };
        let aligned = "a multiple of 16 (of 32 when interleaved by 32 bytes)";
        allowed(
            self.address.is_multiple_of(align),
            "globalAddress",
            self.address,
            aligned,
        )?;
        for &dim in &self.dims[..rank] {
            allowed((1..=1 << 32).contains(&dim), "globalDim", dim, "1 to 2^32")?;
        }
        for &stride in &self.strides[..rank - 1] {
            allowed(
                stride.is_multiple_of(align) && stride < 1 << 40,
                "globalStrides",
                stride,
                "a multiple of 16 (32 when interleaved by 32 bytes) below 2^40",
            )?;
        }
        allowed(
            self.interleave <= 2,
            "interleave",
            self.interleave.into(),
            "0 to 2",
        )?;
        for &n in &self.element_strides[..rank] {
            allowed((1..=8).contains(&n), "elementStrides", n.into(), "1 to 8")?;
        }
        allowed(
            !self.nan_fill || self.data_type.is_float(),
            "oobFill",
            1,
            "0 for a type of integers",
        )?;
        let inner = match &self.im2col {
            Some(im2col) => {
                allowed(
                    (1..=256).contains(&im2col.channels),
                    "channelsPerPixel",
                    im2col.channels.into(),
                    "1 to 256",
                )?;
                allowed(
                    (1..=1024).contains(&im2col.pixels),
                    "pixelsPerColumn",
                    im2col.pixels.into(),
                    "1 to 1024",
                )?;
                u64::from(im2col.channels) * bytes
            }
            None => {
                for &n in &self.box_dims[..rank] {
                    allowed((1..=256).contains(&n), "boxDim", n.into(), "1 to 256")?;
                }
                u64::from(self.box_dims[0]) * bytes
            }
        };
        if self.interleave == 0 {
            allowed(
                inner.is_multiple_of(16),
                "bytes of the box in its first dimension",
                inner,
                "a multiple of 16",
            )?;
            if let Some(span) = self.swizzle.span() {
                allowed(
                    inner <= u64::from(span),
                    "bytes of the box in its first dimension",
                    inner,
                    "at most the bytes of the swizzle",
                )?;
            }
        }
        Ok(())
    }
}

/// Fields that `tensormap.replace` changes: offset and bytes in the map.
pub(crate) mod field {
    /// `.elemtype`
    pub const DATA_TYPE: (usize, usize) = (4, 1);
    /// `.rank`: the operand is the rank less one.
    pub const RANK: (usize, usize) = (5, 1);
    /// `.interleave_layout`
    pub const INTERLEAVE: (usize, usize) = (6, 1);
    /// `.swizzle_mode`
    pub const SWIZZLE: (usize, usize) = (7, 1);
    /// `.fill_mode`
    pub const FILL: (usize, usize) = (9, 1);
    /// `.global_address`
    pub const ADDRESS: (usize, usize) = (16, 8);
    /// `.global_stride`, of dimension 1 and on.
    pub const STRIDES: (usize, usize) = (24, 8);
    /// `.global_dim`, less one in the map.
    pub const DIMS: (usize, usize) = (56, 4);
    /// `.box_dim`
    pub const BOX: (usize, usize) = (76, 2);
    /// `.element_stride`
    pub const ELEMENT_STRIDES: (usize, usize) = (86, 1);
}

struct Writer {
    bytes: [u8; SIZE],
    at: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            bytes: [0; SIZE],
            at: 0,
        }
    }
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        for b in bytes {
            if let Some(slot) = self.bytes.get_mut(self.at) {
                *slot = *b;
            }
            self.at += 1;
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8; SIZE],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let out = std::array::from_fn(|i| self.bytes.get(self.at + i).copied().unwrap_or(0));
        self.at += N;
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TensorMap {
        TensorMap {
            data_type: DataType::F16,
            rank: 3,
            address: 0x7f00_1234_5600,
            dims: [1 << 32, 77, 5, 1, 1],
            strides: [1 << 34, 0x1230, 16, 32],
            box_dims: [64, 8, 2, 1, 1],
            element_strides: [1, 2, 8, 1, 1],
            interleave: 0,
            swizzle: Swizzle::B128,
            l2_promotion: 2,
            nan_fill: true,
            im2col: None,
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let map = sample();
        assert_eq!(decode(&encode(&map).unwrap()), Ok(map.clone()));
        let map = TensorMap {
            im2col: Some(Im2col {
                lower: [-3, 4, 0],
                upper: [7, -1, 2],
                channels: 64,
                pixels: 128,
            }),
            ..map
        };
        assert_eq!(decode(&encode(&map).unwrap()), Ok(map));
    }

    #[test]
    fn fields_are_where_replace_writes_them() {
        let map = sample();
        let bytes = encode(&map).unwrap();
        let read = |(at, len): (usize, usize), i: usize| {
            let mut out = [0; 8];
            out[..len].copy_from_slice(&bytes[at + i * len..][..len]);
            u64::from_le_bytes(out)
        };
        assert_eq!(read(field::DATA_TYPE, 0), 6);
        assert_eq!(read(field::RANK, 0), 3);
        assert_eq!(read(field::SWIZZLE, 0), 3);
        assert_eq!(read(field::FILL, 0), 1);
        assert_eq!(read(field::ADDRESS, 0), map.address);
        assert_eq!(read(field::STRIDES, 1), 0x1230);
        assert_eq!(read(field::DIMS, 1), 76);
        assert_eq!(read(field::BOX, 0), 64);
        assert_eq!(read(field::ELEMENT_STRIDES, 2), 8);
    }

    #[test]
    fn maps_of_a_gpu_driver_are_refused_by_name() {
        let mut bytes = [0x5a; SIZE];
        let text = decode(&bytes).unwrap_err().to_string();
        assert!(text.contains("not of this device"), "{text}");
        bytes.fill(0);
        assert_eq!(
            decode(&bytes),
            Err(TensorMapError::Foreign("they are zeros"))
        );
    }

    #[test]
    fn arguments_outside_the_documented_limits_are_refused() {
        let bad = |change: fn(&mut TensorMap)| {
            let mut map = sample();
            change(&mut map);
            encode(&map).unwrap_err().to_string()
        };
        insta::assert_snapshot!(
            [
                bad(|m| m.rank = 6),
                bad(|m| m.address += 8),
                bad(|m| m.strides[1] = 24),
                bad(|m| m.box_dims[0] = 128),
                bad(|m| m.box_dims[1] = 257),
                bad(|m| m.element_strides[1] = 9),
                bad(|m| m.data_type = DataType::U16),
            ]
            .join("\n"),
            @r"
        tensor map: tensorRank is 6, 1 to 5 (3 to 5 for im2col and interleaved ones) is expected
        tensor map: globalAddress is 139638282147336, a multiple of 16 (of 32 when interleaved by 32 bytes) is expected
        tensor map: globalStrides is 24, a multiple of 16 (32 when interleaved by 32 bytes) below 2^40 is expected
        tensor map: bytes of the box in its first dimension is 256, at most the bytes of the swizzle is expected
        tensor map: boxDim is 257, 1 to 256 is expected
        tensor map: elementStrides is 9, 1 to 8 is expected
        tensor map: oobFill is 1, 0 for a type of integers is expected
        ");
    }

    #[test]
    fn swizzles_permute_the_chunks_of_eight_rows() {
        // The eighth row of 128 bytes, first chunk.
        let at = 7 * 128;
        assert_eq!(Swizzle::B128.apply(at), at + 7 * 16);
        assert_eq!(Swizzle::B64.apply(at), at + 3 * 16);
        assert_eq!(Swizzle::B32.apply(at), at + 16);
        for swizzle in [
            Swizzle::B32,
            Swizzle::B64,
            Swizzle::B128,
            Swizzle::B128Atom32,
        ] {
            let mut all: Vec<u32> = (0..2048).map(|a| swizzle.apply(a)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..2048));
        }
    }
}
