//! Tokens, cached tokens, money; budgets that are not passed.
//!
//! A request takes, before it is sent, what it can cost at most: a token of the prompt for each of its bytes, and all the tokens that an
//! answer may have. When it is back, what it did cost takes the place of that. So what is under way counts, and the sum of all stays
//! below the budget, if the service keeps to the limit of an answer's tokens that it was given.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chat::{Spent, Usage};
use crate::settings::Price;

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

impl Budget {
    /// The first cap that `spent` and `more` together would pass.
    fn passed_by(&self, spent: &Spent, more: &Most) -> Option<Cap> {
        let tokens = tokens_of(spent).saturating_add(more.tokens());
        let requests = spent.requests.saturating_add(more.requests);
        let over = |cap: Option<u64>, value: u64| cap.is_some_and(|cap| value > cap);
        if self
            .cost
            .is_some_and(|cap| spent.cost + more.cost > cap * (1.0 + 1e-12))
        {
            Some(Cap::Cost)
        } else if over(self.tokens, tokens) {
            Some(Cap::Tokens)
        } else if over(self.requests, requests) {
            Some(Cap::Requests)
        } else {
            None
        }
    }
}

fn tokens_of(spent: &Spent) -> u64 {
    spent.usage.prompt.saturating_add(spent.usage.completion)
}

/// What a request can take at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Most {
    requests: u64,
    prompt: u64,
    completion: u64,
    cost: f64,
}

impl Most {
    /// A request with at most so many tokens.
    pub fn new(prompt: u64, completion: u64, price: &Price) -> Self {
        let usage = Usage {
            prompt,
            completion,
            ..Usage::default()
        };
        // A cache is mostly cheaper; where it is not, the dearer counts.
        let cost = price.of(&usage).max(price.of(&Usage {
            cached: prompt,
            ..usage
        }));
        Self {
            requests: 1,
            prompt,
            completion,
            cost,
        }
    }

    /// Tokens of the prompt.
    pub fn prompt(&self) -> u64 {
        self.prompt
    }

    /// US dollars.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// Tokens of prompt and answer.
    pub fn tokens(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }
}

impl Price {
    /// US dollars.
    pub fn of(&self, usage: &Usage) -> f64 {
        let cached = usage.cached.min(usage.prompt);
        let input = (usage.prompt - cached) as f64 * self.input;
        let from_cache = cached as f64 * self.cached.unwrap_or(self.input);
        (input + from_cache + usage.completion as f64 * self.output) / 1e6
    }
}

/// Why a request may not be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum No {
    /// It could pass the budget, whatever becomes of those under way.
    Never(Cap),
    /// It could pass the budget together with those under way.
    NotYet,
}

/// What was spent, and what those under way can come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    budget: Budget,
    totals: Totals,
    under_way: BTreeMap<u64, Most>,
    next: u64,
}

/// A request that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken(u64);

impl Account {
    /// With what was spent before.
    pub fn new(budget: Budget, totals: Totals) -> Self {
        Self {
            budget,
            totals,
            ..Self::default()
        }
    }

    /// Whether a request would be let through.
    pub fn would(&self, most: Most) -> Result<(), No> {
        let mut spent = self.totals.all();
        if let Some(cap) = self.budget.passed_by(&spent, &most) {
            return Err(No::Never(cap));
        }
        for other in self.under_way.values() {
            spent.requests += other.requests;
            spent.usage.prompt = spent.usage.prompt.saturating_add(other.prompt);
            spent.usage.completion = spent.usage.completion.saturating_add(other.completion);
            spent.cost += other.cost;
        }
        if self.budget.passed_by(&spent, &most).is_some() {
            return Err(No::NotYet);
        }
        Ok(())
    }

    /// Lets a request through, or not.
    pub fn take(&mut self, most: Most) -> Result<Taken, No> {
        self.would(most)?;
        let taken = Taken(self.next);
        self.next += 1;
        self.under_way.insert(taken.0, most);
        Ok(taken)
    }

    /// A request was let through, and is not sent after all.
    pub fn release(&mut self, taken: Taken) {
        self.under_way.remove(&taken.0);
    }

    /// A request is back and took this.
    pub fn settle(&mut self, taken: Taken, model: &str, spent: &Spent) {
        self.under_way.remove(&taken.0);
        self.totals.add(model, spent);
    }

    /// What was spent.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PRICE: Price = Price {
        input: 2.0,
        cached: Some(0.5),
        output: 8.0,
    };

    fn took(prompt: u64, cached: u64, completion: u64) -> Spent {
        let usage = Usage {
            prompt,
            cached,
            completion,
            estimated: false,
        };
        Spent {
            requests: 1,
            usage,
            cost: PRICE.of(&usage),
            ..Spent::default()
        }
    }

    #[test]
    fn tokens_of_a_cache_have_a_price_of_their_own() {
        let usage = took(1_000_000, 600_000, 100_000).usage;
        assert!((PRICE.of(&usage) - (0.8 + 0.3 + 0.8)).abs() < 1e-12);
        let without = Price {
            cached: None,
            ..PRICE
        };
        assert!((without.of(&usage) - (2.0 + 0.8)).abs() < 1e-12);
    }

    #[test]
    fn what_is_under_way_counts() {
        let budget = Budget {
            requests: Some(2),
            ..Budget::default()
        };
        let mut account = Account::new(budget, Totals::default());
        let most = Most::new(10, 10, &PRICE);
        let first = account.take(most).unwrap();
        let _second = account.take(most).unwrap();
        assert_eq!(account.take(most), Err(No::NotYet));
        account.settle(first, "m", &took(10, 0, 10));
        assert_eq!(account.take(most), Err(No::NotYet));
    }

    #[test]
    fn what_was_spent_before_counts() {
        let mut before = Totals::default();
        before.add("m", &took(900, 0, 50));
        let budget = Budget {
            tokens: Some(1000),
            ..Budget::default()
        };
        let mut account = Account::new(budget, before);
        assert_eq!(
            account.take(Most::new(40, 20, &PRICE)),
            Err(No::Never(Cap::Tokens))
        );
        assert!(account.take(Most::new(30, 20, &PRICE)).is_ok());
    }

    proptest! {
        /// Whatever is asked, whenever it comes back: no sum is above its cap.
        #[test]
        fn no_budget_is_passed(
            steps in proptest::collection::vec((1u64..500, 1u64..200, 0.0f64..1.0, 0usize..4), 1..120),
            tokens in 500u64..5000, requests in 1u64..20, cost in 0.001f64..0.02,
        ) {
            let budget = Budget { cost: Some(cost), tokens: Some(tokens), requests: Some(requests) };
            let mut account = Account::new(budget, Totals::default());
            let mut open = Vec::new();
            for (prompt, completion, share, back) in steps {
                if let Ok(taken) = account.take(Most::new(prompt, completion, &PRICE)) {
                    let part = |n: u64| (n as f64 * share) as u64;
                    open.push((taken, took(part(prompt), part(prompt) / 2, part(completion))));
                }
                for _ in 0..back {
                    if let Some((taken, spent)) = open.pop() {
                        account.settle(taken, "m", &spent);
                    }
                }
                let all = account.totals().all();
                prop_assert!(all.cost <= cost * (1.0 + 1e-9));
                prop_assert!(all.usage.prompt + all.usage.completion <= tokens);
                prop_assert!(all.requests <= requests);
            }
        }
    }
}
