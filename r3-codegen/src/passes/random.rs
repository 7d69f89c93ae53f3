//! Random pipelines.

use super::space::{Level, PASSES, Parameter, Pass};

/// A stream of numbers that depends on nothing but its seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins a stream.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        // The high half of a product: as even as 64 bits allow, and without a division.
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// True once in so many times.
    pub const fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = self.below(from.len() as u64);
        from.get(usize::try_from(at).ok()?)
    }
}

/// A pipeline of 8 to 25 passes, the same for a seed in every version of this crate with the same list of passes. It is valid
/// for any module with the NVPTX target.
#[must_use]
pub fn random_pipeline(seed: u64) -> String {
    let mut random = Random::new(seed);
    let count = 8 + random.below(18);
    let drawn: Vec<(Level, String)> = (0..count)
        .filter_map(|_| {
            let pass = draw(&mut random)?;
            let parameters = parameters(&mut random, pass);
            Some((pass.level, pass.text(&parameters)))
        })
        .collect();
    // Neighbours of one level share an adaptor, as in LLVM's own pipelines.
    drawn
        .chunk_by(|left, right| left.0 == right.0)
        .filter_map(|group| {
            let texts: Vec<&str> = group.iter().map(|(_, text)| text.as_str()).collect();
            let (level, _) = group.first()?;
            Some(level.wrap(&texts.join(",")))
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// Draws a pass by weight.
fn draw(random: &mut Random) -> Option<&'static Pass> {
    let total: u64 = PASSES.iter().map(|pass| u64::from(pass.weight)).sum();
    let mut at = random.below(total);
    PASSES.iter().find(|pass| {
        let weight = u64::from(pass.weight);
        let here = at < weight;
        at = at.saturating_sub(weight);
        here
    })
}

/// Draws what is said about a pass. Mostly nothing, so that its defaults are seen too.
fn parameters(random: &mut Random, pass: &Pass) -> Vec<String> {
    let mut written = Vec::new();
    let silent = random.once_in(2);
    for parameter in pass.parameters {
        if let Parameter::Fixed(text) = parameter {
            written.push((*text).to_owned());
            continue;
        }
        if silent || !random.once_in(3) {
            continue;
        }
        match parameter {
            Parameter::Fixed(_) => {}
            Parameter::Optional(text) => written.push((*text).to_owned()),
            Parameter::Flag(text) => written.push(if random.once_in(2) {
                (*text).to_owned()
            } else {
                format!("no-{text}")
            }),
            Parameter::Choice(of) => written.extend(random.pick(of).map(|text| (*text).to_owned())),
            Parameter::Number(name, of) => {
                written.extend(random.pick(of).map(|value| format!("{name}={value}")));
            }
        }
    }
    written
}
