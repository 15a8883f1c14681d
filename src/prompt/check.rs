//! Checks of a prompt's text: what must be in it, what must not.

use std::sync::LazyLock;

use regex::Regex;

/// A place in a text, both figures from 1. Columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Place {
    /// The place of a byte offset.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What is wrong with a prompt's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptFault {
    /// It says nothing.
    #[error("the text is empty")]
    Empty,
    /// Something that must be in it is not.
    #[error("{anchor:?} is missing")]
    MissingAnchor {
        /// What is missing.
        anchor: String,
    },
    /// Something is in it that must not be: another agent's identity or tool.
    #[error("{place}: {token:?} must not be in it")]
    Forbidden {
        /// What was found, as it stands.
        token: String,
        /// Where.
        place: Place,
    },
    /// A hole that a template left.
    #[error("{place}: {hole:?} is a hole that nothing filled")]
    Hole {
        /// How it begins.
        hole: String,
        /// Where.
        place: Place,
    },
}

/// Holes of the templates that prompts are made from.
static HOLES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\$\{[^}\n]{0,40}\}?|@(?:TOOL|AGENT)\b|\btools\.[A-Za-z_]\w*|\bToolNames\.\w+|\}\)\(\)\}?").ok()
});

/// The word characters of tool names.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets of a word in a text, in any case. It is a word where no letter, digit or underscore stands beside it.
pub(super) fn words<'a>(text: &'a str, lower: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    // Lower-casing may change lengths outside of ASCII; such a text is searched as it is.
    let haystack = if lower.len() == text.len() { lower } else { text };
    let beside = move |offset: usize, len: usize| {
        let before = haystack.get(..offset).and_then(|part| part.chars().next_back());
        let after = haystack.get(offset + len..).and_then(|part| part.chars().next());
        let open = |end: Option<char>, beside: Option<char>| end.is_some_and(is_word) && beside.is_some_and(is_word);
        !open(word.chars().next(), before) && !open(word.chars().next_back(), after)
    };
    haystack.match_indices(word).map(|(offset, _)| offset).filter(move |offset| beside(*offset, word.len()))
}

/// Every forbidden token and every hole of a text, in order.
pub(super) fn forbidden_in(text: &str, forbidden: &[String]) -> Vec<PromptFault> {
    let lower = text.to_ascii_lowercase();
    let mut faults = Vec::new();
    for token in forbidden.iter().filter(|token| !token.is_empty()) {
        for offset in words(text, &lower, &token.to_ascii_lowercase()) {
            let token = text.get(offset..offset + token.len()).unwrap_or(token).to_owned();
            faults.push((offset, PromptFault::Forbidden { token, place: Place::of(text, offset) }));
        }
    }
    for hole in HOLES.iter().flat_map(|holes| holes.find_iter(text)) {
        let place = Place::of(text, hole.start());
        faults.push((hole.start(), PromptFault::Hole { hole: hole.as_str().into(), place }));
    }
    faults.sort_by_key(|(offset, _)| *offset);
    faults.into_iter().map(|(_, fault)| fault).collect()
}

/// The anchors that a text lacks.
pub(super) fn missing_from(text: &str, anchors: &[String]) -> impl Iterator<Item = PromptFault> {
    anchors
        .iter()
        .filter(|anchor| !text.contains(anchor.as_str()))
        .map(|anchor| PromptFault::MissingAnchor { anchor: anchor.clone() })
}
