//! Variables and heads of functions.

use std::fmt::{self, Formatter};

use super::{Printer, directive, linkage};
use crate::tree::{Function, Init, Variable};

impl Printer<'_> {
    /// A declaration without what ends it.
    pub(super) fn variable(&self, f: &mut Formatter<'_>, variable: &Variable) -> fmt::Result {
        f.write_str(linkage(variable.linkage))?;
        write!(f, ".{}", variable.space.text())?;
        if let Some(bank) = variable.bank {
            write!(f, "[{bank}]")?;
        }
        attributes(f, &variable.attributes)?;
        if let Some(align) = variable.align {
            write!(f, " .align {align}")?;
        }
        if variable.vector > 1 {
            write!(f, " .v{}", variable.vector)?;
        }
        write!(f, " .{}", variable.ty.text())?;
        if let Some(ptr) = variable.ptr {
            f.write_str(" .ptr")?;
            if let Some(space) = ptr.space {
                write!(f, " .{}", space.text())?;
            }
            if let Some(align) = ptr.align {
                write!(f, " .align {align}")?;
            }
        }
        write!(f, " {}", self.name(variable.name))?;
        if let Some(count) = variable.count {
            write!(f, "<{count}>")?;
        }
        for dim in &variable.dims {
            match dim {
                Some(length) => write!(f, "[{length}]")?,
                None => f.write_str("[]")?,
            }
        }
        if let Some(init) = &variable.init {
            f.write_str(" = ")?;
            self.init(f, init)?;
        }
        Ok(())
    }

    fn init(&self, f: &mut Formatter<'_>, init: &Init) -> fmt::Result {
        match init {
            Init::Number(number) => write!(f, "{number}"),
            Init::Fields(text) => f.write_str(text),
            Init::List(list) => {
                f.write_str("{")?;
                for (i, init) in list.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    self.init(f, init)?;
                }
                f.write_str("}")
            }
            Init::Address {
                name,
                offset,
                generic,
                mask,
            } => {
                if let Some(mask) = mask {
                    write!(f, "0x{mask:X}(")?;
                }
                let name = self.name(*name);
                if *generic {
                    write!(f, "generic({name})")?;
                } else {
                    f.write_str(name)?;
                }
                if *offset != 0 {
                    write!(f, "+{offset}")?;
                }
                f.write_str(if mask.is_some() { ")" } else { "" })
            }
        }
    }

    /// `(a, b)`
    pub(super) fn parameters(
        &self,
        f: &mut Formatter<'_>,
        list: &[Variable],
        separator: &str,
    ) -> fmt::Result {
        f.write_str("(")?;
        for (i, variable) in list.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            f.write_str(separator)?;
            self.variable(f, variable)?;
        }
        f.write_str(")")
    }

    pub(super) fn function(&self, f: &mut Formatter<'_>, function: &Function) -> fmt::Result {
        f.write_str(linkage(function.linkage))?;
        f.write_str(if function.entry { ".entry" } else { ".func" })?;
        attributes(f, &function.attributes)?;
        f.write_str(" ")?;
        if !function.results.is_empty() {
            self.parameters(f, &function.results, "")?;
            f.write_str(" ")?;
        }
        f.write_str(self.name(function.name))?;
        if function.has_param_list {
            self.parameters(f, &function.params, "\n\t")?;
        }
        for found in &function.directives {
            f.write_str("\n")?;
            directive(f, found)?;
        }
        match &function.body {
            None => f.write_str(";\n"),
            Some(body) => {
                f.write_str("\n{\n")?;
                self.body(f, body)?;
                f.write_str("}\n")
            }
        }
    }
}

fn attributes(f: &mut Formatter<'_>, list: &[Box<str>]) -> fmt::Result {
    if list.is_empty() {
        return Ok(());
    }
    write!(f, " .attribute({})", list.join(", "))
}
