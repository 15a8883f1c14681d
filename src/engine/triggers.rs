//! What each trigger asks for: whether it is due, at which level, and what an attempt may use.

use super::base::BaseEngine;
use super::correction::Correction;
use super::error::{Busy, CompactionError, Failure};
use super::outcome::{Landed, Outcome, Reason};
use super::pending::{Attempt, Occupancy};
use super::progress::{done, gained, scaled};
use super::range::{checked_run, select_cut};
use super::{Step, TriggerKind};
use crate::meter::total;
use crate::policy::{BudgetScope, Level, Levels, Plan, Policy, PolicyError, Situation};
use crate::session::{EventData, NodeRange, Route, Session};

impl BaseEngine {
    /// The check before a request, after a turn, or on a switch of the model.
    pub(super) fn when_due(
        &mut self,
        session: &mut Session,
        kind: TriggerKind,
        situation: &Situation,
    ) -> Result<Step, CompactionError> {
        if !self.policy.auto {
            return done(Outcome::Unneeded(Reason::Disabled));
        }
        let before = self.occupancy(session, situation)?;
        if let Some(open) = session.open_compaction() {
            return Err(Failure::locked(&open.compaction_id).into());
        }
        let policy = self.policy_for(session, situation);
        let levels = Levels::new(&policy, situation.window.as_ref(), situation.max_output).map_err(Failure::from)?;
        let by_tokens = match (kind, policy.budget_scope) {
            (TriggerKind::PostTurn, BudgetScope::Thread) => levels.due_after_turn(before.total),
            (TriggerKind::PostTurn, BudgetScope::Turn) => {
                levels.due_after_growth(before.total, self.turn_growth(session, before.total))
            }
            _ => levels.due_under_pressure(before.total),
        };
        let by_bytes = (policy.max_request_bytes > 0)
            .then(|| levels.due_by_bytes(before.total, self.request_bytes.of_next(session, situation)))
            .flatten();
        let Some(due) = by_tokens.into_iter().chain(by_bytes).min_by_key(|due| due.tokens) else {
            let reason = match (levels.trigger(), policy.absolute_token_limit) {
                (None, 0) => Reason::WindowUnknown,
                (trigger_tokens, _) => Reason::BelowLevel { total_tokens: before.total, trigger_tokens },
            };
            return done(Outcome::Unneeded(reason));
        };
        if let Some(reason) = self.still_stalled(session, situation, due) {
            return done(Outcome::Unneeded(reason));
        }
        let plan = levels.plan(due);
        self.refuse_overhead(session, situation, plan, before)?;
        let mut attempt = self.attempt(&policy, kind, situation, before);
        attempt.plan = Some(plan);
        attempt.retain = attempt.in_estimate(plan.tail_tokens);
        if self.prune(session, &mut attempt)? {
            let now = self.occupancy(session, situation).map_err(|error| error.with(&attempt.landed))?;
            if now.total < due.tokens {
                return done(Outcome::Pruned(attempt.landed.pruned));
            }
        }
        if due.level == Level::PreWarm && policy.min_fold_tokens > 0 {
            let cut = self.automatic_cut(session, &attempt).map_err(|error| error.with(&attempt.landed))?;
            let most_tokens = total(session.nodes().iter().take(cut).map(|node| self.meter.price(node.seq)));
            if most_tokens < policy.min_fold_tokens {
                let reason = Reason::BelowMinFold { most_tokens, least_tokens: policy.min_fold_tokens };
                return self.finish(session, attempt, reason);
            }
        }
        self.next_fold(session, attempt)
    }

    /// Tokens that were added since the newest turn's first step; all of them where the log marks no step.
    fn turn_growth(&self, session: &Session, total: u64) -> u64 {
        let newest_turn =
            session.events().iter().rev().take_while(|event| !matches!(event.data, EventData::TurnStart(_)));
        let first_step = newest_turn.filter(|event| matches!(event.data, EventData::StepStart(_))).last();
        match first_step {
            Some(event) => self.meter.surface_tokens().saturating_sub(self.meter.surface_tokens_at(event.seq)),
            None => total,
        }
    }

