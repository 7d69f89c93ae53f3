//! What is given for kernels: as PTX, and what that was made from.

use std::path::Path;

use r3_archive::chunk::ChunkId;
use r3_archive::model::{AttachedBuild, AttachedForm, ModuleId, SourceId};
use r3_image::{CodeForm, Image};

/// Code that was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// The file, or what else it came from, for people.
    pub file: String,
    /// Hash of the file.
    pub hash: [u8; 16],
    /// PTX.
    pub ptx: String,
    /// What the PTX was made from, the last step first.
    pub made_from: Vec<(AttachedForm, Vec<u8>)>,
    /// How it was compiled.
    pub build: Option<AttachedBuild>,
    /// The recorded source that was compiled.
    pub source: Option<SourceId>,
    /// Only kernels of this module are meant.
    pub module: Option<ModuleId>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Why a file could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenError {
    /// It cannot be read.
    #[error("{file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// There is no PTX in it.
    #[error(
        "{file}: there is no PTX in it{}",
        match .forms.as_str() { "" => String::new(), forms => format!(": it has {forms}") }
    )]
    NoPtx {
        /// The file.
        file: String,
        /// What is in it.
        forms: String,
    },
    /// Its PTX cannot be unpacked.
    #[error("{file}: its PTX cannot be unpacked: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
}

impl Given {
    /// PTX as it is: a text, or an image with PTX in it, of which that for architecture `sm` is taken.
    pub fn ptx(file: &Path, sm: u32) -> Result<Self, GivenError> {
        let bytes = read(file)?;
        Self::ptx_of(file.display().to_string(), bytes, sm)
    }

    /// The same of bytes.
    pub fn ptx_of(file: String, bytes: Vec<u8>, sm: u32) -> Result<Self, GivenError> {
        let hash = ChunkId::of(&bytes).0;
        let image = Image::from_vec(bytes);
        let mut entries: Vec<_> = image
            .entries()
            .iter()
            .filter(|entry| entry.form == CodeForm::Ptx)
            .collect();
        entries.sort_by_key(|entry| (entry.sm <= sm, entry.sm, entry.arch_suffix));
        let Some(entry) = entries.last() else {
            let forms = image.code_forms();
            return Err(GivenError::NoPtx {
                file,
                forms: match forms.is_empty() {
                    true => String::new(),
                    false => crate::code::spell_forms(&forms),
                },
            });
        };
        let payload = entry.payload().map_err(|error| GivenError::Damaged {
            file: file.clone(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            ptx: String::from_utf8_lossy(&payload).into_owned(),
            file,
            hash,
            made_from: Vec::new(),
            build: None,
            source: None,
            module: None,
            notes: Vec::new(),
        })
    }
}

/// The bytes of a file.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, GivenError> {
    std::fs::read(file).map_err(|error| GivenError::Read {
        file: file.display().to_string(),
        reason: error.to_string(),
    })
}
