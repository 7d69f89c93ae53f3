//! Inline assembly in CUDA C++: found in the text, however it is written.
//!
//! Assembly in PTX cannot be told from what a compiler wrote, and headers of a toolkit, which anybody may include, are full of
//! it. So the text that was given is looked at, as a compiler's first steps see it: continued lines joined, comments and
//! strings told apart from code, names of macros in options included. A word can also be put together by `##`: words that
//! stand in the text are tried as its parts.
//!
//! Two statements are the same when their [shapes](shape) are: what stands in the place of operands does not count. So it can
//! be seen that the original has a statement, in its source or in the comments that compilers leave round one in PTX.

use std::collections::BTreeSet;

use super::{Finding, Original, Rule};
use crate::evaluate::candidate::SourceCode;

/// Words that begin inline assembly.
const KEYWORDS: [&str; 3] = ["asm", "__asm", "__asm__"];
/// What may stand between such a word and its parenthesis.
const QUALIFIERS: [&str; 6] = [
    "volatile",
    "__volatile__",
    "__volatile",
    "inline",
    "__inline__",
    "goto",
];

/// A piece of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// A string literal's content, as it is written.
    Text(String),
    /// `##`
    Paste,
    /// Any other character; `0` for a number.
    Mark(char),
    /// End of a line that is not continued.
    End,
}

/// Assembly that a candidate's source has and may not have.
pub fn check(source: &SourceCode, original: &Original, allowed: &[String]) -> Vec<Finding> {
    let allowed: BTreeSet<String> = allowed.iter().map(|template| shape(template)).collect();
    let is_allowed = |statement: &Statement| {
        statement.template.as_ref().is_some_and(|template| {
            let shape = shape(template);
            allowed.contains(&shape) || original.has_assembly(&shape)
        })
    };
    let headers = source.headers.iter();
    let headers = headers.filter(|(name, text)| !original.has_header(name, text));
    let headers = headers.map(|(name, text)| (format!("of its header {name}"), text.clone()));
    let own = [
        ("of its source".to_owned(), source.text.clone()),
        ("of its options".to_owned(), definitions(&source.options)),
    ];
    for (whose, text) in own.into_iter().chain(headers) {
        let found = statements(&text)
            .into_iter()
            .find(|found| !is_allowed(found));
        if let Some(found) = found {
            let what = match &found.template {
                Some(template) => format!("has inline assembly ({})", short(template)),
                None if found.pasted => "puts the word asm together with ##".to_owned(),
                None => "has inline assembly".to_owned(),
            };
            return vec![Finding {
                rule: Rule::Assembly,
                what,
                place: format!("line {} {whose}", found.line),
            }];
        }
    }
    Vec::new()
}

fn short(template: &str) -> String {
    let words: Vec<&str> = template.split_whitespace().collect();
    let mut text: String = words.join(" ").chars().take(60).collect();
    if text.len() < template.len() {
        text.push('…');
    }
    crate::names::printable(&text)
}

/// The templates of the inline assembly of a source: what is between the quotes.
pub fn templates(text: &str) -> Vec<String> {
    let found = statements(text).into_iter();
    found.filter_map(|statement| statement.template).collect()
}

/// A template without what stands for operands: `mov.u32 %0, %%clock;` and `mov.u32 %r7, %clock;` have one shape.
pub fn shape(template: &str) -> String {
    let mut shape = String::new();
    let mut rest = template.replace("\\n", " ").replace("\\t", " ");
    rest.retain(|c| !c.is_whitespace());
    let mut left = rest.as_str();
    while let Some(at) = left.find('%') {
        let (before, after) = left.split_at(at);
        shape.push_str(before);
        let after = after.trim_start_matches('%');
        let len = after
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(after.len());
        let (word, next) = after.split_at(len);
        let digits = word.trim_start_matches(|c: char| c.is_ascii_lowercase());
        let operand = !digits.is_empty()
            && digits.chars().all(|c| c.is_ascii_digit())
            && (word == digits
                || REGISTERS
                    .iter()
                    .any(|known| word.strip_suffix(digits) == Some(known)));
        match operand {
            true => shape.push('@'),
            false => {
                shape.push('%');
                shape.push_str(word);
            }
        }
        left = next;
    }
    shape.push_str(left);
    // Compilers write `[%rd1+0]` or `[%rd1]` and leave out empty statements.
    let shape = shape.replace("@+0]", "@]").replace(";;", ";");
    shape
        .trim_matches(|c| c == ';' || c == '{' || c == '}')
        .to_owned()
}

/// How compilers name registers in PTX.
const REGISTERS: [&str; 9] = ["r", "rd", "f", "fd", "rs", "h", "hh", "p", "rq"];

