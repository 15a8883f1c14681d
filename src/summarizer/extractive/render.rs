//! From findings to text: sorted into sections, the least important left out until the rest fits the room.

use std::collections::HashSet;

use super::facts::{Finding, Findings, Topic};
use crate::summarizer::SummaryRequest;

/// Sections of a summary where the kit names none.
const PROSE_SECTIONS: [&str; 6] = ["Requests", "Decisions", "Files", "Errors", "Current Work", "Commands"];

struct Line {
    section: usize,
    rank: usize,
    order: usize,
    text: String,
}

/// Lines of an earlier checkpoint are kept longer than single commands and shorter than new requests and errors.
const RANK_INHERITED: usize = 160;

pub(super) fn render(findings: &Findings, request: &SummaryRequest) -> Option<String> {
    let sections: Vec<&str> = if request.kit().sections.is_empty() {
        PROSE_SECTIONS.to_vec()
    } else {
        request.kit().sections.iter().map(String::as_str).collect()
    };
    let mut lines = lines_of(findings, &sections);
    lines.sort_by_key(|line| line.rank);
    let mut fitting = lines.len();
    let whole = print(&sections, &lines);
    if !request.fits(&whole) {
        // The largest number of lines, taken by rank, that fits: adding a line only makes the text longer.
        let (mut low, mut high) = (0, lines.len());
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            let fits = request.fits(&print(&sections, lines.get(..middle)?));
            if fits { low = middle } else { high = middle }
        }
        fitting = low;
    }
    let text = print(&sections, lines.get(..fitting)?);
    (fitting > 0 && request.fits(&text)).then_some(text).or_else(|| newest_alone(&lines, request))
}

/// Where not even the headings fit: the most important lines, cut to the room.
fn newest_alone(lines: &[Line], request: &SummaryRequest) -> Option<String> {
    let text: Vec<&str> = lines.iter().take(3).map(|line| line.text.as_str()).collect();
    crate::checkpoint::cut_at_sentence(&text.join("\n"), |text| request.fits(text)).map(str::to_owned)
}

fn lines_of(findings: &Findings, sections: &[&str]) -> Vec<Line> {
    let mut seen = HashSet::new();
    let mut lines = Vec::new();
    for inherited in &findings.inherited {
        let section = sections.iter().position(|title| *title == inherited.heading).unwrap_or(sections.len() - 1);
        for text in &inherited.lines {
            if seen.insert((section, text.trim_start_matches("- ").to_owned())) {
                lines.push(Line { section, rank: RANK_INHERITED, order: 0, text: text.clone() });
            }
        }
    }
    for Finding { topic, rank, order, text } in &findings.findings {
        let Some(section) = section_of(*topic, sections) else { continue };
        if seen.insert((section, text.clone())) {
            let text = format!("- {}", text.replace('\n', "\n  "));
            lines.push(Line { section, rank: *rank, order: order + 1, text });
        }
    }
    lines
}

/// The section for a topic: the first whose title speaks of it. A topic that no title speaks of is left out, but for what a
/// checkpoint cannot do without, which goes to the first or last section.
fn section_of(topic: Topic, sections: &[&str]) -> Option<usize> {
    let words: &[&str] = match topic {
        Topic::Request | Topic::Rule => &["request", "user_messages"],
        Topic::Decision => &["concept", "decision", "solving"],
        Topic::File => &["file"],
        Topic::Error => &["error"],
        Topic::OpenCall => &["pending", "current"],
        Topic::Action => &["current"],
        Topic::Outlook => &["next", "pending"],
        Topic::Command => &["critical", "command", "current"],
    };
    let titles: Vec<String> = sections.iter().map(|title| title.to_lowercase()).collect();
    let found = words.iter().find_map(|word| titles.iter().position(|title| title.contains(word)));
    match topic {
        Topic::Request | Topic::Rule => found.or(Some(0)),
        Topic::Error | Topic::OpenCall | Topic::Action => found.or(sections.len().checked_sub(1)),
        _ => found,
    }
}

fn print(sections: &[&str], lines: &[Line]) -> String {
    let mut parts = Vec::with_capacity(sections.len());
    for (index, title) in sections.iter().enumerate() {
        let mut own: Vec<&Line> = lines.iter().filter(|line| line.section == index).collect();
        own.sort_by_key(|line| line.order);
        let texts: Vec<&str> = own.iter().map(|line| line.text.as_str()).collect();
        let body = if texts.is_empty() { "None.".to_owned() } else { texts.join("\n") };
        parts.push(format!("## {title}\n{body}"));
    }
    parts.join("\n\n")
}
