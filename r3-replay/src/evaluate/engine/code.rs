//! What a candidate's code brings along that the original has not: memory of its own, a heap, launches.
//!
//! Code that keeps something between two launches can do its work once and be timed doing nothing. So it may have no
//! memory that outlives a launch and that the original has not. New tables with initial values are common (compilers
//! make them from switches): these are allowed, are written anew before each run, and must hold the same bytes after it.
//! Constant memory counts as such a table: its addresses are generic ones, and stores through these may reach it.

use std::collections::BTreeSet;

use r3_image::{Image, KernelInfo, Space, Variable};

/// New variables of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Tables and constants, by name and length: must not change.
    pub tables: Vec<(String, u64)>,
    /// Variables that the original has as well.
    pub known: Vec<(String, u64)>,
    /// What code may not bring along, for people.
    pub refused: Option<String>,
}

impl Brought {
    /// What is written anew before each run, to be as it was when the code was loaded: tables, and variables that are not
    /// among those that were `recorded`, which are restored as memory is.
    pub fn renewed(&self, recorded: &[&str]) -> Vec<(String, u64)> {
        let known = self.known.iter();
        let known =
            known.filter(|(name, len)| *len <= MOST_TABLES && !recorded.contains(&name.as_str()));
        self.tables.iter().chain(known).cloned().collect()
    }
}

/// Most bytes of tables that are compared after a run.
const MOST_TABLES: u64 = 16 << 20;
/// Bytes of strings that code which prints or asserts may have without a name that can be looked up.
const MOST_STRINGS: u64 = 4 << 10;

/// What is known of the code that candidates stand for.
#[derive(Clone, Debug)]
pub struct Original {
    kernel: Option<KernelInfo>,
    variables: Vec<Variable>,
    unnamed: u64,
}

impl Original {
    /// Of a kernel, from the image that its module was loaded from.
    pub fn new(image: &Image, kernel: &str) -> Self {
        let variables = image.variables();
        // Its forms may differ: what the one has most of.
        let unnamed = image
            .entries()
            .iter()
            .filter_map(|entry| Some(unnamed(&entry.payload().ok()?, &variables)))
            .max();
        Self {
            kernel: image.kernel(kernel),
            unnamed: unnamed.unwrap_or(0),
            variables,
        }
    }
}

/// Looks into code that is to stand for the original. `entry` is its kernel; `idle` are variables that nothing in it writes.
pub fn brought(code: &[u8], entry: &str, original: &Original, idle: &[String]) -> Brought {
    let image = Image::parse(code);
    let (new, old) = (image.kernel(entry), original.kernel.as_ref());
    let mut brought = Brought::default();
    if let Some(new) = &new {
        if new.launches_kernels() && !old.is_some_and(|old| old.launches_kernels()) {
            brought.refused = Some("it launches kernels of its own".to_owned());
            return brought;
        }
        if new.uses_heap() && !old.is_some_and(|old| old.uses_heap()) {
            brought.refused = Some("it uses the device heap, which outlives a launch".to_owned());
            return brought;
        }
    }
    let recorded = &original.variables;
    let known = |name: &str| recorded.iter().find(|variable| variable.name == name);
    let variables = image.variables();
    let mut tables = 0u64;
    for variable in &variables {
        match known(&variable.name) {
            Some(old) if variable.size <= old.size || old.size == 0 => {
                brought.known.push((variable.name.clone(), variable.size));
            }
            _ if variable.space == Space::Constant => {
                tables = tables.saturating_add(variable.size);
                brought.tables.push((variable.name.clone(), variable.size));
            }
            Some(old) => {
                brought.refused = Some(format!(
                    "its variable {} has {} bytes, and the original's has {}",
                    variable.name, variable.size, old.size
                ));
                return brought;
            }
            None if variable.initialised && variable.space == Space::Global => {
                tables = tables.saturating_add(variable.size);
                brought.tables.push((variable.name.clone(), variable.size));
            }
            None if idle.contains(&variable.name) => {}
            None => {
                brought.refused = Some(format!(
                    "it has a variable of its own, {} ({} bytes), which outlives a launch",
                    variable.name, variable.size
                ));
                return brought;
            }
        }
    }
    if tables > MOST_TABLES {
        brought.refused = Some(format!("it has {tables} bytes of new tables"));
        return brought;
    }
    let talks = |kernel: &KernelInfo| kernel.uses_printf() || kernel.uses_assert();
    let strings = match new.as_ref().is_some_and(talks) || old.is_some_and(talks) {
        true => MOST_STRINGS,
        false => 0,
    };
    // Most drivers do not look these up. Where one does, they are renewed like tables.
    brought
        .tables
        .extend(compiler_made(code).map(|name| (name, MOST_STRINGS)));
    let unnamed = unnamed(code, &variables);
    let allowed = strings + original.unnamed;
    if unnamed > allowed {
        brought.refused = Some(format!(
            "it has {unnamed} bytes of variables that cannot be looked up, and the original has {allowed}"
        ));
    }
    brought
}

