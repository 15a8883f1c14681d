//! Exact counts by the vocabularies of OpenAI, through `tiktoken-rs`, in slices.
//!
//! `tiktoken-rs` panics on about a million white-space characters in a row and is slow on long unbroken runs, so a long text is cut.
//! Its regular expression first splits a text into pieces, then each piece is encoded by itself. Between two pieces a cut changes
//! nothing; [`splits`] knows places where both expressions split whatever stands around. A piece that is longer than a slice is
//! encoded in overlapping windows. The merges of byte pairs depend on what is near, so that the tokens in the overlap are thrown
//! away, and the next window starts where the last trusted token ends.

use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton};

use super::TokenCounter;
use super::tally::Tally;

/// The longest text that is handed to `tiktoken-rs` at once.
const SLICE_BYTES: usize = 8 * 1024;

/// How much of a window that ends inside a piece is encoded only to know what stands before it. Four of the longest tokens.
const OVERLAP_BYTES: usize = 4 * MAX_TOKEN_BYTES;

/// The longest token of either vocabulary: 128 spaces.
const MAX_TOKEN_BYTES: usize = 128;

/// Counts the tokens of a vocabulary of OpenAI. Loads the vocabulary on first use, once for all counters of the process.
///
/// What looks like a special token, such as `<|endoftext|>`, is counted as the text it is. A text of up to 8 KiB is counted exactly.
/// Longer ones are too, unless a piece of more than 8 KiB is in them, such as a run of letters without a space; then the count may be
/// off by a token for each 8 KiB of that piece.
#[derive(Clone, Copy)]
pub struct Bpe {
    name: &'static str,
    core: fn() -> &'static CoreBPE,
    /// Whether white space at the end of a text is one piece even if there are line ends in it.
    joins_final_space: bool,
}

impl Bpe {
    /// The vocabulary of GPT-4o and later models.
    pub fn o200k() -> Self {
        Self { name: "o200k_base", core: o200k_base_singleton, joins_final_space: false }
    }

    /// The vocabulary of GPT-4 and GPT-3.5.
    pub fn cl100k() -> Self {
        Self { name: "cl100k_base", core: cl100k_base_singleton, joins_final_space: true }
    }

    fn tally(self, text: &str, limit: u64) -> Option<u64> {
        if text.len().div_ceil(MAX_TOKEN_BYTES) as u64 > limit {
            return None;
        }
        let mut tally = Tally::new(limit);
        let mut rest = text;
        while !rest.is_empty() {
            rest = self.slice(rest, &mut tally)?;
        }
        Some(tally.total())
    }

