//! What a compiler may know of pointers, and loads through the read-only path.

use std::collections::BTreeMap;

use tree_sitter::Node;

use super::edit::Edit;
use super::facts::Known;
use super::meaning::Meaning;
use super::memory::Base;
use super::names::parameter_list;
use super::scene::Scene;
use super::types::{Type, vector};
use super::{Operator, Proposal};
use crate::syntax::declared;

/// `__restrict__` on the kernel's pointers.
///
/// The capture says that they lead into different allocations in all launches, so that none meets another; where pointers share
/// one, those are left alone unless the kernel only reads through all of them. Where the kernel reaches memory in a way that is not
/// known, a pointer that may lead there is left alone as well; and so are pointers that are volatile, or are reached through a
/// reference.
pub struct Restrict;

impl Operator for Restrict {
    fn name(&self) -> &'static str {
        "restrict"
    }

    fn about(&self) -> &'static str {
        "__restrict__ on pointers that never meet another one that is written, as the capture says"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        if meaning.is_declared_elsewhere(&scene.kernel.name) {
            return Vec::new();
        }
        let pointers = pointers(&meaning);
        let edits: Vec<Edit> = pointers
            .iter()
            .filter(|(index, _)| {
                pointers.iter().all(|(other, _)| {
                    other == *index
                        || meaning.captured_apart(**index, *other)
                        || meaning.only_reads(**index) && meaning.only_reads(*other)
                }) && meaning.is_captured(**index)
                    && meets_pointers_only(&meaning, **index)
            })
            .filter(|(_, declaration)| !meaning.of(**declaration).contains("restrict"))
            .filter_map(|(_, declaration)| {
                let name = declared(declaration.child_by_field_name("declarator")?)?;
                Some(Edit::insert(name.start_byte(), "__restrict__ "))
            })
            .collect();
        one(scene, &pointers, edits, "__restrict__")
    }
}

/// Whether nothing but the kernel's pointers may lead to what one of them leads to, so far as something is written.
fn meets_pointers_only(meaning: &Meaning<'_>, index: usize) -> bool {
    let others = match meaning.only_reads(index) {
        true => meaning.kernel_writes(),
        false => meaning.kernel_accesses(),
    };
    others.iter().all(|other| {
        matches!(other, Base::Parameter(_)) || !meaning.may_meet(*other, Base::Parameter(index))
    })
}

/// `const` on what the kernel's pointers lead to.
///
/// The kernel only reads through the pointer: every use is a load, or goes to something that is constant by its type. The kernel is
/// `extern "C"`, since another type would be another name.
pub struct Constness;

impl Operator for Constness {
    fn name(&self) -> &'static str {
        "const"
    }

    fn about(&self) -> &'static str {
        "const on pointers through which an extern \"C\" kernel only reads"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let outer = scene
            .unit
            .slice(scene.kernel.span.start..scene.kernel.definition.start);
        let plain = outer.contains("extern")
            || scene
                .unit
                .slice(scene.kernel.definition.clone())
                .starts_with("extern");
        if !plain || meaning.is_declared_elsewhere(&scene.kernel.name) {
            return Vec::new();
        }
        let pointers = pointers(&meaning);
        let edits = pointers
            .iter()
            .filter(|(index, declaration)| {
                let text = meaning.of(**declaration);
                let declarator = declaration.child_by_field_name("declarator");
                let one_star = declarator.is_some_and(|declarator| {
                    declarator.kind() == "pointer_declarator"
                        && meaning.of(declarator).matches('*').count() == 1
                });
                one_star
                    && !text.contains("const")
                    && meaning.only_reads(**index)
                    && never_decays(&meaning, **index)
            })
            .map(|(_, declaration)| Edit::insert(declaration.start_byte(), "const "))
            .collect();
        one(scene, &pointers, edits, "const")
    }
}

/// Whether a pointer goes nowhere but into loads, so that nothing needs it without `const`.
fn never_decays(meaning: &Meaning<'_>, index: usize) -> bool {
    meaning.direct_elements(index).is_some()
}

fn one(
    scene: &Scene<'_>,
    pointers: &BTreeMap<usize, Node<'_>>,
    edits: Vec<Edit>,
    word: &str,
) -> Vec<Proposal> {
    let (Some(first), Some(last)) = (pointers.values().next(), pointers.values().last()) else {
        return Vec::new();
    };
    if edits.is_empty() {
        return Vec::new();
    }
    vec![Proposal {
        at: first.start_byte()..last.end_byte(),
        choice: String::new(),
        what: format!(
            "{word} on {} of {}'s pointers",
            edits.len(),
            scene.kernel.name
        ),
        edits,
        directive: None,
    }]
}

