//! Gemini's `contents`, which Qwen Code keeps in its chat files, too.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::WriteOptions;
use super::assembly::{Assembly, Item, MADE_ID, opaque, result_message};
use super::outline::{
    CallRules, Content, Exporter, NO_RESULT, Outline, Part, USER_TURN, arguments_object, contents, media_or_marker,
    merge_neighbours,
};
use super::parts::{
    MediaRef, ToolSpelling, extra_of, fields_for, media_fields, media_of_data, media_of_url, object, read_tools,
    reasoning_block, restore_but, system_texts, take_list, take_map, take_text, text_block, write_tools,
};
use super::provenance::user_items;
use super::report::{Change, ExportReport, Repair};
use super::validate::gemini::{is_data_field, takes_name, takes_part};
use crate::message::{Block, Extra, MediaBlock, MediaKind, Message, Role, TextBlock, ToolCall, ToolResult, Usage};
use crate::session::{Seq, Session};

pub(super) const API: &str = "gemini";

/// Key under which a text says that it is the JSON of a whole response, not its `output`.
const WHOLE_RESPONSE: &str = "wholeResponse";

/// Most characters of a function's name.
const LONGEST_NAME: usize = 64;

/// What the parts of one content hold.
#[derive(Default)]
pub(super) struct Parts {
    /// Texts, media, thoughts and calls, in order.
    pub(super) content: Vec<Block>,
    /// Responses of functions, each as a message of its own.
    pub(super) results: Vec<Message>,
}

/// Reads one content.
pub(super) fn read_content(assembly: &mut Assembly, place: u64, time: Option<i64>, value: Value) {
    let Value::Object(mut map) = value else {
        assembly.report.unreadable(place, "a content must be an object with parts");
        return;
    };
    let role = take_text(&mut map, "role").unwrap_or_else(|| "user".into());
    let parts = read_parts(assembly, place, map.shift_remove("parts"));
    match role.as_str() {
        "user" | "function" | "tool" => push_user(assembly, place, time, None, parts),
        "model" | "assistant" => {
            if parts.content.is_empty() {
                assembly.report.skip("model without parts", place);
                return;
            }
            let message = Message::new("", Role::Assistant, assembly.model_source(), parts.content);
            assembly.push(Item::new(place, message).at(time));
        }
        other => {
            assembly.report.unreadable(place, format_args!("role {other:?} is none of Gemini's"));
            return;
        }
    }
    assembly.report.map(&role, place);
}

/// Adds the responses of functions, then what the user's side said.
pub(super) fn push_user(assembly: &mut Assembly, place: u64, time: Option<i64>, key: Option<&str>, parts: Parts) {
    for result in parts.results {
        assembly.push(Item::new(place, result).at(time).keyed(key));
    }
    assembly.live.extend(user_items(place, time, key, parts.content));
}

/// Reads the parts of a content; a string is one text.
pub(super) fn read_parts(assembly: &mut Assembly, place: u64, parts: Option<Value>) -> Parts {
    let mut read = Parts::default();
    let list = match parts {
        Some(Value::Array(parts)) => parts,
        Some(Value::String(text)) if !text.is_empty() => vec![json!({ "text": text })],
        Some(part @ Value::Object(_)) => vec![part],
        _ => Vec::new(),
    };
    for part in list {
        let Value::Object(mut map) = part else {
            if let Value::String(text) = part {
                read.content.push(Block::text(text));
            }
            continue;
        };
        use_json_names(&mut map);
        if let Some(mut call) = take_map(&mut map, "functionCall") {
            let block = read_call(assembly, place, &mut call, map);
            read.content.push(block);
        } else if let Some(response) = take_map(&mut map, "functionResponse") {
            let result = read_response(assembly, response, map);
            read.results.push(result);
        } else {
            read.content.push(read_part(map));
        }
    }
    read
}

/// The API takes every field by its name in protocol buffers, too, and some clients write that.
fn use_json_names(part: &mut Map<String, Value>) {
    const NAMES: [(&str, &str); 8] = [
        ("inline_data", "inlineData"),
        ("file_data", "fileData"),
        ("function_call", "functionCall"),
        ("function_response", "functionResponse"),
        ("executable_code", "executableCode"),
        ("code_execution_result", "codeExecutionResult"),
        ("thought_signature", "thoughtSignature"),
        ("video_metadata", "videoMetadata"),
    ];
    const INNER_NAMES: [(&str, &str); 3] =
        [("mime_type", "mimeType"), ("file_uri", "fileUri"), ("display_name", "displayName")];
    rename(part, &NAMES);
    for key in ["inlineData", "fileData"] {
        if let Some(Value::Object(inner)) = part.get_mut(key) {
            rename(inner, &INNER_NAMES);
        }
    }
}

