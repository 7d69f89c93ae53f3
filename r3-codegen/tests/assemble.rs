//! NVIDIA's assemblers on PTX, right and wrong. Where they are not there, that is said and the tests pass: the set-up
//! script fetches them on x86-64.

#![allow(clippy::unwrap_used, reason = "a test that is wrong stops")]

use std::path::Path;

use r3_codegen::assemble::{self, arch_for, nvjitlink};
use r3_codegen::recipe::{Assembler, AssemblerKind, Cubin, Failure, FailureKind, Resources, Stage};

/// 256 bytes of shared memory, a barrier.
const SHARED: &str = r#".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 s[256];
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    and.b32 %r1, %r1, 63;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.u32 %r2, [%rd2];
    mov.u32 %r3, s;
    mad.lo.u32 %r3, %r1, 4, %r3;
    st.shared.u32 [%r3], %r2;
    bar.sync 0;
    ld.shared.u32 %r2, [%r3];
    st.global.u32 [%rd2], %r2;
    ret;
}
"#;

/// Two kernels; the second keeps more values than registers when these are capped.
fn pressing() -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry small()\n{\n    ret;\n}\n\
         .visible .entry pressing(.param .u64 p)\n{\n    .reg .f32 %f<101>;\n    .reg .b64 %rd<3>;\n\
         ld.param.u64 %rd1, [p];\n    cvta.to.global.u64 %rd2, %rd1;\n",
    );
    for i in 0..100 {
        text += &format!("    ld.volatile.global.f32 %f{i}, [%rd2+{}];\n", 4 * i);
    }
    for i in (0..100).rev() {
        text += &format!(
            "    st.volatile.global.f32 [%rd2+{}], %f{i};\n",
            400 + 4 * i
        );
    }
    text + "    ret;\n}\n"
}

/// Runs a test with each assembler that is there.
fn with_each(test: impl Fn(AssemblerKind)) {
    for kind in [AssemblerKind::NvJitLink, AssemblerKind::Ptxas] {
        match assemble::assemble(SHARED, "sm_80", &by(kind, &[])) {
            Err(failure) if failure.kind == FailureKind::MissingTool => {
                eprintln!("skipped: {}", failure.message);
            }
            _ => test(kind),
        }
    }
}

fn by(kind: AssemblerKind, options: &[&str]) -> Assembler {
    Assembler {
        kind,
        arch: None,
        options: options.iter().map(|&option| option.to_owned()).collect(),
    }
}

fn only(cubin: &Cubin) -> &Resources {
    assert_eq!(cubin.kernels.len(), 1);
    &cubin.kernels[0]
}

#[test]
fn what_a_kernel_uses_is_read_back() {
    with_each(|kind| {
        let cubin = assemble::assemble(SHARED, "sm_80", &by(kind, &[])).unwrap();
        assert!(cubin.bytes.starts_with(b"\x7fELF"));
        let name = if kind == AssemblerKind::Ptxas {
            "ptxas "
        } else {
            "nvJitLink "
        };
        let version = cubin.assembler.strip_prefix(name).unwrap();
        assert!(
            version.starts_with(|c: char| c.is_ascii_digit()),
            "{version}"
        );
        let kernel = only(&cubin);
        assert_eq!(kernel.kernel, "k");
        assert_eq!(kernel.shared, 256);
        assert_eq!(kernel.local, 0);
        assert_eq!(kernel.spills, Some((0, 0)));
        assert!((1..=32).contains(&kernel.registers), "{}", kernel.registers);
        // Instructions of 16 bytes, in lines of 128.
        assert!(kernel.code_bytes > 0 && kernel.code_bytes.is_multiple_of(16));
    });
}

#[test]
fn options_are_those_of_ptxas_for_both() {
    with_each(|kind| {
        let text = pressing();
        let free = assemble::assemble(&text, "sm_80", &by(kind, &[])).unwrap();
        let names: Vec<_> = free
            .kernels
            .iter()
            .map(|kernel| &kernel.kernel[..])
            .collect();
        assert_eq!(names, ["pressing", "small"]);
        assert!(free.kernels[0].registers > 100);
        assert_eq!(free.kernels[0].spills, Some((0, 0)));
        for options in [
            &["-maxrregcount", "32"][..],
            &["-maxrregcount=32", "-O3"],
            &["--maxrregcount=32"],
        ] {
            let capped = assemble::assemble(&text, "sm_80", &by(kind, options)).unwrap();
            let pressing = &capped.kernels[0];
            assert_eq!(pressing.registers, 32, "{options:?}");
            let (stores, loads) = pressing.spills.unwrap();
            assert!(stores >= 4 * 60 && loads >= 4 * 60, "{stores}, {loads}");
            assert!(pressing.local >= stores);
            assert_eq!(capped.kernels[1].spills, Some((0, 0)));
        }
    });
}

