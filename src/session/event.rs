//! The events of the log, typed where their meaning matters and raw where it does not.

use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::SessionError;
use super::header::{RequestContext, RequestHeader};
use super::records::{
    AssistantChunk, AssistantMessage, CompactionEnd, CompactionPrune, CompactionStart, CompactionSummary, EndSeed,
    RequestHeaderEvent, StepMark, ToolCallStart, ToolResultMessage, TurnEnd, TurnStart,
};
use crate::message::{Extra, Message, Usage};

/// Position of an event in its log, counted from 0.
pub type Seq = u64;

/// A JSON value kept as its text, compact and without line ends.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The JSON text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The value, parsed.
    pub fn to_value(&self) -> Value {
        // The text was valid JSON when it came in.
        serde_json::from_str(self.text()).unwrap_or(Value::Null)
    }
}

impl From<&Value> for RawJson {
    fn from(value: &Value) -> Self {
        let raw = RawValue::from_string(value.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self(raw)
    }
}

impl From<Value> for RawJson {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        let parsed = |raw: &Self| serde_json::from_str::<Value>(raw.text()).ok();
        // What is too deep to be parsed is compared as text alone.
        self.text() == other.text() || parsed(self).is_some_and(|value| Some(value) == parsed(other))
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        // A line end inside would tear the line that the event is written on; only white space between tokens can hold one.
        if raw.get().contains(['\n', '\r']) {
            let value: Value = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
            return Ok(Self::from(value));
        }
        Ok(Self(raw))
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Where a surface event goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceOp {
    /// To the tail of the surface.
    Append,
    /// In the place of the inclusive run of current nodes from `start` to `end`, named by their seqs. The run is one of
    /// positions: a replaced node has a high seq at an old place, so `start` may exceed `end`.
    Replace {
        /// Seq of the first node of the run.
        start: Seq,
        /// Seq of the last node of the run.
        end: Seq,
    },
}

impl SurfaceOp {
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        if value == "append" {
            return Some(Self::Append);
        }
        let map = value.as_object()?;
        let known = map.len() == 3 && map.get("op").is_some_and(|op| op == "replace");
        let seq = |key| map.get(key).and_then(Value::as_u64);
        match (known, seq("start"), seq("end")) {
            (true, Some(start), Some(end)) => Some(Self::Replace { start, end }),
            _ => None,
        }
    }
}

impl Serialize for SurfaceOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Append => serializer.serialize_str("append"),
            Self::Replace { start, end } => {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("op", "replace")?;
                map.serialize_entry("start", start)?;
                map.serialize_entry("end", end)?;
                map.end()
            }
        }
    }
}

/// What an event says.
///
/// A log-only event of a known type whose data has another shape is read as [`EventData::Other`]: carried, not interpreted.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventData {
    /// `turn/start`
    TurnStart(TurnStart),
    /// `turn/end`
    TurnEnd(Box<TurnEnd>),
    /// `step/start`
    StepStart(StepMark),
    /// `step/end`
    StepEnd(StepMark),
    /// `user/message`
    UserMessage(Arc<Message>),
    /// `assistant/message`
    AssistantMessage(Box<AssistantMessage>),
    /// `tool/call`
    ToolCall(Box<ToolCallStart>),
    /// `tool/result`
    ToolResult(Box<ToolResultMessage>),
    /// `assistant/chunk`
    AssistantChunk(Box<AssistantChunk>),
    /// `request/header`
    RequestHeader(Box<RequestHeaderEvent>),
    /// `request/context`
    RequestContext(Box<RequestContext>),
    /// `session/end-seed`
    EndSeed(EndSeed),
    /// `compaction/start`
    CompactionStart(Box<CompactionStart>),
    /// `compaction/summary`
    CompactionSummary(Box<CompactionSummary>),
    /// `compaction/end`
    CompactionEnd(Box<CompactionEnd>),
    /// `compaction/prune`
    CompactionPrune(Box<CompactionPrune>),
    /// Any other event, carried unchanged.
    Other {
        /// The event's type.
        kind: Box<str>,
        /// Its data.
        data: RawJson,
    },
}

/// Event types that stand on the surface.
pub(crate) const SURFACE_KINDS: [&str; 3] = ["user/message", "assistant/message", "tool/result"];

