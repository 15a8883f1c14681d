//! Which tools start work that goes on by itself, and how it is named.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::ToolCall;

/// A tool that starts work in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackgroundTool {
    /// The tool's name; compared without regard to case.
    pub name: String,
    /// An argument that must be true for the work to go on by itself; none where it always does.
    pub only_with: Option<String>,
    /// What stands before the work's id in the tool's result, in any case; the first one found counts.
    pub id_after: Vec<String>,
}

/// A tool that ends work in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndingTool {
    /// The tool's name; compared without regard to case.
    pub name: String,
    /// The arguments that may name the work.
    pub id_arguments: Vec<String>,
}

/// Which tools start and end work that goes on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackgroundTable {
    /// Tools that start work.
    pub starting: Vec<BackgroundTool>,
    /// Tools that end it.
    pub ending: Vec<EndingTool>,
}

impl Default for BackgroundTable {
    /// The tools of the systems whose conversations this crate reads.
    fn default() -> Self {
        let starts = |name: &str, only_with: Option<&str>, id_after: &[&str]| BackgroundTool {
            name: name.into(),
            only_with: only_with.map(str::to_owned),
            id_after: id_after.iter().map(|text| (*text).to_owned()).collect(),
        };
        let ends = |name: &str, id_arguments: &[&str]| EndingTool {
            name: name.into(),
            id_arguments: id_arguments.iter().map(|text| (*text).to_owned()).collect(),
        };
        Self {
            starting: vec![
                starts("bash", Some("run_in_background"), &["with id: ", "with id ", "job ", "id: "]),
                starts("run_shell_command", Some("is_background"), &["pid: ", "id: "]),
                starts("exec_command", None, &["running with session id ", "session id: "]),
                starts("agent", Some("run_in_background"), &["agentid: ", "agent id: ", "id: "]),
                starts("task", Some("run_in_background"), &["agentid: ", "task id: ", "id: "]),
                starts("subagent", None, &["agent id: ", "agentid: ", "id: "]),
                starts("subagent_fork", None, &["agent id: ", "agentid: ", "id: "]),
                starts("workflow", None, &["workflow id: ", "job id: ", "id: "]),
            ],
            ending: vec![
                ends("killshell", &["shell_id", "bash_id"]),
                ends("killbash", &["shell_id", "bash_id"]),
                ends("taskstop", &["task_id"]),
                ends("job_kill", &["id", "jobId", "job_id"]),
                ends("interrupt_agent", &["id", "agentId", "agent_id"]),
            ],
        }
    }
}

impl BackgroundTable {
    /// The id of the work that a call started, from its result.
    pub fn started_by(&self, call: &ToolCall, result: &str) -> Option<String> {
        let tool = self.starting.iter().find(|tool| tool.name.eq_ignore_ascii_case(&call.name))?;
        if let Some(flag) = &tool.only_with {
            let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
            if arguments.get(flag) != Some(&Value::Bool(true)) {
                return None;
            }
        }
        let lower = result.to_ascii_lowercase();
        tool.id_after.iter().find_map(|before| {
            let at = lower.find(before.as_str())? + before.len();
            let id: String = result
                .get(at..)?
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
                .collect();
            let id = id.trim_end_matches('.').to_owned();
            (!id.is_empty()).then_some(id)
        })
    }

    /// The id of the work that a call ends.
    pub fn ended_by(&self, call: &ToolCall) -> Option<String> {
        let tool = self.ending.iter().find(|tool| tool.name.eq_ignore_ascii_case(&call.name))?;
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        tool.id_arguments.iter().find_map(|key| match arguments.get(key)? {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        })
    }
}
