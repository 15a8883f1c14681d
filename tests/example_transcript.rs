//! The example that looks into transcripts, as a person runs it; and `compact` on the files of other tools.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use arya_presets::transcript::{self, Format};
use serde_json::{Value, json};

/// An example's binary, beside the folder of the test's own. `cargo test --test` alone does not build it, so this does.
fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--example", name, "--manifest-path"]);
    build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    build.arg("--target-dir").arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "the example does not build");
    profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn run(name: &str, args: &[&str]) -> Output {
    Command::new(binary(name)).args(args).output().unwrap()
}

fn file(name: &str) -> String {
    format!("{}/tests/data/transcripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn json_of(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "one object and nothing else: {text}");
    serde_json::from_str(&text).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("transcript-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn inspect_says_what_is_in_a_file_and_where_its_tokens_are() {
    let output = run("transcript", &["inspect", &file("qwen-code/rewind.jsonl")]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["qwen-code session", "where the tokens are", "messages of the user", "branch-left"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let value = json_of(&run("transcript", &["inspect", &file("openhands/basic.json"), "--json"]));
    assert_eq!(value["report"]["format"], "openhands");
    assert!(value["tokens"].as_u64() > Some(100));
    assert_eq!(value["tools"][0]["calls"], 1);
}

#[test]
fn convert_writes_another_form_and_check_finds_nothing_in_it() {
    let folder = folder("convert");
    for target in ["chat-completions", "responses", "anthropic", "gemini"] {
        let out = folder.join(format!("{target}.json"));
        let out = out.to_str().unwrap();
        let output = run("transcript", &["convert", &file("openhands/basic.json"), "--to", target, "--out", out]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let value = json_of(&run("transcript", &["check", out, "--as", target, "--json"]));
        assert_eq!(value, json!({"target": target, "violations": []}));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn check_names_rule_and_place_and_takes_switches() {
    let folder = folder("check");
    let path = folder.join("bad.json");
    std::fs::write(
        &path,
        json!({"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": null,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}]})
        .to_string(),
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let output = run("transcript", &["check", path]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("chat-unanswered-call") && text.contains("/messages/1"), "{text}");
    assert!(run("transcript", &["check", path, "--without", "chat-unanswered-call"]).status.success());
    assert_eq!(run("transcript", &["check", path, "--with", "no-such-rule"]).status.code(), Some(2));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_cannot_be_read_is_refused_in_one_line_with_exit_code_2() {
    for args in [
        vec!["inspect", "no/such/file"],
        vec!["inspect", &file("qwen-code/single-line.jsonl")],
        vec!["convert", &file("openhands/basic.json"), "--to", "nothing"],
        vec!["check", &file("codex/unanswered-call.jsonl")],
    ] {
        let output = run("transcript", &args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(errors.lines().filter(|line| line.starts_with("transcript: ")).count(), 1, "{errors}");
    }
}

#[test]
fn check_says_what_was_checked_and_refuses_what_it_has_no_rules_for() {
    let folder = folder("checked");
    let request = folder.join("request.json");
    std::fs::write(&request, json!({"messages": [{"role": "user", "content": "go"}]}).to_string()).unwrap();
    let request = request.to_str().unwrap();
    let output = run("transcript", &["check", request]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("request.json") && text.contains("checked as a request of chat-completions"), "{text}");
    let apis = "chat-completions, responses, anthropic, gemini";
    let (rollout, events) = (file("codex/unanswered-call.jsonl"), file("openhands/basic.json"));
    for (args, says) in [
        (vec![request, "--as", "codex-rollout"], vec!["codex-rollout", apis]),
        (vec![request, "--as", "harness"], vec!["harness", apis]),
        (vec![request, "--as", "bogus"], vec!["\"bogus\"", apis]),
        (vec![&rollout], vec!["nothing was checked", "codex-rollout file", apis, "convert"]),
        (vec![&rollout, "--as", "anthropic"], vec!["nothing was checked", "codex-rollout file"]),
        (vec![&events, "--as", "responses"], vec!["nothing was checked", "openhands file"]),
    ] {
        let output = run("transcript", &[vec!["check"], args.clone()].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(says.iter().all(|part| errors.contains(part)) && !errors.contains("::"), "{args:?}: {errors}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_of_no_known_format_is_told_the_formats_by_their_names() {
    let folder = folder("unknown");
    let path = folder.join("odd.json");
    for text in ["", "{\"a\":1}", "nonsense"] {
        std::fs::write(&path, text).unwrap();
        for example in [vec!["inspect"], vec![]] {
            let name = if example.is_empty() { "compact" } else { "transcript" };
            let output = run(name, &[example, vec![path.to_str().unwrap()]].concat());
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(errors.contains("chat-completions, responses") && !errors.contains("::"), "{errors}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A file of a tool with a conversation that is long enough to fold.
fn long_files() -> Vec<(&'static str, Format, String)> {
    let words = "the gauge at the north pier reports a level of 3.14 metres and nobody knows why ".repeat(12);
    let mut codex = vec![json!({"type": "session_meta", "payload": {"id": "s", "cwd": "/w"}})];
    let mut claude = Vec::new();
    let mut qwen = Vec::new();
    let mut pi =
        vec![json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-09-01T10:00:00Z", "cwd": "/w"})];
    let mut parent = Value::Null;
    for round in 0..10 {
        for (role, said) in
            [("user", format!("Request {round}: {words}")), ("assistant", format!("Answer {round}: {words}"))]
        {
            let id = format!("{role}-{round}");
            let kind = if role == "user" { "input_text" } else { "output_text" };
            codex.push(json!({"type": "response_item", "payload": {"type": "message", "role": role, "content": [{"type": kind, "text": said}]}}));
            claude.push(json!({"type": role, "uuid": id, "sessionId": "s", "cwd": "/w", "version": "2.1.0",
                "message": {"role": role, "id": id, "model": "m", "content": [{"type": "text", "text": said}]}}));
            let gemini = if role == "user" { "user" } else { "model" };
            qwen.push(json!({"type": role, "uuid": id, "sessionId": "s", "cwd": "/w", "message": {"role": gemini, "parts": [{"text": said}]}}));
            pi.push(json!({"type": "message", "id": id, "parentId": parent, "message": {"role": role, "content": [{"type": "text", "text": said}]}}));
            parent = json!(id);
        }
    }
    let text = |records: &[Value]| records.iter().map(|record| format!("{record}\n")).collect::<String>();
    vec![
        ("codex", Format::CodexRollout, text(&codex)),
        ("claude", Format::ClaudeCode, text(&claude)),
        ("qwen", Format::QwenCode, text(&qwen)),
        ("pi", Format::Pi, text(&pi)),
    ]
}

#[test]
fn compact_shrinks_a_tool_s_own_file_so_that_the_tool_goes_on_from_the_checkpoint() {
    let folder = folder("compact");
    for (name, format, text) in long_files() {
        let (file, out) = (folder.join(format!("{name}.jsonl")), folder.join(format!("{name}-out.jsonl")));
        std::fs::write(&file, &text).unwrap();
        let args = [file.to_str().unwrap(), "--trigger", "manual", "--json", "--out", out.to_str().unwrap()];
        let output = run("compact", &args);
        let value = json_of(&output);
        assert_eq!(value["outcome"], "compacted", "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let written = std::fs::read_to_string(&out).unwrap();
        assert!(written.starts_with(&text), "{name}: nothing of the file is lost");
        let again = transcript::read(written.as_bytes()).unwrap();
        assert_eq!((again.format, again.report.folds), (format, 1), "{name}");
        let messages: Vec<_> = again.session.messages().collect();
        assert!(messages[0].source.is_checkpoint() || messages[1].source.is_checkpoint(), "{name}");
        assert_eq!(messages.len() as u64, value["after"]["messages"].as_u64().unwrap(), "{name}");
        let last = messages.last().unwrap().text();
        assert!(last.starts_with("Answer 9"), "{name}: {last}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn compact_says_beforehand_that_there_is_no_writer_and_takes_another_form() {
    let folder = folder("writer");
    let out = folder.join("out.json");
    let out = out.to_str().unwrap();
    let file = file("openhands/basic.json");
    let output = run("compact", &[&file, "--trigger", "manual", "--out", out]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--to"));
    let output = run("compact", &[&file, "--trigger", "manual", "--out", out, "--to", "anthropic"]);
    // There is too little to fold; it is written all the same.
    assert_eq!(output.status.code(), Some(1));
    assert!(transcript::read(std::fs::read_to_string(out).unwrap().as_bytes()).is_ok());
    std::fs::remove_dir_all(&folder).unwrap();
}
