//! The presets cell by cell, knob by knob and row by row: each test reads like the table that it holds.

#![cfg(feature = "presets")]
#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

use arya_presets::prompt::NATIVE_CAPABILITIES;
use arya_presets::*;
use serde_json::{Value, json};

const IDS: [&str; 5] = ["standard", "arya-standard", "arya-qwen", "arya-claude", "arya-automation"];

fn presets() -> [Preset; 5] {
    let presets = Preset::builtins();
    assert_eq!(presets.each_ref().map(|preset| preset.id.as_str()), IDS);
    presets
}

/// Compares a row of a table with what the presets have in that place.
fn row<T: PartialEq + std::fmt::Debug>(label: &str, cells: [T; 5], cell: impl Fn(&Preset) -> T) {
    for (preset, expected) in presets().iter().zip(cells) {
        assert_eq!(cell(preset), expected, "{}: {label}", preset.id);
    }
}

/// Compares a row of upper bounds with the characters of a text.
fn at_most(label: &str, cells: [usize; 5], text: impl Fn(&Preset) -> String) {
    for (preset, most) in presets().iter().zip(cells) {
        let chars = text(preset).chars().count();
        assert!(chars <= most, "{}: {label} has {chars} characters and may have {most}", preset.id);
        assert!(most == 0 || chars > most / 4, "{}: {label} has {chars} of {most} characters", preset.id);
    }
}

fn without_tag(text: &str) -> String {
    text.replace("<compacted-summary>", "").replace("</compacted-summary>", "").trim().to_owned()
}

#[test]
fn the_presets_are_what_their_table_says() {
    row("order in a picker", [1, 3, 4, 5, 6], |preset| preset.order);
    row("kit", ["base", "codex", "qwen", "claude", "codex"].map(str::to_owned), |preset| preset.kit.id.clone());
    at_most("persona", [300, 9_891, 12_109, 5_524, 5_106], |preset| preset.persona.text.clone());
    at_most("native capabilities", [0, 1_746, 1_746, 1_746, 1_746], |preset| {
        NATIVE_CAPABILITIES.trim_end().repeat(usize::from(preset.persona.native_capabilities))
    });
    at_most("instruction", [3_000, 600, 3_583, 3_378, 600], |preset| preset.kit.instruction.clone());
    row("sections", [8, 0, 9, 9, 0], |preset| preset.kit.sections.len());
    row(
        "envelope",
        [None, None, Some("state_snapshot"), Some("summary"), None].map(|tag| tag.map(str::to_owned)),
        |preset| preset.kit.envelope.as_ref().map(|envelope| envelope.tag.clone()),
    );
    row("envelope kept in the checkpoint", [None, None, Some(true), Some(false), None], |preset| {
        preset.kit.envelope.as_ref().map(|envelope| envelope.kept)
    });
    row("tagged sections", [None, None, Some(true), Some(false), None], |preset| {
        preset.kit.envelope.as_ref().map(|envelope| envelope.tagged_sections)
    });
    row("the frame's tag", ["compacted-summary"; 5].map(str::to_owned), |preset| preset.kit.frame.tag.clone());
    row("words before the body", [true, true, false, true, true], |preset| {
        !without_tag(&preset.kit.frame.opening).is_empty()
    });
    row("words behind the body", [false, false, true, true, false], |preset| {
        !without_tag(&preset.kit.frame.closing).is_empty()
    });
    row(
        "policy service",
        [
            None,
            Some("aryaStandardPolicy"),
            Some("aryaQwenPolicy"),
            Some("aryaClaudePolicy"),
            Some("aryaStandardPolicy"),
        ]
        .map(|name| name.map(str::to_owned)),
        |preset| preset.policy_service.as_ref().map(|service| service.name.clone()),
    );
    row("in a realm of its own", [false, false, false, false, true], |preset| {
        preset.policy_service.as_ref().is_some_and(|service| service.own_realm)
    });
}

#[test]
fn the_frames_keep_their_budgets() {
    let presets = presets();
    let parts = |id: &str| {
        let frame = &presets.iter().find(|preset| preset.id == id).unwrap().kit.frame;
        (without_tag(&frame.opening).chars().count(), without_tag(&frame.closing).chars().count())
    };
    for (id, opening, closing) in
        [("arya-standard", 399, 0), ("arya-automation", 399, 0), ("arya-qwen", 0, 168), ("arya-claude", 239, 204)]
    {
        let (opens, closes) = parts(id);
        assert!(opens <= opening && closes <= closing, "{id}: {opens} and {closes}, may be {opening} and {closing}");
    }
}

