//! Memory of every family is tracked, and stays the program's (interception.md, section 4, cases 33 to 44).

use r3_archive::model::AllocationKind;
use r3_tests::{Bed, recorded_by_kernel, same_with_r3};

/// The program ran as before, and its launches verify; the kinds of allocations that it recorded.
fn family(name: &str) -> (Bed, Vec<AllocationKind>) {
    let (bed, _) = same_with_r3("memory", &[name], |program| program);
    let archive = bed.archive();
    assert!(
        !recorded_by_kernel(&archive).is_empty(),
        "{name}: nothing is recorded"
    );
    let kinds = archive
        .allocations()
        .iter()
        .map(|allocation| allocation.kind)
        .collect();
    bed.verify();
    (bed, kinds)
}

/// Cases 34, 41: each family of allocations.
#[test]
fn every_family_of_allocations_is_recorded() {
    use AllocationKind::*;
    for (name, kind) in [
        ("device", Device),
        ("middle", Device),
        ("pitched", Pitched),
        ("managed", Managed),
        ("async", Async),
        ("pool", Async),
        ("mapped", Mapped),
        ("host", Host),
        ("host_alloc", Host),
        ("registered", HostRegistered),
        ("ipc", Ipc),
    ] {
        let (_bed, kinds) = family(name);
        assert!(kinds.contains(&kind), "{name}: {kinds:?}");
    }
}

/// What the kernel wrote is there, and what it left alone too.
#[test]
fn the_bytes_before_and_after_are_those_of_the_launch() {
    let (bed, _) = family("middle");
    let archive = bed.archive();
    let launch = &archive.launches()[0];
    let address = launch.pointers[0].address;
    let (index, region) = launch
        .before
        .regions
        .iter()
        .enumerate()
        .find(|(_, region)| (region.address..region.address + region.len).contains(&address))
        .expect("the argument's memory is in the snapshot");
    assert_eq!(region.len, 3 * 4096, "the whole allocation");
    let offset = address - region.address;
    assert_eq!(offset, 4096);
    let before = archive
        .region_before(launch, index, offset..offset + 4096)
        .expect("readable");
    let after = archive
        .region_after(launch, index, offset..offset + 4096)
        .expect("readable");
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect()
    };
    assert_eq!(words(&before), [1; 1024]);
    assert_eq!(words(&after)[..1023], [7; 1023]);
    assert_eq!(words(&after)[1023], 1);
}

/// Memory of one family freed by the function of another, which is legal.
#[test]
fn memory_may_be_freed_by_the_other_family() {
    family("mixed_free");
}

/// Case 40: an address that is used again is another allocation, with other contents.
#[test]
fn an_address_that_is_used_again_is_another_allocation() {
    let (bed, _) = family("reused");
    let archive = bed.archive();
    let lengths: std::collections::BTreeSet<_> = archive
        .launches()
        .iter()
        .filter_map(|launch| launch.before.regions.iter().map(|region| region.len).max())
        .collect();
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [4096, 8192, 12288]);
}

/// One piece of memory under two addresses.
#[test]
fn memory_that_is_mapped_twice_is_recorded() {
    let (bed, _) = same_with_r3("memory", &["mapped_twice"], |program| program);
    assert_eq!(bed.archive().launches().len(), 2);
}

/// Only what a launch changed is stored with it.
#[test]
fn large_memory_is_recorded_by_its_changes() {
    let (bed, _) = family("large");
    let archive = bed.archive();
    for launch in archive.launches() {
        assert!(
            launch.after.changes.len() <= 2,
            "{} changed chunks",
            launch.after.changes.len()
        );
    }
    assert!(archive.file_len() < 1 << 20, "{} bytes", archive.file_len());
}

/// The same where the kernel that finds the changes cannot be loaded.
#[test]
fn large_memory_is_recorded_without_fingerprints_too() {
    let (bed, _) = same_with_r3("memory", &["large"], |program| {
        // The first module is the program's own.
        program.layer("FAIL", "cuModuleLoadData:2+:200")
    });
    assert_eq!(bed.archive().launches().len(), 2);
    bed.verify();
}

/// Cases 33, 34, 35, 37, 38, 39: the driver's answers, for pointers that it knows and that it does
/// not, come back unchanged. (That IPC handles and RDMA-capable mappings still work is in the
/// families `ipc` and `mapped`.)
#[test]
fn the_drivers_answers_come_back_unchanged() {
    let (bed, _) = same_with_r3("memory", &["wrong"], |program| program);
    assert!(
        bed.archive_paths().is_empty(),
        "a program without launches leaves no archive"
    );
}

/// Memory that no call made known: the launch runs, and the archive says what is missing.
#[test]
fn a_pointer_that_nobody_knows_does_no_harm() {
    let (bed, _) = same_with_r3("memory", &["untracked"], |program| {
        program.env("SOFTCUDA_PAGEABLE", "1")
    });
    let archive = bed.archive();
    assert_eq!(archive.launches().len(), 1);
}

/// Case 36: the device of an allocation is the one that it was made on. Also contexts that come and
/// go, and modules that are loaded again.
#[test]
fn contexts_and_devices_are_kept_apart() {
    let (bed, _) = same_with_r3("contexts", &[], |program| {
        program.env("SOFTCUDA_DEVICES", "2")
    });
    let archive = bed.archive();
    let mut devices: Vec<_> = archive
        .devices()
        .iter()
        .map(|device| device.ordinal)
        .collect();
    devices.sort_unstable();
    assert_eq!(devices, [0, 1]);
    for launch in archive.launches() {
        for pointer in &launch.pointers {
            let allocation = archive
                .allocation(pointer.allocation)
                .expect("its allocation");
            assert_eq!(allocation.device, launch.device);
        }
    }
    let run = bed
        .replay(&["verify", &bed.archive_paths()[0].to_string_lossy()])
        .env("SOFTCUDA_DEVICES", "2")
        .run();
    assert_eq!(run.end, r3_tests::End::Exit(0), "{run}");
}

/// Case 42: no lock is held across a driver call: two threads can be in two calls at a time. (The
/// driver lets neither return before the other is in.)
#[test]
fn no_lock_is_held_across_a_driver_call() {
    for [one, other] in [
        ["cuMemAlloc_v2", "cuLaunchKernel"],
        ["cuMemAllocAsync", "cuModuleLoadData"],
        ["cuMemFree_v2", "cuMemAlloc_v2"],
        ["cuLaunchKernel", "cuModuleLoadData"],
        ["cuMemFree_v2", "cuLaunchKernel"],
    ] {
        for launches in ["all", "1000"] {
            same_with_r3("meeting", &[one, other], |program| {
                let program = program.layer("MEET", format!("{one},{other}"));
                program.env("R3_LAUNCHES", launches)
            });
        }
    }
}

/// Case 44: kernels without memory.
#[test]
fn a_kernel_without_memory_is_recorded() {
    let bed = Bed::new();
    bed.recorded("triggers").args(&["profiler"]).run();
    assert_eq!(bed.archive().launches().len(), 6);
    let run = bed
        .replay(&["verify", &bed.archive_paths()[0].to_string_lossy()])
        .run();
    assert!(!run.stdout.contains("FAILED"), "{run}");
}
