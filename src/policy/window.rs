//! Window arithmetic: from a window to the levels at which compaction is due, and from a level to target and tail.

use std::fmt;

use super::harness::share_of;
use super::{BudgetScope, Policy, PolicyError, Retain, Window};

/// The smallest window that the arithmetic fits: below it, tail, target and trigger cannot be told apart.
const LEAST_WINDOW: u64 = 16;
/// The smallest trigger, for the same reason.
const LEAST_TRIGGER: u64 = 4;
/// Output reservation assumed where a host states none, unless an eighth of the window is less.
const UNKNOWN_RESERVATION: u64 = 8_192;

/// A level at which compaction is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// The trigger derived from the window.
    Trigger,
    /// The share of the window that is folded ahead of need after a turn.
    PreWarm,
    /// The share of the window that is folded after a turn.
    PostTurn,
    /// The absolute limit.
    AbsoluteLimit,
    /// The limit on the bytes of a request.
    RequestBytes,
    /// No level: a person or the provider asked.
    Asked,
}

impl Level {
    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::PreWarm => "pre-warm",
            Self::PostTurn => "post-turn",
            Self::AbsoluteLimit => "absolute-limit",
            Self::RequestBytes => "request-bytes",
            Self::Asked => "asked",
        }
    }
}

/// A level in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Which level.
    pub level: Level,
    /// Where it lies, in tokens.
    pub tokens: u64,
}

/// What a fold aims at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The level that made it due.
    pub due: Due,
    /// Tokens that the conversation must come under; below `due`.
    pub target_tokens: u64,
    /// Tokens of the newest conversation that stay verbatim; at most half the target.
    pub tail_tokens: u64,
    /// Whether half the target was less than the policy would retain.
    pub tail_capped: bool,
}

/// The levels of a policy in a window, with the figures they come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels {
    window: Option<Window>,
    policy: Policy,
    reserved: u64,
    reserved_known: bool,
    reserved_capped: bool,
    fitted: bool,
    share: u64,
    trigger: Option<u64>,
}

impl Levels {
    /// Derives the levels. `max_output` is the output reservation of the next request. An unknown window leaves only the
    /// absolute limit.
    pub fn new(policy: &Policy, window: Option<&Window>, max_output: Option<u64>) -> Result<Self, PolicyError> {
        let mut levels = Self {
            window: window.cloned(),
            policy: policy.clone(),
            reserved: 0,
            reserved_known: max_output.is_some(),
            reserved_capped: false,
            fitted: false,
            share: 0,
            trigger: None,
        };
        let Some(window) = window.map(|window| window.tokens) else { return Ok(levels) };
        if window < LEAST_WINDOW {
            return Err(PolicyError::WindowTooSmall { window: window.to_string(), least: LEAST_WINDOW });
        }
        if policy.reserve_output {
            let asked = max_output.unwrap_or_else(|| UNKNOWN_RESERVATION.min(window / 8));
            let cap = policy.output_reserve_cap_tokens.unwrap_or(u64::MAX);
            levels.reserved = asked.min(cap);
            levels.reserved_capped = asked > cap;
        }
        let room = window.saturating_sub(levels.reserved).saturating_sub(policy.headroom_tokens);
        levels.fitted = room < window / 2;
        levels.share = share_of(window, policy.threshold_ratio);
        let trigger = levels.share.min(room.max(window / 2));
        levels.trigger = Some(trigger.clamp(LEAST_TRIGGER, window - 1));
        Ok(levels)
    }

    /// Tokens at which compaction is due under pressure; none where the window is unknown.
    pub fn trigger(&self) -> Option<u64> {
        self.trigger
    }

    /// The lowest level that a total has reached in the check before a request.
    pub fn due_under_pressure(&self, total: u64) -> Option<Due> {
        let trigger = self.trigger.map(|tokens| Due { level: Level::Trigger, tokens });
        reached(total, [self.absolute_limit(), trigger])
    }

    /// The lowest level that a total has reached in the idle check after a turn.
    pub fn due_after_turn(&self, total: u64) -> Option<Due> {
        self.due_after_growth(total, total)
    }

    /// As [`due_after_turn`](Self::due_after_turn), but the pre-warm and post-turn levels are compared with what the turn added.
    pub fn due_after_growth(&self, total: u64, growth: u64) -> Option<Due> {
        let pre_warm = self.percent(Level::PreWarm, self.policy.pre_warm_percent);
        let post_turn = self.percent(Level::PostTurn, self.policy.post_turn_percent);
        let lowest = [reached(growth, [post_turn, pre_warm]), self.due_under_pressure(total)];
        lowest.into_iter().flatten().min_by_key(|due| due.tokens)
    }

