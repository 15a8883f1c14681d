//! Responses.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Findings, Shown, field, is_clean, is_name, kind_of, list, name_field, shown, text_field};
use crate::transcript::Rule;

const MOST_CALL_ID_CHARS: usize = 64;
const MOST_NAME_CHARS: usize = 64;

/// What an item is to the items around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemRole {
    Message,
    Reasoning,
    /// A call that the host answers with an output of the same `call_id`.
    Call,
    Output,
    /// Made by the model or its service, and answered by nobody.
    Made,
    Compaction,
    /// Stands for an item that the service stores.
    Reference,
    /// What the host adds beside messages and outputs.
    Given,
}

/// The JSON type that a field must have.
#[derive(Clone, Copy)]
enum Wanted {
    Text,
    Object,
    /// A string, or an array of parts.
    TextOrParts,
    Present,
}

impl Wanted {
    fn takes(self, value: Option<&Value>) -> bool {
        match self {
            Self::Text => value.is_some_and(Value::is_string),
            Self::Object => value.is_some_and(Value::is_object),
            Self::TextOrParts => value.is_some_and(|value| value.is_string() || value.is_array()),
            Self::Present => value.is_some_and(|value| !value.is_null()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Object => "an object",
            Self::TextOrParts => "a string or an array of parts",
            Self::Present => "present",
        }
    }
}

struct ItemKind {
    name: &'static str,
    role: ItemRole,
    /// What the ids of the kind begin with, where that is known.
    prefix: Option<&'static str>,
    fields: &'static [(&'static str, Wanted)],
}

const fn kind(
    name: &'static str,
    role: ItemRole,
    prefix: Option<&'static str>,
    fields: &'static [(&'static str, Wanted)],
) -> ItemKind {
    ItemKind { name, role, prefix, fields }
}

const KINDS: [ItemKind; 27] = {
    use ItemRole::{Call, Compaction, Given, Made, Message, Output, Reasoning, Reference};
    use Wanted::{Object, Present, Text, TextOrParts};
    [
        kind("message", Message, Some("msg_"), &[]),
        kind("reasoning", Reasoning, Some("rs_"), &[]),
        kind("function_call", Call, Some("fc_"), &[("call_id", Text), ("name", Text), ("arguments", Text)]),
        kind("function_call_output", Output, None, &[("call_id", Text), ("output", TextOrParts)]),
        kind("custom_tool_call", Call, Some("ctc_"), &[("call_id", Text), ("name", Text), ("input", Text)]),
        kind("custom_tool_call_output", Output, None, &[("call_id", Text), ("output", TextOrParts)]),
        kind("local_shell_call", Call, None, &[("call_id", Text), ("action", Object)]),
        kind("local_shell_call_output", Output, None, &[("output", TextOrParts)]),
        kind("shell_call", Call, None, &[("call_id", Text), ("action", Object)]),
        kind("shell_call_output", Output, None, &[("call_id", Text), ("output", Present)]),
        kind("apply_patch_call", Call, None, &[("call_id", Text), ("operation", Object)]),
        kind("apply_patch_call_output", Output, None, &[("call_id", Text)]),
        kind("computer_call", Call, Some("cu_"), &[("call_id", Text)]),
        kind("computer_call_output", Output, None, &[("call_id", Text), ("output", Object)]),
        kind("web_search_call", Made, Some("ws_"), &[]),
        kind("file_search_call", Made, Some("fs_"), &[]),
        kind("code_interpreter_call", Made, Some("ci_"), &[]),
        kind("image_generation_call", Made, Some("ig_"), &[]),
        kind("mcp_list_tools", Given, Some("mcpl_"), &[]),
        kind("mcp_call", Made, Some("mcp_"), &[]),
        kind("mcp_approval_request", Made, Some("mcpr_"), &[]),
        kind("mcp_approval_response", Given, None, &[("approval_request_id", Text), ("approve", Present)]),
        kind("tool_search_call", Made, None, &[]),
        kind("tool_search_output", Given, None, &[]),
        kind("compaction", Compaction, None, &[]),
        kind("compaction_trigger", Given, None, &[]),
        kind("item_reference", Reference, None, &[("id", Text)]),
    ]
};

