//! What reading and writing transcripts refuses.

use crate::session::SessionError;

/// Why a transcript could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranscriptError {
    /// The reader failed.
    #[error("reading the transcript failed: {0}")]
    Io(#[from] std::io::Error),
    /// There is nothing in it.
    #[error("the transcript is empty; expected JSON, or JSON lines, of one of these formats: {}", formats())]
    Empty,
    /// The content has the marks of no known format.
    #[error("no known transcript format: {seen}; the formats that are read are {}", formats())]
    UnknownFormat {
        /// What was found instead.
        seen: String,
    },
    /// A document that is one JSON value is no JSON.
    #[error("the document is no JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// It is compressed, and this build cannot unpack it.
    #[error("the transcript is compressed with Zstandard; build with the feature `zstd`, or unpack it first")]
    Compressed,
    /// Nothing in it is a message.
    #[error("the {format} transcript holds no message of a conversation in {records} records")]
    NoConversation {
        /// The format that it was taken for.
        format: super::Format,
        /// How many records it has.
        records: u64,
    },
    /// What was read does not make a session.
    #[error("what was read makes no session: {0}")]
    Session(#[from] SessionError),
    /// What should be written cannot be.
    #[error("the conversation cannot be written as {target}: {why}")]
    Inexpressible {
        /// Where it should go.
        target: super::Target,
        /// What stands against it.
        why: String,
    },
}

/// The names of the formats that are read.
fn formats() -> String {
    super::Format::ALL.map(super::Format::name).join(", ")
}

impl TranscriptError {
    /// A stable name in kebab case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "io",
            Self::Empty => "empty",
            Self::UnknownFormat { .. } => "unknown-format",
            Self::Json(_) => "json",
            Self::Compressed => "compressed",
            Self::NoConversation { .. } => "no-conversation",
            Self::Session(_) => "session",
            Self::Inexpressible { .. } => "inexpressible",
        }
    }

    /// Whether trying again can help: only where the reader failed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Io(_))
    }
}
