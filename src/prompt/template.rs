//! Holes: what a template left in a prompt's text, and the prompt inside program source.

use std::ops::Range;

use super::check::{Places, is_word};
use super::markdown::{TakenOut, bare_title, heading};
use super::spelling::standing;

/// A text whose holes are filled or closed.
#[derive(Debug, Default)]
pub(super) struct Filled {
    pub(super) text: String,
    /// Holes that named a tool.
    pub(super) tools: usize,
    /// Other holes of program code.
    pub(super) code: usize,
    /// Holes in double braces.
    pub(super) variables: usize,
    /// Sections inside holes that were not kept, in order, each with the address of its heading.
    removed: Vec<(usize, TakenOut)>,
    /// Whether the text was program source.
    pub(super) source: bool,
}

/// Stands for a hole inside a sentence, which then makes no sense any more. A private-use character that no prompt has.
pub(super) const CLOSED_HOLE: char = '\u{e0ff}';

/// Holes longer than this are not looked for: the cost of a text full of openings must stay bounded.
const MOST_HOLE_BYTES: usize = 40_000;
/// After so many bytes walked for holes that nothing closes, no more is looked for one.
const MOST_VAIN_BYTES: usize = 2_000_000;

/// Fills the holes that name a tool and closes all others. `tool` tells the name of a constant, `keep` whether a section inside a
/// hole stays.
pub(super) fn fill(text: &str, marks: &[&str], tool: &dyn Fn(&str) -> String, keep: &dyn Fn(&str) -> bool) -> Filled {
    let mut filled = Filled::default();
    let prompt = match prompt_in_source(text, marks) {
        Some(range) => {
            filled.source = true;
            text.get(range).unwrap_or_default()
        }
        None => text,
    };
    let escaped = filled.source || prompt.contains("${");
    fill_text(prompt, escaped, &mut filled, tool, keep);
    let mut places = Places::of(text);
    for (address, section) in &mut filled.removed {
        section.line = Some(places.at(address.saturating_sub(text.as_ptr() as usize)).line);
    }
    filled
}

impl Filled {
    /// Sections inside holes that were not kept.
    pub(super) fn removed(&mut self) -> impl Iterator<Item = TakenOut> {
        self.removed.drain(..).map(|(_, section)| section)
    }
}

/// Fills and closes the holes of a piece of prompt at the end of what is filled already. `escaped` tells whether it is as a template
/// literal holds it, with strokes before backticks.
fn fill_text(
    prompt: &str,
    escaped: bool,
    filled: &mut Filled,
    tool: &dyn Fn(&str) -> String,
    keep: &dyn Fn(&str) -> bool,
) {
    let mut output = std::mem::take(&mut filled.text);
    let mut at = 0;
    let mut patience = MOST_VAIN_BYTES;
    while let Some(rest) = prompt.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(next) = rest.find(['$', '{', '\\']) else {
            output.push_str(rest);
            break;
        };
        output.push_str(rest.get(..next).unwrap_or_default());
        let rest = rest.get(next..).unwrap_or_default();
        at += next;
        if escaped && let Some(plain) = ["\\`", "\\$", "\\\\"].iter().find(|pair| rest.starts_with(**pair)) {
            output.push_str(plain.get(1..).unwrap_or_default());
            at += plain.len();
        } else if let Some(inner) = rest.strip_prefix("${").and_then(|rest| balanced(rest, &mut patience)) {
            at += "${".len() + inner.len() + "}".len();
            filled.text = output;
            at += close_hole(inner, prompt.get(at..).unwrap_or_default(), filled, tool, keep);
            output = std::mem::take(&mut filled.text);
        } else if let Some(inner) = rest.strip_prefix("{{").and_then(variable) {
            filled.variables += 1;
            at += inner.len() + "{{}}".len();
            close(&mut output, prompt.get(at..).unwrap_or_default());
        } else {
            let width = rest.chars().next().map_or(1, char::len_utf8);
            output.push_str(rest.get(..width).unwrap_or_default());
            at += width;
        }
    }
    filled.text = output;
}

/// What stands between double braces, if it is a name and not long.
fn variable(rest: &str) -> Option<&str> {
    let near = rest.char_indices().nth(60).map_or(rest, |(end, _)| rest.get(..end).unwrap_or(rest));
    let (inner, _) = near.split_once("}}")?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
    (inner.chars().all(is_name) && !inner.trim().is_empty()).then_some(inner)
}

