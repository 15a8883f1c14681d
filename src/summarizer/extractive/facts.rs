//! Findings: what the messages hold that a checkpoint should keep.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use crate::checkpoint::{Checkpoint, PINNED_REQUEST_TITLE, cut_middle};
use crate::message::{Block, Message, ToolCall, ToolResult};

/// What a finding is about; decides the section that it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Topic {
    Request,
    Rule,
    Decision,
    File,
    Error,
    OpenCall,
    Action,
    Outlook,
    Command,
}

/// A finding with the weight that it is kept by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) topic: Topic,
    /// Smaller is kept longer.
    pub(super) rank: usize,
    /// Place in the conversation; findings of a section are shown in this order.
    pub(super) order: usize,
    pub(super) text: String,
}

/// Lines that an earlier checkpoint had under a heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inherited {
    pub(super) heading: String,
    pub(super) lines: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) findings: Vec<Finding>,
    pub(super) inherited: Vec<Inherited>,
}

/// Longest text of one finding, in characters; longer ones lose their middle, visibly.
const REQUEST_CHARS: usize = 1_200;
const ACTION_CHARS: usize = 900;
const ERROR_CHARS: usize = 400;
const COMMAND_CHARS: usize = 200;
/// How many of the newest actions are kept.
const RECENT_ACTIONS: usize = 6;

/// Ranks: how long a kind of finding is kept when room runs out. The age of a finding is added.
const RANK_RULE: usize = 0;
const RANK_NEWEST: usize = 10;
const RANK_ERROR: usize = 100;
const RANK_REQUEST: usize = 120;
const RANK_FILE: usize = 200;
const RANK_DECISION: usize = 260;
const RANK_COMMAND: usize = 300;

pub(super) fn collect(messages: &[Arc<Message>]) -> Findings {
    let mut findings = Findings::default();
    let results = results_by_call(messages);
    let mut files: Vec<(String, Vec<&'static str>, usize)> = Vec::new();
    let mut commands: Vec<(String, usize)> = Vec::new();
    for (order, message) in messages.iter().enumerate() {
        if let Some(checkpoint) = Checkpoint::parse(message) {
            inherit(&mut findings, &checkpoint, order);
        } else if message.source.is_user() {
            take_user(&mut findings, &message.text(), order);
        } else {
            take_texts(&mut findings, message, order);
            for call in message.tool_calls() {
                take_call(&mut files, &mut commands, call, order);
                match results.get(&(order, call.id.as_str())) {
                    Some((at, result)) if result.is_error == Some(true) => {
                        take_error(&mut findings, messages, call, result, *at);
                    }
                    Some(_) => {}
                    None => findings.push(Topic::OpenCall, RANK_NEWEST, order, describe(call)),
                }
            }
        }
    }
    for (age, (path, uses, order)) in files.into_iter().rev().enumerate() {
        findings.push(Topic::File, RANK_FILE + age, order, format!("`{path}` ({})", uses.join(", ")));
    }
    for (age, (command, order)) in commands.into_iter().rev().enumerate() {
        findings.push(Topic::Command, RANK_COMMAND + age, order, format!("`{command}`"));
    }
    rank_by_age(&mut findings.findings, Topic::Request, RANK_REQUEST);
    rank_by_age(&mut findings.findings, Topic::Error, RANK_ERROR);
    rank_by_age(&mut findings.findings, Topic::Decision, RANK_DECISION);
    keep_newest_actions(&mut findings.findings);
    findings
}

impl Findings {
    fn push(&mut self, topic: Topic, rank: usize, order: usize, text: impl Into<String>) {
        let text = text.into();
        if !text.trim().is_empty() {
            self.findings.push(Finding { topic, rank, order, text });
        }
    }
}

/// Results by the message and id of their call. Calls open an id and the next result with that id closes it, so reused ids pair
/// with their own results.
fn results_by_call(messages: &[Arc<Message>]) -> HashMap<(usize, &str), (usize, &ToolResult)> {
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut results = HashMap::new();
    for (order, message) in messages.iter().enumerate() {
        for block in &message.content {
            match block {
                Block::ToolCall(call) => open.entry(&call.id).or_default().push(order),
                Block::ToolResult(result) => {
                    if let Some(call_order) = open.get_mut(result.tool_call_id.as_str()).and_then(Vec::pop) {
                        results.insert((call_order, result.tool_call_id.as_str()), (order, result));
                    }
                }
                _ => {}
            }
        }
    }
    results
}

fn inherit(findings: &mut Findings, checkpoint: &Checkpoint, order: usize) {
    for section in &checkpoint.sections {
        if section.title == PINNED_REQUEST_TITLE {
            take_user(findings, &section.text, order);
        }
    }
    let mut current = Inherited { heading: String::new(), lines: Vec::new() };
    for line in checkpoint.body.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let done = std::mem::replace(&mut current, Inherited { heading: heading.trim().into(), lines: Vec::new() });
            findings.inherited.push(done);
        } else if !matches!(line.trim(), "" | "None.") {
            current.lines.push(line.to_owned());
        }
    }
    findings.inherited.push(current);
    findings.inherited.retain(|section| !section.lines.is_empty());
}

