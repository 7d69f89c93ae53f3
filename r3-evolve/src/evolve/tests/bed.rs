//! A search over source against tables: an evaluator that judges texts by their hash, and models that answer by theirs.

use std::rc::Rc;

use r3_codegen::recipe::Compiler;
use r3_models::chat::{Ask, Failure, Question, Request};
use r3_models::scripted::Scripted;
use r3_replay::evaluate::candidate::CandidateCode;
use r3_replay::evaluate::{Candidate, Outcome, Verdict};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::evolve::progress::{Dashboard, Observe};
use crate::evolve::view::RunView;
use crate::evolve::{Evolve, EvolveError, Models, Settings};
use crate::program::{How, Program};
use crate::space::Space;
use crate::store::{Phase, Store, key};
use crate::strategy::Kind;
use crate::tune::progress::{Progress, Watch};
use crate::tune::tests::bed::{self, Simulated, outcome};
use crate::tune::{Ask as Asked, Ground, Summary};

/// A source in which there is something to be rewritten.
pub const SOURCE: &str = "\
// r3: evolve begin
__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = 0.0f;
        for (int j = 0; j < 8; ++j) {
            sum += x[i] * 2.0f;
        }
        for (int j = 0; j < 16; ++j) {
            sum += x[i] / 8.0f;
        }
        y[i] = sum / 4.0f;
    }
}
// r3: evolve end
";

/// Somebody who watches, and stops or leaves after a number of looks.
#[derive(Default)]
pub struct Looker {
    pub looks: u64,
    pub stop_after: Option<u64>,
    pub leave_after: Option<u64>,
    pub said: Vec<String>,
    pub last: Option<Dashboard>,
    pub paused: u64,
    /// Goes on a little with each look, where nothing else makes it.
    pub clock: Option<Rc<bed::TestClock>>,
    /// After how many variants each what was taken so far is written down.
    pub every: Option<u64>,
    pub marks: Vec<(u64, (f64, u64))>,
}

impl Watch for Looker {
    fn progress(&mut self, _: &Progress) {}

    fn say(&mut self, line: &str) {
        self.said.push(line.to_owned());
    }

    fn stop(&self) -> bool {
        self.stop_after.is_some_and(|after| self.looks >= after)
    }

    fn leave(&self) -> bool {
        self.leave_after.is_some_and(|after| self.looks >= after)
    }
}

impl Observe for Looker {
    fn dashboard(&mut self, dashboard: &Dashboard) {
        self.looks += 1;
        if let Some(clock) = &self.clock {
            clock.pass(0.05);
        }
        self.paused += u64::from(dashboard.paused.is_some());
        if let Some(every) = self.every
            && dashboard.counts.variants >= every * (self.marks.len() as u64 + 1)
        {
            self.marks
                .push((dashboard.counts.variants, super::long::taken()));
        }
        self.last = Some(dashboard.clone());
    }
}

/// The text of a candidate.
pub fn text(candidate: &Candidate) -> Option<&str> {
    match &candidate.code {
        CandidateCode::Source(source) => Some(&source.text),
        _ => None,
    }
}

