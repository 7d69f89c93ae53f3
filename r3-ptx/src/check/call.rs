//! Calls. Checked, they always have: results, callee, arguments, and for an indirect call what is known of
//! its targets, if anything.

use super::CheckError;
use super::function::{BodyChecker, Target};
use super::names::Entity;
use super::operands::{compatible, number, symbol};
use crate::isa::Space;
use crate::tree::{self, Name};
use crate::typed::{Operand, Symbol, Variable};

/// A list of arguments, or of results.
#[derive(Clone, Copy)]
struct Side<'a> {
    what: &'static str,
    list: &'a [tree::Operand],
}

impl<'t> BodyChecker<'_, 't> {
    pub(super) fn call(&mut self, operands: &[tree::Operand]) -> Result<Vec<Operand>, CheckError> {
        use tree::Operand as O;
        let wrong = |found: usize| CheckError::OperandCount {
            mnemonic: "call".into(),
            expected: "(results), function, (arguments), targets: 1 to 4".into(),
            found,
        };
        let (results, rest) = match operands {
            [O::List(range), rest @ ..] => (self.body.range(*range), rest),
            rest => (&[][..], rest),
        };
        let [O::Name(callee), rest @ ..] = rest else {
            return Err(wrong(operands.len()));
        };
        let (arguments, rest) = match rest {
            [O::List(range), rest @ ..] => (self.body.range(*range), rest),
            rest => (&[][..], rest),
        };
        let targets = match rest {
            [] => None,
            [O::Name(name)] => Some(*name),
            _ => return Err(wrong(operands.len())),
        };
        let results = Side {
            what: "results",
            list: results,
        };
        let arguments = Side {
            what: "arguments",
            list: arguments,
        };
        let mut made = Vec::with_capacity(4);
        match self.resolve(*callee)? {
            Entity::Function(id) => {
                let text = self.checker.text(*callee);
                let function = self.checker.out.functions.get(id.0 as usize);
                let (declared_results, params) = function.map_or((Vec::new(), Vec::new()), |f| {
                    (f.results.clone(), f.params.clone())
                });
                made.push(self.list(text, results, Some(&declared_results))?);
                made.push(Operand::Address(Symbol::Function(id), 0));
                made.push(self.list(text, arguments, Some(&params))?);
            }
            Entity::Register { first, ty, .. } if ty.bytes() >= 4 && !ty.is_float() => {
                let targets = targets.map(|name| self.targets(name)).transpose()?;
                let prototype = match targets {
                    Some(Operand::Prototype(n)) => self.out.prototypes.get(n as usize).cloned(),
                    _ => None,
                };
                let text = self.checker.text(*callee);
                let known = prototype.as_ref();
                made.push(self.list(text, results, known.map(|p| p.results.as_slice()))?);
                made.push(Operand::Register(first));
                made.push(self.list(text, arguments, known.map(|p| p.params.as_slice()))?);
                made.extend(targets);
            }
            other => {
                return Err(CheckError::WrongKind {
                    name: self.checker.text(*callee).into(),
                    is: other.what(),
                    expected: "a function, or a register with its address",
                });
            }
        }
        Ok(made)
    }

    fn targets(&self, name: Name) -> Result<Operand, CheckError> {
        match self.target(name) {
            Some(Target::CallTable(table)) => Ok(Operand::CallTable(table)),
            Some(Target::Prototype(prototype)) => Ok(Operand::Prototype(prototype)),
            _ => Err(CheckError::Unknown {
                what: "list of call targets or prototype",
                name: self.checker.text(name).into(),
            }),
        }
    }

    /// A list, against the declared variables where they are known.
    fn list(
        &mut self,
        callee: &str,
        side: Side<'_>,
        declared: Option<&[Variable]>,
    ) -> Result<Operand, CheckError> {
        if let Some(declared) = declared {
            let varargs = declared.last().is_some_and(|last| last.unsized_array);
            let (given, needed) = (side.list.len(), declared.len());
            if given != needed && !(varargs && given + 1 >= needed) {
                return Err(CheckError::Call {
                    function: callee.into(),
                    what: side.what.into(),
                    expected: needed.to_string().into(),
                    found: given.to_string().into(),
                });
            }
        }
        let mut made = Vec::with_capacity(side.list.len());
        for (i, operand) in side.list.iter().enumerate() {
            let declared = declared.and_then(|declared| declared.get(i));
            let operand = self.argument(operand, declared)?;
            made.push(operand.map_err(|(expected, found)| CheckError::Call {
                function: callee.into(),
                what: format!("{} {}:", side.what, i + 1).into(),
                expected: expected.into(),
                found: found.into(),
            })?);
        }
        let at = self.out.operands.len() as u32;
        self.out.operands.extend_from_slice(&made);
        Ok(Operand::List(at, made.len() as u32))
    }

    /// One argument or result. The inner error: what was expected, what is there.
    fn argument(
        &mut self,
        operand: &tree::Operand,
        declared: Option<&Variable>,
    ) -> Result<Result<Operand, (String, String)>, CheckError> {
        let expected = |found: String| {
            let declared = declared.map_or("an argument".into(), describe);
            Ok(Err((declared, found)))
        };
        match *operand {
            tree::Operand::Name(name) => {
                let entity = self.resolve(name)?;
                let text = self.checker.text(name);
                if let Entity::Register {
                    first,
                    ty,
                    vector: 1,
                } = entity
                {
                    let fits =
                        declared.is_none_or(|d| d.unsized_array || compatible(ty, d.ty, true));
                    return match fits {
                        true => Ok(Ok(Operand::Register(first))),
                        false => expected(format!("`{text}` of type .{ty}")),
                    };
                }
                let given = match entity {
                    Entity::Local(id) => self.out.locals.get(id.0 as usize),
                    _ => None,
                };
                if let (Some(given), Some(declared)) = (given, declared) {
                    let fits = declared.unsized_array || declared.size == given.size;
                    if declared.space != Space::Reg && !fits {
                        return expected(describe(given));
                    }
                }
                match symbol(entity) {
                    Some(symbol) => Ok(Ok(Operand::Address(symbol, 0))),
                    None => expected(format!("`{text}`, {}", entity.what())),
                }
            }
            tree::Operand::Number(literal) => {
                let ty = declared.map_or(crate::isa::ScalarType::B64, |d| d.ty);
                match number(literal, ty) {
                    Some(made) => Ok(Ok(made)),
                    None => expected(super::numbers::describe(literal)),
                }
            }
            tree::Operand::Sink => Ok(Ok(Operand::Sink)),
            _ => expected("something that is no register, variable or number".into()),
        }
    }
}

fn describe(variable: &Variable) -> String {
    match variable.space {
        Space::Reg => format!("a register of type .{}", variable.ty),
        _ => format!("a variable of {} bytes", variable.size),
    }
}
