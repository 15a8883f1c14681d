//! Reading a summariser's answer, and refusing what is no summary.

use super::scratchpad::without_scratchpads;
use crate::kit::{Envelope, Frame, Kit};
use crate::message::Block;

/// Why an answer is no summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerFault {
    /// It says nothing, or nothing outside its scratchpad.
    #[error("the answer holds no text outside its analysis")]
    Empty,
    /// It was cut off by its output cap.
    #[error("the answer was cut off by its output cap")]
    CutOff,
    /// It consists of tool calls alone.
    #[error("the answer consists of tool calls and no text")]
    OnlyToolCalls,
    /// It is a tool call written out as text.
    #[error("the answer is a tool call written out as text")]
    ToolMarkup,
    /// It holds pictures or other media.
    #[error("the answer holds media, which no summary can keep")]
    Media,
    /// The model declined.
    #[error("the model declined to summarise: {beginning:?}")]
    Refusal {
        /// How the answer begins.
        beginning: String,
    },
    /// It is an error message of a provider.
    #[error("the answer is an error message: {beginning:?}")]
    ErrorText {
        /// How the answer begins.
        beginning: String,
    },
    /// It repeats the instruction.
    #[error("the answer repeats the instruction")]
    Echo,
    /// A structured answer without its envelope.
    #[error("the answer has no complete <{tag}> envelope")]
    NoEnvelope {
        /// The tag.
        tag: String,
    },
    /// A structured answer without some of its sections.
    #[error("the answer lacks the sections {missing:?}")]
    MissingSections {
        /// Their names.
        missing: Vec<String>,
    },
    /// It is far too short for what it claims to summarise, and has none of the sections that were asked for.
    #[error("{body_tokens} tokens without any of the sections cannot stand for {span_tokens}")]
    TooShort {
        /// Tokens of the answer.
        body_tokens: u64,
        /// Tokens of what it would replace.
        span_tokens: u64,
    },
    /// The provider read far less than was sent: the answer does not rest on the conversation.
    #[error("the provider reports {reported_tokens} input tokens for a request of about {sent_tokens}")]
    NotGrounded {
        /// Input tokens by the provider's count.
        reported_tokens: u64,
        /// Input tokens by the estimate.
        sent_tokens: u64,
    },
    /// A structured answer is longer than its room, and cutting it would drop its last sections.
    #[error("the answer takes {body_tokens} tokens and its room is {room_tokens}")]
    TooLong {
        /// Tokens of the answer.
        body_tokens: u64,
        /// Its room.
        room_tokens: u64,
    },
    /// Its framed price is not below the price of what it would replace (promise 3).
    #[error(
        "the checkpoint would cost {checkpoint_tokens} tokens and what it replaces {shadowed_tokens}; it must be smaller"
    )]
    NotSmaller {
        /// Price of the checkpoint.
        checkpoint_tokens: u64,
        /// Price of what it would replace.
        shadowed_tokens: u64,
    },
}

impl AnswerFault {
    /// A stable name for the kind of fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::CutOff => "cut-off",
            Self::OnlyToolCalls => "only-tool-calls",
            Self::ToolMarkup => "tool-markup",
            Self::Media => "media",
            Self::Refusal { .. } => "refusal",
            Self::ErrorText { .. } => "error-text",
            Self::Echo => "echo",
            Self::NoEnvelope { .. } => "no-envelope",
            Self::MissingSections { .. } => "missing-sections",
            Self::TooShort { .. } => "too-short",
            Self::NotGrounded { .. } => "not-grounded",
            Self::TooLong { .. } => "too-long",
            Self::NotSmaller { .. } => "not-smaller",
        }
    }
}

