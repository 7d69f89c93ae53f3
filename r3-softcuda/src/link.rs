//! Linking: PTX in, one PTX module out.
//!
//! The driver's linker makes machine code. Here the linked image is PTX, the texts made one: it can be loaded, and
//! whoever reads images (a recorder, a real driver) can read it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use r3_ptx::tree::{Function, Item, Linkage, Module, Statement};

use crate::api::{In, Out, Text, api};
use crate::code::{self, Jit, Refused};
use crate::context;
use crate::error::{CuError, Res};
use crate::gpu::Gpu;
use crate::handle::{self, Handle};
use crate::module::file;
use crate::process::{lock, once};

/// A linker.
pub struct Link {
    pub handle: Handle,
    gpu: &'static Gpu,
    jit: Mutex<Jit>,
    texts: Mutex<Vec<String>>,
    /// What was given out; it lives as long as the linker.
    image: Mutex<Option<Arc<[u8]>>>,
}

// SAFETY: the pointers of the options are the program's; the API says that they stay until the linker is destroyed.
unsafe impl Send for Jit {}

const CUBIN: u32 = 0;
const PTX: u32 = 1;
const FATBIN: u32 = 2;
const OBJECT: u32 = 3;
const LIBRARY: u32 = 4;

/// Barriers of a grid.
const DEVICE_RUNTIME: &str = include_str!("devrt.ptx");

impl Link {
    fn add(&self, kind: u32, bytes: Vec<u8>, name: &str) -> Res {
        let refuse = |error, message| self.finish(Err(Refused { error, message }));
        let texts = match kind {
            PTX => {
                let end = bytes
                    .iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(bytes.len());
                vec![String::from_utf8_lossy(&bytes[..end]).into_owned()]
            }
            FATBIN | OBJECT => match code::texts(bytes, self.gpu) {
                Ok(texts) => texts,
                Err(refused) => return self.finish(Err(refused)),
            },
            // Libraries of the toolkit hold machine code only; what of them a program needs shows when it is loaded.
            // What of the device runtime can be had is added where it is used.
            LIBRARY if name.contains("cudadevrt") => Vec::new(),
            LIBRARY => {
                once(
                    name,
                    &format!(
                        "softcuda: {name} is not linked: libraries hold machine code, and PTX is needed"
                    ),
                );
                Vec::new()
            }
            CUBIN => {
                return refuse(
                    CuError::NO_BINARY_FOR_GPU,
                    format!("{name} is machine code; give PTX to the linker"),
                );
            }
            _ => {
                return refuse(
                    CuError::INVALID_VALUE,
                    format!("{name}: input of kind {kind} cannot be linked"),
                );
            }
        };
        for text in &texts {
            // Errors show now, with the input's name.
            if let Err(errors) = r3_ptx::parse(text) {
                return refuse(
                    CuError::INVALID_PTX,
                    format!("{name}: {}", errors.render(text)),
                );
            }
        }
        lock(&self.texts).extend(texts);
        Ok(())
    }

    fn finish<T>(&self, outcome: Result<T, Refused>) -> Res<T> {
        lock(&self.jit).finish(outcome)
    }

    fn complete(&self) -> Result<Arc<[u8]>, Refused> {
        let mut texts = lock(&self.texts).clone();
        if texts.iter().any(|text| text.contains("cudaCG")) {
            texts.push(DEVICE_RUNTIME.to_owned());
        }
        let text = match &texts[..] {
            [] => {
                return Err(Refused {
                    error: CuError::INVALID_VALUE,
                    message: "nothing was given to the linker".into(),
                });
            }
            [text] => text.clone(),
            several => merge(several)?,
        };
        code::compile(&text, self.gpu)?;
        let mut bytes = text.into_bytes();
        bytes.push(0);
        Ok(bytes.into())
    }
}

