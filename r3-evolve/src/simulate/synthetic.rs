//! Spaces worked out from tables of effects, as TOML.
//!
//! A file sketches a kernel (what its description would say) and lists effects: where all conditions of one hold, its ratio is
//! a factor of the point's. Nothing of it was measured point by point; what the figures stand on is in the files' comments.

use std::collections::BTreeMap;
use std::path::Path;

use r3_archive::model::LaunchId;
use r3_codegen::recipe::Bounds;
use r3_replay::evaluate::Verdict;
use r3_replay::evaluate::describe::{
    Census, DeviceDescription, KernelDescription, LaunchDescription, ParamDescription,
};
use r3_replay::remix::trial::Used;
use serde::Deserialize;

use super::SimulateError;
use super::subject::{Source, Subject};
use crate::space::{Allowed, Point, Space, SpaceOptions, Value};
use crate::strategy::Told;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: String,
    about: String,
    #[serde(default)]
    noise: f64,
    kernel: Sketch,
    #[serde(default)]
    effect: Vec<Effect>,
    #[serde(default)]
    invalid: Vec<Invalid>,
    /// What the best point has, for checking how near a search comes.
    best: BTreeMap<String, Value>,
}

/// A kernel, as far as its space depends on it. What is left out is as in a plain kernel with one thread for each element.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sketch {
    block: [u32; 3],
    registers: u32,
    scalars: u32,
    pointers: u32,
    loops: u32,
    barriers: u32,
    shared: u32,
    loads: u32,
    divisions: u32,
    steps_by_grid: bool,
    /// exact, division, flush.
    approximate: String,
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            block: [256, 1, 1],
            registers: 40,
            scalars: 2,
            pointers: 2,
            loops: 1,
            barriers: 0,
            shared: 0,
            loads: 4,
            divisions: 0,
            steps_by_grid: false,
            approximate: "exact".to_owned(),
        }
    }
}

