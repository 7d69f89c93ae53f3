//! The beginning of a slot.

use std::time::Duration;

use r3_models::choice::Idle;
use r3_source::tokens;

use super::EvolveError;
use super::choose::{Chosen, Inputs, choose};
use super::population::{Population, of};
use super::progress::Observe;
use super::rewriting::Made;
use super::search::{Run, Search};
use super::slot::{By, Ended, Opening, island_of, number_of};
use super::variant::{Lineage, Operator, VariantNumber};
use super::work::{Stage, Stored, Work};
use super::working::take;
use crate::space::Point;
use crate::store::{NewEvaluation, Reason, SlotRow};
use crate::tune::jobs::Jobs;

impl Search<'_, '_> {
    /// Opens the next slot. False when it is not its time.
    pub(super) fn open(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Observe,
    ) -> Result<bool, EvolveError> {
        let window = self.shop.settings.window();
        if i64::try_from(run.open.len()).unwrap_or(i64::MAX) >= window {
            return Ok(false);
        }
        // The source as given comes first.
        if run.next > 0 && run.told == 0 {
            return Ok(false);
        }
        let replayed = match run.replay.front() {
            Some((row, _)) if row.after != run.told => return Ok(false),
            Some(_) => run.replay.pop_front(),
            None => None,
        };
        if let Some((row, _)) = &replayed
            && self.ended.is_some()
            && row.told.is_none()
        {
            // The search is over, and nothing more comes of it.
            run.next += 1;
            return Ok(true);
        }
        if replayed.is_none() {
            let measures = !self.shop.counts();
            let paused = run.down.is_some() && measures;
            if run.end.is_some() || run.barren == Some(run.told) || paused {
                return Ok(false);
            }
        }
        let slot = run.next;
        let island = island_of(slot, self.shop.settings.islands.count);
        let chosen = if slot == 0 {
            Some(Chosen {
                opening: Opening::Original,
                made: None,
            })
        } else {
            let inputs = self.inputs(run, slot, replayed.as_ref().map(|(row, _)| row));
            choose(
                &mut run.population,
                &mut run.rewriting,
                self.shop,
                slot,
                island,
                &inputs,
            )
        };
        let stored = replayed.is_some();
        let (row, made, stored_parts) = match (replayed, chosen) {
            // What is in the store is what was done.
            (Some((row, parts)), chosen) => (row, chosen.and_then(|chosen| chosen.made), parts),
            (None, None) => {
                run.barren = Some(run.told);
                return Ok(false);
            }
            (None, Some(chosen)) => {
                let asked = matches!(&chosen.opening, Opening::Propose(one) if matches!(one.by, By::Model(_)));
                let row = SlotRow {
                    slot,
                    island,
                    after: run.told,
                    models: asked || self.may_ask(run),
                    opening: chosen.opening,
                    opened_at: self.clock.unix(),
                    told: None,
                    told_at: None,
                    closing: None,
                };
                (row, chosen.made, Stored::default())
            }
        };
        run.next += 1;
        run.population.opened(&row.opening, island);
        let incumbent = run.population.best_checked();
        let incumbent = incumbent.map(|best| best.ratio.high);
        let start = start_points(&run.population, &row.opening);
        let mut work = Work::new(row, incumbent, start, stored_parts);
        self.begin_work(run, jobs, &mut work, made, stored)?;
        run.open.insert(slot, work);
        self.advance(run, jobs, slot, watch)?;
        Ok(true)
    }

    /// What does not follow from the population.
    fn inputs(&self, run: &Run, slot: i64, stored: Option<&SlotRow>) -> Inputs {
        let Some(models) = &self.models else {
            return Inputs {
                asked: None,
                ..self.left(run, stored)
            };
        };
        let chooser = run.population.chooser.as_ref();
        let island = run
            .population
            .islands
            .island(island_of(slot, self.shop.settings.islands.count))
            .ok();
        let choose = |idle: bool, any: bool| {
            chooser?.choose(idle, slot.unsigned_abs(), &|model| {
                let here = island.is_none_or(|island| island.asks(model));
                here && (any || models.ask.state_of(model).is_up())
            })
        };
        let asked = match stored {
            Some(row) => match &row.opening {
                Opening::Propose(proposal) => match &proposal.by {
                    By::Model(choice) => Some(choice.clone()),
                    By::Rewrite(_) if row.models => choose(false, true),
                    By::Rewrite(_) => None,
                },
                _ if row.models => choose(false, true),
                _ => None,
            },
            None if self.may_ask(run) => {
                let idle = self.clock.now() - run.busy_at;
                let idle = Idle((idle > 0.0).then(|| Duration::from_secs_f64(idle)));
                // Where a service is out the question waits; only who else could answer is looked for.
                let idle = chooser.is_some_and(|chooser| chooser.is_idle(idle));
                choose(idle, false).or_else(|| choose(idle, true))
            }
            None => None,
        };
        Inputs {
            asked,
            ..self.left(run, stored)
        }
    }

