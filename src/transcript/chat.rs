//! Chat Completions messages, as OpenAI defined them and many servers speak them.

use serde_json::{Map, Value, json};

use super::assembly::{Assembly, Item, opaque, result_message};
use super::outline::{
    CallRules, Content, Exporter, NO_CONTENT, NO_RESULT, Outline, arguments_object, contents, usable_name,
};
use super::parts::{
    ToolSpelling, extra_of, fields_for, media_fields, media_marker, media_of_data, media_of_url, media_url, object,
    reasoning_block, restore_but, restore_fields, system_texts, take_list, take_map, take_text, text_block,
    write_tools,
};
use super::provenance::user_items;
use super::report::{Change, ExportReport, Repair};
use super::validate::chat::takes_part;
use super::{Rule, WriteOptions};
use crate::message::{Block, Extra, MediaKind, Message, Role, Source, ToolCall, ToolResult, Usage};
use crate::session::{Seq, Session};

pub(super) const API: &str = "chat-completions";

/// Fields of a message that its content and source tell.
const OWN_FIELDS: [&str; 7] =
    ["role", "content", "tool_calls", "tool_call_id", "function_call", "reasoning_content", "reasoning"];

/// Reads one message.
pub(super) fn read_message(assembly: &mut Assembly, place: u64, time: Option<i64>, value: Value) {
    let Value::Object(mut map) = value else {
        assembly.report.unreadable(place, "a message must be an object with a role");
        return;
    };
    let Some(role) = take_text(&mut map, "role") else {
        assembly.report.unreadable(place, "a message needs a role");
        return;
    };
    let Some(content) = read_content(map.shift_remove("content")) else {
        assembly.report.unreadable(place, "content must be a text, a list of parts, or null");
        return;
    };
    match role.as_str() {
        "system" | "developer" => read_system(assembly, place, time, (role, content), map),
        "user" => {
            if content.is_empty() {
                assembly.report.skip("user without content", place);
                return;
            }
            let extra = extra_of(API, map);
            let mut items = user_items(place, time, None, content);
            if let [item] = items.as_mut_slice() {
                item.message.extra = extra;
            }
            assembly.live.extend(items);
            assembly.report.map("user", place);
        }
        "assistant" => read_answer(assembly, place, time, content, map),
        "tool" | "function" => {
            let id = take_text(&mut map, "tool_call_id").unwrap_or_default();
            let message = result_message(&id, content, None, extra_of(API, map));
            assembly.push(Item::new(place, message).at(time));
            assembly.report.map("tool", place);
        }
        other => assembly.report.unreadable(place, format_args!("role {other:?} is none of Chat Completions")),
    }
}

fn read_system(
    assembly: &mut Assembly,
    place: u64,
    time: Option<i64>,
    (role, content): (String, Vec<Block>),
    map: Map<String, Value>,
) {
    if content.is_empty() {
        assembly.report.skip(&format!("{role} without content"), place);
        return;
    }
    assembly.report.map(&role, place);
    // Results that come this early have no call, and will be left out.
    let comes_first = assembly.system.is_none() && assembly.live.iter().rev().all(Item::is_result);
    let (texts, has_more) = system_texts(&content);
    let is_text = texts.len() == content.len();
    let prompt = Some(texts.join("\n")).filter(|text| comes_first && is_text && !text.trim().is_empty());
    if prompt.is_some() {
        if has_more || map.values().any(|value| !value.is_null()) {
            assembly.report.repair(Repair::MetadataDropped, place);
        }
        assembly.system = prompt;
        assembly.system_role = (role != "system").then_some(role);
    } else {
        let mut message = Message::new("", Role::User, Source::other(role), content);
        message.extra = extra_of(API, map);
        assembly.push(Item::new(place, message).at(time));
    }
}

