//! The machine behind the adapters: rules over Markdown, each counted, and a check that lets nothing through.

use regex::Regex;

use super::check::{Place, Places, PromptFault, forbidden_in, is_word};
use super::markdown::{Reach, TakenOut, bare_title, take_blocks, take_fences, take_sections, take_sentences, tidy};
use super::template::{self, Filled};
use super::{PromptError, ToolMap};

/// Tools with an underscore that the presets of this crate have, so that naming one is no risk.
const OUR_TOOLS: &[&str] = &[
    "read_image",
    "job_list",
    "job_output",
    "job_kill",
    "create_goal",
    "get_goal",
    "update_goal",
    "exit_plan_mode",
    "ask_user_question",
    "todo_write",
    "web_search",
    "web_fetch",
];

/// What a rule does where its expression matches.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    /// Takes out the section whose bare title matches.
    Section,
    /// Takes out the fence.
    Fence,
    /// Takes out the sentence; a list item without sentences goes with what is under it.
    Sentence,
    /// Takes out the whole list item or paragraph, with what is under it.
    Item,
    /// Takes out the lines up to the next blank one.
    Block,
    /// The first sentence becomes another one, further ones go.
    SentenceBecomes(&'static str),
    /// Replaces the match.
    Replace(&'static str),
}

/// A rule of an adapter.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) action: Action,
    pub(super) pattern: Option<Regex>,
}

impl Rule {
    pub(super) fn new(name: &'static str, action: Action, pattern: &str) -> Self {
        // The patterns are constants; a test builds them all.
        Self { name, action, pattern: Regex::new(pattern).ok() }
    }
}

/// How often a rule was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCount {
    /// The rule, in words.
    pub rule: String,
    /// How often.
    pub count: usize,
}

/// A section that was taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedSection {
    /// Its heading.
    pub heading: String,
    /// The line of the text as it was handed in, where the heading stands there.
    pub line: Option<usize>,
    /// Its characters.
    pub chars: usize,
}

/// Something that is allowed and still worth a look before the text is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Risk {
    /// Why.
    pub why: String,
    /// What was found.
    pub found: String,
    /// Where, in the adapted text.
    pub place: Place,
}

/// Everything that an adapter did and found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Rules that changed something, with counts.
    pub applied: Vec<RuleCount>,
    /// Rules and headings that found nothing: the text is of another generation than they were written for.
    pub unmatched: Vec<String>,
    /// Sections that are gone.
    pub removed: Vec<RemovedSection>,
    /// What is left and worth a look.
    pub risks: Vec<Risk>,
}

impl std::fmt::Display for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for RuleCount { rule, count } in &self.applied {
            writeln!(f, "applied {count:>3} x  {rule}")?;
        }
        for RemovedSection { heading, line, chars } in &self.removed {
            let line = line.map_or_else(|| "from a hole".into(), |line| format!("line {line}"));
            writeln!(f, "removed section  {heading:?}, {line}, {chars} characters")?;
        }
        for rule in &self.unmatched {
            writeln!(f, "found nothing    {rule}")?;
        }
        for Risk { why, found, place } in &self.risks {
            writeln!(f, "risk at {place}  {found:?}: {why}")?;
        }
        Ok(())
    }
}

/// A prompt that was made to fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapted {
    /// The text.
    pub text: String,
    /// What was done to it.
    pub audit: Audit,
}

/// Makes the published prompt of another agent fit this harness, in whichever of its generations it comes.
#[derive(Debug, Clone)]
pub struct Adapter {
    pub(super) agent: &'static str,
    /// One of these must be in the text, in any case, or it is no prompt of this agent.
    pub(super) marks: &'static [&'static str],
    pub(super) rules: Vec<Rule>,
    /// Upstream's tools and ours. A word of English is renamed in quotes alone.
    pub(super) tools: &'static [(&'static str, &'static str)],
    /// Names of tools in template holes and the tools that they stand for.
    pub(super) constants: &'static [(&'static str, &'static str)],
    /// Bare titles that must survive where the text has them.
    pub(super) anchors: &'static [&'static str],
    pub(super) forbidden: Vec<String>,
    /// Expressions that are worth a look, with the reason.
    pub(super) risks: Vec<(&'static str, Option<Regex>)>,
    /// What a text begins with that would otherwise not say what the model is.
    pub(super) opening: &'static str,
    pub(super) instruction_file: String,
    pub(super) upstream_instruction_file: &'static str,
    pub(super) host_tools: ToolMap,
}

