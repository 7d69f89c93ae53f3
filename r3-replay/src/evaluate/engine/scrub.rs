//! Nothing is left over in shared memory.
//!
//! Shared memory is not cleared between launches: a kernel that reads it without having written it finds what the
//! launch before left there, its own results included. Before each run all of it is filled with bytes that nobody can
//! foresee, on every multiprocessor.

use crate::device::{Device, DeviceError, KernelHandle, LaunchConfig, ModuleHandle};
use crate::evaluate::describe::DeviceDescription;

/// The kernel that does it.
#[derive(Clone, Copy, Debug)]
pub struct Scrub {
    module: ModuleHandle,
    kernel: KernelHandle,
    blocks: u32,
    shared: u32,
}

const PTX: &str = include_str!("scrub/scrub.ptx");
const THREADS: u32 = 1024;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED: i32 = 8;

impl Scrub {
    /// Loads it. `None` on a device that has no such memory, or that does not say how much.
    pub fn load(
        device: &mut dyn Device,
        what: &DeviceDescription,
    ) -> Result<Option<Self>, DeviceError> {
        if what.max_shared_per_block == 0 || what.multiprocessors == 0 {
            return Ok(None);
        }
        let Ok(module) = device.load(PTX.as_bytes(), &[], &[]) else {
            return Ok(None);
        };
        let shared = i32::try_from(what.max_shared_per_block).unwrap_or(i32::MAX);
        let kernel = match device.kernel(module, "r3_scrub")? {
            Some(kernel)
                if device
                    .set_kernel_attribute(kernel, MAX_DYNAMIC_SHARED, shared)
                    .is_ok() =>
            {
                kernel
            }
            _ => {
                device.unload(module)?;
                return Ok(None);
            }
        };
        Ok(Some(Self {
            module,
            kernel,
            blocks: what.multiprocessors,
            shared: what.max_shared_per_block,
        }))
    }

    /// Fills shared memory. A block takes all that a multiprocessor has for one, so that there is one on each. It may
    /// still be running on return.
    pub fn run(&self, device: &mut dyn Device, key: u64) -> Result<(), DeviceError> {
        let config = LaunchConfig {
            grid: [self.blocks, 1, 1],
            block: [THREADS, 1, 1],
            dynamic_shared: self.shared,
            cooperative: false,
            attributes: &[],
            blocks: None,
            params: &key.to_le_bytes(),
        };
        device.launch(self.kernel, &config)
    }

    /// Takes it off the device.
    pub fn unload(self, device: &mut dyn Device) -> Result<(), DeviceError> {
        device.unload(self.module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::{CpuDevice, CpuOptions};

    #[test]
    fn it_runs_in_all_the_shared_memory_of_each_multiprocessor() {
        let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| {}));
        let what = DeviceDescription {
            multiprocessors: 3,
            max_shared_per_block: 227 << 10,
            ..DeviceDescription::default()
        };
        let scrub = Scrub::load(&mut device, &what).unwrap().unwrap();
        scrub.run(&mut device, 0x1234_5678_9abc_def0).unwrap();
        device.synchronize().unwrap();
        assert_eq!(device.work().map(|work| work.blocks), Some(3));
        scrub.unload(&mut device).unwrap();
        let unknown = DeviceDescription::default();
        assert!(Scrub::load(&mut device, &unknown).unwrap().is_none());
    }
}
