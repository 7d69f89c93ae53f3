use super::*;

const HEAD: &str = ".version 8.8\n.target sm_90a, debug\n.address_size 64\n";

fn scan(body: &str) -> PtxModule {
    parse(format!("{HEAD}{body}"))
}

/// The module's only entry, and that nothing was wrong.
fn entry(body: &str) -> PtxEntry {
    let module = scan(body);
    assert_eq!(module.problems, []);
    let [entry] = <[PtxEntry; 1]>::try_from(module.entries).unwrap();
    assert!(entry.params_known);
    entry
}

fn layout(entry: &PtxEntry) -> Vec<(u32, u32)> {
    entry
        .params
        .iter()
        .map(|param| (param.offset, param.size))
        .collect()
}

#[test]
fn the_header_tells_version_target_and_address_size() {
    let module = scan("");
    assert_eq!(module.version, (8, 8));
    assert_eq!(module.target, ["sm_90a", "debug"]);
    assert_eq!(module.address_size, 64);
    assert_eq!(header(HEAD.as_bytes()), ((8, 8), (90, Some('a'))));
    assert_eq!(
        header(b".version 7.0 .target sm_100f"),
        ((7, 0), (100, Some('f')))
    );
    assert_eq!(
        header(b".version 3.2\n.target sm_30, texmode_independent"),
        ((3, 2), (30, None))
    );
}

#[test]
fn ptx_is_recognised_behind_comments_and_white_space() {
    for text in [
        ".version 8.0",
        "\n\n// hello\n/* .target */\t.version 7.8",
        "\u{FEFF}.version 8.0",
    ] {
        assert!(looks_like_ptx(text.as_bytes()), "{text:?}");
    }
    for text in [
        "",
        "// .version 8.0",
        ".versions 8.0",
        "version 8.0",
        "; .version",
    ] {
        assert!(!looks_like_ptx(text.as_bytes()), "{text:?}");
    }
}

#[test]
fn parameters_are_placed_by_their_alignment_and_not_padded_at_the_end() {
    let entry = entry(
        ".visible .entry f(.param .u8 a, .param .u64 b, .param .align 4 .b8 c[7],\n\
         .param .f32 d[2][3], .param .align 16 .b8 e[16], .param .u16 g) { ret; }",
    );
    assert_eq!(
        layout(&entry),
        [(0, 1), (8, 8), (16, 7), (24, 24), (48, 16), (64, 2)]
    );
    assert_eq!(entry.params[4].align, 16);
    assert_eq!(entry.params[3].ty, "f32");
}

#[test]
fn the_alignment_behind_ptr_is_that_of_the_pointee() {
    let entry = entry(
        ".entry f(.param .u32 n, .param .u64 .ptr .global .align 256 p, .param .u64 .ptr q,\n\
         .param .u64 .ptr .shared .align 1 r)\n.reqntid 128, 2\n{\n}",
    );
    assert_eq!(layout(&entry), [(0, 4), (8, 8), (16, 8), (24, 8)]);
    let spaces: Vec<_> = entry
        .params
        .iter()
        .map(|p| (p.ptr_space, p.pointee_align))
        .collect();
    let expected = [
        (None, None),
        (Some(PtrSpace::Global), Some(256)),
        (Some(PtrSpace::Generic), None),
        (Some(PtrSpace::Shared), Some(1)),
    ];
    assert_eq!(spaces, expected);
    assert_eq!(entry.required_block, Some([128, 2, 1]));
}

#[test]
fn directives_of_an_entry_are_read_in_any_order() {
    let entry = entry(
        ".weak .entry f()\n.maxnreg 64 .maxntid 0x100, 1, 1\n.pragma \"nounroll; {\";\n\
         .minnctapersm 3 .noreturn .explicitcluster .reqnctapercluster 4 .maxclusterrank 16\n{ }",
    );
    assert_eq!(entry.max_registers, Some(64));
    assert_eq!(entry.max_block, Some([256, 1, 1]));
    assert_eq!(entry.min_blocks, Some(3));
    assert_eq!(entry.cluster_dims, Some([4, 1, 1]));
    assert_eq!(entry.max_cluster_rank, Some(16));
    assert!(entry.explicit_cluster && entry.visible);
}

#[test]
fn bodies_are_skipped_whatever_they_hold() {
    let module = scan(
        ".visible .entry a() { /* } */ // }\n\
         .reg .b32 %r<3>; { .reg .pred p; @p bra $L; } .loc 1 2 3\n\
         .pragma \"}\"; .shared .align 4 .b8 tile[64]; .param .b32 x; $L: ret; }\n\
         .visible .entry b { ret; }",
    );
    assert_eq!(module.problems, []);
    let names: Vec<_> = module
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(module.variables, []);
}

#[test]
fn entries_without_a_body_are_no_kernels() {
    let module =
        scan(".extern .entry f(.param .u64 p);\n.visible .entry f(.param .u64 p) { ret; }");
    assert_eq!(module.problems, []);
    assert_eq!(module.entries.len(), 1);
}

