//! Packed rows: a run of pieces of one block, written as one line.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::{Event, EventData, RawJson, Seq};
use super::records::AssistantChunk;
use crate::message::Extra;

/// Runs shorter than this are written event by event.
const SHORTEST_RUN: usize = 3;

/// A packed row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    r#type: RowKind,
    seq0: Seq,
    time0: i64,
    data: RowData,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum RowKind {
    #[serde(rename = "text-chunks")]
    Text,
    #[serde(rename = "reasoning-chunks")]
    Reasoning,
    #[serde(rename = "tool-call-chunks")]
    ToolCall,
}

impl RowKind {
    fn delta(self) -> &'static str {
        match self {
            Self::Text => "text-delta",
            Self::Reasoning => "reasoning-delta",
            Self::ToolCall => "tool-call-delta",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowData {
    turn: u64,
    step: u64,
    index: u64,
    /// Milliseconds from each event to the next.
    dt: Vec<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    texts: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// A piece that can be packed: everything but its text is what the run has in common.
#[derive(Debug, Clone, PartialEq)]
struct Piece {
    kind: RowKind,
    turn: u64,
    step: u64,
    index: u64,
    id: Option<String>,
    name: Option<String>,
    text: String,
}

impl Piece {
    fn of(event: &Event) -> Option<Self> {
        let EventData::AssistantChunk(data) = &event.data else { return None };
        if event.ignorable || !data.extra.is_empty() {
            return None;
        }
        let Value::Object(mut chunk) = data.chunk.to_value() else { return None };
        let kind = match chunk.shift_remove("type")?.as_str()? {
            "text-delta" => RowKind::Text,
            "reasoning-delta" => RowKind::Reasoning,
            "tool-call-delta" => RowKind::ToolCall,
            _ => return None,
        };
        let index = chunk.shift_remove("index")?.as_u64()?;
        let is_call = kind == RowKind::ToolCall;
        let text = match chunk.shift_remove(if is_call { "argumentsDelta" } else { "text" })? {
            Value::String(text) => text,
            _ => return None,
        };
        let (id, name) = if is_call {
            let id = chunk.shift_remove("id")?.as_str()?.to_owned();
            let name = match chunk.shift_remove("name") {
                None => None,
                Some(Value::String(name)) => Some(name),
                Some(_) => return None,
            };
            (Some(id), name)
        } else {
            (None, None)
        };
        chunk.is_empty().then_some(Self { kind, turn: data.turn, step: data.step, index, id, name, text })
    }

    fn continues(&self, earlier: &Self) -> bool {
        (self.kind, self.turn, self.step, self.index, &self.id, &self.name)
            == (earlier.kind, earlier.turn, earlier.step, earlier.index, &earlier.id, &earlier.name)
    }
}

/// The lines of events, without their line ends; runs of pieces of one block are packed.
pub(super) fn pack(events: &[Event]) -> Vec<String> {
    let mut lines = Vec::with_capacity(events.len());
    let mut rest = events;
    while let Some((first, _)) = rest.split_first() {
        let run = run_length(rest);
        let (taken, left) = rest.split_at(run.max(1).min(rest.len()));
        match (run >= SHORTEST_RUN).then(|| row(taken)).flatten() {
            Some(row) => lines.push(serde_json::to_string(&row).unwrap_or_default()),
            None if run >= SHORTEST_RUN => lines.push(first.to_json()),
            None => lines.extend(taken.iter().map(Event::to_json)),
        }
        rest = left;
    }
    lines
}

fn run_length(events: &[Event]) -> usize {
    let Some(first) = events.first().and_then(Piece::of) else { return 0 };
    let mut run = 1;
    for pair in events.windows(2) {
        let [before, event] = pair else { break };
        let follows = event.seq == before.seq + 1 && event.time.checked_sub(before.time).is_some();
        if !follows || !Piece::of(event).is_some_and(|piece| piece.continues(&first)) {
            break;
        }
        run += 1;
    }
    run
}

fn row(events: &[Event]) -> Option<Row> {
    let first = events.first()?;
    let head = Piece::of(first)?;
    let texts: Vec<String> = events.iter().filter_map(Piece::of).map(|piece| piece.text).collect();
    let dt = events.windows(2).filter_map(|pair| Some(pair.last()?.time - pair.first()?.time)).collect();
    let is_call = head.kind == RowKind::ToolCall;
    let (texts, args) = if is_call { (None, Some(texts)) } else { (Some(texts), None) };
    Some(Row {
        r#type: head.kind,
        seq0: first.seq,
        time0: first.time,
        data: RowData {
            turn: head.turn,
            step: head.step,
            index: head.index,
            dt,
            texts,
            args,
            id: head.id,
            name: head.name,
        },
    })
}

/// The events of a packed row; none for a line that is no row, an error for a row that is malformed.
pub(super) fn unpack(line: &str) -> Option<Result<Vec<Event>, serde_json::Error>> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        r#type: std::borrow::Cow<'a, str>,
        seq: Option<serde::de::IgnoredAny>,
    }
    // A row states its type first; looking at the beginning spares every other line a second parse.
    let head = line.get(..line.len().min(40)).unwrap_or(line);
    if !head.contains("-chunks\"") {
        return None;
    }
    let kind = serde_json::from_str::<Kind<'_>>(line).ok()?;
    // An event has one seq and a row has many, so a host's event of the same type is none.
    if !matches!(&*kind.r#type, "text-chunks" | "reasoning-chunks" | "tool-call-chunks") || kind.seq.is_some() {
        return None;
    }
    Some(serde_json::from_str::<Row>(line).and_then(|row| events_of(&row)))
}

fn events_of(row: &Row) -> Result<Vec<Event>, serde_json::Error> {
    let wrong = |what: &str| Err(serde::de::Error::custom(format!("packed row at seq {}: {what}", row.seq0)));
    let is_call = row.r#type == RowKind::ToolCall;
    let (texts, other) = if is_call { (&row.data.args, &row.data.texts) } else { (&row.data.texts, &row.data.args) };
    let Some(texts) = texts.as_ref().filter(|texts| !texts.is_empty()) else {
        return wrong("it must list the texts of its pieces");
    };
    if other.is_some() || is_call != row.data.id.is_some() || (row.data.name.is_some() && !is_call) {
        return wrong("its fields do not belong to its type");
    }
    if row.data.dt.len() + 1 != texts.len() {
        return wrong("it must list one gap between each two pieces");
    }
    let mut time = row.time0;
    let mut gaps = row.data.dt.iter();
    let mut events = Vec::with_capacity(texts.len());
    for (offset, text) in texts.iter().enumerate() {
        let Some(seq) = row.seq0.checked_add(offset as u64) else { return wrong("its seqs overflow") };
        if offset > 0 {
            let gap = gaps.next().copied().unwrap_or(0);
            match time.checked_add(gap) {
                Some(next) => time = next,
                None => return wrong("its times overflow"),
            }
        }
        events.push(Event {
            seq,
            time,
            data: EventData::AssistantChunk(Box::new(AssistantChunk {
                turn: row.data.turn,
                step: row.data.step,
                chunk: RawJson::from(chunk_of(row, text)),
                extra: Extra::default(),
            })),
            ignorable: false,
            sources: None,
            surface_op: None,
        });
    }
    Ok(events)
}

fn chunk_of(row: &Row, text: &str) -> Value {
    let mut chunk = serde_json::Map::new();
    chunk.insert("type".into(), row.r#type.delta().into());
    chunk.insert("index".into(), row.data.index.into());
    if let Some(id) = &row.data.id {
        chunk.insert("id".into(), id.as_str().into());
    }
    if let Some(name) = &row.data.name {
        chunk.insert("name".into(), name.as_str().into());
    }
    chunk.insert(if row.data.id.is_some() { "argumentsDelta" } else { "text" }.into(), text.into());
    Value::Object(chunk)
}
