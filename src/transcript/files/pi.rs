//! pi session files: a tree of entries, one a line, of which the newest entry's branch is the conversation.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Lines, lenient};
use crate::message::{Block, Extra, Message, Role, Source, Usage};
use crate::session::Session;
use crate::transcript::assembly::{Assembly, Item, foreign_checkpoint, model_source, opaque, result_message};
use crate::transcript::outline::{CallRules, Exporter, Outline};
use crate::transcript::parts::{
    extra_of, media_of_data, reasoning_block, rfc3339, take_map, take_text, text_block, time_ms,
};
use crate::transcript::provenance::{injected_kind, user_items};
use crate::transcript::report::{Change, Repair};

const API: &str = "pi";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    parent_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    timestamp: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    cwd: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    version: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    model: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    model_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    provider: Option<String>,
    message: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "lenient")]
    custom_type: Option<String>,
    content: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    summary: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    first_kept_entry_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    first_kept_entry_index: Option<u64>,
}

/// What an entry adds to its branch.
enum Entry {
    Nothing,
    Items(Vec<Item>),
    Fold { checkpoint: Box<Item>, first_kept: Option<String>, first_kept_index: Option<u64> },
}

struct Node {
    place: u64,
    parent: Option<usize>,
    entry: Entry,
}

/// Reads a session file. All entries are kept until the end: a branch may begin anywhere.
#[derive(Default)]
pub(in crate::transcript) struct SessionFile {
    nodes: Vec<Node>,
    by_id: HashMap<String, usize>,
    has_header: bool,
}

impl Lines for SessionFile {
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error> {
        let line: Line = serde_json::from_str(text)?;
        let time = line.timestamp.as_ref().and_then(time_ms);
        if line.kind == "session" {
            assembly.report.map("session", place);
            if !self.has_header {
                self.has_header = true;
                assembly.header.id = line.id.unwrap_or_default();
                assembly.header.cwd = line.cwd;
                assembly.header.created_at = time.unwrap_or(0);
                assembly.resume.version = line.version.map(|version| version.to_string());
            }
            return Ok(());
        }
        let parent = match &line.parent_id {
            Some(parent) => self.by_id.get(parent).copied(),
            // Entries of old files have no ids: each follows the one before it.
            None if line.id.is_none() => self.nodes.len().checked_sub(1),
            None => None,
        };
        // A bad line may have swallowed the parent: then the entry follows what stands before it.
        let parent = parent.or_else(|| line.parent_id.as_ref().and_then(|_| self.nodes.len().checked_sub(1)));
        let id = line.id.clone();
        if id.is_some() {
            assembly.resume.last_record.clone_from(&id);
        }
        let entry = read_entry(assembly, place, time, line);
        if let Some(id) = &id {
            self.by_id.insert(id.clone(), self.nodes.len());
        }
        self.nodes.push(Node { place, parent, entry });
        Ok(())
    }

    fn end(&mut self, assembly: &mut Assembly) {
        let mut branch = Vec::new();
        let mut at = self.nodes.len().checked_sub(1);
        while let Some(index) = at {
            branch.push(index);
            // A parent stands before its child; anything else would make a circle.
            at = self.nodes.get(index).and_then(|node| node.parent).filter(|parent| *parent < index);
        }
        branch.reverse();
        let mut on_branch = vec![false; self.nodes.len()];
        for index in &branch {
            if let Some(slot) = on_branch.get_mut(*index) {
                *slot = true;
            }
        }
        for (node, on_branch) in self.nodes.iter().zip(on_branch) {
            if !on_branch && !matches!(node.entry, Entry::Nothing) {
                assembly.report.repair(Repair::BranchLeft, node.place);
            }
        }
        for index in branch {
            let Some(node) = self.nodes.get_mut(index) else { continue };
            match std::mem::replace(&mut node.entry, Entry::Nothing) {
                Entry::Nothing => {}
                Entry::Items(items) => assembly.live.extend(items),
                Entry::Fold { checkpoint, first_kept, first_kept_index } => {
                    let kept_from = assembly.live.iter().position(|item| match (&first_kept, first_kept_index) {
                        (Some(id), _) => item.has_key(id),
                        // Entries are counted from the header, which is 0.
                        (None, Some(index)) => item.place > index,
                        (None, None) => false,
                    });
                    let kept = kept_from.map(|at| assembly.live.split_off(at)).unwrap_or_default();
                    let is_checkpoint = |item: &Item| item.message.source.is_checkpoint();
                    let (older, kept): (Vec<Item>, Vec<Item>) = kept.into_iter().partition(is_checkpoint);
                    assembly.live.extend(older);
                    let mut base = vec![*checkpoint];
                    base.extend(kept);
                    assembly.fold_away(base, assembly.live.len() as u64);
                }
            }
        }
    }
}

