//! Selectors of video operands: `.b0`, `.h1`, `.h10`, `.b3210`.

use std::fmt;

/// Which bytes or halves of a register a video instruction reads or writes.
///
/// Scalar video instructions take one (`.b0` … `.b3`, `.h0`, `.h1`). SIMD ones take as many as there are
/// lanes as a source (`.h32`, `.b7610`), counted over both registers, and a falling list as a mask of the
/// destination (`.h10`, `.b20`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    halves: bool,
    len: u8,
    digits: [u8; 4],
}

impl Selector {
    /// Reads one, without its dot: `h10`.
    pub fn from_text(text: &str) -> Option<Self> {
        let halves = match text.as_bytes().first()? {
            b'h' => true,
            b'b' => false,
            _ => return None,
        };
        let (most, top) = if halves { (2, 3) } else { (4, 7) };
        let places = text.get(1..)?;
        if places.is_empty() || places.len() > most {
            return None;
        }
        let mut digits = [0; 4];
        for (place, digit) in digits.iter_mut().zip(places.bytes()) {
            *place = digit.wrapping_sub(b'0');
            if *place > top {
                return None;
            }
        }
        Some(Self {
            halves,
            len: places.len() as u8,
            digits,
        })
    }

    /// Halves (16 bits), not bytes.
    pub fn halves(self) -> bool {
        self.halves
    }

    /// The numbers, in the order of the text: the most significant lane first.
    pub fn places(&self) -> &[u8] {
        self.digits.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.halves { "h" } else { "b" })?;
        self.places()
            .iter()
            .try_for_each(|place| write!(f, "{place}"))
    }
}
