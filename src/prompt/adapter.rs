//! The machine behind the adapters: rules over Markdown, each counted, and a check that lets nothing through.

use std::ops::Range;

use regex::Regex;

use super::audit::{Adapted, Audit, Risk, RuleCount, Titles};
use super::check::{Places, PromptFault, clipped, forbidden_in, mentions};
use super::markdown::{
    Reach, bare_title, first_sentence, mark_underlined_titles, take_blocks, take_fences, take_sections, take_sentences,
    tidy, titles, wrapped,
};
use super::personas::{FOREIGN_IDENTITY, FOREIGN_TOOLS, owned};
use super::spelling::{fold_dashes, fold_spellings, fold_typography, mend_joints, rename};
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
    /// The first sentence of the text becomes the agent's opening, where it says what the model is.
    Opening,
}

/// A rule of an adapter.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    action: Action,
    pub(super) pattern: Option<Regex>,
    /// Names that count as matches, however they are joined to other words.
    names: Vec<&'static str>,
}

/// An agent's prompts: all that an adapter must know about them. The expressions are compiled when an adapter is made of it.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) name: &'static str,
    /// The agent's name for itself, one word.
    pub(super) own_name: &'static str,
    /// What is called by that name and is neither product nor model: folders, packages.
    pub(super) own_things: &'static str,
    /// What the product is called.
    pub(super) product: &'static str,
    /// One of these must be in the text, in any case, or it is no prompt of this agent.
    pub(super) marks: &'static [&'static str],
    /// Each with its name, and an expression.
    pub(super) rules: &'static [(&'static str, Action, &'static str)],
    /// Upstream's tools and ours. A word of English is renamed in code quotes alone.
    pub(super) tools: &'static [(&'static str, &'static str)],
    /// Whether upstream puts single quotes where others put code quotes.
    pub(super) single_quotes: bool,
    /// Names of tools in template holes and the tools that they stand for.
    pub(super) constants: &'static [(&'static str, &'static str)],
    /// Bare titles that must survive where the text has them.
    pub(super) anchors: &'static [&'static str],
    /// What must not be left, beside the names and tools that every agent's prompt is kept free of.
    pub(super) forbidden: &'static [&'static str],
    /// Expressions that are worth a look, with the reason, beside those of every agent.
    pub(super) risks: &'static [(&'static str, &'static str)],
    /// What a text begins with that would otherwise not say what the model is.
    pub(super) opening: &'static str,
    pub(super) instruction_file: &'static str,
}

/// Makes the published prompt of another agent fit this harness, in whichever of its generations it comes.
#[derive(Debug, Clone)]
pub struct Adapter {
    pub(super) agent: &'static Agent,
    pub(super) rules: Vec<Rule>,
    forbidden: Vec<String>,
    pub(super) risks: Vec<(&'static str, Option<Regex>)>,
    instruction_file: String,
    host_tools: ToolMap,
}

impl Adapter {
    pub(super) fn of(agent: &'static Agent) -> Self {
        // The expressions are constants; a test builds them all.
        let rule = |(name, action, pattern): &(&'static str, Action, &str)| Rule {
            name,
            action: *action,
            pattern: Regex::new(pattern).ok(),
            names: Vec::new(),
        };
        let mut rules: Vec<Rule> = agent.rules.iter().chain(CLOSED_HOLES).map(rule).collect();
        rules.extend(identity_rules(agent));
        let risks = RISKS.iter().chain(agent.risks).map(|(why, pattern)| (*why, Regex::new(pattern).ok())).collect();
        Self {
            agent,
            rules,
            forbidden: owned(&[FOREIGN_IDENTITY, FOREIGN_TOOLS, agent.forbidden].concat()),
            risks,
            instruction_file: "AGENTS.md".into(),
            host_tools: ToolMap::new(),
        }
    }

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
        let Agent { name: agent, marks, tools, opening, .. } = *self.agent;
        let mut audit = Audit::default();
        let lower = text.to_lowercase();
        if !marks.iter().chain([&opening]).any(|mark| lower.contains(&mark.to_lowercase())) {
            let why = format!("it has none of {}", marks.join(", "));
            return Err(PromptError::NotThisAgent { agent, why });
        }
        let (text, folded) = fold_typography(text);
        note(&mut audit, "typographic hyphens, quotes and blanks become plain ones".into(), folded);
        // Before the holes for the lines of the headings, and behind them for titles that a hole stood above.
        let (text, first) = mark_underlined_titles(&text);
        let mut titles = Titles::of(&text);
        let (mut text, more) = mark_underlined_titles(&self.fill_holes(&text, &mut titles, &mut audit));
        audit.applied.extend(applied("underlined titles become headings", first + more));
        let forbidden = self.forbidden.iter().map(String::as_str);
        let (folded, count) = fold_spellings(&text, forbidden.chain(tools.iter().map(|(from, _)| *from)));
        audit.applied.extend(applied("other spellings of tools become the usual ones", count));
        let (folded, count) = fold_dashes(&folded);
        audit.applied.extend(applied("dashes inside words become hyphens", count));
        text = folded;
        // A section that a closed hole left empty has nothing to survive.
        let anchors: Vec<&str> = self.anchors_in(&tidy(&text).0, &mut audit);
        for rule in &self.rules {
            text = self.apply(rule, &text, &mut titles, &mut audit);
        }
        for (from, to) in tools {
            let (renamed, count) = rename(&text, (from, to), self.agent);
            text = renamed;
            let rule = if from == to {
                format!("tool {from} stands in code quotes")
            } else {
                format!("tool {from} is called {to}")
            };
            note(&mut audit, rule, count);
        }
        text = mend_joints(&text, tools);
        text = self.name_instruction_file(text, &mut audit);
        text = self.open(&text, &mut audit);
        let (tidied, emptied) = tidy(&text);
        audit.applied.extend(applied("headings with nothing under them go", emptied.len()));
        audit.removed.extend(emptied.into_iter().map(|section| titles.locate(section)));
        audit.removed.sort_by_key(|section| section.line);
        let (renamed, counts) = self.host_tools.apply(&tidied);
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