fn read_entry(assembly: &mut Assembly, place: u64, time: Option<i64>, line: Line) -> Entry {
    let id = line.id.as_deref();
    let injected = |kind: &str, content: Vec<Block>| {
        let message = Message::new(id.unwrap_or_default(), Role::User, Source::other(kind), content);
        Entry::Items(vec![Item::new(place, message).at(time).keyed(id)])
    };
    match line.kind.as_str() {
        "message" => {
            let Some(message) = line.message else {
                assembly.report.unreadable(place, "a message entry needs a message");
                return Entry::Nothing;
            };
            return read_message(assembly, place, time, id, message);
        }
        "compaction" => {
            let Some(summary) = line.summary.filter(|summary| !summary.trim().is_empty()) else {
                assembly.report.repair(Repair::FoldWithoutSummary, place);
                return Entry::Nothing;
            };
            assembly.report.map("compaction", place);
            let mut message = foreign_checkpoint(place, None, vec![Block::text(summary)], false);
            message.id = id.unwrap_or_default().to_owned();
            let checkpoint = Box::new(Item::new(place, message).at(time).keyed(id));
            let (first_kept, first_kept_index) = (line.first_kept_entry_id, line.first_kept_entry_index);
            return Entry::Fold { checkpoint, first_kept, first_kept_index };
        }
        "branch_summary" => {
            if let Some(summary) = line.summary.filter(|summary| !summary.is_empty()) {
                assembly.report.map("branch_summary", place);
                return injected("branch-summary", vec![Block::text(summary)]);
            }
        }
        "custom_message" => {
            let content = read_content(line.content);
            if !content.is_empty() {
                assembly.report.map("custom_message", place);
                let kind = line.custom_type.filter(|kind| !matches!(kind.as_str(), "" | "user" | "model" | "tool"));
                return injected(kind.as_deref().unwrap_or("custom-message"), content);
            }
        }
        "model_change" => {
            let model = line.model.as_ref().and_then(Value::as_str).or(line.model_id.as_deref());
            assembly.note_model(line.provider.as_deref(), model);
        }
        _ => {}
    }
    assembly.report.skip(&line.kind, place);
    Entry::Nothing
}

fn read_message(
    assembly: &mut Assembly,
    place: u64,
    time: Option<i64>,
    id: Option<&str>,
    mut map: Map<String, Value>,
) -> Entry {
    let role = take_text(&mut map, "role").unwrap_or_default();
    let content = read_content(map.shift_remove("content"));
    let items = match role.as_str() {
        "user" => user_items(place, time, id, content),
        "assistant" => {
            let stop = take_text(&mut map, "stopReason");
            let (provider, model) = (take_text(&mut map, "provider"), take_text(&mut map, "model"));
            assembly.note_model(provider.as_deref(), model.as_deref());
            if content.is_empty() {
                assembly.report.skip("message assistant without content", place);
                return Entry::Nothing;
            }
            let source = model_source(provider.as_deref(), model.as_deref());
            let message = Message::new(id.unwrap_or_default(), Role::Assistant, source, content);
            let mut item = Item::new(place, message).at(time).keyed(id);
            item.usage = take_map(&mut map, "usage").and_then(|usage| read_usage(&usage));
            item.interrupted = stop.is_some_and(|stop| matches!(stop.as_str(), "aborted" | "error"));
            vec![item]
        }
        "toolResult" => {
            let call = take_text(&mut map, "toolCallId").unwrap_or_default();
            let is_error = map.get("isError").and_then(Value::as_bool);
            let mut message = result_message(&call, content, is_error, Extra::default());
            message.id = id.unwrap_or_default().to_owned();
            vec![Item::new(place, message).at(time).keyed(id)]
        }
        "bashExecution" => {
            let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
            let ran = format!("{}\n{}", text("command"), text("output"));
            let message = Message::new(
                id.unwrap_or_default(),
                Role::User,
                Source::other("bash-execution"),
                vec![Block::text(ran.trim_end())],
            );
            if map.get("excludeFromContext") == Some(&Value::Bool(true)) {
                assembly.report.skip("message bashExecution out of context", place);
                return Entry::Nothing;
            }
            vec![Item::new(place, message).at(time).keyed(id)]
        }
        other => {
            let kind = if matches!(other, "" | "model" | "tool") { "message" } else { other };
            let text = content.iter().find_map(Block::as_text).and_then(injected_kind);
            let source = Source::other(text.unwrap_or(kind));
            let message = Message::new(id.unwrap_or_default(), Role::User, source, content);
            if message.content.is_empty() {
                assembly.report.skip(&format!("message {other}"), place);
                return Entry::Nothing;
            }
            vec![Item::new(place, message).at(time).keyed(id)]
        }
    };
    assembly.report.map(&format!("message {role}"), place);
    Entry::Items(items)
}

