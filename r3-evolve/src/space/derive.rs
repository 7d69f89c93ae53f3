//! The parameters of a kernel, each with the reason why it is in or out.
//!
//! Figures in the reasons are those of 46 kernels on an H200: see `data/prior.toml`.

use std::collections::BTreeMap;

use r3_replay::evaluate::describe::{Census, KernelDescription};

use super::shapes::{self, Shapes, spell};
use super::{Condition, Domain, KernelFacts, Never, Parameter, Space, Value};

mod lifted;
mod text;

/// How inexact arithmetic may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Allowed {
    /// Not at all.
    #[default]
    Exact,
    /// Approximate division, square root and reciprocal.
    Division,
    /// Subnormal numbers are flushed too.
    Flush,
    /// Everything that `-use_fast_math` does.
    FastMath,
}

/// What the user wants of a space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceOptions {
    /// How inexact arithmetic may be; more than exact needs a tolerance.
    pub approximate: Allowed,
    /// What is left out by default and shall be tried: parameters (`block`), or values of them (`load_cache=cg`).
    pub with: Vec<String>,
    /// Parameters that shall not be tried.
    pub without: Vec<String>,
}

/// Why options mean nothing for a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such parameter.
    #[error("`{name}` is no parameter of this kernel's space: {known}")]
    Parameter {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A parameter has no such value.
    #[error("`{name}` has no value `{value}`: {known}")]
    Value {
        /// The parameter.
        name: String,
        /// What was asked for.
        value: String,
        /// Those that there are.
        known: String,
    },
}

/// Threads of a block at most where the device does not say.
const MOST_THREADS: u32 = 1024;

/// Scalars of which each is tried as the only constant.
const SINGLE_CONSTANTS: usize = 6;

/// Passes in a sequence at most.
const LONGEST_SEQUENCE: usize = 12;

impl Space {
    /// What can be varied for a kernel. Nothing of a kernel that is launched with one shape and cannot be compiled.
    pub fn of_kernel(
        kernel: &KernelDescription,
        options: &SpaceOptions,
    ) -> Result<Self, OptionError> {
        let kernel = View::of(kernel);
        let mut parameters = kernel.launch_parameters();
        if kernel.of.compilable {
            parameters.extend(kernel.text_parameters());
            parameters.push(kernel.approximate(options.approximate));
            parameters.extend(kernel.lift_parameters(options.approximate));
        }
        let mut space = Self {
            kernel: Some(kernel.facts()),
            never: Vec::new(),
            start: start(kernel.of.compilable),
            parameters,
        };
        for wanted in &options.with {
            space.switch_on(wanted)?;
        }
        for unwanted in &options.without {
            space.named(unwanted)?.varied = false;
        }
        space.never = kernel.never(&space);
        space.sort_conditions();
        Ok(space)
    }

    /// Conditions in the order in which a table of TOML is read.
    pub(super) fn sort_conditions(&mut self) {
        for parameter in &mut self.parameters {
            parameter
                .when
                .sort_by(|one, other| one.parameter.cmp(&other.parameter));
        }
    }

    /// Tries `parameter`, or `parameter=value`.
    fn switch_on(&mut self, wanted: &str) -> Result<(), OptionError> {
        let (name, value) = match wanted.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (wanted.trim(), None),
        };
        let parameter = self.named(name)?;
        parameter.varied = true;
        let Some(value) = value else { return Ok(()) };
        let Domain::Choice(values) = &mut parameter.domain else {
            return Ok(());
        };
        if values.iter().any(|known| known == value) {
            return Ok(());
        }
        match parameter.dropped.iter().position(|known| known == value) {
            Some(at) => values.push(parameter.dropped.remove(at)),
            None => {
                let known = values.iter().chain(&parameter.dropped);
                return Err(OptionError::Value {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    known: known.cloned().collect::<Vec<_>>().join(", "),
                });
            }
        }
        Ok(())
    }

    fn named(&mut self, name: &str) -> Result<&mut Parameter, OptionError> {
        let known = || {
            let names = self.parameters.iter().map(|one| one.name.clone());
            names.collect::<Vec<_>>().join(", ")
        };
        match self.parameters.iter().position(|one| one.name == name) {
            Some(at) => Ok(&mut self.parameters[at]),
            None => Err(OptionError::Parameter {
                name: name.to_owned(),
                known: known(),
            }),
        }
    }
}

