//! What a stored session survives: writes cut at every byte, full disks, refused syncs, second writers, damaged files, crashes.
//! `PROPTEST_CASES` sets how many random logs are tried; 300 without it.

#![allow(clippy::indexing_slicing, clippy::panic, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, reason = "so may what it calls")]

mod common;

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arya_presets::*;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use common::{Rng, drafts, generate, is_whole};

fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 300;
    }
    config
}

#[cfg(feature = "zstd")]
const COMPRESSIONS: [Compression; 2] = [Compression::None, Compression::Zstd];
#[cfg(not(feature = "zstd"))]
const COMPRESSIONS: [Compression; 1] = [Compression::None];

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    /// In memory where there is such a place: thousands of syncs would take a disk minutes.
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::below(memory) } else { Self::on_disk() }
    }

    fn on_disk() -> Self {
        Self::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("arya-store-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self, compression: Compression) -> JsonlStore {
        JsonlStore::new(&self.0).compression(compression)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn head() -> SessionHeader {
    SessionHeader::new("s", 1_700_000_000_000)
}

fn open(store: &JsonlStore) -> Opened {
    store.open(None, "s").unwrap()
}

fn dropped_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".dropped");
    name.into()
}

fn said(id: &str, text: &str) -> Draft {
    Draft::user(Message::user(id, text))
}

fn chunk(chunk: Value) -> Draft {
    let extra = Extra::default();
    Draft::new(EventData::AssistantChunk(Box::new(AssistantChunk {
        turn: 1,
        step: 1,
        chunk: RawJson::from(chunk),
        extra,
    })))
}

