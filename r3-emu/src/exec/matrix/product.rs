//! Products of matrices: `d = a * b + c`, once the elements are out of the fragments.
//!
//! Integers and `f64` are exact resp. a chain of fused operations over rising `k`. For the smaller floating-point
//! formats the ISA leaves order and precision open; this follows what is known of the H100 and H200 from published
//! measurements of tensor cores:
//!
//! - products are exact; those of 32 bytes of `k` (16 elements of `f16`) are added at once, with the accumulator;
//! - before that, each is aligned to the largest exponent and cut (towards zero) below 25 bits of fraction, 13 for the
//!   fp8 of `wgmma`;
//! - the sum is cut to single precision (13 bits of fraction for the fp8 of `wgmma`), or rounded to the nearest `f16`.
//!
//! `wmma` of `tf32` takes `k` four at a time. Two instructions are made of others on that GPU: the fp8 of `mma` are converted to `f16` and multiplied in two
//! halves (elements 0 and 1 of each register of four, then 2 and 3) from zero, and the accumulator is added to that;
//! `m8n8k4` of `f16` is done without tensor cores.

use super::number::{Accumulator, Element, Format, INFINITE, ZERO};

/// A multiplicand: vectors of `k` elements, those of A by rows, those of B by columns.
#[derive(Debug)]
pub(super) struct Vectors {
    k: usize,
    significands: Vec<i32>,
    exponents: Vec<i32>,
    /// Per vector: an element is not finite.
    special: Vec<bool>,
    /// Per vector: an element is zero.
    zero: Vec<bool>,
    /// Per element of a sparse matrix, whether it is none of those that are stored: it meets no element of the other.
    absent: Vec<bool>,
}

impl Vectors {
    /// Reads elements, vector after vector.
    pub(super) fn new(format: Format, k: usize, raw: &[u32]) -> Self {
        let mut significands = Vec::with_capacity(raw.len());
        let mut exponents = Vec::with_capacity(raw.len());
        for &bits in raw {
            let element = format.decode(bits);
            significands.push(element.significand);
            exponents.push(element.exponent);
        }
        let any = |test: fn(i32) -> bool| {
            exponents
                .chunks_exact(k)
                .map(|vector| vector.iter().any(|&e| test(e)))
                .collect()
        };
        Self {
            k,
            special: any(|e| e >= INFINITE),
            zero: any(|e| e == ZERO),
            significands,
            exponents,
            absent: Vec::new(),
        }
    }

    /// The same of a sparse matrix, of which the elements that are not stored are zero.
    pub(super) fn sparse(self, absent: Vec<bool>) -> Self {
        Self { absent, ..self }
    }

    fn is_absent(&self, i: usize, k: usize) -> bool {
        self.absent.get(i * self.k + k) == Some(&true)
    }

    /// Changes all signs.
    pub(super) fn negate(&mut self) {
        for significand in &mut self.significands {
            *significand = -*significand;
        }
    }

    fn vector(&self, i: usize) -> (&[i32], &[i32]) {
        let range = i * self.k..(i + 1) * self.k;
        (&self.significands[range.clone()], &self.exponents[range])
    }

    fn value(&self, i: usize, k: usize) -> f64 {
        Element {
            significand: self.significands[i * self.k + k],
            exponent: self.exponents[i * self.k + k],
        }
        .value()
    }
}

/// How floating-point products are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// Elements of `k` that are added at once.
    pub block: usize,
    /// Bits of fraction that are kept while adding.
    pub fraction: u32,
    /// What is in the accumulator.
    pub accumulator: Accumulator,
    /// The sum begins at zero and `c` is added to it, rounded to nearest.
    pub separate: bool,
}

