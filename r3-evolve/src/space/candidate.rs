//! A point as a candidate.
//!
//! One table: a knob's name and what its value does to a candidate.

use r3_codegen::passes::{Level, PASSES};
use r3_codegen::recipe::{Contraction, Unroll};
use r3_replay::evaluate::Candidate;
use r3_replay::evaluate::candidate::{
    Approximate, CandidateCode, GridRule, LaunchChange, Route, SharedRule,
};
use r3_replay::remix::origin::From as Form;

use super::{KernelFacts, Point, Space, Value, shapes};

/// What a knob's value does. `None` when the value means nothing.
type Apply = fn(&mut Candidate, &Value, &Point, &KernelFacts) -> Option<()>;

/// All knobs.
const KNOBS: &[(&str, Apply)] = &[
    ("launch", launch),
    ("block", block),
    ("grid", grid),
    ("shared", shared),
    ("carveout", carveout),
    ("registers", registers),
    ("constants", constants),
    ("pointers", pointers),
    ("load_cache", load_cache),
    ("read_only", read_only),
    ("assembler", assembler),
    ("approximate", approximate),
    ("route", route),
    ("passes", passes),
    ("sequence", sequence),
    ("unroll", unroll),
    ("unroll_threshold", unroll_threshold),
    ("unroll_count", unroll_count),
    ("inline", inline),
    ("guards", guards),
    ("contraction", contraction),
];

/// Why a point is no candidate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CandidateError {
    /// The space is that of no kernel.
    #[error("the space belongs to no kernel")]
    NoKernel,
    /// There is no such knob.
    #[error("`{0}` is no knob of a kernel")]
    NoKnob(String),
    /// The value means nothing to the knob.
    #[error("`{knob} = {value}` means nothing")]
    Value {
        /// The knob.
        knob: String,
        /// Its value.
        value: String,
    },
}

impl Space {
    /// A point as what is compiled and launched. The original is the recorded code.
    pub fn candidate(&self, point: &Point) -> Result<Candidate, CandidateError> {
        self.candidate_of(&Candidate::default(), point)
    }

    /// A point as a change of `base`: the original is `base` as it is.
    pub fn candidate_of(
        &self,
        base: &Candidate,
        point: &Point,
    ) -> Result<Candidate, CandidateError> {
        let facts = self.kernel.as_ref().ok_or(CandidateError::NoKernel)?;
        let mut candidate = base.clone();
        for parameter in &self.parameters {
            let Some(value) = point.get(&parameter.name) else {
                continue;
            };
            if parameter.when.is_empty() && *value == parameter.domain.default_value() {
                // As the base has it.
                continue;
            }
            let (_, apply) = KNOBS
                .iter()
                .find(|(name, _)| *name == parameter.name)
                .ok_or_else(|| CandidateError::NoKnob(parameter.name.clone()))?;
            apply(&mut candidate, value, point, facts).ok_or_else(|| CandidateError::Value {
                knob: parameter.name.clone(),
                value: value.to_string(),
            })?;
        }
        let threads = threads(point, facts)?;
        if threads > facts.max_threads && facts.compilable {
            // The recorded code was made for fewer threads: registers must suffice for all of them.
            candidate.build.bounds.maxntid = Some(threads);
        }
        let built = candidate.build != Default::default();
        if candidate.code == CandidateCode::Recorded
            && (built || (!facts.recorded_runs && facts.compilable))
        {
            candidate.code = CandidateCode::Captured { from: None };
        }
        Ok(candidate)
    }
}

/// Whether there is such a knob.
pub(super) fn is_knob(name: &str) -> bool {
    KNOBS.iter().any(|(known, _)| *known == name)
}

/// For people: that there is no such knob.
pub(super) fn no_knob(name: &str) -> String {
    let names: Vec<&str> = KNOBS.iter().map(|(name, _)| *name).collect();
    format!("`{name}` is no knob of a kernel: {}", names.join(", "))
}

