//! PTX of the sample archives.

use std::path::{Path, PathBuf};

use r3_archive::Archive;
use r3_image::{CodeForm, Image};

/// Texts of all archives, with names; each text once.
pub fn ptx() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture-samples/archives");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "r3"))
        .collect();
    files.sort();
    let mut texts: Vec<(String, String)> = Vec::new();
    for file in files {
        let archive = Archive::open(&file).unwrap();
        let stem = file.file_stem().unwrap().to_string_lossy();
        for module in archive.modules() {
            let image = Image::from_vec(archive.read_blob(&module.image).unwrap());
            for (i, entry) in image.entries().iter().enumerate() {
                if entry.form != CodeForm::Ptx {
                    continue;
                }
                let payload = entry.payload().unwrap();
                let text = String::from_utf8_lossy(&payload);
                let text = text.trim_end_matches('\0').to_owned();
                if !texts.iter().any(|(_, known)| *known == text) {
                    texts.push((format!("{stem}-{:?}-{i}", module.id), text));
                }
            }
        }
    }
    texts
}
