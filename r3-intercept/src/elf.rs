//! Loaded ELF objects: their functions, found without `dlsym`, which this library itself exports; what
//! lies where; who calls.
//!
//! Format: System V ABI, "Dynamic Section"; GNU symbol versions and `DT_GNU_HASH` as glibc reads them.

use std::ffi::{CStr, c_int, c_void};
use std::ops::ControlFlow;

use libc::{Elf64_Phdr, Elf64_Sym, dl_phdr_info};

const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_HASH: u64 = 4;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
/// The version is not the symbol's default one.
const VERSYM_HIDDEN: u16 = 0x8000;

/// Shows `visit` the loaded objects in the dynamic linker's order, until it breaks; what it broke with.
/// The linker holds its lock meanwhile. Allocates nothing. `visit` must not panic.
pub fn each_object<T, F>(visit: F) -> Option<T>
where
    F: FnMut(&dl_phdr_info) -> ControlFlow<T>,
{
    unsafe extern "C" fn call<T, F>(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int
    where
        F: FnMut(&dl_phdr_info) -> ControlFlow<T>,
    {
        // SAFETY: `data` is the pair below; `info` is valid during the call.
        let (info, (visit, broke)) = unsafe { (&*info, &mut *data.cast::<(F, Option<T>)>()) };
        match visit(info) {
            ControlFlow::Continue(()) => 0,
            ControlFlow::Break(value) => {
                *broke = Some(value);
                1
            }
        }
    }
    let mut state = (visit, None);
    // SAFETY: `call` is given the type that `state` has, and `state` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(call::<T, F>), (&raw mut state).cast()) };
    state.1
}

/// The program headers of a loaded object.
pub fn headers(info: &dl_phdr_info) -> &[Elf64_Phdr] {
    // SAFETY: the linker's own table, which is valid as long as `info` is.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) }
}

/// The object's path in the linker's list: empty for the main program, `None` where it has none.
fn path_of(info: &dl_phdr_info) -> Option<&CStr> {
    // SAFETY: the linker's object names are NUL-terminated.
    (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) })
}

/// The address of the default version of function `symbol` in the first loaded object that has it and
/// whose file name starts with one of `file_prefixes`; null when there is none.
pub fn find_function(file_prefixes: &[&str], symbol: &CStr) -> *mut c_void {
    each_object(|info| {
        let path = path_of(info).unwrap_or(c"").to_bytes();
        let file = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        let is_one = |prefix: &&str| file.starts_with(prefix.as_bytes());
        if !file_prefixes.iter().any(is_one) {
            return ControlFlow::Continue(());
        }
        // SAFETY: the object is loaded, so its dynamic section and tables are mapped.
        match unsafe { lookup(info, symbol) } {
            found if found.is_null() => ControlFlow::Continue(()),
            found => ControlFlow::Break(found),
        }
    })
    .unwrap_or(std::ptr::null_mut())
}

/// # Safety
/// `info` describes a loaded object.
unsafe fn lookup(info: &dl_phdr_info, symbol: &CStr) -> *mut c_void {
    // SAFETY: (whole body) addresses come from the object's own dynamic section, which the dynamic
    // linker has validated by using it; glibc has relocated the pointers in it to absolute ones.
    unsafe {
        let Some(dynamic) = headers(info).iter().find(|h| h.p_type == libc::PT_DYNAMIC) else {
            return std::ptr::null_mut();
        };
        let mut entry = (info.dlpi_addr + dynamic.p_vaddr) as *const [u64; 2];
        let (mut strings, mut symbols, mut versions) = (0u64, 0u64, 0u64);
        let (mut hash, mut gnu_hash) = (0u64, 0u64);
        while (*entry)[0] != 0 {
            let [tag, value] = *entry;
            match tag {
                DT_STRTAB => strings = value,
                DT_SYMTAB => symbols = value,
                DT_VERSYM => versions = value,
                DT_HASH => hash = value,
                DT_GNU_HASH => gnu_hash = value,
                _ => {}
            }
            entry = entry.add(1);
        }
        // Some linkers leave offsets where glibc leaves absolute addresses.
        let absolute = |value: u64| {
            if value != 0 && value < info.dlpi_addr {
                value + info.dlpi_addr
            } else {
                value
            }
        };
        let (strings, symbols, versions) =
            (absolute(strings), absolute(symbols), absolute(versions));
        if strings == 0 || symbols == 0 {
            return std::ptr::null_mut();
        }
        let count = if gnu_hash != 0 {
            gnu_hash_symbol_count(absolute(gnu_hash) as *const u32)
        } else if hash != 0 {
            *(absolute(hash) as *const u32).add(1) as usize
        } else {
            return std::ptr::null_mut();
        };
        for index in 0..count {
            let candidate = &*(symbols as *const Elf64_Sym).add(index);
            let is_function = candidate.st_info & 0xf == 2;
            if candidate.st_shndx == 0 || !is_function {
                continue;
            }
            if versions != 0 && *(versions as *const u16).add(index) & VERSYM_HIDDEN != 0 {
                continue;
            }
            let name =
                CStr::from_ptr((strings as *const libc::c_char).add(candidate.st_name as usize));
            if name == symbol {
                return (info.dlpi_addr + candidate.st_value) as *mut c_void;
            }
        }
        std::ptr::null_mut()
    }
}

