//! Which cuts of the surface keep every tool call with its result.
//!
//! Two readings live side by side. *By count*, the harness's: calls add, results subtract, a cut is balanced at zero. *By id*,
//! ours: a call opens its id, the next result with that id closes it, whatever order results come in; a call that was never
//! answered stops mattering once its step is over.

use std::collections::{HashMap, VecDeque};

use super::event::Seq;
use super::surface::Node;

/// A call without a result so far.
#[derive(Debug, Clone, Copy)]
struct OpenCall {
    position: usize,
    /// Gaps before this position are already counted as held by the call, from the time when it was given up.
    given_up_at: Option<usize>,
}

/// Balance of the gaps of a surface. Gap `i` lies behind node `i`.
#[derive(Debug, Default, Clone)]
pub(super) struct Pairing {
    /// Calls minus results up to and including each node.
    count_after: Vec<i64>,
    /// First node at which the count went below zero.
    unmatched: Option<usize>,
    /// Number of calls whose result stands, or may still come, behind each node.
    held_after: Vec<u32>,
    /// Calls without a result, by id, oldest first.
    open: HashMap<Box<str>, VecDeque<OpenCall>>,
    /// How many of them may still be answered in their own step.
    waiting: u32,
}

impl Pairing {
    /// The pairing of a whole surface.
    pub(super) fn rebuild(nodes: &[Node]) -> Self {
        let mut pairing = Self::default();
        let mut before = None;
        for node in nodes {
            pairing.push(node, before);
            if node.ends_step {
                pairing.end_step();
            }
            before = Some(node);
        }
        pairing
    }

    /// Adds the node at the tail; `before` is its neighbour.
    pub(super) fn push(&mut self, node: &Node, before: Option<&Node>) {
        let position = self.count_after.len();
        let count = self.count_after.last().copied().unwrap_or(0) + node.call_balance();
        if count < 0 && self.unmatched.is_none() {
            self.unmatched = Some(position);
        }
        self.count_after.push(count);
        if node.is_assistant() {
            // The model was called again: what was left unanswered before stays so. Two assistant messages in a row are one
            // answer that its writer split.
            if before.is_some_and(|before| !before.is_assistant()) {
                self.end_step();
            }
            for call in node.message.tool_calls() {
                self.open
                    .entry(call.id.as_str().into())
                    .or_default()
                    .push_back(OpenCall { position, given_up_at: None });
                self.waiting += 1;
            }
        } else if let Some(id) = node.result_id() {
            self.answer(id, position);
        }
        self.held_after.push(self.waiting);
    }

    fn answer(&mut self, id: &str, position: usize) {
        let Some(calls) = self.open.get_mut(id) else {
            return;
        };
        // A call that still waits comes before one that was given up, so that a reused id pairs with its own step.
        let index = calls.iter().position(|call| call.given_up_at.is_none()).unwrap_or(0);
        let call = calls.remove(index);
        if calls.is_empty() {
            self.open.remove(id);
        }
        match call {
            Some(OpenCall { given_up_at: None, .. }) => self.waiting = self.waiting.saturating_sub(1),
            Some(OpenCall { position: from, given_up_at: Some(until) }) => {
                // A late result: the gaps since the call was given up are held after all.
                let first = until.saturating_sub(1).max(from);
                for held in self.held_after.iter_mut().take(position).skip(first) {
                    *held += 1;
                }
            }
            None => {}
        }
    }

    /// Gives up the calls that still wait: their step is over. The gap behind the last node is free of them.
    pub(super) fn end_step(&mut self) {
        if self.waiting == 0 {
            return;
        }
        let end = self.held_after.len();
        if let Some(last) = self.held_after.last_mut() {
            *last = last.saturating_sub(self.waiting);
        }
        self.waiting = 0;
        for call in self.open.values_mut().flatten() {
            call.given_up_at.get_or_insert(end);
        }
    }

    /// Whether the gap behind a node separates no call from its result, by id.
    pub(super) fn is_safe_after(&self, position: usize) -> bool {
        self.held_after.get(position).is_some_and(|held| *held == 0)
    }

    /// Whether the gap behind a node is balanced by count; the first unmatched result makes every answer an error.
    pub(super) fn is_balanced_after(&self, position: usize, nodes: &[Node]) -> Result<bool, Seq> {
        if let Some(node) = self.unmatched.and_then(|at| nodes.get(at)) {
            return Err(node.seq);
        }
        Ok(self.count_after.get(position).is_some_and(|count| *count == 0))
    }
}
