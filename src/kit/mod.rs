//! What a summariser is asked and how its answer is framed.
//!
//! Owns kits as data. Calls no model.

use serde::{Deserialize, Serialize};

use crate::policy::Policy;

/// How a checkpoint is told from the messages around it: the texts of its first and last block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Frame {
    /// The text of the first block.
    pub opening: String,
    /// The text of the last block.
    pub closing: String,
    /// The tag that the frame ends with. Its end tag is escaped inside the checkpoint, so that nothing can end the frame early.
    pub tag: String,
}

/// The tags between which a structured answer stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    /// The tag's name.
    pub tag: String,
    /// Whether the tags stay in the checkpoint's body.
    pub kept: bool,
    /// Whether the sections are tags themselves; else they are titles at the beginning of lines.
    pub tagged_sections: bool,
}

/// What the person typed, quoted beside the summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quotes {
    /// The heading over them.
    pub title: String,
    /// Tokens that they may take.
    pub max_tokens: u64,
    /// The share of what is replaced that they may take, in 0–1.
    pub most_of_span: f64,
}

/// What happens to an answer that is longer than its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Truncation {
    /// It is cut at the end of a sentence or line. For prose.
    Sentence,
    /// It is refused. For structured answers, whose last sections matter most.
    Refuse,
}

/// What a summariser is asked and how its answer is framed.
///
/// A kit is a value: print it, change it, keep it as JSON. Unknown keys are refused when it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kit {
    /// A stable name, kept with every checkpoint.
    pub id: String,
    /// A name for people.
    pub label: String,
    /// What the summariser is asked.
    pub instruction: String,
    /// The envelope of a structured answer; none for prose.
    pub envelope: Option<Envelope>,
    /// The names of the sections, in order; empty where the answer has none. A structured answer must have them all.
    pub sections: Vec<String>,
    /// The section that lists what the person wrote, where there is one. It can be checked against the log.
    pub user_messages_section: Option<String>,
    /// The frame.
    pub frame: Frame,
    /// Quotes of the person beside the summary; none for no quotes.
    pub quotes: Option<Quotes>,
    /// How many of the files that the tools of the span touched last are listed.
    pub recent_files: usize,
    /// Whether background work that the span started is listed with its ids.
    pub background_work: bool,
    /// Tokens that a body needs at least; a fold with less room is refused before any call.
    pub min_body_tokens: u64,
    /// What happens to an answer that is longer than its room.
    pub truncation: Truncation,
    /// How often an answer that cannot be used is asked for again.
    pub summary_retries: u32,
    /// Prefix of the names under which hooks are called: `<namespace>/compaction/pre` and `/post`.
    pub hook_namespace: String,
}

/// What is wrong with a kit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KitError {
    /// A text that must say something says nothing.
    #[error("kit {kit:?}: {field} is empty")]
    Empty {
        /// The kit.
        kit: String,
        /// The field.
        field: &'static str,
    },
    /// Two sections share a title.
    #[error("kit {kit:?}: two sections are titled {title:?}")]
    DuplicateSection {
        /// The kit.
        kit: String,
        /// The title.
        title: String,
    },
    /// The frame's last block does not end its tag.
    #[error("kit {kit:?}: the closing must contain </{tag}>")]
    FrameNotClosed {
        /// The kit.
        kit: String,
        /// The tag.
        tag: String,
    },
    /// A name that is no tag.
    #[error("kit {kit:?}: {name:?} is no tag name; letters, digits, dash and underscore are")]
    NoTagName {
        /// The kit.
        kit: String,
        /// The name.
        name: String,
    },
    /// A share outside 0–1.
    #[error("kit {kit:?}: quotes.most_of_span is {value}; it must be 0 to 1")]
    QuoteShare {
        /// The kit.
        kit: String,
        /// The share.
        value: f64,
    },
    /// The section of the person's messages is none of the sections.
    #[error("kit {kit:?}: user_messages_section {title:?} is none of its sections")]
    UnknownSection {
        /// The kit.
        kit: String,
        /// The title.
        title: String,
    },
    /// Tagged sections without an envelope, or a structured answer that would be cut.
    #[error("kit {kit:?}: {what}")]
    Contradiction {
        /// The kit.
        kit: String,
        /// What contradicts what.
        what: &'static str,
    },
    /// No answer can be long enough.
    #[error(
        "kit {kit:?}: a body needs min_body_tokens = {min_body_tokens}, and {cap} is {max_tokens}; it must be at least that"
    )]
    FloorAboveCap {
        /// The kit.
        kit: String,
        /// The floor, in tokens.
        min_body_tokens: u64,
        /// The knob that is too low: `max_tokens`, or that of a route.
        cap: String,
        /// Its value, in tokens.
        max_tokens: u64,
    },
}

