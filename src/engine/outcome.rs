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
}

impl Compacted {
    /// The last fold.
    pub fn fold(&self) -> Option<&Fold> {
        self.landed.folds.last()
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
    #[error("{total_tokens} tokens, and the trigger lies at {trigger_tokens:?}")]
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
    /// The pre-warm fold would free less than the policy asks for.
    #[error("a fold ahead of need would free at most {most_tokens} tokens, less than the {least_tokens} of the policy")]
    BelowMinFold {
        /// What it would free at most.
        most_tokens: u64,
        /// What the policy asks for.
        least_tokens: u64,
    },
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
            Self::BelowMinFold { .. } => "below-min-fold",
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
        if index > 0 && (digits.len() - index) % 3 == 0 {
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
