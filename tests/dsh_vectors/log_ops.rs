//! Ops of the log, its surface and the meter.

use arya_presets::{Draft, Message, Meter, MeterRules, Pricing, Seq, Session, SessionError, Surroundings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::compare::compare;
use crate::host::Failure;
use crate::vector::{Strings, Vector, session_header};
use crate::world::{baseline, derived_ids, events_json, node_seqs};

pub(crate) fn harness_meter() -> Meter {
    Meter::new(Pricing::harness(), MeterRules::HARNESS)
}

pub(crate) fn loaded(vector: &Vector) -> Result<Session, String> {
    vector.load().map_err(|error| format!("the log is refused: {}: {error}", error.code()))
}

pub(crate) fn parsed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| format!("{value}: {error}"))
}

fn error_json(failure: impl Into<Failure>) -> Value {
    json!({ "error": failure.into().to_json() })
}

pub(crate) fn estimate_message(vector: &Vector, _: &Strings) -> Result<(), String> {
    let messages: Vec<Message> = parsed(vector.required("messages")?)?;
    let pricing = Pricing::harness();
    let tokens: Vec<u64> = messages.iter().map(|message| pricing.message(message)).collect();
    compare(&vector.expected, json!({ "tokens": tokens }), &[])
}

pub(crate) fn measure(vector: &Vector, _: &Strings) -> Result<(), String> {
    let session = loaded(vector)?;
    let header = vector.arg("requestHeader").map(parsed).transpose()?;
    let around = Surroundings { header: header.as_ref(), ..Surroundings::default() };
    let mut meter = harness_meter();
    let actual = match meter.measure_in(&session, &around) {
        Ok(measured) => {
            let nodes: Vec<Value> = session
                .nodes()
                .iter()
                .map(|node| json!({ "seq": node.seq, "tokens": meter.price(node.seq) }))
                .collect();
            json!({
                "logRevision": measured.log_revision,
                "baseline": baseline(&measured.baseline),
                "surfaceDeltaTokens": measured.surface_delta_tokens,
                "totalTokens": measured.total_tokens,
                "surfaceTokens": measured.surface_tokens,
                "nodes": nodes,
            })
        }
        Err(error) => error_json(error),
    };
    compare(&vector.expected, actual, &[])
}

pub(crate) fn balance(vector: &Vector, _: &Strings) -> Result<(), String> {
    let session = loaded(vector)?;
    let seqs: Vec<Seq> = match vector.arg("seqs") {
        Some(seqs) => parsed(seqs)?,
        None => node_seqs(&session),
    };
    let cut = |seq: Seq, behind: usize| {
        let position = session.position(seq).ok_or(SessionError::NotOnSurface { seq });
        match position.and_then(|position| session.is_balanced(position + behind)) {
            Ok(balanced) => json!(balanced),
            Err(error) => error_json(error),
        }
    };
    let cuts: Vec<Value> =
        seqs.iter().map(|&seq| json!({ "seq": seq, "before": cut(seq, 0), "after": cut(seq, 1) })).collect();
    compare(&vector.expected, json!({ "cuts": cuts }), &[])
}

pub(crate) fn derive(vector: &Vector, _: &Strings) -> Result<(), String> {
    let session = loaded(vector)?;
    let messages: Vec<Value> = session.messages().map(|message| json!(**message)).collect();
    let actual = json!({
        "nodes": node_seqs(&session),
        "replaceGeneration": session.generation(),
        "messages": messages,
    });
    compare(&vector.expected, actual, &[])
}

pub(crate) fn append_event(vector: &Vector, _: &Strings) -> Result<(), String> {
    let mut session = loaded(vector)?;
    let before = session.events().len();
    let draft = Draft::from_json(&vector.required("event")?.to_string());
    let appended = draft.and_then(|draft| session.append(draft));
    let mut actual = match appended {
        Ok(_) => json!({ "appended": events_json(&session, before).pop() }),
        Err(error) => {
            let mut actual = error_json(error);
            actual["logLengthUnchanged"] = json!(session.events().len() == before);
            actual
        }
    };
    actual["nodes"] = json!(node_seqs(&session));
    actual["replaceGeneration"] = json!(session.generation());
    compare(&vector.expected, actual, &[])
}

pub(crate) fn restore(vector: &Vector, _: &Strings) -> Result<(), String> {
    let restored = vector.events().and_then(|events| {
        let count = events.len();
        Ok((count, Session::restore(session_header(), events)?))
    });
    let actual = match restored {
        Ok((seed, session)) => json!({
            "firstLiveSeq": seed,
            "appended": events_json(&session, seed),
            "nodes": node_seqs(&session),
            "replaceGeneration": session.generation(),
            "requestHeader": canonical(json!(session.request_header())),
            "requestContext": session.request_context(),
            "derivedIds": derived_ids(&session),
        }),
        Err(error) => error_json(error),
    };
    compare(&vector.expected, actual, &[])
}

/// A request header without its empty parts: the harness hands it out so, the crate as it was logged.
fn canonical(mut header: Value) -> Value {
    if let Some(map) = header.as_object_mut() {
        for key in ["system", "tools", "adapterDefaults"] {
            if map.get(key).is_some_and(|part| [json!(""), json!([]), json!({})].contains(part)) {
                map.shift_remove(key);
            }
        }
    }
    header
}
