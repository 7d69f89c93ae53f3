//! Mangled names made readable.

/// A C++ or Rust name demangled; any other one as it is. Control characters, which could confuse a
/// terminal, are escaped.
pub fn readable(mangled: &str) -> String {
    let name = r3_options::demangle(mangled)
        .or_else(|| {
            // Bounded as r3_options::demangle is: names come from strangers' files.
            (mangled.len() <= 64 << 10)
                .then(|| rustc_demangle::try_demangle(mangled).ok())
                .flatten()
                .map(|name| format!("{name:#}"))
        })
        .unwrap_or_else(|| mangled.to_owned());
    printable(&name)
}

/// `text` with control characters escaped.
pub fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| {
            if c.is_control() {
                c.escape_default().to_string()
            } else {
                c.to_string()
            }
        })
        .collect()
}

/// The same for a text of several lines, which stay lines.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(printable).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpp_rust_and_plain_names() {
        assert_eq!(
            readable("_Z5saxpyifPKfPf"),
            "saxpy(int, float, float const*, float*)"
        );
        assert_eq!(readable("_RNvCskwGfYPst2Cb_3foo3bar"), "foo::bar");
        assert_eq!(readable("triton_mm_kernel"), "triton_mm_kernel");
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(readable("bad\x1b[2Jname"), "bad\\u{1b}[2Jname");
    }
}
