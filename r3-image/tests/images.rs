//! What is read from real images.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use common::{fixture, image, images};
use r3_image::{CodeForm, Compression, Image, ImageKind, KernelInfo, ProblemKind, Space, ptx};

/// What a person would want to see of an image, one fact a line.
fn describe(image: &Image) -> String {
    let mut out = format!("{:?}\n", image.kind());
    for entry in image.entries() {
        let suffix = entry.arch_suffix.map(String::from).unwrap_or_default();
        let (major, minor) = entry.version;
        write!(
            out,
            "entry {:?} sm_{}{suffix} version {major}.{minor}",
            entry.form, entry.sm
        )
        .unwrap();
        write!(out, " flags {:#x} {:?}", entry.flags, entry.compression).unwrap();
        write!(out, " raw {}", entry.raw_len).unwrap();
        for (what, text) in [("name", &entry.name), ("options", &entry.options)] {
            if let Some(text) = text {
                write!(out, " {what} {text:?}").unwrap();
            }
        }
        out.push('\n');
    }
    for name in image.kernel_names() {
        let kernel = image.kernel(&name).unwrap();
        describe_kernel(&mut out, &kernel);
    }
    for variable in image.variables() {
        let state = if variable.initialised {
            "initialised"
        } else {
            "zero"
        };
        writeln!(
            out,
            "{:?} {} {} {state}",
            variable.space, variable.name, variable.size
        )
        .unwrap();
    }
    for problem in image.check() {
        writeln!(out, "problem {problem}").unwrap();
    }
    out
}

fn describe_kernel(out: &mut String, kernel: &KernelInfo) {
    assert!(kernel.params_known, "{}", kernel.name);
    write!(out, "kernel {} from {:?}", kernel.name, kernel.from).unwrap();
    for param in &kernel.params {
        write!(out, " {}+{}", param.offset, param.size).unwrap();
    }
    let numbers = [
        ("registers", kernel.registers),
        ("shared", kernel.static_shared.filter(|&n| n != 0)),
        ("local", kernel.local_bytes.filter(|&n| n != 0)),
        ("const", kernel.const_bytes.filter(|&n| n != 0)),
        ("threads", kernel.max_threads),
        ("min blocks", kernel.min_blocks),
        ("max registers", kernel.max_registers),
        ("max rank", kernel.max_cluster_rank),
    ];
    for (what, number) in numbers {
        if let Some(number) = number {
            write!(out, ", {what} {number}").unwrap();
        }
    }
    let dims = [
        ("required", kernel.required_block),
        ("max", kernel.max_block),
        ("cluster", kernel.cluster_dims),
    ];
    for (what, dims) in dims {
        if let Some([x, y, z]) = dims {
            write!(out, ", {what} {x}x{y}x{z}").unwrap();
        }
    }
    if kernel.explicit_cluster {
        out.push_str(", explicit cluster");
    }
    if !kernel.externs.is_empty() {
        write!(out, ", uses {}", kernel.externs.join(" ")).unwrap();
    }
    out.push('\n');
}

#[test]
fn what_is_read_from_each_image_stays_the_same() {
    for name in images(&[".cubin", ".fatbin", ".ptx"]) {
        insta::assert_snapshot!(name.clone(), describe(&image(&name)));
    }
}

