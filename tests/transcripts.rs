//! Transcripts of other tools: every file is read with a report, folds with every preset, and is written without a violation.
//!
//! Small files are read from `tests/data/transcripts`, the larger ones where they are at hand.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a broken test may panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arya_presets::transcript::{self, Change, Format, Import, Target, TranscriptError, WriteOptions};
use arya_presets::{
    BaseEngine, Block, ExtractiveSummarizer, Kit, Message, Outcome, Policy, RuleSet, Session, Situation, Trigger,
    WindowOrigin, compact,
};
use serde_json::json;

/// The transcripts at hand by name, the larger collection where it is there.
fn files() -> BTreeMap<String, PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    for (root, is_collection) in
        [(here.join("tests/data/transcripts"), false), (here.join("../shared/transcripts"), true)]
    {
        if !root.is_dir() {
            assert!(is_collection, "the small copies travel with the tests");
            println!("skipped: there are no larger transcripts at {}", root.display());
            continue;
        }
        for folder in std::fs::read_dir(&root).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
            for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
                let name = format!("{}/{}", folder.file_name().to_string_lossy(), file.file_name().to_string_lossy());
                found.insert(name, file.path());
            }
        }
    }
    assert!(found.len() >= 15);
    found
}

fn import(path: &Path) -> Result<Import, TranscriptError> {
    transcript::read(std::io::BufReader::new(std::fs::File::open(path).unwrap()))
}

fn imports() -> Vec<(String, Vec<u8>, Import)> {
    files()
        .into_iter()
        .filter_map(|(name, path)| Some((name, std::fs::read(&path).unwrap(), import(&path).ok()?)))
        .collect()
}

/// What a message says, without the ids that a form may not have.
fn said(session: &Session) -> Vec<(String, Vec<Block>)> {
    session.messages().map(|message| (message.source.kind().to_owned(), message.content.clone())).collect()
}

#[test]
fn every_transcript_is_read_with_its_report_or_refused_by_name() {
    for (name, path) in files() {
        let shown = match import(&path) {
            Ok(import) => {
                let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
                for message in import.session.messages() {
                    *kinds.entry(format!("{:?} {}", message.role, message.source.kind())).or_default() += 1;
                }
                let header = import.session.request_header();
                let value = json!({
                    "id": import.session.id(),
                    "model": header.map(|header| format!("{}/{}", header.config.provider, header.config.model)),
                    "systemChars": header.and_then(|header| header.system.as_ref()).map(|system| system.chars().count()),
                    "tools": header.and_then(|header| header.tools.as_ref()).map(Vec::len),
                    "window": import.session.request_context().and_then(|context| context.context_window),
                    "messages": kinds,
                    "report": import.report,
                });
                serde_json::to_string_pretty(&value).unwrap()
            }
            Err(error) => format!("{}: {error}", error.code()),
        };
        let snapshot = format!("transcript_{}", name.replace(['/', '.'], "_"));
        insta::assert_snapshot!(snapshot, shown);
    }
}

#[test]
fn every_transcript_is_written_for_every_api_without_a_violation() {
    for (name, _, import) in imports() {
        for target in Target::APIS {
            let export = transcript::write(&import.session, target, &WriteOptions::default()).unwrap();
            assert_eq!(transcript::validate(target, &export.value), [], "{name} as {target}");
        }
    }
}

#[test]
fn what_is_written_for_an_api_is_read_back_and_written_the_same() {
    let mut exact = 0;
    for (name, _, import) in imports() {
        for target in Target::APIS {
            let format = Format::ALL.into_iter().find(|format| format.target() == Some(target)).unwrap();
            let first = transcript::write(&import.session, target, &WriteOptions::default()).unwrap();
            let again = transcript::read_as(format, first.to_text().as_bytes()).unwrap();
            let second = transcript::write(&again.session, target, &WriteOptions::default()).unwrap();
            assert_eq!(second.value, first.value, "{name} as {target}");
            if import.format == format && first.report.is_exact() {
                assert_eq!(said(&again.session), said(&import.session), "{name} as {target}");
                exact += 1;
            }
            let third = transcript::read_as(format, second.to_text().as_bytes()).unwrap();
            assert_eq!(said(&third.session), said(&again.session), "{name} as {target}");
        }
    }
    println!("{exact} files came back as they were");
}

