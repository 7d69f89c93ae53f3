//! nvJitLink, loaded when it is first used: PTX to a cubin, LTO-IR to PTX.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use super::find::NVJITLINK;
use super::tool;
use super::{Linked, Refusal};
use crate::recipe::{Failure, FailureKind, Stage};
use crate::worker::Tail;

type Handle = *mut c_void;
type Outcome = c_int;

/// Results of the library that are told apart here.
mod outcome {
    use super::Outcome;

    pub(super) const SUCCESS: Outcome = 0;
    pub(super) const UNRECOGNIZED_ARCH: Outcome = 16;
    pub(super) const UNSUPPORTED_ARCH: Outcome = 17;
    /// In the order of their numbers.
    pub(super) const NAMES: &[&str] = &[
        "success",
        "unrecognized option",
        "missing architecture",
        "invalid input",
        "PTX compilation",
        "NVVM compilation",
        "internal error",
        "thread pool",
        "unrecognized input",
        "finalizer",
        "null input",
        "incompatible options",
        "incorrect input type",
        "architecture mismatch",
        "outdated library",
        "missing fatbin",
        "unrecognized architecture",
        "unsupported architecture",
        "link-time optimization is not enabled",
    ];
}

/// Kinds of input.
const INPUT_PTX: c_int = 2;
const INPUT_LTO_IR: c_int = 3;

/// Versions whose names of functions are tried, newest first, where the plain names are not exported.
const MAJORS: [u32; 3] = [14, 13, 12];
const MINORS: u32 = 10;

type Create = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> Outcome;
type Destroy = unsafe extern "C" fn(*mut Handle) -> Outcome;
type AddData = unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> Outcome;
type Complete = unsafe extern "C" fn(Handle) -> Outcome;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> Outcome;
type Get = unsafe extern "C" fn(Handle, *mut c_void) -> Outcome;
type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> Outcome;

/// The library's functions.
struct Library {
    create: Create,
    destroy: Destroy,
    add_data: AddData,
    complete: Complete,
    cubin: (Size, Get),
    ptx: (Size, Get),
    errors: (Size, Get),
    infos: (Size, Get),
    version: String,
}

/// LTO-IR to PTX. `arch` is for which architecture, e.g. `sm_90`; `name` stands in messages; `options` are nvJitLink's,
/// e.g. `-ftz=1`.
pub fn lto_to_ptx(
    lto: &[u8],
    name: &str,
    arch: &str,
    options: &[String],
) -> Result<String, Failure> {
    let library = library(Stage::Source)?;
    let arch = super::arch::checked(arch)?;
    let mut all = vec![format!("-arch={arch}"), "-lto".into(), "-ptx".into()];
    all.extend(options.iter().cloned());
    let session = Session::new(library, Stage::Source, &all).map_err(Refusal::failure)?;
    session
        .add(INPUT_LTO_IR, lto, name)
        .and_then(|()| session.complete())
        .map_err(Refusal::failure)?;
    let mut ptx = session.get(library.ptx).map_err(Refusal::failure)?;
    while ptx.last() == Some(&0) {
        ptx.pop();
    }
    String::from_utf8(ptx).map_err(|_| Failure {
        stage: Stage::Source,
        kind: FailureKind::Refused,
        message: format!("{name}: nvJitLink's PTX is no text"),
        log: String::new(),
    })
}

/// Whether the library is there; else why not.
pub(super) fn present() -> Result<(), Failure> {
    library(Stage::Assemble).map(|_| ())
}

/// PTX to a cubin. Each of `options`, in `ptxas` spelling, is one option with its value joined to it.
pub(super) fn assemble(ptx: &str, arch: &str, options: &[String]) -> Result<Linked, Refusal> {
    let library = library(Stage::Assemble).map_err(Refusal::Other)?;
    let mut all = vec![format!("-arch={arch}"), "-Xptxas=-v".into()];
    all.extend(options.iter().map(|option| format!("-Xptxas={option}")));
    let session = Session::new(library, Stage::Assemble, &all)?;
    // It takes text to its terminator to see what it is.
    let text = CString::new(ptx).map_err(|_| {
        Refusal::Other(Failure {
            stage: Stage::Assemble,
            kind: FailureKind::Refused,
            message: "there is a zero byte in the PTX".into(),
            log: String::new(),
        })
    })?;
    session.add(INPUT_PTX, text.as_bytes(), "kernel.ptx")?;
    session.complete()?;
    Ok(Linked {
        bytes: session.get(library.cubin)?,
        log: session.log(library.infos),
        assembler: format!("nvJitLink {}", library.version),
    })
}

