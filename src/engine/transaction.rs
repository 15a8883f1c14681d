//! The transaction: open the bracket, take the answer, land the fold or close with an error.

use std::sync::Arc;

use super::base::BaseEngine;
use super::error::{Busy, CompactionError, Failure, SummaryFailure, chain_text};
use super::manual::CancelledBy;
use super::outcome::{Fold, Outcome, Reason};
use super::pending::{Attempt, Bracket, Draftsheet, Pending, Pin, Prepared, Span};
use super::range::checked_run;
use super::{Abandon, Step, TriggerKind};
use crate::checkpoint::{
    AnswerFault, Checkpoint, PINNED_REQUEST_TITLE, cut_at_sentence, cut_middle, escape_end_tag, read_answer,
};
use crate::message::{Block, Extra, Message};
use crate::meter::total;
use crate::policy::{Situation, Stability};
use crate::session::{
    CompactionEnd, CompactionStart, CompactionSummary, Draft, EventData, NodeRange, Route, Seq, Session, SessionError,
};
use crate::summarizer::{SummarizerError, SummaryReply, SummaryRequest};

/// Room below which no summary is asked for: a heading and a line would not fit.
const LEAST_ROOM_TOKENS: u64 = 32;
/// Room that a summary gets even where the target leaves less, as far as the shrink guard allows.
const GRANTED_ROOM_TOKENS: u64 = 1_024;
/// A pinned request takes at most this part of the target; the whole text can be read back by its seq.
const PINNED_PART_OF_TARGET: u64 = 4;

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
        let mut pin = self.pin(session, &attempt, &span);
        let room = match self.room(&attempt, &span, &mut pin) {
            Ok(room) => room,
            Err(reason) => return self.finish(session, attempt, reason),
        };
        let request = self.request(session, &attempt, messages, room);
        let bracket = if attempt.kind == TriggerKind::Precompute {
            None
        } else {
            match self.start(session, &attempt, turn) {
                Ok(bracket) => Some(bracket),
                Err(error) => return Err(CompactionError::after(Failure::Commit(error), attempt.landed)),
            }
        };
        let lease = Arc::new(());
        if let Some(bracket) = &bracket {
            session.set_lease(bracket.start_seq, &lease);
        }
        let stability = match attempt.kind {
            TriggerKind::Manual | TriggerKind::Precompute => Stability::Span,
            _ => self.rules.stability,
        };
        Ok(Step::Summarize(Pending {
            instance: session.instance(),
            session_id: session.id().to_owned(),
            attempt,
            span,
            stability,
            bracket,
            pin,
            request,
            _lease: lease,
        }))
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

    /// The person's newest message that the model sees, where the fold would hide it: it lies in the span, or an earlier checkpoint in the span had
    /// pinned it.
    fn pin(&self, session: &Session, attempt: &Attempt, span: &Span) -> Option<Pin> {
        if !self.rules.pin_request {
            return None;
        }
        let on_surface = session.nodes().iter().filter(|node| node.message.source.is_user()).map(|node| node.seq);
        let pinned = session.nodes().iter().filter_map(|node| Checkpoint::parse(&node.message)?.pinned);
        let is_request = |seq: &Seq| session.message(*seq).is_some_and(|message| message.source.is_user());
        let seq = on_surface.chain(pinned).filter(is_request).max()?;
        let in_span = span.seqs.contains(&seq);
        let pinned_in_span =
            || {
                session.position(seq).is_none()
                    && span.seqs.iter().filter_map(|seq| session.message(*seq)).any(|message| {
                        Checkpoint::parse(message).is_some_and(|checkpoint| checkpoint.pinned == Some(seq))
                    })
            };
        if !in_span && !pinned_in_span() {
            return None;
        }
        let text = visible_text(session.message(seq)?);
        let most = attempt.plan.map_or(span.tokens, |plan| plan.target_tokens) / PINNED_PART_OF_TARGET;
        Some(Pin { seq, text: self.shortened(&text, seq, most) })
    }

    /// A text within a price, cut in the middle with the seq under which the whole stands.
    fn shortened(&self, text: &str, seq: Seq, most_tokens: u64) -> String {
        let counter = self.meter.pricing().counter();
        if counter.count_up_to(text, most_tokens).is_some() {
            return text.to_owned();
        }
        let marker = format!("\n[… cut in the middle; the whole text stands in the log at seq {seq} …]\n");
        let (mut low, mut high) = (0, text.chars().count());
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if counter.count_up_to(&cut_middle(text, middle, &marker), most_tokens).is_some() {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        cut_middle(text, low, &marker)
    }

    /// Tokens and characters that the summary may take, or why there is no point in asking for one.
    fn room(&self, attempt: &Attempt, span: &Span, pin: &mut Option<Pin>) -> Result<(u64, Option<usize>), Reason> {
        let cap = self.policy.max_tokens;
        if !self.rules.read_answer {
            return Ok((cap, None));
        }
        let frame_tokens = self.price_of(&self.checkpoint("", pin.as_ref()));
        let most = span.tokens.saturating_sub(frame_tokens).saturating_sub(1);
        if most < LEAST_ROOM_TOKENS {
            let least_tokens = frame_tokens.saturating_add(LEAST_ROOM_TOKENS + 1);
            return Err(Reason::NoGain { shadowed_tokens: span.tokens, least_tokens });
        }
        let mut room = cap.min(most);
        if let Some(plan) = attempt.plan.filter(|_| attempt.kind.must_progress()) {
            let rest = self.meter.surface_tokens().saturating_sub(span.tokens);
            let fixed =
                attempt.before.estimate.saturating_sub(self.meter.surface_tokens().min(attempt.before.estimate));
            let left = plan.target_tokens.saturating_sub(total([rest, fixed, frame_tokens].into_iter()));
            room = room.min(left.max(GRANTED_ROOM_TOKENS.min(span.tokens / 4)));
        }
        let Some(chars) = self.policy.max_checkpoint_chars else { return Ok((room, None)) };
        let chars_of = |pin: Option<&Pin>| {
            let content = self.checkpoint("", pin).content(&self.kit);
            content.iter().filter_map(Block::as_text).map(|text| text.chars().count() + 1).sum::<usize>()
        };
        // The pinned request comes first, but not at the price of the whole summary.
        if let Some(pin) = pin.as_mut() {
            let most = chars.saturating_sub(chars_of(None)) / 2;
            let marker = format!(" [… whole at seq {} …] ", pin.seq);
            pin.text = cut_middle(&pin.text, most, &marker);
        }
        let left = chars.saturating_sub(chars_of(pin.as_ref()));
        if left == 0 {
            return Err(Reason::NoGain { shadowed_tokens: span.tokens, least_tokens: frame_tokens });
        }
        Ok((room, Some(left)))
    }

    fn request(
        &self,
        session: &Session,
        attempt: &Attempt,
        messages: Arc<[Arc<Message>]>,
        (max_output_tokens, max_output_chars): (u64, Option<usize>),
    ) -> SummaryRequest {
        let situation = &attempt.situation;
        let header = situation.header_over(session).or_else(|| session.request_header().cloned());
        let mut instruction = match self.policy.checkpoint_prompt.trim() {
            "" => self.kit.instruction.clone(),
            own => own.to_owned(),
        };
        if let Some(wish) = &attempt.instructions {
            instruction.push_str("\n\nThe user asks of this checkpoint, in their own words:\n");
            instruction.push_str(wish.trim());
        }
        let routed = situation.route_in(session);
        let route: Option<Route> = match &routed {
            Some(route) => self.policy.for_route(route).summarizer.or(routed),
            None => self.policy.summarizer.clone(),
        };
        SummaryRequest {
            messages,
            kit: Arc::clone(&self.kit),
            instruction: instruction.into(),
            header: header.map(Arc::new),
            route,
            max_output_tokens,
            max_output_chars,
            counter: Arc::clone(self.meter.pricing().counter()),
        }
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
        let sheet = match reply.map_err(|error| match error {
            SummarizerError::Cancelled => Failure::Cancelled { by: CancelledBy::Summarizer, reason: error.to_string() },
            error => Failure::Summary(error.into()),
        }) {
            Ok(reply) => match self.judge(&pending, reply) {
                Ok(sheet) => sheet,
                Err(fault) => {
                    pending.attempt.answers_left = pending.attempt.answers_left.saturating_sub(1);
                    if pending.attempt.answers_left > 0 && self.rules.read_answer {
                        return Ok(Step::Summarize(pending));
                    }
                    return self.fail(session, pending, Failure::Summary(SummaryFailure::Answer(fault)));
                }
            },
            Err(failure) => return self.fail(session, pending, failure),
        };
        if pending.bracket.is_none() {
            return Ok(Step::Done(Outcome::Prepared(Box::new(Prepared { pending, sheet }))));
        }
        if let Err(failure) = self.check_stable(session, &pending) {
            return self.fail(session, pending, failure);
        }
        self.land(session, pending, sheet)
    }

    /// Reads the answer into a checkpoint that is smaller than what it replaces.
    fn judge(&self, pending: &Pending, reply: SummaryReply) -> Result<Draftsheet, AnswerFault> {
        let (checkpoint, summary) = if self.rules.read_answer {
            // Escaped before it is cut: escaping makes it longer.
            let text = escape_end_tag(&read_answer(&reply.content, reply.cut_off)?, &self.kit.frame.tag);
            let body = cut_at_sentence(&text, |text| pending.request.fits(text)).ok_or(AnswerFault::Empty)?;
            let checkpoint = self.checkpoint(body, pending.pin.as_ref());
            let summary = vec![Block::text(&checkpoint.body)];
            (checkpoint.into_message(&self.kit, "", ""), summary)
        } else {
            let mut content = vec![Block::text(&self.kit.frame.opening)];
            content.extend(reply.content.iter().cloned());
            content.push(Block::text(&self.kit.frame.closing));
            let source = crate::message::Source::Checkpoint { compaction_id: String::new(), extra: Extra::default() };
            let message = Message::new("", crate::message::Role::User, source, content);
            (message, reply.content.clone())
        };
        let tokens = self.meter.pricing().message(&checkpoint);
        if tokens >= pending.span.tokens {
            return Err(AnswerFault::NotSmaller { checkpoint_tokens: tokens, shadowed_tokens: pending.span.tokens });
        }
        Ok(Draftsheet { checkpoint, summary, tokens, reply })
    }

    fn checkpoint(&self, body: &str, pin: Option<&Pin>) -> Checkpoint {
        let mut checkpoint = Checkpoint::new(&self.kit, body);
        if let Some(pin) = pin {
            checkpoint = checkpoint.with_section(&self.kit, PINNED_REQUEST_TITLE, &pin.text);
            checkpoint.pinned = Some(pin.seq);
        }
        checkpoint
    }

    fn price_of(&self, checkpoint: &Checkpoint) -> u64 {
        self.meter.pricing().content(&checkpoint.content(&self.kit))
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
            pinned_seq: pending.pin.as_ref().map(|pin| pin.seq),
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

/// What a person typed, with a mark for everything that is no text.
fn visible_text(message: &Message) -> String {
    let parts: Vec<String> = message
        .content
        .iter()
        .map(|block| match block {
            Block::Text(text) => text.text.clone(),
            Block::Media(media) => format!("[{} left out]", media.media_type().unwrap_or(media.kind.as_str())),
            _ => "[content left out]".into(),
        })
        .collect();
    parts.join("\n")
}
