//! How plain loads and stores of global memory use caches.

use std::collections::{BTreeSet, HashSet};

use r3_ptx::isa::{Mnemonic, Opcode, Order, Space, Word};
use r3_ptx::tree;
use r3_ptx::typed::{self, FnId, Operand};

use super::Edited;
use super::origins::{self, Origin, Set, Touch};
use super::words::{rewrite, rewrite_where, spelled};
use crate::recipe::{CacheOperators, Guard, Knob, LoadOperator, StoreOperator};

/// Cache operators of loads and stores, as text gives them.
const OPERATORS: &[Word] = &[
    Word::Ca,
    Word::Cg,
    Word::Cs,
    Word::Lu,
    Word::Cv,
    Word::Wb,
    Word::Wt,
    Word::L1EvictNormal,
    Word::L1EvictUnchanged,
    Word::L1EvictFirst,
    Word::L1EvictLast,
    Word::L1NoAllocate,
];

/// Operators that go together with `.nc`.
const BESIDE_READ_ONLY: &[Word] = &[Word::Ca, Word::Cg, Word::Cs];

/// Whether an instruction loads from or stores to global memory without any order.
fn is_plain(mnemonic: &Mnemonic, opcode: Opcode) -> bool {
    mnemonic.opcode() == opcode
        && mnemonic.space() == Some(Space::Global)
        && matches!(mnemonic.order(), None | Some(Order::Weak))
}

/// Sends loads through the read-only path, where the kernel does not write what they read: nothing is written through the
/// same parameter, and nothing of which the text does not tell where it is. That different parameters do not overlap
/// is left to the launch: each parameter that is read so leaves a guard.
pub(super) fn read_only(
    tree: &mut tree::Module,
    checked: &typed::Module,
    wanted: &[bool],
    done: &mut Edited,
) {
    let mut meant: HashSet<(FnId, u32)> = HashSet::new();
    let mut parameters: BTreeSet<u32> = BTreeSet::new();
    let functions = (0u32..).map(FnId).zip(&checked.functions);
    let wanted_functions =
        functions.filter(|(id, _)| wanted.get(id.0 as usize).copied().unwrap_or(false));
    let (mut kernels, mut others) = (Vec::new(), Vec::new());
    for (id, function) in wanted_functions {
        let Some(body) = &function.body else { continue };
        match function.entry {
            true => kernels.push((id, function, body)),
            false => others.push((id, function, body)),
        }
    }
    let writes_elsewhere = others.iter().any(|(_, function, body)| {
        let mut origins = origins::of(checked, function, body);
        let touches = |instruction| origins.touch(instruction) != Touch::Nothing;
        body.instructions.iter().any(touches)
    });
    let (mut written, mut unclear) = (0u32, 0u32);
    for (id, function, body) in kernels {
        let mut origins = origins::of(checked, function, body);
        let mut stores = match writes_elsewhere {
            true => Set::ANYWHERE,
            false => Set::default(),
        };
        for instruction in &body.instructions {
            match origins.touch(instruction) {
                Touch::Nothing => {}
                Touch::Writes(set) => stores = stores.with(set),
                Touch::Calls => stores = stores.with(Set::ANYWHERE),
            }
        }
        let written_parameters: BTreeSet<u32> = origins
            .list(stores)
            .filter_map(|origin| match origin {
                Origin::Param(index, _) => Some(index),
                Origin::Variable(_) => None,
            })
            .collect();
        for (at, instruction) in (0u32..).zip(&body.instructions) {
            let mnemonic = checked.mnemonics.get(instruction.mnemonic.0 as usize);
            let operands = body.operands(instruction);
            if mnemonic.and_then(through_read_only).is_none() {
                continue;
            }
            let set = operands
                .get(1)
                .map_or(Set::ANYWHERE, |operand: &Operand| origins.address(operand));
            if set.is_anywhere() || stores.meets(Set::ANYWHERE) {
                unclear += 1;
                continue;
            }
            // Two pointers in one structure may be the same, and a pointer may well be the address of a variable: no
            // guard says that they are not.
            let exposed = origins.list(set).any(|origin| match origin {
                Origin::Param(index, _) => written_parameters.contains(&index),
                Origin::Variable(_) => !written_parameters.is_empty(),
            });
            if stores.meets(set) || exposed {
                written += 1;
                continue;
            }
            meant.insert((id, at));
            if stores == Set::default() {
                continue;
            }
            parameters.extend(origins.list(set).filter_map(|origin| match origin {
                Origin::Param(index, _) => Some(index),
                Origin::Variable(_) => None,
            }));
        }
    }
    let places = rewrite_where(tree, checked, wanted, through_read_only, |id, at| {
        meant.contains(&(id, at))
    });
    done.count(Knob::ReadOnlyLoads, places);
    done.guards
        .extend(parameters.into_iter().map(|index| Guard::NoAlias { index }));
    if places > 0 {
        done.note(format!("{places} loads go through the read-only path now"));
    }
    if written > 0 {
        done.note(format!(
            "{written} loads stay as they are: the kernel writes through the same parameter"
        ));
    }
    if unclear > 0 {
        done.note(format!(
            "{unclear} loads stay as they are: the text does not tell whether the kernel writes there"
        ));
    }
}