type Conditions = BTreeMap<String, Vec<Value>>;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Effect {
    when: Conditions,
    /// Numbers that must be at least so large.
    #[serde(default)]
    least: BTreeMap<String, i64>,
    ratio: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Invalid {
    when: Conditions,
    verdict: Verdict,
}

/// Effects of values, multiplied.
#[derive(Clone, Debug)]
pub struct Effects {
    effects: Vec<Effect>,
    invalid: Vec<Invalid>,
    best: BTreeMap<String, Value>,
}

fn hold(conditions: &Conditions, point: &Point) -> bool {
    conditions
        .iter()
        .all(|(name, values)| point.get(name).is_some_and(|value| values.contains(value)))
}

impl Effects {
    /// What a point is worth.
    #[must_use]
    pub fn of(&self, point: &Point) -> Told {
        self.with_powers(point, &[])
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.effects.len()
    }

    /// What a point is worth where each effect is what it is to some power.
    pub(super) fn with_powers(&self, point: &Point, powers: &[f64]) -> Told {
        if let Some(invalid) = self.invalid.iter().find(|one| hold(&one.when, point)) {
            return Told::Invalid(invalid.verdict);
        }
        let holding = self.effects.iter().enumerate().filter(|(_, effect)| {
            let large_enough = effect.least.iter().all(|(name, least)| {
                let number = point.get(name).and_then(Value::number);
                number.is_some_and(|number| number >= *least)
            });
            large_enough && hold(&effect.when, point)
        });
        let ratios = holding.map(|(at, effect)| match powers.get(at) {
            Some(power) => effect.ratio.powf(*power),
            None => effect.ratio,
        });
        Told::exactly(ratios.product())
    }

    /// What the best point is worth.
    pub(super) fn best(&self, space: &Space) -> f64 {
        let point = space.complete(&space.original().with(&self.best));
        self.of(&point).ratio().unwrap_or(f64::INFINITY)
    }
}

/// Reads one. `path` is for messages.
pub fn read(path: &Path, text: &str) -> Result<Subject, SimulateError> {
    let error = |offset: usize, message: String| SimulateError::Line {
        path: path.to_owned(),
        line: text
            .get(..offset)
            .unwrap_or_default()
            .lines()
            .count()
            .max(1),
        message,
    };
    let document: Document = toml::from_str(text).map_err(|problem| {
        let at = problem.span().map_or(0, |span| span.start);
        error(at, problem.message().to_owned())
    })?;
    let nothing = |message: String| SimulateError::Nothing {
        path: path.to_owned(),
        message,
    };
    let approximate = match document.kernel.approximate.as_str() {
        "exact" => Allowed::Exact,
        "division" => Allowed::Division,
        "flush" => Allowed::Flush,
        other => {
            return Err(nothing(format!(
                "approximate = `{other}`: exact, division or flush"
            )));
        }
    };
    let options = SpaceOptions {
        approximate,
        ..SpaceOptions::default()
    };
    let description = description(&document.name, &document.kernel);
    let space =
        Space::of_kernel(&description, &options).map_err(|problem| nothing(problem.to_string()))?;
    let names = document
        .effect
        .iter()
        .map(|effect| &effect.when)
        .chain(document.invalid.iter().map(|invalid| &invalid.when))
        .flatten();
    for (name, values) in names {
        let known = space.parameter(name);
        let parameter = known.ok_or_else(|| nothing(format!("there is no parameter `{name}`")))?;
        for value in values {
            parameter
                .domain
                .check(value)
                .map_err(|problem| nothing(format!("`{name}`: {problem}")))?;
        }
    }
    let best = space.complete(&space.original().with(&document.best));
    space
        .check(&best)
        .map_err(|problem| nothing(format!("[best]: {problem}")))?;
    Ok(Subject {
        name: document.name,
        synthetic: true,
        about: document.about,
        space,
        source: Source::Effects(Effects {
            effects: document.effect,
            invalid: document.invalid,
            best: document.best,
        }),
        noise: document.noise,
    })
}

/// What `describe` would say of a kernel on an H200.
fn description(name: &str, sketch: &Sketch) -> KernelDescription {
    let [x, y, z] = sketch.block;
    let dimensions = [true, y > 1, z > 1];
    let param = |index: u32, pointer: bool| ParamDescription {
        index,
        offset: 8 * index,
        size: if pointer { 8 } else { 4 },
        pointer,
        constant: (!pointer).then(|| vec![1, 0, 0, 0]),
        values: 1,
        target: None,
    };
    KernelDescription {
        archive: String::new(),
        name: name.to_owned(),
        readable: name.to_owned(),
        device: DeviceDescription {
            name: "NVIDIA H200".to_owned(),
            sm: 90,
            multiprocessors: 132,
            max_threads_per_block: 1024,
            max_threads_per_multiprocessor: 2048,
            registers_per_multiprocessor: 65_536,
            max_shared_per_block: 232_448,
            l2_bytes: 62_914_560,
            ..DeviceDescription::default()
        },
        forms: vec!["PTX".to_owned()],
        compilable: true,
        recorded_runs: true,
        used: Some(Used {
            registers: sketch.registers,
            local: 0,
            shared: sketch.shared,
        }),
        max_threads: 1024,
        bounds: Bounds::default(),
        required_block: None,
        census: Some(Census {
            instructions: 100,
            loops: sketch.loops,
            barriers: sketch.barriers,
            static_shared: sketch.shared,
            reads_block: dimensions,
            reads_grid: [sketch.steps_by_grid, false, false],
            reads_block_index: dimensions,
            global_loads: sketch.loads,
            global_stores: 1,
            exact_divisions: sketch.divisions,
            unflushed: sketch.divisions,
            float_operations: 10,
            ..Census::default()
        }),
        params: (0..sketch.pointers)
            .map(|index| param(index, true))
            .chain((0..sketch.scalars).map(|index| param(sketch.pointers + index, false)))
            .collect(),
        source: None,
        launches: vec![LaunchDescription {
            launch: LaunchId(1),
            grid: [1024, 1, 1],
            block: [x, y, z],
            dynamic_shared: 0,
            cooperative: false,
            weight: 1.0,
            bytes: 1 << 20,
            caveats: Vec::new(),
        }],
    }
}
