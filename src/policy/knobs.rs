//! Every knob by its name: what it may be, and where it stands in the policies.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::harness::whole;
use super::settings::{Clamp, SettingsError};
use super::{BreakerPolicy, ClearByClass, ClearOld, ModelPolicy, Policy, PolicyError, Retain, TrimPolicy};
use crate::session::Route;

/// The largest whole number that every JSON reader keeps exactly.
const MOST: u64 = (1 << 53) - 1;
/// The knobs that a single route can have of its own.
const OF_ROUTES: [&str; 7] = [
    "threshold_ratio",
    "retain_ratio",
    "retain_tokens",
    "summarizer",
    "max_tokens",
    "compaction_retries",
    "overflow_retries",
];

/// What a knob may be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Switch,
    Count {
        least: u64,
        most: u64,
    },
    /// From 0, or null.
    CountOrNull {
        most: u64,
    },
    /// More than 0 and at most 1. Zero is out of bounds and no number is nearest to it, so `least` says what is taken for less.
    Ratio {
        least: f64,
    },
    /// As `Ratio`, or null.
    RatioOrNull {
        least: f64,
    },
    /// From 0 to 0.5.
    Half,
    Choice(&'static [&'static str]),
    Text,
    /// Provider and model together, or null.
    RouteOrNull,
    /// A list of knobs for single routes.
    ModelPolicies,
}

type Read = fn(&Policy, &BreakerPolicy) -> Value;
/// Whether the value was one for this knob.
type Write = fn(&mut Policy, &mut BreakerPolicy, &Value) -> bool;

/// A knob of compaction: its name, what it does, its bounds, and where its value stands.
#[derive(Clone, Copy)]
pub struct Knob {
    name: &'static str,
    about: &'static str,
    kind: Kind,
    read: Read,
    write: Write,
}

impl std::fmt::Debug for Knob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Knob").field(&self.name).finish()
    }
}

impl PartialEq for Knob {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Knob {
    /// Every knob, in the order of a settings page.
    pub fn all() -> &'static [Knob] {
        KNOBS
    }

