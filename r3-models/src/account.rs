//! Tokens, cached tokens, money; budgets that are not passed.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chat::Spent;

/// What a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// US dollars.
    Cost,
    /// Tokens of prompts and answers.
    Tokens,
    /// HTTP requests.
    Requests,
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cost => "money",
            Self::Tokens => "tokens",
            Self::Requests => "requests",
        })
    }
}

/// What may be spent in all; no limit where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// US dollars.
    pub cost: Option<f64>,
    /// Tokens of prompts and answers.
    pub tokens: Option<u64>,
    /// HTTP requests.
    pub requests: Option<u64>,
}

/// What was spent, by model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// What each model took, by its name in the settings.
    pub models: BTreeMap<String, Spent>,
}

impl Totals {
    /// Counts what a question took.
    pub fn add(&mut self, model: &str, spent: &Spent) {
        self.models.entry(model.to_owned()).or_default().add(spent);
    }

    /// Of all models.
    pub fn all(&self) -> Spent {
        let mut all = Spent::default();
        for spent in self.models.values() {
            all.add(spent);
        }
        all
    }
}
