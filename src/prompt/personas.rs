//! The built-in personas and the lines on a harness's own tools.

use serde::{Deserialize, Serialize};

use super::check::{PromptFault, forbidden_in, missing_from};
use super::{PromptError, PromptVariables, ToolMap};

/// One line for each tool of a harness that a persona written for another one would not reach for.
pub const NATIVE_CAPABILITIES: &str = include_str!("../../presets/arya-standard/native.md");

/// What the model is told about itself and its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Persona {
    /// Markdown; may have `{{model}}` and `{{cwd}}`. A tool's name stands in code quotes.
    pub text: String,
    /// Whether the lines on the harness's own tools follow.
    #[serde(default)]
    pub native_capabilities: bool,
    /// What must be in the text: headings, tools.
    #[serde(default)]
    pub anchors: Vec<String>,
    /// What must not be in it, as a word, in any case: other agents and their tools.
    #[serde(default)]
    pub forbidden: Vec<String>,
}

/// Names of agents, models and makers, and tools that only they have.
pub(super) const FOREIGN_IDENTITY: &[&str] =
    &["Codex", "ChatGPT", "OpenAI", "GPT", "Claude", "Anthropic", "Qwen", "Alibaba", "Gemini", "Google"];
pub(super) const FOREIGN_TOOLS: &[&str] = &[
    "apply_patch",
    "applypatch",
    "apply-patch",
    "update_plan",
    "exec_command",
    "shell_command",
    "write_stdin",
    "view_image",
    "request_user_input",
    "multi_tool_use",
    "read_file",
    "write_file",
    "run_shell_command",
    "search_file_content",
    "grep_search",
    "read_many_files",
    "list_directory",
    "save_memory",
    "enter_plan_mode",
    "str_replace_editor",
    "TodoWrite",
    "ExitPlanMode",
    "AskUserQuestion",
    "WebFetch",
    "NotebookEdit",
    "MultiEdit",
];

pub(super) fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn builtin(text: &str, native_capabilities: bool, anchors: &[&str]) -> Persona {
    Persona {
        text: text.trim_end().to_owned(),
        native_capabilities,
        anchors: owned(anchors),
        forbidden: owned(&[FOREIGN_IDENTITY, FOREIGN_TOOLS].concat()),
    }
}

impl Persona {
    /// The persona of `standard`: one line.
    pub fn standard() -> Self {
        builtin(include_str!("../../presets/standard/persona.md"), false, &["{{model}}", "{{cwd}}"])
    }

    /// The persona of `arya-standard`: Codex's working style, in our words.
    pub fn arya_standard() -> Self {
        let anchors = [
            "# How you work",
            "## Personality",
            "AGENTS.md",
            "## Planning",
            "## Task execution",
            "## Validating your work",
            "## Ambition and precision",
            "## Sharing progress",
            "## The final message",
            "`edit`",
            "`write`",
            "`read`",
            "`grep`",
            "`glob`",
            "`bash`",
        ];
        builtin(include_str!("../../presets/arya-standard/persona.md"), true, &anchors)
    }

    /// The persona of `arya-qwen`: Qwen Code's structure, in our words.
    pub fn arya_qwen() -> Self {
        let anchors = [
            "# Core Mandates",
            "# Task Management",
            "# Primary Workflows",
            "## Software Engineering Tasks",
            "## New Applications",
            "# Operational Guidelines",
            "## Tone and Style",
            "## Security and Safety Rules",
            "## Tool Usage",
            "# Git Repository",
            "# Final Reminder",
            "`todo_write`",
            "`ask_user_question`",
            "`exit_plan_mode`",
            "`read`",
            "`write`",
            "`edit`",
            "`grep`",
            "`glob`",
            "`bash`",
        ];
        builtin(include_str!("../../presets/arya-qwen/persona.md"), true, &anchors)
    }

    /// The persona of `arya-claude`: Claude Code's idiom, in our words.
    pub fn arya_claude() -> Self {
        let anchors = [
            "# Tone",
            "# Doing the task",
            "# Checking the work",
            "# Deciding and asking",
            "# Acting with care",
            "# Tools",
            "`ask_user_question`",
            "`exit_plan_mode`",
            "`todo_write`",
            "`subagent`",
            "`subagent_fork`",
            "`schedule_create`",
        ];
        builtin(include_str!("../../presets/arya-claude/persona.md"), true, &anchors)
    }

    /// The persona of `arya-automation`: an engineering contract.
    pub fn arya_automation() -> Self {
        let anchors = [
            "# The loop",
            "# Gates",
            "# Identity",
            "# Honesty",
            "# The final message",
            "`studio_sdk_status`",
            "`ftview_capabilities`",
            "`mw_ide_status`",
            "`optix_status`",
            "A running controller is written to only",
            "A denied call stays denied",
            "unrun",
        ];
        builtin(include_str!("../../presets/arya-automation/persona.md"), true, &anchors)
    }

    /// Everything that is wrong with the text.
    pub fn check(&self) -> Vec<PromptFault> {
        if self.text.trim().is_empty() {
            return vec![PromptFault::Empty];
        }
        missing_from(&self.text, &self.anchors).chain(forbidden_in(&self.text, &self.forbidden, "")).collect()
    }

    /// Every variable of the text that there is not.
    pub fn unknown_variables(&self) -> Vec<PromptError> {
        PromptVariables::faults(&self.text)
    }

    /// What the model is told by a host that has these tools, under the names of `tool_map`.
    pub fn render<'a>(
        &self,
        tools: impl IntoIterator<Item = &'a str>,
        tool_map: &ToolMap,
        variables: &PromptVariables,
    ) -> Result<String, PromptError> {
        let faults = self.check();
        if !faults.is_empty() {
            return Err(PromptError::Refused { faults, audit: None });
        }
        let mut text = self.text.trim_end().to_owned();
        let native = native_capabilities(tools).filter(|_| self.native_capabilities);
        if let Some(native) = native {
            text.push_str("\n\n");
            text.push_str(&native);
        }
        // Renamed before values come in: what a host calls its model is no tool.
        variables.fill(&tool_map.apply(&text).0)
    }

    /// The tools that the text names: identifiers that stand alone in code quotes.
    pub fn named_tools(&self) -> Vec<&str> {
        named_tools(&self.text)
    }
}

/// Identifiers that stand alone in code quotes: lower-case letters, digits and underscores.
pub(super) fn named_tools(text: &str) -> Vec<&str> {
    let is_tool = |span: &&str| {
        span.starts_with(|c: char| c.is_ascii_lowercase())
            && span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_tool).collect()
}

/// The section on the harness's own tools, without the lines whose tools a host lacks; none where no line is left.
pub fn native_capabilities<'a>(tools: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let tools: Vec<&str> = tools.into_iter().collect();
    let is_line = |line: &&str| line.starts_with("- `");
    let kept = |line: &&str| {
        let (subjects, _) = line.split_once(':').unwrap_or((line, ""));
        !is_line(line) || named_tools(subjects).iter().all(|tool| tools.contains(tool))
    };
    let lines: Vec<&str> = NATIVE_CAPABILITIES.trim_end().lines().filter(kept).collect();
    lines.iter().any(is_line).then(|| lines.join("\n"))
}
