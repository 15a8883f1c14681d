//! What a checkpoint is made of: how much room each part has, what is asked, and how the answer becomes the checkpoint.

use std::sync::Arc;

use super::base::BaseEngine;
use super::extras::{self, LEFT_OUT_TITLE, written_in};
use super::outcome::Reason;
use super::pending::{Attempt, Draftsheet, MaskedSection, Parts, Pending, Pin, Span};
use crate::checkpoint::{
    AnswerFault, Checkpoint, MASK, Masked, PINNED_REQUEST_TITLE, Section, check_user_messages, cut_at_sentence,
    cut_middle, escape_end_tag, has_any_section, mask_secrets, read_answer,
};
use crate::kit::Truncation;
use crate::message::{Block, Extra, Message, Role, Source, Usage};
use crate::meter::total;
use crate::session::{Route, Seq, Session};
use crate::summarizer::{ExtractiveSummarizer, SummaryReply, SummaryRequest};

/// Room below which no summary is asked for: a heading and a line would not fit.
const LEAST_ROOM_TOKENS: u64 = 32;
/// Room that a summary gets even where the target leaves less, as far as the shrink guard allows.
const GRANTED_ROOM_TOKENS: u64 = 1_024;
/// A pinned request takes at most this part of the target; the whole text can be read back by its seq.
const PINNED_PART_OF_TARGET: u64 = 4;
/// Spans below this price are too small to tell a short summary from a bad one.
const LEAST_JUDGED_SPAN_TOKENS: u64 = 2_000;
/// A body without any of the sections must have a fiftieth of its span, up to this many tokens.
const PLAUSIBLE_BODY_TOKENS: u64 = 60;
/// A provider that read less than a quarter of what was sent did not read the conversation.
const GROUNDED_PART: u64 = 4;

/// What a summary may take.
struct Room {
    tokens: u64,
    chars: Option<usize>,
    /// By how much the checkpoint would leave the conversation over the attempt's target.
    over_target: u64,
}

/// What a checkpoint holds beside its summary, and what the summary may take.
pub(super) struct Composed {
    pub(super) parts: Parts,
    pub(super) max_tokens: u64,
    pub(super) max_chars: Option<usize>,
    /// By how many tokens the conversation would end over the attempt's target, with as much summary as is worth asking for.
    pub(super) over_target: u64,
}

impl BaseEngine {
    /// The parts of the checkpoint that need no model, and the room that they leave for the summary.
    pub(super) fn parts(
        &self,
        session: &Session,
        attempt: &Attempt,
        span: &Span,
        messages: &[Arc<Message>],
    ) -> Result<Composed, Reason> {
        let mut parts = Parts::default();
        if !self.rules.read_answer {
            return Ok(Composed { parts, max_tokens: self.policy.max_tokens, max_chars: None, over_target: 0 });
        }
        let written = written_in(session, &span.seqs);
        parts.pin = self.pin(session, attempt, span, &written);
        parts.written = written.iter().map(|(_, message)| mask_secrets(&message.text()).text).collect();
        self.add_extras(&mut parts, span, messages, &written);
        loop {
            // Each extra is dropped before the summary is, and before the target is missed; the last one first.
            match self.room(attempt, span, &mut parts) {
                Ok(room) if room.over_target > 0 && parts.extras.pop().is_some() => {}
                Ok(Room { tokens: max_tokens, chars: max_chars, over_target }) => {
                    return Ok(Composed { parts, max_tokens, max_chars, over_target });
                }
                Err(reason) => parts.extras.pop().map(|_| ()).ok_or(reason)?,
            }
        }
    }

