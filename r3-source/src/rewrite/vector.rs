//! Loads and stores of 16 bytes.

use tree_sitter::Node;

use super::edit::{self, Edit};
use super::groups::{Body, Group, groups, vector_name};
use super::loops::{Loop, encloses, indent};
use super::meaning::Meaning;
use super::names::Binding;
use super::scene::Scene;
use super::strided::Strided;
use super::{Operator, Proposal};
use crate::syntax::walk;
use crate::tokens;

/// `p[i]`, `p[i + 1]`, … in a loop become one load of `float4`, `int4` or `double2`, and stores likewise.
///
/// Either a loop that counts by one with consecutive elements, or a kernel with one element for each thread (then a loop over groups
/// of elements, with fewer blocks). The capture says that pointers are aligned to 16 bytes, and that start, length and offset are
/// multiples of the group. Elements are reached unconditionally, so that nothing is touched that was not before. Nothing else that is
/// written meets the memory that is loaded, and nothing else that is read or written meets what is stored. The loop's body leaves
/// early nowhere, ties no threads together, and keeps nothing from one element to the next but in a loop that counts by one.
pub struct VectorAccess;

impl Operator for VectorAccess {
    fn name(&self) -> &'static str {
        "vector-access"
    }

    fn about(&self) -> &'static str {
        "consecutive elements are loaded and stored 16 bytes at a time, where the capture says that they are aligned"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let mut found: Vec<Proposal> = meaning
            .strided()
            .iter()
            .filter_map(|found| over_threads(&meaning, found, false))
            .collect();
        found.extend(
            meaning
                .counting_loops()
                .iter()
                .filter(|found| meaning.in_kernel(found.node))
                .filter_map(|found| in_loop(&meaning, found)),
        );
        found
    }
}

/// The same for a loop with a stride of all threads that adds up: each thread then adds other elements.
pub struct VectorSums;

impl Operator for VectorSums {
    fn name(&self) -> &'static str {
        "vector-sums"
    }

    fn about(&self) -> &'static str {
        "a sum over elements with a stride of all threads loads 16 bytes at a time; adds in another order"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        meaning
            .strided()
            .iter()
            .filter(|found| found.test.is_none())
            .filter_map(|found| over_threads(&meaning, found, true))
            .collect()
    }
}

fn over_threads<'a>(meaning: &Meaning<'a>, found: &Strided<'a>, sums: bool) -> Option<Proposal> {
    let body = Body {
        counter: found.variable,
        parts: found.body.clone(),
    };
    if carries(meaning, &body) != sums || sums && !only_adds(meaning, &body) {
        return None;
    }
    // Other threads do the elements then, and one element's end would be the end of all in its group.
    if meaning.depends_on(found, &["threadIdx", "blockIdx", "gridDim"])
        || found
            .body
            .iter()
            .any(|part| meaning.leaves_iteration(*part))
    {
        return None;
    }
    let (groups, lanes) = groups(meaning, &body)?;
    if meaning.known(found.bound)? % i128::from(lanes) != 0
        || !meaning.goes_past_safely(found, lanes)
    {
        return None;
    }
    // A loop could keep something in memory from one element of a thread to its next.
    let elsewhere = |target: &Node<'a>| {
        let of_body = target.kind() == "identifier" && !meaning.reads_memory(*target);
        !of_body && !groups.iter().any(|group| group.places.contains(target))
    };
    if found.test.is_none()
        && !sums
        && found
            .body
            .iter()
            .any(|part| meaning.written(*part).iter().any(elsewhere))
    {
        return None;
    }
    let name = meaning.of(found.variable);
    let group = meaning.names.fresh(&format!("{name}_group"));
    let blanks = indent(meaning.scene.unit.text(), found.start);
    let head = format!(
        "for ({words} {group} = {lanes} * ({index}); {group} < {bound}; {group} += {lanes} * {stride})",
        words = found.words,
        index = meaning.of(found.index),
        bound = meaning.term(found.bound),
        stride = found.stride(),
    );
    let text = written(meaning, &body, &groups, lanes, &found.words, &group, blanks)?;
    let directive = match found.test {
        Some(_) => Some(meaning.scene.part_of_grid(found.dimension, lanes)?),
        None => None,
    };
    Some(Proposal {
        at: found.start..found.end,
        choice: String::new(),
        what: format!(
            "{lanes} elements at a time through {}",
            names(meaning, &groups)
        ),
        edits: vec![Edit::replace(
            found.start..found.end,
            format!("{head} {text}"),
        )],
        directive,
    })
}

