//! Where thinking stands in the turns of an Anthropic conversation.

use super::Findings;
use crate::transcript::Rule;

/// An assistant message with its thinking. Neighbours count as one message, as the API merges them.
#[derive(Default)]
struct AssistantMessage {
    first: Option<String>,
    starts_with_thinking: bool,
    has_thinking: bool,
    uses_tools: bool,
    /// The last block, if it is thinking.
    ends_with: Option<String>,
}

/// The thinking of the turn at hand.
#[derive(Default)]
pub(super) struct Thinking {
    message: AssistantMessage,
    /// The turn's first message.
    first: Option<AssistantMessage>,
    uses_tools: bool,
    has_thinking: bool,
    had_thinking: bool,
}

impl Thinking {
    pub(super) fn block(&mut self, kind: &str, at: &str) {
        let is_thinking = matches!(kind, "thinking" | "redacted_thinking");
        let message = &mut self.message;
        if message.first.is_none() {
            message.first = Some(at.to_owned());
            message.starts_with_thinking = is_thinking;
        }
        message.has_thinking |= is_thinking;
        message.uses_tools |= kind == "tool_use";
        message.ends_with = is_thinking.then(|| at.to_owned());
    }

    pub(super) fn end_message(&mut self, findings: &mut Findings<'_>) {
        let message = std::mem::take(&mut self.message);
        let Some(first) = &message.first else { return };
        if let Some(last) = &message.ends_with {
            let why = "the message ends with thinking; text or a call must follow it";
            findings.add(Rule::AnthropicThinkingLast, &**last, why);
        }
        self.uses_tools |= message.uses_tools;
        self.has_thinking |= message.has_thinking;
        if self.first.is_none() {
            self.first = Some(message);
        } else if message.has_thinking && message.uses_tools && !message.starts_with_thinking {
            findings.add(
                Rule::AnthropicThinkingFirst,
                &**first,
                "the message uses tools and has thinking, which must be its first block",
            );
        }
    }

    pub(super) fn end_turn(&mut self, findings: &mut Findings<'_>) {
        self.end_message(findings);
        if self.has_thinking
            && self.uses_tools
            && let Some(AssistantMessage { first: Some(first), starts_with_thinking: false, .. }) = &self.first
        {
            findings.add(
                Rule::AnthropicThinkingFirst,
                &**first,
                "the turn uses tools and has thinking, which must be its first block; keep all of it or none",
            );
        }
        let had_thinking = self.had_thinking || self.has_thinking;
        *self = Self { had_thinking, ..Self::default() };
    }

    pub(super) fn finish(mut self, findings: &mut Findings<'_>) {
        self.end_message(findings);
        if self.had_thinking
            && self.uses_tools
            && !self.has_thinking
            && let Some(AssistantMessage { first: Some(first), .. }) = &self.first
        {
            findings.add(
                Rule::AnthropicThinkingDropped,
                &**first,
                "the latest turn uses tools without thinking, which earlier turns have; drop that of earlier turns first",
            );
        }
        self.end_turn(findings);
    }
}
