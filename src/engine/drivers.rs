//! Loops over begin and resume, for hosts that do not want to write them.
//!
//! Each closes the bracket when it is dropped or unwinds while a summary is being written.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::{CompactionError, Failure};
use super::manual::CancelledBy;
use super::{Abandon, CompactionEngine, Outcome, Pending, Step, Trigger};
use crate::policy::Situation;
use crate::session::Session;
use crate::summarizer::{AsyncSummarizer, BoxFuture, Summarizer};

/// Runs a compaction, blocking while the summary is written.
pub fn compact(
    engine: &mut dyn CompactionEngine,
    session: &mut Session,
    trigger: Trigger,
    situation: &Situation,
    summarizer: &mut dyn Summarizer,
) -> Result<Outcome, CompactionError> {
    let mut guard = Guard { engine, session, pending: None };
    let mut step = guard.engine.begin(guard.session, trigger, situation)?;
    loop {
        match step {
            Step::Done(outcome) => return Ok(outcome),
            Step::Summarize(pending) => {
                let reply = summarizer.summarize(guard.pending.insert(pending).request());
                step = match guard.pending.take() {
                    Some(pending) => guard.engine.resume(guard.session, pending, reply)?,
                    None => return Err(lost()),
                };
            }
        }
    }
}

/// Runs a compaction on whatever runtime polls the future. The session is held until it is done; to append meanwhile, use
/// [`compact_shared`].
pub fn compact_async<'a>(
    engine: &'a mut dyn CompactionEngine,
    session: &'a mut Session,
    trigger: Trigger,
    situation: &'a Situation,
    summarizer: &'a dyn AsyncSummarizer,
) -> BoxFuture<'a, Result<Outcome, CompactionError>> {
    Box::pin(async move {
        let mut guard = Guard { engine, session, pending: None };
        let mut step = guard.engine.begin(guard.session, trigger, situation)?;
        loop {
            match step {
                Step::Done(outcome) => return Ok(outcome),
                Step::Summarize(pending) => {
                    // Cheap: the messages are shared. The model's future borrows this copy and not the guard.
                    let request = pending.request().clone();
                    guard.pending = Some(pending);
                    let reply = summarizer.summarize(&request).await;
                    step = match guard.pending.take() {
                        Some(pending) => guard.engine.resume(guard.session, pending, reply)?,
                        None => return Err(lost()),
                    };
                }
            }
        }
    })
}

/// An engine and its session, to be shared between tasks.
pub struct Hosted {
    /// The engine.
    pub engine: Box<dyn CompactionEngine>,
    /// The session.
    pub session: Session,
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Runs a compaction and locks engine and session only at its beginning and after each answer, so that the host can append while
/// a summary is being written.
pub fn compact_shared(
    hosted: Arc<Mutex<Hosted>>,
    trigger: Trigger,
    situation: Situation,
    summarizer: Arc<dyn AsyncSummarizer>,
) -> BoxFuture<'static, Result<Outcome, CompactionError>> {
    Box::pin(async move {
        let mut guard = SharedGuard { hosted: Arc::clone(&hosted), pending: None };
        let mut step = with(&hosted, |host| host.engine.begin(&mut host.session, trigger, &situation))?;
        loop {
            match step {
                Step::Done(outcome) => return Ok(outcome),
                Step::Summarize(pending) => {
                    let request = pending.request().clone();
                    guard.pending = Some(pending);
                    let reply = summarizer.summarize(&request).await;
                    step = match guard.pending.take() {
                        Some(pending) => with(&hosted, |host| host.engine.resume(&mut host.session, pending, reply))?,
                        None => return Err(lost()),
                    };
                }
            }
        }
    })
}

fn with<T>(hosted: &Mutex<Hosted>, work: impl FnOnce(&mut Hosted) -> T) -> T {
    // A panic elsewhere leaves the session whole: an append is taken back while unwinding.
    work(&mut hosted.lock().unwrap_or_else(PoisonError::into_inner))
}

fn lost() -> CompactionError {
    Failure::Cancelled { by: CancelledBy::Summarizer, reason: Abandon::Dropped.to_string() }.into()
}

struct Guard<'a> {
    engine: &'a mut dyn CompactionEngine,
    session: &'a mut Session,
    pending: Option<Pending>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            // A sink that panics while this unwinds would abort the process. The error has nowhere to go: the bracket then stays
            // open, and the next begin sees that its pending summary is gone.
            let _ = catch_unwind(AssertUnwindSafe(|| self.engine.abandon(self.session, pending, Abandon::Dropped)));
        }
    }
}

struct SharedGuard {
    hosted: Arc<Mutex<Hosted>>,
    pending: Option<Pending>,
}

impl Drop for SharedGuard {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                with(&self.hosted, |host| host.engine.abandon(&mut host.session, pending, Abandon::Dropped))
            }));
        }
    }
}