#[test]
fn the_shape_of_every_persona_is_the_one_that_its_agent_is_known_for() {
    let [standard, arya_standard, qwen, claude, automation] = presets();
    assert_eq!(standard.persona.text.lines().count(), 1);
    assert!(standard.persona.text.contains("{{model}}") && standard.persona.text.contains("{{cwd}}"));
    for (preset, headings) in [
        (
            &arya_standard,
            &["How you work", "Planning", "Task execution", "Validating your work", "The final message"][..],
        ),
        (
            &qwen,
            &["Core Mandates", "Task Management", "Primary Workflows", "Operational Guidelines", "Final Reminder"][..],
        ),
        (&claude, &["Tone", "Doing the task", "Checking the work", "Acting with care"][..]),
        (&automation, &["The loop", "Gates", "Identity", "Honesty"][..]),
    ] {
        let mut rest = preset.persona.text.as_str();
        for heading in headings {
            let (_, after) =
                rest.split_once(&format!("# {heading}\n")).unwrap_or_else(|| panic!("{}: {heading}", preset.id));
            rest = after;
        }
    }
}

#[test]
fn the_sections_of_the_kits_are_those_of_the_contract() {
    let [base, _, qwen, claude, _] = presets();
    assert_eq!(
        base.kit.sections.join("; "),
        "Primary Request and Intent; Key Technical Concepts; Files and Code; Errors and Fixes; Pending Jobs; Current Work; \
         Next Step; Critical Context"
    );
    assert_eq!(
        qwen.kit.sections.join(", "),
        "primary_request_and_intent, key_technical_concepts, files_and_code_sections, errors_and_fixes, problem_solving, \
         all_user_messages, pending_tasks, current_work, next_step"
    );
    assert_eq!(
        claude.kit.sections.join("; "),
        "Primary Request and Intent; Key Technical Concepts; Files and Code Sections; Errors and Fixes; Problem Solving; All \
         User Messages; Pending Tasks; Current Work; Optional Next Step"
    );
}

/// A table of knobs: the values of the five presets, and where a knob is pinned.
fn knob(name: &str, cells: [Value; 5]) {
    row(name, cells, |preset| preset.knob(name).unwrap_or_else(|| panic!("no knob is called {name}")));
}

fn all(name: &str, value: impl Into<Value>) {
    let value = value.into();
    knob(name, std::array::from_fn(|_| value.clone()));
}

#[test]
fn every_knob_has_the_value_of_its_column() {
    let n = |cells: [u64; 5]| cells.map(Value::from);
    all("auto", true);
    knob("threshold_ratio", [0.8, 0.9, 0.9, 0.99, 0.9].map(Value::from));
    knob("headroom_tokens", n([0, 16_000, 16_000, 13_000, 16_000]));
    knob("reserve_output", [false, true, true, true, true].map(Value::from));
    knob("output_reserve_cap_tokens", [Value::Null, json!(64_000), json!(64_000), json!(64_000), json!(64_000)]);
    all("retain_ratio", 0.16);
    all("retain_tokens", Value::Null);
    knob("max_tokens", n([8_192, 20_000, 20_000, 20_000, 20_000]));
    knob("keep_user_tokens", n([0, 20_000, 0, 0, 12_000]));
    knob("min_body_tokens", n([0, 0, 800, 600, 0]));
    knob("pre_warm_percent", n([0, 70, 70, 0, 65]));
    knob("post_turn_percent", n([0, 90, 90, 0, 85]));
    all("absolute_token_limit", 0);
    all("budget_scope", "thread");
    knob("min_fold_tokens", n([0, 4_000, 4_000, 0, 6_000]));
    knob("summary_retries", n([0, 1, 1, 1, 1]));
    all("compaction_retries", 1);
    all("overflow_retries", 1);
    knob("drop_oldest_retries", n([0, 2, 2, 2, 2]));
    all("checkpoint_prompt", "");
    all("summarizer", Value::Null);
    all("model_policies", json!([]));
    knob("prune_threshold_chars", n([8_192, 8_192, 8_192, 8_192, 16_384]));
    knob("prune_head_chars", n([4_096, 4_096, 4_096, 4_096, 8_192]));
    knob("prune_tail_chars", n([1_024, 1_024, 1_024, 1_024, 2_048]));
    knob("keep_recent_tool_results", [Value::Null, Value::Null, Value::Null, json!(12), Value::Null]);
    knob("min_micro_compact_tokens", [Value::Null, Value::Null, Value::Null, json!(20_000), Value::Null]);
    knob("recent_file_limit", n([0, 0, 0, 5, 0]));
    knob("auto_compact_failure_limit", n([0, 0, 0, 3, 0]));
    all("cool_down_ms", 0);
    all("idle_clear_ms", 0);
    all("max_request_bytes", 0);
    knob("clear_by_class", [false, false, true, false, false].map(Value::from));
    all("verify_user_messages", true);
    all("fallback", "none");
    all("min_gain_ratio", 0.05);
    all("target_gap_ratio", 0.10);
    assert_eq!(Knob::all().len(), 37, "a knob is missing from this table");
}

