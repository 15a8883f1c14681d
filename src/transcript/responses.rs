//! Items of OpenAI's Responses, which Codex keeps in its rollout files, too.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::assembly::{Assembly, Item, foreign_checkpoint, opaque, opaque_item, result_message};
use super::outline::{
    Answered, CallRules, Content, Exporter, NO_CONTENT, NO_RESULT, Outline, Part, USER_TURN, arguments_object,
    arguments_text, contents, usable_name,
};
use super::parts::{
    ToolSpelling, extra_of, fields_for, media_fields, media_marker, media_of_data, media_of_url, media_url, object,
    read_tools, reasoning_block, restore_but, restore_fields, take_list, take_text, text_block, write_tools,
};
use super::provenance::user_items;
use super::report::{Change, ExportReport};
use super::validate::responses::{answers, call_of, is_made, is_output, takes_id, takes_item, takes_part};
use super::{Rule, WriteOptions};
use crate::message::{Block, Extra, MediaBlock, MediaKind, Message, Role, Source, TextBlock, ToolCall};
use crate::session::{Seq, Session};

pub(super) const API: &str = "responses";

/// Kind of a message that another agent sent, which Codex keeps as an item of its own.
const AGENT_MESSAGE: &str = "agent-message";

/// Key of a text part that belongs to the message item of the part before it.
const SAME_ITEM: &str = "sameItem";

/// Reads one item of an input or a rollout.
pub(super) fn read_item(assembly: &mut Assembly, place: u64, time: Option<i64>, value: Value) {
    let Value::Object(mut map) = value else {
        assembly.report.unreadable(place, "an item must be an object with a type or a role");
        return;
    };
    let kind = match take_text(&mut map, "type") {
        Some(kind) => kind,
        None if map.contains_key("role") => {
            map.shift_remove("type");
            "message".into()
        }
        None => {
            assembly.report.unreadable(place, "an item needs a type or a role");
            return;
        }
    };
    match kind.as_str() {
        "message" => read_message(assembly, place, time, map),
        "reasoning" => {
            let text = reasoning_text(&map);
            extend_answer(assembly, place, time, reasoning_block(text, API, map));
        }
        "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call" => {
            let call = read_call(&kind, map);
            extend_answer(assembly, place, time, call);
        }
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" | "tool_search_output" => {
            let id = take_text(&mut map, "call_id");
            // Outputs of local shell calls may name their call by `id`.
            let by_id = || (kind == "local_shell_call_output").then(|| take_text(&mut map, "id")).flatten();
            let id = id.or_else(by_id).unwrap_or_default();
            let content = match map.shift_remove("output").or_else(|| map.get("tools").cloned()) {
                Some(Value::String(text)) => vec![Block::text(text)],
                Some(Value::Array(parts)) if kind != "tool_search_output" => parts.into_iter().map(read_part).collect(),
                Some(part @ Value::Object(_)) => vec![read_part(part)],
                Some(Value::Null) | None => Vec::new(),
                Some(other) => vec![Block::text(other.to_string())],
            };
            if kind != "function_call_output" {
                map.insert("type".into(), kind.as_str().into());
            }
            assembly.push(Item::new(place, result_message(&id, content, None, extra_of(API, map))).at(time));
        }
        "compaction" | "compaction_summary" | "context_compaction" => {
            map.insert("type".into(), kind.as_str().into());
            let content = vec![opaque(API, Value::Object(map))];
            assembly.push(Item::new(place, foreign_checkpoint(place, Some("codex"), content, false)).at(time));
        }
        "agent_message" => {
            let content = take_list(&mut map, "content").unwrap_or_default().into_iter().map(read_part).collect();
            let mut message = Message::new("", Role::User, Source::other(AGENT_MESSAGE), content);
            message.extra = extra_of(API, map);
            assembly.push(Item::new(place, message).at(time));
        }
        "image_generation_call" => {
            let block = match take_text(&mut map, "result") {
                Some(data) if !data.is_empty() => {
                    map.insert("type".into(), kind.as_str().into());
                    media_of_data(Some("image/png".into()), data, &extra_of(API, map))
                }
                _ => {
                    map.insert("type".into(), kind.as_str().into());
                    opaque(API, Value::Object(map))
                }
            };
            extend_answer(assembly, place, time, block);
        }
        "ghost_snapshot" | "compaction_trigger" => {
            assembly.report.skip(&kind, place);
            return;
        }
        _ => {
            map.insert("type".into(), kind.as_str().into());
            extend_answer(assembly, place, time, opaque(API, Value::Object(map)));
        }
    }
    assembly.report.map(&kind, place);
}