/// Reads the body out of an answer.
///
/// Text beside a tool call is taken and the call ignored; reasoning is no part of a summary. `<analysis>` and `<think>` are
/// removed, closed or not. A structured answer gives what stands in its envelope; a prose answer is taken as it is.
pub fn read_answer(kit: &Kit, content: &[Block], cut_off: bool) -> Result<String, AnswerFault> {
    if content.iter().any(holds_media) {
        return Err(AnswerFault::Media);
    }
    if cut_off {
        return Err(AnswerFault::CutOff);
    }
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    let text = texts.join("\n");
    if without_blanks(&text).is_empty() {
        let called = content.iter().any(|block| matches!(block, Block::ToolCall(_)));
        return Err(if called { AnswerFault::OnlyToolCalls } else { AnswerFault::Empty });
    }
    let text = without_scratchpads(&text, kit.envelope.as_ref());
    let text = without_frame(&kit.frame, without_blanks(&text));
    if text.is_empty() {
        return Err(AnswerFault::Empty);
    }
    let body = match &kit.envelope {
        Some(envelope) => match find_envelope(text, &envelope.tag) {
            Some(inner) => structured(kit, envelope, inner).or_else(|fault| {
                // A text that quotes the envelope's tag inside a section looks like a second, poorer envelope.
                let outer = find_outermost(text, &envelope.tag).map(|outer| structured(kit, envelope, outer));
                outer.and_then(Result::ok).ok_or(fault)
            })?,
            None => return Err(no_envelope(kit, text, &envelope.tag)),
        },
        None => text.to_owned(),
    };
    match telling_fault(kit, &body) {
        Some(fault) => Err(fault),
        None => Ok(body),
    }
}

/// The text without blanks, and characters that have no width, at its ends.
fn without_blanks(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}'))
}

/// The text without the frame of a checkpoint, where a model repeats it around its answer: frames do not nest.
fn without_frame<'a>(frame: &Frame, text: &'a str) -> &'a str {
    let Some(inner) = text.strip_prefix(frame.opening.as_str()) else { return text };
    without_blanks(inner.strip_suffix(frame.closing.as_str()).unwrap_or(inner))
}

fn holds_media(block: &Block) -> bool {
    match block {
        Block::Media(_) => true,
        Block::ToolResult(result) => result.content.iter().any(holds_media),
        _ => false,
    }
}

/// Of an answer without an envelope, what it is instead says more than what it lacks.
fn no_envelope(kit: &Kit, text: &str, tag: &str) -> AnswerFault {
    telling_fault(kit, text).unwrap_or_else(|| AnswerFault::NoEnvelope { tag: tag.to_owned() })
}

fn structured(kit: &Kit, envelope: &Envelope, inner: &str) -> Result<String, AnswerFault> {
    let inner = without_end_tags(inner, &envelope.tag);
    if inner.is_empty() {
        return Err(AnswerFault::Empty);
    }
    let missing: Vec<String> =
        kit.sections.iter().filter(|name| find_section(kit, inner, name).is_none()).cloned().collect();
    if !missing.is_empty() {
        return Err(AnswerFault::MissingSections { missing });
    }
    Ok(if envelope.kept { format!("<{0}>\n{inner}\n</{0}>", envelope.tag) } else { inner.to_owned() })
}

/// Whether a body has at least one of the kit's sections.
pub(crate) fn has_any_section(kit: &Kit, body: &str) -> bool {
    kit.sections.iter().any(|name| find_section(kit, body, name).is_some())
}

/// The content of a section in a body.
pub(crate) fn find_section<'a>(kit: &Kit, body: &'a str, name: &str) -> Option<&'a str> {
    if kit.envelope.as_ref().is_some_and(|envelope| envelope.tagged_sections) {
        return find_envelope(body, name);
    }
    let mut from = None;
    let mut to = body.len();
    for (at, line) in lines_with_offsets(body) {
        if from.is_none() {
            if let Some(rest) = titled(line, name) {
                from = Some(at + line.len() - rest.len());
            }
        } else if kit.sections.iter().any(|other| other != name && titled(line, other).is_some()) {
            to = at;
            break;
        }
    }
    body.get(from?..to)
}

/// What follows a section's title on its line, however the title is dressed: numbered, as a heading, bold, with a colon. Prose that
/// begins with the words of a title is none.
fn titled<'a>(line: &'a str, title: &str) -> Option<&'a str> {
    let bare = line.trim_start_matches(|c: char| {
        c.is_whitespace() || c.is_ascii_digit() || matches!(c, '#' | '*' | '.' | ')' | '_')
    });
    let rest = bare.get(title.len()..)?;
    if !bare.get(..title.len())?.eq_ignore_ascii_case(title) {
        return None;
    }
    let bold = rest.trim_start_matches(['*', '_']);
    let after = bold.trim_start();
    let ends = bold.len() < rest.len()
        || after.is_empty()
        || after.starts_with([':', '：', '(', '–', '—', '#'])
        || bold.starts_with(" - ");
    let ends = ends && !bold.starts_with(char::is_alphanumeric);
    ends.then(|| bold.trim_start_matches(['*', '_', ':', '：', ' ']))
}

