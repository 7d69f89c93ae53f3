//! What a name means where it stands.
//!
//! Scopes are followed from the inside out, as the language does, so that a local `sqrtf` hides the function. Names of macros
//! are known to be that and mean nothing else: nothing is expanded. What a file declares twice (in two namespaces, on two sides
//! of an `#if`) means nothing that is known.

use std::collections::{HashMap, HashSet};

use tree_sitter::Node;

use super::macros::Macros;
use super::scene::Scene;
use crate::syntax::{base_name, declared, walk};

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

/// A variable in its scope.
struct Scoped<'a> {
    variable: Declared<'a>,
    /// Where its declaration begins.
    start: usize,
    /// Up to where it is known to be there: where the lines of the preprocessor around it end.
    sure_until: usize,
}

/// Nodes with variables of their own.
const SCOPES: &[&str] = &[
    "compound_statement",
    "case_statement",
    "for_statement",
    "condition_clause",
    "init_statement",
    "for_range_loop",
    "if_statement",
];

type Scope<'a> = HashMap<&'a str, Vec<Scoped<'a>>>;

/// The names of a file.
pub struct Names<'a> {
    scene: Scene<'a>,
    macros: Macros<'a>,
    functions: HashMap<&'a str, Vec<Node<'a>>>,
    structs: HashMap<&'a str, Node<'a>>,
    aliases: HashMap<&'a str, Node<'a>>,
    file: HashMap<&'a str, Declared<'a>>,
    /// Variables, structures and second names of types that are there more than once.
    ambiguous: HashSet<&'a str>,
    /// Fields and second names of types that are declared as volatile.
    volatile: HashSet<&'a str>,
    any_volatile: bool,
    /// Functions that are declared without a body, or instantiated.
    prototypes: HashSet<&'a str>,
    /// What is declared in the scopes inside functions, by the scope's node.
    scopes: HashMap<usize, Scope<'a>>,
    all: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    /// Reads a file's names.
    pub fn new(scene: &Scene<'a>) -> Self {
        let mut names = Self {
            scene: *scene,
            macros: Macros::default(),
            functions: HashMap::new(),
            structs: HashMap::new(),
            aliases: HashMap::new(),
            file: HashMap::new(),
            ambiguous: HashSet::new(),
            volatile: HashSet::new(),
            prototypes: HashSet::new(),
            scopes: HashMap::new(),
            any_volatile: scene.unit.text().contains("volatile"),
            all: HashSet::new(),
        };
        walk(scene.unit.tree().root_node(), &mut |node| names.take(node));
        names
    }

    fn take(&mut self, node: Node<'a>) -> bool {
        let scene = self.scene;
        if matches!(node.kind(), "declaration" | "template_instantiation") {
            walk(node, &mut |inner| {
                let function = (inner.kind() == "function_declarator")
                    .then(|| inner.child_by_field_name("declarator"))
                    .flatten();
                let name = function.map(|name| base_name(scene.of(name)));
                self.prototypes.extend(name);
                inner.kind() != "compound_statement"
            });
        }
        let named = |field| node.child_by_field_name(field).map(|name| scene.of(name));
        if SCOPES.contains(&node.kind()) {
            let mut scope = Scope::new();
            fill(scene, node, usize::MAX, &mut scope);
            if !scope.is_empty() {
                self.scopes.insert(node.id(), scope);
            }
        }
        match node.kind() {
            "preproc_def" | "preproc_function_def" => {
                if let Some(name) = named("name") {
                    let parameters = node.child_by_field_name("parameters");
                    self.macros.define(
                        name,
                        parameters.map(|list| scene.of(list)),
                        named("value").unwrap_or_default().trim(),
                    );
                }
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
                    let twice = self.structs.insert(name, node).is_some();
                    self.ambiguous.extend(twice.then_some(name));
                }
            }
            "type_definition" | "alias_declaration" => {
                let name = match node.kind() {
                    "type_definition" => node.child_by_field_name("declarator").and_then(declared),
                    _ => node.child_by_field_name("name"),
                };
                if let Some(name) = name.map(|name| scene.of(name)) {
                    let other = self.aliases.insert(name, node);
                    let same = other.is_none_or(|other| scene.of(other) == scene.of(node));
                    self.ambiguous.extend((!same).then_some(name));
                    let volatile = scene.of(node).contains("volatile");
                    self.volatile.extend(volatile.then_some(name));
                }
            }
            "field_declaration" if scene.of(node).contains("volatile") => {
                let fields = declarations(node).into_iter();
                self.volatile
                    .extend(fields.map(|field| scene.of(field.name)));
            }
            "declaration" if file_scope(node) => {
                for variable in declarations(node) {
                    let name = scene.of(variable.name);
                    let twice = self.file.insert(name, variable).is_some();
                    self.ambiguous.extend(twice.then_some(name));
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
        if self.macros.has(name) {
            return Binding::Macro;
        }
        // What a structure that is not in sight may have hides what the file has.
        let mut hidden = false;
        let mut below = identifier;
        while let Some(node) = below.parent() {
            if let Some(found) = self.in_scope(node, name, identifier) {
                return found;
            }
            hidden |= may_inherit(node);
            below = node;
        }
        if let Some(variable) = self.file.get(name) {
            return match hidden || self.ambiguous.contains(name) {
                true => Binding::Unknown,
                false => Binding::File(*variable),
            };
        }
        match self.functions.contains_key(name) {
            true => Binding::Function,
            false => Binding::Unknown,
        }
    }

    fn in_scope(&self, node: Node<'a>, name: &str, at: Node<'a>) -> Option<Binding<'a>> {
        let matches = |variable: &Declared<'a>| self.scene.of(variable.name) == name;
        match node.kind() {
            kind if SCOPES.contains(&kind) => {
                let mut found = None;
                for one in self.scoped(node, name) {
                    if one.start >= at.end_byte() {
                        continue;
                    }
                    // On which side of an `#if` is not known.
                    if found.is_some() || one.sure_until <= at.start_byte() {
                        return Some(Binding::Unknown);
                    }
                    found = Some(one.variable);
                }
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
            "field_declaration_list" => {
                let mut cursor = node.walk();
                node.named_children(&mut cursor)
                    .filter(|child| child.kind() == "field_declaration")
                    .any(|field| declarations(field).iter().any(matches))
                    .then_some(Binding::Unknown)
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

    fn scoped(&self, scope: Node<'a>, name: &str) -> &[Scoped<'a>] {
        let scope = self.scopes.get(&scope.id());
        scope
            .and_then(|scope| scope.get(name))
            .map_or(&[], Vec::as_slice)
    }

    /// Whether a name is one of the language or of its headers: nothing in the file stands for it.
    pub fn is_builtin(&self, identifier: Node<'a>) -> bool {
        self.resolve(identifier) == Binding::Unknown
    }

    /// What the file's macros are.
    pub fn macros(&self) -> &Macros<'a> {
        &self.macros
    }

    /// Whether a function is declared without its body, or instantiated, anywhere in the file.
    pub fn is_declared_elsewhere(&self, name: &str) -> bool {
        self.prototypes.contains(name)
    }

    /// Whether the file has the word `volatile` at all.
    pub fn has_volatile(&self) -> bool {
        self.any_volatile
    }

    /// Whether a field, or the second name of a type, is declared as volatile anywhere in the file.
    pub fn is_volatile(&self, name: &str) -> bool {
        self.volatile.contains(name)
    }

    /// Whether the file has several types of a name.
    pub fn is_ambiguous(&self, name: &str) -> bool {
        self.ambiguous.contains(name)
    }

    /// The functions of a name.
    pub fn functions(&self, name: &str) -> &[Node<'a>] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    /// A structure of a name.
    pub fn structure(&self, name: &str) -> Option<Node<'a>> {
        let known = !self.ambiguous.contains(name);
        self.structs.get(name).copied().filter(|_| known)
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
        self.macros.has(name)
    }

    /// A name like this one that the file does not have.
    pub fn fresh(&self, like: &str) -> String {
        let taken = |name: &str| self.all.contains(name) || self.macros.has(name);
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

/// Whether a node is inside something that may have names of its own that the file does not show: a structure with a base, the
/// member function of one that is elsewhere.
fn may_inherit(node: Node<'_>) -> bool {
    match node.kind() {
        "struct_specifier" | "class_specifier" => {
            let mut cursor = node.walk();
            node.children(&mut cursor)
                .any(|child| child.kind() == "base_class_clause")
        }
        "function_definition" => {
            let mut declarator = node.child_by_field_name("declarator");
            while let Some(inner) = declarator {
                if inner.kind() == "qualified_identifier" {
                    return true;
                }
                declarator = inner.child_by_field_name("declarator");
            }
            false
        }
        _ => false,
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

/// Collects the declarations among a scope's children, also those between lines of the preprocessor.
fn fill<'a>(scene: Scene<'a>, node: Node<'a>, sure_until: usize, scope: &mut Scope<'a>) {
    let mut found = Vec::new();
    if node.kind() == "for_range_loop" {
        found.push(node);
    }
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor) {
        match child.kind() {
            "declaration" => found.push(child),
            "init_statement" => fill(scene, child, sure_until, scope),
            kind if kind.starts_with("preproc_") => {
                fill(scene, child, sure_until.min(child.end_byte()), scope)
            }
            _ => {}
        }
    }
    for declaration in found {
        for variable in declarations(declaration) {
            scope
                .entry(scene.of(variable.name))
                .or_default()
                .push(Scoped {
                    variable,
                    start: declaration.start_byte(),
                    sure_until,
                });
        }
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
