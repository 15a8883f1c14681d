//! Counting the tokens of a text.

#[cfg(feature = "tiktoken")]
mod bpe;
mod class_aware;
#[cfg(feature = "bpe")]
mod linear_bpe;
mod tally;

use std::sync::Arc;

use crate::message::json::utf16_len;

#[cfg(feature = "tiktoken")]
pub use bpe::Bpe;
pub use class_aware::ClassAware;
#[cfg(feature = "bpe")]
pub use linear_bpe::LinearBpe;

/// The counter to take when nothing is known of the model: `Bpe` with `o200k_base` where the feature `tiktoken` is on, and
/// [`ClassAware`] otherwise.
pub fn default_counter() -> Arc<dyn TokenCounter> {
    #[cfg(feature = "tiktoken")]
    return Arc::new(Bpe::o200k());
    #[cfg(not(feature = "tiktoken"))]
    return Arc::new(ClassAware);
}

/// Counts tokens. The same counter serves trigger, cut, quotes and shrink guard, so that their figures can be compared.
pub trait TokenCounter: Send + Sync {
    /// A short name for reports, such as `harness-heuristic`.
    fn name(&self) -> &str;

    /// Number of tokens of a text.
    fn count(&self, text: &str) -> u64;

    /// Number of tokens of a text, or none as soon as there are more than `limit`.
    fn count_up_to(&self, text: &str, limit: u64) -> Option<u64> {
        Some(self.count(text)).filter(|count| *count <= limit)
    }
}

/// The harness's fixed-density estimate: four UTF-16 code units are a token, rounded up.
#[derive(Debug, Clone, Copy, Default)]
pub struct HarnessHeuristic;

/// UTF-16 code units that the harness takes for a token.
const UNITS_PER_TOKEN: u64 = 4;

impl TokenCounter for HarnessHeuristic {
    fn name(&self) -> &'static str {
        "harness-heuristic"
    }

    fn count(&self, text: &str) -> u64 {
        utf16_len(text).div_ceil(UNITS_PER_TOKEN)
    }

    fn count_up_to(&self, text: &str, limit: u64) -> Option<u64> {
        // A character takes at least one unit for every three of its bytes.
        if (text.len() as u64).div_ceil(3).div_ceil(UNITS_PER_TOKEN) > limit {
            return None;
        }
        Some(self.count(text)).filter(|count| *count <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_code_units_are_a_token_rounded_up() {
        for (text, tokens) in
            [("", 0), ("x", 1), ("xxxx", 1), ("xxxxx", 2), ("😀😀", 1), ("😀😀😀", 2), ("数数数数数", 2)]
        {
            assert_eq!(HarnessHeuristic.count(text), tokens, "{text}");
            assert_eq!(HarnessHeuristic.count_up_to(text, tokens), Some(tokens));
            assert_eq!(tokens.checked_sub(1).and_then(|limit| HarnessHeuristic.count_up_to(text, limit)), None);
        }
    }
}
