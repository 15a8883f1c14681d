//! What each level of pruning would free in a conversation, at several windows.
//!
//! `cargo run --release --example prune_report -- FILE`; without a file, the embedded sample. Nothing is changed.

#[path = "compact/input.rs"]
#[allow(dead_code)]
mod input;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use arya_presets::{
    BaseEngine, ClearByClass, ClearOld, Levels, Meter, MeterRules, Policy, Pricing, PruneBudget, PrunePlan,
    PrunePolicy, Situation, TrimPolicy, Window, WindowOrigin,
};
use clap::Parser;
use serde_json::json;

#[derive(Parser)]
#[command(about = "Prints what each level of pruning would free in a conversation.")]
struct Args {
    /// A session file or the messages of an API; `-` for standard input. Without it, an embedded sample.
    file: Option<PathBuf>,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

const WINDOWS: [u64; 4] = [32_000, 128_000, 200_000, 1_000_000];

/// The levels, each alone and then all together.
fn levels() -> [(&'static str, PrunePolicy); 5] {
    let off = PrunePolicy::off;
    [
        ("trim", PrunePolicy::trimming(TrimPolicy::default())),
        ("clear old", PrunePolicy { clear_old: Some(ClearOld::default()), ..off() }),
        ("clear by class", PrunePolicy { clear_by_class: Some(ClearByClass::default()), ..off() }),
        ("clear after idleness", PrunePolicy { idle_clear_ms: 1, ..off() }),
        (
            "all of them",
            PrunePolicy {
                clear_old: Some(ClearOld::default()),
                clear_by_class: Some(ClearByClass::default()),
                idle_clear_ms: 1,
                ..PrunePolicy::default()
            },
        ),
    ]
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("prune_report: {}", message.lines().collect::<Vec<_>>().join(" "));
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let conversation = input::read(args.file.as_deref())?;
    let session = &conversation.session;
    let mut meter = Meter::new(Pricing::harness(), MeterRules::DEFAULT);
    let mut engine = BaseEngine::standard().map_err(|error| error.to_string())?;
    let total = engine.measure(session, &Situation::new()).map_err(|error| error.to_string())?.total_tokens;
    let mut rows = Vec::new();
    for window in WINDOWS {
        let known = Window { tokens: window, origin: WindowOrigin::Host };
        let arithmetic = Levels::new(&Policy::default(), Some(&known), None).map_err(|error| error.to_string())?;
        let due = arithmetic.due_under_pressure(total);
        let plan = arithmetic.plan(due.unwrap_or_else(|| arithmetic.due_when_asked(total)));
        for (name, policy) in levels() {
            let budget = PruneBudget { tail_tokens: Some(plan.tail_tokens), now: Some(i64::MAX) };
            let plan = PrunePlan::new(session, &mut meter, &policy, budget).map_err(|error| error.to_string())?;
            let mut reasons = std::collections::BTreeMap::new();
            for rewrite in plan.rewrites() {
                *reasons.entry(rewrite.reason.code()).or_insert(0u64) += 1;
            }
            let mut kept = std::collections::BTreeMap::new();
            for (_, why) in plan.kept() {
                *kept.entry(why.code()).or_insert(0u64) += 1;
            }
            rows.push(json!({
                "window": window,
                "due": due.is_some(),
                "level": name,
                "results": plan.rewrites().len(),
                "tokens_freed": plan.tokens_freed(),
                "reasons": reasons,
                "kept": kept,
            }));
        }
    }
    let mut out = std::io::stdout().lock();
    // A reader that has seen enough closes the pipe; that is no failure.
    if args.json {
        let _ = writeln!(out, "{}", json!({ "total_tokens": total, "rows": rows }));
        return Ok(());
    }
    let _ = writeln!(out, "{}: {total} tokens, {} messages\n", conversation.name, session.messages().count());
    let _ = writeln!(
        out,
        "{:>9}  {:<5} {:<21} {:>7} {:>9}  what is rewritten, and what stays",
        "window", "due", "level", "results", "freed"
    );
    for row in &rows {
        let list = |key: &str| {
            let map = row.get(key).and_then(|map| map.as_object()).into_iter().flatten();
            map.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        };
        let number = |key: &str| row.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let due = if row.get("due").is_some_and(|due| due == true) { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "{:>9}  {:<5} {:<21} {:>7} {:>9}  {} | {}",
            number("window"),
            due,
            row.get("level").and_then(|level| level.as_str()).unwrap_or_default(),
            number("results"),
            number("tokens_freed"),
            list("reasons"),
            list("kept"),
        );
    }
    Ok(())
}
