use r3_replay::remix::pairs::Ratio;

use super::population::Origin;
use super::*;
use crate::elites::{Described, Elite, GridSettings};
use crate::evolve::variant::{Operator, Variant, VariantNumber};

fn elite(number: i64, tokens: u64, median: f64) -> Elite {
    Elite {
        number: VariantNumber(number),
        ratio: Ratio {
            median,
            low: median,
            high: median,
            confidence: 1.0,
        },
        described: Described {
            tokens,
            ..Described::default()
        },
    }
}

fn settings(count: u32, topology: Topology) -> Settings {
    Settings {
        count,
        grid: GridSettings {
            axes: vec!["tokens:10".parse().unwrap()],
        },
        migration: Migration {
            schedule: Schedule::Slots(10),
            topology,
            count: 2,
        },
        ..Settings::default()
    }
}

fn islands(count: u32, topology: Topology) -> Islands {
    let bus = Box::new(LocalBus::new(count));
    Islands::new(&settings(count, topology), true, 42, bus).unwrap()
}

fn text(number: VariantNumber) -> Option<(Variant, Option<crate::space::Point>)> {
    let variant = Variant {
        text: format!("variant {}", number.0),
        launch: Default::default(),
    };
    Some((variant, None))
}

#[test]
fn variants_live_on_the_islands_that_made_them_and_on_all_of_them() {
    let mut all = islands(4, Topology::Ring);
    all.found(&elite(1, 100, 1.0)).unwrap();
    for slot in 0..40u64 {
        let island = all.of_slot(slot);
        all.island_mut(island).unwrap().opened();
        let number = i64::try_from(slot).unwrap() + 2;
        all.insert(island, elite(number, 100 + slot, 1.0 - slot as f64 / 100.0))
            .unwrap();
    }
    let occupancy = all.occupancy();
    for one in &occupancy {
        assert_eq!((one.opened, one.born, one.arrived), (10, 10, 0), "{one:?}");
        assert!(one.own_elites > 5, "{one:?}");
    }
    // Nobody lives on two islands but the founder.
    for number in 2..=41 {
        let homes = all
            .iter()
            .filter(|island| island.grid.get(VariantNumber(number)).is_some());
        assert_eq!(homes.count(), 1);
    }
    assert!(
        all.iter()
            .all(|island| island.origin(VariantNumber(1)) == Some(Origin::Founder))
    );
}

