//! Text and launches that somebody made to do harm: each ends with an error or a fault, soon, and nothing else happens.

// A fault is large, and rare.
#![allow(clippy::result_large_err)]

mod common;

use common::{BUFFER, Device, per_thread};
use r3_emu::{Fault, FaultKind, LaunchConfig, LoadError, Memory, Program, RunOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn check(text: &str) -> r3_ptx::typed::Module {
    let text = format!(".version 8.5\n.target sm_90\n.address_size 64\n{text}");
    let tree = r3_ptx::parse(&text).unwrap_or_else(|e| panic!("{}", e.render(&text)));
    r3_ptx::check(&tree).unwrap_or_else(|e| panic!("{}", e.render(&text)))
}

/// What a launch of one warp of the first kernel ends with.
fn fault(text: &str, params: &[u8]) -> FaultKind {
    let device = Device::new(text, &[0; 256]);
    let name = device.program.kernels()[0].name.clone();
    let result = device.launch_with(&name, [1, 1, 1], [32, 1, 1], 0, params);
    result.expect_err("a fault").kind
}

fn shaped(grid: [u32; 3], block: [u32; 3], cluster: [u32; 3], shared: u32) -> Result<(), Fault> {
    let mut device = Device::new(".visible .entry k() { L: bra L; }", &[]);
    device.limit = Some(1000);
    let config = LaunchConfig {
        grid,
        block,
        cluster,
        dynamic_shared: shared,
        cooperative: false,
        params: &[],
        blocks: Some(0..u64::MAX),
    };
    device.run("k", &config).map(|_| ())
}

#[test]
fn variables_bigger_than_a_threads_memory_are_refused() {
    for variables in [
        ".local .b8 x[1099511627776];",
        ".local .b8 x[600000];",
        ".local .b8 x[9223372036854775807]; .local .align 8 .b8 y[5];",
        ".local .align 2147483648 .b8 x[1]; .local .align 2147483648 .b8 y[9223372036854775807];",
    ] {
        let body = format!("{variables} .reg .b32 %r; st.local.u32 [x], %r; ret;");
        let kernel = format!(".visible .entry k() {{ {body} }}");
        let kind = fault(&kernel, &[]);
        let text = kind.to_string();
        assert!(text.contains("local memory in a thread"), "{text}");
        let function = format!(".func f() {{ {body} }} .visible .entry k() {{ call f; ret; }}");
        let kernel = fault(&function, &[]);
        assert_eq!(kernel, FaultKind::StackOverflow, "{variables}");
    }
}

#[test]
fn shared_variables_bigger_than_a_block_can_have_are_refused() {
    for variables in [
        ".shared .b8 x[1099511627776];",
        ".shared .b8 x[4294967312];",
        ".shared .b8 x[9223372036854775807]; .shared .align 64 .b8 y[9223372036854775807];",
    ] {
        let text = format!(
            "{variables} .extern .shared .align 1024 .b8 more[];
            .visible .entry k() {{
                .reg .b32 %r<3>; mov.u32 %r1, x; mov.u32 %r2, more; st.shared.u32 [%r1], %r2; {} ret;
            }}",
            if variables.contains(" y[") { "mov.u32 %r1, y;" } else { "" }
        );
        let text = fault(&text, &[]).to_string();
        assert!(text.contains("of shared memory in a block"), "{text}");
    }
}

#[test]
fn shapes_that_no_gpu_has_are_refused_and_huge_grids_obey_the_limit() {
    let one = [1, 1, 1];
    let refused = |result: Result<(), Fault>| {
        let kind = result.expect_err("refused").kind;
        assert!(matches!(kind, FaultKind::InvalidLaunch(_)), "{kind}");
    };
    refused(shaped([0, 1, 1], one, one, 0));
    refused(shaped([1, 1, 0], one, one, 0));
    refused(shaped([u32::MAX, u32::MAX, u32::MAX], one, one, 0));
    refused(shaped([1, 65536, 1], one, one, 0));
    refused(shaped(one, [0, 1, 1], one, 0));
    refused(shaped(one, [1, 1, 1025], one, 0));
    refused(shaped(one, [u32::MAX, u32::MAX, u32::MAX], one, 0));
    refused(shaped(one, [1 << 16, 1 << 16, 1], one, 0));
    refused(shaped(
        [1 << 22, 1 << 15, 1 << 15],
        one,
        [1 << 22, 1 << 21, 1 << 21],
        0,
    ));
    refused(shaped([17, 1, 1], one, [17, 1, 1], 0));
    refused(shaped(one, one, one, u32::MAX));
    for cluster in [one, [3, 5, 1]] {
        let kind = shaped([3 * (i32::MAX as u32 / 3), 65535, 65535], one, cluster, 0);
        let kind = kind.expect_err("endless").kind;
        assert!(matches!(kind, FaultKind::InstructionLimit(1000)), "{kind}");
    }
}

#[test]
fn directives_with_huge_numbers_do_not_overflow() {
    let text = ".visible .entry k() .maxntid 65536, 65536, 65536 { ret; }";
    let device = Device::new(text, &[]);
    assert_eq!(device.program.kernels()[0].max_threads, 1024);
    device
        .launch_with("k", [1, 1, 1], [1024, 1, 1], 0, &[])
        .unwrap();
    let text = ".visible .entry k() .reqnctapercluster 65536, 65536, 65536 { ret; }";
    assert!(matches!(fault(text, &[]), FaultKind::InvalidLaunch(_)));
    let text = ".visible .entry k() .reqntid 4294967295, 2, 1 { ret; }";
    assert!(matches!(fault(text, &[]), FaultKind::InvalidLaunch(_)));
}

#[test]
fn a_buffer_of_parameters_that_is_too_short_is_refused() {
    let text = ".visible .entry k(.param .u64 a, .param .align 16 .b8 b[100]) { ret; }";
    let Err(fault) = Device::new(text, &[]).launch_with("k", [1, 1, 1], [1, 1, 1], 0, &[0; 115])
    else {
        panic!("accepted");
    };
    assert!(
        fault
            .to_string()
            .contains("115 bytes of parameters: the kernel has 116"),
        "{fault}"
    );
}

/// A declaration can meet a kernel of its name when modules are linked.
#[test]
fn a_kernel_is_not_called_from_a_kernel() {
    let caller = check(".extern .func f(); .visible .entry k() { call f; ret; }");
    let callee = check(".visible .entry f() { .reg .b32 %r; mov.u32 %r, 1; ret; }");
    let memory = Memory::new();
    let program = Program::load(&[&caller, &callee], &memory, &mut |_| Err("none".into()));
    let program = match program {
        Ok(program) => program,
        Err(error) => return assert!(matches!(error, LoadError::Duplicate { .. }), "{error}"),
    };
    let config = LaunchConfig {
        grid: [1, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params: &[],
        blocks: None,
    };
    let options = RunOptions {
        threads: 1,
        racecheck: false,
        instruction_limit: Some(1000),
        print: &|_| {},
        cancel: None,
    };
    let kernel = program.kernel("k").unwrap();
    let fault = program
        .launch(kernel, &config, &memory, &options)
        .unwrap_err();
    assert!(
        fault
            .to_string()
            .starts_with("a call of f, which is a kernel"),
        "{fault}"
    );
}

#[test]
fn calls_and_branches_through_garbage_are_faults() {
    for target in [
        "0",
        "1",
        "0x4600000000000001",
        "0x4600000000000010",
        "0x46000000ffffff00",
        "-1",
    ] {
        let text = format!(
            ".visible .entry k() {{
                .reg .b64 %d; mov.u64 %d, {target};
                P: .callprototype _ ();
                call %d, (), P;
                ret;
            }}"
        );
        assert!(
            matches!(fault(&text, &[]), FaultKind::Invalid(_)),
            "{target}"
        );
    }
    for index in ["2", "0x80000000", "-1"] {
        let text = format!(
            ".visible .entry k() {{
                .reg .b32 %r; mov.u32 %r, {index};
                T: .branchtargets A, B;
                brx.idx %r, T;
                A: B: ret;
            }}"
        );
        assert!(
            matches!(fault(&text, &[]), FaultKind::Invalid(_)),
            "{index}"
        );
    }
}

