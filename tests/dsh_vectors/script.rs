//! The scripted summariser, and the signals that fire while it or the flush is at work.

use std::sync::{Arc, Mutex};

use arya_presets::{Block, Draft, Session, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::log_ops::parsed;
use crate::sink::locked;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Start,
    Summary,
    Flush,
}

#[derive(Debug, Default)]
struct SignalState {
    armed: Option<(Moment, Who, Value)>,
    fired: Option<(Who, Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Caller,
    Agent,
}

/// The caller's and the agent's cancellation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals(Arc<Mutex<SignalState>>);

impl Signals {
    pub(crate) fn read(signal: Option<&Value>) -> Result<Self, String> {
        let signals = Self::default();
        if let Some(signal) = signal {
            let text = signal.get("kind").and_then(Value::as_str).unwrap_or_default();
            let (who, kind) = text.strip_prefix("agent-").map_or((Who::Caller, text), |kind| (Who::Agent, kind));
            let moment = match kind {
                "pre-aborted" => Moment::Start,
                "abort-during-summary" => Moment::Summary,
                "abort-during-flush" => Moment::Flush,
                _ => return Err(format!("no signal is of kind {text:?}")),
            };
            let reason = signal.get("reason").cloned().unwrap_or(Value::Null);
            locked(&signals.0).armed = Some((moment, who, reason));
            signals.reach(Moment::Start);
        }
        Ok(signals)
    }

    /// Fires the signal that is armed for this moment.
    pub(crate) fn reach(&self, now: Moment) {
        let mut state = locked(&self.0);
        if let Some((_, who, reason)) = state.armed.take_if(|(moment, ..)| *moment == now) {
            state.fired = Some((who, reason));
        }
    }

    fn fired_by(&self, who: Who) -> Option<Value> {
        locked(&self.0).fired.as_ref().filter(|(by, _)| *by == who).map(|(_, reason)| reason.clone())
    }

    /// The reason of the caller's abort.
    pub(crate) fn caller(&self) -> Option<Value> {
        self.fired_by(Who::Caller)
    }

    /// The reason of the agent's abort.
    pub(crate) fn agent(&self) -> Option<Value> {
        self.fired_by(Who::Agent)
    }
}

/// What a summary request holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) message_ids: Vec<String>,
    pub(crate) system: Option<String>,
    pub(crate) tools: Option<Vec<Value>>,
}

impl Request {
    fn to_json(&self) -> Value {
        let mut json = json!({ "messageIds": self.message_ids });
        if let Some(system) = &self.system {
            json["system"] = json!(system);
        }
        if let Some(tools) = &self.tools {
            json["tools"] = json!(tools);
        }
        json
    }
}

/// What the summariser answers.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) summary: Vec<Block>,
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) usage: Option<Usage>,
    pub(crate) raw_output: Option<Vec<Block>>,
    pub(crate) llm_stream_call: Option<Value>,
}

/// How a summary call fails.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScriptError {
    Error { message: String, cause: Option<String> },
    Thrown(Value),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Call {
    summary: Vec<Block>,
    provider: String,
    model: String,
    max_tokens: Option<u64>,
    usage: Option<Usage>,
    raw_output: Option<Vec<Block>>,
    llm_stream_call: Option<Value>,
    #[serde(default)]
    during: Vec<Value>,
    error: Option<Value>,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            summary: vec![Block::text("summary")],
            provider: "sum-prov".into(),
            model: "sum-model".into(),
            max_tokens: Some(8192),
            usage: None,
            raw_output: None,
            llm_stream_call: None,
            during: Vec::new(),
            error: None,
        }
    }
}

/// The summariser's script: what its calls answer, the last one again and again.
#[derive(Debug)]
pub(crate) struct Script {
    calls: Vec<Call>,
    given: Vec<Value>,
    signals: Signals,
}

impl Script {
    pub(crate) fn read(summarizer: Option<&Value>, signals: Signals) -> Result<Self, String> {
        let calls = summarizer.and_then(|summarizer| summarizer.get("calls"));
        let mut calls: Vec<Call> = calls.map_or(Ok(Vec::new()), parsed)?;
        if calls.is_empty() {
            calls.push(Call::default());
        }
        Ok(Self { calls, given: Vec::new(), signals })
    }

    /// The messages of the errors that calls throw.
    pub(crate) fn error_messages(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter_map(|call| call.error.as_ref()?.get("message")?.as_str())
    }

