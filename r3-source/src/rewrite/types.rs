//! Types of the language: numbers, pointers, vectors. What expressions have is in `expressions`.

/// A type. What is not understood is `Unknown`, and nothing follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `bool`.
    Bool,
    /// An integer.
    Integer {
        /// Width.
        bits: u8,
        /// Whether it has a sign.
        signed: bool,
    },
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// A pointer.
    Pointer(Box<Type>),
    /// An array.
    Array(Box<Type>),
    /// A structure, or a vector of the language.
    Named(String),
    /// Not known.
    Unknown,
}

/// `int`.
pub const INT: Type = Type::Integer {
    bits: 32,
    signed: true,
};

pub(super) const UNSIGNED: Type = Type::Integer {
    bits: 32,
    signed: false,
};

impl Type {
    /// `float` or `double`.
    pub fn is_floating(&self) -> bool {
        matches!(self, Self::Float | Self::Double)
    }

    /// An integer or `bool`.
    pub fn is_integer(&self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Bool)
    }

    /// A number of any kind.
    pub fn is_number(&self) -> bool {
        self.is_floating() || self.is_integer()
    }

    /// What it points to, or what its elements are.
    pub fn element(&self) -> Self {
        match self {
            Self::Pointer(inner) | Self::Array(inner) => (**inner).clone(),
            _ => Self::Unknown,
        }
    }

    /// Bytes of a number or of a vector of the language.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Bool => Some(1),
            Self::Integer { bits, .. } => Some(u64::from(*bits) / 8),
            Self::Float => Some(4),
            Self::Double | Self::Pointer(_) => Some(8),
            Self::Named(name) => {
                let (element, lanes) = vector(name)?;
                Some(element.bytes()? * lanes)
            }
            Self::Array(_) | Self::Unknown => None,
        }
    }

    /// How it is written, for the types that rewrites declare.
    pub fn spelled(&self) -> Option<&'static str> {
        Some(match self {
            Self::Float => "float",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::Integer { bits, signed } => match (bits, signed) {
                (32, true) => "int",
                (32, false) => "unsigned int",
                (64, true) => "long long",
                (64, false) => "unsigned long long",
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// What arithmetic makes of two numbers.
pub fn common(a: &Type, b: &Type) -> Type {
    match (a, b) {
        (Type::Double, other) | (other, Type::Double) if other.is_number() => Type::Double,
        (Type::Float, other) | (other, Type::Float) if other.is_number() => Type::Float,
        (a, b) if a.is_integer() && b.is_integer() => match (promoted(a), promoted(b)) {
            (Type::Integer { bits: a, signed: x }, Type::Integer { bits: b, signed: y }) => {
                let bits = a.max(b);
                let signed = match a.cmp(&b) {
                    std::cmp::Ordering::Equal => x && y,
                    std::cmp::Ordering::Greater => x,
                    std::cmp::Ordering::Less => y,
                };
                Type::Integer { bits, signed }
            }
            _ => Type::Unknown,
        },
        _ => Type::Unknown,
    }
}

pub(super) fn promoted(ty: &Type) -> Type {
    match ty {
        Type::Bool => INT,
        Type::Integer { bits, .. } if *bits < 32 => INT,
        other => other.clone(),
    }
}

/// Elements and their number of a vector of the language: `float4`.
pub fn vector(name: &str) -> Option<(Type, u64)> {
    let lanes: u64 = name.get(name.len().checked_sub(1)?..)?.parse().ok()?;
    let integer = |bits, signed| Type::Integer { bits, signed };
    let element = match name.get(..name.len() - 1)? {
        "float" => Type::Float,
        "double" => Type::Double,
        "int" => INT,
        "uint" => UNSIGNED,
        "char" => integer(8, true),
        "uchar" => integer(8, false),
        "short" => integer(16, true),
        "ushort" => integer(16, false),
        "longlong" | "long" => integer(64, true),
        "ulonglong" | "ulong" => integer(64, false),
        _ => return None,
    };
    (1..=4).contains(&lanes).then_some((element, lanes))
}

/// The type that a name without declarators stands for.
pub fn named(words: &str) -> Type {
    let words: Vec<&str> = words
        .split_whitespace()
        .filter(|word| {
            !matches!(
                *word,
                "const" | "volatile" | "static" | "register" | "constexpr"
            )
        })
        .map(|word| word.strip_prefix("std::").unwrap_or(word))
        .collect();
    let integer = |bits, signed| Type::Integer { bits, signed };
    match words.as_slice() {
        ["float"] => Type::Float,
        ["double"] => Type::Double,
        ["bool"] => Type::Bool,
        ["size_t" | "uint64_t" | "uintptr_t"] => integer(64, false),
        ["ptrdiff_t" | "int64_t" | "intptr_t"] => integer(64, true),
        ["int32_t"] => INT,
        ["uint32_t" | "uint"] => UNSIGNED,
        ["int16_t"] => integer(16, true),
        ["uint16_t" | "ushort"] => integer(16, false),
        ["int8_t"] => integer(8, true),
        ["uint8_t" | "uchar"] => integer(8, false),
        words if !words.is_empty() && words.iter().all(|word| INTEGER_WORDS.contains(word)) => {
            let has = |word| words.contains(&word);
            let signed = !has("unsigned");
            match (has("char"), has("short"), has("long")) {
                (true, ..) => integer(8, signed),
                (_, true, _) => integer(16, signed),
                (.., true) => integer(64, signed),
                _ => integer(32, signed),
            }
        }
        [name] if !name.contains("::") && !name.contains('<') => Type::Named((*name).to_owned()),
        _ => Type::Unknown,
    }
}

const INTEGER_WORDS: &[&str] = &["unsigned", "signed", "int", "long", "short", "char"];

/// A type with the declarators around a name: the outermost comes first, and is applied first.
pub(super) fn wrap(base: Type, declarators: &[&str], parameter: bool) -> Type {
    let mut ty = base;
    let arrays = declarators
        .iter()
        .filter(|kind| kind.ends_with("array_declarator"))
        .count();
    let mut seen = 0;
    for kind in declarators {
        ty = match *kind {
            "init_declarator"
            | "reference_declarator"
            | "abstract_reference_declarator"
            | "parenthesized_declarator" => ty,
            "pointer_declarator" | "abstract_pointer_declarator" => Type::Pointer(Box::new(ty)),
            "array_declarator" | "abstract_array_declarator" => {
                seen += 1;
                match parameter && seen == arrays {
                    true => Type::Pointer(Box::new(ty)),
                    false => Type::Array(Box::new(ty)),
                }
            }
            _ => return Type::Unknown,
        };
    }
    ty
}

pub(super) fn promoted_number(ty: Type) -> Type {
    match ty.is_integer() {
        true => promoted(&ty),
        false if ty.is_floating() => ty,
        false => Type::Unknown,
    }
}

/// The type of a number as it is written.
pub fn literal(text: &str) -> Type {
    let lower = text.to_ascii_lowercase();
    let hexadecimal = lower.starts_with("0x");
    let floating = match hexadecimal {
        true => lower.contains('p'),
        false => lower.contains(['.', 'e']),
    };
    if floating {
        return match lower.chars().last() {
            Some('f') => Type::Float,
            Some('l') => Type::Unknown,
            _ => Type::Double,
        };
    }
    let digits = lower.trim_end_matches(['u', 'l', 'z']);
    let suffix = lower.get(digits.len()..).unwrap_or_default();
    let long = suffix.contains('l') || suffix.contains('z');
    let wide = super::constants::integer(digits).is_none_or(|value| value > i128::from(i32::MAX));
    Type::Integer {
        bits: if long || wide { 64 } else { 32 },
        signed: !suffix.contains('u'),
    }
}
