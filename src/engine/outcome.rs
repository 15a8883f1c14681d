//! What a compaction did, or why it did nothing.

use std::fmt;
use std::sync::Arc;

use super::pending::Prepared;
use crate::message::Message;
use crate::meter::total;
use crate::policy::Due;
use crate::pruner::PruneReport;
use crate::session::{NodeRange, Seq};

/// One fold: a run of nodes and the checkpoint that took their place.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// Id of the compaction.
    pub compaction_id: String,
    /// Seq of its `compaction/start`.
    pub start_seq: Seq,
    /// Seq of its `compaction/summary`.
    pub summary_seq: Seq,
    /// Seq of the checkpoint's message.
    pub checkpoint_seq: Seq,
    /// Seq of its `compaction/end`.
    pub end_seq: Seq,
    /// The nodes that are shadowed, in surface order. Each can be read back by its seq.
    pub shadowed_seqs: Vec<Seq>,
    /// Their price.
    pub shadowed_tokens: u64,
    /// Price of the checkpoint, always less.
    pub checkpoint_tokens: u64,
    /// The checkpoint.
    pub checkpoint: Arc<Message>,
    /// Seq of the person's message that is pinned in the checkpoint.
    pub pinned_seq: Option<Seq>,
    /// Shadowed messages that a host had injected: instructions, reminders, notices. A host puts back exactly one copy of those
    /// that still hold.
    pub injected_seqs: Vec<Seq>,
    /// Secrets that were masked: in everything that became text of the checkpoint, in what the person asked of it, and in the
    /// request as far as it was [rendered](crate::SummaryRequest::rendered). One that stands in several places counts in each.
    pub masked_secrets: usize,
}

impl Fold {
    /// The run of nodes that is shadowed, by the seqs of its ends.
    pub fn range(&self) -> Option<NodeRange> {
        Some(NodeRange { start: *self.shadowed_seqs.first()?, end: *self.shadowed_seqs.last()? })
    }
}

/// What has landed in the log so far. It stands, whatever comes after.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Landed {
    /// Results that were pruned.
    pub pruned: PruneReport,
    /// Folds, oldest first.
    pub folds: Vec<Fold>,
}

impl Landed {
    /// Whether nothing has landed.
    pub fn is_empty(&self) -> bool {
        self.pruned.pruned.is_empty() && self.folds.is_empty()
    }
}

/// A compaction that folded.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// What landed; at least one fold.
    pub landed: Landed,
    /// Tokens before.
    pub before_tokens: u64,
    /// Tokens after.
    pub after_tokens: u64,
    /// Secrets that were masked on the way, in all folds; see [`Fold::masked_secrets`].
    pub masked_secrets: usize,
}

impl Compacted {
    /// The last fold.
    pub fn fold(&self) -> Option<&Fold> {
        self.landed.folds.last()
    }
}

/// What opened a breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenedBy {
    /// As many failures in a row as its limit says.
    Failures {
        /// Code of the last one.
        last: String,
    },
    /// Folds that were filled up again at once.
    Thrash {
        /// The largest messages of the surface, in words.
        contributors: Vec<String>,
    },
}

/// A breaker that is open: why, since when, and what would close it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerOpen {
    /// What opened it.
    pub by: OpenedBy,
    /// Automatic failures in a row.
    pub failures: u32,
    /// Folds in a row that were filled up again at once.
    pub refills: u32,
    /// When it opened or last let an attempt through, in milliseconds since the epoch.
    pub since: i64,
    /// When the next automatic attempt is let through; none where there is no cool-down.
    pub retry_at: Option<i64>,
}