#[test]
fn formats_and_strings_without_an_end_print_no_more_than_a_gpu_would() {
    let device = Device::new(
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
        .visible .entry k(.param .u64 p) {
            .reg .b64 %d<3>; .reg .b32 %r<2>;
            ld.param.u64 %d1, [p];
            add.u64 %d2, %d1, 4096;
            { .param .b64 f; .param .b64 a; .param .b32 r;
              st.param.b64 [f], %d1; st.param.b64 [a], %d2; call (r), vprintf, (f, a); }
            ret;
        }",
        &vec![0; 1 << 20],
    );
    let format = "%s%*.*f%4096d%-4096.4096x%".repeat(1 << 15);
    let pointers = (BUFFER + 8192).to_le_bytes().repeat(512);
    device.memory.write(BUFFER + 4096, &pointers).unwrap();
    device
        .memory
        .write(BUFFER + 8192, &format.as_bytes()[..850_000])
        .unwrap();
    device
        .memory
        .write(BUFFER, &format.as_bytes()[..4096])
        .unwrap();
    let result = device.launch("k", 1, 32);
    let printed = device.printed.lock().unwrap().len();
    assert!(printed <= (1 << 20) + (1 << 17), "{printed}: {result:?}");
    // The end of the mapping is the end of a string.
    device.memory.fill(BUFFER, 1 << 20, b'x').unwrap();
    device.memory.write(BUFFER, b"%s\0").unwrap();
    let end = BUFFER + (1 << 20) - 10;
    device
        .memory
        .write(BUFFER + 4096, &end.to_le_bytes())
        .unwrap();
    let fault = device.launch("k", 1, 1).unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::OutOfBounds { .. }),
        "{fault}"
    );
}

