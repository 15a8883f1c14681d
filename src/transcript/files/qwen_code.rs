//! Qwen Code chat files: a record a line, Gemini contents in an envelope.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Lines, lenient};
use crate::message::{Block, Message, Role, Source, Usage};
use crate::session::Session;
use crate::transcript::assembly::{Assembly, Item, foreign_checkpoint};
use crate::transcript::gemini::{CALLS, Parts, push_user, read_content, read_parts, read_usage, write_contents};
use crate::transcript::outline::{CallRules, Exporter, Outline};
use crate::transcript::parts::{rfc3339, rfc3339_ms};
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
    model: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    context_window_size: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    usage_metadata: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "lenient")]
    is_sidechain: Option<bool>,
    message: Option<Content>,
    #[serde(default, deserialize_with = "lenient")]
    tool_call_result: Option<ToolCallResult>,
    #[serde(default, deserialize_with = "lenient")]
    system_payload: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Value>,
}

#[derive(Deserialize)]
struct ToolCallResult {
    #[serde(default, deserialize_with = "lenient")]
    status: Option<String>,
}

/// Reads a chat file.
#[derive(Default)]
pub(in crate::transcript) struct ChatFile;

impl Lines for ChatFile {
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error> {
        let line: Line = serde_json::from_str(text)?;
        note_envelope(assembly, &line);
        if line.is_sidechain == Some(true) {
            assembly.report.skip("sidechain", place);
            return Ok(());
        }
        let time = line.timestamp.as_deref().and_then(rfc3339_ms);
        let subtype = line.subtype.clone();
        let named = |kind: &str| subtype.as_ref().map_or(kind.to_owned(), |subtype| format!("{kind} {subtype}"));
        match (line.kind.as_str(), line.subtype.as_deref()) {
            ("system", Some("chat_compression")) => compression(assembly, place, time, line),
            ("system", Some("rewind")) => rewind(assembly, place, line.system_payload.as_ref()),
            ("system", _) => assembly.report.skip(&named("system"), place),
            ("user", None | Some("mid_turn_user_message")) => {
                if let Some(parent) = &line.parent_uuid {
                    assembly.leave_branch(parent, place);
                }
                let parts = line.message.and_then(|message| message.parts);
                let parts = read_parts(assembly, place, parts);
                push_user(assembly, place, time, line.uuid.as_deref(), parts);
                assembly.report.map(&named("user"), place);
            }
            // The tool itself speaks here: a notification, a job that came due, the prompt of an agent.
            ("user", Some(kind)) => {
                let parts = line.message.and_then(|message| message.parts);
                let Parts { content, .. } = read_parts(assembly, place, parts);
                if !content.is_empty() {
                    let source = Source::other(kind);
                    let message = Message::new(line.uuid.clone().unwrap_or_default(), Role::User, source, content);
                    assembly.push(Item::new(place, message).at(time).keyed(line.uuid.as_deref()));
                }
                assembly.report.map(&named("user"), place);
            }
            ("tool_result", _) => {
                let status = line.tool_call_result.and_then(|result| result.status);
                let parts = line.message.and_then(|message| message.parts);
                let mut parts = read_parts(assembly, place, parts);
                if status.as_deref().is_some_and(|status| status != "success") {
                    for block in parts.results.iter_mut().flat_map(|result| &mut result.content) {
                        if let Block::ToolResult(result) = block {
                            result.is_error = Some(true);
                        }
                    }
                }
                push_user(assembly, place, time, line.uuid.as_deref(), parts);
                assembly.report.map("tool_result", place);
            }
            ("assistant", _) => answer(assembly, place, time, line),
            (other, _) => assembly.report.skip(&named(other), place),
        }
        Ok(())
    }
}

fn note_envelope(assembly: &mut Assembly, line: &Line) {
    if assembly.header.id.is_empty()
        && let Some(id) = &line.session_id
    {
        assembly.header.id.clone_from(id);
        assembly.header.created_at = line.timestamp.as_deref().and_then(rfc3339_ms).unwrap_or(0);
        assembly.header.cwd.clone_from(&line.cwd);
    }
    assembly.note_model(Some("qwen"), line.model.as_deref());
    assembly.window = line.context_window_size.filter(|window| *window > 0).or(assembly.window);
    assembly.resume.note(&line.uuid, &line.version, &line.git_branch);
}

