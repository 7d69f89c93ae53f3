//! Programs of the samples' files, of commands, and of source in an archive.

use std::path::{Path, PathBuf};

use r3_archive::Archive;
use r3_codegen::recipe::Compiler;
use r3_replay::device::cpu::{CpuDevice, CpuOptions};
use r3_replay::evaluate::candidate::{CandidateCode, SourceCode};
use r3_replay::evaluate::describe::{KernelDescription, describe};

use super::{Given, Program, ProgramError};
use crate::evolve::variant::Variant;

fn samples() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture-samples");
    folder.canonicalize().unwrap()
}

fn kernels(sample: &str) -> Vec<KernelDescription> {
    let archive = Archive::open(samples().join(format!("archives/{sample}.r3"))).unwrap();
    let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| {}));
    archive
        .kernels()
        .iter()
        .map(|kernel| describe(&archive, kernel.id, &mut device).unwrap())
        .collect()
}

fn kernel(sample: &str, name: &str) -> KernelDescription {
    let mut all = kernels(sample);
    all.retain(|kernel| kernel.name.contains(name));
    all.remove(0)
}

fn of_file(file: PathBuf) -> Given {
    Given {
        file: Some(file),
        ..Given::default()
    }
}

fn program(sample: &str, name: &str) -> Program {
    let file = samples().join(format!("programs/{sample}.cu"));
    Program::new(&of_file(file), &kernel(sample, name)).unwrap()
}

fn source(program: &Program, text: &str) -> SourceCode {
    let candidate = program.candidate(&Variant {
        text: text.to_owned(),
        launch: Default::default(),
    });
    match candidate.code {
        CandidateCode::Source(source) => source,
        other => panic!("{other:?}"),
    }
}

/// A file in a folder of its own, against the captured saxpy.
fn saxpy(text: &str) -> Result<Program, ProgramError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.cu");
    std::fs::write(&file, text).unwrap();
    Program::new(&of_file(file), &kernel("saxpy", "saxpy"))
}

#[test]
fn each_sample_s_kernels_are_found_in_its_file() {
    let folder = samples().join("programs");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "cu") {
            continue;
        }
        let sample = file.file_stem().unwrap().to_str().unwrap();
        for kernel in kernels(sample) {
            let program = Program::new(&of_file(file.clone()), &kernel).unwrap();
            let regions = program.regions(&program.text).unwrap();
            let texts: String = regions.texts(&program.text).collect();
            assert!(texts.contains("__global__"), "{}", kernel.readable);
            assert!(!texts.contains("int main"), "{}", kernel.readable);
            assert!(kernel.readable.contains(&program.function));
            let template = kernel.readable.contains('<');
            assert_eq!(program.instances.len(), usize::from(template));
            // NVRTC first, and with the device's part alone: all of them have host code.
            let first = program.ways().into_iter().next().unwrap();
            assert_eq!((first.compiler, first.device_part), (Compiler::Nvrtc, true));
            let headers: Vec<&str> = program
                .device_headers
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            assert_eq!(headers, ["sample.h"]);
            found += 1;
        }
    }
    assert!(found >= 18, "{found}");
}

#[test]
fn the_device_s_part_stays_on_its_lines_and_names_its_instances() {
    let program = program("matmul", "matmul");
    let ways = program.ways();
    assert_eq!(
        (ways[0].compiler, ways[0].device_part),
        (Compiler::Nvrtc, true)
    );
    let part = source(&program.compiled(ways[0].clone()), &program.text);
    // The evaluator takes the host's part out: a candidate has the variant's text.
    assert!(part.device_part);
    assert_eq!(part.text, program.text);
    let text = super::only_device(&part.text);
    assert_eq!(text.lines().count(), program.text.lines().count());
    assert!(!text.contains("<<<"), "{text}");
    assert_eq!(part.instances, ["linear::matmul<float, 64, 128>"]);
    let (name, header) = &part.headers[0];
    assert_eq!(name, "sample.h");
    assert!(header.contains("mix32") && !header.contains("fprintf(stderr, \"%s: argument"));
    // The whole file uses its instances itself.
    let whole = source(&program.compiled(ways[1].clone()), &program.text);
    assert_eq!(
        (ways[1].compiler, ways[1].device_part),
        (Compiler::Nvcc, false)
    );
    assert!(whole.instances.is_empty() && whole.headers.is_empty());
    assert_eq!(whole.text, program.text);
}

