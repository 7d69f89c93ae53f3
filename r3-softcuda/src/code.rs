//! Images: from what a program hands over to checked PTX modules, with the messages that a just-in-time compiler
//! would leave in the program's log buffers.

use std::ffi::c_void;

use r3_image::{CodeForm, Entry, Image, copy_image};
use r3_ptx::typed;

use crate::api::{In, Out, current_call};
use crate::error::{CuError, Res};
use crate::gpu::Gpu;
use crate::process::say;

/// No image is longer.
pub const LIMIT: usize = 1 << 32;

/// Code that can be loaded.
pub struct Code {
    /// Modules to be linked; one, except for relocatable code.
    pub modules: Vec<typed::Module>,
}

/// Why an image cannot be loaded.
pub struct Refused {
    pub error: CuError,
    pub message: String,
}

/// Options of a compilation: `CUjit_option` numbers with their values.
pub struct Jit {
    options: Vec<u32>,
    values: Out<u64>,
}

const WALL_TIME: u32 = 2;
const INFO: (u32, u32) = (3, 4);
const ERROR: (u32, u32) = (5, 6);

impl Jit {
    /// Reads the lists of an entry point.
    pub fn new(options: In<u32>, values: Out<u64>, count: u32) -> Res<Self> {
        let options = options.list(count as usize)?;
        if !options.is_empty() {
            values.required()?;
        }
        Ok(Self { options, values })
    }

    pub fn none() -> Self {
        Self {
            options: Vec::new(),
            values: Out::new(std::ptr::null_mut()),
        }
    }

    fn place(&self, option: u32) -> Option<Out<u64>> {
        let index = self.options.iter().position(|given| *given == option)?;
        Some(self.values.at(index))
    }

    fn log(&self, (buffer, size): (u32, u32), text: &str) {
        let (Some(buffer), Some(size)) = (self.place(buffer), self.place(size)) else {
            return;
        };
        let (Ok(buffer), Ok(room)) = (buffer.get(), size.get()) else {
            return;
        };
        let room = room as u32 as usize;
        if buffer == 0 || room == 0 {
            return;
        }
        let bytes: Vec<u8> = text.bytes().take(room - 1).chain([0]).collect();
        if Out::new(buffer as *mut u8).fill(&bytes).is_ok() {
            size.set_if_wanted((bytes.len() - 1) as u64);
        }
    }

    /// Hands out the outcome.
    pub fn finish<T>(&self, outcome: Result<T, Refused>) -> Res<T> {
        if let Some(time) = self.place(WALL_TIME) {
            time.set_if_wanted(0);
        }
        match outcome {
            Ok(value) => {
                self.log(INFO, "");
                self.log(ERROR, "");
                Ok(value)
            }
            Err(refused) => {
                self.log(ERROR, &refused.message);
                if refused.error != CuError::INVALID_VALUE {
                    // One line; the program's log buffer has the place in the text, too.
                    let first = refused.message.lines().next().unwrap_or_default();
                    let what = if refused.error == CuError::INVALID_PTX {
                        "the PTX is refused: "
                    } else {
                        ""
                    };
                    say(&format!("softcuda: {}: {what}{first}", current_call()));
                }
                Err(refused.error)
            }
        }
    }
}

/// Reads an image in memory.
pub fn read(image: *const c_void, gpu: &Gpu) -> Result<Code, Refused> {
    if image.is_null() {
        return Err(Refused {
            error: CuError::INVALID_VALUE,
            message: "the image pointer is null".into(),
        });
    }
    // An ELF file is as long as its headers say; they need not be believed, because it is of no use here.
    if In::new(image.cast::<[u8; 4]>()).get() == Ok(*b"\x7fELF") {
        return Err(machine_code(gpu));
    }
    // SAFETY: the program says that an image is there; its headers tell its length, as the driver trusts them to.
    let copied = unsafe { copy_image(image, LIMIT) };
    let (_, bytes) = copied.map_err(|error| Refused {
        error: CuError::INVALID_IMAGE,
        message: format!("{error}: give PTX text, or a fat binary with PTX in it"),
    })?;
    from_bytes(bytes, gpu)
}

