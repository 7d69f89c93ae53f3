//! What a slot does.
//!
//! First what may be the best is checked, then what is promising is searched further, then something new is made: by a model when
//! one may be asked, or by a rewrite, as the island's mix of operators says.

use r3_codegen::passes::Random;
use r3_models::choice::Choice;

use super::population::Population;
use super::rewriting::{Made, Rewriting, Wanted};
use super::slot::{By, Opening, Proposal, SCREEN};
use super::variant::{IslandNumber, Operator, VariantNumber};
use super::workshop::Workshop;
use crate::islands::stream;

/// What does not follow from the population.
pub(super) struct Inputs {
    /// The model that would be asked; `None` where none can be. A clock has a part in that, so that it is stored.
    pub asked: Option<Choice>,
    /// Evaluations that are left.
    pub evaluations: u64,
    /// Whether a new variant may be proposed.
    pub variants: bool,
}

/// What is chosen.
#[derive(Debug)]
pub(super) struct Chosen {
    pub opening: Opening,
    /// The text, where a rewrite has made it.
    pub made: Option<Made>,
}

/// Operators that ask a model.
const ASKING: [Operator; 4] = [
    Operator::Improve,
    Operator::Explore,
    Operator::Crossover,
    Operator::Simplify,
];

/// Parents that are tried for a rewrite before all variants are gone through.
const PARENTS: usize = 8;

/// One rewrite in so many is chosen whatever is expected of it.
const UNEXPECTED: u64 = 12;

/// What a slot does; `None` when there is nothing to be tried with what is known. Then nothing has changed: how often that is asked
/// depends on time.
pub(super) fn choose(
    population: &mut Population,
    rewriting: &mut Rewriting,
    shop: &Workshop<'_>,
    slot: i64,
    island: IslandNumber,
    inputs: &Inputs,
) -> Option<Chosen> {
    let before = population.choices();
    rewriting.begin();
    let chosen = decide(population, rewriting, shop, slot, island, inputs);
    if chosen.is_none() {
        population.restore(before);
        rewriting.undo();
    }
    chosen
}

fn decide(
    population: &mut Population,
    rewriting: &mut Rewriting,
    shop: &Workshop<'_>,
    slot: i64,
    island: IslandNumber,
    inputs: &Inputs,
) -> Option<Chosen> {
    let plain = |opening| {
        Some(Chosen {
            opening,
            made: None,
        })
    };
    if inputs.evaluations == 0 {
        return None;
    }
    if let Some(variant) = population.to_be_checked() {
        return plain(Opening::Check { variant });
    }
    while let Some(promotion) = next_promotion(population, island) {
        let tried = population
            .get(promotion.variant)
            .map_or(0, |known| known.tried.len());
        let more = promotion
            .evaluations
            .saturating_sub(u32::try_from(tried).unwrap_or(u32::MAX));
        let left = u32::try_from(inputs.evaluations).unwrap_or(u32::MAX);
        if more > 0 {
            return plain(Opening::Promote {
                promotion,
                evaluations: more.min(left),
            });
        }
        // It had as many before.
        let ratio = population
            .get(promotion.variant)
            .and_then(|known| known.best.as_ref().map(|best| best.ratio.median));
        population
            .rungs
            .told(promotion.variant, promotion.rung, ratio);
    }
    if !inputs.variants || inputs.evaluations < SCREEN {
        return None;
    }
    propose(population, rewriting, shop, slot, island, inputs)
}

fn next_promotion(
    population: &mut Population,
    island: IslandNumber,
) -> Option<crate::inner::Promotion> {
    let mut rungs = std::mem::take(&mut population.rungs);
    let next = rungs.next(|variant| {
        population.get(variant).is_some_and(|known| {
            known.is_right() && known.equal.is_none() && known.island == island
        })
    });
    population.rungs = rungs;
    next
}

