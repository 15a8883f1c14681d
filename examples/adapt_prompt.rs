//! Makes the published prompt of another agent fit: `cargo run --example adapt_prompt -- FILE --agent codex`.
//!
//! The audit goes to standard error, the adapted prompt to standard output or to `--out`.

use std::path::PathBuf;
use std::process::ExitCode;

use arya_presets::prompt::{self, Adapter, PromptError};
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(name = "adapt_prompt", about = "Makes the published prompt of another agent fit, or says why it cannot.")]
struct Args {
    /// The prompt: its text, or for Qwen Code also the source file that assembles it. `-` for standard input.
    file: PathBuf,
    /// Whose prompt it is.
    #[arg(long)]
    agent: Agent,
    /// What the file with rules for agents is called in the host's repositories.
    #[arg(long, default_value = "AGENTS.md")]
    instruction_file: String,
    /// Where to write the adapted prompt. Without it, standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Agent {
    Codex,
    Qwen,
}

/// Exit code for a text that is refused.
const REFUSED: u8 = 1;
/// Exit code for a file that cannot be read or written.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    let bytes = match read(&args.file) {
        Ok(bytes) => bytes,
        Err(error) => return bad_input(&format!("{}: {error}", args.file.display())),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return bad_input(&format!("{}: it is no UTF-8 text", args.file.display()));
    };
    let adapter: Adapter = match args.agent {
        Agent::Codex => prompt::codex(),
        Agent::Qwen => prompt::qwen(),
    };
    match adapter.with_instruction_file(args.instruction_file).adapt(&text) {
        Ok(adapted) => {
            eprint!("{}", adapted.audit);
            eprintln!("{} characters became {}", text.chars().count(), adapted.text.chars().count());
            let written = match &args.out {
                Some(path) => std::fs::write(path, &adapted.text),
                None => std::io::Write::write_all(&mut std::io::stdout(), adapted.text.as_bytes()),
            };
            match written {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => bad_input(&error.to_string()),
            }
        }
        Err(error) => {
            if let PromptError::Refused { audit: Some(audit), .. } = &error {
                eprint!("{audit}");
            }
            eprintln!("adapt_prompt: {error}");
            ExitCode::from(REFUSED)
        }
    }
}

fn read(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)?;
    Ok(bytes)
}

fn bad_input(message: &str) -> ExitCode {
    eprintln!("adapt_prompt: {message}");
    ExitCode::from(BAD_INPUT)
}
