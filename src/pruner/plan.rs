//! Planning a pass: what would be rewritten, why, and what stays for which reason.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};

use super::trim::{text_chars, trim_content, trim_counted};
use super::{CLEARED_MARKER, KeptBecause, PruneReason, Rewrite};
use crate::message::{Block, ToolCall, ToolResult};
use crate::meter::{Meter, MeterError, Pricing, total};
use crate::policy::{ClearByClass, PrunePolicy, ToolClass, TrimPolicy};
use crate::session::{Node, NodeKind, Seq, Session};

/// What a pass may know beside the conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneBudget {
    /// Tokens that the results of the newest step may take together; none for no limit.
    pub tail_tokens: Option<u64>,
    /// The time, in milliseconds since the epoch; none switches clearing after idleness off.
    pub now: Option<i64>,
}

/// What a pass would do. Making one changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PrunePlan {
    pub(super) rewrites: Vec<Rewrite>,
    pub(super) kept: Vec<(Seq, KeptBecause)>,
    /// Files that a result which stays whole still shows.
    pub(super) resident: HashSet<String>,
    /// Rewritten results of reading tools whose file is not known.
    pub(super) unresolved: HashSet<Seq>,
}

/// A tool result on the surface.
struct Candidate<'a> {
    seq: Seq,
    result: &'a ToolResult,
    class: ToolClass,
    target: Option<String>,
    chars: usize,
    price: u64,
    newest_step: bool,
    /// Whether it took the place of another: then it may show only a part.
    is_rewrite: bool,
    kept: Option<KeptBecause>,
    /// The content that it would get, and why.
    planned: Option<(PruneReason, Vec<Block>)>,
}

impl Candidate<'_> {
    fn is_cleared(&self) -> bool {
        self.is_rewrite && is_cleared(&self.result.content)
    }

    fn is_blank(&self) -> bool {
        self.result.content.iter().all(|block| block.as_text().is_some_and(|text| text.trim().is_empty()))
    }

    /// Whether it shows all of what its tool was to show.
    fn shows_all(&self) -> bool {
        !self.is_rewrite && self.result.is_error != Some(true) && !self.is_blank()
    }
}

impl PrunePlan {
    /// Plans a pass over every result on the surface. The meter is brought in step with the session.
    pub fn new(
        session: &Session,
        meter: &mut Meter,
        policy: &PrunePolicy,
        budget: PruneBudget,
    ) -> Result<Self, MeterError> {
        meter.sync(session)?;
        let clears = policy.clear_old.is_some() || policy.clear_by_class.is_some() || policy.idle_clear_ms > 0;
        let mut candidates = candidates(session, meter, policy, clears);
        if let Some(trim) = &policy.trim {
            for candidate in candidates.iter_mut().filter(|candidate| !candidate.is_cleared()) {
                let content = &candidate.result.content;
                // Just over the threshold the marker can take more tokens than the cut frees.
                candidate.planned = trim_counted(content, candidate.chars, trim)
                    .map(|trimmed| trimmed.blocks)
                    .filter(|cut| priced(meter.pricing(), candidate.price, content, cut) <= candidate.price)
                    .map(|cut| (PruneReason::Trimmed, cut));
            }
        }
        if clears {
            mark_untouchable(&mut candidates);
            clear(session, meter.pricing(), policy, budget, &mut candidates);
        }
        if let (Some(trim), Some(tail)) = (&policy.trim, budget.tail_tokens) {
            cut_parallel(meter.pricing(), trim, tail, &mut candidates);
        }
        Ok(Self::of(meter.pricing(), candidates))
    }

    /// Plans the trimming of long results alone.
    pub fn trim(session: &Session, meter: &mut Meter, policy: &TrimPolicy) -> Result<Self, MeterError> {
        Self::new(session, meter, &PrunePolicy::trimming(policy.clone()), PruneBudget::default())
    }

    fn of(pricing: &Pricing, candidates: Vec<Candidate<'_>>) -> Self {
        let rewritten = candidates.iter().filter(|candidate| candidate.planned.is_some()).count();
        let mut plan = Self { rewrites: Vec::with_capacity(rewritten), ..Self::default() };
        for candidate in candidates {
            let is_read = candidate.class == ToolClass::Read;
            let Some((reason, content)) = candidate.planned else {
                if let Some(why) = candidate.kept {
                    plan.kept.push((candidate.seq, why));
                }
                if is_read && candidate.shows_all() {
                    plan.resident.extend(candidate.target);
                }
                continue;
            };
            if is_read && candidate.target.is_none() {
                plan.unresolved.insert(candidate.seq);
            }
            plan.rewrites.push(Rewrite {
                seq: candidate.seq,
                call_id: candidate.result.tool_call_id.clone(),
                reason,
                chars_before: candidate.chars,
                chars_after: text_chars(&content),
                tokens_before: candidate.price,
                tokens_after: priced(pricing, candidate.price, &candidate.result.content, &content),
                path: candidate.target.filter(|_| is_read),
                content,
            });
        }
        plan
    }

