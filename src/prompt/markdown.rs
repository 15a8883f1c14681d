//! Editing Markdown by its parts: sections, fences, list items, sentences. What stands in a fence is never taken for text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// A section that was taken out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TakenOut {
    /// Its heading.
    pub(super) title: String,
    /// Its characters.
    pub(super) chars: usize,
    /// The line of its heading, where that is known already.
    pub(super) line: Option<usize>,
    /// The bare titles of the headings under it.
    pub(super) inner: Vec<String>,
}

/// A heading without its marks, so that level, quotes, case and trailing blanks make no difference.
pub(super) fn bare_title(line: &str) -> Option<(usize, String)> {
    let line = line.trim_start();
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line.get(level..)?;
    if !(1..=6).contains(&level) || !title.starts_with([' ', '\t', '`']) {
        return None;
    }
    let bare: String = title.trim().trim_end_matches('#').chars().filter(|c| !matches!(c, '`' | '*' | '"')).collect();
    let bare = bare.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let bare = bare.trim_end_matches([':', '.']).to_owned();
    (!bare.is_empty()).then_some((level, bare))
}

/// A line, and the number of the fence that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    pub(super) fence: Option<usize>,
}

impl Line<'_> {
    /// Its level and bare title, where it is a heading.
    fn title(&self) -> Option<(usize, String)> {
        if self.fence.is_some() { None } else { bare_title(self.text) }
    }

    fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// The lines of a text. A fence is of backticks or tildes, three or more, and ends with as many or at the end of the text.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut open: Option<(char, usize)> = None;
    let mut number = 0;
    text.lines()
        .map(|text| {
            let was_open = open.is_some();
            let body = text.trim_start_matches(['>', ' ', '\t']);
            let body = if was_open { body } else { body.get(item_mark(body).len()..).unwrap_or_default() };
            let mark = body.chars().next().filter(|mark| matches!(mark, '`' | '~')).unwrap_or_default();
            let rest = body.trim_start_matches(mark);
            let run = body.len() - rest.len();
            match open {
                Some((opened_by, length)) if mark == opened_by && run >= length && rest.trim().is_empty() => {
                    open = None;
                }
                None if run >= 3 && !(mark == '`' && rest.contains('`')) => {
                    open = Some((mark, run));
                    number += 1;
                }
                _ => {}
            }
            Line { text, fence: (was_open || open.is_some()).then_some(number) }
        })
        .collect()
}

/// Every heading of a text with its line, from 1, one that stands behind a hole in the middle of its line included.
pub(super) fn titles(text: &str) -> Vec<(usize, String)> {
    let of_line = |line: &Line<'_>| {
        let behind_hole = || bare_title(line.text.get(line.text.rfind("}#")? + 1..)?).filter(|_| line.fence.is_none());
        line.title().or_else(behind_hole).map(|(_, title)| title)
    };
    lines(text).iter().enumerate().filter_map(|(index, line)| Some((index + 1, of_line(line)?))).collect()
}

/// The text with `# ` before its underlined titles, and how many there were. Blanks behind lines go; no line comes or goes.
pub(super) fn mark_underlined_titles(text: &str) -> (String, usize) {
    let all = lines(text);
    let is_rule = |line: &Line<'_>| {
        let mark = line.text.trim().chars().next().filter(|mark| matches!(mark, '=' | '-'));
        let run = line.text.trim();
        mark.filter(|mark| run.len() > 1 && line.fence.is_none() && run.chars().all(|c| c == *mark))
    };
    let is_prose = |line: &Line<'_>| {
        let text = line.text.trim();
        let other = text.starts_with(['>', '|', '<', '#']) || !item_mark(text).is_empty() || is_rule(line).is_some();
        !text.is_empty() && line.fence.is_none() && indent(line.text) < 4 && !other
    };
    let mut count = 0;
    let mut marked: Vec<String> = Vec::with_capacity(all.len());
    for (index, line) in all.iter().enumerate() {
        let title = index.checked_sub(1).and_then(|above| all.get(above)).filter(|title| is_prose(title));
        // The last line of a longer paragraph is no title.
        let above = index.checked_sub(2).and_then(|above| all.get(above));
        let ends = |above: &Line<'_>| above.is_blank() || above.fence.is_some() || above.title().is_some();
        // A rule ends a paragraph, too; in the first line it opens a header of keys.
        let alone = above.is_none_or(|above| ends(above) || (is_rule(above).is_some() && index > 2));
        match (is_rule(line), title, marked.last_mut()) {
            (Some(mark), Some(title), Some(last)) if alone && indent(line.text) < 4 => {
                count += 1;
                *last = format!("{} {}", if mark == '=' { "#" } else { "##" }, title.text.trim());
                marked.push(String::new());
            }
            _ => marked.push(if line.fence.is_some() { line.text } else { line.text.trim_end() }.to_owned()),
        }
    }
    (marked.join("\n"), count)
}

