use std::collections::BTreeMap;

use proptest::prelude::*;
use r3_codegen::passes::Random;
use r3_replay::evaluate::outcome::Behaviour;
use r3_replay::remix::pairs::Ratio;

use super::*;
use crate::evolve::variant::VariantNumber;

fn elite(number: i64, tokens: u64, distance: f64, median: f64) -> Elite {
    Elite {
        number: VariantNumber(number),
        ratio: Ratio {
            median,
            low: median * 0.99,
            high: median * 1.01,
            confidence: 0.95,
        },
        described: Described {
            tokens,
            distance,
            behaviour: None,
        },
    }
}

fn grid(axes: &[&str], counts: bool) -> Grid {
    let axes = axes.iter().map(|axis| axis.parse().unwrap()).collect();
    Grid::new(&GridSettings { axes }, counts).unwrap()
}

fn numbers(of: &[VariantNumber]) -> Vec<i64> {
    of.iter().map(|number| number.0).collect()
}

fn elites(grid: &Grid) -> Vec<i64> {
    grid.cells().map(|(_, elite)| elite.number.0).collect()
}

#[test]
fn an_elite_gives_way_to_a_better_one_only() {
    let mut grid = grid(&["tokens:100,"], true);
    let insert = |grid: &mut Grid, number, median| {
        grid.insert(elite(number, 50, 0.0, median)).unwrap().entered
    };
    assert_eq!(insert(&mut grid, 1, 1.0), Entered::Empty);
    assert_eq!(insert(&mut grid, 2, 1.1), Entered::No);
    assert_eq!(insert(&mut grid, 3, 1.0), Entered::No);
    let than = VariantNumber(1);
    assert_eq!(
        insert(&mut grid, 4, 0.9),
        Entered::Better { than, median: 1.0 }
    );
    assert_eq!(grid.filled(), 1);
    assert_eq!(grid.members().count(), 4);
}

#[test]
fn where_time_is_measured_a_difference_within_the_noise_is_none() {
    let mut grid = grid(&["tokens:100,"], false);
    grid.insert(elite(1, 50, 0.0, 1.0)).unwrap();
    // Its interval reaches to 1.0 and beyond.
    let within = grid.insert(elite(2, 50, 0.0, 0.995)).unwrap();
    assert_eq!(within.entered, Entered::No);
    assert!(
        grid.insert(elite(3, 50, 0.0, 0.98))
            .unwrap()
            .entered
            .entered()
    );
    assert_eq!(elites(&grid), [3]);
}

#[test]
fn an_elite_whose_cell_is_joined_with_another_comes_back_when_they_are_parted() {
    let mut grid = grid(&["tokens:2"], true);
    grid.insert(elite(1, 10, 0.0, 0.5)).unwrap();
    grid.insert(elite(2, 20, 0.0, 0.9)).unwrap();
    assert_eq!(elites(&grid), [1, 2]);
    // The edge moves above 20: 1 and 2 are in one cell now, and 2 is the worse.
    grid.insert(elite(3, 30, 0.0, 0.8)).unwrap();
    let joined = grid.insert(elite(4, 40, 0.0, 0.95)).unwrap();
    assert_eq!(elites(&grid), [1, 3]);
    assert!(joined.displaced.is_empty() && grid.get(VariantNumber(2)).is_some());
    // Smaller ones move the edge down again: 2 is with 3, and next when that is taken out.
    for (number, tokens) in [(5, 1), (6, 2)] {
        grid.insert(elite(number, tokens, 0.0, 0.99)).unwrap();
    }
    assert_eq!(elites(&grid), [1, 3]);
    assert!(grid.remove(VariantNumber(3)));
    assert_eq!(elites(&grid), [1, 2]);
}

#[test]
fn a_displaced_elite_and_one_that_returns_are_named() {
    let mut grid = grid(&["tokens:2"], true);
    for (number, tokens, median) in [(1, 10, 0.5), (2, 20, 0.9)] {
        grid.insert(elite(number, tokens, 0.0, median)).unwrap();
    }
    // Three values in two bins: 10 and 20 | 30.
    let joined = grid.insert(elite(3, 30, 0.0, 0.8)).unwrap();
    assert_eq!(joined.entered, Entered::Empty);
    assert_eq!(numbers(&joined.displaced), [2]);
    // 5 and 10 | 20 and 30: the better of the last two stays.
    let parted = grid.insert(elite(4, 5, 0.0, 0.99)).unwrap();
    assert_eq!(
        (parted.entered, numbers(&parted.returned)),
        (Entered::No, vec![])
    );
    // 1, 5, 10 | 20, 30, with 3 taken out: 2 is back.
    grid.remove(VariantNumber(3));
    assert!(grid.is_elite(VariantNumber(2)));
}

