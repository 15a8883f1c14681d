//! Agent presets as data: what the model is told, which tools there are, how compaction behaves.
//!
//! Owns the model, its rows and their derivation, the built-ins and the registry. Runs nothing.

mod builtin;
mod diff;
#[cfg(feature = "yaml")]
mod export;
mod ledger;
mod registry;
mod rows;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::breaker::{Breaker, BreakerLimit};
use crate::engine::{BaseEngine, BuildError, CompactionEngine};
use crate::kit::{Kit, KitError};
use crate::policy::{BreakerPolicy, Knob, Policy, PolicyError, PolicyService, RuleSet, Settings, SettingsError};
use crate::prompt::{Persona, PromptError, PromptFault, PromptVariables, ToolMap};

#[cfg(feature = "yaml")]
pub use export::Composition;
pub use ledger::{EngineeringKind, EngineeringLedger, EngineeringTable, EngineeringTool, LedgerCheck, LedgerCount};
pub use registry::{Registry, RegistryEntry, RegistryError};
pub use rows::{Platform, PresetRow};

/// The version of the preset format that this crate writes and reads.
pub const PRESET_SCHEMA_VERSION: u32 = 1;

/// An agent preset: a composition that a conversation is created with and keeps for its life.
///
/// It is a value: print it, change it, keep it as JSON. Unknown keys are refused when it is read.
///
/// ```
/// use arya_presets::Preset;
///
/// let preset = Preset::arya_standard();
/// let engine = preset.engine()?;
/// # drop(engine);
/// # Ok::<(), arya_presets::PresetError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preset {
    /// The version of the format; [`PRESET_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Its id: `[a-z0-9][a-z0-9-]*`. A conversation's header keeps it.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// Its place in a picker; lower stands first.
    pub order: u32,
    /// What the model is told.
    pub persona: Persona,
    /// What a summariser is asked and how its answer is framed.
    pub kit: Kit,
    /// When a conversation is compacted and how much of it stays; the pruner's part is [`Policy::prune`].
    pub policy: Policy,
    /// When automatic compaction stops.
    #[serde(default)]
    pub breaker: BreakerPolicy,
    /// The service under which the policy is known, with its pinned knobs; none where nothing publishes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_service: Option<PolicyService>,
    /// What a conversation mounts, and with it the tools that there are.
    pub rows: Vec<PresetRow>,
    /// Tools that the persona names and the host brings, outside of the rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_tools: Vec<String>,
}

/// What is wrong with a preset.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PresetFault {
    /// A version that this crate does not read.
    #[error("schemaVersion is {found}; this crate reads {PRESET_SCHEMA_VERSION}")]
    SchemaVersion {
        /// The version.
        found: u32,
    },
    /// An id that is none.
    #[error("id is {id:?}; it must be [a-z0-9][a-z0-9-]*")]
    BadId {
        /// The id.
        id: String,
    },
    /// A text that must say something says nothing.
    #[error("{field} is empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// Something is wrong with the persona's text.
    #[error("persona: {0}")]
    Persona(#[from] PromptFault),
    /// The persona has a variable that there is not.
    #[error("persona: {0}")]
    Variable(#[from] PromptError),
    /// The persona names a tool that no row and no host brings.
    #[error("persona: {tool:?} is named, and neither the rows nor hostTools have it")]
    UnknownTool {
        /// The tool.
        tool: String,
    },
    /// The kit cannot work.
    #[error(transparent)]
    Kit(#[from] KitError),
    /// A knob cannot be as it is.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A pinned knob that there is not.
    #[error("policyService.pinned: no knob is called {name:?}")]
    UnknownPin {
        /// The name.
        name: String,
    },
    /// A row that cannot be.
    #[error("row {row:?}: {what}")]
    Row {
        /// The row's id.
        row: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Two rows bring one tool.
    #[error("row {row:?}: the tool {tool:?} is brought by another row already")]
    DuplicateTool {
        /// The row's id.
        row: String,
        /// The tool.
        tool: String,
    },
}

impl PresetFault {
    /// A stable name for the kind of fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SchemaVersion { .. } => "schema-version",
            Self::BadId { .. } => "bad-id",
            Self::Empty { .. } => "empty",
            Self::Persona(_) => "persona",
            Self::Variable(error) => error.code(),
            Self::UnknownTool { .. } => "unknown-tool",
            Self::Kit(_) => "kit",
            Self::Policy(error) => error.code(),
            Self::UnknownPin { .. } => "unknown-pin",
            Self::Row { .. } => "row",
            Self::DuplicateTool { .. } => "duplicate-tool",
        }
    }
}

/// Why a preset cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PresetError {
    /// It is no JSON of a preset.
    #[error("this is no preset: {0}")]
    Json(String),
    /// It is broken; every fault is listed.
    #[error("preset {id:?} is broken: {}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Broken {
        /// The preset.
        id: String,
        /// Every fault.
        faults: Vec<PresetFault>,
    },
    /// Settings that cannot be used with it.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The engine could not be built.
    #[error(transparent)]
    Engine(#[from] BuildError),
    /// It could not be written as YAML.
    #[error("the preset cannot be written as YAML: {0}")]
    Yaml(String),
}