/// The shapes of statements that compilers marked in PTX.
pub fn blocks(ptx: &str) -> BTreeSet<String> {
    let mut shapes = BTreeSet::new();
    let mut block: Option<String> = None;
    for line in ptx.lines() {
        let line = line.trim();
        if line.starts_with("// begin inline asm") {
            block = Some(String::new());
        } else if line.starts_with("// end inline asm") {
            shapes.extend(block.take().map(|text| shape(&text)));
        } else if let Some(block) = &mut block {
            block.push_str(line);
            block.push(' ');
        }
    }
    shapes
}

/// Macros that options define.
fn definitions(options: &[String]) -> String {
    let mut text = String::new();
    let mut next = false;
    for option in options {
        let given = ["-D", "--define-macro=", "/D"];
        let given = given.iter().find_map(|begin| option.strip_prefix(begin));
        let value = match given {
            Some(value) => Some(value),
            None if next => Some(option.as_str()),
            None => None,
        };
        next = matches!(option.as_str(), "-D" | "--define-macro" | "/D");
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            text.push_str("#define ");
            text.push_str(&value.replacen('=', " ", 1));
            text.push('\n');
        }
    }
    text
}

/// A statement of inline assembly, or what may become one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Statement {
    line: u32,
    /// Its text, where it is written out.
    template: Option<String>,
    pasted: bool,
}

fn statements(text: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    // What any of the readings has counts.
    for reading in Reading::of(text) {
        for statement in statements_of(text, reading) {
            if !found.contains(&statement) {
                found.push(statement);
            }
        }
    }
    found
}

/// What compilers, and versions of the language, do not read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    /// Whether `??=` is a `#`, and `??/` a `\`.
    trigraphs: bool,
    /// Whether a line is continued when blanks follow its `\`.
    blanks: bool,
    /// Whether a carriage return alone ends a line.
    returns: bool,
}

impl Reading {
    /// Those in which a text may differ.
    fn of(text: &str) -> Vec<Self> {
        let either = |differ: bool, plain: bool| match differ {
            true => vec![true, false],
            false => vec![plain],
        };
        let trigraphs = either(text.contains("??"), false);
        let blanks = either(text.contains('\\'), true);
        let returns = either(text.replace("\r\n", "").contains('\r'), false);
        let mut readings = Vec::new();
        for &trigraphs in &trigraphs {
            for &blanks in &blanks {
                readings.extend(returns.iter().map(|&returns| Self {
                    trigraphs,
                    blanks,
                    returns,
                }));
            }
        }
        readings
    }
}

fn statements_of(text: &str, reading: Reading) -> Vec<Statement> {
    let tokens = tokens(text, reading);
    let mut found = Vec::new();
    for (at, (token, line)) in tokens.iter().enumerate() {
        let Token::Word(word) = token else { continue };
        if KEYWORDS.contains(&word.as_str()) {
            let rest = tokens.get(at + 1..).unwrap_or_default();
            found.push(Statement {
                line: *line,
                template: template(rest),
                pasted: false,
            });
        }
    }
    if let Some(line) = pasted(&tokens) {
        found.push(Statement {
            line,
            template: None,
            pasted: true,
        });
    }
    found
}

/// What is between the quotes that follow; `None` when that is a macro, or nothing.
fn template(rest: &[(Token, u32)]) -> Option<String> {
    let mut rest = rest
        .iter()
        .map(|(token, _)| token)
        .filter(|token| **token != Token::End);
    let opens = loop {
        match rest.next()? {
            Token::Word(word) if QUALIFIERS.contains(&word.as_str()) => {}
            other => break *other == Token::Mark('('),
        }
    };
    if !opens {
        return None;
    }
    let mut text = None;
    for token in rest {
        match token {
            Token::Text(part) => text.get_or_insert_with(String::new).push_str(part),
            Token::Mark(':' | ')') => return text,
            _ => return None,
        }
    }
    None
}

/// The line of a `##` that may make one of the words.
fn pasted(tokens: &[(Token, u32)]) -> Option<u32> {
    if !tokens.iter().any(|(token, _)| *token == Token::Paste) {
        return None;
    }
    let defined = Defined::new(tokens);
    let begin = defined.pieces.clone();
    let mut pieces = begin;
    // What is put together may be put together again.
    loop {
        let before = pieces.len();
        for (left, right, line) in &defined.pastes {
            let (left, right) = (left.words(&pieces), right.words(&pieces));
            for word in left
                .iter()
                .flat_map(|l| right.iter().map(move |r| format!("{l}{r}")))
            {
                if KEYWORDS.contains(&word.as_str()) {
                    return Some(*line);
                }
                if is_piece(&word) {
                    pieces.insert(word);
                }
            }
        }
        if pieces.len() == before {
            return None;
        }
    }
}

