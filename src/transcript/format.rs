//! Which format a transcript has, told by its content.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A format that transcripts are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// Messages of OpenAI's Chat Completions, as a list, a request, or a message a line.
    ChatCompletions,
    /// Items of OpenAI's Responses, as a list, a request, a response, or an item a line.
    Responses,
    /// Messages of Anthropic's Messages, as a list or a request.
    Anthropic,
    /// Gemini's contents, as a list, a request, or a content a line.
    Gemini,
    /// A rollout file of Codex.
    CodexRollout,
    /// A session file of Claude Code.
    ClaudeCode,
    /// A session of gemini-cli, as a document or a record a line.
    GeminiCli,
    /// What gemini-cli writes with the output format `stream-json`.
    GeminiStream,
    /// A chat file of Qwen Code.
    QwenCode,
    /// An export of opencode.
    Opencode,
    /// A session file of pi.
    Pi,
    /// A session file of the harness, which is this crate's own.
    Harness,
    /// A trajectory of SWE-agent.
    SweAgent,
    /// Events of OpenHands, as a list, within a document, or an event a line.
    Openhands,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 14] = [
        Self::ChatCompletions,
        Self::Responses,
        Self::Anthropic,
        Self::Gemini,
        Self::CodexRollout,
        Self::ClaudeCode,
        Self::GeminiCli,
        Self::GeminiStream,
        Self::QwenCode,
        Self::Opencode,
        Self::Pi,
        Self::Harness,
        Self::SweAgent,
        Self::Openhands,
    ];

    /// Its name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat-completions",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::CodexRollout => "codex-rollout",
            Self::ClaudeCode => "claude-code",
            Self::GeminiCli => "gemini-cli",
            Self::GeminiStream => "gemini-stream",
            Self::QwenCode => "qwen-code",
            Self::Opencode => "opencode",
            Self::Pi => "pi",
            Self::Harness => "harness",
            Self::SweAgent => "swe-agent",
            Self::Openhands => "openhands",
        }
    }

    /// The target that writes the same form, where there is one.
    pub fn target(self) -> Option<super::Target> {
        use super::Target;
        Some(match self {
            Self::ChatCompletions => Target::ChatCompletions,
            Self::Responses => Target::Responses,
            Self::Anthropic => Target::Anthropic,
            Self::Gemini => Target::Gemini,
            Self::CodexRollout => Target::CodexRollout,
            Self::ClaudeCode => Target::ClaudeCode,
            Self::QwenCode => Target::QwenCode,
            Self::Pi => Target::Pi,
            Self::Harness => Target::Harness,
            Self::GeminiCli | Self::GeminiStream | Self::Opencode | Self::SweAgent | Self::Openhands => return None,
        })
    }

    /// The format of a document that is one JSON value.
    pub(super) fn of_document(value: &Value) -> Option<Self> {
        match value {
            Value::Array(items) => of_list(items),
            Value::Object(map) => {
                let list = |key: &str| map.get(key).and_then(Value::as_array);
                if let Some(messages) = list("messages") {
                    return Some(of_messages(map, messages));
                }
                if list("contents").is_some() {
                    return Some(Self::Gemini);
                }
                if map.get("input").is_some_and(|input| input.is_array() || input.is_string())
                    || (list("output").is_some() && map.get("object").is_some_and(|kind| kind == "response"))
                {
                    return Some(Self::Responses);
                }
                if list("choices").is_some() {
                    return Some(Self::ChatCompletions);
                }
                let history = ["history", "events", "trajectory"].iter().find_map(|key| list(key))?;
                match history.first() {
                    Some(first) if is_openhands(first) => Some(Self::Openhands),
                    _ if list("history").is_some() => Some(Self::SweAgent),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The format of a file with a record a line, by one record of it; none where other formats have such records, too.
    pub(super) fn of_record(map: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let has = |key: &str| map.contains_key(key);
        let kind = text("type");
        if map.get("payload").is_some_and(Value::is_object) && kind.is_some() {
            return Some(Self::CodexRollout);
        }
        if kind == Some("session") {
            let is_harness = has("createdAt") || has("delegationDepth") || has("seedLength");
            return Some(if is_harness { Self::Harness } else { Self::Pi });
        }
        if kind.is_some_and(|kind| kind.contains('/')) && has("data") {
            return Some(Self::Harness);
        }
        if let Some(message) = map.get("message").and_then(Value::as_object) {
            if message.contains_key("parts") || message.get("role").is_some_and(|role| role == "model") {
                return Some(Self::QwenCode);
            }
            if matches!(kind, Some("user" | "assistant")) && message.contains_key("content") {
                return Some(Self::ClaudeCode);
            }
            if kind == Some("message") && message.contains_key("role") {
                return Some(Self::Pi);
            }
        }
        if has("systemPayload") || (kind == Some("tool_result") && has("toolCallResult")) {
            return Some(Self::QwenCode);
        }
        if has("$set") || (has("sessionId") && has("projectHash")) || kind == Some("gemini") {
            return Some(Self::GeminiCli);
        }
        let is_claude_record = matches!(
            kind,
            Some(
                "file-history-snapshot"
                    | "queue-operation"
                    | "last-prompt"
                    | "progress"
                    | "ai-title"
                    | "permission-mode"
            )
        ) || (kind == Some("summary") && has("leafUuid"))
            || (kind == Some("attachment") && has("attachment"))
            || (kind == Some("system") && has("uuid") && has("subtype"));
        if is_claude_record {
            return Some(Self::ClaudeCode);
        }
        let is_stream = (kind == Some("init") && has("session_id"))
            || (matches!(kind, Some("tool_use" | "tool_result")) && has("tool_id"))
            || (kind == Some("message") && map.get("content").is_some_and(Value::is_string) && has("timestamp"));
        if is_stream {
            return Some(Self::GeminiStream);
        }
        if is_openhands(&Value::Object(map.clone())) {
            return Some(Self::Openhands);
        }
        let is_responses = match kind {
            Some("message") => map.get("content").is_some_and(Value::is_array) && has("role"),
            Some("reasoning") => has("summary"),
            Some("function_call" | "function_call_output" | "custom_tool_call" | "custom_tool_call_output") => {
                has("call_id")
            }
            _ => false,
        };
        if is_responses {
            return Some(Self::Responses);
        }
        if has("role") && has("parts") {
            return Some(Self::Gemini);
        }
        if has("role") && (has("content") || has("tool_calls")) && kind.is_none() {
            return Some(Self::ChatCompletions);
        }
        None
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

fn is_openhands(event: &Value) -> bool {
    event.get("source").is_some() && (event.get("action").is_some() || event.get("observation").is_some())
}

fn of_list(items: &[Value]) -> Option<Format> {
    let first = items.iter().find(|item| item.is_object())?;
    if is_openhands(first) || items.iter().any(is_openhands) {
        return Some(Format::Openhands);
    }
    if first.get("info").is_some() && first.get("parts").is_some() {
        return Some(Format::Opencode);
    }
    if let Some(messages) = first.get("messages").and_then(Value::as_array) {
        let map = first.as_object()?;
        return Some(of_messages(map, messages));
    }
    if items.iter().any(|item| item.get("parts").is_some() && item.get("role").is_some()) {
        return Some(Format::Gemini);
    }
    let is_item = |item: &Value| {
        let kind = item.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| {
            kind == "message"
                || kind == "reasoning"
                || kind == "compaction"
                || kind.ends_with("_call")
                || kind.ends_with("_output")
        })
    };
    if items.iter().any(is_item) {
        return Some(Format::Responses);
    }
    if items.iter().any(|item| item.get("role").is_some()) {
        return Some(if items.iter().any(speaks_anthropic) { Format::Anthropic } else { Format::ChatCompletions });
    }
    None
}

/// What a list under `messages` is, by what stands beside it and within.
fn of_messages(map: &Map<String, Value>, messages: &[Value]) -> Format {
    let any = |holds: &dyn Fn(&Value) -> bool| messages.iter().any(holds);
    if any(&|message| message.get("info").is_some() && message.get("parts").is_some()) || map.contains_key("info") {
        return Format::Opencode;
    }
    let of_cli = |message: &Value| {
        message.get("role").is_none()
            && matches!(message.get("type").and_then(Value::as_str), Some("user" | "gemini" | "info" | "error"))
    };
    if map.contains_key("projectHash") || any(&of_cli) {
        return Format::GeminiCli;
    }
    if any(&|message| message.get("parts").is_some() && message.get("role").is_some()) {
        return Format::Gemini;
    }
    let tools = map.get("tools").and_then(Value::as_array);
    let anthropic_tools = tools.is_some_and(|tools| tools.iter().any(|tool| tool.get("input_schema").is_some()));
    let speaks_chat = any(&|message| {
        matches!(message.get("role").and_then(Value::as_str), Some("system" | "developer" | "tool" | "function"))
            || message.get("tool_calls").is_some()
    });
    if !speaks_chat && (map.contains_key("system") || anthropic_tools || any(&speaks_anthropic)) {
        return Format::Anthropic;
    }
    Format::ChatCompletions
}

fn speaks_anthropic(message: &Value) -> bool {
    let blocks = message.get("content").and_then(Value::as_array);
    blocks.is_some_and(|blocks| {
        blocks.iter().any(|block| {
            let kind = block.get("type").and_then(Value::as_str);
            matches!(kind, Some("tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image" | "document"))
        })
    })
}
