//! How exact an instruction is: the bounds that the PTX ISA states, as data.
//!
//! For those who compare this device with hardware. An instruction without a bound is exact: both give the same bits. For
//! an approximate one hardware may be off by the bound from the true value, and this device by half a unit or little
//! more (`docs/emulator.md` has what was measured); [`Accuracy::allows`] adds the two.

use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use std::f64::consts::PI;

/// How far a result may be from the true value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Not at all: all bits are defined.
    Exact,
    /// By so many units in the last place of the result's format.
    Ulp(f64),
    /// By so much of its magnitude.
    Relative(f64),
    /// By so much.
    Absolute(f64),
    /// By `absolute` where the argument is in `from … to`, else by `relative` of the magnitude.
    Split {
        /// Bound inside.
        absolute: f64,
        /// Bound outside.
        relative: f64,
        /// Where the absolute one holds: from.
        from: f64,
        /// Where the absolute one holds: to.
        to: f64,
    },
    /// By an absolute amount that depends on the magnitude of the argument: the first step whose limit is not below it. Beyond
    /// the last nothing is stated.
    Steps(&'static [(f64, f64)]),
    /// The format and the order of sums are not stated (matrix products); compare with a tolerance of your own.
    Unstated,
}

/// The bound of an instruction, and for which arguments it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// The bound.
    pub bound: Bound,
    /// Magnitudes of the last operand for which it holds, both ends included; outside anything may come. Special
    /// results (zero, infinity, NaN) that the ISA lists are exact everywhere.
    pub domain: Option<(f64, f64)>,
}

const EXACT: Accuracy = Accuracy {
    bound: Bound::Exact,
    domain: None,
};

/// Bound of an instruction.
pub fn bound(mnemonic: &Mnemonic) -> Accuracy {
    use Opcode as O;
    let approximate = mnemonic.rounding().is_none();
    let Some(ty) = mnemonic.ty() else {
        return EXACT;
    };
    let (bound, domain) = match (mnemonic.opcode(), ty) {
        (O::Rcp, ScalarType::F32) if approximate => (Bound::Ulp(1.0), None),
        (O::Sqrt, ScalarType::F32) if approximate => (Bound::Relative(power(-23.0)), None),
        (O::Rsqrt, ScalarType::F32) => (Bound::Relative(power(-22.9)), None),
        (O::Div, ScalarType::F32) if mnemonic.has(Word::Full) => (Bound::Ulp(2.0), None),
        (O::Div, ScalarType::F32) if approximate => {
            (Bound::Ulp(2.0), Some((power(-126.0), power(126.0))))
        }
        (O::Sin | O::Cos, ScalarType::F32) => (Bound::Steps(&TURNS), None),
        (O::Lg2, ScalarType::F32) => {
            let error = power(-22.0);
            let bound = Bound::Split {
                absolute: error,
                relative: error,
                from: 0.5,
                to: 2.0,
            };
            (bound, None)
        }
        (O::Ex2, ScalarType::F32) => (Bound::Ulp(2.0), None),
        (O::Ex2, ScalarType::F16 | ScalarType::F16x2) => (Bound::Relative(power(-9.9)), None),
        (O::Ex2, ScalarType::BF16 | ScalarType::BF16x2) => (Bound::Relative(power(-7.0)), None),
        (O::Tanh, ScalarType::F32) => (Bound::Relative(power(-11.0)), None),
        (O::Tanh, ScalarType::F16 | ScalarType::F16x2) => (Bound::Absolute(power(-10.987)), None),
        (O::Tanh, ScalarType::BF16 | ScalarType::BF16x2) => (Bound::Absolute(power(-8.0)), None),
        // The ISA states none: a result of 20 bits of fraction.
        (O::Rcp, ScalarType::F64) if approximate => (Bound::Relative(power(-20.0)), None),
        (O::Rsqrt, ScalarType::F64) if mnemonic.ftz() => (Bound::Relative(power(-20.0)), None),
        // The ISA states none: what ptxas expands it to refines the former once, to the third order.
        (O::Rsqrt, ScalarType::F64) => (Bound::Ulp(2.0), None),
        (O::Mma | O::Wmma | O::Wgmma, _) if mnemonic.types().iter().any(|ty| ty.is_float()) => {
            (Bound::Unstated, None)
        }
        _ => return EXACT,
    };
    Accuracy { bound, domain }
}

