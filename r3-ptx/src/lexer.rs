//! Characters of PTX text and the pieces that they form.
//!
//! [`Cursor`] stands always on the first byte of a piece, behind white space and comments, or at the end. The
//! parser looks at that byte, which nearly always decides, and then takes the piece of the kind that the grammar
//! allows there: so no kind of token has to be guessed (`ld.global.L2::128B` and `0f3F800000` are one piece each,
//! `label:` and `mov.b32` start alike).

use crate::source::Pos;

/// What a byte may be part of.
mod class {
    /// Start of an identifier.
    pub const START: u8 = 1;
    /// Inside an identifier.
    pub const NAME: u8 = 2;
    /// White space.
    pub const BLANK: u8 = 4;
    /// Inside a mnemonic.
    pub const MNEMONIC: u8 = 8;
    /// A decimal digit.
    pub const DIGIT: u8 = 16;
}

const CLASSES: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = match b {
            b'a'..=b'z' | b'A'..=b'Z' => class::START | class::NAME | class::MNEMONIC,
            b'_' => class::START | class::NAME | class::MNEMONIC,
            b'$' | b'%' => class::START | class::NAME,
            b'0'..=b'9' => class::NAME | class::MNEMONIC | class::DIGIT,
            b'.' => class::MNEMONIC,
            b' ' | b'\t' | b'\r' | b'\n' | 0x0B | 0x0C => class::BLANK,
            _ => 0,
        };
        byte += 1;
    }
    // `%` starts a name only: inside one it is the remainder operator.
    table[b'%' as usize] = class::START;
    table
};

fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// A place in the text. Cheap to copy: going back is setting it again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    /// Offset of the byte that is looked at.
    at: usize,
    /// Offset behind the last piece that was taken.
    end: usize,
    line: u32,
    line_start: usize,
}