/// What stands in code quotes in a line: as many backticks close as opened, and one that nothing closes is none.
pub(super) fn code_spans(line: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in line.match_indices('`') {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    // The next run of the same length behind each, found from the end.
    let mut nearest: HashMap<usize, usize> = HashMap::new();
    let mut next: Vec<Option<usize>> =
        runs.iter().enumerate().rev().map(|(index, run)| nearest.insert(run.len(), index)).collect();
    next.reverse();
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(run) = runs.get(at) {
        match next.get(at).copied().flatten().and_then(|close| Some((close, runs.get(close)?))) {
            Some((close, closing)) => {
                spans.push(run.end..closing.start);
                at = close + 1;
            }
            None => at += 1,
        }
    }
    spans
}

/// Takes out every section whose title is wanted, with the sections below it.
pub(super) fn take_sections(text: &str, wanted: impl Fn(&str) -> bool) -> (String, Vec<TakenOut>) {
    let mut taken: Vec<TakenOut> = Vec::new();
    let mut inside: Option<usize> = None;
    let mut kept = Vec::new();
    for line in lines(text) {
        if let Some((level, title)) = line.title() {
            if inside.is_none_or(|outer| level <= outer) {
                inside = wanted(&title).then_some(level);
                if inside.is_some() {
                    taken.push(TakenOut { title: heading(line.text), ..TakenOut::default() });
                }
            } else if let Some(section) = taken.last_mut() {
                section.inner.push(title);
            }
        }
        match (inside, taken.last_mut()) {
            (Some(_), Some(section)) => section.chars += line.text.chars().count() + 1,
            _ => kept.push(line.text),
        }
    }
    (kept.join("\n"), taken)
}

/// A heading as it stands, without its marks in front.
pub(super) fn heading(line: &str) -> String {
    line.trim().trim_start_matches('#').trim().to_owned()
}

/// Takes out every fence whose content is wanted, and the sentence that announces it.
pub(super) fn take_fences(text: &str, wanted: impl Fn(&str) -> bool) -> (String, usize) {
    let lines = lines(text);
    let mut kept: Vec<&str> = Vec::new();
    let mut count = 0;
    for group in lines.chunk_by(|line, next| line.fence.is_some() && line.fence == next.fence) {
        let content: Vec<&str> = group.iter().map(|line| line.text).collect();
        if group.iter().all(|line| line.fence.is_none()) || !wanted(&content.join("\n")) {
            kept.extend(content);
            continue;
        }
        count += 1;
        while kept.last().is_some_and(|line| line.trim().is_empty()) {
            kept.pop();
        }
        if let Some(line) = kept.pop() {
            let announces = line.trim_end().ends_with(':') && bare_title(line).is_none();
            let announced = sentences(line).last().map_or(0, |last| last.len()) * usize::from(announces);
            let before = line.get(..line.len() - announced).unwrap_or_default();
            kept.extend(Some(before).filter(|before| !before.trim().is_empty() && item_mark(before) != *before));
        }
    }
    (kept.join("\n"), count)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The mark of a list item with the blanks around it; empty for other lines.
fn item_mark(line: &str) -> &str {
    let body = line.trim_start();
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match body.get(digits..).unwrap_or_default().chars().next() {
        Some('-' | '*' | '+') if digits == 0 => 1,
        Some('.' | ')') if digits > 0 => digits + 1,
        _ => return "",
    };
    let rest = body.get(mark..).unwrap_or_default();
    if !rest.starts_with([' ', '\t']) {
        return "";
    }
    let end = line.len() - rest.trim_start().len();
    line.get(..end).unwrap_or_default()
}

/// Where a text's sentences end: behind a full stop, question or exclamation mark that a capital, a quote or a bracket follows.
fn sentences(text: &str) -> Vec<&str> {
    const ABBREVIATIONS: [&str; 6] = ["e.g.", "i.e.", "vs.", "etc.", "cf.", "approx."];
    let mut found = Vec::new();
    let spans = code_spans(text);
    let mut spans = spans.iter().peekable();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        while spans.next_if(|span| span.end <= at).is_some() {}
        if spans.peek().is_some_and(|span| span.contains(&at)) || !matches!(c, '.' | '!' | '?') {
            continue;
        }
        let mut end = at + c.len_utf8();
        while let Some((next, closing)) = chars.peek().copied().filter(|(_, c)| matches!(c, ')' | '"' | '\'' | '*')) {
            end = next + closing.len_utf8();
            chars.next();
        }
        let after = text.get(end..).unwrap_or_default();
        let next = after.trim_start().chars().next();
        let sentence = text.get(start..end).unwrap_or_default();
        let abbreviated = ABBREVIATIONS.iter().any(|short| sentence.ends_with(short));
        if after.starts_with(char::is_whitespace) && !abbreviated && next.is_some_and(|c| !c.is_lowercase()) {
            found.push(sentence);
            start = end + (after.len() - after.trim_start().len());
        }
    }
    found.extend(text.get(start..).filter(|rest| !rest.trim().is_empty()));
    found
}

/// Whether the next line goes on with this one, as in a text whose lines are broken at some width. A line at whose end a sentence
/// ends, or that is short and has a capital behind it, stands for itself.
fn goes_on(line: &str, next: &Line<'_>) -> bool {
    /// No width at which a text is broken is less.
    const LEAST: usize = 40;
    /// A line of so many characters that ends amid a sentence is a broken one, whatever follows.
    const SURE: usize = 60;
    let (line, body) = (line.trim_end(), next.text.trim_start());
    let chars = line.chars().count();
    let ends = line.ends_with(['.', '!', '?', ':', ';', '|', '>']);
    let begins = next.is_blank() || next.fence.is_some() || next.title().is_some() || !item_mark(next.text).is_empty();
    let other = body.starts_with(['|', '<', '>', '{']);
    let small = body.starts_with(|c: char| c.is_lowercase() || c == '(');
    !ends && !begins && !other && chars >= LEAST && (small || chars >= SURE)
}

/// The bytes of a text's first line with the lines that go on with it.
pub(super) fn wrapped(text: &str) -> usize {
    let lines = lines(text);
    let broken = lines.windows(2).take_while(|pair| matches!(pair, [line, next] if goes_on(line.text, next))).count();
    text.split_inclusive('\n').take(broken + 1).map(str::len).sum()
}

/// What a line says before anything else.
pub(super) fn first_sentence(line: &str) -> &str {
    sentences(line).first().copied().unwrap_or_default()
}

/// Takes out every paragraph or group of lines that begins with a wanted line, up to the next blank line.
pub(super) fn take_blocks(text: &str, wanted: impl Fn(&str) -> bool) -> (String, usize) {
    let (mut count, mut inside) = (0, false);
    let mut kept = Vec::new();
    for line in lines(text) {
        inside &= line.fence.is_none() && !line.is_blank() && line.title().is_none();
        if !inside && line.fence.is_none() && line.title().is_none() && wanted(line.text) {
            inside = true;
            count += 1;
        }
        if !inside {
            kept.push(line.text);
        }
    }
    (kept.join("\n"), count)
}

/// How much goes with a sentence that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The sentence.
    Sentence,
    /// Its whole line: the list item or paragraph.
    Line,
}

