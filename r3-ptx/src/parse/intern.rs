//! Texts to numbers, each text hashed once where it stands.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

/// A set of texts, each with a value. Values are given out by the caller.
pub(super) struct Interner<'a, T> {
    entries: Vec<Entry<'a, T>>,
    /// Index into `entries` plus one; 0 is free. A power of two long.
    table: Vec<u32>,
    seed: u64,
}

struct Entry<'a, T> {
    hash: u32,
    text: Cow<'a, str>,
    value: T,
}

impl<'a, T: Copy> Interner<'a, T> {
    pub fn new() -> Self {
        Interner {
            entries: Vec::new(),
            table: vec![0; 256],
            // Texts come from outside: nobody shall be able to make them all collide.
            seed: RandomState::new().hash_one(0u8),
        }
    }

    /// The value of a text; `make` gives it where the text is new.
    pub fn intern<E>(
        &mut self,
        text: Cow<'a, str>,
        make: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, E> {
        let hash = hash(self.seed, text.as_bytes());
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.table.get(slot).copied().unwrap_or(0) {
                0 => break,
                index => {
                    if let Some(entry) = self.entries.get(index as usize - 1)
                        && entry.hash == hash
                        && entry.text == text
                    {
                        return Ok(entry.value);
                    }
                }
            }
            slot = (slot + 1) & mask;
        }
        let value = make(&text)?;
        self.entries.push(Entry { hash, text, value });
        // Fewer than 2^32: each text takes a byte and more of a text whose places are counted in 32 bits.
        self.table[slot] = self.entries.len() as u32;
        if self.entries.len() * 2 > self.table.len() {
            self.grow();
        }
        Ok(value)
    }

    /// Gives a text that is known another value.
    pub fn replace(&mut self, text: &str, value: T) {
        let hash = hash(self.seed, text.as_bytes());
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        while let Some(index) = self.table.get(slot).and_then(|index| index.checked_sub(1)) {
            if let Some(entry) = self.entries.get_mut(index as usize)
                && entry.text == text
            {
                entry.value = value;
                return;
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let len = self.table.len() * 4;
        let mask = len - 1;
        let mut table = vec![0u32; len];
        for (index, entry) in self.entries.iter().enumerate() {
            let mut slot = entry.hash as usize & mask;
            while table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            table[slot] = index as u32 + 1;
        }
        self.table = table;
    }
}

/// Multiply-and-fold over eight bytes at a time.
fn hash(seed: u64, bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(FACTOR);
        (product as u64) ^ (product >> 64) as u64
    };
    let mut state = seed ^ bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state, u64::from_le_bytes(*word));
    }
    let mut last = [0u8; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    state = fold(state, u64::from_le_bytes(last));
    (fold(state, seed.rotate_left(32)) >> 16) as u32
}
