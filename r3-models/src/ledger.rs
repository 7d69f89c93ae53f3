//! What was sent, in a file, before it is sent: so that a run that is killed knows afterwards what may be charged for it.
//!
//! A line is written before a request goes out, with the most that it can take, and one when it is back, with what it took. A process that
//! is killed, or that ends while requests are under way, leaves lines without the second one: nobody knows what became of these, and
//! [`Book::lost`] counts them at their most. The other way round, [`Book::took`] has everything that came back, attempts that failed and
//! small questions to a service that was down among them, whether or not anybody kept the answers.
//!
//! Lines are only appended, each by one write. What a crash cut off at the end is passed over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::account::{Most, Totals};
use crate::chat::{Spent, Usage};

/// Its name in the folder of a run.
pub const FILE: &str = "models.jsonl";

/// Bytes of a line at most.
const MOST_OF_A_LINE: u64 = 64 << 10;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct LedgerError {
    /// Which.
    path: PathBuf,
    /// Why.
    source: std::io::Error,
}

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// A process begins: numbers begin again, and what is under way of those before is lost.
    Begin {},
    /// What a model took before there was a ledger.
    Before { model: String, spent: Spent },
    /// A request goes out.
    Sent {
        number: u64,
        model: String,
        prompt: u64,
        completion: u64,
        cost: f64,
    },
    /// It is back.
    Back { number: u64, spent: Spent },
}

/// Requests that were sent and did not come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// How many.
    pub requests: u64,
    /// Tokens of their prompts, at most.
    pub prompt: u64,
    /// Tokens of answers, at most.
    pub completion: u64,
    /// US dollars, at most.
    pub cost: f64,
}

impl Lost {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.completion = self.completion.saturating_add(other.completion);
        self.cost += other.cost;
    }

    /// As if it had been taken.
    fn spent(&self) -> Spent {
        Spent {
            requests: self.requests,
            failed: self.requests,
            usage: Usage {
                prompt: self.prompt,
                cached: 0,
                completion: self.completion,
                estimated: true,
            },
            cost: self.cost,
            seconds: 0.0,
        }
    }
}

/// What a ledger says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Book {
    /// What came back, by model.
    pub took: Totals,
    /// What did not, of processes that are gone, by model.
    pub lost: BTreeMap<String, Lost>,
    /// What has not yet come back, of the process that wrote last: lost as well, when that one is gone.
    pub under_way: BTreeMap<String, Lost>,
}

impl Book {
    /// What a file says; nothing where there is none.
    pub fn read(path: &Path) -> Result<Self, LedgerError> {
        let failed = |source| LedgerError {
            path: path.to_owned(),
            source,
        };
        // No waiting for a pipe's other end.
        const O_NONBLOCK: i32 = 0o4000;
        let file = match File::options()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(path)
        {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(failed(error)),
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(std::io::Error::other("is no file")));
        }
        let mut book = Self::default();
        let mut open: BTreeMap<u64, (String, Lost)> = BTreeMap::new();
        let mut begun = false;
        let mut before: BTreeMap<String, Spent> = BTreeMap::new();
        let mut reader = BufReader::new(file);
        loop {
            let mut bytes = Vec::new();
            let mut part = (&mut reader).take(MOST_OF_A_LINE);
            if part.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
                break;
            }
            match serde_json::from_slice(&bytes) {
                Ok(Line::Begin {}) => {
                    begun = true;
                    for (model, spent) in std::mem::take(&mut before) {
                        book.took.add(&model, &spent);
                    }
                    book.lose(&mut open);
                }
                Ok(Line::Before { model, spent }) if begun => book.took.add(&model, &spent),
                // Of a process that was killed here, perhaps, and then written again.
                Ok(Line::Before { model, spent }) => {
                    before.insert(model, spent);
                }
                Ok(Line::Sent {
                    number,
                    model,
                    prompt,
                    completion,
                    cost,
                }) => {
                    let lost = Lost {
                        requests: 1,
                        prompt,
                        completion,
                        cost,
                    };
                    open.insert(number, (model, lost));
                }
                Ok(Line::Back { number, spent }) => {
                    if let Some((model, _)) = open.remove(&number) {
                        book.took.add(&model, &spent);
                    }
                }
                // Cut off by a crash, or of a later version.
                Err(_) => {}
            }
        }
        for (model, lost) in open.into_values() {
            book.under_way.entry(model).or_default().add(&lost);
        }
        Ok(book)
    }

    fn lose(&mut self, open: &mut BTreeMap<u64, (String, Lost)>) {
        for (model, lost) in std::mem::take(open).into_values() {
            self.lost.entry(model).or_default().add(&lost);
        }
    }

    /// What is to be taken for spent: what came back, and what did not at its most.
    pub fn at_most(&self) -> Totals {
        let mut all = self.took.clone();
        for (model, lost) in self.lost.iter().chain(&self.under_way) {
            all.add(model, &lost.spent());
        }
        all
    }

    /// Requests of which `kept` has no answer, by model, at most: those that did not come back, and those whose answers came and were
    /// not kept. `is_over` says that the process that wrote last is gone.
    pub fn not_in(&self, kept: &Totals, is_over: bool) -> BTreeMap<String, Lost> {
        let mut all = self.lost.clone();
        if is_over {
            for (model, lost) in &self.under_way {
                all.entry(model.clone()).or_default().add(lost);
            }
        }
        for (model, took) in &self.took.models {
            let none = Spent::default();
            let kept = kept.models.get(model).unwrap_or(&none);
            let more = Lost {
                requests: took.requests.saturating_sub(kept.requests),
                prompt: took.usage.prompt.saturating_sub(kept.usage.prompt),
                completion: took.usage.completion.saturating_sub(kept.usage.completion),
                cost: (took.cost - kept.cost).max(0.0),
            };
            if more.requests > 0 {
                all.entry(model.clone()).or_default().add(&more);
            }
        }
        all.retain(|_, lost| lost.requests > 0);
        all
    }
}