#[test]
fn the_pinned_knobs_are_those_of_the_contract() {
    row(
        "pinned",
        [
            "",
            "",
            "keep_user_tokens min_body_tokens",
            "threshold_ratio headroom_tokens pre_warm_percent post_turn_percent absolute_token_limit keep_recent_tool_results \
             min_micro_compact_tokens recent_file_limit auto_compact_failure_limit",
            "",
        ]
        .map(str::to_owned),
        |preset| preset.policy_service.as_ref().map_or_else(String::new, |service| service.pinned.join(" ")),
    );
}

#[test]
fn every_knob_is_refused_outside_of_its_bounds_and_taken_at_them() {
    // What is just inside, and what is just outside.
    let whole =
        |name: &'static str| (name, vec![json!(0), json!(1)], vec![json!(-1), json!(0.5), json!("1"), json!(true)]);
    let switch =
        |name: &'static str| (name, vec![json!(true), json!(false)], vec![json!(0), json!("true"), json!(null)]);
    let ratio = |name: &'static str| {
        (name, vec![json!(0.001), json!(1), json!(1.0)], vec![json!(0), json!(-0.1), json!(1.001), json!("0.5")])
    };
    let half = |name: &'static str| (name, vec![json!(0), json!(0.5)], vec![json!(-0.01), json!(0.51), json!(null)]);
    let percent = |name: &'static str| (name, vec![json!(0), json!(100)], vec![json!(-1), json!(101), json!(1.5)]);
    let route = json!({"provider": "p", "model": "m"});
    let cases: Vec<(&str, Vec<Value>, Vec<Value>)> = vec![
        switch("auto"),
        ratio("threshold_ratio"),
        whole("headroom_tokens"),
        switch("reserve_output"),
        whole("output_reserve_cap_tokens"),
        ("output_reserve_cap_tokens", vec![json!(null)], vec![]),
        ratio("retain_ratio"),
        whole("retain_tokens"),
        ("max_tokens", vec![json!(1)], vec![json!(0), json!(-1)]),
        whole("keep_user_tokens"),
        whole("min_body_tokens"),
        percent("pre_warm_percent"),
        percent("post_turn_percent"),
        whole("absolute_token_limit"),
        ("budget_scope", vec![json!("thread"), json!("turn")], vec![json!("session"), json!("Turn"), json!(0)]),
        whole("min_fold_tokens"),
        whole("summary_retries"),
        whole("compaction_retries"),
        whole("overflow_retries"),
        whole("drop_oldest_retries"),
        ("checkpoint_prompt", vec![json!(""), json!("Be short.")], vec![json!(null), json!(1)]),
        ("summarizer", vec![route.clone(), json!(null)], vec![json!("p/m"), json!({"provider": "p"}), json!([])]),
        ("model_policies", vec![json!([]), json!([{"route": route}])], vec![json!({}), json!(null)]),
        whole("prune_threshold_chars"),
        whole("prune_head_chars"),
        whole("prune_tail_chars"),
        whole("keep_recent_tool_results"),
        whole("min_micro_compact_tokens"),
        whole("recent_file_limit"),
        whole("auto_compact_failure_limit"),
        whole("cool_down_ms"),
        whole("idle_clear_ms"),
        whole("max_request_bytes"),
        switch("clear_by_class"),
        switch("verify_user_messages"),
        ("fallback", vec![json!("none"), json!("extractive")], vec![json!("model"), json!(true)]),
        half("min_gain_ratio"),
        half("target_gap_ratio"),
    ];
    for knob in Knob::all() {
        assert!(cases.iter().any(|(name, ..)| *name == knob.name()), "{} has no bounds here", knob.name());
    }
    for (name, inside, outside) in cases {
        for value in inside {
            let mut settings = Settings::default();
            let result = if value.is_null() { settings.set_null(name) } else { settings.set(name, &value) };
            assert!(result.is_ok(), "{name} may be {value}: {result:?}");
        }
        for value in outside {
            let error = Settings::default().set(name, &value).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{name} is {value}; it must be ")), "{error}");
        }
    }
}