    fn fill_holes(&self, text: &str, titles: &mut Titles, audit: &mut Audit) -> String {
        let keep = |title: &str| {
            let removes = |rule: &&Rule| matches!(rule.action, Action::Section);
            let gone = |rule: &Rule| rule.pattern.as_ref().is_some_and(|pattern| pattern.is_match(title));
            !self.rules.iter().filter(removes).any(gone)
        };
        let tool = |constant: &str| {
            let found = self.agent.constants.iter().find(|(name, _)| *name == constant);
            found.map_or_else(|| constant.to_lowercase(), |(_, tool)| (*tool).to_owned())
        };
        let mut filled = template::fill(text, self.agent.marks, &tool, &keep);
        audit.removed.extend(filled.removed().map(|section| titles.locate(section)));
        let Filled { text, tools, code, variables, source, .. } = filled;
        if source {
            note(audit, "the prompt is taken out of program source".into(), 1);
        }
        note(audit, "holes that name a tool are filled".into(), tools);
        note(audit, "holes of program code are closed".into(), code);
        note(audit, "holes of variables are closed".into(), variables);
        text
    }

    /// The anchors that the text has. Those that it has not are drift.
    fn anchors_in(&self, text: &str, audit: &mut Audit) -> Vec<&'static str> {
        let titles = titles(text);
        let (found, missing): (Vec<&str>, Vec<&str>) =
            self.agent.anchors.iter().partition(|anchor| titles.iter().any(|(_, title)| title.starts_with(**anchor)));
        audit.unmatched.extend(missing.iter().map(|anchor| format!("heading {anchor:?}")));
        found
    }

    fn apply(&self, rule: &Rule, text: &str, titles: &mut Titles, audit: &mut Audit) -> String {
        let is_match = |part: &str| rule.pattern.as_ref().is_some_and(|pattern| pattern.is_match(part));
        let matches = |part: &str| {
            if rule.names.is_empty() {
                return is_match(part);
            }
            // What the host's file is called says nothing about the model.
            let files = [self.instruction_file.as_str(), self.agent.instruction_file];
            let part = files.iter().fold(part.to_owned(), |part, file| part.replace(file, ""));
            let lower = part.to_ascii_lowercase();
            is_match(&part) || rule.names.iter().any(|name| !mentions(&part, &lower, name).is_empty())
        };
        let (changed, count) = match rule.action {
            Action::Section => {
                let (changed, taken) = take_sections(text, matches);
                let count = taken.len();
                audit.removed.extend(taken.into_iter().map(|section| titles.locate(section)));
                (changed, count)
            }
            Action::Fence => take_fences(text, matches),
            Action::Sentence => take_sentences(text, matches, Reach::Sentence, None),
            Action::Item => take_sentences(text, matches, Reach::Line, None),
            Action::Block => take_blocks(text, matches),
            Action::SentenceBecomes(instead) => take_sentences(text, matches, Reach::Sentence, Some(instead)),
            Action::Replace(with) => match &rule.pattern {
                Some(pattern) => (pattern.replace_all(text, with).into_owned(), pattern.find_iter(text).count()),
                None => (text.to_owned(), 0),
            },
            Action::Opening => {
                let mut opened = text.to_owned();
                let named = opening_of(text).filter(|opening| text.get(opening.clone()).is_some_and(matches));
                let count = named.iter().count();
                named.into_iter().for_each(|opening| opened.replace_range(opening, self.agent.opening));
                (opened, count)
            }
        };
        note(audit, rule.name.to_owned(), count);
        changed
    }

