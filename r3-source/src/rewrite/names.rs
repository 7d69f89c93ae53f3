//! What a name means where it stands.
//!
//! Scopes are followed from the inside out, as the language does, so that a local `sqrtf` hides the function. Names of macros
//! are known to be that and mean nothing else: nothing is expanded.

use std::collections::{HashMap, HashSet};

use tree_sitter::Node;

use super::scene::Scene;
use crate::syntax::{declared, walk};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binding<'a> {
    /// A variable inside a function.
    Local(Declared<'a>),
    /// A parameter of a function: of which definition, and its number.
    Parameter(Declared<'a>, Node<'a>, usize),
    /// A variable of the file.
    File(Declared<'a>),
    /// A function of the file.
    Function,
    /// A parameter of a template.
    Template,
    /// A macro of the file.
    Macro,
    /// None of the file: of the language, of a header, or of a macro in a header.
    Unknown,
}

/// A declared variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Declared<'a> {
    /// The identifier in its declaration.
    pub name: Node<'a>,
    /// The declarator around it (`*p`, `a[4]`, `x = 1`).
    pub declarator: Node<'a>,
    /// The declaration with the type.
    pub declaration: Node<'a>,
}

impl<'a> Declared<'a> {
    /// What it begins as: the expression, or a list.
    pub fn value(&self) -> Option<Node<'a>> {
        let value = self.declarator.child_by_field_name("value")?;
        match value.kind() {
            "argument_list" if value.named_child_count() == 1 => value.named_child(0),
            _ => Some(value),
        }
    }
}

/// The names of a file.
pub struct Names<'a> {
    scene: Scene<'a>,
    macros: HashSet<&'a str>,
    /// Values of macros without parameters.
    values: HashMap<&'a str, &'a str>,
    functions: HashMap<&'a str, Vec<Node<'a>>>,
    structs: HashMap<&'a str, Node<'a>>,
    aliases: HashMap<&'a str, Node<'a>>,
    file: HashMap<&'a str, Declared<'a>>,
    all: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    /// Reads a file's names.
    pub fn new(scene: &Scene<'a>) -> Self {
        let mut names = Self {
            scene: *scene,
            macros: HashSet::new(),
            values: HashMap::new(),
            functions: HashMap::new(),
            structs: HashMap::new(),
            aliases: HashMap::new(),
            file: HashMap::new(),
            all: HashSet::new(),
        };
        walk(scene.unit.tree().root_node(), &mut |node| names.take(node));
        names
    }

    fn take(&mut self, node: Node<'a>) -> bool {
        let scene = self.scene;
        let named = |field| node.child_by_field_name(field).map(|name| scene.of(name));
        match node.kind() {
            "preproc_def" => {
                if let Some(name) = named("name") {
                    // One that is defined twice has no value.
                    let value = named("value").unwrap_or_default().trim();
                    match self.macros.insert(name) {
                        true => self.values.insert(name, value),
                        false => self.values.remove(name),
                    };
                }
            }
            "preproc_function_def" => {
                self.macros.extend(named("name"));
            }
            "function_definition" => {
                if let Some(function) = scene.unit.function(node) {
                    let name = node
                        .child_by_field_name("declarator")
                        .and_then(|declarator| identifier_of(scene, declarator, &function.name));
                    if let Some(name) = name {
                        self.functions.entry(name).or_default().push(node);
                    }
                }
            }
            "struct_specifier" | "class_specifier" | "union_specifier" => {
                if let (Some(name), Some(_)) = (named("name"), node.child_by_field_name("body")) {
                    self.structs.insert(name, node);
                }
            }
            "type_definition" => {
                if let Some(name) = node.child_by_field_name("declarator").and_then(declared) {
                    self.aliases.insert(scene.of(name), node);
                }
            }
            "alias_declaration" => {
                if let Some(name) = named("name") {
                    self.aliases.insert(name, node);
                }
            }
            "declaration" if file_scope(node) => {
                for variable in declarations(node) {
                    self.file.insert(scene.of(variable.name), variable);
                }
            }
            "identifier" | "field_identifier" | "type_identifier" => {
                self.all.insert(scene.of(node));
            }
            "preproc_arg" => {
                let words = scene
                    .of(node)
                    .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .filter(|word| !word.is_empty());
                self.all.extend(words);
            }
            _ => {}
        }
        true
    }

    /// What a name stands for.
    pub fn resolve(&self, identifier: Node<'a>) -> Binding<'a> {
        let name = self.scene.of(identifier);
        if self.macros.contains(name) {
            return Binding::Macro;
        }
        let mut below = identifier;
        while let Some(node) = below.parent() {
            if let Some(found) = self.in_scope(node, name, identifier) {
                return found;
            }
            below = node;
        }
        if let Some(variable) = self.file.get(name) {
            return Binding::File(*variable);
        }
        match self.functions.contains_key(name) {
            true => Binding::Function,
            false => Binding::Unknown,
        }
    }

    fn in_scope(&self, node: Node<'a>, name: &str, at: Node<'a>) -> Option<Binding<'a>> {
        let matches = |variable: &Declared<'a>| self.scene.of(variable.name) == name;
        match node.kind() {
            "compound_statement" | "case_statement" | "for_statement" | "condition_clause"
            | "init_statement" | "for_range_loop" | "if_statement" => {
                let mut found = None;
                before(node, at, &mut |declaration| {
                    found = declarations(declaration)
                        .into_iter()
                        .rev()
                        .find(matches)
                        .or(found);
                });
                found.map(Binding::Local)
            }
            "function_definition" | "lambda_expression" => {
                let list = parameter_list(node)?;
                let mut cursor = list.walk();
                list.named_children(&mut cursor)
                    .filter(|child| child.kind().ends_with("parameter_declaration"))
                    .enumerate()
                    .find_map(|(index, declaration)| {
                        let declarator = declaration.child_by_field_name("declarator")?;
                        let variable = Declared {
                            name: declared(declarator)?,
                            declarator,
                            declaration,
                        };
                        matches(&variable).then_some(Binding::Parameter(variable, node, index))
                    })
            }
            "template_declaration" => {
                let list = node.child_by_field_name("parameters")?;
                let mut found = false;
                walk(list, &mut |child| {
                    found |= matches!(child.kind(), "identifier" | "type_identifier")
                        && self.scene.of(child) == name;
                    true
                });
                found.then_some(Binding::Template)
            }
            _ => None,
        }
    }

    /// Whether a name is one of the language or of its headers: nothing in the file stands for it.
    pub fn is_builtin(&self, identifier: Node<'a>) -> bool {
        self.resolve(identifier) == Binding::Unknown
    }

    /// The value of a macro without parameters.
    pub fn macro_value(&self, name: &str) -> Option<&'a str> {
        self.values
            .get(name)
            .copied()
            .filter(|value| !value.is_empty())
    }

    /// The functions of a name.
    pub fn functions(&self, name: &str) -> &[Node<'a>] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    /// A structure of a name.
    pub fn structure(&self, name: &str) -> Option<Node<'a>> {
        self.structs.get(name).copied()
    }

    /// The structures of the file.
    pub fn structures(&self) -> &HashMap<&'a str, Node<'a>> {
        &self.structs
    }

    /// What a type's second name stands for: its `typedef` or `using`.
    pub fn alias(&self, name: &str) -> Option<Node<'a>> {
        self.aliases.get(name).copied()
    }

    /// Whether a macro of the file has the name.
    pub fn is_macro(&self, name: &str) -> bool {
        self.macros.contains(name)
    }

    /// A name like this one that the file does not have.
    pub fn fresh(&self, like: &str) -> String {
        let taken = |name: &str| self.all.contains(name) || self.macros.contains(name);
        (0..)
            .map(|number| match number {
                0 => like.to_owned(),
                _ => format!("{like}_{number}"),
            })
            .find(|name| !taken(name))
            .unwrap_or_default()
    }
}

