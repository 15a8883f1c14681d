//! What an API would refuse in a conversation, found in one pass over its JSON.
//!
//! A refusal has one cause and is named once: a result in the wrong place is neither a call without a result nor a result without
//! a call. What cannot be seen in the value alone (who made a signature, what a service stores) is taken on trust.

pub(super) mod anthropic;
pub(super) mod chat;
pub(super) mod gemini;
pub(super) mod image;
mod pairing;
pub(super) mod responses;
mod thinking;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Profile, Rule, Target};

/// One refusal: which rule, where, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Violation {
    /// The rule that is broken.
    pub rule: Rule,
    /// The JSON pointer of what breaks it, such as `/messages/3/content/0`; empty for the whole value.
    pub at: String,
    /// What was found, and what would be right.
    pub why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule, self.at, self.why)
    }
}

/// What the API would refuse, by [`Profile::default`].
pub fn validate(target: Target, value: &Value) -> Vec<Violation> {
    validate_with(target, value, &Profile::default())
}

/// What the API would refuse, by a profile, in the order of the conversation.
///
/// The value is the request, or its list of messages alone: `{"messages"}` for Chat Completions, `{"instructions"?, "input"}` for
/// Responses, `{"system"?, "messages"}` for Anthropic, `{"systemInstruction"?, "contents"}` for Gemini. Other keys of a request, such
/// as the model and its tools, are not looked at. Takes time in proportion to the size of the value.
pub fn validate_with(target: Target, value: &Value, profile: &Profile) -> Vec<Violation> {
    let mut findings = Findings { profile, found: Vec::new() };
    match target {
        Target::ChatCompletions => chat::check(value, &mut findings),
        Target::Responses => responses::check(value, &mut findings),
        Target::Anthropic => anthropic::check(value, &mut findings),
        Target::Gemini => gemini::check(value, &mut findings),
        // Files of tools have no rules here.
        Target::CodexRollout | Target::ClaudeCode | Target::QwenCode | Target::Pi | Target::Harness => {}
    }
    findings.in_order()
}

/// Whether a check finds nothing, by the default rules: for exporters, which write what they carry unread only where it is taken.
fn is_clean(check: impl FnOnce(&mut Findings<'_>)) -> bool {
    let profile = Profile::default();
    let mut findings = Findings { profile: &profile, found: Vec::new() };
    check(&mut findings);
    findings.found.is_empty()
}

/// What was found so far.
struct Findings<'p> {
    profile: &'p Profile,
    found: Vec<Violation>,
}

impl Findings<'_> {
    fn holds(&self, rule: Rule) -> bool {
        self.profile.holds(rule)
    }

    fn add(&mut self, rule: Rule, at: impl Into<String>, why: impl Into<String>) {
        if self.holds(rule) {
            self.found.push(Violation { rule, at: at.into(), why: why.into() });
        }
    }

    /// Some refusals are sure only at the end of the conversation; they are put back to their message.
    fn in_order(mut self) -> Vec<Violation> {
        self.found.sort_by_cached_key(|violation| {
            violation.at.split('/').find_map(|step| step.parse::<usize>().ok()).unwrap_or(0)
        });
        self.found
    }
}

/// The list of a request, with its pointer: the value itself, or what it holds under a key.
fn list<'v>(value: &'v Value, key: &str) -> Option<(&'v [Value], String)> {
    match value {
        Value::Array(list) => Some((list, String::new())),
        _ => Some((value.get(key)?.as_array()?, format!("/{key}"))),
    }
}

/// A key's value; null is taken as absent.
fn field<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    value.get(key).filter(|value| !value.is_null())
}

fn text_field<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

/// A key's text that is not empty.
fn name_field<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    text_field(value, key).filter(|text| !text.is_empty())
}

/// Whether a text is `1..=most` ASCII letters, digits, `_` and `-`.
fn is_name(text: &str, most: usize) -> bool {
    !text.is_empty() && text.len() <= most && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// A JSON value's kind, for messages.
fn kind_of(value: Option<&Value>) -> &'static str {
    match value {
        None => "absent",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(_)) => "a string",
        Some(Value::Array(_)) => "an array",
        Some(Value::Object(_)) => "an object",
    }
}

/// Most characters of a value that a message repeats.
const MOST_SHOWN_CHARS: usize = 80;

/// A name or id in a message: in quotes, control characters escaped, cut when long.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(MOST_SHOWN_CHARS).map_or(self.0.len(), |(end, _)| end);
        let (head, rest) = self.0.split_at(end);
        write!(f, "{head:?}{}", if rest.is_empty() { "" } else { "…" })
    }
}

/// What a field holds, for messages: a text as [`Shown`], anything else by its kind.
fn shown(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => Shown(text).to_string(),
        other => kind_of(other).to_owned(),
    }
}
