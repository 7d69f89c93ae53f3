//! Names and their scopes.

use std::collections::HashMap;

use super::CheckError;
use crate::isa::ScalarType;
use crate::source::Pos;
use crate::tree::{self, Name};
use crate::typed::{FnId, LocalId, RegId, Register, VarId};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entity {
    /// A register; the first of `vector` for a vector.
    Register {
        first: RegId,
        vector: u8,
        ty: ScalarType,
    },
    Variable(VarId),
    Local(LocalId),
    Param(u32),
    Result(u32),
    Function(FnId),
}

impl Entity {
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Register { vector: 1, .. } => "a register",
            Self::Register { .. } => "a vector register",
            Self::Variable(_) | Self::Local(_) => "a variable",
            Self::Param(_) | Self::Result(_) => "a parameter",
            Self::Function(_) => "a function",
        }
    }
}

#[derive(Clone, Copy)]
struct Binding {
    entity: Entity,
    pos: Pos,
    depth: u32,
}

/// `%r<100>`: names that exist when they are used.
#[derive(Clone, Copy)]
struct Set {
    id: u32,
    count: u32,
    ty: ScalarType,
    vector: u8,
    depth: u32,
}

/// All names of a module, those of the open scopes included.
pub(super) struct Names<'t> {
    tree: &'t tree::Module,
    bindings: Vec<Option<Binding>>,
    /// What each open scope covered.
    scopes: Vec<Vec<(Name, Option<Binding>)>>,
    /// Sets by the text before their numbers; the innermost last.
    sets: HashMap<&'t str, Vec<Set>>,
    set_scopes: Vec<Vec<&'t str>>,
    next_set: u32,
    /// Registers of sets that are in use.
    members: HashMap<(u32, u32), RegId>,
}

impl<'t> Names<'t> {
    pub(super) fn new(tree: &'t tree::Module) -> Self {
        Self {
            tree,
            bindings: vec![None; tree.names.len()],
            scopes: Vec::new(),
            sets: HashMap::new(),
            set_scopes: Vec::new(),
            next_set: 0,
            members: HashMap::new(),
        }
    }

    fn depth(&self) -> u32 {
        self.scopes.len() as u32
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(Vec::new());
        self.set_scopes.push(Vec::new());
    }

    pub(super) fn close(&mut self) {
        for (name, before) in self.scopes.pop().into_iter().flatten().rev() {
            if let Some(place) = self.bindings.get_mut(name.0 as usize) {
                *place = before;
            }
        }
        for prefix in self.set_scopes.pop().into_iter().flatten() {
            if let Some(sets) = self.sets.get_mut(prefix) {
                sets.pop();
            }
        }
        if self.scopes.is_empty() {
            self.members.clear();
            self.sets.clear();
        }
    }

    /// Binds a name in the innermost scope.
    pub(super) fn bind(&mut self, name: Name, entity: Entity, pos: Pos) -> Result<(), CheckError> {
        let depth = self.depth();
        let before = self.bindings.get(name.0 as usize).copied().flatten();
        if let Some(binding) = before.filter(|binding| binding.depth == depth) {
            return Err(CheckError::duplicate(self.tree.name(name), binding.pos));
        }
        self.set(name, Binding { entity, pos, depth });
        Ok(())
    }

    /// Binds a name anew.
    pub(super) fn rebind(&mut self, name: Name, entity: Entity, pos: Pos) {
        let depth = self.depth();
        self.set(name, Binding { entity, pos, depth });
    }

    fn set(&mut self, name: Name, binding: Binding) {
        if let Some(place) = self.bindings.get_mut(name.0 as usize) {
            let before = place.replace(binding);
            if let Some(scope) = self.scopes.last_mut() {
                scope.push((name, before));
            }
        }
    }

