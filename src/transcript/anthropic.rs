//! Anthropic's Messages, which Claude Code keeps in its session files, too.

use serde_json::{Map, Value, json};

use super::assembly::{Assembly, Item, opaque, opaque_item, result_message};
use super::limits::keep_limits;
use super::outline::{
    CallRules, Content, Exporter, NO_CONTENT, NO_RESULT, Outline, Part, USER_TURN, arguments_object, contents,
    media_or_marker, merge_neighbours, usable_name,
};
use super::parts::{
    MediaRef, ToolSpelling, extra_of, fields_for, media_fields, media_of_data, media_of_url, object, read_tools,
    reasoning_block, restore_fields, system_texts, take_list, take_map, take_text, text_block, write_tools,
};
use super::provenance::user_items;
use super::report::{Change, ExportReport, Repair};
use super::validate::anthropic::{MOST_REQUEST_BYTES, takes_block, takes_in_result};
use super::{Rule, Target, TranscriptError, WriteOptions};
use crate::message::json::json_bytes;
use crate::message::{Block, Extra, MediaBlock, MediaKind, Message, Role, TextBlock, ToolCall, ToolResult, Usage};
use crate::session::{Seq, Session};

pub(super) const API: &str = "anthropic";

/// Media types that the API takes as pictures.
const PICTURES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// Longest base64 text of a picture.
const LONGEST_PICTURE: usize = 5 * 1024 * 1024;

/// Reads one message.
pub(super) fn read_message(assembly: &mut Assembly, place: u64, time: Option<i64>, value: Value) {
    let Value::Object(mut map) = value else {
        assembly.report.unreadable(place, "a message must be an object with a role");
        return;
    };
    let role = take_text(&mut map, "role").unwrap_or_default();
    let content = map.shift_remove("content");
    match role.as_str() {
        "user" => {
            let (results, rest) = read_user_content(content);
            for result in results {
                assembly.push(Item::new(place, result).at(time));
            }
            let extra = extra_of(API, map);
            let mut items = user_items(place, time, None, rest);
            if let [item] = items.as_mut_slice() {
                item.message.extra = extra;
            }
            assembly.live.extend(items);
        }
        "assistant" => {
            let content = read_blocks(content);
            let usage = take_map(&mut map, "usage").and_then(|usage| read_usage(&usage));
            let model = take_text(&mut map, "model");
            assembly.note_model(Some("anthropic"), model.as_deref());
            if content.is_empty() {
                assembly.report.skip("assistant without content", place);
                return;
            }
            let mut message = Message::new("", Role::Assistant, assembly.model_source(), content);
            message.extra = extra_of(API, map);
            let mut item = Item::new(place, message).at(time);
            item.usage = usage;
            assembly.push(item);
        }
        other => {
            assembly.report.unreadable(place, format_args!("role {other:?} is none of Anthropic's Messages"));
            return;
        }
    }
    assembly.report.map(&role, place);
}

/// Usage of one call: the four parts are disjoint.
pub(super) fn read_usage(usage: &Map<String, Value>) -> Option<Usage> {
    let number = |key: &str| usage.get(key).and_then(Value::as_u64);
    Some(Usage {
        input_tokens: number("input_tokens")?,
        output_tokens: number("output_tokens").unwrap_or(0),
        cache_read_tokens: number("cache_read_input_tokens").filter(|tokens| *tokens > 0),
        cache_write_tokens: number("cache_creation_input_tokens").filter(|tokens| *tokens > 0),
        reasoning_tokens: None,
        extra: Extra::default(),
    })
}

/// The tool results of a user's message, each as a message of its own, and what is left.
pub(super) fn read_user_content(content: Option<Value>) -> (Vec<Message>, Vec<Block>) {
    let (mut results, mut rest) = (Vec::new(), Vec::new());
    for block in read_blocks(content) {
        match block {
            Block::ToolResult(result) => {
                let ToolResult { tool_call_id, content, is_error, extra } = result;
                results.push(result_message(&tool_call_id, content, is_error, extra));
            }
            other => rest.push(other),
        }
    }
    (results, rest)
}

/// Content as blocks; a string is one text.
pub(super) fn read_blocks(content: Option<Value>) -> Vec<Block> {
    match content {
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(Value::String(text)) => vec![Block::text(text)],
        Some(Value::Array(blocks)) => blocks.into_iter().map(read_block).collect(),
        Some(block @ Value::Object(_)) => vec![read_block(block)],
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![opaque(API, other)],
    }
}

