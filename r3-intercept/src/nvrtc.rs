//! Source text that the program compiles at run time, kept until an image made from it is loaded.

use std::collections::HashMap;
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

static PROGRAMS: Mutex<Option<Programs>> = Mutex::new(None);

fn with<T>(work: impl FnOnce(&mut Programs) -> T) -> T {
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
    let text = image.strip_suffix(&[0]).unwrap_or(image);
    let hash = xxhash_rust::xxh3::xxh3_128(if text.starts_with(b"\x7fELF") {
        image
    } else {
        text
    });
    with(|programs| {
        if let Some(source) = programs.open.get(&program) {
            let source = Arc::new(source.clone());
            programs.compiled.insert(hash, source);
        }
    });
}

/// The source of an image, by the image's hash.
pub fn source_of(image: u128) -> Option<Arc<Source>> {
    with(|programs| programs.compiled.get(&image).cloned())
}