fn rename(map: &mut Map<String, Value>, names: &[(&str, &str)]) {
    for (proto, name) in names {
        if !map.contains_key(*name)
            && let Some(value) = map.shift_remove(*proto)
        {
            map.insert((*name).to_owned(), value);
        }
    }
}

fn read_part(mut map: Map<String, Value>) -> Block {
    if let Some(text) = take_text(&mut map, "text") {
        let is_thought = map.get("thought") == Some(&Value::Bool(true));
        return if is_thought { reasoning_block(text, API, map) } else { text_block(text, API, map) };
    }
    if let Some(mut inline) = take_map(&mut map, "inlineData") {
        let media_type = take_text(&mut inline, "mimeType");
        if let Some(data) = take_text(&mut inline, "data") {
            return media_of_data(media_type, data, &extra_of(API, inline));
        }
        map.insert("inlineData".into(), Value::Object(inline));
    }
    if let Some(mut file) = take_map(&mut map, "fileData") {
        let media_type = take_text(&mut file, "mimeType");
        if let Some(url) = take_text(&mut file, "fileUri") {
            return media_of_url(url, media_type, MediaKind::Document, &extra_of(API, file));
        }
        map.insert("fileData".into(), Value::Object(file));
    }
    opaque(API, Value::Object(map))
}

fn read_call(
    assembly: &mut Assembly,
    place: u64,
    call: &mut Map<String, Value>,
    mut rest: Map<String, Value>,
) -> Block {
    let given_id = take_text(call, "id").filter(|id| !id.is_empty());
    let made_id = given_id.is_none();
    let id = given_id.unwrap_or_else(|| {
        assembly.report.repair(Repair::CallIdMade, place);
        assembly.make_call_id()
    });
    let name = take_text(call, "name").unwrap_or_default();
    let arguments = match call.shift_remove("args") {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => "{}".into(),
        Some(args) => args.to_string(),
    };
    if !call.is_empty() {
        rest.insert("functionCall".into(), Value::Object(std::mem::take(call)));
    }
    let mut extra = extra_of(API, rest);
    if made_id {
        extra.insert(MADE_ID, true.into());
    }
    Block::ToolCall(ToolCall { id, name, arguments, extra })
}

fn read_response(assembly: &mut Assembly, mut response: Map<String, Value>, mut rest: Map<String, Value>) -> Message {
    let name = take_text(&mut response, "name").unwrap_or_default();
    let id = take_text(&mut response, "id").filter(|id| !id.is_empty());
    // A response without an id answers the first call of the newest answer that has its name, no id either, and no response yet.
    let open_call = || assembly.open_made_calls.get_mut(&name)?.pop_front();
    let id = id.or_else(open_call).unwrap_or_default();
    let (mut content, is_error) = match response.shift_remove("response") {
        Some(Value::Object(map)) => read_response_value(map),
        Some(Value::String(text)) => (vec![Block::text(text)], None),
        Some(Value::Null) | None => (Vec::new(), None),
        Some(other) => (vec![Block::text(other.to_string())], None),
    };
    for part in take_list(&mut response, "parts").unwrap_or_default() {
        if let Value::Object(mut map) = part {
            use_json_names(&mut map);
            content.push(read_part(map));
        }
    }
    if !response.is_empty() {
        rest.insert("functionResponse".into(), Value::Object(response));
    }
    result_message(&id, content, is_error, extra_of(API, rest))
}

/// The text of a response that has nothing but an `output` or an `error`; of any other the JSON.
fn read_response_value(mut map: Map<String, Value>) -> (Vec<Block>, Option<bool>) {
    if map.is_empty() {
        return (Vec::new(), None);
    }
    if map.len() == 1 {
        if let Some(text) = take_text(&mut map, "output") {
            return (text_unless_empty(text), None);
        }
        if let Some(text) = take_text(&mut map, "error") {
            return (text_unless_empty(text), Some(true));
        }
    }
    let is_error = map.get("error").is_some_and(|error| !error.is_null()).then_some(true);
    let whole = Map::from_iter([(WHOLE_RESPONSE.to_owned(), true.into())]);
    (vec![text_block(Value::Object(map).to_string(), API, whole)], is_error)
}

