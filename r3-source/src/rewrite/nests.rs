//! Loops in another order, and two loops as one.

use tree_sitter::Node;

use super::edit::Edit;
use super::loops::{Loop, in_block, indent};
use super::meaning::Meaning;
use super::scene::Scene;
use super::{Operator, Proposal};

/// Two loops, one right inside the other, change places.
///
/// Both count, and neither's head depends on the other's counter. The body ties no threads, leaves nothing early, and calls nothing
/// with effects. What it writes in memory has subscripts that tell the iteration, or at least one counter of it; everything that may be
/// the same memory has the same subscripts. Outer variables are at most added to, as whole numbers.
pub struct Interchange;

/// The same where sums of floating-point numbers are added in another order.
pub struct InterchangeSums;

impl Operator for Interchange {
    fn name(&self) -> &'static str {
        "interchange"
    }

    fn about(&self) -> &'static str {
        "two nested loops change places, where no iteration depends on another in a way that would show"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        interchanged(scene, false)
    }
}

impl Operator for InterchangeSums {
    fn name(&self) -> &'static str {
        "interchange-sums"
    }

    fn about(&self) -> &'static str {
        "two nested loops that add up change places; adds in another order"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let exact = interchanged(scene, false);
        let mut found = interchanged(scene, true);
        found.retain(|proposal| !exact.contains(proposal));
        found
    }
}

fn interchanged(scene: &Scene<'_>, sums: bool) -> Vec<Proposal> {
    let meaning = Meaning::new(scene);
    meaning
        .counting_loops()
        .iter()
        .filter_map(|outer| {
            let inner = meaning.counting(only(outer.body)?)?;
            let free = |found: &Loop<'_>, other: &Loop<'_>| {
                [Some(found.start), Some(found.bound), found.step]
                    .into_iter()
                    .flatten()
                    .all(|part| {
                        meaning.is_invariant(part, outer.node)
                            && meaning.uses(other.variable, part).is_empty()
                    })
            };
            let sound = free(&inner, outer)
                && free(outer, &inner)
                && meaning.of(outer.variable) != meaning.of(inner.variable)
                && meaning.may_interchange(outer, &inner, sums);
            sound.then(|| {
                let text = scene.unit.text();
                let head = |found: &Loop<'_>| found.node.start_byte()..found.body.start_byte();
                let words = |found: &Loop<'_>| {
                    text.get(head(found))
                        .unwrap_or_default()
                        .trim_end()
                        .to_owned()
                };
                let (a, b) = (words(outer), words(&inner));
                let blank = |found: &Loop<'_>, words: &str| {
                    found.node.start_byte()..found.node.start_byte() + words.len()
                };
                Proposal::edit(
                    outer.node,
                    vec![
                        Edit::replace(blank(outer, &a), b.clone()),
                        Edit::replace(blank(&inner, &b), a.clone()),
                    ],
                    format!("`{b}` around `{a}`"),
                )
            })
        })
        .collect()
}

/// The only statement of a body.
fn only(body: Node<'_>) -> Option<Node<'_>> {
    if body.kind() != "compound_statement" {
        return Some(body);
    }
    (body.named_child_count() == 1).then(|| body.named_child(0))?
}

/// Two loops after each other, with the same head, become one.
///
/// Both count from the same number to the same bound by the same step. Neither body ties threads, leaves early or calls anything with
/// effects. No outer variable that one writes is used in the other. Where they reach the same memory and one writes, a subscript is the
/// same in both and tells the iteration.
pub struct Fusion;

impl Operator for Fusion {
    fn name(&self) -> &'static str {
        "fuse-loops"
    }

    fn about(&self) -> &'static str {
        "two loops after each other with the same head become one, where no iteration of one needs a later one of the other"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        meaning
            .counting_loops()
            .iter()
            .filter_map(|first| {
                let mut next = first.node.next_named_sibling()?;
                while next.kind() == "comment" {
                    next = next.next_named_sibling()?;
                }
                let second = meaning.counting(next)?;
                (in_block(first.node)
                    && same_head(&meaning, first, &second)
                    && meaning.may_fuse(first, &second))
                .then(|| fused(&meaning, first, &second))
            })
            .collect()
    }
}

fn same_head<'a>(meaning: &Meaning<'a>, first: &Loop<'a>, second: &Loop<'a>) -> bool {
    let steps = match (first.step, second.step) {
        (None, None) => true,
        (Some(a), Some(b)) => meaning.same_text(a, b),
        _ => false,
    };
    let parts = [Some(second.start), Some(second.bound), second.step];
    steps
        && first.comparison == second.comparison
        && first.up == second.up
        && meaning.type_of(first.variable) == meaning.type_of(second.variable)
        && meaning.same_text(first.start, second.start)
        && meaning.same_text(first.bound, second.bound)
        && parts.into_iter().flatten().all(|part| meaning.is_invariant(part, first.node))
        // The first counter must not hide what the second body means by that name.
        && (meaning.of(first.variable) == meaning.of(second.variable) || !mentions(meaning, second.body, meaning.of(first.variable)))
}

fn mentions<'a>(meaning: &Meaning<'a>, part: Node<'a>, name: &str) -> bool {
    crate::tokens::tokens(meaning.of(part)).contains(&name)
}

fn fused<'a>(meaning: &Meaning<'a>, first: &Loop<'a>, second: &Loop<'a>) -> Proposal {
    let text = meaning.scene.unit.text();
    let blanks = indent(text, first.node.start_byte());
    let (one, other) = (meaning.of(first.variable), meaning.of(second.variable));
    let body = meaning.of(second.body);
    let second_body = match one == other {
        true => body.to_owned(),
        false => {
            let ty = meaning.type_of(second.variable);
            let words = ty.spelled().unwrap_or("auto");
            format!(
                "{{\n{blanks}        const {words} {other} = {one};\n{blanks}        {body}\n{blanks}    }}"
            )
        }
    };
    let range = first.body.start_byte()..second.node.end_byte();
    let with = format!(
        "{{\n{blanks}    {}\n{blanks}    {second_body}\n{blanks}}}",
        meaning.of(first.body)
    );
    Proposal {
        at: first.node.start_byte()..second.node.end_byte(),
        choice: String::new(),
        what: format!("one loop over {one} in place of two"),
        edits: vec![Edit::replace(range, with)],
        directive: None,
    }
}
