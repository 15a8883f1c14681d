//! Properties of the importers and exporters, checked with random conversations. `PROPTEST_CASES` sets how many.

#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, reason = "so may what it calls")]

mod common;
#[path = "common/conversations.rs"]
mod conversations;
#[path = "common/transcript_checks.rs"]
mod transcript_checks;

use std::path::Path;

use arya_presets::transcript::{self, Change, Format, Import, Profile, Rule, Target, WriteOptions};
use arya_presets::{Message, Session};
use common::{Rng, generate};
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};
use transcript_checks::format_of;

/// Most acts of a generated session.
const ACTS: usize = 20;

fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 400;
    }
    config
}

/// What a message says and who says it, without ids that a reader makes.
fn said(session: &Session) -> Vec<(String, String, String)> {
    let told = |message: &Message| {
        let content: Vec<_> = message.content.iter().map(|block| serde_json::to_string(block).unwrap()).collect();
        (format!("{:?}", message.role), message.source.kind().to_owned(), content.join("\n"))
    };
    session.messages().map(|message| told(message)).collect()
}

/// Content without the fields that its API has beside it, of which damage may have made nonsense.
fn bare(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            map.retain(|key, _| key != "idMade" && Target::APIS.iter().all(|target| target.name() != key));
            map.values_mut().for_each(|value| *value = bare(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = bare(item.take())),
        _ => {}
    }
    value
}

/// What is said, with ids that a reader made numbered anew: what a damaged record used up shows in them.
fn said_barely(session: &Session) -> String {
    let mut all = String::new();
    for message in session.messages() {
        let content = bare(serde_json::to_value(&message.content).unwrap());
        all.push_str(&format!("{:?} {} {content}\n", message.role, message.source.kind()));
    }
    let mut seen = Vec::new();
    let mut pieces = all.split("made-call-");
    let mut renamed = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        let (id, rest) = piece.split_at(end);
        let number = seen.iter().position(|known| *known == id).unwrap_or_else(|| {
            seen.push(id);
            seen.len() - 1
        });
        renamed.push_str(&format!("made-call-no-{number}{rest}"));
    }
    renamed
}

