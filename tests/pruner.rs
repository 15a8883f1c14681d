//! What the pruner does and leaves alone. `PROPTEST_CASES` sets how many random sessions are tried; 300 without it.

#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, reason = "so may what it calls")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use arya_presets::*;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::json;

use common::generate;
use common::sink::{Fault, Tape};
use common::summarizer::{Answer, Scripted};
use common::{Rng, assistant, conversation, drafts, engine, replayed, result, session, user, window, words};

fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 300;
    }
    config
}

fn meter() -> Meter {
    Meter::new(Pricing::new(std::sync::Arc::new(HarnessHeuristic), MediaPricing::default()), MeterRules::DEFAULT)
}

fn plan(session: &Session, policy: &PrunePolicy, budget: PruneBudget) -> PrunePlan {
    PrunePlan::new(session, &mut meter(), policy, budget).unwrap()
}

fn tokens(session: &Session) -> u64 {
    let mut meter = meter();
    meter.sync(session).unwrap();
    meter.surface_tokens()
}

/// A session of steps with parallel calls of many tools, whose results are long, short, failed, blank or more than text.
fn busy(seed: u64, steps: usize) -> Session {
    let mut rng = Rng::new(seed);
    let mut session = session();
    let constant_id = rng.chance(20);
    for step in 0..steps {
        if rng.chance(30) {
            user(&mut session, "Go on.");
        }
        let tools = ["read", "Read_File", "grep", "bash", "edit", "webfetch", "mystery", ""];
        let mut content = vec![Block::text("So:")];
        let mut ids = Vec::new();
        for call in 0..rng.index(4) {
            let id = if constant_id { "call".to_owned() } else { format!("c{step}-{call}") };
            let target = rng.pick(&["a", "b", "c"]);
            let arguments = rng.pick(&[
                json!({ "path": target, "url": target }).to_string(),
                json!({ "command": target }).to_string(),
                "no json".to_owned(),
            ]);
            content.push(Block::tool_call(id.clone(), rng.pick(&tools), arguments));
            ids.push(id);
        }
        let message = Message::assistant(format!("a{step}"), common::model(), content);
        session.append(Draft::assistant(1, 1, message, None).at(step as i64 * 1_000)).unwrap();
        for id in ids {
            let content = (0..=rng.index(3)).map(|_| body(&mut rng)).collect();
            let block = Block::ToolResult(ToolResult {
                tool_call_id: id.clone(),
                content,
                is_error: rng.pick(&[None, Some(false), Some(false), Some(true)]),
                extra: Extra::default(),
            });
            let message = Message::new(format!("r{}", session.revision()), Role::User, Source::tool(&id), vec![block]);
            session.append(Draft::tool_result(1, 1, message)).unwrap();
        }
    }
    session
}

fn body(rng: &mut Rng) -> Block {
    let length = usize::try_from(rng.scale(1, 3_000)).unwrap();
    match rng.below(20) {
        0 => Block::text(""),
        1 => Block::text(" \n"),
        2 => Block::text(CLEARED_MARKER),
        3 => serde_json::from_value(json!({"type": "image", "data": "QUJD"})).unwrap(),
        4 => Block::text("😀".repeat(length / 4)),
        _ => Block::text("abcd efgh\n".repeat(length).chars().take(length).collect::<String>()),
    }
}

fn trim(rng: &mut Rng) -> TrimPolicy {
    if rng.chance(30) {
        return generate::small_trim(rng);
    }
    let (head_chars, tail_chars) = (rng.index(300), rng.index(100));
    let marker = rng.pick(&["\n[... cut ...]\n", "…", ""]).to_owned();
    let threshold_chars = head_chars + tail_chars + marker.chars().count() + rng.index(200);
    TrimPolicy { threshold_chars, head_chars, tail_chars, marker }
}

fn policy(rng: &mut Rng) -> PrunePolicy {
    use ToolClass::{Edit, Read, Search, Shell, Web};
    let policy = PrunePolicy {
        trim: rng.chance(70).then(|| trim(rng)),
        clear_old: rng.chance(40).then(|| ClearOld {
            keep_recent_tool_results: rng.index(5),
            min_micro_compact_tokens: rng.pick(&[0, 1, 50, 500, 5_000]),
        }),
        clear_by_class: rng.chance(50).then(|| ClearByClass {
            keep_recent: rng.index(4),
            keep_recent_by_class: [Read, Search, Shell, Edit, Web]
                .into_iter()
                .filter(|_| rng.chance(30))
                .map(|class| (class, usize::from(class == Shell)))
                .collect(),
            trigger_chars: rng.pick(&[1, 100, 1_000, 5_000]),
        }),
        idle_clear_ms: rng.pick(&[0, 0, 1, 1_000]),
        tools: ToolTable::default(),
    };
    policy.validate().unwrap();
    policy
}