    /// The results that would be rewritten, in surface order.
    pub fn rewrites(&self) -> &[Rewrite] {
        &self.rewrites
    }

    /// The results that could have been cleared and stay, with the reason. Empty where no clearing is switched on.
    pub fn kept(&self) -> &[(Seq, KeptBecause)] {
        &self.kept
    }

    /// Tokens that the pass would free.
    pub fn tokens_freed(&self) -> u64 {
        total(self.rewrites.iter().map(|rewrite| rewrite.tokens_before.saturating_sub(rewrite.tokens_after)))
    }
}

/// The price of a result's message with other content in its block.
fn priced(pricing: &Pricing, price: u64, old: &[Block], new: &[Block]) -> u64 {
    let sum = |blocks: &[Block]| total(blocks.iter().map(|block| pricing.block(block)));
    price.saturating_add(sum(new)).saturating_sub(sum(old))
}

/// The calls of a step that share an id, nearly always one.
struct SameId<'a> {
    first: &'a ToolCall,
    later: VecDeque<&'a ToolCall>,
}

impl<'a> SameId<'a> {
    /// The call that the next result answers; the last one answers for all that follow.
    fn next(&mut self) -> &'a ToolCall {
        let call = self.first;
        if let Some(later) = self.later.pop_front() {
            self.first = later;
        }
        call
    }
}

fn candidates<'a>(session: &'a Session, meter: &Meter, policy: &PrunePolicy, with_calls: bool) -> Vec<Candidate<'a>> {
    let nodes = session.nodes();
    let newest_step = nodes.iter().rposition(Node::is_assistant).unwrap_or(nodes.len());
    let mut calls: HashMap<&str, SameId<'_>> = HashMap::new();
    let mut after_assistant = false;
    let mut entries: HashMap<&str, Option<&crate::policy::ToolEntry>> = HashMap::new();
    let threshold = policy.trim.as_ref().map_or(usize::MAX, |trim| trim.threshold_chars);
    let mut candidates = Vec::new();
    for (position, node) in nodes.iter().enumerate() {
        if node.is_assistant() {
            // A reused id means the newest step with such a call; where that step repeats it, results come in its order.
            if !after_assistant {
                node.message.tool_calls().for_each(|call| drop(calls.remove(call.id.as_str())));
            }
            for call in node.message.tool_calls() {
                match calls.entry(&call.id) {
                    Entry::Occupied(mut same) => same.get_mut().later.push_back(call),
                    Entry::Vacant(free) => drop(free.insert(SameId { first: call, later: VecDeque::new() })),
                }
            }
            after_assistant = true;
            continue;
        }
        after_assistant = false;
        let Some(result) = node.message.result().filter(|_| node.kind == NodeKind::ToolResult) else { continue };
        let call = calls.get_mut(result.tool_call_id.as_str()).map(SameId::next);
        let bytes: usize = result.content.iter().filter_map(Block::as_text).map(str::len).sum();
        let newest = position > newest_step;
        // Without clearing, only results over the budget and those of the newest step matter.
        if !with_calls && bytes <= threshold && !newest {
            continue;
        }
        let entry = call.and_then(|call| *entries.entry(&call.name).or_insert_with(|| policy.tools.get(&call.name)));
        candidates.push(Candidate {
            seq: node.seq,
            result,
            class: entry.map_or(ToolClass::Other, |entry| entry.class),
            target: call.zip(entry).and_then(|(call, entry)| entry.target_of(call)),
            chars: text_chars(&result.content),
            price: meter.price(node.seq),
            newest_step: newest,
            is_rewrite: session.shadowed_by(node.seq).is_some(),
            kept: None,
            planned: None,
        });
    }
    candidates
}

