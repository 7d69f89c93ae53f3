//! Decompression of entries, under limits.
//!
//! Output grows as it is produced: a length that an image declares is never allocated
//! before the bytes are there.

use std::io::Read;

/// No payload may grow beyond this, in bytes.
pub const MAX_PAYLOAD: u64 = 1 << 30;

/// A payload may grow to this many times its stored length, or to [`EXPANSION_FLOOR`] bytes
/// when that is more. Compilers' output stays far below both.
pub const MAX_EXPANSION: u64 = 1024;

/// See [`MAX_EXPANSION`].
pub const EXPANSION_FLOOR: u64 = 64 << 20;

/// How an entry's payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// As it is.
    None,
    /// A raw LZ4 block.
    Lz4,
    /// A Zstandard frame.
    Zstd,
    /// Marked as compressed in a way that is not known here: the payload is handed out as it is
    /// stored. LTO-IR is like this.
    Opaque,
}

/// Why a payload cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The entry's bytes lie outside the image.
    #[error("the image ends inside the entry")]
    Truncated,
    /// The payload would grow beyond the limit.
    #[error("it grows beyond {limit} bytes (from {stored})")]
    TooLarge {
        /// Stored length.
        stored: u64,
        /// The limit.
        limit: u64,
    },
    /// The compressed bytes are damaged.
    #[error("damaged {codec} data: {detail}")]
    Corrupt {
        /// The codec.
        codec: &'static str,
        /// What the decoder said.
        detail: String,
    },
}

/// The most bytes to which `stored` compressed bytes may grow.
pub(crate) fn limit_for(stored: u64) -> u64 {
    stored
        .saturating_mul(MAX_EXPANSION)
        .clamp(EXPANSION_FLOOR, MAX_PAYLOAD)
}

/// Decompresses a raw LZ4 block. `declared` is where the output buffer starts: the field in the
/// image can be too small.
pub(crate) fn lz4(stored: &[u8], declared: u64) -> Result<Vec<u8>, PayloadError> {
    let len = stored.len() as u64;
    // One byte of LZ4 yields at most 255.
    let limit = limit_for(len).min(len.saturating_mul(255).saturating_add(64));
    let mut size = declared.clamp(64, limit);
    loop {
        let mut out = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        match lz4_flex::block::decompress_into(stored, &mut out) {
            Ok(written) => {
                out.truncate(written);
                return Ok(out);
            }
            Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if size < limit => {
                size = size.saturating_mul(2).min(limit);
            }
            Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) => {
                return Err(PayloadError::TooLarge { stored: len, limit });
            }
            Err(error) => {
                return Err(PayloadError::Corrupt {
                    codec: "LZ4",
                    detail: error.to_string(),
                });
            }
        }
    }
}

/// Decompresses a Zstandard frame.
pub(crate) fn zstd(stored: &[u8], declared: u64) -> Result<Vec<u8>, PayloadError> {
    let len = stored.len() as u64;
    let limit = limit_for(len);
    let corrupt = |error: std::io::Error| PayloadError::Corrupt {
        codec: "Zstandard",
        detail: error.to_string(),
    };
    let decoder = ::zstd::stream::read::Decoder::with_buffer(stored)
        .map_err(corrupt)?
        .single_frame();
    let mut out = Vec::with_capacity(usize::try_from(declared.min(1 << 20)).unwrap_or(0));
    decoder
        .take(limit + 1)
        .read_to_end(&mut out)
        .map_err(corrupt)?;
    if out.len() as u64 > limit {
        return Err(PayloadError::TooLarge { stored: len, limit });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Vec<u8> {
        b"the same words, the same words, ".repeat(1000)
    }

    #[test]
    fn lz4_grows_beyond_a_declared_length_that_is_too_short() {
        let packed = lz4_flex::block::compress(&text());
        for declared in [0, 1, 1000, text().len() as u64, u64::MAX] {
            assert!(lz4(&packed, declared).unwrap() == text(), "{declared}");
        }
    }

    #[test]
    fn zstandard_ignores_the_declared_length_and_padding_behind_the_frame() {
        let mut packed = zstd::encode_all(&text()[..], 3).unwrap();
        packed.extend([0; 7]);
        for declared in [0, 1000, u64::MAX] {
            assert!(
                super::zstd(&packed, declared).unwrap() == text(),
                "{declared}"
            );
        }
    }

    #[test]
    fn output_beyond_the_limit_is_refused() {
        let zeros = vec![0; EXPANSION_FLOOR as usize + 1];
        let packed = zstd::encode_all(&zeros[..], 1).unwrap();
        let error = super::zstd(&packed, 0).unwrap_err();
        let stored = packed.len() as u64;
        let limit = EXPANSION_FLOOR.max(stored * MAX_EXPANSION);
        assert_eq!(error, PayloadError::TooLarge { stored, limit });
    }

    #[test]
    fn damage_is_an_error() {
        let mut packed = zstd::encode_all(&text()[..], 3).unwrap();
        packed.truncate(packed.len() / 2);
        assert!(matches!(
            super::zstd(&packed, 0),
            Err(PayloadError::Corrupt { .. })
        ));
        assert!(matches!(
            lz4(&[0xF0], 10),
            Err(PayloadError::Corrupt { .. })
        ));
    }
}
