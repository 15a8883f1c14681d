//! Properties that hold for every session, checked with random ones. `PROPTEST_CASES` sets how many; 10,000 without it.

#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, reason = "so may what it calls")]

mod common;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arya_presets::*;
use proptest::prelude::*;
use proptest::test_runner::Config;

use common::generate::{self, policy};
use common::sink::{Fault, Tape};
use common::summarizer::Scripted;
use common::{Rng, drafts, reference, replayed};

/// Most acts of a generated session, and of one whose text is written and read.
const ACTS: usize = 20;
const WRITTEN_ACTS: usize = 12;

fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 10_000;
    }
    config
}

fn meter(rules: MeterRules, rule_set: RuleSet) -> Meter {
    Meter::new(common::pricing(rule_set), rules)
}

fn situation(rng: &mut Rng, session: &Session) -> Situation {
    let mut situation = if rng.chance(40) { Situation::from_log(session) } else { Situation::new() };
    if rng.chance(85) {
        // As often as not a window that the conversation about fills.
        let mut prices = meter(MeterRules::DEFAULT, RuleSet::Default);
        prices.sync(session).unwrap();
        let full = prices.surface_tokens().max(200);
        let tokens = if rng.chance(50) { rng.scale(full / 4, full * 2) } else { rng.scale(200, 200_000) };
        situation = situation.window(tokens, WindowOrigin::Host);
    }
    if rng.chance(30) {
        situation = situation.max_output(rng.pick(&[0, 100, 8_000, u64::MAX]));
    }
    if rng.chance(15) {
        situation = situation.system(generate::text(rng));
    }
    if rng.chance(15) {
        situation = situation.unsent(Unsent::Tokens(rng.below(500)));
    }
    if rng.chance(25) {
        let revision = rng.pick(&[None, Some(rng.clone().below(session.revision() + 3))]);
        let total_tokens = rng.pick(&[0, 150, 4_000, 90_000, u64::MAX]);
        situation = situation.usage(UsageReport { total_tokens, revision, is_sum: rng.chance(10) });
    }
    if rng.chance(50) {
        situation = situation.now(rng.pick(&[0, 1_700_000_000_000, i64::MIN, i64::MAX]));
    }
    situation
}

fn trigger(rng: &mut Rng, session: &Session) -> Trigger {
    let nodes = session.nodes();
    let seq = |rng: &mut Rng| {
        if nodes.is_empty() || rng.chance(5) {
            rng.below(session.revision() + 3)
        } else {
            nodes[rng.index(nodes.len())].seq
        }
    };
    match rng.below(16) {
        0..4 => Trigger::Pressure,
        4..6 => Trigger::Overflow { reported: rng.pick(&[None, Some(0), Some(50_000), Some(u64::MAX)]) },
        6..9 => Trigger::Manual { instructions: rng.pick(&[None, Some("Keep paths.".into())]), command_id: None },
        9..11 => Trigger::PostTurn,
        11 => Trigger::ModelSwitch,
        12 => Trigger::UpTo(seq(rng)),
        13 => Trigger::From(seq(rng)),
        14 => Trigger::Precompute,
        _ => Trigger::Region { start: seq(rng), end: seq(rng) },
    }
}

/// The newest message of the person, if the model sees it: on the surface, or pinned in a checkpoint there.
fn visible_request(session: &Session) -> Option<Seq> {
    let seq = session.newest_user_message()?;
    let pinned = || {
        session
            .nodes()
            .iter()
            .any(|node| Checkpoint::parse(&node.message).is_some_and(|checkpoint| checkpoint.pinned == Some(seq)))
    };
    (session.position(seq).is_some() || pinned()).then_some(seq)
}

