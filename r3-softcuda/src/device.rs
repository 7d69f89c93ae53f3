//! Devices: how many, which model, their memory, and what queries say about them.

use std::ffi::c_char;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};

use r3_emu::Memory;

use crate::api::{In, Out, Text, api};
use crate::error::{CuError, Res};
use crate::gpu::{self, Gpu};
use crate::process::{self, number, setting};

/// One device.
pub struct Device {
    pub ordinal: i32,
    pub gpu: &'static Gpu,
    /// What kernels on it see.
    pub memory: Memory,
    /// Bytes in use.
    pub used: AtomicI64,
}

static DEVICES: LazyLock<Vec<Device>> = LazyLock::new(|| {
    let gpu = match setting("GPU") {
        None => gpu::GPUS.first(),
        Some(key) => gpu::find(&key).or_else(|| {
            let keys: Vec<_> = gpu::GPUS.iter().map(|gpu| gpu.key).collect();
            process::say(&format!(
                "softcuda: SOFTCUDA_GPU={key} is not one of {}",
                keys.join(", ")
            ));
            None
        }),
    };
    let visible = process::variable("CUDA_VISIBLE_DEVICES").map(|text| {
        // The list ends at the first entry that is no device.
        let all = number("DEVICES").unwrap_or(1);
        let known = |item: &&str| item.trim().parse::<u64>().is_ok_and(|n| n < all);
        text.split(',').take_while(known).count() as u64
    });
    let count = visible.or_else(|| number("DEVICES")).unwrap_or(1).min(64);
    let device = |ordinal: u64| {
        Some(Device {
            ordinal: ordinal as i32,
            gpu: gpu?,
            memory: Memory::new(),
            used: AtomicI64::new(0),
        })
    };
    (0..count).filter_map(device).collect()
});

/// How many there are.
pub fn count() -> i32 {
    DEVICES.len() as i32
}

/// All of them.
pub fn all() -> &'static [Device] {
    &DEVICES
}

/// A device by its ordinal.
pub fn get(ordinal: i32) -> Res<&'static Device> {
    usize::try_from(ordinal)
        .ok()
        .and_then(|index| DEVICES.get(index))
        .ok_or(CuError::INVALID_DEVICE)
}

impl Device {
    /// Bytes of memory.
    pub fn total(&self) -> u64 {
        number("MEMORY").unwrap_or(self.gpu.memory)
    }

    /// Counts memory as used, if there is so much.
    pub fn take(&self, bytes: u64) -> Res {
        let bytes = i64::try_from(bytes).map_err(|_| CuError::OUT_OF_MEMORY)?;
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        if used.saturating_add(bytes) > self.total() as i64 {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(CuError::OUT_OF_MEMORY);
        }
        Ok(())
    }

    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    fn uuid(&self) -> [u8; 16] {
        let mut uuid = *b"softcuda-device\0";
        uuid[15] = self.ordinal as u8;
        uuid
    }

    fn pci(&self) -> String {
        format!("0000:{:02X}:00.0", 0x18 + self.ordinal)
    }
}

/// Copies a string with its end into a buffer of the caller's; cut when it is too long.
pub fn put_text(out: Out<c_char>, len: i32, text: &str) -> Res {
    let room = usize::try_from(len)
        .ok()
        .filter(|len| *len > 0)
        .ok_or(CuError::INVALID_VALUE)?;
    let bytes: Vec<c_char> = text
        .bytes()
        .take(room - 1)
        .chain([0])
        .map(|byte| byte as c_char)
        .collect();
    out.fill(&bytes)
}

/// `CUdevprop`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties([i32; 14]);

api! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(CuError::INVALID_VALUE);
        }
        process::start()
    }

    fn cuDriverGetVersion(version: Out<i32>) {
        version.set(driver_version())
    }

    fn cuDeviceGet(device: Out<i32>, ordinal: i32) {
        device.set(get(ordinal)?.ordinal)
    }

    fn cuDeviceGetCount(out: Out<i32>) {
        out.set(count())
    }

    fn cuDeviceGetName(name: Out<c_char>, len: i32, device: i32) {
        put_text(name, len, get(device)?.gpu.name)
    }

    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) {
        uuid.set(get(device)?.uuid())
    }

    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) {
        uuid.set(get(device)?.uuid())
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) {
        bytes.set(get(device)?.total() as usize)
    }

    fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) {
        let device = get(device)?;
        value.set(device.gpu.attribute(attribute, device.ordinal).ok_or(CuError::INVALID_VALUE)?)
    }

    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) {
        let (first, second) = get(device)?.gpu.compute;
        major.set(first)?;
        minor.set(second)
    }

    fn cuDeviceGetProperties(properties: Out<Properties>, device: i32) {
        let gpu = get(device)?.gpu;
        let of = |attribute| gpu.attribute(attribute, device).unwrap_or(0);
        properties.set(Properties([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14].map(of)))
    }

    fn cuDeviceGetPCIBusId(id: Out<c_char>, len: i32, device: i32) {
        put_text(id, len, &get(device)?.pci())
    }

    fn cuDeviceGetByPCIBusId(device: Out<i32>, id: Text) {
        let id = id.get()?.to_ascii_uppercase();
        let same = |device: &&Device| {
            let own = device.pci();
            own == id || own.strip_prefix("0000:").is_some_and(|short| short == id)
                || own.trim_end_matches(".0") == id
        };
        device.set(all().iter().find(same).ok_or(CuError::INVALID_VALUE)?.ordinal)
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(width: Out<usize>, _format: u32, _channels: u32, device: i32) {
        width.set(get(device)?.gpu.attribute(69, device).unwrap_or(0) as usize)
    }

    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) {
        let (device, peer) = (get(device)?, get(peer)?);
        can.set(i32::from(device.ordinal != peer.ordinal))
    }

    fn cuDeviceGetP2PAttribute(value: Out<i32>, attribute: i32, from: i32, to: i32) {
        let (from, to) = (get(from)?, get(to)?);
        if from.ordinal == to.ordinal {
            return Err(CuError::INVALID_DEVICE);
        }
        value.set(match attribute {
            1 => 0,
            2..=4 => 1,
            5 => 0,
            _ => return Err(CuError::INVALID_VALUE),
        })
    }

    fn cuDeviceGetHostAtomicCapabilities(capabilities: Out<u32>, operations: In<u32>, count: u32, device: i32) {
        get(device)?;
        operations.list(count as usize)?;
        capabilities.fill(&vec![0; count as usize])
    }

    fn cuDeviceGetP2PAtomicCapabilities(capabilities: Out<u32>, operations: In<u32>, count: u32, from: i32, to: i32) {
        get(from)?;
        get(to)?;
        operations.list(count as usize)?;
        capabilities.fill(&vec![0; count as usize])
    }

    fn cuDeviceGetExecAffinitySupport(supported: Out<i32>, _kind: u32, device: i32) {
        get(device)?;
        supported.set(0)
    }

    fn cuFlushGPUDirectRDMAWrites(_target: u32, _scope: u32) {
        Ok(())
    }
}

/// Version of the driver, e.g. 13000.
pub fn driver_version() -> i32 {
    number("DRIVER_VERSION").map_or(13_000, |version| version as i32)
}
