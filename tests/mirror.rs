//! A host's own list, followed: what is appended, rewound and edited, and what a compaction changes in it. And conversations that
//! branch. `PROPTEST_CASES` sets how many random hosts are tried; 300 without it.

#![allow(clippy::indexing_slicing, clippy::panic, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, reason = "so may what it calls")]

mod common;

use arya_presets::*;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::json;

use common::sink::Tape;
use common::summarizer::{Answer, Scripted};
use common::{Rng, conversation, engine, replayed, standard, window, words};

fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 300;
    }
    config
}

/// What stands in a host's list: its own type, which knows nothing of sources, checkpoints and blocks.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    User(String),
    Notice(String),
    Model(String, Vec<String>),
    Result(String, String),
    Summary(String),
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: Option<String>,
    said: Said,
}

/// A host whose rows have ids, or positions only, or ids here and there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Ids,
    Positions,
    Mixed,
}

const NAMES: [Names; 3] = [Names::Ids, Names::Positions, Names::Mixed];

#[derive(Debug)]
struct Host {
    names: Names,
    made: usize,
    list: Vec<Row>,
    mirror: Mirror,
    session: Session,
}

fn key(at: usize, row: &Row) -> Key {
    row.id.as_ref().map_or(Key::At(at), |id| Key::Id(id.clone()))
}

fn item((at, row): (usize, &Row)) -> Item {
    let id = format!("m{at}");
    let message = match &row.said {
        Said::User(text) | Said::Summary(text) => Message::user(id, text),
        Said::Notice(text) => Message::injected(id, "notice", text),
        Said::Model(text, calls) => {
            let mut content = vec![Block::text(text)];
            content.extend(calls.iter().map(|call| Block::tool_call(call, "read", "{}")));
            Message::assistant(id, common::model(), content)
        }
        Said::Result(call, text) => Message::tool_result(id, call, text, false),
    };
    Item::new(key(at, row), message)
}

/// What a message shows, whatever blocks it is made of.
fn shown(message: &Message) -> (Role, String) {
    let mut text = message.text();
    for block in &message.content {
        match block {
            Block::ToolCall(call) => text.push_str(&format!(" [call {}]", call.id)),
            Block::ToolResult(result) => {
                let texts: Vec<&str> = result.content.iter().filter_map(Block::as_text).collect();
                text.push_str(&format!("[result {}] {}", result.tool_call_id, texts.join("\n")));
            }
            _ => {}
        }
    }
    (message.role, text)
}

impl Host {
    fn new(names: Names) -> Self {
        Self { names, made: 0, list: Vec::new(), mirror: Mirror::new(), session: Session::new("chat") }
    }

    fn with_turns(names: Names, turns: usize, tokens: usize) -> Self {
        let mut host = Self::new(names);
        (0..turns).for_each(|_| host.turn(tokens));
        host.sync();
        host
    }

    fn row(&mut self, said: Said) -> Row {
        self.made += 1;
        let named = match self.names {
            Names::Ids => true,
            Names::Positions => false,
            Names::Mixed => self.made.is_multiple_of(3),
        };
        Row { id: named.then(|| format!("row-{}", self.made)), said }
    }

    fn push(&mut self, said: Said) {
        let row = self.row(said);
        self.list.push(row);
    }

    fn turn(&mut self, tokens: usize) {
        let call = format!("call-{}", self.made);
        self.push(Said::User(format!("Request {}: {}", self.made, words(tokens / 4))));
        self.push(Said::Model(words(tokens / 4), vec![call.clone()]));
        self.push(Said::Result(call, words(tokens / 4)));
        self.push(Said::Model(format!("Answer {}: {}", self.made, words(tokens / 4)), Vec::new()));
    }

    fn try_sync(&mut self) -> Result<Synced, MirrorError> {
        self.mirror.sync(&mut self.session, self.list.iter().enumerate().map(item))
    }

    fn sync(&mut self) -> Followed {
        let synced = self.try_sync().unwrap();
        assert_eq!(synced.dropped, [], "nothing of this list is dropped");
        synced.followed
    }

    fn compact(&mut self) -> Result<Outcome, CompactionError> {
        compact(&mut standard(), &mut self.session, Trigger::manual(), &window(8_000), &mut Scripted::default())
    }

    fn apply(&mut self) -> Result<Applied, EditError> {
        let mut made = self.made;
        let names = self.names;
        let edits = self.mirror.edits(&self.session);
        let applied = edits.apply(
            &mut self.list,
            key,
            |checkpoint| {
                made += 1;
                let id = (names != Names::Positions).then(|| format!("summary-{made}"));
                Row { id, said: Said::Summary(checkpoint.text()) }
            },
            |row, call_id, content| {
                let Said::Result(call, text) = &mut row.said else { panic!("{row:?} is no result") };
                assert_eq!(call, call_id);
                *text = content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n");
            },
        );
        self.made = made;
        applied
    }

    fn settle(&mut self) {
        let applied = self.apply().unwrap();
        self.mirror.confirm(applied);
    }

    fn is_in_step(&self) -> Result<(), String> {
        let list: Vec<_> = self.list.iter().enumerate().map(|row| shown(&item(row).message)).collect();
        let session: Vec<_> = self.session.messages().map(|message| shown(message)).collect();
        if list == session { Ok(()) } else { Err(format!("{list:#?}\n{session:#?}")) }
    }

    fn checkpoint(&self) -> &Message {
        let mut checkpoints = self.session.messages().filter(|message| message.source.is_checkpoint());
        let checkpoint = checkpoints.next().unwrap_or_else(|| panic!("no checkpoint in {:?}", self.list));
        assert!(checkpoints.next().is_none());
        checkpoint
    }
}

