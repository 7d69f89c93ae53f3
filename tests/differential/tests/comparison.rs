//! The comparison fails where it has to.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use r3_differential::case::{Buffer, Case, Element, Mixed, Result};
use r3_differential::compare::{self, Verdict};
use r3_differential::record::{Entry, Recorded, identity};
use r3_replay::device::cpu::{CpuDevice, CpuOptions};

/// A case with one source and one result, which nobody runs here.
fn case(name: &str, source: &[u8], result: Result, len: usize) -> Case {
    Case {
        name: name.into(),
        ptx: String::new(),
        kernel: "k".into(),
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        as_written: false,
        buffers: vec![
            Buffer {
                bytes: source.to_vec(),
                result: None,
            },
            Buffer {
                bytes: vec![0; len],
                result: Some(result),
            },
        ],
    }
}

fn exact() -> Result {
    Result {
        element: Element::Bits(4),
        approximate: None,
        sources: vec![0],
        mixed: None,
    }
}

fn approximate(mnemonic: &str, element: Element) -> Result {
    Result {
        element,
        approximate: Some(mnemonic.into()),
        ..exact()
    }
}

/// What comes of `ours` when `theirs` was recorded, with all bytes or in short.
fn verdict(case: &Case, ours: &[u8], theirs: &[u8], whole: bool) -> Verdict {
    let result = case.buffers[1].result.as_ref().unwrap();
    let entry = Entry {
        name: case.name.clone(),
        case: identity(case),
        results: vec![Recorded::new(result, theirs, whole)],
        error: None,
    };
    compare::compare(case, &Ok(vec![ours.to_vec()]), &entry)
}

#[test]
fn one_wrong_byte_of_an_exact_result_fails() {
    let case = case("integer/test", &[], exact(), 8);
    let theirs = [1, 2, 3, 4, 5, 6, 7, 8];
    let mut ours = theirs;
    for whole in [false, true] {
        assert_eq!(verdict(&case, &theirs, &theirs, whole).failure, None);
    }
    ours[6] ^= 0x10;
    for whole in [false, true] {
        let verdict = verdict(&case, &ours, &theirs, whole);
        assert_eq!(verdict.different, 1);
        assert!(verdict.failure.is_some());
    }
    // With all bytes it says where.
    let failure = verdict(&case, &ours, &theirs, true).failure.unwrap();
    assert!(
        failure.contains("row 1: 08170605, not 08070605"),
        "{failure}"
    );
}

#[test]
fn a_result_outside_its_bound_fails_and_one_inside_does_not() {
    let one = 1.0_f32.to_bits();
    let case = case(
        "approximate/test",
        &one.to_le_bytes(),
        approximate("rcp.approx.f32", Element::F32),
        4,
    );
    let judge = |units: u32| {
        verdict(
            &case,
            &one.to_le_bytes(),
            &(one + units).to_le_bytes(),
            false,
        )
    };
    // One unit is the bound, and one more is for the two roundings.
    assert_eq!(judge(0).failure, None);
    assert_eq!(judge(2).failure, None);
    assert_eq!(judge(2).worst.of_allowed, 1.0);
    assert_eq!(judge(2).worst.to_string(), "2.00 ULP");
    assert!(judge(3).failure.is_some());
    let nan = f32::NAN.to_bits() - one;
    assert!(judge(nan).failure.is_some());
}

#[test]
fn an_error_is_told_in_the_unit_of_its_bound() {
    let one = 1.0_f64;
    let case = case(
        "approximate/test",
        &one.to_le_bytes(),
        approximate("rcp.approx.ftz.f64", Element::F64),
        8,
    );
    let other = one + (-22.0_f64).exp2();
    let verdict = verdict(&case, &one.to_le_bytes(), &other.to_le_bytes(), false);
    assert_eq!(verdict.failure, None);
    assert_eq!(verdict.worst.to_string(), "2^-22.0 relative");
    assert!((verdict.worst.of_allowed - 0.25).abs() < 1e-6);
}

/// Two threads of two words, the second of which is approximate; then a word that is exact.
fn mixed() -> Case {
    let approximate = HashMap::from([(4, "rcp.approx.f32".to_owned())]);
    let result = Result {
        mixed: Some(Mixed {
            stride: 8,
            end: 16,
            approximate,
        }),
        ..exact()
    };
    case("random/test", &[], result, 20)
}

#[test]
fn of_a_random_program_exact_words_fail_on_any_bit_and_approximate_ones_beyond_their_bound() {
    let case = mixed();
    let one = 1.0_f32.to_bits();
    let bytes = |words: [u32; 5]| words.map(u32::to_le_bytes).concat();
    let theirs = [7, one, 8, one, 9];
    for whole in [false, true] {
        let fails = |place: usize, change: u32| {
            let mut ours = theirs;
            ours[place] += change;
            verdict(&case, &bytes(ours), &bytes(theirs), whole)
                .failure
                .is_some()
        };
        assert!(!fails(0, 0));
        assert!(!fails(1, 1));
        assert!(fails(1, 5));
        assert!(fails(0, 1));
        assert!(fails(2, 1));
        assert!(fails(4, 1));
    }
}

#[test]
fn what_is_not_recorded_or_was_changed_since_or_failed_there_fails() {
    let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| ()));
    let case = case("integer/test", &[1], exact(), 4);
    let failure = |entries: &[Entry]| {
        let cases = [case.clone()];
        let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| ()));
        compare::all(&mut device, &cases, entries)[0]
            .1
            .failure
            .clone()
    };
    let entry = Entry {
        name: case.name.clone(),
        case: identity(&case),
        results: vec![Recorded::new(&exact(), &[0; 4], true)],
        error: None,
    };
    assert!(failure(&[]).unwrap().contains("not in the record"));
    let other = Entry {
        case: "of another text".into(),
        ..entry.clone()
    };
    assert!(failure(&[other]).unwrap().contains("another case"));
    let faulty = Entry {
        error: Some("illegal address".into()),
        results: Vec::new(),
        ..entry.clone()
    };
    assert!(failure(&[faulty]).is_some());
    // Results that are too few or too short.
    let ours = Ok(vec![vec![0; 4]]);
    let none = Entry {
        results: Vec::new(),
        ..entry.clone()
    };
    assert!(compare::compare(&case, &ours, &none).failure.is_some());
    let short = Entry {
        results: vec![Recorded::new(&exact(), &[0; 3], true)],
        ..entry.clone()
    };
    assert!(compare::compare(&case, &ours, &short).failure.is_some());
    // The kernel is not there: what the device says is the failure.
    let said = r3_differential::device::run(&mut device, &case).unwrap_err();
    let verdict = compare::compare(&case, &Err(said.to_string()), &entry);
    assert_eq!(verdict.failure, Some(said.to_string()));
}

#[test]
fn a_known_defect_that_is_gone_fails() {
    let case = case("integer/shift subtract", &[], exact(), 4);
    let gone = verdict(&case, &[0; 4], &[0; 4], true);
    assert!(gone.failure.unwrap().contains("take it off the list"));
    let there = verdict(&case, &[0; 4], &[1; 4], true);
    assert_eq!(there.failure, None);
    assert!(there.known.is_some());
}