/// Adds a block to the answer that is being given, or begins one.
pub(super) fn extend_answer(assembly: &mut Assembly, place: u64, time: Option<i64>, block: Block) {
    if let Some(answer) = assembly.open_answer() {
        answer.message.content.push(block);
        return;
    }
    let message = Message::new("", Role::Assistant, assembly.model_source(), vec![block]);
    assembly.push(Item::new(place, message).at(time));
}

fn reasoning_text(map: &Map<String, Value>) -> String {
    let texts = |key: &str| -> Vec<&str> {
        let parts = map.get(key).and_then(Value::as_array);
        parts.into_iter().flatten().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
    };
    let summary = texts("summary");
    if summary.is_empty() { texts("content").join("\n\n") } else { summary.join("\n\n") }
}

fn read_message(assembly: &mut Assembly, place: u64, time: Option<i64>, mut map: Map<String, Value>) {
    let role = take_text(&mut map, "role").unwrap_or_default();
    let parts = match map.shift_remove("content") {
        Some(Value::String(text)) => vec![json!({ "text": text })],
        Some(Value::Array(parts)) => parts,
        _ => Vec::new(),
    };
    let mut content: Vec<Block> = parts.into_iter().map(read_part).collect();
    match role.as_str() {
        "assistant" => {
            for (index, block) in content.iter_mut().enumerate() {
                let Block::Text(text) = block else { continue };
                let of_item = if index > 0 {
                    Map::from_iter([(SAME_ITEM.to_owned(), true.into())])
                } else {
                    std::mem::take(&mut map)
                };
                let mut fields = fields_for(&text.extra, API).cloned().unwrap_or_default();
                fields.extend(of_item.into_iter().filter(|(_, value)| !value.is_null()));
                if !fields.is_empty() {
                    text.extra.insert(API, Value::Object(fields));
                }
            }
            for block in content {
                extend_answer(assembly, place, time, block);
            }
        }
        "user" => {
            let extra = extra_of(API, map);
            let mut items = user_items(place, time, None, content);
            if let [item] = items.as_mut_slice() {
                item.message.extra = extra;
            }
            assembly.live.extend(items);
        }
        _ => {
            // The API has no other role; what a client put under one came from around the conversation.
            let kind = if role == "system" { "system" } else { "developer" };
            if content.is_empty() {
                content.push(Block::text(""));
            }
            let mut message = Message::new("", Role::User, Source::other(kind), content);
            message.extra = extra_of(API, map);
            assembly.push(Item::new(place, message).at(time));
        }
    }
}

fn read_part(value: Value) -> Block {
    let Value::Object(mut map) = value else {
        return match value {
            Value::String(text) => Block::text(text),
            other => opaque(API, other),
        };
    };
    let kind = map.get("type").and_then(Value::as_str).unwrap_or("text").to_owned();
    match kind.as_str() {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            if let Some(text) = take_text(&mut map, "text") {
                map.shift_remove("type");
                map.retain(|_, value| {
                    !matches!(value, Value::Null) && value.as_array().is_none_or(|items| !items.is_empty())
                });
                return text_block(text, API, map);
            }
        }
        "refusal" => {
            if let Some(text) = take_text(&mut map, "refusal") {
                return text_block(text, API, map);
            }
        }
        "input_image" => {
            if let Some(url) = take_text(&mut map, "image_url") {
                map.shift_remove("type");
                return media_of_url(url, None, MediaKind::Image, &extra_of(API, map));
            }
        }
        "input_file" => {
            if let Some(data) = take_text(&mut map, "file_data").or_else(|| take_text(&mut map, "file_url")) {
                map.shift_remove("type");
                return media_of_url(data, None, MediaKind::Document, &extra_of(API, map));
            }
        }
        "input_audio" => {
            let format = take_text(&mut map, "format").unwrap_or_else(|| "wav".into());
            if let Some(data) = take_text(&mut map, "data") {
                return media_of_data(Some(format!("audio/{format}")), data, &Extra::default());
            }
        }
        _ => {}
    }
    opaque(API, Value::Object(map))
}