/// The kernel's pointer parameters by number. References to pointers and what is volatile are not among them.
fn pointers<'a>(meaning: &Meaning<'a>) -> BTreeMap<usize, Node<'a>> {
    let Some(list) = meaning.kernel_node().and_then(parameter_list) else {
        return BTreeMap::new();
    };
    let mut cursor = list.walk();
    list.named_children(&mut cursor)
        .filter(|child| child.kind().ends_with("parameter_declaration"))
        .enumerate()
        .filter(|(_, declaration)| {
            let text = meaning.of(*declaration);
            declaration
                .child_by_field_name("declarator")
                .is_some_and(|declarator| declarator.kind() == "pointer_declarator")
                && !text.contains("volatile")
                && !text.contains('&')
        })
        .collect()
}

/// `p[i]` becomes `__ldg(&p[i])`, for all loads through one pointer; or `__ldcs`, for data that is read once.
///
/// Nothing that the kernel writes, itself or in the functions that it reaches, may meet the memory: the capture says that the
/// allocations differ, or the source does by `__restrict__`. The pointer is only read through, and its elements are numbers or
/// vectors of the language.
pub struct ReadOnlyLoads;

impl Operator for ReadOnlyLoads {
    fn name(&self) -> &'static str {
        "read-only-loads"
    }

    fn about(&self) -> &'static str {
        "loads through a pointer that nothing written meets become __ldg"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let writes = meaning.kernel_writes();
        let elements: Vec<Node<'_>> = scene
            .nodes("subscript_expression")
            .into_iter()
            .filter(|element| meaning.in_kernel(*element) && !meaning.is_written(*element))
            .collect();
        let mut found = Vec::new();
        for (index, declaration) in pointers(&meaning) {
            let loads: Vec<Node<'_>> = elements
                .iter()
                .copied()
                .filter(|element| meaning.base(*element) == Base::Parameter(index))
                .filter(|element| {
                    !under_address(*element) && is_loadable(&meaning.type_of(*element))
                })
                .collect();
            let apart = writes
                .iter()
                .all(|write| !meaning.may_meet(*write, Base::Parameter(index)));
            if loads.is_empty() || !apart || !meaning.only_reads(index) {
                continue;
            }
            let edits = loads
                .iter()
                .flat_map(|load| {
                    [
                        Edit::insert(load.start_byte(), "__ldg(&"),
                        Edit::insert(load.end_byte(), ")"),
                    ]
                })
                .collect();
            found.push(Proposal {
                at: declaration.byte_range(),
                choice: String::new(),
                what: format!(
                    "__ldg for {} loads through {}",
                    loads.len(),
                    scene
                        .kernel
                        .parameters
                        .get(index)
                        .map_or("", |parameter| &parameter.name)
                ),
                edits,
                directive: None,
            });
        }
        super::with_all(found, "__ldg for all pointers that are only read")
    }
}

fn under_address(element: Node<'_>) -> bool {
    let mut node = element;
    while let Some(parent) = node.parent() {
        match parent.kind() {
            "parenthesized_expression" | "field_expression" => node = parent,
            "pointer_expression" => return true,
            // A member that is an array: its address is needed.
            "subscript_expression" => return parent.child_by_field_name("argument") == Some(node),
            _ => return false,
        }
    }
    false
}

/// Whether there is an `__ldg` for it.
fn is_loadable(ty: &Type) -> bool {
    match ty {
        Type::Float | Type::Double => true,
        Type::Integer { .. } => true,
        Type::Named(name) => {
            matches!(
                vector(name),
                Some((
                    Type::Float | Type::Double | Type::Integer { bits: 32, .. },
                    2 | 4
                ))
            ) && name != "double4"
        }
        _ => false,
    }
}

impl<'a> Meaning<'a> {
    /// All elements that are reached directly by the name of the kernel's pointer: `p[i]`, `*p`. Nothing when it is used otherwise.
    pub fn direct_elements(&self, index: usize) -> Option<Vec<Node<'a>>> {
        let kernel = self.kernel_node()?;
        let declaration = *pointers(self).get(&index)?;
        let name = declared(declaration.child_by_field_name("declarator")?)?;
        let body = kernel.child_by_field_name("body")?;
        if self.names.macros().mention(self.of(name)) && self.has_macros(body) {
            return None;
        }
        self.uses(name, body)
            .into_iter()
            .map(|used| {
                let parent = used.parent()?;
                let element = match parent.kind() {
                    "subscript_expression" => parent.child_by_field_name("argument") == Some(used),
                    "pointer_expression" => self.of(parent).starts_with('*'),
                    _ => false,
                };
                element.then_some(parent)
            })
            .collect()
    }

    /// Whether the capture says that two of the kernel's pointers lead into different allocations.
    pub fn captured_apart(&self, a: usize, b: usize) -> bool {
        match (self.scene.facts.parameter(a), self.scene.facts.parameter(b)) {
            (Known::Pointer { allocation: a, .. }, Known::Pointer { allocation: b, .. }) => {
                a != 0 && b != 0 && a != b
            }
            _ => false,
        }
    }

    /// Whether the capture knows where one of the kernel's pointers leads.
    pub fn is_captured(&self, index: usize) -> bool {
        matches!(
            self.scene.facts.parameter(index),
            Known::Pointer {
                allocation: 1..,
                ..
            }
        )
    }
}
