//! Every tool result behind its call.
//!
//! Calls and results are matched by id and by occurrence, since some providers use an id again: a result answers the newest
//! call before it that is still open, or else the first open one behind it.

use std::collections::{HashMap, VecDeque};

/// One element of a conversation, as far as pairing asks.
pub(super) trait Paired {
    /// Ids of the calls that it makes.
    fn calls(&self) -> impl Iterator<Item = &str>;
    /// Id of the call that it answers; none for what is no result.
    fn answers(&self) -> Option<&str>;
    /// Whether the model said it.
    fn is_answer_of_model(&self) -> bool;
}

/// A conversation in the order in which every API takes it. Numbers are positions in the list that it was made from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arrangement {
    pub(super) pieces: Vec<Piece>,
    /// Results that stood elsewhere than between their call's message and the next answer.
    pub(super) moved: Vec<usize>,
    /// Results without a call.
    pub(super) orphans: Vec<usize>,
    /// Results of calls that were answered before.
    pub(super) repeated: Vec<usize>,
}

/// A message, and the results of its calls in the order of the calls.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) message: usize,
    pub(super) results: Vec<Option<usize>>,
    /// In which order the results follow: as they stand where all of them stand right behind their message, else as the calls do.
    pub(super) order: Vec<usize>,
}

/// A call: its message, and its place among the calls of that message.
type Call = (usize, usize);

