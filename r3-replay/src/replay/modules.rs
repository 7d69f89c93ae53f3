//! The kernels' code: images of the archive, and what of them is loaded.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use r3_archive::Archive;
use r3_archive::model::{
    AttachedForm, AttachmentRecord, ImageKind, KernelId, KernelRecord, ModuleId,
};
use r3_image::{Image, KernelInfo};
use xxhash_rust::xxh3::xxh3_128;

use crate::code::{self, Code, CodeError, CodeMode, Form, Part};
use crate::compare::InferredTypes;
use crate::device::{AddressRange, Device, DeviceError, JitOption, ModuleHandle};
use crate::error::Cause;
use crate::names::printable;

/// A loaded module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    pub handle: ModuleHandle,
    pub form: Form,
}

/// PTX that stands in for the code of some kernels.
#[derive(Debug)]
pub struct Attached {
    /// Where it came from, for people.
    pub name: String,
    /// The PTX, or an image with PTX in it.
    pub image: Image,
}

/// Code that stands in for that of one kernel, whatever else there is.
#[derive(Clone, Debug)]
pub struct Substitute {
    /// What it is, for people.
    pub name: String,
    /// A cubin for the device, or PTX.
    pub bytes: Vec<u8>,
    /// Its form.
    pub form: Form,
}

/// Images and modules. What was read or loaded once is kept.
pub(super) struct Modules<'a> {
    archive: &'a Archive,
    mode: CodeMode,
    attached: Vec<Attached>,
    /// With a number that no other substitute had.
    substitutes: HashMap<KernelId, (u64, Substitute)>,
    next_substitute: u64,
    images: HashMap<ModuleId, Image>,
    /// By module, and which part of its image.
    loaded: HashMap<(ModuleId, Part), Loaded>,
    kernels: HashMap<KernelId, (Loaded, Option<String>)>,
    types: HashMap<KernelId, Rc<InferredTypes>>,
}

impl<'a> Modules<'a> {
    pub fn new(archive: &'a Archive, mode: CodeMode) -> Self {
        Self {
            archive,
            mode,
            attached: Vec::new(),
            substitutes: HashMap::new(),
            next_substitute: 0,
            images: HashMap::new(),
            loaded: HashMap::new(),
            kernels: HashMap::new(),
            types: HashMap::new(),
        }
    }

    /// Lets PTX stand in for the code of the kernels that it has.
    pub fn attach(&mut self, attached: Attached) {
        self.attached.push(attached);
    }

    /// Lets code stand in for a kernel's own, or the kernel's own code again. What stood in for it before is taken
    /// off the device; the kernel's own code stays there.
    pub fn substitute(
        &mut self,
        device: &mut dyn Device,
        kernel: &KernelRecord,
        code: Option<Substitute>,
    ) -> Result<(), DeviceError> {
        self.kernels.remove(&kernel.id);
        let earlier = self.substitutes.remove(&kernel.id);
        if let Some(code) = code {
            self.substitutes
                .insert(kernel.id, (self.next_substitute, code));
            self.next_substitute += 1;
        }
        let (Some((number, _)), Some(module)) = (earlier, kernel.module) else {
            return Ok(());
        };
        match self.loaded.remove(&(module, Part::Substitute(number))) {
            Some(loaded) => device.unload(loaded.handle),
            None => Ok(()),
        }
    }

    /// Takes all code off the device.
    pub fn clear(&mut self, device: &mut dyn Device) -> Result<(), DeviceError> {
        self.kernels.clear();
        for (_, loaded) in self.loaded.drain() {
            device.unload(loaded.handle)?;
        }
        Ok(())
    }

    /// What the code says of a kernel, when it can be read.
    pub fn kernel_info(&mut self, kernel: KernelId) -> Option<KernelInfo> {
        let kernel = self.archive.kernel(kernel)?;
        let module = kernel.module?;
        self.image(module).ok()?.kernel(&kernel.name)
    }