#[test]
fn a_box_of_a_tensor_map_that_a_kernel_made_huge_is_refused() {
    let mut replace = String::new();
    for dimension in 0..5 {
        replace += &format!(
            "tensormap.replace.tile.box_dim.global.b1024.b32 [%d1], {dimension}, 256;
            tensormap.replace.tile.global_dim.global.b1024.b32 [%d1], {dimension}, -1;
            tensormap.replace.tile.element_stride.global.b1024.b32 [%d1], {dimension}, 1;\n"
        );
    }
    let text = format!(
        ".visible .entry k(.param .u64 p) {{
            .reg .b64 %d<3>; .reg .b32 %r<2>;
            .shared .align 128 .b8 room[1024]; .shared .align 8 .b64 bar;
            ld.param.u64 %d1, [p];
            tensormap.replace.tile.global_address.global.b1024.b64 [%d1], %d1;
            tensormap.replace.tile.rank.global.b1024.b32 [%d1], 4;
            tensormap.replace.tile.elemtype.global.b1024.b32 [%d1], 0;
            {replace}
            mbarrier.init.shared.b64 [bar], 1;
            cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [room], [%d1, {{0, 0, 0, 0, 0}}], [bar];
            ret;
        }}"
    )
    .replace(".target sm_90\n", ".target sm_90a\n");
    let text = format!(".version 8.5\n.target sm_90a\n.address_size 64\n{text}");
    let fault = fault(&text, &BUFFER.to_le_bytes());
    assert!(matches!(fault, FaultKind::Invalid(_)), "{fault}");
    assert!(
        fault
            .to_string()
            .contains("more than shared memory can have"),
        "{fault}"
    );
}