fn answer(id: &str, calls: &[&str]) -> Draft {
    let mut content = vec![Block::text("数据 👩\u{200d}💻")];
    content.extend(calls.iter().map(|call| Block::tool_call(*call, "read", r#"{"path":"a.rs"}"#)));
    Draft::assistant(1, 1, Message::assistant(id, common::model(), content), None)
}

fn started(call: &str) -> Draft {
    let extra = Extra::default();
    let (call_id, name, arguments) = (call.into(), "read".into(), "{}".into());
    Draft::new(EventData::ToolCall(Box::new(ToolCallStart { turn: 1, step: 1, call_id, name, arguments, extra })))
}

fn gave(call: &str) -> Draft {
    let message = Message::tool_result(format!("r-{call}"), call, "line one\nline two ".repeat(4), false);
    Draft::tool_result(1, 1, message)
}

/// A turn with everything that a turn can hold, in the batches in which it is written.
fn batches() -> Vec<Vec<Draft>> {
    let piece = |text: &str| chunk(json!({"type": "text-delta", "index": 0, "text": text}));
    vec![
        vec![Draft::turn_start(1), said("u1", "Read the file. \u{2028}")],
        vec![Draft::step_start(1, 1), piece("a"), piece("數"), piece(""), piece("\n\"")],
        vec![answer("a1", &["c1", "c2"])],
        vec![started("c1")],
        vec![gave("c2"), gave("c1"), Draft::step_end(1, 1)],
        vec![Draft::step_start(1, 2), answer("a2", &[]), Draft::step_end(1, 2), Draft::turn_end(1)],
    ]
}

fn append_each(session: &mut Session, batches: impl IntoIterator<Item = Vec<Draft>>) {
    for batch in batches {
        session.append_all(batch).unwrap();
    }
}

/// A file with those batches, then a pass of the pruner; its bytes, and after each batch its length with the number of events.
fn written(compression: Compression) -> (Vec<u8>, Vec<(usize, usize)>, Vec<Event>) {
    let folder = Folder::new();
    let store = folder.store(compression);
    let mut session = store.create(head()).unwrap();
    let path = store.path(&head());
    let mut acknowledged = Vec::new();
    let length = |path: &Path| usize::try_from(std::fs::metadata(path).unwrap().len()).unwrap();
    for batch in batches() {
        session.append_all(batch).unwrap();
        acknowledged.push((length(&path), session.events().len()));
    }
    let trim = TrimPolicy { threshold_chars: 20, head_chars: 5, tail_chars: 5, marker: "…".into() };
    let mut meter = Meter::new(Pricing::harness(), MeterRules::DEFAULT);
    PrunePlan::trim(&session, &mut meter, &trim).unwrap().apply(&mut session, 0).unwrap();
    acknowledged.push((length(&path), session.events().len()));
    session.flush().unwrap();
    (std::fs::read(&path).unwrap(), acknowledged, session.events().to_vec())
}

fn place(store: &JsonlStore, bytes: &[u8]) -> PathBuf {
    let path = store.path(&head());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn nothing_is_on_disk_before_the_first_event() {
    for compression in COMPRESSIONS {
        let folder = Folder::new();
        let store = folder.store(compression);
        let mut session = store.create(head()).unwrap();
        session.flush().unwrap();
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
        assert_eq!(store.open(None, "s").unwrap_err().code(), "not-found");
        session.append(said("u", "Now.")).unwrap();
        assert!(store.path(&head()).exists());
    }
}

#[test]
fn what_is_written_is_opened_as_it_was() {
    for (compression, packing) in
        COMPRESSIONS.into_iter().flat_map(|compression| [(compression, false), (compression, true)])
    {
        let folder = Folder::new();
        let store = folder.store(compression).packing(packing);
        let mut header = head();
        header.cwd = Some("/srv/项目".into());
        let mut session = store.create(header.clone()).unwrap();
        append_each(&mut session, batches());
        let events = session.events().to_vec();
        drop(session);
        for round in 0..3 {
            let opened = store.open(header.cwd.as_deref(), "s").unwrap();
            assert_eq!(opened.report, OpenReport::default());
            assert_eq!(opened.session.header(), &header);
            assert_eq!(&opened.session.events()[..events.len()], events);
            assert_eq!(opened.session.events().len(), events.len() + 1, "one end of the seed, in round {round}");
        }
    }
}

#[test]
fn a_file_cut_at_every_byte_loses_nothing_acknowledged_and_believes_nothing_half_written() {
    for compression in COMPRESSIONS {
        let (bytes, acknowledged, events) = written(compression);
        let folder = Folder::new();
        let store = folder.store(compression);
        for cut in 0..=bytes.len() {
            let path = place(&store, &bytes[..cut]);
            let aside = dropped_beside(&path);
            let _ = std::fs::remove_file(&aside);
            let safe = acknowledged.iter().rev().find(|(length, _)| *length <= cut).map_or(0, |(_, count)| *count);
            let opened = match store.open(None, "s") {
                Ok(opened) => opened,
                Err(error) => {
                    // Only while the header itself is not whole.
                    assert_eq!((error.code(), safe), ("file-header", 0), "at {cut}");
                    assert_eq!(std::fs::read(&path).unwrap(), &bytes[..cut], "an error changes nothing");
                    continue;
                }
            };
            let read = opened.session.events().len() - opened.report.repairs - 1;
            assert!(read >= safe, "{safe} events were acknowledged, {read} came back, at {cut}");
            assert_eq!(&opened.session.events()[..read], &events[..read], "at {cut}");
            let next = acknowledged.iter().find(|(length, _)| *length > cut).map_or(events.len(), |(_, count)| *count);
            assert!(read <= next);
            let last = read.checked_sub(1).map(|last| events[last].data.kind());
            assert_ne!(last, Some("compaction/prune"), "a metering event alone says what did not happen, at {cut}");
            // What was dropped is told of and set aside.
            assert_eq!(opened.report.dropped.is_some(), opened.report.dropped_bytes > 0, "at {cut}");
            match std::fs::read(&aside) {
                Ok(kept) if compression == Compression::None => {
                    assert_eq!(kept.len() as u64, opened.report.dropped_bytes);
                    assert!(bytes[..cut].ends_with(&kept));
                }
                Ok(kept) => assert_eq!(kept, &bytes[..cut]),
                Err(_) => assert_eq!(opened.report.dropped_bytes, 0),
            }
            assert!(opened.session.open_turn().is_none() && is_whole(&opened.session), "at {cut}");
            let again = {
                let session = opened.session;
                let mended = common::replayed(&session);
                drop(session);
                let again = open(&store);
                assert_eq!(again.report, OpenReport::default(), "at {cut}");
                assert_eq!(again.session, mended, "at {cut}");
                again
            };
            drop(again);
        }
    }
}

/// A disk that a test can fill, tear and break.
#[derive(Debug, Default)]
struct Disk {
    bytes: Vec<u8>,
    /// Bytes that fit; then an append writes what fits and fails.
    room: Option<usize>,
    refuses_truncate: bool,
    refuses_sync: bool,
    syncs: usize,
    appends: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    length: usize,
    appends: usize,
    syncs: usize,
}

#[derive(Debug, Clone, Default)]
struct Fake(Arc<Mutex<Disk>>);

impl Fake {
    fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    /// A session whose events go to this disk, on which its header stands.
    fn session(&self, packing: bool) -> Session {
        let line = format!("{}\n", head().to_json_line());
        self.disk().bytes = line.clone().into_bytes();
        let mut session = Session::with_header(head());
        let sink = JsonlSink::over(Box::new(self.clone()), line.len() as u64, packing, Compression::None);
        session.set_sink(Box::new(sink));
        session
    }

    fn counts(&self) -> Counts {
        let disk = self.disk();
        Counts { length: disk.bytes.len(), appends: disk.appends, syncs: disk.syncs }
    }

    fn scan(&self) -> Scan {
        scan_jsonl(std::str::from_utf8(&self.disk().bytes).unwrap()).unwrap()
    }
}

impl Medium for Fake {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut disk = self.disk();
        disk.appends += 1;
        let fits = disk.room.map_or(bytes.len(), |room| room.saturating_sub(disk.bytes.len()).min(bytes.len()));
        disk.bytes.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(Error::new(ErrorKind::StorageFull, "no space left")) } else { Ok(()) }
    }

    fn truncate(&mut self, length: u64) -> std::io::Result<()> {
        let mut disk = self.disk();
        if disk.refuses_truncate {
            return Err(Error::other("the disk is gone"));
        }
        disk.bytes.truncate(usize::try_from(length).unwrap());
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        let mut disk = self.disk();
        if disk.refuses_sync {
            return Err(Error::other("the disk refuses"));
        }
        disk.syncs += 1;
        Ok(())
    }
}

#[test]
fn a_batch_cut_off_at_every_byte_is_refused_and_taken_back_and_can_be_written_again() {
    for at in 0..batches().len() {
        let mut written = 0;
        for extra in 0.. {
            let fake = Fake::default();
            let mut session = fake.session(true);
            let mut batches = batches();
            let batch = batches.remove(at);
            append_each(&mut session, batches.drain(..at));
            let (before, on_disk) = (common::replayed(&session), fake.disk().bytes.clone());
            fake.disk().room = Some(on_disk.len() + extra);
            if session.append_all(batch.clone()).is_ok() {
                written = extra;
                break;
            }
            assert_eq!(session, before, "{extra} bytes of batch {at}");
            assert_eq!(fake.disk().bytes, on_disk, "{extra} bytes of batch {at}");
            fake.disk().room = None;
            session.append_all(batch).unwrap();
            assert_eq!(fake.scan().events, session.events());
        }
        assert!(written > 40, "batch {at} has {written} bytes");
    }
}

#[test]
fn a_batch_that_can_neither_be_written_nor_cut_off_locks_the_sink_and_the_file_still_holds_what_was_acknowledged() {
    for extra in 0..300 {
        let fake = Fake::default();
        let mut session = fake.session(false);
        session.append(said("u1", "First.")).unwrap();
        let length = fake.disk().bytes.len();
        fake.disk().room = Some(length + extra);
        fake.disk().refuses_truncate = true;
        let batch: Vec<Draft> = (0..4).map(|at| said(&format!("b{at}"), "A batch of four.")).collect();
        session.append_all(batch).unwrap_err();
        fake.disk().room = None;
        fake.disk().refuses_truncate = false;
        for _ in 0..2 {
            let error = session.append(said("u2", "Later.")).unwrap_err();
            assert!(error.is_retryable() && error.to_string().contains("opened again"), "{error}");
            assert!(session.flush().unwrap_err().to_string().contains("could not be cut off"));
        }
        assert_eq!(session.events().len(), 1);
        let scan = fake.scan();
        assert_eq!(scan.events[..1], session.events()[..]);
        assert!(scan.events.len() < 5);
        assert_eq!(scan.dropped.is_some(), scan.committed_bytes < scan.total_bytes);
    }
}

#[test]
fn on_a_full_disk_each_event_is_refused_until_there_is_room_again() {
    let fake = Fake::default();
    let mut session = fake.session(true);
    let length = fake.disk().bytes.len();
    fake.disk().room = Some(length + 1_000);
    let mut refused = 0;
    for number in 0..40 {
        let count = session.events().len();
        if let Err(error) = session.append(said(&format!("u{number}"), "The disk fills up.")) {
            assert_eq!((error.code(), session.events().len()), ("sink", count));
            assert!(error.to_string().contains("no space left"), "{error}");
            refused += 1;
        }
        if number == 30 {
            fake.disk().room = None;
        }
    }
    assert!(refused > 10 && session.events().len() > 10);
    assert_eq!(fake.scan().events, session.events());
}

#[test]
fn after_a_refused_sync_nothing_more_is_taken() {
    let fake = Fake::default();
    let mut session = fake.session(true);
    session.append(said("u1", "First.")).unwrap();
    session.flush().unwrap();
    session.append(said("u2", "Second.")).unwrap();
    fake.disk().refuses_sync = true;
    assert!(session.flush().unwrap_err().to_string().contains("the disk refuses"));
    fake.disk().refuses_sync = false;
    let before = fake.counts();
    assert!(session.append(said("u3", "Third.")).unwrap_err().to_string().contains("opened again"));
    assert!(session.flush().is_err());
    assert_eq!(fake.counts(), Counts { syncs: 1, ..before });
    assert_eq!(session.events().len(), 2);
}

#[test]
fn a_batch_is_one_write_and_a_flush_one_sync() {
    let fake = Fake::default();
    let mut session = fake.session(true);
    let all = batches();
    let count = all.len();
    append_each(&mut session, all);
    assert_eq!((fake.counts().appends, fake.counts().syncs), (count, 0));
    session.flush().unwrap();
    assert_eq!((fake.counts().appends, fake.counts().syncs), (count, 1));
    session.append_all(Vec::new()).unwrap();
    assert_eq!(fake.disk().appends, count, "nothing is no batch");
}

#[test]
fn times_that_run_backwards_come_back_as_they_were() {
    let times = [5, 3, i64::MAX, 0, i64::MIN, -1, 7, 7];
    for (compression, packing) in
        COMPRESSIONS.into_iter().flat_map(|compression| [(compression, false), (compression, true)])
    {
        let folder = Folder::new();
        let store = folder.store(compression).packing(packing);
        let mut session = store.create(head()).unwrap();
        session.append(said("u", "Go.")).unwrap();
        let piece = |time: i64| chunk(json!({"type": "text-delta", "index": 0, "text": "x"})).at(time);
        session.append_all(times.map(piece).to_vec()).unwrap();
        drop(session);
        let opened = open(&store);
        assert_eq!(opened.report, OpenReport::default());
        assert!(opened.session.events()[1..9].iter().map(|event| event.time).eq(times));
    }
}

#[test]
fn a_second_writer_is_told_that_the_session_is_busy_until_the_first_lets_go() {
    for compression in COMPRESSIONS {
        let folder = Folder::new();
        let store = folder.store(compression);
        let mut first = store.create(head()).unwrap();
        first.append(said("u", "Mine.")).unwrap();
        let bytes = std::fs::read(store.path(&head())).unwrap();
        let error = store.open(None, "s").unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), ("busy", true));
        assert!(error.to_string().contains("\"s\""));
        assert_eq!(std::fs::read(store.path(&head())).unwrap(), bytes);
        drop(first);
        let second = open(&store);
        assert_eq!(store.open(None, "s").unwrap_err().code(), "busy");
        drop(second);
        open(&store);
    }
}