/// The file of a process that asks.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    path: PathBuf,
    next: u64,
    ends_within_line: bool,
}

impl Ledger {
    /// Goes on with a file, or begins one, and says what it had. `before` is what a run has taken that had no ledger so far.
    pub fn open(path: &Path, before: &Totals) -> Result<(Self, Book), LedgerError> {
        let mut book = Book::read(path)?;
        let is_new = book == Book::default();
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|source| LedgerError {
                path: path.to_owned(),
                source,
            })?;
        let mut ledger = Self {
            file,
            path: path.to_owned(),
            next: 0,
            // A crash may have left half a line.
            ends_within_line: true,
        };
        let mut lines = Vec::new();
        if is_new {
            for (model, spent) in &before.models {
                lines.push(Line::Before {
                    model: model.clone(),
                    spent: *spent,
                });
                book.took.add(model, spent);
            }
        }
        // Last: without it, what stands in front of it counts as not written.
        lines.push(Line::Begin {});
        ledger.write(&lines)?;
        Ok((ledger, book))
    }

    /// A request goes out: not before this has come back. Its number.
    pub(crate) fn sent(&mut self, model: &str, most: &Most) -> Result<u64, LedgerError> {
        let number = self.next;
        self.next += 1;
        self.write(&[Line::Sent {
            number,
            model: model.to_owned(),
            prompt: most.prompt(),
            completion: most.tokens().saturating_sub(most.prompt()),
            cost: most.cost(),
        }])?;
        Ok(number)
    }

    /// A request is back.
    pub(crate) fn back(&mut self, number: u64, spent: &Spent) -> Result<(), LedgerError> {
        self.write(&[Line::Back {
            number,
            spent: *spent,
        }])
    }

    fn write(&mut self, lines: &[Line]) -> Result<(), LedgerError> {
        let failed = |source| LedgerError {
            path: self.path.clone(),
            source,
        };
        let mut text = String::new();
        if self.ends_within_line {
            text.push('\n');
        }
        for line in lines {
            text.push_str(&serde_json::to_string(line).map_err(|error| failed(error.into()))?);
            text.push('\n');
        }
        let written = self.file.write_all(text.as_bytes()).map_err(failed);
        // What was written of it may lack its end.
        self.ends_within_line = written.is_err();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Price;

    const PRICE: Price = Price {
        input: 1.0,
        cached: None,
        output: 10.0,
    };

    fn took(prompt: u64, completion: u64) -> Spent {
        let usage = Usage {
            prompt,
            completion,
            ..Usage::default()
        };
        Spent {
            requests: 1,
            usage,
            cost: PRICE.of(&usage),
            ..Spent::default()
        }
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("models.jsonl");
        (folder, file)
    }

    #[test]
    fn what_never_came_back_is_counted_at_its_most() {
        let (_folder, file) = folder();
        let most = Most::new(1000, 500, &PRICE);
        {
            let (mut ledger, book) = Ledger::open(&file, &Totals::default()).unwrap();
            assert_eq!(book, Book::default());
            let first = ledger.sent("m", &most).unwrap();
            ledger.sent("m", &most).unwrap();
            ledger.sent("n", &most).unwrap();
            ledger.back(first, &took(300, 20)).unwrap();
            let book = Book::read(&file).unwrap();
            assert_eq!(book.under_way["m"].requests, 1);
            assert!(book.not_in(&book.took, false).is_empty(), "it may come yet");
        }
        let (mut ledger, book) = Ledger::open(&file, &Totals::default()).unwrap();
        let unknown = Lost {
            requests: 1,
            prompt: 1000,
            completion: 500,
            cost: 0.006,
        };
        assert_eq!(book.not_in(&book.took, true)["m"], unknown);
        let all = book.at_most().all();
        assert_eq!(
            (all.requests, all.usage.prompt, all.usage.completion),
            (3, 2300, 1020)
        );
        assert!(all.usage.estimated);
        // Numbers begin again: one of this process is none of the one before.
        let again = ledger.sent("m", &most).unwrap();
        ledger.back(again, &took(300, 20)).unwrap();
        let book = Book::read(&file).unwrap();
        assert_eq!((book.lost["m"], book.lost["n"]), (unknown, unknown));
        assert_eq!(book.took.all().requests, 2);
        assert!(book.under_way.is_empty());
    }

    #[test]
    fn answers_that_came_and_were_not_kept_are_not_forgotten() {
        let (_folder, file) = folder();
        let (mut ledger, _) = Ledger::open(&file, &Totals::default()).unwrap();
        for _ in 0..3 {
            let number = ledger.sent("m", &Most::new(1000, 500, &PRICE)).unwrap();
            ledger.back(number, &took(300, 20)).unwrap();
        }
        let mut kept = Totals::default();
        kept.add("m", &took(300, 20));
        let book = Book::read(&file).unwrap();
        let not = book.not_in(&kept, true)["m"];
        assert_eq!((not.requests, not.prompt, not.completion), (2, 600, 40));
    }

    #[test]
    fn a_run_that_had_no_ledger_begins_one_with_what_it_took() {
        let (_folder, file) = folder();
        let mut before = Totals::default();
        before.add("m", &took(300, 20));
        for _ in 0..2 {
            let (_, book) = Ledger::open(&file, &before).unwrap();
            assert_eq!(book.took, before, "once");
        }
    }

    #[test]
    fn what_was_taken_before_counts_once_wherever_a_crash_cuts_the_first_lines() {
        let (_folder, file) = folder();
        let mut before = Totals::default();
        before.add("m", &took(300, 20));
        before.add("n", &took(500, 10));
        Ledger::open(&file, &before).unwrap();
        let whole = std::fs::read(&file).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&file, &whole[..cut]).unwrap();
            let (_, book) = Ledger::open(&file, &before).unwrap();
            assert_eq!(book.took, before, "cut at {cut}");
            assert_eq!(Book::read(&file).unwrap().took, before, "cut at {cut}");
        }
    }

    /// Wherever a crash cuts the file, what was there before counts, and what is written after it.
    #[test]
    fn a_file_that_is_cut_off_anywhere_is_read_and_written_on() {
        let (folder, file) = folder();
        let most = Most::new(1000, 500, &PRICE);
        {
            let (mut ledger, _) = Ledger::open(&file, &Totals::default()).unwrap();
            let number = ledger.sent("m", &most).unwrap();
            ledger.back(number, &took(300, 20)).unwrap();
            ledger.sent("m", &most).unwrap();
        }
        let whole = std::fs::read(&file).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&file, &whole[..cut]).unwrap();
            let before = Book::read(&file).unwrap().at_most().all();
            let (mut ledger, _) = Ledger::open(&file, &Totals::default()).unwrap();
            let number = ledger.sent("m", &most).unwrap();
            ledger.back(number, &took(1, 1)).unwrap();
            let after = Book::read(&file).unwrap().at_most().all();
            assert_eq!(after.requests, before.requests + 1, "cut at {cut}");
            assert_eq!(after.usage.prompt, before.usage.prompt + 1, "cut at {cut}");
        }
        assert!(Book::read(folder.path()).is_err(), "a folder is no ledger");
    }
}
