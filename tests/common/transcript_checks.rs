//! What holds for every input of the importers, whatever its bytes are. Shared by the fuzz targets and the tests over their corpora.

#![allow(dead_code, reason = "each user takes a part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a broken check may panic")]

use arya_presets::Session;
use arya_presets::transcript::{self, Format, Target, WriteOptions};
use serde_json::Value;

/// Reads bytes as a format, or as what they are found to be, and checks everything that follows. Whether they made a conversation.
pub(crate) fn check(format: Option<Format>, bytes: &[u8]) -> bool {
    let import = match format {
        Some(format) => transcript::read_as(format, bytes),
        None => transcript::read(bytes),
    };
    let import = match import {
        Ok(import) => import,
        Err(error) => {
            assert!(!error.code().is_empty() && !error.to_string().is_empty());
            return false;
        }
    };
    assert!(import.session.messages().next().is_some(), "an import without a message is an error");
    assert_same(&import.session, &written_and_read(&import.session));
    for target in Target::ALL {
        check_export(&import.session, target, &WriteOptions::default());
    }
    if let Some(target) = import.format.target().filter(|target| Target::APIS.contains(target)) {
        check_is_stable(&import.session, target, &WriteOptions::default());
    }
    true
}

/// The session as it comes back from its file.
pub(crate) fn written_and_read(session: &Session) -> Session {
    let mut bytes = Vec::new();
    session.write_jsonl(&mut bytes).unwrap();
    Session::read_jsonl(&*bytes).unwrap().session
}

fn assert_same(session: &Session, other: &Session) {
    assert_eq!(session.header(), other.header());
    for (event, other) in session.events().iter().zip(other.events()) {
        assert_eq!(event, other, "an event is not read as it was written");
    }
    assert_eq!(session.events().len(), other.events().len());
    assert_eq!(session.nodes().len(), other.nodes().len());
}

/// Writes a session for a target and checks what comes out: no API refuses it, it can be read, and what was read of it is written
/// the same again and again. A file may say of a text who wrote it, which no API keeps, so that it counts from the second time on.
pub(crate) fn check_export(session: &Session, target: Target, options: &WriteOptions) {
    let export = match transcript::write(session, target, options) {
        Ok(export) => export,
        Err(error) => {
            assert_eq!(error.code(), "inexpressible", "{target}: {error}");
            return;
        }
    };
    let violations = transcript::validate_with(target, &export.value, &options.profile);
    assert!(violations.is_empty(), "{target} refuses {}:\n{violations:#?}", export.value);

    let text = export.to_text();
    let again = transcript::read_as(format_of(target), text.as_bytes());
    if !Target::APIS.contains(&target) {
        // A file's records are to be appended to it; alone they may hold nothing.
        drop(again);
        return;
    }
    let again = again.unwrap_or_else(|error| panic!("{target} gave what cannot be read: {error}\n{text}"));
    check_is_stable(&again.session, target, options);
}

/// Whether a session that was read from an API's form is written to it the same again after it was read once more.
pub(crate) fn check_is_stable(session: &Session, target: Target, options: &WriteOptions) {
    let first = transcript::write(session, target, options).unwrap();
    let violations = transcript::validate_with(target, &first.value, &options.profile);
    assert!(violations.is_empty(), "{target} refuses {}:\n{violations:#?}", first.value);
    let again = transcript::read_as(format_of(target), first.to_text().as_bytes()).unwrap();
    let second = transcript::write(&again.session, target, options).unwrap();
    assert_equal(target, &first.value, &second.value);
}

fn assert_equal(target: Target, first: &Value, second: &Value) {
    if first != second {
        let (first, second) = (format!("{first:#}"), format!("{second:#}"));
        let at = first.lines().zip(second.lines()).take_while(|(line, other)| line == other).count();
        let from = |text: &str| text.lines().skip(at.saturating_sub(8)).take(20).collect::<Vec<_>>().join("\n");
        panic!("{target} is not written the same again:\n{}\nand then\n{}", from(&first), from(&second));
    }
}

/// The format of what a target writes.
pub(crate) fn format_of(target: Target) -> Format {
    Format::ALL.into_iter().find(|format| format.target() == Some(target)).unwrap()
}
