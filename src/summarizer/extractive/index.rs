//! The index of a summary: paths, addresses, names, numbers and commands, each once and with as few characters as say it.

use std::sync::LazyLock;

use hashbrown::{HashMap, HashSet};
use regex::Regex;

use super::facts::{Fact, FactKind, Notation, facts};
use super::sentences::Sentence;
use crate::checkpoint::mask_secrets;

/// Who mentioned a fact, by weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mention {
    User,
    Model,
    Call,
    Tool,
    /// An earlier checkpoint, in a sentence.
    Inherited,
    /// An earlier checkpoint, in its index.
    Indexed,
}

impl Mention {
    fn weight(self) -> usize {
        match self {
            Self::User => 12,
            Self::Inherited | Self::Indexed => 8,
            Self::Model => 4,
            Self::Call => 3,
            Self::Tool => 1,
        }
    }

    /// A number of the person's means nothing without its sentence, one in a call is mostly code, and one in a sentence of an
    /// earlier checkpoint may have been overtaken.
    fn lists_numbers(self) -> bool {
        matches!(self, Self::Model | Self::Tool | Self::Indexed)
    }
}

/// The lists of an index, in the order in which they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum List {
    Changed,
    Read,
    Paths,
    Addresses,
    Names,
    Numbers,
    Commands,
}

impl List {
    pub(super) const ALL: [Self; 7] =
        [Self::Changed, Self::Read, Self::Paths, Self::Addresses, Self::Names, Self::Numbers, Self::Commands];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Changed => "Changed",
            Self::Read => "Read",
            Self::Paths => "Paths",
            Self::Addresses => "Addresses",
            Self::Names => "Names",
            Self::Numbers => "Numbers",
            Self::Commands => "Commands",
        }
    }

    /// Whether it lists files; these stand with what the kit says of files.
    pub(super) fn is_of_files(self) -> bool {
        matches!(self, Self::Changed | Self::Read | Self::Paths)
    }

    /// The list whose line this is, and what stands in it.
    pub(super) fn of_line(line: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|list| Some((list, line.strip_prefix(list.label())?.strip_prefix(": ")?)))
    }

    fn of(kind: FactKind) -> Self {
        match kind {
            FactKind::Path => Self::Paths,
            FactKind::Address => Self::Addresses,
            FactKind::Name => Self::Names,
            FactKind::Number => Self::Numbers,
        }
    }

    /// Where its items begin among those of all lists, and how far they lie apart: the first paths come before the first
    /// commands, and the twentieth number after them.
    fn ranks(self) -> (usize, usize) {
        match self {
            Self::Changed => (0, 4),
            Self::Addresses => (2, 4),
            Self::Paths => (6, 5),
            Self::Numbers => (8, 8),
            Self::Read => (10, 6),
            Self::Names => (12, 4),
            Self::Commands => (40, 40),
        }
    }
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) list: List,
    /// Smaller is kept longer.
    pub(super) rank: usize,
    pub(super) text: String,
    /// The word before a number.
    pub(super) context: Option<String>,
    /// The place of its first mention.
    pub(super) first: usize,
}

/// What is known of a fact.
struct Known<'a> {
    list: List,
    context: Option<&'a str>,
    /// The text that mentioned it first.
    source: &'a str,
    weight: usize,
    first: usize,
    last: usize,
    /// Whether tools alone mentioned it.
    printed: bool,
}

/// A name weighs more where it is defined.
const DEFINED: usize = 4;
/// What tools alone mention comes behind everything else.
const PRINTED_RANK: usize = 400;
const LENGTH_SCALE: usize = 64;
const LENGTH_OFFSET: usize = 16;
/// A number without a unit says less, and so does a point in time.
const BARE_RANK: usize = 300;

/// A longer argument, or one of several lines, is no path.
const LONGEST_PATH: usize = 300;

/// The facts of a conversation.
#[derive(Default)]
pub(super) struct Index<'a> {
    known: HashMap<&'a str, Known<'a>>,
    files: HashMap<String, (List, usize)>,
    commands: HashMap<String, usize>,
}