fn in_loop<'a>(meaning: &Meaning<'a>, found: &Loop<'a>) -> Option<Proposal> {
    let body = Body {
        counter: found.variable,
        parts: vec![found.body],
    };
    let plain = found.up
        && found.step.is_none()
        && found.comparison == "<"
        && !meaning.ties_threads(found.body);
    if !plain || meaning.leaves_iteration(found.body) || !stays(found.body) {
        return None;
    }
    let (groups, lanes) = groups(meaning, &body)?;
    let whole = i128::from(lanes);
    let trips = meaning.known(found.bound)?;
    if trips % whole != 0 || meaning.residue(found.start, whole) != Some(0) {
        return None;
    }
    let name = meaning.of(found.variable);
    let declaration = found.node.child_by_field_name("initializer")?;
    let words = meaning.of(declaration.child_by_field_name("type")?);
    let group = meaning.names.fresh(&format!("{name}_group"));
    let blanks = indent(meaning.scene.unit.text(), found.node.start_byte());
    let head = format!(
        "for ({words} {group} = {}; {group} < {}; {group} += {lanes})",
        meaning.of(found.start),
        meaning.term(found.bound)
    );
    let text = written(meaning, &body, &groups, lanes, words, &group, blanks)?;
    Some(Proposal {
        at: found.node.byte_range(),
        choice: String::new(),
        what: format!(
            "{lanes} elements at a time through {}",
            names(meaning, &groups)
        ),
        edits: vec![Edit::replace(
            found.node.byte_range(),
            format!("{head} {text}"),
        )],
        directive: None,
    })
}

fn names<'a>(meaning: &Meaning<'a>, groups: &[Group<'a>]) -> String {
    let mut names: Vec<&str> = groups
        .iter()
        .filter_map(|group| meaning.scene.kernel.parameters.get(group.parameter))
        .map(|parameter| parameter.name.as_str())
        .collect();
    names.dedup();
    names.join(", ")
}

/// Whether a body stays in its place: nothing of the preprocessor, no return.
fn stays(body: Node<'_>) -> bool {
    let mut stays = true;
    walk(body, &mut |node| {
        stays &= !matches!(
            node.kind(),
            "return_statement" | "preproc_if" | "preproc_ifdef" | "preproc_def"
        );
        stays
    });
    stays
}

/// Whether a body writes variables that are declared outside it.
fn carries<'a>(meaning: &Meaning<'a>, body: &Body<'a>) -> bool {
    let span = body.span();
    let mut carries = false;
    for part in &body.parts {
        walk(*part, &mut |node| {
            if node.kind() == "identifier"
                && let Binding::Local(variable) | Binding::Parameter(variable, ..) =
                    meaning.names.resolve(node)
                && !encloses(&span, &variable.name.byte_range())
            {
                carries |= meaning.is_written(node);
            }
            true
        });
    }
    carries
}

