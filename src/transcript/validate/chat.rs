//! Chat Completions.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::pairing::{Pairing, PairingRules};
use super::{Findings, Shown, field, is_clean, is_name, kind_of, list, name_field, shown, text_field};
use crate::transcript::Rule;

const MOST_NAME_CHARS: usize = 64;

const PAIRING: PairingRules = PairingRules {
    unanswered: Rule::ChatUnansweredCall,
    orphan: Rule::ChatOrphanResult,
    duplicate: Rule::ChatDuplicateResult,
    late: Rule::ChatLateResult,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChatRole {
    System,
    User,
    Assistant,
    Tool,
}

impl ChatRole {
    fn of(message: &Value) -> Option<Self> {
        match text_field(message, "role")? {
            "system" | "developer" => Some(Self::System),
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            "tool" => Some(Self::Tool),
            _ => None,
        }
    }
}

pub(super) fn check(value: &Value, findings: &mut Findings<'_>) {
    let Some((messages, base)) = list(value, "messages") else {
        let found = if value.is_object() { "`messages` is no array" } else { kind_of(Some(value)) };
        findings.add(
            Rule::ChatShape,
            "",
            format!("found: {found}; wanted: {{\"messages\": […]}} or an array of messages"),
        );
        return;
    };
    if messages.is_empty() {
        findings.add(Rule::ChatNoMessages, base, "there is no message; at least one is needed");
        return;
    }
    let mut pairing = Pairing::new(PAIRING);
    let mut before = None;
    let mut user_speaks = false;
    for (index, message) in messages.iter().enumerate() {
        let at = format!("{base}/{index}");
        let role = ChatRole::of(message);
        if role != Some(ChatRole::Tool) {
            pairing.close(&at, findings);
        }
        if message.is_object() {
            match role {
                Some(role) => {
                    check_neighbours(role, before, index, &at, findings);
                    check_message(role, message, &at, &mut pairing, findings);
                }
                None => findings.add(
                    Rule::ChatUnknownRole,
                    format!("{at}/role"),
                    format!(
                        "the role is {}; known are system, developer, user, assistant, tool",
                        shown(message.get("role"))
                    ),
                ),
            }
        } else {
            findings.add(
                Rule::ChatShape,
                &*at,
                format!("a message is {}; it must be an object", kind_of(Some(message))),
            );
        }
        user_speaks |= role == Some(ChatRole::User);
        before = role;
    }
    pairing.finish(findings);
    if !user_speaks {
        findings.add(Rule::ChatNoUserMessage, &*base, "no message has the role user; at least one must");
    }
    if matches!(before, Some(ChatRole::System | ChatRole::Assistant)) {
        findings.add(
            Rule::ChatLastMessage,
            format!("{base}/{}", messages.len().saturating_sub(1)),
            format!(
                "the last message is of role {}; it must be user or tool",
                shown(messages.last().and_then(|m| m.get("role")))
            ),
        );
    }
}

fn check_neighbours(role: ChatRole, before: Option<ChatRole>, index: usize, at: &str, findings: &mut Findings<'_>) {
    match role {
        ChatRole::System if index > 0 => {
            findings.add(
                Rule::ChatLateSystem,
                at,
                "a system message stands behind the first message; one may stand, first",
            );
        }
        ChatRole::User if before == Some(role) => {
            findings.add(Rule::ChatRepeatedUser, at, "two user messages in a row; merge them into one");
        }
        ChatRole::Assistant if before == Some(role) => {
            findings.add(Rule::ChatRepeatedAssistant, at, "two assistant messages in a row; merge them into one");
        }
        _ => {}
    }
}

fn check_message<'v>(
    role: ChatRole,
    message: &'v Value,
    at: &str,
    pairing: &mut Pairing<'v>,
    findings: &mut Findings<'_>,
) {
    let calls = field(message, "tool_calls");
    if let Some(calls) = calls {
        check_calls(role, calls, &format!("{at}/tool_calls"), pairing, findings);
    }
    if role == ChatRole::Tool {
        match name_field(message, "tool_call_id") {
            Some(id) => pairing.result(id, at, findings),
            None => findings.add(
                Rule::ChatResultWithoutId,
                at,
                format!("`tool_call_id` is {}; it must be the id of a call", shown(message.get("tool_call_id"))),
            ),
        }
    }
    let has_calls = role == ChatRole::Assistant && calls.is_some();
    check_content(role, message.get("content"), has_calls, &format!("{at}/content"), findings);

    let reasoning = field(message, "reasoning_content");
    if reasoning.is_some() {
        findings.add(
            Rule::ChatReasoningRefused,
            format!("{at}/reasoning_content"),
            "`reasoning_content` is refused; leave it out",
        );
    } else if role == ChatRole::Assistant {
        let rule = if has_calls { Rule::ChatReasoningRequired } else { Rule::ChatReasoningRequiredEverywhere };
        findings.add(rule, at, "`reasoning_content` is absent; send back the reasoning text of the message");
    }
}

fn check_calls<'v>(role: ChatRole, calls: &'v Value, at: &str, pairing: &mut Pairing<'v>, findings: &mut Findings<'_>) {
    if role != ChatRole::Assistant {
        findings.add(Rule::ChatCallShape, at, "`tool_calls` may stand in assistant messages only");
        return;
    }
    let Some(calls) = calls.as_array() else {
        findings.add(Rule::ChatCallShape, at, format!("`tool_calls` is {}; it must be an array", kind_of(Some(calls))));
        return;
    };
    if calls.is_empty() {
        findings.add(Rule::ChatEmptyCalls, at, "`tool_calls` is empty; leave it out");
    }
    for (index, call) in calls.iter().enumerate() {
        let at = format!("{at}/{index}");
        if let Some(id) = name_field(call, "id")
            && !pairing.call(id, &at)
        {
            findings.add(
                Rule::ChatDuplicateCallId,
                format!("{at}/id"),
                format!("{} is also the id of an earlier call of this message; every call needs its own", Shown(id)),
            );
        }
        check_call(call, &at, findings);
    }
}

