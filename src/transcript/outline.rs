//! A session as every exporter takes it: messages in order, each answer with its calls and their results.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::arrange::{Paired, arrange};
use super::parts::{MediaRef, media_ref};
use super::report::{Change, ExportReport};
use super::{Target, WriteOptions};
use crate::message::{Block, Extra, MediaBlock, Message, OpaqueBlock, Source, TextBlock, ToolCall, ToolResult};
use crate::session::{Seq, Session};

/// What a result says of a call that has none.
pub(super) const NO_RESULT: &str = "[no result of this call was recorded]";
/// What stands in the place of content that is empty.
pub(super) const NO_CONTENT: &str = "[no content]";
/// What a conversation begins with where a target wants the user to speak first.
pub(super) const USER_TURN: &str = "[the beginning of this conversation is not part of it any more]";

struct Entry<'a> {
    seq: Seq,
    message: &'a Message,
}

impl Paired for Entry<'_> {
    fn calls(&self) -> impl Iterator<Item = &str> {
        // A call in a message of the user's is none: only the model can make one.
        self.message.tool_calls().filter(|_| self.is_answer_of_model()).map(|call| call.id.as_str())
    }

    fn answers(&self) -> Option<&str> {
        match self.message.source {
            Source::Tool { .. } => self.message.result().map(|result| result.tool_call_id.as_str()),
            _ => None,
        }
    }

    fn is_answer_of_model(&self) -> bool {
        matches!(self.message.source, Source::Model { .. })
    }
}

/// A call with the id under which it is written, and its result.
#[derive(Debug)]
pub(super) struct Answered<'a> {
    pub(super) call: &'a ToolCall,
    pub(super) id: String,
    pub(super) seq: Seq,
    pub(super) result: Option<&'a ToolResult>,
}

/// A message of the conversation.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) seq: Seq,
    pub(super) message: &'a Message,
    pub(super) is_answer: bool,
    /// One for each call, in the order of the calls.
    pub(super) calls: Vec<Answered<'a>>,
    /// In which order the results follow.
    order: Vec<usize>,
}

impl<'a> Part<'a> {
    /// The calls in the order in which their results follow.
    pub(super) fn results(&self) -> impl Iterator<Item = &Answered<'a>> {
        self.order.iter().filter_map(|slot| self.calls.get(*slot))
    }
}

/// Which calls a target takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallRules {
    /// Longest id, in characters.
    pub(super) longest: usize,
    /// Whether only letters, digits, `_` and `-` may stand in it.
    pub(super) plain: bool,
    /// Whether it must be unique in the conversation, or in its message only.
    pub(super) unique: bool,
    /// Whether a call without a result gets one: an API refuses it, a tool's file may hold it.
    pub(super) answer_all: bool,
}

/// The conversation on a session's surface.
pub(super) struct Outline<'a> {
    pub(super) system: Option<&'a str>,
    pub(super) system_role: Option<&'a str>,
    pub(super) tools: &'a [Value],
    pub(super) parts: Vec<Part<'a>>,
}

impl<'a> Outline<'a> {
    pub(super) fn new(session: &'a Session, rules: CallRules, report: &mut ExportReport) -> Self {
        let entries: Vec<Entry<'a>> = session
            .nodes()
            .iter()
            .filter(|node| !node.message.content.is_empty())
            .map(|node| Entry { seq: node.seq, message: &node.message })
            .collect();
        let arranged = arrange(&entries);
        for at in arranged.orphans.iter().chain(&arranged.repeated) {
            report.note(Change::ResultDropped, entries.get(*at).map_or(0, |entry| entry.seq));
        }
        for at in &arranged.moved {
            report.note(Change::ResultMoved, entries.get(*at).map_or(0, |entry| entry.seq));
        }
        let mut used = UsedIds::default();
        let mut parts = Vec::with_capacity(arranged.pieces.len());
        for piece in arranged.pieces {
            let Some(entry) = entries.get(piece.message) else { continue };
            if !rules.unique {
                used = UsedIds::default();
            }
            let mut calls = Vec::with_capacity(piece.results.len());
            for (call, result) in entry.message.tool_calls().zip(&piece.results) {
                let result = result.and_then(|at| entries.get(at));
                if result.is_none() && rules.answer_all {
                    report.note(Change::CallAnswered, entry.seq);
                }
                let id = usable_id(&call.id, rules, &mut used);
                if id != call.id {
                    report.note(Change::NameChanged, entry.seq);
                }
                let seq = result.map_or(entry.seq, |result| result.seq);
                calls.push(Answered { call, id, seq, result: result.and_then(|entry| entry.message.result()) });
            }
            let is_answer = entry.is_answer_of_model();
            if loses_system_fields(entry.message, report.target) {
                report.note(Change::FieldsDropped, entry.seq);
            }
            if entry.message.content.iter().any(|block| is_misplaced(block, is_answer)) {
                report.note(Change::CallDropped, entry.seq);
            }
            let mut order = piece.order;
            order.retain(|slot| rules.answer_all || piece.results.get(*slot).copied().flatten().is_some());
            parts.push(Part { seq: entry.seq, message: entry.message, is_answer, calls, order });
        }
        let header = session.request_header();
        Self {
            system: header.and_then(|header| header.system.as_deref()).filter(|system| !system.trim().is_empty()),
            system_role: header.and_then(|header| header.extra.get("systemRole")).and_then(Value::as_str),
            tools: header.and_then(|header| header.tools.as_deref()).unwrap_or_default(),
            parts,
        }
    }
}