fn read_content(content: Option<Value>) -> Vec<Block> {
    match content {
        Some(Value::String(text)) if !text.is_empty() => vec![Block::text(text)],
        Some(Value::Array(blocks)) => blocks.into_iter().map(read_block).collect(),
        _ => Vec::new(),
    }
}

fn read_block(value: Value) -> Block {
    let Value::Object(mut map) = value else { return opaque(API, value) };
    match map.get("type").and_then(Value::as_str) {
        Some("text") => {
            if let Some(text) = take_text(&mut map, "text") {
                map.shift_remove("type");
                return text_block(text, API, map);
            }
        }
        Some("thinking") => {
            if let Some(text) = take_text(&mut map, "thinking") {
                map.shift_remove("type");
                return reasoning_block(text, API, map);
            }
        }
        Some("toolCall") => {
            let (id, name) = (take_text(&mut map, "id"), take_text(&mut map, "name"));
            let arguments = match map.shift_remove("arguments") {
                Some(Value::String(text)) => text,
                Some(Value::Null) | None => "{}".into(),
                Some(arguments) => arguments.to_string(),
            };
            map.shift_remove("type");
            let mut call = crate::message::ToolCall {
                id: id.unwrap_or_default(),
                name: name.unwrap_or_default(),
                arguments,
                extra: Extra::default(),
            };
            call.extra = extra_of(API, map);
            return Block::ToolCall(call);
        }
        Some("image") => {
            let media_type = take_text(&mut map, "mimeType");
            if let Some(data) = take_text(&mut map, "data") {
                return media_of_data(media_type, data, &Extra::default());
            }
        }
        _ => {}
    }
    opaque(API, Value::Object(map))
}

fn read_usage(usage: &Map<String, Value>) -> Option<Usage> {
    let number = |key: &str| usage.get(key).and_then(Value::as_u64);
    let read = Usage {
        input_tokens: number("input")?,
        output_tokens: number("output").unwrap_or(0),
        cache_read_tokens: number("cacheRead").filter(|tokens| *tokens > 0),
        cache_write_tokens: number("cacheWrite").filter(|tokens| *tokens > 0),
        reasoning_tokens: None,
        extra: Extra::default(),
    };
    (read.total_tokens() > 0).then_some(read)
}

const CALLS: CallRules = CallRules { longest: usize::MAX, plain: false, unique: false, answer_all: false };

/// The entry that folds a file as the session is folded: the checkpoint, and the first entry that was kept.
///
/// A file keeps its entries as they are, so the kept part must be one that the file holds; what was shortened there stays whole.
pub(in crate::transcript) fn append_records(session: &Session, exporter: &mut Exporter<'_>) -> Vec<Value> {
    let outline = Outline::new(session, CALLS, &mut exporter.report);
    let checkpoint = outline.parts.iter().rposition(|part| part.message.source.is_checkpoint());
    let Some(checkpoint) = checkpoint else { return Vec::new() };
    let summary = outline.parts.get(checkpoint).map(|part| part.message.text()).unwrap_or_default();
    let first_kept = outline.parts.get(checkpoint + 1).map(|part| part.message.id.clone());
    let shortened = session.events().iter().filter(|event| {
        matches!(event.data, crate::session::EventData::ToolResult(_))
            && matches!(event.surface_op, Some(crate::session::SurfaceOp::Replace { .. }))
            && session.position(event.seq).is_some()
    });
    for event in shortened {
        exporter.report.note(Change::PruneNotWritten, event.seq);
    }
    let options = exporter.options;
    let id: String = options.record_ids(session).next_uuid().chars().take(8).collect();
    vec![json!({
        "type": "compaction",
        "id": id,
        "parentId": options.resume.last_record,
        "timestamp": rfc3339(options.time_of(session)),
        "summary": summary,
        "firstKeptEntryId": first_kept.filter(|id| !id.is_empty()).or_else(|| options.resume.last_record.clone()),
        "tokensBefore": options.tokens_before,
        "details": { "readFiles": [], "modifiedFiles": [] },
    })]
}