/// A session, a policy that may do anything to it, and what the pass knows beside.
fn case(seed: u64, size: usize) -> (Session, PrunePolicy, PruneBudget) {
    let mut rng = Rng::new(seed ^ 0xfeed);
    let session = if rng.chance(70) { busy(seed, size) } else { generate::session(seed, size * 2) };
    let policy = policy(&mut rng);
    let budget = PruneBudget {
        tail_tokens: rng.chance(50).then(|| rng.below(3) * rng.scale(1, 1_500)),
        now: rng.pick(&[
            None,
            Some(session.last_time()),
            Some(session.last_time().saturating_add(1_000)),
            Some(i64::MIN),
        ]),
    };
    (session, policy, budget)
}

const SIZE: usize = 12;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_second_pass_with_the_same_policy_budget_and_time_changes_nothing(seed: u64, size in 0..SIZE) {
        let (mut session, policy, budget) = case(seed, size);
        plan(&session, &policy, budget).apply(&mut session, 0).unwrap();
        let again = plan(&session, &policy, budget);
        prop_assert!(again.rewrites().is_empty(), "{:?}\n{policy:?}\n{budget:?}", again.rewrites());
    }

    #[test]
    fn what_a_plan_says_it_frees_is_what_the_meter_then_measures(seed: u64, size in 0..SIZE) {
        let (mut session, policy, budget) = case(seed, size);
        let before = tokens(&session);
        let plan = plan(&session, &policy, budget);
        let planned = plan.tokens_freed();
        let report = plan.apply(&mut session, 0).unwrap();
        prop_assert_eq!(report.tokens_freed(), planned);
        prop_assert_eq!(before.checked_sub(tokens(&session)), Some(planned));
        for pruned in &report.pruned {
            let mut meter = meter();
            meter.sync(&session).unwrap();
            prop_assert_eq!(meter.price(pruned.replacement_seq), pruned.tokens_after);
            prop_assert!(pruned.reason.clears() || pruned.chars_after < pruned.chars_before);
        }
    }

    #[test]
    fn pairs_stay_whole_and_nodes_keep_their_places(seed: u64, size in 0..SIZE) {
        let (mut session, policy, budget) = case(seed, size);
        let before = replayed(&session);
        plan(&session, &policy, budget).apply(&mut session, 0).unwrap();
        prop_assert_eq!(session.nodes().len(), before.nodes().len());
        prop_assert!(session.cuts().eq(before.cuts()));
        prop_assert!(session.cuts().eq(common::reference::cuts(&session)));
        for (old, new) in before.nodes().iter().zip(session.nodes()) {
            prop_assert_eq!(old.kind, new.kind);
            let ids = |node: &Node| node.message.result().map(|result| result.tool_call_id.clone());
            prop_assert_eq!(ids(old), ids(new));
        }
        prop_assert_eq!(&replayed(&session), &session);
    }

    #[test]
    fn nothing_outside_the_plan_changes_a_byte(seed: u64, size in 0..SIZE) {
        let (mut session, policy, budget) = case(seed, size);
        let before = replayed(&session);
        let plan = plan(&session, &policy, budget);
        let planned: BTreeMap<Seq, PruneReason> = plan.rewrites().iter().map(|r| (r.seq, r.reason)).collect();
        plan.apply(&mut session, 0).unwrap();
        let json = |events: &[Event]| -> Vec<String> { events.iter().map(Event::to_json).collect() };
        prop_assert_eq!(json(&session.events()[..before.events().len()]), json(before.events()));
        for (old, new) in before.nodes().iter().zip(session.nodes()) {
            let Some(reason) = planned.get(&old.seq) else {
                prop_assert_eq!(old, new);
                continue;
            };
            // Only the content of the block differs, and of that only texts.
            let (was, is) = (old.message.result().unwrap(), new.message.result().unwrap());
            let mut message = (*new.message).clone();
            let [Block::ToolResult(block)] = message.content.as_mut_slice() else { panic!("{message:?}") };
            block.content.clone_from(&was.content);
            prop_assert_eq!(&message, &*old.message);
            let rich = |result: &ToolResult| -> Vec<Block> {
                result.content.iter().filter(|block| block.as_text().is_none()).cloned().collect()
            };
            prop_assert_eq!(rich(was), rich(is));
            if reason.clears() {
                prop_assert_eq!(&is.content, &vec![Block::text(CLEARED_MARKER)]);
            }
        }
    }

    #[test]
    fn the_newest_step_errors_blanks_and_rich_results_are_never_cleared(seed: u64, size in 0..SIZE) {
        let (session, policy, budget) = case(seed, size);
        let plan = plan(&session, &policy, budget);
        let newest = session.nodes().iter().rposition(Node::is_assistant).unwrap_or(usize::MAX);
        for rewrite in plan.rewrites() {
            let position = session.position(rewrite.seq).unwrap();
            let result = session.message(rewrite.seq).unwrap().result().unwrap();
            if rewrite.reason.clears() {
                prop_assert!(newest == usize::MAX || position < newest);
                prop_assert!(result.is_error != Some(true));
                prop_assert!(result.content.iter().all(|block| block.as_text().is_some()));
                prop_assert!(result.content.iter().any(|block| !block.as_text().unwrap().trim().is_empty()));
                prop_assert!(rewrite.tokens_after < rewrite.tokens_before);
            }
            if rewrite.reason == PruneReason::ParallelOverBudget {
                prop_assert!(position > newest);
                prop_assert!(rewrite.tokens_after < rewrite.tokens_before);
            }
        }
        let rewritten: BTreeSet<Seq> = plan.rewrites().iter().map(|rewrite| rewrite.seq).collect();
        prop_assert!(plan.kept().iter().all(|(seq, _)| !rewritten.contains(seq)));
        if policy.clear_old.is_some() || policy.clear_by_class.is_some() {
            // Every result has its fate and its reason.
            let results = session.nodes().iter().filter(|node| node.kind == NodeKind::ToolResult).count();
            prop_assert_eq!(plan.kept().len() + plan.rewrites().len(), results);
        }
    }

    #[test]
    fn every_rewritten_text_can_be_read_back_by_its_seq(seed: u64, size in 0..SIZE) {
        let (mut session, policy, budget) = case(seed, size);
        let before = replayed(&session);
        let report = plan(&session, &policy, budget).apply(&mut session, 0).unwrap();
        for pruned in &report.pruned {
            prop_assert_eq!(session.message(pruned.original_seq), before.message(pruned.original_seq));
            prop_assert_eq!(session.shadowed_by(pruned.replacement_seq), Some(&[pruned.original_seq][..]));
            let metering = &session.event(pruned.replacement_seq - 1).unwrap().data;
            let EventData::CompactionPrune(metering) = metering else { panic!("{metering:?}") };
            prop_assert_eq!(&metering.shadowed_seqs, &vec![pruned.original_seq]);
            prop_assert_eq!(metering.shadowed_token_count, pruned.tokens_before);
        }
    }

    #[test]
    fn planning_is_pure_and_repeatable(seed: u64, size in 0..SIZE) {
        let (session, policy, budget) = case(seed, size);
        let before = replayed(&session);
        let first = plan(&session, &policy, budget);
        prop_assert_eq!(&session, &before);
        prop_assert_eq!(&first, &plan(&session, &policy, budget));
        prop_assert_eq!(&first, &plan(&before, &policy, budget));
        // A meter that has followed the session event by event plans the same.
        let mut followed = Session::with_header(before.header().clone());
        let mut meter = meter();
        for draft in drafts(&before) {
            followed.append(draft).unwrap();
            meter.sync(&followed).unwrap();
        }
        prop_assert_eq!(first, PrunePlan::new(&followed, &mut meter, &policy, budget).unwrap());
    }

    #[test]
    fn a_pass_that_is_refused_half_way_leaves_exactly_the_reported_rewrites(seed: u64, size in 1..SIZE, at in 0..6usize) {
        let (mut session, policy, budget) = case(seed, size);
        let before = replayed(&session);
        let whole = plan(&session, &policy, budget);
        let wanted: Vec<Seq> = whole.rewrites().iter().map(|rewrite| rewrite.seq).collect();
        let tape = Tape::failing(Fault { at, times: 1, panics: false });
        session.set_sink(tape.sink());
        let report = match whole.apply(&mut session, 0) {
            Ok(report) => {
                prop_assert!(wanted.len() <= at);
                report
            }
            Err((error, report)) => {
                prop_assert_eq!(error.code(), "sink");
                prop_assert_eq!(report.pruned.len(), at);
                report
            }
        };
        let landed: Vec<Seq> = report.pruned.iter().map(|pruned| pruned.original_seq).collect();
        prop_assert_eq!(&landed[..], &wanted[..landed.len()]);
        for (old, new) in before.nodes().iter().zip(session.nodes()) {
            prop_assert_eq!(old.seq != new.seq, landed.contains(&old.seq));
        }
        prop_assert_eq!(&session.events()[before.events().len()..], tape.kept());
        prop_assert_eq!(session.events().len(), before.events().len() + 2 * landed.len());
        // The rest of the pass can be made up for, and then all is as if nothing had been refused.
        tape.mend();
        plan(&session, &policy, budget).apply(&mut session, 0).unwrap();
        prop_assert_eq!(&replayed(&session), &session);
    }
}

