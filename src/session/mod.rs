//! The conversation: an append-only event log and the surface that the model sees, derived from it.
//!
//! Owns the log, the surface, cuts, derived messages, the JSONL format and the door to durable storage. Never prices, decides or
//! summarises.

mod error;
mod event;
mod header;
mod jsonl;
mod pairing;
mod records;
mod repair;
mod rows;
mod scan;
mod sink;
mod store;
mod surface;
mod validate;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::message::Message;

pub use error::{SessionError, SinkError};
pub use event::{Draft, Event, EventData, RawJson, Seq, SurfaceOp};
pub use header::{RequestConfig, RequestContext, RequestHeader, Route, SessionHeader};
pub use jsonl::Loaded;
pub use records::{
    AssistantChunk, AssistantMessage, CompactionEnd, CompactionPrune, CompactionStart, CompactionSummary, EndSeed,
    NodeRange, RequestHeaderEvent, StepMark, ToolCallStart, ToolResultMessage, TurnEnd, TurnStart,
};
pub use repair::RepairTexts;
pub use scan::{Dropped, Scan, scan_jsonl};
pub use sink::EventSink;
pub use store::{Compression, FileMedium, JsonlSink, JsonlStore, Medium, OpenReport, Opened, StoreError};
pub use surface::{Node, NodeKind};

use surface::{Surface, Undo};

/// Held by whoever waits for a summary. When the last strong half is gone, the compaction it stands for was lost.
pub(crate) type Lease = Arc<()>;

/// Number of the next session object of this process.
static NEXT_INSTANCE: AtomicU64 = AtomicU64::new(1);

/// A conversation.
///
/// The log only grows: a fold shadows nodes of the surface and deletes nothing (promise 1). Every append is checked by the same
/// rules as loading, and one that is refused, by the session or by its sink, leaves everything as it was.
///
/// ```
/// use arya_presets::{Draft, Message, Session};
///
/// let mut session = Session::new("demo");
/// session.append(Draft::user(Message::user("m1", "Why does the build fail?")))?;
/// assert_eq!(session.messages().count(), 1);
/// # Ok::<(), arya_presets::SessionError>(())
/// ```
pub struct Session {
    header: SessionHeader,
    instance: u64,
    events: Vec<Event>,
    surface: Surface,
    marks: Marks,
    lease: Option<(Seq, Weak<()>)>,
    sink: Option<Box<dyn EventSink>>,
}

/// Positions in the log that later decisions ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Marks {
    open_turn: Option<u64>,
    last_compaction_start: Option<Seq>,
    last_compaction_end: Option<Seq>,
    last_end_seed: Option<Seq>,
    last_header: Option<Seq>,
    last_context: Option<Seq>,
    last_user: Option<Seq>,
    last_time: i64,
}

impl Marks {
    fn note(&mut self, event: &Event) {
        let seq = Some(event.seq);
        match &event.data {
            EventData::TurnStart(data) => self.open_turn = Some(data.turn),
            EventData::TurnEnd(_) => self.open_turn = None,
            EventData::CompactionStart(_) => self.last_compaction_start = seq,
            EventData::CompactionEnd(_) => self.last_compaction_end = seq,
            EventData::EndSeed(_) => self.last_end_seed = seq,
            EventData::RequestHeader(_) => self.last_header = seq,
            EventData::RequestContext(_) => self.last_context = seq,
            EventData::UserMessage(message) if message.source.is_user() => self.last_user = seq,
            _ => {}
        }
        self.last_time = event.time;
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.header.id)
            .field("events", &self.events.len())
            .field("nodes", &self.surface.nodes().len())
            .field("generation", &self.surface.generation())
            .finish_non_exhaustive()
    }
}

/// Two sessions are equal when their headers, logs and surfaces are. Sinks and leases are no part of a conversation.
impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
            && self.events == other.events
            && self.surface.nodes() == other.surface.nodes()
            && self.surface.generation() == other.surface.generation()
            && self.marks == other.marks
            && self.cuts().eq(other.cuts())
    }
}

