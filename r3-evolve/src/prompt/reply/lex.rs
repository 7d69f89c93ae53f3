//! Answers as lexemes: enough of C++ to find names, braces and comments in text that may be cut off or wrong.
//!
//! A parser makes something of any text; here it must be known what is missing. So braces are counted, and texts are compared,
//! without a tree.

use std::ops::Range;

/// What a lexeme is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or keyword.
    Word,
    /// A number.
    Number,
    /// A string or a character, with its quotes.
    Quoted,
    /// A comment.
    Comment,
    /// Any other character.
    Sign,
}

/// A lexeme and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lexeme {
    /// What it is.
    pub kind: Kind,
    /// Where.
    pub span: Range<usize>,
    /// Whether the text ends within it.
    pub open: bool,
}

impl Lexeme {
    /// Its text.
    pub fn text<'a>(&self, of: &'a str) -> &'a str {
        of.get(self.span.clone()).unwrap_or_default()
    }
}

/// The lexemes of a text, comments included, blanks left out.
pub fn lex(text: &str) -> Vec<Lexeme> {
    let bytes = text.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let mut lexemes = Vec::new();
    let mut from = 0;
    while from < bytes.len() {
        let first = at(from);
        if first.is_ascii_whitespace() {
            from += 1;
            continue;
        }
        let (kind, to, open) = match first {
            b'/' if at(from + 1) == b'/' => (Kind::Comment, line_end(bytes, from), false),
            b'/' if at(from + 1) == b'*' => match find(bytes, from + 2, b"*/") {
                Some(end) => (Kind::Comment, end + 2, false),
                None => (Kind::Comment, bytes.len(), true),
            },
            b'R' if at(from + 1) == b'"' => raw_string(bytes, from),
            b'"' | b'\'' => quoted(bytes, from),
            b'0'..=b'9' => (Kind::Number, number_end(bytes, from), false),
            _ if is_word(first) => {
                let length = bytes[from..]
                    .iter()
                    .take_while(|&&byte| is_word(byte) || byte.is_ascii_digit());
                (Kind::Word, from + length.count(), false)
            }
            _ => (Kind::Sign, from + 1, false),
        };
        lexemes.push(Lexeme {
            kind,
            span: from..to,
            open,
        });
        from = to;
    }
    lexemes
}

/// Bytes of a name. What is not ASCII counts as a part of names, so that no character is taken apart.
fn is_word(byte: u8) -> bool {
    byte == b'_' || byte == b'$' || byte.is_ascii_alphabetic() || byte >= 0x80
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    bytes
        .get(from..)?
        .windows(what.len())
        .position(|window| window == what)
        .map(|at| at + from)
}

/// End of the line, which a backslash continues.
fn line_end(bytes: &[u8], mut from: usize) -> usize {
    loop {
        match find(bytes, from, b"\n") {
            Some(end) if end > 0 && bytes.get(end - 1) == Some(&b'\\') => from = end + 1,
            Some(end) => return end,
            None => return bytes.len(),
        }
    }
}

/// A number with separators, exponents and suffixes: `1'000`, `1e-5f`, `0x1p-3`.
fn number_end(bytes: &[u8], from: usize) -> usize {
    let mut to = from + 1;
    while let Some(&byte) = bytes.get(to) {
        let signed_exponent = matches!(byte, b'+' | b'-')
            && matches!(bytes.get(to - 1), Some(b'e' | b'E' | b'p' | b'P'))
            && !(bytes
                .get(from + 1)
                .is_some_and(|second| matches!(second, b'x' | b'X'))
                && matches!(bytes.get(to - 1), Some(b'e' | b'E')));
        let separator = byte == b'\'' && bytes.get(to + 1).is_some_and(u8::is_ascii_alphanumeric);
        if !(is_word(byte) || byte.is_ascii_digit() || byte == b'.' || signed_exponent || separator)
        {
            break;
        }
        to += 1;
    }
    to
}

/// A string or character in quotes; it ends at the end of its line at the latest.
fn quoted(bytes: &[u8], from: usize) -> (Kind, usize, bool) {
    let quote = bytes.get(from).copied();
    let mut to = from + 1;
    loop {
        match bytes.get(to).copied() {
            None => return (Kind::Quoted, bytes.len(), true),
            Some(b'\n') => return (Kind::Quoted, to, false),
            Some(b'\\') => to = (to + 2).min(bytes.len()),
            byte if byte == quote => return (Kind::Quoted, to + 1, false),
            Some(_) => to += 1,
        }
    }
}

fn raw_string(bytes: &[u8], from: usize) -> (Kind, usize, bool) {
    let Some(open) = find(bytes, from, b"(").filter(|open| open - from <= 18) else {
        return (Kind::Word, from + 1, false);
    };
    let mut end = vec![b')'];
    end.extend(bytes.get(from + 2..open).unwrap_or_default());
    end.push(b'"');
    match find(bytes, open, &end) {
        Some(at) => (Kind::Quoted, at + end.len(), false),
        None => (Kind::Quoted, bytes.len(), true),
    }
}

/// What is wrong with the brackets of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unbalanced {
    /// So many brackets are not closed; the first of them is on this line, from 1.
    Open {
        /// How many.
        count: usize,
        /// Line of the innermost one.
        line: usize,
    },
    /// A bracket on this line closes nothing.
    Closes {
        /// Line, from 1.
        line: usize,
    },
    /// The text ends within a comment or string.
    Within,
}

