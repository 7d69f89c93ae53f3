//! Device code: what the program loaded, and which handle stands for which kernel.
//!
//! An image is kept from its load until it is written to the archive (with the first recorded launch
//! of one of its kernels) or unloaded. One image loaded twice is one image: programs that load, launch
//! and unload in a loop would otherwise have each first launch recorded again.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use r3_archive::model::{
    ImageKind, KernelId, LayoutSource, ModuleId, ParamLayout, ProcessStatsRecord,
};
use r3_image::Image as ParsedImage;

use crate::driver::{FunctionHandle, ModuleHandle};
use crate::{elf, embedded, log, nvrtc, process};

/// Larger images are left where they are and not recorded.
const IMAGE_LIMIT: usize = 2 << 30;

/// Where an image's bytes are.
enum Bytes {
    /// In the read-only part of a loaded ELF file, which keeps them mapped; copied when needed.
    InObject(usize),
    /// Copied at load, since the program may free them.
    Copied(Arc<[u8]>),
    /// Unloaded before a launch needed them.
    Dropped,
    /// In the archive.
    Written,
}

/// A parameter layout and where it was read.
type Layout = (Vec<ParamLayout>, LayoutSource);

/// What the driver was given to load.
pub struct Image {
    pub id: ModuleId,
    pub loaded_by: &'static str,
    pub jit_options: Vec<(u32, u64)>,
    /// ELF file that contains the image.
    pub origin: Option<String>,
    /// Source from which NVRTC compiled it.
    pub source: Option<Arc<nvrtc::Source>>,
    bytes: Mutex<Bytes>,
    /// Names of its variables.
    variables: OnceLock<Vec<String>>,
    /// Parameter layouts by kernel, for drivers that do not tell them.
    layouts: OnceLock<HashMap<String, Layout>>,
}

impl Image {
    /// Kind and bytes, while they are to be had.
    pub fn read(&self) -> Option<(ImageKind, Arc<[u8]>)> {
        let bytes = match &*self.bytes() {
            Bytes::Copied(bytes) => Arc::clone(bytes),
            Bytes::Dropped | Bytes::Written => return None,
            Bytes::InObject(address) => {
                // The object may have been unloaded and its address used again.
                let pointer = *address as *const c_void;
                if !elf::is_in_object(pointer) {
                    return None;
                }
                // SAFETY: the program gave this address to the driver, and it is mapped.
                let content = unsafe { r3_image::memory::content_of(pointer) };
                if elf::read_only_object_of(content) != self.origin {
                    return None;
                }
                // SAFETY: the driver was given this address as an image, and the same object is
                // still mapped there.
                let (_, bytes) =
                    unsafe { r3_image::memory::copy_image(*address as *const c_void, IMAGE_LIMIT) }
                        .ok()?;
                bytes.into()
            }
        };
        Some((archive_kind(&bytes), bytes))
    }

    fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The archive has it.
    pub fn written(&self) {
        let _ = self.variables();
        *self.bytes() = Bytes::Written;
    }

    /// It is not loaded any more.
    fn drop_bytes(&self) {
        let mut bytes = self.bytes();
        if matches!(*bytes, Bytes::Copied(_)) {
            *bytes = Bytes::Dropped;
        }
    }

    pub fn is_written(&self) -> bool {
        matches!(*self.bytes(), Bytes::Written)
    }

    fn parse(&self) -> Option<ParsedImage> {
        self.read()
            .map(|(_, bytes)| ParsedImage::from_vec(bytes.to_vec()))
    }

    /// Names of the module's variables, constants included.
    pub fn variables(&self) -> &[String] {
        self.variables.get_or_init(|| {
            let variables = self
                .parse()
                .map(|image| image.variables())
                .unwrap_or_default();
            variables
                .into_iter()
                .map(|variable| variable.name)
                .collect()
        })
    }

    /// Names of its kernels.
    pub fn kernel_names(&self) -> Vec<String> {
        self.parse()
            .map(|image| image.kernel_names())
            .unwrap_or_default()
    }

