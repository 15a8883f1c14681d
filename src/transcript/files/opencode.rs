//! opencode exports: one document of messages with parts, in which a call and its result are one part.

use serde_json::{Map, Value};

use crate::message::{Block, Extra, Message, Role, Source, Usage};
use crate::transcript::assembly::{Assembly, Item, foreign_checkpoint, model_source, opaque, result_message};
use crate::transcript::parts::{
    extra_of, media_of_url, reasoning_block, take_list, take_map, take_text, text_block, time_ms,
};
use crate::transcript::provenance::user_items;
use crate::transcript::report::Repair;

const API: &str = "opencode";

/// A compaction that was asked for and whose summary has not come yet.
struct Marker {
    place: u64,
    /// The first message that was kept, which stands before the marker.
    kept_from: Option<String>,
    /// Messages that stood before it.
    at: usize,
}

/// Reads an export, or a bare list of its messages.
pub(in crate::transcript) fn read_document(assembly: &mut Assembly, value: Value) {
    let messages = match value {
        Value::Array(messages) => messages,
        Value::Object(mut map) => {
            if let Some(mut info) = take_map(&mut map, "info") {
                assembly.header.id = take_text(&mut info, "id").unwrap_or_default();
                assembly.header.cwd = take_text(&mut info, "directory");
                let created = info.get("time").and_then(|time| time.get("created")).and_then(time_ms);
                assembly.header.created_at = created.unwrap_or(0);
                assembly.resume.version = take_text(&mut info, "version");
            }
            take_list(&mut map, "messages").unwrap_or_default()
        }
        _ => Vec::new(),
    };
    assembly.report.records += messages.len() as u64;
    let mut marker = None;
    for (index, message) in messages.into_iter().enumerate() {
        let place = index as u64 + 1;
        let Value::Object(mut map) = message else {
            assembly.report.unreadable(place, "a message must be an object with info and parts");
            continue;
        };
        let info = take_map(&mut map, "info").unwrap_or_default();
        let parts = take_list(&mut map, "parts").unwrap_or_default();
        match info.get("role").and_then(Value::as_str) {
            Some("user") => read_user(assembly, place, &info, parts, &mut marker),
            Some("assistant") => read_answer(assembly, place, &info, parts, &mut marker),
            _ => assembly.report.unreadable(place, "a message needs an info with the role user or assistant"),
        }
    }
    if let Some(marker) = marker {
        assembly.report.repair(Repair::FoldWithoutSummary, marker.place);
    }
}

fn created(info: &Map<String, Value>) -> Option<i64> {
    info.get("time").and_then(|time| time.get("created")).and_then(time_ms)
}

fn read_user(
    assembly: &mut Assembly,
    place: u64,
    info: &Map<String, Value>,
    parts: Vec<Value>,
    marker: &mut Option<Marker>,
) {
    let id = info.get("id").and_then(Value::as_str);
    let time = created(info);
    let (mut said, mut injected) = (Vec::new(), Vec::new());
    for part in parts {
        let Value::Object(mut map) = part else { continue };
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "compaction" => {
                if let Some(earlier) = marker.take() {
                    assembly.report.repair(Repair::FoldWithoutSummary, earlier.place);
                }
                *marker =
                    Some(Marker { place, kept_from: take_text(&mut map, "tail_start_id"), at: assembly.live.len() });
            }
            "text" if map.get("ignored") == Some(&Value::Bool(true)) => {
                assembly.report.skip("text that is ignored", place);
            }
            "text" => {
                let is_synthetic = map.get("synthetic") == Some(&Value::Bool(true));
                let text = take_text(&mut map, "text").unwrap_or_default();
                if !text.is_empty() {
                    if is_synthetic { &mut injected } else { &mut said }.push(Block::text(text));
                }
            }
            "file" => said.push(read_file(map)),
            "step-start" | "step-finish" | "snapshot" | "patch" | "agent" | "retry" | "subtask" => {
                assembly.report.skip(&format!("part {kind}"), place);
            }
            _ => said.push(opaque(API, Value::Object(map))),
        }
    }
    assembly.report.map("user", place);
    assembly.live.extend(user_items(place, time, id, said));
    if !injected.is_empty() {
        let message = Message::new("", Role::User, Source::other("synthetic"), injected);
        assembly.push(Item::new(place, message).at(time).keyed(id));
    }
}

fn read_file(mut map: Map<String, Value>) -> Block {
    let media_type = take_text(&mut map, "mime");
    let url = take_text(&mut map, "url").unwrap_or_default();
    let mut named = Map::new();
    if let Some(name) = map.shift_remove("filename") {
        named.insert("filename".into(), name);
    }
    let kind = crate::message::MediaKind::Document;
    media_of_url(url, media_type, kind, &extra_of(API, named))
}

