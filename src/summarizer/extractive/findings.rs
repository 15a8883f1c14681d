//! Findings: what the messages hold that a checkpoint should keep, each with its place and its weight.

use std::sync::{Arc, LazyLock};

use hashbrown::{HashMap, HashSet};
use regex::Regex;

use super::calls::{
    ERROR_CHARS, command_of, ends_of, first_command, holds, pattern, plan_of, printed_error, prints_an_error,
    tells_something,
};
use super::facts::Notation;
use super::index::{Index, Item, List, Mention, split_list};
use super::sentences::{Act, Speech, split};
use crate::checkpoint::{Checkpoint, cut_middle, mask_secrets};
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
    Error,
    OpenCall,
    Action,
    /// What remains to be done.
    Outlook,
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

/// Everything worth keeping of a run of messages.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Sentences, the weightiest first.
    pub(super) lines: Vec<Finding>,
    /// Entries of the index, the weightiest first.
    pub(super) items: Vec<Item>,
}

/// Weights of the kinds. An age or a position in a list is added, so kinds overlap: the tenth newest error weighs less than the
/// newest command.
mod rank {
    pub(super) const DEMAND: usize = 0;
    pub(super) const NEWEST: usize = 5;
    pub(super) const VALUE: usize = 20;
    pub(super) const ERROR: usize = 24;
    pub(super) const ACTION: usize = 90;
    pub(super) const SAID: usize = 120;
    pub(super) const DECISION: usize = 140;
    pub(super) const DETAIL: usize = 220;
}

const SENTENCE_CHARS: usize = 400;
const ARGUMENT_CHARS: usize = 120;
/// Of the model's prose, so many times the room is looked at sentence by sentence, the newest first. Older prose gives facts.
const PROSE_PER_ROOM: usize = 4;

/// Everything worth keeping of a run of messages. `room_bytes` is about what the summary may take.
pub(super) fn collect(messages: &[Arc<Message>], room_bytes: usize) -> Findings {
    let masked = without_private_keys(messages);
    let messages = masked.as_deref().unwrap_or(messages);
    let checkpoints: Vec<(usize, Vec<String>)> = messages
        .iter()
        .enumerate()
        .filter_map(|(at, message)| Some((at, lines_of(&Checkpoint::parse(message)?))))
        .collect();
    let mut inherited = checkpoints.iter().peekable();
    let mut gathered = Gathered { messages, answers: answers(messages), ..Gathered::default() };
    for (at, message) in messages.iter().enumerate() {
        // The place after everything that an earlier checkpoint had to say.
        let order = at + 1;
        if let Some((_, lines)) = inherited.next_if(|(checkpoint, _)| *checkpoint == at) {
            gathered.inherit(lines);
        } else if message.source.is_user() {
            gathered.take_user(message, order);
        } else {
            gathered.take_other(message, order);
        }
    }
    gathered.finish(messages.len() + 1, room_bytes)
}

/// The messages without private keys, where one holds any: a key takes several lines, and those would be taken apart.
fn without_private_keys(messages: &[Arc<Message>]) -> Option<Vec<Arc<Message>>> {
    let mut masked: Option<Vec<Arc<Message>>> = None;
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| holds_private_key(&message.content)) {
        let messages = masked.get_or_insert_with(|| messages.to_vec());
        let mut message = Message::clone(message);
        mask_blocks(&mut message.content);
        if let Some(slot) = messages.get_mut(at) {
            *slot = Arc::new(message);
        }
    }
    masked
}

fn holds_private_key(blocks: &[Block]) -> bool {
    const ARMOUR: &str = "PRIVATE KEY";
    blocks.iter().any(|block| match block {
        Block::Text(text) => text.text.contains(ARMOUR),
        Block::ToolCall(call) => call.arguments.contains(ARMOUR),
        Block::ToolResult(result) => holds_private_key(&result.content),
        _ => false,
    })
}

fn mask_blocks(blocks: &mut [Block]) {
    for block in blocks {
        match block {
            Block::Text(text) => text.text = mask_secrets(&text.text).text,
            Block::ToolCall(call) => call.arguments = mask_secrets(&call.arguments).text,
            Block::ToolResult(result) => mask_blocks(&mut result.content),
            _ => {}
        }
    }
}

