//! The program, as its users meet it, on a machine without a GPU.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use assert_cmd::Command;
use common::sample;

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("r3-replay").unwrap();
    command
        .current_dir(folder)
        .args(arguments)
        .env_remove("LD_PRELOAD");
    command
}

/// Standard output of a command that succeeds.
fn output(folder: &Path, arguments: &[&str]) -> String {
    let done = command(folder, arguments).assert().success();
    String::from_utf8(done.get_output().stdout.clone()).unwrap()
}

/// Exit code and standard error of a command.
fn failure(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let done = command(folder, arguments).output().unwrap();
    (
        done.status.code().unwrap(),
        String::from_utf8(done.stderr).unwrap(),
    )
}

fn json(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    let mut value: serde_json::Value = serde_json::from_str(&output(folder, arguments)).unwrap();
    if let Some(uuid) = value.get_mut("uuid") {
        *uuid = "(random)".into();
    }
    if let Some(bytes) = value.get_mut("file_bytes") {
        *bytes = "(depends on compression)".into();
    }
    value
}

/// Tables, without the archive's length.
fn table(folder: &Path, arguments: &[&str]) -> String {
    let text = output(folder, arguments);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("sample.r3: "))
        .collect();
    lines.join("\n")
}

#[test]
fn info_shows_the_program_and_a_line_per_kernel() {
    let folder = sample();
    insta::assert_snapshot!("info", table(folder.path(), &["info", "sample.r3"]));
    insta::assert_json_snapshot!(
        "info_json",
        json(folder.path(), &["info", "sample.r3", "--json"])
    );
}

#[test]
fn ls_shows_a_line_per_launch() {
    let folder = sample();
    insta::assert_snapshot!("ls", table(folder.path(), &["ls", "sample.r3"]));
    insta::assert_json_snapshot!(
        "ls_json",
        json(folder.path(), &["ls", "sample.r3", "--json"])
    );
}

