//! The knobs of the built-in presets, column by column.

use super::{BreakerPolicy, ClearByClass, ClearOld, Policy, PrunePolicy, TrimPolicy};

impl Policy {
    /// The column `standard`: the default.
    pub fn standard() -> Self {
        Self::default()
    }

    /// The column `arya-standard`.
    pub fn arya_standard() -> Self {
        Self {
            threshold_ratio: 0.9,
            headroom_tokens: 16_000,
            reserve_output: true,
            output_reserve_cap_tokens: Some(64_000),
            max_tokens: 20_000,
            keep_user_tokens: Some(20_000),
            pre_warm_percent: 70,
            post_turn_percent: 90,
            min_fold_tokens: 4_000,
            summary_retries: Some(1),
            drop_oldest_retries: 2,
            ..Self::default()
        }
    }

    /// The column `arya-qwen`.
    pub fn arya_qwen() -> Self {
        let prune = PrunePolicy { clear_by_class: Some(ClearByClass::default()), ..PrunePolicy::default() };
        Self { keep_user_tokens: Some(0), min_body_tokens: Some(800), prune, ..Self::arya_standard() }
    }

    /// The column `arya-claude`.
    pub fn arya_claude() -> Self {
        let prune = PrunePolicy { clear_old: Some(ClearOld::default()), ..PrunePolicy::default() };
        Self {
            threshold_ratio: 0.99,
            headroom_tokens: 13_000,
            keep_user_tokens: Some(0),
            min_body_tokens: Some(600),
            pre_warm_percent: 0,
            post_turn_percent: 0,
            min_fold_tokens: 0,
            recent_file_limit: Some(5),
            prune,
            ..Self::arya_standard()
        }
    }

    /// The column `arya-automation`.
    pub fn arya_automation() -> Self {
        let trim =
            TrimPolicy { threshold_chars: 16_384, head_chars: 8_192, tail_chars: 2_048, ..TrimPolicy::default() };
        Self {
            keep_user_tokens: Some(12_000),
            pre_warm_percent: 65,
            post_turn_percent: 85,
            min_fold_tokens: 6_000,
            prune: PrunePolicy::trimming(trim),
            ..Self::arya_standard()
        }
    }
}

impl BreakerPolicy {
    /// The column `arya-claude`: three failures in a row. The other columns have no breaker, which is the default.
    pub fn arya_claude() -> Self {
        Self { auto_compact_failure_limit: 3, ..Self::default() }
    }
}
