use r3_archive::model::{AllocationKind, LaunchId, LayoutSource, PointerWord};

use super::*;
use crate::testing::{TestArchive, TestRegion};

/// `kernel(int n, float *x, float *y)` and a structure with a pointer between two numbers.
const LAYOUT: [ParamLayout; 4] = [
    ParamLayout { offset: 0, size: 4 },
    ParamLayout { offset: 8, size: 8 },
    ParamLayout {
        offset: 16,
        size: 8,
    },
    ParamLayout {
        offset: 24,
        size: 24,
    },
];

const X: u64 = 0x7f00_0000_0200;
const Y: u64 = 0x7f00_0010_0000;
const Z: u64 = 0x7f00_0020_0000;

struct Given {
    n: u32,
    x: u64,
    y: u64,
    /// What the first word of Z's memory holds.
    word: u64,
}

fn archive(launches: &[Given]) -> (Archive, Vec<LaunchId>) {
    let mut archive = TestArchive::new();
    for (id, address) in [(1, X), (2, Y), (3, Z)] {
        archive.allocation(id, address, 0x1000, AllocationKind::Device);
    }
    let ids = launches
        .iter()
        .map(|given| {
            let mut z = vec![1; 0x1000];
            z[..8].copy_from_slice(&given.word.to_le_bytes());
            let regions = [
                TestRegion::memory(1, X, vec![1; 0x1000], vec![1; 0x1000]),
                TestRegion::memory(2, Y, vec![1; 0x1000], vec![1; 0x1000]),
                TestRegion::memory(3, Z, z.clone(), z),
            ];
            archive.launch_with(&regions, |launch| {
                let mut params = vec![0; 48];
                let words = [
                    (0, u64::from(given.n)),
                    (8, given.x),
                    (16, given.y),
                    (24, 7),
                    (32, Z),
                    (40, 9),
                ];
                for (offset, word) in words {
                    params[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
                }
                launch.params = params;
                launch.grid = [given.n / 256, 1, 1];
                launch.block = [256, 1, 1];
                launch.pointers = [(8, given.x), (16, given.y), (32, Z)]
                    .into_iter()
                    .map(|(offset, address)| PointerWord {
                        offset,
                        address,
                        allocation: AllocationId(match address {
                            address if address >= Z => 3,
                            address if address >= Y => 2,
                            _ => 1,
                        }),
                    })
                    .collect();
            })
        })
        .collect();
    (archive.open(), ids)
}

fn plain(n: u32) -> Given {
    Given {
        n,
        x: X,
        y: Y,
        word: 0,
    }
}

fn facts(archive: &Archive, launch: LaunchId, wanted: &str) -> Specialisation {
    let record = KernelRecord {
        layout: LayoutSource::Ptx,
        ..archive.kernels()[0].clone()
    };
    let kernel = Kernel {
        archive,
        record: &record,
        layout: &LAYOUT,
    };
    let launch = archive.load_launch(launch).unwrap();
    kernel.facts(&launch, &wanted.parse().unwrap()).unwrap()
}

#[test]
fn scalars_are_what_is_no_pointer_inside_of_structures_too() {
    let (archive, ids) = archive(&[plain(1024)]);
    let found = facts(&archive, ids[0], "scalars,grid,block");
    assert_eq!(
        found.params,
        [
            (0, 0, vec![0, 4, 0, 0]),
            (3, 0, vec![7, 0, 0, 0, 0, 0, 0, 0]),
            (3, 16, vec![9, 0, 0, 0, 0, 0, 0, 0]),
        ]
    );
    assert_eq!(
        (found.grid, found.block),
        (Some([4, 1, 1]), Some([256, 1, 1]))
    );
    assert_eq!((found.noalias, found.align), (vec![], vec![]));
    assert_eq!(facts(&archive, ids[0], "param:0").params.len(), 1);
}

#[test]
fn memory_is_disjoint_where_nothing_else_leads_to_it_in_any_launch() {
    let (one, ids) = archive(&[plain(1024)]);
    assert_eq!(facts(&one, ids[0], "noalias").noalias, [1, 2]);
    // Another launch is given one buffer twice, or has an address of it in memory.
    let twice = Given {
        y: X + 256,
        ..plain(1024)
    };
    let (two, ids) = archive(&[plain(1024), twice]);
    assert_eq!(facts(&two, ids[0], "noalias").noalias, [0u32; 0]);
    let linked = Given {
        word: X + 0xff8,
        ..plain(1024)
    };
    let (two, ids) = archive(&[plain(1024), linked]);
    assert_eq!(facts(&two, ids[0], "noalias").noalias, [2]);
}

#[test]
fn alignment_is_the_least_of_all_launches() {
    let odd = Given {
        y: Y + 4,
        ..plain(1024)
    };
    let (archive, ids) = archive(&[plain(1024), odd]);
    assert_eq!(facts(&archive, ids[0], "align").align, [(1, 256), (2, 4)]);
}

#[test]
fn a_guard_fails_for_a_launch_with_other_values() {
    let moved = Given {
        y: Y + 4,
        ..plain(2048)
    };
    let (archive, ids) = archive(&[plain(1024), moved]);
    let kernel = Kernel {
        archive: &archive,
        record: &archive.kernels()[0],
        layout: &LAYOUT,
    };
    let guards = [
        Guard::Param {
            index: 0,
            offset: 0,
            bytes: vec![0, 4, 0, 0],
        },
        Guard::Grid([4, 1, 1]),
        Guard::Block([256, 1, 1]),
        Guard::NoAlias { index: 2 },
        Guard::Align {
            index: 2,
            bytes: 16,
        },
    ];
    let told = |id| -> Vec<String> {
        let launch = archive.load_launch(id).unwrap();
        guards
            .iter()
            .filter_map(|guard| kernel.broken(guard, &launch).unwrap())
            .collect()
    };
    assert_eq!(told(ids[0]), [""; 0]);
    assert_eq!(
        told(ids[1]),
        [
            "parameter 0 = 1024 was wanted, 2048 is given",
            "the grid is [8, 1, 1]",
            "parameter 2 is 0x7f0000100004"
        ]
    );
}

#[test]
fn what_cannot_be_had_is_told() {
    let (archive, ids) = archive(&[plain(1024)]);
    let launch = archive.load_launch(ids[0]).unwrap();
    let told = |layout: &[ParamLayout], wanted: &str| {
        let kernel = Kernel {
            archive: &archive,
            record: &archive.kernels()[0],
            layout,
        };
        let wanted: Wanted = wanted.parse().unwrap();
        kernel.facts(&launch, &wanted).unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        [
            told(&LAYOUT, "param:1"),
            told(&LAYOUT, "param:4"),
            told(&[], "scalars"),
            "x".parse::<Wanted>().unwrap_err(),
        ]
        .join("\n"),
        @r"
    --specialize param:1: it is a pointer, whose value holds in the recorded process alone
    --specialize param:4: kernel has 4 parameters, counted from 0
    --specialize: the layout of the parameters of kernel is not known
    `x` is no fact: scalars, grid, block, noalias, align, all, or param:N with the number of a parameter, from 0
    "
    );
}