#[test]
fn ls_selects_by_number_and_by_name() {
    let folder = sample();
    let ids = |arguments: &[&str]| -> Vec<u64> {
        let all: Vec<&str> = ["ls", "sample.r3", "--json"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let value = json(folder.path(), &all);
        value["launches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l["id"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(ids(&[]), [1, 2, 3]);
    assert_eq!(ids(&["--launch", "2-"]), [2, 3]);
    assert_eq!(ids(&["--kernel", "^scale"]), [3]);
    assert_eq!(ids(&["--kernel", "!scale", "--launch", "1,3"]), [1]);
    let (code, message) = failure(folder.path(), &["ls", "sample.r3", "--launch", "9"]);
    assert_eq!(code, 2);
    assert!(
        message.contains("launch 9 is not there: it has 3 from 1 to 3"),
        "{message}"
    );
    let (code, message) = failure(folder.path(), &["ls", "sample.r3", "--kernel", "none"]);
    assert_eq!(code, 2);
    assert!(
        message.contains("none of its 3 launches is selected"),
        "{message}"
    );
    for name in ["ls", "verify", "run", "bench", "noise", "extract", "trim"] {
        let out = folder.path().join(name);
        let mut arguments = vec![name, "sample.r3", "--launch", "2,99,2-,50-60"];
        if ["extract", "trim"].contains(&name) {
            arguments.extend(["--out", out.to_str().unwrap()]);
        }
        let (code, message) = failure(folder.path(), &arguments);
        assert_eq!(code, 2);
        assert!(
            message.contains("launches 99, 50-60 are not there"),
            "{name}: {message}"
        );
        assert!(!out.exists());
    }
    let (code, message) = failure(folder.path(), &["ls", "sample.r3", "--launch", "x"]);
    assert_eq!(code, 2);
    assert!(message.contains("--launch x cannot be read"), "{message}");
}

#[test]
fn show_decodes_arguments_and_memory() {
    let folder = sample();
    insta::assert_snapshot!("show", output(folder.path(), &["show", "sample.r3", "2"]));
    insta::assert_json_snapshot!(
        "show_json",
        json(folder.path(), &["show", "sample.r3", "3", "--json"])
    );
    let (code, message) = failure(folder.path(), &["show", "sample.r3", "7"]);
    assert_eq!(code, 2);
    assert!(message.contains("no launch 7"), "{message}");
    let (code, message) = failure(folder.path(), &["show", "sample.r3", "x"]);
    assert_eq!(code, 2);
    assert!(
        message.contains("expected the number of one launch"),
        "{message}"
    );
}

#[test]
fn extract_writes_code_source_and_memory() {
    let folder = sample();
    let out = folder.path().join("out");
    output(folder.path(), &["extract", "sample.r3", "--out", "out"]);
    let read = |name: &str| std::fs::read(out.join(name)).unwrap();
    assert_eq!(read("module1.ptx"), common::PTX.as_bytes());
    assert_eq!(read("module1.cu"), common::SOURCE.as_bytes());
    assert_eq!(read("module1.options"), b"--gpu-architecture=compute_80\n");
    assert_eq!(
        read("module1-header0-passwd"),
        b"header\n",
        "names do not lead out of the folder"
    );
    output(
        folder.path(),
        &[
            "extract",
            "sample.r3",
            "--out",
            "out",
            "--memory",
            "--launch",
            "2",
        ],
    );
    let floats: Vec<u8> = [1f32, 2.0, 3.0, 4.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    assert_eq!(read("launch2-arg1.before.bin"), floats);
    assert_ne!(
        read("launch2-arg2.before.bin"),
        read("launch2-arg2.after.bin")
    );
    assert!(
        !out.join("launch2-arg1.after.bin").exists(),
        "it did not change"
    );
    let arguments = [
        "extract",
        "sample.r3",
        "--out",
        "out",
        "--memory",
        "--launch",
        "2",
    ];
    let part = ["--buffer", "arg1", "--range", "4..0x8"];
    output(folder.path(), &[arguments.as_slice(), &part].concat());
    assert_eq!(read("launch2-arg1.before.bin"), 2f32.to_le_bytes());
    let (code, message) = failure(
        folder.path(),
        &[arguments.as_slice(), &["--buffer", "arg9"]].concat(),
    );
    assert_eq!(code, 2);
    assert!(
        message.contains("no buffer arg9; it has arg1, arg2"),
        "{message}"
    );
}

#[test]
fn extracted_files_are_private_and_whole() {
    use std::os::unix::fs::PermissionsExt;
    let folder = sample();
    let path = folder.path().join("sample.r3");
    let arguments = [
        "extract",
        "sample.r3",
        "--out",
        "out",
        "--code",
        "--memory",
        "--launch",
        "3",
    ];
    output(folder.path(), &arguments);
    let out = folder.path().join("out");
    for name in ["module1.ptx", "launch3-arg0.before.bin"] {
        let mode = std::fs::metadata(out.join(name)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    std::fs::remove_dir_all(&out).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // The memory of the first argument, which is too short to be compressed.
    let memory: Vec<u8> = [1f32, 2.0, 3.0, 4.0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let at = bytes
        .windows(memory.len())
        .position(|window| window == memory)
        .unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (code, message) = failure(folder.path(), &arguments);
    assert_eq!(code, 2);
    assert!(
        message.contains("the chunk's checksum is wrong"),
        "{message}"
    );
    let left: Vec<_> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(
        left,
        ["module1.ptx"],
        "nothing is left of what was not read"
    );
}

#[test]
fn trim_and_merge_make_archives_that_are_sound() {
    let folder = sample();
    let said = output(
        folder.path(),
        &[
            "trim",
            "sample.r3",
            "--kernel",
            "scale",
            "--out",
            "scale.r3",
        ],
    );
    assert!(
        said.starts_with("scale.r3: 1 launch of 1 kernel,"),
        "{said}"
    );
    assert_eq!(
        json(folder.path(), &["ls", "scale.r3", "--json"])["launches"][0]["id"],
        3
    );
    output(
        folder.path(),
        &["merge", "sample.r3", "scale.r3", "-o", "both.r3"],
    );
    let launches = json(folder.path(), &["ls", "both.r3", "--json"]);
    assert_eq!(launches["launches"].as_array().unwrap().len(), 4);
    output(folder.path(), &["fsck", "both.r3"]);
    let (code, message) = failure(folder.path(), &["merge", "sample.r3", "-o", "both.r3"]);
    assert_eq!(code, 2);
    assert!(message.contains("both.r3 exists already"), "{message}");
}

#[test]
fn info_counts_what_a_trimmed_archive_has() {
    let folder = sample();
    output(
        folder.path(),
        &["trim", "sample.r3", "--launch", "2", "--out", "one.r3"],
    );
    let info = json(folder.path(), &["info", "one.r3", "--json"]);
    let kernel = &info["kernels"][0];
    assert_eq!(kernel["recorded"], 1);
    let shapes: Vec<u64> = kernel["shapes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|shape| shape["recorded"].as_u64().unwrap())
        .collect();
    assert_eq!(shapes, [1, 0]);
}

#[test]
fn info_counts_the_processes_of_a_merged_archive() {
    let folder = sample();
    common::other_process(&folder.path().join("other.r3"));
    let line = "merged     from 2 processes";
    for (files, shown) in [
        (["sample.r3", "other.r3"], true),
        (["sample.r3", "sample.r3"], false),
    ] {
        let merged = format!("merged-{}", files[1]);
        output(folder.path(), &["merge", files[0], files[1], "-o", &merged]);
        let info = output(folder.path(), &["info", &merged]);
        assert_eq!(info.contains(line), shown, "{info}");
    }
}

#[test]
fn a_tuned_kernel_is_named_by_info_and_convert() {
    use r3_archive::model::*;
    let folder = tempfile::tempdir().unwrap();
    let options = r3_archive::WriterOptions::default();
    let writer =
        r3_archive::ArchiveWriter::create(&folder.path().join("best.r3t"), options).unwrap();
    let code = vec![TunedCode {
        form: TunedForm::Ptx,
        name: "_Z5saxpyifPKfPf".into(),
        target: "sm_90".into(),
        code: writer.put_bytes(b".version 8.0").unwrap(),
    }];
    let record = TunedKernelRecord {
        id: TunedId(1),
        kernel: "_Z5saxpyifPKfPf".into(),
        module_hash: [0; 16],
        params: Vec::new(),
        archive: [0; 16],
        archive_hash: [0; 16],
        code,
        launch: TunedLaunch {
            block: Some([64, 1, 1]),
            grid: [TunedGrid::Cover; 3],
            shared: TunedShared::Same,
            carveout: None,
        },
        guards: vec![TunedGuard::Grid([4, 1, 1])],
        shapes: vec![TunedShape {
            grid: [4, 1, 1],
            block: [256, 1, 1],
            dynamic_shared: 0,
            tuned: 2,
            held_out: 1,
            ratio: 0.9,
        }],
        ratio: [0.9, 0.88, 0.92],
        confidence: 0.995,
        device: "a GPU".into(),
        compute_capability: (9, 0),
        driver_version: 13000,
        approximate: false,
        candidate: "{}".into(),
        evidence: "{}".into(),
        r3_version: "0.1.0".into(),
        unix_ns: 0,
        source: None,
    };
    writer.append(&record).unwrap();
    writer.finish().unwrap();
    let shown = output(folder.path(), &["info", "best.r3t"]);
    for said in [
        "tuned      saxpy(int, float, float const*, float*)",
        "PTX, 12 B, block 64, 1 guard",
        "0.9000 (0.880 to 0.920) of the original's time on a GPU (9.0); verified on 3 launches, 1 held out",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    // There was no capture whose record could be lost.
    assert!(
        !shown.contains("lost") && !shown.contains("recorded"),
        "{shown}"
    );
    let info = json(folder.path(), &["info", "best.r3t", "--json"]);
    assert_eq!(info["tuned"][0]["mangled"], "_Z5saxpyifPKfPf");
    assert_eq!(info["tuned"][0]["verified"], 3);
    let converted = output(folder.path(), &["convert", "best.r3t"]);
    let line = converted
        .lines()
        .find(|line| line.contains("\"tuned_kernel\""));
    let line: serde_json::Value = serde_json::from_str(line.unwrap()).unwrap();
    assert_eq!(line["kernel"], "_Z5saxpyifPKfPf");
}

#[test]
fn info_says_that_the_process_record_is_lost() {
    let folder = sample();
    let path = folder.path().join("sample.r3");
    let bytes = std::fs::read(&path).unwrap();
    // Cut in the first record.
    std::fs::write(&path, &bytes[..150]).unwrap();
    let shown = output(folder.path(), &["info", "sample.r3"]);
    assert!(
        shown.contains("the record of its process is lost"),
        "{shown}"
    );
    assert!(!shown.contains("driver"), "{shown}");
}

#[test]
fn fsck_finds_a_flipped_bit() {
    let folder = sample();
    let path = folder.path().join("sample.r3");
    assert!(output(folder.path(), &["fsck", "sample.r3"]).contains("0 errors"));
    let mut bytes = std::fs::read(&path).unwrap();
    // Within the source text, which is too short to be compressed.
    let text = b"__global__ void";
    let at = bytes
        .windows(text.len())
        .position(|window| window == text)
        .unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (code, _) = failure(folder.path(), &["fsck", "sample.r3"]);
    assert_eq!(code, 1);
}

#[test]
fn convert_writes_one_record_a_line() {
    let folder = sample();
    let text = output(folder.path(), &["convert", "sample.r3", "--to", "json"]);
    let records: Vec<String> = text
        .lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["record"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        records,
        [
            "archive",
            "process",
            "device",
            "source",
            "module",
            "kernel",
            "kernel",
            "kernel",
            "allocation",
            "allocation",
            "launch",
            "launch",
            "launch",
            "kernel_stats",
            "kernel_stats",
            "process_stats"
        ]
    );
}

#[test]
fn a_killed_programs_archive_is_read_and_said_to_be_incomplete() {
    let folder = sample();
    let path = folder.path().join("sample.r3");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let done = command(folder.path(), &["info", "sample.r3"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0));
    let (said, shown) = (
        String::from_utf8(done.stderr).unwrap(),
        String::from_utf8(done.stdout).unwrap(),
    );
    assert!(said.contains("sample.r3: "), "{said}");
    assert!(shown.contains("salvaged"), "{shown}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = sample();
    let program = assert_cmd::cargo::cargo_bin("r3-replay");
    let line = format!(
        "{} ls sample.r3 | true; exit ${{PIPESTATUS[0]}}",
        program.display()
    );
    let done = std::process::Command::new("bash")
        .current_dir(folder.path())
        .args(["-c", &line])
        .output()
        .unwrap();
    assert_eq!(
        (done.status.code(), String::from_utf8(done.stderr).unwrap()),
        (Some(0), String::new())
    );
}

#[test]
fn files_that_are_no_archives_are_named() {
    let folder = sample();
    std::fs::write(folder.path().join("text"), "hello").unwrap();
    for (file, wanted) in [
        ("text", "text is not an R3 archive"),
        ("none", "cannot read none"),
    ] {
        for name in ["info", "ls", "verify", "convert"] {
            let (code, message) = failure(folder.path(), &[name, file]);
            assert_eq!(code, 2, "{name}");
            assert!(message.contains(wanted), "{name}: {message}");
        }
    }
}

/// Whether this machine has a driver, so that some messages are not to be had.
fn driver() -> bool {
    std::process::Command::new("ldconfig")
        .arg("-p")
        .output()
        .is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("libcuda.so.1"))
}

#[test]
fn without_a_driver_the_cpu_device_stands_in_and_a_gpu_cannot_be_asked_for() {
    if driver() {
        return;
    }
    let folder = sample();
    for name in ["verify", "run", "bench", "noise"] {
        let arguments = [name, "sample.r3", "--launch", "1"];
        let (code, message) = failure(
            folder.path(),
            &[&arguments[..], &["--device", "cuda"]].concat(),
        );
        assert_eq!(code, 2);
        assert!(
            message.contains("no CUDA driver: libcuda.so.1"),
            "{message}"
        );
        assert!(
            message.contains("--device cpu runs kernels that have PTX"),
            "{message}"
        );
        let (_, message) = failure(folder.path(), &arguments);
        assert!(
            message.starts_with("r3-replay: running on the CPU device, since there is no GPU to be used: libcuda.so.1"),
            "{message}"
        );
    }
}

#[test]
fn mistakes_in_tolerances_are_told_before_anything_runs() {
    let folder = sample();
    let verify = |arguments: &[&str]| {
        let (code, message) = failure(
            folder.path(),
            &[["verify", "sample.r3"].as_slice(), arguments].concat(),
        );
        assert_eq!(code, 2);
        message
    };
    assert!(verify(&["--tolerance", "rel=x"]).contains("`x` is no number"));
    assert!(verify(&["--type", "arg0"]).contains("expected BUFFER=TYPE"));
    assert!(
        verify(&["--type", "arg1=f32", "--type", "arg9=f32"]).contains(
            "--type arg9: no selected launch has a buffer of this name; there are arg0, arg1, arg2"
        )
    );
    assert!(verify(&["--launch", "3", "--type", "arg1=f32"]).contains("there are arg0\n"));
    assert!(verify(&["--type", "arg0=f33"]).contains("`f33` is no element type"));
    assert!(verify(&["--tolerance-file", "none.toml"]).contains("none.toml"));
    assert!(verify(&["--repeat", "0"]).contains("--repeat"));
}

mod capture {
    use super::*;

    /// A library that does nothing, at the place where the launcher looks for it.
    fn library(folder: &Path) {
        std::fs::write(folder.join("empty.c"), "int r3_empty;\n").unwrap();
        let done = std::process::Command::new("cc")
            .current_dir(folder)
            .args(["-shared", "-fPIC", "-o", "libr3.so", "empty.c"])
            .status();
        assert!(done.unwrap().success());
    }

    fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
        let library = folder.join("libr3.so");
        let mut all = vec!["capture", "--library", library.to_str().unwrap()];
        all.extend(arguments);
        let done = command(folder, &all).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            done.status.code().unwrap_or(-1),
            text(done.stdout),
            text(done.stderr),
        )
    }

    #[test]
    fn the_program_gets_the_options_as_variables_and_its_own_arguments() {
        let folder = tempfile::tempdir().unwrap();
        library(folder.path());
        let script = "echo $R3_OUT $R3_KERNEL $LD_PRELOAD $0 $1; exit 7";
        let (code, said, complaints) = run(
            folder.path(),
            &[
                "--out", "a.r3", "--kernel", "saxpy", "--", "sh", "-c", script, "name", "--out",
            ],
        );
        let library = folder.path().canonicalize().unwrap().join("libr3.so");
        assert_eq!(code, 7, "the exit code is the program's");
        assert_eq!(
            said,
            format!("a.r3 saxpy {} name --out\n", library.display())
        );
        assert_eq!(complaints, "");
    }

    #[test]
    fn the_process_id_stays() {
        let folder = tempfile::tempdir().unwrap();
        library(folder.path());
        let program = assert_cmd::cargo::cargo_bin("r3-replay");
        let child = std::process::Command::new(program)
            .current_dir(folder.path())
            .args([
                "capture",
                "--library",
                "libr3.so",
                "--",
                "sh",
                "-c",
                "echo $$",
            ])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let id = child.id();
        let said = child.wait_with_output().unwrap().stdout;
        assert_eq!(String::from_utf8(said).unwrap(), format!("{id}\n"));
    }

    #[test]
    fn every_wrong_option_is_told_and_the_program_is_not_started() {
        let folder = tempfile::tempdir().unwrap();
        library(folder.path());
        let (code, said, complaints) = run(
            folder.path(),
            &["--max", "x", "--kernel", "(", "--", "echo", "started"],
        );
        assert_eq!((code, said.as_str()), (2, ""));
        assert!(
            complaints.contains("--max=x") && complaints.contains("--kernel=("),
            "{complaints}"
        );
        let mut wrong = command(folder.path(), &["capture", "--library", "libr3.so", "true"]);
        let done = wrong.env("R3_KERNL", "x").output().unwrap();
        assert_eq!(done.status.code(), Some(2));
        assert!(
            String::from_utf8(done.stderr)
                .unwrap()
                .contains("did you mean R3_KERNEL?")
        );
    }

    #[test]
    fn what_cannot_be_preloaded_into_runs_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        library(folder.path());
        std::fs::write(
            folder.path().join("main.c"),
            "int main(void) { return 3; }\n",
        )
        .unwrap();
        let done = std::process::Command::new("cc")
            .current_dir(folder.path())
            .args(["-static", "-o", "static", "main.c"])
            .status();
        assert!(done.unwrap().success());
        let (code, _, complaints) = run(folder.path(), &["./static"]);
        assert_eq!(code, 3);
        assert_eq!(
            complaints,
            "r3-replay: nothing will be recorded: ./static is statically linked: nothing can be \
             preloaded into it\n"
        );
    }

    #[test]
    fn a_mistyped_option_is_not_taken_for_the_program() {
        let folder = tempfile::tempdir().unwrap();
        library(folder.path());
        let refused = |arguments: &[&str]| {
            let (code, said, complaints) = run(folder.path(), arguments);
            assert_eq!((code, said.as_str()), (2, ""));
            complaints
        };
        assert_eq!(
            refused(&["--kernels", "x", "--", "echo"]),
            "r3-replay: unknown option --kernels; did you mean --kernel?\n"
        );
        assert!(refused(&["--kernels=x", "echo"]).contains("did you mean --kernel?"));
        assert_eq!(
            refused(&["--frob", "--", "echo"]),
            "r3-replay: unknown option --frob; `r3-replay capture --help` lists the options\n"
        );
    }

    #[test]
    fn where_the_archive_cannot_go_is_told_before_the_program_starts() {
        let folder = tempfile::tempdir().unwrap();
        library(folder.path());
        std::fs::write(folder.path().join("k.r3"), "").unwrap();
        for (out, wanted) in [
            (
                "none/k.r3",
                "the folder none for the archive does not exist",
            ),
            ("none/", "the folder none for the archive does not exist"),
            (
                "k.r3",
                "k.r3 exists already: the archive gets a numbered name",
            ),
        ] {
            let (code, said, complaints) = run(folder.path(), &["--out", out, "--", "echo", "ran"]);
            assert_eq!((code, said.as_str()), (0, "ran\n"));
            assert!(complaints.contains(wanted), "{complaints}");
        }
        let (_, _, complaints) = run(folder.path(), &["--out", "new.r3", "--", "true"]);
        assert_eq!(complaints, "");
    }

    #[test]
    fn missing_programs_and_libraries_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (code, _, complaints) = run(folder.path(), &["true"]);
        assert_eq!(code, 2);
        assert!(
            complaints.contains("libr3.so: there is no such file"),
            "{complaints}"
        );
        library(folder.path());
        let (code, _, complaints) = run(folder.path(), &["no-such-program"]);
        assert_eq!(code, 2);
        assert!(
            complaints.contains("no-such-program: no such program"),
            "{complaints}"
        );
    }
}
