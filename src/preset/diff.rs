//! What differs between two presets, in words.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Preset, PresetRow};
use crate::policy::{Knob, TrimPolicy};

/// Values longer than this are described by their length.
const LONGEST_QUOTED_CHARS: usize = 60;

/// One sentence a difference, from the first preset to the second.
pub(super) fn between(from: &Preset, to: &Preset) -> Vec<String> {
    let mut lines = Vec::new();
    note(&mut lines, "schemaVersion", &from.schema_version.into(), &to.schema_version.into());
    let fields =
        [("id", &from.id, &to.id), ("name", &from.name, &to.name), ("description", &from.description, &to.description)];
    for (field, before, after) in fields {
        note(&mut lines, field, &Value::from(before.as_str()), &Value::from(after.as_str()));
    }
    note(&mut lines, "order", &from.order.into(), &to.order.into());
    if from.persona.text != to.persona.text {
        let chars = |preset: &Preset| preset.persona.text.chars().count();
        lines.push(format!("the persona is another text: {} characters become {}", chars(from), chars(to)));
    }
    if from.persona.native_capabilities != to.persona.native_capabilities {
        let does =
            if to.persona.native_capabilities { "follow the persona" } else { "do not follow the persona any more" };
        lines.push(format!("the lines on the harness's own tools {does}"));
    }
    kits(from, to, &mut lines);
    for knob in Knob::all() {
        let value = |preset: &Preset| preset.knob(knob.name()).unwrap_or_default();
        note(&mut lines, knob.name(), &value(from), &value(to));
    }
    let chars = |preset: &Preset| preset.policy.max_checkpoint_chars.map_or(Value::Null, Value::from);
    note(&mut lines, "max_checkpoint_chars", &chars(from), &chars(to));
    lines.extend(unlisted(from, to).map(|what| format!("{what} differ")));
    services(from, to, &mut lines);
    rows(from, to, &mut lines);
    list(&mut lines, "tool", &from.tools(), &to.tools());
    let host = |preset: &Preset| preset.host_tools.clone();
    list(&mut lines, "tool of the host", &host(from), &host(to));
    if lines.is_empty() && from != to {
        lines.push("they differ in the order of a list".into());
    }
    lines
}

/// What no knob and no text is, and has too many parts to be told one by one.
fn unlisted<'a>(from: &'a Preset, to: &'a Preset) -> impl Iterator<Item = &'static str> {
    /// Whether two parts differ that both presets have; the knobs tell which has none.
    fn differ<T: PartialEq>(from: Option<T>, to: Option<T>) -> bool {
        from.zip(to).is_some_and(|(from, to)| from != to)
    }
    let (prune, other) = (&from.policy.prune, &to.policy.prune);
    let marker = |trim: &'a TrimPolicy| &trim.marker;
    [
        ("the anchors of the persona", from.persona.anchors != to.persona.anchors),
        ("the names that the persona must not have", from.persona.forbidden != to.persona.forbidden),
        ("the tables of background tools", from.policy.background != to.policy.background),
        ("the tables of what tools are for", prune.tools != other.tools),
        ("the markers of trimmed results", differ(prune.trim.as_ref().map(marker), other.trim.as_ref().map(marker))),
        ("the rules of what is cleared by class", differ(prune.clear_by_class.as_ref(), other.clear_by_class.as_ref())),
    ]
    .into_iter()
    .filter_map(|(what, differ)| differ.then_some(what))
}

fn note(lines: &mut Vec<String>, what: &str, before: &Value, after: &Value) {
    if before != after {
        lines.push(format!("{what}: {} becomes {}", shown(before), shown(after)));
    }
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    };
    match text.chars().count() {
        chars if chars > LONGEST_QUOTED_CHARS => format!("a value of {chars} characters"),
        _ => text,
    }
}

