//! Long runs: what they cost, and how much of them is known code. Figures, for `docs/performance.md` and `docs/search.md`:
//!
//!     cargo test -p r3-evolve --lib -- --ignored --nocapture --test-threads 1 long_run
//!
//! Rewrites are the real ones, on the sources of samples. The compiler is made up: it ignores `inline`, `__restrict__` and launch bounds that
//! bind nothing, and two of three loops come out alike whether they are to be unrolled or not.

use r3_replay::evaluate::Verdict;
use r3_replay::evaluate::candidate::CandidateCode;
use xxhash_rust::xxh3::xxh3_64;

use super::bed::*;
use crate::evolve::slot::Ended;
use crate::evolve::view::RunView;
use crate::store::Store;
use crate::tune::tests::bed::outcome;

const IGNORED: &[&str] = &[
    "__forceinline__ ",
    "inline ",
    " __restrict__",
    "__launch_bounds__(128, 1) ",
    "__launch_bounds__(128, 2) ",
    "__launch_bounds__(128) ",
    "__launch_bounds__(256, 1) ",
    "__launch_bounds__(256) ",
];

fn hash(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

/// What the made-up compiler makes of a text: what of it matters, and the time of that.
fn compiled(text: &str) -> (String, f64) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut code = String::new();
    let mut time = 1.02;
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).copied().unwrap_or_default();
        let both = hash(&format!("{line}{next}"));
        if line.starts_with("#pragma") {
            if !hash(next).is_multiple_of(3) {
                continue;
            }
            time *= 0.95 + (both % 100) as f64 / 1000.0;
        }
        let mut line = (*line).to_owned();
        for word in IGNORED {
            line = line.replace(word, "");
        }
        if line.contains("__ldg") || line.contains("__launch_bounds__") {
            time *= 0.96 + (hash(&line) % 80) as f64 / 1000.0;
        }
        code.push_str(&line);
        code.push('\n');
    }
    (format!("{:016x}", hash(&code)), time)
}

/// A run with a sample's source: some slots, then its end.
fn sample(name: &str, function: &str, variants: u64, seed: u64) -> Bed {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/programs/");
    let mut bed = Bed::new(true, 1);
    bed.tune.settings.budget.evaluations = None;
    bed.tune.settings.seed = seed;
    bed.settings.limits.variants = Some(variants);
    bed.settings.islands.migration.schedule = crate::islands::Schedule::Slots(64);
    let text = std::fs::read_to_string(format!("{folder}{name}")).unwrap();
    let device = text.find("\n\n").unwrap();
    let host = text.find("int main").unwrap();
    let (begin, end) = ("\n// r3: evolve begin", "// r3: evolve end\n");
    bed.program.text = [
        &text[..device],
        begin,
        &text[device..host],
        end,
        &text[host..],
    ]
    .concat();
    bed.program.function = function.to_owned();
    bed.program.parameters = 5;
    bed
}

fn run(bed: &Bed, store: &mut Store, watch: &mut Looker) {
    let mut evaluator = bed.evaluator();
    evaluator.judge = std::rc::Rc::new(|ask, _| {
        let CandidateCode::Source(source) = &ask.candidate.code else {
            return outcome(ask, Verdict::Right, 1.0, 0.0, true);
        };
        let (image, time) = compiled(&source.text);
        let plain = ask.candidate.build == Default::default();
        let knobs = serde_json::to_string(&(&ask.candidate.build, &ask.candidate.launch)).unwrap();
        let knobs = if plain {
            1.0
        } else {
            0.95 + (hash(&knobs) % 100) as f64 / 1000.0
        };
        let mut came = outcome(ask, Verdict::Right, time * knobs, 0.0, true);
        // What is evaluated anew has the code that the result is made of.
        if let Some(code) = &mut came.code
            && !ask.plan.again
        {
            code.image = if plain {
                image
            } else {
                format!("{image}{knobs}")
            };
        }
        if !ask.plan.time {
            came.score = None;
        }
        came
    });
    bed.run(store, &mut evaluator, None, watch).unwrap();
}

/// Seconds of processor time of this process, and MiB that it holds.
pub fn taken() -> (f64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    ((ticks(11) + ticks(12)) / 100.0, (pages * 4096) >> 20)
}

#[test]
#[ignore = "prints figures, and takes minutes"]
fn long_run_costs() {
    let variants: u64 = std::env::var("R3_LONG").map_or(5000, |text| text.parse().unwrap());
    let bed = sample("nbody.cu", "step", variants, 1);
    let mut store = bed.create();
    let mut watch = Looker {
        every: Some(500),
        ..Looker::default()
    };
    let before = taken();
    run(&bed, &mut store, &mut watch);
    let mut last = before.0;
    for (count, (seconds, mib)) in &watch.marks {
        println!(
            "{count} variants: {:.2} s for the last 500, {mib} MiB",
            seconds - last
        );
        last = *seconds;
    }
    let after = taken();
    println!("to the end: {:.2} s, {} MiB", after.0 - last, after.1);
    let size = std::fs::metadata(store.path()).unwrap().len() >> 20;
    println!("database: {size} MiB, and its log");
    let began = taken();
    let view = RunView::of(&store).unwrap();
    println!(
        "looked at: {:.2} s, {} variants",
        taken().0 - began.0,
        view.variants.len()
    );
    drop(view);
    let began = taken();
    run(&bed, &mut store, &mut Looker::default());
    println!(
        "gone through again: {:.2} s, {} MiB",
        taken().0 - began.0,
        taken().1
    );
}

#[test]
#[ignore = "prints figures, and takes minutes"]
fn long_run_repeats() {
    let variants: u64 = std::env::var("R3_LONG").map_or(600, |text| text.parse().unwrap());
    for (name, function) in [("nbody.cu", "step"), ("wilson.cu", "dslash")] {
        for seed in 1..=4 {
            let bed = sample(name, function, variants, seed);
            let mut store = bed.create();
            run(&bed, &mut store, &mut Looker::default());
            let view = RunView::of(&store).unwrap();
            let closings = view.slots.iter().filter_map(|slot| slot.closing.as_ref());
            let known = closings.filter(|one| matches!(one.ended, Ended::Duplicate(_)));
            let cells: usize = view.islands.iter().map(|one| one.occupancy.filled).sum();
            let best = view.best.and_then(|best| view.variant(best)?.ratio);
            println!(
                "{name} seed {seed}: {variants} variants, {} known code, {cells} cells, best {:.4}",
                known.count(),
                best.unwrap().median
            );
        }
    }
}