impl Session {
    /// An empty session with an id.
    pub fn new(id: impl Into<String>) -> Self {
        Self::with_header(SessionHeader::new(id, 0))
    }

    /// An empty session with a header.
    pub fn with_header(header: SessionHeader) -> Self {
        Self {
            header,
            instance: NEXT_INSTANCE.fetch_add(1, Ordering::Relaxed),
            events: Vec::new(),
            surface: Surface::default(),
            marks: Marks::default(),
            lease: None,
            sink: None,
        }
    }

    /// A session with exactly these events. Nothing is added: a compaction that was open in them still locks.
    pub fn from_events(header: SessionHeader, events: Vec<Event>) -> Result<Self, SessionError> {
        let mut session = Self::with_header(header);
        session.events.reserve(events.len());
        for event in events {
            session.load(event)?;
        }
        Ok(session)
    }

    /// A session that goes on from events that an earlier process wrote. One `session/end-seed` is appended unless they end
    /// with one: from there on a compaction that the earlier process left open no longer locks.
    pub fn restore(header: SessionHeader, events: Vec<Event>) -> Result<Self, SessionError> {
        let mut session = Self::from_events(header, events)?;
        session.mark_seed_end()?;
        Ok(session)
    }

    pub(crate) fn mark_seed_end(&mut self) -> Result<(), SessionError> {
        if !matches!(self.events.last().map(|event| &event.data), Some(EventData::EndSeed(_))) {
            self.append(Draft::new(EventData::EndSeed(EndSeed::default())))?;
        }
        Ok(())
    }

    /// Sends every later event to a sink before the session shows it. Events that are already there are not sent.
    pub fn set_sink(&mut self, sink: Box<dyn EventSink>) {
        self.sink = Some(sink);
    }

