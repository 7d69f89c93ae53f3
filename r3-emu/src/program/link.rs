//! Names of several modules become one set of functions and variables.

use super::{LoadError, Placement};
use crate::memory::{Memory, MemoryError};
use r3_ptx::isa::{Mnemonic, Space};
use r3_ptx::tree::{Linkage, MnemonicId};
use r3_ptx::typed::{self, FnId, Function, LocalId, Symbol, VarId, Variable};
use std::collections::HashMap;

/// Addresses of functions begin here: this plus 16 times the number of the function. Nothing is mapped there.
pub(crate) const FUNCTION_BASE: u64 = 0x4600_0000_0000_0000;

/// All functions and variables, linked.
#[derive(Debug)]
pub(crate) struct Linked {
    modules: Vec<ModuleMap>,
    functions: Vec<LinkedFunction>,
    variables: Vec<LinkedVariable>,
    /// Addresses of `.global` and `.const` variables inside functions.
    locals: HashMap<(u32, u32), u64>,
}

#[derive(Debug)]
struct ModuleMap {
    functions: Vec<u32>,
    variables: Vec<u32>,
    mnemonics: Vec<Mnemonic>,
}

#[derive(Debug)]
struct LinkedFunction {
    module: u32,
    function: Function,
}

/// A variable of a module.
#[derive(Debug)]
pub(crate) struct LinkedVariable {
    /// As declared; its initial bytes are in memory.
    pub variable: Variable,
    /// Address, of one in `.global` or `.const`.
    pub address: u64,
    module: u32,
}

/// Which of two declarations of a name stands.
#[derive(PartialEq)]
enum Choice {
    First,
    Second,
    Both,
}

/// Makes memory zero. What is zero already is only looked at: big variables mostly are, and cost no memory of the host then.
fn zero(memory: &Memory, address: u64, len: u64) -> Result<(), MemoryError> {
    const STEP: u64 = 1 << 16;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        let step = STEP.min(len - at);
        buffer.resize(step as usize, 0u8);
        memory.read(address + at, &mut buffer)?;
        if buffer.iter().any(|byte| *byte != 0) {
            memory.fill(address + at, step, 0)?;
        }
        at += step;
    }
    Ok(())
}

fn choose(first: (Linkage, bool), second: (Linkage, bool)) -> Choice {
    let strength = |(linkage, defined): (Linkage, bool)| match linkage {
        _ if !defined => 0,
        Linkage::Extern => 0,
        Linkage::Weak | Linkage::Common => 1,
        _ => 2,
    };
    match (strength(first), strength(second)) {
        (2, 2) => Choice::Both,
        (a, b) if b > a => Choice::Second,
        _ => Choice::First,
    }
}

