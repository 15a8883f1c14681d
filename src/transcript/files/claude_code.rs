//! Claude Code session files: a record a line, with one content block of a message in each.
//!
//! The conversation is what stands behind the last boundary in the order of the file, with results paired by id: parallel calls
//! make branches of the parent chain, so that chain does not give it.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Lines, lenient};
use crate::message::{Block, Message, Role, Source, Usage};
use crate::session::Session;
use crate::transcript::anthropic::{
    as_content, read_blocks, read_usage, read_user_content, write_content, write_result,
};
use crate::transcript::assembly::{Assembly, Item, foreign_checkpoint};
use crate::transcript::outline::{CallRules, Exporter, Outline};
use crate::transcript::parts::{rfc3339, rfc3339_ms};
use crate::transcript::provenance::{injected_kind, split_user_content};
use crate::transcript::report::Repair;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    subtype: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    uuid: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    parent_uuid: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    session_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    timestamp: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    cwd: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    version: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    git_branch: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    is_sidechain: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    is_meta: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    is_compact_summary: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    is_api_error_message: Option<bool>,
    message: Option<ApiMessage>,
    attachment: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "lenient")]
    compact_metadata: Option<CompactMetadata>,
}

#[derive(Deserialize)]
struct ApiMessage {
    #[serde(default, deserialize_with = "lenient")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    model: Option<String>,
    content: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompactMetadata {
    #[serde(default, deserialize_with = "lenient")]
    preserved_segment: Option<PreservedSegment>,
    #[serde(default, deserialize_with = "lenient")]
    preserved_messages: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreservedSegment {
    #[serde(default, deserialize_with = "lenient")]
    head_uuid: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    anchor_uuid: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    tail_uuid: Option<String>,
}

/// A boundary whose summary has not come yet.
struct Boundary {
    place: u64,
    uuid: Option<String>,
    /// Messages that stood before it.
    at: usize,
    preserved: Option<Preserved>,
}

struct Preserved {
    /// Record ids of what was kept: the two ends of a run, or all of them.
    keys: PreservedKeys,
    /// The record that the kept part follows.
    anchor: Option<String>,
}

enum PreservedKeys {
    Run { head: String, tail: String },
    Each(HashSet<String>),
}

/// Reads a session file.
#[derive(Default)]
pub(in crate::transcript) struct SessionFile {
    seen: HashSet<String>,
    /// Position in the live part of the answer that has an API message id.
    answers: HashMap<String, usize>,
    /// Messages that began before the newest fold: what they report is of a request from before it.
    folded_answers: HashSet<String>,
    boundary: Option<Boundary>,
}

impl Lines for SessionFile {
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error> {
        let line: Line = serde_json::from_str(text)?;
        note_envelope(assembly, &line);
        if let Some(uuid) = &line.uuid
            && !self.seen.insert(uuid.clone())
        {
            // A later fold may copy records: the first of an id stands.
            assembly.report.repair(Repair::RecordRepeated, place);
            return Ok(());
        }
        if line.is_sidechain == Some(true) {
            assembly.report.skip("sidechain", place);
            return Ok(());
        }
        match (line.kind.as_str(), line.subtype.as_deref()) {
            ("system", Some("compact_boundary")) => {
                assembly.report.map("system compact_boundary", place);
                self.begin_fold(assembly, place, line);
            }
            ("system", subtype) => {
                assembly.report.skip(&format!("system {}", subtype.unwrap_or("record")), place);
            }
            ("user", _) => self.user(assembly, place, line),
            ("assistant", _) => self.answer(assembly, place, line),
            ("attachment", _) => attachment(assembly, place, line),
            (other, _) => assembly.report.skip(other, place),
        }
        Ok(())
    }

    fn end(&mut self, assembly: &mut Assembly) {
        if let Some(boundary) = self.boundary.take() {
            assembly.report.repair(Repair::FoldWithoutSummary, boundary.place);
        }
    }
}

fn note_envelope(assembly: &mut Assembly, line: &Line) {
    let time = line.timestamp.as_deref().and_then(rfc3339_ms);
    if assembly.header.id.is_empty()
        && let Some(id) = &line.session_id
    {
        assembly.header.id.clone_from(id);
        assembly.header.created_at = time.unwrap_or(0);
    }
    if assembly.header.cwd.is_none() {
        assembly.header.cwd.clone_from(&line.cwd);
    }
    assembly.resume.note(&line.uuid, &line.version, &line.git_branch);
}

impl SessionFile {
    fn begin_fold(&mut self, assembly: &mut Assembly, place: u64, line: Line) {
        if let Some(earlier) = self.boundary.take() {
            assembly.report.repair(Repair::FoldWithoutSummary, earlier.place);
        }
        let preserved = line.compact_metadata.and_then(|metadata| {
            let segment = metadata.preserved_segment;
            let anchor = segment.as_ref().and_then(|segment| segment.anchor_uuid.clone());
            let keys = match segment {
                Some(PreservedSegment { head_uuid: Some(head), tail_uuid: Some(tail), .. }) => {
                    PreservedKeys::Run { head, tail }
                }
                _ => PreservedKeys::Each(named_messages(&metadata.preserved_messages?)),
            };
            Some(Preserved { keys, anchor })
        });
        self.boundary = Some(Boundary { place, uuid: line.uuid, at: assembly.live.len(), preserved });
    }

    /// Folds at the pending boundary, or here where the summary came without one.
    fn fold(&mut self, assembly: &mut Assembly, place: u64, line: &Line, content: Vec<Block>) {
        let boundary = self.boundary.take();
        let text = content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n");
        if is_nothing_but_an_error(&text) {
            assembly.report.repair(Repair::FoldWithErrorText, place);
            return;
        }
        let message = foreign_checkpoint(place, Some("claude"), content, false);
        let time = line.timestamp.as_deref().and_then(rfc3339_ms);
        let checkpoint = Item::new(place, message).at(time).keyed(line.uuid.as_deref());
        let at = boundary.as_ref().map_or(assembly.live.len(), |boundary| boundary.at.min(assembly.live.len()));
        let behind = assembly.live.split_off(at);
        let (mut kept, mut before_summary) = (Vec::new(), false);
        if let Some(Boundary { preserved: Some(preserved), uuid, .. }) = boundary {
            before_summary = preserved.anchor.is_some() && preserved.anchor == uuid;
            kept = preserved_items(&assembly.live, &preserved.keys);
        }
        let mut base = Vec::with_capacity(kept.len() + behind.len() + 1);
        if before_summary {
            base.append(&mut kept);
        }
        base.push(checkpoint);
        base.append(&mut kept);
        base.extend(behind);
        assembly.fold(base);
        self.folded_answers.extend(self.answers.drain().map(|(id, _)| id));
    }

    fn user(&mut self, assembly: &mut Assembly, place: u64, mut line: Line) {
        let time = line.timestamp.as_deref().and_then(rfc3339_ms);
        let content = line.message.take().and_then(|message| message.content);
        let uuid = line.uuid.as_deref();
        let (results, rest) = read_user_content(content);
        if line.is_compact_summary == Some(true) {
            assembly.report.map("user isCompactSummary", place);
            self.fold(assembly, place, &line, rest);
            return;
        }
        let mut kind = if results.is_empty() { "user" } else { "user tool_result" };
        for result in results {
            assembly.push(Item::new(place, result).at(time).keyed(uuid));
        }
        let is_meta = line.is_meta == Some(true);
        let otherwise = if is_meta { Source::other("meta") } else { Source::user() };
        let messages = split_user_content(place, rest, &otherwise);
        if messages.iter().any(|message| message.source.is_user()) {
            if let Some(parent) = &line.parent_uuid {
                let before = assembly.live.len();
                assembly.leave_branch(parent, place);
                if assembly.live.len() != before {
                    self.answers.clear();
                }
            }
        } else if is_meta {
            kind = "user isMeta";
        }
        for (index, mut message) in messages.into_iter().enumerate() {
            if index == 0 {
                message.id = uuid.unwrap_or_default().to_owned();
            }
            assembly.push(Item::new(place, message).at(time).keyed(uuid));
        }
        assembly.report.map(kind, place);
    }

    fn answer(&mut self, assembly: &mut Assembly, place: u64, line: Line) {
        let Some(message) = line.message else {
            assembly.report.unreadable(place, "an assistant record needs a message");
            return;
        };
        if line.is_api_error_message == Some(true) || message.model.as_deref() == Some("<synthetic>") {
            assembly.report.skip("assistant error", place);
            return;
        }
        assembly.note_model(Some("anthropic"), message.model.as_deref());
        let usage: Option<Usage> = message.usage.as_ref().and_then(read_usage);
        let content = read_blocks(message.content);
        assembly.report.map("assistant", place);
        let known = message.id.as_ref().and_then(|id| self.answers.get(id).copied());
        if let Some((at, item)) = known.and_then(|at| Some((at, assembly.live.get_mut(at)?))) {
            item.message.content.extend(content);
            // Output tokens are a placeholder in all but the last record of a message.
            item.usage = usage.or(item.usage.take());
            if let Some(uuid) = line.uuid {
                assembly.live.add_key(at, uuid);
            }
            assembly.report.repair(Repair::MessageJoined, place);
            return;
        }
        if content.is_empty() {
            return;
        }
        let mut read = Message::new("", Role::Assistant, assembly.model_source(), content);
        read.id = line.uuid.clone().unwrap_or_default();
        let time = line.timestamp.as_deref().and_then(rfc3339_ms);
        let mut item = Item::new(place, read).at(time).keyed(line.uuid.as_deref());
        item.usage = usage.filter(|_| !message.id.as_ref().is_some_and(|id| self.folded_answers.contains(id)));
        if let Some(id) = message.id {
            self.answers.insert(id, assembly.live.len());
        }
        assembly.push(item);
    }
}

/// Characters up to which a summary with a line that reads as an error is nothing else. The tool puts a preamble of some 300 before
/// it and an instruction behind.
const SHORT_SUMMARY_CHARS: usize = 1_000;

fn is_nothing_but_an_error(text: &str) -> bool {
    text.chars().count() < SHORT_SUMMARY_CHARS && text.lines().any(crate::checkpoint::is_error_text)
}

fn named_messages(value: &Value) -> HashSet<String> {
    let list = value.as_array().or_else(|| value.get("uuids").and_then(Value::as_array));
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn preserved_items(hidden: &[Item], keys: &PreservedKeys) -> Vec<Item> {
    match keys {
        PreservedKeys::Each(keys) => {
            hidden.iter().filter(|item| item.keys.iter().any(|key| keys.contains(key))).cloned().collect()
        }
        PreservedKeys::Run { head, tail } => {
            let at = |key: &str| hidden.iter().position(|item| item.has_key(key));
            match (at(head), at(tail)) {
                (Some(head), Some(tail)) => hidden.get(head..=tail).unwrap_or_default().to_vec(),
                _ => Vec::new(),
            }
        }
    }
}

/// Attachments that the model sees become injected texts; the rest is bookkeeping.
fn attachment(assembly: &mut Assembly, place: u64, line: Line) {
    let attachment = line.attachment.unwrap_or_default();
    let kind = attachment.get("type").and_then(Value::as_str).unwrap_or("attachment").to_owned();
    let texts: Vec<&str> = match kind.as_str() {
        "file" | "compact_file_reference" | "edited_text_file" | "nested_memory" => {
            ["filename", "displayPath", "path", "snippet", "content"]
                .iter()
                .filter_map(|key| attachment.get(*key).and_then(text_within))
                .collect()
        }
        "queued_command" => attachment.get("prompt").and_then(text_within).into_iter().collect(),
        _ => Vec::new(),
    };
    if texts.is_empty() {
        assembly.report.skip(&format!("attachment {kind}"), place);
        return;
    }
    let text = texts.join("\n");
    let source = injected_kind(&text).unwrap_or("attachment");
    let message =
        Message::new(line.uuid.clone().unwrap_or_default(), Role::User, Source::other(source), vec![Block::text(text)]);
    let time = line.timestamp.as_deref().and_then(rfc3339_ms);
    assembly.push(Item::new(place, message).at(time).keyed(line.uuid.as_deref()));
    assembly.report.map(&format!("attachment {kind}"), place);
}

fn text_within(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(map) => ["content", "file", "text"].iter().find_map(|key| map.get(*key).and_then(text_within)),
        Value::Array(items) => items.iter().find_map(text_within),
        _ => None,
    }
}

const CALLS: CallRules = CallRules { longest: 128, plain: true, unique: true, answer_all: false };

/// The records that make the session's surface the live part: a boundary, the checkpoint as its summary, and what was kept, again.
pub(in crate::transcript) fn append_records(session: &Session, exporter: &mut Exporter<'_>) -> Vec<Value> {
    let outline = Outline::new(session, CALLS, &mut exporter.report);
    let options = exporter.options;
    let mut ids = options.record_ids(session);
    let time = rfc3339(options.time_of(session));
    let mut records = Vec::new();
    let mut parent: Value = Value::Null;
    let mut record = |kind: &str, fields: Value, parent: &mut Value| {
        let uuid: Value = ids.next_uuid().into();
        let mut map = Map::from_iter([
            ("parentUuid".to_owned(), std::mem::replace(parent, uuid.clone())),
            ("isSidechain".to_owned(), false.into()),
            ("type".to_owned(), kind.into()),
            ("uuid".to_owned(), uuid),
            ("timestamp".to_owned(), time.as_str().into()),
            ("sessionId".to_owned(), session.id().into()),
            ("cwd".to_owned(), session.header().cwd.as_deref().unwrap_or_default().into()),
            ("version".to_owned(), options.resume.version.as_deref().unwrap_or_default().into()),
            ("gitBranch".to_owned(), options.resume.git_branch.as_deref().unwrap_or_default().into()),
            ("userType".to_owned(), "external".into()),
        ]);
        if let Value::Object(fields) = fields {
            map.extend(fields);
        }
        records.push(Value::Object(map));
    };
    let boundary = json!({
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": false,
        "level": "info",
        "logicalParentUuid": options.resume.last_record,
        "compactMetadata": { "trigger": "manual", "preTokens": options.tokens_before },
    });
    record("system", boundary, &mut parent);
    for part in &outline.parts {
        let content = write_content(part, true, exporter.options, &mut exporter.report);
        if part.is_answer {
            if content.is_empty() {
                continue;
            }
            let model = match &part.message.source {
                Source::Model { model, .. } => model.as_str(),
                _ => "unknown",
            };
            let message = json!({
                "id": format!("msg_{}", part.seq), "type": "message", "role": "assistant", "model": model, "content": content,
                "stop_reason": Value::Null, "stop_sequence": Value::Null,
                "usage": { "input_tokens": 0, "output_tokens": 0 },
            });
            record("assistant", json!({ "message": message }), &mut parent);
            for call in part.results() {
                let result = write_result(&call.id, call.result, call.seq, &mut exporter.report);
                record("user", json!({ "message": { "role": "user", "content": [result] } }), &mut parent);
            }
            continue;
        }
        if content.is_empty() {
            continue;
        }
        if part.message.source.is_checkpoint() {
            // One text, as the tool itself writes its summaries.
            let text = part.message.text();
            let fields = json!({
                "isCompactSummary": true, "isVisibleInTranscriptOnly": true,
                "message": { "role": "user", "content": text },
            });
            record("user", fields, &mut parent);
        } else {
            let is_meta = part.message.source.is_injected();
            let fields = json!({ "isMeta": is_meta, "message": { "role": "user", "content": as_content(content) } });
            record("user", fields, &mut parent);
        }
    }
    records
}
