//! When elites travel, and where to.

use std::fmt;
use std::str::FromStr;

use r3_codegen::passes::Random;
use serde::{Deserialize, Serialize};

use crate::evolve::variant::IslandNumber;

/// When elites travel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Never.
    Never,
    /// Whenever so many slots were told of, over all islands.
    Slots(u64),
    /// Whenever so many seconds have gone by. The clock decides then: who holds it stores when it did.
    Seconds(f64),
}

/// To whom an island sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// To the next one, the last one to the first.
    #[default]
    Ring,
    /// To another one, drawn in each round.
    Random,
}

/// How elites travel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Migration {
    /// When.
    pub schedule: Schedule,
    /// Where to.
    pub topology: Topology,
    /// Elites that each island sends in a round: its best, and others at random.
    pub count: usize,
}

impl Default for Migration {
    fn default() -> Self {
        Self {
            schedule: Schedule::Slots(64),
            topology: Topology::Ring,
            count: 2,
        }
    }
}

impl Schedule {
    /// Whether a round is due: `slots` told of and `seconds` gone by since the beginning, `rounds` done so far.
    #[must_use]
    pub fn due(self, slots: u64, seconds: f64, rounds: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Slots(every) => slots.checked_div(every).is_some_and(|due| due > rounds),
            Self::Seconds(every) => every > 0.0 && seconds >= every * (rounds + 1) as f64,
        }
    }
}

impl Topology {
    /// Its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Random => "random",
        }
    }

    /// To whom an island sends; `None` when it is alone.
    #[must_use]
    pub fn to(self, from: IslandNumber, islands: u32, random: &mut Random) -> Option<IslandNumber> {
        if islands < 2 {
            return None;
        }
        let step = match self {
            Self::Ring => 1,
            // Any but itself.
            Self::Random => 1 + random.below(u64::from(islands) - 1),
        };
        let to = (u64::from(from.0) + step) % u64::from(islands);
        u32::try_from(to).ok().map(IslandNumber)
    }
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Ring, Self::Random]
            .into_iter()
            .find(|topology| topology.word() == text)
            .ok_or_else(|| format!("`{text}` is no topology: ring or random"))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Slots(slots) => write!(f, "{slots}"),
            Self::Seconds(seconds) => write!(f, "{seconds}s"),
        }
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || {
            format!(
                "`{text}` is no schedule: a number of proposals (`64`), an interval (`90s`, `30m`, `2h`), or `never`"
            )
        };
        if text == "never" {
            return Ok(Self::Never);
        }
        for (unit, seconds) in [("s", 1.0), ("m", 60.0), ("h", 3600.0)] {
            if let Some(count) = text.strip_suffix(unit) {
                let count: f64 = count.trim().parse().map_err(|_| error())?;
                let interval = count * seconds;
                return if interval > 0.0 && interval.is_finite() {
                    Ok(Self::Seconds(interval))
                } else {
                    Err(error())
                };
            }
        }
        match text.parse() {
            Ok(0) | Err(_) => Err(error()),
            Ok(slots) => Ok(Self::Slots(slots)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_come_by_slots_or_by_seconds_and_are_not_lost() {
        let by_slots = Schedule::Slots(10);
        assert!(!by_slots.due(9, 0.0, 0) && by_slots.due(10, 0.0, 0) && !by_slots.due(19, 0.0, 1));
        // Two that became due at once are two.
        assert!(by_slots.due(25, 0.0, 1));
        let by_time = Schedule::Seconds(60.0);
        assert!(!by_time.due(1000, 59.0, 0) && by_time.due(0, 60.0, 0) && !by_time.due(0, 60.0, 1));
        assert!(!Schedule::Never.due(u64::MAX, f64::MAX, 0));
    }

    #[test]
    fn schedules_read_as_they_are_written() {
        for text in ["never", "64", "90s"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        assert_eq!("2h".parse(), Ok(Schedule::Seconds(7200.0)));
        for text in ["0", "-5s", "often", "0s", "NaNs"] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_island_sends_to_itself_or_to_one_that_does_not_exist() {
        let mut random = Random::new(1);
        for islands in 2..6 {
            for from in 0..islands {
                let ring = Topology::Ring.to(IslandNumber(from), islands, &mut random);
                assert_eq!(ring, Some(IslandNumber((from + 1) % islands)));
                for _ in 0..50 {
                    let to = Topology::Random.to(IslandNumber(from), islands, &mut random);
                    let to = to.unwrap().0;
                    assert!(to < islands && to != from);
                }
            }
        }
        assert_eq!(Topology::Ring.to(IslandNumber(0), 1, &mut random), None);
    }
}