fn propose(
    population: &mut Population,
    rewriting: &mut Rewriting,
    shop: &Workshop<'_>,
    slot: i64,
    number: IslandNumber,
    inputs: &Inputs,
) -> Option<Chosen> {
    let place = slot.unsigned_abs();
    let mut random = stream(shop.base.seed, place, "proposal");
    let island = population.islands.island(number).ok()?;
    let asked = inputs.asked.as_ref();
    let mut open: Vec<Operator> = Vec::new();
    if asked.is_some() {
        open.extend(ASKING.into_iter().filter(|operator| {
            island.uses(*operator)
                && match operator {
                    Operator::Explore => island.grid.size() > 1,
                    Operator::Crossover => island.grid.filled() > 1,
                    _ => true,
                }
        }));
    }
    if island.uses(Operator::Rewrite) || asked.is_none() {
        open.push(Operator::Rewrite);
    }
    loop {
        let operator = {
            let island = population.islands.island_mut(number).ok()?;
            island.operators.choose(&open, &mut random)?
        };
        if operator == Operator::Rewrite {
            if let Some(chosen) = rewrite(population, rewriting, shop, number, &mut random) {
                return Some(chosen);
            }
        } else if let Some(choice) = asked
            && let Some((parents, examples)) =
                parents(population, shop, number, operator, &mut random)
        {
            return Some(Chosen {
                opening: Opening::Propose(Proposal {
                    operator,
                    parents,
                    examples,
                    by: By::Model(choice.clone()),
                    site: None,
                }),
                made: None,
            });
        }
        open.retain(|other| *other != operator);
    }
}

/// Parents and examples for a model.
fn parents(
    population: &Population,
    shop: &Workshop<'_>,
    number: IslandNumber,
    operator: Operator,
    random: &mut Random,
) -> Option<(Vec<VariantNumber>, Vec<VariantNumber>)> {
    let grid = &population.islands.island(number).ok()?.grid;
    let parents = match operator {
        Operator::Crossover => {
            let (one, other) = grid.pair(random)?;
            vec![one.number, other.number]
        }
        Operator::Explore => vec![grid.target(random)?.parent],
        _ => vec![grid.parent(random)?.number],
    };
    let first = parents.first().copied()?;
    let examples = grid
        .examples(shop.settings.models.examples, &[first])
        .into_iter()
        .map(|elite| elite.number)
        .collect();
    Some((parents, examples))
}

/// A rewrite that gives something new: of a parent of the island, else of any variant that is right.
fn rewrite(
    population: &mut Population,
    rewriting: &mut Rewriting,
    shop: &Workshop<'_>,
    number: IslandNumber,
    random: &mut Random,
) -> Option<Chosen> {
    let grid = &population.islands.island(number).ok()?.grid;
    let mut near: Vec<VariantNumber> = Vec::new();
    for _ in 0..PARENTS {
        let parent = grid.parent(random).map(|elite| elite.number);
        near.extend(parent.filter(|parent| !near.contains(parent)));
    }
    // What is expected to change nothing is tried when nothing else is left, and at times all the same: it may matter in this text.
    let wanted = if random.once_in(UNEXPECTED) {
        &[Wanted::Any][..]
    } else {
        &[Wanted::New, Wanted::Any]
    };
    for wanted in wanted {
        for parent in &near {
            let of = (number, *parent, *wanted);
            if let Some(chosen) = rewrite_of(population, rewriting, shop, of, random) {
                return Some(chosen);
            }
        }
        let far: Vec<VariantNumber> = population.right().collect();
        for parent in far.into_iter().filter(|parent| !near.contains(parent)) {
            let of = (number, parent, *wanted);
            if let Some(chosen) = rewrite_of(population, rewriting, shop, of, random) {
                return Some(chosen);
            }
        }
    }
    None
}

/// A rewrite of a variant that gives something new.
fn rewrite_of(
    population: &mut Population,
    rewriting: &mut Rewriting,
    shop: &Workshop<'_>,
    (island, parent, wanted): (IslandNumber, VariantNumber, Wanted),
    random: &mut Random,
) -> Option<Chosen> {
    let mut open = rewriting.open(population, shop, parent, wanted);
    while !open.is_empty() {
        let name = {
            let island = population.islands.island_mut(island).ok()?;
            island.rewrites.choose(&open, random)?
        };
        let made = rewriting.make(population, shop, parent, &name, wanted, random);
        if let Some(made) = made {
            return Some(Chosen {
                opening: Opening::Propose(Proposal {
                    operator: Operator::Rewrite,
                    parents: vec![parent],
                    examples: Vec::new(),
                    by: By::Rewrite(name),
                    site: Some(made.site.clone()),
                }),
                made: Some(made),
            });
        }
        open.retain(|other| *other != name);
    }
    None
}