fn read_call(kind: &str, mut map: Map<String, Value>) -> Block {
    let id = take_text(&mut map, "call_id").unwrap_or_default();
    let text_of = |value: Option<Value>| match value {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let (name, arguments) = match kind {
        "custom_tool_call" => (take_text(&mut map, "name"), map.shift_remove("input")),
        "local_shell_call" => (Some("local_shell".into()), map.shift_remove("action")),
        "tool_search_call" => (Some("tool_search".into()), map.shift_remove("arguments")),
        _ => (take_text(&mut map, "name"), map.shift_remove("arguments")),
    };
    if kind != "function_call" {
        map.insert("type".into(), kind.into());
    }
    let (name, arguments) = (name.unwrap_or_default(), text_of(arguments));
    Block::ToolCall(ToolCall { id, name, arguments, extra: extra_of(API, map) })
}

/// The items of a document: a bare list, or a request with its instructions and tools, or a stored response.
pub(super) fn read_document(assembly: &mut Assembly, value: Value) {
    let mut items = Vec::new();
    match value {
        Value::Array(list) => items = list,
        Value::Object(mut map) => {
            if let Some(text) = take_text(&mut map, "input") {
                items.push(json!({ "role": "user", "content": text }));
            }
            items.extend(take_list(&mut map, "input").unwrap_or_default());
            items.extend(take_list(&mut map, "output").unwrap_or_default());
            assembly.system = take_text(&mut map, "instructions");
            assembly.tools = read_tools(take_list(&mut map, "tools").unwrap_or_default());
            let model = take_text(&mut map, "model");
            assembly.note_model(Some("openai"), model.as_deref());
        }
        _ => {}
    }
    assembly.report.records += items.len() as u64;
    for (index, item) in items.into_iter().enumerate() {
        read_item(assembly, index as u64 + 1, None, item);
    }
}

const CALLS: CallRules = CallRules { longest: 64, plain: false, unique: false, answer_all: true };

/// Writes the conversation as `{"instructions", "input": […]}`, with its tools where it has some.
pub(super) fn write(session: &Session, exporter: &mut Exporter<'_>) -> Value {
    let outline = Outline::new(session, CALLS, &mut exporter.report);
    let mut value = Map::new();
    if let Some(system) = outline.system {
        value.insert("instructions".into(), system.into());
    }
    let mut items = write_items(&outline, exporter, false);
    if items.is_empty() {
        exporter.report.note(Change::UserTurnAdded, 0);
        items.push(message_item("user", vec![json!({ "type": "input_text", "text": USER_TURN })]));
    }
    value.insert("input".into(), Value::Array(items));
    if let Some(tools) = write_tools(outline.tools, ToolSpelling::Responses) {
        value.insert("tools".into(), tools);
    }
    Value::Object(value)
}

/// The items of a conversation. `as_file` keeps every id, as a file that no server checks may.
pub(super) fn write_items(outline: &Outline<'_>, exporter: &mut Exporter<'_>, as_file: bool) -> Vec<Value> {
    let mut items: Vec<(Seq, Value)> = Vec::new();
    let mut continues_answer = false;
    for part in &outline.parts {
        if part.is_answer {
            if continues_answer {
                // Items of the model in a row are one answer.
                exporter.report.note(Change::NeighboursMerged, part.seq);
            }
            continues_answer = part.calls.is_empty();
            write_answer(exporter, part, &mut items, as_file);
            for call in part.results() {
                items.push((call.seq, output_item(call, &mut exporter.report)));
            }
        } else {
            continues_answer = false;
            write_said(exporter, part, &mut items, as_file);
        }
    }
    if !as_file {
        keep_ids_that_hold(&mut items, &mut exporter.report);
    }
    items.into_iter().map(|(_, item)| item).collect()
}

fn message_item(role: &str, content: Vec<Value>) -> Value {
    Value::Object(object([("type", "message".into()), ("role", role.into()), ("content", Value::Array(content))]))
}

/// What only this API reads, as the API takes it: an older name of a compaction is written as the name that it has now.
fn api_item(item: &Value) -> Option<Value> {
    let mut item = item.clone();
    if let Value::Object(map) = &mut item
        && matches!(map.get("type").and_then(Value::as_str), Some("compaction_summary" | "context_compaction"))
    {
        map.insert("type".into(), "compaction".into());
    }
    takes_item(&item).then_some(item)
}

fn write_said(exporter: &mut Exporter<'_>, part: &Part<'_>, items: &mut Vec<(Seq, Value)>, as_file: bool) {
    let message = part.message;
    let role = match message.source.kind() {
        kind @ ("developer" | "system") => kind,
        _ => "user",
    };
    // The API has no item for what another agent said; a file has one, where it is known from whom to whom it went.
    let is_agents = message.source.kind() == AGENT_MESSAGE;
    let agent_fields = fields_for(&message.extra, API).filter(|_| is_agents && as_file);
    let foreign_compaction = exporter.options.profile.holds(Rule::ResponsesForeignCompaction);
    let report = &mut exporter.report;
    let mut parts = Vec::new();
    let mut own = Vec::new();
    for content in contents(&message.content, API, part.seq, message.source.is_checkpoint(), report) {
        match content {
            Content::Text(text) => parts.push(text_part("input_text", text)),
            Content::Media(media) => parts.push(media_part(media, part.seq, report)),
            Content::Reasoning(_) => report.note(Change::ReasoningDropped, part.seq),
            Content::Own(item) if agent_fields.is_some() || takes_part(role, item) => parts.push(item.clone()),
            Content::Own(item) if as_file => own.push(item.clone()),
            Content::Own(item) if message.source.is_checkpoint() => match api_item(item) {
                Some(item) if !foreign_compaction => own.push(item),
                _ => report.note(Change::OpaqueCheckpointDropped, part.seq),
            },
            Content::Own(_) => report.note(Change::OpaqueDropped, part.seq),
        }
    }
    if let Some(fields) = agent_fields {
        let mut map = fields.clone();
        map.insert("type".into(), "agent_message".into());
        map.insert("content".into(), Value::Array(parts));
        items.push((part.seq, Value::Object(map)));
    } else if !parts.is_empty() {
        let mut item = message_item(role, parts);
        if is_agents {
            report.note(Change::RoleChanged, part.seq);
            if fields_for(&message.extra, API).is_some() {
                report.note(Change::FieldsDropped, part.seq);
            }
        } else if let Value::Object(map) = &mut item
            && restore_but(map, &message.extra, API, |key| matches!(key, "type" | "role" | "content"))
        {
            report.note(Change::FieldsDropped, part.seq);
        }
        items.push((part.seq, item));
    }
    items.extend(own.into_iter().map(|item| (part.seq, item)));
}

fn text_part(kind: &str, text: &TextBlock) -> Value {
    let own = fields_for(&text.extra, API);
    let mut map = Map::new();
    if kind == "output_text" && own.and_then(|own| own.get("type")).is_some_and(|kind| kind == "refusal") {
        map.insert("type".into(), "refusal".into());
        map.insert("refusal".into(), text.text.as_str().into());
    } else {
        map.insert("type".into(), kind.into());
        map.insert("text".into(), text.text.as_str().into());
        // What an answer's first part keeps of its item goes to the item; the rest are fields of the part.
        for key in ["annotations", "logprobs", "prompt_cache_breakpoint"] {
            if let Some(value) = own.and_then(|own| own.get(key)) {
                map.insert(key.into(), value.clone());
            }
        }
    }
    Value::Object(map)
}

fn media_part(media: &MediaBlock, seq: Seq, report: &mut ExportReport) -> Value {
    let mut map = Map::new();
    match (media.kind, media_url(media)) {
        (MediaKind::Image, Some(url)) => {
            map.insert("type".into(), "input_image".into());
            map.insert("image_url".into(), url.into());
        }
        (MediaKind::Document, Some(url)) => {
            map.insert("type".into(), "input_file".into());
            map.insert(if url.starts_with("data:") { "file_data" } else { "file_url" }.into(), url.into());
        }
        _ => {
            report.note(Change::MediaReplaced, seq);
            return json!({ "type": "input_text", "text": media_marker(media) });
        }
    }
    for (key, value) in media_fields(media, API).into_iter().flatten() {
        if !map.contains_key(key) {
            map.insert(key.clone(), value.clone());
        }
    }
    Value::Object(map)
}

/// Ids of calls that stand in an answer as items that are carried as they came, each with its output behind it.
fn answered_own_calls<'a>(part: &Part<'a>) -> HashSet<&'a str> {
    let own: Vec<&Value> = part.message.content.iter().filter_map(own_item).filter(|item| takes_item(item)).collect();
    let mut open: HashMap<&str, &Value> = HashMap::new();
    let mut answered = HashSet::new();
    let mut repeated: HashSet<&str> = part.calls.iter().map(|call| call.call.id.as_str()).collect();
    for item in own {
        if let Some(id) = call_of(item) {
            if open.insert(id, item).is_some() || answered.contains(id) {
                repeated.insert(id);
            }
        } else if is_output(item) {
            let id = item.get("call_id").and_then(Value::as_str).unwrap_or_default();
            match open.remove(id) {
                Some(call) if answers(call, item) => _ = answered.insert(id),
                _ => _ = repeated.insert(id),
            }
        }
    }
    answered.retain(|id| !repeated.contains(id) && !open.contains_key(id));
    answered
}