#[test]
fn what_is_outside_of_the_regions_is_the_given_text() {
    let program = program("nbody", "step");
    let regions = program.regions(&program.text).unwrap();
    let given = std::fs::read_to_string(samples().join("programs/nbody.cu")).unwrap();
    assert_eq!(r3_source::region::without_marks(&program.text), given);
    let new = regions
        .splice(&program.text, &["__global__ void step() {}"])
        .unwrap();
    let again = program.regions(&new).unwrap();
    assert_eq!(
        again.texts(&new).collect::<Vec<_>>(),
        ["__global__ void step() {}\n"]
    );
    assert!(matches!(
        program.regions(&given),
        Err(ProgramError::Unmarked)
    ));
}

#[test]
fn parameters_that_differ_are_refused_with_both_layouts_before_anything_is_compiled() {
    let said = |text: &str| saxpy(text).unwrap_err().to_string();
    let text = said("__global__ void saxpy(int n, double which, const float *__restrict__ x) {}");
    for part in [
        "saxpy takes other parameters than the captured saxpy(int, int, float const*, float*):",
        "double which (8 bytes)",
        "4 bytes at 4",
        "none",
        "8 bytes at 16, a pointer",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(
        said("__global__ void saxpy(int n, int which, float4 x, float *y) {}")
            .contains("float4 x (16 bytes)")
    );
    // What the text does not tell is left to the compiler.
    for known in [
        "__global__ void saxpy(T n, int which, const real *x, real *y) {}",
        "__global__ void saxpy(unsigned int n, const int which, float *x, std::uint64_t y) {}",
        "template <typename... A> __global__ void saxpy(A... all) {}",
    ] {
        saxpy(known).unwrap();
    }
}

#[test]
fn a_file_without_the_kernel_says_what_it_has() {
    let said = |text: &str| saxpy(text).unwrap_err().to_string();
    assert!(said("__global__ void axpy(int n) {}\nvoid saxpy() {}").contains("it has axpy"));
    assert!(said("int main() {}").contains("it has none"));
    let twice = "namespace a { __global__ void saxpy(int a, int b, float *c, float *d) {} }\n\
                 namespace b { __global__ void saxpy(int a, int b, float *c, float *d) {} }";
    assert!(said(twice).contains("lines 1, 2"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("k.cuh"),
        "__global__ void saxpy(int a) {}",
    )
    .unwrap();
    std::fs::write(
        folder.path().join("k.cu"),
        "#include \"k.cuh\"\nint main() {}",
    )
    .unwrap();
    let given = of_file(folder.path().join("k.cu"));
    let error = Program::new(&given, &kernel("saxpy", "saxpy")).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("k.cuh, which has the kernel saxpy: name that with --source"),
        "{error}"
    );
    // Who marks it is believed.
    let macros = "// r3: evolve begin\nKERNEL(saxpy)\n// r3: evolve end\n";
    let program = saxpy(macros).unwrap();
    assert!(
        program.notes[0].contains("a macro may make it"),
        "{:?}",
        program.notes
    );
    assert_eq!(program.text, macros);
}

#[test]
fn a_kernel_of_another_name_can_be_meant() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.cu");
    std::fs::write(
        &file,
        "__global__ void mine(int a, int b, float *c, float *d) {}",
    )
    .unwrap();
    let given = Given {
        function: Some("mine".to_owned()),
        ..of_file(file)
    };
    let program = Program::new(&given, &kernel("saxpy", "saxpy")).unwrap();
    let source = source(&program, &program.text);
    assert_eq!(source.kernel.as_deref(), Some("mine"));
}

