//! Standard output and standard error.

use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;

use super::Failure;

/// Standard output: a reader that goes away is told apart from other errors.
pub struct Output {
    out: BufWriter<Stdout>,
    lines: usize,
    skip: usize,
}

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        Self {
            out: BufWriter::new(io::stdout()),
            lines: 0,
            skip: 0,
        }
    }

    /// Does not write the first lines: this program has, before it started over.
    pub fn skip(&mut self, lines: usize) {
        self.skip = lines;
    }

    /// Lines so far.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Writes a line.
    pub fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        self.lines += 1;
        if self.lines <= self.skip {
            return Ok(());
        }
        writeln!(self.out, "{line}").map_err(failure)
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(failure)
    }

    /// Writes a value as JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut self.out, value).map_err(|e| failure(e.into()))?;
        self.line("")
    }

    /// Writes a value as JSON on one line.
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, value).map_err(|e| failure(e.into()))?;
        self.line("")
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(failure)
    }

    /// Writes a table; `numbers` are the columns to be aligned to the right.
    pub fn table(
        &mut self,
        header: &[&str],
        numbers: &[usize],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Result<(), Failure> {
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header.iter().copied());
        for row in rows {
            table.add_row(row);
        }
        for index in 0..header.len() {
            if let Some(column) = table.column_mut(index) {
                column.set_padding((0, 2));
                if numbers.contains(&index) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        for line in table.to_string().lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }
}

fn failure(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::BrokenPipe
    } else {
        Failure::Output(error)
    }
}

/// Says something on standard error. It does not matter if nobody listens.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "r3-replay: {message}");
}

/// A number of bytes for people: `512 B`, `1.5 KiB`, `1.0 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be shown as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS.get(unit).unwrap_or(&"EiB"))
}

/// A number with its noun: `1 launch`, `2 launches`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What a driver is called by: the newest CUDA that it supports, from its `13000`.
pub fn driver(version: i32) -> String {
    format!("CUDA {}.{} driver", version / 1000, version % 1000 / 10)
}

/// Dimensions for people: `64`, `64x2`, `64x2x3`.
pub fn dims([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x}x{y}"),
        _ => format!("{x}x{y}x{z}"),
    }
}

/// `text` with at most `width` characters; what is left out is marked.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_have_one_decimal_and_no_1024() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!(count(0, "launch", "launches"), "0 launches");
        assert_eq!(count(1, "launch", "launches"), "1 launch");
    }

    #[test]
    fn trailing_ones_of_dimensions_are_left_out() {
        assert_eq!(dims([64, 1, 1]), "64");
        assert_eq!(dims([64, 2, 1]), "64x2");
        assert_eq!(dims([1, 1, 2]), "1x1x2");
    }
}
