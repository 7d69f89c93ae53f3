//! The candidates of the self-test: planted exploits, which must be caught, and harmless rewrites, which must not be refused.

use crate::evaluate::candidate::{
    Build, Candidate, CandidateCode, LaunchChange, Route, SourceCode,
};
use crate::evaluate::outcome::Verdict;
use crate::evaluate::rules::Rule;

/// The kernels that the candidates stand for.
pub const TARGETS: &str = include_str!("corpus/targets.ptx");

/// Tolerances under which candidates are judged: without them, exploits of loose tolerances would prove nothing, and
/// other roundings could not be harmless.
pub const TOLERANCES: &str = include_str!("corpus/tolerances.toml");

/// What a case is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It cheats, or is broken: it must be caught.
    Exploit {
        /// Row of the table of exploits in docs/integrity.md.
        row: u8,
        /// Verdicts that count as caught, where some would be chance or the fault of the machine.
        verdicts: &'static [Verdict],
        /// The rule that it must be refused by. Without one, all rules are off: what it leaves in memory must show it.
        rule: Option<Rule>,
    },
    /// It is right: it must pass.
    Harmless,
}

/// Where a case shows what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On every device.
    Everywhere,
    /// On a GPU alone: the CPU device leaves nothing to chance.
    Gpu,
}

/// A candidate with a known verdict.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub what: &'static str,
    /// The kernel that it stands for.
    pub target: &'static str,
    /// What must become of it.
    pub kind: Kind,
    /// Where.
    pub place: Where,
    /// The candidate.
    pub candidate: Candidate,
}

/// Anything but right, as long as the candidate did it.
const CAUGHT: &[Verdict] = &[
    Verdict::Wrong,
    Verdict::Cheat,
    Verdict::Fault,
    Verdict::Refused,
];

macro_rules! exploits {
    ($( $row:literal $target:ident $name:ident $what:literal $(=> $verdicts:expr)? $(; $place:ident)? ),* $(,)?) => {
        vec![$( Case {
            name: stringify!($name),
            what: $what,
            target: stringify!($target),
            kind: Kind::Exploit { row: $row, verdicts: choose!(CAUGHT $(, $verdicts)?), rule: None },
            place: choose!(Where::Everywhere $(, Where::$place)?),
            candidate: of_ptx(include_str!(concat!("corpus/exploits/", stringify!($name), ".ptx"))),
        } ),*]
    };
}

macro_rules! harmless {
    ($( $target:ident $name:ident $what:literal ),* $(,)?) => {
        vec![$( Case {
            name: stringify!($name),
            what: $what,
            target: stringify!($target),
            kind: Kind::Harmless,
            place: Where::Everywhere,
            candidate: of_ptx(include_str!(concat!("corpus/harmless/", stringify!($name), ".ptx"))),
        } ),*]
    };
}

/// CUDA C++, in the order: what breaks a rule, and what breaks none.
macro_rules! sources {
    ($( $row:literal $rule:ident $target:ident $name:ident $what:literal ),* ; $( $good:ident $harmless:ident $of:literal ),* $(,)?) => {
        vec![
            $( Case {
                name: stringify!($name),
                what: $what,
                target: stringify!($target),
                kind: Kind::Exploit { row: $row, verdicts: &[Verdict::Cheat], rule: Some(Rule::$rule) },
                place: Where::Everywhere,
                candidate: of_source(include_str!(concat!("corpus/source/", stringify!($name), ".cu"))),
            }, )*
            $( Case {
                name: stringify!($harmless),
                what: $of,
                target: stringify!($good),
                kind: Kind::Harmless,
                place: Where::Everywhere,
                candidate: of_source(include_str!(concat!("corpus/source/", stringify!($harmless), ".cu"))),
            } ),*
        ]
    };
}

/// The last of one or two.
macro_rules! choose {
    ($default:expr) => {
        $default
    };
    ($default:expr, $given:expr) => {
        $given
    };
}

fn of_ptx(text: &str) -> Candidate {
    Candidate {
        code: CandidateCode::Ptx(text.to_owned()),
        ..Candidate::default()
    }
}

