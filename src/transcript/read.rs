//! The front door of the importers: finds the format and hands the records over, one by one where a file allows it.

use std::io::BufRead;

use serde_json::{Map, Value};

use super::assembly::Assembly;
use super::files::{Lines, claude_code, codex, gemini_cli, harness, opencode, openhands, pi, qwen_code, swe_agent};
use super::report::{ImportReport, Repair};
use super::{Format, Import, Resume, TranscriptError, anthropic, chat, gemini, responses};
use crate::session::{EventData, Session, SurfaceOp};

/// Bytes with which a Zstandard frame begins.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// How many records may come before one that tells the format.
const UNDECIDED_RECORDS: usize = 200;

/// Reads a transcript. The format is found from the content.
///
/// A file with a record a line is read as a stream: what a fold hid is given up, so memory follows the live part. pi's files, which
/// are trees, and the harness's, whose log is the session, are held whole.
pub fn read(reader: impl BufRead) -> Result<Import, TranscriptError> {
    read_any(reader, None)
}

/// Reads a transcript of a format that the host knows, where the content alone may not tell: plain texts under `messages` are the
/// same in Chat Completions and Anthropic's Messages.
pub fn read_as(format: Format, reader: impl BufRead) -> Result<Import, TranscriptError> {
    read_any(reader, Some(format))
}

fn read_any(mut reader: impl BufRead, known: Option<Format>) -> Result<Import, TranscriptError> {
    let is_zstd = reader.fill_buf()?.starts_with(&ZSTD_MAGIC);
    if !is_zstd {
        return read_plain(&mut reader, known);
    }
    #[cfg(feature = "zstd")]
    {
        let decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
        read_plain(&mut std::io::BufReader::new(decoder), known)
    }
    #[cfg(not(feature = "zstd"))]
    Err(TranscriptError::Compressed)
}

/// A line as it was read, with its number.
struct RawLine {
    place: u64,
    bytes: Vec<u8>,
}

impl RawLine {
    fn text(&self) -> &[u8] {
        self.bytes.trim_ascii()
    }

    fn is_whole(&self) -> bool {
        self.bytes.ends_with(b"\n")
    }
}

struct LineReader<'r> {
    reader: &'r mut dyn BufRead,
    place: u64,
}

impl LineReader<'_> {
    /// The next line that is not blank, into a buffer that is used again.
    fn next_into(&mut self, line: &mut RawLine) -> Result<bool, TranscriptError> {
        loop {
            line.bytes.clear();
            if self.reader.read_until(b'\n', &mut line.bytes)? == 0 {
                return Ok(false);
            }
            self.place += 1;
            line.place = self.place;
            if self.place == 1 && line.bytes.starts_with(b"\xef\xbb\xbf") {
                line.bytes.drain(..3);
            }
            if !line.text().is_empty() {
                return Ok(true);
            }
        }
    }

    fn next(&mut self) -> Result<Option<RawLine>, TranscriptError> {
        let mut line = RawLine { place: 0, bytes: Vec::new() };
        Ok(self.next_into(&mut line)?.then_some(line))
    }
}

fn read_plain(reader: &mut dyn BufRead, known: Option<Format>) -> Result<Import, TranscriptError> {
    let mut lines = LineReader { reader, place: 0 };
    let mut buffered: Vec<RawLine> = Vec::new();
    let mut seen = String::new();
    let mut junk = 0;
    while let Some(line) = lines.next()? {
        match serde_json::from_slice::<Value>(line.text()) {
            Ok(value) => {
                let format = decide(&value, known, buffered.len() as u64 == junk);
                if seen.is_empty() {
                    seen = describe(&value);
                }
                match format {
                    Some(Shape::Document(format)) => return read_document(format, value, &mut lines, junk),
                    Some(Shape::Lines(format)) => {
                        buffered.push(line);
                        return read_lines(format, buffered, &mut lines);
                    }
                    None => buffered.push(line),
                }
            }
            // The first line of a document that is written over many.
            Err(error) if error.is_eof() && matches!(line.text().first(), Some(b'{' | b'[')) => {
                match whole_document(line, &mut lines)? {
                    Document::Value(value) => {
                        let format = known.or_else(|| Format::of_document(&value));
                        let format = format.or_else(|| value.as_object().and_then(Format::of_record));
                        let format = format.ok_or_else(|| TranscriptError::UnknownFormat { seen: describe(&value) })?;
                        return read_document(format, value, &mut lines, junk);
                    }
                    Document::Lines(more) => {
                        // It was a line that is cut off, and what follows are records of their own.
                        let format = more.iter().find_map(|line| {
                            let value = serde_json::from_slice::<Value>(line.text()).ok()?;
                            match decide(&value, known, false)? {
                                Shape::Lines(format) | Shape::Document(format) => Some(format),
                            }
                        });
                        buffered.extend(more);
                        if let Some(format) = format {
                            return read_lines(format, buffered, &mut lines);
                        }
                    }
                }
            }
            Err(_) => {
                junk += 1;
                buffered.push(line);
            }
        }
        if buffered.len() >= UNDECIDED_RECORDS {
            break;
        }
    }
    if buffered.is_empty() {
        return Err(TranscriptError::Empty);
    }
    if seen.is_empty() {
        seen = "the first lines are no JSON".into();
    }
    Err(TranscriptError::UnknownFormat { seen })
}

