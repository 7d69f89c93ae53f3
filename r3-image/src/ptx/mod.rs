//! What PTX text declares: entries with their parameters, and module variables.
//!
//! This is a scanner of declarations, not a parser of PTX: function bodies are skipped, except for
//! the names of the functions they call.

mod calls;
mod declarator;
mod lexer;
mod scan;

use crate::entry::{CodeForm, Contents};
use crate::kernel::{KernelInfo, Param, Space, Variable, is_compiler_made, threads};
use crate::problem::Problem;
use lexer::{Lexer, Token};

/// What a PTX module declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PtxModule {
    /// `.version`, e.g. (8, 8).
    pub version: (u16, u16),
    /// `.target`, e.g. `["sm_90a", "debug"]`.
    pub target: Vec<String>,
    /// `.address_size`; 32 when the text does not say.
    pub address_size: u32,
    /// Entry functions with a body, in the order of the text.
    pub entries: Vec<PtxEntry>,
    /// Variables of the module in `.global` and `.const`, in the order of the text.
    pub variables: Vec<PtxVariable>,
    /// Functions that are declared `.extern`.
    pub externs: Vec<String>,
    /// What was not understood.
    pub problems: Vec<Problem>,
}

/// An entry function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PtxEntry {
    /// Name.
    pub name: String,
    /// Parameters in order. Empty, too, when they are not known.
    pub params: Vec<PtxParam>,
    /// `params` is what the text declares. `false` when one of them could not be understood.
    pub params_known: bool,
    /// `.maxntid`; dimensions that are not given are 1.
    pub max_block: Option<[u32; 3]>,
    /// `.reqntid`; dimensions that are not given are 1.
    pub required_block: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub min_blocks: Option<u32>,
    /// `.maxnreg`.
    pub max_registers: Option<u32>,
    /// `.reqnctapercluster`; dimensions that are not given are 1.
    pub cluster_dims: Option<[u32; 3]>,
    /// `.maxclusterrank`.
    pub max_cluster_rank: Option<u32>,
    /// `.explicitcluster`.
    pub explicit_cluster: bool,
    /// `.visible` or `.weak`: the driver can look it up.
    pub visible: bool,
    /// External functions that the entry reaches by calls.
    pub externs: Vec<String>,
}

/// A parameter of an entry function.
#[derive(Clone, Debug, PartialEq)]
pub struct PtxParam {
    /// Name.
    pub name: String,
    /// Offset in the parameter buffer, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Type without its dot, e.g. `u64`; of the elements for an array.
    pub ty: String,
    /// The parameter is marked as a pointer (`.ptr`), into this space.
    pub ptr_space: Option<PtrSpace>,
    /// Alignment of what the pointer points to, where `.ptr` states one.
    pub pointee_align: Option<u32>,
}

/// State space of a pointer parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtrSpace {
    /// None was given.
    Generic,
    /// `.global`.
    Global,
    /// `.const`.
    Const,
    /// `.shared`.
    Shared,
    /// `.local`.
    Local,
}

/// A variable of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct PtxVariable {
    /// Name.
    pub name: String,
    /// Where it lives.
    pub space: Space,
    /// Size in bytes; 0 for an array without a length.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// It has an initial value other than zeros.
    pub initialised: bool,
    /// `.visible`, `.weak` or `.common`: the driver can look it up.
    pub visible: bool,
    /// `.extern`: declared here, defined elsewhere.
    pub external: bool,
}

/// Scans PTX text, up to a NUL if there is one. Never fails: see [`PtxModule::problems`].
pub fn parse(text: impl AsRef<[u8]>) -> PtxModule {
    let text = text.as_ref();
    let len = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    scan::module(text.get(..len).unwrap_or_default())
}

/// The text begins with `.version`, which PTX must, behind white space and comments.
pub(crate) fn looks_like_ptx(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    Lexer::new(text).next() == Some(Token::Dot(b"version"))
}

/// Version, architecture and its suffix, from the first directives.
pub(crate) fn header(text: &[u8]) -> ((u16, u16), (u32, Option<char>)) {
    let mut module = PtxModule::default();
    scan::header(text, &mut module);
    let arch = module.target.first();
    (
        module.version,
        arch.map_or((0, None), |name| architecture(name)),
    )
}

/// `sm_90a` as (90, `a`).
fn architecture(name: &str) -> (u32, Option<char>) {
    let digits = name.strip_prefix("sm_").unwrap_or_default();
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    (number.parse().unwrap_or(0), suffix.chars().next())
}

/// Reads what the crate's look-ups need.
pub(crate) fn read(text: &[u8]) -> Contents {
    let module = parse(text);
    let mut kernels: Vec<_> = module.entries.into_iter().map(kernel).collect();
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    kernels.dedup_by(|a, b| a.name == b.name);
    let variables = module
        .variables
        .into_iter()
        .filter(|v| !v.external && !is_compiler_made(v.name.as_bytes()))
        .map(|v| Variable {
            name: v.name,
            size: v.size,
            space: v.space,
            initialised: v.initialised,
        })
        .collect();
    Contents {
        kernels,
        variables,
        problems: module.problems,
    }
}

fn kernel(entry: PtxEntry) -> KernelInfo {
    let mut kernel = KernelInfo::named(entry.name, CodeForm::Ptx);
    kernel.params = entry
        .params
        .iter()
        .map(|p| Param {
            offset: p.offset,
            size: p.size,
        })
        .collect();
    kernel.params_known = entry.params_known;
    kernel.max_threads = entry.required_block.or(entry.max_block).map(threads);
    kernel.required_block = entry.required_block;
    kernel.max_block = entry.max_block;
    kernel.min_blocks = entry.min_blocks;
    kernel.max_registers = entry.max_registers;
    kernel.cluster_dims = entry.cluster_dims;
    kernel.max_cluster_rank = entry.max_cluster_rank;
    kernel.explicit_cluster = entry.explicit_cluster;
    kernel.externs = entry.externs;
    kernel
}

#[cfg(test)]
mod tests;
