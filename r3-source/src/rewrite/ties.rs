//! What ties the threads of a block together.

use tree_sitter::Node;

use super::meaning::Meaning;
use crate::syntax::walk;

impl<'a> Meaning<'a> {
    /// Whether something ties the threads of a block or a warp together: barriers, shuffles, votes, assembly, calls of what is not
    /// known.
    pub fn ties_threads(&self, part: Node<'a>) -> bool {
        let mut ties = false;
        walk(part, &mut |node| {
            ties |= self.is_opaque(node);
            ties |= match node.kind() {
                "call_expression" => match self.builtin_call(node) {
                    Some((name, _)) => {
                        !super::tables::is_pure(name)
                            && !name.starts_with("atomic")
                            && name != "sincosf"
                            && name != "__sincosf"
                    }
                    None => match node.child_by_field_name("function") {
                        Some(function) => match function.kind() {
                            "primitive_type" => false,
                            "template_function" => {
                                let name = function.child_by_field_name("name");
                                name.is_none_or(|name| {
                                    !super::tables::CASTS.contains(&self.of(name))
                                        && !self.is_quiet(self.of(name))
                                })
                            }
                            "identifier" => !self.is_quiet(self.of(function)),
                            _ => true,
                        },
                        None => true,
                    },
                },
                "gnu_asm_expression" | "lambda_expression" | "goto_statement"
                | "labeled_statement" => true,
                _ => false,
            };
            !ties
        });
        ties
    }

    /// Whether a function of the file, with all that it reaches, ties no threads.
    fn is_quiet(&self, name: &str) -> bool {
        let functions = self.names.functions(name);
        let mut all = Vec::new();
        for node in functions {
            let Some(function) = self.scene.unit.function(*node) else {
                return false;
            };
            all.extend(self.scene.unit.reached(&function));
            all.push(function);
        }
        let tying = [
            "__sync",
            "__shfl",
            "__ballot",
            "__any",
            "__all",
            "__match",
            "__reduce",
            "asm",
            "__activemask",
            "bar",
        ];
        !functions.is_empty()
            && all.iter().all(|function| {
                let text = self.scene.unit.slice(function.body.clone());
                crate::tokens::tokens(text).iter().all(|token| {
                    let opaque =
                        self.names.is_macro(token) && !self.names.macros().is_number(token);
                    !opaque && !tying.iter().any(|word| token.starts_with(word))
                })
            })
    }
}
