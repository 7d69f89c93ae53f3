//! Source text that the program compiles at run time, kept for images that are made from it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use r3_archive::model::SourceId;

/// A program handed to NVRTC.
#[derive(Clone, Default)]
pub struct Source {
    pub id: SourceId,
    pub name: String,
    pub text: Vec<u8>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub options: Vec<String>,
    pub name_expressions: Vec<(String, String)>,
}

#[derive(Default)]
struct Programs {
    next_id: u64,
    /// By `nvrtcProgram` handle.
    open: HashMap<usize, Source>,
    /// By hash of a compiled image.
    compiled: HashMap<u128, Arc<Source>>,
}

/// Sources that are remembered. A program that compiles more makes them up as it goes.
const COMPILED_LIMIT: usize = 4096;

static ANY: AtomicBool = AtomicBool::new(false);
static PROGRAMS: Mutex<Option<Programs>> = Mutex::new(None);

fn with<T>(work: impl FnOnce(&mut Programs) -> T) -> T {
    ANY.store(true, Ordering::Relaxed);
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    work(programs.get_or_insert_with(Programs::default))
}

pub fn created(program: usize, name: String, text: Vec<u8>, headers: Vec<(String, Vec<u8>)>) {
    with(|programs| {
        programs.next_id += 1;
        let id = SourceId(programs.next_id);
        let source = Source {
            id,
            name,
            text,
            headers,
            ..Source::default()
        };
        programs.open.insert(program, source);
    });
}

pub fn destroyed(program: usize) {
    with(|programs| programs.open.remove(&program));
}

pub fn compiled(program: usize, options: Vec<String>) {
    with(|programs| {
        if let Some(source) = programs.open.get_mut(&program) {
            source.options = options;
        }
    });
}

pub fn name_expression(program: usize, expression: String, lowered: Option<String>) {
    with(|programs| {
        let Some(source) = programs.open.get_mut(&program) else {
            return;
        };
        let lowered = lowered.unwrap_or_default();
        match source
            .name_expressions
            .iter_mut()
            .find(|(known, _)| *known == expression)
        {
            Some((_, known)) => *known = lowered,
            None => source.name_expressions.push((expression, lowered)),
        }
    });
}

/// The program took PTX or a cubin out of the compiler.
pub fn output(program: usize, image: &[u8]) {
    let hash = xxhash_rust::xxh3::xxh3_128(image);
    with(|programs| {
        if let Some(source) = programs.open.get(&program)
            && programs.compiled.len() < COMPILED_LIMIT
        {
            let source = Arc::new(source.clone());
            programs.compiled.insert(hash, source);
        }
    });
}

/// Whether anything was ever compiled in this process.
pub fn any_seen() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// The source of an image, by the image's hash.
pub fn source_of(image: u128) -> Option<Arc<Source>> {
    if !any_seen() {
        return None;
    }
    with(|programs| programs.compiled.get(&image).cloned())
}