    /// Counts the beginning of a text, which is the beginning of a piece, and returns the rest.
    fn slice<'a>(self, rest: &'a str, tally: &mut Tally) -> Option<&'a str> {
        if rest.len() <= SLICE_BYTES {
            tally.add((self.core)().count_ordinary(rest))?;
            return Some("");
        }
        let window = head(rest, SLICE_BYTES);
        if let Some(at) = last_split(window) {
            return self.cut(rest, at, tally);
        }
        let solid = window.trim_end();
        if solid.is_empty() {
            return self.white_run(rest, tally);
        }
        if solid.len() == window.len() {
            let seam = self.seam(window, |at| resumable(window, at));
            tally.add(seam.tokens)?;
            return Some(tail(rest, seam.at));
        }
        // The window ends in white space that starts with a line end, or there would be a split. Punctuation takes the line ends
        // that follow it into its piece, letters do not.
        if !solid.chars().next_back().is_some_and(is_punctuation) {
            return self.cut(rest, solid.len(), tally);
        }
        let after = tail(rest, solid.len());
        let lines_end = solid.len() + (after.len() - after.trim_start_matches(LINE_ENDS).len());
        if lines_end <= window.len() {
            return self.cut(rest, lines_end, tally);
        }
        let seam = self.seam(window, |at| at > solid.len() || resumable(window, at));
        tally.add(seam.tokens)?;
        if seam.at <= solid.len() {
            return Some(tail(rest, seam.at));
        }
        self.white_piece(rest.get(seam.at..lines_end).unwrap_or_default(), tally)?;
        Some(tail(rest, lines_end))
    }

    fn cut<'a>(self, rest: &'a str, at: usize, tally: &mut Tally) -> Option<&'a str> {
        tally.add((self.core)().count_ordinary(head(rest, at)))?;
        Some(tail(rest, at))
    }

    /// Counts the white space at the beginning, as the expressions split it: a piece up to the last line end in it, a piece of the
    /// rest. A last blank before other text is left, because it may begin the piece of that text.
    fn white_run<'a>(self, rest: &'a str, tally: &mut Tally) -> Option<&'a str> {
        let after = rest.trim_start();
        let run = head(rest, rest.len() - after.len());
        if after.is_empty() && self.joins_final_space {
            self.white_piece(run, tally)?;
            return Some("");
        }
        let last = run.chars().next_back().filter(|last| !after.is_empty() && !LINE_ENDS.contains(last));
        let run = head(run, run.len() - last.map_or(0, char::len_utf8));
        let lines = run.rfind(LINE_ENDS).map_or(0, |at| at + 1);
        self.white_piece(head(run, lines), tally)?;
        self.white_piece(tail(run, lines), tally)?;
        Some(tail(rest, run.len()))
    }

    /// Counts white space that is one piece.
    fn white_piece(self, piece: &str, tally: &mut Tally) -> Option<()> {
        let mut rest = piece;
        while rest.len() > SLICE_BYTES {
            let slice = head(rest, SLICE_BYTES);
            let mut window = slice.to_owned();
            // A line end at its end makes one piece of the window too. The tokens that it changes are in the overlap.
            if piece.ends_with(LINE_ENDS) {
                window.push('\n');
            }
            let seam = self.seam(&window, |_| true);
            tally.add(seam.tokens)?;
            rest = tail(rest, seam.at.min(slice.len()));
        }
        tally.add((self.core)().count_ordinary(rest))
    }

    /// Where a window that ends inside a piece can be trusted up to: the end of the last token before the overlap that is no part of a
    /// character and suits the caller.
    fn seam(self, window: &str, suits: impl Fn(usize) -> bool) -> Seam {
        let core = (self.core)();
        let tokens = core.encode_ordinary(window);
        let mut whole = Seam { tokens: tokens.len(), at: window.len() };
        let mut at = window.len();
        for (index, token) in tokens.iter().enumerate().rev() {
            at = at.saturating_sub(core.decode_bytes(&[*token]).map_or(0, |bytes| bytes.len()));
            if at < window.len() / 2 {
                break;
            }
            if at + OVERLAP_BYTES > window.len() || !window.is_char_boundary(at) {
                continue;
            }
            if suits(at) {
                return Seam { tokens: index, at };
            }
            if whole.at == window.len() {
                whole = Seam { tokens: index, at };
            }
        }
        whole
    }
}

impl std::fmt::Debug for Bpe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Bpe").field(&self.name).finish()
    }
}

impl TokenCounter for Bpe {
    fn name(&self) -> &'static str {
        self.name
    }

    fn count(&self, text: &str) -> u64 {
        // There is no limit, so the tally never stops.
        self.tally(text, u64::MAX).unwrap_or(u64::MAX)
    }

    fn count_up_to(&self, text: &str, limit: u64) -> Option<u64> {
        self.tally(text, limit)
    }
}

/// Tokens of a window up to a byte.
struct Seam {
    tokens: usize,
    at: usize,
}

const LINE_ENDS: [char; 2] = ['\r', '\n'];