fn hash(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

/// What comes of a text: by its hash, but for the source as given, which is right.
pub fn verdict(text: &str) -> Verdict {
    if text == SOURCE {
        return Verdict::Right;
    }
    match hash(text) % 16 {
        0 => Verdict::NoCode,
        1 => Verdict::Wrong,
        2 => Verdict::Cheat,
        3 => Verdict::Fault,
        _ => Verdict::Right,
    }
}

/// Whether a text is wrong with perturbed inputs only.
pub fn only_seems_right(text: &str) -> bool {
    text != SOURCE && hash(text).is_multiple_of(5)
}

/// Time of a candidate as a part of the original's.
pub fn ratio(candidate: &Candidate) -> f64 {
    let Some(text) = text(candidate) else {
        return bed::truth(candidate);
    };
    let of_text = if text == SOURCE {
        1.02
    } else {
        0.6 + (hash(text) % 1000) as f64 / 2000.0
    };
    let knobs = hash(&serde_json::to_string(&(&candidate.build, &candidate.launch)).unwrap());
    let of_knobs = if *candidate == plain(candidate) {
        1.0
    } else {
        0.9 + (knobs % 1000) as f64 / 4000.0
    };
    of_text * of_knobs
}

fn plain(candidate: &Candidate) -> Candidate {
    Candidate {
        code: candidate.code.clone(),
        ..Candidate::default()
    }
}

/// What comes of the nth time that something is asked.
type Judge = Rc<dyn Fn(&Asked, u32) -> Outcome>;

/// Judges by hashes.
pub fn judge(counts: bool) -> Judge {
    Rc::new(move |ask, _| {
        let text = text(&ask.candidate).unwrap_or(SOURCE);
        let verdict = match verdict(text) {
            Verdict::Right if ask.plan.perturbed > 0 && only_seems_right(text) => Verdict::Wrong,
            verdict => verdict,
        };
        let noise = if counts { 0.0 } else { 0.005 };
        let mut outcome = outcome(ask, verdict, ratio(&ask.candidate), noise, counts);
        if !ask.plan.time {
            outcome.score = None;
        }
        outcome
    })
}

/// What a model answers: by the hash of the question. Some answers are of no use, and some were given before.
pub fn answer(request: &Request) -> String {
    let all: String = request
        .messages
        .iter()
        .map(|m| m.content.as_str())
        .collect();
    match hash(&all) % 24 {
        0 => "I would try shared memory here, but I cannot be sure.".to_owned(),
        1 => String::new(),
        number => {
            let body = SOURCE
                .lines()
                .filter(|line| !line.starts_with("//"))
                .collect::<Vec<_>>()
                .join("\n")
                .replace("* 2.0f", &format!("* 2.0f * {number}.0f"));
            format!("Multiplies by {number}.\n\n```cuda\n{body}\n```\n")
        }
    }
}

/// A run in a folder.
pub struct Bed {
    pub tune: bed::Bed,
    pub settings: Settings,
    pub program: Program,
    pub models: Option<r3_models::settings::Settings>,
}

impl Bed {
    pub fn new(counts: bool, evaluations: u64) -> Self {
        let mut tune = bed::Bed::new(counts, Kind::Bayesian, evaluations);
        tune.settings.fine.top = 3;
        tune.settings.fine.ablation = false;
        let mut settings = Settings {
            depth: 3,
            ..Settings::default()
        };
        settings.islands.migration.schedule = crate::islands::Schedule::Slots(8);
        Self {
            tune,
            settings,
            program: Program {
                text: SOURCE.to_owned(),
                name: "k.cu".into(),
                headers: Vec::new(),
                device_headers: Vec::new(),
                own: Compiler::Any,
                renamed: false,
                kernel: "k".into(),
                function: "k".into(),
                parameters: 3,
                instances: Vec::new(),
                how: How {
                    compiler: Compiler::Nvrtc,
                    ..How::default()
                },
                notes: Vec::new(),
            },
            models: None,
        }
    }

    /// The same with two models.
    pub fn with_models(mut self) -> Self {
        // Idleness is a clock's, and what a clock decides is not the same twice.
        let text = "\
[choice]
idle = 1e6

[[endpoint]]
url = \"http://localhost:1/v1\"

[[model]]
name = \"small\"
part = \"fast\"

[[model]]
name = \"large\"
";
        self.models = Some(toml::from_str(text).unwrap());
        self
    }

    pub fn ground(&self) -> Ground {
        self.tune.ground()
    }

    pub fn create(&self) -> Store {
        let store = self.tune.create();
        let ground = self.ground();
        let original = self.program.original();
        let options = crate::space::SpaceOptions::default();
        let space = Space::of_source(&ground.kernel, &original.text, &original.launch, &options);
        store.put(key::EVOLVE, &self.settings).unwrap();
        store.put(key::GIVEN, &self.program).unwrap();
        store.put(key::PROGRAM, &self.program).unwrap();
        store
            .put_text(key::SPACE, &space.unwrap().to_toml())
            .unwrap();
        store
    }

    pub fn open(&self) -> Store {
        self.tune.open()
    }

    pub fn evaluator(&self) -> Simulated {
        Simulated::new(&self.tune.clock, self.tune.counts, judge(self.tune.counts))
    }

    pub fn ask(&self) -> Slow {
        Slow::new(Scripted::texts(answer))
    }

    pub fn run(
        &self,
        store: &mut Store,
        evaluator: &mut Simulated,
        ask: Option<&mut dyn Ask>,
        watch: &mut Looker,
    ) -> Result<Summary, EvolveError> {
        let ground = self.ground();
        Evolve {
            store,
            base: &self.tune.settings,
            settings: &self.settings,
            ground: &ground,
            given: self.program.clone(),
            models: ask
                .zip(self.models.as_ref())
                .map(|(ask, settings)| Models { ask, settings }),
            clock: &*self.tune.clock,
        }
        .run(evaluator, watch)
    }

    /// A run with nobody but the script to be asked, and nobody who stops it.
    pub fn go(&self, store: &mut Store) -> Result<Summary, EvolveError> {
        let mut ask = self.ask();
        let ask: Option<&mut dyn Ask> = self.models.is_some().then_some(&mut ask as &mut dyn Ask);
        self.run(store, &mut self.evaluator(), ask, &mut Looker::default())
    }

    /// From the beginning to the end.
    pub fn whole(&self) -> (Summary, Value) {
        let mut store = self.create();
        let summary = self.go(&mut store).unwrap();
        (summary, repeatable(&store))
    }
}

/// A script whose answers take some looks, each another number of them.
pub struct Slow {
    inner: Scripted,
    held: Vec<(u64, r3_models::chat::Finished)>,
    pub asked: u64,
    /// Looks at which it is down.
    pub down: std::ops::Range<u64>,
    looks: u64,
}

impl Slow {
    pub fn new(inner: Scripted) -> Self {
        Self {
            inner,
            held: Vec::new(),
            asked: 0,
            down: 0..0,
            looks: 0,
        }
    }
}

impl Ask for Slow {
    fn submit(&mut self, question: Question) -> r3_models::chat::Ticket {
        self.asked += 1;
        self.inner.submit(question)
    }

    fn finished(&mut self, wait: std::time::Duration) -> Vec<r3_models::chat::Finished> {
        self.looks += 1;
        if self.down.contains(&self.looks) {
            return Vec::new();
        }
        for one in self.inner.finished(wait) {
            self.held.push((1 + one.ticket.0 % 5, one));
        }
        for (left, _) in &mut self.held {
            *left -= 1;
        }
        let (ready, held) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(left, _)| *left == 0);
        self.held = held;
        let ready: Vec<(u64, r3_models::chat::Finished)> = ready;
        ready.into_iter().rev().map(|(_, one)| one).collect()
    }

    fn open(&self) -> usize {
        self.inner.open() + self.held.len()
    }

    fn under_way(&self) -> usize {
        self.open()
    }

    fn state(&self) -> r3_models::chat::State {
        if self.down.contains(&self.looks) {
            let now = std::time::SystemTime::UNIX_EPOCH;
            return r3_models::chat::State::Down {
                since: now,
                reason: "the test took it away".into(),
                needs_somebody: false,
                next_try: now,
            };
        }
        self.inner.state()
    }

    fn state_of(&self, _: &str) -> r3_models::chat::State {
        self.state()
    }

    fn totals(&self) -> r3_models::account::Totals {
        self.inner.totals()
    }

    fn wake_by(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        self.inner.wake_by(wake);
    }
}

