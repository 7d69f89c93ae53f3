//! What stands at module level.

use super::{Parsed, Parser, Stopped};
use crate::tree::{Item, Linkage};

impl Parser<'_> {
    /// Reads everything.
    pub(super) fn module(&mut self) -> Result<(), Stopped> {
        if let Err(error) = self.header() {
            self.keep(*error)?;
            self.skip_item();
        }
        while !self.cursor.at_end() {
            let before = self.cursor.offset();
            self.scratch.clear();
            match self.item() {
                Ok(()) => {}
                Err(Failure::Stopped) => return Err(Stopped),
                Err(Failure::Error(error)) => {
                    self.keep(*error)?;
                    if self.cursor.offset() == before {
                        self.cursor.bump();
                    }
                    self.skip_item();
                }
            }
        }
        Ok(())
    }

    /// `.version` and `.target`, which come first.
    fn header(&mut self) -> Parsed<()> {
        if self.cursor.peek_dot_word() != "version" {
            return self.expected("`.version`, with which PTX begins");
        }
        self.cursor.dot_word();
        self.version()?;
        if self.cursor.peek_dot_word() != "target" {
            return self.expected("`.target`, which follows `.version`");
        }
        self.cursor.dot_word();
        self.target()
    }

    fn version(&mut self) -> Parsed<()> {
        let before = self.cursor;
        let version = self.cursor.number().and_then(|text| {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        match version {
            Some(version) => self.module.version = version,
            None => {
                self.cursor = before;
                return self.expected("a version such as 8.7");
            }
        }
        Ok(())
    }

    fn target(&mut self) -> Parsed<()> {
        loop {
            let Some(word) = self.cursor.name() else {
                return self.expected("a target such as sm_90a");
            };
            if !self.module.target.iter().any(|known| known == word) {
                self.module.target.push(word.into());
            }
            if !self.cursor.eat(b',') {
                return Ok(());
            }
        }
    }

    fn item(&mut self) -> Result<(), Failure> {
        let pos = self.cursor.pos();
        let start = self.cursor.offset();
        match self.cursor.peek() {
            b'@' if self.cursor.peek_second() == b'@' => {
                let text = self.cursor.rest_of_line().into();
                self.module.items.push(Item::Verbatim { pos, text });
                return Ok(());
            }
            // Behind a body, some write a semicolon.
            b';' => {
                self.cursor.bump();
                return Ok(());
            }
            _ => {}
        }
        match self.cursor.peek_dot_word() {
            "target" => {
                self.cursor.dot_word();
                self.target()?;
            }
            "address_size" => {
                self.cursor.dot_word();
                self.module.address_size = Some(self.small()?);
            }
            "file" | "section" | "pragma" | "loc" => {
                self.verbatim_directive()?;
                let text = self.cursor.since(start).into();
                self.module.items.push(Item::Verbatim { pos, text });
            }
            "alias" => {
                self.cursor.dot_word();
                let alias = self.name("the new name")?;
                self.expect(b',', "`,`")?;
                let target = self.name("the name of a function")?;
                self.expect(b';', "`;`")?;
                let item = Item::Alias { pos, alias, target };
                self.module.items.push(item);
            }
            _ => self.declaration()?,
        }
        Ok(())
    }

    /// `.file 1 "…"`, `.section … { … }`, `.pragma "…";`, `.loc …`: taken, not looked into.
    pub(super) fn verbatim_directive(&mut self) -> Parsed<()> {
        match self.cursor.dot_word() {
            Some("file") => {
                self.small()?;
                if self.cursor.string().is_none() {
                    return self.expected("a path in quotes");
                }
                while self.cursor.eat(b',') {
                    self.literal()?;
                }
                Ok(())
            }
            Some("section") => {
                if self.cursor.dot_word().is_none() && self.cursor.name().is_none() {
                    return self.expected("the name of a section");
                }
                self.expect(b'{', "`{`")?;
                if !self.cursor.skip_block(b'{', b'}') {
                    return self.expected("`}` at the end of the section");
                }
                Ok(())
            }
            Some("loc") => self.location(),
            Some("pragma") => self.strings().map(|_| ()),
            _ => self.expected("a directive"),
        }
    }

    /// `1 23 5, function_name $L__info_string0+4, inlined_at 1 20 3`, behind `.loc`.
    fn location(&mut self) -> Parsed<()> {
        for _ in 0..3 {
            self.literal()?;
        }
        while self.cursor.eat(b',') {
            let Some(word) = self.cursor.name() else {
                return self.expected("`function_name` or `inlined_at`");
            };
            if word == "inlined_at" {
                for _ in 0..3 {
                    self.literal()?;
                }
            } else {
                if self.cursor.name().is_none() {
                    return self.expected("a label");
                }
                if self.cursor.peek() == b'+' {
                    self.offset()?;
                }
            }
        }
        Ok(())
    }

    /// A variable or a function, with its linkage.
    fn declaration(&mut self) -> Result<(), Failure> {
        let mut linkage = Linkage::Internal;
        loop {
            let word = self.cursor.peek_dot_word();
            linkage = match word {
                "extern" => Linkage::Extern,
                "visible" => Linkage::Visible,
                "weak" => Linkage::Weak,
                "common" => Linkage::Common,
                "entry" | "func" => {
                    self.cursor.dot_word();
                    let mut function = self.function_head(linkage, word == "entry")?;
                    if self.cursor.peek() == b'{' {
                        function.body = Some(self.body()?);
                        self.unhide();
                    } else if !self.cursor.eat(b';') {
                        return Ok(self.expected("a directive, `{` or `;`")?);
                    }
                    self.module.items.push(Item::Function(function));
                    return Ok(());
                }
                "" => return Ok(self.expected("a directive, a variable or a function")?),
                _ => {
                    let mut found = Vec::new();
                    self.variables(linkage, |variable| found.push(Item::Variable(variable)))?;
                    self.module.items.append(&mut found);
                    return Ok(());
                }
            };
            self.cursor.dot_word();
        }
    }

    /// After an error: behind the next semicolon or block, or in front of what begins an item.
    fn skip_item(&mut self) {
        while !self.cursor.at_end() {
            match self.cursor.peek() {
                b';' => {
                    self.cursor.bump();
                    return;
                }
                b'{' => {
                    self.cursor.bump();
                    self.cursor.skip_block(b'{', b'}');
                    return;
                }
                b'"' => {
                    if self.cursor.string().is_none() {
                        self.cursor.bump();
                    }
                }
                b'.' => {
                    if matches!(
                        self.cursor.peek_dot_word(),
                        "visible" | "extern" | "weak" | "common" | "entry" | "func" | "section"
                    ) {
                        return;
                    }
                    self.cursor.bump();
                }
                _ => self.cursor.bump(),
            }
        }
    }
}

/// Why an item was not read.
pub(super) enum Failure {
    /// An error, not yet kept.
    Error(Box<crate::error::Error>),
    /// Errors are kept, and there are enough of them.
    Stopped,
}

impl From<Box<crate::error::Error>> for Failure {
    fn from(error: Box<crate::error::Error>) -> Self {
        Failure::Error(error)
    }
}
