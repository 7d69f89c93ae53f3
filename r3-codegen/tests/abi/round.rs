//! PTX through IR and back, and what an assembler makes of both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use inkwell::context::Context;
use r3_codegen::assemble::find::PTXAS;
use r3_codegen::emit::{self, Options};
use r3_codegen::lift;
use r3_codegen::passes;
use r3_codegen::recipe::{Pipeline, Preset};
use r3_image::{Image, KernelInfo};

/// A way from IR to PTX.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub preset: Option<Preset>,
    pub level: u8,
    pub keep_calls: bool,
}

pub const PLAIN: Way = Way {
    preset: None,
    level: 0,
    keep_calls: true,
};

pub const BEST: Way = Way {
    preset: Some(Preset::O3),
    level: 3,
    keep_calls: false,
};

/// PTX of the lifted module.
pub fn round(
    text: &str,
    way: Way,
    kernel: Option<&str>,
    options: &Options,
) -> Result<String, String> {
    let tree = r3_ptx::parse(text).map_err(|e| format!("parse: {e}"))?;
    let checked = r3_ptx::check(&tree).map_err(|e| format!("check: {e}"))?;
    let context = Context::create();
    let lifting = lift::Options {
        kernel: kernel.map(str::to_owned),
        keep_nounroll: true,
        keep_calls: way.keep_calls,
        ..lift::Options::default()
    };
    let lifted = lift::lift(&context, &checked, &lifting).map_err(|e| format!("lift: {e}"))?;
    if let Err(error) = lifted.module.verify() {
        return Err(format!("verify: {error}"));
    }
    if std::env::var_os("R3_ABI_SHOW").is_some() {
        eprintln!(
            "{}\n{:?}",
            lifted.module.print_to_string().to_string(),
            lifted.verbatim
        );
    }
    let cpu = checked.target.first().map_or("sm_90", |t| t);
    let version = passes::ptx_version_for(cpu, checked.version.max((7, 8)))
        .map_err(|e| format!("version: {e}"))?;
    let machine = passes::machine(cpu, version, way.level).map_err(|e| format!("machine: {e}"))?;
    emit::set_bounds(&lifted.module, &options.bounds);
    if let Some(preset) = way.preset {
        passes::run(&lifted.module, &Pipeline::Preset(preset), &machine)
            .map_err(|e| format!("passes: {e}"))?;
    }
    passes::fence_contraction(&lifted.module).map_err(|e| format!("fence: {e}"))?;
    let made = emit::emit(&lifted, &machine, &tree, &checked, options)
        .map_err(|e| format!("emit: {e}"))?;
    if !lifted.verbatim.is_empty() && std::env::var_os("R3_ABI_VERBATIM").is_some() {
        eprintln!("verbatim: {:?}", lifted.verbatim);
    }
    Ok(made)
}

/// The new text is sound PTX.
pub fn sound(text: &str) -> Result<(), String> {
    let tree = r3_ptx::parse(text).map_err(|e| format!("made, parse: {e}"))?;
    r3_ptx::check(&tree).map_err(|e| format!("made, check: {e}"))?;
    Ok(())
}

/// The assembler: what the set-up script fetched for this folder, or where the library looks.
pub fn ptxas() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let fetched = root.join(".tools/assembler/nvidia/cu13/bin/ptxas");
    match std::env::var_os("R3_PTXAS") {
        None if fetched.is_file() => Some(fetched),
        _ => PTXAS.find(),
    }
}

/// The assembler, or `None` where a test may do without. In CI it must be there.
pub fn needed_ptxas() -> Option<PathBuf> {
    let found = ptxas();
    let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(
        found.is_some() || !ci,
        "no ptxas; run scripts/setup.sh. Looked for {}",
        PTXAS.places()
    );
    if found.is_none() {
        eprintln!("not compared, for want of {}", PTXAS.places());
    }
    found
}

/// What a cubin says of its kernels.
pub fn kernels(ptxas: &Path, text: &str, folder: &Path, name: &str) -> Result<Kernels, String> {
    let source = folder.join(format!("{name}.ptx"));
    let made = folder.join(format!("{name}.cubin"));
    std::fs::write(&source, text).map_err(|e| e.to_string())?;
    let arch = text
        .lines()
        .find_map(|line| line.strip_prefix(".target "))
        .and_then(|rest| rest.split(',').next())
        .unwrap_or("sm_90");
    let run = |linked: bool| {
        let mut command = Command::new(ptxas);
        if !linked {
            command.arg("-c");
        }
        command
            .args(["-O1", &format!("-arch={}", arch.trim()), "-o"])
            .args([&made, &source])
            .output()
    };
    let mut output = run(true).map_err(|e| format!("{}: {e}", ptxas.display()))?;
    if !output.status.success()
        && String::from_utf8_lossy(&output.stderr).contains("Unresolved extern")
    {
        output = run(false).map_err(|e| format!("{}: {e}", ptxas.display()))?;
    }
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        let log: Vec<&str> = log.lines().take(4).collect();
        return Err(format!("ptxas: {}", log.join(" | ")));
    }
    let image = Image::from_vec(std::fs::read(&made).map_err(|e| e.to_string())?);
    let names = image.kernel_names();
    let kernels = names.iter().filter_map(|name| image.kernel(name));
    Ok(kernels.map(|k| (k.name.clone(), Facts::of(&k))).collect())
}