impl EventData {
    /// The event's type as the log writes it.
    pub fn kind(&self) -> &str {
        match self {
            Self::TurnStart(_) => "turn/start",
            Self::TurnEnd(_) => "turn/end",
            Self::StepStart(_) => "step/start",
            Self::StepEnd(_) => "step/end",
            Self::UserMessage(_) => "user/message",
            Self::AssistantMessage(_) => "assistant/message",
            Self::ToolCall(_) => "tool/call",
            Self::ToolResult(_) => "tool/result",
            Self::AssistantChunk(_) => "assistant/chunk",
            Self::RequestHeader(_) => "request/header",
            Self::RequestContext(_) => "request/context",
            Self::EndSeed(_) => "session/end-seed",
            Self::CompactionStart(_) => "compaction/start",
            Self::CompactionSummary(_) => "compaction/summary",
            Self::CompactionEnd(_) => "compaction/end",
            Self::CompactionPrune(_) => "compaction/prune",
            Self::Other { kind, .. } => kind,
        }
    }

    /// The message of a surface event.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match self {
            Self::UserMessage(message) => Some(message),
            Self::AssistantMessage(data) => Some(&data.message),
            Self::ToolResult(data) => Some(&data.message),
            _ => None,
        }
    }

    /// Reads the data of an event of type `kind`.
    pub(crate) fn read(kind: &str, data: &RawValue) -> Result<Self, serde_json::Error> {
        fn of<'a, T: Deserialize<'a>>(data: &'a RawValue) -> Result<T, serde_json::Error> {
            serde_json::from_str(data.get())
        }
        let log_only = match kind {
            "user/message" => return Ok(Self::UserMessage(of(data)?)),
            "assistant/message" => return Ok(Self::AssistantMessage(of(data)?)),
            "tool/result" => return Ok(Self::ToolResult(of(data)?)),
            "request/header" => return Ok(Self::RequestHeader(of(data)?)),
            "turn/start" => of(data).map(Self::TurnStart),
            "turn/end" => of(data).map(Self::TurnEnd),
            "step/start" => of(data).map(Self::StepStart),
            "step/end" => of(data).map(Self::StepEnd),
            "tool/call" => of(data).map(Self::ToolCall),
            "assistant/chunk" => of(data).map(Self::AssistantChunk),
            "request/context" => of(data).map(Self::RequestContext),
            "session/end-seed" => of(data).map(Self::EndSeed),
            "compaction/start" => of(data).map(Self::CompactionStart),
            "compaction/summary" => of(data).map(Self::CompactionSummary),
            "compaction/end" => of(data).map(Self::CompactionEnd),
            "compaction/prune" => of(data).map(Self::CompactionPrune),
            _ => {
                return Ok(Self::Other { kind: kind.into(), data: of(data)? });
            }
        };
        match log_only {
            Ok(data) => Ok(data),
            Err(_) => Ok(Self::Other { kind: kind.into(), data: of(data)? }),
        }
    }
}

impl Serialize for EventData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::TurnStart(data) => data.serialize(serializer),
            Self::TurnEnd(data) => data.serialize(serializer),
            Self::StepStart(data) | Self::StepEnd(data) => data.serialize(serializer),
            Self::UserMessage(data) => data.serialize(serializer),
            Self::AssistantMessage(data) => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("turn", &data.turn)?;
                map.serialize_entry("step", &data.step)?;
                map.serialize_entry("message", &MessageInOrder(&data.message, ["role", "content", "source", "id"]))?;
                if let Some(usage) = &data.usage {
                    map.serialize_entry("usage", usage)?;
                }
                if let Some(interrupted) = &data.interrupted {
                    map.serialize_entry("interrupted", interrupted)?;
                }
                data.extra.serialize_into(&mut map, |key| match key {
                    "usage" => data.usage.is_some(),
                    "interrupted" => data.interrupted.is_some(),
                    _ => matches!(key, "turn" | "step" | "message"),
                })?;
                map.end()
            }
            Self::ToolCall(data) => data.serialize(serializer),
            Self::ToolResult(data) => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("turn", &data.turn)?;
                map.serialize_entry("step", &data.step)?;
                map.serialize_entry("message", &MessageInOrder(&data.message, ["source", "content", "role", "id"]))?;
                data.extra.serialize_into(&mut map, |key| matches!(key, "turn" | "step" | "message"))?;
                map.end()
            }
            Self::AssistantChunk(data) => data.serialize(serializer),
            Self::RequestHeader(data) => data.serialize(serializer),
            Self::RequestContext(data) => data.serialize(serializer),
            Self::EndSeed(data) => data.serialize(serializer),
            Self::CompactionStart(data) => data.serialize(serializer),
            Self::CompactionSummary(data) => data.serialize(serializer),
            Self::CompactionEnd(data) => data.serialize(serializer),
            Self::CompactionPrune(data) => data.serialize(serializer),
            Self::Other { data, .. } => data.serialize(serializer),
        }
    }
}

