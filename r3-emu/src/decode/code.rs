//! A decoded function.

use crate::block::Buffer;
use crate::exec::{Op, Slot};
use r3_ptx::isa::Space;
use r3_ptx::typed;
use std::any::Any;

/// A decoded function.
pub(crate) struct Code {
    /// Which function.
    pub function: u32,
    /// The ops; the last is a return.
    pub ops: Box<[Op]>,
    /// Further slots of ops.
    pub lists: Box<[Slot]>,
    /// Records of ops.
    pub data: Box<[Box<dyn Any + Send + Sync>]>,
    /// Tables of `brx.idx`, as op indices.
    pub tables: Vec<Box<[u32]>>,
    /// Memory of the constant slots.
    pub constants: Buffer,
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Bytes of local memory of one thread in one call.
    pub local_bytes: u32,
    /// Parameters of a device function.
    pub params: Vec<Formal>,
    /// Its results.
    pub results: Vec<Formal>,
    /// A kernel.
    pub entry: bool,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code")
            .field("function", &self.function)
            .field("ops", &self.ops.len())
            .finish_non_exhaustive()
    }
}

/// A parameter or result, as seen by the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Formal {
    /// Where it is.
    pub place: Place,
    /// Bytes.
    pub bytes: u32,
}

/// Where a value of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A slot of so many bytes a lane.
    Slot(Slot, u32),
    /// A predicate.
    Predicate(Slot),
    /// An offset in the local memory of the call.
    Memory(u32),
    /// Nowhere: `_`.
    Nowhere,
}

/// Offsets of a function's variables in local memory.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub params: Vec<u32>,
    pub results: Vec<u32>,
    pub locals: Vec<u32>,
    pub bytes: u32,
}

impl Places {
    /// Lays them out: of a kernel, whose parameters are elsewhere, only the local variables.
    pub fn of(function: &typed::Function, body: &typed::Body) -> Self {
        let mut places = Self::default();
        let mut end = 0u64;
        let mut put = |variable: &typed::Variable| {
            let at = end.checked_next_multiple_of(variable.align.max(1));
            let at = at.unwrap_or(u64::MAX);
            end = at.saturating_add(variable.size);
            at as u32
        };
        if !function.entry {
            places.params = function.params.iter().map(&mut put).collect();
            places.results = function.results.iter().map(&mut put).collect();
        }
        for local in &body.locals {
            let inside = matches!(
                local.space,
                Space::Local | Space::Param | Space::ParamFunc | Space::ParamEntry
            );
            let at = if inside { put(local) } else { 0 };
            places.locals.push(at);
        }
        // More than a thread can have is a fault where the function is entered.
        places.bytes = end.min(u64::from(u32::MAX - 15)).next_multiple_of(16) as u32;
        places
    }
}
