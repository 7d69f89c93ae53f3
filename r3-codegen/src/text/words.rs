//! Mnemonics in place of others.

use std::collections::HashMap;

use r3_ptx::isa::{Forms, Mnemonic, Sm};
use r3_ptx::tree::{self, MnemonicId, Statement};
use r3_ptx::typed::{self, FnId};

use super::bodies;

/// Gives each instruction of wanted functions the mnemonic that `change` makes of its own, where it makes one. Returns how
/// many changed.
pub(super) fn rewrite(
    tree: &mut tree::Module,
    checked: &typed::Module,
    wanted: &[bool],
    change: impl Fn(&Mnemonic) -> Option<String>,
) -> u32 {
    rewrite_where(tree, checked, wanted, change, |_, _| true)
}

/// As [`rewrite`], for instructions that `is_meant`: by function and number of the instruction in it.
pub(super) fn rewrite_where(
    tree: &mut tree::Module,
    checked: &typed::Module,
    wanted: &[bool],
    change: impl Fn(&Mnemonic) -> Option<String>,
    is_meant: impl Fn(FnId, u32) -> bool,
) -> u32 {
    let mut made = Made::new(tree);
    let mut places = 0;
    for pair in bodies(tree, checked, wanted) {
        let mut number = 0;
        for statement in &mut pair.body.statements {
            let Statement::Instruction(instruction) = statement else {
                continue;
            };
            let at = number;
            number += 1;
            if let Some(other) = made.other(instruction.mnemonic, &change)
                && is_meant(pair.id, at)
            {
                instruction.mnemonic = other;
                places += 1;
            }
        }
    }
    made.finish(tree);
    places
}

/// Mnemonics that edits made.
pub(super) struct Made {
    mnemonics: Vec<Mnemonic>,
    /// What became of each that was asked for.
    others: HashMap<MnemonicId, Option<MnemonicId>>,
    numbers: HashMap<String, MnemonicId>,
    version: (u16, u16),
    target: u16,
}

impl Made {
    /// Those of a module, so far.
    pub fn new(tree: &tree::Module) -> Self {
        let target = tree.target.first().map_or("", String::as_str);
        let digits = target.trim_start_matches("sm_");
        let end = digits.find(|c: char| !c.is_ascii_digit());
        Self {
            mnemonics: tree.mnemonics.clone(),
            others: HashMap::new(),
            numbers: HashMap::new(),
            version: tree.version,
            target: digits
                .get(..end.unwrap_or(digits.len()))
                .and_then(|digits| digits.parse().ok())
                .unwrap_or(0),
        }
    }

    /// What `change` makes of a mnemonic, if PTX and the target have it.
    fn other(
        &mut self,
        of: MnemonicId,
        change: impl Fn(&Mnemonic) -> Option<String>,
    ) -> Option<MnemonicId> {
        if let Some(known) = self.others.get(&of) {
            return *known;
        }
        let old = self.mnemonics.get(of.0 as usize)?;
        let text = change(old).filter(|text| *text != old.text());
        let made = text.and_then(|text| self.number(&text));
        self.others.insert(of, made);
        made
    }

    /// The number of a mnemonic; `None` when there is no such form for the target.
    pub fn number(&mut self, text: &str) -> Option<MnemonicId> {
        if let Some(known) = self.numbers.get(text) {
            return Some(*known);
        }
        let mnemonic = Mnemonic::parse(text).ok()?;
        let form = Forms::table().get(mnemonic.form()?)?;
        if form
            .sm
            .is_some_and(|Sm { number, .. }| number > self.target)
        {
            return None;
        }
        let needed = form.ptx.map(|(major, minor)| (major.into(), minor.into()));
        self.version = self.version.max(needed.unwrap_or_default());
        let number = MnemonicId(u32::try_from(self.mnemonics.len()).ok()?);
        self.mnemonics.push(mnemonic);
        self.numbers.insert(text.to_owned(), number);
        Some(number)
    }

    /// Gives them to the module, and the version that they need.
    pub fn finish(self, tree: &mut tree::Module) {
        tree.mnemonics = self.mnemonics;
        tree.version = self.version;
    }
}

/// A mnemonic of an opcode and modifiers.
pub(super) fn spelled<'w>(opcode: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    let mut text = opcode.to_owned();
    for word in words {
        text.push('.');
        text.push_str(word);
    }
    text
}
