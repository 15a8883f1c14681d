//! What the example prints.

use std::fmt::Write;

use arya_presets::{
    BaseEngine, Block, Busy, CompactionError, Failure, Landed, Message, Outcome, Seq, Session, Situation,
};
use serde_json::{Value, json};

use arya_presets::transcript::Format;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    pub(crate) tokens: u64,
    pub(crate) messages: usize,
}

pub(crate) struct Report {
    format: Format,
    preset: String,
    pub(crate) before: Size,
    after: Size,
    outcome: String,
    reason: Option<String>,
    line: String,
    checkpoint: Option<(String, u64)>,
    pruned: usize,
    kept: Vec<(Seq, String)>,
    events_appended: u64,
    origins: String,
}

impl Report {
    pub(crate) fn before(
        engine: &mut BaseEngine,
        session: &Session,
        situation: &Situation,
        format: Format,
        preset: &str,
    ) -> Result<Self, CompactionError> {
        let measured = engine.measure(session, situation)?;
        let before = Size { tokens: measured.total_tokens, messages: session.messages().count() };
        let mut origins = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            origins,
            "tokens before: {} tokens {}",
            measured.baseline.tokens(),
            match measured.baseline.kind() {
                "usage" => "reported by the provider for the last answer in the log",
                "none" => "because there is nothing yet",
                _ => "estimated",
            }
        );
        let _ = writeln!(origins, "  and {} of change since", measured.surface_delta_tokens);
        let _ = writeln!(
            origins,
            "  the estimate alone: {} for the messages, {} for system prompt and tools",
            measured.surface_tokens, measured.header_tokens
        );
        if let Some(doubt) = measured.doubt {
            let _ = writeln!(origins, "  the reported usage was not taken: {doubt}");
        }
        let _ =
            writeln!(origins, "tokens after: estimated, and scaled where the provider's figure was above the estimate");
        if let Ok(levels) = engine.levels(session, situation) {
            let _ = writeln!(origins, "{levels}");
            let plan = levels.plan(levels.due_when_asked(measured.total_tokens));
            let _ = writeln!(
                origins,
                "target: {} tokens, so that it is not due again at once; tail kept verbatim: about {} tokens",
                plan.target_tokens, plan.tail_tokens
            );
        }
        Ok(Self {
            format,
            preset: preset.to_owned(),
            before,
            after: before,
            outcome: String::new(),
            reason: None,
            line: String::new(),
            checkpoint: None,
            pruned: 0,
            kept: Vec::new(),
            events_appended: 0,
            origins,
        })
    }

    pub(crate) fn after(
        &mut self,
        engine: &mut BaseEngine,
        session: &Session,
        situation: &Situation,
        events_before: Seq,
        result: &Result<Outcome, CompactionError>,
    ) -> Result<(), CompactionError> {
        self.after =
            Size { tokens: engine.measure(session, situation)?.total_tokens, messages: session.messages().count() };
        self.events_appended = session.revision().saturating_sub(events_before);
        match result {
            Ok(outcome) => {
                self.outcome = outcome.code().to_owned();
                self.line = outcome.to_string();
                match outcome {
                    Outcome::Compacted(compacted) => {
                        self.after.tokens = compacted.after_tokens;
                        self.landed(&compacted.landed);
                    }
                    Outcome::Pruned(report) => self.pruned = report.pruned.len(),
                    Outcome::Unneeded(reason) => self.reason = Some(reason.to_string()),
                    _ => {}
                }
            }
            Err(error) => {
                self.outcome = "failed".into();
                self.reason = Some(error.to_string());
                self.line = failure_line(error);
                self.landed(&error.landed);
            }
        }
        self.kept = session
            .nodes()
            .iter()
            .filter(|node| !node.message.source.is_checkpoint())
            .map(|node| (node.seq, preview(&node.message)))
            .collect();
        Ok(())
    }

    fn landed(&mut self, landed: &Landed) {
        self.pruned = landed.pruned.pruned.len();
        self.checkpoint = landed.folds.last().map(|fold| {
            let texts: Vec<&str> = fold.checkpoint.content.iter().filter_map(Block::as_text).collect();
            (texts.join("\n"), fold.checkpoint_tokens)
        });
    }

    pub(crate) fn json(&self) -> String {
        let size = |size: Size| json!({ "tokens": size.tokens, "messages": size.messages });
        let mut value = json!({
            "format": self.format.name(),
            "preset": self.preset,
            "before": size(self.before),
            "after": size(self.after),
            "outcome": self.outcome,
            "events_appended": self.events_appended,
        });
        if let Value::Object(map) = &mut value {
            if let Some(reason) = &self.reason {
                map.insert("reason".into(), json!(reason));
            }
            if let Some((text, tokens)) = &self.checkpoint {
                map.insert("checkpoint".into(), json!({ "text": text, "tokens": tokens }));
            }
        }
        value.to_string()
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{}\n", self.line);
        let _ = writeln!(out, "           tokens  messages");
        for (name, size) in [("before", self.before), ("after", self.after)] {
            let _ = writeln!(out, "  {name:<7}{:>8}  {:>8}", size.tokens, size.messages);
        }
        let _ =
            writeln!(out, "\n{} events were appended to the log; nothing was removed from it.", self.events_appended);
        if self.pruned > 0 {
            let _ = writeln!(out, "{} tool results were trimmed in the middle.", self.pruned);
        }
        if let Some((text, tokens)) = &self.checkpoint {
            let _ = writeln!(out, "\n── The checkpoint ({tokens} tokens) ──\n{text}");
            let _ = writeln!(out, "\n── What stayed verbatim ({} messages) ──", self.kept.len());
            for (seq, line) in &self.kept {
                let _ = writeln!(out, "  seq {seq:>4}  {line}");
            }
        }
        let _ = write!(out, "\n── Where the numbers come from ──\n{}", self.origins.trim_end());
        out
    }
}

/// What failed, said once, and what helps where that is known.
fn failure_line(error: &CompactionError) -> String {
    let help = match &error.failure {
        Failure::Busy { why: Busy::OpenTurn { .. }, .. } => {
            "; the conversation ends inside a turn, and a compaction by hand waits for its end: add the results that are missing, \
             or use --trigger overflow, which folds what lies before"
        }
        _ => "",
    };
    let text = error.to_string();
    match text.starts_with(error.code()) {
        true => format!("Failed, {text}{help}"),
        false => format!("Failed ({}): {text}{help}", error.code()),
    }
}

fn preview(message: &Message) -> String {
    let calls: Vec<&str> = message.tool_calls().map(|call| call.name.as_str()).collect();
    let (speaker, mut text) = match message.result() {
        Some(result) => {
            let texts: Vec<&str> = result.content.iter().filter_map(Block::as_text).collect();
            ("result", texts.join(" "))
        }
        None => (message.source.kind(), message.text()),
    };
    if !calls.is_empty() {
        let _ = write!(text, " [calls {}]", calls.join(", "));
    }
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(90).collect();
    format!("{speaker:<7} {line}")
}
