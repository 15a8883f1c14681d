//! Codex rollout files: a record a line, `{timestamp, type, payload}`.
//!
//! What the model sees are the response items. Events repeat them for the screen, but for usage, windows and turns taken back.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Lines, lenient};
use crate::message::{Block, Extra, Usage};
use crate::session::Session;
use crate::transcript::assembly::{Assembly, Item, foreign_checkpoint, guessed_kit};
use crate::transcript::outline::{CallRules, Exporter, Outline};
use crate::transcript::parts::{rfc3339, time_ms};
use crate::transcript::report::Repair;
use crate::transcript::responses::{read_item, write_items};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default)]
    timestamp: Option<Value>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
struct SessionMeta {
    #[serde(default, deserialize_with = "lenient")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    cwd: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    model_provider: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    base_instructions: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    context_window: Option<Value>,
}

#[derive(Deserialize)]
struct TurnContext {
    #[serde(default, deserialize_with = "lenient")]
    model: Option<String>,
}

#[derive(Deserialize)]
struct Compacted {
    message: Option<String>,
    replacement_history: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct EventKind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct TaskStarted {
    #[serde(default, deserialize_with = "lenient")]
    model_context_window: Option<u64>,
}

#[derive(Deserialize)]
struct RolledBack {
    num_turns: u64,
}

#[derive(Deserialize)]
struct TokenCount {
    info: Option<TokenInfo>,
}

#[derive(Deserialize)]
struct TokenInfo {
    #[serde(default, deserialize_with = "lenient")]
    last_token_usage: Option<LastUsage>,
    #[serde(default, deserialize_with = "lenient")]
    model_context_window: Option<u64>,
}

#[derive(Deserialize)]
struct LastUsage {
    #[serde(default, deserialize_with = "lenient")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    cached_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    reasoning_output_tokens: Option<u64>,
}

/// Where the newest fold stands among the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoldPlace {
    /// Between turns, or within a turn whose user message came before it.
    AfterUserMessage,
    /// Within a turn, before its user message: taking that turn back takes the fold back.
    BeforeUserMessage,
}

/// Reads a rollout.
#[derive(Default)]
pub(in crate::transcript) struct Rollout {
    in_task: bool,
    user_spoke_in_task: bool,
    fold: Option<FoldPlace>,
    /// Messages of the live part that came with the fold.
    base: usize,
    summaries: u64,
}

impl Lines for Rollout {
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error> {
        let line: Line<'_> = serde_json::from_str(text)?;
        let time = line.timestamp.as_ref().and_then(time_ms);
        let payload = line.payload.get();
        match line.kind.as_ref() {
            "session_meta" => {
                let meta: SessionMeta = serde_json::from_str(payload)?;
                note_meta(assembly, meta, time);
                assembly.report.map("session_meta", place);
            }
            "turn_context" => {
                let context: TurnContext = serde_json::from_str(payload)?;
                assembly.note_model(None, context.model.as_deref());
                assembly.report.map("turn_context", place);
            }
            "response_item" => {
                let before = assembly.live.len();
                read_item(assembly, place, time, serde_json::from_str(payload)?);
                if !assembly.live.users_in(before..assembly.live.len()).is_empty() {
                    self.user_spoke_in_task = true;
                    if self.fold.is_some() && assembly.live.users_in(self.base..before).is_empty() {
                        // The first user message behind the fold: whether it belongs to the fold's own task.
                        self.fold = Some(self.place_of_first_message());
                    }
                }
            }
            "compacted" => {
                let compacted: Compacted = serde_json::from_str(payload)?;
                self.fold(assembly, place, time, compacted);
                assembly.report.map("compacted", place);
            }
            "event_msg" => self.event(assembly, place, payload)?,
            other => assembly.report.skip(other, place),
        }
        Ok(())
    }
}

