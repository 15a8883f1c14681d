//! Where a message comes from. Provenance, never its text, decides what a message is.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::record::Extra;

/// The plugin name under which checkpoints are written.
pub(crate) const CHECKPOINT_PLUGIN: &str = "compact";

/// The origin of a message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// The person.
    User {
        /// Fields that this version does not know.
        extra: Extra,
    },
    /// The model.
    Model {
        /// The provider that answered.
        provider: String,
        /// The model that answered.
        model: String,
        /// Fields that this version does not know.
        extra: Extra,
    },
    /// A tool, answering a call.
    Tool {
        /// The call that it answers.
        call_id: String,
        /// Fields that this version does not know.
        extra: Extra,
    },
    /// The checkpoint of a compaction.
    Checkpoint {
        /// The compaction that wrote it.
        compaction_id: String,
        /// Fields that this version does not know, such as the kit.
        extra: Extra,
    },
    /// Anything else that a host injects: instructions, reminders, notices.
    Other {
        /// The kind, never empty.
        kind: String,
        /// Fields beside the kind.
        extra: Extra,
    },
}

impl Source {
    /// The person.
    pub fn user() -> Self {
        Self::User { extra: Extra::default() }
    }

    /// The model of a provider.
    pub fn model(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self::Model { provider: provider.into(), model: model.into(), extra: Extra::default() }
    }

    /// The tool that answered a call.
    pub fn tool(call_id: impl Into<String>) -> Self {
        Self::Tool { call_id: call_id.into(), extra: Extra::default() }
    }

    /// An injection of the given kind, such as `agent-instructions`.
    pub fn other(kind: impl Into<String>) -> Self {
        Self::Other { kind: kind.into(), extra: Extra::default() }
    }

    /// The `kind` under which the log keeps it.
    pub fn kind(&self) -> &str {
        match self {
            Self::User { .. } => "user",
            Self::Model { .. } => "model",
            Self::Tool { .. } => "tool",
            Self::Checkpoint { .. } => "plugin",
            Self::Other { kind, .. } => kind,
        }
    }

    /// Whether the person wrote it.
    pub fn is_user(&self) -> bool {
        matches!(self, Self::User { .. })
    }

    /// Whether a compaction wrote it.
    pub fn is_checkpoint(&self) -> bool {
        matches!(self, Self::Checkpoint { .. })
    }

    /// Whether a host injected it: neither the person, the model, a tool nor a compaction.
    pub fn is_injected(&self) -> bool {
        matches!(self, Self::Other { .. })
    }

    /// Why the source would be read back as another one, or not at all; and what would be right.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let says = |extra: &Extra, key: &str| extra.get(key).and_then(Value::as_str).map(str::to_owned);
        match self {
            Self::Model { provider, model, .. } if provider.is_empty() || model.is_empty() => {
                Some("a model source needs a provider and a model, neither of them empty")
            }
            Self::Tool { call_id, .. } if call_id.is_empty() => Some("a tool source needs a callId that is not empty"),
            Self::Checkpoint { compaction_id, .. } if compaction_id.is_empty() => {
                Some("a checkpoint source needs a compactionId that is not empty")
            }
            Self::Other { kind, .. } if matches!(kind.as_str(), "" | "user" | "model" | "tool") => {
                Some("the kind of another source must not be empty, user, model or tool")
            }
            Self::Other { kind, extra }
                if kind == "plugin"
                    && says(extra, "plugin").as_deref() == Some(CHECKPOINT_PLUGIN)
                    && says(extra, "compactionId").is_some_and(|id| !id.is_empty()) =>
            {
                Some("a checkpoint has a source of its own")
            }
            _ => None,
        }
    }

    fn from_map(mut map: Map<String, Value>) -> Result<Self, &'static str> {
        let kind = match map.shift_remove("kind") {
            Some(Value::String(kind)) if !kind.is_empty() => kind,
            _ => return Err("a source needs a non-empty `kind`"),
        };
        let is_checkpoint = map.get("plugin").is_some_and(|plugin| plugin == CHECKPOINT_PLUGIN);
        let mut text = |key: &str| match map.get(key) {
            Some(Value::String(text)) if !text.is_empty() => {
                let text = text.clone();
                map.shift_remove(key);
                Some(text)
            }
            _ => None,
        };
        Ok(match kind.as_str() {
            "user" => Self::User { extra: map.into() },
            "model" => match (text("provider"), text("model")) {
                (Some(provider), Some(model)) => Self::Model { provider, model, extra: map.into() },
                _ => return Err("a model source needs a `provider` and a `model`"),
            },
            "tool" => match text("callId") {
                Some(call_id) => Self::Tool { call_id, extra: map.into() },
                None => return Err("a tool source needs a `callId`"),
            },
            "plugin" if is_checkpoint => match text("compactionId") {
                Some(compaction_id) => {
                    map.shift_remove("plugin");
                    Self::Checkpoint { compaction_id, extra: map.into() }
                }
                None => Self::Other { kind, extra: map.into() },
            },
            _ => Self::Other { kind, extra: map.into() },
        })
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_map(Map::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind())?;
        let extra = match self {
            Self::User { extra } | Self::Other { extra, .. } => extra,
            Self::Model { provider, model, extra } => {
                map.serialize_entry("provider", provider)?;
                map.serialize_entry("model", model)?;
                extra
            }
            Self::Tool { call_id, extra } => {
                map.serialize_entry("callId", call_id)?;
                extra
            }
            Self::Checkpoint { compaction_id, extra } => {
                map.serialize_entry("plugin", CHECKPOINT_PLUGIN)?;
                map.serialize_entry("compactionId", compaction_id)?;
                extra
            }
        };
        extra.serialize_into(&mut map, |key| key == "kind")?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_source_is_written_back_as_it_was_read() {
        for value in [
            json!({"kind": "user"}),
            json!({"kind": "user", "device": "phone"}),
            json!({"kind": "plugin", "plugin": "rival"}),
            json!({"kind": "plugin", "plugin": "compact"}),
            json!({"kind": "plugin", "plugin": "compact", "compactionId": "c", "sourceCommandId": "k"}),
            json!({"kind": "model", "provider": "p", "model": "m"}),
            json!({"kind": "tool", "callId": "c"}),
            json!({"kind": "goal", "n": [1]}),
        ] {
            let source: Source = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(&source).unwrap(), value);
        }
    }

    #[test]
    fn only_a_compaction_id_makes_a_checkpoint() {
        let of = |value: Value| serde_json::from_value::<Source>(value).unwrap();
        assert!(of(json!({"kind": "plugin", "plugin": "compact", "compactionId": "c"})).is_checkpoint());
        assert!(!of(json!({"kind": "plugin", "plugin": "compact", "compactionId": ""})).is_checkpoint());
        assert!(!of(json!({"kind": "compact", "compactionId": "c"})).is_checkpoint());
    }

    #[test]
    fn a_source_without_its_fields_is_refused() {
        for value in [
            json!({}),
            json!({"kind": ""}),
            json!({"kind": 1}),
            json!({"kind": "model", "provider": "p"}),
            json!({"kind": "model", "provider": "", "model": "m"}),
            json!({"kind": "tool"}),
            json!(null),
            json!("user"),
        ] {
            assert!(serde_json::from_value::<Source>(value).is_err());
        }
    }
}
