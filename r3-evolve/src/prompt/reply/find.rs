//! Which part of an answer is meant.

use r3_models::chat::Finish;
use r3_source::tokens::fingerprint;

use super::blocks::{self, Block, Parts, Replace};
use super::items::{is_mark_of, without_marks};
use super::merge::Definitions;
use super::tokens::{balance, placed};
use super::unusable::Unusable;
use super::{MOST_SAID, unbalanced, unix};
use crate::prompt::target::Target;
use crate::prompt::text::one_line;

/// What an answer says that is to be done.
pub enum Code {
    /// Texts for all regions.
    Regions(Vec<String>),
    /// Edits.
    Edits(Vec<Replace>),
}

/// What stands behind fences that hold code, when something does.
const LANGUAGES: &[&str] = &[
    "", "c", "c++", "cc", "cpp", "cxx", "cu", "cuda", "cuda-c", "cuda-c++", "cuda-cpp", "cuda_cpp",
    "cudac", "h", "hpp", "cuh", "code", "hip", "nvcc", "edits", "glsl", "opencl",
];

/// Finds what is meant: the last definition of the kernel, or of what it calls, that is not the parent's; else edits.
pub fn code(
    parts: &mut Parts,
    answer: &str,
    finish: Finish,
    target: &Target,
    notes: &mut Vec<String>,
) -> Result<Code, Unusable> {
    let mut edits = std::mem::take(&mut parts.edits);
    let mut blocks: Vec<Block> = Vec::new();
    for block in std::mem::take(&mut parts.blocks) {
        match blocks::difference(&block) {
            Some(hunks) if block.closed || finish != Finish::Length => edits.extend(hunks),
            Some(_) => return Err(cut("within a difference")),
            None => blocks.push(block),
        }
    }
    if let Some((block, prose)) = from_json(answer, &blocks, target) {
        blocks = vec![block];
        parts.prose = prose;
    }
    let nothing = blocks.is_empty() && edits.is_empty() && parts.broken.is_none();
    if nothing && let Some((block, prose)) = bare(answer, finish, target) {
        blocks.push(block);
        parts.prose = prose;
    }
    if finish == Finish::Length {
        if let Some(block) = blocks.last().filter(|block| !block.closed) {
            let last = block
                .text
                .lines()
                .rev()
                .find(|line| !line.trim().is_empty());
            let last = one_line(last.unwrap_or_default(), 60);
            return Err(cut(&format!("within a block of code, at `{last}`")));
        }
        if parts.broken.is_some() {
            return Err(cut("within an edit"));
        }
    }
    blocks.retain(|block| {
        LANGUAGES.contains(&block.language.as_str()) || has(&block.text, "__global__")
    });
    for block in &mut blocks {
        block.text = without_entities(&block.text);
    }
    let regions = match Definitions::of(target) {
        Some(definitions) => by_definitions(&blocks, &definitions, target, notes)?,
        None => by_text(&blocks, target, notes)?,
    };
    if let Some(regions) = regions {
        return Ok(Code::Regions(regions));
    }
    if let Some(what) = &parts.broken {
        return Err(Unusable::BrokenEdit {
            what: format!("The edits have not the form: {what}"),
        });
    }
    if !edits.is_empty() {
        return Ok(Code::Edits(edits));
    }
    Err(nothing_found(&blocks, answer, finish, target))
}

fn nothing_found(blocks: &[Block], answer: &str, finish: Finish, target: &Target) -> Unusable {
    let said = one_line(answer, MOST_SAID);
    if blocks
        .iter()
        .any(|block| looks_like_it(&block.text, target))
    {
        Unusable::Unchanged
    } else if finish == Finish::Length {
        cut("before any code")
    } else if finish == Finish::Filtered || refuses(answer) {
        Unusable::Refused { said }
    } else if blocks.iter().any(|block| block.text.contains('{')) {
        Unusable::NoKernel {
            kernel: target.kernel.clone(),
            found: Vec::new(),
        }
    } else {
        Unusable::NoCode { said }
    }
}

fn cut(where_: &str) -> Unusable {
    Unusable::Truncated {
        where_: where_.to_owned(),
    }
}

fn has(text: &str, word: &str) -> bool {
    placed(text).iter().any(|(_, token)| *token == word)
}

/// Whether an answer without code begins like a refusal.
fn refuses(answer: &str) -> bool {
    const WORDS: &[&str] = &[
        "i'm sorry",
        "i’m sorry",
        "i am sorry",
        "sorry,",
        "i cannot",
        "i can't",
        "i can’t",
        "i won't",
        "i'm unable",
        "i am unable",
        "unfortunately, i",
        "as an ai",
    ];
    let begin = answer.trim_start().to_lowercase();
    WORDS.iter().any(|word| begin.starts_with(word))
}

