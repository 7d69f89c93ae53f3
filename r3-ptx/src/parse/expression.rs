//! Constant expressions. They are computed as they are read: a tree has numbers only.
//!
//! Values are 64 bits wide, signed or not, or doubles; operators have C's precedences.

use super::{Parsed, Parser};
use crate::source::Pos;
use crate::tree::Number;

/// Parentheses and unary operators within each other.
const DEEPEST: u32 = 64;

/// Binary operators, longest text first among those that begin alike; a higher level binds tighter.
const OPERATORS: &[(&str, u8, Operator)] = &[
    ("||", 1, Operator::OrElse),
    ("&&", 2, Operator::AndAlso),
    ("|", 3, Operator::Or),
    ("^", 4, Operator::Xor),
    ("&", 5, Operator::And),
    ("==", 6, Operator::Eq),
    ("!=", 6, Operator::Ne),
    ("<<", 8, Operator::Shl),
    (">>", 8, Operator::Shr),
    ("<=", 7, Operator::Le),
    (">=", 7, Operator::Ge),
    ("<", 7, Operator::Lt),
    (">", 7, Operator::Gt),
    ("+", 9, Operator::Add),
    ("-", 9, Operator::Sub),
    ("*", 10, Operator::Mul),
    ("/", 10, Operator::Div),
    ("%", 10, Operator::Rem),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    OrElse,
    AndAlso,
    Or,
    Xor,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

impl<'a> Parser<'a> {
    /// Takes a constant expression.
    pub(super) fn constant(&mut self) -> Parsed<Number> {
        if self.cursor.at_digit() {
            let before = self.cursor;
            let number = self.literal()?;
            if matches!(self.cursor.peek(), b',' | b';' | b']' | b'}' | b')') {
                return Ok(number);
            }
            self.cursor = before;
        }
        self.conditional(0)
    }

    /// `a ? b : c`, or what has no `?`.
    fn conditional(&mut self, depth: u32) -> Parsed<Number> {
        let condition = self.binary(1, depth)?;
        let pos = self.cursor.pos();
        if !self.cursor.eat(b'?') {
            return Ok(condition);
        }
        if depth >= DEEPEST {
            return self.too_deep("constant expressions", DEEPEST);
        }
        let condition = self.truth(pos, condition)?;
        let then = self.conditional(depth + 1)?;
        self.expect(b':', "`:`")?;
        let otherwise = self.conditional(depth + 1)?;
        Ok(if condition { then } else { otherwise })
    }

    /// Operators of `level` and above.
    fn binary(&mut self, level: u8, depth: u32) -> Parsed<Number> {
        let mut left = self.unary(depth)?;
        while let Some((text, found, operator)) = self.operator()
            && found >= level
        {
            let pos = self.cursor.pos();
            for _ in text.bytes() {
                self.cursor.bump();
            }
            let right = self.binary(found + 1, depth)?;
            left = match apply(operator, left, right) {
                Ok(value) => value,
                Err(why) => return self.bad_value(pos, "constant expression", why),
            };
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(&'static str, u8, Operator)> {
        let first = self.cursor.peek();
        let second = self.cursor.peek_second();
        OPERATORS
            .iter()
            .find(|(text, ..)| match text.as_bytes() {
                [a] => *a == first,
                [a, b] => *a == first && *b == second,
                _ => false,
            })
            .copied()
    }

    fn unary(&mut self, depth: u32) -> Parsed<Number> {
        if depth >= DEEPEST {
            return self.too_deep("constant expressions", DEEPEST);
        }
        let pos = self.cursor.pos();
        match self.cursor.peek() {
            b'-' => {
                self.cursor.bump();
                let digits = self.cursor.at_digit();
                match self.unary(depth + 1)? {
                    // The one negative number whose magnitude does not fit.
                    Number::Unsigned(n) if digits && n == 1 << 63 && !self.ends_with_u() => {
                        Ok(Number::Signed(i64::MIN))
                    }
                    number => Ok(negated(number)),
                }
            }
            b'+' => {
                self.cursor.bump();
                self.unary(depth + 1)
            }
            b'!' => {
                self.cursor.bump();
                let value = self.unary(depth + 1)?;
                Ok(Number::Signed(i64::from(!self.truth(pos, value)?)))
            }
            b'~' => {
                self.cursor.bump();
                match self.unary(depth + 1)? {
                    Number::Signed(n) => Ok(Number::Signed(!n)),
                    Number::Unsigned(n) => Ok(Number::Unsigned(!n)),
                    _ => self.bad_value(pos, "`~`", "it takes a whole number"),
                }
            }
            b'(' => {
                self.cursor.bump();
                if let Some(word) = self.cursor.dot_word() {
                    self.expect(b')', "`)` behind the type")?;
                    let value = self.unary(depth + 1)?;
                    return self.cast(pos, word, value);
                }
                let value = self.conditional(depth + 1)?;
                self.expect(b')', "an operator or `)`")?;
                Ok(value)
            }
            b'0'..=b'9' | b'.' => self.literal(),
            _ if self.cursor.peek_name() == "WARP_SZ" => {
                self.cursor.name();
                Ok(Number::Signed(32))
            }
            _ => self.expected("a constant"),
        }
    }

    /// The literal just taken has a `U`.
    fn ends_with_u(&self) -> bool {
        self.cursor.since(0).ends_with('U')
    }

    fn cast(&self, pos: Pos, word: &str, value: Number) -> Parsed<Number> {
        let bits = match value {
            Number::Signed(n) => n as u64,
            Number::Unsigned(n) => n,
            _ => return self.bad_value(pos, "cast", "only whole numbers are cast"),
        };
        match word {
            "s64" => Ok(Number::Signed(bits as i64)),
            "u64" => Ok(Number::Unsigned(bits)),
            _ => self.bad_value(pos, "cast", "only to `.s64` and `.u64`"),
        }
    }

    fn truth(&self, pos: Pos, value: Number) -> Parsed<bool> {
        match value {
            Number::Signed(n) => Ok(n != 0),
            Number::Unsigned(n) => Ok(n != 0),
            _ => self.bad_value(pos, "condition", "it is a whole number"),
        }
    }

    /// Takes a constant expression that is an integer, and gives its bits.
    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let pos = self.cursor.pos();
        match self.constant()? {
            Number::Signed(n) => Ok(n),
            Number::Unsigned(n) => Ok(n as i64),
            _ => self.bad_value(pos, "this number", "a whole number is wanted"),
        }
    }
}

fn negated(number: Number) -> Number {
    match number {
        Number::Signed(n) => Number::Signed(n.wrapping_neg()),
        Number::Unsigned(n) => Number::Unsigned(n.wrapping_neg()),
        Number::Single(bits) => Number::Single(bits ^ (1 << 31)),
        Number::Double(bits) => Number::Double(bits ^ (1 << 63)),
        Number::Decimal(bits) => Number::Decimal(bits ^ (1 << 63)),
    }
}

fn apply(operator: Operator, left: Number, right: Number) -> Result<Number, &'static str> {
    match (left, right) {
        (Number::Signed(a), Number::Signed(b)) => signed(operator, a, b),
        (Number::Signed(a), Number::Unsigned(b)) => match operator {
            // The type of a shift is that of its left side.
            Operator::Shl | Operator::Shr => signed(operator, a, b.min(64) as i64),
            _ => unsigned(operator, a as u64, b),
        },
        (Number::Unsigned(a), Number::Signed(b)) => unsigned(operator, a, b as u64),
        (Number::Unsigned(a), Number::Unsigned(b)) => unsigned(operator, a, b),
        (Number::Double(a) | Number::Decimal(a), Number::Double(b) | Number::Decimal(b)) => {
            float(operator, f64::from_bits(a), f64::from_bits(b))
        }
        (Number::Single(_), _) | (_, Number::Single(_)) => {
            Err("a `0f` literal takes no operator but `-`")
        }
        _ => Err("whole numbers and floating-point numbers do not mix"),
    }
}

const BY_ZERO: &str = "division by zero";

fn signed(operator: Operator, a: i64, b: i64) -> Result<Number, &'static str> {
    let value = match operator {
        Operator::Add => a.wrapping_add(b),
        Operator::Sub => a.wrapping_sub(b),
        Operator::Mul => a.wrapping_mul(b),
        Operator::Div if b == 0 => return Err(BY_ZERO),
        Operator::Div => a.wrapping_div(b),
        Operator::Rem if b == 0 => return Err(BY_ZERO),
        Operator::Rem => a.wrapping_rem(b),
        Operator::Shl => u32::try_from(b).map_or(0, |n| a.checked_shl(n).unwrap_or(0)),
        Operator::Shr => a >> u32::try_from(b).unwrap_or(63).min(63),
        Operator::And => a & b,
        Operator::Or => a | b,
        Operator::Xor => a ^ b,
        Operator::AndAlso => i64::from(a != 0 && b != 0),
        Operator::OrElse => i64::from(a != 0 || b != 0),
        Operator::Eq => i64::from(a == b),
        Operator::Ne => i64::from(a != b),
        Operator::Lt => i64::from(a < b),
        Operator::Le => i64::from(a <= b),
        Operator::Gt => i64::from(a > b),
        Operator::Ge => i64::from(a >= b),
    };
    Ok(Number::Signed(value))
}