/// Sizes, strides and offsets at the ends of 32 and 64 bits: a fault that names the access, never another one.
#[test]
fn accesses_at_the_ends_of_every_space_are_faults() {
    for access in [
        "ld.global.u32 %r0, [%d1+-4];",
        "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d1+256];",
        "ld.global.u8 %r0, [%d1+256];",
        "st.global.v2.u64 [%d1+256], {%d1, %d1};",
        "ld.global.u64 %d2, [%d3];",
        "ld.global.u64 %d2, [%d3+-1];",
        "mad.wide.u32 %d4, %t, 0x80000000, %d1; ld.global.u32 %r0, [%d4];",
        "mad.lo.u64 %d4, %dt, 0x4000000000000000, %d1; ld.global.u32 %r0, [%d4];",
        "ld.shared.u32 %r0, [128];",
        "ld.shared.u32 %r0, [s+-4];",
        "mov.u32 %r1, -4; ld.shared.u32 %r0, [%r1];",
        "mov.u32 %r1, -4; ld.shared.u32 %r0, [%r1+132];",
        "mov.u32 %r1, 0x01000000; ld.shared.u32 %r0, [%r1+128];",
        "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [s+128];",
        "atom.shared.add.u32 %r0, [s+128], 1;",
        "ld.local.u32 %r0, [l+64];",
        "mov.u64 %d4, l; ld.local.u64 %d2, [%d4+-8];",
        "mov.u32 %r1, 0x80000000; ld.local.u32 %r0, [%r1];",
        "cvta.local.u64 %d4, %d3; ld.u32 %r0, [%d4];",
        "mov.u64 %d4, 0x4c000000ffffffc0; ld.u64 %d2, [%d4];",
        "mov.u64 %d4, 0x4c00000100000000; ld.u64 %d2, [%d4];",
        "mov.u64 %d4, 0x53000000ffffff80; ld.u64 %d2, [%d4];",
        "mov.u64 %d4, 0x50000000ffffff80; ld.u64 %d2, [%d4];",
        "mov.u64 %d4, 0x5000000000000000; st.u64 [%d4], %d2;",
        "ld.param.u64 %d2, [p+8];",
        "ld.param.u32 %r0, [p+-4];",
        "mov.u32 %r1, 0xfffffff0; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1], %r1, [s];",
        "mov.u32 %r1, 0xfffffff0; cp.async.bulk.global.shared::cta.bulk_group [%d1], [s], %r1;",
        "mov.u64 %d4, 0xfffffffffffffff8; st.bulk.shared::cta [s], %d4, 0;",
        "cp.async.ca.shared.global [s], [%d1+256], 16;",
        "cp.async.ca.shared.global [s+128], [%d1], 16;",
        "mbarrier.init.shared.b64 [s+128], 1;",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [s+128];",
        "mov.u64 %d4, 0x10000000; alloca.u64 %d2, %d4, 16;",
        "mov.u64 %d4, -1; alloca.u64 %d2, %d4, 16;",
        "mov.u64 %d4, 0x7fffffff; stackrestore.u64 %d4;",
    ] {
        let text = format!(
            ".version 9.0\n.target sm_100a\n.address_size 64
            .visible .entry k(.param .u64 p) {{
                .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .b32 %t; .reg .b64 %dt;
                .shared .align 128 .b8 s[128]; .local .align 64 .b8 l[64];
                ld.param.u64 %d1, [p]; mov.u64 %d3, -8;
                mov.u32 %t, %tid.x; cvt.u64.u32 %dt, %t;
                st.local.u32 [l], %t;
                {access}
                ret;
            }}"
        );
        let kind = fault(&text, &BUFFER.to_le_bytes());
        let fine = matches!(
            kind,
            FaultKind::OutOfBounds { .. }
                | FaultKind::Misaligned { .. }
                | FaultKind::StackOverflow
                | FaultKind::Invalid(_)
        );
        assert!(fine, "{access}: {kind}");
    }
}

#[test]
fn many_kernels_do_not_cost_their_square() {
    let mut text = String::new();
    for i in 0..20_000 {
        text += &format!(".visible .entry k{i}() {{ ret; }}\n");
    }
    let device = Device::new(&text, &[]);
    device
        .launch_with("k19999", [1, 1, 1], [1, 1, 1], 0, &[])
        .unwrap();
}

#[test]
fn as_many_host_threads_as_anybody_asks_for() {
    let mut device = Device::new(&per_thread("mov.u32 %r0, %u;"), &vec![0; 4 * 3000]);
    device.threads = usize::MAX;
    device.launch("k", 3000, 1).unwrap();
    assert_eq!(device.words(3000), (0..3000).collect::<Vec<u32>>());
}

/// Loops of every kind end when another thread says so.
#[test]
fn endless_kernels_can_be_cancelled() {
    for body in [
        "L: bra L;",
        "L: ld.volatile.global.u32 %r1, [%at]; bra L;",
        "L: nanosleep.u32 100; ld.global.u32 %r1, [%at]; bra L;",
        "L: bar.sync 0; bra L;",
        "L: xor.b32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, %t; @%p1 bra L; bra L;",
        "L: call f; bra L;",
        "L: shfl.sync.idx.b32 %r1, %t, 0, 31, -1; atom.global.cas.b32 %r2, [%base], 5, 6; bra L;",
    ] {
        let text = format!(".func f() {{ ret; }} {}", per_thread(body));
        let device = Device::new(&text, &vec![0; 4 * 512]);
        let cancel = AtomicBool::new(false);
        let options = RunOptions {
            threads: 2,
            racecheck: false,
            instruction_limit: None,
            print: &|_| {},
            cancel: Some(&cancel),
        };
        let config = LaunchConfig {
            grid: [4, 1, 1],
            block: [128, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
            cooperative: false,
            params: &BUFFER.to_le_bytes(),
            blocks: None,
        };
        let kernel = device.program.kernel("k").unwrap();
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                cancel.store(true, Ordering::Relaxed);
            });
            device
                .program
                .launch(kernel, &config, &device.memory, &options)
        });
        assert_eq!(result.unwrap_err().kind, FaultKind::Cancelled, "{body}");
    }
}
