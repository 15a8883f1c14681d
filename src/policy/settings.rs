//! Settings: the knobs that somebody set, and how they move a preset's column.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::knobs::{PARTS, RETAINED};
use super::{BreakerPolicy, Knob, Policy, PolicyError, RuleSet};

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// Settings are an object of knobs.
    #[error("settings are {found}; they must be an object of knobs")]
    NoObject {
        /// What was found.
        found: String,
    },
    /// No knob has this name.
    #[error("no knob is called {name:?}; there are {known}")]
    UnknownKnob {
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// A value of another type, or outside the bounds where nothing is clamped.
    #[error("{knob} is {value}; it must be {bounds}")]
    BadValue {
        /// The knob, with its place where it stands among those of a route.
        knob: String,
        /// The value.
        value: String,
        /// What would be right.
        bounds: String,
    },
    /// The value is asked for as another type than it has.
    #[error("{knob} is {value}, which is not what it was asked for as")]
    OtherType {
        /// The knob.
        knob: &'static str,
        /// The value.
        value: String,
    },
    /// One knob switches a part of the pruner off, and another sets it.
    #[error("{off} is null, which switches off what {set} sets; leave one of them out")]
    SwitchedOff {
        /// The knob that is null.
        off: &'static str,
        /// The knob that is set.
        set: &'static str,
    },
    /// The knobs do not go together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl SettingsError {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoObject { .. } => "no-object",
            Self::UnknownKnob { .. } => "unknown-knob",
            Self::BadValue { .. } => "bad-value",
            Self::OtherType { .. } => "other-type",
            Self::SwitchedOff { .. } => "switched-off",
            Self::Policy(error) => error.code(),
        }
    }
}

/// A value that was outside its bounds, and the bound that is used instead.
#[derive(Debug, Clone, PartialEq)]
pub struct Clamp {
    /// The knob, with its place where it stands among those of a route.
    pub knob: String,
    /// What was set.
    pub from: Value,
    /// What is used.
    pub to: Value,
}

impl std::fmt::Display for Clamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} was {} and is taken as {}", self.knob, self.from, self.to)
    }
}

/// The knobs that somebody set. What is not set is what the preset's column says.
///
/// ```
/// use arya_presets::Settings;
///
/// let mut settings = Settings::default();
/// settings.set("threshold_ratio", 0.7)?;
/// assert_eq!(settings.get("threshold_ratio")?, Some(0.7));
/// assert_eq!(settings.get::<u64>("max_tokens")?, None);
/// # Ok::<(), arya_presets::SettingsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings(BTreeMap<&'static str, Value>);

impl Settings {
    /// Reads a settings file, whose keys are the JSON names of the knobs. Under [`RuleSet::Default`] a number outside its bounds is
    /// clamped and reported; wrong types and unknown knobs are refused. Under [`RuleSet::Harness`] everything is.
    pub fn from_json(value: &Value, rule_set: RuleSet) -> Result<(Self, Vec<Clamp>), SettingsError> {
        let map = value.as_object().ok_or_else(|| SettingsError::NoObject { found: value.to_string() })?;
        let (mut settings, mut clamps) = (Self::default(), Vec::new());
        for (name, value) in map {
            let knob = Knob::in_json(name).ok_or_else(|| unknown(name, Knob::json_name))?;
            let value = match rule_set {
                RuleSet::Default => knob.fit(knob.name(), value, &mut clamps)?,
                RuleSet::Harness => unclamped(knob, value)?,
            };
            settings.0.insert(knob.name(), value);
        }
        Ok((settings, clamps))
    }

    /// What was set, as a settings file holds it.
    pub fn to_json(&self) -> Value {
        let names = Knob::all().iter().filter_map(|knob| Some((knob.json_name(), self.0.get(knob.name())?.clone())));
        Value::Object(names.collect())
    }