/// Makes one module of several. Names that are private to each are kept apart; what one declares and another defines is
/// declared once, in front; places in source files are dropped, because each module counts its files for itself.
fn merge(texts: &[String]) -> Result<String, Refused> {
    let invalid = |message: String| Refused {
        error: CuError::INVALID_PTX,
        message,
    };
    let parse = |text: &String| r3_ptx::parse(text).map_err(|errors| invalid(errors.render(text)));
    let mut modules = texts.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let mut known = BTreeSet::new();
    for (number, module) in modules.iter_mut().enumerate() {
        keep_apart(module, number, &mut known);
    }
    let mut defined: BTreeMap<String, Linkage> = BTreeMap::new();
    for module in &modules {
        let mut own = BTreeSet::new();
        for item in &module.items {
            let Some(Symbol {
                name,
                linkage,
                declared: false,
                ..
            }) = symbol(module, item)
            else {
                continue;
            };
            let merges = matches!(linkage, Linkage::Weak | Linkage::Common);
            if own.insert(name.clone())
                && defined.insert(name.clone(), linkage).is_some()
                && !merges
            {
                return Err(invalid(format!(
                    "{name} is defined in two of the modules that are linked"
                )));
            }
        }
    }
    let version = modules
        .iter()
        .map(|module| module.version)
        .max()
        .unwrap_or_default();
    let target = modules
        .iter()
        .map(|module| &module.target)
        .max_by_key(|target| number_of(target))
        .cloned();
    // Declarations, then variables, then functions: nothing is used before it is known.
    let mut text = String::new();
    let mut written = BTreeSet::new();
    for phase in [Phase::Declaration, Phase::Variable, Phase::Function] {
        for module in &modules {
            let part = part(module, phase, &defined, &mut written);
            let part = Module {
                version,
                target: target.clone().unwrap_or_default(),
                ..part
            };
            let whole = part.to_string();
            text.push_str(if text.is_empty() {
                &whole
            } else {
                body(&whole)
            });
            text.push('\n');
        }
    }
    Ok(text)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Declaration,
    Variable,
    Function,
}

/// The items of a phase that were not written yet.
fn part(
    module: &Module,
    phase: Phase,
    defined: &BTreeMap<String, Linkage>,
    written: &mut BTreeSet<(String, bool)>,
) -> Module {
    let mut part = Module {
        items: Vec::new(),
        ..module.clone()
    };
    for item in &module.items {
        let Some(own) = symbol(module, item) else {
            if phase == Phase::Function && matches!(item, Item::Alias { .. }) {
                part.items.push(item.clone());
            }
            continue;
        };
        let function = matches!(item, Item::Function(_));
        let of_phase = match phase {
            Phase::Declaration => function && own.declared,
            Phase::Variable => !function,
            Phase::Function => function && !own.declared,
        };
        let elsewhere = own.declared && !function && defined.contains_key(&own.name);
        if !of_phase || elsewhere || !written.insert((own.name.clone(), own.declared)) {
            continue;
        }
        let mut item = item.clone();
        if let Item::Function(function) = &mut item {
            if own.declared
                && let Some(linkage) = defined.get(&own.name)
            {
                function.linkage = *linkage;
            }
            if let Some(body) = &mut function.body {
                body.statements
                    .retain(|statement| !matches!(statement, Statement::Loc(..)));
            }
        }
        part.items.push(item);
    }
    part
}

/// Renames what is private in a module and known in one before it.
fn keep_apart(module: &mut Module, number: usize, known: &mut BTreeSet<String>) {
    let own: BTreeMap<String, bool> = module
        .items
        .iter()
        .filter_map(|item| symbol(module, item))
        .map(|own| (own.name, own.private))
        .collect();
    for (name, private) in own {
        if known.insert(name.clone()) || !private {
            continue;
        }
        let new = format!("{name}__m{number}");
        known.insert(new.clone());
        for text in module.names.iter_mut().filter(|text| ***text == *name) {
            *text = new.clone().into();
        }
    }
}

