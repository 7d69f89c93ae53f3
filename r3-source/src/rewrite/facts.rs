//! What a capture knows of a kernel's launches.

use serde::{Deserialize, Serialize};

/// What is known of all launches that a candidate is measured on. What differs between them is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Threads of a block.
    pub block: Option<[u32; 3]>,
    /// Blocks of the grid.
    pub grid: Option<[u32; 3]>,
    /// The kernel's parameters, in order. Shorter than their number when nothing is known of the others.
    pub parameters: Vec<Known>,
    /// Whether results may differ a little: operators that are not exact are offered.
    pub tolerant: bool,
    /// Compute capability of the device, 90 for 9.0; 0 when it is not known.
    pub sm: u32,
}

/// What is known of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Known {
    /// Nothing, or it differs between launches.
    #[default]
    Unknown,
    /// An integer of this value.
    Integer(i64),
    /// A floating-point number of this value.
    Float(f64),
    /// A pointer into memory of the capture.
    Pointer {
        /// The largest power of two that divides the address, in all launches.
        alignment: u64,
        /// Bytes from the address to the end of its allocation; the least of all launches.
        bytes: u64,
        /// Number of that allocation. Pointers with different numbers never lead to the same memory, in no launch; nor do
        /// they to a variable of the file. 0 when this is not known.
        allocation: u32,
    },
}

impl Facts {
    /// What is known of a parameter.
    #[must_use]
    pub fn parameter(&self, index: usize) -> Known {
        self.parameters.get(index).copied().unwrap_or_default()
    }

    /// Threads of a block in all, where they are known.
    #[must_use]
    pub fn threads(&self) -> Option<u32> {
        let [x, y, z] = self.block?;
        x.checked_mul(y)?
            .checked_mul(z)
            .filter(|threads| (1..=1024).contains(threads))
    }
}
