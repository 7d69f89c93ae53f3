//! Text about an address that is not mapped.

use super::view::Span;

/// Farther than this, a mapping explains nothing.
const FAR: u64 = 1 << 30;

/// What is near `address`: the mapping before it (or which holds its first bytes) and the one after it.
pub fn nearby(address: u64, before: Option<&Span>, after: Option<&Span>) -> Option<String> {
    if address < 4096 {
        return Some("a null pointer, or a small offset from one".to_owned());
    }
    let bytes = |n: u64| {
        if n == 1 {
            "1 byte".to_owned()
        } else {
            format!("{n} bytes")
        }
    };
    if let Some(m) = before {
        let at = address - m.start;
        if at < m.len {
            return Some(format!(
                "starts {} before the end of the mapping {:#x} of {}",
                bytes(m.len - at),
                m.start,
                bytes(m.len)
            ));
        }
    }
    let behind = before.map(|m| (m, address - m.start - m.len));
    let ahead = after.map(|m| (m, m.start - address));
    let text = |m: &Span, distance: u64, word: &str| {
        format!(
            "{} {word} the mapping {:#x} of {}",
            bytes(distance),
            m.start,
            bytes(m.len)
        )
    };
    match (behind, ahead) {
        (Some((m, 0)), _) => Some(format!(
            "right behind the mapping {:#x} of {}",
            m.start,
            bytes(m.len)
        )),
        (Some((m, d)), Some((_, e))) if d <= e && d < FAR => Some(text(m, d, "behind")),
        (Some((m, d)), None) if d < FAR => Some(text(m, d, "behind")),
        (_, Some((m, d))) if d < FAR => Some(text(m, d, "before")),
        (None, None) => Some("nothing is mapped".to_owned()),
        _ => None,
    }
}