/// `sm_90a` → 90
fn number_of(target: &[String]) -> u32 {
    let digits = target
        .first()
        .map(|sm| sm.chars().filter(char::is_ascii_digit).collect::<String>());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// A printed module without its header.
fn body(text: &str) -> &str {
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        let line = line.trim_start();
        let header = [".version", ".target", ".address_size"]
            .iter()
            .any(|word| line.starts_with(word));
        if !header && !line.is_empty() && !line.starts_with("//") {
            break;
        }
        rest = after;
    }
    rest
}

/// What an item declares.
struct Symbol {
    name: String,
    linkage: Linkage,
    /// Not known to other modules.
    private: bool,
    /// Declared here, defined elsewhere.
    declared: bool,
}

fn symbol(module: &Module, item: &Item) -> Option<Symbol> {
    let (name, linkage, declared, entry) = match item {
        Item::Variable(variable) => (
            variable.name,
            variable.linkage,
            variable.linkage == Linkage::Extern,
            false,
        ),
        Item::Function(Function {
            name,
            linkage,
            body,
            entry,
            ..
        }) => (*name, *linkage, body.is_none(), *entry),
        _ => return None,
    };
    let private = linkage == Linkage::Internal && !declared && !entry;
    Some(Symbol {
        name: module.name(name).to_owned(),
        linkage,
        private,
        declared,
    })
}

fn create(count: u32, options: In<u32>, values: Out<u64>, state: Out<Handle>) -> Res {
    state.required()?;
    let gpu = context::current()?.device.gpu;
    let jit = Mutex::new(Jit::new(options, values, count)?);
    let link = handle::create(|handle| Link {
        handle,
        gpu,
        jit,
        texts: Mutex::default(),
        image: Mutex::default(),
    });
    state.set(link.handle)
}

fn add_data(state: Handle, kind: u32, data: In<u8>, len: usize, name: Text) -> Res {
    let link = handle::get::<Link>(state)?;
    link.add(kind, data.list(len)?, name.get().unwrap_or("an input"))
}

fn add_file(state: Handle, kind: u32, path: Text) -> Res {
    let link = handle::get::<Link>(state)?;
    link.add(kind, file(path)?, path.get()?)
}

api! {
    fn cuLinkCreate(count: u32, options: In<u32>, values: Out<u64>, state: Out<Handle>) {
        create(count, options, values, state)
    }

    fn cuLinkCreate_v2(count: u32, options: In<u32>, values: Out<u64>, state: Out<Handle>) {
        create(count, options, values, state)
    }

    fn cuLinkAddData(state: Handle, kind: u32, data: In<u8>, len: usize, name: Text, _count: u32, _options: In<u32>, _values: Out<u64>) {
        add_data(state, kind, data, len, name)
    }

    fn cuLinkAddData_v2(state: Handle, kind: u32, data: In<u8>, len: usize, name: Text, _count: u32, _options: In<u32>, _values: Out<u64>) {
        add_data(state, kind, data, len, name)
    }

    fn cuLinkAddFile(state: Handle, kind: u32, path: Text, _count: u32, _options: In<u32>, _values: Out<u64>) {
        add_file(state, kind, path)
    }

    fn cuLinkAddFile_v2(state: Handle, kind: u32, path: Text, _count: u32, _options: In<u32>, _values: Out<u64>) {
        add_file(state, kind, path)
    }

    fn cuLinkComplete(state: Handle, image: Out<*const c_void>, len: Out<usize>) {
        image.required()?;
        let link = handle::get::<Link>(state)?;
        let bytes = link.finish(link.complete())?;
        image.set(bytes.as_ptr().cast())?;
        len.set_if_wanted(bytes.len());
        *lock(&link.image) = Some(bytes);
        Ok(())
    }

    fn cuLinkDestroy(state: Handle) {
        handle::remove::<Link>(state).map(drop)
    }
}