    /// The knob of a name, as it is written in Rust (`threshold_ratio`) or in JSON (`thresholdRatio`).
    pub fn named(name: &str) -> Option<&'static Knob> {
        KNOBS.iter().find(|knob| knob.name == name).or_else(|| Self::in_json(name))
    }

    /// The knob that a settings file calls by this name.
    pub(super) fn in_json(name: &str) -> Option<&'static Knob> {
        KNOBS.iter().find(|knob| knob.json_name() == name)
    }

    /// The knobs that a route can have of its own.
    pub(super) fn of_routes() -> impl Iterator<Item = &'static Knob> {
        OF_ROUTES.iter().filter_map(|name| Self::named(name))
    }

    /// Whether its value is a list of knobs for single routes.
    pub(super) fn is_of_routes(&self) -> bool {
        self.kind == Kind::ModelPolicies
    }

    /// Its name as the fields and the errors have it: `threshold_ratio`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its name in JSON: `thresholdRatio`.
    pub fn json_name(&self) -> String {
        let mut words = self.name.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |mut name, word| {
            let mut chars = word.chars();
            name.extend(chars.next().map(|c| c.to_ascii_uppercase()));
            name.push_str(chars.as_str());
            name
        })
    }

    /// What it does, in a sentence.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Its value in two policies, as JSON; null for off or for what the kit says.
    pub fn get(&self, policy: &Policy, breaker: &BreakerPolicy) -> Value {
        (self.read)(policy, breaker)
    }

    /// Writes a value that fits. Whether it was of the knob's type.
    pub(super) fn put(&self, policy: &mut Policy, breaker: &mut BreakerPolicy, value: &Value) -> bool {
        (self.write)(policy, breaker, value)
    }

    /// What a value must be, in words.
    pub fn bounds(&self) -> String {
        match self.kind {
            Kind::Switch => "true or false".into(),
            Kind::Count { least, most: MOST } => format!("a whole number of at least {least}"),
            Kind::Count { least, most } => format!("a whole number from {least} to {most}"),
            Kind::CountOrNull { most: MOST } => "a whole number of at least 0, or null".into(),
            Kind::CountOrNull { most } => format!("a whole number from 0 to {most}, or null"),
            Kind::Ratio { .. } => "more than 0 and at most 1".into(),
            Kind::RatioOrNull { .. } => "more than 0 and at most 1, or null".into(),
            Kind::Half => "a number from 0 to 0.5".into(),
            Kind::Choice(choices) => format!("one of {}", choices.join(", ")),
            Kind::Text => "a text".into(),
            Kind::RouteOrNull => "an object of provider and model, neither of them empty, or null".into(),
            Kind::ModelPolicies => "a list of objects, each with a route and the knobs that differ for it".into(),
        }
    }

    /// The value as the knob takes it: whole numbers written as such, a number outside the bounds moved to the nearest bound and
    /// added to the clamps. `place` is where it stands, as the errors name it.
    pub(super) fn fit(&self, place: &str, value: &Value, clamps: &mut Vec<Clamp>) -> Result<Value, SettingsError> {
        let bad = || bad_value(place, value, self.bounds());
        let fitted = match self.kind {
            Kind::CountOrNull { .. } | Kind::RatioOrNull { .. } | Kind::RouteOrNull if value.is_null() => {
                Some(Value::Null)
            }
            Kind::Switch => value.as_bool().map(Value::from),
            Kind::Text => value.as_str().map(Value::from),
            Kind::Choice(choices) => value.as_str().filter(|text| choices.contains(text)).map(Value::from),
            Kind::Count { least, most } => fit_count(value, least, most),
            Kind::CountOrNull { most } => fit_count(value, 0, most),
            Kind::Ratio { least } | Kind::RatioOrNull { least } => fit_number(value, |n| n > 0.0, least, 1.0),
            Kind::Half => fit_number(value, |n| n >= 0.0, 0.0, 0.5),
            Kind::RouteOrNull => fit_route(value),
            Kind::ModelPolicies => {
                let items = value.as_array().ok_or_else(bad)?;
                let fit = |(index, item)| fit_model_policy(&format!("{place}[{index}]"), item, clamps);
                return items.iter().enumerate().map(fit).collect::<Result<_, _>>().map(Value::Array);
            }
        };
        let fitted = fitted.ok_or_else(bad)?;
        if fitted != *value && fitted.as_f64() != value.as_f64() {
            clamps.push(Clamp { knob: place.into(), from: value.clone(), to: fitted.clone() });
        }
        Ok(fitted)
    }

    /// The JSON Schema of its values.
    pub fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Switch => json!({"type": "boolean"}),
            Kind::Count { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
            Kind::CountOrNull { most } => json!({"type": ["integer", "null"], "minimum": 0, "maximum": most}),
            Kind::Ratio { .. } => json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
            Kind::RatioOrNull { .. } => json!({"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1}),
            Kind::Half => json!({"type": "number", "minimum": 0, "maximum": 0.5}),
            Kind::Choice(choices) => json!({"type": "string", "enum": choices}),
            Kind::Text => json!({"type": "string"}),
            Kind::RouteOrNull => route_schema(&json!(["object", "null"])),
            Kind::ModelPolicies => {
                let route = ("route".to_owned(), route_schema(&json!("object")));
                let own = Self::of_routes().map(|knob| (knob.json_name(), knob.schema()));
                json!({
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": std::iter::once(route).chain(own).collect::<Map<_, _>>(),
                        "required": ["route"],
                        "additionalProperties": false,
                    },
                })
            }
        };
        if let Some(map) = schema.as_object_mut() {
            map.insert("description".into(), json!(self.about));
        }
        schema
    }
}

fn route_schema(types: &Value) -> Value {
    json!({
        "type": types,
        "properties": {"provider": {"type": "string", "minLength": 1}, "model": {"type": "string", "minLength": 1}},
        "required": ["provider", "model"],
        "additionalProperties": false,
    })
}

fn bad_value(knob: &str, value: &Value, bounds: String) -> SettingsError {
    SettingsError::BadValue { knob: knob.into(), value: value.to_string(), bounds }
}