    /// Declares a set of registers.
    pub(super) fn bind_set(&mut self, name: Name, count: u32, ty: ScalarType, vector: u8) {
        let prefix = self.tree.name(name);
        let set = Set {
            id: self.next_set,
            count,
            ty,
            vector,
            depth: self.depth(),
        };
        self.next_set += 1;
        self.sets.entry(prefix).or_default().push(set);
        if let Some(scope) = self.set_scopes.last_mut() {
            scope.push(prefix);
        }
    }

    /// What a name stands for, members of sets apart.
    pub(super) fn get(&self, name: Name) -> Option<Entity> {
        let binding = self.bindings.get(name.0 as usize).copied().flatten();
        binding.map(|binding| binding.entity)
    }

    /// Where a name was declared.
    pub(super) fn place(&self, name: Name) -> Option<Pos> {
        let binding = self.bindings.get(name.0 as usize).copied().flatten();
        binding.map(|binding| binding.pos)
    }

    /// What a name stands for. A member of a set becomes a register when it is first used.
    pub(super) fn resolve(&mut self, name: Name, registers: &mut Vec<Register>) -> Option<Entity> {
        let binding = self.bindings.get(name.0 as usize).copied().flatten();
        let covered = |b: &Binding| {
            let mut deeper = self.set_scopes.iter().skip(b.depth as usize);
            deeper.any(|scope| !scope.is_empty())
        };
        let found = match binding {
            Some(binding) if !covered(&binding) => return Some(binding.entity),
            Some(binding) => self
                .member(name)
                .filter(|(set, _)| set.depth > binding.depth),
            None => self.member(name),
        };
        let Some((set, number)) = found else {
            return binding.map(|binding| binding.entity);
        };
        let entity = self.use_member(set, number, self.tree.name(name), registers);
        let depth = self.depth();
        let pos = Pos::default();
        self.set(name, Binding { entity, pos, depth });
        Some(entity)
    }

    /// The register of a set that has the name of a special register (`.reg .b32 %pm<8>;`), if there is one.
    pub(super) fn hiding(&mut self, text: &str, registers: &mut Vec<Register>) -> Option<Entity> {
        let (set, number) = self.member_of(text)?;
        Some(self.use_member(set, number, text, registers))
    }

    fn use_member(
        &mut self,
        set: Set,
        number: u32,
        text: &str,
        registers: &mut Vec<Register>,
    ) -> Entity {
        let make = || add_registers(registers, text, set.ty, set.vector);
        let first = *self.members.entry((set.id, number)).or_insert_with(make);
        Entity::Register {
            first,
            vector: set.vector,
            ty: set.ty,
        }
    }

    /// The set that a name is of, and its number there.
    fn member(&self, name: Name) -> Option<(Set, u32)> {
        self.member_of(self.tree.name(name))
    }

    fn member_of(&self, text: &str) -> Option<(Set, u32)> {
        let digits = text
            .bytes()
            .rev()
            .take_while(u8::is_ascii_digit)
            .count()
            .min(10);
        (1..=digits).find_map(|n| {
            let (prefix, number) = text.split_at(text.len() - n);
            let sets = self.sets.get(prefix)?;
            if number.len() > 1 && number.starts_with('0') {
                return None;
            }
            let number: u32 = number.parse().ok()?;
            let set = sets.iter().rev().find(|set| number < set.count)?;
            Some((*set, number))
        })
    }
}

/// Adds a register, or the elements of a vector. Returns the first.
pub(super) fn add_registers(
    registers: &mut Vec<Register>,
    name: &str,
    ty: ScalarType,
    vector: u8,
) -> RegId {
    let first = RegId(registers.len() as u32);
    if vector <= 1 {
        let name = name.into();
        registers.push(Register { name, ty });
    } else {
        let parts = ["x", "y", "z", "w", "4", "5", "6", "7"];
        for part in parts.iter().take(usize::from(vector)) {
            let name = format!("{name}.{part}").into();
            registers.push(Register { name, ty });
        }
    }
    first
}
