//! What profiling finds, against a reference that follows each byte through small random kernels.

use std::collections::BTreeSet;

use proptest::prelude::*;
use r3_archive::Archive;
use r3_archive::model::ImageKind;

use super::*;

/// Bytes of each of two buffers.
const LEN: usize = 24;
const BASES: [u64; 2] = [A, B];

/// What a kernel does with a byte; bytes are counted through both buffers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Set(usize, u8),
    Copy(usize, usize),
    Add(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    // Few bytes, so that steps meet.
    let byte = prop_oneof![0..4usize, 8..10usize, LEN..LEN + 4, LEN + 16..LEN + 18];
    (byte.clone(), byte, any::<u8>(), 0..4u8).prop_map(|(to, from, value, kind)| match kind {
        0 => Step::Set(to, value),
        1 | 2 => Step::Copy(to, from),
        _ => Step::Add(to, from),
    })
}

/// A byte after the launch: its value, and which bytes from before decide it.
#[derive(Clone)]
struct Byte {
    value: u8,
    of: BTreeSet<usize>,
}

fn follow(before: &[u8], steps: &[Step]) -> (Vec<Byte>, Vec<bool>) {
    let mut bytes: Vec<Byte> = before
        .iter()
        .enumerate()
        .map(|(at, value)| Byte {
            value: *value,
            of: [at].into(),
        })
        .collect();
    let mut written = vec![false; before.len()];
    for step in steps {
        let (to, byte) = match *step {
            Step::Set(to, value) => (
                to,
                Byte {
                    value,
                    of: BTreeSet::new(),
                },
            ),
            Step::Copy(to, from) => (to, bytes[from].clone()),
            Step::Add(to, from) => {
                let mut byte = bytes[to].clone();
                byte.value = byte.value.wrapping_add(bytes[from].value);
                byte.of.extend(&bytes[from].of);
                (to, byte)
            }
        };
        bytes[to] = byte;
        written[to] = true;
    }
    (bytes, written)
}

/// The bytes that are to be poisoned.
fn reference(before: &[u8], steps: &[Step]) -> BTreeSet<usize> {
    let (after, written) = follow(before, steps);
    let of = |buffer: usize| LEN * buffer..LEN * (buffer + 1);
    let reads = |at: usize, from: &BTreeSet<usize>| !after[at].of.is_disjoint(from);
    let mut masks = Vec::new();
    for buffer in 0..2 {
        let own: BTreeSet<usize> = of(buffer).collect();
        let others_read = |from: &BTreeSet<usize>| of(1 - buffer).any(|at| reads(at, from));
        let mut mask = BTreeSet::new();
        if !others_read(&own) {
            mask.extend(of(buffer).filter(|at| written[*at] && !reads(*at, &own)));
        }
        let changed: BTreeSet<usize> = of(buffer)
            .filter(|at| after[*at].value != before[*at])
            .collect();
        let missed: BTreeSet<usize> = changed.difference(&mask).copied().collect();
        if !others_read(&missed) {
            mask.extend(missed.iter().filter(|at| !reads(**at, &missed)));
        }
        for element in of(buffer).step_by(8) {
            let element = element..element + 8;
            if element
                .clone()
                .any(|at| changed.contains(&at) && !mask.contains(&at))
            {
                mask.retain(|at| !element.contains(at));
            }
        }
        masks.push(mask);
    }
    let stands = |mask: &BTreeSet<usize>| (0..2 * LEN).all(|at| !reads(at, mask));
    let all: BTreeSet<usize> = masks.iter().flatten().copied().collect();
    if stands(&all) {
        return all;
    }
    let mut kept = BTreeSet::new();
    for mask in masks {
        let more: BTreeSet<usize> = kept.union(&mask).copied().collect();
        if stands(&more) {
            kept = more;
        }
    }
    kept
}

fn ptx(steps: &[Step]) -> String {
    let at = |byte: usize| format!("mov.u64 %a, {};", BASES[byte / LEN] + (byte % LEN) as u64);
    let load =
        |register: &str, byte: usize| format!("{}\nld.global.u8 {register}, [%a];\n", at(byte));
    let store = |byte: usize| format!("{}\nst.global.u8 [%a], %x;\n", at(byte));
    let body: String = steps
        .iter()
        .map(|step| match *step {
            Step::Set(to, value) => format!("mov.u16 %x, {value};\n{}", store(to)),
            Step::Copy(to, from) => load("%x", from) + &store(to),
            Step::Add(to, from) => {
                load("%x", from) + &load("%y", to) + "add.u16 %x, %x, %y;\n" + &store(to)
            }
        })
        .collect();
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n\
         .visible .entry kernel(.param .u64 kernel_param_0)\n{{\n\
         .reg .b64 %a;\n.reg .b16 %x, %y;\n{body}ret;\n}}\n"
    )
}

fn archive(before: &[u8], steps: &[Step]) -> Archive {
    let (after, _) = follow(before, steps);
    let after: Vec<u8> = after.into_iter().map(|byte| byte.value).collect();
    let mut archive = TestArchive::with_code(ptx(steps).as_bytes(), ImageKind::Ptx);
    let regions: Vec<TestRegion> = BASES
        .iter()
        .enumerate()
        .map(|(buffer, base)| {
            let id = buffer as u64 + 1;
            archive.allocation(id, *base, LEN as u64, AllocationKind::Device);
            let of = LEN * buffer..LEN * (buffer + 1);
            TestRegion::memory(id, *base, before[of.clone()].to_vec(), after[of].to_vec())
        })
        .collect();
    archive.launch(&regions);
    archive.open()
}

/// A launch that copies one byte.
pub fn copying() -> Archive {
    archive(&[7; 2 * LEN], &[Step::Set(0, 9), Step::Copy(LEN, 0)])
}

/// The bytes that a launch that is ready has poisoned.
fn poisoned(resident: &Resident<'_>) -> BTreeSet<usize> {
    let kept = &resident.launches[&LaunchId(1)];
    let mut found = BTreeSet::new();
    for piece in &kept.pieces {
        let first = piece.region * LEN + piece.offset as usize;
        for at in 0..piece.len as usize {
            let is = match piece.mask {
                kept::Mask::None => false,
                kept::Mask::All => true,
                kept::Mask::Bits(bits) => kept.mask[bits as usize + at / 8] >> (at % 8) & 1 == 1,
            };
            if is {
                found.insert(first + at);
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn masks_are_those_of_a_reference_byte_by_byte(
        before in prop::collection::vec(any::<u8>(), 2 * LEN),
        steps in prop::collection::vec(step(), 1..5),
    ) {
        let archive = archive(&before, &steps);
        let mut device = cpu();
        let mut resident = Resident::new(&archive, &mut device, options());
        let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
        let expected = reference(&before, &steps);
        let (after, _) = follow(&before, &steps);
        let changes = after.iter().zip(&before).any(|(after, before)| after.value != *before);
        prop_assert_eq!(
            facts.unusable.is_none(),
            changes || !expected.is_empty(),
            "{:?}",
            facts.unusable
        );
        if facts.unusable.is_none() {
            prop_assert_eq!(poisoned(&resident), expected);
            let bound = bind(&mut resident, 1, None);
            for key in 1..4 {
                let judgement = judge(&mut resident, &bound, key);
                prop_assert!(judgement.is_right(), "{:?}", judgement);
            }
        }
    }
}