impl fmt::Display for BreakerOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            OpenedBy::Failures { last } => {
                write!(
                    f,
                    "automatic compaction is stopped after {} failures in a row, the last one {last}",
                    self.failures
                )?;
            }
            OpenedBy::Thrash { contributors } => write!(
                f,
                "automatic compaction is stopped: {} folds in a row were filled up again at once; the largest messages are {}",
                self.refills,
                contributors.join(", ")
            )?,
        }
        match self.retry_at {
            Some(at) => write!(f, "; one attempt is made at {at}, and a compaction on request starts it again"),
            None => f.write_str("; a compaction on request starts it again"),
        }
    }
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The policy switches automatic compaction off.
    #[error("automatic compaction is switched off")]
    Disabled,
    /// The log names no route, and the rules want one.
    #[error("the log names no provider and model yet")]
    NoRoute,
    /// The window is unknown, so there is no level to compare with.
    #[error("the context window is not known, so pressure cannot be judged")]
    WindowUnknown,
    /// The conversation is below every level.
    #[error("{total_tokens} tokens, and {}", in_words(*trigger_tokens))]
    BelowLevel {
        /// Tokens now.
        total_tokens: u64,
        /// The trigger; none where the window is unknown.
        trigger_tokens: Option<u64>,
    },
    /// There is no run of nodes that could be folded: what is old enough is nothing, or a checkpoint already.
    #[error("Nothing to compact yet.")]
    NothingToFold,
    /// A checkpoint could not be smaller than what it would replace.
    #[error("what could be folded costs {shadowed_tokens} tokens, and a checkpoint at least {least_tokens}")]
    NoGain {
        /// Price of what could be folded.
        shadowed_tokens: u64,
        /// Price of the smallest checkpoint.
        least_tokens: u64,
    },
    /// The frame of a checkpoint and what is pinned in it take all the characters that the policy allows one.
    #[error("a checkpoint may have {most_chars} characters, and its frame and what is pinned in it take {frame_chars}")]
    TooFewChars {
        /// What the policy allows.
        most_chars: usize,
        /// What a checkpoint takes beside its summary.
        frame_chars: usize,
    },
    /// A structured answer would not fit the room.
    #[error("kit {kit:?} needs {needed_tokens} tokens for its body, and there is room for {room_tokens}")]
    TooLittleRoom {
        /// The kit.
        kit: String,
        /// The room.
        room_tokens: u64,
        /// What the kit needs.
        needed_tokens: u64,
    },
    /// Not even one step of the conversation fits the summariser's window.
    #[error("a single step takes {unit_tokens} tokens, and the summariser has room for {room_tokens}")]
    RequestTooLarge {
        /// The step.
        unit_tokens: u64,
        /// The room for it.
        room_tokens: u64,
    },
    /// A hook of the host cancelled.
    #[error("cancelled by a hook: {reason}")]
    HookCancelled {
        /// Why.
        reason: String,
    },
    /// The pre-warm fold would free less than the policy asks for.
    #[error("a fold ahead of need would free at most {most_tokens} tokens, less than the {least_tokens} of the policy")]
    BelowMinFold {
        /// What it would free at most.
        most_tokens: u64,
        /// What the policy asks for.
        least_tokens: u64,
    },
    /// A breaker gates the automatic path.
    #[error("{0}")]
    BreakerOpen(BreakerOpen),
    /// The last automatic attempt made no progress and too little is new since.
    #[error(
        "the last attempt made no progress; {new_tokens} tokens are new, {needed_tokens} are needed before another"
    )]
    NoProgressYet {
        /// New since then.
        new_tokens: u64,
        /// Needed before another attempt.
        needed_tokens: u64,
    },
}

fn in_words(trigger_tokens: Option<u64>) -> String {
    match trigger_tokens {
        Some(tokens) => format!("the trigger lies at {tokens}"),
        None => "no trigger is known, as the window is not".into(),
    }
}

impl Reason {
    /// A stable name for the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::NoRoute => "no-route",
            Self::WindowUnknown => "window-unknown",
            Self::BelowLevel { .. } => "below-level",
            Self::NothingToFold => "nothing-to-fold",
            Self::NoGain { .. } => "no-gain",
            Self::TooFewChars { .. } => "too-few-chars",
            Self::TooLittleRoom { .. } => "too-little-room",
            Self::RequestTooLarge { .. } => "request-too-large",
            Self::HookCancelled { .. } => "hook-cancelled",
            Self::BelowMinFold { .. } => "below-min-fold",
            Self::BreakerOpen(_) => "breaker-open",
            Self::NoProgressYet { .. } => "no-progress-yet",
        }
    }
}

/// What a compaction did, or why it did nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing was done.
    Unneeded(Reason),
    /// Pruning freed enough.
    Pruned(PruneReport),
    /// The conversation was folded.
    Compacted(Compacted),
    /// A summary lies ready; nothing is logged yet.
    Prepared(Box<Prepared>),
}

impl Outcome {
    /// A stable name for the kind of outcome.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unneeded(_) => "unneeded",
            Self::Pruned(_) => "pruned",
            Self::Compacted(_) => "compacted",
            Self::Prepared(_) => "prepared",
        }
    }

    /// The compaction, if there was one.
    pub fn compacted(&self) -> Option<&Compacted> {
        match self {
            Self::Compacted(compacted) => Some(compacted),
            _ => None,
        }
    }
}

/// The line that a person reads.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unneeded(reason) => reason.fmt(f),
            Self::Pruned(report) => {
                write!(f, "Trimmed {} tool results (~{} tokens).", report.pruned.len(), grouped(report.tokens_freed()))
            }
            Self::Compacted(compacted) => {
                let folds = &compacted.landed.folds;
                let items: usize = folds.iter().map(|fold| fold.shadowed_seqs.len()).sum();
                let tokens = total(folds.iter().map(|fold| fold.shadowed_tokens));
                write!(f, "Compacted {items} history items (~{} tokens).", grouped(tokens))
            }
            Self::Prepared(_) => f.write_str("A summary lies ready."),
        }
    }
}

/// A number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The level in words, for reports.
impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} tokens", self.level.as_str(), self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        for (number, text) in [(0, "0"), (999, "999"), (1_447, "1,447"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
