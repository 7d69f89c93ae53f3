//! What is generated follows the grammar and the table.

use proptest::prelude::*;
use r3_ptx::generate::{Family, Options, examples, kernel, module};
use r3_ptx::isa::Forms;

/// Parses and checks; the error shows the line.
fn accepted(text: &str) -> Result<(), String> {
    let checked = r3_ptx::parse(text).and_then(|tree| r3_ptx::check(&tree));
    checked.map(|_| ()).map_err(|errors| errors.render(text))
}

#[test]
fn the_examples_of_each_form_are_accepted_by_the_checker() {
    for form in Forms::table().all() {
        let list = examples(form);
        assert!(!list.is_empty(), "{}", form.text);
        let texts: Vec<&str> = list.iter().map(|example| example.text.as_str()).collect();
        let (text, _) = module("9.0", "sm_90a", &texts);
        if let Err(error) = accepted(&text) {
            panic!("{}\n{error}", form.text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_kernels_are_accepted_by_the_checker(seed in any::<u64>(), operations in 0usize..80) {
        let options = Options { operations, ..Options::default() };
        let made = kernel(seed, &options);
        prop_assert_eq!(accepted(&made.text), Ok(()));
        prop_assert_eq!(&made, &kernel(seed, &options));
    }

    #[test]
    fn each_family_makes_kernels_of_its_own(seed in any::<u64>(), at in 0usize..Family::ALL.len()) {
        let options = Options { families: vec![Family::ALL[at]], ..Options::default() };
        prop_assert_eq!(accepted(&kernel(seed, &options).text), Ok(()));
    }

    #[test]
    fn only_approximate_operations_make_approximate_slots(seed in any::<u64>()) {
        let families = Family::ALL.iter().copied().filter(|f| *f != Family::Approximate).collect();
        let made = kernel(seed, &Options { families, ..Options::default() });
        prop_assert!(made.slots.iter().all(|slot| slot.approximate.is_none()));
    }
}
