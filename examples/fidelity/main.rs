//! Which facts of a conversation a checkpoint without a model holds, at 5, 10 and 20 % of its characters.
//!
//! `cargo run --release --example fidelity -- FILE`; without a file, the embedded sample. What counts as a fact is said at
//! `Facts::of` in `measure.rs`.

#[path = "../compact/input.rs"]
#[allow(dead_code)]
mod input;
mod measure;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use arya_presets::{ExtractiveSummarizer, Kit, Message};
use clap::Parser;
use measure::{Facts, KINDS, Row};
use serde_json::json;

#[derive(Parser)]
#[command(about = "Prints which facts of a conversation a checkpoint holds.")]
struct Args {
    /// A session file or the messages of an API; `-` for standard input. Without it, an embedded sample.
    file: Option<PathBuf>,
    /// The kit whose form the checkpoint has: base, codex, qwen or claude.
    #[arg(long, default_value = "base")]
    kit: String,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
    /// Name the facts that the checkpoint lacks, on standard error.
    #[arg(long)]
    missing: bool,
    /// Print the checkpoints, on standard error.
    #[arg(long)]
    text: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("fidelity: {}", message.lines().collect::<Vec<_>>().join(" "));
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let kit = Kit::builtin(&args.kit).ok_or_else(|| format!("no kit is called {:?}", args.kit))?;
    let conversation = input::read(args.file.as_deref())?;
    let messages: Vec<Arc<Message>> = conversation.session.messages().cloned().collect();
    let facts = Facts::of(&messages).map_err(|error| error.to_string())?;
    let rows = measure::rows(&messages, &facts, |budget| {
        ExtractiveSummarizer::new().summarize_within(&messages, &kit, budget)
    });
    for row in &rows {
        let percent = row.percent;
        if args.text {
            eprintln!("--- {percent} %\n{}\n---", row.text);
        }
        if args.missing {
            for (kind, lacking) in KINDS.iter().zip(facts.lacking(&row.text)) {
                lacking.iter().for_each(|fact| eprintln!("{percent} % lacks of {kind}: {fact}"));
            }
        }
    }
    let size = measure::chars(&messages);
    // A reader that has seen enough closes the pipe; that is no failure.
    let _ =
        if args.json { write_json(size, &facts, &rows) } else { write_table(&conversation.name, size, &facts, &rows) };
    Ok(())
}

fn write_json(size: usize, facts: &Facts, rows: &[Row]) -> std::io::Result<()> {
    let counts = facts.counts();
    let list: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            let kinds: serde_json::Map<String, serde_json::Value> = KINDS
                .iter()
                .zip(row.held.iter().zip(counts))
                .map(|(kind, (held, all))| ((*kind).to_owned(), json!({ "held": held, "of": all })))
                .collect();
            json!({ "percent": row.percent, "budgetChars": row.budget_chars, "usedChars": row.text.chars().count(),
                    "held": row.total(), "of": counts.iter().sum::<usize>(), "kinds": kinds })
        })
        .collect();
    writeln!(std::io::stdout().lock(), "{}", json!({ "chars": size, "budgets": list }))
}

fn write_table(name: &str, size: usize, facts: &Facts, rows: &[Row]) -> std::io::Result<()> {
    let counts = facts.counts();
    let total: usize = counts.iter().sum();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{name}: {size} characters, {total} facts\n")?;
    let titles = KINDS.map(|kind| format!("{kind:>15}")).join("");
    writeln!(out, "{:>7} {:>8} {:>8} {:>14}  {titles}", "budget", "chars", "used", "held")?;
    for row in rows {
        let kinds: Vec<String> =
            row.held.iter().zip(counts).map(|(held, all)| format!("{:>15}", format!("{held}/{all}"))).collect();
        let held = format!("{} ({} %)", row.total(), 100 * row.total() / total.max(1));
        let used = row.text.chars().count();
        writeln!(out, "{:>5} % {:>8} {used:>8} {held:>14}  {}", row.percent, row.budget_chars, kinds.join(""))?;
    }
    Ok(())
}