fn fit_count(value: &Value, least: u64, most: u64) -> Option<Value> {
    if let Some(count) = whole(value) {
        return Some(json!(count.clamp(least, most)));
    }
    let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
    Some(json!(if number < 0.0 { least } else { most }))
}

fn fit_number(value: &Value, is_enough: fn(f64) -> bool, least: f64, most: f64) -> Option<Value> {
    let number = value.as_f64()?;
    Some(json!(if number > most {
        most
    } else if is_enough(number) {
        number
    } else {
        least
    }))
}

fn fit_route(value: &Value) -> Option<Value> {
    // A list of its fields would be read as a route, too.
    let route = Route::deserialize(value).ok().filter(|_| value.is_object())?;
    (!route.provider.is_empty() && !route.model.is_empty()).then(|| value.clone())
}

/// The knobs of one route, each fitted as it would be at the top.
fn fit_model_policy(place: &str, item: &Value, clamps: &mut Vec<Clamp>) -> Result<Value, SettingsError> {
    let map = item.as_object().ok_or_else(|| bad_value(place, item, "an object of a route and its knobs".into()))?;
    let (at, route) = (format!("{place}.route"), map.get("route").unwrap_or(&Value::Null));
    let bounds = "an object of provider and model, neither of them empty";
    let route = fit_route(route).ok_or_else(|| bad_value(&at, route, bounds.into()))?;
    let mut fitted = Map::from_iter([("route".to_owned(), route)]);
    for (name, value) in map.iter().filter(|(name, _)| *name != "route") {
        let known = || Knob::of_routes().map(Knob::json_name).collect::<Vec<_>>().join(", ");
        let knob = Knob::of_routes().find(|knob| knob.json_name() == *name).ok_or_else(|| {
            SettingsError::UnknownKnob { name: format!("{place}.{name}"), known: format!("route, {}", known()) }
        })?;
        fitted.insert(name.clone(), knob.fit(&format!("{place}.{}", knob.name), value, clamps)?);
    }
    let is_set = |name: &str| fitted.get(name).is_some_and(|value| !value.is_null());
    if is_set("retainRatio") && is_set("retainTokens") {
        let (first, second) = ("retain_ratio", "retain_tokens");
        return Err(PolicyError::Exclusive { scope: format!("{place}: "), first, second }.into());
    }
    Ok(Value::Object(fitted))
}

/// The two knobs of what is retained, and how [`Retain`] calls them.
const RETAIN: [(&str, &str); 2] = [("retainRatio", "ratio"), ("retainTokens", "tokens")];

/// A model policy from its knobs.
fn read_model_policy(item: &Value) -> Option<ModelPolicy> {
    let mut map = item.as_object()?.clone();
    for (knob, tag) in RETAIN {
        if let Some(value) = map.remove(knob).filter(|value| !value.is_null()) {
            map.insert("retain".into(), json!({tag: value}));
        }
    }
    ModelPolicy::deserialize(Value::Object(map)).ok()
}

/// A model policy as its knobs.
fn write_model_policy(policy: &ModelPolicy) -> Value {
    let mut item = json!(policy);
    if let Some(map) = item.as_object_mut()
        && let Some(retain) = map.remove("retain")
    {
        for (knob, tag) in RETAIN {
            map.extend(retain.get(tag).map(|value| (knob.to_owned(), value.clone())));
        }
    }
    item
}

fn write<T: DeserializeOwned>(place: &mut T, value: &Value) -> bool {
    T::deserialize(value).map(|value| *place = value).is_ok()
}

/// Writes a field of a part that may be switched off: null switches it off, a value switches it on.
fn write_part<P: Default, T: DeserializeOwned>(
    part: &mut Option<P>,
    field: fn(&mut P) -> &mut T,
    value: &Value,
) -> bool {
    if value.is_null() {
        *part = None;
        return true;
    }
    write(field(part.get_or_insert_default()), value)
}

/// A knob that is a field of the policy.
macro_rules! field {
    ($name:ident, $kind:expr, $about:literal) => {
        Knob {
            name: stringify!($name),
            about: $about,
            kind: $kind,
            read: |policy, _| json!(policy.$name),
            write: |policy, _, value| write(&mut policy.$name, value),
        }
    };
}

