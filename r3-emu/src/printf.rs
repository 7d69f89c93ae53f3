//! Formats of `printf`, as device code has them.

/// A part of a format string.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    /// Text that is printed as it is.
    Text(&'a [u8]),
    /// What an argument is printed with.
    Spec(Spec),
}

/// `%[flags][width][.precision][length]conversion`
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// `*` for the width: an `int` argument in front.
    pub star_width: bool,
    /// `.*` for the precision.
    pub star_precision: bool,
    /// 1 for `hh`, 2 for `h`, 4, or 8 for `l`, `ll`, `j`, `z`, `t`.
    size: u8,
    conversion: u8,
}

/// Cuts a format into pieces. What is no conversion is text.
pub(crate) fn pieces(format: &[u8]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut at, mut text) = (0, 0);
    while at < format.len() {
        if format[at] != b'%' {
            at += 1;
            continue;
        }
        if text < at {
            pieces.push(Piece::Text(&format[text..at]));
        }
        if format.get(at + 1) == Some(&b'%') {
            pieces.push(Piece::Text(b"%"));
            at += 2;
            text = at;
            continue;
        }
        match Spec::parse(&format[at + 1..]) {
            Some((spec, len)) => {
                pieces.push(Piece::Spec(spec));
                at += 1 + len;
                text = at;
            }
            None => {
                text = at;
                at += 1;
            }
        }
    }
    if text < format.len() {
        pieces.push(Piece::Text(&format[text..]));
    }
    pieces
}

impl Spec {
    /// Reads what follows a `%`; how many bytes it is.
    fn parse(text: &[u8]) -> Option<(Self, usize)> {
        let mut spec = Self {
            size: 4,
            ..Self::default()
        };
        let mut at = 0;
        loop {
            match text.get(at)? {
                b'-' => spec.left = true,
                b'+' => spec.plus = true,
                b' ' => spec.space = true,
                b'#' => spec.alternate = true,
                b'0' => spec.zero = true,
                _ => break,
            }
            at += 1;
        }
        let number = |at: &mut usize| {
            let mut n = 0usize;
            while let Some(digit @ b'0'..=b'9') = text.get(*at) {
                n = (n * 10 + usize::from(digit - b'0')).min(4096);
                *at += 1;
            }
            n
        };
        if text.get(at) == Some(&b'*') {
            spec.star_width = true;
            at += 1;
        } else {
            spec.width = number(&mut at);
        }
        if text.get(at) == Some(&b'.') {
            at += 1;
            if text.get(at) == Some(&b'*') {
                spec.star_precision = true;
                at += 1;
            } else {
                spec.precision = Some(number(&mut at));
            }
        }
        loop {
            match text.get(at)? {
                b'h' => spec.size = if spec.size == 2 { 1 } else { 2 },
                b'l' | b'j' | b'z' | b't' | b'L' | b'q' => spec.size = 8,
                _ => break,
            }
            at += 1;
        }
        spec.conversion = *text.get(at)?;
        let known = b"diouxXcspfFeEgGaA".contains(&spec.conversion);
        known.then_some((spec, at + 1))
    }

    /// With the values of its stars.
    pub fn with(mut self, width: Option<i32>, precision: Option<i32>) -> Self {
        if let Some(width) = width {
            self.left |= width < 0;
            self.width = (width.unsigned_abs() as usize).min(4096);
        }
        if let Some(precision) = precision {
            self.precision = usize::try_from(precision).ok().map(|p| p.min(4096));
        }
        self
    }

    /// Bytes of its argument: as C promotes it.
    pub fn bytes(&self) -> u64 {
        match self.conversion {
            b'd' | b'i' | b'o' | b'u' | b'x' | b'X' if self.size < 8 => 4,
            b'c' => 4,
            _ => 8,
        }
    }

    /// `%s`
    pub fn is_string(&self) -> bool {
        self.conversion == b's'
    }

    /// Prints a string.
    pub fn string(&self, text: &[u8], out: &mut Vec<u8>) {
        let len = self.precision.map_or(text.len(), |p| p.min(text.len()));
        self.pad("", &text[..len], false, out);
    }

