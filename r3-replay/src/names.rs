//! Mangled names made readable, and signals by name.

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

/// A readable name without return type and parameters: `void ns::scale<float>(float*)` is `ns::scale<float>`.
pub fn qualified(readable: &str) -> &str {
    let mut depth = 0usize;
    let mut start = 0;
    for (at, c) in readable.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => {
                // `(anonymous namespace)::` is part of a name.
                let rest = readable.get(at..).unwrap_or_default();
                if !rest.starts_with("(anonymous namespace)") {
                    return readable.get(start..at).unwrap_or(readable);
                }
            }
            ' ' if depth == 0 => {
                let before = readable.get(..at).unwrap_or_default();
                if !before.ends_with("(anonymous") {
                    start = at + 1;
                }
            }
            _ => {}
        }
    }
    readable.get(start..).unwrap_or(readable)
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

/// Signals by name.
const SIGNALS: &[(i32, &str)] = &[
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGSYS, "SIGSYS"),
    (libc::SIGXCPU, "SIGXCPU"),
    (libc::SIGXFSZ, "SIGXFSZ"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGUSR2, "SIGUSR2"),
];

/// A signal's name, or its number where it has none that is known.
pub fn signal(number: i32) -> String {
    let known = SIGNALS.iter().find(|(known, _)| *known == number);
    known.map_or_else(
        || format!("signal {number}"),
        |(_, name)| (*name).to_owned(),
    )
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

    #[test]
    fn a_qualified_name_is_what_is_left_without_types() {
        for (readable, name) in [
            (
                "void ns::scale<float, 3>(float const*, int)",
                "ns::scale<float, 3>",
            ),
            ("step(float4 const*)", "step"),
            (
                "(anonymous namespace)::plain(float*)",
                "(anonymous namespace)::plain",
            ),
            (
                "void (anonymous namespace)::plain<int>(float*)",
                "(anonymous namespace)::plain<int>",
            ),
            ("void apply<void (*)(int)>(int)", "apply<void (*)(int)>"),
            ("prefix", "prefix"),
        ] {
            assert_eq!(qualified(readable), name);
        }
    }
}
