//! Gemini's `generateContent`. Fields are known by their names in JSON and in protocol buffers (`functionCall`, `function_call`), as
//! the API itself takes both.

use std::collections::HashMap;

use serde_json::Value;

use super::{Findings, Shown, is_clean, kind_of, list, name_field, shown, text_field};
use crate::transcript::Rule;

const MOST_NAME_CHARS: usize = 64;

/// The data fields of a part.
const DATA: [(&str, &str); 7] = [
    ("text", "text"),
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
    ("executableCode", "executable_code"),
    ("codeExecutionResult", "code_execution_result"),
];

fn either<'v>(value: &'v Value, json: &str, proto: &str) -> Option<&'v Value> {
    value.get(json).or_else(|| value.get(proto)).filter(|value| !value.is_null())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GeminiRole {
    User,
    Model,
}

/// A call or a response.
struct Signed<'v> {
    name: &'v str,
    id: Option<&'v str>,
    at: String,
}

/// A content and what of it matters to the next.
#[derive(Default)]
struct Turn<'v> {
    role: Option<GeminiRole>,
    at: String,
    calls: Vec<Signed<'v>>,
    responses: Vec<Signed<'v>>,
}

pub(super) fn check(value: &Value, findings: &mut Findings<'_>) {
    let list = list(value, "contents");
    let Some((contents, base)) = list else {
        let found = if value.is_object() { "`contents` is no array" } else { kind_of(Some(value)) };
        findings.add(
            Rule::GeminiShape,
            "",
            format!("found: {found}; wanted: {{\"contents\": […]}} or an array of contents"),
        );
        return;
    };
    check_system(value, findings);
    if contents.is_empty() {
        findings.add(Rule::GeminiNoContents, base, "there is no content; at least one is needed");
        return;
    }
    let mut before = Turn::default();
    for (index, content) in contents.iter().enumerate() {
        let at = format!("{base}/{index}");
        let turn = check_content(content, at, findings);
        if index == 0 && turn.role == Some(GeminiRole::Model) {
            findings.add(
                Rule::GeminiFirstContent,
                &*turn.at,
                "the first content is the model's; it must be the user's",
            );
        }
        check_order(&before, &turn, findings);
        before = turn;
    }
    if !before.calls.is_empty() {
        unanswered(&before, findings);
    }
}

fn check_system(value: &Value, findings: &mut Findings<'_>) {
    let key = if value.get("system_instruction").is_some() { "system_instruction" } else { "systemInstruction" };
    let Some(system) = value.get(key).filter(|system| !system.is_null()) else { return };
    let at = format!("/{key}");
    let Some(parts) = system.get("parts").and_then(Value::as_array) else {
        findings.add(Rule::GeminiShape, at, format!("`{key}` must be an object with an array `parts`"));
        return;
    };
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}/parts/{index}");
        match text_field(part, "text") {
            Some("") => findings.add(Rule::GeminiEmptyText, at, "the text of a part is empty; leave the part out"),
            Some(_) => {}
            None => {
                findings.add(Rule::GeminiShape, at, format!("a part of `{key}` must be an object with a text `text`"));
            }
        }
    }
}

fn check_content<'v>(content: &'v Value, at: String, findings: &mut Findings<'_>) -> Turn<'v> {
    let mut turn = Turn { at, ..Turn::default() };
    if !content.is_object() {
        findings.add(
            Rule::GeminiShape,
            &*turn.at,
            format!("a content is {}; it must be an object", kind_of(Some(content))),
        );
        return turn;
    }
    turn.role = match text_field(content, "role") {
        Some("user") => Some(GeminiRole::User),
        Some("model") => Some(GeminiRole::Model),
        _ => {
            findings.add(
                Rule::GeminiUnknownRole,
                format!("{}/role", turn.at),
                format!("the role is {}; known are user and model", shown(content.get("role"))),
            );
            None
        }
    };
    match content.get("parts") {
        Some(Value::Array(parts)) if !parts.is_empty() => {
            for (index, part) in parts.iter().enumerate() {
                check_part(part, &format!("{}/parts/{index}", turn.at), &mut turn, findings);
            }
        }
        None | Some(Value::Null | Value::Array(_)) => {
            findings.add(Rule::GeminiNoParts, &*turn.at, "a content without parts; it must hold at least one");
        }
        Some(other) => findings.add(
            Rule::GeminiShape,
            format!("{}/parts", turn.at),
            format!("`parts` is {}; it must be an array", kind_of(Some(other))),
        ),
    }
    turn
}

