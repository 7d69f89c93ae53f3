//! What tells variants apart, other than their time.

use std::fmt;

use r3_replay::evaluate::outcome::Behaviour;
use serde::{Deserialize, Serialize};

/// What descriptors read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// Tokens of the text, without comments.
    pub tokens: u64,
    /// How far its embedding is from the original's, 0 to 1.
    pub distance: f64,
    /// What its code is like; `None` where there is none to look at.
    pub behaviour: Option<Behaviour>,
}

/// A property of a variant by which it gets its place in a grid.
pub trait Descriptor: Send + Sync + fmt::Debug {
    /// Its name in settings and in the database.
    fn name(&self) -> &str;

    /// What it is, for people: `tokens of the text`.
    fn title(&self) -> &str;

    /// The value for a variant; `None` when it is not known of this one, which is a bin of its own.
    fn value(&self, of: &Described) -> Option<f64>;
}

/// A built-in descriptor.
struct Row {
    name: &'static str,
    title: &'static str,
    value: fn(&Described) -> Option<f64>,
}

/// All built-in ones.
const TABLE: &[Row] = &[
    Row {
        name: "tokens",
        title: "tokens of the text",
        value: |of| Some(of.tokens as f64),
    },
    Row {
        name: "distance",
        title: "distance from the original's text",
        value: |of| Some(of.distance),
    },
    Row {
        name: "registers",
        title: "registers of a thread",
        value: |of| of.behaviour.as_ref()?.registers.map(f64::from),
    },
    Row {
        name: "shared",
        title: "shared memory of a block, in bytes",
        value: |of| {
            let code = of.behaviour.as_ref()?;
            Some(f64::from(code.static_shared) + f64::from(code.dynamic_shared))
        },
    },
    Row {
        name: "local",
        title: "local memory of a thread, in bytes",
        value: |of| Some(f64::from(of.behaviour.as_ref()?.local)),
    },
    Row {
        name: "width",
        title: "widest access to global memory, in bytes",
        value: |of| {
            let code = of.behaviour.as_ref()?;
            Some(f64::from(code.widest_load.max(code.widest_store)))
        },
    },
    Row {
        name: "occupancy",
        title: "part of a multiprocessor's threads that can be there at once",
        value: |of| of.behaviour.as_ref()?.occupancy,
    },
    Row {
        name: "instructions",
        title: "instructions of the PTX",
        value: |of| Some(f64::from(of.behaviour.as_ref()?.mix.total())),
    },
    Row {
        name: "memory",
        title: "part of the instructions that access memory",
        value: |of| Some(of.behaviour.as_ref()?.mix.memory()),
    },
    Row {
        name: "floating",
        title: "part of the instructions that are floating-point arithmetic",
        value: |of| Some(of.behaviour.as_ref()?.mix.floating()),
    },
];

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Descriptor for &'static Row {
    fn name(&self) -> &str {
        self.name
    }

    fn title(&self) -> &str {
        self.title
    }

    fn value(&self, of: &Described) -> Option<f64> {
        (self.value)(of)
    }
}

/// A built-in descriptor by its name.
#[must_use]
pub fn built_in(name: &str) -> Option<Box<dyn Descriptor>> {
    let row = TABLE.iter().find(|row| row.name == name)?;
    Some(Box::new(row))
}

/// Names of the built-in ones.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_descriptor_is_found_by_its_name_and_says_nothing_without_a_binary() {
        let text_only = Described {
            tokens: 12,
            distance: 0.25,
            behaviour: None,
        };
        let known: Vec<&str> = names()
            .filter(|name| built_in(name).unwrap().value(&text_only).is_some())
            .collect();
        assert_eq!(known, ["tokens", "distance"]);
        assert!(built_in("colour").is_none());
    }

    #[test]
    fn a_property_that_the_code_does_not_tell_is_not_zero() {
        let of = Described {
            behaviour: Some(Behaviour {
                widest_load: 16,
                widest_store: 4,
                static_shared: 1024,
                dynamic_shared: 512,
                ..Behaviour::default()
            }),
            ..Described::default()
        };
        let value = |name: &str| built_in(name).unwrap().value(&of);
        assert_eq!(value("registers"), None);
        assert_eq!(value("width"), Some(16.0));
        assert_eq!(value("shared"), Some(1536.0));
    }
}