impl Linked {
    /// Links modules and puts their variables into memory.
    pub fn new(
        modules: &[&typed::Module],
        memory: &Memory,
        place: &mut dyn FnMut(&Placement<'_>) -> Result<u64, String>,
    ) -> Result<Self, LoadError> {
        let mut linked = Self {
            modules: Vec::new(),
            functions: Vec::new(),
            variables: Vec::new(),
            locals: HashMap::new(),
        };
        let mut names = HashMap::new();
        for (index, module) in modules.iter().enumerate() {
            linked.add(index as u32, module, &mut names)?;
        }
        linked.place(place)?;
        linked.initialise(memory)?;
        Ok(linked)
    }

    fn add(
        &mut self,
        index: u32,
        module: &typed::Module,
        names: &mut HashMap<Box<str>, (u32, bool)>,
    ) -> Result<(), LoadError> {
        let mut map = ModuleMap {
            functions: Vec::new(),
            variables: Vec::new(),
            mnemonics: module.mnemonics.clone(),
        };
        let duplicate = |name: &str, pos| LoadError::Duplicate {
            name: name.into(),
            pos,
        };
        for function in &module.functions {
            let new = self.functions.len() as u32;
            let known = names.get(&function.name).copied();
            let external = function.linkage != Linkage::Internal || function.body.is_none();
            let id = match known {
                Some((id, true)) if external => {
                    let old = &self.functions[id as usize].function;
                    let choice = choose(
                        (old.linkage, old.body.is_some()),
                        (function.linkage, function.body.is_some()),
                    );
                    match choice {
                        Choice::Both => return Err(duplicate(&function.name, function.pos)),
                        Choice::First => {}
                        Choice::Second => {
                            self.functions[id as usize] = LinkedFunction {
                                module: index,
                                function: function.clone(),
                            };
                        }
                    }
                    id
                }
                _ => {
                    self.functions.push(LinkedFunction {
                        module: index,
                        function: function.clone(),
                    });
                    if external {
                        names.insert(function.name.clone(), (new, true));
                    }
                    new
                }
            };
            map.functions.push(id);
        }
        let mut variables: HashMap<Box<str>, u32> = HashMap::new();
        for (id, v) in self.variables.iter().enumerate() {
            if v.variable.linkage != Linkage::Internal {
                variables.insert(v.variable.name.clone(), id as u32);
            }
        }
        for variable in &module.variables {
            let external = variable.linkage != Linkage::Internal;
            let known = variables.get(&variable.name).copied().filter(|_| external);
            let id = match known {
                Some(id) => {
                    let old = &mut self.variables[id as usize];
                    let defined = |v: &Variable| v.linkage != Linkage::Extern;
                    let choice = choose(
                        (old.variable.linkage, defined(&old.variable)),
                        (variable.linkage, defined(variable)),
                    );
                    let bigger = variable.linkage == Linkage::Common
                        && old.variable.linkage == Linkage::Common
                        && variable.size > old.variable.size;
                    match choice {
                        Choice::Both => return Err(duplicate(&variable.name, variable.pos)),
                        Choice::First if !bigger => {}
                        _ => {
                            old.variable = variable.clone();
                            old.module = index;
                        }
                    }
                    id
                }
                None => {
                    self.variables.push(LinkedVariable {
                        variable: variable.clone(),
                        address: 0,
                        module: index,
                    });
                    self.variables.len() as u32 - 1
                }
            };
            map.variables.push(id);
        }
        self.modules.push(map);
        Ok(())
    }

    fn place(
        &mut self,
        place: &mut dyn FnMut(&Placement<'_>) -> Result<u64, String>,
    ) -> Result<(), LoadError> {
        let mut ask = |name: &str, variable: &Variable| {
            place(&Placement {
                name,
                size: variable.size,
                align: variable.align,
                constant: variable.space == Space::Const,
                managed: variable.managed,
            })
            .map_err(|reason| LoadError::NoMemory {
                name: name.into(),
                reason,
            })
        };
        for linked in &mut self.variables {
            let variable = &linked.variable;
            if !matches!(variable.space, Space::Global | Space::Const | Space::Tex) {
                continue;
            }
            if variable.linkage == Linkage::Extern {
                return Err(LoadError::Undefined {
                    name: variable.name.to_string(),
                    pos: variable.pos,
                });
            }
            linked.address = ask(&variable.name, variable)?;
        }
        for (f, function) in self.functions.iter().enumerate() {
            let Some(body) = &function.function.body else {
                continue;
            };
            for (i, local) in body.locals.iter().enumerate() {
                if matches!(local.space, Space::Global | Space::Const) {
                    let name = format!("{}.{}", function.function.name, local.name);
                    let address = ask(&name, local)?;
                    self.locals.insert((f as u32, i as u32), address);
                }
            }
        }
        Ok(())
    }

    fn initialise(&mut self, memory: &Memory) -> Result<(), LoadError> {
        let mut contents = Vec::new();
        for linked in &self.variables {
            if linked.address != 0 {
                let bytes = self.initial(linked.module, None, &linked.variable)?;
                contents.push((linked.address, &linked.variable, bytes));
            }
        }
        for (&(f, i), &address) in &self.locals {
            let function = &self.functions[f as usize];
            let Some(body) = &function.function.body else {
                continue;
            };
            let local = &body.locals[i as usize];
            let bytes = self.initial(function.module, Some(f), local)?;
            contents.push((address, local, bytes));
        }
        for (address, variable, bytes) in contents {
            let rest = variable.size.saturating_sub(bytes.len() as u64);
            memory
                .write(address, &bytes)
                .and_then(|()| zero(memory, address.wrapping_add(bytes.len() as u64), rest))
                .map_err(|e| LoadError::NoMemory {
                    name: variable.name.to_string(),
                    reason: e.to_string(),
                })?;
        }
        for linked in &mut self.variables {
            linked.variable.init = None;
        }
        Ok(())
    }

    /// First bytes of a variable with an initialiser, addresses in them resolved. Of others nothing: they begin as zeros.
    fn initial(
        &self,
        module: u32,
        function: Option<u32>,
        variable: &Variable,
    ) -> Result<Vec<u8>, LoadError> {
        let mut bytes = variable.init.clone().unwrap_or_default();
        for relocation in &variable.relocations {
            let map = &self.modules[module as usize];
            let address = match relocation.symbol {
                Symbol::Variable(id) => map
                    .variables
                    .get(id.0 as usize)
                    .and_then(|&id| self.variables.get(id as usize))
                    .filter(|v| v.variable.space != Space::Shared)
                    .map(|v| v.address),
                Symbol::Function(id) => map
                    .functions
                    .get(id.0 as usize)
                    .map(|&id| FUNCTION_BASE + 16 * u64::from(id)),
                Symbol::Local(id) => function.and_then(|f| self.locals.get(&(f, id.0))).copied(),
                _ => None,
            };
            let Some(address) = address else {
                return Err(LoadError::Unsupported {
                    what: format!(
                        "the address of something that is not global in the initial value of {}",
                        variable.name
                    ),
                    pos: variable.pos,
                });
            };
            let value = address.wrapping_add(relocation.addend as u64);
            let value = value.checked_shr(relocation.shift.into()).unwrap_or(0);
            let start = relocation.offset as usize;
            let width = usize::from(relocation.bytes).min(8);
            if let Some(field) = bytes.get_mut(start..start.saturating_add(width)) {
                let mut old = [0; 8];
                old[..width].copy_from_slice(field);
                let sum = u64::from_le_bytes(old).wrapping_add(value);
                field.copy_from_slice(&sum.to_le_bytes()[..width]);
            }
        }
        Ok(bytes)
    }

    /// Numbers of the kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = u32> {
        (0..self.functions.len() as u32).filter(|&id| {
            let function = self.function(id);
            function.entry && function.body.is_some()
        })
    }

    /// How many functions there are.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// A function.
    ///
    /// # Panics
    /// When the number is not one of [`Self::function_id`] or [`Self::kernels`].
    pub fn function(&self, id: u32) -> &Function {
        &self.functions[id as usize].function
    }

    /// The function that `id` means in the module of `function`.
    pub fn function_id(&self, function: u32, id: FnId) -> Option<u32> {
        let map = self.map(function)?;
        map.functions.get(id.0 as usize).copied()
    }

    /// The variable that `id` means in the module of `function`, and its number.
    pub fn variable(&self, function: u32, id: VarId) -> Option<&LinkedVariable> {
        self.variables.get(self.variable_id(function, id)? as usize)
    }

    /// Number of the variable that `id` means in the module of `function`.
    pub fn variable_id(&self, function: u32, id: VarId) -> Option<u32> {
        let map = self.map(function)?;
        map.variables.get(id.0 as usize).copied()
    }

    /// Address of a `.global` or `.const` variable inside a function.
    pub fn local_address(&self, function: u32, id: LocalId) -> Option<u64> {
        self.locals.get(&(function, id.0)).copied()
    }

    /// A mnemonic of the module of `function`.
    ///
    /// # Panics
    /// When the id is of another module.
    pub fn mnemonic(&self, function: u32, id: MnemonicId) -> &Mnemonic {
        let module = self.functions[function as usize].module as usize;
        &self.modules[module].mnemonics[id.0 as usize]
    }

    /// Address and size of a variable in `.global` or `.const`.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.variables
            .iter()
            .find(|v| v.address != 0 && *v.variable.name == *name)
            .map(|v| (v.address, v.variable.size))
    }

    /// Address ranges of the variables in `.const`.
    pub fn constants(&self) -> impl Iterator<Item = (u64, u64)> {
        self.variables
            .iter()
            .filter(|v| v.variable.space == Space::Const && v.address != 0)
            .map(|v| (v.address, v.variable.size))
    }

    /// The upper half of the addresses of variables in `.const`. Constant memory is small: on a GPU, its own addresses
    /// fit into 32 bits, and kernels may keep them in 32 bits.
    pub fn constant_bank(&self) -> u64 {
        self.constants()
            .next()
            .map_or(0, |(address, _)| address >> 32 << 32)
    }

    fn map(&self, function: u32) -> Option<&ModuleMap> {
        let function = self.functions.get(function as usize)?;
        self.modules.get(function.module as usize)
    }
}
