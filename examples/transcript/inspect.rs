//! What a transcript holds, as a person asks: what it is, where its tokens are, what was wrong with it.

use std::collections::BTreeMap;
use std::fmt::Write;

use arya_presets::transcript::{Import, ImportReport};
use arya_presets::{Block, Message, Pricing, Source};
use serde_json::{Value, json};

/// How many of the largest messages are named.
const NAMED_MESSAGES: usize = 8;

#[derive(Default, Clone, Copy)]
struct Share {
    count: u64,
    tokens: u64,
}

impl Share {
    fn add(&mut self, tokens: u64) {
        self.count += 1;
        self.tokens += tokens;
    }
}

pub(crate) struct Inspection {
    id: String,
    report: ImportReport,
    model: Option<String>,
    window: Option<u64>,
    reported_tokens: Option<u64>,
    system_and_tools: u64,
    total: u64,
    by_source: BTreeMap<String, Share>,
    by_tool: Vec<(String, Share)>,
    largest: Vec<(u64, u64, String)>,
    turns: u64,
}

impl Inspection {
    pub(crate) fn of(import: &Import) -> Self {
        let session = &import.session;
        let pricing = Pricing::default();
        let mut by_source: BTreeMap<String, Share> = BTreeMap::new();
        let mut tools: BTreeMap<String, Share> = BTreeMap::new();
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let mut largest = Vec::new();
        let mut messages = 0;
        for node in session.nodes() {
            let tokens = pricing.content(&node.message.content);
            messages += tokens;
            by_source.entry(kind_of(&node.message)).or_default().add(tokens);
            for call in node.message.tool_calls() {
                names.insert(call.id.clone(), call.name.clone());
                let tokens = pricing.block(&Block::ToolCall(call.clone()));
                tools.entry(call.name.clone()).or_default().add(tokens);
            }
            if let Some(result) = node.message.result() {
                let name = names.get(&result.tool_call_id).cloned().unwrap_or_else(|| "unknown".into());
                tools.entry(name).or_default().tokens += tokens;
            }
            largest.push((tokens, node.seq, first_line(&node.message)));
        }
        largest.sort_by_key(|(tokens, seq, _)| (std::cmp::Reverse(*tokens), *seq));
        largest.truncate(NAMED_MESSAGES);
        let mut by_tool: Vec<(String, Share)> = tools.into_iter().collect();
        by_tool.sort_by_key(|(_, share)| std::cmp::Reverse(share.tokens));
        let header = session.request_header();
        let system_and_tools = header.map_or(0, |header| pricing.header(header));
        let usage = session.events().iter().rev().find_map(|event| match &event.data {
            arya_presets::EventData::AssistantMessage(data) => data.usage.as_ref(),
            _ => None,
        });
        let turns = session.events().iter().filter(|event| event.data.kind() == "turn/start").count();
        Self {
            id: session.id().to_owned(),
            report: import.report.clone(),
            model: header.map(|header| format!("{}/{}", header.config.provider, header.config.model)),
            window: session.request_context().and_then(|context| context.context_window),
            reported_tokens: usage.map(arya_presets::Usage::total_tokens),
            system_and_tools,
            total: messages + system_and_tools,
            by_source,
            by_tool,
            largest,
            turns: turns as u64,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let share = |share: &Share| json!({ "count": share.count, "tokens": share.tokens });
        let sources: BTreeMap<&String, Value> = self.by_source.iter().map(|(name, of)| (name, share(of))).collect();
        let tools: Vec<Value> = self
            .by_tool
            .iter()
            .map(|(name, of)| json!({ "tool": name, "calls": of.count, "tokens": of.tokens }))
            .collect();
        let largest: Vec<Value> = self
            .largest
            .iter()
            .map(|(tokens, seq, text)| json!({ "seq": seq, "tokens": tokens, "begins": text }))
            .collect();
        json!({
            "id": self.id, "model": self.model, "window": self.window, "reportedTokens": self.reported_tokens,
            "tokens": self.total, "systemAndTools": self.system_and_tools, "turns": self.turns,
            "messages": sources, "tools": tools, "largest": largest, "report": self.report,
        })
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let report = &self.report;
        // Writing to a string cannot fail.
        let _ =
            writeln!(out, "{} session {}: {} records, {} turns", report.format, self.id, report.records, self.turns);
        let _ = writeln!(
            out,
            "model {}, window {}, last reported {}",
            self.model.as_deref().unwrap_or("unknown"),
            self.window.map_or("unknown".into(), |window| format!("{window} tokens")),
            self.reported_tokens.map_or("nothing".into(), |tokens| format!("{tokens} tokens")),
        );
        if report.folds > 0 {
            let _ = writeln!(
                out,
                "{} folds; {} messages lie before the newest and are left out{}",
                report.folds,
                report.folded_messages,
                if report.opaque_checkpoint {
                    "; its summary can be read by the service alone that wrote it"
                } else {
                    ""
                }
            );
        }
        let _ = writeln!(out, "\nwhere the tokens are (estimated): {} in all", self.total);
        let percent = |tokens: u64| tokens * 100 / self.total.max(1);
        let _ = writeln!(
            out,
            "  {:>9} tokens {:>3} %         system prompt and tools",
            self.system_and_tools,
            percent(self.system_and_tools)
        );
        for (name, share) in &self.by_source {
            let _ =
                writeln!(out, "  {:>9} tokens {:>3} %  {:>6} {name}", share.tokens, percent(share.tokens), share.count);
        }
        if !self.by_tool.is_empty() {
            let _ = writeln!(out, "\nby tool, calls and results together");
            for (name, share) in self.by_tool.iter().take(12) {
                let _ = writeln!(
                    out,
                    "  {:>9} tokens {:>3} %  {:>6} calls of {name}",
                    share.tokens,
                    percent(share.tokens),
                    share.count
                );
            }
        }
        let _ = writeln!(out, "\nthe largest messages");
        for (tokens, seq, text) in &self.largest {
            let _ = writeln!(out, "  {tokens:>9} tokens  seq {seq:<6} {text}");
        }
        self.write_report(&mut out);
        out.trim_end().to_owned()
    }

    fn write_report(&self, out: &mut String) {
        let report = &self.report;
        if !report.skipped.is_empty() {
            let kinds: Vec<String> =
                report.skipped.iter().map(|(kind, tally)| format!("{} {kind}", tally.count)).collect();
            let _ = writeln!(out, "\nno part of the conversation: {}", kinds.join(", "));
        }
        if !report.repaired.is_empty() {
            let _ = writeln!(out, "\nrepaired");
            for (repair, tally) in &report.repaired {
                let name = json!(repair);
                let places: Vec<String> = tally.places.iter().map(u64::to_string).collect();
                let more = if tally.count > tally.places.len() as u64 { ", …" } else { "" };
                let name = name.as_str().unwrap_or_default();
                let _ = writeln!(out, "  {:>6} {name} (at {}{more})", tally.count, places.join(", "));
            }
        }
        for unreadable in &report.unreadable {
            let _ = writeln!(out, "unreadable: record {}: {}", unreadable.place, unreadable.why);
        }
        if report.other_conversations > 0 {
            let _ = writeln!(out, "{} further conversations in the file were left out", report.other_conversations);
        }
    }
}

fn kind_of(message: &Message) -> String {
    match &message.source {
        Source::User { .. } => "messages of the user".into(),
        Source::Model { .. } => "answers of the model".into(),
        Source::Tool { .. } => "results of tools".into(),
        Source::Checkpoint { .. } => "checkpoints".into(),
        other => format!("injected: {}", other.kind()),
    }
}

fn first_line(message: &Message) -> String {
    let text = match message.result() {
        Some(result) => result.content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join(" "),
        None => message.text(),
    };
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
    format!("{}: {line}", kind_of(message))
}