#[test]
fn an_island_that_does_not_exist_is_an_error_and_not_island_0() {
    let mut all = islands(2, Topology::Ring);
    let error = all.insert(IslandNumber(2), elite(1, 1, 1.0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no island 2: the run has 2, from 0"
    );
    assert_eq!(all.occupancy()[0].filled, 0);
    let none = Islands::new(
        &settings(0, Topology::Ring),
        true,
        1,
        Box::new(LocalBus::new(0)),
    );
    assert!(matches!(none.err(), Some(IslandError::Count(0))));
}

#[test]
fn the_best_of_each_island_travels_one_step_and_stays_where_it_was() {
    let mut all = islands(3, Topology::Ring);
    for island in 0..3 {
        let number = i64::from(island) + 1;
        let median = 0.9 - f64::from(island) / 10.0;
        all.insert(
            IslandNumber(island),
            elite(number, 10 * number as u64, median),
        )
        .unwrap();
    }
    assert!(!all.due(9, 0.0) && all.due(10, 0.0));
    let (moved, errors) = all.migrate(&text);
    assert!(errors.is_empty());
    let ways: Vec<_> = moved
        .iter()
        .map(|one| (one.number.0, one.from.0, one.to.0))
        .collect();
    // One step each, although island 1 was ashore before island 2 looked.
    assert_eq!(ways, [(3, 2, 0), (1, 0, 1), (2, 1, 2)]);
    assert!(!all.due(19, 0.0) && all.due(20, 0.0));
    let there = |island: u32| -> Vec<i64> {
        let island = all.island(IslandNumber(island)).unwrap();
        island.grid.members().map(|one| one.number.0).collect()
    };
    assert_eq!(
        [there(0), there(1), there(2)],
        [vec![1, 3], vec![1, 2], vec![2, 3]]
    );
    let one = &all.occupancy()[0];
    assert_eq!(
        (one.born, one.arrived, one.best),
        (1, 1, Some((VariantNumber(3), 0.7)))
    );
}

#[test]
fn a_migrant_that_is_known_does_not_become_a_second_one() {
    let mut all = islands(2, Topology::Ring);
    all.insert(IslandNumber(0), elite(1, 10, 0.9)).unwrap();
    for _ in 0..5 {
        all.migrate(&text);
    }
    let occupancy = all.occupancy();
    assert_eq!((occupancy[0].born, occupancy[0].arrived), (1, 0));
    assert_eq!((occupancy[1].born, occupancy[1].arrived), (0, 1));
    // A new time holds wherever it lives, and one that is wrong is gone everywhere.
    all.insert(IslandNumber(0), elite(1, 10, 0.8)).unwrap();
    assert_eq!(all.occupancy()[1].best, Some((VariantNumber(1), 0.8)));
    assert!(all.remove(VariantNumber(1)));
    assert!(
        all.occupancy()
            .iter()
            .all(|one| one.filled == 0 && one.arrived == 0)
    );
}

#[test]
fn migration_is_a_function_of_seed_round_and_grids() {
    let run = || {
        let mut all = islands(5, Topology::Random);
        for number in 1..=50 {
            let island = all.of_slot(number as u64);
            all.insert(island, elite(number, number as u64, 1.0 / number as f64))
                .unwrap();
        }
        (0..4)
            .flat_map(|_| all.migrate(&text).0)
            .collect::<Vec<_>>()
    };
    let moved = run();
    assert!(!moved.is_empty());
    assert_eq!(moved, run());
}

#[test]
fn a_text_that_is_missing_and_a_bus_that_fails_stop_nothing() {
    struct Broken;
    impl Bus for Broken {
        fn send(&mut self, migrant: Migrant) -> Result<(), BusError> {
            Err(BusError::Failed {
                variant: migrant.elite.number.0,
                island: migrant.to.0,
                reason: "nobody listens".to_owned(),
            })
        }
        fn receive(&mut self, _: IslandNumber) -> Vec<Migrant> {
            Vec::new()
        }
    }
    let mut all = Islands::new(&settings(2, Topology::Ring), true, 1, Box::new(Broken)).unwrap();
    all.insert(IslandNumber(0), elite(1, 10, 0.9)).unwrap();
    let (moved, errors) = all.migrate(&text);
    assert!(moved.is_empty());
    assert_eq!(
        errors[0].to_string(),
        "variant 1 could not be sent to island 1: nobody listens"
    );
    let (_, errors) = all.migrate(&|_| None);
    assert!(
        errors[0].to_string().contains("its text is not there"),
        "{errors:?}"
    );
}

#[test]
fn what_differs_from_island_to_island_is_repeated() {
    let mut settings = settings(3, Topology::Ring);
    settings.each = vec![
        IslandSettings {
            models: vec!["small".to_owned()],
            operators: vec![Operator::Rewrite],
        },
        IslandSettings::default(),
    ];
    let all = Islands::new(&settings, true, 1, Box::new(LocalBus::new(3))).unwrap();
    let uses: Vec<_> = all
        .iter()
        .map(|island| (island.asks("large"), island.uses(Operator::Improve)))
        .collect();
    assert_eq!(uses, [(false, false), (true, true), (false, false)]);
}

#[test]
fn streams_of_slots_and_purposes_are_apart() {
    let first = |seed, slot, purpose| stream(seed, slot, purpose).next();
    let all = [
        first(1, 1, "a"),
        first(2, 1, "a"),
        first(1, 2, "a"),
        first(1, 1, "b"),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one));
    }
    assert_eq!(first(1, 1, "a"), all[0]);
}