    /// A kernel's parameters as the image declares them. Costs a walk over the whole image.
    fn layout(&self, kernel: &str) -> Option<&Layout> {
        let layouts = self.layouts.get_or_init(|| {
            let Some(image) = self.parse() else {
                return HashMap::new();
            };
            let layout = |name: String| {
                let kernel = image.kernel(&name)?;
                let source = match kernel.from {
                    r3_image::CodeForm::Ptx => LayoutSource::Ptx,
                    _ => LayoutSource::Cubin,
                };
                let params = kernel.params.iter();
                let params = params
                    .map(|p| ParamLayout {
                        offset: p.offset,
                        size: p.size,
                    })
                    .collect();
                Some((name, (params, source)))
            };
            image
                .kernel_names()
                .into_iter()
                .filter_map(layout)
                .collect()
        });
        layouts.get(kernel)
    }
}

fn archive_kind(bytes: &[u8]) -> ImageKind {
    match r3_image::ImageKind::of(bytes) {
        r3_image::ImageKind::Fatbin => ImageKind::Fatbin,
        r3_image::ImageKind::Cubin => ImageKind::Cubin,
        r3_image::ImageKind::Ptx => ImageKind::Ptx,
        _ => ImageKind::Unknown,
    }
}

/// A kernel, by whichever handles the program launches it.
pub struct Kernel {
    pub id: KernelId,
    pub name: String,
    pub image: Option<Arc<Image>>,
    /// Whether the user's selection names it.
    pub selected: bool,
    /// `CUfunc_cache` that the program set; -1 when it did not.
    pub cache_config: AtomicI64,
    layout: OnceLock<Layout>,
}

impl Kernel {
    /// Parameter layout: the driver's word first, then the image's.
    pub fn layout(&self, handle: FunctionHandle) -> Option<&Layout> {
        if let Some(layout) = self.layout.get() {
            return Some(layout);
        }
        let layout = handle
            .params()
            .map(|params| {
                let params = params
                    .into_iter()
                    .map(|(offset, size)| ParamLayout { offset, size })
                    .collect();
                (params, LayoutSource::Driver)
            })
            .or_else(|| self.image.as_ref()?.layout(&self.name).cloned())?;
        Some(self.layout.get_or_init(|| layout))
    }
}

/// What a launch function was given as `CUfunction`.
pub struct Function {
    pub handle: FunctionHandle,
    pub kernel: Arc<Kernel>,
    /// Where its module's variables are looked up.
    pub module: Option<ModuleHandle>,
}

#[derive(Clone)]
struct Loaded {
    image: Arc<Image>,
    handle: ModuleHandle,
}

#[derive(Default)]
struct Registry {
    modules: HashMap<usize, Loaded>,
    libraries: HashMap<usize, Loaded>,
    functions: HashMap<usize, Arc<Function>>,
    kernels: HashMap<(Option<ModuleId>, String), Arc<Kernel>>,
    images: HashMap<ImageKey, Arc<Image>>,
    unloads: u64,
}

/// What makes two loads the same image.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ImageKey {
    InObject(usize, (u64, u64, i64)),
    Content(u128),
}

static REGISTRY: RwLock<Option<Registry>> = RwLock::new(None);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Counts unloads. A handle seen before the last one may stand for another kernel now.
pub static GENERATION: AtomicU64 = AtomicU64::new(0);

fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// Whether device code was ever loaded in this process.
pub fn any_seen() -> bool {
    NEXT_ID.load(Ordering::Relaxed) > 1
}

fn read<T>(look: impl FnOnce(&Registry) -> Option<T>) -> Option<T> {
    look(
        REGISTRY
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()?,
    )
}

fn write<T>(change: impl FnOnce(&mut Registry) -> T) -> T {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    change(registry.get_or_insert_with(Registry::default))
}

/// The image that the program is about to hand to the driver, copied where needed. To be called
/// before the driver's own call, after which the program may free it.
///
/// # Safety
/// `pointer` is what the program gives to a load function.
pub unsafe fn observe(
    pointer: *const c_void,
    loaded_by: &'static str,
    jit_options: Vec<(u32, u64)>,
) -> Option<Arc<Image>> {
    // SAFETY: by the caller.
    let content = unsafe { r3_image::memory::content_of(pointer) };
    // An image in read-only data stays as it is while its object is loaded. One in a buffer of the
    // program may be overwritten.
    let (key, bytes, origin) = match elf::read_only_object_of(content) {
        Some(origin) => (
            ImageKey::InObject(pointer as usize, identity_of_file(&origin)),
            Bytes::InObject(pointer as usize),
            Some(origin),
        ),
        // SAFETY: by the caller.
        None => match unsafe { r3_image::memory::copy_image(pointer, IMAGE_LIMIT) } {
            Ok((_, bytes)) => (
                ImageKey::Content(xxhash_rust::xxh3::xxh3_128(&bytes)),
                Bytes::Copied(bytes.into()),
                None,
            ),
            Err(error) => {
                log::info(format_args!(
                    "{loaded_by}: an image is not recorded: {error}"
                ));
                return None;
            }
        },
    };
    Some(intern(key, bytes, loaded_by, jit_options, origin))
}

