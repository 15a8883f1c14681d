//! Where a conversation can go.

use serde::{Deserialize, Serialize};

/// The form in which a conversation is written: the request of an API, or the file of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Target {
    /// `{"messages": […]}` of OpenAI's Chat Completions and the many servers that speak it.
    ChatCompletions,
    /// `{"instructions", "input": […]}` of OpenAI's Responses.
    Responses,
    /// `{"system", "messages": […]}` of Anthropic's Messages.
    Anthropic,
    /// `{"systemInstruction", "contents": […]}` of Gemini's `generateContent`.
    Gemini,
    /// Lines of a Codex rollout file.
    CodexRollout,
    /// Lines of a Claude Code session file.
    ClaudeCode,
    /// Lines of a Qwen Code chat file.
    QwenCode,
    /// Lines of a pi session file.
    Pi,
    /// The harness's session file, which is this crate's own.
    Harness,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 9] = [
        Self::ChatCompletions,
        Self::Responses,
        Self::Anthropic,
        Self::Gemini,
        Self::CodexRollout,
        Self::ClaudeCode,
        Self::QwenCode,
        Self::Pi,
        Self::Harness,
    ];

    /// The four APIs, whose rules [`validate`](super::validate) knows.
    pub const APIS: [Self; 4] = [Self::ChatCompletions, Self::Responses, Self::Anthropic, Self::Gemini];

    /// Its name in settings and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat-completions",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::CodexRollout => "codex-rollout",
            Self::ClaudeCode => "claude-code",
            Self::QwenCode => "qwen-code",
            Self::Pi => "pi",
            Self::Harness => "harness",
        }
    }

    /// The target of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
