//! What a person said, sentence by sentence: which ones state a rule, a preference or a goal, and which ones a later one replaced.

use hashbrown::HashMap;

use super::tokens::is_wide;
use super::words::{digits_of, is, kinds_of, phrase_kinds, stem};

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
pub(super) struct Sentence<'a> {
    pub(super) text: &'a str,
    /// Place of its message in the conversation.
    pub(super) order: usize,
    pub(super) act: Act,
    /// Whether a later sentence gives another value for the same thing.
    pub(super) replaced: bool,
    statement: Option<Statement>,
}

/// What a sentence that gives a value speaks of. Words are numbered.
#[derive(Debug, Clone, Default)]
struct Statement {
    subject: Vec<u32>,
    values: Vec<u32>,
    numeric: bool,
    corrects: bool,
}

/// The sentences and list items of a text.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_start_matches(['-', '*', '•', '>', ' ']);
        let mut rest = line;
        let mut from = 0;
        while let Some(end) = sentence_end(rest) {
            let (_, tail) = rest.split_at(end);
            let to = line.len() - tail.len();
            // "Tests may." belongs to what stands before it.
            if !is_rider(tail.trim_start()) {
                sentences.push(line.get(from..to).unwrap_or_default().trim());
                from = to;
            }
            rest = tail.trim_start();
        }
        sentences.push(line.get(from..).unwrap_or_default().trim());
    }
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

/// Whether a text begins with a statement of two words.
fn is_rider(text: &str) -> bool {
    const LONGEST: usize = 24;
    let end = sentence_end(text).unwrap_or(text.len());
    let sentence = text.get(..end).unwrap_or(text).trim();
    sentence.len() <= LONGEST && sentence.ends_with('.') && sentence.split_whitespace().count() == 2
}

