//! Loading: names, variables, layouts; and what a launch checks and reports.

mod common;

use common::{BUFFER, Device, per_thread, run_threads};
use r3_emu::{FaultKind, LaunchConfig, LoadError, Memory, Placement, Program};

fn check(text: &str) -> r3_ptx::typed::Module {
    let text = format!(".version 8.5\n.target sm_90\n.address_size 64\n{text}");
    let tree = r3_ptx::parse(&text).unwrap_or_else(|e| panic!("{}", e.render(&text)));
    r3_ptx::check(&tree).unwrap_or_else(|e| panic!("{}", e.render(&text)))
}

fn load(modules: &[&str]) -> Result<(Program, Memory), LoadError> {
    let modules: Vec<_> = modules.iter().map(|m| check(m)).collect();
    let modules: Vec<_> = modules.iter().collect();
    let memory = Memory::new();
    let mut next = 0x1000u64;
    let mut place = |p: &Placement<'_>| {
        let at = next.next_multiple_of(p.align);
        next = at + p.size;
        memory.map(at, p.size).map_err(|e| e.to_string())?;
        Ok(at)
    };
    let program = Program::load(&modules, &memory, &mut place)?;
    Ok((program, memory))
}

#[test]
fn a_kernel_tells_what_it_needs() {
    let (program, _) = load(&["
        .shared .align 4 .b8 both[100];
        .shared .align 4 .b8 nobody[5000];
        .extern .shared .align 16 .b8 dynamic[];
        .func f() { .shared .align 8 .b8 inner[24]; .reg .b32 %r; mov.u32 %r, inner; ret; }
        .visible .entry a(.param .u32 x, .param .u64 y, .param .align 16 .b8 z[20]) .reqntid 64, 2 .reqnctapercluster 2, 1, 1 {
            .local .align 8 .b8 l[40]; .reg .b32 %r; .reg .b64 %d;
            mov.u32 %r, both; mov.u64 %d, l; mov.u32 %r, dynamic;
            call f;
            ret;
        }
        .visible .entry b() .maxntid 96 { ret; }"])
    .unwrap();
    let a = program.info(program.kernel("a").unwrap());
    assert_eq!(a.params, [(0, 4, 4), (8, 8, 8), (16, 20, 16)]);
    assert_eq!(a.param_bytes, 36);
    assert_eq!(a.static_shared, 128);
    assert_eq!(a.local_bytes, 40);
    assert_eq!((a.max_threads, a.required_block), (128, Some([64, 2, 1])));
    assert_eq!(a.cluster, Some([2, 1, 1]));
    let b = program.info(program.kernel("b").unwrap());
    assert_eq!(
        (b.static_shared, b.max_threads, b.required_block),
        (0, 96, None)
    );
    assert!(program.kernel("f").is_none());
}

#[test]
fn modules_find_each_others_functions_and_variables() {
    let (program, memory) = load(&[
        ".extern .func (.param .b32 r) f(.param .b32 x);
         .extern .global .align 4 .b32 v;
         .visible .entry k(.param .u64 p) {
            .reg .b32 %r<4>; .reg .b64 %d;
            ld.global.u32 %r1, [v];
            { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), f, (a); ld.param.b32 %r2, [b]; }
            ld.param.u64 %d, [p];
            st.global.u32 [%d], %r2;
            ret;
         }",
        ".visible .global .align 4 .b32 v = 41;
         .visible .func (.param .b32 r) f(.param .b32 x) {
            .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.u32 %r2, %r1, 1; st.param.b32 [r], %r2; ret;
         }",
    ])
    .unwrap();
    let (v, size) = program.global("v").unwrap();
    assert_eq!(size, 4);
    let config = LaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        cluster: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        params: &v.to_le_bytes(),
        blocks: None,
    };
    let options = r3_emu::RunOptions {
        threads: 1,
        racecheck: false,
        instruction_limit: None,
        print: &|_| (),
        cancel: None,
    };
    let kernel = program.kernel("k").unwrap();
    program.launch(kernel, &config, &memory, &options).unwrap();
    let mut word = [0; 4];
    memory.read(v, &mut word).unwrap();
    assert_eq!(u32::from_le_bytes(word), 42);
}