#[test]
fn an_api_form_is_told_from_its_content_where_it_has_any_mark() {
    for (name, _, import) in imports() {
        for target in Target::APIS {
            let export = transcript::write(&import.session, target, &WriteOptions::default()).unwrap();
            let again = transcript::read(export.to_text().as_bytes()).unwrap();
            let only_texts = again.format == Format::ChatCompletions && target == Target::Anthropic;
            assert!(only_texts || again.format.target() == Some(target), "{name}: {target} read as {}", again.format);
        }
    }
}

fn presets() -> [(&'static str, Policy, Kit); 5] {
    [
        ("standard", Policy::standard(), Kit::base()),
        ("arya-standard", Policy::arya_standard(), Kit::codex()),
        ("arya-qwen", Policy::arya_qwen(), Kit::qwen()),
        ("arya-claude", Policy::arya_claude(), Kit::claude()),
        ("arya-automation", Policy::arya_automation(), Kit::codex()),
    ]
}

/// A window in which the conversation is due, whatever the preset.
fn situation(session: &Session) -> (u64, Situation) {
    let mut engine = BaseEngine::new(Policy::standard(), Kit::base(), RuleSet::Default).unwrap();
    let tokens = engine.measure(session, &Situation::from_log(session)).unwrap().total_tokens;
    (tokens, Situation::from_log(session).window(tokens.max(2), WindowOrigin::Named("test".into())))
}

#[test]
fn every_transcript_folds_with_every_preset_at_a_window_that_needs_it() {
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    for (name, bytes, _) in imports() {
        for (preset, policy, kit) in presets() {
            let mut session = transcript::read(&*bytes).unwrap().session;
            let before = (session.revision(), said(&session));
            let (tokens, situation) = situation(&session);
            let mut engine = BaseEngine::new(policy, kit, RuleSet::Default).unwrap();
            let result =
                compact(&mut engine, &mut session, Trigger::Pressure, &situation, &mut ExtractiveSummarizer::new());
            let outcome = match &result {
                Ok(Outcome::Compacted(_)) => "compacted".to_owned(),
                Ok(Outcome::Pruned(_)) => "pruned".to_owned(),
                Ok(Outcome::Unneeded(reason)) => format!("unneeded: {}", reason.code()),
                Ok(other) => panic!("{name} with {preset}: {other:?}"),
                Err(error) => format!("refused: {}", error.code()),
            };
            *outcomes.entry(outcome.clone()).or_default() += 1;
            // A conversation of some length folds; a short one may have nothing that can go, and is then as it was.
            let is_long = tokens > 12_000 && before.1.len() > 20;
            let changed = matches!(result, Ok(Outcome::Compacted(_) | Outcome::Pruned(_)));
            assert!(changed || !is_long, "{name} with {preset}, {tokens} tokens: {outcome}");
            if !changed && result.as_ref().err().is_none_or(|error| error.code() != "no-progress") {
                assert_eq!(said(&session), before.1, "{name} with {preset}: {outcome}");
            }
            for target in Target::APIS {
                let export = transcript::write(&session, target, &WriteOptions::default()).unwrap();
                assert_eq!(transcript::validate(target, &export.value), [], "{name} with {preset} as {target}");
            }
        }
    }
    println!("{outcomes:?}");
}

/// A folded session of a file, and what was appended to the file for it.
fn folded(bytes: &[u8], target: Target) -> Option<(Session, Vec<u8>, bool)> {
    let import = transcript::read(bytes).ok()?;
    let mut session = import.session;
    let (_, situation) = situation(&session);
    let mut engine = BaseEngine::new(Policy::standard(), Kit::base(), RuleSet::Default).unwrap();
    let outcome =
        compact(&mut engine, &mut session, Trigger::Pressure, &situation, &mut ExtractiveSummarizer::new()).ok()?;
    let Outcome::Compacted(_) = outcome else { return None };
    let options = WriteOptions::default().resuming(import.resume).at(1_900_000_000_000);
    let export = transcript::write(&session, target, &options).unwrap();
    let mut file = bytes.to_vec();
    if !file.ends_with(b"\n") {
        file.push(b'\n');
    }
    file.extend(export.to_text().into_bytes());
    let shows_prunes = !export.report.changes.contains_key(&Change::PruneNotWritten);
    Some((session, file, shows_prunes))
}

#[test]
fn a_tool_s_own_file_goes_on_from_the_checkpoint_that_was_appended_to_it() {
    let mut written = BTreeMap::new();
    for (name, bytes, import) in imports() {
        let Some(target) = import.format.target().filter(|target| !Target::APIS.contains(target)) else { continue };
        let Some((session, file, shows_prunes)) = folded(&bytes, target) else { continue };
        let again = transcript::read(&*file).unwrap();
        let texts = |session: &Session| -> Vec<(bool, String)> {
            let text = |message: &Message| match message.result() {
                Some(result) => result.content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n"),
                None => message.text(),
            };
            session
                .messages()
                .map(|message| (message.source.is_checkpoint(), text(message)))
                .filter(|(_, text)| !text.trim().is_empty())
                .collect()
        };
        let (expected, found) = (texts(&session), texts(&again.session));
        assert_eq!(found.len(), expected.len(), "{name}");
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(found.0, expected.0, "{name}");
            // A pi file keeps its entries whole.
            assert!(!shows_prunes || found.1.trim() == expected.1.trim(), "{name}: {} for {}", found.1, expected.1);
        }
        assert_eq!(again.report.folds, import.report.folds + 1, "{name}");
        assert_eq!(again.report.unreadable_count, import.report.unreadable_count, "{name}");
        *written.entry(target.name()).or_insert(0) += 1;
    }
    println!("{written:?}");
}