#[test]
fn commands_and_databases_say_how_a_file_is_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("src")).unwrap();
    let file = root.join("src/k.cu");
    std::fs::write(
        &file,
        "__global__ void saxpy(int a, int b, float *c, float *d) {}",
    )
    .unwrap();
    let kernel = kernel("saxpy", "saxpy");
    let command = "clang++ -DN=3 -Iinclude -O2 --cuda-gpu-arch=sm_90a -c src/k.cu -o k.o";
    let given = Given {
        command: Some(command.to_owned()),
        command_directory: Some(root.clone()),
        options: vec!["-DM=4".to_owned()],
        ..of_file(file.clone())
    };
    let program = Program::new(&given, &kernel).unwrap();
    assert_eq!(program.name, "src/k.cu");
    assert_eq!(program.how.directory, Some(root.display().to_string()));
    let words = program.how.options.join(" ");
    for word in [
        "-DN=3",
        "-Iinclude",
        "-DM=4",
        "-gencode=arch=compute_90a,code=sm_90a",
    ] {
        assert!(words.contains(word), "{words}");
    }
    // The command's own compiler comes first where it is clang.
    assert_eq!(program.ways()[0].compiler, Compiler::Clang);
    let entries = format!(
        r#"[{{"directory": "{0}", "command": "nvcc -DN=5 -c src/k.cu", "file": "src/k.cu"}},
            {{"directory": "{0}", "command": "nvcc -DN=6 -c src/k.cu", "file": "src/k.cu"}}]"#,
        root.display()
    );
    std::fs::write(root.join("compile_commands.json"), entries).unwrap();
    let given = Given {
        database: Some(root.clone()),
        ..of_file(file.clone())
    };
    let program = Program::new(&given, &kernel).unwrap();
    assert!(program.how.options.contains(&"-DN=5".to_owned()));
    assert!(
        program.notes[0].contains("2 commands"),
        "{:?}",
        program.notes
    );
    assert_eq!(program.ways()[0].compiler, Compiler::Nvrtc);
    let both = Given {
        command: Some(command.to_owned()),
        ..given
    };
    let error = Program::new(&both, &kernel).unwrap_err();
    assert!(matches!(error, ProgramError::Twice { .. }), "{error}");
    let strange = Given {
        command: Some("make all".to_owned()),
        ..of_file(file)
    };
    let error = Program::new(&strange, &kernel).unwrap_err();
    assert!(
        error.to_string().contains("no word of the command"),
        "{error}"
    );
}

#[test]
fn source_that_was_compiled_at_run_time_needs_no_file() {
    let program = Program::new(&Given::default(), &kernel("nvrtc", "blend_all")).unwrap();
    assert_eq!(program.function, "blend_all");
    assert_eq!(program.instances, ["blend_all<float>"]);
    assert_eq!(program.headers[0].0, "blend.h");
    assert!(program.how.options.contains(&"-DWEIGHT=0.25f".to_owned()));
    let ways = program.ways();
    assert_eq!(
        (ways[0].compiler, ways[0].device_part),
        (Compiler::Nvrtc, false)
    );
    let source = source(&program.compiled(ways[0].clone()), &program.text);
    assert_eq!(source.instances, ["blend_all<float>"]);
    assert_eq!(source.headers, program.headers);
    let prefix = Program::new(&Given::default(), &kernel("nvrtc", "prefix")).unwrap();
    assert!(prefix.instances.is_empty() && prefix.headers.is_empty());
    let none = Program::new(&Given::default(), &kernel("saxpy", "saxpy")).unwrap_err();
    assert!(matches!(none, ProgramError::NoSource { .. }), "{none}");
    let command = Given {
        command: Some("nvcc k.cu".to_owned()),
        ..Given::default()
    };
    let error = Program::new(&command, &kernel("nvrtc", "prefix")).unwrap_err();
    assert!(matches!(error, ProgramError::WithoutFile { .. }), "{error}");
}

