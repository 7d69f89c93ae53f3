//! Lines of PTX that an assembler complains about.

use crate::recipe::Failure;

/// Different lines that are quoted.
const MOST: usize = 8;

/// Longest part of a line that is quoted.
const WIDEST: usize = 240;

/// A failure with the text of the lines that it names: the first in the message, more in the log. Assemblers give numbers
/// alone, of a text that only they saw.
pub(super) fn lines(mut failure: Failure, ptx: &str) -> Failure {
    let first = numbers(&failure.message).next();
    let mut named: Vec<usize> = Vec::new();
    for number in numbers(&failure.log) {
        if named.len() < MOST && !named.contains(&number) {
            named.push(number);
        }
    }
    let text = |number: usize| {
        let line = ptx.lines().nth(number.checked_sub(1)?)?.trim();
        let end = line
            .char_indices()
            .nth(WIDEST)
            .map_or(line.len(), |(end, _)| end);
        Some(line.get(..end)?.to_owned())
    };
    if let Some(line) = first.and_then(text) {
        failure.message.push_str(&format!(": `{line}`"));
    }
    let quoted: Vec<String> = named
        .into_iter()
        .filter_map(|number| Some(format!("{number:>6} | {}", text(number)?)))
        .collect();
    if !quoted.is_empty() {
        if !failure.log.is_empty() && !failure.log.ends_with('\n') {
            failure.log.push('\n');
        }
        failure.log.push_str("The lines of PTX:\n");
        failure.log.push_str(&quoted.join("\n"));
    }
    failure
}

/// Numbers after `line `.
fn numbers(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.split(", line ").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest.get(..end.unwrap_or(rest.len()))?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{FailureKind, Stage};

    #[test]
    fn the_lines_that_an_assembler_names_are_quoted() {
        // As ptxas 13.0 says it.
        let log = "ptxas kernel.ptx, line 3; error   : Arguments mismatch for instruction 'add'\n\
                   ptxas kernel.ptx, line 4; error   : Unknown symbol '%r9'\n\
                   ptxas kernel.ptx, line 4; error   : Label expected for forward reference of '%r9'\n\
                   ptxas fatal   : Ptx assembly aborted due to errors";
        let failure = Failure {
            stage: Stage::Assemble,
            kind: FailureKind::Refused,
            message: format!("ptxas: {}", log.lines().next().unwrap()),
            log: log.to_owned(),
        };
        let ptx = "one\ntwo\n\tadd.f32 %r1, %f1, %f2;\n mov.u32 %r9, 1;\n";
        let told = lines(failure, ptx);
        assert_eq!(
            told.message,
            "ptxas: ptxas kernel.ptx, line 3; error   : Arguments mismatch for instruction 'add': `add.f32 %r1, %f1, %f2;`"
        );
        assert!(told.log.ends_with(
            "The lines of PTX:\n     3 | add.f32 %r1, %f1, %f2;\n     4 | mov.u32 %r9, 1;"
        ));
    }

    #[test]
    fn what_names_no_line_of_the_text_stays_as_it_is() {
        for message in [
            "ptxas: no",
            "x, line 99; error",
            "x, line 0; error",
            "x, line ; error",
        ] {
            let failure = Failure {
                stage: Stage::Assemble,
                kind: FailureKind::Refused,
                message: message.to_owned(),
                log: message.to_owned(),
            };
            assert_eq!(lines(failure.clone(), "one line"), failure);
        }
    }
}
