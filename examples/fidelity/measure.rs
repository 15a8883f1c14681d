//! What a conversation's facts are, and which of them a text holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arya_presets::{Block, Message};
use regex::Regex;
use serde_json::Value;

/// Budgets, in percent of a conversation's characters.
pub(crate) const BUDGETS: [usize; 3] = [5, 10, 20];
pub(crate) const KINDS: [&str; 5] = ["paths", "identifiers", "numbers", "errors", "instructions"];

/// The facts of a conversation by kind, each once.
pub(crate) struct Facts([BTreeSet<String>; 5]);

impl Facts {
    /// The facts of messages.
    ///
    /// They are what the person and the model wrote, calls included: paths and addresses; names of code, and identifiers of
    /// letters and digits; numbers with their units; of each failed result the line that names the error; and the person's
    /// sentences that state a rule. Errors and sentences count by their first 60 characters.
    pub(crate) fn of(messages: &[Arc<Message>]) -> Result<Self, regex::Error> {
        let patterns = Patterns::new()?;
        let mut facts = Self(Default::default());
        let [paths, identifiers, numbers, errors, instructions] = &mut facts.0;
        for message in messages {
            let mut said = String::new();
            for block in &message.content {
                match block {
                    Block::Text(text) => said.push_str(&text.text),
                    Block::ToolCall(call) => push_arguments(&mut said, &call.arguments),
                    Block::ToolResult(result) if result.is_error == Some(true) => {
                        let texts = result.content.iter().filter_map(Block::as_text);
                        let line = texts.flat_map(str::lines).map(str::trim).find(|line| names_an_error(line));
                        errors.extend(line.map(|line| line.chars().take(MOST_CHARS).collect()));
                    }
                    _ => {}
                }
                said.push('\n');
            }
            // What a stream editor replaces is no path: `s/old/new/`.
            let said = patterns.edit.replace_all(&said, " ");
            let found = |regex: &Regex| -> Vec<String> {
                regex
                    .find_iter(&said)
                    .map(|found| found.as_str().trim_end_matches(['.', ',', ':']).to_owned())
                    .collect()
            };
            paths.extend(found(&patterns.path));
            identifiers.extend(found(&patterns.identifier));
            numbers.extend(found(&patterns.number));
            if message.source.is_user() {
                instructions.extend(rules_of(&said, &patterns.rule));
            }
        }
        Ok(facts)
    }

    /// How many facts of each kind there are.
    pub(crate) fn counts(&self) -> [usize; 5] {
        self.0.each_ref().map(BTreeSet::len)
    }

    /// How many facts of each kind a text lacks, and which.
    pub(crate) fn lacking(&self, text: &str) -> [Vec<&str>; 5] {
        let text = squeezed(&apart(text));
        self.0.each_ref().map(|kind| {
            kind.iter().map(String::as_str).filter(|fact| !text.contains(squeezed(fact).as_str())).collect()
        })
    }
}

/// Characters by which errors and sentences are compared: what is longer may be shortened at its end.
const MOST_CHARS: usize = 60;

struct Patterns {
    path: Regex,
    identifier: Regex,
    number: Regex,
    rule: Regex,
    edit: Regex,
}

impl Patterns {
    fn new() -> Result<Self, regex::Error> {
        Ok(Self {
            path: Regex::new(
                r"(?:https?://[^\s\x22'`)>\]，。]+)|(?:[\w.~@-]*/)+[\w.@-]+|\b[\w-]{2,}\.(?:rs|toml|md|py|ts|tsx|js|json|csv|log|sql|yml|yaml|sh|txt|html|css|go|java|c|h|cpp)\b|\b\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d+)?\b|[\w.+-]+@[\w-]+\.[\w.-]*\w",
            )?,
            identifier: Regex::new(
                r"\b(?:[a-z]+[a-z0-9]*_[a-z0-9_]+|[A-Z]+[A-Z0-9]*_[A-Z0-9_]+|[a-z]+[a-z0-9]*[A-Z][A-Za-z0-9]*|[A-Za-z_]\w*(?:::\w+)+|[A-Z]{1,4}-?\d{2,}|[a-z]+-[0-9a-f]{6,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b",
            )?,
            number: Regex::new(
                r"(?i)\b\d+(?:[.,]\d+)*\s?(?:%|ms|s|seconds?|minutes?|hours?|days?|[kmgt]i?b|bytes?|rows|lines|tests|attempts|requests|tokens|chars|characters|users|px|hz|words|orders|customers|pods|records)(?:\b|$)|\d+(?:\.\d+)?(?:毫秒|秒|分钟|小时|天|元|个|次)",
            )?,
            rule: Regex::new(
                r"(?i)\b(?:never|always|must|only|do not|don't|no)\b|不要|必须|只能|绝不|禁止|始终|不能|最多|至少",
            )?,
            edit: Regex::new(r"\bs/[^/\n]*/[^/\n]*/")?,
        })
    }
}

