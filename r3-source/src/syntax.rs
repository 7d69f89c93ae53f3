//! The tree of a file.

use std::ops::Range;

/// A file's text and its tree.
#[derive(Clone, Debug)]
pub struct Unit {
    text: String,
    tree: tree_sitter::Tree,
}

/// Why a text has no tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The parser gave up: the text is too long or too deep.
    #[error("the text cannot be parsed as CUDA C++")]
    Unparsable,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without what qualifies it.
    pub name: String,
    /// Whether it is `__global__`.
    pub kernel: bool,
    /// Whether it is `__device__`.
    pub device: bool,
    /// The whole definition, template header included, in bytes.
    pub span: Range<usize>,
    /// Its body with the braces.
    pub body: Range<usize>,
}

impl Unit {
    /// Parses a file.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let mut parser = tree_sitter::Parser::new();
        parser
            .set_language(&tree_sitter_cuda::LANGUAGE.into())
            .map_err(|_| SyntaxError::Unparsable)?;
        let tree = parser.parse(text, None).ok_or(SyntaxError::Unparsable)?;
        Ok(Self {
            text: text.to_owned(),
            tree,
        })
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &tree_sitter::Tree {
        &self.tree
    }
}
