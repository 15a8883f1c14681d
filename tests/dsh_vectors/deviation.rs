//! The few places where the crate does not do what the harness did, each with what it does instead.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::vector::{Vector, text_of};
use crate::world::{appended_mut, measured, standing};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// The op that it is about, or `*`.
    op: String,
    tag: Option<String>,
    condition: String,
    #[serde(rename = "reason")]
    _reason: String,
}

impl Rule {
    fn is_about(&self, vector: &Vector) -> bool {
        (self.op == "*" || self.op == vector.op) && self.tag.as_ref().is_none_or(|tag| vector.tags.contains(tag))
    }
}

/// What the crate does instead.
pub(crate) enum Mended {
    /// It answers otherwise.
    Expect(Box<Vector>),
    /// It refuses the log, with a typed error. Matching the rule has shown that it does.
    Refused,
}

type Condition = fn(&Vector) -> Result<Option<Mended>, String>;

const CONDITIONS: &[(&str, Condition)] = &[
    ("replacement-append-fails", replacement_append_fails),
    ("locked-overflow-with-pruner", locked_overflow_with_pruner),
    ("illegal-log-refused", illegal_log_refused),
];

#[derive(Debug)]
pub(crate) struct Rules(Vec<Rule>);

impl Rules {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let rules: Vec<Rule> =
            serde_json::from_str(&text_of(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
        match rules.iter().find(|rule| condition(&rule.condition).is_none()) {
            Some(rule) => Err(format!("{}: no condition is called {}", path.display(), rule.condition)),
            None => Ok(Self(rules)),
        }
    }

    /// The first rule that matches: its condition, and what is expected instead.
    pub(crate) fn apply(&self, vector: &Vector) -> Result<Option<(String, Mended)>, String> {
        for rule in self.0.iter().filter(|rule| rule.is_about(vector)) {
            let Some(condition) = condition(&rule.condition) else { continue };
            if let Some(mended) = condition(vector)? {
                return Ok(Some((rule.condition.clone(), mended)));
            }
        }
        Ok(None)
    }
}

fn condition(name: &str) -> Option<Condition> {
    CONDITIONS.iter().find(|(known, _)| *known == name).map(|(_, condition)| *condition)
}

/// The harness leaves a metering event without its replacement; the crate leaves neither.
fn replacement_append_fails(vector: &Vector) -> Result<Option<Mended>, String> {
    let rules = vector.arg("failAppends").and_then(Value::as_array);
    let fails = rules.into_iter().flatten().any(|rule| rule.get("type").is_some_and(|kind| kind == "tool/result"));
    let mut mended = vector.clone();
    let appended = appended_mut(&mut mended.expected)?;
    let orphan = appended.pop_if(|event| event.get("type").is_some_and(|kind| kind == "compaction/prune"));
    Ok((fails && orphan.is_some()).then(|| Mended::Expect(Box::new(mended))))
}

/// The harness prunes before it reports the lock; the crate leaves a locked session alone.
fn locked_overflow_with_pruner(vector: &Vector) -> Result<Option<Mended>, String> {
    let overflow = vector.arg("trigger").is_some_and(|trigger| trigger == "context-overflow");
    let pruner = vector.arg("pruner").is_some_and(|pruner| !pruner.is_null());
    let mut mended = vector.clone();
    if !overflow || !pruner || appended_mut(&mut mended.expected)?.is_empty() {
        return Ok(None);
    }
    let Ok(session) = vector.load() else { return Ok(None) };
    if session.open_compaction().is_none() {
        return Ok(None);
    }
    let Some(expected) = mended.expected.as_object_mut() else { return Ok(None) };
    expected.insert("appended".into(), json!([]));
    expected.extend(standing(&session));
    expected.insert("measureAfter".into(), measured(&session));
    Ok(Some(Mended::Expect(Box::new(mended))))
}

/// The harness accepts logs that it would never write itself; the crate refuses some.
fn illegal_log_refused(vector: &Vector) -> Result<Option<Mended>, String> {
    let refused = vector.legal == Some(false) && !vector.expects_error() && vector.load().is_err();
    Ok(refused.then_some(Mended::Refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::{Strings, read_folder};

    fn mended(name: &str) -> Option<(String, Mended)> {
        let folder = crate::copied_vectors();
        let rules = Rules::read(&folder.join("deviations.json")).unwrap();
        let vectors = read_folder(&folder, &Strings::read(&folder).unwrap()).unwrap();
        rules.apply(vectors.iter().find(|vector| vector.name == name).unwrap()).unwrap()
    }

    #[test]
    fn a_failed_replacement_leaves_no_metering_event() {
        let name = "pruneSession/fault-on-first-replacement-leaves-metering-event";
        let Some((condition, Mended::Expect(vector))) = mended(name) else { panic!("no rule matches") };
        assert_eq!(condition, "replacement-append-fails");
        assert_eq!(vector.expected["appended"], json!([]));
        assert!(vector.expects_error());
        assert!(mended("pruneSession/fault-on-first-metering-append").is_none());
    }

    #[test]
    fn a_locked_session_is_not_pruned() {
        let name = "compactIfNeeded/lock-held-overflow-with-pruner";
        let Some((condition, Mended::Expect(vector))) = mended(name) else { panic!("no rule matches") };
        assert_eq!(condition, "locked-overflow-with-pruner");
        assert_eq!(vector.expected["appended"], json!([]));
        assert_eq!(vector.expected["surface"]["replaceGeneration"], 0);
        assert_eq!(vector.expected["measureAfter"]["totalTokens"], vector.expected["totalTokensBefore"]);
        assert_eq!(vector.expected["error"]["code"], "busy");
    }

    #[test]
    fn only_an_illegal_log_that_the_harness_takes_may_be_refused() {
        let matches = |legal: bool, expected: Value| {
            let vector = json!({
                "name": "n", "op": "derive", "legal": legal, "args": {}, "expected": expected,
                "input": {"events": [{"type": "user/message", "seq": 0, "time": 0, "data": null}]},
            });
            illegal_log_refused(&serde_json::from_str(&vector.to_string()).unwrap()).unwrap().is_some()
        };
        assert!(matches(false, json!({})));
        assert!(!matches(true, json!({})));
        assert!(!matches(false, json!({"error": {"name": "Error", "message": ""}})));
    }
}
