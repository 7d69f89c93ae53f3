//! Element types, and how far two elements are apart.

use std::cmp::Ordering;
use std::str::FromStr;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use super::Tolerance;

/// Type of a buffer's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// Not known: compared bit for bit, shown as 32-bit words.
    #[default]
    Bits,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// How two elements differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    /// Whether the difference is within the tolerance.
    pub within: bool,
    /// |actual - expected|; infinite when it has no finite value.
    pub absolute: f64,
    /// `absolute` / |expected|; infinite when that has no finite value.
    pub relative: f64,
    /// Representable values between the two; `None` for integers and when one is not a number.
    pub ulp: Option<u64>,
}

const TYPES: [(&str, ElementType); 13] = [
    ("bits", ElementType::Bits),
    ("u8", ElementType::U8),
    ("u16", ElementType::U16),
    ("u32", ElementType::U32),
    ("u64", ElementType::U64),
    ("i8", ElementType::I8),
    ("i16", ElementType::I16),
    ("i32", ElementType::I32),
    ("i64", ElementType::I64),
    ("f16", ElementType::F16),
    ("bf16", ElementType::BF16),
    ("f32", ElementType::F32),
    ("f64", ElementType::F64),
];

impl FromStr for ElementType {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        TYPES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, ty)| *ty)
            .ok_or_else(|| {
                let names: Vec<_> = TYPES.iter().map(|(name, _)| *name).collect();
                format!(
                    "`{name}` is no element type; there are {}",
                    names.join(", ")
                )
            })
    }
}

impl std::fmt::Display for ElementType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            TYPES
                .iter()
                .find(|(_, ty)| ty == self)
                .map_or("bits", |(name, _)| name),
        )
    }
}

/// A decoded element.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Bits(u64),
    Unsigned(u64),
    Signed(i64),
    /// The value, and its place in the order of its format's values.
    Float(f64, i64),
}

impl ElementType {
    /// All types, the unknown one first.
    pub const ALL: [Self; 13] = [
        Self::Bits,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
    ];

    /// Size in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::Bits | Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether elements are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// Half the distance between neighbouring values of a floating-point format, relative to them; 0 for others.
    pub fn rounding(self) -> f64 {
        match self {
            Self::F16 => 2f64.powi(-11),
            Self::BF16 => 2f64.powi(-8),
            Self::F32 => 2f64.powi(-24),
            Self::F64 => 2f64.powi(-53),
            _ => 0.0,
        }
    }

    /// The magnitude of an element, when it is a finite floating-point number.
    pub fn magnitude(self, bytes: &[u8]) -> Option<f64> {
        match self.decode(bytes) {
            Value::Float(value, _) if value.is_finite() => Some(value.abs()),
            _ => None,
        }
    }

