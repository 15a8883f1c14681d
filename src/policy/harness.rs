//! The harness's configuration: its key names, its checks in its order, its budgets.

use serde_json::{Map, Value, json};

use super::{ModelPolicy, Policy, PolicyError, Retain, TrimPolicy, check_retain, ratio};
use crate::session::Route;

const SHARED_KEYS: [&str; 8] = [
    "thresholdRatio",
    "retainRatio",
    "retainTokens",
    "summarizationProvider",
    "summarizationModel",
    "maxTokens",
    "compactionRetries",
    "maxOverflowRetries",
];

/// The budgets that the harness derives for a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HarnessLevels {
    /// Tokens at which compaction is due.
    pub threshold_tokens: u64,
    /// Tokens of the newest conversation that stay.
    pub retain_tokens: u64,
}

impl Policy {
    /// Reads a configuration of the harness's engine. Everything out of shape is refused; nothing is clamped.
    pub fn from_harness_config(config: &Value) -> Result<Self, PolicyError> {
        let map = object("config", config)?;
        known_keys("", map, &[&SHARED_KEYS[..], &["modelPolicies", "auto"]].concat())?;
        let mut policy = Self::default();
        let shared = SharedKnobs::read("", map)?;
        policy.auto = match map.get("auto") {
            None => true,
            Some(Value::Bool(auto)) => *auto,
            Some(other) => return Err(wrong("auto", other, "true or false")),
        };
        policy.threshold_ratio = shared.threshold_ratio.unwrap_or(policy.threshold_ratio);
        policy.retain = shared.retain.unwrap_or(policy.retain);
        policy.max_tokens = shared.max_tokens.unwrap_or(policy.max_tokens);
        policy.compaction_retries = shared.compaction_retries.unwrap_or(policy.compaction_retries);
        policy.overflow_retries = shared.overflow_retries.unwrap_or(policy.overflow_retries);
        policy.summarizer = shared.summarizer.flatten();
        check_retain("", policy.retain, policy.threshold_ratio)?;
        let items = match map.get("modelPolicies") {
            None => &[][..],
            Some(Value::Array(items)) => items,
            Some(other) => return Err(wrong("modelPolicies", other, "a list")),
        };
        for (index, item) in items.iter().enumerate() {
            let own = read_model_policy(index, item)?;
            if policy.model_policies.iter().any(|earlier| earlier.route == own.route) {
                return Err(PolicyError::DuplicateRoute { route: own.route });
            }
            let threshold = own.threshold_ratio.unwrap_or(policy.threshold_ratio);
            check_retain(&scope(index), own.retain.unwrap_or(policy.retain), threshold)?;
            policy.model_policies.push(own);
        }
        Ok(policy)
    }

    /// The configuration in the harness's keys.
    pub fn to_harness_config(&self) -> Value {
        let policies: Vec<Value> = self.model_policies.iter().map(ModelPolicy::to_harness_config).collect();
        let mut map = Map::new();
        map.insert("thresholdRatio".into(), json!(self.threshold_ratio));
        write_retain(&mut map, self.retain);
        write_summarizer(&mut map, self.summarizer.as_ref());
        map.insert("maxTokens".into(), json!(self.max_tokens));
        map.insert("compactionRetries".into(), json!(self.compaction_retries));
        map.insert("maxOverflowRetries".into(), json!(self.overflow_retries));
        map.insert("modelPolicies".into(), policies.into());
        map.insert("auto".into(), json!(self.auto));
        Value::Object(map)
    }