fn note_meta(assembly: &mut Assembly, meta: SessionMeta, time: Option<i64>) {
    assembly.note_model(meta.model_provider.as_deref(), None);
    // A file of a fork repeats the header of what it was forked from behind its own.
    if assembly.header.id.is_empty() {
        assembly.header.id = meta.id.unwrap_or_default();
        assembly.header.cwd = meta.cwd;
        assembly.header.created_at = time.unwrap_or(0);
        assembly.system = match meta.base_instructions {
            Some(Value::String(text)) => Some(text),
            Some(Value::Object(map)) => map.get("text").and_then(Value::as_str).map(str::to_owned),
            _ => None,
        };
        if let Some(window) = meta.context_window.as_ref().and_then(Value::as_u64) {
            assembly.window = Some(window).filter(|window| *window > 0);
        }
    }
}

impl Rollout {
    fn place_of_first_message(&self) -> FoldPlace {
        match self.fold {
            Some(FoldPlace::BeforeUserMessage) if self.in_task => FoldPlace::BeforeUserMessage,
            _ => FoldPlace::AfterUserMessage,
        }
    }

    fn fold(&mut self, assembly: &mut Assembly, place: u64, time: Option<i64>, compacted: Compacted) {
        let message = compacted.message.filter(|message| !message.trim().is_empty());
        // What was kept is read as it was written at first, into a conversation of its own.
        let mut kept = Assembly::new(assembly.report.format);
        kept.provider.clone_from(&assembly.provider);
        kept.model.clone_from(&assembly.model);
        match (compacted.replacement_history, &message) {
            (Some(items), _) => {
                for item in items {
                    read_item(&mut kept, place, time, item);
                }
            }
            (None, Some(_)) => {
                // Old files name no replacement: it was the person's messages, then the summary.
                kept.live.extend(assembly.live.iter().filter(|item| item.is_user()).cloned());
            }
            (None, None) => {
                assembly.report.repair(Repair::FoldWithoutSummary, place);
                return;
            }
        }
        let mut kept: Vec<Item> = kept.live.into();
        if let Some(text) = &message {
            mark_summary(&mut kept, place, time, text);
        }
        self.summaries += 1;
        self.base = kept.len();
        self.fold = Some(if self.in_task && !self.user_spoke_in_task {
            FoldPlace::BeforeUserMessage
        } else {
            FoldPlace::AfterUserMessage
        });
        assembly.fold(kept);
    }

    fn event(&mut self, assembly: &mut Assembly, place: u64, payload: &str) -> Result<(), serde_json::Error> {
        let event: EventKind<'_> = serde_json::from_str(payload)?;
        match event.kind.as_ref() {
            "task_started" | "turn_started" => {
                let started: TaskStarted = serde_json::from_str(payload)?;
                assembly.window = started.model_context_window.filter(|window| *window > 0).or(assembly.window);
                self.in_task = true;
                self.user_spoke_in_task = false;
            }
            "task_complete" | "turn_complete" => self.in_task = false,
            "turn_aborted" => {
                self.in_task = false;
                if let Some(answer) = assembly.open_answer() {
                    answer.interrupted = true;
                }
            }
            "thread_rolled_back" => {
                let back: RolledBack = serde_json::from_str(payload)?;
                self.roll_back(assembly, place, back.num_turns);
            }
            "token_count" => {
                let count: TokenCount = serde_json::from_str(payload)?;
                if let Some(info) = count.info {
                    note_usage(assembly, place, &info);
                }
            }
            other => {
                assembly.report.skip(&format!("event {other}"), place);
                return Ok(());
            }
        }
        assembly.report.map(&format!("event {}", event.kind), place);
        Ok(())
    }

