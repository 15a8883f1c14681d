//! Knobs as the engine obeys them: the scope of the levels after a turn, the limit on bytes, and the summary without a model.

#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

mod common;

use arya_presets::*;

use common::*;

/// A session of two turns with their marks, the second one of about so many tokens.
fn two_turns(first: usize, second: usize) -> Session {
    let mut session = session();
    session.append(header()).unwrap();
    for (turn, tokens) in [(1, first), (2, second)] {
        session.append(Draft::turn_start(turn)).unwrap();
        user(&mut session, &format!("Request {turn}"));
        for step in 1..=2 {
            session.append(Draft::step_start(turn, step)).unwrap();
            let message = Message::assistant(format!("a{turn}-{step}"), model(), vec![Block::text(words(tokens / 2))]);
            session.append(Draft::assistant(turn, step, message, None)).unwrap();
            session.append(Draft::step_end(turn, step)).unwrap();
        }
        session.append(Draft::turn_end(turn)).unwrap();
    }
    session
}

fn after_turn(policy: Policy, session: &mut Session) -> Result<Outcome, CompactionError> {
    let mut engine = engine(policy, RuleSet::Default);
    compact(&mut engine, session, Trigger::PostTurn, &window(20_000), &mut ExtractiveSummarizer::new())
}

fn scoped(budget_scope: BudgetScope) -> Policy {
    Policy { budget_scope, post_turn_percent: 50, ..Policy::default() }
}

#[test]
fn the_scope_of_a_turn_compares_its_growth_with_the_levels_after_a_turn() {
    for (first, second, scope, folds) in [
        (11_000, 400, BudgetScope::Thread, true),
        (11_000, 400, BudgetScope::Turn, false),
        (400, 11_000, BudgetScope::Turn, true),
        // The window's trigger stands beside it.
        (16_500, 400, BudgetScope::Turn, true),
    ] {
        let outcome = after_turn(scoped(scope), &mut two_turns(first, second)).unwrap();
        assert_eq!(outcome.compacted().is_some(), folds, "{first} then {second}, {scope:?}: {outcome}");
    }
}

#[test]
fn a_log_without_steps_has_no_turn_to_look_at_so_the_whole_conversation_counts() {
    let mut session = conversation(30, 400);
    assert!(after_turn(scoped(BudgetScope::Turn), &mut session).unwrap().compacted().is_some());
}

#[test]
fn the_scope_is_told_with_the_levels() {
    let levels = |scope| {
        let engine = engine(scoped(scope), RuleSet::Default);
        engine.levels(&session(), &window(20_000)).unwrap().explain()
    };
    assert!(levels(BudgetScope::Turn).contains("post-turn: 50 % of the window, 10000 tokens, of the turn alone"));
    assert!(!levels(BudgetScope::Thread).contains("of the turn alone"));
}

/// Bytes of the next request, counted afresh.
fn bytes(session: &Session) -> u64 {
    let messages = session.messages().map(|message| serde_json::to_string(message.as_ref()).unwrap().len() as u64);
    messages.sum::<u64>() + serde_json::to_string(session.request_header().unwrap()).unwrap().len() as u64
}

#[test]
fn an_engine_that_goes_on_counts_the_bytes_of_what_was_added_folded_and_trimmed() {
    let mut session = conversation(4, 400);
    let limit = bytes(&session) * 2;
    let mut engine = engine(Policy { max_request_bytes: limit, ..Policy::default() }, RuleSet::Default);
    let (mut folds, mut prunes) = (0, 0);
    for step in 0..80 {
        let call = format!("step-{step}");
        assistant(&mut session, "", &[]);
        assistant(&mut session, &words(100), &[&call]);
        result(&mut session, &call, &words(if step % 20 == 0 { 3_000 } else { 100 }));
        user(&mut session, "Go on.");
        let is_over = bytes(&session) > limit;
        let mut summarizer = ExtractiveSummarizer::new();
        let outcome =
            compact(&mut engine, &mut session, Trigger::Pressure, &window(1_000_000), &mut summarizer).unwrap();
        assert_eq!(matches!(outcome, Outcome::Unneeded(Reason::BelowLevel { .. })), !is_over, "step {step}: {outcome}");
        folds += usize::from(outcome.compacted().is_some());
        prunes += usize::from(matches!(outcome, Outcome::Pruned(_)));
    }
    assert!(folds > 1 && prunes + folds > 2, "{folds} folds, {prunes} prunes");
}

