//! Real images: what is read from them, against snapshots and against what `cuobjdump` says.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use r3_image::{CodeForm, Compression, Image, ImageKind, KernelInfo, ProblemKind, Space, ptx};

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn image(name: &str) -> Image {
    Image::from_vec(fixture(name))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Names of the images with one of these endings, ascending.
fn images(endings: &[&str]) -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let mut names: Vec<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        .collect();
    names.sort();
    assert!(names.len() > 10 / endings.len(), "images are missing");
    names
}

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

/// One line of an oracle file: what `cuobjdump` prints, in a fixed form.
fn oracle(name: &str) -> BTreeSet<String> {
    let text = String::from_utf8(fixture(&format!("{name}.expected"))).unwrap();
    let mut facts = BTreeSet::new();
    let mut function = "";
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Function", name] => function = name.trim_end_matches(':'),
            [reg, stack, shared, ..] if reg.starts_with("REG:") => {
                facts.insert(format!("{function} {reg} {stack} {shared}"));
            }
            ["EXTERNS", kernel, names @ ..] => {
                let mut names = names.to_vec();
                names.sort();
                facts.insert(format!("EXTERNS {kernel} {}", names.join(" ")));
            }
            ["PARAM" | "ELF" | "PTX", ..] => {
                facts.insert(line.to_owned());
            }
            _ => {}
        }
    }
    facts
}

#[test]
fn cuobjdump_says_the_same_of_kernels_and_entries() {
    for name in images(&[".cubin", ".fatbin"]) {
        let image = image(&name);
        let mut found = BTreeSet::new();
        let mut kernels = BTreeSet::new();
        for entry in image.entries() {
            let payload = entry.payload().unwrap();
            let suffix = entry.arch_suffix.map(String::from).unwrap_or_default();
            match entry.form {
                CodeForm::Ptx => _ = found.insert(format!("PTX sm_{}{suffix}", entry.sm)),
                CodeForm::Cubin => _ = found.insert(format!("ELF sm_{}{suffix}", entry.sm)),
                // cuobjdump lists none.
                _ => continue,
            }
            let part = Image::parse(&payload);
            for kernel in part
                .kernel_names()
                .iter()
                .map(|name| part.kernel(name).unwrap())
            {
                if kernel.from == CodeForm::Cubin {
                    facts_of(&kernel, entry.sm, &oracle(&name), &mut found);
                }
                kernels.insert(kernel.name);
            }
        }
        // Functions that are no kernels, and the two names that it has for one family of GPUs.
        let oracle: BTreeSet<_> = oracle(&name)
            .into_iter()
            .filter(|fact| {
                let mut words = fact.split(' ');
                let first = words.next().unwrap();
                let subject = if matches!(first, "PARAM" | "EXTERNS") {
                    words.next()
                } else {
                    Some(first)
                };
                matches!(first, "ELF" | "PTX") || kernels.contains(subject.unwrap())
            })
            .map(|fact| {
                if fact == "ELF sm_100" && name.starts_with("suffixes") {
                    "ELF sm_100f".into()
                } else {
                    fact
                }
            })
            .collect();
        assert_eq!(found, oracle, "{name}");
    }
}

/// The facts of a kernel as `cuobjdump` writes them.
fn facts_of(kernel: &KernelInfo, sm: u32, oracle: &BTreeSet<String>, facts: &mut BTreeSet<String>) {
    let name = &kernel.name;
    let registers = kernel.registers.unwrap();
    let stack = kernel.local_bytes.unwrap();
    let shared = kernel.static_shared.unwrap();
    // It counts the KiB that the system reserves from sm_90 on, in modules that use shared memory.
    let with_reserved = format!(
        "{name} REG:{registers} STACK:{stack} SHARED:{}",
        shared + 1024
    );
    if sm >= 90 && (shared > 0 || oracle.contains(&with_reserved)) {
        facts.insert(with_reserved);
    } else {
        facts.insert(format!(
            "{name} REG:{registers} STACK:{stack} SHARED:{shared}"
        ));
    }
    for (ordinal, param) in kernel.params.iter().enumerate() {
        facts.insert(format!(
            "PARAM {name} {ordinal:#x} {:#x} {:#x}",
            param.offset, param.size
        ));
    }
    if !kernel.externs.is_empty() {
        facts.insert(format!("EXTERNS {name} {}", kernel.externs.join(" ")));
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