    /// Asks the sink, if there is one, to make durable what it keeps.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.flush())
    }

    /// Id of the session.
    pub fn id(&self) -> &str {
        &self.header.id
    }

    /// The header.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Number of events: the seq that the next one will get.
    pub fn revision(&self) -> Seq {
        self.events.len() as Seq
    }

    /// The log.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The event with a seq.
    pub fn event(&self, seq: Seq) -> Option<&Event> {
        self.events.get(usize::try_from(seq).ok()?)
    }

    /// The message of an event, whether it stands on the surface or was shadowed long ago.
    pub fn message(&self, seq: Seq) -> Option<&Arc<Message>> {
        self.event(seq)?.data.message()
    }

    /// The nodes of the surface, in order.
    pub fn nodes(&self) -> &[Node] {
        self.surface.nodes()
    }

    /// How many replacements the surface has seen. While it stands still, the surface only grew.
    pub fn generation(&self) -> u64 {
        self.surface.generation()
    }

    /// The messages that the model sees, in order. An answer without content is a node but no message.
    pub fn messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.nodes().iter().filter(|node| node.is_visible()).map(|node| &node.message)
    }

    /// Position of a seq on the surface.
    pub fn position(&self, seq: Seq) -> Option<usize> {
        self.surface.position(seq)
    }

    /// The nodes that a replacement hid, in surface order; none when the event replaced nothing.
    pub fn shadowed_by(&self, seq: Seq) -> Option<&[Seq]> {
        let replacements = self.surface.replacements();
        let index = replacements.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        replacements.get(index).map(|(_, hidden)| &**hidden)
    }

    /// Seq of the newest replacement.
    pub fn last_replacement(&self) -> Option<Seq> {
        self.surface.replacements().last().map(|(seq, _)| *seq)
    }

    /// Positions `p` at which the surface can be cut before node `p` without separating a tool call from its result
    /// (promise 2), the two ends included. Calls are matched with results by id and order, so that parallel results may come in
    /// any order and ids may be reused.
    pub fn cuts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..=self.nodes().len()).filter(|position| self.is_cut(*position))
    }

    /// Whether the surface can be cut before the node at a position; see [`cuts`](Self::cuts).
    pub fn is_cut(&self, position: usize) -> bool {
        position <= self.nodes().len()
            && position.checked_sub(1).is_none_or(|before| self.surface.pairing().is_safe_after(before))
    }

    /// Whether as many results as calls stand before the node at a position. This is the harness's reading: it counts and does
    /// not compare ids. A surface that somewhere has more results than calls makes every answer an error.
    pub fn is_balanced(&self, position: usize) -> Result<bool, SessionError> {
        let after = position.checked_sub(1);
        let balanced = self
            .surface
            .pairing()
            .is_balanced_after(after.unwrap_or(0), self.nodes())
            .map_err(|seq| SessionError::UnmatchedResult { seq })?;
        Ok(position <= self.nodes().len() && (after.is_none() || balanced))
    }

    /// Seq of the newest message that the person wrote, on the surface or shadowed.
    pub fn newest_user_message(&self) -> Option<Seq> {
        self.marks.last_user
    }

    /// The latest request header.
    pub fn request_header(&self) -> Option<&RequestHeader> {
        match &self.event(self.marks.last_header?)?.data {
            EventData::RequestHeader(data) => Some(&data.header),
            _ => None,
        }
    }

    /// The latest request context.
    pub fn request_context(&self) -> Option<&RequestContext> {
        match &self.event(self.marks.last_context?)?.data {
            EventData::RequestContext(data) => Some(data),
            _ => None,
        }
    }

    /// Number of the turn that has started and not ended.
    pub fn open_turn(&self) -> Option<u64> {
        self.marks.open_turn
    }

    /// The compaction that locks the session: started, not ended, by this process.
    pub fn open_compaction(&self) -> Option<&CompactionStart> {
        let seq = self.open_compaction_seq()?;
        match &self.event(seq)?.data {
            EventData::CompactionStart(data) => Some(data),
            _ => None,
        }
    }

    fn open_compaction_seq(&self) -> Option<Seq> {
        let start = self.marks.last_compaction_start?;
        let ended = self.marks.last_compaction_end.is_some_and(|end| end > start);
        let inherited = self.marks.last_end_seed.is_some_and(|seed| seed > start);
        (!ended && !inherited).then_some(start)
    }

    /// Time of the newest event, in milliseconds since the epoch; 0 in an empty log.
    pub fn last_time(&self) -> i64 {
        self.marks.last_time
    }

    /// Appends an event and returns its seq.
    pub fn append(&mut self, draft: Draft) -> Result<Seq, SessionError> {
        let mut staged = Staged::new(self);
        let seq = staged.push(draft)?;
        staged.commit()?;
        Ok(seq)
    }

    /// Appends several events, all or none, and returns the seq of the first. The sink gets them in one call.
    pub fn append_all(&mut self, drafts: Vec<Draft>) -> Result<Seq, SessionError> {
        self.append_or_name(drafts).map_err(|(_, error)| error)
    }

    /// As [`append_all`](Self::append_all); an error says which of them was refused.
    pub(crate) fn append_or_name(&mut self, drafts: Vec<Draft>) -> Result<Seq, (usize, SessionError)> {
        let first = self.revision();
        let mut staged = Staged::new(self);
        for (index, draft) in drafts.into_iter().enumerate() {
            staged.push(draft).map_err(|error| (index, error))?;
        }
        staged.commit().map_err(|error| (0, error))?;
        Ok(first)
    }

    /// A new session that begins with the first `events` of this one: its own log, its own lock. The boundary must not lie inside
    /// an open turn. A compaction that is open at the boundary no longer locks the new session.
    pub fn fork(&self, header: SessionHeader, events: Seq) -> Result<Self, SessionError> {
        let seed = usize::try_from(events).ok().and_then(|events| self.events.get(..events));
        let Some(seed) = seed else {
            return Err(SessionError::ForkBoundary { boundary: events, events: self.revision() });
        };
        let mut header = header;
        header.parent_session = Some(self.id().to_owned());
        header.seed_length = Some(events);
        header.cwd = header.cwd.or_else(|| self.header.cwd.clone());
        header.agent_preset = header.agent_preset.or_else(|| self.header.agent_preset.clone());
        let child = Self::from_events(header, seed.to_vec())?;
        if let Some(turn) = child.open_turn() {
            return Err(SessionError::ForkInTurn { boundary: events, turn });
        }
        let mut child = child;
        child.mark_seed_end()?;
        Ok(child)
    }

    pub(crate) fn has_sink(&self) -> bool {
        self.sink.is_some()
    }

    /// A number that no other session object of this process has.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    pub(crate) fn run(&self, start: Seq, end: Seq) -> Result<(usize, usize), SessionError> {
        self.surface.run(start, end)
    }

    pub(crate) fn set_lease(&mut self, start: Seq, lease: &Lease) {
        self.lease = Some((start, Arc::downgrade(lease)));
    }

    /// The open compaction, if it belonged to a `Pending` that no longer exists anywhere.
    pub(crate) fn lost_compaction(&self) -> Option<&CompactionStart> {
        let open = self.open_compaction_seq()?;
        match &self.lease {
            Some((start, lease)) if *start == open && lease.strong_count() == 0 => self.open_compaction(),
            _ => None,
        }
    }

    /// Takes an event that already has a seq: its position.
    fn load(&mut self, event: Event) -> Result<(), SessionError> {
        let expected = self.revision();
        if event.seq != expected {
            return Err(SessionError::Seq { expected, found: event.seq });
        }
        let draft = Draft {
            data: event.data,
            time: Some(event.time),
            ignorable: event.ignorable,
            sources: event.sources.map(Vec::from),
            surface_op: event.surface_op,
        };
        self.push_unsent(draft).map(|_| ())
    }

    /// Gives spare memory back: a log that was loaded is long, and what comes after it is little.
    fn shrink_to_fit(&mut self) {
        self.events.shrink_to_fit();
        self.surface.shrink_to_fit();
    }

    /// Checks and applies a draft without telling the sink.
    fn push_unsent(&mut self, draft: Draft) -> Result<Option<Undo>, SessionError> {
        let seq = self.revision();
        validate::check(&draft, seq, &self.surface, |seq| self.event(seq).map(|event| &event.data))?;
        let event = draft.into_event(seq, self.marks.last_time);
        let undo = match (&event.surface_op, Node::new(seq, &event.data)) {
            (Some(op), Some(node)) => Some(self.surface.place(node, *op)?),
            _ => match event.data {
                EventData::StepEnd(_) | EventData::TurnEnd(_) => self.surface.end_step(),
                _ => None,
            },
        };
        self.marks.note(&event);
        self.events.push(event);
        Ok(undo)
    }
}

