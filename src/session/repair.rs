//! Closing what a crash left open.

use std::collections::HashMap;

use serde_json::json;

use super::Session;
use super::error::SessionError;
use super::event::{Draft, EventData, RawJson, Seq};
use super::records::{ToolResultMessage, TurnEnd};
use crate::message::{Block, Extra, Message, Role, Source, ToolCall, ToolResult};

/// What the model is told of calls that a crash interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairTexts {
    /// Of a call that was never recorded as started.
    pub not_started: String,
    /// Of a call that was recorded as started and has no recorded result.
    pub outcome_unknown: String,
}

impl Default for RepairTexts {
    fn default() -> Self {
        Self {
            not_started: "This call was cut off before it was recorded as started, so it did not run. Make it again if it is \
                          still needed."
                .into(),
            outcome_unknown: "This call had started when the process ended, and no result of it was recorded. Whether it took \
                              effect is not known. Look at the state that it would have changed before you make it again, or ask \
                              the user; repeat it right away only if it reads and changes nothing."
                .into(),
        }
    }
}

impl Session {
    /// The events that close the turn which a crash left open: an error result for every call without one, the end of the step,
    /// the end of the turn. Empty where nothing is open. Their times repeat the last event's, since the time of the crash is not
    /// known.
    pub fn repairs(&self, texts: &RepairTexts) -> Vec<Draft> {
        let Some(open) = OpenTurn::find(self) else { return Vec::new() };
        let time = self.last_time();
        let mut drafts = Vec::new();
        for (call, step) in &open.unanswered {
            let seq = self.revision() + drafts.len() as Seq;
            drafts.push(open.interrupted(call, *step, seq, texts).at(time));
        }
        if let Some(step) = open.step {
            drafts.push(Draft::step_end(open.turn, step).at(time));
        }
        let reason = RawJson::from(json!({ "kind": "interrupted" }));
        let end = TurnEnd { turn: open.turn, reason, extra: Extra::default() };
        drafts.push(Draft::new(EventData::TurnEnd(Box::new(end))).at(time));
        drafts
    }

    /// Appends [`repairs`](Self::repairs), all or none; how many events that were.
    pub fn repair(&mut self, texts: &RepairTexts) -> Result<usize, SessionError> {
        let drafts = self.repairs(texts);
        let count = drafts.len();
        if count > 0 {
            self.append_all(drafts)?;
        }
        Ok(count)
    }
}

/// The turn that is open at the end of a log.
struct OpenTurn<'a> {
    turn: u64,
    step: Option<u64>,
    /// Calls of the newest step without a result, with the number of their step.
    unanswered: Vec<(&'a ToolCall, u64)>,
    /// Seq of the event that recorded the start of a call, by the call's id.
    started: HashMap<&'a str, Seq>,
}

impl<'a> OpenTurn<'a> {
    fn find(session: &'a Session) -> Option<Self> {
        let turn = session.open_turn()?;
        let mut open = Self { turn, step: None, unanswered: Vec::new(), started: HashMap::new() };
        let start = session.events().iter().rposition(|event| matches!(event.data, EventData::TurnStart(_)))?;
        for event in session.events().iter().skip(start) {
            match &event.data {
                EventData::StepStart(mark) => {
                    open.step = Some(mark.step);
                    open.unanswered.clear();
                    open.started.clear();
                }
                EventData::StepEnd(_) => {
                    open.step = None;
                    open.unanswered.clear();
                }
                EventData::AssistantMessage(data) => {
                    let step = open.step.unwrap_or(data.step);
                    open.unanswered.extend(data.message.tool_calls().map(|call| (call, step)));
                }
                EventData::ToolCall(data) => {
                    open.started.insert(&data.call_id, event.seq);
                }
                EventData::ToolResult(data) => {
                    let answered = data.message.result().map(|result| result.tool_call_id.as_str());
                    if let Some(at) = open.unanswered.iter().position(|(call, _)| Some(call.id.as_str()) == answered) {
                        open.unanswered.remove(at);
                    }
                }
                _ => {}
            }
        }
        Some(open)
    }

    fn interrupted(&self, call: &ToolCall, step: u64, seq: Seq, texts: &RepairTexts) -> Draft {
        let started = self.started.get(call.id.as_str());
        let (text, name, code) = match started {
            Some(_) => (&texts.outcome_unknown, "ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN"),
            None => (&texts.not_started, "ToolNotStartedError", "TOOL_NOT_STARTED"),
        };
        let block = Block::ToolResult(ToolResult {
            tool_call_id: call.id.clone(),
            content: vec![Block::text(text)],
            is_error: Some(true),
            extra: Extra::default(),
        });
        let id = format!("interrupted-tool-result-{}-{seq}", call.id);
        let message = Message::new(id, Role::User, Source::tool(&call.id), vec![block]);
        let mut extra = Extra::default();
        extra.insert("error", json!({ "name": name, "code": code }));
        let data = ToolResultMessage { turn: self.turn, step, message: message.into(), extra };
        let draft = Draft::new(EventData::ToolResult(Box::new(data)));
        match started {
            Some(seq) => draft.citing(vec![*seq]),
            None => draft,
        }
    }
}
