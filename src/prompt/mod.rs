//! What a model is told before the conversation: personas, the lines on a harness's own tools, and adapters that make the
//! published prompts of other agents fit here.
//!
//! Owns the texts, their checks and their renaming. Never hands out text that failed its checks.

mod adapter;
mod audit;
mod check;
mod codex;
mod markdown;
mod personas;
mod qwen;
mod spelling;
mod template;
mod tool_map;
mod variables;

pub use adapter::Adapter;
pub use audit::{Adapted, Audit, RemovedSection, Risk, RuleCount};
pub use check::{Place, PromptFault};
pub use codex::codex;
pub use personas::{NATIVE_CAPABILITIES, Persona, native_capabilities};
pub use qwen::qwen;
pub use tool_map::ToolMap;
pub use variables::PromptVariables;

use check::clipped;

/// Why a prompt could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// A variable that no prompt has.
    #[error("{place}: {{{{{}}}}} is no variable; model and cwd are", clipped(name))]
    UnknownVariable {
        /// Its name.
        name: String,
        /// Where it stands.
        place: Place,
    },
    /// A variable of the prompt that the host gave no value.
    #[error("{place}: {{{{{name}}}}} has no value; set it before the prompt is rendered")]
    MissingValue {
        /// Its name.
        name: String,
        /// Where it stands.
        place: Place,
    },
    /// Two braces that nothing closes.
    #[error("{place}: a variable begins here and does not end")]
    UnclosedVariable {
        /// Where it begins.
        place: Place,
    },
    /// A renaming that cannot be.
    #[error("{:?} cannot be renamed {:?}: {why}", clipped(from), clipped(to))]
    BadRename {
        /// The tool.
        from: String,
        /// Its new name.
        to: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A text that none of the agent's known prompts resembles.
    #[error("this is no prompt of {agent}: {why}")]
    NotThisAgent {
        /// The agent.
        agent: &'static str,
        /// What is missing.
        why: String,
    },
    /// The checks failed. Nothing of the text is handed out.
    #[error("the prompt is refused: {}", told(faults))]
    Refused {
        /// Every fault.
        faults: Vec<PromptFault>,
        /// What the adapter had done; none for a persona.
        audit: Option<Box<Audit>>,
    },
}

/// The first faults in words, and how many more there are.
fn told(faults: &[PromptFault]) -> String {
    const MOST: usize = 32;
    let more = faults.len().saturating_sub(MOST);
    let mut told: Vec<String> = faults.iter().take(MOST).map(ToString::to_string).collect();
    told.extend((more > 0).then(|| format!("and {more} more")));
    told.join("; ")
}

impl PromptError {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownVariable { .. } => "unknown-variable",
            Self::MissingValue { .. } => "missing-value",
            Self::UnclosedVariable { .. } => "unclosed-variable",
            Self::BadRename { .. } => "bad-rename",
            Self::NotThisAgent { .. } => "not-this-agent",
            Self::Refused { .. } => "refused",
        }
    }
}