/// One step: an answer that calls tools with a target each, and their results.
fn step(session: &mut Session, calls: &[(&str, &str, &str)]) -> Vec<Seq> {
    let first = session.revision();
    let ids: Vec<String> = (0..calls.len()).map(|at| format!("call-{first}-{at}")).collect();
    let with_ids: Vec<_> =
        calls.iter().zip(&ids).map(|((tool, target, text), id)| (id.as_str(), *tool, *target, *text)).collect();
    step_with_ids(session, &with_ids)
}

fn step_with_ids(session: &mut Session, calls: &[(&str, &str, &str, &str)]) -> Vec<Seq> {
    let blocks = calls
        .iter()
        .map(|(id, tool, target, _)| {
            let key = if *tool == "bash" { "command" } else { "path" };
            let key = if *tool == "webfetch" { "url" } else { key };
            Block::tool_call(*id, *tool, json!({ key: target }).to_string())
        })
        .collect();
    let message = Message::assistant(format!("a{}", session.revision()), common::model(), blocks);
    session.append(Draft::assistant(1, 1, message, None)).unwrap();
    calls.iter().map(|(id, _, _, text)| result(session, id, text)).collect()
}

fn only_old(keep: usize, least: u64) -> PrunePolicy {
    let clear_old = ClearOld { keep_recent_tool_results: keep, min_micro_compact_tokens: least };
    PrunePolicy { clear_old: Some(clear_old), ..PrunePolicy::off() }
}

