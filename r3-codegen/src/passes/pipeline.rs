//! Running a pipeline.

use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::TargetMachine;

use super::PassError;
use crate::recipe::{Pipeline, Preset};

/// Runs a pipeline over a module and verifies what it left.
///
/// # Errors
/// When LLVM refuses the text, or the module is broken afterwards.
pub fn run(module: &Module, pipeline: &Pipeline, machine: &TargetMachine) -> Result<(), PassError> {
    let Some(text) = text(pipeline) else {
        return Ok(());
    };
    let failed = |reason: String| PassError::Pipeline {
        pipeline: text.clone(),
        reason,
    };
    if text.contains('\0') {
        return Err(failed("it has a zero byte in it".to_owned()));
    }
    module
        .run_passes(&text, machine, PassBuilderOptions::create())
        .map_err(|reason| failed(reason.to_string()))?;
    module.verify().map_err(|reason| PassError::Invalid {
        when: format!("after the passes `{text}`"),
        reason: reason.to_string(),
    })
}

/// A pipeline in LLVM's syntax, as it is run; `None` when there is nothing to run.
#[must_use]
pub fn text(pipeline: &Pipeline) -> Option<String> {
    match pipeline {
        Pipeline::Nothing => None,
        Pipeline::Preset(preset) => Some(
            match preset {
                Preset::O0 => "default<O0>",
                Preset::O1 => "default<O1>",
                Preset::O2 => "default<O2>",
                Preset::O3 => "default<O3>",
                Preset::Os => "default<Os>",
                Preset::Oz => "default<Oz>",
            }
            .to_owned(),
        ),
        Pipeline::Text(text) if text.trim().is_empty() => None,
        Pipeline::Text(text) => Some(without_switches(&without_fixpoint_check(text))),
    }
}

/// Passes that take the end of every block for a branch: of a switch, LLVM as it is released makes something else or crashes.
const ONLY_BRANCHES: &[&str] = &["unify-loop-exits", "fix-irreducible", "structurizecfg"];

/// Puts the pass that makes branches of switches before those that know nothing else.
fn without_switches(text: &str) -> String {
    let of_name = |c: char| c.is_alphanumeric() || c == '-';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(of_name) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c| !of_name(c)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        out.push_str(before);
        if ONLY_BRANCHES.contains(&name) {
            out.push_str("lower-switch,");
        }
        out.push_str(name);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// `instcombine` in a pipeline's text ends the process when one round is not enough, a check meant for LLVM's own tests.
/// Switches it off wherever the text does not ask for it.
fn without_fixpoint_check(text: &str) -> String {
    const NAME: &str = "instcombine";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(NAME) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        out.push_str(NAME);
        rest = from.get(NAME.len()..).unwrap_or_default();
        let begins = !out
            .strip_suffix(NAME)
            .is_some_and(|before| before.ends_with(|c: char| c.is_alphanumeric() || c == '-'));
        if !begins {
            continue;
        }
        if let Some(parameters) = rest.strip_prefix('<') {
            let inside = parameters.split('>').next().unwrap_or_default();
            if !inside.contains("verify-fixpoint") {
                out.push_str("<no-verify-fixpoint;");
                rest = parameters;
            }
        } else if !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-') {
            out.push_str("<no-verify-fixpoint>");
        }
    }
    out.push_str(rest);
    out.replace("<no-verify-fixpoint;>", "<no-verify-fixpoint>")
}

#[cfg(test)]
mod tests {
    use super::{without_fixpoint_check, without_switches};

    #[test]
    fn switches_are_lowered_for_passes_that_know_only_branches() {
        let cases = [
            (
                "function(sroa,unify-loop-exits),globaldce",
                "function(sroa,lower-switch,unify-loop-exits),globaldce",
            ),
            (
                "structurizecfg<skip-uniform-regions>",
                "lower-switch,structurizecfg<skip-uniform-regions>",
            ),
            ("fix-irreducible,adce", "lower-switch,fix-irreducible,adce"),
            ("default<O3>", "default<O3>"),
            ("function( adce )", "function( adce )"),
        ];
        for (given, wanted) in cases {
            assert_eq!(without_switches(given), wanted);
        }
    }

    #[test]
    fn only_instcombine_that_does_not_say_otherwise_is_rewritten() {
        let cases = [
            ("instcombine", "instcombine<no-verify-fixpoint>"),
            (
                "function(sroa,instcombine),globaldce",
                "function(sroa,instcombine<no-verify-fixpoint>),globaldce",
            ),
            (
                "instcombine<max-iterations=2>,adce",
                "instcombine<no-verify-fixpoint;max-iterations=2>,adce",
            ),
            (
                "instcombine<verify-fixpoint>",
                "instcombine<verify-fixpoint>",
            ),
            ("instcombine<>", "instcombine<no-verify-fixpoint>"),
            ("aggressive-instcombine,adce", "aggressive-instcombine,adce"),
            (
                "instcombine,instcombine",
                "instcombine<no-verify-fixpoint>,instcombine<no-verify-fixpoint>",
            ),
        ];
        for (given, wanted) in cases {
            assert_eq!(without_fixpoint_check(given), wanted);
        }
    }
}
