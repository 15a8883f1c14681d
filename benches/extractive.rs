//! Speed of the summariser without a model, by kind of conversation.
//!
//! `cargo bench --bench extractive`; a part of a kind's name as argument runs that kind alone.

use std::fmt::Write as _;
use std::sync::Arc;

use arya_presets::{Block, ExtractiveSummarizer, Kit, Message, Source};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const MEGABYTE: usize = 1 << 20;
/// Room of a checkpoint as a policy gives it: about 20,000 tokens.
const ROOM_CHARS: usize = 80_000;

const TYPED: &str = "Never touch the migrations folder of service 17. The timeout of the mail relay is now 45 seconds, not 30. \
    I prefer small commits, and please look at src/relay/queue.rs first. Thanks, that was quick. ";
const ANSWERED: &str = "The queue in `src/relay/queue.rs` drops a message when `retry_limit` is reached, because the timer is reset \
    too late. I moved the reset in front of `flush_pending`, and p95 fell from 310 ms to 128 ms. What is left is the test. ";
const PRINTED: &str =
    "2026-01-04T10:22:31Z INFO relay::queue batch=8791 stored 62 of 64 rows in 127.4 ms from 10.0.3.17:5432\n";

/// A text of a length, its copies told apart by a number each.
fn repeated(text: &str, bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + text.len() + 16);
    let mut number = 0_u32;
    while out.len() < bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{number} {text}");
        number += 1;
    }
    out
}

fn model() -> Source {
    Source::model("example", "example-model")
}

/// What coding sessions consist of: little typed, some answered, most of it printed by tools.
fn session(bytes: usize) -> Vec<Arc<Message>> {
    let (mut messages, mut size, mut turn) = (Vec::new(), 0, 0);
    while size < bytes {
        let id = format!("c{turn}");
        let call = Block::tool_call(&id, "bash", format!("{{\"command\":\"cargo test --test relay_{turn}\"}}"));
        let printed = repeated(PRINTED, 12_000);
        size += printed.len() + ANSWERED.len() + 40;
        if turn % 8 == 0 {
            let typed = format!("{turn}: {TYPED}");
            size += typed.len();
            messages.push(Message::user(format!("u{turn}"), typed));
        }
        let answered = format!("{turn}: {ANSWERED}");
        messages.push(Message::assistant(format!("a{turn}"), model(), vec![Block::text(answered), call]));
        messages.push(Message::tool_result(format!("r{turn}"), id, printed, turn % 16 == 3));
        turn += 1;
    }
    messages.into_iter().map(Arc::new).collect()
}

/// Messages of a text each, until so many bytes are said.
fn said(bytes: usize, each: usize, message: impl Fn(String, String) -> Message) -> Vec<Arc<Message>> {
    let all = repeated(if each < 200 { "ok. " } else { ANSWERED }, bytes);
    let parts = all.as_bytes().chunks(each).enumerate();
    parts.map(|(at, part)| Arc::new(message(format!("m{at}"), String::from_utf8_lossy(part).into_owned()))).collect()
}

fn one(message: Message) -> Vec<Arc<Message>> {
    vec![Arc::new(message)]
}

fn conversations() -> Vec<(&'static str, Vec<Arc<Message>>)> {
    let typed = |id: String, text: String| Message::user(id, text);
    let answered = |id: String, text: String| Message::assistant(id, model(), vec![Block::text(text)]);
    let line = |text: &str| repeated(text, 5 * MEGABYTE).replace('\n', " ");
    let unbroken = "x".repeat(5 * MEGABYTE);
    vec![
        ("session", session(8 * MEGABYTE)),
        ("answers", said(4 * MEGABYTE, 1_200, answered)),
        ("typed", {
            let parts = repeated(TYPED, 4 * MEGABYTE);
            let chunks = parts.as_bytes().chunks(900).enumerate();
            chunks.map(|(at, part)| Arc::new(typed(format!("m{at}"), String::from_utf8_lossy(part).into()))).collect()
        }),
        ("one printed line of 5 MB", one(Message::tool_result("r", "c", line(PRINTED), true))),
        ("one typed line of 5 MB", one(Message::user("u", line(TYPED)))),
        ("one typed word of 5 MB", one(Message::user("u", unbroken))),
        ("one typed line of dots", one(Message::user("u", ". ".repeat(MEGABYTE) + &".".repeat(MEGABYTE)))),
        ("a million tiny messages", said(4_000_000, 4, typed)),
    ]
}

fn bytes(messages: &[Arc<Message>]) -> u64 {
    fn of(blocks: &[Block]) -> usize {
        blocks
            .iter()
            .map(|block| match block {
                Block::Text(text) => text.text.len(),
                Block::ToolCall(call) => call.name.len() + call.arguments.len(),
                Block::ToolResult(result) => of(&result.content),
                _ => 0,
            })
            .sum()
    }
    messages.iter().map(|message| of(&message.content) as u64).sum()
}

fn summaries(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("extractive");
    group.sample_size(10);
    for (name, messages) in conversations() {
        group.throughput(Throughput::Bytes(bytes(&messages)));
        group.bench_function(name, |bencher| {
            bencher.iter(|| ExtractiveSummarizer::new().summarize_within(&messages, &Kit::base(), ROOM_CHARS));
        });
    }
    group.finish();
}

criterion_group!(benches, summaries);
criterion_main!(benches);
