//! From what a reader finds in a file to a session.
//!
//! Holds the live part only: what a fold hid is given up, but for one generation, because the turn in which the fold happened may
//! still be taken back.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::arrange::{Paired, Piece, arrange};
use super::live::Live;
use super::report::{ImportReport, Repair};
use super::{Format, Import, Resume, TranscriptError};
use crate::checkpoint::Checkpoint;
use crate::message::{Block, Extra, Message, OpaqueBlock, Role, Source, ToolResult, Usage};
use crate::session::{
    AssistantMessage, Draft, EventData, RequestContext, RequestHeader, Session, SessionHeader, ToolResultMessage,
};

/// What stands where a file does not say which provider or model answered.
const UNKNOWN: &str = "unknown";

/// A message of the conversation, and what its record says beside it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) place: u64,
    pub(super) time: Option<i64>,
    pub(super) message: Message,
    pub(super) usage: Option<Usage>,
    pub(super) interrupted: bool,
    /// Ids of the records that it was made from.
    pub(super) keys: Vec<String>,
}

impl Item {
    pub(super) fn new(place: u64, message: Message) -> Self {
        Self { place, time: None, message, usage: None, interrupted: false, keys: Vec::new() }
    }

    pub(super) fn at(mut self, time: Option<i64>) -> Self {
        self.time = time;
        self
    }

    pub(super) fn keyed(mut self, key: Option<&str>) -> Self {
        self.keys.extend(key.map(str::to_owned));
        self
    }

    pub(super) fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|own| own == key)
    }

    pub(super) fn is_user(&self) -> bool {
        self.message.source.is_user()
    }

    pub(super) fn is_assistant(&self) -> bool {
        self.message.role == Role::Assistant
    }

    pub(super) fn is_result(&self) -> bool {
        matches!(self.message.source, Source::Tool { .. })
    }
}

impl Paired for Item {
    fn calls(&self) -> impl Iterator<Item = &str> {
        self.message.tool_calls().map(|call| call.id.as_str())
    }

    fn answers(&self) -> Option<&str> {
        self.message.result().filter(|_| self.is_result()).map(|result| result.tool_call_id.as_str())
    }

    fn is_answer_of_model(&self) -> bool {
        self.is_assistant()
    }
}

/// The source of a model's answer, whatever the file knows of it.
pub(super) fn model_source(provider: Option<&str>, model: Option<&str>) -> Source {
    let known = |name: Option<&str>| name.filter(|name| !name.is_empty()).unwrap_or(UNKNOWN).to_owned();
    Source::model(known(provider), known(model))
}

/// A result of a tool call. An empty call id is filled in when the conversation is arranged.
pub(super) fn result_message(call_id: &str, content: Vec<Block>, is_error: Option<bool>, extra: Extra) -> Message {
    let block = Block::ToolResult(ToolResult { tool_call_id: call_id.to_owned(), content, is_error, extra });
    Message::new("", Role::User, Source::tool(call_id), vec![block])
}

/// An item that only the API that wrote it can read.
pub(super) fn opaque(api: &str, item: Value) -> Block {
    // A block of one of these types is media, whatever else it holds.
    let is_free = |kind: &&str| !matches!(*kind, "image" | "document" | "audio");
    let kind = item.get("type").and_then(Value::as_str).filter(is_free).unwrap_or("item").to_owned();
    let mut wrapped = serde_json::Map::new();
    wrapped.insert("type".into(), kind.into());
    wrapped.insert("api".into(), api.into());
    wrapped.insert("item".into(), item);
    Block::Opaque(OpaqueBlock { value: Value::Object(wrapped) })
}

/// The item of an opaque block, if that API wrote it.
pub(super) fn opaque_item<'a>(block: &'a OpaqueBlock, api: &str) -> Option<&'a Value> {
    let wrote = block.value.get("api").and_then(Value::as_str) == Some(api);
    block.value.get("item").filter(|_| wrote)
}

/// The conversation as far as it has been read.
pub(super) struct Assembly {
    pub(super) report: ImportReport,
    pub(super) header: SessionHeader,
    pub(super) resume: Resume,
    pub(super) provider: Option<String>,
    pub(super) model: Option<String>,
    pub(super) system: Option<String>,
    /// Role under which a Chat Completions writer sent the system prompt, where it is not `system`.
    pub(super) system_role: Option<String>,
    pub(super) tools: Vec<Value>,
    pub(super) window: Option<u64>,
    pub(super) live: Live,
    /// What the newest fold hid.
    previous: Option<Live>,
    made_call_ids: u64,
    /// Ids of the newest answer's calls that were made here and have no result yet, by the name of the tool.
    pub(super) open_made_calls: HashMap<String, VecDeque<String>>,
}

