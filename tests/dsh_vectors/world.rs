//! What stands around a session while an op changes it: a sink that fails on demand, a scripted summariser, signals, and the
//! record of what happened.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use arya_presets::{Baseline, Event, EventData, Meter, Seq, Session};
use serde_json::{Map, Value, json};

use crate::compare::rename;
use crate::host::{Answer, Failure};
use crate::log_ops::{harness_meter, loaded, parsed};
use crate::script::{Script, Signals, text_of_error};
use crate::sink::{FailRule, FailingSink, SinkState, locked};
use crate::vector::Vector;

/// A session under test and everything that its vector arranges around it.
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) meter: Meter,
    pub(crate) script: Script,
    pub(crate) signals: Signals,
    pub(crate) maintenance: Maintenance,
    sink: Arc<Mutex<SinkState>>,
    seed: usize,
    /// Ids that were not made while the op ran.
    known_ids: HashSet<String>,
    injected: Vec<String>,
}

impl World {
    pub(crate) fn new(vector: &Vector) -> Result<Self, String> {
        let mut session = loaded(vector)?;
        let signals = Signals::read(vector.arg("signal"))?;
        let script = Script::read(vector.arg("summarizer"), signals.clone())?;
        let rules: Vec<FailRule> = vector.arg("failAppends").map_or(Ok(Vec::new()), parsed)?;
        let faults = script.error_messages().chain(rules.iter().map(|rule| rule.message.as_str()));
        let injected = faults.filter(|text| !text.is_empty()).map(str::to_owned).collect();
        let flush_error = vector.arg("flush").and_then(|flush| flush.get("error")).map(text_of_error);
        let mut known_ids: HashSet<String> = script.message_ids().map(str::to_owned).collect();
        for event in session.events() {
            known_ids.extend(ids_of(event).map(str::to_owned));
        }
        let sink = Arc::new(Mutex::new(SinkState::new(rules, flush_error)));
        session.set_sink(Box::new(FailingSink::new(Arc::clone(&sink), signals.clone())));
        let seed = session.events().len();
        let maintenance = Maintenance { agent_busy: is_truthy(vector.arg("agentBusy")), ..Maintenance::default() };
        Ok(Self { session, meter: harness_meter(), script, signals, maintenance, sink, seed, known_ids, injected })
    }

    pub(crate) fn flushes(&self) -> u64 {
        locked(&self.sink).flushes()
    }

    /// Texts that a failed `compaction/end` must repeat where the harness repeats them.
    pub(crate) fn injected(&self) -> &[String] {
        &self.injected
    }

    pub(crate) fn total_tokens(&mut self) -> Answer<u64> {
        Ok(self.meter.measure(&self.session)?.total_tokens)
    }

    fn appended(&self) -> &[Event] {
        self.session.events().get(self.seed..).unwrap_or_default()
    }

    /// The result that the harness would report of the last compaction that landed, read from the log.
    pub(crate) fn landed(&self) -> Option<Value> {
        let (seq, summary) = self.appended().iter().rev().find_map(|event| match &event.data {
            EventData::CompactionSummary(summary) => Some((event.seq, summary)),
            _ => None,
        })?;
        let id = &summary.compaction_id;
        let seq_of = |is_it: &dyn Fn(&EventData) -> bool| -> Option<Seq> {
            self.appended().iter().rev().find(|event| is_it(&event.data)).map(|event| event.seq)
        };
        let start = seq_of(&|data| matches!(data, EventData::CompactionStart(start) if &start.compaction_id == id))?;
        let end = seq_of(&|data| matches!(data, EventData::CompactionEnd(end) if &end.compaction_id == id))?;
        let mut result = json!({
            "compactionId": id,
            "startSeq": start,
            "summarySeq": seq,
            "summary": summary.summary,
            "shadowedRange": summary.shadowed_range,
            "shadowedSeqs": summary.shadowed_seqs,
            "shadowedTokenCount": summary.shadowed_token_count,
            "endSeq": end,
        });
        if let Some(command) = &summary.source_command_id {
            result["sourceCommandId"] = json!(command);
        }
        Some(result)
    }

    /// The outcome of an op with everything that it left behind, ids renamed.
    pub(crate) fn outcome<T: serde::Serialize>(&self, answer: Answer<T>) -> Map<String, Value> {
        let mut outcome = Map::new();
        match answer {
            Ok(result) => outcome.insert("result".into(), json!(result)),
            Err(failure) => outcome.insert("error".into(), failure.to_json()),
        };
        outcome.insert("appended".into(), events_json(&self.session, self.seed).into());
        outcome.extend(standing(&self.session));
        outcome.insert("measureAfter".into(), measured(&self.session));
        outcome.insert("summarizerCalls".into(), json!(self.script.given()));
        let names = self.new_ids();
        outcome.values_mut().for_each(|value| rename(value, &names));
        outcome
    }

    /// The ids that were made while the op ran, with the names that vectors give them.
    fn new_ids(&self) -> Vec<(String, String)> {
        let mut names: Vec<(String, String)> = Vec::new();
        let (mut messages, mut compactions) = (0, 0);
        for event in self.appended() {
            for id in ids_of(event) {
                if self.known_ids.contains(id) || names.iter().any(|(known, _)| known == id) {
                    continue;
                }
                let (kind, count) = match event.data.message() {
                    Some(_) => ("message", &mut messages),
                    None => ("compaction", &mut compactions),
                };
                *count += 1;
                names.push((id.to_owned(), format!("<new-{kind}-{count}>")));
            }
        }
        names
    }
}

