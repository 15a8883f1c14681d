//! One fold after another: which run is next, whether what landed is enough, and how an attempt ends.

use super::base::BaseEngine;
use super::error::{CompactionError, Failure};
use super::outcome::{Compacted, Landed, Outcome, Reason};
use super::pending::{Attempt, Occupancy};
use super::range::{at_whole_turn, select_cut};
use super::{Step, TriggerKind};
use crate::policy::{Due, Plan, Situation};
use crate::pruner::{PruneBudget, PrunePlan};
use crate::session::{Route, Session};

/// After an attempt without progress: where it ended, so that the next one waits for something new.
#[derive(Debug, Clone)]
pub(super) struct Stall {
    route: Option<Route>,
    window: Option<u64>,
    surface_tokens: u64,
}

/// Share of the window that must be new before another attempt after one without progress.
const NEW_SHARE_AFTER_STALL: u64 = 20;

impl BaseEngine {
    /// Chooses the next run to fold and opens its bracket, or ends the attempt where there is none.
    pub(super) fn next_fold(&mut self, session: &mut Session, attempt: Attempt) -> Result<Step, CompactionError> {
        let cut = match self.automatic_cut(session, &attempt) {
            Ok(cut) => cut,
            Err(error) => return Err(CompactionError::after(error.failure, attempt.landed)),
        };
        if cut == 0 {
            return self.finish(session, attempt, Reason::NothingToFold);
        }
        self.open(session, attempt, 0, cut - 1)
    }

    /// The position before which an automatic fold ends; 0 where nothing is left to fold.
    pub(super) fn automatic_cut(&mut self, session: &Session, attempt: &Attempt) -> Result<usize, CompactionError> {
        self.meter.sync(session).map_err(Failure::from)?;
        let cut = select_cut(session, &self.meter, attempt.retain, self.rules.cuts).map_err(Failure::Range)?;
        let cut = match attempt.plan {
            Some(plan)
                if self.rules.prefer_whole_turns && attempt.kind != TriggerKind::Overflow && !attempt.is_tight =>
            {
                at_whole_turn(session, &self.meter, cut, attempt.in_estimate(plan.target_tokens) / 2)
            }
            _ => cut,
        };
        Ok(if self.is_folded_already(session, cut) { 0 } else { cut })
    }

    /// The attempt with a tail that is smaller by what a fold would leave over its target, and the last node of its span; none where
    /// no smaller tail is left. Found before anything is asked of a model, this saves a second summary.
    pub(super) fn with_smaller_tail(
        &mut self,
        session: &Session,
        attempt: &Attempt,
        last: usize,
        over_target: u64,
    ) -> Option<(Attempt, usize)> {
        let mut smaller = Attempt { is_tight: true, ..attempt.clone() };
        for retain in [attempt.retain.saturating_sub(over_target), 0] {
            if attempt.retain == 0 {
                break;
            }
            smaller.retain = retain;
            match self.automatic_cut(session, &smaller) {
                Ok(cut) if cut > last + 1 => return Some((smaller, cut - 1)),
                _ => {}
            }
        }
        None
    }

    /// Whether everything before a cut is a checkpoint, so that another fold would only wear it down.
    pub(super) fn is_folded_already(&self, session: &Session, cut: usize) -> bool {
        self.rules.progress && session.nodes().iter().take(cut).all(|node| node.message.source.is_checkpoint())
    }

    /// Reduces what needs no model; whether anything was reduced.
    pub(super) fn prune(&mut self, session: &mut Session, attempt: &mut Attempt) -> Result<bool, CompactionError> {
        let failed = |failure: Failure, landed: &Landed| CompactionError::after(failure, landed.clone());
        let tail_tokens = attempt.plan.map(|plan| attempt.in_estimate(plan.tail_tokens));
        let budget = PruneBudget { tail_tokens, now: attempt.situation.now };
        let plan = PrunePlan::new(session, &mut self.meter, &self.policy.prune, budget)
            .map_err(|error| failed(error.into(), &attempt.landed))?;
        if plan.rewrites().is_empty() {
            return Ok(false);
        }
        match plan.apply(session, attempt.situation.now.unwrap_or(i64::MIN)) {
            Ok(report) => attempt.landed.pruned.merge(report),
            Err((error, report)) => {
                attempt.landed.pruned.merge(report);
                return Err(failed(Failure::Commit(error), &attempt.landed));
            }
        }
        Ok(true)
    }