#[test]
fn equal_input_gives_equal_bytes() {
    with_each(|kind| {
        let once = assemble::assemble(&pressing(), "sm_80", &by(kind, &[])).unwrap();
        let again = assemble::assemble(&pressing(), "sm_80", &by(kind, &[])).unwrap();
        assert_eq!(once, again);
    });
}

#[test]
fn a_mistake_is_refused_in_the_assemblers_words() {
    with_each(|kind| {
        let wrong = SHARED.replace("bar.sync 0", "bar.snyc 0");
        let failure = assemble::assemble(&wrong, "sm_80", &by(kind, &[])).unwrap_err();
        assert_eq!(failure.stage, Stage::Assemble);
        assert_eq!(failure.kind, FailureKind::Refused);
        let said = "line 19; error   : Unknown modifier '.snyc'";
        assert!(failure.message.contains(said), "{failure:?}");
        assert!(
            failure.log.contains(said) && failure.log.lines().count() > 1,
            "{failure:?}"
        );
        assert!(
            !failure.log.contains("r3-compile"),
            "a path of this machine: {}",
            failure.log
        );
    });
}

#[test]
fn a_wrong_option_is_refused() {
    with_each(|kind| {
        let failure = assemble::assemble(SHARED, "sm_80", &by(kind, &["-bogus=1"])).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.message.contains("bogus"), "{failure:?}");
        let failure = assemble::assemble(SHARED, "sm_80", &by(kind, &["-o", "x"])).unwrap_err();
        assert!(failure.message.contains("-o"), "{failure:?}");
    });
}

#[test]
fn an_old_target_is_raised_to_what_the_assembler_knows() {
    with_each(|kind| {
        let old = SHARED
            .replace("sm_80", "sm_52")
            .replace(".version 8.0", ".version 6.0");
        let cubin = assemble::assemble(&old, "sm_52", &by(kind, &[])).unwrap();
        assert_eq!(only(&cubin).shared, 256);
        // Who asks for an architecture gets that one or none.
        let asked = Assembler {
            arch: Some("sm_30".into()),
            ..by(kind, &[])
        };
        let failure = assemble::assemble(&old, "sm_52", &asked).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
    });
}

#[test]
fn code_for_an_older_target_is_assembled_for_the_gpu() {
    with_each(|kind| {
        let asked = Assembler {
            arch: Some(arch_for("sm_80", "sm_90").unwrap()),
            ..by(kind, &[])
        };
        let cubin = assemble::assemble(SHARED, "sm_80", &asked).unwrap();
        let image = r3_image::Image::parse(&cubin.bytes);
        assert_eq!(image.entries()[0].sm, 90);
        assert_eq!(only(&cubin).shared, 256);
    });
}

#[test]
fn machine_code_is_shown_and_counted() {
    with_each(|kind| {
        let mut cubin = assemble::assemble(&pressing(), "sm_80", &by(kind, &[])).unwrap();
        match assemble::disassemble(&cubin.bytes, Some("pressing")) {
            Err(failure) if failure.kind == FailureKind::MissingTool => {
                eprintln!("skipped: {}", failure.message);
                return;
            }
            text => {
                let text = text.unwrap();
                assert_eq!(text.matches("LDG").count(), 100);
                assert!(!text.contains(".text.small"));
            }
        }
        let failure = assemble::disassemble(&cubin.bytes, Some("none")).unwrap_err();
        assert!(failure.message.contains("none"));
        assemble::count_instructions(&mut cubin).unwrap();
        let mix = cubin.kernels[0].mix.as_ref().unwrap();
        let count = |word: &str| mix.iter().find(|(name, _)| name == word).map(|(_, n)| *n);
        assert_eq!(count("LDG"), Some(100));
        assert_eq!(count("STG"), Some(100));
        assert!(mix.is_sorted_by(|a, b| a.1 >= b.1));
        let words: u32 = mix.iter().map(|(_, n)| n).sum();
        assert_eq!(u64::from(words) * 16, cubin.kernels[0].code_bytes);
    });
}

#[test]
fn an_assembler_that_is_too_old_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let old = |name: &str, says: &str| {
        let bin = folder.path().join(name);
        std::fs::create_dir(&bin).unwrap();
        let program = bin.join("ptxas");
        std::fs::write(
            &program,
            format!("#!/bin/sh\necho \"{says}\" >&2\nexit 255\n"),
        )
        .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        bin
    };
    let path = [
        old(
            "a",
            "ptxas fatal   : Value 'sm_80' is not defined for option 'gpu-name'",
        ),
        old(
            "b",
            "ptxas k.ptx, line 1; fatal   : Unsupported .version 8.0; current version is '7.8'",
        ),
        old("c", "ptxas k.ptx, line 2; error   : from the third"),
    ];
    // SAFETY: the runner gives each test a process, and no other thread runs in it.
    unsafe {
        std::env::remove_var("R3_PTXAS");
        std::env::set_var("PATH", std::env::join_paths(&path).unwrap());
    }
    for kind in [AssemblerKind::Ptxas, AssemblerKind::Any] {
        let failure = assemble::assemble(SHARED, "sm_80", &by(kind, &[])).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.message.contains("from the third"), "{failure:?}");
    }
}

