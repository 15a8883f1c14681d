//! Findings: what the messages hold that a checkpoint should keep, each with its place and its weight.

use std::collections::HashMap;
use std::sync::Arc;

use super::facts::{FactKind, facts};
use super::sentences::{Act, Sentence, mark_replaced, split};
use crate::checkpoint::{Checkpoint, cut_middle};
use crate::message::{Block, Message, ToolCall, ToolResult};
use crate::policy::{ToolClass, ToolTable};

/// What a finding is about; decides the section that it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Topic {
    /// What the person wants, demands or likes.
    Demand,
    /// What else the person said.
    Said,
    Decision,
    File,
    Error,
    OpenCall,
    Action,
    Outlook,
    /// Paths, identifiers and numbers, each once.
    Index,
    Command,
}

/// A finding with its place and its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) topic: Topic,
    /// Message and place within it; the findings of a section are shown in this order.
    pub(super) order: (usize, usize),
    /// Smaller is kept longer. Ages are added to the weight of the kind.
    pub(super) rank: usize,
    pub(super) text: String,
}

/// Weights of the kinds. An age or a position in a list is added, so kinds overlap: the tenth newest error weighs less than the
/// newest command.
mod rank {
    pub(super) const DEMAND: usize = 0;
    pub(super) const NEWEST: usize = 5;
    pub(super) const INDEX: usize = 9;
    pub(super) const VALUE: usize = 20;
    pub(super) const ERROR: usize = 24;
    pub(super) const FILE: usize = 80;
    pub(super) const ACTION: usize = 90;
    pub(super) const SAID: usize = 120;
    pub(super) const DECISION: usize = 140;
    pub(super) const COMMAND: usize = 160;
    pub(super) const DETAIL: usize = 220;
}

const SENTENCE_CHARS: usize = 400;
const ERROR_CHARS: usize = 200;
const COMMAND_CHARS: usize = 160;
/// Longest line of the index.
const INDEX_LINE_CHARS: usize = 160;

/// Everything worth keeping of a run of messages.
pub(super) fn collect(messages: &[Arc<Message>]) -> Vec<Finding> {
    let mut gathered = Gathered::default();
    let answers = answers(messages);
    for (order, message) in messages.iter().enumerate() {
        // The place after everything that an earlier checkpoint had to say.
        let order = order + 1;
        if let Some(checkpoint) = Checkpoint::parse(message) {
            gathered.inherit(&checkpoint);
        } else if message.source.is_user() {
            gathered.take_user(&message.text(), order);
        } else {
            gathered.take_other(message, order, messages, &answers);
        }
    }
    gathered.finish(messages.len() + 1)
}

#[derive(Default)]
struct Gathered {
    findings: Vec<Finding>,
    sentences: Vec<Sentence>,
    seen: HashMap<String, Fact>,
    errors: Vec<(usize, String)>,
    commands: Vec<(usize, String)>,
    files: Vec<(String, Vec<&'static str>, usize)>,
    texts: Vec<(usize, String)>,
    tools: ToolTable,
}

/// A fact with what tells its weight.
struct Fact {
    kind: FactKind,
    weight: usize,
    last: usize,
    first: usize,
}

/// How much a mention in a place weighs.
const BY_USER: usize = 12;
const BY_MODEL: usize = 4;
const BY_CALL: usize = 5;
const BY_TOOL: usize = 1;
const INHERITED: usize = 8;

/// Results by the place and id of their call. A call opens its id and the next result with that id closes it.
fn answers(messages: &[Arc<Message>]) -> HashMap<(usize, &str), (usize, &ToolResult)> {
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut answers = HashMap::new();
    for (order, message) in messages.iter().enumerate() {
        for block in &message.content {
            match block {
                Block::ToolCall(call) => open.entry(&call.id).or_default().push(order + 1),
                Block::ToolResult(result) => {
                    if let Some(call) = open.get_mut(result.tool_call_id.as_str()).and_then(Vec::pop) {
                        answers.insert((call, result.tool_call_id.as_str()), (order, result));
                    }
                }
                _ => {}
            }
        }
    }
    answers
}

impl Gathered {
    fn note(&mut self, text: &str, order: usize, weight: usize) {
        let seen = &mut self.seen;
        facts(text, |kind, fact| {
            // A number of the person's means nothing without its sentence, one in a call is mostly code, and an inherited one may
            // have been overtaken.
            if kind == FactKind::Number && matches!(weight, BY_USER | INHERITED | BY_CALL) {
                return;
            }
            if let Some(known) = seen.get_mut(fact) {
                known.weight += weight.min(2);
                known.last = order;
            } else {
                seen.insert(fact.to_owned(), Fact { kind, weight, last: order, first: order });
            }
        });
    }

