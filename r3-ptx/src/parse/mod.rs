//! Text to [`tree::Module`](crate::tree::Module), by recursive descent.
//!
//! The files follow the text: [`module`] what stands at module level, [`function`] heads of functions,
//! [`declaration`] variables and parameters, [`initialiser`] their values, [`body`] statements, [`operand`]
//! operands, [`expression`] constant expressions, [`literal`] numbers. Nesting is bounded everywhere, and nothing
//! is reserved for a size that the text merely claims.

mod body;
mod declaration;
mod expression;
mod function;
mod initialiser;
mod intern;
mod literal;
mod module;
mod operand;

use std::borrow::Cow;

use crate::error::{Error, ErrorKind, Errors};
use crate::isa::{Mnemonic, SpecialRegister};
use crate::lexer::Cursor;
use crate::source::Pos;
use crate::tree::{MnemonicId, Module, Name, Operand};
use intern::Interner;

/// Reads a module. A NUL byte ends the text, as it does for the driver.
///
/// # Errors
/// Everything that is found wrong, up to [`Errors::MOST`]: after an error, reading goes on behind the statement.
pub fn parse(text: &str) -> Result<Module, Errors> {
    let text = text.split('\0').next().unwrap_or_default();
    if u32::try_from(text.len()).is_err() {
        let kind = ErrorKind::TooMany {
            what: "bytes",
            limit: u32::MAX,
        };
        let list = vec![Error {
            pos: Pos { line: 1, column: 1 },
            kind,
        }];
        return Err(Errors {
            list,
            stopped: true,
        });
    }
    let mut parser = Parser {
        cursor: Cursor::new(text),
        module: Module::default(),
        names: Interner::new(),
        mnemonics: Interner::new(),
        scratch: Vec::new(),
        hidden: Vec::new(),
        errors: Vec::new(),
    };
    let stopped = parser.module().is_err();
    if parser.errors.is_empty() {
        Ok(parser.module)
    } else {
        Err(Errors {
            list: parser.errors,
            stopped,
        })
    }
}

/// What every function of the parser gives. The error is boxed because there is one a module at most, nearly always.
type Parsed<T> = Result<T, Box<Error>>;

/// Twenty errors were found.
struct Stopped;

struct Parser<'a> {
    cursor: Cursor<'a>,
    module: Module,
    names: Interner<'a, Symbol>,
    mnemonics: Interner<'a, MnemonicId>,
    /// Operands of what is being read, until their number is known.
    scratch: Vec<Operand>,
    /// Special registers whose names are declared in this function.
    hidden: Vec<(Box<str>, SpecialRegister)>,
    errors: Vec<Error>,
}

/// What an identifier stands for before any declaration is looked at.
#[derive(Clone, Copy)]
enum Symbol {
    Name(Name),
    Special(SpecialRegister),
}

impl<'a> Parser<'a> {
    /// An error at the place that is looked at.
    fn expected<T>(&self, what: &str) -> Parsed<T> {
        Err(Box::new(Error {
            pos: self.cursor.pos(),
            kind: ErrorKind::Syntax {
                expected: what.into(),
                found: self.cursor.describe().into(),
            },
        }))
    }

    /// Takes this byte.
    fn expect(&mut self, byte: u8, what: &str) -> Parsed<()> {
        if self.cursor.eat(byte) {
            Ok(())
        } else {
            self.expected(what)
        }
    }

    /// Keeps an error. Enough of them end the reading.
    fn keep(&mut self, error: Error) -> Result<(), Stopped> {
        self.errors.push(error);
        if self.errors.len() < Errors::MOST {
            Ok(())
        } else {
            Err(Stopped)
        }
    }

    /// Takes the name of something declared. A declaration hides a special register of that name, up to the end of
    /// the function.
    fn declared_name(&mut self) -> Parsed<(Pos, Name)> {
        let pos = self.cursor.pos();
        let Some(text) = self.cursor.name() else {
            return self.expected("a name");
        };
        match self.symbol(text) {
            Symbol::Name(name) => Ok((pos, name)),
            Symbol::Special(_) => Ok((pos, self.hide(text))),
        }
    }