fn by_class(keep_recent: usize, trigger_chars: usize) -> PrunePolicy {
    let clear = ClearByClass { keep_recent, trigger_chars, ..ClearByClass::default() };
    PrunePolicy { clear_by_class: Some(clear), ..PrunePolicy::off() }
}

fn rewritten(plan: &PrunePlan) -> Vec<Seq> {
    plan.rewrites().iter().map(|rewrite| rewrite.seq).collect()
}

fn kept(plan: &PrunePlan, why: KeptBecause) -> Vec<Seq> {
    plan.kept().iter().filter(|(_, reason)| *reason == why).map(|(seq, _)| *seq).collect()
}

fn none() -> PruneBudget {
    PruneBudget::default()
}

#[test]
fn what_was_cleared_already_does_not_count_among_the_recent_ones_again() {
    let mut session = session();
    let long = words(100);
    let seqs: Vec<Seq> = (0..5).flat_map(|_| step(&mut session, &[("bash", "ls", &long)])).collect();
    assistant(&mut session, "Done.", &[]);
    let first = plan(&session, &only_old(2, 0), none());
    assert_eq!(rewritten(&first), seqs[..3]);
    assert_eq!(kept(&first, KeptBecause::Recent), seqs[3..]);
    first.apply(&mut session, 0).unwrap();
    let sixth = step(&mut session, &[("bash", "ls", &long)]);
    assistant(&mut session, "Done.", &[]);
    let second = plan(&session, &only_old(2, 0), none());
    assert_eq!(rewritten(&second), seqs[3..4]);
    assert_eq!(kept(&second, KeptBecause::AlreadyCleared).len(), 3);
    assert_eq!(kept(&second, KeptBecause::Recent), [seqs[4], sixth[0]]);
}

#[test]
fn a_tool_that_really_answers_with_the_marker_was_not_cleared() {
    let mut session = session();
    let seqs = step(&mut session, &[("bash", "echo", CLEARED_MARKER)]);
    assistant(&mut session, "Done.", &[]);
    let plan = plan(&session, &only_old(0, 0), none());
    assert!(plan.rewrites().is_empty());
    assert_eq!(kept(&plan, KeptBecause::NoGain), seqs);
}

#[test]
fn as_many_recent_results_as_there_are_leaves_nothing_to_clear() {
    let mut session = session();
    let seqs: Vec<Seq> = (0..3).flat_map(|_| step(&mut session, &[("bash", "ls", &words(100))])).collect();
    assistant(&mut session, "Done.", &[]);
    for (keep, cleared) in [(0, 3), (2, 1), (3, 0), (4, 0), (usize::MAX, 0)] {
        assert_eq!(rewritten(&plan(&session, &only_old(keep, 0), none())), seqs[..cleared], "keep {keep}");
    }
}

#[test]
fn the_minimum_counts_what_trimming_frees_and_binds_clearing_alone() {
    let mut session = session();
    let old = step(&mut session, &[("bash", "ls", &words(100))]);
    let recent = step(&mut session, &[("bash", "ls", &words(1_000))]);
    assistant(&mut session, "Done.", &[]);
    let small = TrimPolicy { threshold_chars: 1_000, head_chars: 400, tail_chars: 400, marker: "…".into() };
    let policy = |least| PrunePolicy { trim: Some(small.clone()), ..only_old(1, least) };
    let freed = plan(&session, &policy(0), none()).tokens_freed();
    let trimmed = plan(&session, &PrunePolicy::trimming(small.clone()), none()).tokens_freed();
    assert!(trimmed > 0 && trimmed < freed);
    let enough = plan(&session, &policy(freed), none());
    assert_eq!(rewritten(&enough), [old[0], recent[0]]);
    assert_eq!(enough.rewrites()[0].reason, PruneReason::ClearedOld);
    assert_eq!(enough.rewrites()[1].reason, PruneReason::Trimmed);
    let too_little = plan(&session, &policy(freed + 1), none());
    assert_eq!(rewritten(&too_little), recent);
    assert_eq!(kept(&too_little, KeptBecause::BelowMinimum), old);
}

#[test]
fn clearing_by_size_begins_above_the_trigger_and_stops_at_half_of_it() {
    let mut session = session();
    let hundred = "x".repeat(100);
    let seqs: Vec<Seq> = (0..10).flat_map(|_| step(&mut session, &[("bash", "ls", &hundred)])).collect();
    assistant(&mut session, "Done.", &[]);
    assert!(plan(&session, &by_class(0, 1_000), none()).rewrites().is_empty());
    let over = plan(&session, &by_class(0, 999), none());
    // 1,000 characters, down to 499 at most.
    assert_eq!(rewritten(&over), seqs[..6]);
    assert_eq!(kept(&over, KeptBecause::WithinSize), seqs[6..]);
    assert!(over.rewrites().iter().all(|rewrite| rewrite.reason == PruneReason::ClearedByClass));
    // Protected results count toward the size and stay.
    let over = plan(&session, &by_class(7, 999), none());
    assert_eq!(rewritten(&over), seqs[..3]);
    assert_eq!(kept(&over, KeptBecause::Recent), seqs[3..]);
}