impl<'a> Index<'a> {
    /// Notes the facts of a text.
    pub(super) fn note(&mut self, text: &'a str, notation: Notation, order: usize, mention: Mention) {
        let weight = mention.weight();
        let known = &mut self.known;
        let printed = mention == Mention::Tool;
        let source = text;
        facts(text, notation, |Fact { kind, text, context, defined }| {
            if kind == FactKind::Number && !mention.lists_numbers() {
                return;
            }
            let weight = if defined { weight + DEFINED } else { weight };
            known
                .entry(text)
                .and_modify(|known| {
                    known.weight += weight.min(2);
                    known.last = order;
                    known.printed &= printed;
                })
                .or_insert(Known { list: List::of(kind), context, source, weight, first: order, last: order, printed });
        });
    }

    /// Notes a file that a tool read or changed.
    pub(super) fn note_file(&mut self, path: String, list: List, order: usize) {
        if path.len() > LONGEST_PATH || path.contains(char::is_control) {
            return;
        }
        let entry = self.files.entry(path).or_insert((list, order));
        *entry = (entry.0.min(list), order);
    }

    /// Notes a command.
    pub(super) fn note_command(&mut self, command: String, order: usize) {
        self.commands.insert(command, order);
    }

    /// Forgets what only a sentence says whose value no longer holds.
    pub(super) fn forget(&mut self, sentence: &Sentence<'_>) {
        facts(sentence.text, Notation::Plain, |fact| {
            if self.known.get(fact.text).is_some_and(|known| known.last == sentence.order) {
                self.known.remove(fact.text);
            }
        });
    }

    /// The entries, the weightiest first within each list. `end` is the place behind the last message.
    pub(super) fn items(mut self, end: usize) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        for path in self.files.keys() {
            self.known.remove(path.as_str());
        }
        let mut known: Vec<(&str, Known<'_>)> = self.known.into_iter().collect();
        // What is longer must weigh more: two short names say more than a long one.
        let weight = |text: &str, known: &Known<'_>| {
            (known.weight * 8 + known.last * 8 / end.max(1)) * LENGTH_SCALE / (text.len() + LENGTH_OFFSET)
        };
        known.sort_unstable_by(|(a_text, a), (b_text, b)| {
            a.printed
                .cmp(&b.printed)
                .then(weight(b_text, b).cmp(&weight(a_text, a)))
                .then(b.last.cmp(&a.last))
                .then(a.first.cmp(&b.first))
                .then(a_text.cmp(b_text))
        });
        let mut files: Vec<(String, (List, usize))> = self.files.into_iter().collect();
        files.sort_unstable_by(|(a_path, (_, a)), (b_path, (_, b))| b.cmp(a).then(a_path.cmp(b_path)));
        let mut commands: Vec<(String, usize)> = self.commands.into_iter().collect();
        commands.sort_unstable_by(|(a_text, a), (b_text, b)| b.cmp(a).then(a_text.cmp(b_text)));
        let mut counts = [0; List::ALL.len()];
        let mut push = |list: List, text: String, context: Option<&str>, first: usize, behind: usize| {
            let (base, step) = list.ranks();
            let Some(count) = counts.get_mut(list as usize) else { return };
            items.push(Item {
                list,
                rank: base + step * *count + behind,
                text,
                context: context.map(str::to_owned),
                first,
            });
            *count += 1;
        };
        for (path, (list, order)) in files {
            push(list, path, None, order, 0);
        }
        for (text, known) in known {
            let bare = match known.list {
                List::Numbers => !text.contains(|c: char| c.is_alphabetic() || c == '%'),
                _ => text.starts_with("20") && text.contains('T') && text.ends_with('Z'),
            };
            if is_secret(text, known.source) {
                continue;
            }
            if known.printed && bare {
                // Times and counters of a log.
                continue;
            }
            let behind = if known.printed { PRINTED_RANK } else { 0 } + if bare { BARE_RANK } else { 0 };
            push(known.list, text.to_owned(), known.context, known.first, behind);
        }
        for (command, order) in commands {
            push(List::Commands, command, None, order, 0);
        }
        items
    }
}

/// Words that say of what stands behind them that it is secret.
static SECRET_LABELS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("(?i-u:key|token|secret|passw|bearer|basic|auth)").ok());

