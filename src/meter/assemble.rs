//! Reassembly of an answer from the pieces in which it streamed in.

use serde_json::Value;

use super::MeterError;
use crate::message::Block;
use crate::session::{EventData, Seq, Session};

enum Piece {
    Growing(Block),
    Unknown { kind: String },
    Closed(Block),
}

/// The content that a provider sent, from the chunk events that the message at `seq` cites.
pub(super) fn assemble(
    session: &Session,
    seq: Seq,
    turn: u64,
    step: u64,
    sources: &[Seq],
) -> Result<Vec<Block>, MeterError> {
    let mut pieces: Vec<(u64, Piece)> = Vec::new();
    let mut cut_by_tokens = false;
    for &source in sources {
        let Some(EventData::AssistantChunk(event)) = session.event(source).map(|event| &event.data) else {
            return Err(MeterError::SourceIsNoChunk { seq, source_seq: source });
        };
        if (event.turn, event.step) != (turn, step) {
            return Err(MeterError::SourceOfAnotherStep { seq, source_seq: source });
        }
        let chunk = event.chunk.to_value();
        match chunk.get("type").and_then(Value::as_str) {
            Some("finish") => {
                cut_by_tokens |= chunk.pointer("/reason/kind").is_some_and(|kind| kind == "max-tokens");
            }
            Some(kind) => {
                if let Some(index) = chunk.get("index").and_then(Value::as_u64) {
                    take(&mut pieces, index, kind, &chunk);
                }
            }
            None => {}
        }
    }
    let mut blocks = Vec::with_capacity(pieces.len());
    for (_, piece) in pieces {
        match piece {
            Piece::Growing(block) | Piece::Closed(block) => blocks.push(block),
            Piece::Unknown { kind } => return Err(MeterError::OpenBlock { seq, kind }),
        }
    }
    if cut_by_tokens {
        blocks.retain(|block| !matches!(block, Block::ToolCall(_)));
    }
    Ok(blocks)
}

fn take(pieces: &mut Vec<(u64, Piece)>, index: u64, kind: &str, chunk: &Value) {
    let text = |key: &str| chunk.get(key).and_then(Value::as_str).unwrap_or_default();
    let start = match kind {
        "block-start" => match text("blockType") {
            "text" => Piece::Growing(Block::text("")),
            "reasoning" => Piece::Growing(Block::reasoning("")),
            "tool-call" => Piece::Growing(Block::tool_call("", "", "")),
            other => Piece::Unknown { kind: other.to_owned() },
        },
        "text-delta" => Piece::Growing(Block::text("")),
        "reasoning-delta" => Piece::Growing(Block::reasoning("")),
        "tool-call-delta" => Piece::Growing(Block::tool_call("", "", "")),
        "block-end" => {
            let block = chunk.get("block").and_then(|block| serde_json::from_value(block.clone()).ok());
            let Some(block) = block else { return };
            let closed = Piece::Closed(block);
            match pieces.iter_mut().find(|(at, _)| *at == index) {
                // The first end closes a block for good.
                Some((_, Piece::Closed(_))) => {}
                Some((_, piece)) => *piece = closed,
                None => pieces.push((index, closed)),
            }
            return;
        }
        _ => return,
    };
    let position = pieces.iter().position(|(at, _)| *at == index).unwrap_or_else(|| {
        pieces.push((index, start));
        pieces.len() - 1
    });
    let Some((_, Piece::Growing(block))) = pieces.get_mut(position) else {
        return;
    };
    match (block, kind) {
        (Block::Text(block), "text-delta") | (Block::Reasoning(block), "reasoning-delta") => {
            block.text.push_str(text("text"));
        }
        (Block::ToolCall(call), "tool-call-delta") => {
            if call.id.is_empty() {
                text("id").clone_into(&mut call.id);
            }
            call.name.push_str(text("name"));
            call.arguments.push_str(text("argumentsDelta"));
        }
        _ => {}
    }
}
