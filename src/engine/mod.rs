//! The state machine of a compaction: begin, hand out a request, resume with the answer.
//!
//! Owns triggers, range, transaction and drivers. Does no I/O: the model call is the host's.

mod base;
mod compose;
mod correction;
mod drivers;
mod error;
mod extras;
mod hooks;
mod manual;
mod outcome;
mod pending;
mod progress;
mod range;
mod request_bytes;
mod shrink;
mod transaction;
mod triggers;

pub use base::{BaseEngine, BuildError, IdSource, LogIds};
pub use drivers::{Hosted, compact, compact_async, compact_shared};
pub use error::{Busy, CompactionError, Failure, SummaryFailure};
pub use extras::{ExtraSection, RenderSection};
pub use hooks::{CompactionHooks, HookError, PreHook};
pub use manual::{Cancellation, CancelledBy, ManualHost, ManualRequest, Unattended, compact_manual};
pub use outcome::{BreakerOpen, Compacted, Fold, Landed, OpenedBy, Outcome, Reason};
pub use pending::{Pending, Prepared};
pub use range::select_range;

use crate::policy::Situation;
use crate::session::{Seq, Session};
use crate::summarizer::{SummarizerError, SummaryReply};

/// What makes a compaction be considered.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trigger {
    /// The check before a request.
    Pressure,
    /// The provider refused a request as too large.
    Overflow {
        /// Tokens of that request, where the provider said so.
        reported: Option<u64>,
    },
    /// The next request goes to another model, whose window may be smaller.
    ModelSwitch,
    /// The idle check after a turn.
    PostTurn,
    /// The person asked.
    Manual {
        /// What the summary should heed, in the person's words.
        instructions: Option<String>,
        /// Id of the command that asked; kept with every event of the compaction.
        command_id: Option<String>,
    },
    /// Fold the inclusive run of nodes between two seqs.
    Region {
        /// Seq of the first node.
        start: Seq,
        /// Seq of the last node.
        end: Seq,
    },
    /// Fold everything up to and including a node.
    UpTo(Seq),
    /// Fold everything from a node on.
    From(Seq),
    /// Have a summary written ahead of need. Nothing is logged until it is committed.
    Precompute,
    /// Commit a summary that was written ahead of need.
    Commit(Box<Prepared>),
}

/// A trigger without its particulars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TriggerKind {
    /// [`Trigger::Pressure`]
    Pressure,
    /// [`Trigger::Overflow`]
    Overflow,
    /// [`Trigger::ModelSwitch`]
    ModelSwitch,
    /// [`Trigger::PostTurn`]
    PostTurn,
    /// [`Trigger::Manual`]
    Manual,
    /// [`Trigger::Region`], [`Trigger::UpTo`] and [`Trigger::From`]
    Region,
    /// [`Trigger::Precompute`]
    Precompute,
    /// [`Trigger::Commit`]
    Commit,
}

impl Trigger {
    /// A person's request without instructions.
    pub fn manual() -> Self {
        Self::Manual { instructions: None, command_id: None }
    }

    /// The trigger without its particulars.
    pub fn kind(&self) -> TriggerKind {
        match self {
            Self::Pressure => TriggerKind::Pressure,
            Self::Overflow { .. } => TriggerKind::Overflow,
            Self::ModelSwitch => TriggerKind::ModelSwitch,
            Self::PostTurn => TriggerKind::PostTurn,
            Self::Manual { .. } => TriggerKind::Manual,
            Self::Region { .. } | Self::UpTo(_) | Self::From(_) => TriggerKind::Region,
            Self::Precompute => TriggerKind::Precompute,
            Self::Commit(_) => TriggerKind::Commit,
        }
    }
}

impl TriggerKind {
    /// Whether nobody asked: the checks that a policy can switch off and a breaker gates.
    pub fn is_automatic(self) -> bool {
        matches!(self, Self::Pressure | Self::ModelSwitch | Self::PostTurn | Self::Precompute)
    }

    /// Whether the fold must make progress: what repeats by itself must not repeat for ever.
    pub(crate) fn must_progress(self) -> bool {
        self.is_automatic() || self == Self::Overflow
    }
}

/// Why a host gives a pending summary up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Abandon {
    /// The host cancelled it.
    Cancelled,
    /// The summariser did not answer in time.
    TimedOut,
    /// The future or driver that waited for it was dropped.
    Dropped,
    /// Anything else, in words.
    Other(String),
}

impl std::fmt::Display for Abandon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "the summary was cancelled",
            Self::TimedOut => "the summary was not answered in time",
            Self::Dropped => "the summary was dropped",
            Self::Other(reason) => reason,
        })
    }
}

/// What comes next.
#[derive(Debug)]
#[must_use = "a step may hold a request that somebody has to answer"]
// One pending summary lives at a time; a box would buy nothing.
#[allow(clippy::large_enum_variant)]
pub enum Step {
    /// Nothing more: this is what happened.
    Done(Outcome),
    /// A summary is needed. Answer with [`CompactionEngine::resume`] or [`CompactionEngine::abandon`].
    Summarize(Pending),
}

/// Decides, prunes, asks for a summary, checks it and replaces.
///
/// One engine serves one session. A host drives it by hand or through [`compact`], [`compact_async`] or [`compact_shared`].
pub trait CompactionEngine: Send {
    /// Considers a compaction. What is decided without a model is done when this returns.
    fn begin(
        &mut self,
        session: &mut Session,
        trigger: Trigger,
        situation: &Situation,
    ) -> Result<Step, CompactionError>;

    /// Goes on with a summariser's answer.
    fn resume(
        &mut self,
        session: &mut Session,
        pending: Pending,
        reply: Result<SummaryReply, SummarizerError>,
    ) -> Result<Step, CompactionError>;

    /// Gives a pending summary up and says so in the log.
    fn abandon(&mut self, session: &mut Session, pending: Pending, why: Abandon) -> Result<(), CompactionError>;
}

macro_rules! forward_engine {
    ($($engine:ty),*) => {$(
        impl<T: CompactionEngine + ?Sized> CompactionEngine for $engine {
            fn begin(
                &mut self,
                session: &mut Session,
                trigger: Trigger,
                situation: &Situation,
            ) -> Result<Step, CompactionError> {
                (**self).begin(session, trigger, situation)
            }

            fn resume(
                &mut self,
                session: &mut Session,
                pending: Pending,
                reply: Result<SummaryReply, SummarizerError>,
            ) -> Result<Step, CompactionError> {
                (**self).resume(session, pending, reply)
            }

            fn abandon(&mut self, session: &mut Session, pending: Pending, why: Abandon) -> Result<(), CompactionError> {
                (**self).abandon(session, pending, why)
            }
        }
    )*};
}
forward_engine!(Box<T>, &mut T);
