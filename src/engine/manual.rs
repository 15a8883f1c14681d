//! A person's compaction, with the care that a command needs: the host must be idle, may cancel, and wants the result durable.

use super::error::{Busy, CompactionError, Failure};
use super::{Abandon, CompactionEngine, Outcome, Step, Trigger};
use crate::policy::Situation;
use crate::session::{Session, SinkError};
use crate::summarizer::{Summarizer, SummarizerError, SummaryReply, SummaryRequest};

/// Who cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelledBy {
    /// Whoever called for the compaction.
    Caller,
    /// The agent that it works on.
    Agent,
    /// The summariser, or whoever drove it.
    Summarizer,
}

/// A cancellation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancellation {
    /// Who cancelled.
    pub by: CancelledBy,
    /// Why.
    pub reason: String,
}

/// What a host does around a person's compaction.
pub trait ManualHost {
    /// Claims the host for maintenance: no turn begins until [`release`](Self::release). False where it is not idle.
    fn claim_idle(&mut self) -> bool;

    /// Ends the claim. Called once for each claim that was granted.
    fn release(&mut self);

    /// Has the summary written. The session is at hand, so that the host can go on appending meanwhile.
    fn summarize(&mut self, session: &mut Session, request: &SummaryRequest) -> Result<SummaryReply, SummarizerError>;

    /// Whether somebody has cancelled so far.
    fn cancellation(&self) -> Option<Cancellation> {
        None
    }

    /// Makes the log durable.
    fn flush(&mut self, session: &mut Session) -> Result<(), SinkError> {
        session.flush()
    }
}

/// A host that is always idle and never cancels: a summariser alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unattended<S>(pub S);

impl<S: Summarizer> ManualHost for Unattended<S> {
    fn claim_idle(&mut self) -> bool {
        true
    }

    fn release(&mut self) {}

    fn summarize(&mut self, _: &mut Session, request: &SummaryRequest) -> Result<SummaryReply, SummarizerError> {
        self.0.summarize(request)
    }
}

/// What a person asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManualRequest {
    /// What the summary should heed, in the person's words.
    pub instructions: Option<String>,
    /// Id of the command; kept with every event of the compaction.
    pub command_id: Option<String>,
}

/// Runs a person's compaction.
///
/// A caller that has cancelled before is heeded before anything is touched. Then the host is claimed; a bracket that was opened
/// and closed is flushed, whether it holds a fold or an error. Of several failures the caller's cancellation wins, then a failed
/// commit, then the agent's cancellation, then every other, and last a failed flush.
pub fn compact_manual(
    engine: &mut dyn CompactionEngine,
    session: &mut Session,
    request: ManualRequest,
    situation: &Situation,
    host: &mut dyn ManualHost,
) -> Result<Outcome, CompactionError> {
    if let Some(cancellation) = host.cancellation().filter(|cancellation| cancellation.by == CancelledBy::Caller) {
        return Err(cancelled(cancellation).into());
    }
    if !host.claim_idle() {
        return Err(Failure::Busy { why: Busy::HostNotIdle, prepared: None }.into());
    }
    let claim = Claim { host };
    if let Some(cancellation) = claim.host.cancellation() {
        return Err(cancelled(cancellation).into());
    }
    let before = session.revision();
    let result = run(engine, session, request, situation, claim.host);
    let closed = session.revision() > before && session.open_compaction().is_none();
    let flushed = if closed { claim.host.flush(session) } else { Ok(()) };
    let cancellation = claim.host.cancellation();
    match (result, cancellation) {
        (Ok(outcome), Some(cancellation)) if cancellation.by == CancelledBy::Caller => {
            Err(after(cancelled(cancellation), outcome))
        }
        (Err(error), Some(cancellation))
            if cancellation.by == CancelledBy::Caller || !matches!(error.failure, Failure::Commit(_)) =>
        {
            Err(CompactionError { failure: cancelled(cancellation), landed: error.landed })
        }
        (Ok(outcome), _) => match flushed {
            Ok(()) => Ok(outcome),
            Err(error) => Err(after(Failure::Persistence(error), outcome)),
        },
        (Err(error), _) => Err(error),
    }
}

fn run(
    engine: &mut dyn CompactionEngine,
    session: &mut Session,
    request: ManualRequest,
    situation: &Situation,
    host: &mut dyn ManualHost,
) -> Result<Outcome, CompactionError> {
    let trigger = Trigger::Manual { instructions: request.instructions, command_id: request.command_id };
    let mut step = engine.begin(session, trigger, situation)?;
    loop {
        match step {
            Step::Done(outcome) => return Ok(outcome),
            Step::Summarize(pending) => {
                let reply = host.summarize(session, pending.request());
                step = match (host.cancellation(), reply) {
                    (Some(cancellation), Ok(_)) => {
                        engine.abandon(session, pending, Abandon::Other(cancellation.reason.clone()))?;
                        return Err(cancelled(cancellation).into());
                    }
                    (_, reply) => engine.resume(session, pending, reply)?,
                };
            }
        }
    }
}

fn cancelled(cancellation: Cancellation) -> Failure {
    Failure::Cancelled { by: cancellation.by, reason: cancellation.reason }
}

fn after(failure: Failure, outcome: Outcome) -> CompactionError {
    match outcome {
        Outcome::Compacted(compacted) => CompactionError::after(failure, compacted.landed),
        _ => failure.into(),
    }
}

/// Releases the host however the compaction ends, a panic of the summariser included.
struct Claim<'a> {
    host: &'a mut dyn ManualHost,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.host.release();
    }
}
