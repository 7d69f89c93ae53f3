//! Which of a module's code forms runs.
//!
//! The recorded image is loaded as it was, so that the driver picks what it picked for the
//! application. What it will pick is worked out beforehand, so that other code than the recorded
//! machine code never runs unsaid.

use std::fmt;

use r3_image::{CodeForm, CodeFormSummary, Entry, Image};

/// Which code form to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum CodeMode {
    /// What the driver picks from the image as it was.
    #[default]
    Auto,
    /// Machine code, or nothing.
    Sass,
    /// PTX, compiled by the driver, or nothing.
    Ptx,
    /// PTX that was attached to the kernel, or nothing.
    Attached,
}

/// What form a kernel's code has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Form {
    /// Machine code for an architecture (90 for `sm_90`).
    Sass(u32),
    /// PTX for an architecture and later ones.
    Ptx(u32),
    /// The image could not be read; the driver knows.
    Unknown,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sass(sm) => write!(f, "SASS sm_{sm}"),
            Self::Ptx(sm) => write!(f, "PTX compute_{sm}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// What code is chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Architecture, e.g. 90 for compute capability 9.0.
    pub sm: u32,
    /// Whether it runs machine code, and not PTX alone.
    pub machine_code: bool,
}

/// Which bytes code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The whole image.
    Whole,
    /// One container of a fatbin that has several.
    Container(usize),
    /// One entry of the image.
    Entry(usize),
    /// PTX that was given in place of the image.
    Attached(usize),
    /// PTX of the archive's attachment with this number.
    Stored(u64),
    /// Code that was given in place of one kernel's.
    Substitute(u64),
}

/// Code to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Which part of the image they are.
    pub part: Part,
    /// Their form.
    pub form: Form,
    /// What the user should know about the choice.
    pub note: Option<String>,
}

/// No code that may run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// Nothing in the image runs on this device.
    #[error(
        "the image has no code for kernel {kernel} that runs on {}: it has {forms}. {}",
        sm_name(*.sm),
        "Replay on a GPU of one of these architectures"
    )]
    NothingRuns {
        /// The kernel.
        kernel: String,
        /// Architecture of the device.
        sm: u32,
        /// What the image has.
        forms: String,
    },
    /// The device runs PTX alone, and there is none.
    #[error(
        "the CPU device runs PTX, and the image has none of kernel {kernel}: it has {forms}. \
         Use --device cuda on a machine with such a GPU, or add the kernel's PTX to the archive with `r3-replay attach` \
         (`verify`, `run` and `bench` also take it as --ptx FILE)"
    )]
    NoPtx {
        /// The kernel.
        kernel: String,
        /// What the image has.
        forms: String,
    },
    /// Attached code was asked for, and there is none.
    #[error(
        "--code attached: no code is attached to kernel {kernel}; `r3-replay attach` does that"
    )]
    NotAttached {
        /// The kernel.
        kernel: String,
    },
    /// Machine code was asked for on a device that runs none.
    #[error("--code sass: the CPU device runs PTX only; use --device cuda")]
    NoMachineCode,
    /// The form that was asked for is not there.
    #[error("--code {mode}: the image has no {wanted} of kernel {kernel} for {}: it has {forms}", sm_name(*.sm))]
    FormMissing {
        /// The option's value.
        mode: &'static str,
        /// What was looked for.
        wanted: &'static str,
        /// The kernel.
        kernel: String,
        /// Architecture of the device.
        sm: u32,
        /// What the image has.
        forms: String,
    },
    /// An entry is there but cannot be unpacked.
    #[error("the {form} of kernel {kernel} cannot be unpacked: {reason}")]
    Damaged {
        /// The kernel.
        kernel: String,
        /// The entry's form.
        form: String,
        /// Why.
        reason: String,
    },
}

impl CodeError {
    /// Whether the image has nothing that may run, so that code from elsewhere may.
    pub fn nothing_runs(&self) -> bool {
        match self {
            Self::NothingRuns { .. } | Self::NoPtx { .. } | Self::NotAttached { .. } => true,
            Self::FormMissing { mode, .. } => *mode == "ptx",
            Self::NoMachineCode | Self::Damaged { .. } => false,
        }
    }
}

fn sm_name(sm: u32) -> String {
    format!("sm_{sm}")
}

