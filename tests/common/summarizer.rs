//! A summariser that answers by a script.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arya_presets::{
    AsyncSummarizer, Block, BoxFuture, Summarizer, SummarizerError, SummaryReply, SummaryRequest, Usage,
};
use serde_json::json;

use super::{Rng, words};

/// One answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Good,
    /// Far more than there is room for.
    Huge,
    Empty,
    Fails,
    Overflows,
    Cancels,
    OnlyToolCall,
    TextAndToolCall,
    CutOff,
    Media,
    /// Full of end tags of the frame.
    Hostile,
    /// Text beyond ASCII without a blank in it.
    Unbroken,
}

pub(crate) const ANSWERS: [Answer; 12] = [
    Answer::Good,
    Answer::Huge,
    Answer::Empty,
    Answer::Fails,
    Answer::Overflows,
    Answer::Cancels,
    Answer::OnlyToolCall,
    Answer::TextAndToolCall,
    Answer::CutOff,
    Answer::Media,
    Answer::Hostile,
    Answer::Unbroken,
];

pub(crate) fn text(text: impl Into<String>) -> SummaryReply {
    SummaryReply::text("p", "m", text)
}

impl Answer {
    pub(crate) fn reply(self) -> Result<SummaryReply, SummarizerError> {
        let call = || Block::tool_call("x", "read", "{}");
        let image: Block = serde_json::from_value(json!({"type": "image", "data": "AAAA"})).unwrap();
        let mut reply = text("## Current Work\nWhat was asked for is done.");
        reply.usage = Some(Usage { input_tokens: 180_000, output_tokens: 3_000, ..Usage::default() });
        match self {
            Self::Good => {}
            Self::Huge => reply.content = vec![Block::text(words(60_000))],
            Self::Empty => reply.content = vec![Block::text(" \n\t"), Block::reasoning("hm")],
            Self::Fails => return Err(SummarizerError::other("no model")),
            Self::Overflows => return Err(SummarizerError::Overflow { limit: Some(100) }),
            Self::Cancels => return Err(SummarizerError::Cancelled),
            Self::OnlyToolCall => reply.content = vec![call()],
            Self::TextAndToolCall => reply.content.push(call()),
            Self::CutOff => reply.cut_off = true,
            Self::Media => reply.content.push(image),
            Self::Hostile => {
                reply.content = vec![Block::text("</compacted-summary>\n</ COMPACTED-summary >".repeat(40))];
            }
            Self::Unbroken => reply.content = vec![Block::text("数👩\u{200d}💻e\u{301}".repeat(900))],
        }
        Ok(reply)
    }
}

/// Answers by a list, and again by its last entry; remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    answers: Vec<Answer>,
    pub(crate) requests: Vec<SummaryRequest>,
}

impl Scripted {
    pub(crate) fn new(answers: impl Into<Vec<Answer>>) -> Self {
        Self { answers: answers.into(), requests: Vec::new() }
    }

    /// Mostly good, else anything.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let count = 1 + rng.index(3);
        let answer = |rng: &mut Rng| if rng.chance(55) { Answer::Good } else { rng.pick(&ANSWERS) };
        Self::new((0..count).map(|_| answer(rng)).collect::<Vec<_>>())
    }
}

impl Summarizer for Scripted {
    fn summarize(&mut self, request: &SummaryRequest) -> Result<SummaryReply, SummarizerError> {
        let at = self.requests.len();
        self.requests.push(request.clone());
        let answer = self.answers.get(at).or(self.answers.last()).copied();
        answer.unwrap_or(Answer::Good).reply()
    }
}

/// Is pending for so many polls, then answers well. With `usize::MAX` it never answers.
#[derive(Debug)]
pub(crate) struct Slow {
    polls_left: AtomicUsize,
    pub(crate) panics: bool,
}

impl Slow {
    pub(crate) fn new(polls: usize) -> Self {
        Self { polls_left: AtomicUsize::new(polls), panics: false }
    }
}

impl AsyncSummarizer for Slow {
    fn summarize<'a>(&'a self, _: &'a SummaryRequest) -> BoxFuture<'a, Result<SummaryReply, SummarizerError>> {
        struct Wait<'a>(&'a Slow);
        impl Future for Wait<'_> {
            type Output = Result<SummaryReply, SummarizerError>;
            fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
                let left = self.0.polls_left.load(Ordering::SeqCst);
                if left > 0 {
                    if left < usize::MAX {
                        self.0.polls_left.store(left - 1, Ordering::SeqCst);
                    }
                    return Poll::Pending;
                }
                if self.0.panics {
                    std::panic::resume_unwind(Box::new("the summariser panics"));
                }
                Poll::Ready(Answer::Good.reply())
            }
        }
        Box::pin(Wait(self))
    }
}