    /// Calls the file with rules as the host does. Where the host's name holds upstream's, it is not put into itself.
    fn name_instruction_file(&self, text: String, audit: &mut Audit) -> String {
        let (from, to) = (self.agent.instruction_file, self.instruction_file.as_str());
        if from == to || to.is_empty() {
            return text;
        }
        let parts: Vec<&str> = text.split(to).collect();
        let count = parts.iter().map(|part| part.matches(from).count()).sum();
        note(audit, format!("{from} is called {to}"), count);
        parts.iter().map(|part| part.replace(from, to)).collect::<Vec<_>>().join(to)
    }

    /// Puts an opening in front of a text that does not say what the model is.
    fn open(&self, text: &str, audit: &mut Audit) -> String {
        if opening_of(text).is_some() {
            return text.to_owned();
        }
        note(audit, "an opening is put in front".into(), 1);
        format!("{}\n\n{}", self.agent.opening, text.trim_start())
    }

    fn find_risks(&self, text: &str, audit: &mut Audit) {
        for (why, pattern) in &self.risks {
            let Some(pattern) = pattern else { continue };
            let mut places = Places::of(text);
            let mut at = 0;
            // What an expression puts in a group is what it found; the blank that ends one may begin the next.
            while let Some(found) =
                pattern.captures_at(text, at).and_then(|found| found.get(1).or_else(|| found.get(0)))
            {
                at = found.end();
                let name = found.as_str().trim_matches('`');
                if OUR_TOOLS.contains(&name) || self.host_tools.names().any(|ours| ours == name) {
                    continue;
                }
                let place = places.at(found.start());
                audit.risks.push(Risk { why: (*why).to_owned(), found: clipped(found.as_str()), place });
            }
        }
        audit.risks.sort_by_key(|risk| risk.place);
    }

    fn faults(&self, text: &str, anchors: &[&str]) -> Vec<PromptFault> {
        let titles = titles(text);
        let body = text
            .lines()
            .any(|line| !line.trim().is_empty() && line.trim() != self.agent.opening && bare_title(line).is_none());
        let empty = (!body).then_some(PromptFault::Empty);
        let file = |name: &str| name.to_lowercase();
        let renamed = |anchor: &str| anchor.replace(&file(self.agent.instruction_file), &file(&self.instruction_file));
        let anchors: Vec<String> = anchors.iter().map(|anchor| renamed(anchor)).collect();
        let lost = anchors.iter().filter(|anchor| !titles.iter().any(|(_, title)| title.starts_with(anchor.as_str())));
        let lost = lost.map(|anchor| PromptFault::MissingAnchor { anchor: anchor.clone() });
        empty.into_iter().chain(lost).chain(forbidden_in(text, &self.forbidden, &self.instruction_file)).collect()
    }
}

/// Rules on what a closed hole left, for every agent.
const CLOSED_HOLES: &[(&str, Action, &str)] = &[
    ("sentences with closed holes go", Action::Sentence, "\u{e0ff}"),
    ("fences with closed holes go", Action::Fence, "\u{e0ff}"),
    ("closed holes go from headings", Action::Replace(""), "(?m)^[ \\t]*#{1,6}[ \\t]*\u{e0ff}[ \\t]*$|[ \\t]*\u{e0ff}"),
];

