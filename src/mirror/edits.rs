//! What a host's list has to change, and changing it whole or not at all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Entry, Key, unique};
use crate::message::{Block, Message};
use crate::session::{Seq, Session};

/// One change of a host's list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// These items are no longer shown to the model.
    Hide(Vec<Key>),
    /// A checkpoint takes their place.
    Insert {
        /// The item that it goes before; none for the end of the list.
        before: Option<Key>,
        /// The checkpoint.
        message: Arc<Message>,
    },
    /// The result in this item has another content.
    Rewrite {
        /// The item.
        key: Key,
        /// The call that the result answers.
        call_id: String,
        /// The content of the result.
        content: Vec<Block>,
    },
}

/// Why edits do not fit a list. The list is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// An item is not in the list.
    #[error("the list holds no item {0:?}; sync the mirror with the list first")]
    NotInList(Key),
    /// The list holds an item that was not there when the mirror last saw it, before one that was. At the end of the list such
    /// items stay.
    #[error("item {0:?} came into the list after the mirror last saw it; sync the mirror with the list first")]
    NotSeen(Key),
    /// Two items have the same key.
    #[error("two items of the list have the key {0:?}")]
    AmbiguousKey(Key),
}

/// The changes that make a host's list what the session shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Edits {
    edits: Vec<Edit>,
    /// The list afterwards: items that stay, with their key and seq, and checkpoints that come in.
    result: Vec<Slot>,
}

#[derive(Debug, Clone, PartialEq)]
enum Slot {
    Kept { key: Key, seq: Option<Seq> },
    New { seq: Seq, message: Arc<Message> },
}

/// That edits were applied, to be handed to [`Mirror::confirm`](super::Mirror::confirm).
#[derive(Debug, Clone, PartialEq)]
#[must_use = "the mirror has to know that its edits were applied"]
pub struct Applied {
    /// The checkpoints that came in, with the keys that the host gave them.
    pub inserted: Vec<(Key, Arc<Message>)>,
    entries: Vec<(Key, Option<Seq>)>,
}

impl Applied {
    /// The items of the list as it is now. Those that the host made or rewrote have no fingerprint yet.
    pub(super) fn entries(self, before: &[Entry]) -> Vec<Entry> {
        let known: HashMap<Seq, Option<u64>> =
            before.iter().filter_map(|entry| Some((entry.seq?, entry.fingerprint))).collect();
        self.entries
            .into_iter()
            .map(|(key, seq)| match seq {
                Some(seq) => Entry { key, fingerprint: known.get(&seq).copied().flatten(), seq: Some(seq) },
                // A dropped result is in no session; what the host shows there is looked at anew.
                None => Entry { key, fingerprint: None, seq: None },
            })
            .collect()
    }
}

impl Edits {
    pub(super) fn between(entries: &[Entry], session: &Session) -> Self {
        let by_seq: HashMap<Seq, &Entry> = entries.iter().filter_map(|entry| Some((entry.seq?, entry))).collect();
        let mut edits = Self::default();
        let mut hidden = Vec::new();
        // Results that were pruned stand in the place of the item that held the original.
        let mut now: HashMap<Seq, Seq> = HashMap::new();
        for node in session.nodes() {
            let mut origin = node.seq;
            while let (false, Some([before])) = (by_seq.contains_key(&origin), session.shadowed_by(origin)) {
                origin = *before;
            }
            let rewrites = origin != node.seq && by_seq.contains_key(&origin) && node.message.result().is_some();
            now.insert(if rewrites { origin } else { node.seq }, node.seq);
        }
        let mut order: Vec<Slot> = Vec::new();
        for entry in entries {
            let Some(seq) = entry.seq else {
                order.push(Slot::Kept { key: entry.key.clone(), seq: None });
                continue;
            };
            match now.get(&seq) {
                None => hidden.push(entry.key.clone()),
                Some(current) => {
                    if *current != seq
                        && let Some(result) = session.message(*current).and_then(|message| message.result())
                    {
                        edits.edits.push(Edit::Rewrite {
                            key: entry.key.clone(),
                            call_id: result.tool_call_id.clone(),
                            content: result.content.clone(),
                        });
                    }
                    order.push(Slot::Kept { key: entry.key.clone(), seq: Some(*current) });
                }
            }
        }
        edits.place(order, session);
        if !hidden.is_empty() {
            edits.edits.push(Edit::Hide(hidden));
        }
        edits.insert_edits();
        edits
    }