impl PresetError {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "json",
            Self::Broken { .. } => "broken",
            Self::Settings(error) => error.code(),
            Self::Engine(_) => "engine",
            Self::Yaml(_) => "yaml",
        }
    }
}

/// Whether a text is a preset's id: `[a-z0-9][a-z0-9-]*`.
pub(crate) fn is_preset_id(id: &str) -> bool {
    let is_start = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    id.starts_with(is_start) && id.chars().all(|c| is_start(c) || c == '-')
}

/// Groups in groups deeper than this are refused, so that nothing that walks them can run out of stack.
const MOST_GROUP_DEPTH: usize = 8;

impl Preset {
    /// Reads a preset. It is not validated: [`validate`](Self::validate) says what is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, PresetError> {
        serde_json::from_str(text).map_err(|error| PresetError::Json(error.to_string()))
    }

    /// The preset as JSON.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Checks everything and returns every fault at once.
    pub fn validate(&self) -> Result<(), PresetError> {
        let mut faults = Vec::new();
        if self.schema_version != PRESET_SCHEMA_VERSION {
            faults.push(PresetFault::SchemaVersion { found: self.schema_version });
        }
        if !is_preset_id(&self.id) {
            faults.push(PresetFault::BadId { id: self.id.clone() });
        }
        for (field, text) in [("name", &self.name), ("description", &self.description)] {
            if text.trim().is_empty() {
                faults.push(PresetFault::Empty { field });
            }
        }
        faults.extend(self.persona.check().into_iter().map(PresetFault::from));
        faults.extend(self.persona.unknown_variables().into_iter().map(PresetFault::from));
        faults.extend(self.unknown_tools().map(|tool| PresetFault::UnknownTool { tool: tool.into() }));
        faults.extend(self.kit.faults().into_iter().map(PresetFault::from));
        faults.extend(self.policy.faults().into_iter().map(PresetFault::from));
        faults.extend(self.kit.floors_above_caps(&self.policy).into_iter().map(PresetFault::from));
        if let Some(service) = &self.policy_service {
            if service.name.trim().is_empty() {
                faults.push(PresetFault::Empty { field: "policyService.name" });
            }
            let unknown = service.pinned.iter().filter(|name| Knob::named(name).is_none());
            faults.extend(unknown.map(|name| PresetFault::UnknownPin { name: name.clone() }));
        }
        check_rows(&self.rows, 0, &mut RowsSeen::default(), &mut faults);
        if faults.is_empty() { Ok(()) } else { Err(PresetError::Broken { id: self.id.clone(), faults }) }
    }

    /// The tools that the persona names and nothing brings. Only names that some preset of this crate has are known to be tools;
    /// other code in quotes is left alone.
    fn unknown_tools(&self) -> impl Iterator<Item = &str> {
        let here: HashSet<&str> = self.tools().into_iter().chain(self.host_tools.iter().map(String::as_str)).collect();
        let known = rows::standard();
        let is_tool = move |name: &str| rows::flat(&known).iter().any(|row| row.tools.iter().any(|tool| tool == name));
        let mut named = self.persona.named_tools();
        named.sort_unstable();
        named.dedup();
        named.into_iter().filter(move |name| !here.contains(name) && is_tool(name))
    }

    /// The tools that its rows bring, in their order.
    pub fn tools(&self) -> Vec<&str> {
        rows::flat(&self.rows).into_iter().flat_map(|row| row.tools.iter().map(String::as_str)).collect()
    }

    /// The row of an id, in groups too.
    pub fn row(&self, id: &str) -> Option<&PresetRow> {
        rows::flat(&self.rows).into_iter().find(|row| row.id == id)
    }

    /// Every row, those of groups behind their group.
    pub fn all_rows(&self) -> Vec<&PresetRow> {
        rows::flat(&self.rows)
    }

    /// The value of a knob as it holds in this preset, as JSON; what the policy leaves to the kit is the kit's. None for a knob that
    /// there is not.
    pub fn knob(&self, name: &str) -> Option<Value> {
        let knob = Knob::named(name)?;
        let value = knob.get(&self.policy, &self.breaker);
        let kit = &self.kit;
        Some(match knob.name() {
            _ if !value.is_null() => value,
            "keep_user_tokens" => kit.quotes.as_ref().map_or(0, |quotes| quotes.max_tokens).into(),
            "min_body_tokens" => kit.min_body_tokens.into(),
            "recent_file_limit" => kit.recent_files.into(),
            "summary_retries" => kit.summary_retries.into(),
            _ => value,
        })
    }

    /// What the model is told by a host with the tools of this preset.
    pub fn prompt(&self, variables: &PromptVariables) -> Result<String, PromptError> {
        self.prompt_with(self.tools(), &ToolMap::new(), variables)
    }

    /// What the model is told by a host that has these tools, under the names of `tool_map`.
    pub fn prompt_with<'a>(
        &self,
        tools: impl IntoIterator<Item = &'a str>,
        tool_map: &ToolMap,
        variables: &PromptVariables,
    ) -> Result<String, PromptError> {
        self.persona.render(tools, tool_map, variables)
    }

    /// The preset with its knobs moved by settings, and the knobs that were set although they are pinned. What has been moved is
    /// validated as a whole, so that an engine can be built of it.
    pub fn with_settings(&self, settings: &Settings) -> Result<(Self, Vec<&'static str>), PresetError> {
        let applied = self.service().apply(&self.policy, &self.breaker, settings)?;
        let moved = Self { policy: applied.policy, breaker: applied.breaker, ..self.clone() };
        moved.validate()?;
        Ok((moved, applied.pinned))
    }

    /// The JSON Schema of its settings, for a settings page.
    pub fn settings_schema(&self) -> Value {
        self.service().schema(&self.policy, &self.breaker)
    }

    fn service(&self) -> PolicyService {
        self.policy_service.clone().unwrap_or_else(|| PolicyService::new(self.id.clone()))
    }

    /// The engine of the preset: its kit and policy, behind its breaker. All that a host needs.
    pub fn engine(&self) -> Result<Box<dyn CompactionEngine>, PresetError> {
        self.engine_with(&BreakerLimit::new(self.breaker.auto_compact_failure_limit))
    }

    /// As [`engine`](Self::engine), with a failure limit that the host shares and may change while engines run.
    pub fn engine_with(&self, limit: &BreakerLimit) -> Result<Box<dyn CompactionEngine>, PresetError> {
        let engine = self.base_engine(RuleSet::Default)?;
        Ok(Box::new(Breaker::new(engine, limit.clone(), self.breaker.cool_down_ms)))
    }

    /// The engine without its breaker, for a host that prices, hooks or decorates it its own way.
    pub fn base_engine(&self, rule_set: RuleSet) -> Result<BaseEngine, PresetError> {
        self.validate()?;
        Ok(BaseEngine::new(self.policy.clone(), self.kit.clone(), rule_set)?)
    }

    /// What differs in another preset, one sentence a difference.
    pub fn diff(&self, other: &Self) -> Vec<String> {
        diff::between(self, other)
    }
}

