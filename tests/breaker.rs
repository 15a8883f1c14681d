//! When the breaker stops the automatic path, what it says and what starts it again. `PROPTEST_CASES` sets how many random
//! stories are tried; 300 without it.

#![allow(clippy::indexing_slicing, clippy::panic, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, reason = "so may what it calls")]

mod common;

use std::sync::{Arc, Mutex};

use arya_presets::*;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use common::sink::Tape;
use common::summarizer::{Answer, Scripted};
use common::{Rng, assistant, conversation, engine, replayed, result, session, standard, user, window, words};

fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 300;
    }
    config
}

/// How an attempt of the engine inside ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Fold,
    Prune,
    Unneeded,
    Prepared,
    Summary,
    Commit,
    NoProgress,
    StillAbove,
    Busy,
    Changed,
    Cancelled,
    Overhead,
    /// A summary is asked for, and then given up for a reason.
    TimedOut,
    GivenUp,
    Dropped,
    Stopped,
    /// A summary is asked for, and the answer is an error.
    NoAnswer,
    CancelledAnswer,
}

const ENDS: [End; 18] = [
    End::Fold,
    End::Prune,
    End::Unneeded,
    End::Prepared,
    End::Summary,
    End::Commit,
    End::NoProgress,
    End::StillAbove,
    End::Busy,
    End::Changed,
    End::Cancelled,
    End::Overhead,
    End::TimedOut,
    End::GivenUp,
    End::Dropped,
    End::Stopped,
    End::NoAnswer,
    End::CancelledAnswer,
];

impl End {
    fn counts(self) -> bool {
        use End::{Commit, NoAnswer, NoProgress, StillAbove, Summary, TimedOut};
        matches!(self, Summary | Commit | NoProgress | StillAbove | TimedOut | NoAnswer)
    }

    fn asks(self) -> bool {
        use End::{CancelledAnswer, Dropped, GivenUp, NoAnswer, Prepared, Stopped, TimedOut};
        matches!(self, TimedOut | GivenUp | Dropped | Stopped | NoAnswer | CancelledAnswer | Prepared)
    }
}

/// Ends its attempts as it is told, and gives its requests from a real engine, for which every conversation is too long.
struct Told {
    script: Script,
    real: BaseEngine,
}

/// The test's half of such an engine: how the next attempt ends, and how many were begun.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<(Option<End>, usize)>>);

impl Script {
    fn next(&self, end: End) {
        self.0.lock().unwrap().0 = Some(end);
    }

    fn begun(&self) -> usize {
        self.0.lock().unwrap().1
    }

    fn engine(&self) -> Told {
        let policy = Policy { absolute_token_limit: 4, prune: PrunePolicy::off(), ..Policy::default() };
        Told { script: self.clone(), real: engine(policy, RuleSet::Default) }
    }
}

fn failed(failure: Failure) -> Result<Step, CompactionError> {
    Err(CompactionError { failure, landed: Box::default() })
}

/// Puts a checkpoint in the place of everything but the newest node.
fn fold(session: &mut Session) {
    let seqs: Vec<Seq> = session.nodes().iter().rev().skip(1).rev().map(|node| node.seq).collect();
    let source = Source::Checkpoint { compaction_id: "told".into(), extra: Extra::default() };
    let message = Message::new("checkpoint", Role::User, source, vec![Block::text("What was said.")]);
    session.append(Draft::user(message).replacing(seqs[0], seqs[seqs.len() - 1]).citing(seqs.clone())).unwrap();
}

impl CompactionEngine for Told {
    fn begin(&mut self, session: &mut Session, trigger: Trigger, now: &Situation) -> Result<Step, CompactionError> {
        let end = {
            let mut script = self.script.0.lock().unwrap();
            script.1 += 1;
            script.0.take().unwrap()
        };
        if end.asks() {
            return self.real.begin(session, trigger, now);
        }
        match end {
            End::Fold => {
                fold(session);
                let compacted =
                    Compacted { landed: Landed::default(), before_tokens: 2, after_tokens: 1, masked_secrets: 0 };
                Ok(Step::Done(Outcome::Compacted(compacted)))
            }
            End::Prune => Ok(Step::Done(Outcome::Pruned(PruneReport::default()))),
            End::Summary => failed(Failure::Summary(SummaryFailure::Summarizer(SummarizerError::other("none")))),
            End::Commit => failed(Failure::Commit(SessionError::NotOnSurface { seq: 0 })),
            End::NoProgress => failed(Failure::NoProgress {
                before_tokens: 9,
                after_tokens: 9,
                target_tokens: 1,
                least_gain_tokens: 1,
            }),
            End::StillAbove => failed(Failure::StillAbove { attempts: 1, total_tokens: 9, threshold_tokens: 1 }),
            End::Busy => failed(Failure::Busy { why: Busy::HostNotIdle, prepared: None }),
            End::Changed => failed(Failure::Changed { what: "it" }),
            End::Cancelled => failed(Failure::Cancelled { by: CancelledBy::Summarizer, reason: "cancelled".into() }),
            End::Overhead => failed(Failure::Overhead { overhead_tokens: 9, target_tokens: 1 }),
            _ => Ok(Step::Done(Outcome::Unneeded(Reason::NothingToFold))),
        }
    }

