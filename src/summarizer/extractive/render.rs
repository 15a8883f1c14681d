//! From findings to text in the form that the kit wants.

use super::findings::{Finding, Findings, Topic};
use super::index::{self, Item, List};
use super::select::{self, Chosen};
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

/// The form of a summary.
pub(super) struct Sheet<'a> {
    form: Form,
    sections: Vec<&'a str>,
    /// The sections' titles in lower case.
    titles: Vec<String>,
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
        let titles = sections.iter().map(|title| title.to_lowercase().replace('_', " ")).collect();
        Self { form, sections, titles, nothing }
    }

    /// The text of what was chosen.
    pub(super) fn print(&self, chosen: &Chosen<'_>) -> String {
        let mut bodies: Vec<Vec<String>> = vec![Vec::new(); self.sections.len()];
        let mut lines = chosen.lines.clone();
        lines.sort_by_key(|(finding, _)| finding.order);
        for (finding, text) in lines {
            if let Some(body) = self.section_of(finding.topic).and_then(|section| bodies.get_mut(section)) {
                body.push(format!("- {text}"));
            }
        }
        for list in List::ALL {
            let mut items: Vec<&Item> =
                chosen.items.iter().map(|(item, _)| *item).filter(|item| item.list == list).collect();
            if let Some(body) = self.section_of_list(list).and_then(|section| bodies.get_mut(section)) {
                body.extend(
                    index::lines_of(list, &mut items, chosen.scarce).into_iter().map(|line| format!("- {line}")),
                );
            }
        }
        let mut parts = Vec::with_capacity(self.sections.len());
        for (index, (title, body)) in self.sections.iter().zip(bodies).enumerate() {
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

    fn section_of(&self, topic: Topic) -> Option<usize> {
        self.section(match topic {
            Topic::Demand => &["request", "user asked"],
            Topic::Said => &["user messages", "request", "user asked"],
            Topic::Decision => &["solving", "decision", "concept"],
            Topic::Error => &["error"],
            Topic::OpenCall => &["pending", "stands", "current"],
            Topic::Action => &["current", "stands"],
            Topic::Outlook => &["next", "pending", "stands"],
        })
    }

    fn section_of_list(&self, list: List) -> Option<usize> {
        self.section(match list {
            _ if list.is_of_files() => &["file"],
            List::Commands => &["critical", "index", "current"],
            _ => &["critical", "index", "concept"],
        })
    }

    /// The first section whose title speaks of it, else the last, which holds everything.
    fn section(&self, words: &[&str]) -> Option<usize> {
        let found = words.iter().find_map(|word| self.titles.iter().position(|title| title.contains(word)));
        found.or(self.titles.len().checked_sub(1))
    }
}

/// The text of the findings in the request's form and room; none where not even the most important fits.
pub(super) fn render(findings: &Findings, request: &SummaryRequest) -> Option<String> {
    let sheet = Sheet::new(request.kit());
    select::text_within(&sheet, findings, request).or_else(|| weightiest_alone(&findings.lines, request))
}

/// Where not even the form fits: the weightiest lines, cut to the room.
fn weightiest_alone(lines: &[Finding], request: &SummaryRequest) -> Option<String> {
    let text: Vec<&str> = lines.iter().take(4).map(|finding| finding.text.as_str()).collect();
    let text = text.join("\n");
    let cut = crate::checkpoint::cut_at_sentence(&text, |text| request.fits(text))?;
    (!cut.trim().is_empty()).then(|| cut.to_owned())
}
