//! Device code that lies in loaded programs and libraries.
//!
//! The CUDA runtime before version 12 loads code through a private table of the driver, which cannot be
//! hooked without breaking the runtime's integrity check. What is seen is `cuModuleGetFunction` with a
//! module that nobody loaded. Its code is then looked for where nvcc puts it: each image has a wrapper
//! (section `.nvFatBinSegment`) in the data of the program or library that registers it.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use crate::elf;
use crate::modules::{self, Image};

const WRAPPER_MAGIC: u32 = 0x4662_43b1;
const CONTAINER_MAGIC: u32 = 0xba55_ed50;
/// Loaded by the driver's private table, as far as can be told.
const LOADED_BY: &str = "registered by the CUDA runtime";

#[derive(Default)]
struct Index {
    /// Loaded objects when the index was made: `dlpi_adds`.
    objects: u64,
    images: HashMap<usize, Arc<Image>>,
    by_kernel: HashMap<String, Arc<Image>>,
}

static INDEX: Mutex<Option<Index>> = Mutex::new(None);

/// The embedded image that has a kernel of this name; the first one where several do, as with kernels
/// from a header that several files include.
pub fn image_with(kernel: &str) -> Option<Arc<Image>> {
    let mut index = INDEX.lock().unwrap_or_else(PoisonError::into_inner);
    let index = index.get_or_insert_with(Index::default);
    if let Some(image) = index.by_kernel.get(kernel) {
        return Some(Arc::clone(image));
    }
    let objects = objects_added();
    if objects == index.objects {
        return None;
    }
    index.objects = objects;
    for wrapper in wrappers() {
        if index.images.contains_key(&wrapper) {
            continue;
        }
        // SAFETY: a wrapper in a loaded object, whose container's header was looked at.
        let image = unsafe { modules::observe(wrapper as *const c_void, LOADED_BY, Vec::new()) };
        let Some(image) = image else { continue };
        for name in image.kernel_names() {
            index
                .by_kernel
                .entry(name)
                .or_insert_with(|| Arc::clone(&image));
        }
        index.images.insert(wrapper, image);
    }
    index.by_kernel.get(kernel).cloned()
}

/// How many objects were ever loaded: `dlpi_adds`.
fn objects_added() -> u64 {
    elf::each_object(|info| ControlFlow::Break(info.dlpi_adds)).unwrap_or(0)
}

/// The addresses of all wrappers in loaded objects.
fn wrappers() -> Vec<usize> {
    let mut found = Vec::new();
    elf::each_object(|info| {
        find_wrappers(info, &mut found);
        ControlFlow::<()>::Continue(())
    });
    found
}

fn find_wrappers(info: &libc::dl_phdr_info, found: &mut Vec<usize>) {
    let base = info.dlpi_addr as usize;
    let segments: Vec<(usize, usize, bool)> = elf::headers(info)
        .iter()
        .filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_R != 0)
        .map(|h| {
            let start = base.wrapping_add(h.p_vaddr as usize);
            let end = start.saturating_add(h.p_filesz as usize);
            (start, end, h.p_flags & libc::PF_W != 0)
        })
        .collect();
    let mapped = |address: usize, len: usize| {
        segments
            .iter()
            .any(|(start, end, _)| *start <= address && address.saturating_add(len) <= *end)
    };
    for (start, end, _) in segments.iter().filter(|(_, _, writable)| *writable) {
        let mut at = start.next_multiple_of(8);
        while at + 24 <= *end {
            // SAFETY: inside a readable segment of a loaded object; the wrapper's fields are looked at
            // before the container that it points to is.
            let (magic, version, container) = unsafe {
                let words = at as *const u32;
                (*words, *words.add(1), *(words.add(2) as *const usize))
            };
            if magic == WRAPPER_MAGIC
                && matches!(version, 1 | 2)
                && mapped(container, 16)
                // SAFETY: just seen to be mapped.
                && unsafe { (container as *const u32).read_unaligned() } == CONTAINER_MAGIC
            {
                found.push(at);
            }
            at += 8;
        }
    }
}
