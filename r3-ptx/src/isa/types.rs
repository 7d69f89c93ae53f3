//! Types of registers, memory and operands.

use super::table::words;

words! {
/// A fundamental, packed or alternate type.
ScalarType {
    Pred = "pred",
    B1 = "b1",
    B8 = "b8",
    B16 = "b16",
    B32 = "b32",
    B64 = "b64",
    B128 = "b128",
    B1024 = "b1024",
    U2 = "u2",
    U4 = "u4",
    U8 = "u8",
    U16 = "u16",
    U32 = "u32",
    U64 = "u64",
    U8x4 = "u8x4",
    U16x2 = "u16x2",
    S2 = "s2",
    S4 = "s4",
    S8 = "s8",
    S16 = "s16",
    S32 = "s32",
    S64 = "s64",
    S8x4 = "s8x4",
    S16x2 = "s16x2",
    F16 = "f16",
    F16x2 = "f16x2",
    BF16 = "bf16",
    BF16x2 = "bf16x2",
    TF32 = "tf32",
    F32 = "f32",
    F32x2 = "f32x2",
    F64 = "f64",
    E4M3 = "e4m3",
    E5M2 = "e5m2",
    E2M1 = "e2m1",
    E2M3 = "e2m3",
    E3M2 = "e3m2",
    UE8M0 = "ue8m0",
    UE4M3 = "ue4m3",
    E4M3x2 = "e4m3x2",
    E5M2x2 = "e5m2x2",
    E2M1x2 = "e2m1x2",
    E2M3x2 = "e2m3x2",
    E3M2x2 = "e3m2x2",
    UE8M0x2 = "ue8m0x2",
    E4M3x4 = "e4m3x4",
    E5M2x4 = "e5m2x4",
    E2M1x4 = "e2m1x4",
    E2M3x4 = "e2m3x4",
    E3M2x4 = "e3m2x4",
    S2f6x2 = "s2f6x2",
    TexRef = "texref",
    SamplerRef = "samplerref",
    SurfRef = "surfref",
}
}

/// What the bits of a type mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeKind {
    /// `.pred`
    Pred,
    /// Bits without meaning.
    Bits,
    /// An unsigned integer.
    Unsigned,
    /// A signed integer in two's complement.
    Signed,
    /// A floating-point number of any format.
    Float,
    /// A texture, sampler or surface.
    Opaque,
}

/// Bits, kind and lanes of each type, in the order of [`ScalarType`].
const LAYOUT: &[(ScalarType, u16, TypeKind, u8)] = &[
    (ScalarType::Pred, 1, TypeKind::Pred, 1),
    (ScalarType::B1, 1, TypeKind::Bits, 1),
    (ScalarType::B8, 8, TypeKind::Bits, 1),
    (ScalarType::B16, 16, TypeKind::Bits, 1),
    (ScalarType::B32, 32, TypeKind::Bits, 1),
    (ScalarType::B64, 64, TypeKind::Bits, 1),
    (ScalarType::B128, 128, TypeKind::Bits, 1),
    (ScalarType::B1024, 1024, TypeKind::Bits, 1),
    (ScalarType::U2, 2, TypeKind::Unsigned, 1),
    (ScalarType::U4, 4, TypeKind::Unsigned, 1),
    (ScalarType::U8, 8, TypeKind::Unsigned, 1),
    (ScalarType::U16, 16, TypeKind::Unsigned, 1),
    (ScalarType::U32, 32, TypeKind::Unsigned, 1),
    (ScalarType::U64, 64, TypeKind::Unsigned, 1),
    (ScalarType::U8x4, 32, TypeKind::Unsigned, 4),
    (ScalarType::U16x2, 32, TypeKind::Unsigned, 2),
    (ScalarType::S2, 2, TypeKind::Signed, 1),
    (ScalarType::S4, 4, TypeKind::Signed, 1),
    (ScalarType::S8, 8, TypeKind::Signed, 1),
    (ScalarType::S16, 16, TypeKind::Signed, 1),
    (ScalarType::S32, 32, TypeKind::Signed, 1),
    (ScalarType::S64, 64, TypeKind::Signed, 1),
    (ScalarType::S8x4, 32, TypeKind::Signed, 4),
    (ScalarType::S16x2, 32, TypeKind::Signed, 2),
    (ScalarType::F16, 16, TypeKind::Float, 1),
    (ScalarType::F16x2, 32, TypeKind::Float, 2),
    (ScalarType::BF16, 16, TypeKind::Float, 1),
    (ScalarType::BF16x2, 32, TypeKind::Float, 2),
    (ScalarType::TF32, 32, TypeKind::Float, 1),
    (ScalarType::F32, 32, TypeKind::Float, 1),
    (ScalarType::F32x2, 64, TypeKind::Float, 2),
    (ScalarType::F64, 64, TypeKind::Float, 1),
    (ScalarType::E4M3, 8, TypeKind::Float, 1),
    (ScalarType::E5M2, 8, TypeKind::Float, 1),
    (ScalarType::E2M1, 4, TypeKind::Float, 1),
    (ScalarType::E2M3, 6, TypeKind::Float, 1),
    (ScalarType::E3M2, 6, TypeKind::Float, 1),
    (ScalarType::UE8M0, 8, TypeKind::Float, 1),
    (ScalarType::UE4M3, 8, TypeKind::Float, 1),
    (ScalarType::E4M3x2, 16, TypeKind::Float, 2),
    (ScalarType::E5M2x2, 16, TypeKind::Float, 2),
    (ScalarType::E2M1x2, 8, TypeKind::Float, 2),
    (ScalarType::E2M3x2, 16, TypeKind::Float, 2),
    (ScalarType::E3M2x2, 16, TypeKind::Float, 2),
    (ScalarType::UE8M0x2, 16, TypeKind::Float, 2),
    (ScalarType::E4M3x4, 32, TypeKind::Float, 4),
    (ScalarType::E5M2x4, 32, TypeKind::Float, 4),
    (ScalarType::E2M1x4, 16, TypeKind::Float, 4),
    (ScalarType::E2M3x4, 32, TypeKind::Float, 4),
    (ScalarType::E3M2x4, 32, TypeKind::Float, 4),
    (ScalarType::S2f6x2, 16, TypeKind::Signed, 2),
    (ScalarType::TexRef, 64, TypeKind::Opaque, 1),
    (ScalarType::SamplerRef, 64, TypeKind::Opaque, 1),
    (ScalarType::SurfRef, 64, TypeKind::Opaque, 1),
];

