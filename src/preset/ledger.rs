//! The ledger of engineering work: what was read, checked, written and verified, and which checks are red.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Block, Message, ToolCall};
use crate::session::{EventData, Session, SurfaceOp};

/// What an engineering tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EngineeringKind {
    /// Reads a project, a display, an export; tells what is installed.
    Read,
    /// Runs checks that the tools themselves know.
    Check,
    /// Changes a project.
    Write,
    /// Has the vendor's engine import, compile or open the result.
    Verify,
    /// Touches a running controller or display.
    Live,
}

/// A tool of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EngineeringTool {
    /// The tool's name, exactly.
    pub name: String,
    /// What it does.
    pub kind: EngineeringKind,
    /// Arguments that name what it works on; each that is present counts.
    #[serde(default)]
    pub artifacts: Vec<String>,
    /// Where in a result of JSON stands whether it passed, as a JSON pointer; none where only an error is a failure.
    #[serde(default)]
    pub verdict: Option<String>,
}

/// Which tools are engineering tools, by exact name. A tool that it does not list is none: nothing is guessed from a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngineeringTable(Vec<EngineeringTool>);

/// Arguments that name a project or a part of it.
const ARTIFACTS: &[&str] = &["path", "file", "project", "projectId", "display", "controller"];

impl Default for EngineeringTable {
    /// The four probes, the overview of a project and its checks. A host adds the tools of its own plugins.
    fn default() -> Self {
        use EngineeringKind::{Check, Read};
        let tools = [
            ("studio_sdk_status", Read),
            ("ftview_capabilities", Read),
            ("mw_ide_status", Read),
            ("optix_status", Read),
            ("project_overview", Read),
            ("run_checks", Check),
        ];
        Self(tools.into_iter().map(|(name, kind)| EngineeringTool::new(name, kind)).collect())
    }
}

impl EngineeringTool {
    /// A tool whose artifacts are named by the usual arguments.
    pub fn new(name: impl Into<String>, kind: EngineeringKind) -> Self {
        let artifacts = ARTIFACTS.iter().map(|argument| (*argument).to_owned()).collect();
        Self { name: name.into(), kind, artifacts, verdict: None }
    }
}

impl EngineeringTable {
    /// Adds a tool, or replaces the entry of its name.
    pub fn with(mut self, tool: EngineeringTool) -> Self {
        self.0.retain(|known| known.name != tool.name);
        self.0.push(tool);
        self
    }

    /// The entry of a tool.
    pub fn get(&self, name: &str) -> Option<&EngineeringTool> {
        self.0.iter().find(|tool| tool.name == name)
    }
}

/// How often tools of a kind were called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerCount {
    /// Calls.
    pub calls: u64,
    /// Calls whose result was a failure.
    pub failed: u64,
    /// Calls that no result has answered.
    pub unanswered: u64,
}

/// A check as its newest result left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerCheck {
    /// The tool.
    pub tool: String,
    /// What it worked on, as far as the call named it.
    pub artifacts: Vec<String>,
    /// Whether its newest result was a failure.
    pub red: bool,
}

/// The ledger: calls and results of engineering tools, folded.
///
/// A check is a tool with the artifacts that its call names. A failed one stays red until a result of the same check replaces it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineeringLedger {
    table: EngineeringTable,
    counts: BTreeMap<EngineeringKind, LedgerCount>,
    artifacts: BTreeSet<String>,
    checks: Vec<LedgerCheck>,
    /// Calls without a result by their id, which may come again. None is a call that the table does not list.
    open: HashMap<String, VecDeque<Option<OpenCall>>>,
    last_tool: Option<(String, bool)>,
}

/// A call whose result has not come.
#[derive(Debug, Clone, PartialEq)]
struct OpenCall {
    tool: String,
    artifacts: Vec<String>,
}

impl EngineeringLedger {
    /// An empty ledger with a table.
    pub fn new(table: EngineeringTable) -> Self {
        Self { table, ..Self::default() }
    }

