//! A host's own message list, followed: the host keeps its list, the mirror keeps a session in step with it.
//!
//! Owns the match between the host's items and the session's nodes. Never becomes a second store: it can be thrown away and made
//! again from the list and a small state.

mod edits;
mod state;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::message::{Block, Message, Role, Source, Usage};
use crate::session::{Draft, Seq, Session, SessionError};

use state::{attempt_draft, last_attempt};

pub use edits::{Applied, Edit, EditError, Edits};
pub use state::{CheckpointMark, MirrorState, StateError};

/// How a host names an item of its list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Key {
    /// By an id that stays with the item.
    Id(String),
    /// By its position in the list, where it has no id. Positions move when the list is edited; the mirror knows that.
    At(usize),
}

impl From<&str> for Key {
    fn from(id: &str) -> Self {
        Self::Id(id.to_owned())
    }
}

impl From<String> for Key {
    fn from(id: String) -> Self {
        Self::Id(id)
    }
}

impl From<usize> for Key {
    fn from(position: usize) -> Self {
        Self::At(position)
    }
}

/// An item of a host's list, as the mirror takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// How the host names it.
    pub key: Key,
    /// The message. Its source says who wrote it; a tool result has one result block and a tool source.
    pub message: Message,
    /// What the provider reported of the call that wrote it.
    pub usage: Option<Usage>,
}

impl Item {
    /// An item without usage.
    pub fn new(key: impl Into<Key>, message: Message) -> Self {
        Self { key: key.into(), message, usage: None }
    }

    /// Adds what the provider reported of the call that wrote it.
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

/// What following the list came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Followed {
    /// The list is as it was.
    Unchanged,
    /// Items were added at the end.
    Appended {
        /// How many.
        count: usize,
    },
    /// The list ends earlier than before. The session was made anew.
    Rewound {
        /// How many items are left.
        kept: usize,
    },
    /// An item in the middle is another, or says something else. The session was made anew.
    Edited {
        /// The first item that differs.
        at: usize,
    },
}

/// What a call of [`Mirror::sync`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    /// What happened to the list.
    pub followed: Followed,
    /// Results that answer no call of the list before them. They were left out of the session; an API would refuse them.
    pub dropped: Vec<Key>,
}

/// Why a list cannot be followed. Session and mirror are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// Two items have the same id.
    #[error("items {first} and {second} have the same id {id:?}")]
    DuplicateId {
        /// Position of the first.
        first: usize,
        /// Position of the second.
        second: usize,
        /// The id.
        id: String,
    },
    /// The list no longer begins as the session does, and the session has a sink, which cannot follow: what it holds would not be
    /// the conversation any more. Sync with a [fork](Session::fork) or a new session; this one is as it was.
    #[error(
        "item {at} is not what the session holds, and its sink cannot follow a list that was rewritten; sync with a fork"
    )]
    SinkCannotFollow {
        /// Position of the first item that differs.
        at: usize,
    },
    /// A message is refused.
    #[error("item {at}: {error}")]
    Refused {
        /// Position of the item.
        at: usize,
        /// Why.
        #[source]
        error: SessionError,
    },
}

/// An item of the host's list and its place in the session.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    key: Key,
    /// None for an item that the host has just made or rewritten: the next look at it tells.
    fingerprint: Option<u64>,
    /// None for a result that was dropped.
    seq: Option<Seq>,
}

/// Follows a host's own list.
///
/// ```
/// use arya_presets::{BaseEngine, ExtractiveSummarizer, Item, Message, Mirror, Session, Situation, Trigger, WindowOrigin, compact};
///
/// // The host's own type, and how it becomes a message and is made from one.
/// #[derive(Clone)]
/// enum Said { User(String), Summary(String) }
/// # let words = "what the harbour master said about the gauges ".repeat(12);
/// let mut list: Vec<Said> = (0..30).map(|number| Said::User(format!("{number}: {words}"))).collect();
/// let item = |(at, said): (usize, &Said)| match said {
///     Said::User(text) | Said::Summary(text) => Item::new(at, Message::user(format!("m{at}"), text)),
/// };
///
/// let (mut mirror, mut session) = (Mirror::new(), Session::new("chat"));
/// let mut engine = BaseEngine::standard()?;
/// mirror.sync(&mut session, list.iter().enumerate().map(item))?;
/// let situation = Situation::new().window(4_000, WindowOrigin::Host);
/// compact(&mut engine, &mut session, Trigger::Pressure, &situation, &mut ExtractiveSummarizer::new())?;
///
/// let edits = mirror.edits(&session);
/// let applied = edits.apply(
///     &mut list,
///     |at, _| at.into(),
///     |checkpoint| Said::Summary(checkpoint.text()),
///     |_, _, _| {},
/// )?;
/// mirror.confirm(applied);
/// assert!(list.len() < 30 && matches!(list[0], Said::Summary(_)));
/// // The list as it is now is what the session shows.
/// let synced = mirror.sync(&mut session, list.iter().enumerate().map(item))?;
/// assert_eq!(synced.followed, arya_presets::Followed::Unchanged);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A list whose ids are partly missing: what has an id is named by it, the rest by its position. A rewind is followed.
///
/// ```
/// use arya_presets::{Followed, Item, Key, Message, Mirror, Session};
///
/// struct Row { id: Option<&'static str>, text: &'static str }
/// let key = |at: usize, row: &Row| row.id.map_or(Key::At(at), Key::from);
/// let item = |(at, row): (usize, &Row)| Item::new(key(at, row), Message::user(format!("m{at}"), row.text));
///
/// let mut rows = vec![
///     Row { id: Some("first"), text: "The parser refuses every frame." },
///     Row { id: None, text: "It began with the firmware 4.2.0." },
///     Row { id: Some("third"), text: "Forget it, I was wrong." },
/// ];
/// let (mut mirror, mut session) = (Mirror::new(), Session::new("chat"));
/// mirror.sync(&mut session, rows.iter().enumerate().map(item))?;
/// rows.pop();
/// let synced = mirror.sync(&mut session, rows.iter().enumerate().map(item))?;
/// assert_eq!(synced.followed, Followed::Rewound { kept: 2 });
/// assert_eq!(session.messages().count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A list that grows while a summary is written is shown at [`compact_shared`](crate::compact_shared).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mirror {
    entries: Vec<Entry>,
    /// Items of the list that are checkpoints of ours, whatever the host makes of them.
    checkpoints: Vec<CheckpointMark>,
}

