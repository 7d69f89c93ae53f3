//! Where the archive goes: a template, filled with facts about the process.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The template when none is given, and the file name inside a directory.
pub(crate) const DEFAULT_TEMPLATE: &str = "%e.%p.r3";

/// What is known about the captured process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Host name.
    pub host: OsString,
    /// Process id.
    pub pid: u32,
    /// Rank, see [`rank_from_env`](crate::rank_from_env).
    pub rank: Option<u32>,
    /// Executable: a path or a name.
    pub exe: OsString,
}

impl ProcessFacts {
    /// The program's file name, which `%e` and `R3_PROCESS` use.
    pub fn program(&self) -> &OsStr {
        Path::new(&self.exe)
            .file_name()
            .unwrap_or(OsStr::new("program"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Host,
    Pid,
    Rank,
    Program,
}

/// A path with `%h`, `%p`, `%r`, `%e` and `%%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutTemplate {
    parts: Vec<Part>,
}

impl OutTemplate {
    pub(crate) fn parse(text: &OsStr) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut bytes = text.as_bytes().iter();
        while let Some(&byte) = bytes.next() {
            if byte == 0 {
                return Err("a path without NUL bytes".into());
            }
            if byte != b'%' {
                literal.push(byte);
                continue;
            }
            let part = match bytes.next() {
                Some(b'%') => {
                    literal.push(b'%');
                    continue;
                }
                Some(b'h') => Part::Host,
                Some(b'p') => Part::Pid,
                Some(b'r') => Part::Rank,
                Some(b'e') => Part::Program,
                _ => {
                    return Err(
                        "a path in which % is followed by h (host), p (process id), \
                                r (rank), e (program name) or %"
                            .into(),
                    );
                }
            };
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(part);
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }

    pub(crate) fn default_template() -> Self {
        let text = |text: &str| Part::Text(text.as_bytes().to_vec());
        Self {
            parts: vec![Part::Program, text("."), Part::Pid, text(".r3")],
        }
    }

    fn fill(&self, facts: &ProcessFacts) -> Vec<u8> {
        let mut path = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => path.extend_from_slice(text),
                Part::Host => path.extend(one_component(facts.host.as_bytes())),
                Part::Pid => path.extend_from_slice(facts.pid.to_string().as_bytes()),
                Part::Rank => {
                    path.extend_from_slice(facts.rank.unwrap_or(0).to_string().as_bytes());
                }
                Part::Program => path.extend(one_component(facts.program().as_bytes())),
            }
        }
        path
    }

    /// The path for one process. A path that ends in `/`, or that is a directory
    /// now, gets the default file name.
    pub fn path(&self, facts: &ProcessFacts) -> PathBuf {
        let path = self.fill(facts);
        let ends_in_slash = path.last() == Some(&b'/');
        let path = PathBuf::from(OsString::from_vec(path));
        if ends_in_slash || path.is_dir() {
            path.join(OsString::from_vec(Self::default_template().fill(facts)))
        } else {
            path
        }
    }
}

/// A fact must not add directories to the path.
fn one_component(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|&byte| {
        if byte == b'/' || byte == 0 {
            b'_'
        } else {
            byte
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> ProcessFacts {
        ProcessFacts {
            host: "node7".into(),
            pid: 4711,
            rank: Some(3),
            exe: "/opt/quda/bin/dslash_test".into(),
        }
    }

    fn filled(template: &str, facts: &ProcessFacts) -> String {
        let template = OutTemplate::parse(OsStr::new(template)).expect("valid template");
        template.path(facts).to_string_lossy().into_owned()
    }

    #[test]
    fn every_letter_is_filled() {
        assert_eq!(
            filled("/scratch/%h/%e-%r.%p%%.r3", &facts()),
            "/scratch/node7/dslash_test-3.4711%.r3"
        );
    }

    #[test]
    fn the_default_lies_in_the_working_directory() {
        assert_eq!(
            OutTemplate::parse(OsStr::new(DEFAULT_TEMPLATE)),
            Ok(OutTemplate::default_template())
        );
        assert_eq!(
            OutTemplate::default_template().path(&facts()),
            Path::new("dslash_test.4711.r3")
        );
    }

    #[test]
    fn without_a_launcher_the_rank_is_0() {
        assert_eq!(
            filled(
                "a.%r.r3",
                &ProcessFacts {
                    rank: None,
                    ..facts()
                }
            ),
            "a.0.r3"
        );
    }

    #[test]
    fn a_directory_gets_the_default_name() {
        let directory = std::env::temp_dir();
        let expected = directory.join("dslash_test.4711.r3");
        assert_eq!(
            filled(&directory.to_string_lossy(), &facts()),
            expected.to_string_lossy()
        );
        assert_eq!(
            filled("not-there/%h/", &facts()),
            "not-there/node7/dslash_test.4711.r3"
        );
    }

    #[test]
    fn facts_cannot_leave_the_directory() {
        let facts = ProcessFacts {
            host: "../../etc/x".into(),
            exe: "/".into(),
            ..facts()
        };
        assert_eq!(filled("out/%h.%e", &facts), "out/.._.._etc_x.program");
    }

    #[test]
    fn a_path_need_not_be_text() {
        let template = OutTemplate::parse(OsStr::from_bytes(b"\xff/%p")).expect("valid template");
        assert_eq!(template.path(&facts()).as_os_str().as_bytes(), b"\xff/4711");
    }

    #[test]
    fn an_unknown_letter_is_an_error() {
        for text in ["%x", "a%", "%P", "100%.r3"] {
            assert!(OutTemplate::parse(OsStr::new(text)).is_err(), "{text}");
        }
    }
}
