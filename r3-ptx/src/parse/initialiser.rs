//! Values of variables.

use super::{Parsed, Parser};
use crate::isa::ScalarType;
use crate::tree::{Init, Name, Number};

/// Braces within each other: one for each dimension, and one for vectors.
const DEEPEST: u32 = 32;

impl Parser<'_> {
    /// Behind `=`.
    pub(super) fn initialiser(&mut self, ty: ScalarType) -> Parsed<Init> {
        if matches!(
            ty,
            ScalarType::TexRef | ScalarType::SamplerRef | ScalarType::SurfRef
        ) {
            return self.fields();
        }
        self.value(0)
    }

    /// `{ addr_mode_0 = wrap, … }` of a texture, sampler or surface, also lists of them: as text.
    fn fields(&mut self) -> Parsed<Init> {
        let start = self.cursor.offset();
        self.expect(b'{', "`{`")?;
        if !self.cursor.skip_block(b'{', b'}') {
            return self.expected("`}`");
        }
        Ok(Init::Fields(self.cursor.since(start).into()))
    }

    fn value(&mut self, depth: u32) -> Parsed<Init> {
        if self.cursor.peek() == b'{' {
            if depth >= DEEPEST {
                return self.too_deep("braces of an initialiser", DEEPEST);
            }
            self.cursor.bump();
            let mut list = Vec::new();
            if self.cursor.eat(b'}') {
                return Ok(Init::List(list));
            }
            loop {
                list.push(self.value(depth + 1)?);
                if self.cursor.eat(b'}') {
                    return Ok(Init::List(list));
                }
                self.expect(b',', "`,` or `}`")?;
            }
        }
        if self.cursor.at_name() && self.cursor.peek_name() != "WARP_SZ" {
            return self.symbol_address(None);
        }
        if self.cursor.at_digit() {
            // `0xFF(name)`
            let before = self.cursor;
            let mask = self.literal()?;
            if self.cursor.peek() == b'(' {
                let mask = match mask {
                    Number::Signed(n) => n as u64,
                    Number::Unsigned(n) => n,
                    _ => return self.expected("`,` or `;`"),
                };
                self.cursor.bump();
                let value = self.symbol_address(Some(mask))?;
                self.expect(b')', "`)`")?;
                return Ok(value);
            }
            self.cursor = before;
        }
        Ok(Init::Number(self.constant()?))
    }

    /// `name`, `name+4`, `generic(name)+4`, `generic(name+4)`.
    fn symbol_address(&mut self, mask: Option<u64>) -> Parsed<Init> {
        let generic = self.generic()?;
        let name: Name = self.name("a name of a variable or function")?;
        let mut offset = self.addend()?;
        if generic {
            self.expect(b')', "`)`")?;
            offset = offset.wrapping_add(self.addend()?);
        }
        Ok(Init::Address {
            name,
            offset,
            generic,
            mask,
        })
    }

    /// Takes `generic(`. A variable may have that name, too.
    fn generic(&mut self) -> Parsed<bool> {
        if self.cursor.peek_name() != "generic" {
            return Ok(false);
        }
        let before = self.cursor;
        self.cursor.name();
        let found = self.cursor.eat(b'(');
        if !found {
            self.cursor = before;
        }
        Ok(found)
    }

    fn addend(&mut self) -> Parsed<i64> {
        match self.cursor.peek() {
            b'+' | b'-' => self.offset(),
            _ => Ok(0),
        }
    }
}
