//! Rewrites that changed nothing: what is remembered of them.
//!
//! Many a rewrite leaves the machine code of its parent as it was: a compiler had inlined that function anyway, or unrolled that loop.
//! What did so at one place does so again at the same place of other variants. Such places come last: what gives something new is tried
//! first. Nothing is left out for it, since the same change can matter in another text, and one that has mattered anywhere counts as
//! any other again.

use std::collections::HashMap;

use r3_source::rewrite::Site;
use r3_source::tokens;
use xxhash_rust::xxh3::xxh3_128;

/// Bytes of the text before and after the beginning of a place that are part of what it is.
const BEFORE: usize = 80;
const AFTER: usize = 240;

/// Times after which a change that changed nothing is expected to change nothing, whatever text stands around it.
const ANYWHERE: u64 = 4;

/// A change, as it is recognised in another variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// At this place: with the text around it.
    pub here: u128,
    /// At any place at which the same would be said of it.
    pub anywhere: u128,
}

impl Change {
    /// What a site of a text would do.
    pub fn of(text: &str, site: &Site) -> Self {
        let start = floor(text, site.at.start.saturating_sub(BEFORE));
        let end = floor(text, site.at.start.saturating_add(AFTER).min(text.len()));
        let around = text.get(start..end).unwrap_or_default();
        let mut bytes = tokens::fingerprint(around).to_le_bytes().to_vec();
        bytes.extend(site.operator.as_bytes());
        bytes.push(0);
        bytes.extend(site.choice.as_bytes());
        bytes.push(0);
        bytes.extend(site.what.as_bytes());
        Self {
            here: xxh3_128(&bytes),
            anywhere: Self::anywhere(&site.operator, &site.what),
        }
    }

    /// A rewrite by its name, with what it says that it does.
    pub fn anywhere(operator: &str, what: &str) -> u128 {
        xxh3_128(format!("{operator}\0{what}").as_bytes())
    }
}

/// The last place before `at` at which a character begins.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// How often a change was made, and how often it changed nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    made: u64,
    nothing: u64,
}

impl Count {
    fn is_idle(self, least: u64) -> bool {
        self.made >= least && self.made == self.nothing
    }
}

/// What changes did.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    counts: HashMap<u128, Count>,
    /// How often something that was taken to change nothing did change something.
    surprises: u64,
}

impl Effects {
    /// A change was made. `nothing`: the machine code is its parent's.
    pub fn tell(&mut self, here: Option<u128>, anywhere: u128, nothing: bool) {
        for (key, least) in here
            .map(|here| (here, 1))
            .into_iter()
            .chain([(anywhere, ANYWHERE)])
        {
            let count = self.counts.entry(key).or_default();
            let was = count.is_idle(least);
            count.made += 1;
            count.nothing += u64::from(nothing);
            self.surprises += u64::from(was && !nothing);
        }
    }

    /// Whether a change is expected to change nothing.
    pub fn expects_nothing(&self, change: Change) -> bool {
        let count = |key: u128| self.counts.get(&key).copied().unwrap_or_default();
        let (here, anywhere) = (count(change.here), count(change.anywhere));
        here.is_idle(1) || (here.made == 0 && anywhere.is_idle(ANYWHERE))
    }

    /// How often an expectation was wrong: as long as this stays, what is expected to change nothing only becomes more.
    pub fn surprises(&self) -> u64 {
        self.surprises
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(at: usize, what: &str) -> Site {
        Site {
            operator: "unroll".into(),
            at: at..at + 3,
            choice: "2".into(),
            what: what.into(),
        }
    }

    const TEXT: &str = "// Ångström\nfor (int i = 0; i < n; ++i) a[i] = 0;\n";

    #[test]
    fn a_place_is_the_same_with_other_blanks_and_another_one_in_another_text() {
        let at = TEXT.find("for").unwrap();
        let one = Change::of(TEXT, &site(at, "two of each"));
        let spaced = TEXT.replace("a[i] = 0", "a[i]  =  0 /* nothing */");
        assert_eq!(one, Change::of(&spaced, &site(at, "two of each")));
        let other = Change::of(&TEXT.replace("= 0;\n", "= 1;\n"), &site(at, "two of each"));
        assert_ne!(one.here, other.here);
        assert_eq!(one.anywhere, other.anywhere);
        assert_ne!(one.anywhere, Change::of(TEXT, &site(at, "three")).anywhere);
        // Wherever it begins, also within a character.
        for at in 0..TEXT.len() + 500 {
            let _ = Change::of(TEXT, &site(at, ""));
        }
    }

    #[test]
    fn what_changed_nothing_is_expected_to_do_so_again_until_it_surprises() {
        let mut effects = Effects::default();
        let here = Change {
            here: 1,
            anywhere: 9,
        };
        let there = Change {
            here: 2,
            anywhere: 9,
        };
        effects.tell(Some(1), 9, true);
        assert!(effects.expects_nothing(here) && !effects.expects_nothing(there));
        for _ in 0..3 {
            effects.tell(Some(1), 9, true);
        }
        assert!(effects.expects_nothing(there));
        assert_eq!(effects.surprises(), 0);
        // It matters there: that says nothing of the first place, and something of all others.
        effects.tell(Some(2), 9, false);
        assert!(effects.surprises() > 0);
        assert!(effects.expects_nothing(here) && !effects.expects_nothing(there));
        assert!(!effects.expects_nothing(Change {
            here: 3,
            anywhere: 9
        }));
        effects.tell(Some(1), 9, false);
        assert!(!effects.expects_nothing(here));
    }
}