/// Takes out every sentence that is wanted; the first one becomes `instead`, where that is given. A list item without sentences goes
/// with the items under it, and so does a list whose announcement went.
pub(super) fn take_sentences(
    text: &str,
    wanted: impl Fn(&str) -> bool,
    reach: Reach,
    instead: Option<&str>,
) -> (String, usize) {
    let lines = lines(text);
    let mut kept: Vec<String> = Vec::new();
    let mut instead = instead;
    let (mut count, mut at) = (0, 0);
    while let Some(Line { text: line, fence }) = lines.get(at).copied() {
        at += 1;
        if fence.is_some() || bare_title(line).is_some() {
            kept.push(line.to_owned());
            continue;
        }
        let first = at;
        let mut whole = Cow::Borrowed(line);
        let mut last = line;
        while let Some(next) = lines.get(at).filter(|next| goes_on(last, next)) {
            let joined = whole.to_mut();
            joined.truncate(joined.trim_end().len());
            joined.extend([" ", next.text.trim()]);
            last = next.text;
            at += 1;
        }
        let line = whole.as_ref();
        if !wanted(line) {
            kept.extend(lines.get(first - 1..at).unwrap_or_default().iter().map(|line| line.text.to_owned()));
            continue;
        }
        let mark = item_mark(line);
        let mark = if mark.is_empty() { line.get(..indent(line)).unwrap_or_default() } else { mark };
        let body = line.get(mark.len()..).unwrap_or_default();
        let before = count;
        let mut left = Vec::new();
        for sentence in sentences(body) {
            if reach == Reach::Sentence && !wanted(sentence) {
                left.push(sentence);
                continue;
            }
            count += 1;
            left.extend(instead.take());
        }
        if count == before {
            kept.extend(lines.get(first - 1..at).unwrap_or_default().iter().map(|line| line.text.to_owned()));
            continue;
        }
        if !left.is_empty() {
            kept.push(format!("{mark}{}", left.join(" ")));
            continue;
        }
        let announces = body.trim_end().ends_with(':');
        let is_item = !item_mark(line).is_empty();
        let depth = indent(line);
        let mut blank = false;
        while let Some(Line { text: next, fence: None }) = lines.get(at).copied() {
            let below = is_item && indent(next) > depth && !next.trim().is_empty();
            let listed = announces && !item_mark(next).is_empty() && indent(next) >= depth && !is_item;
            let first_blank = announces && next.trim().is_empty() && !blank && !is_item;
            blank |= first_blank;
            if !(below || listed || first_blank) {
                break;
            }
            at += 1;
        }
    }
    (kept.join("\n"), count)
}