/// The knobs that say how much is retained: one place, so that a value of the one takes that of the other away.
pub(super) const RETAINED: [&str; 2] = ["retain_ratio", "retain_tokens"];

/// The knobs of the parts of the pruner that may be switched off: null in one switches off the others with it, and a value switches
/// them on.
pub(super) const PARTS: [&[&str]; 2] = [
    &["prune_threshold_chars", "prune_head_chars", "prune_tail_chars"],
    &["keep_recent_tool_results", "min_micro_compact_tokens"],
];

/// A knob of a part of the pruner that may be switched off.
macro_rules! part {
    ($name:ident, $part:ident . $field:ident : $type:ty, $about:literal) => {
        Knob {
            name: stringify!($name),
            about: $about,
            kind: COUNT_OR_NULL,
            read: |policy, _| json!(policy.prune.$part.as_ref().map(|part| &part.$field)),
            write: |policy, _, value| write_part(&mut policy.prune.$part, |part: &mut $type| &mut part.$field, value),
        }
    };
}

/// A knob of the breaker.
macro_rules! breaker {
    ($name:ident, $kind:expr, $about:literal) => {
        Knob {
            name: stringify!($name),
            about: $about,
            kind: $kind,
            read: |_, breaker| json!(breaker.$name),
            write: |_, breaker, value| write(&mut breaker.$name, value),
        }
    };
}

const ANY_COUNT: Kind = Kind::Count { least: 0, most: MOST };
const PERCENT: Kind = Kind::Count { least: 0, most: 100 };
const TIMES: Kind = Kind::Count { least: 0, most: u32::MAX as u64 };
const COUNT_OR_NULL: Kind = Kind::CountOrNull { most: MOST };

