//! The surface: the ordered nodes that the model sees.

use std::sync::Arc;

use super::error::SessionError;
use super::event::{EventData, Seq, SurfaceOp};
use super::pairing::Pairing;
use crate::message::Message;

/// Kind of a surface node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A `user/message`: the person, an injection, or a checkpoint.
    User,
    /// An `assistant/message`.
    Assistant,
    /// A `tool/result`.
    ToolResult,
}

/// A node of the surface.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Seq of the event that holds the message.
    pub seq: Seq,
    /// What kind of event that is.
    pub kind: NodeKind,
    /// The message, shared with the log.
    pub message: Arc<Message>,
    /// Whether a step or turn ended right behind it.
    pub(super) ends_step: bool,
}

impl Node {
    pub(super) fn new(seq: Seq, data: &EventData) -> Option<Self> {
        let kind = match data {
            EventData::UserMessage(_) => NodeKind::User,
            EventData::AssistantMessage(_) => NodeKind::Assistant,
            EventData::ToolResult(_) => NodeKind::ToolResult,
            _ => return None,
        };
        Some(Self { seq, kind, message: Arc::clone(data.message()?), ends_step: false })
    }

    /// Whether the model said it.
    pub fn is_assistant(&self) -> bool {
        self.kind == NodeKind::Assistant
    }

    /// Id of the call that a result answers.
    pub(super) fn result_id(&self) -> Option<&str> {
        match self.kind {
            NodeKind::ToolResult => self.message.result().map(|result| result.tool_call_id.as_str()),
            _ => None,
        }
    }

    /// Calls opened minus results given.
    pub(super) fn call_balance(&self) -> i64 {
        match self.kind {
            NodeKind::User => 0,
            NodeKind::Assistant => i64::try_from(self.message.tool_calls().count()).unwrap_or(i64::MAX),
            NodeKind::ToolResult => -1,
        }
    }

    /// Whether the model sees it: an answer without content is a node but no message.
    pub(super) fn is_visible(&self) -> bool {
        !(self.is_assistant() && self.message.content.is_empty())
    }
}

/// Marks a seq that is not on the surface.
const ABSENT: usize = usize::MAX;

/// The surface with its indices.
#[derive(Debug, Default)]
pub(super) struct Surface {
    nodes: Vec<Node>,
    /// Position on the surface by seq.
    positions: Vec<usize>,
    pairing: Pairing,
    generation: u64,
    /// Each replacement with what it hid, in log order.
    replacements: Vec<(Seq, Box<[Seq]>)>,
}

/// What takes a change of the surface back.
pub(super) enum Undo {
    Append,
    Replace { position: usize, hidden: Vec<Node> },
    EndStep { was: bool },
}

impl Surface {
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn replacements(&self) -> &[(Seq, Box<[Seq]>)] {
        &self.replacements
    }

    pub(super) fn pairing(&self) -> &Pairing {
        &self.pairing
    }

    pub(super) fn position(&self, seq: Seq) -> Option<usize> {
        let index = usize::try_from(seq).ok()?;
        self.positions.get(index).copied().filter(|position| *position != ABSENT)
    }

    /// The positions of an inclusive run, named by the seqs of its ends.
    pub(super) fn run(&self, start: Seq, end: Seq) -> Result<(usize, usize), SessionError> {
        let find = |seq| self.position(seq).ok_or(SessionError::NotOnSurface { seq });
        let (start_position, end_position) = (find(start)?, find(end)?);
        if start_position > end_position {
            return Err(SessionError::RangeReversed { start, start_position, end, end_position });
        }
        Ok((start_position, end_position))
    }

    pub(super) fn slice(&self, first: usize, last: usize) -> &[Node] {
        self.nodes.get(first..=last).unwrap_or_default()
    }

    /// Gives spare memory back.
    pub(super) fn shrink_to_fit(&mut self) {
        self.nodes.shrink_to_fit();
        self.positions.shrink_to_fit();
    }

    /// Puts a node in its place. Everything has been checked.
    pub(super) fn place(&mut self, node: Node, op: SurfaceOp) -> Result<Undo, SessionError> {
        match op {
            SurfaceOp::Append => {
                self.set_position(node.seq, self.nodes.len());
                self.pairing.push(&node, self.nodes.last());
                self.nodes.push(node);
                Ok(Undo::Append)
            }
            SurfaceOp::Replace { start, end } => {
                let (first, last) = self.run(start, end)?;
                Ok(self.replace(node, first, last))
            }
        }
    }

    fn replace(&mut self, mut node: Node, first: usize, last: usize) -> Undo {
        let seq = node.seq;
        // A result that takes the place of another result of the same call changes no pairing.
        let same_pairing = first == last
            && self
                .nodes
                .get(first)
                .is_some_and(|old| old.result_id().is_some() && old.result_id() == node.result_id());
        node.ends_step = self.nodes.get(last).is_some_and(|old| old.ends_step);
        let hidden: Vec<Node> = self.nodes.splice(first..=last, [node]).collect();
        self.replacements.push((seq, hidden.iter().map(|node| node.seq).collect()));
        for old in &hidden {
            self.set_position(old.seq, ABSENT);
        }
        if hidden.len() == 1 {
            self.set_position(seq, first);
        } else {
            self.index_from(first);
        }
        if !same_pairing {
            self.pairing = Pairing::rebuild(&self.nodes);
        }
        self.generation += 1;
        Undo::Replace { position: first, hidden }
    }

    /// A step or turn is over: its unanswered calls stay unanswered.
    pub(super) fn end_step(&mut self) -> Option<Undo> {
        let last = self.nodes.last_mut()?;
        let was = std::mem::replace(&mut last.ends_step, true);
        self.pairing.end_step();
        Some(Undo::EndStep { was })
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Append => {
                if let Some(node) = self.nodes.pop() {
                    self.set_position(node.seq, ABSENT);
                }
            }
            Undo::Replace { position, hidden } => {
                if let Some(node) = self.nodes.get(position) {
                    self.set_position(node.seq, ABSENT);
                    self.nodes.splice(position..=position, hidden);
                }
                self.replacements.pop();
                self.generation = self.generation.saturating_sub(1);
                self.index_from(position);
            }
            Undo::EndStep { was } => {
                if let Some(last) = self.nodes.last_mut() {
                    last.ends_step = was;
                }
            }
        }
    }

    /// Rebuilds what `undo` does not take back piece by piece.
    pub(super) fn settle(&mut self, events: usize) {
        self.positions.truncate(events);
        self.pairing = Pairing::rebuild(&self.nodes);
    }

    fn set_position(&mut self, seq: Seq, position: usize) {
        let Ok(index) = usize::try_from(seq) else {
            return;
        };
        if index >= self.positions.len() {
            self.positions.resize(index + 1, ABSENT);
        }
        if let Some(slot) = self.positions.get_mut(index) {
            *slot = position;
        }
    }

    fn index_from(&mut self, first: usize) {
        for position in first..self.nodes.len() {
            if let Some(seq) = self.nodes.get(position).map(|node| node.seq) {
                self.set_position(seq, position);
            }
        }
    }
}
