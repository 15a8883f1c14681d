//! Random sessions and policies. A session is told by its seed and its number of acts; with fewer acts it is a beginning of
//! itself, so that a failing case can be made smaller.

use std::sync::Arc;

use arya_presets::{
    AssistantChunk, BackgroundTable, Block, BudgetScope, ClearByClass, ClearOld, CompactionEnd, CompactionStart,
    CompactionSummary, Draft, EndSeed, EventData, Extra, Fallback, Message, Meter, MeterRules, NodeRange, Policy,
    PrunePlan, PrunePolicy, RawJson, RequestContext, RequestHeader, Retain, Role, Route, RuleSet, Session,
    SessionHeader, Source, ToolResult, TrimPolicy, Usage,
};
use serde_json::{Value, json};

use super::{Rng, reference};

const TEXTS: [&str; 12] = [
    "",
    " ",
    "Never touch the lock file.",
    "수정해 주세요. 数据库迁移。",
    "👩\u{200d}💻👍🏽 e\u{301}\u{301} 🇩🇪",
    "line one\nline two\r\n\n\tthree\u{2028}\u{0}",
    "</compacted-summary> <compacted-summary>",
    "~~~~~~~~~~\n```\n## Current Work\n- none",
    r#"{"path":"src/lib.rs","n":[1,2.5,null]}"#,
    "error: cannot find `x` because it was decided so. Next: fix it.",
    "\u{feff}\u{202e}\\\"/",
    "a",
];

pub(crate) fn text(rng: &mut Rng) -> String {
    match rng.below(10) {
        0..6 => rng.pick(&TEXTS).to_owned(),
        6..9 => rng.pick(&["word ", "数据", "x", "😀", "Do it. "]).repeat(rng.index(60)),
        _ => rng.pick(&["row, ", "長い", "y"]).repeat(200 + rng.index(800)),
    }
}

fn extra(rng: &mut Rng) -> Extra {
    let mut extra = Extra::default();
    if rng.chance(12) {
        let value = match rng.below(6) {
            0 => Value::Null,
            1 => json!({"deep": [[{"a": {}}]], "10": 1, "2": "x"}),
            2 => json!(rng.next()),
            3 => json!(-1.5e-9),
            4 => json!(rng.unit()),
            _ => json!(text(rng)),
        };
        extra.insert(rng.pick(&["cache", "x-unknown", "0"]), value);
    }
    extra
}

fn block(rng: &mut Rng) -> Block {
    match rng.below(20) {
        0..12 => Block::text(text(rng)),
        12..15 => {
            let mut block = Block::reasoning(text(rng));
            if let Block::Reasoning(reasoning) = &mut block {
                reasoning.extra = extra(rng);
            }
            block
        }
        15 => from(json!({"type": "image", "attachment": {"mediaType": "image/png", "data": "QUJD"}})),
        16 => from(json!({"type": "document", "url": "https://example.org/a.pdf"})),
        17 => from(json!({"type": "audio"})),
        18 => from(json!({"type": "server-tool", "payload": {"n": 1e21, "list": [true, null, -0.0]}})),
        _ => from(rng.pick(&[json!("bare"), json!(null), json!([1, "two"]), json!({"type": "text", "text": 7})])),
    }
}

fn from(value: Value) -> Block {
    serde_json::from_value(value).unwrap()
}

fn blocks(rng: &mut Rng, most: usize) -> Vec<Block> {
    let count = rng.index(most + 1);
    (0..count).map(|_| block(rng)).collect()
}

pub(crate) fn usage(rng: &mut Rng) -> Option<Usage> {
    let mut usage = match rng.below(10) {
        0..4 => return None,
        4 => Usage::default(),
        5 => Usage { input_tokens: u64::MAX, output_tokens: u64::MAX, ..Usage::default() },
        6 => Usage { input_tokens: 2_000, cache_read_tokens: Some(10_000_000), ..Usage::default() },
        _ => Usage { input_tokens: rng.below(3_000), output_tokens: rng.below(500), ..Usage::default() },
    };
    if rng.chance(30) {
        usage.cache_write_tokens = Some(rng.below(1_000));
        usage.reasoning_tokens = Some(rng.below(50));
    }
    usage.extra = extra(rng);
    Some(usage)
}