/// The outputs that a call of a kind takes.
fn outputs_of(call: &str) -> &'static [&'static str] {
    match call {
        "function_call" => &["function_call_output"],
        "custom_tool_call" => &["custom_tool_call_output"],
        // Clients that run shell calls as a function of their own answer them as one.
        "local_shell_call" => &["local_shell_call_output", "function_call_output"],
        "shell_call" => &["shell_call_output"],
        "apply_patch_call" => &["apply_patch_call_output"],
        "computer_call" => &["computer_call_output"],
        _ => &[],
    }
}

pub(super) fn check(value: &Value, findings: &mut Findings<'_>) {
    if let Some(input) = value.get("input").and_then(Value::as_str) {
        if input.is_empty() {
            findings.add(Rule::ResponsesNoInput, "/input", "`input` is an empty string; it must hold text or items");
        }
        return;
    }
    let Some((items, base)) = list(value, "input") else {
        let found = if value.is_object() { "`input` is neither string nor array" } else { kind_of(Some(value)) };
        findings.add(
            Rule::ResponsesShape,
            "",
            format!("found: {found}; wanted: {{\"input\": […]}} or an array of items"),
        );
        return;
    };
    if items.is_empty() {
        findings.add(Rule::ResponsesNoInput, base, "there is no item; at least one is needed");
        return;
    }
    let continues = field(value, "previous_response_id").is_some() || field(value, "conversation").is_some();
    let has_references = items.iter().any(|item| text_field(item, "type") == Some("item_reference"));
    let mut calls = Calls { is_open_ended: continues || has_references, ..Calls::default() };
    let mut ids = HashSet::new();
    let mut reasoning = ReasoningRun::default();
    for (index, item) in items.iter().enumerate() {
        let at = format!("{base}/{index}");
        let kind = kind_of_item(item, &at, findings);
        if let Some(kind) = kind {
            check_item(kind, item, &at, findings);
            check_id(kind, item, &at, &mut ids, findings);
            match kind.role {
                ItemRole::Call => calls.call(kind, item, &at, findings),
                ItemRole::Output => calls.output(kind, item, at.clone(), findings),
                _ => {}
            }
        }
        reasoning.item(kind, item, &at, findings);
    }
    reasoning.finish(findings);
    calls.finish(findings);
}

/// Whether an input takes an item, whatever stands around it.
pub(in crate::transcript) fn takes_item(item: &Value) -> bool {
    is_clean(|findings| {
        if let Some(kind) = kind_of_item(item, "", findings) {
            check_item(kind, item, "", findings);
        }
    })
}

/// Whether a message of a role takes a part.
pub(in crate::transcript) fn takes_part(role: &str, part: &Value) -> bool {
    is_clean(|findings| check_part(role == "assistant", part, "", findings))
}

/// Whether an item may carry its id, whatever ids there are beside it.
pub(in crate::transcript) fn takes_id(item: &Value) -> bool {
    is_clean(|findings| {
        if let Some(kind) = kind_of_item(item, "", findings) {
            check_id(kind, item, "", &mut HashSet::new(), findings);
        }
    })
}

/// Whether the model or its service made an item, as it is told by what must stand around reasoning.
pub(in crate::transcript) fn is_made(item: &Value) -> bool {
    let name = text_field(item, "type").unwrap_or("message");
    let role = KINDS.iter().find(|kind| kind.name == name).map_or(ItemRole::Given, |kind| kind.role);
    is_made_in_role(role, item)
}

fn is_made_in_role(role: ItemRole, item: &Value) -> bool {
    match role {
        ItemRole::Reasoning | ItemRole::Call | ItemRole::Made => true,
        // What is stored may be anything; it is given the benefit.
        ItemRole::Reference => true,
        ItemRole::Message => text_field(item, "role") == Some("assistant"),
        ItemRole::Output | ItemRole::Compaction | ItemRole::Given => false,
    }
}

/// The call that an item makes, if the host must answer it: its id.
pub(in crate::transcript) fn call_of(item: &Value) -> Option<&str> {
    let name = text_field(item, "type")?;
    let kind = KINDS.iter().find(|kind| kind.name == name && kind.role == ItemRole::Call)?;
    kind.fields.iter().any(|(field, _)| *field == "call_id").then(|| text_field(item, "call_id"))?
}

