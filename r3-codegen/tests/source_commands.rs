//! Compile commands as build systems write them, and what of them decides device code.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use r3_codegen::recipe::Compiler;
use r3_codegen::source::command::{CommandError, Invocation, parse};
use r3_codegen::source::database::{DatabaseError, commands};
use r3_codegen::source::options::{Dialect, Options};
use r3_codegen::source::spell;

fn invocation(command: &str) -> Invocation {
    parse(command, Path::new("/build")).unwrap()
}

fn nvcc(command: &str) -> String {
    spell::nvcc(&invocation(command).options).join(" ")
}

fn clang(command: &str) -> String {
    spell::clang(&invocation(command).options).0.join(" ")
}

// CMake 3.28 with the Unix makefiles generator, CUDA language, Release.
#[test]
fn cmake_with_nvcc() {
    let command = "/usr/local/cuda/bin/nvcc -forward-unknown-to-host-compiler -ccbin=/usr/bin/g++-12 -DNDEBUG_CHECKS \
        -DVERSION=\\\"1.2\\\" --options-file CMakeFiles/app.dir/includes_CUDA.rsp -O3 -DNDEBUG -std=c++17 \
        \"--generate-code=arch=compute_90,code=[compute_90,sm_90]\" -Xcompiler=-fPIC -MD -MT CMakeFiles/app.dir/a.cu.o \
        -MF CMakeFiles/app.dir/a.cu.o.d -x cu -c /src/a.cu -o CMakeFiles/app.dir/a.cu.o";
    let folder = tempfile::tempdir().unwrap();
    let rsp = folder.path().join("CMakeFiles/app.dir");
    std::fs::create_dir_all(&rsp).unwrap();
    let text = "-I/src/include -isystem \"/usr/local/with space/include\" -isystem=/opt/x";
    std::fs::write(rsp.join("includes_CUDA.rsp"), text).unwrap();
    let found = parse(command, folder.path()).unwrap();
    assert_eq!(found.compiler, Compiler::Nvcc);
    assert_eq!(found.options.files, ["/src/a.cu"]);
    assert_eq!(found.options.architectures, ["90"]);
    assert_eq!(found.options.unknown, [""; 0]);
    assert_eq!(
        spell::nvcc(&found.options),
        [
            "-DNDEBUG_CHECKS",
            "-DVERSION=\"1.2\"",
            "-DNDEBUG",
            "-I/src/include",
            "-isystem",
            "/usr/local/with space/include",
            "-isystem",
            "/opt/x",
            "-std=c++17",
            "-O3",
            "-ccbin=/usr/bin/g++-12",
        ]
    );
}

#[test]
fn a_missing_file_of_options_is_named() {
    let error = parse(
        "nvcc --options-file missing.rsp -c a.cu",
        Path::new("/nonexistent"),
    );
    assert!(matches!(error, Err(CommandError::OptionFile { file, .. }) if file == "missing.rsp"));
}

// CMake with CMAKE_CUDA_COMPILER=clang++.
#[test]
fn cmake_with_clang() {
    let command = "/usr/bin/clang++-18 -DNDEBUG -I/src/include -isystem /usr/local/cuda/include -O3 -std=gnu++17 \
        --cuda-gpu-arch=sm_90 --cuda-path=/usr/local/cuda -Wno-unknown-cuda-version -fgpu-rdc -ffp-contract=off \
        -mllvm -amdgpu=0 -MD -MT a.o -MF a.o.d -x cuda -o a.o -c /src/a.cu";
    let found = invocation(command);
    assert_eq!(found.compiler, Compiler::Clang);
    assert_eq!(found.options.toolkit.as_deref(), Some("/usr/local/cuda"));
    assert_eq!(found.options.target(90), "sm_90");
    assert_eq!(
        clang(command),
        "-DNDEBUG -I/src/include -isystem /usr/local/cuda/include -fgpu-rdc -ffp-contract=off -std=gnu++17 -mllvm \
         -amdgpu=0"
    );
    // The same wishes for nvcc.
    assert_eq!(
        nvcc(command),
        "-DNDEBUG -I/src/include -isystem /usr/local/cuda/include -rdc=true -fmad=false -std=gnu++17 -O3"
    );
}