fn text_unless_empty(text: String) -> Vec<Block> {
    if text.is_empty() { Vec::new() } else { vec![Block::text(text)] }
}

/// Usage of one call. `thoughts_apart` tells whether a tool counts thoughts beside the candidates or among them.
pub(super) fn read_usage(usage: &Map<String, Value>, thoughts_apart: bool) -> Option<Usage> {
    let number = |key: &str| usage.get(key).and_then(Value::as_u64);
    let prompt = number("promptTokenCount")?;
    let cached = number("cachedContentTokenCount").unwrap_or(0);
    let thoughts = number("thoughtsTokenCount").filter(|tokens| *tokens > 0);
    let apart = thoughts.filter(|_| thoughts_apart).unwrap_or(0);
    Some(Usage {
        input_tokens: prompt.saturating_sub(cached),
        output_tokens: number("candidatesTokenCount").unwrap_or(0).saturating_add(apart),
        cache_read_tokens: Some(cached).filter(|tokens| *tokens > 0),
        cache_write_tokens: None,
        reasoning_tokens: thoughts,
        extra: Extra::default(),
    })
}

/// The contents of a document: a bare list, or a request with its system instruction and tools.
pub(super) fn read_document(assembly: &mut Assembly, value: Value) {
    let mut list = Vec::new();
    match value {
        Value::Array(items) => list = items,
        Value::Object(mut map) => {
            list = take_list(&mut map, "contents").unwrap_or_default();
            let system = take_map(&mut map, "systemInstruction").or_else(|| take_map(&mut map, "system_instruction"));
            if let Some(mut system) = system {
                let parts = read_parts(assembly, 0, system.shift_remove("parts"));
                let (texts, has_more) = system_texts(&parts.content);
                if has_more || !parts.results.is_empty() {
                    assembly.report.repair(Repair::MetadataDropped, 0);
                }
                assembly.system = Some(texts.join("\n\n"));
            }
            assembly.tools = read_tools(take_list(&mut map, "tools").unwrap_or_default());
            let model = take_text(&mut map, "model");
            assembly.note_model(Some("google"), model.as_deref());
        }
        _ => {}
    }
    assembly.report.records += list.len() as u64;
    for (index, content) in list.into_iter().enumerate() {
        read_content(assembly, index as u64 + 1, None, content);
    }
}

pub(super) const CALLS: CallRules = CallRules { longest: 256, plain: false, unique: false, answer_all: true };

/// Writes the conversation as `{"systemInstruction", "contents": […]}`, with its tools where it has some.
pub(super) fn write(session: &Session, exporter: &mut Exporter<'_>) -> Value {
    let outline = Outline::new(session, CALLS, &mut exporter.report);
    let mut value = Map::new();
    if let Some(system) = outline.system {
        value.insert("systemInstruction".into(), json!({ "parts": [{ "text": system }] }));
    }
    value.insert("contents".into(), Value::Array(write_contents(&outline.parts, exporter)));
    if let Some(tools) = write_tools(outline.tools, ToolSpelling::Gemini) {
        value.insert("tools".into(), tools);
    }
    Value::Object(value)
}

