//! The data of the events, one struct a kind.

use std::sync::Arc;

use super::event::{RawJson, Seq};
use super::header::RequestHeader;
use crate::message::record::record;
use crate::message::{Block, Message, Usage};

record! {
    /// A turn begins.
    pub struct TurnStart {
        /// Number of the turn, from 1.
        required turn: u64 = "turn",
    }
}

record! {
    /// What stands before it was written by an earlier process.
    #[derive(Default)]
    pub struct EndSeed {}
}

record! {
    /// A turn ends.
    pub struct TurnEnd {
        /// Number of the turn.
        required turn: u64 = "turn",
        /// Why it ended, as the host wrote it.
        required reason: RawJson = "reason",
    }
}

record! {
    /// A step begins or ends: one call of the model with the tool calls that follow from it.
    pub struct StepMark {
        /// Number of the turn.
        required turn: u64 = "turn",
        /// Number of the step within the turn, from 1.
        required step: u64 = "step",
    }
}

record! {
    /// The model's answer.
    pub struct AssistantMessage {
        /// Number of the turn.
        required turn: u64 = "turn",
        /// Number of the step within the turn.
        required step: u64 = "step",
        /// The message.
        required message: Arc<Message> = "message",
        /// What the provider reported of this call.
        optional usage: Usage = "usage",
        /// Whether the answer was cut short.
        optional interrupted: bool = "interrupted",
    }
}

record! {
    /// A tool call is about to run.
    pub struct ToolCallStart {
        /// Number of the turn.
        required turn: u64 = "turn",
        /// Number of the step within the turn.
        required step: u64 = "step",
        /// Id of the call.
        required call_id: String = "callId",
        /// The tool's name.
        required name: String = "name",
        /// The arguments as the model wrote them.
        required arguments: String = "arguments",
    }
}

record! {
    /// The result of a tool call.
    pub struct ToolResultMessage {
        /// Number of the turn.
        required turn: u64 = "turn",
        /// Number of the step within the turn.
        required step: u64 = "step",
        /// The message, with exactly one tool-result block.
        required message: Arc<Message> = "message",
    }
}

record! {
    /// A piece of an answer as it streamed in.
    pub struct AssistantChunk {
        /// Number of the turn.
        required turn: u64 = "turn",
        /// Number of the step within the turn.
        required step: u64 = "step",
        /// The piece.
        required chunk: RawJson = "chunk",
    }
}

record! {
    /// The header of the requests that follow: route, system prompt, tools.
    pub struct RequestHeaderEvent {
        /// The header.
        required header: RequestHeader = "header",
        /// Why it was logged: `initial`, `resume`, `change`.
        required reason: String = "reason",
    }
}

/// The inclusive run of nodes that a fold replaces, by the seqs of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NodeRange {
    /// Seq of the first node.
    pub start: Seq,
    /// Seq of the last node.
    pub end: Seq,
}

record! {
    /// A compaction begins. Until its end is logged, the session is locked against another one.
    pub struct CompactionStart {
        /// Id of the compaction.
        required compaction_id: String = "compactionId",
        /// The turn that it runs in; none between turns.
        nullable turn: u64 = "turn",
        /// The command that asked for it.
        optional source_command_id: String = "sourceCommandId",
    }
}

record! {
    /// The summary of a compaction, with everything that is needed to judge it later.
    pub struct CompactionSummary {
        /// Id of the compaction.
        required compaction_id: String = "compactionId",
        /// The command that asked for it.
        optional source_command_id: String = "sourceCommandId",
        /// The summary as it stands in the checkpoint, without its frame.
        required summary: Vec<Block> = "summary",
        /// The run of nodes that the checkpoint replaces.
        required shadowed_range: NodeRange = "shadowedRange",
        /// The nodes that the checkpoint replaces, in surface order.
        required shadowed_seqs: Vec<Seq> = "shadowedSeqs",
        /// Their price.
        required shadowed_token_count: u64 = "shadowedTokenCount",
        /// The provider that wrote the summary.
        required provider: String = "provider",
        /// The model that wrote the summary.
        required model: String = "model",
        /// The output cap of the request.
        optional max_tokens: u64 = "maxTokens",
        /// What the provider reported of the summary call. Never a measure of the conversation.
        optional usage: Usage = "usage",
        /// The whole answer of the summariser.
        optional raw_output: Vec<Block> = "rawOutput",
    }
}

record! {
    /// A compaction ends.
    pub struct CompactionEnd {
        /// Id of the compaction.
        required compaction_id: String = "compactionId",
        /// The command that asked for it.
        optional source_command_id: String = "sourceCommandId",
        /// The turn that it ran in; none between turns.
        nullable turn: u64 = "turn",
        /// Why it failed; absent after a success.
        optional error: String = "error",
    }
}

record! {
    /// States what a replacement shadows; stands directly before it.
    pub struct CompactionPrune {
        /// The run of nodes that the replacement shadows.
        required shadowed_range: NodeRange = "shadowedRange",
        /// The nodes that it shadows, in surface order.
        required shadowed_seqs: Vec<Seq> = "shadowedSeqs",
        /// Their price.
        required shadowed_token_count: u64 = "shadowedTokenCount",
    }
}