/// Sine and cosine: error by magnitude of the argument. `2^-20.5` up to 2π, `2^-14.7` up to 100π.
const TURNS: [(f64, f64); 2] = [
    (2.0 * PI, 6.743_495_761_743_046e-7),
    (100.0 * PI, 3.757_154_581_741_08e-5),
];

fn power(exponent: f64) -> f64 {
    exponent.exp2()
}

/// A format of results, for units in the last place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// Bits of the fraction.
    pub fraction_bits: i32,
    /// Exponent of the smallest normal number.
    pub lowest: i32,
}

impl Precision {
    /// That of a type: `.f16`, `.bf16`, `.f32`, `.f64`, packed or not.
    pub fn of(ty: ScalarType) -> Option<Self> {
        let (fraction_bits, lowest) = match ty {
            ScalarType::F16 | ScalarType::F16x2 => (10, -14),
            ScalarType::BF16 | ScalarType::BF16x2 => (7, -126),
            ScalarType::F32 | ScalarType::F32x2 => (23, -126),
            ScalarType::F64 => (52, -1022),
            _ => return None,
        };
        Some(Self {
            fraction_bits,
            lowest,
        })
    }

    /// One unit in the last place at `x`.
    pub fn unit(self, x: f64) -> f64 {
        let exponent = if x == 0.0 {
            self.lowest
        } else {
            // The exponent field, or that of a subnormal double.
            ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(self.lowest)
        };
        f64::from(exponent - self.fraction_bits).exp2()
    }
}

impl Accuracy {
    /// The bound as one number, an error relative to the result's magnitude, for those who judge whole buffers; `None` when
    /// exact. An absolute bound is taken as relative to results about 1. Infinite where nothing is stated.
    pub fn relative(&self) -> Option<f64> {
        Some(match self.bound {
            Bound::Exact => return None,
            // The formats that bounds in units are stated for have at least 23 bits.
            Bound::Ulp(units) => units * power(-23.0),
            Bound::Relative(error) | Bound::Absolute(error) => error,
            Bound::Split {
                absolute, relative, ..
            } => relative.max(absolute),
            Bound::Steps(steps) => steps.iter().fold(0.0, |most, &(_, error)| error.max(most)),
            Bound::Unstated => f64::INFINITY,
        })
    }

    /// Whether `theirs` may be the result of hardware where this device gives `ours`. `argument` is the last operand.
    pub fn allows(&self, argument: f64, ours: f64, theirs: f64, precision: Precision) -> bool {
        if self.bound == Bound::Exact {
            return ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
        }
        let outside = self
            .domain
            .is_some_and(|(low, high)| !(low..=high).contains(&argument.abs()));
        if ours.is_nan() || theirs.is_nan() {
            return outside || (ours.is_nan() && theirs.is_nan());
        }
        if outside {
            return true;
        }
        self.distance(argument, ours, theirs, precision) <= 1.0
    }