    /// Takes an earlier checkpoint apart line by line, so that it is merged and not quoted.
    fn inherit(&mut self, checkpoint: &Checkpoint) {
        let pinned = checkpoint.sections.iter().map(|section| section.text.as_str());
        let mut heading = String::new();
        for line in checkpoint.body.lines().chain(pinned.flat_map(str::lines)) {
            let line = line.trim();
            if let Some(title) = heading_of(line) {
                heading = title;
                continue;
            }
            let text = line.trim_start_matches(['-', '>', ' ']);
            if text.is_empty() || matches!(text, "None." | "None") || text.starts_with('<') {
                continue;
            }
            self.note(text, 0, INHERITED);
            if heading.contains("request") || heading.contains("user") || heading.contains("demand") {
                self.sentences.extend(split(text).into_iter().map(|sentence| Sentence::new(sentence, 0)));
            } else if heading.contains("error") {
                self.errors.push((0, text.to_owned()));
            } else if !is_index_line(text) {
                self.texts.push((0, text.to_owned()));
            }
        }
    }

    fn take_user(&mut self, text: &str, order: usize) {
        self.note(text, order, BY_USER);
        self.sentences.extend(split(text).into_iter().map(|sentence| Sentence::new(sentence, order)));
    }

    fn take_other(
        &mut self,
        message: &Message,
        order: usize,
        messages: &[Arc<Message>],
        answers: &HashMap<(usize, &str), (usize, &ToolResult)>,
    ) {
        if let Some(result) = message.result() {
            for text in result.content.iter().filter_map(Block::as_text) {
                self.note(text, order, BY_TOOL);
            }
            return;
        }
        let text = message.text();
        if !text.trim().is_empty() {
            self.note(&text, order, BY_MODEL);
            self.texts.push((order, text.trim().to_owned()));
        }
        for call in message.tool_calls() {
            self.take_call(call, order);
            match answers.get(&(order, call.id.as_str())) {
                Some((at, result)) if failed(result) => {
                    let error = describe_error(messages, call, result, *at);
                    self.errors.push((*at + 1, error));
                }
                Some(_) => {}
                None => self.push(
                    Topic::OpenCall,
                    order,
                    rank::NEWEST,
                    format!("`{}` {}", call.name, short(&call.arguments, COMMAND_CHARS)),
                ),
            }
        }
    }

    fn take_call(&mut self, call: &ToolCall, order: usize) {
        let class = self.tools.class(&call.name);
        self.note(&call.arguments, order, BY_CALL);
        if let Some(path) = self.tools.get(&call.name).and_then(|entry| entry.target_of(call)) {
            let used = match class {
                ToolClass::Edit => "changed",
                ToolClass::Read => "read",
                _ => return,
            };
            let known = self.files.iter().position(|(known, ..)| *known == path);
            let (path, mut uses) = match known.map(|at| self.files.remove(at)) {
                Some((path, uses, _)) => (path, uses),
                None => (path, Vec::new()),
            };
            if !uses.contains(&used) {
                uses.push(used);
            }
            self.files.push((path, uses, order));
        } else if class == ToolClass::Shell {
            let arguments: Option<serde_json::Value> = serde_json::from_str(&call.arguments).ok();
            let command = arguments
                .as_ref()
                .and_then(|arguments| ["command", "cmd", "code"].iter().find_map(|key| arguments.get(*key)?.as_str()));
            if let Some(command) = command {
                let command = short(command, COMMAND_CHARS);
                self.commands.retain(|(_, known)| *known != command);
                self.commands.push((order, command));
            }
        }
    }

    fn push(&mut self, topic: Topic, order: usize, rank: usize, text: impl Into<String>) {
        let text = text.into();
        if !text.trim().is_empty() {
            let order = (order, self.findings.len());
            self.findings.push(Finding { topic, order, rank, text });
        }
    }

