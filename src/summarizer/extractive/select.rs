//! What of the findings fits the room: the person's words, errors, the plan and the index have a share each, and what one leaves
//! over goes to the others, then to prose.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::findings::{Finding, Findings, Topic};
use super::index::{Item, List, facts_in};
use super::render::Sheet;
use crate::summarizer::SummaryRequest;

/// What goes into the summary.
#[derive(Debug, Default)]
pub(super) struct Chosen<'f> {
    /// Sentences, each in the length that was chosen.
    pub(super) lines: Vec<(&'f Finding, &'f str)>,
    /// Entries of the index, each with what it takes of the room.
    pub(super) items: Vec<(&'f Item, usize)>,
    /// Whether entries of the index are left out.
    pub(super) scarce: bool,
    /// Whether nothing is left out.
    whole: bool,
}

/// Shares of the room, in percent, that a kind has before the others take what is left.
const ERRORS_PERCENT: usize = 7;
const OUTLOOK_PERCENT: usize = 5;
const DEMANDS_PERCENT: usize = 33;
const INDEX_PERCENT: usize = 52;
const COMMANDS_PERCENT: usize = 3;
const MOST_FOR_ONE_PERCENT: usize = 12;

/// List mark and line end of a sentence, and the comma of an entry.
const LINE_MARKS: usize = 3;
const ITEM_MARKS: usize = 2;

/// A kind is given up after so many entries in a row that were too long for what was left.
const MOST_MISSES: usize = 24;
/// How often the budget is corrected by what a text really took: costs add up only nearly.
const MOST_TRIES: usize = 20;

/// The text that fits the room best; none where not even the form and one line do.
pub(super) fn text_within(sheet: &Sheet<'_>, findings: &Findings, request: &SummaryRequest) -> Option<String> {
    let room = Room::of(request);
    let candidates = Candidates::of(findings, &room);
    let mut budget = room.limit.saturating_sub(room.cost(&sheet.print(&Chosen::default())));
    let mut best: Option<(usize, String)> = None;
    // The largest budget whose text fitted, and the smallest whose text did not.
    let (mut low, mut high) = (0, usize::MAX);
    for _ in 0..MOST_TRIES {
        if budget <= low || budget >= high {
            budget = low + (high - low) / 2;
        }
        if budget == low {
            break;
        }
        let chosen = candidates.choose(budget);
        let text = sheet.print(&chosen);
        let fit = room.fit(&text);
        if fit.fits {
            low = budget;
            let says = !text.is_empty() && (!chosen.is_empty() || chosen.whole);
            if says && best.as_ref().is_none_or(|(most, _)| fit.cost > *most) {
                best = Some((fit.cost, text));
            }
            if chosen.whole || room.limit.saturating_sub(fit.cost) <= room.limit / 500 {
                break;
            }
        } else {
            high = budget;
        }
        budget = fit.corrected(budget);
    }
    best.map(|(_, text)| text)
}

/// The room, in the unit that limits it first.
struct Room<'r> {
    request: &'r SummaryRequest,
    limit: usize,
    in_chars: bool,
}

/// How a text fits.
struct Fit {
    fits: bool,
    /// What it takes, in the unit of the room.
    cost: usize,
    /// What it takes and may take, in each unit that is limited.
    limits: [Option<(usize, usize)>; 2],
}

impl<'r> Room<'r> {
    fn of(request: &'r SummaryRequest) -> Self {
        let tokens = usize::try_from(request.max_output_tokens()).unwrap_or(usize::MAX);
        match request.max_output_chars() {
            Some(chars) => Self { request, limit: chars, in_chars: true },
            None => Self { request, limit: tokens, in_chars: false },
        }
    }

    fn cost(&self, text: &str) -> usize {
        if self.in_chars {
            return text.chars().count();
        }
        usize::try_from(self.request.counter().count(text)).unwrap_or(usize::MAX)
    }

    fn fit(&self, text: &str) -> Fit {
        let cost = self.cost(text);
        let most_tokens = self.request.max_output_tokens();
        let tokens = (self.in_chars && most_tokens < u64::MAX).then(|| {
            let tokens = usize::try_from(self.request.counter().count(text)).unwrap_or(usize::MAX);
            (tokens, usize::try_from(most_tokens).unwrap_or(usize::MAX))
        });
        let limits = [Some((cost, self.limit)), tokens];
        Fit { fits: limits.iter().flatten().all(|(taken, most)| taken <= most), cost, limits }
    }
}

impl Fit {
    /// The budget that would have filled the room, or missed it by less.
    fn corrected(&self, budget: usize) -> usize {
        let scaled = |(taken, most): (usize, usize)| {
            if taken <= most { budget.saturating_add(most - taken) } else { scale(budget, most, taken).min(budget - 1) }
        };
        self.limits.iter().flatten().map(|limit| scaled(*limit)).min().unwrap_or(budget)
    }
}

fn scale(budget: usize, most: usize, taken: usize) -> usize {
    let scaled = budget as u128 * most as u128 / (taken as u128).max(1);
    usize::try_from(scaled).unwrap_or(usize::MAX)
}

