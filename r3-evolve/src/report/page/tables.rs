//! Tables of a page.

use std::fmt::Write;

use super::{link, times, variant};
use crate::report::data::{Model, Operator, Pause, Report};
use crate::report::escape::html;
use crate::report::words;
use crate::tune::summary::gain;

/// A table. Headings that begin with `#` are of columns of numbers; cells are HTML.
pub(super) fn table(
    out: &mut String,
    caption: &str,
    headings: &[&str],
    rows: &[Vec<String>],
) -> std::fmt::Result {
    writeln!(
        out,
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>",
        html(caption)
    )?;
    let number = |column: usize| {
        let heading = headings.get(column).copied().unwrap_or_default();
        if heading.starts_with('#') {
            " class=\"number\""
        } else {
            ""
        }
    };
    for (column, heading) in headings.iter().enumerate() {
        write!(
            out,
            "<th scope=\"col\"{}>{}</th>",
            number(column),
            html(heading.trim_start_matches('#'))
        )?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")?;
    for row in rows {
        write!(out, "<tr>")?;
        for (column, cell) in row.iter().enumerate() {
            write!(out, "<td{}>{cell}</td>", number(column))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

/// Names and values.
pub(super) fn pairs(out: &mut String, of: &[(String, String)]) -> std::fmt::Result {
    writeln!(out, "<dl>")?;
    for (name, value) in of {
        writeln!(out, "<dt>{}</dt><dd>{}</dd>", html(name), html(value))?;
    }
    writeln!(out, "</dl>")
}

/// What is compared with what.
pub(super) fn baselines(out: &mut String, of: &Report) -> std::fmt::Result {
    let mut rows = vec![vec![
        "the captured binary".to_owned(),
        "1".to_owned(),
        of.captured.as_deref().map_or_else(|| "–".to_owned(), html),
    ]];
    if let Some(source) = &of.source {
        rows.push(vec![
            "the source as given, compiled anew".to_owned(),
            words::times(source),
            html(&gain(source.median)),
        ]);
    }
    if let Some(best) = of.best.and_then(|number| variant(of, number)) {
        rows.push(vec![
            format!("variant {}, in the search", link(best.number)),
            times(best.times.as_ref()),
            best.times
                .map_or_else(|| "–".to_owned(), |times| html(&gain(times.median))),
        ]);
        let at_length = of
            .finals
            .iter()
            .find(|one| one.variant == Some(best.number) && one.refused.is_none());
        if let Some(times) = at_length.and_then(|one| one.times) {
            rows.push(vec![
                format!("variant {}, measured at length", link(best.number)),
                words::times(&times),
                html(&gain(times.median)),
            ]);
        }
    }
    table(
        out,
        "Time as a part of the captured binary's: median and interval",
        &["", "#time", "#"],
        &rows,
    )
}

/// Each time that something better was found.
pub(super) fn steps(out: &mut String, of: &Report) -> std::fmt::Result {
    let rows: Vec<Vec<String>> = of
        .curve
        .steps
        .iter()
        .map(|step| {
            let what = variant(of, step.variant).map_or("", |one| one.what.as_str());
            vec![
                step.evaluations.to_string(),
                words::duration(step.seconds),
                link(step.variant),
                words::times(&step.times),
                html(if what.is_empty() {
                    "the source as given"
                } else {
                    what
                }),
            ]
        })
        .collect();
    writeln!(out, "<details><summary>The same as a table</summary>")?;
    table(
        out,
        "Each time that something better was found",
        &[
            "#evaluations",
            "#after",
            "#variant",
            "#time",
            "what was done",
        ],
        &rows,
    )?;
    pauses(out, of)?;
    writeln!(out, "</details>")
}

/// When the search did not go on.
fn pauses(out: &mut String, of: &Report) -> std::fmt::Result {
    if of.curve.pauses.is_empty() {
        return Ok(());
    }
    let row = |pause: &Pause| {
        vec![
            pause.evaluations.to_string(),
            pause
                .seconds
                .map_or_else(|| "–".to_owned(), words::duration),
            html(&pause.why),
        ]
    };
    let rows: Vec<Vec<String>> = of.curve.pauses.iter().map(row).collect();
    table(
        out,
        "Times in which the search did not go on",
        &["#evaluations", "#for", "why"],
        &rows,
    )
}

/// What is under way, or was when the run was left.
pub(super) fn open(out: &mut String, of: &Report) -> std::fmt::Result {
    if of.open.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<p>Under way, or left when the run was stopped: {}. Nothing of it is counted here.</p>",
        html(&words::open(&of.open))
    )
}

/// How variants came out.
pub(super) fn verdicts(out: &mut String, of: &Report) -> std::fmt::Result {
    let verdicts = of
        .verdicts
        .iter()
        .map(|(verdict, count)| vec![html(verdict), count.to_string()]);
    let dropped = of.dropped.iter().map(|(why, count)| {
        vec![
            format!("not evaluated: the {}", html(why)),
            count.to_string(),
        ]
    });
    let rows: Vec<Vec<String>> = verdicts.chain(dropped).collect();
    table(out, "How proposals came out", &["", "#count"], &rows)
}

fn lost(gain: f64) -> String {
    if gain > 0.0 {
        format!("{:.1} %", 100.0 * (1.0 - (-gain).exp()))
    } else {
        "–".to_owned()
    }
}

fn per(gain: f64, cost: f64) -> String {
    if gain > 0.0 && cost > 0.0 {
        format!("{:.3} %", 100.0 * gain / cost)
    } else {
        "–".to_owned()
    }
}

fn part(count: u64, of: u64) -> String {
    match of {
        0 => "–".to_owned(),
        of => format!("{count} ({})", words::share(count as f64 / of as f64)),
    }
}

/// What operators brought.
pub(super) fn operators(out: &mut String, of: &Report) -> std::fmt::Result {
    if of.operators.is_empty() {
        return Ok(());
    }
    let row = |one: &Operator| {
        vec![
            if one.of.is_empty() {
                html(&one.name)
            } else {
                format!("<span class=\"inner\">{}</span>", html(&one.name))
            },
            one.proposals.to_string(),
            part(one.right, one.proposals),
            one.duplicates.to_string(),
            one.entered.to_string(),
            one.best.to_string(),
            lost(one.gain),
            one.evaluations.to_string(),
            per(one.gain, one.evaluations as f64),
            if one.cost > 0.0 {
                words::dollars(one.cost)
            } else {
                "–".to_owned()
            },
            per(one.gain, one.cost),
        ]
    };
    let rows: Vec<Vec<String>> = of.operators.iter().map(row).collect();
    table(
        out,
        "Operators; rewrites one by one. The gain is what the run's best lost of its time by them",
        &[
            "",
            "#proposals",
            "#right",
            "#known",
            "#into a cell",
            "#best",
            "#gain",
            "#evaluations",
            "#gain per evaluation",
            "#cost",
            "#gain per dollar",
        ],
        &rows,
    )
}

/// What models brought and took.
pub(super) fn models(out: &mut String, of: &Report) -> std::fmt::Result {
    if of.models.is_empty() {
        return writeln!(
            out,
            "<p>No model was asked: all variants are built-in rewrites.</p>"
        );
    }
    let row = |one: &Model| {
        let about = if one.estimated { "about " } else { "" };
        vec![
            html(&one.name),
            one.answers.to_string(),
            one.failures.to_string(),
            one.unusable.to_string(),
            part(one.right, one.answers),
            one.best.to_string(),
            lost(one.gain),
            format!("{about}{}", one.prompt),
            part(one.cached, one.prompt),
            format!("{about}{}", one.completion),
            words::dollars(one.cost),
            per(one.gain, one.cost),
            words::duration(one.seconds),
        ]
    };
    let rows: Vec<Vec<String>> = of.models.iter().map(row).collect();
    table(
        out,
        "Models",
        &[
            "",
            "#answers",
            "#failures",
            "#of no use",
            "#right",
            "#best",
            "#gain",
            "#tokens in",
            "#of these cached",
            "#tokens out",
            "#cost",
            "#gain per dollar",
            "#under way",
        ],
        &rows,
    )?;
    match of.shared_prefix {
        Some(part) => writeln!(
            out,
            "<p>{} of the bytes of prompts were those of the prompt before on the same island.</p>",
            words::share(part)
        ),
        None => Ok(()),
    }
}

/// What is on the islands.
pub(super) fn islands(out: &mut String, of: &Report) -> std::fmt::Result {
    let rows: Vec<Vec<String>> = of
        .islands
        .iter()
        .map(|island| {
            let on = &island.occupancy;
            let mix: Vec<String> = island
                .mix
                .iter()
                .map(|(operator, share)| format!("{operator} {}", words::share(*share)))
                .collect();
            vec![
                on.island.0.to_string(),
                on.opened.to_string(),
                on.born.to_string(),
                on.arrived.to_string(),
                format!("{} of {}", on.filled, on.size),
                on.own_elites.to_string(),
                on.best.map_or_else(
                    || "–".to_owned(),
                    |(number, ratio)| format!("{} ({ratio:.3})", link(number.0)),
                ),
                html(&mix.join(", ")),
            ]
        })
        .collect();
    table(
        out,
        "Islands",
        &[
            "#island",
            "#proposals",
            "#born here",
            "#from elsewhere",
            "#cells",
            "#own elites",
            "#best",
            "shares of operators now",
        ],
        &rows,
    )
}

/// Where the time went.
pub(super) fn load(out: &mut String, of: &Report) -> std::fmt::Result {
    let rows: Vec<Vec<String>> = of
        .load
        .iter()
        .map(|(what, part)| vec![html(what), words::share(*part)])
        .collect();
    table(
        out,
        "Parts of the time in which they were busy",
        &["", "#busy"],
        &rows,
    )
}

/// Finals and held-out launches.
pub(super) fn finals(out: &mut String, of: &Report) -> std::fmt::Result {
    if of.finals.is_empty() {
        return writeln!(out, "<p>Nothing was measured at length.</p>");
    }
    let rows: Vec<Vec<String>> = of
        .finals
        .iter()
        .map(|one| {
            vec![
                one.variant.map_or_else(|| "–".to_owned(), link),
                one.candidate.to_string(),
                html(&one.verdict),
                times(one.times.as_ref()),
                one.refused
                    .as_deref()
                    .map_or_else(|| "may be claimed".to_owned(), html),
            ]
        })
        .collect();
    table(
        out,
        "The best of the search, measured again in a fresh process; intervals hold for all of them together",
        &["#variant", "#candidate", "verdict", "#time", "claim"],
        &rows,
    )?;
    if of.held_out.is_empty() {
        return writeln!(out, "<p>No launch was held out.</p>");
    }
    let rows: Vec<Vec<String>> = of
        .held_out
        .iter()
        .map(|one| {
            vec![
                html(&one.launch),
                html(&one.verdict),
                one.ratio
                    .map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}")),
            ]
        })
        .collect();
    table(
        out,
        "Held-out launches of the best: they decided nothing",
        &["#launch", "verdict", "#time"],
        &rows,
    )
}