/// Whether an item is the output of a call.
pub(in crate::transcript) fn is_output(item: &Value) -> bool {
    let name = text_field(item, "type");
    KINDS.iter().any(|kind| Some(kind.name) == name && kind.role == ItemRole::Output)
}

/// Whether an output is of the kind that a call takes.
pub(in crate::transcript) fn answers(call: &Value, output: &Value) -> bool {
    let kind = |item| text_field(item, "type").unwrap_or_default();
    text_field(call, "call_id").is_some()
        && text_field(call, "call_id") == text_field(output, "call_id")
        && outputs_of(kind(call)).contains(&kind(output))
}

fn kind_of_item(item: &Value, at: &str, findings: &mut Findings<'_>) -> Option<&'static ItemKind> {
    let name = match (text_field(item, "type"), item.get("role")) {
        (Some(name), _) => name,
        // Messages may leave their type out.
        (None, Some(_)) if field(item, "type").is_none() => "message",
        _ => {
            let why = if item.is_object() { "an item without a `type`" } else { kind_of(Some(item)) };
            findings.add(
                Rule::ResponsesShape,
                at,
                format!("found: {why}; an item is an object with a `type` or a `role`"),
            );
            return None;
        }
    };
    let kind = KINDS.iter().find(|kind| kind.name == name);
    if kind.is_none() {
        findings.add(
            Rule::ResponsesUnknownItem,
            format!("{at}/type"),
            format!("items of type {} are unknown; leave the item out", Shown(name)),
        );
    }
    kind
}

fn check_item(kind: &ItemKind, item: &Value, at: &str, findings: &mut Findings<'_>) {
    for &(name, wanted) in kind.fields {
        if !wanted.takes(item.get(name)) {
            findings.add(
                Rule::ResponsesMissingField,
                format!("{at}/{name}"),
                format!("`{name}` of a {} is {}; it must be {}", kind.name, kind_of(item.get(name)), wanted.name()),
            );
        }
    }
    match kind.role {
        ItemRole::Message => check_message(item, at, findings),
        ItemRole::Reasoning if !item.get("summary").is_some_and(Value::is_array) => findings.add(
            Rule::ResponsesSummary,
            format!("{at}/summary"),
            format!("`summary` of reasoning is {}; it must be an array, though empty", kind_of(item.get("summary"))),
        ),
        ItemRole::Compaction => {
            if name_field(item, "encrypted_content").is_none() {
                findings.add(
                    Rule::ResponsesCompactionContent,
                    format!("{at}/encrypted_content"),
                    format!("`encrypted_content` is {}; it must be a text", shown(item.get("encrypted_content"))),
                );
            }
            let why = "a compaction item is read by the service that made it alone; leave it out elsewhere";
            findings.add(Rule::ResponsesForeignCompaction, at, why);
        }
        ItemRole::Call => {
            if let Some(name) = text_field(item, "name")
                && !is_name(name, MOST_NAME_CHARS)
            {
                findings.add(
                    Rule::ResponsesToolName,
                    format!("{at}/name"),
                    format!(
                        "the tool is named {}; a name is 1 to {MOST_NAME_CHARS} letters, digits, _ and -",
                        Shown(name)
                    ),
                );
            }
        }
        _ => {}
    }
    if let Some(id) = text_field(item, "call_id")
        && (id.is_empty() || id.chars().nth(MOST_CALL_ID_CHARS).is_some())
    {
        findings.add(
            Rule::ResponsesCallIdLength,
            format!("{at}/call_id"),
            format!(
                "the call_id {} has {} characters; 1 to {MOST_CALL_ID_CHARS} are taken",
                Shown(id),
                id.chars().count()
            ),
        );
    }
}

fn check_message(item: &Value, at: &str, findings: &mut Findings<'_>) {
    let is_assistant = match text_field(item, "role") {
        Some("assistant") => true,
        Some("user" | "system" | "developer") => false,
        _ => {
            findings.add(
                Rule::ResponsesUnknownRole,
                format!("{at}/role"),
                format!("the role is {}; known are user, system, developer, assistant", shown(item.get("role"))),
            );
            return;
        }
    };
    match item.get("content") {
        Some(Value::String(_)) => {}
        Some(Value::Array(parts)) => {
            for (index, part) in parts.iter().enumerate() {
                check_part(is_assistant, part, &format!("{at}/content/{index}"), findings);
            }
        }
        other => findings.add(
            Rule::ResponsesContentShape,
            format!("{at}/content"),
            format!("`content` is {}; it must be a string or an array of parts", kind_of(other)),
        ),
    }
}

fn check_part(is_assistant: bool, part: &Value, at: &str, findings: &mut Findings<'_>) {
    let Some(kind) = text_field(part, "type") else {
        findings.add(Rule::ResponsesContentShape, at, "a part must be an object with a `type`");
        return;
    };
    let (is_taken, wanted) = match kind {
        "input_text" => (!is_assistant, Some("text")),
        "output_text" => (is_assistant, Some("text")),
        "refusal" => (is_assistant, Some("refusal")),
        "input_image" | "input_file" | "input_audio" => (!is_assistant, None),
        _ => (false, None),
    };
    if !is_taken {
        let right = if is_assistant {
            "output_text and refusal"
        } else {
            "input_text, input_image, input_file and input_audio"
        };
        findings.add(
            Rule::ResponsesPartType,
            at,
            format!("a part of type {} in a message of this role, which takes {right}", Shown(kind)),
        );
    } else if let Some(wanted) = wanted
        && text_field(part, wanted).is_none()
    {
        findings.add(
            Rule::ResponsesContentShape,
            at,
            format!("`{wanted}` of a part is {}; it must be a string", kind_of(part.get(wanted))),
        );
    }
}

fn check_id<'v>(kind: &ItemKind, item: &'v Value, at: &str, seen: &mut HashSet<&'v str>, findings: &mut Findings<'_>) {
    let Some(id) = text_field(item, "id") else { return };
    if kind.role == ItemRole::Reference || kind.role == ItemRole::Output {
        // A reference names another item, and an output may carry the id of its call.
        return;
    }
    if !seen.insert(id) {
        findings.add(
            Rule::ResponsesDuplicateId,
            format!("{at}/id"),
            format!("an earlier item has the id {}; leave ids out or give each item its own", Shown(id)),
        );
    }
    let why = match kind.prefix {
        Some(prefix) if !id.starts_with(prefix) => format!("it must begin with {prefix}"),
        Some(_) => return,
        // How ids of the kind begin is not known, but not as those of another.
        None => match KINDS.iter().filter_map(|kind| kind.prefix).find(|prefix| id.starts_with(prefix)) {
            Some(prefix) => format!("{prefix} begins the ids of other kinds"),
            None => return,
        },
    };
    findings.add(
        Rule::ResponsesIdPrefix,
        format!("{at}/id"),
        format!("the id of a {} is {}; {why}", kind.name, Shown(id)),
    );
}

