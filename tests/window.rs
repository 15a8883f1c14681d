//! The window arithmetic, figure by figure.

#![allow(clippy::unwrap_used, reason = "a broken test may panic")]

mod common;

use arya_presets::*;

use common::{conversation, engine, session, user, window, words};

/// The columns of the presets, as far as they bear on the window.
fn standard() -> Policy {
    Policy::default()
}

fn arya_standard() -> Policy {
    Policy {
        threshold_ratio: 0.9,
        headroom_tokens: 16_000,
        reserve_output: true,
        output_reserve_cap_tokens: Some(64_000),
        max_tokens: 20_000,
        pre_warm_percent: 70,
        post_turn_percent: 90,
        min_fold_tokens: 4_000,
        ..Policy::default()
    }
}

fn arya_claude() -> Policy {
    Policy {
        threshold_ratio: 0.99,
        headroom_tokens: 13_000,
        pre_warm_percent: 0,
        post_turn_percent: 0,
        min_fold_tokens: 0,
        ..arya_standard()
    }
}

fn arya_automation() -> Policy {
    Policy { pre_warm_percent: 65, post_turn_percent: 85, min_fold_tokens: 6_000, ..arya_standard() }
}

fn of(tokens: u64) -> Window {
    Window { tokens, origin: WindowOrigin::Host }
}

fn levels(policy: &Policy, tokens: u64, max_output: Option<u64>) -> Levels {
    Levels::new(policy, Some(&of(tokens)), max_output).unwrap()
}

#[test]
fn the_trigger_of_every_column_is_the_documented_figure() {
    let cases = [
        ("arya-claude", arya_claude(), 200_000, Some(8_000), 179_000),
        ("arya-standard", arya_standard(), 200_000, Some(8_000), 176_000),
        ("arya-automation", arya_automation(), 200_000, Some(8_000), 176_000),
        ("standard", standard(), 200_000, Some(8_000), 160_000),
        ("arya-claude, 32k reserved", arya_claude(), 200_000, Some(32_000), 155_000),
        ("arya-standard, small window", arya_standard(), 32_768, Some(8_192), 16_384),
        ("arya-standard, the cap", arya_standard(), 1_000_000, Some(384_000), 900_000),
        ("arya-claude, the cap", arya_claude(), 1_000_000, Some(384_000), 923_000),
        ("reservation unknown", arya_claude(), 200_000, None, 200_000 - 8_192 - 13_000),
        ("reservation unknown, small window", arya_claude(), 16_384, None, 8_192),
        ("an eighth of the window", Policy { headroom_tokens: 0, ..arya_claude() }, 16_000, None, 14_000),
        ("nothing reserved", arya_claude(), 200_000, Some(0), 187_000),
        ("more reserved than there is", arya_claude(), 40_000, Some(64_000), 20_000),
        ("odd window", arya_claude(), 40_001, Some(64_000), 20_000),
        ("half the window exactly", arya_standard(), 48_000, Some(8_000), 24_000),
    ];
    for (name, policy, tokens, max_output, trigger) in cases {
        policy.validate().unwrap();
        assert_eq!(levels(&policy, tokens, max_output).trigger(), Some(trigger), "{name}");
    }
}

#[test]
fn the_smallest_window_has_levels_and_a_smaller_one_is_refused() {
    for policy in [standard(), arya_standard(), arya_claude()] {
        let levels = levels(&policy, 16, Some(8_000));
        let plan = levels.plan(levels.due_under_pressure(16).unwrap());
        assert!(0 < plan.tail_tokens && plan.tail_tokens < plan.target_tokens);
        assert!(plan.target_tokens < plan.due.tokens && plan.due.tokens < 16);
        for tokens in [1, 15] {
            let error = Levels::new(&policy, Some(&of(tokens)), None).unwrap_err();
            assert_eq!(error.code(), "window-too-small");
            assert!(error.to_string().contains(&format!("{tokens} tokens")) && error.to_string().contains("16"));
        }
    }
}

