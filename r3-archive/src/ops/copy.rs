//! Copying parts of one archive into another.

use std::path::Path;

use super::{OpError, Written};
use crate::{
    Archive, ArchiveWriter, Record, WriterOptions,
    chunk::{Blob, ChunkId, ChunkRef},
    format::Codec,
    model::{AttachmentRecord, LaunchRecord, ModuleRecord, SourceRecord, TunedKernelRecord},
};

/// An archive that is being put together from others.
pub(super) struct Output {
    writer: ArchiveWriter,
    pub written: Written,
}

impl Output {
    /// Creates `path`, fills it by `fill`, and finishes it; removes it when that fails.
    pub fn create(
        path: &Path,
        fill: impl FnOnce(&mut Self) -> Result<(), OpError>,
    ) -> Result<Written, OpError> {
        let options = WriterOptions {
            workers: 0,
            ..WriterOptions::default()
        };
        let writer = ArchiveWriter::create(path, options)?;
        let mut output = Self {
            writer,
            written: Written::default(),
        };
        let filled = fill(&mut output).and_then(|()| Ok(output.writer.finish()?));
        match filled {
            Ok(()) => {
                output.written.bytes = output.writer.stored_bytes();
                Ok(output.written)
            }
            Err(error) => {
                let _ = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Stores bytes of any length.
    pub fn put(&mut self, bytes: &[u8]) -> Result<Blob, OpError> {
        Ok(self.writer.put_bytes(bytes)?)
    }

    pub fn append<R: Record>(&mut self, record: &R) -> Result<(), OpError> {
        Ok(self.writer.append(record)?)
    }

    /// Copies a chunk as it is compressed, after its hash was checked.
    fn chunk(&mut self, from: &Archive, id: ChunkId) -> Result<(), OpError> {
        if self.writer.has_chunk(id) {
            return Ok(());
        }
        let (stored, codec, raw_len) = from.stored_chunk(id)?;
        self.writer.put_stored(id, codec, raw_len, &stored)?;
        self.written.chunks += 1;
        Ok(())
    }

    fn blob(&mut self, from: &Archive, blob: &Blob) -> Result<(), OpError> {
        from.check_list(&blob.chunks, blob.len)?;
        blob.chunks
            .stored()
            .try_for_each(|(_, id)| self.chunk(from, id))
    }

    /// Copies a module; `record` is the one of `from`, or the same with other ids.
    pub fn module(&mut self, from: &Archive, record: &ModuleRecord) -> Result<(), OpError> {
        self.blob(from, &record.image)?;
        self.written.modules += 1;
        self.append(record)
    }

    /// Copies a source, as above.
    pub fn source(&mut self, from: &Archive, record: &SourceRecord) -> Result<(), OpError> {
        self.blob(from, &record.text)?;
        record
            .headers
            .iter()
            .try_for_each(|(_, text)| self.blob(from, text))?;
        self.append(record)
    }

    /// Copies attached code, as above.
    pub fn attachment(&mut self, from: &Archive, record: &AttachmentRecord) -> Result<(), OpError> {
        record
            .forms
            .iter()
            .try_for_each(|form| self.blob(from, &form.code))?;
        self.append(record)
    }

    /// Copies a tuned kernel, as above.
    pub fn tuned(&mut self, from: &Archive, record: &TunedKernelRecord) -> Result<(), OpError> {
        let code = record.code.iter().map(|form| &form.code);
        let texts = record.source.iter().flat_map(|one| [&one.text, &one.given]);
        code.chain(texts)
            .try_for_each(|blob| self.blob(from, blob))?;
        self.append(record)
    }

    /// Copies a launch, as above.
    pub fn launch(&mut self, from: &Archive, record: &LaunchRecord) -> Result<(), OpError> {
        for region in &record.before.regions {
            region
                .chunks
                .stored()
                .try_for_each(|(_, id)| self.chunk(from, id))?;
        }
        for change in &record.after.changes {
            if let ChunkRef::Data(id) = change.data {
                self.chunk(from, id)?;
            }
        }
        self.written.launches += 1;
        self.append(record)
    }
}

impl Archive {
    /// A chunk as it is compressed, its codec and its raw length. Its hash is checked, so that
    /// damage is not carried on.
    fn stored_chunk(&self, id: ChunkId) -> Result<(Vec<u8>, Codec, u32), OpError> {
        let (offset, header) = self.chunk_block(id)?;
        let raw = self
            .bytes()
            .payload(offset, &header, crate::chunk::CHUNK_SIZE as u64)?;
        Ok(match Codec::from_number(header.codec) {
            Some(Codec::Zstd) => (
                self.bytes().stored(offset, &header)?,
                Codec::Zstd,
                raw.len() as u32,
            ),
            // `payload` has refused unknown ones.
            Some(Codec::None) | None => {
                let len = raw.len() as u32;
                (raw, Codec::None, len)
            }
        })
    }
}