/// Where the first sentence of a line ends, when another follows.
fn sentence_end(line: &str) -> Option<usize> {
    // Most bytes end nothing; the rest is looked at as characters.
    let may_end = |byte: &u8| matches!(byte, b'.' | b'!' | b'?' | 0xe3 | 0xef);
    let first = line.as_bytes().iter().position(may_end)?;
    let mut before = line.get(..first).and_then(|head| head.chars().next_back()).unwrap_or(' ');
    let mut chars = line.get(first..)?.char_indices().map(|(at, c)| (first + at, c)).peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        match c {
            '。' | '！' | '？' if end < line.len() => return Some(end),
            '.' | '!' | '?' => {
                let next = chars.peek().map(|(_, next)| *next).filter(|next| next.is_whitespace());
                let after = line.get(end..).and_then(|rest| rest.trim_start().chars().next());
                let starts = after.is_some_and(|c| c.is_uppercase() || c.is_numeric() || !c.is_ascii());
                // "e.g. this", "1. item", "v2. X" end no sentence.
                let abbreviates = || {
                    c == '.' && (before.is_ascii_digit() && at < 4 || line.get(..at).is_some_and(ends_in_abbreviation))
                };
                if next.is_some() && starts && !abbreviates() {
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
    // Long enough for the longest abbreviation and what stands before it.
    const MOST_CHARS: usize = 8;
    let from = text.char_indices().rev().nth(MOST_CHARS).map_or(0, |(at, _)| at);
    let text = text.get(from..).unwrap_or(text);
    let word = text.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    matches!(
        word.to_ascii_lowercase().as_str(),
        "e.g" | "i.e" | "etc" | "vs" | "cf" | "no" | "z.b" | "d.h" | "mr" | "dr"
    )
}

/// The sentences of a person, in order.
#[derive(Default)]
pub(super) struct Speech<'a> {
    sentences: Vec<Sentence<'a>>,
    numbers: HashMap<String, u32>,
    /// The sentences that give a value, by the words they speak of.
    by_word: HashMap<u32, Vec<usize>>,
    /// By which later sentence a sentence was last compared.
    compared: Vec<usize>,
    lower: String,
}

/// A word that more sentences share tells nothing apart; the newest are compared.
const MOST_COMPARED: usize = 24;

impl<'a> Speech<'a> {
    /// Adds a sentence, and marks those before it that it replaces.
    pub(super) fn push(&mut self, text: &'a str, order: usize) {
        let mut lower = std::mem::take(&mut self.lower);
        lower.clear();
        push_lower(&mut lower, text);
        let told = act_of(&lower);
        let act = told.act;
        let statement = told.may_give_value.then(|| self.statement(&lower, told.corrects)).flatten();
        self.lower = lower;
        if let Some(statement) = &statement {
            self.replace(text, order, statement);
        }
        self.sentences.push(Sentence { text, order, act, replaced: false, statement });
        self.compared.push(usize::MAX);
    }

    /// The sentences, in order.
    pub(super) fn finish(self) -> Vec<Sentence<'a>> {
        self.sentences
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        self.numbers.insert(word.to_owned(), number);
        number
    }

    /// What a sentence speaks of; none where it gives no value.
    fn statement(&mut self, lower: &str, corrects: bool) -> Option<Statement> {
        let mut statement = Statement { corrects, ..Statement::default() };
        for word in words(lower) {
            if is_value(word) {
                let value = digits_of(word).unwrap_or(word);
                statement.numeric |= value.starts_with(|c: char| c.is_ascii_digit());
                statement.values.push(self.number(value));
            } else if word.chars().nth(1).is_some() && kinds_of(word) & is::FILLER == 0 {
                statement.subject.push(self.number(stem(word)));
            }
        }
        for value in named_values(lower) {
            // What something is set to is no part of what it is.
            for word in words(value) {
                let number = self.number(stem(word));
                statement.subject.retain(|known| *known != number);
            }
            statement.numeric |= value.starts_with(|c: char| c.is_ascii_digit());
            statement.values.push(self.number(value));
        }
        if statement.values.is_empty() || statement.subject.is_empty() {
            return None;
        }
        for list in [&mut statement.subject, &mut statement.values] {
            list.sort_unstable();
            list.dedup();
        }
        Some(statement)
    }

    fn replace(&mut self, text: &str, order: usize, statement: &Statement) {
        let this = self.sentences.len();
        for word in &statement.subject {
            let known = self.by_word.entry(*word).or_default();
            let mut stale = 0;
            for at in known.iter().rev().take(MOST_COMPARED) {
                let Some(earlier) = self.sentences.get_mut(*at) else { continue };
                if earlier.replaced {
                    stale += 1;
                    continue;
                }
                let Some(compared) = self.compared.get_mut(*at).filter(|compared| **compared != this) else { continue };
                *compared = this;
                let other = earlier.statement.as_ref().is_some_and(|earlier| statement.replaces(earlier));
                earlier.replaced = other && order >= earlier.order && text != earlier.text;
            }
            if stale > MOST_COMPARED / 2 {
                let sentences = &self.sentences;
                known.retain(|at| sentences.get(*at).is_some_and(|earlier| !earlier.replaced));
            }
            known.push(this);
        }
    }
}

impl Statement {
    /// Whether this later statement gives another value for what an earlier one spoke of.
    fn replaces(&self, earlier: &Self) -> bool {
        let shared = shared(&self.subject, &earlier.subject);
        let least = self.subject.len().min(earlier.subject.len());
        if shared == 0 || least == 0 {
            return false;
        }
        let only_earlier = earlier.subject.len() - shared;
        let only_later = self.subject.len() - shared;
        let covers = shared * 10 >= least * 6;
        // Two things that look alike have each a word of their own: the billing service and the search service.
        let same_thing = only_earlier == 0 || only_later == 0;
        let shared_values = self::shared(&self.values, &earlier.values);
        let other_value = shared_values < self.values.len();
        if self.corrects {
            let close = shared * 10 >= least * 5 && (same_thing || only_earlier.min(only_later) <= 1);
            let names_old = shared_values > 0;
            return (other_value || names_old) && (close || (names_old && shared >= 2));
        }
        // Numbers replace numbers and names names.
        other_value && covers && same_thing && self.numeric == earlier.numeric
    }
}

/// How many numbers two sorted lists share.
fn shared(a: &[u32], b: &[u32]) -> usize {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut shared = 0;
    while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
        match left.cmp(right) {
            std::cmp::Ordering::Less => a.next(),
            std::cmp::Ordering::Greater => b.next(),
            std::cmp::Ordering::Equal => {
                shared += 1;
                a.next();
                b.next()
            }
        };
    }
    shared
}

