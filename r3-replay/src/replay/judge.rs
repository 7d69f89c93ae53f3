//! By which type and tolerance a buffer is compared.

use std::collections::HashMap;

use r3_archive::chunk::ChunkRef;
use r3_archive::model::KernelRecord;
use r3_archive::{Archive, ReadError};

use super::{Replayer, Restored};
use crate::compare::{Allowance, BufferName, ElementType, InferredTypes, Tolerance, Tolerances};
use crate::device::COMPARE_CHUNK;
use crate::error::ReplayError;
use crate::names::readable;
use crate::restore::segments::Region;

/// Finds types and tolerances, and keeps what it found.
pub struct Judge<'t> {
    tolerances: &'t Tolerances,
    /// What the device may differ by, where no tolerance was given.
    allowance: Option<Allowance>,
    known: HashMap<usize, (ElementType, Tolerance)>,
}

impl<'t> Judge<'t> {
    /// Judges by given tolerances, and by an allowance where none is given.
    pub fn new(tolerances: &'t Tolerances, allowance: Option<Allowance>) -> Self {
        Self {
            tolerances,
            allowance,
            known: HashMap::new(),
        }
    }

    /// Type and tolerance for a buffer.
    pub fn of(
        &mut self,
        replayer: &mut Replayer<'_>,
        restored: &Restored<'_>,
        buffer: usize,
    ) -> Result<(ElementType, Tolerance), ReplayError> {
        if let Some(known) = self.known.get(&buffer) {
            return Ok(*known);
        }
        let Some(restored_buffer) = restored.buffers.get(buffer) else {
            return Ok((ElementType::Bits, Tolerance::EXACT));
        };
        let inferred = replayer.inferred_types(restored.kernel);
        let archive = replayer.archive();
        let (element, tolerance) = replayer.attempt(restored.launch, |_| {
            Ok(rule_of_region(
                archive,
                restored.kernel,
                &restored_buffer.region,
                &restored_buffer.name,
                &inferred,
                (self.tolerances, self.allowance),
            )?)
        })?;
        self.known.insert(buffer, (element, tolerance));
        Ok((element, tolerance))
    }
}

/// Type and tolerance of a region: what tolerances say, or what is allowed where they say nothing.
pub fn rule_of_region(
    archive: &Archive,
    kernel: &KernelRecord,
    region: &Region<'_>,
    name: &BufferName,
    inferred: &InferredTypes,
    (tolerances, allowance): (&Tolerances, Option<Allowance>),
) -> Result<(ElementType, Tolerance), ReadError> {
    let names: Vec<&str> = name.all().collect();
    let readable_kernel = readable(&kernel.name);
    let kernel_names = [kernel.name.as_str(), readable_kernel.as_str()];
    let inferred = inferred.get(names.iter().copied());
    let (mut element, mut tolerance) = tolerances.of(&kernel_names, &names, inferred);
    if let Some(allowance) = allowance
        && tolerance.is_exact()
    {
        if element == ElementType::Bits {
            element = allowance.element.unwrap_or(element);
        }
        if element.is_float() {
            tolerance = allowance.tolerance(element, largest(archive, region, element)?);
        }
    }
    Ok((element, tolerance))
}

/// The largest magnitude in a region after the recorded launch.
fn largest(archive: &Archive, region: &Region<'_>, element: ElementType) -> Result<f64, ReadError> {
    let mut largest = 0f64;
    let mut bytes = Vec::new();
    for chunk in 0..region.range.len().div_ceil(COMPARE_CHUNK) {
        let data = region.after(chunk);
        if data == ChunkRef::Zero {
            continue;
        }
        bytes.clear();
        bytes.resize(region.chunk(chunk).1 as usize, 0);
        archive.read_chunk(data, &mut bytes)?;
        largest = bytes
            .chunks_exact(element.size())
            .filter_map(|bytes| element.magnitude(bytes))
            .fold(largest, f64::max);
    }
    Ok(largest)
}