    /// The budgets that the harness derives for a window: shares rounded down, and an error where the retained tail would not be
    /// smaller than the threshold.
    pub fn harness_levels(&self, route: &Route, window: i64) -> Result<HarnessLevels, PolicyError> {
        let window = u64::try_from(window)
            .ok()
            .filter(|window| *window > 0)
            .ok_or(PolicyError::WindowTooSmall { window: window.to_string(), least: 1 })?;
        let threshold_tokens = share_of(window, self.threshold_ratio);
        let retain_tokens = match self.retain {
            Retain::Ratio(ratio) => share_of(window, ratio),
            Retain::Tokens(tokens) => tokens,
        };
        if retain_tokens >= threshold_tokens {
            return Err(PolicyError::RetainNotBelowThreshold {
                scope: format!("{route}: "),
                retain: retain_tokens.to_string(),
                threshold: threshold_tokens.to_string(),
            });
        }
        Ok(HarnessLevels { threshold_tokens, retain_tokens })
    }
}

impl TrimPolicy {
    /// Reads a configuration of the harness's pruner. A null means the default.
    pub fn from_harness_config(config: &Value) -> Result<Self, PolicyError> {
        let map = object("config", config)?;
        known_keys("", map, &["thresholdChars", "headChars", "tailChars"])?;
        let default = Self::default();
        let read = |key: &str, default: usize, least: u64, bounds: &'static str| match map.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => whole(value)
                .filter(|n| *n >= least)
                .and_then(|n| usize::try_from(n).ok())
                .ok_or_else(|| wrong(key, value, bounds)),
        };
        let policy = Self {
            threshold_chars: read("thresholdChars", default.threshold_chars, 1, "an integer of at least 1")?,
            head_chars: read("headChars", default.head_chars, 0, "an integer of at least 0")?,
            tail_chars: read("tailChars", default.tail_chars, 0, "an integer of at least 0")?,
            marker: default.marker,
        };
        policy.validate()?;
        Ok(policy)
    }
}

impl ModelPolicy {
    fn to_harness_config(&self) -> Value {
        let mut map = Map::new();
        map.insert("provider".into(), json!(self.route.provider));
        map.insert("model".into(), json!(self.route.model));
        if let Some(ratio) = self.threshold_ratio {
            map.insert("thresholdRatio".into(), json!(ratio));
        }
        if let Some(retain) = self.retain {
            write_retain(&mut map, retain);
        }
        if let Some(summarizer) = &self.summarizer {
            write_summarizer(&mut map, summarizer.as_ref());
        }
        for (key, value) in [
            ("maxTokens", self.max_tokens),
            ("compactionRetries", self.compaction_retries.map(u64::from)),
            ("maxOverflowRetries", self.overflow_retries.map(u64::from)),
        ] {
            if let Some(value) = value {
                map.insert(key.into(), json!(value));
            }
        }
        Value::Object(map)
    }
}

/// A share of a window, rounded down as the harness rounds: in doubles.
pub(super) fn share_of(window: u64, ratio: f64) -> u64 {
    // A window that matters is far below 2^53, where the conversion is exact; the product is not negative.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let share = (window as f64 * ratio).floor() as u64;
    share
}

#[derive(Default)]
struct SharedKnobs {
    threshold_ratio: Option<f64>,
    retain: Option<Retain>,
    summarizer: Option<Option<Route>>,
    max_tokens: Option<u64>,
    compaction_retries: Option<u32>,
    overflow_retries: Option<u32>,
}

impl SharedKnobs {
    fn read(scope: &str, map: &Map<String, Value>) -> Result<Self, PolicyError> {
        let named = |key: &str| format!("{scope}{key}");
        let read_ratio = |key: &str| match map.get(key) {
            None => Ok(None),
            Some(value) => {
                let number = value.as_f64().ok_or_else(|| wrong(&named(key), value, "more than 0 and at most 1"))?;
                ratio(&named(key), number).map(|()| Some(number))
            }
        };
        let read_whole = |key: &str, least: u64, bounds: &'static str| match map.get(key) {
            None => Ok(None),
            Some(value) => {
                whole(value).filter(|n| *n >= least).map(Some).ok_or_else(|| wrong(&named(key), value, bounds))
            }
        };
        let read_count = |key: &str| {
            Ok(read_whole(key, 0, "an integer of at least 0")?.map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
        };
        let threshold_ratio = read_ratio("thresholdRatio")?;
        let retain = match (read_ratio("retainRatio")?, read_whole("retainTokens", 0, "an integer of at least 0")?) {
            (Some(_), Some(_)) => {
                return Err(PolicyError::Exclusive {
                    scope: scope.into(),
                    first: "retainRatio",
                    second: "retainTokens",
                });
            }
            (Some(ratio), None) => Some(Retain::Ratio(ratio)),
            (None, Some(tokens)) => Some(Retain::Tokens(tokens)),
            (None, None) => None,
        };
        Ok(Self {
            threshold_ratio,
            retain,
            summarizer: read_summarizer(scope, map)?,
            max_tokens: read_whole("maxTokens", 1, "an integer of at least 1")?,
            compaction_retries: read_count("compactionRetries")?,
            overflow_retries: read_count("maxOverflowRetries")?,
        })
    }
}

