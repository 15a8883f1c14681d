//! Times the import of a large session file against a reader that parses each line into typed records and keeps nothing, each in a
//! process of its own, with the peak of its memory.
//!
//! `cargo run --release --example import_speed -- --megabytes 200`

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use arya_presets::transcript;
use clap::{Parser, ValueEnum};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

#[derive(Parser)]
#[command(about = "Times the import of a large session file.")]
struct Args {
    /// Size of the file that is made, in megabytes.
    #[arg(long, default_value_t = 200)]
    megabytes: u64,
    /// Whose session file is made.
    #[arg(long, value_enum, default_value_t = Tool::Codex)]
    tool: Tool,
    /// How often each reader runs; the fastest run is printed.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Reads this file once, in this process, and prints seconds and peak bytes.
    #[arg(long, requires = "reader")]
    file: Option<PathBuf>,
    /// Which reader reads it.
    #[arg(long, value_enum)]
    reader: Option<Reader>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Tool {
    Codex,
    ClaudeCode,
}

#[derive(Clone, Copy, ValueEnum)]
enum Reader {
    /// `transcript::read`.
    Import,
    /// Typed records of Codex, line by line.
    TypedCodex,
    /// Typed records of Claude Code, line by line.
    TypedClaudeCode,
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    if let (Some(file), Some(reader)) = (&args.file, args.reader) {
        return run(file, reader);
    }
    let path = std::env::temp_dir().join(format!("import-speed-{}.jsonl", std::process::id()));
    let (file, typed) = match args.tool {
        Tool::Codex => (write_codex(&path, args.megabytes * 1_000_000), "typed-codex"),
        Tool::ClaudeCode => (write_claude_code(&path, args.megabytes * 1_000_000), "typed-claude-code"),
    };
    file?;
    let outcome = compare(&path, typed, args.runs);
    std::fs::remove_file(&path)?;
    outcome
}

fn compare(path: &Path, typed: &str, runs: usize) -> Result<(), Failure> {
    println!("{} bytes", path.metadata()?.len());
    for reader in [typed, "import"] {
        let mut best: Option<(f64, u64, String)> = None;
        for _ in 0..runs.max(1) {
            let output = std::process::Command::new(std::env::current_exe()?)
                .args(["--reader", reader, "--file"])
                .arg(path)
                .output()?;
            let text = String::from_utf8(output.stdout)?;
            let mut words = text.split_whitespace();
            let (Some(seconds), Some(peak)) = (words.next(), words.next()) else {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            };
            let found: Vec<&str> = words.collect();
            let run = (seconds.parse()?, peak.parse()?, found.join(" "));
            if best.as_ref().is_none_or(|best| run.0 < best.0) {
                best = Some(run);
            }
        }
        if let Some((seconds, peak, found)) = best {
            println!("{reader:>17}: {seconds:.3} s, peak {} MB; {found}", peak / 1_000_000);
        }
    }
    Ok(())
}

fn run(path: &Path, reader: Reader) -> Result<(), Failure> {
    let input = BufReader::with_capacity(64 * 1024, File::open(path)?);
    let start = Instant::now();
    let found = match reader {
        Reader::Import => {
            let import = transcript::read(input)?;
            format!("{} messages, {} folds", import.session.messages().count(), import.report.folds)
        }
        Reader::TypedCodex => typed(input, |line| {
            let line: CodexLine = serde_json::from_str(line)?;
            read_codex(&line)
        })?,
        Reader::TypedClaudeCode => typed(input, |line| {
            let line: ClaudeLine = serde_json::from_str(line)?;
            Ok(line.message.map_or(0, |message| message.content.len()))
        })?,
    };
    println!("{} {} {found}", start.elapsed().as_secs_f64(), peak_bytes()?);
    Ok(())
}

fn peak_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM on this system")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}

fn typed(input: impl BufRead, read: impl Fn(&str) -> Result<usize, Failure>) -> Result<String, Failure> {
    let mut parts = 0;
    for line in input.lines() {
        parts += read(&line?)?;
    }
    Ok(format!("{parts} parts"))
}

#[derive(Deserialize)]
struct CodexLine {
    #[serde(rename = "timestamp")]
    _timestamp: String,
    #[serde(rename = "type")]
    kind: String,
    payload: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CodexItem {
    Message {
        #[serde(rename = "role")]
        _role: String,
        content: Vec<CodexPart>,
    },
    FunctionCall {
        #[serde(rename = "name")]
        _name: String,
        #[serde(rename = "arguments")]
        _arguments: String,
        #[serde(rename = "call_id")]
        _call_id: String,
    },
    FunctionCallOutput {
        #[serde(rename = "call_id")]
        _call_id: String,
        #[serde(rename = "output")]
        _output: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CodexPart {
    InputText {
        #[serde(rename = "text")]
        _text: String,
    },
    OutputText {
        #[serde(rename = "text")]
        _text: String,
    },
    InputImage {
        #[serde(rename = "image_url")]
        _image_url: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct CodexCompacted {
    #[serde(rename = "message")]
    _message: String,
    replacement_history: Vec<CodexItem>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CodexEvent {
    UserMessage {
        #[serde(rename = "message")]
        _message: String,
        #[serde(rename = "images")]
        _images: Option<Vec<String>>,
    },
    AgentMessage {
        #[serde(rename = "message")]
        _message: String,
    },
    #[serde(other)]
    Other,
}

fn read_codex(line: &CodexLine) -> Result<usize, Failure> {
    let payload = line.payload.get();
    Ok(match line.kind.as_str() {
        "response_item" => match serde_json::from_str(payload)? {
            CodexItem::Message { content, .. } => content.len(),
            _ => 1,
        },
        "compacted" => serde_json::from_str::<CodexCompacted>(payload)?.replacement_history.len(),
        "event_msg" => match serde_json::from_str(payload)? {
            CodexEvent::Other => 0,
            _ => 1,
        },
        _ => 0,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaudeLine {
    #[serde(rename = "uuid")]
    _uuid: Option<String>,
    #[serde(rename = "parentUuid")]
    _parent_uuid: Option<String>,
    message: Option<ClaudeMessage>,
}

#[derive(Deserialize)]
struct ClaudeMessage {
    content: Vec<ClaudeBlock>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ClaudeBlock {
    Text {
        #[serde(rename = "text")]
        _text: String,
    },
    ToolUse {
        #[serde(rename = "id")]
        _id: String,
        #[serde(rename = "name")]
        _name: String,
        #[serde(rename = "input")]
        _input: Value,
    },
    ToolResult {
        #[serde(rename = "tool_use_id")]
        _tool_use_id: String,
        #[serde(rename = "content")]
        _content: String,
    },
    Image {
        #[serde(rename = "source")]
        _source: Value,
    },
    #[serde(other)]
    Other,
}

/// Text that looks like base64, of which each picture takes a part.
fn picture_text() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 1_u64;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(*ALPHABET.get((state >> 58) as usize).unwrap_or(&b'A'))
    };
    (0..1_100_000).map(letter).collect()
}

/// A line that takes a timestamp, as long as the file has not its size.
struct Lines {
    out: BufWriter<File>,
    written: u64,
    wanted: u64,
}

impl Lines {
    fn new(path: &Path, wanted: u64) -> Result<Self, Failure> {
        Ok(Self { out: BufWriter::new(File::create(path)?), written: 0, wanted })
    }

    fn put(&mut self, value: &Value) -> Result<(), Failure> {
        let line = value.to_string();
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")?;
        self.written += line.len() as u64 + 1;
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.written >= self.wanted
    }
}

const STEPS_OF_A_TURN: u64 = 10;
const TURNS_OF_A_FOLD: u64 = 40;
const TURNS_OF_A_PICTURE: u64 = 6;
const OUTPUT: &str = "src/parser.rs:120:    let token = self.next()?;  // \"quoted\" \\ and\ttabs\n";

fn write_codex(path: &Path, size: u64) -> Result<(), Failure> {
    let pictures = picture_text();
    let mut lines = Lines::new(path, size)?;
    let line = |kind: &str, payload: Value| json!({ "timestamp": "2026-09-01T10:00:00.000Z", "type": kind, "payload": payload });
    let user = |content: Value| json!({ "type": "message", "role": "user", "content": content });
    lines
        .put(&line("session_meta", json!({ "id": "s", "cwd": "/w", "base_instructions": { "text": "Be brief." } })))?;
    let mut kept: Vec<Value> = Vec::new();
    for turn in 1.. {
        if lines.is_full() {
            break;
        }
        lines.put(&line("event_msg", json!({ "type": "task_started", "model_context_window": 258_400 })))?;
        let text = format!("Request {turn}: look at the next module.");
        let mut content = vec![json!({ "type": "input_text", "text": text })];
        let mut images = Vec::new();
        if turn % TURNS_OF_A_PICTURE == 1 {
            let length = 300_000 + (turn as usize * 77_777) % 800_000;
            let url = format!("data:image/png;base64,{}", pictures.get(..length).unwrap_or_default());
            content.push(json!({ "type": "input_image", "image_url": url }));
            images.push(url);
        }
        let message = user(Value::Array(content));
        lines.put(&line("response_item", message.clone()))?;
        lines.put(&line("event_msg", json!({ "type": "user_message", "message": text, "images": images })))?;
        lines.put(&line("turn_context", json!({ "turn_id": turn.to_string(), "cwd": "/w", "model": "m" })))?;
        kept.push(message);
        for step in 0..STEPS_OF_A_TURN {
            let id = format!("call_{turn}_{step}");
            let reasoning = json!({ "type": "reasoning", "summary": [], "encrypted_content": pictures.get(..1_200) });
            lines.put(&line("response_item", reasoning))?;
            let arguments = json!({ "command": format!("sed -n '1,200p' src/file_{step}.rs") }).to_string();
            let call = json!({ "type": "function_call", "name": "shell", "arguments": arguments, "call_id": id });
            lines.put(&line("response_item", call))?;
            let output = OUTPUT.repeat(10 + usize::try_from((turn * 7 + step * 13) % 100)?);
            let item = json!({ "type": "function_call_output", "call_id": id, "output": output });
            lines.put(&line("response_item", item))?;
            let usage = json!({ "input_tokens": 20_000 + turn, "cached_input_tokens": 10_000, "output_tokens": 100 });
            let info =
                json!({ "total_token_usage": usage, "last_token_usage": usage, "model_context_window": 258_400 });
            lines.put(&line("event_msg", json!({ "type": "token_count", "info": info })))?;
        }
        let answer = format!("Done with module {turn}. {}", OUTPUT.repeat(3));
        let item =
            json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": answer }] });
        lines.put(&line("response_item", item))?;
        lines.put(&line("event_msg", json!({ "type": "agent_message", "message": answer })))?;
        lines.put(&line("event_msg", json!({ "type": "task_complete" })))?;
        if turn % TURNS_OF_A_FOLD == 0 {
            // A fold keeps the newest messages of the person, pictures and all.
            kept.drain(..kept.len().saturating_sub(25));
            let mut history = kept.clone();
            history.push(json!({ "type": "compaction", "encrypted_content": pictures.get(..20_000) }));
            lines.put(&line("compacted", json!({ "message": "", "replacement_history": history })))?;
        }
    }
    Ok(lines.out.flush()?)
}

fn write_claude_code(path: &Path, size: u64) -> Result<(), Failure> {
    let pictures = picture_text();
    let mut lines = Lines::new(path, size)?;
    let mut number = 0_u64;
    let mut record = |kind: &str, fields: Value| {
        number += 1;
        let mut value = json!({
            "parentUuid": (number > 1).then(|| format!("u{}", number - 1)), "isSidechain": false, "type": kind,
            "uuid": format!("u{number}"), "timestamp": "2026-09-01T10:00:00.000Z", "sessionId": "s", "cwd": "/w", "version": "2",
            "gitBranch": "main",
        });
        if let (Value::Object(into), Value::Object(fields)) = (&mut value, fields) {
            into.extend(fields);
        }
        value
    };
    for turn in 1.. {
        if lines.is_full() {
            break;
        }
        let mut content = vec![json!({ "type": "text", "text": format!("Request {turn}: look at the next module.") })];
        if turn % TURNS_OF_A_PICTURE == 1 {
            let length = 100_000 + (turn as usize * 77_777) % 250_000;
            let source = json!({ "type": "base64", "media_type": "image/png", "data": pictures.get(..length) });
            content.push(json!({ "type": "image", "source": source }));
        }
        lines.put(&record("user", json!({ "message": { "role": "user", "content": content } })))?;
        for step in 0..STEPS_OF_A_TURN {
            let id = format!("toolu_{turn}_{step}");
            let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": 20_000, "output_tokens": 8 });
            let answer = |block: Value| {
                let message = json!({
                    "id": format!("msg_{turn}_{step}"), "role": "assistant", "model": "m", "content": [block], "usage": usage,
                });
                json!({ "message": message })
            };
            lines.put(&record("assistant", answer(json!({ "type": "text", "text": OUTPUT }))))?;
            let input = json!({ "file_path": format!("/w/src/file_{step}.rs") });
            let call = json!({ "type": "tool_use", "id": id, "name": "Read", "input": input });
            lines.put(&record("assistant", answer(call)))?;
            let output = OUTPUT.repeat(10 + usize::try_from((turn * 7 + step * 13) % 100)?);
            let result = json!({ "type": "tool_result", "tool_use_id": id, "content": output });
            let fields = json!({
                "message": { "role": "user", "content": [result] },
                "toolUseResult": { "type": "text", "file": { "content": output } },
            });
            lines.put(&record("user", fields))?;
            lines.put(&record("progress", json!({ "data": { "type": "hook_progress" } })))?;
        }
        if turn % TURNS_OF_A_FOLD == 0 {
            let boundary =
                json!({ "subtype": "compact_boundary", "compactMetadata": { "trigger": "auto", "preTokens": 1 } });
            lines.put(&record("system", boundary))?;
            let content = json!([{ "type": "text", "text": format!("Summary: {}", OUTPUT.repeat(40)) }]);
            let fields = json!({ "isCompactSummary": true, "message": { "role": "user", "content": content } });
            lines.put(&record("user", fields))?;
        }
    }
    Ok(lines.out.flush()?)
}
