//! Other inputs than those that were recorded, with the original as the oracle.
//!
//! A candidate that has the recorded results in it, or was made for the recorded numbers, is right on what was recorded
//! and wrong elsewhere. So floating-point inputs are changed, the original is run on them, and the candidate must leave
//! the same. What an index, a pointer or a flag may be is not known: only buffers that the code uses as floating-point
//! numbers and as nothing else are changed, and none in which anything looks like a pointer.

use half::{bf16, f16};

use super::keys::{Keys, split_mix};
use super::resident::{BufferClass, BufferFacts, Edit};
use crate::compare::ElementType;
use crate::device::COMPARE_CHUNK;

/// How numbers are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each by up to an eighth of itself.
    Relative,
    /// All of a stretch by one factor between a half and two.
    Scale,
    /// They change places within a stretch.
    Permute,
}

impl Kind {
    /// One after the other.
    pub fn nth(index: u32) -> Self {
        [Self::Relative, Self::Permute, Self::Scale]
            .get(index as usize % 3)
            .copied()
            .unwrap_or(Self::Relative)
    }
}

/// Bytes that are changed in one perturbation at most, all buffers together.
pub const MOST: u64 = 64 << 20;

/// Buffers whose numbers may be changed, by position among those of a launch. Of one that is written in part and read in
/// part, what is written is poisoned whatever is changed.
pub fn inputs(buffers: &[BufferFacts]) -> Vec<&BufferFacts> {
    buffers
        .iter()
        .filter(|buffer| {
            buffer.element.is_float()
                && buffer.target.is_some()
                && !buffer.has_pointers
                && match buffer.class {
                    BufferClass::Input | BufferClass::ReadModifyWrite => true,
                    BufferClass::Written => buffer.read && buffer.written < buffer.len,
                    BufferClass::Untouched => false,
                }
        })
        .collect()
}

/// Why there are no such buffers, for people.
pub fn why_none(buffers: &[BufferFacts]) -> String {
    let named = |which: &dyn Fn(&BufferFacts) -> bool| {
        let read = buffers.iter().filter(|buffer| {
            buffer.class == BufferClass::ReadModifyWrite || buffer.read || buffer.has_pointers
        });
        let names: Vec<&str> = read
            .filter(|buffer| which(buffer))
            .map(|buffer| buffer.name.shown())
            .collect();
        names.join(", ")
    };
    let pointers = named(&|buffer| buffer.has_pointers);
    let unknown = named(&|b| !b.has_pointers && b.element == ElementType::Bits);
    let mut why = Vec::new();
    if !unknown.is_empty() {
        why.push(format!(
            "it is not known that {unknown} holds floating-point numbers (tolerances may name types)"
        ));
    }
    if !pointers.is_empty() {
        why.push(format!("{pointers} may hold pointers"));
    }
    if why.is_empty() {
        why.push("no buffer of floating-point numbers is read".to_owned());
    }
    why.join("; ")
}

/// Changes some stretches of the inputs, `most` bytes in all. `read` gives what was recorded before the launch: buffer,
/// offset, bytes. What stays as it is makes no edit.
pub fn edits<E>(
    inputs: &[&BufferFacts],
    kind: Kind,
    most: u64,
    keys: &mut Keys,
    mut read: impl FnMut(&BufferFacts, u64, &mut [u8]) -> Result<(), E>,
) -> Result<Vec<Edit>, E> {
    let mut edits = Vec::new();
    let all: u64 = inputs.iter().map(|buffer| buffer.len).sum();
    for buffer in inputs {
        // Each buffer has its part of what may be changed.
        let part = (most as f64 * (buffer.len as f64 / all.max(1) as f64)) as u64;
        for (offset, len) in stretches(buffer.len, part.max(COMPARE_CHUNK), keys) {
            let mut bytes = vec![0; len as usize];
            read(buffer, offset, &mut bytes)?;
            if change(&mut bytes, buffer.element, kind, keys.key()) {
                edits.push(Edit {
                    region: buffer.region,
                    offset,
                    bytes,
                });
            }
        }
    }
    Ok(edits)
}