#[test]
fn a_variable_without_definition_and_a_name_with_two_do_not_link() {
    let use_v = ".extern .global .align 4 .b32 v; .visible .entry k() { .reg .b32 %r; ld.global.u32 %r, [v]; ret; }";
    let v = ".visible .global .align 4 .b32 v;";
    assert!(matches!(load(&[use_v]), Err(LoadError::Undefined { name, .. }) if name == "v"));
    assert!(matches!(load(&[v, v]), Err(LoadError::Duplicate { name, .. }) if name == "v"));
    let weak = ".weak .global .align 4 .b32 v = 1;";
    load(&[weak, v, use_v]).unwrap();
}

#[test]
fn initial_values_hold_numbers_and_addresses() {
    let (program, memory) = load(&["
        .global .align 8 .b32 a[4] = { 1, 2, 3 };
        .global .align 8 .u64 p[2] = { a+8, generic(a) };
        .const .align 4 .f32 c = 0f3F800000;
        .visible .entry k() { ret; }"])
    .unwrap();
    let read = |name: &str| {
        let (at, size) = program.global(name).unwrap();
        let mut bytes = vec![0; size as usize];
        memory.read(at, &mut bytes).unwrap();
        bytes
    };
    let a = program.global("a").unwrap().0;
    assert_eq!(read("a"), [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read("p"), [(a + 8).to_le_bytes(), a.to_le_bytes()].concat());
    assert_eq!(read("c"), 1f32.to_le_bytes());
}

#[test]
fn dynamic_shared_memory_begins_behind_the_static() {
    let ptx = format!(
        ".extern .shared .align 16 .b8 dynamic[];\n{}",
        per_thread(
            ".shared .align 4 .b8 s[20];
            mov.u32 %r1, dynamic; mov.u32 %r2, s;
            sub.u32 %r3, %r1, %r2;
            mov.u32 %r4, %dynamic_smem_size;
            mov.u32 %r5, %total_smem_size;
            st.shared.u32 [%r1+60], 7;
            mad.lo.u32 %r0, %r3, 1000, %r4;
            mad.lo.u32 %r0, %r0, 1000, %r5;"
        )
    );
    let device = Device::new(&ptx, &[0; 4]);
    device
        .launch_with("k", [1; 3], [1; 3], 64, &BUFFER.to_le_bytes())
        .unwrap();
    assert_eq!(device.words(1), [32_064_096]);
    let fault = device
        .launch_with("k", [1; 3], [1; 3], 60, &BUFFER.to_le_bytes())
        .unwrap_err();
    assert!(matches!(
        fault.kind,
        FaultKind::OutOfBounds {
            space: "shared",
            write: true,
            ..
        }
    ));
}

#[test]
fn special_registers_tell_the_place_in_the_grid() {
    let ptx = "
        .visible .entry k(.param .u64 p) {
            .reg .b32 %r<20>; .reg .b64 %d<4>; .reg .v4 .b32 %v;
            ld.param.u64 %d1, [p];
            mov.v4.u32 %v, %tid;
            mov.u32 %r1, %v.x; mov.u32 %r2, %v.y; mov.u32 %r3, %v.z;
            mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ctaid.z;
            mov.u32 %r7, %ntid.x; mov.u32 %r8, %ntid.y; mov.u32 %r9, %nctaid.x; mov.u32 %r10, %nctaid.y;
            mad.lo.u32 %r11, %r6, %r10, %r5;
            mad.lo.u32 %r11, %r11, %r9, %r4;
            mad.lo.u32 %r12, %r3, %r8, %r2;
            mad.lo.u32 %r12, %r12, %r7, %r1;
            mad.lo.u32 %r13, %r11, 24, %r12;
            mul.wide.u32 %d2, %r13, 4;
            add.u64 %d2, %d1, %d2;
            mov.u32 %r14, %laneid; mov.u32 %r15, %lanemask_lt; popc.b32 %r15, %r15;
            sub.u32 %r14, %r14, %r15;
            add.u32 %r13, %r13, %r14;
            st.global.u32 [%d2], %r13;
            ret;
        }";
    let count = 24 * 12;
    let device = Device::new(ptx, &vec![0; 4 * count]);
    device
        .launch_with("k", [2, 3, 2], [4, 3, 2], 0, &BUFFER.to_le_bytes())
        .unwrap();
    assert_eq!(device.words(count), (0..count as u32).collect::<Vec<_>>());
}

#[test]
fn addresses_convert_between_spaces_and_know_their_own() {
    let body = "
        .shared .align 4 .b32 s; .local .align 4 .b32 l;
        mov.u64 %d1, s; cvta.shared.u64 %d2, %d1;
        mov.u64 %d3, l; cvta.local.u64 %d4, %d3;
        mov.u32 %r0, 0;
        isspacep.shared %p1, %d2; @%p1 or.b32 %r0, %r0, 1;
        isspacep.local %p2, %d4; @%p2 or.b32 %r0, %r0, 2;
        isspacep.global %p3, %base; @%p3 or.b32 %r0, %r0, 4;
        isspacep.global %p4, %d2; @%p4 or.b32 %r0, %r0, 8;
        isspacep.shared %p5, %d4; @%p5 or.b32 %r0, %r0, 16;
        cvta.to.shared.u64 %d5, %d2; setp.eq.u64 %p6, %d5, %d1; @%p6 or.b32 %r0, %r0, 32;
        st.u32 [%d4], 5; ld.local.u32 %r1, [%d3]; setp.eq.u32 %p7, %r1, 5; @%p7 or.b32 %r0, %r0, 64;";
    assert_eq!(run_threads(body, 1), [1 | 2 | 4 | 32 | 64]);
}

#[test]
fn a_fault_names_kernel_block_thread_place_and_instruction() {
    let body = "
        setp.eq.u32 %p1, %u, 70;
        mov.u32 %r0, 1;
        @%p1 trap;";
    let device = Device::new(&per_thread(body), &[0; 512]);
    let fault = device.launch("k", 2, 64).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Trap);
    assert_eq!(fault.kernel, "k");
    assert_eq!(
        (fault.block, fault.thread),
        (Some([1, 0, 0]), Some([6, 0, 0]))
    );
    assert_eq!(fault.instruction.as_deref(), Some("@%p1 trap;"));
    let text = fault.to_string();
    assert!(
        text.starts_with("trap, in kernel k, block (1, 0, 0), thread (6, 0, 0), at "),
        "{text}"
    );
}

#[test]
fn impossible_launches_say_why() {
    let ptx = ".visible .entry k(.param .u64 p) .maxntid 64 { ret; } .visible .entry r() .reqntid 32, 2 { ret; }";
    let device = Device::new(ptx, &[]);
    let reason = |kernel: &str, grid, block, params: &[u8]| {
        let fault = device
            .launch_with(kernel, grid, block, 0, params)
            .unwrap_err();
        match fault.kind {
            FaultKind::InvalidLaunch(reason) => reason,
            other => panic!("{other}"),
        }
    };
    assert!(reason("k", [1; 3], [65, 1, 1], &[0; 8]).contains(".maxntid"));
    assert!(reason("k", [1; 3], [0, 1, 1], &[0; 8]).contains("0 threads"));
    assert!(reason("k", [0, 1, 1], [1; 3], &[0; 8]).contains("grid"));
    assert!(reason("k", [1; 3], [1; 3], &[0; 7]).contains("parameters"));
    assert!(reason("r", [1; 3], [64, 1, 1], &[]).contains(".reqntid"));
}

#[test]
fn a_range_of_blocks_runs_alone() {
    let device = Device::new(&per_thread("mov.u32 %r0, 1;"), &[0; 40]);
    let params = BUFFER.to_le_bytes();
    let config = LaunchConfig {
        grid: [10, 1, 1],
        block: [1; 3],
        cluster: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        params: &params,
        blocks: Some(3..5),
    };
    let report = device.run("k", &config).unwrap();
    assert_eq!(report.blocks, 2);
    assert_eq!(device.words(10), [0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn counts_do_not_depend_on_the_number_of_host_threads() {
    let body = "
        mov.u32 %r0, 0; rem.u32 %r2, %u, 17;
        L: add.u32 %r0, %r0, 3; setp.lt.u32 %p1, %r0, %r2; @%p1 bra L;
        bar.sync 0;";
    let ptx = per_thread(body);
    let reports = [1, 2, 5].map(|threads| {
        let mut device = Device::new(&ptx, &[0; 4 * 96 * 20]);
        device.threads = threads;
        (device.launch("k", 20, 96).unwrap(), device.words(96 * 20))
    });
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0], reports[2]);
    assert!(reports[0].0.cost() > 0);
}

#[test]
fn clocks_count_instructions() {
    let body = "mov.u32 %r1, %clock; add.u32 %r3, %t, 1; add.u32 %r3, %r3, 1; mov.u32 %r2, %clock; sub.u32 %r0, %r2, %r1;";
    assert_eq!(run_threads(body, 2), [3, 3]);
}
