//! An assembler's options, in the spelling of `ptxas`.

use super::arch::refused;
use crate::recipe::Failure;

/// Options that say where files are, what the input is, or for what to assemble: these are decided here. Long and short.
const DECIDED_HERE: &[&str] = &[
    "o",
    "output-file",
    "optf",
    "options-file",
    "ias",
    "input-as-string",
    "arch",
    "gpu-name",
    "h",
    "help",
    "V",
    "version",
    "version-ls",
    "list-version",
    "c",
    "compile-only",
    "m",
    "machine",
];

/// The options with each value joined to its name: `-maxrregcount 64` becomes `-maxrregcount=64`.
pub(super) fn joined(options: &[String]) -> Result<Vec<String>, Failure> {
    let mut joined: Vec<String> = Vec::new();
    for option in options {
        if option.starts_with('-') {
            let name = option.trim_start_matches('-');
            let name = name.split_once('=').map_or(name, |(name, _)| name);
            if DECIDED_HERE.contains(&name) {
                return Err(refused(format!(
                    "{option}: input, output and architecture are decided by the recipe"
                )));
            }
            if name.is_empty() || option.contains('\0') {
                return Err(refused(format!("{option:?} is no option")));
            }
            joined.push(option.clone());
        } else {
            match joined.last_mut() {
                Some(last) if !last.contains('=') && !option.contains('\0') => {
                    last.push('=');
                    last.push_str(option);
                }
                _ => {
                    return Err(refused(format!(
                        "{option:?} stands where an option of the assembler is expected, which begins with a dash"
                    )));
                }
            }
        }
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &[&str]) -> Result<Vec<String>, String> {
        let options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
        joined(&options).map_err(|failure| failure.message)
    }

    #[test]
    fn values_join_their_names() {
        let options = of(&["-O3", "-maxrregcount", "64", "--def-load-cache=cg", "-v"]);
        let expected = ["-O3", "-maxrregcount=64", "--def-load-cache=cg", "-v"];
        assert_eq!(options.unwrap(), expected);
    }

    #[test]
    fn options_that_name_files_are_refused() {
        for options in [
            &["-o", "/etc/passwd"][..],
            &["--output-file=/etc/passwd"],
            &["-optf=x"],
            &["-arch=sm_90"],
            &["/etc/passwd"],
            &["-O=3", "/etc/passwd"],
        ] {
            assert!(of(options).is_err(), "{options:?}");
        }
    }
}
