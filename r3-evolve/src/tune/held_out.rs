//! How fast a finalist is on launches that did not decide.
//!
//! Held-out launches are judged with every finalist, and not timed. Before a gain is claimed they are timed too: with the very
//! code that was judged, as machine code or PTX, since compiling for other launches would make other code of it.

use r3_archive::model::LaunchId;
use r3_replay::evaluate::candidate::{Build, CandidateCode};
use r3_replay::evaluate::outcome::Role;
use r3_replay::evaluate::plan::Weighted;
use r3_replay::evaluate::{Candidate, Plan, Verdict};

use super::TuneError;
use super::clock::Clock;
use super::evaluate::Artifact;
use super::finals::{Finalist, evaluate};
use super::jobs::Jobs;
use super::progress::Watch;
use crate::store::{NewEvaluation, Phase, Reason, Store};

/// Pairs of a launch, at most.
const PAIRS: u32 = 32;

/// Times a finalist on the held-out launches on which it is right, and writes that down in it.
pub(super) struct HeldOutTimes<'a> {
    pub store: &'a mut Store,
    pub clock: &'a dyn Clock,
    pub round: i64,
}

impl HeldOutTimes<'_> {
    /// `plan` is the one that the finalist was judged by.
    pub fn run(
        self,
        finalist: &mut Finalist,
        candidate: &Candidate,
        plan: &Plan,
        artifact: &Artifact,
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Watch,
    ) -> Result<(), TuneError> {
        let launches: Vec<LaunchId> = finalist
            .held_out
            .iter()
            .filter(|one| one.verdict == Verdict::Right && one.ratio.is_none())
            .map(|one| one.launch)
            .collect();
        if launches.is_empty() {
            return Ok(());
        }
        let candidate = as_it_is(candidate, artifact);
        let id = candidate.id();
        let mut rows = self.store.evaluations(Some(Phase::Final))?;
        rows.retain(|row| {
            row.round == self.round && row.reason == Reason::HeldOut && row.candidate.id() == id
        });
        if rows.is_empty() {
            let pairs = plan.least_pairs.min(PAIRS);
            let new = NewEvaluation {
                candidate,
                point: None,
                plan: Plan {
                    launches: launches
                        .into_iter()
                        .map(|launch| Weighted {
                            launch,
                            weight: 1.0,
                        })
                        .collect(),
                    held_out: Vec::new(),
                    perturbed: 0,
                    least_pairs: pairs,
                    most_pairs: pairs,
                    warmup_pairs: plan.warmup_pairs.min(pairs),
                    compile_twice: false,
                    fresh_process: false,
                    ..plan.clone()
                },
                reason: Reason::HeldOut,
                parent: Some((finalist.number, "its code as it is".to_owned())),
            };
            let at = self.clock.unix();
            let numbers = self.store.ask(Phase::Final, self.round, 1, at, &[new])?;
            rows = self.store.rows(&numbers)?;
        }
        evaluate(self.store, &mut rows, self.clock, jobs, watch)?;
        let Some(outcome) = rows.first().and_then(|row| row.outcome.as_ref()) else {
            return Ok(());
        };
        for one in &mut finalist.held_out {
            let mut all = outcome.launches.iter();
            let Some(launch) =
                all.find(|launch| launch.launch == one.launch && launch.role == Role::Tuned)
            else {
                continue;
            };
            one.ratio = launch
                .times
                .iter()
                .map(|timing| timing.ratio.median)
                .reduce(f64::max);
        }
        Ok(())
    }
}

/// The candidate with nothing left to be compiled.
fn as_it_is(candidate: &Candidate, artifact: &Artifact) -> Candidate {
    let code = match (&artifact.cubin, &artifact.ptx) {
        (Some(cubin), _) => CandidateCode::Cubin(cubin.clone()),
        (None, Some(ptx)) => CandidateCode::Ptx(ptx.clone()),
        // The recorded code, launched in another shape.
        (None, None) => return candidate.clone(),
    };
    Candidate {
        code,
        build: Build::default(),
        launch: candidate.launch,
    }
}
