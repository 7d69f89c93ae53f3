//! What a candidate of a search over source is made of, and how its source came about.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use r3_codegen::recipe::Compiler;
use r3_replay::evaluate::describe::KernelDescription;

use crate::evolve::variant::{Lineage, Variant, VariantNumber};
use crate::program::Program;
use crate::space::{Space, SpaceOptions};
use crate::store::{Evaluation, Store, StoreError};
use crate::tune::conclude::{Configured, Story};
use crate::tune::summary::{Ancestor, SourceFound};
use crate::tune::{Standing, TuneError};

/// What all variants of a run share.
pub struct Stories<'a> {
    /// The source as given, with the compiler that was chosen.
    pub program: &'a Program,
    /// The kernel that it stands for.
    pub kernel: &'a KernelDescription,
    /// What the user wants of spaces.
    pub options: &'a SpaceOptions,
}

impl Stories<'_> {
    /// What a candidate is made of: its variant's space, and its source. A candidate of no variant is that of the original's space.
    pub(crate) fn configured(
        &self,
        store: &Store,
        standing: &Standing,
    ) -> Result<Configured, TuneError> {
        let row = match standing.variant {
            Some(number) => store.variant(number)?,
            None => None,
        };
        let Some(row) = row else {
            return Ok(Configured {
                point: None,
                space: Space::of_kernel(self.kernel, self.options)?,
                base: standing.candidate.clone(),
                story: None,
            });
        };
        let space = Space::of_source(self.kernel, &row.text, &row.launch, self.options)?;
        let variant = Variant {
            text: row.text.clone(),
            launch: row.launch,
        };
        let how = &self.program.how;
        Ok(Configured {
            point: standing.point.clone(),
            space,
            base: self.program.candidate(&variant),
            story: Some(Story {
                found: SourceFound {
                    variant: row.number,
                    name: self.program.name.clone(),
                    compiler: compiler(how.compiler).to_owned(),
                    options: how.options.clone(),
                    lineage: lineage(store, row.number)?,
                },
                text: row.text,
                given: self.program.text.clone(),
            }),
        })
    }
}

/// A compiler's name.
#[must_use]
pub fn compiler(compiler: Compiler) -> &'static str {
    match compiler {
        Compiler::Any => "any",
        Compiler::Nvrtc => "nvrtc",
        Compiler::Nvcc => "nvcc",
        Compiler::Clang => "clang",
    }
}

/// The variants that one came of, and itself, from the source as given on. Others are not looked at: there may be thousands.
pub fn lineage(store: &Store, of: VariantNumber) -> Result<Vec<Ancestor>, StoreError> {
    let mut all: BTreeMap<VariantNumber, Lineage> = BTreeMap::new();
    let mut seen = BTreeSet::from([of]);
    let mut open = VecDeque::from([of]);
    while let Some(number) = open.pop_front() {
        let Some(row) = store.variant(number)? else {
            continue;
        };
        for parent in &row.lineage.parents {
            if seen.insert(*parent) {
                open.push_back(*parent);
            }
        }
        all.insert(number, row.lineage);
    }
    let ancestors = all.into_iter().map(|(variant, lineage)| {
        let best = best_ratios(&store.evaluations_of(variant)?);
        Ok(Ancestor {
            variant,
            lineage,
            ratio: best.get(&variant).copied(),
        })
    });
    ancestors.collect()
}

/// The best time of each variant that was right at all, as a part of the original's.
#[must_use]
pub fn best_ratios(evaluations: &[Evaluation]) -> BTreeMap<VariantNumber, f64> {
    let mut best: BTreeMap<VariantNumber, f64> = BTreeMap::new();
    for row in evaluations {
        let ratio = row
            .outcome
            .as_ref()
            .filter(|outcome| outcome.verdict.is_right())
            .and_then(|outcome| outcome.score)
            .filter(|score| !score.dropped)
            .map(|score| score.ratio.median);
        if let (Some(variant), Some(ratio)) = (row.variant, ratio) {
            let known = best.entry(variant).or_insert(ratio);
            *known = known.min(ratio);
        }
    }
    best
}
