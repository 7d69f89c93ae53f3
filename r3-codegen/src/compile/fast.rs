//! Approximations that a source's own compiler makes.

use super::Job;
use crate::recipe::{Approximate, Change, Knob, Product, Source};

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

/// Tells what approximations did that only a source's compiler could have made.
pub(super) fn tell(job: &mut Job<'_>) {
    if job.recipe.approximate.functions {
        job.changes.push(Change {
            knob: Knob::Functions,
            places: Some(0),
        });
        job.notes.push(
            "fast mathematical functions are for source: here they are not calls any more"
                .to_owned(),
        );
    }
}

/// Tells what approximations of a source did: its compiler does not say where.
pub(super) fn tell_of_source(product: &mut Product, asked: &Approximate) {
    for change in &mut product.changes {
        if matches!(change.knob, Knob::Division | Knob::Flush) {
            change.places = None;
        }
    }
    if asked.functions {
        product.changes.push(Change {
            knob: Knob::Functions,
            places: None,
        });
        product
            .notes
            .push("mathematical functions are the compiler's fast ones".to_owned());
    }
}
