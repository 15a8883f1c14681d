//! Presets as values: what is refused, what a registry lists, what an engine does, what is rendered.

#![cfg(feature = "presets")]
#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

mod common;

use arya_presets::prompt::{self, Persona, PromptVariables, ToolMap};
use arya_presets::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use common::*;

fn variables() -> PromptVariables {
    PromptVariables::new().model("the-model").cwd("/gauges")
}

#[test]
fn the_json_of_every_built_in_is_as_it_was_and_reads_back_equal() {
    for preset in Preset::builtins() {
        let text = serde_json::to_string_pretty(&preset).unwrap();
        insta::assert_snapshot!(format!("preset_{}", preset.id.replace('-', "_")), text);
        assert_eq!(Preset::from_json(&text).unwrap(), preset);
        assert_eq!(preset.validate(), Ok(()));
    }
}

#[test]
fn every_built_in_prompt_is_as_it_was() {
    for preset in Preset::builtins() {
        insta::assert_snapshot!(
            format!("prompt_{}", preset.id.replace('-', "_")),
            preset.prompt(&variables()).unwrap()
        );
    }
}

#[test]
fn a_broken_preset_is_refused_with_every_fault_at_once() {
    let mut preset = Preset::arya_standard();
    preset.schema_version = 9;
    preset.id = "Arya Standard".into();
    preset.name = " ".into();
    preset.persona.text = "You are Claude and use `apply_patch`, `subagent` and {{home}} with ${X}.".into();
    preset.persona.anchors = vec!["# Tone".into()];
    preset.kit.frame.closing = "the end".into();
    preset.kit.hook_namespace = String::new();
    preset.policy.threshold_ratio = 1.5;
    preset.policy.max_tokens = 0;
    preset.policy_service.as_mut().unwrap().pinned.push("volume".into());
    preset.rows.push(PresetRow::new("tool-fs", "again", &["read"]));
    preset.rows.push(PresetRow::group("empty", &[], vec![]));
    let PresetError::Broken { id, faults } = preset.validate().unwrap_err() else { panic!("it is broken") };
    assert_eq!(id, "Arya Standard");
    let codes: Vec<&str> = faults.iter().map(PresetFault::code).collect();
    assert_eq!(
        codes,
        [
            "schema-version",
            "bad-id",
            "empty",
            "persona",
            "persona",
            "persona",
            "persona",
            "unknown-variable",
            "unknown-tool",
            "kit",
            "kit",
            "out-of-bounds",
            "out-of-bounds",
            "unknown-pin",
            "row",
            "duplicate-tool",
            "row",
        ]
    );
    let text = preset.validate().unwrap_err().to_string();
    for part in [
        "schemaVersion is 9",
        "[a-z0-9][a-z0-9-]*",
        "name is empty",
        "\"# Tone\" is missing",
        "1:9: \"Claude\"",
        "1:25: \"apply_patch\"",
        "\"${X}\"",
        "{{home}}",
        "\"subagent\" is named",
        "</compacted-summary>",
        "hook_namespace",
        "threshold_ratio is 1.5",
        "max_tokens is 0",
        "\"volume\"",
        "\"read\" is brought by another row",
        "the group has no rows",
    ] {
        assert!(text.contains(part), "{part:?} is missing from: {text}");
    }
    assert_eq!(preset.engine().err().map(|error| error.code()), Some("broken"));
}

#[test]
fn a_preset_of_another_shape_is_refused_by_the_name_of_the_key() {
    let value = serde_json::to_value(Preset::arya_claude()).unwrap();
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 6] = [
        ("volume", |v| v["volume"] = json!(1)),
        ("volume", |v| v["policy"]["volume"] = json!(1)),
        ("volume", |v| v["rows"][0]["volume"] = json!(1)),
        ("kit", |v| drop(v.as_object_mut().unwrap().remove("kit"))),
        ("string", |v| v["order"] = json!("first")),
        ("Volume", |v| v["breaker"]["Volume"] = json!(3)),
    ];
    for (named, change) in cases {
        let mut broken = value.clone();
        change(&mut broken);
        let error = Preset::from_json(&broken.to_string()).unwrap_err();
        assert_eq!(error.code(), "json");
        assert!(error.to_string().contains(named), "{named}: {error}");
    }
}