struct Call {
    at: String,
    kind: &'static str,
    /// Where its output is.
    output: Option<String>,
}

/// The calls of an input. An id names the newest call that has it, so that ids may come back once they are answered.
#[derive(Default)]
struct Calls<'v> {
    calls: HashMap<&'v str, Call>,
    /// Outputs that no call came before.
    early: HashMap<&'v str, Vec<String>>,
    /// Whether the service stores items that are not in the input.
    is_open_ended: bool,
}

impl<'v> Calls<'v> {
    fn call(&mut self, kind: &'static ItemKind, item: &'v Value, at: &str, findings: &mut Findings<'_>) {
        let Some(id) = text_field(item, "call_id") else { return };
        let mut call = Call { at: at.to_owned(), kind: kind.name, output: None };
        for output in self.early.remove(id).unwrap_or_default() {
            findings.add(
                Rule::ResponsesOutputBeforeCall,
                &*output,
                format!("the output of {} comes before its call at {at}; it must come after", Shown(id)),
            );
            call.output = Some(output);
        }
        if let Some(earlier) = self.calls.insert(id, call)
            && earlier.output.is_none()
        {
            findings.add(
                Rule::ResponsesDuplicateCallId,
                format!("{at}/call_id"),
                format!("{} is the call_id of the call at {} too, which has no output yet", Shown(id), earlier.at),
            );
        }
    }