fn read_block(value: Value) -> Block {
    let Value::Object(mut map) = value else {
        return match value {
            Value::String(text) => Block::text(text),
            other => opaque(API, other),
        };
    };
    let kind = map.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        "text" => {
            if let Some(text) = take_text(&mut map, "text") {
                map.shift_remove("type");
                return text_block(text, API, map);
            }
        }
        "thinking" => {
            if let Some(text) = take_text(&mut map, "thinking") {
                map.shift_remove("type");
                return reasoning_block(text, API, map);
            }
        }
        "tool_use" => {
            let id = take_text(&mut map, "id").unwrap_or_default();
            let name = take_text(&mut map, "name").unwrap_or_default();
            let arguments = match map.shift_remove("input") {
                Some(Value::String(text)) => text,
                Some(Value::Null) | None => "{}".into(),
                Some(input) => input.to_string(),
            };
            map.shift_remove("type");
            return Block::ToolCall(ToolCall { id, name, arguments, extra: extra_of(API, map) });
        }
        "tool_result" => {
            let id = take_text(&mut map, "tool_use_id").unwrap_or_default();
            let mut content = read_blocks(map.shift_remove("content"));
            if let [Block::Text(text)] = content.as_slice()
                && text.text == NO_CONTENT
            {
                // The mark that stands where nothing does.
                content.clear();
            }
            let is_error = map.get("is_error").and_then(Value::as_bool);
            map.shift_remove("is_error");
            map.shift_remove("type");
            return Block::ToolResult(ToolResult { tool_call_id: id, content, is_error, extra: extra_of(API, map) });
        }
        "image" | "document" => {
            if let Some(mut source) = take_map(&mut map, "source") {
                if let Some(media) = read_media(&kind, &mut source, &mut map) {
                    return media;
                }
                map.insert("source".into(), Value::Object(source));
            }
        }
        _ => {}
    }
    opaque(API, Value::Object(map))
}

fn read_media(kind: &str, source: &mut Map<String, Value>, map: &mut Map<String, Value>) -> Option<Block> {
    let fallback = if kind == "image" { MediaKind::Image } else { MediaKind::Document };
    match source.get("type").and_then(Value::as_str)? {
        "base64" => {
            let media_type = take_text(source, "media_type")?;
            let data = take_text(source, "data")?;
            map.shift_remove("type");
            Some(media_of_data(Some(media_type), data, &extra_of(API, std::mem::take(map))))
        }
        "url" => {
            let url = take_text(source, "url")?;
            map.shift_remove("type");
            Some(media_of_url(url, None, fallback, &extra_of(API, std::mem::take(map))))
        }
        _ => None,
    }
}

/// The messages of a document: a bare list, or a request with its system prompt and tools.
pub(super) fn read_document(assembly: &mut Assembly, value: Value) {
    let mut messages = Vec::new();
    match value {
        Value::Array(items) => messages = items,
        Value::Object(mut map) => {
            messages = take_list(&mut map, "messages").unwrap_or_default();
            assembly.system = match map.shift_remove("system") {
                Some(Value::String(text)) => Some(text),
                Some(blocks @ Value::Array(_)) => {
                    let blocks = read_blocks(Some(blocks));
                    let (texts, has_more) = system_texts(&blocks);
                    if has_more {
                        assembly.report.repair(Repair::MetadataDropped, 0);
                    }
                    Some(texts.join("\n\n"))
                }
                _ => None,
            };
            assembly.tools = read_tools(take_list(&mut map, "tools").unwrap_or_default());
            let model = take_text(&mut map, "model");
            assembly.note_model(Some("anthropic"), model.as_deref());
        }
        _ => {}
    }
    assembly.report.records += messages.len() as u64;
    for (index, message) in messages.into_iter().enumerate() {
        read_message(assembly, index as u64 + 1, None, message);
    }
}

const CALLS: CallRules = CallRules { longest: 128, plain: true, unique: true, answer_all: true };

