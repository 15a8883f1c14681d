//! Pairing of calls and results as its rules are written down, step by step and in quadratic time.
//!
//! A call opens its id. A result closes the oldest call of its id that was made in the same step, else the oldest one that is
//! still open. A step ends where the log says so, and where the model speaks again after somebody else spoke. A cut is offered
//! where no pair and no call that may still be answered in its own step would be torn.

use arya_presets::{EventData, Node, NodeKind, Session, SurfaceOp};

/// For each node of the surface, whether a step or turn ended right behind it.
fn step_ends(session: &Session) -> Vec<bool> {
    let mut surface: Vec<(u64, bool)> = Vec::new();
    for event in session.events() {
        match (&event.data, event.surface_op) {
            (EventData::StepEnd(_) | EventData::TurnEnd(_), _) => {
                if let Some(last) = surface.last_mut() {
                    last.1 = true;
                }
            }
            (_, Some(SurfaceOp::Append)) => surface.push((event.seq, false)),
            (_, Some(SurfaceOp::Replace { start, end })) => {
                let at = |seq: u64| surface.iter().position(|node| node.0 == seq).unwrap();
                let (first, last) = (at(start), at(end));
                let ended = surface[last].1;
                surface.splice(first..=last, [(event.seq, ended)]);
            }
            _ => {}
        }
    }
    assert!(surface.iter().map(|node| node.0).eq(session.nodes().iter().map(|node| node.seq)));
    surface.into_iter().map(|node| node.1).collect()
}

#[derive(Debug)]
struct Call<'a> {
    id: &'a str,
    at: usize,
    answered_at: Option<usize>,
}

/// The positions before which the surface can be cut.
pub(crate) fn cuts(session: &Session) -> Vec<usize> {
    let nodes = session.nodes();
    let ends = step_ends(session);
    // Gap `i` lies behind node `i`.
    let ends_step = |gap: usize| {
        ends[gap] || nodes.get(gap + 1).is_some_and(|next| next.is_assistant() && !nodes[gap].is_assistant())
    };
    let mut calls: Vec<Call> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        if node.is_assistant() {
            calls.extend(node.message.tool_calls().map(|call| Call { id: &call.id, at, answered_at: None }));
        } else if let Some(id) = answers(node) {
            let fits = |call: &&mut Call| call.id == id && call.answered_at.is_none();
            let same_step = |call: &&mut Call| !(call.at..at).any(ends_step);
            let found = match calls.iter_mut().filter(fits).find(same_step) {
                Some(call) => Some(call),
                None => calls.iter_mut().find(fits),
            };
            if let Some(call) = found {
                call.answered_at = Some(at);
            }
        }
    }
    let torn = |gap: usize| {
        calls.iter().any(|call| {
            call.at <= gap
                && match call.answered_at {
                    Some(result) => gap < result,
                    None => !(call.at..=gap).any(ends_step),
                }
        })
    };
    (0..=nodes.len()).filter(|cut| cut.checked_sub(1).is_none_or(|gap| !torn(gap))).collect()
}

fn answers(node: &Node) -> Option<&str> {
    (node.kind == NodeKind::ToolResult).then(|| node.message.result().unwrap().tool_call_id.as_str())
}

/// Whether as many results as calls stand before each position; none when somewhere more results than calls do.
pub(crate) fn balances(session: &Session) -> Option<Vec<bool>> {
    let mut open = 0usize;
    let mut balances = vec![true];
    for node in session.nodes() {
        match node.kind {
            NodeKind::Assistant => open += node.message.tool_calls().count(),
            NodeKind::ToolResult => open = open.checked_sub(1)?,
            _ => {}
        }
        balances.push(open == 0);
    }
    Some(balances)
}