/// `ld.global` as `ld.global.nc`.
fn through_read_only(mnemonic: &Mnemonic) -> Option<String> {
    if !is_plain(mnemonic, Opcode::Ld) || mnemonic.has(Word::Nc) {
        return None;
    }
    let rest = mnemonic
        .words()
        .iter()
        .filter(|word| !matches!(word, Word::Weak | Word::Global));
    let (operators, rest): (Vec<Word>, Vec<Word>) =
        rest.partition(|word| BESIDE_READ_ONLY.contains(word));
    let words = [Word::Global]
        .into_iter()
        .chain(operators)
        .chain([Word::Nc])
        .chain(rest);
    let texts: Vec<&str> = words.map(Word::text).collect();
    Some(spelled(Opcode::Ld.text(), texts))
}

/// Puts cache operators on loads and stores that have none.
pub(super) fn operators(
    tree: &mut tree::Module,
    checked: &typed::Module,
    wanted: &[bool],
    operators: &CacheOperators,
    done: &mut Edited,
) {
    if let Some(operator) = operators.loads {
        let word = match operator {
            LoadOperator::All => Word::Ca,
            LoadOperator::Global => Word::Cg,
            LoadOperator::Streaming => Word::Cs,
            LoadOperator::NoAllocate => Word::L1NoAllocate,
            LoadOperator::EvictFirst => Word::L1EvictFirst,
            LoadOperator::EvictLast => Word::L1EvictLast,
        };
        let places = rewrite(tree, checked, wanted, |mnemonic| {
            with_operator(mnemonic, Opcode::Ld, word)
        });
        done.count(Knob::LoadOperator, places);
        if places > 0 {
            done.note(format!("{places} loads have .{} now", word.text()));
        }
    }
    if let Some(operator) = operators.stores {
        let word = match operator {
            StoreOperator::WriteBack => Word::Wb,
            StoreOperator::Global => Word::Cg,
            StoreOperator::Streaming => Word::Cs,
            StoreOperator::WriteThrough => Word::Wt,
        };
        let places = rewrite(tree, checked, wanted, |mnemonic| {
            with_operator(mnemonic, Opcode::St, word)
        });
        done.count(Knob::StoreOperator, places);
        if places > 0 {
            done.note(format!("{places} stores have .{} now", word.text()));
        }
    }
}

/// A load or store with a cache operator, in its place: priorities of L1 stand after `.nc`, the others before it.
fn with_operator(mnemonic: &Mnemonic, opcode: Opcode, operator: Word) -> Option<String> {
    if !is_plain(mnemonic, opcode) || mnemonic.any_of(OPERATORS).is_some() {
        return None;
    }
    let words = mnemonic.words();
    let priority = operator.text().starts_with("L1::");
    let after = |word: &Word| *word == Word::Global || (priority && *word == Word::Nc);
    let at = words.iter().rposition(after)? + 1;
    let (before, rest) = words.split_at_checked(at)?;
    let texts = before
        .iter()
        .chain([&operator])
        .chain(rest)
        .map(|word| word.text());
    Some(spelled(opcode.text(), texts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mnemonic(text: &str) -> Mnemonic {
        Mnemonic::parse(text).unwrap()
    }

    /// From the grammar of `ld` in the PTX ISA.
    #[test]
    fn loads_without_any_order_can_be_read_only() {
        let cases = [
            ("ld.global.f32", Some("ld.global.nc.f32")),
            ("ld.weak.global.v4.f32", Some("ld.global.nc.v4.f32")),
            ("ld.global.cs.u64", Some("ld.global.cs.nc.u64")),
            (
                "ld.global.L1::evict_last.L2::128B.v2.b64",
                Some("ld.global.nc.L1::evict_last.L2::128B.v2.b64"),
            ),
            ("ld.volatile.global.f32", None),
            ("ld.relaxed.gpu.global.u32", None),
            ("ld.acquire.sys.global.u32", None),
            ("ld.global.nc.f32", None),
            ("ld.shared.f32", None),
            ("ld.f32", None),
            ("st.global.f32", None),
            ("atom.global.add.f32", None),
        ];
        for (text, expected) in cases {
            let made = through_read_only(&mnemonic(text));
            assert_eq!(made.as_deref(), expected, "{text}");
            if let Some(made) = made {
                assert!(mnemonic(&made).form().is_some(), "{made}");
            }
        }
        // There is no read-only load of what is used for the last time: no such form, so that nothing changes.
        let made = through_read_only(&mnemonic("ld.global.lu.f32")).unwrap();
        assert_eq!(mnemonic(&made).form(), None);
    }

    #[test]
    fn cache_operators_stand_where_the_isa_puts_them() {
        let cases = [
            (
                Opcode::Ld,
                Word::Cs,
                "ld.global.f32",
                Some("ld.global.cs.f32"),
            ),
            (
                Opcode::Ld,
                Word::Cg,
                "ld.global.nc.v2.f32",
                Some("ld.global.cg.nc.v2.f32"),
            ),
            (
                Opcode::Ld,
                Word::L1NoAllocate,
                "ld.global.nc.v2.f32",
                Some("ld.global.nc.L1::no_allocate.v2.f32"),
            ),
            (
                Opcode::St,
                Word::Wt,
                "st.weak.global.v4.b32",
                Some("st.weak.global.wt.v4.b32"),
            ),
            (Opcode::Ld, Word::Cs, "ld.global.cg.f32", None),
            (Opcode::Ld, Word::Cs, "ld.relaxed.gpu.global.f32", None),
            (Opcode::St, Word::Cs, "st.shared.f32", None),
            (Opcode::St, Word::Cs, "ld.global.f32", None),
        ];
        for (opcode, operator, text, expected) in cases {
            let made = with_operator(&mnemonic(text), opcode, operator);
            assert_eq!(made.as_deref(), expected, "{text}");
            if let Some(made) = made {
                assert!(mnemonic(&made).form().is_some(), "{made}");
            }
        }
    }
}
