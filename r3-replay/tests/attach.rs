//! `attach`, on the CPU device: `wilson_sass` was captured from a program with machine code alone.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use assert_cmd::Command;
use r3_archive::Archive;
use r3_archive::model::AttachedForm;
use r3_codegen::recipe::{Code, Compiler, Source};
use r3_image::{CodeForm, Image};
use r3_replay::attach::triton::cached;
use tempfile::TempDir;

const DSLASH: &str = "_Z6dslash7LatticePK4LinkPK6SpinorPS3_if";

fn sample(name: &str) -> String {
    format!(
        "{}/../capture-samples/archives/{name}.r3",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// A folder with `a.r3`, which has machine code alone, and the PTX of the same program.
fn folder() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(sample("wilson_sass"), folder.path().join("a.r3")).unwrap();
    (folder, ptx_of("wilson"))
}

/// The PTX in the image of a sample.
fn ptx_of(name: &str) -> String {
    let archive = Archive::open(sample(name)).unwrap();
    let image = Image::from_vec(archive.read_blob(&archive.modules()[0].image).unwrap());
    let mut entries = image.entries().iter();
    let entry = entries.find(|entry| entry.form == CodeForm::Ptx).unwrap();
    String::from_utf8(entry.payload().unwrap().into_owned()).unwrap()
}

/// What a command prints, standard error included, and its exit code.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::cargo_bin("r3-replay").unwrap();
    let output = command
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(&String::from_utf8(output.stderr).unwrap());
    (output.status.code().unwrap(), text)
}

fn attach(folder: &Path, ptx: &str, more: &[&str]) -> (i32, String) {
    std::fs::write(folder.join("k.ptx"), ptx).unwrap();
    let mut arguments = vec!["attach", "a.r3", "--ptx", "k.ptx", "--device", "cpu"];
    arguments.extend(more);
    run(folder, &arguments)
}

/// The archive is as it was, and nothing lies beside it.
fn untouched(folder: &Path) {
    let (now, then) = (
        std::fs::read(folder.join("a.r3")),
        std::fs::read(sample("wilson_sass")),
    );
    assert!(now.unwrap() == then.unwrap(), "the archive has changed");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a.r3", "k.ptx"]);
}

