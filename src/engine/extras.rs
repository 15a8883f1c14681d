//! What stands in a checkpoint beside the summary: quotes of the person, recent files, background work, sections of the host.

use std::collections::HashSet;
use std::sync::Arc;

use crate::checkpoint::{Checkpoint, Section, cut_middle};
use crate::kit::Kit;
use crate::message::{Block, Message, ToolCall, ToolResult};
use crate::meter::TokenCounter;
use crate::policy::{BackgroundTable, ToolClass, ToolTable};
use crate::session::{Seq, Session};

/// A further section of a checkpoint, rendered by the host from the messages that are replaced. None leaves it out.
pub struct ExtraSection {
    /// The heading.
    pub title: String,
    /// Renders the text from the messages that are replaced.
    pub render: RenderSection,
}

/// Renders a section from the messages that are replaced.
pub type RenderSection = Box<dyn Fn(&[Arc<Message>]) -> Option<String> + Send>;

impl std::fmt::Debug for ExtraSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtraSection").field("title", &self.title).finish_non_exhaustive()
    }
}

/// Heading of the files that were touched last.
pub(super) const RECENT_FILES_TITLE: &str = "Files touched last, newest first";
/// Heading of the work that may still run.
pub(super) const BACKGROUND_TITLE: &str = "Work that may still run in the background";
/// Heading of what did not fit the summary request.
pub(super) const LEFT_OUT_TITLE: &str = "Left out of the summary request, noted without a model";

/// What the person wrote in a run of nodes, oldest first; what earlier checkpoints in the run had replaced is followed to its
/// origin.
pub(super) fn written_in(session: &Session, span: &[Seq]) -> Vec<(Seq, Arc<Message>)> {
    let mut written = Vec::new();
    let mut seen = HashSet::new();
    let mut todo: Vec<Seq> = span.iter().rev().copied().collect();
    while let Some(seq) = todo.pop() {
        let Some(message) = session.message(seq).filter(|_| seen.insert(seq)) else { continue };
        if message.source.is_user() {
            written.push((seq, Arc::clone(message)));
        } else if message.source.is_checkpoint() {
            todo.extend(session.shadowed_by(seq).unwrap_or_default().iter().rev());
        }
    }
    written.sort_by_key(|(seq, _)| *seq);
    written
}

/// Quotes of the person: newest first until the budget, shown oldest first. The one that no longer fits is cut in the middle,
/// visibly.
pub(super) fn quotes(
    written: &[(Seq, Arc<Message>)],
    title: &str,
    budget: u64,
    counter: &dyn TokenCounter,
) -> Option<Section> {
    /// Tokens below which a cut message says nothing any more.
    const LEAST_CUT_TOKENS: u64 = 16;
    let mut left = budget;
    let mut kept = Vec::new();
    for (seq, message) in written.iter().rev() {
        let text = message.text();
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let quote = quoted(text);
        if let Some(tokens) = counter.count_up_to(&quote, left) {
            left -= tokens;
            kept.push(quote);
            continue;
        }
        if left >= LEAST_CUT_TOKENS {
            let marker = format!(" [… cut; whole at seq {seq} …] ");
            let chars = text.chars().count();
            let mut most = chars;
            while most > 0 {
                let cut = quoted(&cut_middle(text, most, &marker));
                if counter.count_up_to(&cut, left).is_some() {
                    kept.push(cut);
                    break;
                }
                most = most * 3 / 4;
            }
        }
        break;
    }
    kept.reverse();
    (!kept.is_empty()).then(|| Section { title: title.to_owned(), text: kept.join("\n\n") })
}

/// A message as a Markdown quote, so that nothing in it looks like a heading of the checkpoint.
fn quoted(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    lines.join("\n")
}

/// The files that tools touched last, newest first, then those that an earlier checkpoint had listed.
pub(super) fn recent_files(messages: &[Arc<Message>], tools: &ToolTable, limit: usize) -> Option<Section> {
    let mut paths: Vec<String> = Vec::new();
    for message in messages.iter().rev() {
        if let Some(earlier) = earlier_section(message, RECENT_FILES_TITLE) {
            paths.extend(earlier.lines().map(|line| line.trim_start_matches("- ").to_owned()));
            continue;
        }
        let calls: Vec<&ToolCall> = message.tool_calls().collect();
        for call in calls.into_iter().rev() {
            let touches = |class| matches!(class, ToolClass::Read | ToolClass::Edit);
            let entry = tools.get(&call.name).filter(|entry| touches(entry.class));
            paths.extend(entry.and_then(|entry| entry.target_of(call)));
        }
    }
    let mut seen = HashSet::new();
    let lines: Vec<String> = paths
        .into_iter()
        .filter(|path| !path.trim().is_empty() && seen.insert(path.clone()))
        .take(limit)
        .map(|path| format!("- {}", path.replace('\n', " ")))
        .collect();
    (!lines.is_empty()).then(|| Section { title: RECENT_FILES_TITLE.into(), text: lines.join("\n") })
}

/// Work that the run started in the background and did not end, by its ids.
pub(super) fn background(messages: &[Arc<Message>], table: &BackgroundTable) -> Option<Section> {
    let mut calls: Vec<&ToolCall> = Vec::new();
    let mut running: Vec<(String, String)> = Vec::new();
    for message in messages {
        if let Some(earlier) = earlier_section(message, BACKGROUND_TITLE) {
            running.extend(earlier.lines().filter_map(|line| {
                let (id, what) = line.trim_start_matches("- ").split_once(": ")?;
                Some((id.to_owned(), what.to_owned()))
            }));
            continue;
        }
        for block in &message.content {
            match block {
                Block::ToolCall(call) => {
                    if let Some(id) = table.ended_by(call) {
                        running.retain(|(known, _)| *known != id);
                    }
                    calls.push(call);
                }
                Block::ToolResult(result) => {
                    let at = calls.iter().rposition(|call| call.id == result.tool_call_id);
                    let Some(call) = at.map(|at| calls.remove(at)) else { continue };
                    if let Some(id) = table.started_by(call, &text_of(result)) {
                        running.retain(|(known, _)| *known != id);
                        running.push((id, describe(call)));
                    }
                }
                _ => {}
            }
        }
    }
    let lines: Vec<String> = running.into_iter().map(|(id, what)| format!("- {id}: {what}")).collect();
    (!lines.is_empty()).then(|| Section { title: BACKGROUND_TITLE.into(), text: lines.join("\n") })
}

fn text_of(result: &ToolResult) -> String {
    if result.is_error == Some(true) {
        return String::new();
    }
    let texts: Vec<&str> = result.content.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}

fn describe(call: &ToolCall) -> String {
    const MOST_CHARS: usize = 120;
    cut_middle(&format!("{} {}", call.name, call.arguments.replace('\n', " ")), MOST_CHARS, " … ")
}

fn earlier_section(message: &Message, title: &str) -> Option<String> {
    let checkpoint = Checkpoint::parse(message)?;
    checkpoint.sections.into_iter().find(|section| section.title == title).map(|section| section.text)
}

/// Tokens that the person's quotes may take.
pub(super) fn quote_budget(kit: &Kit, most_tokens: Option<u64>, span_tokens: u64) -> Option<(String, u64)> {
    let quotes = kit.quotes.as_ref()?;
    // A span is far below 2^53, and the share lies in 0–1.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let share = (span_tokens as f64 * quotes.most_of_span) as u64;
    let budget = most_tokens.unwrap_or(quotes.max_tokens).min(share);
    (budget > 0).then(|| (quotes.title.clone(), budget))
}
