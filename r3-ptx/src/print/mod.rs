//! Trees to text.
//!
//! The text is what an assembler needs to make the same code: declarations, instructions and directives in their
//! order. Comments and layout are not kept.

mod body;
mod declaration;

use std::fmt::{self, Display, Formatter};

use crate::tree::{FunctionDirective, Item, Linkage, Module, Name, Number};

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version;
        write!(f, ".version {major}.{minor}\n.target ")?;
        for (i, word) in self.target.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            f.write_str(word)?;
        }
        f.write_str("\n")?;
        if let Some(bits) = self.address_size {
            writeln!(f, ".address_size {bits}")?;
        }
        f.write_str("\n")?;
        let printer = Printer { module: self };
        self.items.iter().try_for_each(|item| printer.item(f, item))
    }
}

/// Prints parts of one module.
#[derive(Clone, Copy)]
struct Printer<'a> {
    module: &'a Module,
}

impl<'a> Printer<'a> {
    fn name(&self, name: Name) -> &'a str {
        self.module.name(name)
    }

    fn item(&self, f: &mut Formatter<'_>, item: &Item) -> fmt::Result {
        match item {
            Item::Variable(variable) => {
                self.variable(f, variable)?;
                f.write_str(";\n")
            }
            Item::Function(function) => self.function(f, function),
            Item::Alias { alias, target, .. } => {
                writeln!(f, ".alias {}, {};", self.name(*alias), self.name(*target))
            }
            Item::Verbatim { text, .. } => writeln!(f, "{text}"),
        }
    }
}

/// Linkage with a blank behind it.
fn linkage(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Internal => "",
        Linkage::Extern => ".extern ",
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
        Linkage::Common => ".common ",
    }
}

/// `"a", "b"`
fn strings(f: &mut Formatter<'_>, list: &[Box<str>]) -> fmt::Result {
    for (i, text) in list.iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        write!(f, "\"{text}\"")?;
    }
    Ok(())
}

fn directive(f: &mut Formatter<'_>, directive: &FunctionDirective) -> fmt::Result {
    match directive {
        FunctionDirective::Numbers(name, numbers) => {
            write!(f, ".{name} ")?;
            for (i, number) in numbers.iter().enumerate() {
                f.write_str(if i > 0 { ", " } else { "" })?;
                write!(f, "{number}")?;
            }
            Ok(())
        }
        FunctionDirective::Flag(name) => write!(f, ".{name}"),
        FunctionDirective::Pragma(list) => {
            f.write_str(".pragma ")?;
            strings(f, list)?;
            f.write_str(";")
        }
        FunctionDirective::Verbatim(text) => f.write_str(text),
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Number::Signed(value) => write!(f, "{value}"),
            // Without the suffix it would be read as signed.
            Number::Unsigned(value) if i64::try_from(value).is_ok() => write!(f, "{value}U"),
            Number::Unsigned(value) => write!(f, "{value}"),
            Number::Single(bits) => write!(f, "0f{bits:08X}"),
            Number::Double(bits) => write!(f, "0d{bits:016X}"),
            Number::Decimal(bits) => {
                let text = format!("{:?}", f64::from_bits(bits));
                match text.split_once('e') {
                    Some((digits, exponent)) if !digits.contains('.') => {
                        write!(f, "{digits}.0e{exponent}")
                    }
                    _ => f.write_str(&text),
                }
            }
        }
    }
}
