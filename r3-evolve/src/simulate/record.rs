//! Spaces that were recorded point by point, as JSON lines.
//!
//! The first line says what it is; each following one is a point and what came of it:
//!
//! ```text
//! {"format": "r3-space", "version": 1, "name": "saxpy", "about": "…", "space": {…}}
//! {"point": {"block": "128x1x1"}, "told": {"ratio": {"median": 0.97, "low": 0.96, "high": 0.98}}}
//! {"point": {"block": "1024x1x1"}, "told": {"invalid": "refused"}}
//! ```
//!
//! Of a point that is there twice, the last line holds.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::SimulateError;
use super::subject::{Source, Subject};
use crate::space::{Point, Space};
use crate::strategy::Told;

const FORMAT: &str = "r3-space";
const VERSION: u32 = 1;

/// What the first line says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// `r3-space`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Name of the space.
    pub name: String,
    /// Where it was recorded, for people.
    pub about: String,
    /// The space.
    pub space: Space,
}

/// What came of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The point.
    pub point: Point,
    /// What came of it.
    pub told: Told,
}

impl Header {
    /// Of a space.
    #[must_use]
    pub fn new(name: &str, about: &str, space: Space) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: name.to_owned(),
            about: about.to_owned(),
            space,
        }
    }
}

/// Writes a recorded space.
pub fn write<'e>(
    out: &mut dyn Write,
    header: &Header,
    entries: impl IntoIterator<Item = (&'e Point, Told)>,
) -> io::Result<()> {
    serde_json::to_writer(&mut *out, header)?;
    out.write_all(b"\n")?;
    for (point, told) in entries {
        let entry = Entry {
            point: point.clone(),
            told,
        };
        serde_json::to_writer(&mut *out, &entry)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads one. `path` is for messages.
pub fn read(path: &Path, text: &str) -> Result<Subject, SimulateError> {
    let error = |line: usize, message: String| SimulateError::Line {
        path: PathBuf::from(path),
        line: line + 1,
        message,
    };
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let Some((at, first)) = lines.next() else {
        return Err(SimulateError::Nothing {
            path: path.to_owned(),
            message: "the file is empty; its first line should say what it is".to_owned(),
        });
    };
    let header: Header =
        serde_json::from_str(first).map_err(|problem| error(at, problem.to_string()))?;
    if header.format != FORMAT || header.version != VERSION {
        let message = format!(
            "this is {} version {}; {FORMAT} version {VERSION} is read",
            header.format, header.version
        );
        return Err(error(at, message));
    }
    let mut points = BTreeMap::new();
    for (at, line) in lines {
        let entry: Entry =
            serde_json::from_str(line).map_err(|problem| error(at, problem.to_string()))?;
        header
            .space
            .check(&entry.point)
            .map_err(|problem| error(at, problem.to_string()))?;
        points.insert(entry.point, entry.told);
    }
    if !points.values().any(|told| told.ratio().is_some()) {
        return Err(SimulateError::Nothing {
            path: path.to_owned(),
            message: "no point of it is right, so that nothing can be found".to_owned(),
        });
    }
    Ok(Subject {
        name: header.name,
        synthetic: false,
        about: header.about,
        space: header.space,
        source: Source::Points(points),
        noise: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use r3_replay::evaluate::Verdict;

    use super::*;
    use crate::space::{Domain, Parameter};

    fn space() -> Space {
        Space {
            kernel: None,
            parameters: vec![Parameter {
                name: "x".to_owned(),
                domain: Domain::Choice(["a", "b"].map(str::to_owned).to_vec()),
                when: Vec::new(),
                varied: true,
                dropped: Vec::new(),
                why: String::new(),
            }],
            never: Vec::new(),
            start: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let space = space();
        let (a, b) = (
            Point::from([("x", "a".into())]),
            Point::from([("x", "b".into())]),
        );
        let mut out = Vec::new();
        let entries = [
            (&a, Told::exactly(0.5)),
            (&b, Told::Invalid(Verdict::NoCode)),
        ];
        write(&mut out, &Header::new("n", "m", space.clone()), entries).unwrap();
        let text = String::from_utf8(out).unwrap();
        let subject = read(Path::new("x"), &text).unwrap();
        assert_eq!(subject.space, space);
        assert_eq!(subject.truth(&a), Some(Told::exactly(0.5)));
        assert_eq!(subject.truth(&b), Some(Told::Invalid(Verdict::NoCode)));
        assert!(subject.is_complete());
        assert_eq!(subject.optimum(), 0.5);
    }

    #[test]
    fn a_line_that_is_no_point_of_the_space_is_named() {
        let mut out = Vec::new();
        write(&mut out, &Header::new("n", "m", space()), []).unwrap();
        let mut text = String::from_utf8(out).unwrap();
        text.push_str("{\"point\": {\"x\": \"c\"}, \"told\": {\"ratio\": {\"median\": 1, \"low\": 1, \"high\": 1}}}\n");
        let error = read(Path::new("file"), &text).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("`c`"), "{error}");
    }
}
