//! What values a parameter can have: drawing them, counting them, and which are near to each other.

use r3_codegen::passes::Random;
use serde::{Deserialize, Serialize};

use super::value::Value;

/// The values of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// One of these names. The first is what the original has.
    Choice(Vec<String>),
    /// A whole number.
    Integer {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
        /// Whether ratios count, and not differences. `low` is at least 1 then.
        #[serde(default)]
        log: bool,
        /// What it is where nothing is said.
        default: i64,
    },
    /// A list in which the order matters and items may be repeated.
    Sequence {
        /// What can be in it.
        items: Vec<String>,
        /// Most items.
        longest: usize,
        /// What it is where nothing is said.
        #[serde(default)]
        default: Vec<String>,
    },
    /// All of these, in some order. The order in which they stand is that of the original.
    Permutation(Vec<String>),
}

/// Values of a number that a grid tries.
const GRID_STEPS: i64 = 9;

/// Sequences or permutations that a grid tries at most.
const GRID_LISTS: usize = 5040;

impl Domain {
    /// What the original has.
    #[must_use]
    pub fn default_value(&self) -> Value {
        match self {
            Self::Choice(values) => Value::Text(values.first().cloned().unwrap_or_default()),
            Self::Integer { default, .. } => Value::Number(*default),
            Self::Sequence { default, .. } => Value::List(default.clone()),
            Self::Permutation(items) => Value::List(items.clone()),
        }
    }

