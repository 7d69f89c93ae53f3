//! What is known of the code that candidates stand for.

use std::collections::BTreeSet;

use r3_archive::Archive;
use r3_archive::model::{KernelRecord, LaunchRecord, RegionOwner};
use r3_codegen::recipe::Code as AnyCode;
use r3_image::{Image, Variable};

use super::{Code, Rule, code, source};
use crate::attach::forms;

/// What the original does, and what it is launched with.
#[derive(Clone, Debug, Default)]
pub struct Original {
    does: BTreeSet<Rule>,
    variables: Vec<Variable>,
    words: Words,
    inputs: BTreeSet<String>,
    unreadable: bool,
    assembly: BTreeSet<String>,
    headers: Vec<(String, String)>,
}

impl Original {
    /// Of a kernel of an archive, for an architecture. What cannot be read of it is left out.
    pub fn new(archive: &Archive, kernel: &KernelRecord, sm: u32) -> Self {
        let mut original = Self {
            words: Words::of(archive, kernel),
            ..Self::default()
        };
        let module = kernel.module.and_then(|id| archive.module(id));
        if let Some(module) = module
            && let Ok(bytes) = archive.read_blob(&module.image)
        {
            original.image(&Image::from_vec(bytes), &kernel.name);
        }
        for form in forms::forms(archive, kernel.id, sm).unwrap_or_default() {
            match &form.code {
                AnyCode::Ptx(text) => {
                    original.ptx(text, &form.name);
                    if let Ok(code) = code::read(text, &form.name) {
                        original.inputs = inputs(archive, kernel, &code);
                    }
                }
                AnyCode::Source(source) => original.source(&source.text, &source.headers),
                AnyCode::Llvm(_) | AnyCode::Bitcode(_) | AnyCode::LtoIr(_) => {}
            }
        }
        original
    }

    /// Of an image alone.
    pub fn of_image(image: &Image, kernel: &str) -> Self {
        let mut original = Self::default();
        original.image(image, kernel);
        original
    }

    /// Of PTX alone, with the variables that it declares.
    pub fn of_ptx(text: &str, kernel: &str) -> Self {
        let mut original = Self::of_image(&Image::parse(text.as_bytes()), kernel);
        original.ptx(text, kernel);
        original
    }

    fn image(&mut self, image: &Image, kernel: &str) {
        self.variables = image.variables();
        let Some(info) = image.kernel(kernel) else {
            return;
        };
        let done = [
            (Rule::Heap, info.uses_heap()),
            (Rule::Print, info.uses_printf()),
            (Rule::Launches, info.launches_kernels()),
        ];
        let done = done.iter().filter(|(_, does)| *does);
        self.does.extend(done.map(|(rule, _)| *rule));
    }

    fn ptx(&mut self, text: &str, kernel: &str) {
        self.assembly.extend(source::blocks(text));
        match code::read(text, kernel) {
            Ok(module) => {
                let facts = module.facts(&self.variables, &self.words);
                self.does.extend(facts.iter().map(|finding| finding.rule));
            }
            Err(super::NotChecked::Unreadable(_)) => self.unreadable = true,
            Err(super::NotChecked::NoKernel(_)) => {}
        }
    }

    fn source(&mut self, text: &str, headers: &[(String, String)]) {
        for text in headers.iter().map(|(_, text)| text.as_str()).chain([text]) {
            let templates = source::templates(text);
            let templates = templates.iter().map(|template| source::shape(template));
            self.assembly.extend(templates);
        }
        self.headers.extend(headers.iter().cloned());
    }

    /// Whether it breaks a rule itself.
    pub fn does(&self, rule: Rule) -> bool {
        self.does.contains(&rule)
    }

    /// Its variables.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// What is known of its parameters.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// Variables that it reads, and that the application fills.
    pub fn inputs(&self) -> &BTreeSet<String> {
        &self.inputs
    }

    /// Whether its own PTX is beyond what is understood.
    pub fn is_unreadable(&self) -> bool {
        self.unreadable
    }

    /// Whether it has an inline assembly statement of this [shape](source::shape).
    pub fn has_assembly(&self, shape: &str) -> bool {
        self.assembly.contains(shape)
    }

