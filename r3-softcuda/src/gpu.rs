//! The GPU models that this driver can show, and their attributes.
//!
//! Figures are those that the vendor publishes for the model (data sheets, the compute-capability tables of the
//! programming guide). They decide what a launch may ask for and what occupancy says; speed is the host's.

/// One model.
#[derive(Debug)]
pub struct Gpu {
    /// For `SOFTCUDA_GPU`.
    pub key: &'static str,
    /// As `cuDeviceGetName` says: never that of a real GPU, for archives keep it.
    pub name: &'static str,
    /// Compute capability.
    pub compute: (i32, i32),
    pub multiprocessors: i32,
    /// Bytes.
    pub memory: u64,
    /// kHz
    pub clock: i32,
    /// kHz
    pub memory_clock: i32,
    /// Bits.
    pub memory_bus: i32,
    pub l2_bytes: i32,
    pub max_persisting_l2: i32,
    pub threads_per_multiprocessor: i32,
    pub blocks_per_multiprocessor: i32,
    pub shared_per_multiprocessor: i32,
    pub shared_per_block_optin: i32,
    pub copy_engines: i32,
    pub ecc: i32,
    /// Single to double precision.
    pub double_ratio: i32,
    pub pci_device: u32,
}

/// The models, the default first.
pub static GPUS: &[Gpu] = &[
    Gpu {
        key: "h200",
        name: "NVIDIA H200 (software)",
        compute: (9, 0),
        multiprocessors: 132,
        memory: 150_109_880_320,
        clock: 1_980_000,
        memory_clock: 3_201_000,
        memory_bus: 6144,
        l2_bytes: 62_914_560,
        max_persisting_l2: 39_321_600,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_multiprocessor: 233_472,
        shared_per_block_optin: 232_448,
        copy_engines: 3,
        ecc: 1,
        double_ratio: 2,
        pci_device: 0x2335_10de,
    },
    Gpu {
        key: "h100",
        name: "NVIDIA H100 80GB HBM3 (software)",
        compute: (9, 0),
        multiprocessors: 132,
        memory: 84_929_347_584,
        clock: 1_980_000,
        memory_clock: 2_619_000,
        memory_bus: 5120,
        l2_bytes: 52_428_800,
        max_persisting_l2: 32_768_000,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_multiprocessor: 233_472,
        shared_per_block_optin: 232_448,
        copy_engines: 3,
        ecc: 1,
        double_ratio: 2,
        pci_device: 0x2330_10de,
    },
    Gpu {
        key: "a100",
        name: "NVIDIA A100-SXM4-80GB (software)",
        compute: (8, 0),
        multiprocessors: 108,
        memory: 84_974_239_744,
        clock: 1_410_000,
        memory_clock: 1_593_000,
        memory_bus: 5120,
        l2_bytes: 41_943_040,
        max_persisting_l2: 31_457_280,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_multiprocessor: 167_936,
        shared_per_block_optin: 166_912,
        copy_engines: 3,
        ecc: 1,
        double_ratio: 2,
        pci_device: 0x20b2_10de,
    },
    Gpu {
        key: "l4",
        name: "NVIDIA L4 (software)",
        compute: (8, 9),
        multiprocessors: 58,
        memory: 23_580_639_232,
        clock: 2_040_000,
        memory_clock: 6_251_000,
        memory_bus: 192,
        l2_bytes: 50_331_648,
        max_persisting_l2: 33_030_144,
        threads_per_multiprocessor: 1536,
        blocks_per_multiprocessor: 24,
        shared_per_multiprocessor: 102_400,
        shared_per_block_optin: 101_376,
        copy_engines: 2,
        ecc: 1,
        double_ratio: 64,
        pci_device: 0x27b8_10de,
    },
    Gpu {
        key: "t4",
        name: "Tesla T4 (software)",
        compute: (7, 5),
        multiprocessors: 40,
        memory: 15_828_320_256,
        clock: 1_590_000,
        memory_clock: 5_001_000,
        memory_bus: 256,
        l2_bytes: 4_194_304,
        max_persisting_l2: 0,
        threads_per_multiprocessor: 1024,
        blocks_per_multiprocessor: 16,
        shared_per_multiprocessor: 65_536,
        shared_per_block_optin: 65_536,
        copy_engines: 3,
        ecc: 1,
        double_ratio: 32,
        pci_device: 0x1eb8_10de,
    },
    Gpu {
        key: "b200",
        name: "NVIDIA B200 (software)",
        compute: (10, 0),
        multiprocessors: 148,
        memory: 191_484_854_272,
        clock: 1_965_000,
        memory_clock: 3_996_000,
        memory_bus: 8192,
        l2_bytes: 132_644_864,
        max_persisting_l2: 82_903_040,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_multiprocessor: 233_472,
        shared_per_block_optin: 232_448,
        copy_engines: 4,
        ecc: 1,
        double_ratio: 2,
        pci_device: 0x2901_10de,
    },
];