/// The harness writes the fields of a message in an order that depends on the event; its files are compared byte for byte.
struct MessageInOrder<'a>(&'a Message, [&'static str; 4]);

impl Serialize for MessageInOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(message, order) = self;
        let mut map = serializer.serialize_map(None)?;
        for key in order {
            match *key {
                "role" => map.serialize_entry(key, &message.role)?,
                "content" => map.serialize_entry(key, &message.content)?,
                "source" => map.serialize_entry(key, &message.source)?,
                _ => map.serialize_entry("id", &message.id)?,
            }
        }
        message.extra.serialize_into(&mut map, |key| order.contains(&key))?;
        map.end()
    }
}

/// An event in a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Position in the log.
    pub seq: Seq,
    /// Milliseconds since the epoch.
    pub time: i64,
    /// What it says.
    pub data: EventData,
    /// Whether a reader that does not know the event may pass over it.
    pub ignorable: bool,
    /// The earlier events that it was made from.
    pub sources: Option<Box<[Seq]>>,
    /// Where it goes on the surface; none for log-only events.
    pub surface_op: Option<SurfaceOp>,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.data.kind())?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("time", &self.time)?;
        map.serialize_entry("data", &self.data)?;
        if self.ignorable {
            map.serialize_entry("ignorable", &true)?;
        }
        if let Some(sources) = &self.sources {
            map.serialize_entry("sourceEventSeqs", sources)?;
        }
        if let Some(op) = &self.surface_op {
            map.serialize_entry("surfaceOp", op)?;
        }
        map.end()
    }
}

impl Event {
    /// Reads an event from its JSON text. Envelope and shape are checked; whether it fits a log is checked by the session.
    pub fn from_json(text: &str) -> Result<Self, SessionError> {
        let envelope = Envelope::read(text)?;
        let invalid = |field: &'static str| SessionError::Envelope { kind: envelope.kind.clone(), field };
        let seq = envelope.seq.as_ref().and_then(Value::as_u64).ok_or_else(|| invalid("seq"))?;
        if envelope.time.is_none() {
            return Err(invalid("time"));
        }
        Ok(envelope.into_draft()?.into_event(seq, 0))
    }

    /// The compact JSON text of the event, without a line end.
    pub fn to_json(&self) -> String {
        // Keys are strings and numbers are finite: serialisation cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// An event before it has a place in a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// What it says.
    pub data: EventData,
    /// Milliseconds since the epoch; none takes the time of the last event, or 0 in an empty log.
    pub time: Option<i64>,
    /// Whether a reader that does not know the event may pass over it.
    pub ignorable: bool,
    /// The earlier events that it was made from.
    pub sources: Option<Vec<Seq>>,
    /// Where it goes on the surface; needed for the three surface types and refused for others.
    pub surface_op: Option<SurfaceOp>,
}

impl Draft {
    /// A draft that appends a message to the surface, or logs anything else.
    pub fn new(data: EventData) -> Self {
        let surface_op = data.message().map(|_| SurfaceOp::Append);
        Self { data, time: None, ignorable: false, sources: None, surface_op }
    }

    /// A `user/message`: what the person typed, or what a host injects.
    pub fn user(message: Message) -> Self {
        Self::new(EventData::UserMessage(Arc::new(message)))
    }

    /// An `assistant/message` of the given turn and step.
    pub fn assistant(turn: u64, step: u64, message: Message, usage: Option<Usage>) -> Self {
        let extra = Extra::default();
        let message = Arc::new(message);
        Self::new(EventData::AssistantMessage(Box::new(AssistantMessage {
            turn,
            step,
            message,
            usage,
            interrupted: None,
            extra,
        })))
    }

    /// A `tool/result` of the given turn and step.
    pub fn tool_result(turn: u64, step: u64, message: Message) -> Self {
        let (message, extra) = (Arc::new(message), Extra::default());
        Self::new(EventData::ToolResult(Box::new(ToolResultMessage { turn, step, message, extra })))
    }

    /// A `turn/start`.
    pub fn turn_start(turn: u64) -> Self {
        Self::new(EventData::TurnStart(TurnStart { turn, extra: Extra::default() }))
    }

    /// A `turn/end` with reason `completed`.
    pub fn turn_end(turn: u64) -> Self {
        let reason = RawJson::from(serde_json::json!({ "kind": "completed" }));
        Self::new(EventData::TurnEnd(Box::new(TurnEnd { turn, reason, extra: Extra::default() })))
    }

    /// A `step/start`.
    pub fn step_start(turn: u64, step: u64) -> Self {
        Self::new(EventData::StepStart(StepMark { turn, step, extra: Extra::default() }))
    }

    /// A `step/end`.
    pub fn step_end(turn: u64, step: u64) -> Self {
        Self::new(EventData::StepEnd(StepMark { turn, step, extra: Extra::default() }))
    }

