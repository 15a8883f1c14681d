//! Anthropic's Messages.

use std::collections::HashSet;
use std::io;

use serde_json::Value;

use super::super::limits::{MANY_IMAGES, MOST_SIDE_PIXELS, MOST_SIDE_PIXELS_OF_MANY};
use super::image::pixels;
use super::pairing::{Pairing, PairingRules};
use super::thinking::Thinking;
use super::{Findings, Shown, is_clean, is_name, kind_of, list, name_field, shown, text_field};
use crate::transcript::Rule;

const MOST_NAME_CHARS: usize = 128;
/// Most bytes of a request.
pub(in crate::transcript) const MOST_REQUEST_BYTES: usize = 32_000_000;
const MOST_IMAGE_BYTES: usize = 5 * 1024 * 1024;
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

const PAIRING: PairingRules = PairingRules {
    unanswered: Rule::AnthropicUnansweredCall,
    orphan: Rule::AnthropicOrphanResult,
    duplicate: Rule::AnthropicDuplicateResult,
    late: Rule::AnthropicLateResult,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum AnthropicRole {
    User,
    Assistant,
}

/// Where a block stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    User,
    Assistant,
    /// The content of a `tool_result`.
    Result,
}

pub(super) fn check(value: &Value, findings: &mut Findings<'_>) {
    let Some((messages, base)) = list(value, "messages") else {
        let found = if value.is_object() { "`messages` is no array" } else { kind_of(Some(value)) };
        findings.add(
            Rule::AnthropicShape,
            "",
            format!("found: {found}; wanted: {{\"messages\": […]}} or an array of messages"),
        );
        return;
    };
    check_size(value, findings);
    check_system(value.get("system"), findings);
    if messages.is_empty() {
        findings.add(Rule::AnthropicNoMessages, base, "there is no message; at least one is needed");
        return;
    }
    let mut checker = Checker::new(findings);
    let mut before = None;
    for (index, message) in messages.iter().enumerate() {
        let is_last = index + 1 == messages.len();
        before = checker.message(message, &format!("{base}/{index}"), before, index == 0, is_last);
    }
    checker.finish();
}

fn check_size(value: &Value, findings: &mut Findings<'_>) {
    if !findings.holds(Rule::AnthropicRequestSize) {
        return;
    }
    let mut bytes = Bytes(0);
    let is_counted = serde_json::to_writer(&mut bytes, value).is_ok();
    if is_counted && bytes.0 > MOST_REQUEST_BYTES {
        findings.add(
            Rule::AnthropicRequestSize,
            "",
            format!("the conversation has {} bytes; a request has at most {MOST_REQUEST_BYTES}", bytes.0),
        );
    }
}

/// Counts what is written.
struct Bytes(usize);

