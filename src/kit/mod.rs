//! What a summariser is asked and how its answer is framed.
//!
//! Owns kits as data. Calls no model.

use serde::{Deserialize, Serialize};

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

/// What a summariser is asked and how its answer is framed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kit {
    /// A stable name, kept with every checkpoint.
    pub id: String,
    /// A name for people.
    pub label: String,
    /// What the summariser is asked.
    pub instruction: String,
    /// The titles of the sections that the answer should have, in order; empty where it is prose.
    pub sections: Vec<String>,
    /// The frame.
    pub frame: Frame,
}

/// What is wrong with a kit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
}

impl Kit {
    /// The kit of the preset `standard`: eight Markdown sections.
    pub fn base() -> Self {
        let sections = [
            "Primary Request and Intent",
            "Key Technical Concepts",
            "Files and Code",
            "Errors and Fixes",
            "Pending Jobs",
            "Current Work",
            "Next Step",
            "Critical Context",
        ];
        Self {
            id: "base".into(),
            label: "Base".into(),
            instruction: include_str!("../../presets/standard/instruction.md").trim_end().into(),
            sections: sections.map(String::from).into(),
            frame: Frame {
                opening: include_str!("../../presets/standard/frame-opening.md").trim_end().into(),
                closing: "</compacted-summary>".into(),
                tag: "compacted-summary".into(),
            },
        }
    }

    /// Checks that the kit can work; the first fault is returned.
    pub fn validate(&self) -> Result<(), KitError> {
        let kit = || self.id.clone();
        let fields = [
            ("id", &self.id),
            ("instruction", &self.instruction),
            ("frame.opening", &self.frame.opening),
            ("frame.closing", &self.frame.closing),
            ("frame.tag", &self.frame.tag),
        ];
        if let Some((field, _)) = fields.into_iter().find(|(_, text)| text.trim().is_empty()) {
            return Err(KitError::Empty { kit: kit(), field });
        }
        if !self.frame.closing.contains(&format!("</{}>", self.frame.tag)) {
            return Err(KitError::FrameNotClosed { kit: kit(), tag: self.frame.tag.clone() });
        }
        for (index, title) in self.sections.iter().enumerate() {
            if title.trim().is_empty() {
                return Err(KitError::Empty { kit: kit(), field: "sections" });
            }
            if self.sections.iter().take(index).any(|earlier| earlier == title) {
                return Err(KitError::DuplicateSection { kit: kit(), title: title.clone() });
            }
        }
        Ok(())
    }
}
