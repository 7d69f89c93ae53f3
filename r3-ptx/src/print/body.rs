//! Statements and operands.

use std::fmt::{self, Formatter};

use super::{Printer, directive, strings};
use crate::tree::{Body, Function, Instruction, Name, Operand, Range, Statement};

impl Printer<'_> {
    pub(super) fn body(&self, f: &mut Formatter<'_>, body: &Body) -> fmt::Result {
        body.statements
            .iter()
            .try_for_each(|statement| self.statement(f, body, statement))
    }

    fn statement(&self, f: &mut Formatter<'_>, body: &Body, statement: &Statement) -> fmt::Result {
        match statement {
            Statement::Instruction(instruction) => {
                f.write_str("\t")?;
                self.instruction(f, body, instruction)?;
                f.write_str(";\n")
            }
            Statement::Label(_, name) => {
                f.write_str(self.name(*name))?;
                f.write_str(":\n")
            }
            Statement::Variable(variable) => {
                f.write_str("\t")?;
                self.variable(f, variable)?;
                f.write_str(";\n")
            }
            Statement::BlockBegin(_) => f.write_str("\t{\n"),
            Statement::BlockEnd(_) => f.write_str("\t}\n"),
            Statement::Loc(_, text) | Statement::Verbatim(_, text) => {
                f.write_str("\t")?;
                f.write_str(text)?;
                f.write_str("\n")
            }
            Statement::Pragma(_, list) => {
                f.write_str("\t.pragma ")?;
                strings(f, list)?;
                f.write_str(";\n")
            }
            Statement::BranchTargets(_, names) => self.targets(f, "branchtargets", names),
            Statement::CallTargets(_, names) => self.targets(f, "calltargets", names),
            Statement::CallPrototype(_, function) => self.prototype(f, function),
        }
    }

    fn targets(&self, f: &mut Formatter<'_>, directive: &str, names: &[Name]) -> fmt::Result {
        write!(f, "\t.{directive} ")?;
        for (i, name) in names.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            f.write_str(self.name(*name))?;
        }
        f.write_str(";\n")
    }

    fn prototype(&self, f: &mut Formatter<'_>, function: &Function) -> fmt::Result {
        f.write_str("\t.callprototype ")?;
        if !function.results.is_empty() {
            self.parameters(f, &function.results, "")?;
            f.write_str(" ")?;
        }
        f.write_str("_")?;
        if function.has_param_list {
            f.write_str(" ")?;
            self.parameters(f, &function.params, " ")?;
        }
        for found in &function.directives {
            f.write_str(" ")?;
            directive(f, found)?;
        }
        f.write_str(";\n")
    }

    /// An instruction without its semicolon.
    pub(super) fn instruction(
        &self,
        f: &mut Formatter<'_>,
        body: &Body,
        instruction: &Instruction,
    ) -> fmt::Result {
        if let Some(guard) = instruction.guard {
            f.write_str(if guard.negated { "@!" } else { "@" })?;
            f.write_str(self.name(guard.register))?;
            f.write_str(" ")?;
        }
        f.write_str(self.module.mnemonic(instruction.mnemonic).text())?;
        let operands = body.range(instruction.operands);
        if !operands.is_empty() {
            f.write_str(" ")?;
            self.operands(f, body, operands)?;
        }
        Ok(())
    }

    fn operands(&self, f: &mut Formatter<'_>, body: &Body, list: &[Operand]) -> fmt::Result {
        for (i, operand) in list.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            self.operand(f, body, operand)?;
        }
        Ok(())
    }

    fn operand(&self, f: &mut Formatter<'_>, body: &Body, operand: &Operand) -> fmt::Result {
        let enclosed = |f: &mut Formatter<'_>, open, range: Range, close| {
            f.write_str(open)?;
            self.operands(f, body, body.range(range))?;
            f.write_str(close)
        };
        match *operand {
            Operand::Name(name) => f.write_str(self.name(name)),
            Operand::Element(name, index) => {
                let letter = ["x", "y", "z", "w"].get(usize::from(index));
                f.write_str(self.name(name))?;
                f.write_str(".")?;
                f.write_str(letter.unwrap_or(&"w"))
            }
            Operand::Selected {
                name,
                negated,
                selector,
            } => {
                f.write_str(if negated { "-" } else { "" })?;
                f.write_str(self.name(name))?;
                selector.map_or(Ok(()), |selector| write!(f, ".{selector}"))
            }
            Operand::Special(register) => write!(f, "{register}"),
            Operand::Not(name) => {
                f.write_str("!")?;
                f.write_str(self.name(name))
            }
            Operand::Number(number) => write!(f, "{number}"),
            Operand::Offset(name, offset) => {
                f.write_str(self.name(name))?;
                write!(f, "+{offset}")
            }
            Operand::Sink => f.write_str("_"),
            Operand::WarpSize => f.write_str("WARP_SZ"),
            Operand::Pair(range) => {
                for (i, operand) in body.range(range).iter().enumerate() {
                    f.write_str(if i > 0 { "|" } else { "" })?;
                    self.operand(f, body, operand)?;
                }
                Ok(())
            }
            Operand::Index(range) => {
                if let [array, index] = body.range(range) {
                    self.operand(f, body, array)?;
                    f.write_str("[")?;
                    self.operand(f, body, index)?;
                    f.write_str("]")?;
                }
                Ok(())
            }
            Operand::Vector(range) => enclosed(f, "{", range, "}"),
            Operand::List(range) => enclosed(f, "(", range, ")"),
            Operand::Address(name, offset) => {
                f.write_str("[")?;
                f.write_str(self.name(name))?;
                if offset != 0 {
                    write!(f, "+{offset}")?;
                }
                f.write_str("]")
            }
            Operand::AddressPlusZero(name) => {
                f.write_str("[")?;
                f.write_str(self.name(name))?;
                f.write_str("+0]")
            }
            Operand::AbsoluteAddress(address) => write!(f, "[{address}]"),
            Operand::AddressList(range) => enclosed(f, "[", range, "]"),
        }
    }
}
