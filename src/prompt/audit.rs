//! What an adapter tells about its work.

use std::collections::{BTreeSet, HashMap};

use super::check::{Place, clipped};
use super::markdown::{TakenOut, bare_title, titles};

/// How often a rule was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCount {
    /// The rule, in words.
    pub rule: String,
    /// How often.
    pub count: usize,
}

/// A section that was taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedSection {
    /// Its heading.
    pub heading: String,
    /// The line of the text as it was handed in, where the heading stands there.
    pub line: Option<usize>,
    /// Its characters.
    pub chars: usize,
}

/// Something that is allowed and still worth a look before the text is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Risk {
    /// Why.
    pub why: String,
    /// What was found, as it stands; cut when long.
    pub found: String,
    /// Where, in the adapted text.
    pub place: Place,
}

/// Everything that an adapter did and found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Rules that changed something, with counts.
    pub applied: Vec<RuleCount>,
    /// Rules and headings that found nothing: the text is of another generation than they were written for.
    pub unmatched: Vec<String>,
    /// Sections that are gone.
    pub removed: Vec<RemovedSection>,
    /// What is left and worth a look.
    pub risks: Vec<Risk>,
}

impl std::fmt::Display for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for RuleCount { rule, count } in &self.applied {
            writeln!(f, "applied {count:>3} x  {rule}")?;
        }
        for RemovedSection { heading, line, chars } in &self.removed {
            let line = line.map_or_else(|| "from a hole".into(), |line| format!("line {line}"));
            writeln!(f, "removed section  {heading:?}, {line}, {chars} characters")?;
        }
        for rule in &self.unmatched {
            writeln!(f, "found nothing    {rule}")?;
        }
        for Risk { why, found, place } in &self.risks {
            writeln!(f, "risk at {place}  {found:?}: {why}")?;
        }
        Ok(())
    }
}

/// A prompt that was made to fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapted {
    /// The text.
    pub text: String,
    /// What was done to it.
    pub audit: Audit,
}

/// The headings of a text as it was handed in, so that a section that goes is told with its line. Two may be called the same.
#[derive(Debug)]
pub(super) struct Titles(HashMap<String, BTreeSet<usize>>);

impl Titles {
    pub(super) fn of(text: &str) -> Self {
        let mut lines: HashMap<String, BTreeSet<usize>> = HashMap::new();
        for (line, title) in titles(text) {
            lines.entry(title).or_default().insert(line);
        }
        Self(lines)
    }

    /// Where a section stood. Its headings are not found again.
    pub(super) fn locate(&mut self, section: TakenOut) -> RemovedSection {
        let TakenOut { title, chars, line, inner } = section;
        let bare = bare_title(&format!("# {title}")).map(|(_, bare)| bare).unwrap_or_default();
        let line = line.or_else(|| self.0.get(&bare)?.first().copied());
        if let Some(lines) = self.0.get_mut(&bare) {
            line.map(|line| lines.remove(&line));
        }
        for below in inner {
            if let Some(lines) = self.0.get_mut(&below) {
                let next = lines.range(line.unwrap_or_default()..).next().copied();
                next.map(|next| lines.remove(&next));
            }
        }
        RemovedSection { heading: clipped(&title), line, chars }
    }
}
