//! Settings: sparse, typed, clamped with a report, and pinned where a preset says so.

#![cfg(feature = "presets")]
#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "so may what it calls")]

use arya_presets::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(value: &Value) -> (Settings, Vec<String>) {
    let (settings, clamps) = Settings::from_json(value, RuleSet::Default).unwrap();
    (settings, clamps.iter().map(ToString::to_string).collect())
}

fn route() -> Value {
    json!({"provider": "p", "model": "m"})
}

#[test]
fn what_is_not_set_is_what_the_column_says() {
    for preset in Preset::builtins() {
        assert_eq!(preset.with_settings(&Settings::default()).unwrap(), (preset, vec![]));
    }
    let mut settings = Settings::default();
    settings.set("max_tokens", 4_000).unwrap();
    let (moved, pinned) = Preset::arya_standard().with_settings(&settings).unwrap();
    assert_eq!((moved.policy.max_tokens, pinned), (4_000, vec![]));
    assert_eq!(moved.policy, Policy { max_tokens: 4_000, ..Policy::arya_standard() });
    settings.unset("maxTokens").unwrap();
    assert_eq!(settings, Settings::default());
}

#[test]
fn a_knob_is_read_and_set_by_either_name_and_by_its_type() {
    let mut settings = Settings::default();
    settings.set("thresholdRatio", 0.5).unwrap();
    assert_eq!(settings.get::<f64>("threshold_ratio").unwrap(), Some(0.5));
    assert_eq!(settings.get::<bool>("threshold_ratio").unwrap_err().code(), "other-type");
    settings.set("summarizer", Route::new("p", "small")).unwrap();
    assert_eq!(settings.get::<Route>("summarizer").unwrap(), Some(Route::new("p", "small")));
    settings.set("budget_scope", BudgetScope::Turn).unwrap();
    assert_eq!(settings.get::<BudgetScope>("budgetScope").unwrap(), Some(BudgetScope::Turn));
    for name in ["", "threshold", "THRESHOLD_RATIO", "prune"] {
        let error = settings.set(name, 1).unwrap_err();
        assert!(error.code() == "unknown-knob" && error.to_string().contains("threshold_ratio"), "{error}");
    }
    let (read, clamps) = read(&settings.to_json());
    assert_eq!((read, clamps), (settings, vec![]));
}

#[test]
fn a_number_outside_its_bounds_in_a_file_is_clamped_used_and_reported() {
    for (name, value, used) in [
        ("thresholdRatio", json!(7), json!(1.0)),
        ("thresholdRatio", json!(0), json!(0.2)),
        ("thresholdRatio", json!(-3.5), json!(0.2)),
        ("retainRatio", json!(0), json!(0.01)),
        ("preWarmPercent", json!(900), json!(100)),
        ("preWarmPercent", json!(-1), json!(0)),
        ("maxTokens", json!(0), json!(1)),
        ("headroomTokens", json!(-16_000), json!(0)),
        ("headroomTokens", json!(1e300), json!(9_007_199_254_740_991_u64)),
        ("minGainRatio", json!(0.6), json!(0.5)),
        ("overflowRetries", json!(5_000_000_000_u64), json!(4_294_967_295_u32)),
        ("summaryRetries", json!(5_000_000_000_u64), json!(4_294_967_295_u32)),
    ] {
        let (settings, clamps) = read(&json!({name: value}));
        assert_eq!(settings.to_json(), json!({name: used}));
        let knob = Knob::named(name).unwrap().name();
        assert_eq!(clamps, [format!("{knob} was {value} and is taken as {used}")]);
        let error = Settings::from_json(&json!({name: value}), RuleSet::Harness).unwrap_err();
        assert_eq!(error.code(), "bad-value", "the harness clamps nothing");
    }
    let (settings, _) = read(&json!({"thresholdRatio": -1}));
    for preset in Preset::builtins() {
        preset.with_settings(&settings).unwrap().0.engine().unwrap();
    }
    let (settings, clamps) = read(&json!({"headroomTokens": 16_000.0, "thresholdRatio": 1}));
    assert_eq!((settings.to_json()["headroomTokens"].clone(), clamps.len()), (json!(16_000), 0));
}