impl Adapter {
    /// The file in which the host's repositories keep rules for agents; `AGENTS.md` where nothing else is said.
    pub fn with_instruction_file(mut self, name: impl Into<String>) -> Self {
        self.instruction_file = name.into();
        self
    }

    /// What the host calls the tools of this crate's presets. It is applied last.
    pub fn with_tools(mut self, tools: ToolMap) -> Self {
        self.host_tools = tools;
        self
    }

    /// Adapts a text, or refuses it. Either way the audit tells everything that was done.
    pub fn adapt(&self, text: &str) -> Result<Adapted, PromptError> {
        let mut audit = Audit::default();
        let lower = text.to_lowercase();
        if !self.marks.iter().any(|mark| lower.contains(&mark.to_lowercase())) {
            let why = format!("it has none of {}", self.marks.join(", "));
            return Err(PromptError::NotThisAgent { agent: self.agent, why });
        }
        let original = text;
        let titles: Vec<(usize, String)> = titles(original);
        let mut text = fold_typography(text, &mut audit);
        text = self.fill_holes(&text, &titles, &mut audit);
        // A section that a closed hole left empty has nothing to survive.
        let anchors: Vec<&str> = self.anchors_in(&tidy(&text), &mut audit);
        for rule in &self.rules {
            text = apply(rule, &text, &titles, &mut audit);
        }
        for (from, to) in self.tools {
            let (renamed, count) = rename_quoted(&text, from, to);
            text = renamed;
            let rule = if from == to {
                format!("tool {from} stands in code quotes")
            } else {
                format!("tool {from} is called {to}")
            };
            note(&mut audit, rule, count);
        }
        text = mend_joints(&text, self.tools);
        if self.upstream_instruction_file != self.instruction_file {
            let count = text.matches(self.upstream_instruction_file).count();
            text = text.replace(self.upstream_instruction_file, &self.instruction_file);
            let rule = format!("{} is called {}", self.upstream_instruction_file, self.instruction_file);
            note(&mut audit, rule, count);
        }
        text = self.open(&text, &mut audit);
        text = tidy(&text);
        let (renamed, counts) = self.host_tools.apply(&text);
        text = renamed;
        for (tool, count) in counts {
            note(&mut audit, format!("tool {tool} is called {} by the host", self.host_tools.name(&tool)), count);
        }
        self.find_risks(&text, &mut audit);
        let faults = self.faults(&text, &anchors);
        if faults.is_empty() {
            Ok(Adapted { text, audit })
        } else {
            Err(PromptError::Refused { faults, audit: Some(Box::new(audit)) })
        }
    }

    fn fill_holes(&self, text: &str, titles: &[(usize, String)], audit: &mut Audit) -> String {
        let keep = |title: &str| {
            let removes = |rule: &&Rule| matches!(rule.action, Action::Section);
            let gone = |rule: &Rule| rule.pattern.as_ref().is_some_and(|pattern| pattern.is_match(title));
            !self.rules.iter().filter(removes).any(gone)
        };
        let tool = |constant: &str| {
            let found = self.constants.iter().find(|(name, _)| *name == constant);
            found.map_or_else(|| constant.to_lowercase(), |(_, tool)| (*tool).to_owned())
        };
        let Filled { text, tools, code, variables, removed, source } = template::fill(text, self.marks, &tool, &keep);
        if source {
            note(audit, "the prompt is taken out of program source".into(), 1);
        }
        note(audit, "holes that name a tool are filled".into(), tools);
        note(audit, "holes of program code are closed".into(), code);
        note(audit, "holes of variables are closed".into(), variables);
        audit.removed.extend(removed.into_iter().map(|section| located(section, titles)));
        text
    }

