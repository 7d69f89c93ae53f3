//! Launch bounds of kernels.

use r3_ptx::tree::{self, FunctionDirective, Item};

use super::Edited;
use crate::recipe::{Bounds, Knob};

/// What each bound is called, and asked for by.
const NAMES: [(&str, Knob); 4] = [
    ("reqntid", Knob::RequiredThreads),
    ("maxntid", Knob::MaxThreads),
    ("minnctapersm", Knob::MinBlocks),
    ("maxnreg", Knob::MaxRegisters),
];

/// The directives that bounds ask for: `None` keeps what is there, no numbers remove it.
fn asked(bounds: &Bounds) -> [Option<Vec<u32>>; 4] {
    let one = |value: Option<u32>| {
        value.map(|value| match value {
            0 => Vec::new(),
            value => vec![value],
        })
    };
    [
        bounds.reqntid.map(|size| match size {
            [0, 0, 0] => Vec::new(),
            size => size.to_vec(),
        }),
        one(bounds.maxntid),
        one(bounds.minnctapersm),
        one(bounds.maxnreg),
    ]
}

/// Puts launch bounds in place of a kernel's own.
pub(crate) fn put(directives: &mut Vec<FunctionDirective>, bounds: &Bounds) {
    let has = |directives: &[FunctionDirective], name: &str| {
        directives.iter().any(|directive| is(directive, name))
    };
    for ((name, _), numbers) in NAMES.into_iter().zip(asked(bounds)) {
        let Some(numbers) = numbers else { continue };
        // A required block says all, and does not go together with a bound.
        if name == "reqntid" && !numbers.is_empty() {
            directives.retain(|directive| !is(directive, "maxntid"));
        }
        if name == "maxntid" && has(directives, "reqntid") && !numbers.is_empty() {
            continue;
        }
        let place = directives.iter().position(|directive| is(directive, name));
        let same = place
            .and_then(|at| directives.get(at))
            .is_some_and(|directive| matches!(directive, FunctionDirective::Numbers(_, old) if means(old, &numbers)));
        if same {
            continue;
        }
        directives.retain(|directive| !is(directive, name));
        if !numbers.is_empty() {
            directives.push(FunctionDirective::Numbers(name.into(), numbers));
        }
    }
}

fn is(directive: &FunctionDirective, name: &str) -> bool {
    matches!(directive, FunctionDirective::Numbers(known, _) if **known == *name)
}

/// Whether two lists of numbers mean the same: `256` is `256, 1, 1`.
fn means(a: &[u32], b: &[u32]) -> bool {
    let at = |list: &[u32], i: usize| list.get(i).copied().unwrap_or(1);
    !a.is_empty() && !b.is_empty() && (0..3).all(|i| at(a, i) == at(b, i))
}

/// Puts bounds on all kernels of a module.
pub(super) fn of_kernels(tree: &mut tree::Module, bounds: &Bounds, done: &mut Edited) {
    let before: Vec<Vec<FunctionDirective>> = kernels(tree).map(|k| k.directives.clone()).collect();
    tell(before.iter().map(Vec::as_slice), bounds, done);
    for item in &mut tree.items {
        if let Item::Function(function) = item
            && function.entry
        {
            let before = function.directives.clone();
            put(&mut function.directives, bounds);
            done.differs |= before != function.directives;
        }
    }
}

/// Kernels with a body.
pub(super) fn kernels(tree: &tree::Module) -> impl Iterator<Item = &tree::Function> {
    tree.items.iter().filter_map(|item| match item {
        Item::Function(function) if function.entry && function.body.is_some() => Some(function),
        _ => None,
    })
}

/// Tells what bounds change in kernels with these directives.
pub(crate) fn tell<'d>(
    kernels: impl Iterator<Item = &'d [FunctionDirective]>,
    bounds: &Bounds,
    done: &mut Edited,
) {
    let all = asked(bounds);
    if all.iter().all(Option::is_none) {
        return;
    }
    let mut counts = [0; NAMES.len()];
    let (mut required, mut alone) = (false, false);
    for before in kernels {
        let mut after = before.to_vec();
        put(&mut after, bounds);
        let list = |of: &[FunctionDirective], name: &str| {
            let mut found = of.to_vec();
            found.retain(|directive| is(directive, name));
            found
        };
        for ((name, _), count) in NAMES.into_iter().zip(&mut counts) {
            *count += u32::from(list(before, name) != list(&after, name));
        }
        let has = |name| !list(&after, name).is_empty();
        required |= has("reqntid") && !has("maxntid");
        alone |= has("minnctapersm") && !has("maxntid") && !has("reqntid");
    }
    if alone && let Some(count) = counts.get_mut(2) {
        *count = 0;
        if bounds.minnctapersm.is_some_and(|blocks| blocks > 0) {
            done.note(
                "assemblers heed .minnctapersm only with a block size: set maxntid or reqntid, too",
            );
        }
    }
    if required && bounds.maxntid.is_some_and(|threads| threads > 0) {
        done.note("the kernel requires a block size (.reqntid): maxntid says nothing beside it");
    }
    for (((_, knob), count), asked) in NAMES.into_iter().zip(counts).zip(all) {
        if asked.is_some() {
            done.count(knob, count);
        }
    }
}