struct Writer {
    rng: Rng,
    session: Session,
    meter: Meter,
    turn: u64,
    turn_is_open: bool,
    step: u64,
    step_is_open: bool,
    /// Calls that were not answered when they were made.
    late: Vec<(u64, u64, String)>,
    made: u64,
    logs_turns: bool,
    logs_steps: bool,
    reuses_ids: bool,
    /// Whether every log-level rule of the harness is kept: answers inside their steps, no result without its call.
    orderly: bool,
    time: Option<i64>,
}

/// A random session.
pub(crate) fn session(seed: u64, acts: usize) -> Session {
    let mut rng = Rng::new(seed);
    let mut header = SessionHeader::new(format!("s-{seed:x}"), rng.pick(&[0, 1_700_000_000_000, i64::MIN, i64::MAX]));
    header.cwd = rng.chance(30).then(|| "/home/用户/\"x\"".to_owned());
    let orderly = rng.chance(60);
    let pricing = super::pricing(RuleSet::Default);
    let mut writer = Writer {
        session: Session::with_header(header),
        meter: Meter::new(pricing, MeterRules::DEFAULT),
        turn: 0,
        turn_is_open: false,
        step: 0,
        step_is_open: false,
        late: Vec::new(),
        made: 0,
        logs_turns: orderly || rng.chance(70),
        logs_steps: orderly || rng.chance(60),
        reuses_ids: rng.chance(25),
        orderly,
        time: rng.pick(&[None, Some(0), Some(1_700_000_000_000), Some(-5)]),
        rng,
    };
    for _ in 0..acts {
        writer.act();
    }
    writer.session
}

impl Writer {
    fn act(&mut self) {
        match self.rng.below(100) {
            0..20 => self.request(),
            20..26 => self.inject(),
            26..62 => self.answer(),
            62..68 => self.late_result(),
            68..70 => self.orphan_result(),
            70..75 => self.request_header(),
            75..77 => self.context(),
            77..82 => self.prune(),
            82..85 => self.edit(),
            85..89 => self.checkpoint(),
            89..91 => self.rewrite_result(),
            91..94 => self.unknown(),
            94..98 => self.end_turn(),
            _ => self.restart(),
        }
    }

    fn put(&mut self, draft: Draft) -> u64 {
        let draft = match &mut self.time {
            Some(time) if self.rng.chance(80) => {
                *time += 7;
                draft.at(*time)
            }
            _ => draft,
        };
        self.session.append(draft).unwrap()
    }