/// Whether a text could be meant as the kernel or a part of the regions: it need not be complete.
fn looks_like_it(text: &str, target: &Target) -> bool {
    let tokens = placed(text);
    let body = tokens.iter().any(|(_, token)| *token == "{");
    let global = tokens.iter().any(|(_, token)| *token == "__global__");
    let named = tokens
        .windows(2)
        .any(|pair| matches!(pair, [(_, name), (_, "(")] if *name == target.kernel));
    body && (global || named)
}

/// Code whose signs came as HTML writes them.
fn without_entities(text: &str) -> String {
    if text.contains("&lt;") && !text.contains('<') {
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&")
    } else {
        text.to_owned()
    }
}

/// Texts of the regions where they hold whole definitions. `None` when no block changes anything.
fn by_definitions(
    blocks: &[Block],
    definitions: &Definitions,
    target: &Target,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<String>>, Unusable> {
    let mut meant = None;
    let mut changed = false;
    let mut broken = None;
    for (index, block) in blocks.iter().enumerate() {
        let kernel = looks_like_it(&block.text, target);
        match balance(&block.text) {
            Err(what) if kernel => broken = Some((what, &block.text)),
            Err(_) => {}
            Ok(()) if definitions.changes(&block.text, target) => {
                changed = true;
                if kernel {
                    meant = Some(index);
                    broken = None;
                }
            }
            Ok(()) => {}
        }
    }
    if let Some((what, text)) = broken {
        return Err(unbalanced(what, text));
    }
    if !changed {
        return Ok(None);
    }
    // Other blocks with the kernel show how it was, or an earlier thought.
    let used: Vec<String> = blocks
        .iter()
        .enumerate()
        .filter(|(index, block)| {
            meant == Some(*index)
                || (!looks_like_it(&block.text, target) && balance(&block.text).is_ok())
        })
        .map(|(_, block)| block.text.clone())
        .collect();
    definitions.merged(&used, target, notes).map(Some)
}

/// Texts of regions that are parts of functions, or whose kernel cannot be seen: by marks, by labels, or the last block for the one
/// region. `None` when there is no block.
fn by_text(
    blocks: &[Block],
    target: &Target,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<String>>, Unusable> {
    let old: Vec<String> = target.texts().iter().map(|text| unix(text)).collect();
    let same = |text: &str| {
        fingerprint(text) == fingerprint(&target.file)
            || old.iter().any(|old| fingerprint(old) == fingerprint(text))
    };
    let blocks: Vec<&Block> = blocks.iter().filter(|block| !same(&block.text)).collect();
    if blocks.is_empty() {
        return Ok(None);
    }
    let with_marks = blocks
        .iter()
        .rev()
        .find_map(|block| marked(&block.text).filter(|regions| regions.len() == old.len()));
    if let Some(regions) = with_marks {
        return Ok(Some(regions));
    }
    let mut regions = old.clone();
    let mut labelled = false;
    for block in &blocks {
        if let Some((number, rest)) = label(&block.text)
            && let Some(region) = number
                .checked_sub(1)
                .and_then(|index| regions.get_mut(index))
        {
            *region = rest.to_owned();
            labelled = true;
        }
    }
    if labelled {
        return Ok(Some(regions));
    }
    match (old.len(), blocks.as_slice()) {
        (1, [.., last]) => within_function(&last.text, target).map(|text| Some(vec![text])),
        (several, blocks) if several == blocks.len() => {
            notes.push("blocks were taken for regions in their order".to_owned());
            Ok(Some(
                blocks.iter().map(|block| block.text.clone()).collect(),
            ))
        }
        (several, _) => Err(Unusable::Regions { regions: several }),
    }
}

/// `// region 2` on the first line, and what follows.
fn label(text: &str) -> Option<(usize, &str)> {
    let (first, rest) = text.split_once('\n')?;
    let words = first
        .trim()
        .trim_start_matches(['/', '#', '*', ' '])
        .to_ascii_lowercase();
    let number = words
        .strip_prefix("region")?
        .split_whitespace()
        .next()?
        .to_owned();
    Some((number.trim_end_matches(':').parse().ok()?, rest))
}

/// Texts between the marks of regions, when a block repeats them.
fn marked(text: &str) -> Option<Vec<String>> {
    let mut regions: Vec<String> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if is_mark_of(line, "begin") {
            inside = true;
            regions.push(String::new());
        } else if is_mark_of(line, "end") {
            inside = false;
        } else if inside && let Some(region) = regions.last_mut() {
            region.push_str(line);
            region.push('\n');
        }
    }
    (!regions.is_empty()).then_some(regions)
}

/// The text for a region within a function, also when the whole function was given: then what is around the region in it must be
/// as it was.
fn within_function(text: &str, target: &Target) -> Result<String, Unusable> {
    let text = without_marks(text);
    let outside = |name: &str| Unusable::Outside {
        name: name.to_owned(),
    };
    if !looks_like_it(&text, target) {
        return Ok(text);
    }
    let around = target.around();
    let before = without_marks(around.first().copied().unwrap_or_default());
    let behind = without_marks(around.last().copied().unwrap_or_default());
    let tokens = placed(&text);
    let ends_alike = |wanted: &[(std::ops::Range<usize>, &str)], have: usize| {
        // How many tokens before `have` are the last ones of what stands before the region.
        (1..=have.min(wanted.len())).all(|back| {
            wanted.get(wanted.len() - back).map(|(_, token)| *token)
                == tokens.get(have - back).map(|(_, token)| *token)
        })
    };
    let before = placed(&before);
    let behind = placed(&behind);
    let begin = (1..=tokens.len())
        .rev()
        .find(|have| ends_alike(&before, *have));
    let end = (begin.unwrap_or(0)..tokens.len()).find(|from| {
        let rest = tokens.len() - from;
        rest <= behind.len()
            && (0..rest).all(|ahead| {
                behind.get(ahead).map(|(_, token)| *token)
                    == tokens.get(from + ahead).map(|(_, token)| *token)
            })
    });
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err(outside(&target.kernel));
    };
    let from = tokens
        .get(begin.saturating_sub(1))
        .map_or(0, |(span, _)| span.end);
    let to = tokens.get(end).map_or(text.len(), |(span, _)| span.start);
    let inner = text.get(from..to).ok_or_else(|| outside(&target.kernel))?;
    let inner = inner.strip_prefix('\n').unwrap_or(inner).trim_end();
    Ok(format!("{inner}\n"))
}

