//! Token counters side by side: how near the estimate is, and how fast each counter is.
//!
//! `cargo run --release --example counters --all-features [-- KIB]`, with 1,024 KiB a text unless told otherwise.

#[path = "../benches/texts/mod.rs"]
mod texts;

use std::panic::{AssertUnwindSafe, catch_unwind};
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
    let counters = [exact(), Some(Box::new(Direct) as Box<dyn TokenCounter>), linear(), Some(Box::new(ClassAware))];
    for counter in counters.iter().flatten() {
        // Loads the vocabulary, which is no part of the figures.
        counter.count("a");
    }
    // A direct call panics on a long run of white space. The table says so; the panic's own message would only tear it apart.
    std::panic::set_hook(Box::new(|_| {}));
    for Text { kind, body } in [texts::generated(bytes), texts::hostile(bytes)].concat() {
        let [bpe, direct, linear, estimate] = counters.each_ref().map(|counter| speed(&body, counter.as_deref()));
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

fn exact() -> Option<Box<dyn TokenCounter>> {
    #[cfg(feature = "tiktoken")]
    return Some(Box::new(arya_presets::Bpe::o200k()));
    #[cfg(not(feature = "tiktoken"))]
    return None;
}

fn linear() -> Option<Box<dyn TokenCounter>> {
    #[cfg(feature = "bpe")]
    return Some(Box::new(arya_presets::LinearBpe::o200k()));
    #[cfg(not(feature = "bpe"))]
    return None;
}

/// Calls tiktoken-rs with the whole text at once.
struct Direct;

impl TokenCounter for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn count(&self, text: &str) -> u64 {
        o200k_base_singleton().count_ordinary(text) as u64
    }
}

/// Megabytes a second of the fastest of a few calls.
fn speed(text: &str, counter: Option<&dyn TokenCounter>) -> String {
    let Some(counter) = counter else {
        return "off".to_owned();
    };
    let mut best = Duration::MAX;
    let begun = Instant::now();
    while best == Duration::MAX || begun.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| std::hint::black_box(counter.count(text)))).is_err() {
            return "panics".to_owned();
        }
        best = best.min(start.elapsed());
    }
    format!("{:.1}", text.len() as f64 / best.as_secs_f64() / 1e6)
}
