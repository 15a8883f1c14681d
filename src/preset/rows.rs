//! The rows of a composition: which packages a conversation mounts, which tools each brings, and how one list is made from another.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The package of a row that holds other rows.
pub(super) const GROUP: &str = "cordis:group";

/// The systems on which a row is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Platform {
    /// Everything but Windows.
    Unix,
    /// Windows.
    Windows,
}

/// A row of a composition, or a group of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PresetRow {
    /// Its id, unique in the composition.
    pub id: String,
    /// The package that it mounts.
    pub package: String,
    /// The tools that it brings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Its own settings. Persona, policies and pruner come from the preset.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// Where it is mounted; none for everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Services of which a group has instances of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub realms: Vec<String>,
    /// The rows of a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<PresetRow>,
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl PresetRow {
    /// A row with its tools.
    pub fn new(id: impl Into<String>, package: impl Into<String>, tools: &[&str]) -> Self {
        Self {
            id: id.into(),
            package: package.into(),
            tools: owned(tools),
            config: Map::new(),
            platform: None,
            realms: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// A group of rows with services of its own.
    pub fn group(id: impl Into<String>, realms: &[&str], rows: Vec<PresetRow>) -> Self {
        Self { realms: owned(realms), rows, ..Self::new(id, GROUP, &[]) }
    }

    /// A row of the harness, `dsh-` and its package name.
    fn harness(id: &str, package: &str, tools: &[&str]) -> Self {
        Self::new(id, format!("@deepseek-ai/dsh-{package}"), tools)
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.config.insert(key.into(), value);
        self
    }

    fn on(mut self, platform: Platform) -> Self {
        self.platform = Some(platform);
        self
    }

    /// Whether it holds other rows.
    pub fn is_group(&self) -> bool {
        self.package == GROUP
    }
}

/// Every row of a list, those of groups behind their group.
pub(super) fn flat(rows: &[PresetRow]) -> Vec<&PresetRow> {
    rows.iter().flat_map(|row| std::iter::once(row).chain(flat(&row.rows))).collect()
}

/// A list in which every row became what `edit` makes of it: nothing, itself, or several. The rows of a group are edited before the
/// group is.
pub(super) fn edited(rows: Vec<PresetRow>, edit: &dyn Fn(PresetRow) -> Vec<PresetRow>) -> Vec<PresetRow> {
    rows.into_iter()
        .flat_map(|mut row| {
            row.rows = edited(std::mem::take(&mut row.rows), edit);
            edit(row)
        })
        .collect()
}

/// The rows of `standard`.
pub(super) fn standard() -> Vec<PresetRow> {
    let row = PresetRow::harness;
    vec![
        row("persona", "persona", &[]).with("includeRuntimeContext", json!(true)),
        row("agent-instructions", "agent-instructions", &[]),
        row("tool-bash", "tool-bash", &["bash"]).on(Platform::Unix),
        row("tool-pwsh", "tool-pwsh", &["pwsh"]).on(Platform::Windows),
        row("tool-fs", "tool-fs", &["read", "read_image", "write", "edit"]),
        row("tool-fs-search", "tool-fs-search", &["grep", "glob"]),
        row("tool-jobs", "tool-jobs", &["job_list", "job_output", "job_kill"]),
        tool_schedule(),
        row("skill-filesystem", "skill-filesystem", &[]),
        row("tool-skill", "tool-skill", &["skill"]),
        row("tool-goal", "tool-goal", &["create_goal", "get_goal", "update_goal"]),
        PresetRow::group("planning", &["planMode"], vec![row("plan-mode", "plan-mode", &["exit_plan_mode"])]),
        PresetRow::group(
            "compaction",
            &["compaction", "toolResultPruner"],
            vec![
                row(BASIC_ENGINE, "compaction-basic", &[]),
                row("command-compact", "command-compact", &[]),
                row(PRUNER, "compaction-tool-result-pruner", &[]),
            ],
        ),
        delegation(),
        row("tool-plugin-manager", "tool-plugin-manager", &["plugin_manager"]),
        row("tool-plugin-market", "tool-plugin-market", &[]),
        row("tool-ask-user", "tool-ask-user", &["ask_user_question"]),
        row("tool-todo", "tool-todo", &["todo_write"]),
        row("tool-web", "tool-web", &["web_search", "web_fetch"]),
        row("tool-present", "tool-present", &["present"]),
    ]
}

/// Id of the harness's engine row, which derived presets replace.
pub(super) const BASIC_ENGINE: &str = "compaction-basic";
/// Ids of the rows that take its place.
pub(super) const ENGINE: &str = "compaction-engine";
pub(super) const POLICY: &str = "compaction-policy";
/// Id of the pruner's row in every preset.
pub(super) const PRUNER: &str = "tool-result-pruner";

fn tool_schedule() -> PresetRow {
    let tools = ["schedule_create", "schedule_list", "schedule_update", "schedule_delete"];
    PresetRow::harness("tool-schedule", "tool-schedule", &tools)
}

fn delegation() -> PresetRow {
    let row = PresetRow::harness;
    PresetRow::group(
        "delegation",
        &["workflowEngine"],
        vec![
            row("tool-subagent-control", "tool-subagent-control", &["send_message", "interrupt_agent"]),
            row("tool-subagent-list", "tool-subagent-control/list", &["list_agents", "list_subagent_models"]),
            row("tool-subagent", "tool-subagent", &["subagent"]).with("provider", json!("spawn")),
            row("tool-subagent-fork", "tool-subagent", &["subagent_fork"]).with("provider", json!("fork")),
            row("tool-workflow", "tool-workflow", &["workflow"]),
        ],
    )
}

/// The rows of `arya-standard`: those of `standard` without delegation, schedules and plugins, with an engine and a policy of this
/// crate.
pub(super) fn arya_standard() -> Vec<PresetRow> {
    edited(standard(), &|row| match row.id.as_str() {
        "delegation" | "tool-schedule" | "tool-plugin-manager" | "tool-plugin-market" => Vec::new(),
        BASIC_ENGINE => vec![
            PresetRow::new(ENGINE, "arya-presets/arya-standard", &[]),
            PresetRow::new(POLICY, "arya-presets/arya-standard-policy", &[]),
        ],
        _ => vec![row],
    })
}

/// The rows of `arya-standard` with the engine and the policy of another preset: same ids, same order.
pub(super) fn with_engine_of(rows: Vec<PresetRow>, preset: &str) -> Vec<PresetRow> {
    edited(rows, &|row| {
        let package = match row.id.as_str() {
            ENGINE => format!("arya-presets/{preset}"),
            POLICY => format!("arya-presets/{preset}-policy"),
            _ => return vec![row],
        };
        vec![PresetRow { package, ..row }]
    })
}

/// The rows of `arya-claude`: those of `arya-standard` with its own engine, policy and pruner, and with the delegation group and the
/// schedules of `standard` again.
pub(super) fn arya_claude() -> Vec<PresetRow> {
    edited(with_engine_of(arya_standard(), "arya-claude"), &|row| match row.id.as_str() {
        PRUNER => vec![PresetRow { package: "arya-presets/arya-claude-pruner".into(), ..row }],
        "tool-jobs" => vec![row, tool_schedule()],
        "compaction" => vec![row, delegation()],
        _ => vec![row],
    })
}
