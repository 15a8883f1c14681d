//! What a person said, sentence by sentence: which ones state a rule, a preference or a goal, and which ones a later one replaced.

use std::collections::{BTreeSet, HashMap};

/// What a sentence does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    /// States what must or must not be.
    Rule,
    /// States what is liked.
    Preference,
    /// Says what is wanted.
    Goal,
    /// Gives a value.
    Value,
    /// Anything else.
    Talk,
}

/// A sentence of the person.
#[derive(Debug, Clone)]
pub(super) struct Sentence {
    pub(super) text: String,
    /// Place of its message in the conversation.
    pub(super) order: usize,
    pub(super) act: Act,
    /// Whether a later sentence gives another value for the same thing.
    pub(super) replaced: bool,
    subject: BTreeSet<String>,
    values: BTreeSet<String>,
    corrects: bool,
}

/// The sentences and list items of a text.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim().trim_start_matches(['-', '*', '•', '>', ' ']);
        while let Some(end) = sentence_end(rest) {
            let (sentence, tail) = rest.split_at(end);
            sentences.push(sentence.trim());
            rest = tail.trim_start();
        }
        sentences.push(rest.trim());
    }
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

/// Where the first sentence of a line ends, when another follows.
fn sentence_end(line: &str) -> Option<usize> {
    let mut before = ' ';
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        match c {
            '。' | '！' | '？' if end < line.len() => return Some(end),
            '.' | '!' | '?' => {
                let next = chars.peek().map(|(_, next)| *next);
                let after = line.get(end..).and_then(|rest| rest.trim_start().chars().next());
                let starts = after.is_some_and(|c| c.is_uppercase() || c.is_numeric() || !c.is_ascii());
                // "e.g. this", "1. item", "v2. X" end no sentence.
                let abbreviation =
                    c == '.' && (before.is_ascii_digit() && at < 4 || line.get(..at).is_some_and(ends_in_abbreviation));
                if next.is_some_and(char::is_whitespace) && starts && !abbreviation {
                    return Some(end);
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

fn ends_in_abbreviation(text: &str) -> bool {
    let word = text.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    matches!(
        word.to_ascii_lowercase().as_str(),
        "e.g" | "i.e" | "etc" | "vs" | "cf" | "no" | "z.b" | "d.h" | "mr" | "dr"
    )
}

impl Sentence {
    pub(super) fn new(text: &str, order: usize) -> Self {
        let words = words(text);
        let corrects = words.iter().any(|word| CORRECTIONS.contains(&word.as_str()))
            || ["no longer", "instead of", "changed to", "rather than", "change of"]
                .iter()
                .any(|phrase| contains_phrase(text, phrase));
        let act = act_of(text, &words);
        let mut subject = BTreeSet::new();
        let mut values = BTreeSet::new();
        for word in &words {
            if is_value(word) {
                values.insert(normal_value(word));
            } else if word.chars().count() > 1 && !is_filler(word) {
                subject.insert(stem(word));
            }
        }
        for value in named_values(text) {
            // What something is set to is no part of what it is.
            for word in self::words(&value) {
                subject.remove(&stem(&word));
            }
            values.insert(value);
        }
        Self { text: text.to_owned(), order, act, replaced: false, subject, values, corrects }
    }

    /// Whether this later sentence gives another value for what an earlier one spoke of.
    fn replaces(&self, earlier: &Self) -> bool {
        if self.order < earlier.order || self.text == earlier.text {
            return false;
        }
        let shared = self.subject.intersection(&earlier.subject).count();
        let least = self.subject.len().min(earlier.subject.len());
        if shared == 0 || least == 0 {
            return false;
        }
        let only_earlier = earlier.subject.len() - shared;
        let only_later = self.subject.len() - shared;
        let covers = shared * 10 >= least * 6;
        // Two things that look alike have each a word of their own: the billing service and the search service.
        let same_thing = only_earlier == 0 || only_later == 0;
        let other_value = !earlier.values.is_empty()
            && !self.values.is_empty()
            && earlier.values != self.values
            && self.values.iter().any(|value| !earlier.values.contains(value));
        if self.corrects {
            let close = shared * 10 >= least * 5 && (same_thing || only_earlier.min(only_later) <= 1);
            let names_old = earlier.values.iter().any(|value| self.values.contains(value));
            return (other_value || names_old) && (close || (names_old && shared >= 2));
        }
        other_value && covers && same_thing && comparable(&earlier.values, &self.values)
    }
}

/// Marks the sentences that a later one replaced.
pub(super) fn mark_replaced(sentences: &mut [Sentence]) {
    /// A word that so many sentences share tells nothing apart.
    const COMMON: usize = 64;
    let mut by_word: HashMap<String, Vec<usize>> = HashMap::new();
    for later in 0..sentences.len() {
        let Some(sentence) = sentences.get(later) else { continue };
        let mut candidates: BTreeSet<usize> = BTreeSet::new();
        for word in &sentence.subject {
            let known = by_word.entry(word.clone()).or_default();
            if known.len() < COMMON {
                candidates.extend(known.iter());
            } else {
                candidates.extend(known.iter().rev().take(COMMON));
            }
            known.push(later);
        }
        let sentence = sentence.clone();
        for earlier in candidates {
            if let Some(earlier) = sentences.get_mut(earlier).filter(|earlier| !earlier.replaced)
                && sentence.replaces(earlier)
            {
                earlier.replaced = true;
            }
        }
    }
}

/// Whether two sets of values are of one kind: numbers with numbers, names with names.
fn comparable(a: &BTreeSet<String>, b: &BTreeSet<String>) -> bool {
    let numeric =
        |values: &BTreeSet<String>| values.iter().any(|value| value.starts_with(|c: char| c.is_ascii_digit()));
    numeric(a) == numeric(b)
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '\'' | '.' | '%' | '/' | ':' | '-' | '$' | '€')))
        .map(|word| word.trim_matches(|c: char| matches!(c, '.' | '\'' | ':' | '-' | '/')).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}

fn is_value(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '$' | '€'))
        || NUMBER_WORDS.iter().any(|(name, _)| *name == word)
}