#[test]
fn a_request_over_its_bytes_is_compacted_though_its_tokens_are_few_and_the_window_is_unknown() {
    let policy = |max_request_bytes| Policy { max_request_bytes, ..Policy::default() };
    for situation in [window(1_000_000), Situation::new()] {
        let mut session = conversation(30, 400);
        let size = bytes(&session);
        let mut work = |max_request_bytes| {
            let mut engine = engine(policy(max_request_bytes), RuleSet::Default);
            compact(&mut engine, &mut session, Trigger::Pressure, &situation, &mut ExtractiveSummarizer::new()).unwrap()
        };
        assert!(work(0).compacted().is_none(), "0 is off");
        assert!(work(size).compacted().is_none(), "the limit itself may be reached");
        assert!(work(size - 1).compacted().is_some(), "one byte over it");
        let before = bytes(&conversation(30, 400));
        assert!(bytes(&session) < before - before / 10);
    }
}

#[test]
fn the_level_of_the_bytes_is_their_share_in_tokens() {
    let policy = Policy { max_request_bytes: 1_000, ..Policy::default() };
    let levels = Levels::new(&policy, None, None).unwrap();
    assert_eq!(levels.due_by_bytes(400, 1_000), None);
    assert_eq!(levels.due_by_bytes(400, 2_000), Some(Due { level: Level::RequestBytes, tokens: 200 }));
    assert_eq!(levels.due_by_bytes(u64::MAX, u64::MAX).map(|due| due.tokens), Some(1_000));
    let off = Levels::new(&Policy::default(), None, None).unwrap();
    assert_eq!(off.due_by_bytes(400, u64::MAX), None);
}

fn failing(error: fn() -> SummarizerError, fallback: Fallback) -> (Result<Outcome, CompactionError>, Session) {
    let mut session = conversation(30, 400);
    let mut engine = engine(Policy { fallback, ..Policy::default() }, RuleSet::Default);
    let mut fails = move |_: &SummaryRequest| -> Result<SummaryReply, SummarizerError> { Err(error()) };
    let outcome = compact(&mut engine, &mut session, Trigger::manual(), &window(20_000), &mut fails);
    (outcome, session)
}

#[test]
fn where_no_model_answers_the_summary_is_written_without_one_if_the_policy_says_so() {
    let errors: [fn() -> SummarizerError; 4] = [
        || SummarizerError::Timeout,
        || SummarizerError::Transport("no route".into()),
        || SummarizerError::Auth("no key".into()),
        || SummarizerError::RateLimited { retry_after: None },
    ];
    for error in errors {
        let (outcome, session) = failing(error, Fallback::Extractive);
        assert!(outcome.unwrap().compacted().is_some(), "{}", error());
        assert!(session.messages().next().unwrap().text().contains("<compacted-summary>"));
        let (outcome, session) = failing(error, Fallback::None);
        assert_eq!(outcome.unwrap_err().code(), "summary");
        assert_eq!(session.messages().count(), conversation(30, 400).messages().count());
    }
}

#[test]
fn a_summary_that_was_cancelled_is_not_written_by_anybody_else() {
    let (outcome, session) = failing(|| SummarizerError::Cancelled, Fallback::Extractive);
    assert_eq!(outcome.unwrap_err().code(), "cancelled");
    assert_eq!(session.messages().count(), conversation(30, 400).messages().count());
}