#[test]
fn a_variant_that_is_measured_again_stays_one() {
    let mut grid = grid(&["tokens:100,"], true);
    grid.insert(elite(1, 50, 0.0, 0.9)).unwrap();
    grid.insert(elite(2, 50, 0.0, 0.8)).unwrap();
    let again = grid.insert(elite(1, 50, 0.0, 0.7)).unwrap();
    let than = VariantNumber(2);
    assert_eq!(again.entered, Entered::Better { than, median: 0.8 });
    assert_eq!((again.best, again.best_before), (true, Some(0.8)));
    assert_eq!(grid.members().count(), 2);
    // It was luck: the other is the elite again.
    let worse = grid.insert(elite(1, 50, 0.0, 0.85)).unwrap();
    assert_eq!(numbers(&worse.returned), [2]);
    assert_eq!(elites(&grid), [2]);
}

#[test]
fn one_that_turns_out_wrong_leaves_its_cell_to_the_next_best() {
    let mut grid = grid(&["tokens:100,"], true);
    for (number, median) in [(1, 1.0), (2, 0.9), (3, 0.5)] {
        grid.insert(elite(number, 50, 0.0, median)).unwrap();
    }
    assert!(grid.remove(VariantNumber(3)));
    assert!(!grid.remove(VariantNumber(3)));
    assert_eq!(elites(&grid), [2]);
}

#[test]
fn a_time_that_is_no_number_is_no_reason_to_keep_a_variant() {
    let mut grid = grid(&["tokens:100,", "distance:3"], true);
    for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let error = grid.insert(elite(1, 50, 0.0, bad)).unwrap_err();
        assert_eq!(error, NotAnElite::Time(1));
    }
    let error = grid.insert(elite(1, 50, f64::NAN, 1.0)).unwrap_err();
    assert!(error.to_string().contains("distance"), "{error}");
    assert_eq!(grid.filled(), 0);
}

#[test]
fn variants_of_which_a_descriptor_says_nothing_have_a_cell_of_their_own() {
    let mut grid = grid(&["tokens:100,", "registers:32,64"], true);
    grid.insert(elite(1, 50, 0.0, 1.0)).unwrap();
    let mut with = elite(2, 50, 0.0, 2.0);
    with.described.behaviour = Some(r3_replay::evaluate::outcome::Behaviour {
        registers: Some(40),
        ..Default::default()
    });
    let inserted = grid.insert(with).unwrap();
    assert_eq!(inserted.cell, Cell(vec![Some(0), Some(1)]));
    assert_eq!(grid.filled(), 2);
}

#[test]
fn a_target_is_empty_as_long_as_a_cell_is_and_then_far_from_the_best() {
    let mut grid = grid(&["tokens:10,20", "distance:0.5,"], true);
    let mut random = Random::new(1);
    assert_eq!(grid.target(&mut random).map(|target| target.parent), None);
    grid.insert(elite(1, 5, 0.1, 1.0)).unwrap();
    let places = [(15, 0.1), (25, 0.1), (5, 0.9), (15, 0.9), (25, 0.9)];
    for (number, (tokens, distance)) in (2..).zip(places) {
        let target = grid.target(&mut random).unwrap();
        assert!(target.empty && grid.elite(&target.cell).is_none());
        grid.insert(elite(number, tokens, distance, 1.0 + number as f64))
            .unwrap();
    }
    let target = grid.target(&mut random).unwrap();
    assert!(!target.empty);
    assert_eq!(target.parent, VariantNumber(6));
    let wanted: Vec<_> = target.wanted.iter().map(|one| (one.from, one.to)).collect();
    assert_eq!(wanted, [(Some(20.0), None), (Some(0.5), None)]);
}

