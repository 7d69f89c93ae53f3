//! Device code that lies in loaded programs and libraries.
//!
//! The CUDA runtime before version 12 loads code through a private table of the driver, which cannot be
//! hooked without breaking the runtime's integrity check. What is seen is `cuModuleGetFunction` with a
//! module that nobody loaded. Its code is then looked for where nvcc puts it: each image has a wrapper
//! (section `.nvFatBinSegment`) in the data of the program or library that registers it.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

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
    if objects_added() == index.objects {
        return None;
    }
    let found = wrappers();
    index.objects = found.objects_added;
    for wrapper in found.addresses {
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
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: `data` is the number below; `info` is valid during the call.
        unsafe { *data.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut added = 0u64;
    // SAFETY: `visit` only reads, and `added` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut added).cast()) };
    added
}

#[derive(Default)]
struct Wrappers {
    objects_added: u64,
    addresses: Vec<usize>,
}

fn wrappers() -> Wrappers {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: `data` is the `Wrappers` below; `info` and its program headers are valid during the
        // call.
        let (info, found) = unsafe { (&*info, &mut *data.cast::<Wrappers>()) };
        found.objects_added = info.dlpi_adds;
        // SAFETY: as above.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
        let base = info.dlpi_addr as usize;
        let segments: Vec<(usize, usize, bool)> = headers
            .iter()
            .filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_R != 0)
            .map(|h| {
                let start = base.wrapping_add(h.p_vaddr as usize);
                (
                    start,
                    start + h.p_filesz as usize,
                    h.p_flags & libc::PF_W != 0,
                )
            })
            .collect();
        let mapped = |address: usize, len: usize| {
            segments
                .iter()
                .any(|(start, end, _)| *start <= address && address + len <= *end)
        };
        for (start, end, writable) in &segments {
            if !writable {
                continue;
            }
            let mut at = start.next_multiple_of(8);
            while at + 24 <= *end {
                // SAFETY: inside a readable segment of a loaded object; the wrapper's fields are
                // looked at before the container that it points to is.
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
                    found.addresses.push(at);
                }
                at += 8;
            }
        }
        0
    }
    let mut found = Wrappers::default();
    // SAFETY: `visit` only reads loaded objects, and `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}
