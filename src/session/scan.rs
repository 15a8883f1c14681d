//! Reading the text of a session file as far as it can be believed.

use super::error::SessionError;
use super::event::{Event, EventData};
use super::jsonl::read_header;
use super::{SessionHeader, rows};

/// What a session file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// The header.
    pub header: SessionHeader,
    /// The events, up to the first line that cannot be believed.
    pub events: Vec<Event>,
    /// Bytes up to the end of the last believed line.
    pub committed_bytes: u64,
    /// Bytes of the file.
    pub total_bytes: u64,
    /// The first line that is left out, from 1, with the reason.
    pub dropped: Option<Dropped>,
}

/// Where the believed part of a file ends before the file does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The first line that is left out, from 1.
    pub line: usize,
    /// Why it is left out.
    pub why: String,
}

/// Reads the text of a session file of version 0, packed rows included.
///
/// A last line without its line end is left out. So is everything from a bad line or a gap in the seqs on: its writer died while
/// writing. But where the end of a turn follows, the bad part had been committed, and leaving it out would lose it: then the bad
/// line is an error that names it.
pub fn scan_jsonl(text: &str) -> Result<Scan, SessionError> {
    scan_bytes(text.as_bytes())
}

/// As [`scan_jsonl`], of bytes: a line that is no UTF-8 is a bad line like any other.
pub(super) fn scan_bytes(bytes: &[u8]) -> Result<Scan, SessionError> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next().and_then(|line| line.strip_suffix(b"\n")) else {
        return Err(SessionError::FileHeader { why: "it has no line end".into() });
    };
    let text = std::str::from_utf8(first).map_err(|error| SessionError::FileHeader { why: error.to_string() })?;
    let mut scan = Scan {
        header: read_header(text)?,
        events: Vec::new(),
        committed_bytes: first.len() as u64 + 1,
        total_bytes: bytes.len() as u64,
        dropped: None,
    };
    for (index, line) in lines.enumerate() {
        let number = index + 2;
        let Some(content) = line.strip_suffix(b"\n") else {
            let dropped = Dropped { line: number, why: "it is cut off".into() };
            scan.dropped.get_or_insert(dropped);
            break;
        };
        let text = std::str::from_utf8(content);
        if let Some(dropped) = &scan.dropped {
            if text.is_ok_and(ends_turn) {
                return Err(lost(dropped));
            }
            continue;
        }
        let read = match text {
            Ok(text) => read_line(text, scan.events.len() as u64).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(events) => {
                scan.events.extend(events);
                scan.committed_bytes += line.len() as u64;
            }
            Err(why) => {
                let dropped = Dropped { line: number, why };
                if text.is_ok_and(ends_turn) {
                    return Err(lost(&dropped));
                }
                scan.dropped = Some(dropped);
            }
        }
    }
    Ok(scan)
}

fn lost(dropped: &Dropped) -> SessionError {
    SessionError::LostLine { line: dropped.line, why: dropped.why.clone() }
}

/// The events of a line that must go on at a seq.
pub(super) fn read_line(line: &str, expected: u64) -> Result<Vec<Event>, SessionError> {
    let events = match rows::unpack(line) {
        Some(events) => events.map_err(SessionError::Json)?,
        None => vec![Event::from_json(line)?],
    };
    match events.first() {
        Some(event) if event.seq != expected => Err(SessionError::Seq { expected, found: event.seq }),
        _ => Ok(events),
    }
}

fn ends_turn(line: &str) -> bool {
    line.contains("turn/end") && Event::from_json(line).is_ok_and(|event| matches!(event.data, EventData::TurnEnd(_)))
}