    fn resume(
        &mut self,
        session: &mut Session,
        pending: Pending,
        reply: Result<SummaryReply, SummarizerError>,
    ) -> Result<Step, CompactionError> {
        self.real.resume(session, pending, reply)
    }

    fn abandon(&mut self, session: &mut Session, pending: Pending, why: Abandon) -> Result<(), CompactionError> {
        self.real.abandon(session, pending, why)
    }
}

/// One attempt through an engine, to the end that it was told.
fn attempt(
    breaker: &mut dyn CompactionEngine,
    session: &mut Session,
    trigger: Trigger,
    situation: &Situation,
    end: End,
) -> Result<Option<Outcome>, CompactionError> {
    let pending = match breaker.begin(session, trigger, situation)? {
        Step::Done(outcome) => return Ok(Some(outcome)),
        Step::Summarize(pending) => pending,
    };
    let why = match end {
        End::TimedOut => Abandon::TimedOut,
        End::GivenUp => Abandon::Cancelled,
        End::Dropped => Abandon::Dropped,
        End::Stopped => Abandon::Other("the host stops".into()),
        _ => {
            let reply = match end {
                End::CancelledAnswer => Err(SummarizerError::Cancelled),
                End::Prepared => Answer::Good.reply(),
                _ => Err(SummarizerError::other("no model")),
            };
            let step = breaker.resume(session, pending, reply)?;
            let Step::Done(outcome) = step else { panic!("{step:?}") };
            return Ok(Some(outcome));
        }
    };
    breaker.abandon(session, pending, why)?;
    Ok(None)
}

fn turn(session: &mut Session) {
    user(session, &words(150));
    assistant(session, &words(150), &[]);
}

fn at(now: Option<i64>) -> Situation {
    now.map_or_else(Situation::new, |now| Situation::new().now(now))
}

fn is_open(outcome: Option<&Outcome>) -> Option<&BreakerOpen> {
    match outcome {
        Some(Outcome::Unneeded(Reason::BreakerOpen(open))) => Some(open),
        _ => None,
    }
}

/// What the breaker is to remember, written down as its rules say.
#[derive(Debug, Default, Clone)]
struct Model {
    failures: u32,
    refills: u32,
    /// Turns and answers since the last fold, once there was one.
    since_fold: Option<(u32, u32)>,
    /// Since when it is open, and whether folds that were filled up again opened it.
    open: Option<(i64, bool)>,
}

impl Model {
    fn turn(&mut self) {
        if let Some((turns, answers)) = &mut self.since_fold {
            *turns += 1;
            *answers += 1;
        }
    }

    fn ended(&mut self, automatic: bool, end: End, limit: u32, time: i64) {
        match end {
            End::Fold => {
                let at_once = self.since_fold.is_some_and(|(turns, answers)| turns <= 3 && answers <= 12);
                self.refills = if automatic && at_once { self.refills + 1 } else { 0 };
                self.since_fold = Some((0, 0));
                self.failures = 0;
                self.open = (self.refills >= 3).then_some((time, true));
            }
            End::Prune => {
                self.failures = 0;
                self.open = None;
                if !automatic {
                    self.refills = 0;
                }
            }
            end if automatic && end.counts() => {
                self.failures += 1;
                if limit > 0 && self.failures >= limit {
                    self.open = Some((time, false));
                } else if let Some((since, false)) = &mut self.open {
                    *since = time;
                }
            }
            _ => {}
        }
    }
}

