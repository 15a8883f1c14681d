//! The sink of a stored session.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use super::medium::{FileMedium, Medium};
use super::{Compression, lock};
use crate::session::error::SinkError;
use crate::session::event::Event;
use crate::session::rows;
use crate::session::{EventSink, SessionHeader};

/// Writes events as lines: one write a batch, cut off again when it fails.
///
/// After a failed write that could not be cut off, and after a failed sync, nothing more is taken: what stands behind the last
/// acknowledged batch is not known then. Opening the session again finds out.
pub struct JsonlSink {
    target: Target,
    /// The header's line, until it is written.
    header_line: Option<String>,
    /// Bytes of acknowledged batches.
    committed: u64,
    packing: bool,
    compression: Compression,
    broken: Option<String>,
}

enum Target {
    /// Nothing is on disk yet.
    Planned {
        path: PathBuf,
        id: String,
    },
    Open(Box<dyn Medium>),
}

impl std::fmt::Debug for JsonlSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonlSink")
            .field("committed", &self.committed)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl JsonlSink {
    /// A sink that makes its file with the first batch.
    pub fn create(path: PathBuf, header: &SessionHeader, packing: bool, compression: Compression) -> Self {
        let target = Target::Planned { path, id: header.id.clone() };
        Self { target, header_line: Some(header.to_json_line()), committed: 0, packing, compression, broken: None }
    }

    /// A sink over a medium that holds so many committed bytes, the header among them.
    pub fn over(medium: Box<dyn Medium>, committed: u64, packing: bool, compression: Compression) -> Self {
        Self { target: Target::Open(medium), header_line: None, committed, packing, compression, broken: None }
    }

    fn write(&mut self, events: &[Event]) -> Result<(), SinkError> {
        let lines = if self.packing { rows::pack(events) } else { events.iter().map(Event::to_json).collect() };
        let mut batch = Vec::new();
        for line in lines {
            batch.extend_from_slice(line.as_bytes());
            batch.push(b'\n');
        }
        let mut bytes = match &self.header_line {
            Some(line) => encode(format!("{line}\n").as_bytes(), self.compression)?,
            None => Vec::new(),
        };
        bytes.extend(encode(&batch, self.compression)?);
        if let Target::Planned { path, id } = &self.target {
            self.target = Target::Open(Box::new(make_file(path, id)?));
        }
        let Target::Open(medium) = &mut self.target else { return Err(SinkError::new("the file was not made")) };
        if let Err(error) = medium.append(&bytes) {
            if let Err(cut) = medium.truncate(self.committed) {
                self.broken = Some(format!("a failed write could not be cut off: {cut}"));
            }
            return Err(error.into());
        }
        self.committed += bytes.len() as u64;
        self.header_line = None;
        Ok(())
    }

    fn refuse_if_broken(&self) -> Result<(), SinkError> {
        match &self.broken {
            Some(why) => Err(SinkError::new(format!("the session has to be opened again: {why}"))),
            None => Ok(()),
        }
    }
}

fn make_file(path: &Path, id: &str) -> Result<FileMedium, SinkError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // The lock comes before the look at the length: of two writers that create at once, one must not believe the other's file empty.
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    lock(&file, id, path).map_err(|error| SinkError::new(error.to_string()))?;
    if file.metadata()?.len() > 0 {
        return Err(SinkError::new(format!("there is a session at {} already", path.display())));
    }
    Ok(FileMedium::new(file))
}

impl EventSink for JsonlSink {
    fn append(&mut self, events: &[Event]) -> Result<(), SinkError> {
        self.refuse_if_broken()?;
        self.write(events)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.refuse_if_broken()?;
        let Target::Open(medium) = &mut self.target else { return Ok(()) };
        medium.sync().map_err(|error| {
            // A system that failed to write pages may have dropped them; a later sync would succeed without them.
            self.broken = Some(format!("the disk refused to keep what was written: {error}"));
            error.into()
        })
    }
}

/// The bytes of a batch as they are stored.
pub(super) fn encode(bytes: &[u8], compression: Compression) -> io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(bytes.to_vec()),
        #[cfg(feature = "zstd")]
        Compression::Zstd => {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
            // Without it a flipped bit that still decompresses would be believed.
            encoder.include_checksum(true)?;
            io::Write::write_all(&mut encoder, bytes)?;
            encoder.finish()
        }
        #[cfg(not(feature = "zstd"))]
        Compression::Zstd => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "compressed sessions need the feature zstd"))
        }
    }
}
