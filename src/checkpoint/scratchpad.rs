//! Scratchpads in an answer, which are no part of a summary.

use super::read::{lines_with_offsets, tag_length};
use crate::kit::Envelope;

/// Tags between which models think aloud.
const SCRATCHPADS: [&str; 2] = ["analysis", "think"];

/// The text without its scratchpads. One that is never closed ends where the envelope begins, else with the text. A tag in code
/// quotes is a mention of it and stays.
pub(super) fn without_scratchpads(text: &str, envelope: Option<&Envelope>) -> String {
    let text = without_lost_beginning(text);
    let mut out = String::new();
    let mut rest = text;
    loop {
        let Some((tag, at, length)) = find_scratchpad(rest, text) else {
            out.push_str(rest);
            return out;
        };
        out.push_str(rest.get(..at).unwrap_or_default());
        let inside = rest.get(at + length..).unwrap_or_default();
        let close = find_tag(inside, tag, true);
        let Some((end, length)) = close.or_else(|| {
            let (open, _) = find_tag(inside, &envelope?.tag, false)?;
            Some((open, 0))
        }) else {
            return out;
        };
        rest = inside.get(end + length..).unwrap_or_default();
    }
}

/// The first scratchpad of a part of a text: its tag, where it begins and how long the tag is.
fn find_scratchpad(rest: &str, text: &str) -> Option<(&'static str, usize, usize)> {
    let skipped = text.len() - rest.len();
    rest.match_indices('<').find_map(|(at, _)| {
        let here = rest.get(at..)?;
        let (tag, length) = SCRATCHPADS.iter().find_map(|tag| Some((*tag, tag_length(here, tag, false)?)))?;
        let quoted = text.get(..skipped + at).is_some_and(|before| before.ends_with('`'))
            && here.get(length..).is_some_and(|after| after.starts_with('`'));
        (!quoted).then_some((tag, at, length))
    })
}

/// What follows an end tag of thoughts that were never opened: some templates open them in the prompt.
fn without_lost_beginning(text: &str) -> &str {
    const TAG: &str = "think";
    let close = lines_with_offsets(text).find_map(|(at, line)| {
        let line = line.trim_end();
        let from = line.rfind("</")?;
        (tag_length(line.get(from..)?, TAG, true) == Some(line.len() - from)).then_some((at + from, at + line.len()))
    });
    match close {
        Some((from, end)) if text.get(..from).is_some_and(|before| find_tag(before, TAG, false).is_none()) => {
            text.get(end..).unwrap_or_default()
        }
        _ => text,
    }
}

/// The first tag of a name: where it begins and how long it is.
fn find_tag(text: &str, tag: &str, closing: bool) -> Option<(usize, usize)> {
    text.match_indices('<').find_map(|(at, _)| Some((at, tag_length(text.get(at..)?, tag, closing)?)))
}
