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

/// The places of offsets that are asked for in ascending order; the text is walked once.
pub(super) struct Places<'a> {
    text: &'a str,
    offset: usize,
    place: Place,
}

impl<'a> Places<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { text, offset: 0, place: Place { line: 1, column: 1 } }
    }

    pub(super) fn at(&mut self, offset: usize) -> Place {
        for c in self.text.get(self.offset..offset).unwrap_or_default().chars() {
            match c {
                '\n' => self.place = Place { line: self.place.line + 1, column: 1 },
                _ => self.place.column += 1,
            }
        }
        self.offset = self.offset.max(offset);
        self.place
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

/// Byte offsets of a word. It is a word where no letter, digit or underscore stands beside it.
fn words(text: &str, word: &str) -> Vec<usize> {
    let open = |end: Option<char>, beside: Option<char>| end.is_some_and(is_word) && beside.is_some_and(is_word);
    let stands_alone = |offset: &usize| {
        let before = text.get(..*offset).and_then(|part| part.chars().next_back());
        let after = text.get(offset + word.len()..).and_then(|part| part.chars().next());
        !open(word.chars().next(), before) && !open(word.chars().next_back(), after)
    };
    text.match_indices(word).map(|(offset, _)| offset).filter(stands_alone).collect()
}

/// Every forbidden token and every hole of a text, in order.
pub(super) fn forbidden_in(text: &str, forbidden: &[String]) -> Vec<PromptFault> {
    let lower = text.to_ascii_lowercase();
    let mut found: Vec<(usize, &str, bool)> = Vec::new();
    for token in forbidden.iter().filter(|token| !token.is_empty()) {
        let offsets = words(&lower, &token.to_ascii_lowercase());
        found.extend(offsets.into_iter().filter_map(|at| Some((at, text.get(at..at + token.len())?, false))));
    }
    let holes = HOLES.iter().flat_map(|holes| holes.find_iter(text));
    found.extend(holes.map(|hole| (hole.start(), hole.as_str(), true)));
    found.sort_unstable();
    let mut places = Places::of(text);
    let fault = |(offset, found, is_hole): (usize, &str, bool)| {
        let (found, place) = (found.to_owned(), places.at(offset));
        match is_hole {
            true => PromptFault::Hole { hole: found, place },
            false => PromptFault::Forbidden { token: found, place },
        }
    };
    found.into_iter().map(fault).collect()
}

/// The anchors that a text lacks.
pub(super) fn missing_from(text: &str, anchors: &[String]) -> impl Iterator<Item = PromptFault> {
    anchors
        .iter()
        .filter(|anchor| !text.contains(anchor.as_str()))
        .map(|anchor| PromptFault::MissingAnchor { anchor: anchor.clone() })
}