/// Whether a message of the system's has a name, or marks of a cache, that only another API than the target's takes.
fn loses_system_fields(message: &Message, target: Target) -> bool {
    let api = match target {
        Target::CodexRollout => Target::Responses.name(),
        Target::ClaudeCode => Target::Anthropic.name(),
        Target::QwenCode => Target::Gemini.name(),
        other => other.name(),
    };
    let of_texts = message.content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(&text.extra),
        _ => None,
    });
    matches!(message.source.kind(), "system" | "developer")
        && of_texts
            .chain([&message.extra])
            .flat_map(Extra::iter)
            .any(|(of, fields)| of != api && ["name", "cache_control"].iter().any(|key| fields.get(key).is_some()))
}

/// A call that the model did not make, or a result within a message that is none. No target has a place for them.
fn is_misplaced(block: &Block, is_answer: bool) -> bool {
    match block {
        Block::ToolCall(_) => !is_answer,
        Block::ToolResult(_) => true,
        _ => false,
    }
}

/// Ids that are given, and the number to try next for one that is wanted again.
#[derive(Default)]
struct UsedIds {
    given: HashSet<String>,
    next: HashMap<String, u64>,
}

fn usable_id(id: &str, rules: CallRules, used: &mut UsedIds) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut base: String =
        id.chars().map(|c| if rules.plain && !plain(c) { '_' } else { c }).take(rules.longest).collect();
    if base.is_empty() {
        base.push_str("call");
    }
    if used.given.insert(base.clone()) {
        return base;
    }
    let mut number = used.next.get(&base).copied().unwrap_or(2);
    loop {
        let suffix = format!("_{number}");
        let kept = rules.longest.saturating_sub(suffix.len());
        let other: String = base.chars().take(kept).chain(suffix.chars()).collect();
        number += 1;
        if used.given.insert(other.clone()) {
            used.next.insert(base, number);
            return other;
        }
    }
}

/// A tool name that a target takes: letters, digits, `_` and `-`, up to a length.
pub(super) fn usable_name<'n>(name: &'n str, longest: usize, seq: Seq, report: &mut ExportReport) -> Cow<'n, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= longest && name.chars().all(plain) {
        return Cow::Borrowed(name);
    }
    report.note(Change::NameChanged, seq);
    let changed: String = name.chars().map(|c| if plain(c) { c } else { '_' }).take(longest).collect();
    if changed.is_empty() { Cow::Borrowed("tool") } else { Cow::Owned(changed) }
}

/// Arguments as the object that most targets want. Text that is no JSON object is wrapped in one.
pub(super) fn arguments_object(
    call: &ToolCall,
    options: &WriteOptions,
    seq: Seq,
    report: &mut ExportReport,
) -> Map<String, Value> {
    let arguments = arguments_text(call, options, seq, report);
    if arguments.trim().is_empty() {
        report.note(Change::ArgumentsWrapped, seq);
        return Map::new();
    }
    if let Ok(Value::Object(map)) = serde_json::from_str(&arguments) {
        return map;
    }
    report.note(Change::ArgumentsWrapped, seq);
    let input = serde_json::from_str(&arguments).unwrap_or_else(|_| Value::String(arguments.into_owned()));
    Map::from_iter([("input".to_owned(), input)])
}

/// Arguments with their long texts shortened, where the options say so: their beginning and end around a mark, so that the JSON stays
/// whole and the end of a command is there. What is no JSON is left alone.
pub(super) fn arguments_text<'a>(
    call: &'a ToolCall,
    options: &WriteOptions,
    seq: Seq,
    report: &mut ExportReport,
) -> Cow<'a, str> {
    let Some(longest) = options.longest_argument_chars else { return Cow::Borrowed(&call.arguments) };
    if call.arguments.len() <= longest {
        return Cow::Borrowed(&call.arguments);
    }
    let Ok(mut value) = serde_json::from_str::<Value>(&call.arguments) else { return Cow::Borrowed(&call.arguments) };
    if !shorten_texts(&mut value, longest) {
        return Cow::Borrowed(&call.arguments);
    }
    report.note(Change::ArgumentsShortened, seq);
    Cow::Owned(value.to_string())
}

