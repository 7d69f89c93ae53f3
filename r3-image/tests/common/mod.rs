//! The images of `tests/fixtures`.

use std::path::{Path, PathBuf};

use r3_image::Image;

/// The bytes of an image.
pub fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// An image.
pub fn image(name: &str) -> Image {
    Image::from_vec(fixture(name))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Names of the images with one of these endings, ascending.
pub fn images(endings: &[&str]) -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let mut names: Vec<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        .collect();
    names.sort();
    assert!(names.len() > 10 / endings.len(), "images are missing");
    names
}
