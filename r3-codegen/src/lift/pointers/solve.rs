//! Decides which registers are pointers.

use r3_ptx::typed::{Body, RegId};

use super::groups::{Group, Groups};
use super::lists::Lists;
use super::mixed::{Mixed, mixed};
use super::scan::{Definition, Facts, Part, integer};

/// Rounds after which everything is left an integer. Real code needs two or three.
const ROUNDS: usize = 16;

/// The space of the address in each register, and whether addresses are made of several others.
pub(super) fn solve(facts: &Facts, body: &Body) -> (Vec<Option<u32>>, Mixed) {
    let mut solver = Solver::new(facts, body);
    for _ in 0..ROUNDS {
        solver.settle();
        let pointers = solver.wanted();
        let mixed = mixed(facts, &pointers);
        if mixed == Mixed::Variables {
            break;
        }
        let before = solver.refused;
        let spaces = solver.spaces(&pointers);
        if solver.refused == before {
            return (spaces, mixed);
        }
    }
    (vec![None; body.registers.len()], Mixed::Variables)
}

/// What is known of one register.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Something shows that it holds an address.
    address: bool,
    /// It is an integer.
    integer: bool,
}

struct Solver<'f> {
    facts: &'f Facts,
    known: Vec<Known>,
    /// Bits of each register.
    widths: Vec<u32>,
    /// Definitions that a register has a part in.
    touching: Lists,
    /// Definitions of a register.
    makes: Lists,
    /// Definitions to look at.
    queue: Vec<u32>,
    queued: Vec<bool>,
    /// How many registers were found to be integers.
    refused: usize,
}

impl<'f> Solver<'f> {
    fn new(facts: &'f Facts, body: &Body) -> Self {
        let registers = body.registers.len();
        let definitions = facts.definitions.len();
        let all = || (0u32..).zip(&facts.definitions);
        let touching = Lists::new(registers, || {
            all().flat_map(|(i, (to, definition))| {
                sources(definition)
                    .chain([*to])
                    .map(move |register| (register, i))
            })
        });
        let makes = Lists::new(registers, || all().map(|(i, (to, _))| (*to, i)));
        let mut solver = Self {
            facts,
            known: vec![Known::default(); registers],
            widths: body.registers.iter().map(|r| r.ty.bits()).collect(),
            touching,
            makes,
            queue: (0..definitions as u32).rev().collect(),
            queued: vec![true; definitions],
            refused: 0,
        };
        for (i, register) in body.registers.iter().enumerate() {
            if !integer(register.ty) {
                solver.refuse(RegId(i as u32));
            }
        }
        let declared = facts.declared.iter().copied();
        for register in declared.chain(facts.addresses.iter().map(|(register, _)| *register)) {
            solver.accept(register);
        }
        solver
    }

    fn known(&self, register: RegId) -> Known {
        let known = self.known.get(register.0 as usize);
        known.copied().unwrap_or(Known {
            address: false,
            integer: true,
        })
    }

    fn wake(&mut self, register: RegId) {
        for &definition in self.touching.of(register) {
            if let Some(queued) = self.queued.get_mut(definition as usize)
                && !std::mem::replace(queued, true)
            {
                self.queue.push(definition);
            }
        }
    }

    fn accept(&mut self, register: RegId) {
        if let Some(known) = self.known.get_mut(register.0 as usize)
            && !known.address
        {
            known.address = true;
            self.wake(register);
        }
    }

    fn refuse(&mut self, register: RegId) {
        if let Some(known) = self.known.get_mut(register.0 as usize)
            && !known.integer
        {
            known.integer = true;
            self.refused += 1;
            self.wake(register);
        }
    }

