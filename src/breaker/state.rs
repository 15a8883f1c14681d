//! What a breaker remembers, and how it reads it back from the log.

use serde_json::{Value, json};

use crate::engine::{BreakerOpen, OpenedBy, TriggerKind};
use crate::message::Block;
use crate::meter::Pricing;
use crate::session::{Draft, EventData, Node, Seq, Session, SurfaceOp};

/// Type of the event that each attempt leaves.
const ATTEMPT: &str = "compaction/attempt";

/// Class of an attempt that folded,
pub(super) const FOLDED: &str = "ok";
/// and of one for which pruning was enough.
pub(super) const PRUNED: &str = "pruned";

/// So many folds in a row that were filled up again at once open the breaker: the figure that Claude Code is known for.
const REFILLS_TO_OPEN: u32 = 3;
/// A fold was filled up again at once when the next one is due within so many turns of the person,
const TURNS_OF_REFILL: usize = 3;
/// and within so many answers of the model: a long turn of steady work fills a window too, and that is no fault.
const ANSWERS_OF_REFILL: usize = 12;
/// How many of the largest messages are named when it opens.
const NAMED_CONTRIBUTORS: usize = 3;

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    pub(super) kind: TriggerKind,
    pub(super) class: &'static str,
    pub(super) tokens: u64,
    /// Whether it speaks against trying again.
    pub(super) counts: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    pub(super) failures: u32,
    refills: u32,
    /// Seq of the replacement with which the last fold ended.
    last_fold: Option<Seq>,
    pub(super) open: Option<BreakerOpen>,
}

impl State {
    /// Counts an attempt.
    pub(super) fn take(&mut self, session: &Session, attempt: &Attempt, limit: u32, time: i64) {
        let automatic = attempt.kind.is_automatic();
        match attempt.class {
            FOLDED => {
                self.failures = 0;
                self.refills =
                    if automatic && self.refilled_at_once(session) { self.refills.saturating_add(1) } else { 0 };
                self.last_fold = session.last_replacement();
                self.open = (self.refills >= REFILLS_TO_OPEN).then(|| {
                    let contributors = largest(session.nodes());
                    self.opened(OpenedBy::Thrash { contributors }, time)
                });
            }
            PRUNED => {
                self.failures = 0;
                self.open = None;
                if !automatic {
                    self.refills = 0;
                }
            }
            class if automatic && attempt.counts => {
                self.failures = self.failures.saturating_add(1);
                let was_open = self.open.as_ref().is_some_and(|open| matches!(open.by, OpenedBy::Failures { .. }));
                if was_open || (limit > 0 && self.failures >= limit) {
                    self.open = Some(self.opened(OpenedBy::Failures { last: class.to_owned() }, time));
                } else if let Some(open) = &mut self.open {
                    open.failures = self.failures;
                }
            }
            _ => {}
        }
    }

    fn opened(&self, by: OpenedBy, time: i64) -> BreakerOpen {
        BreakerOpen { by, failures: self.failures, refills: self.refills, since: time, retry_at: None }
    }

    /// Whether the fold before was filled up again within a few turns. Called when the next one has landed, so what stands behind
    /// the last fold in the log is what filled it.
    fn refilled_at_once(&self, session: &Session) -> bool {
        let Some(from) = self.last_fold.and_then(|seq| usize::try_from(seq).ok()) else { return false };
        let (mut turns, mut answers) = (0, 0);
        let later = session.events().get(from + 1..).unwrap_or_default();
        // What a host writes anew in its place is no new turn.
        for event in later.iter().filter(|event| event.surface_op == Some(SurfaceOp::Append)) {
            match &event.data {
                EventData::UserMessage(message) if message.source.is_user() => turns += 1,
                EventData::AssistantMessage(_) => answers += 1,
                _ => {}
            }
            if turns > TURNS_OF_REFILL || answers > ANSWERS_OF_REFILL {
                return false;
            }
        }
        true
    }

