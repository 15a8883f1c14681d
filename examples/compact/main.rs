//! Compacts a conversation and says what it did.
//!
//! `cargo run --release --example compact` folds an embedded sample; `-- FILE` takes a session file of this crate, of Codex, Claude
//! Code, Qwen Code, gemini-cli, opencode, pi, SWE-agent or OpenHands, or the messages of an API; `-- -` standard input.

mod input;
mod openai;
mod report;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use arya_presets::{
    CompactionEngine, CompactionError, ExtractiveSummarizer, ManualRequest, Outcome, Preset, Registry, RuleSet,
    Session, Situation, Summarizer, Trigger, Unattended, WindowOrigin, compact, compact_manual,
};
use clap::{Parser, ValueEnum};

use arya_presets::transcript::Target;
use input::Conversation;
use report::Report;

#[derive(Parser)]
#[command(name = "compact", about = "Compacts a conversation and says what it did.")]
struct Args {
    /// A session file or the messages of an API; `-` for standard input. Without it, an embedded sample.
    file: Option<PathBuf>,
    /// The id of the preset to compact with.
    #[arg(long, default_value = "standard")]
    preset: String,
    /// The context window in tokens. Without it, the one that the session's log states.
    #[arg(long)]
    window: Option<u64>,
    /// Output tokens that the next request reserves.
    #[arg(long)]
    max_output: Option<u64>,
    /// Why to compact. Without it, `pressure` where the window is known, else `manual`.
    #[arg(long)]
    trigger: Option<TriggerName>,
    /// The most characters that the checkpoint may have, frame included.
    #[arg(long)]
    max_checkpoint_chars: Option<usize>,
    /// Who writes the summary.
    #[arg(long, default_value = "extractive")]
    summarizer: SummarizerName,
    /// Base address of an OpenAI-compatible server, such as http://127.0.0.1:8080/v1. The key is read from OPENAI_API_KEY.
    #[arg(long, required_if_eq("summarizer", "openai"))]
    base_url: Option<String>,
    /// Model to ask there.
    #[arg(long, required_if_eq("summarizer", "openai"))]
    model: Option<String>,
    /// Where to write the compacted conversation, in the format in which it came. A tool's own file is copied and gone on with.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Another format to write: chat-completions, responses, anthropic, gemini, codex-rollout, claude-code, qwen-code, pi, harness.
    #[arg(long, requires = "out", value_parser = target)]
    to: Option<Target>,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TriggerName {
    Pressure,
    Overflow,
    Manual,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SummarizerName {
    Extractive,
    Openai,
}

/// Exit code for input or flags that cannot be used.
const BAD_INPUT: u8 = 2;
/// Exit code for a compaction that failed.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(code) => code,
        Err(message) => {
            // One line, whatever the message holds.
            eprintln!("compact: {}", message.lines().collect::<Vec<_>>().join(" "));
            ExitCode::from(BAD_INPUT)
        }
    }
}

fn run(args: &Args) -> Result<ExitCode, String> {
    let mut preset = preset(&args.preset)?;
    preset.policy.max_checkpoint_chars = args.max_checkpoint_chars;
    let mut engine = preset.engine().map_err(|error| error.to_string())?;
    // The report measures with an engine of its own: what decorates the other one does not measure.
    let mut measuring = preset.base_engine(RuleSet::Default).map_err(|error| error.to_string())?;
    let mut conversation = input::read(args.file.as_deref())?;
    // What cannot be written is said before anything is done.
    let target = match (&args.out, args.to) {
        (None, _) => None,
        (Some(_), None) => Some(input::target_of(&conversation)?),
        (Some(_), named) => named,
    };
    let session = &mut conversation.session;
    let situation = situation(args, session);
    let events_before = session.revision();
    let mut report = Report::before(&mut measuring, session, &situation, conversation.format, &args.preset)
        .map_err(|error| error.to_string())?;
    eprintln!(
        "{}: {} events, {} messages, {} tokens",
        conversation.name, events_before, report.before.messages, report.before.tokens
    );
    let trigger = args.trigger.unwrap_or(if situation.window_tokens().is_some() {
        TriggerName::Pressure
    } else {
        TriggerName::Manual
    });
    let result = match args.summarizer {
        SummarizerName::Extractive => work(&mut engine, session, trigger, &situation, ExtractiveSummarizer::new()),
        SummarizerName::Openai => {
            let (Some(base_url), Some(model)) = (&args.base_url, &args.model) else {
                return Err("--summarizer openai needs --base-url and --model".into());
            };
            eprintln!("asking {model} for the summary");
            work(&mut engine, session, trigger, &situation, openai::Client::new(base_url, model))
        }
    };
    report.after(&mut measuring, session, &situation, events_before, &result).map_err(|error| error.to_string())?;
    if let (Some(path), Some(target)) = (&args.out, target) {
        write_out(&conversation, target, report.before.tokens, path)?;
        eprintln!("written to {}", path.display());
    }
    let text = if args.json { report.json() } else { report.text() };
    // A reader that has seen enough closes the pipe; that is no failure.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn target(name: &str) -> Result<Target, String> {
    let names = Target::ALL.map(Target::name).join(", ");
    Target::of_name(name).ok_or_else(|| format!("no form is called {name:?}; there are {names}"))
}

fn preset(id: &str) -> Result<Preset, String> {
    Registry::builtin().get(id).cloned().map_err(|error| error.to_string())
}

fn situation(args: &Args, session: &Session) -> Situation {
    let mut situation = Situation::from_log(session);
    if let Some(window) = args.window {
        situation = situation.window(window, WindowOrigin::Named("from --window".into()));
    }
    if let Some(max_output) = args.max_output {
        situation = situation.max_output(max_output);
    }
    situation
}

fn work(
    engine: &mut dyn CompactionEngine,
    session: &mut Session,
    trigger: TriggerName,
    situation: &Situation,
    mut summarizer: impl Summarizer,
) -> Result<Outcome, CompactionError> {
    match trigger {
        TriggerName::Pressure => compact(engine, session, Trigger::Pressure, situation, &mut summarizer),
        TriggerName::Overflow => {
            compact(engine, session, Trigger::Overflow { reported: None }, situation, &mut summarizer)
        }
        TriggerName::Manual => {
            compact_manual(engine, session, ManualRequest::default(), situation, &mut Unattended(summarizer))
        }
    }
}

fn write_out(
    conversation: &Conversation,
    target: Target,
    tokens_before: u64,
    path: &std::path::Path,
) -> Result<(), String> {
    let at = |error: String| format!("{}: {error}", path.display());
    // What cannot be written leaves the file that is there alone.
    let mut bytes = Vec::new();
    input::write(conversation, target, tokens_before, &mut bytes).map_err(at)?;
    std::fs::write(path, bytes).map_err(|error| at(error.to_string()))
}
