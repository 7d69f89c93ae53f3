//! The latest answers to questions of sources, in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::key::Key;
use crate::recipe::{Code, Failure};
use crate::source::Compiled;

/// Bytes of code and questions that are kept at most.
const MOST: usize = 64 << 20;

/// An answer.
type Answer = Result<Arc<Compiled>, Failure>;

/// Answers, the one that was used last at the end.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<(Key, Answer)>>);

impl Recent {
    pub(super) fn get(&self, key: &Key) -> Option<Answer> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|(known, _)| known == key)?;
        let found = all.remove(at)?;
        let answer = found.1.clone();
        all.push_back(found);
        Some(answer)
    }

    pub(super) fn put(&self, key: Key, answer: Answer) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back((key, answer));
        let mut bytes: usize = all.iter().map(size).sum();
        while bytes > MOST
            && let Some(oldest) = all.pop_front()
        {
            bytes -= size(&oldest);
        }
    }
}

fn size((key, answer): &(Key, Answer)) -> usize {
    let code = match answer {
        Ok(compiled) => match &compiled.code {
            Code::Ptx(text) | Code::Llvm(text) => text.len(),
            Code::Bitcode(bytes) | Code::LtoIr(bytes) => bytes.len(),
            Code::Source(source) => source.text.len(),
        },
        Err(failure) => failure.log.len(),
    };
    key.bytes.len() + code
}