/// A failure of a question.
pub fn refused() -> Failure {
    Failure::Exhausted {
        model: "large".into(),
        attempts: 4,
        message: "no".into(),
    }
}

/// What is in a store and does not depend on time: neither when anything was, nor in which order numbers were given.
pub fn repeatable(store: &Store) -> Value {
    let view = RunView::of(store).unwrap();
    let slots: Vec<Value> = store
        .slots()
        .unwrap()
        .iter()
        .map(|row| {
            json!([
                row.slot,
                row.island,
                row.after,
                row.opening,
                row.told,
                row.closing
            ])
        })
        .collect();
    let variants: Vec<Value> = store
        .variants()
        .unwrap()
        .iter()
        .map(|row| {
            json!([
                row.number,
                row.slot,
                row.turn,
                row.text,
                row.fingerprint,
                row.launch,
                row.lineage
            ])
        })
        .collect();
    let requests: Vec<Value> = store
        .requests()
        .unwrap()
        .iter()
        .map(|row| {
            json!([
                row.slot,
                row.turn,
                row.model,
                row.messages,
                row.shared,
                row.answer
            ])
        })
        .collect();
    let mut rows = store.evaluations(Some(Phase::Search)).unwrap();
    rows.sort_by_key(|row| row.of);
    let evaluations: Vec<Value> = rows
        .iter()
        .map(|row| {
            let of = row.of.unwrap();
            json!([
                of.slot,
                of.step,
                row.candidate,
                row.point,
                row.plan,
                row.reason,
                row.state,
                row.outcome
            ])
        })
        .collect();
    let islands = serde_json::to_value(&view.islands).unwrap();
    let summary = view.summary.as_ref().map(|summary| {
        let best = summary.best.as_ref();
        json!([
            summary.end,
            summary.evaluations,
            summary.verdicts,
            summary.claim,
            summary.reason,
            summary.source,
            best.map(|best| json!([best.variant, best.ratio, best.knobs, best.candidate])),
        ])
    });
    json!({
        "slots": slots,
        "variants": variants,
        "requests": requests,
        "evaluations": evaluations,
        "islands": islands,
        "counts": view.counts,
        "summary": summary,
    })
}
