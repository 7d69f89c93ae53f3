//! The launch that a candidate asks for, and whether a device can do it.

use r3_archive::model::LaunchRecord;

use crate::evaluate::candidate::{GridRule, LaunchChange, SharedRule};

/// A launch as it will be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Part of the L1 cache that is to be shared memory, in percent.
    pub carveout: Option<u32>,
}

/// What CUDA allows in each dimension of a grid and of a block.
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const MOST_THREADS: [u32; 3] = [1024, 1024, 64];

/// What follows from a recorded launch and a change. An error says what cannot be launched, and why.
pub fn shape(launch: &LaunchRecord, change: &LaunchChange) -> Result<Shape, String> {
    let block = change.block.unwrap_or(launch.block);
    for ((threads, most), axis) in block.iter().zip(MOST_THREADS).zip(["x", "y", "z"]) {
        if *threads == 0 || *threads > most {
            return Err(format!(
                "a block of {threads} threads in {axis}: from 1 to {most} are possible"
            ));
        }
    }
    let mut grid = [0; 3];
    let dimensions = grid.iter_mut().zip(change.grid).zip(MOST_BLOCKS);
    for (axis, ((blocks, rule), most)) in dimensions.enumerate() {
        let at = |of: &[u32; 3]| u64::from(of.get(axis).copied().unwrap_or(1));
        let recorded = at(&launch.grid);
        let wanted = match rule {
            GridRule::Same => recorded,
            GridRule::Blocks(count) => u64::from(count),
            GridRule::Cover => recorded
                .saturating_mul(at(&launch.block))
                .div_ceil(at(&block).max(1)),
            GridRule::Scale(_, 0) => {
                return Err("a grid cannot be divided by 0".to_owned());
            }
            GridRule::Scale(by, over) => recorded
                .saturating_mul(u64::from(by))
                .div_ceil(u64::from(over)),
        };
        *blocks = u32::try_from(wanted)
            .ok()
            .filter(|blocks| (1..=most).contains(blocks))
            .ok_or_else(|| {
                let axis = ["x", "y", "z"].get(axis).unwrap_or(&"?");
                format!("a grid of {wanted} blocks in {axis}: from 1 to {most} are possible")
            })?;
    }
    let dynamic_shared = match change.shared {
        SharedRule::Same => launch.dynamic_shared,
        SharedRule::Bytes(bytes) => bytes,
        SharedRule::PerThread => {
            let threads = |block: &[u32; 3]| block.iter().map(|n| u64::from(*n)).product::<u64>();
            let bytes = u64::from(launch.dynamic_shared)
                .saturating_mul(threads(&block))
                .div_ceil(threads(&launch.block).max(1))
                .next_multiple_of(16);
            let bytes = if launch.dynamic_shared == 0 { 0 } else { bytes };
            u32::try_from(bytes)
                .map_err(|_| format!("{bytes} bytes of dynamic shared memory for a block"))?
        }
    };
    if let Some(percent) = change.carveout.filter(|percent| *percent > 100) {
        return Err(format!(
            "a carve-out of {percent} %: from 0 to 100 are possible"
        ));
    }
    Ok(Shape {
        grid,
        block,
        dynamic_shared,
        carveout: change.carveout,
    })
}

impl Shape {
    /// As it was recorded.
    pub fn recorded(launch: &LaunchRecord) -> Self {
        Self {
            grid: launch.grid,
            block: launch.block,
            dynamic_shared: launch.dynamic_shared,
            carveout: None,
        }
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.block
            .iter()
            .fold(1u32, |product, n| product.saturating_mul(*n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::empty_launch;

    fn launch() -> LaunchRecord {
        LaunchRecord {
            grid: [79, 2, 1],
            block: [128, 4, 1],
            dynamic_shared: 1000,
            ..empty_launch()
        }
    }

    fn shaped(change: LaunchChange) -> Result<Shape, String> {
        shape(&launch(), &change)
    }

    #[test]
    fn nothing_changes_by_itself() {
        let found = shaped(LaunchChange::default()).unwrap();
        assert_eq!(found, Shape::recorded(&launch()));
    }

    #[test]
    fn at_least_as_many_threads_as_recorded_run_in_each_dimension() {
        let found = shaped(LaunchChange {
            block: Some([96, 3, 1]),
            ..LaunchChange::default()
        })
        .unwrap();
        // 79 · 128 = 10112 threads in blocks of 96, 2 · 4 = 8 in blocks of 3.
        assert_eq!(found.grid, [106, 3, 1]);
        assert_eq!((found.threads(), found.dynamic_shared), (288, 1000));
    }

    #[test]
    fn rules_for_grid_and_shared_memory_are_followed() {
        let found = shaped(LaunchChange {
            block: Some([64, 4, 1]),
            grid: [GridRule::Scale(1, 2), GridRule::Blocks(7), GridRule::Same],
            shared: SharedRule::PerThread,
            carveout: Some(50),
        })
        .unwrap();
        assert_eq!(found.grid, [40, 7, 1]);
        // Half of 1000, in steps of 16.
        assert_eq!((found.dynamic_shared, found.carveout), (512, Some(50)));
    }

    #[test]
    fn what_cuda_cannot_launch_is_an_error_that_says_why() {
        let refused = |change: LaunchChange| shaped(change).unwrap_err();
        let block = |block| LaunchChange {
            block: Some(block),
            ..LaunchChange::default()
        };
        assert!(refused(block([2048, 1, 1])).contains("2048 threads in x"));
        assert!(refused(block([1, 1, 65])).contains("65 threads in z"));
        assert!(refused(block([0, 1, 1])).contains("0 threads"));
        let grid = |y| LaunchChange {
            grid: [GridRule::Cover, y, GridRule::Cover],
            ..LaunchChange::default()
        };
        assert!(refused(grid(GridRule::Blocks(65_536))).contains("65536 blocks in y"));
        assert!(refused(grid(GridRule::Scale(1, 0))).contains("divided by 0"));
        assert!(refused(grid(GridRule::Scale(u32::MAX, 1))).contains("blocks in y"));
        let carveout = LaunchChange {
            carveout: Some(101),
            ..LaunchChange::default()
        };
        assert!(refused(carveout).contains("101 %"));
    }
}
