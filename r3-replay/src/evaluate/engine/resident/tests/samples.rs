//! Launches that were captured on a GPU, on the CPU device.

use r3_archive::Archive;

use super::*;

fn sample(name: &str) -> Archive {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives/");
    Archive::open(format!("{folder}{name}.r3")).unwrap()
}

/// Makes the launches of a sample ready, and runs the original of each usable one over and over, in turns.
fn over_and_over(
    name: &str,
    most: usize,
    rounds: u64,
    how: ResidentOptions,
) -> Vec<std::rc::Rc<Facts>> {
    let archive = sample(name);
    let mut device = cpu();
    let mut resident = Resident::new(&archive, &mut device, how);
    let ids: Vec<LaunchId> = archive
        .launch_heads()
        .iter()
        .map(|head| head.id)
        .take(most)
        .collect();
    resident.reserve(ids.iter().copied()).unwrap();
    let mut all = Vec::new();
    let mut bounds = Vec::new();
    for id in ids {
        let facts = resident.ready(id, &Nobody).unwrap();
        if facts.unusable.is_none() {
            let shape = recorded_of(&facts);
            bounds.push(resident.bind(id, None, &shape).unwrap());
        }
        all.push(facts);
    }
    for round in 0..rounds {
        for bound in &bounds {
            let judgement = judge(&mut resident, bound, round + 1);
            assert!(judgement.is_right(), "{name}: {judgement:?}");
        }
    }
    for bound in bounds {
        resident.unbind(bound).unwrap();
    }
    all
}

fn usable(name: &str, most: usize, rounds: u64) -> Vec<std::rc::Rc<Facts>> {
    let all = over_and_over(name, most, rounds, options());
    for facts in &all {
        assert_eq!(facts.unusable, None, "{name} {}", facts.launch);
        assert!(facts.written + facts.changed_outside > 0);
    }
    all
}

#[test]
fn what_is_found_out_of_the_samples() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives/");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    let mut text = String::new();
    for name in names {
        for facts in over_and_over(&name, 2, 1, options()) {
            text += &format!("{name} {}:", facts.launch);
            match &facts.unusable {
                Some(why) => text += &format!(" {}", why.split(':').next().unwrap()),
                None if facts.as_recorded => {}
                None => text += " (not as recorded)",
            }
            text += "\n";
            for buffer in &facts.buffers {
                text += &format!("    {}: {:?}", buffer.name.shown(), buffer.class);
                if buffer.written > 0 {
                    text += &format!(", {} of {} bytes", buffer.written, buffer.len);
                }
                text += "\n";
            }
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn saxpy() {
    let all = usable("saxpy", 3, 30);
    assert!(all[0].deterministic);
}

#[test]
fn memory_of_the_host_and_managed_memory() {
    usable("host_mapped", 2, 5);
    usable("managed", 2, 5);
}

#[test]
fn words_that_point_to_variables_and_to_memory() {
    usable("global_pointers", 3, 20);
    usable("pointer_chase", 2, 10);
}

#[test]
fn memory_that_lies_elsewhere_than_it_was_recorded() {
    let how = ResidentOptions {
        addresses: AddressMode::Remap,
        ..options()
    };
    for name in ["global_pointers", "pointer_chase"] {
        for facts in over_and_over(name, 2, 5, how.clone()) {
            assert_eq!(facts.unusable, None, "{name}");
        }
    }
}

#[test]
fn large_parameters_and_reductions() {
    usable("large_params", 2, 10);
    usable("reduction", 2, 10);
}

#[test]
fn what_is_not_poisoned_is_told() {
    let none = ResidentOptions {
        most_poisoned: 0,
        ..options()
    };
    for name in ["saxpy", "pointer_chase"] {
        let all = over_and_over(name, 1, 1, none.clone());
        let told = |note: &String| note.contains("not poisoned: 0 buffers");
        assert!(all[0].notes.iter().any(told), "{name}: {:?}", all[0].notes);
        assert_eq!(all[0].written, 0);
    }
}