impl Sum {
    /// `c + Σ a[i] b[j]` for each `i`, `j`; `c` and the results row by row, `n` = number of columns.
    #[inline(always)]
    pub(super) fn multiply(self, a: &Vectors, b: &Vectors, c: &mut [u32], n: usize) {
        for (index, c) in c.iter_mut().enumerate() {
            let (i, j) = (index / n, index % n);
            let mut sum = if self.separate { 0 } else { *c };
            let special =
                a.special[i] || b.special[j] || self.accumulator.decode(sum).exponent >= INFINITE;
            let zero = a.zero[i] || b.zero[j];
            let (sa, ea) = a.vector(i);
            let (sb, eb) = b.vector(j);
            for from in (0..a.k).step_by(self.block) {
                let range = from..(from + self.block).min(a.k);
                sum = if special {
                    self.special_block([a, b], [i, j], range, zero, sum)
                } else {
                    self.block(
                        [&sa[range.clone()], &sb[range.clone()]],
                        [&ea[range.clone()], &eb[range]],
                        zero,
                        sum,
                    )
                };
            }
            *c = if self.separate {
                self.add(*c, sum)
            } else {
                sum
            };
        }
    }

    /// Adds one block of products to `start`, some of which may not be finite.
    #[inline(never)]
    fn special_block(
        self,
        [a, b]: [&Vectors; 2],
        [i, j]: [usize; 2],
        range: std::ops::Range<usize>,
        zero: bool,
        start: u32,
    ) -> u32 {
        let present: Vec<usize> = range.filter(|&k| !a.is_absent(i, k)).collect();
        let (sa, ea) = a.vector(i);
        let (sb, eb) = b.vector(j);
        let infinite = self.accumulator.decode(start).exponent >= INFINITE
            || present
                .iter()
                .any(|&k| ea[k] >= INFINITE || eb[k] >= INFINITE);
        if infinite {
            let exact: f64 = present.iter().map(|&k| a.value(i, k) * b.value(j, k)).sum();
            return self
                .accumulator
                .special(exact + self.accumulator.value(start));
        }
        let pick = |all: &[i32]| -> Vec<i32> { present.iter().map(|&k| all[k]).collect() };
        self.block([&pick(sa), &pick(sb)], [&pick(ea), &pick(eb)], zero, start)
    }

    /// Adds one block of products to `start`.
    #[inline(always)]
    fn block(
        self,
        significands: [&[i32]; 2],
        exponents: [&[i32]; 2],
        zero: bool,
        start: u32,
    ) -> u32 {
        let c = self.accumulator.decode(start);
        if c.exponent >= INFINITE {
            // An earlier block overflowed.
            return start;
        }
        let mut largest = c.exponent;
        for (&a, &b) in exponents[0].iter().zip(exponents[1]) {
            largest = largest.max(a + b);
        }
        // A zero takes part in the alignment with the smallest exponent of normal numbers.
        if zero || c.exponent == ZERO {
            largest = largest.max(-126);
        }
        let cut = 25 - self.fraction.cast_signed();
        let mut sum = 0i64;
        for k in 0..significands[0].len() {
            let product = significands[0][k] * significands[1][k];
            let shift = (largest - exponents[0][k] - exponents[1][k] + cut).clamp(0, 31);
            let aligned = (product.abs() << 5) >> shift;
            sum += i64::from(if product < 0 { -aligned } else { aligned });
        }
        let shift = (largest - c.exponent + cut).clamp(0, 31);
        let aligned = (c.significand.abs() << 2) >> shift;
        sum += i64::from(if c.significand < 0 { -aligned } else { aligned });
        self.accumulator
            .round(sum, largest - self.fraction.cast_signed())
    }

    /// The addition of a separate accumulator, rounded to nearest.
    fn add(self, c: u32, sum: u32) -> u32 {
        match self.accumulator {
            Accumulator::F16 => {
                // The sum of two halves is exact in a double.
                let sum = Accumulator::F16.value(c) + Accumulator::F16.value(sum);
                if sum.is_finite() {
                    half_from_exact(sum)
                } else {
                    Accumulator::F16.special(sum)
                }
            }
            Accumulator::F32 | Accumulator::F32Short => {
                let sum = f32::from_bits(c) + f32::from_bits(sum);
                if sum.is_nan() {
                    0x7fff_ffff
                } else {
                    sum.to_bits()
                }
            }
        }
    }
}

