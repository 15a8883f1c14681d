//! The session file: a header line, then one event a line.

use std::io::{BufRead, Write};

use serde_json::Value;

use super::error::SessionError;
use super::event::{Event, Seq};
use super::scan::read_line;
use super::{Session, SessionHeader};

/// A session read from a file, and what its reader had to leave out.
#[derive(Debug)]
pub struct Loaded {
    /// The session, with exactly the events of the file.
    pub session: Session,
    /// Number of a last line that was cut off and dropped, from 1.
    pub torn_line: Option<usize>,
}

impl Session {
    /// Reads a session file of version 0. A last line that lacks its line end and is no whole event is dropped and reported:
    /// its writer died while writing it. Any other bad line is an error that names it.
    ///
    /// The session gets no end-of-seed mark; see [`Session::restore`] and [`Session::resume_jsonl`].
    pub fn read_jsonl(mut reader: impl BufRead) -> Result<Loaded, SessionError> {
        // Lines are read as bytes: a writer may have died in the middle of a character.
        let mut bytes = Vec::new();
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            return Err(SessionError::FileHeader { why: "the file is empty".into() });
        }
        let header =
            std::str::from_utf8(&bytes).map_err(|error| SessionError::FileHeader { why: error.to_string() })?;
        let mut session = Self::with_header(read_header(header)?);
        let mut torn_line = None;
        for line in 2.. {
            bytes.clear();
            if reader.read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let whole = bytes.ends_with(b"\n");
            match events_of(&bytes, session.revision()) {
                Err(_) if !whole => torn_line = Some(line),
                Err(error) => return Err(at_line(line, error)),
                Ok(events) => {
                    for event in events {
                        session.load(event).map_err(|error| at_line(line, error))?;
                    }
                }
            }
        }
        session.shrink_to_fit();
        Ok(Loaded { session, torn_line })
    }

    /// Reads a session file to go on with it: as [`read_jsonl`](Self::read_jsonl), then marks the end of what an earlier
    /// process wrote, so that a compaction that it left open no longer locks.
    pub fn resume_jsonl(reader: impl BufRead) -> Result<Loaded, SessionError> {
        let mut loaded = Self::read_jsonl(reader)?;
        loaded.session.mark_seed_end()?;
        Ok(loaded)
    }

    /// Writes the session file: the header and every event.
    pub fn write_jsonl(&self, mut writer: impl Write) -> std::io::Result<()> {
        writeln!(writer, "{}", self.header().to_json_line())?;
        for event in self.events() {
            serde_json::to_writer(&mut writer, event)?;
            writer.write_all(b"\n")?;
        }
        writer.flush()
    }
}

impl SessionHeader {
    /// The header as the first line of a session file, without a line end.
    pub fn to_json_line(&self) -> String {
        #[derive(serde::Serialize)]
        struct Line<'a> {
            r#type: &'static str,
            #[serde(flatten)]
            header: &'a SessionHeader,
        }
        serde_json::to_string(&Line { r#type: "session", header: self }).unwrap_or_default()
    }
}

fn events_of(line: &[u8], expected: Seq) -> Result<Vec<Event>, SessionError> {
    let text = std::str::from_utf8(line).map_err(|error| SessionError::Json(serde::de::Error::custom(error)))?;
    read_line(text.trim_end_matches(['\n', '\r']), expected)
}

fn at_line(line: usize, error: SessionError) -> SessionError {
    SessionError::Line { line, error: Box::new(error) }
}

/// Reads the first line of a session file.
pub(super) fn read_header(text: &str) -> Result<SessionHeader, SessionError> {
    let wrong = |why: String| SessionError::FileHeader { why };
    let value: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    if value.get("type").and_then(Value::as_str) != Some("session") {
        return Err(wrong("it has no `type` of \"session\"".into()));
    }
    let header: SessionHeader = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    match (header.version, header.id.is_empty()) {
        (0, false) => Ok(header),
        (0, true) => Err(wrong("`id` must not be empty".into())),
        (version, _) => Err(wrong(format!("`version` is {version}; this reader knows version 0"))),
    }
}