    /// The anchors that the text has. Those that it has not are drift.
    fn anchors_in(&self, text: &str, audit: &mut Audit) -> Vec<&'static str> {
        let titles = titles(text);
        let (found, missing): (Vec<&str>, Vec<&str>) =
            self.anchors.iter().partition(|anchor| titles.iter().any(|(_, title)| title.starts_with(**anchor)));
        audit.unmatched.extend(missing.iter().map(|anchor| format!("heading {anchor:?}")));
        found
    }

    /// Puts an opening in front of a text that does not say what the model is.
    fn open(&self, text: &str, audit: &mut Audit) -> String {
        let first = text.lines().find(|line| !line.trim().is_empty() && bare_title(line).is_none());
        let opens = first.is_some_and(|line| line.trim_start().to_lowercase().starts_with("you are "));
        if opens {
            return text.to_owned();
        }
        note(audit, "an opening is put in front".into(), 1);
        format!("{}\n\n{}", self.opening, text.trim_start())
    }

    fn find_risks(&self, text: &str, audit: &mut Audit) {
        for (why, pattern) in &self.risks {
            let mut places = Places::of(text);
            for found in pattern.iter().flat_map(|pattern| pattern.find_iter(text)) {
                let is_ours = OUR_TOOLS.contains(&found.as_str().trim_matches('`'));
                if is_ours || self.host_tools.names().any(|name| found.as_str().trim_matches('`') == name) {
                    continue;
                }
                let place = places.at(found.start());
                audit.risks.push(Risk { why: (*why).to_owned(), found: found.as_str().trim().to_owned(), place });
            }
        }
        audit.risks.sort_by_key(|risk| risk.place);
    }

    fn faults(&self, text: &str, anchors: &[&str]) -> Vec<PromptFault> {
        let titles = titles(text);
        let body = text
            .lines()
            .any(|line| !line.trim().is_empty() && line.trim() != self.opening && bare_title(line).is_none());
        let empty = (!body).then_some(PromptFault::Empty);
        let file = |name: &str| name.to_lowercase();
        let renamed =
            |anchor: &str| anchor.replace(&file(self.upstream_instruction_file), &file(&self.instruction_file));
        let anchors: Vec<String> = anchors.iter().map(|anchor| renamed(anchor)).collect();
        let lost = anchors.iter().filter(|anchor| !titles.iter().any(|(_, title)| title.starts_with(anchor.as_str())));
        let lost = lost.map(|anchor| PromptFault::MissingAnchor { anchor: anchor.clone() });
        empty.into_iter().chain(lost).chain(forbidden_in(text, &self.forbidden)).collect()
    }
}

