//! For which architecture to assemble.

use crate::recipe::{Failure, FailureKind, Stage};

/// Architectures that an assembler may know, ascending: PTX for one that it does not know any more runs on the next.
const LADDER: &[u32] = &[50, 60, 70, 75, 80, 90, 100, 120];

/// The architecture to assemble PTX with `.target` `target` for, so that it runs on a GPU `device` (both e.g. `sm_90a`).
///
/// PTX runs on its target and on what is newer. `sm_90a` is for that one only; `sm_100f` for its family: the same tens.
pub fn arch_for(target: &str, device: &str) -> Result<String, Failure> {
    let code = Arch::parse(target)?;
    let gpu = Arch::parse(device)?;
    let runs = match code.suffix {
        None => gpu.number >= code.number,
        Some('f') => gpu.number >= code.number && gpu.number / 10 == code.number / 10,
        Some(_) => gpu.number == code.number,
    };
    if !runs {
        return Err(refused(format!(
            "code for {target} does not run on {device}"
        )));
    }
    Ok(match code.suffix {
        Some('a') => code.text(),
        Some(suffix) => format!("sm_{}{}", gpu.number, gpu.suffix.unwrap_or(suffix)),
        None => gpu.text(),
    })
}

/// The next architecture to try when an assembler does not know `arch` any more.
pub(super) fn above(arch: &str) -> Option<String> {
    let arch = Arch::parse(arch)
        .ok()
        .filter(|arch| arch.suffix.is_none())?;
    let next = LADDER.iter().find(|&&number| number > arch.number)?;
    Some(format!("sm_{next}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arch {
    number: u32,
    suffix: Option<char>,
}

impl Arch {
    fn parse(text: &str) -> Result<Arch, Failure> {
        let bad = || {
            refused(format!(
                "{text:?} is no architecture: it is written like sm_90 or sm_90a"
            ))
        };
        let rest = text
            .strip_prefix("sm_")
            .or_else(|| text.strip_prefix("compute_"))
            .ok_or_else(bad)?;
        let (digits, suffix) = match rest.strip_suffix(['a', 'f']) {
            Some(digits) => (digits, rest.chars().last()),
            None => (rest, None),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let number = digits.parse().map_err(|_| bad())?;
        Ok(Arch { number, suffix })
    }

    fn text(self) -> String {
        let suffix = self.suffix.map(String::from).unwrap_or_default();
        format!("sm_{}{suffix}", self.number)
    }
}

/// Checks that `text` is an architecture, and spells it `sm_…`.
pub(super) fn checked(text: &str) -> Result<String, Failure> {
    Arch::parse(text).map(Arch::text)
}

/// An answer to what no assembler takes.
pub(super) fn refused(message: String) -> Failure {
    Failure {
        stage: Stage::Assemble,
        kind: FailureKind::Refused,
        message,
        log: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_runs_on_its_target_and_what_is_newer() {
        let cases = [
            ("sm_52", "sm_90", Some("sm_90")),
            ("sm_90", "sm_90", Some("sm_90")),
            ("sm_90a", "sm_90", Some("sm_90a")),
            ("sm_90a", "sm_90a", Some("sm_90a")),
            ("sm_90", "sm_90a", Some("sm_90a")),
            ("sm_90a", "sm_100", None),
            ("sm_100", "sm_90", None),
            ("sm_100f", "sm_103", Some("sm_103f")),
            ("sm_100f", "sm_103a", Some("sm_103a")),
            ("sm_100f", "sm_110", None),
            ("sm_103f", "sm_100", None),
        ];
        for (target, device, expected) in cases {
            let arch = arch_for(target, device).ok();
            assert_eq!(arch.as_deref(), expected, "{target} on {device}");
        }
    }

    #[test]
    fn what_is_no_architecture_is_refused() {
        for text in ["", "sm_", "sm_9x", "90", "sm_90 -o x", "sm_99999999999"] {
            assert!(checked(text).is_err(), "{text:?}");
        }
    }
}
