//! Renaming of tools.

use std::collections::BTreeMap;

use super::PromptError;
use super::check::is_word;

/// What a host calls the tools that a prompt names.
///
/// A name with an underscore is renamed wherever it stands. A name that is a plain word, `edit` or `task` for two, is also English,
/// so it is renamed only where it stands alone in code quotes. All renames happen at once: two tools may swap their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolMap(BTreeMap<String, String>);

impl ToolMap {
    /// No renames.
    pub fn new() -> Self {
        Self::default()
    }

    /// Renames a tool. The names of this crate's tools are letters, digits and `_`; a host's may have `-`, `.` and `:` too. Two tools
    /// cannot get one name.
    pub fn rename(mut self, from: impl Into<String>, to: impl Into<String>) -> Result<Self, PromptError> {
        let (from, to) = (from.into(), to.into());
        let refuse = |why| Err(PromptError::BadRename { from: from.clone(), to: to.clone(), why });
        if from.is_empty() || !from.chars().all(is_word) {
            return refuse("a tool of this crate is called by letters, digits and underscores");
        }
        if to.is_empty() || !to.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')) {
            return refuse("a tool's name is letters, digits, underscore, dash, dot and colon");
        }
        if self.0.iter().any(|(other, taken)| *taken == to && *other != from) {
            return refuse("another tool is renamed so already");
        }
        self.0.insert(from, to);
        Ok(self)
    }

    /// What a tool is called.
    pub fn name<'a>(&'a self, tool: &'a str) -> &'a str {
        self.0.get(tool).map_or(tool, String::as_str)
    }

    /// The names that tools get.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(String::as_str)
    }

    /// The text with every tool renamed, and how often each was.
    pub fn apply(&self, text: &str) -> (String, BTreeMap<String, usize>) {
        let mut counts = BTreeMap::new();
        if self.0.is_empty() {
            return (text.to_owned(), counts);
        }
        let mut renamed = String::with_capacity(text.len());
        let mut before = None;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = match is_word(first) {
                true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                false => first.len_utf8(),
            };
            let (token, after) = rest.split_at(end);
            let in_quotes = before == Some('`') && after.starts_with(['`', '(']);
            match self.0.get(token).filter(|_| token.contains('_') || in_quotes) {
                Some(name) => {
                    *counts.entry(token.to_owned()).or_insert(0) += 1;
                    renamed.push_str(name);
                }
                None => renamed.push_str(token),
            }
            before = token.chars().next_back();
            rest = after;
        }
        (renamed, counts)
    }
}