    /// Whether a model may be asked, as far as that follows from what is open.
    fn may_ask(&self, run: &Run) -> bool {
        if self.models.is_none() || run.spent {
            return false;
        }
        let asking = run
            .open
            .values()
            .filter(|work| {
                matches!(&work.row.opening, Opening::Propose(one) if matches!(one.by, By::Model(_)))
            })
            .count();
        let share = self.shop.settings.models.share;
        let most = (self.shop.settings.window() as f64 * share).ceil();
        (asking as f64) < most
    }

    /// What is left of budgets when everything that is open takes what it may.
    pub(super) fn left(&self, run: &Run, stored: Option<&SlotRow>) -> Inputs {
        let repairs = self.shop.settings.models.repairs;
        let counts = &run.population.counts;
        let reserved: u64 = run
            .open
            .values()
            .map(|work| work.row.opening.reserve(repairs))
            .sum();
        let proposals = run
            .open
            .values()
            .filter(|work| matches!(work.row.opening, Opening::Propose(_)))
            .count() as u64;
        let evaluations = self.shop.base.budget.evaluations.map_or(u64::MAX, |most| {
            most.saturating_sub(counts.evaluations + reserved)
        });
        let variants = self
            .shop
            .settings
            .limits
            .variants
            .is_none_or(|most| counts.variants + proposals < most);
        Inputs {
            asked: None,
            evaluations: if stored.is_some() {
                u64::MAX
            } else {
                evaluations
            },
            variants: variants || stored.is_some(),
        }
    }

    /// The beginning of a slot's work.
    fn begin_work(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        made: Option<Made>,
        stored: bool,
    ) -> Result<(), EvolveError> {
        let told = work.row.closing.clone().filter(|_| work.row.told.is_some());
        let opening = work.row.opening.clone();
        if let Some(closing) = told {
            return self.as_told(run, work, &opening, closing.ended);
        }
        match &opening {
            Opening::Propose(proposal) => match &proposal.by {
                By::Rewrite(_) => self.begin_rewrite(run, jobs, work, made, stored)?,
                By::Model(choice) => {
                    let question = run.asking.question(
                        &run.population,
                        self.shop,
                        work.row.slot,
                        work.row.island,
                        proposal,
                    )?;
                    if !stored {
                        self.store
                            .open_slot(&work.row, None, &[], None, self.round)?;
                    }
                    work.stage = Stage::Asking;
                    match question {
                        Some((messages, target, shared)) => {
                            work.target = Some(target);
                            self.ask_model(run, work, &choice.model, messages, shared)?;
                        }
                        None => {
                            let why = "the parent's text has no part that may be changed";
                            work.stage = Stage::Over(Ended::Unusable(why.to_owned()));
                        }
                    }
                }
            },
            Opening::Original => {
                let ways = self.given.ways();
                let first = ways.first().cloned().unwrap_or_default();
                let program = self.given.compiled(first);
                let variant = program.original();
                let lineage = Lineage {
                    operator: Operator::Original,
                    parents: Vec::new(),
                    island: work.row.island,
                    by: String::new(),
                    what: "the source as given".to_owned(),
                };
                let new =
                    self.new_variant(work, variant, lineage, vec![self.given_source(&program)]);
                self.make(run, jobs, work, new, stored)?;
            }
            Opening::Check { variant } => {
                let known = run.population.get(*variant);
                let best = known.and_then(|known| Some((known, known.best.as_ref()?)));
                let evaluations = best.map_or_else(Vec::new, |(known, best)| {
                    vec![NewEvaluation {
                        candidate: known.candidate(best),
                        point: best.point.clone(),
                        plan: self.shop.check_plan(),
                        reason: Reason::Check,
                        parent: None,
                    }]
                });
                self.begin_steps(run, jobs, work, *variant, evaluations, stored)?;
            }
            Opening::Promote { promotion, .. } => {
                let evaluations = self.next_batch(run, work)?;
                let variant = promotion.variant;
                self.begin_steps(run, jobs, work, variant, evaluations, stored)?;
            }
        }
        Ok(())
    }