fn read_answer(assembly: &mut Assembly, place: u64, time: Option<i64>, said: Vec<Block>, mut map: Map<String, Value>) {
    let mut content = Vec::new();
    for field in ["reasoning_content", "reasoning"] {
        if let Some(text) = take_text(&mut map, field) {
            let rest = Map::from_iter([("field".to_owned(), field.into())]);
            content.push(reasoning_block(text, API, rest));
        }
    }
    content.extend(said);
    for call in take_list(&mut map, "tool_calls").unwrap_or_default() {
        match read_call(call) {
            Some(call) => content.push(call),
            None => assembly.report.unreadable(place, "a call must be an object with a function and its name"),
        }
    }
    if let Some(mut call) = take_map(&mut map, "function_call") {
        let name = take_text(&mut call, "name").unwrap_or_default();
        let arguments = arguments_text(call.shift_remove("arguments"));
        content.push(Block::ToolCall(ToolCall { id: String::new(), name, arguments, extra: extra_of(API, call) }));
    }
    let usage = take_map(&mut map, "usage").and_then(|usage| read_usage(&usage));
    let model = take_text(&mut map, "model");
    assembly.note_model(None, model.as_deref());
    if content.is_empty() {
        assembly.report.skip("assistant without content", place);
        return;
    }
    let mut message = Message::new("", Role::Assistant, assembly.model_source(), content);
    message.extra = extra_of(API, map);
    let mut item = Item::new(place, message).at(time);
    item.usage = usage;
    assembly.push(item);
    assembly.report.map("assistant", place);
}

/// Usage of one call, with cached tokens taken out of the prompt's.
pub(super) fn read_usage(usage: &Map<String, Value>) -> Option<Usage> {
    let number = |key: &str| usage.get(key).and_then(Value::as_u64);
    let detail = |group: &str, key: &str| usage.get(group).and_then(|details| details.get(key)).and_then(Value::as_u64);
    let prompt = number("prompt_tokens")?;
    let read = detail("prompt_tokens_details", "cached_tokens").or_else(|| number("cache_read_input_tokens"));
    let written = number("cache_creation_input_tokens").filter(|written| *written > 0);
    Some(Usage {
        input_tokens: prompt.saturating_sub(read.unwrap_or(0)).saturating_sub(written.unwrap_or(0)),
        output_tokens: number("completion_tokens").unwrap_or(0),
        cache_read_tokens: read.filter(|read| *read > 0),
        cache_write_tokens: written,
        reasoning_tokens: detail("completion_tokens_details", "reasoning_tokens").filter(|tokens| *tokens > 0),
        extra: Extra::default(),
    })
}

