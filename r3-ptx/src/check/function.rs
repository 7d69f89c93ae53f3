//! Functions: signature, scopes, labels, registers and variables of the body.

use std::collections::HashMap;

use super::names::{Entity, add_registers};
use super::{CheckError, Checker, variables};
use crate::isa::Space;
use crate::source::Pos;
use crate::tree::{self, FunctionDirective, Name, Statement};
use crate::typed::{self, FnId, LocalId, Prototype};

/// The most names of a set of variables (`.local .b8 x<n>`); registers have no limit.
const MOST_VARIABLES_OF_A_SET: u32 = 4096;

/// A function without its body.
pub(super) fn signature(
    checker: &mut Checker<'_>,
    function: &tree::Function,
) -> Option<typed::Function> {
    let params = list(checker, &function.params)?;
    let results = list(checker, &function.results)?;
    let mut param_offsets = Vec::with_capacity(params.len());
    let mut end = 0u64;
    for param in &params {
        let offset = end.next_multiple_of(param.align.max(1));
        param_offsets.push(u32::try_from(offset).ok());
        end = offset.saturating_add(param.size);
    }
    let offsets: Option<Vec<u32>> = param_offsets.into_iter().collect();
    let (Some(param_offsets), Ok(param_bytes)) = (offsets, u32::try_from(end)) else {
        let name = checker.text(function.name).into();
        let why = "its parameters have more than 4 GiB".into();
        checker.error(function.pos, CheckError::Variable { name, why });
        return None;
    };
    Some(typed::Function {
        pos: function.pos,
        name: checker.text(function.name).into(),
        linkage: function.linkage,
        entry: function.entry,
        params,
        param_offsets,
        param_bytes,
        results,
        directives: function.directives.clone(),
        body: None,
    })
}

fn list(checker: &mut Checker<'_>, list: &[tree::Variable]) -> Option<Vec<typed::Variable>> {
    let mut out = Vec::with_capacity(list.len());
    for variable in list {
        let made = variables::variable(checker.tree, variable);
        out.push(checker.told(variable.pos, made)?);
    }
    Some(out)
}

/// What a label names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// An instruction.
    Instruction(u32),
    /// A `.branchtargets` list.
    BranchTable(u32),
    /// A `.calltargets` list.
    CallTable(u32),
    /// A `.callprototype`.
    Prototype(u32),
}

/// Labels of a function. They are seen in their block and in the blocks in it, before and after their
/// place.
#[derive(Default)]
struct Labels {
    targets: HashMap<(u32, Name), (Target, Pos)>,
    /// The scope around each scope.
    parents: Vec<u32>,
}

impl Labels {
    fn find(&self, mut scope: u32, name: Name) -> Option<Target> {
        loop {
            if let Some(&(target, _)) = self.targets.get(&(scope, name)) {
                return Some(target);
            }
            let parent = self.parents.get(scope as usize).copied()?;
            if parent == scope {
                return None;
            }
            scope = parent;
        }
    }
}

/// A body that is being checked.
pub(super) struct BodyChecker<'c, 't> {
    pub(super) checker: &'c mut Checker<'t>,
    pub(super) body: &'t tree::Body,
    pub(super) out: typed::Body,
    labels: Labels,
    /// The open scopes, by number.
    open: Vec<u32>,
    next_scope: u32,
}

/// Checks a body and stores it.
pub(super) fn check<'t>(checker: &mut Checker<'t>, id: FnId, function: &'t tree::Function) {
    let Some(body) = &function.body else { return };
    checker.names.open();
    let mut this = BodyChecker {
        checker,
        body,
        out: typed::Body::default(),
        labels: Labels::default(),
        open: vec![0],
        next_scope: 1,
    };
    this.collect_labels();
    this.parameters(function);
    for statement in &body.statements {
        if this.checker.stopped() {
            break;
        }
        this.statement(statement);
    }
    // The parser closes what is open at the end; a tree made by hand may not.
    while this.open.pop().is_some_and(|scope| scope != 0) {
        this.checker.names.close();
    }
    let out = this.out;
    checker.names.close();
    if let Some(function) = checker.out.functions.get_mut(id.0 as usize) {
        function.body = Some(out);
    }
}

