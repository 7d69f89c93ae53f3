//! Which external functions an entry reaches.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Lexer, Token};

/// At most this many external functions are listed for one entry.
const MAX_EXTERNS: usize = 256;
/// Work bound for one module, in call edges followed.
const MAX_STEPS: usize = 10_000_000;

/// Names that the body of a function calls, ascending, each once.
pub(super) fn callees(body: &[u8]) -> BTreeSet<&[u8]> {
    let mut names = BTreeSet::new();
    let mut from = 0;
    while let Some(found) = body.get(from..).and_then(find_call) {
        from += found;
        let mut lexer = Lexer::new(body);
        lexer.rewind(from);
        names.extend(target(&mut lexer));
        // Behind what was looked at, so that no byte is looked at twice.
        from = lexer.at();
    }
    names
}

/// Offset behind the next word `call`.
fn find_call(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from
            + text
                .get(from..)?
                .windows(4)
                .position(|four| four == b"call")?;
        let before = at.checked_sub(1).and_then(|i| text.get(i));
        let after = text.get(at + 4);
        let starts =
            before.is_none_or(|b| b.is_ascii_whitespace() || matches!(b, b';' | b'{' | b'}'));
        let ends = after.is_some_and(|&b| b == b'.' || b == b'(' || b.is_ascii_whitespace());
        if starts && ends {
            return Some(at + 4);
        }
        from = at + 4;
    }
}

/// Behind `call`: `.uni (results), name, (arguments);`.
fn target<'a>(lexer: &mut Lexer<'a>) -> Option<&'a [u8]> {
    loop {
        match lexer.next()? {
            Token::Dot(_) | Token::Punct(b',') => {}
            Token::Punct(b'(') => {
                lexer.skip_block(b'(', b')');
            }
            // A register is an indirect call.
            Token::Name(name) => return (!name.starts_with(b"%")).then_some(name),
            _ => return None,
        }
    }
}

/// For each root: the external functions that it reaches, and whether none were left out.
pub(super) fn reach<'a>(
    calls: &BTreeMap<&'a [u8], BTreeSet<&'a [u8]>>,
    externs: &BTreeSet<&'a [u8]>,
    roots: impl Iterator<Item = &'a [u8]>,
) -> (Vec<Vec<String>>, bool) {
    let mut steps = 0;
    let mut complete = true;
    let lists = roots
        .map(|root| {
            let mut seen = BTreeSet::from([root]);
            let mut open = vec![root];
            let mut found = BTreeSet::new();
            while let Some(function) = open.pop() {
                for &callee in calls.get(function).into_iter().flatten() {
                    steps += 1;
                    if steps > MAX_STEPS || found.len() >= MAX_EXTERNS {
                        complete = false;
                        open.clear();
                        break;
                    }
                    if externs.contains(callee) {
                        found.insert(callee);
                    } else if seen.insert(callee) {
                        open.push(callee);
                    }
                }
            }
            found
                .into_iter()
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect()
        })
        .collect();
    (lists, complete)
}