/// `DT_GNU_HASH` has no count: the last symbol is the end of the longest chain.
///
/// # Safety
/// `table` is the mapped hash table of a loaded object.
unsafe fn gnu_hash_symbol_count(table: *const u32) -> usize {
    // SAFETY: layout: nbuckets, symoffset, bloom_size, bloom_shift, bloom[u64], buckets[u32], chain[u32].
    unsafe {
        let (buckets, first, bloom) = (
            *table as usize,
            *table.add(1) as usize,
            *table.add(2) as usize,
        );
        let bucket = table.add(4 + bloom * 2);
        let chain = bucket.add(buckets);
        let last = (0..buckets)
            .map(|i| *bucket.add(i) as usize)
            .max()
            .unwrap_or(0);
        if last < first {
            return first;
        }
        let mut index = last;
        while *chain.add(index - first) & 1 == 0 {
            index += 1;
        }
        index + 1
    }
}

/// A loaded program or library.
pub struct Object {
    /// Its file.
    pub path: String,
    /// First and last address of its mapped segments.
    pub range: (usize, usize),
    pub is_main_program: bool,
    /// The segment that was asked for is not writable.
    is_read_only: bool,
}

/// The loaded object that contains `address`.
pub fn object_of(address: *const c_void) -> Option<Object> {
    if address.is_null() {
        return None;
    }
    let address = address as usize;
    let mut object = each_object(|info| {
        let base = info.dlpi_addr as usize;
        let (mut low, mut high, mut flags) = (usize::MAX, 0, None);
        for header in headers(info).iter().filter(|h| h.p_type == libc::PT_LOAD) {
            let start = base.wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize);
            (low, high) = (low.min(start), high.max(end));
            if (start..end).contains(&address) {
                flags = Some(header.p_flags);
            }
        }
        let Some(flags) = flags else {
            return ControlFlow::Continue(());
        };
        let path = path_of(info).unwrap_or(c"").to_string_lossy().into_owned();
        ControlFlow::Break(Object {
            is_main_program: path.is_empty(),
            path,
            range: (low, high),
            is_read_only: flags & libc::PF_W == 0,
        })
    })?;
    if object.is_main_program {
        let path = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        object.path = path.to_string_lossy().into_owned();
    }
    Some(object)
}

/// Whether `address` lies in a loaded object.
pub fn is_in_object(address: *const c_void) -> bool {
    object_of(address).is_some()
}

/// The file of the loaded object that has `address` in data that nobody can write to.
pub fn read_only_object_of(address: *const c_void) -> Option<String> {
    object_of(address)
        .filter(|object| object.is_read_only)
        .map(|object| object.path)
}

/// The object that called into this library: the first one outside of it on the stack.
pub fn caller_of_this_library() -> Option<Object> {
    struct Walk {
        own: (usize, usize),
        caller: usize,
    }
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            visit: unsafe extern "C" fn(*mut c_void, *mut c_void) -> libc::c_int,
            data: *mut c_void,
        ) -> libc::c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }
    unsafe extern "C" fn visit(context: *mut c_void, data: *mut c_void) -> libc::c_int {
        const CONTINUE: libc::c_int = 0;
        const STOP: libc::c_int = 4;
        // SAFETY: `data` is the `Walk` below; `context` is the unwinder's.
        let (walk, ip) = unsafe { (&mut *data.cast::<Walk>(), _Unwind_GetIP(context)) };
        if ip == 0 || (walk.own.0..walk.own.1).contains(&ip) {
            return CONTINUE;
        }
        walk.caller = ip;
        STOP
    }
    let own = object_of(find_function as *const c_void)?.range;
    let mut walk = Walk { own, caller: 0 };
    // SAFETY: `visit` only reads the frame's address, and `walk` outlives the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    object_of(walk.caller as *const c_void)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_default_version_of_a_libc_function() {
        let found = find_function(&["libc.so.6"], c"getpid");
        assert_eq!(found as usize, libc::getpid as *const () as usize);
    }

    #[test]
    fn absent_symbols_and_objects_give_null() {
        assert!(find_function(&["libc.so.6"], c"no_such_function_here").is_null());
        assert!(find_function(&["libnothing.so"], c"getpid").is_null());
    }
}
