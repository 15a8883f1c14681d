//! Where the bytes of a session go.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Somewhere that bytes can be appended to, cut off and made durable. A file, or what a test puts in its place.
pub trait Medium: Send {
    /// Appends bytes at the end. On an error any part of them may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts everything after a length off; later appends go on there.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Makes durable what was appended.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file. It stays locked for as long as it is held.
#[derive(Debug)]
pub struct FileMedium(File);

impl FileMedium {
    /// A medium over a file that is open for writing.
    pub fn new(file: File) -> Self {
        Self(file)
    }

    pub(super) fn read_all(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).map(|_| bytes)
    }
}

impl Drop for FileMedium {
    fn drop(&mut self) {
        // Closing would do, but for a process that is just being started: until it runs its program, it holds the file too.
        let _ = self.0.unlock();
    }
}

impl Medium for FileMedium {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)?;
        self.0.seek(SeekFrom::Start(length)).map(|_| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}