/// Events that are applied but not yet acknowledged by the sink. Dropped without a commit, by an error or a panic of the sink,
/// they are taken back.
struct Staged<'a> {
    session: &'a mut Session,
    from: usize,
    marks: Marks,
    undo: Vec<Undo>,
    sink: Option<Box<dyn EventSink>>,
    committed: bool,
}

impl<'a> Staged<'a> {
    fn new(session: &'a mut Session) -> Self {
        let sink = session.sink.take();
        let (from, marks) = (session.events.len(), session.marks);
        Self { session, from, marks, undo: Vec::new(), sink, committed: false }
    }

    fn push(&mut self, draft: Draft) -> Result<Seq, SessionError> {
        let seq = self.session.revision();
        let undo = self.session.push_unsent(draft)?;
        self.undo.extend(undo);
        Ok(seq)
    }

    fn commit(mut self) -> Result<(), SessionError> {
        if let Some(sink) = &mut self.sink {
            let new = self.session.events.get(self.from..).unwrap_or_default();
            if !new.is_empty() {
                sink.append(new)?;
            }
        }
        self.committed = true;
        Ok(())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        self.session.sink = self.sink.take();
        if self.committed || self.session.events.len() == self.from {
            return;
        }
        for undo in self.undo.drain(..).rev() {
            self.session.surface.undo(undo);
        }
        self.session.events.truncate(self.from);
        self.session.marks = self.marks;
        self.session.surface.settle(self.from);
    }
}
