//! Cutting text where it hurts least.

/// Cuts a text so that `fits` holds, at the last paragraph, line or sentence end that keeps at least half of what would fit;
/// none where nothing fits. `fits` must hold for every beginning of a text that it holds for.
pub fn cut_at_sentence(text: &str, fits: impl Fn(&str) -> bool) -> Option<&str> {
    if fits(text) {
        return Some(text);
    }
    let longest = longest_prefix(text, fits)?;
    let least = longest.len() / 2;
    let ends = ["\n\n", "\n", ". ", "! ", "? ", "。", "！", "？"];
    let best = ends.iter().take(2).find_map(|end| end_of_last(longest, end, least)).or_else(|| {
        ends.iter().skip(2).filter_map(|end| end_of_last(longest, end, least)).max_by_key(|kept| kept.len())
    });
    let kept = best.unwrap_or(longest).trim_end();
    (!kept.is_empty()).then_some(kept)
}

fn end_of_last<'a>(text: &'a str, end: &str, least: usize) -> Option<&'a str> {
    let at = text.rfind(end)? + end.len();
    text.get(..at).filter(|kept| kept.len() >= least)
}

/// The longest beginning that fits, of a text that as a whole does not.
fn longest_prefix(text: &str, fits: impl Fn(&str) -> bool) -> Option<&str> {
    let (mut low, mut high) = (0, text.len());
    loop {
        let mut middle = floor_boundary(text, low + (high - low) / 2);
        if middle == low {
            middle = ceil_boundary(text, low + 1);
        }
        if middle >= high {
            break;
        }
        if text.get(..middle).is_some_and(&fits) {
            low = middle;
        } else {
            high = middle;
        }
    }
    text.get(..unjoined(text, low)).filter(|kept| !kept.is_empty())
}

/// Cuts the middle out of a text, so that about `chars` characters stay, two thirds of them in front of the marker.
pub fn cut_middle(text: &str, chars: usize, marker: &str) -> String {
    let total = text.chars().count();
    if total <= chars {
        return text.to_owned();
    }
    let room = chars.saturating_sub(marker.chars().count());
    let head_chars = room * 2 / 3;
    let tail_chars = room - head_chars;
    let head_end = text.char_indices().nth(head_chars).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().nth(total - tail_chars).map_or(text.len(), |(at, _)| at);
    let head = text.get(..unjoined(text, head_end)).unwrap_or_default();
    let tail = text.get(rejoined(text, tail_start)..).unwrap_or_default();
    format!("{head}{marker}{tail}")
}

/// The nearest place at or before `at` where no mark, joiner or variation selector would be torn from its base.
pub(crate) fn unjoined(text: &str, at: usize) -> usize {
    const MOST_STEPS: usize = 16;
    let mut at = floor_boundary(text, at);
    for _ in 0..MOST_STEPS {
        let next = text.get(at..).and_then(|rest| rest.chars().next());
        let before = text.get(..at).and_then(|head| head.chars().next_back());
        let joined = next.is_some_and(joins_backward) || before == Some(ZERO_WIDTH_JOINER);
        match before {
            Some(before) if joined => at -= before.len_utf8(),
            _ => break,
        }
    }
    at
}

/// The nearest place at or after `at` where no mark, joiner or variation selector would be torn from its base.
fn rejoined(text: &str, at: usize) -> usize {
    const MOST_STEPS: usize = 16;
    let mut at = at;
    for _ in 0..MOST_STEPS {
        let next = text.get(at..).and_then(|rest| rest.chars().next());
        let after_joiner = text.get(..at).is_some_and(|head| head.ends_with(ZERO_WIDTH_JOINER));
        match next {
            Some(next) if after_joiner || joins_backward(next) => at += next.len_utf8(),
            _ => break,
        }
    }
    at
}

const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Characters that belong to the one before them: combining marks, variation selectors, skin tones, joiners.
fn joins_backward(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{93c}' | '\u{93e}'..='\u{94d}' | '\u{e31}' | '\u{e34}'..='\u{e3a}'
        | '\u{e47}'..='\u{e4e}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{200d}'
        | '\u{20d0}'..='\u{20ff}' | '\u{3099}' | '\u{309a}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0100}'..='\u{e01ef}')
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn within(chars: usize) -> impl Fn(&str) -> bool {
        move |text| text.chars().count() <= chars
    }

    #[test]
    fn the_cut_prefers_paragraphs_then_lines_then_sentences() {
        assert_eq!(cut_at_sentence("one\n\ntwo. three", within(11)), Some("one"));
        assert_eq!(cut_at_sentence("first line\nsecond line", within(15)), Some("first line"));
        assert_eq!(cut_at_sentence("One is. Two is. Three", within(17)), Some("One is. Two is."));
        assert_eq!(cut_at_sentence("oneunbrokenword", within(5)), Some("oneun"));
        assert_eq!(cut_at_sentence("abc", within(3)), Some("abc"));
        assert_eq!(cut_at_sentence("abc", within(0)), None);
        assert_eq!(cut_at_sentence("", within(0)), Some(""));
    }

    #[test]
    fn a_cut_tears_no_mark_from_its_letter_and_no_emoji_apart() {
        assert_eq!(cut_at_sentence("ae\u{301}\u{301}z", within(3)), Some("a"));
        assert_eq!(cut_at_sentence("a👩\u{200d}💻b", within(3)), Some("a"));
        assert_eq!(cut_middle("👍🏽👍🏽👍🏽👍🏽", 5, "…"), "👍🏽…👍🏽");
    }

    proptest! {
        #[test]
        fn what_is_kept_is_a_beginning_that_fits(text in "\\PC{0,60}", chars in 0usize..60) {
            if let Some(kept) = cut_at_sentence(&text, within(chars)) {
                prop_assert!(text.starts_with(kept));
                prop_assert!(kept.chars().count() <= chars);
            }
        }

        #[test]
        fn a_cut_middle_is_no_longer_than_asked_and_keeps_both_ends(text in "\\PC{0,80}", chars in 3usize..60) {
            let cut = cut_middle(&text, chars, "…");
            prop_assert!(cut.chars().count() <= chars.max(1));
        }
    }
}
