//! When a conversation is compacted and how much of it stays.
//!
//! Owns every knob with its default and bounds, the window arithmetic, and what a host knows at the moment of a check. Performs
//! nothing.

mod background;
mod columns;
mod harness;
mod knobs;
mod prune;
mod rules;
mod settings;
mod situation;
mod tools;
mod window;

use serde::{Deserialize, Serialize};

use crate::session::Route;

pub use background::{BackgroundTable, BackgroundTool, EndingTool};
pub use harness::HarnessLevels;
pub use knobs::Knob;
pub use prune::{ClearByClass, ClearOld, PrunePolicy};
pub use rules::{CutRule, RuleSet, Rules, Stability};
pub use settings::{AppliedSettings, Clamp, PolicyService, Settings, SettingsError};
pub use situation::{Situation, Unsent, Window, WindowOrigin};
pub use tools::{ToolClass, ToolEntry, ToolTable};
pub use window::{Due, Level, Levels, Plan};

/// A knob that cannot be as it is.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A value outside its bounds.
    #[error("{knob} is {value}; it must be {bounds}")]
    OutOfBounds {
        /// The knob.
        knob: String,
        /// Its value.
        value: String,
        /// What would be right.
        bounds: &'static str,
    },
    /// A key that no knob has.
    #[error("{scope}unknown key {key:?}; known are {known}")]
    UnknownKey {
        /// Where it was found; empty at the top.
        scope: String,
        /// The key.
        key: String,
        /// The known keys.
        known: String,
    },
    /// Two knobs that exclude each other.
    #[error("{scope}{first} and {second} exclude each other; set one of them")]
    Exclusive {
        /// Where they were found; empty at the top.
        scope: String,
        /// One knob.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// The retained tail would not be smaller than the trigger.
    #[error("{scope}what is retained ({retain}) must be less than the threshold ({threshold})")]
    RetainNotBelowThreshold {
        /// Where it was found; empty at the top.
        scope: String,
        /// What would be retained.
        retain: String,
        /// The threshold.
        threshold: String,
    },
    /// Two policies for one route.
    #[error("model_policies lists {route} twice")]
    DuplicateRoute {
        /// The route.
        route: Route,
    },
    /// A window that no arithmetic fits.
    #[error("the context window is {window} tokens; it must be at least {least}")]
    WindowTooSmall {
        /// The window.
        window: String,
        /// The least that works.
        least: u64,
    },
    /// The window of the route is not known, and the rules demand it.
    #[error("the context window of {route} is not known; state it in the situation")]
    WindowUnknown {
        /// The route.
        route: String,
    },
}

impl PolicyError {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OutOfBounds { .. } => "out-of-bounds",
            Self::UnknownKey { .. } => "unknown-key",
            Self::Exclusive { .. } => "exclusive",
            Self::RetainNotBelowThreshold { .. } => "retain-not-below-threshold",
            Self::DuplicateRoute { .. } => "duplicate-route",
            Self::WindowTooSmall { .. } => "window-too-small",
            Self::WindowUnknown { .. } => "window-unknown",
        }
    }
}

/// How much of the newest conversation stays verbatim.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Retain {
    /// A share of the window, in (0, 1] and below the threshold.
    Ratio(f64),
    /// Tokens.
    Tokens(u64),
}

/// What the pre-warm and post-turn levels are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BudgetScope {
    /// The whole conversation.
    #[default]
    Thread,
    /// What was added since the first step of the current turn. The window's trigger stands beside it.
    Turn,
}

/// Who writes a summary when no model answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fallback {
    /// Nobody: the compaction fails and the conversation stays as it is.
    #[default]
    None,
    /// The summariser that needs no model.
    Extractive,
}

/// When a breaker stops the automatic path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BreakerPolicy {
    /// Automatic failures in a row that open it; 0 is never.
    pub auto_compact_failure_limit: u32,
    /// Milliseconds after which an open breaker lets one attempt through; 0 is never.
    pub cool_down_ms: u64,
}

/// Budgets of the trim pruner, in characters (Unicode scalar values).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TrimPolicy {
    /// A result with more characters of text than this is trimmed; at least head, marker and tail together.
    pub threshold_chars: usize,
    /// Characters that stay in front of the marker.
    pub head_chars: usize,
    /// Characters that stay behind the marker.
    pub tail_chars: usize,
    /// What stands where the middle was.
    pub marker: String,
}

impl Default for TrimPolicy {
    /// The harness's 8,192, 4,096 and 1,024.
    fn default() -> Self {
        let marker = "\n\n[... middle cut. Whole in log. ...]\n\n".into();
        Self { threshold_chars: 8_192, head_chars: 4_096, tail_chars: 1_024, marker }
    }
}

/// Knobs for one route that differ from the others'.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelPolicy {
    /// The route, exactly.
    pub route: Route,
    /// See [`Policy::threshold_ratio`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ratio: Option<f64>,
    /// See [`Policy::retain`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain: Option<Retain>,
    /// See [`Policy::summarizer`]; an inner none means the routed model, whatever the other routes use.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub summarizer: Option<Option<Route>>,
    /// See [`Policy::max_tokens`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// See [`Policy::compaction_retries`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction_retries: Option<u32>,
    /// See [`Policy::overflow_retries`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow_retries: Option<u32>,
}

