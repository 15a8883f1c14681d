//! Exact counts by the vocabularies of OpenAI, through `bpe-openai`.

use bpe_openai::{Tokenizer, cl100k_base, o200k_base};

use super::TokenCounter;
use super::tally::Tally;

/// Counts the tokens of a vocabulary of OpenAI in time that grows with the length of the text, whatever is in it. Loads the vocabulary
/// on first use, once for all counters of the process.
///
/// Gives the figures of `tiktoken-rs`, and counts what looks like a special token as the text it is.
#[derive(Clone, Copy)]
pub struct LinearBpe {
    name: &'static str,
    tokenizer: fn() -> &'static Tokenizer,
    /// Whether white space at the end of a text is one piece even if there are line ends in it. It is for `tiktoken-rs`, while
    /// `bpe-openai` splits it as everywhere else.
    joins_final_space: bool,
}

impl LinearBpe {
    /// The vocabulary of GPT-4o and later models.
    pub fn o200k() -> Self {
        Self { name: "o200k_base/linear", tokenizer: o200k_base, joins_final_space: false }
    }

    /// The vocabulary of GPT-4 and GPT-3.5.
    pub fn cl100k() -> Self {
        Self { name: "cl100k_base/linear", tokenizer: cl100k_base, joins_final_space: true }
    }

    fn tally(self, text: &str, limit: u64) -> Option<u64> {
        let tokenizer = (self.tokenizer)();
        let mut tally = Tally::new(limit);
        let mut space_from = 0;
        let mut at = 0;
        for piece in tokenizer.split(text) {
            at += piece.len();
            let is_space = self.joins_final_space && piece.chars().all(char::is_whitespace);
            if is_space && text.get(at..).unwrap_or_default().trim_start().is_empty() {
                break;
            }
            tally.add(tokenizer.bpe.count(piece.as_bytes()))?;
            space_from = at;
        }
        let space = text.get(space_from..).unwrap_or_default();
        if !space.is_empty() {
            tally.add(tokenizer.bpe.count(space.as_bytes()))?;
        }
        Some(tally.total())
    }
}

impl std::fmt::Debug for LinearBpe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LinearBpe").field(&self.name).finish()
    }
}

impl TokenCounter for LinearBpe {
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
