//! What stays the same during a search over source: the kernel, how candidates are made of variants, how they are judged.

use r3_replay::evaluate::{Candidate, Plan};
use r3_source::directive::{self, Directive, GridWish, SharedWish};

use super::Settings;
use super::variant::Variant;
use crate::inner::Inner;
use crate::program::Program;
use crate::space::{Allowed, CandidateError, OptionError, Point, Space, SpaceOptions};
use crate::store::{NewEvaluation, Reason};
use crate::tune::settings::Approximation;
use crate::tune::{self, Ground, search_plan};
use r3_replay::evaluate::candidate::{GridRule, LaunchChange, SharedRule};

/// What stays the same.
pub struct Workshop<'a> {
    /// What is set for the search over source.
    pub settings: &'a Settings,
    /// What is set as for `tune`.
    pub base: &'a tune::Settings,
    /// The kernel and its launches.
    pub ground: &'a Ground,
}

/// A variant cannot be evaluated. The reason is for whoever wrote it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unmakeable {
    /// Its directive cannot be read.
    #[error(transparent)]
    Directive(#[from] directive::DirectiveError),
    /// It has no space.
    #[error(transparent)]
    Space(#[from] OptionError),
    /// A point of its space is no candidate.
    #[error(transparent)]
    Candidate(#[from] CandidateError),
}

impl Workshop<'_> {
    /// Whether the device counts instead of measuring.
    pub fn counts(&self) -> bool {
        self.ground.kernel.device.counts
    }

    /// Whether results may differ.
    pub fn tolerant(&self) -> bool {
        self.base.tolerances.is_some()
    }

    /// What is wanted of spaces.
    pub fn options(&self) -> SpaceOptions {
        SpaceOptions {
            approximate: match self.base.approximate {
                Approximation::None => Allowed::Exact,
                Approximation::Division => Allowed::Division,
                Approximation::Flush => Allowed::Flush,
                Approximation::Functions => Allowed::FastMath,
            },
            ..SpaceOptions::default()
        }
    }

    /// The space of a variant.
    pub fn space(&self, variant: &Variant) -> Result<Space, OptionError> {
        Space::of_source(
            &self.ground.kernel,
            &variant.text,
            &variant.launch,
            &self.options(),
        )
    }

    /// The search of a variant.
    pub fn inner(
        &self,
        program: &Program,
        variant: &Variant,
        start: &[Point],
        seed: u64,
    ) -> Result<Inner, Unmakeable> {
        let space = self.space(variant)?;
        Ok(Inner::new(space, program.candidate(variant), start, seed))
    }

    /// The first evaluations of a variant.
    pub fn screen(
        &self,
        program: &Program,
        variant: &Variant,
        start: &[Point],
        seed: u64,
        incumbent: Option<f64>,
    ) -> Result<Vec<NewEvaluation>, Unmakeable> {
        let inner = self.inner(program, variant, start, seed)?;
        Ok(self.proposed(inner.screen()?, incumbent))
    }

    /// Points of a search as evaluations.
    pub fn proposed(
        &self,
        points: Vec<(Point, Candidate)>,
        incumbent: Option<f64>,
    ) -> Vec<NewEvaluation> {
        let plan = search_plan(self.base, &self.ground.choice, incumbent);
        points
            .into_iter()
            .map(|(point, candidate)| NewEvaluation {
                candidate,
                point: Some(point),
                plan: plan.clone(),
                reason: Reason::Proposed,
                parent: None,
            })
            .collect()
    }

    /// How the source as given is judged: on every launch, and with perturbed inputs.
    pub fn given_plan(&self) -> Plan {
        Plan {
            held_out: self.ground.choice.held_out.clone(),
            perturbed: self.base.fine.perturbed,
            screen: 0,
            ..search_plan(self.base, &self.ground.choice, None)
        }
    }

    /// How a variant is judged before it may be called the best: on every launch, and with perturbed inputs, without times.
    pub fn check_plan(&self) -> Plan {
        tune::check_plan(self.base, &self.ground.choice)
    }

    /// Which variant a text is: its launch is what its directive says.
    pub fn variant(&self, text: String) -> Result<Variant, Unmakeable> {
        let launch = directive::read(&text)?.map_or_else(LaunchChange::default, launch_of);
        Ok(Variant { text, launch })
    }
}

/// What a directive says, as the evaluator takes it.
fn launch_of(wish: Directive) -> LaunchChange {
    LaunchChange {
        block: wish.block,
        grid: wish.grid.map(|grid| match grid {
            GridWish::Cover => GridRule::Cover,
            GridWish::Same => GridRule::Same,
            GridWish::Blocks(blocks) => GridRule::Blocks(blocks),
            GridWish::Scale(times, by) => GridRule::Scale(times, by),
        }),
        shared: match wish.shared {
            SharedWish::Same => SharedRule::Same,
            SharedWish::PerThread => SharedRule::PerThread,
            SharedWish::Bytes(bytes) => SharedRule::Bytes(bytes),
        },
        carveout: None,
    }
}
