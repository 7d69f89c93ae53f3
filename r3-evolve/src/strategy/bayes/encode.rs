//! Points as small numbers, for models that look at many of them.

use std::collections::HashMap;

use crate::space::{Domain, Point, Space, Value};

/// A value as a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// The parameter means nothing here.
    Nothing,
    /// One of several names.
    Name(u16),
    /// A number, as a part of its range, on its scale.
    Number(f64),
    /// A list, by the numbers of its items.
    List(Vec<u16>),
}

/// A point as numbers, one for each parameter of its space.
pub(super) type Row = Vec<Cell>;

/// What turns points into rows.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    of: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Names(HashMap<String, u16>),
    Number { low: f64, high: f64, log: bool },
}

impl Encoder {
    pub fn new(space: &Space) -> Self {
        let numbered = |names: &[String]| {
            Kind::Names(
                (0..)
                    .zip(names)
                    .map(|(at, name)| (name.clone(), at))
                    .collect(),
            )
        };
        let columns = space.parameters.iter().map(|parameter| Column {
            name: parameter.name.clone(),
            of: match &parameter.domain {
                Domain::Choice(names) | Domain::Permutation(names) => numbered(names),
                Domain::Sequence { items, .. } => numbered(items),
                Domain::Integer { low, high, log, .. } => Kind::Number {
                    low: scale(*low, *log),
                    high: scale(*high, *log),
                    log: *log,
                },
            },
        });
        Self {
            columns: columns.collect(),
        }
    }

    pub fn row(&self, point: &Point) -> Row {
        self.columns
            .iter()
            .map(|column| {
                let number = |names: &HashMap<String, u16>, name: &String| {
                    names.get(name).copied().unwrap_or(u16::MAX)
                };
                match (&column.of, point.get(&column.name)) {
                    (_, None) => Cell::Nothing,
                    (Kind::Names(names), Some(Value::Text(text))) => {
                        Cell::Name(number(names, text))
                    }
                    (Kind::Names(names), Some(Value::List(list))) => {
                        Cell::List(list.iter().map(|item| number(names, item)).collect())
                    }
                    (Kind::Number { low, high, log }, Some(Value::Number(value))) => {
                        let range = high - low;
                        Cell::Number(if range > 0.0 {
                            (scale(*value, *log) - low) / range
                        } else {
                            0.0
                        })
                    }
                    _ => Cell::Nothing,
                }
            })
            .collect()
    }
}

fn scale(number: i64, log: bool) -> f64 {
    if log {
        (number.max(1) as f64).ln()
    } else {
        number as f64
    }
}

/// What a row has, as things that can be counted: (parameter, what). Numbers are cut into three, lists are sets of items.
pub(super) fn features(row: &Row) -> Vec<(u16, u16)> {
    let mut features = Vec::with_capacity(row.len());
    for (column, cell) in (0..).zip(row) {
        match cell {
            Cell::Nothing => {}
            Cell::Name(name) => features.push((column, *name)),
            Cell::Number(number) => {
                let third = (number * 3.0).floor().clamp(0.0, 2.0);
                features.push((column, third as u16));
            }
            Cell::List(items) => {
                let mut items = items.clone();
                items.sort_unstable();
                items.dedup();
                features.extend(items.into_iter().map(|item| (column, item)));
            }
        }
    }
    features
}
