//! Results of a device in a file, so that another machine, at another time, can compare with them.
//!
//! The file is JSON lines, compressed: the device, then one line a case. Of exact results only a hash is kept, unless
//! all bytes are asked for.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::case::{Case, Result as Described};

/// First line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Name of the device, e.g. `NVIDIA H200`.
    pub device: String,
    /// Driver version, e.g. 13000.
    pub driver: i32,
}

/// What a case gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the case.
    pub name: String,
    /// Hash of code and inputs: results of another case of the same name are of no use.
    pub case: String,
    /// Results, buffer by buffer.
    pub results: Vec<Recorded>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One buffer of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recorded {
    /// Hash of the bytes.
    Hash(String),
    /// The bytes, in hexadecimal.
    Bytes(String),
    /// Hash of the bytes with zeros where words are approximate, and those words in hexadecimal.
    Mixed(String, String),
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system said so.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What it said.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{path}, line {line}: {source}")]
    Line {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// There is no first line.
    #[error("{path}: empty")]
    Empty {
        /// The file.
        path: String,
    },
}

impl Recorded {
    /// Of the bytes of a result, which are kept where they are approximate or `whole` says so.
    pub fn new(result: &Described, bytes: &[u8], whole: bool) -> Self {
        if whole || (result.is_approximate() && result.mixed.is_none()) {
            return Self::Bytes(hexadecimal(bytes));
        }
        let mut exact = bytes.to_vec();
        let mut words = Vec::new();
        for at in result.approximate_words(bytes.len()) {
            if let Some(word) = exact.get_mut(at..at + 4) {
                words.extend_from_slice(word);
                word.fill(0);
            }
        }
        if words.is_empty() {
            Self::Hash(hash(bytes))
        } else {
            Self::Mixed(hash(&exact), hexadecimal(&words))
        }
    }

    /// All bytes.
    pub fn whole(bytes: &[u8]) -> Self {
        Self::Bytes(hexadecimal(bytes))
    }

    /// The bytes as the other device gave them. Where only a hash is kept it has to be that of `ours`.
    ///
    /// # Errors
    /// What is wrong: another hash, another length.
    pub fn complete(&self, result: &Described, ours: &[u8]) -> Result<Vec<u8>, &'static str> {
        match self {
            Self::Bytes(text) => bytes(text)
                .filter(|theirs| theirs.len() == ours.len())
                .ok_or("the record has another length"),
            Self::Hash(expected) if *expected == hash(ours) => Ok(ours.to_vec()),
            Self::Hash(_) => Err("other bytes (only their hash is kept)"),
            Self::Mixed(expected, text) => {
                let words = bytes(text).ok_or("the record is damaged")?;
                let places: Vec<usize> = result.approximate_words(ours.len()).collect();
                if places.len() * 4 != words.len() {
                    return Err("the record has another length");
                }
                let (mut exact, mut theirs) = (ours.to_vec(), ours.to_vec());
                for (at, word) in places.into_iter().zip(words.chunks(4)) {
                    if let Some(place) = exact.get_mut(at..at + 4) {
                        place.fill(0);
                    }
                    if let Some(place) = theirs.get_mut(at..at + 4) {
                        place.copy_from_slice(word);
                    }
                }
                if *expected == hash(&exact) {
                    Ok(theirs)
                } else {
                    Err("other bytes where they are exact (only their hash is kept)")
                }
            }
        }
    }

    /// The bytes, when all are here.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Bytes(text) => bytes(text),
            _ => None,
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// A record without the bytes of exact results, of these cases only.
pub fn shorten(entries: &[Entry], cases: &[Case]) -> Vec<Entry> {
    let short = |case: &Case| {
        let entry = entries
            .iter()
            .find(|entry| entry.name == case.name && entry.case == identity(case))?;
        let described = case
            .buffers
            .iter()
            .filter_map(|buffer| buffer.result.as_ref());
        let results = entry.results.iter().zip(described);
        let results = results.map(|(recorded, result)| match recorded.bytes() {
            Some(bytes) => Recorded::new(result, &bytes, false),
            None => recorded.clone(),
        });
        Some(Entry {
            results: results.collect(),
            ..entry.clone()
        })
    };
    cases.iter().filter_map(short).collect()
}

/// Hash of code and inputs.
pub fn identity(case: &Case) -> String {
    let mut bytes = case.ptx.as_bytes().to_vec();
    bytes.push(case.as_written.into());
    for buffer in &case.buffers {
        bytes.extend_from_slice(&buffer.bytes);
    }
    hash(&bytes)
}

/// Hash of bytes, in hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

/// Writes a file.
///
/// # Errors
/// When the file system says so.
pub fn write(path: &Path, head: &Head, entries: &[Entry]) -> Result<(), RecordError> {
    let io = |source| RecordError::Io {
        path: path.display().to_string(),
        source,
    };
    let file = BufWriter::new(File::create(path).map_err(io)?);
    let mut encoder = zstd::Encoder::new(file, 19).map_err(io)?;
    let json = |source: serde_json::Error| io(source.into());
    serde_json::to_writer(&mut encoder, head).map_err(json)?;
    encoder.write_all(b"\n").map_err(io)?;
    for entry in entries {
        serde_json::to_writer(&mut encoder, entry).map_err(json)?;
        encoder.write_all(b"\n").map_err(io)?;
    }
    encoder
        .finish()
        .and_then(|mut file| file.flush())
        .map_err(io)
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read or is not such a file.
pub fn read(path: &Path) -> Result<(Head, Vec<Entry>), RecordError> {
    let name = path.display().to_string();
    let io = |source| RecordError::Io {
        path: path.display().to_string(),
        source,
    };
    let reader = BufReader::new(zstd::Decoder::new(File::open(path).map_err(io)?).map_err(io)?);
    let mut head = None;
    let mut entries = Vec::new();
    for (index, line) in reader.lines().enumerate() {
        let line = line.map_err(io)?;
        let wrong = |source| RecordError::Line {
            path: name.clone(),
            line: index + 1,
            source,
        };
        if head.is_none() {
            head = Some(serde_json::from_str(&line).map_err(wrong)?);
        } else {
            entries.push(serde_json::from_str(&line).map_err(wrong)?);
        }
    }
    Ok((head.ok_or(RecordError::Empty { path: name })?, entries))
}
