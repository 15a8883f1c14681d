//! The main job as a person runs it: the example's binary, its flags, its exit codes and what it prints.

#![cfg(feature = "presets")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use arya_presets::{Preset, Session};
use serde_json::{Value, json};

/// The example's binary, beside the folder of the test's own. `cargo test --test` alone does not build it, so this does.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", "compact", "--manifest-path"]);
        build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        build.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the example does not build");
        profile.join("examples").join(format!("compact{}", std::env::consts::EXE_SUFFIX))
    })
}

fn run(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(binary())
        .args(args)
        .env_remove("OPENAI_API_KEY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that refuses its flags does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn json_of(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "one object and nothing else: {text}");
    serde_json::from_str(&text).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A conversation of chat messages with calls, results and an earlier system prompt.
fn chat(rounds: usize) -> Value {
    let mut messages = vec![json!({"role": "system", "content": "You help with tide gauges."})];
    for round in 0..rounds {
        let words = "the gauge at the north pier reports a level of 3.14 metres and nobody knows why ".repeat(6);
        messages.push(json!({"role": "user", "content": format!("Request {round}: {words}")}));
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": format!("a{round}"), "type": "function",
             "function": {"name": "read", "arguments": format!("{{\"path\":\"src/gauge_{round}.rs\"}}")}},
            {"id": format!("b{round}"), "type": "function",
             "function": {"name": "bash", "arguments": "{\"command\":\"cargo test\"}"}},
        ]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("b{round}"), "content": words}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("a{round}"), "content": words}));
        messages.push(json!({"role": "assistant", "content": format!("Round {round} is done. {words}")}));
    }
    Value::Array(messages)
}

#[test]
fn without_a_file_the_sample_is_compacted() {
    let output = run(&[], "");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["Compacted ", "before", "after", "The checkpoint", "What stayed verbatim", "trigger: "] {
        assert!(text.contains(part), "{part} is missing");
    }
}

#[test]
fn the_sample_is_realistic_in_size() {
    let value = json_of(&run(&["--json"], ""));
    assert_eq!(value["format"], "harness");
    assert_eq!(value["preset"], "standard");
    assert_eq!(value["outcome"], "compacted");
    assert!(value["before"]["messages"].as_u64() > Some(60));
    assert!(value["after"]["tokens"].as_u64() < value["before"]["tokens"].as_u64());
    assert!(value["checkpoint"]["tokens"].as_u64() > Some(100));
    assert!(value["events_appended"].as_u64() >= Some(4));
    assert!(value.get("reason").is_none());
    let sample = include_bytes!("../examples/data/sample-session.jsonl");
    assert!(Session::read_jsonl(&sample[..]).unwrap().session.revision() >= 150);
}

#[test]
fn every_preset_compacts_the_sample_in_the_shape_of_its_kit() {
    for preset in Preset::builtins() {
        let value = json_of(&run(&["--json", "--trigger", "manual", "--preset", &preset.id], ""));
        assert_eq!((&value["preset"], &value["outcome"]), (&json!(preset.id), &json!("compacted")), "{value}");
        let text = value["checkpoint"]["text"].as_str().unwrap();
        assert!(
            text.starts_with(&preset.kit.frame.opening) && text.contains(&preset.kit.frame.closing),
            "{}",
            preset.id
        );
        assert!(preset.kit.sections.iter().all(|section| text.contains(section.as_str())), "{}", preset.id);
    }
}