pub(super) fn write_contents(parts: &[Part<'_>], exporter: &mut Exporter<'_>) -> Vec<Value> {
    let report = &mut exporter.report;
    let mut contents: Vec<(Seq, &'static str, Vec<Value>)> = Vec::new();
    for part in parts {
        let written = write_parts(part, exporter.options, report);
        if written.is_empty() {
            continue;
        }
        contents.push((part.seq, if part.is_answer { "model" } else { "user" }, written));
        if !part.calls.is_empty() {
            let mut responses = Vec::with_capacity(part.calls.len());
            for call in part.results() {
                let own_id = call.call.extra.get(MADE_ID).is_none();
                // The change of the name is reported with the call.
                let name = function_name(&call.call.name, part.seq, &mut ExportReport::new(report.target));
                responses.push(write_response(&name, own_id.then_some(&*call.id), call.result, call.seq, report));
            }
            if !responses.is_empty() {
                contents.push((part.seq, RESPONSES, responses));
            }
        }
    }
    if contents.first().is_none_or(|(_, role, _)| *role != "user") {
        report.note(Change::UserTurnAdded, 0);
        contents.insert(0, (0, "user", vec![json!({ "text": USER_TURN })]));
    }
    // Responses stand in a turn of their own, right behind the calls.
    merge_neighbours(contents, |role| role != RESPONSES, report)
        .into_iter()
        .map(|(_, role, parts)| {
            let role = if role == RESPONSES { "user" } else { role };
            Value::Object(object([("role", role.into()), ("parts", Value::Array(parts))]))
        })
        .collect()
}

/// Marks a turn of the user's role that holds responses of functions alone.
const RESPONSES: &str = "function responses";

fn write_parts(part: &Part<'_>, options: &WriteOptions, report: &mut ExportReport) -> Vec<Value> {
    let seq = part.seq;
    let mut written = Vec::new();
    let mut calls = part.calls.iter();
    for block in &part.message.content {
        if let Block::ToolCall(call) = block {
            let Some(answered) = calls.next() else { continue };
            let mut inner = Map::new();
            if call.extra.get(MADE_ID).is_none() {
                inner.insert("id".into(), answered.id.as_str().into());
            }
            inner.insert("name".into(), function_name(&call.name, seq, report).into());
            inner.insert("args".into(), Value::Object(arguments_object(call, options, seq, report)));
            restore_inner(&mut inner, &call.extra, "functionCall");
            let mut map = Map::from_iter([("functionCall".to_owned(), Value::Object(inner))]);
            restore_fields(&mut map, &call.extra, seq, report);
            written.push(Value::Object(map));
            continue;
        }
        if let Block::Text(text) | Block::Reasoning(text) = block
            && text.text.is_empty()
            && is_signed(text)
        {
            // A signature comes last, in a part of its own without text.
            written.push(write_text(text, seq, report));
            continue;
        }
        let is_checkpoint = part.message.source.is_checkpoint();
        for content in contents(std::slice::from_ref(block), API, seq, is_checkpoint, report) {
            match content {
                Content::Text(text) => written.push(write_text(text, seq, report)),
                Content::Reasoning(text) if fields_for(&text.extra, API).is_some() && !text.text.is_empty() => {
                    written.push(write_text(text, seq, report));
                }
                Content::Reasoning(_) => report.note(Change::ReasoningDropped, seq),
                Content::Media(media) => {
                    let part = write_media(media, seq, report);
                    written.push(part.unwrap_or_else(|marker| json!({ "text": marker })));
                }
                Content::Own(item) if takes_part(item) => written.push(item.clone()),
                Content::Own(_) => report.note(Change::OpaqueDropped, seq),
            }
        }
    }
    written
}

fn is_signed(text: &TextBlock) -> bool {
    let signature = fields_for(&text.extra, API).and_then(|own| own.get("thoughtSignature")).and_then(Value::as_str);
    signature.is_some_and(|signature| !signature.is_empty())
}

fn write_text(text: &TextBlock, seq: Seq, report: &mut ExportReport) -> Value {
    let mut map = Map::from_iter([("text".to_owned(), text.text.as_str().into())]);
    restore_fields(&mut map, &text.extra, seq, report);
    Value::Object(map)
}

/// Adds the fields that stood beside the data of a part, but no second data.
fn restore_fields(part: &mut Map<String, Value>, extra: &Extra, seq: Seq, report: &mut ExportReport) {
    let is_inner = |key: &str| part.get(key).is_some_and(Value::is_object);
    let taken: Vec<&str> = fields_for(extra, API)
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .filter(|key| is_data_field(key) && !is_inner(key))
        .collect();
    if !taken.is_empty() {
        report.note(Change::FieldsDropped, seq);
    }
    restore_but(part, extra, API, is_data_field);
}

/// Adds the fields of a call or a response that are not known here.
fn restore_inner(inner: &mut Map<String, Value>, extra: &Extra, data: &str) {
    let own = fields_for(extra, API).and_then(|own| own.get(data)).and_then(Value::as_object);
    for (key, value) in own.into_iter().flatten() {
        if !inner.contains_key(key) && !matches!(key.as_str(), "id" | "args" | "parts") {
            inner.insert(key.clone(), value.clone());
        }
    }
}

/// The name of a function as the API takes it, which allows more than others do.
fn function_name<'n>(name: &'n str, seq: Seq, report: &mut ExportReport) -> Cow<'n, str> {
    if takes_name(name) {
        return Cow::Borrowed(name);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let mut changed: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if !changed.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        changed.insert(0, '_');
    }
    changed.truncate(LONGEST_NAME);
    report.note(Change::NameChanged, seq);
    Cow::Owned(if name.is_empty() { "tool".to_owned() } else { changed })
}

