//! The documentation names tests: they exist.

use std::collections::BTreeSet;
use std::path::Path;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each of the known pitfalls has its line.
#[test]
fn every_known_pitfall_is_listed() {
    let page = page("docs/interception.md");
    let numbers: Vec<u32> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(numbers, (1..=57).collect::<Vec<_>>());
}

/// A test that is named on the page is there: `a::b` is function `b` of `a.rs`.
#[test]
fn every_test_that_is_named_exists() {
    let page = page("docs/interception.md");
    let named: BTreeSet<(&str, &str)> = page
        .split('`')
        .filter_map(|word| word.split_once("::"))
        .filter(|(file, _)| {
            file.len() > 1 && file.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        })
        .collect();
    assert!(named.len() > 30, "{named:?}");
    for (file, test) in named {
        let source = self::page(&format!("tests/tests/{file}.rs"));
        assert!(
            source.contains(&format!("fn {test}()")),
            "{file}::{test} does not exist"
        );
    }
}
