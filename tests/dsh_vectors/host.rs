//! Where the runner meets the parts of the crate that compact, prune and resolve settings. Results are JSON in the shape of the
//! vectors.

use arya_presets::{
    BaseEngine, Block, Cancellation, CancelledBy, CompactionEngine, CompactionError, CutRule, Failure as Cause, Frame,
    Kit, ManualHost, ManualRequest, Meter, MeterError, NodeRange, Outcome, Policy, PolicyError, PruneBudget, PrunePlan,
    PrunePolicy, Retain, Route, RuleSet, Session, SessionError, SinkError, Situation, Step, SummarizerError,
    SummaryFailure, SummaryReply, SummaryRequest, Trigger, TrimPolicy, WindowOrigin, compact_manual,
};
use serde_json::{Value, json};

use crate::script::{Request, Script, ScriptError, Signals};
use crate::vector::Strings;
use crate::world::World;

/// An error as the vectors compare it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure {
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    /// What was thrown, where it is no error: the reason of an abort.
    pub(crate) thrown: Option<Value>,
}

impl Failure {
    pub(crate) fn coded(code: &str, message: impl Into<String>) -> Self {
        Self { code: Some(code.into()), message: message.into(), thrown: None }
    }

    pub(crate) fn thrown(value: Value) -> Self {
        Self { thrown: Some(value), ..Self::default() }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut json = json!({ "message": self.message });
        if let Some(code) = &self.code {
            json["code"] = json!(code);
        }
        if let Some(thrown) = &self.thrown {
            json["thrown"] = thrown.clone();
        }
        json
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::coded(error.code(), error.to_string())
    }
}

impl From<MeterError> for Failure {
    fn from(error: MeterError) -> Self {
        Self { message: error.to_string(), ..Self::default() }
    }
}

impl From<SinkError> for Failure {
    fn from(error: SinkError) -> Self {
        Self { message: error.to_string(), ..Self::default() }
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Self {
        Self { message: error.to_string(), ..Self::default() }
    }
}

pub(crate) type Answer<T> = Result<T, Failure>;

/// What pruning makes of the content of a result.
#[derive(Debug)]
pub(crate) struct PrunedContent {
    pub(crate) chars_before: u64,
    /// The new content and its characters; none when it is within budget.
    pub(crate) pruned: Option<(Vec<Block>, u64)>,
}

/// What the vectors of `compactIfNeeded` arrange.
#[derive(Debug)]
pub(crate) struct Automatic<'a> {
    /// `pressure` or `context-overflow`.
    pub(crate) trigger: &'a str,
    /// Window by provider; null where it is unknown.
    pub(crate) windows: &'a Value,
    /// The pruner's settings; none where there is no pruner.
    pub(crate) pruner: Option<&'a Value>,
    /// The engine's settings, sparse.
    pub(crate) config: &'a Value,
}

/// The engine's settings, defaults filled in.
pub(crate) fn resolve_config(config: &Value) -> Answer<Value> {
    Ok(Policy::from_harness_config(config)?.to_harness_config())
}

/// The pruner's settings, defaults filled in.
pub(crate) fn resolve_prune_config(config: &Value) -> Answer<Value> {
    let trim = TrimPolicy::from_harness_config(config)?;
    Ok(json!({ "thresholdChars": trim.threshold_chars, "headChars": trim.head_chars, "tailChars": trim.tail_chars }))
}

/// The engine's settings for a route.
pub(crate) fn resolve_policy(config: &Value, target: &Route) -> Answer<Value> {
    let mut resolved = Policy::from_harness_config(config)?.for_route(target).to_harness_config();
    if let Some(map) = resolved.as_object_mut() {
        map.shift_remove("auto");
        map.shift_remove("modelPolicies");
        map.insert("target".into(), json!(target));
    }
    Ok(resolved)
}

/// These settings scaled to a window, which may be out of bounds.
pub(crate) fn resolve_spec(config: &Value, target: &Route, window: &Value) -> Answer<Value> {
    let policy = Policy::from_harness_config(config)?.for_route(target);
    let levels = policy.harness_levels(target, window.as_i64().unwrap_or(0))?;
    let mut spec = resolve_policy(config, target)?;
    if let Some(map) = spec.as_object_mut() {
        map.shift_remove("retainRatio");
        map.insert("contextWindow".into(), window.clone());
        map.insert("thresholdTokens".into(), json!(levels.threshold_tokens));
        map.insert("retainTokens".into(), json!(levels.retain_tokens));
    }
    Ok(spec)
}

