//! A variant that somebody wants to have.
//!
//! What a search only screened is right on the launches that decided, and may be wrong on others. So it is not handed out before it was
//! checked.

use std::path::Path;

use r3_replay::evaluate::describe::KernelDescription;

use super::going_on::GoingOn;
use super::judging::Judging;
use super::show::find_variant;
use super::terminal::Terminal;
use super::{Failure, evolve::space};
use crate::evolve::check::check;
use crate::evolve::view::{Integrity, RunView, VariantView, is_evolve};
use crate::inner::story::compiler;
use crate::program::Program;
use crate::result::export::{SourceFile, nvcc_flags, source};
use crate::store::{Evaluation, EvaluationNumber, Store, key};
use crate::tune::clock::SystemClock;
use crate::tune::{Settings, TuneError};

/// What is wanted.
pub(super) struct Wanted<'a> {
    /// Folder of the run.
    pub run: &'a Path,
    /// The variant.
    pub name: &'a str,
    /// Whether it is to be checked where it was not.
    pub check: bool,
}

impl Wanted<'_> {
    /// It as a file, or what nvcc and the source can have of it. `None` where it is the one that the run claims: that one was measured at
    /// length, in a configuration that the finals chose.
    pub fn bytes(&self, flags: bool) -> Result<Option<Vec<u8>>, Failure> {
        let mut store = Store::look(self.run).map_err(Failure::new)?;
        if !is_evolve(&store).map_err(Failure::new)? {
            return Err(Failure::new(format!(
                "{}: a search for knobs has no variants",
                self.run.display()
            )));
        }
        let view = RunView::of(&store).map_err(Failure::new)?;
        let one = find_variant(&view, self.name).map_err(Failure::new)?;
        if view.claimed() == Some(one.number) {
            return Ok(None);
        }
        if let Integrity::Screened | Integrity::CheckedOtherwise = one.integrity {
            if !self.check {
                return Err(Failure::new(self.unchecked(one)));
            }
            let row = configuration(&store, one)?;
            // Somebody who works on the run holds it.
            drop(store);
            store = Store::open(self.run).map_err(Failure::new)?;
            self.check(&mut store, one, &row)?;
            let view = RunView::of(&store).map_err(Failure::new)?;
            let one = find_variant(&view, self.name).map_err(Failure::new)?;
            return self.written(&store, &view, one, flags).map(Some);
        }
        self.written(&store, &view, one, flags).map(Some)
    }

    fn unchecked(&self, one: &VariantView) -> String {
        let number = one.number.0;
        let other = one.checked_with.as_ref().map_or_else(String::new, |with| {
            format!(
                ". In another configuration it was checked: `r3-evolve show {} {number}` says in which",
                self.run.display()
            ) + if with.knobs.is_empty() { " (as its text says)" } else { "" }
        });
        format!(
            "variant {number} is not checked: it was {}. --check does that first{other}",
            one.integrity.words()
        )
    }

    fn check(&self, store: &mut Store, one: &VariantView, row: &Evaluation) -> Result<(), Failure> {
        let base: Settings = store.need(key::SETTINGS).map_err(Failure::new)?;
        let given: Program = store.need(key::GIVEN).map_err(Failure::new)?;
        let run = self.run.display();
        let changed = format!(
            "nothing was checked. `r3-evolve resume {run} --force` takes what is there now for the run's"
        );
        let moved = format!(
            "put it back, or say where it lies now: `r3-evolve resume {run} --archive FILE`"
        );
        let mut again = GoingOn {
            store,
            settings: &base,
            judging: &Judging::default(),
            force: false,
            changed: Some(&changed),
            moved: &moved,
            left: format!("{run}: left; nothing was checked"),
        }
        .prepare(|ground| Ok(space(&base, ground, &given)?.digest()))?;
        let clock = SystemClock::default();
        let mut terminal = Terminal::new(again.signals, false);
        let outcome = check(
            store,
            &base,
            &again.ground,
            row,
            &clock,
            &mut again.server,
            &mut terminal,
        );
        terminal.clear();
        let outcome = outcome.map_err(|error| match error {
            TuneError::Left => Failure::Left(format!("{run}: left; nothing was checked")),
            TuneError::Machine { reason, .. } => Failure::new(format!(
                "variant {} could not be checked: {reason}. That says nothing of the variant",
                one.number.0
            )),
            error => Failure::new(error),
        })?;
        if outcome.verdict.is_right() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "variant {} failed its check: on every launch and with perturbed inputs it is {}: {}",
            one.number.0,
            outcome.verdict.word(),
            outcome.reason.as_deref().unwrap_or("no reason was given")
        )))
    }

    fn written(
        &self,
        store: &Store,
        view: &RunView,
        one: &VariantView,
        flags: bool,
    ) -> Result<Vec<u8>, Failure> {
        if one.integrity != Integrity::Checked {
            let why = one.reason.as_deref().unwrap_or("no reason was given");
            let verdict = one.verdict.map_or("not evaluated", |one| one.word());
            return Err(Failure::new(format!(
                "variant {} is {verdict}: {why}. `r3-evolve show {} {}` shows its text",
                one.number.0,
                self.run.display(),
                one.number.0
            )));
        }
        let row = configuration(store, one)?;
        let kernel: &KernelDescription = &view.kernel;
        let block = kernel
            .launches
            .first()
            .map_or([1; 3], |launch| launch.block);
        if flags {
            return Ok(nvcc_flags(&row.candidate, block).to_string().into_bytes());
        }
        let mut said = vec![
            source::first(one.number, &view.program.name, &kernel.device.name),
            format!("Kernel: {}", kernel.readable),
        ];
        said.extend(one.ratio.as_ref().map(source::time));
        said.push(format!("Checked {}.", one.integrity.words()));
        said.push("Nothing is claimed of it: that is the figure of the search.".to_owned());
        let text = SourceFile {
            said,
            name: &view.program.name,
            compiler: compiler(view.program.how.compiler),
            text: &one.text,
            candidate: &row.candidate,
            block,
            sm: kernel.device.sm,
            kept: false,
        }
        .text();
        Ok(text.into_bytes())
    }
}

/// The evaluation that a variant's configuration was found by.
fn configuration(store: &Store, one: &VariantView) -> Result<Evaluation, Failure> {
    let missing = || {
        Failure::new(format!(
            "variant {}: its configuration is missing: the store is damaged",
            one.number.0
        ))
    };
    let mut of = one.evaluations.iter();
    let found = of
        .find(|row| Some(row.candidate) == one.candidate)
        .ok_or_else(missing)?;
    let rows = store
        .rows(&[EvaluationNumber(found.number)])
        .map_err(Failure::new)?;
    rows.into_iter().next().ok_or_else(missing)
}