/// Reads an image.
pub fn from_bytes(bytes: Vec<u8>, gpu: &Gpu) -> Result<Code, Refused> {
    let texts = texts(bytes, gpu)?;
    let modules = texts
        .iter()
        .map(|text| compile(text, gpu))
        .collect::<Result<_, _>>()?;
    Ok(Code { modules })
}

/// The PTX texts of an image that this GPU takes.
pub fn texts(bytes: Vec<u8>, gpu: &Gpu) -> Result<Vec<String>, Refused> {
    let image = Image::from_vec(bytes);
    let sm = (gpu.compute.0 * 10 + gpu.compute.1).unsigned_abs();
    let whole = 0..image.bytes().len();
    let containers = if image.containers().is_empty() {
        vec![whole]
    } else {
        image.containers().to_vec()
    };
    let best = |container: &std::ops::Range<usize>| {
        let usable = |entry: &&Entry| {
            entry.form == CodeForm::Ptx
                && container.contains(&entry.range.start)
                && entry.runs_on(sm)
        };
        image
            .entries()
            .iter()
            .filter(usable)
            .max_by_key(|entry| entry.sm)
    };
    let mut chosen: Vec<&Entry> = containers.first().and_then(best).into_iter().collect();
    if chosen.is_empty() {
        // What was linked from several objects has its PTX in their containers.
        chosen = containers.iter().skip(1).filter_map(best).collect();
    }
    if chosen.is_empty() {
        return Err(nothing_usable(&image, sm));
    }
    let text = |entry: &Entry| {
        let payload = entry.payload().map_err(|error| Refused {
            error: CuError::INVALID_IMAGE,
            message: format!("the PTX of the image cannot be unpacked: {error}"),
        })?;
        Ok(String::from_utf8_lossy(&payload).into_owned())
    };
    chosen.into_iter().map(text).collect()
}

fn machine_code(gpu: &Gpu) -> Refused {
    let (major, minor) = gpu.compute;
    let message = format!(
        "the image is machine code of a GPU; this driver runs PTX: load the compiler's PTX instead, or build with PTX in it \
         (nvcc -gencode arch=compute_{major}{minor},code=compute_{major}{minor})"
    );
    Refused {
        error: CuError::NO_BINARY_FOR_GPU,
        message,
    }
}

fn nothing_usable(image: &Image, sm: u32) -> Refused {
    let mut forms: Vec<String> = image
        .entries()
        .iter()
        .map(|entry| {
            let form = match entry.form {
                CodeForm::Ptx => "PTX",
                CodeForm::Cubin => "machine code",
                CodeForm::LtoIr => "LTO-IR",
                CodeForm::Other(_) => "code of an unknown form",
            };
            format!(
                "{form} for sm_{}{}",
                entry.sm,
                entry.arch_suffix.map(String::from).unwrap_or_default()
            )
        })
        .collect();
    forms.dedup();
    if forms.is_empty() {
        return Refused {
            error: CuError::INVALID_IMAGE,
            message: "the image holds no code that this driver knows".into(),
        };
    }
    let only_newer = image
        .entries()
        .iter()
        .all(|entry| entry.form == CodeForm::Ptx);
    let message = format!(
        "the image holds {}; this driver runs PTX for sm_{sm} or older: build with PTX in it \
         (nvcc -gencode arch=compute_{sm},code=compute_{sm}), or choose another SOFTCUDA_GPU",
        forms.join(", ")
    );
    Refused {
        error: if only_newer {
            CuError::INVALID_PTX
        } else {
            CuError::NO_BINARY_FOR_GPU
        },
        message,
    }
}

/// The newest PTX that is read.
const PTX_VERSION: (u16, u16) = (9, 9);

/// Parses and checks.
pub fn compile(text: &str, gpu: &Gpu) -> Result<typed::Module, Refused> {
    let failed = |errors: r3_ptx::Errors| Refused {
        error: CuError::INVALID_PTX,
        message: errors.render(text),
    };
    let tree = r3_ptx::parse(text).map_err(failed)?;
    if tree.version > PTX_VERSION {
        let (major, minor) = tree.version;
        return Err(Refused {
            error: CuError::UNSUPPORTED_PTX_VERSION,
            message: format!("PTX of version {major}.{minor} is too new; up to 9.x is read"),
        });
    }
    let _ = gpu;
    r3_ptx::check(&tree).map_err(failed)
}