#[test]
fn the_target_lies_a_tenth_of_the_window_under_the_level_but_never_under_half_of_it() {
    let plan = |policy: &Policy, tokens, due| {
        let levels = levels(policy, tokens, Some(8_000));
        levels.plan(Due { level: Level::Trigger, tokens: due })
    };
    for (policy, tokens, due, target, tail, capped) in [
        (standard(), 200_000, 160_000, 140_000, 32_000, false),
        (arya_standard(), 200_000, 176_000, 156_000, 32_000, false),
        (arya_claude(), 200_000, 179_000, 159_000, 32_000, false),
        (arya_standard(), 32_768, 16_384, 13_108, 5_242, false),
        // A low level: half of it is more than it less the gap.
        (standard(), 200_000, 30_000, 15_000, 7_500, true),
        // The tail is at most half the target.
        (Policy { retain: Retain::Tokens(100_000), ..standard() }, 200_000, 160_000, 140_000, 70_000, true),
        (Policy { retain: Retain::Tokens(70_000), ..standard() }, 200_000, 160_000, 140_000, 70_000, false),
        (Policy { retain: Retain::Tokens(0), ..standard() }, 200_000, 160_000, 140_000, 1, false),
        (Policy { target_gap_ratio: 0.0, ..standard() }, 200_000, 160_000, 159_999, 32_000, false),
        (Policy { target_gap_ratio: 0.5, ..standard() }, 200_000, 160_000, 80_000, 32_000, false),
    ] {
        let plan = plan(&policy, tokens, due);
        assert_eq!((plan.target_tokens, plan.tail_tokens, plan.tail_capped), (target, tail, capped), "due at {due}");
    }
}

#[test]
fn a_level_is_reached_at_its_figure_and_not_one_token_before() {
    let levels = levels(&arya_claude(), 200_000, Some(8_000));
    assert_eq!(levels.due_under_pressure(178_999), None);
    assert_eq!(levels.due_under_pressure(179_000), Some(Due { level: Level::Trigger, tokens: 179_000 }));
}

#[test]
fn after_a_turn_the_lowest_level_that_is_reached_counts() {
    let cases = [
        (arya_standard(), 139_999, None),
        (arya_standard(), 140_000, Some((Level::PreWarm, 140_000))),
        (arya_standard(), 200_000, Some((Level::PreWarm, 140_000))),
        (Policy { pre_warm_percent: 0, ..arya_standard() }, 175_999, None),
        // Ninety per cent of the window lie above the trigger, so the level is capped there.
        (Policy { pre_warm_percent: 0, ..arya_standard() }, 176_000, Some((Level::PostTurn, 176_000))),
        (Policy { pre_warm_percent: 0, ..arya_automation() }, 170_000, Some((Level::PostTurn, 170_000))),
        (arya_automation(), 130_000, Some((Level::PreWarm, 130_000))),
        (arya_claude(), 178_999, None),
        (arya_claude(), 179_000, Some((Level::Trigger, 179_000))),
        (Policy { absolute_token_limit: 50_000, ..arya_standard() }, 49_999, None),
        (Policy { absolute_token_limit: 50_000, ..arya_standard() }, 50_000, Some((Level::AbsoluteLimit, 50_000))),
    ];
    for (policy, total, due) in cases {
        let found = levels(&policy, 200_000, Some(8_000)).due_after_turn(total);
        assert_eq!(found.map(|due| (due.level, due.tokens)), due, "{total} tokens");
    }
}

#[test]
fn the_shares_of_a_turn_do_not_count_under_pressure_and_the_absolute_limit_does() {
    let levels = levels(&Policy { absolute_token_limit: 150_000, ..arya_standard() }, 200_000, Some(8_000));
    assert_eq!(levels.due_under_pressure(149_999), None);
    assert_eq!(levels.due_under_pressure(150_000), Some(Due { level: Level::AbsoluteLimit, tokens: 150_000 }));
}

#[test]
fn an_absolute_limit_above_the_trigger_is_capped_there() {
    let levels = levels(&Policy { absolute_token_limit: u64::MAX, ..standard() }, 200_000, None);
    let due = levels.due_under_pressure(160_000).unwrap();
    assert_eq!(due.tokens, 160_000);
    assert_eq!(levels.due_under_pressure(159_999), None);
}

#[test]
fn a_window_of_zero_is_unknown() {
    assert_eq!(Situation::new().window(0, WindowOrigin::Host).window_tokens(), None);
    let mut log = session();
    log.append(Draft::request_context(RequestContext {
        provider: "p".into(),
        model: "m".into(),
        context_window: Some(0),
        extra: Extra::default(),
    }))
    .unwrap();
    assert_eq!(Situation::from_log(&log).window_tokens(), None);
}

