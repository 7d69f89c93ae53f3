//! Functions that every device has without a module defining them.

use super::call::CallSite;
use super::{Flow, Op, lanes};
use crate::block::Warp;
use crate::fault::FaultKind;
use crate::memory::window::{Window, shared_offset, shared_rank, window};
use crate::printf;

/// A function of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Builtin {
    /// `int vprintf(const char *format, void *arguments)`
    Vprintf,
    /// `void *malloc(size_t)`
    Malloc,
    /// `void free(void *)`
    Free,
    /// `void __assertfail(const char *message, const char *file, unsigned line, const char *function, size_t)`
    AssertFail,
}

impl Builtin {
    const NAMES: &[(&str, Self)] = &[
        ("vprintf", Self::Vprintf),
        ("malloc", Self::Malloc),
        ("free", Self::Free),
        ("__assertfail", Self::AssertFail),
    ];

    /// The function of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(n, _)| *n == name)
            .map(|&(_, b)| b)
    }
}

/// Most bytes that one `printf` of a warp prints: as much as the buffer of a GPU holds at first.
const PRINTED: usize = 1 << 20;
/// Most bytes of a string that is read from a kernel's memory.
const STRING: usize = 1 << 16;

/// Runs one for the lanes of `mask`, in order.
pub(super) fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    warp.outside += 1;
    let site = warp.data::<CallSite>(op);
    let argument = |warp: &Warp, i: usize, lane| {
        let formal = site.arguments.get(i).copied();
        formal.map_or(0, |formal| warp.argument(formal, lane))
    };
    let mut printed = Vec::new();
    let mut flow = Flow::Next;
    for lane in lanes(mask) {
        let a = |i| argument(warp, i, lane);
        let result = match op.imm {
            x if x == Builtin::Vprintf as u64 => {
                let (format, arguments) = (a(0), a(1));
                match print(warp, lane, format, arguments, &mut printed) {
                    Ok(count) => count,
                    Err(fault) => {
                        flow = warp.fault(lane, fault);
                        break;
                    }
                }
            }
            x if x == Builtin::Malloc as u64 => {
                let (size, block) = (a(0), warp.block().number);
                let memory = warp.view().memory();
                memory.heap_malloc(block, size).unwrap_or(0)
            }
            x if x == Builtin::Free as u64 => {
                let address = a(0);
                if warp.view().memory().heap_free(address).is_err() {
                    let what = format!("free of {address:#x}, which malloc did not give");
                    flow = warp.fault(lane, FaultKind::Invalid(what));
                    break;
                }
                0
            }
            _ => {
                let (message, file, line, function) = (a(0), a(1), a(2), a(3));
                let mut text = |address| {
                    let bytes = string(warp, lane, address).unwrap_or_default();
                    String::from_utf8_lossy(&bytes).into_owned()
                };
                let fault = FaultKind::Assert {
                    message: text(message),
                    file: text(file),
                    line: line as u32,
                    function: text(function),
                };
                flow = warp.fault(lane, fault);
                break;
            }
        };
        if let Some(&formal) = site.results.first() {
            warp.set_result(formal, lane, result);
        }
    }
    if !printed.is_empty() {
        warp.launch().print(&printed);
    }
    flow
}

/// Formats one call; the count of its arguments.
fn print(
    warp: &mut Warp,
    lane: usize,
    format: u64,
    arguments: u64,
    out: &mut Vec<u8>,
) -> Result<u64, FaultKind> {
    let format = string(warp, lane, format)?;
    // It costs its length, so that a limit of instructions is a limit of time.
    warp.steps += format.len() as u64 / 64;
    let mut offset = 0u64;
    let mut count = 0;
    for piece in printf::pieces(&format) {
        if out.len() > PRINTED {
            break;
        }
        let spec = match piece {
            printf::Piece::Text(text) => {
                out.extend_from_slice(text);
                continue;
            }
            printf::Piece::Spec(spec) => spec,
        };
        let mut next = |warp: &mut Warp, bytes: u64| {
            offset = offset.next_multiple_of(bytes);
            let mut value = [0u8; 8];
            let address = arguments.wrapping_add(offset);
            offset += bytes;
            count += 1;
            read(warp, lane, address, &mut value[..bytes as usize])?;
            Ok::<u64, FaultKind>(u64::from_le_bytes(value))
        };
        let mut star = |warp: &mut Warp, wanted: bool| match wanted {
            true => next(warp, 4).map(|v| Some(v as u32 as i32)),
            false => Ok(None),
        };
        let width = star(warp, spec.star_width)?;
        let precision = star(warp, spec.star_precision)?;
        let spec = spec.with(width, precision);
        let value = next(warp, spec.bytes())?;
        if spec.is_string() {
            let text = match value {
                0 => b"(null)".to_vec(),
                address => string(warp, lane, address)?,
            };
            warp.steps += text.len() as u64 / 64;
            spec.string(&text, out);
        } else {
            spec.number(value, out);
        }
    }
    Ok(count)
}

/// Reads a string that ends with a zero byte.
fn string(warp: &mut Warp, lane: usize, address: u64) -> Result<Vec<u8>, FaultKind> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while bytes.len() < STRING {
        read(
            warp,
            lane,
            address.wrapping_add(bytes.len() as u64),
            &mut byte,
        )?;
        if byte[0] == 0 {
            break;
        }
        bytes.push(byte[0]);
    }
    Ok(bytes)
}

/// Reads at a generic address.
fn read(warp: &mut Warp, lane: usize, address: u64, out: &mut [u8]) -> Result<(), FaultKind> {
    let offset = (address & 0xffff_ffff) as usize;
    let (space, start, offset, size) = match window(address) {
        Window::Global => {
            let pc = warp.pc as usize;
            if warp.view().read(pc, address, out) {
                return Ok(());
            }
            let nearby = warp.view().nearby(address);
            return Err(FaultKind::OutOfBounds {
                space: "global",
                address,
                len: out.len() as u32,
                write: false,
                nearby,
            });
        }
        Window::Local => ("local", warp.local(lane), offset, warp.local_size()),
        Window::Param => {
            let params = warp.params();
            ("param", params.as_ptr().cast_mut(), offset, params.len())
        }
        Window::Shared => {
            let block = warp.block();
            let rank = shared_rank(address as u32).unwrap_or(block.rank);
            let (start, len) = match block.peer(rank) {
                Some(peer) => peer.shared(),
                None => (std::ptr::null_mut(), 0),
            };
            ("shared", start, shared_offset(address as u32) as usize, len)
        }
    };
    if offset + out.len() > size {
        return Err(FaultKind::OutOfBounds {
            space,
            address: offset as u64,
            len: out.len() as u32,
            write: false,
            nearby: Some(format!("{size} bytes")),
        });
    }
    // SAFETY: checked against the size of the memory.
    unsafe { std::ptr::copy_nonoverlapping(start.add(offset), out.as_mut_ptr(), out.len()) };
    Ok(())
}