/// A sentence with what it takes of the room.
struct Line<'f> {
    finding: &'f Finding,
    text: Cow<'f, str>,
    cost: usize,
}

struct Candidates<'f> {
    demands: Vec<Line<'f>>,
    errors: Vec<Line<'f>>,
    outlook: Vec<Line<'f>>,
    others: Vec<Line<'f>>,
    items: Vec<(&'f Item, usize)>,
    commands: Vec<(&'f Item, usize)>,
    /// Whether some findings are so many that they cannot all fit.
    cut: bool,
}

impl<'f> Candidates<'f> {
    fn of(findings: &'f Findings, room: &Room<'_>) -> Self {
        let mut cut = false;
        let share = |percent: usize| scale(room.limit, percent, 100);
        let mut lines = |topics: &[Topic], percent: usize, tight_chars: usize| {
            let of = || findings.lines.iter().filter(|line| topics.contains(&line.topic));
            let whole = lines_within(of(), room, usize::MAX, &mut cut);
            let total: usize = whole.iter().fold(0, |total: usize, line| total.saturating_add(line.cost));
            if total <= share(percent) {
                return whole;
            }
            lines_within(of(), room, tight_chars, &mut cut)
        };
        let demands = lines(&[Topic::Demand], DEMANDS_PERCENT, TIGHT_CHARS);
        let errors = lines(&[Topic::Error], ERRORS_PERCENT, TIGHT_ERROR_CHARS);
        let outlook = lines(&[Topic::OpenCall, Topic::Outlook], OUTLOOK_PERCENT, TIGHT_OUTLOOK_CHARS);
        let others = lines(&[Topic::Said, Topic::Decision, Topic::Action], 100, TIGHT_CHARS);
        let mut entries = |commands: bool| {
            let of = findings.items.iter().filter(|item| (item.list == List::Commands) == commands);
            items_within(of, room, &mut cut)
        };
        let (items, commands) = (entries(false), entries(true));
        Self { demands, errors, outlook, others, items, commands, cut }
    }

    /// What fits a budget.
    fn choose(&self, budget: usize) -> Chosen<'_> {
        let mut tray = Tray { left: budget, chosen: Chosen::default(), held: HashSet::new() };
        let share = |percent: usize| scale(budget, percent, 100);
        let [mut demands, mut errors, mut outlook, mut others] =
            [&self.demands, &self.errors, &self.outlook, &self.others].map(|lines| vec![false; lines.len()]);
        let [mut items, mut commands] = [&self.items, &self.commands].map(|items| vec![false; items.len()]);
        // The newest error and the first step have a place even where their share is too small for them.
        let least = |lines: &[Line<'_>]| lines.first().map_or(0, |line| line.cost.min(share(MOST_FOR_ONE_PERCENT)));
        tray.take_lines(&self.errors, &mut errors, share(ERRORS_PERCENT).max(least(&self.errors)));
        tray.take_lines(&self.outlook, &mut outlook, share(OUTLOOK_PERCENT).max(least(&self.outlook)));
        tray.take_lines(&self.demands, &mut demands, share(DEMANDS_PERCENT));
        tray.take_items(&self.items, &mut items, share(INDEX_PERCENT));
        tray.take_lines(&self.demands, &mut demands, usize::MAX);
        tray.take_items(&self.commands, &mut commands, share(COMMANDS_PERCENT));
        for _ in 0..2 {
            tray.take_lines(&self.demands, &mut demands, usize::MAX);
            tray.take_lines(&self.errors, &mut errors, usize::MAX);
            tray.take_items(&self.items, &mut items, usize::MAX);
            tray.take_lines(&self.outlook, &mut outlook, usize::MAX);
            tray.take_items(&self.commands, &mut commands, usize::MAX);
            tray.take_lines(&self.others, &mut others, usize::MAX);
            // What the prose says now need not stand in the index; that makes room for more.
            tray.drop_said();
        }
        let taken = [&demands, &errors, &outlook, &others, &items, &commands];
        tray.chosen.scarce = self.cut || items.contains(&false);
        tray.chosen.whole = !self.cut && taken.iter().all(|taken| !taken.contains(&false));
        tray.chosen
    }
}

impl Chosen<'_> {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.items.is_empty()
    }
}

/// The findings as lines of at most so many characters, as far as they could fit.
fn lines_within<'f>(
    findings: impl Iterator<Item = &'f Finding>,
    room: &Room<'_>,
    chars: usize,
    cut: &mut bool,
) -> Vec<Line<'f>> {
    let mut lines = Vec::new();
    let mut total = 0_usize;
    for finding in findings {
        let text = shortened(&finding.text, chars);
        let cost = room.cost(&text).saturating_add(LINE_MARKS);
        total = total.saturating_add(cost);
        lines.push(Line { finding, text, cost });
        if total / 2 > room.limit {
            *cut = true;
            break;
        }
    }
    lines
}