impl Assembly {
    pub(super) fn new(format: Format) -> Self {
        Self {
            report: ImportReport::new(format),
            header: SessionHeader::new("", 0),
            resume: Resume::default(),
            provider: None,
            model: None,
            system: None,
            system_role: None,
            tools: Vec::new(),
            window: None,
            live: Live::default(),
            previous: None,
            made_call_ids: 0,
            open_made_calls: HashMap::new(),
        }
    }

    /// An id for a call that has none.
    pub(super) fn make_call_id(&mut self) -> String {
        self.made_call_ids += 1;
        format!("made-call-{}", self.made_call_ids)
    }

    pub(super) fn push(&mut self, item: Item) {
        if item.is_assistant() {
            self.open_made_calls.clear();
            self.note_made_calls(&item.message.content);
        }
        self.live.push(item);
    }

    /// Notes calls of the newest answer whose ids were made here.
    pub(super) fn note_made_calls(&mut self, content: &[Block]) {
        for block in content {
            if let Block::ToolCall(call) = block
                && call.extra.get(MADE_ID).is_some()
            {
                self.open_made_calls.entry(call.name.clone()).or_default().push_back(call.id.clone());
            }
        }
    }

    /// Drops the messages from a position on.
    pub(super) fn truncate(&mut self, len: usize) {
        if len < self.live.len() {
            self.open_made_calls.clear();
            self.live.truncate(len);
        }
    }

    /// Notes what every record of a file repeats: the newest non-empty value stands.
    pub(super) fn note_model(&mut self, provider: Option<&str>, model: Option<&str>) {
        for (slot, value) in [(&mut self.provider, provider), (&mut self.model, model)] {
            if let Some(value) = value.filter(|value| !value.is_empty())
                && slot.as_deref() != Some(value)
            {
                *slot = Some(value.to_owned());
            }
        }
    }

    pub(super) fn model_source(&self) -> Source {
        model_source(self.provider.as_deref(), self.model.as_deref())
    }

    /// The newest message, if the model said it: what belongs to the same answer is added there.
    pub(super) fn open_answer(&mut self) -> Option<&mut Item> {
        self.live.last_mut().filter(|item| item.is_assistant())
    }

    /// Puts a checkpoint, and what was kept with it, in the place of everything so far.
    pub(super) fn fold(&mut self, base: Vec<Item>) {
        let folded = (self.live.len() as u64).saturating_sub(self.kept_in(&base));
        self.fold_away(base, folded);
    }

    /// As [`fold`](Self::fold), where what is kept was taken out of the live part before: `folded` messages are left there.
    pub(super) fn fold_away(&mut self, base: Vec<Item>, folded: u64) {
        self.previous = Some(std::mem::replace(&mut self.live, base.into()));
        for item in self.live.iter_mut() {
            // Usage that was reported before a fold says nothing of what is left.
            item.usage = None;
        }
        self.open_made_calls.clear();
        self.report.folds += 1;
        self.report.folded_messages += folded;
    }

    /// How many of the live messages stand among others again, by their record ids.
    fn kept_in(&mut self, base: &[Item]) -> u64 {
        let keys: HashSet<&String> = base.iter().flat_map(|item| &item.keys).collect();
        let mut kept: HashSet<usize> = HashSet::new();
        for key in keys {
            kept.extend(self.live.positions_of(key));
        }
        kept.len() as u64
    }

    /// Takes the newest fold back; whether its hidden part was still there.
    pub(super) fn unfold(&mut self) -> bool {
        match self.previous.take() {
            Some(hidden) => {
                self.live = hidden;
                self.open_made_calls.clear();
                true
            }
            None => false,
        }
    }

    /// Drops everything behind the message made from a record, and the newest fold with it where the record lies before that; how many
    /// messages that were, or none where the record is not known.
    pub(super) fn rewind_to(&mut self, key: &str, place: u64) -> Option<usize> {
        if self.lies_before_fold(key) && self.unfold() {
            self.report.repair(Repair::FoldTakenBack, place);
        }
        let at = self.live.newest_of(key)?;
        let dropped = self.live.len() - at - 1;
        self.truncate(at + 1);
        Some(dropped)
    }

    /// A prompt of the person that goes on from before an earlier prompt leaves that one's branch. `parent` is the record that it
    /// goes on from.
    pub(super) fn leave_branch(&mut self, parent: &str, place: u64) {
        if self.lies_before_fold(parent) && self.unfold() {
            self.report.repair(Repair::FoldTakenBack, place);
        }
        let Some(at) = self.live.newest_of(parent) else { return };
        if self.live.users_in(at + 1..self.live.len()).is_empty() {
            return;
        }
        // Results of the parent's own step stand behind it; they belong to it.
        self.truncate(self.live.end_of_results_behind(at));
        self.report.repair(Repair::BranchLeft, place);
    }