/// Chooses the code for a kernel on a device.
pub fn choose(
    image: &Image,
    kernel: &str,
    target: Target,
    mode: CodeMode,
) -> Result<Code, CodeError> {
    let sm = target.sm;
    // Not in the image, whatever that has.
    let not_attached = || CodeError::NotAttached {
        kernel: kernel.to_owned(),
    };
    if !target.machine_code {
        return match mode {
            CodeMode::Sass => Err(CodeError::NoMachineCode),
            CodeMode::Auto | CodeMode::Ptx => ptx_alone(image, kernel, sm),
            CodeMode::Attached => Err(not_attached()),
        };
    }
    let missing = |mode, wanted| CodeError::FormMissing {
        mode,
        wanted,
        kernel: kernel.to_owned(),
        sm,
        forms: spell_forms(&image.code_forms()),
    };
    match mode {
        CodeMode::Auto => as_recorded(image, kernel, sm),
        CodeMode::Sass => extract(image, kernel, sm, CodeForm::Cubin)?
            .ok_or_else(|| missing("sass", "machine code")),
        CodeMode::Ptx => {
            extract(image, kernel, sm, CodeForm::Ptx)?.ok_or_else(|| missing("ptx", "PTX"))
        }
        CodeMode::Attached => Err(not_attached()),
    }
}

/// The kernel's PTX that a GPU of the architecture would compile; else that of another architecture, with a note: a
/// device that interprets PTX does not mind.
fn ptx_alone(image: &Image, kernel: &str, sm: u32) -> Result<Code, CodeError> {
    if let Some(code) = extract(image, kernel, sm, CodeForm::Ptx)? {
        return Ok(code);
    }
    let other = image
        .entries()
        .iter()
        .filter(|entry| entry.form == CodeForm::Ptx)
        .map(|entry| entry.sm)
        .min();
    let code = match other {
        Some(other) => extract(image, kernel, other, CodeForm::Ptx)?,
        None => None,
    };
    let code = code.ok_or_else(|| CodeError::NoPtx {
        kernel: kernel.to_owned(),
        forms: spell_forms(&image.code_forms()),
    })?;
    let note = format!(
        "{} is for other GPUs than {}, on which the launch was recorded",
        code.form,
        sm_name(sm)
    );
    Ok(Code {
        note: Some(note),
        ..code
    })
}

fn as_recorded(image: &Image, kernel: &str, sm: u32) -> Result<Code, CodeError> {
    // Of several containers, the driver would look into the first one only.
    let containers = image.containers();
    if containers.len() > 1 {
        for (part, range) in containers.iter().enumerate() {
            let Some(bytes) = image.bytes().get(range.clone()) else {
                continue;
            };
            let container = Image::parse(bytes);
            if container.kernel(kernel).is_some() {
                return Ok(Code {
                    part: Part::Container(part),
                    ..whole(&container, kernel, sm)?
                });
            }
        }
    }
    whole(image, kernel, sm)
}

/// An image as it is, when some code in it runs.
fn whole(image: &Image, kernel: &str, sm: u32) -> Result<Code, CodeError> {
    let code = |form, note| Code {
        bytes: image.bytes().to_vec(),
        part: Part::Whole,
        form,
        note,
    };
    let forms = || spell_forms(&image.code_forms());
    if let Some(entry) = best(image, kernel, sm, CodeForm::Cubin) {
        return Ok(code(Form::Sass(entry.sm), None));
    }
    if let Some(entry) = best(image, kernel, sm, CodeForm::Ptx) {
        let note = image.entries().iter().any(|e| e.form == CodeForm::Cubin).then(|| {
            format!(
                "the image has no machine code for {} ({}): the driver compiles its PTX, so other \
                 instructions run than those that were recorded",
                sm_name(sm),
                forms()
            )
        });
        return Ok(code(Form::Ptx(entry.sm), note));
    }
    // A kernel that is nowhere may be the fault of the search.
    let known = image.kernel(kernel).is_some();
    let entries = image.entries();
    let none_runs = !entries.is_empty() && !entries.iter().any(|entry| runs(entry, sm));
    if known || none_runs {
        return Err(CodeError::NothingRuns {
            kernel: kernel.to_owned(),
            sm,
            forms: forms(),
        });
    }
    Ok(code(
        Form::Unknown,
        Some("the image could not be searched for the kernel; the driver decides what runs".into()),
    ))
}

