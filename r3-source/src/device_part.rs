//! What of a file is for the device: compilers that take nothing else (NVRTC) can be given that.
//!
//! Functions, variables and type names for the host, and the standard library's headers that only the host can use, are
//! replaced by blanks. What is left stays on its lines, so that messages of a compiler fit the whole file. It is decided by
//! words (`__device__`, `std::vector`), since nothing is expanded and no type is known: a compiler judges what comes out.

use std::ops::Range;

use tree_sitter::Node;

use crate::syntax::{Unit, walk};

/// Headers for the host alone.
const HOST_HEADERS: &[&str] = &[
    "algorithm",
    "any",
    "atomic",
    "bitset",
    "chrono",
    "condition_variable",
    "cstdarg",
    "cstdio",
    "cstdlib",
    "cstring",
    "ctime",
    "deque",
    "exception",
    "filesystem",
    "fstream",
    "functional",
    "future",
    "iomanip",
    "ios",
    "iosfwd",
    "iostream",
    "istream",
    "iterator",
    "list",
    "locale",
    "map",
    "memory",
    "mutex",
    "new",
    "numeric",
    "optional",
    "ostream",
    "queue",
    "random",
    "regex",
    "set",
    "sstream",
    "stack",
    "stdexcept",
    "string",
    "string_view",
    "system_error",
    "thread",
    "typeinfo",
    "unordered_map",
    "unordered_set",
    "variant",
    "vector",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "time.h",
    "unistd.h",
    "getopt.h",
    "dlfcn.h",
    "mpi.h",
    "omp.h",
    "cuda.h",
    "cuda_profiler_api.h",
    "nvrtc.h",
    "curand.h",
    "nccl.h",
    "thrust/device_vector.h",
    "thrust/host_vector.h",
];

/// How the names of others begin.
const HOST_FAMILIES: &[&str] = &[
    "sys/", "boost/", "nvtx3/", "cublas", "cusparse", "cusolver", "cufft",
];

/// Names of the standard library with which only the host can do anything.
const HOST_NAMES: &[&str] = &[
    "vector",
    "string",
    "string_view",
    "map",
    "set",
    "unordered_map",
    "unordered_set",
    "list",
    "deque",
    "queue",
    "unique_ptr",
    "shared_ptr",
    "function",
    "thread",
    "mutex",
    "ostream",
    "ofstream",
    "ifstream",
    "stringstream",
    "ostringstream",
    "chrono",
    "random_device",
    "mt19937",
    "mt19937_64",
];

/// Words that say that something is for the device, or for both.
const DEVICE_WORDS: &[&str] = &[
    "__device__",
    "__global__",
    "__constant__",
    "__shared__",
    "__managed__",
];

/// The file without functions, variables and includes that are for the host alone.
#[must_use]
pub fn device_part(unit: &Unit) -> String {
    let mut spans: Vec<Range<usize>> = Vec::new();
    walk(unit.tree().root_node(), &mut |node| {
        if let Some(judged) = judge(unit, node) {
            if judged == For::Host {
                spans.push(with_semicolon(unit, node.byte_range()));
            }
            return false;
        }
        true
    });
    blanked(unit.text(), &spans)
}

/// Whether a text has functions that do not say where they run, such as `constexpr` ones and members of types.
#[must_use]
pub fn has_unmarked_functions(unit: &Unit) -> bool {
    let mut found = false;
    walk(unit.tree().root_node(), &mut |node| {
        if node.kind() == "function_definition" {
            let body = node.child_by_field_name("body");
            let end = body.map_or(node.end_byte(), |body| body.start_byte());
            let head = unit.slice(node.start_byte()..end);
            found |= !has_word(head, DEVICE_WORDS) && !head.trim_end().ends_with("default");
        }
        !found
    });
    found
}

/// For whom something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Host,
    Device,
}

/// For whom a node is; `None` asks what is in it.
fn judge(unit: &Unit, node: Node<'_>) -> Option<For> {
    let text = || unit.of(node);
    let host_if = |host: bool| Some(if host { For::Host } else { For::Device });
    match node.kind() {
        "translation_unit"
        | "namespace_definition"
        | "declaration_list"
        | "linkage_specification" => None,
        kind if kind.starts_with("preproc_") => match kind {
            "preproc_include" => host_if(host_header(text())),
            "preproc_if" | "preproc_ifdef" | "preproc_else" | "preproc_elif" => None,
            _ => Some(For::Device),
        },
        "function_definition" => {
            let body = node.child_by_field_name("body");
            let end = body.map_or(node.end_byte(), |body| body.start_byte());
            host_if(host_function(unit.slice(node.start_byte()..end)))
        }
        "template_declaration" => {
            let mut cursor = node.walk();
            let inner = node.named_children(&mut cursor).last()?;
            match inner.kind() {
                "template_declaration" | "concept_definition" => Some(For::Device),
                _ => judge(unit, inner),
            }
        }
        // Of kernels alone there is something to instantiate.
        "template_instantiation" => host_if(!has_word(text(), &["__global__", "__device__"])),
        "declaration" => host_if(host_declaration(unit, node)),
        "struct_specifier" | "class_specifier" | "union_specifier" | "alias_declaration"
        | "type_definition" => host_if(names_host(text())),
        "using_declaration" => host_if(text().contains("std")),
        // What the parser could not make out, and the rest.
        _ => Some(For::Device),
    }
}

