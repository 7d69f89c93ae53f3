//! One instruction: guard, form, operands.

use super::CheckError;
use super::function::BodyChecker;
use super::names::Entity;
use crate::isa::{Form, FormId, Forms, Mnemonic, OperandKind, OperandSpec, ScalarType, Word};
use crate::tree::{self, Guard};
use crate::typed::{self, Operand, RegId};

/// Why a form does not fit: how many operands did, and what is wrong with the next.
struct Misfit {
    fitted: usize,
    error: CheckError,
}

impl<'t> BodyChecker<'_, 't> {
    pub(super) fn instruction(&mut self, tree: &tree::Instruction) -> Result<(), CheckError> {
        let module = self.checker.tree;
        let mnemonic = module.mnemonics.get(tree.mnemonic.0 as usize);
        let mnemonic = mnemonic.ok_or_else(|| CheckError::Unknown {
            what: "mnemonic",
            name: "".into(),
        })?;
        let guard = tree.guard.map(|guard| self.guard(guard)).transpose()?;
        if mnemonic.forms().is_empty() {
            return Err(no_form(mnemonic));
        }
        let operands = self.body.range(tree.operands);
        let mut best: Option<Misfit> = None;
        for &id in mnemonic.forms() {
            let Some(form) = Forms::table().get(id) else {
                continue;
            };
            let arena = self.out.operands.len();
            match self.form(mnemonic, form, operands) {
                Ok(list) => {
                    self.push(tree, guard, id, &list);
                    return Ok(());
                }
                Err(misfit) => {
                    self.out.operands.truncate(arena);
                    if best.as_ref().is_none_or(|best| misfit.fitted > best.fitted) {
                        best = Some(misfit);
                    }
                }
            }
        }
        Err(best.map_or_else(|| no_form(mnemonic), |misfit| misfit.error))
    }

    fn push(
        &mut self,
        tree: &tree::Instruction,
        guard: Option<(RegId, bool)>,
        form: FormId,
        list: &[Operand],
    ) {
        let first_operand = self.out.operands.len() as u32;
        self.out.operands.extend_from_slice(list);
        self.out.instructions.push(typed::Instruction {
            pos: tree.pos,
            guard,
            mnemonic: tree.mnemonic,
            form,
            first_operand,
            operands: list.len() as u32,
        });
    }

    fn guard(&mut self, guard: Guard) -> Result<(RegId, bool), CheckError> {
        let name = self.checker.text(guard.register).into();
        match self.resolve(guard.register)? {
            Entity::Register {
                first,
                vector: 1,
                ty: ScalarType::Pred,
            } => Ok((first, guard.negated)),
            Entity::Register { ty, .. } => Err(CheckError::Guard {
                name,
                ty: ty.text(),
            }),
            other => Err(CheckError::WrongKind {
                name,
                is: other.what(),
                expected: "a predicate register",
            }),
        }
    }

    fn form(
        &mut self,
        mnemonic: &Mnemonic,
        form: &Form,
        operands: &[tree::Operand],
    ) -> Result<Vec<Operand>, Misfit> {
        if let [only] = form.operands.as_slice()
            && only.kind == OperandKind::Call
        {
            return self
                .call(operands)
                .map_err(|error| Misfit { fitted: 0, error });
        }
        let specs: Vec<_> = form
            .operands
            .iter()
            .filter_map(|spec| Some((spec, spec.needed_by(mnemonic)?)))
            .collect();
        let least = specs.iter().filter(|(_, optional)| !optional).count();
        if operands.len() < least || operands.len() > specs.len() {
            let expected = match (least, specs.len()) {
                (least, most) if least == most => least.to_string(),
                (least, most) => format!("{least} to {most}"),
            };
            return Err(Misfit {
                fitted: 0,
                error: CheckError::OperandCount {
                    mnemonic: mnemonic.text().into(),
                    expected: expected.into(),
                    found: operands.len(),
                },
            });
        }
        let mut list = Vec::with_capacity(operands.len());
        self.assign(mnemonic, &specs, operands, &mut list)?;
        Ok(list)
    }

    /// Gives each operand a place; optional places are left out where that is needed.
    fn assign(
        &mut self,
        mnemonic: &Mnemonic,
        specs: &[(&OperandSpec, bool)],
        operands: &[tree::Operand],
        list: &mut Vec<Operand>,
    ) -> Result<(), Misfit> {
        let (Some((&(spec, optional), specs)), Some((operand, rest))) =
            (specs.split_first(), operands.split_first())
        else {
            return Ok(());
        };
        let least = specs.iter().filter(|(_, optional)| !optional).count();
        if optional && rest.len() < least {
            return self.assign(mnemonic, specs, operands, list);
        }
        let (fitted, arena) = (list.len(), self.out.operands.len());
        let misfit = match self.operand(mnemonic, spec, operand) {
            Ok(made) => {
                list.push(made);
                match self.assign(mnemonic, specs, rest, list) {
                    Ok(()) => return Ok(()),
                    Err(misfit) => misfit,
                }
            }
            Err(misfit) => Misfit {
                fitted,
                error: misfit.at(mnemonic, fitted + 1),
            },
        };
        list.truncate(fitted);
        self.out.operands.truncate(arena);
        // Leaving the place out helps only where there are enough others.
        if optional && operands.len() <= specs.len() {
            return self
                .assign(mnemonic, specs, operands, list)
                .map_err(|other| {
                    if other.fitted > misfit.fitted {
                        other
                    } else {
                        misfit
                    }
                });
        }
        Err(misfit)
    }
}

/// No form has these modifiers: says which is wrong.
fn no_form(mnemonic: &Mnemonic) -> CheckError {
    let table = Forms::table();
    let forms = table
        .of(mnemonic.opcode())
        .iter()
        .filter_map(|&id| table.get(id));
    let has = |form: &Form, word: Word| form.slots.iter().any(|slot| slot.words.contains(&word));
    let opcode = mnemonic.opcode().text();
    for &word in mnemonic.words() {
        if !forms.clone().any(|form| has(form, word)) {
            let mut allowed = Vec::new();
            for slot in forms.clone().flat_map(|form| &form.slots) {
                for word in &slot.words {
                    let text = format!(".{word}");
                    if !allowed.contains(&text) {
                        allowed.push(text);
                    }
                }
            }
            let allowed = match allowed.is_empty() {
                true => "none".to_owned(),
                false => allowed.join(" "),
            };
            return CheckError::Modifier {
                opcode,
                word: word.text(),
                allowed: allowed.into(),
            };
        }
    }
    // The form with most of the words and fewest places that stay empty.
    let nearest = forms.max_by_key(|form| {
        let words = mnemonic.words().iter();
        let found = words.filter(|&&word| has(form, word)).count() as i64;
        let required = form.slots.iter().filter(|slot| !slot.optional);
        let empty = required.filter(|slot| !slot.words.iter().any(|w| mnemonic.has(*w)));
        found * 2 - empty.count() as i64
    });
    CheckError::Form {
        opcode,
        mnemonic: mnemonic.text().into(),
        nearest: nearest.map_or("", |form| &form.spelled).into(),
    }
}
