//! What tools are for and which argument names their target. A table, never a guess: an unknown tool is of class `other`.

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::message::ToolCall;
use crate::message::record::Key;

/// What a tool is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ToolClass {
    /// Reads a file.
    Read,
    /// Searches files or lists them.
    Search,
    /// Runs a command.
    Shell,
    /// Changes a file.
    Edit,
    /// Fetches from the web.
    Web,
    /// Anything else.
    Other,
}

/// A tool of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolEntry {
    /// The tool's name; compared without regard to case.
    pub name: String,
    /// What it is for.
    pub class: ToolClass,
    /// Arguments that name its target, the first one present counts: a path, a pattern, an address.
    pub target: Vec<String>,
}

/// What tools are for, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolTable(Vec<ToolEntry>);

const PATH: &[&str] = &["path", "file_path", "filePath", "absolute_path", "notebook_path", "filename", "dir_path"];
const PATTERN: &[&str] = &["pattern", "query", "path", "dir_path"];
/// A command is no target: two commands are hardly ever the same, and each result stands for itself.
const NONE: &[&str] = &[];
const ADDRESS: &[&str] = &["url", "query", "prompt"];

impl Default for ToolTable {
    /// The tools of the systems whose conversations this crate reads.
    fn default() -> Self {
        use ToolClass::{Edit, Read, Search, Shell, Web};
        let groups: [(ToolClass, &[&str], &[&str]); 5] = [
            (
                Read,
                PATH,
                &["read", "read_file", "read_many_files", "read_image", "view_image", "view", "cat", "open_file"],
            ),
            (
                Search,
                PATTERN,
                &[
                    "grep",
                    "glob",
                    "search",
                    "grep_search",
                    "search_file_content",
                    "codebase_search",
                    "file_search",
                    "find",
                    "ls",
                    "list",
                    "list_dir",
                    "list_directory",
                ],
            ),
            (
                Shell,
                NONE,
                &[
                    "bash",
                    "shell",
                    "pwsh",
                    "exec_command",
                    "shell_command",
                    "local_shell",
                    "run_shell_command",
                    "execute_bash",
                    "terminal",
                    "run_code",
                    "bashoutput",
                    "job_output",
                ],
            ),
            (
                Edit,
                PATH,
                &[
                    "edit",
                    "write",
                    "write_file",
                    "edit_file",
                    "multiedit",
                    "replace",
                    "apply_patch",
                    "notebookedit",
                    "str_replace_editor",
                ],
            ),
            (Web, ADDRESS, &["webfetch", "websearch", "web_fetch", "web_search", "google_web_search", "browser"]),
        ];
        let entry = |class, target: &[&str], name: &str| ToolEntry {
            name: name.into(),
            class,
            target: target.iter().map(|key| (*key).to_owned()).collect(),
        };
        let entries = groups
            .into_iter()
            .flat_map(|(class, target, names)| names.iter().map(move |name| entry(class, target, name)))
            .collect();
        Self(entries)
    }
}

impl ToolTable {
    /// Adds a tool, or replaces the entry of its name.
    pub fn with(mut self, entry: ToolEntry) -> Self {
        self.0.retain(|known| !known.name.eq_ignore_ascii_case(&entry.name));
        self.0.push(entry);
        self
    }

    /// The entry of a tool.
    pub fn get(&self, name: &str) -> Option<&ToolEntry> {
        self.0.iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
    }

    /// What a tool is for.
    pub fn class(&self, name: &str) -> ToolClass {
        self.get(name).map_or(ToolClass::Other, |entry| entry.class)
    }
}

impl ToolEntry {
    /// The target that a call names; none where its arguments name none or are no JSON object.
    pub fn target_of(&self, call: &ToolCall) -> Option<String> {
        let mut arguments = serde_json::Deserializer::from_str(&call.arguments);
        let target = arguments.deserialize_map(TargetVisitor(&self.target)).ok()?;
        arguments.end().ok()?;
        target
    }
}

/// Reads the first of some fields that is a string, without building the others: a pass asks it of every call.
struct TargetVisitor<'a>(&'a [String]);

impl<'de> Visitor<'de> for TargetVisitor<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the arguments of a call")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut best: Option<(usize, String)> = None;
        while let Some(Key(key)) = map.next_key()? {
            let rank = self.0.iter().position(|wanted| *wanted == key);
            match rank.filter(|rank| best.as_ref().is_none_or(|(best, _)| rank <= best)) {
                Some(rank) => {
                    let value: &RawValue = map.next_value()?;
                    best = serde_json::from_str(value.get()).ok().map(|text| (rank, text)).or(best);
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(best.map(|(_, text)| text))
    }
}