/// Whether a content of the user's or the model's role takes a part that is neither call nor response.
pub(in crate::transcript) fn takes_part(part: &Value) -> bool {
    let mut turn = Turn::default();
    is_clean(|findings| check_part(part, "", &mut turn, findings)) && turn.calls.is_empty() && turn.responses.is_empty()
}

/// Names of the fields of which a part holds one.
pub(in crate::transcript) fn is_data_field(name: &str) -> bool {
    DATA.iter().any(|(json, proto)| name == *json || name == *proto)
}

/// Whether a call may carry a name.
pub(in crate::transcript) fn takes_name(name: &str) -> bool {
    is_function_name(name)
}

fn check_part<'v>(part: &'v Value, at: &str, turn: &mut Turn<'v>, findings: &mut Findings<'_>) {
    if !part.is_object() {
        findings.add(Rule::GeminiPartShape, at, format!("a part is {}; it must be an object", kind_of(Some(part))));
        return;
    }
    let mut fields = DATA.iter().filter_map(|(json, proto)| Some((*json, either(part, json, proto)?)));
    let Some((field, data)) = fields.next() else {
        findings.add(
            Rule::GeminiPartData,
            at,
            "a part without data; it must hold one field such as text or functionCall",
        );
        return;
    };
    if let Some((second, _)) = fields.next() {
        findings.add(Rule::GeminiPartData, at, format!("a part holds {field} and {second}; it must hold exactly one"));
    }
    let has_signature = either(part, "thoughtSignature", "thought_signature")
        .and_then(Value::as_str)
        .is_some_and(|signature| !signature.is_empty());
    match (field, data) {
        ("text", Value::String(text)) => {
            if text.is_empty() && !has_signature {
                findings.add(Rule::GeminiEmptyText, at, "the text of a part is empty; leave the part out");
            }
        }
        ("functionCall", Value::Object(_)) => {
            if turn.role == Some(GeminiRole::User) {
                findings.add(
                    Rule::GeminiPartRole,
                    at,
                    "a functionCall in a content of role user; it belongs to the model",
                );
                return;
            }
            if turn.calls.is_empty() && !has_signature {
                findings.add(
                    Rule::GeminiThoughtSignature,
                    at,
                    "the first call of a content carries no `thoughtSignature`; send back the one it came with",
                );
            }
            check_object(Rule::GeminiArgsObject, data.get("args").filter(|args| !args.is_null()), "args", at, findings);
            turn.calls.push(check_signed(data, field, at, findings));
        }
        ("functionResponse", Value::Object(_)) => {
            if turn.role == Some(GeminiRole::Model) {
                findings.add(
                    Rule::GeminiPartRole,
                    at,
                    "a functionResponse in a content of role model; it belongs to the user",
                );
                return;
            }
            let response = data.get("response").unwrap_or(&Value::Null);
            check_object(Rule::GeminiResponseObject, Some(response), "response", at, findings);
            turn.responses.push(check_signed(data, field, at, findings));
        }
        ("inlineData", Value::Object(_)) => {
            let has_type = either(data, "mimeType", "mime_type").is_some_and(Value::is_string);
            if !has_type || text_field(data, "data").is_none() {
                findings.add(Rule::GeminiPartShape, at, "`inlineData` must hold the texts `mimeType` and `data`");
            }
        }
        ("fileData", Value::Object(_)) => {
            if !either(data, "fileUri", "file_uri").is_some_and(Value::is_string) {
                findings.add(Rule::GeminiPartShape, at, "`fileData` must hold the text `fileUri`");
            }
        }
        (_, Value::Object(_)) if field != "text" => {}
        _ => {
            let wanted = if field == "text" { "a string" } else { "an object" };
            findings.add(
                Rule::GeminiPartShape,
                at,
                format!("`{field}` is {}; it must be {wanted}", kind_of(Some(data))),
            );
        }
    }
}

