//! Which forms a mnemonic has.

use super::form::{FormId, Slot};
use super::forms::Forms;
use super::{Opcode, Space, Word};

/// The forms whose places the modifiers fill. The order of the table counts first; where no form has it,
/// any order is taken in which types and state spaces keep theirs, as ptxas does for `vote.ballot.sync`.
pub(super) fn matching(opcode: Opcode, words: &[Word]) -> Vec<FormId> {
    let table = Forms::table();
    let forms = table.of(opcode).iter().copied();
    let with = |fits: fn(&[Slot], &[Word]) -> bool| {
        let fits = move |id: &FormId| table.get(*id).is_some_and(|f| fits(&f.slots, words));
        forms.clone().filter(fits).collect::<Vec<_>>()
    };
    let ordered = with(in_order);
    if ordered.is_empty() && words.len() <= 32 {
        return with(|slots, words| in_any_order(slots, words, 0));
    }
    ordered
}

fn in_order(slots: &[Slot], words: &[Word]) -> bool {
    let Some((slot, rest)) = slots.split_first() else {
        return words.is_empty();
    };
    if let Some((word, after)) = words.split_first()
        && slot.words.contains(word)
        && in_order(rest, after)
    {
        return true;
    }
    slot.optional && in_order(without_joined(rest), words)
}

/// What follows when a place is left out: those that go with it are left out, too.
fn without_joined(rest: &[Slot]) -> &[Slot] {
    let joined = rest.iter().take_while(|slot| slot.joined).count();
    rest.get(joined..).unwrap_or_default()
}

/// Words whose order has a meaning: 1 a type, 2 a state space.
fn class(word: Word) -> usize {
    if word.ty().is_some() {
        1
    } else if Space::from_text(word.text()).is_some() {
        2
    } else {
        0
    }
}

fn in_any_order(slots: &[Slot], words: &[Word], used: u32) -> bool {
    let Some((slot, rest)) = slots.split_first() else {
        return used.count_ones() as usize == words.len();
    };
    // Of the words whose order counts, only the first that is left may be taken.
    let mut passed = [false; 3];
    for (i, &word) in words.iter().enumerate() {
        if used & (1 << i) != 0 {
            continue;
        }
        let class = class(word);
        let waits = class != 0 && std::mem::replace(&mut passed[class], true);
        let takes = !waits && slot.words.contains(&word);
        if takes && in_any_order(rest, words, used | (1 << i)) {
            return true;
        }
    }
    slot.optional && in_any_order(without_joined(rest), words, used)
}