#[test]
fn the_newest_result_about_each_target_stays_and_classes_are_told_apart() {
    let mut session = session();
    let text = words(50);
    let calls =
        [("read", "a"), ("read", "b"), ("edit", "a"), ("read", "a"), ("grep", "b"), ("read", "b"), ("read", "c")];
    let seqs: Vec<Seq> = calls.iter().flat_map(|(tool, target)| step(&mut session, &[(tool, target, &text)])).collect();
    assistant(&mut session, "Done.", &[]);
    let plan = plan(&session, &by_class(0, 1), none());
    assert_eq!(rewritten(&plan), seqs[..2]);
    assert_eq!(kept(&plan, KeptBecause::NewestOfTarget), seqs[2..]);
}

#[test]
fn a_class_with_its_own_count_keeps_that_many_and_the_others_share_theirs() {
    let mut session = session();
    let text = words(50);
    let bash: Vec<Seq> = (0..3).flat_map(|_| step(&mut session, &[("bash", "ls", &text)])).collect();
    let reads: Vec<Seq> = (0..3).flat_map(|_| step(&mut session, &[("read", "a", &text)])).collect();
    assistant(&mut session, "Done.", &[]);
    let policy = |shell| {
        let counts = BTreeMap::from([(ToolClass::Shell, shell)]);
        let clear = ClearByClass { keep_recent: 1, keep_recent_by_class: counts, trigger_chars: 1 };
        PrunePolicy { clear_by_class: Some(clear), ..PrunePolicy::off() }
    };
    for shell in 0..=3 {
        let mut cleared = bash[..3 - shell].to_vec();
        cleared.extend(&reads[..2]);
        assert_eq!(rewritten(&plan(&session, &policy(shell), none())), cleared, "{shell} of the shell");
    }
}

#[test]
fn a_tool_of_no_class_is_cleared_by_age_alone() {
    let mut session = session();
    let text = words(50);
    let seqs = step(&mut session, &[("mystery", "a", &text), ("READ", "a", &text)]);
    step(&mut session, &[("read", "a", &text)]);
    assistant(&mut session, "Done.", &[]);
    let by_size = plan(&session, &by_class(0, 1), none());
    assert_eq!(rewritten(&by_size), seqs[1..]);
    assert_eq!(kept(&by_size, KeptBecause::OtherTool), seqs[..1]);
    let now = Some(i64::MAX);
    let idle = PrunePolicy { idle_clear_ms: 1, ..PrunePolicy::off() };
    let idle = plan(&session, &idle, PruneBudget { now, ..none() });
    assert!(!rewritten(&idle).contains(&seqs[0]));
    assert!(rewritten(&plan(&session, &only_old(0, 0), none())).contains(&seqs[0]));
}

#[test]
fn a_call_id_that_comes_again_means_the_newest_call_before_the_result() {
    let mut session = session();
    let text = words(50);
    let other = step_with_ids(&mut session, &[("call", "mystery", "a", &text)]);
    let read = step_with_ids(&mut session, &[("call", "read", "a", &text)]);
    let again = step_with_ids(&mut session, &[("call", "read", "a", &text)]);
    assistant(&mut session, "Done.", &[]);
    let plan = plan(&session, &by_class(0, 1), none());
    assert_eq!(kept(&plan, KeptBecause::OtherTool), other);
    assert_eq!(rewritten(&plan), read);
    assert_eq!(kept(&plan, KeptBecause::NewestOfTarget), again);
}

#[test]
fn parallel_calls_that_share_an_id_are_told_apart_by_their_order() {
    let mut session = session();
    let text = words(50);
    let seqs = step_with_ids(
        &mut session,
        &[("read", "mystery", "a", &text), ("read", "read", "b", &text), ("read", "read", "c", &text)],
    );
    // b is read again; c is not.
    let again = step_with_ids(&mut session, &[("read", "read", "b", &text)]);
    assistant(&mut session, "Done.", &[]);
    let plan = plan(&session, &by_class(0, 1), none());
    assert_eq!(kept(&plan, KeptBecause::OtherTool), seqs[..1]);
    assert_eq!(rewritten(&plan), seqs[1..2]);
    assert_eq!(plan.rewrites()[0].path.as_deref(), Some("b"));
    assert_eq!(kept(&plan, KeptBecause::NewestOfTarget), [seqs[2], again[0]]);
}

