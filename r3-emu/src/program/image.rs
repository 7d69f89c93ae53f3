//! A kernel with all that it may call: where its shared variables are, and its code.

use super::{KernelInfo, Linked};
use crate::decode::{Code, decode};
use crate::exec::Level;
use r3_ptx::isa::{Opcode, Space};
use r3_ptx::tree::FunctionDirective;
use r3_ptx::typed::{Function, LocalId, Operand, Symbol, VarId, Variable};
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// A kernel with all that it may call.
#[derive(Debug)]
pub(crate) struct Image {
    /// Number of the kernel.
    pub kernel: u32,
    /// Static shared memory, padded to where dynamic shared memory begins.
    pub shared_end: u32,
    static_shared: u32,
    level: Level,
    shared: HashMap<Key, u32>,
    /// By number of the function; made for the first launch.
    code: OnceLock<Vec<OnceLock<Code>>>,
    functions: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Variable(u32),
    Local(u32, u32),
}

impl Image {
    /// Finds what a kernel reaches, and lays out its shared memory.
    pub fn new(linked: &Linked, kernel: u32, level: Level) -> Self {
        let mut found = Found::default();
        found.walk(linked, kernel);
        let mut image = Self {
            kernel,
            shared_end: 0,
            static_shared: 0,
            level,
            shared: HashMap::new(),
            code: OnceLock::new(),
            functions: linked.function_count(),
        };
        let (mut end, mut dynamic_align, mut dynamic) = (0u64, 16, Vec::new());
        for (key, size, align, unsized_array) in found.shared {
            if unsized_array {
                dynamic_align = dynamic_align.max(align);
                dynamic.push(key);
                continue;
            }
            // What does not fit into 32 bits is more than any launch can have.
            let at = end
                .checked_next_multiple_of(align.max(1))
                .unwrap_or(u64::MAX);
            image.shared.insert(key, at as u32);
            end = at.saturating_add(size);
        }
        let short = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        image.static_shared = short(end);
        let padded = end.checked_next_multiple_of(dynamic_align);
        image.shared_end = short(padded.unwrap_or(u64::MAX));
        for key in dynamic {
            image.shared.insert(key, image.shared_end);
        }
        image
    }

    /// What the kernel needs.
    pub fn info(&self, linked: &Linked) -> KernelInfo {
        let function = linked.function(self.kernel);
        let numbers = |name: &str| {
            function.directives.iter().find_map(|d| match d {
                FunctionDirective::Numbers(n, values) if **n == *name => Some(values.as_slice()),
                _ => None,
            })
        };
        let shape = |values: &[u32]| {
            let at = |i: usize| values.get(i).copied().unwrap_or(1);
            [at(0), at(1), at(2)]
        };
        let required_block = numbers("reqntid").map(shape);
        let most = required_block.or_else(|| numbers("maxntid").map(shape));
        let params = function.params.iter().zip(&function.param_offsets);
        KernelInfo {
            name: function.name.to_string(),
            params: params
                .map(|(p, &offset)| (offset, p.size as u32, p.align as u32))
                .collect(),
            param_bytes: function.param_bytes,
            static_shared: self.static_shared,
            local_bytes: local_bytes(function),
            registers: super::pressure::registers(function),
            max_threads: most.map_or(1024, |m| {
                let threads = m.iter().fold(1, |all: u32, n| all.saturating_mul(*n));
                threads.clamp(1, 1024)
            }),
            required_block,
            cluster: numbers("reqnctapercluster").map(shape),
        }
    }

    /// Code of a function.
    pub fn code(&self, linked: &Linked, function: u32) -> Option<&Code> {
        let all = self
            .code
            .get_or_init(|| (0..self.functions).map(|_| OnceLock::new()).collect());
        let slot = all.get(function as usize)?;
        let body = linked.function(function).body.as_ref()?;
        Some(slot.get_or_init(|| decode(linked, self, function, body, self.level)))
    }

    /// Address of a variable of a module in its own space, as the code of `function` sees it.
    pub fn address(&self, linked: &Linked, function: u32, id: VarId) -> Option<u64> {
        let number = linked.variable_id(function, id)?;
        let variable = linked.variable(function, id)?;
        match variable.variable.space {
            Space::Shared | Space::SharedCta => {
                self.shared.get(&Key::Variable(number)).map(|&o| o.into())
            }
            _ => Some(variable.address),
        }
    }

    /// Address of a shared, global or constant variable inside a function.
    pub fn local_address(&self, linked: &Linked, function: u32, id: LocalId) -> Option<u64> {
        match self.shared.get(&Key::Local(function, id.0)) {
            Some(&offset) => Some(offset.into()),
            None => linked.local_address(function, id),
        }
    }
}

/// Bytes of the local variables of a function.
fn local_bytes(function: &Function) -> u32 {
    let locals = function.body.iter().flat_map(|b| &b.locals);
    let bytes = locals
        .filter(|v| v.space == Space::Local)
        .fold(0, |end: u64, v| {
            let at = end.checked_next_multiple_of(v.align.max(1));
            at.unwrap_or(u64::MAX).saturating_add(v.size)
        });
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// What a kernel reaches.
#[derive(Default)]
struct Found {
    functions: Vec<u32>,
    seen: HashSet<u32>,
    shared: Vec<(Key, u64, u64, bool)>,
    keys: HashSet<Key>,
}

impl Found {
    fn walk(&mut self, linked: &Linked, kernel: u32) {
        self.reach(kernel);
        let mut at = 0;
        while let Some(&function) = self.functions.get(at) {
            at += 1;
            self.visit(linked, function);
        }
    }

    fn reach(&mut self, function: u32) {
        if self.seen.insert(function) {
            self.functions.push(function);
        }
    }

    fn visit(&mut self, linked: &Linked, function: u32) {
        let Some(body) = &linked.function(function).body else {
            return;
        };
        for (i, local) in body.locals.iter().enumerate() {
            if matches!(local.space, Space::Shared | Space::SharedCta) {
                self.keep(Key::Local(function, i as u32), local);
            }
        }
        for operand in &body.operands {
            let symbol = match *operand {
                Operand::Address(symbol, _) | Operand::MemorySymbol(symbol, _) => symbol,
                _ => continue,
            };
            match symbol {
                Symbol::Function(id) => {
                    if let Some(id) = linked.function_id(function, id) {
                        self.reach(id);
                    }
                }
                Symbol::Variable(id) => {
                    if let Some(v) = linked.variable(function, id)
                        && let Some(number) = linked.variable_id(function, id)
                        && matches!(v.variable.space, Space::Shared | Space::SharedCta)
                    {
                        self.keep(Key::Variable(number), &v.variable);
                    }
                }
                _ => {}
            }
        }
        for table in &body.call_tables {
            for &id in table {
                if let Some(id) = linked.function_id(function, id) {
                    self.reach(id);
                }
            }
        }
        // A call through a register may go to any function.
        let indirect = body.instructions.iter().any(|ins| {
            linked.mnemonic(function, ins.mnemonic).opcode() == Opcode::Call
                && body
                    .operands(ins)
                    .iter()
                    .any(|o| matches!(o, Operand::Register(_)))
        });
        if indirect {
            for id in 0..linked.function_count() as u32 {
                if !linked.function(id).entry {
                    self.reach(id);
                }
            }
        }
    }

    fn keep(&mut self, key: Key, variable: &Variable) {
        if self.keys.insert(key) {
            let size = if variable.unsized_array {
                0
            } else {
                variable.size
            };
            self.shared
                .push((key, size, variable.align, variable.unsized_array));
        }
    }
}
