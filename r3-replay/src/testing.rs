//! What unit tests share.

use r3_archive::model::{KernelId, LaunchId, LaunchRecord};

/// A launch of nothing.
pub fn empty_launch() -> LaunchRecord {
    LaunchRecord {
        id: LaunchId(1),
        kernel: KernelId(1),
        device: 0,
        entry_point: "cuLaunchKernel".to_owned(),
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        attributes: Vec::new(),
        params: Vec::new(),
        pointers: Vec::new(),
        function_settings: Vec::new(),
        cache_config: None,
        limits: Vec::new(),
        occurrence: 1,
        sequence: 1,
        thread: 1,
        unix_ns: 0,
        before: Default::default(),
        after: Default::default(),
        notes: Vec::new(),
    }
}
