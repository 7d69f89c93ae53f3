//! An instruction as text, for messages.

use crate::program::Linked;
use r3_ptx::typed::{Body, Instruction, Operand, Symbol};
use std::fmt::Write;

/// Prints an instruction with the names of the PTX text.
pub(super) fn instruction(
    linked: &Linked,
    function: u32,
    body: &Body,
    ins: &Instruction,
) -> String {
    let printer = Printer {
        linked,
        function,
        body,
    };
    let mut text = String::new();
    if let Some((register, negated)) = ins.guard {
        let not = if negated { "!" } else { "" };
        let _ = write!(text, "@{not}{} ", printer.register(register.0));
    }
    text.push_str(linked.mnemonic(function, ins.mnemonic).text());
    let operands = body.operands(ins);
    if !operands.is_empty() {
        text.push(' ');
        text.push_str(&printer.list(operands));
    }
    text.push(';');
    text
}

struct Printer<'a> {
    linked: &'a Linked,
    function: u32,
    body: &'a Body,
}

impl Printer<'_> {
    fn register(&self, id: u32) -> &str {
        self.body
            .registers
            .get(id as usize)
            .map_or("?", |r| &r.name)
    }

    fn list(&self, operands: &[Operand]) -> String {
        let texts: Vec<String> = operands.iter().map(|&o| self.operand(o)).collect();
        texts.join(", ")
    }

    fn symbol(&self, symbol: Symbol, offset: i64) -> String {
        let header = self.linked.function(self.function);
        let name = match symbol {
            Symbol::Variable(id) => self
                .linked
                .variable(self.function, id)
                .map(|v| &v.variable.name),
            Symbol::Local(id) => self.body.locals.get(id.0 as usize).map(|v| &v.name),
            Symbol::Param(i) => header.params.get(i as usize).map(|v| &v.name),
            Symbol::Result(i) => header.results.get(i as usize).map(|v| &v.name),
            Symbol::Function(id) => self
                .linked
                .function_id(self.function, id)
                .map(|id| &self.linked.function(id).name),
        };
        match offset {
            0 => name.map_or("?".into(), |n| n.to_string()),
            _ => format!("{}{offset:+}", name.map_or("?", |n| n)),
        }
    }

    fn operand(&self, operand: Operand) -> String {
        match operand {
            Operand::Register(id) => self.register(id.0).into(),
            Operand::NotRegister(id) => format!("!{}", self.register(id.0)),
            Operand::Selected {
                register,
                negated,
                selector,
            } => {
                let minus = if negated { "-" } else { "" };
                let dot = selector.map_or(String::new(), |s| format!(".{s}"));
                format!("{minus}{}{dot}", self.register(register.0))
            }
            Operand::Special(register) => register.to_string(),
            Operand::Number(n) if n < 1 << 16 => n.to_string(),
            Operand::Number(n) => format!("{n:#x}"),
            Operand::Address(symbol, offset) => self.symbol(symbol, offset),
            Operand::Sink => "_".into(),
            Operand::Pair(first) => {
                let pair = self.body.list(first, 2);
                pair.iter()
                    .map(|&o| self.operand(o))
                    .collect::<Vec<_>>()
                    .join("|")
            }
            Operand::Vector(first, len) => format!("{{{}}}", self.list(self.body.list(first, len))),
            Operand::List(first, len) => format!("({})", self.list(self.body.list(first, len))),
            Operand::MemoryRegister(id, 0) => format!("[{}]", self.register(id.0)),
            Operand::MemoryRegister(id, offset) => format!("[{}{offset:+}]", self.register(id.0)),
            Operand::MemorySymbol(symbol, offset) => format!("[{}]", self.symbol(symbol, offset)),
            Operand::MemoryAbsolute(address) => format!("[{address:#x}]"),
            Operand::MemoryList(first, len) => {
                format!("[{}]", self.list(self.body.list(first, len)))
            }
            Operand::Label(target) => self
                .body
                .labels
                .iter()
                .find(|(_, at)| *at == target)
                .map_or_else(
                    || format!("instruction {target}"),
                    |(name, _)| name.to_string(),
                ),
            Operand::BranchTable(_) | Operand::CallTable(_) => "(table)".into(),
            Operand::Prototype(i) => self
                .body
                .prototypes
                .get(i as usize)
                .map_or("?".into(), |p| p.name.to_string()),
        }
    }
}
