//! A file as a list of definitions.

use std::ops::Range;

use r3_source::syntax::{Function, Unit};
use r3_source::tokens::fingerprint;

use super::tokens::placed;

/// A definition, a declaration or a directive of a file, with the comments that touch it.
#[derive(Clone, Debug)]
pub struct Item {
    /// Where, comments that touch it included.
    pub span: Range<usize>,
    /// Its text without them.
    pub bare: String,
    /// What the grammar calls it.
    pub kind: String,
    /// What it defines, without a namespace; empty when it defines nothing.
    pub name: String,
    /// The function, when it is one.
    pub function: Option<Function>,
    /// The same for texts that differ in blanks and comments only.
    pub code: u128,
}

impl Item {
    /// Whether both define the same thing: the same name, and the same types where both are functions.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let same_types = match (&self.function, &other.function) {
            (Some(one), Some(other)) => types(one) == types(other),
            (None, None) => true,
            _ => false,
        };
        !self.name.is_empty() && self.name == other.name && same_types
    }
}

/// The items of a file, in order. Those in namespaces and in `extern "C" { }` count as if they stood alone.
pub fn items(unit: &Unit) -> Vec<Item> {
    let functions = unit.functions();
    let mut items: Vec<Item> = Vec::new();
    let mut comments: Vec<Range<usize>> = Vec::new();
    let mut open = vec![unit.tree().root_node()];
    while let Some(node) = open.pop() {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            let body = child
                .child_by_field_name("body")
                .filter(|body| body.kind() == "declaration_list")
                .filter(|_| {
                    matches!(
                        child.kind(),
                        "namespace_definition" | "linkage_specification"
                    )
                });
            if let Some(body) = body {
                open.push(body);
                continue;
            }
            if child.kind() == "comment" {
                comments.push(child.byte_range());
                continue;
            }
            let span = child.byte_range();
            // A type may have functions in it, and is none.
            let function = functions
                .iter()
                .filter(|_| FUNCTIONS.contains(&child.kind()))
                .find(|function| {
                    span.start <= function.definition.start && function.definition.end <= span.end
                })
                .cloned();
            let mut name = None;
            let mut at = Some(child);
            // The name of what is declared lies within declarators; a type's, within what declares it.
            while let (Some(node), None) = (at, &name) {
                if matches!(
                    node.kind(),
                    "identifier" | "type_identifier" | "field_identifier"
                ) {
                    name = Some(unit.of(node).to_owned());
                }
                at = ["name", "declarator", "type"]
                    .iter()
                    .filter(|field| **field != "type" || node.kind() != "function_definition")
                    .find_map(|field| node.child_by_field_name(field));
            }
            let prototype = function.is_none()
                && unit.of(child).contains('(')
                && child.kind() == "declaration"
                && !unit.of(child).contains('=');
            let name = match &function {
                Some(function) => function.name.clone(),
                None if prototype || !DEFINES.contains(&child.kind()) => String::new(),
                None => name.unwrap_or_default(),
            };
            let bare = unit.of(child).to_owned();
            items.push(Item {
                span,
                code: fingerprint(&bare),
                bare,
                kind: child.kind().to_owned(),
                name,
                function,
            });
        }
    }
    items.sort_by_key(|item| item.span.start);
    comments.retain(|comment| !is_mark(unit.slice(comment.clone())));
    with_comments(unit.text(), &mut items, &comments);
    items
}

/// Kinds that may be a function.
const FUNCTIONS: &[&str] = &[
    "function_definition",
    "template_declaration",
    "linkage_specification",
];

/// Kinds that define something by name.
const DEFINES: &[&str] = &[
    "struct_specifier",
    "class_specifier",
    "union_specifier",
    "enum_specifier",
    "preproc_def",
    "preproc_function_def",
    "declaration",
    "type_definition",
    "alias_declaration",
    "template_declaration",
];

