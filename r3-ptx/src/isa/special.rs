//! Special registers.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use super::ScalarType;

macro_rules! special_registers {
    ($($variant:ident = $text:literal, $ty:ident, $vector:literal;)*) => {
        /// A special register, read only.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SpecialRegister {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
            /// `%envreg0` … `%envreg31`
            Envreg(u8),
            /// `%pm0` … `%pm7`
            Pm(u8),
            /// `%pm0_64` … `%pm7_64`
            Pm64(u8),
            /// `%reserved_smem_offset_0`, `%reserved_smem_offset_1`
            ReservedSmemOffset(u8),
        }

        /// Those without a number: register, text, type, elements.
        const PLAIN: &[(SpecialRegister, &str, ScalarType, u8)] =
            &[$((SpecialRegister::$variant, $text, ScalarType::$ty, $vector),)*];
    };
}

special_registers! {
    Tid = "%tid", U32, 4;
    TidX = "%tid.x", U32, 1;
    TidY = "%tid.y", U32, 1;
    TidZ = "%tid.z", U32, 1;
    TidW = "%tid.w", U32, 1;
    Ntid = "%ntid", U32, 4;
    NtidX = "%ntid.x", U32, 1;
    NtidY = "%ntid.y", U32, 1;
    NtidZ = "%ntid.z", U32, 1;
    NtidW = "%ntid.w", U32, 1;
    Ctaid = "%ctaid", U32, 4;
    CtaidX = "%ctaid.x", U32, 1;
    CtaidY = "%ctaid.y", U32, 1;
    CtaidZ = "%ctaid.z", U32, 1;
    CtaidW = "%ctaid.w", U32, 1;
    Nctaid = "%nctaid", U32, 4;
    NctaidX = "%nctaid.x", U32, 1;
    NctaidY = "%nctaid.y", U32, 1;
    NctaidZ = "%nctaid.z", U32, 1;
    NctaidW = "%nctaid.w", U32, 1;
    Clusterid = "%clusterid", U32, 4;
    ClusteridX = "%clusterid.x", U32, 1;
    ClusteridY = "%clusterid.y", U32, 1;
    ClusteridZ = "%clusterid.z", U32, 1;
    ClusteridW = "%clusterid.w", U32, 1;
    Nclusterid = "%nclusterid", U32, 4;
    NclusteridX = "%nclusterid.x", U32, 1;
    NclusteridY = "%nclusterid.y", U32, 1;
    NclusteridZ = "%nclusterid.z", U32, 1;
    NclusteridW = "%nclusterid.w", U32, 1;
    ClusterCtaid = "%cluster_ctaid", U32, 4;
    ClusterCtaidX = "%cluster_ctaid.x", U32, 1;
    ClusterCtaidY = "%cluster_ctaid.y", U32, 1;
    ClusterCtaidZ = "%cluster_ctaid.z", U32, 1;
    ClusterCtaidW = "%cluster_ctaid.w", U32, 1;
    ClusterNctaid = "%cluster_nctaid", U32, 4;
    ClusterNctaidX = "%cluster_nctaid.x", U32, 1;
    ClusterNctaidY = "%cluster_nctaid.y", U32, 1;
    ClusterNctaidZ = "%cluster_nctaid.z", U32, 1;
    ClusterNctaidW = "%cluster_nctaid.w", U32, 1;
    LaneId = "%laneid", U32, 1;
    WarpId = "%warpid", U32, 1;
    NwarpId = "%nwarpid", U32, 1;
    SmId = "%smid", U32, 1;
    NsmId = "%nsmid", U32, 1;
    LanemaskEq = "%lanemask_eq", U32, 1;
    LanemaskLe = "%lanemask_le", U32, 1;
    LanemaskLt = "%lanemask_lt", U32, 1;
    LanemaskGe = "%lanemask_ge", U32, 1;
    LanemaskGt = "%lanemask_gt", U32, 1;
    Clock = "%clock", U32, 1;
    ClockHi = "%clock_hi", U32, 1;
    TotalSmemSize = "%total_smem_size", U32, 1;
    AggrSmemSize = "%aggr_smem_size", U32, 1;
    DynamicSmemSize = "%dynamic_smem_size", U32, 1;
    ClusterCtarank = "%cluster_ctarank", U32, 1;
    ClusterNctarank = "%cluster_nctarank", U32, 1;
    GlobaltimerLo = "%globaltimer_lo", U32, 1;
    GlobaltimerHi = "%globaltimer_hi", U32, 1;
    ReservedSmemOffsetBegin = "%reserved_smem_offset_begin", U32, 1;
    ReservedSmemOffsetEnd = "%reserved_smem_offset_end", U32, 1;
    ReservedSmemOffsetCap = "%reserved_smem_offset_cap", U32, 1;
    LocalityDomainId = "%locality_domain_id", U32, 1;
    GridId = "%gridid", U64, 1;
    Clock64 = "%clock64", U64, 1;
    Globaltimer = "%globaltimer", U64, 1;
    CurrentGraphExec = "%current_graph_exec", U64, 1;
    IsExplicitCluster = "%is_explicit_cluster", Pred, 1;
}

impl SpecialRegister {
    /// Those without a number, in the order of the table.
    pub fn plain() -> impl Iterator<Item = Self> {
        PLAIN.iter().map(|entry| entry.0)
    }

    /// Reads one, `%` and element included: `%tid.x`, `%laneid`, `%envreg3`.
    pub fn from_text(text: &str) -> Option<Self> {
        static INDEX: LazyLock<HashMap<&'static str, SpecialRegister>> =
            LazyLock::new(|| PLAIN.iter().map(|entry| (entry.1, entry.0)).collect());
        if let Some(&register) = INDEX.get(text) {
            return Some(register);
        }
        let number = |digits: &str, below: u8| {
            let plain = digits.len() == 1 || !digits.starts_with('0');
            digits.parse().ok().filter(|&n: &u8| plain && n < below)
        };
        if let Some(n) = text.strip_prefix("%envreg") {
            return number(n, 32).map(Self::Envreg);
        }
        if let Some(n) = text.strip_prefix("%reserved_smem_offset_") {
            return number(n, 2).map(Self::ReservedSmemOffset);
        }
        let n = text.strip_prefix("%pm")?;
        match n.strip_suffix("_64") {
            Some(n) => number(n, 8).map(Self::Pm64),
            None => number(n, 8).map(Self::Pm),
        }
    }

    /// Type of an element.
    pub fn ty(self) -> ScalarType {
        match self {
            Self::Envreg(_) | Self::Pm(_) | Self::ReservedSmemOffset(_) => ScalarType::U32,
            Self::Pm64(_) => ScalarType::U64,
            _ => self.entry().map_or(ScalarType::U32, |entry| entry.2),
        }
    }

    /// Elements: 4 of a vector named as a whole (`%tid`), else 1.
    pub fn vector(self) -> u8 {
        self.entry().map_or(1, |entry| entry.3)
    }

    fn entry(self) -> Option<&'static (Self, &'static str, ScalarType, u8)> {
        PLAIN.iter().find(|entry| entry.0 == self)
    }
}

impl fmt::Display for SpecialRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Envreg(n) => write!(f, "%envreg{n}"),
            Self::Pm(n) => write!(f, "%pm{n}"),
            Self::Pm64(n) => write!(f, "%pm{n}_64"),
            Self::ReservedSmemOffset(n) => write!(f, "%reserved_smem_offset_{n}"),
            _ => f.write_str(self.entry().map_or("", |entry| entry.1)),
        }
    }
}