#[test]
fn idleness_begins_exactly_at_its_limit_and_needs_a_clock_that_goes_forward() {
    let mut session = session();
    let seqs = step(&mut session, &[("bash", "ls", &words(50))]);
    let message = Message::assistant("done", common::model(), vec![Block::text("Done.")]);
    session.append(Draft::assistant(1, 1, message, None).at(10_000)).unwrap();
    // What comes after the answer does not count.
    session.append(Draft::user(Message::user("later", "Hm.")).at(60_000)).unwrap();
    let keep_none = ClearByClass { keep_recent: 0, trigger_chars: usize::MAX, ..ClearByClass::default() };
    let policy =
        |idle_clear_ms| PrunePolicy { clear_by_class: Some(keep_none.clone()), idle_clear_ms, ..PrunePolicy::off() };
    let cases = [
        (5_000, Some(14_999), false),
        (5_000, Some(15_000), true),
        (5_000, Some(9_000), false),
        (5_000, Some(i64::MIN), false),
        (5_000, Some(i64::MAX), true),
        (5_000, None, false),
        (0, Some(i64::MAX), false),
        (1, Some(10_000), false),
        (u64::MAX, Some(i64::MAX), false),
    ];
    for (limit, now, clears) in cases {
        let plan = plan(&session, &policy(limit), PruneBudget { now, ..none() });
        assert_eq!(rewritten(&plan), if clears { seqs.clone() } else { Vec::new() }, "{limit} ms at {now:?}");
        assert!(plan.rewrites().iter().all(|rewrite| rewrite.reason == PruneReason::ClearedIdle));
    }
}

#[test]
fn idleness_without_settings_by_class_keeps_the_newest_five() {
    let mut session = session();
    let seqs: Vec<Seq> = (0..7).flat_map(|_| step(&mut session, &[("bash", "ls", &words(50))])).collect();
    assistant(&mut session, "Done.", &[]);
    let policy = PrunePolicy { idle_clear_ms: 1, ..PrunePolicy::off() };
    assert_eq!(rewritten(&plan(&session, &policy, PruneBudget { now: Some(1), ..none() })), seqs[..2]);
}

#[test]
fn of_parallel_results_over_the_tails_budget_the_largest_are_cut_until_they_fit() {
    let mut session = session();
    let texts = [words(900), words(20), words(2_000), words(100)];
    let calls: Vec<(&str, &str, &str)> = texts.iter().map(|text| ("bash", "ls", text.as_str())).collect();
    let seqs = step(&mut session, &calls);
    let policy = PrunePolicy::default();
    let price = |plan: PrunePlan| {
        let mut after = replayed(&session);
        plan.apply(&mut after, 0).unwrap();
        let mut meter = meter();
        meter.sync(&after).unwrap();
        let results = after.nodes().iter().filter(|node| node.kind == NodeKind::ToolResult);
        results.map(|node| meter.price(node.seq)).collect::<Vec<u64>>()
    };
    let whole = price(PrunePlan::default());
    let all: u64 = whole.iter().sum();
    let cut = |tail: u64| plan(&session, &policy, PruneBudget { tail_tokens: Some(tail), ..none() });
    assert!(cut(all).rewrites().is_empty());
    for (tail, largest) in [(all - 1, vec![seqs[2]]), (2_100, vec![seqs[2]]), (1_500, vec![seqs[0], seqs[2]])] {
        let plan = cut(tail);
        assert_eq!(rewritten(&plan), largest, "{tail}");
        assert!(plan.rewrites().iter().all(|rewrite| rewrite.reason == PruneReason::ParallelOverBudget));
        let after = price(plan);
        assert!(after.iter().sum::<u64>() <= tail, "{after:?} for {tail}");
        assert_eq!((after[1], after[3]), (whole[1], whole[3]));
    }
    // So much is used as there is, but for a token or so at each cut.
    let after: u64 = price(cut(1_500)).iter().sum();
    assert!(after > 1_400, "{after}");
    // Without trimming, and for results that stand alone, there is no such cut.
    let budget = PruneBudget { tail_tokens: Some(10), ..none() };
    assert!(plan(&session, &PrunePolicy::off(), budget).rewrites().is_empty());
    let mut alone = common::session();
    step(&mut alone, &[("bash", "ls", &words(1_000))]);
    assert!(plan(&alone, &policy, budget).rewrites().is_empty());
    // And none once the model has spoken again.
    assistant(&mut session, "Done.", &[]);
    assert!(plan(&session, &policy, budget).rewrites().is_empty());
}

#[test]
fn pictures_in_parallel_results_are_not_cut_and_the_texts_beside_them_are_cut_once() {
    let mut session = session();
    let picture: Block = serde_json::from_value(json!({"type": "image", "data": "QUJD"})).unwrap();
    assistant(&mut session, "", &["one", "two"]);
    for id in ["one", "two"] {
        let content = vec![Block::text(words(1_500)), picture.clone()];
        let block = ToolResult { tool_call_id: id.into(), content, is_error: Some(false), extra: Extra::default() };
        let message = Message::new(id, Role::User, Source::tool(id), vec![Block::ToolResult(block)]);
        session.append(Draft::tool_result(1, 1, message)).unwrap();
    }
    let budget = PruneBudget { tail_tokens: Some(2_000), ..none() };
    let policy = PrunePolicy::default();
    let report = plan(&session, &policy, budget).apply(&mut session, 0).unwrap();
    assert_eq!(report.pruned.len(), 2);
    for pruned in &report.pruned {
        let result = session.message(pruned.replacement_seq).unwrap().result().unwrap();
        assert_eq!(result.content.last(), Some(&picture));
    }
    assert!(plan(&session, &policy, budget).rewrites().is_empty());
}