    /// What the kernel's PTX says of the types of its buffers.
    pub fn inferred_types(&mut self, kernel: &KernelRecord) -> Rc<InferredTypes> {
        if let Some(known) = self.types.get(&kernel.id) {
            return Rc::clone(known);
        }
        let mut types = kernel
            .module
            .and_then(|module| self.image(module).ok())
            .map(|image| InferredTypes::of(image, kernel))
            .unwrap_or_default();
        if types.is_empty() {
            if let Some((_, code)) = self.substitutes.get(&kernel.id) {
                // Not kept: another one may stand in next time.
                let code = Image::parse(&code.bytes);
                return Rc::new(InferredTypes::of(&code, kernel));
            }
            let images = self.stored_images(kernel.id);
            let mut attached = images.map(|image| InferredTypes::of(&image, kernel));
            types = attached.find(|types| !types.is_empty()).unwrap_or_default();
        }
        let types = Rc::new(types);
        self.types.insert(kernel.id, Rc::clone(&types));
        types
    }

    fn image(&mut self, module: ModuleId) -> Result<&Image, Cause> {
        let record = self.archive.module(module).ok_or(Cause::NoModule(module))?;
        match self.images.entry(module) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(entry) => {
                let bytes = self.archive.read_blob(&record.image)?;
                Ok(entry.insert(Image::from_vec(bytes)))
            }
        }
    }

    /// The kernel's module on the device, and what the user should know about it. `globals` are the module's
    /// variables, where they were recorded.
    pub fn load(
        &mut self,
        device: &mut dyn Device,
        kernel: &KernelRecord,
        globals: &[(&str, AddressRange)],
    ) -> Result<(Loaded, Option<String>), Cause> {
        if let Some(known) = self.kernels.get(&kernel.id) {
            return Ok(known.clone());
        }
        let loaded = self.load_new(device, kernel, globals)?;
        self.kernels.insert(kernel.id, loaded.clone());
        Ok(loaded)
    }

    fn load_new(
        &mut self,
        device: &mut dyn Device,
        kernel: &KernelRecord,
        globals: &[(&str, AddressRange)],
    ) -> Result<(Loaded, Option<String>), Cause> {
        let id = kernel.module.ok_or(Cause::NoCode)?;
        let code = self.choose(device, id, kernel)?;
        if let Some(loaded) = self.loaded.get(&(id, code.part)) {
            let form = code.form;
            return Ok((Loaded { form, ..*loaded }, code.note));
        }
        let part = code.part;
        let (loaded, note) = self.load_code(device, id, code, globals)?;
        self.loaded.insert((id, part), loaded);
        Ok((loaded, note))
    }

    fn load_code(
        &self,
        device: &mut dyn Device,
        id: ModuleId,
        code: Code,
        globals: &[(&str, AddressRange)],
    ) -> Result<(Loaded, Option<String>), Cause> {
        let record = self.archive.module(id).ok_or(Cause::NoModule(id))?;
        let (options, dropped) = jit_options(&record.jit_options);
        // Options are for compiling; machine code takes none of them.
        let machine_code =
            matches!(code.part, Part::Substitute(_)) && matches!(code.form, Form::Sass(_));
        let options = if record.kind == ImageKind::Cubin || machine_code {
            Vec::new()
        } else {
            options
        };
        let handle = device.load(&code.bytes, &options, globals)?;
        let loaded = Loaded {
            handle,
            form: code.form,
        };
        let note = match (code.note, dropped) {
            (note, None) => note,
            (None, dropped) => dropped,
            (Some(note), Some(dropped)) => Some(format!("{note}; {dropped}")),
        };
        Ok((loaded, note))
    }

    /// Loads a kernel's code, or `code` in place of it, once more, whatever is loaded already. Whoever asked unloads it.
    /// Also returned: a hash of the bytes.
    pub fn load_fresh(
        &mut self,
        device: &mut dyn Device,
        kernel: &KernelRecord,
        code: Option<(&[u8], Form)>,
        globals: &[(&str, AddressRange)],
    ) -> Result<(Loaded, Option<String>, u128), Cause> {
        let id = kernel.module.ok_or(Cause::NoCode)?;
        let code = match code {
            None => self.choose(device, id, kernel)?,
            Some((bytes, form)) => Code {
                bytes: bytes.to_vec(),
                part: Part::Substitute(u64::MAX),
                form,
                note: None,
            },
        };
        let hash = xxh3_128(&code.bytes);
        let (loaded, note) = self.load_code(device, id, code, globals)?;
        Ok((loaded, note, hash))
    }

    /// The code that stands for a kernel's: a substitute, else attached PTX, else what its image has for the device.
    fn choose(
        &mut self,
        device: &dyn Device,
        module: ModuleId,
        kernel: &KernelRecord,
    ) -> Result<Code, Cause> {
        let target = code::Target {
            sm: device.info().architecture(),
            machine_code: device.runs_machine_code(),
        };
        if let Some((number, code)) = self.substitutes.get(&kernel.id) {
            return Ok(Code {
                bytes: code.bytes.clone(),
                part: Part::Substitute(*number),
                form: code.form,
                note: Some(format!("{} runs instead of the recorded code", code.name)),
            });
        }
        for (index, attached) in self.attached.iter().enumerate() {
            let Ok(code) = code::choose(&attached.image, &kernel.name, target, CodeMode::Ptx)
            else {
                continue;
            };
            return Ok(Code {
                part: Part::Attached(index),
                note: Some(format!(
                    "{} runs instead of the recorded code",
                    attached.name
                )),
                ..code
            });
        }
        let mode = self.mode;
        let chosen = match mode {
            CodeMode::Attached => Err(CodeError::NotAttached {
                kernel: kernel.name.clone(),
            }),
            _ => code::choose(self.image(module)?, &kernel.name, target, mode),
        };
        match chosen {
            Err(mut error) if error.nothing_runs() => {
                if let Some(stored) = self.stored(kernel, target)? {
                    return Ok(stored);
                }
                let source = self.archive.module(module).and_then(|module| module.source);
                if let (CodeError::NoPtx { forms, .. }, Some(_)) = (&mut error, source) {
                    forms.push_str(
                        ", and its source, which `r3-replay attach --from-capture` compiles",
                    );
                }
                Err(Cause::Code(error))
            }
            chosen => Ok(chosen?),
        }
    }

    /// The newest PTX in the archive that was attached to a kernel and runs on the target.
    fn stored(
        &mut self,
        kernel: &KernelRecord,
        target: code::Target,
    ) -> Result<Option<Code>, Cause> {
        let archive = self.archive;
        for attachment in archive.attached_to(kernel.id) {
            let Some(image) = self.stored_image(attachment)? else {
                continue;
            };
            let Ok(code) = code::choose(&image, &kernel.name, target, CodeMode::Ptx) else {
                continue;
            };
            return Ok(Some(Code {
                part: Part::Stored(attachment.id.0),
                note: Some(format!(
                    "PTX attached from {} runs instead of the recorded code{}",
                    printable(&attachment.file),
                    match attachment.kernel(kernel.id) {
                        Some(entry) if !entry.verified.is_empty() => "",
                        _ => "; it was attached without being verified",
                    }
                )),
                ..code
            }));
        }
        Ok(None)
    }

    fn stored_image(&self, attachment: &AttachmentRecord) -> Result<Option<Image>, Cause> {
        let Some(blob) = attachment.code(AttachedForm::Ptx) else {
            return Ok(None);
        };
        Ok(Some(Image::from_vec(self.archive.read_blob(blob)?)))
    }

    /// PTX that was attached to a kernel, newest first.
    fn stored_images(&self, kernel: KernelId) -> impl Iterator<Item = Image> {
        let attachments = self.archive.attached_to(kernel);
        attachments.filter_map(|attachment| self.stored_image(attachment).ok().flatten())
    }
}

/// `CUjit_option` numbers whose values are plain numbers and shape the code.
const PLAIN_JIT_OPTIONS: [u32; 18] = [
    0, 1, 7, 8, 10, 11, 13, 14, 15, 16, 20, 21, 22, 23, 24, 30, 31, 32,
];

/// `CUjit_option` numbers that give the addresses of host-defined symbols.
const SYMBOL_JIT_OPTIONS: [u32; 3] = [17, 18, 19];

/// The options that can be given again, and a note when an important one cannot.
fn jit_options(recorded: &[(u32, u64)]) -> (Vec<JitOption>, Option<String>) {
    let options = recorded
        .iter()
        .filter(|(option, _)| PLAIN_JIT_OPTIONS.contains(option))
        .map(|&(option, value)| JitOption { option, value })
        .collect();
    let symbols = recorded
        .iter()
        .any(|(option, _)| SYMBOL_JIT_OPTIONS.contains(option));
    let note = symbols.then(|| {
        "the application linked symbols of its own into the code, which a replay cannot".to_owned()
    });
    (options, note)
}
