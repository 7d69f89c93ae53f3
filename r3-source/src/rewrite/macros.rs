//! What a file's macros may do where they are used. Nothing is expanded: their words say it.

use std::collections::{HashMap, HashSet};

use crate::tokens::tokens;

/// The macros of a file.
#[derive(Default)]
pub struct Macros<'a> {
    /// What stands behind the names of those without parameters, each time that they are defined.
    values: HashMap<&'a str, Vec<&'a str>>,
    names: HashSet<&'a str>,
    /// Words in any of them that are none of its parameters.
    mentioned: HashSet<&'a str>,
    /// Those of them that may be written there.
    written: HashSet<&'a str>,
}

const FURTHEST: u32 = 8;

impl<'a> Macros<'a> {
    /// One more definition; `parameters` with their parentheses.
    pub fn define(&mut self, name: &'a str, parameters: Option<&'a str>, value: &'a str) {
        self.names.insert(name);
        if parameters.is_none() {
            self.values.entry(name).or_default().push(value);
        }
        let own: HashSet<&str> = parameters.map(tokens).into_iter().flatten().collect();
        let words = tokens(value);
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let is_name = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        // A call could take a reference.
        let calls = (0..words.len()).any(|at| {
            is_name(word(at)) && word(at + 1) == "(" && !matches!(word(at), "sizeof" | "if" | "for")
        });
        for (at, one) in words.iter().enumerate() {
            if !is_name(one) || own.contains(one) {
                continue;
            }
            self.mentioned.insert(one);
            let before = at.checked_sub(1).map(word).unwrap_or_default();
            let after = word(at + 1);
            let assigned = after.ends_with('=') && !matches!(after, "==" | "!=" | "<=" | ">=")
                || matches!(after, "++" | "--" | "[" | "." | "->" | "##");
            if calls || assigned || matches!(before, "++" | "--" | "&" | "##" | ">>") {
                self.written.insert(one);
            }
        }
    }

    /// Whether there is one of the name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The value of one without parameters that is defined once.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        match self.values.get(name)?.as_slice() {
            [value] if !value.is_empty() => Some(value),
            _ => None,
        }
    }

    /// Whether one is a number, whichever of its definitions holds: where it stands nothing happens.
    pub fn is_number(&self, name: &str) -> bool {
        self.is_number_within(name, FURTHEST)
    }

    fn is_number_within(&self, name: &str, left: u32) -> bool {
        let (Some(values), Some(left)) = (self.values.get(name), left.checked_sub(1)) else {
            return false;
        };
        values.iter().all(|value| {
            let words = tokens(value);
            !words.is_empty()
                && words.iter().all(|word| {
                    word.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                        || matches!(*word, "(" | ")" | "+" | "-" | "*" | "/" | "%" | "<<" | ">>")
                        || matches!(*word, "int" | "unsigned" | "float" | "double" | "long")
                        || self.is_number_within(word, left)
                })
        })
    }

    /// Whether any macro has the word, other than as a parameter of its own.
    pub fn mention(&self, name: &str) -> bool {
        self.mentioned.contains(name)
    }

    /// Whether a variable of the name may be written where a macro is used.
    pub fn may_write(&self, name: &str) -> bool {
        self.written.contains(name)
    }
}