fn read_as(target: Target, text: &str) -> Import {
    transcript::read_as(format_of(target), text.as_bytes()).unwrap()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_valid_conversation_comes_back_to_its_api_exactly(seed in any::<u64>(), turns in 1..6_usize) {
        for target in Target::APIS {
            let value = conversations::conversation(target, &mut Rng::new(seed), turns);
            let violations = transcript::validate(target, &value);
            prop_assert!(violations.is_empty(), "the generator errs: {target}: {violations:#?}\n{value:#}");
            let first = read_as(target, &value.to_string());
            prop_assert_eq!(first.report.unreadable_count, 0);
            let export = transcript::write(&first.session, target, &WriteOptions::default()).unwrap();
            // A result without content is marked, and the mark reads back as nothing.
            let is_exact = export.report.changes.keys().all(|change| *change == Change::EmptyContentMarked);
            prop_assert!(is_exact, "{target}: {:?}\n{value:#}\n{:#}", export.report, export.value);
            let second = read_as(target, &export.to_text());
            prop_assert_eq!(said(&first.session), said(&second.session), "{}\n{:#}", target, value);
            let again = transcript::write(&second.session, target, &WriteOptions::default()).unwrap();
            prop_assert_eq!(export.value, again.value);
        }
    }

    #[test]
    fn a_conversation_with_faults_is_written_the_same_again(seed in any::<u64>(), turns in 1..6_usize) {
        for target in Target::APIS {
            let mut rng = Rng::new(seed);
            let mut value = conversations::conversation(target, &mut rng, turns);
            for _ in 0..=rng.index(4) {
                conversations::damage(&mut value, &mut rng);
            }
            let text = value.to_string();
            let Ok(first) = transcript::read_as(format_of(target), text.as_bytes()) else { continue };
            let export = transcript::write(&first.session, target, &WriteOptions::default()).unwrap();
            let violations = transcript::validate(target, &export.value);
            prop_assert!(violations.is_empty(), "{target}: {violations:#?}\n{value:#}\n{:#}", export.value);
            let second = read_as(target, &export.to_text());
            if export.report.is_exact() {
                let (first, second) = (said_barely(&first.session), said_barely(&second.session));
                let difference = first.lines().zip(second.lines()).find(|(line, other)| line != other);
                prop_assert!(first == second, "{target}: {difference:#?}\n{value:#}");
            }
            let again = transcript::write(&second.session, target, &WriteOptions::default()).unwrap();
            prop_assert_eq!(export.value, again.value, "{}\n{:#}", target, value);
        }
    }

    #[test]
    fn no_api_refuses_what_is_written_of_any_session(seed in any::<u64>(), acts in 1..ACTS) {
        let session = generate::session(seed, acts);
        let profiles = [
            Profile::default(),
            Profile::strict_roles(),
            Profile::reasoning_required(),
            Profile::reasoning_required().with(Rule::ChatReasoningRequiredEverywhere),
            Profile::reasoning_refused(),
            Profile::default().with(Rule::ResponsesForeignCompaction),
        ];
        for profile in profiles {
            let options = WriteOptions::default().with_profile(profile.clone());
            for target in Target::APIS {
                let export = match transcript::write(&session, target, &options) {
                    Ok(export) => export,
                    Err(error) => {
                        prop_assert_eq!(error.code(), "inexpressible");
                        continue;
                    }
                };
                let mut violations = transcript::validate_with(target, &export.value, &profile);
                // A conversation that ends with an answer is the host's to go on from.
                violations.retain(|violation| violation.rule != Rule::AnthropicPrefill);
                prop_assert!(violations.is_empty(), "{target}: {violations:#?}\n{:#}", export.value);
            }
        }
    }

    #[test]
    fn shortened_arguments_stay_json_with_the_keys_that_they_had(seed in any::<u64>(), longest in 0..80_usize) {
        let mut rng = Rng::new(seed);
        let long = |rng: &mut Rng| rng.pick(&["数据 ", "\\\"", "word ", "👩\u{200d}💻"]).repeat(rng.index(60));
        let arguments = json!({ "path": "a.md", "content": long(&mut rng), "deep": [{ "lines": [long(&mut rng), 1, null] }] });
        let calls = json!([{ "id": "1", "type": "function", "function": { "name": "write", "arguments": arguments.to_string() } }]);
        let messages = json!([
            { "role": "user", "content": "Write it." },
            { "role": "assistant", "content": null, "tool_calls": calls },
            { "role": "tool", "tool_call_id": "1", "content": "ok" },
        ]);
        let session = read_as(Target::ChatCompletions, &messages.to_string()).session;
        let options = WriteOptions::default().with_longest_argument(longest);
        for target in Target::APIS {
            let export = transcript::write(&session, target, &options).unwrap();
            prop_assert!(transcript::validate(target, &export.value).is_empty());
            let back = read_as(target, &export.to_text());
            let call = back.session.messages().find_map(|message| message.tool_calls().next().cloned()).unwrap();
            let written: Value = serde_json::from_str(&call.arguments).unwrap();
            let lines = &written["deep"][0]["lines"];
            prop_assert!(lines[1] == 1 && lines[2].is_null() && written.as_object().unwrap().len() == 3, "{written}");
            for (text, whole) in [(&written["content"], &arguments["content"]), (&lines[0], &arguments["deep"][0]["lines"][0])] {
                let (text, whole) = (text.as_str().unwrap(), whole.as_str().unwrap());
                prop_assert!(text.len() <= whole.len(), "{text:?} of {whole:?}");
            }
        }
    }

    #[test]
    fn a_file_that_is_cut_anywhere_loses_the_record_of_the_cut_alone(pick in any::<u64>(), cut in any::<u64>()) {
        let seeds = line_files();
        let (format, bytes) = &seeds[usize::try_from(pick % seeds.len() as u64).unwrap()];
        let cut = usize::try_from(cut % (bytes.len() as u64 + 1)).unwrap();
        let whole = bytes[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let is_torn = serde_json::from_slice::<serde_json::Value>(&bytes[whole..cut]).is_err();
        let of_cut = transcript::read_as(*format, &bytes[..cut]);
        _ = transcript::read(&bytes[..cut]);
        if is_torn && whole > 0 {
            match (transcript::read_as(*format, &bytes[..whole]), of_cut) {
                (Ok(whole), Ok(of_cut)) => prop_assert_eq!(said(&whole.session), said(&of_cut.session)),
                (whole, of_cut) => prop_assert!(whole.is_err() && of_cut.is_err(), "{whole:?} and {of_cut:?}"),
            }
        }
    }

    #[test]
    fn a_line_that_is_damaged_anywhere_loses_itself_alone(pick in any::<u64>(), line in any::<u64>(), cut in any::<u64>()) {
        let seeds = line_files();
        let (format, bytes) = &seeds[usize::try_from(pick % seeds.len() as u64).unwrap()];
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let at = usize::try_from(line % lines.len() as u64).unwrap();
        let torn = &lines[at][..usize::try_from(cut % lines[at].len() as u64).unwrap()];
        let damaged: Vec<u8> = [torn, b"\n"].concat();
        prop_assume!(serde_json::from_slice::<serde_json::Value>(torn).is_err());
        let kept = lines[at];
        lines[at] = &damaged;
        let with_damage = transcript::read_as(*format, &*lines.concat());
        lines[at] = b"\n";
        let without = transcript::read_as(*format, &*lines.concat());
        lines[at] = kept;
        match (without, with_damage) {
            (Ok(without), Ok(with_damage)) => prop_assert_eq!(said(&without.session), said(&with_damage.session)),
            (without, with_damage) => prop_assert!(without.is_err() && with_damage.is_err(), "{without:?} and {with_damage:?}"),
        }
    }
}

/// The seeds of the fuzz targets that have a record a line.
fn line_files() -> Vec<(Format, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fuzz");
    let mut files = Vec::new();
    for (format, name) in [
        (Format::CodexRollout, "seed-1"),
        (Format::CodexRollout, "seed-2"),
        (Format::ClaudeCode, "seed-1"),
        (Format::ClaudeCode, "seed-2"),
        (Format::GeminiCli, "seed-2"),
        (Format::GeminiStream, "seed-1"),
        (Format::QwenCode, "seed-1"),
        (Format::Pi, "seed-1"),
        (Format::Pi, "seed-2"),
        (Format::Openhands, "seed-2"),
        (Format::Anthropic, "seed-4"),
        (Format::Responses, "seed-5"),
        (Format::Gemini, "seed-3"),
    ] {
        files.push((format, std::fs::read(root.join(format.name()).join(name)).unwrap()));
    }
    files
}
