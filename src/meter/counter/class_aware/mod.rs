//! An estimate that knows what sort of text it counts.
//!
//! A text is taken apart much as the tokenizers of language models do it: words with the blank before them, digits in threes, runs of
//! punctuation with the line ends after them, white space. Each piece has a price by its script, its length and what is rare in it.
//! Encoded data needs no case of its own, because its pieces are short words with rare pairs of letters between digits. The prices
//! were fitted to `o200k_base` on source code, documentation in nine languages, logs and data.

mod tables;

use std::iter::Peekable;
use std::str::Chars;

use super::TokenCounter;
use super::tally::Tally;
use tables::{is_common_ideograph, is_rare_pair, repeats_log2};

/// Estimates tokens without a vocabulary, near to what `o200k_base` gives.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClassAware;

impl TokenCounter for ClassAware {
    fn name(&self) -> &'static str {
        "class-aware"
    }

    fn count(&self, text: &str) -> u64 {
        // There is no limit, so the tally never stops.
        estimate(text, u64::MAX).unwrap_or(u64::MAX)
    }

    fn count_up_to(&self, text: &str, limit: u64) -> Option<u64> {
        estimate(text, limit)
    }
}

/// A hundredth of a token, the unit of prices.
type Cents = usize;

/// The price of a token.
const TOKEN: Cents = 100;

fn estimate(text: &str, limit: u64) -> Option<u64> {
    let mut tally = Tally::new(limit.saturating_mul(TOKEN as u64));
    let mut pieces = Pieces { chars: text.chars().peekable(), lead: Lead::None };
    while let Some(price) = pieces.next_price() {
        tally.add(price)?;
    }
    Some(tally.total().div_ceil(TOKEN as u64))
}

/// What is taken into the piece of the word after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    None,
    Blank,
    Sign,
}

/// What a character is for the prices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    Digit,
    Latin,
    /// Letters and marks of a script that has words, at a price each.
    Script(Cents),
    Ideograph,
    Kana,
    Hangul,
    /// Letters that stand for themselves, at a price each.
    Single(Cents),
    Sign,
}

impl Class {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' => Self::Latin,
            '0'..='9' => Self::Digit,
            '\0'..='\x7f' if c.is_ascii_whitespace() || c == '\x0b' => Self::Space,
            '\0'..='\x7f' => Self::Sign,
            _ if c.is_whitespace() => Self::Space,
            _ if c.is_numeric() => Self::Digit,
            '\u{300}'..='\u{36f}' => Self::Single(TOKEN),
            '\u{80}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' if c.is_alphabetic() => Self::Latin,
            '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Self::Script(45),
            '\u{400}'..='\u{52f}' => Self::Script(22),
            '\u{530}'..='\u{5ff}' => Self::Script(40),
            '\u{600}'..='\u{10ff}' => Self::Script(37),
            '\u{1100}'..='\u{11ff}' => Self::Single(150),
            '\u{1200}'..='\u{139f}' => Self::Script(220),
            '\u{1780}'..='\u{17ff}' => Self::Script(60),
            '\u{3005}'..='\u{3007}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' => Self::Ideograph,
            '\u{3041}'..='\u{30ff}' => Self::Kana,
            '\u{3130}'..='\u{318f}' | '\u{ff66}'..='\u{ffdc}' | '\u{20000}'..='\u{3ffff}' => Self::Single(150),
            '\u{ac00}'..='\u{d7a3}' => Self::Hangul,
            _ if c.is_alphabetic() => Self::Single(if c.len_utf8() < 3 { TOKEN } else { 150 }),
            _ => Self::Sign,
        }
    }

    fn is_wide(self) -> bool {
        matches!(self, Self::Ideograph | Self::Kana)
    }
}

/// A letter that stands so often in a row is no part of a word.
const LONG_RUN: usize = 16;

struct Pieces<'a> {
    chars: Peekable<Chars<'a>>,
    lead: Lead,
}