/// The folds and prunes that events tell of, each whole; or what is wrong with them.
fn landed_in(events: &[Event]) -> Result<(Vec<Seq>, usize), String> {
    let (mut checkpoints, mut prunes) = (Vec::new(), 0);
    let mut rest = events;
    while let [first, tail @ ..] = rest {
        rest = match (&first.data, tail) {
            (EventData::CompactionPrune(prune), [rewritten, tail @ ..]) => {
                let seq = prune.shadowed_seqs[0];
                if rewritten.surface_op != Some(SurfaceOp::Replace { start: seq, end: seq }) {
                    return Err(format!("{rewritten:?} does not rewrite {seq}"));
                }
                prunes += 1;
                tail
            }
            (EventData::CompactionStart(start), [summary, fold, end, tail @ ..])
                if matches!(summary.data, EventData::CompactionSummary(_)) =>
            {
                let EventData::CompactionSummary(summary) = &summary.data else { unreachable!() };
                let (EventData::UserMessage(message), EventData::CompactionEnd(end)) = (&fold.data, &end.data) else {
                    return Err(format!("{fold:?} {end:?}"));
                };
                let Source::Checkpoint { compaction_id, .. } = &message.source else {
                    return Err(format!("{message:?} is no checkpoint"));
                };
                let ids = [&summary.compaction_id, compaction_id, &end.compaction_id];
                if ids.iter().any(|id| *id != &start.compaction_id) || end.error.is_some() {
                    return Err(format!("{start:?} {end:?}"));
                }
                checkpoints.push(fold.seq);
                tail
            }
            (EventData::CompactionStart(start), [end, tail @ ..]) => match &end.data {
                EventData::CompactionEnd(end) if end.compaction_id == start.compaction_id && end.error.is_some() => {
                    tail
                }
                other => return Err(format!("{start:?} is followed by {other:?}")),
            },
            (other, _) => return Err(format!("{other:?} is in no bracket")),
        };
    }
    Ok((checkpoints, prunes))
}