    fn finish(mut self, end: usize) -> Vec<Finding> {
        self.finish_sentences();
        self.finish_errors();
        self.finish_texts();
        for (age, (path, uses, order)) in std::mem::take(&mut self.files).into_iter().rev().enumerate() {
            self.push(Topic::File, order, rank::FILE + age * 2, format!("`{path}` {}", uses.join(", ")));
        }
        for (age, (order, command)) in std::mem::take(&mut self.commands).into_iter().rev().enumerate() {
            self.push(Topic::Command, order, rank::COMMAND + age * 4, format!("`{command}`"));
        }
        self.finish_index(end);
        self.findings
    }

    fn finish_sentences(&mut self) {
        let mut sentences = std::mem::take(&mut self.sentences);
        mark_replaced(&mut sentences);
        let newest = sentences.iter().map(|sentence| sentence.order).max().unwrap_or(0);
        let first = sentences.iter().map(|sentence| sentence.order).find(|order| *order > 0).unwrap_or(0);
        let mut told = std::collections::HashSet::new();
        let mut age = 0;
        for (place, sentence) in sentences.iter().enumerate().rev() {
            if !told.insert(sentence.text.to_lowercase()) {
                continue;
            }
            if sentence.replaced {
                // Its value no longer holds; neither does it belong in the index.
                let seen = &mut self.seen;
                facts(&sentence.text, |_, fact| {
                    if seen.get(fact).is_some_and(|known| known.last == sentence.order) {
                        seen.remove(fact);
                    }
                });
                continue;
            }
            age += 1;
            let (topic, base) = match sentence.act {
                Act::Rule | Act::Preference => (Topic::Demand, rank::DEMAND),
                Act::Goal => (Topic::Demand, rank::DEMAND + 8),
                Act::Value => (Topic::Demand, rank::VALUE),
                Act::Talk => (Topic::Said, rank::SAID),
            };
            let base = if sentence.order == newest && sentence.order > 0 {
                base.min(rank::NEWEST)
            } else if sentence.order == first {
                base.min(rank::VALUE)
            } else {
                base
            };
            let text = short(&sentence.text, SENTENCE_CHARS);
            let order = (sentence.order, place);
            self.findings.push(Finding { topic, order, rank: base + age / 4, text });
        }
    }

    fn finish_errors(&mut self) {
        let mut told = std::collections::HashSet::new();
        for (age, (order, error)) in std::mem::take(&mut self.errors).into_iter().rev().enumerate() {
            let key: String = error.chars().take(80).collect();
            if told.insert(key) {
                self.push(Topic::Error, order, rank::ERROR + age * 3, error);
            }
        }
    }

    /// The model's texts: decisions and outlooks by the sentence, the newest as they are.
    fn finish_texts(&mut self) {
        let texts = std::mem::take(&mut self.texts);
        for (age, (order, text)) in texts.iter().rev().enumerate() {
            for sentence in split(text) {
                let sentence_text = short(sentence, SENTENCE_CHARS);
                if *order == 0 {
                    self.push(Topic::Decision, 0, rank::DECISION + age, sentence_text);
                } else if looks_ahead(sentence) && age < 6 {
                    self.push(Topic::Outlook, *order, rank::NEWEST + age * 12, sentence_text);
                } else if age == 0 {
                    self.push(Topic::Action, *order, rank::ACTION, sentence_text);
                } else if gives_a_reason(sentence) {
                    self.push(Topic::Decision, *order, rank::DECISION + age * 2, sentence_text);
                } else if age < 8 {
                    self.push(Topic::Action, *order, rank::ACTION + age * 20, sentence_text);
                } else {
                    self.push(Topic::Decision, *order, rank::DETAIL + age * 2, sentence_text);
                }
            }
        }
    }

