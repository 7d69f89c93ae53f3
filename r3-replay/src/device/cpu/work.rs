//! What a launch did, out of the interpreter's report.

use std::time::Duration;

use r3_emu::{Class, Race, Report};

use crate::device::Work;

/// Classes and what they are called, in the order of tables.
const CLASSES: [(Class, &str); Class::COUNT] = [
    (Class::Alu, "alu"),
    (Class::Wide, "wide"),
    (Class::Double, "double"),
    (Class::Special, "special"),
    (Class::Convert, "convert"),
    (Class::Global, "global"),
    (Class::Shared, "shared"),
    (Class::Local, "local"),
    (Class::Atomic, "atomic"),
    (Class::Warp, "warp"),
    (Class::Barrier, "barrier"),
    (Class::Control, "control"),
    (Class::Matrix, "matrix"),
    (Class::Texture, "texture"),
    (Class::Other, "other"),
];

/// Translates a report.
pub fn of(report: &Report, wall: Duration) -> Work {
    let count = |class: Class| {
        report
            .counts
            .by_class
            .get(class as usize)
            .copied()
            .unwrap_or(0)
    };
    Work {
        cost: report.cost(),
        warp_instructions: CLASSES
            .iter()
            .map(|(class, name)| (*name, count(*class)))
            .collect(),
        thread_instructions: report.thread_instructions,
        global_sectors: report.counts.global_sectors,
        bank_conflicts: report.counts.bank_conflicts,
        blocks: report.blocks,
        races: report.races.iter().map(race).collect(),
        wall,
    }
}

fn race(race: &Race) -> String {
    let place = |[x, y, z]: [u32; 3]| format!("({x},{y},{z})");
    let [one, other] = race.threads;
    let does = |writes: bool| if writes { "writes" } else { "reads" };
    format!(
        "race on shared memory at offset {:#x}, block {}: thread {} {} at line {}, thread {} {} at line {}, \
         and no barrier is between",
        race.offset,
        place(race.block),
        place(one),
        does(race.writes[0]),
        race.pos[0].line,
        place(other),
        does(race.writes[1]),
        race.pos[1].line,
    )
}