fn take_user(findings: &mut Findings, text: &str, order: usize) {
    let text = text.trim();
    findings.push(Topic::Request, RANK_REQUEST, order, cut_middle(text, REQUEST_CHARS, " […] "));
    if text.chars().count() > REQUEST_CHARS {
        for sentence in sentences(text).filter(|sentence| states_a_rule(sentence)) {
            findings.push(Topic::Rule, RANK_RULE, order, cut_middle(sentence, ERROR_CHARS, " […] "));
        }
    }
}

fn take_texts(findings: &mut Findings, message: &Message, order: usize) {
    let text = message.text();
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    for sentence in sentences(text).filter(|sentence| gives_a_reason(sentence)) {
        findings.push(Topic::Decision, RANK_DECISION, order, cut_middle(sentence, ERROR_CHARS, " […] "));
    }
    for sentence in sentences(text).filter(|sentence| looks_ahead(sentence)) {
        findings.push(Topic::Outlook, RANK_NEWEST, order, cut_middle(sentence, ERROR_CHARS, " […] "));
    }
    findings.push(Topic::Action, RANK_NEWEST, order, cut_middle(text, ACTION_CHARS, " […] "));
}

fn take_call(
    files: &mut Vec<(String, Vec<&'static str>, usize)>,
    commands: &mut Vec<(String, usize)>,
    call: &ToolCall,
    order: usize,
) {
    let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else { return };
    let text = |keys: &[&str]| keys.iter().find_map(|key| arguments.get(*key)).and_then(Value::as_str);
    if let Some(path) = text(&["path", "file_path", "filePath", "filename", "notebook_path"]) {
        let used = use_of(&call.name);
        let known = files.iter().position(|(known, ..)| known == path);
        let (path, mut uses) = match known.map(|at| files.remove(at)) {
            Some((path, uses, _)) => (path, uses),
            None => (path.to_owned(), Vec::new()),
        };
        if !uses.contains(&used) {
            uses.push(used);
        }
        files.push((path, uses, order));
    }
    if let Some(command) = text(&["command", "cmd"]) {
        let command = cut_middle(command.trim(), COMMAND_CHARS, " […] ").replace('\n', " ⏎ ");
        commands.retain(|(known, _)| known != &command);
        commands.push((command, order));
    }
}

fn use_of(tool: &str) -> &'static str {
    let tool = tool.to_ascii_lowercase();
    let is = |words: &[&str]| words.iter().any(|word| tool.contains(word));
    if is(&["edit", "replace", "patch"]) {
        "edited"
    } else if is(&["write", "create"]) {
        "written"
    } else if is(&["grep", "glob", "search", "list", "ls"]) {
        "searched"
    } else {
        "read"
    }
}

