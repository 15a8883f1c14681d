//! The harness's session files as they are met: of versions 0 and 3, with payloads of older writers, with or without seqs, with
//! unknown events and with damage.
//!
//! A sound file of version 0 is loaded as it stands, log and all. Anything else is read here, as far as its surface.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};

use super::Lines;
use crate::message::{Block, Extra, Message, Role, Source, ToolResult, Usage};
use crate::transcript::assembly::{Assembly, Item, model_source};
use crate::transcript::parts::{take_list, take_map, take_text, time_ms};
use crate::transcript::report::Repair;

/// Reads the surface of a log.
#[derive(Default)]
pub(in crate::transcript) struct Log {
    /// The surface, by rank: a node that takes the place of a run takes the rank of the run's first.
    nodes: BTreeMap<u64, Node>,
    /// Ranks of the nodes by their seqs; where a seq comes twice, of the first.
    ranks: HashMap<u64, u64>,
    /// Nodes that were read.
    arrived: u64,
    /// How many of them had been read at the newest fold.
    arrived_at_fold: u64,
    events: u64,
    /// Calls that were recorded as started, by id: name and arguments.
    started: HashMap<String, (String, String)>,
}

struct Node {
    seq: u64,
    arrival: u64,
    item: Item,
    is_system: bool,
}

impl Lines for Log {
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error> {
        let mut map: Map<String, Value> = serde_json::from_str(text)?;
        let kind = take_text(&mut map, "type").unwrap_or_default();
        if kind == "session" {
            if assembly.header.id.is_empty() {
                assembly.header.id = take_text(&mut map, "id").unwrap_or_default();
                assembly.header.created_at = map.get("createdAt").and_then(time_ms).unwrap_or(0);
                assembly.header.cwd = take_text(&mut map, "cwd");
                assembly.header.agent_preset = take_text(&mut map, "agentPreset");
                assembly.header.parent_session = take_text(&mut map, "parentSession");
                assembly.header.origin = take_text(&mut map, "origin");
            }
            assembly.report.map("session", place);
            return Ok(());
        }
        // A packed row stands for as many events as it has pieces.
        let pieces =
            map.get("data").and_then(|data| data.get("dt")).and_then(Value::as_array).map(|dt| dt.len() as u64 + 1);
        let seq = map.get("seq").or_else(|| map.get("seq0")).and_then(Value::as_u64).unwrap_or(self.events);
        self.events = seq.saturating_add(pieces.unwrap_or(1));
        let time = map.get("time").and_then(time_ms);
        let op = map.shift_remove("surfaceOp");
        let data = take_map(&mut map, "data").unwrap_or_default();
        self.event(assembly, place, Event { kind, seq, time, op, data });
        Ok(())
    }

    fn end(&mut self, assembly: &mut Assembly) {
        let mut nodes: Vec<Node> = std::mem::take(&mut self.nodes).into_values().collect();
        // What was reported before a fold says nothing of what is left.
        for node in nodes.iter_mut().filter(|node| node.arrival < self.arrived_at_fold) {
            node.item.usage = None;
        }
        let called: HashSet<String> =
            nodes.iter().flat_map(|node| node.item.message.tool_calls()).map(|call| call.id.clone()).collect();
        let mut system = Vec::new();
        for node in nodes {
            if node.is_system {
                system.push(node.item.message.text());
                continue;
            }
            // A result whose call no answer holds: where the start of the call was recorded, that record is the call.
            let id = node.item.message.result().map(|result| result.tool_call_id.as_str());
            let started = id.filter(|id| !called.contains(*id)).and_then(|id| self.started.remove_entry(id));
            if let Some((id, (name, arguments))) = started {
                let content = vec![Block::tool_call(id, name, arguments)];
                let message = Message::new("", Role::Assistant, assembly.model_source(), content);
                assembly.live.push(Item::new(node.item.place, message).at(node.item.time));
            }
            assembly.live.push(node.item);
        }
        system.retain(|text| !text.trim().is_empty());
        if !system.is_empty() {
            assembly.system = Some(system.join("\n\n"));
        }
    }
}