/// Rounds a finite double with few bits to `f16`.
fn half_from_exact(value: f64) -> u32 {
    // All sums of two halves are multiples of 2^-24 below 2^17.
    let scaled = value * super::number::power_of_two(24);
    if scaled == 0.0 {
        return u32::from(value.is_sign_negative()) << 15;
    }
    Accumulator::F16.round(scaled as i64, -24)
}

/// `m8n8k4` of `f16`, as compilers expand it for GPUs without that instruction: four products of rows of A by columns
/// of B, in single precision.
#[inline(always)]
pub(super) fn multiply_without_tensor_cores(
    accumulator: Accumulator,
    a: &Vectors,
    b: &Vectors,
    c: &mut [u32],
    n: usize,
) {
    for (index, c) in c.iter_mut().enumerate() {
        let (i, j) = (index / n, index % n);
        let product = |k| (a.value(i, k) as f32, b.value(j, k) as f32);
        let fused = |sum: f32, k| {
            let (x, y) = product(k);
            x.mul_add(y, sum)
        };
        *c = match accumulator {
            Accumulator::F16 => {
                let c = accumulator.value(*c) as f32;
                let sum = c + fused(fused(0.0, 0), 1) + fused(fused(0.0, 2), 3);
                half_from_single(sum)
            }
            Accumulator::F32 | Accumulator::F32Short => {
                let sum = (0..4).fold(0.0, fused) + f32::from_bits(*c);
                if sum.is_nan() {
                    0x7fff_ffff
                } else {
                    sum.to_bits()
                }
            }
        };
    }
}

/// Rounds a single to the nearest `f16`.
pub(super) fn half_from_single(value: f32) -> u32 {
    if !value.is_finite() {
        return Accumulator::F16.special(f64::from(value));
    }
    if value == 0.0 {
        return value.to_bits() >> 16;
    }
    let single = Accumulator::F32.decode(value.to_bits());
    Accumulator::F16.round(i64::from(single.significand), single.exponent - 23)
}

/// Integers: exact, then clamped for `.satfinite`, else modulo 2^32.
#[inline(always)]
pub(super) fn multiply_integers(
    a: &[i32],
    b: &[i32],
    k: usize,
    c: &mut [u32],
    n: usize,
    saturate: bool,
) {
    for (i, c) in c.chunks_exact_mut(n).enumerate() {
        let a = &a[i * k..(i + 1) * k];
        for (c, b) in c.iter_mut().zip(b.chunks_exact(k)) {
            // 256 products of 16 bits fit.
            let sum: i32 = a.iter().zip(b).map(|(&a, &b)| a * b).sum();
            *c = if saturate {
                c.cast_signed().saturating_add(sum).cast_unsigned()
            } else {
                c.wrapping_add(sum.cast_unsigned())
            };
        }
    }
}

/// Single bits, 32 to a word: adds the count of ones of `a and b`, or of `a xor b`.
#[inline(always)]
pub(super) fn multiply_bits(
    a: &[u32],
    b: &[u32],
    words: usize,
    c: &mut [u32],
    n: usize,
    and: bool,
) {
    for (i, c) in c.chunks_exact_mut(n).enumerate() {
        let a = &a[i * words..(i + 1) * words];
        for (c, b) in c.iter_mut().zip(b.chunks_exact(words)) {
            let ones: u32 = a
                .iter()
                .zip(b)
                .map(|(&a, &b)| if and { a & b } else { a ^ b }.count_ones())
                .sum();
            *c = c.wrapping_add(ones);
        }
    }
}

/// Doubles: one fused operation after the other, from `k = 0` on.
#[inline(always)]
pub(super) fn multiply_doubles(a: &[u64], b: &[u64], k: usize, c: &mut [u64], n: usize) {
    for (i, c) in c.chunks_exact_mut(n).enumerate() {
        let a = &a[i * k..(i + 1) * k];
        for (c, b) in c.iter_mut().zip(b.chunks_exact(k)) {
            let mut sum = f64::from_bits(*c);
            for (&a, &b) in a.iter().zip(b) {
                sum = f64::from_bits(a).mul_add(f64::from_bits(b), sum);
            }
            *c = if sum.is_nan() {
                0xfff8_0000_0000_0000
            } else {
                sum.to_bits()
            };
        }
    }
}