/// Appends a text in lower case with straight apostrophes.
fn push_lower(out: &mut String, text: &str) {
    if text.is_ascii() {
        out.push_str(text);
        out.make_ascii_lowercase();
        return;
    }
    for c in text.chars() {
        if c == '’' {
            out.push('\'');
        } else {
            out.extend(c.to_lowercase());
        }
    }
}

/// The words of a text in lower case. Scripts that set no blanks end a word where digits or letters of ASCII begin.
fn words(lower: &str) -> impl Iterator<Item = &str> {
    let in_word = |c: char| {
        if c.is_ascii() {
            c.is_ascii_alphanumeric() || matches!(c, '_' | '\'' | '.' | '%' | '/' | ':' | '-' | '$')
        } else {
            c.is_alphanumeric() || c == '€'
        }
    };
    let mut rest = lower;
    std::iter::from_fn(move || {
        loop {
            let (_, tail) = rest.split_at_checked(rest.find(in_word)?)?;
            let wide = tail.chars().next().is_some_and(is_wide);
            let end = tail.find(|c| !in_word(c) || is_wide(c) != wide).unwrap_or(tail.len());
            let (word, after) = tail.split_at_checked(end)?;
            rest = after;
            let word = word.trim_matches(|c: char| matches!(c, '.' | '\'' | ':' | '-' | '/'));
            if !word.is_empty() {
                return Some(word);
            }
        }
    })
}

fn is_value(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '$' | '€')) || digits_of(word).is_some()
}

/// Values that are names: what stands in quotes or backticks, and what a sentence sets something to.
fn named_values(lower: &str) -> impl Iterator<Item = &str> {
    const SETTERS: [&str; 6] = [" to use ", " use ", " to ", " is ", " are ", " be "];
    const MOST_WORDS: usize = 4;
    let quoted = ['`', '"'].into_iter().flat_map(|mark| lower.split(mark).skip(1).step_by(2));
    let set = SETTERS.iter().find_map(|setter| lower.rsplit_once(setter)).and_then(|(_, rest)| {
        let mut ends = rest.split_whitespace().map(|word| word.as_ptr().addr() + word.len() - rest.as_ptr().addr());
        let first = ends.next()?;
        let end = ends.next().unwrap_or(first);
        let value = rest.get(..end)?.trim_matches(|c: char| !c.is_alphanumeric());
        (!value.is_empty() && ends.count() + 2 <= MOST_WORDS).then_some(value)
    });
    quoted.chain(set)
}

/// What the words of a sentence tell.
struct Told {
    act: Act,
    /// Whether it corrects something.
    corrects: bool,
    /// Whether it holds a number, something in quotes, or a word that sets something.
    may_give_value: bool,
}

/// What a sentence in lower case does.
fn act_of(lower: &str) -> Told {
    let mut kinds = phrase_kinds(lower);
    let mut has_value = false;
    for word in words(lower) {
        kinds |= kinds_of(word);
        has_value |= is_value(word);
    }
    let asks = lower.ends_with(['?', '？']) && kinds & is::PLEASE == 0;
    let quotes = lower.bytes().any(|byte| matches!(byte, b'`' | b'"'));
    let act = if asks {
        Act::Talk
    } else if kinds & is::RULE != 0 {
        Act::Rule
    } else if kinds & is::PREFERENCE != 0 {
        Act::Preference
    } else if kinds & is::GOAL != 0 {
        Act::Goal
    } else if has_value || quotes && lower.contains('`') {
        Act::Value
    } else {
        Act::Talk
    };
    Told { act, corrects: kinds & is::CORRECTION != 0, may_give_value: has_value || quotes || kinds & is::SETTER != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(texts: &[&str]) -> Vec<bool> {
        let mut speech = Speech::default();
        for (order, text) in texts.iter().enumerate() {
            speech.push(text, order);
        }
        speech.finish().iter().map(|sentence| sentence.replaced).collect()
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
        assert_eq!(split("No unwrap in src/. Tests may. Done."), ["No unwrap in src/. Tests may.", "Done."]);
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
            ("不要修改数据库。", Act::Rule),
            ("请把超时改为30秒。", Act::Goal),
            ("今天天气不错。", Act::Talk),
            ("Никогда не трогай миграции.", Act::Rule),
        ] {
            assert_eq!(act_of(&text.to_lowercase()).act, act, "{text}");
        }
    }
}