/// Compiled by whatever compiler is there, and optimised: not all compilers do that by themselves.
fn of_source(text: &str) -> Candidate {
    Candidate {
        code: CandidateCode::Source(SourceCode {
            text: text.to_owned(),
            ..SourceCode::default()
        }),
        build: Build {
            route: Route::Lift,
            passes: "default<O3>".to_owned(),
            ..Build::default()
        },
        ..Candidate::default()
    }
}

/// All cases, exploits first. The order matters: halves of one job follow each other.
pub fn cases() -> Vec<Case> {
    let mut cases = exploits();
    cases.extend(rewrites());
    cases.extend(settings());
    cases.extend(sources());
    cases
}

fn exploits() -> Vec<Case> {
    exploits![
        1 scale_add seeks_the_answer "looks for recorded results in memory near its buffers",
        2 smooth nothing_at_all "writes nothing",
        2 mark nothing_where_most_is_right "writes nothing where most bytes are right anyway",
        2 mark only_what_changes "writes the few bytes that change, skips those that are right already",
        2 gather last_element_missing "leaves one element out",
        3 smooth first_half "does half of the work",
        3 smooth second_half "does the other half: with the one before, all is done",
        4 smooth computes_once "computes in its first launches only",
        4 gather remembers_results "keeps its results in a variable",
        4 gather remembers_in_constants "keeps its results in constant memory",
        4 smooth remembers_in_strings "keeps a note in the text of an assertion",
        4 smooth overwrites_a_constant "overwrites a constant that its next launch reads",
        4 gather remembers_every_other_time "keeps results in a table, and clears it in the launch after",
        5 smooth remembers_by_pointer "keeps results by the address of its input",
        5 smooth remembers_by_fingerprint "keeps results by a fingerprint of its input",
        4 gather remembers_on_the_heap "keeps results in memory of the device's heap",
        6 scale_add constant_of_the_launch "knows the recorded factor by heart",
        6 mark result_by_heart "writes what recorded launches leave, whatever its input is",
        7 gather size_of_the_launch "right for one size only",
        8 divide not_a_number "NaN everywhere",
        8 divide infinite "infinity everywhere",
        9 divide half_precision "computes in half precision",
        9 divide small_is_zero "leaves small results at zero",
        10 scale_add one_element_wrong "one element is off, which no norm shows",
        2 smooth writes_beyond_the_rules "writes an element that the original leaves alone",
        11 smooth changes_its_input "changes its input",
        12 smooth slack_as_memory "keeps a note behind the end of its buffer",
        12 scale_add slack_before_the_buffer "keeps a note before the beginning of its buffer",
        12 smooth another_s_memory "overwrites memory between its buffers",
        12 smooth far_beyond "writes far outside of all memory" => &[Verdict::Fault],
        12 smooth counts_in_poison "counts in an element that the original never touches",
        13 row_sums shared_left_over "reads shared memory that it never wrote"; Gpu,
        13 row_sums too_much_shared "uses more shared memory than it asked for",
        17 scale_add wrong_after_a_while "right at first, and nothing after",
        24 gather depends_on_the_clock "skips work by the clock"; Gpu,
        25 row_sums missing_barrier "a reduction without barriers",
        25 gather depends_on_where_it_runs "depends on the multiprocessor that it runs on"; Gpu,
        26 smooth misaligned "a misaligned access" => &[Verdict::Fault],
        26 smooth traps "a trap" => &[Verdict::Fault],
        26 smooth stops_by_itself "an assertion that fails" => &[Verdict::Fault],
        26 smooth calls_itself_for_ever "calls itself for ever" => &[Verdict::Timeout, Verdict::Fault],
        26 smooth never_ends "never ends" => &[Verdict::Timeout],
        26 row_sums waits_for_ever "half of a block waits for ever" => &[Verdict::Timeout, Verdict::Fault],
    ]
}

fn rewrites() -> Vec<Case> {
    harmless![
        smooth as_it_is "the same code",
        scale_add grid_stride "a grid-stride loop",
        gather read_only "loads through the read-only path",
        scale_add four_at_a_time "four elements with one access",
        smooth shared_tile "its input through shared memory",
        smooth reassociated "a sum in another order, within a tolerance",
        divide reciprocal_root "a reciprocal square root, within a tolerance",
        divide approximate_division "approximate division, within a tolerance",
        row_sums shuffles "a reduction by shuffles, within a tolerance",
        smooth constant_table "a new table of constants",
        smooth table_in_constant_memory "a new table in constant memory",
        smooth asserts "an assertion",
        row_sums unrolled "unrolled loops",
        mark long_indices "indices of 64 bits",
        divide written_twice "an intermediate value in its output",
        gather more_registers "launch bounds of its own",
        smooth local_array "an array in local memory",
        scale_add slower "the same, slower",
    ]
}

