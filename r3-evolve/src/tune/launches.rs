//! Which recorded launches decide, and which only check.
//!
//! A candidate can be right by luck on the launches that it was chosen by: it may have taken in their data or their sizes. So
//! some launches do not count for the score, and a candidate must be right on them too.
//!
//! - With two or more launches, a quarter (rounded, at least one) is held out, unless that is set otherwise.
//! - A launch whose shape has another launch goes first, the one recorded last before the others: every shape that can stays
//!   among those that decide. Where all shapes differ, those that stand for the fewest launches of the application go.
//! - Those that decide are limited in number: the shapes that stand for most launches, one of each shape first. The others are
//!   held out as well.
//! - While the search runs a few of the held-out ones are checked for every candidate, and all of them before anything is
//!   claimed.

use std::collections::BTreeMap;

use r3_archive::model::LaunchId;
use r3_replay::evaluate::describe::LaunchDescription;
use r3_replay::evaluate::plan::Weighted;
use serde::{Deserialize, Serialize};

/// How launches are held out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldOut {
    /// A quarter of them.
    #[default]
    Quarter,
    /// This part of them, 0 to below 1.
    Part(f64),
    /// These.
    These(Vec<u64>),
}

impl std::str::FromStr for HeldOut {
    type Err = String;

    /// `0.25`, or launches: `3,7`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is neither a part (0 to below 1) nor a list of launches, e.g. `0.25` or `3,7`"
            )
        };
        if text.contains('.') || text == "0" {
            let part: f64 = text.parse().map_err(|_| wrong())?;
            return (0.0..1.0)
                .contains(&part)
                .then_some(Self::Part(part))
                .ok_or_else(wrong);
        }
        text.split(',')
            .map(|id| id.trim().parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()
            .map(Self::These)
    }
}

/// Which launches do what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Those that decide.
    pub tuned: Vec<Weighted>,
    /// Those that check every candidate.
    pub gate: Vec<LaunchId>,
    /// Those that check before anything is claimed; `gate` is among them.
    pub held_out: Vec<LaunchId>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Limits of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Launches that decide, at most.
    pub tuned: usize,
    /// Launches that check every candidate, at most.
    pub gate: usize,
}

/// Why there is no choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// There is nothing to choose from.
    #[error("no recorded launch of the kernel can be used here{}", reasons(.0))]
    Nothing(Vec<String>),
    /// A launch that is to be held out is none of the kernel's.
    #[error(
        "launch {0}, which is to be held out, is no usable launch of this kernel; there are {1}"
    )]
    NoLaunch(u64, String),
    /// Nothing would be left to decide.
    #[error("all launches are held out, and none is left to decide")]
    AllHeldOut,
}

fn reasons(reasons: &[String]) -> String {
    match reasons {
        [] => String::new(),
        reasons => format!(": {}", reasons.join("; ")),
    }
}

/// Reasons of launches, each reason once: `launches 1, 2: no code`.
pub(super) fn told_once(reasons: impl IntoIterator<Item = (LaunchId, String)>) -> Vec<String> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for (launch, reason) in reasons {
        match told.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, launches)) => launches.push(launch.to_string()),
            None => told.push((reason, vec![launch.to_string()])),
        }
    }
    let lines = told.into_iter().map(|(reason, launches)| {
        let word = if launches.len() == 1 {
            "launch"
        } else {
            "launches"
        };
        format!("{word} {}: {reason}", launches.join(", "))
    });
    lines.collect()
}

type Shape = ([u32; 3], [u32; 3], u32);

fn shape(launch: &LaunchDescription) -> Shape {
    (launch.grid, launch.block, launch.dynamic_shared)
}