fn identifier_of<'a>(scene: Scene<'a>, declarator: Node<'a>, name: &str) -> Option<&'a str> {
    let mut found = None;
    walk(declarator, &mut |node| {
        if found.is_none() && node.kind() == "identifier" && scene.of(node) == name {
            found = Some(scene.of(node));
        }
        found.is_none()
    });
    found
}

/// A function's list of parameters.
pub fn parameter_list(function: Node<'_>) -> Option<Node<'_>> {
    let mut node = function.child_by_field_name("declarator")?;
    loop {
        if let Some(list) = node.child_by_field_name("parameters") {
            return Some(list);
        }
        node = node
            .child_by_field_name("declarator")
            .or_else(|| node.named_child(0))?;
    }
}

/// Whether a declaration is in no function.
fn file_scope(node: Node<'_>) -> bool {
    let mut parent = node.parent();
    while let Some(node) = parent {
        if matches!(
            node.kind(),
            "compound_statement" | "for_statement" | "lambda_expression"
        ) {
            return false;
        }
        parent = node.parent();
    }
    true
}

/// The declarations among a scope's children that stand before a place, also those between lines of the preprocessor.
fn before<'a>(scope: Node<'a>, at: Node<'a>, visit: &mut dyn FnMut(Node<'a>)) {
    let mut cursor = scope.walk();
    for child in scope.named_children(&mut cursor) {
        if child.start_byte() >= at.end_byte() {
            return;
        }
        match child.kind() {
            "declaration" => visit(child),
            kind if kind.starts_with("preproc_") || kind == "init_statement" => {
                before(child, at, visit)
            }
            _ => {}
        }
    }
    if scope.kind() == "for_range_loop" {
        visit(scope);
    }
}

/// The variables of a declaration.
pub fn declarations(declaration: Node<'_>) -> Vec<Declared<'_>> {
    let mut found = Vec::new();
    let mut cursor = declaration.walk();
    for declarator in declaration.children_by_field_name("declarator", &mut cursor) {
        let inner = match declarator.kind() {
            "init_declarator" => declarator.child_by_field_name("declarator"),
            _ => Some(declarator),
        };
        match inner {
            Some(inner) if inner.kind() == "structured_binding_declarator" => {
                let mut cursor = inner.walk();
                found.extend(inner.named_children(&mut cursor).map(|name| Declared {
                    name,
                    declarator: inner,
                    declaration,
                }));
            }
            Some(inner) => found.extend(declared(inner).map(|name| Declared {
                name,
                declarator,
                declaration,
            })),
            None => {}
        }
    }
    found
}