#[test]
fn a_list_is_taken_once_and_what_is_new_is_appended() {
    for names in NAMES {
        let mut host = Host::new(names);
        assert_eq!(host.sync(), Followed::Unchanged, "an empty list");
        host.turn(40);
        assert_eq!(host.sync(), Followed::Appended { count: 4 });
        assert_eq!(host.sync(), Followed::Unchanged);
        let before = replayed(&host.session);
        host.turn(40);
        assert_eq!(host.sync(), Followed::Appended { count: 4 });
        assert_eq!(&host.session.events()[..before.events().len()], before.events());
        assert_eq!(host.is_in_step(), Ok(()));
        assert!(host.mirror.edits(&host.session).is_empty());
    }
}

#[test]
fn a_rewind_makes_the_session_anew_with_its_header_and_its_route() {
    for names in NAMES {
        let mut header = SessionHeader::new("chat", 5);
        header.agent_preset = Some("arya-claude".into());
        let mut host = Host::new(names);
        host.session = Session::with_header(header.clone());
        host.session.append(common::header()).unwrap();
        (0..3).for_each(|_| host.turn(40));
        host.sync();
        host.list.truncate(5);
        assert_eq!(host.sync(), Followed::Rewound { kept: 5 });
        assert_eq!(host.is_in_step(), Ok(()));
        assert_eq!(host.session.header(), &header);
        assert_eq!(host.session.request_header().unwrap().config.provider, "p");
        host.list.clear();
        assert_eq!(host.sync(), Followed::Rewound { kept: 0 });
        assert_eq!(host.session.messages().count(), 0);
        host.turn(40);
        assert_eq!(host.sync(), Followed::Appended { count: 4 });
    }
}

#[test]
fn an_edit_is_found_where_it_is_and_the_session_made_anew() {
    for names in NAMES {
        for at in [0, 3, 7] {
            let mut host = Host::with_turns(names, 2, 40);
            host.list[at].said = match &host.list[at].said {
                Said::User(_) => Said::User("Something else.".into()),
                _ => Said::Model("Something else.".into(), Vec::new()),
            };
            assert_eq!(host.sync(), Followed::Edited { at });
            assert_eq!(host.is_in_step(), Ok(()));
            assert_eq!(host.sync(), Followed::Unchanged);
        }
    }
}

#[test]
fn an_edit_and_more_rows_at_once_are_an_edit() {
    let mut host = Host::with_turns(Names::Ids, 2, 40);
    host.list[4].said = Said::User("Something else.".into());
    host.turn(40);
    assert_eq!(host.sync(), Followed::Edited { at: 4 });
    assert_eq!(host.is_in_step(), Ok(()));
}

#[test]
fn a_row_that_is_put_between_or_taken_out_is_an_edit_there() {
    for names in NAMES {
        let mut host = Host::with_turns(names, 2, 40);
        let row = host.row(Said::Notice("The plan changed.".into()));
        host.list.insert(4, row);
        assert_eq!(host.sync(), Followed::Edited { at: 4 });
        assert_eq!(host.is_in_step(), Ok(()));
        host.list.remove(4);
        assert_eq!(host.sync(), Followed::Edited { at: 4 });
        assert_eq!(host.is_in_step(), Ok(()));
    }
}

#[test]
fn the_same_id_with_another_content_is_an_edit_and_so_is_the_same_content_with_another_id() {
    let mut host = Host::with_turns(Names::Ids, 1, 40);
    host.list[3].said = Said::Model("Else.".into(), Vec::new());
    assert_eq!(host.sync(), Followed::Edited { at: 3 });
    host.list[3].id = Some("other".into());
    assert_eq!(host.sync(), Followed::Edited { at: 3 });
    host.list[3].id = None;
    assert_eq!(host.sync(), Followed::Edited { at: 3 });
}

#[test]
fn every_part_of_a_message_that_the_model_sees_tells_an_edit() {
    let reasoned = |text: &str, thought: &str| {
        Message::assistant("m", common::model(), vec![Block::text(text), Block::reasoning(thought)])
    };
    let result = |call: &str, text: &str, is_error: bool| Message::tool_result("m", call, text, is_error);
    let image = |data: &str| -> Message {
        let block = serde_json::from_value(json!({"type": "image", "data": data})).unwrap();
        Message::new("m", Role::User, Source::user(), vec![block])
    };
    let call = |id: &str, name: &str, arguments: &str| {
        Message::assistant("m", common::model(), vec![Block::tool_call(id, name, arguments)])
    };
    let pairs = [
        (reasoned("ab", "c"), reasoned("abc", "")),
        (reasoned("ab", "c"), reasoned("ab", "d")),
        (result("c", "no such file", false), result("c", "no such file", true)),
        (result("c", "a", false), result("c", "b", false)),
        (image("QUJD"), image("QUJE")),
        (call("a", "bc", "d"), call("ab", "c", "d")),
        (call("a", "b", "{}"), call("a", "b", "{ }")),
        (Message::user("m", ""), Message::new("m", Role::User, Source::user(), Vec::new())),
        (Message::user("m", "text:"), Message::user("m", "")),
    ];
    for (before, after) in pairs {
        let items = |last: &Message| {
            let first = Message::assistant("c", common::model(), vec![Block::tool_call("c", "read", "{}")]);
            [Item::new("first", first), Item::new("last", last.clone())]
        };
        let (mut mirror, mut session) = (Mirror::new(), Session::new("chat"));
        mirror.sync(&mut session, items(&before)).unwrap();
        assert_eq!(mirror.sync(&mut session, items(&before)).unwrap().followed, Followed::Unchanged);
        let followed = mirror.sync(&mut session, items(&after)).unwrap().followed;
        assert_eq!(followed, Followed::Edited { at: 1 }, "{before:?} and {after:?}");
    }
    // Ids of messages are made up as hosts go, and one text of two lines may come as two.
    let (mut mirror, mut session) = (Mirror::new(), Session::new("chat"));
    mirror.sync(&mut session, [Item::new("a", Message::user("m1", "one\ntwo"))]).unwrap();
    let two = Message::new("m2", Role::User, Source::user(), vec![Block::text("one"), Block::text("two")]);
    assert_eq!(mirror.sync(&mut session, [Item::new("a", two)]).unwrap().followed, Followed::Unchanged);
}

