//! Several requests under way at a time; an outage pauses all of them.

use std::time::Duration;

use crate::account::Totals;
use crate::chat::{Ask, Finished, Question, State, Ticket};
use crate::settings::{Settings, SettingsError};

/// The models of some settings, over HTTP.
pub struct Models {}

impl Models {
    /// Starts the threads that ask. `spent` is what an earlier part of the run spent: budgets count it.
    pub fn new(_settings: &Settings, _spent: Totals) -> Result<Self, SettingsError> {
        todo!()
    }
}

impl Ask for Models {
    fn submit(&mut self, _question: Question) -> Ticket {
        todo!()
    }
    fn finished(&mut self, _wait: Duration) -> Vec<Finished> {
        todo!()
    }
    fn open(&self) -> usize {
        todo!()
    }
    fn under_way(&self) -> usize {
        todo!()
    }
    fn state(&self) -> State {
        todo!()
    }
    fn state_of(&self, _model: &str) -> State {
        todo!()
    }
    fn totals(&self) -> Totals {
        todo!()
    }
    fn wake_by(&mut self, _wake: Box<dyn Fn() + Send + Sync>) {
        todo!()
    }
}