/// Names that compilers make up for strings, wherever they stand in PTX or in a cubin.
fn compiler_made(code: &[u8]) -> impl Iterator<Item = String> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    let words = code.split(move |byte| !is_name(byte));
    let made = words.filter(|word| MADE_UP.iter().any(|made| word.starts_with(made.as_bytes())));
    let names: BTreeSet<String> = made
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .take(MOST_NAMES)
        .collect();
    names.into_iter()
}

/// Beginnings of such names.
const MADE_UP: [&str; 2] = ["$str", "__unnamed_"];

/// Whether a compiler made a name up.
pub fn is_made_up(name: &str) -> bool {
    MADE_UP.iter().any(|made| name.starts_with(made))
}

/// Names of strings that are looked for in code.
const MOST_NAMES: usize = 4096;

/// Bytes of variables that cannot be looked up by name, in a cubin or in PTX.
fn unnamed(code: &[u8], named: &[Variable]) -> u64 {
    match sections(code) {
        Some((bytes, align)) => {
            let padding = (named.len() as u64).saturating_mul(align.saturating_sub(1));
            let known: u64 = named.iter().map(|variable| variable.size).sum();
            bytes.saturating_sub(known.saturating_add(padding))
        }
        None => {
            let Ok(module) = r3_ptx::parse(&String::from_utf8_lossy(code)) else {
                return 0;
            };
            let mut bytes = 0u64;
            for item in &module.items {
                let r3_ptx::tree::Item::Variable(variable) = item else {
                    continue;
                };
                let name = module.name(variable.name);
                use r3_ptx::isa::Space::{Const, Global};
                if matches!(variable.space, Const | Global)
                    && !named.iter().any(|known| known.name == name)
                {
                    bytes = bytes.saturating_add(size(variable));
                }
            }
            bytes
        }
    }
}

fn size(variable: &r3_ptx::tree::Variable) -> u64 {
    variable
        .dims
        .iter()
        .map(|dim| dim.unwrap_or(1))
        .fold(variable.ty.bytes(), u64::saturating_mul)
        .saturating_mul(u64::from(variable.vector.max(1)))
}

/// Sections of a cubin that hold variables: of global memory, and of constant memory as programs declare it.
const SECTIONS: [&[u8]; 3] = [b".nv.global", b".nv.global.init", b".nv.constant3"];