#[test]
fn an_open_that_fails_leaves_no_lock_behind() {
    let folder = Folder::new();
    let store = folder.store(Compression::None);
    place(&store, b"no header\n");
    for _ in 0..2 {
        assert_eq!(store.open(None, "s").unwrap_err().code(), "file-header");
    }
}

#[test]
fn of_two_that_create_the_same_session_the_first_to_write_keeps_it() {
    for compression in COMPRESSIONS {
        let folder = Folder::new();
        let store = folder.store(compression);
        let mut first = store.create(head()).unwrap();
        let mut second = store.create(head()).unwrap();
        first.append(said("u", "Mine.")).unwrap();
        let error = store.create(head()).unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), ("exists", false));
        let refused = second.append(said("u", "No, mine.")).unwrap_err();
        assert!(refused.to_string().contains("being written"), "{refused}");
        let events = first.events().to_vec();
        drop(first);
        let refused = second.append(said("u", "Mine now?")).unwrap_err();
        assert!(refused.to_string().contains("already"), "{refused}");
        assert!(second.events().is_empty());
        drop(second);
        assert_eq!(open(&store).session.events()[..1], events);
    }
}

#[test]
fn a_session_that_is_not_there_is_not_found_and_not_made() {
    let folder = Folder::new();
    let error = folder.store(Compression::None).open(Some("/a"), "s").unwrap_err();
    let StoreError::NotFound { path } = &error else { panic!("{error}") };
    assert!(path.starts_with(&folder.0) && !error.is_retryable());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_still_empty_is_no_session_yet() {
    for compression in COMPRESSIONS {
        let folder = Folder::new();
        let store = folder.store(compression);
        // Its writer died, or its disk was full, before the first byte.
        place(&store, b"");
        let mut session = store.create(head()).unwrap();
        session.append(said("u", "Again.")).unwrap();
        drop(session);
        assert_eq!(open(&store).session.events().len(), 2);
    }
}

#[test]
fn a_header_that_could_not_be_read_back_is_refused_before_anything_is_written() {
    let folder = Folder::new();
    let store = folder.store(Compression::None);
    let newer = SessionHeader { version: 1, ..head() };
    for header in [SessionHeader::new("", 0), newer] {
        assert_eq!(store.create(header).unwrap_err().code(), "file-header");
    }
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

/// The lines of a file with one of them damaged.
fn damaged(lines: &[&[u8]], at: usize, damage: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        bytes.extend_from_slice(if index == at { damage } else { line });
    }
    bytes
}

#[test]
fn a_damaged_line_before_the_end_of_a_turn_is_an_error_that_names_it_and_changes_nothing() {
    let (bytes, ..) = written(Compression::None);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let end = lines.iter().position(|line| line.windows(8).any(|part| part == b"turn/end")).unwrap();
    let damages: [&[u8]; 7] = [
        b"{\"type\":\n",
        b"\n",
        b"not json\n",
        b"\xff\xfe\n",
        b"{\"type\":\"x\",\"seq\":3,\"time\":1,\"data\":\"\xc3\"}\n",
        b"{\"type\":\"x\",\"seq\":9999,\"time\":1,\"data\":null}\n",
        b"\0\0\0\0\n",
    ];
    let folder = Folder::new();
    let store = folder.store(Compression::None);
    for (at, damage) in (1..end).flat_map(|at| damages.map(|damage| (at, damage))) {
        let bytes = damaged(&lines, at, damage);
        let path = place(&store, &bytes);
        let error = store.open(None, "s").unwrap_err();
        let StoreError::Content { error: SessionError::LostLine { line, .. }, .. } = &error else { panic!("{error}") };
        assert_eq!(*line, at + 1, "{error}");
        assert!(error.to_string().contains(&format!("line {}", at + 1)));
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert!(!dropped_beside(&path).exists());
    }
}

#[test]
fn a_damaged_line_behind_the_last_turn_ends_what_is_believed_and_the_rest_is_set_aside() {
    let (bytes, ..) = written(Compression::None);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let end = lines.iter().position(|line| line.windows(8).any(|part| part == b"turn/end")).unwrap();
    let behind = lines.len() - end - 1;
    assert!(behind >= 2);
    for (at, damage) in (end + 1..lines.len()).flat_map(|at| [(at, b"{]\n".as_slice()), (at, b"\xff\n"), (at, b"\n")]) {
        let folder = Folder::new();
        let store = folder.store(Compression::None);
        let path = place(&store, &damaged(&lines, at, damage));
        let opened = open(&store);
        // A pair of metering and rewrite is believed whole or not at all.
        let believed = at - (at - end - 1) % 2;
        assert_eq!(opened.report.dropped.as_ref().unwrap().line, believed + 1, "{:?}", opened.report);
        let aside: Vec<u8> = damaged(&lines[believed..], at - believed, damage);
        assert_eq!(std::fs::read(dropped_beside(&path)).unwrap(), aside);
        assert_eq!(opened.report.dropped_bytes, aside.len() as u64);
        // Another damage later is added to what was set aside.
        drop(opened);
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"torn").unwrap();
        assert_eq!(open(&store).report.dropped_bytes, 4);
        assert_eq!(std::fs::read(dropped_beside(&path)).unwrap(), [&aside[..], b"torn"].concat());
    }
}