/// Shortens every text within a value that is longer than a number of characters; whether there was one.
fn shorten_texts(value: &mut Value, longest: usize) -> bool {
    match value {
        Value::String(text) => match shortened(text, longest) {
            Some(short) => {
                *text = short;
                true
            }
            None => false,
        },
        Value::Array(items) => shorten_all(items.iter_mut(), longest),
        Value::Object(map) => shorten_all(map.values_mut(), longest),
        _ => false,
    }
}

fn shorten_all<'v>(values: impl Iterator<Item = &'v mut Value>, longest: usize) -> bool {
    // Every value is looked at, not only those up to the first that was too long.
    values.map(|value| shorten_texts(value, longest)).filter(|was_long| *was_long).count() > 0
}

/// Beginning and end of a text around a mark that says how much is left out; none where that would not be shorter.
fn shortened(text: &str, longest: usize) -> Option<String> {
    if text.len() <= longest {
        return None;
    }
    let chars = text.chars().count();
    let mark = |left_out: usize| format!("[… {left_out} characters left out …]");
    let room = longest.saturating_sub(mark(chars).chars().count());
    if chars <= longest {
        return None;
    }
    let (head, tail) = (room - room / 3, room / 3);
    let beginning: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(chars - tail).collect();
    let short = format!("{beginning}{}{end}", mark(chars - head - tail));
    (short.len() < text.len()).then_some(short)
}

/// A block as far as every target knows it; what a target does not take is left out and reported here.
pub(super) enum Content<'a> {
    Text(&'a TextBlock),
    Reasoning(&'a TextBlock),
    Media(&'a MediaBlock),
    /// An item that the target's own API wrote.
    Own(&'a Value),
}

/// The blocks of a message that are no calls and results, without empty texts and without what only another API can read.
pub(super) fn contents<'a>(
    blocks: &'a [Block],
    api: &'a str,
    seq: Seq,
    is_checkpoint: bool,
    report: &mut ExportReport,
) -> Vec<Content<'a>> {
    let mut contents = Vec::with_capacity(blocks.len());
    for block in blocks {
        match block {
            Block::Text(text) if text.text.is_empty() => report.note(Change::EmptyTextDropped, seq),
            Block::Text(text) => contents.push(Content::Text(text)),
            Block::Reasoning(reasoning) => contents.push(Content::Reasoning(reasoning)),
            Block::Media(media) => contents.push(Content::Media(media)),
            Block::ToolCall(_) | Block::ToolResult(_) => {}
            Block::Opaque(block) => match own_item(block, api) {
                Some(item) => contents.push(Content::Own(item)),
                None if is_checkpoint => report.note(Change::OpaqueCheckpointDropped, seq),
                None => report.note(Change::OpaqueDropped, seq),
            },
        }
    }
    contents
}

fn own_item<'a>(block: &'a OpaqueBlock, api: &str) -> Option<&'a Value> {
    super::assembly::opaque_item(block, api)
}

/// Data of a picture, for targets that take pictures by their data or address.
pub(super) fn media_or_marker<'a>(
    media: &'a MediaBlock,
    takes: impl Fn(&MediaRef<'a>) -> bool,
    seq: Seq,
    report: &mut ExportReport,
) -> Result<MediaRef<'a>, String> {
    match media_ref(media).filter(takes) {
        Some(media) => Ok(media),
        None => {
            report.note(Change::MediaReplaced, seq);
            Err(super::parts::media_marker(media))
        }
    }
}

/// The conversation with neighbours of one role merged, as roles and values of content.
///
/// Each target has its own roles; `merge` says whether it wants neighbours merged.
pub(super) fn merge_neighbours(
    messages: Vec<(Seq, &'static str, Vec<Value>)>,
    merges: impl Fn(&str) -> bool,
    report: &mut ExportReport,
) -> Vec<(Seq, &'static str, Vec<Value>)> {
    let mut merged: Vec<(Seq, &'static str, Vec<Value>)> = Vec::with_capacity(messages.len());
    for (seq, role, content) in messages {
        match merged.last_mut() {
            Some((_, last, into)) if *last == role && merges(role) => {
                report.note(Change::NeighboursMerged, seq);
                into.extend(content);
            }
            _ => merged.push((seq, role, content)),
        }
    }
    merged
}

/// What an exporter is given, and what it says of its work.
pub(super) struct Exporter<'a> {
    pub(super) options: &'a WriteOptions,
    pub(super) report: ExportReport,
}
