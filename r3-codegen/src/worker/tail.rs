//! The end of a log, whatever its length.

/// Keeps the last bytes of what is added.
#[derive(Debug)]
pub struct Tail {
    bytes: Vec<u8>,
    keep: usize,
    dropped: bool,
}

impl Default for Tail {
    fn default() -> Self {
        Tail::keeping(Tail::KEEP)
    }
}

impl Tail {
    /// How many bytes are kept of a log that people read.
    pub const KEEP: usize = 16 << 10;

    /// Keeps so many bytes.
    pub fn keeping(keep: usize) -> Tail {
        Tail {
            bytes: Vec::new(),
            keep,
            dropped: false,
        }
    }

    /// The end of a log.
    pub fn of(log: &[u8]) -> String {
        let mut tail = Tail::default();
        tail.push(log);
        tail.text()
    }

    /// Adds the next part of the log.
    pub fn push(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
        // Cut rarely: moving the bytes costs.
        if self.bytes.len() > 4 * self.keep {
            self.cut();
        }
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.dropped = false;
    }

    /// The end as text, from the beginning of a line.
    pub fn text(&mut self) -> String {
        self.cut();
        let text = String::from_utf8_lossy(&self.bytes);
        let text = match text.find('\n') {
            Some(end) if self.dropped => &text[end + 1..],
            _ => &text[..],
        };
        text.trim_end().to_owned()
    }

    fn cut(&mut self) {
        let extra = self.bytes.len().saturating_sub(self.keep);
        self.bytes.drain(..extra);
        self.dropped |= extra > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_log_is_kept_from_the_beginning_of_a_line() {
        let mut tail = Tail::default();
        for line in 0..100_000 {
            tail.push(format!("line {line}\n").as_bytes());
        }
        let text = tail.text();
        assert!(text.len() <= Tail::KEEP);
        assert!(text.starts_with("line "));
        assert!(text.ends_with("\nline 99999"));
    }

    #[test]
    fn a_short_log_is_kept_whole() {
        let mut tail = Tail::default();
        tail.push(b"warning: a\n\xff");
        assert_eq!(tail.text(), "warning: a\n\u{fffd}");
    }
}
