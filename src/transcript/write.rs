//! The front door of the exporters.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::files::{claude_code, codex, pi, qwen_code};
use super::outline::Exporter;
use super::report::ExportReport;
use super::{Profile, Resume, Target, TranscriptError, anthropic, chat, gemini, responses};
use crate::session::{Seq, Session};

/// How a conversation is written.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Which rules of the target hold.
    pub profile: Profile,
    /// Time of the records that are written, in milliseconds since the epoch; none takes the session's last.
    pub time_ms: Option<i64>,
    /// Where a tool's file stands that the records go on with; from [`Import::resume`](super::Import::resume).
    pub resume: Resume,
    /// Longest text within the arguments of a tool call, in characters; a longer one keeps its beginning and end. None shortens nothing.
    /// The session keeps the whole.
    pub longest_argument_chars: Option<usize>,
    /// Tokens of the conversation before it was folded, where the host knows them: some files record it.
    pub tokens_before: u64,
}

impl WriteOptions {
    /// Sets which rules of the target hold.
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the time of the records, in milliseconds since the epoch.
    pub fn at(mut self, time_ms: i64) -> Self {
        self.time_ms = Some(time_ms);
        self
    }

    /// Sets where a tool's file stands that the records go on with.
    pub fn resuming(mut self, resume: Resume) -> Self {
        self.resume = resume;
        self
    }

    /// Sets the tokens of the conversation before it was folded.
    pub fn with_tokens_before(mut self, tokens: u64) -> Self {
        self.tokens_before = tokens;
        self
    }

    /// Sets the longest text within the arguments of a tool call, in characters.
    pub fn with_longest_argument(mut self, chars: usize) -> Self {
        self.longest_argument_chars = Some(chars);
        self
    }

    pub(super) fn time_of(&self, session: &Session) -> i64 {
        self.time_ms.unwrap_or(0).max(session.last_time())
    }

    pub(super) fn record_ids(&self, session: &Session) -> RecordIds {
        let mut hasher = DefaultHasher::new();
        (session.id(), session.revision(), &self.resume.last_record, self.time_ms).hash(&mut hasher);
        RecordIds { seed: hasher.finish(), next: 0 }
    }
}

/// Ids of new records. They follow from the session and its state, so that writing it twice writes the same.
pub(super) struct RecordIds {
    seed: u64,
    next: u64,
}

impl RecordIds {
    /// The next id, in the form of a UUID of version 8, which leaves its bits to the writer.
    pub(super) fn next_uuid(&mut self) -> String {
        self.next += 1;
        let part = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            (self.seed, self.next, salt).hash(&mut hasher);
            hasher.finish()
        };
        let (high, low) = (part(0), part(1));
        format!(
            "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            ((low >> 48) & 0x3fff) | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }
}

/// A conversation as its target takes it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Export {
    /// For an API the part of the request that holds the conversation. For a tool's file the list of records to append to it; for the
    /// harness's the events that come behind those that [`Resume::events`] counts, or all lines of a new file.
    pub value: Value,
    /// What was changed on the way.
    pub report: ExportReport,
}

impl Export {
    /// The text of a file: the value, or each of its records on a line.
    pub fn to_text(&self) -> String {
        match (&self.value, Target::APIS.contains(&self.report.target)) {
            (Value::Array(records), false) => {
                let mut text = String::new();
                for record in records {
                    text.push_str(&record.to_string());
                    text.push('\n');
                }
                text
            }
            (value, _) => {
                let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
                text.push('\n');
                text
            }
        }
    }
}

/// Writes the conversation on a session's surface.
///
/// What the target cannot express is left out or changed, and the report says so. For an API the result satisfies
/// [`validate_with`](super::validate_with) under the same profile, but for rules about the last message, which is the host's to add.
///
/// # Errors
///
/// [`TranscriptError::Inexpressible`] where there is nothing to write; where a pi file should take what begins with no checkpoint; and
/// where the texts alone are over the bytes of a request to Anthropic, unless the profile leaves
/// [`Rule::AnthropicRequestSize`](super::Rule::AnthropicRequestSize) out: no text is dropped in silence.
pub fn write(session: &Session, target: Target, options: &WriteOptions) -> Result<Export, TranscriptError> {
    if session.messages().next().is_none() {
        let why = "the session has no message".to_owned();
        return Err(TranscriptError::Inexpressible { target, why });
    }
    let mut exporter = Exporter { options, report: ExportReport::new(target) };
    let value = match target {
        Target::ChatCompletions => chat::write(session, &mut exporter),
        Target::Responses => responses::write(session, &mut exporter),
        Target::Anthropic => anthropic::write(session, &mut exporter)?,
        Target::Gemini => gemini::write(session, &mut exporter),
        Target::CodexRollout => Value::Array(codex::append_records(session, &mut exporter)),
        Target::ClaudeCode => Value::Array(claude_code::append_records(session, &mut exporter)),
        Target::QwenCode => Value::Array(qwen_code::append_records(session, &mut exporter)),
        Target::Pi => {
            let records = pi::append_records(session, &mut exporter);
            if records.is_empty() {
                let why = "a pi file takes a fold only, and the session begins with no checkpoint".to_owned();
                return Err(TranscriptError::Inexpressible { target, why });
            }
            Value::Array(records)
        }
        Target::Harness => {
            exporter.report.messages = session.messages().count() as u64;
            Value::Array(lines_of(session, options.resume.events)?)
        }
    };
    Ok(Export { value, report: exporter.report })
}

/// The events behind those that a file holds, or the whole file where there is none.
fn lines_of(session: &Session, held: Option<Seq>) -> Result<Vec<Value>, TranscriptError> {
    let parse = |line: &str| serde_json::from_str(line).map_err(TranscriptError::Json);
    let mut lines = Vec::new();
    if held.is_none() {
        lines.push(parse(&session.header().to_json_line())?);
    }
    for event in session.events().iter().filter(|event| held.is_none_or(|held| event.seq >= held)) {
        lines.push(parse(&event.to_json())?);
    }
    Ok(lines)
}
