//! What a model is told before the conversation: personas, the lines on a harness's own tools, and adapters that make the
//! published prompts of other agents fit here.
//!
//! Owns the texts, their checks and their renaming. Never hands out text that failed its checks.

mod adapter;
mod check;
mod codex;
mod markdown;
mod personas;
mod qwen;
mod template;
mod tool_map;
mod variables;

pub use adapter::{Adapted, Adapter, Audit, RemovedSection, Risk, RuleCount};
pub use check::{Place, PromptFault};
pub use codex::codex;
pub use personas::{NATIVE_CAPABILITIES, Persona, native_capabilities};
pub use qwen::qwen;
pub use tool_map::ToolMap;
pub use variables::PromptVariables;

/// Why a prompt could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// A variable that no prompt has.
    #[error("{place}: {{{{{name}}}}} is no variable; model and cwd are")]
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
    #[error("{from:?} cannot be renamed {to:?}: {why}")]
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
    #[error("the prompt is refused: {}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused {
        /// Every fault.
        faults: Vec<PromptFault>,
        /// What the adapter had done; none for a persona.
        audit: Option<Box<Audit>>,
    },
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
