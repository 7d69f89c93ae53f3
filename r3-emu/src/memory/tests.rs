use super::*;
use proptest::prelude::*;

const BASE: u64 = 0x7f12_3456_7000;

#[test]
fn a_huge_mapping_costs_nothing_until_it_is_touched() {
    let memory = Memory::new();
    memory.map(BASE, 100 << 30).unwrap();
    memory.write(BASE + (99 << 30), b"far").unwrap();
    let mut out = [1; 4];
    memory.read(BASE + (99 << 30), &mut out).unwrap();
    assert_eq!(&out, b"far\0");
}

#[test]
fn aligned_device_addresses_are_aligned_host_addresses() {
    let memory = Memory::new();
    for (address, len) in [(BASE + 0x230, 100), (BASE + 0x1030, 1 << 20)] {
        memory.map(address, len).unwrap();
        let host = memory.host(address, len).unwrap() as u64;
        assert_eq!((host ^ address) & 255, 0);
    }
}

#[test]
fn overlaps_wraps_and_windows_are_refused() {
    let memory = Memory::new();
    memory.map(BASE, 64).unwrap();
    for (address, len) in [(BASE, 64), (BASE - 1, 2), (BASE + 63, 1), (BASE - 8, 100)] {
        assert_eq!(
            memory.map(address, len),
            Err(MemoryError::InUse { address, len })
        );
    }
    memory.map(BASE - 8, 8).unwrap();
    memory.map(BASE + 64, 8).unwrap();
    for (address, len) in [(BASE + 100, 0), (u64::MAX - 2, 8), (window::SHARED_BASE, 8)] {
        assert!(matches!(
            memory.map(address, len),
            Err(MemoryError::Host { .. })
        ));
    }
}

#[test]
fn accesses_span_adjacent_mappings_but_no_holes() {
    let memory = Memory::new();
    memory.map(BASE, 10).unwrap();
    memory.map(BASE + 10, 7).unwrap();
    memory.map(BASE + 18, 4).unwrap();
    memory.write(BASE + 5, b"0123456789ab").unwrap();
    let mut out = [0; 12];
    memory.read(BASE + 5, &mut out).unwrap();
    assert_eq!(&out, b"0123456789ab");
    let missing = MemoryError::NotMapped {
        address: BASE + 10,
        len: 9,
    };
    assert_eq!(memory.write(BASE + 10, &[7; 9]), Err(missing));
    memory.read(BASE + 5, &mut out).unwrap();
    assert_eq!(
        &out, b"0123456789ab",
        "nothing is written when a part is missing"
    );
    assert_eq!(memory.host(BASE + 5, 12), None);
    assert!(memory.host(BASE + 5, 5).is_some());
}

#[test]
fn parts_of_own_mappings_go_away_and_only_whole_ones_of_the_callers() {
    let memory = Memory::new();
    memory.map(BASE, 300).unwrap();
    memory.write(BASE + 200, b"kept").unwrap();
    memory.unmap(BASE + 100, 50).unwrap();
    assert!(memory.read(BASE + 100, &mut [0]).is_err());
    assert_eq!(memory.mapping(BASE + 99), Some((BASE, 100)));
    assert_eq!(memory.mapping(BASE + 150), Some((BASE + 150, 150)));
    let mut out = [0; 4];
    memory.read(BASE + 200, &mut out).unwrap();
    assert_eq!(&out, b"kept");
    assert!(memory.unmap(BASE + 90, 20).is_err());

    let mut bytes = vec![0u64; 8];
    let host = bytes.as_mut_ptr().cast::<u8>();
    // SAFETY: the vector lives to the end of the test.
    unsafe { memory.map_host(host as u64, 64, host) }.unwrap();
    assert!(memory.unmap(host as u64, 8).is_err());
    memory.unmap(host as u64, 64).unwrap();
    // SAFETY: refused.
    let odd = unsafe { memory.map_host(BASE + 0x1001, 8, host) };
    assert!(matches!(odd, Err(MemoryError::Host { .. })));
}

#[test]
fn a_view_keeps_what_is_unmapped_and_finds_what_is_mapped_later() {
    let memory = Memory::new();
    memory.map(BASE, 1 << 20).unwrap();
    memory.write(BASE, &[42]).unwrap();
    let mut view = memory.view();
    assert!(view.locate(0, BASE, 1).is_some());
    memory.unmap(BASE, 1 << 20).unwrap();
    let mut out = [0];
    assert!(view.read(0, BASE, &mut out));
    assert_eq!(out, [42]);
    assert_eq!(view.locate(1, BASE + (1 << 30), 4), None);
    memory.map(BASE + (1 << 30), 4096).unwrap();
    assert!(view.locate(1, BASE + (1 << 30), 4).is_some());
}