fn normal_value(word: &str) -> String {
    NUMBER_WORDS
        .iter()
        .find(|(name, _)| *name == word)
        .map_or_else(|| word.to_owned(), |(_, digits)| (*digits).to_owned())
}

const NUMBER_WORDS: &[(&str, &str)] = &[
    ("one", "1"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("twelve", "12"),
    ("twenty", "20"),
    ("thirty", "30"),
];

/// Values that are names: what stands in quotes or backticks, and what a sentence sets something to.
fn named_values(text: &str) -> Vec<String> {
    let mut values = Vec::new();
    for mark in ['`', '"'] {
        values.extend(text.split(mark).skip(1).step_by(2).map(str::to_lowercase));
    }
    let lower = text.to_lowercase();
    for setter in [" to use ", " use ", " to ", " is ", " are ", " be "] {
        if let Some((_, rest)) = lower.rsplit_once(setter) {
            let value: Vec<&str> = rest.split_whitespace().take(2).collect();
            let value = value.join(" ").trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
            if !value.is_empty() && rest.split_whitespace().count() <= 4 {
                values.push(value);
            }
            break;
        }
    }
    values
}

fn act_of(text: &str, words: &[String]) -> Act {
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let says = |list: &[&str]| list.iter().any(|phrase| contains_phrase(text, phrase));
    if has(RULE_WORDS)
        || says(&["do not", "may not", "no longer", "at most", "at least", "not even", "off limits", "hands off"])
        || text.starts_with("No ")
    {
        return Act::Rule;
    }
    if has(PREFERENCE_WORDS) || says(&["i like", "i'd like", "i'd rather", "i hate", "in the style"]) {
        return Act::Preference;
    }
    if text.contains('?') && !has(&["please"]) {
        return Act::Talk;
    }
    if has(GOAL_WORDS) || says(&["so that we can", "the goal", "i want", "we want", "i need", "we need"]) {
        return Act::Goal;
    }
    if words.iter().any(|word| is_value(word)) || text.contains('`') {
        return Act::Value;
    }
    Act::Talk
}

fn contains_phrase(text: &str, phrase: &str) -> bool {
    let lower = text.to_lowercase().replace('’', "'");
    lower.match_indices(phrase).any(|(at, found)| {
        let before = lower.get(..at).and_then(|head| head.chars().next_back());
        let after = lower.get(at + found.len()..).and_then(|tail| tail.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

const RULE_WORDS: &[&str] = &[
    "never",
    "always",
    "must",
    "mustn't",
    "only",
    "don't",
    "cannot",
    "can't",
    "forbidden",
    "required",
    "mandatory",
    "without",
    "except",
    "unless",
    "under",
    "avoid",
    "ensure",
    "keep",
    "stay",
    "stays",
    "rule",
    "rules",
    "constraint",
    "limit",
    "requirement",
    "shall",
    "prohibited",
    "nie",
    "niemals",
    "immer",
    "muss",
    "müssen",
    "nur",
    "darf",
    "höchstens",
    "mindestens",
    "jamais",
    "toujours",
    "nunca",
    "siempre",
];
const PREFERENCE_WORDS: &[&str] = &[
    "prefer",
    "preference",
    "prefers",
    "preferred",
    "favour",
    "favor",
    "rather",
    "ideally",
    "style",
    "tone",
    "lieber",
    "bevorzuge",
];
const GOAL_WORDS: &[&str] = &[
    "want",
    "need",
    "goal",
    "goals",
    "please",
    "aim",
    "objective",
    "task",
    "target",
    "should",
    "fix",
    "add",
    "build",
    "implement",
    "write",
    "make",
    "find",
    "change",
    "update",
    "deliver",
    "finish",
    "remember",
    "important",
    "deadline",
    "ship",
    "bitte",
];
const CORRECTIONS: &[&str] = &[
    "correction",
    "actually",
    "instead",
    "now",
    "changed",
    "update",
    "updated",
    "switch",
    "switched",
    "revised",
    "moved",
    "new",
    "scratch",
    "sorry",
    "wrong",
    "not",
    "bump",
    "raise",
    "lower",
    "replace",
    "replaced",
    "jetzt",
    "statt",
    "doch",
];

fn is_filler(word: &str) -> bool {
    FILLERS.contains(&word) || CORRECTIONS.contains(&word) || SOFT_WORDS.contains(&word)
}

const FILLERS: &[&str] = &[
    "the", "a", "an", "is", "are", "was", "were", "be", "been", "to", "of", "in", "on", "at", "for", "and", "or",
    "but", "it", "its", "this", "that", "these", "those", "we", "i", "you", "our", "my", "your", "they", "their",
    "with", "from", "as", "by", "so", "if", "then", "than", "there", "have", "has", "had", "do", "does", "did", "will",
    "would", "can", "could", "should", "may", "might", "us", "me", "him", "her", "he", "she", "them", "what", "which",
    "who", "when", "where", "how", "all", "any", "each", "every", "more", "most", "some", "such", "no", "nor", "too",
    "very", "just", "also", "up", "down", "out", "off", "over", "about", "into", "after", "before", "again", "further",
    "once", "here", "both", "few", "other", "own", "same", "s", "t", "re", "ll", "ve", "d", "lets", "let", "set",
    "use", "used", "using", "make", "makes", "get", "gets", "go", "goes", "want", "wants", "need", "needs", "please",
    "thanks", "ok", "okay", "yes",
];
/// Words of the frame of a statement, not of its subject.
const SOFT_WORDS: &[&str] = &[
    "must",
    "never",
    "always",
    "only",
    "note",
    "remember",
    "value",
    "number",
    "decided",
    "decision",
    "today",
    "still",
    "currently",
    "going",
    "forward",
    "per",
    "team",
    "says",
    "said",
    "confirmed",
    "agreed",
    "time",
    "times",
    "it's",
    "that's",
    "we're",
    "let's",
];

/// Words that mean the same thing for a setting.
const SAME: &[&[&str]] = &[
    &["limit", "max", "maximum", "cap", "ceiling", "upper"],
    &["timeout", "wait", "waits"],
    &["deadline", "due", "ship", "release", "launch"],
    &["retry", "attempt", "attempts", "retries"],
    &["owner", "lead", "responsible", "charge", "owns"],
    &["budget", "cost", "spend"],
    &["colour", "color"],
    &["database", "db"],
    &["directory", "folder", "dir"],
    &["delete", "remove", "drop"],
    &["meeting", "call", "sync"],
    &["region", "zone"],
    &["language", "lang"],
];

/// A word without its ending, and one word for those that mean the same.
fn stem(word: &str) -> String {
    if let Some(group) = SAME.iter().find(|group| group.contains(&word)) {
        return (*group.first().unwrap_or(&word)).to_owned();
    }
    let cut = ["ings", "ing", "ies", "ed", "es", "s"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= 4))
        .unwrap_or(word);
    SAME.iter()
        .find(|group| group.contains(&cut))
        .map_or_else(|| cut.to_owned(), |group| (*group.first().unwrap_or(&cut)).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(texts: &[&str]) -> Vec<bool> {
        let mut sentences: Vec<Sentence> =
            texts.iter().enumerate().map(|(order, text)| Sentence::new(text, order)).collect();
        mark_replaced(&mut sentences);
        sentences.iter().map(|sentence| sentence.replaced).collect()
    }

    #[test]
    fn a_later_value_replaces_an_earlier_one_across_wordings() {
        for pair in [
            ["The retry limit is 5.", "Correction: the retry limit must be 3, not 5."],
            ["The retry limit is 5.", "Only three retries, please."],
            ["Set the timeout to 30 seconds.", "The timeout is now 45 seconds."],
            ["The staging database is called tide_a.", "Actually, the staging database is tide_b."],
            ["The deadline is March 3.", "We have to ship by March 10 instead."],
            ["Our primary region is eu-west-1.", "The primary region is eu-central-1."],
        ] {
            assert_eq!(replaced(&pair), [true, false], "{pair:?}");
        }
    }

    #[test]
    fn what_only_looks_alike_is_left_alone() {
        for pair in [
            ["The retry limit for the billing service is 5.", "The retry limit for the search service is 7."],
            ["The port for staging is 8080.", "The port for production is 9090."],
            ["Never touch the migrations folder.", "Never touch the vendor folder."],
            ["The cache holds 500 items.", "The queue holds 900 items."],
            ["Run the tests with 4 threads.", "The tests must pass on 2 machines."],
        ] {
            assert_eq!(replaced(&pair), [false, false], "{pair:?}");
        }
    }

    #[test]
    fn sentences_end_where_a_reader_ends_them() {
        assert_eq!(split("Keep v2.1. Use e.g. Rust. Done?"), ["Keep v2.1.", "Use e.g. Rust.", "Done?"]);
        assert_eq!(split("- one\n- two. Three"), ["one", "two.", "Three"]);
        assert_eq!(split("直して。テストも。"), ["直して。", "テストも。"]);
        assert!(split("\n --- \n").is_empty());
    }

    #[test]
    fn acts_are_told_by_their_words() {
        for (text, act) in [
            ("Never touch the migrations folder.", Act::Rule),
            ("No new dependencies.", Act::Rule),
            ("I prefer tabs.", Act::Preference),
            ("Please fix the parser.", Act::Goal),
            ("The port is 8080.", Act::Value),
            ("Thanks, that looks good.", Act::Talk),
            ("Can two readings collide?", Act::Talk),
        ] {
            assert_eq!(Sentence::new(text, 0).act, act, "{text}");
        }
    }
}
