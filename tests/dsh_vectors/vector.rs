//! Vector files: one JSON array a file, one vector a line, with placeholders for fixed texts.

use std::collections::BTreeMap;
use std::path::Path;

use arya_presets::{Event, Session, SessionError, SessionHeader};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What a vector says: an input, what is done to it, and what comes out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) op: String,
    #[serde(default)]
    pub(crate) legal: Option<bool>,
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    pub(crate) input: Input,
    pub(crate) args: Value,
    pub(crate) expected: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    events: Vec<Box<RawValue>>,
}

impl Vector {
    /// The events of the log, each from its own text.
    pub(crate) fn events(&self) -> Result<Vec<Event>, SessionError> {
        self.input.events.iter().map(|event| Event::from_json(event.get())).collect()
    }

    /// The session with exactly these events.
    pub(crate) fn load(&self) -> Result<Session, SessionError> {
        Session::from_events(session_header(), self.events()?)
    }

    pub(crate) fn arg(&self, name: &str) -> Option<&Value> {
        self.args.get(name)
    }

    /// An argument that the op cannot do without.
    pub(crate) fn required(&self, name: &str) -> Result<&Value, String> {
        self.arg(name).ok_or_else(|| format!("the vector has no args.{name}"))
    }

    pub(crate) fn expects_error(&self) -> bool {
        self.expected.get("error").is_some()
    }
}

pub(crate) fn session_header() -> SessionHeader {
    SessionHeader::new("s", 0)
}

/// The fixed texts that placeholders stand for.
#[derive(Debug, Clone)]
pub(crate) struct Strings(BTreeMap<String, String>);

impl Strings {
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join("strings.json");
        serde_json::from_str(&text_of(&path)?).map(Self).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Puts the texts in the place of JSON strings that are exactly `{{NAME}}`.
    fn substitute(&self, json: String) -> Result<String, String> {
        if !json.contains("\"{{") {
            return Ok(json);
        }
        self.0.iter().try_fold(json, |json, (name, text)| {
            let text = serde_json::to_string(text).map_err(|error| error.to_string())?;
            Ok(json.replace(&format!("\"{{{{{name}}}}}\""), &text))
        })
    }
}

/// The vectors of every file of a folder, in the order of their names.
pub(crate) fn read_folder(folder: &Path, strings: &Strings) -> Result<Vec<Vector>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".json") && !["strings.json", "deviations.json"].contains(&name)
    });
    paths.sort();
    let mut vectors = Vec::new();
    for path in paths {
        let json = strings.substitute(text_of(&path)?)?;
        let read: Vec<Vector> = serde_json::from_str(&json).map_err(|error| format!("{}: {error}", path.display()))?;
        vectors.extend(read);
    }
    Ok(vectors)
}

pub(crate) fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A string that looks like a placeholder and was not replaced, if there is one.
pub(crate) fn unresolved(vector: &Vector) -> Option<String> {
    fn search(value: &Value) -> Option<String> {
        match value {
            Value::String(text) => {
                let name = text.strip_prefix("{{")?.strip_suffix("}}")?;
                let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
                is_name.then(|| text.clone())
            }
            Value::Array(items) => items.iter().find_map(search),
            Value::Object(map) => map.values().find_map(search),
            _ => None,
        }
    }
    let events = vector.input.events.iter().find_map(|event| search(&serde_json::from_str(event.get()).ok()?));
    events.or_else(|| search(&vector.args)).or_else(|| search(&vector.expected))
}