/// The run from the head that can be folded while a tail of this price stays.
pub(crate) fn select_range(session: &Session, meter: &mut Meter, retain_tokens: u64) -> Answer<Option<NodeRange>> {
    meter.sync(session)?;
    Ok(arya_presets::select_range(session, meter, retain_tokens, CutRule::ByCount)?)
}

/// The pruner's settings with the harness's own marker.
fn trim_policy(config: &Value, strings: &Strings) -> Answer<TrimPolicy> {
    let mut trim = TrimPolicy::from_harness_config(config)?;
    trim.marker = strings.get("PRUNE_MARKER").unwrap_or_default().to_owned();
    Ok(trim)
}

/// The trimmed content of a result.
pub(crate) fn prune_content(config: &Value, blocks: &[Block], strings: &Strings) -> Answer<PrunedContent> {
    let trimmed = arya_presets::trim_content(blocks, &trim_policy(config, strings)?);
    let chars: usize = blocks.iter().filter_map(Block::as_text).map(|text| text.chars().count()).sum();
    Ok(PrunedContent {
        chars_before: chars as u64,
        pruned: trimmed.map(|trimmed| (trimmed.blocks, trimmed.chars_after as u64)),
    })
}

/// Every result trimmed.
pub(crate) fn prune_session(world: &mut World, config: &Value, strings: &Strings) -> Answer<Value> {
    let plan = PrunePlan::new(
        &world.session,
        &mut world.meter,
        &PrunePolicy::trimming(trim_policy(config, strings)?),
        PruneBudget::default(),
    )?;
    let report = plan.apply(&mut world.session, 0).map_err(|(error, _)| error)?;
    let pruned: Vec<Value> = report
        .pruned
        .iter()
        .map(|pruned| {
            json!({
                "originalSeq": pruned.original_seq, "replacementSeq": pruned.replacement_seq, "callId": pruned.call_id,
                "charsBefore": pruned.chars_before, "charsAfter": pruned.chars_after,
            })
        })
        .collect();
    Ok(json!({ "pruned": pruned, "charsRemoved": report.chars_removed() }))
}

/// An engine under the harness's rules, with the harness's framing.
fn engine(policy: Policy, strings: &Strings) -> Answer<BaseEngine> {
    let mut kit = Kit::base();
    kit.frame = Frame {
        opening: strings.get("FRAMING_OPEN").unwrap_or_default().to_owned(),
        closing: strings.get("FRAMING_CLOSE").unwrap_or_default().to_owned(),
        tag: "compacted-summary".into(),
    };
    BaseEngine::new(policy, kit, RuleSet::Harness)
        .map_err(|error| Failure { message: error.to_string(), ..Failure::default() })
}

/// Folds a run, inside a turn.
pub(crate) fn compact_region(world: &mut World, range: NodeRange, strings: &Strings) -> Answer<Option<Value>> {
    let trigger = Trigger::Region { start: range.start, end: range.end };
    drive(
        world,
        engine(Policy { prune: PrunePolicy::off(), ..Policy::default() }, strings)?,
        trigger,
        &Situation::new(),
    )
}

/// The automatic path; none when nothing was to be done.
pub(crate) fn compact_if_needed(
    world: &mut World,
    automatic: &Automatic<'_>,
    strings: &Strings,
) -> Answer<Option<Value>> {
    let mut policy = Policy::from_harness_config(automatic.config)?;
    policy.prune = match automatic.pruner {
        Some(config) => PrunePolicy::trimming(trim_policy(config, strings)?),
        None => PrunePolicy::off(),
    };
    let trigger = match automatic.trigger {
        "pressure" => Trigger::Pressure,
        _ => Trigger::Overflow { reported: None },
    };
    // The log's route decides; what the agent is set to does not.
    let mut situation = Situation::new();
    if let Some(header) = world.session.request_header() {
        let window = automatic.windows.get(&header.config.provider).and_then(Value::as_u64);
        situation = situation.window(window.unwrap_or(0), WindowOrigin::Host);
    }
    drive(world, engine(policy, strings)?, trigger, &situation)
}

