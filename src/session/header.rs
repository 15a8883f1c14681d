//! The header of a session file, and the header and context of the requests that a session made.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::json::json_text;
use crate::message::record::record;

/// First line of a session file. Keys that this version does not know are dropped when a file is read, as the harness does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionHeader {
    /// Version of the format; this crate writes 0.
    pub version: u64,
    /// Id of the session.
    pub id: String,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// The working folder of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The session that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// How many events came from that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_length: Option<u64>,
    /// What started the session, `subagent` for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// How many delegations deep it is.
    #[serde(default)]
    pub delegation_depth: u64,
    /// The preset that it was created with; fixed for its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_preset: Option<String>,
}

impl SessionHeader {
    /// A header with an id and a creation time in milliseconds since the epoch.
    pub fn new(id: impl Into<String>, created_at: i64) -> Self {
        Self {
            version: 0,
            id: id.into(),
            created_at,
            cwd: None,
            parent_session: None,
            seed_length: None,
            origin: None,
            delegation_depth: 0,
            agent_preset: None,
        }
    }
}

record! {
    /// Route and sampling settings of a request.
    pub struct RequestConfig {
        /// The provider.
        required provider: String = "provider",
        /// The model.
        required model: String = "model",
        /// How much the model is asked to think; never empty.
        optional reasoning_effort: String = "reasoningEffort",
        /// Sampling temperature.
        optional temperature: f64 = "temperature",
        /// Output cap of the request, in tokens.
        optional max_tokens: u64 = "maxTokens",
        /// Stop sequences.
        optional stop: Vec<String> = "stop",
    }
}

record! {
    /// What stands before the messages in every request: route, system prompt, tools.
    pub struct RequestHeader {
        /// Route and sampling settings.
        required config: RequestConfig = "config",
        /// Names of the settings that the adapter filled in by itself, each `true`.
        optional adapter_defaults: Map<String, Value> = "adapterDefaults",
        /// The system prompt.
        optional system: String = "system",
        /// The tools that the model may call, as JSON.
        optional tools: Vec<Value> = "tools",
    }
}

impl RequestHeader {
    /// A header with a route and nothing else.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        let config = RequestConfig {
            provider: provider.into(),
            model: model.into(),
            reasoning_effort: None,
            temperature: None,
            max_tokens: None,
            stop: None,
            extra: crate::message::Extra::default(),
        };
        Self { config, adapter_defaults: None, system: None, tools: None, extra: crate::message::Extra::default() }
    }

    /// Sets the system prompt.
    pub fn with_system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Sets the tools.
    pub fn with_tools(mut self, tools: Vec<Value>) -> Self {
        self.tools = Some(tools);
        self
    }

    /// The same header without empty parts, so that an absent list and an empty one compare equal.
    pub(crate) fn canonical(mut self) -> Self {
        self.system = self.system.filter(|system| !system.is_empty());
        self.tools = self.tools.filter(|tools| !tools.is_empty());
        self.adapter_defaults = self.adapter_defaults.filter(|defaults| !defaults.is_empty());
        self
    }

    /// Whether two headers make the same request prefix. Tools are compared as JSON text: the order of their keys counts.
    pub(crate) fn same_prefix(&self, other: &Self) -> bool {
        let tools = |header: &Self| -> Vec<String> { header.tools.iter().flatten().map(json_text).collect() };
        self.config.provider == other.config.provider
            && self.config.model == other.config.model
            && self.config.reasoning_effort == other.config.reasoning_effort
            && self.config.temperature == other.config.temperature
            && self.config.max_tokens == other.config.max_tokens
            && self.config.stop == other.config.stop
            && self.adapter_defaults == other.adapter_defaults
            && self.system == other.system
            && tools(self) == tools(other)
    }

    /// The first thing that is wrong with the header, if any.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.config.provider.is_empty() {
            return Some("config.provider must not be empty");
        }
        if self.config.model.is_empty() {
            return Some("config.model must not be empty");
        }
        if self.config.reasoning_effort.as_deref() == Some("") {
            return Some("config.reasoningEffort must not be empty");
        }
        if self.config.temperature.is_some_and(|temperature| !temperature.is_finite()) {
            return Some("config.temperature must be a finite number");
        }
        if self.misplaced_field().or(self.config.misplaced_field()).is_some() {
            return Some("a known field stands among the unknown ones; set it by its own name");
        }
        let config = &self.config;
        for (name, value) in self.adapter_defaults.iter().flatten() {
            let present = match name.as_str() {
                "reasoningEffort" => config.reasoning_effort.is_some(),
                "temperature" => config.temperature.is_some(),
                "maxTokens" => config.max_tokens.is_some(),
                "stop" => config.stop.is_some(),
                other => config.extra.get(other).is_some(),
            };
            if value != &Value::Bool(true) || !present {
                return Some("adapterDefaults must be true, each, and name a setting that config holds");
            }
        }
        None
    }
}

record! {
    /// What was known of the window when a request was made.
    pub struct RequestContext {
        /// The provider.
        required provider: String = "provider",
        /// The model.
        required model: String = "model",
        /// The context window, in tokens.
        optional context_window: u64 = "contextWindow",
    }
}

/// Provider and model of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
}

impl Route {
    /// A route.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}