pub type Kernels = BTreeMap<String, Facts>;

/// What must be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub params: Vec<(u32, u32)>,
    pub params_known: bool,
    pub shared: Option<u32>,
    pub max_block: Option<[u32; 3]>,
    pub required_block: Option<[u32; 3]>,
    pub max_registers: Option<u32>,
    pub cluster: Option<[u32; 3]>,
    pub cluster_rank: Option<u32>,
    pub explicit_cluster: bool,
}

impl Facts {
    fn of(kernel: &KernelInfo) -> Self {
        Self {
            params: kernel.params.iter().map(|p| (p.offset, p.size)).collect(),
            params_known: kernel.params_known,
            shared: kernel.static_shared,
            max_block: kernel.max_block,
            required_block: kernel.required_block,
            max_registers: kernel.max_registers,
            cluster: kernel.cluster_dims,
            cluster_rank: kernel.max_cluster_rank,
            explicit_cluster: kernel.explicit_cluster,
        }
    }
}

/// Compares a module with what becomes of it. Returns how many kernels were equal, or what differs.
pub fn compare(ptxas: &Path, text: &str, name: &str, way: Way) -> Result<usize, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    // For debuggers an assembler does not optimise, and wants to be told so.
    let text = &*text.replace(", debug\n", "\n");
    let original =
        kernels(ptxas, text, folder.path(), "original").map_err(|e| format!("original: {e}"))?;
    let made = round(text, way, None, &Options::default()).map_err(|e| format!("{name}: {e}"))?;
    sound(&made).map_err(|e| format!("{name}: {e}"))?;
    same_signatures(text, &made).map_err(|e| format!("{name}: {e}"))?;
    let lifted = kernels(ptxas, &made, folder.path(), "lifted");
    if let (true, Some(folder)) = (
        lifted.as_ref() != Ok(&original),
        std::env::var_os("R3_ABI_KEEP"),
    ) {
        let folder = PathBuf::from(folder);
        _ = std::fs::write(folder.join(format!("{name}.ptx")), text);
        _ = std::fs::write(folder.join(format!("{name}.lifted.ptx")), &made);
    }
    let lifted = lifted.map_err(|e| format!("{name}: lifted: {e}"))?;
    let names = |k: &Kernels| k.keys().cloned().collect::<Vec<_>>();
    if names(&original) != names(&lifted) {
        return Err(format!(
            "{name}: kernels {:?} became {:?}",
            names(&original),
            names(&lifted)
        ));
    }
    for (kernel, facts) in &original {
        if lifted.get(kernel) != Some(facts) {
            return Err(format!(
                "{name}: {kernel}: {facts:?} became {:?}",
                lifted.get(kernel)
            ));
        }
    }
    Ok(original.len())
}

/// Functions and kernels that are still there take and give the same bytes with the same alignments.
pub fn same_signatures(original: &str, made: &str) -> Result<(), String> {
    let checked = |text: &str| {
        let tree = r3_ptx::parse(text).map_err(|e| e.to_string())?;
        r3_ptx::check(&tree).map_err(|e| e.to_string())
    };
    let (original, made) = (checked(original)?, checked(made)?);
    let layout = |list: &[r3_ptx::typed::Variable]| {
        let list = list.iter().map(|v| (v.size, v.align, v.ptr));
        list.collect::<Vec<_>>()
    };
    for function in &made.functions {
        let Some(source) = original.functions.iter().find(|f| f.name == function.name) else {
            continue;
        };
        let pairs = [
            (layout(&source.params), layout(&function.params)),
            (layout(&source.results), layout(&function.results)),
        ];
        for (before, after) in pairs {
            if before != after {
                return Err(format!("{}: {before:?} became {after:?}", function.name));
            }
        }
        if source.linkage != function.linkage || source.directives != function.directives {
            return Err(format!("{}: linkage or directives", function.name));
        }
    }
    Ok(())
}