fn check_call(call: &Value, at: &str, findings: &mut Findings<'_>) {
    let wrong = match (name_field(call, "id"), text_field(call, "type")) {
        (None, _) => Some(format!("`id` is {}; it must be a text that is not empty", shown(call.get("id")))),
        (_, Some("function")) => match call.get("function") {
            Some(function) if text_field(function, "name").is_some() => {
                check_function(function, &format!("{at}/function"), findings);
                None
            }
            _ => Some("`function` must be an object with a `name`".to_owned()),
        },
        (_, Some("custom")) => {
            let custom = call.get("custom");
            let is_whole = custom.is_some_and(|c| text_field(c, "name").is_some() && text_field(c, "input").is_some());
            (!is_whole).then(|| "`custom` must be an object with a `name` and an `input`, both texts".to_owned())
        }
        _ => Some(format!("`type` is {}; it must be \"function\" or \"custom\"", shown(call.get("type")))),
    };
    if let Some(wrong) = wrong {
        findings.add(Rule::ChatCallShape, at, wrong);
    }
}

fn check_function(function: &Value, at: &str, findings: &mut Findings<'_>) {
    if let Some(name) = text_field(function, "name")
        && !is_name(name, MOST_NAME_CHARS)
    {
        findings.add(
            Rule::ChatFunctionName,
            format!("{at}/name"),
            format!("the function is named {}; a name is 1 to {MOST_NAME_CHARS} letters, digits, _ and -", Shown(name)),
        );
    }
    match function.get("arguments") {
        Some(Value::String(arguments)) => {
            let wrong = match serde_json::from_str::<IgnoredAny>(arguments) {
                Err(error) => Some(format!("no JSON ({error})")),
                Ok(_) => (!arguments.trim_start().starts_with('{')).then(|| "JSON, but no object".to_owned()),
            };
            if let Some(wrong) = wrong {
                findings.add(
                    Rule::ChatArgumentsJson,
                    format!("{at}/arguments"),
                    format!("the text of `arguments` is {wrong}; it must be a JSON object"),
                );
            }
        }
        other => findings.add(
            Rule::ChatArgumentsString,
            format!("{at}/arguments"),
            format!("`arguments` is {}; it must be JSON in a string", kind_of(other)),
        ),
    }
}

fn check_content(role: ChatRole, content: Option<&Value>, has_calls: bool, at: &str, findings: &mut Findings<'_>) {
    match content {
        None | Some(Value::Null) if has_calls => {}
        None | Some(Value::Null) => findings.add(
            Rule::ChatNoContent,
            at,
            format!("`content` is {}, which is taken beside `tool_calls` only", kind_of(content)),
        ),
        Some(Value::String(text)) if text.is_empty() => {
            findings.add(Rule::ChatEmptyText, at, "`content` is an empty string; it must hold text");
        }
        Some(Value::String(_)) => {}
        Some(Value::Array(parts)) => {
            if parts.is_empty() {
                findings.add(Rule::ChatEmptyContentArray, at, "`content` is an empty array; it must hold a part");
            }
            for (index, part) in parts.iter().enumerate() {
                check_part(role, part, &format!("{at}/{index}"), findings);
            }
        }
        other => findings.add(
            Rule::ChatContentShape,
            at,
            format!("`content` is {}; it must be a string or an array of parts", kind_of(other)),
        ),
    }
}

/// Whether a message of a role takes a part.
pub(in crate::transcript) fn takes_part(role: &str, part: &Value) -> bool {
    let role = match role {
        "assistant" => ChatRole::Assistant,
        "tool" => ChatRole::Tool,
        "system" | "developer" => ChatRole::System,
        _ => ChatRole::User,
    };
    is_clean(|findings| check_part(role, part, "", findings))
}

fn check_part(role: ChatRole, part: &Value, at: &str, findings: &mut Findings<'_>) {
    let Some(kind) = text_field(part, "type") else {
        findings.add(Rule::ChatContentShape, at, "a part must be an object with a `type`");
        return;
    };
    let (is_taken, is_whole) = match kind {
        "text" => (true, text_field(part, "text").is_some()),
        "refusal" => (role == ChatRole::Assistant, text_field(part, "refusal").is_some()),
        "image_url" => (role == ChatRole::User, part.get(kind).is_some_and(|image| text_field(image, "url").is_some())),
        "input_audio" | "file" => (role == ChatRole::User, part.get(kind).is_some_and(Value::is_object)),
        _ => (false, true),
    };
    if !is_taken {
        findings.add(
            Rule::ChatPartType,
            at,
            format!(
                "a part of type {} in this role; text goes everywhere, image_url, input_audio and file into user messages, refusal into \
                 assistant messages",
                Shown(kind)
            ),
        );
    } else if !is_whole {
        let wanted = if kind == "image_url" { "an object with a `url`" } else { "present and of its type" };
        findings.add(Rule::ChatContentShape, at, format!("`{kind}` of a part of that type must be {wanted}"));
    } else if kind == "text" && text_field(part, "text") == Some("") {
        findings.add(Rule::ChatEmptyTextPart, at, "the text of a part is empty; leave the part out");
    }
}