    /// Ids of the messages that calls append.
    pub(crate) fn message_ids(&self) -> impl Iterator<Item = &str> {
        let data = self.calls.iter().flat_map(|call| &call.during).map(|event| event.get("data"));
        data.filter_map(|data| data?.get("message").or(data)?.get("id")?.as_str())
    }

    /// What each call was given.
    pub(crate) fn given(&self) -> &[Value] {
        &self.given
    }

    pub(crate) fn call(&mut self, session: &mut Session, request: &Request) -> Result<Reply, ScriptError> {
        let call = self.calls.get(self.given.len()).or(self.calls.last()).cloned().unwrap_or_default();
        self.given.push(request.to_json());
        let failed = |message: String| ScriptError::Error { message, cause: None };
        for event in &call.during {
            let draft = Draft::from_json(&event.to_string()).map_err(|error| failed(error.to_string()))?;
            session.append(draft).map_err(|error| failed(error.to_string()))?;
        }
        self.signals.reach(Moment::Summary);
        match call.error {
            Some(error) => Err(match error.get("thrown") {
                Some(thrown) => ScriptError::Thrown(thrown.clone()),
                None => {
                    ScriptError::Error { message: text_of_error(&error), cause: error.get("cause").map(text_of_error) }
                }
            }),
            None => Ok(Reply {
                summary: call.summary,
                provider: call.provider,
                model: call.model,
                max_tokens: call.max_tokens,
                usage: call.usage,
                raw_output: call.raw_output,
                llm_stream_call: call.llm_stream_call,
            }),
        }
    }
}

/// An error that a vector injects: a text, or an object with a `message`.
pub(crate) fn text_of_error(error: &Value) -> String {
    let text = error.as_str().or_else(|| error.get("message")?.as_str());
    text.map_or_else(|| error.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_repeats_and_appends_what_happens_during_it() {
        let during = json!({"type": "todo/write", "data": {"todos": []}});
        let call = |text: &str| json!({"summary": [{"type": "text", "text": text}], "provider": "p", "model": "m"});
        let mut last = call("b");
        last["during"] = json!([during]);
        last["error"] = json!({"message": "down", "cause": {"message": "why"}});
        let mut script = Script::read(Some(&json!({"calls": [call("a"), last]})), Signals::default()).unwrap();
        let mut session = Session::new("s");
        let request = Request { message_ids: vec!["m".into()], system: Some("s".into()), tools: Some(vec![]) };
        let reply = script.call(&mut session, &request).unwrap();
        assert_eq!((reply.summary, reply.provider.as_str(), reply.model.as_str()), (vec![Block::text("a")], "p", "m"));
        assert_eq!((reply.max_tokens, reply.usage, reply.raw_output, reply.llm_stream_call), (None, None, None, None));
        for revision in 1..3 {
            let error = script.call(&mut session, &Request::default()).unwrap_err();
            assert_eq!(error, ScriptError::Error { message: "down".into(), cause: Some("why".into()) });
            assert_eq!(session.revision(), revision);
        }
        let whole = json!({"messageIds": ["m"], "system": "s", "tools": []});
        assert_eq!(script.given(), [whole, json!({"messageIds": []}), json!({"messageIds": []})]);
    }

    #[test]
    fn a_summary_may_throw_any_value() {
        let calls = json!({"calls": [{"summary": [], "provider": "p", "model": "m", "error": {"thrown": 7}}]});
        let mut script = Script::read(Some(&calls), Signals::default()).unwrap();
        let error = script.call(&mut Session::new("s"), &Request::default()).unwrap_err();
        assert_eq!(error, ScriptError::Thrown(json!(7)));
    }

    #[test]
    fn signals_fire_at_their_moment_for_their_owner() {
        let signals = |kind: &str| Signals::read(Some(&json!({"kind": kind, "reason": "r"}))).unwrap();
        assert_eq!(signals("pre-aborted").caller(), Some(json!("r")));
        let agent = signals("agent-abort-during-summary");
        assert_eq!(agent.agent(), None);
        let mut script = Script::read(None, agent.clone()).unwrap();
        script.call(&mut Session::new("s"), &Request::default()).unwrap();
        assert_eq!((agent.agent(), agent.caller()), (Some(json!("r")), None));
        let flush = signals("abort-during-flush");
        flush.reach(Moment::Summary);
        assert_eq!(flush.caller(), None);
        flush.reach(Moment::Flush);
        assert_eq!(flush.caller(), Some(json!("r")));
        assert!(Signals::read(Some(&json!({"kind": "other"}))).is_err());
    }
}