/// One linking.
struct Session {
    library: &'static Library,
    stage: Stage,
    handle: Handle,
}

impl Session {
    fn new(
        library: &'static Library,
        stage: Stage,
        options: &[String],
    ) -> Result<Session, Refusal> {
        let options: Vec<CString> = options
            .iter()
            .filter_map(|option| CString::new(option.as_str()).ok())
            .collect();
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut session = Session {
            library,
            stage,
            handle: std::ptr::null_mut(),
        };
        let count = u32::try_from(pointers.len()).unwrap_or(u32::MAX);
        // SAFETY: as many terminated strings as said, alive during the call; the handle is a place of ours.
        let outcome = unsafe { (library.create)(&mut session.handle, count, pointers.as_ptr()) };
        session.check("the options", outcome)?;
        Ok(session)
    }

    fn add(&self, kind: c_int, data: &[u8], name: &str) -> Result<(), Refusal> {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the bytes are valid for their length, the name is terminated; the library copies both.
        let outcome = unsafe {
            (self.library.add_data)(
                self.handle,
                kind,
                data.as_ptr().cast(),
                data.len(),
                name.as_ptr(),
            )
        };
        self.check("the input", outcome)
    }

    fn complete(&self) -> Result<(), Refusal> {
        // SAFETY: the handle is one of this library.
        let outcome = unsafe { (self.library.complete)(self.handle) };
        self.check("linking", outcome)
    }

    fn get(&self, (size, get): (Size, Get)) -> Result<Vec<u8>, Refusal> {
        let mut len = 0;
        // SAFETY: the handle is one of this library, the length a place of ours.
        let outcome = unsafe { size(self.handle, &mut len) };
        self.check("the result", outcome)?;
        let mut bytes = vec![0u8; len];
        // SAFETY: there is room for as many bytes as the library said.
        let outcome = unsafe { get(self.handle, bytes.as_mut_ptr().cast()) };
        self.check("the result", outcome)?;
        Ok(bytes)
    }

    /// A log, whole. Empty when there is none.
    fn log(&self, (size, get): (Size, Get)) -> String {
        let mut len = 0;
        if self.handle.is_null() {
            return String::new();
        }
        // SAFETY: as in `get`. One byte more, in case that the terminator is not counted.
        let bytes = unsafe {
            if size(self.handle, &mut len) != outcome::SUCCESS || len == 0 {
                return String::new();
            }
            let mut bytes = vec![0u8; len + 1];
            if get(self.handle, bytes.as_mut_ptr().cast()) != outcome::SUCCESS {
                return String::new();
            }
            bytes
        };
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(len);
        String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
    }

    fn check(&self, what: &str, outcome: Outcome) -> Result<(), Refusal> {
        if outcome == outcome::SUCCESS {
            return Ok(());
        }
        let name = usize::try_from(outcome)
            .ok()
            .and_then(|outcome| outcome::NAMES.get(outcome))
            .map_or_else(|| format!("error {outcome}"), |name| (*name).to_owned());
        let log = Tail::of(self.log(self.library.errors).as_bytes());
        let otherwise = format!("nvJitLink refused {what}: {name}");
        let failure = tool::refusal(self.stage, "nvJitLink", &otherwise, log, false);
        Err(match outcome {
            outcome::UNRECOGNIZED_ARCH | outcome::UNSUPPORTED_ARCH => {
                Refusal::Architecture(failure)
            }
            _ => Refusal::of(failure),
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is one of this library and used no more.
            unsafe { (self.library.destroy)(&mut self.handle) };
        }
    }
}

fn library(stage: Stage) -> Result<&'static Library, Failure> {
    static LOADED: OnceLock<Result<Library, String>> = OnceLock::new();
    LOADED
        .get_or_init(load)
        .as_ref()
        .map_err(|message| Failure {
            stage,
            kind: FailureKind::MissingTool,
            message: message.clone(),
            log: String::new(),
        })
}

