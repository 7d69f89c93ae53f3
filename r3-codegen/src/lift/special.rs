//! Special registers that LLVM has intrinsics for.

use r3_ptx::isa::SpecialRegister;

/// Special registers that never change while a thread runs, and the intrinsics that read them: LLVM may merge and move
/// such reads.
pub(super) const INTRINSICS: &[(SpecialRegister, &str)] = &[
    (SpecialRegister::TidX, "llvm.nvvm.read.ptx.sreg.tid.x"),
    (SpecialRegister::TidY, "llvm.nvvm.read.ptx.sreg.tid.y"),
    (SpecialRegister::TidZ, "llvm.nvvm.read.ptx.sreg.tid.z"),
    (SpecialRegister::NtidX, "llvm.nvvm.read.ptx.sreg.ntid.x"),
    (SpecialRegister::NtidY, "llvm.nvvm.read.ptx.sreg.ntid.y"),
    (SpecialRegister::NtidZ, "llvm.nvvm.read.ptx.sreg.ntid.z"),
    (SpecialRegister::CtaidX, "llvm.nvvm.read.ptx.sreg.ctaid.x"),
    (SpecialRegister::CtaidY, "llvm.nvvm.read.ptx.sreg.ctaid.y"),
    (SpecialRegister::CtaidZ, "llvm.nvvm.read.ptx.sreg.ctaid.z"),
    (SpecialRegister::NctaidX, "llvm.nvvm.read.ptx.sreg.nctaid.x"),
    (SpecialRegister::NctaidY, "llvm.nvvm.read.ptx.sreg.nctaid.y"),
    (SpecialRegister::NctaidZ, "llvm.nvvm.read.ptx.sreg.nctaid.z"),
    (SpecialRegister::LaneId, "llvm.nvvm.read.ptx.sreg.laneid"),
    (
        SpecialRegister::LanemaskEq,
        "llvm.nvvm.read.ptx.sreg.lanemask.eq",
    ),
    (
        SpecialRegister::LanemaskLe,
        "llvm.nvvm.read.ptx.sreg.lanemask.le",
    ),
    (
        SpecialRegister::LanemaskLt,
        "llvm.nvvm.read.ptx.sreg.lanemask.lt",
    ),
    (
        SpecialRegister::LanemaskGe,
        "llvm.nvvm.read.ptx.sreg.lanemask.ge",
    ),
    (
        SpecialRegister::LanemaskGt,
        "llvm.nvvm.read.ptx.sreg.lanemask.gt",
    ),
    (
        SpecialRegister::ClusteridX,
        "llvm.nvvm.read.ptx.sreg.clusterid.x",
    ),
    (
        SpecialRegister::ClusteridY,
        "llvm.nvvm.read.ptx.sreg.clusterid.y",
    ),
    (
        SpecialRegister::ClusteridZ,
        "llvm.nvvm.read.ptx.sreg.clusterid.z",
    ),
    (
        SpecialRegister::NclusteridX,
        "llvm.nvvm.read.ptx.sreg.nclusterid.x",
    ),
    (
        SpecialRegister::NclusteridY,
        "llvm.nvvm.read.ptx.sreg.nclusterid.y",
    ),
    (
        SpecialRegister::NclusteridZ,
        "llvm.nvvm.read.ptx.sreg.nclusterid.z",
    ),
    (
        SpecialRegister::ClusterCtaidX,
        "llvm.nvvm.read.ptx.sreg.cluster.ctaid.x",
    ),
    (
        SpecialRegister::ClusterCtaidY,
        "llvm.nvvm.read.ptx.sreg.cluster.ctaid.y",
    ),
    (
        SpecialRegister::ClusterCtaidZ,
        "llvm.nvvm.read.ptx.sreg.cluster.ctaid.z",
    ),
    (
        SpecialRegister::ClusterNctaidX,
        "llvm.nvvm.read.ptx.sreg.cluster.nctaid.x",
    ),
    (
        SpecialRegister::ClusterNctaidY,
        "llvm.nvvm.read.ptx.sreg.cluster.nctaid.y",
    ),
    (
        SpecialRegister::ClusterNctaidZ,
        "llvm.nvvm.read.ptx.sreg.cluster.nctaid.z",
    ),
    (
        SpecialRegister::ClusterCtarank,
        "llvm.nvvm.read.ptx.sreg.cluster.ctarank",
    ),
    (
        SpecialRegister::ClusterNctarank,
        "llvm.nvvm.read.ptx.sreg.cluster.nctarank",
    ),
];