// QUDA's build: ccache in front, flags for the parts of nvcc, several architectures, definitions with values.
#[test]
fn a_lattice_code_built_for_two_architectures() {
    let command = "/usr/bin/ccache /opt/cuda/bin/nvcc -DMPI_COMMS -DMULTI_GPU -DQUDA_HETEROGENEOUS_ATOMIC \
        -DQUDA_PRECISION=14 -DGITVERSION=\\\"1.1.0-abc\\\" -Dquda_EXPORTS -I/quda/include -I/quda/lib/../include/targets/cuda \
        -I/quda/include/externals -isystem=/quda/build/_deps/eigen-src -O3 -w -ftz=true -prec-div=false -prec-sqrt=false \
        -Wno-deprecated-gpu-targets --expt-relaxed-constexpr -Xcompiler=-fPIC -Xcompiler -Wall,-Wextra,-DHOST_ONLY=2 \
        -Xptxas -dlcm=ca -Xcudafe --diag_suppress=607 -lineinfo -rdc=false \
        --generate-code=arch=compute_80,code=[sm_80] --generate-code=arch=compute_90a,code=[sm_90a] -std=c++17 \
        -x cu -dc /quda/lib/dslash_wilson.cu -o lib/dslash_wilson.cu.o";
    let found = invocation(command);
    assert_eq!(found.program, "/opt/cuda/bin/nvcc");
    assert_eq!(found.options.architectures, ["80", "90a"]);
    assert_eq!(found.options.target(90), "sm_90a");
    assert_eq!(found.options.target(86), "sm_86");
    assert_eq!(found.options.unknown, [""; 0]);
    assert_eq!(
        nvcc(command),
        "-DMPI_COMMS -DMULTI_GPU -DQUDA_HETEROGENEOUS_ATOMIC -DQUDA_PRECISION=14 -DGITVERSION=\"1.1.0-abc\" \
         -Dquda_EXPORTS -I/quda/include -I/quda/lib/../include/targets/cuda -I/quda/include/externals -isystem \
         /quda/build/_deps/eigen-src -DHOST_ONLY=2 --expt-relaxed-constexpr -rdc=true -lineinfo -ftz=true \
         -prec-div=false -prec-sqrt=false -std=c++17 -O3 -Xcudafe --diag_suppress=607"
    );
}

// What torch.utils.cpp_extension writes into build.ninja.
#[test]
fn a_pytorch_extension() {
    let command = "/usr/local/cuda/bin/nvcc --generate-dependencies-with-compile --dependency-output /b/k.cuda.o.d \
        -DTORCH_EXTENSION_NAME=ext -DTORCH_API_INCLUDE_EXTENSION_H '-DPYBIND11_COMPILER_TYPE=\"_gcc\"' \
        -D_GLIBCXX_USE_CXX11_ABI=1 -isystem /venv/torch/include -isystem /usr/local/cuda/include \
        -D__CUDA_NO_HALF_OPERATORS__ --expt-relaxed-constexpr -gencode=arch=compute_90,code=compute_90 \
        -gencode=arch=compute_90,code=sm_90 --compiler-options '-fPIC' -O3 --use_fast_math -std=c++17 \
        -c /src/k.cu -o k.cuda.o";
    assert_eq!(
        nvcc(command),
        "-DTORCH_EXTENSION_NAME=ext -DTORCH_API_INCLUDE_EXTENSION_H -DPYBIND11_COMPILER_TYPE=\"_gcc\" \
         -D_GLIBCXX_USE_CXX11_ABI=1 -isystem /venv/torch/include -isystem /usr/local/cuda/include \
         -D__CUDA_NO_HALF_OPERATORS__ -use_fast_math --expt-relaxed-constexpr -std=c++17 -O3"
    );
    assert_eq!(invocation(command).options.files, ["/src/k.cu"]);
    assert!(
        clang(command)
            .contains("-ffast-math -fgpu-approx-transcendentals -fgpu-flush-denormals-to-zero")
    );
}

// Kokkos' nvcc_wrapper looks like a host compiler and takes the options of both.
#[test]
fn kokkos_nvcc_wrapper() {
    let command = "/kokkos/bin/nvcc_wrapper -DKOKKOS_DEPENDENCE -I/kokkos/core/src -O2 -g -DNDEBUG -extended-lambda \
        -Wext-lambda-captures-this -arch=sm_90 -fopenmp -std=c++20 -o a.o -c /src/a.cpp";
    let found = invocation(command);
    assert_eq!(found.compiler, Compiler::Any);
    assert_eq!(found.options.target(90), "sm_90");
    assert_eq!(
        nvcc(command),
        "-DKOKKOS_DEPENDENCE -I/kokkos/core/src -DNDEBUG --extended-lambda -std=c++20 -O2"
    );
}

