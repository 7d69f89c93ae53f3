//! Measures the approximate functions against the host's `f64` library and prints the table of `docs/emulator.md`.
//!
//! `cargo run --release -p r3-emu --example accuracy [-- stride]`: every `stride`-th bit pattern; 1 for all 2^32.

use r3_emu::accuracy::{Precision, bound};
use r3_emu::arith::approx;
use r3_ptx::isa::{Mnemonic, ScalarType};

/// Errors of one function.
#[derive(Clone, Copy, Default)]
struct Errors {
    /// Largest in units in the last place, and where.
    ulp: (f64, f32),
    /// Largest absolute one.
    absolute: f64,
    /// Largest relative one.
    relative: f64,
    /// Arguments for which the stated bound did not hold, half a unit apart.
    beyond: u64,
}

fn measure(
    name: &str,
    ours: fn(f32) -> f32,
    real: fn(f64) -> f64,
    domain: (f64, f64),
    stride: usize,
) -> Errors {
    let mnemonic = Mnemonic::parse(name).expect("a name of PTX");
    let accuracy = bound(&mnemonic);
    let precision = Precision::of(ScalarType::F32).expect("a float");
    let mut errors = Errors::default();
    for bits in (0..=u32::MAX).step_by(stride) {
        let x = f32::from_bits(bits);
        let wide = f64::from(x);
        if !(domain.0..=domain.1).contains(&wide.abs()) {
            continue;
        }
        let (ours, real) = (f64::from(ours(x)), real(wide));
        if !real.is_finite() || !ours.is_finite() {
            continue;
        }
        let error = (ours - real).abs();
        let ulp = error / precision.unit(real);
        if ulp > errors.ulp.0 {
            errors.ulp = (ulp, x);
        }
        errors.absolute = errors.absolute.max(error);
        // Below the normal numbers the unit is what counts.
        if real.abs() >= f64::from(f32::MIN_POSITIVE) {
            errors.relative = errors.relative.max(error / real.abs());
        }
        errors.beyond += u64::from(!accuracy.allows(wide, ours, real, precision));
    }
    errors
}

fn main() {
    let stride = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(251);
    let all = (0.0, f64::INFINITY);
    let tau = std::f64::consts::TAU;
    type Row = (&'static str, fn(f32) -> f32, fn(f64) -> f64, (f64, f64));
    let rows: [Row; 10] = [
        (
            "rcp.approx.f32",
            |x| approx::rcp(x, false),
            |x| 1.0 / x,
            all,
        ),
        (
            "sqrt.approx.f32",
            |x| approx::sqrt(x, false),
            f64::sqrt,
            all,
        ),
        (
            "rsqrt.approx.f32",
            |x| approx::rsqrt(x, false),
            |x| 1.0 / x.sqrt(),
            all,
        ),
        ("lg2.approx.f32", |x| approx::lg2(x, false), f64::log2, all),
        ("ex2.approx.f32", |x| approx::ex2(x, false), f64::exp2, all),
        ("tanh.approx.f32", approx::tanh_single, f64::tanh, all),
        (
            "sin.approx.f32",
            |x| approx::sin(x, false),
            f64::sin,
            (0.0, tau),
        ),
        (
            "cos.approx.f32",
            |x| approx::cos(x, false),
            f64::cos,
            (0.0, tau),
        ),
        (
            "sin.approx.f32",
            |x| approx::sin(x, false),
            f64::sin,
            (0.0, 50.0 * tau),
        ),
        (
            "cos.approx.f32",
            |x| approx::cos(x, false),
            f64::cos,
            (0.0, 50.0 * tau),
        ),
    ];
    println!(
        "| instruction | arguments | worst ulp (at) | absolute | relative | beyond the bound |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, ours, real, domain) in rows {
        let e = measure(name, ours, real, domain, stride);
        println!(
            "| `{name}` | {} | {:.4} ({:e}) | 2^{:.2} | 2^{:.2} | {} |",
            if domain == all {
                "all".to_owned()
            } else {
                format!("up to {:.2}", domain.1)
            },
            e.ulp.0,
            e.ulp.1,
            e.absolute.log2(),
            e.relative.log2(),
            e.beyond
        );
    }
}