/// Whether all that a body carries is added to: `sum += …`, once each, and read nowhere else in it.
fn only_adds<'a>(meaning: &Meaning<'a>, body: &Body<'a>) -> bool {
    let span = body.span();
    let mut adds = true;
    for part in &body.parts {
        walk(*part, &mut |node| {
            if node.kind() == "identifier"
                && let Binding::Local(variable) | Binding::Parameter(variable, ..) =
                    meaning.names.resolve(node)
                && !encloses(&span, &variable.name.byte_range())
                && body
                    .parts
                    .iter()
                    .any(|part| meaning.may_change(node, *part))
            {
                adds &= node.parent().is_some_and(|parent| {
                    parent.kind() == "assignment_expression"
                        && meaning.operator(parent) == "+="
                        && parent.child_by_field_name("left") == Some(node)
                        && parent
                            .parent()
                            .is_some_and(|parent| parent.kind() == "expression_statement")
                });
            }
            adds
        });
    }
    adds
}

/// The loop's body for a group: loads, the old body once for each element, stores.
fn written<'a>(
    meaning: &Meaning<'a>,
    body: &Body<'a>,
    groups: &[Group<'a>],
    lanes: u32,
    words: &str,
    counter: &str,
    blanks: &str,
) -> Option<String> {
    let name = meaning.of(body.counter);
    let mut out = String::from("{\n");
    let mut stores = String::new();
    let mut variables = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let vector = vector_name(&group.element, lanes)?;
        let pointer = &meaning.scene.kernel.parameters.get(group.parameter)?.name;
        let variable = meaning.names.fresh(&match number {
            0 => format!("{pointer}_vector"),
            _ => format!("{pointer}_vector{number}"),
        });
        let first = *group.places.first()?;
        let place = renamed(meaning, first, body.counter, counter)?;
        let constant = if group.stored { "" } else { "const " };
        match group.loaded {
            true => out.push_str(&format!(
                "{blanks}    {constant}{vector} {variable} = *reinterpret_cast<const {vector} *>(&{place});\n"
            )),
            false => out.push_str(&format!("{blanks}    {vector} {variable};\n")),
        }
        if group.stored {
            stores.push_str(&format!(
                "{blanks}    *reinterpret_cast<{vector} *>(&{place}) = {variable};\n"
            ));
        }
        variables.push(variable);
    }
    let span = body.span();
    for (lane, member) in ["x", "y", "z", "w"].iter().take(lanes as usize).enumerate() {
        let mut edits = Vec::new();
        for (group, variable) in groups.iter().zip(&variables) {
            for place in &group.places {
                edits.push(Edit::replace(
                    place.start_byte() - span.start..place.end_byte() - span.start,
                    format!("{variable}.{member}"),
                ));
            }
        }
        let copy = edit::apply(meaning.scene.unit.slice(span.clone()), edits)?;
        let offset = match lane {
            0 => counter.to_owned(),
            _ => format!("{counter} + {lane}"),
        };
        // A copy may not need the counter any more.
        let declares = match tokens::tokens(&copy).contains(&name) {
            true => format!("const {words} {name} = {offset};"),
            false => String::new(),
        };
        let block = body.parts.len() == 1 && copy.starts_with('{');
        out.push_str(&match (block, declares.is_empty()) {
            (true, true) => format!("{blanks}    {copy}\n"),
            (true, false) => format!("{blanks}    {{\n{blanks}        {declares}{}\n", copy.get(1..).unwrap_or_default()),
            (false, true) => format!("{blanks}    {{\n{blanks}        {copy}\n{blanks}    }}\n"),
            (false, false) => format!("{blanks}    {{\n{blanks}        {declares}\n{blanks}        {copy}\n{blanks}    }}\n"),
        });
    }
    out.push_str(&stores);
    out.push_str(&format!("{blanks}}}"));
    Some(out)
}

/// The text of a node with another name for a variable.
fn renamed<'a>(
    meaning: &Meaning<'a>,
    node: Node<'a>,
    variable: Node<'a>,
    name: &str,
) -> Option<String> {
    let edits = meaning
        .uses(variable, node)
        .into_iter()
        .map(|used| {
            Edit::replace(
                used.start_byte() - node.start_byte()..used.end_byte() - node.start_byte(),
                name,
            )
        })
        .collect();
    edit::apply(meaning.of(node), edits)
}