/// Promises 1 to 5 for what a compaction added to a session. Promises 2 and 5 are not the harness's.
fn check_promises(
    before: &Session,
    after: &Session,
    rule_set: RuleSet,
    landed: Option<&Landed>,
) -> Result<(), TestCaseError> {
    let old = before.events().len();
    // Promise 1.
    prop_assert!(after.events().len() >= old && after.events()[..old] == *before.events(), "the log was rewritten");
    let new = &after.events()[old..];
    for event in new.iter().filter(|event| matches!(event.surface_op, Some(SurfaceOp::Replace { .. }))) {
        for seq in after.shadowed_by(event.seq).unwrap() {
            prop_assert!(after.message(*seq).is_some(), "promise 1: {seq} cannot be read back");
        }
    }
    // Promise 4.
    let (checkpoints, prunes) = landed_in(new).map_err(TestCaseError::fail)?;
    prop_assert_eq!(
        after.open_compaction().map(|open| &open.compaction_id),
        before.open_compaction().map(|open| &open.compaction_id),
        "the bracket is not closed"
    );
    if let Some(landed) = landed {
        // Whether or not promise 4 is the harness's: what a report says must be so.
        let reported: Vec<Seq> = landed.folds.iter().map(|fold| fold.checkpoint_seq).collect();
        prop_assert_eq!(&reported, &checkpoints, "promise 4: what landed is not what is reported");
        prop_assert_eq!(landed.pruned.pruned.len(), prunes, "promise 4: prunes are not reported");
    }
    // Promises 2 and 3.
    let mut prices = meter(MeterRules::DEFAULT, rule_set);
    prices.sync(after).unwrap();
    for seq in checkpoints {
        let hidden = after.shadowed_by(seq).unwrap();
        let shadowed: u64 = hidden.iter().map(|seq| prices.price(*seq)).sum();
        prop_assert!(prices.price(seq) < shadowed, "promise 3: {} for {}", prices.price(seq), shadowed);
        let at = usize::try_from(seq).unwrap();
        let then = Session::from_events(after.header().clone(), after.events()[..at].to_vec()).unwrap();
        let first = then.position(hidden[0]).unwrap();
        if rule_set == RuleSet::Default {
            let cuts = reference::cuts(&then);
            prop_assert!(cuts.contains(&first) && cuts.contains(&(first + hidden.len())), "promise 2");
        } else {
            let balances = reference::balances(&then).unwrap();
            prop_assert!(balances[first] && balances[first + hidden.len()], "unbalanced under the harness's rules");
        }
    }
    // Promise 5.
    if let Some(seq) = visible_request(before).filter(|_| rule_set == RuleSet::Default) {
        prop_assert_eq!(visible_request(after), Some(seq), "promise 5: the newest request is only summarised");
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// Promise 7.
    #[test]
    fn a_log_that_is_replayed_or_written_and_read_gives_an_equal_session(seed: u64, acts in 0..WRITTEN_ACTS) {
        let session = generate::session(seed, acts);
        prop_assert_eq!(&replayed(&session), &session);
        let mut file = Vec::new();
        session.write_jsonl(&mut file).unwrap();
        let loaded = Session::read_jsonl(file.as_slice()).unwrap();
        prop_assert_eq!(&loaded.session, &session);
        prop_assert_eq!(loaded.torn_line, None);
        let mut again = Vec::new();
        loaded.session.write_jsonl(&mut again).unwrap();
        prop_assert_eq!(again, file);
    }

    /// Promise 7.
    #[test]
    fn every_event_is_read_back_as_it_was_written(seed: u64, acts in 0..WRITTEN_ACTS) {
        for event in generate::session(seed, acts).events() {
            let text = event.to_json();
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(&Event::from_json(&text).unwrap(), event);
        }
    }

    /// Promise 2.
    #[test]
    fn exactly_the_cuts_that_tear_no_pair_are_offered(seed: u64, acts in 0..ACTS) {
        let session = generate::session(seed, acts);
        let offered: Vec<usize> = session.cuts().collect();
        prop_assert_eq!(offered, reference::cuts(&session));
        match reference::balances(&session) {
            Some(balances) => for (position, balanced) in balances.into_iter().enumerate() {
                prop_assert_eq!(session.is_balanced(position).unwrap(), balanced);
            },
            None => prop_assert_eq!(session.is_balanced(0).unwrap_err().code(), "unmatched-result"),
        }
    }

    /// Promises 1 to 5, under the default rules.
    #[test]
    fn a_compaction_keeps_the_promises_under_the_default_rules(seed: u64, acts in 0..ACTS) {
        compaction_keeps_the_promises(seed, acts, RuleSet::Default)?;
    }

    /// Promises 1 and 3, under the harness's rules.
    #[test]
    fn a_compaction_keeps_promises_1_and_3_under_the_rules_of_the_harness(seed: u64, acts in 0..ACTS) {
        compaction_keeps_the_promises(seed, acts, RuleSet::Harness)?;
    }

    /// Promise 4.
    #[test]
    fn an_append_that_is_refused_or_panics_leaves_the_session_as_it_was(seed: u64, acts in 0..ACTS, panics: bool) {
        let whole = generate::session(seed, acts);
        let mut rng = Rng::new(seed ^ 1);
        let mut rest = drafts(&whole);
        let mut batches = Vec::new();
        while !rest.is_empty() {
            let tail = rest.split_off((1 + rng.index(4)).min(rest.len()));
            batches.push(std::mem::replace(&mut rest, tail));
        }
        if batches.is_empty() {
            return Ok(());
        }
        let fault = Fault { at: rng.index(batches.len()), times: 1, panics };
        let tape = Tape::failing(fault);
        let mut session = Session::with_header(whole.header().clone());
        session.set_sink(tape.sink());
        for (at, batch) in batches.into_iter().enumerate() {
            if at == fault.at {
                let never_tried = replayed(&session);
                let tried = catch_unwind(AssertUnwindSafe(|| session.append_all(batch.clone())));
                prop_assert_eq!(tried.is_err(), panics);
                if let Ok(refused) = tried {
                    prop_assert_eq!(refused.unwrap_err().code(), "sink");
                }
                prop_assert_eq!(&session, &never_tried);
            }
            session.append_all(batch).unwrap();
            prop_assert_eq!(session.events(), tape.kept());
        }
        prop_assert_eq!(session, whole);
    }

    /// Promise 4.
    #[test]
    fn a_compaction_whose_sink_fails_shows_only_what_was_kept_and_heals(
        seed: u64, acts in 0..ACTS, panics: bool, harness: bool,
    ) {
        let rule_set = if harness { RuleSet::Harness } else { RuleSet::Default };
        let mut session = generate::session(seed, acts);
        let old = session.events().len();
        let was_locked = session.open_compaction().is_some();
        let mut rng = Rng::new(seed ^ 2);
        let situation = situation(&mut rng, &session);
        let trigger = trigger(&mut rng, &session);
        let mut engine = common::engine(policy(&mut rng), rule_set);
        let tape = Tape::failing(Fault { at: rng.index(5), times: 1 + rng.index(3), panics });
        session.set_sink(tape.sink());
        let mut summarizer = Scripted::random(&mut rng);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            compact(&mut engine, &mut session, trigger, &situation, &mut summarizer).map(drop)
        }));
        prop_assert_eq!(&session.events()[old..], tape.kept());
        prop_assert_eq!(&replayed(&session), &session);
        // The next attempt, with a sink that works again, closes what was left open.
        tape.mend();
        if !was_locked {
            let mut summarizer = Scripted::default();
            let _ = compact(&mut engine, &mut session, Trigger::manual(), &situation, &mut summarizer);
            prop_assert!(session.open_compaction().is_none(), "the bracket stays open");
        }
    }

    #[test]
    fn a_meter_that_measures_after_every_event_agrees_with_one_that_measures_once(
        seed: u64, acts in 0..ACTS, harness: bool,
    ) {
        let (rules, rule_set) = if harness {
            (MeterRules::HARNESS, RuleSet::Harness)
        } else {
            (MeterRules::DEFAULT, RuleSet::Default)
        };
        let whole = generate::session(seed, acts);
        let mut rng = Rng::new(seed ^ 3);
        let window = Some(rng.scale(200, 200_000));
        let around = Surroundings { window, ..Surroundings::default() };
        let mut session = Session::with_header(whole.header().clone());
        let mut often = meter(rules, rule_set);
        let mut last = often.measure_in(&session, &around);
        for draft in drafts(&whole) {
            session.append(draft).unwrap();
            last = often.measure_in(&session, &around);
        }
        let mut once = meter(rules, rule_set);
        prop_assert_eq!(&last, &once.measure_in(&session, &around));
        if let Ok(measured) = last {
            let sum: u64 = session.nodes().iter().map(|node| often.price(node.seq)).sum();
            prop_assert_eq!(sum, measured.surface_tokens);
            prop_assert_eq!(often.surface_tokens(), sum);
            let own: Vec<u64> = session.nodes().iter().map(|node| once.pricing().content(&node.message.content)).collect();
            for (node, own) in session.nodes().iter().zip(own) {
                let price = often.price(node.seq);
                prop_assert!(price == own || node.message.content.is_empty());
            }
            let total = i128::from(measured.baseline.tokens()) + i128::from(measured.surface_delta_tokens);
            let most = i128::from(i64::MAX);
            prop_assert!(i128::from(measured.total_tokens) == total.clamp(0, most) || total > most);
        }
    }

    #[test]
    fn levels_keep_their_order(seed: u64) {
        let mut rng = Rng::new(seed);
        let policy = policy(&mut rng);
        let tokens = if rng.chance(30) { rng.scale(16, 100) } else { rng.scale(16, u64::MAX) };
        let window = Window { tokens, origin: WindowOrigin::Host };
        let max_output = rng.pick(&[None, Some(0), Some(8_192), Some(rng.clone().next()), Some(u64::MAX)]);
        let levels = Levels::new(&policy, Some(&window), max_output).unwrap();
        let trigger = levels.trigger().unwrap();
        prop_assert!(trigger < tokens);
        for total in [0, 1, 3, trigger - 1, trigger, tokens, rng.scale(1, tokens), u64::MAX] {
            let dues = [levels.due_under_pressure(total), levels.due_after_turn(total), Some(levels.due_when_asked(total))];
            for due in dues.into_iter().flatten() {
                let plan = levels.plan(due);
                prop_assert!(plan.tail_tokens > 0);
                prop_assert!(plan.tail_tokens < plan.target_tokens, "{plan:?}");
                prop_assert!(plan.target_tokens < plan.due.tokens, "{plan:?}");
                prop_assert!(plan.due.tokens <= trigger, "{plan:?} and a trigger of {trigger}");
            }
            prop_assert_eq!(levels.due_under_pressure(total).is_none(), total < trigger
                && (policy.absolute_token_limit == 0 || total < policy.absolute_token_limit.max(4)));
        }
        let clause = format!("trigger: {trigger} tokens");
        prop_assert!(levels.explain().contains(&clause));
    }

    #[test]
    fn a_second_prune_changes_nothing_and_the_first_freed_what_the_meter_says(seed: u64, acts in 0..ACTS) {
        let mut session = generate::session(seed, acts);
        let before = replayed(&session);
        let mut rng = Rng::new(seed ^ 4);
        let policy = generate::small_trim(&mut rng);
        let mut meter = meter(MeterRules::DEFAULT, RuleSet::Default);
        let plan = PrunePlan::trim(&session, &mut meter, &policy).unwrap();
        let tokens_before = meter.surface_tokens();
        let planned = plan.tokens_freed();
        let report = plan.apply(&mut session, 0).unwrap();
        meter.sync(&session).unwrap();
        prop_assert_eq!(report.tokens_freed(), planned);
        prop_assert_eq!(tokens_before - meter.surface_tokens(), planned);
        prop_assert!(PrunePlan::trim(&session, &mut meter, &policy).unwrap().rewrites().is_empty());
        prop_assert!(session.cuts().eq(before.cuts()));
        prop_assert_eq!(session.nodes().len(), before.nodes().len());
        let pruned: BTreeSet<Seq> = report.pruned.iter().map(|pruned| pruned.original_seq).collect();
        for (old, new) in before.nodes().iter().zip(session.nodes()) {
            prop_assert_eq!(pruned.contains(&old.seq), old.seq != new.seq);
            prop_assert_eq!(session.message(old.seq), before.message(old.seq));
            if let Some((old, new)) = old.message.result().zip(new.message.result()) {
                prop_assert_eq!((&old.tool_call_id, old.is_error), (&new.tool_call_id, new.is_error));
                let rich = |content: &[Block]| -> Vec<Block> {
                    content.iter().filter(|block| block.as_text().is_none()).cloned().collect()
                };
                prop_assert_eq!(rich(&old.content), rich(&new.content));
            }
        }
        for pruned in &report.pruned {
            prop_assert!(pruned.chars_after <= policy.threshold_chars && pruned.chars_after < pruned.chars_before);
        }
    }
}

