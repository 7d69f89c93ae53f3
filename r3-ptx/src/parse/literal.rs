//! Numbers.

use super::{Parsed, Parser};
use crate::tree::Number;

impl Parser<'_> {
    /// Takes a number without a sign.
    pub(super) fn literal(&mut self) -> Parsed<Number> {
        let pos = self.cursor.pos();
        let Some(text) = self.cursor.number() else {
            return self.expected("a number");
        };
        match value(text) {
            Ok(number) => Ok(number),
            Err(why) => self.bad_value(pos, &format!("`{text}`"), why),
        }
    }

    /// Takes a whole number of at most 32 bits.
    pub(super) fn small(&mut self) -> Parsed<u32> {
        let pos = self.cursor.pos();
        match self.literal()? {
            Number::Signed(n) if u32::try_from(n).is_ok() => Ok(n as u32),
            Number::Unsigned(n) if u32::try_from(n).is_ok() => Ok(n as u32),
            _ => self.bad_value(pos, "this number", "a whole number below 2^32 is wanted"),
        }
    }
}

/// The value of a literal, as it was cut out of the text.
fn value(text: &str) -> Result<Number, &'static str> {
    // Nearly all numbers are short decimals.
    let bytes = text.as_bytes();
    if bytes.len() < 18 && (!text.starts_with('0') || bytes.len() == 1) {
        let mut value = 0i64;
        let mut plain = true;
        for &byte in bytes {
            plain &= byte.is_ascii_digit();
            value = value * 10 + i64::from(byte & 15);
        }
        if plain {
            return Ok(Number::Signed(value));
        }
    }
    match bytes {
        [b'0', b'f' | b'F', ..] => {
            let digits = exactly(text, 8).ok_or("`0f` is followed by 8 hexadecimal digits")?;
            let bits = u32::from_str_radix(digits, 16).map_err(|_| "not hexadecimal")?;
            Ok(Number::Single(bits))
        }
        [b'0', b'd' | b'D', ..] => {
            let digits = exactly(text, 16).ok_or("`0d` is followed by 16 hexadecimal digits")?;
            let bits = u64::from_str_radix(digits, 16).map_err(|_| "not hexadecimal")?;
            Ok(Number::Double(bits))
        }
        [b'0', b'x' | b'X', ..] => integer(text.get(2..), 16),
        [b'0', b'b' | b'B', ..] => integer(text.get(2..), 2),
        _ if text.contains(['.', 'e', 'E']) => {
            let value: f64 = text.parse().map_err(|_| "not a number")?;
            if value.is_finite() {
                Ok(Number::Decimal(value.to_bits()))
            } else {
                Err("too large for a double")
            }
        }
        [b'0', _, ..] if text != "0U" => integer(text.get(1..), 8),
        _ => integer(Some(text), 10),
    }
}

/// What follows the two bytes of the prefix, if it is so many hexadecimal digits.
fn exactly(text: &str, digits: usize) -> Option<&str> {
    let rest = text.get(2..)?;
    let fits = rest.len() == digits && rest.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then_some(rest)
}

fn integer(digits: Option<&str>, radix: u32) -> Result<Number, &'static str> {
    let digits = digits.unwrap_or_default();
    let (digits, unsigned) = match digits.strip_suffix('U') {
        Some(digits) => (digits, true),
        None => (digits, false),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err("not a number");
    }
    let value = u64::from_str_radix(digits, radix).map_err(|_| "more than 64 bits")?;
    Ok(match i64::try_from(value) {
        Ok(value) if !unsigned => Number::Signed(value),
        _ => Number::Unsigned(value),
    })
}
