//! Pauses between attempts.
//!
//! They grow from attempt to attempt, and are spread at random, so that requests that failed together do not come back together. What
//! a service says in `Retry-After` is kept to.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::settings::Pauses;

impl Pauses {
    /// The pause after failure `failure`, from 1; between half of its length and all of it.
    pub fn after(&self, failure: u32, spread: &mut Spread) -> Duration {
        let doublings = failure.saturating_sub(1).min(30);
        let most = self.most.max(0.0);
        let length = (self.first.max(0.0) * f64::from(2_u32.pow(doublings))).min(most);
        Duration::try_from_secs_f64(length * (0.5 + 0.5 * spread.unit())).unwrap_or_default()
    }
}

/// Numbers that look random, by a seed.
#[derive(Clone, Debug)]
pub struct Spread(u64);

impl Spread {
    /// By a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn bits(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number from 0 to 1, 1 not included.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// More than this no service is waited for without another look.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The pause that a service wants, from its headers.
pub fn wanted<'a>(header: impl Fn(&str) -> Option<&'a str>, now: SystemTime) -> Option<Duration> {
    let milliseconds = || {
        let text = header("retry-after-ms")?;
        seconds(text).map(|ms| ms / 1000)
    };
    let after = || {
        let text = header("retry-after")?.trim();
        seconds(text).or_else(|| {
            let at = http_date(text)?;
            Some(at.duration_since(now).unwrap_or_default())
        })
    };
    milliseconds()
        .or_else(after)
        .map(|pause| pause.min(LONGEST))
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    // A number beyond all durations is the longest one.
    (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST * 1000))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that servers may still write.
fn http_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, rest) = text.split_once(',')?;
    let mut words = rest.split_whitespace();
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok()?;
    let mut clock = words.next()?.splitn(3, ':').map(str::parse::<u64>);
    let hour = clock.next()?.ok()?;
    let minute = clock.next()?.ok()?;
    let second = clock.next()?.ok()?;
    if words.next()? != "GMT"
        || !(1970..=9999).contains(&year)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    // Days of the civil calendar since 1970, with years that begin in March.
    let years = if month <= 2 { year - 1 } else { year };
    let era = years / 400;
    let of_era = years % 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    UNIX_EPOCH.checked_add(Duration::from_secs(
        days * 86_400 + hour * 3600 + minute * 60 + second,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&str, &'static str)]) -> Option<Duration> {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        wanted(
            |name| {
                headers
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, value)| *value)
            },
            now,
        )
    }

    #[test]
    fn the_pause_that_is_wanted_is_read_in_its_forms() {
        let s = Duration::from_secs;
        assert_eq!(of(&[("retry-after", "20")]), Some(s(20)));
        assert_eq!(
            of(&[("retry-after", " 1.5 ")]),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            of(&[("retry-after-ms", "250"), ("retry-after", "1")]),
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            of(&[("retry-after", "Sun, 06 Nov 1994 08:50:00 GMT")]),
            Some(s(23))
        );
        assert_eq!(
            of(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]),
            Some(s(0))
        );
        assert_eq!(of(&[("retry-after", "1e300")]), Some(LONGEST));
        for nothing in [
            "",
            "soon",
            "-1",
            "NaN",
            "Sun, 99 Nov 1994 08:50:00 GMT",
            "Sun, 06 Nov",
        ] {
            assert_eq!(of(&[("retry-after", nothing)]), None, "{nothing}");
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread() {
        let pauses = Pauses {
            first: 1.0,
            most: 8.0,
        };
        let mut spread = Spread::new(7);
        for (failure, length) in [
            (1, 1.0),
            (2, 2.0),
            (3, 4.0),
            (4, 8.0),
            (5, 8.0),
            (u32::MAX, 8.0),
        ] {
            let pause = pauses.after(failure, &mut spread).as_secs_f64();
            assert!(
                (length / 2.0..=length).contains(&pause),
                "{failure}: {pause}"
            );
        }
        assert_ne!(pauses.after(3, &mut spread), pauses.after(3, &mut spread));
    }
}
