//! From findings to text in the form that the kit wants, the least weighty left out until the rest fits the room.

use super::findings::{Finding, Topic};
use crate::kit::Kit;
use crate::summarizer::SummaryRequest;

/// Sections of a summary where the kit names none.
const PROSE_SECTIONS: [&str; 6] =
    ["What the user asked for", "Decisions", "Files", "Errors", "Where the work stands", "Index"];

/// The form that a kit wants.
enum Form {
    Headings,
    Tags { envelope: String },
    Numbered { envelope: String },
}

struct Sheet<'a> {
    form: Form,
    sections: Vec<&'a str>,
    /// What a section without findings says.
    nothing: &'static str,
}

impl<'a> Sheet<'a> {
    fn new(kit: &'a Kit) -> Self {
        let sections = if kit.sections.is_empty() {
            PROSE_SECTIONS.to_vec()
        } else {
            kit.sections.iter().map(String::as_str).collect()
        };
        let form = match &kit.envelope {
            None => Form::Headings,
            Some(envelope) if envelope.tagged_sections => Form::Tags { envelope: envelope.tag.clone() },
            Some(envelope) => Form::Numbered { envelope: envelope.tag.clone() },
        };
        // A structured answer needs its sections; prose does not need empty ones.
        let nothing = if kit.sections.is_empty() { "" } else { "None." };
        Self { form, sections, nothing }
    }

    fn print(&self, lines: &[(usize, &Finding)]) -> String {
        let mut parts = Vec::with_capacity(self.sections.len());
        for (index, title) in self.sections.iter().enumerate() {
            let mut own: Vec<&Finding> =
                lines.iter().filter(|(section, _)| *section == index).map(|(_, finding)| *finding).collect();
            own.sort_by_key(|finding| finding.order);
            let body: Vec<String> = own.iter().map(|finding| format!("- {}", finding.text)).collect();
            let body = if body.is_empty() { self.nothing.to_owned() } else { body.join("\n") };
            match &self.form {
                _ if body.is_empty() => {}
                Form::Headings => parts.push(format!("## {title}\n{body}")),
                Form::Tags { .. } => parts.push(format!("<{title}>\n{body}\n</{title}>")),
                Form::Numbered { .. } => parts.push(format!("{}. {title}:\n{body}", index + 1)),
            }
        }
        match &self.form {
            Form::Headings => parts.join("\n\n"),
            Form::Tags { envelope } => format!("<{envelope}>\n{}\n</{envelope}>", parts.join("\n")),
            Form::Numbered { envelope } => format!("<{envelope}>\n{}\n</{envelope}>", parts.join("\n\n")),
        }
    }
}

/// The text of the findings in the request's form and room; none where not even the most important fits.
pub(super) fn render(findings: &[Finding], request: &SummaryRequest) -> Option<String> {
    let sheet = Sheet::new(request.kit());
    let titles: Vec<String> = sheet.sections.iter().map(|title| title.to_lowercase().replace('_', " ")).collect();
    let mut lines: Vec<(usize, &Finding)> =
        findings.iter().filter_map(|finding| Some((section_of(finding.topic, &titles)?, finding))).collect();
    lines.sort_by_key(|(_, finding)| finding.rank);
    let whole = sheet.print(&lines);
    if request.fits(&whole) {
        return Some(whole);
    }
    // The largest number of lines, by weight, that fits; then smaller ones that still find a place.
    let (mut low, mut high) = (0, lines.len());
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if request.fits(&sheet.print(lines.get(..middle)?)) { low = middle } else { high = middle }
    }
    let mut kept: Vec<(usize, &Finding)> = lines.get(..low)?.to_vec();
    fill(&sheet, request, &mut kept, lines.get(low..).unwrap_or_default());
    let text = sheet.print(&kept);
    if !kept.is_empty() && request.fits(&text) {
        return Some(text);
    }
    newest_alone(&lines, request)
}

/// Adds what still fits, a few at a time, as long as something does.
fn fill<'a>(
    sheet: &Sheet<'_>,
    request: &SummaryRequest,
    kept: &mut Vec<(usize, &'a Finding)>,
    rest: &[(usize, &'a Finding)],
) {
    const TRIES: usize = 48;
    let mut misses = 0;
    for line in rest {
        kept.push(*line);
        if request.fits(&sheet.print(kept)) {
            misses = 0;
            continue;
        }
        kept.pop();
        misses += 1;
        if misses >= TRIES {
            break;
        }
    }
}

/// Where not even the form fits: the weightiest lines, cut to the room.
fn newest_alone(lines: &[(usize, &Finding)], request: &SummaryRequest) -> Option<String> {
    let text: Vec<&str> = lines.iter().take(4).map(|(_, finding)| finding.text.as_str()).collect();
    crate::checkpoint::cut_at_sentence(&text.join("\n"), |text| request.fits(text)).map(str::to_owned)
}

/// The section for a topic: the first whose title speaks of it, else one that holds everything.
fn section_of(topic: Topic, titles: &[String]) -> Option<usize> {
    let words: &[&str] = match topic {
        Topic::Demand => &["request", "user asked"],
        Topic::Said => &["user messages", "request", "user asked"],
        Topic::Decision => &["solving", "decision", "concept"],
        Topic::File => &["file"],
        Topic::Error => &["error"],
        Topic::OpenCall => &["pending", "stands", "current"],
        Topic::Action => &["current", "stands"],
        Topic::Outlook => &["next", "pending", "stands"],
        Topic::Index => &["critical", "index", "concept"],
        Topic::Command => &["critical", "current", "stands"],
    };
    let found = words.iter().find_map(|word| titles.iter().position(|title| title.contains(word)));
    found.or(titles.len().checked_sub(1))
}
