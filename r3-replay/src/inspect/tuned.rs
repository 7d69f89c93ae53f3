//! Tuned kernels, for `info`.

use r3_archive::Archive;
use r3_archive::model::{TunedForm, TunedId, TunedKernelRecord};
use serde::Serialize;

use crate::names::{printable, readable};

/// A tuned kernel: a result of `r3-evolve tune` or `evolve`.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// Number.
    pub id: TunedId,
    /// Readable name of the kernel that it stands for.
    pub name: String,
    /// Name as in the code.
    pub mangled: String,
    /// Time as a part of the original's: median, low, high.
    pub ratio: [f64; 3],
    /// Device on which that was measured.
    pub device: String,
    /// Its compute capability.
    pub compute_capability: (i32, i32),
    /// Its code's forms, for people. None: the application's own code, launched in another shape.
    pub forms: Vec<&'static str>,
    /// Bytes of its code.
    pub code_bytes: u64,
    /// Block that it is launched with, where it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
    /// Conditions under which it may stand for the original.
    pub guards: usize,
    /// Launches that it was verified on.
    pub verified: u64,
    /// Those of them that did not decide.
    pub held_out: u64,
    /// Whether results may differ within a tolerance.
    pub approximate: bool,
    /// The file that was varied, where its source was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Version of R3 that made it.
    pub r3_version: String,
}

/// The tuned kernels of an archive.
pub fn tuned(archive: &Archive) -> Vec<Tuned> {
    archive.tuned().iter().map(of).collect()
}

fn of(record: &TunedKernelRecord) -> Tuned {
    let spell = |form: TunedForm| match form {
        TunedForm::Cubin => "cubin",
        TunedForm::Ptx => "PTX",
        TunedForm::Llvm => "LLVM IR",
    };
    let (mut verified, mut held_out) = (0u64, 0u64);
    for shape in &record.shapes {
        held_out = held_out.saturating_add(u64::from(shape.held_out));
        verified = verified
            .saturating_add(u64::from(shape.tuned))
            .saturating_add(u64::from(shape.held_out));
    }
    Tuned {
        id: record.id,
        name: printable(&readable(&record.kernel)),
        mangled: printable(&record.kernel),
        ratio: record.ratio,
        device: printable(&record.device),
        compute_capability: record.compute_capability,
        forms: record.code.iter().map(|code| spell(code.form)).collect(),
        code_bytes: record
            .code
            .iter()
            .fold(0, |sum, code| sum.saturating_add(code.code.len)),
        block: record.launch.block,
        guards: record.guards.len(),
        verified,
        held_out,
        approximate: record.approximate,
        source: record.source.as_ref().map(|source| printable(&source.name)),
        r3_version: printable(&record.r3_version),
    }
}