/// Bytes of a cubin's sections for variables, and their largest alignment; `None` when it is no ELF file.
fn sections(elf: &[u8]) -> Option<(u64, u64)> {
    if elf.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let word = |at: usize, len: usize| {
        let mut word = [0; 8];
        word.get_mut(..len)?
            .copy_from_slice(elf.get(at..at.checked_add(len)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    let (table, each) = (word(0x28, 8)?, word(0x3a, 2)?);
    let (count, names) = (word(0x3c, 2)?, word(0x3e, 2)?);
    let header = |index: usize| table.checked_add(index.checked_mul(each)?);
    let names = word(header(names)?.checked_add(0x18)?, 8)?;
    let (mut bytes, mut align) = (0u64, 1u64);
    for index in 0..count {
        let header = header(index)?;
        let name = names.checked_add(word(header, 4)?)?;
        let name = elf.get(name..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        if SECTIONS.contains(&name) {
            bytes = bytes.saturating_add(word(header.checked_add(0x20)?, 8)? as u64);
            align = align.max(word(header.checked_add(0x30)?, 8)? as u64);
        }
    }
    Some((bytes, align))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    fn ptx(variables: &str) -> Vec<u8> {
        format!("{HEAD}{variables}\n.visible .entry k(.param .u64 p) {{ ret; }}\n").into_bytes()
    }

    fn of(code: &[u8]) -> Brought {
        let original = ptx(".visible .global .align 4 .b8 buffer[64];\n.const .align 4 .b8 c[4];");
        brought(
            code,
            "k",
            &Original::new(&Image::parse(&original), "k"),
            &["left_by_a_header".to_owned()],
        )
    }

    #[test]
    fn variables_of_the_original_constants_and_tables_may_be_there() {
        let code = ptx(
            ".visible .global .align 4 .b8 buffer[64];\n.const .align 4 .b8 more[8];\n\
             .global .align 4 .u32 switch_table[2] = {7, 9};",
        );
        let found = of(&code);
        assert_eq!(found.refused, None);
        let mut tables = found.tables.clone();
        tables.sort();
        assert_eq!(
            tables,
            [("more".to_owned(), 8), ("switch_table".to_owned(), 8)]
        );
        // What is a region of the launch is restored as memory is.
        assert!(found.renewed(&[]).contains(&("buffer".to_owned(), 64)));
        let recorded = found.renewed(&["buffer"]);
        assert!(!recorded.iter().any(|(name, _)| name == "buffer"));
    }

    #[test]
    fn memory_that_outlives_a_launch_may_not() {
        let refused = |variables: &str| of(&ptx(variables)).refused.unwrap_or_default();
        assert!(refused(".global .align 8 .b8 cache[128];").contains("cache (128 bytes)"));
        assert!(refused(".visible .global .align 4 .b8 buffer[128];").contains("has 128 bytes"));
        // By a name that the driver does not look up.
        assert!(refused(".global .align 4 .b8 $str[256] = {1};").contains("cannot be looked up"));
        assert!(refused(".const .align 4 .b8 $str[256];").contains("cannot be looked up"));
        let managed = ".visible .global .attribute(.managed) .align 4 .u32 m = 1;";
        assert!(refused(managed).contains("m (4 bytes)"));
    }

    #[test]
    fn what_nothing_writes_may_be_there() {
        let found = of(&ptx(".global .align 4 .u32 left_by_a_header;"));
        assert_eq!(found, Brought::default());
    }

    #[test]
    fn strings_are_looked_for_by_their_names() {
        let code =
            ptx(".global .align 1 .b8 $str$1[4] = {97};\n.global .align 1 .b8 __unnamed_2[4];");
        let names: Vec<String> = compiler_made(&code).collect();
        assert_eq!(names, ["$str$1", "__unnamed_2"]);
        assert_eq!(compiler_made(b"\x00$str\x00x$str\x00$str\x00").count(), 1);
    }

    #[test]
    fn heaps_and_launches_of_its_own_are_refused() {
        let code = |name: &str| {
            format!(
                "{HEAD}.extern .func (.param .b64 r) {name} (.param .b64 a);\n\
                 .visible .entry k(.param .u64 p) {{\n.reg .b64 %rd<3>;\nmov.b64 %rd1, 8;\n\
                 {{ .param .b64 a0; st.param.b64 [a0], %rd1; .param .b64 r0;\n\
                 call.uni (r0), {name}, (a0); ld.param.b64 %rd2, [r0]; }}\nret; }}\n"
            )
        };
        let refused = |name| of(code(name).as_bytes()).refused.unwrap_or_default();
        assert!(refused("malloc").contains("heap"));
        assert!(refused("cudaLaunchDeviceV2").contains("launches kernels"));
    }

    #[test]
    fn what_is_no_elf_file_has_no_sections_and_damaged_ones_stop_nobody() {
        assert_eq!(sections(b"not an elf"), None);
        let mut elf = vec![0u8; 64];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        elf[0x28..0x30].copy_from_slice(&u64::MAX.to_le_bytes());
        elf[0x3c] = 9;
        elf[0x3a] = 64;
        assert_eq!(sections(&elf), None);
    }
}