pub(super) fn lines_with_offsets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut offset = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = offset;
        offset += line.len();
        (at, line)
    })
}

/// What stands in the last complete envelope of a tag. Tags count at the beginning of lines, in any case; an end tag may also
/// end a line.
pub(crate) fn find_envelope<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let opens: Vec<(usize, usize)> = lines_with_offsets(text)
        .filter_map(|(at, line)| {
            let indent = line.len() - line.trim_start().len();
            let length = tag_length(line.get(indent..)?, tag, false)?;
            Some((at, at + indent + length))
        })
        .collect();
    let mut end = text.len();
    for (at, from) in opens.into_iter().rev() {
        if let Some(close) = find_close(text.get(from..end)?, tag) {
            return text.get(from..from + close);
        }
        end = at;
    }
    None
}

/// What stands in the last envelope that stands in no other, by the balance of its tags.
fn find_outermost<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (mut depth, mut from, mut found) = (0usize, 0, None);
    for (at, _) in text.match_indices('<') {
        let rest = text.get(at..)?;
        if let Some(length) = tag_length(rest, tag, false) {
            from = if depth == 0 { at + length } else { from };
            depth += 1;
        } else if depth > 0 && tag_length(rest, tag, true).is_some() {
            depth -= 1;
            found = if depth == 0 { text.get(from..at) } else { found };
        }
    }
    found
}

/// The text without end tags at its end, which envelopes around the innermost one leave there.
fn without_end_tags<'a>(text: &'a str, tag: &str) -> &'a str {
    let mut text = text.trim();
    while let Some(at) = text.rfind("</") {
        let (before, end) = text.split_at(at);
        if tag_length(end, tag, true) != Some(end.len()) {
            break;
        }
        text = before.trim_end();
    }
    text
}

/// Where the last end tag of a text begins.
fn find_close(text: &str, tag: &str) -> Option<usize> {
    let mut found = None;
    for (at, line) in lines_with_offsets(text) {
        let indent = line.len() - line.trim_start().len();
        if line.get(indent..).is_some_and(|rest| tag_length(rest, tag, true).is_some()) {
            found = Some(at);
        } else if let Some(last) = line.rfind("</")
            && line.get(last..).is_some_and(|rest| {
                tag_length(rest, tag, true)
                    .is_some_and(|length| rest.get(length..).is_some_and(|rest| rest.trim().is_empty()))
            })
        {
            found = Some(at + last);
        }
    }
    found
}

/// Length of a tag at the beginning of a text.
pub(super) fn tag_length(text: &str, tag: &str, closing: bool) -> Option<usize> {
    let start = if closing { "</" } else { "<" };
    let name = text.strip_prefix(start)?;
    let rest = name.get(tag.len()..)?;
    if !name.get(..tag.len())?.eq_ignore_ascii_case(tag) {
        return None;
    }
    let end = rest.find(['<', '>'])?;
    // Attributes are tolerated, another tag that begins with the same letters is not.
    let separated = end == 0 || rest.starts_with(char::is_whitespace);
    (separated && rest.get(end..)?.starts_with('>')).then_some(start.len() + tag.len() + end + 1)
}

/// Characters up to which an apology or an error message is one; a longer text that begins so may still be a summary.
const SHORT_ANSWER_CHARS: usize = 600;

/// What an answer is that is no summary.
fn telling_fault(kit: &Kit, text: &str) -> Option<AnswerFault> {
    let beginning = || text.trim().chars().take(80).collect::<String>();
    let lower = text.trim().to_lowercase().replace('’', "'");
    if begins_with_any(&lower, TOOL_MARKUP) || is_call_json(text) {
        return Some(AnswerFault::ToolMarkup);
    }
    if is_echo(kit, text) {
        return Some(AnswerFault::Echo);
    }
    if text.chars().count() > SHORT_ANSWER_CHARS || has_any_section(kit, text) {
        return None;
    }
    if begins_with_any(&lower, REFUSALS) {
        return Some(AnswerFault::Refusal { beginning: beginning() });
    }
    if is_error_text(text) {
        return Some(AnswerFault::ErrorText { beginning: beginning() });
    }
    None
}