/// The lines of a checkpoint. Lists of its index are taken apart.
fn lines_of(checkpoint: &Checkpoint) -> Vec<String> {
    let pinned = checkpoint.sections.iter().map(|section| section.text.as_str());
    let lines = std::iter::once(checkpoint.body.as_str()).chain(pinned).flat_map(str::lines).map(str::trim);
    lines
        .map(|line| match List::of_line(unmarked(line)) {
            Some(_) => split_list(unmarked(line)),
            _ => line.to_owned(),
        })
        .collect()
}

/// A line without its list mark.
fn unmarked(line: &str) -> &str {
    line.trim_start_matches(['-', '>', ' '])
}

#[derive(Default)]
struct Gathered<'a> {
    messages: &'a [Arc<Message>],
    answers: Answers<'a>,
    lines: Vec<Finding>,
    speech: Speech<'a>,
    index: Index<'a>,
    errors: Vec<(usize, String)>,
    plan: Vec<(usize, String)>,
    texts: Vec<(usize, &'a str)>,
    tools: ToolTable,
}

/// Results by the place and id of their call.
type Answers<'a> = HashMap<(usize, &'a str), (usize, &'a ToolResult)>;

/// A call opens its id and the next result with that id closes it.
fn answers(messages: &[Arc<Message>]) -> Answers<'_> {
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

impl<'a> Gathered<'a> {
    /// Merges an earlier checkpoint line by line, instead of quoting it.
    fn inherit(&mut self, lines: &'a [String]) {
        let mut heading = String::new();
        for line in lines {
            if let Some(title) = heading_of(line) {
                heading = title;
                continue;
            }
            let text = unmarked(line);
            if text.is_empty() || matches!(text, "None." | "None") || text.starts_with('<') {
                continue;
            }
            if let Some((list, entries)) = List::of_line(text) {
                self.inherit_list(list, entries);
                continue;
            }
            self.index.note(text, Notation::Plain, 0, Mention::Inherited);
            if heading.contains("request") || heading.contains("user") || heading.contains("demand") {
                self.say(text, 0);
            } else if heading.contains("error") {
                self.errors.push((0, text.to_owned()));
            } else {
                self.texts.push((0, text));
            }
        }
    }

    fn inherit_list(&mut self, list: List, entries: &'a str) {
        match list {
            List::Changed | List::Read => {
                let paths = entries.split(", ").filter(|path| !path.is_empty());
                paths.for_each(|path| self.index.note_file(path.to_owned(), list, 0));
            }
            List::Commands => {
                let commands = entries.split('`').skip(1).step_by(2);
                commands.for_each(|command| self.index.note_command(command.to_owned(), 0));
            }
            _ => self.index.note(entries, Notation::Plain, 0, Mention::Indexed),
        }
    }

    fn say(&mut self, text: &'a str, order: usize) {
        for sentence in split(text) {
            self.speech.push(sentence, order);
        }
    }

    fn take_user(&mut self, message: &'a Message, order: usize) {
        for text in message.content.iter().filter_map(Block::as_text) {
            self.index.note(text, Notation::Plain, order, Mention::User);
            self.say(text, order);
        }
    }

    fn take_other(&mut self, message: &'a Message, order: usize) {
        if let Some(result) = message.result() {
            for text in result.content.iter().filter_map(Block::as_text) {
                let (head, tail) = ends_of(text);
                self.index.note(head, Notation::Plain, order, Mention::Tool);
                self.index.note(tail, Notation::Plain, order, Mention::Tool);
            }
            return;
        }
        for text in message.content.iter().filter_map(Block::as_text).map(str::trim).filter(|text| !text.is_empty()) {
            self.index.note(text, Notation::Plain, order, Mention::Model);
            self.texts.push((order, text));
        }
        for call in message.tool_calls() {
            self.take_call(call, order);
            match self.answers.get(&(order, call.id.as_str())).copied() {
                Some((at, result)) if self.failed(call, result) => {
                    let error = format!("{} (`{}`).", printed_error(result), call.name);
                    self.errors.push((at + 1, error));
                }
                Some(_) => {}
                None => self.push(
                    Topic::OpenCall,
                    order,
                    rank::NEWEST,
                    format!("`{}` {}", call.name, short(&call.arguments, ARGUMENT_CHARS)),
                ),
            }
        }
    }

    /// Whether a call failed: it says so, or a command printed an error. What is read may well speak of errors.
    fn failed(&self, call: &ToolCall, result: &ToolResult) -> bool {
        let runs = matches!(self.tools.class(&call.name), ToolClass::Shell | ToolClass::Other | ToolClass::Web);
        result.is_error == Some(true) || runs && prints_an_error(result)
    }

    fn take_call(&mut self, call: &'a ToolCall, order: usize) {
        self.index.note(&call.arguments, Notation::Json, order, Mention::Call);
        let list = match self.tools.class(&call.name) {
            ToolClass::Edit => List::Changed,
            ToolClass::Read => List::Read,
            ToolClass::Shell => {
                let command = command_of(call);
                if let Some(command) = command.as_deref().map(first_command).filter(|command| tells_something(command))
                {
                    self.index.note_command(command.replace('`', "'"), order);
                }
                return;
            }
            _ => {
                if let Some(plan) = plan_of(call) {
                    self.plan = plan.into_iter().map(|step| (order, step)).collect();
                }
                return;
            }
        };
        if let Some(path) = self.tools.get(&call.name).and_then(|entry| entry.target_of(call)) {
            self.index.note_file(path, list, order);
        }
    }

    fn push(&mut self, topic: Topic, order: usize, rank: usize, text: impl Into<String>) {
        // What has several lines could look like a heading of the summary.
        let text = text.into().replace(['\n', '\r'], " ");
        if !text.trim().is_empty() {
            let order = (order, self.lines.len());
            self.lines.push(Finding { topic, order, rank, text });
        }
    }

    fn finish(mut self, end: usize, room_bytes: usize) -> Findings {
        self.finish_sentences(room_bytes);
        self.finish_errors();
        for (place, (order, step)) in std::mem::take(&mut self.plan).into_iter().enumerate() {
            self.push(Topic::Outlook, order, rank::NEWEST + place, step);
        }
        self.finish_texts(room_bytes);
        let mut lines = self.lines;
        lines.sort_by_key(|line| line.rank);
        let mut items = self.index.items(end);
        items.sort_by_key(|item| item.rank);
        Findings { lines, items }
    }

    fn finish_sentences(&mut self, room_bytes: usize) {
        let sentences = std::mem::take(&mut self.speech).finish();
        let newest = sentences.iter().map(|sentence| sentence.order).max().unwrap_or(0);
        let first = sentences.iter().map(|sentence| sentence.order).find(|order| *order > 0).unwrap_or(0);
        let mut told = HashSet::new();
        let mut age = 0;
        let mut left = room_bytes.saturating_mul(PROSE_PER_ROOM);
        for (place, sentence) in sentences.iter().enumerate().rev() {
            if !told.insert(sentence.text.to_lowercase()) {
                continue;
            }
            if sentence.replaced {
                // Its value no longer holds; neither does it belong in the index.
                self.index.forget(sentence);
                continue;
            }
            age += 1;
            let (topic, base) = match sentence.act {
                Act::Rule | Act::Preference => (Topic::Demand, rank::DEMAND),
                Act::Goal => (Topic::Demand, rank::DEMAND + 8),
                Act::Value => (Topic::Demand, rank::VALUE),
                Act::Talk => (Topic::Said, rank::SAID),
            };
            // "Hard rules:" says nothing without its list, and is understood from it.
            let (topic, base) = if sentence.text.ends_with(':') { (Topic::Said, rank::SAID) } else { (topic, base) };
            let base = if sentence.order == newest && sentence.order > 0 {
                base.min(rank::NEWEST)
            } else if sentence.order == first {
                base.min(rank::VALUE)
            } else {
                base
            };
            // Talk that there is no room for is not even copied.
            if topic == Topic::Said {
                if left < sentence.text.len() {
                    continue;
                }
                left -= sentence.text.len();
            }
            let text = short(sentence.text, SENTENCE_CHARS);
            let order = (sentence.order, place);
            // A rule ages more slowly than a wish.
            let age = if sentence.act == Act::Rule { age / 12 } else { age / 4 };
            self.lines.push(Finding { topic, order, rank: base + age, text });
        }
    }

    fn finish_errors(&mut self) {
        let errors = std::mem::take(&mut self.errors);
        let followed = self.what_followed(&errors);
        let mut told = HashSet::new();
        for (age, ((order, error), followed)) in errors.into_iter().zip(followed).rev().enumerate() {
            let key: String = error.chars().take(80).collect();
            if told.insert(key) {
                let text = followed.map_or(error.clone(), |followed| format!("{error} Then: {followed}"));
                self.push(Topic::Error, order, rank::ERROR + age * 3, text);
            }
        }
    }

    /// What the model said next after each error, before the person spoke again; none for an error of an earlier checkpoint.
    fn what_followed(&self, errors: &[(usize, String)]) -> Vec<Option<String>> {
        let mut next: Vec<Option<&str>> = vec![None; self.messages.len() + 1];
        let mut said = None;
        for (at, message) in self.messages.iter().enumerate().rev() {
            if let Some(slot) = next.get_mut(at + 1) {
                *slot = said;
            }
            if message.source.is_user() {
                said = None;
            } else if message.result().is_none() {
                said = message.content.iter().filter_map(Block::as_text).find(|text| !text.trim().is_empty()).or(said);
            }
        }
        errors
            .iter()
            .map(|(order, _)| {
                let text = next.get(*order).copied().flatten().filter(|_| *order > 0)?;
                Some(short(first_sentence(text)?, ERROR_CHARS / 2))
            })
            .collect()
    }

    /// The model's texts: decisions and outlooks by the sentence, the newest as they are.
    fn finish_texts(&mut self, room_bytes: usize) {
        let texts = std::mem::take(&mut self.texts);
        let mut left = room_bytes.saturating_mul(PROSE_PER_ROOM);
        for (age, (order, text)) in texts.iter().rev().enumerate() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(text.len());
            // What stands in a list under "what is left:" remains to be done.
            let mut lists_outlook = false;
            for line in text.lines() {
                let is_entry = line.trim_start().starts_with(['-', '*', '•']) || numbered(line);
                lists_outlook &= is_entry || line.trim().is_empty();
                let ahead = looks_ahead(line);
                for sentence in split(line) {
                    let text = short(sentence, SENTENCE_CHARS);
                    if sentence.ends_with(':') && looks_ahead(sentence) {
                        // The list behind it says what.
                    } else if *order == 0 {
                        self.push(Topic::Decision, 0, rank::DECISION + age, text);
                    } else if age < 6 && (lists_outlook || ahead && looks_ahead(sentence)) {
                        self.push(Topic::Outlook, *order, rank::NEWEST + age * 12, text);
                    } else if age == 0 {
                        self.push(Topic::Action, *order, rank::ACTION, text);
                    } else if gives_a_reason(sentence) {
                        self.push(Topic::Decision, *order, rank::DECISION + age * 2, text);
                    } else if age < 8 {
                        self.push(Topic::Action, *order, rank::ACTION + age * 20, text);
                    } else {
                        self.push(Topic::Decision, *order, rank::DETAIL + age * 2, text);
                    }
                }
                lists_outlook |= ahead && line.trim_end().trim_end_matches('*').ends_with(':');
            }
        }
    }
}

fn numbered(line: &str) -> bool {
    let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.trim_start().len() && rest.starts_with(['.', ')'])
}

fn first_sentence(text: &str) -> Option<&str> {
    text.lines().find_map(|line| split(line).into_iter().next())
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

static REASON: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern("because|instead of|rather than|decided|so that|reason|since |trade-off|abandon"));
static AHEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern("next|remain|still to|left to do|todo|not yet|pending|blocked|to be done|what is left|left:|open points")
});

fn gives_a_reason(sentence: &str) -> bool {
    holds(&REASON, sentence)
}

fn looks_ahead(sentence: &str) -> bool {
    holds(&AHEAD, sentence)
}

/// A text of at most so many characters on one line, cut in the middle. Secrets are masked before they could be cut in two.
pub(super) fn short(text: &str, chars: usize) -> String {
    let text = text.trim();
    let cut = if text.len() > chars { cut_middle(&mask_secrets(text).text, chars, " […] ") } else { text.to_owned() };
    cut.replace('\n', " ")
}
