//! Parsers of single values. Each says what it wanted, in words for people.

use std::time::Duration;

use regex_lite::{Regex, RegexBuilder};

/// Compiled size up to which a pattern is accepted.
const PATTERN_SIZE_LIMIT: usize = 1 << 20;

/// A whole number within bounds.
pub(crate) fn whole_number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let wanted = || match max {
        u64::MAX => format!("a whole number from {min} up"),
        _ => format!("a whole number from {min} to {max}"),
    };
    let number = digits(text).ok_or_else(wanted)?;
    if (min..=max).contains(&number) {
        Ok(number)
    } else {
        Err(wanted())
    }
}

/// A whole number, or `unlimited`.
pub(crate) fn number_or_unlimited(text: &str) -> Result<u64, String> {
    if text == "unlimited" {
        return Ok(u64::MAX);
    }
    digits(text).ok_or_else(|| "a whole number, or `unlimited`".into())
}

/// A size in bytes with a binary suffix: `65536`, `64K`, `8G`, `8GiB`.
pub(crate) fn size(text: &str, min: u64) -> Result<u64, String> {
    let wanted = "a whole number of bytes with an optional suffix K, M, G or T, e.g. 512M";
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number = digits(number).ok_or(wanted)?;
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(wanted.into()),
    };
    let bytes = number
        .checked_mul(1 << shift)
        .ok_or("a size below 16 EiB")?;
    if bytes < min {
        return Err(format!("a size of at least {min} bytes"));
    }
    Ok(bytes)
}

/// A size in bytes, or `unlimited`.
pub(crate) fn size_or_unlimited(text: &str) -> Result<u64, String> {
    if text == "unlimited" {
        return Ok(u64::MAX);
    }
    size(text, 0).map_err(|wanted| wanted + ", or `unlimited`")
}

/// Seconds, with decimals if wished.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let wanted = "seconds, more than 0 and at most 86400, e.g. 30 or 0.5";
    if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(wanted.into());
    }
    let number: f64 = text.parse().map_err(|_| wanted)?;
    if number > 0.0 && number <= 86_400.0 {
        Ok(Duration::from_secs_f64(number))
    } else {
        Err(wanted.into())
    }
}

/// One word out of a list.
pub(crate) fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, value)) => Ok(*value),
        None => {
            let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            Err(format!("one of {}", names.join(", ")))
        }
    }
}

/// Decimal digits and nothing else (`u64::from_str` takes a leading `+`).
fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// A set of whole numbers, as ranges: disjoint, ascending, not adjacent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberSet {
    ranges: Vec<(u64, u64)>,
}

impl NumberSet {
    /// Every number.
    pub fn all() -> Self {
        Self {
            ranges: vec![(0, u64::MAX)],
        }
    }

    /// Reads `10,200-210,1000-`, in any order, overlapping or not; or `all`.
    pub(crate) fn parse(text: &str, min: u64) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self {
                ranges: vec![(min, u64::MAX)],
            });
        }
        let mut ranges = Vec::new();
        for part in text.split(',') {
            ranges.push(range(part.trim(), min)?);
        }
        Ok(Self::from_ranges(ranges))
    }

    fn from_ranges(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self { ranges: merged }
    }

    /// Is `number` in the set?
    pub fn contains(&self, number: u64) -> bool {
        match number.checked_sub(1) {
            Some(before) => self.next_after(before) == Some(number),
            None => self.ranges.first().is_some_and(|range| range.0 == 0),
        }
    }

    /// The smallest member above `after`.
    pub fn next_after(&self, after: u64) -> Option<u64> {
        let candidate = after.checked_add(1)?;
        let at = self.ranges.partition_point(|range| range.1 < candidate);
        self.ranges.get(at).map(|range| range.0.max(candidate))
    }
}

fn range(part: &str, min: u64) -> Result<(u64, u64), String> {
    let wanted =
        || format!("numbers from {min} up and ranges, separated by commas, e.g. 10,200-210,1000-");
    let (first, last) = match part.split_once('-') {
        None => {
            let only = digits_within(part, min).ok_or_else(wanted)?;
            (only, only)
        }
        Some((first, "")) => (digits_within(first, min).ok_or_else(wanted)?, u64::MAX),
        Some((first, last)) => {
            let first = digits_within(first, min).ok_or_else(wanted)?;
            (first, digits_within(last, min).ok_or_else(wanted)?)
        }
    };
    if first > last {
        return Err(format!(
            "ranges from the smaller to the larger number; {part} is reversed"
        ));
    }
    Ok((first, last))
}

fn digits_within(text: &str, min: u64) -> Option<u64> {
    if text.is_empty() {
        None
    } else {
        digits(text).filter(|number| *number >= min)
    }
}

/// A regular expression that an option gave, with its text.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        RegexBuilder::new(text)
            .size_limit(PATTERN_SIZE_LIMIT)
            .build()
            .map(|regex| Self { regex })
            .map_err(|error| format!("a regular expression; `{text}` is none: {error}"))
    }

    /// Does the pattern match anywhere in `text`?
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("64K", 65_536),
            ("64k", 65_536),
            ("256M", 256 << 20),
            ("8GiB", 8 << 30),
            ("2T", 2 << 40),
            ("12b", 12),
        ] {
            assert_eq!(size(text, 0), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "G",
            "-1",
            "1.5G",
            "8GB",
            "8 G",
            "0x10",
            "99999999999T",
            "+1",
        ] {
            assert!(size(text, 0).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_take_decimals_and_have_bounds() {
        assert_eq!(seconds("30"), Ok(Duration::from_secs(30)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "0", "-1", "inf", "nan", "1e3", "86401", ".", "1.2.3"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_merge_whatever_their_order() {
        let set = NumberSet::parse("200-210, 10,11,205-220,9", 1);
        assert_eq!(
            set,
            Ok(NumberSet {
                ranges: vec![(9, 11), (200, 220)]
            })
        );
    }

    #[test]
    fn an_open_range_goes_on_for_ever() {
        let set = NumberSet::parse("3,10-", 1).expect("valid");
        assert_eq!(set.next_after(3), Some(10));
        assert_eq!(set.next_after(u64::MAX - 1), Some(u64::MAX));
        assert_eq!(set.next_after(u64::MAX), None);
    }

    fn arbitrary_ranges() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0u64..200, 0u64..20).prop_map(|(a, n)| (a, a + n)), 1..8)
    }

    proptest! {
        #[test]
        fn a_set_holds_exactly_the_numbers_of_its_ranges(ranges in arbitrary_ranges()) {
            let text: Vec<_> = ranges.iter().map(|(a, b)| format!("{a}-{b}")).collect();
            let set = NumberSet::parse(&text.join(","), 0).expect("valid");
            for number in 0..240 {
                let named = ranges.iter().any(|(a, b)| (*a..=*b).contains(&number));
                prop_assert_eq!(set.contains(number), named, "{}", number);
            }
        }

        #[test]
        fn next_after_is_the_smallest_member_above(ranges in arbitrary_ranges(), after in 0u64..240) {
            let set = NumberSet::from_ranges(ranges);
            let expected = (after + 1..260).find(|number| set.contains(*number));
            prop_assert_eq!(set.next_after(after), expected);
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,40}") {
            let _ = (size(&text, 1), seconds(&text), NumberSet::parse(&text, 1), Pattern::parse(&text));
            let _ = (whole_number(&text, 1, 9), number_or_unlimited(&text), size_or_unlimited(&text));
        }
    }
}