#[test]
fn better_elites_are_parents_more_often_and_a_pair_is_of_two() {
    let mut grid = grid(&["tokens:10"], true);
    for number in 1..=8 {
        grid.insert(elite(number, 10 * number as u64, 0.0, number as f64))
            .unwrap();
    }
    let mut random = Random::new(7);
    let mut counts = [0; 9];
    for _ in 0..800 {
        let parent = grid.parent(&mut random).unwrap().number.0;
        counts[usize::try_from(parent).unwrap()] += 1;
        let (one, other) = grid.pair(&mut random).unwrap();
        assert_ne!(one.number, other.number);
    }
    assert!(
        counts[1] > 2 * counts[8] && counts[1..].iter().all(|count| *count > 0),
        "{counts:?}"
    );
}

#[test]
fn a_pair_needs_two_cells() {
    let mut grid = grid(&["tokens:100,"], true);
    let mut random = Random::new(7);
    assert!(grid.parent(&mut random).is_none() && grid.pair(&mut random).is_none());
    grid.insert(elite(1, 1, 0.0, 1.0)).unwrap();
    assert!(grid.pair(&mut random).is_none());
}

#[test]
fn examples_are_the_best_in_the_order_in_which_they_came() {
    let mut grid = grid(&["tokens:10"], true);
    for (number, median) in [(1, 1.0), (2, 0.4), (3, 0.9), (4, 0.5)] {
        grid.insert(elite(number, 10 * number as u64, 0.0, median))
            .unwrap();
    }
    let examples = grid.examples(2, &[VariantNumber(2)]);
    let examples: Vec<i64> = examples.iter().map(|one| one.number.0).collect();
    assert_eq!(examples, [3, 4]);
}

/// Offers in any order: tokens, distance and time, from small sets so that they meet often.
fn offers() -> impl Strategy<Value = Vec<Elite>> {
    let offer = (1u64..40, 0u32..10, 1u32..12);
    prop::collection::vec(offer, 1..60).prop_map(|all| {
        all.into_iter()
            .zip(1..)
            .map(|((tokens, distance, time), number)| {
                elite(
                    number,
                    tokens,
                    f64::from(distance) / 10.0,
                    f64::from(time) / 10.0,
                )
            })
            .collect()
    })
}

fn filled(offers: &[Elite], axes: &[&str], counts: bool) -> Grid {
    let mut grid = grid(axes, counts);
    for offer in offers {
        grid.insert(offer.clone()).unwrap();
    }
    grid
}

const AXES: [&[&str]; 3] = [
    &["tokens:5", "distance:4"],
    &["tokens:10,20,30", "distance:0.5,"],
    &["tokens:3"],
];