fn answer(assembly: &mut Assembly, place: u64, time: Option<i64>, line: Line) {
    let parts = line.message.and_then(|message| message.parts);
    let Parts { content, .. } = read_parts(assembly, place, parts);
    // Thoughts are among the candidates here.
    let usage: Option<Usage> = line.usage_metadata.as_ref().and_then(|usage| read_usage(usage, false));
    assembly.report.map("assistant", place);
    // Some versions write a thought and the call behind it as two records of one id.
    let same = |item: &&mut Item| line.uuid.as_deref().is_some_and(|uuid| item.has_key(uuid));
    if assembly.open_answer().filter(same).is_some() {
        assembly.note_made_calls(&content);
    }
    if let Some(item) = assembly.open_answer().filter(same) {
        item.message.content.extend(content);
        item.usage = usage.or(item.usage.take());
        assembly.report.repair(Repair::MessageJoined, place);
        return;
    }
    if content.is_empty() {
        return;
    }
    let mut message = Message::new("", Role::Assistant, assembly.model_source(), content);
    message.id = line.uuid.clone().unwrap_or_default();
    let mut item = Item::new(place, message).at(time).keyed(line.uuid.as_deref());
    item.usage = usage;
    assembly.push(item);
}

/// A compression with the whole new history begins the conversation anew; one with figures only changes nothing.
fn compression(assembly: &mut Assembly, place: u64, time: Option<i64>, line: Line) {
    let history = line.system_payload.and_then(|mut payload| payload.shift_remove("compressedHistory"));
    let Some(Value::Array(history)) = history else {
        assembly.report.skip("system chat_compression without history", place);
        return;
    };
    let mut kept = Assembly::new(assembly.report.format);
    kept.provider.clone_from(&assembly.provider);
    kept.model.clone_from(&assembly.model);
    for content in history {
        read_content(&mut kept, place, time, content);
    }
    let is_summary = |item: &Item| item.message.source.is_checkpoint();
    if let Some(item) = kept.live.iter_mut().find(|item| is_summary(item)) {
        let content = std::mem::take(&mut item.message.content);
        item.message = foreign_checkpoint(place, Some("qwen"), content, false);
    } else if let Some(first) = kept.live.first_mut().filter(|item| item.is_user()) {
        // The record itself says that its history begins with the summary.
        let content = std::mem::take(&mut first.message.content);
        first.message = foreign_checkpoint(place, Some("qwen"), content, false);
    }
    assembly.report.map("system chat_compression", place);
    assembly.fold(kept.live.into());
    // Calls that the new history ends with may be answered by what follows.
    assembly.open_made_calls = kept.open_made_calls;
}

fn rewind(assembly: &mut Assembly, place: u64, payload: Option<&Map<String, Value>>) {
    let target = payload.and_then(|payload| payload.get("targetUuid")).and_then(Value::as_str);
    let count = payload.and_then(|payload| payload.get("truncatedCount")).and_then(Value::as_u64);
    let dropped = match (target, count) {
        (Some(target), _) => assembly.rewind_to(target, place).unwrap_or(0),
        (None, Some(count)) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(assembly.live.len());
            assembly.truncate(assembly.live.len() - count);
            count
        }
        (None, None) => 0,
    };
    assembly.report.map("system rewind", place);
    if dropped > 0 {
        assembly.report.repair(Repair::BranchLeft, place);
    }
}

/// The record that makes the session's surface the live part: a compression with all of it as the new history.
pub(in crate::transcript) fn append_records(session: &Session, exporter: &mut Exporter<'_>) -> Vec<Value> {
    let calls = CallRules { answer_all: false, ..CALLS };
    let outline = Outline::new(session, calls, &mut exporter.report);
    let history = write_contents(&outline.parts, exporter);
    let options = exporter.options;
    vec![json!({
        "uuid": options.record_ids(session).next_uuid(),
        "parentUuid": options.resume.last_record,
        "sessionId": session.id(),
        "timestamp": rfc3339(options.time_of(session)),
        "type": "system",
        "subtype": "chat_compression",
        "cwd": session.header().cwd.as_deref().unwrap_or_default(),
        "version": options.resume.version.as_deref().unwrap_or_default(),
        "gitBranch": options.resume.git_branch,
        "systemPayload": {
            "info": { "originalTokenCount": options.tokens_before, "compressionStatus": 1 },
            "compressedHistory": history,
        },
    })]
}
