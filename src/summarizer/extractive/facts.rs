//! Facts in a text: paths, addresses, names of code, numbers with their units. Found by one pass over the bytes.

use std::sync::LazyLock;

use super::tokens::{
    DEFINING, LONGEST_DEFINING, foreign_unit, is_camel, is_empty_word, is_machine, is_name, is_number, is_sure_path,
    is_unit, kind_of, parts, says_something, trimmed, without_ascent, without_line,
};

/// What a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum FactKind {
    /// A path of a file or directory.
    Path,
    /// An address: of the web, of a machine, of mail.
    Address,
    /// A name of code or an identifier: `snake_case`, `camelCase`, with `::`, an issue number, a version, a hash.
    Name,
    /// A number that says something: with a unit, a decimal point, a percent sign, or of several digits.
    Number,
}

/// A fact where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fact<'a> {
    pub(super) kind: FactKind,
    pub(super) text: &'a str,
    /// The word before a number, which says what it counts.
    pub(super) context: Option<&'a str>,
    /// Whether a name is defined here and not only used.
    pub(super) defined: bool,
}

/// How a text writes what is no character of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    Plain,
    /// Inside JSON a backslash and a letter are one character: `\n` begins no word.
    Json,
}

/// Longest token that is still a fact and not data.
const LONGEST_FACT: usize = 100;
/// Longest word that says what a number counts.
const LONGEST_CONTEXT: usize = 24;

/// What bytes a token has.
pub(super) mod has {
    pub(in super::super) const DIGIT: u8 = 1;
    pub(in super::super) const LOWER: u8 = 2;
    pub(in super::super) const UPPER: u8 = 4;
    pub(in super::super) const UNDERSCORE: u8 = 8;
    pub(in super::super) const SLASH: u8 = 16;
    pub(in super::super) const MARK: u8 = 32;
    pub(in super::super) const FOREIGN: u8 = 64;
    /// The byte belongs to no token.
    pub(in super::super) const SEPARATOR: u8 = 128;
}

/// What each byte adds to its token.
static CLASSES: LazyLock<[u8; 256]> = LazyLock::new(|| std::array::from_fn(|byte| class_of(byte as u8)));

fn class_of(byte: u8) -> u8 {
    match byte {
        0..=b' '
        | b'"'
        | b'\''
        | b'('
        | b')'
        | b'['
        | b']'
        | b'{'
        | b'}'
        | b'<'
        | b'>'
        | b','
        | b';'
        | b'`'
        | b'|'
        | b'='
        | b'\\' => has::SEPARATOR,
        b'0'..=b'9' => has::DIGIT,
        b'a'..=b'z' => has::LOWER,
        b'A'..=b'Z' => has::UPPER,
        b'_' => has::UNDERSCORE,
        b'/' => has::SLASH,
        128..=255 => has::FOREIGN,
        _ => has::MARK,
    }
}

/// Calls `take` with every fact of a text, in order, repeats included.
pub(super) fn facts<'a>(text: &'a str, notation: Notation, take: impl FnMut(Fact<'a>)) {
    let classes = &*CLASSES;
    let class = |byte: u8| classes.get(usize::from(byte)).copied().unwrap_or(has::MARK);
    let mut reader = Reader { text, number: None, before: [""; 4], notation, take };
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if class(byte) == has::SEPARATOR {
            match byte {
                b'\n' => reader.end_line(),
                b'\\' if notation == Notation::Json => {
                    // The letter behind it belongs to no word; neither does that of an escape inside an escaped text.
                    at += 1;
                    if bytes.get(at) == Some(&b'\\')
                        && bytes.get(at + 1).is_some_and(|byte| matches!(byte, b'n' | b't' | b'r'))
                    {
                        at += 1;
                    }
                    if bytes.get(at) == Some(&b'n') {
                        reader.end_line();
                    }
                }
                _ => {}
            }
            at += 1;
            continue;
        }
        let start = at;
        let mut classes = 0;
        while let Some(class) = bytes.get(at).map(|byte| class(*byte)).filter(|class| *class != has::SEPARATOR) {
            classes |= class;
            at += 1;
        }
        if let Some(token) = text.get(start..at) {
            if classes & has::FOREIGN == 0 {
                reader.token(start, token, classes);
            } else {
                reader.foreign(start, token);
            }
        }
    }
    reader.end_line();
}