fn kits(from: &Preset, to: &Preset, lines: &mut Vec<String>) {
    if from.kit == to.kit {
        return;
    }
    if from.kit.id != to.kit.id {
        lines.push(format!("the kit {} becomes {}", from.kit.id, to.kit.id));
    }
    let parts = |preset: &Preset| serde_json::to_value(&preset.kit).unwrap_or_default();
    let (before, after) = (parts(from), parts(to));
    for (key, value) in before.as_object().into_iter().flatten().filter(|(key, _)| *key != "id") {
        note(lines, &format!("kit.{key}"), value, after.get(key).unwrap_or(&Value::Null));
    }
}

fn services(from: &Preset, to: &Preset, lines: &mut Vec<String>) {
    let name = |preset: &Preset| {
        preset.policy_service.as_ref().map(|service| match service.own_realm {
            true => format!("{} in a realm of its own", service.name),
            false => service.name.clone(),
        })
    };
    match (name(from), name(to)) {
        (before, after) if before == after => {}
        (Some(before), Some(after)) => lines.push(format!("the policy service {before} becomes {after}")),
        (None, Some(after)) => lines.push(format!("the policy is published as {after}")),
        (Some(before), None) => lines.push(format!("the policy is published as {before} no more")),
        (None, None) => {}
    }
    let pinned =
        |preset: &Preset| preset.policy_service.as_ref().map(|service| service.pinned.clone()).unwrap_or_default();
    list(lines, "pinned knob", &pinned(from), &pinned(to));
}

fn rows(from: &Preset, to: &Preset, lines: &mut Vec<String>) {
    let by_id = |preset: &'_ Preset| -> BTreeMap<String, PresetRow> {
        preset
            .all_rows()
            .into_iter()
            .map(|row| (row.id.clone(), PresetRow { rows: Vec::new(), ..row.clone() }))
            .collect()
    };
    let (before, after) = (by_id(from), by_id(to));
    let ids = |preset: &Preset| -> Vec<String> { preset.all_rows().into_iter().map(|row| row.id.clone()).collect() };
    list(lines, "row", &ids(from), &ids(to));
    for (id, row) in &before {
        match after.get(id) {
            Some(other) if other.package != row.package => {
                lines.push(format!("row {id} mounts {} instead of {}", other.package, row.package));
            }
            Some(other) if other != row => lines.push(format!("row {id} has other settings")),
            _ => {}
        }
    }
    let common = |ids: Vec<String>| -> Vec<String> {
        ids.into_iter().filter(|id| before.contains_key(id) && after.contains_key(id)).collect()
    };
    if common(ids(from)) != common(ids(to)) {
        lines.push("the rows stand in another order".into());
    }
    let (before, after) = (groups(from), groups(to));
    for (id, group) in &before {
        let told =
            |group: &Option<String>| group.as_ref().map_or_else(|| "no group".to_owned(), |id| format!("group {id}"));
        if let Some(other) = after.get(id).filter(|other| *other != group) {
            lines.push(format!("row {id} stands in {} instead of {}", told(other), told(group)));
        }
    }
}

/// The group of every row; none for a row in no group.
fn groups(preset: &Preset) -> BTreeMap<String, Option<String>> {
    let top = preset.rows.iter().map(|row| (row.id.clone(), None));
    let inner = |group: &PresetRow| -> Vec<_> {
        group.rows.iter().map(|row| (row.id.clone(), Some(group.id.clone()))).collect()
    };
    top.chain(preset.all_rows().into_iter().flat_map(inner)).collect()
}

fn list<T: AsRef<str>>(lines: &mut Vec<String>, what: &str, before: &[T], after: &[T]) {
    let set = |items: &[T]| -> BTreeSet<String> { items.iter().map(|item| item.as_ref().to_owned()).collect() };
    let (before, after) = (set(before), set(after));
    for (does, left, right) in [("gone", &before, &after), ("new", &after, &before)] {
        let items: Vec<&str> = left.difference(right).map(String::as_str).collect();
        match items.as_slice() {
            [] => {}
            [one] => lines.push(format!("{what} {one} is {does}")),
            many => lines.push(format!("{what}s {} are {does}", many.join(", "))),
        }
    }
}
