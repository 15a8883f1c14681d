//! Reductions that need no model.
//!
//! Owns `plan`, which is pure, and `apply`, which lands it. Touches nothing that is not text of a tool result, and nothing that
//! could not be read back from the log.

mod apply;
mod plan;
mod trim;

use crate::message::Block;
use crate::meter::total;
use crate::session::Seq;

pub use plan::{PruneBudget, PrunePlan};
pub use trim::{Trimmed, trim_content};

/// What stands in the place of a body that was cleared.
pub const CLEARED_MARKER: &str = "[Earlier tool output cleared to save context]";

/// Why a result is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PruneReason {
    /// Its text was over the budget of one result; the middle is cut.
    Trimmed,
    /// Parallel results of the newest step were together over the budget of the tail, and it is among the largest; the middle is
    /// cut.
    ParallelOverBudget,
    /// It is older than the results that stay.
    ClearedOld,
    /// The clearable results were together over their size, and it is among the oldest.
    ClearedByClass,
    /// The conversation was idle for long enough.
    ClearedIdle,
}

impl PruneReason {
    /// A stable name for the reason.
    pub fn code(self) -> &'static str {
        match self {
            Self::Trimmed => "trimmed",
            Self::ParallelOverBudget => "parallel-over-budget",
            Self::ClearedOld => "cleared-old",
            Self::ClearedByClass => "cleared-by-class",
            Self::ClearedIdle => "cleared-idle",
        }
    }

    /// Whether the whole body goes.
    pub fn clears(self) -> bool {
        matches!(self, Self::ClearedOld | Self::ClearedByClass | Self::ClearedIdle)
    }
}

/// Why a result that could have been cleared stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KeptBecause {
    /// It belongs to the newest step.
    NewestStep,
    /// The tool failed.
    Error,
    /// It holds no text.
    Blank,
    /// It holds more than text.
    Rich,
    /// It was cleared before.
    AlreadyCleared,
    /// It is among the newest.
    Recent,
    /// It is the newest result about its target.
    NewestOfTarget,
    /// Its tool is of class `other`, or its call is gone.
    OtherTool,
    /// The pass would not free enough.
    BelowMinimum,
    /// The clearable results are not over their size, or no longer.
    WithinSize,
    /// The marker would cost as much.
    NoGain,
}

impl KeptBecause {
    /// A stable name for the reason.
    pub fn code(self) -> &'static str {
        match self {
            Self::NewestStep => "newest-step",
            Self::Error => "error",
            Self::Blank => "blank",
            Self::Rich => "rich",
            Self::AlreadyCleared => "already-cleared",
            Self::Recent => "recent",
            Self::NewestOfTarget => "newest-of-target",
            Self::OtherTool => "other-tool",
            Self::BelowMinimum => "below-minimum",
            Self::WithinSize => "within-size",
            Self::NoGain => "no-gain",
        }
    }
}

/// One result that a pass rewrites.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewrite {
    /// Seq of the result on the surface.
    pub seq: Seq,
    /// The call that it answers.
    pub call_id: String,
    /// Why.
    pub reason: PruneReason,
    /// Characters of its text before.
    pub chars_before: usize,
    /// Characters of its text after, marker included.
    pub chars_after: usize,
    /// Price before.
    pub tokens_before: u64,
    /// Price after.
    pub tokens_after: u64,
    /// The file whose content leaves the surface, where the tool reads files and its call names one.
    pub path: Option<String>,
    content: Vec<Block>,
}

/// A result that was rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// Seq of the result that was shadowed; its whole text can still be read there.
    pub original_seq: Seq,
    /// Seq of the result that took its place.
    pub replacement_seq: Seq,
    /// The call that it answers.
    pub call_id: String,
    /// Why.
    pub reason: PruneReason,
    /// Characters of its text before.
    pub chars_before: usize,
    /// Characters of its text after, marker included.
    pub chars_after: usize,
    /// Price before.
    pub tokens_before: u64,
    /// Price after.
    pub tokens_after: u64,
}

/// What a pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// The results that were rewritten, in surface order.
    pub pruned: Vec<Pruned>,
    /// Files whose content left the surface, each once. A host that remembers that a file was read drops that memory for these.
    pub evicted_paths: Vec<String>,
    /// Results of reading tools that left the surface and whose file is not known. Where this is not 0, a host drops all such
    /// memory.
    pub unresolved_evictions: usize,
}

impl PruneReport {
    /// Characters that are gone from the surface.
    pub fn chars_removed(&self) -> usize {
        self.pruned.iter().map(|pruned| pruned.chars_before.saturating_sub(pruned.chars_after)).sum()
    }

    /// Tokens that are gone from the surface.
    pub fn tokens_freed(&self) -> u64 {
        total(self.pruned.iter().map(|pruned| pruned.tokens_before.saturating_sub(pruned.tokens_after)))
    }

    /// Adds what a later pass did.
    pub(crate) fn merge(&mut self, later: Self) {
        self.pruned.extend(later.pruned);
        self.unresolved_evictions += later.unresolved_evictions;
        for path in later.evicted_paths {
            if !self.evicted_paths.contains(&path) {
                self.evicted_paths.push(path);
            }
        }
    }
}
