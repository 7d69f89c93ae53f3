//! What users read: every error message, and the page of options.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use proptest::prelude::*;
use r3_options::{
    LAUNCHER_OPTIONS, OPTIONS, OptionError, OptionSpec, Options, TOOL_VARIABLES, options_page,
};

fn from_env(variables: &[(&str, &str)]) -> Result<Options, Vec<OptionError>> {
    Options::from_env(
        variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into())),
    )
}

fn messages(errors: Vec<OptionError>) -> String {
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn messages_for_values_that_cannot_be_read() {
    let wrong = [
        ("R3_OUT", "out.%x.r3"),
        ("R3_OUT", "out%"),
        ("R3_KERNEL", "dslash("),
        ("R3_KERNEL", "a\n!"),
        ("R3_KERNEL", "(a{1000}){1000}"),
        ("R3_LAUNCHES", "0"),
        ("R3_LAUNCHES", "10-5"),
        ("R3_LAUNCHES", "10,,20"),
        ("R3_LAUNCHES", "-5"),
        ("R3_LAUNCHES", "first"),
        ("R3_MAX", "many"),
        ("R3_BUDGET", "8 gigabytes"),
        ("R3_BUDGET", "99999999T"),
        ("R3_MEMORY", "4K"),
        ("R3_MEMORY", "lots"),
        ("R3_SNAPSHOT", "everything"),
        ("R3_RANKS", "a"),
        ("R3_RANKS", "3-1"),
        ("R3_PROCESS", "["),
        ("R3_TRIGGER", "signal:KILL"),
        ("R3_TRIGGER", "file:"),
        ("R3_SYNC", "device"),
        ("R3_TIMEOUT", "0"),
        ("R3_TIMEOUT", "soon"),
        ("R3_LEVEL", "0"),
        ("R3_LEVEL", "20"),
        ("R3_WORKERS", "0"),
        ("R3_WORKERS", "-1"),
        ("R3_LOG", "verbose"),
    ];
    for (name, value) in wrong {
        assert_eq!(
            from_env(&[(name, value)]).map(|_| ()).map_err(|e| e.len()),
            Err(1),
            "{name}={value}"
        );
    }
    // Every option that can be wrong is in the list.
    for spec in OPTIONS {
        assert!(
            wrong.iter().any(|(name, _)| *name == spec.env),
            "{}",
            spec.env
        );
    }
    insta::assert_snapshot!(messages(from_env(&wrong).expect_err("all are wrong")));
}

#[test]
fn messages_for_names_that_are_no_option() {
    let unknown = [
        ("R3_KERNELS", "x"),
        ("R3_LAUNCH", "1"),
        ("R3_output", "x"),
        ("R3_", ""),
        ("R3_SOMETHING_ELSE", "1"),
        ("R3_APPLY", "run/best.r3t"),
        ("R3_OUT\u{1b}[2J", "x"),
    ];
    insta::assert_snapshot!(messages(from_env(&unknown).expect_err("all are unknown")));
}

#[test]
fn messages_name_what_the_user_typed() {
    let spec = OptionSpec::by_long("launches").expect("an option");
    let errors = Options::from_arguments([(spec, "x".into())]).expect_err("malformed");
    insta::assert_snapshot!(messages(errors));
}

#[test]
fn a_value_that_is_not_text_is_named_and_escaped() {
    let value = OsStr::from_bytes(b"\xff\n").to_owned();
    let errors = Options::from_env([("R3_LEVEL".into(), value)]).expect_err("malformed");
    insta::assert_snapshot!(messages(errors));
}

#[test]
fn other_variables_are_not_looked_at() {
    let odd: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), "%".into()),
        ("r3_out".into(), "%x".into()),
        ("R3".into(), "x".into()),
        ("R30_LEVEL".into(), "x".into()),
        (OsStr::from_bytes(b"\xffR3_").to_owned(), "x".into()),
        ("R3_LIBRARY".into(), "/opt/r3/libr3.so".into()),
    ];
    assert!(Options::from_env(odd).is_ok());
}

#[test]
fn an_empty_value_is_the_default() {
    let empty: Vec<_> = OPTIONS.iter().map(|spec| (spec.env, "")).collect();
    let options = from_env(&empty).expect("valid");
    assert_eq!(format!("{options:?}"), format!("{:?}", Options::default()));
}

