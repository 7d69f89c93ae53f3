//! Which kernels of an archive some code has.

use std::collections::BTreeMap;
use std::fmt;

use r3_archive::Archive;
use r3_archive::model::{KernelId, KernelRecord, LayoutSource, ParamLayout};
use r3_image::{Image, KernelInfo};

use super::names;
use crate::names::readable;

/// A kernel of the archive that the code has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The kernel.
    pub kernel: KernelId,
    /// Its name in the code.
    pub name: String,
}

/// Kernels by name: those whose parameters fit, and those whose do not.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// They fit.
    pub fitting: Vec<Match>,
    /// The name is there, and is another kernel.
    pub unfitting: Vec<(KernelId, Unfit)>,
}

/// How parameters differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Another number of them.
    #[error("it has {} here, and the captured kernel has {}", count(*.code), count(*.captured))]
    Count {
        /// In the code.
        code: usize,
        /// As captured.
        captured: usize,
    },
    /// One is elsewhere, or has another size.
    #[error(
        "parameter {index} is at {} with {} bytes here, and at {} with {} bytes in the captured kernel",
        .code.offset, .code.size, .captured.offset, .captured.size
    )]
    Param {
        /// Which one.
        index: usize,
        /// In the code.
        code: ParamLayout,
        /// As captured.
        captured: ParamLayout,
    },
    /// The application gave one buffer, and it is too short.
    #[error("its parameters take {code} bytes here, and launches were given {captured}")]
    Length {
        /// In the code.
        code: u32,
        /// As captured.
        captured: usize,
    },
    /// The code's declaration could not be understood.
    #[error("the parameters that this code declares could not be understood")]
    Unknown,
}

fn count(parameters: usize) -> String {
    match parameters {
        1 => "1 parameter".to_owned(),
        n => format!("{n} parameters"),
    }
}

/// None of the kernels is in the code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoMatch {
    /// Kernels of the code, readable; those with a base name that is wanted come first.
    pub has: Vec<String>,
    /// Kernels of the archive that were looked for.
    pub wanted: Vec<String>,
}

/// Most names in a message, of each side.
const NAMES_SHOWN: usize = 10;

impl fmt::Display for NoMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, names: &[String]| {
            for name in names.iter().take(NAMES_SHOWN) {
                write!(f, "\n    {name}")?;
            }
            match names.len().saturating_sub(NAMES_SHOWN) {
                0 => Ok(()),
                more => write!(f, "\n    and {more} more"),
            }
        };
        if self.has.is_empty() {
            return f.write_str("it has no kernel: templates must be instantiated in it");
        }
        f.write_str("none of the captured kernels is in it. It has")?;
        list(f, &self.has)?;
        f.write_str("\n  and looked for were")?;
        list(f, &self.wanted)
    }
}

/// Finds the `wanted` kernels in PTX: by name, else by their name without what compilers make up.
pub fn matching(
    archive: &Archive,
    wanted: &[&KernelRecord],
    code: &Image,
) -> Result<Matches, NoMatch> {
    let names = code.kernel_names();
    let mut by_plain: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in &names {
        by_plain.entry(names::plain(name)).or_default().push(name);
    }
    let mut matches = Matches::default();
    for record in wanted {
        let exact = names.iter().find(|name| **name == record.name);
        let alike = || match by_plain.get(&names::plain(&record.name))?.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        let name = exact.map(String::as_str).or_else(alike);
        let Some(found) = name.and_then(|name| code.kernel(name)) else {
            continue;
        };
        match fits(archive, record, &found) {
            Ok(()) => matches.fitting.push(Match {
                kernel: record.id,
                name: found.name,
            }),
            Err(unfit) => matches.unfitting.push((record.id, unfit)),
        }
    }
    if matches.fitting.is_empty() && matches.unfitting.is_empty() {
        return Err(no_match(wanted, &names));
    }
    Ok(matches)
}

