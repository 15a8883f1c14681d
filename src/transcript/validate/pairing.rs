//! Calls whose results must follow at once.

use std::collections::HashMap;

use super::{Findings, Shown};
use crate::transcript::Rule;

/// How an API names what can go wrong between a call and its result.
pub(super) struct PairingRules {
    pub(super) unanswered: Rule,
    pub(super) orphan: Rule,
    pub(super) duplicate: Rule,
    pub(super) late: Rule,
}

struct Call {
    at: String,
    /// Where its result is, or what stands in the result's place.
    next: Option<String>,
}

/// The calls of the newest assistant message, and those that were left behind without a result. An id names a call only while
/// it waits, so that ids may come back.
pub(super) struct Pairing<'v> {
    rules: PairingRules,
    open: HashMap<&'v str, Call>,
    left: HashMap<&'v str, Call>,
}

impl<'v> Pairing<'v> {
    pub(super) fn new(rules: PairingRules) -> Self {
        Self { rules, open: HashMap::new(), left: HashMap::new() }
    }

    /// A call. False if one of the same message has its id.
    pub(super) fn call(&mut self, id: &'v str, at: &str) -> bool {
        self.open.insert(id, Call { at: at.to_owned(), next: None }).is_none()
    }

    /// A result.
    pub(super) fn result(&mut self, id: &'v str, at: &str, findings: &mut Findings<'_>) {
        if let Some(call) = self.open.get_mut(id) {
            match &call.next {
                None => call.next = Some(at.to_owned()),
                Some(first) => findings.add(
                    self.rules.duplicate,
                    at,
                    format!("the call {} has its result at {first}; a call takes exactly one", Shown(id)),
                ),
            }
        } else if let Some(Call { at: call, next }) = self.left.remove(id) {
            let between = next.unwrap_or_default();
            findings.add(
                self.rules.late,
                at,
                format!("the result of the call {} at {call} comes after {between}; it belongs before that", Shown(id)),
            );
        } else {
            findings.add(
                self.rules.orphan,
                at,
                format!("no call {} is in the assistant message before; a result follows its call", Shown(id)),
            );
        }
    }

    /// A message after which no result may come for the calls that are open.
    pub(super) fn close(&mut self, at: &str, findings: &mut Findings<'_>) {
        for (id, mut call) in std::mem::take(&mut self.open) {
            if call.next.is_none() {
                call.next = Some(at.to_owned());
                if let Some(earlier) = self.left.insert(id, call) {
                    unanswered(self.rules.unanswered, id, earlier.at, findings);
                }
            }
        }
    }

    /// The end of the conversation.
    pub(super) fn finish(self, findings: &mut Findings<'_>) {
        let open = self.open.into_iter().filter(|(_, call)| call.next.is_none());
        let mut without: Vec<_> = self.left.into_iter().chain(open).map(|(id, call)| (call.at, id)).collect();
        // A map has no order, and the same conversation is to give the same report.
        without.sort_unstable();
        for (at, id) in without {
            unanswered(self.rules.unanswered, id, at, findings);
        }
    }
}

fn unanswered(rule: Rule, id: &str, at: String, findings: &mut Findings<'_>) {
    findings.add(rule, at, format!("the call {} has no result; exactly one must follow at once", Shown(id)));
}