#[test]
fn a_kernel_of_machine_code_alone_runs_from_attached_ptx() {
    let (folder, ptx) = folder();
    let folder = folder.path();
    let (code, text) = run(folder, &["verify", "a.r3", "--device", "cpu"]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("r3-replay attach"), "{text}");

    let (code, text) = attach(folder, &ptx, &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("parameters as captured"), "{text}");
    assert!(text.contains("code attached to 1 kernel"), "{text}");

    for command in ["verify", "run", "bench", "noise"] {
        let (code, text) = run(folder, &[command, "a.r3", "--device", "cpu"]);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("PTX attached from k.ptx runs"), "{text}");
    }
    let (_, text) = run(folder, &["show", "a.r3", "1"]);
    assert!(
        text.contains("attached    PTX from k.ptx; verified on CPU device"),
        "{text}"
    );
    assert!(
        text.contains("launches 1, 2, 3, within tolerance"),
        "{text}"
    );
    let (_, text) = run(folder, &["info", "a.r3"]);
    assert!(text.contains("SASS sm_90; attached PTX"), "{text}");
    assert_eq!(run(folder, &["fsck", "a.r3"]).0, 0);
    let (_, text) = run(folder, &["convert", "a.r3"]);
    assert!(text.contains(r#""record":"attachment""#), "{text}");
    let (code, text) = run(folder, &["extract", "a.r3", "-o", "out"]);
    assert_eq!(code, 0, "{text}");
    let extracted = std::fs::read_to_string(folder.join("out/attached1.ptx")).unwrap();
    assert!(extracted == ptx);
}

#[test]
fn another_program_has_none_of_the_kernels() {
    let (folder, _) = folder();
    let (code, text) = attach(folder.path(), &ptx_of("saxpy"), &[]);
    assert_eq!(code, 2);
    assert!(
        text.contains("none of the captured kernels is in it"),
        "{text}"
    );
    assert!(
        text.contains("saxpy(int, int, float const*, float*)"),
        "{text}"
    );
    assert!(text.contains("dslash(Lattice, Link const*"), "{text}");
    untouched(folder.path());
}

#[test]
fn a_kernel_of_the_same_name_with_other_parameters_is_another_kernel() {
    let (folder, ptx) = folder();
    let wider = ptx.replace(
        &format!(".param .u32 {DSLASH}_param_4"),
        &format!(".param .u64 {DSLASH}_param_4"),
    );
    assert!(wider != ptx);
    let (code, text) = attach(folder.path(), &wider, &[]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains(
            "another kernel: parameter 4 is at 40 with 8 bytes here, and at 40 with 4 bytes in the captured kernel"
        ),
        "{text}"
    );
    untouched(folder.path());
}

#[test]
fn code_that_computes_something_else_is_refused() {
    let (folder, ptx) = folder();
    let wrong = ptx.replacen("sqrt.rn.f32", "neg.f32", 1);
    assert!(wrong != ptx);
    let (code, text) = attach(folder.path(), &wrong, &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("MISMATCH"), "{text}");
    assert!(
        text.contains("refused: it does not leave the recorded memory"),
        "{text}"
    );
    untouched(folder.path());

    // Right, but not to the last bit: the recorded machine code has multiplications and additions fused.
    let (code, text) = attach(folder.path(), &ptx, &["--strict"]);
    assert_eq!(code, 1, "{text}");
    untouched(folder.path());
}

#[test]
fn of_several_files_with_a_kernel_only_what_verifies_is_attached() {
    let (folder, ptx) = folder();
    let path = folder.path();
    let wrong = ptx.replacen("sqrt.rn.f32", "neg.f32", 1);
    std::fs::write(path.join("wrong.ptx"), wrong).unwrap();
    let (code, text) = attach(path, &ptx, &["--ptx", "wrong.ptx"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("refused"), "{text}");
    let archive = Archive::open(path.join("a.r3")).unwrap();
    assert_eq!(archive.attachments().len(), 1);
    assert_eq!(archive.attachments()[0].file, "k.ptx");
}

#[test]
fn code_that_was_not_verified_is_said_to_be_so_wherever_it_runs() {
    let (folder, ptx) = folder();
    let wrong = ptx.replacen("sqrt.rn.f32", "neg.f32", 1);
    let (code, text) = attach(folder.path(), &wrong, &["--no-verify"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("attached without being verified"), "{text}");
    let (code, text) = run(folder.path(), &["verify", "a.r3", "--device", "cpu"]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("it was attached without being verified"),
        "{text}"
    );
    let (_, text) = run(folder.path(), &["show", "a.r3", "1"]);
    assert!(
        text.contains("attached    PTX from k.ptx; not verified"),
        "{text}"
    );

    // The newest holds.
    let (code, text) = attach(folder.path(), &ptx, &[]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = run(folder.path(), &["verify", "a.r3", "--device", "cpu"]);
    assert_eq!(code, 0, "{text}");
    let (_, text) = run(folder.path(), &["show", "a.r3", "1", "--json"]);
    let show: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(show["attached"][0]["id"], 2);
    assert_eq!(
        show["attached"][0]["verified"],
        serde_json::json!([1, 2, 3])
    );
    assert_eq!(show["attached"][1]["verified"], serde_json::json!([]));
}

#[test]
fn a_link_to_an_archive_stays_one_and_access_rights_stay() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, ptx) = folder();
    let path = folder.path();
    std::fs::create_dir(path.join("inner")).unwrap();
    std::fs::rename(path.join("a.r3"), path.join("inner/real.r3")).unwrap();
    std::os::unix::fs::symlink("inner/real.r3", path.join("a.r3")).unwrap();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path.join("inner/real.r3"), mode(0o640)).unwrap();
    let (code, text) = attach(path, &ptx, &[]);
    assert_eq!(code, 0, "{text}");
    assert!(path.join("a.r3").is_symlink());
    let real = Archive::open(path.join("inner/real.r3")).unwrap();
    assert_eq!(real.attachments().len(), 1);
    let metadata = std::fs::metadata(path.join("inner/real.r3")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(path.join("inner")).unwrap().count(), 1);
}

#[test]
fn a_new_archive_leaves_the_old_one_alone() {
    let (folder, ptx) = folder();
    let path = folder.path();
    let (code, text) = attach(path, &ptx, &["--output", "b.r3"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(run(path, &["verify", "b.r3", "--device", "cpu"]).0, 0);
    let (code, text) = attach(path, &ptx, &["--output", "b.r3"]);
    assert_eq!(code, 2);
    assert!(text.contains("b.r3 exists already"), "{text}");
    std::fs::remove_file(path.join("b.r3")).unwrap();
    untouched(path);
}

#[test]
fn a_static_kernel_is_found_by_the_name_that_another_compiler_gives_it() {
    let (folder, ptx) = folder();
    let by_clang = ptx.replace(DSLASH, &DSLASH.replacen("_Z", "_ZL", 1));
    let (code, text) = attach(folder.path(), &by_clang, &["--json"]);
    assert_eq!(code, 0, "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let kernel = &report["code"][0]["kernels"][0];
    assert_eq!(kernel["verdict"], "accepted");
    assert_eq!(kernel["mangled"], DSLASH);
    let archive = Archive::open(folder.path().join("a.r3")).unwrap();
    let attachment = &archive.attachments()[0];
    assert_eq!(attachment.kernels[0].name, DSLASH.replacen("_Z", "_ZL", 1));
    assert_eq!(
        run(folder.path(), &["verify", "a.r3", "--device", "cpu"]).0,
        0
    );
}

#[test]
fn only_selected_kernels_are_looked_for() {
    let (folder, ptx) = folder();
    let (code, text) = attach(folder.path(), &ptx, &["--kernel", "!dslash"]);
    assert_eq!(code, 2);
    assert!(
        text.contains("none of its 3 launches is selected"),
        "{text}"
    );
    let (code, text) = attach(folder.path(), &ptx, &["--launch", "2"]);
    assert_eq!(code, 0, "{text}");
    let (_, text) = run(folder.path(), &["show", "a.r3", "1"]);
    assert!(text.contains(": launch 2, within tolerance"), "{text}");
}

/// The program of `wilson_sass`.
fn program() -> String {
    format!(
        "{}/../capture-samples/programs/wilson.cu",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// clang without a toolkit, whatever else is here.
const PLAIN: &str = "clang++ --cuda-path=none -std=c++17 -O3";

#[test]
fn source_is_compiled_by_clang_without_a_toolkit() {
    let (folder, _) = folder();
    let folder = folder.path();
    let program = program();
    let attach = |more: &[&str]| {
        let mut arguments = vec!["attach", "a.r3", "--source", &program, "--device", "cpu"];
        arguments.extend(["--compiler", "clang", "--command", PLAIN]);
        arguments.extend(more);
        run(folder, &arguments)
    };
    let (code, text) = attach(&[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("compiled by clang"), "{text}");
    let (code, text) = run(folder, &["verify", "a.r3", "--device", "cpu"]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("wilson.cu runs instead of the recorded code"),
        "{text}"
    );

    let archive = Archive::open(folder.join("a.r3")).unwrap();
    let attachment = &archive.attachments()[0];
    let forms: Vec<_> = attachment.forms.iter().map(|code| code.form).collect();
    assert_eq!(
        forms,
        [
            AttachedForm::Ptx,
            AttachedForm::Bitcode,
            AttachedForm::Source
        ]
    );
    let source = archive.read_blob(attachment.code(AttachedForm::Source).unwrap());
    assert!(source.unwrap() == std::fs::read(&program).unwrap());
    let build = attachment.build.as_ref().unwrap();
    assert!(
        build.command.iter().any(|word| word == "-std=c++17"),
        "{build:?}"
    );

    // A mistake in it is told with its line, and the archive stays.
    std::fs::write(
        folder.join("bad.cu"),
        "#include <cuda_runtime.h>\n__global__ void k() { oops; }\n",
    )
    .unwrap();
    let before = std::fs::read(folder.join("a.r3")).unwrap();
    let arguments = [
        "attach",
        "a.r3",
        "--source",
        "bad.cu",
        "--compiler",
        "clang",
        "--command",
        PLAIN,
    ];
    let (code, text) = run(folder, &arguments);
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("bad.cu:2:") && text.contains("oops"),
        "{text}"
    );
    assert!(std::fs::read(folder.join("a.r3")).unwrap() == before);
}

#[test]
fn of_several_commands_for_a_file_the_one_that_gives_the_kernel_is_taken() {
    let (folder, _) = folder();
    let folder = folder.path();
    let text = format!("#ifdef WITH\n#include \"{}\"\n#endif\n", program());
    std::fs::create_dir(folder.join("build")).unwrap();
    std::fs::write(folder.join("k.cu"), text).unwrap();
    let command = |define: &str| {
        serde_json::json!({
            "directory": folder.join("build"),
            "command": format!("clang++ {define} -std=c++17 --cuda-path=none -MD -MF k.d -o k.o -c ../k.cu"),
            "file": "../k.cu",
        })
    };
    let database = serde_json::json!([command("-DWITHOUT"), command("-DWITH=1")]);
    std::fs::write(
        folder.join("build/compile_commands.json"),
        database.to_string(),
    )
    .unwrap();
    let arguments = [
        "attach",
        "a.r3",
        "--source",
        "k.cu",
        "--compile-commands",
        "build",
    ];
    let mut arguments = arguments.to_vec();
    arguments.extend(["--compiler", "clang", "--device", "cpu"]);
    let (code, text) = run(folder, &arguments);
    assert_eq!(code, 0, "{text}");
    let archive = Archive::open(folder.join("a.r3")).unwrap();
    let build = archive.attachments()[0].build.clone().unwrap();
    assert!(build.command.contains(&"-DWITH=1".to_owned()), "{build:?}");

    std::fs::write(folder.join("other.cu"), "").unwrap();
    let mut arguments = arguments.clone();
    arguments[3] = "other.cu";
    let (code, text) = run(folder, &arguments);
    assert_eq!(code, 2);
    assert!(
        text.contains("has no command for other.cu; it has 2 other files"),
        "{text}"
    );
}

#[test]
fn bitcode_is_compiled_and_kept() {
    let (folder, _) = folder();
    let folder = folder.path();
    let source = Source {
        text: std::fs::read_to_string(program()).unwrap(),
        name: program().into(),
        headers: Vec::new(),
        name_expressions: Vec::new(),
        compiler: Compiler::Clang,
        program: None,
        options: vec!["--cuda-path=none".to_owned(), "-std=c++17".to_owned()],
        directory: None,
    };
    let code = r3_codegen::source::to_ptx_or_bitcode(&source, "sm_90").unwrap();
    let Code::Bitcode(bitcode) = code else {
        panic!("clang 22 gives bitcode");
    };
    std::fs::write(folder.join("k.bc"), &bitcode).unwrap();
    let arguments = ["attach", "a.r3", "--bitcode", "k.bc", "--device", "cpu"];
    let (code, text) = run(folder, &arguments);
    assert_eq!(code, 0, "{text}");
    let archive = Archive::open(folder.join("a.r3")).unwrap();
    let kept = archive.attachments()[0]
        .code(AttachedForm::Bitcode)
        .unwrap();
    assert!(archive.read_blob(kept).unwrap() == bitcode);

    std::fs::write(folder.join("k.bc"), &bitcode[..bitcode.len() / 2]).unwrap();
    let (code, text) = run(folder, &arguments);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("k.bc: "), "{text}");
}

#[test]
fn recorded_source_is_compiled_where_nvrtc_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.r3");
    std::fs::copy(sample("nvrtc"), &path).unwrap();
    let (code, text) = run(folder.path(), &["verify", "a.r3", "--device", "cpu"]);
    assert_eq!(code, 3, "{text}");
    assert!(
        text.contains("and its source, which `r3-replay attach --from-capture` compiles"),
        "{text}"
    );

    let arguments = ["attach", "a.r3", "--from-capture", "--device", "cpu"];
    let mut command = Command::cargo_bin("r3-replay").unwrap();
    command
        .current_dir(&folder)
        .args(arguments)
        .env("R3_NVRTC", "/nonexistent");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("NVRTC is not here"), "{text}");

    if r3_codegen::source::find::NVRTC.find().is_none() {
        return;
    }
    let (code, text) = run(folder.path(), &arguments);
    assert_eq!(code, 0, "{text}");
    let archive = Archive::open(&path).unwrap();
    assert!(archive.attachments()[0].source.is_some());
    assert_eq!(
        run(folder.path(), &["verify", "a.r3", "--device", "cpu"]).0,
        0
    );
}

#[test]
fn a_cubin_is_found_in_a_cache_of_triton_and_its_ptx_with_it() {
    let archive = Archive::open(sample("nvrtc")).unwrap();
    let cubins = archive.kernels().iter().filter_map(|kernel| {
        let module = archive.module(kernel.module?)?;
        let cubin = module.kind == r3_archive::model::ImageKind::Cubin;
        cubin.then_some((kernel, module))
    });
    let (kernel, module) = cubins.last().unwrap();
    let image = archive.read_blob(&module.image).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let put = |hash: &str, extension: &str, content: &[u8]| {
        let inner = folder.path().join(hash);
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join(format!("{}.{extension}", kernel.name)), content).unwrap();
    };
    let ptx =
        |comment: &str| format!("// {comment}\n.version 8.0\n.target sm_90\n.address_size 64\n");
    let found = || cached(&archive, &[kernel], folder.path(), 90).unwrap();
    assert!(found().0.is_empty());
    assert!(found().1[0].contains("not in the cache"));

    put("AAAA", "cubin", b"another specialisation");
    put("AAAA", "ptx", ptx("another").as_bytes());
    let (given, _) = found();
    assert!(
        given[0].notes[0].contains("the only kernel of this name"),
        "{:?}",
        given[0].notes
    );

    put("BBBB", "cubin", &image);
    put("BBBB", "ptx", ptx("this one").as_bytes());
    put("BBBB", "llir", b"; LLVM IR");
    let (given, notes) = found();
    assert!(given[0].ptx.starts_with("// this one"));
    assert_eq!(given[0].module, Some(module.id));
    assert_eq!(
        given[0].made_from,
        [(AttachedForm::Llvm, b"; LLVM IR".to_vec())]
    );
    assert!(notes.is_empty());
}