/// Writes the conversation as `{"system", "messages": […]}`, with its tools where it has some.
pub(super) fn write(session: &Session, exporter: &mut Exporter<'_>) -> Result<Value, TranscriptError> {
    let outline = Outline::new(session, CALLS, &mut exporter.report);
    let mut value = Map::new();
    if let Some(system) = outline.system {
        value.insert("system".into(), system.into());
    }
    let messages = write_messages(&outline, exporter);
    value.insert("messages".into(), Value::Array(messages));
    if let Some(tools) = write_tools(outline.tools, ToolSpelling::Anthropic) {
        value.insert("tools".into(), tools);
    }
    let value = Value::Object(value);
    let bytes = json_bytes(&value);
    if bytes > MOST_REQUEST_BYTES && exporter.options.profile.holds(Rule::AnthropicRequestSize) {
        // Pictures and documents have gone already, and no text is dropped in silence.
        let why = format!(
            "without its pictures and documents it has {bytes} bytes, and a request has at most {MOST_REQUEST_BYTES}; \
             fold it or shorten its texts first"
        );
        return Err(TranscriptError::Inexpressible { target: Target::Anthropic, why });
    }
    Ok(value)
}

fn write_messages(outline: &Outline<'_>, exporter: &mut Exporter<'_>) -> Vec<Value> {
    let thinking = thinking_that_holds(&outline.parts);
    let mut messages: Vec<(Seq, &'static str, Vec<Value>)> = Vec::new();
    let mut follows_results = false;
    for (part, keeps_thinking) in outline.parts.iter().zip(thinking) {
        let content = write_content(part, keeps_thinking, exporter.options, &mut exporter.report);
        if !part.is_answer {
            match messages.last_mut() {
                // What is said beside results stands in their message, and reads as a message of its own again.
                Some((_, "user", results)) if follows_results => results.extend(content),
                _ if content.is_empty() => continue,
                _ => messages.push((part.seq, "user", content)),
            }
            follows_results = false;
            continue;
        }
        if content.is_empty() {
            continue;
        }
        messages.push((part.seq, "assistant", content));
        follows_results = false;
        if !part.calls.is_empty() {
            let results =
                part.results().map(|call| write_result(&call.id, call.result, call.seq, &mut exporter.report));
            messages.push((part.seq, "user", results.collect()));
            follows_results = true;
        }
    }
    if messages.first().is_none_or(|(_, role, _)| *role != "user") {
        exporter.report.note(Change::UserTurnAdded, 0);
        messages.insert(0, (0, "user", vec![json!({ "type": "text", "text": USER_TURN })]));
    }
    let mut messages = merge_neighbours(messages, |_| true, &mut exporter.report);
    let fixed = outline.system.map_or(0, str::len) + outline.tools.iter().map(json_bytes).sum::<usize>();
    keep_limits(&mut messages, fixed, &mut exporter.report);
    if let Some((seq, "assistant", content)) = messages.last_mut() {
        cut_blank_end(content, *seq, &mut exporter.report);
    }
    messages
        .into_iter()
        .filter(|(_, _, content)| !content.is_empty())
        .map(|(_, role, content)| Value::Object(object([("role", role.into()), ("content", as_content(content))])))
        .collect()
}

/// One plain text stands as a string, as most hosts write it.
pub(super) fn as_content(content: Vec<Value>) -> Value {
    match content.as_slice() {
        [Value::Object(block)] if block.len() == 2 && block.get("type").is_some_and(|kind| kind == "text") => {
            block.get("text").cloned().unwrap_or_default()
        }
        _ => Value::Array(content),
    }
}

fn cut_blank_end(content: &mut [Value], seq: Seq, report: &mut ExportReport) {
    if let Some(Value::Object(block)) = content.last_mut()
        && let Some(Value::String(text)) = block.get_mut("text")
        && text.ends_with(char::is_whitespace)
    {
        report.note(Change::BlankEndCut, seq);
        text.truncate(text.trim_end().len());
    }
}

/// For each message, whether its thinking can be sent: all of a turn's or none.
///
/// A turn reaches to the next message of the user's side that brings no results. Its thinking can be sent where every block is signed
/// and where a message that uses tools and thinks starts with thinking, the turn's first message above all.
fn thinking_that_holds(parts: &[Part<'_>]) -> Vec<bool> {
    let mut keeps = vec![false; parts.len()];
    let mut turn = Turn::default();
    let mut start = 0;
    let mut brings_results = false;
    for (at, part) in parts.iter().enumerate() {
        if !is_written(part) {
            continue;
        }
        if part.is_answer {
            turn.answer(part, brings_results);
            brings_results = !part.calls.is_empty();
            continue;
        }
        // What stands beside results does not end the turn.
        if !brings_results && turn.has_messages {
            let whole = std::mem::take(&mut turn).end();
            keeps.iter_mut().take(at).skip(start).for_each(|slot| *slot = whole);
            start = at;
        }
    }
    let whole = turn.end();
    keeps.iter_mut().skip(start).for_each(|slot| *slot = whole);
    keeps
}

/// Whether anything of a message is written. Thinking alone is not: nothing follows it.
fn is_written(part: &Part<'_>) -> bool {
    part.message.content.iter().any(|block| is_taken(block, part.is_answer) && !is_thinking(block))
}

/// Whether the API takes a block, where its thinking is sent.
fn is_taken(block: &Block, is_answer: bool) -> bool {
    match block {
        Block::Text(text) => !text.text.trim().is_empty(),
        Block::Media(_) => true,
        Block::ToolCall(_) | Block::Reasoning(_) => is_answer,
        Block::ToolResult(_) => false,
        Block::Opaque(block) => opaque_item(block, API).is_some_and(|item| takes_block(is_answer, item)),
    }
}

/// The thinking of a turn while it is being looked at.
#[derive(Default)]
struct Turn {
    has_messages: bool,
    unsigned: bool,
    uses_tools: bool,
    thinks: bool,
    first_starts_with_thinking: bool,
    /// A later message that uses tools and thinks, but not first.
    thinks_late: bool,
    message: TurnMessage,
}

/// Neighbouring answers, which are one message.
#[derive(Default)]
struct TurnMessage {
    is_first: bool,
    begun: bool,
    starts_with_thinking: bool,
    thinks: bool,
    uses_tools: bool,
}

impl Turn {
    fn answer(&mut self, part: &Part<'_>, begins_message: bool) {
        if begins_message || !self.has_messages {
            self.end_message();
            self.message.is_first = !self.has_messages;
            self.has_messages = true;
        }
        for block in part.message.content.iter().filter(|block| is_taken(block, true)) {
            let thinks = is_thinking(block);
            self.unsigned |= matches!(block, Block::Reasoning(text) if !is_signed(text));
            let message = &mut self.message;
            if !message.begun {
                message.begun = true;
                message.starts_with_thinking = thinks;
            }
            message.thinks |= thinks;
            message.uses_tools |= matches!(block, Block::ToolCall(_));
        }
    }

    fn end_message(&mut self) {
        let message = std::mem::take(&mut self.message);
        self.uses_tools |= message.uses_tools;
        self.thinks |= message.thinks;
        if message.is_first {
            self.first_starts_with_thinking = message.starts_with_thinking;
        } else {
            self.thinks_late |= message.thinks && message.uses_tools && !message.starts_with_thinking;
        }
    }

    /// Ends the turn; whether its thinking can be sent.
    fn end(mut self) -> bool {
        self.end_message();
        let starts_with_it = self.first_starts_with_thinking || !self.uses_tools || !self.thinks;
        !self.unsigned && !self.thinks_late && starts_with_it
    }
}

fn is_signed(text: &TextBlock) -> bool {
    let signature = fields_for(&text.extra, API).and_then(|own| own.get("signature")).and_then(Value::as_str);
    signature.is_some_and(|signature| !signature.is_empty())
}

fn is_redacted(block: &Block) -> bool {
    matches!(block, Block::Opaque(block) if block.kind() == Some("redacted_thinking"))
}

fn is_thinking(block: &Block) -> bool {
    matches!(block, Block::Reasoning(_)) || is_redacted(block)
}

pub(super) fn write_content(
    part: &Part<'_>,
    keeps_thinking: bool,
    options: &WriteOptions,
    report: &mut ExportReport,
) -> Vec<Value> {
    let seq = part.seq;
    let mut written: Vec<Value> = Vec::new();
    let mut calls = part.calls.iter();
    for block in &part.message.content {
        if let Block::ToolCall(call) = block {
            let Some(answered) = calls.next() else { continue };
            let mut map = Map::from_iter([
                ("type".to_owned(), "tool_use".into()),
                ("id".to_owned(), answered.id.as_str().into()),
                ("name".to_owned(), usable_name(&call.name, 128, seq, report).into()),
                ("input".to_owned(), Value::Object(arguments_object(call, options, seq, report))),
            ]);
            restore_fields(&mut map, &call.extra, API);
            written.push(Value::Object(map));
            continue;
        }
        let is_checkpoint = part.message.source.is_checkpoint();
        for content in contents(std::slice::from_ref(block), API, seq, is_checkpoint, report) {
            match content {
                Content::Text(text) if text.text.trim().is_empty() => report.note(Change::EmptyTextDropped, seq),
                Content::Text(text) => written.push(write_text(text)),
                Content::Reasoning(text) if keeps_thinking && part.is_answer => {
                    let mut map = Map::from_iter([
                        ("type".to_owned(), "thinking".into()),
                        ("thinking".to_owned(), text.text.as_str().into()),
                    ]);
                    restore_fields(&mut map, &text.extra, API);
                    written.push(Value::Object(map));
                }
                Content::Reasoning(_) => report.note(Change::ReasoningDropped, seq),
                Content::Media(media) if part.is_answer => {
                    report.note(Change::MediaReplaced, seq);
                    written.push(json!({ "type": "text", "text": super::parts::media_marker(media) }));
                }
                Content::Media(media) => written.push(write_media(media, seq, report)),
                Content::Own(_) if is_redacted(block) && !keeps_thinking => report.note(Change::ReasoningDropped, seq),
                Content::Own(item) if takes_block(part.is_answer, item) => written.push(item.clone()),
                Content::Own(_) => report.note(Change::OpaqueDropped, seq),
            }
        }
    }
    // Thinking that nothing follows is refused.
    while written.last().is_some_and(|block| {
        matches!(block.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
    }) {
        report.note(Change::ReasoningDropped, seq);
        written.pop();
    }
    written
}

fn write_text(text: &TextBlock) -> Value {
    let mut map = Map::from_iter([("type".to_owned(), "text".into()), ("text".to_owned(), text.text.as_str().into())]);
    restore_fields(&mut map, &text.extra, API);
    Value::Object(map)
}

fn write_media(media: &MediaBlock, seq: Seq, report: &mut ExportReport) -> Value {
    let takes = |reference: &MediaRef<'_>| match (media.kind, reference) {
        (MediaKind::Image, MediaRef::Data { media_type, data }) => {
            PICTURES.contains(media_type) && data.len() <= LONGEST_PICTURE
        }
        (MediaKind::Document, MediaRef::Data { media_type, .. }) => *media_type == "application/pdf",
        (MediaKind::Image | MediaKind::Document, MediaRef::Url { .. }) => true,
        _ => false,
    };
    let source = match media_or_marker(media, takes, seq, report) {
        Ok(MediaRef::Data { media_type, data }) => {
            json!({ "type": "base64", "media_type": media_type, "data": data })
        }
        Ok(MediaRef::Url { url, .. }) => json!({ "type": "url", "url": url }),
        Err(marker) => return json!({ "type": "text", "text": marker }),
    };
    let kind = if media.kind == MediaKind::Image { "image" } else { "document" };
    let mut map = Map::from_iter([("type".to_owned(), kind.into()), ("source".to_owned(), source)]);
    for (key, value) in media_fields(media, API).into_iter().flatten() {
        if !map.contains_key(key) {
            map.insert(key.clone(), value.clone());
        }
    }
    Value::Object(map)
}

pub(super) fn write_result(id: &str, result: Option<&ToolResult>, seq: Seq, report: &mut ExportReport) -> Value {
    let mut map = Map::from_iter([("type".to_owned(), "tool_result".into()), ("tool_use_id".to_owned(), id.into())]);
    let Some(result) = result else {
        map.insert("content".into(), NO_RESULT.into());
        map.insert("is_error".into(), true.into());
        return Value::Object(map);
    };
    let mut content = Vec::new();
    for block in contents(&result.content, API, seq, false, report) {
        match block {
            Content::Text(text) if text.text.trim().is_empty() => report.note(Change::EmptyTextDropped, seq),
            Content::Text(text) => content.push(write_text(text)),
            Content::Media(media) => content.push(write_media(media, seq, report)),
            Content::Own(item) if takes_in_result(item) => content.push(item.clone()),
            Content::Own(_) => report.note(Change::OpaqueDropped, seq),
            Content::Reasoning(_) => report.note(Change::ReasoningDropped, seq),
        }
    }
    if content.is_empty() {
        // The API takes a result without content; servers that speak its language have refused it.
        report.note(Change::EmptyContentMarked, seq);
        map.insert("content".into(), NO_CONTENT.into());
    } else {
        map.insert("content".into(), as_content(content));
    }
    if let Some(is_error) = result.is_error {
        map.insert("is_error".into(), is_error.into());
    }
    restore_fields(&mut map, &result.extra, API);
    Value::Object(map)
}