#[test]
fn chat_messages_come_back_as_chat_messages_with_their_pairs_whole() {
    let folder = std::env::temp_dir().join(format!("compact-chat-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.join("out.json");
    let args = ["-", "--window", "4000", "--json", "--out", out.to_str().unwrap()];
    let output = run(&args, &chat(12).to_string());
    let value = json_of(&output);
    assert_eq!(
        (&value["format"], &value["outcome"]),
        (&json!("chat-completions"), &json!("compacted")),
        "{}",
        stderr(&output)
    );
    let written: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(written[0], json!({"role": "system", "content": "You help with tide gauges."}));
    assert!(written[1]["content"].as_str().unwrap().starts_with("<compacted-summary>"));
    let original = chat(12);
    assert!(original.as_array().unwrap().ends_with(&written[2..]), "what stayed is untouched");
    let count = |role: &str| written.iter().filter(|message| message["role"] == role).count();
    let calls: usize = written.iter().filter_map(|message| message["tool_calls"].as_array()).map(Vec::len).sum();
    assert_eq!(calls, count("tool"));
}

#[test]
fn a_session_file_is_written_back_whole_and_longer() {
    let folder = std::env::temp_dir().join(format!("compact-session-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.join("out.jsonl");
    let value = json_of(&run(&["--json", "--trigger", "overflow", "--out", out.to_str().unwrap()], ""));
    let written = std::fs::read(&out).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let sample = &include_bytes!("../examples/data/sample-session.jsonl")[..];
    assert!(written.starts_with(sample), "the log only grows");
    let session = Session::read_jsonl(written.as_slice()).unwrap().session;
    let before = Session::read_jsonl(sample).unwrap().session;
    // The mark that tells this process's events from the earlier one's comes on top.
    assert_eq!(session.revision(), before.revision() + 1 + value["events_appended"].as_u64().unwrap());
}

#[test]
fn a_checkpoint_keeps_the_characters_that_it_is_allowed() {
    for limit in [800, 1_500, 4_000, 9_000] {
        let value = json_of(&run(&["--json", "--trigger", "manual", "--max-checkpoint-chars", &limit.to_string()], ""));
        assert_eq!(value["outcome"], "compacted", "{limit}: {value}");
        let chars = value["checkpoint"]["text"].as_str().unwrap().chars().count();
        assert!(chars <= limit, "{chars} characters for {limit}");
        assert!(chars > limit / 3, "{chars} characters leave most of {limit} unused");
    }
}

#[test]
fn a_small_conversation_needs_nothing_and_says_why() {
    let value = json_of(&run(&["-", "--json", "--window", "100000"], &chat(1).to_string()));
    assert_eq!(value["outcome"], "unneeded");
    assert_eq!(value["events_appended"], 0);
    assert_eq!(value["before"], value["after"]);
    assert!(value["reason"].as_str().unwrap().contains("80000"));
    assert!(value.get("checkpoint").is_none());
}

#[test]
fn what_cannot_be_used_is_refused_in_one_line_with_exit_code_2() {
    let file = |text: &str| (vec!["-"], text.to_owned());
    let cases: Vec<(Vec<&str>, String)> = vec![
        (vec!["no/such/file.json"], String::new()),
        (vec!["--preset", "no-such-preset"], String::new()),
        file(""),
        file("nonsense"),
        file("{}"),
        file("[{\"content\":\"no role\"}]"),
        file("[{\"role\":\"tool\",\"content\":\"no id\"}]"),
        file("[{\"role\":\"wizard\",\"content\":\"x\"}]"),
        file("[{\"role\":\"user\",\"content\":7}]"),
        file("[{\"role\":\"assistant\",\"tool_calls\":{}}]"),
        file("{\"type\":\"session\",\"version\":9,\"id\":\"s\",\"createdAt\":0}\n"),
        file("{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":0}\nnot an event\n"),
    ];
    for (args, input) in cases {
        let output = run(&args, &input);
        assert_eq!(output.status.code(), Some(2), "{args:?} {input}: {}", stderr(&output));
        let errors = stderr(&output);
        let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("compact: ")).collect();
        assert_eq!(lines.len(), 1, "{args:?} {input}: {errors}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_form_that_there_is_not_is_refused_before_anything_is_done() {
    let file = std::env::temp_dir().join(format!("compact-to-{}", std::process::id()));
    let out = file.to_str().unwrap();
    for (args, says) in [
        (vec!["--to", "bogus"], "chat-completions, responses, anthropic"),
        (vec!["--to", "bogus", "--out", out], "chat-completions, responses, anthropic"),
        (vec!["--to", "anthropic"], "--out"),
    ] {
        let output = run(&args, "");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(says) && output.stdout.is_empty(), "{args:?}: {}", stderr(&output));
    }
    assert!(!file.exists());
}

#[test]
fn what_cannot_be_written_leaves_the_file_that_is_there_alone() {
    let file = std::env::temp_dir().join(format!("compact-alone-{}", std::process::id()));
    std::fs::write(&file, "mine").unwrap();
    // A pi file takes a fold only, and one message has none.
    let args = ["-", "--trigger", "manual", "--to", "pi", "--out", file.to_str().unwrap()];
    let output = run(&args, "[{\"role\":\"user\",\"content\":\"x\"}]");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn too_few_characters_for_a_checkpoint_are_told_in_characters() {
    for preset in ["standard", "arya-claude"] {
        let args = ["--trigger", "manual", "--preset", preset, "--max-checkpoint-chars", "40", "--json"];
        let value = json_of(&run(&args, ""));
        assert_eq!(value["outcome"], "unneeded", "{value}");
        let reason = value["reason"].as_str().unwrap();
        assert!(reason.contains("40 characters") && !reason.contains("tokens"), "{reason}");
    }
}

#[test]
fn a_conversation_that_ends_within_a_call_is_told_once_and_with_what_helps() {
    let mut messages = chat(12);
    let list = messages.as_array_mut().unwrap();
    list.truncate(list.len() - 3);
    let output = run(&["-", "--trigger", "manual"], &messages.to_string());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().next().unwrap();
    assert_eq!(line.matches("busy").count(), 1, "{line}");
    assert!(line.contains("still open") && line.contains("--trigger overflow"), "{line}");
    // What it advises works.
    let value = json_of(&run(&["-", "--trigger", "overflow", "--json"], &messages.to_string()));
    assert_eq!(value["outcome"], "compacted", "{value}");
}

/// Answers every request on the loopback alike, and hands back what the first one asked.
fn serve(status: &'static str, body: &str) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let (asked, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let body = request_body(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            // Nobody waits for the later ones.
            let _ = asked.send(body);
        }
    });
    (address, receiver)
}

fn request_body(stream: &mut impl Read) -> String {
    let mut asked = Vec::new();
    let mut buffer = [0u8; 65536];
    loop {
        let read = stream.read(&mut buffer).unwrap();
        asked.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&asked).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        if read == 0 || length.is_some_and(|length| body.len() >= length) {
            return body.to_owned();
        }
    }
}

fn ask_server(status: &'static str, body: &Value) -> (Value, Output, String) {
    let (address, asked) = serve(status, &body.to_string());
    let args = ["--json", "--summarizer", "openai", "--base-url", &address, "--model", "small"];
    let output = run(&args, "");
    (json_of(&output), output, asked.recv_timeout(Duration::from_secs(60)).unwrap())
}

#[test]
fn a_server_writes_the_summary() {
    let answer = json!({
        "choices": [{"message": {"content": "## Current Work\nThe parser was fixed."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 19_000, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 100}},
    });
    let (value, output, asked) = ask_server("200 OK", &answer);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(value["checkpoint"]["text"].as_str().unwrap().contains("The parser was fixed."));
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(asked["model"], "small");
    assert!(asked["max_tokens"].as_u64() <= Some(8_192));
    assert!(asked["messages"][0]["content"].as_str().unwrap().contains("## Primary Request and Intent"));
}

#[test]
fn a_server_that_gives_no_summary_leaves_the_conversation_whole() {
    let error = |message: &str| json!({"error": {"message": message}});
    let choice =
        |content: &str, reason: &str| json!({"choices": [{"message": {"content": content}, "finish_reason": reason}]});
    let cases = [
        ("401 Unauthorized", error("bad key"), "credentials"),
        ("429 Too Many Requests", error("slow down"), "more requests"),
        ("400 Bad Request", error("maximum context length is 4096 tokens"), "does not fit"),
        ("500 Internal Server Error", error("out of order"), "500"),
        ("200 OK", choice("half a summ", "length"), "cut off"),
        ("200 OK", choice("", "stop"), "no text"),
        ("200 OK", json!({}), "no text"),
    ];
    for (status, body, reason) in cases {
        let (value, output, _) = ask_server(status, &body);
        assert_eq!(output.status.code(), Some(1), "{status}");
        assert_eq!(value["outcome"], "failed");
        assert!(value["reason"].as_str().unwrap().contains(reason), "{status}: {}", value["reason"]);
        assert_eq!(value["before"]["messages"], value["after"]["messages"]);
        assert!(value.get("checkpoint").is_none());
    }
}

#[test]
fn a_server_that_is_not_there_is_named_as_the_reason() {
    let args = ["--json", "--summarizer", "openai", "--base-url", "http://127.0.0.1:9/v1", "--model", "small"];
    let output = run(&args, "");
    assert_eq!(output.status.code(), Some(1));
    assert!(json_of(&output)["reason"].as_str().unwrap().contains("cannot be reached"));
}