/// What the walk over the rows has met.
#[derive(Default)]
struct RowsSeen<'a> {
    ids: HashSet<&'a str>,
    tools: HashSet<&'a str>,
}

fn check_rows<'a>(rows: &'a [PresetRow], depth: usize, seen: &mut RowsSeen<'a>, faults: &mut Vec<PresetFault>) {
    for row in rows {
        let mut fault = |what| faults.push(PresetFault::Row { row: row.id.clone(), what });
        if row.id.trim().is_empty() {
            fault("its id is empty");
        } else if !seen.ids.insert(&row.id) {
            fault("another row has its id");
        }
        if row.package.trim().is_empty() {
            fault("its package is empty");
        }
        let (holds_rows, has_own) =
            (!row.rows.is_empty() || !row.realms.is_empty(), !row.tools.is_empty() || !row.config.is_empty());
        match row.is_group() {
            false if holds_rows => fault("only a cordis:group has rows and realms"),
            true if row.rows.is_empty() => fault("the group has no rows"),
            true if has_own => fault("a group brings no tools and has no config of its own"),
            _ => {}
        }
        if depth >= MOST_GROUP_DEPTH {
            fault("groups are nested too deep");
            continue;
        }
        for tool in &row.tools {
            if tool.trim().is_empty() {
                faults.push(PresetFault::Row { row: row.id.clone(), what: "a tool has no name" });
            } else if !seen.tools.insert(tool) {
                faults.push(PresetFault::DuplicateTool { row: row.id.clone(), tool: tool.clone() });
            }
        }
        check_rows(&row.rows, depth + 1, seen, faults);
    }
}
