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
///
/// A host on tokio that keeps a list of its own and goes on talking:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use arya_presets::{
///     AsyncSummarizer, BaseEngine, BoxFuture, Hosted, Item, Message, Mirror, Session, Situation, SummarizerError, SummaryReply,
///     SummaryRequest, Trigger, WindowOrigin, compact_shared,
/// };
///
/// struct Model;
///
/// impl AsyncSummarizer for Model {
///     fn summarize<'a>(&'a self, _: &'a SummaryRequest) -> BoxFuture<'a, Result<SummaryReply, SummarizerError>> {
///         Box::pin(async {
///             tokio::task::yield_now().await; // Here the model writes.
///             Ok(SummaryReply::text("provider", "model", "## Current Work\nThe gauges were discussed."))
///         })
///     }
/// }
///
/// fn item((at, text): (usize, &String)) -> Item {
///     Item::new(at, Message::user(format!("m{at}"), text))
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let words = "what the harbour master said about the gauges ".repeat(12);
/// let mut list: Vec<String> = (0..40).map(|number| format!("{number}: {words}")).collect();
/// let (mut mirror, mut session) = (Mirror::new(), Session::new("chat"));
/// mirror.sync(&mut session, list.iter().enumerate().map(item))?;
/// let hosted = Arc::new(Mutex::new(Hosted { engine: Box::new(BaseEngine::standard()?), session }));
///
/// let situation = Situation::new().window(4_000, WindowOrigin::Host);
/// let folding = tokio::spawn(compact_shared(hosted.clone(), Trigger::Pressure, situation, Arc::new(Model)));
/// tokio::task::yield_now().await;
/// // The summary is being written; the conversation goes on.
/// list.push("And one more thing.".into());
/// mirror.sync(&mut hosted.lock().unwrap().session, list.iter().enumerate().map(item))?;
/// folding.await??;
///
/// let hosted = hosted.lock().unwrap();
/// let edits = mirror.edits(&hosted.session);
/// let applied = edits.apply(&mut list, |at, _| at.into(), |checkpoint| checkpoint.text(), |_, _, _| {})?;
/// mirror.confirm(applied);
/// assert!(list.len() < 40 && list[0].contains("The gauges were discussed."));
/// assert_eq!(list.last().unwrap(), "And one more thing.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })
/// # }
/// ```
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
