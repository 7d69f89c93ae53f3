//! Symbols and section names of a cubin, under limits: in a hostile file names may overlap, and
//! each may be as long as the file.

use std::cell::Cell;

use object::LittleEndian as LE;
use object::elf::{SHN_UNDEF, SHT_NOBITS, STT_FUNC, STT_OBJECT, Sym64};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym, SymbolTable};

use super::Elf;
use crate::kernel::{Space, Variable, is_compiler_made};

/// `st_other` of an entry function.
const STO_ENTRY: u8 = 0x10;
/// `st_other` of a managed variable.
const STO_MANAGED: u8 = 0x04;
/// Longer names are not read.
const MAX_NAME: usize = 1 << 16;

pub(super) type Sections<'a> = SectionTable<'a, Elf, &'a [u8]>;

/// A string table.
#[derive(Clone, Copy, Default)]
pub(super) struct Names<'a>(&'a [u8]);

impl<'a> Names<'a> {
    /// The names of sections.
    pub(super) fn of_sections(header: &Elf, sections: &Sections<'a>, bytes: &'a [u8]) -> Self {
        let index = header.shstrndx(LE, bytes).ok();
        let section =
            index.and_then(|index| sections.section(object::SectionIndex(index as usize)).ok());
        Names(
            section
                .and_then(|section| section.data(LE, bytes).ok())
                .unwrap_or_default(),
        )
    }

    /// The name at `offset`; `None` when there is none, or one that is too long.
    pub(super) fn get(self, offset: u32) -> Option<&'a [u8]> {
        let rest = self.0.get(offset as usize..)?;
        let len = rest.iter().take(MAX_NAME + 1).position(|&b| b == 0)?;
        rest.get(..len)
    }
}

/// The symbol table.
pub(super) struct Symbols<'a> {
    table: SymbolTable<'a, Elf, &'a [u8]>,
    names: Names<'a>,
    /// Bytes of names that may still be handed out.
    budget: Cell<usize>,
    exhausted: Cell<bool>,
}

impl<'a> Symbols<'a> {
    pub(super) fn new(
        table: SymbolTable<'a, Elf, &'a [u8]>,
        sections: &Sections<'a>,
        bytes: &'a [u8],
    ) -> Self {
        let strings = sections.section(table.string_section()).ok();
        let names = strings
            .and_then(|section| section.data(LE, bytes).ok())
            .unwrap_or_default();
        Symbols {
            table,
            names: Names(names),
            budget: Cell::new(bytes.len().saturating_mul(16)),
            exhausted: Cell::new(false),
        }
    }

    fn name_of(&self, symbol: &Sym64<LE>) -> Option<&'a [u8]> {
        let name = self
            .names
            .get(symbol.st_name(LE))
            .filter(|name| !name.is_empty())?;
        let left = self.budget.get().checked_sub(name.len());
        self.exhausted.set(self.exhausted.get() || left.is_none());
        self.budget.set(left?);
        Some(name)
    }

    /// Names were left out because they overlap too much.
    pub(super) fn exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// The name of a symbol.
    pub(super) fn name(&self, index: u32) -> Option<String> {
        let symbol = self
            .table
            .symbol(object::SymbolIndex(index as usize))
            .ok()?;
        self.name_of(symbol)
            .map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// Index and name of each entry function.
    pub(super) fn kernels(&self) -> impl Iterator<Item = (u32, &'a [u8])> {
        self.table.enumerate().filter_map(|(index, symbol)| {
            let entry = symbol.st_type() == STT_FUNC
                && symbol.st_other().0 & STO_ENTRY != 0
                && symbol.st_shndx(LE) != SHN_UNDEF;
            let index = u32::try_from(index.0).ok()?;
            entry
                .then(|| Some((index, self.name_of(symbol)?)))
                .flatten()
        })
    }

    /// Variables of the module: data symbols in the sections for globals and user constants.
    /// Binding does not matter: whole-program compilation makes all of them local.
    pub(super) fn variables(
        &self,
        sections: &Sections<'a>,
        section_names: Names<'a>,
        bytes: &'a [u8],
    ) -> Vec<Variable> {
        let homes: Vec<_> = sections
            .iter()
            .map(|section| {
                let space = match section_names.get(section.sh_name(LE))? {
                    b".nv.global" | b".nv.global.init" => Space::Global,
                    b".nv.constant3" => Space::Constant,
                    _ => return None,
                };
                let stored = section.sh_type(LE) != SHT_NOBITS;
                Some((
                    space,
                    stored.then(|| section.data(LE, bytes).ok()).flatten(),
                ))
            })
            .collect();
        let mut budget = bytes.len().saturating_mul(4);
        let mut found = Vec::new();
        for (index, symbol) in self.table.enumerate() {
            if symbol.st_type() != STT_OBJECT {
                continue;
            }
            let section = self.table.symbol_section(LE, symbol, index).ok().flatten();
            let home = section.and_then(|section| *homes.get(section.0)?);
            let Some((space, data)) = home else { continue };
            let Some(name) = self.name_of(symbol) else {
                continue;
            };
            if is_compiler_made(name) {
                continue;
            }
            let managed = symbol.st_other().0 & STO_MANAGED != 0;
            let size = symbol.st_size(LE);
            // A pointer's initial value is a relocation, and its bytes are zeros: everything in
            // the section for initialised globals counts. Constants have one section for both.
            let initialised = match (space, data) {
                (_, None) => false,
                (Space::Constant, Some(data)) => {
                    any_byte(data, symbol.st_value(LE), size, &mut budget)
                }
                (_, Some(_)) => true,
            };
            found.push(Variable {
                name: String::from_utf8_lossy(name).into_owned(),
                size,
                space: if managed { Space::Managed } else { space },
                initialised,
            });
        }
        found
    }
}

/// Whether any of the `size` bytes at `offset` is not zero. When the budget of bytes to look at is
/// spent, the answer is yes.
fn any_byte(data: &[u8], offset: u64, size: u64, budget: &mut usize) -> bool {
    let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
    let range = range.and_then(|(offset, size)| Some(offset..offset.checked_add(size)?));
    let Some(bytes) = range.and_then(|range| data.get(range)) else {
        return false;
    };
    let Some(left) = budget.checked_sub(bytes.len()) else {
        return true;
    };
    *budget = left;
    bytes.iter().any(|&byte| byte != 0)
}