    /// Prints a number, given its bits.
    pub fn number(&self, bits: u64, out: &mut Vec<u8>) {
        match self.conversion {
            b'c' => self.pad("", &[bits as u8], false, out),
            b'p' => self.pad("0x", format!("{bits:x}").as_bytes(), false, out),
            b'd' | b'i' => {
                let value = match self.size {
                    1 => i64::from(bits as i8),
                    2 => i64::from(bits as i16),
                    4 => i64::from(bits as i32),
                    _ => bits as i64,
                };
                let digits = value.unsigned_abs().to_string();
                self.integer(self.sign(value < 0), digits, out);
            }
            b'o' | b'u' | b'x' | b'X' => {
                let value = match self.size {
                    1 => bits & 0xff,
                    2 => bits & 0xffff,
                    4 => bits & 0xffff_ffff,
                    _ => bits,
                };
                let (prefix, digits) = match self.conversion {
                    b'o' => ("0", format!("{value:o}")),
                    b'x' => ("0x", format!("{value:x}")),
                    b'X' => ("0X", format!("{value:X}")),
                    _ => ("", value.to_string()),
                };
                let prefix = if self.alternate && value != 0 {
                    prefix
                } else {
                    ""
                };
                self.integer(prefix, digits, out);
            }
            _ => self.float(f64::from_bits(bits), out),
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn integer(&self, prefix: &str, digits: String, out: &mut Vec<u8>) {
        let digits = match self.precision {
            Some(0) if digits == "0" => String::new(),
            Some(precision) => format!("{digits:0>precision$}"),
            None => digits,
        };
        // A precision takes the zero flag away.
        self.pad(prefix, digits.as_bytes(), self.precision.is_none(), out);
    }

    fn float(&self, value: f64, out: &mut Vec<u8>) {
        let upper = self.conversion.is_ascii_uppercase();
        let sign = self.sign(value.is_sign_negative());
        let magnitude = value.abs();
        if !magnitude.is_finite() {
            let text = if value.is_nan() { "nan" } else { "inf" };
            let text = if upper {
                text.to_uppercase()
            } else {
                text.to_owned()
            };
            return self.pad(sign, text.as_bytes(), false, out);
        }
        let precision = self.precision.unwrap_or(6);
        let (prefix, text) = match self.conversion.to_ascii_lowercase() {
            b'f' => (
                String::new(),
                self.point(format!("{magnitude:.precision$}")),
            ),
            b'e' => (String::new(), self.exponential(magnitude, precision)),
            b'g' => (String::new(), self.general(magnitude, precision.max(1))),
            _ => ("0x".to_owned(), self.hexadecimal(magnitude)),
        };
        let (prefix, text) = match upper {
            true => (prefix.to_uppercase(), text.to_uppercase()),
            false => (prefix, text),
        };
        self.pad(&format!("{sign}{prefix}"), text.as_bytes(), true, out);
    }

    /// `#` keeps the point of a number without fraction.
    fn point(&self, mut text: String) -> String {
        if self.alternate && !text.contains('.') {
            text.push('.');
        }
        text
    }

    fn exponential(&self, value: f64, precision: usize) -> String {
        let text = format!("{value:.precision$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        format!("{}e{sign}{exponent:0>2}", self.point(digits.to_owned()))
    }

    fn general(&self, value: f64, precision: usize) -> String {
        let probe = format!("{value:.*e}", precision - 1);
        let exponent: i64 = probe
            .split_once('e')
            .and_then(|(_, e)| e.parse().ok())
            .unwrap_or(0);
        let trim = |text: String| match text.contains('.') && !self.alternate {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
        if exponent < -4 || exponent >= precision as i64 {
            let text = self.exponential(value, precision - 1);
            let (digits, tail) = text.split_once('e').unwrap_or((&text, "+00"));
            return format!("{}e{tail}", trim(digits.to_owned()));
        }
        let places = usize::try_from(precision as i64 - 1 - exponent).unwrap_or(0);
        trim(self.point(format!("{value:.places$}")))
    }

    fn hexadecimal(&self, value: f64) -> String {
        let bits = value.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        let biased = (bits >> 52) as i64;
        let (mut lead, mut exponent) = match biased {
            0 if fraction == 0 => (0u64, 0),
            0 => (0, -1022),
            _ => (1, biased - 1023),
        };
        let mut digits = format!("{fraction:013x}");
        match self.precision {
            None => digits = digits.trim_end_matches('0').to_owned(),
            Some(p) if p < 13 => {
                let shift = 4 * (13 - p) as u32;
                let whole = lead << 52 | fraction;
                let half = 1u64 << (shift - 1);
                let mut rounded = whole >> shift;
                let rest = whole & ((1 << shift) - 1);
                if rest > half || (rest == half && rounded & 1 == 1) {
                    rounded += 1;
                }
                lead = rounded >> (52 - shift);
                let low = rounded & ((1 << (52 - shift)) - 1);
                digits = if p == 0 {
                    String::new()
                } else {
                    format!("{low:0p$x}")
                };
                if lead == 0 && biased == 0 {
                    exponent = if fraction == 0 { 0 } else { -1022 };
                }
            }
            Some(p) => digits = format!("{digits:0<p$}"),
        }
        let point = if digits.is_empty() && !self.alternate {
            ""
        } else {
            "."
        };
        format!("{lead}{point}{digits}p{exponent:+}")
    }

    /// Fills up to the width.
    fn pad(&self, prefix: &str, text: &[u8], zeros: bool, out: &mut Vec<u8>) {
        let fill = self.width.saturating_sub(prefix.len() + text.len());
        let zeros = zeros && self.zero && !self.left;
        if !zeros && !self.left {
            out.extend(std::iter::repeat_n(b' ', fill));
        }
        out.extend_from_slice(prefix.as_bytes());
        if zeros {
            out.extend(std::iter::repeat_n(b'0', fill));
        }
        out.extend_from_slice(text);
        if self.left {
            out.extend(std::iter::repeat_n(b' ', fill));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(format: &str, value: u64) -> String {
        let mut out = Vec::new();
        for piece in pieces(format.as_bytes()) {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Spec(spec) => spec.number(value, &mut out),
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_print_as_in_c() {
        for (format, value, want) in [
            ("%d", -5i64 as u64, "-5"),
            ("%u", 0xffff_ffff, "4294967295"),
            ("%5d|", 42, "   42|"),
            ("%-5d|", 42, "42   |"),
            ("%05d", -42i64 as u64, "-0042"),
            ("%+.3d", 7, "+007"),
            ("%#x", 255, "0xff"),
            ("%#X", 255, "0XFF"),
            ("%#o", 8, "010"),
            ("%lld", i64::MIN as u64, "-9223372036854775808"),
            ("%hhd", 0x1ff, "-1"),
            ("%llx", u64::MAX, "ffffffffffffffff"),
            ("100%% %c", u64::from(b'x'), "100% x"),
            ("%p", 0x1000, "0x1000"),
            ("%y", 1, "%y"),
        ] {
            assert_eq!(print(format, value), want, "{format}");
        }
    }

    #[test]
    fn floats_print_as_in_c() {
        for (format, value, want) in [
            ("%f", 1.5, "1.500000"),
            ("%.0f", 2.5, "2"),
            ("%#.0f", 2.5, "2."),
            ("%8.3f|", -3.1419, "  -3.142|"),
            ("%08.3f", -3.1419, "-003.142"),
            ("%e", 12345.678, "1.234568e+04"),
            ("%.2E", 1e-300, "1.00E-300"),
            ("%g", 0.0001, "0.0001"),
            ("%g", 0.00001, "1e-05"),
            ("%g", 1e6, "1e+06"),
            ("%g", 123456.0, "123456"),
            ("%#g", 1.0, "1.00000"),
            ("%a", 1.0, "0x1p+0"),
            ("%a", 0.1, "0x1.999999999999ap-4"),
            ("%.2a", 1.999, "0x2.00p+0"),
            ("%f", f64::NEG_INFINITY, "-inf"),
            ("%5F|", f64::NAN, "  NAN|"),
        ] {
            assert_eq!(print(format, f64::to_bits(value)), want, "{format}");
        }
    }
}