/// Finds a model by its key, in any case.
pub fn find(key: &str) -> Option<&'static Gpu> {
    GPUS.iter().find(|gpu| gpu.key.eq_ignore_ascii_case(key))
}

/// What all models have in common: `CUdevice_attribute`, value. What is not listed is 0.
const COMMON: &[(i32, i32)] = &[
    (1, 1024),         // threads of a block
    (2, 1024),         // … along x
    (3, 1024),         // … y
    (4, 64),           // … z
    (5, 0x7fff_ffff),  // blocks of a grid along x
    (6, 65_535),       // … y
    (7, 65_535),       // … z
    (8, 49_152),       // shared memory of a block
    (9, 65_536),       // constant memory
    (10, 32),          // warp
    (11, 0x7fff_ffff), // pitch
    (12, 65_536),      // registers of a block
    (14, 512),         // texture alignment
    (15, 1),           // copies beside kernels
    (19, 1),           // maps host memory
    (21, 131_072),     // 1D texture
    (22, 131_072),     // 2D texture
    (23, 65_536),
    (24, 16_384), // 3D texture
    (25, 16_384),
    (26, 16_384),
    (27, 32_768), // 2D layered texture
    (28, 32_768),
    (29, 2048),
    (30, 512),    // surface alignment
    (31, 1),      // concurrent kernels
    (41, 1),      // unified addressing
    (42, 32_768), // 1D layered texture
    (43, 2048),
    (44, 1), // gather
    (45, 32_768),
    (46, 32_768),
    (47, 8192), // 3D texture, other proportions
    (48, 8192),
    (49, 32_768),
    (51, 32),     // texture pitch alignment
    (52, 32_768), // cube maps
    (53, 32_768),
    (54, 2046),
    (55, 32_768), // surfaces
    (56, 131_072),
    (57, 65_536),
    (58, 16_384),
    (59, 16_384),
    (60, 16_384),
    (61, 32_768),
    (62, 2048),
    (63, 32_768),
    (64, 32_768),
    (65, 2048),
    (66, 32_768),
    (67, 32_768),
    (68, 2046),
    (69, 268_435_456), // linear 1D texture
    (70, 131_072),     // linear 2D texture
    (71, 65_000),
    (72, 2_097_120),
    (73, 32_768), // mipmapped textures
    (74, 32_768),
    (77, 32_768),
    (78, 1),      // stream priorities
    (79, 1),      // L1 for global memory
    (80, 1),      // L1 for local memory
    (82, 65_536), // registers of a multiprocessor
    (83, 1),      // managed memory
    (89, 1),      // … beside running kernels
    (90, 1),      // preemption
    (91, 1),      // registered host memory at the host's address
    (92, 1),      // memory operations of streams
    (93, 1),
    (94, 1),
    (95, 1),     // cooperative launch
    (99, 1),     // host memory can be registered
    (102, 1),    // virtual memory management
    (111, 1024), // shared memory of a block that the system takes
    (115, 1),    // memory pools
    (122, 1),    // memory operations of 64 bits
    (123, 1),
    (134, -1), // host NUMA node: none
];

impl Gpu {
    /// An attribute of `cuDeviceGetAttribute`; `None` for numbers that are none.
    pub fn attribute(&self, attribute: i32, ordinal: i32) -> Option<i32> {
        let since = |major: i32, minor: i32, value: i32| {
            if self.compute >= (major, minor) {
                value
            } else {
                0
            }
        };
        let value = match attribute {
            13 => self.clock,
            16 => self.multiprocessors,
            32 => self.ecc,
            33 => 0x18 + ordinal,
            34 | 50 => 0,
            36 => self.memory_clock,
            37 => self.memory_bus,
            38 => self.l2_bytes,
            39 => self.threads_per_multiprocessor,
            40 => self.copy_engines,
            75 => self.compute.0,
            76 => self.compute.1,
            88 => i32::from(crate::pageable::enabled()),
            81 => self.shared_per_multiprocessor,
            85 => ordinal,
            87 => self.double_ratio,
            97 => self.shared_per_block_optin,
            106 => self.blocks_per_multiprocessor,
            108 => self.max_persisting_l2,
            109 => since(8, 0, 134_217_728),
            120 => since(9, 0, 1),
            126 => since(9, 0, 4).max(1),
            127 => since(9, 0, 1),
            139 => self.pci_device.cast_signed(),
            1..=147 => COMMON
                .iter()
                .find(|(number, _)| *number == attribute)
                .map_or(0, |(_, value)| *value),
            _ => return None,
        };
        Some(value)
    }

    /// Shared memory that one block can have with opting in.
    pub fn max_shared(&self) -> u32 {
        self.shared_per_block_optin.cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_model_is_taken_for_a_real_gpu() {
        for gpu in GPUS {
            assert!(gpu.name.ends_with(" (software)"), "{}", gpu.name);
        }
    }
}