    /// The value of a knob, if it is set.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, SettingsError> {
        let knob = knob(name)?;
        let Some(value) = self.0.get(knob.name()) else { return Ok(None) };
        let typed = T::deserialize(value);
        typed.map(Some).map_err(|_| SettingsError::OtherType { knob: knob.name(), value: value.to_string() })
    }

    /// Sets a knob, by either of its names. A value from code is never clamped: outside its bounds it is refused, and so is null,
    /// which is also what JSON makes of a number that is none; [`set_null`](Self::set_null) is for that.
    pub fn set(&mut self, name: &str, value: impl Serialize) -> Result<(), SettingsError> {
        let knob = knob(name)?;
        let value = serde_json::to_value(value).unwrap_or_default();
        let fitted = unclamped(knob, &value)?;
        if fitted.is_null() {
            let bounds = format!("{}; null itself is set by set_null", knob.bounds());
            return Err(SettingsError::BadValue { knob: knob.name().into(), value: value.to_string(), bounds });
        }
        self.0.insert(knob.name(), fitted);
        Ok(())
    }

    /// Sets a knob to null: off, or what the kit says. Refused for a knob that has no such value.
    pub fn set_null(&mut self, name: &str) -> Result<(), SettingsError> {
        let knob = knob(name)?;
        self.0.insert(knob.name(), unclamped(knob, &Value::Null)?);
        Ok(())
    }

    /// Unsets a knob, so that the preset's column holds again.
    pub fn unset(&mut self, name: &str) -> Result<(), SettingsError> {
        self.0.remove(knob(name)?.name());
        Ok(())
    }
}

fn knob(name: &str) -> Result<&'static Knob, SettingsError> {
    Knob::named(name).ok_or_else(|| unknown(name, |knob| knob.name().into()))
}

fn unknown(name: &str, known_as: fn(&Knob) -> String) -> SettingsError {
    let known: Vec<_> = Knob::all().iter().map(known_as).collect();
    SettingsError::UnknownKnob { name: name.into(), known: known.join(", ") }
}

/// The value as the knob takes it; one outside the bounds is refused.
fn unclamped(knob: &Knob, value: &Value) -> Result<Value, SettingsError> {
    let mut clamps = Vec::new();
    let fitted = knob.fit(knob.name(), value, &mut clamps)?;
    match clamps.into_iter().next() {
        None => Ok(fitted),
        Some(Clamp { knob: place, from, .. }) => {
            let inner = place.rsplit('.').next().and_then(Knob::named).unwrap_or(knob);
            Err(SettingsError::BadValue { knob: place, value: from.to_string(), bounds: inner.bounds() })
        }
    }
}

/// The service under which a preset's policy is known, and which of its knobs settings do not move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyService {
    /// Its name, `aryaStandardPolicy` for one.
    pub name: String,
    /// Whether the preset has an instance of its own although another preset publishes the same name.
    #[serde(default)]
    pub own_realm: bool,
    /// Knobs that settings do not move, by name.
    #[serde(default)]
    pub pinned: Vec<String>,
}

/// A column that settings have moved.
#[derive(Debug, Clone, PartialEq)]
pub struct AppliedSettings {
    /// The policy.
    pub policy: Policy,
    /// The breaker's.
    pub breaker: BreakerPolicy,
    /// Knobs that were set and are pinned, so that the column's value stands.
    pub pinned: Vec<&'static str>,
}

