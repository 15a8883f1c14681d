//! The engineering ledger: what it counts, what it names, and when a check is red.

#![cfg(feature = "presets")]
#![allow(clippy::unwrap_used, reason = "a broken test may panic")]

mod common;

use arya_presets::EngineeringKind::{Check, Live, Read, Verify, Write};
use arya_presets::*;

use common::{model, session};

fn table() -> EngineeringTable {
    let tool = |name: &str, kind| EngineeringTool::new(name, kind);
    EngineeringTable::default()
        .with(tool("import_project", Verify))
        .with(tool("edit_rung", Write))
        .with(tool("download_to_controller", Live))
        .with(EngineeringTool { verdict: Some("/summary/passed".into()), ..tool("compile_display", Check) })
}

fn call(ledger: &mut EngineeringLedger, id: &str, name: &str, arguments: &str) {
    let Block::ToolCall(call) = Block::tool_call(id, name, arguments) else { unreachable!("it is a call") };
    ledger.call(&call);
}

#[test]
fn calls_and_failures_are_counted_by_kind() {
    let mut ledger = EngineeringLedger::new(table());
    for (id, name, failed) in [
        ("1", "project_overview", false),
        ("2", "studio_sdk_status", true),
        ("3", "edit_rung", false),
        ("4", "run_checks", false),
        ("5", "download_to_controller", true),
    ] {
        call(&mut ledger, id, name, "{}");
        ledger.result(id, failed, "");
    }
    call(&mut ledger, "6", "project_overview", "{}");
    assert_eq!(ledger.count(Read), LedgerCount { calls: 3, failed: 1, unanswered: 1 });
    assert_eq!(ledger.count(Write), LedgerCount { calls: 1, failed: 0, unanswered: 0 });
    assert_eq!(ledger.count(Live), LedgerCount { calls: 1, failed: 1, unanswered: 0 });
    assert_eq!(ledger.count(Verify), LedgerCount::default());
    assert_eq!(ledger.last_tool(), Some(("download_to_controller", false)));
    assert!(!ledger.is_red(), "a failed read is no failed check");
}

