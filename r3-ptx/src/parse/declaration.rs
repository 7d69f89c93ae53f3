//! Variables, registers and parameters.

use super::{Parsed, Parser};
use crate::isa::{ScalarType, Space};
use crate::source::Pos;
use crate::tree::{Linkage, Name, PtrAttribute, Variable};

/// What stands in front of the names of a declaration.
#[derive(Clone)]
struct Head {
    linkage: Linkage,
    space: Space,
    bank: Option<u32>,
    align: Option<u32>,
    attributes: Vec<Box<str>>,
    vector: u8,
    ty: ScalarType,
    ptr: Option<PtrAttribute>,
}

const MODIFIER: &str = "a type or a modifier of a declaration";

impl Parser<'_> {
    /// Behind the linkage: `.global .align 4 .u32 a, b[4] = {…};`.
    pub(super) fn variables(
        &mut self,
        linkage: Linkage,
        mut found: impl FnMut(Variable),
    ) -> Parsed<()> {
        let head = self.head(linkage)?;
        loop {
            let mut variable = self.declarator(&head)?;
            if self.cursor.eat(b'=') {
                variable.init = Some(self.initialiser(head.ty)?);
            }
            found(variable);
            if !self.cursor.eat(b',') {
                break;
            }
        }
        self.expect(b';', "`,`, `=` or `;`")
    }

    /// `(.param .u64 a, .reg .u32 b)`, behind the parenthesis.
    pub(super) fn parameters(&mut self) -> Parsed<Vec<Variable>> {
        let mut list = Vec::new();
        if self.cursor.eat(b')') {
            return Ok(list);
        }
        loop {
            let head = self.head(Linkage::Internal)?;
            list.push(self.declarator(&head)?);
            if self.cursor.eat(b')') {
                return Ok(list);
            }
            self.expect(b',', "`,` or `)`")?;
        }
    }

    /// From the space to the last modifier, which may come in any order.
    fn head(&mut self, linkage: Linkage) -> Parsed<Head> {
        let before = self.cursor;
        let space = self.cursor.dot_word().and_then(Space::from_text);
        let Some(space) = space.filter(|&space| space != Space::Generic) else {
            self.cursor = before;
            return self.expected("a state space such as `.global`, `.param` or `.reg`");
        };
        let mut head = Head {
            linkage,
            space,
            bank: None,
            align: None,
            attributes: Vec::new(),
            vector: 1,
            ty: ScalarType::Pred,
            ptr: None,
        };
        let mut typed = false;
        if self.cursor.eat(b'[') {
            head.bank = Some(self.small()?);
            self.expect(b']', "`]`")?;
        }
        loop {
            let before = self.cursor;
            let Some(word) = self.cursor.dot_word() else {
                break;
            };
            match (word, &mut head.ptr) {
                ("align", None) => head.align = Some(self.small()?),
                ("align", Some(ptr)) => ptr.align = Some(self.small()?),
                ("ptr", ptr) => *ptr = Some(PtrAttribute::default()),
                ("attribute", _) => self.attributes(&mut head.attributes)?,
                ("v2", _) => head.vector = 2,
                ("v4", _) => head.vector = 4,
                ("v8", _) => head.vector = 8,
                (_, ptr) => {
                    if let Some(ty) = ScalarType::from_text(word) {
                        head.ty = ty;
                        typed = true;
                    } else if let (Some(ptr), Some(space)) = (ptr, Space::from_text(word)) {
                        ptr.space = Some(space);
                    } else {
                        self.cursor = before;
                        return self.expected(MODIFIER);
                    }
                }
            }
        }
        if typed {
            Ok(head)
        } else {
            self.expected("a type such as `.u32` or `.b8`")
        }
    }

    /// `.attribute(.managed, .unified(1, 2))`, behind the word.
    pub(super) fn attributes(&mut self, list: &mut Vec<Box<str>>) -> Parsed<()> {
        self.expect(b'(', "`(`")?;
        loop {
            let Some(word) = self.cursor.dot_word() else {
                return self.expected("an attribute such as `.managed`");
            };
            let mut text = format!(".{word}");
            if self.cursor.eat(b'(') {
                let mut separator = '(';
                loop {
                    text.push(separator);
                    let Some(value) = self.cursor.number() else {
                        return self.expected("a number");
                    };
                    text.push_str(value);
                    if !self.cursor.eat(b',') {
                        break;
                    }
                    separator = ',';
                }
                self.expect(b')', "`,` or `)`")?;
                text.push(')');
            }
            list.push(text.into());
            if !self.cursor.eat(b',') {
                break;
            }
        }
        self.expect(b')', "`,` or `)`")
    }

    /// `name`, `name<4>`, `name[2][3]`.
    fn declarator(&mut self, head: &Head) -> Parsed<Variable> {
        let (pos, name) = self.declared_name()?;
        let count = if self.cursor.eat(b'<') {
            let count = self.small()?;
            self.expect(b'>', "`>`")?;
            Some(count)
        } else {
            None
        };
        let mut dims = Vec::new();
        while self.cursor.eat(b'[') {
            if self.cursor.eat(b']') {
                dims.push(None);
                continue;
            }
            let at = self.cursor.pos();
            let length = self.integer()?;
            let Ok(length) = u64::try_from(length) else {
                return self.bad_value(at, "length of an array", "it is negative");
            };
            dims.push(Some(length));
            self.expect(b']', "`]`")?;
        }
        Ok(variable(head, pos, name, count, dims))
    }
}

fn variable(
    head: &Head,
    pos: Pos,
    name: Name,
    count: Option<u32>,
    dims: Vec<Option<u64>>,
) -> Variable {
    Variable {
        pos,
        linkage: head.linkage,
        space: head.space,
        bank: head.bank,
        align: head.align,
        attributes: head.attributes.clone(),
        vector: head.vector,
        ty: head.ty,
        ptr: head.ptr,
        name,
        count,
        dims,
        init: None,
    }
}