    fn id(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}{}", self.made)
    }

    fn message(&mut self, source: Source) -> Message {
        let mut content = blocks(&mut self.rng, 2);
        if content.is_empty() && self.rng.chance(90) {
            content.push(Block::text(text(&mut self.rng)));
        }
        let mut message = Message::new(self.id("m"), Role::User, source, content);
        message.extra = extra(&mut self.rng);
        message
    }

    fn start_turn(&mut self) {
        if self.logs_turns && !self.turn_is_open {
            self.turn += 1;
            self.step = 0;
            self.put(Draft::turn_start(self.turn));
            self.turn_is_open = true;
        }
    }

    fn end_step(&mut self) {
        if self.step_is_open {
            self.put(Draft::step_end(self.turn, self.step));
            self.step_is_open = false;
        }
    }

    fn end_turn(&mut self) {
        self.end_step();
        if self.turn_is_open {
            self.put(Draft::turn_end(self.turn));
            self.turn_is_open = false;
        }
    }

    fn request(&mut self) {
        self.start_turn();
        let source = Source::User { extra: extra(&mut self.rng) };
        let message = self.message(source);
        self.put(Draft::user(message));
    }

    fn inject(&mut self) {
        let source = Source::other(self.rng.pick(&["agent-instructions", "reminder", "plugin", "goal"]));
        let message = self.message(source);
        self.put(Draft::user(message));
    }

    fn call_id(&mut self) -> String {
        if self.reuses_ids { format!("tool_{}", self.rng.below(2)) } else { self.id("call") }
    }

    fn answer(&mut self) {
        self.start_turn();
        self.end_step();
        self.step += 1;
        if self.logs_steps {
            self.put(Draft::step_start(self.turn, self.step));
            self.step_is_open = true;
        }
        let calls = self.rng.index(6).saturating_sub(self.rng.index(3));
        let split = calls > 1 && self.rng.chance(15);
        let mut ids = Vec::new();
        for part in 0..=usize::from(split) {
            let mut content = blocks(&mut self.rng, 2);
            let here = if split { if part == 0 { 1 } else { calls - 1 } } else { calls };
            for _ in 0..here {
                let id = self.call_id();
                let arguments = self.rng.pick(&[r#"{"path":"a.rs"}"#, "", "{\"cut", r#"{"command":"ls\nrm"}"#]);
                content.push(Block::tool_call(id.clone(), self.rng.pick(&["read", "bash", ""]), arguments));
                ids.push(id);
            }
            self.say(content);
        }
        // Results come in any order, and some not at all, or not yet.
        while !ids.is_empty() {
            let at = self.rng.index(ids.len());
            let id = ids.remove(at);
            if !self.orderly && self.rng.chance(15) || self.orderly && self.rng.chance(3) {
                self.late.push((self.turn, self.step, id));
                continue;
            }
            if self.rng.chance(6) {
                self.inject();
            }
            self.result(self.turn, self.step, &id);
        }
        if self.rng.chance(70) {
            self.end_step();
        }
    }

    fn say(&mut self, content: Vec<Block>) {
        let source = Source::model(self.rng.pick(&["p", "q"]), "m");
        let message = Message::assistant(self.id("m"), source, content);
        let cited = if self.rng.chance(15) { self.chunks() } else { None };
        let mut draft = Draft::assistant(self.turn, self.step, message, usage(&mut self.rng));
        if let EventData::AssistantMessage(data) = &mut draft.data {
            data.interrupted = self.rng.chance(10).then_some(true);
            if self.rng.chance(20) {
                data.extra.insert("requestRevision", self.rng.below(self.session.revision() + 2).into());
            }
        }
        draft.sources = cited;
        self.put(draft);
    }

    fn chunks(&mut self) -> Option<Vec<u64>> {
        let pieces = [
            json!({"type": "block-start", "index": 0, "blockType": "text"}),
            json!({"type": "text-delta", "index": 0, "text": text(&mut self.rng)}),
            json!({"type": "tool-call-delta", "index": 1, "id": "c", "name": "read", "argumentsDelta": "{"}),
            json!({"type": "finish", "reason": {"kind": "max-tokens"}}),
        ];
        let count = self.rng.index(pieces.len() + 1);
        let (turn, step) = (self.turn, self.step);
        let cited = pieces.into_iter().take(count).map(|piece| {
            let chunk = AssistantChunk { turn, step, chunk: RawJson::from(piece), extra: Extra::default() };
            self.put(Draft::new(EventData::AssistantChunk(Box::new(chunk))))
        });
        Some(cited.collect())
    }

    fn result(&mut self, turn: u64, step: u64, id: &str) {
        let block = Block::ToolResult(ToolResult {
            tool_call_id: id.to_owned(),
            content: blocks(&mut self.rng, 3),
            is_error: self.rng.pick(&[None, Some(false), Some(true)]),
            extra: extra(&mut self.rng),
        });
        let message = Message::new(self.id("m"), Role::User, Source::tool(id), vec![block]);
        self.put(Draft::tool_result(turn, step, message));
    }

    fn late_result(&mut self) {
        if !self.late.is_empty() {
            let at = self.rng.index(self.late.len());
            let (turn, step, id) = self.late.remove(at);
            self.result(turn, step, &id);
        }
    }

    fn orphan_result(&mut self) {
        if !self.orderly {
            let id = self.rng.pick(&["tool_0", "nobody", "call3"]);
            self.result(self.turn, self.step, id);
        }
    }

    fn request_header(&mut self) {
        let mut header = RequestHeader::new(self.rng.pick(&["p", "q"]), "m");
        header.system = self.rng.chance(60).then(|| text(&mut self.rng));
        header.tools = self.rng.chance(40).then(|| vec![json!({"name": "read", "10": 1, "2": {"type": "object"}})]);
        header.config.temperature = self.rng.chance(30).then(|| self.rng.unit());
        header.config.max_tokens = self.rng.chance(30).then(|| self.rng.below(9_000));
        header.config.extra = extra(&mut self.rng);
        self.put(Draft::request_header(header));
    }

    fn context(&mut self) {
        let context_window = self.rng.chance(80).then(|| self.rng.below(200_000));
        let (provider, model) = ("p".to_owned(), "m".to_owned());
        let extra = extra(&mut self.rng);
        self.put(Draft::request_context(RequestContext { provider, model, context_window, extra }));
    }

    fn prune(&mut self) {
        let policy = small_trim(&mut self.rng);
        if let Ok(plan) = PrunePlan::trim(&self.session, &mut self.meter, &policy) {
            plan.apply(&mut self.session, 0).unwrap();
        }
    }

    /// The host replaces a run of nodes by a message, wherever that run ends.
    fn edit(&mut self) {
        let nodes = self.session.nodes();
        if nodes.is_empty() {
            return;
        }
        let first = self.rng.index(nodes.len());
        let last = if self.orderly { first } else { (first + self.rng.index(4)).min(nodes.len() - 1) };
        if self.orderly && (nodes[first].message.result().is_some() || nodes[first].is_assistant()) {
            return;
        }
        let seqs: Vec<u64> = nodes[first..=last].iter().map(|node| node.seq).collect();
        let source = self.rng.pick(&[Source::user(), Source::other("edit")]);
        let message = self.message(source);
        self.put(Draft::user(message).replacing(seqs[0], seqs[seqs.len() - 1]).citing(seqs));
    }

    fn rewrite_result(&mut self) {
        let results: Vec<usize> = (0..self.session.nodes().len())
            .filter(|at| self.session.nodes()[*at].message.source.kind() == "tool")
            .collect();
        if results.is_empty() {
            return;
        }
        let at = self.rng.pick(&results);
        let seq = self.session.nodes()[at].seq;
        let Some(EventData::ToolResult(data)) = self.session.event(seq).map(|event| event.data.clone()) else { return };
        let mut data = data;
        let mut message = (*data.message).clone();
        if let Some(Block::ToolResult(result)) = message.content.first_mut() {
            result.content = blocks(&mut self.rng, 2);
        }
        data.message = Arc::new(message);
        self.put(Draft::new(EventData::ToolResult(data)).replacing(seq, seq).citing(vec![seq]));
    }

    /// A fold as an earlier compaction would have left it.
    fn checkpoint(&mut self) {
        let cuts = reference::cuts(&self.session);
        if cuts.len() < 2 || self.session.open_compaction().is_some() {
            return;
        }
        let first = self.rng.index(cuts.len() - 1);
        let last = first + 1 + self.rng.index(cuts.len() - 1 - first);
        let seqs: Vec<u64> = self.session.nodes()[cuts[first]..cuts[last]].iter().map(|node| node.seq).collect();
        let range = NodeRange { start: seqs[0], end: seqs[seqs.len() - 1] };
        let id = self.id("compaction");
        let turn = self.session.open_turn();
        let start =
            CompactionStart { compaction_id: id.clone(), turn, source_command_id: None, extra: Extra::default() };
        self.put(Draft::new(EventData::CompactionStart(Box::new(start))));
        let body = text(&mut self.rng);
        let summary = CompactionSummary {
            compaction_id: id.clone(),
            source_command_id: None,
            summary: vec![Block::text(&body)],
            shadowed_range: range,
            shadowed_seqs: seqs.clone(),
            shadowed_token_count: self.rng.below(1_000),
            provider: "p".into(),
            model: "m".into(),
            max_tokens: None,
            usage: usage(&mut self.rng),
            raw_output: None,
            extra: extra(&mut self.rng),
        };
        self.put(Draft::new(EventData::CompactionSummary(Box::new(summary))));
        let source = Source::Checkpoint { compaction_id: id.clone(), extra: extra(&mut self.rng) };
        let content = ["<compacted-summary>", &body, "</compacted-summary>"].map(Block::text).to_vec();
        let message = Message::new(self.id("m"), Role::User, source, content);
        self.put(Draft::user(message).replacing(range.start, range.end).citing(seqs));
        let end =
            CompactionEnd { compaction_id: id, source_command_id: None, turn, error: None, extra: Extra::default() };
        self.put(Draft::new(EventData::CompactionEnd(Box::new(end))));
    }

    fn unknown(&mut self) {
        let data = self.rng.pick(&[
            json!({"n": 1, "text": "数\u{2028}\n"}),
            json!([]),
            json!(null),
            json!({"turn": "not a number", "big": u64::MAX, "small": i64::MIN}),
        ]);
        let kind = self.rng.pick(&["todo/update", "x", "compaction/attempt"]);
        let mut draft = Draft::new(EventData::Other { kind: kind.into(), data: RawJson::from(data) });
        draft.ignorable = self.rng.chance(50);
        self.put(draft);
    }

    fn restart(&mut self) {
        if self.rng.chance(40) && self.session.open_compaction().is_none() {
            let (compaction_id, turn) = (self.id("lost"), self.session.open_turn());
            let start = CompactionStart { compaction_id, turn, source_command_id: None, extra: Extra::default() };
            self.put(Draft::new(EventData::CompactionStart(Box::new(start))));
        }
        if self.rng.chance(90) {
            self.put(Draft::new(EventData::EndSeed(EndSeed::default())));
        }
    }
}

/// Budgets that bite on the texts of the generator.
pub(crate) fn small_trim(rng: &mut Rng) -> TrimPolicy {
    let marker = rng.pick(&["…", "[cut]", ""]).to_owned();
    let (head_chars, tail_chars) = (rng.index(30), rng.index(30));
    let threshold_chars = head_chars + tail_chars + marker.chars().count() + rng.index(40);
    TrimPolicy { threshold_chars, head_chars, tail_chars, marker }
}

/// A random policy that is valid.
pub(crate) fn policy(rng: &mut Rng) -> Policy {
    loop {
        let threshold_ratio = rng.pick(&[0.8, 0.9, 0.99, 1.0, 0.5, f64::MIN_POSITIVE, rng.clone().unit().max(0.01)]);
        let policy = Policy {
            auto: rng.chance(97),
            threshold_ratio,
            headroom_tokens: rng.pick(&[0, 0, 100, 16_000, u64::MAX]),
            reserve_output: rng.chance(50),
            output_reserve_cap_tokens: rng.pick(&[None, Some(0), Some(64_000), Some(u64::MAX)]),
            retain: match rng.below(4) {
                0 => Retain::Tokens(rng.pick(&[0, 1, 50, 20_000, u64::MAX])),
                1 => Retain::Ratio(f64::MIN_POSITIVE),
                _ => Retain::Ratio(threshold_ratio * rng.unit().max(0.01)),
            },
            max_tokens: rng.pick(&[1, 40, 500, 8_192, u64::MAX]),
            pre_warm_percent: rng.pick(&[0, 0, 1, 30, 70]),
            post_turn_percent: rng.pick(&[0, 0, 2, 60, 100]),
            absolute_token_limit: rng.pick(&[0, 0, 1, 300, 5_000, u64::MAX]),
            max_request_bytes: rng.pick(&[0, 0, 0, 0, 1, 2_000, u64::MAX]),
            budget_scope: rng.pick(&[BudgetScope::Thread, BudgetScope::Thread, BudgetScope::Turn]),
            min_fold_tokens: rng.pick(&[0, 0, 100, 4_000]),
            summary_retries: rng.pick(&[None, Some(0), Some(1), Some(2)]),
            drop_oldest_retries: rng.pick(&[0, 0, 1, 2]),
            keep_user_tokens: rng.pick(&[None, Some(0), Some(50), Some(20_000)]),
            min_body_tokens: rng.pick(&[None, None, Some(0)]),
            recent_file_limit: rng.pick(&[None, Some(0), Some(3)]),
            verify_user_messages: rng.pick(&[true, false]),
            background: BackgroundTable::default(),
            compaction_retries: rng.pick(&[0, 1, 1, 3]),
            overflow_retries: 1,
            checkpoint_prompt: rng.pick(&["", "", "Be short."]).into(),
            summarizer: rng.pick(&[None, Some(Route::new("p", "small"))]),
            fallback: rng.pick(&[Fallback::None, Fallback::None, Fallback::Extractive]),
            max_checkpoint_chars: rng.pick(&[None, None, Some(100), Some(2_000)]),
            model_policies: Vec::new(),
            prune: PrunePolicy {
                trim: match rng.below(3) {
                    0 => None,
                    1 => Some(TrimPolicy::default()),
                    _ => Some(small_trim(rng)),
                },
                clear_old: rng.pick(&[
                    None,
                    None,
                    Some(ClearOld { keep_recent_tool_results: 1, min_micro_compact_tokens: 20 }),
                ]),
                clear_by_class: rng.pick(&[
                    None,
                    None,
                    Some(ClearByClass { keep_recent: 1, trigger_chars: 200, ..ClearByClass::default() }),
                ]),
                idle_clear_ms: rng.pick(&[0, 0, 5]),
                ..PrunePolicy::default()
            },
            min_gain_ratio: rng.pick(&[0.0, 0.05, 0.5]),
            target_gap_ratio: rng.pick(&[0.0, 0.1, 0.5]),
        };
        if policy.validate().is_ok() {
            return policy;
        }
    }
}
