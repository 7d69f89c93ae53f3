//! Requests and tokens in any minute.
//!
//! A window that slides: what was sent within the last minute counts, with what it was expected to take until it is known what it took.

use std::collections::VecDeque;
use std::time::Duration;

/// The window.
const MINUTE: Duration = Duration::from_secs(60);

/// What was sent, to be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent(u64);

/// A limit.
#[derive(Clone, Debug, Default)]
pub struct Limit {
    requests: Option<u64>,
    tokens: Option<u64>,
    sent: VecDeque<(Duration, Sent, u64)>,
    next: u64,
}

impl Limit {
    /// So many requests and tokens in any minute.
    pub fn new(requests: Option<u64>, tokens: Option<u64>) -> Self {
        Self {
            requests,
            tokens,
            ..Self::default()
        }
    }

    /// Takes a request that will take about `tokens`, or says when to ask again. What alone is more than the limit goes when nothing
    /// else is in the window: it would wait for ever else.
    pub fn take(&mut self, now: Duration, tokens: u64) -> Result<Sent, Duration> {
        self.forget(now);
        let mut left = self.sent.len() as u64;
        let mut sum: u64 = self.sent.iter().map(|(_, _, tokens)| *tokens).sum();
        let fits = |left: u64, sum: u64| {
            left == 0
                || self.requests.is_none_or(|most| left < most)
                    && self
                        .tokens
                        .is_none_or(|most| sum.saturating_add(tokens) <= most)
        };
        if fits(left, sum) {
            let sent = Sent(self.next);
            self.next += 1;
            if self.requests.is_some() || self.tokens.is_some() {
                self.sent.push_back((now, sent, tokens));
            }
            return Ok(sent);
        }
        for (at, _, tokens) in &self.sent {
            left -= 1;
            sum -= tokens;
            if fits(left, sum) {
                return Err(*at + MINUTE);
            }
        }
        Err(now + MINUTE)
    }

    /// It took so many tokens.
    pub fn correct(&mut self, sent: Sent, tokens: u64) {
        if let Some(entry) = self.sent.iter_mut().find(|(_, s, _)| *s == sent) {
            entry.2 = tokens;
        }
    }

    fn forget(&mut self, now: Duration) {
        while self
            .sent
            .front()
            .is_some_and(|(at, _, _)| *at + MINUTE <= now)
        {
            self.sent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_expected_is_corrected_by_what_it_took() {
        let mut limit = Limit::new(None, Some(1000));
        let first = limit.take(at(0), 900).unwrap();
        assert_eq!(limit.take(at(1), 200), Err(at(60)));
        limit.correct(first, 100);
        assert!(limit.take(at(1), 200).is_ok());
    }

    #[test]
    fn more_than_the_limit_goes_alone() {
        let mut limit = Limit::new(Some(10), Some(1000));
        assert!(limit.take(at(0), 5000).is_ok());
        assert_eq!(limit.take(at(1), 5000), Err(at(60)));
        assert!(limit.take(at(60), 5000).is_ok());
    }

    proptest! {
        #[test]
        fn no_minute_has_more_than_the_limit(
            requests in 1u64..6, tokens in 50u64..300, asked in proptest::collection::vec((0u64..20, 1u64..50), 1..80)
        ) {
            let mut limit = Limit::new(Some(requests), Some(tokens));
            let mut now = Duration::ZERO;
            let mut sent: Vec<(Duration, u64)> = Vec::new();
            for (pause, want) in asked {
                now += at(pause);
                while let Err(later) = limit.take(now, want) {
                    prop_assert!(later > now);
                    now = later;
                }
                sent.push((now, want));
                let window: Vec<_> = sent.iter().filter(|(at, _)| *at + MINUTE > now).collect();
                prop_assert!(window.len() as u64 <= requests);
                prop_assert!(window.iter().map(|(_, tokens)| tokens).sum::<u64>() <= tokens);
            }
        }
    }
}