#[test]
fn lto_ir_becomes_ptx() {
    // A kernel and a device function, by nvcc 13.0 with `-arch=sm_90 -dlto -ltoir`.
    let lto = include_bytes!("fixtures/doubled.ltoir");
    let to_ptx = |lto: &[u8]| nvjitlink::lto_to_ptx(lto, "doubled.ltoir", "sm_90", &[]);
    let ptx = match to_ptx(lto) {
        Err(failure) if failure.kind == FailureKind::MissingTool => {
            eprintln!("skipped: {}", failure.message);
            return;
        }
        ptx => ptx.unwrap(),
    };
    assert!(ptx.contains(".target sm_90"), "{ptx}");
    assert!(ptx.contains(".entry doubled("), "{ptx}");
    assert!(ptx.trim_end().ends_with('}'), "{ptx}");
    // What is no LTO-IR, or only the beginning of it.
    for wrong in [&b"no LTO-IR"[..], lto.get(..lto.len() / 2).unwrap()] {
        let failure = to_ptx(wrong).unwrap_err();
        assert_eq!(failure.stage, Stage::Source);
        assert_eq!(failure.kind, FailureKind::Refused);
    }
}

/// The failure with which a tool is missed when its variable names a path.
fn missing(kind: AssemblerKind, variable: &str, path: &str) -> Failure {
    // SAFETY: the runner gives each test a process, and no other thread runs in it.
    unsafe { std::env::set_var(variable, path) };
    assemble::assemble(SHARED, "sm_80", &by(kind, &[])).unwrap_err()
}

#[test]
fn a_missing_assembler_is_said_with_the_places() {
    let failure = missing(AssemblerKind::Ptxas, "R3_PTXAS", "/nonexistent/ptxas");
    assert_eq!(failure.kind, FailureKind::MissingTool);
    assert!(
        failure.message.contains("R3_PTXAS = /nonexistent/ptxas"),
        "{failure:?}"
    );
    let failure = missing(AssemblerKind::Any, "R3_NVJITLINK", "/nonexistent/lib.so");
    assert_eq!(failure.kind, FailureKind::MissingTool);
    assert!(
        failure.message.contains("/nonexistent/lib.so"),
        "{failure:?}"
    );
    assert!(
        failure.message.contains("/nonexistent/ptxas"),
        "{failure:?}"
    );
}

#[test]
fn tools_are_found_in_toolkits_and_python_packages() {
    let folder = tempfile::tempdir().unwrap();
    let make = |path: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        path
    };
    let toolkit = make("cuda/bin/ptxas");
    let wheel = make("venv/lib/python3.12/site-packages/nvidia/cu13/bin/ptxas");
    let triton = make("venv/lib/python3.12/site-packages/triton/backends/nvidia/bin/ptxas");
    let fetched = make("tools/assembler/nvidia/cu13/bin/ptxas");
    // SAFETY: as above.
    unsafe {
        std::env::remove_var("R3_PTXAS");
        std::env::set_var("PATH", "");
        std::env::set_var("CUDA_HOME", folder.path().join("cuda"));
        std::env::set_var("VIRTUAL_ENV", folder.path().join("venv"));
        std::env::set_var("R3_TOOLS", folder.path().join("tools"));
    }
    let found = assemble::find::PTXAS.candidates();
    let ours: Vec<&Path> = found
        .iter()
        .map(|path| &**path)
        .filter(|path| path.starts_with(folder.path()))
        .collect();
    assert_eq!(ours, [&*toolkit, &wheel, &triton, &fetched]);
    assert_eq!(assemble::find::PTXAS.find(), Some(toolkit));
    let named = make("own/ptxas");
    // SAFETY: as above.
    unsafe { std::env::set_var("R3_PTXAS", &named) };
    assert_eq!(assemble::find::PTXAS.candidates(), [named]);
}

#[test]
fn no_file_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    // SAFETY: as above.
    unsafe { std::env::set_var("TMPDIR", folder.path()) };
    with_each(|kind| {
        _ = assemble::assemble(SHARED, "sm_80", &by(kind, &[])).unwrap();
        _ = assemble::assemble("no PTX", "sm_80", &by(kind, &[])).unwrap_err();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    });
}