    fn add_extras(&self, parts: &mut Parts, span: &Span, messages: &[Arc<Message>], written: &[(Seq, Arc<Message>)]) {
        let policy = &self.policy;
        let mut sections = Vec::new();
        if self.kit.background_work {
            sections.extend(extras::background(messages, &policy.background));
        }
        let limit = policy.recent_file_limit.unwrap_or(self.kit.recent_files);
        if limit > 0 {
            sections.extend(extras::recent_files(messages, &policy.prune.tools, limit));
        }
        for section in &self.sections {
            let text = (section.render)(messages);
            sections.extend(text.map(|text| Section { title: section.title.clone(), text }));
        }
        if let Some((title, budget)) = extras::quote_budget(&self.kit, policy.keep_user_tokens, span.tokens) {
            let pinned = parts.pin.as_ref().map(|pin| pin.seq);
            let others: Vec<_> = written.iter().filter(|(seq, _)| Some(*seq) != pinned).cloned().collect();
            let counter = self.meter.pricing().counter();
            sections.extend(extras::quotes(&others, &title, budget, counter.as_ref()));
        }
        parts.extras = sections.into_iter().map(MaskedSection::new).collect();
    }

    /// The person's newest message that the model sees, where the fold would hide it: it lies in the span, or an earlier
    /// checkpoint in the span had replaced it. One that the host took back hands its place to the one before it.
    fn pin(&self, session: &Session, attempt: &Attempt, span: &Span, written: &[(Seq, Arc<Message>)]) -> Option<Pin> {
        if !self.rules.pin_request {
            return None;
        }
        let on_surface = session.nodes().iter().filter(|node| node.message.source.is_user()).map(|node| node.seq);
        let pinned = session.nodes().iter().filter_map(|node| Checkpoint::parse(&node.message)?.pinned);
        let is_request = |seq: &Seq| session.message(*seq).is_some_and(|message| message.source.is_user());
        let newest = on_surface.chain(pinned).filter(is_request).max()?;
        let (seq, message) = written.iter().find(|(seq, _)| *seq == newest)?;
        let Masked { text, count: masked } = mask_secrets(&visible_text(message));
        let most =
            attempt.plan.map_or(span.tokens, |plan| attempt.in_estimate(plan.target_tokens)) / PINNED_PART_OF_TARGET;
        Some(Pin { seq: *seq, text: self.shortened(&text, *seq, most), masked })
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

    /// What the summary may take, or why there is no point in asking for one.
    fn room(&self, attempt: &Attempt, span: &Span, parts: &mut Parts) -> Result<Room, Reason> {
        let frame_tokens = self.price_of(&self.checkpoint("", parts));
        let most = span.tokens.saturating_sub(frame_tokens).saturating_sub(1);
        let floor = self.floor();
        if most < floor.max(LEAST_ROOM_TOKENS) {
            return Err(self.too_little_room(span, frame_tokens, most));
        }
        let mut room = self.policy.max_tokens.min(most);
        let mut over_target = 0;
        if let Some(plan) = attempt.plan.filter(|_| attempt.kind.must_progress()) {
            let surface = self.meter.surface_tokens();
            let rest = surface.saturating_sub(span.tokens);
            let fixed = attempt.before.estimate.saturating_sub(surface.min(attempt.before.estimate));
            let target = attempt.in_estimate(plan.target_tokens);
            let left = target.saturating_sub(total([rest, fixed, frame_tokens].into_iter()));
            let granted = GRANTED_ROOM_TOKENS.min(span.tokens / 4);
            over_target = granted.saturating_sub(left);
            room = room.min(left.max(granted));
        }
        if room < floor {
            return Err(self.too_little_room(span, frame_tokens, room));
        }
        let Some(chars) = self.policy.max_checkpoint_chars else {
            return Ok(Room { tokens: room, chars: None, over_target });
        };
        let chars_of = |parts: &Parts| {
            let content = self.checkpoint("", parts).content(&self.kit);
            content.iter().filter_map(Block::as_text).map(|text| text.chars().count() + 1).sum::<usize>()
        };
        // The pinned request comes first, but not at the price of the whole summary.
        if parts.pin.is_some() {
            let others = chars_of(&Parts { pin: None, ..parts.clone() });
            if let Some(pin) = &mut parts.pin {
                let marker = format!(" [… whole at seq {} …] ", pin.seq);
                pin.text = cut_middle(&pin.text, chars.saturating_sub(others) / 2, &marker);
            }
        }
        let frame_chars = chars_of(parts);
        match chars.saturating_sub(frame_chars) {
            0 => Err(Reason::TooFewChars { most_chars: chars, frame_chars }),
            left => Ok(Room { tokens: room, chars: Some(left), over_target }),
        }
    }

    /// Tokens that a body needs at least.
    pub(super) fn floor(&self) -> u64 {
        self.policy.min_body_tokens.unwrap_or(self.kit.min_body_tokens)
    }

    fn too_little_room(&self, span: &Span, frame_tokens: u64, room_tokens: u64) -> Reason {
        match self.floor() {
            0 => Reason::NoGain {
                shadowed_tokens: span.tokens,
                least_tokens: frame_tokens.saturating_add(LEAST_ROOM_TOKENS + 1),
            },
            needed_tokens => Reason::TooLittleRoom { kit: self.kit.id.clone(), room_tokens, needed_tokens },
        }
    }

    /// The request, and how many secrets were masked in what the person asks of the checkpoint.
    pub(super) fn request(
        &self,
        session: &Session,
        attempt: &Attempt,
        messages: Arc<[Arc<Message>]>,
        as_sent: Arc<[Arc<Message>]>,
        (max_output_tokens, max_output_chars): (u64, Option<usize>),
    ) -> (SummaryRequest, usize) {
        let situation = &attempt.situation;
        let header = situation.header_over(session).or_else(|| session.request_header().cloned());
        let mut instruction = match self.policy.checkpoint_prompt.trim() {
            "" => self.kit.instruction.clone(),
            own => self.with_sections(own),
        };
        let mut masked = 0;
        if let Some(wish) = &attempt.instructions {
            let wish = mask_secrets(wish.trim());
            masked = wish.count;
            instruction.push_str("\n\nThe user asks of this checkpoint, in their own words:\n");
            instruction.push_str(&wish.text);
        }
        let routed = situation.route_in(session);
        let route: Option<Route> = match &routed {
            Some(route) => self.policy.for_route(route).summarizer.or(routed),
            None => self.policy.summarizer.clone(),
        };
        let request = SummaryRequest {
            messages,
            as_sent,
            carried: None,
            kit: Arc::clone(&self.kit),
            instruction: instruction.into(),
            header: header.map(Arc::new),
            route,
            max_output_tokens,
            max_output_chars,
            counter: Arc::clone(self.meter.pricing().counter()),
            masked: Arc::default(),
        };
        (request, masked)
    }

    /// An instruction of the host's own, with what a structured answer must look like.
    fn with_sections(&self, own: &str) -> String {
        let Some(envelope) = &self.kit.envelope else { return own.to_owned() };
        format!(
            "{own}\n\nAnswer inside <{0}> and </{0}>, with exactly these sections, in this order: {1}.",
            envelope.tag,
            self.kit.sections.join(", ")
        )
    }

    /// Reads the answer into a checkpoint that is smaller than what it replaces.
    pub(super) fn judge(&self, pending: &Pending, reply: SummaryReply) -> Result<Draftsheet, AnswerFault> {
        let (checkpoint, summary, masked) = if self.rules.read_answer {
            let (checkpoint, masked) = self.read_checkpoint(pending, &reply)?;
            let summary = vec![Block::text(&checkpoint.body)];
            (checkpoint.into_message(&self.kit, "", ""), summary, masked)
        } else {
            let mut content = vec![Block::text(&self.kit.frame.opening)];
            content.extend(reply.content.iter().cloned());
            content.push(Block::text(&self.kit.frame.closing));
            let source = Source::Checkpoint { compaction_id: String::new(), extra: Extra::default() };
            (Message::new("", Role::User, source, content), reply.content.clone(), 0)
        };
        let tokens = self.meter.pricing().message(&checkpoint);
        if tokens >= pending.span.tokens {
            return Err(AnswerFault::NotSmaller { checkpoint_tokens: tokens, shadowed_tokens: pending.span.tokens });
        }
        Ok(Draftsheet { checkpoint, summary, tokens, masked, reply })
    }

    /// The checkpoint, and how many secrets were masked in it.
    fn read_checkpoint(&self, pending: &Pending, reply: &SummaryReply) -> Result<(Checkpoint, usize), AnswerFault> {
        let request = &pending.request;
        let text = if pending.supplied {
            read_answer(&crate::kit::Kit { envelope: None, ..(*self.kit).clone() }, &reply.content, reply.cut_off)?
        } else {
            let text = read_answer(&self.kit, &reply.content, reply.cut_off)?;
            self.check_plausible(pending, reply, &text)?;
            text
        };
        // Masked and escaped before it is measured: both change its length.
        let Masked { text, count: mut masked } = mask_secrets(&text);
        let text = escape_end_tag(&text, &self.kit.frame.tag);
        let text = if self.policy.verify_user_messages {
            let checked = check_user_messages(&self.kit, &text, &pending.parts.written, |text| request.fits(text));
            // What is added from the log was masked before.
            masked += checked.matches(MASK).count().saturating_sub(text.matches(MASK).count());
            checked
        } else {
            text
        };
        let body = match self.kit.truncation {
            Truncation::Refuse if !request.fits(&text) => {
                return Err(AnswerFault::TooLong {
                    body_tokens: request.counter().count(&text),
                    room_tokens: request.max_output_tokens(),
                });
            }
            _ => cut_at_sentence(&text, |text| request.fits(text)).ok_or(AnswerFault::Empty)?,
        };
        let mut parts = pending.parts.clone();
        if !pending.dropped.is_empty() {
            parts.extras.extend(self.digest(&pending.dropped));
        }
        let mut checkpoint = self.checkpoint(body, &parts);
        // Each extra is dropped before the summary is.
        while self.price_of(&checkpoint) >= pending.span.tokens && parts.extras.pop().is_some() {
            checkpoint = self.checkpoint(body, &parts);
        }
        masked += parts.extras.iter().map(|extra| extra.masked).sum::<usize>();
        masked += parts.pin.as_ref().map_or(0, |pin| pin.masked);
        Ok((checkpoint, masked))
    }

    /// Refuses what cannot rest on the conversation.
    fn check_plausible(&self, pending: &Pending, reply: &SummaryReply, body: &str) -> Result<(), AnswerFault> {
        let span_tokens = pending.span.tokens;
        if span_tokens < LEAST_JUDGED_SPAN_TOKENS {
            return Ok(());
        }
        let request = &pending.request;
        let reported_tokens = reply.usage.as_ref().map_or(0, Usage::input_side_tokens);
        if reported_tokens > 0 {
            let sent_tokens = total(request.messages().iter().map(|message| self.meter.pricing().message(message)));
            if reported_tokens < sent_tokens / GROUNDED_PART {
                return Err(AnswerFault::NotGrounded { reported_tokens, sent_tokens });
            }
        }
        let body_tokens = request.counter().count(body);
        // A sixteenth of the room in characters is about a quarter of it in tokens.
        let room_tokens = request.max_output_chars().map_or(u64::MAX, |chars| chars as u64 / 16);
        let plausible =
            PLAUSIBLE_BODY_TOKENS.min(span_tokens / 50).min(request.max_output_tokens() / 2).min(room_tokens);
        if body_tokens < plausible && !has_any_section(&self.kit, body) {
            return Err(AnswerFault::TooShort { body_tokens, span_tokens });
        }
        Ok(())
    }

    /// What the summary request had to leave out, noted without a model.
    fn digest(&self, dropped: &[Arc<Message>]) -> Option<MaskedSection> {
        const DIGEST_CHARS: usize = 1_600;
        let text = ExtractiveSummarizer::new().summarize_within(dropped, &crate::kit::Kit::codex(), DIGEST_CHARS)?;
        let text = format!("{} messages.\n{text}", dropped.len());
        Some(MaskedSection::new(Section { title: LEFT_OUT_TITLE.into(), text }))
    }

    fn checkpoint(&self, body: &str, parts: &Parts) -> Checkpoint {
        let mut checkpoint = Checkpoint::new(&self.kit, body);
        for MaskedSection { section, .. } in &parts.extras {
            checkpoint = checkpoint.with_section(&self.kit, &section.title, &section.text);
        }
        if let Some(pin) = &parts.pin {
            checkpoint = checkpoint.with_section(&self.kit, PINNED_REQUEST_TITLE, &pin.text);
            checkpoint.pinned = Some(pin.seq);
        }
        checkpoint
    }

    fn price_of(&self, checkpoint: &Checkpoint) -> u64 {
        self.meter.pricing().content(&checkpoint.content(&self.kit))
    }
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
