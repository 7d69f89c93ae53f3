//! `extract`: code, source and memory into files.

use std::ops::Range;
use std::path::{Path, PathBuf};

use r3_archive::model::{AttachedForm, KernelId, LaunchRecord, ModuleId};
use r3_archive::{Archive, ReadError};
use r3_image::{CodeForm, Image, ImageKind};

use super::output::{Output, bytes, complain};
use super::private_file::PrivateFile;
use super::run::file_name;
use super::select::{self, Select};
use super::{Failure, OK};
use crate::compare::buffer_names;

/// Write code, sources and memory to files.
///
/// Without --code, --source or --memory, all code and sources of the selected launches' kernels
/// are written.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    #[command(flatten)]
    select: Select,

    /// Folder for the files; it is made when it is not there. Files in it are overwritten.
    #[arg(long, short, value_name = "FOLDER")]
    out: PathBuf,

    /// Device code: the image as it was loaded, each PTX and cubin in it, and what was attached.
    #[arg(long)]
    code: bool,

    /// Sources that were compiled at run time.
    #[arg(long)]
    source: bool,

    /// Memory of the selected launches, before and after.
    #[arg(long)]
    memory: bool,

    /// With --memory: only this buffer, e.g. `arg0` or `alloc 3`.
    #[arg(long, value_name = "NAME", requires = "memory")]
    buffer: Option<String>,

    /// With --memory: only these bytes of each buffer, e.g. `0x100..0x200`.
    #[arg(long, value_name = "FROM..TO", requires = "memory", value_parser = parse_range)]
    range: Option<(u64, u64)>,
}

/// How much memory is held at a time.
const PART: u64 = 16 << 20;

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    text.split_once("..")
        .and_then(|(from, to)| Some((number(from)?, number(to)?)))
        .filter(|(from, to)| from < to)
        .ok_or_else(|| "expected FROM..TO, e.g. 0..4096 or 0x100..0x200".to_owned())
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let archive = select::open(&args.file)?;
    let launches = select::launches(&archive, &args.select)?;
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::Message(format!("cannot make {}: {error}", args.out.display()))
    })?;
    let neither = !args.code && !args.source && !args.memory;
    let mut extraction = Extraction {
        archive: &archive,
        folder: &args.out,
        out,
    };
    if args.code || args.source || neither {
        let everything = args.select.launch.is_none() && args.select.kernel.is_empty();
        for module in modules(&archive, &launches, everything) {
            if args.code || neither {
                extraction.code(module)?;
            }
            if args.source || neither {
                extraction.source(module)?;
            }
        }
        if args.code || neither {
            extraction.attached(|kernel| {
                everything || launches.iter().any(|launch| launch.kernel == kernel)
            })?;
        }
    }
    if args.memory {
        for launch in &launches {
            extraction.memory(launch, args)?;
        }
    }
    Ok(OK)
}

/// The modules of the launches' kernels, or all.
fn modules(archive: &Archive, launches: &[&LaunchRecord], everything: bool) -> Vec<ModuleId> {
    if everything {
        return archive.modules().iter().map(|module| module.id).collect();
    }
    let mut modules: Vec<ModuleId> = launches
        .iter()
        .filter_map(|launch| archive.kernel(launch.kernel)?.module)
        .collect();
    modules.sort_unstable();
    modules.dedup();
    modules
}

struct Extraction<'e> {
    archive: &'e Archive,
    folder: &'e Path,
    out: &'e mut Output,
}

