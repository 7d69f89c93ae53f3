//! What a kernel of a PTX module does, by instruction: reaches functions, calls the runtime, reads special registers, names
//! variables.

use std::collections::BTreeSet;

use r3_image::Variable;
use r3_ptx::isa::{Opcode, Space, SpecialRegister};
use r3_ptx::typed::{Body, FnId, Function, Instruction, Module, Operand, Symbol, VarId};

use r3_ptx::tree::Linkage;

use super::addresses::{self, Broken};
use super::{Finding, NotChecked, ParameterWords, Rule};
use crate::attach::names::plain;

/// A PTX module and the functions that a kernel of it reaches.
#[derive(Debug)]
pub struct Code {
    /// The module, checked.
    pub module: Module,
    /// The kernel, and what it calls or names, in the order in which they are found.
    pub reached: Vec<FnId>,
    /// Variables of the module that these name, and that those name.
    pub variables: BTreeSet<VarId>,
}

/// Reads PTX.
///
/// # Errors
/// When it cannot be read, or has no such kernel with a body.
pub fn read(ptx: &str, kernel: &str) -> Result<Code, NotChecked> {
    let unreadable = |errors: r3_ptx::Errors| {
        let first = errors.first().map(ToString::to_string);
        NotChecked::Unreadable(first.unwrap_or_else(|| "it is no PTX".to_owned()))
    };
    let tree = r3_ptx::parse(ptx).map_err(unreadable)?;
    let module = r3_ptx::check(&tree).map_err(unreadable)?;
    let is_kernel = |function: &Function| {
        function.entry && function.body.is_some() && &*function.name == kernel
    };
    let at = module.functions.iter().position(is_kernel);
    let start = at
        .and_then(|at| u32::try_from(at).ok())
        .ok_or_else(|| NotChecked::NoKernel(kernel.to_owned()))?;
    Ok(reach(module, FnId(start)))
}

fn reach(module: Module, start: FnId) -> Code {
    let mut functions = BTreeSet::from([start]);
    let mut variables = BTreeSet::new();
    let mut reached = vec![start];
    let mut next = 0;
    while let Some(id) = reached.get(next) {
        next += 1;
        let body = module.functions.get(id.0 as usize);
        let Some(body) = body.and_then(|function| function.body.as_ref()) else {
            continue;
        };
        let named = body.operands.iter().filter_map(symbol);
        let tables = body.call_tables.iter().flatten();
        let mut left: Vec<Symbol> = named
            .chain(tables.map(|id| Symbol::Function(*id)))
            .collect();
        let locals = body.locals.iter().flat_map(|local| &local.relocations);
        left.extend(locals.map(|relocation| relocation.symbol));
        while let Some(symbol) = left.pop() {
            match symbol {
                Symbol::Function(id) if functions.insert(id) => reached.push(id),
                Symbol::Variable(id) if variables.insert(id) => {
                    let variable = module.variables.get(id.0 as usize);
                    let relocations = variable.into_iter().flat_map(|v| &v.relocations);
                    left.extend(relocations.map(|relocation| relocation.symbol));
                }
                _ => {}
            }
        }
    }
    Code {
        module,
        reached,
        variables,
    }
}

fn symbol(operand: &Operand) -> Option<Symbol> {
    match *operand {
        Operand::Address(symbol, _) | Operand::MemorySymbol(symbol, _) => Some(symbol),
        _ => None,
    }
}

/// Functions of the runtime that belong to a rule, by how their names begin.
const RUNTIME: &[(&str, Rule)] = &[
    ("malloc", Rule::Heap),
    ("free", Rule::Heap),
    ("__nv_aligned_device_malloc", Rule::Heap),
    ("_Znw", Rule::Heap),
    ("_Zna", Rule::Heap),
    ("_Zdl", Rule::Heap),
    ("_Zda", Rule::Heap),
    ("vprintf", Rule::Print),
    ("printf", Rule::Print),
    ("puts", Rule::Print),
    ("cuda", Rule::Launches),
    ("__cuda", Rule::Launches),
];

/// Special registers that belong to a rule.
fn special(register: SpecialRegister) -> Option<Rule> {
    use SpecialRegister as R;
    match register {
        R::Clock
        | R::ClockHi
        | R::Clock64
        | R::Globaltimer
        | R::GlobaltimerLo
        | R::GlobaltimerHi => Some(Rule::Clocks),
        R::Pm(_) | R::Pm64(_) => Some(Rule::Counters),
        R::SmId
        | R::WarpId
        | R::GridId
        | R::CurrentGraphExec
        | R::LocalityDomainId
        | R::Envreg(_) => Some(Rule::Placement),
        _ => None,
    }
}

/// Instructions that belong to a rule.
const INSTRUCTIONS: &[(Opcode, Rule)] = &[
    (Opcode::Nanosleep, Rule::Sleep),
    (Opcode::Pmevent, Rule::Counters),
];

impl Code {
    /// What of it breaks rules, wherever it does. `known` are variables of the original, `words` what is known of its
    /// parameters.
    pub fn facts(&self, known: &[Variable], words: &ParameterWords) -> Vec<Finding> {
        let own = self.own(known);
        let flow = addresses::flow(self, &own, words);
        let mut found = Vec::new();
        let written = flow.writes_own();
        for &id in &own {
            found.extend(self.keeps(id, written));
        }
        for (function, body) in self.bodies() {
            for instruction in &body.instructions {
                self.instruction(function, body, instruction, &mut found);
            }
        }
        for broken in flow.broken() {
            found.push(self.told(&broken));
        }
        found
    }

