//! Summaries as each kit wants them.

use arya_presets::{Envelope, Kit};

/// A summary as the kit wants it, without its envelope.
pub(crate) fn inner_of(kit: &Kit, fact: &str) -> String {
    let parts: Vec<String> = match kit.id.as_str() {
        "codex" => (1..=6).map(|number| format!("Gauge {number}. {fact}")).collect(),
        "base" => kit.sections.iter().map(|title| format!("## {title}\n{fact}\n")).collect(),
        "claude" => kit.sections.iter().zip(1..).map(|(title, number)| format!("{number}. {title}: {fact}")).collect(),
        _ => kit.sections.iter().map(|tag| format!("<{tag}>\n{fact}\n</{tag}>")).collect(),
    };
    parts.join("\n").trim().to_owned()
}

/// A summary in the envelope that the kit wants, if it wants one.
pub(crate) fn enveloped(kit: &Kit, inner: &str) -> String {
    match &kit.envelope {
        Some(Envelope { tag, .. }) => format!("<{tag}>\n{inner}\n</{tag}>"),
        None => inner.to_owned(),
    }
}

/// What a checkpoint keeps of a summary, by what stands in its envelope.
pub(crate) fn kept(kit: &Kit, inner: &str) -> String {
    match &kit.envelope {
        Some(Envelope { kept: false, .. }) | None => inner.to_owned(),
        Some(_) => enveloped(kit, inner),
    }
}