/// Tells a null, which clears, from an absent key, which inherits.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Route>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Every knob of compaction. The default is the column `standard`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// Whether automatic triggers do anything.
    pub auto: bool,
    /// Share of the window at which compaction is due, in (0, 1].
    pub threshold_ratio: f64,
    /// Tokens kept free under the window beside the output reservation.
    pub headroom_tokens: u64,
    /// Whether the output reservation of the next request is kept free.
    pub reserve_output: bool,
    /// The most that is kept free for output; none for no cap.
    pub output_reserve_cap_tokens: Option<u64>,
    /// How much of the newest conversation stays verbatim.
    pub retain: Retain,
    /// Output cap of the summary request, at least 1.
    pub max_tokens: u64,
    /// Share of the window at which the idle check after a turn folds ahead of need; 0 is off, and below `post_turn_percent`
    /// where both are on.
    pub pre_warm_percent: u8,
    /// Share of the window at which the idle check after a turn folds; 0 is off.
    pub post_turn_percent: u8,
    /// Tokens at which compaction is due whatever the window; 0 is off.
    pub absolute_token_limit: u64,
    /// Bytes of JSON at which compaction is due, over the messages, system prompt and tools of the next request; 0 is off.
    pub max_request_bytes: u64,
    /// What the pre-warm and post-turn levels are compared with.
    pub budget_scope: BudgetScope,
    /// A fold of the pre-warm level that would free fewer tokens than this is not begun.
    pub min_fold_tokens: u64,
    /// How often a summary that cannot be used is asked for again; none for the kit's.
    pub summary_retries: Option<u32>,
    /// How often the oldest turn is left out of a summary request that its summariser refuses as too large, before the request is
    /// cut into chunks.
    pub drop_oldest_retries: u32,
    /// Tokens of the person's own words beside the summary; none for the kit's. Kits without quotes take none.
    pub keep_user_tokens: Option<u64>,
    /// Tokens that a summary's body needs at least; none for the kit's.
    pub min_body_tokens: Option<u64>,
    /// How many of the files touched last are listed; none for the kit's.
    pub recent_file_limit: Option<usize>,
    /// Whether the section of the person's messages is checked against the log, in kits that have one.
    pub verify_user_messages: bool,
    /// Which tools start work that goes on by itself.
    pub background: BackgroundTable,
    /// How often another fold is tried while the first left the conversation above its level.
    pub compaction_retries: u32,
    /// How often a host should repeat a request after recovery from its overflow. The engine only reports it.
    pub overflow_retries: u32,
    /// Replaces the kit's instruction; empty for the kit's.
    pub checkpoint_prompt: String,
    /// Who writes the summary; none for the model of the conversation.
    pub summarizer: Option<Route>,
    /// Who writes it when no model answers.
    pub fallback: Fallback,
    /// The most characters that a whole checkpoint may have, frame and pinned request included; none for no limit beside tokens.
    pub max_checkpoint_chars: Option<usize>,
    /// Knobs of single routes.
    pub model_policies: Vec<ModelPolicy>,
    /// What may be reduced without a model.
    pub prune: PrunePolicy,
    /// An automatic or overflow fold must save this share of the total before it, in [0, 0.5].
    pub min_gain_ratio: f64,
    /// How far under its level, as a share of the window, a fold must come, in [0, 0.5], so that it is not due again at once.
    pub target_gap_ratio: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            auto: true,
            threshold_ratio: 0.8,
            headroom_tokens: 0,
            reserve_output: false,
            output_reserve_cap_tokens: None,
            retain: Retain::Ratio(0.16),
            max_tokens: 8_192,
            pre_warm_percent: 0,
            post_turn_percent: 0,
            absolute_token_limit: 0,
            max_request_bytes: 0,
            budget_scope: BudgetScope::Thread,
            min_fold_tokens: 0,
            summary_retries: None,
            drop_oldest_retries: 0,
            keep_user_tokens: None,
            min_body_tokens: None,
            recent_file_limit: None,
            verify_user_messages: true,
            background: BackgroundTable::default(),
            compaction_retries: 1,
            overflow_retries: 1,
            checkpoint_prompt: String::new(),
            summarizer: None,
            fallback: Fallback::None,
            max_checkpoint_chars: None,
            model_policies: Vec::new(),
            prune: PrunePolicy::default(),
            min_gain_ratio: 0.05,
            target_gap_ratio: 0.10,
        }
    }
}

