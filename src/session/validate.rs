//! What an event must satisfy to enter a log: appended or loaded, the rules are the same.

use super::error::SessionError;
use super::event::{Draft, EventData, SURFACE_KINDS, Seq, SurfaceOp};
use super::surface::Surface;
use crate::message::{Block, Message, Role, Source, Usage};

/// Checks a draft that would get the given seq.
pub(super) fn check<'e>(
    draft: &Draft,
    seq: Seq,
    surface: &Surface,
    event: impl Fn(Seq) -> Option<&'e EventData>,
) -> Result<(), SessionError> {
    let kind = draft.data.kind();
    match (&draft.data, &draft.surface_op) {
        (EventData::Other { kind, .. }, _) if &**kind == "request/header-delta" => {
            return Err(SessionError::Legacy { kind: kind.to_string() });
        }
        (EventData::Other { kind, .. }, _) if SURFACE_KINDS.contains(&&**kind) => {
            return Err(SessionError::MissingSurfaceOp { kind: kind.to_string() });
        }
        (EventData::Other { kind, .. }, _) if &**kind == "request/header" => {
            return Err(SessionError::Header { fault: "it cannot be carried raw; it is read when the log is loaded" });
        }
        (EventData::RequestHeader(data), None) if data.reason == "fallback" => {
            return Err(SessionError::Legacy { kind: "request/header (fallback)".into() });
        }
        (EventData::RequestHeader(data), None) => {
            if let Some(fault) = data.header.fault() {
                return Err(SessionError::Header { fault });
            }
        }
        (data, None) if data.message().is_some() => {
            return Err(SessionError::MissingSurfaceOp { kind: kind.into() });
        }
        (data, Some(_)) if data.message().is_none() => {
            return Err(SessionError::UnexpectedSurfaceOp { kind: kind.into() });
        }
        (data, None) if draft.sources.is_some() && data.message().is_none() => {
            return Err(SessionError::UnexpectedSources { kind: kind.into() });
        }
        _ => {}
    }
    if let Some(sources) = &draft.sources {
        check_sources(sources, kind, seq)?;
    }
    if let Some(message) = draft.data.message()
        && let Some(fault) = message_fault(&draft.data, message)
    {
        return Err(SessionError::Message { kind: kind.into(), id: message.id.clone(), fault });
    }
    if let Some(SurfaceOp::Replace { start, end }) = draft.surface_op {
        let (first, last) = surface.run(start, end)?;
        let cited = draft.sources.as_deref().unwrap_or_default();
        let mut cited_sorted = cited.to_vec();
        cited_sorted.sort_unstable();
        let missing: Vec<Seq> = surface
            .slice(first, last)
            .iter()
            .map(|node| node.seq)
            .filter(|seq| cited_sorted.binary_search(seq).is_err())
            .collect();
        if !missing.is_empty() {
            return Err(SessionError::UncitedShadow { missing });
        }
        if let EventData::ToolResult(_) = &draft.data {
            if first != last {
                return Err(SessionError::ResultRewrite { what: "it would hide more than one node" });
            }
            if let Some(what) = rewrite_fault(event(start), &draft.data) {
                return Err(SessionError::ResultRewrite { what });
            }
        }
    }
    Ok(())
}

fn check_sources(sources: &[Seq], kind: &str, seq: Seq) -> Result<(), SessionError> {
    if sources.is_empty() && kind != "assistant/message" {
        return Err(SessionError::EmptySources { kind: kind.into() });
    }
    let mut sorted = sources.to_vec();
    sorted.sort_unstable();
    if let Some(&[twice, ..]) = sorted.windows(2).find(|pair| pair.first() == pair.last()) {
        return Err(SessionError::DuplicateSource { seq: twice });
    }
    match sources.iter().find(|source| **source >= seq) {
        Some(&source_seq) => Err(SessionError::SourceNotEarlier { source_seq, seq }),
        None => Ok(()),
    }
}

fn message_fault(data: &EventData, message: &Message) -> Option<&'static str> {
    if message.id.is_empty() {
        return Some("the id must not be empty");
    }
    if let Some(fault) = message.source.fault() {
        return Some(fault);
    }
    let misplaced = match data {
        EventData::AssistantMessage(data) => {
            data.misplaced_field().or_else(|| data.usage.as_ref().and_then(Usage::misplaced_field))
        }
        EventData::ToolResult(data) => data.misplaced_field(),
        _ => None,
    };
    if misplaced.or(message.misplaced_field()).is_some() {
        return Some("a known field stands among the unknown ones; set it by its own name");
    }
    match (data, message.role, &message.source) {
        (EventData::UserMessage(_), Role::Assistant, _) => Some("the role must be user"),
        (EventData::UserMessage(_), ..) => None,
        (EventData::AssistantMessage(_), Role::User, _) => Some("the role must be assistant"),
        (EventData::AssistantMessage(_), _, Source::Model { .. }) => None,
        (EventData::AssistantMessage(_), ..) => Some("the source must be the model: {kind: model, provider, model}"),
        (_, Role::Assistant, _) => Some("the role must be user"),
        (_, _, Source::Tool { call_id, .. }) => match message.content.as_slice() {
            [Block::ToolResult(result)] if &result.tool_call_id == call_id => None,
            [Block::ToolResult(_)] => Some("source.callId and the block's toolCallId must be equal"),
            _ => Some("the content must be exactly one tool-result block"),
        },
        _ => Some("the source must be a tool: {kind: tool, callId}"),
    }
}

/// What a rewritten result would change beside its content, if anything.
fn rewrite_fault(old: Option<&EventData>, new: &EventData) -> Option<&'static str> {
    let (Some(EventData::ToolResult(old)), EventData::ToolResult(new)) = (old, new) else {
        return Some("the node that it would hide is no tool result");
    };
    let (Some(was), Some(is)) = (old.message.result(), new.message.result()) else {
        return Some("a tool result needs its block");
    };
    let same_event = old.turn == new.turn && old.step == new.step && old.extra == new.extra;
    let same_message = old.message.id == new.message.id
        && old.message.source == new.message.source
        && old.message.extra == new.message.extra;
    let same_block = was.tool_call_id == is.tool_call_id && was.is_error == is.is_error && was.extra == is.extra;
    match (same_event, same_message, same_block) {
        (true, true, true) => None,
        (false, ..) => Some("turn, step or a field beside the message differs"),
        (_, false, _) => Some("id, source or another field of the message differs"),
        _ => Some("toolCallId, isError or another field of the block differs"),
    }
}
