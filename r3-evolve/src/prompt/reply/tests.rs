//! Answers as models give them, read.
//!
//! A fixture has lines `target`, `finish`, `expect` (`taken`, or the name of the error), perhaps `lines: windows` (of the file), a line
//! `---`, and the answer byte for byte.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/prompt/reply")
}

/// A source with marked regions, as a run has it.
fn target(name: &str, windows: bool) -> Target {
    let kernel = if name == "part" { "rows" } else { name };
    let mut file = std::fs::read_to_string(folder().join(format!("targets/{name}.cu"))).unwrap();
    if windows {
        file = file.replace('\n', "\r\n");
    }
    let regions = r3_source::region::Regions::of_marks(&file)
        .unwrap()
        .unwrap();
    Target::new(file, kernel, regions.spans().to_vec()).unwrap()
}

struct Fixture {
    name: String,
    target: Target,
    finish: Finish,
    expect: String,
    answer: String,
}

fn fixtures() -> Vec<Fixture> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder().join("fixtures"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    names.iter().map(|path| fixture(path)).collect()
}

fn fixture(path: &Path) -> Fixture {
    let text = std::fs::read_to_string(path).unwrap();
    let (head, answer) = text.split_once("---\n").unwrap();
    let field = |name: &str| {
        head.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .map(str::to_owned)
    };
    Fixture {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        target: target(&field("target").unwrap(), field("lines").is_some()),
        finish: match field("finish").unwrap().as_str() {
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            "filtered" => Finish::Filtered,
            other => panic!("{other}"),
        },
        expect: field("expect").unwrap(),
        answer: answer.to_owned(),
    }
}

/// What came of an answer, for a snapshot: the difference to the file, or the message.
fn told(fixture: &Fixture, taken: &Result<Edit, Unusable>) -> String {
    match taken {
        Ok(edit) => {
            let mut text = String::new();
            let _ = writeln!(text, "what: {}", edit.what);
            for note in &edit.notes {
                let _ = writeln!(text, "note: {note}");
            }
            text.push_str(&r3_source::diff::unified(
                &fixture.target.file,
                &edit.text,
                ("parent", "variant"),
            ));
            text
        }
        Err(error) => format!("{error}\n"),
    }
}

#[test]
fn answers_of_models_are_read_as_they_are_meant() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 70, "{}", fixtures.len());
    let mut wrong = Vec::new();
    for fixture in &fixtures {
        let taken = take(&fixture.answer, fixture.finish, &fixture.target);
        let name = match &taken {
            Ok(_) => "taken".to_owned(),
            Err(error) => format!("{error:?}")
                .split([' ', '{'])
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        if name != fixture.expect {
            wrong.push(format!(
                "{}: expected {}, is {name}\n{}",
                fixture.name,
                fixture.expect,
                told(fixture, &taken)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_made_of_each_answer() {
    let mut all = String::new();
    for fixture in fixtures() {
        let taken = take(&fixture.answer, fixture.finish, &fixture.target);
        let _ = writeln!(
            all,
            "==== {}\n{}",
            fixture.name,
            told(&fixture, &taken).replace('\r', "␍")
        );
    }
    insta::assert_snapshot!(all);
}

/// What is outside of the regions, in a file with marks.
fn outside(target: &Target, file: &str) -> Vec<String> {
    let regions = r3_source::region::Regions::of_marks(file).unwrap().unwrap();
    Target::new(file, target.kernel.clone(), regions.spans().to_vec())
        .unwrap()
        .around()
        .iter()
        .map(|text| (*text).to_owned())
        .collect()
}

#[test]
fn what_is_outside_of_the_regions_stays_byte_for_byte() {
    for fixture in fixtures() {
        let Ok(edit) = take(&fixture.answer, fixture.finish, &fixture.target) else {
            continue;
        };
        assert_eq!(
            outside(&fixture.target, &edit.text),
            outside(&fixture.target, &fixture.target.file),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_source_with_lines_like_those_of_edits_is_not_edited() {
    let file = "// r3: evolve begin\n__global__ void k(int *x) {\n/*\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n*/\n    *x = 1;\n}\n// r3: evolve end\n";
    let regions = r3_source::region::Regions::of_marks(file).unwrap().unwrap();
    let target = Target::new(file, "k", regions.spans().to_vec()).unwrap();
    let answer = "```cuda\n__global__ void k(int *x) {\n/*\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n*/\n    *x = 2;\n}\n```\n";
    let edit = take(answer, Finish::Stop, &target).unwrap();
    assert!(edit.text.contains("*x = 2;"), "{}", edit.text);
}

/// Pieces that answers are made of, in any order and cut anywhere.
const PIECES: &[&str] = &[
    "```cuda\n",
    "```\n",
    "~~~\n",
    "````\n",
    "<think>",
    "</think>",
    "<<<<<<< SEARCH\n",
    "=======\n",
    ">>>>>>> REPLACE\n",
    "@@ -1 +1 @@\n",
    "-    return 1.0f / sqrtf(square + 1e-6f);\n",
    "+    return 2.0f;\n",
    "    return 1.0f / sqrtf(square + 1e-6f);\n",
    "__global__ void forces(const float4 *bodies, float4 *out, int n) {\n",
    "}\n",
    "{",
    "(",
    "\"",
    "'",
    "/*",
    "*/",
    "// ... same ...\n",
    "__device__ inline float inverse(float square) {\n    return 2.0f;\n}\n",
    "#include <x.h>\n",
    "#if 1\n",
    "#endif\n",
    "namespace n {\n",
    "extern \"C\" ",
    "// r3: launch block=64\n",
    "// r3: evolve begin\n",
    "// r3: evolve end\n",
    "ä\u{a0}\u{200b}\u{1f600}",
    "\r\n",
    "{\"code\": \"",
    "// region 1\n",
    "struct S {",
    "};\n",
    "&lt;",
    "Idea: x\n",
    "template <int N>\n",
    "R\"(",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_answer_breaks_the_reader_or_changes_what_is_outside(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..30),
        cut in 0usize..2000,
        length in any::<bool>(),
        name in proptest::sample::select(&["forces", "scale", "part"][..]),
    ) {
        let mut answer = pieces.concat();
        while !answer.is_char_boundary(cut.min(answer.len())) {
            answer.pop();
        }
        answer.truncate(cut);
        let target = target(name, false);
        let finish = if length { Finish::Length } else { Finish::Stop };
        if let Ok(edit) = take(&answer, finish, &target) {
            prop_assert_eq!(outside(&target, &edit.text), outside(&target, &target.file));
        }
    }

    #[test]
    fn a_cut_answer_is_never_taken_for_a_whole_one(at in 0usize..600) {
        let answer = include_str!("fixtures/01_a_kernel_in_a_cuda_fence.txt").split_once("---\n").unwrap().1;
        let at = at.min(answer.len());
        let Some(cut) = answer.get(..at) else { return Ok(()) };
        let taken = take(cut, Finish::Length, &target("forces", false));
        prop_assert!(taken.is_err() || cut.trim_end().ends_with("```"), "{taken:?}");
    }
}