    /// How far two results are apart, as part of what [`allows`](Self::allows) permits between them; not a number where one
    /// of them is none.
    pub fn distance(&self, argument: f64, ours: f64, theirs: f64, precision: Precision) -> f64 {
        if ours == theirs {
            return 0.0;
        }
        // Where one overflows the other may be the largest number.
        let most = largest(precision);
        let clamp = |x: f64| {
            if x.is_nan() { x } else { x.clamp(-most, most) }
        };
        let (ours, theirs) = (clamp(ours), clamp(theirs));
        let unit = precision.unit(ours);
        let size = ours.abs();
        let allowed = match self.bound {
            Bound::Exact => 0.0,
            Bound::Ulp(units) => units * unit,
            Bound::Relative(error) => error * size,
            Bound::Absolute(error) => error,
            Bound::Split {
                absolute,
                relative,
                from,
                to,
            } => {
                if (from..=to).contains(&argument) {
                    absolute
                } else {
                    relative * size
                }
            }
            Bound::Steps(steps) => steps
                .iter()
                .find(|(limit, _)| argument.abs() <= *limit)
                .map_or(f64::INFINITY, |(_, error)| *error),
            Bound::Unstated => f64::INFINITY,
        };
        // One unit more: half for each of the two roundings to the format.
        (ours - theirs).abs() / (allowed + unit)
    }
}

/// The largest number of a format.
fn largest(precision: Precision) -> f64 {
    let exponent = f64::from(1 - precision.lowest);
    (2.0 - f64::from(-precision.fraction_bits).exp2()) * exponent.exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Accuracy {
        bound(&Mnemonic::parse(text).unwrap())
    }

    #[test]
    fn bounds_of_the_isa() {
        assert_eq!(of("add.rn.f32").bound, Bound::Exact);
        assert_eq!(of("div.rn.f32").bound, Bound::Exact);
        assert_eq!(of("sqrt.rn.ftz.f32").bound, Bound::Exact);
        assert_eq!(of("div.full.ftz.f32").bound, Bound::Ulp(2.0));
        assert_eq!(of("ex2.approx.ftz.f32").bound, Bound::Ulp(2.0));
        assert!(of("div.approx.f32").domain.is_some());
        assert_eq!(of("wgmma.fence.sync.aligned").bound, Bound::Exact);
        let Bound::Steps(steps) = of("sin.approx.f32").bound else {
            panic!("not by magnitude");
        };
        assert!((steps[0].1 - power(-20.5)).abs() < 1e-18);
        assert!((steps[1].1 - power(-14.7)).abs() < 1e-16);
    }

    #[test]
    fn one_number_for_a_buffer() {
        assert_eq!(of("fma.rn.f32").relative(), None);
        assert_eq!(of("ex2.approx.f32").relative(), Some(power(-22.0)));
        assert_eq!(of("tanh.approx.f32").relative(), Some(power(-11.0)));
    }

    #[test]
    fn a_unit_follows_the_magnitude() {
        let f32 = Precision::of(ScalarType::F32).unwrap();
        for x in [1.0_f32, 1.999, 3.4e38, 1e-40, 0.0] {
            let next = f64::from(x.next_up()).min(largest(f32) + 1.0);
            let unit = if x > 3e38 {
                f64::from(x) - f64::from(x.next_down())
            } else {
                next - f64::from(x)
            };
            assert_eq!(f32.unit(x.into()), unit);
        }
        assert_eq!(largest(f32), f64::from(f32::MAX));
        assert_eq!(largest(Precision::of(ScalarType::F16).unwrap()), 65_504.0);
    }

    #[test]
    fn allows_the_bound_and_no_more() {
        let f32 = Precision::of(ScalarType::F32).unwrap();
        let ex2 = of("ex2.approx.f32");
        let three = 1.0 + 3.0 * f64::from(f32::EPSILON);
        assert!(ex2.allows(0.0, 1.0, three, f32));
        assert!(!ex2.allows(0.0, 1.0, three + f64::from(f32::EPSILON), f32));
        assert!(!ex2.allows(0.0, f64::NAN, 1.0, f32));
        assert!(ex2.allows(128.0, f64::from(f32::MAX), f64::INFINITY, f32));
        // Beyond 2^126 nothing is said of div.approx.
        assert!(of("div.approx.f32").allows(1e38, 1.0, 0.0, f32));
        assert!(!of("add.f32").allows(0.0, 0.0, -0.0, f32));
    }
}
