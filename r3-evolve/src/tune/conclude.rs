//! From what a search found to what is claimed: the best at length, launches that did not decide, what mattered, the result.
//!
//! A search for knobs and one for sources end alike; they differ in what a candidate is made of ([`Configured`]).

use r3_replay::evaluate::Candidate;

use super::ablation::{Ablation, Mattered};
use super::clock::Clock;
use super::evaluate::Artifact;
use super::finals::{Final, Finalist, Finals};
use super::held_out::HeldOutTimes;
use super::jobs::Jobs;
use super::progress::Watch;
use super::standing::{Standing, Standings};
use super::summary::{BestFound, SourceFound, Summary, Utilisation};
use super::{BEST, End, Ground, Settings, TuneError, original_time};
use crate::space::{Point, Space};
use crate::store::{Evaluation, Phase, Store, key};

/// What a candidate is made of.
pub(crate) struct Configured {
    /// Where it is in its space.
    pub point: Option<Point>,
    /// Its space.
    pub space: Space,
    /// What the space's original is.
    pub base: Candidate,
    /// Its source, where there is one.
    pub story: Option<Story>,
}

/// A source and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Story {
    /// What a summary says of it.
    pub found: SourceFound,
    /// Text of the whole file.
    pub text: String,
    /// Text of the file as it was given.
    pub given: String,
}

impl Story {
    /// What the search changed.
    pub fn diff(&self) -> String {
        let name = &self.found.name;
        let names = (
            format!("{name} as given"),
            format!("{name} variant {}", self.found.variant.0),
        );
        r3_source::diff::unified(&self.given, &self.text, (&names.0, &names.1))
    }
}

/// How to find out what a candidate is made of.
pub(crate) type Configure<'a> = &'a dyn Fn(&Store, &Standing) -> Result<Configured, TuneError>;

/// The end of a search.
pub(crate) struct Conclude<'a> {
    pub store: &'a mut Store,
    pub settings: &'a Settings,
    pub ground: &'a Ground,
    pub clock: &'a dyn Clock,
    pub round: i64,
    /// Why the search ended.
    pub end: End,
    /// Its name, for people.
    pub strategy: &'a str,
    /// Everything that it was told.
    pub standings: &'a Standings,
    /// The original, as a candidate.
    pub original: Candidate,
    /// The source as it was given, as a candidate: a second baseline.
    pub given: Option<Candidate>,
    pub configure: Configure<'a>,
}

/// The winner, as it was judged, and its code.
type Won = (Evaluation, Artifact);