/// What is worth a look in any agent's prompt, and what else.
pub(super) fn risks(more: &[(&'static str, &str)]) -> Vec<(&'static str, Option<Regex>)> {
    let shared = [
        ("speaks of a sandbox or of approvals", r"(?i)\bsandbox\w*|\bapprovals?\b|\bapproval mode"),
        ("speaks of a channel of output", r"(?i)\b(?:commentary|final|analysis) channel\b"),
        (
            "promises something about summaries or memory",
            r"(?i)\b(?:compact(?:ed|ion)|summari[sz](?:ed|ing|ation)) (?:of )?(?:the )?(?:context|conversation|history)\b|\bsurvives? (?:summari[sz]ing|compaction)\b",
        ),
        ("a command of a client", r"(?m)(?:^|[\s`'(])/[a-z][a-z-]{2,15}(?:[\s`').,]|$)"),
        ("an address", r"https?://[^\s)>`]+"),
        ("a folder or variable of another program", r"~/\.[\w-]+|\$[A-Z][A-Z_]{3,}"),
        ("speaks of a command-line program", r"\bCLI\b"),
        ("may be a tool that the harness lacks", r"`(?:[a-z]+_)+[a-z]+`"),
    ];
    shared.iter().chain(more).map(|(why, pattern)| (*why, Regex::new(pattern).ok())).collect()
}

fn note(audit: &mut Audit, rule: String, count: usize) {
    if count > 0 {
        audit.applied.push(RuleCount { rule, count });
    } else {
        audit.unmatched.push(rule);
    }
}

/// Every heading with its line, one that stands behind a hole in the middle of its line included.
fn titles(text: &str) -> Vec<(usize, String)> {
    let of_line = |line: &str| {
        let behind_hole = line.rfind("}#").and_then(|at| line.get(at + 1..));
        bare_title(line).or_else(|| bare_title(behind_hole?)).map(|(_, title)| title)
    };
    text.lines().enumerate().filter_map(|(index, line)| Some((index + 1, of_line(line)?))).collect()
}

fn located(TakenOut { title, chars }: TakenOut, titles: &[(usize, String)]) -> RemovedSection {
    let bare = bare_title(&format!("# {title}")).map(|(_, bare)| bare);
    let line = titles.iter().find(|(_, known)| Some(known) == bare.as_ref()).map(|(line, _)| *line);
    RemovedSection { heading: title, line, chars }
}

fn apply(rule: &Rule, text: &str, titles: &[(usize, String)], audit: &mut Audit) -> String {
    let Some(pattern) = &rule.pattern else { return text.to_owned() };
    let matches = |part: &str| pattern.is_match(part);
    let (changed, count) = match rule.action {
        Action::Section => {
            let (changed, taken) = take_sections(text, matches);
            let count = taken.len();
            audit.removed.extend(taken.into_iter().map(|section| located(section, titles)));
            (changed, count)
        }
        Action::Fence => take_fences(text, matches),
        Action::Sentence => take_sentences(text, matches, Reach::Sentence, None),
        Action::Item => take_sentences(text, matches, Reach::Line, None),
        Action::Block => take_blocks(text, matches),
        Action::SentenceBecomes(instead) => take_sentences(text, matches, Reach::Sentence, Some(instead)),
        Action::Replace(with) => {
            let count = pattern.find_iter(text).count();
            (pattern.replace_all(text, with).into_owned(), count)
        }
    };
    note(audit, rule.name.to_owned(), count);
    changed
}

/// Plain hyphens, quotes, blanks and line ends for typographic ones.
fn fold_typography(text: &str, audit: &mut Audit) -> String {
    let mut count = 0;
    let folded: String = text
        .replace("\r\n", "\n")
        .chars()
        .filter_map(|c| {
            let plain = match c {
                '\u{2010}' | '\u{2011}' => '-',
                '\u{2018}' | '\u{2019}' | '\u{201a}' => '\'',
                '\u{201c}' | '\u{201d}' | '\u{201e}' => '"',
                '\u{a0}' | '\u{202f}' => ' ',
                '\r' => '\n',
                '\u{feff}' | '\u{200b}' => {
                    count += 1;
                    return None;
                }
                other => return Some(other),
            };
            count += 1;
            Some(plain)
        })
        .collect();
    note(audit, "typographic hyphens, quotes and blanks become plain ones".into(), count);
    folded
}

/// Renames a tool. A name with an underscore is renamed wherever it is a word; an English word only in quotes. Quotes around it
/// become code quotes, and a quote that nothing closes goes.
fn rename_quoted(text: &str, from: &str, to: &str) -> (String, usize) {
    let mut renamed = String::with_capacity(text.len());
    let mut count = 0;
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        let mut in_code = false;
        while let Some(at) = rest.find(from) {
            let (before, found) = rest.split_at(at);
            let after = found.get(from.len()..).unwrap_or_default();
            in_code ^= before.bytes().filter(|byte| *byte == b'`').count() % 2 == 1;
            let left = before.chars().next_back();
            let right = after.chars().next();
            let is_quote = |c: &char| matches!(c, '\'' | '"');
            let outer_left = before.chars().rev().nth(1);
            let opening = left.filter(is_quote).filter(|_| outer_left.is_none_or(|c| !is_word(c)));
            let outer_right = after.chars().nth(1);
            let closing = right.filter(is_quote).filter(|_| outer_right.is_none_or(|c| !is_word(c)));
            let is_word_here = !left.is_some_and(is_word) && !right.is_some_and(is_word);
            let stands_alone = in_code && left == Some('`') && right.is_some_and(|c| matches!(c, '`' | '('));
            let quoted = stands_alone || (opening.is_some() && closing == opening);
            if !is_word_here || !(from.contains('_') || quoted) {
                renamed.push_str(before);
                renamed.push_str(from);
                rest = after;
                continue;
            }
            count += 1;
            rest = after;
            if in_code {
                renamed.push_str(before);
                renamed.push_str(to);
                continue;
            }
            renamed.push_str(opening.and_then(|quote| before.strip_suffix(quote)).unwrap_or(before));
            renamed.push('`');
            renamed.push_str(to);
            renamed.push('`');
            rest = closing.and_then(|quote| after.strip_prefix(quote)).unwrap_or(after);
        }
        renamed.push_str(rest);
    }
    (renamed, count)
}

/// Two upstream tools may be one of ours: "`read` and `read`" says it once. The article before a name is that of the new one.
fn mend_joints(text: &str, tools: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (_, tool) in tools {
        let once = format!("`{tool}`");
        for joint in [" and ", " or ", ", ", "/", " / ", ", and ", ", or "] {
            text = text.replace(&format!("{once}{joint}{once}"), &once);
        }
        let vowel = tool.starts_with(['a', 'e', 'i', 'o', 'u']);
        for (wrong, right) in [("a", "an"), ("A", "An")].map(|(a, an)| if vowel { (a, an) } else { (an, a) }) {
            for before in [" ", "(", "\n"] {
                text = text.replace(&format!("{before}{wrong} {once}"), &format!("{before}{right} {once}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{codex, qwen};

    #[test]
    fn every_expression_of_the_adapters_compiles() {
        for adapter in [codex(), qwen()] {
            for rule in &adapter.rules {
                assert!(rule.pattern.is_some(), "{}: {}", adapter.agent, rule.name);
            }
            for (why, pattern) in &adapter.risks {
                assert!(pattern.is_some(), "{}: {why}", adapter.agent);
            }
        }
    }
}
