//! By which type and tolerance a buffer is compared.

use std::collections::HashMap;

use r3_archive::chunk::ChunkRef;

use super::{Replayer, Restored};
use crate::compare::{Allowance, ElementType, Tolerance, Tolerances};
use crate::error::ReplayError;
use crate::names::readable;

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
        let names: Vec<&str> = restored
            .buffers
            .get(buffer)
            .map(|b| b.name.all().collect())
            .unwrap_or_default();
        let readable_kernel = readable(&restored.kernel.name);
        let kernel_names = [restored.kernel.name.as_str(), readable_kernel.as_str()];
        let inferred = replayer
            .inferred_types(restored.kernel)
            .get(names.iter().copied());
        let (mut element, mut tolerance) = self.tolerances.of(&kernel_names, &names, inferred);
        if let Some(allowance) = self.allowance
            && tolerance.is_exact()
        {
            if element == ElementType::Bits {
                element = allowance.element.unwrap_or(element);
            }
            if element.is_float() {
                let largest = largest(replayer, restored, buffer, element)?;
                tolerance = allowance.tolerance(element, largest);
            }
        }
        self.known.insert(buffer, (element, tolerance));
        Ok((element, tolerance))
    }
}

/// The largest magnitude in a buffer after the recorded launch.
fn largest(
    replayer: &mut Replayer<'_>,
    restored: &Restored<'_>,
    index: usize,
    element: ElementType,
) -> Result<f64, ReplayError> {
    let mut largest = 0f64;
    let Some(buffer) = restored.buffers.get(index) else {
        return Ok(largest);
    };
    let chunks = buffer
        .region
        .range
        .len()
        .div_ceil(crate::device::COMPARE_CHUNK);
    for chunk in 0..chunks {
        if buffer.region.after(chunk) == ChunkRef::Zero {
            continue;
        }
        let bytes = replayer.recorded(restored, index, chunk)?;
        largest = bytes
            .chunks_exact(element.size())
            .filter_map(|bytes| element.magnitude(bytes))
            .fold(largest, f64::max);
    }
    Ok(largest)
}
