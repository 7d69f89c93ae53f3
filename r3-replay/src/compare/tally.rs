//! What was found different in one buffer.

use serde::{Deserialize, Serialize};

use super::{ElementType, Tolerance};

/// How many mismatches are kept for showing.
const SHOWN: usize = 8;

/// One element that is out of tolerance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Offset in the buffer, in bytes.
    pub offset: u64,
    /// Index of the element.
    pub element: u64,
    /// What was recorded.
    pub expected: String,
    /// What the replay gave.
    pub actual: String,
}

/// Counts over the elements of one buffer whose bits differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Bytes that differ.
    pub bytes: u64,
    /// Elements that are out of tolerance.
    pub out: u64,
    /// Elements that differ within the tolerance.
    pub within: u64,
    /// Largest absolute error over all of them; absent when there is no finite one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_absolute: Option<f64>,
    /// Largest relative error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_relative: Option<f64>,
    /// Largest distance in representable values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_ulp: Option<u64>,
    /// Elements whose error is not finite (NaN, infinity, a relative error to zero left aside).
    pub not_finite: u64,
    /// Offset of the element with the largest absolute error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_at: Option<u64>,
    /// The first elements that are out.
    pub first: Vec<Mismatch>,
}

impl Tally {
    /// Adds the elements of one stretch of a buffer, which begins at byte `offset`, a multiple of
    /// the element size. Both sides have the same length.
    pub fn add(
        &mut self,
        offset: u64,
        expected: &[u8],
        actual: &[u8],
        element: ElementType,
        tolerance: &Tolerance,
    ) {
        let size = element.size();
        for (index, (e, a)) in expected.chunks(size).zip(actual.chunks(size)).enumerate() {
            if e == a {
                continue;
            }
            self.bytes += e.iter().zip(a).filter(|(e, a)| e != a).count() as u64;
            let at = offset + (index * size) as u64;
            let difference = element.difference(e, a, tolerance);
            if element != ElementType::Bits {
                self.measure(at, &difference);
            }
            if difference.within {
                self.within += 1;
                continue;
            }
            self.out += 1;
            if self.first.len() < SHOWN {
                self.first.push(Mismatch {
                    offset: at,
                    element: at / size as u64,
                    expected: element.show(e),
                    actual: element.show(a),
                });
            }
        }
    }

    fn measure(&mut self, at: u64, difference: &super::Difference) {
        if difference.absolute.is_finite() {
            if self
                .largest_absolute
                .is_none_or(|largest| difference.absolute > largest)
            {
                self.largest_absolute = Some(difference.absolute);
                self.largest_at = Some(at);
            }
            if difference.relative.is_finite() {
                self.largest_relative = Some(
                    self.largest_relative
                        .unwrap_or(0.0)
                        .max(difference.relative),
                );
            }
        } else {
            self.not_finite += 1;
        }
        if let Some(ulp) = difference.ulp {
            self.largest_ulp = Some(self.largest_ulp.unwrap_or(0).max(ulp));
        }
    }

    /// Adds what was found in a later stretch.
    pub fn merge(&mut self, later: Self) {
        self.bytes += later.bytes;
        self.out += later.out;
        self.within += later.within;
        self.not_finite += later.not_finite;
        if later.largest_absolute > self.largest_absolute {
            self.largest_absolute = later.largest_absolute;
            self.largest_at = later.largest_at;
        }
        if later.largest_relative > self.largest_relative {
            self.largest_relative = later.largest_relative;
        }
        self.largest_ulp = self.largest_ulp.max(later.largest_ulp);
        let room = SHOWN.saturating_sub(self.first.len());
        self.first.extend(later.first.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn counts_places_and_errors() {
        let expected = bytes(&[1.0, 2.0, 3.0, 4.0]);
        let actual = bytes(&[1.0, 2.5, 3.0001, 4.0]);
        let mut tally = Tally::default();
        let tolerance = Tolerance {
            absolute: 0.01,
            ..Tolerance::EXACT
        };
        tally.add(0x1000, &expected, &actual, ElementType::F32, &tolerance);
        assert_eq!((tally.out, tally.within), (1, 1));
        assert_eq!(tally.largest_absolute, Some(0.5));
        assert_eq!(tally.largest_relative, Some(0.25));
        assert_eq!(tally.largest_at, Some(0x1004));
        assert_eq!(
            tally.first,
            [Mismatch {
                offset: 0x1004,
                element: 0x401,
                expected: "2.0".to_owned(),
                actual: "2.5".to_owned()
            }]
        );
    }

    #[test]
    fn without_a_type_words_are_shown() {
        let mut tally = Tally::default();
        tally.add(
            0,
            &[0, 0, 0, 0, 7, 7],
            &[0, 1, 0, 0, 7, 8],
            ElementType::Bits,
            &Tolerance::EXACT,
        );
        assert_eq!((tally.out, tally.bytes), (2, 2));
        assert_eq!(tally.first[0].actual, "0x00000100");
        assert_eq!(tally.first[1].actual, "0x0807");
        assert_eq!(tally.largest_absolute, None);
    }

    #[test]
    fn few_mismatches_are_shown_and_all_are_counted() {
        let mut tally = Tally::default();
        for chunk in 0..4 {
            let mut later = Tally::default();
            later.add(
                chunk * 12,
                &[0; 12],
                &[1; 12],
                ElementType::U32,
                &Tolerance::EXACT,
            );
            tally.merge(later);
        }
        assert_eq!(tally.out, 12);
        assert_eq!(tally.first.len(), SHOWN);
        assert_eq!(tally.first[7].element, 7);
    }
}