struct Event {
    kind: String,
    seq: u64,
    time: Option<i64>,
    op: Option<Value>,
    data: Map<String, Value>,
}

impl Log {
    fn event(&mut self, assembly: &mut Assembly, place: u64, event: Event) {
        let Event { kind, seq, time, op, mut data } = event;
        let is_system = kind == "system/message";
        let item = match kind.as_str() {
            "user/message" | "steering/message" | "system/message" => {
                let message = take_map(&mut data, "message").unwrap_or_else(|| std::mem::take(&mut data));
                read_message(message, Role::User, None).map(|message| Item::new(place, message))
            }
            "assistant/message" => {
                let fallback = model_source(assembly.provider.as_deref(), assembly.model.as_deref());
                let source = take_map(&mut data, "provenance").map_or(fallback, |provenance| {
                    let text = |key: &str| provenance.get(key).and_then(Value::as_str);
                    model_source(text("provider"), text("model"))
                });
                let usage = take_map(&mut data, "usage").and_then(|usage| read_usage(&usage));
                let interrupted = data.get("interrupted") == Some(&Value::Bool(true));
                let message = take_map(&mut data, "message").unwrap_or_else(|| std::mem::take(&mut data));
                read_message(message, Role::Assistant, Some(source)).map(|mut message| {
                    if trim_replay_state(&mut message) {
                        assembly.report.repair(Repair::MetadataDropped, place);
                    }
                    Item { usage, interrupted, ..Item::new(place, message) }
                })
            }
            "tool/result" => read_result(data).map(|message| Item::new(place, message)),
            "tool/call" => {
                if let Some(id) = take_text(&mut data, "callId") {
                    let name = take_text(&mut data, "name").unwrap_or_default();
                    self.started.insert(id, (name, arguments_text(data.shift_remove("arguments"))));
                }
                assembly.report.skip(&kind, place);
                return;
            }
            "request/header" => {
                note_header(assembly, data);
                assembly.report.map(&kind, place);
                return;
            }
            "request/context" => {
                let window = data.get("contextWindow").and_then(Value::as_u64).filter(|window| *window > 0);
                assembly.window = window.or(assembly.window);
                assembly.report.map(&kind, place);
                return;
            }
            _ => {
                assembly.report.skip(&kind, place);
                return;
            }
        };
        let Some(item) = item else {
            assembly.report.unreadable(place, format_args!("{kind}: content must be a text or a list of blocks"));
            return;
        };
        assembly.report.map(&kind, place);
        self.place(assembly, Node { seq, arrival: 0, item: item.at(time), is_system }, op.as_ref());
    }

    /// Puts a node where its operation says: at the end, or in the place of a run of nodes.
    fn place(&mut self, assembly: &mut Assembly, mut node: Node, op: Option<&Value>) {
        let run = op.and_then(Value::as_object).and_then(|op| {
            let end = |names: [&str; 2]| names.iter().find_map(|name| op.get(*name)).and_then(Value::as_u64);
            let rank = |seq: u64| self.ranks.get(&seq).copied();
            Some((rank(end(["start", "startSeq"])?)?, rank(end(["end", "endSeq"])?)?))
        });
        let mut rank = self.arrived;
        if let Some((first, last)) = run.filter(|(first, last)| first <= last) {
            rank = first;
            let replaced: Vec<u64> = self.nodes.range(first..=last).map(|(rank, _)| *rank).collect();
            if node.item.message.source.is_checkpoint() {
                assembly.report.folds += 1;
                assembly.report.folded_messages += replaced.len() as u64;
                self.arrived_at_fold = self.arrived;
            }
            for rank in replaced {
                let seq = self.nodes.remove(&rank).map(|node| node.seq);
                if let Some(seq) = seq.filter(|seq| self.ranks.get(seq) == Some(&rank)) {
                    self.ranks.remove(&seq);
                }
            }
        }
        node.arrival = self.arrived;
        self.arrived += 1;
        self.ranks.entry(node.seq).or_insert(rank);
        self.nodes.insert(rank, node);
    }
}

