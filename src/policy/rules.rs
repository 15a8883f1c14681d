//! The two rule sets, difference by difference.

use crate::meter::MeterRules;

/// Which behaviour an engine shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RuleSet {
    /// What experience in the field asks for.
    #[default]
    Default,
    /// What the harness does, number for number, but for three behaviours that nobody should copy: it checks the lock only after
    /// it pruned, it leaves a metering event without its replacement, and it appends what it would refuse to reload.
    Harness,
}

impl RuleSet {
    /// The rules of the set.
    pub fn rules(self) -> Rules {
        match self {
            Self::Default => Rules::DEFAULT,
            Self::Harness => Rules::HARNESS,
        }
    }
}

/// Which cuts are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutRule {
    /// Where as many results as calls stand before the cut. A surface with an unmatched result is an error.
    ByCount,
    /// Where every call before the cut has its result before it, matched by id.
    ById,
}

/// What must be unchanged when a summary comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// Every node and its price.
    WholeSurface,
    /// The nodes that the checkpoint replaces.
    Span,
}

/// Every difference between the rule sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Rules {
    /// Which readings of usage are taken.
    pub meter: MeterRules,
    /// Which cuts are offered.
    pub cuts: CutRule,
    /// What must be unchanged when the summary of an automatic fold comes back. Manual folds need their span alone.
    pub stability: Stability,
    /// Whether levels fit themselves into small windows and folds aim at a target below their level. Without it a bad budget is
    /// an error.
    pub fit_window: bool,
    /// Whether an automatic fold needs an open turn and a logged route.
    pub needs_turn_and_route: bool,
    /// Whether folds prefer to end where a turn ends.
    pub prefer_whole_turns: bool,
    /// Whether the newest message of the person is pinned in a checkpoint that would hide it (promise 5).
    pub pin_request: bool,
    /// Whether an automatic or overflow fold must reach its target and gain enough.
    pub progress: bool,
    /// Whether the summariser's answer is read, judged and cut to its room. Without it the answer stands as it came.
    pub read_answer: bool,
    /// Whether summary, checkpoint and end are appended as one. Without it they are appended one by one.
    pub commit_as_one: bool,
    /// Whether what the host states of the situation counts beside the log: header, usage, unsent input.
    pub use_situation: bool,
}

impl Rules {
    /// What the harness does.
    pub const HARNESS: Self = Self {
        meter: MeterRules::HARNESS,
        cuts: CutRule::ByCount,
        stability: Stability::WholeSurface,
        fit_window: false,
        needs_turn_and_route: true,
        prefer_whole_turns: false,
        pin_request: false,
        progress: false,
        read_answer: false,
        commit_as_one: false,
        use_situation: false,
    };

    /// What experience in the field asks for.
    pub const DEFAULT: Self = Self {
        meter: MeterRules::DEFAULT,
        cuts: CutRule::ById,
        stability: Stability::Span,
        fit_window: true,
        needs_turn_and_route: false,
        prefer_whole_turns: true,
        pin_request: true,
        progress: true,
        read_answer: true,
        commit_as_one: true,
        use_situation: true,
    };
}