    /// Makes a name of what was a special register.
    fn hide(&mut self, text: &'a str) -> Name {
        let name = Name(self.module.names.len() as u32);
        self.module.names.push(text.into());
        if let Symbol::Special(register) = self.symbol(text) {
            self.hidden.push((text.into(), register));
        }
        self.names.replace(text, Symbol::Name(name));
        name
    }

    /// At the end of a function, special registers are themselves again.
    fn unhide(&mut self) {
        for (text, register) in std::mem::take(&mut self.hidden) {
            self.names.replace(&text, Symbol::Special(register));
        }
    }

    /// What an identifier stands for.
    fn symbol(&mut self, text: &'a str) -> Symbol {
        let names = &mut self.module.names;
        let found = self.names.intern(Cow::Borrowed(text), |text| {
            if text.starts_with('%')
                && let Some(register) = SpecialRegister::from_text(text)
            {
                return Ok::<_, std::convert::Infallible>(Symbol::Special(register));
            }
            // Fewer than 2^32: the text has fewer bytes.
            let name = Name(names.len() as u32);
            names.push(text.into());
            Ok(Symbol::Name(name))
        });
        match found {
            Ok(symbol) => symbol,
        }
    }

    /// Takes an identifier that the text gives a meaning.
    fn name(&mut self, what: &str) -> Parsed<Name> {
        let before = self.cursor;
        let Some(text) = self.cursor.name() else {
            return self.expected(what);
        };
        match self.symbol(text) {
            Symbol::Name(name) => Ok(name),
            Symbol::Special(_) => {
                self.cursor = before;
                self.expected(&format!("{what}, not a special register"))
            }
        }
    }

    /// Takes an identifier together with its place.
    fn placed_name(&mut self, what: &str) -> Parsed<(Pos, Name)> {
        let pos = self.cursor.pos();
        Ok((pos, self.name(what)?))
    }

    /// `a, b, c;`
    fn names(&mut self, what: &str) -> Parsed<Vec<Name>> {
        let mut names = vec![self.name(what)?];
        while self.cursor.eat(b',') {
            names.push(self.name(what)?);
        }
        self.expect(b';', "`,` or `;`")?;
        Ok(names)
    }

    /// `"a", "b";`
    fn strings(&mut self) -> Parsed<Vec<Box<str>>> {
        let mut strings = Vec::new();
        loop {
            let Some(text) = self.cursor.string() else {
                return self.expected("a string in quotes");
            };
            strings.push(text.into());
            if !self.cursor.eat(b',') {
                break;
            }
        }
        self.expect(b';', "`,` or `;`")?;
        Ok(strings)
    }

    /// The id of a mnemonic, which is analysed where it is new.
    fn mnemonic(&mut self, pos: Pos, text: Cow<'a, str>) -> Parsed<MnemonicId> {
        let mnemonics = &mut self.module.mnemonics;
        self.mnemonics
            .intern(text, |text| {
                let mnemonic = Mnemonic::parse(text)?;
                let id = MnemonicId(mnemonics.len() as u32);
                mnemonics.push(mnemonic);
                Ok(id)
            })
            .map_err(|error: crate::isa::MnemonicError| {
                let mut pos = pos;
                if let crate::isa::MnemonicError::UnknownWord { offset, .. } = &error {
                    pos.column = pos.column.saturating_add(*offset as u32);
                }
                Box::new(Error {
                    pos,
                    kind: error.into(),
                })
            })
    }

    /// An error about something whose value cannot be.
    fn bad_value<T>(&self, pos: Pos, what: &str, why: &'static str) -> Parsed<T> {
        Err(Box::new(Error {
            pos,
            kind: ErrorKind::Value {
                what: what.into(),
                why,
            },
        }))
    }

    /// An error about nesting.
    fn too_deep<T>(&self, what: &'static str, limit: u32) -> Parsed<T> {
        Err(Box::new(Error {
            pos: self.cursor.pos(),
            kind: ErrorKind::TooDeep { what, limit },
        }))
    }
}
