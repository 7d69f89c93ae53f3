//! Operands.

use super::{Parsed, Parser, Symbol};
use crate::isa::{Selector, SpecialRegister};
use crate::lexer::Cursor;
use crate::tree::{Name, Number, Operand, Range};

/// Brackets within each other. PTX has no use for more than three.
const DEEPEST: u32 = 8;

/// What an operand may start with, for messages.
const OPERAND: &str = "an operand";

impl<'a> Parser<'a> {
    /// Takes operands up to `close`, which is taken, too. Behind the mnemonic of a call, `(` opens a list.
    pub(super) fn operands(
        &mut self,
        arena: &mut Vec<Operand>,
        close: u8,
        call: bool,
        depth: u32,
    ) -> Parsed<Range> {
        let base = self.scratch.len();
        if !self.cursor.eat(close) {
            loop {
                let operand = self.operand(arena, call, depth)?;
                self.scratch.push(operand);
                if self.cursor.eat(b',') {
                    continue;
                }
                if self.cursor.eat(close) {
                    break;
                }
                return self.expected(match close {
                    b';' => "`,` or `;`",
                    b']' => "`,`, an offset or `]`",
                    b'}' => "`,` or `}`",
                    _ => "`,` or `)`",
                });
            }
        }
        Ok(self.settle(arena, base))
    }

    /// Moves what was read since `base` into the arena.
    fn settle(&mut self, arena: &mut Vec<Operand>, base: usize) -> Range {
        // Fewer than 2^32: each operand takes a byte of the text or more.
        let start = arena.len() as u32;
        arena.extend(self.scratch.drain(base..));
        Range {
            start,
            len: arena.len() as u32 - start,
        }
    }

    /// Takes one operand, a pair included.
    fn operand(&mut self, arena: &mut Vec<Operand>, call: bool, depth: u32) -> Parsed<Operand> {
        let first = self.single(arena, call, depth)?;
        if self.cursor.peek() != b'|' {
            return Ok(first);
        }
        self.cursor.bump();
        let second = self.single(arena, false, depth)?;
        let start = arena.len() as u32;
        arena.extend([first, second]);
        Ok(Operand::Pair(Range { start, len: 2 }))
    }

    fn single(&mut self, arena: &mut Vec<Operand>, call: bool, depth: u32) -> Parsed<Operand> {
        let before = self.cursor;
        if let Some((text, element)) = self.cursor.dotted_name() {
            return self.named(arena, before, text, element);
        }
        if depth >= DEEPEST {
            return self.too_deep("brackets of operands", DEEPEST);
        }
        match self.cursor.peek() {
            b'[' => self.address(arena, depth),
            b'{' => {
                self.cursor.bump();
                Ok(Operand::Vector(self.operands(
                    arena,
                    b'}',
                    false,
                    depth + 1,
                )?))
            }
            b'(' if call => {
                self.cursor.bump();
                Ok(Operand::List(self.operands(
                    arena,
                    b')',
                    false,
                    depth + 1,
                )?))
            }
            sign @ (b'!' | b'-') => {
                self.cursor.bump();
                if !self.cursor.at_name() || self.cursor.peek_name() == "WARP_SZ" {
                    self.cursor = before;
                    return Ok(Operand::Number(self.constant()?));
                }
                if sign == b'!' {
                    return Ok(Operand::Not(self.name("a predicate")?));
                }
                self.negated()
            }
            b'0'..=b'9' | b'.' | b'+' | b'~' | b'(' => Ok(Operand::Number(self.constant()?)),
            _ => self.expected(OPERAND),
        }
    }

    /// Behind `-`: `a`, `a.b0`.
    fn negated(&mut self) -> Parsed<Operand> {
        let before = self.cursor;
        let Some((text, part)) = self.cursor.dotted_name() else {
            return self.expected("a register or a number");
        };
        let selector = part.map(Selector::from_text);
        match (self.symbol(text), selector) {
            (Symbol::Name(name), None) => Ok(Operand::Selected {
                name,
                negated: true,
                selector: None,
            }),
            (Symbol::Name(name), Some(Some(selector))) => Ok(Operand::Selected {
                name,
                negated: true,
                selector: Some(selector),
            }),
            _ => {
                self.cursor = before;
                self.expected("a register, or one with `.b0` … `.b3`, `.h0`, `.h1`")
            }
        }
    }