#[test]
fn launchers_variables_and_a_change_of_folder_stand_before_the_compiler() {
    for command in [
        "ccache nvcc -DA -c a.cu",
        "OMP_NUM_THREADS=1 nvcc -DA -c a.cu",
        "env CCACHE_DIR=/tmp/c sccache nvcc -DA -c a.cu",
        "cmake -E env --modify X=set:1 ccache nvcc -DA -c a.cu",
        "cd /build && nvcc -DA -c a.cu",
    ] {
        let found = invocation(command);
        assert_eq!(
            (found.program.as_str(), found.compiler),
            ("nvcc", Compiler::Nvcc)
        );
        assert_eq!(found.options.files, ["a.cu"], "{command}");
    }
    let found = invocation("cd sub/folder && nvcc -c a.cu");
    assert_eq!(found.directory, PathBuf::from("/build/sub/folder"));
    let found = invocation("mpicxx -DX -c a.cu");
    assert_eq!(found.compiler, Compiler::Any);
    for compiler in ["x86_64-linux-gnu-g++-13", "clang++-22", "c++", "CC"] {
        invocation(&format!("{compiler} -c a.cu"));
    }
}

#[test]
fn what_is_no_single_compile_command_is_refused() {
    let error = |command: &str| parse(command, Path::new("/")).unwrap_err();
    assert!(matches!(error("make -j"), CommandError::NoCompiler { .. }));
    assert!(matches!(error(""), CommandError::NoCompiler { .. }));
    assert!(matches!(error("nvcc -DA='x"), CommandError::Quotes { .. }));
    assert!(matches!(
        error("nvcc a.cu && ./a.out"),
        CommandError::Shell { .. }
    ));
}

#[test]
fn options_survive_the_neutral_spelling() {
    for command in [
        "nvcc -I a,b -isystem c -iquote q -DX=1 -UY -include f.h -std=c++17 -Ofast -use_fast_math -ftz=false -fmad=true \
         -maxrregcount 64 -dc -G -lineinfo -ccbin g++ -Xcudafe --promote_warnings -gencode arch=compute_90,code=sm_90 \
         -arch=sm_80 --default-stream per-thread",
        "clang++ -I a -mllvm -x=1 -Xclang -foo --sysroot=/s --cuda-path=/c --offload-arch=sm_75,sm_90a -O2",
    ] {
        let options = invocation(command).options;
        let again = Options::read(&spell::neutral(&options), Dialect::Nvcc);
        let without_files = Options {
            files: Vec::new(),
            ..options
        };
        // A quoted folder goes through the host compiler, and a single define stands for the stream's default.
        let mut again = again;
        again.host.clear();
        assert_eq!(again, without_files, "{command}");
    }
}

#[test]
fn what_nvrtc_was_given_it_is_given_again() {
    let words: Vec<String> = [
        "--gpu-architecture=compute_90",
        "--std=c++20",
        "-default-device",
        "--fmad=false",
        "-I/x",
        "-DA=1",
        "--device-int128",
        "--some-new-option=3",
        "-dlto",
    ]
    .map(str::to_owned)
    .to_vec();
    let options = Options::read(&words, Dialect::Nvrtc);
    assert_eq!(
        spell::nvrtc(&options, Path::new("/d")),
        [
            "-I/x",
            "-DA=1",
            "--fmad=false",
            "--std=c++20",
            "-default-device",
            "--device-int128",
            "--some-new-option=3",
        ]
    );
}

// What a stranger's archive has for options is given to NVRTC. NVRTC 13.0 writes to the file that each of these names.
#[test]
fn nvrtc_is_not_told_to_write_files() {
    let words: Vec<String> = [
        "--fdevice-time-trace=/home/user/notes",
        "--time=/home/user/notes",
        "-time=/home/user/notes",
        "--create-pch=/home/user/notes",
        "--pch",
        "--pch-dir=/home/user",
        "--use-pch=/tmp/theirs",
        "--some-new-option=/home/user/notes",
        "--fmad=false",
    ]
    .map(str::to_owned)
    .to_vec();
    let options = Options::read(&words, Dialect::Nvrtc);
    assert_eq!(
        spell::nvrtc(&options, Path::new("/d")),
        ["--fmad=false"],
        "{options:?}"
    );
    assert_eq!(options.unknown, ["--some-new-option=/home/user/notes"]);
}

