//! A decorator that stops the automatic path of an engine when it does not help.
//!
//! Owns the count of failures and of folds that refilled at once. Never gates what a person or the provider asked for.

mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::{
    Abandon, BreakerOpen, CompactionEngine, CompactionError, Failure, Outcome, Pending, Reason, Step, Trigger,
    TriggerKind,
};
use crate::policy::Situation;
use crate::session::Session;
use crate::summarizer::{SummarizerError, SummaryReply};

use state::{Attempt, FOLDED, PRUNED, State};

/// How many failures in a row open a breaker, shared so that a host can change it while the engine runs. 0 is never.
#[derive(Debug, Clone, Default)]
pub struct BreakerLimit(Arc<AtomicU32>);

impl BreakerLimit {
    /// A limit.
    pub fn new(failures: u32) -> Self {
        Self(Arc::new(AtomicU32::new(failures)))
    }

    /// The limit now.
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes the limit for every breaker that shares it. It is read at each failure: a breaker that is open stays open.
    pub fn set(&self, failures: u32) {
        self.0.store(failures, Ordering::Relaxed);
    }
}

/// Wraps an engine and gates its automatic triggers: pressure, idle check, model switch, precomputation.
///
/// It opens after as many automatic failures in a row as the limit says, and when three folds in a row were filled up again within
/// three turns each. A success closes it, also one that a person asked for. While it is open, one automatic attempt is let through
/// after every cool-down, if there is one.
///
/// Each attempt leaves an ignorable `compaction/attempt` event in the log, from which a breaker of a later process goes on.
#[derive(Debug)]
pub struct Breaker<E> {
    inner: E,
    limit: BreakerLimit,
    cool_down_ms: u64,
    /// The session object whose log the state was read from.
    instance: Option<u64>,
    state: State,
}

impl<E: CompactionEngine> Breaker<E> {
    /// A breaker around an engine. `cool_down_ms` of 0 lets nothing through while it is open.
    pub fn new(inner: E, limit: BreakerLimit, cool_down_ms: u64) -> Self {
        Self { inner, limit, cool_down_ms, instance: None, state: State::default() }
    }

    /// The engine inside.
    pub fn inner(&self) -> &E {
        &self.inner
    }

    /// The limit, to share or to change.
    pub fn limit(&self) -> &BreakerLimit {
        &self.limit
    }

    /// Why the breaker is open, if it is.
    pub fn open(&self) -> Option<&BreakerOpen> {
        self.state.open.as_ref()
    }

    /// Failures in a row on the automatic path.
    pub fn failures(&self) -> u32 {
        self.state.failures
    }

    /// Takes the state over from the log of a session that this breaker has not seen.
    fn follow(&mut self, session: &Session) {
        if self.instance != Some(session.instance()) {
            self.instance = Some(session.instance());
            self.state = State::from_log(session);
        }
    }

    /// Whether an automatic trigger is let through now.
    fn gate(&mut self, now: Option<i64>) -> Option<BreakerOpen> {
        let open = self.state.open.as_mut()?;
        open.retry_at = (self.cool_down_ms > 0)
            .then(|| open.since.saturating_add(i64::try_from(self.cool_down_ms).unwrap_or(i64::MAX)));
        let cooled = open.retry_at.zip(now).is_some_and(|(retry_at, now)| now >= retry_at);
        if cooled {
            // One attempt: until it has ended, the next one has to wait for another cool-down.
            open.since = now.unwrap_or(open.since);
            return None;
        }
        Some(open.clone())
    }

    /// Counts how an attempt ended and leaves its event.
    fn note(
        &mut self,
        session: &mut Session,
        kind: TriggerKind,
        tokens: u64,
        situation_now: Option<i64>,
        result: &Result<Step, CompactionError>,
    ) {
        let class = match result {
            Ok(Step::Summarize(_)) => return,
            Ok(Step::Done(Outcome::Compacted(_))) => FOLDED,
            Ok(Step::Done(Outcome::Pruned(_))) => PRUNED,
            Ok(Step::Done(Outcome::Prepared(_))) => "prepared",
            Ok(Step::Done(_)) => return,
            Err(error) => error.code(),
        };
        let attempt = Attempt { kind, class, tokens, counts: is_failure(result.as_ref().err()) };
        self.record(session, attempt, situation_now);
    }

    fn record(&mut self, session: &mut Session, attempt: Attempt, now: Option<i64>) {
        let time = now.unwrap_or(i64::MIN).max(session.last_time());
        self.state.take(session, &attempt, self.limit.get(), time);
        if let Some(open) = &self.state.open {
            tracing::warn!(failures = open.failures, refills = open.refills, "automatic compaction is stopped");
        }
        // An open bracket means that its end was refused; the log then takes nothing more of this compaction.
        if session.open_compaction().is_none() && session.append(self.state.event(&attempt).at(time)).is_err() {
            tracing::warn!("the attempt could not be logged");
        }
    }
}

/// Whether a failure speaks against trying again: no summary, no commit, no progress. Being busy, overtaken or cancelled does not,
/// and neither do settings that leave no room.
fn is_failure(error: Option<&CompactionError>) -> bool {
    error.is_some_and(|error| {
        matches!(
            error.failure,
            Failure::Summary(_) | Failure::Commit(_) | Failure::NoProgress { .. } | Failure::StillAbove { .. }
        )
    })
}

impl<E: CompactionEngine> CompactionEngine for Breaker<E> {
    fn begin(
        &mut self,
        session: &mut Session,
        trigger: Trigger,
        situation: &Situation,
    ) -> Result<Step, CompactionError> {
        self.follow(session);
        let kind = trigger.kind();
        let since = self.state.open.as_ref().map(|open| open.since);
        if kind.is_automatic()
            && let Some(open) = self.gate(situation.now)
        {
            return Ok(Step::Done(Outcome::Unneeded(Reason::BreakerOpen(open))));
        }
        let result = self.inner.begin(session, trigger, situation);
        if let (Ok(Step::Done(Outcome::Unneeded(_))), Some(open), Some(since)) = (&result, &mut self.state.open, since)
        {
            // Nothing was attempted, so the cool-down has not begun anew.
            open.since = since;
        }
        self.note(session, kind, 0, situation.now, &result);
        result
    }

    fn resume(
        &mut self,
        session: &mut Session,
        pending: Pending,
        reply: Result<SummaryReply, SummarizerError>,
    ) -> Result<Step, CompactionError> {
        let (kind, tokens, now) = (pending.trigger(), pending.span_tokens(), pending.now());
        let result = self.inner.resume(session, pending, reply);
        if !matches!(&result, Err(error) if matches!(error.failure, Failure::WrongSession(_))) {
            self.note(session, kind, tokens, now, &result);
        }
        result
    }

    fn abandon(&mut self, session: &mut Session, pending: Pending, why: Abandon) -> Result<(), CompactionError> {
        let (kind, tokens, now) = (pending.trigger(), pending.span_tokens(), pending.now());
        let (class, counts) = match &why {
            Abandon::TimedOut => ("timed-out", true),
            Abandon::Cancelled => ("cancelled", false),
            Abandon::Dropped => ("dropped", false),
            Abandon::Other(_) => ("abandoned", false),
        };
        self.inner.abandon(session, pending, why)?;
        self.record(session, Attempt { kind, class, tokens, counts }, now);
        Ok(())
    }
}