#[test]
fn ptx_and_cubin_agree_on_parameters_bounds_and_externs() {
    for (text, cubin) in [
        ("features-13.0.ptx", "features-13.0-sm_90.cubin"),
        ("features-13.0.ptx", "features-12.9-sm_90a.cubin"),
        ("features-13.0.ptx", "features-11.8-sm_90.cubin"),
        ("features-13.0.ptx", "features-13.5-sm_90.cubin"),
        ("large-params-13.0.ptx", "large-params-13.0-sm_90.cubin"),
        ("cooperative-13.0.ptx", "cooperative-13.0-sm_90.cubin"),
        ("nvrtc-11.8.ptx", "nvrtc-11.8-sm_80.cubin"),
        ("nvrtc-12.9.ptx", "nvrtc-12.9-sm_90.cubin"),
        ("nvrtc-13.0.ptx", "nvrtc-13.0-sm_90.cubin"),
        ("triton.ptx", "triton-sm_90a.cubin"),
    ] {
        let (text, cubin) = (image(text), image(cubin));
        let names = cubin.kernel_names();
        assert_eq!(text.kernel_names(), names);
        assert!(!names.is_empty());
        for name in names {
            let (a, b) = (text.kernel(&name).unwrap(), cubin.kernel(&name).unwrap());
            assert_eq!(a.params, b.params, "{name}");
            assert_eq!(a.required_block, b.required_block, "{name}");
            assert_eq!(a.max_block, b.max_block, "{name}");
            assert_eq!(a.cluster_dims, b.cluster_dims, "{name}");
            assert_eq!(a.max_cluster_rank, b.max_cluster_rank, "{name}");
            assert_eq!(a.explicit_cluster, b.explicit_cluster, "{name}");
            assert_eq!(a.externs, b.externs, "{name}");
        }
    }
}

#[test]
fn device_side_effects_are_named() {
    for name in [
        "features-13.0-sm_90.cubin",
        "features-11.8-sm_80.cubin",
        "features-13.0.ptx",
    ] {
        let image = image(name);
        let kernel = |name: &str| image.kernel(name).unwrap();
        assert!(kernel("_Z6printsPi").uses_printf());
        assert!(kernel("_Z21prints_through_a_callPi").uses_printf());
        assert!(kernel("_Z9allocatesPPi").uses_heap());
        assert!(kernel("_Z7assertsPKi").uses_assert());
        let quiet = kernel("_Z7boundedPf");
        assert!(!quiet.uses_printf() && !quiet.uses_heap() && !quiet.uses_assert());
    }
    for name in ["dynamic-13.0-sm_90.cubin", "dynamic-13.0.ptx"] {
        let image = image(name);
        assert!(
            image.kernel("_Z6parentPi").unwrap().launches_kernels(),
            "{name}"
        );
        assert!(
            !image.kernel("_Z5childPi").unwrap().launches_kernels(),
            "{name}"
        );
    }
}

#[test]
fn variables_of_all_kinds_are_found_in_ptx_and_cubins() {
    for name in [
        "features-13.0.ptx",
        "features-13.0-sm_90.cubin",
        "features-13.0-sm_100.cubin",
        "features-12.9-sm_90a.cubin",
        "features-11.8-sm_80.cubin",
    ] {
        let variables = image(name).variables();
        let found: Vec<_> = variables
            .iter()
            .map(|v| (v.name.as_str(), v.size, v.space, v.initialised))
            .collect();
        let expected = [
            ("coefficients", 64, Space::Constant, true),
            ("counter", 4, Space::Global, false),
            ("managed_zero", 12, Space::Managed, false),
            ("pointer_to_counter", 8, Space::Global, true),
            ("shared_with_host", 4, Space::Managed, true),
            // Static: its name depends on the file.
            ("table", 32, Space::Global, true),
            ("unset", 16, Space::Constant, false),
        ];
        for expected in expected {
            let stem = expected.0;
            let found = found
                .iter()
                .find(|v| v.0 == stem || v.0.contains(&format!("{stem}E")));
            let found = found.unwrap_or_else(|| panic!("{name}: no {stem} in {variables:?}"));
            assert_eq!(
                (found.1, found.2, found.3),
                (expected.1, expected.2, expected.3),
                "{name}: {stem}"
            );
        }
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
    }
}

#[test]
fn every_compression_mode_unpacks_to_the_same_code() {
    let plain = image("mode-none.fatbin");
    let code = |image: &Image| -> Vec<Vec<u8>> {
        let entries = image.entries().iter();
        entries
            .map(|entry| entry.payload().unwrap().into_owned())
            .collect()
    };
    let mut seen = BTreeSet::new();
    for name in [
        "default",
        "mode-speed",
        "mode-size",
        "mode-balance",
        "lz4-all",
    ] {
        let image = image(&format!("{name}.fatbin"));
        assert!(code(&image) == code(&plain), "{name}");
        seen.extend(
            image
                .entries()
                .iter()
                .map(|entry| format!("{:?}", entry.compression)),
        );
    }
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        ["Lz4", "None", "Zstd"]
    );
}

