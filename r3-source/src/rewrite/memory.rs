//! Which memory an expression leads to, and whether two of them may lead to the same.

use tree_sitter::Node;

use super::facts::Known;
use super::meaning::{Meaning, bare};
use super::names::{Binding, Declared};
use super::types::Type;
use crate::syntax::walk;

/// Where memory comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Base<'a> {
    /// A variable in a function: an array, a structure; in shared memory or of a thread.
    Variable(Node<'a>),
    /// What the kernel's pointer parameter of this number leads to.
    Parameter(usize),
    /// A variable of the file.
    File(Node<'a>),
    /// What a helper's parameter leads or refers to: whatever it was called with.
    Handed,
    /// Not known.
    Unknown,
}

const FURTHEST: u32 = 8;

impl<'a> Meaning<'a> {
    /// Where the memory of an access comes from: of `p[i]`, `*p`, `p->x`, `a[i][j].x`.
    pub fn base(&self, access: Node<'a>) -> Base<'a> {
        let access = bare(access);
        match access.kind() {
            "subscript_expression" => access
                .child_by_field_name("argument")
                .map_or(Base::Unknown, |argument| self.pointed(argument, FURTHEST)),
            "field_expression" => match access.child_by_field_name("argument") {
                Some(argument)
                    if self.of(access).contains("->")
                        && matches!(self.type_of(argument), Type::Pointer(_)) =>
                {
                    self.pointed(argument, FURTHEST)
                }
                Some(argument) => self.base(argument),
                None => Base::Unknown,
            },
            "pointer_expression" if self.of(access).starts_with('*') => access
                .child_by_field_name("argument")
                .map_or(Base::Unknown, |argument| self.pointed(argument, FURTHEST)),
            "identifier" if self.is_volatile(access) => Base::Unknown,
            "identifier" => match self.names.resolve(access) {
                Binding::Local(variable) | Binding::Parameter(variable, ..)
                    if !self.is_reference(variable.declarator) =>
                {
                    Base::Variable(variable.name)
                }
                Binding::Parameter(..) => Base::Handed,
                Binding::File(variable) => Base::File(variable.name),
                _ => Base::Unknown,
            },
            _ => Base::Unknown,
        }
    }

    /// Where the memory comes from that a pointer leads to.
    fn pointed(&self, pointer: Node<'a>, left: u32) -> Base<'a> {
        let Some(left) = left.checked_sub(1) else {
            return Base::Unknown;
        };
        let pointer = bare(pointer);
        match pointer.kind() {
            "identifier" if self.is_volatile(pointer) => Base::Unknown,
            "identifier" => match self.names.resolve(pointer) {
                Binding::Local(variable) => match self.type_of_variable(&variable) {
                    Type::Array(_) if !self.is_reference(variable.declarator) => {
                        Base::Variable(variable.name)
                    }
                    Type::Pointer(_) => self.followed(pointer, &variable, left),
                    _ => Base::Unknown,
                },
                Binding::Parameter(variable, function, index)
                    if function.byte_range() == self.scene.kernel.definition
                        && matches!(self.type_of_variable(&variable), Type::Pointer(_)) =>
                {
                    let body = function.child_by_field_name("body");
                    match body
                        .is_some_and(|body| !self.may_change_other_than_by_steps(pointer, body))
                    {
                        true => Base::Parameter(index),
                        false => Base::Unknown,
                    }
                }
                Binding::Parameter(_, function, _) => {
                    let body = function.child_by_field_name("body");
                    match body
                        .is_some_and(|body| !self.may_change_other_than_by_steps(pointer, body))
                    {
                        true => Base::Handed,
                        false => Base::Unknown,
                    }
                }
                Binding::File(variable) => match self.type_of_variable(&variable) {
                    Type::Array(_) => Base::File(variable.name),
                    _ => Base::Unknown,
                },
                _ => Base::Unknown,
            },
            "binary_expression" => {
                let Some((a, b)) = self
                    .binary(pointer, "+")
                    .or_else(|| self.binary(pointer, "-"))
                else {
                    return Base::Unknown;
                };
                match (self.type_of(a), self.type_of(b)) {
                    (Type::Pointer(_) | Type::Array(_), other) if other.is_integer() => {
                        self.pointed(a, left)
                    }
                    (other, Type::Pointer(_) | Type::Array(_)) if other.is_integer() => {
                        self.pointed(b, left)
                    }
                    _ => Base::Unknown,
                }
            }
            "pointer_expression" if self.of(pointer).starts_with('&') => pointer
                .child_by_field_name("argument")
                .map_or(Base::Unknown, |argument| self.base(argument)),
            // An element of an array that is an array, or a pointer, which comes from anywhere.
            "subscript_expression" | "field_expression" => match self.type_of(pointer) {
                Type::Array(_) => self.base(pointer),
                _ => Base::Unknown,
            },
            "cast_expression" => pointer
                .child_by_field_name("value")
                .map_or(Base::Unknown, |value| self.pointed(value, left)),
            "call_expression" => {
                let function = pointer.child_by_field_name("function");
                let cast = function.is_some_and(|function| function.kind() == "template_function");
                let argument = pointer
                    .child_by_field_name("arguments")
                    .and_then(|arguments| arguments.named_child(0));
                match (cast && self.is_pure(pointer), argument) {
                    (true, Some(argument)) => self.pointed(argument, left),
                    _ => Base::Unknown,
                }
            }
            _ => Base::Unknown,
        }
    }

    /// Whether what a name stands for is declared as volatile.
    fn is_volatile(&self, identifier: Node<'a>) -> bool {
        match self.names.resolve(identifier) {
            Binding::Local(variable)
            | Binding::Parameter(variable, ..)
            | Binding::File(variable) => self.of(variable.declaration).contains("volatile"),
            _ => false,
        }
    }

    /// A pointer in a function: what it begins as, if it is only moved afterwards.
    fn followed(&self, used: Node<'a>, variable: &Declared<'a>, left: u32) -> Base<'a> {
        let Some(body) = self
            .function(used)
            .and_then(|function| function.child_by_field_name("body"))
        else {
            return Base::Unknown;
        };
        match variable.value() {
            Some(value) if !self.may_change_other_than_by_steps(used, body) => {
                self.pointed(value, left)
            }
            _ => Base::Unknown,
        }
    }

    /// Whether a pointer may come to lead to something else: it is assigned, or its address is taken. Moving it by an offset
    /// leaves it in the same memory.
    fn may_change_other_than_by_steps(&self, pointer: Node<'a>, body: Node<'a>) -> bool {
        self.uses(pointer, body).into_iter().any(|used| {
            self.is_written(used)
                && !used.parent().is_some_and(|parent| match parent.kind() {
                    "update_expression" => true,
                    "assignment_expression" => matches!(self.operator(parent), "+=" | "-="),
                    _ => false,
                })
        })
    }

    /// Whether two accesses may be of the same memory.
    pub fn may_meet(&self, a: Base<'a>, b: Base<'a>) -> bool {
        match (a, b) {
            (Base::Unknown | Base::Handed, _) | (_, Base::Unknown | Base::Handed) => true,
            (Base::Variable(a), Base::Variable(b)) | (Base::File(a), Base::File(b)) => {
                self.of(a) == self.of(b)
            }
            (Base::Variable(_), _) | (_, Base::Variable(_)) => false,
            (Base::Parameter(a), Base::Parameter(b)) => a == b || !self.apart(a, b),
            (Base::Parameter(parameter), Base::File(_))
            | (Base::File(_), Base::Parameter(parameter)) => {
                !self.is_restrict(parameter) && self.allocation(parameter).is_none()
            }
        }
    }

    /// Whether two of the kernel's pointers never lead to the same memory: the capture says so, or the source does.
    pub fn apart(&self, a: usize, b: usize) -> bool {
        let allocations = match (self.allocation(a), self.allocation(b)) {
            (Some(a), Some(b)) => a != b,
            _ => false,
        };
        allocations || self.is_restrict(a) || self.is_restrict(b)
    }

    fn allocation(&self, parameter: usize) -> Option<u32> {
        match self.scene.facts.parameter(parameter) {
            Known::Pointer { allocation, .. } if allocation != 0 => Some(allocation),
            _ => None,
        }
    }

    fn is_restrict(&self, parameter: usize) -> bool {
        self.scene
            .kernel
            .parameters
            .get(parameter)
            .is_some_and(|parameter| parameter.ty.contains("restrict"))
    }

    /// Where memory may be written within a part of the tree: by assignments, and by calls that get a pointer.
    pub fn writes(&self, part: Node<'a>) -> Vec<Base<'a>> {
        let mut found: Vec<Base<'a>> = self
            .written(part)
            .into_iter()
            .filter(|target| target.kind() != "identifier" || self.reads_memory(*target))
            .map(|target| self.base(target))
            .collect();
        walk(part, &mut |node| {
            if node.kind() == "call_expression" && !self.is_pure(node) {
                found.extend(self.call_writes(node));
            }
            if matches!(
                node.kind(),
                "gnu_asm_expression" | "lambda_expression" | "delete_expression"
            ) {
                found.push(Base::Unknown);
            }
            true
        });
        found
    }

    /// Where a call may write: through pointers and references that it gets.
    pub fn call_writes(&self, call: Node<'a>) -> Vec<Base<'a>> {
        let mut found = Vec::new();
        let (Some(function), Some(arguments)) = (
            call.child_by_field_name("function"),
            call.child_by_field_name("arguments"),
        ) else {
            return vec![Base::Unknown];
        };
        if function.kind() == "template_function" && self.is_cast(function)
            || function.kind() == "primitive_type"
        {
            return found;
        }
        let builtin = self.builtin_call(call).map(|(name, _)| name);
        if builtin.is_some_and(super::tables::is_pure) || builtin.is_some_and(is_barrier_or_shuffle)
        {
            return found;
        }
        // A function of the file could write a variable of the file; it is looked into by those who ask for all functions.
        let mut cursor = arguments.walk();
        for argument in arguments.named_children(&mut cursor) {
            match self.type_of(argument) {
                Type::Pointer(_) | Type::Array(_) if self.reads_only(argument, FURTHEST) => {}
                Type::Pointer(_) | Type::Array(_) => found.push(self.pointed(argument, FURTHEST)),
                Type::Unknown => found.push(Base::Unknown),
                _ if self.is_written(argument) => found.push(self.base(argument)),
                _ => {}
            }
        }
        match builtin {
            Some(name) if !name.starts_with("atomic") => found.push(Base::Unknown),
            None if function.kind() != "identifier" && function.kind() != "template_function" => {
                found.push(Base::Unknown)
            }
            _ => {}
        }
        found
    }

    fn is_cast(&self, function: Node<'a>) -> bool {
        function
            .child_by_field_name("name")
            .is_some_and(|name| super::tables::CASTS.contains(&self.of(name)))
    }

    /// Everything that may be written by the kernel, itself and in the functions that it reaches.
    pub fn kernel_writes(&self) -> Vec<Base<'a>> {
        self.in_kernel_and_reached(|body| self.writes(body))
    }

    /// Where the memory comes from that the kernel reads or writes, itself or in the functions that it reaches.
    pub fn kernel_accesses(&self) -> Vec<Base<'a>> {
        let mut found = self.kernel_writes();
        found.extend(self.in_kernel_and_reached(|body| {
            let accesses = self.accesses(body).into_iter();
            accesses.map(|access| access.base).collect()
        }));
        found
    }

    fn in_kernel_and_reached(&self, bases: impl Fn(Node<'a>) -> Vec<Base<'a>>) -> Vec<Base<'a>> {
        let mut found = Vec::new();
        let reached = self.scene.unit.reached(self.scene.kernel);
        for node in self.scene.unit.definitions() {
            let Some(body) = node.child_by_field_name("body") else {
                continue;
            };
            if node.byte_range() == self.scene.kernel.definition {
                found.extend(bases(body));
            } else if reached
                .iter()
                .any(|function| function.definition == node.byte_range())
            {
                // Parameters of a helper are what the call hands over, which the kernel's own calls have counted.
                found.extend(
                    bases(body)
                        .into_iter()
                        .filter(|base| matches!(base, Base::File(_) | Base::Unknown)),
                );
            }
        }
        found
    }

    /// Whether the kernel only reads through its pointer of a number: every use leads to a load, or to something that is
    /// constant by its type.
    pub fn only_reads(&self, parameter: usize) -> bool {
        let Some((identifier, body)) = self.parameter_uses(parameter) else {
            return false;
        };
        self.uses(identifier, body)
            .into_iter()
            .all(|used| self.reads_only(used, FURTHEST))
    }

    fn parameter_uses(&self, parameter: usize) -> Option<(Node<'a>, Node<'a>)> {
        let kernel = self.kernel_node()?;
        let list = super::names::parameter_list(kernel)?;
        let mut cursor = list.walk();
        let declaration = list
            .named_children(&mut cursor)
            .filter(|child| child.kind().ends_with("parameter_declaration"))
            .nth(parameter)?;
        let name = crate::syntax::declared(declaration.child_by_field_name("declarator")?)?;
        Some((name, kernel.child_by_field_name("body")?))
    }

    /// The kernel's definition.
    pub fn kernel_node(&self) -> Option<Node<'a>> {
        self.scene
            .unit
            .definitions()
            .into_iter()
            .find(|node| node.byte_range() == self.scene.kernel.definition)
    }

    /// Whether nothing is written through a pointer at a place where it is used.
    fn reads_only(&self, pointer: Node<'a>, left: u32) -> bool {
        let (Some(left), Some(parent)) = (left.checked_sub(1), pointer.parent()) else {
            return false;
        };
        let is = |field| parent.child_by_field_name(field) == Some(pointer);
        match parent.kind() {
            "parenthesized_expression" => self.reads_only(parent, left),
            "subscript_expression" if is("argument") => self.element_read(parent, left),
            "field_expression" => self.element_read(parent, left),
            "pointer_expression" if self.of(parent).starts_with('*') => {
                self.element_read(parent, left)
            }
            "binary_expression" => match self.operator(parent) {
                "+" | "-" => self.reads_only(parent, left),
                "==" | "!=" | "<" | ">" | "<=" | ">=" | "&&" | "||" => true,
                _ => false,
            },
            "unary_expression" | "condition_clause" => true,
            "conditional_expression" => is("condition") || self.reads_only(parent, left),
            "update_expression" => matches!(
                parent.parent().map(|parent| parent.kind()),
                Some("expression_statement" | "for_statement" | "comma_expression")
            ),
            "assignment_expression" if is("left") => {
                matches!(self.operator(parent), "+=" | "-=")
                    && parent
                        .parent()
                        .is_some_and(|parent| parent.kind() != "argument_list")
            }
            "cast_expression" => self.of(parent).contains("const") && self.reads_only(parent, left),
            "init_declarator" => {
                let Some(name) = parent
                    .child_by_field_name("declarator")
                    .and_then(crate::syntax::declared)
                else {
                    return false;
                };
                let constant = parent.parent().is_some_and(|declaration| {
                    self.of(declaration).trim_start().starts_with("const ")
                });
                let within = self
                    .function(parent)
                    .and_then(|function| function.child_by_field_name("body"));
                constant
                    || within.is_some_and(|body| {
                        self.uses(name, body)
                            .into_iter()
                            .filter(|used| *used != name)
                            .all(|used| self.reads_only(used, left))
                    })
            }
            "argument_list" => {
                let Some(call) = parent
                    .parent()
                    .filter(|call| call.kind() == "call_expression")
                else {
                    return false;
                };
                let Some(function) = call.child_by_field_name("function") else {
                    return false;
                };
                if function.kind() == "template_function" && self.is_cast(function) {
                    return self.of(function).contains("const ") && self.reads_only(call, left);
                }
                if self
                    .builtin_call(call)
                    .is_some_and(|(name, _)| super::tables::is_pure(name))
                {
                    return true;
                }
                let plain = match function.kind() {
                    "template_function" => function.child_by_field_name("name"),
                    _ => Some(function),
                };
                let mut cursor = parent.walk();
                let index = parent
                    .named_children(&mut cursor)
                    .position(|child| child == pointer);
                let (Some(plain), Some(index)) =
                    (plain.filter(|plain| plain.kind() == "identifier"), index)
                else {
                    return false;
                };
                self.names.resolve(plain) == Binding::Function
                    && self.names.functions(self.of(plain)).iter().all(|function| {
                        self.scene
                            .unit
                            .function(*function)
                            .and_then(|function| function.parameters.get(index).cloned())
                            .is_some_and(|parameter| {
                                parameter.ty.starts_with("const ")
                                    || parameter.ty.contains(" const *")
                            })
                    })
            }
            _ => false,
        }
    }

    /// Whether an element is only read where it stands; its address may go where it is only read.
    fn element_read(&self, element: Node<'a>, left: u32) -> bool {
        let mut node = element;
        while let Some(parent) = node.parent() {
            match parent.kind() {
                "parenthesized_expression" => {}
                "field_expression"
                    if matches!(self.type_of(node), Type::Pointer(_) | Type::Unknown) =>
                {
                    return true;
                }
                "field_expression" => {}
                // An array in a structure: its elements.
                "subscript_expression" if parent.child_by_field_name("argument") == Some(node) => {}
                "pointer_expression" if self.of(parent).starts_with('&') => {
                    return self.reads_only(parent, left);
                }
                _ => return !self.is_written(node),
            }
            node = parent;
        }
        false
    }
}

/// Functions of the language that write no memory of their own.
fn is_barrier_or_shuffle(name: &str) -> bool {
    name.starts_with("__sync")
        || name.starts_with("__shfl")
        || name.starts_with("__ballot")
        || name.starts_with("__any")
        || name.starts_with("__all")
        || name.starts_with("__threadfence")
        || name.starts_with("__match")
        || name.starts_with("__reduce")
        || name == "__activemask"
        || name == "printf"
}
