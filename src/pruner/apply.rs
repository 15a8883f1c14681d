//! Landing a plan.

use std::collections::HashSet;
use std::sync::Arc;

use super::plan::PrunePlan;
use super::trim::text_chars;
use super::{PruneReport, Pruned, Rewrite};
use crate::message::{Block, Extra, Message, ToolResult};
use crate::session::{
    CompactionPrune, Draft, Event, EventData, NodeRange, Seq, Session, SessionError, ToolResultMessage,
};

impl PrunePlan {
    /// Lands the plan, one pair of events a result: what is shadowed at which price, then the rewritten result. A pair lands
    /// whole or not at all. When one is refused, because the sink refuses or because the result is no longer on the surface, the
    /// error comes with the report of those before it, which stand.
    pub fn apply(self, session: &mut Session, time: i64) -> Result<PruneReport, (SessionError, PruneReport)> {
        let mut report = PruneReport { pruned: Vec::with_capacity(self.rewrites.len()), ..PruneReport::default() };
        let mut seen: HashSet<String> = HashSet::new();
        for mut rewrite in self.rewrites {
            let content = std::mem::take(&mut rewrite.content);
            let replacement_seq = match land(session, &rewrite, content, time) {
                Ok(seq) => seq,
                Err(error) => return Err((error, report)),
            };
            match rewrite.path {
                Some(path) if self.resident.contains(&path) => {}
                Some(path) if seen.insert(path.clone()) => report.evicted_paths.push(path),
                Some(_) => {}
                None => report.unresolved_evictions += usize::from(self.unresolved.contains(&rewrite.seq)),
            }
            report.pruned.push(Pruned {
                original_seq: rewrite.seq,
                replacement_seq,
                call_id: rewrite.call_id,
                reason: rewrite.reason,
                chars_before: rewrite.chars_before,
                chars_after: rewrite.chars_after,
                tokens_before: rewrite.tokens_before,
                tokens_after: rewrite.tokens_after,
            });
        }
        tracing::debug!(results = report.pruned.len(), tokens_freed = report.tokens_freed(), "pruned tool results");
        Ok(report)
    }
}

fn land(session: &mut Session, rewrite: &Rewrite, content: Vec<Block>, time: i64) -> Result<Seq, SessionError> {
    let seq = rewrite.seq;
    let Some(Event { data: EventData::ToolResult(old), .. }) = session.event(seq) else {
        return Err(SessionError::NotOnSurface { seq });
    };
    let is_planned = old.message.result().is_some_and(|result| {
        result.tool_call_id == rewrite.call_id && text_chars(&result.content) == rewrite.chars_before
    });
    let (true, Some(message)) = (is_planned, with_content(&old.message, content)) else {
        return Err(SessionError::ResultRewrite { what: "the plan was made from another result" });
    };
    let result =
        ToolResultMessage { turn: old.turn, step: old.step, message: Arc::new(message), extra: old.extra.clone() };
    let metering = CompactionPrune {
        shadowed_range: NodeRange { start: seq, end: seq },
        shadowed_seqs: vec![seq],
        shadowed_token_count: rewrite.tokens_before,
        extra: Extra::default(),
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
