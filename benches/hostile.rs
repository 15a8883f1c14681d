//! Time over input that is made to be slow. Sixteen times the input should take about sixteen times as long: the throughput of a kind
//! stays what it was.
//!
//! `cargo bench --bench hostile`; a part of a kind's name as argument runs that kind alone.

use arya_presets::prompt;
use arya_presets::transcript::{Profile, Rule, Target, read, validate_with};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

const SIZES: [usize; 2] = [2_000, 32_000];

/// Every call of one message is answered late, or never, or twice: what a search among open calls would be slow at.
fn conversation(target: Target, calls: usize) -> Value {
    let ids: Vec<String> = (0..calls).map(|call| format!("c{call}")).collect();
    match target {
        Target::ChatCompletions => {
            let calls = ids
                .iter()
                .map(|id| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}}));
            let mut messages = vec![
                json!({"role": "assistant", "tool_calls": calls.collect::<Vec<_>>()}),
                json!({"role": "user", "content": "x"}),
            ];
            messages.extend(ids.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": "x"})));
            json!(messages)
        }
        Target::Responses => {
            let outputs =
                ids.iter().rev().map(|id| json!({"type": "function_call_output", "call_id": id, "output": ""}));
            let calls = ids.iter().map(|id| {
                json!({"type": "function_call", "call_id": id, "name": "read", "arguments": "{}", "id": format!("fc_{id}")})
            });
            json!(outputs.chain(calls).collect::<Vec<_>>())
        }
        Target::Anthropic => {
            let calls = ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "read", "input": {}}));
            let result = |id: &String| json!({"type": "tool_result", "tool_use_id": id});
            let results = ids.iter().rev().map(result).chain(ids.iter().map(result));
            json!([{"role": "assistant", "content": calls.collect::<Vec<_>>()},
                {"role": "user", "content": results.collect::<Vec<_>>()}])
        }
        _ => {
            let calls = ids.iter().map(|id| json!({"functionCall": {"name": "read", "id": id}}));
            let results =
                ids.iter().rev().map(|id| json!({"functionResponse": {"name": "list", "id": id, "response": {}}}));
            json!([{"role": "model", "parts": calls.collect::<Vec<_>>()}, {"role": "user", "parts": results.collect::<Vec<_>>()}])
        }
    }
}

fn validators(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("validate");
    group.sample_size(10);
    let every_rule = Rule::ALL.iter().copied().fold(Profile::none(), Profile::with);
    for target in Target::APIS {
        for calls in SIZES {
            let value = conversation(target, calls);
            group.throughput(Throughput::Elements(calls as u64));
            group.bench_function(BenchmarkId::new(target.to_string(), calls), |bencher| {
                bencher.iter(|| validate_with(target, &value, &every_rule));
            });
        }
    }
    group.finish();
}

fn readers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    group.sample_size(10);
    for target in Target::APIS {
        for calls in SIZES {
            let text = conversation(target, calls).to_string();
            group.throughput(Throughput::Elements(calls as u64));
            group.bench_function(BenchmarkId::new(target.to_string(), calls), |bencher| {
                bencher.iter(|| read(text.as_bytes()).is_ok());
            });
        }
    }
    // Calls and responses of one name, none with an id.
    for calls in SIZES {
        let call = vec![json!({"functionCall": {"name": "read"}}); calls];
        let response = vec![json!({"functionResponse": {"name": "read", "response": {}}}); calls];
        let text = json!([{"role": "model", "parts": call}, {"role": "user", "parts": response}]).to_string();
        group.throughput(Throughput::Elements(calls as u64));
        group.bench_function(BenchmarkId::new("responses without ids", calls), |bencher| {
            bencher.iter(|| read(text.as_bytes()).is_ok());
        });
    }
    group.finish();
}

fn adapters(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("adapt");
    group.sample_size(10);
    let (codex, qwen) = (prompt::codex(), prompt::qwen());
    // Openings that nothing closes, and names that must not stay, again and again.
    let parts: Vec<String> =
        serde_json::from_str(include_str!("../tests/data/hostile-prompt-parts.json")).unwrap_or_default();
    for part in parts {
        for bytes in SIZES {
            let text = format!("# Core Mandates\n\napply_patch\n{}", part.repeat(bytes / part.len()));
            group.throughput(Throughput::Bytes(bytes as u64));
            group.bench_function(BenchmarkId::new(format!("{part:?}"), bytes), |bencher| {
                bencher.iter(|| (codex.adapt(&text).is_ok(), qwen.adapt(&text).is_ok()));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, validators, readers, adapters);
criterion_main!(benches);
