//! Floating-point literals of newer LLVM in the spelling of this one.
//!
//! Since 2026 LLVM writes bits of any type as `f0x…`, infinities and NaNs by name, and decimals that are rounded to their
//! type. LLVM 22 reads none of these; it wants decimals that are exact, and bits in a spelling of each type. Triton's IR as
//! text has the newer ones. The type of a literal is the last one that stands before it on its line.

use std::fmt::Write;

/// A floating-point type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Half,
    Bfloat,
    Float,
    Double,
}

impl Type {
    /// By its name in IR.
    fn of(word: &str) -> Option<Self> {
        match word {
            "half" => Some(Self::Half),
            "bfloat" => Some(Self::Bfloat),
            "float" => Some(Self::Float),
            "double" => Some(Self::Double),
            _ => None,
        }
    }

    /// Bits of the exponent and of the fraction.
    const fn shape(self) -> (u32, u32) {
        match self {
            Self::Half => (5, 10),
            Self::Bfloat => (8, 7),
            Self::Float => (8, 23),
            Self::Double => (11, 52),
        }
    }

    /// The literal of bits, as LLVM 22 reads it: `float` is spelled as the `double` of the same value.
    fn literal(self, bits: u64) -> String {
        match self {
            Self::Half => format!("0xH{bits:04X}"),
            Self::Bfloat => format!("0xR{bits:04X}"),
            Self::Float => format!("0x{:016X}", widened(bits)),
            Self::Double => format!("0x{bits:016X}"),
        }
    }

    /// Infinity, with a fraction on top of it.
    const fn special(self, negative: bool, fraction: u64) -> u64 {
        let (exponent, width) = self.shape();
        let sign = (negative as u64) << (exponent + width);
        sign | (((1 << exponent) - 1) << width) | (fraction & ((1 << width) - 1))
    }

    /// A decimal, rounded to the type.
    fn decimal(self, text: &str) -> Option<u64> {
        match self {
            Self::Double => Some(text.parse::<f64>().ok()?.to_bits()),
            Self::Float => Some(u64::from(text.parse::<f32>().ok()?.to_bits())),
            Self::Half | Self::Bfloat => Some(narrowed(text.parse().ok()?, self.shape())),
        }
    }
}

/// Bits of the `f64` that has the value of an `f32`, a NaN's payload included.
fn widened(bits: u64) -> u64 {
    let bits = u32::try_from(bits).unwrap_or(u32::MAX);
    let value = f32::from_bits(bits);
    if value.is_nan() {
        let sign = u64::from(bits >> 31) << 63;
        sign | 0x7ff0_0000_0000_0000 | (u64::from(bits & 0x007f_ffff) << 29)
    } else {
        f64::from(value).to_bits()
    }
}

/// Bits of a value in a narrower type, rounded to nearest, ties to even.
fn narrowed(value: f64, (exponent, width): (u32, u32)) -> u64 {
    let bits = value.to_bits();
    let sign = (bits >> 63) << (exponent + width);
    let bias = (1i64 << (exponent - 1)) - 1;
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return sign;
    }
    let power = ((bits >> 52) & 0x7ff) as i64 - 1023;
    // Where the type has no smaller exponent, numbers are multiples of its least one.
    let scale = power.max(1 - bias) - i64::from(width);
    let scaled = magnitude * 2f64.powi(i32::try_from(-scale).unwrap_or(0));
    let rounded = scaled.round_ties_even();
    // Below 2^54, so that the cast is exact.
    let count = rounded as u64;
    let base = ((power.max(1 - bias) + bias - 1).max(0) as u64) << width;
    let out = base + count;
    let infinity = ((1u64 << exponent) - 1) << width;
    sign | out.min(infinity)
}

/// Rewrites a module's text; `None` when it has nothing to rewrite.
pub(super) fn rewritten(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut changed = false;
    for line in text.split_inclusive('\n') {
        changed |= rewrite_line(line, &mut out);
    }
    changed.then_some(out)
}

/// Rewrites a line; says whether it did.
fn rewrite_line(line: &str, out: &mut String) -> bool {
    let mut changed = false;
    let mut ty = None;
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => quoted(rest),
            // A comment goes to the end of the line.
            ';' => rest.len(),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (mut token, mut after) = rest.split_at(length);
        // The payload of a NaN belongs to it.
        if token.ends_with("nan")
            && let Some(end) = after.strip_prefix('(').and_then(|tail| tail.find(')'))
        {
            (token, after) = rest.split_at(length + end + 2);
        }
        if let Some(found) = Type::of(token) {
            ty = Some(found);
        }
        match ty.and_then(|ty| literal(token, ty)) {
            Some(literal) => {
                let _ = write!(out, "{literal}");
                changed |= literal != token;
            }
            None => out.push_str(token),
        }
        rest = after;
    }
    changed
}