#[test]
fn without_a_window_only_the_absolute_limit_is_a_level() {
    let off = Levels::new(&arya_standard(), None, Some(8_000)).unwrap();
    assert_eq!((off.trigger(), off.due_under_pressure(u64::MAX), off.due_after_turn(u64::MAX)), (None, None, None));
    let limited = Levels::new(&Policy { absolute_token_limit: 1_000, ..arya_standard() }, None, None).unwrap();
    assert_eq!(limited.due_after_turn(999), None);
    let due = limited.due_under_pressure(1_000).unwrap();
    assert_eq!(due, Due { level: Level::AbsoluteLimit, tokens: 1_000 });
    // With no window to take shares of, the level stands in for it.
    let plan = limited.plan(due);
    assert_eq!((plan.target_tokens, plan.tail_tokens), (900, 160));
}

#[test]
fn what_is_asked_for_without_a_level_counts_the_total_as_due() {
    let levels = Levels::new(&standard(), None, None).unwrap();
    assert_eq!(levels.due_when_asked(5_000), Due { level: Level::Asked, tokens: 5_000 });
    let plan = levels.plan(levels.due_when_asked(0));
    assert!(plan.tail_tokens < plan.target_tokens && plan.target_tokens < 4);
}

#[test]
fn with_an_unknown_window_pressure_says_so_and_a_person_can_still_compact() {
    let mut session = conversation(6, 800);
    let mut engine = engine(standard(), RuleSet::Default);
    for trigger in [Trigger::Pressure, Trigger::PostTurn, Trigger::ModelSwitch] {
        let mut never = |_: &SummaryRequest| -> Result<SummaryReply, SummarizerError> { unreachable!() };
        let outcome = compact(&mut engine, &mut session, trigger, &Situation::new(), &mut never).unwrap();
        assert!(matches!(outcome, Outcome::Unneeded(Reason::WindowUnknown)), "{outcome:?}");
    }
    let mut summarizer = ExtractiveSummarizer::new();
    let overflow = Trigger::Overflow { reported: None };
    let outcome = compact(&mut engine, &mut session, overflow, &Situation::new(), &mut summarizer).unwrap();
    assert_eq!(outcome.code(), "compacted");
    user(&mut session, &words(900));
    let outcome = compact(&mut engine, &mut session, Trigger::manual(), &Situation::new(), &mut summarizer).unwrap();
    assert_eq!(outcome.code(), "compacted");
}

#[test]
fn with_an_unknown_window_the_absolute_limit_still_folds() {
    let mut session = conversation(8, 800);
    let policy = Policy { absolute_token_limit: 4_000, ..standard() };
    let mut engine = engine(policy, RuleSet::Default);
    let outcome =
        compact(&mut engine, &mut session, Trigger::Pressure, &Situation::new(), &mut ExtractiveSummarizer).unwrap();
    assert!(outcome.compacted().unwrap().after_tokens <= 3_600);
}

#[test]
fn a_window_of_the_log_counts_only_for_its_own_route() {
    let mut log = session();
    log.append(common::header()).unwrap();
    let context = |model: &str| RequestContext {
        provider: "p".into(),
        model: model.into(),
        context_window: Some(100_000),
        extra: Extra::default(),
    };
    log.append(Draft::request_context(context("m"))).unwrap();
    assert_eq!(Situation::from_log(&log).window_tokens(), Some(100_000));
    log.append(Draft::request_context(context("other"))).unwrap();
    assert_eq!(Situation::from_log(&log).window_tokens(), None);
}

#[test]
fn pruning_is_enough_below_the_level_and_not_at_it() {
    let policy = Policy { prune: PrunePolicy::trimming(TrimPolicy::default()), ..standard() };
    let mut session = conversation(3, 400);
    let call = "big";
    common::assistant(&mut session, "", &[call]);
    common::result(&mut session, call, &words(20_000));
    let mut engine = engine(policy, RuleSet::Default);
    let mut never = |_: &SummaryRequest| -> Result<SummaryReply, SummarizerError> { unreachable!() };
    let outcome = compact(&mut engine, &mut session, Trigger::Pressure, &window(20_000), &mut never).unwrap();
    let Outcome::Pruned(report) = outcome else { panic!("{outcome:?}") };
    assert_eq!(report.pruned.len(), 1);
    assert!(engine.measure(&session, &window(20_000)).unwrap().total_tokens < 16_000);
}