fn ids_of(event: &Event) -> impl Iterator<Item = &str> {
    let compaction = match &event.data {
        EventData::CompactionStart(start) => Some(start.compaction_id.as_str()),
        _ => None,
    };
    event.data.message().map(|message| message.id.as_str()).into_iter().chain(compaction)
}

pub(crate) fn node_seqs(session: &Session) -> Vec<Seq> {
    session.nodes().iter().map(|node| node.seq).collect()
}

pub(crate) fn derived_ids(session: &Session) -> Vec<&str> {
    session.messages().map(|message| message.id.as_str()).collect()
}

/// The events from an index on, without their times.
pub(crate) fn events_json(session: &Session, from: usize) -> Vec<Value> {
    let events = session.events().get(from..).unwrap_or_default();
    let mut events: Vec<Value> = events.iter().map(|event| json!(event)).collect();
    for event in events.iter_mut().filter_map(Value::as_object_mut) {
        event.shift_remove("time");
    }
    events
}

pub(crate) fn appended_mut(expected: &mut Value) -> Result<&mut Vec<Value>, String> {
    expected
        .get_mut("appended")
        .and_then(Value::as_array_mut)
        .ok_or_else(|| "the vector has no expected.appended".into())
}

/// The surface and the ids of its messages.
pub(crate) fn standing(session: &Session) -> Map<String, Value> {
    let mut standing = Map::new();
    let surface = json!({ "nodes": node_seqs(session), "replaceGeneration": session.generation() });
    standing.insert("surface".into(), surface);
    standing.insert("derivedIds".into(), json!(derived_ids(session)));
    standing
}

/// The measurement of a session, as vectors report it after an op.
pub(crate) fn measured(session: &Session) -> Value {
    match harness_meter().measure(session) {
        Ok(measured) => json!({
            "totalTokens": measured.total_tokens,
            "surfaceTokens": measured.surface_tokens,
            "surfaceDeltaTokens": measured.surface_delta_tokens,
            "baseline": { "kind": measured.baseline.kind(), "tokens": measured.baseline.tokens() },
        }),
        Err(error) => json!({ "error": Failure::from(error).to_json() }),
    }
}

pub(crate) fn baseline(baseline: &Baseline) -> Value {
    let mut json = json!({ "kind": baseline.kind(), "tokens": baseline.tokens() });
    if let Baseline::Usage { usage, .. } = baseline {
        json["usage"] = json!(usage);
    }
    json
}

fn is_truthy(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)) && value != &json!(0))
}

/// The agent's idle claim.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    pub(crate) agent_busy: bool,
    pub(crate) claims: u64,
    pub(crate) releases: u64,
}

impl Maintenance {
    pub(crate) fn claim(&mut self) -> bool {
        self.claims += 1;
        !self.agent_busy
    }

    pub(crate) fn release(&mut self) {
        self.releases += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Request;

    fn world() -> World {
        let vector = json!({
            "name": "n", "op": "o", "expected": {},
            "input": {"events": [
                {"type": "user/message", "seq": 0, "time": 1, "surfaceOp": "append",
                 "data": {"id": "old", "role": "user", "content": [], "source": {"kind": "user"}}},
            ]},
            "args": {"summarizer": {"calls": [{
                "summary": [{"type": "text", "text": "s"}], "provider": "p", "model": "m",
                "during": [{"type": "user/message", "surfaceOp": "append",
                            "data": {"id": "rival", "role": "user", "content": [], "source": {"kind": "user"}}}],
            }]}},
        });
        World::new(&serde_json::from_str(&vector.to_string()).unwrap()).unwrap()
    }

    fn append(world: &mut World, event: &Value) {
        world.session.append(arya_presets::Draft::from_json(&event.to_string()).unwrap()).unwrap();
    }

    #[test]
    fn the_result_is_read_from_the_log_and_new_ids_are_renamed() {
        let mut world = world();
        append(&mut world, &json!({"type": "compaction/start", "data": {"compactionId": "c-9", "turn": null}}));
        let request = Request { message_ids: vec!["old".into()], ..Request::default() };
        world.script.call(&mut world.session, &request).unwrap();
        let range = json!({"start": 0, "end": 0});
        append(
            &mut world,
            &json!({"type": "compaction/summary", "data": {
                "compactionId": "c-9", "sourceCommandId": "k", "summary": [], "shadowedRange": range,
                "shadowedSeqs": [0], "shadowedTokenCount": 4, "provider": "p", "model": "m"}}),
        );
        append(
            &mut world,
            &json!({"type": "user/message", "sourceEventSeqs": [1, 3, 0], "surfaceOp": {"op": "replace", "start": 0, "end": 0},
                   "data": {"id": "made", "role": "user", "content": [],
                            "source": {"kind": "plugin", "plugin": "compact", "compactionId": "c-9"}}}),
        );
        append(&mut world, &json!({"type": "compaction/end", "data": {"compactionId": "c-9", "turn": null}}));
        let outcome = Value::from(world.outcome(Ok(world.landed())));
        let result = json!({
            "compactionId": "<new-compaction-1>", "startSeq": 1, "summarySeq": 3, "summary": [], "shadowedRange": range,
            "shadowedSeqs": [0], "shadowedTokenCount": 4, "endSeq": 5, "sourceCommandId": "k",
        });
        assert_eq!(outcome["result"], result);
        assert_eq!(outcome["derivedIds"], json!(["<new-message-1>", "rival"]));
        assert_eq!(outcome["surface"], json!({"nodes": [4, 2], "replaceGeneration": 1}));
        assert_eq!(
            outcome["appended"][4],
            json!({"type": "compaction/end", "seq": 5,
            "data": {"compactionId": "<new-compaction-1>", "turn": null}})
        );
        assert_eq!(world.script.given(), [json!({"messageIds": ["old"]})]);
    }
}
