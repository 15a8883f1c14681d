//! Why a compaction failed, and what had landed before it did.

use super::manual::CancelledBy;
use super::outcome::Landed;
use super::pending::{Pending, Prepared};
use crate::checkpoint::AnswerFault;
use crate::meter::MeterError;
use crate::policy::PolicyError;
use crate::session::{Seq, SessionError, SinkError};
use crate::summarizer::SummarizerError;

/// A failed compaction. What had landed before stands, and the error says what that is.
#[derive(Debug, thiserror::Error)]
#[error("{failure}")]
pub struct CompactionError {
    /// What went wrong.
    #[source]
    pub failure: Failure,
    /// What had landed before it went wrong.
    pub landed: Box<Landed>,
}

/// Why no compaction can begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Busy {
    /// Another compaction is open in the log.
    #[error("compaction {compaction_id} is still open")]
    Locked {
        /// The open compaction.
        compaction_id: String,
    },
    /// A person's compaction waits for the end of the turn.
    #[error("turn {turn} is still open")]
    OpenTurn {
        /// The open turn.
        turn: u64,
    },
    /// The host is not idle.
    #[error("the host is not idle")]
    HostNotIdle,
}

/// Why no summary came of a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryFailure {
    /// The summariser gave no answer.
    #[error(transparent)]
    Summarizer(#[from] SummarizerError),
    /// The answer is no summary.
    #[error(transparent)]
    Answer(#[from] AnswerFault),
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Something else has to end first. A prepared summary that could not be committed comes back.
    #[error("busy: {why}")]
    Busy {
        /// What has to end first.
        why: Busy,
        /// The prepared summary, to commit later.
        prepared: Option<Box<Prepared>>,
    },
    /// The host or the person gave up.
    #[error("cancelled: {reason}")]
    Cancelled {
        /// Who gave up.
        by: CancelledBy,
        /// The reason that was given.
        reason: String,
    },
    /// What was to be replaced is no longer what was summarised.
    #[error("the conversation changed while its summary was written: {what}")]
    Changed {
        /// What changed.
        what: &'static str,
    },
    /// No summary.
    #[error("no summary: {0}")]
    Summary(#[source] SummaryFailure),
    /// The log or its sink refused.
    #[error("not committed: {0}")]
    Commit(#[source] SessionError),
    /// The compaction landed, but could not be made durable.
    #[error("compacted, but not made durable: {0}")]
    Persistence(#[source] SinkError),
    /// The fold landed and the conversation is still above its target, or too little was gained.
    #[error(
        "no progress: {after_tokens} tokens after, {before_tokens} before, the target is {target_tokens} \
         and at least {least_gain_tokens} must be gained"
    )]
    NoProgress {
        /// Tokens before.
        before_tokens: u64,
        /// Tokens after.
        after_tokens: u64,
        /// What they had to come under.
        target_tokens: u64,
        /// What had to be gained.
        least_gain_tokens: u64,
    },
    /// The harness's error where every attempt landed and the conversation is still above the threshold.
    #[error(
        "{attempts} folds landed, and {total_tokens} tokens are still not below the threshold of {threshold_tokens}"
    )]
    StillAbove {
        /// Folds that landed.
        attempts: u32,
        /// Tokens now.
        total_tokens: u64,
        /// The threshold.
        threshold_tokens: u64,
    },
    /// System prompt, tools and unsent input alone reach the target: no fold could help.
    #[error(
        "system prompt, tools and unsent input take an estimated {overhead_tokens} tokens, and the target is {target_tokens}; \
         shorten them or use a larger window"
    )]
    Overhead {
        /// Their price.
        overhead_tokens: u64,
        /// The target.
        target_tokens: u64,
    },
    /// The rules want an automatic fold inside a turn, and none is open.
    #[error("an automatic fold needs an open turn")]
    NoOpenTurn,
    /// A cut that would separate a tool call from its result.
    #[error("the surface cannot be cut {side} seq {seq}: a tool call would lose its result")]
    NotACut {
        /// `before` or `after`.
        side: &'static str,
        /// The node.
        seq: Seq,
    },
    /// The run of nodes does not exist, or the surface is corrupt.
    #[error(transparent)]
    Range(SessionError),
    /// The budgets do not fit the window.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The log cannot be measured.
    #[error(transparent)]
    Meter(#[from] MeterError),
    /// The pending summary belongs to another session; it comes back.
    #[error("the pending summary belongs to session {:?}", .0.session_id())]
    WrongSession(Box<Pending>),
}

impl Failure {
    pub(super) fn locked(compaction_id: &str) -> Self {
        Self::Busy { why: Busy::Locked { compaction_id: compaction_id.to_owned() }, prepared: None }
    }
}

impl From<Failure> for CompactionError {
    fn from(failure: Failure) -> Self {
        Self { failure, landed: Box::default() }
    }
}

impl CompactionError {
    pub(super) fn after(failure: impl Into<Failure>, landed: Landed) -> Self {
        Self { failure: failure.into(), landed: Box::new(landed) }
    }

    /// The same failure after this had landed.
    pub(super) fn with(self, landed: &Landed) -> Self {
        Self::after(self.failure, landed.clone())
    }

    /// A stable name for the kind of failure; the harness's six classes among them: `busy`, `cancelled`, `changed`, `summary`,
    /// `commit`, `persistence`.
    pub fn code(&self) -> &'static str {
        match &self.failure {
            Failure::Busy { .. } => "busy",
            Failure::Cancelled { .. } => "cancelled",
            Failure::Changed { .. } => "changed",
            Failure::Summary(_) => "summary",
            Failure::Commit(_) => "commit",
            Failure::Persistence(_) => "persistence",
            Failure::NoProgress { .. } => "no-progress",
            Failure::StillAbove { .. } => "still-above",
            Failure::Overhead { .. } => "overhead",
            Failure::NoOpenTurn => "no-open-turn",
            Failure::NotACut { .. } => "not-a-cut",
            Failure::Range(_) => "range",
            Failure::Policy(_) => "policy",
            Failure::Meter(_) => "meter",
            Failure::WrongSession(_) => "wrong-session",
        }
    }

    /// Whether the same call may succeed later without a change of settings.
    pub fn is_retryable(&self) -> bool {
        match &self.failure {
            Failure::Busy { .. } | Failure::Changed { .. } | Failure::Persistence(_) => true,
            Failure::Summary(SummaryFailure::Summarizer(error)) => error.is_retryable(),
            Failure::Summary(SummaryFailure::Answer(_)) => true,
            Failure::Commit(error) => error.is_retryable(),
            _ => false,
        }
    }

    /// Whether the summary request was too large for the summariser.
    pub fn is_context_overflow(&self) -> bool {
        matches!(&self.failure, Failure::Summary(SummaryFailure::Summarizer(error)) if error.is_context_overflow())
    }
}

/// An error with its causes, joined by colons; a cause that repeats its parent is left out.
pub(super) fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut last = text.clone();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if message != last && !message.is_empty() {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&message);
        }
        last = message;
        cause = error.source();
    }
    if text.is_empty() { "Error".into() } else { text }
}
