//! One declared name: `.align 8 .v2 .f32 name[3][4]`.

use super::PtrSpace;
use super::lexer::{Lexer, Token};

/// A type with what stands around it: `.align 8 .v2 .f32 name[3][4]`.
#[derive(Default)]
pub(super) struct Declarator<'a> {
    pub name: &'a [u8],
    pub ty: &'a [u8],
    vector: u64,
    align: Option<u64>,
    pub managed: bool,
    pub ptr: Option<PtrSpace>,
    pub pointee_align: Option<u64>,
    /// Product of the array lengths, 0 with an empty one; `None` when it is not known.
    count: Option<u64>,
}

impl<'a> Declarator<'a> {
    /// Modifiers, type, name and array lengths. Stops in front of `,`, `)`, `=` or `;`.
    pub fn read(lexer: &mut Lexer<'a>) -> Self {
        let start = Declarator {
            vector: 1,
            ..Declarator::default()
        };
        start.next(lexer)
    }

    /// The next name behind a comma, with the same type.
    pub fn next(self, lexer: &mut Lexer<'a>) -> Self {
        let mut found = Declarator {
            name: b"",
            count: Some(1),
            ..self
        };
        while let Some(token) = lexer.peek() {
            match token {
                Token::Punct(b',' | b')' | b'=' | b';' | b'{' | b'}') => break,
                _ => _ = lexer.next(),
            }
            match token {
                Token::Dot(b"align") => {
                    let align = lexer.number().filter(|align| align.is_power_of_two());
                    if found.ptr.is_some() {
                        found.pointee_align = align;
                    } else {
                        found.align = align;
                    }
                }
                Token::Dot(b"attribute") if lexer.take(b'(') => {
                    found.managed |= attributes(lexer);
                }
                Token::Dot(b"ptr") => found.ptr = Some(PtrSpace::Generic),
                Token::Dot(b"global") if found.ptr.is_some() => found.ptr = Some(PtrSpace::Global),
                Token::Dot(b"const") if found.ptr.is_some() => found.ptr = Some(PtrSpace::Const),
                Token::Dot(b"shared") if found.ptr.is_some() => found.ptr = Some(PtrSpace::Shared),
                Token::Dot(b"local") if found.ptr.is_some() => found.ptr = Some(PtrSpace::Local),
                Token::Dot(b"v2") => found.vector = 2,
                Token::Dot(b"v4") => found.vector = 4,
                Token::Dot(b"v8") => found.vector = 8,
                Token::Dot(word) if element_size(word).is_some() => found.ty = word,
                Token::Name(name) => found.name = name,
                Token::Punct(b'[') => {
                    let length = match lexer.peek() {
                        Some(Token::Punct(b']')) => Some(0),
                        _ => lexer.number(),
                    };
                    if !lexer.take(b']') {
                        // An expression.
                        lexer.skip_block(b'[', b']');
                        found.count = None;
                    }
                    found.count = found.count.and_then(|count| count.checked_mul(length?));
                }
                _ => {}
            }
        }
        found
    }

    /// Size in bytes, when it is known.
    pub fn size(&self) -> Option<u64> {
        element_size(self.ty)?
            .checked_mul(self.vector)?
            .checked_mul(self.count?)
    }

    /// Alignment in bytes.
    pub fn alignment(&self) -> u64 {
        let natural = element_size(self.ty)
            .unwrap_or(1)
            .saturating_mul(self.vector);
        self.align.unwrap_or(natural).max(1)
    }
}

/// Behind `.attribute(`: whether `.managed` is among the attributes.
fn attributes(lexer: &mut Lexer<'_>) -> bool {
    let mut managed = false;
    let mut depth = 1u64;
    while depth > 0 {
        match lexer.next() {
            None => break,
            Some(Token::Punct(b'(')) => depth += 1,
            Some(Token::Punct(b')')) => depth -= 1,
            Some(token) => managed |= token == Token::Dot(b"managed"),
        }
    }
    managed
}

fn element_size(ty: &[u8]) -> Option<u64> {
    Some(match ty {
        b"b8" | b"u8" | b"s8" => 1,
        b"b16" | b"u16" | b"s16" | b"f16" | b"bf16" => 2,
        b"b32" | b"u32" | b"s32" | b"f32" | b"f16x2" | b"bf16x2" | b"tf32" => 4,
        b"b64" | b"u64" | b"s64" | b"f64" | b"f32x2" => 8,
        b"texref" | b"samplerref" | b"surfref" => 8,
        b"b128" | b"u128" | b"s128" => 16,
        _ => return None,
    })
}
