//! Promise 8: no input panics, and what is refused is refused with a code.
//!
//! What takes text, JSON, numbers or an order of calls, and the test that abuses it:
//!
//! | function | test |
//! |---|---|
//! | `Event::from_json`, `Draft::from_json` | `hostile_events_…`, `deep_json_…`, `huge_numbers_…` |
//! | `Session::read_jsonl`, `resume_jsonl` | `a_file_cut_at_every_byte_…`, `bytes_that_are_no_text_…`, `a_bad_header_…`, `a_bad_line_…` |
//! | `Session::append`, `append_all`, `from_events`, `restore` | `an_order_of_events_…`, `times_at_both_ends_…`, `random_drafts_…` |
//! | `Session::event`, `message`, `position`, `shadowed_by`, `is_cut`, `is_balanced` | `questions_about_what_does_not_exist_…` |
//! | `BaseEngine::new`, `Policy::validate`, `Kit::validate`, `TrimPolicy::validate` | `a_knob_out_of_bounds_…`, `an_empty_kit_…` |
//! | `Policy::from_harness_config`, `TrimPolicy::from_harness_config`, `Policy` from JSON | `hostile_settings_…` |
//! | `Levels::new`, `plan`, `due_…`, `harness_levels` | `windows_and_totals_at_the_ends_…` |
//! | `CompactionEngine::begin` with every trigger | `every_trigger_on_an_empty_session_…`, `a_region_of_what_is_not_there_…`, `huge_figures_in_a_situation_…` |
//! | `resume`, `abandon` | `an_answer_after_the_bracket_was_closed_…`, `promises.rs` for foreign sessions |
//! | `compact_manual` | `a_command_with_odd_texts_…` |
//! | `Meter::measure_in`, `Pricing` | `prices_at_the_end_of_the_range_…`, `reported_usage_…` |
//! | `trim_content`, `PrunePlan::trim` | `budgets_that_do_not_fit_…` |
//! | `cut_at_sentence`, `cut_middle`, `Checkpoint`, `read_answer` | `cutting_…`, `a_text_of_five_megabytes_…` |
//! | `SummaryRequest::rendered`, `ExtractiveSummarizer` | `a_text_of_five_megabytes_…`, `the_extractive_summary_…` |

#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

mod common;

use std::sync::Arc;

use arya_presets::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use common::summarizer::{Answer, Scripted};
use common::*;

fn code_of(text: &str) -> &'static str {
    match Event::from_json(text) {
        Ok(event) => panic!("{event:?}"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            error.code()
        }
    }
}