fn restore_media(map: &mut Map<String, Value>, media: &MediaBlock) {
    for (key, value) in media_fields(media, API).into_iter().flatten() {
        map.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// Media as a part, or the marker that stands for it.
fn write_media(media: &MediaBlock, seq: Seq, report: &mut ExportReport) -> Result<Value, String> {
    let takes = |reference: &MediaRef<'_>| match reference {
        MediaRef::Data { .. } => true,
        MediaRef::Url { media_type, .. } => media_type.is_some(),
    };
    Ok(match media_or_marker(media, takes, seq, report)? {
        MediaRef::Data { media_type, data } => {
            let mut inline =
                Map::from_iter([("mimeType".to_owned(), media_type.into()), ("data".to_owned(), data.into())]);
            restore_media(&mut inline, media);
            Value::Object(object([("inlineData", Value::Object(inline))]))
        }
        MediaRef::Url { url, media_type } => {
            let mut file = Map::from_iter([
                ("mimeType".to_owned(), media_type.unwrap_or_default().into()),
                ("fileUri".to_owned(), url.into()),
            ]);
            restore_media(&mut file, media);
            json!({ "fileData": file })
        }
    })
}

fn write_response(
    name: &str,
    id: Option<&str>,
    result: Option<&ToolResult>,
    seq: Seq,
    report: &mut ExportReport,
) -> Value {
    let mut inner = Map::new();
    if let Some(id) = id {
        inner.insert("id".into(), id.into());
    }
    inner.insert("name".into(), name.into());
    let Some(result) = result else {
        inner.insert("response".into(), json!({ "error": NO_RESULT }));
        return json!({ "functionResponse": inner });
    };
    let mut texts: Vec<Cow<'_, str>> = Vec::new();
    let mut whole = None;
    let mut media = Vec::new();
    for content in contents(&result.content, API, seq, false, report) {
        match content {
            Content::Text(text) => {
                let is_whole = fields_for(&text.extra, API).is_some_and(|own| own.contains_key(WHOLE_RESPONSE));
                if is_whole && whole.is_none() {
                    whole = serde_json::from_str::<Map<String, Value>>(&text.text).ok();
                    if whole.is_some() {
                        continue;
                    }
                }
                texts.push(Cow::Borrowed(&text.text));
            }
            Content::Media(block) => match write_media(block, seq, report) {
                Ok(part) => media.push(part),
                Err(marker) => texts.push(Cow::Owned(marker)),
            },
            Content::Own(item) if takes_part(item) => media.push(item.clone()),
            Content::Own(_) => report.note(Change::OpaqueDropped, seq),
            Content::Reasoning(_) => report.note(Change::ReasoningDropped, seq),
        }
    }
    if texts.len() > 1 {
        report.note(Change::TextsJoined, seq);
    }
    let text = texts.join("\n");
    let response = match whole {
        Some(mut map) => {
            if !text.is_empty() {
                // What the response says of itself stands; a text that was put beside it takes the next free name.
                let key = if map.contains_key("output") { "text" } else { "output" };
                map.entry(key).or_insert_with(|| text.into());
            }
            map
        }
        None => {
            let key = if result.is_error == Some(true) { "error" } else { "output" };
            Map::from_iter([(key.to_owned(), text.into())])
        }
    };
    inner.insert("response".into(), Value::Object(response));
    restore_inner(&mut inner, &result.extra, "functionResponse");
    if !media.is_empty() {
        inner.insert("parts".into(), Value::Array(media));
    }
    let mut map = Map::from_iter([("functionResponse".to_owned(), Value::Object(inner))]);
    restore_fields(&mut map, &result.extra, seq, report);
    Value::Object(map)
}
