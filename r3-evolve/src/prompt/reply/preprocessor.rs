//! What an answer may not say to the preprocessor.
//!
//! A header is a file of the machine that compiles: `#include "/etc/passwd"` puts its text into a message of the compiler, and that
//! message goes back to the model. So a variant includes what the source as given includes, and nothing else. What else reads files,
//! asks for them or changes what lines are called, is refused with it, in every way in which it can be written.

/// Directives that a variant may have.
const ALLOWED: &[&str] = &[
    "define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif",
    "error", "warning", "",
];

/// First words of `#pragma` that a variant may have.
const PRAGMAS: &[&str] = &[
    "unroll",
    "nounroll",
    "nv_diag_suppress",
    "nv_diag_default",
    "nv_diagnostic",
    "nv_exec_check_disable",
    "hd_warning_disable",
    "once",
];

/// Words that ask for files wherever they stand.
const WORDS: &[&str] = &[
    "__has_include",
    "__has_include_next",
    "__has_embed",
    "_Pragma",
    "__pragma",
    "__FILE__",
    "__BASE_FILE__",
    "__FILE_NAME__",
];

/// Signs for `#` and for a backslash that some versions of the language have.
const TRIGRAPHS: &[&str] = &["??=", "??/"];

/// How a directive begins.
const MARKS: &[&str] = &["#", "%:"];

/// The first line of `new` that `file` has not and that a variant may not bring in.
pub fn brought_in(new: &str, file: &str) -> Option<String> {
    let known: Vec<String> = lines(file).iter().map(|line| squeezed(line)).collect();
    lines(new)
        .into_iter()
        .find(|line| is_refused(line) && !known.contains(&squeezed(line)))
        .map(|line| line.trim().to_owned())
}

/// The lines of a text, those joined that a backslash continues: with and without blanks behind it, since compilers differ.
fn lines(text: &str) -> Vec<String> {
    let mut lines = joined(text, |line| line.strip_suffix('\\'));
    lines.extend(joined(text, |line| line.trim_end().strip_suffix('\\')));
    lines
}

fn joined(text: &str, continued: impl Fn(&str) -> Option<&str>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        match continued(line) {
            Some(begin) => open.push_str(begin),
            None => lines.push(format!("{}{line}", std::mem::take(&mut open))),
        }
    }
    if !open.is_empty() {
        lines.push(open);
    }
    lines
}

fn squeezed(line: &str) -> String {
    line.chars().filter(|c| !c.is_whitespace()).collect()
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect()
}

/// What of a line is surely no comment: `//` may itself stand in a literal or a comment.
fn code(line: &str) -> &str {
    match line.split_once("//") {
        Some((before, _)) if !before.contains(['"', '\'']) && !before.contains("/*") => before,
        _ => line,
    }
}

fn is_refused(line: &str) -> bool {
    TRIGRAPHS.iter().any(|sign| line.contains(sign))
        || words(code(line)).iter().any(|word| WORDS.contains(word))
        || begins(line)
            .any(|begin| is_import(begin) || directive(begin).is_some_and(is_refused_directive))
}

/// Where the first token of a line may be: at its begin, and behind each place where a comment may end. What is a comment and
/// what a literal that looks like one depends on the lines before; so all places count.
fn begins(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices("*/").map(|(at, end)| at + end.len());
    [0].into_iter()
        .chain(ends)
        .filter_map(|at| line.get(at..))
        .map(str::trim_start)
}

fn is_import(begin: &str) -> bool {
    let begin = begin.strip_prefix("export ").unwrap_or(begin).trim_start();
    begin
        .strip_prefix("import")
        .is_some_and(|module| module.trim_start().starts_with(['<', '"', ':']))
}

/// What follows the mark of a directive.
fn directive(begin: &str) -> Option<&str> {
    MARKS.iter().find_map(|mark| begin.strip_prefix(mark))
}

fn is_refused_directive(directive: &str) -> bool {
    let mut rest = directive.trim_start();
    while let Some(comment) = rest.strip_prefix("/*") {
        // One that goes on in the next line has the name there.
        let Some((_, behind)) = comment.split_once("*/") else {
            return true;
        };
        rest = behind.trim_start();
    }
    let words = words(rest);
    let name = rest
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next()
        .unwrap_or_default();
    if name == "pragma" {
        return !words.get(1).is_some_and(|word| PRAGMAS.contains(word));
    }
    // `# 12 "file"` renames lines.
    !ALLOWED.contains(&name) || (name.is_empty() && !rest.is_empty() && !rest.starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_header_is_brought_in_however_it_is_written() {
        let file = "#include <mma.h>\n#pragma omp simd\nint x;\n";
        for line in [
            "#include \"/etc/passwd\"",
            "  #  include <cuda_fp16.h>",
            "#inc\\\nlude \"x\"",
            "/* a\n */ # /* b */ include <x>",
            "const char *s = \"/*\";\n#include <x>\n// */",
            "%:include <x>",
            "%:include \"x\"",
            " %: include \"x\" // \"",
            "??=include <x>",
            "??=include \"x\"",
            "#inc??/\nlude \"x\"",
            // What begins in a literal is no comment, whatever seems to end it.
            "const char *s = \"/*\";\n/**/ #include \"x\"\n// */",
            "/* // */ #include \"x\"",
            "/* \" */ /* ' */ %:include \"x\"",
            "\x0c#\x0binclude \"x\"",
            // Not every compiler joins these.
            "// \\ \n#include \"x\"",
            "#if '//' && __has_include(\"x\")",
            "const char *s = \"//\" __FILE__;",
            "#include_next <x>",
            "#import <x>",
            "import <x>;",
            "export import \"x\";",
            "#embed \"x\"",
            "#line 1 \"x\"",
            "# 1 \"x\"",
            "#if __has_include(<x>)",
            "int y = __has_embed(\"x\");",
            "_Pragma(\"include_alias(a, b)\")",
            "#pragma GCC dependency \"x\"",
            "#pragma",
            "#define NAME __FILE__",
        ] {
            assert!(brought_in(line, file).is_some(), "{line}");
        }
    }

    #[test]
    fn what_variants_need_and_what_the_file_has_is_allowed() {
        let file = "#include <mma.h>\n#pragma omp simd\nint x;\n";
        for line in [
            "#include <mma.h>",
            "#  include  <mma.h>",
            "#pragma omp simd",
            "#pragma unroll 4",
            "#pragma unroll",
            "#pragma nounroll",
            "#define N 4",
            "#if N > 3\n#else\n#endif",
            "a = b % c; // %:",
            "x = a ?b: c;",
            "important(<x>);",
            "#",
            "int include = 1; // #include <x>",
            "/* needs no #include <x> */ int y;",
            "// as in __FILE__",
            "#define TEXT(x) \\\n    #x",
            "#define BOTH(a, b) \\\n    a \\\n    ## b",
            "/* a */ #define N 4 /* b */",
        ] {
            assert_eq!(brought_in(line, file), None, "{line}");
        }
    }
}
