//! What of a file may be changed.
//!
//! That is the text between the comments `// r3: evolve begin` and `// r3: evolve end`, each on a line of its own, in any
//! number of such pairs. Without them it is the definition of one kernel, and of those functions and types of the file that
//! it uses on the device, each with its template header and the comment that touches it; [`marked`] writes the comments around these, so that every
//! text that is made of the file says by itself what of it may be changed. Everything else is kept byte for byte.

mod reach;

use std::ops::Range;

use crate::syntax::{Function, Unit};

/// How the comments read, after `//`.
const BEGIN: &str = "r3: evolve begin";
const END: &str = "r3: evolve end";

/// The parts of a file that may be changed, in order; never none, never overlapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regions {
    spans: Vec<Range<usize>>,
    marked: bool,
}

/// Why a file has no region, or a text cannot take its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// No kernel with this name.
    #[error(
        "there is no kernel `{kernel}` in this file: {}. Where a macro makes it, write the lines `// r3: evolve begin` and \
         `// r3: evolve end` around what may be changed",
        listed(.has)
    )]
    NoKernel {
        /// The name.
        kernel: String,
        /// Kernels that are there.
        has: Vec<String>,
    },
    /// Several kernels with this name and as many parameters.
    #[error(
        "line{} {}: kernels `{kernel}` with as many parameters. Write the lines `// r3: evolve begin` and `// r3: evolve end` \
         around the one that is meant",
        if .lines.len() == 1 { "" } else { "s" },
        .lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Several {
        /// The name.
        kernel: String,
        /// Where they begin, from 1.
        lines: Vec<usize>,
    },
    /// A comment without its counterpart.
    #[error("line {line}: `// r3: evolve {mark}` without its counterpart")]
    Unpaired {
        /// Line, from 1.
        line: usize,
        /// `begin` or `end`.
        mark: &'static str,
    },
    /// A comment behind something else.
    #[error("line {line}: `// r3: evolve …` must be alone on its line")]
    NotAlone {
        /// Line, from 1.
        line: usize,
    },
    /// New texts for another number of regions.
    #[error("{given} texts were given for {regions} regions")]
    Count {
        /// Texts.
        given: usize,
        /// Regions.
        regions: usize,
    },
    /// The regions are of another file.
    #[error("the regions are of another text")]
    OtherText,
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "it has none".to_owned(),
        names => format!("it has {}", names.join(", ")),
    }
}

impl Regions {
    /// Those of a file: as its comments say, else around `kernel` (plain, qualified or mangled; the one with so many
    /// `parameters` where several have the name).
    pub fn of(unit: &Unit, kernel: &str, parameters: Option<usize>) -> Result<Self, RegionError> {
        if let Some(marked) = Self::of_marks(unit.text())? {
            return Ok(marked);
        }
        let kernel = find(unit, kernel, parameters)?;
        let mut spans: Vec<Range<usize>> = reach::of(unit, &kernel)
            .into_iter()
            .map(|span| with_comment(unit.text(), span))
            .collect();
        spans.sort_by_key(|span| (span.start, span.end));
        let mut merged: Vec<Range<usize>> = Vec::new();
        for span in spans {
            match merged.last_mut() {
                Some(last) if span.start <= last.end || blank(unit, last.end..span.start) => {
                    last.end = last.end.max(span.end);
                }
                _ => merged.push(span),
            }
        }
        Ok(Self {
            spans: merged,
            marked: false,
        })
    }