/// Chooses among launches that can be used.
pub fn choose(
    launches: &[LaunchDescription],
    held_out: &HeldOut,
    limits: Limits,
) -> Result<Choice, ChoiceError> {
    let mut launches: Vec<&LaunchDescription> = launches.iter().collect();
    launches.sort_by_key(|launch| launch.launch);
    if launches.is_empty() {
        return Err(ChoiceError::Nothing(Vec::new()));
    }
    let out = match held_out {
        HeldOut::These(ids) => named(&launches, ids)?,
        HeldOut::Quarter => pick(&launches, part(launches.len(), 0.25, 1)),
        HeldOut::Part(of) => pick(&launches, part(launches.len(), *of, usize::from(*of > 0.0))),
    };
    let (mut kept, mut out): (Vec<_>, Vec<_>) = launches
        .into_iter()
        .partition(|launch| !out.contains(&launch.launch));
    if kept.is_empty() {
        return Err(ChoiceError::AllHeldOut);
    }
    let mut notes = Vec::new();
    let total: f64 = kept.iter().map(|launch| launch.weight).sum();
    if kept.len() > limits.tuned {
        let all = kept.len();
        let first = representatives(kept.iter().copied(), limits.tuned.max(1));
        let (deciding, others): (Vec<_>, Vec<_>) = kept
            .into_iter()
            .partition(|launch| first.contains(&launch.launch));
        let weight: f64 = deciding.iter().map(|launch| launch.weight).sum();
        notes.push(format!(
            "{} of {all} launches decide; they stand for {:.0} % of the application's launches, and the others are held out",
            deciding.len(),
            100.0 * weight / total.max(f64::MIN_POSITIVE)
        ));
        kept = deciding;
        out.extend(others);
        out.sort_by_key(|launch| launch.launch);
    }
    if out.is_empty() {
        notes.push("no launch is held out: what is found is verified only on launches that it was chosen by".to_owned());
    }
    // Small ones check faster; among equals the last ones differ most from the first.
    let mut gate = out.clone();
    gate.sort_by_key(|launch| (launch.bytes, std::cmp::Reverse(launch.launch)));
    gate.truncate(limits.gate);
    let mut gate: Vec<LaunchId> = gate.iter().map(|launch| launch.launch).collect();
    gate.sort();
    Ok(Choice {
        tuned: kept
            .iter()
            .map(|launch| Weighted {
                launch: launch.launch,
                weight: launch.weight,
            })
            .collect(),
        gate,
        held_out: out.iter().map(|launch| launch.launch).collect(),
        notes,
    })
}

fn named(launches: &[&LaunchDescription], ids: &[u64]) -> Result<Vec<LaunchId>, ChoiceError> {
    ids.iter()
        .map(|id| {
            let known = launches.iter().any(|launch| launch.launch.0 == *id);
            known.then_some(LaunchId(*id)).ok_or_else(|| {
                let all: Vec<_> = launches.iter().map(|l| l.launch.to_string()).collect();
                ChoiceError::NoLaunch(*id, all.join(", "))
            })
        })
        .collect()
}

/// How many of `count` are a part, so that one is left.
fn part(count: usize, part: f64, least: usize) -> usize {
    let wanted = (count as f64 * part).round() as usize;
    wanted.max(least).min(count.saturating_sub(1))
}

/// The `count` launches to be held out.
fn pick(launches: &[&LaunchDescription], count: usize) -> Vec<LaunchId> {
    let mut left: BTreeMap<Shape, usize> = BTreeMap::new();
    for launch in launches {
        *left.entry(shape(launch)).or_default() += 1;
    }
    let mut out = Vec::new();
    // Of each shape in turn, so that not all come from one.
    while out.len() < count {
        let before = out.len();
        let mut shapes_taken = Vec::new();
        for launch in launches.iter().rev() {
            let shape = shape(launch);
            let Some(rest) = left.get_mut(&shape) else {
                continue;
            };
            if out.len() < count
                && *rest > 1
                && !shapes_taken.contains(&shape)
                && !out.contains(&launch.launch)
            {
                *rest -= 1;
                shapes_taken.push(shape);
                out.push(launch.launch);
            }
        }
        if out.len() == before {
            break;
        }
    }
    let mut rare: Vec<_> = launches
        .iter()
        .filter(|launch| !out.contains(&launch.launch))
        .collect();
    rare.sort_by(|a, b| a.weight.total_cmp(&b.weight).then(b.launch.cmp(&a.launch)));
    let missing = count.saturating_sub(out.len());
    out.extend(rare.iter().take(missing).map(|launch| launch.launch));
    out
}