#[test]
fn two_rows_with_one_id_are_refused_and_nothing_is_changed() {
    let mut host = Host::with_turns(Names::Ids, 1, 40);
    let (mirror, session) = (host.mirror.clone(), replayed(&host.session));
    host.turn(40);
    host.list[6].id = host.list[1].id.clone();
    let error = host.try_sync().unwrap_err();
    let MirrorError::DuplicateId { first, second, id } = &error else { panic!("{error}") };
    assert_eq!((*first, *second, id), (1, 6, host.list[1].id.as_ref().unwrap()));
    assert_eq!((&host.mirror, &host.session), (&mirror, &session));
}

#[test]
fn a_row_that_is_refused_is_named_by_its_position_and_nothing_is_changed() {
    let bad = Message::new("x", Role::User, common::model(), vec![Block::text("Who am I?")]);
    let orphan = Message::tool_result("r", "nobody", "late", false);
    for names in [Names::Ids, Names::Positions] {
        let mut host = Host::with_turns(names, 1, 40);
        let (mirror, session) = (host.mirror.clone(), replayed(&host.session));
        let mut items: Vec<Item> = host.list.iter().enumerate().map(item).collect();
        items.push(Item::new("4", Message::user("u", "Next.")));
        items.push(Item::new("5", orphan.clone()));
        items.push(Item::new("6", bad.clone()));
        items.push(Item::new("7", Message::user("u2", "And next.")));
        let error = host.mirror.sync(&mut host.session, items.clone()).unwrap_err();
        let MirrorError::Refused { at: 6, error: SessionError::Message { .. } } = &error else { panic!("{error}") };
        assert_eq!((&host.mirror, &host.session), (&mirror, &session));
        // In a list that is taken anew, too.
        items[0].message = Message::user("u0", "Edited.");
        let error = host.mirror.sync(&mut host.session, items).unwrap_err();
        assert!(matches!(error, MirrorError::Refused { at: 6, .. }), "{error}");
        assert_eq!((&host.mirror, &host.session), (&mirror, &session));
    }
}

#[test]
fn a_list_that_the_sink_refuses_can_be_taken_again() {
    let mut host = Host::new(Names::Ids);
    let tape = Tape::default();
    host.session.set_sink(tape.sink());
    host.turn(40);
    tape.refuse(1);
    let error = host.try_sync().unwrap_err();
    assert!(matches!(error, MirrorError::Refused { error: SessionError::Sink(_), .. }), "{error}");
    assert_eq!(host.mirror, Mirror::new());
    assert_eq!(host.sync(), Followed::Appended { count: 4 });
    assert_eq!(host.session.events(), tape.kept());
}

#[test]
fn a_session_with_a_sink_is_not_made_anew_under_it_and_a_fork_takes_the_list() {
    for names in NAMES {
        let tape = Tape::default();
        let mut host = Host::new(names);
        host.session.set_sink(tape.sink());
        (0..2).for_each(|_| host.turn(40));
        host.sync();
        let before = replayed(&host.session);
        let rows = host.list.clone();
        host.list.truncate(5);
        let items: Vec<Item> = host.list.iter().enumerate().map(item).collect();
        let error = host.mirror.sync(&mut host.session, items).unwrap_err();
        assert!(matches!(error, MirrorError::SinkCannotFollow { at: 5 }), "{error}");
        assert_eq!(host.session, before);
        let (kept, shown) = (host.list.clone(), host.session.messages().count());
        host.list = rows;
        assert_eq!((host.sync(), shown), (Followed::Unchanged, host.list.len()));
        host.list = kept;
        host.session = host.session.fork(SessionHeader::new("fork", 0), host.session.revision()).unwrap();
        assert_eq!(host.sync(), Followed::Rewound { kept: 5 });
        assert_eq!(host.is_in_step(), Ok(()));
    }
}

#[test]
fn results_that_answer_nothing_are_left_out_and_reported_once() {
    let mut host = Host::with_turns(Names::Ids, 1, 40);
    host.push(Said::Result("nobody".into(), "late".into()));
    let answered = host.list[1].clone();
    let Said::Model(_, calls) = answered.said else { panic!() };
    host.push(Said::Result(calls[0].clone(), "a second answer".into()));
    host.push(Said::User("Go on.".into()));
    let synced = host.try_sync().unwrap();
    assert_eq!(synced.followed, Followed::Appended { count: 3 });
    assert_eq!(synced.dropped, [key(4, &host.list[4]), key(5, &host.list[5])]);
    assert_eq!(host.session.messages().count(), 5);
    assert_eq!(host.try_sync().unwrap(), Synced { followed: Followed::Unchanged, dropped: Vec::new() });
    // Made anew, the list has them still.
    host.list[0].said = Said::User("Else.".into());
    assert_eq!(host.try_sync().unwrap().dropped.len(), 2);
    assert!(host.mirror.edits(&host.session).is_empty());
}