impl PolicyService {
    /// A service with a name, whose knobs all move.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), own_realm: false, pinned: Vec::new() }
    }

    /// Pins knobs.
    pub fn pinning(mut self, knobs: &[&str]) -> Self {
        self.pinned.extend(knobs.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Gives it a realm of its own.
    pub fn in_own_realm(mut self) -> Self {
        self.own_realm = true;
        self
    }

    /// Whether a knob is pinned. What is retained is one value, so that who pins `retain_ratio` pins `retain_tokens`, and the other
    /// way round.
    pub fn pins(&self, knob: &Knob) -> bool {
        let is_retained = |knob: &Knob| RETAINED.contains(&knob.name());
        let is_it = |pin: &Knob| pin == knob || (is_retained(pin) && is_retained(knob));
        self.pinned.iter().filter_map(|name| Knob::named(name)).any(is_it)
    }

    /// Whether a value would switch a part of the pruner on or off that has a pinned knob.
    fn holds(&self, knob: &Knob, value: &Value, policy: &Policy, breaker: &BreakerPolicy) -> bool {
        let switches = value.is_null() != knob.get(policy, breaker).is_null();
        let part = PARTS.iter().find(|part| switches && part.contains(&knob.name()));
        part.is_some_and(|part| part.iter().filter_map(|name| Knob::named(name)).any(|knob| self.pins(knob)))
    }

    /// Moves a column by settings. Pinned knobs stay and are named, and so are those that would switch a pinned one on or off; knobs
    /// that do not go together are refused.
    pub fn apply(
        &self,
        policy: &Policy,
        breaker: &BreakerPolicy,
        settings: &Settings,
    ) -> Result<AppliedSettings, SettingsError> {
        let mut applied = AppliedSettings { policy: policy.clone(), breaker: *breaker, pinned: Vec::new() };
        self.check_together(settings)?;
        for knob in Knob::all() {
            let Some(value) = settings.0.get(knob.name()) else { continue };
            if self.pins(knob) || self.holds(knob, value, policy, breaker) {
                applied.pinned.push(knob.name());
                continue;
            }
            let mut value = value.clone();
            if knob.is_of_routes() {
                self.drop_pinned(&mut value, &mut applied.pinned);
            }
            if !knob.put(&mut applied.policy, &mut applied.breaker, &value) {
                let (knob, value, bounds) = (knob.name().into(), value.to_string(), knob.bounds());
                return Err(SettingsError::BadValue { knob, value, bounds });
            }
        }
        applied.policy.validate()?;
        Ok(applied)
    }

    /// Refuses knobs of which one undoes the other.
    fn check_together(&self, settings: &Settings) -> Result<(), SettingsError> {
        let moved = |name: &str| {
            let knob = Knob::named(name).filter(|knob| !self.pins(knob))?;
            settings.0.get(knob.name()).map(|value| (knob.name(), value.is_null()))
        };
        let is_set = |name: &str| moved(name).filter(|(_, is_null)| !is_null);
        if let Some(((first, _), (second, _))) = is_set("retain_ratio").zip(is_set("retain_tokens")) {
            return Err(PolicyError::Exclusive { scope: String::new(), first, second }.into());
        }
        for part in PARTS {
            let off = part.iter().find_map(|name| moved(name).filter(|(_, is_null)| *is_null));
            if let Some(((off, _), (set, _))) = off.zip(part.iter().find_map(|name| is_set(name))) {
                return Err(SettingsError::SwitchedOff { off, set });
            }
        }
        Ok(())
    }

    /// Takes pinned knobs out of those of single routes.
    fn drop_pinned(&self, model_policies: &mut Value, pinned: &mut Vec<&'static str>) {
        for item in model_policies.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            for knob in Knob::of_routes().filter(|knob| self.pins(knob)) {
                if item.remove(&knob.json_name()).is_some() && !pinned.contains(&knob.name()) {
                    pinned.push(knob.name());
                }
            }
        }
    }

    /// The JSON Schema of the group, for a settings page: bounds, what each knob does, what holds while it is not set, and which
    /// ones are pinned.
    pub fn schema(&self, policy: &Policy, breaker: &BreakerPolicy) -> Value {
        let mut properties = Map::new();
        for knob in Knob::all() {
            let mut schema = knob.schema();
            if knob.is_of_routes()
                && let Some(own) = schema.pointer_mut("/items/properties").and_then(Value::as_object_mut)
            {
                own.retain(|name, _| !Knob::in_json(name).is_some_and(|knob| self.pins(knob)));
            }
            if let Some(map) = schema.as_object_mut() {
                let value = knob.get(policy, breaker);
                let pinned = self.pins(knob);
                map.insert(if pinned { "const" } else { "default" }.into(), value);
                if pinned {
                    map.insert("readOnly".into(), json!(true));
                }
            }
            properties.insert(knob.json_name(), schema);
        }
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.name,
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}
