//! Failures that other systems had in the field, each with a small input and what is right. The names begin with the case's
//! number.

#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, reason = "so may what it calls")]

mod common;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use arya_presets::*;

use common::summarizer::{Answer, Scripted, Slow};
use common::*;

fn usage(input: u64, read: u64, write: u64, output: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: Some(read),
        cache_write_tokens: Some(write),
        ..Usage::default()
    }
}

fn answered(session: &mut Session, text: &str, usage: Usage) -> Seq {
    let message = Message::assistant(format!("a{}", session.revision()), model(), vec![Block::text(text)]);
    session.append(Draft::assistant(1, 1, message, Some(usage))).unwrap()
}

fn run(
    engine: &mut BaseEngine,
    session: &mut Session,
    trigger: Trigger,
    tokens: u64,
) -> Result<Outcome, CompactionError> {
    compact(engine, session, trigger, &window(tokens), &mut Scripted::default())
}

fn measured(session: &Session, situation: &Situation) -> Measurement {
    standard().measure(session, situation).unwrap()
}

/// Every call of the request has its result in it, and the other way round.
fn is_pair_complete(request: &SummaryRequest) -> bool {
    let calls = |message: &Arc<Message>| message.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>();
    let mut open: Vec<String> = Vec::new();
    for message in request.messages().iter() {
        open.extend(calls(message));
        if let Some(result) = message.result() {
            match open.iter().position(|id| *id == result.tool_call_id) {
                Some(at) => drop(open.remove(at)),
                None => return false,
            }
        }
    }
    open.is_empty()
}