#[test]
fn the_defaults_of_the_table_are_the_defaults() {
    let defaults: Vec<_> = OPTIONS
        .iter()
        .map(|spec| (spec.env, spec.default))
        .collect();
    let options = from_env(&defaults).expect("valid");
    let same = |options: &Options| {
        // `all` ranks is written in two ways that hold the same ranks.
        (format!("{options:?}"), options.ranks.contains(0))
    };
    assert_eq!(same(&options), same(&Options::default()));
}

#[test]
fn every_option_has_an_effect() {
    let values = [
        ("R3_OUT", "x"),
        ("R3_KERNEL", "x"),
        ("R3_LAUNCHES", "5"),
        ("R3_MAX", "5"),
        ("R3_BUDGET", "5M"),
        ("R3_MEMORY", "5M"),
        ("R3_SNAPSHOT", "args"),
        ("R3_RANKS", "5"),
        ("R3_PROCESS", "x"),
        ("R3_TRIGGER", "file:/x"),
        ("R3_SYNC", "context"),
        ("R3_TIMEOUT", "5"),
        ("R3_LEVEL", "5"),
        ("R3_WORKERS", "5"),
        ("R3_LOG", "debug"),
    ];
    assert_eq!(values.len(), OPTIONS.len());
    let default = format!("{:?}", Options::default());
    for (name, value) in values {
        let options = from_env(&[(name, value)]).expect("valid");
        assert_ne!(format!("{options:?}"), default, "{name}={value}");
    }
}

#[test]
fn names_are_unique_and_follow_one_rule() {
    let mut seen = std::collections::HashSet::new();
    for spec in OPTIONS.iter().chain(LAUNCHER_OPTIONS) {
        assert_eq!(
            spec.env,
            format!("R3_{}", spec.long.to_uppercase().replace('-', "_"))
        );
        assert!(
            seen.insert(spec.env),
            "{} stands twice in the table",
            spec.env
        );
    }
}

#[test]
fn ranks_and_programs_select_processes() {
    let facts = |rank, exe: &str| r3_options::ProcessFacts {
        host: "h".into(),
        pid: 1,
        rank,
        exe: exe.into(),
    };
    let options = from_env(&[("R3_RANKS", "0,2-5"), ("R3_PROCESS", "^python3")]).expect("valid");
    assert!(options.process_selected(&facts(None, "/usr/bin/python3.12")));
    assert!(options.process_selected(&facts(Some(5), "python3")));
    assert!(!options.process_selected(&facts(Some(1), "python3")));
    assert!(!options.process_selected(&facts(Some(0), "/python3/bash")));
}

#[test]
fn workers_follow_the_cores() {
    let auto = Options::default();
    assert_eq!(
        [0, 1, 2, 4, 7, 16, 256].map(|cores| auto.workers(cores)),
        [1, 1, 1, 2, 3, 8, 8]
    );
    assert_eq!(
        from_env(&[("R3_WORKERS", "9")]).expect("valid").workers(2),
        9
    );
}

/// `UPDATE_DOCS=1 cargo test -p r3-options` writes the page anew.
#[test]
fn the_page_of_options_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/options.md");
    let page = options_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("docs/options.md can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/options.md is out of date: run this test with UPDATE_DOCS=1"
    );
}

proptest! {
    #[test]
    fn no_variable_makes_it_panic(
        rest in "[A-Z_]{0,12}",
        known in prop::sample::select(OPTIONS.iter().map(|spec| spec.env).collect::<Vec<_>>()),
        value in prop::collection::vec(1u8.., 0..60),
    ) {
        let value = OsStr::from_bytes(&value).to_owned();
        let both = [(known.into(), value.clone()), (format!("R3_{rest}").into(), value)];
        if let Err(errors) = Options::from_env(both) {
            for error in errors {
                let text = error.to_string();
                prop_assert!(text.len() < 2000 && !text.contains(char::is_control), "{}", text);
            }
        }
    }
}

#[test]
fn variables_that_name_tools_of_other_commands_leave_a_recording_alone() {
    for (name, _) in TOOL_VARIABLES {
        assert!(from_env(&[(name, "/opt/tool")]).is_ok(), "{name}");
    }
}
