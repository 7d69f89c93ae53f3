//! Heads of functions, and prototypes.

use super::{Parsed, Parser};
use crate::source::Pos;
use crate::tree::{Function, FunctionDirective, Linkage, Name};

impl Parser<'_> {
    /// Behind `.entry` or `.func`: up to the body or the semicolon, not taken.
    pub(super) fn function_head(&mut self, linkage: Linkage, entry: bool) -> Parsed<Function> {
        let mut attributes = Vec::new();
        let mut directives = Vec::new();
        self.function_directives(&mut attributes, &mut directives)?;
        let results = if !entry && self.cursor.eat(b'(') {
            self.parameters()?
        } else {
            Vec::new()
        };
        self.function_directives(&mut attributes, &mut directives)?;
        let (pos, name) = self.placed_name("the name of the function")?;
        let has_param_list = self.cursor.eat(b'(');
        let params = if has_param_list {
            self.parameters()?
        } else {
            Vec::new()
        };
        self.function_directives(&mut attributes, &mut directives)?;
        Ok(Function {
            pos,
            linkage,
            entry,
            attributes,
            results,
            name,
            params,
            has_param_list,
            directives,
            body: None,
        })
    }

    /// `(results) _ (params) .noreturn;`, behind `.callprototype`.
    pub(super) fn prototype(&mut self, label: Option<(Pos, Name)>) -> Parsed<Function> {
        let Some((pos, name)) = label else {
            return self.expected("`label:` in front of `.callprototype`");
        };
        let results = if self.cursor.eat(b'(') {
            self.parameters()?
        } else {
            Vec::new()
        };
        if self.cursor.name() != Some("_") {
            return self.expected("`_` in place of the name");
        }
        let has_param_list = self.cursor.eat(b'(');
        let params = if has_param_list {
            self.parameters()?
        } else {
            Vec::new()
        };
        let mut attributes = Vec::new();
        let mut directives = Vec::new();
        self.function_directives(&mut attributes, &mut directives)?;
        self.expect(b';', "a directive or `;`")?;
        Ok(Function {
            pos,
            linkage: Linkage::Internal,
            entry: false,
            attributes,
            results,
            name,
            params,
            has_param_list,
            directives,
            body: None,
        })
    }

    /// `.maxntid 256, 1, 1 .noreturn .pragma "…";` and so on.
    fn function_directives(
        &mut self,
        attributes: &mut Vec<Box<str>>,
        list: &mut Vec<FunctionDirective>,
    ) -> Parsed<()> {
        loop {
            let start = self.cursor.offset();
            let Some(word) = self.cursor.dot_word() else {
                return Ok(());
            };
            match word {
                "attribute" => self.attributes(attributes)?,
                "pragma" => list.push(FunctionDirective::Pragma(self.strings()?)),
                _ => {
                    let directive = self.numbers(start, word)?;
                    list.push(directive);
                }
            }
        }
    }

    fn numbers(&mut self, start: usize, word: &str) -> Parsed<FunctionDirective> {
        if self.cursor.peek() == b'"' {
            self.cursor.string();
            return Ok(FunctionDirective::Verbatim(self.cursor.since(start).into()));
        }
        if !self.cursor.at_digit() {
            return Ok(FunctionDirective::Flag(word.into()));
        }
        let mut numbers = vec![self.small()?];
        while self.cursor.eat(b',') {
            numbers.push(self.small()?);
        }
        Ok(FunctionDirective::Numbers(word.into(), numbers))
    }
}
