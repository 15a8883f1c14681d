//! Hooks of a host around the summary.

use crate::checkpoint::Checkpoint;
use crate::summarizer::SummaryRequest;

/// What a hook wants done before a summary is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreHook {
    /// Go on.
    Pass,
    /// Do not compact.
    Cancel {
        /// Why, for the person.
        reason: String,
    },
    /// Ask for this too.
    Instruct {
        /// What to add to the instruction.
        text: String,
    },
    /// Take this summary and ask nobody.
    Supply {
        /// The summary.
        text: String,
    },
}

/// Why a hook failed. It is logged and otherwise ignored: a hook cannot make a compaction fail.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;

/// Hooks of a host around the summary. `name` is `<namespace>/compaction/pre` or `…/post`, the namespace being the kit's.
pub trait CompactionHooks: Send {
    /// Called before a summary is asked for, and before anything is logged.
    fn pre(&mut self, name: &str, request: &SummaryRequest) -> Result<PreHook, HookError> {
        let _ = (name, request);
        Ok(PreHook::Pass)
    }

    /// Called with the checkpoint before it is committed.
    fn post(&mut self, name: &str, checkpoint: &Checkpoint) -> Result<(), HookError> {
        let _ = (name, checkpoint);
        Ok(())
    }
}
