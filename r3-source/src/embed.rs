//! A text as a vector: hashed n-grams of its tokens.
//!
//! Every run of one to three tokens is hashed to one of [`DIMENSIONS`] places; counts enter as logarithms, the vector has
//! length 1. Names that only the text itself gives a meaning (variables, parameters) are all alike, so that a text in which
//! they are renamed is where it was; called functions, members, types, built-in variables and numbers are themselves. The
//! same text has the same vector in every version of this crate.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::tokens::tokens;

/// Length of a vector.
pub const DIMENSIONS: usize = 512;
/// Longest run of tokens.
const LONGEST: usize = 3;
/// What a run of so many tokens counts: what stands beside what says more than which tokens there are.
const WEIGHTS: [f32; LONGEST] = [0.5, 1.0, 1.0];
/// In place of a name.
const NAME: &str = "\u{1}";

/// Names that mean something outside of a text. Functions that are called and members need not be here.
const KNOWN: &[&str] = &[
    "alignas",
    "auto",
    "blockDim",
    "blockIdx",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "constexpr",
    "continue",
    "default",
    "do",
    "double",
    "double2",
    "double4",
    "else",
    "extern",
    "false",
    "float",
    "float2",
    "float3",
    "float4",
    "for",
    "gridDim",
    "half",
    "half2",
    "if",
    "inline",
    "int",
    "int2",
    "int4",
    "long",
    "pragma",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "threadIdx",
    "true",
    "typename",
    "unroll",
    "unsigned",
    "using",
    "void",
    "volatile",
    "warpSize",
    "while",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "size_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uint2",
    "uint4",
    "nullptr",
    "operator",
    "define",
    "include",
    "ifdef",
    "ifndef",
    "endif",
];

/// The vector of a text. All zeros for a text without tokens.
#[must_use]
pub fn embed(text: &str) -> Vec<f32> {
    let tokens = tokens(text);
    let words: Vec<&str> = (0..tokens.len())
        .filter_map(|at| Some(word(&tokens, at, tokens.get(at)?)))
        .collect();
    let mut vector = vec![0.0f32; DIMENSIONS];
    let mut bytes = Vec::new();
    for (length, weight) in (1..).zip(WEIGHTS) {
        let mut counts = std::collections::BTreeMap::<u64, u32>::new();
        for run in words.windows(length) {
            if run.iter().all(|word| *word == NAME) {
                continue;
            }
            bytes.clear();
            for word in run {
                bytes.extend_from_slice(word.as_bytes());
                bytes.push(0);
            }
            *counts
                .entry(xxh3_64_with_seed(&bytes, length as u64))
                .or_default() += 1;
        }
        for (hash, count) in counts {
            let place = usize::try_from(hash % DIMENSIONS as u64).unwrap_or(0);
            // Two runs in one place cancel as often as they add.
            let sign = if hash >> 63 == 0 { 1.0 } else { -1.0 };
            if let Some(value) = vector.get_mut(place) {
                *value += sign * weight * (1.0 + count as f32).ln();
            }
        }
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length > 0.0 {
        for value in &mut vector {
            *value /= length;
        }
    }
    vector
}

/// What a token counts as.
fn word<'t>(tokens: &[&'t str], at: usize, token: &'t str) -> &'t str {
    let is_name = token.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let around = |at: Option<usize>| at.and_then(|at| tokens.get(at)).copied().unwrap_or("");
    let before = around(at.checked_sub(1));
    let after = around(at.checked_add(1));
    let own = is_name
        && !KNOWN.contains(&token)
        && !token.starts_with("__")
        && after != "("
        && !matches!(before, "." | "->" | "::");
    if own { NAME } else { token }
}

/// How far two vectors point apart: 0 in the same direction, 1 at a right angle or more. Of vectors that cannot be compared, as
/// their lengths differ, one is zero or holds something that is no number, it is 1.
#[must_use]
pub fn distance(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 1.0;
    }
    let product = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    };
    let lengths = (product(a, a) * product(b, b)).sqrt();
    let cosine = product(a, b) / lengths;
    if cosine.is_finite() {
        (1.0 - cosine).clamp(0.0, 1.0)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAXPY: &str = "__global__ void saxpy(int n, float a, const float *x, float *y) {\n  int i = blockIdx.x * blockDim.x \
        + threadIdx.x;\n  if (i < n) y[i] = a * x[i] + y[i];\n}\n";

    fn apart(a: &str, b: &str) -> f64 {
        distance(&embed(a), &embed(b))
    }

    #[test]
    fn blanks_comments_and_names_of_variables_do_not_move_a_text() {
        assert!(apart(SAXPY, SAXPY) < 1e-6);
        let spaced = SAXPY.replace("a * x[i]", "a*x[i] /* product */");
        assert!(apart(SAXPY, &spaced) < 1e-6);
        let renamed = SAXPY
            .replace("int i ", "int index ")
            .replace("[i]", "[index]");
        let renamed = renamed.replace("(i <", "(index <");
        assert!(apart(SAXPY, &renamed) < 1e-6);
    }

    #[test]
    fn what_changes_more_is_farther_away() {
        let small = SAXPY.replace("if (i < n)", "if (i >= n) return;");
        let large = "__global__ void saxpy(int n, float a, const float *x, float *y) {\n  __shared__ float4 tile[64];\n  for (int i = \
            threadIdx.x; i < n / 4; i += 64) { tile[i] = reinterpret_cast<const float4 *>(x)[i]; __syncthreads(); }\n}\n";
        let (near, far) = (apart(SAXPY, &small), apart(SAXPY, large));
        assert!(0.0 < near && near < far && far <= 1.0, "{near} {far}");
    }

    #[test]
    fn a_call_that_is_replaced_moves_a_text() {
        assert!(apart("y = a / sqrtf(b);", "y = a * rsqrtf(b);") > 0.05);
    }

    #[test]
    fn what_cannot_be_compared_is_far() {
        for (a, b) in [
            (&[1.0f32][..], &[1.0, 0.0][..]),
            (&[0.0], &[1.0]),
            (&[f32::NAN], &[1.0]),
        ] {
            assert!((distance(a, b) - 1.0).abs() < f64::EPSILON);
        }
        assert!((distance(&embed(""), &embed("x")) - 1.0).abs() < f64::EPSILON);
    }

    proptest! {
        #[test]
        fn any_text_has_a_vector_of_length_one_or_zero(text in "\\PC{0,200}") {
            let vector = embed(&text);
            let length: f32 = vector.iter().map(|value| value * value).sum();
            prop_assert!(length == 0.0 || (length - 1.0).abs() < 1e-3);
            let far = distance(&vector, &embed(SAXPY));
            prop_assert!((0.0..=1.0).contains(&far));
            prop_assert!((far - distance(&embed(SAXPY), &vector)).abs() < 1e-12);
        }
    }
}
