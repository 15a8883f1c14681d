//! Speed of the token counters by kind of text, beside tiktoken-rs called directly.
//!
//! `cargo bench --bench counters --features bpe`; `cargo run --release --example counters --all-features` prints one table instead.

mod texts;

use arya_presets::{ClassAware, TokenCounter};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use texts::Text;
use tiktoken_rs::o200k_base_singleton;

const BYTES: usize = 256 * 1024;

fn counters() -> Vec<(&'static str, Box<dyn TokenCounter>)> {
    vec![
        #[cfg(feature = "tiktoken")]
        ("Bpe", Box::new(arya_presets::Bpe::o200k())),
        #[cfg(feature = "bpe")]
        ("LinearBpe", Box::new(arya_presets::LinearBpe::o200k())),
        ("ClassAware", Box::new(ClassAware)),
    ]
}

fn whole_texts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("count");
    group.sample_size(10).throughput(Throughput::Bytes(BYTES as u64));
    let kinds = [texts::generated(BYTES), texts::mixed(BYTES), texts::hostile(BYTES)].concat();
    for Text { kind, body } in kinds {
        for (name, counter) in counters() {
            group.bench_with_input(BenchmarkId::new(name, &kind), &body, |bencher, body| {
                bencher.iter(|| counter.count(body));
            });
        }
        // This length is below what makes a direct call panic.
        group.bench_with_input(BenchmarkId::new("tiktoken-rs", &kind), &body, |bencher, body| {
            bencher.iter(|| o200k_base_singleton().count_ordinary(body));
        });
    }
    group.finish();
}

fn limits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("count up to 1,000 of");
    group.sample_size(10);
    for Text { kind, body } in texts::mixed(BYTES) {
        for (name, counter) in counters() {
            group.bench_with_input(BenchmarkId::new(name, &kind), &body, |bencher, body| {
                bencher.iter(|| counter.count_up_to(body, 1_000));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, whole_texts, limits);
criterion_main!(benches);
