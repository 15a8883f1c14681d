//! The live part of a conversation while it is read, with what readers look up in it again and again.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut, Range};

use super::assembly::Item;

/// Messages among which a record is sought before all are looked up.
const LAST_MESSAGES: usize = 8;

/// Messages in order. Looking up the newest answer, the person's messages or a record's id takes no walk through all of them.
///
/// Messages may be changed in place, but for their keys and for who said them.
#[derive(Default)]
pub(super) struct Live {
    items: Vec<Item>,
    /// Positions of the person's messages, of the model's, and of all that are no results of tools.
    users: Vec<usize>,
    answers: Vec<usize>,
    no_results: Vec<usize>,
    /// Positions by the ids of records, of the first `keyed` messages: files that ask for none pay for none.
    by_key: HashMap<String, Vec<usize>>,
    keyed: usize,
}

impl Deref for Live {
    type Target = [Item];

    fn deref(&self) -> &[Item] {
        &self.items
    }
}

impl DerefMut for Live {
    fn deref_mut(&mut self) -> &mut [Item] {
        &mut self.items
    }
}

impl Extend<Item> for Live {
    fn extend<T: IntoIterator<Item = Item>>(&mut self, items: T) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl From<Vec<Item>> for Live {
    fn from(items: Vec<Item>) -> Self {
        let mut live = Self::default();
        live.items.reserve(items.len());
        live.extend(items);
        live
    }
}

impl From<Live> for Vec<Item> {
    fn from(live: Live) -> Self {
        live.items
    }
}

impl Live {
    pub(super) fn push(&mut self, item: Item) {
        let at = self.items.len();
        if item.is_user() {
            self.users.push(at);
        }
        if item.is_assistant() {
            self.answers.push(at);
        }
        if !item.is_result() {
            self.no_results.push(at);
        }
        self.items.push(item);
    }

    pub(super) fn truncate(&mut self, len: usize) {
        drop(self.split_off(len));
    }

    /// Takes the messages from a position on out.
    pub(super) fn split_off(&mut self, at: usize) -> Vec<Item> {
        let at = at.min(self.items.len());
        for positions in [&mut self.users, &mut self.answers, &mut self.no_results] {
            positions.truncate(positions.partition_point(|position| *position < at));
        }
        for key in self.items.get(at..self.keyed).unwrap_or_default().iter().flat_map(|item| &item.keys) {
            if let Some(positions) = self.by_key.get_mut(key) {
                positions.truncate(positions.partition_point(|position| *position < at));
            }
        }
        self.keyed = self.keyed.min(at);
        self.items.split_off(at)
    }

    /// Position of the newest answer of the model.
    pub(super) fn newest_answer(&self) -> Option<usize> {
        self.answers.last().copied()
    }

    /// Positions of the person's messages within a range.
    pub(super) fn users_in(&self, range: Range<usize>) -> &[usize] {
        let before = |at: usize| self.users.partition_point(|position| *position < at);
        self.users.get(before(range.start)..before(range.end)).unwrap_or_default()
    }

    /// Position of the first message behind another that is no result of a tool, or the end.
    pub(super) fn end_of_results_behind(&self, at: usize) -> usize {
        let next = self.no_results.partition_point(|position| *position <= at);
        self.no_results.get(next).copied().unwrap_or(self.items.len())
    }

    /// Adds the id of a further record to a message.
    pub(super) fn add_key(&mut self, at: usize, key: String) {
        let Some(item) = self.items.get_mut(at) else { return };
        if at < self.keyed {
            let positions = self.by_key.entry(key.clone()).or_default();
            positions.insert(positions.partition_point(|position| *position <= at), at);
        }
        item.keys.push(key);
    }

    /// Positions of the messages that were made from a record, in order.
    pub(super) fn positions_of(&mut self, key: &str) -> &[usize] {
        for (at, item) in self.items.iter().enumerate().skip(self.keyed) {
            for key in &item.keys {
                match self.by_key.get_mut(key) {
                    Some(positions) => positions.push(at),
                    None => _ = self.by_key.insert(key.clone(), vec![at]),
                }
            }
        }
        self.keyed = self.items.len();
        self.by_key.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Position of the newest message that was made from a record.
    pub(super) fn newest_of(&mut self, key: &str) -> Option<usize> {
        // Mostly it is one of the last, and then no record is looked up.
        let last = self.items.len().saturating_sub(LAST_MESSAGES);
        let near = self.items.get(last..)?.iter().rposition(|item| item.has_key(key));
        near.map(|at| last + at).or_else(|| self.positions_of(key).last().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Block, Message, Role, Source};
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(u8, u8),
        Truncate(usize),
        AddKey(usize, u8),
        Ask(u8),
    }

    fn item(key: u8, speaker: u8) -> Item {
        let (role, source) = match speaker {
            0 => (Role::User, Source::user()),
            1 => (Role::Assistant, Source::model("p", "m")),
            _ => (Role::User, Source::tool("c")),
        };
        Item::new(0, Message::new("", role, source, vec![Block::text("x")])).keyed(Some(&key.to_string()))
    }

    proptest! {
        #[test]
        fn what_is_looked_up_is_what_a_walk_through_all_messages_finds(steps in proptest::collection::vec(prop_oneof![
            6 => (0_u8..30, 0_u8..3).prop_map(|(key, speaker)| Step::Push(key, speaker)),
            1 => (0_usize..60).prop_map(Step::Truncate),
            1 => (0_usize..60, 0_u8..30).prop_map(|(at, key)| Step::AddKey(at, key)),
            2 => (0_u8..30).prop_map(Step::Ask),
        ], 0..120)) {
            let mut live = Live::default();
            for step in steps {
                match step {
                    Step::Push(key, speaker) => live.push(item(key, speaker)),
                    Step::Truncate(len) => live.truncate(len),
                    Step::AddKey(at, key) => live.add_key(at, key.to_string()),
                    Step::Ask(key) => {
                        let key = key.to_string();
                        let walked = live.iter().rposition(|item| item.has_key(&key));
                        prop_assert_eq!(live.newest_of(&key), walked);
                    }
                }
                prop_assert_eq!(live.newest_answer(), live.iter().rposition(Item::is_assistant));
                let no_result = (3..live.len()).find(|at| !live[*at].is_result()).unwrap_or(live.len());
                prop_assert_eq!(live.end_of_results_behind(2), no_result);
                let users: Vec<usize> = (0..live.len()).filter(|at| live[*at].is_user()).collect();
                prop_assert_eq!(live.users_in(0..live.len()), &users);
                prop_assert_eq!(live.users_in(2..5), users.iter().copied().filter(|at| (2..5).contains(at)).collect::<Vec<_>>());
            }
        }
    }
}