impl<'a> Cursor<'a> {
    /// At the first piece of the text.
    pub fn new(text: &'a str) -> Self {
        let start = if text.starts_with('\u{FEFF}') { 3 } else { 0 };
        let mut cursor = Cursor {
            text,
            at: start,
            end: start,
            line: 1,
            line_start: 0,
        };
        cursor.skip_blank();
        cursor
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// The byte that is looked at; 0 at the end.
    pub fn peek(&self) -> u8 {
        self.byte(self.at)
    }

    /// The byte behind that one, blanks not skipped.
    pub fn peek_second(&self) -> u8 {
        self.byte(self.at + 1)
    }

    /// Nothing is left.
    pub fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// No blank lies between the last piece and what is looked at.
    pub fn touches(&self) -> bool {
        self.at == self.end
    }

    /// Offset of the byte that is looked at.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Text from `start` to the end of the last piece taken.
    pub fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.end).unwrap_or_default()
    }

    /// The place that is looked at.
    pub fn pos(&self) -> Pos {
        Pos {
            line: self.line,
            column: u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX),
        }
    }

    /// Ends a piece at `end`, and goes on to the next.
    fn take_to(&mut self, start: usize, end: usize) -> &'a str {
        self.at = end;
        self.end = end;
        self.skip_blank();
        self.text.get(start..end).unwrap_or_default()
    }

    fn skip_blank(&mut self) {
        loop {
            let byte = self.peek();
            if is(byte, class::BLANK) {
                if byte == b'\n' {
                    self.line = self.line.saturating_add(1);
                    self.line_start = self.at + 1;
                }
                self.at += 1;
            } else if byte == b'/' && self.peek_second() == b'/' {
                self.at = self.find(self.at, b'\n');
            } else if byte == b'/' && self.peek_second() == b'*' {
                self.skip_comment();
            } else if byte == b'#' && self.line_marker() {
                self.at = self.find(self.at, b'\n');
            } else {
                return;
            }
        }
    }

    /// `# 12 "file"`, which a preprocessor leaves behind.
    fn line_marker(&self) -> bool {
        let rest = self.text.as_bytes().get(self.at + 1..).unwrap_or_default();
        let mut behind = rest.iter().skip_while(|&&b| b == b' ' || b == b'\t');
        behind.next().is_some_and(u8::is_ascii_digit)
    }

    fn find(&self, from: usize, wanted: u8) -> usize {
        let rest = self.text.as_bytes().get(from..).unwrap_or_default();
        rest.iter()
            .position(|&b| b == wanted)
            .map_or(self.text.len(), |n| from + n)
    }

    /// `/* … */`; one without an end takes the rest of the text.
    fn skip_comment(&mut self) {
        self.at += 2;
        while !self.at_end() {
            match self.peek() {
                b'*' if self.peek_second() == b'/' => {
                    self.at += 2;
                    return;
                }
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    self.line_start = self.at + 1;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Takes one byte if it is this one.
    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && !self.at_end();
        if found {
            self.bump();
        }
        found
    }

    /// Takes one byte.
    pub fn bump(&mut self) {
        if !self.at_end() {
            // A whole character, so that `at` stays on a boundary.
            let mut end = self.at + 1;
            while !self.text.is_char_boundary(end) {
                end += 1;
            }
            self.take_to(self.at, end);
        }
    }

    /// An identifier starts here.
    pub fn at_name(&self) -> bool {
        is(self.peek(), class::START)
    }

    /// A number starts here.
    pub fn at_digit(&self) -> bool {
        let byte = self.peek();
        is(byte, class::DIGIT) || byte == b'.' && is(self.peek_second(), class::DIGIT)
    }

    fn name_end(&self, mut at: usize) -> usize {
        while is(self.byte(at), class::NAME) {
            at += 1;
        }
        at
    }

    /// Takes an identifier.
    pub fn name(&mut self) -> Option<&'a str> {
        if !self.at_name() {
            return None;
        }
        let end = self.name_end(self.at + 1);
        // `%` alone is an operator.
        if end == self.at + 1 && self.peek() == b'%' {
            return None;
        }
        Some(self.take_to(self.at, end))
    }

    /// The identifier that starts here, not taken.
    pub fn peek_name(&self) -> &'a str {
        if !self.at_name() {
            return "";
        }
        let end = self.name_end(self.at + 1);
        self.text.get(self.at..end).unwrap_or_default()
    }

    /// Takes an identifier, and `.word` if it follows without a blank: `%tid.x`, `v.y`.
    pub fn dotted_name(&mut self) -> Option<(&'a str, Option<&'a str>)> {
        if !self.at_name() {
            return None;
        }
        let start = self.at;
        let end = self.name_end(start + 1);
        if end == start + 1 && self.peek() == b'%' {
            return None;
        }
        let name = self.text.get(start..end).unwrap_or_default();
        if self.byte(end) == b'.' && is(self.byte(end + 1), class::NAME) {
            let last = self.name_end(end + 1);
            let element = self.text.get(end + 1..last).unwrap_or_default();
            self.take_to(start, last);
            return Some((name, Some(element)));
        }
        self.take_to(start, end);
        Some((name, None))
    }

    /// Takes `.word` if it is one, and gives it without the dot. `::` is part of a word.
    pub fn dot_word(&mut self) -> Option<&'a str> {
        let word = self.peek_dot_word();
        if word.is_empty() {
            return None;
        }
        self.take_to(self.at, self.at + 1 + word.len());
        Some(word)
    }

    /// The word of `.word`; empty if there is none. Not taken.
    pub fn peek_dot_word(&self) -> &'a str {
        if self.peek() != b'.' {
            return "";
        }
        let start = self.at + 1;
        let mut end = start;
        loop {
            end = self.name_end(end);
            if end > start && self.byte(end) == b':' && self.byte(end + 1) == b':' {
                end += 2;
            } else {
                break;
            }
        }
        self.text.get(start..end).unwrap_or_default()
    }

    /// Takes a mnemonic with its modifiers as far as no blank comes between. Empty if there is none.
    pub fn mnemonic(&mut self) -> &'a str {
        let start = self.at;
        let mut end = start;
        loop {
            while is(self.byte(end), class::MNEMONIC) {
                end += 1;
            }
            if self.byte(end) == b':' && self.byte(end + 1) == b':' && end > start {
                end += 2;
            } else {
                break;
            }
        }
        self.take_to(start, end)
    }

    /// Takes a number, with its sign of an exponent, as text.
    pub fn number(&mut self) -> Option<&'a str> {
        if !self.at_digit() {
            return None;
        }
        let start = self.at;
        let mut end = start;
        let hex = matches!(self.byte(start + 1), b'x' | b'X') && self.peek() == b'0';
        let bits = self.peek() == b'0' && matches!(self.byte(start + 1), b'f' | b'F' | b'd' | b'D');
        loop {
            let byte = self.byte(end);
            let sign = matches!(byte, b'+' | b'-')
                && matches!(self.byte(end - 1), b'e' | b'E')
                && !hex
                && !bits
                && is(self.byte(end + 1), class::DIGIT);
            if !(is(byte, class::MNEMONIC) || sign) {
                break;
            }
            end += 1;
        }
        Some(self.take_to(start, end))
    }

    /// Takes a string, and gives what is between its quotes. A string ends on its line.
    pub fn string(&mut self) -> Option<&'a str> {
        if self.peek() != b'"' {
            return None;
        }
        let start = self.at;
        let mut end = start + 1;
        loop {
            match self.byte(end) {
                b'"' => break,
                b'\\' if !matches!(self.byte(end + 1), b'\n' | b'\r' | 0) => end += 2,
                b'\n' => return None,
                0 if end >= self.text.len() => return None,
                _ => end += 1,
            }
        }
        // Behind a backslash there may be a character of several bytes.
        let inside = self.text.get(start + 1..end)?;
        self.take_to(start, end + 1);
        Some(inside)
    }

    /// Takes the rest of the line, without white space at its end.
    pub fn rest_of_line(&mut self) -> &'a str {
        let start = self.at;
        let end = self.find(start, b'\n');
        let line = self.text.get(start..end).unwrap_or_default().trim_end();
        self.take_to(start, start + line.len())
    }

    /// Behind an opening bracket: skips behind the closing one. `false` when the text ends before.
    pub fn skip_block(&mut self, open: u8, close: u8) -> bool {
        let mut depth = 1u64;
        while !self.at_end() {
            let byte = self.peek();
            if byte == b'"' && self.string().is_some() {
                continue;
            }
            self.bump();
            if byte == open {
                depth += 1;
            } else if byte == close {
                depth -= 1;
                if depth == 0 {
                    return true;
                }
            }
        }
        false
    }

    /// Takes what starts here, whatever it is, and describes it for a message.
    pub fn describe(mut self) -> String {
        const MOST: usize = 40;
        let start = self.at;
        if self.at_end() {
            return "the end of the text".into();
        }
        if self.peek() == b'"' && self.string().is_none() {
            return "a string without its closing quote".into();
        }
        if self.end <= start {
            if self.at_name() {
                _ = self.name();
            } else if self.at_digit() {
                _ = self.number();
            } else if self.peek() == b'.' {
                _ = self.dot_word();
            }
        }
        if self.end <= start {
            self.bump();
        }
        let found = self.since(start);
        match found.char_indices().nth(MOST) {
            Some((cut, _)) => format!("`{}…`", found.get(..cut).unwrap_or_default()),
            None => format!("`{}`", found.replace(char::is_control, "?")),
        }
    }
}