    /// Why a value is none of these.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        match (self, value) {
            (Self::Choice(values), Value::Text(text)) => {
                if values.contains(text) {
                    Ok(())
                } else {
                    Err(format!("`{text}` is none of {}", list(values)))
                }
            }
            (Self::Integer { low, high, .. }, Value::Number(number)) => {
                if (*low..=*high).contains(number) {
                    Ok(())
                } else {
                    Err(format!("{number} is not within {low} and {high}"))
                }
            }
            (Self::Sequence { items, longest, .. }, Value::List(found)) => {
                if found.len() > *longest {
                    return Err(format!(
                        "{} items are more than the {longest} that are allowed",
                        found.len()
                    ));
                }
                match found.iter().find(|item| !items.contains(item)) {
                    Some(item) => Err(format!("`{item}` is none of the items")),
                    None => Ok(()),
                }
            }
            (Self::Permutation(items), Value::List(found)) => {
                let sorted = |list: &[String]| {
                    let mut list = list.to_vec();
                    list.sort_unstable();
                    list
                };
                if sorted(items) == sorted(found) {
                    Ok(())
                } else {
                    Err(format!("it must have each of {} once", list(items)))
                }
            }
            (Self::Choice(values), _) => {
                Err(format!("a string out of {} is expected", list(values)))
            }
            (Self::Integer { .. }, _) => Err("a whole number is expected".to_owned()),
            (Self::Sequence { .. } | Self::Permutation(_), _) => {
                Err("a list of strings is expected".to_owned())
            }
        }
    }

    /// How many values there are, as far as a floating-point number holds it.
    #[must_use]
    pub fn count(&self) -> f64 {
        match self {
            Self::Choice(values) => values.len() as f64,
            Self::Integer { low, high, .. } => (*high as f64 - *low as f64 + 1.0).max(0.0),
            Self::Sequence { items, longest, .. } => (0..=*longest)
                .map(|len| (items.len() as f64).powi(len as i32))
                .sum(),
            Self::Permutation(items) => (1..=items.len()).map(|n| n as f64).product(),
        }
    }

    /// A value, all being equally likely; of a sequence all lengths are.
    pub fn draw(&self, random: &mut Random) -> Value {
        match self {
            Self::Choice(values) => Value::Text(random.pick(values).cloned().unwrap_or_default()),
            Self::Integer { low, high, log, .. } => Value::Number(if *log {
                let (from, to) = (*low as f64 - 0.5, *high as f64 + 0.5);
                let drawn = (from.ln() + unit(random) * (to.ln() - from.ln())).exp();
                (drawn.round() as i64).clamp(*low, *high)
            } else {
                let width = high.saturating_sub(*low).unsigned_abs().saturating_add(1);
                low.saturating_add_unsigned(random.below(width))
            }),
            Self::Sequence { items, longest, .. } => {
                let len = random.below(*longest as u64 + 1);
                Value::List(
                    (0..len)
                        .filter_map(|_| random.pick(items).cloned())
                        .collect(),
                )
            }
            Self::Permutation(items) => Value::List(shuffled(items.clone(), random)),
        }
    }

    /// A value near to `value` and other than it; the same when there is no other. Numbers move by a share of their range,
    /// sequences by one operation: an item is added, removed, replaced, moved, or swapped with its neighbour.
    pub fn near(&self, value: &Value, random: &mut Random) -> Value {
        match (self, value) {
            (Self::Choice(values), Value::Text(text)) => {
                let others: Vec<&String> = values.iter().filter(|other| *other != text).collect();
                random
                    .pick(&others)
                    .map_or_else(|| value.clone(), |other| Value::Text((*other).clone()))
            }
            (Self::Integer { low, high, log, .. }, Value::Number(number)) => {
                Value::Number(near_number((*low, *high), *log, *number, random))
            }
            (Self::Sequence { items, longest, .. }, Value::List(list)) => {
                Value::List(edited(list, items, *longest, random))
            }
            (Self::Permutation(_), Value::List(list)) => Value::List(moved(list, random)),
            _ => self.draw(random),
        }
    }

    /// The values that a grid tries, in order: all, as long as they are few; of a long range of numbers nine, evenly; of
    /// longer lists the original, the empty one, and those with one item.
    #[must_use]
    pub fn grid(&self) -> Vec<Value> {
        match self {
            Self::Choice(values) => values.iter().cloned().map(Value::Text).collect(),
            Self::Integer {
                low,
                high,
                log,
                default,
            } => grid_numbers((*low, *high), *log, *default),
            Self::Sequence {
                items,
                longest,
                default,
            } => grid_sequences(items, *longest, default),
            Self::Permutation(items) => permutations(items),
        }
    }

    /// Whether [`grid`](Self::grid) has every value.
    #[must_use]
    pub fn grid_is_complete(&self) -> bool {
        self.grid().len() as f64 >= self.count()
    }

    /// How far two values are from each other, 0 to 1.
    #[must_use]
    pub fn distance(&self, one: &Value, other: &Value) -> f64 {
        match (self, one, other) {
            (Self::Integer { low, high, log, .. }, Value::Number(one), Value::Number(other)) => {
                let scale = |number: i64| {
                    if *log {
                        (number.max(1) as f64).ln()
                    } else {
                        number as f64
                    }
                };
                let range = scale(*high) - scale(*low);
                if range > 0.0 {
                    ((scale(*one) - scale(*other)) / range).abs()
                } else {
                    0.0
                }
            }
            (_, Value::List(one), Value::List(other)) => {
                let longest = one.len().max(other.len());
                if longest == 0 {
                    return 0.0;
                }
                edits(one, other) as f64 / longest as f64
            }
            _ => f64::from(u8::from(one != other)),
        }
    }
}

/// A number from 0 up to, not including, 1.
pub(crate) fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// A number of the normal distribution.
pub(crate) fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(random)).cos()
}

/// All items in another order.
pub(crate) fn shuffled<T>(mut items: Vec<T>, random: &mut Random) -> Vec<T> {
    for end in (1..items.len()).rev() {
        let other = random.below(end as u64 + 1) as usize;
        items.swap(end, other);
    }
    items
}