    /// An operand that starts with an identifier, which has been taken.
    fn named(
        &mut self,
        arena: &mut Vec<Operand>,
        before: Cursor<'a>,
        text: &'a str,
        element: Option<&'a str>,
    ) -> Parsed<Operand> {
        match text {
            "_" if element.is_none() => return Ok(Operand::Sink),
            "WARP_SZ" if element.is_none() => {
                // Rarely, it is part of an expression.
                return match self.cursor.peek() {
                    b',' | b';' | b']' | b'}' | b')' => Ok(Operand::WarpSize),
                    _ => {
                        self.cursor = before;
                        Ok(Operand::Number(self.constant()?))
                    }
                };
            }
            _ => {}
        }
        let symbol = self.symbol(text);
        match (symbol, element) {
            (Symbol::Name(name), None) => match self.cursor.peek() {
                b'+' | b'-' => Ok(Operand::Offset(name, self.offset()?)),
                b'[' => self.index(arena, name),
                _ => Ok(Operand::Name(name)),
            },
            (Symbol::Special(register), None) => Ok(Operand::Special(register)),
            (Symbol::Special(_), Some(element)) => {
                match SpecialRegister::from_text(&format!("{text}.{element}")) {
                    Some(register) => Ok(Operand::Special(register)),
                    None => self.bad_value(
                        self.cursor.pos(),
                        &format!("`{text}.{element}`"),
                        "no such element before this place",
                    ),
                }
            }
            (Symbol::Name(name), Some(element)) => {
                if let Some(index) = element_index(element) {
                    return Ok(Operand::Element(name, index));
                }
                match Selector::from_text(element) {
                    Some(selector) => Ok(Operand::Selected {
                        name,
                        negated: false,
                        selector: Some(selector),
                    }),
                    None => self.bad_value(
                        self.cursor.pos(),
                        &format!("`{text}.{element}`"),
                        "before this place: elements are .x .y .z .w or .r .g .b .a, selectors .b0 … .h1",
                    ),
                }
            }
        }
    }

    /// `+4`, `-4`, `+-4`: what is added to a name.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        self.cursor.eat(b'+');
        self.integer()
    }

    /// `[1]`, `[%r]`, `[%r+1]` behind the name of an array.
    fn index(&mut self, arena: &mut Vec<Operand>, array: Name) -> Parsed<Operand> {
        self.cursor.bump();
        let index = if self.cursor.at_name() && self.cursor.peek_name() != "WARP_SZ" {
            let register = self.name("an index")?;
            match self.cursor.peek() {
                b'+' | b'-' => Operand::Offset(register, self.offset()?),
                _ => Operand::Name(register),
            }
        } else {
            Operand::Number(self.constant()?)
        };
        self.expect(b']', "an offset or `]`")?;
        let start = arena.len() as u32;
        arena.extend([Operand::Name(array), index]);
        Ok(Operand::Index(Range { start, len: 2 }))
    }

    /// `[…]`
    fn address(&mut self, arena: &mut Vec<Operand>, depth: u32) -> Parsed<Operand> {
        self.cursor.bump();
        // The usual address has no list, and takes no place in the arena.
        let pos = self.cursor.pos();
        let first = self.operand(arena, false, depth + 1)?;
        if self.cursor.eat(b']') {
            match first {
                Operand::Name(name) => return Ok(Operand::Address(name, 0)),
                Operand::Offset(name, 0) => return Ok(Operand::AddressPlusZero(name)),
                Operand::Offset(name, offset) => return Ok(Operand::Address(name, offset)),
                Operand::Number(Number::Signed(n)) => {
                    return Ok(Operand::AbsoluteAddress(n as u64));
                }
                Operand::Number(Number::Unsigned(n)) => return Ok(Operand::AbsoluteAddress(n)),
                Operand::Number(_) => {
                    return self.bad_value(pos, "address", "it is a whole number");
                }
                _ => {
                    let start = arena.len() as u32;
                    arena.push(first);
                    return Ok(Operand::AddressList(Range { start, len: 1 }));
                }
            }
        }
        let base = self.scratch.len();
        self.scratch.push(first);
        self.expect(b',', "`,`, an offset or `]`")?;
        if self.cursor.peek() == b']' {
            return self.expected(OPERAND);
        }
        loop {
            let operand = self.operand(arena, false, depth + 1)?;
            self.scratch.push(operand);
            if self.cursor.eat(b']') {
                break;
            }
            self.expect(b',', "`,` or `]`")?;
        }
        Ok(Operand::AddressList(self.settle(arena, base)))
    }
}

/// `x` and `r` are element 0, and so on.
fn element_index(element: &str) -> Option<u8> {
    let [letter] = element.as_bytes() else {
        return None;
    };
    [b"xr", b"yg", b"zb", b"wa"]
        .iter()
        .position(|letters| letters.contains(letter))
        .map(|index| index as u8)
}
