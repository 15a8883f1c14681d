//! How words are written: typographic marks, other spellings of a tool's name, its new name.

use super::adapter::Agent;
use super::check::{is_dash, is_word, mentions};
use super::markdown::{Line, code_spans, lines};
use super::template::CLOSED_HOLE;

/// Plain hyphens, quotes, blanks and line ends for typographic ones, and how many there were.
pub(super) fn fold_typography(text: &str) -> (String, usize) {
    let mut count = 0;
    let plain = |c| {
        let plain = match c {
            '\u{2010}' | '\u{2011}' => Some('-'),
            '\u{2018}'..='\u{201b}' => Some('\''),
            '\u{201c}'..='\u{201f}' => Some('"'),
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => Some(' '),
            '\r' => Some('\n'),
            // Marks that nobody sees, and the one that stands for a closed hole.
            '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}' | CLOSED_HOLE => None,
            other => Some(other),
        };
        count += usize::from(plain != Some(c));
        plain
    };
    (text.replace("\r\n", "\n").chars().filter_map(plain).collect(), count)
}

/// The text with hyphens for the dashes between two letters, and how many there were. A long dash parts two clauses and stays.
pub(super) fn fold_dashes(text: &str) -> (String, usize) {
    let mut folded = String::with_capacity(text.len());
    let mut count = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let in_word = folded.ends_with(char::is_alphabetic) && chars.peek().is_some_and(|next| next.is_alphabetic());
        let is_hyphen = in_word && is_dash(c) && !matches!(c, '\u{2014}' | '\u{2015}');
        count += usize::from(is_hyphen);
        folded.push(if is_hyphen { '-' } else { c });
    }
    (folded, count)
}

/// The text with names of tools in their usual spelling where another dash, blank or case was in it, and how often. Every rule knows
/// them then.
pub(super) fn fold_spellings<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> (String, usize) {
    let mut names: Vec<&str> = names.filter(|name| name.contains(['-', '_'])).collect();
    // What has a hyphen is a decoy of what has an underscore. It comes first, so that the other does not take its place.
    names.sort_by_key(|name| !name.contains('-'));
    let (mut text, mut count) = (text.to_owned(), 0);
    for name in &names {
        let mut folded = String::new();
        let mut told = 0;
        for found in mentions(&text, &text.to_ascii_lowercase(), name) {
            let before = text.get(told..found.start).unwrap_or_default();
            let spelling = text.get(found.clone()).unwrap_or_default();
            // `ToolNames.READ_FILE` is a constant.
            if names.contains(&spelling) || before.ends_with('.') {
                continue;
            }
            count += 1;
            folded.extend([before, name]);
            told = found.end;
        }
        folded.push_str(text.get(told..).unwrap_or_default());
        text = folded;
    }
    (text, count)
}

/// Renames a tool, and tells how often. A name with an underscore is renamed wherever it is a word, a word of English only where it
/// stands alone in code quotes or as a string in code. In prose the name gets code quotes, other quotes around it go, and so does one
/// that nothing closes.
pub(super) fn rename(text: &str, (from, to): (&str, &str), agent: &Agent) -> (String, usize) {
    let mut count = 0;
    let mut renamed = String::with_capacity(text.len());
    for (index, Line { text: line, fence }) in lines(text).into_iter().enumerate() {
        if index > 0 {
            renamed.push('\n');
        }
        if !line.contains(from) {
            renamed.push_str(line);
            continue;
        }
        let spans = code_spans(line);
        let [single, double] = ['\'', '"'].map(|quote| standing(line, quote).collect::<Vec<_>>());
        let in_json = line.contains("{\"") || line.contains("[\"");
        let mut told = 0;
        for (at, found) in line.match_indices(from) {
            let span = spans.get(spans.partition_point(|span| span.end <= at));
            let in_code = fence.is_some() || in_json || span.is_some_and(|span| span.start <= at);
            let head = line.get(..at).unwrap_or_default();
            let Some(start) = reference_start(head, agent) else { continue };
            let (before, after) = (line.get(told..start), line.get(at + found.len()..));
            let (Some(before), Some(after)) = (before, after) else { continue };
            let (left, right) = (before.chars().next_back(), after.chars().next());
            let (outer_left, outer_right) = (before.chars().rev().nth(1), after.chars().nth(1));
            let is_file = right == Some('.') && outer_right.is_some_and(|c| c.is_lowercase() || c.is_numeric());
            if left.is_some_and(is_word) || right.is_some_and(is_word) || is_file {
                continue;
            }
            let is_quote = |c: &char| matches!(c, '\'' | '"');
            let opening = left.filter(is_quote).filter(|_| outer_left.is_none_or(|c| !is_word(c)));
            let closing = right.filter(is_quote).filter(|_| outer_right.is_none_or(|c| !is_word(c)));
            // One of a longer quotation stays.
            let is_paired = opening == closing;
            let behind = |quote: char| {
                let quotes = if quote == '\'' { &single } else { &double };
                quotes.len() - quotes.partition_point(|quote| *quote < at)
            };
            let ahead = |quote: char| if quote == '\'' { single.len() } else { double.len() } - behind(quote);
            let opening_goes = opening.filter(|quote| is_paired || behind(*quote) % 2 == 0);
            let closing_goes = closing.filter(|quote| is_paired || ahead(*quote) % 2 == 0);
            let stands_alone = match in_code {
                true => {
                    (left == Some('`') && matches!(right, Some('`' | '('))) || (left, right) == (Some('"'), Some('"'))
                }
                false => agent.single_quotes && opening == Some('\'') && closing == opening,
            };
            let in_namespace = start < at && !head.ends_with('/');
            if !(from.contains('_') || in_namespace || stands_alone) {
                continue;
            }
            if in_code {
                count += usize::from(from != to);
                renamed.extend([before, to]);
                told = at + found.len();
            } else {
                count += 1;
                let before = opening_goes.and_then(|quote| before.strip_suffix(quote)).unwrap_or(before);
                renamed.extend([before, "`", to, "`"]);
                told = at + found.len() + closing_goes.map_or(0, char::len_utf8);
            }
        }
        renamed.push_str(line.get(told..).unwrap_or_default());
    }
    (renamed, count)
}