/// Chunks of a buffer, `most` bytes in all, evenly spread from where chance begins.
fn stretches(len: u64, most: u64, keys: &mut Keys) -> Vec<(u64, u64)> {
    let chunks = len.div_ceil(COMPARE_CHUNK);
    let wanted = most.div_ceil(COMPARE_CHUNK).min(chunks);
    let first = keys.below(chunks);
    (0..wanted)
        .map(|index| {
            let chunk = (first + index * chunks / wanted.max(1)) % chunks.max(1);
            let offset = chunk * COMPARE_CHUNK;
            (offset, (len - offset).min(COMPARE_CHUNK))
        })
        .collect()
}

/// Where results are looked at for numbers that are not finite: the first bytes of each buffer that a launch writes.
pub fn results(buffers: &[BufferFacts]) -> Vec<(&BufferFacts, u64)> {
    buffers
        .iter()
        .filter(|buffer| {
            buffer.element.is_float()
                && buffer.target.is_some()
                && matches!(
                    buffer.class,
                    BufferClass::Written | BufferClass::ReadModifyWrite
                )
        })
        .map(|buffer| (buffer, buffer.len.min(LOOKED_AT)))
        .collect()
}

/// Bytes of a result that are looked at.
const LOOKED_AT: u64 = 256 << 10;

/// Numbers that are not finite.
pub fn not_finite(bytes: &[u8], element: ElementType) -> usize {
    bytes
        .chunks_exact(element.size())
        .filter(|bytes| {
            element
                .magnitude(bytes)
                .is_none_or(|size| !size.is_finite())
        })
        .count()
}

/// Changes numbers; what is not finite and what is zero keeps its value. Whether any byte is another now.
pub fn change(bytes: &mut [u8], element: ElementType, kind: Kind, key: u64) -> bool {
    let size = element.size();
    let before = bytes.to_vec();
    let mut state = key;
    let mut fraction = || (split_mix(&mut state) >> 11) as f64 / (1u64 << 53) as f64;
    match kind {
        Kind::Permute => {
            // From the last one down, each changes places with one at or before it.
            for last in (1..bytes.len() / size).rev() {
                let other = ((fraction() * (last + 1) as f64) as usize).min(last);
                for byte in 0..size {
                    bytes.swap(last * size + byte, other * size + byte);
                }
            }
        }
        Kind::Relative | Kind::Scale => {
            let factor = (2.0 * fraction() - 1.0).exp2();
            for number in bytes.chunks_exact_mut(size) {
                let by = match kind {
                    Kind::Relative => 1.0 + (fraction() - 0.5) / 4.0,
                    _ => factor,
                };
                multiply(number, element, by);
            }
        }
    }
    before != bytes
}