    /// What follows a fold that landed.
    pub(super) fn after_fold(&mut self, session: &mut Session, mut attempt: Attempt) -> Result<Step, CompactionError> {
        let situation = attempt.situation.clone();
        let mut now = match self.occupancy(session, &situation) {
            Ok(now) => now,
            Err(error) => return Err(CompactionError::after(error.failure, attempt.landed)),
        };
        if !self.rules.progress {
            return match attempt.threshold {
                Some(threshold) if now.total >= threshold => {
                    if attempt.folds_left > 0 {
                        return self.next_fold(session, attempt);
                    }
                    let attempts = u32::try_from(attempt.landed.folds.len()).unwrap_or(u32::MAX);
                    let failure =
                        Failure::StillAbove { attempts, total_tokens: now.total, threshold_tokens: threshold };
                    Err(CompactionError::after(failure, attempt.landed))
                }
                _ => done(compacted(attempt, now)),
            };
        }
        let Some(plan) = attempt.plan.filter(|_| attempt.kind.must_progress()) else {
            return done(compacted(attempt, now));
        };
        let least_gain_tokens = self.least_gain(attempt.before);
        let enough = |before: Occupancy, now: Occupancy| {
            scaled(before, now) <= plan.target_tokens && gained(before, now) >= least_gain_tokens
        };
        if enough(attempt.before, now) {
            self.stall = None;
            return done(compacted(attempt, now));
        }
        // Pruning costs nothing, so it comes before another summary.
        if self.prune(session, &mut attempt)? {
            now = match self.occupancy(session, &situation) {
                Ok(now) => now,
                Err(error) => return Err(CompactionError::after(error.failure, attempt.landed)),
            };
            if enough(attempt.before, now) {
                self.stall = None;
                return done(compacted(attempt, now));
            }
        }
        if attempt.folds_left > 0 && self.automatic_cut(session, &attempt).is_ok_and(|cut| cut > 0) {
            return self.next_fold(session, attempt);
        }
        self.no_progress(session, attempt, plan, now)
    }

    fn no_progress(
        &mut self,
        session: &Session,
        attempt: Attempt,
        plan: Plan,
        now: Occupancy,
    ) -> Result<Step, CompactionError> {
        self.stall = Some(Stall {
            route: attempt.situation.route_in(session),
            window: attempt.situation.window_tokens(),
            surface_tokens: self.meter.surface_tokens(),
        });
        let failure = Failure::NoProgress {
            before_tokens: attempt.before.total,
            after_tokens: scaled(attempt.before, now),
            target_tokens: plan.target_tokens,
            least_gain_tokens: self.least_gain(attempt.before),
        };
        Err(CompactionError::after(failure, attempt.landed))
    }

    /// Ends an attempt that can fold no more: with what landed, or with the reason. Another fold was wanted because the ones
    /// that landed were not enough.
    pub(super) fn finish(
        &mut self,
        session: &Session,
        attempt: Attempt,
        reason: Reason,
    ) -> Result<Step, CompactionError> {
        if !attempt.landed.folds.is_empty() {
            let now = match self.occupancy(session, &attempt.situation) {
                Ok(now) => now,
                Err(error) => return Err(error.with(&attempt.landed)),
            };
            return match attempt.plan.filter(|_| self.rules.progress && attempt.kind.must_progress()) {
                Some(plan) => self.no_progress(session, attempt, plan, now),
                None => done(compacted(attempt, now)),
            };
        }
        if !attempt.landed.pruned.pruned.is_empty() {
            return done(Outcome::Pruned(attempt.landed.pruned));
        }
        done(Outcome::Unneeded(reason))
    }

    pub(super) fn least_gain(&self, before: Occupancy) -> u64 {
        // A total is far below 2^53, and the share is not negative.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let least = (before.estimate as f64 * self.policy.min_gain_ratio).ceil() as u64;
        least
    }

    pub(super) fn still_stalled(&self, session: &Session, situation: &Situation, due: Due) -> Option<Reason> {
        let stall = self.stall.as_ref()?;
        if stall.route != situation.route_in(session) || stall.window != situation.window_tokens() {
            return None;
        }
        let needed_tokens = situation.window_tokens().unwrap_or(due.tokens) / NEW_SHARE_AFTER_STALL;
        let new_tokens = self.meter.surface_tokens().saturating_sub(stall.surface_tokens);
        (new_tokens < needed_tokens).then_some(Reason::NoProgressYet { new_tokens, needed_tokens })
    }
}

pub(super) fn done(outcome: Outcome) -> Result<Step, CompactionError> {
    Ok(Step::Done(outcome))
}

fn compacted(attempt: Attempt, now: Occupancy) -> Outcome {
    Outcome::Compacted(Compacted {
        masked_secrets: attempt.landed.folds.iter().map(|fold| fold.masked_secrets).sum(),
        before_tokens: attempt.before.total,
        after_tokens: scaled(attempt.before, now),
        landed: attempt.landed,
    })
}

/// The total now in the terms of the total before: where the provider's figure was above the estimate, so will the next be. Where it was
/// below, the estimate stands until the provider has counted again, as a fold voids its figure.
pub(super) fn scaled(before: Occupancy, now: Occupancy) -> u64 {
    if before.total <= before.estimate {
        return now.total;
    }
    now.total.max(before.in_total(now.estimate))
}

pub(super) fn gained(before: Occupancy, now: Occupancy) -> u64 {
    before.estimate.saturating_sub(now.estimate)
}
