//! An answer taken apart: prose, blocks of code, edits.

use r3_models::chat::Finish;

/// A block of code in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What stands behind the fence that opens it, in lower case: `cuda`, `cpp`, nothing.
    pub language: String,
    /// Its text, with `\n` as line ends.
    pub text: String,
    /// Whether a fence closes it.
    pub closed: bool,
}

/// A text that is to take another one's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replace {
    /// What is there.
    pub search: String,
    /// What shall be there.
    pub replace: String,
}

/// An answer taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// What is neither in a block nor in an edit.
    pub prose: String,
    /// The blocks, without those that hold edits.
    pub blocks: Vec<Block>,
    /// The edits, in order.
    pub edits: Vec<Replace>,
    /// What is wrong with the form of an edit, when something is.
    pub broken: Option<String>,
}

/// What stands before an answer: reasoning, in tags of several models.
const REASONING: &[&str] = &["think", "thinking", "thought", "reasoning", "analysis"];

/// Marks that begin the answer proper behind reasoning, where a service hands out a model's channels as they are.
const FINAL: &[&str] = &["<|channel|>final<|message|>", "assistantfinal"];

/// The answer without what the model thought before it; `None` when it ended while it was thinking.
pub fn without_reasoning(answer: &str, finish: Finish) -> Option<&str> {
    let mut rest = answer.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    for mark in FINAL {
        if let Some(at) = rest.rfind(mark) {
            rest = rest.get(at + mark.len()..).unwrap_or_default();
        }
    }
    loop {
        let before = rest;
        for tag in REASONING {
            let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
            let opened = rest.starts_with(&open);
            match rest.find(&close) {
                // The tag that opens it is often part of the template and not of the answer.
                Some(at) if opened || !fenced_before(rest, at) => {
                    rest = rest
                        .get(at + close.len()..)
                        .unwrap_or_default()
                        .trim_start();
                }
                Some(_) => {}
                None if opened && finish == Finish::Length => return None,
                None if opened => {
                    // It never said that it is done thinking: what it says last counts.
                    rest = rest.get(open.len()..).unwrap_or_default();
                }
                None => {}
            }
        }
        if rest == before {
            return Some(rest);
        }
    }
}

/// Whether the place lies in a block of code.
fn fenced_before(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before
        .lines()
        .filter(|line| Fence::of(line).is_some())
        .count()
        % 2
        == 1
}

/// A line that opens or closes a block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    language: String,
}

impl Fence {
    /// Reads a line, which may begin with blanks, a quotation mark or a list's mark.
    fn of(line: &str) -> Option<Self> {
        let content = line.trim_start_matches([' ', '\t', '>', '-', '*']);
        let mark = content.chars().next().filter(|&c| c == '`' || c == '~')?;
        let length = content.chars().take_while(|&c| c == mark).count();
        let info = content.get(length..).unwrap_or_default().trim();
        if length < 3 || info.contains('`') {
            return None;
        }
        let language = info
            .split(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ',' | ':' | '='))
            .find(|word| !word.is_empty())
            .unwrap_or_default()
            .trim_start_matches('.')
            .to_ascii_lowercase();
        Some(Self {
            mark,
            length,
            indent: line.len() - content.len(),
            language,
        })
    }

    /// A fence at the end of a line of prose: `Here it is: ```cuda`.
    fn at_end_of(line: &str) -> Option<Self> {
        let at = line.find("```")?;
        let (before, rest) = line.split_at_checked(at)?;
        let language = rest.trim_start_matches('`').trim();
        let word = language
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '+');
        if before.trim().is_empty() || !word {
            return None;
        }
        Self::of(rest.trim_end()).map(|fence| Self { indent: 0, ..fence })
    }

    fn closes(&self, open: &Self) -> bool {
        self.mark == open.mark && self.length >= open.length && self.language.is_empty()
    }
}

/// Marks of edits: at least five of the same sign.
fn edit_mark(line: &str) -> Option<(char, &str)> {
    let line = line.trim();
    let sign = line
        .chars()
        .next()
        .filter(|c| matches!(c, '<' | '=' | '>'))?;
    let length = line.chars().take_while(|&c| c == sign).count();
    let word = line.get(length..)?.trim();
    let fits = match sign {
        '<' => word.is_empty() || starts_with(word, &["search", "original", "old"]),
        '>' => word.is_empty() || starts_with(word, &["replace", "updated", "new"]),
        _ => word.is_empty() || starts_with(word, &["replace"]),
    };
    ((5..=12).contains(&length) && fits).then_some((sign, word))
}

fn starts_with(word: &str, any: &[&str]) -> bool {
    let word = word.to_ascii_lowercase();
    any.iter().any(|start| word.starts_with(start))
}

/// Whether a text has lines that would be read as marks of edits.
pub fn has_edit_marks(text: &str) -> bool {
    text.lines().any(|line| edit_mark(line).is_some())
}

enum Within {
    Prose,
    Block(Fence, Block),
    Search(Option<Fence>, Replace),
    Replacement(Option<Fence>, Replace),
}

