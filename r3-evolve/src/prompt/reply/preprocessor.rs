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

/// Characters for `#` and for a backslash at the end of a line that few know.
const OTHER_SIGNS: &[&str] = &["??=", "??/", "%:"];

/// The first line of `new` that `file` has not and that a variant may not bring in.
pub fn brought_in(new: &str, file: &str) -> Option<String> {
    let known: Vec<String> = logical_lines(file)
        .iter()
        .map(|line| squeezed(line))
        .collect();
    let mut lines = logical_lines(new);
    // A comment may stand before a directive; what looks like a comment may stand in a string. Both readings count.
    lines.extend(logical_lines(&without_comments(new)));
    lines
        .into_iter()
        .find(|line| is_refused(line) && !known.contains(&squeezed(line)))
        .map(|line| line.trim().to_owned())
}

/// The lines of a text, those joined that a backslash continues.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        match line.trim_end().strip_suffix('\\') {
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

fn without_comments(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("/*") {
        left.push_str(before);
        left.push(' ');
        rest = behind.split_once("*/").map_or("", |(_, behind)| behind);
    }
    left.push_str(rest);
    left
}

fn is_refused(line: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let code = line.split("//").next().unwrap_or(line);
    if OTHER_SIGNS.iter().any(|sign| code.contains(sign)) && !code.contains('"') {
        return true;
    }
    if words(code)
        .iter()
        .any(|word| WORDS.contains(&word.as_str()))
    {
        return true;
    }
    let trimmed = line.trim_start();
    if let Some(module) = trimmed
        .strip_prefix("export ")
        .unwrap_or(trimmed)
        .strip_prefix("import")
    {
        let module = module.trim_start();
        return module.starts_with(['<', '"', ':']);
    }
    let Some(directive) = trimmed.strip_prefix('#') else {
        return false;
    };
    let words = words(directive);
    let name = words.first().map_or("", String::as_str);
    if name == "pragma" {
        return !words
            .get(1)
            .is_some_and(|word| PRAGMAS.contains(&word.as_str()));
    }
    // `# 12 "file"` renames lines.
    !ALLOWED.contains(&name)
        || (name.is_empty() && !directive.trim().is_empty() && !directive.trim().starts_with("//"))
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
            "??=include <x>",
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
        ] {
            assert_eq!(brought_in(line, file), None, "{line}");
        }
    }
}
