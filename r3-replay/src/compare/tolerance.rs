//! How far a buffer may be off: rules from a TOML file or the command line.

use std::path::{Path, PathBuf};

use r3_codegen::source::files;
use serde::{Deserialize, Serialize};

use super::ElementType;

/// How far an element may be off: |actual - expected| ≤ absolute + relative · |expected|, or no
/// more than `ulp` representable values apart. Written as "within": what is not a number fails.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// Absolute part.
    pub absolute: f64,
    /// Part relative to the recorded value.
    pub relative: f64,
    /// Representable values of the element's format, as an alternative.
    pub ulp: Option<u64>,
}

impl Tolerance {
    /// Bit for bit.
    pub const EXACT: Self = Self {
        absolute: 0.0,
        relative: 0.0,
        ulp: None,
    };

    /// Whether only equal bits are within.
    pub fn is_exact(&self) -> bool {
        *self == Self::EXACT
    }

    /// Reads `abs=1e-6,rel=1e-5,ulp=4`, each part optional.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tolerance = Self::EXACT;
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` in `{text}`: expected abs=X, rel=X or ulp=N"))?;
            let number = || {
                value
                    .parse::<f64>()
                    .ok()
                    .filter(|x| x.is_finite() && *x >= 0.0)
                    .ok_or_else(|| format!("`{value}` is no number from 0 up"))
            };
            match key.trim() {
                "abs" | "absolute" => tolerance.absolute = number()?,
                "rel" | "relative" => tolerance.relative = number()?,
                "ulp" => {
                    tolerance.ulp = Some(
                        value
                            .parse()
                            .map_err(|_| format!("`{value}` is no whole number"))?,
                    );
                }
                other => return Err(format!("`{other}` is neither abs, rel nor ulp")),
            }
        }
        Ok(tolerance)
    }
}

/// The rule for some buffers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferRule {
    /// Name of the kernel, mangled or demangled; every kernel when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Name of the buffer, e.g. `arg0`; every buffer when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<String>,
    /// Type of its elements.
    #[serde(rename = "type", default)]
    pub element: ElementType,
    /// Absolute tolerance.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub absolute: f64,
    /// Relative tolerance.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub relative: f64,
    /// Tolerance in representable values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ulp: Option<u64>,
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// The tolerance file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToleranceFile {
    /// Version of the format.
    pub version: u32,
    /// Rules; the last one that fits a buffer holds.
    #[serde(default, rename = "buffer", skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<BufferRule>,
}

/// The version of [`ToleranceFile`] that this program reads and writes.
pub const TOLERANCE_VERSION: u32 = 1;

/// Why tolerances cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ToleranceError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no tolerance file.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        message: String,
    },
    /// The file is of another version.
    #[error("{}: this is version {found} of the tolerance file, and this program reads version {TOLERANCE_VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A rule contradicts itself.
    #[error("the rule for {rule}: {problem}")]
    Rule {
        /// The rule.
        rule: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// All rules that hold, later ones over earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tolerances {
    rules: Vec<BufferRule>,
    inferred: Tolerance,
}

impl Tolerances {
    /// Bit for bit, everywhere.
    pub fn exact() -> Self {
        Self::default()
    }

    /// Reads a tolerance file.
    pub fn read(path: &Path) -> Result<Self, ToleranceError> {
        let text = files::text(path, files::SETTINGS).map_err(|source| ToleranceError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a tolerance file; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ToleranceError> {
        let file: ToleranceFile = toml::from_str(text).map_err(|error| ToleranceError::Syntax {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        if file.version != TOLERANCE_VERSION {
            return Err(ToleranceError::Version {
                path: path.to_owned(),
                found: file.version,
            });
        }
        let mut tolerances = Self::default();
        for rule in file.buffers {
            tolerances.add(rule)?;
        }
        Ok(tolerances)
    }

    /// Adds a rule that holds over all before it.
    pub fn add(&mut self, rule: BufferRule) -> Result<(), ToleranceError> {
        let wrong = |problem: &str| {
            Err(ToleranceError::Rule {
                rule: rule.describe(),
                problem: problem.to_owned(),
            })
        };
        let number = |x: f64| x.is_finite() && x >= 0.0;
        if !number(rule.absolute) || !number(rule.relative) {
            return wrong("a tolerance is a finite number from 0 up");
        }
        let inexact = rule.absolute != 0.0 || rule.relative != 0.0 || rule.ulp.is_some();
        if inexact && rule.element == ElementType::Bits {
            return wrong("a tolerance needs an element type (type = \"f32\" and the like)");
        }
        if rule.ulp.is_some() && !rule.element.is_float() {
            return wrong("ulp is for floating-point elements");
        }
        self.rules.push(rule);
        Ok(())
    }

    /// The rules, in the order in which they were added.
    pub fn rules(&self) -> &[BufferRule] {
        &self.rules
    }

    /// The tolerance of floating-point buffers whose type was inferred and for which no rule gives another.
    pub fn inferred(&self) -> Tolerance {
        self.inferred
    }

    /// Sets the tolerance of floating-point buffers whose type was inferred and for which no rule
    /// gives another.
    pub fn set_inferred(&mut self, tolerance: Tolerance) {
        self.inferred = tolerance;
    }

    /// Type and tolerance for a buffer that goes by several names, in a kernel that goes by
    /// several. `inferred` is what the code says of the buffer's type.
    pub fn of(
        &self,
        kernel: &[&str],
        buffer: &[&str],
        inferred: Option<ElementType>,
    ) -> (ElementType, Tolerance) {
        match (self.rule(kernel, buffer), inferred) {
            (Some((ElementType::Bits, tolerance)), Some(element)) => (element, tolerance),
            (Some(rule), _) => rule,
            (None, Some(element)) if element.is_float() => (element, self.inferred),
            (None, Some(element)) => (element, Tolerance::EXACT),
            (None, None) => (ElementType::Bits, Tolerance::EXACT),
        }
    }

    /// The last rule that fits.
    fn rule(&self, kernel: &[&str], buffer: &[&str]) -> Option<(ElementType, Tolerance)> {
        let fits = |wanted: &Option<String>, names: &[&str]| {
            wanted
                .as_deref()
                .is_none_or(|wanted| names.contains(&wanted))
        };
        self.rules
            .iter()
            .rev()
            .find(|rule| fits(&rule.kernel, kernel) && fits(&rule.buffer, buffer))
            .map(|rule| {
                let tolerance = Tolerance {
                    absolute: rule.absolute,
                    relative: rule.relative,
                    ulp: rule.ulp,
                };
                (rule.element, tolerance)
            })
    }
}

impl BufferRule {
    fn describe(&self) -> String {
        let buffer = self.buffer.as_deref().unwrap_or("every buffer");
        match &self.kernel {
            Some(kernel) => format!("{buffer} of {kernel}"),
            None => buffer.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tolerances, ToleranceError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tolerances.toml");
        std::fs::write(&path, text).unwrap();
        Tolerances::read(&path)
    }

    #[test]
    fn the_last_rule_that_fits_holds() {
        let t = read(
            r#"
            version = 1
            [[buffer]]
            type = "f32"
            relative = 1e-5
            [[buffer]]
            kernel = "dslash"
            buffer = "arg0"
            type = "f64"
            ulp = 2
            "#,
        )
        .unwrap();
        let (ty, tolerance) = t.of(&["_Z6dslashPd", "dslash"], &["arg0", "alloc 3"], None);
        assert_eq!((ty, tolerance.ulp), (ElementType::F64, Some(2)));
        let (ty, tolerance) = t.of(&["other"], &["arg0"], None);
        assert_eq!((ty, tolerance.relative), (ElementType::F32, 1e-5));
    }

    #[test]
    fn without_rules_everything_is_exact() {
        let exact = Tolerances::exact();
        assert_eq!(
            exact.of(&["k"], &["arg0"], None),
            (ElementType::Bits, Tolerance::EXACT)
        );
        let typed = exact.of(&["k"], &["arg0"], Some(ElementType::F32));
        assert_eq!(typed, (ElementType::F32, Tolerance::EXACT));
    }

    #[test]
    fn a_general_tolerance_is_for_inferred_floats_without_a_rule() {
        let mut t = Tolerances::exact();
        let loose = Tolerance {
            relative: 1e-3,
            ..Tolerance::EXACT
        };
        t.set_inferred(loose);
        assert_eq!(
            t.of(&["k"], &["arg0"], Some(ElementType::F64)),
            (ElementType::F64, loose)
        );
        let (_, integers) = t.of(&["k"], &["arg0"], Some(ElementType::U32));
        assert!(integers.is_exact());
        let (_, unknown) = t.of(&["k"], &["arg0"], None);
        assert!(unknown.is_exact());
        t.add(BufferRule {
            buffer: Some("arg0".to_owned()),
            ..BufferRule::default()
        })
        .unwrap();
        let (_, ruled) = t.of(&["k"], &["arg0"], Some(ElementType::F64));
        assert!(ruled.is_exact());
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("version = 2").contains("reads version 1"));
        assert!(message("version = 1\n[[buffer]]\ntyp = \"f32\"").contains("typ"));
        assert!(message("version = 1\n[[buffer]]\ntype = \"f33\"").contains("f33"));
        assert!(message("version = 1\n[[buffer]]\nabsolute = 1.0").contains("element type"));
        assert!(
            message("version = 1\n[[buffer]]\ntype = \"f32\"\nabsolute = -1.0")
                .contains("from 0 up")
        );
        assert!(message("version = 1\n[[buffer]]\ntype = \"i32\"\nulp = 1").contains("floating"));
    }

    #[test]
    fn a_tolerance_on_the_command_line() {
        assert_eq!(
            Tolerance::parse("abs=1e-6,rel=1e-5,ulp=4"),
            Ok(Tolerance {
                absolute: 1e-6,
                relative: 1e-5,
                ulp: Some(4)
            })
        );
        assert_eq!(Tolerance::parse("ulp=1").unwrap().ulp, Some(1));
        for wrong in [
            "", "1e-6", "abs=x", "abs=-1", "abs=nan", "abs=inf", "ulp=1.5", "eps=1",
        ] {
            assert!(Tolerance::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_written_file_reads_back() {
        let file = ToleranceFile {
            version: TOLERANCE_VERSION,
            buffers: vec![BufferRule {
                kernel: Some("k".to_owned()),
                buffer: Some("arg2+0x10".to_owned()),
                element: ElementType::BF16,
                absolute: 0.0,
                relative: 0.5,
                ulp: None,
            }],
        };
        let text = toml::to_string(&file).unwrap();
        let read = read(&text).unwrap();
        assert_eq!(read.rules, file.buffers);
    }
}
