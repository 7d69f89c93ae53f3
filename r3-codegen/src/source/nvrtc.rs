//! NVRTC: device code of a text, as PTX.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use libloading::Library;
use libloading::os::unix::{Library as UnixLibrary, RTLD_GLOBAL, RTLD_NOW};

use super::find::{NVRTC, Toolkit};
use super::options::{Dialect, Options, Preprocess};
use super::{Compiled, missing, refused, spell};
use crate::recipe::{Code, Failure, FailureKind, Source, Stage};

/// Longest log that is kept.
const LOG: usize = 16 << 10;

/// Headers of C and C++ that NVRTC lacks, as far as kernels use them. [`Stand::Text`] stands for itself; [`Stand::Cccl`] is the toolkit's own
/// form of a header, which takes longer to read.
const STAND_INS: &[(&str, Stand)] = &[
    ("cstdint", INTEGERS),
    ("stdint.h", INTEGERS),
    ("inttypes.h", INTEGERS),
    ("cinttypes", INTEGERS),
    ("cstddef", SIZES),
    ("stddef.h", SIZES),
    ("climits", LIMITS),
    ("limits.h", LIMITS),
    ("cfloat", LIMITS),
    ("float.h", LIMITS),
    ("cmath", MATHEMATICS),
    ("math.h", MATHEMATICS),
    // What it has without a header, or what only the host uses.
    ("cassert", Stand::Text("")),
    ("assert.h", Stand::Text("")),
    ("cstdio", Stand::Text("")),
    ("stdio.h", Stand::Text("")),
    ("cstdlib", Stand::Text("")),
    ("stdlib.h", Stand::Text("")),
    ("cstring", Stand::Text("")),
    ("string.h", Stand::Text("")),
    ("array", Stand::Cccl),
    ("complex", Stand::Cccl),
    ("initializer_list", Stand::Cccl),
    ("limits", Stand::Cccl),
    ("tuple", Stand::Cccl),
    ("type_traits", Stand::Cccl),
    ("utility", Stand::Cccl),
];

/// What stands for a header.
#[derive(Clone, Copy)]
enum Stand {
    Text(&'static str),
    Cccl,
}

const INTEGERS: Stand = Stand::Text(include_str!("../../cuda/nvrtc/integers.h"));
const SIZES: Stand = Stand::Text(include_str!("../../cuda/nvrtc/sizes.h"));
const LIMITS: Stand = Stand::Text(include_str!("../../cuda/nvrtc/limits.h"));
const MATHEMATICS: Stand = Stand::Text(include_str!("../../cuda/nvrtc/mathematics.h"));

/// The first version that keeps headers which it has read, as long as its process lives.
const KEEPS_HEADERS: (c_int, c_int) = (12, 8);

/// The source with what stands for headers that neither it nor a folder of the user has.
fn with_stand_ins(source: &Source, options: &Options, directory: &Path) -> Source {
    let folders: Vec<PathBuf> = options
        .preprocess
        .iter()
        .filter_map(|item| match item {
            Preprocess::Include(folder)
            | Preprocess::System(folder)
            | Preprocess::Quote(folder)
            | Preprocess::After(folder) => Some(directory.join(folder)),
            _ => None,
        })
        .collect();
    let mut source = source.clone();
    for (name, stand) in STAND_INS {
        let given = source.headers.iter().any(|(given, _)| given == name);
        if given || folders.iter().any(|folder| folder.join(name).is_file()) {
            continue;
        }
        let text = match stand {
            Stand::Text(text) => (*text).to_owned(),
            Stand::Cccl => format!(
                "#pragma once\n#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"
            ),
        };
        source.headers.push(((*name).to_owned(), text));
    }
    source
}

/// Whether this is a process for compiling, with a folder of its own to be in.
fn is_worker() -> bool {
    std::env::current_dir().is_ok_and(|folder| folder == std::env::temp_dir())
}

/// Compiles. The library runs in this process, and stays in it.
pub fn compile(source: &Source, target: &str) -> Result<Compiled, Failure> {
    let path = match &source.program {
        Some(path) => path.clone(),
        None => NVRTC
            .find()
            .unwrap_or_else(|| PathBuf::from("libnvrtc.so.13")),
    };
    let nvrtc = loaded(&path)?;
    let options = Options::read(&source.options, Dialect::Nvrtc);
    let directory = match &source.directory {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().unwrap_or_default(),
    };
    let number = target.trim_start_matches("sm_");
    let mut words = vec![format!("--gpu-architecture=compute_{number}")];
    words.extend(spell::nvrtc(&options, &directory));
    let own = directory.join(&source.name);
    if let Some(folder) = own.parent().filter(|folder| folder.is_dir()) {
        words.push(format!("-I{}", folder.display()));
    }
    // NVRTC has no folders of its own.
    let toolkit = beside(&path).or_else(|| Toolkit::find(options.toolkit.as_deref()));
    let folders = toolkit.iter().flat_map(Toolkit::includes);
    words.extend(folders.map(|folder| format!("-I{}", folder.display())));
    let (major, minor) = nvrtc.version();
    let mut all = words.clone();
    if (major, minor) >= KEEPS_HEADERS && is_worker() {
        all.push("--pch".to_owned());
    }
    let ptx = nvrtc.ptx(&with_stand_ins(source, &options, &directory), &all)?;
    Ok(Compiled {
        code: Code::Ptx(ptx),
        kernels: Vec::new(),
        compiler: format!("nvrtc {major}.{minor}"),
        command: words,
        directory,
        notes: super::unknown(&options),
    })
}

/// The toolkit in which a library lies.
fn beside(library: &Path) -> Option<Toolkit> {
    let library = library.canonicalize().ok()?;
    let root = library.ancestors().nth(2)?;
    Toolkit::find(root.to_str())
}

/// `nvrtcProgram`.
type Program = *mut std::ffi::c_void;

/// `nvrtcResult`; 0 is success.
type Status = c_int;

/// `NVRTC_ERROR_COMPILATION`.
const COMPILATION: Status = 6;

/// The library's functions.
struct Nvrtc {
    library: Library,
}

/// A program that is destroyed when this is dropped.
struct Created<'n> {
    nvrtc: &'n Nvrtc,
    program: Program,
}

