//! Which of a module's code forms runs.
//!
//! The recorded image is loaded as it was, so that the driver picks what it picked for the
//! application. What it will pick is worked out beforehand, so that other code than the recorded
//! machine code never runs unsaid.

use std::fmt;

use r3_image::{CodeForm, CodeFormSummary, Image, ImageKind};

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
}

/// What form a kernel's code has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Code to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Which part of the image they are; `None` when they are all of it.
    pub part: Option<usize>,
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

fn sm_name(sm: u32) -> String {
    format!("sm_{sm}")
}

/// Chooses the code for a kernel on a device of a compute capability.
pub fn choose(
    image: &Image,
    kernel: &str,
    compute_capability: (i32, i32),
    mode: CodeMode,
) -> Result<Code, CodeError> {
    let sm = architecture(compute_capability);
    let forms = || spell_forms(&image.code_forms());
    match mode {
        CodeMode::Auto => as_recorded(image, kernel, sm),
        CodeMode::Sass => {
            extract(image, kernel, sm, CodeForm::Cubin)?.ok_or_else(|| CodeError::FormMissing {
                mode: "sass",
                wanted: "machine code",
                kernel: kernel.to_owned(),
                sm,
                forms: forms(),
            })
        }
        CodeMode::Ptx => {
            extract(image, kernel, sm, CodeForm::Ptx)?.ok_or_else(|| CodeError::FormMissing {
                mode: "ptx",
                wanted: "PTX",
                kernel: kernel.to_owned(),
                sm,
                forms: forms(),
            })
        }
    }
}

/// 90 for compute capability 9.0.
fn architecture((major, minor): (i32, i32)) -> u32 {
    u32::try_from(major.saturating_mul(10).saturating_add(minor)).unwrap_or(0)
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
            if container.kernel_for(kernel, sm).is_some() {
                return Ok(Code {
                    part: Some(part),
                    ..as_recorded(&container, kernel, sm)?
                });
            }
        }
    }
    let whole = |form, note| Code {
        bytes: image.bytes().to_vec(),
        part: None,
        form,
        note,
    };
    match image.kernel_for(kernel, sm).map(|info| info.from) {
        Some(CodeForm::Cubin) => {
            let best = best_arch(image, CodeForm::Cubin, sm);
            Ok(whole(Form::Sass(best), None))
        }
        Some(_) => {
            let ptx = best_arch(image, CodeForm::Ptx, sm);
            let forms = image.code_forms();
            let note = forms.iter().any(|f| f.form == CodeForm::Cubin).then(|| {
                format!(
                    "the image has no machine code for {} ({}): the driver compiles its PTX, so \
                     other instructions run than those that were recorded",
                    sm_name(sm),
                    spell_forms(&forms)
                )
            });
            Ok(whole(Form::Ptx(ptx), note))
        }
        None if image.kernel(kernel).is_some() || nothing_runs(image, sm) => {
            Err(CodeError::NothingRuns {
                kernel: kernel.to_owned(),
                sm,
                forms: spell_forms(&image.code_forms()),
            })
        }
        None => Ok(whole(
            Form::Unknown,
            Some(
                "the image could not be searched for the kernel; the driver decides what runs"
                    .into(),
            ),
        )),
    }
}

fn nothing_runs(image: &Image, sm: u32) -> bool {
    image.kind() != ImageKind::Unknown
        && !image.entries().is_empty()
        && !image.entries().iter().any(|entry| match entry.form {
            CodeForm::Cubin => runs(entry.sm, sm),
            CodeForm::Ptx | CodeForm::LtoIr => entry.sm <= sm,
            CodeForm::Other(_) => true,
        })
}

/// Machine code runs within a major architecture, from its minor one up. An architecture of 0 is
/// not known.
fn runs(code: u32, device: u32) -> bool {
    code == 0 || (code / 10 == device / 10 && code <= device)
}

fn best_arch(image: &Image, form: CodeForm, sm: u32) -> u32 {
    image
        .entries()
        .iter()
        .filter(|e| e.form == form && e.sm <= sm && (form == CodeForm::Ptx || runs(e.sm, sm)))
        .map(|e| e.sm)
        .max()
        .unwrap_or(sm)
}

/// The best single entry of a form that has the kernel.
fn extract(
    image: &Image,
    kernel: &str,
    sm: u32,
    form: CodeForm,
) -> Result<Option<Code>, CodeError> {
    let mut entries: Vec<_> = image
        .entries()
        .iter()
        .enumerate()
        .filter(|(_, e)| e.form == form)
        .filter(|(_, e)| {
            if form == CodeForm::Cubin {
                runs(e.sm, sm)
            } else {
                e.sm <= sm
            }
        })
        .collect();
    entries.sort_by_key(|(_, e)| std::cmp::Reverse(e.sm));
    let mut damaged = None;
    for (part, entry) in entries {
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
            part: Some(part),
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
