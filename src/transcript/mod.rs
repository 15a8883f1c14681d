//! Conversations of other systems: read into a session, written for an API or a tool, and checked against what an API refuses.
//!
//! Owns importers, exporters and validators. Invents nothing that a file does not hold: what was repaired, left out or changed on the
//! way stands in a report.
//!
//! ```
//! use arya_presets::transcript::{self, Target, WriteOptions};
//!
//! let file = r#"[{"role": "user", "content": "Why does the build fail?"}, {"role": "assistant", "content": "A test hangs."}]"#;
//! let import = transcript::read(file.as_bytes())?;
//! assert_eq!(import.session.messages().count(), 2);
//!
//! let export = transcript::write(&import.session, Target::Anthropic, &WriteOptions::default())?;
//! assert!(transcript::validate(Target::Anthropic, &export.value).is_empty());
//! # Ok::<(), transcript::TranscriptError>(())
//! ```

mod anthropic;
mod arrange;
mod assembly;
mod chat;
mod error;
mod files;
mod format;
mod gemini;
mod limits;
mod live;
mod outline;
mod parts;
mod provenance;
mod read;
mod report;
mod responses;
mod rule;
mod target;
mod validate;
mod write;

use crate::session::{Seq, Session};

pub use error::TranscriptError;
pub use format::Format;
pub use read::{read, read_as};
pub use report::{Change, ExportReport, ImportReport, Repair, Tally, Unreadable};
pub use rule::{Profile, Rule};
pub use target::Target;
pub use validate::{Violation, validate, validate_with};
pub use write::{Export, WriteOptions, write};

/// A conversation that was read from a transcript.
#[derive(Debug)]
#[non_exhaustive]
pub struct Import {
    /// The conversation, from its newest valid fold on.
    pub session: Session,
    /// The format, found from the content.
    pub format: Format,
    /// What was read, skipped, repaired and unreadable.
    pub report: ImportReport,
    /// What records that go on with the file have to repeat.
    pub resume: Resume,
}

/// What the records of a tool's file repeat, as far as one that goes on with the file has to know it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Resume {
    /// Id of the newest record.
    pub last_record: Option<String>,
    /// Version of the tool.
    pub version: Option<String>,
    /// Branch of the repository that the tool ran in.
    pub git_branch: Option<String>,
    /// Events that a sound session file of the harness holds: what comes behind them is to be appended.
    pub events: Option<Seq>,
}

impl Resume {
    /// Notes what a record says of them; what it does not say stays.
    fn note(&mut self, record: &Option<String>, version: &Option<String>, git_branch: &Option<String>) {
        for (slot, value) in
            [(&mut self.last_record, record), (&mut self.version, version), (&mut self.git_branch, git_branch)]
        {
            if value.is_some() && slot != value {
                slot.clone_from(value);
            }
        }
    }
}
