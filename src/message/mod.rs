//! Provider-neutral messages: what was said, by whom, in which pieces.
//!
//! Owns roles, content blocks, sources and usage, and reads and writes them without loss. Knows no provider's wire format.

mod block;
pub(crate) mod json;
pub(crate) mod record;
mod source;

use record::record;
use serde::{Deserialize, Serialize};

pub use block::{Block, MediaBlock, MediaKind, OpaqueBlock, TextBlock, ToolCall, ToolResult};
pub use record::Extra;
pub use source::Source;

/// Who speaks, as the model sees it. Results of tools and injected text are `User`; their [`Source`] tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The side that the model answers.
    User,
    /// The model.
    Assistant,
}

record! {
    /// A message as the model sees it.
    pub struct Message {
        /// The content, in order.
        exact content: Vec<Block> = "content",
        /// Where the message comes from.
        required source: Source = "source",
        /// Who speaks.
        required role: Role = "role",
        /// The id, never empty. A pruned message keeps the id of the message that it replaces.
        required id: String = "id",
    }
}

impl Message {
    /// A message that the person typed.
    pub fn user(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(id, Role::User, Source::user(), vec![Block::text(text)])
    }

    /// An answer of the model.
    pub fn assistant(id: impl Into<String>, source: Source, content: Vec<Block>) -> Self {
        Self::new(id, Role::Assistant, source, content)
    }

    /// The result of a tool call, as text.
    pub fn tool_result(
        id: impl Into<String>,
        call_id: impl Into<String>,
        text: impl Into<String>,
        is_error: bool,
    ) -> Self {
        let call_id = call_id.into();
        let block = Block::ToolResult(ToolResult {
            tool_call_id: call_id.clone(),
            content: vec![Block::text(text)],
            is_error: Some(is_error),
            extra: Extra::default(),
        });
        Self::new(id, Role::User, Source::tool(call_id), vec![block])
    }

    /// A text that the host injects: instructions, reminders, notices. `kind` says which.
    pub fn injected(id: impl Into<String>, kind: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(id, Role::User, Source::other(kind), vec![Block::text(text)])
    }

    /// A message from its parts.
    pub fn new(id: impl Into<String>, role: Role, source: Source, content: Vec<Block>) -> Self {
        Self { content, source, role, id: id.into(), extra: Extra::default() }
    }

    /// The tool calls of the message, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The first tool result of the message.
    pub fn result(&self) -> Option<&ToolResult> {
        self.content.iter().find_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// The texts of its text blocks, joined by line ends. Reasoning, calls and results are left out.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Block::as_text).collect();
        texts.join("\n")
    }
}

record! {
    /// What a provider reported of one call. The parts are disjoint, but for reasoning, which is part of the output.
    #[derive(Default)]
    pub struct Usage {
        /// Input tokens that were neither read from nor written to a cache.
        required input_tokens: u64 = "inputTokens",
        /// Output tokens, reasoning included.
        required output_tokens: u64 = "outputTokens",
        /// Input tokens read from a cache.
        optional cache_read_tokens: u64 = "cacheReadTokens",
        /// Input tokens written to a cache.
        optional cache_write_tokens: u64 = "cacheWriteTokens",
        /// Output tokens spent on reasoning.
        optional reasoning_tokens: u64 = "reasoningTokens",
    }
}

impl Usage {
    /// What the call occupied of the window: uncached input, cache reads, cache writes and output.
    pub fn total_tokens(&self) -> u64 {
        self.input_side_tokens().saturating_add(self.output_tokens)
    }

    /// What the call's request held: uncached input, cache reads and cache writes.
    pub fn input_side_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cache_read_tokens.unwrap_or(0))
            .saturating_add(self.cache_write_tokens.unwrap_or(0))
    }
}
