//! Who writes the summary, what it is given and what it gives back.
//!
//! Owns the traits, request and reply, and the summariser that needs no model. Never decides when.

mod extractive;
mod request;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::message::{Block, Extra, Usage};

pub use extractive::ExtractiveSummarizer;
pub use request::{SummaryRequest, WarmRequest};

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Writes summaries, blocking.
pub trait Summarizer {
    /// Answers a request.
    fn summarize(&mut self, request: &SummaryRequest) -> Result<SummaryReply, SummarizerError>;
}

impl<F: FnMut(&SummaryRequest) -> Result<SummaryReply, SummarizerError>> Summarizer for F {
    fn summarize(&mut self, request: &SummaryRequest) -> Result<SummaryReply, SummarizerError> {
        self(request)
    }
}

/// Writes summaries on whatever runtime the host has.
pub trait AsyncSummarizer: Send + Sync {
    /// Answers a request.
    fn summarize<'a>(&'a self, request: &'a SummaryRequest) -> BoxFuture<'a, Result<SummaryReply, SummarizerError>>;
}

/// What a summariser answers.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryReply {
    /// The answer's content: text, and whatever the model put beside it.
    pub content: Vec<Block>,
    /// The provider that answered.
    pub provider: String,
    /// The model that answered.
    pub model: String,
    /// The output cap that the request had.
    pub max_tokens: Option<u64>,
    /// Whether the answer was cut off by that cap.
    pub cut_off: bool,
    /// What the provider reported of the call.
    pub usage: Option<Usage>,
    /// The whole output where `content` is a part of it; logged beside the summary.
    pub raw_output: Option<Vec<Block>>,
    /// Further fields for the log's `compaction/summary`.
    pub extra: Extra,
}

impl SummaryReply {
    /// A reply of plain text.
    pub fn text(provider: impl Into<String>, model: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            content: vec![Block::text(text)],
            provider: provider.into(),
            model: model.into(),
            max_tokens: None,
            cut_off: false,
            usage: None,
            raw_output: None,
            extra: Extra::default(),
        }
    }
}

/// Why a summariser gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummarizerError {
    /// The request did not fit the model's window.
    #[error("the summary request does not fit the summariser's window")]
    Overflow {
        /// The window, where the provider said so.
        limit: Option<u64>,
    },
    /// Too many requests.
    #[error("the summariser refuses more requests for now")]
    RateLimited {
        /// When to come back, where the provider said so.
        retry_after: Option<Duration>,
    },
    /// The key is missing or refused.
    #[error("the summariser refuses the credentials: {0}")]
    Auth(String),
    /// No answer in time.
    #[error("the summariser did not answer in time")]
    Timeout,
    /// The host gave up.
    #[error("the summary was cancelled")]
    Cancelled,
    /// The summariser could not be reached.
    #[error("the summariser cannot be reached: {0}")]
    Transport(String),
    /// Anything else.
    #[error("{message}")]
    Other {
        /// What happened.
        message: String,
        /// The error behind it, if there is one.
        #[source]
        cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl SummarizerError {
    /// Anything that has no kind of its own.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), cause: None }
    }

    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Overflow { .. } => "overflow",
            Self::RateLimited { .. } => "rate-limited",
            Self::Auth(_) => "auth",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Transport(_) => "transport",
            Self::Other { .. } => "other",
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Timeout | Self::Transport(_))
    }

    /// Whether the request was too large.
    pub fn is_context_overflow(&self) -> bool {
        matches!(self, Self::Overflow { .. })
    }
}
