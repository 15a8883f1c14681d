//! Editing Markdown by its parts: sections, fences, list items, sentences. What stands in a fence is never taken for text.

/// A piece that was taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TakenOut {
    /// Its heading, or how it begins.
    pub(super) title: String,
    /// Its characters.
    pub(super) chars: usize,
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

/// The lines of a text, each with whether it belongs to a fence.
fn lines(text: &str) -> Vec<(&str, bool)> {
    let mut fence: Option<&str> = None;
    text.lines()
        .map(|line| {
            let mark = line.trim_start();
            let run = mark.len() - mark.trim_start_matches('`').len();
            match fence {
                Some(open) if mark.starts_with(open) && mark.trim_end().bytes().all(|byte| byte == b'`') => {
                    fence = None;
                    (line, true)
                }
                Some(_) => (line, true),
                None if run >= 3 => {
                    fence = mark.get(..run);
                    (line, true)
                }
                None => (line, false),
            }
        })
        .collect()
}

/// Takes out every section whose title is wanted, with the sections below it.
pub(super) fn take_sections(text: &str, wanted: impl Fn(&str) -> bool) -> (String, Vec<TakenOut>) {
    let mut taken: Vec<TakenOut> = Vec::new();
    let mut inside: Option<usize> = None;
    let mut kept = Vec::new();
    for (line, in_fence) in lines(text) {
        if let Some((level, title)) = bare_title(line).filter(|_| !in_fence)
            && inside.is_none_or(|outer| level <= outer)
        {
            inside = wanted(&title).then_some(level);
            if inside.is_some() {
                taken.push(TakenOut { title: line.trim().trim_start_matches('#').trim().to_owned(), chars: 0 });
            }
        }
        match (inside, taken.last_mut()) {
            (Some(_), Some(section)) => section.chars += line.chars().count() + 1,
            _ => kept.push(line),
        }
    }
    (kept.join("\n"), taken)
}

/// Takes out every fence whose content is wanted, and the line that announces it.
pub(super) fn take_fences(text: &str, wanted: impl Fn(&str) -> bool) -> (String, usize) {
    let lines = lines(text);
    let mut kept: Vec<&str> = Vec::new();
    let (mut count, mut at) = (0, 0);
    while let Some((line, in_fence)) = lines.get(at) {
        if !in_fence {
            kept.push(line);
            at += 1;
            continue;
        }
        let end = fence_end(&lines, at);
        let content: Vec<&str> = lines.get(at..end).unwrap_or_default().iter().map(|(line, _)| *line).collect();
        if wanted(&content.join("\n")) {
            count += 1;
            while kept.last().is_some_and(|line| line.trim().is_empty()) {
                kept.pop();
            }
            if kept.last().is_some_and(|line| line.trim_end().ends_with(':')) {
                kept.pop();
            }
        } else {
            kept.extend(content);
        }
        at = end;
    }
    (kept.join("\n"), count)
}

/// The line behind a fence: behind its closing mark, or the end of the text.
fn fence_end(lines: &[(&str, bool)], start: usize) -> usize {
    let mark = lines.get(start).map_or("", |(line, _)| line.trim_start());
    let run = mark.len() - mark.trim_start_matches('`').len();
    let closes = |line: &str| {
        let line = line.trim();
        line.len() >= run && line.bytes().all(|byte| byte == b'`')
    };
    let inner = lines.iter().enumerate().skip(start + 1);
    let close = inner.take_while(|(_, (_, in_fence))| *in_fence).find(|(_, (line, _))| closes(line));
    close.map_or(lines.len(), |(at, _)| at + 1)
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
    let (mut start, mut quoted) = (0, false);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == '`' {
            quoted = !quoted;
        }
        if quoted || !matches!(c, '.' | '!' | '?') {
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

/// Takes out every paragraph or group of lines that begins with a wanted line, up to the next blank line.
pub(super) fn take_blocks(text: &str, wanted: impl Fn(&str) -> bool) -> (String, usize) {
    let (mut count, mut inside) = (0, false);
    let mut kept = Vec::new();
    for (line, in_fence) in lines(text) {
        inside &= !in_fence && !line.trim().is_empty();
        if !inside && !in_fence && bare_title(line).is_none() && wanted(line) {
            inside = true;
            count += 1;
        }
        if !inside {
            kept.push(line);
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
    while let Some((line, in_fence)) = lines.get(at).copied() {
        at += 1;
        if in_fence || bare_title(line).is_some() || !wanted(line) {
            kept.push(line.to_owned());
            continue;
        }
        let mark = item_mark(line);
        let mark = if mark.is_empty() { line.get(..indent(line)).unwrap_or_default() } else { mark };
        let body = line.get(mark.len()..).unwrap_or_default();
        let mut left = Vec::new();
        for sentence in sentences(body) {
            if reach == Reach::Sentence && !wanted(sentence) {
                left.push(sentence);
                continue;
            }
            count += 1;
            left.extend(instead.take());
        }
        if !left.is_empty() {
            kept.push(format!("{mark}{}", left.join(" ")));
            continue;
        }
        let announces = body.trim_end().ends_with(':');
        let is_item = !item_mark(line).is_empty();
        let depth = indent(line);
        let mut blank = false;
        while let Some((next, false)) = lines.get(at).copied() {
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

/// Takes out headings that nothing stands under, trailing blanks, and blank lines beyond the first.
pub(super) fn tidy(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for (line, in_fence) in lines(text).into_iter().chain([("# end", false)]) {
        let line = if in_fence { line } else { line.trim_end() };
        if let Some((level, _)) = bare_title(line).filter(|_| !in_fence) {
            // What stands right above and is no deeper than this has nothing under it.
            loop {
                while kept.last().is_some_and(|last| last.is_empty()) {
                    kept.pop();
                }
                match kept.last().and_then(|last| bare_title(last)) {
                    Some((above, _)) if above >= level => kept.pop(),
                    _ => break,
                };
            }
            if !kept.is_empty() {
                kept.push("");
            }
        }
        if line.is_empty() && !in_fence && kept.last().is_none_or(|last| last.is_empty()) {
            continue;
        }
        kept.push(line);
    }
    kept.pop();
    let mut tidied = kept.join("\n").trim_end().to_owned();
    tidied.push('\n');
    tidied
}
