//! A summary without a model: what the messages hold, sorted into the kit's sections, within the room.

mod calls;
mod facts;
mod findings;
mod index;
mod render;
mod select;
mod sentences;
mod tokens;
mod words;

use std::sync::Arc;

use super::{Summarizer, SummarizerError, SummaryReply, SummaryRequest};
use crate::kit::Kit;
use crate::message::Message;
use crate::meter::HarnessHeuristic;
use crate::summarizer::{AsyncSummarizer, BoxFuture};

/// Summarises without a model.
///
/// Deterministic: the same request gives the same text. It fills the sections that the kit names with what the messages hold:
/// rules, preferences and goals in the user's words, sentence by sentence, files touched, commands, errors with what followed,
/// decisions, the state of the work, and an index of paths, names and numbers, each once. Where the user gave another value for
/// the same thing, the newest stands. An earlier checkpoint is merged line by line. Nothing is invented.
///
/// It weighs by kind and age, not by meaning, so a model's summary is better wherever one can be had.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtractiveSummarizer;

/// Provider and model under which the log records a summary that no model wrote.
const PROVIDER: &str = "arya-presets";
const MODEL: &str = "extractive";

impl ExtractiveSummarizer {
    /// The summariser.
    pub fn new() -> Self {
        Self
    }

    /// A summary of messages in a kit's form, of at most so many characters; none where not even the most important line fits.
    pub fn summarize_within(&self, messages: &[Arc<Message>], kit: &Kit, max_chars: usize) -> Option<String> {
        let request = SummaryRequest {
            messages: messages.to_vec().into(),
            as_sent: Arc::from([]),
            carried: None,
            kit: Arc::new(kit.clone()),
            instruction: "".into(),
            header: None,
            route: None,
            max_output_tokens: u64::MAX,
            max_output_chars: Some(max_chars),
            counter: Arc::new(HarnessHeuristic),
            masked: Arc::default(),
        };
        summary_of(&request)
    }

    /// The summary of a request's messages.
    pub fn summary(&self, request: &SummaryRequest) -> Result<SummaryReply, SummarizerError> {
        let text =
            summary_of(request).ok_or_else(|| SummarizerError::other("the room is too small for any finding"))?;
        let mut reply = SummaryReply::text(PROVIDER, MODEL, text);
        reply.max_tokens = Some(request.max_output_tokens());
        Ok(reply)
    }
}

fn summary_of(request: &SummaryRequest) -> Option<String> {
    /// A token of dense text is seldom longer.
    const BYTES_PER_TOKEN: usize = 8;
    let tokens = usize::try_from(request.max_output_tokens()).unwrap_or(usize::MAX);
    let bytes = tokens.saturating_mul(BYTES_PER_TOKEN);
    // A character takes up to four bytes.
    let room_bytes = request.max_output_chars().map_or(bytes, |chars| bytes.min(chars.saturating_mul(4)));
    render::render(&findings::collect(request.messages(), room_bytes), request)
}

impl Summarizer for ExtractiveSummarizer {
    fn summarize(&mut self, request: &SummaryRequest) -> Result<SummaryReply, SummarizerError> {
        self.summary(request)
    }
}

impl AsyncSummarizer for ExtractiveSummarizer {
    fn summarize<'a>(&'a self, request: &'a SummaryRequest) -> BoxFuture<'a, Result<SummaryReply, SummarizerError>> {
        Box::pin(std::future::ready(self.summary(request)))
    }
}