#[test]
fn lines_are_counted_as_they_stand_in_the_file_packed_rows_too() {
    let folder = Folder::new();
    let store = folder.store(Compression::None);
    let piece = |text: &str| chunk(json!({"type": "text-delta", "index": 0, "text": text}));
    let prune = CompactionPrune {
        shadowed_range: NodeRange { start: 0, end: 0 },
        shadowed_seqs: vec![0],
        shadowed_token_count: 1,
        extra: Extra::default(),
    };
    for torn in [&b""[..], b"{\"type\":\"use", b"\xff\xff\n"] {
        let mut session = store.create(head()).unwrap();
        session.append(said("u", "Go.")).unwrap();
        session.append_all((0..50).map(|_| piece("x")).collect()).unwrap();
        session.append(Draft::new(EventData::CompactionPrune(Box::new(prune.clone())))).unwrap();
        drop(session);
        let path = store.path(&head());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(torn);
        std::fs::write(&path, bytes).unwrap();
        let opened = open(&store);
        // The header, the request, one row, and then the metering event whose replacement is missing.
        assert_eq!(opened.report.dropped.as_ref().unwrap().line, 4, "{:?}", opened.report);
        assert_eq!(opened.session.events().len(), 52);
        drop(opened);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn bytes_that_are_no_text_in_the_header_are_refused() {
    let folder = Folder::new();
    let store = folder.store(Compression::None);
    let mut bytes = written(Compression::None).0;
    bytes[20] = 0xff;
    let path = place(&store, &bytes);
    assert_eq!(store.open(None, "s").unwrap_err().code(), "file-header");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn an_event_whose_type_is_that_of_a_packed_row_is_read_back_like_any_other() {
    for kind in ["text-chunks", "reasoning-chunks", "tool-call-chunks", "my-chunks"] {
        let fake = Fake::default();
        let mut session = fake.session(true);
        let other = |data: Value| Draft::new(EventData::Other { kind: kind.into(), data: data.into() });
        session.append_all(vec![other(json!({"texts": ["a"]})), other(json!(null))]).unwrap();
        session.append(said("u", "And on.")).unwrap();
        assert_eq!(fake.scan().events, session.events(), "{kind}");
    }
}

/// Random pieces of answers, runs of them mostly, with whatever breaks a run now and then.
fn pieces(rng: &mut Rng, count: usize) -> Vec<Draft> {
    let mut time = 1_000i64;
    let mut made = Vec::new();
    let mut kind = 0;
    let mut index = 0;
    for _ in 0..count {
        if rng.chance(25) {
            kind = rng.below(9);
            index = rng.below(3);
        }
        time = time.saturating_add(rng.pick(&[0, 1, 40, -3, i64::MIN / 2, i64::MAX / 2]));
        let text = generate::text(rng);
        let value = match kind {
            0 | 1 => json!({"type": "text-delta", "index": index, "text": text}),
            2 => json!({"type": "reasoning-delta", "index": index, "text": text}),
            3 => json!({"type": "tool-call-delta", "index": index, "id": "c", "name": "read", "argumentsDelta": text}),
            4 => {
                json!({"type": "tool-call-delta", "index": index, "id": rng.pick(&["", "c", "d"]), "argumentsDelta": text})
            }
            5 => json!({"text": text, "index": index, "type": "text-delta"}),
            6 => rng.pick(&[
                json!({"type": "text-delta", "index": index, "text": 7}),
                json!({"type": "text-delta", "index": -1, "text": "x"}),
                json!({"type": "text-delta", "index": 1.5, "text": "x"}),
                json!({"type": "text-delta", "index": u64::MAX, "text": "x"}),
                json!({"type": "text-delta", "index": index, "text": "x", "signature": null}),
                json!({"type": "tool-call-delta", "index": index, "argumentsDelta": "x"}),
                json!({"type": "tool-call-delta", "index": index, "id": "c", "name": null, "argumentsDelta": "x"}),
                json!({"type": "tool-call-delta", "index": index, "id": "c", "argumentsDelta": "x", "text": "y"}),
                json!({"type": "block-start", "index": index, "blockType": "text"}),
                json!(null),
                json!(["text-delta"]),
            ]),
            7 => json!({"type": "finish", "reason": {"kind": "stop"}}),
            _ => {
                made.push(said(&format!("u{}", made.len()), "Between.").at(time));
                continue;
            }
        };
        let (turn, step) = rng.pick(&[(1, 1), (1, 1), (1, 1), (1, 1), (1, 2), (u64::MAX, 0)]);
        let mut extra = Extra::default();
        if rng.chance(3) {
            extra.insert("unknown", json!(1));
        }
        let data = AssistantChunk { turn, step, chunk: RawJson::from(value), extra };
        let mut draft = Draft::new(EventData::AssistantChunk(Box::new(data))).at(time);
        draft.ignorable = rng.chance(3);
        made.push(draft);
    }
    made
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pieces_that_were_packed_are_unpacked_as_they_were(seed: u64, count in 0..60usize) {
        let mut rng = Rng::new(seed);
        let drafts = pieces(&mut rng, count);
        let (packed, plain) = (Fake::default(), Fake::default());
        let (mut session, mut unpacked) = (packed.session(true), plain.session(false));
        let mut rest = &drafts[..];
        while !rest.is_empty() {
            let (batch, left) = rest.split_at((1 + rng.index(20)).min(rest.len()));
            session.append_all(batch.to_vec()).unwrap();
            unpacked.append_all(batch.to_vec()).unwrap();
            rest = left;
        }
        let scan = packed.scan();
        prop_assert_eq!(&scan.events, session.events());
        prop_assert_eq!(scan.dropped, None);
        prop_assert_eq!(&plain.scan().events, session.events());
        prop_assert!(packed.disk().bytes.len() <= plain.disk().bytes.len());
        let text = String::from_utf8(packed.disk().bytes.clone()).unwrap();
        let loaded = Session::read_jsonl(text.as_bytes()).unwrap();
        prop_assert_eq!(loaded.session.events(), session.events());
    }

    #[test]
    fn any_log_written_in_any_batches_is_opened_as_it_was(seed: u64, acts in 0..20usize, packing: bool) {
        let whole = generate::session(seed, acts);
        let mut rng = Rng::new(seed ^ 1);
        for compression in COMPRESSIONS {
            let folder = Folder::new();
            let store = folder.store(compression).packing(packing);
            let header = SessionHeader { id: "s".into(), cwd: None, ..whole.header().clone() };
            let mut session = store.create(header.clone()).unwrap();
            let mut rest = drafts(&whole);
            while !rest.is_empty() {
                let left = rest.split_off((1 + rng.index(5)).min(rest.len()));
                session.append_all(std::mem::replace(&mut rest, left)).unwrap();
            }
            drop(session);
            if whole.events().is_empty() {
                prop_assert_eq!(store.open(None, "s").unwrap_err().code(), "not-found");
                continue;
            }
            let opened = open(&store);
            prop_assert_eq!((&opened.report.dropped, opened.report.dropped_bytes), (&None, 0));
            prop_assert_eq!(&opened.session.events()[..whole.events().len()], whole.events());
            prop_assert_eq!(opened.session.header(), &header);
        }
    }

    #[test]
    fn after_a_crash_at_any_event_the_log_is_closed_once_and_the_model_can_go_on(seed: u64, turns in 1..4u64) {
        let events = orderly(seed, turns);
        let folder = Folder::new();
        let store = folder.store(Compression::None);
        let mut rng = Rng::new(seed);
        let few: Vec<usize> = (0..3).map(|_| 1 + rng.index(events.len())).collect();
        for cut in few {
            let crashed = Session::from_events(head(), events[..cut].to_vec()).unwrap();
            let mut bytes = Vec::new();
            crashed.write_jsonl(&mut bytes).unwrap();
            place(&store, &bytes);
            let opened = open(&store);
            let mended = opened.session;
            prop_assert_eq!(&mended.events()[..cut], &events[..cut]);
            prop_assert_eq!(mended.open_turn(), None);
            prop_assert!(is_whole(&mended), "a call has no result, {} events of seed {}", cut, seed);
            prop_assert!(mended.is_cut(mended.nodes().len()));
            prop_assert_eq!(mended.is_balanced(mended.nodes().len()).unwrap(), true);
            prop_assert_eq!(opened.report.repairs > 0, crashed.open_turn().is_some());
            prop_assert!(Meter::new(Pricing::harness(), MeterRules::HARNESS).sync(&mended).is_ok(), "steps overlap");
            let known = common::replayed(&mended);
            drop(mended);
            let again = open(&store);
            prop_assert_eq!(&again.report, &OpenReport::default());
            prop_assert_eq!(&again.session, &known);
            // And it goes on.
            let mut session = again.session;
            session.append_all(vec![Draft::turn_start(99), said("next", "Go on.")]).unwrap();
        }
    }

    #[test]
    fn whatever_a_log_holds_opening_it_twice_repairs_it_once(seed: u64, acts in 1..20usize) {
        let whole = generate::session(seed, acts);
        let events = whole.events();
        let folder = Folder::new();
        let store = folder.store(Compression::None);
        let header = SessionHeader { id: "s".into(), cwd: None, ..whole.header().clone() };
        let mut rng = Rng::new(seed);
        for _ in 0..6 {
            let cut = rng.index(events.len() + 1);
            let crashed = Session::from_events(header.clone(), events[..cut].to_vec()).unwrap();
            let mut bytes = Vec::new();
            crashed.write_jsonl(&mut bytes).unwrap();
            place(&store, &bytes);
            let opened = open(&store);
            // Only a metering event that lost its replacement is not believed.
            let half = events[..cut].last().is_some_and(|event| event.data.kind() == "compaction/prune");
            prop_assert_eq!(opened.report.dropped.is_some(), half);
            let kept = cut - usize::from(half);
            prop_assert_eq!(&opened.session.events()[..kept], &events[..kept]);
            prop_assert_eq!(opened.session.open_turn(), None);
            prop_assert!(opened.session.open_compaction().is_none());
            let known = common::replayed(&opened.session);
            drop(opened);
            let again = open(&store);
            prop_assert_eq!(&again.report, &OpenReport::default());
            prop_assert_eq!(&again.session, &known);
        }
    }
}

/// Turns as a harness logs them: steps, pieces, calls that are recorded as started, results in any order.
fn orderly(seed: u64, turns: u64) -> Vec<Event> {
    let mut rng = Rng::new(seed);
    let mut session = Session::with_header(head());
    let reuses_ids = rng.chance(30);
    for turn in 1..=turns {
        session.append(Draft::turn_start(turn)).unwrap();
        session.append(said(&format!("u{turn}"), "Go on.")).unwrap();
        for step in 1..=1 + rng.below(3) {
            session.append(Draft::step_start(turn, step)).unwrap();
            let calls: Vec<String> = (0..rng.below(4))
                .map(|call| if reuses_ids { "call".into() } else { format!("c{turn}-{step}-{call}") })
                .collect();
            for _ in 0..rng.below(4) {
                session.append(chunk(json!({"type": "text-delta", "index": 0, "text": "x"}))).unwrap();
            }
            let mut content = vec![Block::text("So:")];
            content.extend(calls.iter().map(|call| Block::tool_call(call, "read", "{}")));
            let message = Message::assistant(format!("a{turn}-{step}"), common::model(), content);
            session.append(Draft::assistant(turn, step, message, None)).unwrap();
            let mut left = calls.clone();
            while !left.is_empty() {
                let call = left.remove(rng.index(left.len()));
                if rng.chance(70) {
                    let mut draft = started(&call);
                    if let EventData::ToolCall(data) = &mut draft.data {
                        (data.turn, data.step) = (turn, step);
                    }
                    session.append(draft).unwrap();
                }
                let message = Message::tool_result(format!("r{}", session.revision()), &call, "Done.", false);
                session.append(Draft::tool_result(turn, step, message)).unwrap();
            }
            session.append(Draft::step_end(turn, step)).unwrap();
        }
        session.append(Draft::turn_end(turn)).unwrap();
    }
    session.events().to_vec()
}

#[test]
fn calls_that_a_crash_interrupted_are_answered_by_what_is_known_of_them() {
    let folder = Folder::new();
    let texts = RepairTexts { not_started: "It did not run.".into(), outcome_unknown: "Nobody knows.".into() };
    let store = folder.store(Compression::None).repair_texts(texts);
    let mut session = store.create(head()).unwrap();
    let batch = vec![
        Draft::turn_start(1).at(50),
        said("u", "Go."),
        Draft::step_start(1, 1),
        answer("a", &["done", "started", "waiting"]),
        started("done"),
        started("started"),
        gave("done").at(70),
    ];
    session.append_all(batch).unwrap();
    drop(session);
    let opened = open(&store);
    assert_eq!(opened.report.repairs, 4);
    let repairs: Vec<&str> = opened.session.events()[7..].iter().map(|event| event.data.kind()).collect();
    assert_eq!(repairs, ["tool/result", "tool/result", "step/end", "turn/end", "session/end-seed"]);
    let answer = |at: usize| {
        let event = &opened.session.events()[at];
        let result = event.data.message().unwrap().result().unwrap();
        assert_eq!((result.is_error, event.time), (Some(true), 70));
        (result.tool_call_id.clone(), result.content[0].as_text().unwrap().to_owned())
    };
    assert_eq!(answer(7), ("started".into(), "Nobody knows.".into()));
    assert_eq!(answer(8), ("waiting".into(), "It did not run.".into()));
    assert_eq!(opened.session.events()[7].sources.as_deref(), Some(&[5][..]));
    assert_eq!(opened.session.events()[8].sources, None);
    assert!(is_whole(&opened.session));
}

#[test]
fn calls_in_a_turn_without_marks_of_its_steps_are_answered_too() {
    let folder = Folder::new();
    let store = folder.store(Compression::None);
    let mut session = store.create(head()).unwrap();
    session
        .append_all(vec![Draft::turn_start(1), said("u", "Go."), answer("a", &["one", "two"]), gave("two")])
        .unwrap();
    drop(session);
    let opened = open(&store);
    assert!(is_whole(&opened.session));
    assert_eq!(opened.report.repairs, 2);
    assert_eq!(opened.session.open_turn(), None);
}

#[test]
fn a_compaction_that_a_crash_left_open_locks_nobody_afterwards() {
    let folder = Folder::new();
    let store = folder.store(Compression::None);
    let mut session = store.create(head()).unwrap();
    append_each(&mut session, [drafts(&common::conversation(20, 400))]);
    let mut engine = common::standard();
    let begun = engine.begin(&mut session, Trigger::manual(), &common::window(8_000)).unwrap();
    assert!(matches!(begun, Step::Summarize(_)));
    assert!(session.open_compaction().is_some());
    let whole = common::replayed(&session);
    drop((session, begun));
    let mut session = open(&store).session;
    assert!(session.open_compaction().is_none());
    assert_eq!(session.nodes(), whole.nodes());
    let mut summarizer = common::summarizer::Scripted::default();
    let outcome = compact(&mut engine, &mut session, Trigger::manual(), &common::window(8_000), &mut summarizer);
    assert_eq!(outcome.unwrap().code(), "compacted");
    let known = common::replayed(&session);
    drop(session);
    let reopened = open(&store).session;
    assert_eq!(&reopened.events()[..known.events().len()], known.events());
    assert_eq!(reopened.nodes(), known.nodes());
}

#[cfg(feature = "zstd")]
#[test]
fn a_torn_last_frame_is_dropped_and_everything_is_set_aside_as_it_was() {
    let (bytes, acknowledged, events) = written(Compression::Zstd);
    let folder = Folder::new();
    let store = folder.store(Compression::Zstd);
    let (last_frame, count) = acknowledged[acknowledged.len() - 2];
    let path = place(&store, &bytes[..last_frame + 10]);
    let opened = open(&store);
    assert_eq!(&opened.session.events()[..count], &events[..count]);
    assert_eq!((opened.report.dropped_bytes, opened.report.dropped.is_some()), (10, true));
    assert_eq!(std::fs::read(dropped_beside(&path)).unwrap(), &bytes[..last_frame + 10]);
}

#[cfg(feature = "zstd")]
#[test]
fn a_damaged_frame_before_the_end_of_a_turn_is_never_dropped_silently() {
    let folder = Folder::new();
    let store = folder.store(Compression::Zstd);
    let mut session = store.create(head()).unwrap();
    let path = store.path(&head());
    let mut ends = Vec::new();
    for turn in 1..=4 {
        let text = format!("{turn}: {}", "what was said of the gauges, ".repeat(5));
        session
            .append_all(vec![Draft::turn_start(turn), said(&format!("u{turn}"), &text), Draft::turn_end(turn)])
            .unwrap();
        ends.push(usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap());
    }
    drop(session);
    let bytes = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for (at, flip) in (ends[0]..ends[2]).flat_map(|at| [1, 0x55, 0x80].map(|flip| (at, flip))) {
        let mut damaged = bytes.clone();
        damaged[at] ^= flip;
        std::fs::write(&path, &damaged).unwrap();
        match store.open(None, "s") {
            // Frames have no checksum: what decompresses to another text of the same shape is not told apart.
            Ok(opened) => assert!(opened.session.events().len() > 12, "{:?} at {at}", opened.report),
            Err(error) => {
                assert_eq!(error.code(), "lost-line", "{error} at {at}");
                assert_eq!(std::fs::read(&path).unwrap(), damaged);
                refused += 1;
            }
        }
    }
    assert!(refused > 200, "{refused}");
}

#[cfg(feature = "zstd")]
#[test]
fn a_bad_line_inside_a_frame_keeps_what_stands_before_it_in_the_frame() {
    let folder = Folder::new();
    let store = folder.store(Compression::Zstd);
    let mut session = store.create(head()).unwrap();
    session.append(said("u1", "First.")).unwrap();
    drop(session);
    let path = store.path(&head());
    let mut bytes = std::fs::read(&path).unwrap();
    let second = Event { seq: 1, ..Session::new("x").with(said("u2", "Second.")) };
    let frame = format!("{}\nnot json\n{}\n", second.to_json(), second.to_json());
    bytes.extend(zstd::stream::encode_all(frame.as_bytes(), 0).unwrap());
    std::fs::write(&path, &bytes).unwrap();
    let opened = open(&store);
    assert_eq!(opened.report.dropped.as_ref().unwrap().line, 4);
    assert_eq!(opened.session.events()[1], second);
    let known = common::replayed(&opened.session);
    drop(opened);
    let again = open(&store);
    assert_eq!(again.report, OpenReport::default());
    assert_eq!(again.session, known);
}

#[cfg(feature = "zstd")]
trait With {
    fn with(self, draft: Draft) -> Event;
}

#[cfg(feature = "zstd")]
impl With for Session {
    fn with(mut self, draft: Draft) -> Event {
        self.append(draft).unwrap();
        self.events()[0].clone()
    }
}

#[cfg(not(feature = "zstd"))]
#[test]
fn without_its_feature_compression_is_refused_and_nothing_is_written() {
    let folder = Folder::new();
    let store = folder.store(Compression::Zstd);
    let mut session = store.create(head()).unwrap();
    let error = session.append(said("u", "Go.")).unwrap_err();
    assert!(error.to_string().contains("feature zstd"), "{error}");
    assert!(session.events().is_empty());
    assert!(!store.path(&head()).exists());
    place(&store, b"anything");
    assert!(store.open(None, "s").unwrap_err().to_string().contains("feature zstd"));
}

/// Tells a process of this test that it is the child, and where it writes.
const CHILD_FOLDER: &str = "ARYA_STORE_CHILD_FOLDER";

/// This test again, as a process of its own.
fn child(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD_FOLDER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // The name of the test stands on the line already.
    writeln!(out, "\n{line}").unwrap();
    out.flush().unwrap();
}

#[test]
fn another_process_is_busy_until_its_writer_is_killed() {
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        let mut session = JsonlStore::new(folder).create(head()).unwrap();
        session.append(said("u", "Mine.")).unwrap();
        tell("child has written");
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let folder = Folder::new();
    let store = folder.store(Compression::None);
    let mut child = child("another_process_is_busy_until_its_writer_is_killed", &folder.0);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "child has written"));
    assert_eq!(store.open(None, "s").unwrap_err().code(), "busy");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(open(&store).session.events().len(), 2);
}

/// What the child writes at a seq, so that its reader knows what must stand there.
fn text_at(seq: Seq) -> String {
    let length = if seq.is_multiple_of(7) { 2_000_000 } else { seq * 37 % 3_000 };
    format!("{seq} {}", "x".repeat(usize::try_from(length).unwrap()))
}

fn write_until_killed(folder: &Path) {
    let store = JsonlStore::new(folder);
    let mut session = match store.open(None, "s") {
        Ok(opened) => opened.session,
        Err(_) => store.create(head()).unwrap(),
    };
    for turn in 1.. {
        let seq = session.revision();
        let message = |seq: Seq| said(&format!("m{seq}"), &text_at(seq));
        session.append_all(vec![Draft::turn_start(turn), message(seq + 1), message(seq + 2)]).unwrap();
        session.append(answer(&format!("a{seq}"), &["c"])).unwrap();
        session.flush().unwrap();
        tell(&format!("acknowledged {}", session.revision()));
        session.append_all(vec![gave("c"), Draft::turn_end(turn), message(seq + 6)]).unwrap();
        session.flush().unwrap();
        tell(&format!("acknowledged {}", session.revision()));
    }
}

/// `ARYA_STORE_KILLS` sets how often; 20 times without it.
#[test]
fn a_writer_that_is_killed_at_any_moment_loses_nothing_that_it_acknowledged() {
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        return write_until_killed(Path::new(&folder));
    }
    let kills: u64 = std::env::var("ARYA_STORE_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let mut folder = Folder::on_disk();
    let (mut wrote, mut torn, mut repaired, mut most) = (0, 0, 0, 0);
    for kill in 0..kills {
        if kill % 10 == 0 {
            folder = Folder::on_disk();
        }
        let store = folder.store(Compression::None);
        let mut child = child("a_writer_that_is_killed_at_any_moment_loses_nothing_that_it_acknowledged", &folder.0);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || {
            let count = |line: String| line.strip_prefix("acknowledged ").and_then(|count| count.parse::<u64>().ok());
            lines.map_while(Result::ok).filter_map(count).max()
        });
        // Somewhere between its start and its hundredth batch.
        std::thread::sleep(Duration::from_micros(Rng::new(kill).scale(4_000, 100_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reader.join().unwrap().unwrap_or(0);
        let opened = match store.open(None, "s") {
            Ok(opened) => opened,
            Err(error) => {
                assert_eq!(acknowledged, 0, "{error}");
                assert!(matches!(error.code(), "not-found" | "file-header"), "{error}");
                // What died before its header was whole stands in nobody's way.
                folder = Folder::on_disk();
                continue;
            }
        };
        let session = opened.session;
        assert!(session.revision() >= acknowledged, "{acknowledged} were acknowledged, {session:?}");
        for event in session.events() {
            if let EventData::UserMessage(message) = &event.data {
                assert_eq!(message.text(), text_at(event.seq));
            }
        }
        assert!(session.open_turn().is_none() && is_whole(&session));
        wrote += u64::from(acknowledged > 0);
        torn += u64::from(opened.report.dropped.is_some());
        repaired += u64::from(opened.report.repairs > 0);
        most = most.max(acknowledged);
        let known = common::replayed(&session);
        drop(session);
        assert_eq!(open(&store).session, known);
    }
    println!(
        "{kills} kills, {wrote} of writers that had acknowledged; {torn} torn files, {repaired} open turns, {most} events at most"
    );
    assert!(wrote > 0, "no child ever came to write");
}