fn unsigned(operator: Operator, a: u64, b: u64) -> Result<Number, &'static str> {
    let value = match operator {
        Operator::Add => a.wrapping_add(b),
        Operator::Sub => a.wrapping_sub(b),
        Operator::Mul => a.wrapping_mul(b),
        Operator::Div => a.checked_div(b).ok_or(BY_ZERO)?,
        Operator::Rem => a.checked_rem(b).ok_or(BY_ZERO)?,
        Operator::Shl => u32::try_from(b).map_or(0, |n| a.checked_shl(n).unwrap_or(0)),
        Operator::Shr => u32::try_from(b).map_or(0, |n| a.checked_shr(n).unwrap_or(0)),
        Operator::And => a & b,
        Operator::Or => a | b,
        Operator::Xor => a ^ b,
        Operator::Lt => return Ok(Number::Signed(i64::from(a < b))),
        Operator::Le => return Ok(Number::Signed(i64::from(a <= b))),
        Operator::Gt => return Ok(Number::Signed(i64::from(a > b))),
        Operator::Ge => return Ok(Number::Signed(i64::from(a >= b))),
        _ => return signed(operator, a as i64, b as i64),
    };
    Ok(Number::Unsigned(value))
}

fn float(operator: Operator, a: f64, b: f64) -> Result<Number, &'static str> {
    let value = match operator {
        Operator::Add => a + b,
        Operator::Sub => a - b,
        Operator::Mul => a * b,
        Operator::Div => a / b,
        Operator::Eq => return Ok(Number::Signed(i64::from(a == b))),
        Operator::Ne => return Ok(Number::Signed(i64::from(a != b))),
        Operator::Lt => return Ok(Number::Signed(i64::from(a < b))),
        Operator::Le => return Ok(Number::Signed(i64::from(a <= b))),
        Operator::Gt => return Ok(Number::Signed(i64::from(a > b))),
        Operator::Ge => return Ok(Number::Signed(i64::from(a >= b))),
        _ => return Err("this operator takes whole numbers"),
    };
    Ok(Number::Double(value.to_bits()))
}
