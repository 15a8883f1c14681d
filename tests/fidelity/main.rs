//! Which facts of a conversation a checkpoint without a model holds, for conversations of very different kinds. What was reached
//! is the floor.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a broken test may panic")]

mod conversations;
#[path = "../../examples/compact/input.rs"]
#[allow(dead_code, reason = "the example writes conversations too")]
mod input;
#[path = "../../examples/fidelity/measure.rs"]
mod measure;

use std::io::Write as _;
use std::sync::Arc;

use arya_presets::{ExtractiveSummarizer, Kit, Message};
use conversations::Conversation;
use measure::{BUDGETS, Facts, KINDS, rows};

/// Percent of the facts that are held at each budget.
const FLOORS: [(&str, [usize; 3]); 6] = [
    ("the sample", [70, 94, 95]),
    ("debugging", [98, 98, 98]),
    ("analysis", [60, 98, 98]),
    ("operations", [88, 98, 98]),
    ("writing", [98, 98, 98]),
    ("chinese", [74, 98, 98]),
];

fn conversations() -> Vec<Conversation> {
    let sample = input::read(None).unwrap();
    let messages: Vec<Arc<Message>> = sample.session.messages().cloned().collect();
    let mut all = conversations::all();
    all.insert(0, Conversation { kind: "the sample", messages });
    all
}

fn summary(conversation: &Conversation, kit: &Kit, budget: usize) -> Option<String> {
    ExtractiveSummarizer::new().summarize_within(&conversation.messages, kit, budget)
}

#[test]
fn a_checkpoint_holds_at_least_as_many_facts_as_it_did() {
    for (conversation, (kind, floors)) in conversations().iter().zip(FLOORS) {
        assert_eq!(conversation.kind, kind);
        let facts = Facts::of(&conversation.messages).unwrap();
        let total: usize = facts.counts().iter().sum();
        for (row, floor) in rows(&conversation.messages, &facts, |budget| summary(conversation, &Kit::base(), budget))
            .iter()
            .zip(floors)
        {
            let held = 100 * row.total() / total;
            let kinds: Vec<String> = KINDS
                .iter()
                .zip(row.held.iter().zip(facts.counts()))
                .map(|(kind, (held, all))| format!("{kind} {held}/{all}"))
                .collect();
            // Told where the test passes too.
            let _ = writeln!(
                std::io::stdout().lock(),
                "{kind}, {} % of {} characters: {held} % of {total} facts ({})",
                row.percent,
                measure::chars(&conversation.messages),
                kinds.join(", ")
            );
            assert!(row.text.chars().count() <= row.budget_chars);
            assert!(
                held >= floor,
                "{kind} at {} %: {held} % held, and the floor is {floor} %; {:?} are lacking",
                row.percent,
                facts.lacking(&row.text)
            );
        }
    }
}

#[test]
fn the_whole_room_is_used_where_there_is_more_to_say() {
    for conversation in conversations() {
        let budget = measure::chars(&conversation.messages) * BUDGETS[0] / 100;
        for kit in [Kit::base(), Kit::codex(), Kit::qwen(), Kit::claude()] {
            let used = summary(&conversation, &kit, budget).unwrap().chars().count();
            assert!(used * 100 >= budget * 95, "{}, {}: {used} of {budget}", conversation.kind, kit.id);
        }
    }
}

#[test]
fn every_line_of_a_checkpoint_is_from_the_conversation() {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for conversation in conversations() {
        let said: String = conversation
            .messages
            .iter()
            .flat_map(|message| &message.content)
            .map(|block| format!("{}\n", block.to_value()))
            .collect();
        let said = squeezed(&said.replace("\\n", " ").replace("\\\"", "\"").replace("\\\\", "\\").replace('`', " "));
        let budget = measure::chars(&conversation.messages) / 10;
        let text = summary(&conversation, &Kit::base(), budget).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("- ")) {
            // Labels, marks of what was cut, and what binds parts that stand apart in the conversation are the summary's own.
            let (label, entries) = line.split_once(": ").unwrap_or(("", line));
            let listed = ["Changed", "Read", "Paths", "Addresses", "Names", "Numbers"].contains(&label);
            let (text, marks): (&str, &[&str]) = match label {
                "Commands" => (entries, &["`, `", "`", " …"]),
                _ if listed => (entries, &[", ", "{", "}", " "]),
                _ => (line, &[" […] ", " […]", "[…]", " / ", " (`", "`). Then: ", "`).", "`"]),
            };
            let parts = marks.iter().fold(vec![text.to_owned()], |parts, mark| {
                parts.iter().flat_map(|part| part.split(mark)).map(str::to_owned).collect()
            });
            for part in parts.iter().map(|part| squeezed(part)).filter(|part| !part.is_empty()) {
                assert!(said.contains(&part), "{}: {part:?} of {line:?}", conversation.kind);
            }
        }
    }
}
