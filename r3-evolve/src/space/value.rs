//! Values of parameters, and points: what one candidate has of each.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The value of a parameter. In JSON and TOML a string, a number, or a list of strings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// One of several names.
    Text(String),
    /// A whole number.
    Number(i64),
    /// Names in an order.
    List(Vec<String>),
}

impl Value {
    /// The name, where it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, where it is one.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The list, where it is one.
    #[must_use]
    pub fn list(&self) -> Option<&[String]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => number.fmt(f),
            Self::List(list) => f.write_str(&list.join(",")),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::List(list) => list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    /// From a format that says what comes: JSON or TOML.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a whole number, or a list of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
                Ok(Value::Text(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
                Ok(Value::Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
                i64::try_from(number)
                    .map(Value::Number)
                    .map_err(|_| E::custom(format!("{number} is too large")))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element::<String>()? {
                    list.push(item);
                }
                Ok(Value::List(list))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A point of a space: the value of every parameter that means something there. A parameter whose condition does not hold
/// is left out, so that two points are equal exactly when they stand for the same candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Point(pub BTreeMap<String, Value>);

impl Point {
    /// The value of a parameter; `None` when it means nothing here.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The value of a parameter that has names for values.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::text)
    }

    /// The same point with other values. It may have to be [completed](super::Space::complete).
    #[must_use]
    pub fn with<'v>(&self, values: impl IntoIterator<Item = (&'v String, &'v Value)>) -> Self {
        let mut point = self.clone();
        for (name, value) in values {
            point.0.insert(name.clone(), value.clone());
        }
        point
    }
}

impl fmt::Display for Point {
    /// `block=128x1x1 route=lift`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            match value {
                Value::List(list) => write!(f, "{name}=[{}]", list.join(","))?,
                value => write!(f, "{name}={value}")?,
            }
        }
        Ok(())
    }
}

impl<const N: usize> From<[(&str, Value); N]> for Point {
    fn from(values: [(&str, Value); N]) -> Self {
        Self(
            values
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }
}