#[test]
fn a_result_that_comes_before_its_call_answers_nothing_and_one_call_is_answered_once_by_each_id() {
    let mut host = Host::new(Names::Ids);
    host.push(Said::Result("x".into(), "too early".into()));
    host.push(Said::Model("Two of one id.".into(), vec!["x".into(), "x".into()]));
    for text in ["first", "second", "third"] {
        host.push(Said::Result("x".into(), text.into()));
    }
    let synced = host.try_sync().unwrap();
    assert_eq!(synced.dropped, [key(0, &host.list[0]), key(4, &host.list[4])]);
    assert!(common::is_whole(&host.session));
}

#[test]
fn the_late_result_of_a_call_that_was_folded_is_dropped_with_a_report() {
    for names in NAMES {
        let mut host = Host::new(names);
        host.push(Said::User("Start it.".into()));
        host.push(Said::Model("Started.".into(), vec!["job".into()]));
        host.push(Said::User("And now this.".into()));
        (0..10).for_each(|_| host.turn(400));
        host.sync();
        host.compact().unwrap();
        host.settle();
        assert!(host.list.iter().all(|row| !matches!(&row.said, Said::Model(text, _) if text == "Started.")));
        host.push(Said::Result("job".into(), "Done at last.".into()));
        host.push(Said::User("Well?".into()));
        let synced = host.try_sync().unwrap();
        assert_eq!(synced.followed, Followed::Appended { count: 2 });
        let at = host.list.len() - 2;
        assert_eq!(synced.dropped, [key(at, &host.list[at])]);
        assert!(common::is_whole(&host.session));
        // A second fold leaves the row alone, and all stays in step.
        (0..5).for_each(|_| host.turn(400));
        host.sync();
        host.compact().unwrap();
        host.settle();
        assert_eq!(host.try_sync().unwrap().followed, Followed::Unchanged);
    }
}

#[test]
fn after_a_compaction_the_list_is_what_the_session_shows() {
    for names in NAMES {
        let mut host = Host::with_turns(names, 10, 400);
        let rows = host.list.len();
        host.compact().unwrap();
        host.settle();
        assert!(host.list.len() < rows);
        assert!(matches!(host.list[0].said, Said::Summary(_)));
        assert_eq!(host.is_in_step(), Ok(()));
        assert!(host.mirror.edits(&host.session).is_empty());
        assert_eq!(host.sync(), Followed::Unchanged);
        host.turn(40);
        assert_eq!(host.sync(), Followed::Appended { count: 4 });
        assert_eq!(host.is_in_step(), Ok(()));
    }
}

#[test]
fn a_region_in_the_middle_is_replaced_where_it_stood() {
    for names in NAMES {
        let mut host = Host::with_turns(names, 6, 400);
        let nodes = host.session.nodes();
        let trigger = Trigger::Region { start: nodes[4].seq, end: nodes[15].seq };
        compact(&mut standard(), &mut host.session, trigger, &window(8_000), &mut Scripted::default()).unwrap();
        let edits = host.mirror.edits(&host.session);
        let hidden: Vec<Key> = (4..16).map(|at| key(at, &host.list[at])).collect();
        let before = Some(key(16, &host.list[16]));
        let listed: Vec<&Edit> = edits.iter().collect();
        assert_eq!(listed[0], &Edit::Hide(hidden));
        assert!(matches!(listed[1], Edit::Insert { before: at, .. } if *at == before));
        host.settle();
        assert!(matches!(host.list[4].said, Said::Summary(_)));
        assert_eq!((host.list.len(), host.is_in_step(), host.sync()), (13, Ok(()), Followed::Unchanged));
    }
}

#[test]
fn rewrites_and_a_fold_are_applied_in_one_go() {
    for names in NAMES {
        let mut host = Host::with_turns(names, 10, 400);
        // Two long results in the tail, each within its own budget.
        host.push(Said::Model("Both:".into(), vec!["x".into(), "y".into()]));
        for call in ["y", "x"] {
            host.push(Said::Result(call.into(), words(1_500)));
        }
        host.sync();
        let outcome =
            compact(&mut standard(), &mut host.session, Trigger::Pressure, &window(6_000), &mut Scripted::default());
        let outcome = outcome.unwrap();
        let landed = &outcome.compacted().unwrap().landed;
        assert!(landed.pruned.pruned.len() == 2 && landed.folds.len() == 1);
        let edits = host.mirror.edits(&host.session);
        let kinds: Vec<&str> = edits
            .iter()
            .map(|edit| match edit {
                Edit::Rewrite { .. } => "rewrite",
                Edit::Hide(_) => "hide",
                Edit::Insert { .. } => "insert",
                _ => "other",
            })
            .collect();
        assert_eq!(kinds, ["rewrite", "rewrite", "hide", "insert"]);
        host.settle();
        assert_eq!((host.is_in_step(), host.sync()), (Ok(()), Followed::Unchanged));
        assert!(host.mirror.edits(&host.session).is_empty());
    }
}