/// Comments become part of what they touch: what follows on the next line, or what stands before them on theirs.
fn with_comments(text: &str, items: &mut [Item], comments: &[Range<usize>]) {
    let mut taken: Vec<usize> = Vec::new();
    for comment in comments {
        let before = items
            .iter_mut()
            .filter(|item| item.span.end <= comment.start)
            .max_by_key(|item| item.span.end);
        if let Some(item) = before
            && text
                .get(item.span.end..comment.start)
                .is_some_and(|between| {
                    !between.contains('\n') && between.trim_matches([' ', '\t', ';']).is_empty()
                })
        {
            item.span.end = comment.end;
            taken.push(comment.start);
        }
    }
    for comment in comments
        .iter()
        .rev()
        .filter(|comment| !taken.contains(&comment.start))
    {
        let behind = items
            .iter_mut()
            .filter(|item| comment.end <= item.span.start)
            .min_by_key(|item| item.span.start);
        if let Some(item) = behind
            && text
                .get(comment.end..item.span.start)
                .is_some_and(|between| {
                    between.trim().is_empty() && between.matches('\n').count() <= 1
                })
        {
            item.span.start = comment.start;
        }
    }
}

/// Whether a line is the comment `// r3: evolve begin` or `end`.
pub fn is_mark_of(line: &str, word: &str) -> bool {
    line.trim()
        .strip_prefix("//")
        .is_some_and(|comment| comment.split_whitespace().eq(["r3:", "evolve", word]))
}

/// Whether a comment marks the begin or end of a region.
fn is_mark(comment: &str) -> bool {
    comment
        .trim_start_matches('/')
        .split_whitespace()
        .take(2)
        .eq(["r3:", "evolve"])
}

/// The text without lines that mark regions.
pub fn without_marks(text: &str) -> String {
    text.split_inclusive('\n')
        .filter(|line| !(line.trim_start().starts_with("//") && is_mark(line.trim())))
        .collect()
}

/// Types of a function's parameters, without what a caller does not see: `const`, `__restrict__`.
pub fn types(function: &Function) -> Vec<String> {
    const UNSEEN: &[&str] = &[
        "const",
        "__restrict__",
        "__restrict",
        "restrict",
        "struct",
        "__grid_constant__",
        "register",
    ];
    function
        .parameters
        .iter()
        .map(|parameter| {
            let mut words: Vec<&str> = placed(&parameter.ty)
                .into_iter()
                .map(|(_, token)| token)
                .filter(|token| !UNSEEN.contains(token))
                .collect();
            // `unsigned` is `unsigned int`, `T a[]` is `T *a`.
            let integer = ["unsigned", "signed", "long", "short"]
                .iter()
                .any(|word| words.contains(word));
            if integer {
                words.retain(|word| *word != "int");
            }
            let open = words.iter().position(|word| *word == "[");
            let close = words.iter().rposition(|word| *word == "]");
            if let (Some(open), Some(close)) = (open, close)
                && open < close
            {
                words.splice(open..=close, ["*"]);
            }
            words.join(" ")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_have_names_and_the_comments_that_touch_them() {
        let text = "#include <a.h>\n#define TILE 16\n// far\n\n// near\nstruct P { int x; __device__ int y() { return x; } };\nconstexpr int N = 4; // how many\nusing T = float;\n\
                    __device__ float f(float);\ntemplate <int M>\n__device__ float g(float x) { return x; }\nnamespace n {\n/* the kernel */\n__global__ void k(const float *__restrict__ a, unsigned int n, float b[4]) {}\n}\n";
        let unit = Unit::parse(text).unwrap();
        let items = items(&unit);
        let named: Vec<(&str, &str)> = items
            .iter()
            .map(|item| {
                (
                    item.name.as_str(),
                    text.get(item.span.clone()).unwrap().lines().next().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            named,
            [
                ("", "#include <a.h>"),
                ("TILE", "#define TILE 16"),
                ("P", "// near"),
                ("N", "constexpr int N = 4; // how many"),
                ("T", "using T = float;"),
                ("", "__device__ float f(float);"),
                ("g", "template <int M>"),
                ("k", "/* the kernel */"),
            ]
        );
        let kernel = items.last().unwrap().function.clone().unwrap();
        assert_eq!(types(&kernel), ["float *", "unsigned", "float *"]);
    }
}
