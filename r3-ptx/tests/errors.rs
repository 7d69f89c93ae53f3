//! Messages: where, what was found, what was expected.

const HEAD: &str = ".version 8.7\n.target sm_90\n.address_size 64\n";

fn errors(text: &str) -> String {
    match r3_ptx::parse(text) {
        Ok(_) => panic!("no error in {text}"),
        Err(errors) => errors.render(text),
    }
}

#[test]
fn the_line_is_shown_with_a_caret() {
    insta::assert_snapshot!(errors(&format!(
        "{HEAD}.entry k ()\n{{\n\tadd.s32 \t%r1, %r2 %r3;\n}}\n"
    )));
}

#[test]
fn an_unknown_modifier_is_pointed_at() {
    insta::assert_snapshot!(errors(&format!(
        "{HEAD}.entry k () {{ ld.global.nope.u32 a, [b]; }}"
    )));
}

#[test]
fn several_are_told_at_once() {
    insta::assert_snapshot!(errors(&format!(
        "{HEAD}.global .u33 x;\n.entry k () {{\n  frob.u32 a, b;\n  mov.u32 a, 09;\n  mov.u32 a, 1/0;\n  @ mov.u32 a, b;\n  .reg .b32 a<99999999999>;\n  \
         .callprototype _ ();\n  mov.u32 a, \"text\";\n  mov.u32 a\n}}\n.global .u32 y = {{1, 2;\n"
    )));
}

#[test]
fn reading_stops_after_twenty() {
    let body = "frob;\n".repeat(30);
    let text = format!("{HEAD}.entry k () {{ {body} }}");
    let errors = r3_ptx::parse(&text).expect_err("errors");
    assert_eq!((errors.list.len(), errors.stopped), (20, true));
    assert!(
        errors
            .render(&text)
            .ends_with("stopped here: there may be more errors\n")
    );
}

#[test]
fn what_is_not_ptx_at_all() {
    insta::assert_snapshot!(errors(""));
    insta::assert_snapshot!(errors("int main() { return 0; }"));
    insta::assert_snapshot!(errors(".version 8.7\n.entry k () { ret; }"));
    insta::assert_snapshot!(errors(&format!("{HEAD}.entry k () {{ ret;")));
}

#[test]
fn long_lines_are_cut_and_tabs_kept() {
    let text = format!(
        "{HEAD}.entry k () {{ {}\tadd.s32 é; {} }}",
        "ret; ".repeat(100),
        "ret; ".repeat(100)
    );
    insta::assert_snapshot!(errors(&text));
}