struct Reader<'a, F> {
    text: &'a str,
    /// A number that may get a unit: where it begins, what it is.
    number: Option<(usize, &'a str)>,
    /// The last words of the line, the newest first. One of them may say what a number counts, or define a name.
    before: [&'a str; 4],
    notation: Notation,
    take: F,
}

impl<'a, F: FnMut(Fact<'a>)> Reader<'a, F> {
    fn end_line(&mut self) {
        self.settle();
        self.before = [""; 4];
    }

    /// A number that got no unit.
    fn settle(&mut self) {
        if let Some((_, number)) = self.number.take() {
            self.bare(number);
        }
    }

    fn bare(&mut self, number: &'a str) {
        if is_machine(number) {
            self.give(FactKind::Address, number);
        } else if says_something(number) {
            self.counted(number);
        }
    }

    fn counted(&mut self, text: &'a str) {
        let tells = |word: &&&str| word.len() > 2 && word.len() <= LONGEST_CONTEXT && !is_empty_word(word);
        let context = self.before.iter().find(tells).copied();
        (self.take)(Fact { kind: FactKind::Number, text, context, defined: false });
    }

    fn give(&mut self, kind: FactKind, text: &'a str) {
        let [last, ..] = self.before;
        let defined = last.len() <= LONGEST_DEFINING && DEFINING.contains(&last);
        (self.take)(Fact { kind, text, context: None, defined });
    }

    fn token(&mut self, start: usize, raw: &'a str, classes: u8) {
        let word = trimmed(raw);
        if let Some((from, number)) = self.number.take() {
            // "250 ms" is one fact; the unit follows after one blank, or at once in scripts without blanks.
            let gap = start.saturating_sub(from + number.len());
            if gap <= 1
                && is_unit(word)
                && let Some(joined) = self.text.get(from..start + word.len())
            {
                self.counted(joined);
                return;
            }
            self.bare(number);
        }
        if word.is_empty() || word.len() > LONGEST_FACT {
            return;
        }
        let letters = classes & (has::LOWER | has::UPPER);
        let is_word = classes & !(has::MARK | letters) == 0 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
        if classes == has::LOWER || letters != 0 && is_word && !is_camel(word) {
            self.word(word);
            return;
        }
        if letters == 0 || classes & has::DIGIT != 0 && is_number(word) {
            if is_number(word) {
                self.number = Some((start + (word.as_ptr().addr() - raw.as_ptr().addr()), word));
            }
            return;
        }
        match kind_of(word, classes) {
            Some(FactKind::Number) => self.counted(word),
            // Patterns of commands look like paths: `s/a/b/`, `/start/,/end/d`.
            Some(FactKind::Path) if self.notation == Notation::Json && !is_sure_path(word) => {}
            Some(FactKind::Path) => self.give(FactKind::Path, without_line(without_ascent(word))),
            // Options belong to their command.
            Some(FactKind::Name) if self.notation == Notation::Json && word.starts_with('-') => {}
            Some(FactKind::Name) if self.notation == Notation::Json => {
                // In code the last of `a.b.c_d` is the name.
                let last = word.rsplit('.').next().filter(|last| is_name(last)).unwrap_or(word);
                self.give(FactKind::Name, last);
                self.word(last);
            }
            Some(kind) => {
                self.give(kind, word);
                self.word(word);
            }
            None => self.word(word),
        }
    }

    /// A token with characters outside ASCII. Words of scripts that set no blanks end where ASCII begins.
    fn foreign(&mut self, start: usize, token: &'a str) {
        let mut from = 0;
        let mut last: Option<char> = None;
        for (at, c) in token.char_indices() {
            let parts = last.is_some_and(|last| parts(last, c));
            if parts && at > from {
                self.piece(start, token, from, at);
                from = at;
            }
            last = Some(c);
        }
        self.piece(start, token, from, token.len());
    }

    fn piece(&mut self, start: usize, token: &'a str, from: usize, to: usize) {
        let Some(piece) = token.get(from..to) else { return };
        if let (Some((at, number)), Some(unit)) = (self.number, foreign_unit(piece))
            && start + from <= at + number.len() + 1
            && let Some(joined) = self.text.get(at..start + from + unit.len())
        {
            self.number = None;
            self.counted(joined);
            return;
        }
        let classes = piece.bytes().fold(0, |classes, byte| classes | class_of(byte));
        self.token(start + from, piece, classes);
    }

    fn word(&mut self, word: &'a str) {
        let [first, second, third, _] = self.before;
        self.before = [word, first, second, third];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(FactKind, &str)> {
        let mut found = Vec::new();
        facts(text, Notation::Plain, |fact| found.push((fact.kind, fact.text)));
        found
    }

    #[test]
    fn facts_are_told_from_words() {
        use FactKind::{Address, Name, Number, Path};
        let cases: [(&str, &[(FactKind, &str)]); 21] = [
            ("keep p95 under 250 ms, please", &[(Number, "250 ms")]),
            ("see src/frame.rs:30 and `docs/`.", &[(Path, "src/frame.rs"), (Path, "docs/")]),
            ("at src/frame.rs:30:12", &[(Path, "src/frame.rs")]),
            ("call parse_frame() or Dedup::forget", &[(Name, "parse_frame"), (Name, "Dedup::forget")]),
            ("error[E0631] in fooBar", &[(Name, "E0631"), (Name, "fooBar")]),
            ("https://example.org/a?b=1", &[(Address, "https://example.org/a?b")]),
            ("ask ops@example.org on 10.0.3.17:5432", &[(Address, "ops@example.org"), (Address, "10.0.3.17:5432")]),
            ("the db is db.example.org:5432", &[(Address, "db.example.org:5432")]),
            ("1. first 2. second", &[]),
            ("95 % of 12,5", &[(Number, "95 %")]),
            ("limit=3 retries", &[(Number, "3 retries")]),
            ("at 10:45 on 2026-01-02", &[(Number, "10:45"), (Number, "2026-01-02")]),
            ("e.g. this, i.e. that. And so on...", &[]),
            ("3.5GB and 12ms", &[(Number, "3.5GB"), (Number, "12ms")]),
            ("TW-118 with --dry-run", &[(Name, "TW-118"), (Name, "--dry-run")]),
            ("请修改src/frame.rs，超时改为30秒。", &[(Path, "src/frame.rs"), (Number, "30秒")]),
            ("上限は500件です、parse_frameを直して", &[(Number, "500件"), (Name, "parse_frame")]),
            ("Лимит 45 секунд, файл конфиг.toml", &[(Number, "45 секунд"), (Path, "конфиг.toml")]),
            (
                "../data/a.csv, ./run.sh and ~/notes.md.",
                &[(Path, "data/a.csv"), (Path, "run.sh"), (Path, "~/notes.md")],
            ),
            ("self.state.lock in Cargo.lock", &[(Path, "Cargo.lock")]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_number_knows_the_word_before_it_on_its_line() {
        let cases = [
            ("the timeout is now 45 seconds", Some("timeout")),
            ("p95 of 310 ms", Some("p95")),
            ("timeout\n45 seconds", None),
            ("45 seconds", None),
        ];
        for (text, context) in cases {
            let mut found = Vec::new();
            facts(text, Notation::Plain, |fact| found.push(fact.context));
            assert_eq!(found, [context], "{text}");
        }
    }

    #[test]
    fn an_escaped_line_end_in_json_begins_no_word() {
        let mut found = Vec::new();
        facts(r#"{"content":"a\nparse_frame\nHB01"}"#, Notation::Json, |fact| found.push(fact.text));
        assert_eq!(found, ["parse_frame", "HB01"]);
        found.clear();
        facts(r#"{"content":"let a = \"x\\\\nHB02\";"}"#, Notation::Json, |fact| found.push(fact.text));
        assert_eq!(found, ["HB02"]);
    }
}