    /// Those that a text's comments mark: the lines between them. `None` when it has no such comment.
    pub fn of_marks(text: &str) -> Result<Option<Self>, RegionError> {
        let mut spans = Vec::new();
        let mut open: Option<(usize, usize)> = None;
        let mut at = 0;
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let end = at + line.len();
            match (mark(line), open) {
                (Some(Mark::Begin), None) => open = Some((number, end)),
                (Some(Mark::End), Some((_, start))) => {
                    spans.push(start..at);
                    open = None;
                }
                (Some(Mark::Begin), Some((line, _))) => {
                    return Err(RegionError::Unpaired {
                        line,
                        mark: "begin",
                    });
                }
                (Some(Mark::End), None) => {
                    return Err(RegionError::Unpaired {
                        line: number,
                        mark: "end",
                    });
                }
                (None, _) if not_alone(line) => {
                    return Err(RegionError::NotAlone { line: number });
                }
                (None, _) => {}
            }
            at = end;
        }
        match open {
            Some((line, _)) => Err(RegionError::Unpaired {
                line,
                mark: "begin",
            }),
            None if spans.is_empty() => Ok(None),
            None => Ok(Some(Self {
                spans,
                marked: true,
            })),
        }
    }

    /// Where they are, in bytes; without the comments that mark them.
    #[must_use]
    pub fn spans(&self) -> &[Range<usize>] {
        &self.spans
    }

    /// Whether comments mark them.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// Their texts, in order. Empty ones where the regions are of another file.
    pub fn texts<'t>(&self, file: &'t str) -> impl Iterator<Item = &'t str> {
        self.spans
            .iter()
            .map(|span| file.get(span.clone()).unwrap_or_default())
    }

    /// The file with other texts in its regions, one for each. The rest is the same, byte for byte. Lines that would mark
    /// regions are left out of the new texts, and where comments mark regions, a text ends with its line.
    pub fn splice<T: AsRef<str>>(&self, file: &str, texts: &[T]) -> Result<String, RegionError> {
        if texts.len() != self.spans.len() {
            return Err(RegionError::Count {
                given: texts.len(),
                regions: self.spans.len(),
            });
        }
        let kept = |range: Range<usize>| file.get(range).ok_or(RegionError::OtherText);
        let mut out = String::with_capacity(file.len());
        let mut at = 0;
        for (span, text) in self.spans.iter().zip(texts) {
            out.push_str(kept(at..span.start)?);
            let text = without_marks(text.as_ref());
            out.push_str(&text);
            if self.marked && !text.is_empty() && !text.ends_with('\n') {
                out.push('\n');
            }
            at = span.end;
        }
        out.push_str(kept(at..file.len())?);
        Ok(out)
    }

    /// Whether a range of the file is inside one region.
    #[must_use]
    pub fn contains(&self, range: &Range<usize>) -> bool {
        let holds = |span: &Range<usize>| span.start <= range.start && range.end <= span.end;
        self.spans.iter().any(holds)
    }
}

/// The file with comments around its regions, and its regions then. A file that has them stays as it is.
pub fn marked(
    unit: &Unit,
    kernel: &str,
    parameters: Option<usize>,
) -> Result<(String, Regions), RegionError> {
    let regions = Regions::of(unit, kernel, parameters)?;
    if regions.marked {
        return Ok((unit.text().to_owned(), regions));
    }
    let file = unit.text();
    let mut out = String::with_capacity(file.len() + 64 * regions.spans.len());
    let mut spans = Vec::new();
    let mut at = 0;
    for span in &regions.spans {
        let Some((before, text)) = file.get(at..span.start).zip(file.get(span.clone())) else {
            return Err(RegionError::OtherText);
        };
        // Blanks before the region on its line belong to it.
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        let line = match before
            .get(line..)
            .is_some_and(|rest| rest.trim().is_empty())
        {
            true => line,
            false => before.len(),
        };
        let (before, indent) = before.split_at(line);
        out.push_str(before);
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&format!("// {BEGIN}\n"));
        let start = out.len();
        out.push_str(indent);
        out.push_str(text);
        // What is left of the region's last line.
        let rest = file.get(span.end..).unwrap_or_default();
        let newline = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let (tail, ended) = match rest.get(..newline) {
            Some(line) if line.trim().is_empty() => (newline, line.ends_with('\n')),
            _ => (0, false),
        };
        out.push_str(rest.get(..tail).unwrap_or_default());
        if !ended {
            out.push('\n');
        }
        spans.push(start..out.len());
        out.push_str(&format!("// {END}\n"));
        at = span.end + tail;
    }
    out.push_str(file.get(at..).unwrap_or_default());
    Ok((
        out,
        Regions {
            spans,
            marked: true,
        },
    ))
}

