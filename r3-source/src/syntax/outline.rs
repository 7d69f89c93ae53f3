//! The functions of a file, and which of them each one names. It is made once for a tree, in time that grows as the text does.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tree_sitter::Node;

use super::{Function, Unit, walk};

/// The functions of a file.
#[derive(Clone, Debug)]
pub(super) struct Outline {
    functions: Vec<Function>,
    /// For each function those that its body names, by their numbers.
    named: Vec<Vec<usize>>,
    /// Numbers of the functions of a name.
    by_name: HashMap<String, Vec<usize>>,
    /// Number of the function whose body begins at a byte.
    by_body: BTreeMap<usize, usize>,
}

impl Outline {
    pub(super) fn of(unit: &Unit) -> Self {
        let mut functions = Vec::new();
        let mut bodies = Vec::new();
        for node in unit.definitions() {
            if let (Some(function), Some(body)) =
                (unit.function(node), node.child_by_field_name("body"))
            {
                functions.push(function);
                bodies.push(body);
            }
        }
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        let mut by_body = BTreeMap::new();
        for (number, function) in functions.iter().enumerate() {
            by_name
                .entry(function.name.clone())
                .or_default()
                .push(number);
            by_body.insert(function.body.start, number);
        }
        let named = bodies
            .into_iter()
            .map(|body| {
                let numbers = names(unit, body)
                    .into_iter()
                    .filter_map(|name| by_name.get(name))
                    .flatten();
                numbers.copied().collect()
            })
            .collect();
        Self {
            functions,
            named,
            by_name,
            by_body,
        }
    }

    pub(super) fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The functions that one names, directly or through others, without itself.
    pub(super) fn reached(&self, unit: &Unit, from: &Function) -> Vec<Function> {
        self.numbers(unit, from)
            .into_iter()
            .filter_map(|number| self.functions.get(number))
            .filter(|function| function.span != from.span)
            .cloned()
            .collect()
    }

    /// Whether a function names itself, directly or through others.
    pub(super) fn reaches_itself(&self, unit: &Unit, function: &Function) -> bool {
        let own = self.by_body.get(&function.body.start);
        own.is_some_and(|own| self.numbers(unit, function).contains(own))
    }

    fn numbers(&self, unit: &Unit, from: &Function) -> BTreeSet<usize> {
        let own = self
            .by_body
            .get(&from.body.start)
            .and_then(|number| self.named.get(*number));
        let mut open = match own {
            Some(named) => named.clone(),
            None => self.named_in(unit, from),
        };
        let mut taken = BTreeSet::new();
        while let Some(number) = open.pop() {
            if taken.insert(number) {
                open.extend(self.named.get(number).into_iter().flatten());
            }
        }
        taken
    }

    /// The functions that are named in the body of one that is not of this tree.
    fn named_in(&self, unit: &Unit, from: &Function) -> Vec<usize> {
        let body = unit
            .tree
            .root_node()
            .descendant_for_byte_range(from.body.start, from.body.end);
        let names = body.map(|body| names(unit, body)).unwrap_or_default();
        let numbers = names.into_iter().filter_map(|name| self.by_name.get(name));
        numbers.flatten().copied().collect()
    }
}

fn names<'u>(unit: &'u Unit, body: Node<'u>) -> BTreeSet<&'u str> {
    let mut names = BTreeSet::new();
    walk(body, &mut |node| {
        if node.kind() == "identifier" {
            names.insert(unit.of(node));
        }
        true
    });
    names
}
