//! Symbols of a cubin: kernels and variables.

use std::cell::Cell;

use object::LittleEndian as LE;
use object::elf::{SHN_UNDEF, STT_FUNC, STT_OBJECT};
use object::read::elf::{SectionTable, Sym, SymbolTable};

use super::Elf;
use crate::kernel::{Space, Variable};

/// `st_other` of an entry function.
const STO_ENTRY: u8 = 0x10;
/// `st_other` of a managed variable.
const STO_MANAGED: u8 = 0x04;
/// Longer names are not names.
const MAX_NAME: usize = 1 << 16;

type Table<'a> = SymbolTable<'a, Elf, &'a [u8]>;

/// The symbol table, with a bound on the bytes of names that are handed out: names may overlap
/// in a hostile file.
pub(super) struct Symbols<'a> {
    table: &'a Table<'a>,
    budget: Cell<usize>,
}

impl<'a> Symbols<'a> {
    pub(super) fn new(table: &'a Table<'a>, len: usize) -> Self {
        Symbols {
            table,
            budget: Cell::new(len.saturating_mul(16)),
        }
    }

    fn name_bytes(&self, symbol: &object::elf::Sym64<LE>) -> Option<&'a [u8]> {
        let name = self.table.symbol_name(LE, symbol).ok()?;
        self.budget.set(self.budget.get().checked_sub(name.len())?);
        (name.len() <= MAX_NAME).then_some(name)
    }

    /// The name of a symbol.
    pub(super) fn name(&self, index: u32) -> Option<String> {
        let symbol = self
            .table
            .symbol(object::SymbolIndex(index as usize))
            .ok()?;
        self.name_bytes(symbol)
            .map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// Index and name of each entry function.
    pub(super) fn kernels(&self) -> impl Iterator<Item = (u32, &'a [u8])> {
        self.table.iter().enumerate().filter_map(|(index, symbol)| {
            let entry = symbol.st_type() == STT_FUNC
                && symbol.st_other().0 & STO_ENTRY != 0
                && symbol.st_shndx(LE) != SHN_UNDEF;
            let index = u32::try_from(index).ok()?;
            entry
                .then(|| Some((index, self.name_bytes(symbol)?)))
                .flatten()
        })
    }
}

/// Variables of the module: data symbols in the sections for globals and user constants. Binding
/// does not matter: whole-program compilation makes all of them local.
pub(super) fn variables<'a>(
    table: &Table<'a>,
    sections: &SectionTable<'a, Elf, &'a [u8]>,
) -> Vec<Variable> {
    let mut found = Vec::new();
    for (index, symbol) in table.enumerate() {
        if symbol.st_type() != STT_OBJECT {
            continue;
        }
        let Ok(Some(section)) = table.symbol_section(LE, symbol, index) else {
            continue;
        };
        let Ok(section) = sections.section(section) else {
            continue;
        };
        let Ok(section_name) = sections.section_name(LE, section) else {
            continue;
        };
        let (space, initialised) = match section_name {
            b".nv.global" => (Space::Global, false),
            b".nv.global.init" => (Space::Global, true),
            b".nv.constant3" => (Space::Constant, true),
            _ => continue,
        };
        let space = if symbol.st_other().0 & STO_MANAGED != 0 {
            Space::Managed
        } else {
            space
        };
        let Ok(name) = table.symbol_name(LE, symbol) else {
            continue;
        };
        if name.is_empty() || name.len() > MAX_NAME || hidden(name) {
            continue;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        found.push(Variable {
            name,
            size: symbol.st_size(LE),
            space,
            initialised,
        });
    }
    found
}

/// Names that the compiler made up for strings and the like: the driver does not look them up.
fn hidden(name: &[u8]) -> bool {
    name.starts_with(b"$str") || name.starts_with(b"__unnamed_")
}