    /// The limit on the bytes of a request, in tokens of this conversation: the share of `total` that the limit is of `bytes`. None
    /// where the limit is off or not exceeded.
    pub fn due_by_bytes(&self, total: u64, bytes: u64) -> Option<Due> {
        let limit = self.policy.max_request_bytes;
        let share = u128::from(total) * u128::from(limit) / u128::from(bytes.max(1));
        let tokens = u64::try_from(share).unwrap_or(u64::MAX);
        (limit > 0 && bytes > limit).then(|| self.capped(Level::RequestBytes, tokens))
    }

    /// What work that a person or a provider asked for counts as due: the lowest level where the total has reached one, else the
    /// total itself.
    pub fn due_when_asked(&self, total: u64) -> Due {
        self.due_under_pressure(total).unwrap_or(Due { level: Level::Asked, tokens: total.max(LEAST_TRIGGER) })
    }

    /// What a fold that became due at a level aims at.
    pub fn plan(&self, due: Due) -> Plan {
        let window = self.window.as_ref().map_or(due.tokens, |window| window.tokens);
        let gap = share_of(window, self.policy.target_gap_ratio);
        let level = due.tokens.max(LEAST_TRIGGER);
        let target_tokens = level.saturating_sub(gap).max(level / 2).clamp(2, level - 1);
        let retain = match self.policy.retain {
            Retain::Ratio(ratio) => share_of(window, ratio),
            Retain::Tokens(tokens) => tokens,
        };
        let most = target_tokens / 2;
        Plan { due, target_tokens, tail_tokens: retain.min(most).max(1), tail_capped: retain > most }
    }

    fn absolute_limit(&self) -> Option<Due> {
        let tokens = self.policy.absolute_token_limit;
        (tokens > 0).then(|| self.capped(Level::AbsoluteLimit, tokens))
    }

    fn percent(&self, level: Level, percent: u8) -> Option<Due> {
        let window = self.window.as_ref()?.tokens;
        let share = u64::try_from(u128::from(window) * u128::from(percent) / 100).unwrap_or(window);
        (percent > 0).then(|| self.capped(level, share))
    }

    fn capped(&self, level: Level, tokens: u64) -> Due {
        Due { level, tokens: tokens.min(self.trigger.unwrap_or(u64::MAX)).max(LEAST_TRIGGER) }
    }

    fn explain_bytes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy.max_request_bytes {
            0 => Ok(()),
            bytes => write!(f, "\nrequest limit: {bytes} bytes"),
        }
    }

    /// The trigger with every figure behind it, one clause a line.
    pub fn explain(&self) -> String {
        self.to_string()
    }
}

fn reached<const N: usize>(total: u64, levels: [Option<Due>; N]) -> Option<Due> {
    levels.into_iter().flatten().filter(|due| total >= due.tokens).min_by_key(|due| due.tokens)
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = &self.policy;
        let Some((window, trigger)) = self.window.as_ref().zip(self.trigger) else {
            writeln!(f, "window: unknown, so pressure is off; manual work, overflow and the absolute limit remain")?;
            match self.absolute_limit() {
                Some(due) => write!(f, "absolute limit: {} tokens", due.tokens)?,
                None => write!(f, "absolute limit: off")?,
            }
            return self.explain_bytes(f);
        };
        writeln!(f, "window: {} tokens, {}", window.tokens, window.origin)?;
        writeln!(f, "share: {} of the window is {} tokens", policy.threshold_ratio, self.share)?;
        if policy.reserve_output {
            let known = if self.reserved_known { "stated" } else { "assumed" };
            let capped = if self.reserved_capped { ", capped" } else { "" };
            writeln!(f, "output reservation: {} tokens, {known}{capped}", self.reserved)?;
        } else {
            writeln!(f, "output reservation: none, by policy")?;
        }
        if policy.headroom_tokens > 0 {
            writeln!(f, "headroom: {} tokens", policy.headroom_tokens)?;
        }
        if self.fitted {
            writeln!(f, "room: under half the window, so half the window is taken")?;
        }
        write!(f, "trigger: {trigger} tokens")?;
        if trigger == self.share {
            write!(f, ", bound by the share")?;
        } else if trigger == LEAST_TRIGGER && self.share < LEAST_TRIGGER {
            write!(f, ", the least that works")?;
        } else if trigger == window.tokens - 1 && self.share >= window.tokens {
            write!(f, ", just below the window")?;
        } else if self.fitted {
            write!(f, ", bound by half the window")?;
        } else {
            write!(f, ", bound by reservation and headroom")?;
        }
        if let Some(due) = self.absolute_limit() {
            write!(f, "\nabsolute limit: {} tokens", due.tokens)?;
        }
        self.explain_bytes(f)?;
        for (level, percent) in [(Level::PreWarm, policy.pre_warm_percent), (Level::PostTurn, policy.post_turn_percent)]
        {
            if let Some(due) = self.percent(level, percent) {
                write!(f, "\n{}: {percent} % of the window, {} tokens", level.as_str(), due.tokens)?;
                if policy.budget_scope == BudgetScope::Turn {
                    write!(f, ", of the turn alone")?;
                }
            }
        }
        Ok(())
    }
}