static KNOBS: &[Knob] = &[
    field!(auto, Kind::Switch, "Whether automatic triggers do anything."),
    field!(threshold_ratio, Kind::Ratio { least: 0.2 }, "Share of the window at which compaction is due."),
    field!(headroom_tokens, ANY_COUNT, "Tokens kept free under the window beside the output reservation."),
    field!(reserve_output, Kind::Switch, "Whether the output reservation of the next request is kept free."),
    field!(output_reserve_cap_tokens, COUNT_OR_NULL, "The most that is kept free for output; null for no cap."),
    Knob {
        name: "retain_ratio",
        about: "Share of the window that stays verbatim, below the threshold; instead of retain_tokens.",
        kind: Kind::RatioOrNull { least: 0.01 },
        read: |policy, _| match policy.retain {
            Retain::Ratio(ratio) => json!(ratio),
            Retain::Tokens(_) => Value::Null,
        },
        write: |policy, _, value| {
            value.is_null() || value.as_f64().map(|ratio| policy.retain = Retain::Ratio(ratio)).is_some()
        },
    },
    Knob {
        name: "retain_tokens",
        about: "Tokens that stay verbatim; instead of retain_ratio.",
        kind: COUNT_OR_NULL,
        read: |policy, _| match policy.retain {
            Retain::Tokens(tokens) => json!(tokens),
            Retain::Ratio(_) => Value::Null,
        },
        write: |policy, _, value| {
            value.is_null() || value.as_u64().map(|tokens| policy.retain = Retain::Tokens(tokens)).is_some()
        },
    },
    field!(max_tokens, Kind::Count { least: 1, most: MOST }, "Output cap of the summary request, in tokens."),
    field!(
        keep_user_tokens,
        COUNT_OR_NULL,
        "Tokens of the person's own words quoted beside the summary; null for the kit's."
    ),
    field!(min_body_tokens, COUNT_OR_NULL, "Tokens that a summary's body needs at least; null for the kit's."),
    field!(pre_warm_percent, PERCENT, "Percent of the window at which a finished turn folds ahead of need; 0 is off."),
    field!(post_turn_percent, PERCENT, "Percent of the window at which a finished turn folds; 0 is off."),
    field!(absolute_token_limit, ANY_COUNT, "Tokens at which compaction is due whatever the window; 0 is off."),
    field!(
        budget_scope,
        Kind::Choice(&["thread", "turn"]),
        "Whether the pre-warm and post-turn levels look at the whole conversation or at what the turn added."
    ),
    field!(min_fold_tokens, ANY_COUNT, "A fold ahead of need that would free fewer tokens than this is not begun."),
    field!(
        summary_retries,
        Kind::CountOrNull { most: u32::MAX as u64 },
        "How often a summary that cannot be used is asked for again; null for the kit's."
    ),
    field!(
        compaction_retries,
        TIMES,
        "How often another fold is tried while the first left the conversation above its level."
    ),
    field!(overflow_retries, TIMES, "How often a request is repeated after recovery from its overflow."),
    field!(drop_oldest_retries, TIMES, "How often the oldest turn is left out of a summary request that is too large."),
    field!(checkpoint_prompt, Kind::Text, "Replaces the kit's instruction; empty keeps it."),
    field!(summarizer, Kind::RouteOrNull, "Who writes the summary; null for the model of the conversation."),
    Knob {
        name: "model_policies",
        about: "Knobs of single routes.",
        kind: Kind::ModelPolicies,
        read: |policy, _| policy.model_policies.iter().map(write_model_policy).collect(),
        write: |policy, _, value| {
            let items = value.as_array().and_then(|items| items.iter().map(read_model_policy).collect());
            items.map(|items| policy.model_policies = items).is_some()
        },
    },
    part!(prune_threshold_chars, trim.threshold_chars: TrimPolicy, "A result with more characters is trimmed; null trims nothing."),
    part!(prune_head_chars, trim.head_chars: TrimPolicy, "Characters that stay in front of the marker of a trimmed result."),
    part!(prune_tail_chars, trim.tail_chars: TrimPolicy, "Characters that stay behind the marker of a trimmed result."),
    part!(keep_recent_tool_results, clear_old.keep_recent_tool_results: ClearOld, "How many of the newest results stay when older ones are cleared; null clears none."),
    part!(min_micro_compact_tokens, clear_old.min_micro_compact_tokens: ClearOld, "Older results are cleared only where the whole pass frees as many tokens; null clears none."),
    Knob {
        name: "recent_file_limit",
        about: "How many of the files touched last are listed in a checkpoint; null for the kit's.",
        kind: COUNT_OR_NULL,
        read: |policy, _| json!(policy.recent_file_limit),
        write: |policy, _, value| write(&mut policy.recent_file_limit, value),
    },
    breaker!(
        auto_compact_failure_limit,
        TIMES,
        "Automatic failures in a row that stop the automatic path; 0 is never."
    ),
    breaker!(cool_down_ms, ANY_COUNT, "Milliseconds after which a stopped automatic path is tried once; 0 is never."),
    Knob {
        name: "idle_clear_ms",
        about: "Milliseconds without an answer after which results are cleared by class; 0 is off.",
        kind: ANY_COUNT,
        read: |policy, _| json!(policy.prune.idle_clear_ms),
        write: |policy, _, value| write(&mut policy.prune.idle_clear_ms, value),
    },
    field!(max_request_bytes, ANY_COUNT, "Bytes of JSON at which compaction is due; 0 is off."),
    Knob {
        name: "clear_by_class",
        about: "Whether old results are cleared by what their tool is for.",
        kind: Kind::Switch,
        read: |policy, _| json!(policy.prune.clear_by_class.is_some()),
        write: |policy, _, value| {
            let on = value.as_bool();
            if on == Some(true) {
                policy.prune.clear_by_class.get_or_insert_with(ClearByClass::default);
            } else {
                policy.prune.clear_by_class = None;
            }
            on.is_some()
        },
    },
    field!(
        verify_user_messages,
        Kind::Switch,
        "Whether a checkpoint's list of the person's messages is checked against the log."
    ),
    field!(fallback, Kind::Choice(&["none", "extractive"]), "Who writes a summary when no model answers."),
    field!(min_gain_ratio, Kind::Half, "Share of the total that an automatic fold must save."),
    field!(target_gap_ratio, Kind::Half, "How far under its level a fold must come, as a share of the window."),
];