fn compaction_keeps_the_promises(seed: u64, acts: usize, rule_set: RuleSet) -> Result<(), TestCaseError> {
    let mut session = generate::session(seed, acts);
    let mut rng = Rng::new(seed ^ 5);
    let tape = Tape::default();
    session.set_sink(tape.sink());
    let mut engine = common::engine(policy(&mut rng), rule_set);
    let mut prepared = None;
    // Several attempts with the same engine: what one leaves behind meets the next.
    for _ in 0..1 + rng.index(3) {
        if let Some(turn) = session.open_turn().filter(|_| rng.chance(40)) {
            session.append(Draft::turn_end(turn)).unwrap();
        }
        let before = replayed(&session);
        let kept = tape.kept().len();
        let situation = situation(&mut rng, &session);
        let trigger = match prepared.take() {
            Some(prepared) => Trigger::Commit(prepared),
            None => trigger(&mut rng, &session),
        };
        let kind = trigger.kind();
        let levels = engine.levels(&session, &situation);
        let mut summarizer = Scripted::random(&mut rng);
        let result = compact(&mut engine, &mut session, trigger, &situation, &mut summarizer);
        let none = Landed::default();
        let pruned;
        let landed = match &result {
            Ok(Outcome::Compacted(compacted)) => Some(&compacted.landed),
            Ok(Outcome::Pruned(report)) => {
                pruned = Landed { pruned: report.clone(), folds: Vec::new() };
                Some(&pruned)
            }
            Ok(Outcome::Unneeded(_) | Outcome::Prepared(_)) => Some(&none),
            Ok(_) => None,
            Err(error) => Some(&*error.landed),
        };
        check_promises(&before, &session, rule_set, landed)?;
        prop_assert_eq!(&session.events()[before.events().len()..], &tape.kept()[kept..]);
        prop_assert_eq!(&replayed(&session), &session);
        for request in &summarizer.requests {
            prop_assert!(request.max_output_tokens() > 0);
            prop_assert!(!request.messages().is_empty() || rule_set == RuleSet::Harness);
            prop_assert!(request.rendered().contains(request.instruction()));
        }
        match result {
            Ok(outcome) => {
                prop_assert!(!outcome.to_string().is_empty());
                if rule_set == RuleSet::Default
                    && let Some(compacted) = outcome.compacted()
                    && (kind.is_automatic() || kind == TriggerKind::Overflow)
                    // Which level was due then hangs on the turn and on the bytes, which are not known here any more.
                    && engine.policy().budget_scope == BudgetScope::Thread
                    && engine.policy().max_request_bytes == 0
                {
                    let levels = levels.unwrap();
                    let total = compacted.before_tokens;
                    let due = match kind {
                        TriggerKind::PostTurn => levels.due_after_turn(total).unwrap(),
                        TriggerKind::Overflow => levels.due_when_asked(total),
                        _ => levels.due_under_pressure(total).unwrap(),
                    };
                    let target = levels.plan(due).target_tokens;
                    let now = engine.measure(&session, &situation).unwrap().total_tokens;
                    prop_assert!(now <= target, "{now} tokens are left and the target is {target}");
                    prop_assert!(compacted.after_tokens >= now);
                }
                if let Outcome::Prepared(ready) = outcome {
                    prepared = Some(ready);
                }
            }
            Err(error) => prop_assert!(!error.code().is_empty() && !error.to_string().is_empty()),
        }
    }
    Ok(())
}