/// Whether every bracket has its counterpart. Branches of `#if` count once: those behind `#else` and `#elif` are left out, since
/// each of them may open the same brace.
pub fn balance(text: &str) -> Result<(), Unbalanced> {
    let text = without_other_branches(text);
    let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
    let mut open: Vec<(char, usize)> = Vec::new();
    for lexeme in lex(&text) {
        if lexeme.open {
            return Err(Unbalanced::Within);
        }
        if lexeme.kind != Kind::Sign {
            continue;
        }
        let sign = lexeme.text(&text).chars().next().unwrap_or(' ');
        match sign {
            '(' | '[' | '{' => open.push((sign, lexeme.span.start)),
            ')' | ']' | '}' => {
                let wants = match sign {
                    ')' => '(',
                    ']' => '[',
                    _ => '{',
                };
                match open.pop() {
                    Some((opened, _)) if opened == wants => {}
                    _ => {
                        return Err(Unbalanced::Closes {
                            line: line(lexeme.span.start),
                        });
                    }
                }
            }
            _ => {}
        }
    }
    match open.last() {
        Some((_, at)) => Err(Unbalanced::Open {
            count: open.len(),
            line: line(*at),
        }),
        None => Ok(()),
    }
}

/// The text with blank lines in place of directives, and of what stands in branches behind the first one.
fn without_other_branches(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    // For each `#if`: whether a branch behind the first one has begun.
    let mut other: Vec<bool> = Vec::new();
    let mut continued = false;
    for line in text.split_inclusive('\n') {
        let word = line.trim_start();
        let directive = continued || word.starts_with('#');
        if !continued && directive {
            let name = word.trim_start_matches('#').trim_start();
            if name.starts_with("if") {
                other.push(false);
            } else if name.starts_with("el") {
                if let Some(last) = other.last_mut() {
                    *last = true;
                }
            } else if name.starts_with("endif") {
                other.pop();
            }
        }
        continued = directive && line.trim_end().ends_with('\\');
        if directive || other.contains(&true) {
            kept.push_str(if line.ends_with('\n') { "\n" } else { "" });
        } else {
            kept.push_str(line);
        }
    }
    kept
}

/// The texts of all lexemes but comments.
pub fn words(text: &str) -> Vec<&str> {
    lex(text)
        .iter()
        .filter(|lexeme| lexeme.kind != Kind::Comment)
        .map(|lexeme| lexeme.text(text))
        .collect()
}

/// The text with one name in place of another, comments and strings left alone.
pub fn renamed(text: &str, from: &str, to: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut copied = 0;
    for lexeme in lex(text) {
        if lexeme.kind == Kind::Word && lexeme.text(text) == from {
            new.push_str(text.get(copied..lexeme.span.start).unwrap_or_default());
            new.push_str(to);
            copied = lexeme.span.end;
        }
    }
    new.push_str(text.get(copied..).unwrap_or_default());
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_numbers_strings_and_comments_are_told_apart() {
        let text = "float x=1e-5f*0x1E-2; // a {\nasm(\"{ }\"); 'a' 1'000 R\"(})\" /* ( */";
        assert_eq!(
            words(text),
            [
                "float", "x", "=", "1e-5f", "*", "0x1E", "-", "2", ";", "asm", "(", "\"{ }\"", ")",
                ";", "'a'", "1'000", "R\"(})\""
            ]
        );
        assert_eq!(balance(text), Ok(()));
    }

    #[test]
    fn what_is_missing_is_found_with_its_line() {
        assert_eq!(
            balance("void k() {\n  if (a) {\n    f(b"),
            Err(Unbalanced::Open { count: 3, line: 3 })
        );
        assert_eq!(balance("}\n"), Err(Unbalanced::Closes { line: 1 }));
        assert_eq!(balance("{\n(}\n"), Err(Unbalanced::Closes { line: 2 }));
        assert_eq!(balance("{ /* }"), Err(Unbalanced::Within));
    }

    #[test]
    fn a_brace_that_is_opened_in_two_branches_counts_once() {
        let text = "void k() {\n#if A\n  for (;;) {\n#else\n  if (b) {\n#endif\n  }\n}\n#define X { \\\n {\n";
        assert_eq!(balance(text), Ok(()));
    }

    #[test]
    fn a_name_is_changed_where_it_is_a_name() {
        assert_eq!(
            renamed("k2(k); // k\n\"k\" k", "k", "kernel"),
            "k2(kernel); // k\n\"k\" kernel"
        );
    }

    proptest! {
        #[test]
        fn any_text_has_lexemes_in_order(text in "\\PC{0,60}|[R\"'()/*\\\\\n a0e+#{}if-]{0,80}") {
            let mut end = 0;
            for lexeme in lex(&text) {
                prop_assert!(lexeme.span.start >= end && lexeme.span.end > lexeme.span.start);
                prop_assert!(text.get(lexeme.span.clone()).is_some());
                end = lexeme.span.end;
            }
            let _ = balance(&text);
            prop_assert_eq!(renamed(&text, "a", "a"), text);
        }
    }
}