    /// The harness's check before a request.
    pub(super) fn when_harness_due(
        &mut self,
        session: &mut Session,
        situation: &Situation,
    ) -> Result<Step, CompactionError> {
        let Some(route) =
            session.request_header().map(|header| Route::new(&header.config.provider, &header.config.model))
        else {
            return done(Outcome::Unneeded(Reason::NoRoute));
        };
        let before = self.occupancy(session, situation)?;
        if let Some(open) = session.open_compaction() {
            return Err(Failure::locked(&open.compaction_id).into());
        }
        let window = situation
            .window_tokens()
            .ok_or(Failure::Policy(PolicyError::WindowUnknown { route: route.to_string() }))?;
        let policy = self.policy.for_route(&route);
        let levels = policy.harness_levels(&route, i64::try_from(window).unwrap_or(i64::MAX)).map_err(Failure::from)?;
        let below = |total: u64| total < levels.threshold_tokens;
        if below(before.total) {
            let reason =
                Reason::BelowLevel { total_tokens: before.total, trigger_tokens: Some(levels.threshold_tokens) };
            return done(Outcome::Unneeded(reason));
        }
        let mut attempt = self.attempt(&policy, TriggerKind::Pressure, situation, before);
        attempt.threshold = Some(levels.threshold_tokens);
        attempt.retain = levels.retain_tokens;
        if self.prune(session, &mut attempt)? {
            let now = self.occupancy(session, situation).map_err(|error| error.with(&attempt.landed))?;
            if below(now.total) {
                return done(Outcome::Pruned(attempt.landed.pruned));
            }
        }
        self.next_fold(session, attempt)
    }

    /// The provider refused a request as too large.
    pub(super) fn on_overflow(
        &mut self,
        session: &mut Session,
        reported: Option<u64>,
        situation: &Situation,
    ) -> Result<Step, CompactionError> {
        self.learn_from_overflow(session, reported, situation)?;
        let mut before = self.occupancy(session, situation)?;
        before.total = before.total.max(reported.unwrap_or(0));
        let policy = self.policy_for(session, situation);
        let mut attempt = self.attempt(&policy, TriggerKind::Overflow, situation, before);
        attempt.folds_left = 1;
        // The lock is checked before anything is pruned. Where there is nothing to fold, there is nothing to wait for either.
        if let Some(open) = session.open_compaction() {
            let locked = Failure::locked(&open.compaction_id);
            return match self.automatic_cut(session, &attempt)? {
                0 => done(Outcome::Unneeded(Reason::NothingToFold)),
                _ => Err(locked.into()),
            };
        }
        if self.rules.progress {
            let levels =
                Levels::new(&policy, situation.window.as_ref(), situation.max_output).map_err(Failure::from)?;
            let plan = levels.plan(levels.due_when_asked(before.total));
            self.refuse_overhead(session, situation, plan, before)?;
            attempt.plan = Some(plan);
        }
        if self.prune(session, &mut attempt)?
            && let Some(plan) = attempt.plan
        {
            let now = self.occupancy(session, situation).map_err(|error| error.with(&attempt.landed))?;
            if scaled(before, now) <= plan.target_tokens && gained(before, now) >= self.least_gain(before) {
                return done(Outcome::Pruned(attempt.landed.pruned));
            }
        }
        self.next_fold(session, attempt)
    }

    /// The provider counted more than was estimated: what it reported, or else at least the window less the answer's room.
    fn learn_from_overflow(
        &mut self,
        session: &Session,
        reported: Option<u64>,
        situation: &Situation,
    ) -> Result<(), CompactionError> {
        if !self.rules.use_situation {
            return Ok(());
        }
        let answer_tokens = situation.max_output.unwrap_or(0);
        let Some(counted) = reported.or_else(|| Some(situation.window_tokens()?.saturating_sub(answer_tokens))) else {
            return Ok(());
        };
        let measured = self.measure_uncorrected(session, situation)?;
        if let Some(lesson) = Correction::learn(situation.route_in(session), &measured, counted) {
            self.correction = Some(lesson.or(self.correction.take()));
        }
        Ok(())
    }