/// The entries with what they take, as far as they could fit.
fn items_within<'f>(items: impl Iterator<Item = &'f Item>, room: &Room<'_>, cut: &mut bool) -> Vec<(&'f Item, usize)> {
    let marks = if room.in_chars { ITEM_MARKS } else { 1 };
    let mut priced = Vec::new();
    let mut total = 0_usize;
    for item in items {
        let cost = room.cost(&item.shown()).saturating_add(marks);
        total = total.saturating_add(cost);
        priced.push((item, cost));
        if total / 2 > room.limit {
            *cut = true;
            break;
        }
    }
    priced
}

/// Length of a sentence where not all fit whole.
const TIGHT_CHARS: usize = 130;
const TIGHT_ERROR_CHARS: usize = 85;
const TIGHT_OUTLOOK_CHARS: usize = 90;
/// Length up to which a sentence is kept for a value that stands in its second half.
const TIGHT_VALUE_CHARS: usize = 220;

/// A sentence cut at the end of a clause, with a mark. One that gives a value behind the cut is cut later.
fn shortened(text: &str, chars: usize) -> Cow<'_, str> {
    let slack = chars / 8;
    let end_of = |chars: usize| text.char_indices().nth(chars).map(|(at, _)| at);
    let Some(end) = chars.checked_add(slack).and_then(end_of).and_then(|_| end_of(chars)) else {
        return Cow::Borrowed(text);
    };
    let (head, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    if chars == TIGHT_CHARS && rest.contains(|c: char| c.is_ascii_digit() || c == '`') {
        return shortened(text, TIGHT_VALUE_CHARS);
    }
    // A short text needs all its words; a sentence is better for a whole clause.
    let ends: &[&str] = if chars < TIGHT_CHARS {
        &[" / ", " Then: ", " (`"]
    } else {
        &[", ", "; ", ": ", " (", " – ", " — ", "，", "、", "；"]
    };
    let clause = ends.iter().filter_map(|end| head.rfind(end)).max().filter(|at| *at >= head.len() / 2);
    let at = clause.or_else(|| head.rfind(' ')).unwrap_or(head.len());
    Cow::Owned(format!("{} […]", head.get(..at).unwrap_or(head).trim_end()))
}

/// What has been chosen so far.
struct Tray<'f> {
    left: usize,
    chosen: Chosen<'f>,
    /// What stands somewhere already.
    held: HashSet<&'f str>,
}

impl<'f> Tray<'f> {
    /// Takes lines in their order up to a share.
    fn take_lines(&mut self, lines: &'f [Line<'_>], taken: &mut [bool], share: usize) {
        let mut left = share.min(self.left);
        let before = left;
        let mut misses = 0;
        let from = self.chosen.lines.len();
        for (line, taken) in lines.iter().zip(taken).filter(|(_, taken)| !**taken) {
            if line.cost <= left {
                left -= line.cost;
                *taken = true;
                misses = 0;
                self.chosen.lines.push((line.finding, &line.text));
                continue;
            }
            misses += 1;
            if misses > MOST_MISSES {
                break;
            }
        }
        self.left -= before - left;
        let new = self.chosen.lines.get(from..).unwrap_or_default();
        self.held.extend(facts_in(new.iter().map(|(_, text)| *text)));
    }

    /// Takes entries of the index that stand nowhere yet, up to a share.
    fn take_items(&mut self, items: &'f [(&'f Item, usize)], taken: &mut [bool], share: usize) {
        let mut left = share.min(self.left);
        let before = left;
        let mut misses = 0;
        for ((item, cost), taken) in items.iter().zip(taken).filter(|(_, taken)| !**taken) {
            if self.held.contains(item.text.as_str()) {
                *taken = true;
                continue;
            }
            if *cost <= left {
                left -= cost;
                *taken = true;
                misses = 0;
                self.held.extend(item.parts());
                self.chosen.items.push((item, *cost));
                continue;
            }
            misses += 1;
            if misses > MOST_MISSES {
                break;
            }
        }
        self.left -= before - left;
    }

    /// Drops entries of the index that a line holds.
    fn drop_said(&mut self) {
        let said = facts_in(self.chosen.lines.iter().map(|(_, text)| *text));
        let mut freed = 0;
        self.chosen.items.retain(|(item, cost)| {
            let repeated = said.contains(item.text.as_str());
            freed += if repeated { *cost } else { 0 };
            !repeated
        });
        self.left += freed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_ends_with_a_clause_and_keeps_its_value() {
        let long = "The first clause of this sentence says what is wanted of the relay, and the second one explains at great length why \
                    somebody would want that at all.";
        assert_eq!(shortened(long, 130), "The first clause of this sentence says what is wanted of the relay […]");
        let valued = format!("{long} It is 45.");
        assert_eq!(shortened(&valued, 130), valued);
        assert_eq!(shortened("short", 130), "short");
        assert_eq!(shortened("", 130), "");
        assert_eq!(shortened(&"ж".repeat(400), 130).chars().count(), 134);
    }
}