impl Mirror {
    /// A mirror of an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Brings a session in step with the host's list. What is new is appended. After a rewind or an edit the session is made
    /// anew from the list, with its id and header; checkpoints in the list keep their provenance.
    pub fn sync(
        &mut self,
        session: &mut Session,
        items: impl IntoIterator<Item = Item>,
    ) -> Result<Synced, MirrorError> {
        let items: Vec<Item> = items.into_iter().collect();
        check_ids(&items)?;
        let same = self.entries.iter().zip(&items).take_while(|(entry, item)| entry.matches(item)).count();
        let mut work = Work { dropped: Vec::new(), added: Vec::new() };
        let mut marks: Vec<&CheckpointMark> = self.checkpoints.iter().collect();
        let followed = if same == self.entries.len() {
            let new = items.get(same..).unwrap_or_default();
            marks.retain(|mark| !self.entries.iter().any(|entry| mark.is(entry)));
            work.append(session, marks, new, same)?;
            match new.len() {
                0 => Followed::Unchanged,
                count => Followed::Appended { count },
            }
        } else if session.has_sink() {
            return Err(MirrorError::SinkCannotFollow { at: same });
        } else {
            let mut anew = Session::with_header(session.header().clone());
            let header = session.request_header().map(|header| Draft::request_header(header.clone()));
            // What a breaker knows is of the engine and not of the list.
            for draft in header.into_iter().chain(last_attempt(session).map(attempt_draft)) {
                anew.append(draft).map_err(|error| MirrorError::Refused { at: 0, error })?;
            }
            work.append(&mut anew, marks, &items, 0)?;
            *session = anew;
            self.entries.clear();
            if same == items.len() { Followed::Rewound { kept: same } } else { Followed::Edited { at: same } }
        };
        self.entries.extend(work.added);
        for (entry, item) in self.entries.iter_mut().zip(&items) {
            entry.fingerprint.get_or_insert_with(|| fingerprint(&item.message));
        }
        for mark in &mut self.checkpoints {
            if let Some((entry, item)) = self.entries.iter().zip(&items).find(|(entry, _)| mark.is(entry)) {
                mark.fingerprint = entry.fingerprint;
                mark.key.clone_from(&item.key);
            }
        }
        for (entry, item) in self.entries.iter_mut().zip(&items) {
            entry.key.clone_from(&item.key);
        }
        Ok(Synced { followed, dropped: work.dropped })
    }

    /// What the host's list has to change to be what the session shows. Empty when it is already.
    pub fn edits(&self, session: &Session) -> Edits {
        Edits::between(&self.entries, session)
    }

    /// Takes over that the host has changed its list.
    pub fn confirm(&mut self, applied: Applied) {
        for (key, message) in &applied.inserted {
            self.checkpoints.push(CheckpointMark::of(key.clone(), message));
        }
        self.entries = applied.entries(&self.entries);
        let entries = &self.entries;
        self.checkpoints.retain_mut(|mark| match entries.iter().find(|entry| mark.is(entry)) {
            Some(entry) => {
                mark.key.clone_from(&entry.key);
                true
            }
            None => false,
        });
    }
}

impl Entry {
    /// Whether an item is this one: the same id, where it has one, and the same content.
    fn matches(&self, item: &Item) -> bool {
        let same_key = match (&self.key, &item.key) {
            (Key::Id(mine), Key::Id(theirs)) => mine == theirs,
            (Key::At(_), Key::At(_)) => true,
            _ => false,
        };
        same_key && self.fingerprint.is_none_or(|print| print == fingerprint(&item.message))
    }
}