    /// A `request/header` with reason `change`.
    pub fn request_header(header: RequestHeader) -> Self {
        let (reason, extra) = ("change".to_owned(), Extra::default());
        Self::new(EventData::RequestHeader(Box::new(RequestHeaderEvent { header, reason, extra })))
    }

    /// A `request/context`.
    pub fn request_context(context: RequestContext) -> Self {
        Self::new(EventData::RequestContext(Box::new(context)))
    }

    /// Sets the time, in milliseconds since the epoch.
    pub fn at(mut self, time: i64) -> Self {
        self.time = Some(time);
        self
    }

    /// Sets the earlier events that it was made from.
    pub fn citing(mut self, sources: Vec<Seq>) -> Self {
        self.sources = Some(sources);
        self
    }

    /// Puts it in the place of the inclusive run of current nodes from `start` to `end`.
    pub fn replacing(mut self, start: Seq, end: Seq) -> Self {
        self.surface_op = Some(SurfaceOp::Replace { start, end });
        self
    }

    /// Reads a draft from JSON: an event without `seq`, and with or without `time`.
    pub fn from_json(text: &str) -> Result<Self, SessionError> {
        let envelope = Envelope::read(text)?;
        if envelope.seq.is_some() {
            return Err(SessionError::Envelope { kind: envelope.kind, field: "seq" });
        }
        envelope.into_draft()
    }

    /// The event with its place in the log; one without a time takes the one of the event before it.
    pub(super) fn into_event(self, seq: Seq, last_time: i64) -> Event {
        Event {
            seq,
            time: self.time.unwrap_or(last_time),
            data: self.data,
            ignorable: self.ignorable,
            sources: self.sources.map(Vec::into_boxed_slice),
            surface_op: self.surface_op,
        }
    }
}

/// An event's outer fields, before their shapes are checked.
struct Envelope<'a> {
    kind: String,
    seq: Option<Value>,
    time: Option<Value>,
    data: &'a RawValue,
    ignorable: Option<Value>,
    sources: Option<Value>,
    surface_op: Option<Value>,
}

impl<'a> Envelope<'a> {
    fn read(text: &'a str) -> Result<Self, SessionError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct Fields<'a> {
            #[serde(rename = "type")]
            kind: String,
            #[serde(default, deserialize_with = "present")]
            seq: Option<Value>,
            #[serde(default, deserialize_with = "present")]
            time: Option<Value>,
            #[serde(borrow)]
            data: &'a RawValue,
            #[serde(default, deserialize_with = "present")]
            ignorable: Option<Value>,
            #[serde(default, deserialize_with = "present")]
            source_event_seqs: Option<Value>,
            #[serde(default, deserialize_with = "present")]
            surface_op: Option<Value>,
        }
        fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
            Value::deserialize(deserializer).map(Some)
        }
        let fields: Fields<'a> = serde_json::from_str(text).map_err(SessionError::Json)?;
        Ok(Self {
            kind: fields.kind,
            seq: fields.seq,
            time: fields.time,
            data: fields.data,
            ignorable: fields.ignorable,
            sources: fields.source_event_seqs,
            surface_op: fields.surface_op,
        })
    }

    fn into_draft(self) -> Result<Draft, SessionError> {
        let kind = self.kind;
        let invalid = |field: &'static str| SessionError::Envelope { kind: kind.clone(), field };
        if self.ignorable.as_ref().is_some_and(|value| value != &Value::Bool(true)) {
            return Err(invalid("ignorable"));
        }
        let time = match &self.time {
            Some(value) => Some(value.as_i64().ok_or_else(|| invalid("time"))?),
            None => None,
        };
        if !SURFACE_KINDS.contains(&kind.as_str()) {
            if self.surface_op.is_some() {
                return Err(SessionError::UnexpectedSurfaceOp { kind });
            }
            if self.sources.is_some() {
                return Err(SessionError::UnexpectedSources { kind });
            }
        }
        let surface_op = match &self.surface_op {
            Some(value) => Some(
                SurfaceOp::from_value(value)
                    .ok_or_else(|| SessionError::InvalidSurfaceOp { kind: kind.clone(), value: value.to_string() })?,
            ),
            None => None,
        };
        let sources = match &self.sources {
            Some(Value::Array(items)) => Some(
                items
                    .iter()
                    .map(|item| item.as_u64().ok_or_else(|| SessionError::InvalidSource { value: item.to_string() }))
                    .collect::<Result<Vec<Seq>, _>>()?,
            ),
            Some(other) => {
                return Err(SessionError::InvalidSource { value: other.to_string() });
            }
            None => None,
        };
        let data =
            EventData::read(&kind, self.data).map_err(|error| SessionError::Data { kind: kind.clone(), error })?;
        Ok(Draft { data, time, ignorable: self.ignorable.is_some(), sources, surface_op })
    }
}