    /// The ledger of a whole session, what folds have hidden included.
    pub fn of_session(table: EngineeringTable, session: &Session) -> Self {
        let mut ledger = Self::new(table);
        for event in session.events() {
            match &event.data {
                // A pruned result repeats one that was taken already.
                EventData::ToolResult(_) if matches!(event.surface_op, Some(SurfaceOp::Replace { .. })) => {}
                EventData::AssistantMessage(_) | EventData::ToolResult(_) => {
                    if let Some(message) = session.message(event.seq) {
                        ledger.take(message);
                    }
                }
                _ => {}
            }
        }
        ledger
    }

    /// Takes the calls and results of a message.
    pub fn take(&mut self, message: &Message) {
        // A result answers the newest message that has its call, and within that the calls of one id in their order.
        message.tool_calls().for_each(|call| drop(self.open.remove(&call.id)));
        for block in &message.content {
            match block {
                Block::ToolCall(call) => self.call(call),
                Block::ToolResult(result) => {
                    let text: String = result.content.iter().filter_map(Block::as_text).collect();
                    self.result(&result.tool_call_id, result.is_error == Some(true), &text);
                }
                _ => {}
            }
        }
    }

    /// Takes a call. One of a tool that is not in the table is not counted.
    pub fn call(&mut self, call: &ToolCall) {
        let listed = self.listed(call);
        self.open.entry(call.id.clone()).or_default().push_back(listed);
    }

    fn listed(&mut self, call: &ToolCall) -> Option<OpenCall> {
        let tool = self.table.get(&call.name)?;
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let named = tool.artifacts.iter().filter_map(|key| arguments.get(key)?.as_str()).map(str::to_owned);
        let artifacts: Vec<String> = named.filter(|text| !text.is_empty()).collect();
        self.artifacts.extend(artifacts.iter().cloned());
        let count = self.counts.entry(tool.kind).or_default();
        count.calls += 1;
        count.unanswered += 1;
        Some(OpenCall { tool: call.name.clone(), artifacts })
    }

    /// Takes a result. One that answers no open call of the ledger is left out.
    pub fn result(&mut self, call_id: &str, is_error: bool, text: &str) {
        let Some(calls) = self.open.get_mut(call_id) else { return };
        let call = calls.pop_front().flatten();
        if calls.is_empty() {
            self.open.remove(call_id);
        }
        let Some(OpenCall { tool, artifacts }) = call else { return };
        let Some(entry) = self.table.get(&tool) else { return };
        let says_no = || {
            let pointer = entry.verdict.as_deref()?;
            serde_json::from_str::<Value>(text).ok()?.pointer(pointer)?.as_bool().map(|passed| !passed)
        };
        let failed = is_error || says_no().unwrap_or(false);
        let count = self.counts.entry(entry.kind).or_default();
        count.unanswered = count.unanswered.saturating_sub(1);
        count.failed += u64::from(failed);
        if matches!(entry.kind, EngineeringKind::Check | EngineeringKind::Verify) {
            self.checks.retain(|check| (&check.tool, &check.artifacts) != (&tool, &artifacts));
            self.checks.push(LedgerCheck { tool: tool.clone(), artifacts, red: failed });
        }
        self.last_tool = Some((tool, !failed));
    }

    /// The counts of a kind.
    pub fn count(&self, kind: EngineeringKind) -> LedgerCount {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// The files, projects and other artifacts that calls named.
    pub fn artifacts(&self) -> impl Iterator<Item = &str> {
        self.artifacts.iter().map(String::as_str)
    }

    /// Every check and verification as its newest result left it, the newest last.
    pub fn checks(&self) -> &[LedgerCheck] {
        &self.checks
    }

    /// Whether a check is red.
    pub fn is_red(&self) -> bool {
        self.checks.iter().any(|check| check.red)
    }

    /// The tool whose result came last, and whether it succeeded.
    pub fn last_tool(&self) -> Option<(&str, bool)> {
        self.last_tool.as_ref().map(|(tool, succeeded)| (tool.as_str(), *succeeded))
    }
}
