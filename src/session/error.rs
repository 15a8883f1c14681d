//! What a session refuses.

use super::event::Seq;

/// Why a session refused an event, a file or a question. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The text is no JSON of the expected shape.
    #[error("not an event: {0}")]
    Json(#[source] serde_json::Error),
    /// A field of the event's envelope is missing or has another shape.
    #[error(
        "event `{kind}`: `{field}` is missing or malformed; seq is a non-negative integer, time an integer, ignorable true or absent"
    )]
    Envelope {
        /// The event's type.
        kind: String,
        /// The field.
        field: &'static str,
    },
    /// The event's data does not have the shape that its type demands.
    #[error("event `{kind}`: malformed data: {error}")]
    Data {
        /// The event's type.
        kind: String,
        /// What the reader expected.
        #[source]
        error: serde_json::Error,
    },
    /// The event's seq is not its position.
    #[error("event seq {found} at position {expected}; events are numbered from 0 without gaps")]
    Seq {
        /// The seq that the position demands.
        expected: Seq,
        /// The seq that was found.
        found: Seq,
    },
    /// A surface event without a place.
    #[error("event `{kind}` stands on the surface and needs a surfaceOp")]
    MissingSurfaceOp {
        /// The event's type.
        kind: String,
    },
    /// A log-only event with a place.
    #[error("event `{kind}` is log-only and cannot carry a surfaceOp")]
    UnexpectedSurfaceOp {
        /// The event's type.
        kind: String,
    },
    /// A log-only event that cites sources.
    #[error("event `{kind}` is log-only and cannot carry sourceEventSeqs")]
    UnexpectedSources {
        /// The event's type.
        kind: String,
    },
    /// A place that is neither `append` nor a replacement of a run.
    #[error("event `{kind}`: surfaceOp {value} is neither \"append\" nor {{op: \"replace\", start, end}}")]
    InvalidSurfaceOp {
        /// The event's type.
        kind: String,
        /// The value that was found.
        value: String,
    },
    /// A source that is no seq.
    #[error("sourceEventSeqs must list non-negative integers, found {value}")]
    InvalidSource {
        /// The value that was found.
        value: String,
    },
    /// An empty list of sources where only a list with members or no list is allowed.
    #[error("sourceEventSeqs must not be empty on `{kind}`; leave it out, or cite at least one event")]
    EmptySources {
        /// The event's type.
        kind: String,
    },
    /// A source that is listed twice.
    #[error("sourceEventSeqs lists {seq} twice")]
    DuplicateSource {
        /// The source.
        seq: Seq,
    },
    /// A source that is not earlier than the event.
    #[error("sourceEventSeqs lists {source_seq}, which is not earlier than the event's own seq {seq}")]
    SourceNotEarlier {
        /// The source.
        source_seq: Seq,
        /// The event's seq.
        seq: Seq,
    },
    /// A seq that is not on the surface.
    #[error("seq {seq} is not on the surface")]
    NotOnSurface {
        /// The seq.
        seq: Seq,
    },
    /// A run whose start stands after its end.
    #[error("range start {start} (position {start_position}) stands after its end {end} (position {end_position})")]
    RangeReversed {
        /// Seq of the start.
        start: Seq,
        /// Its position on the surface.
        start_position: usize,
        /// Seq of the end.
        end: Seq,
        /// Its position on the surface.
        end_position: usize,
    },
    /// A replacement that does not cite everything it hides.
    #[error("a replacement must cite every node that it hides; missing {missing:?}")]
    UncitedShadow {
        /// The nodes that are not cited.
        missing: Vec<Seq>,
    },
    /// A tool result that rewrites more than the content of exactly one tool result.
    #[error("a tool result may replace exactly one tool result and change only its content: {what}")]
    ResultRewrite {
        /// What it would change.
        what: &'static str,
    },
    /// A message that could not be reloaded.
    #[error("`{kind}` with message id {id:?}: {fault}")]
    Message {
        /// The event's type.
        kind: String,
        /// The message's id.
        id: String,
        /// What is wrong, and what would be right.
        fault: &'static str,
    },
    /// A request header that could not be reloaded.
    #[error("`request/header`: {fault}")]
    Header {
        /// What is wrong, and what would be right.
        fault: &'static str,
    },
    /// An event of a format that was given up before version 0 was settled.
    #[error("`{kind}` is of an older format that is no longer read")]
    Legacy {
        /// The event's type.
        kind: String,
    },
    /// The surface holds a result without a call, so cuts by counting mean nothing.
    #[error("tool result at seq {seq} answers no call on the surface")]
    UnmatchedResult {
        /// The result's seq.
        seq: Seq,
    },
    /// The file's first line is no session header.
    #[error("line 1 is no session header: {why}")]
    FileHeader {
        /// What was found, and what would be right.
        why: String,
    },
    /// A line of a file is refused.
    #[error("line {line}: {error}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// Why.
        #[source]
        error: Box<SessionError>,
    },
    /// A bad line that had been committed: the end of a turn stands behind it. Leaving it out would lose what it held.
    #[error("line {line} is damaged and later lines prove that it was committed: {why}")]
    LostLine {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A fork at a place that the log does not have.
    #[error("a fork after {boundary} events; the log has {events}")]
    ForkBoundary {
        /// The place.
        boundary: Seq,
        /// Events of the log.
        events: Seq,
    },
    /// A fork inside a turn.
    #[error("a fork after {boundary} events would cut turn {turn}; fork where a turn has ended")]
    ForkInTurn {
        /// The place.
        boundary: Seq,
        /// The turn that is open there.
        turn: u64,
    },
    /// Reading failed.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
    /// The sink refused.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

impl SessionError {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "not-json",
            Self::Envelope { .. } => "envelope",
            Self::Data { .. } => "data",
            Self::Seq { .. } => "seq",
            Self::MissingSurfaceOp { .. } => "missing-surface-op",
            Self::UnexpectedSurfaceOp { .. } => "unexpected-surface-op",
            Self::UnexpectedSources { .. } => "unexpected-sources",
            Self::InvalidSurfaceOp { .. } => "invalid-surface-op",
            Self::InvalidSource { .. } => "invalid-source",
            Self::EmptySources { .. } => "empty-sources",
            Self::DuplicateSource { .. } => "duplicate-source",
            Self::SourceNotEarlier { .. } => "source-not-earlier",
            Self::NotOnSurface { .. } => "not-on-surface",
            Self::RangeReversed { .. } => "range-reversed",
            Self::UncitedShadow { .. } => "uncited-shadow",
            Self::ResultRewrite { .. } => "result-rewrite",
            Self::Message { .. } => "message",
            Self::Header { .. } => "header",
            Self::Legacy { .. } => "legacy",
            Self::UnmatchedResult { .. } => "unmatched-result",
            Self::FileHeader { .. } => "file-header",
            Self::Line { error, .. } => error.code(),
            Self::LostLine { .. } => "lost-line",
            Self::ForkBoundary { .. } => "fork-boundary",
            Self::ForkInTurn { .. } => "fork-in-turn",
            Self::Io(_) => "io",
            Self::Sink(_) => "sink",
        }
    }

    /// Whether the same call may succeed later: only where the sink or the disk refused.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Sink(_) | Self::Io(_) => true,
            Self::Line { error, .. } => error.is_retryable(),
            _ => false,
        }
    }
}

/// Why a sink did not take events.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    /// What happened.
    pub message: String,
    /// The error behind it, if there is one.
    #[source]
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SinkError {
    /// A refusal in words.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: None }
    }
}

impl From<std::io::Error> for SinkError {
    fn from(error: std::io::Error) -> Self {
        Self { message: error.to_string(), cause: Some(Box::new(error)) }
    }
}
