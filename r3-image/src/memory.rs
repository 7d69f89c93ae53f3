//! Images in the memory of a process: out of it, as an application handed them to the driver, and
//! back, as the driver takes them.
//!
//! An application passes `cuModuleLoadData`, `cuLibraryLoadData` and their kin a bare pointer. What
//! it points to says how long it is, and the driver trusts that; so does this module.

use std::ffi::c_void;

use crate::fatbin::{CONTAINER_HEADER, CONTAINER_MAGIC, WRAPPER_MAGIC};
use crate::image::{Image, ImageKind};
use crate::ptx;

/// Why an image could not be copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The pointer is null.
    #[error("the image pointer is null")]
    Null,
    /// The bytes are none of the known kinds, so their length is not known.
    #[error("the image begins with {0:#010x}: neither fatbin, ELF, archive nor PTX text")]
    Unknown(u32),
    /// A header holds a value that cannot be right.
    #[error("{what} is {value:#x}, which cannot be right")]
    BadHeader {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// The image is longer than the caller allows.
    #[error("the image is longer than {limit} bytes")]
    TooLong {
        /// The caller's limit.
        limit: usize,
    },
}

/// `__fatBinC_Wrapper_t`: what programs register with the CUDA runtime.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    /// The container; with version 2, the one that the device linker made.
    data: *const c_void,
    /// Version 2: null-terminated list of the containers that were linked.
    list: *const *const c_void,
}

/// No program links more objects than this.
const MAX_LIST: usize = 1 << 20;

/// Copies the image at `pointer`, reading only as far as its headers say, and at most `limit`
/// bytes.
///
/// - a fatbin wrapper, version 1 or 2: its containers, one after the other; with version 2 the
///   linked one first, then those from which it was linked;
/// - a fatbin container: that container;
/// - an ELF file: up to the end of its last section, segment or header table;
/// - an `ar` archive (`!<arch>`): its members; the kind is [`ImageKind::Unknown`];
/// - PTX text: up to its NUL, which is not copied.
///
/// # Safety
///
/// `pointer` is null, or points to one of the above, complete and readable, which nobody writes to
/// during the call. Anything else may be read out of bounds, by this function as by the driver.
pub unsafe fn copy_image(
    pointer: *const c_void,
    limit: usize,
) -> Result<(ImageKind, Vec<u8>), ImageError> {
    if pointer.is_null() {
        return Err(ImageError::Null);
    }
    let memory = Memory {
        start: pointer.cast(),
        limit,
    };
    // SAFETY: passed on to the caller. Texts can be shorter than a magic number, so bytes are only
    // looked at up to the first NUL.
    let head = unsafe { memory.head() };
    let magic = u32::from_le_bytes(head);
    // SAFETY: the caller's promise, for each kind.
    unsafe {
        match magic {
            WRAPPER_MAGIC => copy_wrapper(memory),
            CONTAINER_MAGIC => {
                let len = memory.container_len()?;
                Ok((ImageKind::Fatbin, memory.copy(len)?))
            }
            _ if head == *b"\x7fELF" => {
                let bytes = memory.copy(memory.elf_len()?)?;
                Ok((ImageKind::of(&bytes), bytes))
            }
            _ if head == *b"!<ar" => {
                let len = memory.archive_len()?;
                Ok((ImageKind::Unknown, memory.copy(len)?))
            }
            _ => {
                let text = memory.text(magic)?;
                if ptx::looks_like_ptx(&text) {
                    Ok((ImageKind::Ptx, text))
                } else {
                    Err(ImageError::Unknown(magic))
                }
            }
        }
    }
}

/// Where the content of the image at `pointer` lies: for a fatbin wrapper its (first) container, else
/// the image itself.
///
/// # Safety
///
/// As for [`copy_image`].
pub unsafe fn content_of(pointer: *const c_void) -> *const c_void {
    if pointer.is_null() {
        return pointer;
    }
    let memory = Memory {
        start: pointer.cast(),
        limit: usize::MAX,
    };
    // SAFETY: passed on to the caller.
    if u32::from_le_bytes(unsafe { memory.head() }) != WRAPPER_MAGIC {
        return pointer;
    }
    // SAFETY: the caller's promise: it is a complete wrapper.
    let data = unsafe { pointer.cast::<Wrapper>().read_unaligned() }.data;
    if data.is_null() { pointer } else { data }
}

