//! Loads and stores of 16 bytes.

use std::collections::BTreeMap;

use tree_sitter::Node;

use super::edit::{self, Edit};
use super::facts::Known;
use super::grid::Strided;
use super::loops::{Loop, encloses, indent};
use super::meaning::{Meaning, bare};
use super::memory::Base;
use super::names::Binding;
use super::scene::Scene;
use super::types::Type;
use super::{Operator, Proposal};
use crate::directive::GridWish;
use crate::syntax::walk;
use crate::tokens;

/// Bytes of a vector.
const BYTES: u64 = 16;

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

/// Elements of one pointer at one offset from the counter.
struct Group<'a> {
    parameter: usize,
    /// All places where the element is.
    places: Vec<Node<'a>>,
    element: Type,
    stored: bool,
    /// Whether what is in memory is needed.
    loaded: bool,
}

/// A loop whose body is done for groups of elements.
struct Body<'a> {
    counter: Node<'a>,
    parts: Vec<Node<'a>>,
}

impl<'a> Body<'a> {
    fn span(&self) -> std::ops::Range<usize> {
        let start = self.parts.first().map_or(0, |part| part.start_byte());
        start..self.parts.last().map_or(start, |part| part.end_byte())
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
    let directive = found.test.is_some().then(|| {
        let mut directive = meaning.scene.directive();
        if let Some(wish) = directive.grid.get_mut(found.dimension) {
            *wish = GridWish::Scale(1, lanes);
        }
        directive
    });
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

/// The consecutive elements of a body, and how many of them make a group.
fn groups<'a>(meaning: &Meaning<'a>, body: &Body<'a>) -> Option<(Vec<Group<'a>>, u32)> {
    if body.parts.iter().any(|part| part.has_error()) {
        return None;
    }
    let mut elements: Vec<Node<'a>> = Vec::new();
    for part in &body.parts {
        walk(*part, &mut |node| {
            if node.kind() == "subscript_expression" {
                elements.push(node);
            }
            true
        });
    }
    // By pointer and offset.
    let mut by_place: BTreeMap<(usize, u128), Group<'a>> = BTreeMap::new();
    for element in &elements {
        let Base::Parameter(parameter) = meaning.base(*element) else {
            continue;
        };
        let ty = meaning.type_of(*element);
        let direct = element
            .child_by_field_name("argument")
            .is_some_and(|argument| {
                argument.kind() == "identifier"
                    && matches!(meaning.names.resolve(argument), Binding::Parameter(..))
            });
        if !direct || lanes_of(&ty).is_none() || !is_consecutive(meaning, *element, body, &ty) {
            continue;
        }
        let key = (parameter, tokens::fingerprint(meaning.of(*element)));
        by_place
            .entry(key)
            .or_insert_with(|| Group {
                parameter,
                places: Vec::new(),
                element: ty,
                stored: false,
                loaded: false,
            })
            .places
            .push(*element);
    }
    // Two offsets of one pointer overlap; only the plain case of one is taken when it is stored.
    let mut groups: Vec<Group<'a>> = by_place.into_values().collect();
    groups.retain_mut(|group| is_sound(meaning, group, &elements, body));
    let lanes = groups
        .iter()
        .filter_map(|group| lanes_of(&group.element))
        .min()?;
    Some((groups, lanes))
}

/// How many elements make a vector.
fn lanes_of(ty: &Type) -> Option<u32> {
    match ty {
        Type::Float | Type::Integer { bits: 32, .. } => Some(4),
        Type::Double | Type::Integer { bits: 64, .. } => Some(2),
        _ => None,
    }
}

fn vector_name(ty: &Type, lanes: u32) -> Option<String> {
    let name = match ty {
        Type::Float => "float",
        Type::Double => "double",
        Type::Integer {
            bits: 32,
            signed: true,
        } => "int",
        Type::Integer {
            bits: 32,
            signed: false,
        } => "uint",
        Type::Integer {
            bits: 64,
            signed: true,
        } => "longlong",
        Type::Integer {
            bits: 64,
            signed: false,
        } => "ulonglong",
        _ => return None,
    };
    Some(format!("{name}{lanes}"))
}

/// Whether an element is at the counter plus something that is a multiple of a group, on a pointer that is aligned.
fn is_consecutive<'a>(
    meaning: &Meaning<'a>,
    element: Node<'a>,
    body: &Body<'a>,
    ty: &Type,
) -> bool {
    let Some(index) = element
        .child_by_field_name("indices")
        .filter(|indices| indices.named_child_count() == 1)
        .and_then(|indices| indices.named_child(0))
    else {
        return false;
    };
    let Some(lanes) = lanes_of(ty) else {
        return false;
    };
    let counter = meaning.names.resolve(body.counter);
    let (mut counters, mut sound) = (0, true);
    for term in terms(meaning, index) {
        let inner = meaning.uncast(term);
        if inner.kind() == "identifier" && meaning.names.resolve(inner) == counter {
            counters += 1;
        } else {
            // The largest group there is: what divides by it divides by smaller ones.
            sound &= meaning.residue(term, 4) == Some(0)
                || lanes == 2 && meaning.residue(term, 2) == Some(0);
            sound &= body
                .parts
                .iter()
                .all(|part| meaning.is_invariant(term, *part))
                && meaning.is_pure(term);
        }
    }
    let Base::Parameter(parameter) = meaning.base(element) else {
        return false;
    };
    let aligned = matches!(
        meaning.scene.facts.parameter(parameter),
        Known::Pointer { alignment, .. } if alignment % BYTES == 0 && alignment > 0
    );
    counters == 1 && sound && aligned
}