    /// Looks at definitions until nothing changes, and then at what is still open.
    fn settle(&mut self) {
        loop {
            while let Some(definition) = self.queue.pop() {
                if let Some(queued) = self.queued.get_mut(definition as usize) {
                    *queued = false;
                }
                self.look(definition);
            }
            let facts = self.facts;
            let open = |(to, definition): &&(RegId, Definition)| {
                let known = self.known(*to);
                let sum = matches!(definition, Definition::Sum(_));
                sum && known.address && !known.integer && self.base(definition) == Base::Open
            };
            let open: Vec<_> = facts.definitions.iter().filter(open).collect();
            if open.is_empty() {
                return;
            }
            for (register, _) in open {
                self.refuse(*register);
            }
        }
    }

    fn look(&mut self, definition: u32) {
        let facts = self.facts;
        let Some((to, definition)) = facts.definitions.get(definition as usize) else {
            return;
        };
        match definition {
            Definition::Integer => self.refuse(*to),
            Definition::Address(_) => self.accept(*to),
            Definition::Number | Definition::Loaded => {}
            Definition::Resized(from) => self.link(*to, *from),
            Definition::Copy(parts) => {
                for part in parts {
                    match part {
                        Part::Register(from) => self.link(*to, *from),
                        Part::Symbol(_) => self.accept(*to),
                        Part::Other => {}
                    }
                }
            }
            Definition::Sum(_) | Definition::Offset(_) => match self.base(definition) {
                Base::None => self.refuse(*to),
                Base::Open => {}
                Base::Part(Part::Register(from), sure) => {
                    if sure {
                        self.accept(*to);
                    } else if self.known(*to).address && !self.known(*to).integer {
                        self.accept(from);
                    }
                }
                Base::Part(..) => self.accept(*to),
            },
        }
    }

    /// Two registers hold the same address, or none.
    fn link(&mut self, to: RegId, from: RegId) {
        if self.known(from).integer {
            self.refuse(to);
        } else if self.known(from).address {
            self.accept(to);
        }
        if self.known(to).address && !self.known(to).integer {
            self.accept(from);
        }
    }

    /// The part of a sum that is the address.
    fn base(&self, definition: &Definition) -> Base {
        let known = |part: Part| match part {
            Part::Register(register) => self.known(register),
            Part::Symbol(_) => Known {
                address: true,
                integer: false,
            },
            Part::Other => Known {
                address: false,
                integer: true,
            },
        };
        let is = |part: Part| known(part).address && !known(part).integer;
        let is_not = |part: Part| known(part).integer;
        match *definition {
            Definition::Offset([base, index]) => match () {
                () if is_not(base) || is(index) => Base::None,
                () => Base::Part(base, is(base)),
            },
            Definition::Sum([a, b]) => match (is(a), is(b)) {
                (true, true) => Base::None,
                (true, false) => Base::Part(a, true),
                (false, true) => Base::Part(b, true),
                (false, false) => match (is_not(a), is_not(b)) {
                    (true, true) => Base::None,
                    (false, true) => Base::Part(a, false),
                    (true, false) => Base::Part(b, false),
                    (false, false) => Base::Open,
                },
            },
            _ => Base::None,
        }
    }

    /// Registers that are used as addresses, themselves or through others, and can be.
    fn wanted(&self) -> Vec<bool> {
        let facts = self.facts;
        let able = |register: RegId| {
            let known = self.known(register);
            known.address && !known.integer
        };
        let mut wanted = vec![false; self.known.len()];
        let mut queue: Vec<RegId> = facts.addresses.iter().map(|(r, _)| *r).collect();
        while let Some(register) = queue.pop() {
            match wanted.get_mut(register.0 as usize) {
                Some(wanted) if able(register) && !*wanted => *wanted = true,
                _ => continue,
            }
            for &definition in self.makes.of(register) {
                let Some((_, definition)) = facts.definitions.get(definition as usize) else {
                    continue;
                };
                match self.base(definition) {
                    Base::Part(Part::Register(base), _) => queue.push(base),
                    _ if matches!(definition, Definition::Copy(_) | Definition::Resized(_)) => {
                        queue.extend(sources(definition));
                    }
                    _ => {}
                }
            }
        }
        wanted
    }