/// Appends the values of a call's arguments, as the model meant them.
fn push_arguments(out: &mut String, arguments: &str) {
    fn push(out: &mut String, value: &Value) {
        match value {
            // An escape inside a written file begins no word either.
            Value::String(text) => out.push_str(&text.replace("\\n", "\n").replace("\\r", "\n").replace("\\t", "\n")),
            Value::Array(values) => values.iter().for_each(|value| push(out, value)),
            Value::Object(map) => map.values().for_each(|value| push(out, value)),
            other => out.push_str(&other.to_string()),
        }
        out.push('\n');
    }
    match serde_json::from_str(arguments) {
        Ok(value) => push(out, &value),
        Err(_) => out.push_str(arguments),
    }
}

fn names_an_error(line: &str) -> bool {
    let line = line.to_lowercase();
    line.starts_with("error") || line.contains("panicked at") || line.contains("failed")
}

/// The sentences that state a rule. Words in backticks state none.
fn rules_of(said: &str, rule: &Regex) -> Vec<String> {
    let sentences =
        said.lines().flat_map(|line| line.split(". ")).flat_map(|part| part.split_inclusive('。')).map(str::trim);
    sentences
        .filter(|sentence| rule.is_match(sentence))
        .map(|sentence| {
            let sentence =
                sentence.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | ' ' | '>'));
            sentence.trim_end_matches(['.', '。']).chars().take(MOST_CHARS).collect()
        })
        .collect()
}

/// The text with lists of one directory or namespace, `dir/{a, b}` and `Kind::{A, B}`, as whole paths and names.
fn apart(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once('{') {
        let shared = before.rsplit(char::is_whitespace).next().unwrap_or(before);
        let names = inside.split_once('}').filter(|_| shared.ends_with('/') || shared.ends_with("::"));
        let Some((names, after)) = names else {
            out.push_str(before);
            out.push('{');
            rest = inside;
            continue;
        };
        out.push_str(before.strip_suffix(shared).unwrap_or(before));
        for name in names.split(", ") {
            out.push_str(&format!("{shared}{name} "));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Characters of messages: texts, calls and results.
pub(crate) fn chars(messages: &[Arc<Message>]) -> usize {
    fn of(blocks: &[Block]) -> usize {
        blocks
            .iter()
            .map(|block| match block {
                Block::Text(text) => text.text.chars().count(),
                Block::ToolCall(call) => call.name.chars().count() + call.arguments.chars().count(),
                Block::ToolResult(result) => of(&result.content),
                _ => 0,
            })
            .sum()
    }
    messages.iter().map(|message| of(&message.content)).sum()
}

/// What a checkpoint of a budget holds.
pub(crate) struct Row {
    pub(crate) percent: usize,
    pub(crate) budget_chars: usize,
    pub(crate) text: String,
    pub(crate) held: [usize; 5],
}

impl Row {
    /// Facts of all kinds that are held.
    pub(crate) fn total(&self) -> usize {
        self.held.iter().sum()
    }
}

/// The checkpoints of messages at each budget, and what they hold. `summary` writes one within so many characters.
pub(crate) fn rows(messages: &[Arc<Message>], facts: &Facts, summary: impl Fn(usize) -> Option<String>) -> Vec<Row> {
    let size = chars(messages);
    let row = |percent: usize| {
        let budget_chars = size * percent / 100;
        let text = summary(budget_chars).unwrap_or_default();
        let lacking = facts.lacking(&text);
        let counts: BTreeMap<usize, usize> = lacking.iter().map(Vec::len).enumerate().collect();
        let mut held = facts.counts();
        for (kind, held) in held.iter_mut().enumerate() {
            *held -= counts.get(&kind).copied().unwrap_or(0);
        }
        Row { percent, budget_chars, text, held }
    };
    BUDGETS.map(row).into()
}