impl Extraction<'_> {
    fn write(&mut self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let mut file = PrivateFile::create(&path)?;
        file.write(content)?;
        file.finish()?;
        self.out.line(format!(
            "{}: {}",
            path.display(),
            bytes(content.len() as u64)
        ))
    }

    /// The image, and what is in it.
    fn code(&mut self, id: ModuleId) -> Result<(), Failure> {
        let Some(record) = self.archive.module(id) else {
            return Ok(());
        };
        let image = Image::from_vec(
            self.archive
                .read_blob(&record.image)
                .map_err(Failure::new)?,
        );
        let extension = match image.kind() {
            ImageKind::Fatbin => "fatbin",
            ImageKind::Cubin => "cubin",
            ImageKind::Ptx => "ptx",
            ImageKind::Unknown => "bin",
        };
        self.write(&format!("module{id}.{extension}"), image.bytes())?;
        if image.kind() != ImageKind::Fatbin {
            return Ok(());
        }
        for (index, entry) in image.entries().iter().enumerate() {
            let suffix = entry.arch_suffix.map(String::from).unwrap_or_default();
            let name = match entry.form {
                CodeForm::Ptx => format!("compute_{}{suffix}.ptx", entry.sm),
                CodeForm::Cubin => format!("sm_{}{suffix}.cubin", entry.sm),
                CodeForm::LtoIr => format!("lto_{}{suffix}.ltoir", entry.sm),
                CodeForm::Other(kind) => format!("kind{kind}.bin"),
            };
            match entry.payload() {
                Ok(payload) => self.write(&format!("module{id}-{index}.{name}"), &payload)?,
                Err(error) => {
                    complain(&format!(
                        "module {id}, entry {index}: {error}; its stored bytes are written"
                    ));
                    self.write(&format!("module{id}-{index}.{name}.stored"), entry.stored())?;
                }
            }
        }
        Ok(())
    }

    /// What was attached to some kernels.
    fn attached(&mut self, selected: impl Fn(KernelId) -> bool) -> Result<(), Failure> {
        let archive = self.archive;
        for attachment in archive.attachments() {
            let mut kernels = attachment.kernels.iter();
            if !kernels.any(|entry| selected(entry.kernel)) {
                continue;
            }
            for form in &attachment.forms {
                let extension = match form.form {
                    AttachedForm::Ptx => "ptx",
                    AttachedForm::Bitcode => "bc",
                    AttachedForm::Llvm => "ll",
                    AttachedForm::LtoIr => "ltoir",
                    AttachedForm::Source => "cu",
                };
                let code = archive.read_blob(&form.code).map_err(Failure::new)?;
                self.write(&format!("attached{}.{extension}", attachment.id), &code)?;
            }
        }
        Ok(())
    }

    /// The source, its headers, and how it was compiled.
    fn source(&mut self, id: ModuleId) -> Result<(), Failure> {
        let source = self
            .archive
            .module(id)
            .and_then(|module| self.archive.source(module.source?));
        let Some(source) = source else { return Ok(()) };
        let text = self.archive.read_blob(&source.text).map_err(Failure::new)?;
        self.write(&format!("module{id}.cu"), &text)?;
        let options: String = source
            .options
            .iter()
            .map(|option| format!("{option}\n"))
            .collect();
        self.write(&format!("module{id}.options"), options.as_bytes())?;
        for (index, (name, header)) in source.headers.iter().enumerate() {
            let header = self.archive.read_blob(header).map_err(Failure::new)?;
            // Names are paths of the captured program; only their last part is used.
            let last: String = name
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() || "_-.".contains(c) {
                        c
                    } else {
                        '_'
                    }
                })
                .collect();
            self.write(&format!("module{id}-header{index}-{last}"), &header)?;
        }
        Ok(())
    }

    /// Writes a range of memory, part by part.
    fn region(
        &mut self,
        name: &str,
        range: Range<u64>,
        read: impl Fn(Range<u64>) -> Result<Vec<u8>, ReadError>,
    ) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let mut file = PrivateFile::create(&path)?;
        let mut from = range.start;
        while from < range.end {
            let to = range.end.min(from + PART);
            let part = read(from..to).map_err(Failure::new)?;
            file.write(&part)?;
            from = to;
        }
        file.finish()?;
        self.out.line(format!(
            "{}: {}",
            path.display(),
            bytes(range.end - range.start)
        ))
    }

    fn memory(&mut self, head: &LaunchRecord, args: &Args) -> Result<(), Failure> {
        let launch = self.archive.load_launch(head.id).map_err(Failure::new)?;
        let Some(kernel) = self.archive.kernel(launch.kernel) else {
            return Ok(());
        };
        let names = buffer_names(kernel, &launch);
        let mut found = false;
        for (index, (region, name)) in launch.before.regions.iter().zip(&names).enumerate() {
            if args
                .buffer
                .as_ref()
                .is_some_and(|wanted| !name.all().any(|name| name == wanted))
            {
                continue;
            }
            found = true;
            let (from, to) = args.range.unwrap_or((0, region.len));
            let (from, to) = (from, to.min(region.len));
            if from >= to {
                complain(&format!(
                    "launch {}: {} has only {} bytes",
                    launch.id,
                    name.shown(),
                    region.len
                ));
                continue;
            }
            let stem = file_name(launch.id.0, name.shown());
            let changed = launch
                .after
                .changes
                .iter()
                .any(|c| c.region as usize == index);
            let archive = self.archive;
            self.region(&stem.replace(".bin", ".before.bin"), from..to, |range| {
                archive.region_before(&launch, index, range)
            })?;
            if changed {
                self.region(&stem.replace(".bin", ".after.bin"), from..to, |range| {
                    archive.region_after(&launch, index, range)
                })?;
            }
        }
        if let (false, Some(wanted)) = (found, &args.buffer) {
            let have: Vec<&str> = names.iter().map(|name| name.shown()).collect();
            return Err(Failure::Message(format!(
                "launch {} has no buffer {wanted}; it has {}",
                launch.id,
                have.join(", ")
            )));
        }
        Ok(())
    }
}