/// The frame's tag in every built-in kit.
const FRAME_TAG: &str = "compacted-summary";

fn titles(sections: &[&str]) -> Vec<String> {
    sections.iter().map(|title| (*title).to_owned()).collect()
}

impl Kit {
    /// The kit of the preset `standard`: eight Markdown sections.
    pub fn base() -> Self {
        Self {
            id: "base".into(),
            label: "Base".into(),
            instruction: include_str!("../../presets/standard/instruction.md").trim_end().into(),
            envelope: None,
            sections: titles(&[
                "Primary Request and Intent",
                "Key Technical Concepts",
                "Files and Code",
                "Errors and Fixes",
                "Pending Jobs",
                "Current Work",
                "Next Step",
                "Critical Context",
            ]),
            user_messages_section: None,
            frame: Frame {
                opening: include_str!("../../presets/standard/frame-opening.md").trim_end().into(),
                closing: format!("</{FRAME_TAG}>"),
                tag: FRAME_TAG.into(),
            },
            quotes: None,
            recent_files: 0,
            background_work: false,
            min_body_tokens: 0,
            truncation: Truncation::Sentence,
            summary_retries: 0,
            hook_namespace: "standard".into(),
        }
    }

    /// The kit that follows Codex: a handoff in prose, and what the person typed quoted beside it.
    pub fn codex() -> Self {
        Self {
            id: "codex".into(),
            label: "Codex".into(),
            instruction: include_str!("../../presets/arya-standard/instruction.md").trim_end().into(),
            sections: Vec::new(),
            frame: Frame {
                opening: include_str!("../../presets/arya-standard/handoff-prefix.md").trim_end().into(),
                closing: format!("</{FRAME_TAG}>"),
                tag: FRAME_TAG.into(),
            },
            quotes: Some(Quotes {
                title: "Messages of the user, verbatim".into(),
                max_tokens: 20_000,
                most_of_span: 0.5,
            }),
            background_work: true,
            summary_retries: 1,
            hook_namespace: "arya-standard".into(),
            ..Self::base()
        }
    }

    /// The kit that follows Qwen Code: a snapshot of nine tagged sections, whose envelope stays.
    pub fn qwen() -> Self {
        Self {
            id: "qwen".into(),
            label: "Qwen".into(),
            instruction: include_str!("../../presets/arya-qwen/instruction.md").trim_end().into(),
            envelope: Some(Envelope { tag: "state_snapshot".into(), kept: true, tagged_sections: true }),
            sections: titles(&[
                "primary_request_and_intent",
                "key_technical_concepts",
                "files_and_code_sections",
                "errors_and_fixes",
                "problem_solving",
                "all_user_messages",
                "pending_tasks",
                "current_work",
                "next_step",
            ]),
            user_messages_section: Some("all_user_messages".into()),
            frame: Frame {
                opening: format!("<{FRAME_TAG}>"),
                closing: include_str!("../../presets/arya-qwen/resume-suffix.md").trim_end().into(),
                tag: FRAME_TAG.into(),
            },
            background_work: true,
            min_body_tokens: 800,
            truncation: Truncation::Refuse,
            summary_retries: 1,
            hook_namespace: "arya-qwen".into(),
            ..Self::base()
        }
    }

    /// The kit that follows Claude Code: a summary of nine titled sections, unwrapped from its envelope.
    pub fn claude() -> Self {
        Self {
            id: "claude".into(),
            label: "Claude".into(),
            instruction: include_str!("../../presets/arya-claude/instruction.md").trim_end().into(),
            envelope: Some(Envelope { tag: "summary".into(), kept: false, tagged_sections: false }),
            sections: titles(&[
                "Primary Request and Intent",
                "Key Technical Concepts",
                "Files and Code Sections",
                "Errors and Fixes",
                "Problem Solving",
                "All User Messages",
                "Pending Tasks",
                "Current Work",
                "Optional Next Step",
            ]),
            user_messages_section: Some("All User Messages".into()),
            frame: Frame {
                opening: include_str!("../../presets/arya-claude/continuation-prefix.md").trim_end().into(),
                closing: include_str!("../../presets/arya-claude/resume-suffix.md").trim_end().into(),
                tag: FRAME_TAG.into(),
            },
            recent_files: 5,
            background_work: true,
            min_body_tokens: 600,
            truncation: Truncation::Refuse,
            summary_retries: 1,
            hook_namespace: "arya-claude".into(),
            ..Self::base()
        }
    }

