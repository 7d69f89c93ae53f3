//! The page: one file of HTML that stands alone.

mod heat;
mod lineage;
mod pack;
mod tables;
mod way;

use std::fmt::Write;

use super::data::{Report, Variant};
use super::draw;
use super::escape::html;
use super::words;

const STYLE: &str = include_str!("page/style.css");
const UNPACK: &str = include_str!("page/unpack.js");
const SCRIPT: &str = include_str!("page/script.js");

/// What the page may do: show what is in it. Nothing is fetched, sent or framed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// The page of a report.
#[must_use]
pub fn page(of: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_page(&mut out, of);
    out
}

/// Writes what a section has.
type Body = fn(&mut String, &Report) -> std::fmt::Result;

fn write_page(out: &mut String, of: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{} – r3-evolve</title>\n<style>\n{STYLE}</style>\n</head>\n<body>",
        html(&of.kernel.chars().take(HEADING).collect::<String>())
    )?;
    writeln!(
        out,
        "<header>\n{}<p>{}, on {}</p>\n<p>{}.</p>\n</header>",
        name(&of.kernel),
        html(&of.file),
        html(&of.device),
        html(&of.state)
    )?;
    let sections: [(&str, &str, Body); 9] = [
        ("result", "Result", result),
        ("curve", "Best so far", curve),
        ("map", "Map", map),
        ("best", "The best source", best),
        ("way", "What mattered", way::way),
        ("lineage", "Lineage", lineage),
        ("statistics", "Operators and models", statistics),
        ("finals", "Measured at length", tables::finals),
        ("environment", "Environment", environment),
    ];
    writeln!(out, "<nav aria-label=\"Sections\"><ul>")?;
    for (id, title, _) in &sections {
        writeln!(out, "<li><a href=\"#{id}\">{title}</a></li>")?;
    }
    writeln!(out, "</ul></nav>\n<main>")?;
    for (id, title, body) in sections {
        writeln!(
            out,
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>"
        )?;
        body(out, of)?;
        writeln!(out, "</section>")?;
    }
    writeln!(
        out,
        "</main>\n<script type=\"text/plain\" id=\"data\">{}</script>\n<script>\n{UNPACK}{SCRIPT}</script>\n</body>\n</html>",
        pack::pack(of)
    )
}

/// Letters of a kernel's name that are a heading. Names of templates have thousands.
const HEADING: usize = 160;

fn name(kernel: &str) -> String {
    if kernel.chars().count() <= HEADING {
        return format!("<h1>{}</h1>\n", html(kernel));
    }
    let begin: String = kernel.chars().take(HEADING).collect();
    format!(
        "<h1>{}…</h1>\n<details><summary>The whole name</summary><p class=\"name\">{}</p></details>\n",
        html(&begin),
        html(kernel)
    )
}

fn list(out: &mut String, items: &[String]) -> std::fmt::Result {
    writeln!(out, "<ul>")?;
    for item in items {
        writeln!(out, "<li>{}</li>", html(item))?;
    }
    writeln!(out, "</ul>")
}

fn result(out: &mut String, of: &Report) -> std::fmt::Result {
    let claim = &of.claim;
    writeln!(
        out,
        "<p class=\"headline {}\">{}</p>\n<div class=\"columns\"><div>\n<h3>What is claimed</h3>",
        if claim.claimed { "claimed" } else { "open" },
        html(&claim.headline)
    )?;
    if claim.said.is_empty() {
        writeln!(out, "<p>Nothing.</p>")?;
    } else {
        list(out, &claim.said)?;
    }
    writeln!(out, "</div><div>\n<h3>What is not claimed</h3>")?;
    list(out, &claim.not_said)?;
    writeln!(out, "</div></div>")?;
    tables::baselines(out, of)
}

fn curve(out: &mut String, of: &Report) -> std::fmt::Result {
    let svg = draw::curve(of);
    if svg.is_empty() {
        return writeln!(out, "<p>Nothing right was measured so far.</p>");
    }
    writeln!(
        out,
        "<figure>\n<div class=\"scroll\" tabindex=\"0\">{svg}</div><figcaption>Time as a part of the captured binary's, of the best variant that was checked on every launch; \
         bands are intervals. Less is better. These are figures of the search.{}</figcaption>\n</figure>",
        match (of.best, of.curve.steps.last()) {
            (Some(best), Some(last)) if best != last.variant => format!(
                " The run ends with variant {}, which was found to be the best when all were measured at length.",
                link(best)
            ),
            _ => String::new(),
        }
    )?;
    tables::steps(out, of)
}

