//! The engine: decides whether a trigger is due, prunes, and chooses what to fold.

use std::sync::Arc;

use super::correction::Correction;
use super::error::{Busy, CompactionError, Failure};
use super::extras::ExtraSection;
use super::hooks::CompactionHooks;
use super::outcome::{Compacted, Landed, Outcome, Reason};
use super::pending::{Attempt, Occupancy, Pending};
use super::range::{at_whole_turn, checked_run, select_cut};
use super::{Abandon, CompactionEngine, Step, Trigger, TriggerKind};
use crate::kit::{Kit, KitError};
use crate::meter::{Measurement, Meter, Pricing, Surroundings, total};
use crate::policy::{BudgetScope, Due, Level, Levels, Plan, Policy, PolicyError, RuleSet, Rules, Situation, Unsent};
use crate::pruner::{PruneBudget, PrunePlan};
use crate::session::{EventData, NodeRange, Route, Seq, Session};
use crate::summarizer::{SummarizerError, SummaryReply};

/// Why an engine could not be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A knob cannot be as it is.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The kit cannot work.
    #[error(transparent)]
    Kit(#[from] KitError),
}

/// The output caps under which no answer can be as long as the policy or the kit demands.
pub(crate) fn floors_above_caps(policy: &Policy, kit: &Kit) -> Vec<KitError> {
    let min_body_tokens = policy.min_body_tokens.unwrap_or(kit.min_body_tokens);
    let of_routes = policy
        .model_policies
        .iter()
        .enumerate()
        .filter_map(|(index, own)| Some((format!("model_policies[{index}].max_tokens"), own.max_tokens?)));
    std::iter::once(("max_tokens".to_owned(), policy.max_tokens))
        .chain(of_routes)
        .filter(|(_, max_tokens)| (1..min_body_tokens).contains(max_tokens))
        .map(|(cap, max_tokens)| KitError::FloorAboveCap { kit: kit.id.clone(), min_body_tokens, cap, max_tokens })
        .collect()
}

/// Gives ids to compactions and checkpoints.
pub trait IdSource: Send {
    /// Id of the compaction whose `compaction/start` gets the seq.
    fn compaction(&mut self, session: &Session, seq: Seq) -> String;
    /// Id of the checkpoint message of a compaction.
    fn checkpoint(&mut self, session: &Session, compaction_id: &str) -> String;
}

/// Ids made of the session's id and a counter: the position in its log, so that they stay unique across restarts.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogIds;

impl IdSource for LogIds {
    fn compaction(&mut self, session: &Session, seq: Seq) -> String {
        format!("{}-compaction-{seq}", session.id())
    }

    fn checkpoint(&mut self, _: &Session, compaction_id: &str) -> String {
        format!("{compaction_id}-checkpoint")
    }
}

/// After an attempt without progress: where it ended, so that the next one waits for something new.
#[derive(Debug, Clone)]
struct Stall {
    route: Option<Route>,
    window: Option<u64>,
    surface_tokens: u64,
}

/// Share of the window that must be new before another attempt after one without progress.
const NEW_SHARE_AFTER_STALL: u64 = 20;

/// The compaction engine.
///
/// What it asks for and how it frames the answer is its [`Kit`]; when and how much is its [`Policy`]; which behaviour in the
/// corners is its [`RuleSet`].
pub struct BaseEngine {
    pub(super) policy: Policy,
    pub(super) kit: Arc<Kit>,
    pub(super) rules: Rules,
    pub(super) meter: Meter,
    pub(super) ids: Box<dyn IdSource>,
    pub(super) hooks: Option<Box<dyn CompactionHooks>>,
    pub(super) sections: Vec<ExtraSection>,
    stall: Option<Stall>,
    correction: Option<Correction>,
}

impl std::fmt::Debug for BaseEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseEngine")
            .field("kit", &self.kit.id)
            .field("policy", &self.policy)
            .field("rules", &self.rules)
            .field("meter", self.meter.pricing())
            .finish_non_exhaustive()
    }
}

impl BaseEngine {
    /// An engine with a policy, a kit and a rule set. Under [`RuleSet::Harness`] prices come from the
    /// harness's heuristic, otherwise from [`default_counter`](crate::default_counter).
    pub fn new(policy: Policy, kit: Kit, rule_set: RuleSet) -> Result<Self, BuildError> {
        policy.validate()?;
        kit.validate()?;
        if let Some(fault) = floors_above_caps(&policy, &kit).into_iter().next() {
            return Err(fault.into());
        }
        let rules = rule_set.rules();
        let pricing = match rule_set {
            RuleSet::Harness => Pricing::harness(),
            RuleSet::Default => Pricing::default(),
        };
        Ok(Self {
            policy,
            kit: Arc::new(kit),
            rules,
            meter: Meter::new(pricing, rules.meter),
            ids: Box::new(LogIds),
            hooks: None,
            sections: Vec::new(),
            stall: None,
            correction: None,
        })
    }