    /// The space of each pointer. Refuses those with none, or with several.
    fn spaces(&mut self, pointers: &[bool]) -> Vec<Option<u32>> {
        let facts = self.facts;
        let is_pointer = |register: RegId| pointers.get(register.0 as usize) == Some(&true);
        let mut groups = Groups::new(pointers.len());
        for (to, definition) in facts.definitions.iter().filter(|(to, _)| is_pointer(*to)) {
            match self.base(definition) {
                Base::Part(Part::Register(base), _) => groups.join(*to, base),
                _ if matches!(definition, Definition::Copy(_) | Definition::Resized(_)) => {
                    for from in sources(definition) {
                        groups.join(*to, from);
                    }
                }
                _ => {}
            }
        }
        let mut found = vec![Group::default(); pointers.len()];
        let widths = &self.widths;
        let mut group = |register: RegId, note: &dyn Fn(&mut Group, u32)| {
            let width = widths.get(register.0 as usize).copied().unwrap_or(0);
            if is_pointer(register)
                && let Some(group) = found.get_mut(groups.of(register))
            {
                group.widths |= width;
                note(group, width);
            }
        };
        for (to, definition) in &facts.definitions {
            let parts = match definition {
                Definition::Copy(parts) | Definition::Sum(parts) | Definition::Offset(parts) => {
                    parts.as_slice()
                }
                _ => &[],
            };
            let symbols = parts.iter().filter_map(|part| match part {
                Part::Symbol(space) => Some(*space),
                _ => None,
            });
            let address = match definition {
                Definition::Address(space) => Some(*space),
                _ => None,
            };
            for space in symbols.chain(address) {
                group(*to, &|group, _| group.made(space));
            }
            let loaded = matches!(definition, Definition::Loaded);
            group(*to, &|group, _| group.rooted |= loaded);
            // What an integer is made of is used as bits, and so is an index.
            let base = match self.base(definition) {
                Base::Part(Part::Register(base), _) if is_pointer(*to) => Some(base),
                _ => None,
            };
            let copies = matches!(definition, Definition::Copy(_) | Definition::Resized(_));
            for from in sources(definition) {
                if base != Some(from) && !(copies && is_pointer(*to)) {
                    group(from, &|group, width| group.bits |= width);
                }
            }
        }
        for (register, space) in &facts.addresses {
            group(*register, &|group, _| group.used(*space));
        }
        for register in &facts.values {
            group(*register, &|group, width| group.bits |= width);
        }
        let mut roots = vec![None; pointers.len()];
        for i in (0..pointers.len() as u32)
            .map(RegId)
            .filter(|r| is_pointer(*r))
        {
            let group = found.get(groups.of(i)).copied().unwrap_or_default();
            match group.space() {
                Some(space) => {
                    if let Some(root) = roots.get_mut(i.0 as usize) {
                        *root = Some(space);
                    }
                }
                None => self.refuse(i),
            }
        }
        roots
    }
}

/// Registers in a definition.
fn sources(definition: &Definition) -> impl Iterator<Item = RegId> + '_ {
    let (parts, resized) = match definition {
        Definition::Copy(parts) | Definition::Sum(parts) | Definition::Offset(parts) => {
            (parts.as_slice(), None)
        }
        Definition::Resized(from) => (&[][..], Some(*from)),
        _ => (&[][..], None),
    };
    let registers = parts.iter().filter_map(|part| match part {
        Part::Register(register) => Some(*register),
        _ => None,
    });
    registers.chain(resized)
}

/// Which part of a sum is its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// None, or more than one: the sum is an integer.
    None,
    /// It may be either: nothing tells.
    Open,
    /// This part; the flag: something shows it, it is not only that the other cannot be.
    Part(Part, bool),
}
