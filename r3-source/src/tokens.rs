//! A text without blanks and comments.
//!
//! In flows any text, also one that no parser would take; out flow its tokens. Two texts with the same tokens compile to the
//! same code. Comments are no tokens but for those that say how a kernel is launched ([`crate::directive`]). A line of the
//! preprocessor ends with a token of its own, since its end means something.

use xxhash_rust::xxh3::xxh3_128;

use crate::directive;

/// The token at the end of a line of the preprocessor.
pub const LINE: &str = "\n";

/// Operators of more than one character, longest first.
const OPERATORS: &[&str] = &[
    "<<<", ">>>", "<<=", ">>=", "...", "->*", "<=>", "::", "->", "++", "--", "<<", ">>", "<=",
    ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", ".*", "##",
];

/// The tokens of a text.
#[must_use]
pub fn tokens(text: &str) -> Vec<&str> {
    Lexer {
        text,
        at: 0,
        line: false,
        fresh: true,
    }
    .collect()
}

/// How many tokens a text has.
#[must_use]
pub fn count(text: &str) -> usize {
    tokens(text).len()
}

/// The same for texts that differ in blanks and comments only.
#[must_use]
pub fn fingerprint(text: &str) -> u128 {
    let mut bytes = Vec::with_capacity(text.len());
    for token in tokens(text) {
        bytes.extend_from_slice(token.as_bytes());
        bytes.push(0);
    }
    xxh3_128(&bytes)
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// In a line of the preprocessor.
    line: bool,
    /// Nothing but blanks so far on this line.
    fresh: bool,
}

impl<'t> Iterator for Lexer<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        loop {
            let rest = self.text.get(self.at..)?;
            let Some(first) = rest.chars().next() else {
                return std::mem::take(&mut self.line).then_some(LINE);
            };
            if let Some(length) = joined_line(rest) {
                self.at += length;
            } else if first == '\n' {
                self.at += 1;
                self.fresh = true;
                if std::mem::take(&mut self.line) {
                    return Some(LINE);
                }
            } else if first.is_whitespace() {
                self.at += first.len_utf8();
            } else if rest.starts_with("//") {
                let length = line_length(rest);
                self.at += length;
                let comment = rest.get(..length).unwrap_or_default();
                if directive::is_directive(comment) {
                    return Some(comment.trim_end());
                }
            } else if rest.starts_with("/*") {
                self.at += rest
                    .get(2..)
                    .and_then(|rest| rest.find("*/"))
                    .map_or(rest.len(), |end| end + 4);
            } else {
                let length = token_length(rest, first);
                self.line |= first == '#' && self.fresh;
                self.fresh = false;
                self.at += length;
                return rest.get(..length);
            }
        }
    }
}

/// Length of a backslash at the end of a line.
fn joined_line(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('\\')?;
    (after.starts_with('\n').then_some(2)).or_else(|| after.starts_with("\r\n").then_some(3))
}

/// Up to the end of the line; a backslash before it goes on.
fn line_length(rest: &str) -> usize {
    let mut from = 0;
    while let Some(end) = rest.get(from..).and_then(|rest| rest.find('\n')) {
        let end = from + end;
        let line = rest.get(..end).unwrap_or_default();
        if !line.trim_end_matches('\r').ends_with('\\') {
            return end;
        }
        from = end + 1;
    }
    rest.len()
}

fn token_length(rest: &str, first: char) -> usize {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    if first.is_ascii_digit()
        || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
    {
        return number_length(rest);
    }
    if word(first) {
        let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(length);
        return match (name, after.chars().next()) {
            ("R" | "LR" | "uR" | "UR" | "u8R", Some('"')) => length + raw_length(after),
            ("L" | "u" | "U" | "u8", Some(quote @ ('"' | '\''))) => {
                length + quoted_length(after, quote)
            }
            _ => length,
        };
    }
    if first == '"' || first == '\'' {
        return quoted_length(rest, first);
    }
    OPERATORS
        .iter()
        .find(|operator| rest.starts_with(**operator))
        .map_or(first.len_utf8(), |operator| operator.len())
}

/// Digits, letters, points, separators, and signs after an exponent.
fn number_length(rest: &str) -> usize {
    let hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        let exponent = match hexadecimal {
            true => matches!(before, 'p' | 'P'),
            false => matches!(before, 'e' | 'E'),
        };
        let separator =
            c == '\'' && rest[at + 1..].starts_with(|c: char| c.is_ascii_alphanumeric());
        if !(c.is_alphanumeric()
            || c == '.'
            || c == '_'
            || separator
            || (exponent && matches!(c, '+' | '-')))
        {
            return at;
        }
        before = c;
    }
    rest.len()
}

/// A string or a character; one that does not end ends with its line.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return at,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw_length(rest: &str) -> usize {
    let Some(open) = rest.find('(') else {
        return quoted_length(rest, '"');
    };
    let end = format!("){}\"", rest.get(1..open).unwrap_or_default());
    rest.find(&end).map_or(rest.len(), |at| at + end.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{count, fingerprint, tokens};

    #[test]
    fn tokens_are_those_of_the_language() {
        let text = "#define N 4 // four\n#pragma unroll \\\n 4\nx+=1'000.5e-3f*a[i]->b; /* no */ k<<<1, 2>>>(R\"x(a \" b)x\", 'c', \"s\\\"\");\n// r3: launch block=128\n// plain";
        insta::assert_debug_snapshot!(tokens(text));
    }

    #[test]
    fn blanks_and_comments_do_not_count_but_the_launch_does() {
        let a = "void f() { x = 1; }";
        assert_eq!(
            fingerprint(a),
            fingerprint("void f()\n{\n  x = 1; // one\n}\n/* end */")
        );
        assert_ne!(
            fingerprint(a),
            fingerprint("void f() { x = 1; // r3: launch block=64\n}")
        );
        assert_ne!(fingerprint("a b"), fingerprint("ab"));
        assert_ne!(fingerprint("#define A\nb"), fingerprint("#define A b"));
        assert_eq!(count(a), 10);
    }

    proptest! {
        #[test]
        fn any_text_has_tokens_and_none_is_lost(text in "\\PC{0,200}") {
            let joined: String = tokens(&text).concat();
            for token in tokens(&text) {
                prop_assert!(token == "\n" || text.contains(token));
            }
            prop_assert!(joined.len() <= text.len() + 1);
        }
    }
}
