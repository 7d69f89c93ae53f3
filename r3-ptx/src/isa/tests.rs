//! What the tables must hold.

use super::{Forms, Mnemonic, Opcode, ScalarType, Space, SpecialRegister, Word};

fn mnemonic(text: &str) -> Mnemonic {
    Mnemonic::parse(text).unwrap()
}

#[test]
fn every_line_of_the_table_is_read() {
    assert_eq!(Forms::table().unread, Vec::<String>::new());
}

#[test]
fn every_opcode_has_a_form() {
    let missing: Vec<_> = Opcode::ALL
        .iter()
        .filter(|&&opcode| Forms::table().of(opcode).is_empty())
        .collect();
    assert_eq!(missing, Vec::<&Opcode>::new());
}

#[test]
fn every_modifier_stands_in_some_form() {
    let used = |word: &Word| {
        let mut slots = Forms::table().all().iter().flat_map(|form| &form.slots);
        slots.any(|slot| slot.words.contains(word))
    };
    let unused: Vec<_> = Word::ALL.iter().filter(|word| !used(word)).collect();
    assert_eq!(unused, Vec::<&Word>::new());
}