/// A text without the lines that mark regions.
#[must_use]
pub fn without_marks(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines.filter(|line| mark(line).is_none()).collect()
}

enum Mark {
    Begin,
    End,
}

fn mark(line: &str) -> Option<Mark> {
    match line.trim().strip_prefix("//")?.trim() {
        BEGIN => Some(Mark::Begin),
        END => Some(Mark::End),
        _ => None,
    }
}

/// Whether a mark stands behind something else.
fn not_alone(line: &str) -> bool {
    let comment = line.rfind("//").and_then(|at| line.get(at..));
    comment.is_some_and(|comment| mark(comment).is_some())
}

/// The kernel that a name means.
fn find(unit: &Unit, name: &str, parameters: Option<usize>) -> Result<Function, RegionError> {
    let plain = crate::syntax::base_name(name);
    let kernels: Vec<Function> = unit
        .functions()
        .into_iter()
        .filter(|function| function.kernel)
        .collect();
    let named: Vec<&Function> = kernels
        .iter()
        .filter(|kernel| kernel.name == plain)
        .collect();
    let fitting: Vec<&Function> = named
        .iter()
        .filter(|kernel| parameters.is_none_or(|count| kernel.parameters.len() == count))
        .copied()
        .collect();
    // That none has as many is said by who knows the captured ones.
    let chosen = if fitting.is_empty() { named } else { fitting };
    match chosen.as_slice() {
        [kernel] => Ok((*kernel).clone()),
        [] => Err(RegionError::NoKernel {
            kernel: plain.to_owned(),
            has: kernels.iter().map(|kernel| kernel.name.clone()).collect(),
        }),
        several => Err(RegionError::Several {
            kernel: plain.to_owned(),
            lines: several
                .iter()
                .map(|kernel| line_of(unit.text(), kernel.definition.start))
                .collect(),
        }),
    }
}

/// The number of a line, from 1.
#[must_use]
pub fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// A definition with the lines of `//` comments right above it.
fn with_comment(text: &str, span: Range<usize>) -> Range<usize> {
    let before = text.get(..span.start).unwrap_or_default();
    let mut start = span.start;
    let own = before.rfind('\n').map_or(0, |end| end + 1);
    if before
        .get(own..)
        .is_some_and(|indent| indent.trim().is_empty())
    {
        let mut end = own;
        while end > 0 {
            let above = before.get(..end - 1).unwrap_or_default();
            let line = above.rfind('\n').map_or(0, |end| end + 1);
            if !above
                .get(line..)
                .is_some_and(|line| line.trim_start().starts_with("//"))
            {
                break;
            }
            start = line;
            end = line;
        }
    }
    start..span.end
}