    /// The built-in kit of an id.
    pub fn builtin(id: &str) -> Option<Self> {
        match id {
            "base" => Some(Self::base()),
            "codex" => Some(Self::codex()),
            "qwen" => Some(Self::qwen()),
            "claude" => Some(Self::claude()),
            _ => None,
        }
    }

    /// Whether an answer must come in an envelope with all its sections.
    pub fn is_structured(&self) -> bool {
        self.envelope.is_some()
    }

    /// Checks that the kit can work; the first fault is returned.
    pub fn validate(&self) -> Result<(), KitError> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
    }

    /// The output caps of a policy under which no answer can be as long as the policy or this kit demands.
    pub(crate) fn floors_above_caps(&self, policy: &Policy) -> Vec<KitError> {
        let min_body_tokens = policy.min_body_tokens.unwrap_or(self.min_body_tokens);
        let of_routes = policy.model_policies.iter().enumerate();
        let of_routes =
            of_routes.filter_map(|(index, own)| Some((format!("model_policies[{index}].max_tokens"), own.max_tokens?)));
        std::iter::once(("max_tokens".to_owned(), policy.max_tokens))
            .chain(of_routes)
            .filter(|(_, max_tokens)| (1..min_body_tokens).contains(max_tokens))
            .map(|(cap, max_tokens)| KitError::FloorAboveCap { kit: self.id.clone(), min_body_tokens, cap, max_tokens })
            .collect()
    }

    /// Checks that the kit can work and returns every fault.
    pub fn faults(&self) -> Vec<KitError> {
        let kit = || self.id.clone();
        let mut faults = Vec::new();
        let fields = [
            ("id", &self.id),
            ("instruction", &self.instruction),
            ("frame.opening", &self.frame.opening),
            ("frame.closing", &self.frame.closing),
            ("frame.tag", &self.frame.tag),
            ("hook_namespace", &self.hook_namespace),
        ];
        let empty = fields.into_iter().filter(|(_, text)| text.trim().is_empty());
        faults.extend(empty.map(|(field, _)| KitError::Empty { kit: kit(), field }));
        if !self.frame.closing.contains(&format!("</{}>", self.frame.tag)) {
            faults.push(KitError::FrameNotClosed { kit: kit(), tag: self.frame.tag.clone() });
        }
        for (index, title) in self.sections.iter().enumerate() {
            if title.trim().is_empty() {
                faults.push(KitError::Empty { kit: kit(), field: "sections" });
            } else if self.sections.iter().take(index).any(|earlier| earlier.eq_ignore_ascii_case(title)) {
                faults.push(KitError::DuplicateSection { kit: kit(), title: title.clone() });
            }
        }
        let tags = self.envelope.iter().flat_map(|envelope| {
            let sections = self.sections.iter().filter(|_| envelope.tagged_sections);
            std::iter::once(&envelope.tag).chain(sections)
        });
        let is_tag =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        let no_tags = tags.chain([&self.frame.tag]).filter(|name| !is_tag(name));
        faults.extend(no_tags.map(|name| KitError::NoTagName { kit: kit(), name: name.clone() }));
        if let Some(title) = self.user_messages_section.as_ref().filter(|title| !self.sections.contains(title)) {
            faults.push(KitError::UnknownSection { kit: kit(), title: title.clone() });
        }
        let share = self.quotes.as_ref().map(|quotes| quotes.most_of_span).filter(|v| !(0.0..=1.0).contains(v));
        faults.extend(share.map(|value| KitError::QuoteShare { kit: kit(), value }));
        let contradictions = [
            (
                self.truncation == Truncation::Sentence,
                "a structured answer cannot be cut at a sentence: that would drop its last sections; refuse it instead",
            ),
            (self.sections.is_empty(), "an envelope without sections holds nothing to check"),
        ];
        let contradictions = contradictions.into_iter().filter(|(holds, _)| self.is_structured() && *holds);
        faults.extend(contradictions.map(|(_, what)| KitError::Contradiction { kit: kit(), what }));
        faults
    }
}
