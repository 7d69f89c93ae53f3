//! A space out of TOML. Every error says the line.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::super::candidate::{is_knob, level_of, meaning, no_knob, original};
use super::super::{Condition, Domain, KernelFacts, Never, Parameter, Space, Value};
use super::SpaceError;

type Conditions = BTreeMap<Spanned<String>, Spanned<Vec<String>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    kernel: Option<KernelFacts>,
    #[serde(default)]
    parameter: Vec<Spanned<Entry>>,
    #[serde(default)]
    never: Vec<Spanned<Together>>,
    #[serde(default)]
    start: Vec<Spanned<BTreeMap<String, Value>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Together {
    together: Conditions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    #[serde(default = "yes")]
    varied: bool,
    #[serde(default)]
    when: Conditions,
    values: Option<Spanned<Vec<Spanned<String>>>>,
    integer: Option<Spanned<Integer>>,
    items: Option<Vec<Spanned<String>>>,
    longest: Option<Spanned<usize>>,
    default: Option<Spanned<Vec<String>>>,
    permutation: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    dropped: Vec<String>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Integer {
    low: i64,
    high: i64,
    #[serde(default)]
    log: bool,
    default: i64,
}

/// Items of a sequence at most: longer ones are a mistake.
const LONGEST: usize = 1000;

impl Space {
    /// Reads what [`Space::to_toml`] printed, or what somebody made of it.
    pub fn from_toml(text: &str) -> Result<Self, SpaceError> {
        let reader = Reader { text };
        let document: Document = toml::from_str(text).map_err(|error| SpaceError {
            line: reader.line(error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        let mut space = Self {
            kernel: document.kernel,
            parameters: Vec::new(),
            never: Vec::new(),
            start: Vec::new(),
        };
        for entry in document.parameter {
            let parameter = reader.parameter(&space, entry)?;
            space.parameters.push(parameter);
        }
        for never in document.never {
            let together = reader.conditions(&space, never.into_inner().together)?;
            space.never.push(Never {
                together,
                why: String::new(),
            });
        }
        for start in document.start {
            reader.start(&mut space, start)?;
        }
        Ok(space)
    }
}

struct Reader<'t> {
    text: &'t str,
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn error<T>(&self, at: &Spanned<T>, message: impl Into<String>) -> SpaceError {
        SpaceError {
            line: self.line(at.span().start),
            message: message.into(),
        }
    }

    fn parameter(&self, space: &Space, entry: Spanned<Entry>) -> Result<Parameter, SpaceError> {
        let place = Spanned::new(entry.span(), ());
        let entry = entry.into_inner();
        let name = entry.name.as_ref().clone();
        if space.parameter(&name).is_some() {
            return Err(self.error(&entry.name, format!("there are two parameters `{name}`")));
        }
        if space.kernel.is_some() && !is_knob(&name) {
            return Err(self.error(&entry.name, no_knob(&name)));
        }
        let given = [
            entry.values.is_some(),
            entry.integer.is_some(),
            entry.items.is_some(),
            entry.permutation.is_some(),
        ];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err(self.error(
                &place,
                format!("`{name}` needs one of `values`, `integer`, `items`, `permutation`"),
            ));
        }
        if entry.items.is_none() && (entry.longest.is_some() || entry.default.is_some()) {
            return Err(self.error(
                &place,
                format!("`{name}`: `longest` and `default` belong to `items`"),
            ));
        }
        let domain = if let Some(values) = entry.values {
            self.choice(space, &entry.name, &values)?
        } else if let Some(integer) = entry.integer {
            self.integer(&integer)?
        } else if let Some(items) = entry.items {
            let longest = match &entry.longest {
                Some(longest) if *longest.as_ref() <= LONGEST => *longest.as_ref(),
                Some(longest) => {
                    return Err(self.error(longest, format!("more than {LONGEST} items")));
                }
                None => return Err(self.error(&place, format!("`{name}` needs `longest`"))),
            };
            let items = self.unique(&items)?;
            let no_pass = items.iter().find(|item| level_of(item).is_none());
            if let (Some(item), true) = (no_pass, space.kernel.is_some()) {
                return Err(self.error(
                    &place,
                    format!("`{name}`: `{item}` is no pass that may be in a sequence"),
                ));
            }
            let domain = Domain::Sequence {
                items,
                longest,
                default: entry
                    .default
                    .as_ref()
                    .map(|default| default.as_ref().clone())
                    .unwrap_or_default(),
            };
            domain
                .check(&domain.default_value())
                .map_err(|reason| self.error(&place, format!("`default`: {reason}")))?;
            domain
        } else {
            Domain::Permutation(self.unique(&entry.permutation.unwrap_or_default())?)
        };
        if let (Some(facts), Domain::Integer { .. } | Domain::Permutation(_)) =
            (&space.kernel, &domain)
        {
            meaning(&name, &domain.default_value(), facts)
                .map_err(|message| self.error(&entry.name, message))?;
        }
        if let (Some(facts), Domain::Sequence { items, .. }) = (&space.kernel, &domain) {
            let one = Value::List(items.iter().take(1).cloned().collect());
            meaning(&name, &one, facts).map_err(|message| self.error(&entry.name, message))?;
        }
        Ok(Parameter {
            name,
            domain,
            when: self.conditions(space, entry.when)?,
            varied: entry.varied,
            dropped: entry.dropped,
            why: String::new(),
        })
    }

    fn unique(&self, values: &[Spanned<String>]) -> Result<Vec<String>, SpaceError> {
        let mut all: Vec<String> = Vec::new();
        for value in values {
            if all.contains(value.as_ref()) {
                return Err(self.error(value, format!("`{}` is there twice", value.as_ref())));
            }
            all.push(value.as_ref().clone());
        }
        Ok(all)
    }

    fn choice(
        &self,
        space: &Space,
        name: &Spanned<String>,
        values: &Spanned<Vec<Spanned<String>>>,
    ) -> Result<Domain, SpaceError> {
        let all = self.unique(values.as_ref())?;
        let Some(first) = all.first() else {
            return Err(self.error(values, "at least one value is needed"));
        };
        if let Some(facts) = &space.kernel {
            for value in values.as_ref() {
                meaning(name.as_ref(), &Value::Text(value.as_ref().clone()), facts)
                    .map_err(|message| self.error(value, message))?;
            }
            if let Some(original) = original(name.as_ref(), facts)
                && *first != original
            {
                return Err(self.error(
                    values,
                    format!(
                        "the first value of `{}` must be `{original}`, what the original has",
                        name.as_ref()
                    ),
                ));
            }
        }
        Ok(Domain::Choice(all))
    }

    fn integer(&self, integer: &Spanned<Integer>) -> Result<Domain, SpaceError> {
        let &Integer {
            low,
            high,
            log,
            default,
        } = integer.as_ref();
        if low > high {
            return Err(self.error(integer, format!("`low` is {low}, more than `high`, {high}")));
        }
        if log && low < 1 {
            return Err(self.error(
                integer,
                format!("with `log`, `low` must be at least 1, not {low}"),
            ));
        }
        if !(low..=high).contains(&default) {
            return Err(self.error(
                integer,
                format!("`default` is {default}, which is not within {low} and {high}"),
            ));
        }
        Ok(Domain::Integer {
            low,
            high,
            log,
            default,
        })
    }

    /// Conditions on parameters that the space has already.
    fn conditions(&self, space: &Space, all: Conditions) -> Result<Vec<Condition>, SpaceError> {
        let mut conditions = Vec::new();
        for (name, values) in all {
            let Some(parameter) = space.parameter(name.as_ref()) else {
                return Err(self.error(
                    &name,
                    format!(
                        "there is no parameter `{}` before this place",
                        name.as_ref()
                    ),
                ));
            };
            let Domain::Choice(known) = &parameter.domain else {
                return Err(self.error(
                    &name,
                    format!(
                        "a condition on `{}`, which has no names for values",
                        name.as_ref()
                    ),
                ));
            };
            let unknown =
                |value: &&String| !known.contains(*value) && !parameter.dropped.contains(*value);
            if let Some(value) = values.as_ref().iter().find(unknown) {
                return Err(self.error(
                    &values,
                    format!(
                        "`{}` has no value `{value}`: it has {}",
                        name.as_ref(),
                        known.join(", ")
                    ),
                ));
            }
            conditions.push(Condition {
                parameter: name.into_inner(),
                values: values.into_inner(),
            });
        }
        Ok(conditions)
    }

    fn start(
        &self,
        space: &mut Space,
        start: Spanned<BTreeMap<String, Value>>,
    ) -> Result<(), SpaceError> {
        for (name, value) in start.as_ref() {
            let Some(parameter) = space.parameter(name) else {
                return Err(self.error(&start, format!("there is no parameter `{name}`")));
            };
            parameter
                .domain
                .check(value)
                .map_err(|reason| self.error(&start, format!("`{name}`: {reason}")))?;
        }
        space.start.push(start.into_inner());
        Ok(())
    }
}