/// Why a value means nothing to a knob.
pub(super) fn meaning(name: &str, value: &Value, facts: &KernelFacts) -> Result<(), String> {
    let known = KNOBS.iter().find(|(known, _)| *known == name);
    let (_, apply) = known.ok_or_else(|| no_knob(name))?;
    apply(&mut Candidate::default(), value, &Point::default(), facts)
        .ok_or_else(|| format!("`{name} = {value}` means nothing"))
}

/// What a knob is in the original. `None` for those that mean something only with others, and for those of a source whose text
/// wishes another launch.
pub(super) fn original(name: &str, facts: &KernelFacts) -> Option<String> {
    if name == "block" {
        return Some(shapes::spell(facts.block));
    }
    if facts.source && matches!(name, "grid" | "shared") {
        return None;
    }
    let of = [
        ("grid", "cover"),
        ("shared", "as recorded"),
        ("carveout", "as recorded"),
        ("registers", "as compiled"),
        ("constants", "none"),
        ("load_cache", "default"),
        ("read_only", "no"),
        ("assembler", "default"),
        ("approximate", "exact"),
        ("route", "text"),
    ];
    let (_, value) = of.into_iter().find(|(knob, _)| *knob == name)?;
    Some(value.to_owned())
}

/// Threads of a block.
fn threads(point: &Point, facts: &KernelFacts) -> Result<u32, CandidateError> {
    let block = match point.text("block") {
        Some(text) => shapes::parse(text).ok_or_else(|| CandidateError::Value {
            knob: "block".to_owned(),
            value: text.to_owned(),
        })?,
        None => match (point.text("launch"), facts.recorded_block) {
            (Some("as recorded"), Some(recorded)) => recorded,
            _ => facts.block,
        },
    };
    Ok(product(block))
}

fn product(block: [u32; 3]) -> u32 {
    block
        .iter()
        .fold(1u32, |product, size| product.saturating_mul(*size))
}

/// `as given`, `as recorded`: whether a source is launched as its text wishes.
fn launch(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    match value.text()? {
        "as given" => {}
        "as recorded" => candidate.launch = LaunchChange::default(),
        _ => return None,
    }
    Some(())
}

fn block(candidate: &mut Candidate, value: &Value, _: &Point, facts: &KernelFacts) -> Option<()> {
    let block = shapes::parse(value.text()?)?;
    if block == facts.block {
        return Some(());
    }
    candidate.launch.block = Some(block);
    // A part of the recorded blocks is a part of the recorded threads, and stays one.
    let sizes = facts.block.into_iter().zip(block);
    for (rule, (before, now)) in candidate.launch.grid.iter_mut().zip(sizes) {
        if let GridRule::Scale(by, over) = rule {
            *rule = scale(
                u64::from(*by) * u64::from(before),
                u64::from(*over) * u64::from(now),
            )?;
        }
    }
    Some(())
}

/// A fraction in its lowest terms.
fn scale(by: u64, over: u64) -> Option<GridRule> {
    let (mut a, mut b) = (by, over);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let lowest = |number: u64| u32::try_from(number.checked_div(a)?).ok();
    Some(GridRule::Scale(lowest(by)?, lowest(over)?))
}

/// `as given`, `cover`, `same`, `blocks 264`, `scale 1/2`. The last two are of the first dimension.
fn grid(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    let text = value.text()?;
    let rules = &mut candidate.launch.grid;
    match text {
        "as given" => {}
        "cover" => *rules = [GridRule::Cover; 3],
        "same" => *rules = [GridRule::Same; 3],
        _ => {
            let rule = if let Some(count) = text.strip_prefix("blocks ") {
                GridRule::Blocks(count.trim().parse().ok().filter(|count| *count > 0)?)
            } else {
                let (by, of) = text.strip_prefix("scale ")?.split_once('/')?;
                let number = |text: &str| text.trim().parse().ok().filter(|number| *number > 0);
                GridRule::Scale(number(by)?, number(of)?)
            };
            let [x, ..] = rules;
            *x = rule;
        }
    }
    Some(())
}