/// Whether a fact is a secret by what stands around it: in the index it would stand without the label that gives it away.
fn is_secret(fact: &str, source: &str) -> bool {
    /// Shorter values are not masked.
    const LEAST: usize = 8;
    const BEFORE: usize = 96;
    const BEHIND: usize = 8;
    if fact.len() < LEAST {
        return false;
    }
    let at = fact.as_ptr().addr().saturating_sub(source.as_ptr().addr());
    let (from, to) = (at.saturating_sub(BEFORE), (at + fact.len() + BEHIND).min(source.len()));
    let begin = (from..=at).find(|from| source.is_char_boundary(*from));
    let end = (at + fact.len()..=to).rev().find(|to| source.is_char_boundary(*to));
    let Some(around) = begin.zip(end).and_then(|(begin, end)| source.get(begin..end)) else { return false };
    let labelled = SECRET_LABELS.as_ref().is_some_and(|labels| labels.is_match(around));
    labelled && !mask_secrets(around).text.contains(fact)
}

/// The facts that texts hold, for leaving them out of the index.
pub(super) fn facts_in<'t>(texts: impl Iterator<Item = &'t str>) -> HashSet<&'t str> {
    let mut held = HashSet::new();
    for text in texts {
        facts(text, Notation::Plain, |fact| {
            held.insert(fact.text);
        });
    }
    held
}

/// A directory or namespace of at least so many characters is written once for what is in it, where room is scarce.
const SHARED_CHARS: usize = 6;

/// Longest line of a list; a longer list takes several.
const LINE_CHARS: usize = 400;

