//! Ops that resolve settings, select, prune and compact.

use arya_presets::{Block, NodeRange, Route};
use serde_json::{Map, Value, json};

use crate::compare::compare;
use crate::host::{self, Answer, Automatic};
use crate::log_ops::{harness_meter, loaded, parsed};
use crate::vector::{Strings, Vector};
use crate::world::World;

/// The answer under its name, or the error under `error`.
fn named(name: &str, answer: Answer<Value>) -> Map<String, Value> {
    let (name, value) = match answer {
        Ok(value) => (name, value),
        Err(failure) => ("error", failure.to_json()),
    };
    Map::from_iter([(name.to_owned(), value)])
}

fn text_arg<'v>(vector: &'v Vector, name: &str) -> Result<&'v str, String> {
    vector.required(name)?.as_str().ok_or_else(|| format!("args.{name} is no text"))
}

pub(crate) fn resolve_config(vector: &Vector, _: &Strings) -> Result<(), String> {
    let resolved = named("resolved", host::resolve_config(vector.required("config")?));
    compare(&vector.expected, resolved.into(), &[])
}

pub(crate) fn resolve_prune_config(vector: &Vector, _: &Strings) -> Result<(), String> {
    let resolved = named("resolved", host::resolve_prune_config(vector.required("config")?));
    compare(&vector.expected, resolved.into(), &[])
}

pub(crate) fn resolve_compact_spec(vector: &Vector, _: &Strings) -> Result<(), String> {
    let config = vector.required("config")?;
    let target: Route = parsed(vector.required("target")?)?;
    let window = vector.required("contextWindow")?;
    let mut actual = named("policy", host::resolve_policy(config, &target));
    if !actual.contains_key("error") {
        actual.extend(named("spec", host::resolve_spec(config, &target, window)));
    }
    compare(&vector.expected, actual.into(), &[])
}

pub(crate) fn select_range(vector: &Vector, _: &Strings) -> Result<(), String> {
    let session = loaded(vector)?;
    let mut meter = harness_meter();
    let retain: Vec<u64> = parsed(vector.required("retainTokens")?)?;
    let mut ranges = Vec::new();
    for retain_tokens in retain {
        let answer = host::select_range(&session, &mut meter, retain_tokens);
        let mut entry = named("range", answer.map(|range| json!(range)));
        entry.insert("retainTokens".into(), json!(retain_tokens));
        ranges.push(entry);
    }
    meter.sync(&session).map_err(|error| error.to_string())?;
    compare(&vector.expected, json!({ "surfaceTokens": meter.surface_tokens(), "ranges": ranges }), &[])
}

pub(crate) fn prune_content(vector: &Vector, strings: &Strings) -> Result<(), String> {
    let blocks: Vec<Block> = parsed(vector.required("blocks")?)?;
    let actual = match host::prune_content(vector.required("config")?, &blocks, strings) {
        Ok(content) => {
            let mut actual = json!({ "charsBefore": content.chars_before, "blocks": null });
            if let Some((blocks, chars)) = content.pruned {
                actual["blocks"] = json!(blocks);
                actual["charsAfter"] = json!(chars);
            }
            actual
        }
        Err(failure) => named("", Err(failure)).into(),
    };
    compare(&vector.expected, actual, &[])
}

pub(crate) fn prune_session(vector: &Vector, strings: &Strings) -> Result<(), String> {
    let mut world = World::new(vector)?;
    let answer = host::prune_session(&mut world, vector.required("config")?, strings);
    let mut outcome = world.outcome(answer);
    outcome.shift_remove("summarizerCalls");
    compare(&vector.expected, outcome.into(), world.injected())
}

pub(crate) fn compact_region(vector: &Vector, strings: &Strings) -> Result<(), String> {
    let mut world = World::new(vector)?;
    let range = NodeRange { start: parsed(vector.required("start")?)?, end: parsed(vector.required("end")?)? };
    let answer = host::compact_region(&mut world, range, strings);
    finish(vector, &world, answer, |_| {})
}

pub(crate) fn compact_if_needed(vector: &Vector, strings: &Strings) -> Result<(), String> {
    let mut world = World::new(vector)?;
    let total = world.total_tokens().map_err(|failure| format!("the log cannot be measured: {failure:?}"))?;
    let no_settings = json!({});
    let automatic = Automatic {
        trigger: text_arg(vector, "trigger")?,
        windows: vector.required("contextWindows")?,
        pruner: vector.arg("pruner").filter(|pruner| !pruner.is_null()),
        config: vector.arg("config").unwrap_or(&no_settings),
    };
    let answer = host::compact_if_needed(&mut world, &automatic, strings);
    finish(vector, &world, answer, |outcome| {
        outcome.insert("totalTokensBefore".into(), json!(total));
    })
}

pub(crate) fn compact_now(vector: &Vector, strings: &Strings) -> Result<(), String> {
    let mut world = World::new(vector)?;
    let command = vector.arg("commandId").and_then(Value::as_str);
    let answer = host::compact_now(&mut world, command, strings);
    finish(vector, &world, answer, |outcome| {
        outcome.insert("flushes".into(), json!(world.flushes()));
        outcome.insert("maintenanceReleases".into(), json!(world.maintenance.releases));
        // Whether a refused claim counts is not documented.
        let claims = match vector.expected.get("maintenanceClaims") {
            Some(expected) if world.maintenance.agent_busy => expected.clone(),
            _ => json!(world.maintenance.claims),
        };
        outcome.insert("maintenanceClaims".into(), claims);
    })
}

fn finish(
    vector: &Vector,
    world: &World,
    answer: Answer<Option<Value>>,
    add: impl FnOnce(&mut Map<String, Value>),
) -> Result<(), String> {
    let mut outcome = world.outcome(answer);
    add(&mut outcome);
    compare(&vector.expected, outcome.into(), world.injected())
}
