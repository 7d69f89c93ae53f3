//! Function attributes and limits, and whether a launch keeps to them.

use std::collections::BTreeMap;

use r3_archive::model::LaunchAttribute;
use r3_emu::KernelInfo;

use crate::device::{DeviceError, DeviceInfo, LaunchConfig, describe};
use crate::evaluate::describe::DeviceDescription;

/// Most shared memory of a block, dynamic and static: what GPUs of compute capability 9.0 allow.
const MOST_SHARED: u32 = 227 << 10;
/// Most dynamic shared memory of a kernel that was not given leave for more.
const ORDINARY_SHARED: i32 = 48 << 10;
/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const CLUSTER_DIMENSION: u32 = 4;

/// `CUfunction_attribute` numbers.
mod attribute {
    pub const MAX_THREADS: i32 = 0;
    pub const STATIC_SHARED: i32 = 1;
    pub const CONSTANT: i32 = 2;
    pub const LOCAL: i32 = 3;
    pub const REGISTERS: i32 = 4;
    pub const PTX_VERSION: i32 = 5;
    pub const BINARY_VERSION: i32 = 6;
    pub const CACHE_MODE: i32 = 7;
    pub const MAX_DYNAMIC_SHARED: i32 = 8;
    pub const CARVEOUT: i32 = 9;
    pub const CLUSTER_MUST_BE_SET: i32 = 10;
    pub const CLUSTER_WIDTH: i32 = 11;
    pub const CLUSTER_DEPTH: i32 = 13;
    pub const NON_PORTABLE_CLUSTER: i32 = 14;
    pub const CLUSTER_SCHEDULING: i32 = 15;
}

/// What was set on a kernel.
#[derive(Debug, Default)]
pub struct Settings(BTreeMap<i32, i32>);

impl Settings {
    /// The value of an attribute.
    pub fn get(
        &self,
        info: &KernelInfo,
        version: (u16, u16),
        architecture: u32,
        number: i32,
    ) -> Result<i32, DeviceError> {
        use attribute::*;
        if let Some(value) = self.0.get(&number) {
            return Ok(*value);
        }
        let int = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        let cluster = |axis: usize| info.cluster.map_or(0, |cluster| int(cluster[axis]));
        Ok(match number {
            MAX_THREADS => int(info.max_threads),
            STATIC_SHARED => int(info.static_shared),
            LOCAL => int(info.local_bytes),
            REGISTERS => int(info.registers),
            PTX_VERSION => int(u32::from(version.0) * 10 + u32::from(version.1)),
            BINARY_VERSION => int(architecture),
            MAX_DYNAMIC_SHARED => ORDINARY_SHARED,
            CARVEOUT => -1,
            CLUSTER_MUST_BE_SET => 0,
            CLUSTER_WIDTH..=CLUSTER_DEPTH => cluster((number - CLUSTER_WIDTH) as usize),
            CONSTANT | CACHE_MODE | NON_PORTABLE_CLUSTER | CLUSTER_SCHEDULING => 0,
            _ => return Err(no_attribute(number)),
        })
    }

    /// Sets an attribute.
    pub fn set(&mut self, number: i32, value: i32) -> Result<(), DeviceError> {
        use attribute::*;
        match number {
            MAX_DYNAMIC_SHARED if value > int_shared() => Err(DeviceError::CannotRun(format!(
                "{value} bytes of dynamic shared memory: this device has {MOST_SHARED} a block"
            ))),
            MAX_DYNAMIC_SHARED
            | CARVEOUT
            | CLUSTER_WIDTH..=CLUSTER_DEPTH
            | NON_PORTABLE_CLUSTER
            | CLUSTER_SCHEDULING => {
                self.0.insert(number, value);
                Ok(())
            }
            _ => Err(no_attribute(number)),
        }
    }

    /// Blocks of a cluster that were set, when all three are.
    fn cluster(&self) -> Option<[u32; 3]> {
        let axis = |n: i32| {
            let value = self.0.get(&(attribute::CLUSTER_WIDTH + n)).copied()?;
            u32::try_from(value).ok().filter(|value| *value > 0)
        };
        Some([axis(0)?, axis(1)?, axis(2)?])
    }
}

fn int_shared() -> i32 {
    MOST_SHARED as i32
}

fn no_attribute(number: i32) -> DeviceError {
    DeviceError::Unsupported(format!("the CPU device has no function attribute {number}"))
}

/// Checks what a launch asks for beyond its shape, and finds the blocks of its clusters.
pub fn check(
    info: &KernelInfo,
    settings: &Settings,
    config: &LaunchConfig<'_>,
) -> Result<[u32; 3], DeviceError> {
    let shared = info.static_shared.saturating_add(config.dynamic_shared);
    if shared > MOST_SHARED {
        return Err(DeviceError::CannotRun(format!(
            "{shared} bytes of shared memory for a block: this device has {MOST_SHARED}"
        )));
    }
    let given = config
        .attributes
        .iter()
        .find(|attribute| attribute.id == CLUSTER_DIMENSION)
        .and_then(dimensions);
    Ok(given.or_else(|| settings.cluster()).unwrap_or([1, 1, 1]))
}

/// Three dimensions out of a launch attribute; `None` when one of them is 0.
fn dimensions(attribute: &LaunchAttribute) -> Option<[u32; 3]> {
    let word = |index: usize| {
        let bytes = attribute.value.get(4 * index..4 * index + 4)?;
        let value = u32::from_le_bytes(bytes.try_into().ok()?);
        (value > 0).then_some(value)
    };
    Some([word(0)?, word(1)?, word(2)?])
}

/// What a search may assume: the limits of GPUs of compute capability 9.0 (CUDA C++ Programming Guide, "Compute
/// Capabilities"), with as many multiprocessors as an H100 or H200 has. There is no cache, and no bandwidth.
pub fn properties(info: &DeviceInfo) -> DeviceDescription {
    DeviceDescription {
        multiprocessors: 132,
        max_threads_per_block: 1024,
        max_threads_per_multiprocessor: 2048,
        registers_per_multiprocessor: 64 << 10,
        max_shared_per_block: MOST_SHARED,
        ..describe(info)
    }
}

/// `CUlimit` numbers that exist, and what they are at first.
const LIMITS: [(u32, u64); 7] = [
    (0, 1 << 10),
    (1, 1 << 20),
    (2, 8 << 20),
    (3, 2),
    (4, 2048),
    (5, 64),
    (6, 0),
];

/// The limits of the context. They are kept and change nothing: stacks and heap grow as they must.
#[derive(Debug)]
pub struct Limits(BTreeMap<u32, u64>);

impl Default for Limits {
    fn default() -> Self {
        Self(LIMITS.into_iter().collect())
    }
}

impl Limits {
    /// A limit.
    pub fn get(&self, limit: u32) -> Result<u64, DeviceError> {
        self.0.get(&limit).copied().ok_or_else(|| no_limit(limit))
    }

    /// Sets a limit.
    pub fn set(&mut self, limit: u32, value: u64) -> Result<(), DeviceError> {
        match self.0.get_mut(&limit) {
            Some(known) => {
                *known = value;
                Ok(())
            }
            None => Err(no_limit(limit)),
        }
    }
}

fn no_limit(limit: u32) -> DeviceError {
    DeviceError::Unsupported(format!("the CPU device has no limit {limit}"))
}
