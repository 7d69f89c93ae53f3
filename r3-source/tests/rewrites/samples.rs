//! The sample programs, and what captures of them know.

use std::ops::Range;
use std::path::PathBuf;

use r3_source::rewrite::{Facts, Known, Scene};
use r3_source::syntax::{Function, Unit};

/// A kernel of a sample program.
pub struct Sample {
    /// The program's file.
    pub file: PathBuf,
    /// Its text.
    pub text: String,
    /// The kernel's name.
    pub kernel: &'static str,
    /// What a capture knows.
    pub facts: Facts,
}

impl Sample {
    /// The program's name.
    pub fn program(&self) -> String {
        self.file
            .file_stem()
            .unwrap()
            .to_string_lossy()
            .into_owned()
    }
}

/// Program, kernel, block, grid, parameters: `p` a pointer of its own, `u` unknown, a number.
type Row = (
    &'static str,
    &'static str,
    [u32; 3],
    [u32; 3],
    &'static [&'static str],
);

/// With an archive, which has these launches.
pub const ARCHIVED: &[Row] = &[
    (
        "saxpy",
        "saxpy",
        [128, 1, 1],
        [79, 1, 1],
        &["10000", "u", "p", "p"],
    ),
    (
        "reduction",
        "block_sums",
        [256, 1, 1],
        [64, 1, 1],
        &["p", "p", "30000"],
    ),
    (
        "reduction",
        "scatter",
        [256, 1, 1],
        [64, 1, 1],
        &["p", "p", "30000"],
    ),
    (
        "matmul",
        "matmul",
        [16, 16, 1],
        [2, 2, 1],
        &["p", "p", "p", "96"],
    ),
    (
        "nbody",
        "step",
        [128, 1, 1],
        [4, 1, 1],
        &["p", "p", "p", "400", "u"],
    ),
    (
        "wilson",
        "dslash",
        [64, 1, 1],
        [4, 1, 1],
        &["u", "p", "p", "p", "256", "u"],
    ),
    (
        "threads",
        "churn",
        [128, 1, 1],
        [24, 1, 1],
        &["p", "3000", "u"],
    ),
    (
        "streams",
        "produce",
        [256, 1, 1],
        [20, 1, 1],
        &["p", "5000", "u"],
    ),
    (
        "streams",
        "combine",
        [256, 1, 1],
        [20, 1, 1],
        &["p", "p", "p", "5000"],
    ),
    (
        "large_params",
        "evaluate",
        [128, 1, 1],
        [24, 1, 1],
        &["u", "3000"],
    ),
    (
        "managed",
        "advance",
        [256, 1, 1],
        [32, 1, 1],
        &["p", "8000"],
    ),
    (
        "global_pointers",
        "gather",
        [128, 1, 1],
        [1, 1, 1],
        &["u", "p", "p"],
    ),
    ("pointer_chase", "chase", [64, 1, 1], [1, 1, 1], &["u"]),
];

/// Larger ones, which are run on a GPU only.
const OTHERS: &[Row] = &[
    (
        "attention",
        "scores",
        [256, 1, 1],
        [256, 1, 1],
        &["p", "p", "p", "65536", "256"],
    ),
    (
        "attention",
        "weigh",
        [256, 1, 1],
        [1, 64, 1],
        &["p", "p", "p", "65536", "256"],
    ),
    (
        "bilateral",
        "bilateral",
        [16, 16, 1],
        [120, 68, 1],
        &["p", "p", "1920", "1080", "u", "u", "u"],
    ),
    (
        "convolution",
        "convolution",
        [32, 1, 1],
        [524_288, 1, 1],
        &["p", "p", "16777216", "9"],
    ),
    (
        "heat2d",
        "heat",
        [256, 1, 1],
        [62_500, 1, 1],
        &["p", "p", "4000", "4000", "u", "u"],
    ),
    (
        "lombscargle",
        "lombscargle",
        [256, 1, 1],
        [391, 1, 1],
        &["1000", "100000", "p", "p", "p", "p", "u"],
    ),
    (
        "maxpool",
        "maxpool",
        [16, 16, 1],
        [16, 16, 64],
        &["p", "p", "512", "512", "255", "255", "3", "3", "2", "2"],
    ),
    (
        "state",
        "advance",
        [256, 1, 1],
        [256, 1, 1],
        &["p", "p", "65536", "u", "u"],
    ),
];

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What a row says.
pub fn facts(block: [u32; 3], grid: [u32; 3], parameters: &[&str]) -> Facts {
    let parameters = parameters
        .iter()
        .zip(1..)
        .map(|(word, number)| match *word {
            "u" => Known::Unknown,
            "p" => Known::Pointer {
                alignment: 256,
                bytes: 1 << 16,
                allocation: number,
            },
            word => Known::Integer(word.parse().unwrap()),
        })
        .collect();
    Facts {
        block: Some(block),
        grid: Some(grid),
        parameters,
        tolerant: true,
        sm: 90,
    }
}

fn sample(row: &Row, folder: &str) -> Sample {
    let (program, kernel, block, grid, parameters) = *row;
    let file = root().join(folder).join(format!("{program}.cu"));
    Sample {
        text: std::fs::read_to_string(&file).unwrap(),
        file,
        kernel,
        facts: facts(block, grid, parameters),
    }
}

/// All kernels of all programs.
pub fn all() -> Vec<Sample> {
    let archived = ARCHIVED
        .iter()
        .map(|row| sample(row, "capture-samples/programs"));
    archived
        .chain(OTHERS.iter().map(|row| sample(row, "scripts/gpu/src/tune")))
        .collect()
}

/// Those with an archive.
pub fn archived() -> Vec<Sample> {
    ARCHIVED
        .iter()
        .map(|row| sample(row, "capture-samples/programs"))
        .collect()
}

/// The kernel, the functions that it reaches, and all structures of the file.
pub fn spans(unit: &Unit, kernel: &Function) -> Vec<Range<usize>> {
    let mut spans = vec![kernel.span.clone()];
    spans.extend(
        unit.reached(kernel)
            .into_iter()
            .map(|function| function.span),
    );
    let root = unit.tree().root_node();
    let mut cursor = root.walk();
    for node in root.named_children(&mut cursor) {
        if node.kind() == "struct_specifier" {
            spans.push(node.byte_range());
        }
    }
    spans.sort_by_key(|span| span.start);
    spans
}

/// The kernel `k` of a test's own text, all of which may be rewritten.
pub fn with_k<T>(text: &str, facts: &Facts, visit: impl FnOnce(&Scene<'_>) -> T) -> T {
    let unit = Unit::parse(text).unwrap();
    assert_eq!(unit.errors(), 0, "the test's text: {text}");
    let kernel = unit.kernel("k").unwrap();
    let whole = 0..text.len();
    visit(&Scene {
        unit: &unit,
        kernel: &kernel,
        spans: std::slice::from_ref(&whole),
        facts,
    })
}
