//! Loops written out.

use tree_sitter::Node;

use super::edit::Edit;
use super::loops::{first_on_line, in_block, indent};
use super::meaning::Meaning;
use super::scene::Scene;
use super::{Operator, Proposal};

/// How often a loop is written out in whole, at most.
const MOST: i128 = 128;

/// `#pragma unroll N` before a loop.
///
/// Any `for` loop that stands in a block. The count of a loop whose length is known is not larger than that; the whole loop is
/// written out where the text says how long it is and it is no longer than 128. A pragma that is there is replaced.
pub struct Unroll;

impl Operator for Unroll {
    fn name(&self) -> &'static str {
        "unroll"
    }

    fn about(&self) -> &'static str {
        "#pragma unroll before a loop: 2, 4, 8, 16 times, in whole, or not at all"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        scene
            .nodes("for_statement")
            .into_iter()
            .filter(|node| meaning.on_device(*node))
            .filter(|node| in_block(*node))
            .flat_map(|node| ways(&meaning, node))
            .collect()
    }
}

fn ways<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Vec<Proposal> {
    let before = node
        .prev_named_sibling()
        .filter(|before| before.kind() == "preproc_call" && is_unroll(meaning.of(*before)));
    let trips = meaning
        .counting(node)
        .map(|found| (meaning.trips(&found), found));
    let known = trips.as_ref().and_then(|(trips, _)| *trips);
    let fixed = trips.as_ref().is_some_and(|(_, found)| {
        [found.start, found.bound]
            .iter()
            .all(|part| fixed(meaning, *part))
    });
    let mut ways = vec![("1", "#pragma unroll 1".to_owned())];
    for (name, count) in [("2", 2), ("4", 4), ("8", 8), ("16", 16)] {
        if known.is_none_or(|trips| count < trips) {
            ways.push((name, format!("#pragma unroll {count}")));
        }
    }
    if fixed && known.is_none_or(|trips| trips <= MOST) {
        ways.push(("full", "#pragma unroll".to_owned()));
    }
    let text = meaning.scene.unit.text();
    let blanks = indent(text, node.start_byte());
    let head = meaning.short(node);
    let head = head.split('{').next().unwrap_or_default().trim();
    ways.into_iter()
        .filter_map(|(name, pragma)| {
            let edit = match before {
                Some(before) if meaning.of(before).trim() == pragma => return None,
                Some(before) => Edit::replace(before.byte_range(), format!("{pragma}\n")),
                None if first_on_line(text, node.start_byte()) => {
                    Edit::insert(node.start_byte(), format!("{pragma}\n{blanks}"))
                }
                None => Edit::insert(node.start_byte(), format!("\n{pragma}\n{blanks}")),
            };
            Some(Proposal {
                choice: name.to_owned(),
                ..Proposal::edit(node, vec![edit], format!("{pragma} before `{head}`"))
            })
        })
        .collect()
}

fn is_unroll(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("#pragma") && words.next().is_some_and(|word| word.starts_with("unroll"))
}

/// Whether an expression's value is known when it is compiled: literals, constants, parameters of templates.
fn fixed<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> bool {
    if meaning.constant(node).is_some() {
        return true;
    }
    match node.kind() {
        "identifier" => meaning.names.resolve(node) == super::names::Binding::Template,
        "parenthesized_expression" | "binary_expression" | "unary_expression" => {
            let mut cursor = node.walk();
            node.named_children(&mut cursor)
                .all(|child| fixed(meaning, child))
        }
        _ => false,
    }
}
