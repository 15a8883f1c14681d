//! Making a summary request fit its summariser: the oldest turn out, then the span in chunks, each summary carried into the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::base::BaseEngine;
use super::outcome::Reason;
use super::pending::Pending;
use crate::checkpoint::read_answer;
use crate::message::Message;
use crate::meter::total;
use crate::summarizer::{SummaryReply, SummaryRequest};

/// Tokens that a request must leave free beside its output cap, for what the estimate misses.
const SPARE_TOKENS: u64 = 1_024;

impl BaseEngine {
    /// Cuts a request to a window that is known before anything is sent; why that cannot be done.
    pub(super) fn fit_to_window(&self, pending: &mut Pending) -> Result<(), Reason> {
        let Some(window) = pending.attempt.situation.summarizer_window else { return Ok(()) };
        if !self.rules.read_answer {
            return Ok(());
        }
        let messages = Arc::clone(&pending.request.messages);
        let fixed = self.fixed_tokens(&pending.request);
        // The answer needs room for what the kit's body takes at least.
        let cap = pending.request.max_output_tokens.min(SPARE_TOKENS.max(self.floor())).max(1);
        let room = window.saturating_sub(total([fixed, cap, SPARE_TOKENS].into_iter()));
        let price =
            |messages: &[Arc<Message>]| total(messages.iter().map(|message| self.meter.pricing().message(message)));
        let sent = price(&messages);
        if sent <= room {
            let free = window.saturating_sub(total([fixed, sent, SPARE_TOKENS].into_iter()));
            pending.request.max_output_tokens = pending.request.max_output_tokens.min(free.max(1));
            return Ok(());
        }
        // Every later chunk also carries the summary of those before it.
        let per_chunk = room.saturating_sub(pending.request.max_output_tokens);
        let mut chunks: VecDeque<Vec<Arc<Message>>> = VecDeque::new();
        let mut size = 0;
        for unit in units(&messages) {
            let tokens = price(&unit);
            if tokens > per_chunk {
                return Err(Reason::RequestTooLarge { unit_tokens: tokens, room_tokens: per_chunk });
            }
            match chunks.back_mut() {
                Some(chunk) if size + tokens <= per_chunk => {
                    chunk.extend(unit);
                    size += tokens;
                }
                _ => {
                    chunks.push_back(unit);
                    size = tokens;
                }
            }
        }
        if let Some(first) = chunks.pop_front() {
            set_messages(&mut pending.request, first);
            pending.chunks = chunks.into_iter().map(Arc::from).collect();
        }
        Ok(())
    }

    fn fixed_tokens(&self, request: &SummaryRequest) -> u64 {
        let pricing = self.meter.pricing();
        let header = request.header().map_or(0, |header| pricing.header(header));
        header.saturating_add(pricing.text_block(request.instruction()))
    }

    /// Makes a request smaller that its summariser refused as too large; whether that was possible.
    pub(super) fn make_smaller(&self, pending: &mut Pending) -> bool {
        if !self.rules.read_answer {
            return false;
        }
        let units = units(&pending.request.messages);
        if units.len() < 2 {
            return false;
        }
        if pending.drops_left > 0 && pending.chunks.is_empty() && pending.request.carried.is_none() {
            pending.drops_left -= 1;
            let turns = turns(&units);
            let oldest = turns.get(1).copied().unwrap_or(1);
            let (out, rest) = units.split_at(oldest.min(units.len() - 1));
            pending.dropped.extend(out.iter().flatten().cloned());
            set_messages(&mut pending.request, rest.concat());
            return true;
        }
        let (first, second) = units.split_at(units.len() / 2);
        pending.chunks.push_front(second.concat().into());
        set_messages(&mut pending.request, first.concat());
        true
    }

    /// After the summary of a chunk: the request for the next one, which carries it.
    pub(super) fn next_chunk(
        &self,
        pending: &mut Pending,
        reply: &SummaryReply,
    ) -> Result<bool, crate::checkpoint::AnswerFault> {
        if pending.chunks.is_empty() {
            return Ok(false);
        }
        let text = read_answer(&self.kit, &reply.content, reply.cut_off)?;
        if let Some(next) = pending.chunks.pop_front() {
            pending.masked += pending.request.masked.swap(0, Ordering::Relaxed);
            set_messages(&mut pending.request, next.to_vec());
            pending.request.carried = Some(text.into());
        }
        Ok(true)
    }
}

fn set_messages(request: &mut SummaryRequest, messages: Vec<Arc<Message>>) {
    request.messages = messages.into();
    // A part of the span is no prefix of the conversation any more; no cache serves it.
    request.as_sent = Arc::from([]);
}

/// The messages in units that must stay together: an answer with calls and everything up to the last of its results.
fn units(messages: &[Arc<Message>]) -> Vec<Vec<Arc<Message>>> {
    let mut units: Vec<Vec<Arc<Message>>> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        let answered = message.result().map(|result| result.tool_call_id.as_str());
        let continues = !open.is_empty() && (answered.is_some() || message.tool_calls().next().is_some());
        match units.last_mut() {
            Some(unit) if continues => unit.push(Arc::clone(message)),
            _ => {
                open.clear();
                units.push(vec![Arc::clone(message)]);
            }
        }
        if let Some(at) = open.iter().position(|id| Some(id.as_str()) == answered) {
            open.remove(at);
        }
        open.extend(message.tool_calls().map(|call| call.id.clone()));
    }
    units
}

/// The units with which turns of the person begin.
fn turns(units: &[Vec<Arc<Message>>]) -> Vec<usize> {
    let starts = |unit: &[Arc<Message>]| unit.first().is_some_and(|message| message.source.is_user());
    let mut turns = vec![0];
    turns.extend((1..units.len()).filter(|at| units.get(*at).is_some_and(|unit| starts(unit))));
    turns
}