/// Takes an answer apart. Without `edits`, marks of edits are text like any other.
pub fn parts(answer: &str, edits: bool) -> Parts {
    let mut parts = Parts::default();
    let mut within = Within::Prose;
    for line in answer.lines() {
        let mark = if edits { edit_mark(line) } else { None };
        within = match (within, mark) {
            (Within::Prose, Some(('<', _))) => Within::Search(None, empty()),
            (Within::Block(fence, block), Some(('<', _))) => {
                // The name of a file, or nothing at all, may stand in the block before the edit.
                if block.text.lines().count() > 1 {
                    parts.blocks.push(Block {
                        closed: true,
                        ..block
                    });
                }
                Within::Search(Some(fence), empty())
            }
            (Within::Search(fence, edit), Some(('=', _))) => Within::Replacement(fence, edit),
            (Within::Replacement(fence, edit), Some(('>', _))) => {
                parts.edits.push(edit);
                match fence {
                    Some(fence) => Within::Block(
                        fence.clone(),
                        Block {
                            language: "edits".to_owned(),
                            text: String::new(),
                            closed: false,
                        },
                    ),
                    None => Within::Prose,
                }
            }
            (Within::Search(fence, edit), Some((sign, _))) => {
                broken(
                    &mut parts,
                    &format!(
                        "behind a SEARCH line a line of `{sign}` comes before the line `=======`"
                    ),
                    &edit.search,
                );
                if sign == '<' {
                    Within::Search(fence, empty())
                } else {
                    Within::Prose
                }
            }
            (Within::Replacement(fence, edit), Some((sign, _))) => {
                broken(
                    &mut parts,
                    &format!(
                        "behind the line `=======` a line of `{sign}` comes before the line `>>>>>>> REPLACE`"
                    ),
                    &edit.search,
                );
                if sign == '<' {
                    Within::Search(fence, empty())
                } else {
                    Within::Prose
                }
            }
            (Within::Search(fence, mut edit), None) => {
                add(&mut edit.search, line, fence.as_ref());
                Within::Search(fence, edit)
            }
            (Within::Replacement(fence, mut edit), None) => {
                add(&mut edit.replace, line, fence.as_ref());
                Within::Replacement(fence, edit)
            }
            (Within::Prose, _) => match Fence::of(line) {
                Some(fence) => opened(fence),
                None => {
                    parts.prose.push_str(line);
                    parts.prose.push('\n');
                    Fence::at_end_of(line).map_or(Within::Prose, opened)
                }
            },
            (Within::Block(open, mut block), _) => {
                match Fence::of(line).filter(|fence| fence.closes(&open)) {
                    Some(_) => {
                        block.closed = true;
                        push(&mut parts.blocks, block);
                        Within::Prose
                    }
                    None => {
                        add_line(&mut block.text, line, open.indent);
                        Within::Block(open, block)
                    }
                }
            }
        };
    }
    match within {
        Within::Prose => {}
        Within::Block(_, block) => push(&mut parts.blocks, block),
        Within::Search(_, edit) => broken(
            &mut parts,
            "an edit ends before its line `=======`",
            &edit.search,
        ),
        Within::Replacement(_, edit) => broken(
            &mut parts,
            "an edit ends before its line `>>>>>>> REPLACE`",
            &edit.search,
        ),
    }
    parts
}

fn empty() -> Replace {
    Replace {
        search: String::new(),
        replace: String::new(),
    }
}

fn opened(fence: Fence) -> Within {
    let block = Block {
        language: fence.language.clone(),
        text: String::new(),
        closed: false,
    };
    Within::Block(fence, block)
}

/// What is left of a block behind its last edit is none.
fn push(blocks: &mut Vec<Block>, block: Block) {
    if block.language != "edits" || !block.text.trim().is_empty() {
        blocks.push(block);
    }
}

/// The first thing that is wrong is told.
fn broken(parts: &mut Parts, what: &str, search: &str) {
    if parts.broken.is_none() {
        let line = search.lines().find(|line| !line.trim().is_empty());
        parts.broken = Some(match line {
            Some(line) => format!(
                "{what} (its first line is `{}`)",
                crate::prompt::text::one_line(line, 80)
            ),
            None => what.to_owned(),
        });
    }
}

/// A line of an edit. Fences around either half are left out.
fn add(text: &mut String, line: &str, fence: Option<&Fence>) {
    if Fence::of(line).is_none() {
        add_line(text, line, fence.map_or(0, |fence| fence.indent));
    }
}

/// A line without the indentation of the fence that its block has.
fn add_line(text: &mut String, line: &str, indent: usize) {
    let blanks = line
        .bytes()
        .take(indent)
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    text.push_str(line.get(blanks..).unwrap_or(line));
    text.push('\n');
}

/// The hunks of a unified difference as edits; `None` when the block is none.
pub fn difference(block: &Block) -> Option<Vec<Replace>> {
    let hunk = |line: &str| line.starts_with("@@");
    if !matches!(block.language.as_str(), "diff" | "patch") && !block.text.lines().any(hunk) {
        return None;
    }
    let mut edits: Vec<Replace> = vec![empty()];
    for line in block.text.lines() {
        if hunk(line)
            || line.starts_with("--- ")
            || line.starts_with("+++ ")
            || line.starts_with("diff ")
        {
            edits.push(empty());
            continue;
        }
        let Some(edit) = edits.last_mut() else { break };
        let (sign, rest) = match line.chars().next() {
            Some(sign @ ('+' | '-' | ' ')) => (sign, line.get(1..).unwrap_or_default()),
            Some('\\') => continue,
            _ => (' ', line),
        };
        if sign != '+' {
            edit.search.push_str(rest);
            edit.search.push('\n');
        }
        if sign != '-' {
            edit.replace.push_str(rest);
            edit.replace.push('\n');
        }
    }
    edits.retain(|edit| edit.search != edit.replace);
    (!edits.is_empty()).then_some(edits)
}
