//! Approximations that a source's own compiler makes.

use super::Job;
use crate::recipe::{Approximate, Change, Code, Knob, Source};

/// A source with what its compiler is told.
pub(super) fn source(source: &Source, approximate: &Approximate) -> Source {
    let switches: [(bool, &[&str]); 3] = [
        (
            approximate.division,
            &["-prec-div=false", "-prec-sqrt=false"],
        ),
        (approximate.flush, &["-ftz=true"]),
        (approximate.functions, &["-fgpu-approx-transcendentals"]),
    ];
    let mut source = source.clone();
    for (asked, words) in switches {
        if asked {
            source
                .options
                .extend(words.iter().map(|word| (*word).to_owned()));
        }
    }
    source
}

/// Notes of a compiler without those about switches that the edits of PTX stand in for.
pub(super) fn notes(mut notes: Vec<String>, approximate: &Approximate) -> Vec<String> {
    if approximate.division {
        notes.retain(|note| !note.contains("counterpart of -prec-"));
    }
    notes
}

/// Tells what approximations of a source did: its compiler does not say where.
pub(super) fn tell(job: &mut Job<'_>) {
    let is_source = matches!(job.recipe.code, Code::Source(_));
    let asked = job.recipe.approximate;
    if is_source {
        for change in &mut job.changes {
            if matches!(change.knob, Knob::Division | Knob::Flush) {
                change.places = None;
            }
        }
    }
    if asked.functions {
        let places = match is_source {
            true => None,
            false => Some(0),
        };
        job.changes.push(Change {
            knob: Knob::Functions,
            places,
        });
        job.notes.push(
            match is_source {
                true => "mathematical functions are the compiler's fast ones",
                false => {
                    "fast mathematical functions are for source: here they are not calls any more"
                }
            }
            .to_owned(),
        );
    }
}