#[test]
fn members_of_a_group_are_entries() {
    let image = image("concat.fatbin");
    let forms: Vec<_> = image.entries().iter().map(|e| (e.form, e.sm)).collect();
    let expected = [
        (CodeForm::Ptx, 90),
        (CodeForm::Ptx, 100),
        (CodeForm::Cubin, 80),
        (CodeForm::Cubin, 90),
    ];
    assert_eq!(forms, expected);
    for entry in image.entries() {
        let kind = ImageKind::of(&entry.payload().unwrap());
        assert_eq!(kind == ImageKind::Ptx, entry.form == CodeForm::Ptx);
        assert_eq!(kind == ImageKind::Cubin, entry.form == CodeForm::Cubin);
        // PTX is padded with NULs.
        let nul = u64::from(entry.form == CodeForm::Ptx);
        let len = entry.payload().unwrap().len() as u64;
        assert!((len + nul..len + nul + 8).contains(&entry.raw_len));
    }
}

#[test]
fn lto_code_is_kept_as_it_is() {
    let image = image("lto.fatbin");
    let entry = image
        .entries()
        .iter()
        .find(|e| e.form == CodeForm::LtoIr)
        .unwrap();
    assert_eq!(entry.compression, Compression::Opaque);
    assert!(entry.payload().unwrap() == entry.stored());
    assert_eq!(image.check(), []);
}

#[test]
fn a_kernel_comes_from_the_code_that_the_gpu_would_run() {
    // Cubins for sm_80 and sm_90, PTX for sm_90.
    let image = image("default.fatbin");
    let from = |sm| {
        image
            .kernel_for("saxpy", sm)
            .map(|kernel| (kernel.from, kernel.registers))
    };
    let registers = |sm| {
        let entry = image.entries().iter().find(|e| e.sm == sm).unwrap();
        Image::parse(&entry.payload().unwrap())
            .kernel("saxpy")
            .unwrap()
            .registers
    };
    assert_eq!(from(80), Some((CodeForm::Cubin, registers(80))));
    assert_eq!(from(86), Some((CodeForm::Cubin, registers(80))));
    assert_eq!(from(90), Some((CodeForm::Cubin, registers(90))));
    assert_eq!(from(100), Some((CodeForm::Ptx, None)));
    assert_eq!(from(75), None);
    assert_eq!(image.kernel("saxpy").unwrap().from, CodeForm::Cubin);
    assert_eq!(image.kernel("sax"), None);
}

#[test]
fn code_for_one_architecture_or_family_runs_nowhere_else() {
    let image = image("suffixes.fatbin");
    let runs = |sm| -> Vec<(CodeForm, u32)> {
        let entries = image.entries().iter().filter(|entry| entry.runs_on(sm));
        entries.map(|entry| (entry.form, entry.sm)).collect()
    };
    assert_eq!(runs(90), [(CodeForm::Cubin, 90), (CodeForm::Ptx, 90)]);
    assert_eq!(runs(100), [(CodeForm::Cubin, 100), (CodeForm::Ptx, 100)]);
    assert_eq!(runs(103), [(CodeForm::Cubin, 100), (CodeForm::Ptx, 100)]);
    assert_eq!(runs(120), []);
}

#[test]
fn sizes_of_parameters_are_not_padded() {
    let image = image("features-13.0-sm_90.cubin");
    let kernel = image.kernel("_Z6paramsPf4Sitedc").unwrap();
    assert_eq!(
        image.kernel_layout(&kernel.name).unwrap(),
        [(0, 8), (8, 76), (88, 8), (96, 1)]
    );
    assert_eq!(kernel.params_len(), 97);
}

