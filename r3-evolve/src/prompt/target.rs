//! The part of a file that a model may change.

use std::ops::Range;

/// A file, the kernel that is searched for, and which bytes of it may be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Text of the whole file.
    pub file: String,
    /// Name of the kernel in the file, without what qualifies it.
    pub kernel: String,
    /// What may be changed, in bytes of `file`: in order, apart from each other, at least one.
    pub regions: Vec<Range<usize>>,
}

/// Why there is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// There is nothing that may be changed.
    #[error("the file has no part that may be changed for kernel `{kernel}`")]
    NoRegion {
        /// The kernel.
        kernel: String,
    },
    /// The ranges are not places of the text.
    #[error(
        "bytes {}..{} are no part of the file, or are not behind those before them",
        range.start,
        range.end
    )]
    BadRange {
        /// The range.
        range: Range<usize>,
    },
}

impl Target {
    /// Checks that the regions are parts of the file, one after the other.
    pub fn new(
        file: impl Into<String>,
        kernel: impl Into<String>,
        regions: Vec<Range<usize>>,
    ) -> Result<Self, TargetError> {
        let (file, kernel) = (file.into(), kernel.into());
        if regions.is_empty() {
            return Err(TargetError::NoRegion { kernel });
        }
        let mut from = 0;
        for range in &regions {
            if range.start < from || file.get(range.clone()).is_none() {
                return Err(TargetError::BadRange {
                    range: range.clone(),
                });
            }
            from = range.end;
        }
        Ok(Self {
            file,
            kernel,
            regions,
        })
    }

    /// Texts of the regions, in order.
    pub fn texts(&self) -> Vec<&str> {
        self.regions
            .iter()
            .map(|range| self.file.get(range.clone()).unwrap_or_default())
            .collect()
    }

    /// What is around the regions, in order: one piece more than there are regions.
    pub fn around(&self) -> Vec<&str> {
        let starts = std::iter::once(0).chain(self.regions.iter().map(|range| range.end));
        let ends = self
            .regions
            .iter()
            .map(|range| range.start)
            .chain(std::iter::once(self.file.len()));
        starts
            .zip(ends)
            .map(|(start, end)| self.file.get(start..end).unwrap_or_default())
            .collect()
    }

    /// The file with other texts in its regions; all else stays, byte for byte. Regions without a text stay as they are.
    pub fn with(&self, texts: &[String]) -> String {
        let old = self.texts();
        let mut file = String::with_capacity(self.file.len());
        for (index, around) in self.around().iter().enumerate() {
            file.push_str(around);
            if let Some(old) = old.get(index) {
                file.push_str(texts.get(index).map_or(*old, String::as_str));
            }
        }
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_around_the_regions_stays_byte_for_byte() {
        let file = "aa[b]cc[d]e";
        let target = Target::new(file, "k", vec![3..4, 8..9]).unwrap();
        assert_eq!(target.texts(), ["b", "d"]);
        assert_eq!(target.around(), ["aa[", "]cc[", "]e"]);
        assert_eq!(
            target.with(&["B!".to_owned(), String::new()]),
            "aa[B!]cc[]e"
        );
        assert_eq!(target.with(&[]), file);
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, clippy::single_range_in_vec_init)]
    fn ranges_that_are_no_parts_of_the_text_are_refused() {
        for ranges in [vec![3..99], vec![5..8, 2..3], vec![1..2], vec![4..3]] {
            let error = Target::new("ää, ää", "k", ranges.clone());
            assert!(
                matches!(error, Err(TargetError::BadRange { .. })),
                "{ranges:?}"
            );
        }
        assert!(matches!(
            Target::new("", "k", vec![]),
            Err(TargetError::NoRegion { .. })
        ));
    }
}
