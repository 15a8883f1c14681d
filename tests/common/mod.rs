//! What the tests share: a generator of sessions and policies, summaries as each kit wants them, a scripted summariser, a sink
//! that can refuse or panic, and a reference reading of which cuts keep calls and results together.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]

pub(crate) mod generate;
pub(crate) mod kits;
pub(crate) mod reference;
pub(crate) mod sink;
pub(crate) mod summarizer;

use std::sync::Arc;

use arya_presets::{
    BaseEngine, Block, Draft, HarnessHeuristic, Kit, MediaPricing, Message, NodeKind, Policy, Pricing, RequestHeader,
    RuleSet, Session, Situation, Source, WindowOrigin,
};

/// A pseudo-random sequence that is fully told by its seed.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())].clone()
    }

    /// A number in `[0, 1)`.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number between two others, small ones as likely as large ones.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rough")]
    pub(crate) fn scale(&mut self, from: u64, to: u64) -> u64 {
        let (low, high) = ((from.max(1) as f64).ln(), (to as f64).ln());
        ((low + self.unit() * (high - low)).exp() as u64).clamp(from, to)
    }
}

/// A session that is built sentence by sentence.
pub(crate) fn session() -> Session {
    Session::new("s")
}

pub(crate) fn model() -> Source {
    Source::model("p", "m")
}

pub(crate) fn header() -> Draft {
    Draft::request_header(RequestHeader::new("p", "m"))
}

/// So much text, in words of three letters, that it is priced at `tokens`.
pub(crate) fn words(tokens: usize) -> String {
    "abc ".repeat(tokens)
}

pub(crate) fn user(session: &mut Session, text: &str) -> u64 {
    let id = format!("u{}", session.revision());
    session.append(Draft::user(Message::user(id, text))).unwrap()
}

pub(crate) fn injected(session: &mut Session, kind: &str, text: &str) -> u64 {
    let id = format!("i{}", session.revision());
    session.append(Draft::user(Message::injected(id, kind, text))).unwrap()
}

/// An answer with a text and calls of a tool.
pub(crate) fn assistant(session: &mut Session, text: &str, calls: &[&str]) -> u64 {
    let mut content = Vec::new();
    if !text.is_empty() {
        content.push(Block::text(text));
    }
    content.extend(calls.iter().map(|id| Block::tool_call(*id, "read", r#"{"path":"a.rs"}"#)));
    let id = format!("a{}", session.revision());
    session.append(Draft::assistant(1, 1, Message::assistant(id, model(), content), None)).unwrap()
}

pub(crate) fn result(session: &mut Session, call_id: &str, text: &str) -> u64 {
    let id = format!("r{}", session.revision());
    session.append(Draft::tool_result(1, 1, Message::tool_result(id, call_id, text, false))).unwrap()
}

/// A conversation of `turns` turns, each with a request, an answer and one tool call, of about `tokens` tokens a turn.
pub(crate) fn conversation(turns: usize, tokens: usize) -> Session {
    let mut session = session();
    session.append(header()).unwrap();
    for turn in 1..=turns {
        user(&mut session, &format!("Request {turn}: {}", words(tokens / 4)));
        let call = format!("call-{turn}");
        assistant(&mut session, &words(tokens / 4), &[&call]);
        result(&mut session, &call, &words(tokens / 4));
        assistant(&mut session, &words(tokens / 4), &[]);
    }
    session
}

/// The rule set's prices by a counter whose figures a reader can work out.
pub(crate) fn pricing(rule_set: RuleSet) -> Pricing {
    match rule_set {
        RuleSet::Harness => Pricing::harness(),
        _ => Pricing::new(Arc::new(HarnessHeuristic), MediaPricing::default()),
    }
}

pub(crate) fn engine(policy: Policy, rule_set: RuleSet) -> BaseEngine {
    BaseEngine::new(policy, Kit::base(), rule_set).unwrap().with_pricing(pricing(rule_set))
}

pub(crate) fn standard() -> BaseEngine {
    engine(Policy::default(), RuleSet::Default)
}

pub(crate) fn window(tokens: u64) -> Situation {
    Situation::new().window(tokens, WindowOrigin::Host)
}

/// A session with the same log, made anew.
pub(crate) fn replayed(session: &Session) -> Session {
    Session::from_events(session.header().clone(), session.events().to_vec()).unwrap()
}

/// The events of a session as drafts, to be appended to another.
pub(crate) fn drafts(session: &Session) -> Vec<Draft> {
    session
        .events()
        .iter()
        .map(|event| Draft {
            data: event.data.clone(),
            time: Some(event.time),
            ignorable: event.ignorable,
            sources: event.sources.clone().map(Vec::from),
            surface_op: event.surface_op,
        })
        .collect()
}

/// The texts that the model sees, one a message.
pub(crate) fn texts(session: &Session) -> Vec<String> {
    session.messages().map(|message| message.text()).collect()
}

/// Every call on the surface that has its result behind it, every result that has its call before it: nothing else.
pub(crate) fn is_whole(session: &Session) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for node in session.nodes() {
        if node.kind == NodeKind::ToolResult {
            let id = &node.message.result().unwrap().tool_call_id;
            match open.iter().position(|open| open == id) {
                Some(at) => drop(open.remove(at)),
                None => return false,
            }
        } else if node.is_assistant() {
            open.extend(node.message.tool_calls().map(|call| call.id.as_str()));
        }
    }
    open.is_empty()
}