#[test]
fn a_result_that_is_rewritten_twice_before_its_host_hears_of_it_is_rewritten_once() {
    let mut host = Host::with_turns(Names::Ids, 3, 4_000);
    let mut meter = Meter::new(Pricing::harness(), MeterRules::DEFAULT);
    for head_chars in [900, 300] {
        let trim = TrimPolicy { threshold_chars: head_chars + 10, head_chars, tail_chars: 0, marker: "…".into() };
        let plan = PrunePlan::trim(&host.session, &mut meter, &trim).unwrap();
        assert_eq!(plan.apply(&mut host.session, 0).unwrap().pruned.len(), 3);
    }
    assert_eq!(host.mirror.edits(&host.session).iter().count(), 3);
    host.settle();
    assert_eq!((host.is_in_step(), host.sync()), (Ok(()), Followed::Unchanged));
}

#[test]
fn two_folds_in_a_row_are_applied_at_once_or_one_after_the_other() {
    for names in NAMES {
        for settles_between in [true, false] {
            let mut host = Host::with_turns(names, 10, 400);
            host.compact().unwrap();
            if settles_between {
                host.settle();
            }
            (0..8).for_each(|_| host.turn(400));
            host.sync();
            host.compact().unwrap();
            host.settle();
            assert_eq!((host.is_in_step(), host.sync()), (Ok(()), Followed::Unchanged), "{names:?} {settles_between}");
            let summaries = host.list.iter().filter(|row| matches!(row.said, Said::Summary(_))).count();
            assert_eq!(summaries, 1);
            assert!(host.mirror.state(&host.session).checkpoints.len() == 1);
        }
    }
}

#[test]
fn edits_that_were_not_applied_are_due_until_they_are() {
    for names in NAMES {
        let mut host = Host::with_turns(names, 10, 400);
        host.compact().unwrap();
        // The host forgets, and goes on.
        host.sync();
        host.turn(40);
        host.sync();
        host.settle();
        assert_eq!((host.is_in_step(), host.sync()), (Ok(()), Followed::Unchanged));
    }
}

#[test]
fn a_host_that_changes_its_list_and_does_not_say_so_is_followed_like_any_edit() {
    let mut host = Host::with_turns(Names::Ids, 10, 400);
    host.compact().unwrap();
    let _ = host.apply().unwrap();
    assert_eq!(host.sync(), Followed::Edited { at: 0 });
    assert_eq!(host.is_in_step(), Ok(()));
}

fn same_source(checkpoint: &Message, source: &Source) {
    let Source::Checkpoint { compaction_id, extra } = &checkpoint.source else { panic!("{checkpoint:?}") };
    let Source::Checkpoint { compaction_id: id, extra: fields } = source else { panic!("{source:?}") };
    assert_eq!((compaction_id, extra), (id, fields));
}

#[test]
fn a_checkpoint_in_the_list_is_known_when_the_session_is_made_anew() {
    for names in NAMES {
        for syncs_first in [true, false] {
            let mut host = Host::with_turns(names, 10, 400);
            host.compact().unwrap();
            let source = host.checkpoint().source.clone();
            host.settle();
            if syncs_first {
                host.sync();
            }
            for round in 0..3 {
                let last = host.list.len() - 1;
                host.list[last].said = Said::Model(format!("Edited {round}."), Vec::new());
                assert!(matches!(host.sync(), Followed::Edited { .. }));
                same_source(host.checkpoint(), &source);
                assert_eq!(host.mirror.state(&host.session).checkpoints.len(), 1);
            }
            if syncs_first || names != Names::Positions {
                // Behind a row that is put before it, too, once the mirror has seen it.
                let row = host.row(Said::Notice("Rules.".into()));
                host.list.insert(0, row);
                assert_eq!(host.sync(), Followed::Edited { at: 0 });
                same_source(host.checkpoint(), &source);
                assert!(host.session.nodes()[0].message.source.is_injected());
            }
        }
    }
}

#[test]
fn a_checkpoint_whose_text_the_person_changed_is_theirs() {
    for names in NAMES {
        for edits_elsewhere_first in [true, false] {
            let mut host = Host::with_turns(names, 10, 400);
            host.compact().unwrap();
            host.settle();
            if edits_elsewhere_first {
                let last = host.list.len() - 1;
                host.list[last].said = Said::Model("Edited.".into(), Vec::new());
            }
            host.sync();
            host.checkpoint();
            host.list[0].said = Said::Summary("I know better what was said.".into());
            assert_eq!(host.sync(), Followed::Edited { at: 0 });
            assert!(host.session.nodes()[0].message.source.is_user(), "{names:?} {edits_elsewhere_first}");
        }
    }
}

#[test]
fn what_merely_says_the_same_as_a_checkpoint_is_none() {
    for names in NAMES {
        let mut host = Host::with_turns(names, 10, 400);
        host.compact().unwrap();
        host.settle();
        host.sync();
        let Said::Summary(text) = host.list[0].said.clone() else { panic!() };
        host.push(Said::User(text));
        assert_eq!(host.sync(), Followed::Appended { count: 1 });
        host.checkpoint();
        assert!(host.session.nodes().last().unwrap().message.source.is_user());
        // Nor when all is made anew.
        host.list[1].said = Said::Model("Edited.".into(), Vec::new());
        host.try_sync().unwrap();
        host.checkpoint();
        assert!(host.session.nodes().last().unwrap().message.source.is_user(), "{names:?}");
    }
}

