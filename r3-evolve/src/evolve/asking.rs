//! What models are asked in a slot.
//!
//! Examples keep their places on an island's shelf, so that prompts begin alike. A shelf depends on which slots asked a model, in
//! order: whoever goes on with a run goes through all of them again.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use r3_models::chat::Message;
use r3_replay::remix::pairs::Ratio;

use super::population::{Known, Population};
use super::slot::{By, Proposal};
use super::variant::{IslandNumber, Operator, VariantNumber};
use super::workshop::Workshop;
use crate::islands::stream;
use crate::program::Program;
use crate::prompt::{self, About, Example, Head, HeadError, Measured, Parent, Shelf, Target, Task};

/// Lines of what was tried on a parent before, at most.
const TRIED: usize = 6;

/// What is asked.
pub(super) struct Asking {
    /// Bytes of a prompt at most, and of those models that take less.
    budget: usize,
    budgets: BTreeMap<String, usize>,
    /// By the bytes of a prompt.
    heads: BTreeMap<usize, Head>,
    shelves: BTreeMap<IslandNumber, Shelf>,
    last: BTreeMap<IslandNumber, Vec<Message>>,
}

impl Asking {
    /// For prompts of so many bytes at most, and as many as each model takes.
    pub fn new(most: usize, models: Option<&r3_models::settings::Settings>) -> Self {
        let models = models.map_or(&[][..], |settings| &settings.models);
        let budgets = models
            .iter()
            .filter_map(|model| Some((model.name.clone(), model.prompt_bytes()?.min(most))))
            .collect();
        Self {
            budget: most,
            budgets,
            heads: BTreeMap::new(),
            shelves: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    /// Bytes of a prompt for a model, at most.
    pub fn budget(&self, model: &str) -> usize {
        self.budgets.get(model).copied().unwrap_or(self.budget)
    }

    /// The question of a slot, what its answer is put into, and the bytes that it shares with the one before on its island.
    pub fn question(
        &mut self,
        population: &Population,
        shop: &Workshop<'_>,
        slot: i64,
        island: IslandNumber,
        proposal: &Proposal,
    ) -> Result<Option<(Vec<Message>, Target, u64)>, HeadError> {
        let budget = match &proposal.by {
            By::Model(choice) => self.budget(&choice.model),
            By::Rewrite(_) => self.budget,
        };
        let program = &population.program;
        let parent = proposal
            .parents
            .first()
            .and_then(|number| population.get(*number));
        let (Some(known), Some(original)) = (parent, target(program, &program.text)) else {
            return Ok(None);
        };
        let Some(of_parent) = target(program, &known.row.text) else {
            return Ok(None);
        };
        let source = population
            .original()
            .and_then(|known| known.best.as_ref())
            .map(|best| best.ratio);
        let head = match self.heads.entry(budget) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(place) => place.insert(head(shop, program, &original, source, budget)?),
        };
        let room = self.budget / 3;
        let shelf = self
            .shelves
            .entry(island)
            .or_insert_with(|| Shelf::new(room));
        let wanted: Vec<Example> = proposal
            .examples
            .iter()
            .filter_map(|number| example(program, population.get(*number)?))
            .collect();
        shelf.place(&wanted, &original);
        let parent = Parent {
            number: known.row.number,
            target: of_parent.clone(),
            measured: measured(known, shop, source),
            tried: tried(population, known.row.number),
        };
        let task = task(population, shop, slot, island, proposal);
        let messages = prompt::conversation(head, shelf, &parent, &task, budget);
        let shared = self
            .last
            .get(&island)
            .map_or(0, |last| prompt::shared_prefix(last, &messages));
        self.last.insert(island, messages.clone());
        Ok(Some((messages, of_parent, shared as u64)))
    }
}

/// What of a text a model may change.
pub(super) fn target(program: &Program, text: &str) -> Option<Target> {
    let regions = program.regions(text).ok()?;
    Target::new(text, program.function.clone(), regions.spans().to_vec()).ok()
}

fn head(
    shop: &Workshop<'_>,
    program: &Program,
    original: &Target,
    source: Option<Ratio>,
    budget: usize,
) -> Result<Head, HeadError> {
    let how = &program.how;
    let mut compiler = crate::inner::story::compiler(how.compiler).to_owned();
    compiler.push_str(&format!(" for sm_{}", shop.ground.kernel.device.sm));
    for option in &how.options {
        compiler.push_str(", ");
        compiler.push_str(option);
    }
    let tolerance: Vec<String> = shop
        .base
        .tolerances
        .iter()
        .flat_map(|(_, text)| text.lines())
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    Head::new(&About {
        kernel: &shop.ground.kernel,
        target: original,
        compiler: &compiler,
        rules: &super::rules::told(&shop.settings.allow),
        tolerance: &tolerance,
        source,
        budget,
    })
}

fn example(program: &Program, known: &Known) -> Option<Example> {
    let target = target(program, &known.row.text)?;
    let best = known.best.as_ref()?;
    Some(Example {
        number: known.row.number,
        regions: target.texts().into_iter().map(str::to_owned).collect(),
        what: known.row.lineage.what.clone(),
        result: format!(
            "{} of the captured binary's time",
            crate::result::text::ratio(&best.ratio)
        ),
    })
}

fn measured(known: &Known, shop: &Workshop<'_>, source: Option<Ratio>) -> Option<Measured> {
    let outcome = known.outcome.as_ref().filter(|_| known.is_right())?;
    let configuration = known.best.as_ref().and_then(|best| {
        let space = shop.space(&known.variant()).ok()?;
        let knobs: Vec<String> = space
            .knobs(best.point.as_ref()?)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        (!knobs.is_empty()).then(|| knobs.join(" "))
    });
    Some(Measured::of(
        outcome,
        &shop.ground.kernel,
        source,
        configuration.as_deref(),
    ))
}

/// What was made of a variant before and came to nothing.
fn tried(population: &Population, parent: VariantNumber) -> Vec<String> {
    let time = |known: &Known| known.best.as_ref().map(|best| best.ratio.median);
    let of_parent = population.get(parent).and_then(time);
    let mut lines: Vec<String> = population
        .variants()
        .filter(|known| known.row.lineage.parents.first() == Some(&parent))
        .filter_map(|known| {
            let what = &known.row.lineage.what;
            match (known.is_right(), time(known), of_parent) {
                (true, Some(time), Some(before)) if time >= before => {
                    Some(format!("{what}: not faster ({time:.3})"))
                }
                (true, ..) => None,
                (false, ..) => Some(format!("{what}: {}", known.verdict.word())),
            }
        })
        .collect();
    lines.drain(..lines.len().saturating_sub(TRIED));
    lines
}

fn task(
    population: &Population,
    shop: &Workshop<'_>,
    slot: i64,
    island: IslandNumber,
    proposal: &Proposal,
) -> Task {
    match proposal.operator {
        Operator::Explore => Task::Explore {
            cell: cell(population, slot, island, shop.base.seed),
        },
        Operator::Crossover => {
            let other = proposal
                .parents
                .get(1)
                .and_then(|number| example(&population.program, population.get(*number)?));
            other.map_or(Task::Improve { direction: None }, |other| Task::Crossover {
                other,
            })
        }
        Operator::Simplify => Task::Simplify,
        Operator::Improve | Operator::Original | Operator::Repair | Operator::Rewrite => {
            let directions = prompt::task::directions(&shop.ground.kernel, shop.tolerant());
            let mut random = stream(shop.base.seed, slot.unsigned_abs(), "direction");
            Task::Improve {
                direction: random.pick(&directions).map(|text| (*text).to_owned()),
            }
        }
    }
}

/// The cell that is to be filled, in words.
fn cell(population: &Population, slot: i64, island: IslandNumber, seed: u64) -> String {
    let mut random = stream(seed, slot.unsigned_abs(), "target");
    let island = population.islands.island(island).ok();
    let Some(target) = island.and_then(|island| island.grid.target(&mut random)) else {
        return "something that is unlike all of these".to_owned();
    };
    let number = |value: f64| {
        if value.fract() == 0.0 {
            format!("{value:.0}")
        } else {
            format!("{value:.2}")
        }
    };
    let axes: Vec<String> = target
        .wanted
        .iter()
        .filter_map(|wanted| {
            let range = match (wanted.from, wanted.to) {
                (Some(from), Some(to)) => format!("{} to {}", number(from), number(to)),
                (Some(from), None) => format!("{} or more", number(from)),
                (None, Some(to)) => format!("less than {}", number(to)),
                (None, None) => return None,
            };
            let now = wanted.parent.map_or_else(String::new, |value| {
                format!(" (it has {} now)", number(value))
            });
            Some(format!("{}: {range}{now}", wanted.title))
        })
        .collect();
    axes.join("; ")
}