    /// The element in `bytes`, which may be shorter at a buffer's end: it is then bits.
    fn decode(self, bytes: &[u8]) -> Value {
        let mut word = [0u8; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        let bits = u64::from_le_bytes(word);
        if bytes.len() < self.size() {
            return Value::Bits(bits);
        }
        match self {
            Self::Bits => Value::Bits(bits),
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Value::Unsigned(bits),
            Self::I8 => Value::Signed(i64::from(bits as i8)),
            Self::I16 => Value::Signed(i64::from(bits as i16)),
            Self::I32 => Value::Signed(i64::from(bits as i32)),
            Self::I64 => Value::Signed(bits as i64),
            Self::F16 => Value::Float(f16::from_bits(bits as u16).to_f64(), rank(bits << 48) >> 48),
            Self::BF16 => Value::Float(
                bf16::from_bits(bits as u16).to_f64(),
                rank(bits << 48) >> 48,
            ),
            Self::F32 => Value::Float(
                f64::from(f32::from_bits(bits as u32)),
                rank(bits << 32) >> 32,
            ),
            Self::F64 => Value::Float(f64::from_bits(bits), rank(bits)),
        }
    }

    /// The element for people.
    pub fn show(self, bytes: &[u8]) -> String {
        match self.decode(bytes) {
            Value::Bits(bits) => format!("0x{bits:0width$x}", width = 2 * bytes.len().min(8)),
            Value::Unsigned(value) => value.to_string(),
            Value::Signed(value) => value.to_string(),
            Value::Float(value, _) if value.is_nan() => {
                let bits = bytes
                    .iter()
                    .rev()
                    .fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
                format!("NaN(0x{bits:0width$x})", width = 2 * bytes.len().min(8))
            }
            // The shortest text that gives the same value again in the element's own format.
            Value::Float(value, _) if self == Self::F32 => format!("{:?}", value as f32),
            Value::Float(value, _) => format!("{value:?}"),
        }
    }

    /// Compares two elements that differ in some bit.
    pub fn difference(self, expected: &[u8], actual: &[u8], tolerance: &Tolerance) -> Difference {
        const APART: Difference = Difference {
            within: false,
            absolute: f64::INFINITY,
            relative: f64::INFINITY,
            ulp: None,
        };
        match (self.decode(expected), self.decode(actual)) {
            (Value::Float(e, e_rank), Value::Float(a, a_rank)) => {
                if e.is_nan() || a.is_nan() {
                    // A NaN is as good as another one where the reference has one.
                    let within = !tolerance.is_exact() && e.is_nan() && a.is_nan();
                    return Difference {
                        within,
                        ..if within { Difference::default() } else { APART }
                    };
                }
                let ulp = Some(e_rank.abs_diff(a_rank));
                if e.is_infinite() || a.is_infinite() {
                    return Difference { ulp, ..APART };
                }
                judge((a - e).abs(), e.abs(), ulp, tolerance)
            }
            (Value::Unsigned(e), Value::Unsigned(a)) => {
                judge(e.abs_diff(a) as f64, e as f64, None, tolerance)
            }
            (Value::Signed(e), Value::Signed(a)) => judge(
                e.abs_diff(a) as f64,
                e.unsigned_abs() as f64,
                None,
                tolerance,
            ),
            _ => APART,
        }
    }
}

fn judge(absolute: f64, expected: f64, ulp: Option<u64>, tolerance: &Tolerance) -> Difference {
    let relative = match expected.partial_cmp(&0.0) {
        _ if absolute == 0.0 => 0.0,
        Some(Ordering::Greater) => absolute / expected,
        _ => f64::INFINITY,
    };
    let by_value = absolute <= tolerance.absolute + tolerance.relative * expected;
    let by_ulp = ulp.is_some_and(|ulp| tolerance.ulp.is_some_and(|allowed| ulp <= allowed));
    Difference {
        within: !tolerance.is_exact() && (by_value || by_ulp),
        absolute,
        relative,
        ulp,
    }
}

/// Maps the bits of a float, shifted to the top, to an integer that grows with its value: both
/// zeros to 0, neighbours to neighbours.
fn rank(bits: u64) -> i64 {
    let bits = bits as i64;
    if bits < 0 {
        (bits & i64::MAX).wrapping_neg()
    } else {
        bits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tolerance(absolute: f64, relative: f64, ulp: Option<u64>) -> Tolerance {
        Tolerance {
            absolute,
            relative,
            ulp,
        }
    }

    fn f32s(expected: f32, actual: f32, tolerance: Tolerance) -> Difference {
        ElementType::F32.difference(&expected.to_le_bytes(), &actual.to_le_bytes(), &tolerance)
    }

    #[test]
    fn absolute_and_relative_tolerance_add_up() {
        let t = tolerance(0.1, 0.01, None);
        assert!(f32s(100.0, 101.05, t).within);
        assert!(!f32s(100.0, 101.2, t).within);
        assert!(f32s(0.0, 0.1, tolerance(0.100001, 0.0, None)).within);
        assert!(
            !f32s(0.0, 1e-20, tolerance(0.0, 0.5, None)).within,
            "relative to nothing is infinite"
        );
    }

    #[test]
    fn nan_fails_unless_the_reference_is_nan() {
        let t = tolerance(f64::MAX, 1.0, Some(u64::MAX));
        assert!(!f32s(1.0, f32::NAN, t).within);
        assert!(!f32s(f32::NAN, 1.0, t).within);
        assert!(f32s(f32::NAN, f32::from_bits(0x7fc0_0001), t).within);
        assert!(!f32s(f32::NAN, f32::from_bits(0x7fc0_0001), Tolerance::EXACT).within);
    }

    #[test]
    fn infinity_is_never_close_to_a_number() {
        let t = tolerance(f64::MAX, 1.0, Some(u64::MAX));
        assert!(!f32s(f32::INFINITY, f32::MAX, t).within);
        assert!(!f32s(f32::MAX, f32::INFINITY, t).within);
        assert!(!f32s(f32::INFINITY, f32::NEG_INFINITY, t).within);
    }

    #[test]
    fn ulps_count_representable_values_across_zero() {
        let up = f32::from_bits(1.0f32.to_bits() + 3);
        assert_eq!(f32s(1.0, up, Tolerance::EXACT).ulp, Some(3));
        assert_eq!(f32s(0.0, -0.0, Tolerance::EXACT).ulp, Some(0));
        let tiny = f32::from_bits(1);
        assert_eq!(f32s(tiny, -tiny, Tolerance::EXACT).ulp, Some(2));
        assert!(f32s(1.0, up, tolerance(0.0, 0.0, Some(3))).within);
        assert!(!f32s(1.0, up, tolerance(0.0, 0.0, Some(2))).within);
    }

    #[test]
    fn half_precision_formats_have_their_own_spacing() {
        let one = f16::ONE.to_bits();
        let d = ElementType::F16.difference(
            &one.to_le_bytes(),
            &(one + 1).to_le_bytes(),
            &Tolerance::EXACT,
        );
        assert_eq!((d.absolute, d.ulp), (2f64.powi(-10), Some(1)));
        let one = bf16::ONE.to_bits();
        let d = ElementType::BF16.difference(
            &one.to_le_bytes(),
            &(one + 1).to_le_bytes(),
            &Tolerance::EXACT,
        );
        assert_eq!((d.absolute, d.ulp), (2f64.powi(-7), Some(1)));
    }

    #[test]
    fn integers_have_distances_too() {
        let d = ElementType::I8.difference(&[0x80], &[0x7f], &tolerance(255.0, 0.0, None));
        assert_eq!((d.absolute, d.within), (255.0, true));
        let d = ElementType::U8.difference(&[0x80], &[0x7f], &tolerance(0.5, 0.0, None));
        assert_eq!((d.absolute, d.within), (1.0, false));
    }

    #[test]
    fn elements_are_shown_in_their_type() {
        assert_eq!(ElementType::F32.show(&0.1f32.to_le_bytes()), "0.1");
        assert_eq!(
            ElementType::F32.show(&f32::NAN.to_le_bytes()),
            "NaN(0x7fc00000)"
        );
        assert_eq!(ElementType::Bits.show(&[1, 0, 0, 0x80]), "0x80000001");
        assert_eq!(ElementType::Bits.show(&[1]), "0x01");
        assert_eq!(ElementType::I16.show(&(-2i16).to_le_bytes()), "-2");
    }

    proptest! {
        #[test]
        fn an_exact_tolerance_accepts_no_difference(e: u64, a: u64) {
            prop_assume!(e != a);
            for (_, ty) in TYPES {
                let d = ty.difference(&e.to_le_bytes(), &a.to_le_bytes(), &Tolerance::EXACT);
                prop_assert!(!d.within);
            }
        }

        #[test]
        fn a_larger_tolerance_accepts_what_a_smaller_one_does(
            e: f32, a: f32, small in 0f64..1e30, more in 0f64..1e30,
        ) {
            if f32s(e, a, tolerance(small, 0.0, None)).within {
                prop_assert!(f32s(e, a, tolerance(small + more, 0.0, None)).within);
            }
        }

        #[test]
        fn the_ulp_distance_is_symmetric(e: f64, a: f64) {
            let (e, a) = (e.to_le_bytes(), a.to_le_bytes());
            let forth = ElementType::F64.difference(&e, &a, &Tolerance::EXACT).ulp;
            prop_assert_eq!(forth, ElementType::F64.difference(&a, &e, &Tolerance::EXACT).ulp);
        }
    }
}