/// The longest beginning of at most so many bytes.
fn head(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn tail(text: &str, from: usize) -> &str {
    text.get(from..).unwrap_or_default()
}

/// The last place in a text where both expressions split.
fn last_split(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().rev();
    let (mut at, mut next) = chars.next()?;
    for (index, prev) in chars {
        if splits(prev, next) {
            return Some(at);
        }
        (at, next) = (index, prev);
    }
    None
}

/// Whether both expressions split between two characters, whatever is around them, and split the text before them the same way when
/// it ends there. Says no where it does not know.
///
/// That holds for o200k and cl100k because of these properties of their pieces. A blank can only begin a piece or follow white space.
/// After line ends nothing is in the same piece but white space and, after punctuation, `/`. Digits stand in pieces of their own.
/// Letters are followed in their piece by letters, marks and, after an apostrophe, by a contraction. Behind a blank nothing is sure,
/// because white space at the end of a text is split differently.
fn splits(prev: char, next: char) -> bool {
    if next.is_whitespace() {
        return if LINE_ENDS.contains(&next) {
            is_letter(prev) || prev.is_ascii_digit()
        } else {
            !prev.is_whitespace()
        };
    }
    if prev.is_whitespace() {
        return LINE_ENDS.contains(&prev) && next != '/';
    }
    match (prev.is_ascii_digit(), next.is_ascii_digit()) {
        (true, true) => false,
        (true, false) => is_letter(next) || is_punctuation(next),
        (false, true) => is_letter(prev) || is_punctuation(prev),
        (false, false) => is_letter(prev) && is_punctuation(next) && next != '\'',
    }
}

/// Whether a character is surely a letter. The standard library knows alphabetic characters, and not all of those are letters to
/// the expressions, so these are ranges that hold nothing else.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
        || matches!(c,
            'À'..='Ö' | 'Ø'..='ö' | 'ø'..='ÿ' | 'А'..='я' | 'ぁ'..='ゖ' | 'ァ'..='ヺ' | '一'..='鿋' | '가'..='힣')
}

/// Whether a character is surely neither letter, digit, mark nor white space, and common enough to be asked for.
fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || matches!(c, '、' | '。' | '「' | '」' | '！' | '（' | '）' | '，' | '：' | '；' | '？')
}

/// Whether the text from a byte on is split as it is when the text before is there too. The byte is the end of a token.
fn resumable(text: &str, at: usize) -> bool {
    let mut before = head(text, at).chars().rev();
    let mut after = tail(text, at).chars();
    let (Some(prev), Some(next), Some(second)) = (before.next(), after.next(), after.next()) else {
        return false;
    };
    // A contraction must not be torn from its apostrophe, nor that from its word.
    if [Some(prev), Some(next), before.next()].contains(&Some('\'')) || next.is_whitespace() {
        return false;
    }
    if next.is_numeric() {
        // Digits are split in threes from the first.
        return head(text, at).chars().rev().take_while(|c| c.is_numeric()).count() % 3 == 0;
    }
    // A single sign before a letter belongs to the letter.
    next.is_alphanumeric() || !second.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_is_longer_than_assumed() {
        for bpe in [Bpe::o200k(), Bpe::cl100k()] {
            let core = (bpe.core)();
            let longest =
                (0..200_000).filter_map(|token| core.decode_bytes(&[token]).ok()).map(|bytes| bytes.len()).max();
            assert_eq!(longest, Some(MAX_TOKEN_BYTES), "{bpe:?}");
        }
    }

    /// Every sure split is tried between all sorts of surroundings: the counts of both sides must add up to that of the whole.
    #[test]
    fn a_sure_split_changes_no_count() {
        let contexts = [
            "", " ", "  ", "\n", " \n ", "\t", "a", "aB", "é", "'", "'s", "!", "!\n", "\n/", "12", "字", "。",
            "\u{301}",
        ];
        let marks: Vec<char> = " \t\n\r\u{a0}\u{3000}/'!(a Sr1٣éя字の한。，\u{301}😀ǅªⅣ".chars().collect();
        let mut splits_seen = 0;
        for bpe in [Bpe::o200k(), Bpe::cl100k()] {
            let core = (bpe.core)();
            for prev in &marks {
                for next in marks.iter().filter(|next| splits(*prev, **next)) {
                    for before in contexts {
                        for after in contexts {
                            let left = format!("{before}{prev}");
                            let right = format!("{next}{after}");
                            let whole = core.encode_ordinary(&format!("{left}{right}"));
                            let parts = [core.encode_ordinary(&left), core.encode_ordinary(&right)].concat();
                            assert_eq!(whole, parts, "{bpe:?} {left:?} | {right:?}");
                            splits_seen += 1;
                        }
                    }
                }
            }
        }
        assert!(splits_seen > 100_000, "{splits_seen}");
    }
}