/// Whether a word is a part of one of the keywords.
fn is_piece(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.contains(word))
}

/// One side of a `##`.
enum Side {
    /// This word.
    Word(String),
    /// A parameter of a macro: any word of the text, or none.
    Any,
}

impl Side {
    fn words(&self, pieces: &BTreeSet<String>) -> Vec<String> {
        match self {
            Self::Word(word) => vec![word.clone()],
            Self::Any => pieces.iter().cloned().chain([String::new()]).collect(),
        }
    }
}

/// What macros put together, and the words that they may get.
struct Defined {
    pastes: Vec<(Side, Side, u32)>,
    pieces: BTreeSet<String>,
}

impl Defined {
    fn new(tokens: &[(Token, u32)]) -> Self {
        let mut defined = Self {
            pastes: Vec::new(),
            pieces: BTreeSet::new(),
        };
        for line in tokens.split(|(token, _)| *token == Token::End) {
            let plain: Vec<&Token> = line.iter().map(|(token, _)| token).collect();
            let is = |at: usize, word: &str| matches!(plain.get(at), Some(Token::Word(found)) if found == word);
            let defines = plain.first() == Some(&&Token::Mark('#')) && is(1, "define");
            let parameters = match defines {
                true => parameters(&plain),
                false => BTreeSet::new(),
            };
            for (at, (token, number)) in line.iter().enumerate() {
                match token {
                    Token::Paste => {
                        let side =
                            |at: Option<usize>| side(at.and_then(|at| plain.get(at)), &parameters);
                        defined
                            .pastes
                            .push((side(at.checked_sub(1)), side(Some(at + 1)), *number));
                    }
                    Token::Word(word) if !parameters.contains(word) && is_piece(word) => {
                        defined.pieces.insert(word.clone());
                    }
                    _ => {}
                }
            }
        }
        defined
    }
}

fn side(token: Option<&&Token>, parameters: &BTreeSet<String>) -> Side {
    match token {
        Some(Token::Word(word)) if parameters.contains(word) => Side::Any,
        Some(Token::Word(word)) => Side::Word(word.clone()),
        // With a number or a sign no word comes out.
        _ => Side::Word("#".to_owned()),
    }
}

/// Parameters of `#define NAME(a, b)`.
fn parameters(line: &[&Token]) -> BTreeSet<String> {
    let mut found = BTreeSet::from(["__VA_ARGS__".to_owned()]);
    if line.get(3) != Some(&&Token::Mark('(')) {
        return found;
    }
    for token in line.iter().skip(4) {
        match token {
            Token::Word(word) => {
                found.insert(word.clone());
            }
            Token::Mark(')') => break,
            _ => {}
        }
    }
    found
}

/// A text in pieces, with their lines. Continued lines are joined, comments are left out.
fn tokens(text: &str, reading: Reading) -> Vec<(Token, u32)> {
    let mut reader = Reader {
        text,
        letters: joined(text, reading),
        at: 0,
    };
    let mut tokens = Vec::new();
    while let Some((token, line)) = reader.token() {
        tokens.push((token, line));
    }
    tokens
}

/// A letter of a text.
#[derive(Clone, Copy, Debug)]
struct Letter {
    letter: char,
    line: u32,
    /// Where it begins in the text.
    start: usize,
}

/// Letters as they are after a compiler's first two steps: trigraphs replaced, `\` at the end of a line gone, letters that
/// are written as `\u0061` too.
fn joined(text: &str, reading: Reading) -> Vec<Letter> {
    let mut letters: Vec<Letter> = Vec::with_capacity(text.len());
    let mut line = 1;
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let start = text.len() - rest.len();
        let (taken, made) = match rest.as_bytes() {
            [b'?', b'?', b'=', ..] if reading.trigraphs => (3, Some('#')),
            [b'?', b'?', b'/', ..] if reading.trigraphs => (3, Some('\\')),
            [b'%', b':', ..] => (2, Some('#')),
            [b'\\', b'u', ..] => named(rest, 4),
            [b'\\', b'U', ..] => named(rest, 8),
            [b'\r', b'\n', ..] => (1, None),
            [b'\r', ..] if reading.returns => (1, Some('\n')),
            _ => (letter.len_utf8(), Some(letter)),
        };
        rest = rest.get(taken..).unwrap_or_default();
        if made == Some('\\') {
            let is_blank = |c: char| c.is_ascii_whitespace() || c == '\x0b';
            let end = match reading.blanks {
                true => rest.trim_start_matches(|c| is_blank(c) && c != '\n'),
                false => rest.strip_prefix('\r').unwrap_or(rest),
            };
            let ends = end.strip_prefix('\n').or_else(|| {
                let before = rest.len() - end.len();
                let returned = rest.get(..before).and_then(|blanks| blanks.find('\r'));
                rest.get(returned? + 1..).filter(|_| reading.returns)
            });
            if let Some(next) = ends {
                rest = next;
                line += 1;
                continue;
            }
        }
        if let Some(made) = made {
            letters.push(Letter {
                letter: made,
                line,
                start,
            });
        }
        line += u32::from(letter == '\n');
    }
    letters
}

