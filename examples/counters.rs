//! Token counters side by side: how near the estimate is, and how fast each counter is.
//!
//! `cargo run --release --example counters --all-features [-- KIB]`, with 1,024 KiB a text unless told otherwise.

#[path = "../benches/texts/mod.rs"]
mod texts;

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use arya_presets::{ClassAware, TokenCounter};
use texts::Text;
use tiktoken_rs::o200k_base_singleton;

fn main() {
    let kib: usize = std::env::args().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(1_024);
    let bytes = kib * 1_024;
    accuracy();
    println!("\nMB/s at {kib} KiB a text, o200k_base:");
    println!("{:28} {:>10} {:>10} {:>10} {:>12}", "kind", "Bpe", "direct", "LinearBpe", "ClassAware");
    warm_up();
    // A direct call panics on a long run of white space. The table says so; the panic's own message would only tear it apart.
    std::panic::set_hook(Box::new(|_| {}));
    for Text { kind, body } in [texts::generated(bytes), texts::hostile(bytes)].concat() {
        let direct = |text: &str| o200k_base_singleton().count_ordinary(text) as u64;
        let columns = [
            speed(&body, exact),
            speed(&body, direct),
            speed(&body, linear),
            speed(&body, |text| ClassAware.count(text)),
        ];
        let [bpe, direct, linear, estimate] = columns;
        println!("{kind:28} {bpe:>10} {direct:>10} {linear:>10} {estimate:>12}");
    }
}

fn accuracy() {
    println!("{:28} {:>9} {:>9} {:>8}", "kind", "o200k", "estimate", "error");
    let all = [texts::written(4_000), texts::generated(8_000), texts::mixed(24_000)].concat();
    let mut sum = 0.0;
    for Text { kind, body } in &all {
        let exact = o200k_base_singleton().count_ordinary(body);
        let estimate = ClassAware.count(body);
        let error = (estimate as f64 / exact as f64 - 1.0) * 100.0;
        sum += error.abs();
        println!("{kind:28} {exact:>9} {estimate:>9} {error:>+7.1}%");
    }
    println!("mean error {:.1}%", sum / all.len() as f64);
}

#[cfg(feature = "tiktoken")]
fn exact(text: &str) -> u64 {
    arya_presets::Bpe::o200k().count(text)
}

#[cfg(feature = "bpe")]
fn linear(text: &str) -> u64 {
    arya_presets::LinearBpe::o200k().count(text)
}

#[cfg(not(feature = "tiktoken"))]
fn exact(_: &str) -> u64 {
    panic!("the feature tiktoken is off")
}

#[cfg(not(feature = "bpe"))]
fn linear(_: &str) -> u64 {
    panic!("the feature bpe is off")
}

/// Loads the vocabularies, which is no part of the figures.
fn warm_up() {
    for counter in [exact, linear] {
        let _ = catch_unwind(|| counter("a"));
    }
}

/// Megabytes a second of the fastest of a few calls.
fn speed(text: &str, count: impl Fn(&str) -> u64 + std::panic::RefUnwindSafe) -> String {
    let mut best = Duration::MAX;
    let begun = Instant::now();
    while best == Duration::MAX || begun.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        if catch_unwind(|| std::hint::black_box(count(text))).is_err() {
            return "panics".to_owned();
        }
        best = best.min(start.elapsed());
    }
    format!("{:.1}", text.len() as f64 / best.as_secs_f64() / 1e6)
}