fn trigger(rng: &mut Rng, session: &Session, end: End) -> Trigger {
    // A summary that only lies ready comes of one trigger alone.
    if end == End::Prepared {
        return Trigger::Precompute;
    }
    match rng.below(12) {
        0..5 => Trigger::Pressure,
        5 => Trigger::PostTurn,
        6 => Trigger::ModelSwitch,
        7 if end != End::Fold => Trigger::Precompute,
        8 => Trigger::Overflow { reported: None },
        9 if !end.asks() => Trigger::UpTo(session.nodes()[0].seq),
        _ => Trigger::manual(),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_breaker_remembers_what_its_rules_say_across_restarts_and_changes_of_its_limit(
        seed: u64, steps in 1..50usize, cool_down_ms in prop::sample::select(vec![0u64, 1, 40, u64::MAX]),
    ) {
        let mut rng = Rng::new(seed);
        let limit = BreakerLimit::new(u32::try_from(rng.below(4)).unwrap());
        let mut session = session();
        turn(&mut session);
        let script = Script::default();
        let mut breaker = Breaker::new(script.engine(), limit.clone(), cool_down_ms);
        let mut model = Model::default();
        let mut clock = 1_000i64;
        // Some stories go well, some do not.
        let good = rng.below(80);
        for _ in 0..steps {
            match rng.below(10) {
                0 => limit.set(u32::try_from(rng.below(4)).unwrap()),
                1 => {
                    session = replayed(&session);
                    breaker = Breaker::new(script.engine(), limit.clone(), cool_down_ms);
                    continue;
                }
                2 => for _ in 0..rng.below(4) {
                    turn(&mut session);
                    model.turn();
                },
                3 => {
                    // The host rewrites a message of its own; that is no fold.
                    let seq = session.nodes()[0].seq;
                    let message = Message::user("edited", "Something else.");
                    session.append(Draft::user(message).replacing(seq, seq).citing(vec![seq])).unwrap();
                }
                _ => {}
            }
            turn(&mut session);
            model.turn();
            clock += rng.pick(&[0, 1, 5, 39, 40, 41, -60]);
            let now = rng.chance(80).then_some(clock);
            let end = if rng.chance(good) { End::Fold } else { rng.pick(&ENDS) };
            let trigger = trigger(&mut rng, &session, end);
            let automatic = trigger.kind().is_automatic();
            let story = format!("{end:?} of {trigger:?} at {now:?}, limit {}: {model:?}", limit.get());
            let before = replayed(&session);
            let begun = script.begun();

            // What the rules say of the gate.
            let wait = i64::try_from(cool_down_ms).unwrap_or(i64::MAX);
            let retry_at = model.open.and_then(|(since, _)| (wait > 0).then(|| since.saturating_add(wait)));
            let cooled = retry_at.zip(now).is_some_and(|(retry_at, now)| now >= retry_at);
            let stopped = automatic && model.open.is_some() && !cooled;

            script.next(end);
            let outcome = attempt(&mut breaker, &mut session, trigger, &at(now), end);
            if stopped {
                let outcome = outcome.unwrap();
                let open = is_open(outcome.as_ref()).unwrap();
                let (since, thrash) = model.open.unwrap();
                prop_assert_eq!((open.failures, open.refills), (model.failures, model.refills), "{}", story);
                prop_assert_eq!((open.since, open.retry_at), (since, retry_at), "{}", story);
                prop_assert_eq!(matches!(open.by, OpenedBy::Thrash { .. }), thrash, "{}", story);
                prop_assert_eq!(script.begun(), begun, "the engine was asked: {}", story);
                prop_assert_eq!(&session, &before, "{}", story);
                continue;
            }
            prop_assert!(!matches!(&outcome, Ok(outcome) if is_open(outcome.as_ref()).is_some()), "stopped: {}", story);
            let time = now.unwrap_or(i64::MIN).max(before.last_time());
            let unneeded = matches!(end, End::Unneeded);
            if let (Some((since, _)), true, true, false) = (&mut model.open, automatic, cooled, unneeded) {
                *since = now.unwrap();
            }
            model.ended(automatic, end, limit.get(), time);
            prop_assert_eq!(breaker.failures(), model.failures, "{}", story);
            let open = breaker.open().map(|open| (open.since, matches!(open.by, OpenedBy::Thrash { .. })));
            prop_assert_eq!(open, model.open, "{}", story);
            // Each attempt leaves one event, after its bracket.
            let new = &session.events()[before.events().len()..];
            let attempts = new.iter().filter(|event| event.data.kind() == "compaction/attempt").count();
            prop_assert_eq!(attempts, usize::from(!unneeded), "{}", story);
            if !unneeded {
                let last = session.events().last().unwrap();
                prop_assert!(last.ignorable && last.data.kind() == "compaction/attempt");
                prop_assert_eq!(last.time, time);
            }
            prop_assert!(session.open_compaction().is_none());
        }
    }
}

/// A breaker over an engine that is told its ends, and the test's halves of both.
struct Story {
    session: Session,
    script: Script,
    breaker: Breaker<Told>,
}

impl Story {
    fn new(limit: u32, cool_down_ms: u64) -> Self {
        let mut session = session();
        turn(&mut session);
        turn(&mut session);
        let script = Script::default();
        let breaker = Breaker::new(script.engine(), BreakerLimit::new(limit), cool_down_ms);
        Self { session, script, breaker }
    }

    /// An attempt at a time, after a turn; what stopped it, if the breaker did.
    fn try_at(&mut self, now: Option<i64>, trigger: Trigger, end: End) -> Option<BreakerOpen> {
        turn(&mut self.session);
        self.script.next(end);
        let outcome = attempt(&mut self.breaker, &mut self.session, trigger, &at(now), end);
        outcome.ok().and_then(|outcome| is_open(outcome.as_ref()).cloned())
    }

    fn auto(&mut self, now: i64, end: End) -> Option<BreakerOpen> {
        self.try_at(Some(now), Trigger::Pressure, end)
    }

    fn attempts(&self) -> Vec<Value> {
        attempts(&self.session)
    }
}

fn attempts(session: &Session) -> Vec<Value> {
    let data = session.events().iter().filter_map(|event| match &event.data {
        EventData::Other { kind, data } if &**kind == "compaction/attempt" => Some(data.to_value()),
        _ => None,
    });
    data.collect()
}

#[test]
fn as_many_failures_in_a_row_as_the_limit_says_open_it_and_the_outcome_says_why() {
    let mut story = Story::new(3, 0);
    for (now, end) in [(10, End::Summary), (20, End::Commit), (30, End::TimedOut)] {
        assert_eq!(story.auto(now, end), None);
    }
    let open = story.auto(40, End::Fold).unwrap();
    assert_eq!(open.by, OpenedBy::Failures { last: "timed-out".into() });
    assert_eq!((open.failures, open.refills, open.since, open.retry_at), (3, 0, 30, None));
    assert_eq!(
        Outcome::Unneeded(Reason::BreakerOpen(open)).to_string(),
        "automatic compaction is stopped after 3 failures in a row, the last one timed-out; a compaction on request \
         starts it again"
    );
    assert_eq!(story.script.begun(), 3);
}

#[test]
fn with_a_cool_down_the_outcome_says_when_the_next_attempt_is_made() {
    let mut story = Story::new(1, 500);
    story.auto(1_000, End::NoProgress);
    let open = story.auto(1_001, End::Fold).unwrap();
    assert_eq!(open.retry_at, Some(1_500));
    assert!(open.to_string().ends_with(
        "after 1 failures in a row, the last one no-progress; one attempt is made at 1500, and a compaction on request \
         starts it again"
    ));
}

#[test]
fn after_the_cool_down_one_attempt_is_let_through_and_the_next_waits_again() {
    let mut story = Story::new(1, 500);
    story.auto(1_000, End::Summary);
    assert!(story.auto(1_499, End::Fold).is_some());
    assert_eq!(story.auto(1_500, End::Summary), None);
    assert_eq!(story.auto(1_999, End::Fold).unwrap().retry_at, Some(2_000));
    // A clock that goes back, and no clock at all, do not shorten the wait.
    assert!(story.auto(900, End::Fold).is_some());
    assert!(story.try_at(None, Trigger::Pressure, End::Fold).is_some());
    assert_eq!(story.auto(2_000, End::Fold), None);
    assert_eq!(story.auto(2_001, End::Fold), None, "a success closed it");
}

#[test]
fn a_check_that_has_nothing_to_do_does_not_use_up_the_attempt_after_the_cool_down() {
    let mut story = Story::new(1, 500);
    story.auto(1_000, End::Summary);
    assert_eq!(story.auto(1_600, End::Unneeded), None);
    assert_eq!(story.auto(1_601, End::Fold), None);
    assert_eq!(story.breaker.open(), None);
}

#[test]
fn what_is_no_failure_neither_counts_nor_closes() {
    let harmless = [End::Busy, End::Changed, End::Cancelled, End::Overhead, End::GivenUp, End::Dropped, End::Stopped];
    for end in harmless.into_iter().chain([End::CancelledAnswer, End::Unneeded]) {
        let mut story = Story::new(2, 0);
        story.auto(1, End::Summary);
        story.auto(2, end);
        assert_eq!(story.breaker.failures(), 1, "{end:?}");
        story.auto(3, End::Summary);
        assert!(story.auto(4, End::Fold).is_some(), "{end:?}");
    }
}

#[test]
fn a_success_between_failures_begins_the_count_anew_a_prune_too() {
    for end in [End::Fold, End::Prune] {
        let mut story = Story::new(2, 0);
        for _ in 0..3 {
            assert_eq!(story.auto(1, End::Summary), None);
            assert_eq!(story.auto(2, end), None);
        }
        assert_eq!(story.breaker.failures(), 0);
    }
}

#[test]
fn what_was_asked_for_is_never_stopped_and_closes_the_breaker_when_it_succeeds() {
    let asked: [fn(&Session) -> Trigger; 4] = [
        |_| Trigger::manual(),
        |_| Trigger::Overflow { reported: Some(9) },
        |session| Trigger::Region { start: session.nodes()[0].seq, end: session.nodes()[1].seq },
        |session| Trigger::From(session.nodes()[0].seq),
    ];
    for trigger in asked {
        let mut story = Story::new(1, 0);
        story.auto(1, End::Summary);
        for end in [End::Summary, End::Commit, End::NoProgress] {
            let trigger = trigger(&story.session);
            assert_eq!(story.try_at(Some(2), trigger, end), None);
        }
        assert_eq!(story.breaker.failures(), 1, "a failure of what was asked for does not count");
        assert!(story.auto(3, End::Fold).is_some());
        let trigger = trigger(&story.session);
        assert_eq!(story.try_at(Some(4), trigger, End::Fold), None);
        assert_eq!((story.breaker.failures(), story.breaker.open()), (0, None));
        assert_eq!(story.auto(5, End::Fold), None);
    }
}

#[test]
fn every_automatic_trigger_is_stopped() {
    let mut story = Story::new(1, 0);
    story.auto(1, End::Summary);
    for trigger in [Trigger::Pressure, Trigger::PostTurn, Trigger::ModelSwitch, Trigger::Precompute] {
        assert!(story.try_at(Some(2), trigger, End::Fold).is_some());
    }
    assert_eq!(story.script.begun(), 1);
}

#[test]
fn a_limit_of_zero_never_opens_and_a_lowered_one_is_read_at_the_next_failure() {
    let mut story = Story::new(0, 0);
    for _ in 0..5 {
        assert_eq!(story.auto(1, End::Summary), None);
    }
    let limit = story.breaker.limit().clone();
    limit.set(2);
    assert_eq!(story.auto(2, End::Unneeded), None, "lowering alone opens nothing");
    assert_eq!(story.auto(3, End::Summary), None);
    let open = story.auto(4, End::Fold).unwrap();
    assert_eq!((open.failures, open.since), (6, 3));
    limit.set(0);
    assert!(story.auto(5, End::Fold).is_some(), "raising alone closes nothing");
}

#[test]
fn breakers_that_share_a_limit_count_each_for_itself() {
    let limit = BreakerLimit::new(9);
    let mut stories = [Story::new(9, 0), Story::new(9, 0)];
    for story in &mut stories {
        story.breaker = Breaker::new(story.script.engine(), limit.clone(), 0);
        story.auto(1, End::Summary);
    }
    limit.set(2);
    stories[0].auto(2, End::Summary);
    assert!(stories[0].auto(3, End::Fold).is_some());
    assert_eq!(stories[1].auto(3, End::Fold), None);
}

#[test]
fn an_attempt_that_fails_while_the_limit_was_raised_waits_for_another_cool_down_and_is_told_of() {
    let mut story = Story::new(1, 100);
    story.auto(1_000, End::Summary);
    story.breaker.limit().set(50);
    assert_eq!(story.auto(1_100, End::TimedOut), None);
    let open = story.auto(1_150, End::Fold).unwrap();
    assert_eq!((open.failures, open.retry_at), (2, Some(1_200)));
    assert_eq!(open.by, OpenedBy::Failures { last: "timed-out".into() });
}

/// Three folds that were each filled up again by the next turns.
fn thrashing(turns: usize) -> Story {
    let mut story = Story::new(0, 0);
    for now in 0..4 {
        assert_eq!(story.auto(now, End::Fold), None);
        (1..turns).for_each(|_| turn(&mut story.session));
    }
    story
}

#[test]
fn three_folds_that_were_each_filled_up_again_within_three_turns_open_it() {
    for turns in 1..=3 {
        let mut story = thrashing(turns);
        let open = story.auto(10, End::Fold).unwrap();
        assert!(matches!(open.by, OpenedBy::Thrash { .. }));
        assert_eq!((open.failures, open.refills, open.since), (0, 3, 3));
        assert!(
            open.to_string()
                .starts_with("automatic compaction is stopped: 3 folds in a row were filled up again at once")
        );
    }
    assert_eq!(thrashing(4).auto(10, End::Fold), None);
}

#[test]
fn a_long_turn_of_steady_work_is_no_thrash() {
    for (answers, stopped) in [(12, true), (13, false)] {
        let mut story = Story::new(0, 0);
        for now in 0..4 {
            story.script.next(End::Fold);
            attempt(&mut story.breaker, &mut story.session, Trigger::Pressure, &at(Some(now)), End::Fold).unwrap();
            for _ in 0..answers {
                assistant(&mut story.session, "Next step.", &[]);
            }
        }
        assert_eq!(story.breaker.open().is_some(), stopped, "{answers} answers");
    }
}

#[test]
fn one_fold_that_held_begins_the_count_of_refills_anew() {
    let mut story = Story::new(0, 0);
    for round in 0..4 {
        for now in 0..3 {
            assert_eq!(story.auto(round * 10 + now, End::Fold), None);
        }
        (0..4).for_each(|_| turn(&mut story.session));
    }
}

#[test]
fn prunes_that_suffice_are_no_folds_that_were_filled_up_again() {
    let mut story = Story::new(0, 0);
    for now in 0..20 {
        assert_eq!(story.auto(now, End::Prune), None);
    }
    assert_eq!(story.breaker.open(), None);
}

#[test]
fn a_fold_on_request_ends_a_row_of_refills() {
    let mut story = Story::new(0, 0);
    for now in 0..12 {
        assert_eq!(story.auto(now * 2, End::Fold), None);
        if now % 3 == 2 {
            assert_eq!(story.try_at(Some(now * 2 + 1), Trigger::manual(), End::Fold), None);
        }
    }
}

#[test]
fn the_largest_contributors_are_named_when_it_thrashes() {
    let mut story = Story::new(0, 0);
    for now in 0..3 {
        story.auto(now, End::Fold);
    }
    assistant(&mut story.session, "", &["c1"]);
    let read = result(&mut story.session, "c1", &words(5_000));
    let pasted = user(&mut story.session, &words(3_000));
    let orphan = result(&mut story.session, "nobody", &words(2_000));
    user(&mut story.session, &words(10));
    // The fold of this story keeps only the newest node; let this one keep them all.
    let seq = story.session.nodes()[0].seq;
    let mut session = std::mem::replace(&mut story.session, common::session());
    struct FoldFirst(Seq);
    impl CompactionEngine for FoldFirst {
        fn begin(&mut self, session: &mut Session, _: Trigger, _: &Situation) -> Result<Step, CompactionError> {
            let source = Source::Checkpoint { compaction_id: "told".into(), extra: Extra::default() };
            let message = Message::new("checkpoint", Role::User, source, vec![Block::text("Said.")]);
            session.append(Draft::user(message).replacing(self.0, self.0).citing(vec![self.0])).unwrap();
            let compacted =
                Compacted { landed: Landed::default(), before_tokens: 2, after_tokens: 1, masked_secrets: 0 };
            Ok(Step::Done(Outcome::Compacted(compacted)))
        }
        fn resume(
            &mut self,
            _: &mut Session,
            _: Pending,
            _: Result<SummaryReply, SummarizerError>,
        ) -> Result<Step, CompactionError> {
            unreachable!()
        }
        fn abandon(&mut self, _: &mut Session, _: Pending, _: Abandon) -> Result<(), CompactionError> {
            unreachable!()
        }
    }
    let mut breaker = Breaker::new(FoldFirst(seq), BreakerLimit::new(0), 0);
    let step = breaker.begin(&mut session, Trigger::Pressure, &at(Some(9))).unwrap();
    assert!(matches!(step, Step::Done(Outcome::Compacted(_))));
    let Some(BreakerOpen { by: OpenedBy::Thrash { contributors }, .. }) = breaker.open() else { panic!() };
    let named = |what: &str, seq: Seq, tokens: u64| format!("{what} at seq {seq}: about {tokens} tokens");
    assert_eq!(
        contributors,
        &[
            named("result of read", read, 5_012),
            named("message of user", pasted, 3_008),
            named("result of a tool", orphan, 2_012),
        ]
    );
    assert!(breaker.open().unwrap().to_string().contains(&named("result of read", read, 5_012)));
    // And they are named still after a restart.
    let contributors = contributors.clone();
    let mut session = replayed(&session);
    let mut again = Breaker::new(FoldFirst(0), BreakerLimit::new(0), 0);
    let Step::Done(outcome) = again.begin(&mut session, Trigger::Pressure, &at(Some(9))).unwrap() else { panic!() };
    assert_eq!(is_open(Some(&outcome)).unwrap().by, OpenedBy::Thrash { contributors });
}

#[test]
fn attempts_stand_behind_their_brackets_and_a_reader_may_pass_over_them() {
    let mut session = conversation(20, 400);
    let mut breaker = Breaker::new(standard(), BreakerLimit::new(9), 0);
    let mut answers = [Answer::Good, Answer::Fails, Answer::Empty, Answer::Cancels, Answer::Good].into_iter();
    let mut classes = Vec::new();
    for answer in answers.by_ref() {
        for _ in 0..10 {
            turn(&mut session);
            turn(&mut session);
        }
        let mut summarizer = Scripted::new([answer]);
        let outcome = compact(&mut breaker, &mut session, Trigger::Pressure, &window(8_000), &mut summarizer);
        classes.push(outcome.map_or_else(|error| error.code().to_owned(), |_| "ok".to_owned()));
    }
    let logged: Vec<Value> = attempts(&session);
    assert_eq!(classes, ["ok", "summary", "summary", "cancelled", "ok"]);
    assert!(logged.iter().map(|data| data["class"].as_str().unwrap()).eq(classes.iter().map(String::as_str)));
    assert!(logged.iter().all(|data| data["trigger"] == "pressure" && data["tokens"].as_u64().unwrap() > 1_000));
    let mut open = false;
    for event in session.events() {
        match event.data.kind() {
            "compaction/start" => open = true,
            "compaction/end" => open = false,
            "compaction/attempt" => assert!(!open && event.ignorable && event.surface_op.is_none()),
            _ => {}
        }
    }
    // Without them the conversation is the same.
    let without = session.events().iter().filter(|event| event.data.kind() != "compaction/attempt");
    assert_eq!(without.count() + 5, session.events().len());
}

#[test]
fn while_a_bracket_could_not_be_closed_no_attempt_is_written_into_it() {
    let mut session = conversation(20, 400);
    let tape = Tape::default();
    session.set_sink(tape.sink());
    let mut breaker = Breaker::new(standard(), BreakerLimit::new(2), 0);
    let begun = breaker.begin(&mut session, Trigger::Pressure, &window(8_000)).unwrap();
    let Step::Summarize(pending) = begun else { panic!("{begun:?}") };
    // The commit is refused, and so is the end of the bracket.
    tape.refuse(2);
    let error = breaker.resume(&mut session, pending, Answer::Good.reply()).unwrap_err();
    assert_eq!((error.code(), breaker.failures()), ("commit", 1));
    assert!(session.open_compaction().is_some() && attempts(&session).is_empty());
    // The next attempt heals the bracket; it fails too, and both count.
    let mut summarizer = Scripted::new([Answer::Fails]);
    let error = compact(&mut breaker, &mut session, Trigger::Pressure, &window(8_000), &mut summarizer).unwrap_err();
    assert_eq!((error.code(), breaker.failures()), ("summary", 2));
    assert_eq!(attempts(&session)[0]["failures"], 2);
    let outcome = compact(&mut breaker, &mut session, Trigger::Pressure, &window(8_000), &mut summarizer).unwrap();
    assert!(is_open(Some(&outcome)).is_some());
}

#[test]
fn a_commit_that_the_sink_refuses_counts_and_its_attempt_is_logged() {
    let mut session = conversation(20, 400);
    let tape = Tape::default();
    session.set_sink(tape.sink());
    let mut breaker = Breaker::new(standard(), BreakerLimit::new(1), 0);
    let begun = breaker.begin(&mut session, Trigger::Pressure, &window(8_000)).unwrap();
    let Step::Summarize(pending) = begun else { panic!("{begun:?}") };
    tape.refuse(1);
    breaker.resume(&mut session, pending, Answer::Good.reply()).unwrap_err();
    assert_eq!(attempts(&session)[0]["class"], "commit");
    assert!(breaker.open().is_some());
}

#[test]
fn an_attempt_that_cannot_be_logged_counts_nonetheless() {
    let mut story = Story::new(2, 0);
    let tape = Tape::default();
    story.session.set_sink(tape.sink());
    for now in 0..2 {
        turn(&mut story.session);
        tape.refuse(1);
        story.script.next(End::Summary);
        attempt(&mut story.breaker, &mut story.session, Trigger::Pressure, &at(Some(now)), End::Summary).unwrap_err();
    }
    assert!(story.attempts().is_empty());
    assert!(story.auto(3, End::Fold).is_some());
}

#[test]
fn a_pending_summary_of_another_session_comes_back_and_is_no_failure() {
    let mut session = conversation(20, 400);
    let mut breaker = Breaker::new(standard(), BreakerLimit::new(1), 0);
    let begun = breaker.begin(&mut session, Trigger::Pressure, &window(8_000)).unwrap();
    let Step::Summarize(pending) = begun else { panic!("{begun:?}") };
    let mut other = common::session();
    let error = breaker.resume(&mut other, pending, Answer::Good.reply()).unwrap_err();
    let Failure::WrongSession(pending) = error.failure else { panic!("{error}") };
    assert!(attempts(&other).is_empty() && breaker.open().is_none());
    let step = breaker.resume(&mut session, *pending, Answer::Good.reply()).unwrap();
    assert!(matches!(step, Step::Done(Outcome::Compacted(_))));
}

#[test]
fn a_breaker_goes_on_from_the_log_of_whichever_session_it_meets() {
    let mut story = Story::new(1, 0);
    story.auto(1, End::Summary);
    let first = std::mem::replace(&mut story.session, session());
    turn(&mut story.session);
    assert_eq!(story.auto(2, End::Fold), None);
    story.session = first;
    assert!(story.auto(3, End::Fold).is_some());
}

#[test]
fn attempt_events_of_other_writers_are_read_as_far_as_they_make_sense() {
    let hostile = [
        json!(null),
        json!([]),
        json!({"class": 7, "failures": "many", "refills": -1, "open": true}),
        json!({"class": "ok", "failures": u64::MAX, "refills": u64::MAX}),
        json!({"open": {"by": {"thrash": [1, null]}, "since": i64::MIN}, "refills": u64::MAX, "failures": u64::MAX}),
        json!({"open": {"by": {"failures": "x"}, "since": i64::MAX}}),
        json!({"open": {"by": {"failures": 3}, "since": 0.5}}),
        json!({"open": {"by": {}, "since": 1}}),
    ];
    for (data, cool_down_ms) in hostile.iter().flat_map(|data| [0, 1, u64::MAX].map(|cool_down| (data, cool_down))) {
        let mut story = Story::new(1, cool_down_ms);
        fold(&mut story.session);
        turn(&mut story.session);
        let draft = Draft::new(EventData::Other { kind: "compaction/attempt".into(), data: data.into() });
        story.session.append(draft).unwrap();
        for end in [End::Fold, End::Summary, End::Prune, End::Fold] {
            for now in [i64::MIN, 0, i64::MAX] {
                story.auto(now, end);
            }
            story.try_at(None, Trigger::manual(), end);
        }
        assert_eq!(story.breaker.open(), None, "{data}");
    }
}

#[test]
fn a_breaker_around_a_breaker_stops_when_either_is_open() {
    for (inner_limit, outer_limit, passes) in [(1, 3, 1), (3, 1, 1), (2, 2, 2), (0, 2, 2), (2, 0, 2)] {
        let mut story = Story::new(0, 0);
        let inner = Breaker::new(story.script.engine(), BreakerLimit::new(inner_limit), 0);
        let mut both = Breaker::new(inner, BreakerLimit::new(outer_limit), 0);
        let mut stopped = 0;
        for now in 0..5 {
            story.script.next(End::Summary);
            let outcome = attempt(&mut both, &mut story.session, Trigger::Pressure, &at(Some(now)), End::Summary);
            stopped += usize::from(outcome.is_ok_and(|outcome| is_open(outcome.as_ref()).is_some()));
        }
        assert_eq!((story.script.begun(), stopped), (passes, 5 - passes), "{inner_limit} in {outer_limit}");
        story.script.next(End::Fold);
        attempt(&mut both, &mut story.session, Trigger::manual(), &at(Some(9)), End::Fold).unwrap();
        assert_eq!((both.open(), both.inner().open()), (None, None));
    }
}

#[test]
fn a_breaker_wraps_an_engine_that_is_only_known_by_its_trait() {
    let mut session = conversation(20, 400);
    let boxed: Box<dyn CompactionEngine> = Box::new(standard());
    let mut breaker: Box<dyn CompactionEngine> = Box::new(Breaker::new(boxed, BreakerLimit::new(1), 0));
    let mut summarizer = Scripted::new([Answer::Fails, Answer::Good]);
    compact(&mut breaker, &mut session, Trigger::Pressure, &window(8_000), &mut summarizer).unwrap_err();
    let outcome = compact(&mut breaker, &mut session, Trigger::Pressure, &window(8_000), &mut summarizer).unwrap();
    assert!(is_open(Some(&outcome)).is_some());
    let mut real = standard();
    let mut by_reference = Breaker::new(&mut real, BreakerLimit::new(1), 0);
    let outcome = compact(&mut by_reference, &mut session, Trigger::PostTurn, &window(8_000), &mut summarizer).unwrap();
    assert!(is_open(Some(&outcome)).is_some(), "the log says so");
    let outcome = compact(&mut by_reference, &mut session, Trigger::manual(), &window(8_000), &mut summarizer).unwrap();
    assert_eq!(outcome.code(), "compacted");
    let outcome = compact(&mut by_reference, &mut session, Trigger::Pressure, &window(8_000), &mut summarizer).unwrap();
    assert_eq!(outcome.code(), "unneeded");
    assert!(is_open(Some(&outcome)).is_none());
}

#[test]
fn a_summary_written_ahead_of_need_is_stopped_too_and_its_commit_is_not() {
    let mut session = conversation(20, 400);
    let mut breaker = Breaker::new(standard(), BreakerLimit::new(1), 0);
    let mut summarizer = Scripted::new([Answer::Good, Answer::Fails, Answer::Good]);
    let mut precompute = |breaker: &mut Breaker<BaseEngine>, session: &mut Session| {
        compact(breaker, session, Trigger::Precompute, &window(8_000), &mut summarizer)
    };
    let Outcome::Prepared(ready) = precompute(&mut breaker, &mut session).unwrap() else { panic!() };
    precompute(&mut breaker, &mut session).unwrap_err();
    assert!(is_open(Some(&precompute(&mut breaker, &mut session).unwrap())).is_some());
    let step = breaker.begin(&mut session, Trigger::Commit(ready), &window(8_000)).unwrap();
    assert!(matches!(step, Step::Done(Outcome::Compacted(_))));
    assert_eq!(breaker.open(), None);
    let classes: Vec<Value> = attempts(&session).iter().map(|data| data["class"].clone()).collect();
    assert_eq!(classes, ["prepared", "summary", "ok"]);
}
