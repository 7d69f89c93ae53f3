//! The part of libdevice that a set of functions needs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::{Linkage, Module};

use super::LibdeviceError;
use crate::passes;
use crate::recipe::Pipeline;

/// Files that were read, and parts that were worked out, of this process.
struct Cache {
    files: HashMap<PathBuf, Arc<[u8]>>,
    parts: HashMap<(PathBuf, Vec<String>), Arc<[u8]>>,
}

static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

/// Parts that are kept: a search asks for the same few again and again.
const PARTS: usize = 256;

/// Bitcode with the functions and what they need, the rest left out.
pub(super) fn reduced(file: &Path, functions: &[String]) -> Result<Arc<[u8]>, LibdeviceError> {
    let key = (file.to_owned(), functions.to_vec());
    // Held while a part is worked out: another thread is likely to want the same.
    let mut cache = CACHE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let cache = cache.get_or_insert_with(|| Cache {
        files: HashMap::new(),
        parts: HashMap::new(),
    });
    if let Some(part) = cache.parts.get(&key) {
        return Ok(Arc::clone(part));
    }
    let bytes = match cache.files.get(file) {
        Some(bytes) => Arc::clone(bytes),
        None => {
            let bytes: Arc<[u8]> = std::fs::read(file)
                .map_err(|error| LibdeviceError::Read {
                    file: file.to_owned(),
                    error,
                })?
                .into();
            cache.files.insert(file.to_owned(), Arc::clone(&bytes));
            bytes
        }
    };
    let part: Arc<[u8]> = reduce(file, &bytes, functions)?.into();
    if cache.parts.len() >= PARTS {
        cache.parts.clear();
    }
    cache.parts.insert(key, Arc::clone(&part));
    Ok(part)
}

/// Hides everything else and drops what nobody needs.
fn reduce(file: &Path, bytes: &[u8], functions: &[String]) -> Result<Vec<u8>, LibdeviceError> {
    let invalid = |reason: String| LibdeviceError::Invalid {
        file: file.to_owned(),
        reason,
    };
    if !bytes.starts_with(b"BC\xC0\xDE") && !bytes.starts_with(&[0xDE, 0xC0, 0x17, 0x0B]) {
        return Err(invalid("this is not LLVM bitcode".to_owned()));
    }
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(bytes, "libdevice");
    let library = Module::parse_bitcode_from_buffer(&buffer, &context)
        .map_err(|reason| invalid(reason.to_string()))?;
    let machine = passes::machine("sm_90", (7, 8), 0)?;
    passes::prepare(&library, &machine);
    let mut missing: Vec<&str> = functions.iter().map(String::as_str).collect();
    for function in library.get_functions() {
        if function.count_basic_blocks() == 0 {
            continue;
        }
        let name = function.get_name().to_bytes();
        if functions.iter().any(|wanted| wanted.as_bytes() == name) {
            missing.retain(|wanted| wanted.as_bytes() != name);
        } else {
            function.set_linkage(Linkage::Internal);
        }
    }
    if !missing.is_empty() {
        return Err(LibdeviceError::Lacks {
            file: file.to_owned(),
            functions: missing.join(", "),
        });
    }
    passes::run(
        &library,
        &Pipeline::Text("globaldce,strip-dead-prototypes".to_owned()),
        &machine,
    )?;
    Ok(library.write_bitcode_to_memory().as_slice().to_vec())
}