fn map(out: &mut String, of: &Report) -> std::fmt::Result {
    if of.islands.iter().all(|island| island.grid.cells.is_empty()) {
        writeln!(
            out,
            "<p>No variant is right so far.</p>\n<div class=\"map\"><div class=\"islands\">"
        )?;
    } else {
        writeln!(
            out,
            "<p>Each cell shows the time of its best variant as a part of the captured binary's. Choose a cell to see its source; arrow keys \
             go from cell to cell. Edges lie so that the variants that were seen fall evenly between them, unless they were set.</p>\n\
             <div class=\"map\"><div class=\"islands\">"
        )?;
        heat::legend(out, of)?;
        for island in &of.islands {
            heat::island(out, of, island)?;
        }
    }
    writeln!(out, "<div id=\"all\"></div>")?;
    writeln!(
        out,
        "</div>\n<article id=\"variant\" tabindex=\"-1\" aria-live=\"polite\" aria-label=\"Chosen variant\">\
         <p class=\"hint\">No variant is chosen.</p></article></div>"
    )
}

/// What may be far apart is found by number.
fn variant(of: &Report, number: i64) -> Option<&Variant> {
    let place = of.variants.binary_search_by_key(&number, |one| one.number);
    of.variants.get(place.ok()?)
}

fn best(out: &mut String, of: &Report) -> std::fmt::Result {
    let Some(best) = of.best.and_then(|number| variant(of, number)) else {
        return writeln!(out, "<p>Nothing is right so far.</p>");
    };
    writeln!(
        out,
        "<p>Variant <a href=\"#v{0}\" data-variant=\"{0}\">{0}</a>{1}.</p>",
        best.number,
        if best.configuration.is_empty() {
            ", in its own configuration".to_owned()
        } else {
            format!(
                ", with <code>{}</code>",
                html(&best.configuration.join(" "))
            )
        }
    )?;
    if best.parents.is_empty() {
        return writeln!(out, "<p>It is the source as given.</p>");
    }
    let Some(given) = variant(of, 1) else {
        return Ok(());
    };
    let difference = r3_source::diff::unified(
        &given.text,
        &best.text,
        ("source as given", &format!("variant {}", best.number)),
    );
    writeln!(out, "<h3>Difference to the source as given</h3>")?;
    diff(out, &difference)
}

/// A difference, line by line.
fn diff(out: &mut String, text: &str) -> std::fmt::Result {
    write!(out, "<pre class=\"diff\" tabindex=\"0\">")?;
    for (index, line) in text.lines().enumerate() {
        let class = match line.chars().next() {
            _ if index < 2 => "file",
            Some('+') => "added",
            Some('-') => "removed",
            Some('@') => "place",
            _ => "same",
        };
        // The end of a line is within its block: between blocks it would be a line of its own.
        write!(out, "<span class=\"{class}\">{}\n</span>", html(line))?;
    }
    writeln!(out, "</pre>")
}

fn lineage(out: &mut String, of: &Report) -> std::fmt::Result {
    lineage::tree(out, of)
}

fn statistics(out: &mut String, of: &Report) -> std::fmt::Result {
    tables::verdicts(out, of)?;
    tables::open(out, of)?;
    tables::operators(out, of)?;
    tables::models(out, of)?;
    for unanswered in &of.unanswered {
        writeln!(out, "<p>{}.</p>", html(&words::unanswered(unanswered)))?;
    }
    tables::islands(out, of)?;
    tables::load(out, of)
}

fn environment(out: &mut String, of: &Report) -> std::fmt::Result {
    writeln!(out, "<h3>What results depend on</h3>")?;
    tables::pairs(out, &of.environment)?;
    writeln!(out, "<h3>Settings</h3>")?;
    tables::pairs(out, &of.settings)?;
    if !of.notes.is_empty() {
        writeln!(out, "<h3>Notes</h3>")?;
        list(out, &of.notes)?;
    }
    Ok(())
}

/// A variant's number as a link that chooses it.
fn link(number: i64) -> String {
    format!("<a href=\"#v{number}\" data-variant=\"{number}\">{number}</a>")
}

fn times(of: Option<&super::data::Times>) -> String {
    of.map_or_else(|| "–".to_owned(), words::times)
}

#[cfg(test)]
mod tests;
