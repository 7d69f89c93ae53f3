//! The grid of an island as a table, the better the stronger its colour.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::variant;
use crate::elites::{AxisView, CellView};
use crate::report::data::{Island, Report};
use crate::report::draw::short;
use crate::report::escape::html;
use crate::report::words;

/// From this part of the range on, a cell's text is light on dark, or the other way.
const STRONG: f64 = 0.5;

/// Times from the strongest colour to none.
struct Range {
    best: f64,
    none: f64,
}

impl Range {
    /// Over all islands, so that the same colour is the same time.
    fn of(report: &Report) -> Self {
        let cells = report.islands.iter().flat_map(|island| &island.grid.cells);
        let best = cells.map(|cell| cell.ratio).fold(f64::INFINITY, f64::min);
        let source = report.source.map_or(1.0, |source| source.median);
        Self {
            best,
            none: source.max(1.0),
        }
    }

    /// 0 for the baseline and all that is slower, 1 for the best.
    fn part(&self, ratio: f64) -> f64 {
        let span = (self.none / self.best).ln();
        if span <= 0.0 || !span.is_finite() {
            return 0.0;
        }
        ((self.none / ratio).ln() / span).clamp(0.0, 1.0)
    }
}

/// What the colours are.
pub(super) fn legend(out: &mut String, of: &Report) -> std::fmt::Result {
    let range = Range::of(of);
    writeln!(
        out,
        "<p class=\"legend\"><span>{} and more</span><span class=\"scale\" aria-hidden=\"true\"></span><span>{}, the best</span></p>",
        short(range.none),
        short(range.best)
    )
}

/// An island with its tables: one for each place on the axes after the second.
pub(super) fn island(out: &mut String, of: &Report, island: &Island) -> std::fmt::Result {
    let on = &island.occupancy;
    let number = on.island.0;
    writeln!(
        out,
        "<h3>Island {number}</h3>\n<p>{} of {} cells have an elite. Right variants: {} born here, {} from other islands.</p>",
        on.filled, on.size, on.born, on.arrived
    )?;
    let mut tables: BTreeMap<&[Option<u16>], Vec<&CellView>> = BTreeMap::new();
    for cell in &island.grid.cells {
        let rest = cell.cell.0.get(2..).unwrap_or_default();
        tables.entry(rest).or_default().push(cell);
    }
    for (rest, cells) in tables {
        table(out, of, island, rest, &cells)?;
    }
    Ok(())
}

fn table(
    out: &mut String,
    of: &Report,
    island: &Island,
    rest: &[Option<u16>],
    cells: &[&CellView],
) -> std::fmt::Result {
    let range = Range::of(of);
    let axes = &island.grid.axes;
    let (rows, columns) = (axes.first(), axes.get(1));
    let elsewhere: Vec<String> = axes
        .iter()
        .skip(2)
        .zip(rest)
        .map(|(axis, bin)| format!("{}: {}", axis.title, bounds(axis, *bin)))
        .collect();
    let title = |axis: Option<&AxisView>| axis.map_or("", |axis| axis.title.as_str()).to_owned();
    let caption = match columns {
        Some(_) => format!("{} (down), {} (across)", title(rows), title(columns)),
        None => title(rows),
    };
    let caption = [vec![caption], elsewhere].concat().join("; ");
    writeln!(
        out,
        "<div class=\"scroll\"><table class=\"heat\" data-island=\"{}\">\n<caption>{}</caption>\n<thead><tr><td></td>",
        island.occupancy.island.0,
        html(&caption)
    )?;
    let place = |cell: &CellView, axis: usize| cell.cell.0.get(axis).copied().flatten();
    let at =
        |axis: usize, of: Option<&AxisView>| bins(of, cells.iter().map(|cell| place(cell, axis)));
    let (down, across) = (at(0, rows), at(1, columns));
    for bin in &across {
        let text = columns.map_or_else(String::new, |axis| bounds(axis, *bin));
        writeln!(out, "<th scope=\"col\">{}</th>", html(&text))?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")?;
    for row in &down {
        let text = rows.map_or_else(String::new, |axis| bounds(axis, *row));
        write!(out, "<tr><th scope=\"row\">{}</th>", html(&text))?;
        for column in &across {
            let here = cells
                .iter()
                .find(|cell| place(cell, 0) == *row && place(cell, 1) == *column);
            match here {
                Some(cell) => elite(out, of, cell, &range)?,
                None => write!(out, "<td class=\"empty\"></td>")?,
            }
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

fn elite(out: &mut String, of: &Report, cell: &CellView, range: &Range) -> std::fmt::Result {
    let part = range.part(cell.ratio);
    let number = cell.number.0;
    let best = of.best == Some(number);
    let how = variant(of, number).map_or_else(String::new, |one| {
        let times = one.times.as_ref().map(words::times);
        format!(
            "variant {number}, {} {}: {}",
            one.operator,
            one.by,
            times.unwrap_or_default()
        )
    });
    write!(
        out,
        "<td><button type=\"button\" data-variant=\"{number}\" class=\"{}{}\" style=\"--part:{part:.3}\" title=\"{}\">{:.3}{}</button></td>",
        if part >= STRONG { "strong" } else { "weak" },
        if best { " best" } else { "" },
        html(&how),
        cell.ratio,
        if best {
            "<span class=\"mark\" aria-label=\"the best\">★</span>"
        } else {
            ""
        }
    )
}

/// The bins of an axis, and that of what is not known where something lies in it.
fn bins(axis: Option<&AxisView>, used: impl Iterator<Item = Option<u16>>) -> Vec<Option<u16>> {
    let used: BTreeSet<Option<u16>> = used.collect();
    let Some(axis) = axis else {
        return vec![None];
    };
    let count = u16::try_from(axis.edges.len()).unwrap_or(u16::MAX);
    let known = (0..=count).map(Some);
    let unknown = used.contains(&None).then_some(None);
    known.chain(unknown).collect()
}

/// Where a bin begins and ends, in words.
fn bounds(axis: &AxisView, bin: Option<u16>) -> String {
    let Some(bin) = bin.map(usize::from) else {
        return "not known".to_owned();
    };
    let below = bin.checked_sub(1).and_then(|below| axis.edges.get(below));
    match (below, axis.edges.get(bin)) {
        (None, None) => "all".to_owned(),
        (None, Some(end)) => format!("< {}", short(*end)),
        (Some(begin), None) => format!("≥ {}", short(*begin)),
        (Some(begin), Some(end)) => format!("{}–{}", short(*begin), short(*end)),
    }
}
