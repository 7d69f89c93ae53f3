//! A space as TOML with comments.

use std::fmt::Write as _;

use super::super::{Condition, Domain, Parameter, Size, Space, Value};

/// Columns of a comment.
const WIDTH: usize = 96;

const HEAD: &str = "What is tried for this kernel. Edit it and give it back with --space FILE. A parameter with varied = false keeps the \
first of its values, which is what the original has. Values of `dropped` are known and not tried: move them to `values`. `when` \
says where a parameter means something. Comments are not read.";

impl Space {
    /// As TOML, with the reasons as comments. [`Space::from_toml`] reads it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let size = match self.size() {
            Size::Exactly(1) => "1 point".to_owned(),
            Size::Exactly(count) => format!("{count} points"),
            Size::About(count) if count < 1e6 => format!("about {count:.0} points"),
            Size::About(count) => format!("about 1e{:.0} points", count.log10()),
        };
        comment(&mut out, HEAD);
        comment(&mut out, &format!("It has {size}."));
        if let Some(kernel) = &self.kernel {
            out.push('\n');
            comment(
                &mut out,
                "The kernel, as it was recorded. Not to be edited.",
            );
            out.push_str("[kernel]\n");
            field(&mut out, "name", &string(&kernel.name));
            let [x, y, z] = kernel.block;
            field(&mut out, "block", &format!("[{x}, {y}, {z}]"));
            field(&mut out, "max_threads", &kernel.max_threads.to_string());
            field(&mut out, "recorded_runs", &kernel.recorded_runs.to_string());
            field(&mut out, "compilable", &kernel.compilable.to_string());
            if kernel.source {
                field(&mut out, "source", "true");
            }
            if let Some([x, y, z]) = kernel.recorded_block {
                field(&mut out, "recorded_block", &format!("[{x}, {y}, {z}]"));
            }
        }
        for parameter in &self.parameters {
            out.push('\n');
            print_parameter(&mut out, parameter);
        }
        for never in &self.never {
            out.push('\n');
            comment(&mut out, &never.why);
            out.push_str("[[never]]\n");
            field(&mut out, "together", &conditions(&never.together));
        }
        for (at, start) in self.start.iter().enumerate() {
            out.push('\n');
            if at == 0 {
                comment(
                    &mut out,
                    "Tried first, after the original: what differs from it.",
                );
            }
            out.push_str("[[start]]\n");
            for (name, value) in start {
                field(&mut out, &key(name), &of_value(value));
            }
        }
        out
    }
}

fn print_parameter(out: &mut String, parameter: &Parameter) {
    comment(out, &parameter.why);
    out.push_str("[[parameter]]\n");
    field(out, "name", &string(&parameter.name));
    if !parameter.varied {
        field(out, "varied", "false");
    }
    if !parameter.when.is_empty() {
        field(out, "when", &conditions(&parameter.when));
    }
    match &parameter.domain {
        Domain::Choice(values) => field(out, "values", &list(values)),
        Domain::Integer {
            low,
            high,
            log,
            default,
        } => field(
            out,
            "integer",
            &format!("{{ low = {low}, high = {high}, log = {log}, default = {default} }}"),
        ),
        Domain::Sequence {
            items,
            longest,
            default,
        } => {
            field(out, "items", &list(items));
            field(out, "longest", &longest.to_string());
            field(out, "default", &list(default));
        }
        Domain::Permutation(items) => field(out, "permutation", &list(items)),
    }
    if !parameter.dropped.is_empty() {
        field(out, "dropped", &list(&parameter.dropped));
    }
}

fn field(out: &mut String, name: &str, value: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{name} = {value}");
}

fn comment(out: &mut String, text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "#{line}");
            line.clear();
        }
        line.push(' ');
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    if !line.is_empty() {
        let _ = writeln!(out, "#{line}");
    }
}

fn string(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A name as a key: quoted where it must be.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        string(name)
    }
}

fn list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| string(value)).collect();
    let line = format!("[{}]", values.join(", "));
    if line.len() <= WIDTH {
        return line;
    }
    let mut out = "[\n".to_owned();
    let mut row = String::new();
    for value in values {
        if !row.is_empty() && row.len() + value.len() + 2 > WIDTH - 4 {
            let _ = writeln!(out, "   {row}");
            row.clear();
        }
        let _ = write!(row, " {value},");
    }
    let _ = write!(out, "   {row}\n]");
    out
}

fn conditions(all: &[Condition]) -> String {
    let all: Vec<String> = all
        .iter()
        .map(|one| {
            let values: Vec<String> = one.values.iter().map(|value| string(value)).collect();
            format!("{} = [{}]", key(&one.parameter), values.join(", "))
        })
        .collect();
    format!("{{ {} }}", all.join(", "))
}

fn of_value(value: &Value) -> String {
    match value {
        Value::Text(text) => string(text),
        Value::Number(number) => number.to_string(),
        Value::List(items) => list(items),
    }
}