enum Shape {
    Document(Format),
    Lines(Format),
}

fn decide(value: &Value, known: Option<Format>, is_first: bool) -> Option<Shape> {
    let record = value.as_object().and_then(Format::of_record);
    let document = if is_first { Format::of_document(value) } else { None };
    // A header that a file of lines begins with may hold an empty list.
    let holds_all = value.get("messages").and_then(Value::as_array).is_none_or(|messages| !messages.is_empty());
    let document = document.filter(|format| *format != Format::GeminiCli || holds_all);
    match (known, document, record) {
        (Some(format), Some(_), _) => Some(Shape::Document(format)),
        (Some(format), None, _) if value.is_array() => Some(Shape::Document(format)),
        (Some(format), None, _) => Some(Shape::Lines(format)),
        (None, Some(format), None) => Some(Shape::Document(format)),
        // A header line of a file has no list of messages; a document on one line does.
        (None, Some(format), _) if value.get("messages").is_some() => Some(Shape::Document(format)),
        (None, _, Some(format)) => Some(Shape::Lines(format)),
        (None, None, None) => None,
    }
}

/// What a value is, for an error that says why it is of no format.
fn describe(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().take(8).map(String::as_str).collect();
            format!("the first record is an object with the keys {keys:?}")
        }
        Value::Array(items) => format!("a list of {} values, of which none is a message", items.len()),
        _ => "the first value is neither an object nor a list".into(),
    }
}

enum Document {
    Value(Value),
    Lines(Vec<RawLine>),
}

fn whole_document(first: RawLine, lines: &mut LineReader<'_>) -> Result<Document, TranscriptError> {
    let Some(second) = lines.next()? else {
        return match serde_json::from_slice(first.text()) {
            Ok(value) => Ok(Document::Value(value)),
            Err(error) => Err(TranscriptError::Json(error)),
        };
    };
    if serde_json::from_slice::<Map<String, Value>>(second.text()).is_ok() && first.text().len() > 1 {
        return Ok(Document::Lines(vec![first, second]));
    }
    let place = first.place;
    let mut bytes = first.bytes;
    bytes.extend(second.bytes);
    lines.reader.read_to_end(&mut bytes)?;
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Document::Value(value)),
        Err(error) => {
            // Several damaged records may stand at the beginning of a file of lines; in a damaged document few lines are records.
            let is_record = |line: &RawLine| serde_json::from_slice::<Map<String, Value>>(line.text()).is_ok();
            let more: Vec<RawLine> = (place..)
                .zip(bytes.split_inclusive(|byte| *byte == b'\n'))
                .map(|(place, line)| RawLine { place, bytes: line.to_vec() })
                .filter(|line| !line.text().is_empty())
                .collect();
            let records = more.iter().filter(|line| is_record(line)).count();
            if records * 2 >= more.len() { Ok(Document::Lines(more)) } else { Err(TranscriptError::Json(error)) }
        }
    }
}

fn read_document(
    format: Format,
    value: Value,
    lines: &mut LineReader<'_>,
    junk: u64,
) -> Result<Import, TranscriptError> {
    let mut assembly = Assembly::new(format);
    for place in 1..=junk {
        assembly.report.repair(Repair::LinesBeforeDocument, place);
    }
    match format {
        Format::ChatCompletions => chat::read_document(&mut assembly, value),
        Format::Responses => responses::read_document(&mut assembly, value),
        Format::Anthropic => anthropic::read_document(&mut assembly, value),
        Format::Gemini => gemini::read_document(&mut assembly, value),
        Format::GeminiCli => gemini_cli::read_document(&mut assembly, value),
        Format::Opencode => opencode::read_document(&mut assembly, value),
        Format::SweAgent => swe_agent::read_document(&mut assembly, value),
        Format::Openhands => openhands::read_document(&mut assembly, value),
        // A file of these is made of lines; one that was written over many lines is a single record.
        _ => {
            let mut reader = reader_of(format);
            take(&mut *reader, &mut assembly, 1, value.to_string().as_bytes(), true);
            reader.end(&mut assembly);
        }
    }
    let mut more = RawLine { place: 0, bytes: Vec::new() };
    while lines.next_into(&mut more)? {
        assembly.report.other_conversations += 1;
    }
    assembly.finish()
}

