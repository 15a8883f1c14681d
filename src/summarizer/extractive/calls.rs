//! What tool calls and their results say: commands, plans, errors, and the ends of what was printed.

use std::collections::VecDeque;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::findings::short;
use crate::checkpoint::mask_secrets;
use crate::message::{Block, ToolCall, ToolResult};

const COMMAND_CHARS: usize = 70;
const PLAN_CHARS: usize = 160;
/// Longest error of a result.
pub(super) const ERROR_CHARS: usize = 200;
/// An output is read as far as one that is trimmed: what a tool prints is long, and the model repeats what matters of it.
const OUTPUT_HEAD_BYTES: usize = 4_096;
const OUTPUT_TAIL_BYTES: usize = 1_024;

/// Head and tail of an output.
pub(super) fn ends_of(text: &str) -> (&str, &str) {
    if text.len() <= OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES {
        return (text, "");
    }
    // Cut at blanks or line ends, so that no fact is torn.
    let separator = |c: char| c.is_ascii_whitespace();
    let head = prefix(text, OUTPUT_HEAD_BYTES);
    let head = head.rfind(separator).and_then(|at| head.get(..at)).unwrap_or(head);
    let from = text.len() - OUTPUT_TAIL_BYTES;
    let tail = (from..text.len()).find_map(|at| text.get(at..)).unwrap_or_default();
    let tail = tail.find(separator).and_then(|at| tail.get(at..)).unwrap_or_default();
    (head, tail)
}

/// The longest beginning of a text of at most so many bytes.
fn prefix(text: &str, bytes: usize) -> &str {
    (0..=bytes.min(text.len())).rev().find_map(|end| text.get(..end)).unwrap_or_default()
}

pub(super) fn command_of(call: &ToolCall) -> Option<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    ["command", "cmd", "code"].iter().find_map(|key| match arguments.get(key)? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            Some(words.join(" "))
        }
        _ => None,
    })
}

/// Whether a command is worth repeating: looking around and editing in place are not.
pub(super) fn tells_something(command: &str) -> bool {
    const TRIFLES: [&str; 12] =
        ["cat", "cd", "echo", "find", "grep", "head", "ls", "printf", "pwd", "sed", "tail", "wc"];
    let program = command.split_whitespace().next().unwrap_or_default();
    !program.is_empty() && !TRIFLES.contains(&program)
}

/// What a command line does first: its first command, without what is made of its output.
pub(super) fn first_command(line: &str) -> String {
    let line = line.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let moves = line.strip_prefix("cd ").and_then(|rest| rest.split_once("&&")).map_or(line, |(_, rest)| rest);
    let ends = [" && ", " || ", " | ", "; ", " 2>", " > ", " <<"];
    let end = ends.iter().filter_map(|end| moves.find(end)).min().unwrap_or(moves.len());
    let command = moves.get(..end).unwrap_or(moves).trim();
    if command.chars().nth(COMMAND_CHARS).is_none() {
        return command.to_owned();
    }
    // Before a secret could be cut in two.
    let command = mask_secrets(command).text;
    match command.char_indices().nth(COMMAND_CHARS) {
        Some((at, _)) => {
            let head = command.get(..at).unwrap_or(&command);
            format!("{} …", head.rsplit_once(' ').map_or(head, |(head, _)| head))
        }
        None => command,
    }
}

/// The steps of a plan that a tool call writes down and that are not done; none for a call that writes no plan.
pub(super) fn plan_of(call: &ToolCall) -> Option<Vec<String>> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let steps = ["todos", "plan", "items", "tasks"].iter().find_map(|key| arguments.get(key)?.as_array())?;
    let text = |step: &Value, keys: &[&str]| keys.iter().find_map(|key| step.get(key)?.as_str().map(str::to_owned));
    let is_plan = steps.iter().any(|step| step.get("status").is_some());
    is_plan.then(|| {
        let open = steps.iter().filter_map(|step| {
            let status = text(step, &["status"])?;
            let said = text(step, &["content", "step", "title", "text", "description"])?;
            (!matches!(status.as_str(), "completed" | "done" | "cancelled"))
                .then(|| format!("[{status}] {}", short(&said, PLAN_CHARS)))
        });
        open.collect()
    })
}

/// A pattern of the phrases below, in ASCII without regard to case.
pub(super) fn pattern(phrases: &str) -> Option<Regex> {
    Regex::new(&format!("(?i-u:{phrases})")).ok()
}

/// Whether a text holds one of the phrases. The patterns are fixed; one that could not be built would match nothing.
pub(super) fn holds(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

static FAILURE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?m:^)\s*(?:error:|error\[|fatal:|traceback \(most recent|[\w.]*(?:error|exception):)|panicked at|: command not found",
    )
});
static NAMES_ERROR: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern("error|panicked|exception|cannot|not found|denied|assertion|fatal|failed"));
pub(super) fn prints_an_error(result: &ToolResult) -> bool {
    const HEAD_BYTES: usize = 2_000;
    result.content.iter().filter_map(Block::as_text).any(|text| holds(&FAILURE, prefix(text, HEAD_BYTES)))
}

/// The lines of an output that name the error, else its last lines.
pub(super) fn printed_error(result: &ToolResult) -> String {
    const MOST_LINES: usize = 3;
    let lines = || {
        let texts = result.content.iter().filter_map(Block::as_text);
        texts.flat_map(str::lines).map(str::trim).filter(|line| !line.is_empty())
    };
    let mut telling: Vec<&str> = lines().filter(|line| holds(&NAMES_ERROR, line)).take(MOST_LINES).collect();
    if telling.is_empty() {
        let mut last: VecDeque<&str> = VecDeque::new();
        for line in lines() {
            last.push_back(line);
            if last.len() > 2 {
                last.pop_front();
            }
        }
        telling = last.into();
    }
    short(&telling.join(" / "), ERROR_CHARS)
}
