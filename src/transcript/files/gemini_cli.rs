//! gemini-cli session files, as one document or a record a line, and its stream output.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Lines, lenient};
use crate::message::{Block, Extra, Message, Role, ToolCall, Usage};
use crate::transcript::assembly::{Assembly, Item, result_message};
use crate::transcript::gemini::{Parts, push_user, read_parts};
use crate::transcript::parts::{reasoning_block, rfc3339_ms, take_list, take_map, take_text, time_ms};
use crate::transcript::provenance::user_items;
use crate::transcript::report::Repair;

/// Key of the fields that only this tool's files have.
const API: &str = "gemini-cli";

/// Reads the document form.
pub(in crate::transcript) fn read_document(assembly: &mut Assembly, value: Value) {
    let Value::Object(mut map) = value else { return };
    let messages = take_list(&mut map, "messages").unwrap_or_default();
    note_header(assembly, &map);
    assembly.report.records += messages.len() as u64;
    for (index, message) in messages.into_iter().enumerate() {
        match message {
            Value::Object(map) => read_record(assembly, index as u64 + 1, map),
            _ => assembly.report.unreadable(index as u64 + 1, "a message must be an object"),
        }
    }
}

fn note_header(assembly: &mut Assembly, map: &Map<String, Value>) {
    if let Some(id) = map.get("sessionId").and_then(Value::as_str) {
        assembly.header.id = id.to_owned();
        assembly.header.created_at = map.get("startTime").and_then(time_ms).unwrap_or(0);
    }
}

/// Reads the form with a record a line.
#[derive(Default)]
pub(in crate::transcript) struct SessionFile;

impl Lines for SessionFile {
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error> {
        let map: Map<String, Value> = serde_json::from_str(text)?;
        if map.contains_key("$set") {
            assembly.report.skip("$set", place);
        } else if let Some(back) = map.get("$rewindTo").and_then(Value::as_str) {
            if assembly.rewind_to(back, place).is_some_and(|dropped| dropped > 0) {
                assembly.report.repair(Repair::BranchLeft, place);
            }
            assembly.report.map("$rewindTo", place);
        } else if map.contains_key("type") {
            read_record(assembly, place, map);
        } else {
            note_header(assembly, &map);
            assembly.report.map("header", place);
        }
        Ok(())
    }
}

fn read_record(assembly: &mut Assembly, place: u64, mut map: Map<String, Value>) {
    let kind = take_text(&mut map, "type").unwrap_or_default();
    let time = map.get("timestamp").and_then(time_ms);
    let id = take_text(&mut map, "id");
    match kind.as_str() {
        "user" => {
            let parts = read_parts(assembly, place, map.shift_remove("content"));
            push_user(assembly, place, time, id.as_deref(), parts);
        }
        "gemini" | "assistant" | "model" => read_answer(assembly, place, time, id.as_deref(), map),
        other => {
            assembly.report.skip(other, place);
            return;
        }
    }
    assembly.report.map(&kind, place);
}

/// An answer holds its calls, and each call its result.
fn read_answer(assembly: &mut Assembly, place: u64, time: Option<i64>, id: Option<&str>, mut map: Map<String, Value>) {
    let model = take_text(&mut map, "model");
    assembly.note_model(Some("google"), model.as_deref());
    let mut content = Vec::new();
    for thought in take_list(&mut map, "thoughts").unwrap_or_default() {
        let Value::Object(mut thought) = thought else { continue };
        let subject = take_text(&mut thought, "subject").unwrap_or_default();
        let description = take_text(&mut thought, "description").unwrap_or_default();
        let text = [subject, description].join("\n").trim().to_owned();
        content.push(reasoning_block(text, API, Map::from_iter([("thought".to_owned(), true.into())])));
    }
    let Parts { content: said, .. } = read_parts(assembly, place, map.shift_remove("content"));
    content.extend(said);
    let mut results = Vec::new();
    for call in take_list(&mut map, "toolCalls").unwrap_or_default() {
        let Value::Object(mut call) = call else { continue };
        let call_id = match take_text(&mut call, "id").filter(|id| !id.is_empty()) {
            Some(id) => id,
            None => {
                assembly.report.repair(Repair::CallIdMade, place);
                assembly.make_call_id()
            }
        };
        let name = take_text(&mut call, "name").unwrap_or_default();
        let arguments = call.shift_remove("args").map_or("{}".into(), |args| args.to_string());
        content.push(Block::tool_call(&call_id, name, arguments));
        let status = take_text(&mut call, "status");
        let parts = read_parts(assembly, place, call.shift_remove("result"));
        let mut responses = parts.results.into_iter();
        if let Some(mut result) = responses.next() {
            let failed = status.is_some_and(|status| status == "error" || status == "cancelled");
            let mut rest: Vec<Block> = responses.flat_map(|more| more.content).flat_map(inner).collect();
            rest.extend(parts.content);
            let blocks = std::mem::take(&mut result.content);
            for block in blocks {
                if let Block::ToolResult(mut block) = block {
                    block.content.append(&mut rest);
                    let is_error = if failed { Some(true) } else { block.is_error };
                    results.push(result_message(&call_id, block.content, is_error, block.extra));
                }
            }
        } else if !parts.content.is_empty() {
            results.push(result_message(&call_id, parts.content, None, Extra::default()));
        }
    }
    if content.is_empty() {
        return;
    }
    let mut message = Message::new("", Role::Assistant, assembly.model_source(), content);
    message.id = id.unwrap_or_default().to_owned();
    let mut item = Item::new(place, message).at(time).keyed(id);
    item.usage = take_map(&mut map, "tokens").and_then(|tokens| read_tokens(&tokens));
    assembly.push(item);
    for result in results {
        assembly.push(Item::new(place, result).at(time).keyed(id));
    }
}