fn own_item(block: &Block) -> Option<&Value> {
    match block {
        Block::Opaque(block) => opaque_item(block, API),
        _ => None,
    }
}

fn write_answer(exporter: &mut Exporter<'_>, part: &Part<'_>, items: &mut Vec<(Seq, Value)>, as_file: bool) {
    let answered = answered_own_calls(part);
    let per_call = exporter.options.profile.holds(Rule::ResponsesReasoningPerCall);
    let options = exporter.options;
    let report = &mut exporter.report;
    let seq = part.seq;
    let mut calls = part.calls.iter();
    let mut newest_reasoning: Option<Value> = None;
    let mut begins_message = true;
    for block in &part.message.content {
        if let Block::ToolCall(_) = block {
            let Some(call) = calls.next() else { continue };
            let after_reasoning = items.last().is_some_and(|(_, item)| kind_of(item) == "reasoning");
            if let (true, false, Some(reasoning)) = (per_call, after_reasoning, &newest_reasoning) {
                let mut again = reasoning.clone();
                if let Value::Object(map) = &mut again {
                    map.shift_remove("id");
                }
                items.push((seq, again));
            }
            items.push((seq, call_item(call, options, seq, report)));
            begins_message = true;
            continue;
        }
        for content in contents(std::slice::from_ref(block), API, seq, false, report) {
            match content {
                Content::Text(text) => {
                    let own = fields_for(&text.extra, API);
                    let joins = own.is_some_and(|own| own.contains_key(SAME_ITEM)) && !begins_message;
                    let part = text_part("output_text", text);
                    if let (true, Some((_, Value::Object(item)))) = (joins, items.last_mut())
                        && let Some(Value::Array(parts)) = item.get_mut("content")
                    {
                        parts.push(part);
                        continue;
                    }
                    let mut item = message_item("assistant", vec![part]);
                    if let Value::Object(map) = &mut item {
                        for (key, value) in own.into_iter().flatten() {
                            let of_part = matches!(key.as_str(), "type" | "annotations" | "logprobs" | SAME_ITEM);
                            if !of_part && !map.contains_key(key) {
                                map.insert(key.clone(), value.clone());
                            }
                        }
                    }
                    items.push((seq, item));
                    begins_message = false;
                }
                Content::Reasoning(block) => match fields_for(&block.extra, API) {
                    Some(own) => {
                        let mut map = Map::from_iter([("type".to_owned(), "reasoning".into())]);
                        map.extend(own.clone());
                        if !map.get("summary").is_some_and(Value::is_array) {
                            report.note(Change::FieldsDropped, seq);
                            map.insert("summary".into(), json!([]));
                        }
                        newest_reasoning = Some(Value::Object(map.clone()));
                        items.push((seq, Value::Object(map)));
                        begins_message = true;
                    }
                    None => report.note(Change::ReasoningDropped, seq),
                },
                Content::Media(media) => match media_fields(media, API) {
                    Some(own) if own.get("type").is_some_and(|kind| kind == "image_generation_call") => {
                        let mut map = own.clone();
                        map.insert("result".into(), media.fields.get("data").cloned().unwrap_or_default());
                        items.push((seq, Value::Object(map)));
                        begins_message = true;
                    }
                    _ => {
                        report.note(Change::MediaReplaced, seq);
                        let part = json!({ "type": "output_text", "text": media_marker(media) });
                        items.push((seq, message_item("assistant", vec![part])));
                        begins_message = true;
                    }
                },
                Content::Own(item) => {
                    let is_whole = match call_of(item) {
                        Some(id) => answered.contains(id),
                        None if is_output(item) => {
                            item.get("call_id").and_then(Value::as_str).is_some_and(|id| answered.contains(id))
                        }
                        None => true,
                    };
                    let is_message = matches!(kind_of(item), "" | "message");
                    if as_file || (is_whole && !is_message && takes_item(item)) {
                        items.push((seq, item.clone()));
                        begins_message = true;
                    } else {
                        report.note(Change::OpaqueDropped, seq);
                    }
                }
            }
        }
    }
}