impl ScalarType {
    fn layout(self) -> (u16, TypeKind, u8) {
        LAYOUT
            .get(self as usize)
            .map_or((0, TypeKind::Bits, 1), |&(_, bits, kind, lanes)| {
                (bits, kind, lanes)
            })
    }

    /// Bits, padding of a sub-byte format apart: 6 for `.e2m3`.
    pub fn bits(self) -> u32 {
        u32::from(self.layout().0)
    }

    /// Bytes in memory. A predicate and a format below 8 bits have 1.
    pub fn bytes(self) -> u64 {
        u64::from(self.layout().0).div_ceil(8)
    }

    /// What the bits mean.
    pub fn kind(self) -> TypeKind {
        self.layout().1
    }

    /// Packed elements: 2 of `.f16x2`, 1 of a plain type.
    pub fn lanes(self) -> u8 {
        self.layout().2
    }

    /// A floating-point format, packed or not.
    pub fn is_float(self) -> bool {
        self.kind() == TypeKind::Float
    }

    /// A signed integer, packed or not.
    pub fn is_signed(self) -> bool {
        self.kind() == TypeKind::Signed
    }

    /// An unsigned integer, packed or not.
    pub fn is_unsigned(self) -> bool {
        self.kind() == TypeKind::Unsigned
    }

    /// A signed or unsigned integer, packed or not.
    pub fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// One of `.b8` … `.b128`.
    pub fn is_bits(self) -> bool {
        self.kind() == TypeKind::Bits
    }
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// `.reg`
    Reg,
    /// `.sreg`
    SReg,
    /// `.const`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param`
    Param,
    /// `.param::entry`
    ParamEntry,
    /// `.param::func`
    ParamFunc,
    /// `.shared`
    Shared,
    /// `.shared::cta`
    SharedCta,
    /// `.shared::cluster`
    SharedCluster,
    /// `.tex`
    Tex,
    /// No space given: a generic address.
    Generic,
}

impl Space {
    const TEXTS: &[(Self, &str)] = &[
        (Self::Reg, "reg"),
        (Self::SReg, "sreg"),
        (Self::Const, "const"),
        (Self::Global, "global"),
        (Self::Local, "local"),
        (Self::Param, "param"),
        (Self::ParamEntry, "param::entry"),
        (Self::ParamFunc, "param::func"),
        (Self::Shared, "shared"),
        (Self::SharedCta, "shared::cta"),
        (Self::SharedCluster, "shared::cluster"),
        (Self::Tex, "tex"),
        (Self::Generic, "generic"),
    ];

    /// Reads the name of a space, without its dot.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::TEXTS
            .iter()
            .find(|(_, name)| *name == text)
            .map(|&(space, _)| space)
    }

    /// Name, without its dot.
    pub fn text(self) -> &'static str {
        Self::TEXTS
            .iter()
            .find(|(space, _)| *space == self)
            .map_or("", |&(_, name)| name)
    }

    /// One of the spellings of shared memory.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::SharedCta | Self::SharedCluster)
    }

    /// One of the spellings of parameter space.
    pub fn is_param(self) -> bool {
        matches!(self, Self::Param | Self::ParamEntry | Self::ParamFunc)
    }
}