/// What takes the identity of an agent out of its prompts.
fn identity_rules(agent: &Agent) -> Vec<Rule> {
    let own = agent.own_name;
    let foreign: Vec<&str> = FOREIGN_IDENTITY.iter().copied().filter(|name| *name != own).collect();
    // The agent's file of rules may be called by its name in capitals.
    let capitals = Some(own.to_uppercase()).filter(|capitals| !agent.instruction_file.contains(capitals.as_str()));
    let forms = [Some(own.to_owned()), Some(own.to_lowercase()), capitals].into_iter().flatten().collect::<Vec<_>>();
    let forms = forms.join("|");
    let rule = |name, action, pattern: &str, names: Vec<&'static str>| {
        let pattern = Some(pattern).filter(|pattern| !pattern.is_empty()).and_then(|pattern| Regex::new(pattern).ok());
        Rule { name, action, pattern, names }
    };
    let replace = |name, with, pattern: &str| rule(name, Action::Replace(with), pattern, Vec::new());
    vec![
        rule("the opening says what the model is", Action::Opening, "", FOREIGN_IDENTITY.to_vec()),
        rule("sentences on maker and model go", Action::Sentence, agent.own_things, foreign),
        replace(
            "the product is this harness, at the head of a sentence",
            "${1}This harness",
            &format!(r"(?m)(^\s*(?:[-*] )?|[.!?] ){}", agent.product),
        ),
        replace("the product is this harness", "this harness", agent.product),
        replace(
            "the agent is this agent, at the head of a sentence",
            "${1}This agent",
            &format!(r"(?m)(^\s*(?:[-*] )?|[.!?] ){own}\b"),
        ),
        replace("the agent is this agent", "this agent", &format!(r"\b(?:{forms})\b")),
        rule("sentences on things with the agent's name go", Action::Sentence, "", vec![own]),
        replace(
            "models in headings lose their names",
            "${1}this model",
            r"(?m)^(#+ .*?)\bGPT(?:[-_ ]?\d[\w.]*|-[\w.]+)*\b",
        ),
        replace("the terminal program is the client", "${1}he client", r"\b([Tt])he CLI\b"),
    ]
}

/// What is worth a look in any agent's prompt.
const RISKS: &[(&str, &str)] = &[
    ("speaks of a sandbox or of approvals", r"(?i)\bsandbox\w*|\bapprovals?\b|\bapproval mode"),
    ("speaks of a channel of output", r"(?i)\b(?:commentary|final|analysis) channel\b"),
    (
        "promises something about summaries or memory",
        r"(?i)\b(?:compact(?:ed|ion)|summari[sz](?:ed|ing|ation)) (?:of )?(?:the )?(?:context|conversation|history)\b|\bsurvives? (?:summari[sz]ing|compaction)\b",
    ),
    ("a command of a client", r"(?m)(?:^|[\s`'(])(/[a-z][a-z-]{2,15})(?:[\s`').,]|$)"),
    ("an address", r"https?://[^\s)>`]+"),
    ("a folder or variable of another program", r"~/\.[\w-]+|\$[A-Z][A-Z_]{3,}"),
    ("speaks of a command-line program", r"\bCLI\b"),
    ("may be a tool that the harness lacks", r"`(?:[a-z]+_)+[a-z]+`"),
    (
        "a line of program source, in which no prompt was found",
        r"(?m)^(?:import|export)\s+(?:[{*]|default|const|function|class|type|async|\w+\s+from)[^\n]*",
    ),
    ("a hole of a template that nothing closes", r"\$\{[^\n}]{0,40}"),
    ("may be a hole of a template", r"\{\{[^\n}]{0,40}(?:\}\})?"),
];

/// What is told of a step that many texts do not need.
fn applied(rule: &str, count: usize) -> Option<RuleCount> {
    (count > 0).then(|| RuleCount { rule: rule.to_owned(), count })
}

/// Tells of a rule, also where it found nothing.
fn note(audit: &mut Audit, rule: String, count: usize) {
    match applied(&rule, count) {
        Some(applied) => audit.applied.push(applied),
        None => audit.unmatched.push(rule),
    }
}

/// Where a text says what the model is: its first sentence, headings left aside.
fn opening_of(text: &str) -> Option<Range<usize>> {
    let says = |line: &&str| !line.trim().is_empty() && bare_title(line).is_none();
    let at: usize = text.split_inclusive('\n').take_while(|line| !says(line)).map(str::len).sum();
    let rest = text.get(at..)?;
    let paragraph = rest.get(..wrapped(rest))?;
    let start = at + (paragraph.len() - paragraph.trim_start().len());
    let sentence = first_sentence(paragraph.trim());
    let opens = ["you are ", "you're "].iter().any(|head| sentence.to_lowercase().starts_with(head));
    opens.then_some(start..start + sentence.len())
}

#[cfg(test)]
mod tests {
    use super::super::{codex, qwen};

    #[test]
    fn every_expression_of_the_adapters_compiles() {
        for adapter in [codex(), qwen()] {
            for rule in &adapter.rules {
                assert!(rule.pattern.is_some() || !rule.names.is_empty(), "{}: {}", adapter.agent.name, rule.name);
            }
            for (why, pattern) in &adapter.risks {
                assert!(pattern.is_some(), "{}: {why}", adapter.agent.name);
            }
        }
    }
}