#[test]
fn wrong_types_unknown_keys_and_faults_across_knobs_are_refused() {
    for (value, code) in [
        (json!([]), "no-object"),
        (json!(null), "no-object"),
        (json!({"volume": 1}), "unknown-knob"),
        (json!({"maxTokens": "many"}), "bad-value"),
        (json!({"maxTokens": 1.5}), "bad-value"),
        (json!({"maxTokens": null}), "bad-value"),
        (json!({"auto": 1}), "bad-value"),
        (json!({"summarizer": {"provider": "p"}}), "bad-value"),
        (json!({"summarizer": {"provider": "", "model": "m"}}), "bad-value"),
        (json!({"summarizer": ["p", "m"]}), "bad-value"),
        (json!({"modelPolicies": [{"route": ["p", "m"]}]}), "bad-value"),
        (json!({"max_tokens": 4_000}), "unknown-knob"),
    ] {
        let error = Settings::from_json(&value, RuleSet::Default).unwrap_err();
        assert_eq!(error.code(), code, "{value}");
    }
    for (value, code) in [
        (json!({"preWarmPercent": 95}), "out-of-bounds"),
        (json!({"retainRatio": 0.95}), "retain-not-below-threshold"),
        (json!({"retainRatio": 0.1, "retainTokens": 5}), "exclusive"),
        (json!({"pruneHeadChars": 8_000}), "out-of-bounds"),
        (json!({"pruneThresholdChars": null, "pruneHeadChars": 100}), "switched-off"),
        (json!({"pruneThresholdChars": 100, "pruneTailChars": null}), "switched-off"),
        (json!({"keepRecentToolResults": null, "minMicroCompactTokens": 5}), "switched-off"),
        (
            json!({"modelPolicies": [{"route": {"provider": "p", "model": "m"}}, {"route": {"provider": "p", "model": "m"}}]}),
            "duplicate-route",
        ),
    ] {
        let (settings, _) = read(&value);
        let error = Preset::arya_standard().with_settings(&settings).unwrap_err();
        assert_eq!(error.code(), code, "{value}: {error}");
    }
}

#[test]
fn settings_that_leave_no_room_for_an_answer_are_refused_for_every_route() {
    for (value, cap) in [
        (json!({"maxTokens": 100}), "max_tokens is 100"),
        (json!({"modelPolicies": [{"route": route(), "maxTokens": 100}]}), "model_policies[0].max_tokens is 100"),
    ] {
        let (settings, _) = read(&value);
        for preset in [Preset::arya_claude(), Preset::arya_qwen()] {
            let error = preset.with_settings(&settings).unwrap_err();
            assert!(error.code() == "broken" && error.to_string().contains(cap), "{error}");
        }
        Preset::arya_standard().with_settings(&settings).unwrap().0.engine().unwrap();
    }
}

