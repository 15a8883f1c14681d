//! What an import found, and what an export had to change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Format, Target};
use crate::session::Seq;

/// How many places a tally names; the rest is counted.
const NAMED_PLACES: usize = 20;

/// How often something happened, and where first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// Its first places, at most 20: lines of a file or positions in an array, from 1, when it was read, with 0 for what a document has
    /// beside its messages; seqs when it was written.
    pub places: Vec<u64>,
}

impl Tally {
    pub(super) fn note(&mut self, place: u64) {
        self.count += 1;
        if self.places.len() < NAMED_PLACES {
            self.places.push(place);
        }
    }
}

/// A record that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unreadable {
    /// Line or position, from 1.
    pub place: u64,
    /// What the reader expected.
    pub why: String,
}

/// What an import did to a file that was damaged or that no session can hold as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Repair {
    /// A result that stood before its call, or behind a later answer, was moved behind its call.
    ResultMoved,
    /// A result whose call is nowhere was left out.
    ResultWithoutCall,
    /// A second result of one call was left out.
    ResultRepeated,
    /// A call has no result. It is left as it is: [`Session::repair`](crate::Session::repair) answers the last ones, an export
    /// all of them.
    CallWithoutResult,
    /// A call without an id got one.
    CallIdMade,
    /// A record that repeats an earlier one was left out.
    RecordRepeated,
    /// Records that are one message were joined.
    MessageJoined,
    /// Messages of a branch that was given up were left out.
    BranchLeft,
    /// A fold without a summary was ignored, so that nothing is lost.
    FoldWithoutSummary,
    /// A fold whose summary is the text of an error was ignored, so that nothing is lost.
    FoldWithErrorText,
    /// A fold lay in turns that were taken back, and went with them.
    FoldTakenBack,
    /// Turns before the last fold but one were to be taken back, which are no longer there.
    FoldNotTakenBack,
    /// Metadata that did not fit its message, or that stood beside the texts of a system prompt, was left out.
    MetadataDropped,
    /// A last record that was cut off was left out.
    TornRecord,
    /// Lines before the document were passed over.
    LinesBeforeDocument,
    /// A number that cannot be right was not believed.
    UsageNotBelieved,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportReport {
    /// The format, found from the content.
    pub format: Format,
    /// How many records were looked at: lines of a file, or elements of a document's list.
    pub records: u64,
    /// Records that became part of the conversation, by kind.
    pub mapped: BTreeMap<String, Tally>,
    /// Records that are no part of it, by kind.
    pub skipped: BTreeMap<String, Tally>,
    /// What was repaired, and how.
    pub repaired: BTreeMap<Repair, Tally>,
    /// How many records could not be read.
    pub unreadable_count: u64,
    /// The first of them, at most 20.
    pub unreadable: Vec<Unreadable>,
    /// How many folds of the conversation were found.
    pub folds: u64,
    /// How many messages lie before the newest valid one and were left out.
    pub folded_messages: u64,
    /// Whether the checkpoint that the conversation begins with can be read by its writer's API alone.
    pub opaque_checkpoint: bool,
    /// Further conversations in the same file, left out.
    pub other_conversations: u64,
}

impl ImportReport {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            records: 0,
            mapped: BTreeMap::new(),
            skipped: BTreeMap::new(),
            repaired: BTreeMap::new(),
            unreadable_count: 0,
            unreadable: Vec::new(),
            folds: 0,
            folded_messages: 0,
            opaque_checkpoint: false,
            other_conversations: 0,
        }
    }

    pub(super) fn map(&mut self, kind: &str, place: u64) {
        tally(&mut self.mapped, kind, place);
    }

    pub(super) fn skip(&mut self, kind: &str, place: u64) {
        tally(&mut self.skipped, kind, place);
    }

    pub(super) fn repair(&mut self, repair: Repair, place: u64) {
        self.repaired.entry(repair).or_default().note(place);
    }

    pub(super) fn unreadable(&mut self, place: u64, why: impl std::fmt::Display) {
        self.unreadable_count += 1;
        if self.unreadable.len() < NAMED_PLACES {
            self.unreadable.push(Unreadable { place, why: why.to_string() });
        }
    }
}

fn tally(tallies: &mut BTreeMap<String, Tally>, kind: &str, place: u64) {
    match tallies.get_mut(kind) {
        Some(tally) => tally.note(place),
        None => tallies.entry(kind.to_owned()).or_default().note(place),
    }
}

/// What an export had to change so that its target takes the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Change {
    /// A call without a result got one that says so.
    CallAnswered,
    /// A result without a call was left out.
    ResultDropped,
    /// A result was moved directly behind its call.
    ResultMoved,
    /// A call outside of an answer of the model, or a result within another message, was left out.
    CallDropped,
    /// Neighbours of one role became one message.
    NeighboursMerged,
    /// A first message of the user was added, because the target demands one.
    UserTurnAdded,
    /// Several texts of one message became one text.
    TextsJoined,
    /// Reasoning was left out, because the target does not take it, or takes only what it signed.
    ReasoningDropped,
    /// An item that only the API that wrote it can read was left out.
    OpaqueDropped,
    /// A checkpoint that only the API that wrote it can read was left out: what it held is not in the export.
    OpaqueCheckpointDropped,
    /// A picture, document or sound was replaced by a marker.
    MediaReplaced,
    /// An empty text was left out.
    EmptyTextDropped,
    /// Empty content got a marker, because the target demands some.
    EmptyContentMarked,
    /// Arguments that are no JSON object were wrapped in one, or became one where they were empty.
    ArgumentsWrapped,
    /// Long texts within arguments were shortened, as the options say.
    ArgumentsShortened,
    /// An id or a name was changed to one that the target takes.
    NameChanged,
    /// White space at an end was cut, because the target refuses it.
    BlankEndCut,
    /// A text that goes to the model as a system message of its own, or that another agent sent, became a message of the user.
    RoleChanged,
    /// Fields that the target does not know were left out.
    FieldsDropped,
    /// The mark of a failed result was left out, because the target has no field for it.
    ErrorMarkDropped,
    /// A shortened result that the target's file keeps whole was not shortened there.
    PruneNotWritten,
}

/// What an export did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportReport {
    /// Where it went.
    pub target: Target,
    /// How many messages of the session it holds.
    pub messages: u64,
    /// What was changed, with the seqs of the messages.
    pub changes: BTreeMap<Change, Tally>,
}

impl ExportReport {
    pub(super) fn new(target: Target) -> Self {
        Self { target, messages: 0, changes: BTreeMap::new() }
    }

    pub(super) fn note(&mut self, change: Change, seq: Seq) {
        self.changes.entry(change).or_default().note(seq);
    }

    /// Whether the target holds exactly what the session does.
    pub fn is_exact(&self) -> bool {
        self.changes.is_empty()
    }
}
