//! The variant that a model starts from, and how it did.

use std::fmt::Write as _;

use r3_replay::evaluate::describe::{DeviceDescription, KernelDescription};
use r3_replay::evaluate::outcome::{Behaviour, Outcome, Role};
use r3_replay::remix::pairs::Ratio;

use super::examples::regions;
use super::head::amount;
use super::target::Target;
use super::text::one_line;
use crate::evolve::variant::VariantNumber;
use crate::result::text::ratio;

/// The variant to start from.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// Its number.
    pub number: VariantNumber,
    /// Its file and regions.
    pub target: Target,
    /// How it did; `None` when it was not right.
    pub measured: Option<Measured>,
    /// What was tried on it before and came to nothing, in a line each, latest last.
    pub tried: Vec<String>,
}

/// What is known of a variant that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Time against the captured binary, with what a model can use of the rest: a line each.
    pub lines: Vec<String>,
    /// What limits it, in words; empty when nothing says so.
    pub limits: Vec<String>,
}

/// What the launches that count took.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Nanoseconds of the variant, all such launches once.
    nanoseconds: f64,
    /// Bytes that belong to them.
    bytes: f64,
    /// The least number of blocks.
    blocks: Option<u64>,
}

impl Measured {
    /// Of the outcome of its best configuration, which is told in words. `source` is the unchanged source against the captured binary.
    pub fn of(
        outcome: &Outcome,
        kernel: &KernelDescription,
        source: Option<Ratio>,
        configuration: Option<&str>,
    ) -> Self {
        let mut lines = Vec::new();
        if let Some(score) = &outcome.score {
            let mut line = format!("Time: {} of the captured binary's", ratio(&score.ratio));
            if let Some(source) = source.filter(|source| source.median > 0.0) {
                let _ = write!(
                    line,
                    ", {:.3} of the source's as given",
                    score.ratio.median / source.median
                );
            }
            lines.push(line);
            if score.worst > score.ratio.median * 1.01 && outcome.launches.len() > 1 {
                lines.push(format!("The launch that gains least: {:.3}", score.worst));
            }
        }
        let code = outcome.code.as_ref();
        let behaviour = code.and_then(|code| code.behaviour.as_ref());
        if let Some(behaviour) = behaviour {
            lines.extend(of_code(behaviour));
        }
        let taken = taken(outcome, kernel);
        let device = &kernel.device;
        let bandwidth = bandwidth(taken, device);
        if let Some((rate, share)) = bandwidth {
            lines.push(format!(
                "Its memory once over in its time: {} a second, {:.0} % of the device's bandwidth",
                amount(rate),
                share * 100.0
            ));
        }
        if let Some(configuration) = configuration.filter(|text| !text.is_empty()) {
            lines.push(format!(
                "Best configuration so far: {}",
                one_line(configuration, 600)
            ));
        }
        Self {
            lines,
            limits: limits(behaviour, taken, bandwidth.map(|(_, share)| share), device),
        }
    }
}

fn of_code(behaviour: &Behaviour) -> Vec<String> {
    let mut lines = Vec::new();
    let mut uses = Vec::new();
    if let Some(registers) = behaviour.registers {
        uses.push(format!("{registers} registers"));
    }
    match (behaviour.spilled, behaviour.local) {
        (Some(0), 0) => uses.push("nothing spilled".to_owned()),
        (Some(spilled), local) => uses.push(format!(
            "{spilled} bytes spilled, {local} bytes of local memory"
        )),
        (None, 0) => {}
        (None, local) => uses.push(format!("{local} bytes of local memory")),
    }
    let shared = behaviour.static_shared + behaviour.dynamic_shared;
    uses.push(format!("{shared} bytes of shared memory"));
    if let Some(occupancy) = behaviour.occupancy {
        uses.push(format!("occupancy {:.0} %", occupancy * 100.0));
    }
    lines.push(format!("It uses {}", uses.join(", ")));
    if behaviour.widest_load > 0 || behaviour.widest_store > 0 {
        lines.push(format!(
            "Widest access to global memory: {} bytes loaded, {} bytes stored by one instruction",
            behaviour.widest_load, behaviour.widest_store
        ));
    }
    let mut kinds: Vec<(&str, u32)> = behaviour
        .mix
        .kinds()
        .into_iter()
        .filter(|(name, count)| *count > 0 && *name != "other")
        .collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if !kinds.is_empty() {
        let kinds: Vec<String> = kinds
            .iter()
            .take(6)
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        lines.push(format!(
            "Instructions in its text, by kind: {}",
            kinds.join(", ")
        ));
    }
    lines
}