#[test]
fn rows_nested_without_end_are_refused_and_do_not_exhaust_the_stack() {
    let mut row = PresetRow::new("leaf", "package", &["deep"]);
    for depth in 0..60 {
        row = PresetRow::group(format!("g{depth}"), &[], vec![row]);
    }
    let preset = Preset { rows: vec![row], ..Preset::standard() };
    assert!(preset.validate().unwrap_err().to_string().contains("nested too deep"));
    let text = format!("{}{}", r#"{"rows":[{"rows":["#.repeat(100_000), "]}]}".repeat(100_000));
    assert_eq!(Preset::from_json(&text).unwrap_err().code(), "json");
}

fn hostile() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        prop_oneof![Just("{{model}}".to_owned()), Just("${X}`".to_owned()), ".{0,12}"].prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[a-zA-Z]{0,8}", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// The paths of every value in a JSON text, the text's own first.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                places(value, &format!("{at}/{key}"), all);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{at}/{index}"), all);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(2_000), ..ProptestConfig::default() })]

    /// Promise 8.
    #[test]
    fn hostile_json_in_any_place_of_a_preset_never_panics(which in 0usize..5, at in any::<prop::sample::Index>(), value in hostile()) {
        let mut json = Preset::builtins()[which].to_json();
        let mut all = Vec::new();
        places(&json, "", &mut all);
        *json.pointer_mut(at.get::<String>(&all)).unwrap() = value.clone();
        let text = json.to_string();
        let mut registry = Registry::empty();
        if let Ok(entry) = registry.add_json(&text) {
            let _ = (entry.name(), entry.preset().is_ok());
        }
        if let Ok(preset) = Preset::from_json(&text) {
            let valid = preset.validate().is_ok();
            prop_assert_eq!(preset.engine().is_ok(), valid);
            let _ = (preset.prompt(&variables()), preset.diff(&Preset::standard()), preset.tools().len());
            let _ = preset.settings_schema();
            prop_assert_eq!(Preset::from_json(&preset.to_json().to_string()).unwrap(), preset);
        }
        let _ = Settings::from_json(&value, RuleSet::Default);
    }
}

#[test]
fn the_registry_lists_the_built_ins_in_the_order_of_a_picker_with_arya_standard_as_default() {
    let registry = Registry::builtin();
    let ids: Vec<&str> = registry.entries().iter().map(RegistryEntry::id).collect();
    assert_eq!(ids, ["standard", "arya-standard", "arya-qwen", "arya-claude", "arya-automation"]);
    assert_eq!(registry.default_preset().unwrap().id, "arya-standard");
    assert!(Registry::empty().default_preset().is_none());
}

fn own(id: &str, order: u32) -> Value {
    let mut value = Preset { name: "Gauges".into(), order, ..Preset::arya_standard() }.to_json();
    value["id"] = json!(id);
    value
}

#[test]
fn a_hosts_own_preset_stands_at_its_place_and_can_be_the_default() {
    let mut registry = Registry::builtin();
    registry.add_json(&own("gauges-2", 2).to_string()).unwrap();
    let ids: Vec<&str> = registry.entries().iter().map(RegistryEntry::id).collect();
    assert_eq!(ids[..3], ["standard", "gauges-2", "arya-standard"]);
    registry.set_default("gauges-2").unwrap();
    assert_eq!(registry.default_preset().unwrap().name, "Gauges");
}