    /// Facts that no other finding will hold for sure, each once, the weightiest first.
    fn finish_index(&mut self, end: usize) {
        let mut facts: Vec<(String, Fact)> = std::mem::take(&mut self.seen).into_iter().collect();
        let weight = |fact: &Fact| fact.weight * 8 + fact.last * 8 / end.max(1);
        facts.sort_by(|(a_text, a), (b_text, b)| {
            weight(b).cmp(&weight(a)).then(b.last.cmp(&a.last)).then(a.first.cmp(&b.first)).then(a_text.cmp(b_text))
        });
        for kind in [FactKind::Path, FactKind::Identifier, FactKind::Number] {
            let (label, first) = match kind {
                FactKind::Path => (PATHS, rank::INDEX),
                FactKind::Identifier => (NAMES, rank::INDEX),
                FactKind::Number => (NUMBERS, rank::VALUE),
            };
            let mut line = String::new();
            let mut lines = Vec::new();
            for (text, _) in facts.iter().filter(|(_, fact)| fact.kind == kind) {
                if !line.is_empty() && line.len() + text.len() > INDEX_LINE_CHARS {
                    lines.push(std::mem::take(&mut line));
                }
                line.push_str(if line.is_empty() { "" } else { ", " });
                line.push_str(text);
            }
            lines.push(line);
            for (number, line) in lines.into_iter().enumerate().filter(|(_, line)| !line.is_empty()) {
                let text = format!("{label}: {line}");
                let order = (usize::MAX, self.findings.len());
                self.findings.push(Finding { topic: Topic::Index, order, rank: first + number * 2, text });
            }
        }
    }
}

/// Labels of the index.
pub(super) const PATHS: &str = "Paths";
pub(super) const NAMES: &str = "Names";
pub(super) const NUMBERS: &str = "Numbers";

fn is_index_line(line: &str) -> bool {
    [PATHS, NAMES, NUMBERS].iter().any(|label| line.strip_prefix(label).is_some_and(|rest| rest.starts_with(": ")))
}

/// The heading that a line of a checkpoint is, in lower case.
fn heading_of(line: &str) -> Option<String> {
    if let Some(title) = line.strip_prefix("## ") {
        return Some(title.to_lowercase());
    }
    let tag = line.strip_prefix('<').and_then(|tag| tag.strip_suffix('>'));
    if let Some(tag) = tag.filter(|tag| tag.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')) {
        return Some(tag.replace('_', " ").to_lowercase());
    }
    let (number, title) = line.split_once(". ")?;
    let numbered = !number.is_empty() && number.len() <= 2 && number.bytes().all(|byte| byte.is_ascii_digit());
    (numbered && title.ends_with(':')).then(|| title.trim_end_matches(':').to_lowercase())
}

fn failed(result: &ToolResult) -> bool {
    result.is_error == Some(true)
        || result.content.iter().filter_map(Block::as_text).any(|text| {
            let end = text.len().min(2_000);
            let head = text.get(..end).unwrap_or(text).to_ascii_lowercase();
            ["error:", "error[", "panicked at", "traceback (most recent", "fatal:", "exception:", "command not found"]
                .iter()
                .any(|sign| head.contains(sign))
        })
}

fn describe_error(messages: &[Arc<Message>], call: &ToolCall, result: &ToolResult, at: usize) -> String {
    let printed: Vec<&str> = result.content.iter().filter_map(Block::as_text).collect();
    let printed = error_lines(&printed.join("\n"));
    let followed = messages
        .iter()
        .skip(at + 1)
        .take_while(|message| !message.source.is_user())
        .find(|message| message.result().is_none() && !message.text().trim().is_empty())
        .map(|message| message.text());
    let followed =
        followed.as_deref().and_then(|text| split(text).into_iter().next()).unwrap_or("nothing was said of it");
    format!("{printed} (`{}`). Then: {}", call.name, short(followed, ERROR_CHARS / 2))
}

/// The lines of an output that name the error, else its last lines.
fn error_lines(text: &str) -> String {
    const MOST_LINES: usize = 3;
    let names_it = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["error", "panicked", "exception", "cannot", "not found", "denied", "assertion", "fatal", "failed"]
            .iter()
            .any(|word| line.contains(word))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut telling: Vec<&str> = lines.iter().copied().filter(names_it).take(MOST_LINES).collect();
    if telling.is_empty() {
        telling = lines.iter().rev().take(2).rev().copied().collect();
    }
    short(&telling.join(" / "), ERROR_CHARS)
}

fn short(text: &str, chars: usize) -> String {
    cut_middle(text.trim(), chars, " […] ").replace('\n', " ")
}

fn has_any(sentence: &str, phrases: &[&str]) -> bool {
    let lower = sentence.to_lowercase();
    phrases.iter().any(|phrase| lower.contains(phrase))
}

fn gives_a_reason(sentence: &str) -> bool {
    has_any(
        sentence,
        &["because", "instead of", "rather than", "decided", "so that", "reason", "since ", "trade-off", "abandon"],
    )
}

fn looks_ahead(sentence: &str) -> bool {
    has_any(
        sentence,
        &[
            "next",
            "remain",
            "still to",
            "left to do",
            "todo",
            "not yet",
            "pending",
            "blocked",
            "to be done",
            "what is left",
        ],
    )
}
