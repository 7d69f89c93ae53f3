//! Sums in several parts.

use tree_sitter::Node;

use super::edit::{self, Edit};
use super::loops::{Loop, in_block, indent};
use super::meaning::Meaning;
use super::scene::Scene;
use super::types::Type;
use super::{Operator, Proposal};
use crate::tokens;

/// A loop that adds up floating-point numbers adds them up in two or four variables, which do not wait for each other.
///
/// The loop counts up from no less than 0; its body ties no threads, leaves early nowhere, writes no memory, and writes no outer
/// variables but those that it adds to, once each time.
pub struct SplitSums;

impl Operator for SplitSums {
    fn name(&self) -> &'static str {
        "split-sums"
    }

    fn about(&self) -> &'static str {
        "a sum in a loop is added up in 2 or 4 parts that do not wait for each other; adds in another order"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        meaning
            .counting_loops()
            .iter()
            .filter(|found| in_block(found.node))
            .flat_map(|found| {
                [2, 4]
                    .into_iter()
                    .filter_map(|parts| split(&meaning, found, parts))
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

fn split<'a>(meaning: &Meaning<'a>, found: &Loop<'a>, parts: usize) -> Option<Proposal> {
    let body = found.body;
    let plain = found.up
        && found.comparison == "<"
        && meaning.is_local(body)
        && !meaning.leaves_iteration(body)
        && meaning.accesses(body).iter().all(|access| !access.written);
    let long = meaning
        .trips(found)
        .is_none_or(|trips| trips >= 2 * parts as i128);
    let unsigned = matches!(
        meaning.type_of(found.variable),
        Type::Integer { signed: false, .. }
    );
    let from_zero = unsigned
        || meaning
            .interval(found.start)
            .is_some_and(|(least, _)| least >= 0);
    if !plain || !long || !from_zero {
        return None;
    }
    let mut sums: Vec<(Node<'a>, &'static str)> = Vec::new();
    for variable in meaning.outer_writes(body) {
        let adds = variable.parent().is_some_and(|parent| {
            parent.kind() == "assignment_expression"
                && meaning.operator(parent) == "+="
                && parent.child_by_field_name("left") == Some(variable)
                && parent
                    .parent()
                    .is_some_and(|parent| parent.kind() == "expression_statement")
        });
        let ty = meaning.type_of(variable);
        let zero = match ty {
            Type::Float => "0.0f",
            Type::Double => "0.0",
            _ => return None,
        };
        if !adds || meaning.uses(variable, body).len() != 1 || meaning.address_taken(variable) {
            return None;
        }
        sums.push((variable, zero));
    }
    if sums.is_empty() {
        return None;
    }
    let text = meaning.scene.unit.text();
    let blanks = indent(text, found.node.start_byte());
    let name = meaning.of(found.variable);
    let declaration = found.node.child_by_field_name("initializer")?;
    let words = meaning.of(declaration.child_by_field_name("type")?);
    let group = meaning.names.fresh(&format!("{name}_next"));
    let step = found
        .step
        .map_or_else(|| "1".to_owned(), |step| meaning.atom(step));
    let bound = meaning.atom(found.bound);
    let steps = |count: usize| match (count, step.as_str()) {
        (_, "1") => count.to_string(),
        (1, step) => step.to_owned(),
        (_, step) => format!("{count} * {step}"),
    };
    let part_name = |sum: Node<'a>, part: usize| match part {
        0 => meaning.of(sum).to_owned(),
        _ => meaning.names.fresh(&format!("{}_{part}", meaning.of(sum))),
    };
    let mut out = String::from("{\n");
    for (sum, zero) in &sums {
        let ty = meaning.type_of(*sum).spelled()?;
        let parts: Vec<String> = (1..parts)
            .map(|part| format!("{} = {zero}", part_name(*sum, part)))
            .collect();
        out.push_str(&format!("{blanks}    {ty} {};\n", parts.join(", ")));
    }
    out.push_str(&format!(
        "{blanks}    {words} {group} = {};\n",
        meaning.of(found.start)
    ));
    out.push_str(&format!(
        "{blanks}    for (; {group} < {bound} && {bound} - {group} > {}; {group} += {}) {{\n",
        steps(parts - 1),
        steps(parts)
    ));
    for part in 0..parts {
        let edits = sums
            .iter()
            .map(|(sum, _)| {
                let at = sum.start_byte() - body.start_byte()..sum.end_byte() - body.start_byte();
                Edit::replace(at, part_name(*sum, part))
            })
            .collect();
        let copy = edit::apply(meaning.of(body), edits)?;
        let at = match part {
            0 => group.clone(),
            _ => format!("{group} + {}", steps(part)),
        };
        let declares = match tokens::tokens(&copy).contains(&name) {
            true => format!("const {words} {name} = {at};\n{blanks}            "),
            false => String::new(),
        };
        out.push_str(&format!(
            "{blanks}        {{\n{blanks}            {declares}{copy}\n{blanks}        }}\n"
        ));
    }
    let head = text
        .get(found.node.start_byte()..body.start_byte())
        .unwrap_or_default()
        .trim_end();
    let from = found.start.byte_range();
    let rest = edit::apply(
        head,
        vec![Edit::replace(
            from.start - found.node.start_byte()..from.end - found.node.start_byte(),
            group,
        )],
    )?;
    out.push_str(&format!(
        "{blanks}    }}\n{blanks}    {rest} {}\n",
        meaning.of(body)
    ));
    for (sum, _) in &sums {
        let names: Vec<String> = (0..parts).map(|part| part_name(*sum, part)).collect();
        if let [one, other] = names.as_slice() {
            out.push_str(&format!(
                "{blanks}    {} = {one} + {other};\n",
                meaning.of(*sum)
            ));
            continue;
        }
        let pairs: Vec<String> = names
            .chunks(2)
            .map(|pair| format!("({})", pair.join(" + ")))
            .collect();
        out.push_str(&format!(
            "{blanks}    {} = {};\n",
            meaning.of(*sum),
            pairs.join(" + ")
        ));
    }
    out.push_str(&format!("{blanks}}}"));
    Some(Proposal {
        at: found.node.byte_range(),
        choice: parts.to_string(),
        what: format!("the sum over {name} in {parts} parts"),
        edits: vec![Edit::replace(found.beginning()..found.node.end_byte(), out)],
        directive: None,
    })
}