    /// Whether a record made a message that the newest fold hid, and none that is live.
    fn lies_before_fold(&mut self, key: &str) -> bool {
        self.live.newest_of(key).is_none()
            && self.previous.as_mut().is_some_and(|hidden| hidden.newest_of(key).is_some())
    }

    /// The session, with turns, steps and every result behind its call.
    pub(super) fn finish(mut self) -> Result<Import, TranscriptError> {
        let arranged = arrange(&self.live);
        if arranged.pieces.is_empty() {
            let (format, records) = (self.report.format, self.report.records);
            return Err(TranscriptError::NoConversation { format, records });
        }
        for (repair, positions) in [
            (Repair::ResultMoved, &arranged.moved),
            (Repair::ResultWithoutCall, &arranged.orphans),
            (Repair::ResultRepeated, &arranged.repeated),
        ] {
            for at in positions {
                let place = self.live.get(*at).map_or(0, |item| item.place);
                self.report.repair(repair, place);
            }
        }
        self.report.opaque_checkpoint = self.live.iter().any(|item| {
            item.message.source.is_checkpoint()
                && item.message.content.iter().any(|block| matches!(block, Block::Opaque(_)))
        });
        if self.header.id.is_empty() {
            self.header.id = "imported".into();
        }
        let mut writer = SessionWriter::new(&self);
        let items: Vec<Item> = std::mem::take(&mut self.live).into();
        let mut items: Vec<Option<Item>> = items.into_iter().map(Some).collect();
        let last = arranged.pieces.len().saturating_sub(1);
        for (index, piece) in arranged.pieces.into_iter().enumerate() {
            writer.write(piece, &mut items, &mut self.report, index == last)?;
        }
        let session = writer.finish()?;
        // An answer without content is in the log and is no message.
        if session.messages().next().is_none() {
            let (format, records) = (self.report.format, self.report.records);
            return Err(TranscriptError::NoConversation { format, records });
        }
        Ok(Import { session, format: self.report.format, report: self.report, resume: self.resume })
    }
}

/// Appends the arranged conversation to a new session.
struct SessionWriter {
    session: Session,
    turn: u64,
    step: u64,
    in_turn: bool,
    ids: HashSet<String>,
    /// The number to try next for an id that comes again.
    next_of_id: HashMap<String, u64>,
    made_call_ids: u64,
    last_time: i64,
    /// Whether the last step waits for results.
    waits: bool,
    refused: Result<(), TranscriptError>,
}

impl SessionWriter {
    fn new(assembly: &Assembly) -> Self {
        let mut writer = Self {
            session: Session::with_header(assembly.header.clone()),
            turn: 0,
            step: 0,
            in_turn: false,
            ids: HashSet::new(),
            next_of_id: HashMap::new(),
            made_call_ids: assembly.made_call_ids,
            last_time: assembly.header.created_at,
            waits: false,
            refused: Ok(()),
        };
        let known = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        let (provider, model) = (known(&assembly.provider), known(&assembly.model));
        let says_more = assembly.system.is_some() || !assembly.tools.is_empty() || assembly.window.is_some();
        if provider.is_some() || model.is_some() || says_more {
            let (provider, model) =
                (provider.unwrap_or_else(|| UNKNOWN.into()), model.unwrap_or_else(|| UNKNOWN.into()));
            let mut header = RequestHeader::new(&provider, &model);
            header.system = assembly.system.clone();
            header.tools = (!assembly.tools.is_empty()).then(|| assembly.tools.clone());
            if let Some(role) = &assembly.system_role {
                header.extra.insert("systemRole", role.as_str().into());
            }
            writer.append(Draft::request_header(header));
            if let Some(window) = assembly.window {
                let context = RequestContext { provider, model, context_window: Some(window), extra: Extra::default() };
                writer.append(Draft::request_context(context));
            }
        }
        writer
    }

    fn append(&mut self, draft: Draft) {
        if self.refused.is_ok() {
            let draft = draft.at(self.last_time);
            self.refused = self.session.append(draft).map(|_| ()).map_err(TranscriptError::from);
        }
    }

