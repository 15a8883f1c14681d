//! Reading and writing conversations: session files, and arrays of chat messages.

use std::io::{BufReader, Read, Write};
use std::path::Path;

use arya_presets::{Block, Draft, Extra, Message, RequestHeader, Role, Session, SessionHeader, Source, ToolResult};
use serde_json::{Map, Value, json};

/// The conversation that is compacted where no file is named.
const SAMPLE: &str = include_str!("../data/sample-session.jsonl");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Session,
    Chat,
}

impl Format {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Chat => "chat",
        }
    }
}

pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) session: Session,
}

/// Reads a file, standard input, or the sample. What it is, is seen from its content.
pub(crate) fn read(path: Option<&Path>) -> Result<Conversation, String> {
    let (name, bytes) = match path {
        None => ("the sample".to_owned(), SAMPLE.as_bytes().to_vec()),
        Some(path) if path == Path::new("-") => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map_err(|error| format!("standard input: {error}"))?;
            ("standard input".to_owned(), bytes)
        }
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            (path.display().to_string(), bytes)
        }
    };
    let text = String::from_utf8(bytes).map_err(|_| format!("{name}: not UTF-8 text"))?;
    let text = text.trim_start_matches('\u{feff}');
    let at = |error: String| format!("{name}: {error}");
    let (format, session) = match chat_messages(text) {
        Some(messages) => (Format::Chat, read_chat(&messages).map_err(at)?),
        None => (Format::Session, read_session(text, &name)?),
    };
    Ok(Conversation { name, format, session })
}

fn read_session(text: &str, name: &str) -> Result<Session, String> {
    let loaded = Session::resume_jsonl(BufReader::new(text.as_bytes())).map_err(|error| {
        format!("{name}: neither a session file of version 0 nor a JSON array of chat messages: {error}")
    })?;
    if let Some(line) = loaded.torn_line {
        eprintln!("{name}: line {line} was cut off and is left out");
    }
    Ok(loaded.session)
}

/// The messages of an array, or of an object that holds one under `messages`.
fn chat_messages(text: &str) -> Option<Vec<Value>> {
    match serde_json::from_str(text).ok()? {
        Value::Array(messages) => Some(messages),
        Value::Object(mut map) => match map.shift_remove("messages") {
            Some(Value::Array(messages)) => Some(messages),
            _ => None,
        },
        _ => None,
    }
}

fn read_chat(messages: &[Value]) -> Result<Session, String> {
    let mut session = Session::with_header(SessionHeader::new("chat", 0));
    let mut system = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = |what: &str| format!("message {index}: {what}");
        let role = message.get("role").and_then(Value::as_str).ok_or_else(|| at("it has no role"))?;
        let content = content_of(message.get("content").unwrap_or(&Value::Null)).map_err(|what| at(&what))?;
        let id = format!("m{index}");
        let draft = match role {
            "system" | "developer" => {
                system.extend(content.iter().filter_map(Block::as_text).map(str::to_owned));
                continue;
            }
            "user" => Draft::user(Message::new(id, Role::User, Source::user(), content)),
            "assistant" => {
                let mut content = content;
                content.extend(calls_of(message).map_err(|what| at(&what))?);
                Draft::assistant(0, 0, Message::assistant(id, Source::model("chat", "chat"), content), None)
            }
            "tool" => {
                let call = message.get("tool_call_id").and_then(Value::as_str).filter(|call| !call.is_empty());
                let call = call.ok_or_else(|| at("a tool message needs a tool_call_id"))?;
                let block = Block::ToolResult(ToolResult {
                    tool_call_id: call.to_owned(),
                    content,
                    is_error: None,
                    extra: Extra::default(),
                });
                Draft::tool_result(0, 0, Message::new(id, Role::User, Source::tool(call), vec![block]))
            }
            other => return Err(at(&format!("the role {other:?} is not known"))),
        };
        session.append(draft).map_err(|error| at(&error.to_string()))?;
    }
    if !system.is_empty() {
        let header = RequestHeader::new("chat", "chat").with_system(system.join("\n\n"));
        session.append(Draft::request_header(header)).map_err(|error| error.to_string())?;
    }
    Ok(session)
}

fn content_of(content: &Value) -> Result<Vec<Block>, String> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Block::text(text)]),
        Value::Array(parts) => parts.iter().map(part_of).collect(),
        other => Err(format!("content is {other}; it must be a text, a list of parts, or null")),
    }
}

fn part_of(part: &Value) -> Result<Block, String> {
    if let Some(text) = part.as_str().or_else(|| part.get("text").and_then(Value::as_str)) {
        return Ok(Block::text(text));
    }
    let kind = part.get("type").and_then(Value::as_str).ok_or("a part of the content has no type")?;
    let mut part = part.as_object().cloned().unwrap_or_default();
    if kind.contains("image") {
        part.insert("type".into(), "image".into());
    }
    serde_json::from_value(Value::Object(part)).map_err(|error| error.to_string())
}

fn calls_of(message: &Value) -> Result<Vec<Block>, String> {
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(calls)) => calls,
        Some(other) => return Err(format!("tool_calls is {other}; it must be a list")),
    };
    calls
        .iter()
        .map(|call| {
            let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
            let id = text(call.get("id")).ok_or("a tool call has no id")?;
            let name = text(call.pointer("/function/name")).ok_or("a tool call has no function name")?;
            let arguments = match call.pointer("/function/arguments") {
                Some(Value::String(arguments)) => arguments.clone(),
                Some(other) => other.to_string(),
                None => String::new(),
            };
            Ok(Block::tool_call(id, name, arguments))
        })
        .collect()
}

/// Writes the messages that the model sees as chat messages.
pub(crate) fn write_chat(session: &Session, mut out: impl Write) -> std::io::Result<()> {
    let mut messages = Vec::new();
    if let Some(system) = session.request_header().and_then(|header| header.system.as_deref()) {
        messages.push(json!({ "role": "system", "content": system }));
    }
    for message in session.messages() {
        messages.push(chat_message(message));
    }
    serde_json::to_writer_pretty(&mut out, &messages)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn chat_message(message: &Message) -> Value {
    if let Some(result) = message.result() {
        let texts: Vec<&str> = result.content.iter().filter_map(Block::as_text).collect();
        return json!({ "role": "tool", "tool_call_id": result.tool_call_id, "content": texts.join("\n") });
    }
    let mut map = Map::new();
    map.insert("role".into(), json!(message.role));
    let only_text = message.content.iter().all(|block| matches!(block, Block::Text(_) | Block::ToolCall(_)));
    let content = if only_text {
        json!(message.text())
    } else {
        message.content.iter().filter(|block| !matches!(block, Block::ToolCall(_))).map(Block::to_value).collect()
    };
    let calls: Vec<Value> = message
        .tool_calls()
        .map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        })
        .collect();
    let no_text = content.as_str().is_some_and(str::is_empty) && !calls.is_empty();
    map.insert("content".into(), if no_text { Value::Null } else { content });
    if !calls.is_empty() {
        map.insert("tool_calls".into(), calls.into());
    }
    Value::Object(map)
}