#[test]
fn an_unknown_attribute_is_reported_and_the_rest_is_read() {
    let mut bytes = fixture("saxpy-13.0-sm_90a.cubin");
    // The attribute EIATTR_CUDA_API_VERSION of the kernel, as format 4, number 0x37, 4 bytes.
    let at = bytes.windows(4).position(|w| w == [4, 0x37, 4, 0]).unwrap();
    bytes[at + 1] = 0xF0;
    let image = Image::from_vec(bytes);
    let problems = image.check();
    let [problem] = problems.as_slice() else {
        panic!("{problems:?}")
    };
    assert_eq!(problem.place, ".nv.info.saxpy");
    assert_eq!(
        problem.kind,
        ProblemKind::Unknown {
            what: "attribute",
            value: 0xF0
        }
    );
    assert_eq!(image.kernel("saxpy").unwrap().params.len(), 4);
}

#[test]
fn parameters_that_are_not_complete_are_not_listed() {
    let whole = fixture("saxpy-13.0-sm_90a.cubin");
    // EIATTR_KPARAM_INFO of ordinal 3, the first of four: format 4, number 0x17, 12 bytes.
    let at = whole
        .windows(4)
        .position(|w| w == [4, 0x17, 12, 0])
        .unwrap();
    let with = |offset: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at + offset] = byte;
        Image::from_vec(bytes)
    };
    let cases = [
        (with(8, 5), "number of parameters is 0x4"),
        (with(10, 24), "length of all parameters is 0x18"),
        (with(0, 9), "unknown format of an attribute 0x9"),
        (with(3, 0xFF), "attribute is cut off"),
    ];
    for (image, expected) in cases {
        let problems: Vec<_> = image.check().iter().map(ToString::to_string).collect();
        let [problem] = problems.as_slice() else {
            panic!("{expected}: {problems:?}")
        };
        assert!(problem.contains(expected), "{problem}");
        assert!(!image.kernel("saxpy").unwrap().params_known);
        assert_eq!(image.kernel_layout("saxpy"), None);
        assert_eq!(image.kernel("saxpy").unwrap().registers, Some(10));
    }
}

#[test]
fn a_truncated_fatbin_keeps_its_first_entries() {
    let bytes = fixture("mode-none.fatbin");
    let whole = Image::parse(&bytes);
    let cut = Image::parse(&bytes[..whole.entries()[1].range.end - 8]);
    assert_eq!(cut.entries().len(), 2);
    assert!(cut.entries()[0].payload().unwrap() == whole.entries()[0].payload().unwrap());
    let kinds: Vec<_> = cut.problems().iter().map(|problem| &problem.kind).collect();
    assert!(
        matches!(
            kinds.as_slice(),
            [
                ProblemKind::Truncated {
                    what: "container",
                    ..
                },
                ProblemKind::Truncated {
                    what: "entry payload",
                    ..
                }
            ]
        ),
        "{kinds:?}"
    );
}

#[test]
fn containers_follow_each_other() {
    let image = image("containers.fatbin");
    assert_eq!(image.containers().len(), 2);
    assert_eq!(image.kernel_names(), ["other", "shift"]);

    // Padding between them is nothing to speak of, other bytes are.
    let one = fixture("rdc.fatbin");
    let with = |between: &[u8]| Image::from_vec([&one[..], between, &one[..]].concat());
    let padded = with(&[0; 24]);
    assert_eq!((padded.containers().len(), padded.problems().len()), (2, 0));
    let stray = with(b"01234567");
    assert_eq!(stray.containers().len(), 2);
    assert_eq!(stray.problems()[0].kind, ProblemKind::StrayBytes { len: 8 });
}

#[test]
fn pointers_are_told_where_ptx_marks_them() {
    let module = ptx::parse(fixture("triton.ptx"));
    let spaces: Vec<_> = module.entries[0]
        .params
        .iter()
        .map(|p| p.ptr_space)
        .collect();
    let global = Some(ptx::PtrSpace::Global);
    assert_eq!(spaces, [global, global, None, None, global, global]);
    assert_eq!(module.problems, []);

    let module = ptx::parse(fixture("llvm.ptx"));
    let pair = module
        .entries
        .iter()
        .find(|entry| entry.name == "pair")
        .unwrap();
    assert_eq!(pair.params[0].ptr_space, Some(ptx::PtrSpace::Generic));
    assert_eq!(pair.params[0].pointee_align, Some(1));
    assert_eq!((pair.params[0].align, pair.params[1].align), (8, 4));
}

#[test]
fn images_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Image>();
}