#[test]
fn a_database_gives_all_commands_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("src")).unwrap();
    std::fs::write(root.join("src/a.cu"), "").unwrap();
    let database = serde_json::json!([
        {"directory": root, "file": "src/a.cu", "command": "nvcc -DFIRST -c src/a.cu"},
        {"directory": root.join("build"), "file": "../src/a.cu", "arguments": ["nvcc", "-DSECOND", "-c", "../src/a.cu"],
         "output": "a.o"},
        {"directory": root, "file": "src/b.cu", "command": "nvcc -c src/b.cu"},
        {"directory": root, "file": "other/a.cu", "command": "nvcc -c other/a.cu"},
    ]);
    let path = root.join("compile_commands.json");
    std::fs::write(&path, database.to_string()).unwrap();
    let file = root.join("src/../src/a.cu");
    // The build folder stands for the database in it.
    for database in [path.as_path(), root] {
        let found = commands(database, &file).unwrap();
        let defines: Vec<_> = found
            .iter()
            .map(|entry| {
                let found = r3_codegen::source::command::parse_entry(entry).unwrap();
                spell::nvcc(&found.options).join(" ")
            })
            .collect();
        assert_eq!(defines, ["-DFIRST", "-DSECOND"]);
        assert_eq!(found[1].directory, root.join("build"));
    }
    let Err(DatabaseError::NoFile { alike, count, .. }) = commands(&path, &root.join("new/a.cu"))
    else {
        panic!("there is no such file");
    };
    assert_eq!((alike.len(), count), (3, 4));
    std::fs::write(&path, "[{").unwrap();
    assert!(matches!(
        commands(&path, &file),
        Err(DatabaseError::Read { .. })
    ));
}

#[test]
fn what_a_shell_would_do_is_refused_and_quoted_values_are_kept() {
    let folder = std::path::Path::new("/build");
    let parse = |text: &str| r3_codegen::source::command::parse(text, folder);
    for text in [
        "nvcc -c k.cu; touch x",
        "nvcc -c k.cu ;touch x",
        "nvcc $(cat flags) -c k.cu",
        "nvcc `cat flags` -c k.cu",
        "nvcc -c k.cu | tee log",
        "nvcc -c k.cu && touch x",
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(
            error.contains("the compiler's own command alone"),
            "{text}: {error}"
        );
    }
    for text in ["nvcc '-DEND=;' -c k.cu", "cd sub && nvcc -c k.cu"] {
        assert!(parse(text).is_ok(), "{text}");
    }
}