    /// A variable among these that it does not name.
    pub fn does_without(&self, inputs: &BTreeSet<String>) -> Option<Finding> {
        // Compilers make up parts of names that only one file can see.
        let named: BTreeSet<String> = self.names().map(plain).collect();
        let missing = inputs.iter().find(|name| !named.contains(&plain(name)))?;
        Some(Finding {
            rule: Rule::Inputs,
            what: format!("does without {}", crate::names::readable(missing)),
            place: "all of its PTX".to_owned(),
        })
    }

    /// Names of the variables that the kernel reaches.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let variables = self.variables.iter();
        let variables = variables.filter_map(|id| self.module.variables.get(id.0 as usize));
        variables.map(|variable| &*variable.name)
    }

    /// Functions with a body that the kernel reaches.
    pub fn bodies(&self) -> impl Iterator<Item = (&Function, &Body)> {
        let functions = self.reached.iter();
        let functions = functions.filter_map(|id| self.module.functions.get(id.0 as usize));
        functions.filter_map(|function| Some((function, function.body.as_ref()?)))
    }

    /// Variables in memory of the device that the original has not.
    fn own(&self, known: &[Variable]) -> BTreeSet<VarId> {
        let is_own = |id: &&VarId| {
            let variable = self.module.variables.get(id.0 as usize);
            variable.is_some_and(|variable| {
                let recorded = known.iter().find(|known| known.name == *variable.name);
                let same = recorded.is_some_and(|old| old.size == 0 || variable.size <= old.size);
                matches!(variable.space, Space::Global | Space::Const) && !same
            })
        };
        self.variables.iter().filter(is_own).copied().collect()
    }

    /// Names of variables that the original has not and that nothing writes, whether the kernel reaches them or not.
    pub fn idle(&self, known: &[Variable]) -> Vec<String> {
        let own = self.own(known);
        let words = ParameterWords::default();
        let written = addresses::flow(self, &own, &words).writes_own();
        let variables = (0u32..).map(VarId).zip(&self.module.variables);
        variables
            .filter(|(id, variable)| {
                let of_host = variable.managed || variable.linkage == Linkage::Extern;
                let reached = self.variables.contains(id);
                !of_host && !(reached && (written || !own.contains(id)))
            })
            .map(|(_, variable)| variable.name.to_string())
            .collect()
    }

    /// A variable of its own that begins without values, where any is written, is there to keep something.
    fn keeps(&self, id: VarId, written: bool) -> Option<Finding> {
        let variable = self.module.variables.get(id.0 as usize)?;
        let opaque = variable.ty.kind() == r3_ptx::isa::TypeKind::Opaque;
        let empty = variable.init.is_none() && variable.relocations.is_empty();
        let plain = variable.space == Space::Global && empty && !opaque;
        let kept = variable.managed || (plain && written);
        kept.then(|| Finding {
            rule: Rule::Variables,
            what: format!(
                "has a variable of its own, {} ({} bytes)",
                crate::names::readable(&variable.name),
                variable.size
            ),
            place: format!("line {} of its PTX", variable.pos.line),
        })
    }

    fn instruction(
        &self,
        function: &Function,
        body: &Body,
        instruction: &Instruction,
        found: &mut Vec<Finding>,
    ) {
        let Some(mnemonic) = self.module.mnemonics.get(instruction.mnemonic.0 as usize) else {
            return;
        };
        let mut add = |rule: Rule, what: String| {
            found.push(Finding {
                rule,
                what,
                place: place(function, instruction),
            });
        };
        let opcode = mnemonic.opcode();
        if let Some((_, rule)) = INSTRUCTIONS.iter().find(|(known, _)| *known == opcode) {
            add(*rule, format!("has the instruction {}", mnemonic.text()));
        }
        let operands = body.operands(instruction);
        for operand in operands {
            if let Operand::Special(register) = *operand
                && let Some(rule) = special(register)
            {
                add(rule, format!("reads {register}"));
            }
        }
        if opcode == Opcode::Call
            && let Some(Operand::Address(Symbol::Function(id), _)) = operands.get(1)
            && let Some(called) = self.module.functions.get(id.0 as usize)
            && called.body.is_none()
            && let Some((_, rule)) = RUNTIME
                .iter()
                .find(|(name, _)| called.name.starts_with(name))
        {
            add(*rule, format!("calls {}", called.name));
        }
    }

    fn told(&self, broken: &Broken<'_>) -> Finding {
        let mnemonic = self
            .module
            .mnemonics
            .get(broken.instruction.mnemonic.0 as usize);
        let text = mnemonic.map_or("", |mnemonic| mnemonic.text());
        let (rule, what) = match broken.how {
            addresses::How::Nowhere => (
                Rule::Addresses,
                format!(
                    "accesses memory at an address that comes from no argument, variable or pointer ({text})"
                ),
            ),
            addresses::How::Number(address) => (
                Rule::Addresses,
                format!("accesses memory at the constant address {address:#x} ({text})"),
            ),
            addresses::How::Table => (
                Rule::Variables,
                format!("writes to a table of its own ({text})"),
            ),
        };
        Finding {
            rule,
            what,
            place: place(broken.function, broken.instruction),
        }
    }
}

fn place(function: &Function, instruction: &Instruction) -> String {
    format!(
        "in {}, line {} of its PTX",
        crate::names::readable(&function.name),
        instruction.pos.line
    )
}
