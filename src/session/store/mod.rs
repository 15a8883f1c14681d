//! Sessions on disk: one file a session, appended batch by batch, locked against a second writer.

mod medium;
mod paths;
mod sink;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::SessionError;
use super::event::EventData;
use super::jsonl::read_header;
use super::repair::RepairTexts;
use super::scan::{Dropped, Scan, scan_bytes};
use super::{Session, SessionHeader};

pub use medium::{FileMedium, Medium};
pub use sink::JsonlSink;

/// How the lines of a file are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// As they are: `session.jsonl`.
    #[default]
    None,
    /// One Zstandard frame for the header and one for each batch: `session.jsonl.zstd`. Needs the feature `zstd`; without it,
    /// reading and writing are refused.
    Zstd,
}

/// Why a store could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another writer holds the session's file.
    #[error("session {id:?} is being written by somebody else")]
    Busy {
        /// The session.
        id: String,
    },
    /// There is no such session.
    #[error("there is no session at {}", path.display())]
    NotFound {
        /// Where it would be.
        path: PathBuf,
    },
    /// There is such a session already.
    #[error("there is a session at {} already", path.display())]
    Exists {
        /// Where it is.
        path: PathBuf,
    },
    /// The file's content is refused.
    #[error("{}: {error}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: SessionError,
    },
    /// The disk refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
}

impl StoreError {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "busy",
            Self::NotFound { .. } => "not-found",
            Self::Exists { .. } => "exists",
            Self::Content { error, .. } => error.code(),
            Self::Io { .. } => "io",
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Io { .. })
    }
}

/// What opening a session found and mended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The first line that could not be believed. It and what followed stand beside the file, under its name with `.dropped`.
    pub dropped: Option<Dropped>,
    /// Bytes that were left out.
    pub dropped_bytes: u64,
    /// Events that were appended to close a turn which a crash had left open.
    pub repairs: usize,
}

/// A session from a store, and what opening it found.
#[derive(Debug)]
pub struct Opened {
    /// The session. What is appended to it goes to its file.
    pub session: Session,
    /// What opening it found and mended.
    pub report: OpenReport,
}

/// A folder of sessions in the harness's layout: `<root>/--<project>--/<id>/session.jsonl`.
///
/// Every batch is one write. [`Session::flush`] makes it durable. A second writer of the same session is refused with
/// [`StoreError::Busy`], by an advisory lock on the file.
#[derive(Debug, Clone)]
pub struct JsonlStore {
    root: PathBuf,
    packing: bool,
    compression: Compression,
    repair_texts: RepairTexts,
}

impl JsonlStore {
    /// A store in a folder, which is made when the first session is written. Pieces of answers are packed.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), packing: true, compression: Compression::None, repair_texts: RepairTexts::default() }
    }

    /// Whether runs of pieces of one answer are written as one line.
    pub fn packing(mut self, packing: bool) -> Self {
        self.packing = packing;
        self
    }

    /// How new files are stored.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// What the model is told of calls that a crash interrupted.
    pub fn repair_texts(mut self, texts: RepairTexts) -> Self {
        self.repair_texts = texts;
        self
    }

    /// The file of a session.
    pub fn path(&self, header: &SessionHeader) -> PathBuf {
        self.root.join(paths::relative(header.cwd.as_deref(), &header.id, self.compression))
    }

    /// A new session. Nothing is written before its first event.
    pub fn create(&self, header: SessionHeader) -> Result<Session, StoreError> {
        let path = self.path(&header);
        if let Err(error) = read_header(&header.to_json_line()) {
            return Err(StoreError::Content { path, error });
        }
        // A file without a byte is what a writer leaves whose first batch was refused.
        if path.metadata().is_ok_and(|file| file.len() > 0) {
            return Err(StoreError::Exists { path });
        }
        let mut session = Session::with_header(header);
        session.set_sink(Box::new(JsonlSink::create(path, session.header(), self.packing, self.compression)));
        Ok(session)
    }

    /// Goes on with a session: reads its file, leaves out a torn tail, closes a turn that a crash left open, and marks the end of
    /// what earlier processes wrote.
    pub fn open(&self, cwd: Option<&str>, id: &str) -> Result<Opened, StoreError> {
        let path = self.root.join(paths::relative(cwd, id, self.compression));
        let io = |error| StoreError::Io { path: path.clone(), error };
        let content = |error| StoreError::Content { path: path.clone(), error };
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(StoreError::NotFound { path }),
            Err(error) => return Err(io(error)),
        };
        lock(&file, id, &path)?;
        let mut medium = FileMedium::new(file);
        let stored = medium.read_all().map_err(io)?;
        let read = decode(&stored, self.compression).map_err(io)?;
        let mut scan = scan_bytes(&read.bytes).map_err(content)?;
        drop_half_batch(&mut scan, &read.bytes);
        let mut report = OpenReport { dropped: scan.dropped, ..OpenReport::default() };
        let kept = usize::try_from(scan.committed_bytes).unwrap_or(usize::MAX);
        let tail = read.bytes.get(kept..).unwrap_or_default();
        report.dropped_bytes = tail.len() as u64 + read.undecoded;
        if report.dropped_bytes > 0 {
            report.dropped.get_or_insert_with(|| {
                let line = line_behind(read.bytes.get(..kept).unwrap_or_default());
                Dropped { line, why: "it is cut off".into() }
            });
            set_aside(&path, &stored, tail, self.compression).map_err(io)?;
        }
        let committed = read.stored_length(kept, &mut medium, self.compression).map_err(io)?;
        let mut session = Session::from_events(scan.header, scan.events).map_err(content)?;
        session.set_sink(Box::new(JsonlSink::over(Box::new(medium), committed, self.packing, self.compression)));
        report.repairs = session.repair(&self.repair_texts).map_err(content)?;
        session.mark_seed_end().map_err(content)?;
        Ok(Opened { session, report })
    }
}