/// Marks what no clearing touches, whichever level runs.
fn mark_untouchable(candidates: &mut [Candidate<'_>]) {
    for candidate in candidates {
        let content = &candidate.result.content;
        candidate.kept = if !content.iter().all(|block| matches!(block, Block::Text(_))) {
            Some(KeptBecause::Rich)
        } else if candidate.result.is_error == Some(true) {
            Some(KeptBecause::Error)
        } else if candidate.is_blank() {
            Some(KeptBecause::Blank)
        } else if candidate.is_cleared() {
            Some(KeptBecause::AlreadyCleared)
        } else {
            None
        };
    }
}

/// Whether a body is the marker alone. Only a result that replaced another counts as cleared; text alone proves nothing.
fn is_cleared(content: &[Block]) -> bool {
    matches!(content, [Block::Text(text)] if text.text == CLEARED_MARKER)
}

fn clear(
    session: &Session,
    pricing: &Pricing,
    policy: &PrunePolicy,
    budget: PruneBudget,
    candidates: &mut [Candidate<'_>],
) {
    let marker = vec![Block::text(CLEARED_MARKER)];
    for candidate in candidates.iter_mut().filter(|candidate| candidate.kept.is_none()) {
        if priced(pricing, candidate.price, &candidate.result.content, &marker) >= candidate.price {
            candidate.kept = Some(KeptBecause::NoGain);
        }
    }
    let idle = is_idle(session, policy, budget);
    if let Some(old) = policy.clear_old {
        clear_old(pricing, old.keep_recent_tool_results, old.min_micro_compact_tokens, &marker, candidates);
    }
    if idle || policy.clear_by_class.is_some() {
        let by_class = policy.clear_by_class.clone().unwrap_or_default();
        clear_by_class(&by_class, idle, &marker, candidates);
    }
}

fn is_idle(session: &Session, policy: &PrunePolicy, budget: PruneBudget) -> bool {
    let (Some(now), true) = (budget.now, policy.idle_clear_ms > 0) else { return false };
    let answered =
        session.nodes().iter().rev().find(|node| node.is_assistant()).and_then(|node| session.event(node.seq));
    answered.is_some_and(|event| {
        u64::try_from(now.saturating_sub(event.time)).is_ok_and(|passed| passed >= policy.idle_clear_ms)
    })
}

/// Clears all but the newest, if the pass as a whole frees enough.
fn clear_old(pricing: &Pricing, keep: usize, least_tokens: u64, marker: &[Block], candidates: &mut [Candidate<'_>]) {
    let clearable: Vec<usize> =
        (0..candidates.len()).filter(|index| candidates.get(*index).is_some_and(|c| c.kept.is_none())).collect();
    let stays = clearable.len().saturating_sub(keep);
    let (old, recent) = clearable.split_at(stays.min(clearable.len()));
    let freed_by = |candidate: &Candidate<'_>, content: &[Block]| {
        candidate.price.saturating_sub(priced(pricing, candidate.price, &candidate.result.content, content))
    };
    let clears = |index: usize, candidate: &Candidate<'_>| old.binary_search(&index).is_ok() && !candidate.newest_step;
    let freed = total(candidates.iter().enumerate().map(|(index, candidate)| match &candidate.planned {
        _ if clears(index, candidate) => freed_by(candidate, marker),
        Some((_, trimmed)) => freed_by(candidate, trimmed),
        None => 0,
    }));
    for (index, candidate) in candidates.iter_mut().enumerate() {
        if recent.binary_search(&index).is_ok() {
            candidate.kept = Some(KeptBecause::Recent);
        } else if old.binary_search(&index).is_ok() {
            if candidate.newest_step {
                candidate.kept = Some(KeptBecause::NewestStep);
            } else if freed < least_tokens {
                candidate.kept = Some(KeptBecause::BelowMinimum);
            } else {
                candidate.planned = Some((PruneReason::ClearedOld, marker.to_vec()));
            }
        }
    }
}

/// Clears the oldest results of known classes: all unprotected ones after idleness, else down to half the size that triggers.
fn clear_by_class(policy: &ClearByClass, idle: bool, marker: &[Block], candidates: &mut [Candidate<'_>]) {
    let is_open = |candidate: &Candidate<'_>| {
        let undecided = candidate.kept.is_none() || candidate.kept == Some(KeptBecause::BelowMinimum);
        undecided && !candidate.planned.as_ref().is_some_and(|(reason, _)| reason.clears())
    };
    let mut seen_all = 0;
    let mut seen: BTreeMap<ToolClass, usize> = BTreeMap::new();
    let mut targets: HashSet<(ToolClass, String)> = HashSet::new();
    let mut size = 0;
    // From the newest: who is protected, and how much the clearable results hold together.
    for candidate in candidates.iter_mut().rev().filter(|candidate| is_open(candidate)) {
        if candidate.class == ToolClass::Other {
            candidate.kept = Some(KeptBecause::OtherTool);
            continue;
        }
        size += candidate.chars;
        let of_class = seen.entry(candidate.class).or_default();
        let recent = match policy.keep_recent_by_class.get(&candidate.class) {
            Some(keep) => *of_class < *keep,
            None => seen_all < policy.keep_recent,
        };
        *of_class += 1;
        seen_all += 1;
        let newest_of_target =
            candidate.target.as_ref().is_some_and(|target| targets.insert((candidate.class, target.clone())));
        candidate.kept = if candidate.newest_step {
            Some(KeptBecause::NewestStep)
        } else if recent {
            Some(KeptBecause::Recent)
        } else if newest_of_target {
            Some(KeptBecause::NewestOfTarget)
        } else {
            None
        };
    }
    let (reason, stop_at) = if idle {
        (PruneReason::ClearedIdle, 0)
    } else if size > policy.trigger_chars {
        (PruneReason::ClearedByClass, policy.trigger_chars / 2)
    } else {
        (PruneReason::ClearedByClass, usize::MAX)
    };
    for candidate in candidates.iter_mut().filter(|candidate| is_open(candidate)) {
        if size <= stop_at {
            candidate.kept = Some(KeptBecause::WithinSize);
            continue;
        }
        size = size.saturating_sub(candidate.chars);
        candidate.planned = Some((reason, marker.to_vec()));
    }
}

/// Cuts the largest results of the newest step until together they fit the tail's budget. The newest step cannot be folded, so
/// this is the only way to make it smaller.
fn cut_parallel(pricing: &Pricing, trim: &TrimPolicy, tail_tokens: u64, candidates: &mut [Candidate<'_>]) {
    let now = |candidate: &Candidate<'_>| match &candidate.planned {
        Some((_, content)) => priced(pricing, candidate.price, &candidate.result.content, content),
        None => candidate.price,
    };
    let mut newest: Vec<&mut Candidate<'_>> = candidates.iter_mut().filter(|c| c.newest_step).collect();
    let together = total(newest.iter().map(|candidate| now(candidate)));
    if together <= tail_tokens || newest.len() < 2 {
        return;
    }
    // Every result keeps an equal share at least; what small ones leave goes to the large ones.
    newest.sort_by_key(|candidate| now(candidate));
    let mut left = tail_tokens;
    let count = newest.len();
    for (index, candidate) in newest.into_iter().enumerate() {
        let share = left / (count - index).max(1) as u64;
        let price = now(candidate);
        if price > share
            && let Some(cut) = cut_to(pricing, trim, candidate, share)
        {
            left = left.saturating_sub(priced(pricing, candidate.price, &candidate.result.content, &cut));
            candidate.planned = Some((PruneReason::ParallelOverBudget, cut));
        } else {
            left = left.saturating_sub(price);
        }
    }
}

/// The content of a result cut to a price, as far as its marker allows; none where it would not get smaller.
fn cut_to(pricing: &Pricing, trim: &TrimPolicy, candidate: &Candidate<'_>, tokens: u64) -> Option<Vec<Block>> {
    let price_of = |blocks: &[Block]| priced(pricing, candidate.price, &candidate.result.content, blocks);
    // What trimming leaves is cut, as a later pass would find it.
    let content = candidate.planned.as_ref().map_or(&candidate.result.content, |(_, planned)| planned);
    let marker = trim.marker.chars().count();
    let cut = |room: usize| {
        let tighter = TrimPolicy {
            threshold_chars: room + marker,
            head_chars: room * 4 / 5,
            tail_chars: room / 5,
            marker: trim.marker.clone(),
        };
        trim_content(content, &tighter).map(|cut| (price_of(&cut.blocks), cut.blocks))
    };
    // Under the budget of one result, so that the next pass does not trim it again.
    let mut high = text_chars(content).min(trim.threshold_chars).saturating_sub(marker);
    let mut low = marker.min(high);
    let mut best = cut(low)?;
    while low < high {
        let room = low + (high - low).div_ceil(2);
        match cut(room) {
            Some(fits) if fits.0 <= tokens => (low, best) = (room, fits),
            _ => high = room - 1,
        }
    }
    let before = price_of(content);
    Some(best).filter(|(price, _)| *price < before).map(|(_, blocks)| blocks)
}