/// Begins, hands each request to the script, and resumes.
fn drive(world: &mut World, mut engine: BaseEngine, trigger: Trigger, situation: &Situation) -> Answer<Option<Value>> {
    let mut thrown = None;
    let mut step = engine.begin(&mut world.session, trigger, situation);
    loop {
        step = match step {
            Ok(Step::Done(Outcome::Compacted(_))) => return Ok(world.landed()),
            Ok(Step::Done(_)) => return Ok(None),
            Ok(Step::Summarize(pending)) => {
                let reply = world.script.call(&mut world.session, &request_of(pending.request()));
                let reply = reply_of(reply, &mut thrown);
                engine.resume(&mut world.session, pending, reply)
            }
            Err(error) => return Err(failure_of(&error, thrown)),
        }
    }
}

fn request_of(request: &SummaryRequest) -> Request {
    let header = request.header();
    Request {
        message_ids: request.messages().iter().map(|message| message.id.clone()).collect(),
        system: header.and_then(|header| header.system.clone()).filter(|system| !system.is_empty()),
        tools: header.and_then(|header| header.tools.clone()).filter(|tools| !tools.is_empty()),
    }
}

fn reply_of(
    reply: Result<crate::script::Reply, ScriptError>,
    thrown: &mut Option<Value>,
) -> Result<SummaryReply, SummarizerError> {
    match reply {
        Ok(reply) => {
            let mut summary = SummaryReply::text(reply.provider, reply.model, "");
            summary.content = reply.summary;
            summary.max_tokens = reply.max_tokens;
            summary.usage = reply.usage;
            summary.raw_output = reply.raw_output;
            if let Some(call) = reply.llm_stream_call {
                summary.extra.insert("llmStreamCall", call);
            }
            Ok(summary)
        }
        Err(ScriptError::Thrown(value)) => {
            let message = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            *thrown = Some(value);
            Err(SummarizerError::other(message))
        }
        Err(ScriptError::Error { message, cause }) => {
            let cause = cause.map(|cause| Box::new(SummarizerError::other(cause)) as _);
            Err(SummarizerError::Other { message, cause })
        }
    }
}

fn failure_of(error: &CompactionError, thrown: Option<Value>) -> Failure {
    match &error.failure {
        Cause::Cancelled { by: CancelledBy::Caller, reason } => Failure::thrown(json!(reason)),
        Cause::Summary(SummaryFailure::Summarizer(_)) if thrown.is_some() => {
            Failure { thrown, ..Failure::coded(error.code(), error.to_string()) }
        }
        _ => Failure::coded(error.code(), error.to_string()),
    }
}

/// The host that the vectors of `compactNow` arrange.
struct VectorHost<'w> {
    script: &'w mut Script,
    signals: Signals,
    maintenance: &'w mut crate::world::Maintenance,
}

impl ManualHost for VectorHost<'_> {
    fn claim_idle(&mut self) -> bool {
        self.maintenance.claim()
    }

    fn release(&mut self) {
        self.maintenance.release();
    }

    fn summarize(&mut self, session: &mut Session, request: &SummaryRequest) -> Result<SummaryReply, SummarizerError> {
        reply_of(self.script.call(session, &request_of(request)), &mut None)
    }

    fn cancellation(&self) -> Option<Cancellation> {
        let text = |reason: Value| reason.as_str().map_or_else(|| reason.to_string(), str::to_owned);
        let caller = self.signals.caller().map(|reason| Cancellation { by: CancelledBy::Caller, reason: text(reason) });
        caller.or_else(|| {
            self.signals.agent().map(|reason| Cancellation { by: CancelledBy::Agent, reason: text(reason) })
        })
    }
}

/// The manual path, with signals, idle claim and flush.
pub(crate) fn compact_now(world: &mut World, command_id: Option<&str>, strings: &Strings) -> Answer<Option<Value>> {
    let mut engine =
        engine(Policy { retain: Retain::Tokens(0), prune: PrunePolicy::off(), ..Policy::default() }, strings)?;
    let request = ManualRequest { instructions: None, command_id: command_id.map(str::to_owned) };
    let mut host =
        VectorHost { script: &mut world.script, signals: world.signals.clone(), maintenance: &mut world.maintenance };
    let result = compact_manual(&mut engine, &mut world.session, request, &Situation::new(), &mut host);
    match result {
        Ok(Outcome::Compacted(_)) => Ok(world.landed()),
        Ok(_) => Ok(None),
        Err(error) => Err(failure_of(&error, None)),
    }
}