#[test]
fn a_checkpoint_is_known_after_a_restart_from_the_list_and_the_stored_state() {
    for names in NAMES {
        for syncs_before in [true, false] {
            let mut host = Host::with_turns(names, 10, 400);
            host.compact().unwrap();
            let source = host.checkpoint().source.clone();
            host.settle();
            if syncs_before {
                host.sync();
            }
            for _ in 0..2 {
                let stored = serde_json::to_string(&host.mirror.state(&host.session)).unwrap();
                assert!(stored.len() < 1_000, "the state is small");
                let state: MirrorState = serde_json::from_str(&stored).unwrap();
                host.session = Session::new("chat");
                host.mirror = Mirror::restore(state, &mut host.session).unwrap();
                assert_eq!(host.sync(), Followed::Appended { count: host.list.len() });
                same_source(host.checkpoint(), &source);
                assert_eq!(host.is_in_step(), Ok(()));
            }
            (0..8).for_each(|_| host.turn(400));
            host.sync();
            host.compact().unwrap();
            host.settle();
            assert_eq!((host.is_in_step(), host.sync()), (Ok(()), Followed::Unchanged));
            host.checkpoint();
        }
    }
}

#[test]
fn a_state_of_another_version_or_with_unknown_fields_is_refused() {
    let mut host = Host::with_turns(Names::Ids, 10, 400);
    host.compact().unwrap();
    host.settle();
    let state = host.mirror.state(&host.session);
    let with = |key: &str, value: serde_json::Value| {
        let mut json = serde_json::to_value(&state).unwrap();
        json[key] = value;
        serde_json::from_value::<MirrorState>(json)
    };
    for version in [0, 2, u32::MAX] {
        let mut session = Session::new("chat");
        let error = Mirror::restore(with("version", json!(version)).unwrap(), &mut session).unwrap_err();
        assert!(matches!(error, StateError::Version(found) if found == version));
        assert!(error.to_string().contains("version 1") && session.events().is_empty());
    }
    assert!(with("later", json!(1)).is_err());
    assert!(with("checkpoints", json!([{"key": {"id": "x"}}])).is_err());
    assert!(with("version", json!(-1)).is_err());
    assert_eq!(with("version", json!(1)).unwrap(), state);
}

#[test]
fn a_breaker_that_is_open_stays_open_across_a_restart_and_across_an_edit() {
    let mut host = Host::with_turns(Names::Ids, 10, 400);
    let limit = BreakerLimit::new(1);
    let mut breaker = Breaker::new(standard(), limit.clone(), 0);
    let mut fails = Scripted::new([Answer::Fails]);
    let mut pressed = |breaker: &mut Breaker<BaseEngine>, session: &mut Session| {
        compact(breaker, session, Trigger::Pressure, &window(4_000), &mut fails)
    };
    pressed(&mut breaker, &mut host.session).unwrap_err();
    let is_open = |outcome: Outcome| matches!(outcome, Outcome::Unneeded(Reason::BreakerOpen(_)));
    assert!(is_open(pressed(&mut breaker, &mut host.session).unwrap()));
    host.list[0].said = Said::User("Edited.".into());
    assert_eq!(host.sync(), Followed::Edited { at: 0 });
    assert!(is_open(pressed(&mut breaker, &mut host.session).unwrap()), "an edit closed it");
    let state = host.mirror.state(&host.session);
    host.session = Session::new("chat");
    host.mirror = Mirror::restore(state, &mut host.session).unwrap();
    host.sync();
    let mut breaker = Breaker::new(standard(), limit, 0);
    assert!(is_open(pressed(&mut breaker, &mut host.session).unwrap()), "a restart closed it");
}

#[test]
fn edits_for_a_row_that_is_gone_or_named_twice_leave_the_list_untouched() {
    for names in NAMES {
        let mut host = Host::with_turns(names, 10, 400);
        host.compact().unwrap();
        let whole = host.list.clone();
        let last = whole.len() - 1;
        // Gone from what stays, and from what would be hidden.
        for at in [0, last] {
            host.list.remove(at);
            if names != Names::Positions || at == last {
                let error = host.apply().unwrap_err();
                assert!(matches!(error, EditError::NotInList(_)), "{error}");
                assert_eq!(host.list, [&whole[..at], &whole[at + 1..]].concat());
            }
            host.list.clone_from(&whole);
        }
        if names == Names::Ids {
            host.list[5].id = host.list[9].id.clone();
            let twice = host.list.clone();
            assert_eq!(host.apply().unwrap_err(), EditError::AmbiguousKey(key(9, &twice[9])));
            assert_eq!(host.list, twice);
            host.list.clone_from(&whole);
        }
        host.settle();
        assert_eq!((host.is_in_step(), host.sync()), (Ok(()), Followed::Unchanged));
    }
}

#[test]
fn rows_that_came_in_since_the_last_sync_survive_the_edits() {
    for names in NAMES {
        let mut host = Host::with_turns(names, 10, 400);
        host.compact().unwrap();
        // While the summary was written, the person wrote on.
        host.push(Said::User("One more thing.".into()));
        host.push(Said::User("And another.".into()));
        let newest = host.list[host.list.len() - 2..].to_vec();
        host.settle();
        assert_eq!(host.list[host.list.len() - 2..], newest);
        assert_eq!(host.sync(), Followed::Appended { count: 2 });
        assert_eq!(host.is_in_step(), Ok(()));
    }
}

#[test]
fn a_row_that_the_mirror_has_not_seen_and_that_stands_between_others_is_not_lost_silently() {
    let mut host = Host::with_turns(Names::Ids, 10, 400);
    host.compact().unwrap();
    let row = host.row(Said::Notice("Put in between.".into()));
    let unseen = key(3, &row);
    host.list.insert(3, row);
    let whole = host.list.clone();
    let error = host.apply().unwrap_err();
    assert!(error.to_string().contains("sync the mirror"), "{error}");
    assert!(error.to_string().contains(&format!("{unseen:?}")), "{error}");
    assert_eq!(host.list, whole);
}