#[test]
fn a_view_says_what_is_near() {
    let memory = Memory::new();
    memory.map(BASE, 4096).unwrap();
    memory.map(BASE + 0x10000, 256).unwrap();
    let mut view = memory.view();
    let texts = [4096, 4100, 0xfffc, -4i64, 4094, -(1 << 40)].map(|offset| {
        let text = view.nearby(BASE.wrapping_add_signed(offset));
        text.unwrap_or_else(|| "none".to_owned())
    });
    insta::assert_snapshot!(texts.join("\n"), @r"
    right behind the mapping 0x7f1234567000 of 4096 bytes
    4 bytes behind the mapping 0x7f1234567000 of 4096 bytes
    4 bytes before the mapping 0x7f1234577000 of 256 bytes
    4 bytes before the mapping 0x7f1234567000 of 4096 bytes
    starts 2 bytes before the end of the mapping 0x7f1234567000 of 4096 bytes
    none
    ");
    assert_eq!(
        view.nearby(8).as_deref(),
        Some("a null pointer, or a small offset from one")
    );
}

#[test]
fn mapping_while_others_read_is_safe() {
    let memory = Memory::new();
    memory.map(BASE, 4096).unwrap();
    memory.fill(BASE, 4096, 7).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let memory = memory.clone();
            scope.spawn(move || {
                let mut view = memory.view();
                for i in 0..300u64 {
                    let at = BASE + 0x100_0000 * (t + 1) + i * 0x2000;
                    memory.map(at, 0x1800).unwrap();
                    memory.fill(at, 0x1800, t as u8).unwrap();
                    let mut out = [0; 2];
                    assert!(view.read(i as usize, at + 0x17fe, &mut out));
                    assert_eq!(out, [t as u8; 2]);
                    assert!(view.read(0, BASE + i, &mut out));
                    assert_eq!(out, [7; 2]);
                    memory.unmap(at, 0x1800).unwrap();
                }
            });
        }
    });
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Copy(u64, u64, u64),
    Fill(u64, u64, u8),
    Unmap(u64, u64),
    Map(u64, u64),
    Read(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..220u64;
    let len = 1..60u64;
    prop_oneof![
        (at.clone(), proptest::collection::vec(any::<u8>(), 1..60))
            .prop_map(|(a, b)| Step::Write(a, b)),
        (at.clone(), at.clone(), len.clone()).prop_map(|(a, b, n)| Step::Copy(a, b, n)),
        (at.clone(), len.clone(), any::<u8>()).prop_map(|(a, n, b)| Step::Fill(a, n, b)),
        (at.clone(), len.clone()).prop_map(|(a, n)| Step::Unmap(a, n)),
        (at.clone(), len.clone()).prop_map(|(a, n)| Step::Map(a, n)),
        (at, len).prop_map(|(a, n)| Step::Read(a, n)),
    ]
}

proptest! {
    /// The model: one optional byte and the number of its mapping for each address.
    #[test]
    fn memory_behaves_like_an_array(steps in proptest::collection::vec(step(), 1..60)) {
        let memory = Memory::new();
        let mut model: Vec<Option<(u8, u32)>> = vec![None; 300];
        let mut next = 0;
        for (address, len) in [(0, 50), (50, 30), (90, 100)] {
            memory.map(BASE + address, len).unwrap();
            next += 1;
            model[address as usize..(address + len) as usize].fill(Some((0, next)));
        }
        for step in steps {
            let at = |a: u64, n: u64| a as usize..(a + n) as usize;
            let full = |m: &[Option<(u8, u32)>], a, n| m[at(a, n)].iter().all(Option::is_some);
            let set = |m: &mut [Option<(u8, u32)>], a: u64, bytes: &[u8]| {
                for (slot, b) in m[at(a, bytes.len() as u64)].iter_mut().zip(bytes) {
                    slot.as_mut().unwrap().0 = *b;
                }
            };
            match step {
                Step::Write(a, bytes) => {
                    let ok = memory.write(BASE + a, &bytes).is_ok();
                    prop_assert_eq!(ok, full(&model, a, bytes.len() as u64));
                    if ok { set(&mut model, a, &bytes) }
                }
                Step::Copy(from, to, n) => {
                    let ok = memory.copy(BASE + from, BASE + to, n).is_ok();
                    prop_assert_eq!(ok, full(&model, from, n) && full(&model, to, n));
                    if ok {
                        let bytes: Vec<u8> = model[at(from, n)].iter().map(|b| b.unwrap().0).collect();
                        set(&mut model, to, &bytes);
                    }
                }
                Step::Fill(a, n, b) => {
                    let ok = memory.fill(BASE + a, n, b).is_ok();
                    prop_assert_eq!(ok, full(&model, a, n));
                    if ok { set(&mut model, a, &vec![b; n as usize]) }
                }
                Step::Map(a, n) => {
                    let ok = memory.map(BASE + a, n).is_ok();
                    prop_assert_eq!(ok, model[at(a, n)].iter().all(Option::is_none));
                    if ok {
                        next += 1;
                        model[at(a, n)].fill(Some((0, next)));
                    }
                }
                Step::Unmap(a, n) => {
                    let ok = memory.unmap(BASE + a, n).is_ok();
                    let owners: Vec<_> = model[at(a, n)].iter().map(|b| b.map(|b| b.1)).collect();
                    let mut one = owners[0].is_some() && owners.iter().all(|o| *o == owners[0]);
                    prop_assert_eq!(ok, one);
                    if ok {
                        model[at(a, n)].fill(None);
                        // What is behind the hole is a mapping of its own now.
                        let mut i = (a + n) as usize;
                        next += 1;
                        while one && i < model.len() && model[i].map(|b| b.1) == owners[0] {
                            if let Some(b) = &mut model[i] { b.1 = next }
                            i += 1;
                            one = i < model.len();
                        }
                    }
                }
                Step::Read(a, n) => {
                    let mut out = vec![0; n as usize];
                    let ok = memory.read(BASE + a, &mut out).is_ok();
                    prop_assert_eq!(ok, full(&model, a, n));
                    if ok {
                        let want: Vec<u8> = model[at(a, n)].iter().map(|b| b.unwrap().0).collect();
                        prop_assert_eq!(out, want);
                    }
                }
            }
        }
    }
}