#[test]
fn malformed_and_taken_ids_are_refused() {
    let mut registry = Registry::builtin();
    for id in ["", "-a", "A", "a b", "a_b", "ä", "a/b", "a\n"] {
        assert_eq!(registry.add_json(&own(id, 9).to_string()).unwrap_err().code(), "bad-id", "{id:?}");
    }
    for id in ["a", "0", "a-", "9-a-b"] {
        registry.add_json(&own(id, 9).to_string()).unwrap();
        assert_eq!(registry.add_json(&own(id, 9).to_string()).unwrap_err().code(), "duplicate", "{id:?}");
    }
    assert_eq!(registry.add(Preset::arya_qwen()).unwrap_err().code(), "duplicate");
    for text in ["", "nonsense", "[]", "{}", "7", r#"{"id":7}"#] {
        assert_eq!(registry.add_json(text).unwrap_err().code(), "no-id", "{text:?}");
    }
    let said = registry.add_json("[]").unwrap_err().to_string();
    assert_eq!(said, "this is no preset: it must be an object with an id");
}

#[test]
fn a_broken_preset_is_listed_with_its_reason_and_not_handed_out() {
    let mut registry = Registry::builtin();
    let mut broken = own("broken", 7);
    broken["policy"]["thresholdRatio"] = json!(7);
    let mut shapeless = own("shapeless", 8);
    shapeless["colour"] = json!("red");
    for (value, reason) in [(broken, "threshold_ratio is 7"), (shapeless, "colour")] {
        let id = value["id"].as_str().unwrap();
        let entry = registry.add_json(&value.to_string()).unwrap();
        assert!(entry.preset().unwrap_err().to_string().contains(reason));
        assert_eq!((entry.id(), entry.name()), (id, "Gauges"));
        let error = registry.get(id).unwrap_err();
        assert!(error.code() == "broken" && error.to_string().contains(reason), "{error}");
        assert_eq!(registry.set_default(id).unwrap_err().code(), "broken");
    }
    assert_eq!(registry.entries().len(), 7);
    let odd = json!({"id": "odd", "name": 7, "order": "first"}).to_string();
    let entry = registry.add_json(&odd).unwrap();
    assert_eq!((entry.name(), entry.order(), entry.preset().is_err()), ("odd", u32::MAX, true));
    let nameless = Preset { id: "nameless".into(), name: " ".into(), ..Preset::arya_standard() };
    assert_eq!(registry.add(nameless).unwrap().name(), "nameless");
    assert_eq!(registry.add_json(r#"{"id": "blank", "name": ""}"#).unwrap().name(), "blank");
}

#[test]
fn a_broken_preset_can_be_replaced_or_taken_out() {
    let mut registry = Registry::builtin();
    let mut broken = own("gauges", 2);
    broken["policy"]["thresholdRatio"] = json!(7);
    registry.add_json(&broken.to_string()).unwrap();
    registry.set_on("gauges", false).unwrap();
    let whole = Preset::from_json(&own("gauges", 9).to_string()).unwrap();
    let entry = registry.replace(whole.clone()).unwrap();
    assert_eq!((entry.preset(), entry.is_on()), (Ok(&whole), false), "the switch stays as it was");
    assert_eq!(registry.entries().last().map(RegistryEntry::id), Some("gauges"));
    assert_eq!(registry.remove("gauges").unwrap().id(), "gauges");
    assert_eq!(registry, Registry::builtin());
    assert_eq!(registry.replace(whole.clone()).unwrap_err().code(), "unknown");
    assert_eq!(registry.remove("gauges").unwrap_err().code(), "unknown");
    assert_eq!(registry.remove("arya-standard").unwrap_err().code(), "is-default");
    let nameless = Preset { name: String::new(), ..Preset::arya_standard() };
    assert_eq!(registry.replace(nameless).unwrap_err().code(), "is-default");
    let renamed = Preset { name: "Ours".into(), ..Preset::arya_standard() };
    assert_eq!(registry.replace(renamed).unwrap().name(), "Ours");
    assert_eq!(registry.default_preset().map(|preset| preset.name.as_str()), Some("Ours"));
}

#[test]
fn without_a_default_a_conversation_that_names_no_preset_has_none() {
    let error = Registry::empty().of_session(&SessionHeader::new("s", 0)).unwrap_err();
    assert!(error.code() == "no-default" && error.to_string().contains("set_default"), "{error}");
}

#[test]
fn a_preset_that_is_off_serves_old_conversations_and_no_new_ones() {
    let mut registry = Registry::builtin();
    registry.set_on("arya-qwen", false).unwrap();
    assert_eq!(registry.get("arya-qwen").unwrap_err().code(), "off");
    let mut header = SessionHeader::new("s", 0);
    header.agent_preset = Some("arya-qwen".into());
    assert_eq!(registry.of_session(&header).unwrap().id, "arya-qwen");
    header.agent_preset = None;
    assert_eq!(registry.of_session(&header).unwrap().id, "arya-standard");
    header.agent_preset = Some("gone".into());
    let error = registry.of_session(&header).unwrap_err();
    assert!(error.code() == "unknown" && error.to_string().contains("arya-claude"), "{error}");
    assert_eq!(registry.set_default("arya-qwen").unwrap_err().code(), "off");
    assert_eq!(registry.set_on("arya-standard", false).unwrap_err().code(), "is-default");
    assert_eq!(registry.set_on("gone", true).unwrap_err().code(), "unknown");
    registry.set_on("arya-qwen", true).unwrap();
    assert!(registry.get("arya-qwen").is_ok());
}

#[test]
fn the_engine_of_every_preset_folds_with_its_kit() {
    for preset in Preset::builtins() {
        let mut session = conversation(60, 400);
        let mut engine = preset.engine().unwrap();
        let situation = window(24_000);
        let outcome =
            compact(&mut engine, &mut session, Trigger::manual(), &situation, &mut ExtractiveSummarizer::new());
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", preset.id));
        assert_eq!(outcome.code(), "compacted", "{}", preset.id);
        let checkpoint = session.messages().next().unwrap();
        assert!(checkpoint.text().starts_with(&preset.kit.frame.opening), "{}", preset.id);
    }
}

#[test]
fn the_engine_stands_behind_a_breaker_whose_limit_the_host_shares() {
    let limit = BreakerLimit::new(0);
    let mut engine = Preset::arya_claude().engine_with(&limit).unwrap();
    let mut session = conversation(60, 400);
    let situation = window(12_000);
    let mut fail = |_: &SummaryRequest| -> Result<SummaryReply, SummarizerError> { Err(SummarizerError::Timeout) };
    let mut attempt = |session: &mut Session| compact(&mut engine, session, Trigger::Pressure, &situation, &mut fail);
    for _ in 0..4 {
        assert!(attempt(&mut session).is_err(), "a limit of 0 never opens it");
    }
    limit.set(1);
    assert!(attempt(&mut session).is_err());
    assert!(matches!(attempt(&mut session), Ok(Outcome::Unneeded(Reason::BreakerOpen(_)))));
}

#[test]
fn a_difference_is_told_in_words() {
    let (standard, arya) = (Preset::standard(), Preset::arya_standard());
    assert_eq!(arya.diff(&arya), Vec::<String>::new());
    insta::assert_snapshot!(standard.diff(&arya).join("\n"));
    let automation = arya.diff(&Preset::arya_automation()).join("\n");
    for line in [
        "keep_user_tokens: 20000 becomes 12000",
        "pre_warm_percent: 70 becomes 65",
        "prune_threshold_chars: 8192 becomes 16384",
        "the policy service aryaStandardPolicy becomes aryaStandardPolicy in a realm of its own",
    ] {
        assert!(automation.contains(line), "{line:?} is missing from {automation}");
    }
    assert!(!automation.contains("row "), "its rows are the same");
    let mut changed = Preset::arya_standard();
    changed.persona.anchors.clear();
    assert_eq!(arya.diff(&changed), ["the anchors of the persona differ"]);
}

#[test]
fn a_difference_that_is_no_knob_is_told_beside_others() {
    type Change = fn(&mut Preset);
    let cases: [(&str, Change); 7] = [
        ("schemaVersion: 1 becomes 2", |p| p.schema_version = 2),
        ("the names that the persona must not have differ", |p| p.persona.forbidden.clear()),
        ("max_checkpoint_chars: none becomes 9000", |p| p.policy.max_checkpoint_chars = Some(9_000)),
        ("the markers of trimmed results differ", |p| p.policy.prune.trim.as_mut().unwrap().marker = "…".into()),
        ("the rules of what is cleared by class differ", |p| {
            p.policy.prune.clear_by_class.as_mut().unwrap().keep_recent = 1;
        }),
        ("row tool-result-pruner stands in no group instead of group compaction", |p| {
            let at = p.rows.iter().position(|row| row.id == "compaction").unwrap();
            let row = p.rows[at].rows.pop().unwrap();
            p.rows.insert(at + 1, row);
        }),
        ("row planning stands in group compaction instead of no group", |p| {
            let at = p.rows.iter().position(|row| row.id == "planning").unwrap();
            let row = p.rows.remove(at);
            p.rows[at].rows.insert(0, row);
        }),
    ];
    let qwen = Preset::arya_qwen();
    for (line, change) in cases {
        let mut changed = qwen.clone();
        change(&mut changed);
        changed.name = "Ours".into();
        let told = qwen.diff(&changed);
        assert!(told.len() >= 2 && told.iter().any(|told| told == line), "{line:?} is not in {told:?}");
    }
    let mut turned = Preset::arya_automation();
    turned.host_tools.reverse();
    assert_eq!(Preset::arya_automation().diff(&turned), ["they differ in the order of a list"]);
}

#[test]
fn every_persona_passes_its_checks_and_names_only_tools_that_are_there() {
    for preset in Preset::builtins() {
        assert_eq!(preset.persona.check(), vec![], "{}", preset.id);
        let tools = preset.tools();
        for tool in preset.persona.named_tools() {
            let there = tools.contains(&tool) || preset.host_tools.iter().any(|host| host == tool);
            assert!(there, "{} names {tool}", preset.id);
        }
        assert_eq!(preset.persona.native_capabilities, preset.id != "standard");
        assert!(preset.persona.forbidden.len() > 20 && !preset.persona.anchors.is_empty());
    }
    let mut shown = Persona::arya_standard();
    shown.native_capabilities = false;
    shown.text = prompt::NATIVE_CAPABILITIES.into();
    let tools = Preset::arya_standard();
    assert!(shown.named_tools().iter().all(|tool| tools.tools().contains(tool)));
}

#[test]
fn no_persona_and_no_instruction_holds_a_name_of_another_agent_or_a_hole() {
    for preset in Preset::builtins() {
        for text in
            [&preset.persona.text, &preset.kit.instruction, &preset.kit.frame.opening, &preset.kit.frame.closing]
        {
            let lower = text.to_lowercase();
            for forbidden in [
                "claude",
                "codex",
                "qwen",
                "openai",
                "anthropic",
                "chatgpt",
                "gemini",
                "${",
                "@tool",
                "@agent",
                "apply_patch",
                "update_plan",
                "run_shell_command",
                "read_file",
                "write_file",
                "save_memory",
            ] {
                assert!(!lower.contains(forbidden), "{}: {forbidden}", preset.id);
            }
        }
    }
}

#[test]
fn the_automation_persona_names_the_four_probes_and_the_ledger_knows_every_tool_of_the_host() {
    let preset = Preset::arya_automation();
    let table = EngineeringTable::default();
    for probe in ["studio_sdk_status", "ftview_capabilities", "mw_ide_status", "optix_status"] {
        assert!(preset.persona.named_tools().contains(&probe), "{probe}");
        assert_eq!(table.get(probe).unwrap().kind, EngineeringKind::Read);
    }
    assert!(preset.host_tools.iter().all(|tool| table.get(tool).is_some()));
}

#[test]
fn variables_are_filled_and_unknown_missing_and_unclosed_ones_are_errors_with_their_place() {
    let preset = Preset::standard();
    let text = preset.prompt(&PromptVariables::new().model("m-1 {{cwd}}").cwd("/harbour")).unwrap();
    assert!(text.contains("m-1 {{cwd}}") && text.contains("/harbour"), "a value is not filled in turn: {text}");
    let error = preset.prompt(&PromptVariables::new().model("m")).unwrap_err();
    assert!(error.code() == "missing-value" && error.to_string().contains("{{cwd}}"), "{error}");
    for (text, code, place) in [
        ("a\nb {{home}}", "unknown-variable", "2:3"),
        ("{{ }}", "unknown-variable", "1:1"),
        ("äö{{model", "unclosed-variable", "1:3"),
        ("{{mo\ndel}}", "unclosed-variable", "1:1"),
        ("{{{model}}}", "unclosed-variable", "1:1"),
    ] {
        let persona = Persona { text: text.into(), native_capabilities: false, anchors: vec![], forbidden: vec![] };
        let error = persona.render([], &ToolMap::new(), &variables()).unwrap_err();
        assert!(error.code() == code && error.to_string().starts_with(place), "{text:?}: {error}");
    }
    let persona = Persona { text: "{{ model }} in {{cwd}} {x}".into(), ..Persona::standard() };
    let persona = Persona { anchors: vec![], ..persona };
    assert_eq!(persona.render([], &ToolMap::new(), &variables()).unwrap(), "the-model in /gauges {x}");
}

#[test]
fn tools_are_renamed_everywhere_but_english_words_only_in_code_quotes() {
    let map = ToolMap::new().rename("edit", "patch").unwrap().rename("todo_write", "plan").unwrap();
    let map = map.rename("read", "write").unwrap().rename("write", "read").unwrap();
    let text = "Use `edit` to edit; `edit(x)` too. todo_write and `todo_write`; my_todo_write stays. `read` and `write`, `git edit`.";
    assert_eq!(
        map.apply(text).0,
        "Use `patch` to edit; `patch(x)` too. plan and `plan`; my_todo_write stays. `write` and `read`, `git edit`."
    );
    for (from, to) in [("", "x"), ("x", ""), ("x", "a b"), ("x", "`y`"), ("a-b", "x"), ("other", "plan")] {
        assert_eq!(map.clone().rename(from, to).unwrap_err().code(), "bad-rename", "{from:?} {to:?}");
    }
    let preset = Preset::arya_standard();
    let windows = ToolMap::new().rename("bash", "pwsh").unwrap();
    let text = preset.prompt_with(preset.tools(), &windows, &variables()).unwrap();
    assert!(text.contains("`pwsh`") && !text.contains("`bash`"));
}

#[test]
fn a_line_on_a_native_capability_is_left_out_where_its_tool_is_missing() {
    let all = Preset::arya_standard();
    assert_eq!(prompt::native_capabilities(all.tools()).unwrap(), prompt::NATIVE_CAPABILITIES.trim_end());
    let without = |gone: &str| {
        let preset = Preset::arya_standard();
        let tools: Vec<&str> = preset.tools().into_iter().filter(|tool| *tool != gone).collect();
        preset.prompt_with(tools, &ToolMap::new(), &variables()).unwrap()
    };
    for tool in ["ask_user_question", "todo_write", "exit_plan_mode", "present", "skill", "web_search", "web_fetch"] {
        assert!(!without(tool).contains(&format!("\n- `{tool}`: ")), "{tool}");
    }
    for goal in ["create_goal", "get_goal", "update_goal"] {
        assert!(!without(goal).contains("get_goal"), "{goal}");
    }
    let bare = all.prompt_with([], &ToolMap::new(), &variables()).unwrap();
    assert_eq!(bare, all.persona.text, "without any line there is no section either");
}

#[test]
fn a_persona_that_fails_its_checks_is_not_rendered() {
    let persona = Persona { text: "You are Codex.".into(), ..Persona::arya_standard() };
    let error = persona.render([], &ToolMap::new(), &variables()).unwrap_err();
    assert_eq!(error.code(), "refused");
    assert!(error.to_string().contains("1:9: \"Codex\"") && error.to_string().contains("\"## Planning\" is missing"));
}