#[test]
fn the_triggers_are_the_figures_of_the_window_arithmetic() {
    let window = |tokens| Window { tokens, origin: WindowOrigin::Host };
    let trigger = |id: &str, tokens, reserved| {
        let preset = presets().into_iter().find(|preset| preset.id == id).unwrap();
        Levels::new(&preset.policy, Some(&window(tokens)), Some(reserved)).unwrap().trigger().unwrap()
    };
    for (id, tokens, reserved, expected) in [
        ("arya-claude", 200_000, 8_000, 179_000),
        ("arya-standard", 200_000, 8_000, 176_000),
        ("arya-qwen", 200_000, 8_000, 176_000),
        ("arya-automation", 200_000, 8_000, 176_000),
        ("standard", 200_000, 8_000, 160_000),
        ("arya-claude", 200_000, 32_000, 155_000),
        ("arya-standard", 32_768, 8_192, 16_384),
        ("arya-standard", 1_000_000, 384_000, 900_000),
    ] {
        assert_eq!(trigger(id, tokens, reserved), expected, "{id} in {tokens}, {reserved} reserved");
    }
}

#[test]
fn the_rows_of_standard_are_those_of_the_table() {
    let table: &[(&str, &str, &str, &str)] = &[
        // row, package, group, tools
        ("persona", "dsh-persona", "", ""),
        ("agent-instructions", "dsh-agent-instructions", "", ""),
        ("tool-bash", "dsh-tool-bash", "", "bash"),
        ("tool-pwsh", "dsh-tool-pwsh", "", "pwsh"),
        ("tool-fs", "dsh-tool-fs", "", "read, read_image, write, edit"),
        ("tool-fs-search", "dsh-tool-fs-search", "", "grep, glob"),
        ("tool-jobs", "dsh-tool-jobs", "", "job_list, job_output, job_kill"),
        ("tool-schedule", "dsh-tool-schedule", "", "schedule_create, schedule_list, schedule_update, schedule_delete"),
        ("skill-filesystem", "dsh-skill-filesystem", "", ""),
        ("tool-skill", "dsh-tool-skill", "", "skill"),
        ("tool-goal", "dsh-tool-goal", "", "create_goal, get_goal, update_goal"),
        ("plan-mode", "dsh-plan-mode", "planning", "exit_plan_mode"),
        ("compaction-basic", "dsh-compaction-basic", "compaction", ""),
        ("command-compact", "dsh-command-compact", "compaction", ""),
        ("tool-result-pruner", "dsh-compaction-tool-result-pruner", "compaction", ""),
        ("tool-subagent-control", "dsh-tool-subagent-control", "delegation", "send_message, interrupt_agent"),
        ("tool-subagent-list", "dsh-tool-subagent-control/list", "delegation", "list_agents, list_subagent_models"),
        ("tool-subagent", "dsh-tool-subagent", "delegation", "subagent"),
        ("tool-subagent-fork", "dsh-tool-subagent", "delegation", "subagent_fork"),
        ("tool-workflow", "dsh-tool-workflow", "delegation", "workflow"),
        ("tool-plugin-manager", "dsh-tool-plugin-manager", "", "plugin_manager"),
        ("tool-plugin-market", "dsh-tool-plugin-market", "", ""),
        ("tool-ask-user", "dsh-tool-ask-user", "", "ask_user_question"),
        ("tool-todo", "dsh-tool-todo", "", "todo_write"),
        ("tool-web", "dsh-tool-web", "", "web_search, web_fetch"),
        ("tool-present", "dsh-tool-present", "", "present"),
    ];
    let standard = Preset::standard();
    let mut found = Vec::new();
    for top in &standard.rows {
        let (group, rows) =
            if top.is_group() { (top.id.as_str(), &top.rows[..]) } else { ("", std::slice::from_ref(top)) };
        for row in rows {
            let package = row.package.strip_prefix("@deepseek-ai/").unwrap();
            found.push((row.id.as_str(), package, group, row.tools.join(", ")));
        }
    }
    let table: Vec<_> =
        table.iter().map(|(id, package, group, tools)| (*id, *package, *group, (*tools).to_owned())).collect();
    assert_eq!(found, table);
    let realms = |id: &str| standard.row(id).unwrap().realms.join(" + ");
    assert_eq!(realms("planning"), "planMode");
    assert_eq!(realms("compaction"), "compaction + toolResultPruner");
    assert_eq!(realms("delegation"), "workflowEngine");
    assert_eq!(standard.row("persona").unwrap().config["includeRuntimeContext"], true);
    assert_eq!(standard.row("tool-bash").unwrap().platform, Some(Platform::Unix));
    assert_eq!(standard.row("tool-pwsh").unwrap().platform, Some(Platform::Windows));
}