/// Fills or closes a hole, and tells how many bytes behind it go with it.
fn close_hole(
    inner: &str,
    after: &str,
    filled: &mut Filled,
    tool: &dyn Fn(&str) -> String,
    keep: &dyn Fn(&str) -> bool,
) -> usize {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if let Some(constant) = inner.trim().strip_prefix("ToolNames.").filter(|name| is_name(name)) {
        filled.tools += 1;
        let line = last_line(&filled.text);
        let is_quoted = line.ends_with(['\'', '"']) || line.matches('`').count() % 2 == 1;
        let quote = if is_quoted { "" } else { "`" };
        let mut next = after.chars();
        let closing = next.next().filter(|c| matches!(c, '\'' | '"') && !next.next().is_some_and(is_word));
        // A quote that nothing opened.
        let lone = closing.filter(|closing| !is_quoted && standing(line, *closing).count().is_multiple_of(2));
        filled.text.extend([quote, &tool(constant), quote]);
        return lone.map_or(0, char::len_utf8);
    }
    filled.code += 1;
    // A literal inside that begins with a heading is a section that the program chooses.
    let mut kept = false;
    for literal in literals(inner) {
        let first = literal.trim().lines().next().unwrap_or_default();
        let Some((_, title)) = bare_title(first) else { continue };
        if keep(&title) {
            filled.text.push_str("\n\n");
            fill_text(literal.trim(), true, filled, tool, keep);
            kept = true;
        } else {
            let inner = literal.trim().lines().skip(1).filter_map(bare_title).map(|(_, inner)| inner).collect();
            let chars = literal.trim().chars().count();
            // A literal is a slice of the text as it was handed in, so its address tells its place.
            let offset = first.as_ptr() as usize;
            filled.removed.push((offset, TakenOut { title: heading(first), chars, line: None, inner }));
        }
    }
    if kept {
        filled.text.push_str("\n\n");
    } else {
        close(&mut filled.text, after);
    }
    0
}

/// The last line of a text, as far back as a line of a prompt is long.
fn last_line(text: &str) -> &str {
    const MOST_LINE_BYTES: usize = 4_096;
    let from = text.len().saturating_sub(MOST_LINE_BYTES);
    let tail = (from..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default();
    tail.rsplit('\n').next().unwrap_or_default()
}

/// Closes a hole: where it has a line of its own, or a heading follows in the same line, nothing is left of it.
fn close(output: &mut String, after: &str) {
    let line = last_line(output);
    let alone = line.trim_matches([' ', '\t', CLOSED_HOLE]).is_empty();
    let ends = after.chars().find(|c| !matches!(c, ' ' | '\t')).is_none_or(|c| c == '\n');
    let heading = after.trim_start_matches([' ', '\t']).starts_with('#');
    let hole = after.trim_start_matches([' ', '\t']).starts_with("${");
    if heading {
        output.push('\n');
    } else if !(alone && (ends || hole)) {
        output.push(CLOSED_HOLE);
    }
}

/// What stands before the brace that closes a hole of program code: strings, comments, literals and braces inside are balanced.
/// Looking in vain costs patience; without any, nothing is looked for.
fn balanced<'a>(rest: &'a str, patience: &mut usize) -> Option<&'a str> {
    if *patience == 0 {
        return None;
    }
    let end = code_end(rest.as_bytes(), 0);
    if end.is_none() {
        *patience = patience.saturating_sub(rest.len().min(MOST_HOLE_BYTES));
    }
    rest.get(..end?)
}

/// The offset of the brace that closes the code that begins at `at`.
fn code_end(bytes: &[u8], at: usize) -> Option<usize> {
    /// What an opening is closed by.
    #[derive(Clone, Copy, PartialEq)]
    enum Inside {
        Code,
        Literal,
    }
    let mut open = vec![Inside::Code];
    let mut i = at;
    while i < bytes.len() && i - at < MOST_HOLE_BYTES {
        let byte = *bytes.get(i)?;
        let next = bytes.get(i + 1).copied();
        match (open.last()?, byte) {
            (_, b'\\') => i += 1,
            (Inside::Literal, b'`') => {
                open.pop();
            }
            (Inside::Literal, b'$') if next == Some(b'{') => {
                open.push(Inside::Code);
                i += 1;
            }
            (Inside::Literal, _) => {}
            (Inside::Code, b'`') => open.push(Inside::Literal),
            (Inside::Code, b'{') => open.push(Inside::Code),
            (Inside::Code, b'}') => {
                open.pop();
                if open.is_empty() {
                    return Some(i);
                }
            }
            (Inside::Code, b'\'' | b'"') => i = string_end(bytes, i)?,
            (Inside::Code, b'/') if next == Some(b'/') => {
                i = bytes.iter().skip(i).position(|byte| *byte == b'\n').map(|length| i + length)?;
            }
            (Inside::Code, b'/') if next == Some(b'*') => {
                i = bytes.windows(2).skip(i + 2).position(|pair| pair == b"*/").map(|length| i + 2 + length + 1)?;
            }
            (Inside::Code, b'\n') if begins_prose(bytes, i, open.len() == 1) => return None,
            (Inside::Code, _) => {}
        }
        i += 1;
    }
    None
}