#[test]
fn o01_a_batch_of_ten_calls_is_kept_whole_or_folded_whole() {
    let ids: Vec<String> = (0..10).map(|id| format!("c{id}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for retain in [1, 600, 1_200, 2_000] {
        let mut session = session();
        user(&mut session, &words(1_000));
        assistant(&mut session, "", &ids);
        for id in &ids {
            result(&mut session, id, &words(100));
        }
        let policy = Policy { retain: Retain::Tokens(retain), ..Policy::default() };
        let mut engine = engine(policy, RuleSet::Default);
        run(&mut engine, &mut session, Trigger::Overflow { reported: None }, 2_000).ok();
        assert!(is_whole(&session), "{retain}");
        let kept = session.nodes().iter().filter(|node| node.kind == NodeKind::ToolResult).count();
        assert!(kept == 0 || kept == 10, "{kept} of 10 results kept");
        assert!(session.nodes()[0].message.source.is_checkpoint());
    }
}

#[test]
fn o02_a_stored_split_inside_a_batch_is_refused_when_it_is_used() {
    let mut session = session();
    user(&mut session, &words(600));
    assistant(&mut session, "", &["a", "b"]);
    let first = result(&mut session, "a", &words(100));
    result(&mut session, "b", &words(100));
    let mut file = Vec::new();
    session.write_jsonl(&mut file).unwrap();
    let mut session = Session::resume_jsonl(file.as_slice()).unwrap().session;
    let error = standard().begin(&mut session, Trigger::UpTo(first), &window(2_000)).unwrap_err();
    assert_eq!(error.code(), "not-a-cut");
    assert!(is_whole(&session));
}

#[test]
fn o05_results_after_all_calls_pair_by_id_in_either_order() {
    for order in [["a", "b"], ["b", "a"]] {
        let mut session = session();
        user(&mut session, &words(900));
        assistant(&mut session, "", &["a"]);
        assistant(&mut session, "", &["b"]);
        for id in order {
            result(&mut session, id, id);
        }
        user(&mut session, "next");
        run(&mut standard(), &mut session, Trigger::manual(), 2_000).unwrap();
        let surface = texts(&session);
        assert!(is_whole(&session) && !surface.iter().any(|text| text.contains("unavailable")), "{surface:?}");
    }
}

#[test]
fn o06_a_late_result_of_a_batch_keeps_the_batch_together() {
    let mut session = session();
    user(&mut session, &words(600));
    assistant(&mut session, "", &["1", "2"]);
    result(&mut session, "2", "second");
    let steering = user(&mut session, "stop after this");
    result(&mut session, "1", "first");
    let log = session.events().to_vec();
    let before = session.position(steering).unwrap();
    assert!(!session.is_cut(before) && !session.is_cut(before + 1));
    let error = standard().begin(&mut session, Trigger::From(steering), &window(2_000)).unwrap_err();
    assert_eq!(error.code(), "not-a-cut");
    run(&mut standard(), &mut session, Trigger::manual(), 2_000).unwrap();
    assert!(is_whole(&session));
    assert_eq!(session.events()[..log.len()], log);
}

#[test]
fn o07_one_constant_call_id_makes_four_pairs() {
    let mut session = session();
    let mut big = Vec::new();
    for round in 0..4 {
        user(&mut session, &format!("round {round}"));
        assistant(&mut session, "", &["X"]);
        big.push(result(&mut session, "X", &format!("{round}{}", words(4_000))));
    }
    assert_eq!(session.cuts().count(), 1 + 4 * 2);
    let mut meter = Meter::new(Pricing::harness(), MeterRules::DEFAULT);
    let plan = PrunePlan::trim(&session, &mut meter, &TrimPolicy::default()).unwrap();
    let report = plan.apply(&mut session, 0).unwrap();
    assert_eq!(report.pruned.iter().map(|pruned| pruned.original_seq).collect::<Vec<_>>(), big);
    let kept: String = session
        .nodes()
        .iter()
        .filter_map(|node| node.message.result())
        .map(|result| result.content[0].as_text().unwrap().chars().next().unwrap())
        .collect();
    assert_eq!(kept, "0123");
    assert!(is_whole(&session));
    let last = session.nodes()[8].seq;
    run(&mut standard(), &mut session, Trigger::UpTo(last), 200_000).unwrap();
    assert!(is_whole(&session));
    assert_eq!(session.nodes().len(), 1 + 3);
}

#[test]
fn o08_ids_that_restart_in_every_response_are_new_calls() {
    let mut session = session();
    for arguments in ["a", "b", "a"] {
        user(&mut session, arguments);
        let call = Block::tool_call("read_file_0", "read", format!(r#"{{"path":"{arguments}"}}"#));
        let message = Message::assistant(format!("m{}", session.revision()), model(), vec![call]);
        session.append(Draft::assistant(1, 1, message, None)).unwrap();
        result(&mut session, "read_file_0", arguments);
    }
    assert_eq!(session.cuts().collect::<Vec<_>>(), [0, 1, 3, 4, 6, 7, 9]);
    assert!(is_whole(&session));
}

#[test]
fn o09_a_second_compaction_with_nothing_new_behind_the_checkpoint_does_nothing() {
    let mut session = session();
    user(&mut session, "go");
    assistant(&mut session, &words(2_000), &[]);
    assistant(&mut session, "", &["t"]);
    let mut engine = standard();
    let mut summarizer = Scripted::default();
    compact(&mut engine, &mut session, Trigger::manual(), &window(2_000), &mut summarizer).unwrap();
    let before = session.revision();
    for trigger in [Trigger::manual(), Trigger::Overflow { reported: None }] {
        let outcome = compact(&mut engine, &mut session, trigger, &window(2_000), &mut summarizer).unwrap();
        assert!(matches!(outcome, Outcome::Unneeded(Reason::NothingToFold)), "{outcome:?}");
    }
    assert_eq!((session.revision(), summarizer.requests.len()), (before, 1));
    assert!(is_pair_complete(&summarizer.requests[0]));
}

#[test]
fn o11_one_giant_turn_is_cut_between_whole_steps_and_its_request_stays_verbatim() {
    let mut session = session();
    let request = "Port the parser and keep the public names.";
    user(&mut session, request);
    for step in 0..40 {
        let id = format!("c{step}");
        assistant(&mut session, "", &[&id]);
        result(&mut session, &id, &words(100));
    }
    let outcome = run(&mut standard(), &mut session, Trigger::Pressure, 4_000).unwrap();
    let fold = outcome.compacted().unwrap().fold().unwrap();
    assert!(is_whole(&session) && session.nodes().len() > 1);
    assert!(fold.checkpoint.text().contains(request));
}

#[test]
fn o11_a_whole_turn_is_preferred_to_a_cut_inside_it() {
    let mut session = conversation(8, 400);
    let outcome = run(&mut standard(), &mut session, Trigger::Pressure, 4_000).unwrap();
    assert!(outcome.compacted().is_some());
    assert!(session.nodes()[1].message.source.is_user(), "the tail begins with a request");
}

#[test]
fn o12_a_kept_answer_with_signed_thinking_is_untouched_to_the_byte() {
    let mut session = conversation(5, 800);
    let thinking: Block =
        serde_json::from_value(serde_json::json!({"type": "reasoning", "text": "hm", "signature": "abc=="})).unwrap();
    let content = vec![thinking, Block::text("reading"), Block::tool_call("c", "read", "{}")];
    let message = Message::assistant("signed", model(), content);
    let seq = session.append(Draft::assistant(1, 1, message, None)).unwrap();
    result(&mut session, "c", "done");
    let before = session.event(seq).unwrap().to_json();
    let mut summarizer = Scripted::default();
    compact(&mut standard(), &mut session, Trigger::Pressure, &window(4_000), &mut summarizer).unwrap();
    assert!(session.position(seq).is_some());
    assert_eq!(session.event(seq).unwrap().to_json(), before);
    let request = &summarizer.requests[0];
    assert!(!request.messages().iter().any(|message| message.id == "signed"), "wholly absent from the request");
}

fn screenshot() -> Message {
    let image = serde_json::json!({"type": "image", "mediaType": "image/png", "data": "A".repeat(1_600_000)});
    let image: Block = serde_json::from_value(image).unwrap();
    Message::new("m", Role::User, Source::user(), vec![Block::text("what is this?"), image])
}

#[test]
fn o19_a_pasted_screenshot_costs_a_bounded_price_and_compacts_nothing() {
    let mut session = session();
    session.append(Draft::user(screenshot())).unwrap();
    let tokens = measured(&session, &window(200_000)).total_tokens;
    assert!((1_000..=5_000).contains(&tokens), "{tokens}");
    let outcome = run(&mut standard(), &mut session, Trigger::Pressure, 200_000).unwrap();
    assert_eq!(outcome.code(), "unneeded");
    // Even a window that it fills does not have the only request summarised away.
    for trigger in [Trigger::Pressure, Trigger::manual(), Trigger::Overflow { reported: Some(9_999) }] {
        let result = run(&mut standard(), &mut session, trigger, 1_700);
        assert!(result.is_ok_and(|outcome| outcome.code() == "unneeded"));
        assert_eq!(session.nodes().len(), 1);
    }
}

#[test]
fn o20_a_summariser_that_gets_text_sees_a_marker_for_a_picture_and_the_text_beside_it() {
    let mut session = session();
    user(&mut session, &words(900));
    assistant(&mut session, "", &["c"]);
    let image: Block = serde_json::from_value(
        serde_json::json!({"type": "image", "mediaType": "image/png", "data": "A".repeat(300_000)}),
    )
    .unwrap();
    let content = vec![Block::text(r#"{"chart_id":7}"#), image];
    let block =
        Block::ToolResult(ToolResult { tool_call_id: "c".into(), content, is_error: None, extra: Extra::default() });
    let message = Message::new("r", Role::User, Source::tool("c"), vec![block]);
    session.append(Draft::tool_result(1, 1, message)).unwrap();
    user(&mut session, "next");
    let mut summarizer = Scripted::default();
    compact(&mut standard(), &mut session, Trigger::manual(), &window(20_000), &mut summarizer).unwrap();
    let rendered = summarizer.requests[0].rendered();
    assert!(rendered.len() < 20_000 && rendered.contains("[image/png left out]"));
    assert!(rendered.contains(r#"{"chart_id":7}"#));
}

#[test]
fn o23_cache_writes_are_part_of_what_a_call_occupied() {
    let mut session = session();
    session.append(header()).unwrap();
    user(&mut session, "go");
    answered(&mut session, "done", usage(3, 0, 180_000, 500));
    assert_eq!(measured(&session, &window(200_000)).total_tokens, 180_503);
    let step = standard().begin(&mut session, Trigger::Pressure, &window(200_000));
    assert!(!matches!(step, Ok(Step::Done(Outcome::Unneeded(Reason::BelowLevel { .. })))), "{step:?}");
}

#[test]
fn o24_a_sum_over_calls_is_no_occupancy() {
    let mut session = session();
    session.append(header()).unwrap();
    for _ in 0..12 {
        user(&mut session, "go");
        answered(&mut session, "done", usage(1_000, 150_000, 0, 100));
    }
    let sum = UsageReport { total_tokens: 12 * 151_100, revision: Some(session.revision() - 1), is_sum: true };
    let measurement = measured(&session, &window(2_000_000).usage(sum));
    assert_eq!((measurement.total_tokens, measurement.doubt), (151_100, Some(UsageDoubt::Sum)));
    let last = UsageReport { total_tokens: 164_000, revision: Some(session.revision() - 1), is_sum: false };
    assert_eq!(measured(&session, &window(200_000).usage(last)).total_tokens, 164_000);
}

#[test]
fn o24_the_newest_call_counts_and_not_an_older_one_that_the_host_still_remembers() {
    let mut session = session();
    session.append(header()).unwrap();
    let revision = user(&mut session, "go") + 1;
    answered(&mut session, "old", usage(90_000, 0, 0, 100));
    user(&mut session, "go on");
    answered(&mut session, "new", usage(20_000, 0, 0, 100));
    let old = UsageReport { total_tokens: 90_100, revision: Some(revision), is_sum: false };
    assert_eq!(measured(&session, &window(200_000).usage(old)).total_tokens, 20_100);
}

#[test]
fn o25_cache_reads_far_beyond_the_window_are_not_believed() {
    let mut session = session();
    session.append(header()).unwrap();
    user(&mut session, "go");
    answered(&mut session, "done", usage(2_000, 10_000_000, 0, 0));
    let measurement = measured(&session, &window(128_000));
    assert_eq!(measurement.doubt, Some(UsageDoubt::BeyondWindow));
    assert_eq!(measurement.baseline.kind(), "estimated");
    assert!(measurement.total_tokens < 100);
    assert_eq!(run(&mut standard(), &mut session, Trigger::Pressure, 128_000).unwrap().code(), "unneeded");
}

#[test]
fn o26_a_summary_request_that_the_estimate_called_small_enough_shrinks_until_it_fits_in_bounded_tries() {
    let mut session = conversation(40, 4_000);
    let pricing = pricing(RuleSet::Default);
    let mut asked = Vec::new();
    let mut counts_more = |request: &SummaryRequest| {
        let estimate: u64 = request.messages().iter().map(|message| pricing.message(message)).sum();
        asked.push(estimate);
        if estimate * 163 / 100 > 100_000 {
            return Err(SummarizerError::Overflow { limit: Some(100_000) });
        }
        Answer::Good.reply()
    };
    let trigger = Trigger::Overflow { reported: Some(257_000) };
    let outcome = compact(&mut standard(), &mut session, trigger, &window(167_000), &mut counts_more).unwrap();
    assert_eq!(outcome.code(), "compacted");
    assert!(asked[0] > 100_000 && (2..=8).contains(&asked.len()), "{asked:?}");
}

#[test]
fn o26_an_overflow_below_the_estimate_corrects_what_is_estimated_next() {
    let mut session = conversation(10, 7_500);
    let mut engine = standard();
    let estimate = engine.measure(&session, &window(100_000)).unwrap().total_tokens;
    assert!((70_000..80_000).contains(&estimate), "below the trigger: {estimate}");
    assert_eq!(run(&mut engine, &mut session, Trigger::Pressure, 100_000).unwrap().code(), "unneeded");
    run(&mut engine, &mut session, Trigger::Overflow { reported: Some(estimate * 3 / 2) }, 100_000).unwrap();
    let after = engine.measure(&session, &window(100_000)).unwrap();
    let raw = measured(&session, &window(100_000)).total_tokens;
    assert_eq!((after.correction_tokens, after.total_tokens), (raw / 2, raw + raw / 2));
    // The next time pressure is seen in time.
    while engine.measure(&session, &window(100_000)).unwrap().total_tokens < 80_000 {
        user(&mut session, &words(1_000));
    }
    assert_eq!(run(&mut engine, &mut session, Trigger::Pressure, 100_000).unwrap().code(), "compacted");
}

#[test]
fn o26_the_correction_is_bounded_and_another_model_does_not_inherit_it() {
    let mut session = conversation(10, 800);
    session.append(Draft::request_header(RequestHeader::new("p", "one"))).unwrap();
    let mut engine = standard();
    let _ = run(&mut engine, &mut session, Trigger::Overflow { reported: Some(100_000) }, 100_000);
    let corrected = engine.measure(&session, &window(100_000)).unwrap();
    assert_eq!(corrected.total_tokens, 2 * measured(&session, &window(100_000)).total_tokens);
    session.append(Draft::request_header(RequestHeader::new("p", "two"))).unwrap();
    assert_eq!(engine.measure(&session, &window(100_000)).unwrap().correction_tokens, 0);
    // What the provider has counted needs no correction.
    session.append(Draft::request_header(RequestHeader::new("p", "one"))).unwrap();
    answered(&mut session, "done", usage(9_000, 0, 0, 50));
    assert_eq!(engine.measure(&session, &window(100_000)).unwrap().total_tokens, 9_050);
}

#[test]
fn o27_usage_of_a_request_from_before_the_newest_fold_is_ignored() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    let request_made_at = session.revision();
    run(&mut engine, &mut session, Trigger::manual(), 200_000).unwrap();
    let message = Message::assistant("late", model(), vec![Block::text("done")]);
    let mut late = Draft::assistant(1, 1, message, Some(usage(362_000, 0, 0, 0)));
    if let EventData::AssistantMessage(data) = &mut late.data {
        data.extra.insert("requestRevision", request_made_at.into());
    }
    session.append(late).unwrap();
    assert!(measured(&session, &window(400_000)).total_tokens < 5_000);
    let report = UsageReport { total_tokens: 362_000, revision: Some(request_made_at), is_sum: false };
    let measurement = measured(&session, &window(400_000).usage(report));
    assert_eq!(measurement.doubt, Some(UsageDoubt::BeforeNewestFold));
    assert!(measurement.total_tokens < 5_000);
}

#[test]
fn o27_usage_of_a_request_from_after_a_fold_inside_its_own_step_counts_whole() {
    let mut session = conversation(6, 800);
    session.append(Draft::turn_start(1)).unwrap();
    session.append(Draft::step_start(1, 1)).unwrap();
    run(&mut standard(), &mut session, Trigger::Overflow { reported: None }, 4_000).unwrap();
    answered(&mut session, "done", usage(1_500, 0, 0, 20));
    assert_eq!(measured(&session, &window(4_000)).total_tokens, 1_520);
    user(&mut session, &words(10));
    assert_eq!(measured(&session, &window(4_000)).total_tokens, 1_520 + 18);
}

#[test]
fn o28_the_summary_calls_own_usage_is_no_measure_of_the_conversation() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    run(&mut engine, &mut session, Trigger::manual(), 200_000).unwrap();
    let logged = session.events().iter().any(|event| {
        matches!(&event.data, EventData::CompactionSummary(summary)
            if summary.usage.as_ref().is_some_and(|usage| usage.input_tokens == 180_000))
    });
    assert!(logged, "its cost is in the log");
    let measurement = measured(&session, &window(200_000));
    assert_eq!(measurement.total_tokens, measurement.surface_tokens);
}

#[test]
fn o29_overhead_that_no_fold_can_free_is_refused_before_any_call() {
    let mut session = session();
    let header = RequestHeader::new("p", "m").with_system(words(29_000));
    session.append(Draft::request_header(header)).unwrap();
    user(&mut session, "one");
    user(&mut session, "two");
    let policy = Policy { threshold_ratio: 0.85, ..Policy::default() };
    let mut summarizer = Scripted::default();
    let mut engine = engine(policy, RuleSet::Default);
    let before = session.revision();
    for _ in 0..3 {
        let error =
            compact(&mut engine, &mut session, Trigger::Pressure, &window(32_768), &mut summarizer).unwrap_err();
        assert_eq!(error.code(), "overhead");
        assert!(error.to_string().contains("29004"), "{error}");
    }
    assert_eq!((summarizer.requests.len(), session.revision()), (0, before));
}

#[test]
fn overhead_counts_as_the_provider_counts_where_that_is_more_than_the_estimate() {
    let mut session = session();
    let header = RequestHeader::new("p", "m").with_system(words(12_000));
    session.append(Draft::request_header(header)).unwrap();
    for turn in 0..4 {
        user(&mut session, &format!("Request {turn}: {}", words(500)));
        assistant(&mut session, &words(500), &[]);
    }
    let report = UsageReport { total_tokens: 32_000, revision: Some(session.revision()), is_sum: false };
    let mut summarizer = Scripted::default();
    let mut work =
        |situation: &Situation| compact(&mut standard(), &mut session, Trigger::Pressure, situation, &mut summarizer);
    let outcome = work(&window(32_768)).unwrap();
    assert!(matches!(outcome, Outcome::Unneeded(Reason::BelowLevel { .. })), "16,000 by the estimate: {outcome}");
    let error = work(&window(32_768).usage(report)).unwrap_err();
    assert!(error.code() == "overhead" && error.to_string().contains("an estimated 23"), "{error}");
    assert!(summarizer.requests.is_empty());
}

#[test]
fn o30_an_unknown_output_limit_leaves_a_small_window_usable() {
    let policy = Policy { reserve_output: true, threshold_ratio: 0.9, headroom_tokens: 16_000, ..Policy::default() };
    let of = |tokens| Window { tokens, origin: WindowOrigin::Host };
    for max_output in [None, Some(0), Some(32_000)] {
        let levels = Levels::new(&policy, Some(&of(16_384)), max_output).unwrap();
        assert_eq!(levels.trigger(), Some(8_192));
    }
    // No window at all: nothing is done ahead, and an overflow still is answered.
    let mut session = conversation(4, 800);
    let mut engine = engine(policy, RuleSet::Default);
    let unknown = Situation::new().window(0, WindowOrigin::Host).max_output(8_192);
    let mut summarizer = Scripted::default();
    let outcome = compact(&mut engine, &mut session, Trigger::Pressure, &unknown, &mut summarizer).unwrap();
    assert!(matches!(outcome, Outcome::Unneeded(Reason::WindowUnknown)));
    let overflow = Trigger::Overflow { reported: None };
    assert_eq!(compact(&mut engine, &mut session, overflow, &unknown, &mut summarizer).unwrap().code(), "compacted");
}

#[test]
fn o31_a_switch_to_a_smaller_window_is_checked_against_the_new_window() {
    let mut session = conversation(10, 800);
    let mut engine = standard();
    assert_eq!(run(&mut engine, &mut session, Trigger::ModelSwitch, 20_000).unwrap().code(), "unneeded");
    assert_eq!(run(&mut engine, &mut session, Trigger::ModelSwitch, 6_000).unwrap().code(), "compacted");
}

#[test]
fn o32_a_large_input_that_is_about_to_be_sent_makes_compaction_due_before_it_is_in_the_log() {
    let mut session = conversation(10, 800);
    answered(&mut session, "done", usage(9_000, 0, 0, 20));
    let paste = Message::user("paste", words(8_000));
    for unsent in [Unsent::Tokens(8_000), Unsent::Message(Box::new(paste))] {
        let situation = window(20_000).unsent(unsent);
        let measurement = measured(&session, &situation);
        assert_eq!(measurement.total_tokens, 9_020 + measurement.unsent_tokens);
        assert!((8_000..8_020).contains(&measurement.unsent_tokens), "{measurement:?}");
        assert_eq!(measured(&session, &window(20_000)).total_tokens, 9_020, "it is counted where it is stated");
        let step = standard().begin(&mut session, Trigger::Pressure, &situation).unwrap();
        let Step::Summarize(pending) = step else { panic!("{step:?}") };
        standard().abandon(&mut session, pending, Abandon::Dropped).unwrap();
    }
    assert_eq!(run(&mut standard(), &mut session, Trigger::Pressure, 20_000).unwrap().code(), "unneeded");
}

#[test]
fn o34_full_to_the_brim_is_due_however_little_pruning_frees() {
    // 98 % full; what can be pruned is a small share.
    let mut session = conversation(30, 400);
    assistant(&mut session, "", &["big"]);
    result(&mut session, "big", &words(2_300));
    let total = measured(&session, &window(1)).total_tokens;
    let outcome = run(&mut standard(), &mut session, Trigger::Pressure, total * 100 / 98).unwrap();
    let compacted = outcome.compacted().unwrap();
    assert_eq!((compacted.landed.pruned.pruned.len(), compacted.landed.folds.len()), (1, 1));
    assert!(compacted.after_tokens < total * 8 / 10);
}

#[test]
fn o35_nothing_to_fold_is_an_answer_that_ends_the_matter() {
    let mut session = session();
    for kind in ["agent-instructions", "rules", "environment", "reminder"] {
        injected(&mut session, kind, "x");
    }
    let before = session.revision();
    let mut engine = standard();
    let mut summarizer = Scripted::default();
    for _ in 0..3 {
        let overflow = Trigger::Overflow { reported: Some(1_000_000) };
        let outcome = compact(&mut engine, &mut session, overflow, &window(200_000), &mut summarizer).unwrap();
        assert!(matches!(outcome, Outcome::Unneeded(Reason::NoGain { .. } | Reason::NothingToFold)), "{outcome:?}");
    }
    assert_eq!((session.revision(), summarizer.requests.len()), (before, 0));
}

#[test]
fn o37_a_nested_compaction_is_busy() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    let mut nested = 0;
    let mut step = engine.begin(&mut session, Trigger::Pressure, &window(4_000)).unwrap();
    while let Step::Summarize(pending) = step {
        user(&mut session, "flushed memory");
        assert_eq!(engine.begin(&mut session, Trigger::Pressure, &window(4_000)).unwrap_err().code(), "busy");
        nested += 1;
        step = engine.resume(&mut session, pending, Answer::Good.reply()).unwrap();
    }
    assert_eq!(nested, 1);
    let summaries = session.events().iter().filter(|event| event.data.kind() == "compaction/summary").count();
    assert_eq!(summaries, 1);
}

#[test]
fn o38_after_an_attempt_without_progress_none_is_made_until_something_is_new() {
    // The tail alone is over the target: every further fold would be in vain.
    let mut session = conversation(2, 800);
    user(&mut session, &words(3_200));
    let mut engine = standard();
    let mut summarizer = Scripted::default();
    let error = compact(&mut engine, &mut session, Trigger::Pressure, &window(4_000), &mut summarizer).unwrap_err();
    assert_eq!((error.code(), error.landed.folds.len()), ("no-progress", 1));
    let asked = summarizer.requests.len();
    for _ in 0..50 {
        user(&mut session, "go");
        if measured(&session, &window(4_000)).surface_tokens > 3_300 + 150 {
            break;
        }
        let outcome = compact(&mut engine, &mut session, Trigger::Pressure, &window(4_000), &mut summarizer).unwrap();
        assert!(matches!(outcome, Outcome::Unneeded(Reason::NoProgressYet { .. })), "{outcome:?}");
    }
    assert_eq!(summarizer.requests.len(), asked);
    // Another window is another matter.
    let outcome = compact(&mut engine, &mut session, Trigger::Pressure, &window(100_000), &mut summarizer).unwrap();
    assert!(matches!(outcome, Outcome::Unneeded(Reason::BelowLevel { .. })));
}

#[test]
fn o39_a_single_huge_result_is_trimmed_and_keeps_its_pair() {
    let mut session = session();
    user(&mut session, "print it");
    assistant(&mut session, "", &["c"]);
    let seq = result(&mut session, "c", &words(95_000));
    let mut summarizer = Scripted::default();
    let outcome = compact(&mut standard(), &mut session, Trigger::Pressure, &window(100_000), &mut summarizer).unwrap();
    assert!(matches!(outcome, Outcome::Pruned(_)), "{outcome:?}");
    assert!(summarizer.requests.is_empty(), "no summary is paid for");
    assert!(is_whole(&session));
    let kept = session.nodes()[2].message.clone();
    let whole = session.message(seq).unwrap();
    assert_eq!((&kept.id, &kept.source, kept.role), (&whole.id, &whole.source, whole.role));
}

#[test]
fn o40_a_huge_result_in_the_kept_tail_does_not_survive_a_compaction() {
    let mut session = session();
    for _ in 0..4 {
        user(&mut session, &words(300));
    }
    assistant(&mut session, "", &["c"]);
    result(&mut session, "c", &words(150_000));
    let outcome = run(&mut standard(), &mut session, Trigger::Pressure, 26_200).unwrap();
    assert!(!matches!(outcome, Outcome::Unneeded(_)));
    assert!(measured(&session, &window(26_200)).total_tokens < 26_200 * 8 / 10);
}

#[test]
fn o40_what_grew_while_the_summary_was_written_is_pruned_after_it() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    let Step::Summarize(pending) = engine.begin(&mut session, Trigger::Pressure, &window(4_000)).unwrap() else {
        panic!()
    };
    assistant(&mut session, "", &["c"]);
    result(&mut session, "c", &words(9_000));
    match engine.resume(&mut session, pending, Answer::Good.reply()) {
        Ok(Step::Done(Outcome::Compacted(compacted))) => assert_eq!(compacted.landed.pruned.pruned.len(), 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn o41_the_tail_is_chosen_by_tokens_and_ends_well_below_the_trigger() {
    let mut session = session();
    for _ in 0..12 {
        user(&mut session, &words(200));
        assistant(&mut session, &words(200), &[]);
    }
    for _ in 0..8 {
        user(&mut session, &words(1_500));
    }
    let outcome = run(&mut standard(), &mut session, Trigger::Pressure, 10_000).unwrap();
    let after = outcome.compacted().unwrap().after_tokens;
    assert!(after <= 7_000, "{after} tokens, and the next trigger lies at 8,000");
    assert_eq!(run(&mut standard(), &mut session, Trigger::Pressure, 10_000).unwrap().code(), "unneeded");
}

#[test]
fn o42_one_endless_line_is_trimmed_at_character_borders_and_reads_back() {
    let endless = format!("start{}", "数".repeat((5 << 20) / 3));
    let mut session = session();
    assistant(&mut session, "", &["c"]);
    result(&mut session, "c", &endless);
    let mut file = Vec::new();
    session.write_jsonl(&mut file).unwrap();
    let mut session = Session::read_jsonl(file.as_slice()).unwrap().session;
    let mut meter = Meter::new(Pricing::harness(), MeterRules::DEFAULT);
    let plan = PrunePlan::trim(&session, &mut meter, &TrimPolicy::default()).unwrap();
    plan.apply(&mut session, 0).unwrap();
    let kept = session.nodes()[1].message.result().unwrap().content[0].as_text().unwrap().to_owned();
    assert!(kept.chars().count() <= 8_192 && kept.starts_with("start数") && kept.ends_with('数'));
}

#[test]
fn o51_a_checkpoint_is_never_the_newest_request() {
    let mut session = session();
    session.append(Draft::user(Message::user("u", words(900))).at(5)).unwrap();
    let request = session.append(Draft::user(Message::user("v", "and this")).at(5)).unwrap();
    let situation = window(2_000).now(5);
    let mut summarizer = Scripted::default();
    compact(&mut standard(), &mut session, Trigger::manual(), &situation, &mut summarizer).unwrap();
    assert!(session.nodes()[0].message.source.is_checkpoint() && session.nodes()[0].message.role == Role::User);
    assert_eq!(session.events().iter().map(|event| event.time).collect::<Vec<_>>(), [5; 6]);
    assert_eq!(session.newest_user_message(), Some(request));
    assert_eq!(texts(&session)[1], "and this");
}

#[test]
fn o52_folded_instructions_are_listed_so_that_one_copy_is_put_back() {
    let mut session = session();
    let rules = injected(&mut session, "agent-instructions", "Use tabs.");
    let environment = injected(&mut session, "environment", "cwd: /x");
    for _ in 0..3 {
        user(&mut session, &words(500));
    }
    let outcome = run(&mut standard(), &mut session, Trigger::manual(), 4_000).unwrap();
    assert_eq!(outcome.compacted().unwrap().fold().unwrap().injected_seqs, [rules, environment]);
}

#[test]
fn o57_a_result_below_its_budget_keeps_its_blocks() {
    let blocks = [Block::text("a"), Block::text("b")];
    assert_eq!(trim_content(&blocks, &TrimPolicy::default()), None);
}

#[test]
fn o58_a_compaction_that_is_cancelled_after_an_earlier_success_loses_nothing() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    run(&mut engine, &mut session, Trigger::manual(), 4_000).unwrap();
    for _ in 0..3 {
        user(&mut session, &words(500));
    }
    let surface = texts(&session);
    let mut cancelled = Scripted::new([Answer::Cancels]);
    let error = compact(&mut engine, &mut session, Trigger::manual(), &window(4_000), &mut cancelled).unwrap_err();
    assert_eq!(error.code(), "cancelled");
    assert_eq!(texts(&session), surface);
    user(&mut session, "still here");
    let mut file = Vec::new();
    session.write_jsonl(&mut file).unwrap();
    let read = Session::read_jsonl(file.as_slice()).unwrap().session;
    assert_eq!(texts(&read), texts(&session));
}

#[test]
fn o59_the_first_event_is_still_there_after_a_compaction() {
    let mut session = conversation(6, 800);
    let first = session.events()[1].to_json();
    run(&mut standard(), &mut session, Trigger::manual(), 4_000).unwrap();
    let mut file = Vec::new();
    session.write_jsonl(&mut file).unwrap();
    let read = Session::resume_jsonl(file.as_slice()).unwrap().session;
    assert_eq!(read.event(1).unwrap().to_json(), first);
    assert!(read.message(1).unwrap().text().starts_with("Request 1"));
}

#[test]
fn o60_what_is_written_during_a_compaction_stays_behind_its_checkpoint() {
    let hosted = Arc::new(Mutex::new(Hosted { engine: Box::new(standard()), session: conversation(6, 800) }));
    let mut future = compact_shared(Arc::clone(&hosted), Trigger::Pressure, window(4_000), Arc::new(Slow::new(1)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    for text in ["first", "second"] {
        user(&mut hosted.lock().unwrap().session, text);
    }
    let Poll::Ready(outcome) = future.as_mut().poll(&mut context) else { panic!() };
    outcome.unwrap();
    let texts = texts(&hosted.lock().unwrap().session);
    assert_eq!(texts[texts.len() - 2..], ["first", "second"]);
    assert!(texts[0].starts_with("<compacted-summary>"));
}

#[test]
fn o60_a_history_that_was_cleared_meanwhile_is_not_brought_back() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    let Step::Summarize(pending) = engine.begin(&mut session, Trigger::manual(), &window(4_000)).unwrap() else {
        panic!()
    };
    let seqs: Vec<Seq> = session.nodes().iter().map(|node| node.seq).collect();
    let cleared = Message::injected("clear", "notice", "cleared");
    session.append(Draft::user(cleared).replacing(seqs[0], seqs[seqs.len() - 1]).citing(seqs)).unwrap();
    let error = engine.resume(&mut session, pending, Answer::Good.reply()).unwrap_err();
    assert_eq!(error.code(), "changed");
    assert_eq!(texts(&session), ["cleared"]);
}

#[test]
fn o62_one_plan_is_applied_once() {
    let mut session = session();
    assistant(&mut session, "", &["c"]);
    result(&mut session, "c", &words(9_000));
    let mut meter = Meter::new(Pricing::harness(), MeterRules::DEFAULT);
    let plan = |session: &Session, meter: &mut Meter| PrunePlan::trim(session, meter, &TrimPolicy::default()).unwrap();
    let (first, second) = (plan(&session, &mut meter), plan(&session, &mut meter));
    first.apply(&mut session, 0).unwrap();
    let before = session.revision();
    let (error, report) = second.apply(&mut session, 0).unwrap_err();
    assert_eq!((error.code(), report.pruned.len(), session.revision()), ("not-on-surface", 0, before));
}

#[test]
fn o62_two_prepared_summaries_of_one_span_land_once() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    let mut ready = || {
        let Step::Summarize(pending) = engine.begin(&mut session, Trigger::Precompute, &window(4_000)).unwrap() else {
            panic!()
        };
        match engine.resume(&mut session, pending, Answer::Good.reply()).unwrap() {
            Step::Done(Outcome::Prepared(prepared)) => prepared,
            other => panic!("{other:?}"),
        }
    };
    let (first, second) = (ready(), ready());
    assert!(engine.begin(&mut session, Trigger::Commit(first), &window(4_000)).is_ok());
    let error = engine.begin(&mut session, Trigger::Commit(second), &window(4_000)).unwrap_err();
    assert_eq!(error.code(), "changed");
    let checkpoints = session.nodes().iter().filter(|node| node.message.source.is_checkpoint()).count();
    assert_eq!(checkpoints, 1);
}

#[test]
fn o63_a_replacement_that_nobody_priced_is_accepted_and_measured_by_what_stands() {
    let lines = [
        r#"{"type":"session","version":0,"id":"old","createdAt":0}"#,
        r#"{"type":"user/message","seq":0,"time":0,"data":{"content":[{"type":"text","text":"12345678"}],"source":{"kind":"user"},"role":"user","id":"a"},"surfaceOp":"append"}"#,
        r#"{"type":"user/message","seq":1,"time":0,"data":{"content":[{"type":"text","text":"1234"}],"source":{"kind":"plugin","plugin":"compact","compactionId":"c"},"role":"user","id":"b"},"sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":0}}"#,
    ];
    let session = Session::read_jsonl(lines.join("\n").as_bytes()).unwrap().session;
    let measurement = measured(&session, &Situation::new());
    assert_eq!((measurement.surface_tokens, measurement.total_tokens), (9, 9));
}

#[test]
fn o66_old_usage_that_arrives_after_a_fold_makes_nothing_due() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    let old = session.revision();
    run(&mut engine, &mut session, Trigger::manual(), 200_000).unwrap();
    let late = UsageReport { total_tokens: 345_000, revision: Some(old), is_sum: false };
    let situation = window(400_000).usage(late);
    let outcome = compact(&mut engine, &mut session, Trigger::Pressure, &situation, &mut Scripted::default()).unwrap();
    assert!(matches!(outcome, Outcome::Unneeded(Reason::BelowLevel { .. })), "{outcome:?}");
}

#[test]
fn o66_a_result_whose_call_was_folded_holds_no_cut_and_counts_for_no_pair() {
    let mut session = session();
    user(&mut session, &words(900));
    assistant(&mut session, "", &["late"]);
    session.append(Draft::turn_end(1)).unwrap();
    user(&mut session, "next");
    run(&mut standard(), &mut session, Trigger::manual(), 4_000).unwrap();
    result(&mut session, "late", &words(100));
    assert!(session.cuts().eq(0..=session.nodes().len()));
}

#[test]
fn o67_the_summary_model_is_asked_for_at_every_compaction() {
    let mut session = conversation(4, 800);
    let mut engine = standard();
    let mut asked = Vec::new();
    for model in ["first", "second"] {
        let situation = window(4_000).route(Route::new("p", model));
        let mut summarizer = Scripted::default();
        compact(&mut engine, &mut session, Trigger::manual(), &situation, &mut summarizer).unwrap();
        asked.push(summarizer.requests[0].route().unwrap().model.clone());
        for _ in 0..3 {
            user(&mut session, &words(500));
        }
    }
    assert_eq!(asked, ["first", "second"]);
}

#[test]
fn o69_a_summariser_that_never_answers_leaves_a_session_that_works() {
    let mut session = conversation(6, 800);
    let surface = texts(&session);
    let mut engine = standard();
    let Step::Summarize(pending) = engine.begin(&mut session, Trigger::manual(), &window(4_000)).unwrap() else {
        panic!()
    };
    engine.abandon(&mut session, pending, Abandon::TimedOut).unwrap();
    assert_eq!(texts(&session), surface);
    user(&mut session, "hello?");
    assert_eq!(run(&mut engine, &mut session, Trigger::manual(), 4_000).unwrap().code(), "compacted");
}
