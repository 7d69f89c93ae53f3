//! From the tree to the checked module: names, scopes, types, forms, layout.
//!
//! The way of the data: [`mod@self`] declares what stands at module level; `variables` gives variables their
//! size, bytes and relocations; `function` walks a body, with `names` for its scopes; `instruction` finds the
//! form of each instruction and hands its operands to `operands`; `numbers` turns literals into bits.
//!
//! Nothing is allocated by a number in the text: registers of a set `%r<1000000>` exist when they are
//! used, and an initialised variable has a limit of [`MOST_INITIAL_BYTES`].

mod call;
mod error;
mod function;
mod instruction;
mod names;
mod numbers;
mod operands;
mod variables;

use std::collections::HashMap;

use crate::error::{Error, ErrorKind, Errors};
use crate::source::Pos;
use crate::tree::{self, Item, Name};
use crate::typed::{self, FnId, VarId};

pub use error::CheckError;
pub use variables::MOST_INITIAL_BYTES;

use names::{Entity, Names};

/// Resolves the names of a module and checks it against the table of [forms](crate::isa::Forms).
///
/// # Errors
/// All errors that were found, in the order of the text, up to [`Errors::MOST`].
pub fn check(tree: &tree::Module) -> Result<typed::Module, Errors> {
    let mut checker = Checker::new(tree);
    let bodies = checker.declare();
    checker.initialise();
    for (id, function) in bodies {
        if checker.stopped() {
            break;
        }
        function::check(&mut checker, id, function);
    }
    checker.finish()
}

/// What the parts of the checker share.
struct Checker<'t> {
    tree: &'t tree::Module,
    names: Names<'t>,
    out: typed::Module,
    errors: Vec<Error>,
    /// Initialisers wait until all names are declared.
    initialisers: Vec<(VarId, &'t tree::Variable)>,
}

impl<'t> Checker<'t> {
    fn new(tree: &'t tree::Module) -> Self {
        let address_bytes = match tree.address_size {
            Some(32) => 4,
            _ => 8,
        };
        Self {
            tree,
            names: Names::new(tree),
            out: typed::Module {
                version: tree.version,
                target: tree.target.clone(),
                address_bytes,
                mnemonics: tree.mnemonics.clone(),
                ..typed::Module::default()
            },
            errors: Vec::new(),
            initialisers: Vec::new(),
        }
    }

    fn error(&mut self, pos: Pos, error: CheckError) {
        if !self.stopped() {
            self.errors.push(Error {
                pos,
                kind: ErrorKind::Check(Box::new(error)),
            });
        }
    }

    fn stopped(&self) -> bool {
        self.errors.len() >= Errors::MOST
    }

    /// Tells an error, if there is one.
    fn told<T>(&mut self, pos: Pos, result: Result<T, CheckError>) -> Option<T> {
        result.map_err(|error| self.error(pos, error)).ok()
    }

    fn text(&self, name: Name) -> &'t str {
        self.tree.name(name)
    }

    /// Module-level names. Returns the functions with bodies.
    fn declare(&mut self) -> Vec<(FnId, &'t tree::Function)> {
        let mut bodies = Vec::new();
        let mut functions: HashMap<Name, (FnId, bool)> = HashMap::new();
        for item in &self.tree.items {
            match item {
                Item::Variable(variable) => self.declare_variable(variable),
                Item::Function(function) => {
                    let id = self.declare_function(function, &mut functions);
                    if let (Some(id), true) = (id, function.body.is_some()) {
                        bodies.push((id, function));
                    }
                }
                Item::Alias { pos, alias, target } => match functions.get(target) {
                    Some(&(id, _)) => {
                        let declared = functions.insert(*alias, (id, true));
                        if declared.is_some_and(|(_, defined)| defined) {
                            self.error(*pos, CheckError::duplicate(self.text(*alias), *pos));
                        }
                        self.names.rebind(*alias, Entity::Function(id), *pos);
                        self.out.aliases.push((self.text(*alias).into(), id));
                    }
                    None => {
                        let name = self.text(*target).into();
                        self.error(
                            *pos,
                            CheckError::Unknown {
                                what: "function",
                                name,
                            },
                        );
                    }
                },
                Item::Verbatim { .. } => {}
            }
        }
        bodies
    }

    fn declare_variable(&mut self, variable: &'t tree::Variable) {
        if let Some(Entity::Variable(id)) = self.names.get(variable.name) {
            // A declaration and its definition.
            let extern_before = self.out.variables.get(id.0 as usize).is_some_and(|v| {
                v.linkage == tree::Linkage::Extern || v.linkage == tree::Linkage::Weak
            });
            if extern_before || variable.linkage == tree::Linkage::Extern {
                if variable.linkage != tree::Linkage::Extern {
                    let made = variables::variable(self.tree, variable);
                    if let Some(made) = self.told(variable.pos, made) {
                        self.replace_variable(id, made);
                        self.initialisers.push((id, variable));
                    }
                }
                return;
            }
        }
        let made = variables::variable(self.tree, variable);
        let Some(made) = self.told(variable.pos, made) else {
            return;
        };
        let id = VarId(self.out.variables.len() as u32);
        self.out.variables.push(made);
        self.initialisers.push((id, variable));
        self.bind(variable.name, Entity::Variable(id), variable.pos);
    }

    fn replace_variable(&mut self, id: VarId, made: typed::Variable) {
        if let Some(place) = self.out.variables.get_mut(id.0 as usize) {
            *place = made;
        }
    }

    fn bind(&mut self, name: Name, entity: Entity, pos: Pos) {
        if let Err(error) = self.names.bind(name, entity, pos) {
            self.error(pos, error);
        }
    }

    fn declare_function(
        &mut self,
        function: &'t tree::Function,
        functions: &mut HashMap<Name, (FnId, bool)>,
    ) -> Option<FnId> {
        let signature = function::signature(self, function)?;
        let defined = function.body.is_some();
        match functions.get_mut(&function.name) {
            None => {
                let id = FnId(self.out.functions.len() as u32);
                self.out.functions.push(signature);
                functions.insert(function.name, (id, defined));
                self.bind(function.name, Entity::Function(id), function.pos);
                Some(id)
            }
            Some((_, true)) if defined => {
                let first = self.names.place(function.name).unwrap_or_default();
                self.error(
                    function.pos,
                    CheckError::duplicate(self.text(function.name), first),
                );
                None
            }
            Some((id, was_defined)) => {
                if defined {
                    *was_defined = true;
                    if let Some(place) = self.out.functions.get_mut(id.0 as usize) {
                        *place = signature;
                    }
                    self.names
                        .rebind(function.name, Entity::Function(*id), function.pos);
                }
                Some(*id)
            }
        }
    }

    fn initialise(&mut self) {
        for (id, variable) in std::mem::take(&mut self.initialisers) {
            let Some(mut made) = self.out.variables.get(id.0 as usize).cloned() else {
                continue;
            };
            let result = variables::initialise(self.tree, &self.names, variable, &mut made);
            if self.told(variable.pos, result).is_some() {
                self.replace_variable(id, made);
            }
        }
    }

    fn finish(mut self) -> Result<typed::Module, Errors> {
        if self.errors.is_empty() {
            return Ok(self.out);
        }
        let stopped = self.stopped();
        self.errors.sort_by_key(|error| error.pos);
        Err(Errors {
            list: self.errors,
            stopped,
        })
    }
}