impl Pieces<'_> {
    fn next_price(&mut self) -> Option<Cents> {
        let first = *self.chars.peek()?;
        let class = Class::of(first);
        let lead = std::mem::replace(&mut self.lead, Lead::None);
        Some(match class {
            Class::Space => self.space(),
            Class::Digit => self.digits(),
            Class::Sign => self.signs(lead),
            Class::Latin => self.word(lead),
            Class::Script(_) => self.script(lead),
            Class::Ideograph | Class::Kana => self.wide(lead),
            Class::Hangul => self.hangul(lead),
            Class::Single(price) => {
                self.chars.next();
                price
            }
        })
    }

    /// Line ends with the blanks between them, then blanks. The last blank belongs to what follows, or stands alone before a digit.
    fn space(&mut self) -> Cents {
        let (mut lines, mut changes) = (0, 0);
        // The blanks after the last line end: how many spaces they count for, and how often they change.
        let (mut width, mut blank_changes) = (0, 0);
        let mut last = None;
        while let Some(c) = self.chars.next_if(|c| c.is_whitespace()) {
            let is_change = last.is_some_and(|last| last != c) && (last, c) != (Some('\r'), '\n');
            if matches!(c, '\r' | '\n') {
                lines += 1;
                changes += usize::from(is_change) + blank_changes;
                (width, blank_changes) = (0, 0);
            } else {
                width += blank_width(c);
                blank_changes += usize::from(is_change);
            }
            last = Some(c);
        }
        let mut price = 0;
        if lines > 0 {
            price += TOKEN.max(40 * changes) + TOKEN * (lines / LINES_PER_TOKEN);
        }
        let follows = self.chars.peek().copied().map(Class::of);
        if let (Some(class), Some(last), true) = (follows, last, width > 0) {
            width -= blank_width(last);
            if class == Class::Digit {
                price += TOKEN;
            } else {
                self.lead = if last == ' ' { Lead::Blank } else { Lead::Sign };
            }
        }
        price + TOKEN * width.div_ceil(SPACES_PER_TOKEN)
    }

    /// ASCII digits are split in threes, and each three is a token. Other digits are tokens.
    fn digits(&mut self) -> Cents {
        let mut price = 0;
        let mut digits: usize = 0;
        while let Some(c) = self.chars.next_if(|c| Class::of(*c) == Class::Digit) {
            if c.is_ascii() {
                digits += 1;
            } else {
                price += TOKEN;
            }
        }
        price + TOKEN * digits.div_ceil(3)
    }

    /// A run of punctuation and symbols, with the line ends after it. A single sign right before a word belongs to the word.
    fn signs(&mut self, lead: Lead) -> Cents {
        let (mut price, mut length, mut runs, mut run) = (0, 0, 0, 0);
        let mut last = None;
        while let Some(c) = self.chars.next_if(|c| Class::of(*c) == Class::Sign) {
            length += 1;
            if !c.is_ascii() {
                price += symbol_price(c, last);
                last = Some(c);
                continue;
            }
            if last == Some(c) {
                run += 1;
                if run >= LONG_RUN && repeats_log2(c).is_some_and(|log2| run % (1 << log2) == 0) {
                    price += TOKEN;
                }
            } else {
                runs += 1;
                run = 1;
            }
            last = Some(c);
        }
        let follows = self.chars.peek().copied().map(Class::of);
        let is_joined = matches!(follows, Some(class) if !matches!(class, Class::Space | Class::Digit | Class::Sign));
        if length == 1 && lead == Lead::None && is_joined {
            self.lead = Lead::Sign;
            return price;
        }
        let mut lines = 0;
        while self.chars.next_if(|c| matches!(c, '\r' | '\n')).is_some() {
            lines += 1;
        }
        price += TOKEN * (lines / LINES_PER_TOKEN);
        match runs {
            0 => price,
            1 | 2 => price + TOKEN,
            _ => price + TOKEN + 48 * (runs.min(6) - 2) + 62 * runs.saturating_sub(6),
        }
    }

    /// A word in Latin script. It ends before a capital that follows a small letter.
    fn word(&mut self, lead: Lead) -> Cents {
        let (mut length, mut capitals, mut rare, mut foreign, mut run) = (0, 0, 0, 0, 0);
        let mut last: Option<char> = None;
        let mut starts_capital = false;
        while let Some(c) = self.chars.next_if(|c| {
            let ends = run >= LONG_RUN || (last.is_some_and(|last| !last.is_uppercase()) && c.is_uppercase());
            !ends && matches!(Class::of(*c), Class::Latin)
        }) {
            if last == Some(c) {
                run += 1;
            } else {
                run = 1;
            }
            length += 1;
            if c.is_uppercase() {
                capitals += 1;
                starts_capital |= length == 1;
            }
            foreign += usize::from(!c.is_ascii());
            rare += usize::from(last.is_some_and(|last| is_rare_pair(last, c)));
            last = Some(c);
        }
        if run >= LONG_RUN && run == length {
            return self.repeated(last, run);
        }
        let is_bare = lead != Lead::Blank;
        let mut price = 96 + rare * (if is_bare { 60 } else { 28 }) + foreign * 36;
        price += match (lead, length) {
            (Lead::Blank, _) | (Lead::None, 0..=2) => 0,
            (Lead::None, _) => 12,
            (Lead::Sign, 1) => 11,
            (Lead::Sign, _) => 30,
        };
        if length > 1 && capitals == length {
            price += 25 * (length - 2);
        } else {
            price += 6 * length.saturating_sub(4) + 19 * length.saturating_sub(9);
            if starts_capital && length > 1 {
                price += if is_bare { 34 } else { 9 };
            }
        }
        price.max(TOKEN)
    }

    /// The rest of a run of one letter.
    fn repeated(&mut self, letter: Option<char>, seen: usize) -> Cents {
        let Some(letter) = letter else {
            return TOKEN;
        };
        let mut run = seen;
        while self.chars.next_if_eq(&letter).is_some() {
            run += 1;
        }
        match repeats_log2(letter) {
            Some(log2) => TOKEN * (run >> log2),
            None => TOKEN * run,
        }
    }

    /// A word of a script with words.
    fn script(&mut self, lead: Lead) -> Cents {
        let (mut price, mut length, mut run) = (0, 0, 0);
        let mut last = None;
        while let Some(c) = self.chars.next_if(|c| matches!(Class::of(*c), Class::Script(_))) {
            length += 1;
            run = if last == Some(c) { run + 1 } else { 1 };
            last = Some(c);
            // Two letters are usually in the price of the word. A letter in a row with itself makes no word.
            price += match Class::of(c) {
                Class::Script(each) if run >= LONG_RUN => each.max(50),
                Class::Script(each) if each > TOKEN => each,
                Class::Script(each) if length > 2 => each,
                _ => 0,
            };
        }
        let bare = if lead == Lead::Blank || length < 3 { 0 } else { 70 };
        price + bare + TOKEN
    }

    /// Ideographs and kana, which stand without blanks between words.
    fn wide(&mut self, lead: Lead) -> Cents {
        let mut price = if lead == Lead::None { 15 } else { 105 };
        let (mut run, mut last) = (0, None);
        while let Some(c) = self.chars.next_if(|c| Class::of(*c).is_wide()) {
            run = if last == Some(c) { run + 1 } else { 1 };
            last = Some(c);
            price += match Class::of(c) {
                _ if run >= LONG_RUN => TOKEN,
                Class::Kana => 62,
                _ if is_common_ideograph(c) => 47,
                _ => 148,
            };
        }
        price.max(TOKEN)
    }

    /// A word of Hangul syllables.
    fn hangul(&mut self, lead: Lead) -> Cents {
        let mut price = if lead == Lead::Sign { 110 } else { 60 };
        let (mut run, mut last) = (0, None);
        while let Some(c) = self.chars.next_if(|c| Class::of(*c) == Class::Hangul) {
            run = if last == Some(c) { run + 1 } else { 1 };
            last = Some(c);
            price += if run >= LONG_RUN { TOKEN } else { 50 };
        }
        price
    }
}

/// Spaces that make one token.
const SPACES_PER_TOKEN: usize = 128;

/// For how many spaces a blank counts. Tabs and other blanks are tokens in shorter runs.
fn blank_width(c: char) -> usize {
    if c == ' ' { 1 } else { SPACES_PER_TOKEN / 16 }
}

/// Line ends that make one token.
const LINES_PER_TOKEN: usize = 16;

/// The price of a sign outside ASCII, after the sign before it in the same run.
fn symbol_price(c: char, last: Option<char>) -> Cents {
    let repeated = last == Some(c);
    match c {
        '\u{2500}'..='\u{259f}' | '…' | '—' | '–' | '·' | '•' | '★' | '☆' if repeated => 15,
        '\u{1f000}'..='\u{1faff}' => 160,
        _ if c.len_utf8() == 4 => 300,
        _ => TOKEN,
    }
}