/// The library, loaded once: it is large, and what it has read of headers goes with it.
fn loaded(path: &Path) -> Result<Arc<Nvrtc>, Failure> {
    static LOADED: Mutex<Vec<(PathBuf, Arc<Nvrtc>)>> = Mutex::new(Vec::new());
    let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = all.iter().find(|(known, _)| known == path) {
        return Ok(known.clone());
    }
    let new = Arc::new(Nvrtc::load(path)?);
    all.push((path.to_owned(), new.clone()));
    Ok(new)
}

impl Nvrtc {
    fn load(path: &Path) -> Result<Self, Failure> {
        // The library opens its builtins by name, and has no path to them.
        let builtins: Vec<PathBuf> = path
            .parent()
            .and_then(|folder| std::fs::read_dir(folder).ok())
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|file| {
                let name = file.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| {
                    name.starts_with("libnvrtc-builtins.so.") && !name.contains("alt")
                })
            })
            .collect();
        for file in builtins {
            // SAFETY: NVIDIA's own library of data and functions without constructors of note; it stays loaded.
            if let Ok(library) = unsafe { UnixLibrary::open(Some(&file), RTLD_NOW | RTLD_GLOBAL) } {
                std::mem::forget(library);
            }
        }
        // SAFETY: as above. It is never unloaded while it is in use.
        let library = unsafe { Library::new(path) }
            .map_err(|error| missing(format!("NVRTC is not here: {error}; {}", NVRTC.places())))?;
        Ok(Self { library })
    }

    fn version(&self) -> (c_int, c_int) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the signature is that of nvrtc.h; both pointers are valid.
        unsafe {
            if let Ok(version) = self
                .library
                .get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status>(c"nvrtcVersion")
            {
                version(&mut major, &mut minor);
            }
        }
        (major, minor)
    }

    fn function<T>(&self, name: &CStr) -> Result<libloading::Symbol<'_, T>, Failure> {
        // SAFETY: callers give the type that nvrtc.h has for the name.
        unsafe { self.library.get::<T>(name) }.map_err(|error| {
            missing(format!(
                "this NVRTC has no {}: {error}",
                name.to_string_lossy()
            ))
        })
    }

    /// What a status means.
    fn check(&self, status: Status, what: &str) -> Result<(), Failure> {
        if status == 0 {
            return Ok(());
        }
        type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;
        let name = self
            .function::<ErrorString>(c"nvrtcGetErrorString")
            .map(|text| {
                // SAFETY: the function returns a constant string for any number.
                unsafe { CStr::from_ptr(text(status)) }
                    .to_string_lossy()
                    .into_owned()
            });
        let name = name.unwrap_or_else(|_| status.to_string());
        Err(refused(format!("NVRTC: {what}: {name}")))
    }

    fn ptx(&self, source: &Source, words: &[String]) -> Result<String, Failure> {
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status;
        type AddName = unsafe extern "C" fn(Program, *const c_char) -> Status;
        let created = self.create(source)?;
        let add = self.function::<AddName>(c"nvrtcAddNameExpression")?;
        for expression in &source.name_expressions {
            let text = c_string(expression)?;
            // SAFETY: the program is alive; the string is copied.
            let status = unsafe { add(created.program, text.as_ptr()) };
            self.check(status, &format!("the name expression {expression}"))?;
        }
        let words: Vec<CString> = words
            .iter()
            .map(|word| c_string(word))
            .collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
        let compile = self.function::<Compile>(c"nvrtcCompileProgram")?;
        // SAFETY: the program is alive; there are `count` terminated strings.
        let status = unsafe { compile(created.program, count, pointers.as_ptr()) };
        if status != 0 {
            let log = created.text(c"nvrtcGetProgramLogSize", c"nvrtcGetProgramLog");
            let log = log.unwrap_or_default();
            return Err(match status {
                COMPILATION => compile_error(&log),
                _ => {
                    let failure = self.check(status, "compilation").err();
                    Failure {
                        log: tail(&log),
                        ..failure.unwrap_or_else(|| refused("NVRTC failed"))
                    }
                }
            });
        }
        created.text(c"nvrtcGetPTXSize", c"nvrtcGetPTX")
    }

    fn create(&self, source: &Source) -> Result<Created<'_>, Failure> {
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> Status;
        let create = self.function::<Create>(c"nvrtcCreateProgram")?;
        let text = c_string(&source.text)?;
        let name = c_string(&source.name.to_string_lossy())?;
        let strings = |get: fn(&(String, String)) -> &String| {
            source
                .headers
                .iter()
                .map(|header| c_string(get(header)))
                .collect::<Result<Vec<CString>, Failure>>()
        };
        let (names, texts) = (strings(|header| &header.0)?, strings(|header| &header.1)?);
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            strings.iter().map(|text| text.as_ptr()).collect()
        };
        let (name_pointers, text_pointers) = (pointers(&names), pointers(&texts));
        let count = c_int::try_from(source.headers.len()).unwrap_or(c_int::MAX);
        let mut program = ptr::null_mut();
        // SAFETY: all strings are terminated and live until the call returns, which copies them; both lists have
        // `count` entries.
        let status = unsafe {
            create(
                &mut program,
                text.as_ptr(),
                name.as_ptr(),
                count,
                text_pointers.as_ptr(),
                name_pointers.as_ptr(),
            )
        };
        self.check(status, "the program")?;
        Ok(Created {
            nvrtc: self,
            program,
        })
    }
}