/// What is tried before anything is known: the code through LLVM without and with optimisation. The prior does the rest.
fn start(compilable: bool) -> Vec<BTreeMap<String, Value>> {
    if !compilable {
        return Vec::new();
    }
    let point = |values: &[(&str, &str)]| {
        let value = |(name, value): &(&str, &str)| ((*name).to_owned(), Value::from(*value));
        values.iter().map(value).collect()
    };
    vec![
        point(&[("route", "lift"), ("passes", "sroa")]),
        point(&[("route", "lift"), ("passes", "O3")]),
    ]
}

/// A description, with what is asked of it several times.
struct View<'d> {
    of: &'d KernelDescription,
    census: Census,
    /// Whether the census is of this kernel's code.
    known: bool,
    /// Of the launches that count most.
    block: [u32; 3],
    most_threads: u32,
}

impl<'d> View<'d> {
    fn of(of: &'d KernelDescription) -> Self {
        let mut weights: BTreeMap<[u32; 3], f64> = BTreeMap::new();
        for launch in &of.launches {
            *weights.entry(launch.block).or_default() += launch.weight;
        }
        let heaviest = weights
            .iter()
            .max_by(|one, other| one.1.total_cmp(other.1))
            .map_or([1; 3], |(block, _)| *block);
        Self {
            of,
            census: of.census.clone().unwrap_or_default(),
            known: of.census.is_some(),
            block: heaviest,
            most_threads: match of.device.max_threads_per_block {
                0 => MOST_THREADS,
                most => most,
            },
        }
    }

    fn facts(&self) -> KernelFacts {
        KernelFacts {
            name: self.of.name.clone(),
            block: self.block,
            max_threads: self.of.max_threads,
            recorded_runs: self.of.recorded_runs,
            compilable: self.of.compilable,
            source: false,
            recorded_block: None,
        }
    }

    fn launch_parameters(&self) -> Vec<Parameter> {
        vec![self.block(), self.grid(), self.shared(), self.carveout()]
    }

    /// Why the block stays as it is; `None` when it may change.
    fn block_stays(&self) -> Option<String> {
        let census = &self.census;
        let because = |holds: bool, why: &str| holds.then(|| why.to_owned());
        let several = self
            .of
            .launches
            .iter()
            .any(|launch| launch.block != self.block);
        because(
            self.of.required_block.is_some(),
            "the code demands this block (.reqntid)",
        )
        .or_else(|| because(census.grid_wide || self.is_cooperative(), "blocks work together (clusters, or a cooperative launch)"))
        .or_else(|| because(several, "the recorded launches have several blocks, and one for all of them is seldom right"))
        .or_else(|| because(!self.known, "there is no PTX that tells whether the kernel minds"))
        .or_else(|| because(census.barriers > 0, "threads of a block wait for each other (barriers), so that most likely the block's size is part of the algorithm"))
        .or_else(|| because(census.static_shared > 0 || census.dynamic_shared || self.dynamic_shared() > 0, "the kernel uses shared memory, so that most likely the block's size is part of the algorithm"))
        .or_else(|| because(census.warp_exchanges > 0, "threads of a warp exchange values, so that most likely the block's size is part of the algorithm"))
        .or_else(|| because(!self.free_dimensions().contains(&true), "the code does not read the block's size (%ntid) where it reads its index (%ctaid)"))
    }

    fn is_cooperative(&self) -> bool {
        self.of.launches.iter().any(|launch| launch.cooperative)
    }

    fn dynamic_shared(&self) -> u32 {
        let shared = self.of.launches.iter().map(|launch| launch.dynamic_shared);
        shared.max().unwrap_or(0)
    }

    /// Dimensions in which the code asks for size and index of its block.
    fn free_dimensions(&self) -> [bool; 3] {
        let Census {
            reads_block: [bx, by, bz],
            reads_block_index: [ix, iy, iz],
            ..
        } = self.census;
        [bx && ix, by && iy, bz && iz]
    }

    fn block(&self) -> Parameter {
        let stays = self.block_stays();
        let mut free = self.free_dimensions();
        if !free.contains(&true) {
            free = [true, false, false];
        }
        // Without code that can be compiled, the recorded code's own limit holds.
        let most = if self.of.compilable {
            self.most_threads
        } else {
            self.most_threads.min(self.of.max_threads.max(1))
        };
        let Shapes { tried, dropped } = shapes::shapes(self.block, free, most);
        let values = std::iter::once(self.block).chain(tried).map(spell);
        Parameter {
            varied: stays.is_none(),
            why: match stays {
                None => "the kernel asks for the size of its block and uses no barriers, shared memory or exchanges within \
                     warps; the best of 5 to 8 sizes took 0.90 of the time (down to 0.42), and the check decides"
                    .to_owned(),
                Some(why) => format!("left alone: {why}"),
            },
            dropped: dropped.into_iter().map(spell).collect(),
            ..choice("block", values)
        }
    }

