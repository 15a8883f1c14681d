//! Reductions that need no model.
//!
//! Owns `plan`, which is pure, and `apply`, which lands it. Touches nothing that is not plain text of a tool result, and nothing
//! that could not be read back from the log.

mod trim;

use std::sync::Arc;

use crate::message::{Block, Message, ToolResult};
use crate::meter::{Meter, MeterError, total};
use crate::policy::TrimPolicy;
use crate::session::{
    CompactionPrune, Draft, Event, EventData, NodeKind, NodeRange, Seq, Session, SessionError, ToolResultMessage,
};

pub use trim::{Trimmed, trim_content};

/// One result that a pass rewrites.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// Seq of the result on the surface.
    pub seq: Seq,
    /// The call that it answers.
    pub call_id: String,
    /// Characters of its text before.
    pub chars_before: usize,
    /// Characters of its text after, marker included.
    pub chars_after: usize,
    /// Price before.
    pub tokens_before: u64,
    /// Price after.
    pub tokens_after: u64,
    message: Arc<Message>,
}

/// What a pass would do. It is tied to the surface that it was made from.
#[derive(Debug, Clone, Default)]
pub struct PrunePlan {
    rewrites: Vec<Rewrite>,
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
    }
}

impl PrunePlan {
    /// Plans the trimming of every result on the surface whose text is over its budget.
    pub fn trim(session: &Session, meter: &mut Meter, policy: &TrimPolicy) -> Result<Self, MeterError> {
        meter.sync(session)?;
        let rewrites = session
            .nodes()
            .iter()
            .filter(|node| node.kind == NodeKind::ToolResult)
            .filter_map(|node| {
                let result = node.message.result()?;
                let trimmed = trim_content(&result.content, policy)?;
                let call_id = result.tool_call_id.clone();
                let message = Arc::new(with_content(&node.message, trimmed.blocks)?);
                Some(Rewrite {
                    seq: node.seq,
                    call_id,
                    chars_before: trimmed.chars_before,
                    chars_after: trimmed.chars_after,
                    tokens_before: meter.price(node.seq),
                    tokens_after: meter.pricing().message(&message),
                    message,
                })
            })
            .collect();
        Ok(Self { rewrites })
    }

    /// The results that would be rewritten, in surface order.
    pub fn rewrites(&self) -> &[Rewrite] {
        &self.rewrites
    }

    /// Tokens that the pass would free.
    pub fn tokens_freed(&self) -> u64 {
        total(self.rewrites.iter().map(|rewrite| rewrite.tokens_before.saturating_sub(rewrite.tokens_after)))
    }

    /// Lands the plan, one pair of events a result: what is shadowed at which price, then the rewritten result. A pair lands
    /// whole or not at all. When one is refused, the error comes with the report of those before it, which stand.
    pub fn apply(self, session: &mut Session, time: i64) -> Result<PruneReport, (SessionError, PruneReport)> {
        let mut report = PruneReport { pruned: Vec::with_capacity(self.rewrites.len()) };
        for rewrite in self.rewrites {
            match land(session, &rewrite, time) {
                Ok(replacement_seq) => report.pruned.push(Pruned {
                    original_seq: rewrite.seq,
                    replacement_seq,
                    call_id: rewrite.call_id,
                    chars_before: rewrite.chars_before,
                    chars_after: rewrite.chars_after,
                    tokens_before: rewrite.tokens_before,
                    tokens_after: rewrite.tokens_after,
                }),
                Err(error) => return Err((error, report)),
            }
        }
        tracing::debug!(results = report.pruned.len(), tokens_freed = report.tokens_freed(), "pruned tool results");
        Ok(report)
    }
}

fn land(session: &mut Session, rewrite: &Rewrite, time: i64) -> Result<Seq, SessionError> {
    let seq = rewrite.seq;
    let Some(Event { data: EventData::ToolResult(old), .. }) = session.event(seq) else {
        return Err(SessionError::NotOnSurface { seq });
    };
    let metering = CompactionPrune {
        shadowed_range: NodeRange { start: seq, end: seq },
        shadowed_seqs: vec![seq],
        shadowed_token_count: rewrite.tokens_before,
        extra: crate::message::Extra::default(),
    };
    let result = ToolResultMessage {
        turn: old.turn,
        step: old.step,
        message: Arc::clone(&rewrite.message),
        extra: old.extra.clone(),
    };
    let time = time.max(session.last_time());
    let first = session.append_all(vec![
        Draft::new(EventData::CompactionPrune(Box::new(metering))).at(time),
        Draft::new(EventData::ToolResult(Box::new(result))).replacing(seq, seq).citing(vec![seq]).at(time),
    ])?;
    Ok(first + 1)
}

/// The message of a tool result with other content in its block.
fn with_content(message: &Message, content: Vec<Block>) -> Option<Message> {
    let [Block::ToolResult(old)] = message.content.as_slice() else { return None };
    let block = Block::ToolResult(ToolResult {
        tool_call_id: old.tool_call_id.clone(),
        content,
        is_error: old.is_error,
        extra: old.extra.clone(),
    });
    Some(Message {
        content: vec![block],
        source: message.source.clone(),
        role: message.role,
        id: message.id.clone(),
        extra: message.extra.clone(),
    })
}