/// Arranges a conversation, in time that grows with its length alone.
pub(super) fn arrange<T: Paired>(items: &[T]) -> Arrangement {
    let mut arrangement = Arrangement::default();
    let mut results: HashMap<Call, usize> = HashMap::new();
    // Open calls by id: one entry a message, with the first slot in front.
    let mut open: HashMap<&str, Vec<VecDeque<Call>>> = HashMap::new();
    let mut left_over = Vec::new();
    for (position, item) in items.iter().enumerate() {
        for (slot, id) in item.calls().enumerate() {
            let messages = open.entry(id).or_default();
            match messages.last_mut().filter(|calls| calls.front().is_some_and(|call| call.0 == position)) {
                Some(calls) => calls.push_back((position, slot)),
                None => messages.push(VecDeque::from([(position, slot)])),
            }
        }
        let Some(id) = item.answers() else { continue };
        let newest = open.get_mut(id).and_then(|messages| {
            let call = messages.last_mut()?.pop_front();
            if messages.last().is_some_and(VecDeque::is_empty) {
                messages.pop();
            }
            call
        });
        match newest {
            Some(call) => _ = results.insert(call, position),
            None => left_over.push((id, position)),
        }
    }
    let mut still_open: HashMap<&str, VecDeque<Call>> =
        open.iter().map(|(id, messages)| (*id, messages.iter().flatten().copied().collect())).collect();
    for (id, position) in left_over {
        let Some(calls) = still_open.get_mut(id) else {
            arrangement.orphans.push(position);
            continue;
        };
        while calls.front().is_some_and(|call| call.0 < position) {
            calls.pop_front();
        }
        match calls.pop_front() {
            Some(call) => _ = results.insert(call, position),
            None => arrangement.repeated.push(position),
        }
    }
    // The next answer of the model behind each message: a result that stands elsewhere than between the two is moved.
    let mut next_answer = items.len();
    let mut next_message = items.len();
    for (position, item) in items.iter().enumerate().rev() {
        if item.answers().is_some() {
            continue;
        }
        let of_calls: Vec<Option<usize>> =
            (0..item.calls().count()).map(|slot| results.get(&(position, slot)).copied()).collect();
        arrangement.moved.extend(of_calls.iter().flatten().filter(|at| **at < position || **at > next_answer));
        let stands_behind = |at: &usize| *at > position && *at < next_message;
        let mut order: Vec<usize> = (0..of_calls.len()).collect();
        if of_calls.iter().flatten().all(stands_behind) {
            // Unanswered calls come last.
            order.sort_by_key(|slot| of_calls.get(*slot).copied().flatten().unwrap_or(usize::MAX));
        }
        if item.is_answer_of_model() {
            next_answer = position;
        }
        next_message = position;
        arrangement.pieces.push(Piece { message: position, results: of_calls, order });
    }
    arrangement.pieces.reverse();
    arrangement.moved.sort_unstable();
    arrangement
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Item {
        User,
        Answer(Vec<&'static str>),
        Result(&'static str),
    }

    impl Paired for Item {
        fn calls(&self) -> impl Iterator<Item = &str> {
            let ids: &[&str] = match self {
                Self::Answer(ids) => ids,
                _ => &[],
            };
            ids.iter().copied()
        }
        fn answers(&self) -> Option<&str> {
            match self {
                Self::Result(id) => Some(id),
                _ => None,
            }
        }
        fn is_answer_of_model(&self) -> bool {
            matches!(self, Self::Answer(_))
        }
    }
    use Item::{Answer, Result, User};

    fn results_of(items: &[Item]) -> Vec<Vec<Option<usize>>> {
        arrange(items).pieces.into_iter().map(|piece| piece.results).filter(|results| !results.is_empty()).collect()
    }

    #[test]
    fn parallel_results_pair_by_id_in_whatever_order_they_come() {
        let items = [User, Answer(vec!["a", "b"]), Result("b"), Result("a")];
        assert_eq!(results_of(&items), [vec![Some(3), Some(2)]]);
        let arranged = arrange(&items);
        assert!(arranged.moved.is_empty());
        assert_eq!(arranged.pieces[1].order, [1, 0], "they stay as they stand");
        let items = [Answer(vec!["a", "b"]), Result("b"), User, Result("a")];
        assert_eq!(
            arrange(&items).pieces[0].order,
            [0, 1],
            "results that must be moved follow in the order of the calls"
        );
    }

    #[test]
    fn an_id_that_is_used_again_pairs_by_occurrence() {
        let items = [Answer(vec!["x"]), Result("x"), Answer(vec!["x"]), Result("x"), Answer(vec!["x"])];
        assert_eq!(results_of(&items), [vec![Some(1)], vec![Some(3)], vec![None]]);
        // The second call was never answered; the third was.
        let items = [Answer(vec!["x"]), Answer(vec!["x"]), Result("x")];
        assert_eq!(results_of(&items), [vec![None], vec![Some(2)]]);
        let items = [Answer(vec!["x", "x"]), Result("x"), Result("x")];
        assert_eq!(results_of(&items), [vec![Some(1), Some(2)]]);
        // A second result does not take the place of the next call's own.
        let items = [Answer(vec!["x"]), Result("x"), Result("x"), Answer(vec!["x"]), Result("x")];
        assert_eq!(results_of(&items), [vec![Some(1)], vec![Some(4)]]);
    }

    #[test]
    fn a_result_before_its_call_or_behind_a_later_answer_is_moved() {
        let arranged = arrange(&[Result("a"), Answer(vec!["a"])]);
        assert_eq!((arranged.moved, arranged.orphans.len()), (vec![0], 0));
        let arranged = arrange(&[Answer(vec!["a"]), Answer(vec![]), Result("a")]);
        assert_eq!(arranged.moved, [2]);
        assert_eq!(arrange(&[Answer(vec!["a"]), User, Result("a")]).moved, Vec::<usize>::new());
    }

    #[test]
    fn results_without_a_call_and_second_results_are_named() {
        let arranged = arrange(&[Result("z"), Answer(vec!["a"]), Result("a"), Result("a")]);
        assert_eq!((arranged.orphans, arranged.repeated), (vec![0], vec![3]));
    }

    proptest! {
        #[test]
        fn every_result_is_paired_or_named_exactly_once(items in proptest::collection::vec(prop_oneof![
            Just(User),
            proptest::collection::vec(proptest::sample::select(vec!["a", "b", "c"]), 0..3).prop_map(Answer),
            proptest::sample::select(vec!["a", "b", "c", "z"]).prop_map(Result),
        ], 0..30)) {
            let arranged = arrange(&items);
            let mut seen: Vec<usize> = arranged.pieces.iter().flat_map(|piece| piece.results.iter().flatten().copied()).collect();
            seen.extend(&arranged.orphans);
            seen.extend(&arranged.repeated);
            seen.sort_unstable();
            let results: Vec<usize> = (0..items.len()).filter(|at| items[*at].answers().is_some()).collect();
            prop_assert_eq!(seen, results);
            for piece in &arranged.pieces {
                for (id, result) in items[piece.message].calls().zip(&piece.results) {
                    prop_assert!(result.is_none_or(|at| items[at].answers() == Some(id)));
                }
            }
        }
    }
}
