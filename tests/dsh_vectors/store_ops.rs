//! Ops of the store: repair after a crash, the lines and names of files, reading damaged ones.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arya_presets::{Compression, EventSink, JsonlSink, JsonlStore, Medium, RepairTexts, SessionHeader, scan_jsonl};
use serde_json::{Value, json};

use crate::compare::compare;
use crate::host::Failure;
use crate::log_ops::loaded;
use crate::sink::locked;
use crate::vector::{Strings, Vector};

pub(crate) fn repair(vector: &Vector, strings: &Strings) -> Result<(), String> {
    let mut session = loaded(vector)?;
    let from = session.events().len();
    let text = |name: &str| strings.get(name).unwrap_or_default().to_owned();
    let texts =
        RepairTexts { not_started: text("TOOL_NOT_STARTED_TEXT"), outcome_unknown: text("TOOL_OUTCOME_UNKNOWN_TEXT") };
    session.repair(&texts).map_err(|error| error.to_string())?;
    compare(&vector.expected, json!({ "closers": session.events().get(from..) }), &[])
}

/// Bytes in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Medium for Memory {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        locked(&self.0).extend_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> std::io::Result<()> {
        locked(&self.0).truncate(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn storage(vector: &Vector, _: &Strings) -> Result<(), String> {
    let header: SessionHeader =
        serde_json::from_value(vector.required("header")?.clone()).map_err(|error| error.to_string())?;
    let packing = vector.required("packChunks")?.as_bool().ok_or("packChunks is no boolean")?;
    let compression = match vector.required("compression")?.as_str() {
        Some("zstd") => Compression::Zstd,
        _ => Compression::None,
    };
    let root = PathBuf::from("root");
    let path = JsonlStore::new(&root).compression(compression).path(&header);
    let relative = path.strip_prefix(&root).map_err(|error| error.to_string())?;
    let memory = Memory::default();
    // Compression changes how the lines are stored, not what they say.
    let mut sink = JsonlSink::over(Box::new(memory.clone()), 0, packing, Compression::None);
    sink.append(loaded(vector)?.events()).map_err(|error| error.to_string())?;
    let text = String::from_utf8(locked(&memory.0).clone()).map_err(|error| error.to_string())?;
    let lines: Vec<&str> = text.lines().collect();
    let actual = json!({
        "relativePath": relative.to_string_lossy(),
        "headerLine": header.to_json_line(),
        "lines": lines,
    });
    // Exact texts: the order of keys counts here.
    match (vector.expected.get("headerLine"), vector.expected.get("lines")) {
        (Some(Value::String(_)), Some(Value::Array(_))) => compare(&vector.expected, actual, &[]),
        _ => Err("the vector lists no lines".into()),
    }
}

pub(crate) fn scan(vector: &Vector, _: &Strings) -> Result<(), String> {
    let text = vector.required("text")?.as_str().ok_or("text is no text")?;
    let actual = match scan_jsonl(text) {
        Ok(scan) => json!({
            "meta": scan.header,
            "events": scan.events,
            "committedBytes": scan.committed_bytes,
            "totalBytes": scan.total_bytes,
        }),
        Err(error) => json!({ "error": Failure::from(error).to_json() }),
    };
    compare(&vector.expected, actual, &[])
}