/// A metering event at the end had a replacement behind it in the same batch; alone it says something that did not happen.
fn drop_half_batch(scan: &mut Scan, bytes: &[u8]) {
    if !matches!(scan.events.last().map(|event| &event.data), Some(EventData::CompactionPrune(_))) {
        return;
    }
    scan.events.pop();
    let believed = usize::try_from(scan.committed_bytes).ok().and_then(|end| bytes.get(..end)).unwrap_or(bytes);
    let before = believed.strip_suffix(b"\n").unwrap_or(believed);
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    scan.committed_bytes = line_start as u64;
    let line = line_behind(believed.get(..line_start).unwrap_or_default());
    scan.dropped = Some(Dropped { line, why: "its batch is cut off".into() });
}

/// Number of the line that follows these, from 1.
fn line_behind(lines: &[u8]) -> usize {
    lines.iter().filter(|byte| **byte == b'\n').count() + 1
}

fn lock(file: &File, id: &str, path: &Path) -> Result<(), StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StoreError::Busy { id: id.to_owned() }),
        Err(TryLockError::Error(error)) => Err(StoreError::Io { path: path.to_owned(), error }),
    }
}

/// Keeps what is left out, so that a person can look at it.
fn set_aside(path: &Path, stored: &[u8], tail: &[u8], compression: Compression) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".dropped");
    let mut aside = OpenOptions::new().create(true).append(true).open(name)?;
    aside.write_all(if compression == Compression::None { tail } else { stored })?;
    aside.sync_all()
}

/// The bytes of a file, decompressed as far as they can be.
struct Decoded {
    bytes: Vec<u8>,
    /// Stored bytes that could not be decompressed.
    undecoded: u64,
    /// For each frame, where it ends in the file and in the decompressed bytes.
    frames: Vec<(u64, usize)>,
}

fn decode(stored: &[u8], compression: Compression) -> std::io::Result<Decoded> {
    match compression {
        Compression::None => Ok(Decoded { bytes: stored.to_vec(), undecoded: 0, frames: Vec::new() }),
        #[cfg(feature = "zstd")]
        Compression::Zstd => Ok(decode_frames(stored)),
        #[cfg(not(feature = "zstd"))]
        Compression::Zstd => {
            sink::encode(stored, compression).map(|_| Decoded { bytes: Vec::new(), undecoded: 0, frames: Vec::new() })
        }
    }
}

/// Beginning of a Zstandard frame.
#[cfg(feature = "zstd")]
const FRAME_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

#[cfg(feature = "zstd")]
fn decode_frames(stored: &[u8]) -> Decoded {
    let mut decoded = Decoded { bytes: Vec::new(), undecoded: 0, frames: Vec::new() };
    let mut at = 0;
    while let Some(rest) = stored.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some((size, bytes)) = first_frame(rest) {
            at += size;
            decoded.bytes.extend(bytes);
        } else if let Some(next) =
            (1..rest.len()).find(|next| rest.get(*next..).is_some_and(|r| first_frame(r).is_some()))
        {
            // Its writer went on behind it, so it is no torn tail: it stands as a line that cannot be read.
            at += next;
            decoded.bytes.extend(b"\0\n");
        } else {
            decoded.undecoded = rest.len() as u64;
            break;
        }
        decoded.frames.push((at as u64, decoded.bytes.len()));
    }
    decoded
}

/// Size and content of the frame with which bytes begin.
#[cfg(feature = "zstd")]
fn first_frame(bytes: &[u8]) -> Option<(usize, Vec<u8>)> {
    if !bytes.starts_with(&FRAME_MAGIC) {
        return None;
    }
    let size = zstd::zstd_safe::find_frame_compressed_size(bytes).ok()?;
    let content = zstd::stream::decode_all(bytes.get(..size)?).ok()?;
    Some((size, content))
}

impl Decoded {
    /// Cuts the file after the believed bytes and says how long it then is. Where that is inside a frame, the frame goes and its
    /// believed part is written again as a frame of its own; the whole stands in the file that was set aside.
    fn stored_length(&self, kept: usize, medium: &mut dyn Medium, compression: Compression) -> std::io::Result<u64> {
        if compression == Compression::None {
            medium.truncate(kept as u64)?;
            return Ok(kept as u64);
        }
        let whole = self.frames.iter().rev().find(|(_, end)| *end <= kept);
        let (stored, end) = whole.copied().unwrap_or((0, 0));
        medium.truncate(stored)?;
        let rest = self.bytes.get(end..kept).unwrap_or_default();
        if rest.is_empty() {
            return Ok(stored);
        }
        let frame = sink::encode(rest, compression)?;
        medium.append(&frame)?;
        medium.sync()?;
        Ok(stored + frame.len() as u64)
    }
}
