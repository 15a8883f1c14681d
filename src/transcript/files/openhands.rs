//! OpenHands events: an array, or an event a line, of actions and of the observations that answer them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::Lines;
use crate::message::{Block, Extra, Message, Role, Source, ToolCall};
use crate::transcript::assembly::{Assembly, Item, foreign_checkpoint, result_message};
use crate::transcript::chat::read_usage;
use crate::transcript::parts::{take_list, take_map, take_text, time_ms};
use crate::transcript::provenance::user_items;
use crate::transcript::report::Repair;

/// Reads the array form, bare or within a document.
pub(in crate::transcript) fn read_document(assembly: &mut Assembly, value: Value) {
    let events = match value {
        Value::Array(events) => events,
        Value::Object(mut map) => {
            ["history", "events", "trajectory"].iter().find_map(|key| take_list(&mut map, key)).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    assembly.report.records += events.len() as u64;
    let mut reader = Events::default();
    for (index, event) in events.into_iter().enumerate() {
        match event {
            Value::Object(map) => reader.event(assembly, index as u64 + 1, map),
            _ => assembly.report.unreadable(index as u64 + 1, "an event must be an object"),
        }
    }
}

/// Reads events.
#[derive(Default)]
pub(in crate::transcript) struct Events {
    /// Id of the call that an action made, by the action's id.
    calls: HashMap<u64, String>,
    /// Id of the model's response whose calls are being read.
    response: Option<String>,
}

impl Lines for Events {
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error> {
        self.event(assembly, place, serde_json::from_str(text)?);
        Ok(())
    }
}

impl Events {
    fn event(&mut self, assembly: &mut Assembly, place: u64, mut map: Map<String, Value>) {
        let time = map.get("timestamp").and_then(time_ms);
        let id = map.get("id").and_then(Value::as_u64);
        let source = take_text(&mut map, "source").unwrap_or_default();
        if let Some(action) = take_text(&mut map, "action") {
            let args = take_map(&mut map, "args").unwrap_or_default();
            self.action(assembly, place, Action { time, id, source, action, args, map });
        } else if let Some(observation) = take_text(&mut map, "observation") {
            self.observation(assembly, place, time, id, &observation, map);
        } else {
            assembly.report.skip("event", place);
        }
    }

    fn action(&mut self, assembly: &mut Assembly, place: u64, action: Action) {
        let Action { time, id, source, action, mut args, mut map } = action;
        let key = id.map(|id| id.to_string());
        match (action.as_str(), source.as_str()) {
            ("message", "user") => {
                let mut content: Vec<Block> = take_text(&mut args, "content").map(Block::text).into_iter().collect();
                for url in take_list(&mut args, "image_urls").unwrap_or_default() {
                    if let Value::String(url) = url {
                        let kind = crate::message::MediaKind::Image;
                        content.push(crate::transcript::parts::media_of_url(url, None, kind, &Extra::default()));
                    }
                }
                assembly.live.extend(user_items(place, time, key.as_deref(), content));
                self.response = None;
            }
            ("system", _) => {
                if let Some(text) = take_text(&mut args, "content").filter(|_| assembly.system.is_none()) {
                    assembly.system = Some(text);
                }
            }
            ("condensation", _) => self.condensation(assembly, place, time, args),
            ("change_agent_state" | "recall" | "null" | "condensation_request", _) => {
                assembly.report.skip(&format!("action {action}"), place);
                return;
            }
            (_, "agent") => {
                let called = take_map(&mut map, "tool_call_metadata");
                self.answer(assembly, place, time, Answer { id, action: &action, args, called });
            }
            ("message", _) => {
                let content = take_text(&mut args, "content").map(Block::text).into_iter().collect();
                let message = Message::new("", Role::User, Source::other("environment"), content);
                assembly.push(Item::new(place, message).at(time).keyed(key.as_deref()));
            }
            _ => {
                assembly.report.skip(&format!("action {action} of {source}"), place);
                return;
            }
        }
        assembly.report.map(&format!("action {action}"), place);
    }

    /// An action of the agent: what a call of the model asked for, or plain text.
    fn answer(&mut self, assembly: &mut Assembly, place: u64, time: Option<i64>, answer: Answer<'_>) {
        let Answer { id, action, mut args, called } = answer;
        let key = id.map(|id| id.to_string());
        let said = match action {
            "message" => take_text(&mut args, "content"),
            _ => take_text(&mut args, "thought"),
        };
        let mut content: Vec<Block> = said.filter(|text| !text.is_empty()).map(Block::text).into_iter().collect();
        let mut response = None;
        let mut usage = None;
        match called {
            Some(mut called) => {
                let call_id = take_text(&mut called, "tool_call_id").unwrap_or_default();
                let name = take_text(&mut called, "function_name").unwrap_or_else(|| action.to_owned());
                let mut model = take_map(&mut called, "model_response").unwrap_or_default();
                response = take_text(&mut model, "id");
                assembly.note_model(None, model.get("model").and_then(Value::as_str));
                usage = model.get("usage").and_then(Value::as_object).and_then(read_usage);
                let arguments = arguments_of(&model, &call_id).unwrap_or_else(|| Value::Object(args).to_string());
                if let Some(id) = id {
                    self.calls.insert(id, call_id.clone());
                }
                content.push(Block::ToolCall(ToolCall { id: call_id, name, arguments, extra: Extra::default() }));
            }
            // An action without a call of the model's: it is one all the same, and its observation says so.
            None if action != "message" && action != "finish" => {
                let call_id = format!("action-{}", id.unwrap_or(place));
                if let Some(id) = id {
                    self.calls.insert(id, call_id.clone());
                }
                let arguments = Value::Object(args).to_string();
                content.push(Block::tool_call(call_id, action, arguments));
            }
            None => {
                if let Some(text) = take_text(&mut args, "final_thought").filter(|text| !text.is_empty()) {
                    content.push(Block::text(text));
                }
            }
        }
        let same_response = response.is_some() && self.response == response;
        self.response = response;
        if same_response && let Some(at) = assembly.live.newest_answer() {
            // Parallel calls of one response are an event each; their text is repeated in all.
            if let Some(item) = assembly.live.get_mut(at) {
                content.retain(|block| matches!(block, Block::ToolCall(_)));
                item.message.content.extend(content);
                if let Some(key) = key {
                    assembly.live.add_key(at, key);
                }
                assembly.report.repair(Repair::MessageJoined, place);
            }
            return;
        }
        if content.is_empty() {
            return;
        }
        let message = Message::new("", Role::Assistant, assembly.model_source(), content);
        let mut item = Item::new(place, message).at(time).keyed(key.as_deref());
        item.usage = usage;
        assembly.push(item);
    }

    fn observation(
        &mut self,
        assembly: &mut Assembly,
        place: u64,
        time: Option<i64>,
        id: Option<u64>,
        observation: &str,
        mut map: Map<String, Value>,
    ) {
        let key = id.map(|id| id.to_string());
        if matches!(observation, "agent_state_changed" | "null" | "recall" | "agent_condensation") {
            assembly.report.skip(&format!("observation {observation}"), place);
            return;
        }
        let text = take_text(&mut map, "content").unwrap_or_default();
        let content = if text.is_empty() { Vec::new() } else { vec![Block::text(text)] };
        let named =
            take_map(&mut map, "tool_call_metadata").and_then(|mut called| take_text(&mut called, "tool_call_id"));
        let cause = map.get("cause").and_then(Value::as_u64).and_then(|cause| self.calls.get(&cause).cloned());
        let message = match named.or(cause) {
            Some(call) => {
                let exit = exit_code(&map);
                let failed = observation == "error" || exit.is_some_and(|code| code != 0);
                result_message(&call, content, Some(failed), Extra::default())
            }
            None if content.is_empty() => {
                assembly.report.skip(&format!("observation {observation} of nothing"), place);
                return;
            }
            None => Message::new("", Role::User, Source::other("observation"), content),
        };
        assembly.push(Item::new(place, message).at(time).keyed(key.as_deref()));
        assembly.report.map(&format!("observation {observation}"), place);
    }

    /// A condensation names the events that it forgets, and may say what they held.
    fn condensation(&mut self, assembly: &mut Assembly, place: u64, time: Option<i64>, mut args: Map<String, Value>) {
        let number = |key: &str| args.get(key).and_then(Value::as_u64);
        let (start, end) = (number("forgotten_events_start_id"), number("forgotten_events_end_id"));
        let offset = number("summary_offset");
        let named: HashSet<u64> =
            take_list(&mut args, "forgotten_event_ids").unwrap_or_default().iter().filter_map(Value::as_u64).collect();
        let forgets =
            |id: u64| named.contains(&id) || start.zip(end).is_some_and(|(start, end)| (start..=end).contains(&id));
        let is_forgotten =
            |item: &Item| item.keys.iter().filter_map(|key| key.parse().ok()).next().is_some_and(forgets);
        let names_any = !named.is_empty() || start.is_some();
        if !(names_any && assembly.live.iter().any(is_forgotten)) {
            return;
        }
        let (forgotten, mut base): (Vec<Item>, Vec<Item>) =
            assembly.live.split_off(0).into_iter().partition(is_forgotten);
        assembly.live.extend(forgotten);
        if let Some(summary) = take_text(&mut args, "summary").filter(|summary| !summary.is_empty()) {
            let message = foreign_checkpoint(place, None, vec![Block::text(summary)], false);
            let at = offset.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0).min(base.len());
            base.insert(at, Item::new(place, message).at(time));
        }
        assembly.fold_away(base, assembly.live.len() as u64);
    }
}

struct Action {
    time: Option<i64>,
    id: Option<u64>,
    source: String,
    action: String,
    args: Map<String, Value>,
    map: Map<String, Value>,
}

struct Answer<'a> {
    id: Option<u64>,
    action: &'a str,
    args: Map<String, Value>,
    called: Option<Map<String, Value>>,
}

fn exit_code(event: &Map<String, Value>) -> Option<i64> {
    let extras = event.get("extras")?;
    extras.get("exit_code").or_else(|| extras.get("metadata")?.get("exit_code"))?.as_i64()
}

/// The arguments of a call as the model wrote them, from the response that is stored with the action.
fn arguments_of(response: &Map<String, Value>, call_id: &str) -> Option<String> {
    let choices = response.get("choices")?.as_array()?;
    let calls = choices.iter().filter_map(|choice| choice.get("message")?.get("tool_calls")?.as_array()).flatten();
    let call = calls.into_iter().find(|call| call.get("id").and_then(Value::as_str) == Some(call_id))?;
    match call.get("function")?.get("arguments")? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