fn list(values: &[String]) -> String {
    values
        .iter()
        .map(|value| format!("`{value}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn near_number((low, high): (i64, i64), log: bool, number: i64, random: &mut Random) -> i64 {
    if low >= high {
        return number;
    }
    for _ in 0..8 {
        // Mostly a step of a tenth of the range, at times a small or a large one.
        let width = [0.02, 0.1, 0.3][random.below(3) as usize] * normal(random);
        let to = if log {
            let range = (high as f64).ln() - (low.max(1) as f64).ln();
            ((number.max(1) as f64).ln() + width * range).exp()
        } else {
            number as f64 + width * (high as f64 - low as f64)
        };
        let to = (to.round() as i64).clamp(low, high);
        if to != number {
            return to;
        }
    }
    if number < high {
        number + 1
    } else {
        number - 1
    }
}

/// One edit of a sequence.
fn edited(list: &[String], items: &[String], longest: usize, random: &mut Random) -> Vec<String> {
    let mut list = list.to_vec();
    let can_grow = list.len() < longest && !items.is_empty();
    for _ in 0..8 {
        let before = list.clone();
        let len = list.len() as u64;
        match random.below(5) {
            0 if can_grow => {
                let at = random.below(len + 1) as usize;
                list.insert(at, random.pick(items).cloned().unwrap_or_default());
            }
            1 if len > 0 => {
                list.remove(random.below(len) as usize);
            }
            2 if len > 0 => {
                let at = random.below(len) as usize;
                if let (Some(place), Some(item)) = (list.get_mut(at), random.pick(items)) {
                    place.clone_from(item);
                }
            }
            3 if len > 1 => list = moved(&list, random),
            4 if len > 1 => {
                let at = random.below(len - 1) as usize;
                list.swap(at, at + 1);
            }
            _ => {}
        }
        if list != before {
            break;
        }
    }
    list
}

/// One move of an order: an item goes elsewhere, two change places, or a stretch is turned round.
fn moved(list: &[String], random: &mut Random) -> Vec<String> {
    let mut list = list.to_vec();
    let len = list.len() as u64;
    if len < 2 {
        return list;
    }
    let from = random.below(len) as usize;
    let to = (from + 1 + random.below(len - 1) as usize) % list.len();
    match random.below(3) {
        0 => {
            let item = list.remove(from);
            list.insert(to, item);
        }
        1 => list.swap(from, to),
        _ => {
            if let Some(stretch) = list.get_mut(from.min(to)..=from.max(to)) {
                stretch.reverse();
            }
        }
    }
    list
}

fn grid_numbers((low, high): (i64, i64), log: bool, default: i64) -> Vec<Value> {
    if high.saturating_sub(low) < GRID_STEPS {
        return (low..=high).map(Value::Number).collect();
    }
    let mut numbers: Vec<i64> = (0..GRID_STEPS)
        .map(|step| {
            let part = step as f64 / (GRID_STEPS - 1) as f64;
            let number = if log {
                let (from, to) = ((low.max(1) as f64).ln(), (high as f64).ln());
                (from + part * (to - from)).exp()
            } else {
                low as f64 + part * (high as f64 - low as f64)
            };
            (number.round() as i64).clamp(low, high)
        })
        .chain([default.clamp(low, high)])
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(Value::Number).collect()
}

fn grid_sequences(items: &[String], longest: usize, default: &[String]) -> Vec<Value> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let mut last = all.clone();
    for length in 0..longest {
        let room = last
            .len()
            .saturating_mul(items.len())
            .saturating_add(all.len());
        if room > GRID_LISTS && length > 0 {
            break;
        }
        last = last
            .iter()
            .flat_map(|list| {
                items.iter().map(move |item| {
                    let mut longer = list.clone();
                    longer.push(item.clone());
                    longer
                })
            })
            .collect();
        all.extend(last.iter().cloned());
    }
    if !all.iter().any(|list| list == default) {
        all.insert(0, default.to_vec());
    }
    all.into_iter().map(Value::List).collect()
}

/// All permutations in lexicographic order of their positions, or the first so many.
fn permutations(items: &[String]) -> Vec<Value> {
    let mut places: Vec<usize> = (0..items.len()).collect();
    let mut all = Vec::new();
    loop {
        let list = places
            .iter()
            .filter_map(|&at| items.get(at).cloned())
            .collect();
        all.push(Value::List(list));
        if all.len() >= GRID_LISTS {
            return all;
        }
        // The next one: the last place that can grow takes the next greater of what follows it.
        let Some(pivot) = places.windows(2).rposition(|pair| pair[0] < pair[1]) else {
            return all;
        };
        let Some(next) = (pivot + 1..places.len())
            .rev()
            .find(|&at| places[at] > places[pivot])
        else {
            return all;
        };
        places.swap(pivot, next);
        if let Some(rest) = places.get_mut(pivot + 1..) {
            rest.reverse();
        }
    }
}

/// Insertions, removals and replacements between two lists.
pub(crate) fn edits<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, item) in one.iter().enumerate() {
        let mut corner = above;
        let mut left = above + 1;
        for (at, to) in other.iter().enumerate() {
            let up = row.get(at + 1).copied().unwrap_or(0);
            let here = (corner + usize::from(item != to)).min(up + 1).min(left + 1);
            if let Some(place) = row.get_mut(at) {
                *place = left;
            }
            corner = up;
            left = here;
        }
        if let Some(place) = row.last_mut() {
            *place = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    #[test]
    fn the_number_of_edits_is_that_of_levenshtein() {
        assert_eq!(edits(&names("kitten"), &names("sitting")), 3);
        assert_eq!(edits(&names(""), &names("abc")), 3);
        assert_eq!(edits(&names("abc"), &names("abc")), 0);
        assert_eq!(edits(&names("abc"), &names("")), 3);
    }

    #[test]
    fn a_grid_has_each_permutation_once() {
        let mut all = permutations(&names("abcd"));
        assert_eq!(all.len(), 24);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 24);
    }

    #[test]
    fn a_grid_of_sequences_is_complete_while_they_are_few() {
        let domain = |longest| Domain::Sequence {
            items: names("ab"),
            longest,
            default: Vec::new(),
        };
        assert_eq!(domain(3).grid().len(), 1 + 2 + 4 + 8);
        assert!(domain(3).grid_is_complete());
        assert!(!domain(20).grid_is_complete());
    }

    #[test]
    fn numbers_on_a_logarithmic_scale_are_drawn_evenly_by_ratio() {
        let domain = Domain::Integer {
            low: 1,
            high: 1024,
            log: true,
            default: 1,
        };
        let mut random = Random::new(3);
        let small = (0..2000)
            .filter(|_| domain.draw(&mut random).number().unwrap() <= 32)
            .count();
        assert!((850..1250).contains(&small), "{small}");
    }

    #[test]
    fn what_is_drawn_and_what_is_near_is_in_the_domain() {
        let domains = [
            Domain::Choice(names("abc")),
            Domain::Integer {
                low: -5,
                high: 9,
                log: false,
                default: 0,
            },
            Domain::Integer {
                low: 2,
                high: 5000,
                log: true,
                default: 100,
            },
            Domain::Sequence {
                items: names("abc"),
                longest: 4,
                default: names("ab"),
            },
            Domain::Permutation(names("abcde")),
        ];
        let mut random = Random::new(1);
        for domain in &domains {
            let mut value = domain.default_value();
            for _ in 0..500 {
                domain.check(&value).unwrap();
                value = if random.once_in(3) {
                    domain.draw(&mut random)
                } else {
                    let near = domain.near(&value, &mut random);
                    assert!(near != value || matches!(domain, Domain::Sequence { .. }));
                    near
                };
            }
            for value in domain.grid() {
                domain.check(&value).unwrap();
            }
        }
    }
}
