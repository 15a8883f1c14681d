//! The transaction: open the bracket, take the answer, land the fold or close with an error.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::base::BaseEngine;
use super::compose::Composed;
use super::error::{Busy, CompactionError, Failure, SummaryFailure, chain_text};
use super::hooks::PreHook;
use super::manual::CancelledBy;
use super::outcome::{Fold, Outcome, Reason};
use super::pending::{Attempt, Bracket, Draftsheet, Pending, Prepared, Span};
use super::range::checked_run;
use super::{Abandon, Step, TriggerKind};
use crate::checkpoint::Checkpoint;
use crate::message::{Extra, Message};
use crate::meter::total;
use crate::policy::{Fallback, Situation, Stability};
use crate::session::{
    CompactionEnd, CompactionStart, CompactionSummary, Draft, EventData, Node, NodeRange, Seq, Session, SessionError,
};
use crate::summarizer::{ExtractiveSummarizer, Summarizer, SummarizerError, SummaryReply, SummaryRequest};

impl BaseEngine {
    /// Opens the bracket for a run of nodes and hands out the request.
    pub(super) fn open(
        &mut self,
        session: &mut Session,
        attempt: Attempt,
        first: usize,
        last: usize,
    ) -> Result<Step, CompactionError> {
        if let Some(open) = session.open_compaction() {
            return Err(CompactionError::after(Failure::locked(&open.compaction_id), attempt.landed));
        }
        let turn = if attempt.kind == TriggerKind::Manual { None } else { session.open_turn() };
        if self.rules.needs_turn_and_route && attempt.kind != TriggerKind::Manual && turn.is_none() {
            return Err(CompactionError::after(Failure::NoOpenTurn, attempt.landed));
        }
        let nodes = session.nodes().get(first..=last).unwrap_or_default();
        let (Some(head), Some(tail)) = (nodes.first(), nodes.last()) else {
            return self.finish(session, attempt, Reason::NothingToFold);
        };
        let span = Span {
            seqs: nodes.iter().map(|node| node.seq).collect(),
            range: NodeRange { start: head.seq, end: tail.seq },
            tokens: total(nodes.iter().map(|node| self.meter.price(node.seq))),
            generation: session.generation(),
            nodes: session.nodes().len(),
        };
        let messages: Arc<[Arc<Message>]> = nodes
            .iter()
            .filter(|node| !(node.is_assistant() && node.message.content.is_empty()))
            .map(|node| Arc::clone(&node.message))
            .collect();
        let Composed { parts, max_tokens, max_chars, over_target } =
            match self.parts(session, &attempt, &span, &messages) {
                Ok(composed) => composed,
                Err(reason) => return self.finish(session, attempt, reason),
            };
        if over_target > 0
            && let Some((attempt, last)) = self.with_smaller_tail(session, &attempt, last, over_target)
        {
            return self.open(session, attempt, first, last);
        }
        let as_sent = self.as_sent(session, &attempt, nodes, &messages);
        let (mut request, masked) = self.request(session, &attempt, messages, as_sent, (max_tokens, max_chars));
        let supplied = match self.ask_hook(&mut request) {
            Ok(supplied) => supplied,
            Err(reason) => return self.finish(session, attempt, reason),
        };
        let lease = Arc::new(());
        let stability = match attempt.kind {
            TriggerKind::Manual | TriggerKind::Precompute => Stability::Span,
            _ => self.rules.stability,
        };
        let mut pending = Pending {
            instance: session.instance(),
            session_id: session.id().to_owned(),
            drops_left: self.policy.drop_oldest_retries,
            attempt,
            span,
            stability,
            bracket: None,
            parts,
            request,
            chunks: VecDeque::new(),
            dropped: Vec::new(),
            masked,
            supplied: supplied.is_some(),
            _lease: lease,
        };
        if let Err(reason) = self.fit_to_window(&mut pending) {
            return self.finish(session, pending.attempt, reason);
        }
        if pending.attempt.kind != TriggerKind::Precompute {
            match self.start(session, &pending.attempt, turn) {
                Ok(bracket) => {
                    session.set_lease(bracket.start_seq, &pending._lease);
                    pending.bracket = Some(bracket);
                }
                Err(error) => return Err(CompactionError::after(Failure::Commit(error), pending.attempt.landed)),
            }
        }
        match supplied {
            Some(text) => {
                let reply = SummaryReply::text("host", "hook", text);
                self.take_answer(session, pending, Ok(reply))
            }
            None => Ok(Step::Summarize(pending)),
        }
    }