/// Whether nothing but blanks and comments is in a part of a file.
fn blank(unit: &Unit, span: Range<usize>) -> bool {
    let mut at = span.start;
    let text = unit.text();
    while at < span.end {
        let rest = text.get(at..span.end).unwrap_or_default();
        let skipped = rest.len() - rest.trim_start().len();
        if skipped > 0 {
            at += skipped;
            continue;
        }
        let end = if rest.starts_with("//") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)
        } else {
            return rest.is_empty();
        };
        match end {
            Some(end) => at += end,
            None => return true,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "\
#include <cstdio>
// twice, for host and device
__host__ __device__ float twice(float x) { return 2 * x; }

// not touching

__device__ float unused(float x) { return x; }
struct Item { float v; };
int host(int x) { return x; }
// r3: launch block=64
// of all
template <typename T>
__global__ void k(T *a, int n) {
    Item item = {twice(n)};
    a[0] = item.v + host(1);
}
__global__ void other(int *a) { a[0] = 1; }
int main() { k<float><<<1, 1>>>(0, 1); }
";

    fn unit(text: &str) -> Unit {
        Unit::parse(text).unwrap()
    }

    #[test]
    fn without_marks_it_is_the_kernel_and_what_it_calls_on_the_device() {
        let regions = Regions::of(&unit(FILE), "_Z1kIfEvPT_i", Some(2)).unwrap();
        let texts: Vec<&str> = regions.texts(FILE).collect();
        assert_eq!(
            texts,
            [
                "// twice, for host and device\n__host__ __device__ float twice(float x) { return 2 * x; }",
                "struct Item { float v; };",
                "// r3: launch block=64\n// of all\ntemplate <typename T>\n__global__ void k(T *a, int n) {\n    Item item = {twice(n)};\n    a[0] = item.v + host(1);\n}",
            ]
        );
    }

    #[test]
    fn marks_are_written_around_regions_and_nothing_else_is_changed() {
        let (text, regions) = marked(&unit(FILE), "k", None).unwrap();
        assert_eq!(without_marks(&text), FILE);
        assert_eq!(Regions::of_marks(&text).unwrap(), Some(regions.clone()));
        assert_eq!(
            marked(&unit(&text), "k", None).unwrap(),
            (text.clone(), regions.clone())
        );
        let same: Vec<&str> = regions.texts(&text).collect();
        assert_eq!(regions.splice(&text, &same).unwrap(), text);
        let new = regions
            .splice(
                &text,
                &[
                    "",
                    "struct Item;",
                    "// r3: evolve end\n__global__ void k(float *a, int n) {}",
                ],
            )
            .unwrap();
        // The new text's own mark is gone, and its line is ended.
        let again = Regions::of_marks(&new).unwrap().unwrap();
        assert_eq!(
            again.texts(&new).collect::<Vec<_>>(),
            [
                "",
                "struct Item;\n",
                "__global__ void k(float *a, int n) {}\n"
            ]
        );
        assert!(new.ends_with("int main() { k<float><<<1, 1>>>(0, 1); }\n"));
    }

    #[test]
    fn a_kernel_on_one_line_with_others_can_be_marked() {
        let file = "namespace a { __global__ void k(int *x) { *x = 1; } }";
        let (text, regions) = marked(&unit(file), "k", None).unwrap();
        assert_eq!(
            text,
            "namespace a { \n// r3: evolve begin\n__global__ void k(int *x) { *x = 1; }\n// r3: evolve end\n }"
        );
        assert!(regions.is_marked());
    }

    #[test]
    fn marks_must_be_in_pairs() {
        let error = |text: &str| Regions::of_marks(text).unwrap_err().to_string();
        assert_eq!(
            error("a\n// r3: evolve begin\n"),
            "line 2: `// r3: evolve begin` without its counterpart"
        );
        assert_eq!(
            error("//r3: evolve end"),
            "line 1: `// r3: evolve end` without its counterpart"
        );
        assert_eq!(
            error("int x; // r3: evolve begin"),
            "line 1: `// r3: evolve …` must be alone on its line"
        );
        assert_eq!(Regions::of_marks("int x;").unwrap(), None);
    }

    #[test]
    fn kernels_that_cannot_be_told_apart_are_an_error_with_their_lines() {
        let file = "__global__ void k(int *x) {}\n__global__ void k(float *x) {}\n__global__ void k(int *x, int n) {}\n";
        let of = |count| Regions::of(&unit(file), "k", count);
        assert_eq!(of(Some(2)).unwrap().texts(file).count(), 1);
        assert!(
            of(Some(1))
                .unwrap_err()
                .to_string()
                .starts_with("lines 1, 2:")
        );
        let none = Regions::of(&unit(file), "_Z5otheri", None).unwrap_err();
        assert!(
            none.to_string()
                .contains("`other` in this file: it has k, k, k")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "([ \\n{}();/*a-z<>\"]|// r3: evolve (begin|end)\\n|__global__ void k\\(\\) \\{\\}|__device__ ){0,40}") {
            if let Ok(unit) = Unit::parse(&text) {
                if let Ok(regions) = Regions::of(&unit, "k", None) {
                    let same: Vec<&str> = regions.texts(&text).collect();
                    if !regions.is_marked() {
                        prop_assert_eq!(regions.splice(&text, &same).unwrap(), text.clone());
                    }
                }
                if let Ok((with, regions)) = marked(&unit, "k", None) {
                    prop_assert_eq!(Regions::of_marks(&with).unwrap(), Some(regions));
                }
            }
        }
    }
}