fn check_object(rule: Rule, value: Option<&Value>, name: &str, at: &str, findings: &mut Findings<'_>) {
    if let Some(value) = value
        && !value.is_object()
    {
        findings.add(rule, at, format!("`{name}` is {}; it must be an object", kind_of(Some(value))));
    }
}

/// Name and id of a call or a response.
fn check_signed<'v>(data: &'v Value, field: &str, at: &str, findings: &mut Findings<'_>) -> Signed<'v> {
    let name = text_field(data, "name").unwrap_or_default();
    // A response is held to the name of its call.
    if field == "functionCall" && !is_function_name(name) {
        findings.add(
            Rule::GeminiFunctionName,
            at,
            format!(
                "`name` of {field} is {}; a name starts with a letter or _ and is 1 to {MOST_NAME_CHARS} letters, digits, _ . : and -",
                shown(data.get("name"))
            ),
        );
    }
    let id = name_field(data, "id");
    if let Some(id) = id {
        findings.add(Rule::GeminiIdRefused, at, format!("{field} carries the id {}; leave it out", Shown(id)));
    }
    Signed { name, id, at: at.to_owned() }
}

fn is_function_name(name: &str) -> bool {
    name.len() <= MOST_NAME_CHARS
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
}

fn check_order(before: &Turn<'_>, turn: &Turn<'_>, findings: &mut Findings<'_>) {
    if !turn.calls.is_empty() && before.role == Some(GeminiRole::Model) && turn.role == Some(GeminiRole::Model) {
        findings.add(
            Rule::GeminiCallPosition,
            &*turn.at,
            format!(
                "calls follow the content of the model at {}; they must follow a user's content or responses",
                before.at
            ),
        );
    }
    match (before.calls.len(), turn.responses.len()) {
        (0, 0) => {}
        (0, _) => {
            let why = "there is no call in the content before; responses follow their calls at once";
            findings.add(Rule::GeminiOrphanResponse, &*turn.at, why);
        }
        (_, 0) => unanswered(before, findings),
        (calls, responses) if calls == responses => check_answers(before, turn, findings),
        (calls, responses) => findings.add(
            Rule::GeminiResponseCount,
            &*turn.at,
            format!("{responses} responses follow {calls} calls at {}; every call takes one", before.at),
        ),
    }
}

fn unanswered(turn: &Turn<'_>, findings: &mut Findings<'_>) {
    let why = format!("no content with responses follows the {} calls at once; it must", turn.calls.len());
    findings.add(Rule::GeminiUnansweredCall, &*turn.at, why);
}

/// Responses, as many as calls: each is of a call, by id where calls carry ids and by name otherwise.
fn check_answers(before: &Turn<'_>, turn: &Turn<'_>, findings: &mut Findings<'_>) {
    let mut names_of_id: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut without_id: HashMap<&str, usize> = HashMap::new();
    for call in &before.calls {
        match call.id {
            Some(id) => names_of_id.entry(id).or_default().push(call.name),
            None => *without_id.entry(call.name).or_default() += 1,
        }
    }
    let has_ids = !names_of_id.is_empty();
    for response in &turn.responses {
        match response.id {
            Some(id) => match names_of_id.get_mut(id).and_then(Vec::pop) {
                Some(name) if name == response.name => {}
                Some(name) => findings.add(
                    Rule::GeminiResponseName,
                    &*response.at,
                    format!(
                        "a response is named {}; its call {} is named {}",
                        Shown(response.name),
                        Shown(id),
                        Shown(name)
                    ),
                ),
                None => findings.add(
                    Rule::GeminiResponseId,
                    &*response.at,
                    format!("a response carries the id {}, which no unanswered call before has", Shown(id)),
                ),
            },
            None => match without_id.get_mut(response.name) {
                Some(count) if *count > 0 => *count -= 1,
                _ if has_ids => findings.add(
                    Rule::GeminiResponseId,
                    &*response.at,
                    format!("the response {} carries no id, but its call does", Shown(response.name)),
                ),
                _ => findings.add(
                    Rule::GeminiResponseName,
                    &*response.at,
                    format!("a response is named {}, as no unanswered call before is", Shown(response.name)),
                ),
            },
        }
    }
}
