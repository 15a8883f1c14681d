//! A summary that is being written, and one that lies ready.

use super::TriggerKind;
use super::outcome::Landed;
use crate::checkpoint::{Masked, Section, mask_secrets};
use crate::message::Message;
use crate::policy::{Plan, Situation, Stability};
use crate::session::{Lease, NodeRange, Seq};
use crate::summarizer::{SummaryReply, SummaryRequest};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a conversation occupies: by the best figure there is, and by the estimate alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occupancy {
    pub(super) total: u64,
    pub(super) estimate: u64,
}

impl Occupancy {
    /// A part of the estimate in the terms of the total.
    pub(super) fn in_total(self, tokens: u64) -> u64 {
        if self.estimate == 0 {
            return tokens;
        }
        let scaled = u128::from(tokens) * u128::from(self.total) / u128::from(self.estimate);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

/// A compaction on its way, across its folds.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) kind: TriggerKind,
    pub(super) situation: Situation,
    pub(super) instructions: Option<String>,
    pub(super) command_id: Option<String>,
    /// Level, target and tail; none where the harness's rules know none.
    pub(super) plan: Option<Plan>,
    /// The harness's threshold, to compare with after each fold.
    pub(super) threshold: Option<u64>,
    pub(super) retain: u64,
    /// Whether the tail was made smaller to meet the target, so that no whole turn is added to it again.
    pub(super) is_tight: bool,
    pub(super) before: Occupancy,
    pub(super) folds_left: u32,
    pub(super) answers_left: u32,
    pub(super) landed: Landed,
}

impl Attempt {
    /// Real tokens in the terms of the estimate, by which nodes are priced: where the provider counted more than was estimated, a share
    /// of the window is fewer nodes.
    pub(super) fn in_estimate(&self, tokens: u64) -> u64 {
        let Occupancy { total, estimate } = self.before;
        if total <= estimate {
            return tokens;
        }
        let scaled = u128::from(tokens) * u128::from(estimate) / u128::from(total);
        u64::try_from(scaled).unwrap_or(tokens)
    }
}

/// The run of nodes that a fold replaces.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) seqs: Arc<[Seq]>,
    pub(super) range: NodeRange,
    pub(super) tokens: u64,
    /// Generation and length of the surface when the run was chosen. While both stand, nothing changed.
    pub(super) generation: u64,
    pub(super) nodes: usize,
}

/// The open bracket of a compaction in the log.
#[derive(Debug, Clone)]
pub(super) struct Bracket {
    pub(super) compaction_id: String,
    pub(super) start_seq: Seq,
    pub(super) turn: Option<u64>,
}

/// The person's newest message, as it stands in the checkpoint.
#[derive(Debug, Clone)]
pub(super) struct Pin {
    pub(super) seq: Seq,
    pub(super) text: String,
    /// Secrets masked in it.
    pub(super) masked: usize,
}

/// A section beside the summary.
#[derive(Debug, Clone)]
pub(super) struct MaskedSection {
    pub(super) section: Section,
    /// Secrets masked in it.
    pub(super) masked: usize,
}

impl MaskedSection {
    /// A section without its secrets.
    pub(super) fn new(section: Section) -> Self {
        let Masked { text, count } = mask_secrets(&section.text);
        Self { section: Section { title: section.title, text }, masked: count }
    }
}

/// The parts of a checkpoint that need no model.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) pin: Option<Pin>,
    /// Sections beside the summary, in order; the last one is dropped first.
    pub(super) extras: Vec<MaskedSection>,
    /// What the person wrote in the span and before, oldest first.
    pub(super) written: Vec<String>,
}

/// A summary that is being written.
///
/// It owns what the model call needs and what the commit checks again. While it exists, the session's bracket is held; when it
/// is lost, the next [`begin`](super::CompactionEngine::begin) sees that and closes the bracket.
#[derive(Debug)]
#[must_use = "a pending summary keeps the session locked until it is resumed or abandoned"]
pub struct Pending {
    pub(super) instance: u64,
    pub(super) session_id: String,
    pub(super) attempt: Attempt,
    pub(super) span: Span,
    pub(super) stability: Stability,
    pub(super) bracket: Option<Bracket>,
    pub(super) parts: Parts,
    pub(super) request: SummaryRequest,
    /// What is to be summarised after this request, each with the summary of what came before it.
    pub(super) chunks: VecDeque<Arc<[Arc<Message>]>>,
    /// Messages that had to be left out of the request.
    pub(super) dropped: Vec<Arc<Message>>,
    /// Secrets masked in what was asked so far: the wish of the person, and earlier requests for parts of the span.
    pub(super) masked: usize,
    /// How often the oldest turn may still be left out.
    pub(super) drops_left: u32,
    /// Whether a hook supplied the summary.
    pub(super) supplied: bool,
    /// Its existence tells the session that somebody still waits.
    pub(super) _lease: Lease,
}

impl Pending {
    /// What to ask the summariser.
    pub fn request(&self) -> &SummaryRequest {
        &self.request
    }

    /// What made the compaction be considered.
    pub fn trigger(&self) -> TriggerKind {
        self.attempt.kind
    }

    /// The time that the situation stated.
    pub(crate) fn now(&self) -> Option<i64> {
        self.attempt.situation.now
    }

    /// Id of the session that it belongs to.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Id of the compaction; none for a summary written ahead of need, which opens no bracket.
    pub fn compaction_id(&self) -> Option<&str> {
        self.bracket.as_ref().map(|bracket| bracket.compaction_id.as_str())
    }

    /// The nodes that will be shadowed, in surface order.
    pub fn span(&self) -> &[Seq] {
        &self.span.seqs
    }

    /// Price of the nodes that will be shadowed.
    pub fn span_tokens(&self) -> u64 {
        self.span.tokens
    }
}

/// A checkpoint whose content is settled, before it has ids.
#[derive(Debug)]
pub(super) struct Draftsheet {
    pub(super) checkpoint: Message,
    pub(super) summary: Vec<crate::message::Block>,
    pub(super) tokens: u64,
    /// Secrets masked in it.
    pub(super) masked: usize,
    pub(super) reply: SummaryReply,
}

/// A summary that was written ahead of need and waits for its commit. Nothing of it is in the log.
#[derive(Debug)]
pub struct Prepared {
    pub(super) pending: Pending,
    pub(super) sheet: Draftsheet,
}

impl Prepared {
    /// The nodes that its commit will shadow.
    pub fn span(&self) -> &[Seq] {
        &self.pending.span.seqs
    }

    /// What its commit will free, in tokens.
    pub fn gain_tokens(&self) -> u64 {
        self.pending.span.tokens.saturating_sub(self.sheet.tokens)
    }
}
