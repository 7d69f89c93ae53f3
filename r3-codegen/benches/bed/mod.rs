//! What the benchmarks work on.

/// PTX of CUDA 13.0: a few small kernels, several median ones, and a long file of functions that call each other.
/// `R3_PTX=file.ptx` adds a file of one's own.
pub fn files() -> Vec<(String, String)> {
    let mut files = vec![
        (
            "small".to_owned(),
            include_str!("../../../r3-image/tests/fixtures/nvrtc-13.0.ptx").to_owned(),
        ),
        (
            "median".to_owned(),
            include_str!("../../../r3-image/tests/fixtures/features-13.0.ptx").to_owned(),
        ),
        (
            "large".to_owned(),
            include_str!("../../../r3-ptx/tests/fixtures/calls.ptx").to_owned(),
        ),
    ];
    if let Ok(path) = std::env::var("R3_PTX") {
        let text = std::fs::read_to_string(&path).expect(&path);
        files.push(("own".to_owned(), text));
    }
    files
}

/// Lines with something on them.
pub fn lines(text: &str) -> u64 {
    text.lines().filter(|line| !line.trim().is_empty()).count() as u64
}
