//! The session files of other tools, and of the harness.

pub(super) mod claude_code;
pub(super) mod codex;
pub(super) mod gemini_cli;
pub(super) mod harness;
pub(super) mod opencode;
pub(super) mod openhands;
pub(super) mod pi;
pub(super) mod qwen_code;
pub(super) mod swe_agent;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::assembly::Assembly;

/// A field beside the conversation: one of another type than expected is as good as absent, and costs no record.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(deserializer)?).ok())
}

/// A format of one record a line.
pub(super) trait Lines {
    /// Takes the record of a line. An error means that the line could not be read, and changes nothing.
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error>;

    /// Takes the end of the file.
    fn end(&mut self, _assembly: &mut Assembly) {}
}
