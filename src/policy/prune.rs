//! What may be reduced without a model, and when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tools::{ToolClass, ToolTable};
use super::{PolicyError, TrimPolicy, bound};

/// Clears the bodies of old results, whatever tool they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClearOld {
    /// How many of the newest clearable results stay.
    pub keep_recent_tool_results: usize,
    /// The whole pass, trimming included, must free this many tokens, or nothing is cleared.
    pub min_micro_compact_tokens: u64,
}

impl Default for ClearOld {
    /// 12 results and 20,000 tokens.
    fn default() -> Self {
        Self { keep_recent_tool_results: 12, min_micro_compact_tokens: 20_000 }
    }
}

/// Clears the bodies of old results by what their tool is for. Results of class `other` are never cleared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClearByClass {
    /// How many of the newest clearable results stay, over all classes.
    pub keep_recent: usize,
    /// How many of the newest clearable results of a class stay, for classes that differ.
    pub keep_recent_by_class: BTreeMap<ToolClass, usize>,
    /// Clearing begins when the clearable results hold more characters than this, and stops at half of it, so that the
    /// provider's cached prefix is not rewritten at every step.
    pub trigger_chars: usize,
}

impl Default for ClearByClass {
    /// Qwen Code's 5 results and 500,000 characters.
    fn default() -> Self {
        Self { keep_recent: 5, keep_recent_by_class: BTreeMap::new(), trigger_chars: 500_000 }
    }
}

impl ClearByClass {
    /// Checks that there is a size at which clearing begins.
    pub fn validate(&self) -> Result<(), PolicyError> {
        bound(self.trigger_chars > 0, "prune.clear_by_class.trigger_chars", &self.trigger_chars, "at least 1")
    }
}

/// Everything that the pruner may do. The default trims and clears nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PrunePolicy {
    /// Trims long results; none for no trimming.
    pub trim: Option<TrimPolicy>,
    /// Clears old results; none for off.
    pub clear_old: Option<ClearOld>,
    /// Clears by the class of the tool; none for off.
    pub clear_by_class: Option<ClearByClass>,
    /// So long after the last answer of the model, results are cleared by class whatever their size, because the provider's cache
    /// is cold anyway; 0 is off.
    pub idle_clear_ms: u64,
    /// What tools are for.
    pub tools: ToolTable,
}

impl Default for PrunePolicy {
    fn default() -> Self {
        Self {
            trim: Some(TrimPolicy::default()),
            clear_old: None,
            clear_by_class: None,
            idle_clear_ms: 0,
            tools: ToolTable::default(),
        }
    }
}

impl PrunePolicy {
    /// A pruner that does nothing.
    pub fn off() -> Self {
        Self { trim: None, ..Self::default() }
    }

    /// A pruner that only trims.
    pub fn trimming(trim: TrimPolicy) -> Self {
        Self { trim: Some(trim), ..Self::default() }
    }

    /// Checks every knob; the first fault is returned.
    pub fn validate(&self) -> Result<(), PolicyError> {
        if let Some(trim) = &self.trim {
            trim.validate()?;
        }
        self.clear_by_class.as_ref().map_or(Ok(()), ClearByClass::validate)
    }
}
