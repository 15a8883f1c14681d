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

use super::assembly::Assembly;

/// A format of one record a line.
pub(super) trait Lines {
    /// Takes the record of a line. An error means that the line could not be read, and changes nothing.
    fn line(&mut self, assembly: &mut Assembly, place: u64, text: &str) -> Result<(), serde_json::Error>;

    /// Takes the end of the file.
    fn end(&mut self, _assembly: &mut Assembly) {}
}
