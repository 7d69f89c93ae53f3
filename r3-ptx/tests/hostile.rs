//! Text that means harm, or was cut off. None of it makes the parser panic, recurse without bound, or take memory
//! for what is only claimed.

const HEAD: &str = ".version 8.7\n.target sm_90\n.address_size 64\n";

/// Prefixes of a real file, and files with one byte gone.
#[test]
fn files_that_were_cut() {
    let text = include_str!("fixtures/traps.ptx");
    for end in (0..text.len()).step_by(7) {
        _ = r3_ptx::parse(&text[..end]);
        let mut other = text.to_string();
        other.remove(end / 2);
        if let Err(errors) = r3_ptx::parse(&other) {
            _ = errors.render(&other);
        }
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = 100_000;
    for (open, close) in [
        ("{", "}"),
        ("(", ")"),
        ("[", "]"),
        ("-", ""),
        ("~", ""),
        ("!", ""),
        ("1?", ":1"),
        ("(.s64)", ""),
    ] {
        let nested = format!("{}1{}", open.repeat(deep), close.repeat(deep));
        for text in [
            format!("{HEAD}.global .u32 x = {nested};"),
            format!("{HEAD}.global .u32 x[{nested}];"),
            format!("{HEAD}.entry k () {{ mov.u32 a, {nested}; }}"),
            format!("{HEAD}.entry k () {{ call {nested}; }}"),
            format!("{HEAD}.entry k () {nested}"),
            format!("{HEAD}.section .s {nested}"),
        ] {
            _ = r3_ptx::parse(&text);
        }
    }
    // Blocks may lie in each other as deep as they like: they are a flat list.
    let blocks = format!("{HEAD}.entry k () {}{}", "{".repeat(deep), "}".repeat(deep));
    assert!(r3_ptx::parse(&blocks).is_ok());
}

#[test]
fn claimed_sizes_cost_nothing() {
    let text = format!(
        "{HEAD}.global .b8 x[18446744073709551615][9223372036854775807];\n.entry k () {{ .reg .b32 %r<4000000000>; .local .b8 l[1000000000000]; ret; }}"
    );
    // The first length is negative as a signed number.
    assert!(r3_ptx::parse(&text).is_err());
    assert!(r3_ptx::parse(&text.replace("18446744073709551615", "1")).is_ok());
}

#[test]
fn odd_characters_are_errors() {
    for text in [
        "é",
        "\u{1F600}",
        "\\",
        "\"",
        "\"\\",
        "/*",
        "/",
        "@",
        "@@",
        ".",
        "..",
        "%",
        "$",
        "#",
        "0x",
        "0f",
        "0d0",
        "1e",
        "'",
    ] {
        for around in [
            text.to_string(),
            format!("{HEAD}{text}"),
            format!("{HEAD}.global .u32 {text}"),
            format!("{HEAD}.global .u32 a = {text};"),
            format!("{HEAD}.entry k ({text}) {{ ret; }}"),
            format!("{HEAD}.entry k () {{ {text} }}"),
            format!("{HEAD}.entry k () {{ mov.u32 {text}; }}"),
            format!("{HEAD}.entry k () {{ mov.u32{text} }}"),
        ] {
            if let Err(errors) = r3_ptx::parse(&around) {
                assert!(!errors.list.is_empty());
                _ = errors.render(&around);
            }
        }
    }
}