fn kind_of(item: &Value) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn own_kind(call: &ToolCall) -> &str {
    fields_for(&call.extra, API).and_then(|own| own.get("type")).and_then(Value::as_str).unwrap_or("function_call")
}

fn call_item(answered: &Answered<'_>, options: &WriteOptions, seq: Seq, report: &mut ExportReport) -> Value {
    let call = answered.call;
    let arguments = arguments_text(call, options, seq, report);
    let kind = own_kind(call);
    let mut map =
        Map::from_iter([("type".to_owned(), kind.into()), ("call_id".to_owned(), answered.id.as_str().into())]);
    match kind {
        "custom_tool_call" => {
            map.insert("name".into(), usable_name(&call.name, 64, seq, report).into());
            map.insert("input".into(), call.arguments.as_str().into());
        }
        "local_shell_call" | "tool_search_call" => {
            let key = if kind == "local_shell_call" { "action" } else { "arguments" };
            map.insert(key.into(), Value::Object(arguments_object(call, options, seq, report)));
        }
        _ => {
            map.insert("name".into(), usable_name(&call.name, 64, seq, report).into());
            map.insert("arguments".into(), arguments.into());
        }
    }
    restore_fields(&mut map, &call.extra, API);
    Value::Object(map)
}

fn output_item(answered: &Answered<'_>, report: &mut ExportReport) -> Value {
    let given_kind = answered.result.and_then(|result| fields_for(&result.extra, API)?.get("type")?.as_str());
    let kind = match own_kind(answered.call) {
        "custom_tool_call" => "custom_tool_call_output",
        "tool_search_call" => "tool_search_output",
        // Clients answer these calls as functions of their own, too.
        "local_shell_call" if given_kind == Some("local_shell_call_output") => "local_shell_call_output",
        _ => "function_call_output",
    };
    let mut map =
        Map::from_iter([("type".to_owned(), kind.into()), ("call_id".to_owned(), answered.id.as_str().into())]);
    let Some(result) = answered.result else {
        let key = if kind == "tool_search_output" { "tools" } else { "output" };
        let none = if kind == "tool_search_output" { json!([]) } else { NO_RESULT.into() };
        map.insert(key.into(), none);
        return Value::Object(map);
    };
    if result.is_error == Some(true) {
        report.note(Change::ErrorMarkDropped, answered.seq);
    }
    if given_kind.is_some_and(|given| given != kind) {
        // A result that was recorded under another kind than its call wants.
        report.note(Change::FieldsDropped, answered.seq);
    }
    if kind == "tool_search_output" {
        restore_fields(&mut map, &result.extra, API);
        return Value::Object(map);
    }
    let mut parts = Vec::new();
    for content in contents(&result.content, API, answered.seq, false, report) {
        match content {
            Content::Text(text) => parts.push(text_part("input_text", text)),
            Content::Media(media) => parts.push(media_part(media, answered.seq, report)),
            Content::Own(item) if takes_part("user", item) => parts.push(item.clone()),
            Content::Own(_) => report.note(Change::OpaqueDropped, answered.seq),
            Content::Reasoning(_) => report.note(Change::ReasoningDropped, answered.seq),
        }
    }
    let output = match parts.as_slice() {
        [] => {
            report.note(Change::EmptyContentMarked, answered.seq);
            NO_CONTENT.into()
        }
        [Value::Object(part)] if part.len() == 2 && part.contains_key("text") => {
            part.get("text").cloned().unwrap_or_default()
        }
        _ => Value::Array(parts),
    };
    map.insert("output".into(), output);
    restore_fields(&mut map, &result.extra, API);
    Value::Object(map)
}