#[test]
fn a_command_or_an_entry_for_another_file_is_told_with_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let file = root.join("k.cu");
    let text = "__global__ void saxpy(int a, int b, float *c, float *d) {}";
    std::fs::write(&file, text).unwrap();
    std::fs::write(root.join("other.cu"), "int main() {}").unwrap();
    let kernel = kernel("saxpy", "saxpy");
    let given = Given {
        command: Some("nvcc -c other.cu".to_owned()),
        command_directory: Some(root.clone()),
        ..of_file(file.clone())
    };
    let error = Program::new(&given, &kernel).unwrap_err().to_string();
    assert!(
        error.contains("other.cu") && error.contains("k.cu"),
        "{error}"
    );
    // Of the entries of a database that one is taken which compiles the file.
    let entry = |command: &str| {
        format!(r#"{{"directory": {root:?}, "command": "{command}", "file": "k.cu"}}"#)
    };
    let database = |entries: &[&str]| {
        let entries: Vec<String> = entries.iter().map(|command| entry(command)).collect();
        std::fs::write(
            root.join("compile_commands.json"),
            format!("[{}]", entries.join(",")),
        )
        .unwrap();
        let given = Given {
            database: Some(root.clone()),
            ..of_file(file.clone())
        };
        Program::new(&given, &kernel).unwrap()
    };
    let program = database(&["nvcc -DN=1 -c other.cu", "nvcc -DN=2 -c k.cu"]);
    assert!(program.how.options.contains(&"-DN=2".to_owned()));
    let program = database(&["nvcc -DN=1 -c other.cu"]);
    let told = program
        .notes
        .iter()
        .any(|note| note.contains("k.cu") && note.contains("compiles other.cu"));
    assert!(told, "{:?}", program.notes);
    // The same entry twice is one answer.
    let twice = database(&["nvcc -DN=1 -c k.cu", "nvcc -DN=1 -c k.cu"]);
    assert!(
        !twice.notes.iter().any(|note| note.contains("commands")),
        "{:?}",
        twice.notes
    );
}

#[test]
fn what_is_no_source_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let made = std::process::Command::new("mkfifo")
        .arg(place("pipe.cu"))
        .status();
    assert!(made.unwrap().success());
    let large = std::fs::File::create(place("large.cu")).unwrap();
    large.set_len(10 << 30).unwrap();
    std::fs::create_dir(place("folder.cu")).unwrap();
    let text = "__global__ void saxpy(int a, int b, float *c, float *d) {}";
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(place("wide.cu"), [&[0xff, 0xfe][..], &wide].concat()).unwrap();
    std::fs::write(place("binary.cu"), b"\x7fELF\x02\xff\xfe").unwrap();
    let kernel = kernel("saxpy", "saxpy");
    let database = place("k.cu");
    std::fs::write(&database, text).unwrap();
    for (file, said) in [
        (PathBuf::from("/dev/zero"), "MiB"),
        (place("pipe.cu"), "nobody writes to it"),
        (place("large.cu"), "8 MiB"),
        (place("folder.cu"), "folder"),
        (place("wide.cu"), "UTF-16"),
        (place("binary.cu"), "UTF-8"),
        (place("none.cu"), "No such file"),
    ] {
        let error = Program::new(&of_file(file.clone()), &kernel).unwrap_err();
        let error = error.to_string();
        let name = file.display().to_string();
        assert!(error.contains(&name) && error.contains(said), "{error}");
    }
    // Nor is a list of commands.
    for (list, said) in [
        ("/dev/zero", "MiB"),
        ("pipe.cu", "nobody"),
        ("large.cu", "512 MiB"),
    ] {
        let given = Given {
            database: Some(folder.path().join(list)),
            ..of_file(database.clone())
        };
        let error = Program::new(&given, &kernel).unwrap_err().to_string();
        assert!(error.contains(list) && error.contains(said), "{error}");
    }
}
