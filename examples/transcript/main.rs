//! Looks into transcripts, converts them, and checks them.
//!
//! `transcript inspect FILE` says what a file holds, where its tokens are and what had to be repaired; `transcript convert FILE --to
//! TARGET` writes it in another form; `transcript check FILE` says what an API would refuse. Each takes `--json`.

mod inspect;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arya_presets::transcript::{self, Format, Import, Profile, Rule, Target, WriteOptions};
use clap::{Parser, Subcommand};
use serde_json::{Value, json};

#[derive(Parser)]
#[command(name = "transcript", about = "Looks into transcripts, converts them, and checks them.")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What is in a file, where its tokens are, and what was repaired.
    Inspect {
        /// The file; `-` for standard input.
        file: PathBuf,
        /// Print one JSON object and nothing else.
        #[arg(long)]
        json: bool,
    },
    /// Write the conversation in another form: the messages of an API, or records to append to a tool's file.
    Convert {
        /// The file; `-` for standard input.
        file: PathBuf,
        /// chat-completions, responses, anthropic, gemini, codex-rollout, claude-code, qwen-code, pi or harness.
        #[arg(long)]
        to: String,
        /// Where to write it. Without it, to standard output.
        #[arg(long)]
        out: Option<PathBuf>,
        #[command(flatten)]
        rules: Rules,
        /// Print one JSON object with the report and the conversation, and nothing else.
        #[arg(long)]
        json: bool,
    },
    /// What an API would refuse in a file of its messages. Files of tools have no rules to check by: convert them first.
    Check {
        /// The file; `-` for standard input.
        file: PathBuf,
        /// The API, where the content does not tell: chat-completions, responses, anthropic or gemini.
        #[arg(long = "as")]
        target: Option<String>,
        #[command(flatten)]
        rules: Rules,
        /// Print one JSON object and nothing else.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Rules {
    /// A rule that holds beside the default ones, by name; may be repeated.
    #[arg(long = "with", value_name = "RULE")]
    with: Vec<String>,
    /// A default rule that does not hold, by name; may be repeated.
    #[arg(long = "without", value_name = "RULE")]
    without: Vec<String>,
}

impl Rules {
    fn profile(&self) -> Result<Profile, String> {
        let rule = |name: &String| Rule::of_name(name).ok_or_else(|| format!("no rule is called {name:?}"));
        let mut profile = Profile::default();
        for name in &self.with {
            profile = profile.with(rule(name)?);
        }
        for name in &self.without {
            profile = profile.without(rule(name)?);
        }
        Ok(profile)
    }
}

/// Exit code for input or flags that cannot be used.
const BAD_INPUT: u8 = 2;
/// Exit code for a conversation that an API would refuse.
const REFUSED: u8 = 1;

fn main() -> ExitCode {
    match run(&Args::parse().command) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("transcript: {}", message.lines().collect::<Vec<_>>().join(" "));
            ExitCode::from(BAD_INPUT)
        }
    }
}

fn run(command: &Command) -> Result<ExitCode, String> {
    match command {
        Command::Inspect { file, json } => {
            let inspection = inspect::Inspection::of(&import(file)?);
            print(&if *json { inspection.json().to_string() } else { inspection.text() });
            Ok(ExitCode::SUCCESS)
        }
        Command::Convert { file, to, out, rules, json } => {
            let target = target(to)?;
            let import = import(file)?;
            let options = WriteOptions::default().with_profile(rules.profile()?).resuming(import.resume.clone());
            let export = transcript::write(&import.session, target, &options).map_err(|error| error.to_string())?;
            let text = if *json {
                json!({ "import": import.report, "export": export.report, "conversation": export.value }).to_string()
            } else {
                for (change, tally) in &export.report.changes {
                    eprintln!("{target}: {} at {} messages", json!(change).as_str().unwrap_or_default(), tally.count);
                }
                export.to_text().trim_end().to_owned()
            };
            match out {
                Some(path) => {
                    std::fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
                }
                None => print(&text),
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Check { file, target: named, rules, json } => check(file, named.as_deref(), rules, *json),
    }
}

fn check(file: &Path, named: Option<&str>, rules: &Rules, json: bool) -> Result<ExitCode, String> {
    let named = named.map(api).transpose()?;
    let profile = rules.profile()?;
    let bytes = read(file)?;
    let name = file.display();
    // A document that no reader takes may still be meant for an API; that is what a check is for.
    let format = transcript::read(&*bytes).ok().map(|import| import.format);
    let found = format.and_then(Format::target).filter(|target| Target::APIS.contains(target));
    if let (Some(format), None) = (format, found) {
        return Err(format!(
            "{name}: nothing was checked: this is a {format} file, and there are rules for the requests of {} only; \
             `transcript convert {name} --to API --out REQUEST` writes a request that can be checked",
            names(&Target::APIS)
        ));
    }
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
        format!("{name}: nothing was checked: a request is one JSON value, and this is none: {error}")
    })?;
    let target = named
        .or(found)
        .ok_or_else(|| format!("{name}: nothing was checked: name the API with --as: {}", names(&Target::APIS)))?;
    let violations = transcript::validate_with(target, &value, &profile);
    if json {
        print(&json!({ "target": target, "violations": violations }).to_string());
    } else if violations.is_empty() {
        print(&format!("{name}, checked as a request of {target}: nothing that the API is known to refuse"));
    } else {
        let lines: Vec<String> = violations
            .iter()
            .map(|violation| format!("{}  {}\n    {}", violation.at, violation.rule.name(), violation.why))
            .collect();
        print(&lines.join("\n"));
    }
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

fn target(name: &str) -> Result<Target, String> {
    Target::of_name(name).ok_or_else(|| format!("no form is called {name:?}; there are {}", names(&Target::ALL)))
}

fn api(name: &str) -> Result<Target, String> {
    let apis = names(&Target::APIS);
    match Target::of_name(name) {
        Some(target) if Target::APIS.contains(&target) => Ok(target),
        Some(target) => Err(format!("{target} is the file of a tool, which no rules are known for; --as takes {apis}")),
        None => Err(format!("no API is called {name:?}; --as takes {apis}")),
    }
}

fn names(targets: &[Target]) -> String {
    targets.iter().map(|target| target.name()).collect::<Vec<_>>().join(", ")
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(|error| format!("standard input: {error}"))?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn import(path: &Path) -> Result<Import, String> {
    let at = |error: String| format!("{}: {error}", path.display());
    if path == Path::new("-") {
        return transcript::read(&*read(path)?).map_err(|error| at(error.to_string()));
    }
    let file = std::fs::File::open(path).map_err(|error| at(error.to_string()))?;
    transcript::read(std::io::BufReader::new(file)).map_err(|error| at(error.to_string()))
}

fn print(text: &str) {
    // A reader that has seen enough closes the pipe; that is no failure.
    let _ = writeln!(std::io::stdout(), "{text}");
}