    /// The event that an attempt leaves: how it ended, and the state after it.
    pub(super) fn event(&self, attempt: &Attempt) -> Draft {
        let mut data = json!({
            "trigger": trigger_name(attempt.kind),
            "class": attempt.class,
            "tokens": attempt.tokens,
            "failures": self.failures,
            "refills": self.refills,
        });
        if let (Some(open), Value::Object(map)) = (&self.open, &mut data) {
            let by = match &open.by {
                OpenedBy::Failures { last } => json!({ "failures": last }),
                OpenedBy::Thrash { contributors } => json!({ "thrash": contributors }),
            };
            map.insert("open".into(), json!({ "by": by, "since": open.since }));
        }
        let mut draft = Draft::new(EventData::Other { kind: ATTEMPT.into(), data: data.into() });
        draft.ignorable = true;
        draft
    }

    /// The state after the last attempt that a log holds.
    pub(super) fn from_log(session: &Session) -> Self {
        let mut attempts = attempts(session);
        let Some((last_seq, last)) = attempts.next() else { return Self::default() };
        let folded = |data: &Value| data.get("class").and_then(Value::as_str) == Some(FOLDED);
        let fold =
            if folded(&last) { Some(last_seq) } else { attempts.find(|(_, data)| folded(data)).map(|(seq, _)| seq) };
        let count =
            |key: &str| last.get(key).and_then(Value::as_u64).map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX));
        let mut state = Self {
            failures: count("failures"),
            refills: count("refills"),
            last_fold: fold.and_then(|seq| last_replacement_before(session, seq)),
            open: None,
        };
        let open = last.get("open");
        let since = open.and_then(|open| open.get("since")).and_then(Value::as_i64);
        let by = open.and_then(|open| open.get("by")).and_then(read_cause);
        if let (Some(since), Some(by)) = (since, by) {
            state.open = Some(state.opened(by, since));
        }
        state
    }
}

/// The attempts that a log holds, newest first.
fn attempts(session: &Session) -> impl Iterator<Item = (Seq, Value)> + '_ {
    session.events().iter().rev().filter_map(|event| match &event.data {
        EventData::Other { kind, data } if &**kind == ATTEMPT => Some((event.seq, data.to_value())),
        _ => None,
    })
}

fn last_replacement_before(session: &Session, seq: Seq) -> Option<Seq> {
    let before = session.events().get(..usize::try_from(seq).ok()?)?;
    before.iter().rev().find(|event| matches!(event.surface_op, Some(SurfaceOp::Replace { .. }))).map(|event| event.seq)
}

fn read_cause(by: &Value) -> Option<OpenedBy> {
    if let Some(last) = by.get("failures").and_then(Value::as_str) {
        return Some(OpenedBy::Failures { last: last.to_owned() });
    }
    let contributors = by.get("thrash")?.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Some(OpenedBy::Thrash { contributors })
}

fn trigger_name(kind: TriggerKind) -> &'static str {
    match kind {
        TriggerKind::Pressure => "pressure",
        TriggerKind::Overflow => "overflow",
        TriggerKind::ModelSwitch => "model-switch",
        TriggerKind::PostTurn => "post-turn",
        TriggerKind::Manual => "manual",
        TriggerKind::Region => "region",
        TriggerKind::Precompute => "precompute",
        TriggerKind::Commit => "commit",
    }
}

/// The largest messages of the surface, each in words.
fn largest(nodes: &[Node]) -> Vec<String> {
    let pricing = Pricing::harness();
    let mut priced: Vec<(u64, &Node)> = nodes.iter().map(|node| (pricing.message(&node.message), node)).collect();
    priced.sort_by_key(|(price, node)| (std::cmp::Reverse(*price), node.seq));
    priced
        .into_iter()
        .take(NAMED_CONTRIBUTORS)
        .map(|(price, node)| format!("{} at seq {}: about {price} tokens", what(nodes, node), node.seq))
        .collect()
}

fn what(nodes: &[Node], node: &Node) -> String {
    let Some(result) = node.message.result() else { return format!("message of {}", node.message.source.kind()) };
    let name = nodes.iter().flat_map(|node| &node.message.content).find_map(|block| match block {
        Block::ToolCall(call) if call.id == result.tool_call_id => Some(call.name.as_str()),
        _ => None,
    });
    format!("result of {}", name.unwrap_or("a tool"))
}