    /// Whether a header was recorded with its source.
    pub fn has_header(&self, name: &str, text: &str) -> bool {
        let mut headers = self.headers.iter();
        headers.any(|(known, known_text)| known == name && known_text == text)
    }
}

/// Longest variable that is looked at.
const MOST_INPUT: u64 = 1 << 20;

/// Variables that code names, that hold something else before the kernel's first recorded launch than they begin with, and
/// that the launch leaves alone.
fn inputs(archive: &Archive, kernel: &KernelRecord, code: &Code) -> BTreeSet<String> {
    let mut heads = archive.launch_heads().iter();
    let first = heads.find(|launch| launch.kernel == kernel.id);
    let Some(launch) = first.and_then(|launch| archive.load_launch(launch.id).ok()) else {
        return BTreeSet::new();
    };
    let mut inputs = BTreeSet::new();
    for (index, region) in launch.before.regions.iter().enumerate() {
        let RegionOwner::Global { module, name } = &region.owner else {
            continue;
        };
        let named = code.variables.iter();
        let named = named.filter_map(|id| code.module.variables.get(id.0 as usize));
        let Some(variable) = named.into_iter().find(|variable| *variable.name == **name) else {
            continue;
        };
        let changes = !launch.changes_of(index).is_empty();
        let len = region.len.min(MOST_INPUT);
        if kernel.module != Some(*module) || changes || !variable.relocations.is_empty() {
            continue;
        }
        let Ok(held) = archive.region_before(&launch, index, 0..len) else {
            continue;
        };
        let begins = variable.init.as_deref().unwrap_or_default();
        let mut begins = begins.iter().copied().chain(std::iter::repeat(0));
        if held.iter().any(|byte| Some(*byte) != begins.next()) {
            inputs.insert(name.clone());
        }
    }
    inputs
}

/// What is known of the eight bytes at each offset of the kernel's parameters that is a multiple of eight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// A pointer in some recorded launch.
    pub pointers: BTreeSet<u32>,
    /// Something in some launch, and a pointer in none.
    pub numbers: BTreeSet<u32>,
}

/// Bytes of a word.
const WORD: u32 = 8;
/// Launches of which memory is looked at for words that are no pointers into allocations.
const LAUNCHES: usize = 16;

impl Words {
    /// As recorded launches of a kernel have them.
    fn of(archive: &Archive, kernel: &KernelRecord) -> Self {
        let mut words = Self::default();
        let heads = archive.launch_heads().iter();
        let launches = heads.filter(|launch| launch.kernel == kernel.id);
        // Pointers into memory that could not be recorded look like numbers.
        let mut whole = true;
        for (count, launch) in launches.enumerate() {
            whole &= launch.notes.is_empty();
            for word in &launch.pointers {
                words.pointers.insert(word.offset / WORD * WORD);
                words.pointers.insert(word.offset.next_multiple_of(WORD));
            }
            let filled = filled(launch);
            // Pointers into variables of a module are no pointers into allocations.
            let loaded =
                match count < LAUNCHES && filled.iter().any(|(_, value)| is_plausible(*value)) {
                    true => archive.load_launch(launch.id).ok(),
                    false => None,
                };
            let leads = |value: u64| {
                let loaded = loaded.iter().flat_map(|launch| &launch.before.regions);
                let mut ranges = loaded.map(|region| (region.address, region.len));
                ranges.any(|(start, len)| (start..=start.saturating_add(len)).contains(&value))
            };
            for (at, value) in filled {
                match leads(value) {
                    true => words.pointers.insert(at),
                    false => words.numbers.insert(at),
                };
            }
        }
        words.numbers = match whole {
            true => &words.numbers - &words.pointers,
            false => BTreeSet::new(),
        };
        words
    }
}

/// Words of a launch's parameters that are not zero.
fn filled(launch: &LaunchRecord) -> Vec<(u32, u64)> {
    let (words, _) = launch.params.as_chunks::<{ WORD as usize }>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let words = (0u32..).step_by(WORD as usize).zip(words);
    words.filter(|(_, value)| *value != 0).collect()
}

/// Whether a number may be an address: not small, and no more than devices have.
fn is_plausible(value: u64) -> bool {
    (1 << 20..1 << 57).contains(&value)
}