/// Whether a device of an architecture runs an entry. Machine code runs within a major
/// architecture, from its minor one up; code for `sm_90a` on 9.0 only; code for `sm_100f` within its
/// family. PTX runs on all later architectures. An architecture of 0 is not known.
fn runs(entry: &Entry, device: u32) -> bool {
    let same_major = entry.sm / 10 == device / 10 && entry.sm <= device;
    match (entry.form, entry.arch_suffix) {
        _ if entry.sm == 0 => true,
        (_, Some('a')) => entry.sm == device,
        (_, Some('f')) | (CodeForm::Cubin, _) => same_major,
        _ => entry.sm <= device,
    }
}

/// The entry of a form with the highest architecture that runs and has the kernel.
fn best<'i>(image: &'i Image, kernel: &str, sm: u32, form: CodeForm) -> Option<&'i Entry> {
    candidates(image, sm, form)
        .map(|(_, entry)| entry)
        .find(|entry| {
            entry
                .payload()
                .is_ok_and(|bytes| Image::parse(&bytes).kernel(kernel).is_some())
        })
}

/// Entries of a form that run, the highest architecture first.
fn candidates(image: &Image, sm: u32, form: CodeForm) -> impl Iterator<Item = (usize, &Entry)> {
    let mut entries: Vec<_> = image
        .entries()
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.form == form && runs(entry, sm))
        .collect();
    entries.sort_by_key(|(_, entry)| std::cmp::Reverse((entry.sm, entry.arch_suffix)));
    entries.into_iter()
}

/// The best single entry of a form that has the kernel.
fn extract(
    image: &Image,
    kernel: &str,
    sm: u32,
    form: CodeForm,
) -> Result<Option<Code>, CodeError> {
    let mut damaged = None;
    for (part, entry) in candidates(image, sm, form) {
        let bytes = match entry.payload() {
            Ok(bytes) => bytes.into_owned(),
            Err(error) => {
                damaged = Some(CodeError::Damaged {
                    kernel: kernel.to_owned(),
                    form: format!("{form:?}"),
                    reason: error.to_string(),
                });
                continue;
            }
        };
        if Image::parse(&bytes).kernel(kernel).is_none() {
            continue;
        }
        let chosen = if form == CodeForm::Cubin {
            Form::Sass(entry.sm)
        } else {
            Form::Ptx(entry.sm)
        };
        return Ok(Some(Code {
            bytes,
            part: Part::Entry(part),
            form: chosen,
            note: None,
        }));
    }
    damaged.map_or(Ok(None), Err)
}