#[test]
fn a_result_that_takes_fewer_tokens_than_its_trimmed_form_is_left_alone() {
    let trim = TrimPolicy { threshold_chars: 60, head_chars: 12, tail_chars: 6, ..TrimPolicy::default() };
    trim.validate().unwrap();
    let policy = PrunePolicy::trimming(trim);
    let plan = |text: &str| {
        let mut session = session();
        step(&mut session, &[("bash", "ls", text)]);
        PrunePlan::new(&session, &mut Meter::new(Pricing::default(), MeterRules::DEFAULT), &policy, none()).unwrap()
    };
    assert_eq!(plan(&" ".repeat(61)).rewrites(), [], "a run of blanks is a token or two, and the marker takes more");
    let long = plan(&words(40));
    assert_eq!(long.rewrites().len(), 1);
    assert!(long.tokens_freed() > 0);
}

fn path_policy() -> PrunePolicy {
    only_old(1, 0)
}

#[test]
fn a_file_that_left_the_surface_is_named_once() {
    let mut session = session();
    let text = words(50);
    for target in ["a", "a", "b"] {
        step(&mut session, &[("read", target, &text)]);
    }
    step(&mut session, &[("grep", "a", &text)]);
    step(&mut session, &[("bash", "a", &text)]);
    assistant(&mut session, "Done.", &[]);
    let report = plan(&session, &path_policy(), none()).apply(&mut session, 0).unwrap();
    assert_eq!(report.pruned.len(), 4);
    assert_eq!((report.evicted_paths, report.unresolved_evictions), (vec!["a".to_owned(), "b".to_owned()], 0));
}

#[test]
fn a_file_that_was_read_again_and_still_stands_is_not_named() {
    let mut session = session();
    step(&mut session, &[("read", "a", &words(50))]);
    step(&mut session, &[("read", "a", &words(60))]);
    assistant(&mut session, "Done.", &[]);
    let report = plan(&session, &path_policy(), none()).apply(&mut session, 0).unwrap();
    assert_eq!(report.pruned.len(), 1);
    assert_eq!(report.evicted_paths, Vec::<String>::new());
}

#[test]
fn a_second_read_that_failed_or_came_back_blank_does_not_keep_a_file_on_the_surface() {
    for (text, is_error) in [("no such file", true), (" \n", false)] {
        let mut session = session();
        step(&mut session, &[("read", "a", &words(50))]);
        let message = Message::assistant(
            "again",
            common::model(),
            vec![Block::tool_call("again", "read", json!({"path": "a"}).to_string())],
        );
        session.append(Draft::assistant(1, 1, message, None)).unwrap();
        session.append(Draft::tool_result(1, 1, Message::tool_result("r", "again", text, is_error))).unwrap();
        assistant(&mut session, "Done.", &[]);
        let report = plan(&session, &only_old(0, 0), none()).apply(&mut session, 0).unwrap();
        assert_eq!(report.evicted_paths, ["a"], "{text:?}");
    }
}

#[test]
fn a_file_of_which_only_head_and_tail_stand_is_not_on_the_surface() {
    let mut session = session();
    step(&mut session, &[("read", "a", &words(100))]);
    step(&mut session, &[("read", "a", &words(9_000))]);
    assistant(&mut session, "Done.", &[]);
    let policy = PrunePolicy { trim: Some(TrimPolicy::default()), ..only_old(2, 0) };
    let first = plan(&session, &policy, none()).apply(&mut session, 0).unwrap();
    assert_eq!((first.pruned.len(), first.evicted_paths.len()), (1, 0), "the older one still shows all of it");
    let second = plan(&session, &only_old(1, 0), none()).apply(&mut session, 0).unwrap();
    assert_eq!(second.evicted_paths, ["a"]);
}