#[test]
fn knobs_of_a_single_route_are_named_bounded_and_pinned_as_those_of_all_are() {
    let item = |own: Value| {
        let mut item = json!({"route": route()});
        item.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        json!({"modelPolicies": [item]})
    };
    let (settings, clamps) = read(&item(json!({"thresholdRatio": 3, "maxTokens": 4_000.0, "retainTokens": 7})));
    assert_eq!(clamps, ["model_policies[0].threshold_ratio was 3 and is taken as 1.0"]);
    let (moved, pinned) = Preset::arya_standard().with_settings(&settings).unwrap();
    let own = &moved.policy.model_policies[0];
    assert_eq!((own.threshold_ratio, own.max_tokens, own.retain), (Some(1.0), Some(4_000), Some(Retain::Tokens(7))));
    assert_eq!(pinned, Vec::<&str>::new());
    assert_eq!(moved.knob("model_policies"), Some(settings.to_json()["modelPolicies"].clone()));
    let (moved, pinned) = Preset::arya_claude().with_settings(&settings).unwrap();
    assert_eq!((moved.policy.model_policies[0].threshold_ratio, pinned), (None, vec!["threshold_ratio"]));
    for (own, said) in [
        (json!({"thresholdRatio": "half"}), "model_policies[0].threshold_ratio is \"half\""),
        (json!({"auto": false}), "model_policies[0].auto"),
        (json!({"retain": {"ratio": 0.1}}), "model_policies[0].retain"),
        (json!({"retainRatio": 0.1, "retainTokens": 9}), "model_policies[0]: retain_ratio and retain_tokens"),
        (json!({"route": {"provider": "p", "model": ""}}), "model_policies[0].route"),
        (json!({"summarizer": {"provider": "p", "model": ""}}), "model_policies[0].summarizer"),
    ] {
        let error = Settings::from_json(&item(own), RuleSet::Default).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    for (value, said) in [(json!([3]), "model_policies[0] is 3"), (json!({}), "model_policies is {}")] {
        let error = Settings::from_json(&json!({"modelPolicies": value}), RuleSet::Default).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let error = Settings::from_json(&item(json!({"thresholdRatio": 3})), RuleSet::Harness).unwrap_err().to_string();
    assert_eq!(error, "model_policies[0].threshold_ratio is 3; it must be more than 0 and at most 1");
    let (cleared, _) = read(&item(json!({"summarizer": null})));
    let (moved, _) = Preset::arya_standard().with_settings(&cleared).unwrap();
    assert_eq!(moved.policy.model_policies[0].summarizer, Some(None));
}

#[test]
fn a_number_that_is_none_is_no_null_and_null_has_a_call_of_its_own() {
    let mut settings = Settings::default();
    for name in ["threshold_ratio", "retain_ratio", "retain_tokens", "keep_user_tokens"] {
        for number in [f64::NAN, f64::INFINITY] {
            assert_eq!(settings.set(name, number).unwrap_err().code(), "bad-value", "{name}");
        }
    }
    assert_eq!(settings, Settings::default());
    assert_eq!(settings.set_null("max_tokens").unwrap_err().code(), "bad-value");
    settings.set_null("prune_threshold_chars").unwrap();
    let (moved, _) = Preset::standard().with_settings(&settings).unwrap();
    assert_eq!(moved.policy.prune.trim, None);
}

#[test]
fn pinned_knobs_stay_and_are_named() {
    let (settings, _) = read(&json!({
        "thresholdRatio": 0.5, "headroomTokens": 1, "autoCompactFailureLimit": 9, "keepUserTokens": 7, "maxTokens": 4_000,
    }));
    let (claude, pinned) = Preset::arya_claude().with_settings(&settings).unwrap();
    assert_eq!(pinned, ["threshold_ratio", "headroom_tokens", "auto_compact_failure_limit"]);
    let knob = |preset: &Preset, name: &str| preset.knob(name).unwrap();
    assert_eq!((knob(&claude, "threshold_ratio"), knob(&claude, "max_tokens")), (json!(0.99), json!(4_000)));
    assert_eq!(claude.breaker.auto_compact_failure_limit, 3);
    let (qwen, pinned) = Preset::arya_qwen().with_settings(&settings).unwrap();
    assert_eq!((pinned, knob(&qwen, "threshold_ratio")), (vec!["keep_user_tokens"], json!(0.5)));
    let (automation, pinned) = Preset::arya_automation().with_settings(&settings).unwrap();
    assert_eq!((pinned.len(), knob(&automation, "keep_user_tokens")), (0, json!(7)));
}

#[test]
fn a_pinned_knob_is_not_moved_by_another_that_shares_its_place() {
    let retained = json!({"modelPolicies": [{"route": route(), "retainTokens": 9}]});
    for (pin, value, named) in [
        ("retain_ratio", json!({"retainTokens": 5}), "retain_tokens"),
        ("retain_tokens", json!({"retainRatio": 0.1}), "retain_ratio"),
        ("retain_ratio", retained, "retain_tokens"),
        ("prune_head_chars", json!({"pruneThresholdChars": null}), "prune_threshold_chars"),
        ("keep_recent_tool_results", json!({"minMicroCompactTokens": 5}), "min_micro_compact_tokens"),
    ] {
        let service = Some(PolicyService::new("ours").pinning(&[pin]));
        let preset = Preset { policy_service: service, ..Preset::standard() };
        let (moved, pinned) = preset.with_settings(&read(&value).0).unwrap();
        assert_eq!((moved.knob(pin), pinned), (preset.knob(pin), vec![named]), "{pin}, {value}");
        assert!(moved.policy.model_policies.iter().all(|own| own.retain.is_none()));
    }
    let service = Some(PolicyService::new("ours").pinning(&["prune_head_chars"]));
    let preset = Preset { policy_service: service, ..Preset::standard() };
    let (moved, pinned) = preset.with_settings(&read(&json!({"pruneTailChars": 5})).0).unwrap();
    assert_eq!((moved.knob("prune_tail_chars"), pinned), (Some(json!(5)), vec![]), "a value beside it may move");
}

#[test]
fn a_part_of_the_pruner_is_switched_on_and_off_by_its_knobs() {
    let (settings, _) = read(&json!({"keepRecentToolResults": 3, "clearByClass": true}));
    let (moved, _) = Preset::arya_standard().with_settings(&settings).unwrap();
    let clear = ClearOld { keep_recent_tool_results: 3, ..ClearOld::default() };
    assert_eq!(moved.policy.prune.clear_old, Some(clear));
    assert_eq!(moved.policy.prune.clear_by_class, Some(ClearByClass::default()));
    let (settings, _) = read(&json!({"pruneThresholdChars": null, "clearByClass": false}));
    let (moved, _) = Preset::arya_qwen().with_settings(&settings).unwrap();
    assert_eq!((moved.policy.prune.trim, moved.policy.prune.clear_by_class), (None, None));
}

#[test]
fn the_schema_of_a_settings_page_has_every_knob_with_default_bounds_and_pins() {
    let schema = Preset::arya_claude().settings_schema();
    assert_eq!(schema["title"], "aryaClaudePolicy");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"].as_object().unwrap().len(), Knob::all().len());
    let threshold = &schema["properties"]["thresholdRatio"];
    assert_eq!((&threshold["const"], &threshold["readOnly"]), (&json!(0.99), &json!(true)));
    assert_eq!(schema["properties"]["maxTokens"]["default"], 20_000);
    assert_eq!(schema["properties"]["preWarmPercent"]["maximum"], 100);
    let own = schema["properties"]["modelPolicies"]["items"]["properties"].as_object().unwrap();
    assert_eq!(
        (own.len(), own.contains_key("thresholdRatio")),
        (7, false),
        "a pinned knob cannot be set for a route either"
    );
    for (name, property) in schema["properties"].as_object().unwrap() {
        assert!(property["description"].as_str().unwrap().ends_with('.'), "{name}");
        let fixed = property.get("const").is_some();
        assert_ne!(fixed, property.get("default").is_some(), "{name}");
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&schema).unwrap());
}

/// Whether a value is one of a schema, as far as the schemas of settings go.
fn matches(schema: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => value.is_null(),
    };
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().any(|name| is(name.as_str().unwrap())),
        name => is(name.as_str().unwrap()),
    };
    let bound = |name: &str, holds: fn(f64, f64) -> bool| {
        value.as_f64().zip(schema[name].as_f64()).is_none_or(|(number, bound)| holds(number, bound))
    };
    let shortest = schema["minLength"].as_u64().unwrap_or_default();
    let chosen = schema["enum"].as_array().is_none_or(|choices| choices.contains(value));
    let required = |key: &Value| value.get(key.as_str().unwrap()).is_some();
    types
        && chosen
        && bound("minimum", |number, bound| number >= bound)
        && bound("maximum", |number, bound| number <= bound)
        && bound("exclusiveMinimum", |number, bound| number > bound)
        && value.as_str().is_none_or(|text| text.chars().count() as u64 >= shortest)
        && value.as_array().is_none_or(|items| items.iter().all(|item| matches(&schema["items"], item)))
        && value.as_object().is_none_or(|map| {
            map.iter().all(|(key, value)| schema["properties"].get(key).is_some_and(|own| matches(own, value)))
                && schema["required"].as_array().is_none_or(|keys| keys.iter().all(required))
        })
}