/// `SASS sm_80, sm_90; PTX compute_90`.
pub fn spell_forms(forms: &[CodeFormSummary]) -> String {
    let of = |form: CodeForm, prefix: &str| {
        forms
            .iter()
            .filter(|f| f.form == form)
            .map(|f| match f.arch_suffix {
                Some(suffix) => format!("{prefix}{}{suffix}", f.sm),
                None => format!("{prefix}{}", f.sm),
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let parts: Vec<String> = [
        ("SASS ", of(CodeForm::Cubin, "sm_")),
        ("PTX ", of(CodeForm::Ptx, "compute_")),
        ("LTO-IR ", of(CodeForm::LtoIr, "lto_")),
    ]
    .into_iter()
    .filter(|(_, list)| !list.is_empty())
    .map(|(name, list)| format!("{name}{list}"))
    .collect();
    if parts.is_empty() {
        "no code that is understood".to_owned()
    } else {
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn gpu(sm: u32) -> Target {
        Target {
            sm,
            machine_code: true,
        }
    }
    const HOPPER: Target = gpu(90);
    const AMPERE: Target = gpu(86);
    const BLACKWELL: Target = gpu(100);
    const CPU: Target = Target {
        sm: 90,
        machine_code: false,
    };

    fn image(name: &str) -> Image {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../r3-image/tests/fixtures/");
        Image::from_vec(std::fs::read(format!("{folder}{name}")).unwrap())
    }

    fn chosen(image: &Image, device: Target, mode: CodeMode) -> Result<(Form, bool), String> {
        choose(image, "saxpy", device, mode)
            .map(|code| (code.form, code.note.is_some()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn machine_code_of_the_device_runs_without_a_word() {
        // SASS for sm_80 and sm_90, PTX for sm_90.
        let fatbin = image("default.fatbin");
        assert_eq!(
            chosen(&fatbin, HOPPER, CodeMode::Auto),
            Ok((Form::Sass(90), false))
        );
        assert_eq!(
            chosen(&fatbin, AMPERE, CodeMode::Auto),
            Ok((Form::Sass(80), false))
        );
        assert_eq!(
            chosen(&fatbin, HOPPER, CodeMode::Ptx),
            Ok((Form::Ptx(90), false))
        );
        let code = choose(&fatbin, "saxpy", HOPPER, CodeMode::Auto).unwrap();
        assert_eq!(code.bytes, fatbin.bytes(), "the image as it was recorded");
    }

    #[test]
    fn a_later_device_gets_ptx_and_is_told() {
        let fatbin = image("default.fatbin");
        assert_eq!(
            chosen(&fatbin, BLACKWELL, CodeMode::Auto),
            Ok((Form::Ptx(90), true))
        );
        let error = chosen(&fatbin, BLACKWELL, CodeMode::Sass).unwrap_err();
        assert_eq!(
            error,
            "--code sass: the image has no machine code of kernel saxpy for sm_100: it has \
             SASS sm_80, sm_90; PTX compute_90"
        );
    }

    #[test]
    fn an_earlier_device_gets_an_error_that_lists_what_there_is() {
        let fatbin = image("default.fatbin");
        let error = chosen(&fatbin, gpu(75), CodeMode::Auto).unwrap_err();
        assert!(
            error.contains("runs on sm_75: it has SASS sm_80, sm_90; PTX compute_90"),
            "{error}"
        );
    }

    #[test]
    fn a_cubin_runs_on_its_own_architecture_only() {
        let cubin = image("saxpy-13.0-sm_90a.cubin");
        assert_eq!(
            chosen(&cubin, HOPPER, CodeMode::Auto),
            Ok((Form::Sass(90), false))
        );
        assert!(chosen(&cubin, BLACKWELL, CodeMode::Auto).is_err());
        let cubin = image("saxpy-13.0-sm_100a.cubin");
        assert_eq!(
            chosen(&cubin, BLACKWELL, CodeMode::Auto),
            Ok((Form::Sass(100), false))
        );
        assert!(
            chosen(&cubin, gpu(103), CodeMode::Auto).is_err(),
            "sm_100a is for 10.0 alone"
        );
    }

    #[test]
    fn of_several_containers_the_one_with_the_kernel_is_loaded() {
        let fatbin = image("containers.fatbin");
        let code = |kernel| choose(&fatbin, kernel, HOPPER, CodeMode::Auto).unwrap();
        let (first, second) = (code("shift"), code("other"));
        assert_ne!(first.part, second.part);
        for code in [&first, &second] {
            assert_eq!(code.form, Form::Sass(90));
            let Part::Container(part) = code.part else {
                panic!("{:?}", code.part);
            };
            let range = fatbin.containers()[part].clone();
            assert_eq!(code.bytes, fatbin.bytes()[range]);
        }
    }

    #[test]
    fn a_device_without_machine_code_gets_ptx_without_a_word() {
        let fatbin = image("default.fatbin");
        for mode in [CodeMode::Auto, CodeMode::Ptx] {
            assert_eq!(chosen(&fatbin, CPU, mode), Ok((Form::Ptx(90), false)));
        }
        assert_eq!(
            chosen(&fatbin, CPU, CodeMode::Sass).unwrap_err(),
            "--code sass: the CPU device runs PTX only; use --device cuda"
        );
        let old = Target { sm: 70, ..CPU };
        assert_eq!(
            chosen(&fatbin, old, CodeMode::Auto),
            Ok((Form::Ptx(90), true)),
            "PTX of later architectures is no obstacle, and told"
        );
    }

    #[test]
    fn a_cubin_alone_is_refused_by_a_device_without_machine_code() {
        let cubin = image("saxpy-13.0-sm_90a.cubin");
        assert_eq!(
            chosen(&cubin, CPU, CodeMode::Auto).unwrap_err(),
            "the CPU device runs PTX, and the image has none of kernel saxpy: it has SASS sm_90a. \
             Use --device cuda on a machine with such a GPU, or add the kernel's PTX to the archive with `r3-replay attach` \
             (`verify`, `run` and `bench` also take it as --ptx FILE)"
        );
    }

    #[test]
    fn what_cannot_be_searched_is_left_to_the_driver_and_told() {
        let image = Image::parse(b"something else");
        let code = choose(&image, "saxpy", HOPPER, CodeMode::Auto).unwrap();
        assert_eq!(code.form, Form::Unknown);
        assert!(code.note.unwrap().contains("the driver decides"));
    }
}
