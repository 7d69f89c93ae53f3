//! As much of an ELF file as says who can load it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The parts of an ELF header that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// 32 or 64.
    pub bits: u8,
    /// `EM_*`.
    pub machine: u16,
    /// `PT_INTERP`: the dynamic loader. Without one, nothing can be preloaded.
    pub loader: Option<String>,
}

const PT_INTERP: u32 = 3;
/// More program headers than any program has.
const MOST_HEADERS: u16 = 512;
/// `PATH_MAX`.
const MOST_PATH: u64 = 4096;

impl Elf {
    /// Reads a file; `Ok(None)` when it is no ELF file, or a damaged one.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let mut header = [0u8; 64];
        let len = read_at_most(&file, &mut header, 0)?;
        let header = header.get(..len).unwrap_or_default();
        if !header.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        Ok(parse(&file, header))
    }
}

/// Little-endian fields only: no big-endian system has CUDA.
fn parse(file: &File, header: &[u8]) -> Option<Elf> {
    let bits = match header.get(4)? {
        1 => 32,
        2 => 64,
        _ => return None,
    };
    if *header.get(5)? != 1 {
        return None;
    }
    let machine = u16::from_le_bytes(header.get(18..20)?.try_into().ok()?);
    let field16 = |at: usize| Some(u16::from_le_bytes(header.get(at..at + 2)?.try_into().ok()?));
    let (table, entry_len, count) = if bits == 64 {
        (u64_at(header, 32)?, field16(54)?, field16(56)?)
    } else {
        (u64::from(u32_at(header, 28)?), field16(42)?, field16(44)?)
    };
    let mut loader = None;
    for index in 0..count.min(MOST_HEADERS) {
        let mut entry = [0u8; 56];
        let at = table.checked_add(u64::from(index) * u64::from(entry_len))?;
        let len = read_at_most(file, &mut entry, at).ok()?;
        let entry = entry.get(..len)?;
        if u32_at(entry, 0)? != PT_INTERP {
            continue;
        }
        let (offset, size) = if bits == 64 {
            (u64_at(entry, 8)?, u64_at(entry, 32)?)
        } else {
            (u64::from(u32_at(entry, 4)?), u64::from(u32_at(entry, 16)?))
        };
        let mut path = vec![0; size.min(MOST_PATH) as usize];
        let len = read_at_most(file, &mut path, offset).ok()?;
        path.truncate(len);
        let text = path.split(|byte| *byte == 0).next().unwrap_or_default();
        loader = Some(String::from_utf8_lossy(text).into_owned());
    }
    Some(Elf {
        bits,
        machine,
        loader,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn read_at_most(file: &File, out: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An offset beyond what a file can have.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