    /// The messages of the span as they were last sent: a prune that has just landed is not shown, so that the provider's cached
    /// prefix still serves.
    fn as_sent(
        &self,
        session: &Session,
        attempt: &Attempt,
        nodes: &[Node],
        messages: &Arc<[Arc<Message>]>,
    ) -> Arc<[Arc<Message>]> {
        let pruned = &attempt.landed.pruned.pruned;
        if !self.rules.read_answer || pruned.is_empty() {
            return Arc::clone(messages);
        }
        let before: HashMap<Seq, Seq> =
            pruned.iter().map(|pruned| (pruned.replacement_seq, pruned.original_seq)).collect();
        nodes
            .iter()
            .filter(|node| !(node.is_assistant() && node.message.content.is_empty()))
            .filter_map(|node| session.message(before.get(&node.seq).copied().unwrap_or(node.seq)))
            .cloned()
            .collect()
    }

    /// What the host's hook wants: the summary that it supplies, if it does.
    fn ask_hook(&mut self, request: &mut SummaryRequest) -> Result<Option<String>, Reason> {
        let Some(hooks) = &mut self.hooks else { return Ok(None) };
        let name = format!("{}/compaction/pre", self.kit.hook_namespace);
        match hooks.pre(&name, request) {
            Ok(PreHook::Pass) => Ok(None),
            Ok(PreHook::Cancel { reason }) => Err(Reason::HookCancelled { reason }),
            Ok(PreHook::Instruct { text }) => {
                request.instruction = format!("{}\n\n{}", request.instruction, text.trim()).into();
                Ok(None)
            }
            Ok(PreHook::Supply { text }) => Ok(Some(text)),
            Err(error) => {
                tracing::warn!(hook = name, error = %error, "a hook failed and is ignored");
                Ok(None)
            }
        }
    }

    /// Shows the checkpoint to the host's hook.
    fn tell_hook(&mut self, sheet: &Draftsheet) {
        let Some(hooks) = &mut self.hooks else { return };
        let name = format!("{}/compaction/post", self.kit.hook_namespace);
        if let Some(checkpoint) = Checkpoint::parse(&sheet.checkpoint)
            && let Err(error) = hooks.post(&name, &checkpoint)
        {
            tracing::warn!(hook = name, error = %error, "a hook failed and is ignored");
        }
    }

    fn start(&mut self, session: &mut Session, attempt: &Attempt, turn: Option<u64>) -> Result<Bracket, SessionError> {
        let compaction_id = self.ids.compaction(session, session.revision());
        let start = CompactionStart {
            compaction_id: compaction_id.clone(),
            turn,
            source_command_id: attempt.command_id.clone(),
            extra: Extra::default(),
        };
        let draft = Draft::new(EventData::CompactionStart(Box::new(start))).at(event_time(session, &attempt.situation));
        let start_seq = session.append(draft)?;
        Ok(Bracket { compaction_id, start_seq, turn })
    }