/// Where a line's quotes of a kind stand. An apostrophe inside a word is none.
pub(super) fn standing(line: &str, quote: char) -> impl Iterator<Item = usize> {
    let stands = move |at: &usize| {
        let before = line.get(..*at).and_then(|part| part.chars().next_back());
        let after = line.get(*at + quote.len_utf8()..).and_then(|part| part.chars().next());
        !(before.is_some_and(is_word) && after.is_some_and(is_word))
    };
    line.match_indices(quote).map(|(at, _)| at).filter(stands)
}

/// Namespaces of tools. They go with the tool's old name.
const NAMESPACES: [&str; 6] = ["functions", "function", "tools", "tool", "default_api", "api"];

/// Where the reference to a tool begins whose name stands behind this text: at its namespace, where it has one that is known. None
/// behind another one: it is no name of a tool then, and no part of it may change.
fn reference_start(before: &str, agent: &Agent) -> Option<usize> {
    let Some(head) = ["::", ".", "/"].iter().find_map(|separator| before.strip_suffix(separator)) else {
        return Some(before.len());
    };
    let space = head.rsplit(|c| !is_word(c)).next().unwrap_or_default();
    // A full stop may stand alone, and a stroke between two tools.
    let is_tool = before.ends_with('/') && agent.tools.iter().any(|(from, to)| space == *from || space == *to);
    match space {
        space if space.is_empty() || is_tool => Some(before.len()),
        space if NAMESPACES.contains(&space) => Some(head.len() - space.len()),
        _ => None,
    }
}

/// Two upstream tools may be one of ours: "`read` and `read`" says it once. The article before a name is that of the new one.
pub(super) fn mend_joints(text: &str, tools: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (_, tool) in tools {
        let once = format!("`{tool}`");
        text = say_once(text, &once, ", ");
        // The last word of a list keeps what joins it to the others.
        for joint in [", and ", ", or ", " and ", " or "] {
            text = text.replace(&format!(", {once}{joint}{once}"), &format!("{joint}{once}"));
        }
        for joint in [" and ", " or ", ", ", "/", " / ", ", and ", ", or "] {
            text = say_once(text, &once, joint);
        }
        let vowel = tool.starts_with(['a', 'e', 'i', 'o', 'u']);
        for (wrong, right) in [("a", "an"), ("A", "An")].map(|(a, an)| if vowel { (a, an) } else { (an, a) }) {
            for before in [" ", "(", "\n"] {
                text = text.replace(&format!("{before}{wrong} {once}"), &format!("{before}{right} {once}"));
            }
        }
    }
    text
}

/// The text in which a name that is joined to itself stands once.
fn say_once(mut text: String, name: &str, joint: &str) -> String {
    let twice = format!("{name}{joint}{name}");
    while text.contains(&twice) {
        text = text.replace(&twice, name);
    }
    text
}