/// Device, inode and modification time: a library that was built anew and opened again can lie at the
/// same address under the same name.
fn identity_of_file(path: &str) -> (u64, u64, i64) {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map_or((0, 0, 0), |m| (m.dev(), m.ino(), m.mtime()))
}

/// As [`observe`], for an image that the driver reads from a file.
pub fn observe_file(path: &str, loaded_by: &'static str) -> Option<Arc<Image>> {
    // What a pipe or a device holds can be read once, and the driver is to have it.
    if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        log::info(format_args!(
            "{loaded_by}: {path} is no plain file and is not recorded"
        ));
        return None;
    }
    let bytes = std::fs::read(path)
        .map_err(|error| log::info(format_args!("{loaded_by}: {path} is not recorded: {error}")))
        .ok()?;
    let key = ImageKey::Content(xxhash_rust::xxh3::xxh3_128(&bytes));
    Some(intern(
        key,
        Bytes::Copied(bytes.into()),
        loaded_by,
        Vec::new(),
        Some(path.to_owned()),
    ))
}

fn intern(
    key: ImageKey,
    bytes: Bytes,
    loaded_by: &'static str,
    jit_options: Vec<(u32, u64)>,
    origin: Option<String>,
) -> Arc<Image> {
    let source = match key {
        ImageKey::Content(hash) => nvrtc::source_of(hash),
        ImageKey::InObject(..) => None,
    };
    write(|registry| {
        if let Some(known) = registry.images.get(&key) {
            // Loaded again after it was dropped.
            let mut held = known.bytes();
            if matches!(*held, Bytes::Dropped) {
                *held = bytes;
            }
            drop(held);
            return Arc::clone(known);
        }
        let image = registry.images.entry(key).or_insert_with(|| {
            Arc::new(Image {
                id: ModuleId(next_id()),
                loaded_by,
                jit_options,
                origin,
                source,
                bytes: Mutex::new(bytes),
                variables: OnceLock::new(),
                layouts: OnceLock::new(),
            })
        });
        Arc::clone(image)
    })
}

pub fn module_loaded(module: usize, image: Option<Arc<Image>>) {
    if let Some(image) = image {
        let handle = ModuleHandle::Module(module);
        write(|registry| registry.modules.insert(module, Loaded { image, handle }));
    }
}

pub fn library_loaded(library: usize, image: Option<Arc<Image>>) {
    if let Some(image) = image {
        let handle = ModuleHandle::Library(library);
        write(|registry| registry.libraries.insert(library, Loaded { image, handle }));
    }
}

/// `cuLibraryGetModule`: the library's code under a module handle.
pub fn library_module(module: usize, library: usize) {
    write(|registry| {
        if let Some(loaded) = registry.libraries.get(&library).cloned() {
            registry.modules.insert(module, loaded);
        }
    });
}

/// The program unloads a module or library: its handles can be given out again.
pub fn unloaded(handle: ModuleHandle) {
    write(|registry| {
        let removed = match handle {
            ModuleHandle::Module(module) => registry.modules.remove(&module),
            ModuleHandle::Library(library) => registry.libraries.remove(&library),
        };
        registry.modules.retain(|_, loaded| loaded.handle != handle);
        registry
            .functions
            .retain(|_, function| function.module != Some(handle));
        if let Some(Loaded { image, .. }) = removed {
            let loaded = registry.modules.values().chain(registry.libraries.values());
            if !loaded
                .into_iter()
                .any(|other| Arc::ptr_eq(&other.image, &image))
            {
                image.drop_bytes();
            }
        }
        // Kernels that were launched are kept, for their counts; others go with their image.
        registry.unloads += 1;
        if registry.unloads.is_multiple_of(64) {
            registry
                .kernels
                .retain(|_, kernel| Arc::strong_count(kernel) > 1);
            registry
                .images
                .retain(|_, image| Arc::strong_count(image) > 1);
        }
    });
    GENERATION.fetch_add(1, Ordering::Release);
}