    /// Takes a summariser's answer: lands the fold, asks again, or closes with an error.
    pub(super) fn take_answer(
        &mut self,
        session: &mut Session,
        mut pending: Pending,
        reply: Result<SummaryReply, SummarizerError>,
    ) -> Result<Step, CompactionError> {
        if session.instance() != pending.instance {
            return Err(Failure::WrongSession(Box::new(pending)).into());
        }
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) if error.is_context_overflow() && self.make_smaller(&mut pending) => {
                return Ok(Step::Summarize(pending));
            }
            Err(error) => match self.fall_back(&pending, error) {
                Ok(reply) => reply,
                Err(failure) => return self.fail(session, pending, failure),
            },
        };
        let judged = match self.next_chunk(&mut pending, &reply) {
            Ok(true) => return Ok(Step::Summarize(pending)),
            Ok(false) => self.judge(&pending, reply),
            Err(fault) => Err(fault),
        };
        let sheet = match judged {
            Ok(sheet) => sheet,
            Err(fault) => {
                pending.attempt.answers_left = pending.attempt.answers_left.saturating_sub(1);
                if pending.attempt.answers_left > 0 && self.rules.read_answer && !pending.supplied {
                    return Ok(Step::Summarize(pending));
                }
                return self.fail(session, pending, Failure::Summary(SummaryFailure::Answer(fault)));
            }
        };
        self.tell_hook(&sheet);
        if pending.bracket.is_none() {
            return Ok(Step::Done(Outcome::Prepared(Box::new(Prepared { pending, sheet }))));
        }
        if let Err(failure) = self.check_stable(session, &pending) {
            return self.fail(session, pending, failure);
        }
        self.land(session, pending, sheet)
    }

    /// The answer of the summariser that needs no model, where the policy wants it when no model answers.
    fn fall_back(&self, pending: &Pending, error: SummarizerError) -> Result<SummaryReply, Failure> {
        if matches!(error, SummarizerError::Cancelled) {
            return Err(Failure::Cancelled { by: CancelledBy::Summarizer, reason: error.to_string() });
        }
        match self.policy.fallback {
            Fallback::None => Err(Failure::Summary(error.into())),
            Fallback::Extractive => {
                tracing::warn!(code = error.code(), "no model answered; the summary is written without one");
                let reply = ExtractiveSummarizer::new().summarize(&pending.request);
                reply.map_err(|_| Failure::Summary(error.into()))
            }
        }
    }

    fn check_stable(&self, session: &Session, pending: &Pending) -> Result<(), Failure> {
        let changed = |what| Err(Failure::Changed { what });
        if let Some(bracket) = &pending.bracket
            && session.open_compaction().is_none_or(|open| open.compaction_id != bracket.compaction_id)
        {
            return changed("its bracket was closed");
        }
        let span = &pending.span;
        let untouched = session.generation() == span.generation && session.nodes().len() == span.nodes;
        if untouched {
            return Ok(());
        }
        if pending.stability == Stability::WholeSurface {
            return changed("the surface changed");
        }
        let Ok((first, last)) = checked_run(session, span.range, self.rules.cuts) else {
            return changed("the span can no longer be replaced");
        };
        let nodes = session.nodes().get(first..=last).unwrap_or_default();
        if nodes.iter().map(|node| node.seq).eq(span.seqs.iter().copied()) {
            Ok(())
        } else {
            changed("the span changed")
        }
    }

    /// Appends summary, checkpoint and end.
    fn land(
        &mut self,
        session: &mut Session,
        mut pending: Pending,
        sheet: Draftsheet,
    ) -> Result<Step, CompactionError> {
        let Some(bracket) = pending.bracket.clone() else {
            return self.fail(session, pending, Failure::Changed { what: "its bracket was never opened" });
        };
        let time = event_time(session, &pending.attempt.situation);
        let summary_seq = session.revision();
        let span = &pending.span;
        let mut checkpoint = sheet.checkpoint;
        checkpoint.id = self.ids.checkpoint(session, &bracket.compaction_id);
        if let crate::message::Source::Checkpoint { compaction_id, extra } = &mut checkpoint.source {
            compaction_id.clone_from(&bracket.compaction_id);
            if let Some(command) = &pending.attempt.command_id {
                extra.insert("sourceCommandId", command.as_str().into());
            }
        }
        let checkpoint = Arc::new(checkpoint);
        let reply = sheet.reply;
        let summary = CompactionSummary {
            compaction_id: bracket.compaction_id.clone(),
            source_command_id: pending.attempt.command_id.clone(),
            summary: sheet.summary,
            shadowed_range: span.range,
            shadowed_seqs: span.seqs.to_vec(),
            shadowed_token_count: span.tokens,
            provider: reply.provider,
            model: reply.model,
            max_tokens: reply.max_tokens,
            usage: reply.usage,
            raw_output: reply.raw_output,
            extra: reply.extra,
        };
        let sources = [bracket.start_seq, summary_seq].into_iter().chain(span.seqs.iter().copied()).collect();
        let drafts = vec![
            Draft::new(EventData::CompactionSummary(Box::new(summary))).at(time),
            Draft::new(EventData::UserMessage(Arc::clone(&checkpoint)))
                .replacing(span.range.start, span.range.end)
                .citing(sources)
                .at(time),
        ];
        let end = end_draft(&bracket, &pending.attempt, None).at(time);
        let fold = Fold {
            compaction_id: bracket.compaction_id.clone(),
            start_seq: bracket.start_seq,
            summary_seq,
            checkpoint_seq: summary_seq + 1,
            end_seq: summary_seq + 2,
            shadowed_seqs: span.seqs.to_vec(),
            shadowed_tokens: span.tokens,
            checkpoint_tokens: sheet.tokens,
            checkpoint,
            masked_secrets: sheet.masked + pending.masked + pending.request.masked.load(Ordering::Relaxed),
            pinned_seq: pending.parts.pin.as_ref().map(|pin| pin.seq),
            injected_seqs: span
                .seqs
                .iter()
                .copied()
                .filter(|seq| session.message(*seq).is_some_and(|message| message.source.is_injected()))
                .collect(),
        };
        if self.rules.commit_as_one {
            let mut drafts = drafts;
            drafts.push(end);
            if let Err(error) = session.append_all(drafts) {
                return self.fail(session, pending, Failure::Commit(error));
            }
            pending.attempt.landed.folds.push(fold);
        } else {
            for draft in drafts {
                if let Err(error) = session.append(draft) {
                    return self.fail(session, pending, Failure::Commit(error));
                }
            }
            pending.attempt.landed.folds.push(fold);
            if let Err(error) = session.append(end) {
                return Err(CompactionError::after(Failure::Commit(error), pending.attempt.landed));
            }
        }
        pending.attempt.folds_left = pending.attempt.folds_left.saturating_sub(1);
        self.after_fold(session, pending.attempt)
    }

    /// Closes the bracket with the failure's text. Where even that is refused, the start stays and locks.
    fn fail(&mut self, session: &mut Session, pending: Pending, failure: Failure) -> Result<Step, CompactionError> {
        let text = match &failure {
            Failure::Summary(SummaryFailure::Summarizer(error)) => chain_text(error),
            Failure::Commit(error) => chain_text(error),
            Failure::Cancelled { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        let failure = match self.close(session, &pending, text) {
            Ok(()) => failure,
            Err(error) => Failure::Commit(error),
        };
        Err(CompactionError::after(failure, pending.attempt.landed))
    }

    fn close(&self, session: &mut Session, pending: &Pending, error: String) -> Result<(), SessionError> {
        let Some(bracket) = &pending.bracket else { return Ok(()) };
        if session.open_compaction().is_none_or(|open| open.compaction_id != bracket.compaction_id) {
            return Ok(());
        }
        let time = event_time(session, &pending.attempt.situation);
        session.append(end_draft(bracket, &pending.attempt, Some(error)).at(time)).map(|_| ())
    }

    pub(super) fn give_up(
        &mut self,
        session: &mut Session,
        pending: Pending,
        why: &Abandon,
    ) -> Result<(), CompactionError> {
        if session.instance() != pending.instance {
            return Err(Failure::WrongSession(Box::new(pending)).into());
        }
        match self.close(session, &pending, why.to_string()) {
            Ok(()) => Ok(()),
            Err(error) => Err(CompactionError::after(Failure::Commit(error), pending.attempt.landed)),
        }
    }

    /// Closes the bracket of a pending summary that no longer exists anywhere.
    pub(super) fn close_lost(&mut self, session: &mut Session, situation: &Situation) -> Result<(), CompactionError> {
        let Some(lost) = session.lost_compaction().cloned() else { return Ok(()) };
        let end = CompactionEnd {
            compaction_id: lost.compaction_id,
            source_command_id: lost.source_command_id,
            turn: lost.turn,
            error: Some("the pending summary was lost".into()),
            extra: Extra::default(),
        };
        let draft = Draft::new(EventData::CompactionEnd(Box::new(end))).at(event_time(session, situation));
        session.append(draft).map(|_| ()).map_err(|error| Failure::Commit(error).into())
    }

    /// Commits a summary that was written ahead of need.
    pub(super) fn commit_prepared(
        &mut self,
        session: &mut Session,
        prepared: Prepared,
        situation: &Situation,
    ) -> Result<Step, CompactionError> {
        let Prepared { mut pending, sheet } = prepared;
        if session.instance() != pending.instance {
            return Err(Failure::WrongSession(Box::new(pending)).into());
        }
        if let Some(open) = session.open_compaction() {
            let why = Busy::Locked { compaction_id: open.compaction_id.clone() };
            let prepared = Some(Box::new(Prepared { pending, sheet }));
            return Err(Failure::Busy { why, prepared }.into());
        }
        self.check_stable(session, &pending)?;
        let turn = session.open_turn();
        if self.rules.needs_turn_and_route && turn.is_none() {
            return Err(Failure::NoOpenTurn.into());
        }
        pending.attempt.kind = TriggerKind::Commit;
        pending.attempt.situation = situation.clone();
        pending.attempt.before = self.occupancy(session, situation)?;
        let bracket = self.start(session, &pending.attempt, turn).map_err(Failure::Commit)?;
        session.set_lease(bracket.start_seq, &pending._lease);
        pending.bracket = Some(bracket);
        self.land(session, pending, sheet)
    }
}

fn end_draft(bracket: &Bracket, attempt: &Attempt, error: Option<String>) -> Draft {
    Draft::new(EventData::CompactionEnd(Box::new(CompactionEnd {
        compaction_id: bracket.compaction_id.clone(),
        source_command_id: attempt.command_id.clone(),
        turn: bracket.turn,
        error,
        extra: Extra::default(),
    })))
}

/// Events are stamped with the later of the situation's time and the last event's.
fn event_time(session: &Session, situation: &Situation) -> i64 {
    situation.now.unwrap_or(i64::MIN).max(session.last_time())
}
