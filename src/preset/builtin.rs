//! The five presets of this crate, each derived from the one before it.

use super::rows;
use super::{PRESET_SCHEMA_VERSION, Preset};
use crate::kit::Kit;
use crate::policy::{BreakerPolicy, Policy, PolicyService};
use crate::prompt::Persona;

/// Tools of engineering products that the persona of `arya-automation` names; the host's engineering plugins bring them.
const ENGINEERING_TOOLS: &[&str] =
    &["studio_sdk_status", "ftview_capabilities", "mw_ide_status", "optix_status", "project_overview", "run_checks"];

impl Preset {
    /// The harness's own composition: one line of persona, every tool, eight Markdown sections.
    pub fn standard() -> Self {
        Self {
            schema_version: PRESET_SCHEMA_VERSION,
            id: "standard".into(),
            name: "Standard".into(),
            description: "One line of instructions, every tool, a checkpoint in eight Markdown sections.".into(),
            order: 1,
            persona: Persona::standard(),
            kit: Kit::base(),
            policy: Policy::standard(),
            breaker: BreakerPolicy::default(),
            policy_service: None,
            rows: rows::standard(),
            host_tools: Vec::new(),
        }
    }

    /// Codex's working style and compaction: a handoff in prose, with the person's own words beside it. The default.
    pub fn arya_standard() -> Self {
        Self {
            id: "arya-standard".into(),
            name: "Arya Standard".into(),
            description:
                "Plans, edits and reports as Codex does; folds into a handoff in prose with your own words quoted."
                    .into(),
            order: 3,
            persona: Persona::arya_standard(),
            kit: Kit::codex(),
            policy: Policy::arya_standard(),
            policy_service: Some(PolicyService::new("aryaStandardPolicy")),
            rows: rows::arya_standard(),
            ..Self::standard()
        }
    }

    /// Qwen Code's structure: mandates and workflows, a checkpoint in nine tagged sections.
    pub fn arya_qwen() -> Self {
        let pinned = ["keep_user_tokens", "min_body_tokens"];
        Self {
            id: "arya-qwen".into(),
            name: "Arya Qwen".into(),
            description:
                "Works by mandates and workflows as Qwen Code does; folds into a snapshot of nine tagged sections."
                    .into(),
            order: 4,
            persona: Persona::arya_qwen(),
            kit: Kit::qwen(),
            policy: Policy::arya_qwen(),
            policy_service: Some(PolicyService::new("aryaQwenPolicy").pinning(&pinned)),
            rows: rows::with_engine_of(rows::arya_standard(), "arya-qwen"),
            ..Self::arya_standard()
        }
    }

    /// Claude Code's idiom: delegation and schedules, old results cleared before a summary is paid for, and a breaker.
    pub fn arya_claude() -> Self {
        let pinned = [
            "threshold_ratio",
            "headroom_tokens",
            "pre_warm_percent",
            "post_turn_percent",
            "absolute_token_limit",
            "keep_recent_tool_results",
            "min_micro_compact_tokens",
            "recent_file_limit",
            "auto_compact_failure_limit",
        ];
        Self {
            id: "arya-claude".into(),
            name: "Arya Claude".into(),
            description:
                "Terse and thorough as Claude Code is, with subagents and schedules; clears old results before it folds.".into(),
            order: 5,
            persona: Persona::arya_claude(),
            kit: Kit::claude(),
            policy: Policy::arya_claude(),
            breaker: BreakerPolicy::arya_claude(),
            policy_service: Some(PolicyService::new("aryaClaudePolicy").pinning(&pinned)),
            rows: rows::arya_claude(),
            ..Self::arya_standard()
        }
    }

    /// An engineering contract for controllers and displays: folds earlier and keeps more of each result.
    pub fn arya_automation() -> Self {
        Self {
            id: "arya-automation".into(),
            name: "Arya Automation Engineer".into(),
            description:
                "An engineering contract for controller and display projects; folds earlier and keeps more of a read."
                    .into(),
            order: 6,
            persona: Persona::arya_automation(),
            kit: Kit::codex(),
            policy: Policy::arya_automation(),
            policy_service: Some(PolicyService::new("aryaStandardPolicy").in_own_realm()),
            host_tools: ENGINEERING_TOOLS.iter().map(|tool| (*tool).to_owned()).collect(),
            ..Self::arya_standard()
        }
    }

    /// The five presets, in the order of a picker.
    pub fn builtins() -> [Self; 5] {
        [Self::standard(), Self::arya_standard(), Self::arya_qwen(), Self::arya_claude(), Self::arya_automation()]
    }
}