impl Created<'_> {
    /// A text that the program has, by the functions that give its size and itself.
    fn text(&self, size: &CStr, get: &CStr) -> Result<String, Failure> {
        type Size = unsafe extern "C" fn(Program, *mut usize) -> Status;
        type Get = unsafe extern "C" fn(Program, *mut c_char) -> Status;
        let mut len = 0usize;
        let size_of = self.nvrtc.function::<Size>(size)?;
        // SAFETY: the program is alive and the pointer valid.
        let status = unsafe { size_of(self.program, &mut len) };
        self.nvrtc.check(status, "the size of its result")?;
        let mut bytes = vec![0u8; len];
        let get = self.nvrtc.function::<Get>(get)?;
        // SAFETY: the buffer has the length that the library asked for.
        let status = unsafe { get(self.program, bytes.as_mut_ptr().cast()) };
        self.nvrtc.check(status, "its result")?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(len);
        bytes.truncate(end);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Created<'_> {
    fn drop(&mut self) {
        type Destroy = unsafe extern "C" fn(*mut Program) -> Status;
        if let Ok(destroy) = self.nvrtc.function::<Destroy>(c"nvrtcDestroyProgram") {
            // SAFETY: the program is alive, and not used afterwards.
            unsafe { destroy(&mut self.program) };
        }
    }
}

fn compile_error(log: &str) -> Failure {
    let first = log.lines().find(|line| line.contains("error"));
    let first = first.or_else(|| log.lines().next()).unwrap_or("it failed");
    Failure {
        stage: Stage::Source,
        kind: FailureKind::Refused,
        message: format!("NVRTC: {}", first.trim()),
        log: tail(log),
    }
}

fn tail(log: &str) -> String {
    let mut start = log.len().saturating_sub(LOG);
    while !log.is_char_boundary(start) {
        start += 1;
    }
    log.get(start..).unwrap_or_default().to_owned()
}

fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| refused("NVRTC: a text has a NUL byte in it"))
}