fn arguments_text(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn note_header(assembly: &mut Assembly, mut data: Map<String, Value>) {
    let mut header = take_map(&mut data, "header").unwrap_or(data);
    let config = take_map(&mut header, "config").unwrap_or_default();
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    assembly.note_model(text("provider"), text("model"));
    if let Some(system) = take_text(&mut header, "system") {
        assembly.system = Some(system);
    }
    if let Some(tools) = take_list(&mut header, "tools") {
        assembly.tools = tools;
    }
}

fn read_usage(usage: &Map<String, Value>) -> Option<Usage> {
    let number = |names: [&str; 2]| names.iter().find_map(|name| usage.get(*name)).and_then(Value::as_u64);
    Some(Usage {
        input_tokens: number(["inputTokens", "input_tokens"])?,
        output_tokens: number(["outputTokens", "output_tokens"]).unwrap_or(0),
        cache_read_tokens: number(["cacheReadTokens", "cache_read_tokens"]),
        cache_write_tokens: number(["cacheWriteTokens", "cache_write_tokens"]),
        reasoning_tokens: number(["reasoningTokens", "reasoning_tokens"]),
        extra: Extra::default(),
    })
}

fn read_message(mut map: Map<String, Value>, role: Role, model: Option<Source>) -> Option<Message> {
    let content = read_blocks(map.shift_remove("content")?)?;
    let stated = map.shift_remove("source").and_then(|source| serde_json::from_value::<Source>(source).ok());
    let source = match (role, stated, model) {
        (Role::Assistant, Some(source @ Source::Model { .. }), _) => source,
        (Role::Assistant, _, model) => model.unwrap_or_else(|| model_source(None, None)),
        (Role::User, Some(source), _) if !matches!(source, Source::Model { .. } | Source::Tool { .. }) => source,
        (Role::User, ..) => Source::user(),
    };
    Some(Message::new(take_text(&mut map, "id").unwrap_or_default(), role, source, content))
}

fn read_blocks(content: Value) -> Option<Vec<Block>> {
    let blocks = match content {
        Value::String(text) => return Some(vec![Block::text(text)]),
        Value::Array(blocks) => blocks,
        _ => return None,
    };
    let read = blocks.into_iter().map(|mut block| {
        // Some writers keep arguments as an object.
        if let Value::Object(map) = &mut block
            && map.get("type").is_some_and(|kind| kind == "tool-call")
            && map.get("arguments").is_some_and(|arguments| !arguments.is_string())
        {
            let text = arguments_text(map.shift_remove("arguments"));
            map.insert("arguments".into(), text.into());
        }
        serde_json::from_value::<Block>(block).ok()
    });
    read.collect()
}

fn read_result(mut data: Map<String, Value>) -> Option<Message> {
    let mut map = take_map(&mut data, "message").unwrap_or_else(|| std::mem::take(&mut data));
    let stated = take_map(&mut map, "source").and_then(|mut source| take_text(&mut source, "callId"));
    let id = take_text(&mut map, "id").unwrap_or_default();
    let call = take_text(&mut map, "callId").or_else(|| take_text(&mut map, "toolCallId")).or(stated);
    let is_error = map.get("isError").and_then(Value::as_bool);
    let blocks = read_blocks(map.shift_remove("content")?)?;
    let result = match blocks.as_slice() {
        [Block::ToolResult(result)] => result.clone(),
        _ => ToolResult { tool_call_id: call.unwrap_or_default(), content: blocks, is_error, extra: Extra::default() },
    };
    let source = Source::tool(&result.tool_call_id);
    Some(Message::new(id, Role::User, source, vec![Block::ToolResult(result)]))
}

/// An answer that was cut by its token cap may keep metadata of a call that was dropped: then it fits no more, and goes.
fn trim_replay_state(message: &mut Message) -> bool {
    let blocks = message.content.len();
    let Source::Model { extra, .. } = &mut message.source else { return false };
    let kept = extra.get("replayState").and_then(|state| state.get("blocks")).and_then(Value::as_array).map(Vec::len);
    if kept.is_none_or(|kept| kept == blocks) {
        return false;
    }
    let rest: Map<String, Value> = extra
        .iter()
        .filter(|(key, _)| *key != "replayState")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    *extra = rest.into();
    true
}
