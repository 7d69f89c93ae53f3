//! Running a case on a device.

use r3_replay::device::{Device, DeviceError, JitOption, LaunchConfig};

use crate::case::Case;

/// `CU_JIT_OPTIMIZATION_LEVEL` 0
const NO_OPTIMISATION: JitOption = JitOption {
    option: 7,
    value: 0,
};

/// Runs the case and returns the bytes of its results, buffer by buffer.
///
/// # Errors
/// What the device said.
pub fn run(device: &mut dyn Device, case: &Case) -> Result<Vec<Vec<u8>>, DeviceError> {
    let options: &[JitOption] = if case.as_written {
        &[NO_OPTIMISATION]
    } else {
        &[]
    };
    let module = device.load(case.ptx.as_bytes(), options, &[])?;
    let mut addresses = Vec::new();
    let results = run_loaded(device, case, module, &mut addresses);
    for address in addresses {
        device.free(address)?;
    }
    device.unload(module)?;
    results
}

fn run_loaded(
    device: &mut dyn Device,
    case: &Case,
    module: r3_replay::device::ModuleHandle,
    addresses: &mut Vec<u64>,
) -> Result<Vec<Vec<u8>>, DeviceError> {
    let kernel = device.kernel(module, &case.kernel)?.ok_or_else(|| {
        DeviceError::Unsupported(format!("the module has no kernel {}", case.kernel))
    })?;
    for buffer in &case.buffers {
        let address = device.allocate(buffer.bytes.len().max(1) as u64)?;
        addresses.push(address);
        device.write(address, &buffer.bytes)?;
    }
    let params: Vec<u8> = addresses
        .iter()
        .flat_map(|address| address.to_le_bytes())
        .collect();
    device.launch(
        kernel,
        &LaunchConfig {
            grid: case.grid,
            block: case.block,
            dynamic_shared: case.dynamic_shared,
            cooperative: case.cooperative,
            attributes: &[],
            blocks: None,
            params: &params,
        },
    )?;
    device.synchronize()?;
    let mut results = Vec::new();
    for (buffer, &address) in case.buffers.iter().zip(addresses.iter()) {
        if buffer.result.is_some() {
            let mut bytes = vec![0; buffer.bytes.len()];
            device.read(address, &mut bytes)?;
            results.push(bytes);
        }
    }
    Ok(results)
}