/// The service checks the ids that it gave: a reasoning item wants the item behind it, and that item the reasoning. Ids for
/// which that does not hold are left out, and so is reasoning that nothing follows.
fn keep_ids_that_hold(items: &mut Vec<(Seq, Value)>, report: &mut ExportReport) {
    let follows: Vec<bool> = (0..items.len())
        .map(|at| items.get(at + 1).is_some_and(|(_, item)| is_made(item) && kind_of(item) != "reasoning"))
        .collect();
    // Reasoning may stand behind reasoning: the last of the run is followed by the item of all.
    let mut followed = follows.clone();
    for at in (0..items.len().saturating_sub(1)).rev() {
        let next_is_reasoning = items.get(at + 1).is_some_and(|(_, item)| kind_of(item) == "reasoning");
        let next_followed = followed.get(at + 1).copied().unwrap_or(false);
        if let Some(slot) = followed.get_mut(at) {
            *slot |= next_is_reasoning && next_followed;
        }
    }
    let mut at = 0;
    items.retain(|(seq, item)| {
        let keep = kind_of(item) != "reasoning" || followed.get(at).copied().unwrap_or(false);
        at += 1;
        if !keep {
            report.note(Change::ReasoningDropped, *seq);
        }
        keep
    });
    let any_reasoning = items.iter().any(|(_, item)| kind_of(item) == "reasoning" && item.get("id").is_some());
    let mut seen = HashSet::new();
    let mut reasoned = false;
    for (seq, item) in items {
        let kind = kind_of(item).to_owned();
        let of_model = is_made(item);
        if !of_model {
            reasoned = false;
        }
        let id = item.get("id").and_then(Value::as_str).map(str::to_owned);
        let holds = match &id {
            None => true,
            Some(id) => {
                let has_reasoning = kind == "reasoning" || !of_model || !any_reasoning || reasoned;
                takes_id(item)
                    && has_reasoning
                    && (is_output(item) || kind == "item_reference" || seen.insert(id.clone()))
            }
        };
        // What follows reasoning up to the host's next item was made after it.
        reasoned |= kind == "reasoning" && holds;
        if !holds && let Value::Object(map) = item {
            map.shift_remove("id");
            report.note(Change::FieldsDropped, *seq);
        }
    }
}