#[test]
fn a_summary_that_was_being_written_when_the_list_was_edited_comes_back() {
    let mut host = Host::with_turns(Names::Ids, 10, 400);
    let mut engine = standard();
    let step = engine.begin(&mut host.session, Trigger::manual(), &window(8_000)).unwrap();
    let Step::Summarize(pending) = step else { panic!("{step:?}") };
    host.list[0].said = Said::User("Edited.".into());
    assert_eq!(host.sync(), Followed::Edited { at: 0 });
    let error = engine.resume(&mut host.session, pending, Answer::Good.reply()).unwrap_err();
    assert_eq!(error.code(), "wrong-session");
    assert!(host.session.open_compaction().is_none());
    host.compact().unwrap();
    host.settle();
    assert_eq!((host.is_in_step(), host.sync()), (Ok(()), Followed::Unchanged));
}

#[test]
fn usage_that_a_host_states_is_kept_with_its_answer() {
    let usage = Usage { input_tokens: 900, output_tokens: 100, ..Usage::default() };
    let (mut mirror, mut session) = (Mirror::new(), Session::new("chat"));
    let answer = Message::assistant("a", common::model(), vec![Block::text("Yes.")]);
    let items = [Item::new(0, Message::user("u", "Well?")), Item::new(1, answer).with_usage(usage.clone())];
    mirror.sync(&mut session, items).unwrap();
    let EventData::AssistantMessage(data) = &session.events()[1].data else { panic!() };
    assert_eq!(data.usage, Some(usage));
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_a_host_does_applied_edits_bring_list_and_session_in_step(seed: u64, acts in 1..25usize) {
        let mut rng = Rng::new(seed);
        let mut host = Host::new(rng.pick(&NAMES));
        let policy = Policy {
            absolute_token_limit: 600,
            min_gain_ratio: 0.0,
            prune: PrunePolicy {
                trim: Some(TrimPolicy { threshold_chars: 400, head_chars: 200, tail_chars: 100, marker: "…".into() }),
                clear_old: Some(ClearOld { keep_recent_tool_results: 2, min_micro_compact_tokens: 0 }),
                ..PrunePolicy::default()
            },
            ..Policy::default()
        };
        let mut engine = engine(policy, RuleSet::Default);
        for _ in 0..acts {
            match rng.below(10) {
                0..4 => host.turn(usize::try_from(rng.scale(4, 1_000)).unwrap()),
                4 => {
                    // An answer whose results come in another order, or not at all.
                    let calls: Vec<String> = (0..rng.index(4)).map(|at| format!("p{}-{at}", host.made)).collect();
                    host.push(Said::Model("Several:".into(), calls.clone()));
                    for call in calls.into_iter().rev().filter(|_| rng.chance(80)).collect::<Vec<_>>() {
                        host.push(Said::Result(call, words(rng.index(500))));
                    }
                    host.push(Said::Notice("Injected.".into()));
                }
                5 => {
                    // Never between a call and its result: that would be a list that drops results.
                    let turns: Vec<usize> = (0..host.list.len())
                        .filter(|at| matches!(host.list[*at].said, Said::User(_)))
                        .collect();
                    if let Some(at) = (!turns.is_empty()).then(|| rng.pick(&turns)) {
                        if rng.chance(50) {
                            host.list.truncate(at);
                        } else {
                            host.list[at].said = Said::User(format!("Edited {}", host.made));
                        }
                    }
                }
                6 => {
                    let state = serde_json::to_string(&host.mirror.state(&host.session)).unwrap();
                    host.session = Session::new("chat");
                    host.mirror = Mirror::restore(serde_json::from_str(&state).unwrap(), &mut host.session).unwrap();
                }
                _ => {
                    host.try_sync().unwrap();
                    for _ in 0..1 + rng.below(2) {
                        let trigger = match rng.below(4) {
                            0 => Trigger::manual(),
                            1 => match host.session.nodes() {
                                [] => Trigger::manual(),
                                nodes => Trigger::From(nodes[rng.index(nodes.len())].seq),
                            },
                            2 => Trigger::Overflow { reported: None },
                            _ => Trigger::Pressure,
                        };
                        let mut summarizer = Scripted::random(&mut rng);
                        let _ = compact(&mut engine, &mut host.session, trigger, &Situation::new(), &mut summarizer);
                    }
                    if rng.chance(80) {
                        host.settle();
                        prop_assert_eq!(host.is_in_step(), Ok(()));
                        prop_assert!(host.mirror.edits(&host.session).is_empty());
                        prop_assert_eq!(host.sync(), Followed::Unchanged);
                    }
                }
            }
        }
        host.sync();
        host.settle();
        prop_assert_eq!(host.is_in_step(), Ok(()));
        prop_assert_eq!(host.sync(), Followed::Unchanged);
        // Checkpoints of ours are known, whatever happened to the list, and nothing else is taken for one.
        let marked = host.list.iter().filter(|row| matches!(row.said, Said::Summary(_))).count();
        let known = host.session.nodes().iter().filter(|node| node.message.source.is_checkpoint()).count();
        prop_assert_eq!(marked, known);
    }
}

/// Two turns with their marks; seqs 0 to 3 and 4 to 7.
fn two_turns() -> Session {
    let mut header = SessionHeader::new("parent", 7);
    header.cwd = Some("/srv".into());
    header.agent_preset = Some("arya-qwen".into());
    let mut session = Session::with_header(header);
    for turn in 1..=2 {
        let answer = Message::assistant(format!("a{turn}"), common::model(), vec![Block::text(words(300))]);
        let drafts = vec![
            Draft::turn_start(turn),
            Draft::user(Message::user(format!("u{turn}"), words(300))),
            Draft::assistant(turn, 1, answer, None),
            Draft::turn_end(turn),
        ];
        session.append_all(drafts).unwrap();
    }
    session
}