/// Whether the line behind a line end in a hole is text and no code, so that nothing closed the hole: a list item, a heading, a
/// fence; right in the hole, with no brace between, also a blank line, and a word that follows on another.
fn begins_prose(bytes: &[u8], line_end: usize, right_in_hole: bool) -> bool {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let next = bytes.get(line_end + 1..).unwrap_or_default();
    let next = next.get(next.iter().take_while(|byte| is_blank(byte)).count()..).unwrap_or_default();
    let digits = next.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let marks: [&[u8]; 7] = [b"- ", b"* ", b"# ", b"##", b"```", b"~~~", b"> "];
    let is_numbered =
        digits > 0 && next.get(digits..).is_some_and(|rest| rest.starts_with(b". ") || rest.starts_with(b") "));
    if is_numbered || marks.iter().any(|mark| next.starts_with(mark)) {
        return true;
    }
    let before = bytes.get(..line_end).unwrap_or_default();
    let last = before.iter().rev().find(|byte| !is_blank(byte));
    let word = next.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let is_operator = matches!(next.get(..word), Some(b"in" | b"instanceof" | b"as" | b"satisfies"));
    let follows_word = last.is_some_and(|last| last.is_ascii_alphanumeric() || matches!(last, b'.' | b'!' | b'?'));
    right_in_hole && follows_word && (next.starts_with(b"\n") || (word > 0 && !is_operator))
}

/// The offset of the last byte of a string: the quote that closes it, or what stands before the line's end; it was an apostrophe then.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let quote = bytes.get(start)?;
    let mut i = start + 1;
    while let Some(byte) = bytes.get(i) {
        match byte {
            b'\\' => i += 1,
            b'\n' => return Some(i - 1),
            byte if byte == quote => return Some(i),
            _ => {}
        }
        i += 1;
    }
    None
}

/// The template literals of a piece of code, outermost ones.
fn literals(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some((_, after)) = rest.split_once('`') {
        let Some(end) = literal_end(after.as_bytes()) else { break };
        found.extend(after.get(..end));
        rest = after.get(end + 1..).unwrap_or_default();
    }
    found
}

/// The offset of the backtick that closes a literal.
fn literal_end(bytes: &[u8]) -> Option<usize> {
    let mut i = 0;
    while let Some(byte) = bytes.get(i) {
        match byte {
            b'\\' => i += 1,
            b'`' => return Some(i),
            b'$' if bytes.get(i + 1) == Some(&b'{') => i = code_end(bytes, i + 2)?,
            _ => {}
        }
        i += 1;
    }
    None
}

/// Where the prompt stands in program source: the template literal around the first heading that is one of `marks`.
fn prompt_in_source(text: &str, marks: &[&str]) -> Option<Range<usize>> {
    let is_source = text.lines().any(|line| line.starts_with("export ") || line.starts_with("import "));
    if !is_source {
        return None;
    }
    let mut at = 0;
    let heading = text.split_inclusive('\n').find_map(|line| {
        let start = at;
        at += line.len();
        let heading = line.get(line.find('#')?..)?;
        let (_, title) = bare_title(heading)?;
        marks.iter().any(|mark| title.starts_with(&mark.to_lowercase())).then_some(start + (line.len() - heading.len()))
    })?;
    let before = text.get(..heading)?;
    let opens = |at: &usize| {
        let code = before.get(..*at).unwrap_or_default().trim_end();
        code.ends_with(['=', '(', ':', ',', '?', '+', '>']) || code.ends_with("return") || code.ends_with("||")
    };
    let starts = before.rmatch_indices('`').map(|(at, _)| at).filter(opens);
    // The nearest one that is still open at the heading.
    starts.take(64).find_map(|start| {
        let inner = text.get(start + 1..)?;
        let end = start + 1 + literal_end(inner.as_bytes())?;
        (end > heading).then_some(start + 1..end)
    })
}