fn take_error(findings: &mut Findings, messages: &[Arc<Message>], call: &ToolCall, result: &ToolResult, at: usize) {
    let printed: Vec<&str> = result.content.iter().filter_map(Block::as_text).collect();
    let printed = error_lines(&printed.join("\n"));
    let followed = messages
        .iter()
        .skip(at + 1)
        .take_while(|message| !message.source.is_user())
        .find(|message| message.result().is_none() && !message.text().trim().is_empty())
        .map(|message| message.text());
    let followed = followed.as_deref().and_then(|text| sentences(text).next()).unwrap_or("nothing was said of it");
    let followed = cut_middle(followed, ERROR_CHARS / 2, " […] ");
    let what = cut_middle(&describe(call), COMMAND_CHARS, " […] ");
    findings.push(Topic::Error, RANK_ERROR, at, format!("{what} failed: {printed} Then: {followed}"));
}

/// The lines of an output that name the error, else its last lines.
fn error_lines(text: &str) -> String {
    let telling: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| {
            let line = line.to_ascii_lowercase();
            ["error", "failed", "panicked", "exception", "cannot", "not found", "denied", "assertion"]
                .iter()
                .any(|word| line.contains(word))
        })
        .take(4)
        .collect();
    let lines = if telling.is_empty() {
        let last: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        last.into_iter().rev().take(2).rev().collect()
    } else {
        telling
    };
    cut_middle(&lines.join(" / "), ERROR_CHARS, " […] ")
}

fn describe(call: &ToolCall) -> String {
    format!("`{}` {}", call.name, cut_middle(call.arguments.trim(), COMMAND_CHARS, " […] "))
}

/// Ranks the findings of a topic from the newest down.
fn rank_by_age(findings: &mut [Finding], topic: Topic, first: usize) {
    let of_topic: Vec<&mut Finding> = findings.iter_mut().filter(|finding| finding.topic == topic).collect();
    for (age, finding) in of_topic.into_iter().rev().enumerate() {
        finding.rank = if age == 0 { RANK_NEWEST } else { first + age };
    }
}

fn keep_newest_actions(findings: &mut Vec<Finding>) {
    for topic in [Topic::Action, Topic::Outlook] {
        let orders: Vec<usize> = findings.iter().filter(|f| f.topic == topic).map(|f| f.order).collect();
        let kept: HashSet<usize> = orders.into_iter().rev().take(RECENT_ACTIONS).collect();
        findings.retain(|finding| finding.topic != topic || kept.contains(&finding.order));
        let of_topic: Vec<&mut Finding> = findings.iter_mut().filter(|finding| finding.topic == topic).collect();
        for (age, finding) in of_topic.into_iter().rev().enumerate() {
            finding.rank = RANK_NEWEST + age * 20;
        }
    }
}

/// The sentences and list items of a text.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['\n', '。'])
        .flat_map(|line| line.split_inclusive(". "))
        .map(|sentence| sentence.trim().trim_start_matches(['-', '*', '•']).trim())
        .filter(|sentence| sentence.chars().count() > 3)
}

fn has_word(sentence: &str, words: &[&str]) -> bool {
    let sentence = sentence.to_lowercase();
    words.iter().any(|word| {
        sentence.match_indices(word).any(|(at, found)| {
            let before = sentence.get(..at).and_then(|head| head.chars().next_back());
            let after = sentence.get(at + found.len()..).and_then(|tail| tail.chars().next());
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
    })
}

fn states_a_rule(sentence: &str) -> bool {
    has_word(
        sentence,
        &[
            "never", "always", "must", "only", "do not", "don't", "cannot", "may not", "avoid", "prefer", "at most",
            "at least",
        ],
    )
}

fn gives_a_reason(sentence: &str) -> bool {
    has_word(sentence, &["because", "instead of", "rather than", "decided", "so that", "the reason", "trade-off"])
}

fn looks_ahead(sentence: &str) -> bool {
    has_word(sentence, &["next", "remaining", "remains", "still to do", "left to do", "todo", "not yet", "pending"])
}