#[test]
fn under_the_rules_of_the_harness_nothing_is_fitted() {
    let policy = Policy { retain: Retain::Tokens(200_000), ..standard() };
    let route = Route::new("p", "m");
    for (window, code) in [(0, "window-too-small"), (-1, "window-too-small"), (i64::MIN, "window-too-small")] {
        assert_eq!(policy.harness_levels(&route, window).unwrap_err().code(), code);
    }
    assert_eq!(policy.harness_levels(&route, 200_000).unwrap_err().code(), "retain-not-below-threshold");
    let levels = standard().harness_levels(&route, 200_000).unwrap();
    assert_eq!((levels.threshold_tokens, levels.retain_tokens), (160_000, 32_000));
}

#[test]
fn the_explanation_names_every_clause_and_what_bound_the_trigger() {
    let explained = |policy: Policy, tokens, max_output| levels(&policy, tokens, max_output).explain();
    assert_eq!(
        explained(arya_standard(), 200_000, Some(8_000)),
        "window: 200000 tokens, stated by the host\n\
         share: 0.9 of the window is 180000 tokens\n\
         output reservation: 8000 tokens, stated\n\
         headroom: 16000 tokens\n\
         trigger: 176000 tokens, bound by reservation and headroom\n\
         pre-warm: 70 % of the window, 140000 tokens\n\
         post-turn: 90 % of the window, 176000 tokens"
    );
    assert_eq!(
        explained(standard(), 200_000, Some(8_000)),
        "window: 200000 tokens, stated by the host\n\
         share: 0.8 of the window is 160000 tokens\n\
         output reservation: none, by policy\n\
         trigger: 160000 tokens, bound by the share"
    );
    assert_eq!(
        explained(Policy { absolute_token_limit: 9_000, ..arya_claude() }, 32_768, Some(8_192)),
        "window: 32768 tokens, stated by the host\n\
         share: 0.99 of the window is 32440 tokens\n\
         output reservation: 8192 tokens, stated\n\
         headroom: 13000 tokens\n\
         room: under half the window, so half the window is taken\n\
         trigger: 16384 tokens, bound by half the window\n\
         absolute limit: 9000 tokens"
    );
    let capped = explained(arya_standard(), 1_000_000, Some(384_000));
    assert!(capped.contains("output reservation: 64000 tokens, stated, capped"), "{capped}");
    let assumed = explained(arya_standard(), 200_000, None);
    assert!(assumed.contains("output reservation: 8192 tokens, assumed"), "{assumed}");
    let unknown = Levels::new(&standard(), None, None).unwrap().explain();
    assert_eq!(
        unknown,
        "window: unknown, so pressure is off; manual work, overflow and the absolute limit remain\nabsolute limit: off"
    );
}

#[test]
fn the_explanation_does_not_blame_a_reservation_that_does_not_exist() {
    // The whole window as share: what binds is that a trigger lies below its window.
    let whole = levels(&Policy { threshold_ratio: 1.0, ..standard() }, 1_000, None);
    assert_eq!(whole.trigger(), Some(999));
    assert!(!whole.explain().contains("bound by reservation"), "{}", whole.explain());
    // A share below the least trigger.
    let least = levels(&Policy { threshold_ratio: 0.01, retain: Retain::Tokens(0), ..standard() }, 100, None);
    assert_eq!(least.trigger(), Some(4));
    assert!(!least.explain().contains("bound by reservation"), "{}", least.explain());
}

#[test]
fn the_explanation_says_where_the_window_comes_from() {
    for (origin, text) in [
        (WindowOrigin::Host, "stated by the host"),
        (WindowOrigin::Log, "from the log's request context"),
        (WindowOrigin::Named("model table of May".into()), "model table of May"),
    ] {
        let window = Window { tokens: 200_000, origin };
        let explained = Levels::new(&standard(), Some(&window), None).unwrap().explain();
        assert!(explained.starts_with(&format!("window: 200000 tokens, {text}\n")), "{explained}");
    }
}

#[test]
fn an_engine_asks_for_the_window_at_every_check() {
    let session = conversation(1, 100);
    let engine = engine(arya_standard(), RuleSet::Default);
    let of = |situation: &Situation| engine.levels(&session, situation).unwrap().trigger();
    assert_eq!(of(&window(200_000).max_output(8_000)), Some(176_000));
    assert_eq!(of(&window(1_000_000).max_output(8_000)), Some(900_000));
    assert_eq!(of(&Situation::new()), None);
}