/// The lines of a list. Where room is scarce, paths of one directory and names of one namespace share it:
/// `services/relay/{queue.rs, timer.rs}`, `Quality::{Good, Bad}`.
pub(super) fn lines_of(list: List, items: &mut [&Item], scarce: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for part in parts_of(list, items, scarce) {
        if !line.is_empty() && line.len() + part.len() > LINE_CHARS {
            lines.push(std::mem::take(&mut line));
        }
        line.push_str(if line.is_empty() { list.label() } else { "," });
        line.push_str(if line.ends_with(',') { " " } else { ": " });
        line.push_str(&part);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

fn parts_of(list: List, items: &mut [&Item], scarce: bool) -> Vec<String> {
    let groups = list.is_of_files() || list == List::Names;
    if list.is_of_files() {
        items.sort_by(|a, b| a.space().cmp(b.space()).then(a.text.cmp(&b.text)));
    } else {
        items.sort_by(|a, b| a.first.cmp(&b.first).then(a.rank.cmp(&b.rank)));
        if scarce && groups {
            // What shares a namespace stands where the first of it does.
            let mut places: HashMap<&str, usize> = HashMap::new();
            for (place, item) in items.iter().enumerate().filter(|(_, item)| !item.space().is_empty()) {
                places.entry(item.space()).or_insert(place);
            }
            let place_of: Vec<usize> = items
                .iter()
                .enumerate()
                .map(|(place, item)| places.get(item.space()).copied().unwrap_or(place))
                .collect();
            let mut placed: Vec<(usize, &Item)> = place_of.into_iter().zip(items.iter().copied()).collect();
            placed.sort_by_key(|(place, _)| *place);
            for (slot, (_, item)) in items.iter_mut().zip(placed) {
                *slot = item;
            }
        }
    }
    let mut parts = Vec::new();
    for group in items.chunk_by(|a, b| scarce && groups && !a.space().is_empty() && a.space() == b.space()) {
        match group {
            [first, _, ..] if first.space().len() >= SHARED_CHARS => {
                let shared = first.space();
                let names: Vec<&str> = group.iter().filter_map(|item| item.text.get(shared.len()..)).collect();
                parts.push(format!("{shared}{{{}}}", names.join(", ")));
            }
            _ => parts.extend(group.iter().map(|item| item.shown())),
        }
    }
    parts
}

impl Item {
    /// What stands in the summary with it: itself, and the ends of a longer path or name.
    pub(super) fn parts(&self) -> impl Iterator<Item = &str> {
        let ends = self.text.match_indices(['/', ':']).filter_map(|(at, _)| self.text.get(at + 1..));
        std::iter::once(self.text.as_str()).chain(ends)
    }

    /// The directory or namespace that it is in, with what ends it; nothing for what is in none.
    fn space(&self) -> &str {
        let (end, name) = match self.list {
            List::Names => ("::", self.text.as_str()),
            _ => ("/", self.text.trim_end_matches('/')),
        };
        name.rfind(end).and_then(|at| self.text.get(..at + end.len())).unwrap_or("")
    }

    /// The entry as it stands in its list.
    pub(super) fn shown(&self) -> String {
        match &self.context {
            Some(context) => format!("{context} {}", self.text),
            None if self.list == List::Commands => format!("`{}`", self.text),
            None => self.text.clone(),
        }
    }
}

/// What [`lines_of`] wrote, taken apart again.
pub(super) fn split_list(list: &str) -> String {
    let mut out = String::with_capacity(list.len() * 2);
    let mut rest = list;
    while let Some((before, inside)) = rest.split_once('{') {
        let Some((names, after)) = inside.split_once('}') else { break };
        let (others, shared) = before.rsplit_once(' ').map_or(("", before), |(others, shared)| (others, shared));
        out.push_str(others);
        for name in names.split(", ") {
            out.push_str(if out.is_empty() || out.ends_with(',') { " " } else { ", " });
            out.push_str(shared);
            out.push_str(name);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(list: List, text: &str, first: usize) -> Item {
        Item { list, rank: 0, text: text.to_owned(), context: None, first }
    }

    #[test]
    fn files_of_a_long_directory_share_it_and_others_stand_whole() {
        let paths =
            ["services/relay/timer.rs", "src/a.rs", "services/relay/queue.rs", "src/b.rs", "docs/", "/etc/hosts"];
        let items: Vec<Item> = paths.iter().map(|path| item(List::Paths, path, 0)).collect();
        let mut refs: Vec<&Item> = items.iter().collect();
        let lines = lines_of(List::Paths, &mut refs, true);
        assert_eq!(lines, ["Paths: docs/, /etc/hosts, services/relay/{queue.rs, timer.rs}, src/a.rs, src/b.rs"]);
        let apart = split_list(lines[0].strip_prefix("Paths: ").unwrap());
        for path in paths {
            assert!(apart.split([',', ' ']).any(|part| part == path), "{path} in {apart}");
        }
    }

    #[test]
    fn a_secret_is_not_listed_without_its_label() {
        let texts = [
            "DB_PASSWORD=hunter2hunter2 and stage_two",
            "{\"command\":\"export API_KEY='Zx81Zx81Zx81'\"}",
            "Authorization: Bearer abcdefgh12345678ijkl",
            "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7v1Zq0kTgHn2Yd9xWc4bLm8sRf6uPjE3oXtVaIyCzQwBrNhK\n",
        ];
        let mut index = Index::default();
        for text in texts {
            index.note(text, Notation::Plain, 1, Mention::Call);
        }
        let texts: Vec<String> = index.items(2).into_iter().map(|item| item.text).collect();
        for secret in ["hunter2", "Zx81", "abcdefgh1", "MIIE"] {
            assert!(!texts.iter().any(|text| text.contains(secret)), "{secret} in {texts:?}");
        }
        assert!(texts.contains(&"stage_two".to_owned()), "{texts:?}");
    }

    #[test]
    fn where_there_is_room_every_path_stands_whole() {
        let items = ["services/relay/timer.rs", "services/relay/queue.rs"].map(|path| item(List::Paths, path, 0));
        let lines = lines_of(List::Paths, &mut items.iter().collect::<Vec<_>>(), false);
        assert_eq!(lines, ["Paths: services/relay/queue.rs, services/relay/timer.rs"]);
    }

    #[test]
    fn names_of_a_namespace_share_it_where_room_is_scarce() {
        let names = ["Quality::Good", "parse_frame", "Quality::Bad", "Vec::new"];
        let items: Vec<Item> = names.iter().enumerate().map(|(at, name)| item(List::Names, name, at)).collect();
        let lines = lines_of(List::Names, &mut items.iter().collect::<Vec<_>>(), true);
        assert_eq!(lines, ["Names: Quality::{Good, Bad}, parse_frame, Vec::new"]);
    }

    #[test]
    fn a_broken_group_is_left_as_it_is() {
        assert_eq!(split_list("services/relay/{queue.rs, timer.rs"), "services/relay/{queue.rs, timer.rs");
        assert_eq!(split_list(""), "");
    }

    #[test]
    fn a_fact_stands_once_and_a_number_with_its_word() {
        let mut index = Index::default();
        index.note("p95 fell to 128 ms in src/a.rs", Notation::Plain, 1, Mention::Model);
        index.note("src/a.rs again, 128 ms", Notation::Plain, 2, Mention::Tool);
        index.note("let a = 4711", Notation::Json, 3, Mention::Call);
        let texts: Vec<String> = index.items(4).into_iter().map(|item| item.shown()).collect();
        assert_eq!(texts, ["p95 128 ms", "src/a.rs"]);
    }
}