#[test]
fn a_read_whose_file_is_not_known_is_counted() {
    let mut session = session();
    for (id, arguments) in [("one", "{}"), ("two", "no json"), ("three", r#"{"path":7}"#)] {
        let message = Message::assistant(id, common::model(), vec![Block::tool_call(id, "read", arguments)]);
        session.append(Draft::assistant(1, 1, message, None)).unwrap();
        result(&mut session, id, &words(50));
    }
    step(&mut session, &[("bash", "ls", &words(50))]);
    assistant(&mut session, "Done.", &[]);
    let plan = plan(&session, &only_old(0, 0), none());
    let tape = Tape::failing(Fault { at: 2, times: 1, panics: false });
    let mut refused = replayed(&session);
    refused.set_sink(tape.sink());
    let (_, half) = plan.clone().apply(&mut refused, 0).unwrap_err();
    assert_eq!(half.unresolved_evictions, 2);
    let report = plan.apply(&mut session, 0).unwrap();
    assert_eq!((report.pruned.len(), report.unresolved_evictions), (4, 3));
}

#[test]
fn a_plan_is_refused_where_its_result_is_no_longer_on_the_surface() {
    let mut session = session();
    step(&mut session, &[("bash", "ls", &words(50))]);
    assistant(&mut session, "Done.", &[]);
    let plan = plan(&session, &only_old(0, 0), none());
    plan.clone().apply(&mut session, 0).unwrap();
    let landed = replayed(&session);
    let (error, report) = plan.apply(&mut session, 0).unwrap_err();
    assert_eq!(error.code(), "not-on-surface");
    assert_eq!((report, session), (PruneReport::default(), landed));
}

#[test]
fn a_plan_lands_only_on_the_results_that_it_was_made_from() {
    let with = |id: &str, chars: usize| {
        let mut session = session();
        step_with_ids(&mut session, &[(id, "bash", "ls", &"x".repeat(chars))]);
        assistant(&mut session, "Done.", &[]);
        session
    };
    let plan = plan(&with("a", 900), &only_old(0, 0), none());
    for mut other in [with("b", 900), with("a", 901)] {
        let before = replayed(&other);
        let (error, report) = plan.clone().apply(&mut other, 0).unwrap_err();
        assert_eq!((error.code(), report), ("result-rewrite", PruneReport::default()));
        assert_eq!(other, before);
    }
    assert_eq!(plan.apply(&mut with("a", 900), 0).unwrap().pruned.len(), 1, "the same conversation, loaded again");
}

#[test]
fn times_of_rewrites_never_run_backwards() {
    let mut session = session();
    step(&mut session, &[("bash", "ls", &words(50))]);
    session.append(Draft::user(Message::user("late", "Hm.")).at(500)).unwrap();
    assistant(&mut session, "Done.", &[]);
    plan(&session, &only_old(0, 0), none()).apply(&mut session, 100).unwrap();
    assert_eq!(session.last_time(), 500);
}

/// A conversation of about 900 tokens with a result of 10,000.
fn with_a_huge_result() -> Session {
    let mut session = conversation(3, 300);
    user(&mut session, "And this one?");
    assistant(&mut session, "", &["huge"]);
    result(&mut session, "huge", &words(10_000));
    assistant(&mut session, "It is long.", &[]);
    session
}

#[test]
fn where_pruning_frees_enough_no_summary_is_asked_for() {
    let mut session = with_a_huge_result();
    let mut summarizer = Scripted::default();
    let mut engine = engine(Policy::default(), RuleSet::Default);
    let outcome = compact(&mut engine, &mut session, Trigger::Pressure, &window(8_000), &mut summarizer).unwrap();
    let Outcome::Pruned(report) = outcome else { panic!("{outcome}") };
    assert_eq!(report.pruned.len(), 1);
    assert!(summarizer.requests.is_empty());
    assert!(!session.events().iter().any(|event| event.data.kind() == "compaction/start"));
}

#[test]
fn where_pruning_does_not_free_enough_a_summary_follows_and_both_are_reported() {
    let mut session = with_a_huge_result();
    let mut summarizer = Scripted::default();
    let mut engine = engine(Policy::default(), RuleSet::Default);
    let outcome = compact(&mut engine, &mut session, Trigger::Pressure, &window(2_500), &mut summarizer).unwrap();
    let compacted = outcome.compacted().unwrap();
    assert_eq!(summarizer.requests.len(), 1);
    assert_eq!((compacted.landed.pruned.pruned.len(), compacted.landed.folds.len()), (1, 1));
    let first = |kind: &str| session.events().iter().position(|event| event.data.kind() == kind).unwrap();
    assert!(first("compaction/prune") < first("compaction/start"));
}

#[test]
fn after_a_fold_that_ends_over_its_target_the_tail_is_pruned() {
    let mut session = conversation(20, 400);
    let mut engine = engine(Policy { compaction_retries: 0, ..Policy::default() }, RuleSet::Default);
    let step = engine.begin(&mut session, Trigger::Pressure, &window(10_000)).unwrap();
    let Step::Summarize(pending) = step else { panic!("{step:?}") };
    // While the summary is written, a long result comes in.
    assistant(&mut session, "", &["huge"]);
    let huge = result(&mut session, "huge", &words(9_000));
    let step = engine.resume(&mut session, pending, Answer::Good.reply()).unwrap();
    let Step::Done(Outcome::Compacted(compacted)) = step else { panic!("{step:?}") };
    assert_eq!(compacted.landed.folds.len(), 1);
    assert_eq!(compacted.landed.pruned.pruned.len(), 1);
    assert_eq!(compacted.landed.pruned.pruned[0].original_seq, huge);
    assert!(compacted.after_tokens <= 7_000, "{compacted:?}");
}

#[test]
fn parallel_results_that_no_fold_can_reach_are_cut_to_the_tails_budget() {
    let mut session = conversation(3, 300);
    user(&mut session, "Read all of them.");
    let ids: Vec<String> = (0..8).map(|at| format!("p{at}")).collect();
    assistant(&mut session, "", &ids.iter().map(String::as_str).collect::<Vec<_>>());
    for id in &ids {
        // Each is within the budget of one result.
        result(&mut session, id, &words(2_000));
    }
    let mut summarizer = Scripted::default();
    let mut engine = engine(Policy::default(), RuleSet::Default);
    let outcome = compact(&mut engine, &mut session, Trigger::Pressure, &window(20_000), &mut summarizer).unwrap();
    let Outcome::Pruned(report) = outcome else { panic!("{outcome}") };
    assert!(report.pruned.iter().all(|pruned| pruned.reason == PruneReason::ParallelOverBudget));
    assert!(tokens(&session) < 16_000 && summarizer.requests.is_empty());
}