    /// The engine of the preset `standard`: its policy, the base kit, the default rules.
    pub fn standard() -> Result<Self, BuildError> {
        Self::new(Policy::default(), Kit::base(), RuleSet::Default)
    }

    /// Prices with another counter or other media prices.
    pub fn with_pricing(mut self, pricing: Pricing) -> Self {
        self.meter = Meter::new(pricing, self.rules.meter);
        self
    }

    /// Takes ids from another source.
    pub fn with_ids(mut self, ids: Box<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Calls hooks around every summary.
    pub fn with_hooks(mut self, hooks: Box<dyn CompactionHooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Adds a section to every checkpoint.
    pub fn with_section(mut self, section: ExtraSection) -> Self {
        self.sections.push(section);
        self
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The kit.
    pub fn kit(&self) -> &Kit {
        &self.kit
    }

    /// How full the window is, in a situation. What overflows have taught about the estimate is added.
    pub fn measure(&mut self, session: &Session, situation: &Situation) -> Result<Measurement, CompactionError> {
        let mut measured = self.measure_uncorrected(session, situation)?;
        if let Some(correction) = &self.correction {
            correction.apply(situation.route_in(session).as_ref(), &mut measured);
        }
        Ok(measured)
    }

    fn measure_uncorrected(
        &mut self,
        session: &Session,
        situation: &Situation,
    ) -> Result<Measurement, CompactionError> {
        let header = situation.header_over(session);
        let unsent_tokens = match &situation.unsent {
            Unsent::Nothing => 0,
            Unsent::Tokens(tokens) => *tokens,
            Unsent::Message(message) => self.meter.pricing().message(message),
        };
        let around = if self.rules.use_situation {
            Surroundings {
                header: header.as_ref(),
                usage: situation.usage.as_ref(),
                window: situation.window_tokens(),
                unsent_tokens,
            }
        } else {
            Surroundings::default()
        };
        self.meter.measure_in(session, &around).map_err(|error| Failure::from(error).into())
    }

    /// The levels of the engine's policy in a situation, for an explanation.
    pub fn levels(&self, session: &Session, situation: &Situation) -> Result<Levels, PolicyError> {
        let policy = self.policy_for(session, situation);
        Levels::new(&policy, situation.window.as_ref(), situation.max_output)
    }

    fn policy_for(&self, session: &Session, situation: &Situation) -> Policy {
        match situation.route_in(session) {
            Some(route) => self.policy.for_route(&route),
            None => Policy { model_policies: Vec::new(), ..self.policy.clone() },
        }
    }

    pub(super) fn occupancy(&mut self, session: &Session, situation: &Situation) -> Result<Occupancy, CompactionError> {
        let measured = self.measure(session, situation)?;
        let estimate = total([measured.header_tokens, measured.surface_tokens, measured.unsent_tokens].into_iter());
        Ok(Occupancy { total: measured.total_tokens, estimate })
    }

    /// Tokens that no fold can free: system prompt, tools, unsent input.
    fn overhead(&mut self, session: &Session, situation: &Situation) -> Result<u64, CompactionError> {
        let measured = self.measure(session, situation)?;
        Ok(measured.header_tokens.saturating_add(measured.unsent_tokens))
    }

    /// The check before a request, after a turn, or on a switch of the model.
    fn when_due(
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
            .then(|| levels.due_by_bytes(before.total, request_bytes(session, situation)))
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
        self.refuse_overhead(session, situation, plan)?;
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
    fn when_harness_due(&mut self, session: &mut Session, situation: &Situation) -> Result<Step, CompactionError> {
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
    fn on_overflow(
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
            self.refuse_overhead(session, situation, plan)?;
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

    fn on_request(
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

    fn on_region(
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

    fn ahead_of_need(&mut self, session: &mut Session, situation: &Situation) -> Result<Step, CompactionError> {
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
    fn automatic_cut(&mut self, session: &Session, attempt: &Attempt) -> Result<usize, CompactionError> {
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
    fn is_folded_already(&self, session: &Session, cut: usize) -> bool {
        self.rules.progress && session.nodes().iter().take(cut).all(|node| node.message.source.is_checkpoint())
    }

    /// Reduces what needs no model; whether anything was reduced.
    fn prune(&mut self, session: &mut Session, attempt: &mut Attempt) -> Result<bool, CompactionError> {
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

    fn least_gain(&self, before: Occupancy) -> u64 {
        // A total is far below 2^53, and the share is not negative.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let least = (before.estimate as f64 * self.policy.min_gain_ratio).ceil() as u64;
        least
    }

    fn still_stalled(&self, session: &Session, situation: &Situation, due: Due) -> Option<Reason> {
        let stall = self.stall.as_ref()?;
        if stall.route != situation.route_in(session) || stall.window != situation.window_tokens() {
            return None;
        }
        let needed_tokens = situation.window_tokens().unwrap_or(due.tokens) / NEW_SHARE_AFTER_STALL;
        let new_tokens = self.meter.surface_tokens().saturating_sub(stall.surface_tokens);
        (new_tokens < needed_tokens).then_some(Reason::NoProgressYet { new_tokens, needed_tokens })
    }

    fn refuse_overhead(&mut self, session: &Session, situation: &Situation, plan: Plan) -> Result<(), CompactionError> {
        let overhead_tokens = self.overhead(session, situation)?;
        if overhead_tokens < plan.target_tokens {
            return Ok(());
        }
        Err(Failure::Overhead { overhead_tokens, target_tokens: plan.target_tokens }.into())
    }
}

impl CompactionEngine for BaseEngine {
    fn begin(
        &mut self,
        session: &mut Session,
        trigger: Trigger,
        situation: &Situation,
    ) -> Result<Step, CompactionError> {
        self.close_lost(session, situation)?;
        let ends = session.nodes().first().zip(session.nodes().last()).map(|(first, last)| (first.seq, last.seq));
        let step = match trigger {
            Trigger::Pressure | Trigger::ModelSwitch if self.rules.needs_turn_and_route => {
                self.when_harness_due(session, situation)
            }
            Trigger::Pressure => self.when_due(session, TriggerKind::Pressure, situation),
            Trigger::ModelSwitch => self.when_due(session, TriggerKind::ModelSwitch, situation),
            Trigger::PostTurn => self.when_due(session, TriggerKind::PostTurn, situation),
            Trigger::Overflow { reported } => self.on_overflow(session, reported, situation),
            Trigger::Manual { instructions, command_id } => {
                self.on_request(session, instructions, command_id, situation)
            }
            Trigger::Region { start, end } => self.on_region(session, Some(NodeRange { start, end }), situation),
            Trigger::UpTo(end) => self.on_region(session, ends.map(|(start, _)| NodeRange { start, end }), situation),
            Trigger::From(start) => self.on_region(session, ends.map(|(_, end)| NodeRange { start, end }), situation),
            Trigger::Precompute => self.ahead_of_need(session, situation),
            Trigger::Commit(prepared) => self.commit_prepared(session, *prepared, situation),
        };
        match &step {
            Ok(Step::Done(outcome)) => tracing::debug!(outcome = outcome.code(), "compaction considered"),
            Ok(Step::Summarize(pending)) => {
                tracing::info!(nodes = pending.span().len(), tokens = pending.span_tokens(), "summary wanted");
            }
            Err(error) => tracing::warn!(code = error.code(), "compaction failed"),
        }
        step
    }

    fn resume(
        &mut self,
        session: &mut Session,
        pending: Pending,
        reply: Result<SummaryReply, SummarizerError>,
    ) -> Result<Step, CompactionError> {
        let step = self.take_answer(session, pending, reply);
        match &step {
            Ok(Step::Done(outcome)) => tracing::info!(outcome = outcome.code(), "compaction done"),
            Ok(Step::Summarize(pending)) => tracing::info!(nodes = pending.span().len(), "another summary wanted"),
            Err(error) => tracing::warn!(code = error.code(), "compaction failed"),
        }
        step
    }

    fn abandon(&mut self, session: &mut Session, pending: Pending, why: Abandon) -> Result<(), CompactionError> {
        self.give_up(session, pending, &why)
    }
}

/// Bytes of the next request: its messages, system prompt and tools as JSON.
fn request_bytes(session: &Session, situation: &Situation) -> u64 {
    let unsent = match &situation.unsent {
        Unsent::Message(message) => json_bytes(message),
        _ => 0,
    };
    let header = situation.header_over(session).or_else(|| session.request_header().cloned());
    let messages = session.messages().map(|message| json_bytes(message.as_ref()));
    total(messages.chain([unsent, header.as_ref().map_or(0, json_bytes)]))
}

/// The length of a value as JSON, which is counted and not kept.
fn json_bytes(value: &impl serde::Serialize) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written as JSON cannot have entered the log.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

fn done(outcome: Outcome) -> Result<Step, CompactionError> {
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

/// The total now in the terms of the total before: where the provider's figure was above the estimate, so will the next be.
fn scaled(before: Occupancy, now: Occupancy) -> u64 {
    if before.total <= before.estimate || before.estimate == 0 {
        return now.total;
    }
    let scaled = u128::from(now.estimate) * u128::from(before.total) / u128::from(before.estimate);
    now.total.max(u64::try_from(scaled).unwrap_or(u64::MAX))
}

fn gained(before: Occupancy, now: Occupancy) -> u64 {
    before.estimate.saturating_sub(now.estimate)
}