fn reader_of(format: Format) -> Box<dyn Lines> {
    match format {
        Format::CodexRollout => Box::new(codex::Rollout::default()),
        Format::ClaudeCode => Box::new(claude_code::SessionFile::default()),
        Format::GeminiCli => Box::new(gemini_cli::SessionFile),
        Format::GeminiStream => Box::new(gemini_cli::Stream::default()),
        Format::QwenCode => Box::new(qwen_code::ChatFile),
        Format::Pi => Box::new(pi::SessionFile::default()),
        Format::Harness => Box::new(harness::Log::default()),
        Format::Openhands => Box::new(openhands::Events::default()),
        Format::ChatCompletions => Box::new(Records(chat::read_message)),
        Format::Responses => Box::new(Records(responses::read_item)),
        Format::Anthropic => Box::new(Records(anthropic::read_message)),
        Format::Gemini => Box::new(Records(gemini::read_content)),
        Format::Opencode => Box::new(Records(|assembly, _, _, value| opencode::read_document(assembly, value))),
        Format::SweAgent => Box::new(Records(|assembly, _, _, value| swe_agent::read_document(assembly, value))),
    }
}

/// A message of an API a line.
struct Records(fn(&mut Assembly, u64, Option<i64>, Value));

impl Lines for Records {
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error> {
        let value = serde_json::from_str(text)?;
        (self.0)(assembly, place, None, value);
        Ok(())
    }
}

fn read_lines(format: Format, buffered: Vec<RawLine>, lines: &mut LineReader<'_>) -> Result<Import, TranscriptError> {
    if format == Format::Harness {
        return read_harness(buffered, lines);
    }
    let mut assembly = Assembly::new(format);
    let mut reader = reader_of(format);
    for line in &buffered {
        assembly.report.records += 1;
        take(&mut *reader, &mut assembly, line.place, line.text(), line.is_whole());
    }
    let mut line = RawLine { place: 0, bytes: Vec::new() };
    while lines.next_into(&mut line)? {
        assembly.report.records += 1;
        take(&mut *reader, &mut assembly, line.place, line.text(), line.is_whole());
    }
    reader.end(&mut assembly);
    assembly.finish()
}

fn take(reader: &mut dyn Lines, assembly: &mut Assembly, place: u64, bytes: &[u8], is_whole: bool) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return assembly.report.unreadable(place, error),
    };
    match reader.line(assembly, place, text) {
        Ok(()) => {}
        Err(_) if !is_whole => assembly.report.repair(Repair::TornRecord, place),
        Err(error) => assembly.report.unreadable(place, error),
    }
}

/// A sound file of this crate's own version is the session itself; any other is read as far as its surface.
fn read_harness(buffered: Vec<RawLine>, lines: &mut LineReader<'_>) -> Result<Import, TranscriptError> {
    let mut bytes: Vec<u8> = buffered.into_iter().flat_map(|line| line.bytes).collect();
    lines.reader.read_to_end(&mut bytes)?;
    if let Ok(loaded) = Session::read_jsonl(&*bytes) {
        let mut report = ImportReport::new(Format::Harness);
        report.records = loaded.session.revision() + 1;
        for event in loaded.session.events() {
            let place = event.seq + 2;
            report.map(event.data.kind(), place);
            if let (EventData::UserMessage(message), Some(SurfaceOp::Replace { .. })) = (&event.data, event.surface_op)
                && message.source.is_checkpoint()
            {
                report.folds += 1;
                let hidden = loaded.session.shadowed_by(event.seq).map_or(0, <[_]>::len);
                report.folded_messages += hidden as u64;
            }
        }
        if let Some(line) = loaded.torn_line {
            report.repair(Repair::TornRecord, line as u64);
        }
        if loaded.session.messages().next().is_none() {
            return Err(TranscriptError::NoConversation { format: Format::Harness, records: report.records });
        }
        let session = loaded.session;
        let resume = Resume { events: Some(session.revision()), ..Resume::default() };
        return Ok(Import { session, format: Format::Harness, report, resume });
    }
    let mut assembly = Assembly::new(Format::Harness);
    let mut reader = harness::Log::default();
    let mut place = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        place += 1;
        let text = line.trim_ascii();
        if !text.is_empty() {
            assembly.report.records += 1;
            take(&mut reader, &mut assembly, place, text, line.ends_with(b"\n"));
        }
    }
    reader.end(&mut assembly);
    assembly.finish()
}