    /// A slot that was told is as the store has it. What its beginning changed is changed again.
    fn as_told(
        &mut self,
        run: &mut Run,
        work: &mut Work,
        opening: &Opening,
        ended: Ended,
    ) -> Result<(), EvolveError> {
        if let Opening::Propose(proposal) = opening {
            match &proposal.by {
                By::Rewrite(_) => {
                    if let Some(row) = work.stored.variants.front() {
                        let variant = of(row);
                        let fingerprint = tokens::fingerprint(&variant.text);
                        run.population
                            .novelty
                            .add(row.number, &variant, fingerprint);
                    }
                }
                By::Model(_) => {
                    let (slot, island) = (work.row.slot, work.row.island);
                    run.asking
                        .question(&run.population, self.shop, slot, island, proposal)?;
                }
            }
        }
        // What was a duplicate by its code had been evaluated.
        let ended = match ended {
            Ended::Duplicate(_) if !work.stored.variants.is_empty() => Ended::Evaluated,
            ended => ended,
        };
        work.as_stored(ended);
        Ok(())
    }

    fn begin_rewrite(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        made: Option<Made>,
        stored: bool,
    ) -> Result<(), EvolveError> {
        let opening = work.row.opening.clone();
        let Opening::Propose(proposal) = &opening else {
            return Ok(());
        };
        let (variant, lineage) = match (work.stored.variants.front(), made) {
            (Some(row), _) => (of(row), row.lineage.clone()),
            (None, Some(made)) => (
                made.variant,
                Lineage {
                    operator: Operator::Rewrite,
                    parents: proposal.parents.clone(),
                    island: work.row.island,
                    by: made.by,
                    what: made.what,
                },
            ),
            // Its text is written with the slot.
            (None, None) => return Err(EvolveError::NoText(work.row.slot)),
        };
        let number = number_of(work.row.slot, 0, self.shop.settings.models.repairs);
        let fingerprint = tokens::fingerprint(&variant.text);
        run.population.novelty.add(number, &variant, fingerprint);
        let screen = self.shop.screen(
            &run.population.program,
            &variant,
            &work.start,
            self.seed_of(number),
            work.incumbent,
        );
        let screen = match screen {
            Ok(screen) => screen,
            Err(error) => {
                if !stored {
                    self.store
                        .open_slot(&work.row, None, &[], None, self.round)?;
                }
                work.stage = Stage::Over(Ended::Unusable(error.to_string()));
                return Ok(());
            }
        };
        let new = self.new_variant(work, variant, lineage, screen);
        self.make(run, jobs, work, new, stored)
    }

    /// Evaluations of a variant that is known.
    #[allow(
        clippy::too_many_arguments,
        reason = "what is known of a slot where it begins"
    )]
    fn begin_steps(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        variant: VariantNumber,
        evaluations: Vec<NewEvaluation>,
        stored: bool,
    ) -> Result<(), EvolveError> {
        let rows = if stored {
            take(&mut work.stored.evaluations, evaluations.len())
        } else {
            let numbers =
                self.store
                    .open_slot(&work.row, None, &evaluations, Some(variant), self.round)?;
            self.store.rows(&numbers)?
        };
        self.add_steps(run, jobs, work, rows);
        Ok(())
    }
}

/// Points of parents, the first one's best first.
fn start_points(population: &Population, opening: &Opening) -> Vec<Point> {
    let Opening::Propose(proposal) = opening else {
        return Vec::new();
    };
    proposal
        .parents
        .iter()
        .filter_map(|number| {
            let best = population.get(*number)?.best.as_ref()?;
            best.point.clone()
        })
        .collect()
}
