//! SWE-agent trajectories: one document, of which `history` is the conversation.

use serde_json::{Map, Value};

use crate::message::{Block, Message, Role, Source};
use crate::transcript::assembly::{Assembly, Item};
use crate::transcript::chat;
use crate::transcript::parts::{take_list, take_text};

/// Reads a trajectory.
pub(in crate::transcript) fn read_document(assembly: &mut Assembly, value: Value) {
    let Value::Object(mut map) = value else { return };
    let history = take_list(&mut map, "history").unwrap_or_default();
    assembly.report.records += history.len() as u64;
    for (index, entry) in history.into_iter().enumerate() {
        match entry {
            Value::Object(entry) => read_entry(assembly, index as u64 + 1, entry),
            _ => assembly.report.unreadable(index as u64 + 1, "an entry must be an object with a role"),
        }
    }
}

fn read_entry(assembly: &mut Assembly, place: u64, mut map: Map<String, Value>) {
    if map.get("is_demo") == Some(&Value::Bool(true)) {
        assembly.report.skip("demonstration", place);
        return;
    }
    let kind = take_text(&mut map, "message_type");
    let result_ids = take_list(&mut map, "tool_call_ids").unwrap_or_default();
    let role = map.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
    for key in ["agent", "thought", "action", "tags", "cache_control", "is_demo", "thinking_blocks"] {
        map.shift_remove(key);
    }
    match role.as_str() {
        "user" | "tool" => {
            if let Some(id) = result_ids.first().and_then(Value::as_str) {
                map.insert("role".into(), "tool".into());
                map.insert("tool_call_id".into(), id.into());
            } else if role == "user" && is_observation(assembly, kind.as_deref()) {
                // What a command printed comes back in the user's role; the person did not type it.
                observation(assembly, place, map);
                return;
            }
        }
        "assistant" if map.get("tool_calls").is_some_and(Value::is_null) => _ = map.shift_remove("tool_calls"),
        _ => {}
    }
    chat::read_message(assembly, place, None, Value::Object(map));
}

/// Newer files name an observation; in older ones it is whatever follows an answer.
fn is_observation(assembly: &Assembly, kind: Option<&str>) -> bool {
    match kind {
        Some(kind) => kind == "observation",
        None => assembly.live.last().is_some_and(Item::is_assistant),
    }
}

fn observation(assembly: &mut Assembly, place: u64, mut map: Map<String, Value>) {
    let texts: Vec<Block> = match map.shift_remove("content") {
        Some(Value::String(text)) => vec![Block::text(text)],
        Some(Value::Array(parts)) => {
            parts.into_iter().filter_map(|part| part.get("text").and_then(Value::as_str).map(Block::text)).collect()
        }
        _ => Vec::new(),
    };
    let content = if texts.is_empty() { vec![Block::text("")] } else { texts };
    assembly.push(Item::new(place, Message::new("", Role::User, Source::other("observation"), content)));
    assembly.report.map("observation", place);
}
