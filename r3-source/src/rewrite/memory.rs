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

pub(super) const FURTHEST: u32 = 8;

impl<'a> Meaning<'a> {
    /// Where the memory of an access comes from: of `p[i]`, `*p`, `p->x`, `a[i][j].x`.
    pub fn base(&self, access: Node<'a>) -> Base<'a> {
        let access = bare(access);
        if access.kind() != "identifier" && self.has_volatile_part(access) {
            return Base::Unknown;
        }
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
            "identifier" if self.names_volatile(access) => Base::Unknown,
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
            "identifier" if self.names_volatile(pointer) => Base::Unknown,
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
        if self.names.macros().may_write(self.of(pointer)) && self.has_macros(body) {
            return true;
        }
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
            .filter(|target| {
                target.kind() != "identifier"
                    || self.reads_memory(*target)
                    || self.has_pointers(&self.type_of(*target), FURTHEST)
            })
            // Of a structure it is a function, which may write anything that it leads to.
            .map(
                |target| match self.has_pointers(&self.type_of(target), FURTHEST) {
                    true => Base::Unknown,
                    false => self.base(target),
                },
            )
            .collect();
        walk(part, &mut |node| {
            if node.kind() == "call_expression" && !self.is_pure(node) {
                found.extend(self.call_writes(node));
            }
            if matches!(
                node.kind(),
                "gnu_asm_expression" | "lambda_expression" | "delete_expression"
            ) || node.kind() == "identifier" && self.is_opaque(node)
            {
                found.push(Base::Unknown);
            }
            true
        });
        found
    }

    /// Whether a type is a structure of the file with a pointer or a reference in it.
    fn has_pointers(&self, ty: &Type, left: u32) -> bool {
        let (Type::Named(name), Some(left)) = (ty, left.checked_sub(1)) else {
            return false;
        };
        let Some(structure) = self.names.structure(name) else {
            return false;
        };
        self.fields(structure).iter().any(|field| {
            let mut ty = self.type_of_variable(field);
            while let Type::Array(inner) = ty {
                ty = *inner;
            }
            matches!(ty, Type::Pointer(_))
                || self.is_reference(field.declarator)
                || self.has_pointers(&ty, left)
        })
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
            // A function of the file is looked into; a macro, an object that is called, or a function of elsewhere may write
            // anything.
            None => {
                let plain = match function.kind() {
                    "template_function" => function.child_by_field_name("name"),
                    _ => Some(function),
                };
                let known = plain.is_some_and(|plain| {
                    plain.kind() == "identifier" && self.names.resolve(plain) == Binding::Function
                });
                found.extend((!known).then_some(Base::Unknown));
            }
            _ => {}
        }
        found
    }

    pub(super) fn is_cast(&self, function: Node<'a>) -> bool {
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
        for node in self.scene.unit.definitions() {
            let Some(body) = node.child_by_field_name("body") else {
                continue;
            };
            if node.byte_range() == self.scene.kernel.definition {
                found.extend(bases(body));
            } else if self.is_reached(node) {
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

    /// The kernel's definition.
    pub fn kernel_node(&self) -> Option<Node<'a>> {
        self.scene
            .unit
            .definitions()
            .into_iter()
            .find(|node| node.byte_range() == self.scene.kernel.definition)
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