impl Policy {
    /// Checks every knob; the first fault is returned.
    pub fn validate(&self) -> Result<(), PolicyError> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
    }

    /// Checks every knob and returns every fault.
    pub fn faults(&self) -> Vec<PolicyError> {
        let both = self.pre_warm_percent > 0 && self.post_turn_percent > 0;
        let mut checks = vec![
            ratio("threshold_ratio", self.threshold_ratio),
            check_retain("", self.retain, self.threshold_ratio),
            share("min_gain_ratio", self.min_gain_ratio),
            share("target_gap_ratio", self.target_gap_ratio),
            positive("max_tokens", self.max_tokens),
            bound(self.pre_warm_percent <= 100, "pre_warm_percent", &self.pre_warm_percent, "0 (off) to 100"),
            bound(self.post_turn_percent <= 100, "post_turn_percent", &self.post_turn_percent, "0 (off) to 100"),
            bound(
                !both || self.pre_warm_percent < self.post_turn_percent,
                "pre_warm_percent",
                &self.pre_warm_percent,
                "below post_turn_percent where both are on",
            ),
        ];
        checks.extend(self.prune.trim.as_ref().map(TrimPolicy::validate));
        checks.extend(self.prune.clear_by_class.as_ref().map(ClearByClass::validate));
        checks.extend(self.summarizer.as_ref().map(|route| check_route("summarizer", route)));
        for (index, policy) in self.model_policies.iter().enumerate() {
            checks.push(check_route(&format!("model_policies[{index}].route"), &policy.route));
            if self.model_policies.iter().take(index).any(|earlier| earlier.route == policy.route) {
                // The knobs of a route are looked up in the first of the two.
                checks.push(Err(PolicyError::DuplicateRoute { route: policy.route.clone() }));
                continue;
            }
            if let Some(Some(route)) = &policy.summarizer {
                checks.push(check_route(&format!("model_policies[{index}].summarizer"), route));
            }
            let resolved = self.for_route(&policy.route);
            if policy.threshold_ratio.is_some() {
                checks.push(ratio(&format!("model_policies[{index}].threshold_ratio"), resolved.threshold_ratio));
            }
            if policy.max_tokens.is_some() {
                checks.push(positive(&format!("model_policies[{index}].max_tokens"), resolved.max_tokens));
            }
            if policy.threshold_ratio.is_some() || policy.retain.is_some() {
                let scope = format!("model_policies[{index}]: ");
                checks.push(check_retain(&scope, resolved.retain, resolved.threshold_ratio));
            }
        }
        checks.into_iter().filter_map(Result::err).collect()
    }

    /// The knobs as they hold for a route: those of its model policy laid over the others.
    pub fn for_route(&self, route: &Route) -> Self {
        let mut policy = self.clone();
        if let Some(own) = self.model_policies.iter().find(|own| &own.route == route) {
            policy.threshold_ratio = own.threshold_ratio.unwrap_or(policy.threshold_ratio);
            policy.retain = own.retain.unwrap_or(policy.retain);
            policy.max_tokens = own.max_tokens.unwrap_or(policy.max_tokens);
            policy.compaction_retries = own.compaction_retries.unwrap_or(policy.compaction_retries);
            policy.overflow_retries = own.overflow_retries.unwrap_or(policy.overflow_retries);
            if let Some(summarizer) = &own.summarizer {
                policy.summarizer.clone_from(summarizer);
            }
        }
        policy.model_policies.clear();
        policy
    }
}

impl TrimPolicy {
    /// Checks that head, marker and tail fit under the threshold, so that a trimmed result is never trimmed again.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let kept = self
            .head_chars
            .checked_add(self.tail_chars)
            .and_then(|chars| chars.checked_add(self.marker.chars().count()));
        bound(
            kept.is_some_and(|kept| kept <= self.threshold_chars),
            "prune.trim.threshold_chars",
            &self.threshold_chars,
            "at least head_chars, marker and tail_chars together",
        )
    }
}

fn bound(holds: bool, knob: &str, value: &impl ToString, bounds: &'static str) -> Result<(), PolicyError> {
    if holds { Ok(()) } else { Err(PolicyError::OutOfBounds { knob: knob.into(), value: value.to_string(), bounds }) }
}

fn ratio(knob: &str, value: f64) -> Result<(), PolicyError> {
    bound(value > 0.0 && value <= 1.0, knob, &value, "more than 0 and at most 1")
}

fn share(knob: &str, value: f64) -> Result<(), PolicyError> {
    bound((0.0..=0.5).contains(&value), knob, &value, "0 to 0.5")
}

fn positive(knob: &str, value: u64) -> Result<(), PolicyError> {
    bound(value >= 1, knob, &value, "at least 1")
}

fn check_retain(scope: &str, retain: Retain, threshold: f64) -> Result<(), PolicyError> {
    match retain {
        Retain::Ratio(value) if !(value > 0.0 && value <= 1.0) => {
            let knob = if scope.is_empty() {
                "retain.ratio".into()
            } else {
                format!("{}.retain.ratio", scope.trim_end_matches(": "))
            };
            ratio(&knob, value)
        }
        Retain::Ratio(value) if value >= threshold => Err(PolicyError::RetainNotBelowThreshold {
            scope: scope.into(),
            retain: value.to_string(),
            threshold: threshold.to_string(),
        }),
        _ => Ok(()),
    }
}

fn check_route(knob: &str, route: &Route) -> Result<(), PolicyError> {
    bound(
        !route.provider.is_empty() && !route.model.is_empty(),
        knob,
        route,
        "a provider and a model, neither of them empty",
    )
}
