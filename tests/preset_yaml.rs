//! Presets as the harness's files.

#![cfg(feature = "yaml")]
#![allow(clippy::indexing_slicing, reason = "a broken test may panic")]
#![allow(clippy::unwrap_used, reason = "so may what it calls")]

use arya_presets::{Composition, Platform, Policy, Preset, PrunePolicy};
use serde_json::{Value, json};

fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn rows(composition: &Composition) -> Vec<Value> {
    read(&composition.agent_cordis_yml).as_array().unwrap().clone()
}

fn row<'a>(rows: &'a [Value], id: &str) -> &'a Value {
    let inner = |row: &'a Value| row["config"].as_array().and_then(|rows| rows.iter().find(|row| row["id"] == id));
    rows.iter().find_map(|row| if row["id"] == id { Some(row) } else { inner(row) }).unwrap()
}

#[test]
fn every_preset_is_written_and_its_rows_read_back_in_their_order() {
    for preset in Preset::builtins() {
        let composition = preset.to_yaml(Platform::Unix).unwrap();
        let written = rows(&composition);
        let ids: Vec<&str> = written.iter().map(|row| row["id"].as_str().unwrap()).collect();
        assert_eq!(ids, preset.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>());
        let card = json!({
            "id": preset.id, "name": preset.name, "description": preset.description, "order": preset.order, "schemaVersion": 1,
        });
        assert_eq!(read(&composition.preset_yml), card);
        let text = row(&written, "persona")["config"]["prompt"].as_str().unwrap();
        assert!(
            text.starts_with(&preset.persona.text)
                && row(&written, "persona")["config"]["includeRuntimeContext"] == true
        );
        assert_eq!(text.contains("# Native capabilities"), preset.persona.native_capabilities);
    }
}

#[test]
fn groups_isolate_their_realms_and_rows_of_the_other_platform_are_disabled() {
    let unix = rows(&Preset::standard().to_yaml(Platform::Unix).unwrap());
    let windows = rows(&Preset::standard().to_yaml(Platform::Windows).unwrap());
    let compaction = row(&unix, "compaction");
    assert_eq!(
        (&compaction["name"], &compaction["isolate"]),
        (&json!("cordis:group"), &json!({"compaction": true, "toolResultPruner": true}))
    );
    assert_eq!(compaction["config"].as_array().unwrap().len(), 3);
    assert_eq!((&row(&unix, "tool-pwsh")["disabled"], row(&unix, "tool-bash").get("disabled")), (&json!(true), None));
    assert_eq!(
        (&row(&windows, "tool-bash")["disabled"], row(&windows, "tool-pwsh").get("disabled")),
        (&json!(true), None)
    );
}

#[test]
fn the_rows_of_compaction_hold_the_knobs_of_the_preset() {
    let standard = rows(&Preset::standard().to_yaml(Platform::Unix).unwrap());
    assert_eq!(row(&standard, "compaction-basic")["config"]["thresholdRatio"], 0.8);
    assert_eq!(
        row(&standard, "tool-result-pruner")["config"],
        json!({"thresholdChars": 8192, "headChars": 4096, "tailChars": 1024})
    );
    let claude = rows(&Preset::arya_claude().to_yaml(Platform::Unix).unwrap());
    let engine = &row(&claude, "compaction-engine")["config"];
    assert_eq!(
        (&engine["kit"], &engine["thresholdRatio"], &engine["headroomTokens"]),
        (&json!("claude"), &json!(0.99), &json!(13_000))
    );
    let policy = &row(&claude, "compaction-policy")["config"];
    assert_eq!((&policy["service"], &policy["autoCompactFailureLimit"]), (&json!("aryaClaudePolicy"), &json!(3)));
    assert!(policy.get("thresholdRatio").is_none(), "nothing is said twice");
}

#[test]
fn a_pruner_that_trims_nothing_is_not_written_as_one_that_trims() {
    let untrimmed = |preset: Preset| {
        let prune = PrunePolicy { trim: None, ..preset.policy.prune.clone() };
        let preset = Preset { policy: Policy { prune, ..preset.policy.clone() }, ..preset };
        row(&rows(&preset.to_yaml(Platform::Unix).unwrap()), "tool-result-pruner").clone()
    };
    let harness = untrimmed(Preset::arya_standard());
    assert_eq!((&harness["disabled"], harness.get("config")), (&json!(true), None));
    let ours = untrimmed(Preset::arya_claude());
    assert_eq!((ours.get("disabled"), &ours["config"]), (None, &json!({"thresholdChars": null})));
}

#[test]
fn the_persona_speaks_of_the_shell_of_its_platform() {
    for (platform, here, gone) in [(Platform::Unix, "`bash`", "`pwsh`"), (Platform::Windows, "`pwsh`", "`bash`")] {
        let written = rows(&Preset::arya_claude().to_yaml(platform).unwrap());
        let text = row(&written, "persona")["config"]["prompt"].as_str().unwrap();
        assert!(text.contains(here) && !text.contains(gone), "{text}");
    }
}

#[test]
fn the_files_of_the_default_preset_are_as_they_were() {
    let Composition { agent_cordis_yml, preset_yml } = Preset::arya_standard().to_yaml(Platform::Unix).unwrap();
    insta::assert_snapshot!(format!("{preset_yml}---\n{agent_cordis_yml}"));
}

#[test]
fn a_broken_preset_is_not_written() {
    let preset = Preset { id: "Not an id".into(), ..Preset::standard() };
    assert_eq!(preset.to_yaml(Platform::Unix).unwrap_err().code(), "broken");
}