/// The terms of a sum. A difference is one term.
fn terms<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Vec<Node<'a>> {
    match meaning.binary(bare(node), "+") {
        Some((a, b)) => {
            let mut found = terms(meaning, a);
            found.extend(terms(meaning, b));
            found
        }
        None => vec![node],
    }
}

fn is_sound<'a>(
    meaning: &Meaning<'a>,
    group: &mut Group<'a>,
    elements: &[Node<'a>],
    body: &Body<'a>,
) -> bool {
    let span = body.span();
    for place in &group.places {
        group.stored |= meaning.is_written(*place);
        // Its address goes somewhere.
        if place.parent().is_some_and(|parent| {
            parent.kind() == "pointer_expression" || parent.kind() == "sizeof_expression"
        }) {
            return false;
        }
    }
    if !group
        .places
        .iter()
        .any(|place| is_unconditional(*place, &span))
    {
        return false;
    }
    let ours = |node: &Node<'a>| group.places.contains(node);
    let base = Base::Parameter(group.parameter);
    // All other memory that is written must be elsewhere.
    for part in &body.parts {
        let mut targets = meaning.written(*part);
        targets.retain(|target| !ours(target));
        if targets
            .into_iter()
            .filter(|target| target.kind() != "identifier" || meaning.reads_memory(*target))
            .any(|target| meaning.may_meet(meaning.base(target), base))
        {
            return false;
        }
        let mut meets = false;
        walk(*part, &mut |node| {
            if node.kind() == "call_expression" && !meaning.is_pure(node) {
                meets |= meaning
                    .call_writes(node)
                    .into_iter()
                    .any(|write| meaning.may_meet(write, base));
                if group.stored {
                    // What it reads is not known.
                    meets |= meaning.builtin_call(node).is_none_or(|(name, _)| {
                        !super::tables::is_pure(name) && !name.starts_with("atomic")
                    });
                }
            }
            !meets
        });
        if meets {
            return false;
        }
    }
    if group.stored {
        let read_elsewhere = elements
            .iter()
            .filter(|element| !ours(element))
            .any(|element| meaning.may_meet(meaning.base(*element), base));
        let mut pointers = false;
        for part in &body.parts {
            walk(*part, &mut |node| {
                let dereferences = node.kind() == "pointer_expression"
                    && meaning.of(node).starts_with('*')
                    || node.kind() == "field_expression" && meaning.of(node).contains("->");
                pointers |= dereferences && meaning.may_meet(meaning.base(node), base);
                true
            });
        }
        if read_elsewhere || pointers {
            return false;
        }
        let first = group.places.first().copied();
        group.loaded =
            !first.is_some_and(|first| is_plain_store(meaning, first, &span, &group.places));
    } else {
        group.loaded = true;
    }
    true
}