fn taken(outcome: &Outcome, kernel: &KernelDescription) -> Taken {
    let mut taken = Taken::default();
    for launch in outcome
        .launches
        .iter()
        .filter(|launch| launch.role == Role::Tuned)
    {
        let described = kernel
            .launches
            .iter()
            .find(|described| described.launch == launch.launch);
        let (Some(described), Some(timing)) = (described, launch.times.first()) else {
            continue;
        };
        if timing.unit != r3_replay::evaluate::outcome::Unit::Nanoseconds {
            continue;
        }
        taken.nanoseconds += timing.candidate;
        taken.bytes += described.bytes as f64;
        let blocks = described
            .grid
            .iter()
            .map(|blocks| u64::from(*blocks))
            .product();
        taken.blocks = Some(taken.blocks.map_or(blocks, |least| least.min(blocks)));
    }
    taken
}

/// Bytes a second, and which part of the device's bandwidth that is.
fn bandwidth(taken: Taken, device: &DeviceDescription) -> Option<(f64, f64)> {
    let known = taken.nanoseconds > 0.0 && device.memory_bandwidth > 0.0;
    known.then(|| {
        let rate = taken.bytes / taken.nanoseconds * 1e9;
        (rate, rate / device.memory_bandwidth)
    })
}

/// Below this, launches are mostly what it takes to launch at all.
const SHORT_NANOSECONDS: f64 = 5_000.0;

fn limits(
    behaviour: Option<&Behaviour>,
    taken: Taken,
    bandwidth: Option<f64>,
    device: &DeviceDescription,
) -> Vec<String> {
    let mut limits = Vec::new();
    if device.counts {
        limits.push("the number of instructions: nothing else costs on this device".to_owned());
    }
    if bandwidth.is_some_and(|share| share > 0.6) {
        limits.push("bandwidth of device memory: fewer bytes, or bytes that stay in caches, are what is left to win".to_owned());
    }
    if let Some(behaviour) = behaviour {
        if behaviour.spilled.is_some_and(|bytes| bytes > 0) {
            limits.push("registers: some are spilled into local memory".to_owned());
        } else if behaviour.local > 0 {
            limits.push("arrays of a thread lie in local memory: indices that are known when compiling keep them in registers".to_owned());
        }
        if behaviour
            .occupancy
            .is_some_and(|occupancy| occupancy < 0.34)
            && !device.counts
        {
            limits.push("occupancy is low: little hides the latency of memory, unless each thread has many independent operations".to_owned());
        }
    }
    if let Some(blocks) = taken
        .blocks
        .filter(|blocks| *blocks < u64::from(device.multiprocessors))
    {
        limits.push(format!(
            "parallelism: {blocks} blocks for {} multiprocessors",
            device.multiprocessors
        ));
    }
    if taken.nanoseconds > 0.0 && taken.nanoseconds < SHORT_NANOSECONDS {
        limits.push(format!(
            "the launch itself: all launches take {:.1} µs",
            taken.nanoseconds / 1e3
        ));
    }
    if limits.is_empty() && bandwidth.is_some_and(|share| share < 0.3) {
        limits.push(
            "not bandwidth: arithmetic, latency of memory, or how memory is accessed".to_owned(),
        );
    }
    limits
}

/// Lines of measurements and of what was tried before that are shown where there is little room.
const FEW: usize = 2;

/// The parent as a part of a prompt. `short`: there is little room.
pub(super) fn shown(parent: &Parent, short: bool) -> String {
    let most = if short { FEW } else { usize::MAX };
    let mut text = format!("# The parent: variant {}\n\n", parent.number.0);
    if let Some(measured) = &parent.measured {
        for line in measured.lines.iter().take(most) {
            let _ = writeln!(text, "- {}", one_line(line, 800));
        }
        if !measured.limits.is_empty() {
            let _ = writeln!(
                text,
                "- What limits it: {}",
                one_line(&measured.limits.join("; "), 800)
            );
        }
        text.push('\n');
    }
    text.push_str("What may be changed of it:\n\n");
    text.push_str(&regions(&parent.target.texts()));
    if !parent.tried.is_empty() {
        text.push_str("\nTried on it before, without success:\n");
        // The latest are last.
        let before = parent.tried.len().saturating_sub(most);
        for line in parent.tried.iter().skip(before) {
            let _ = writeln!(text, "- {}", one_line(line, 300));
        }
    }
    text.push('\n');
    text
}