fn shared(
    candidate: &mut Candidate,
    value: &Value,
    point: &Point,
    facts: &KernelFacts,
) -> Option<()> {
    let text = value.text()?;
    let given = candidate.launch.shared;
    candidate.launch.shared = match (text, given) {
        ("as given", _) => given,
        ("as recorded", _) => SharedRule::Same,
        ("per thread", SharedRule::Bytes(bytes)) => {
            let now = u64::from(threads(point, facts).ok()?);
            let before = u64::from(product(facts.block).max(1));
            let bytes = (u64::from(bytes) * now)
                .div_ceil(before)
                .next_multiple_of(16);
            SharedRule::Bytes(u32::try_from(bytes).ok()?)
        }
        ("per thread", _) => SharedRule::PerThread,
        _ => SharedRule::Bytes(text.strip_prefix("bytes ")?.trim().parse().ok()?),
    };
    Some(())
}

fn carveout(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    candidate.launch.carveout = match value.text()? {
        "as recorded" => None,
        text => Some(
            text.strip_suffix('%')?
                .trim()
                .parse()
                .ok()
                .filter(|percent| *percent <= 100)?,
        ),
    };
    Some(())
}

/// `as compiled`, `max 64`, `min-blocks 2`, `threads`. One knob, since both pull the same lever: how many registers the
/// assembler thinks that it has.
fn registers(
    candidate: &mut Candidate,
    value: &Value,
    point: &Point,
    facts: &KernelFacts,
) -> Option<()> {
    let bounds = &mut candidate.build.bounds;
    let text = value.text()?;
    if text == "as compiled" {
        return Some(());
    }
    if let Some(count) = text.strip_prefix("max ") {
        bounds.maxnreg = Some(count.trim().parse().ok().filter(|count| *count > 0)?);
        return Some(());
    }
    bounds.maxntid = Some(threads(point, facts).ok()?);
    if text != "threads" {
        let count = text.strip_prefix("min-blocks ")?.trim().parse().ok()?;
        bounds.minnctapersm = Some(count);
    }
    Some(())
}

/// `none`, `scalars`, `geometry`, `scalars+geometry`, `param 3`.
fn constants(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    let facts = &mut candidate.build.specialise;
    let mut add = |of: &[&str]| facts.extend(of.iter().map(|fact| (*fact).to_owned()));
    match value.text()? {
        "none" => {}
        "scalars" => add(&["scalars"]),
        "geometry" => add(&["grid", "block"]),
        "scalars+geometry" => add(&["scalars", "grid", "block"]),
        text => {
            let index: u32 = text.strip_prefix("param ")?.trim().parse().ok()?;
            facts.push(format!("param:{index}"));
        }
    }
    Some(())
}

fn pointers(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    match value.text()? {
        "unknown" => {}
        "noalias+align" => {
            let facts = ["noalias", "align"].map(str::to_owned);
            candidate.build.specialise.extend(facts);
        }
        _ => return None,
    }
    Some(())
}

fn load_cache(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    match value.text()? {
        "default" => {}
        text @ ("ca" | "cg" | "cs" | "cv") => {
            candidate
                .build
                .assembler_options
                .push(format!("-dlcm={text}"));
        }
        _ => return None,
    }
    Some(())
}

fn read_only(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    candidate.build.read_only_loads = on(value)?;
    Some(())
}

fn assembler(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    match value.text()? {
        "default" => {}
        text @ ("-O0" | "-O1" | "-O2" | "-O3") => {
            candidate.build.assembler_options.push(text.to_owned());
        }
        _ => return None,
    }
    Some(())
}