/// Takes out headings that nothing stands under, trailing blanks, and blank lines beyond the first. The headings are told.
pub(super) fn tidy(text: &str) -> (String, Vec<TakenOut>) {
    let mut kept: Vec<Line<'_>> = Vec::new();
    let mut taken = Vec::new();
    let end = Line { text: "# end", fence: None };
    for mut line in lines(text).into_iter().chain([end]) {
        if line.fence.is_none() {
            line.text = line.text.trim_end();
        }
        if let Some((level, _)) = line.title() {
            // What stands right above and is no deeper than this has nothing under it.
            loop {
                while kept.last().is_some_and(|last| last.text.is_empty() && last.fence.is_none()) {
                    kept.pop();
                }
                let Some(empty) = kept.pop_if(|last| last.title().is_some_and(|(above, _)| above >= level)) else {
                    break;
                };
                let (title, chars) = (heading(empty.text), empty.text.chars().count());
                taken.push(TakenOut { title, chars, ..TakenOut::default() });
            }
            if !kept.is_empty() {
                kept.push(Line { text: "", fence: None });
            }
        }
        let is_blank = |line: &Line<'_>| line.text.is_empty() && line.fence.is_none();
        if !is_blank(&line) || !kept.last().is_none_or(is_blank) {
            kept.push(line);
        }
    }
    kept.pop();
    let lines: Vec<&str> = kept.iter().map(|line| line.text).collect();
    let mut tidied = lines.join("\n").trim_end().to_owned();
    tidied.push('\n');
    (tidied, taken)
}