    fn output(&mut self, kind: &'static ItemKind, item: &'v Value, at: String, findings: &mut Findings<'_>) {
        // Outputs of local shell calls name their call by `id`.
        let by_id = if kind.name == "local_shell_call_output" { text_field(item, "id") } else { None };
        let Some(id) = text_field(item, "call_id").or(by_id) else { return };
        let Some(call) = self.calls.get_mut(id) else {
            self.early.entry(id).or_default().push(at);
            return;
        };
        if let Some(first) = &call.output {
            findings.add(
                Rule::ResponsesDuplicateOutput,
                at,
                format!("the call {} has its output at {first}; a call takes one", Shown(id)),
            );
            return;
        }
        let taken = outputs_of(call.kind);
        if !taken.contains(&kind.name) {
            findings.add(
                Rule::ResponsesOutputKind,
                format!("{at}/type"),
                format!("a {} answers the {} {}; it takes {}", kind.name, call.kind, Shown(id), taken.join(" or ")),
            );
        }
        call.output = Some(at);
    }

    fn finish(self, findings: &mut Findings<'_>) {
        let open =
            self.calls.into_iter().filter(|(_, call)| call.output.is_none()).map(|(id, call)| (call.at, id, true));
        let early = self.early.into_iter().flat_map(|(id, places)| places.into_iter().map(move |at| (at, id, false)));
        let early = early.filter(|_| !self.is_open_ended);
        let mut found: Vec<_> = open.chain(early).collect();
        // A map has no order, and the same input is to give the same report.
        found.sort_unstable();
        for (at, id, is_call) in found {
            if is_call {
                let why = format!("no output has the call_id {}; every call needs one in the input", Shown(id));
                findings.add(Rule::ResponsesUnansweredCall, at, why);
            } else {
                let why = format!("no call has the call_id {}; every output needs one in the input", Shown(id));
                findings.add(Rule::ResponsesOrphanOutput, at, why);
            }
        }
    }
}

/// What the model made in one go, and the reasoning in it.
#[derive(Default)]
struct ReasoningRun {
    /// Reasoning with an id that nothing has followed yet.
    unfollowed: Option<String>,
    /// Whether the item before is reasoning, with an id or without.
    is_after_reasoning: bool,
    /// Whether the items since the last of the host hold reasoning.
    has_reasoning: bool,
    /// Whether an item of the model stood among them.
    has_items: bool,
    has_ids: bool,
    /// First items with ids of the goes that hold no reasoning before them. They count once any reasoning has an id.
    without: Vec<String>,
}

impl ReasoningRun {
    fn item(&mut self, kind: Option<&ItemKind>, item: &Value, at: &str, findings: &mut Findings<'_>) {
        let role = kind.map_or(ItemRole::Given, |kind| kind.role);
        let is_made = is_made_in_role(role, item);
        if role == ItemRole::Call && !self.is_after_reasoning {
            findings.add(
                Rule::ResponsesReasoningPerCall,
                at,
                "no reasoning item stands straight before the call; repeat that of its turn",
            );
        }
        self.is_after_reasoning = role == ItemRole::Reasoning;
        let has_id = name_field(item, "id").is_some();
        if !is_made {
            self.unfollowed(findings);
            (self.has_reasoning, self.has_items) = (false, false);
        } else if role == ItemRole::Reasoning {
            self.unfollowed = has_id.then(|| at.to_owned());
            self.has_ids |= has_id;
            self.has_reasoning = true;
        } else {
            self.unfollowed = None;
            if role == ItemRole::Reference {
                self.has_reasoning = true;
            }
            if has_id && !self.has_reasoning && !self.has_items {
                self.without.push(at.to_owned());
                self.has_items = true;
            }
        }
    }

    fn unfollowed(&mut self, findings: &mut Findings<'_>) {
        if let Some(at) = self.unfollowed.take() {
            let why = "no item of the model follows the reasoning; the item that it belonged to must";
            findings.add(Rule::ResponsesReasoningWithoutItem, at, why);
        }
    }

    fn finish(mut self, findings: &mut Findings<'_>) {
        self.unfollowed(findings);
        if self.has_ids {
            for at in self.without {
                findings.add(
                    Rule::ResponsesItemWithoutReasoning,
                    at,
                    "an item with an id and no reasoning item before it; send its reasoning, or no id",
                );
            }
        }
    }
}