/// # Safety
///
/// `memory` starts with a complete wrapper.
unsafe fn copy_wrapper(memory: Memory) -> Result<(ImageKind, Vec<u8>), ImageError> {
    // SAFETY: the caller's promise.
    let wrapper = unsafe { memory.start.cast::<Wrapper>().read_unaligned() };
    if !matches!(wrapper.version, 1 | 2) {
        return Err(ImageError::BadHeader {
            what: "fatbin wrapper version",
            value: wrapper.version.into(),
        });
    }
    let mut containers = vec![wrapper.data];
    if wrapper.version == 2 && !wrapper.list.is_null() {
        for index in 0..MAX_LIST {
            // SAFETY: the list ends with a null, which was not met yet.
            let item = unsafe { wrapper.list.add(index).read_unaligned() };
            if item.is_null() {
                break;
            }
            if !containers.contains(&item) || containers.len() > 64 {
                containers.push(item);
            }
        }
    }
    let mut bytes = Vec::new();
    for pointer in containers.into_iter().filter(|pointer| !pointer.is_null()) {
        let part = Memory {
            start: pointer.cast(),
            limit: memory.limit.saturating_sub(bytes.len()),
        };
        // SAFETY: the wrapper names complete containers.
        unsafe {
            let magic = u32::from_le_bytes(part.head());
            if magic != CONTAINER_MAGIC {
                return Err(ImageError::BadHeader {
                    what: "magic number of a wrapped fatbin container",
                    value: magic.into(),
                });
            }
            let len = part.container_len()?;
            bytes.extend_from_slice(&part.copy(len).map_err(|_| ImageError::TooLong {
                limit: memory.limit,
            })?);
        }
        // Containers are aligned to 8 bytes in a file; keep it so.
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    if bytes.is_empty() {
        return Err(ImageError::Null);
    }
    Ok((ImageKind::Fatbin, bytes))
}

/// Memory of unknown length, read under a limit. All reads are the caller's promise that the
/// bytes are there.
#[derive(Clone, Copy)]
struct Memory {
    start: *const u8,
    limit: usize,
}

impl Memory {
    /// The first four bytes; zeros behind a NUL.
    unsafe fn head(self) -> [u8; 4] {
        let mut head = [0; 4];
        for (at, byte) in head.iter_mut().enumerate() {
            // SAFETY: no byte before this one is a NUL, so neither text nor binary ended.
            *byte = unsafe { self.start.add(at).read() };
            if *byte == 0 {
                break;
            }
        }
        head
    }

    unsafe fn array<const N: usize>(self, at: usize) -> Result<[u8; N], ImageError> {
        if at.checked_add(N).is_none_or(|end| end > self.limit) {
            return Err(ImageError::TooLong { limit: self.limit });
        }
        // SAFETY: inside the limit; the caller promises that the bytes are there.
        Ok(unsafe { self.start.add(at).cast::<[u8; N]>().read() })
    }

    unsafe fn u16(self, at: usize) -> Result<u16, ImageError> {
        // SAFETY: passed on.
        Ok(u16::from_le_bytes(unsafe { self.array(at)? }))
    }

    unsafe fn u32(self, at: usize) -> Result<u32, ImageError> {
        // SAFETY: passed on.
        Ok(u32::from_le_bytes(unsafe { self.array(at)? }))
    }

    unsafe fn u64(self, at: usize) -> Result<u64, ImageError> {
        // SAFETY: passed on.
        Ok(u64::from_le_bytes(unsafe { self.array(at)? }))
    }

    unsafe fn copy(self, len: usize) -> Result<Vec<u8>, ImageError> {
        if len > self.limit {
            return Err(ImageError::TooLong { limit: self.limit });
        }
        // SAFETY: inside the limit; the caller promises that the bytes are there.
        Ok(unsafe { std::slice::from_raw_parts(self.start, len) }.to_vec())
    }

    /// Length of the container at the start.
    unsafe fn container_len(self) -> Result<usize, ImageError> {
        // SAFETY: passed on.
        let (header, body) = unsafe { (self.u16(6)?, self.u64(8)?) };
        if usize::from(header) < CONTAINER_HEADER {
            let what = "container header length";
            return Err(ImageError::BadHeader {
                what,
                value: header.into(),
            });
        }
        body.checked_add(header.into())
            .and_then(|len| usize::try_from(len).ok())
            .ok_or(ImageError::BadHeader {
                what: "container length",
                value: body,
            })
    }

    /// Length of the 64-bit ELF file at the start: the furthest end of anything it names.
    unsafe fn elf_len(self) -> Result<usize, ImageError> {
        const SHT_NOBITS: u32 = 8;
        const PN_XNUM: u16 = 0xFFFF;
        let bad = |what, value| ImageError::BadHeader { what, value };
        // SAFETY: an ELF header, and the tables that it names, are the caller's promise.
        unsafe {
            let [class] = self.array(4)?;
            if class != 2 {
                return Err(bad("ELF class", class.into()));
            }
            let (phoff, shoff) = (self.u64(32)?, self.u64(40)?);
            let (phentsize, mut phnum) = (self.u16(54)?, u64::from(self.u16(56)?));
            let (shentsize, mut shnum) = (self.u16(58)?, u64::from(self.u16(60)?));
            let mut end = 64;
            let at = |table: u64, size: u16, index: u64, field: u64| {
                index
                    .checked_mul(size.into())
                    .and_then(|skip| table.checked_add(skip)?.checked_add(field))
                    .and_then(|at| usize::try_from(at).ok())
                    .ok_or(bad("ELF table offset", table))
            };
            if shoff != 0 {
                if shentsize < 64 {
                    return Err(bad("ELF section header length", shentsize.into()));
                }
                if shnum == 0 {
                    shnum = self.u64(at(shoff, shentsize, 0, 32)?)?;
                }
                if phnum == u64::from(PN_XNUM) {
                    phnum = self.u32(at(shoff, shentsize, 0, 44)?)?.into();
                }
                end = end.max(at(shoff, shentsize, shnum, 0)?);
                if end > self.limit {
                    return Err(ImageError::TooLong { limit: self.limit });
                }
                for index in 0..shnum {
                    if self.u32(at(shoff, shentsize, index, 4)?)? != SHT_NOBITS {
                        let offset = self.u64(at(shoff, shentsize, index, 24)?)?;
                        let size = self.u64(at(shoff, shentsize, index, 32)?)?;
                        end = end.max(at(offset, 1, size, 0)?);
                    }
                }
            }
            if phoff != 0 && phnum != 0 {
                if phentsize < 56 {
                    return Err(bad("ELF program header length", phentsize.into()));
                }
                end = end.max(at(phoff, phentsize, phnum, 0)?);
                if end > self.limit {
                    return Err(ImageError::TooLong { limit: self.limit });
                }
                for index in 0..phnum {
                    let offset = self.u64(at(phoff, phentsize, index, 8)?)?;
                    let size = self.u64(at(phoff, phentsize, index, 32)?)?;
                    end = end.max(at(offset, 1, size, 0)?);
                }
            }
            Ok(end)
        }
    }

    /// Length of the `ar` archive at the start: its members, up to what is no member header.
    unsafe fn archive_len(self) -> Result<usize, ImageError> {
        // SAFETY: passed on.
        unsafe {
            if self.array(0)? != *b"!<arch>\n" {
                let value = u64::from_le_bytes(self.array(0)?);
                return Err(ImageError::BadHeader {
                    what: "archive magic",
                    value,
                });
            }
            let mut end = 8usize;
            while let Ok(header) = self.array::<60>(end) {
                let [.., b'`', b'\n'] = header else { break };
                let digits = header.get(48..58).unwrap_or_default();
                let size = std::str::from_utf8(digits)
                    .ok()
                    .and_then(|s| s.trim().parse().ok());
                let Some(size) = size else { break };
                let next = end.checked_add(60).and_then(|at| at.checked_add(size));
                match next.and_then(|at| at.checked_next_multiple_of(2)) {
                    Some(next) => end = next,
                    None => break,
                }
            }
            Ok(end)
        }
    }

    /// Text up to its NUL. Bytes that no text has end it early.
    unsafe fn text(self, magic: u32) -> Result<Vec<u8>, ImageError> {
        let mut len = 0;
        while len < self.limit {
            // SAFETY: no byte before this one is a NUL.
            match unsafe { self.start.add(len).read() } {
                // SAFETY: these bytes were all read.
                0 => return unsafe { self.copy(len) },
                1..=8 | 14..=31 | 127 => return Err(ImageError::Unknown(magic)),
                _ => len += 1,
            }
        }
        Err(ImageError::TooLong { limit: self.limit })
    }
}

/// An image laid out as the driver takes it: PTX with its NUL, several containers behind a wrapper
/// of version 2, everything else as it is.
pub struct Loadable {
    pointer: *const c_void,
    // The buffers to which `pointer` leads.
    _bytes: Vec<u64>,
    _list: Vec<*const c_void>,
    _wrapper: Option<Box<Wrapper>>,
}

// SAFETY: the pointers lead into buffers that this value owns and never changes.
unsafe impl Send for Loadable {}
// SAFETY: as above; shared access only reads the pointer.
unsafe impl Sync for Loadable {}

impl Loadable {
    /// Lays out an image.
    pub fn new(image: &Image) -> Loadable {
        let bytes = image.bytes();
        // Words, so that containers are aligned; at least one zero behind the text.
        let mut words = vec![0u64; bytes.len() / 8 + 1];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut buffer = [0; 8];
            if let Some(start) = buffer.get_mut(..chunk.len()) {
                start.copy_from_slice(chunk);
            }
            *word = u64::from_ne_bytes(buffer);
        }
        let start: *const u8 = words.as_ptr().cast();
        let mut pointer: *const c_void = start.cast();
        let mut list = Vec::new();
        let mut wrapper = None;
        if let [first, rest @ ..] = image.containers()
            && !rest.is_empty()
        {
            // SAFETY: containers are ranges of the bytes.
            let at = |range: &std::ops::Range<usize>| unsafe { start.add(range.start).cast() };
            list.extend(rest.iter().map(at));
            list.push(std::ptr::null());
            let boxed = wrapper.insert(Box::new(Wrapper {
                magic: WRAPPER_MAGIC,
                version: 2,
                data: at(first),
                list: list.as_ptr(),
            }));
            pointer = (&raw const **boxed).cast();
        }
        Loadable {
            pointer,
            _bytes: words,
            _list: list,
            _wrapper: wrapper,
        }
    }

    /// What to pass to `cuModuleLoadData` or `cuLibraryLoadData`. Valid as long as `self`.
    pub fn as_ptr(&self) -> *const c_void {
        self.pointer
    }
}
