//! Reading a conversation of any format, and writing it back.

use std::io::{Read, Write};
use std::path::Path;

use arya_presets::Session;
use arya_presets::transcript::{self, Format, Import, Repair, Target, WriteOptions};
use serde_json::{Value, json};

/// The conversation that is compacted where no file is named.
const SAMPLE: &str = include_str!("../data/sample-session.jsonl");

pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) session: Session,
    bytes: Vec<u8>,
    resume: transcript::Resume,
}

/// Reads a file, standard input, or the sample. What it is, is seen from its content.
pub(crate) fn read(path: Option<&Path>) -> Result<Conversation, String> {
    let (name, bytes) = match path {
        None => ("the sample".to_owned(), SAMPLE.as_bytes().to_vec()),
        Some(path) if path == Path::new("-") => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map_err(|error| format!("standard input: {error}"))?;
            ("standard input".to_owned(), bytes)
        }
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            (path.display().to_string(), bytes)
        }
    };
    let import = transcript::read(&*bytes).map_err(|error| format!("{name}: {error}"))?;
    say_what_was_wrong(&name, &import);
    let Import { session, format, resume, .. } = import;
    // A session file is gone on with: a compaction that its last process left open no longer locks.
    let session = match format {
        Format::Harness => Session::restore(session.header().clone(), session.events().to_vec())
            .map_err(|error| format!("{name}: {error}"))?,
        _ => session,
    };
    Ok(Conversation { name, format, session, bytes, resume })
}

fn say_what_was_wrong(name: &str, import: &Import) {
    let report = &import.report;
    for place in report.repaired.get(&Repair::TornRecord).into_iter().flat_map(|tally| &tally.places) {
        eprintln!("{name}: line {place} was cut off and is left out");
    }
    for unreadable in &report.unreadable {
        eprintln!("{name}: record {} cannot be read and is left out: {}", unreadable.place, unreadable.why);
    }
    if report.other_conversations > 0 {
        eprintln!("{name}: {} further conversations are left out", report.other_conversations);
    }
}

/// Where a conversation is written in the form in which it came.
pub(crate) fn target_of(conversation: &Conversation) -> Result<Target, String> {
    let format = conversation.format;
    if format == Format::Harness && Session::read_jsonl(&*conversation.bytes).is_err() {
        // What was read is its surface; written back, the log would be lost.
        return Err("the session file is damaged or of another version; name a form to write with --to".into());
    }
    format.target().ok_or_else(|| {
        let names: Vec<&str> = Target::ALL.into_iter().map(Target::name).collect();
        format!("there is no writer for {format}; name another form with --to: {}", names.join(", "))
    })
}

/// Writes the conversation. A tool's own file is copied and gone on with, so that nothing of it is lost.
pub(crate) fn write(
    conversation: &Conversation,
    target: Target,
    tokens_before: u64,
    mut out: impl Write,
) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    if target == Target::Harness {
        return conversation.session.write_jsonl(out).map_err(failed);
    }
    let options = WriteOptions::default().resuming(conversation.resume.clone()).with_tokens_before(tokens_before);
    let export = transcript::write(&conversation.session, target, &options).map_err(|error| error.to_string())?;
    for (change, tally) in &export.report.changes {
        eprintln!("{target}: {} at {} messages", json!(change).as_str().unwrap_or_default(), tally.count);
    }
    let same_file = conversation.format.target() == Some(target) && !Target::APIS.contains(&target);
    if same_file {
        out.write_all(&conversation.bytes).map_err(failed)?;
        if !conversation.bytes.ends_with(b"\n") {
            out.write_all(b"\n").map_err(failed)?;
        }
    }
    let came_as_list = conversation.bytes.trim_ascii_start().starts_with(b"[");
    let text = match (&export.value, came_as_list) {
        (Value::Object(map), true) if map.len() == 1 => {
            let list = map.values().next().map(serde_json::to_string_pretty);
            list.and_then(Result::ok).unwrap_or_default() + "\n"
        }
        _ => export.to_text(),
    };
    out.write_all(text.as_bytes()).map_err(failed)?;
    out.flush().map_err(failed)
}
