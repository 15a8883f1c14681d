//! Which facts of a conversation a checkpoint without a model holds, at 5, 10 and 20 % of its characters.
//!
//! `cargo run --release --example fidelity -- FILE`; without a file, the embedded sample.
//!
//! Facts are what the person and the model wrote, calls included: paths and addresses, names of code, numbers with their units;
//! the lines of failed results that name an error; and the sentences of the person that state a rule. Each counts once.

#[path = "compact/input.rs"]
#[allow(dead_code)]
mod input;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use arya_presets::{Block, ExtractiveSummarizer, Kit, Message};
use clap::Parser;
use regex::Regex;
use serde_json::json;

#[derive(Parser)]
#[command(about = "Prints which facts of a conversation a checkpoint holds.")]
struct Args {
    /// A session file or a JSON array of chat messages; `-` for standard input. Without it, an embedded sample.
    file: Option<PathBuf>,
    /// The kit whose form the checkpoint has: base, codex, qwen or claude.
    #[arg(long, default_value = "base")]
    kit: String,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
    /// Name the facts that the checkpoint lacks.
    #[arg(long)]
    missing: bool,
}

const BUDGETS: [usize; 3] = [5, 10, 20];
const KINDS: [&str; 5] = ["paths", "identifiers", "numbers", "errors", "instructions"];

type Facts = [BTreeSet<String>; 5];

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
    let size: usize = messages.iter().map(|message| chars(&message.content)).sum();
    let facts = facts_of(&messages).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for percent in BUDGETS {
        let budget = size * percent / 100;
        let text = ExtractiveSummarizer::new().summarize_within(&messages, &kit, budget).unwrap_or_default();
        let plain = squeezed(&text);
        let held: Vec<usize> =
            facts.iter().map(|kind| kind.iter().filter(|fact| plain.contains(&squeezed(fact))).count()).collect();
        if args.missing {
            for (kind, name) in facts.iter().zip(KINDS) {
                for fact in kind.iter().filter(|fact| !plain.contains(&squeezed(fact))) {
                    eprintln!("{percent} % lacks of {name}: {fact}");
                }
            }
        }
        rows.push((percent, budget, text.chars().count(), held));
    }
    let total: usize = facts.iter().map(BTreeSet::len).sum();
    let mut out = std::io::stdout().lock();
    // A reader that has seen enough closes the pipe; that is no failure.
    if args.json {
        let list: Vec<serde_json::Value> = rows
            .iter()
            .map(|(percent, budget, used, held)| {
                let kinds: serde_json::Map<String, serde_json::Value> = KINDS
                    .iter()
                    .zip(held.iter().zip(&facts))
                    .map(|(kind, (held, all))| ((*kind).to_owned(), json!({ "held": held, "of": all.len() })))
                    .collect();
                json!({ "percent": percent, "budget_chars": budget, "used_chars": used,
                        "held": held.iter().sum::<usize>(), "of": total, "kinds": kinds })
            })
            .collect();
        let _ = writeln!(out, "{}", json!({ "chars": size, "budgets": list }));
        return Ok(());
    }
    let _ = writeln!(out, "{}: {size} characters, {total} facts\n", conversation.name);
    let _ = writeln!(
        out,
        "{:>7} {:>8} {:>8} {:>14}  {}",
        "budget",
        "chars",
        "used",
        "held",
        KINDS.map(|kind| format!("{kind:>15}")).join("")
    );
    for (percent, budget, used, held) in rows {
        let sum: usize = held.iter().sum();
        let kinds: Vec<String> =
            held.iter().zip(&facts).map(|(held, all)| format!("{:>15}", format!("{held}/{}", all.len()))).collect();
        let share = 100 * sum / total.max(1);
        let _ = writeln!(
            out,
            "{percent:>5} % {budget:>8} {used:>8} {:>14}  {}",
            format!("{sum} ({share} %)"),
            kinds.join("")
        );
    }
    Ok(())
}

fn chars(blocks: &[Block]) -> usize {
    blocks
        .iter()
        .map(|block| match block {
            Block::Text(text) => text.text.chars().count(),
            Block::ToolCall(call) => call.name.chars().count() + call.arguments.chars().count(),
            Block::ToolResult(result) => chars(&result.content),
            _ => 0,
        })
        .sum()
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn facts_of(messages: &[Arc<Message>]) -> Result<Facts, regex::Error> {
    let path = Regex::new(
        r"(?:https?://[^\s\x22'`)>\]]+)|(?:[\w.~@-]*/)+[\w.@-]+|\b[\w-]{2,}\.(?:rs|toml|md|py|ts|tsx|js|json|csv|log|sql|yml|yaml|sh|txt|html|css|go|java|c|h|cpp)\b",
    )?;
    let identifier = Regex::new(
        r"\b(?:[a-z]+[a-z0-9]*_[a-z0-9_]+|[A-Z]+[A-Z0-9]*_[A-Z0-9_]+|[a-z]+[a-z0-9]*[A-Z][A-Za-z0-9]*|[A-Za-z_]\w*(?:::\w+)+|[A-Z]{1,4}-?\d{2,})\b",
    )?;
    let number = Regex::new(
        r"(?i)\b\d+(?:[.,]\d+)*\s?(?:%|ms|s|seconds?|minutes?|hours?|days?|[kmgt]i?b|bytes?|rows|lines|tests|attempts|requests|tokens|chars|characters|users|px|hz)(?:\b|$)",
    )?;
    let mut facts = Facts::default();
    let [paths, identifiers, numbers, errors, instructions] = &mut facts;
    for message in messages {
        let mut said = String::new();
        for block in &message.content {
            match block {
                Block::Text(text) => said.push_str(&text.text),
                Block::ToolCall(call) => said.push_str(&call.arguments),
                Block::ToolResult(result) if result.is_error == Some(true) => {
                    let texts = result.content.iter().filter_map(Block::as_text);
                    let line = texts.flat_map(str::lines).map(str::trim).find(|line| {
                        let line = line.to_lowercase();
                        line.starts_with("error") || line.contains("panicked at") || line.contains("failed")
                    });
                    errors.extend(line.map(|line| line.chars().take(60).collect()));
                }
                _ => {}
            }
            said.push('\n');
        }
        let found = |regex: &Regex| -> Vec<String> {
            regex.find_iter(&said).map(|found| found.as_str().trim_end_matches(['.', ',']).to_owned()).collect()
        };
        paths.extend(found(&path));
        identifiers.extend(found(&identifier));
        numbers.extend(found(&number));
        if message.source.is_user() {
            let rules = said.split(['\n']).flat_map(|line| line.split(". ")).map(str::trim).filter(|sentence| {
                let lower = format!(" {} ", sentence.to_lowercase());
                [" never ", " always ", " must ", " only ", " do not ", " don't ", " no "]
                    .iter()
                    .any(|word| lower.contains(word))
            });
            instructions.extend(rules.map(|rule| {
                let rule = rule.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | ' '));
                rule.trim_end_matches('.').chars().take(60).collect::<String>()
            }));
        }
    }
    Ok(facts)
}
