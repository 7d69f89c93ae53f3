//! Which launches are recorded: a pure function of kernel name and occurrence.

use crate::demangle::{demangle, demangle_without_return_type};
use crate::options::Options;
use crate::value::{NumberSet, Pattern};

/// Which occurrences of a launch are recorded. Occurrences are counted from 1,
/// apart for each kernel, grid, block and dynamic shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchRule {
    /// 1, 2, 3, then 10, 100, 1000, …
    Decades,
    /// Those that the user named.
    Listed(NumberSet),
}

/// Patterns on kernel names, see `R3_KERNEL`.
#[derive(Clone, Debug, Default)]
pub struct KernelFilter {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl KernelFilter {
    /// One pattern a line; `!` in front excludes; empty lines are passed over.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.strip_prefix('!') {
                Some("") => return Err("a regular expression after `!`".into()),
                Some(pattern) => filter.exclude.push(Pattern::parse(pattern)?),
                None => filter.include.push(Pattern::parse(line)?),
            }
        }
        Ok(filter)
    }

    /// Is a kernel of this name wanted?
    fn selects(&self, mangled: &str) -> bool {
        if self.include.is_empty() && self.exclude.is_empty() {
            return true;
        }
        let full = demangle(mangled);
        let short = full
            .as_ref()
            .and_then(|_| demangle_without_return_type(mangled));
        let any = |patterns: &[Pattern]| {
            patterns.iter().any(|pattern| {
                let matches = |name: &String| pattern.matches(name);
                pattern.matches(mangled)
                    || full.as_ref().is_some_and(matches)
                    || short.as_ref().is_some_and(matches)
            })
        };
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Decides which launches are recorded.
#[derive(Clone, Debug)]
pub struct Selection {
    kernels: KernelFilter,
    rule: LaunchRule,
}

impl Selection {
    /// The selection that `options` ask for.
    pub fn new(options: &Options) -> Self {
        Self {
            kernels: options.kernel.clone(),
            rule: options.launches.clone(),
        }
    }

    /// Are launches of this kernel recorded at all? Costly: ask once for each kernel.
    pub fn kernel_selected(&self, mangled: &str) -> bool {
        self.kernels.selects(mangled)
    }

    /// The smallest selected occurrence above `after`; 0 asks for the first.
    pub fn next_selected(&self, after: u64) -> Option<u64> {
        match &self.rule {
            LaunchRule::Listed(set) => set.next_after(after),
            LaunchRule::Decades if after < 3 => Some(after + 1),
            LaunchRule::Decades => {
                let exponent = after.checked_ilog10()? + 1;
                10u64.checked_pow(exponent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selection(variables: &[(&str, &str)]) -> Selection {
        let pairs = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        Selection::new(&Options::from_env(pairs).expect("valid options"))
    }

    #[test]
    fn by_default_the_first_three_and_then_the_powers_of_ten() {
        let selection = selection(&[]);
        let mut seen = Vec::new();
        let mut last = 0;
        while let Some(next) = selection.next_selected(last) {
            seen.push(next);
            last = next;
        }
        let powers = (1..=19).map(|exponent| 10u64.pow(exponent));
        let expected: Vec<u64> = [1, 2, 3].into_iter().chain(powers).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn listed_occurrences_replace_the_default() {
        let selection = selection(&[("R3_LAUNCHES", "200-210,10")]);
        assert_eq!(selection.next_selected(0), Some(10));
        assert_eq!(selection.next_selected(10), Some(200));
        assert_eq!(selection.next_selected(205), Some(206));
        assert_eq!(selection.next_selected(210), None);
    }

    #[test]
    fn a_kernel_is_found_by_any_of_its_names() {
        let mangled = "_ZN4quda6dslashILi3EfEEvPT0_";
        for pattern in [
            "_ZN4quda6dslash",             // mangled
            "void quda::dslash<3, float>", // as profilers print it
            "^quda::dslash<",              // without the return type
            "dslash.*float",
            "(?i)DSLASH",
        ] {
            assert!(
                selection(&[("R3_KERNEL", pattern)]).kernel_selected(mangled),
                "{pattern}"
            );
        }
        assert!(!selection(&[("R3_KERNEL", "wilson")]).kernel_selected(mangled));
    }

    #[test]
    fn an_exclamation_mark_excludes() {
        let only = selection(&[("R3_KERNEL", "!memset")]);
        assert!(only.kernel_selected("saxpy") && !only.kernel_selected("my_memset"));
        let both = selection(&[("R3_KERNEL", "dslash\nsaxpy\n!interior")]);
        assert!(both.kernel_selected("saxpy") && both.kernel_selected("dslash_exterior"));
        assert!(!both.kernel_selected("dslash_interior") && !both.kernel_selected("gemm"));
    }

    #[test]
    fn without_patterns_every_name_is_selected() {
        for name in ["", "saxpy", "_Z", "_ZN4quda"] {
            assert!(selection(&[]).kernel_selected(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn next_selected_ascends(after in 0u64..u64::MAX) {
            let selection = selection(&[]);
            if let Some(next) = selection.next_selected(after) {
                prop_assert!(next > after);
                let power_of_ten = next.checked_ilog10().map(|exponent| 10u64.pow(exponent));
                prop_assert!(next <= 3 || power_of_ten == Some(next));
            }
        }
    }
}