fn child_header() -> SessionHeader {
    SessionHeader::new("child", 9)
}

#[test]
fn a_fork_begins_with_the_events_before_its_boundary_and_states_its_lineage() {
    let parent = two_turns();
    for boundary in [0, 4, 8] {
        let child = parent.fork(child_header(), boundary).unwrap();
        let count = usize::try_from(boundary).unwrap();
        assert_eq!(&child.events()[..count], &parent.events()[..count]);
        assert_eq!(child.events().len(), count + 1);
        assert_eq!(child.events()[count].data.kind(), "session/end-seed");
        assert_eq!(child.messages().count(), count / 2);
        let header = child.header();
        assert_eq!((header.id.as_str(), header.created_at), ("child", 9));
        assert_eq!(header.parent_session.as_deref(), Some("parent"));
        assert_eq!(header.seed_length, Some(boundary));
        assert_eq!((header.cwd.as_deref(), header.agent_preset.as_deref()), (Some("/srv"), Some("arya-qwen")));
        let mut file = Vec::new();
        child.write_jsonl(&mut file).unwrap();
        assert_eq!(Session::read_jsonl(file.as_slice()).unwrap().session, child);
    }
}

#[test]
fn a_fork_keeps_what_its_own_header_says() {
    let mut header = child_header();
    header.cwd = Some("/tmp".into());
    header.agent_preset = Some("standard".into());
    header.parent_session = Some("somebody".into());
    let child = two_turns().fork(header, 4).unwrap();
    let header = child.header();
    assert_eq!((header.cwd.as_deref(), header.agent_preset.as_deref()), (Some("/tmp"), Some("standard")));
    assert_eq!(header.parent_session.as_deref(), Some("parent"));
}

#[test]
fn a_fork_inside_a_turn_or_beyond_the_end_is_refused() {
    let mut parent = two_turns();
    for (boundary, turn) in [(1, 1), (3, 1), (5, 2), (7, 2)] {
        let error = parent.fork(child_header(), boundary).unwrap_err();
        assert!(
            matches!(error, SessionError::ForkInTurn { boundary: at, turn: open } if (at, open) == (boundary, turn))
        );
    }
    for boundary in [9, u64::MAX] {
        let error = parent.fork(child_header(), boundary).unwrap_err();
        assert!(matches!(error, SessionError::ForkBoundary { boundary: at, events: 8 } if at == boundary), "{error}");
    }
    // A turn that is open behind the boundary is no hindrance.
    parent.append(Draft::turn_start(3)).unwrap();
    assert_eq!(parent.fork(child_header(), 8).unwrap().open_turn(), None);
    assert_eq!(parent.fork(child_header(), 9).unwrap_err().code(), "fork-in-turn");
}

#[test]
fn a_fork_has_a_log_a_sink_and_a_lock_of_its_own() {
    let mut parent = two_turns();
    let tape = Tape::default();
    parent.set_sink(tape.sink());
    let mut engine = standard();
    let step = engine.begin(&mut parent, Trigger::manual(), &window(8_000)).unwrap();
    let Step::Summarize(pending) = step else { panic!("{step:?}") };
    let written = tape.kept().len();
    // The child begins while the parent is locked.
    let mut child = parent.fork(child_header(), parent.revision()).unwrap();
    assert!(parent.open_compaction().is_some() && child.open_compaction().is_none());
    let outcome = compact(&mut standard(), &mut child, Trigger::manual(), &window(8_000), &mut Scripted::default());
    assert_eq!(outcome.unwrap().code(), "compacted");
    assert_eq!(tape.kept().len(), written, "the child writes nothing into its parent's file");
    // And the parent goes on as if there were no child.
    assert!(parent.open_compaction().is_some());
    let mut other = parent.fork(SessionHeader::new("other", 0), 4).unwrap();
    let error = engine.resume(&mut other, pending, Answer::Good.reply()).unwrap_err();
    let Failure::WrongSession(pending) = error.failure else { panic!("{error}") };
    let step = engine.resume(&mut parent, *pending, Answer::Good.reply()).unwrap();
    assert!(matches!(step, Step::Done(Outcome::Compacted(_))));
}

#[test]
fn a_fork_of_a_fork_marks_the_end_of_its_seed_once() {
    let parent = two_turns();
    let child = parent.fork(child_header(), 4).unwrap();
    let grandchild = child.fork(SessionHeader::new("grandchild", 0), child.revision()).unwrap();
    assert_eq!(grandchild.events(), child.events());
    assert_eq!(grandchild.header().parent_session.as_deref(), Some("child"));
    assert_eq!(grandchild.header().seed_length, Some(5));
}

#[test]
fn a_fork_of_a_folded_session_shows_its_checkpoint_or_what_stood_there_before() {
    let mut parent = conversation(10, 400);
    let before = parent.revision();
    let texts = common::texts(&parent);
    compact(&mut standard(), &mut parent, Trigger::manual(), &window(8_000), &mut Scripted::default()).unwrap();
    let after = parent.fork(child_header(), parent.revision()).unwrap();
    assert_eq!(common::texts(&after), common::texts(&parent));
    assert!(after.nodes()[0].message.source.is_checkpoint());
    let earlier = parent.fork(child_header(), before).unwrap();
    assert_eq!(common::texts(&earlier), texts);
}
