//! The engine: what it is built of, how full it says the window is, and which trigger goes where.

use std::sync::Arc;

use super::correction::Correction;
use super::error::{CompactionError, Failure};
use super::extras::ExtraSection;
use super::hooks::CompactionHooks;
use super::pending::{Occupancy, Pending};
use super::progress::Stall;
use super::request_bytes::RequestBytes;
use super::{Abandon, CompactionEngine, Step, Trigger, TriggerKind};
use crate::kit::{Kit, KitError};
use crate::meter::{Measurement, Meter, Pricing, Surroundings, total};
use crate::policy::{Levels, Policy, PolicyError, RuleSet, Rules, Situation, Unsent};
use crate::session::{NodeRange, Seq, Session};
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
    pub(super) stall: Option<Stall>,
    pub(super) correction: Option<Correction>,
    pub(super) request_bytes: RequestBytes,
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
        if let Some(fault) = kit.floors_above_caps(&policy).into_iter().next() {
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
            request_bytes: RequestBytes::default(),
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

    pub(super) fn measure_uncorrected(
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

    pub(super) fn policy_for(&self, session: &Session, situation: &Situation) -> Policy {
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