fn inner(block: Block) -> Vec<Block> {
    match block {
        Block::ToolResult(result) => result.content,
        other => vec![other],
    }
}

/// The input includes what was cached; thoughts stand beside the output.
fn read_tokens(tokens: &Map<String, Value>) -> Option<Usage> {
    let number = |key: &str| tokens.get(key).and_then(Value::as_u64);
    let (input, cached) = (number("input")?, number("cached").unwrap_or(0));
    let thoughts = number("thoughts").unwrap_or(0);
    Some(Usage {
        input_tokens: input.saturating_sub(cached),
        output_tokens: number("output").unwrap_or(0).saturating_add(thoughts),
        cache_read_tokens: Some(cached).filter(|tokens| *tokens > 0),
        cache_write_tokens: None,
        reasoning_tokens: Some(thoughts).filter(|tokens| *tokens > 0),
        extra: Extra::default(),
    })
}

#[derive(Deserialize)]
struct StreamLine {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    timestamp: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    session_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    model: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    role: Option<String>,
    content: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    delta: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    tool_name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    tool_id: Option<String>,
    parameters: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    status: Option<String>,
    output: Option<Value>,
    error: Option<Value>,
}

/// Reads stream output, of one run or of several in a row.
#[derive(Default)]
pub(in crate::transcript) struct Stream {
    /// Whether the newest text came in pieces, so that the next piece belongs to it.
    in_pieces: bool,
}

impl Lines for Stream {
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error> {
        let line: StreamLine = serde_json::from_str(text)?;
        let time = line.timestamp.as_deref().and_then(rfc3339_ms);
        let was_in_pieces = std::mem::take(&mut self.in_pieces);
        match line.kind.as_str() {
            "init" => {
                if let Some(id) = line.session_id.filter(|_| assembly.header.id.is_empty()) {
                    assembly.header.id = id;
                    assembly.header.created_at = time.unwrap_or(0);
                }
                assembly.note_model(Some("google"), line.model.as_deref());
            }
            "message" => {
                let Parts { content, .. } = read_parts(assembly, place, line.content);
                if line.role.as_deref() == Some("user") {
                    assembly.live.extend(user_items(place, time, None, content));
                } else {
                    self.in_pieces = line.delta == Some(true);
                    say(assembly, place, time, content, was_in_pieces && self.in_pieces);
                }
            }
            "tool_use" => {
                let id = line.tool_id.unwrap_or_default();
                let arguments = line.parameters.map_or("{}".into(), |parameters| parameters.to_string());
                let name = line.tool_name.unwrap_or_default();
                let call = Block::ToolCall(ToolCall { id, name, arguments, extra: Extra::default() });
                say(assembly, place, time, vec![call], false);
            }
            "tool_result" => {
                let text = match (line.output, line.error) {
                    (Some(Value::String(text)), _) => text,
                    (Some(Value::Null) | None, Some(Value::Object(error))) => {
                        error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned()
                    }
                    (Some(other), _) => other.to_string(),
                    (None, Some(Value::String(text))) => text,
                    (None, error) => error.map_or_else(String::new, |error| error.to_string()),
                };
                let content = if text.is_empty() { Vec::new() } else { vec![Block::text(text)] };
                let is_error = line.status.map(|status| status == "error");
                let id = line.tool_id.unwrap_or_default();
                assembly.push(Item::new(place, result_message(&id, content, is_error, Extra::default())).at(time));
            }
            other => {
                assembly.report.skip(other, place);
                return Ok(());
            }
        }
        assembly.report.map(&line.kind, place);
        Ok(())
    }
}

fn say(assembly: &mut Assembly, place: u64, time: Option<i64>, mut content: Vec<Block>, joins: bool) {
    if let Some(answer) = assembly.open_answer() {
        if let (true, Some(Block::Text(last)), [Block::Text(next)]) =
            (joins, answer.message.content.last_mut(), content.as_mut_slice())
        {
            last.text.push_str(&next.text);
            return;
        }
        answer.message.content.extend(content);
        return;
    }
    if !content.is_empty() {
        let message = Message::new("", Role::Assistant, assembly.model_source(), content);
        assembly.push(Item::new(place, message).at(time));
    }
}