impl io::Write for Bytes {
    fn write(&mut self, written: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(written.len());
        Ok(written.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn check_system(system: Option<&Value>, findings: &mut Findings<'_>) {
    match system {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => check_text(text, "/system", findings),
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                let at = format!("/system/{index}");
                match text_field(block, "text") {
                    Some(text) if text_field(block, "type") == Some("text") => check_text(text, &at, findings),
                    _ => findings.add(Rule::AnthropicShape, at, "a block of `system` must be a text block"),
                }
            }
        }
        other => findings.add(
            Rule::AnthropicShape,
            "/system",
            format!("`system` is {}; it must be a string or an array of text blocks", kind_of(other)),
        ),
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn check_text(text: &str, at: &str, findings: &mut Findings<'_>) {
    if is_blank(text) {
        let found = if text.is_empty() { "empty" } else { "only white space" };
        findings.add(Rule::AnthropicBlankText, at, format!("the text is {found}; leave it out"));
    }
}

/// Whether a place takes blocks of a type.
fn is_taken(kind: &str, place: Place) -> bool {
    match kind {
        "text" => true,
        "image" | "document" | "search_result" => place != Place::Assistant,
        "tool_result" | "container_upload" => place == Place::User,
        "tool_reference" => place == Place::Result,
        "tool_use" | "thinking" | "redacted_thinking" | "server_tool_use" | "mcp_tool_use" | "compaction" => {
            place == Place::Assistant
        }
        // Results of tools that the service runs: web_search_tool_result, mcp_tool_result and so on.
        _ => place == Place::Assistant && kind.ends_with("_tool_result"),
    }
}

fn has_results(content: Option<&Value>) -> bool {
    let blocks = content.and_then(Value::as_array);
    blocks.is_some_and(|blocks| blocks.iter().any(|block| text_field(block, "type") == Some("tool_result")))
}

/// Whether a message of the user's or the assistant's takes a block that is neither call nor result.
pub(in crate::transcript) fn takes_block(is_assistant: bool, block: &Value) -> bool {
    takes(if is_assistant { Place::Assistant } else { Place::User }, block)
}

/// Whether a result takes a block.
pub(in crate::transcript) fn takes_in_result(block: &Value) -> bool {
    takes(Place::Result, block)
}

fn takes(place: Place, block: &Value) -> bool {
    let kind = text_field(block, "type");
    !matches!(kind, Some("tool_use" | "tool_result"))
        && is_clean(|findings| Checker::new(findings).block(block, place, ""))
}

struct Checker<'v, 'f, 'p> {
    findings: &'f mut Findings<'p>,
    pairing: Pairing<'v>,
    call_ids: HashSet<&'v str>,
    /// Sizes in pixels, with their places.
    images: Vec<(String, Option<(u32, u32)>)>,
    thinking: Thinking,
    /// Whether the user message holds something besides results.
    has_other_block: bool,
}

impl<'v, 'f, 'p> Checker<'v, 'f, 'p> {
    fn new(findings: &'f mut Findings<'p>) -> Self {
        Self {
            findings,
            pairing: Pairing::new(PAIRING),
            call_ids: HashSet::new(),
            images: Vec::new(),
            thinking: Thinking::default(),
            has_other_block: false,
        }
    }

    /// Checks a message behind one of the role `before`, and gives its role; that of one without a role counts as `before`.
    fn message(
        &mut self,
        message: &'v Value,
        at: &str,
        before: Option<AnthropicRole>,
        is_first: bool,
        is_last: bool,
    ) -> Option<AnthropicRole> {
        if !message.is_object() {
            let why = format!("a message is {}; it must be an object", kind_of(Some(message)));
            self.findings.add(Rule::AnthropicShape, at, why);
            return before;
        }
        let role = match text_field(message, "role") {
            Some("user") => AnthropicRole::User,
            Some("assistant") => AnthropicRole::Assistant,
            role => {
                let (rule, why) = match role {
                    Some("system" | "developer") => (
                        Rule::AnthropicSystemMessage,
                        "system text belongs into `system`, beside the messages".to_owned(),
                    ),
                    _ => {
                        let found = shown(message.get("role"));
                        (Rule::AnthropicUnknownRole, format!("the role is {found}; known are user and assistant"))
                    }
                };
                self.findings.add(rule, format!("{at}/role"), why);
                return before;
            }
        };
        if is_first && role == AnthropicRole::Assistant {
            self.findings.add(
                Rule::AnthropicFirstMessage,
                at,
                "the first message is the assistant's; it must be the user's",
            );
        }
        if before == Some(role) {
            let why = "the message has the role of the one before; roles alternate, so merge the two";
            self.findings.add(Rule::AnthropicRepeatedRole, at, why);
        }
        let content = message.get("content");
        match role {
            AnthropicRole::User => {
                if before != Some(role) {
                    self.thinking.end_message(self.findings);
                    self.has_other_block = false;
                }
                if !has_results(content) {
                    self.thinking.end_turn(self.findings);
                }
                self.content(content, Place::User, at, is_last);
            }
            AnthropicRole::Assistant => {
                if before != Some(role) {
                    self.pairing.close(at, self.findings);
                }
                self.content(content, Place::Assistant, at, is_last);
                if is_last {
                    self.prefill(content, at);
                }
            }
        }
        Some(role)
    }

    fn content(&mut self, content: Option<&'v Value>, place: Place, at: &str, is_last: bool) {
        let at = format!("{at}/content");
        // The last message may be the empty beginning of an answer.
        let may_be_empty = is_last && place == Place::Assistant;
        match content {
            Some(Value::String(text)) if !text.is_empty() => {
                check_text(text, &at, self.findings);
                self.plain_block("text", place, &at);
            }
            Some(Value::Array(blocks)) if !blocks.is_empty() => {
                for (index, block) in blocks.iter().enumerate() {
                    self.block(block, place, &format!("{at}/{index}"));
                }
            }
            Some(Value::String(_) | Value::Array(_)) if may_be_empty => {}
            None | Some(Value::Null | Value::String(_) | Value::Array(_)) => {
                self.findings.add(Rule::AnthropicEmptyContent, at, "the message has no content; it must have some");
            }
            other => {
                let why = format!("`content` is {}; it must be a string or an array of blocks", kind_of(other));
                self.findings.add(Rule::AnthropicBlockShape, at, why);
            }
        }
    }

    /// A block of a message that is no result.
    fn plain_block(&mut self, kind: &str, place: Place, at: &str) {
        match place {
            Place::User => self.has_other_block = true,
            Place::Assistant => self.thinking.block(kind, at),
            Place::Result => {}
        }
    }

    fn block(&mut self, block: &'v Value, place: Place, at: &str) {
        let Some(kind) = text_field(block, "type") else {
            self.findings.add(Rule::AnthropicBlockShape, at, "a block must be an object with a `type`");
            return;
        };
        if !is_taken(kind, place) {
            let place = match place {
                Place::User => "a user message",
                Place::Assistant => "an assistant message",
                Place::Result => "a result",
            };
            let why = format!("a block of type {} in {place}, which does not take it", Shown(kind));
            self.findings.add(Rule::AnthropicBlockType, at, why);
            return;
        }
        if kind == "tool_result" {
            self.result(block, at);
            return;
        }
        let text = if kind == "text" { text_field(block, "text") } else { None };
        // Blank text that is refused anyhow is not in the way of what must come first.
        if !(text.is_some_and(is_blank) && self.findings.holds(Rule::AnthropicBlankText)) {
            self.plain_block(kind, place, at);
        }
        match kind {
            "text" => match text {
                Some(text) => check_text(text, at, self.findings),
                None => self.misshapen(at, "`text`", block.get("text"), "a string"),
            },
            "tool_use" => self.call(block, at),
            "thinking" => {
                if text_field(block, "thinking").is_none() {
                    self.misshapen(at, "`thinking`", block.get("thinking"), "a string");
                }
                self.signature(block, "signature", at);
            }
            "redacted_thinking" => self.signature(block, "data", at),
            "image" => self.image(block, at),
            "document" if !block.get("source").is_some_and(Value::is_object) => {
                self.misshapen(at, "`source`", block.get("source"), "an object");
            }
            _ => {}
        }
    }

    fn misshapen(&mut self, at: &str, name: &str, found: Option<&Value>, wanted: &str) {
        let why = format!("{name} is {}; it must be {wanted}", kind_of(found));
        self.findings.add(Rule::AnthropicBlockShape, at, why);
    }

    fn signature(&mut self, block: &Value, key: &str, at: &str) {
        if name_field(block, key).is_none() {
            let why = format!("`{key}` is {}; send back the one it came with", shown(block.get(key)));
            self.findings.add(Rule::AnthropicThinkingSignature, at, why);
        }
    }

    fn call(&mut self, block: &'v Value, at: &str) {
        match text_field(block, "id") {
            Some(id) => {
                // The id is checked without a most length: none is known.
                if !is_name(id, usize::MAX) {
                    let why = format!("the id {} must be made of letters, digits, _ and -", Shown(id));
                    self.findings.add(Rule::AnthropicCallId, format!("{at}/id"), why);
                }
                if !self.call_ids.insert(id) {
                    let why = format!("an earlier call has the id {}; every call needs its own", Shown(id));
                    self.findings.add(Rule::AnthropicDuplicateCallId, format!("{at}/id"), why);
                }
                self.pairing.call(id, at);
            }
            None => self.misshapen(at, "`id`", block.get("id"), "a string"),
        }
        match text_field(block, "name") {
            Some(name) if !is_name(name, MOST_NAME_CHARS) => {
                let why = format!(
                    "the tool is named {}; a name is 1 to {MOST_NAME_CHARS} letters, digits, _ and -",
                    Shown(name)
                );
                self.findings.add(Rule::AnthropicToolName, format!("{at}/name"), why);
            }
            Some(_) => {}
            None => self.misshapen(at, "`name`", block.get("name"), "a string"),
        }
        if !block.get("input").is_some_and(Value::is_object) {
            let why = format!("`input` is {}; it must be an object", kind_of(block.get("input")));
            self.findings.add(Rule::AnthropicToolInput, format!("{at}/input"), why);
        }
    }

    fn result(&mut self, block: &'v Value, at: &str) {
        match name_field(block, "tool_use_id") {
            Some(id) => self.pairing.result(id, at, self.findings),
            None => self.misshapen(at, "`tool_use_id`", block.get("tool_use_id"), "the id of a call"),
        }
        if self.has_other_block {
            let why = "the result stands behind another block of its message; results come first";
            self.findings.add(Rule::AnthropicResultNotFirst, at, why);
        }
        match block.get("content") {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(Value::Array(blocks)) => {
                for (index, block) in blocks.iter().enumerate() {
                    self.block(block, Place::Result, &format!("{at}/content/{index}"));
                }
            }
            other => self.misshapen(at, "`content`", other, "a string or an array of blocks"),
        }
    }

    fn image(&mut self, block: &Value, at: &str) {
        let source = block.get("source").unwrap_or(&Value::Null);
        match text_field(source, "type") {
            Some("url") if text_field(source, "url").is_some() => self.images.push((at.to_owned(), None)),
            Some("file") if text_field(source, "file_id").is_some() => self.images.push((at.to_owned(), None)),
            Some("base64") if text_field(source, "data").is_some() => {
                let media_type = text_field(source, "media_type").unwrap_or_default();
                if !IMAGE_TYPES.contains(&media_type) {
                    let why = format!("the media type is {}; taken are {}", Shown(media_type), IMAGE_TYPES.join(", "));
                    self.findings.add(Rule::AnthropicImageType, at, why);
                }
                let data = text_field(source, "data").unwrap_or_default();
                if data.len() > MOST_IMAGE_BYTES {
                    let why = format!("the image has {} bytes of base64; {MOST_IMAGE_BYTES} are taken", data.len());
                    self.findings.add(Rule::AnthropicImageSize, at, why);
                }
                self.images.push((at.to_owned(), pixels(data)));
            }
            _ => {
                let wanted = "base64 with `media_type` and `data`, url with `url`, or file with `file_id`";
                self.misshapen(at, "`source`", block.get("source"), wanted);
            }
        }
    }

    fn prefill(&mut self, content: Option<&Value>, at: &str) {
        let why = "the last message is the assistant's, which several models refuse to continue; it must be the user's";
        self.findings.add(Rule::AnthropicPrefill, at, why);
        let last = match content {
            Some(Value::String(text)) => Some((text.as_str(), format!("{at}/content"))),
            Some(Value::Array(blocks)) => blocks
                .last()
                .filter(|block| text_field(block, "type") == Some("text"))
                .and_then(|block| text_field(block, "text"))
                .map(|text| (text, format!("{at}/content/{}", blocks.len() - 1))),
            _ => None,
        };
        if let Some((text, at)) = last
            && text.ends_with(char::is_whitespace)
            && !is_blank(text)
        {
            let why = "the text that the model is to continue ends in white space; cut it off";
            self.findings.add(Rule::AnthropicTrailingSpace, at, why);
        }
    }

    fn finish(self) {
        self.thinking.finish(self.findings);
        self.pairing.finish(self.findings);
        let is_many = self.images.len() > MANY_IMAGES;
        let most = if is_many { MOST_SIDE_PIXELS_OF_MANY } else { MOST_SIDE_PIXELS };
        for (at, pixels) in self.images {
            if let Some((width, height)) = pixels
                && width.max(height) > most
            {
                let many = if is_many { format!(" where there are more than {MANY_IMAGES}") } else { String::new() };
                self.findings.add(
                    Rule::AnthropicImagePixels,
                    at,
                    format!("the image has {width} × {height} pixels; {most} a side are taken{many}"),
                );
            }
        }
    }
}
