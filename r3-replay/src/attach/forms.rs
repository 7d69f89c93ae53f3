//! The forms that a kernel's code has in an archive.

use r3_archive::model::{AttachedForm, AttachmentId, AttachmentRecord, KernelId};
use r3_archive::{Archive, ReadError};
use r3_codegen::recipe::{Code, Compiler, Source};
use r3_image::{CodeForm, Image};

/// Where code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// What the application loaded.
    Image,
    /// What the application compiled at run time.
    Recorded,
    /// Attached afterwards.
    Attached(AttachmentId),
}

/// A kernel's code in one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelForm {
    /// The code.
    pub code: Code,
    /// The kernel's name in it.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// What it is, for people: `PTX compute_90 of the image`.
    pub what: String,
}

/// All forms of a kernel's code other than machine code, best first: PTX that the image has for architecture `sm`, else
/// its other PTX; its LTO-IR; what was attached, newest first, PTX before what that was made from; source that the
/// application compiled at run time. Nothing is compiled.
pub fn forms(archive: &Archive, kernel: KernelId, sm: u32) -> Result<Vec<KernelForm>, ReadError> {
    let mut forms = Vec::new();
    let Some(record) = archive.kernel(kernel) else {
        return Ok(forms);
    };
    let module = record.module.and_then(|module| archive.module(module));
    if let Some(module) = module {
        let image = Image::from_vec(archive.read_blob(&module.image)?);
        of_image(&image, &record.name, sm, &mut forms);
    }
    for attachment in archive.attached_to(kernel) {
        attached(archive, attachment, kernel, &record.name, &mut forms)?;
    }
    let recorded = module.and_then(|module| archive.source(module.source?));
    if let Some(recorded) = recorded {
        let mut headers = Vec::new();
        for (name, text) in &recorded.headers {
            headers.push((name.clone(), text_of(archive.read_blob(text)?)));
        }
        forms.push(KernelForm {
            code: Code::Source(Source {
                text: text_of(archive.read_blob(&recorded.text)?),
                name: recorded.name.clone().into(),
                headers,
                name_expressions: recorded
                    .name_expressions
                    .iter()
                    .map(|(expression, _)| expression.clone())
                    .collect(),
                compiler: Compiler::Nvrtc,
                program: None,
                options: recorded.options.clone(),
                directory: None,
            }),
            name: record.name.clone(),
            origin: Origin::Recorded,
            what: format!("source compiled at run time by {}", recorded.compiler),
        });
    }
    Ok(forms)
}

fn of_image(image: &Image, kernel: &str, sm: u32, forms: &mut Vec<KernelForm>) {
    let mut entries: Vec<_> = image
        .entries()
        .iter()
        .filter(|entry| matches!(entry.form, CodeForm::Ptx | CodeForm::LtoIr))
        .collect();
    entries.sort_by_key(|entry| {
        let best = (entry.sm <= sm, entry.sm, entry.arch_suffix);
        (entry.form != CodeForm::Ptx, std::cmp::Reverse(best))
    });
    for entry in entries {
        let Ok(payload) = entry.payload() else {
            continue;
        };
        let suffix = entry.arch_suffix.map(String::from).unwrap_or_default();
        let (code, what) = match entry.form {
            CodeForm::Ptx if Image::parse(&payload).kernel(kernel).is_none() => continue,
            CodeForm::Ptx => (Code::Ptx(text_of(payload.into_owned())), "PTX compute_"),
            _ => (Code::LtoIr(payload.into_owned()), "LTO-IR lto_"),
        };
        forms.push(KernelForm {
            code,
            name: kernel.to_owned(),
            origin: Origin::Image,
            what: format!("{what}{}{suffix} of the image", entry.sm),
        });
    }
}

fn attached(
    archive: &Archive,
    attachment: &AttachmentRecord,
    kernel: KernelId,
    captured: &str,
    forms: &mut Vec<KernelForm>,
) -> Result<(), ReadError> {
    let name = attachment.kernel(kernel).map(|entry| entry.name.clone());
    let name = name.unwrap_or_else(|| captured.to_owned());
    for form in &attachment.forms {
        let bytes = archive.read_blob(&form.code)?;
        let (code, name) = match form.form {
            AttachedForm::Ptx => (Code::Ptx(text_of(bytes)), captured.to_owned()),
            AttachedForm::Bitcode => (Code::Bitcode(bytes), name.clone()),
            AttachedForm::Llvm => (Code::Llvm(text_of(bytes)), name.clone()),
            AttachedForm::LtoIr => (Code::LtoIr(bytes), name.clone()),
            // What it includes is not in the archive: see the record's `build`.
            AttachedForm::Source => continue,
        };
        forms.push(KernelForm {
            code,
            name,
            origin: Origin::Attached(attachment.id),
            what: format!("{} attached from {}", spell(form.form), attachment.file),
        });
    }
    Ok(())
}

/// A form, for people.
pub fn spell(form: AttachedForm) -> &'static str {
    match form {
        AttachedForm::Ptx => "PTX",
        AttachedForm::Bitcode => "LLVM bitcode",
        AttachedForm::Llvm => "LLVM IR",
        AttachedForm::LtoIr => "LTO-IR",
        AttachedForm::Source => "source",
    }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes)
        .trim_end_matches('\0')
        .to_owned()
}