/// Whether the first place of an element is a store of it whose value does not need it, done each time.
fn is_plain_store<'a>(
    meaning: &Meaning<'a>,
    place: Node<'a>,
    span: &std::ops::Range<usize>,
    places: &[Node<'a>],
) -> bool {
    let Some(parent) = place.parent() else {
        return false;
    };
    let value = parent.child_by_field_name("right");
    parent.kind() == "assignment_expression"
        && meaning.operator(parent) == "="
        && parent.child_by_field_name("left") == Some(place)
        && parent
            .parent()
            .is_some_and(|parent| parent.kind() == "expression_statement")
        && is_unconditional(place, span)
        && value.is_some_and(|value| {
            places
                .iter()
                .all(|other| !encloses(&value.byte_range(), &other.byte_range()))
        })
}

/// Whether a place in a body is reached each time.
pub fn is_unconditional(node: Node<'_>, body: &std::ops::Range<usize>) -> bool {
    let mut below = node;
    while let Some(parent) = below.parent() {
        let outside = !encloses(body, &parent.byte_range());
        match parent.kind() {
            "compound_statement" | "expression_statement" | "declaration" | "init_declarator" => {}
            _ if outside => return true,
            "if_statement"
            | "conditional_expression"
            | "for_statement"
            | "while_statement"
            | "do_statement"
            | "switch_statement"
            | "case_statement"
            | "lambda_expression"
            | "for_range_loop"
            | "sizeof_expression" => return false,
            "binary_expression" => {
                let operator = parent
                    .child_by_field_name("operator")
                    .map(|operator| operator.kind());
                if matches!(operator, Some("&&" | "||"))
                    && parent.child_by_field_name("right") == Some(below)
                {
                    return false;
                }
            }
            _ => {}
        }
        if outside {
            return true;
        }
        below = parent;
    }
    true
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

impl<'a> Meaning<'a> {
    /// What an integer expression leaves when it is divided by a number, where the text or the capture says it.
    pub fn residue(&self, node: Node<'a>, modulus: i128) -> Option<i128> {
        self.residue_within(node, modulus, 16)
    }

    fn residue_within(&self, node: Node<'a>, modulus: i128, left: u32) -> Option<i128> {
        let left = left.checked_sub(1)?;
        let node = self.uncast(node);
        if let Some(value) = self.known(node) {
            return Some(value.rem_euclid(modulus));
        }
        match node.kind() {
            "binary_expression" => {
                let (a, b) = (
                    node.child_by_field_name("left")?,
                    node.child_by_field_name("right")?,
                );
                let (x, y) = (
                    self.residue_within(a, modulus, left),
                    self.residue_within(b, modulus, left),
                );
                match self.operator(node) {
                    "*" if x == Some(0) && self.type_of(b).is_integer()
                        || y == Some(0) && self.type_of(a).is_integer() =>
                    {
                        Some(0)
                    }
                    "*" => Some((x? * y?).rem_euclid(modulus)),
                    "+" => Some((x? + y?).rem_euclid(modulus)),
                    "-" => Some((x? - y?).rem_euclid(modulus)),
                    _ => None,
                }
            }
            "identifier" => match self.names.resolve(node) {
                Binding::Local(variable) => {
                    let body = self.function(node)?.child_by_field_name("body")?;
                    let keeps = !self.may_change(node, body)
                        && self.type_of_variable(&variable).is_integer();
                    self.residue_within(variable.value().filter(|_| keeps)?, modulus, left)
                }
                _ => None,
            },
            _ => None,
        }
    }
}