    /// Puts the nodes that no item holds before the item whose node follows them.
    fn place(&mut self, order: Vec<Slot>, session: &Session) {
        let held: HashMap<Seq, usize> = order
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| match slot {
                Slot::Kept { seq: Some(seq), .. } => Some((*seq, at)),
                _ => None,
            })
            .collect();
        let mut before: HashMap<usize, Vec<Slot>> = HashMap::new();
        let mut waiting = Vec::new();
        for node in session.nodes() {
            match held.get(&node.seq) {
                Some(at) => {
                    if !waiting.is_empty() {
                        before.entry(*at).or_default().append(&mut waiting);
                    }
                }
                None => waiting.push(Slot::New { seq: node.seq, message: Arc::clone(&node.message) }),
            }
        }
        for (at, slot) in order.into_iter().enumerate() {
            self.result.extend(before.remove(&at).unwrap_or_default());
            self.result.push(slot);
        }
        self.result.extend(waiting);
    }

    fn insert_edits(&mut self) {
        let mut next: Option<Key> = None;
        let mut inserts = Vec::new();
        for slot in self.result.iter().rev() {
            match slot {
                Slot::Kept { key, .. } => next = Some(key.clone()),
                Slot::New { message, .. } => {
                    inserts.push(Edit::Insert { before: next.clone(), message: Arc::clone(message) });
                }
            }
        }
        inserts.reverse();
        self.edits.extend(inserts);
    }

    /// The changes, one by one, for hosts that apply them themselves.
    pub fn iter(&self) -> impl Iterator<Item = &Edit> {
        self.edits.iter()
    }

    /// Whether nothing has to change.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Changes a list, whole or not at all: everything is looked up before anything is touched. Items that came in at its end since
    /// the mirror last saw it stay there.
    ///
    /// `key` names an item, by its position or by what it holds; `make` makes the host's item of a checkpoint; `rewrite` puts
    /// another content into the result with the given call id.
    pub fn apply<T>(
        &self,
        list: &mut Vec<T>,
        key: impl Fn(usize, &T) -> Key,
        mut make: impl FnMut(&Message) -> T,
        mut rewrite: impl FnMut(&mut T, &str, &[Block]),
    ) -> Result<Applied, EditError> {
        let keys: Vec<Key> = list.iter().enumerate().map(|(at, item)| key(at, item)).collect();
        if !unique(&keys) {
            let twice = keys.iter().find(|key| keys.iter().filter(|other| other == key).count() > 1);
            return Err(EditError::AmbiguousKey(twice.cloned().unwrap_or(Key::At(0))));
        }
        let positions: HashMap<&Key, usize> = keys.iter().enumerate().map(|(at, key)| (key, at)).collect();
        let find = |key: &Key| positions.get(key).copied().ok_or_else(|| EditError::NotInList(key.clone()));
        let mut rewrites = Vec::new();
        let mut seen: HashSet<&Key> = HashSet::new();
        for edit in &self.edits {
            match edit {
                Edit::Hide(hidden) => {
                    hidden.iter().try_for_each(|key| find(key).map(|_| ()))?;
                    seen.extend(hidden);
                }
                Edit::Rewrite { key, call_id, content } => rewrites.push((find(key)?, call_id, content)),
                Edit::Insert { before, .. } => before.iter().try_for_each(|key| find(key).map(|_| ()))?,
            }
        }
        let order: Vec<Option<usize>> = self
            .result
            .iter()
            .map(|slot| match slot {
                Slot::Kept { key, .. } => {
                    seen.insert(key);
                    find(key).map(Some)
                }
                Slot::New { .. } => Ok(None),
            })
            .collect::<Result<_, _>>()?;
        let end = keys.iter().rposition(|key| seen.contains(key)).map_or(0, |last| last + 1);
        if let Some(key) = keys.iter().take(end).find(|key| !seen.contains(key)) {
            return Err(EditError::NotSeen(key.clone()));
        }
        let mut made: Vec<T> = Vec::new();
        for slot in &self.result {
            if let Slot::New { message, .. } = slot {
                made.push(make(message));
            }
        }
        for (at, call_id, content) in rewrites {
            if let Some(item) = list.get_mut(at) {
                rewrite(item, call_id, content);
            }
        }
        let later = list.split_off(end);
        let mut old: Vec<Option<T>> = list.drain(..).map(Some).collect();
        let mut made = made.into_iter();
        for position in order {
            let item = match position {
                Some(at) => old.get_mut(at).and_then(Option::take),
                None => made.next(),
            };
            list.extend(item);
        }
        list.extend(later);
        let mut applied = Applied { inserted: Vec::new(), entries: Vec::new() };
        for ((at, item), slot) in list.iter().enumerate().zip(&self.result) {
            let key = key(at, item);
            match slot {
                Slot::Kept { seq, .. } => applied.entries.push((key, *seq)),
                Slot::New { seq, message } => {
                    applied.inserted.push((key.clone(), Arc::clone(message)));
                    applied.entries.push((key, Some(*seq)));
                }
            }
        }
        Ok(applied)
    }
}