fn ids(preset: &Preset) -> Vec<&str> {
    preset.all_rows().into_iter().map(|row| row.id.as_str()).collect()
}

#[test]
fn arya_standard_declares_exactly_the_twelve_tools_fewer_that_were_listed() {
    let (standard, derived) = (Preset::standard(), Preset::arya_standard());
    let left = derived.tools();
    let mut gone: Vec<&str> = standard.tools().into_iter().filter(|tool| !left.contains(tool)).collect();
    gone.sort_unstable();
    assert_eq!(
        gone,
        [
            "interrupt_agent",
            "list_agents",
            "list_subagent_models",
            "plugin_manager",
            "schedule_create",
            "schedule_delete",
            "schedule_list",
            "schedule_update",
            "send_message",
            "subagent",
            "subagent_fork",
            "workflow",
        ]
    );
    assert!(left.iter().all(|tool| standard.tools().contains(tool)), "none is new");
}

#[test]
fn arya_standard_replaces_the_engine_adds_a_policy_and_drops_four_parts() {
    let (standard, derived) = (Preset::standard(), Preset::arya_standard());
    let mut expected: Vec<&str> = ids(&standard);
    expected.retain(|id| !id.starts_with("tool-subagent") && !id.starts_with("tool-plugin"));
    expected.retain(|id| !["delegation", "tool-workflow", "tool-schedule"].contains(id));
    let engine = expected.iter().position(|id| *id == "compaction-basic").unwrap();
    expected.splice(engine..=engine, ["compaction-engine", "compaction-policy"]);
    assert_eq!(ids(&derived), expected);
    assert_eq!(derived.row("compaction-engine").unwrap().package, "arya-presets/arya-standard");
    assert_eq!(derived.row("compaction-policy").unwrap().package, "arya-presets/arya-standard-policy");
    for row in derived.all_rows().into_iter().filter(|row| !row.is_group() && !row.id.starts_with("compaction-")) {
        assert_eq!(Some(row), standard.row(&row.id), "untouched rows are the same");
    }
}

#[test]
fn arya_qwen_and_arya_automation_have_the_rows_of_arya_standard_with_other_values() {
    let base = Preset::arya_standard();
    for preset in [Preset::arya_qwen(), Preset::arya_automation()] {
        assert_eq!(ids(&preset), ids(&base), "{}", preset.id);
        assert_eq!(preset.tools(), base.tools(), "{}", preset.id);
    }
    assert_eq!(Preset::arya_qwen().row("compaction-engine").unwrap().package, "arya-presets/arya-qwen");
    assert_eq!(Preset::arya_qwen().row("compaction-policy").unwrap().package, "arya-presets/arya-qwen-policy");
    assert_eq!(Preset::arya_automation().rows, base.rows);
}

#[test]
fn arya_claude_takes_delegation_back_verbatim_and_schedules_after_jobs() {
    let (standard, base, claude) = (Preset::standard(), Preset::arya_standard(), Preset::arya_claude());
    assert_eq!(claude.row("delegation"), standard.row("delegation"));
    assert_eq!(claude.row("tool-schedule"), standard.row("tool-schedule"));
    let at = |id: &str| claude.rows.iter().position(|row| row.id == id).unwrap();
    assert_eq!(at("tool-schedule"), at("tool-jobs") + 1);
    assert_eq!(claude.row("tool-result-pruner").unwrap().package, "arya-presets/arya-claude-pruner");
    assert_eq!(claude.row("compaction-engine").unwrap().package, "arya-presets/arya-claude");
    assert_eq!(claude.row("compaction-policy").unwrap().package, "arya-presets/arya-claude-policy");
    let mut others = ids(&claude);
    others.retain(|id| standard.row("delegation").unwrap().rows.iter().all(|row| row.id != *id));
    others.retain(|id| !["delegation", "tool-schedule"].contains(id));
    assert_eq!(others, ids(&base));
    assert!(!claude.tools().contains(&"plugin_manager"));
}
