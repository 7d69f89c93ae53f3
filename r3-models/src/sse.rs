//! Events that a server sends: the format of streamed answers.
//!
//! Bytes come in pieces that end anywhere, in the middle of a character too. Lines end with LF, CR or both. Only `data` matters here,
//! and whether an event calls itself an error: comments (services send them so that a connection stays open), `id` and `retry` are
//! passed over. An event that the end of the stream cuts off still counts, as some servers leave the last empty line out. Older versions
//! of llama.cpp's server write `error: {…}` where `event: error` with `data: {…}` is meant.

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What kind the server says it is; empty where it does not.
    pub kind: String,
    /// Its data; several lines are joined by LF.
    pub data: String,
}

/// A line or an event is longer than anything an answer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {MOST} bytes")]
pub struct TooLong;

/// Bytes of an event at most.
const MOST: usize = 8 << 20;

/// Makes events of bytes.
#[derive(Debug, Default)]
pub struct Reader {
    line: Vec<u8>,
    after_cr: bool,
    begun: bool,
    kind: String,
    data: String,
    has_data: bool,
}

impl Reader {
    /// The events that `bytes` complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let lf_of_crlf = byte == b'\n' && self.after_cr;
            self.after_cr = byte == b'\r';
            if lf_of_crlf {
                continue;
            }
            if byte == b'\n' || byte == b'\r' {
                events.extend(self.end_of_line());
            } else {
                self.line.push(byte);
                if self.line.len() + self.data.len() > MOST {
                    return Err(TooLong);
                }
            }
        }
        Ok(events)
    }

    /// The event that the end of the stream completes.
    pub fn finish(&mut self) -> Option<Event> {
        if self.line.is_empty() {
            return self.event();
        }
        self.end_of_line().or_else(|| self.event())
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&bytes);
        if !self.begun {
            self.begun = true;
            if let Some(rest) = line.strip_prefix('\u{feff}') {
                line = rest.to_owned().into();
            }
        }
        if line.is_empty() {
            return self.event();
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.kind),
            "error" if !self.has_data => {
                "error".clone_into(&mut self.kind);
                self.has_data = true;
                self.data.push_str(value);
            }
            _ => {}
        }
        None
    }

    fn event(&mut self) -> Option<Event> {
        let kind = std::mem::take(&mut self.kind);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(Event { kind, data })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Vec<String> {
        let mut reader = Reader::default();
        let mut events = reader.feed(bytes).unwrap();
        events.extend(reader.finish());
        events.into_iter().map(|event| event.data).collect()
    }

    #[test]
    fn comments_ids_and_unknown_fields_are_passed_over() {
        let text =
            ": OPENROUTER PROCESSING\n\nid: 7\nretry: 100\ndata: a\n\n:\n\n\nfoo\ndata:b\n\n";
        assert_eq!(all(text.as_bytes()), ["a", "b"]);
    }

    #[test]
    fn lines_end_with_lf_cr_or_both() {
        assert_eq!(
            all(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n"),
            ["a", "b", "c"]
        );
    }

    #[test]
    fn an_event_of_several_lines_is_joined() {
        assert_eq!(
            all(b"data: {\ndata:  \"a\": 1\ndata: }\n\n"),
            ["{\n \"a\": 1\n}"]
        );
    }

    #[test]
    fn the_end_of_the_stream_completes_an_event() {
        assert_eq!(all(b"data: a\n\ndata: [DONE]"), ["a", "[DONE]"]);
        assert_eq!(all(b"data: a\n\ndata: b\n"), ["a", "b"]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_field() {
        assert_eq!(all("\u{feff}data: a\n\n".as_bytes()), ["a"]);
    }

    #[test]
    fn the_kind_belongs_to_its_event_alone() {
        let mut reader = Reader::default();
        let events = reader
            .feed(b"event: error\ndata: x\n\ndata: y\n\n")
            .unwrap();
        let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["error", ""]);
    }

    #[test]
    fn an_error_in_place_of_data_is_an_event() {
        let mut reader = Reader::default();
        let events = reader
            .feed(b"data: x\n\nerror: {\"code\":400}\n\n")
            .unwrap();
        let events: Vec<_> = events
            .iter()
            .map(|event| (event.kind.as_str(), event.data.as_str()))
            .collect();
        assert_eq!(events, [("", "x"), ("error", "{\"code\":400}")]);
    }

    #[test]
    fn a_line_without_end_is_an_error_before_memory_ends() {
        let mut reader = Reader::default();
        let piece = vec![b'x'; 1 << 20];
        assert!((0..20).any(|_| reader.feed(&piece).is_err()));
    }

    proptest! {
        #[test]
        fn where_pieces_end_changes_nothing(
            bytes in proptest::collection::vec(
                prop_oneof![
                    Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(b'd'), Just(b'a'), Just(b't'), any::<u8>()
                ],
                0..200,
            ),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut reader = Reader::default();
            let mut events = Vec::new();
            let mut from = 0;
            for cut in cuts {
                events.extend(reader.feed(&bytes[from..cut]).unwrap());
                from = cut;
            }
            events.extend(reader.feed(&bytes[from..]).unwrap());
            events.extend(reader.finish());
            let texts: Vec<String> = events.into_iter().map(|event| event.data).collect();
            prop_assert_eq!(texts, all(&bytes));
        }

        #[test]
        fn what_is_written_is_read(data in proptest::collection::vec("[^\r\n\u{feff}]{0,40}", 0..6)) {
            let text: String = data.iter().map(|d| format!("data: {d}\n\n")).collect();
            prop_assert_eq!(all(text.as_bytes()), data);
        }
    }
}