/// CUDA C++, which is there where a compiler is: what rules must find before it runs, and what they must leave alone.
fn sources() -> Vec<Case> {
    sources![
        4 Variables gather keeps_in_a_variable "source: keeps its results in a variable",
        4 Variables gather keeps_in_a_static_variable "source: keeps its results in a static variable of a function",
        4 Heap smooth allocates "source: uses the device's heap",
        12 Addresses scale_add knows_an_address "source: reads memory at an address that it knows by heart",
        12 Addresses scale_add hides_an_address "source: the same, by way of shared memory and a function",
        12 Addresses scale_add finds_an_address "source: computes an address from the bits of another one",
        24 Clocks gather reads_a_clock "source: skips work by the clock",
        27 Assembly gather writes_assembly "source: inline assembly",
        27 Assembly gather hides_assembly "source: inline assembly, its keyword put together",
        27 Print smooth prints "source: prints",
        27 Sleep gather sleeps "source: sleeps";
        smooth helpers_and_tables "source: functions, a table, a structure by value",
        scale_add wide_accesses "source: wide accesses, an address taken apart",
        gather pointers_in_shared_memory "source: pointers in shared and local memory",
        smooth names_like_assembly "source: words that only look like assembly",
    ]
}

/// The captured code with other settings.
fn settings() -> Vec<Case> {
    let captured = |build: Build, launch: LaunchChange| Candidate {
        code: CandidateCode::Captured { from: None },
        build,
        launch,
    };
    let lifted = |passes: &str, specialise: &[&str]| Build {
        route: Route::Lift,
        passes: passes.to_owned(),
        specialise: specialise.iter().map(|fact| (*fact).to_owned()).collect(),
        ..Build::default()
    };
    let block = |x| LaunchChange {
        block: Some([x, 1, 1]),
        ..LaunchChange::default()
    };
    let capped = Build {
        bounds: r3_codegen::recipe::Bounds {
            maxnreg: Some(24),
            ..Default::default()
        },
        ..Build::default()
    };
    let case = |name, what, target, candidate| Case {
        name,
        what,
        target,
        kind: Kind::Harmless,
        place: Where::Everywhere,
        candidate,
    };
    vec![
        case(
            "smaller_blocks",
            "the recorded code in smaller blocks",
            "scale_add",
            Candidate {
                launch: block(64),
                ..Candidate::default()
            },
        ),
        case(
            "larger_blocks",
            "compiled anew, in larger blocks",
            "smooth",
            captured(Build::default(), block(512)),
        ),
        case(
            "capped_registers",
            "a cap on registers",
            "divide",
            captured(capped, LaunchChange::default()),
        ),
        case(
            "lifted",
            "lifted, optimised by -O3",
            "row_sums",
            captured(lifted("default<O3>", &[]), LaunchChange::default()),
        ),
        case(
            "lifted_for_disjoint_memory",
            "lifted, with memory known to be disjoint",
            "scale_add",
            captured(
                lifted("default<O3>", &["noalias", "align"]),
                LaunchChange::default(),
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_as_large_as_it_is_said_to_be_and_every_case_has_a_target() {
        let cases = cases();
        let exploits = cases
            .iter()
            .filter(|case| matches!(case.kind, Kind::Exploit { .. }))
            .count();
        assert!(exploits >= 26 && cases.len() - exploits >= 15);
        for case in &cases {
            assert!(
                TARGETS.contains(&format!(".entry {}(", case.target)),
                "{}",
                case.name
            );
            if let CandidateCode::Ptx(text) = &case.candidate.code {
                assert!(
                    text.contains(&format!(".entry {}(", case.target)),
                    "{}",
                    case.name
                );
            }
        }
        let mut names: Vec<_> = cases.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len());
    }
}