/// The `count` launches that stand for most: one of each shape, by weight of the shape, then more of them.
pub(super) fn representatives<'l>(
    launches: impl IntoIterator<Item = &'l LaunchDescription>,
    count: usize,
) -> Vec<LaunchId> {
    let mut shapes: BTreeMap<Shape, (f64, Vec<LaunchId>)> = BTreeMap::new();
    for launch in launches {
        let (weight, ids) = shapes.entry(shape(launch)).or_default();
        *weight += launch.weight;
        ids.push(launch.launch);
    }
    let mut shapes: Vec<_> = shapes.into_values().collect();
    shapes.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let deepest = shapes.iter().map(|(_, ids)| ids.len()).max().unwrap_or(0);
    (0..deepest)
        .flat_map(|depth| shapes.iter().filter_map(move |(_, ids)| ids.get(depth)))
        .copied()
        .take(count)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_that_fail_alike_are_told_with_one_reason() {
        let all = [(1, "no code"), (2, "too large"), (3, "no code")];
        let all = all.map(|(id, reason)| (LaunchId(id), reason.to_owned()));
        assert_eq!(
            told_once(all),
            ["launches 1, 3: no code", "launch 2: too large"]
        );
    }

    fn launch(id: u64, grid: u32, weight: f64) -> LaunchDescription {
        LaunchDescription {
            launch: LaunchId(id),
            grid: [grid, 1, 1],
            block: [256, 1, 1],
            dynamic_shared: 0,
            cooperative: false,
            weight,
            bytes: 1000,
            caveats: Vec::new(),
        }
    }

    const LIMITS: Limits = Limits { tuned: 8, gate: 2 };

    fn ids(choice: &Choice) -> (Vec<u64>, Vec<u64>) {
        (
            choice.tuned.iter().map(|w| w.launch.0).collect(),
            choice.held_out.iter().map(|id| id.0).collect(),
        )
    }

    #[test]
    fn a_single_launch_decides_and_that_is_said() {
        let choice = choose(&[launch(1, 4, 1.0)], &HeldOut::Quarter, LIMITS).unwrap();
        assert_eq!(ids(&choice), (vec![1], vec![]));
        assert!(choice.notes[0].contains("no launch is held out"));
    }

    #[test]
    fn a_quarter_is_held_out_and_every_shape_keeps_a_launch() {
        let launches: Vec<_> = [4, 4, 4, 8, 8, 16, 32, 64]
            .iter()
            .zip(1..)
            .map(|(grid, id)| launch(id, *grid, 1.0))
            .collect();
        let choice = choose(&launches, &HeldOut::Quarter, LIMITS).unwrap();
        assert_eq!(ids(&choice), (vec![1, 2, 4, 6, 7, 8], vec![3, 5]));
        assert_eq!(choice.gate, [LaunchId(3), LaunchId(5)]);
    }

    #[test]
    fn where_all_shapes_differ_the_rarest_goes() {
        let launches = [launch(1, 4, 5.0), launch(2, 8, 1.0), launch(3, 16, 90.0)];
        let choice = choose(&launches, &HeldOut::Quarter, LIMITS).unwrap();
        assert_eq!(ids(&choice), (vec![1, 3], vec![2]));
    }

    #[test]
    fn too_many_launches_leave_the_shapes_that_stand_for_most() {
        let launches: Vec<_> = (1..=20)
            .map(|id| launch(id, (id % 5) as u32, if id % 5 == 0 { 100.0 } else { 1.0 }))
            .collect();
        let limits = Limits { tuned: 3, gate: 1 };
        let choice = choose(&launches, &HeldOut::Part(0.0), limits).unwrap();
        let (tuned, held_out) = ids(&choice);
        assert_eq!(tuned.len(), 3);
        assert!(tuned.contains(&5), "{tuned:?}");
        assert_eq!((held_out.len(), choice.gate.len()), (17, 1));
        assert!(
            choice.notes[0].contains("3 of 20 launches decide"),
            "{:?}",
            choice.notes
        );
    }

    #[test]
    fn launches_can_be_named_and_one_that_is_not_there_is_an_error() {
        let launches = [launch(1, 4, 1.0), launch(2, 4, 1.0)];
        let choice = choose(&launches, &"1".parse().unwrap(), LIMITS).unwrap();
        assert_eq!(ids(&choice), (vec![2], vec![1]));
        let error = choose(&launches, &"3".parse().unwrap(), LIMITS).unwrap_err();
        assert_eq!(error, ChoiceError::NoLaunch(3, "1, 2".into()));
        let all = choose(&launches, &"1,2".parse().unwrap(), LIMITS).unwrap_err();
        assert_eq!(all, ChoiceError::AllHeldOut);
        assert_eq!("0.5".parse(), Ok(HeldOut::Part(0.5)));
        assert!("1.5".parse::<HeldOut>().is_err() && "a".parse::<HeldOut>().is_err());
    }
}