fn host_header(line: &str) -> bool {
    let name = line
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(name, _)| name.trim());
    name.is_some_and(|name| {
        let families = HOST_FAMILIES.iter().any(|start| name.starts_with(start));
        families || HOST_HEADERS.contains(&name)
    })
}

/// By the words before its body.
fn host_function(head: &str) -> bool {
    !has_word(head, DEVICE_WORDS) && !has_word(head, &["constexpr", "consteval"])
}

fn host_declaration(unit: &Unit, node: Node<'_>) -> bool {
    let text = unit.of(node);
    if has_word(text, DEVICE_WORDS) {
        return false;
    }
    let mut function = false;
    let mut called = false;
    walk(node, &mut |part| {
        function |= part.kind() == "function_declarator";
        called |= part.kind() == "call_expression";
        !matches!(part.kind(), "field_declaration_list")
    });
    if has_word(text, &["constexpr", "constinit"]) {
        return names_host(text);
    }
    if has_word(text, &["struct", "class", "union", "enum"]) && !function && !text.contains('=') {
        return names_host(text);
    }
    // Numbers that never change can be used by both.
    let number = has_word(text, &["const"]) && !called && !function && !text.contains('*');
    !number || names_host(text)
}

/// Whether a text names something of the standard library for the host alone.
fn names_host(text: &str) -> bool {
    text.match_indices("std::").any(|(at, start)| {
        let rest = text.get(at + start.len()..).unwrap_or_default();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        HOST_NAMES.contains(&rest.get(..end).unwrap_or_default())
    })
}

fn has_word(text: &str, words: &[&str]) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .any(|part| words.contains(&part))
}

/// With the semicolon that ends a type's definition.
fn with_semicolon(unit: &Unit, span: Range<usize>) -> Range<usize> {
    let after = unit.slice(span.end..unit.text().len());
    let trimmed = after.trim_start();
    match trimmed.starts_with(';') {
        true => span.start..span.end + (after.len() - trimmed.len()) + 1,
        false => span,
    }
}

/// A text with blanks in place of some parts, which are in order; lines stay.
fn blanked(text: &str, spans: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        if span.start < at {
            continue;
        }
        out.push_str(text.get(at..span.start).unwrap_or_default());
        let part = text.get(span.clone()).unwrap_or_default();
        out.extend(part.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        at = span.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(text: &str) -> String {
        device_part(&Unit::parse(text).unwrap())
    }

    /// What is left, without blank lines.
    fn left(text: &str) -> Vec<String> {
        let part = part(text);
        let lines = part.lines().map(|line| line.trim_end().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn what_is_for_the_host_alone_is_gone_and_the_rest_stays_on_its_lines() {
        let text = "\
#include <vector>
#include <cuda_fp16.h>
#include <cstdint>
#include \"own.h\"
#define N 3
using namespace std;
using real = float;
using Rows = std::vector<float>;
static const int WIDTH = 4;
const float *names[2] = {0, 0};
int counter = compute();
constexpr float scale = 0.5f;
__constant__ float weights[N];
float host(float x);
__device__ float declared(float x);
struct Item { float v; };
struct Job { std::vector<float> all; };
template <typename T> T *copied(const T *a) { return 0; }
template <typename T> __device__ T twice(T a) { return a + a; }
constexpr int square(int x) { return x * x; }
namespace inner {
extern \"C\" __global__ void k(float *x) { x[0] = twice(x[0]) * WIDTH; }
static void launch() { k<<<1, 1>>>(nullptr); }
}
#ifndef NO_MAIN
int main() {
    inner::launch();
}
#endif
";
        assert_eq!(part(text).lines().count(), text.lines().count());
        assert_eq!(
            left(text),
            [
                "#include <cuda_fp16.h>",
                "#include <cstdint>",
                "#include \"own.h\"",
                "#define N 3",
                "using real = float;",
                "static const int WIDTH = 4;",
                "constexpr float scale = 0.5f;",
                "__constant__ float weights[N];",
                "__device__ float declared(float x);",
                "struct Item { float v; };",
                "template <typename T> __device__ T twice(T a) { return a + a; }",
                "constexpr int square(int x) { return x * x; }",
                "namespace inner {",
                "extern \"C\" __global__ void k(float *x) { x[0] = twice(x[0]) * WIDTH; }",
                "}",
                "#ifndef NO_MAIN",
                "#endif",
            ]
        );
    }

    #[test]
    fn functions_that_do_not_say_where_they_run_are_found() {
        let has = |text: &str| has_unmarked_functions(&Unit::parse(text).unwrap());
        assert!(has("constexpr int f(int x) { return x; }"));
        assert!(has("struct S { int f() { return 1; } };"));
        assert!(!has(
            "struct S { __device__ int f() { return 1; } }; __global__ void k() {}"
        ));
        assert!(!has("constexpr int n = 3;"));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_and_keeps_its_lines(text in "(\\PC|[ \\n{}();#<>\"]|int |__device__ |template<>|struct a|std::vector<b>|void f\\(\\)\\{\\}|#include <vector>\\n){0,40}") {
            let part = part(&text);
            prop_assert_eq!(part.matches('\n').count(), text.matches('\n').count());
        }
    }
}
