//! Where the devices' time of a run went.

use r3_replay::evaluate::outcome::Parts;

use super::Failure;
use crate::store::Store;

/// Parts below this are not told.
const LEAST: f64 = 0.005;

/// What is known of the evaluations of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    evaluations: u64,
    /// Milliseconds in the device's worker.
    device: f64,
    parts: Parts,
}

/// Lines about it; none where nothing was measured.
pub fn lines(store: &Store) -> Result<Vec<String>, Failure> {
    let mut times = Times::default();
    for evaluation in store.evaluations(None).map_err(Failure::new)? {
        let Some(outcome) = evaluation.outcome else {
            continue;
        };
        // One that shares another's outcome took no time.
        if evaluation.same_as.is_none() && outcome.cost.runs > 0 {
            times.evaluations += 1;
            times.device += outcome.cost.device;
            times.parts.add(&outcome.cost.parts);
        }
    }
    Ok(times.lines())
}

impl Times {
    fn lines(&self) -> Vec<String> {
        let done: f64 = self.parts.done().iter().map(|(_, time)| time).sum();
        // Runs of before that was measured have none.
        if self.evaluations == 0 || done <= 0.0 {
            return Vec::new();
        }
        let whole = self.device.max(done);
        let each = 1.0 / self.evaluations as f64;
        let share = |parts: &[(&'static str, f64)]| {
            let told: f64 = parts.iter().map(|(_, time)| time).sum();
            let mut parts = parts.to_vec();
            parts.push(("other", (whole - told).max(0.0)));
            parts.sort_by(|one, other| other.1.total_cmp(&one.1));
            let parts = parts.iter().filter(|(_, time)| time / whole >= LEAST);
            let parts = parts.map(|(name, time)| format!("{name} {:.0} %", 100.0 * time / whole));
            parts.collect::<Vec<_>>().join(", ")
        };
        let moved = |bytes: u64| bytes as f64 * each / f64::from(1 << 20);
        vec![
            format!(
                "device time      {:.1} ms an evaluation: {}",
                self.device * each,
                share(&self.parts.done())
            ),
            format!("  for            {}", share(&self.parts.purposes())),
            format!(
                "  memory         {:.1} MiB an evaluation put back, {:.1} MiB read to compare",
                moved(self.parts.restored_bytes),
                moved(self.parts.compared_bytes)
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_with_the_largest_first_and_what_is_missing_is_other() {
        let times = Times {
            evaluations: 4,
            device: 400.0,
            parts: Parts {
                load: 20.0,
                restore: 164.0,
                run: 120.0,
                compare: 1.0,
                judged: 80.0,
                timed: 300.0,
                restored_bytes: 40 << 20,
                compared_bytes: 400 << 20,
                ..Parts::default()
            },
        };
        assert_eq!(
            times.lines(),
            [
                "device time      100.0 ms an evaluation: restore 41 %, run 30 %, other 24 %, load 5 %",
                "  for            timing 75 %, verdict 20 %, other 5 %",
                "  memory         10.0 MiB an evaluation put back, 100.0 MiB read to compare",
            ]
        );
        assert!(Times::default().lines().is_empty());
        let old = Times {
            evaluations: 3,
            device: 10.0,
            ..Times::default()
        };
        assert!(old.lines().is_empty());
    }
}