#[test]
fn a_settings_page_and_the_reader_of_the_file_agree_on_every_value() {
    let mut values =
        vec![json!(null), json!(true), json!(""), json!("none"), json!("turn"), json!([]), json!({}), route()];
    values.extend([0.0, -0.0, 1.0, -1.0, 0.5, 0.51, 1.5, 5e-324, -5e-324, 100.0, 1e300].map(|number| json!(number)));
    values.extend(
        [1, 100, 101, 4_294_967_295, 4_294_967_296, (1 << 53) - 1, 1 << 53, u64::MAX].map(|number| json!(number)),
    );
    values.extend([json!(i64::MIN), json!(["p", "m"]), json!([1]), json!([{}]), json!([{"route": ["p", "m"]}])]);
    values.extend([
        json!({"provider": "p"}),
        json!({"provider": "", "model": "m"}),
        json!({"provider": 1, "model": "m"}),
    ]);
    values.push(json!([{"route": route(), "auto": true}]));
    let of_routes = Preset::standard().settings_schema()["properties"]["modelPolicies"]["items"]["properties"].clone();
    for name in of_routes.as_object().unwrap().keys().filter(|name| *name != "route") {
        let own = |value: &Value| json!([{"route": route(), name: value}]);
        values.extend(values.clone().iter().filter(|value| !value.is_array()).map(own));
    }
    let schema = Preset::standard().settings_schema();
    for knob in Knob::all() {
        for value in &values {
            let file = json!({knob.json_name(): value});
            let read = Settings::from_json(&file, RuleSet::Default);
            let unclamped = read.is_ok_and(|(_, clamps)| clamps.is_empty());
            assert_eq!(matches(&schema, &file), unclamped, "{file}");
            assert_eq!(Settings::from_json(&file, RuleSet::Harness).is_ok(), unclamped, "{file}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(2_000), ..ProptestConfig::default() })]

    /// Promise 8.
    #[test]
    fn whatever_number_stands_in_a_file_is_used_clamped_or_refused_and_never_out_of_bounds(
        which in 0..Knob::all().len(),
        number in prop_oneof![any::<i64>().prop_map(Value::from), any::<u64>().prop_map(Value::from), any::<f64>().prop_map(|f| json!(f))],
    ) {
        let knob = &Knob::all()[which];
        if let Ok((settings, clamps)) = Settings::from_json(&json!({knob.json_name(): number}), RuleSet::Default) {
            let used: Value = settings.get(knob.name()).unwrap().unwrap();
            prop_assert!(Settings::default().set(knob.name(), &used).is_ok(), "{} as {used}", knob.name());
            prop_assert_eq!(clamps.is_empty(), used.as_f64() == number.as_f64());
            for preset in Preset::builtins() {
                if let Ok((moved, _)) = preset.with_settings(&settings) {
                    prop_assert_eq!(moved.validate().is_ok(), moved.engine().is_ok());
                }
            }
        }
    }
}