    /// Whether threads go on to further elements with the whole grid as their step.
    fn strides_by_grid(&self) -> bool {
        let census = &self.census;
        let [nx, ..] = census.reads_grid;
        let [ix, ..] = census.reads_block_index;
        self.known && nx && ix && census.loops > 0 && !census.grid_wide && !self.is_cooperative()
    }

    fn grid(&self) -> Parameter {
        let mut values = vec!["cover".to_owned()];
        values.extend(["scale 1/2", "scale 1/4", "scale 2/1"].map(str::to_owned));
        let processors = self.of.device.multiprocessors;
        if processors > 0 {
            values.extend([1, 2, 4, 8].map(|waves| format!("blocks {}", waves * processors)));
        }
        values.push("same".to_owned());
        let varied = self.strides_by_grid();
        Parameter {
            varied,
            why: if varied {
                "the kernel reads the size of its grid and has loops: threads may go on with the grid as their step"
            } else {
                "left alone: as many threads as recorded, since the kernel does not step through its data by the size of the grid"
            }
            .to_owned(),
            ..choice("grid", values)
        }
    }

    fn shared(&self) -> Parameter {
        let varied = self.dynamic_shared() > 0 && self.block_stays().is_none();
        Parameter {
            varied,
            why: if varied {
                "dynamic shared memory may be meant for each thread"
            } else {
                "left alone: no dynamic shared memory, or a block that stays as it is"
            }
            .to_owned(),
            ..choice("shared", ["as recorded", "per thread"])
        }
    }

    fn carveout(&self) -> Parameter {
        let census = &self.census;
        let uses = census.static_shared > 0 || census.dynamic_shared || self.dynamic_shared() > 0;
        let uses = uses || self.of.used.is_some_and(|used| used.shared > 0);
        Parameter {
            varied: uses && !self.of.device.counts,
            why: if self.of.device.counts {
                "left alone: this device has no L1 cache"
            } else if uses {
                "the kernel uses shared memory, which is taken from the L1 cache"
            } else {
                "left alone: the kernel uses no shared memory"
            }
            .to_owned(),
            ..choice(
                "carveout",
                ["as recorded", "0%", "25%", "50%", "75%", "100%"],
            )
        }
    }

    /// What a block cannot be launched with.
    fn never(&self, space: &Space) -> Vec<Never> {
        let mut never = Vec::new();
        let (Some(blocks), Some(registers)) =
            (space.parameter("block"), space.parameter("registers"))
        else {
            return never;
        };
        let (Domain::Choice(blocks), Domain::Choice(registers)) =
            (&blocks.domain, &registers.domain)
        else {
            return never;
        };
        let device = &self.of.device;
        for block in blocks {
            let Some(shape) = shapes::parse(block) else {
                continue;
            };
            let threads: u32 = shape.iter().product();
            let impossible: Vec<String> = registers
                .iter()
                .filter(|bound| {
                    let number = |text: &str| text.trim().parse::<u32>().ok();
                    if let Some(cap) = bound.strip_prefix("max ").and_then(number) {
                        let all = device.registers_per_multiprocessor;
                        // Registers are handed out to whole warps, in eights.
                        let needed = cap.next_multiple_of(8) * threads.next_multiple_of(32);
                        all > 0 && needed > all
                    } else if let Some(count) = bound.strip_prefix("min-blocks ").and_then(number) {
                        let most = device.max_threads_per_multiprocessor;
                        most > 0 && count.saturating_mul(threads) > most
                    } else {
                        false
                    }
                })
                .cloned()
                .collect();
            if !impossible.is_empty() {
                never.push(Never {
                    together: vec![
                        Condition {
                            parameter: "block".to_owned(),
                            values: vec![block.clone()],
                        },
                        Condition {
                            parameter: "registers".to_owned(),
                            values: impossible,
                        },
                    ],
                    why: format!("{threads} threads with so many registers, or so many blocks of them, do not fit on a multiprocessor"),
                });
            }
        }
        never
    }
}

pub(super) fn choice<T: Into<String>>(
    name: &str,
    values: impl IntoIterator<Item = T>,
) -> Parameter {
    Parameter {
        name: name.to_owned(),
        domain: Domain::Choice(values.into_iter().map(Into::into).collect()),
        when: Vec::new(),
        varied: true,
        dropped: Vec::new(),
        why: String::new(),
    }
}

pub(super) fn when(parameter: &str, values: &[&str]) -> Vec<Condition> {
    vec![Condition {
        parameter: parameter.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    }]
}