fn read_answer(
    assembly: &mut Assembly,
    place: u64,
    info: &Map<String, Value>,
    parts: Vec<Value>,
    marker: &mut Option<Marker>,
) {
    let text_of = |key: &str| info.get(key).and_then(Value::as_str);
    let id = text_of("id");
    let (mut content, mut results) = (Vec::new(), Vec::new());
    for part in parts {
        let Value::Object(map) = part else { continue };
        read_part(assembly, place, map, &mut content, &mut results);
    }
    let failed = info.get("error").is_some_and(|error| !error.is_null());
    let source = model_source(text_of("providerID"), text_of("modelID"));
    let is_summary = info.get("summary") == Some(&Value::Bool(true));
    if is_summary {
        assembly.report.map("assistant summary", place);
        let texts: Vec<&str> =
            content.iter().filter_map(Block::as_text).filter(|text| !text.trim().is_empty()).collect();
        if texts.is_empty() || failed {
            assembly.report.repair(Repair::FoldWithoutSummary, marker.take().map_or(place, |marker| marker.place));
            return;
        }
        let mut message = foreign_checkpoint(place, None, vec![Block::text(texts.join("\n\n"))], false);
        message.id = id.unwrap_or_default().to_owned();
        let checkpoint = Item::new(place, message).at(created(info)).keyed(id);
        fold(assembly, checkpoint, marker.take());
        return;
    }
    assembly.note_model(text_of("providerID"), text_of("modelID"));
    if content.is_empty() {
        assembly.report.skip("assistant without content", place);
        return;
    }
    let message = Message::new(id.unwrap_or_default(), Role::Assistant, source, content);
    let mut item = Item::new(place, message).at(created(info)).keyed(id);
    item.interrupted = failed;
    item.usage = info.get("tokens").and_then(Value::as_object).and_then(read_tokens);
    assembly.push(item);
    for result in results {
        assembly.push(Item::new(place, result).at(created(info)).keyed(id));
    }
    assembly.report.map("assistant", place);
}

fn fold(assembly: &mut Assembly, checkpoint: Item, marker: Option<Marker>) {
    let at = marker.as_ref().map_or(assembly.live.len(), |marker| marker.at.min(assembly.live.len()));
    let behind = assembly.live.split_off(at);
    let kept_from = marker
        .and_then(|marker| marker.kept_from)
        .and_then(|id| assembly.live.iter().position(|item| item.has_key(&id)));
    let mut base = vec![checkpoint];
    base.extend(kept_from.map(|at| assembly.live.split_off(at)).unwrap_or_default());
    base.extend(behind);
    assembly.fold_away(base, assembly.live.len() as u64);
}

fn read_part(
    assembly: &mut Assembly,
    place: u64,
    mut map: Map<String, Value>,
    content: &mut Vec<Block>,
    results: &mut Vec<Message>,
) {
    let kind = map.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        "text" | "reasoning" => {
            let text = take_text(&mut map, "text").unwrap_or_default();
            let mut rest = Map::new();
            if let Some(metadata) = map.shift_remove("metadata") {
                rest.insert("metadata".into(), metadata);
            }
            if kind == "reasoning" {
                content.push(signed_reasoning(text, rest));
            } else if !text.is_empty() {
                content.push(text_block(text, API, rest));
            }
        }
        "tool" => {
            let id = take_text(&mut map, "callID").unwrap_or_default();
            let name = take_text(&mut map, "tool").unwrap_or_default();
            let mut state = take_map(&mut map, "state").unwrap_or_default();
            let arguments = match state.shift_remove("input") {
                Some(Value::String(text)) => text,
                Some(Value::Null) | None => "{}".into(),
                Some(input) => input.to_string(),
            };
            content.push(Block::tool_call(&id, name, arguments));
            let status = take_text(&mut state, "status").unwrap_or_default();
            let text = match status.as_str() {
                "completed" => take_text(&mut state, "output"),
                "error" => take_text(&mut state, "error").or_else(|| take_text(&mut state, "output")),
                _ => return,
            };
            let mut blocks: Vec<Block> = text.filter(|text| !text.is_empty()).map(Block::text).into_iter().collect();
            for attachment in take_list(&mut state, "attachments").unwrap_or_default() {
                if let Value::Object(map) = attachment {
                    blocks.push(read_file(map));
                }
            }
            results.push(result_message(&id, blocks, Some(status == "error"), Extra::default()));
        }
        "file" => content.push(read_file(map)),
        "step-start" | "step-finish" | "snapshot" | "patch" | "agent" | "retry" | "compaction" => {
            assembly.report.skip(&format!("part {kind}"), place);
        }
        _ => content.push(opaque(API, Value::Object(map))),
    }
}

/// A signature that Anthropic gave stands where Anthropic's exporter looks for it.
fn signed_reasoning(text: String, rest: Map<String, Value>) -> Block {
    let signature = rest.get("metadata").and_then(|metadata| metadata.get("anthropic")?.get("signature")).cloned();
    match signature {
        Some(signature) => reasoning_block(text, "anthropic", Map::from_iter([("signature".to_owned(), signature)])),
        None => reasoning_block(text, API, rest),
    }
}

/// The parts are disjoint; a message that was aborted has zeros.
fn read_tokens(tokens: &Map<String, Value>) -> Option<Usage> {
    let number = |key: &str| tokens.get(key).and_then(Value::as_u64).unwrap_or(0);
    let cache = |key: &str| tokens.get("cache").and_then(|cache| cache.get(key)).and_then(Value::as_u64).unwrap_or(0);
    let reasoning = number("reasoning");
    let usage = Usage {
        input_tokens: number("input"),
        output_tokens: number("output").saturating_add(reasoning),
        cache_read_tokens: Some(cache("read")).filter(|tokens| *tokens > 0),
        cache_write_tokens: Some(cache("write")).filter(|tokens| *tokens > 0),
        reasoning_tokens: Some(reasoning).filter(|tokens| *tokens > 0),
        extra: Extra::default(),
    };
    (usage.total_tokens() > 0).then_some(usage)
}