/// Whether a text reads as the error of a provider.
pub(crate) fn is_error_text(text: &str) -> bool {
    let lower = text.trim().to_lowercase().replace('’', "'");
    begins_with_any(&lower, ERROR_BEGINNINGS) || ERROR_PARTS.iter().any(|part| lower.contains(part))
}

fn begins_with_any(text: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| text.starts_with(beginning))
}

const TOOL_MARKUP: &[&str] = &[
    "<tool_call",
    "<tool_use",
    "<function=",
    "<function_call",
    "<｜dsml｜",
    "<｜tool",
    "<|tool",
    "[tool_calls]",
    "<invoke ",
    "<|python_tag|>",
];

const REFUSALS: &[&str] = &[
    "i'm sorry",
    "i am sorry",
    "sorry, ",
    "i can't",
    "i cannot",
    "i'm unable",
    "i am unable",
    "i won't",
    "i'm not able",
    "i am not able",
    "as an ai",
    "unfortunately, i",
    "es tut mir leid",
    "ich kann ",
    "je suis désolé",
    "je ne peux pas",
    "lo siento",
    "no puedo",
    "mi dispiace",
    "desculpe",
    "извините",
    "к сожалению, я",
    "抱歉",
    "对不起",
    "很抱歉",
    "我无法",
    "申し訳",
    "죄송",
];

const ERROR_BEGINNINGS: &[&str] = &[
    "api error",
    "error:",
    "error ",
    "http error",
    "request failed",
    "internal server error",
    "service unavailable",
    "bad gateway",
    "{\"error\"",
    "{\"type\":\"error\"",
];

const ERROR_PARTS: &[&str] = &[
    "you've hit your limit",
    "hit your usage limit",
    "usage limit reached",
    "rate limit exceeded",
    "rate_limit_error",
    "overloaded_error",
    "insufficient_quota",
    "quota exceeded",
    "credit balance is too low",
    "request timed out",
    "prompt is too long",
];

/// A JSON object that names a tool and its arguments.
fn is_call_json(text: &str) -> bool {
    let text = text.trim().trim_start_matches("```json").trim_matches('`').trim();
    let Ok(serde_json::Value::Object(map)) = serde_json::from_str(text) else { return false };
    let names = map.contains_key("name") || map.contains_key("tool") || map.contains_key("function");
    names && (map.contains_key("arguments") || map.contains_key("parameters") || map.contains_key("input"))
}

/// Whether most of the instruction's longer lines come back.
fn is_echo(kit: &Kit, text: &str) -> bool {
    const LONG_LINE_CHARS: usize = 40;
    let lines: Vec<&str> =
        kit.instruction.lines().map(str::trim).filter(|line| line.chars().count() >= LONG_LINE_CHARS).collect();
    let repeated = lines.iter().filter(|line| text.contains(**line)).count();
    !lines.is_empty() && repeated * 2 > lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_ends_where_its_line_or_a_mark_says_so() {
        let cases = [
            ("Current Work", Some("")),
            ("8. Current Work: the parser", Some("the parser")),
            ("### **CURRENT WORK**", Some("")),
            ("**Current Work** the parser", Some("the parser")),
            ("8) __Current Work__: the parser", Some("the parser")),
            ("Current Work (today)", Some(" (today)")),
            ("Current Work - the parser", Some("- the parser")),
            ("Current Work：the parser", Some("the parser")),
            ("Current work on the parser goes on.", None),
            ("Current workers: 4", None),
            ("8. Current Work is done", None),
            ("Current Work, next steps and more", None),
            ("The Current Work: the parser", None),
        ];
        for (line, rest) in cases {
            let found = titled(line, "Current Work");
            assert_eq!(found.map(str::trim), rest.map(str::trim), "{line}");
        }
    }

    #[test]
    fn prose_that_begins_like_a_title_does_not_end_the_section_before_it() {
        let kit = Kit::claude();
        let body = "6. All User Messages:\n- \"Go on.\"\nCurrent work on the parser goes on.\n- \"Stop.\"\n7. Pending Tasks: None.";
        let section = find_section(&kit, body, "All User Messages").unwrap_or_default();
        assert!(section.contains("Stop.") && !section.contains("None."), "{section}");
    }
}