/// A number times a factor, unless it or the product is not finite.
fn multiply(bytes: &mut [u8], element: ElementType, by: f64) {
    macro_rules! as_number {
        ($type:ty, $from:expr, $to:expr) => {
            if let Ok(array) = <[u8; size_of::<$type>()]>::try_from(&*bytes) {
                let number: f64 = $from(<$type>::from_le_bytes(array));
                let product: $type = $to(number * by);
                if number.is_finite() && $from(product).is_finite() {
                    bytes.copy_from_slice(&product.to_le_bytes());
                }
            }
        };
    }
    match element {
        ElementType::F64 => as_number!(f64, |x| x, |x| x),
        ElementType::F32 => as_number!(f32, f64::from, |x| x as f32),
        ElementType::F16 => as_number!(f16, f64::from, f16::from_f64),
        ElementType::BF16 => as_number!(bf16, f64::from, bf16::from_f64),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{BufferName, Tolerance};
    use crate::device::AddressRange;

    fn singles(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    fn back(bytes: &[u8]) -> Vec<f32> {
        let (words, _) = bytes.as_chunks::<4>();
        words.iter().map(|word| f32::from_le_bytes(*word)).collect()
    }

    fn buffer(name: &str, class: BufferClass, element: ElementType) -> BufferFacts {
        BufferFacts {
            region: 0,
            name: BufferName::of(name),
            class,
            read: class == BufferClass::Input,
            target: AddressRange::new(0x1000, 64),
            len: 64,
            written: 0,
            element,
            tolerance: Tolerance::EXACT,
            has_pointers: false,
        }
    }

    #[test]
    fn what_is_read_and_holds_numbers_is_perturbed_also_where_a_part_is_written() {
        use BufferClass::{Input, ReadModifyWrite, Untouched, Written};
        let float = |name, class| buffer(name, class, ElementType::F32);
        let both = |read, written| BufferFacts {
            read,
            written,
            ..float("both", Written)
        };
        let chosen = |buffer: BufferFacts| inputs(&[buffer]).len() == 1;
        assert!(chosen(float("in", Input)) && chosen(float("sums", ReadModifyWrite)));
        assert!(!chosen(float("other", Untouched)));
        assert!(chosen(both(true, 32)));
        assert!(!chosen(both(true, 64)) && !chosen(both(false, 32)));
        assert!(!chosen(buffer("index", Input, ElementType::I32)));
    }

    #[test]
    fn why_nothing_is_perturbed_is_told() {
        let unknown = buffer("arg0", BufferClass::Input, ElementType::Bits);
        let pointers = BufferFacts {
            has_pointers: true,
            ..buffer("list", BufferClass::Input, ElementType::F32)
        };
        let why = why_none(&[unknown, pointers]);
        assert!(
            why.contains("arg0 holds floating-point") && why.contains("list may hold"),
            "{why}"
        );
        let index = buffer("index", BufferClass::Input, ElementType::I32);
        assert!(why_none(&[index]).contains("no buffer"));
    }

    #[test]
    fn numbers_stay_near_what_they_were_and_special_ones_stay() {
        let numbers = [1.0, -2.0, 0.0, f32::INFINITY, f32::NAN, f32::MAX, 1e-3];
        let mut bytes = singles(&numbers);
        assert!(change(&mut bytes, ElementType::F32, Kind::Relative, 7));
        let now = back(&bytes);
        for (index, (was, is)) in numbers.iter().zip(&now).enumerate() {
            match index {
                0 | 1 | 6 => {
                    assert!(was != is && (is / was - 1.0).abs() <= 0.126, "{was} {is}");
                }
                2 => assert_eq!(is.to_bits(), 0),
                3 | 4 => assert_eq!(is.to_bits(), was.to_bits()),
                _ => assert!(is.is_finite()),
            }
        }
    }

    #[test]
    fn a_permutation_has_the_same_numbers_and_a_scale_one_factor() {
        let numbers: Vec<f32> = (1..=100).map(|n| n as f32).collect();
        let mut bytes = singles(&numbers);
        assert!(change(&mut bytes, ElementType::F32, Kind::Permute, 3));
        let mut now = back(&bytes);
        assert_ne!(now, numbers);
        now.sort_by(f32::total_cmp);
        assert_eq!(now, numbers);
        let mut bytes = singles(&numbers);
        assert!(change(&mut bytes, ElementType::F32, Kind::Scale, 3));
        let now = back(&bytes);
        assert!((now[99] / now[0] - 100.0).abs() < 1e-3 && (0.5..=2.0).contains(&now[0]));
        // Nothing to change is no change.
        assert!(!change(&mut [0; 64], ElementType::F64, Kind::Scale, 3));
        assert!(!change(&mut [], ElementType::F16, Kind::Permute, 3));
    }

    #[test]
    fn numbers_that_are_none_are_counted() {
        let bytes = singles(&[1.0, f32::NAN, f32::INFINITY, 0.0, -3e38]);
        assert_eq!(not_finite(&bytes, ElementType::F32), 2);
        assert_eq!(not_finite(&[0xff; 8], ElementType::F64), 1);
    }

    #[test]
    fn halves_are_changed_as_halves() {
        let mut bytes = f16::from_f64(3.0).to_le_bytes().to_vec();
        bytes.extend(f16::from_f64(5.0).to_le_bytes());
        assert!(change(&mut bytes, ElementType::F16, Kind::Scale, 1));
        let now: Vec<f64> = bytes
            .chunks(2)
            .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f64())
            .collect();
        assert!((now[1] / now[0] - 5.0 / 3.0).abs() < 0.01, "{now:?}");
    }

    #[test]
    fn stretches_are_spread_over_a_buffer_and_never_reach_beyond_it() {
        let mut keys = Keys::new(Some(1));
        let len = 10 * COMPARE_CHUNK + 12;
        let all = stretches(len, u64::MAX / 2, &mut keys);
        assert_eq!(all.iter().map(|(_, len)| len).sum::<u64>(), len);
        let some = stretches(len, 3 * COMPARE_CHUNK, &mut keys);
        assert_eq!(some.len(), 3);
        assert!(some.iter().all(|(offset, part)| offset + part <= len));
        let mut distinct = some.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 3);
        assert!(stretches(0, 1, &mut keys).is_empty());
    }
}