fn read_summarizer(scope: &str, map: &Map<String, Value>) -> Result<Option<Option<Route>>, PolicyError> {
    let text = |key: &str| match map.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(wrong(&format!("{scope}{key}"), other, "a text")),
    };
    match (text("summarizationProvider")?, text("summarizationModel")?) {
        (None, None) => Ok(None),
        (Some(""), Some("")) => Ok(Some(None)),
        (Some(provider), Some(model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(Some(Some(Route::new(provider, model))))
        }
        (provider, model) => Err(PolicyError::OutOfBounds {
            knob: format!("{scope}summarizationProvider, summarizationModel"),
            value: format!("{provider:?}, {model:?}"),
            bounds: "set together, both empty or neither",
        }),
    }
}

fn read_model_policy(index: usize, item: &Value) -> Result<ModelPolicy, PolicyError> {
    let map = object(&format!("modelPolicies[{index}]"), item)?;
    let scope = scope(index);
    known_keys(&scope, map, &[&SHARED_KEYS[..], &["provider", "model"]].concat())?;
    let name = |key: &str| match map.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        other => Err(wrong(&format!("{scope}{key}"), other.unwrap_or(&Value::Null), "a text that is not empty")),
    };
    let route = Route { provider: name("provider")?, model: name("model")? };
    let shared = SharedKnobs::read(&scope, map)?;
    Ok(ModelPolicy {
        route,
        threshold_ratio: shared.threshold_ratio,
        retain: shared.retain,
        summarizer: shared.summarizer,
        max_tokens: shared.max_tokens,
        compaction_retries: shared.compaction_retries,
        overflow_retries: shared.overflow_retries,
    })
}

fn write_retain(map: &mut Map<String, Value>, retain: Retain) {
    match retain {
        Retain::Ratio(ratio) => map.insert("retainRatio".into(), json!(ratio)),
        Retain::Tokens(tokens) => map.insert("retainTokens".into(), json!(tokens)),
    };
}

fn write_summarizer(map: &mut Map<String, Value>, summarizer: Option<&Route>) {
    map.insert("summarizationProvider".into(), json!(summarizer.map_or("", |route| &route.provider)));
    map.insert("summarizationModel".into(), json!(summarizer.map_or("", |route| &route.model)));
}

fn scope(index: usize) -> String {
    format!("modelPolicies[{index}]: ")
}

fn object<'a>(what: &str, value: &'a Value) -> Result<&'a Map<String, Value>, PolicyError> {
    value.as_object().ok_or_else(|| wrong(what, value, "an object"))
}

fn known_keys(scope: &str, map: &Map<String, Value>, known: &[&str]) -> Result<(), PolicyError> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(PolicyError::UnknownKey { scope: scope.into(), key: key.clone(), known: known.join(", ") }),
    }
}

/// A whole number, however it is written: JavaScript does not tell 1 from 1.0.
pub(super) fn whole(value: &Value) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    value.as_u64().or_else(|| {
        value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(n)).map(|n| n as u64)
    })
}

fn wrong(knob: &str, value: &Value, bounds: &'static str) -> PolicyError {
    PolicyError::OutOfBounds { knob: knob.into(), value: value.to_string(), bounds }
}