#[test]
fn a_tool_that_the_table_does_not_list_is_none_however_it_is_called() {
    let mut ledger = EngineeringLedger::new(EngineeringTable::default());
    for name in ["run_checks_all", "Run_Checks", "studio_sdk_download", "project_overview2", "read", ""] {
        call(&mut ledger, "1", name, r#"{"path":"a.L5X"}"#);
        ledger.result("1", true, "");
    }
    assert_eq!(ledger, EngineeringLedger::new(EngineeringTable::default()));
}

#[test]
fn a_failed_check_stays_red_until_a_retry_of_the_same_check_replaces_it() {
    let mut ledger = EngineeringLedger::new(table());
    let mut check = |id: &str, path: &str, failed: bool| {
        call(&mut ledger, id, "run_checks", &format!(r#"{{"path":"{path}","verbose":{}}}"#, id == "3"));
        ledger.result(id, failed, "");
        (ledger.is_red(), ledger.checks().len())
    };
    assert_eq!(check("1", "line.L5X", true), (true, 1));
    assert_eq!(check("2", "other.L5X", false), (true, 2), "another project is another check");
    assert_eq!(check("3", "line.L5X", false), (false, 2), "what is no artifact does not make another check");
    assert_eq!(check("4", "line.L5X", true), (true, 2), "a check that passed can fail again");
    call(&mut ledger, "5", "run_checks", r#"{"path":"line.L5X"}"#);
    assert!(ledger.is_red(), "a retry without its result replaces nothing");
    call(&mut ledger, "6", "import_project", r#"{"path":"line.L5X"}"#);
    ledger.result("6", false, "");
    assert!(ledger.is_red(), "another tool replaces nothing");
}

#[test]
fn a_verdict_in_the_result_counts_where_the_table_says_where_it_stands() {
    for (text, red) in [
        (r#"{"summary":{"passed":false}}"#, true),
        (r#"{"summary":{"passed":true}}"#, false),
        (r#"{"passed":false}"#, false),
        (r#"{"summary":{"passed":"no"}}"#, false),
        ("2 of 3 checks failed", false),
    ] {
        let mut ledger = EngineeringLedger::new(table());
        call(&mut ledger, "1", "compile_display", r#"{"display":"Overview"}"#);
        ledger.result("1", false, text);
        assert_eq!(ledger.is_red(), red, "{text}");
    }
}

#[test]
fn artifacts_are_the_arguments_that_name_them() {
    let mut ledger = EngineeringLedger::new(table());
    call(
        &mut ledger,
        "1",
        "project_overview",
        r#"{"path":"a.L5X","project":"line 3","depth":2,"file":7,"display":""}"#,
    );
    call(&mut ledger, "2", "run_checks", "no JSON");
    call(&mut ledger, "3", "run_checks", r#"{"path":"a.L5X"}"#);
    assert_eq!(ledger.artifacts().collect::<Vec<_>>(), ["a.L5X", "line 3"]);
}

#[test]
fn results_in_another_order_twice_or_of_unknown_calls_change_nothing_that_they_should_not() {
    let mut ledger = EngineeringLedger::new(table());
    call(&mut ledger, "a", "run_checks", r#"{"path":"a"}"#);
    call(&mut ledger, "b", "run_checks", r#"{"path":"b"}"#);
    ledger.result("b", true, "");
    ledger.result("a", false, "");
    ledger.result("b", false, "");
    ledger.result("nobody", true, "");
    assert!(ledger.is_red());
    assert_eq!(ledger.count(Check), LedgerCount { calls: 2, failed: 1, unanswered: 0 });
}

#[test]
fn an_id_that_comes_again_means_the_newest_call_and_parallel_ones_in_their_order() {
    let say = |calls: &[(&str, &str)]| {
        let calls = calls.iter().map(|(id, name)| Block::tool_call(*id, *name, "{}")).collect();
        Message::assistant("a", model(), calls)
    };
    let mut ledger = EngineeringLedger::new(table());
    ledger.take(&say(&[("1", "run_checks")]));
    // It was never answered, and its id comes again.
    ledger.take(&say(&[("1", "read")]));
    ledger.result("1", true, "");
    assert_eq!((ledger.count(Check).unanswered, ledger.is_red(), ledger.last_tool()), (1, false, None));
    ledger.take(&say(&[("1", "read"), ("1", "run_checks"), ("1", "edit_rung")]));
    for is_error in [true, false, true] {
        ledger.result("1", is_error, "");
    }
    assert_eq!(ledger.count(Check), LedgerCount { calls: 2, failed: 0, unanswered: 1 });
    assert_eq!(ledger.count(Write), LedgerCount { calls: 1, failed: 1, unanswered: 0 });
    ledger.result("1", true, "");
    assert_eq!(ledger.last_tool(), Some(("edit_rung", false)), "a fourth result answers nothing");
}

#[test]
fn a_session_is_folded_with_what_its_checkpoints_hide() {
    let mut session = session();
    let content = vec![Block::tool_call("1", "run_checks", r#"{"path":"line.L5X"}"#)];
    let first = session.append(Draft::assistant(1, 1, Message::assistant("a1", model(), content), None)).unwrap();
    let last = session.append(Draft::tool_result(1, 1, Message::tool_result("r1", "1", "2 failed", true))).unwrap();
    let before = EngineeringLedger::of_session(table(), &session);
    assert!(before.is_red());
    let mut engine = Preset::arya_automation().base_engine(RuleSet::Default).unwrap();
    let mut said = |_: &SummaryRequest| Ok(SummaryReply::text("p", "m", "A check was run."));
    let trigger = Trigger::Region { start: first, end: last };
    // Whether so short a span folds is the engine's affair; the ledger reads the log either way.
    let _ = compact(&mut engine, &mut session, trigger, &Situation::new(), &mut said);
    assert_eq!(EngineeringLedger::of_session(table(), &session), before);
}

#[test]
fn a_table_is_data_and_reads_back() {
    let text = serde_json::to_string(&table()).unwrap();
    assert_eq!(serde_json::from_str::<EngineeringTable>(&text).unwrap(), table());
    assert!(serde_json::from_str::<EngineeringTable>(r#"[{"name":"x","kind":"read","colour":1}]"#).is_err());
}