    fn write(
        &mut self,
        piece: Piece,
        items: &mut [Option<Item>],
        report: &mut ImportReport,
        is_last: bool,
    ) -> Result<(), TranscriptError> {
        let Some(mut item) = items.get_mut(piece.message).and_then(Option::take) else { return Ok(()) };
        let mut results: Vec<Option<Item>> = piece.results.iter().map(|at| items.get_mut((*at)?)?.take()).collect();
        self.last_time = item.time.unwrap_or(self.last_time).max(self.last_time);
        item.message.id = self.unique(std::mem::take(&mut item.message.id));
        if !item.is_assistant() {
            if item.is_user() {
                self.begin_turn();
            }
            self.append(Draft::user(item.message));
            return std::mem::replace(&mut self.refused, Ok(()));
        }
        if !self.in_turn {
            self.begin_turn();
        }
        self.step += 1;
        self.append(Draft::step_start(self.turn, self.step));
        self.name_calls(&mut item, &mut results, report);
        let place = item.place;
        self.append(Draft::new(EventData::AssistantMessage(Box::new(AssistantMessage {
            turn: self.turn,
            step: self.step,
            message: item.message.into(),
            usage: item.usage,
            interrupted: item.interrupted.then_some(true),
            extra: Extra::default(),
        }))));
        self.waits = false;
        for slot in piece.order {
            let Some(mut result) = results.get_mut(slot).and_then(Option::take) else {
                report.repair(Repair::CallWithoutResult, place);
                self.waits = true;
                continue;
            };
            self.last_time = result.time.unwrap_or(self.last_time).max(self.last_time);
            result.message.id = self.unique(std::mem::take(&mut result.message.id));
            let message = result.message.into();
            let data = ToolResultMessage { turn: self.turn, step: self.step, message, extra: Extra::default() };
            self.append(Draft::new(EventData::ToolResult(Box::new(data))));
        }
        // A last step without all its results may still get them, or be repaired.
        if !(is_last && self.waits) {
            self.append(Draft::step_end(self.turn, self.step));
        }
        std::mem::replace(&mut self.refused, Ok(()))
    }

    /// Gives calls without an id one, and their results the same.
    fn name_calls(&mut self, item: &mut Item, results: &mut [Option<Item>], report: &mut ImportReport) {
        let calls = item.message.content.iter_mut().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        });
        for (call, result) in calls.zip(results) {
            if !call.id.is_empty() {
                continue;
            }
            self.made_call_ids += 1;
            call.id = format!("made-call-{}", self.made_call_ids);
            call.extra.insert(MADE_ID, true.into());
            report.repair(Repair::CallIdMade, item.place);
            if let Some(result) = result {
                result.message.source = Source::tool(&call.id);
                for block in &mut result.message.content {
                    if let Block::ToolResult(block) = block {
                        block.tool_call_id.clone_from(&call.id);
                    }
                }
            }
        }
    }

    fn begin_turn(&mut self) {
        if self.in_turn && self.step == 0 {
            return;
        }
        self.end_turn();
        self.turn += 1;
        self.step = 0;
        self.in_turn = true;
        self.append(Draft::turn_start(self.turn));
    }

    fn end_turn(&mut self) {
        if self.in_turn {
            self.append(Draft::turn_end(self.turn));
            self.in_turn = false;
        }
    }

    fn unique(&mut self, id: String) -> String {
        let id = if id.is_empty() { format!("m{}", self.ids.len() + 1) } else { id };
        if self.ids.insert(id.clone()) {
            return id;
        }
        let mut number = self.next_of_id.get(&id).copied().unwrap_or(2);
        loop {
            let other = format!("{id}-{number}");
            number += 1;
            if self.ids.insert(other.clone()) {
                self.next_of_id.insert(id, number);
                return other;
            }
        }
    }

    fn finish(mut self) -> Result<Session, TranscriptError> {
        if !self.waits {
            self.end_turn();
        }
        self.refused?;
        Ok(self.session)
    }
}

/// Key under which a call says that its id was made up here.
pub(super) const MADE_ID: &str = "idMade";

/// A checkpoint that another tool wrote. `guessed` tells whether its first words alone say so.
pub(super) fn foreign_checkpoint(place: u64, kit: Option<&str>, content: Vec<Block>, guessed: bool) -> Message {
    let mut extra = Extra::default();
    if let Some(kit) = kit {
        extra.insert("kit", kit.into());
    }
    if guessed {
        extra.insert("guessed", true.into());
    }
    let source = Source::Checkpoint { compaction_id: format!("imported-{place}"), extra };
    Message::new("", Role::User, source, content)
}

/// The kit by which a text reads as a checkpoint, if it does.
pub(super) fn guessed_kit(text: &Block) -> Option<Option<String>> {
    let message = Message::new("guess", Role::User, Source::user(), vec![text.clone()]);
    Checkpoint::guess(&message).map(|checkpoint| checkpoint.kit)
}
