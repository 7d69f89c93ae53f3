//! Blocks that a kernel can be launched with.

/// Threads of blocks that are tried, from the most usual.
const TOTALS: &[u32] = &[128, 256, 64, 512, 32, 1024];

/// Blocks other than the recorded one, the best guesses first, and others that are rarely worth it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shapes {
    pub tried: Vec<[u32; 3]>,
    pub dropped: Vec<[u32; 3]>,
}

/// Shapes of more than one dimension that are tried.
const MOST_SHAPES: usize = 10;

/// Most threads in the third dimension of a block, on all devices so far.
const MOST_IN_Z: u32 = 64;

/// `recorded` is varied in the dimensions that are `free`; no block has more than `most` threads.
pub(super) fn shapes(recorded: [u32; 3], free: [bool; 3], most: u32) -> Shapes {
    let fixed: u32 = (0..3)
        .filter(|&at| !free[at])
        .map(|at| recorded[at])
        .product();
    let dimensions = free.iter().filter(|free| **free).count();
    let mut all: Vec<[u32; 3]> = Vec::new();
    for &total in TOTALS {
        if total > most {
            continue;
        }
        let mut of_total = splits(recorded, free, total, fixed);
        // Whole warps along x first: memory is read in rows.
        of_total.sort_by_key(|shape| (shape[0] % 32 != 0, shape[1].max(shape[2]), shape[0]));
        all.extend(of_total);
    }
    let near = |shape: &[u32; 3]| {
        let threads: u32 = shape.iter().product();
        let before: u32 = recorded.iter().product();
        (i64::from(threads.max(1).ilog2()) - i64::from(before.max(1).ilog2())).abs()
    };
    if dimensions > 1 {
        // Many shapes: those of whole warps along x with as many threads as before, then those with half or twice as many.
        all.sort_by_key(|shape| {
            let narrow = shape[0] % 32 != 0;
            let flat = shape[1] * shape[2] == 1;
            (near(shape) > 1, narrow, near(shape), flat)
        });
    }
    let mut seen = vec![recorded];
    all.retain(|shape| {
        let new = !seen.contains(shape);
        seen.push(*shape);
        new
    });
    let dropped = if dimensions > 1 && all.len() > MOST_SHAPES {
        all.split_off(MOST_SHAPES)
    } else {
        Vec::new()
    };
    Shapes {
        tried: all,
        dropped,
    }
}

/// All powers of two in the free dimensions that have `total` threads together with what is fixed.
fn splits(recorded: [u32; 3], free: [bool; 3], total: u32, fixed: u32) -> Vec<[u32; 3]> {
    let powers = |at: usize| -> Vec<u32> {
        if free[at] {
            (0..=10).map(|power| 1 << power).collect()
        } else {
            vec![recorded[at]]
        }
    };
    let mut shapes = Vec::new();
    // With a fixed dimension that is no power of two the total is the next smaller one that fits.
    let wanted = 1 << (total / fixed.max(1)).max(1).ilog2();
    for &x in &powers(0) {
        for &y in &powers(1) {
            for &z in &powers(2) {
                let free_part: u32 = [x, y, z]
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| free[*at])
                    .map(|(_, size)| *size)
                    .product();
                let narrow = free[0] && x < 8 && recorded[0] >= 8;
                let deep = z > 8 && recorded[2] < 16;
                if free_part == wanted && z <= MOST_IN_Z && !narrow && !deep {
                    shapes.push([x, y, z]);
                }
            }
        }
    }
    shapes
}

/// `128x2x1`.
pub(super) fn spell(block: [u32; 3]) -> String {
    let [x, y, z] = block;
    format!("{x}x{y}x{z}")
}

/// The opposite of [`spell`]; missing dimensions are 1.
pub(super) fn parse(text: &str) -> Option<[u32; 3]> {
    let mut block = [1; 3];
    let mut parts = text.split('x');
    for place in &mut block {
        match parts.next() {
            Some(part) => *place = part.trim().parse().ok().filter(|size| *size > 0)?,
            None => break,
        }
    }
    parts.next().is_none().then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_threads_have_the_usual_sizes() {
        let found = shapes([256, 1, 1], [true, false, false], 1024);
        let sizes: Vec<u32> = found.tried.iter().map(|shape| shape[0]).collect();
        assert_eq!(sizes, [128, 64, 512, 32, 1024]);
        assert!(found.dropped.is_empty());
        assert!(found.tried.iter().all(|shape| shape[1] * shape[2] == 1));
    }

    #[test]
    fn no_block_has_more_threads_than_may_be() {
        let found = shapes([16, 16, 1], [true, true, false], 256);
        let all = found.tried.iter().chain(&found.dropped);
        assert!(
            all.clone()
                .all(|shape| shape.iter().product::<u32>() <= 256)
        );
        // The published best of a 2-D stencil that was recorded with 16x16.
        assert!(found.tried.contains(&[64, 4, 1]), "{:?}", found.tried);
        assert!(found.tried.contains(&[32, 8, 1]));
    }

    #[test]
    fn a_fixed_dimension_stays() {
        let found = shapes([32, 6, 1], [true, false, false], 1024);
        assert!(!found.tried.is_empty());
        assert!(
            found
                .tried
                .iter()
                .all(|shape| shape[1] == 6 && shape[2] == 1)
        );
    }

    #[test]
    fn blocks_are_spelled_and_read_alike() {
        assert_eq!(parse(&spell([64, 4, 1])), Some([64, 4, 1]));
        assert_eq!(parse("128"), Some([128, 1, 1]));
        assert_eq!(parse("128x0"), None);
        assert_eq!(parse("1x2x3x4"), None);
    }
}
