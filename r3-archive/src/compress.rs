//! zstd with contexts that are used again.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use zstd::bulk::{Compressor, Decompressor};

/// Compression contexts, one for each thread that compresses at the same time.
pub(crate) struct Compressors {
    level: i32,
    idle: Mutex<Vec<Compressor<'static>>>,
}

impl Compressors {
    pub fn new(level: i32) -> Self {
        let range = zstd::compression_level_range();
        Self {
            level: level.clamp(*range.start(), *range.end()),
            idle: Mutex::default(),
        }
    }

    /// Compresses `raw` into `out` and says whether that was worth it. When it was not, `out`
    /// holds nothing of use.
    pub fn compress(&self, raw: &[u8], out: &mut Vec<u8>) -> io::Result<bool> {
        // Less than one part in 32 saved costs more time in readers than it is worth.
        let worth = raw.len() - raw.len() / 32;
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut context = match idle {
            Some(context) => context,
            None => Compressor::new(self.level)?,
        };
        out.clear();
        out.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        let len = context.compress_to_buffer(raw, out)?;
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(context);
        Ok(len < worth)
    }
}

/// Decompression contexts, one for each thread that reads at the same time.
#[derive(Default)]
pub(crate) struct Decompressors {
    idle: Mutex<Vec<Decompressor<'static>>>,
}

impl Decompressors {
    /// Decompresses one frame into all of `out`.
    pub fn decompress(&self, stored: &[u8], out: &mut [u8]) -> io::Result<()> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut context = match idle {
            Some(context) => context,
            None => Decompressor::new()?,
        };
        let len = context.decompress_to_buffer(stored, out);
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(context);
        if len? != out.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "shorter than it claims",
            ));
        }
        Ok(())
    }
}