#[test]
fn only_what_the_person_typed_is_the_person_s() {
    for (name, _, import) in imports() {
        for message in import.session.messages().filter(|message| message.source.is_user()) {
            let text = message.text();
            for mark in ["<system-reminder>", "<environment_context>", "<local-command-stdout>", "<task-notification>"]
            {
                assert!(!text.trim_start().starts_with(mark), "{name}: {mark} is no word of the person");
            }
        }
    }
}

#[test]
fn a_session_that_was_read_survives_its_own_file() {
    for (name, _, import) in imports() {
        let mut file = Vec::new();
        import.session.write_jsonl(&mut file).unwrap();
        let again = Session::read_jsonl(&*file).unwrap().session;
        assert_eq!(again, import.session, "{name}");
        let harness = transcript::write(&import.session, Target::Harness, &WriteOptions::default()).unwrap();
        assert_eq!(transcript::read(harness.to_text().as_bytes()).unwrap().session, import.session, "{name}");
    }
}

#[test]
fn bad_input_is_refused_with_a_code_and_never_a_panic() {
    for (text, code) in [
        ("", "empty"),
        ("\n \n", "empty"),
        ("nonsense", "unknown-format"),
        ("{}", "unknown-format"),
        ("[]", "unknown-format"),
        ("[1, 2]", "unknown-format"),
        ("{\"messages\": []}", "no-conversation"),
        ("{\"a\": [", "json"),
        ("[{\"role\": \"user\", \"content\": 7}]", "no-conversation"),
        ("[{\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": \"x\"}]", "no-conversation"),
    ] {
        let error = transcript::read(text.as_bytes()).unwrap_err();
        assert_eq!(error.code(), code, "{text:?}: {error}");
    }
    let compressed = [0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    assert!(transcript::read(&compressed[..]).is_err());
}