/// Bytes of a quoted text with its quotes.
fn quoted(text: &str) -> usize {
    text.get(1..)
        .and_then(|inside| inside.find('"'))
        .map_or(text.len(), |end| end + 2)
}

/// Whether a character can be in a name, a number or a literal.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_' | '$' | '%' | '@' | '!' | '#')
}

/// A literal in this LLVM's spelling; `None` when it is none.
fn literal(token: &str, ty: Type) -> Option<String> {
    if let Some(digits) = token.strip_prefix("f0x") {
        return Some(ty.literal(u64::from_str_radix(digits, 16).ok()?));
    }
    let (negative, name) = match token.as_bytes().first()? {
        b'+' => (false, token.get(1..)?),
        b'-' => (true, token.get(1..)?),
        _ => (false, token),
    };
    let signed = name.len() < token.len();
    let quiet = 1u64 << (ty.shape().1 - 1);
    if signed {
        match name {
            "inf" => return Some(ty.literal(ty.special(negative, 0))),
            "qnan" => return Some(ty.literal(ty.special(negative, quiet))),
            _ => {}
        }
        let payload = |name: &str| {
            let digits = name.strip_prefix("(0x")?.strip_suffix(')')?;
            u64::from_str_radix(digits, 16).ok()
        };
        if let Some(fraction) = name.strip_prefix("snan").and_then(payload) {
            return Some(ty.literal(ty.special(negative, fraction)));
        }
        if let Some(fraction) = name.strip_prefix("nan").and_then(payload) {
            return Some(ty.literal(ty.special(negative, fraction | quiet)));
        }
    }
    // Digits, a point, digits, perhaps an exponent.
    let mut parts = name.splitn(2, '.');
    let (whole, fraction) = (parts.next()?, parts.next()?);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa = fraction.split(['e', 'E']).next()?;
    if !digits(whole) || !(mantissa.is_empty() || digits(mantissa)) {
        return None;
    }
    Some(ty.literal(ty.decimal(token)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_the_same_bits() {
        let cases = [
            (
                "fmul float %79, f0x3FB8AA3B",
                "fmul float %79, 0x3FF7154760000000",
            ),
            (
                "splat (float f0x3FB8AA3B)",
                "splat (float 0x3FF7154760000000)",
            ),
            ("float 1.000000e-07)", "float 0x3E7AD7F2A0000000)"),
            (
                "store float +inf, ptr",
                "store float 0x7FF0000000000000, ptr",
            ),
            ("half -inf", "half 0xHFC00"),
            ("half f0x3C01", "half 0xH3C01"),
            ("bfloat f0x3F80", "bfloat 0xR3F80"),
            ("bfloat 1.000000e-01", "bfloat 0xR3DCD"),
            ("half 1.000000e-01", "half 0xH2E66"),
            ("half 6.000000e-08", "half 0xH0001"),
            ("half 6.104000e-05", "half 0xH0400"),
            ("half -6.552000e+04", "half 0xHFC00"),
            ("double 1.000000e-01", "double 0x3FB999999999999A"),
            ("double f0x3FB999999999999A", "double 0x3FB999999999999A"),
            ("float +qnan", "float 0x7FF8000000000000"),
            ("float -nan(0x1)", "float 0xFFF8000020000000"),
            ("float +snan(0x1)", "float 0x7FF0000020000000"),
            // No literals, whatever they look like.
            ("float %f0x12, @f0x12, !1.5", "float %f0x12, @f0x12, !1.5"),
            ("float c\"f0x3FB8AA3B\"", "float c\"f0x3FB8AA3B\""),
            ("float %a ; f0x3FB8AA3B 1.5", "float %a ; f0x3FB8AA3B 1.5"),
            ("i32 12, 0x40, 1.5", "i32 12, 0x40, 1.5"),
        ];
        for (given, wanted) in cases {
            let got = rewritten(given);
            assert_eq!(got.as_deref().unwrap_or(given), wanted, "{given}");
        }
    }

    #[test]
    fn narrowing_agrees_with_single_precision_where_that_is_exact() {
        // The same rounding with single precision's shape, for which the standard library has an answer.
        for bits in (0..u32::MAX).step_by(9_973) {
            let value = f64::from(f32::from_bits(bits)) * 1.000_000_059;
            if value.is_finite() {
                let narrow = u64::from((value as f32).to_bits());
                assert_eq!(narrowed(value, (8, 23)), narrow, "{value:e}");
            }
        }
    }
}
