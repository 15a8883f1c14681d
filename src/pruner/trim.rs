//! Trimming one result: head and tail stay around a marker.

use crate::message::{Block, TextBlock};
use crate::policy::TrimPolicy;

/// The content of a result after trimming.
#[derive(Debug, Clone, PartialEq)]
pub struct Trimmed {
    /// The blocks that are left.
    pub blocks: Vec<Block>,
    /// Characters of text before.
    pub chars_before: usize,
    /// Characters of text after, marker included.
    pub chars_after: usize,
}

/// Characters of the text blocks of a result, as the budgets count them.
pub(super) fn text_chars(blocks: &[Block]) -> usize {
    blocks.iter().filter_map(Block::as_text).map(|text| text.chars().count()).sum()
}

/// Trims the text blocks of a result to the policy's budget; none when they are within it.
///
/// The first and last characters of the text as a whole stay, across block borders. One marker stands in the first text block
/// that loses something; text blocks that end up empty vanish; every other block keeps its place.
pub fn trim_content(blocks: &[Block], policy: &TrimPolicy) -> Option<Trimmed> {
    let bytes: usize = blocks.iter().filter_map(Block::as_text).map(str::len).sum();
    if bytes <= policy.threshold_chars {
        return None;
    }
    trim_counted(blocks, text_chars(blocks), policy)
}

/// As [`trim_content`], for blocks whose characters are known.
pub(super) fn trim_counted(blocks: &[Block], chars_before: usize, policy: &TrimPolicy) -> Option<Trimmed> {
    if chars_before <= policy.threshold_chars {
        return None;
    }
    let removed = policy.head_chars..chars_before.saturating_sub(policy.tail_chars);
    if removed.is_empty() {
        return None;
    }
    let mut marker = Some(policy.marker.as_str());
    let mut start = 0;
    let mut kept = Vec::with_capacity(blocks.len());
    for block in blocks {
        let Block::Text(text) = block else {
            kept.push(block.clone());
            continue;
        };
        // The only block is as long as the whole; most results have one.
        let end = if blocks.len() == 1 { chars_before } else { start + text.text.chars().count() };
        let head = removed.start.saturating_sub(start);
        let tail = removed.end.saturating_sub(start);
        let touched = end > removed.start && start < removed.end;
        let new = if touched {
            let marker = marker.take().unwrap_or_default();
            [before_char(&text.text, head), marker, last_chars(&text.text, end.saturating_sub(start + tail))].concat()
        } else {
            text.text.clone()
        };
        start = end;
        if !new.is_empty() {
            kept.push(Block::Text(TextBlock { text: new, extra: text.extra.clone() }));
        }
    }
    let chars_after = text_chars(&kept);
    Some(Trimmed { blocks: kept, chars_before, chars_after })
}

fn before_char(text: &str, index: usize) -> &str {
    text.char_indices().nth(index).map_or(text, |(at, _)| text.get(..at).unwrap_or_default())
}

/// The last characters of a text, found from its end: the middle of a long one need not be walked through.
fn last_chars(text: &str, count: usize) -> &str {
    let Some(last) = count.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(last).map_or(text, |(at, _)| text.get(at..).unwrap_or_default())
}
