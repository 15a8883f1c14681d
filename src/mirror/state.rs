//! What a host stores beside its list, so that a mirror of a later process knows what it cannot see there.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Entry, Key, Mirror};
use crate::message::{Extra, Message, Source};
use crate::session::{Draft, EventData, Session, SessionError};

/// Version of the state that this crate writes.
const VERSION: u32 = 1;
/// Type of the event that a breaker leaves after each attempt.
const ATTEMPT: &str = "compaction/attempt";

/// A checkpoint in a host's list: what the list itself does not say of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointMark {
    /// How the host names it.
    pub key: Key,
    /// A number that tells its content from others'; none until the host has shown what it made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fingerprint: Option<u64>,
    /// The compaction that wrote it.
    pub compaction_id: String,
    /// Further fields of its source, such as the kit.
    #[serde(default)]
    pub(super) source: serde_json::Map<String, Value>,
}

impl CheckpointMark {
    pub(super) fn of(key: Key, message: &Arc<Message>) -> Self {
        let (compaction_id, source) = match &message.source {
            Source::Checkpoint { compaction_id, extra } => {
                (compaction_id.clone(), extra.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            _ => (String::new(), serde_json::Map::new()),
        };
        Self { key, fingerprint: None, compaction_id, source }
    }

    /// Whether an item is it: by its id, where both have one, and by its content, where that is known. Positions move, so alone
    /// they say nothing once the content is known.
    pub(super) fn fits(&self, key: &Key, print: u64) -> bool {
        match (&self.key, key, self.fingerprint) {
            (Key::Id(mine), Key::Id(theirs), known) => mine == theirs && known.is_none_or(|known| known == print),
            (_, _, Some(known)) => known == print,
            (mine, theirs, None) => mine == theirs,
        }
    }

    /// Whether it is the checkpoint of an item that the mirror follows, as [`fits`](Self::fits) says.
    pub(super) fn is(&self, entry: &Entry) -> bool {
        match (&self.key, &entry.key, self.fingerprint) {
            (Key::Id(mine), Key::Id(theirs), known) => {
                mine == theirs && known.is_none_or(|_| known == entry.fingerprint)
            }
            (.., Some(known)) => entry.fingerprint == Some(known),
            (mine, theirs, None) => mine == theirs,
        }
    }

    pub(super) fn source(&self) -> Source {
        Source::Checkpoint { compaction_id: self.compaction_id.clone(), extra: Extra::from(self.source.clone()) }
    }
}

/// What a host stores beside its list: small, serialisable, versioned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MirrorState {
    /// Version of the format.
    pub version: u32,
    /// The checkpoints in the list.
    pub checkpoints: Vec<CheckpointMark>,
    /// What a breaker noted of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Value>,
}

/// Why a state cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It is of a version that this crate does not know.
    #[error("the state is of version {0}; this crate knows version {VERSION}")]
    Version(u32),
    /// The session refused what it says.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Mirror {
    /// What to store beside the list.
    pub fn state(&self, session: &Session) -> MirrorState {
        MirrorState { version: VERSION, checkpoints: self.checkpoints.clone(), attempt: last_attempt(session) }
    }

    /// A mirror for a list that an earlier process left, with what it stored beside it. The session must be new.
    pub fn restore(state: MirrorState, session: &mut Session) -> Result<Self, StateError> {
        if state.version != VERSION {
            return Err(StateError::Version(state.version));
        }
        if let Some(attempt) = state.attempt {
            session.append(attempt_draft(attempt))?;
        }
        Ok(Self { entries: Vec::new(), checkpoints: state.checkpoints })
    }
}

/// What a breaker noted of the last attempt.
pub(super) fn last_attempt(session: &Session) -> Option<Value> {
    session.events().iter().rev().find_map(|event| match &event.data {
        EventData::Other { kind, data } if &**kind == ATTEMPT => Some(data.to_value()),
        _ => None,
    })
}

pub(super) fn attempt_draft(attempt: Value) -> Draft {
    let mut draft = Draft::new(EventData::Other { kind: ATTEMPT.into(), data: attempt.into() });
    draft.ignorable = true;
    draft
}