    /// Takes the last turns of the person back, and with them a fold that lay within one.
    fn roll_back(&mut self, assembly: &mut Assembly, place: u64, turns: u64) {
        let mut left = turns;
        loop {
            let behind_fold = assembly.live.users_in(self.base..assembly.live.len()).len() as u64;
            let takes_fold = match self.fold {
                None => false,
                Some(FoldPlace::BeforeUserMessage) => left >= behind_fold && behind_fold > 0,
                Some(FoldPlace::AfterUserMessage) => left > behind_fold,
            };
            if !takes_fold {
                break;
            }
            if !assembly.unfold() {
                assembly.report.repair(Repair::FoldNotTakenBack, place);
                left = left.min(behind_fold);
                break;
            }
            assembly.report.repair(Repair::FoldTakenBack, place);
            left -= behind_fold;
            self.fold = None;
            self.base = 0;
        }
        let turns = assembly.live.users_in(self.base..assembly.live.len());
        let first = usize::try_from(left).map_or(0, |left| turns.len().saturating_sub(left));
        if let Some(at) = turns.get(first).copied() {
            assembly.truncate(at);
            assembly.report.repair(Repair::BranchLeft, place);
        }
    }
}

/// The last usage is of one call. Just after a fold its parts are zero and only an estimate of the total stands there.
fn note_usage(assembly: &mut Assembly, place: u64, info: &TokenInfo) {
    assembly.window = info.model_context_window.filter(|window| *window > 0).or(assembly.window);
    let Some(last) = &info.last_token_usage else { return };
    let (input, cached) = (last.input_tokens.unwrap_or(0), last.cached_input_tokens.unwrap_or(0));
    if input == 0 {
        return;
    }
    if cached > input {
        assembly.report.repair(Repair::UsageNotBelieved, place);
        return;
    }
    let usage = Usage {
        input_tokens: input - cached,
        output_tokens: last.output_tokens.unwrap_or(0),
        cache_read_tokens: Some(cached).filter(|tokens| *tokens > 0),
        cache_write_tokens: None,
        reasoning_tokens: last.reasoning_output_tokens.filter(|tokens| *tokens > 0),
        extra: Extra::default(),
    };
    let newest = assembly.live.newest_answer();
    if let Some(answer) = newest.and_then(|at| assembly.live.get_mut(at)) {
        answer.usage = Some(usage);
    }
}

/// Marks the summary among the kept messages as the checkpoint, by what the record says of it.
fn mark_summary(live: &mut Vec<Item>, place: u64, time: Option<i64>, text: &str) {
    let same = |item: &Item| item.is_user() && item.message.text().trim() == text.trim();
    let kit = guessed_kit(&Block::text(text)).flatten().unwrap_or_else(|| "codex".into());
    let already = live.iter().any(|item| item.message.source.is_checkpoint());
    match live.iter().rposition(same) {
        Some(at) => {
            if let Some(item) = live.get_mut(at) {
                let content = std::mem::take(&mut item.message.content);
                item.message = foreign_checkpoint(place, Some(&kit), content, false);
            }
        }
        None if already => {
            // Its first words alone said so; now the record does.
            for item in live.iter_mut().filter(|item| item.message.source.is_checkpoint()) {
                let content = std::mem::take(&mut item.message.content);
                item.message = foreign_checkpoint(place, Some(&kit), content, false);
            }
        }
        None => {
            let message = foreign_checkpoint(place, Some(&kit), vec![Block::text(text)], false);
            live.push(Item::new(place, message).at(time));
        }
    }
}

const CALLS: CallRules = CallRules { longest: usize::MAX, plain: false, unique: false, answer_all: false };

/// The record that makes the session's surface the live part of a rollout: a fold that names all of it.
pub(in crate::transcript) fn append_records(session: &Session, exporter: &mut Exporter<'_>) -> Vec<Value> {
    let outline = Outline::new(session, CALLS, &mut exporter.report);
    let history = write_items(&outline, exporter, true);
    let summary = session
        .messages()
        .filter(|message| message.source.is_checkpoint())
        .last()
        .map(|message| message.text())
        .unwrap_or_default();
    let payload = Map::from_iter([
        ("message".to_owned(), summary.into()),
        ("replacement_history".to_owned(), Value::Array(history)),
    ]);
    vec![json!({ "timestamp": rfc3339(exporter.options.time_of(session)), "type": "compacted", "payload": payload })]
}