    pub(super) fn on_request(
        &mut self,
        session: &mut Session,
        instructions: Option<String>,
        command_id: Option<String>,
        situation: &Situation,
    ) -> Result<Step, CompactionError> {
        let mut attempt = self.asked(session, TriggerKind::Manual, situation)?;
        attempt.instructions = instructions.filter(|text| !text.trim().is_empty());
        attempt.command_id = command_id;
        let cut = select_cut(session, &self.meter, attempt.retain, self.rules.cuts).map_err(Failure::Range)?;
        if cut == 0 || self.is_folded_already(session, cut) {
            return done(Outcome::Unneeded(Reason::NothingToFold));
        }
        if let Some(open) = session.open_compaction() {
            return Err(Failure::locked(&open.compaction_id).into());
        }
        if let Some(turn) = session.open_turn() {
            return Err(Failure::Busy { why: Busy::OpenTurn { turn }, prepared: None }.into());
        }
        self.open(session, attempt, 0, cut - 1)
    }

    pub(super) fn on_region(
        &mut self,
        session: &mut Session,
        range: Option<NodeRange>,
        situation: &Situation,
    ) -> Result<Step, CompactionError> {
        let attempt = self.asked(session, TriggerKind::Region, situation)?;
        let Some(range) = range else { return done(Outcome::Unneeded(Reason::NothingToFold)) };
        let (first, last) = checked_run(session, range, self.rules.cuts)?;
        if let Some(open) = session.open_compaction() {
            return Err(Failure::locked(&open.compaction_id).into());
        }
        self.open(session, attempt, first, last)
    }

    pub(super) fn ahead_of_need(
        &mut self,
        session: &mut Session,
        situation: &Situation,
    ) -> Result<Step, CompactionError> {
        if !self.policy.auto {
            return done(Outcome::Unneeded(Reason::Disabled));
        }
        let mut attempt = self.asked(session, TriggerKind::Precompute, situation)?;
        attempt.retain = attempt.plan.map_or(0, |plan| attempt.in_estimate(plan.tail_tokens));
        self.next_fold(session, attempt)
    }

    /// An attempt that somebody asked for: it keeps the newest unit and needs no level.
    fn asked(
        &mut self,
        session: &Session,
        kind: TriggerKind,
        situation: &Situation,
    ) -> Result<Attempt, CompactionError> {
        let before = self.occupancy(session, situation)?;
        let policy = self.policy_for(session, situation);
        let mut attempt = self.attempt(&policy, kind, situation, before);
        attempt.folds_left = 1;
        if self.rules.fit_window {
            let levels =
                Levels::new(&policy, situation.window.as_ref(), situation.max_output).map_err(Failure::from)?;
            attempt.plan = Some(levels.plan(levels.due_when_asked(before.total)));
        }
        Ok(attempt)
    }

    fn attempt(&self, policy: &Policy, kind: TriggerKind, situation: &Situation, before: Occupancy) -> Attempt {
        Attempt {
            kind,
            situation: situation.clone(),
            instructions: None,
            command_id: None,
            plan: None,
            threshold: None,
            retain: 0,
            is_tight: false,
            before,
            folds_left: policy.compaction_retries.saturating_add(1),
            answers_left: policy.summary_retries.unwrap_or(self.kit.summary_retries).saturating_add(1),
            landed: Landed::default(),
        }
    }

    /// Where system prompt, tools and unsent input alone reach the target, no fold could help.
    fn refuse_overhead(
        &mut self,
        session: &Session,
        situation: &Situation,
        plan: Plan,
        before: Occupancy,
    ) -> Result<(), CompactionError> {
        let measured = self.measure(session, situation)?;
        let estimate = measured.header_tokens.saturating_add(measured.unsent_tokens);
        let overhead_tokens = scaled(before, Occupancy { total: estimate, estimate });
        if overhead_tokens < plan.target_tokens {
            return Ok(());
        }
        Err(Failure::Overhead { overhead_tokens, target_tokens: plan.target_tokens }.into())
    }
}