/// Code in a JSON object, as models answer that were taught to.
fn from_json(answer: &str, blocks: &[Block], target: &Target) -> Option<(Block, String)> {
    let text = match blocks {
        [block] if block.language == "json" => block.text.as_str(),
        [] => answer,
        _ => return None,
    };
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text.trim()).ok()?;
    let strings: Vec<&str> = object
        .values()
        .filter_map(serde_json::Value::as_str)
        .collect();
    let code = strings
        .iter()
        .filter(|text| looks_like_it(text, target))
        .max_by_key(|text| text.len())?;
    let prose: Vec<&str> = strings
        .iter()
        .filter(|text| *text != code)
        .copied()
        .collect();
    // The string may be fenced again.
    let inner = blocks::parts(code, false).blocks.pop();
    let whole = || Block {
        language: String::new(),
        text: format!("{}\n", unix(code)),
        closed: true,
    };
    Some((inner.unwrap_or_else(whole), prose.join("\n")))
}

/// Code that stands in the answer without fences, and what is around it.
fn bare(answer: &str, finish: Finish, target: &Target) -> Option<(Block, String)> {
    let mut at = 0;
    let begin = answer.split_inclusive('\n').find_map(|line| {
        let start = at;
        at += line.len();
        begins_code(line).then_some(start)
    })?;
    let (prose, text) = answer.split_at_checked(begin)?;
    if !looks_like_it(text, target) {
        return None;
    }
    let mut depth = 0usize;
    let mut end = None;
    for (span, token) in placed(text) {
        match token {
            "{" => depth += 1,
            "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    end = Some(span.end);
                }
            }
            _ => {}
        }
    }
    let complete = depth == 0;
    let end = end.filter(|_| complete).unwrap_or(text.len());
    let (text, rest) = text.split_at_checked(end)?;
    // Without a fence nothing says that more was to come, but for the way in which the answer ended.
    let closed = complete && (finish != Finish::Length || !rest.trim().is_empty());
    Some((
        Block {
            language: String::new(),
            text: format!("{text}\n"),
            closed,
        },
        format!("{prose}\n{rest}"),
    ))
}

/// Whether a line is where code begins.
fn begins_code(line: &str) -> bool {
    const ALWAYS: &[&str] = &[
        "__global__",
        "__device__",
        "#include",
        "#define",
        "#pragma",
        "extern \"C\"",
        "template <",
        "template<",
        "// r3:",
    ];
    const WITH_CODE_BEHIND: &[&str] = &[
        "static ",
        "struct ",
        "typedef ",
        "using ",
        "constexpr ",
        "const ",
        "inline ",
        "enum ",
    ];
    let line = line.trim();
    ALWAYS.iter().any(|word| line.starts_with(word))
        || (WITH_CODE_BEHIND.iter().any(|word| line.starts_with(word))
            && line.ends_with([';', '{', ')', ',']))
}
