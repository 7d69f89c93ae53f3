//! What is known of the code that candidates stand for.

use std::collections::BTreeSet;

use r3_archive::Archive;
use r3_archive::model::{KernelRecord, LaunchRecord};
use r3_codegen::recipe::Code;
use r3_image::{Image, KernelInfo, Variable};

use super::{Rule, code, source};
use crate::attach::forms;

/// What the original does, and what it is launched with.
#[derive(Clone, Debug, Default)]
pub struct Original {
    does: BTreeSet<Rule>,
    variables: Vec<Variable>,
    scalars: BTreeSet<u32>,
    unreadable: bool,
    assembly: BTreeSet<String>,
    headers: Vec<(String, String)>,
}

impl Original {
    /// Of a kernel of an archive, for an architecture. What cannot be read of it is left out.
    pub fn new(archive: &Archive, kernel: &KernelRecord, sm: u32) -> Self {
        let heads = archive.launch_heads().iter();
        let launches = heads.filter(|launch| launch.kernel == kernel.id);
        let mut original = Self {
            scalars: scalars(launches),
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
                Code::Ptx(text) => original.ptx(text, &form.name),
                Code::Source(source) => original.source(&source.text, &source.headers),
                Code::Llvm(_) | Code::Bitcode(_) | Code::LtoIr(_) => {}
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
        let calls: [(Rule, fn(&KernelInfo) -> bool); 3] = [
            (Rule::Heap, KernelInfo::uses_heap),
            (Rule::Print, KernelInfo::uses_printf),
            (Rule::Launches, KernelInfo::launches_kernels),
        ];
        if let Some(info) = image.kernel(kernel) {
            let done = calls.iter().filter(|(_, does)| does(&info));
            self.does.extend(done.map(|(rule, _)| *rule));
        }
    }

    fn ptx(&mut self, text: &str, kernel: &str) {
        self.assembly.extend(source::blocks(text));
        match code::read(text, kernel) {
            Ok(module) => {
                let facts = module.facts(&self.variables, &self.scalars);
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

    /// Offsets in the buffer of parameters at which eight bytes are no pointer in any recorded launch.
    pub fn scalars(&self) -> &BTreeSet<u32> {
        &self.scalars
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

/// Words of parameters that hold something in some launch and a pointer in none.
fn scalars<'a>(launches: impl Iterator<Item = &'a LaunchRecord>) -> BTreeSet<u32> {
    const WORD: u32 = 8;
    let (mut filled, mut pointers) = (BTreeSet::new(), BTreeSet::new());
    for launch in launches {
        let words = launch.params.chunks_exact(WORD as usize);
        let words = (0u32..).step_by(WORD as usize).zip(words);
        filled.extend(
            words
                .filter(|(_, word)| word.iter().any(|byte| *byte != 0))
                .map(|(at, _)| at),
        );
        for word in &launch.pointers {
            pointers.insert(word.offset / WORD * WORD);
            pointers.insert((word.offset + WORD - 1) / WORD * WORD);
        }
    }
    &filled - &pointers
}