impl<'t> BodyChecker<'_, 't> {
    fn collect_labels(&mut self) {
        let (mut instructions, mut branches, mut calls, mut prototypes) = (0u32, 0u32, 0u32, 0u32);
        let mut scopes = vec![0u32];
        self.labels.parents.push(0);
        let mut statements = self.body.statements.iter().peekable();
        while let Some(statement) = statements.next() {
            let scope = scopes.last().copied().unwrap_or(0);
            match statement {
                Statement::Instruction(_) => instructions += 1,
                Statement::BlockBegin(_) => {
                    scopes.push(self.labels.parents.len() as u32);
                    self.labels.parents.push(scope);
                }
                Statement::BlockEnd(_) if scopes.len() > 1 => {
                    scopes.pop();
                }
                Statement::Label(pos, name) => {
                    let target = match statements.peek() {
                        Some(Statement::BranchTargets(..)) => Target::BranchTable(branches),
                        Some(Statement::CallTargets(..)) => Target::CallTable(calls),
                        Some(Statement::CallPrototype(..)) => Target::Prototype(prototypes),
                        _ => {
                            let text = self.checker.text(*name);
                            self.out.labels.push((text.into(), instructions));
                            Target::Instruction(instructions)
                        }
                    };
                    let before = self.labels.targets.insert((scope, *name), (target, *pos));
                    if let Some((_, first)) = before {
                        let text = self.checker.text(*name);
                        self.checker.error(*pos, CheckError::duplicate(text, first));
                    }
                }
                Statement::BranchTargets(..) => branches += 1,
                Statement::CallTargets(..) => calls += 1,
                Statement::CallPrototype(..) => prototypes += 1,
                _ => {}
            }
        }
    }

    fn parameters(&mut self, function: &'t tree::Function) {
        let registers = |this: &mut Self, list: &'t [tree::Variable], results: bool| {
            for (i, variable) in list.iter().enumerate() {
                if variable.space == Space::Reg {
                    let first = this.register(variable);
                    let ids = if results {
                        &mut this.out.result_registers
                    } else {
                        &mut this.out.param_registers
                    };
                    ids.push(first);
                    continue;
                }
                let entity = match results {
                    true => Entity::Result(i as u32),
                    false => Entity::Param(i as u32),
                };
                this.checker.bind(variable.name, entity, variable.pos);
            }
        };
        registers(self, &function.results, true);
        registers(self, &function.params, false);
    }

    fn register(&mut self, variable: &tree::Variable) -> typed::RegId {
        let (ty, vector) = (variable.ty, variable.vector.max(1));
        let text = self.checker.text(variable.name);
        let first = add_registers(&mut self.out.registers, text, ty, vector);
        let entity = Entity::Register { first, vector, ty };
        self.checker.bind(variable.name, entity, variable.pos);
        first
    }

    fn statement(&mut self, statement: &'t Statement) {
        match statement {
            Statement::Instruction(instruction) => {
                if let Err(error) = self.instruction(instruction) {
                    self.checker.error(instruction.pos, error);
                }
            }
            Statement::Variable(variable) => self.variable(variable),
            Statement::BlockBegin(_) => {
                self.open.push(self.next_scope);
                self.next_scope += 1;
                self.checker.names.open();
            }
            Statement::BlockEnd(pos) => {
                if self.open.len() > 1 {
                    self.open.pop();
                    self.checker.names.close();
                } else {
                    self.checker
                        .error(*pos, CheckError::Unbalanced { brace: '}' });
                }
            }
            Statement::Pragma(_, texts) => {
                let at = self.out.instructions.len() as u32;
                let pragmas = texts.iter().map(|text| (at, text.clone()));
                self.out.pragmas.extend(pragmas);
            }
            Statement::BranchTargets(pos, names) => {
                let targets = names.iter().map(|name| self.label(*name)).collect();
                let targets = self.checker.told(*pos, targets);
                self.out.branch_tables.push(targets.unwrap_or_default());
            }
            Statement::CallTargets(pos, names) => {
                let targets = names.iter().map(|name| self.function(*name)).collect();
                let targets = self.checker.told(*pos, targets);
                self.out.call_tables.push(targets.unwrap_or_default());
            }
            Statement::CallPrototype(_, function) => self.prototype(function),
            Statement::Label(..) | Statement::Loc(..) | Statement::Verbatim(..) => {}
        }
    }

    fn variable(&mut self, variable: &'t tree::Variable) {
        if variable.space == Space::Reg {
            if !variable.dims.is_empty() {
                let made = variables::variable(self.checker.tree, variable);
                self.checker.told(variable.pos, made);
                return;
            }
            match variable.count {
                Some(count) => {
                    let vector = variable.vector.max(1);
                    self.checker
                        .names
                        .bind_set(variable.name, count, variable.ty, vector);
                }
                None => _ = self.register(variable),
            }
            return;
        }
        let made = variables::variable(self.checker.tree, variable);
        let Some(mut made) = self.checker.told(variable.pos, made) else {
            return;
        };
        let names = &self.checker.names;
        let initialised = variables::initialise(self.checker.tree, names, variable, &mut made);
        self.checker.told(variable.pos, initialised);
        if let Some(count) = variable.count {
            self.variable_set(variable, &made, count);
            return;
        }
        let id = LocalId(self.out.locals.len() as u32);
        self.out.locals.push(made);
        self.checker
            .bind(variable.name, Entity::Local(id), variable.pos);
    }

    /// `.local .b32 x<3>`: each has a place of its own. The names that the text uses are bound.
    fn variable_set(&mut self, variable: &tree::Variable, made: &typed::Variable, count: u32) {
        let prefix = self.checker.text(variable.name);
        if count > MOST_VARIABLES_OF_A_SET {
            let why =
                format!("a set of more than {MOST_VARIABLES_OF_A_SET} variables; use an array");
            let error = CheckError::Variable {
                name: prefix.into(),
                why: why.into(),
            };
            self.checker.error(variable.pos, error);
            return;
        }
        for number in 0..count {
            let text = format!("{prefix}{number}");
            let id = LocalId(self.out.locals.len() as u32);
            let name = self.checker.tree.names.iter().position(|n| **n == *text);
            self.out.locals.push(typed::Variable {
                name: text.into(),
                ..made.clone()
            });
            if let Some(name) = name {
                let name = Name(name as u32);
                self.checker.bind(name, Entity::Local(id), variable.pos);
            }
        }
    }

    fn prototype(&mut self, function: &tree::Function) {
        let params = list(self.checker, &function.params).unwrap_or_default();
        let results = list(self.checker, &function.results).unwrap_or_default();
        let noreturn =
            |d: &FunctionDirective| matches!(d, FunctionDirective::Flag(f) if **f == *"noreturn");
        self.out.prototypes.push(Prototype {
            name: self.checker.text(function.name).into(),
            results,
            params,
            noreturn: function.directives.iter().any(noreturn),
        });
    }

    /// What a label of the open scopes names.
    pub(super) fn target(&self, name: Name) -> Option<Target> {
        let scope = self.open.last().copied().unwrap_or(0);
        self.labels.find(scope, name)
    }

    /// The instruction that a label names.
    pub(super) fn label(&self, name: Name) -> Result<u32, CheckError> {
        let text = self.checker.text(name);
        match self.target(name) {
            Some(Target::Instruction(at)) => Ok(at),
            Some(_) => Err(CheckError::WrongKind {
                name: text.into(),
                is: "a list of targets",
                expected: "a label of an instruction",
            }),
            None => Err(CheckError::Unknown {
                what: "label",
                name: text.into(),
            }),
        }
    }

    fn function(&self, name: Name) -> Result<FnId, CheckError> {
        let text = self.checker.text(name);
        match self.checker.names.get(name) {
            Some(Entity::Function(id)) => Ok(id),
            Some(other) => Err(CheckError::WrongKind {
                name: text.into(),
                is: other.what(),
                expected: "a function",
            }),
            None => Err(CheckError::Unknown {
                what: "function",
                name: text.into(),
            }),
        }
    }

    /// What a name stands for.
    pub(super) fn resolve(&mut self, name: Name) -> Result<Entity, CheckError> {
        let entity = self.checker.names.resolve(name, &mut self.out.registers);
        entity.ok_or_else(|| CheckError::Unknown {
            what: "name",
            name: self.checker.text(name).into(),
        })
    }
}
