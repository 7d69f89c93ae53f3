//! What a compiler may know of a launch, and what of a function it may put in place.

use std::collections::HashSet;

use super::edit::Edit;
use super::meaning::Meaning;
use super::scene::Scene;
use super::{Operator, Proposal};

/// Threads that a multiprocessor holds, at least.
const RESIDENT: u32 = 1024;

/// `__launch_bounds__` on the kernel, with the block of the capture.
///
/// All launches have the same number of threads in a block. A launch with more of them fails afterwards; results stay.
pub struct LaunchBounds;

impl Operator for LaunchBounds {
    fn name(&self) -> &'static str {
        "launch-bounds"
    }

    fn about(&self) -> &'static str {
        "__launch_bounds__ with the captured block, and with 1, 2, 4, 8 blocks at least; larger blocks are refused afterwards"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let Some((kernel, threads)) = meaning.kernel_node().zip(scene.facts.threads()) else {
            return Vec::new();
        };
        let mut cursor = kernel.walk();
        let before = kernel
            .children(&mut cursor)
            .find(|child| child.kind() == "launch_bounds");
        let Some(declarator) = kernel.child_by_field_name("declarator") else {
            return Vec::new();
        };
        // Two kernels of a name with other bounds are no longer one.
        if meaning.is_declared_elsewhere(&scene.kernel.name) {
            return Vec::new();
        }
        let mut ways = vec![(threads.to_string(), format!("__launch_bounds__({threads})"))];
        for blocks in [1, 2, 4, 8] {
            if threads * blocks <= 2 * RESIDENT {
                ways.push((
                    format!("{threads},{blocks}"),
                    format!("__launch_bounds__({threads}, {blocks})"),
                ));
            }
        }
        ways.into_iter()
            .filter_map(|(choice, words)| {
                let edit = match before {
                    Some(before) if meaning.of(before) == words => return None,
                    Some(before) => Edit::replace(before.byte_range(), words.clone()),
                    None => Edit::insert(declarator.start_byte(), format!("{words} ")),
                };
                Some(Proposal {
                    at: kernel.start_byte()..declarator.end_byte(),
                    choice,
                    what: format!("{words} on {}", scene.kernel.name),
                    edits: vec![edit],
                    directive: None,
                })
            })
            .collect()
    }
}

impl Meaning<'_> {
    /// Whether a function is declared, or mentioned by a template's instantiation, outside its definition.
    pub fn is_declared_elsewhere(&self, name: &str) -> bool {
        self.names.is_declared_elsewhere(name)
    }
}

/// `__forceinline__` on functions of the device.
///
/// The function does not call itself, directly or through others of the file.
pub struct ForceInline;

impl Operator for ForceInline {
    fn name(&self) -> &'static str {
        "force-inline"
    }

    fn about(&self) -> &'static str {
        "__forceinline__ on helpers of the device that do not call themselves"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let reached: HashSet<usize> = scene
            .unit
            .reached(scene.kernel)
            .into_iter()
            .map(|function| function.span.start)
            .collect();
        let mut found = Vec::new();
        for node in scene.unit.definitions() {
            let Some(function) = scene.unit.function(node) else {
                continue;
            };
            let ours =
                !function.kernel && function.device && reached.contains(&function.span.start);
            if !ours
                || scene.unit.reaches_itself(&function)
                || meaning.is_declared_elsewhere(&function.name)
                || node.has_error()
            {
                continue;
            }
            let (Some(ty), Some(declarator)) = (
                node.child_by_field_name("type"),
                node.child_by_field_name("declarator"),
            ) else {
                continue;
            };
            let mut cursor = node.walk();
            let words: Vec<_> = node
                .children(&mut cursor)
                .take_while(|child| child.start_byte() < declarator.start_byte())
                .collect();
            if words
                .iter()
                .any(|word| meaning.of(*word) == "__forceinline__")
            {
                continue;
            }
            let word = words.iter().find(|word| {
                matches!(meaning.of(**word), "inline" | "__noinline__" | "__inline__")
            });
            let edit = match word {
                Some(word) => Edit::replace(word.byte_range(), "__forceinline__"),
                None => Edit::insert(ty.start_byte(), "__forceinline__ "),
            };
            found.push(Proposal {
                at: node.start_byte()..declarator.end_byte(),
                choice: String::new(),
                what: format!("__forceinline__ on {}", function.name),
                edits: vec![edit],
                directive: None,
            });
        }
        super::with_all(found, "all helpers")
    }
}