/// A letter that is written as its number.
fn named(rest: &str, digits: usize) -> (usize, Option<char>) {
    let number = rest.get(2..2 + digits);
    let number = number.and_then(|number| u32::from_str_radix(number, 16).ok());
    match number.and_then(char::from_u32) {
        Some(letter) if letter.is_ascii_alphanumeric() || letter == '_' => {
            (2 + digits, Some(letter))
        }
        _ => (1, Some('\\')),
    }
}

struct Reader<'t> {
    text: &'t str,
    letters: Vec<Letter>,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters
            .get(self.at + ahead)
            .map(|letter| letter.letter)
    }

    fn token(&mut self) -> Option<(Token, u32)> {
        loop {
            let &Letter { letter, line, .. } = self.letters.get(self.at)?;
            match (letter, self.peek(1)) {
                ('\n', _) => {
                    self.at += 1;
                    return Some((Token::End, line));
                }
                ('/', Some('/')) => self.skip(|reader| reader.peek(0) == Some('\n'), 0),
                ('/', Some('*')) => {
                    self.at += 2;
                    self.skip(
                        |reader| (reader.peek(0), reader.peek(1)) == (Some('*'), Some('/')),
                        2,
                    );
                }
                ('"', _) => return Some((Token::Text(self.quoted('"')), line)),
                ('\'', _) => {
                    self.quoted('\'');
                }
                ('#', Some('#')) => {
                    self.at += 2;
                    return Some((Token::Paste, line));
                }
                ('0'..='9', _) => {
                    self.number();
                    return Some((Token::Mark('0'), line));
                }
                _ if is_word(letter) => return Some((self.word(), line)),
                _ if letter.is_whitespace() => self.at += 1,
                _ => {
                    self.at += 1;
                    return Some((Token::Mark(letter), line));
                }
            }
        }
    }

    fn skip(&mut self, until: impl Fn(&Self) -> bool, more: usize) {
        while self.at < self.letters.len() && !until(self) {
            self.at += 1;
        }
        self.at += more;
    }

    /// A number with its suffix, and with the quotes that part its digits.
    fn number(&mut self) {
        while let Some(letter) = self.peek(0) {
            let parted = letter == '\''
                && self
                    .peek(1)
                    .is_some_and(|next| is_word(next) || next.is_ascii_digit());
            let part = is_word(letter) || letter == '.' || letter.is_ascii_digit() || parted;
            if !part {
                break;
            }
            self.at += 1;
        }
    }

    /// What is between quotes. A line's end ends it: it is none then.
    fn quoted(&mut self, quote: char) -> String {
        let mut text = String::new();
        self.at += 1;
        while let Some(letter) = self.peek(0) {
            if letter == '\n' {
                break;
            }
            self.at += 1;
            if letter == quote {
                break;
            }
            text.push(letter);
            if letter == '\\'
                && let Some(next) = self.peek(0)
            {
                text.push(next);
                self.at += 1;
            }
        }
        text
    }

    fn word(&mut self) -> Token {
        let mut word = String::new();
        while let Some(letter) = self.peek(0).filter(|c| is_word(*c) || c.is_ascii_digit()) {
            word.push(letter);
            self.at += 1;
        }
        let raw = matches!(word.as_str(), "R" | "LR" | "uR" | "UR" | "u8R");
        match self.peek(0) {
            Some('"') if raw => Token::Text(self.raw()),
            Some('"') if matches!(word.as_str(), "L" | "u" | "U" | "u8") => {
                Token::Text(self.quoted('"'))
            }
            _ => Token::Word(word),
        }
    }

    /// `R"x( … )x"`, of which nothing is replaced or joined: read from the text as it is written.
    fn raw(&mut self) -> String {
        let begin = self
            .letters
            .get(self.at)
            .map_or(self.text.len(), |quote| quote.start + 1);
        let rest = self.text.get(begin..).unwrap_or_default();
        let (mark, rest) = rest.split_once('(').unwrap_or((rest, ""));
        let end = format!("){mark}\"");
        let content = rest.split_once(&end).map_or(rest, |(content, _)| content);
        let behind = begin + mark.len() + 1 + content.len() + end.len();
        let left = self.letters.get(self.at..).unwrap_or_default();
        self.at += left.partition_point(|letter| letter.start < behind);
        content.to_owned()
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_' || letter == '$'
}