fn load() -> Result<Library, String> {
    let mut names: Vec<PathBuf> = Vec::new();
    if std::env::var_os(NVJITLINK.variable).is_none_or(|value| value.is_empty()) {
        // A bare name: the loader looks for it.
        names.extend(NVJITLINK.files.iter().map(PathBuf::from));
    }
    names.extend(NVJITLINK.candidates());
    let mut found_but = String::new();
    for name in names {
        // SAFETY: NVIDIA's library, whose initialisers do nothing but set up its own state.
        let library = match unsafe { libloading::Library::new(&name) } {
            Ok(library) => library,
            Err(error) => {
                if name.is_file() {
                    found_but = format!("; {error}");
                }
                continue;
            }
        };
        match functions(&library) {
            Some(functions) => {
                // Its code is used until this process ends.
                std::mem::forget(library);
                return Ok(functions);
            }
            None => {
                found_but = format!(
                    "; {} has not the functions of nvJitLink 12 to 14",
                    name.display()
                );
            }
        }
    }
    Err(format!(
        "nvJitLink was not found: looked for {}{found_but}",
        NVJITLINK.places()
    ))
}

fn functions(library: &libloading::Library) -> Option<Library> {
    let versions: Vec<String> = MAJORS
        .iter()
        .flat_map(|major| {
            (0..MINORS)
                .rev()
                .map(move |minor| format!("{major}_{minor}"))
        })
        .collect();
    // All functions of one version, where plain names are missing.
    let plain = |name: &str| has(library, &format!("nvJitLink{name}"));
    let spelling: Box<dyn Fn(&str) -> String> = if plain("Create") && plain("GetInfoLog") {
        Box::new(|name| format!("nvJitLink{name}"))
    } else {
        let version = versions
            .iter()
            .find(|version| has(library, &format!("__nvJitLinkCreate_{version}")))?
            .clone();
        Box::new(move |name| format!("__nvJitLink{name}_{version}"))
    };
    let pair = |size: &str, get: &str| {
        // SAFETY: these are the types of nvJitLink's interface.
        unsafe {
            Some((
                symbol(library, &spelling(size))?,
                symbol(library, &spelling(get))?,
            ))
        }
    };
    let cubin = pair("GetLinkedCubinSize", "GetLinkedCubin")?;
    let ptx = pair("GetLinkedPtxSize", "GetLinkedPtx")?;
    let errors = pair("GetErrorLogSize", "GetErrorLog")?;
    let infos = pair("GetInfoLogSize", "GetInfoLog")?;
    // SAFETY: as above; the numbers are places of ours.
    unsafe {
        let version = match symbol::<Version>(library, "nvJitLinkVersion") {
            Some(version) => {
                let (mut major, mut minor) = (0, 0);
                version(&mut major, &mut minor);
                format!("{major}.{minor}")
            }
            // The newest that it has.
            None => versions
                .iter()
                .find(|version| has(library, &format!("__nvJitLinkCreate_{version}")))
                .map_or_else(String::new, |version| version.replace('_', ".")),
        };
        Some(Library {
            create: symbol(library, &spelling("Create"))?,
            destroy: symbol(library, &spelling("Destroy"))?,
            add_data: symbol(library, &spelling("AddData"))?,
            complete: symbol(library, &spelling("Complete"))?,
            cubin,
            ptx,
            errors,
            infos,
            version,
        })
    }
}

fn has(library: &libloading::Library, name: &str) -> bool {
    // SAFETY: the symbol is not used as this type.
    unsafe { symbol::<*const c_void>(library, name) }.is_some()
}

/// # Safety
///
/// `T` is the type of the function with this name.
unsafe fn symbol<T: Copy>(library: &libloading::Library, name: &str) -> Option<T> {
    // SAFETY: by the caller.
    unsafe { library.get::<T>(name).ok().map(|symbol| *symbol) }
}