// One row for each way in which builds name their files, and whether the command is for /…/src/k.cu.
#[test]
fn a_command_is_for_the_files_that_it_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for inner in ["src", "build", "other"] {
        std::fs::create_dir(root.join(inner)).unwrap();
    }
    let file = root.join("src/k.cu");
    std::fs::write(&file, "__global__ void k() {}\n").unwrap();
    for (name, text) in [
        ("src/other.cu", "// other\n"),
        ("other/k.cu", "// another one of this name\n"),
        ("src/kernels.cuh", "// header\n"),
        ("build/flags.rsp", "-O3 -DA '-DTEXT=a b'"),
        ("build/whole.rsp", "-DA -c ../src/k.cu"),
        ("build/wrong.rsp", "-DA -c ../src/other.cu"),
        ("build/main.o", ""),
    ] {
        std::fs::write(root.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink(&file, root.join("link.cu")).unwrap();
    std::os::unix::fs::symlink(root.join("src"), root.join("linked")).unwrap();
    let build = root.join("build");
    let check = |command: &str, file: &Path| parse(command, &build).unwrap().check(file);
    let root = root.display();

    for command in [
        // Paths.
        "nvcc -c ../src/k.cu",
        "nvcc -c ./../src/./k.cu -o k.o",
        &format!("nvcc -c {root}/src/k.cu"),
        &format!("nvcc -c '{root}/src/k.cu'"),
        "nvcc -c ../link.cu",
        "nvcc -c ../linked/k.cu",
        "nvcc -c \\\n  ../src/k.cu",
        // Programs in front.
        "ccache nvcc -c ../src/k.cu",
        "sccache /usr/bin/clang++-22 --cuda-gpu-arch=sm_90 -xcuda -c ../src/k.cu",
        "mpicxx -x cuda -c ../src/k.cu",
        "nvcc_wrapper -c ../src/k.cu",
        "nice -n 10 nvcc -c ../src/k.cu",
        "cmake -E __run_co_compile --tidy=clang-tidy --source=../src/k.cu -- nvcc -c ../src/k.cu",
        "CCACHE_DIR=/x OMPI_CXX=nvcc_wrapper mpicxx -c ../src/k.cu",
        "env A=1 nvcc -c ../src/k.cu",
        // Folders.
        "cd ../src && nvcc -c k.cu",
        "cd .. && cd src && nvcc -c k.cu",
        &format!("cd {root} && nvcc -c src/k.cu"),
        // Files of options.
        "nvcc @whole.rsp",
        "nvcc --options-file whole.rsp",
        "nvcc -optf=flags.rsp,whole.rsp",
        "nvcc --options-file flags.rsp -c ../src/k.cu",
        // Options whose values are files, and no sources.
        "nvcc -include other.cu -MD -MF k.d -MT k.o -x cu -dc ../src/k.cu -o k.o",
        "nvcc -xcu -m64 -ok.o -Xcompiler -include,../src/other.cu -dc ../src/k.cu",
        "nvcc -dlink main.o -lcudart libx.so.3 ../src/k.cu",
        // Several at once.
        "nvcc -O3 ../src/other.cu ../src/k.cu main.o -o app",
        // Options alone are for any file.
        "nvcc -O3 -arch=sm_90 -I../include",
        "nvcc -O3 -x cu -",
        "nvcc -O3 main.o",
        "nvcc -O3 --some-new-option 3.5",
    ] {
        assert_eq!(check(command, &file), Ok(None), "{command}");
        let found = parse(command, &build).unwrap();
        let unknown = &found.options.unknown;
        assert!(
            unknown.iter().all(|one| one == "--some-new-option"),
            "{command}: {unknown:?}"
        );
    }

    for command in [
        "nvcc -c other.cu",
        "nvcc -c ../src/other.cu",
        "nvcc -c ../other/k.cu",
        "nvcc -c k.cu",
        "nvcc -x cu -c missing.cpp",
        "nvcc -dc ../src/other.cu main.o",
        "ccache nvcc -c ../src/other.cu",
        "cd ../src && nvcc -c other.cu",
        "cd ../other && nvcc -c k.cu",
        "nvcc @wrong.rsp",
        "nvcc -include ../src/k.cu -c ../src/other.cu",
        "nvcc -DK=../src/k.cu -o ../src/k.cu -c ../src/other.cu",
    ] {
        let error = check(command, &file).unwrap_err();
        assert!(
            matches!(error, CommandError::OtherFile { .. }),
            "{command}: {error}"
        );
        let text = error.to_string();
        let named = command
            .rsplit(' ')
            .find(|word| word.ends_with(".cu") || word.ends_with(".cpp"));
        let named = named.unwrap_or("../src/other.cu");
        assert!(text.contains(named) && text.contains("src/k.cu"), "{text}");
    }
    // Where the build runs it in the file's own folder, that is what is missing.
    let error = check("nvcc -c k.cu", &file).unwrap_err().to_string();
    assert!(error.contains(&format!("`cd {root}/src && …`")), "{error}");
    let error = check("nvcc -c src/k.cu", &file).unwrap_err().to_string();
    assert!(error.contains(&format!("`cd {root} && …`")), "{error}");

    // Headers have no command of their own; copies have that of what they are a copy of. Both are told.
    let header = file.with_file_name("kernels.cuh");
    let told = check("nvcc -c ../src/k.cu", &header).unwrap().unwrap();
    assert!(
        told.contains("../src/k.cu") && told.contains("kernels.cuh"),
        "{told}"
    );
    let copy = file.with_file_name("copy.cu");
    std::fs::copy(&file, &copy).unwrap();
    let told = check("nvcc -c ../src/k.cu", &copy).unwrap().unwrap();
    assert!(
        told.contains("../src/k.cu") && told.contains("copy.cu"),
        "{told}"
    );
}

#[test]
fn files_of_options_and_databases_without_end_are_refused() {
    for command in ["nvcc @/dev/zero -c k.cu", "nvcc -optf /dev/zero -c k.cu"] {
        let error = parse(command, Path::new("/")).unwrap_err().to_string();
        assert!(
            error.contains("/dev/zero") && error.contains("more than 1 MiB"),
            "{error}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("compile_commands.json");
    std::fs::File::create(&large)
        .unwrap()
        .set_len(10 << 30)
        .unwrap();
    let error = commands(&large, Path::new("k.cu")).unwrap_err().to_string();
    assert!(
        error.contains("compile_commands.json") && error.contains("512 MiB"),
        "{error}"
    );
}