fn arguments_text(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn read_call(value: Value) -> Option<Block> {
    let Value::Object(mut map) = value else { return None };
    let id = take_text(&mut map, "id").unwrap_or_default();
    let kind = take_text(&mut map, "type").unwrap_or_else(|| "function".into());
    map.shift_remove("index");
    map.shift_remove("type");
    // Some writers keep name and arguments beside the id.
    let inner = take_map(&mut map, if kind == "custom" { "custom" } else { "function" });
    let mut inner = inner.or_else(|| map.contains_key("name").then(|| std::mem::take(&mut map)))?;
    let name = take_text(&mut inner, "name").unwrap_or_default();
    let key = if kind == "custom" { "input" } else { "arguments" };
    let arguments = arguments_text(inner.shift_remove(key));
    if kind != "function" {
        map.insert("type".into(), kind.into());
    }
    Some(Block::ToolCall(ToolCall { id, name, arguments, extra: extra_of(API, map) }))
}

fn read_content(value: Option<Value>) -> Option<Vec<Block>> {
    Some(match value {
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(Value::String(text)) => vec![Block::text(text)],
        Some(Value::Array(parts)) => parts.into_iter().map(read_part).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(_) => return None,
    })
}

fn read_part(value: Value) -> Block {
    let Value::Object(mut map) = value else {
        return match value {
            Value::String(text) => Block::text(text),
            other => opaque(API, other),
        };
    };
    match map.get("type").and_then(Value::as_str) {
        Some("text") => {
            if let Some(text) = take_text(&mut map, "text") {
                map.shift_remove("type");
                return text_block(text, API, map);
            }
        }
        Some("image_url") => {
            if let Some(mut image) = take_map(&mut map, "image_url") {
                if let Some(url) = take_text(&mut image, "url") {
                    return media_of_url(url, None, MediaKind::Image, &extra_of(API, image));
                }
                map.insert("image_url".into(), Value::Object(image));
            } else if let Some(url) = take_text(&mut map, "image_url") {
                return media_of_url(url, None, MediaKind::Image, &Extra::default());
            }
        }
        Some("input_audio") => {
            if let Some(mut audio) = take_map(&mut map, "input_audio") {
                let format = take_text(&mut audio, "format");
                if let (Some(data), Some(format)) = (take_text(&mut audio, "data"), format) {
                    return media_of_data(Some(format!("audio/{format}")), data, &Extra::default());
                }
            }
        }
        Some("file") => {
            if let Some(mut file) = take_map(&mut map, "file") {
                if let Some(data) = take_text(&mut file, "file_data") {
                    return media_of_url(data, None, MediaKind::Document, &extra_of(API, file));
                }
                map.insert("file".into(), Value::Object(file));
            }
        }
        _ => {}
    }
    opaque(API, Value::Object(map))
}

const CALLS: CallRules = CallRules { longest: 256, plain: false, unique: false, answer_all: true };

/// Writes the conversation as `{"messages": […]}`, with its tools where it has some.
pub(super) fn write(session: &Session, exporter: &mut Exporter<'_>) -> Value {
    let outline = Outline::new(session, CALLS, &mut exporter.report);
    let strict = exporter.options.profile.holds(Rule::ChatLateSystem);
    let mut messages: Vec<(Seq, Map<String, Value>)> = Vec::new();
    if let Some(system) = outline.system {
        let role = outline.system_role.filter(|_| !strict).unwrap_or("system");
        messages.push((0, object([("role", role.into()), ("content", system.into())])));
    }
    for part in &outline.parts {
        if part.is_answer {
            if let Some(answer) = answer(exporter, part) {
                messages.push((part.seq, answer));
            }
            for call in part.results() {
                let content = result_content(exporter, call.result, call.seq);
                let mut map = object([("role", "tool".into()), ("tool_call_id", call.id.as_str().into())]);
                map.insert("content".into(), content);
                if let Some(result) = call.result {
                    restore_message(&mut map, &result.extra, call.seq, &mut exporter.report);
                }
                messages.push((call.seq, map));
            }
        } else if let Some(message) = said(exporter, part, strict) {
            messages.push((part.seq, message));
        }
    }
    if let (None, Some((seq, first))) = (outline.system, messages.first_mut())
        && first.get("role").is_some_and(|role| role != "user" && role != "assistant")
    {
        make_system_prompt(first, *seq, &mut exporter.report);
    }
    if !messages.iter().any(|(_, message)| message.get("role").is_some_and(|role| role == "user")) {
        let at = messages
            .iter()
            .position(|(_, map)| map.get("role").is_none_or(|role| role != "system" && role != "developer"));
        exporter.report.note(Change::UserTurnAdded, 0);
        let marker = object([("role", "user".into()), ("content", super::outline::USER_TURN.into())]);
        messages.insert(at.unwrap_or(messages.len()), (0, marker));
    }
    let messages = merge(exporter, messages);
    let mut value = object([("messages", Value::Array(messages.into_iter().map(Value::Object).collect()))]);
    if let Some(tools) = write_tools(outline.tools, ToolSpelling::Chat) {
        value.insert("tools".into(), tools);
    }
    Value::Object(value)
}

/// What comes first under the role of the system is its prompt, which is one text.
fn make_system_prompt(message: &mut Map<String, Value>, seq: Seq, report: &mut ExportReport) {
    let parts = message.get("content").and_then(Value::as_array);
    let texts: Option<Vec<&str>> =
        parts.and_then(|parts| parts.iter().map(|part| part.get("text")?.as_str()).collect());
    let mut drops_fields = false;
    if let Some(text) = texts.map(|texts| texts.join("\n")) {
        report.note(Change::TextsJoined, seq);
        drops_fields = parts.into_iter().flatten().any(|part| part.as_object().is_some_and(|part| part.len() > 2));
        message.insert("content".into(), text.into());
    }
    let fields = message.len();
    message.retain(|key, _| matches!(key.as_str(), "role" | "content"));
    if drops_fields || message.len() < fields {
        report.note(Change::FieldsDropped, seq);
    }
}

/// Adds what stood beside the content of a message.
fn restore_message(map: &mut Map<String, Value>, extra: &Extra, seq: Seq, report: &mut ExportReport) {
    if restore_but(map, extra, API, |key| OWN_FIELDS.contains(&key)) {
        report.note(Change::FieldsDropped, seq);
    }
}

/// Merges neighbours of one role where the profile wants it.
fn merge(exporter: &mut Exporter<'_>, messages: Vec<(Seq, Map<String, Value>)>) -> Vec<Map<String, Value>> {
    let merges = |role: &str| match role {
        "user" => exporter.options.profile.holds(Rule::ChatRepeatedUser),
        "assistant" => exporter.options.profile.holds(Rule::ChatRepeatedAssistant),
        _ => false,
    };
    let mut merged: Vec<Map<String, Value>> = Vec::with_capacity(messages.len());
    for (seq, message) in messages {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        match merged.last_mut() {
            Some(last) if last.get("role") == message.get("role") && merges(role) => {
                exporter.report.note(Change::NeighboursMerged, seq);
                merge_into(last, message);
            }
            _ => merged.push(message),
        }
    }
    merged
}

fn merge_into(last: &mut Map<String, Value>, message: Map<String, Value>) {
    let parts = |value: Option<Value>| match value {
        Some(Value::String(text)) => vec![json!({ "type": "text", "text": text })],
        Some(Value::Array(parts)) => parts,
        _ => Vec::new(),
    };
    let mut message = message;
    let mut content = parts(last.shift_remove("content"));
    content.extend(parts(message.shift_remove("content")));
    last.insert("content".into(), parts_value(content));
    for (key, value) in message {
        match (last.get_mut(&key), value) {
            (Some(Value::Array(into)), Value::Array(more)) => into.extend(more),
            (Some(Value::String(into)), Value::String(more)) if key.starts_with("reasoning") => {
                into.push('\n');
                into.push_str(&more);
            }
            (None, value) => _ = last.insert(key, value),
            _ => {}
        }
    }
}

/// One text stands as a string, everything else as parts; nothing is null.
fn parts_value(mut parts: Vec<Value>) -> Value {
    match parts.as_mut_slice() {
        [] => Value::Null,
        [Value::Object(part)] if part.len() == 2 => match part.get_mut("text") {
            Some(Value::String(text)) => Value::String(std::mem::take(text)),
            _ => Value::Array(parts),
        },
        _ => Value::Array(parts),
    }
}

fn text_part(text: &str, extra: &Extra) -> Value {
    let mut map = object([("type", "text".into()), ("text", text.into())]);
    restore_fields(&mut map, extra, API);
    Value::Object(map)
}

fn said(exporter: &mut Exporter<'_>, part: &super::outline::Part<'_>, strict: bool) -> Option<Map<String, Value>> {
    let message = part.message;
    let report = &mut exporter.report;
    let (kind, takes_media) = match message.source.kind() {
        kind @ ("system" | "developer") => (kind, strict),
        _ => ("user", true),
    };
    let role = if strict { "user" } else { kind };
    let mut parts = Vec::new();
    for content in contents(&message.content, API, part.seq, message.source.is_checkpoint(), report) {
        match content {
            Content::Text(text) => parts.push(text_part(&text.text, &text.extra)),
            Content::Media(media) => match media_part(media).filter(|_| takes_media) {
                Some(part) => parts.push(part),
                None => {
                    report.note(Change::MediaReplaced, part.seq);
                    parts.push(json!({ "type": "text", "text": media_marker(media) }));
                }
            },
            Content::Own(item) if takes_part(role, item) => parts.push(item.clone()),
            Content::Own(_) => report.note(Change::OpaqueDropped, part.seq),
            Content::Reasoning(_) => report.note(Change::ReasoningDropped, part.seq),
        }
    }
    if parts.is_empty() {
        return None;
    }
    if message.source.is_checkpoint() && parts.len() > 1 {
        // Servers that know strings only are many, and a checkpoint must reach all of them.
        let texts: Option<Vec<&str>> = parts.iter().map(|part| part.get("text")?.as_str()).collect();
        if let Some(texts) = texts {
            report.note(Change::TextsJoined, part.seq);
            parts = vec![json!({ "type": "text", "text": texts.join("\n\n") })];
        }
    }
    if role != kind {
        report.note(Change::RoleChanged, part.seq);
    }
    let mut map = object([("role", role.into()), ("content", parts_value(parts))]);
    restore_message(&mut map, &message.extra, part.seq, report);
    Some(map)
}

fn media_part(media: &crate::message::MediaBlock) -> Option<Value> {
    let url = media_url(media)?;
    Some(match media.kind {
        MediaKind::Image => {
            let mut image = object([("url", url.into())]);
            image.extend(media_fields(media, API).cloned().unwrap_or_default());
            Value::Object(object([("type", "image_url".into()), ("image_url", Value::Object(image))]))
        }
        MediaKind::Audio => {
            let data = media.fields.get("data").and_then(Value::as_str)?;
            let format = media.media_type()?.strip_prefix("audio/").filter(|format| !format.is_empty())?;
            json!({ "type": "input_audio", "input_audio": { "data": data, "format": format } })
        }
        MediaKind::Document => {
            media.fields.get("data")?;
            let mut file = media_fields(media, API).cloned().unwrap_or_default();
            file.entry("filename").or_insert_with(|| "document".into());
            file.insert("file_data".into(), url.into());
            Value::Object(object([("type", "file".into()), ("file", Value::Object(file))]))
        }
    })
}

fn answer(exporter: &mut Exporter<'_>, part: &super::outline::Part<'_>) -> Option<Map<String, Value>> {
    let holds = |rule| exporter.options.profile.holds(rule);
    let refused = holds(Rule::ChatReasoningRefused);
    let required = holds(Rule::ChatReasoningRequired) || holds(Rule::ChatReasoningRequiredEverywhere);
    let must_exist = if part.calls.is_empty() { holds(Rule::ChatReasoningRequiredEverywhere) } else { required };
    let options = exporter.options;
    let report = &mut exporter.report;
    let mut reasoning: Vec<(&str, &str)> = Vec::new();
    let mut parts = Vec::new();
    for content in contents(&part.message.content, API, part.seq, false, report) {
        match content {
            Content::Text(text) => parts.push(text_part(&text.text, &text.extra)),
            Content::Reasoning(block) => {
                let own = fields_for(&block.extra, API).and_then(|fields| fields.get("field")).and_then(Value::as_str);
                match own.or(required.then_some("reasoning_content")) {
                    Some(field) if !refused && !block.text.is_empty() => {
                        let field = if required { "reasoning_content" } else { field };
                        reasoning.push((field, &block.text));
                    }
                    _ => report.note(Change::ReasoningDropped, part.seq),
                }
            }
            Content::Media(media) => {
                report.note(Change::MediaReplaced, part.seq);
                parts.push(json!({ "type": "text", "text": media_marker(media) }));
            }
            Content::Own(item) if takes_part("assistant", item) => parts.push(item.clone()),
            Content::Own(_) => report.note(Change::OpaqueDropped, part.seq),
        }
    }
    let calls: Vec<Value> = part
        .calls
        .iter()
        .map(|call| {
            let own = fields_for(&call.call.extra, API);
            let name = usable_name(&call.call.name, 64, part.seq, report);
            let mut map = object([("id", call.id.as_str().into())]);
            if own.and_then(|own| own.get("type")).is_some_and(|kind| kind == "custom") {
                map.insert("type".into(), "custom".into());
                map.insert("custom".into(), json!({ "name": name, "input": call.call.arguments }));
            } else {
                let arguments = arguments_of(call.call, options, part.seq, report);
                map.insert("type".into(), "function".into());
                map.insert("function".into(), json!({ "name": name, "arguments": arguments }));
            }
            restore_fields(&mut map, &call.call.extra, API);
            Value::Object(map)
        })
        .collect();
    if parts.is_empty() && calls.is_empty() {
        for _ in &reasoning {
            report.note(Change::ReasoningDropped, part.seq);
        }
        return None;
    }
    let mut map = object([("role", "assistant".into()), ("content", parts_value(parts))]);
    for (field, text) in reasoning {
        match map.get_mut(field) {
            Some(Value::String(into)) => {
                into.push('\n');
                into.push_str(text);
            }
            _ => _ = map.insert(field.to_owned(), text.into()),
        }
    }
    if must_exist && !refused && !map.contains_key("reasoning_content") {
        report.note(Change::EmptyContentMarked, part.seq);
        map.insert("reasoning_content".into(), NO_CONTENT.into());
    }
    if !calls.is_empty() {
        map.insert("tool_calls".into(), Value::Array(calls));
    }
    restore_message(&mut map, &part.message.extra, part.seq, report);
    Some(map)
}

/// Arguments as they came where they are the JSON of an object, else wrapped in one.
fn arguments_of(call: &ToolCall, options: &WriteOptions, seq: Seq, report: &mut ExportReport) -> String {
    if options.longest_argument_chars.is_none() && serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok() {
        return call.arguments.clone();
    }
    Value::Object(arguments_object(call, options, seq, report)).to_string()
}

fn result_content(exporter: &mut Exporter<'_>, result: Option<&ToolResult>, seq: Seq) -> Value {
    let Some(result) = result else { return NO_RESULT.into() };
    let report = &mut exporter.report;
    let mut parts = Vec::new();
    for content in contents(&result.content, API, seq, false, report) {
        match content {
            Content::Text(text) => parts.push(text_part(&text.text, &text.extra)),
            Content::Media(media) => {
                report.note(Change::MediaReplaced, seq);
                parts.push(json!({ "type": "text", "text": media_marker(media) }));
            }
            Content::Own(item) if takes_part("tool", item) => parts.push(item.clone()),
            Content::Own(_) => report.note(Change::OpaqueDropped, seq),
            Content::Reasoning(_) => report.note(Change::ReasoningDropped, seq),
        }
    }
    if result.is_error == Some(true) {
        report.note(Change::ErrorMarkDropped, seq);
    }
    if parts.is_empty() {
        report.note(Change::EmptyContentMarked, seq);
        return NO_CONTENT.into();
    }
    parts_value(parts)
}

/// The messages of a document: a bare list, or what stands in its `messages`.
pub(super) fn read_document(assembly: &mut Assembly, value: Value) {
    let mut messages = Vec::new();
    match value {
        Value::Array(items) => {
            // A list of conversations rather than of messages.
            if items.first().is_some_and(|first| first.get("messages").is_some()) {
                assembly.report.other_conversations = (items.len() as u64).saturating_sub(1);
                if let Some(first) = items.into_iter().next() {
                    read_document(assembly, first);
                }
                return;
            }
            messages = items;
        }
        Value::Object(mut map) => {
            messages = take_list(&mut map, "messages").unwrap_or_default();
            if let Some(tools) = take_list(&mut map, "tools") {
                assembly.tools = super::parts::read_tools(tools);
            }
            assembly.window = map.get("context_window").and_then(Value::as_u64).filter(|window| *window > 0);
            let model = take_text(&mut map, "model");
            assembly.note_model(None, model.as_deref());
            if let Some(mut response) = take_map(&mut map, "response") {
                messages.extend(response_message(&mut response));
            } else if map.contains_key("choices") {
                messages.extend(response_message(&mut map));
            }
        }
        _ => {}
    }
    assembly.report.records += messages.len() as u64;
    for (index, message) in messages.into_iter().enumerate() {
        read_message(assembly, index as u64 + 1, None, message);
    }
}

/// The answer of a response that was stored beside its request, with the response's usage and model.
fn response_message(response: &mut Map<String, Value>) -> Option<Value> {
    let mut choices = take_list(response, "choices")?;
    let mut choice = match choices.drain(..).next()? {
        Value::Object(choice) => choice,
        _ => return None,
    };
    let mut message = take_map(&mut choice, "message")?;
    message.entry("role").or_insert_with(|| "assistant".into());
    for key in ["usage", "model"] {
        if let Some(value) = response.get(key) {
            message.insert(key.into(), value.clone());
        }
    }
    Some(Value::Object(message))
}
