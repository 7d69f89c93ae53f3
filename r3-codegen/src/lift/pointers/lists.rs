//! Lists by register, and what they lead to.

use r3_ptx::typed::RegId;

/// A list of numbers for each register.
pub(super) struct Lists {
    first: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// From pairs, which are asked for twice: to count, and to fill in.
    pub fn new<P: Iterator<Item = (RegId, u32)>>(registers: usize, pairs: impl Fn() -> P) -> Self {
        let mut first = vec![0u32; registers + 2];
        for (register, _) in pairs() {
            if let Some(count) = first.get_mut(register.0 as usize + 2) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for count in &mut first {
            sum += *count;
            *count = sum;
        }
        // The second entry of each register is where its next item goes: in the end, where the next list begins.
        let mut items = vec![0u32; sum as usize];
        for (register, item) in pairs() {
            let Some(next) = first.get_mut(register.0 as usize + 1) else {
                continue;
            };
            if let Some(place) = items.get_mut(*next as usize) {
                *place = item;
            }
            *next += 1;
        }
        Self { first, items }
    }

    /// The list of a register.
    pub fn of(&self, register: RegId) -> &[u32] {
        let at = register.0 as usize;
        match (self.first.get(at), self.first.get(at + 1)) {
            (Some(from), Some(to)) => self.items.get(*from as usize..*to as usize),
            _ => None,
        }
        .unwrap_or_default()
    }

    /// Registers that are reached from some.
    pub fn reached<'r>(
        &self,
        mut queue: Vec<RegId>,
        next: impl Fn(u32) -> &'r [RegId],
    ) -> Vec<bool> {
        let mut reached = vec![false; self.first.len()];
        while let Some(register) = queue.pop() {
            match reached.get_mut(register.0 as usize) {
                Some(reached) if !*reached => *reached = true,
                _ => continue,
            }
            for &item in self.of(register) {
                queue.extend(next(item));
            }
        }
        reached
    }
}