/// `exact`, `division`, `division+flush`, `fast-math`. The last one is for source.
fn approximate(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    let steps = match value.text()? {
        "exact" => 0,
        "division" => 1,
        "division+flush" => 2,
        "fast-math" => 3,
        _ => return None,
    };
    candidate.build.approximate = Approximate {
        division: steps >= 1,
        flush: steps >= 2,
        functions: steps >= 3,
    };
    if steps >= 3 && candidate.code == CandidateCode::Recorded {
        candidate.code = CandidateCode::Captured {
            from: Some(Form::Source),
        };
    }
    Some(())
}

fn route(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    candidate.build.route = match value.text()? {
        "text" => Route::Text,
        "lift" => Route::Lift,
        _ => return None,
    };
    Some(())
}

fn passes(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    candidate.build.passes = match value.text()? {
        "none" | "sequence" => String::new(),
        "sroa" => "function(sroa)".to_owned(),
        level @ ("O0" | "O1" | "O2" | "O3" | "Os" | "Oz") => format!("default<{level}>"),
        _ => return None,
    };
    Some(())
}

/// Passes in an order, each as `opt` writes it, without what is around it: `licm`, `simplifycfg<sink-common-insts>`. Those of a source
/// come after O3.
fn sequence(
    candidate: &mut Candidate,
    value: &Value,
    _: &Point,
    facts: &KernelFacts,
) -> Option<()> {
    let mut levels: Vec<(Level, Vec<&str>)> = Vec::new();
    for item in value.list()? {
        let level = level_of(item)?;
        match levels.last_mut() {
            // Neighbours of one level share an adaptor, as in LLVM's own pipelines.
            Some((last, passes)) if *last == level => passes.push(item),
            _ => levels.push((level, vec![item])),
        }
    }
    let parts = levels
        .iter()
        .map(|(level, passes)| level.wrap(&passes.join(",")));
    let first = facts.source.then(|| "default<O3>".to_owned());
    candidate.build.passes = first.into_iter().chain(parts).collect::<Vec<_>>().join(",");
    Some(())
}

/// At which level a pass works; `None` when it is none.
pub(super) fn level_of(pass: &str) -> Option<Level> {
    let name = pass.split('<').next()?;
    PASSES
        .iter()
        .find(|known| known.name == name)
        .map(|known| known.level)
}

/// `as marked`, `free`, `threshold`, `count`.
fn unroll(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    candidate.build.unroll = match value.text()? {
        "as marked" => Unroll::Keep,
        // With a count, `unroll_count` says how often.
        "free" | "threshold" | "count" => Unroll::Free,
        _ => return None,
    };
    Some(())
}

fn unroll_threshold(
    candidate: &mut Candidate,
    value: &Value,
    _: &Point,
    _: &KernelFacts,
) -> Option<()> {
    let option = format!("-unroll-threshold={}", value.number()?);
    candidate.build.llvm_options.push(option);
    Some(())
}

fn unroll_count(
    candidate: &mut Candidate,
    value: &Value,
    _: &Point,
    _: &KernelFacts,
) -> Option<()> {
    let count = value.text()?.parse().ok().filter(|count| *count > 0)?;
    candidate.build.unroll = Unroll::Count(count);
    Some(())
}

fn inline(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    candidate.build.inline_functions = on(value)?;
    Some(())
}

fn guards(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    candidate.build.keep_guards = match value.text()? {
        "branches" => false,
        "kept" => true,
        _ => return None,
    };
    Some(())
}

fn contraction(candidate: &mut Candidate, value: &Value, _: &Point, _: &KernelFacts) -> Option<()> {
    candidate.build.contraction = match value.text()? {
        "assembler" => Contraction::Assembler,
        "llvm" => Contraction::Llvm,
        _ => return None,
    };
    Some(())
}

fn on(value: &Value) -> Option<bool> {
    match value.text()? {
        "no" => Some(false),
        "yes" => Some(true),
        _ => None,
    }
}