fn no_match(wanted: &[&KernelRecord], names: &[String]) -> NoMatch {
    let wanted: Vec<String> = wanted.iter().map(|kernel| readable(&kernel.name)).collect();
    let mut has: Vec<String> = names.iter().map(|name| readable(name)).collect();
    let alike = |name: &String| wanted.iter().any(|w| names::base(w) == names::base(name));
    has.sort_by_key(|name| (!alike(name), name.clone()));
    NoMatch { has, wanted }
}

/// Whether the parameters are where the captured launches have them.
pub fn fits(archive: &Archive, record: &KernelRecord, found: &KernelInfo) -> Result<(), Unfit> {
    if !found.params_known {
        return Err(Unfit::Unknown);
    }
    if record.layout == LayoutSource::Buffer {
        let launches = archive.launch_heads().iter();
        let of_kernel = launches.filter(|launch| launch.kernel == record.id);
        let code = found.params_len();
        return match of_kernel.map(|launch| launch.params.len()).min() {
            Some(captured) if captured < code as usize => Err(Unfit::Length { code, captured }),
            _ => Ok(()),
        };
    }
    if found.params.len() != record.params.len() {
        return Err(Unfit::Count {
            code: found.params.len(),
            captured: record.params.len(),
        });
    }
    for (index, (code, captured)) in found.params.iter().zip(&record.params).enumerate() {
        let code = ParamLayout {
            offset: code.offset,
            size: code.size,
        };
        if code != *captured {
            return Err(Unfit::Param {
                index,
                code,
                captured: *captured,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry _ZL5scalefPf(.param .f32 a, .param .u64 b) { ret; }
.visible .entry _Z5scaledPf(.param .f64 a, .param .u64 b) { ret; }
.visible .entry other(.param .u64 a) { ret; }
";

    fn record(id: u64, name: &str, params: &[(u32, u32)], layout: LayoutSource) -> KernelRecord {
        let layout_of = |&(offset, size): &(u32, u32)| ParamLayout { offset, size };
        KernelRecord {
            id: KernelId(id),
            module: None,
            name: name.to_owned(),
            params: params.iter().map(layout_of).collect(),
            layout,
            attributes: Vec::new(),
        }
    }

    fn matched(records: &[KernelRecord]) -> Result<Matches, NoMatch> {
        let archive = crate::testing::TestArchive::new().open();
        let wanted: Vec<&KernelRecord> = records.iter().collect();
        matching(&archive, &wanted, &Image::parse(PTX.as_bytes()))
    }

    #[test]
    fn names_are_the_same_or_the_same_without_what_compilers_make_up() {
        let driver = LayoutSource::Driver;
        let found = matched(&[
            record(1, "_Z5scalefPf", &[(0, 4), (8, 8)], driver),
            record(2, "other", &[(0, 8)], driver),
            record(3, "another", &[(0, 8)], driver),
        ])
        .unwrap();
        let names: Vec<_> = found
            .fitting
            .iter()
            .map(|m| (m.kernel.0, m.name.as_str()))
            .collect();
        assert_eq!(names, [(1, "_ZL5scalefPf"), (2, "other")]);
        assert!(found.unfitting.is_empty());
    }

    #[test]
    fn another_number_of_parameters_is_another_kernel() {
        let found = matched(&[record(1, "other", &[(0, 8), (8, 4)], LayoutSource::Cubin)]).unwrap();
        let [(_, unfit)] = found.unfitting.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(
            unfit.to_string(),
            "it has 1 parameter here, and the captured kernel has 2 parameters"
        );
    }

    #[test]
    fn where_nothing_matches_kernels_of_the_same_base_name_are_named_first() {
        let none = matched(&[record(1, "_Z5scaleiPf", &[], LayoutSource::Driver)]).unwrap_err();
        assert_eq!(none.wanted, ["scale(int, float*)"]);
        assert_eq!(
            none.has,
            ["scale(double, float*)", "scale(float, float*)", "other"]
        );
    }
}