/// What a sync adds, kept apart until all of it is accepted.
struct Work {
    dropped: Vec<Key>,
    added: Vec<Entry>,
}

impl Work {
    fn append(
        &mut self,
        session: &mut Session,
        mut marks: Vec<&CheckpointMark>,
        items: &[Item],
        offset: usize,
    ) -> Result<(), MirrorError> {
        let mut open = open_calls(session);
        let mut drafts = Vec::new();
        let mut positions = Vec::new();
        for (position, item) in (offset..).zip(items) {
            let print = fingerprint(&item.message);
            let mut message = item.message.clone();
            // A checkpoint stands in a list once; what says the same beside it is somebody's text.
            if let Some(at) = marks.iter().position(|mark| mark.fits(&item.key, print)) {
                message.source = marks.remove(at).source();
            }
            for call in message.tool_calls() {
                *open.entry(call.id.clone()).or_insert(0) += 1;
            }
            let answers_nothing = match (&message.source, message.result()) {
                (Source::Tool { .. }, Some(result)) => !take_call(&mut open, &result.tool_call_id),
                _ => false,
            };
            let seq = (!answers_nothing).then(|| session.revision() + drafts.len() as Seq);
            if answers_nothing {
                self.dropped.push(item.key.clone());
            } else {
                drafts.push(draft_of(message, item.usage.clone()));
                positions.push(position);
            }
            self.added.push(Entry { key: item.key.clone(), fingerprint: Some(print), seq });
        }
        if drafts.is_empty() {
            return Ok(());
        }
        session.append_or_name(drafts).map(|_| ()).map_err(|(index, error)| {
            let at = positions.get(index).copied().unwrap_or(offset);
            MirrorError::Refused { at, error }
        })
    }
}

fn draft_of(message: Message, usage: Option<Usage>) -> Draft {
    match (&message.source, message.result()) {
        (Source::Model { .. }, _) => Draft::assistant(0, 0, message, usage),
        (Source::Tool { .. }, Some(_)) => Draft::tool_result(0, 0, message),
        _ => Draft::user(message),
    }
}

fn take_call(open: &mut HashMap<String, usize>, id: &str) -> bool {
    match open.get_mut(id) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

/// The calls on the surface that have no result yet.
fn open_calls(session: &Session) -> HashMap<String, usize> {
    let mut open = HashMap::new();
    for node in session.nodes() {
        for block in &node.message.content {
            match block {
                Block::ToolCall(call) => *open.entry(call.id.clone()).or_insert(0) += 1,
                Block::ToolResult(result) => {
                    take_call(&mut open, &result.tool_call_id);
                }
                _ => {}
            }
        }
    }
    open
}

fn check_ids(items: &[Item]) -> Result<(), MirrorError> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (second, item) in items.iter().enumerate() {
        if let Key::Id(id) = &item.key
            && let Some(first) = seen.insert(id, second)
        {
            return Err(MirrorError::DuplicateId { first, second, id: id.clone() });
        }
    }
    Ok(())
}

/// A number that tells contents apart: role and blocks, not the id, which hosts make up as they go. Neighbouring texts count as
/// one text of several lines. FNV-1a, so that it is the same in every build that reads a stored state.
fn fingerprint(message: &Message) -> u64 {
    let mut print = Fingerprint(0xcbf2_9ce4_8422_2325);
    print.take(if message.role == Role::User { "user" } else { "assistant" });
    print.blocks(&message.content);
    print.0
}

struct Fingerprint(u64);

impl Fingerprint {
    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }

    fn bytes(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
    }

    /// A text and its end; 0xFF is no byte of a text.
    fn take(&mut self, text: &str) {
        self.bytes(text);
        self.byte(0xFF);
    }

    fn blocks(&mut self, blocks: &[Block]) {
        let mut after_text = false;
        for block in blocks {
            if after_text && block.as_text().is_none() {
                self.byte(0xFE);
            }
            match block {
                Block::Text(text) => {
                    self.bytes(if after_text { "\n" } else { "text:" });
                    self.bytes(&text.text);
                    after_text = true;
                    continue;
                }
                Block::Reasoning(text) => self.take(&text.text),
                Block::ToolCall(call) => {
                    for text in ["call", &call.id, &call.name, &call.arguments] {
                        self.take(text);
                    }
                }
                Block::ToolResult(result) => {
                    self.take("result");
                    self.take(&result.tool_call_id);
                    if result.is_error == Some(true) {
                        self.take("error");
                    }
                    self.blocks(&result.content);
                }
                other => self.take(&other.to_value().to_string()),
            }
            self.byte(0xFE);
            after_text = false;
        }
        self.byte(0xFF);
    }
}

/// Keys that are used twice in a set of edits would be applied twice.
fn unique(keys: &[Key]) -> bool {
    let mut seen = HashSet::new();
    keys.iter().all(|key| seen.insert(key))
}
