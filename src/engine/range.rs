//! Which run of nodes a fold replaces.

use super::error::Failure;
use crate::meter::{Meter, total};
use crate::policy::CutRule;
use crate::session::{NodeRange, Session, SessionError};

/// The run from the first node to the last one before a tail of at least `retain_tokens`, moved toward the head until the cut
/// separates no call from its result; none where nothing is left to fold. At least one node stays, whatever is asked.
///
/// The meter must be in step with the session.
pub fn select_range(
    session: &Session,
    meter: &Meter,
    retain_tokens: u64,
    cuts: CutRule,
) -> Result<Option<NodeRange>, SessionError> {
    let cut = select_cut(session, meter, retain_tokens, cuts)?;
    let nodes = session.nodes();
    Ok(match (nodes.first(), cut.checked_sub(1).and_then(|last| nodes.get(last))) {
        (Some(first), Some(last)) => Some(NodeRange { start: first.seq, end: last.seq }),
        _ => None,
    })
}

/// The position before which to cut; 0 where nothing is left to fold.
pub(super) fn select_cut(
    session: &Session,
    meter: &Meter,
    retain_tokens: u64,
    cuts: CutRule,
) -> Result<usize, SessionError> {
    let mut cut = session.nodes().len();
    let mut tail = 0u64;
    for (position, node) in session.nodes().iter().enumerate().rev() {
        cut = position;
        tail = tail.saturating_add(meter.price(node.seq));
        if tail >= retain_tokens {
            break;
        }
    }
    while cut > 0 && !can_cut(session, cut, cuts)? {
        cut -= 1;
    }
    Ok(cut)
}

/// The nearest earlier cut that begins a turn of the person and leaves a tail of at most `most_tokens`; else the given cut.
pub(super) fn at_whole_turn(session: &Session, meter: &Meter, cut: usize, most_tokens: u64) -> usize {
    let nodes = session.nodes();
    let mut tail = total(nodes.iter().skip(cut).map(|node| meter.price(node.seq)));
    let mut position = cut;
    while position > 0 {
        let starts_turn = nodes.get(position).is_some_and(|node| node.message.source.is_user());
        if starts_turn && session.is_cut(position) {
            return position;
        }
        position -= 1;
        tail = tail.saturating_add(nodes.get(position).map_or(0, |node| meter.price(node.seq)));
        if tail > most_tokens {
            break;
        }
    }
    cut
}

/// The positions of a run that may be folded: it exists, and both its edges are cuts.
pub(super) fn checked_run(session: &Session, range: NodeRange, cuts: CutRule) -> Result<(usize, usize), Failure> {
    let (first, last) = session.run(range.start, range.end).map_err(Failure::Range)?;
    if !can_cut(session, first, cuts).map_err(Failure::Range)? {
        return Err(Failure::NotACut { side: "before", seq: range.start });
    }
    if !can_cut(session, last + 1, cuts).map_err(Failure::Range)? {
        return Err(Failure::NotACut { side: "after", seq: range.end });
    }
    Ok((first, last))
}

fn can_cut(session: &Session, position: usize, cuts: CutRule) -> Result<bool, SessionError> {
    match cuts {
        CutRule::ByCount => session.is_balanced(position),
        CutRule::ById => Ok(session.is_cut(position)),
    }
}
