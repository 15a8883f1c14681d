//! Checks of a prompt's text: what must be in it, what must not.

use std::ops::Range;
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
    #[error("{:?} is missing", clipped(anchor))]
    MissingAnchor {
        /// What is missing.
        anchor: String,
    },
    /// Something is in it that must not be: another agent's identity or tool.
    #[error("{place}: {token:?} must not be in it")]
    Forbidden {
        /// What was found, as it stands; cut when long.
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

/// Most characters of a prompt that an error or a risk repeats.
const MOST_QUOTED_CHARS: usize = 120;

/// The beginning of a text, and an ellipsis where more follows.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(MOST_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A dash that typography puts in place of a hyphen.
pub(super) fn is_dash(c: char) -> bool {
    matches!(c, '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}')
}

/// Whether one word ends here and another begins: at what is no letter, digit or underscore, at an underscore, between letters and
/// digits, and where the case says so (`CodexCLI`, `GPTModel`).
fn is_seam(text: &str, at: usize) -> bool {
    let before = text.get(..at).and_then(|part| part.chars().next_back());
    let mut rest = text.get(at..).unwrap_or_default().chars();
    let (Some(before), Some(after)) = (before, rest.next()) else { return true };
    let capital_begins =
        after.is_uppercase() && (!before.is_uppercase() || rest.next().is_some_and(char::is_lowercase));
    [before, after].iter().any(|c| !is_word(*c) || *c == '_')
        || before.is_numeric() != after.is_numeric()
        || (before.is_alphabetic() && capital_begins)
}

/// Where a text names something, in any case, in ascending order. `lower` is the text in lower-case ASCII.
///
/// A name with an underscore ends where the identifier ends. Any other also ends where a word does inside of one: `Codex` is in
/// `codex_cli` and `CodexCLI`, not in `codexes`. A dash of typography stands for a hyphen or an underscore; so do hyphen and blank
/// where the name stands alone in code quotes.
pub(super) fn mentions(text: &str, lower: &str, name: &str) -> Vec<Range<usize>> {
    let name = name.to_ascii_lowercase();
    let is_separator = |c: char| matches!(c, '_' | '-');
    let separators: Vec<char> = name.chars().filter(|c| is_separator(*c)).collect();
    let (first, rest) = name.split_once(is_separator).unwrap_or((&name, ""));
    let ends_there = |at: usize| {
        let before = text.get(..at).and_then(|part| part.chars().next_back());
        let after = text.get(at..).and_then(|part| part.chars().next());
        let in_identifier = [before, after].iter().all(|c| c.is_some_and(is_word));
        if name.contains('_') { !in_identifier } else { is_seam(text, at) }
    };
    let spelled = |at: usize| {
        let (mut end, mut loose) = (at + first.len(), false);
        for (separator, piece) in separators.iter().zip(rest.split(is_separator)) {
            let found = lower.get(end..)?.chars().next()?;
            let stands_for_it = found == ' ' || (found == '-' && *separator == '_');
            if !(found == *separator || is_dash(found) || stands_for_it) {
                return None;
            }
            loose |= stands_for_it;
            end += found.len_utf8();
            end += lower.get(end..)?.starts_with(piece).then_some(piece.len())?;
        }
        let alone = || {
            let after = text.get(end..).unwrap_or_default();
            text.get(..at).unwrap_or_default().ends_with('`') && after.starts_with(['`', '('])
        };
        (ends_there(at) && ends_there(end) && (!loose || alone())).then_some(at..end)
    };
    lower.match_indices(first).filter_map(|(at, _)| spelled(at)).collect()
}

/// Every forbidden token and every hole of a text, in order. What stands in a name that is `allowed` is not looked at.
pub(super) fn forbidden_in(text: &str, forbidden: &[String], allowed: &str) -> Vec<PromptFault> {
    let lower = text.to_ascii_lowercase();
    let allowed: Vec<Range<usize>> = match allowed {
        "" => Vec::new(),
        name => text.match_indices(name).map(|(at, found)| at..at + found.len()).collect(),
    };
    let is_allowed = |found: &Range<usize>| {
        let next = allowed.partition_point(|name| name.end < found.end);
        allowed.get(next).is_some_and(|name| name.start <= found.start)
    };
    let tokens = forbidden.iter().filter(|token| !token.is_empty());
    let mut found: Vec<(usize, usize, bool)> = tokens
        .flat_map(|token| mentions(text, &lower, token))
        .filter(|found| !is_allowed(found))
        .map(|found| (found.start, usize::MAX - found.end, false))
        .collect();
    let holes = HOLES.iter().flat_map(|holes| holes.find_iter(text));
    found.extend(holes.map(|hole| (hole.start(), usize::MAX - hole.end(), true)));
    found.sort_unstable();
    let mut places = Places::of(text);
    let mut told_to = 0;
    let fault = |(start, end, is_hole): (usize, usize, bool)| {
        let end = usize::MAX - end;
        // `ChatGPT` is one fault, not two.
        if !is_hole && end <= told_to {
            return None;
        }
        let (found, place) = (clipped(text.get(start..end)?), places.at(start));
        if is_hole {
            return Some(PromptFault::Hole { hole: found, place });
        }
        told_to = end;
        Some(PromptFault::Forbidden { token: found, place })
    };
    found.into_iter().filter_map(fault).collect()
}

/// The anchors that a text lacks.
pub(super) fn missing_from(text: &str, anchors: &[String]) -> impl Iterator<Item = PromptFault> {
    anchors
        .iter()
        .filter(|anchor| !text.contains(anchor.as_str()))
        .map(|anchor| PromptFault::MissingAnchor { anchor: anchor.clone() })
}