#[test]
fn variables_have_space_size_and_initial_value() {
    let module = scan(
        ".visible .global .align 8 .b8 a[3][4];\n\
         .global .v4 .f32 b[2] = {0f00000000, 0f3F800000};\n\
         .const .align 4 .u32 c = 0;\n\
         .visible .const .f64 d[2] = { 0d3FF0000000000000, 2.0 };\n\
         .global .attribute(.managed) .align 4 .u32 e = 5;\n\
         .global .attribute(.unified(19, 95), .managed) .u64 f[1];\n\
         .global .align 8 .u64 g = generic(a)+8;\n\
         .extern .global .align 4 .b8 h[];\n\
         .weak .global .u16 i = 0x10, j;\n\
         .global .samplerref k;\n\
         .shared .align 4 .b8 l[64];\n\
         .extern .shared .align 16 .b8 m[];\n",
    );
    assert_eq!(module.problems, []);
    let found: Vec<_> = module
        .variables
        .iter()
        .map(|v| {
            (
                v.name.as_str(),
                v.space,
                v.size,
                v.align,
                v.initialised,
                v.visible,
            )
        })
        .collect();
    let expected = [
        ("a", Space::Global, 12, 8, false, true),
        ("b", Space::Global, 32, 16, true, false),
        ("c", Space::Constant, 4, 4, false, false),
        ("d", Space::Constant, 16, 8, true, true),
        ("e", Space::Managed, 4, 4, true, false),
        ("f", Space::Managed, 8, 8, false, false),
        ("g", Space::Global, 8, 8, true, false),
        ("h", Space::Global, 0, 4, false, false),
        ("i", Space::Global, 2, 2, true, true),
        ("j", Space::Global, 2, 2, false, true),
        ("k", Space::Global, 8, 8, false, false),
    ];
    assert_eq!(found, expected);
    assert!(module.variables[7].external);
}

#[test]
fn debug_sections_and_line_directives_are_passed_over() {
    let module = scan(
        ".file 1 \"a } b.cu\", 1700000000, 123\n.loc 1 2 3\n@@DWARF .byte 0x00 }\n\
         .section .debug_info\n{\n.b32 12\n.b8 1 // }\n.b64 $L__a\n}\n\
         .section\t.debug_macinfo\t{\t}\n.section .nv_debug_line { .b8 0 }\n\
         .visible .entry f() { ret; }\n.file 2 \"b.cu\"\n",
    );
    assert_eq!(module.problems, []);
    assert_eq!(module.entries.len(), 1);
}

#[test]
fn externs_are_found_through_calls_of_functions() {
    let module = scan(
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n\
         .extern .func __assertfail(.param .b64 a) .noreturn;\n\
         .func inner() { { call.uni (r), vprintf, (a, b); } }\n\
         .func (.param .b32 r) outer(.param .b32 a) .noinline { call (r), inner, (a); }\n\
         .visible .entry quiet() { call recall, (x); }\n\
         .visible .entry indirect() { call (r), %rd1, (a), proto; }\n\
         .visible .entry prints() { call.uni outer, (a); }\n\
         .visible .entry both() { call.uni __assertfail, (a); call inner; }\n",
    );
    assert_eq!(module.problems, []);
    let externs: Vec<_> = module.entries.iter().map(|e| e.externs.join(" ")).collect();
    assert_eq!(externs, ["", "", "vprintf", "__assertfail vprintf"]);
    assert_eq!(module.externs, ["__assertfail", "vprintf"]);
}

#[test]
fn what_is_not_known_is_reported_with_its_line_and_the_rest_is_read() {
    let module = scan(".surprise 1 { }\n.visible .entry f(.param .u64 p) { ret; }");
    let [problem] = module.problems.as_slice() else {
        panic!("{:?}", module.problems)
    };
    assert_eq!(
        problem.to_string(),
        "line 4: PTX: unknown directive .surprise"
    );
    assert_eq!(module.entries.len(), 1);
}

#[test]
fn a_parameter_of_unknown_size_leaves_no_wrong_layout() {
    let module = scan(".visible .entry f(.param .u64 p, .param .e9m9 q, .param .u32 r) { ret; }");
    assert_eq!(module.problems.len(), 1);
    assert_eq!(module.entries[0].params, []);
    assert!(!module.entries[0].params_known);

    let module = scan(".visible .entry f(.param .b8 p[4294967295][4294967295][8]) { ret; }");
    assert_eq!(module.problems.len(), 1);
    assert_eq!(module.entries[0].params, []);
    assert!(!module.entries[0].params_known);
}

#[test]
fn text_ends_at_a_nul() {
    let module = parse(format!("{HEAD}.entry f() {{ }}\0.entry g() {{ }}"));
    assert_eq!(module.entries.len(), 1);
}

#[test]
fn text_that_ends_early_is_reported() {
    for body in [
        ".entry f() { ret;",
        ".entry f(.param .u64 p",
        ".global .u32 x",
    ] {
        assert_ne!(scan(body).problems, [], "{body}");
    }
}

/// Assemblers skip them wherever they stand.
#[test]
fn line_markers_of_a_preprocessor_are_skipped() {
    let module = parse(format!(
        "# 1 \"a.ptx\"\n{HEAD}# 7 \"b; {{.ptx\" 2\n.entry f() {{ }}"
    ));
    assert_eq!(module.entries.len(), 1);
    assert_eq!(module.problems, []);
}