fn add_function(
    registry: &mut Registry,
    handle: FunctionHandle,
    name: String,
    loaded: Option<Loaded>,
) -> Arc<Function> {
    let (FunctionHandle::Function(key) | FunctionHandle::Kernel(key)) = handle;
    let image = loaded.as_ref().map(|l| Arc::clone(&l.image));
    let identity = (image.as_ref().map(|image| image.id), name);
    let kernel = registry.kernels.get(&identity).cloned().unwrap_or_else(|| {
        let kernel = Arc::new(Kernel {
            id: KernelId(next_id()),
            selected: process::kernel_selected(&identity.1),
            name: identity.1.clone(),
            image,
            cache_config: AtomicI64::new(-1),
            layout: OnceLock::new(),
        });
        registry.kernels.insert(identity, Arc::clone(&kernel));
        kernel
    });
    let function = Arc::new(Function {
        handle,
        kernel,
        module: loaded.map(|l| l.handle),
    });
    let before = registry.functions.insert(key, Arc::clone(&function));
    if before.is_some_and(|before| !Arc::ptr_eq(&before.kernel, &function.kernel)) {
        // The handle was given out again without an unload that was seen.
        GENERATION.fetch_add(1, Ordering::Release);
    }
    function
}

/// A context has ended, and the handles of its modules with it.
pub fn context_ended() {
    GENERATION.fetch_add(1, Ordering::Release);
}

/// `cuModuleGetFunction`.
pub fn function_found(function: usize, module: usize, name: &str) {
    let known = read(|registry| registry.modules.get(&module).map(|_| ())).is_some();
    let embedded = if known {
        None
    } else {
        embedded::image_with(name)
    };
    write(|registry| {
        let embedded = embedded.map(|image| Loaded {
            image,
            handle: ModuleHandle::Module(module),
        });
        let loaded = registry.modules.get(&module).cloned().or(embedded);
        add_function(
            registry,
            FunctionHandle::Function(function),
            name.to_owned(),
            loaded,
        );
    });
}

/// `cuLibraryGetKernel`.
pub fn kernel_found(kernel: usize, library: usize, name: &str) {
    write(|registry| {
        let loaded = registry.libraries.get(&library).cloned();
        add_function(
            registry,
            FunctionHandle::Kernel(kernel),
            name.to_owned(),
            loaded,
        );
    });
}

/// `cuKernelGetFunction`: the same kernel under a second handle.
pub fn kernel_function(function: usize, kernel: usize) {
    write(|registry| {
        if let Some(known) = registry.functions.get(&kernel) {
            let alias = Function {
                handle: FunctionHandle::Function(function),
                kernel: Arc::clone(&known.kernel),
                module: known.module,
            };
            registry.functions.insert(function, Arc::new(alias));
        }
    });
}

/// The function behind the handle that a launch was given. A handle that was never seen is not asked
/// for its name: it may be of the other kind, which crashes the driver.
pub fn function(handle: usize) -> Arc<Function> {
    if let Some(function) = read(|registry| registry.functions.get(&handle).cloned()) {
        return function;
    }
    let name = format!("function {handle:#x}, which was obtained unseen");
    write(|registry| add_function(registry, FunctionHandle::Function(handle), name, None))
}

/// Remembers what the program set with `cuFuncSetCacheConfig` or `cuKernelSetCacheConfig`.
pub fn cache_config(handle: usize, config: i32) {
    if let Some(function) = read(|registry| registry.functions.get(&handle).cloned()) {
        function
            .kernel
            .cache_config
            .store(i64::from(config), Ordering::Relaxed);
    }
}

/// Counts for `info` of what was loaded without being seen.
pub fn describe_unseen(stats: &mut ProcessStatsRecord) {
    let unseen = read(|registry| {
        Some(
            registry
                .kernels
                .values()
                .filter(|kernel| kernel.image.is_none())
                .count(),
        )
    });
    if let Some(count @ 1..) = unseen {
        stats.messages.push(format!(
            "{count} kernels come from modules whose load was not seen; their code is not recorded"
        ));
    }
}
