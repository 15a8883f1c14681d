//! Where the runner meets the parts of the crate that compact, prune and resolve settings.
//!
//! Each function marked `TO CONNECT` answers [`Stop::NotBuilt`] until the crate has what it needs; everything around it is
//! written. Results are JSON in the shape of the vectors.

use arya_presets::{Block, Meter, MeterError, NodeRange, Route, Session, SessionError, SinkError};
use serde_json::{Value, json};

use crate::world::World;

/// What a handler answers when it needs a part of the crate that does not exist yet.
pub(crate) const NOT_BUILT: &str = "not built yet";

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

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Stop {
    NotBuilt,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

pub(crate) type Answer<T> = Result<T, Stop>;

/// What pruning makes of the content of a result.
#[derive(Debug)]
pub(crate) struct PrunedContent {
    pub(crate) chars_before: u64,
    /// The new content and its characters; none when it is within budget.
    pub(crate) pruned: Option<(Vec<Block>, u64)>,
}

/// What the vectors of `compactIfNeeded` arrange.
#[derive(Debug)]
#[expect(dead_code, reason = "read once the engine is connected")]
pub(crate) struct Automatic<'a> {
    /// `pressure` or `context-overflow`.
    pub(crate) trigger: &'a str,
    /// Window by provider; null where it is unknown.
    pub(crate) windows: &'a Value,
    /// The pruner's settings; none where there is no pruner.
    pub(crate) pruner: Option<&'a Value>,
    /// The engine's settings, sparse.
    pub(crate) config: &'a Value,
    /// The route that the agent is set to.
    pub(crate) agent: Option<Route>,
}

/// TO CONNECT: the engine's settings, defaults filled in.
pub(crate) fn resolve_config(_config: &Value) -> Answer<Value> {
    Err(Stop::NotBuilt)
}

/// TO CONNECT: the pruner's settings, defaults filled in.
pub(crate) fn resolve_prune_config(_config: &Value) -> Answer<Value> {
    Err(Stop::NotBuilt)
}

/// TO CONNECT: the engine's settings for a route.
pub(crate) fn resolve_policy(_config: &Value, _target: &Route) -> Answer<Value> {
    Err(Stop::NotBuilt)
}

/// TO CONNECT: these settings scaled to a window, which may be out of bounds.
pub(crate) fn resolve_spec(_config: &Value, _target: &Route, _window: &Value) -> Answer<Value> {
    Err(Stop::NotBuilt)
}

/// TO CONNECT: the run from the head that can be folded while a tail of this price stays.
pub(crate) fn select_range(_session: &Session, _meter: &mut Meter, _retain_tokens: u64) -> Answer<Option<NodeRange>> {
    Err(Stop::NotBuilt)
}

/// TO CONNECT: the trimmed content of a result.
pub(crate) fn prune_content(_config: &Value, _blocks: &[Block]) -> Answer<PrunedContent> {
    Err(Stop::NotBuilt)
}

/// TO CONNECT: every result trimmed; `{pruned: [...], charsRemoved}`.
pub(crate) fn prune_session(_world: &mut World, _config: &Value) -> Answer<Value> {
    Err(Stop::NotBuilt)
}

/// TO CONNECT: folds a run, inside a turn. Hand each summary request to [`World::summarize`]; [`World::landed`] is the result.
pub(crate) fn compact_region(_world: &mut World, _range: NodeRange) -> Answer<Option<Value>> {
    Err(Stop::NotBuilt)
}

/// TO CONNECT: the automatic path. As [`compact_region`]; none when nothing was to be done.
pub(crate) fn compact_if_needed(_world: &mut World, _automatic: &Automatic<'_>) -> Answer<Option<Value>> {
    Err(Stop::NotBuilt)
}

/// TO CONNECT: the manual path without what [`compact_now`] does around it.
fn manual(_world: &mut World, _command_id: Option<&str>) -> Answer<Option<Value>> {
    Err(Stop::NotBuilt)
}

/// The manual path with what is the host's: signals, the idle claim, the flush.
pub(crate) fn compact_now(world: &mut World, command_id: Option<&str>) -> Answer<Option<Value>> {
    if let Some(reason) = world.signals.caller() {
        return Err(Failure::thrown(reason).into());
    }
    world.maintenance.claim()?;
    let answer = match world.signals.agent() {
        Some(reason) => Err(cancelled(&reason)),
        None => manual(world, command_id),
    };
    // Drop this where the engine flushes by itself.
    let flushed = if world.closed_its_bracket() { world.session.flush() } else { Ok(()) };
    world.maintenance.release();
    if matches!(answer, Err(Stop::NotBuilt)) {
        return answer;
    }
    if let Some(reason) = world.signals.caller() {
        return Err(Failure::thrown(reason).into());
    }
    let answer = match world.signals.agent() {
        Some(reason) if answer.is_err() => Err(cancelled(&reason)),
        _ => answer,
    }?;
    flushed.map_err(|error| Failure::coded("persistence", error.to_string()))?;
    Ok(answer)
}

fn cancelled(reason: &Value) -> Stop {
    Failure::coded("cancelled", reason.to_string()).into()
}