proptest! {
    #[test]
    fn where_time_is_counted_the_order_of_offers_does_not_matter(
        (offers, shuffled) in offers().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        axes in 0..AXES.len(),
    ) {
        let one = GridView::of(&filled(&offers, AXES[axes], true));
        let other = GridView::of(&filled(&shuffled, AXES[axes], true));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn no_cell_with_a_member_is_without_an_elite_and_none_is_worse_than_another_there(
        offers in offers(),
        axes in 0..AXES.len(),
        counts: bool,
    ) {
        let grid = filled(&offers, AXES[axes], counts);
        prop_assert_eq!(grid.members().count(), offers.len());
        for member in grid.members() {
            let cell = grid.cell_of(member.number).unwrap();
            let elite = grid.elite(&cell).unwrap();
            if counts {
                prop_assert!(elite.ratio.median <= member.ratio.median);
            } else if elite.number != member.number {
                // Nobody waits who is better beyond the noise than the elite.
                prop_assert!(member.ratio.high >= elite.ratio.median);
            }
        }
        prop_assert!(grid.filled() <= grid.size());
    }

    #[test]
    fn an_elite_is_lost_to_a_better_one_in_its_cell_only(
        offers in offers(),
        axes in 0..AXES.len(),
        counts: bool,
    ) {
        let mut grid = filled(&[], AXES[axes], counts);
        for offer in offers {
            let inserted = grid.insert(offer).unwrap();
            for lost in inserted.displaced {
                let cell = grid.cell_of(lost).unwrap();
                let there = grid.elite(&cell).unwrap();
                let lost = grid.get(lost).unwrap();
                let better = if counts {
                    there.ratio.median <= lost.ratio.median
                } else {
                    // Two cells became one, and the one that was there longer did not have to be better.
                    lost.ratio.high >= there.ratio.median
                };
                prop_assert!(better, "{there:?} {lost:?}");
            }
        }
    }

    #[test]
    fn the_best_of_all_is_an_elite_where_time_is_counted(offers in offers(), axes in 0..AXES.len()) {
        let grid = filled(&offers, AXES[axes], true);
        let least = offers.iter().map(|one| one.ratio.median).fold(f64::INFINITY, f64::min);
        prop_assert_eq!(grid.best().unwrap().ratio.median, least);
    }

    #[test]
    fn what_is_taken_out_of_a_grid_is_a_function_of_grid_and_stream(offers in offers(), seed: u64) {
        let grid = filled(&offers, AXES[0], true);
        let again = filled(&offers, AXES[0], true);
        let (mut one, mut other) = (Random::new(seed), Random::new(seed));
        for _ in 0..10 {
            prop_assert_eq!(grid.parent(&mut one), again.parent(&mut other));
            prop_assert_eq!(grid.pair(&mut one), again.pair(&mut other));
            prop_assert_eq!(grid.target(&mut one), again.target(&mut other));
        }
    }
}

/// Cells and elites from nothing but the members, in the order in which they came.
fn from_scratch(grid: &Grid, order: &[VariantNumber]) -> Vec<(Cell, VariantNumber)> {
    let mut again = Grid::new(
        &GridSettings {
            axes: grid.axes().to_vec(),
        },
        false,
    )
    .unwrap();
    // Edges first: then everybody lies where the end of the search has him.
    for number in order {
        again.insert(grid.get(*number).unwrap().clone()).unwrap();
    }
    let mut cells: BTreeMap<Cell, VariantNumber> = BTreeMap::new();
    for number in order {
        let elite = grid.get(*number).unwrap();
        let bins = grid.edges().iter().enumerate().map(|(axis, edges)| {
            let value = grid.value(axis, elite);
            value.map(|value| {
                u16::try_from(edges.iter().filter(|edge| **edge <= value).count()).unwrap()
            })
        });
        let cell = Cell(bins.collect());
        assert_eq!(grid.cell_of(*number).as_ref(), Some(&cell));
        assert_eq!(again.cell_of(*number).as_ref(), Some(&cell));
        let there = cells.get(&cell).map(|there| grid.get(*there).unwrap());
        if there.is_none_or(|there| elite.ratio.high < there.ratio.median) {
            cells.insert(cell, *number);
        }
    }
    cells.into_iter().collect()
}

#[test]
fn whatever_came_and_went_cells_are_those_that_its_members_make() {
    let mut random = Random::new(11);
    for axes in [
        vec!["tokens:10", "distance:10"],
        vec!["tokens:3", "registers:32,64", "width:4"],
    ] {
        let axes = axes.iter().map(|axis| axis.parse().unwrap()).collect();
        let mut grid = Grid::new(&GridSettings { axes }, false).unwrap();
        let mut order: Vec<VariantNumber> = Vec::new();
        for step in 0..600 {
            let number = VariantNumber(1 + random.below(200).cast_signed());
            if random.once_in(6) {
                assert_eq!(grid.remove(number), order.contains(&number));
                order.retain(|other| *other != number);
            } else {
                let median = 0.5 + random.below(1000) as f64 / 1000.0;
                let behaviour = Behaviour {
                    registers: (!random.once_in(5)).then(|| 24 + random.below(60) as u32),
                    widest_load: 4 << random.below(3),
                    ..Behaviour::default()
                };
                let described = Described {
                    tokens: 100 + random.below(40),
                    distance: random.below(10_000) as f64 / 10_000.0,
                    behaviour: (!random.once_in(7)).then_some(behaviour),
                };
                let ratio = Ratio {
                    median,
                    low: median - 0.02,
                    high: median + 0.02,
                    confidence: 0.95,
                };
                let elite = Elite {
                    number,
                    ratio,
                    described,
                };
                grid.insert(elite).unwrap();
                if !order.contains(&number) {
                    order.push(number);
                }
            }
            if step % 7 == 0 {
                let cells: Vec<_> = grid
                    .cells()
                    .map(|(cell, elite)| (cell.clone(), elite.number))
                    .collect();
                assert_eq!(cells, from_scratch(&grid, &order), "step {step}");
            }
        }
    }
}
