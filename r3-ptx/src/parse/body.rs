//! Statements.

use std::borrow::Cow;

use super::module::Failure;
use super::{Parsed, Parser};
use crate::isa::Opcode;
use crate::source::Pos;
use crate::tree::{Body, Guard, Instruction, Linkage, Name, Statement};

impl<'a> Parser<'a> {
    /// `{ … }`
    pub(super) fn body(&mut self) -> Result<Body, Failure> {
        let mut body = Body::default();
        self.expect(b'{', "`{`")?;
        let mut depth = 0u32;
        loop {
            let before = self.cursor;
            match before.peek() {
                b'{' => {
                    self.cursor.bump();
                    depth += 1;
                    body.statements.push(Statement::BlockBegin(before.pos()));
                }
                b'}' => {
                    self.cursor.bump();
                    let Some(less) = depth.checked_sub(1) else {
                        return Ok(body);
                    };
                    depth = less;
                    body.statements.push(Statement::BlockEnd(before.pos()));
                }
                0 if self.cursor.at_end() => {
                    return Ok(self.expected("a statement, or `}` at the end of the function")?);
                }
                _ => {
                    if let Err(error) = self.statement(&mut body) {
                        self.keep(*error).map_err(|_| Failure::Stopped)?;
                        self.scratch.clear();
                        if self.cursor.offset() == before.offset() {
                            self.cursor.bump();
                        }
                        self.skip_statement();
                    }
                }
            }
        }
    }

    /// After an error: behind the next semicolon, or in front of `}`.
    fn skip_statement(&mut self) {
        while !self.cursor.at_end() {
            match self.cursor.peek() {
                b';' => return self.cursor.bump(),
                b'}' => return,
                b'{' => {
                    self.cursor.bump();
                    self.cursor.skip_block(b'{', b'}');
                }
                b'"' => {
                    if self.cursor.string().is_none() {
                        self.cursor.bump();
                    }
                }
                _ => self.cursor.bump(),
            }
        }
    }

    /// Anything but braces.
    fn statement(&mut self, body: &mut Body) -> Parsed<()> {
        match self.cursor.peek() {
            b'@' if self.cursor.peek_second() == b'@' => {
                let pos = self.cursor.pos();
                let text = self.cursor.rest_of_line().into();
                body.statements.push(Statement::Verbatim(pos, text));
                Ok(())
            }
            b'@' => {
                let pos = self.cursor.pos();
                self.cursor.bump();
                let negated = self.cursor.eat(b'!');
                let register = self.name("a predicate")?;
                let guard = Guard { negated, register };
                let at = self.cursor.pos();
                if !self.cursor.at_name() {
                    return self.expected("an instruction");
                }
                let text = self.mnemonic_text();
                self.instruction(body, pos, Some(guard), at, text)
            }
            b'.' => self.directive(body),
            b';' => {
                self.cursor.bump();
                Ok(())
            }
            _ => {
                let before = self.cursor;
                let pos = before.pos();
                let text = self.mnemonic_text();
                let next = self.cursor.peek();
                if text.is_empty() || next == b':' || next == b'$' && self.cursor.touches() {
                    self.cursor = before;
                    return self.label(body);
                }
                self.instruction(body, pos, None, pos, text)
            }
        }
    }

    /// A mnemonic. Blanks may stand in front of a dot.
    fn mnemonic_text(&mut self) -> Cow<'a, str> {
        let text = self.cursor.mnemonic();
        if self.cursor.peek() != b'.' || text.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut text = text.to_string();
        while self.cursor.peek() == b'.' {
            let more = self.cursor.mnemonic();
            text.push_str(more);
        }
        Cow::Owned(text)
    }

    fn label(&mut self, body: &mut Body) -> Parsed<()> {
        if !self.cursor.at_name() {
            return self.expected("a statement");
        }
        let (pos, name) = self.placed_name("a label")?;
        if !self.cursor.eat(b':') {
            return self.expected("`:` behind a label, or an instruction");
        }
        body.statements.push(Statement::Label(pos, name));
        Ok(())
    }

    fn instruction(
        &mut self,
        body: &mut Body,
        pos: Pos,
        guard: Option<Guard>,
        at: Pos,
        text: Cow<'a, str>,
    ) -> Parsed<()> {
        let mnemonic = self.mnemonic(at, text)?;
        let call = self.module.mnemonic(mnemonic).opcode() == Opcode::Call;
        let operands = self.operands(&mut body.operands, b';', call, 0)?;
        body.statements.push(Statement::Instruction(Instruction {
            pos,
            guard,
            mnemonic,
            operands,
        }));
        Ok(())
    }

    fn directive(&mut self, body: &mut Body) -> Parsed<()> {
        let pos = self.cursor.pos();
        let start = self.cursor.offset();
        let statement = match self.cursor.peek_dot_word() {
            "loc" => {
                self.verbatim_directive()?;
                Statement::Loc(pos, self.cursor.since(start).into())
            }
            "file" | "section" => {
                self.verbatim_directive()?;
                Statement::Verbatim(pos, self.cursor.since(start).into())
            }
            "pragma" => {
                self.cursor.dot_word();
                Statement::Pragma(pos, self.strings()?)
            }
            "branchtargets" => {
                self.cursor.dot_word();
                Statement::BranchTargets(pos, self.names("a label")?)
            }
            "calltargets" => {
                self.cursor.dot_word();
                Statement::CallTargets(pos, self.names("the name of a function")?)
            }
            "callprototype" => {
                self.cursor.dot_word();
                let prototype = self.prototype(last_label(body))?;
                Statement::CallPrototype(pos, Box::new(prototype))
            }
            _ => {
                let linkage = self.linkage();
                return self.variables(linkage, |variable| {
                    body.statements
                        .push(Statement::Variable(Box::new(variable)));
                });
            }
        };
        body.statements.push(statement);
        Ok(())
    }

    /// `.extern .shared` may stand in a body, too.
    fn linkage(&mut self) -> Linkage {
        let linkage = match self.cursor.peek_dot_word() {
            "extern" => Linkage::Extern,
            "visible" => Linkage::Visible,
            "weak" => Linkage::Weak,
            "common" => Linkage::Common,
            _ => return Linkage::Internal,
        };
        self.cursor.dot_word();
        linkage
    }
}

fn last_label(body: &Body) -> Option<(Pos, Name)> {
    match body.statements.last() {
        Some(&Statement::Label(pos, name)) => Some((pos, name)),
        _ => None,
    }
}
