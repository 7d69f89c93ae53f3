//! Tokens of PTX declarations, and fast skipping of what lies between them.

/// A token. Comments and white space are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A directive, type or modifier without its dot: `entry`, `u64`, `align`.
    Dot(&'a [u8]),
    /// A name or a register.
    Name(&'a [u8]),
    /// A literal that starts with a digit.
    Number(&'a [u8]),
    /// A string without its quotes.
    Text(&'a [u8]),
    /// Any other byte.
    Punct(u8),
}

/// Cuts text into tokens.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Lexer { text, at: 0 }
    }

    /// Offset of the next byte to be read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Continues at `at`.
    pub(crate) fn rewind(&mut self, at: usize) {
        self.at = at;
    }

    /// Line of offset `at`, from 1. Slow: for messages.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        1 + self.text.iter().take(at).filter(|&&b| b == b'\n').count()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn find(&self, from: usize, wanted: impl Fn(u8) -> bool) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        rest.iter()
            .position(|&b| wanted(b))
            .map_or(self.text.len(), |n| from + n)
    }

    /// Skips white space and comments.
    pub(crate) fn skip_blank(&mut self) {
        loop {
            self.at = self.find(self.at, |b| !b.is_ascii_whitespace());
            match self.rest() {
                [b'/', b'/', ..] => self.skip_line(),
                [b'/', b'*', ..] => self.skip_block_comment(),
                [b'#', rest @ ..] if is_line_marker(rest) => self.skip_line(),
                _ => return,
            }
        }
    }

    /// Skips to the end of the line.
    pub(crate) fn skip_line(&mut self) {
        self.at = self.find(self.at, |b| b == b'\n');
    }

    fn skip_block_comment(&mut self) {
        let mut at = self.at + 2;
        loop {
            at = self.find(at, |b| b == b'*');
            match self.text.get(at + 1) {
                Some(b'/') => {
                    self.at = at + 2;
                    return;
                }
                Some(_) => at += 1,
                None => {
                    self.at = self.text.len();
                    return;
                }
            }
        }
    }

    fn skip_string(&mut self) -> &'a [u8] {
        let from = self.at + 1;
        let mut at = from;
        loop {
            at = self.find(at, |b| matches!(b, b'"' | b'\\' | b'\n'));
            match self.text.get(at) {
                Some(b'\\') => at += 2,
                // A string does not span lines; an unclosed one ends with its line.
                Some(b'"') => break self.at = at + 1,
                _ => break self.at = at.min(self.text.len()),
            }
        }
        self.text
            .get(from..at.min(self.text.len()))
            .unwrap_or_default()
    }

    /// The next token; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blank();
        let start = self.at;
        let first = *self.text.get(start)?;
        let word = |from: usize, also: &[u8]| {
            let end = self.find(from, |b| !is_name_byte(b) && !also.contains(&b));
            (end, self.text.get(start..end).unwrap_or_default())
        };
        let (end, token) = match first {
            b'.' => {
                let (end, word) = word(start + 1, b"");
                match word {
                    [_] => (end, Token::Punct(b'.')),
                    [_, name @ ..] => (end, Token::Dot(name)),
                    [] => return None,
                }
            }
            b'0'..=b'9' => {
                let (end, word) = word(start + 1, b".");
                (end, Token::Number(word))
            }
            b'%' => {
                let (end, word) = word(start + 1, b"");
                (end, Token::Name(word))
            }
            b'"' => return Some(Token::Text(self.skip_string())),
            byte if is_name_byte(byte) => {
                let (end, word) = word(start + 1, b"");
                (end, Token::Name(word))
            }
            byte => (start + 1, Token::Punct(byte)),
        };
        self.at = end;
        Some(token)
    }

    /// The next token, without taking it.
    pub(crate) fn peek(&self) -> Option<Token<'a>> {
        self.clone().next()
    }

    /// Takes the next token if it is this byte.
    pub(crate) fn take(&mut self, punct: u8) -> bool {
        let mut ahead = self.clone();
        let found = ahead.next() == Some(Token::Punct(punct));
        if found {
            *self = ahead;
        }
        found
    }

    /// Takes the next token if it is an integer.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut ahead = self.clone();
        let Some(Token::Number(literal)) = ahead.next() else {
            return None;
        };
        *self = ahead;
        integer(literal)
    }

    /// Behind an opening bracket: skips to behind the matching closing one. `false` when the text
    /// ends first. Braces, parentheses and brackets are each counted on their own.
    pub(crate) fn skip_block(&mut self, open: u8, close: u8) -> bool {
        let mut depth = 1u64;
        loop {
            self.at = self.find(self.at, |b| {
                b == open || b == close || b == b'"' || b == b'/'
            });
            match self.rest() {
                [] => return false,
                [b'"', ..] => {
                    self.skip_string();
                }
                [b'/', b'/', ..] => self.skip_line(),
                [b'/', b'*', ..] => self.skip_block_comment(),
                [byte, ..] => {
                    self.at += 1;
                    if *byte == open {
                        depth += 1;
                    } else if *byte == close {
                        depth -= 1;
                        if depth == 0 {
                            return true;
                        }
                    }
                }
            }
        }
    }
}

/// Behind `#`: ` 12 "file"`, which a preprocessor leaves behind.
fn is_line_marker(rest: &[u8]) -> bool {
    let mut behind = rest.iter().skip_while(|&&b| b == b' ' || b == b'\t');
    behind.next().is_some_and(u8::is_ascii_digit)
}

/// An integer literal: decimal, `0x`, `0b` or octal, with an optional `U`.
fn integer(literal: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(literal).ok()?;
    let text = text.strip_suffix(['U', 'u']).unwrap_or(text);
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (text.get(2..)?, 16),
        [b'0', b'b' | b'B', ..] => (text.get(2..)?, 2),
        [b'0', _, ..] => (text.get(1..)?, 8),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, radix).ok()
}