#[test]
fn hostile_events_are_refused_with_the_field_that_is_wrong() {
    let message = r#"{"content":[],"source":{"kind":"user"},"role":"user","id":"m"}"#;
    let cases: Vec<(String, &str)> = vec![
        (String::new(), "not-json"),
        ("\u{0}".into(), "not-json"),
        ("\u{feff}{}".into(), "not-json"),
        ("{}".into(), "not-json"),
        ("[]".into(), "not-json"),
        ("null".into(), "not-json"),
        ("1e999".into(), "not-json"),
        (r#"{"type":"x","seq":0,"time":0,"data":1} trailing"#.into(), "not-json"),
        (r#"{"type":"x","type":"y","seq":0,"time":0,"data":1}"#.into(), "not-json"),
        (r#"{"type":"x","seq":0,"time":0}"#.into(), "not-json"),
        (r#"{"type":"x","seq":0,"time":0,"data":1,"more":2}"#.into(), "not-json"),
        (r#"{"type":5,"seq":0,"time":0,"data":1}"#.into(), "not-json"),
        (r#"{"type":"x","time":0,"data":1}"#.into(), "envelope"),
        (r#"{"type":"x","seq":-1,"time":0,"data":1}"#.into(), "envelope"),
        (r#"{"type":"x","seq":1.5,"time":0,"data":1}"#.into(), "envelope"),
        (r#"{"type":"x","seq":18446744073709551616,"time":0,"data":1}"#.into(), "envelope"),
        (r#"{"type":"x","seq":0,"data":1}"#.into(), "envelope"),
        (r#"{"type":"x","seq":0,"time":null,"data":1}"#.into(), "envelope"),
        (r#"{"type":"x","seq":0,"time":9223372036854775808,"data":1}"#.into(), "envelope"),
        (r#"{"type":"x","seq":0,"time":0,"data":1,"ignorable":false}"#.into(), "envelope"),
        (r#"{"type":"x","seq":0,"time":0,"data":1,"surfaceOp":"append"}"#.into(), "unexpected-surface-op"),
        (r#"{"type":"x","seq":0,"time":0,"data":1,"sourceEventSeqs":[]}"#.into(), "unexpected-sources"),
        (format!(r#"{{"type":"user/message","seq":0,"time":0,"data":{message},"surfaceOp":"prepend"}}"#), "invalid-surface-op"),
        (
            format!(r#"{{"type":"user/message","seq":0,"time":0,"data":{message},"surfaceOp":{{"op":"replace","start":-1,"end":0}}}}"#),
            "invalid-surface-op",
        ),
        (
            format!(r#"{{"type":"user/message","seq":0,"time":0,"data":{message},"surfaceOp":"append","sourceEventSeqs":[1.5]}}"#),
            "invalid-source",
        ),
        (
            format!(r#"{{"type":"user/message","seq":0,"time":0,"data":{message},"surfaceOp":"append","sourceEventSeqs":7}}"#),
            "invalid-source",
        ),
        (r#"{"type":"user/message","seq":0,"time":0,"data":null,"surfaceOp":"append"}"#.into(), "data"),
        (r#"{"type":"user/message","seq":0,"time":0,"data":{},"surfaceOp":"append"}"#.into(), "data"),
        (
            r#"{"type":"assistant/message","seq":0,"time":0,"data":{"turn":-1,"step":0,"message":{}},"surfaceOp":"append"}"#
                .into(),
            "data",
        ),
        (r#"{"type":"request/header","seq":0,"time":0,"data":{"header":{},"reason":"initial"}}"#.into(), "data"),
    ];
    for (text, code) in cases {
        assert_eq!(code_of(&text), code, "{text}");
    }
}

#[test]
fn huge_numbers_in_usage_are_refused_or_carried_and_never_overflow() {
    let event = |usage: &str| {
        format!(
            r#"{{"type":"assistant/message","seq":1,"time":0,"data":{{"turn":1,"step":1,"message":{{"role":"assistant","content":[{{"type":"text","text":"x"}}],"source":{{"kind":"model","provider":"p","model":"m"}},"id":"a"}},"usage":{usage}}},"surfaceOp":"append"}}"#
        )
    };
    for refused in [
        r#"{"inputTokens":-1,"outputTokens":0}"#,
        r#"{"inputTokens":1.5,"outputTokens":0}"#,
        r#"{"inputTokens":1e30,"outputTokens":0}"#,
        r#"{"inputTokens":"7","outputTokens":0}"#,
        r#"{"outputTokens":0}"#,
    ] {
        assert_eq!(code_of(&event(refused)), "data", "{refused}");
    }
    let most = u64::MAX;
    let usage = format!(
        r#"{{"inputTokens":{most},"outputTokens":{most},"cacheReadTokens":{most},"cacheWriteTokens":{most},"reasoningTokens":{most}}}"#
    );
    let answer = Event::from_json(&event(&usage)).unwrap();
    for window_tokens in [16, 200_000, u64::MAX] {
        let mut session = session();
        session.append(header()).unwrap();
        session.append(Draft { data: answer.data.clone(), surface_op: answer.surface_op, ..header() }).unwrap();
        user(&mut session, &words(100));
        for trigger in
            [Trigger::Pressure, Trigger::PostTurn, Trigger::Overflow { reported: Some(most) }, Trigger::manual()]
        {
            for rule_set in [RuleSet::Default, RuleSet::Harness] {
                let trigger = match &trigger {
                    Trigger::Overflow { reported } => Trigger::Overflow { reported: *reported },
                    Trigger::Manual { .. } => Trigger::manual(),
                    Trigger::PostTurn => Trigger::PostTurn,
                    _ => Trigger::Pressure,
                };
                let mut engine = engine(Policy::default(), rule_set);
                let _ = compact(&mut engine, &mut session, trigger, &window(window_tokens), &mut Scripted::default());
            }
        }
    }
}

#[test]
fn deep_json_never_exhausts_the_stack() {
    for depth in [100, 200, 10_000, 300_000] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            // An unknown event is carried as text however deep it is; and so it is written again.
            let text = format!(r#"{{"type":"x","seq":0,"time":0,"data":{deep}}}"#);
            let event = Event::from_json(&text).unwrap();
            assert_eq!(event.to_json(), text);
            let EventData::Other { data, .. } = &event.data else { panic!() };
            let _ = data.to_value();
            // A known one is read, and refused where it is too deep.
            for text in [
                format!(
                    r#"{{"type":"user/message","seq":0,"time":0,"data":{{"content":[{deep}],"source":{{"kind":"user"}},"role":"user","id":"m"}},"surfaceOp":"append"}}"#
                ),
                format!(
                    r#"{{"type":"user/message","seq":0,"time":0,"data":{{"content":[],"source":{{"kind":"user","x":{deep}}},"role":"user","id":"m"}},"surfaceOp":"append"}}"#
                ),
                format!(r#"{{"type":"turn/start","seq":0,"time":0,"data":{{"turn":1,"x":{deep}}}}}"#),
            ] {
                match Event::from_json(&text) {
                    Ok(event) => drop(event.to_json()),
                    Err(error) => assert_eq!(error.code(), "data"),
                }
            }
            assert_eq!(Event::from_json(&deep).unwrap_err().code(), "not-json");
        }
    }
    let nested =
        format!("{}{}", r#"{"type":"tool-result","toolCallId":"c","content":["#.repeat(5_000), "]}".repeat(5_000));
    assert!(serde_json::from_str::<Block>(&nested).is_err());
}

fn file() -> (Session, Vec<u8>) {
    let mut session = conversation(2, 40);
    user(&mut session, "数据 👩\u{200d}💻 \"quoted\" \u{2028} end");
    compact(&mut standard(), &mut session, Trigger::manual(), &window(4_000), &mut Scripted::default()).unwrap();
    let mut bytes = Vec::new();
    session.write_jsonl(&mut bytes).unwrap();
    (session, bytes)
}

#[test]
fn a_file_cut_at_every_byte_gives_its_whole_events_and_tells_of_the_torn_line() {
    let (session, bytes) = file();
    let header_ends = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    for cut in 0..=bytes.len() {
        let part = &bytes[..cut];
        if cut < header_ends {
            assert_eq!(Session::read_jsonl(part).unwrap_err().code(), "file-header", "cut at byte {cut}");
            continue;
        }
        let loaded = match Session::read_jsonl(part) {
            Ok(loaded) => loaded,
            Err(error) => panic!("cut at byte {cut}: {error}"),
        };
        let lines = part.iter().filter(|byte| **byte == b'\n').count();
        // The last event is whole without its line end.
        let whole = part.last() == Some(&b'\n') || bytes.get(cut).is_none_or(|next| *next == b'\n');
        let events = if part.last() == Some(&b'\n') || !whole { lines.max(1) - 1 } else { lines };
        assert_eq!(loaded.session.events(), &session.events()[..events], "cut at byte {cut}");
        assert_eq!(loaded.torn_line, (!whole).then_some(lines + 1), "cut at byte {cut}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    let (_, bytes) = file();
    let third = bytes.split_inclusive(|byte| *byte == b'\n').take(2).map(<[u8]>::len).sum::<usize>();
    for bad in [&b"\xff\xfe"[..], b"\xc3", b"\xed\xa0\x80"] {
        let mut broken = bytes.clone();
        broken.splice(third + 9..third + 9, bad.iter().copied());
        let error = Session::read_jsonl(broken.as_slice()).unwrap_err();
        assert!(error.to_string().starts_with("line 3: "), "{error}");
        assert!(!error.is_retryable(), "the same bytes will not get better");
        let mut broken = bytes.clone();
        broken.splice(3..3, bad.iter().copied());
        let error = Session::read_jsonl(broken.as_slice()).unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), ("file-header", false), "{error}");
    }
}

#[test]
fn a_bad_header_is_refused_and_odd_ones_are_kept() {
    for header in [
        "",
        "\n",
        "null",
        "[]",
        "{}",
        r#"{"type":"session"}"#,
        r#"{"type":"event","version":0,"id":"s","createdAt":0}"#,
        r#"{"version":0,"id":"s","createdAt":0}"#,
        r#"{"type":"session","version":0,"id":"","createdAt":0}"#,
        r#"{"type":"session","version":1,"id":"s","createdAt":0}"#,
        r#"{"type":"session","version":18446744073709551615,"id":"s","createdAt":0}"#,
        r#"{"type":"session","version":-0.5,"id":"s","createdAt":0}"#,
        r#"{"type":"session","version":"0","id":"s","createdAt":0}"#,
        r#"{"type":"session","version":0,"id":7,"createdAt":0}"#,
        r#"{"type":"session","version":0,"id":"s"}"#,
        r#"{"type":"session","version":0,"id":"s","createdAt":0,"cwd":5}"#,
    ] {
        let error = Session::read_jsonl(header.as_bytes()).unwrap_err();
        assert_eq!(error.code(), "file-header", "{header}");
        assert!(!error.is_retryable());
    }
    // Keys that this version does not know are dropped, nulls of those it knows are absent.
    for (header, written) in [
        (
            r#"{"type":"session","version":0,"id":"s","createdAt":0}"#,
            r#"{"type":"session","version":0,"id":"s","createdAt":0,"delegationDepth":0}"#,
        ),
        (
            r#"{"type":"session","version":0,"id":"s","createdAt":-9223372036854775808,"cwd":"/x","later":[1.25,null]}"#,
            r#"{"type":"session","version":0,"id":"s","createdAt":-9223372036854775808,"cwd":"/x","delegationDepth":0}"#,
        ),
        (
            r#"{"type":"session","version":0,"id":"數","createdAt":1,"agentPreset":"arya-claude","origin":null}"#,
            r#"{"type":"session","version":0,"id":"數","createdAt":1,"delegationDepth":0,"agentPreset":"arya-claude"}"#,
        ),
    ] {
        for end in ["", "\n", "\r\n"] {
            let loaded = Session::read_jsonl(format!("{header}{end}").as_bytes()).unwrap();
            assert_eq!(loaded.session.header().to_json_line(), written);
        }
    }
}

#[test]
fn a_bad_line_is_named_by_its_number() {
    let header = r#"{"type":"session","version":0,"id":"s","createdAt":0}"#;
    let event = |seq: u64| format!(r#"{{"type":"x","seq":{seq},"time":0,"data":1}}"#);
    for (lines, line, code) in [
        (vec![event(0), String::new(), event(1)], 3, "not-json"),
        (vec![event(0), event(0)], 3, "seq"),
        (vec![event(1)], 2, "seq"),
        (vec![event(u64::MAX)], 2, "seq"),
        (vec![r#"{"type":"request/header-delta","seq":0,"time":0,"data":{}}"#.into()], 2, "legacy"),
    ] {
        let text = format!("{header}\n{}\n", lines.join("\n"));
        let error = Session::read_jsonl(text.as_bytes()).unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.to_string().starts_with(&format!("line {line}: ")), "{error}");
    }
}

#[test]
fn an_order_of_events_that_makes_no_sense_is_refused_and_changes_nothing() {
    let mut session = conversation(1, 40);
    let message = |id: &str| Message::user(id, "x");
    let before = common::replayed(&session);
    let cases = [
        (Draft::user(message("m")).replacing(99, 99).citing(vec![1]), "not-on-surface"),
        (Draft::user(message("m")).replacing(u64::MAX, 0).citing(vec![1]), "not-on-surface"),
        (Draft::user(message("m")).replacing(0, 0).citing(vec![0]), "not-on-surface"),
        (Draft::user(message("m")).replacing(3, 1).citing(vec![1, 2, 3]), "range-reversed"),
        (Draft::user(message("m")).replacing(1, 3).citing(vec![1, 3]), "uncited-shadow"),
        (Draft::user(message("m")).replacing(1, 1), "uncited-shadow"),
        (Draft::user(message("m")).citing(vec![]), "empty-sources"),
        (Draft::user(message("m")).citing(vec![1, 1]), "duplicate-source"),
        (Draft::user(message("m")).citing(vec![u64::MAX]), "source-not-earlier"),
        (Draft::user(message("m")).citing(vec![session.revision() + 1]), "source-not-earlier"),
        (Draft::turn_start(1).citing(vec![1]), "unexpected-sources"),
        (Draft::turn_start(1).replacing(1, 1), "unexpected-surface-op"),
        (Draft { surface_op: None, ..Draft::user(message("m")) }, "missing-surface-op"),
        (Draft::user(message("")), "message"),
        (Draft::assistant(1, 1, message("m"), None), "message"),
        (Draft::tool_result(1, 1, message("m")), "message"),
        (Draft::user(Message::assistant("m", model(), vec![])), "message"),
        (
            Draft::tool_result(1, 1, Message::tool_result("m", "c", "x", false)).replacing(1, 1).citing(vec![1]),
            "result-rewrite",
        ),
        (Draft::request_header(RequestHeader::new("", "m")), "header"),
        (Draft::request_header(RequestHeader::new("p", "")), "header"),
    ];
    for (draft, code) in cases {
        let error = session.append_all(vec![Draft::turn_start(9), draft.clone()]).unwrap_err();
        assert_eq!(error.code(), code, "{draft:?}");
        assert!(!error.is_retryable());
        assert_eq!(session, before);
    }
    assert_eq!(session.append_all(Vec::new()).unwrap(), before.revision());
}

#[test]
fn turns_and_steps_may_come_in_any_order() {
    let mut session = session();
    for draft in [
        Draft::turn_end(9),
        Draft::step_end(0, u64::MAX),
        Draft::step_start(u64::MAX, 0),
        Draft::turn_start(u64::MAX),
        Draft::turn_start(0),
        Draft::step_end(3, 3),
    ] {
        session.append(draft).unwrap();
    }
    assert_eq!(session.open_turn(), Some(0));
    assert!(standard().measure(&session, &Situation::new()).is_ok());
    let error = engine(Policy::default(), RuleSet::Harness).measure(&session, &Situation::new()).unwrap_err();
    assert_eq!(error.code(), "meter");
}

#[test]
fn times_at_both_ends_of_the_range_are_kept() {
    for (time, now) in [(i64::MIN, i64::MIN), (i64::MAX, i64::MIN), (i64::MIN, i64::MAX), (i64::MAX, i64::MAX)] {
        let mut session = session();
        for _ in 0..4 {
            let id = format!("m{}", session.revision());
            session.append(Draft::user(Message::user(id, words(300))).at(time)).unwrap();
        }
        let situation = window(4_000).now(now);
        compact(&mut standard(), &mut session, Trigger::manual(), &situation, &mut Scripted::default()).unwrap();
        assert_eq!(session.last_time(), time.max(now));
        assert_eq!(common::replayed(&session), session);
        let mut bytes = Vec::new();
        session.write_jsonl(&mut bytes).unwrap();
        assert_eq!(Session::read_jsonl(bytes.as_slice()).unwrap().session, session);
    }
}

#[test]
fn questions_about_what_does_not_exist_have_no_answer() {
    for session in [session(), conversation(1, 40)] {
        let end = session.nodes().len();
        for seq in [session.revision(), u64::MAX - 1, u64::MAX] {
            assert!(session.event(seq).is_none() && session.message(seq).is_none());
            assert!(session.position(seq).is_none() && session.shadowed_by(seq).is_none());
        }
        for position in [end + 1, usize::MAX - 1, usize::MAX] {
            assert!(!session.is_cut(position));
            assert!(!session.is_balanced(position).unwrap());
        }
        assert!(session.is_cut(0) && session.is_cut(end));
    }
}

#[test]
fn a_knob_out_of_bounds_is_named_with_its_value() {
    let base = Policy::default;
    let cases = [
        (Policy { threshold_ratio: f64::NAN, ..base() }, "threshold_ratio is NaN"),
        (Policy { threshold_ratio: f64::INFINITY, ..base() }, "threshold_ratio is inf"),
        (Policy { threshold_ratio: 0.0, ..base() }, "threshold_ratio is 0"),
        (Policy { threshold_ratio: -0.5, ..base() }, "threshold_ratio is -0.5"),
        (Policy { retain: Retain::Ratio(f64::NAN), ..base() }, "retain.ratio is NaN"),
        (Policy { retain: Retain::Ratio(-1.0), ..base() }, "retain.ratio is -1"),
        (Policy { retain: Retain::Ratio(0.8), ..base() }, "what is retained (0.8)"),
        (Policy { min_gain_ratio: f64::NAN, ..base() }, "min_gain_ratio is NaN"),
        (Policy { min_gain_ratio: -0.01, ..base() }, "min_gain_ratio is -0.01"),
        (Policy { target_gap_ratio: 0.51, ..base() }, "target_gap_ratio is 0.51"),
        (Policy { max_tokens: 0, ..base() }, "max_tokens is 0"),
        (Policy { pre_warm_percent: 101, ..base() }, "pre_warm_percent is 101"),
        (Policy { post_turn_percent: 255, ..base() }, "post_turn_percent is 255"),
        (Policy { pre_warm_percent: 80, post_turn_percent: 80, ..base() }, "pre_warm_percent is 80"),
        (Policy { summarizer: Some(Route::new("", "m")), ..base() }, "summarizer is /m"),
        (
            Policy {
                prune: PrunePolicy::trimming(TrimPolicy { head_chars: usize::MAX, ..TrimPolicy::default() }),
                ..base()
            },
            "prune.trim.threshold_chars is 8192",
        ),
    ];
    for (policy, text) in cases {
        for rule_set in [RuleSet::Default, RuleSet::Harness] {
            let error = BaseEngine::new(policy.clone(), Kit::base(), rule_set).unwrap_err();
            assert!(error.to_string().starts_with(text), "{error}");
        }
    }
    let of = |route: Route, change: &dyn Fn(&mut ModelPolicy)| {
        let mut own = ModelPolicy {
            route,
            threshold_ratio: None,
            retain: None,
            summarizer: None,
            max_tokens: None,
            compaction_retries: None,
            overflow_retries: None,
        };
        change(&mut own);
        own
    };
    let route = || Route::new("p", "m");
    for (model_policies, code) in [
        (vec![of(route(), &|_| {}), of(route(), &|_| {})], "duplicate-route"),
        (vec![of(Route::new("p", ""), &|_| {})], "out-of-bounds"),
        (vec![of(route(), &|own| own.threshold_ratio = Some(f64::NAN))], "out-of-bounds"),
        (vec![of(route(), &|own| own.threshold_ratio = Some(0.1))], "retain-not-below-threshold"),
        (vec![of(route(), &|own| own.max_tokens = Some(0))], "out-of-bounds"),
        (vec![of(route(), &|own| own.summarizer = Some(Some(Route::new("", ""))))], "out-of-bounds"),
    ] {
        assert_eq!(Policy { model_policies, ..base() }.validate().unwrap_err().code(), code);
    }
}

#[test]
fn an_empty_kit_is_refused_field_by_field() {
    let kit = Kit::base();
    type Emptied<'a> = (&'a str, &'a dyn Fn(&mut Kit));
    let emptied: [Emptied<'_>; 6] = [
        ("id is empty", &|kit| kit.id.clear()),
        ("instruction is empty", &|kit| kit.instruction = " \n".into()),
        ("frame.opening is empty", &|kit| kit.frame.opening.clear()),
        ("frame.closing is empty", &|kit| kit.frame.closing.clear()),
        ("frame.tag is empty", &|kit| kit.frame.tag.clear()),
        ("sections is empty", &|kit| kit.sections.push(String::new())),
    ];
    for (text, change) in emptied {
        let mut kit = kit.clone();
        change(&mut kit);
        let error = BaseEngine::new(Policy::default(), kit, RuleSet::Default).unwrap_err();
        assert!(error.to_string().ends_with(text), "{error}");
    }
    let mut open = kit.clone();
    open.frame.closing = "the end".into();
    assert_eq!(open.validate().unwrap_err().to_string(), "kit \"base\": the closing must contain </compacted-summary>");
    let mut twice = kit;
    twice.sections.push("Next Step".into());
    assert!(twice.validate().is_err());
    assert!(serde_json::from_str::<Kit>("{}").is_err());
}

#[test]
fn hostile_settings_of_the_harness_are_refused_by_key() {
    for (config, code) in [
        (json!(null), "out-of-bounds"),
        (json!([]), "out-of-bounds"),
        (json!({"thresholdratio": 0.5}), "unknown-key"),
        (json!({"": 1}), "unknown-key"),
        (json!({"thresholdRatio": "0.5"}), "out-of-bounds"),
        (json!({"thresholdRatio": 1e308}), "out-of-bounds"),
        (json!({"thresholdRatio": -1e-308}), "out-of-bounds"),
        (json!({"thresholdRatio": null}), "out-of-bounds"),
        (json!({"retainTokens": -1}), "out-of-bounds"),
        (json!({"retainTokens": 1e300}), "out-of-bounds"),
        (json!({"retainTokens": 1.5}), "out-of-bounds"),
        (json!({"retainRatio": 0.1, "retainTokens": 5}), "exclusive"),
        (json!({"retainRatio": 0.9}), "retain-not-below-threshold"),
        (json!({"maxTokens": 0}), "out-of-bounds"),
        (json!({"auto": "yes"}), "out-of-bounds"),
        (json!({"summarizationProvider": "p"}), "out-of-bounds"),
        (json!({"modelPolicies": {}}), "out-of-bounds"),
        (json!({"modelPolicies": [null]}), "out-of-bounds"),
        (json!({"modelPolicies": [{"provider": "p"}]}), "out-of-bounds"),
        (
            json!({"modelPolicies": [{"provider": "p", "model": "m"}, {"provider": "p", "model": "m"}]}),
            "duplicate-route",
        ),
        (json!({"modelPolicies": [{"provider": "p", "model": "m", "auto": true}]}), "unknown-key"),
    ] {
        let error = Policy::from_harness_config(&config).unwrap_err();
        assert_eq!(error.code(), code, "{config}: {error}");
    }
    for (config, code) in [
        (json!(7), "out-of-bounds"),
        (json!({"chars": 1}), "unknown-key"),
        (json!({"thresholdChars": 0}), "out-of-bounds"),
        (json!({"thresholdChars": 1e300}), "out-of-bounds"),
        (json!({"headChars": -1}), "out-of-bounds"),
        (json!({"headChars": u64::MAX}), "out-of-bounds"),
        (json!({"headChars": 9_007_199_254_740_991_u64, "tailChars": 9_007_199_254_740_991_u64}), "out-of-bounds"),
        (json!({"thresholdChars": 10}), "out-of-bounds"),
    ] {
        let error = TrimPolicy::from_harness_config(&config).unwrap_err();
        assert_eq!(error.code(), code, "{config}: {error}");
    }
    for text in [r#"{"threshold_ratio":0.5}"#, r#"{"maxTokens":-1}"#, r#"{"preWarmPercent":256}"#, r#"{"retain":{}}"#] {
        assert!(serde_json::from_str::<Policy>(text).is_err(), "{text}");
    }
}

#[test]
fn windows_and_totals_at_the_ends_of_the_range_give_levels_or_an_error() {
    let odd = [
        Policy::default(),
        Policy { headroom_tokens: u64::MAX, reserve_output: true, ..Policy::default() },
        Policy { retain: Retain::Tokens(u64::MAX), absolute_token_limit: u64::MAX, ..Policy::default() },
        // Values that validation refuses do no harm either.
        Policy { threshold_ratio: f64::NAN, retain: Retain::Ratio(f64::NAN), ..Policy::default() },
        Policy { threshold_ratio: -1.0, target_gap_ratio: f64::INFINITY, ..Policy::default() },
        Policy { threshold_ratio: 1e300, target_gap_ratio: -1.0, pre_warm_percent: 255, ..Policy::default() },
    ];
    for policy in odd {
        for tokens in [0, 1, 15, 16, 17, 200_000, u64::MAX - 1, u64::MAX] {
            let window = Window { tokens, origin: WindowOrigin::Named(String::new()) };
            for max_output in [None, Some(0), Some(u64::MAX)] {
                match Levels::new(&policy, Some(&window), max_output) {
                    Err(error) => assert!(tokens < 16 && error.code() == "window-too-small"),
                    Ok(levels) => {
                        for total in [0, 1, u64::MAX] {
                            let plan = levels.plan(levels.due_when_asked(total));
                            assert!(0 < plan.tail_tokens && plan.tail_tokens < plan.target_tokens);
                            let _ = (levels.due_after_turn(total), levels.due_under_pressure(total), levels.explain());
                        }
                        let _ = levels.plan(Due { level: Level::Asked, tokens: 0 });
                        let _ = levels.plan(Due { level: Level::Asked, tokens: u64::MAX });
                    }
                }
            }
        }
        for window in [i64::MIN, -1, 0, 1, i64::MAX] {
            let _ = policy.harness_levels(&Route::new("", ""), window);
        }
    }
}

fn triggers() -> Vec<Trigger> {
    vec![
        Trigger::Pressure,
        Trigger::ModelSwitch,
        Trigger::PostTurn,
        Trigger::Overflow { reported: None },
        Trigger::Overflow { reported: Some(u64::MAX) },
        Trigger::manual(),
        Trigger::UpTo(0),
        Trigger::UpTo(u64::MAX),
        Trigger::From(0),
        Trigger::From(u64::MAX),
        Trigger::Region { start: 0, end: u64::MAX },
        Trigger::Region { start: u64::MAX, end: 0 },
        Trigger::Precompute,
    ]
}

#[test]
fn every_trigger_on_an_empty_session_does_nothing() {
    for rule_set in [RuleSet::Default, RuleSet::Harness] {
        for trigger in triggers() {
            let kind = trigger.kind();
            let mut session = session();
            let mut summarizer = Scripted::default();
            let mut engine = engine(Policy::default(), rule_set);
            match compact(&mut engine, &mut session, trigger, &window(200_000), &mut summarizer) {
                Ok(outcome) => assert_eq!(outcome.code(), "unneeded", "{kind:?}"),
                Err(error) => assert_eq!((kind, error.code()), (TriggerKind::Region, "range")),
            }
            assert_eq!((session.revision(), summarizer.requests.len()), (0, 0));
        }
    }
}

#[test]
fn a_region_of_what_is_not_there_or_was_folded_is_refused() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    let outcome =
        compact(&mut engine, &mut session, Trigger::manual(), &window(4_000), &mut Scripted::default()).unwrap();
    let shadowed = outcome.compacted().unwrap().fold().unwrap().shadowed_seqs.clone();
    let (checkpoint, last) = (session.nodes()[0].seq, session.nodes().last().unwrap().seq);
    let before = session.revision();
    for (trigger, says) in [
        (
            Trigger::Region { start: shadowed[0], end: shadowed[0] },
            format!("seq {} is not on the surface", shadowed[0]),
        ),
        (Trigger::Region { start: checkpoint, end: shadowed[1] }, format!("seq {} is not on the surface", shadowed[1])),
        (Trigger::Region { start: last, end: checkpoint }, format!("range start {last}")),
        (Trigger::UpTo(shadowed[2]), format!("seq {} is not on the surface", shadowed[2])),
        (Trigger::From(shadowed[2]), format!("seq {} is not on the surface", shadowed[2])),
        (Trigger::UpTo(u64::MAX), format!("seq {} is not on the surface", u64::MAX)),
        (Trigger::From(before), format!("seq {before} is not on the surface")),
        // The header is an event and no node.
        (Trigger::UpTo(0), "seq 0 is not on the surface".into()),
    ] {
        let error = engine.begin(&mut session, trigger, &window(4_000)).unwrap_err();
        assert_eq!(error.code(), "range");
        assert!(error.to_string().starts_with(&says), "{error}");
    }
    assert_eq!(session.revision(), before);
}

#[test]
fn huge_figures_in_a_situation_never_overflow() {
    let usage = |total_tokens, revision| UsageReport { total_tokens, revision, is_sum: false };
    let most = u64::MAX;
    let situations: Vec<Situation> = vec![
        window(most).max_output(most),
        window(16).max_output(most),
        window(200_000).unsent(Unsent::Tokens(most)),
        window(most).unsent(Unsent::Tokens(most)),
        Situation::new().unsent(Unsent::Tokens(most)),
        window(200_000).usage(usage(most, None)),
        window(most).usage(usage(most, Some(most))),
        window(most).usage(usage(most, Some(0))),
        Situation::new().usage(usage(most, Some(1))),
        window(most).usage(usage(most, None)).unsent(Unsent::Tokens(most)).max_output(most).now(i64::MAX),
        window(200_000).unsent(Unsent::Message(Box::new(Message::user("", "")))),
        window(200_000).system("").tools(vec![Value::Null]).route(Route::new("", "")),
    ];
    for situation in situations {
        for rule_set in [RuleSet::Default, RuleSet::Harness] {
            for trigger in triggers() {
                let mut session = conversation(4, 400);
                let mut engine = engine(Policy::default(), rule_set);
                let _ = engine.measure(&session, &situation);
                let _ = compact(&mut engine, &mut session, trigger, &situation, &mut Scripted::default());
                assert!(session.open_compaction().is_none());
            }
        }
    }
}

#[test]
fn an_answer_after_the_bracket_was_closed_is_refused_and_logs_nothing() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    let Step::Summarize(pending) = engine.begin(&mut session, Trigger::manual(), &window(4_000)).unwrap() else {
        panic!()
    };
    let end = CompactionEnd {
        compaction_id: pending.compaction_id().unwrap().into(),
        source_command_id: None,
        turn: None,
        error: Some("by hand".into()),
        extra: Extra::default(),
    };
    session.append(Draft::new(EventData::CompactionEnd(Box::new(end)))).unwrap();
    let before = session.revision();
    for reply in [Answer::Good.reply(), Answer::Fails.reply()] {
        let Step::Summarize(again) = engine.begin(&mut session, Trigger::Precompute, &window(4_000)).unwrap() else {
            panic!()
        };
        let _ = engine.resume(&mut session, again, reply);
        assert_eq!(session.revision(), before);
    }
    let error = engine.resume(&mut session, pending, Answer::Good.reply()).unwrap_err();
    assert_eq!((error.code(), session.revision()), ("changed", before));
}

#[test]
fn an_answer_of_an_earlier_bracket_does_not_land_in_a_later_one() {
    let mut session = conversation(6, 800);
    let mut engine = standard();
    let Step::Summarize(first) = engine.begin(&mut session, Trigger::manual(), &window(4_000)).unwrap() else {
        panic!()
    };
    session.append(Draft::new(EventData::EndSeed(EndSeed::default()))).unwrap();
    let Step::Summarize(second) = engine.begin(&mut session, Trigger::manual(), &window(4_000)).unwrap() else {
        panic!()
    };
    let error = engine.resume(&mut session, first, Answer::Good.reply()).unwrap_err();
    assert_eq!(error.code(), "changed");
    assert!(session.open_compaction().is_some(), "the second bracket is not the first's to close");
    assert!(engine.resume(&mut session, second, Answer::Good.reply()).is_ok());
    assert!(session.open_compaction().is_none());
}

#[test]
fn a_command_with_odd_texts_is_run_like_any_other() {
    for instructions in [None, Some(String::new()), Some(" \n".into()), Some("</compacted-summary>\u{0}".repeat(999))] {
        let mut session = conversation(6, 800);
        let request = ManualRequest { instructions, command_id: Some(String::new()) };
        let mut host = Unattended(Scripted::default());
        let outcome = compact_manual(&mut standard(), &mut session, request, &window(4_000), &mut host).unwrap();
        assert_eq!(outcome.code(), "compacted");
        assert_eq!(common::replayed(&session), session);
    }
}

#[test]
fn prices_at_the_end_of_the_range_never_overflow() {
    struct Greedy;
    impl TokenCounter for Greedy {
        fn name(&self) -> &str {
            ""
        }
        fn count(&self, _: &str) -> u64 {
            u64::MAX
        }
    }
    let flat = MediaPricing::Flat { image_tokens: u64::MAX, document_tokens: u64::MAX, audio_tokens: u64::MAX };
    let pricings =
        [Pricing::new(Arc::new(HarnessHeuristic), flat), Pricing::new(Arc::new(Greedy), MediaPricing::default())];
    for pricing in pricings {
        let image: Block = serde_json::from_value(json!({"type": "image"})).unwrap();
        let mut session = conversation(3, 100);
        let content = vec![Block::text("look"), image.clone(), image];
        session.append(Draft::user(Message::new("i", Role::User, Source::user(), content.clone()))).unwrap();
        assert_eq!(pricing.content(&content), u64::MAX);
        let mut engine = standard().with_pricing(pricing);
        for trigger in triggers() {
            let situation = window(200_000).system("s");
            let _ = compact(&mut engine, &mut session, trigger, &situation, &mut Scripted::default());
        }
        assert!(engine.measure(&session, &window(200_000)).is_ok());
    }
}

#[test]
fn reported_usage_that_cannot_be_is_doubted() {
    let session = conversation(2, 100);
    let report = |total_tokens, revision| UsageReport { total_tokens, revision, is_sum: false };
    for (report, doubt) in [
        (report(0, None), UsageDoubt::Zero),
        (report(50, Some(session.revision() + 1)), UsageDoubt::FutureRevision),
        (report(50, Some(u64::MAX)), UsageDoubt::FutureRevision),
        (report(400_001, None), UsageDoubt::BeyondWindow),
        (UsageReport { is_sum: true, ..report(50, None) }, UsageDoubt::Sum),
    ] {
        let measurement = standard().measure(&session, &window(200_000).usage(report)).unwrap();
        assert_eq!(measurement.doubt, Some(doubt));
        assert_eq!(measurement.total_tokens, measurement.surface_tokens);
    }
}

#[test]
fn budgets_that_do_not_fit_trim_without_a_panic() {
    let blocks =
        [Block::text("数".repeat(50)), Block::reasoning("r"), Block::text(""), Block::text("👩\u{200d}💻".repeat(9))];
    let sizes = [0, 1, 7, 60, usize::MAX];
    for threshold_chars in sizes {
        for head_chars in sizes {
            for tail_chars in sizes {
                let policy = TrimPolicy { threshold_chars, head_chars, tail_chars, marker: "…".into() };
                if let Some(trimmed) = trim_content(&blocks, &policy) {
                    assert!(trimmed.blocks.contains(&Block::reasoning("r")));
                    let chars: usize =
                        trimmed.blocks.iter().filter_map(Block::as_text).map(|text| text.chars().count()).sum();
                    assert_eq!(chars, trimmed.chars_after);
                    assert!(policy.validate().is_err() || chars <= threshold_chars);
                }
            }
        }
    }
    assert_eq!(trim_content(&[], &TrimPolicy::default()), None);
}

#[test]
fn cutting_at_the_ends_of_the_range_gives_a_part_or_nothing() {
    for text in ["", "a", "\u{301}\u{301}", "👩\u{200d}\u{200d}\u{200d}", " \n\n ", "。。。"] {
        for chars in [0, 1, 2, usize::MAX] {
            let cut = cut_middle(text, chars, "");
            assert!(cut.chars().count() <= text.chars().count());
            let _ = cut_middle(text, chars, "a marker that is longer than the text");
            let kept = cut_at_sentence(text, |text| text.chars().count() <= chars);
            assert!(kept.is_none_or(|kept| text.starts_with(kept)));
        }
    }
}

#[test]
fn cutting_the_middle_out_begins_the_tail_with_no_torn_character() {
    let joined = |c: char| matches!(c, '\u{200d}' | '\u{301}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{fe0f}');
    for unit in ["👩\u{200d}💻", "👍🏽", "e\u{301}", "❤\u{fe0f}"] {
        let text = unit.repeat(20);
        for chars in 2..40 {
            let cut = cut_middle(&text, chars, "|");
            let (head, tail) = cut.split_once('|').unwrap_or((&cut, ""));
            assert!(!tail.starts_with(joined), "{unit:?} at {chars}: {tail:?}");
            assert!(!head.ends_with('\u{200d}'), "{unit:?} at {chars}: {head:?}");
        }
    }
}

#[test]
fn a_text_of_five_megabytes_without_a_break_is_folded_and_rendered() {
    let mut session = session();
    let seq = user(&mut session, &"x".repeat(5 << 20));
    assistant(&mut session, "done", &[]);
    user(&mut session, "next");
    assistant(&mut session, "tail", &[]);
    let mut answer = |request: &SummaryRequest| -> Result<SummaryReply, SummarizerError> {
        assert!(request.rendered().len() > 5 << 20);
        Ok(common::summarizer::text("y".repeat(5 << 20)))
    };
    let outcome = compact(&mut standard(), &mut session, Trigger::manual(), &window(200_000), &mut answer).unwrap();
    let fold = outcome.compacted().unwrap().fold().unwrap();
    assert!(fold.shadowed_seqs.contains(&seq) && fold.checkpoint_tokens <= 8_192 + 200);
    let mut file = Vec::new();
    session.write_jsonl(&mut file).unwrap();
    assert_eq!(Session::read_jsonl(file.as_slice()).unwrap().session, session);
}

#[test]
fn the_newest_request_of_five_megabytes_is_pinned_within_its_part() {
    let mut session = session();
    user(&mut session, &"数".repeat((5 << 20) / 3));
    assistant(&mut session, "done", &[]);
    let outcome =
        compact(&mut standard(), &mut session, Trigger::manual(), &window(8_000), &mut Scripted::default()).unwrap();
    let fold = outcome.compacted().unwrap().fold().unwrap();
    assert!(fold.pinned_seq.is_some() && fold.checkpoint_tokens < 8_000 / 2);
}

#[test]
fn the_extractive_summary_takes_anything() {
    let odd = [
        "".to_owned(),
        "never ".repeat(50_000),
        "x".repeat(1 << 20),
        "## \n## ## \n- - -\nNone.".repeat(100),
        "error: \u{0}\u{301}\u{200d}".repeat(2_000),
        "\n".repeat(100_000),
    ];
    for text in odd {
        let mut session = session();
        user(&mut session, &text);
        assistant(&mut session, &text, &["c", "c"]);
        result(&mut session, "c", &text);
        result(&mut session, "c", &text);
        user(&mut session, &words(500));
        user(&mut session, "tail");
        let result =
            compact(&mut standard(), &mut session, Trigger::manual(), &window(8_000), &mut ExtractiveSummarizer);
        assert!(result.is_ok(), "{result:?}");
    }
}

#[test]
fn a_whole_checkpoint_keeps_its_limit_of_characters_whatever_the_answer_holds() {
    for answer in [Answer::Good, Answer::Huge, Answer::Hostile, Answer::Unbroken] {
        for max in [600, 1_000, 3_000] {
            let policy = Policy { max_checkpoint_chars: Some(max), ..Policy::default() };
            let mut engine = engine(policy, RuleSet::Default);
            let mut session = conversation(6, 2_000);
            let mut summarizer = Scripted::new([answer]);
            let outcome =
                compact(&mut engine, &mut session, Trigger::manual(), &window(20_000), &mut summarizer).unwrap();
            let fold = outcome.compacted().unwrap().fold().unwrap();
            let chars = fold.checkpoint.text().chars().count();
            assert!(chars <= max, "{answer:?}: {chars} characters of {max}");
        }
    }
}

/// A text that resembles the ones of a log, some of it broken.
fn almost_json() -> impl Strategy<Value = String> {
    let (_, bytes) = file();
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<String> = text.lines().map(String::from).collect();
    (
        proptest::sample::select(lines),
        any::<proptest::sample::Index>(),
        "\\PC{0,3}|[\\[\\]{}\",:0-9a-z\\\\-]{0,3}",
        0usize..8,
    )
        .prop_map(|(line, at, new, gone)| {
            let mut chars: Vec<char> = line.chars().collect();
            let at = at.index(chars.len());
            let end = (at + gone).min(chars.len());
            chars.splice(at..end, new.chars());
            chars.into_iter().collect()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_broken_line_is_read_or_refused(text in almost_json()) {
        match Event::from_json(&text) {
            Ok(event) => prop_assert_eq!(Event::from_json(&event.to_json()).unwrap(), event),
            Err(error) => prop_assert!(!error.code().is_empty() && !error.to_string().is_empty()),
        }
        let _ = Draft::from_json(&text);
        let _ = Session::read_jsonl(text.as_bytes());
    }

    #[test]
    fn random_bytes_are_no_session(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(Session::read_jsonl(bytes.as_slice()).unwrap_err().code(), "file-header");
    }

    #[test]
    fn random_drafts_are_taken_whole_or_refused_whole(seed: u64) {
        let mut rng = common::Rng::new(seed);
        let mut session = common::generate::session(seed, 6);
        for draft in drafts(&common::generate::session(seed ^ 9, 8)) {
            let mut draft = draft;
            if rng.chance(30) {
                let seq = |rng: &mut common::Rng| rng.below(session.revision() + 2);
                draft = draft.replacing(seq(&mut rng), seq(&mut rng));
            }
            if rng.chance(30) {
                draft.sources = Some((0..rng.below(4)).map(|_| rng.below(session.revision() + 2)).collect());
            }
            let before = rng.chance(50).then(|| replayed(&session));
            if session.append(draft).is_err() && let Some(before) = before {
                prop_assert_eq!(&session, &before);
            }
        }
        prop_assert_eq!(&replayed(&session), &session);
    }
}