impl Conclude<'_> {
    /// Measures the best ones at length, says what mattered, and writes the result.
    pub fn run(mut self, jobs: &mut Jobs<'_>, watch: &mut dyn Watch) -> Result<Summary, TuneError> {
        let faster: Vec<Standing> = self.standings.faster().into_iter().cloned().collect();
        let (finals, won) = self.finals(&faster, jobs, watch)?;
        let mattered = self.mattered(&finals, &faster, jobs, watch)?;
        let (mut summary, story) = self.summary(finals, mattered, &faster)?;
        summary.seconds = self.store.get(key::ELAPSED)?.unwrap_or(0.0);
        if jobs.outages > 0 {
            summary.notes.push(format!(
                "the evaluator was gone {}, for {:.0} s in all; that time does not count",
                if jobs.outages == 1 {
                    "once".to_owned()
                } else {
                    format!("{} times", jobs.outages)
                },
                jobs.paused
            ));
        }
        let path = self.store.folder().join(BEST);
        match &won {
            Some((row, artifact)) => crate::result::write(
                &path,
                self.store,
                self.ground,
                &crate::result::Winner {
                    evaluation: row,
                    artifact,
                    summary: &summary,
                    story: story.as_ref(),
                },
                self.clock.unix(),
            )?,
            // What an earlier round found and this one does not confirm is not left as its result.
            None => {
                let _ = std::fs::remove_file(&path);
            }
        }
        self.store.put(key::SUMMARY, &summary)?;
        self.enter(Phase::Done)?;
        Ok(summary)
    }

    fn enter(&self, phase: Phase) -> Result<(), TuneError> {
        self.store.put(key::PHASE, &phase)?;
        self.store.event(self.clock.unix(), "phase", phase.word())?;
        Ok(())
    }

    /// The best, as long as launches that did not decide do not speak against it.
    fn finals(
        &mut self,
        faster: &[Standing],
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Watch,
    ) -> Result<(Finals, Option<Won>), TuneError> {
        self.enter(Phase::Final)?;
        let ranked: Vec<&Standing> = faster.iter().collect();
        let mut finals = Final {
            store: self.store,
            settings: self.settings,
            choice: &self.ground.choice,
            prepared: &self.ground.prepared,
            clock: self.clock,
            counts: self.ground.kernel.device.counts,
            round: self.round,
            hurry: self.end == End::Stopped,
            original: self.original.clone(),
            given: self.given.clone(),
        }
        .run(&ranked, jobs, watch)?;
        let floor = finals.floor;
        while let Some(finalist) = finals
            .winner
            .and_then(|place| finals.finalists.get_mut(place))
        {
            let Some(standing) = faster.iter().find(|one| one.number == finalist.number) else {
                break;
            };
            let rows = self.store.rows(&[finalist.evaluation])?;
            let Some(row) = rows.into_iter().next() else {
                break;
            };
            let artifact = jobs.artifact(&standing.candidate, &row.plan, watch)?;
            HeldOutTimes {
                store: self.store,
                clock: self.clock,
                round: self.round,
            }
            .run(
                finalist,
                &standing.candidate,
                &row.plan,
                &artifact,
                jobs,
                watch,
            )?;
            finalist.refused = finalist.fails_elsewhere(floor);
            if finalist.refused.is_none() {
                return Ok((finals, Some((row, artifact))));
            }
            finals.choose();
        }
        Ok((finals, None))
    }

    fn mattered(
        &mut self,
        finals: &Finals,
        faster: &[Standing],
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Vec<Mattered>, TuneError> {
        self.enter(Phase::Ablation)?;
        let winner = finals.winner.and_then(|place| finals.finalists.get(place));
        let wanted = self.settings.fine.ablation && self.end != End::Stopped;
        let Some((winner, ratio)) = winner
            .filter(|_| wanted)
            .and_then(|one| Some((one, one.ratio?)))
        else {
            return Ok(Vec::new());
        };
        let Some(standing) = faster.iter().find(|one| one.number == winner.number) else {
            return Ok(Vec::new());
        };
        let configured = (self.configure)(self.store, standing)?;
        let Some(point) = &configured.point else {
            return Ok(Vec::new());
        };
        Ablation {
            store: self.store,
            space: &configured.space,
            base: &configured.base,
            settings: self.settings,
            choice: &self.ground.choice,
            clock: self.clock,
            round: self.round,
        }
        .run(winner.number, point, ratio.median, jobs, watch)
    }

    fn summary(
        &self,
        finals: Finals,
        mattered: Vec<Mattered>,
        faster: &[Standing],
    ) -> Result<(Summary, Option<Story>), TuneError> {
        let standings = self.standings;
        let winner = finals.winner.and_then(|place| finals.finalists.get(place));
        // Without a winner: what came nearest.
        let nearest = winner.or_else(|| {
            let right = finals.finalists.iter().filter(|one| one.verdict.is_right());
            right.min_by(|a, b| {
                let median = |one: &Finalist| one.ratio.map_or(f64::INFINITY, |ratio| ratio.median);
                median(a).total_cmp(&median(b))
            })
        });
        let standing = match nearest {
            Some(finalist) => faster.iter().find(|one| one.number == finalist.number),
            None => standings.best(),
        };
        let configured = match standing {
            Some(standing) => Some((self.configure)(self.store, standing)?),
            None => None,
        };
        let knobs = configured.as_ref().map_or_else(Vec::new, |configured| {
            let knobs = configured
                .point
                .as_ref()
                .map_or_else(Vec::new, |point| configured.space.knobs(point));
            knobs
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect()
        });
        let best = standing.map(|standing| BestFound {
            candidate: standing.candidate.id().to_string(),
            number: standing.number.0,
            variant: standing.variant,
            ratio: nearest
                .and_then(|finalist| finalist.ratio)
                .unwrap_or(standing.ratio),
            noise: standing.noise,
            knobs,
            found_at: standing.found_at,
        });
        let reason = match (winner, nearest) {
            (Some(winner), _) => claimed(winner, &finals),
            (None, Some(nearest)) => format!(
                "no gain found: of the best {}, the nearest to one was not claimed since {}",
                finals.finalists.len(),
                nearest.refused.as_deref().unwrap_or("another was better")
            ),
            (None, None) if standings.verdicts.is_empty() => {
                "no gain found: the search ended before anything was evaluated".into()
            }
            (None, None) if standings.right() == 0 => {
                "no gain found: nothing was right, not even the original".into()
            }
            (None, None) if finals.finalists.is_empty() => {
                "no gain found: nothing was faster than the original".into()
            }
            (None, None) => format!(
                "no gain found: none of the best {} was right when it was measured at length",
                finals.finalists.len()
            ),
        };
        let ground = self.ground;
        let original = original_time(&ground.choice, &ground.prepared);
        let load: (f64, f64) = self.store.get(key::LOAD)?.unwrap_or_default();
        let story = configured.and_then(|configured| configured.story);
        let summary = Summary {
            kernel: ground.kernel.name.clone(),
            readable: ground.kernel.readable.clone(),
            device: ground.kernel.device.name.clone(),
            unit: if ground.kernel.device.counts {
                "cost"
            } else {
                "nanoseconds"
            }
            .to_owned(),
            strategy: self.strategy.to_owned(),
            seed: self.settings.seed,
            evaluations: standings.told,
            repeated: standings.repeated,
            seconds: 0.0,
            end: self.end,
            verdicts: standings
                .verdicts
                .iter()
                .map(|(verdict, count)| (verdict.word().to_owned(), *count))
                .collect(),
            held_out: nearest.map_or_else(Vec::new, |finalist| finalist.held_out.clone()),
            claim: winner.is_some(),
            reason,
            original_ns: original,
            best_ns: best.as_ref().map(|best| best.ratio.median * original),
            best,
            utilisation: Utilisation {
                compile: load.0,
                device: load.1,
            },
            finals: (!finals.finalists.is_empty()).then_some(finals),
            mattered,
            source: story.as_ref().map(|story| story.found.clone()),
            notes: ground.choice.notes.clone(),
        };
        Ok((summary, story))
    }
}

/// What a claim stands on.
fn claimed(winner: &Finalist, finals: &Finals) -> String {
    let guarded = winner
        .held_out
        .iter()
        .filter(|one| one.verdict == r3_replay::evaluate::Verdict::Guarded)
        .count();
    let mut text = format!(
        "measured again in a fresh process among the best {}; right on every launch",
        finals.finalists.len()
    );
    match (winner.held_out.len(), guarded) {
        (0, _) => text.push_str(", of which none was held out"),
        (all, 0) => text.push_str(&format!(", {all} of them held out")),
        (all, guarded) => text.push_str(&format!(
            ", {all} of them held out, on {guarded} of which the original would run, as guards exclude them"
        )),
    }
    text
}
