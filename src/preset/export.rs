//! A preset as the files of the harness.

use serde_json::{Map, Value, json};

use super::rows::{BASIC_ENGINE, ENGINE, POLICY, PRUNER};
use super::{Platform, Preset, PresetError, PresetRow};
use crate::policy::Knob;
use crate::prompt::ToolMap;

/// A preset as the two files that the harness reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composition {
    /// `agent.cordis.yml`: the rows.
    pub agent_cordis_yml: String,
    /// `preset.yml`: what a picker shows.
    pub preset_yml: String,
}

impl Preset {
    /// The preset as the harness's files, for conversations on a platform. Rows of the other platform are there and disabled, and
    /// the persona speaks of this platform's shell.
    pub fn to_yaml(&self, platform: Platform) -> Result<Composition, PresetError> {
        self.validate()?;
        let rows: Vec<Value> = self.rows.iter().map(|row| self.exported(row, platform)).collect();
        let card = json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "order": self.order,
            "schemaVersion": self.schema_version,
        });
        Ok(Composition { agent_cordis_yml: yaml(&rows.into())?, preset_yml: yaml(&card)? })
    }

    fn exported(&self, row: &PresetRow, platform: Platform) -> Value {
        let mut entry = Map::new();
        entry.insert("id".into(), json!(row.id));
        entry.insert("name".into(), json!(row.package));
        let needless = row.id == PRUNER && self.policy.prune.trim.is_none() && !is_ours(row);
        if row.platform.is_some_and(|only| only != platform) || needless {
            entry.insert("disabled".into(), json!(true));
        }
        if row.is_group() {
            if !row.realms.is_empty() {
                let realms: Map<String, Value> = row.realms.iter().map(|realm| (realm.clone(), json!(true))).collect();
                entry.insert("isolate".into(), Value::Object(realms));
            }
            let rows: Vec<Value> = row.rows.iter().map(|row| self.exported(row, platform)).collect();
            entry.insert("config".into(), rows.into());
            return Value::Object(entry);
        }
        let mut config = row.config.clone();
        config.extend(self.values_of(row, platform));
        if !config.is_empty() {
            entry.insert("config".into(), Value::Object(config));
        }
        Value::Object(entry)
    }

    /// What the preset's own values put into a row.
    fn values_of(&self, row: &PresetRow, platform: Platform) -> Map<String, Value> {
        let knobs = |names: &[&str]| -> Map<String, Value> {
            let knobs = Knob::all().iter().filter(|knob| names.contains(&knob.name()));
            knobs.map(|knob| (knob.json_name(), self.knob(knob.name()).unwrap_or_default())).collect()
        };
        let engine = self.policy.to_harness_config().as_object().cloned().unwrap_or_default();
        match row.id.as_str() {
            "persona" => {
                let native =
                    crate::prompt::native_capabilities(self.tools()).filter(|_| self.persona.native_capabilities);
                let text = [Some(self.persona.text.clone()), native].into_iter().flatten().collect::<Vec<_>>();
                Map::from_iter([("prompt".to_owned(), json!(in_shell_of(platform, text.join("\n\n"))))])
            }
            BASIC_ENGINE => engine,
            ENGINE => {
                let window = ["headroom_tokens", "reserve_output", "output_reserve_cap_tokens"];
                Map::from_iter([("kit".to_owned(), json!(self.kit.id))])
                    .into_iter()
                    .chain(engine)
                    .chain(knobs(&window))
                    .collect()
            }
            POLICY => {
                // What the engine's row and the pruner's row hold is not said twice.
                let elsewhere = [
                    "auto",
                    "threshold_ratio",
                    "retain_ratio",
                    "retain_tokens",
                    "max_tokens",
                    "compaction_retries",
                    "overflow_retries",
                    "summarizer",
                    "model_policies",
                    "headroom_tokens",
                    "reserve_output",
                    "output_reserve_cap_tokens",
                    "prune_threshold_chars",
                    "prune_head_chars",
                    "prune_tail_chars",
                ];
                let names: Vec<&str> =
                    Knob::all().iter().map(Knob::name).filter(|name| !elsewhere.contains(name)).collect();
                let service = self.policy_service.as_ref();
                let mut values = Map::new();
                values.extend(service.map(|service| ("service".to_owned(), json!(service.name))));
                values.extend(knobs(&names));
                values
            }
            PRUNER => match &self.policy.prune.trim {
                Some(trim) => Map::from_iter([
                    ("thresholdChars".to_owned(), json!(trim.threshold_chars)),
                    ("headChars".to_owned(), json!(trim.head_chars)),
                    ("tailChars".to_owned(), json!(trim.tail_chars)),
                ]),
                // The pruner of this crate has more to do than trimming, and without a word it would trim.
                None if is_ours(row) => Map::from_iter([("thresholdChars".to_owned(), Value::Null)]),
                None => Map::new(),
            },
            _ => Map::new(),
        }
    }
}

/// Whether a row mounts a part of this crate.
fn is_ours(row: &PresetRow) -> bool {
    row.package.starts_with("arya-presets/")
}

/// The text with the shell's tool under the name that it has on a platform: the personas speak of `bash`.
fn in_shell_of(platform: Platform, text: String) -> String {
    match (platform, ToolMap::new().rename("bash", "pwsh")) {
        (Platform::Windows, Ok(shell)) => shell.apply(&text).0,
        _ => text,
    }
}

fn yaml(value: &Value) -> Result<String, PresetError> {
    serde_saphyr::to_string(value).map_err(|error| PresetError::Yaml(error.to_string()))
}
