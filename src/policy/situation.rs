//! What a host knows at the moment of a check.

use serde_json::Value;

use crate::message::Message;
use crate::meter::UsageReport;
use crate::session::{RequestHeader, Route, Session};

/// Where the figure of a window comes from. It is printed with every explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowOrigin {
    /// The host said so.
    Host,
    /// The newest `request/context` of the log.
    Log,
    /// A table or service that the host names.
    Named(String),
}

impl std::fmt::Display for WindowOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Host => "stated by the host",
            Self::Log => "from the log's request context",
            Self::Named(name) => name,
        })
    }
}

/// A context window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Its size in tokens, never 0.
    pub tokens: u64,
    /// Where the figure comes from.
    pub origin: WindowOrigin,
}

/// What is about to be sent and is not in the log.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Unsent {
    /// Nothing.
    #[default]
    Nothing,
    /// So many tokens.
    Tokens(u64),
    /// This message.
    Message(Box<Message>),
}

/// What a host knows at the moment of a check. Every part is optional; what is not stated counts as unknown, not as zero.
///
/// ```
/// use arya_presets::{Situation, WindowOrigin};
///
/// let situation = Situation::new().window(200_000, WindowOrigin::Host).max_output(8_000);
/// assert_eq!(situation.window_tokens(), Some(200_000));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Situation {
    pub(crate) route: Option<Route>,
    pub(crate) window: Option<Window>,
    pub(crate) max_output: Option<u64>,
    pub(crate) summarizer_window: Option<u64>,
    pub(crate) system: Option<String>,
    pub(crate) tools: Option<Vec<Value>>,
    pub(crate) unsent: Unsent,
    pub(crate) usage: Option<UsageReport>,
    pub(crate) now: Option<i64>,
}

impl Situation {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the log itself says: route and output cap of the newest `request/header`, window of the newest `request/context`
    /// where that speaks of the same route.
    pub fn from_log(session: &Session) -> Self {
        let mut situation = Self::new();
        if let Some(header) = session.request_header() {
            situation.route = Some(Route::new(&header.config.provider, &header.config.model));
            situation.max_output = header.config.max_tokens;
        }
        if let Some(context) = session.request_context() {
            let same = situation
                .route
                .as_ref()
                .is_none_or(|route| route.provider == context.provider && route.model == context.model);
            if let Some(tokens) = context.context_window.filter(|_| same) {
                situation = situation.window(tokens, WindowOrigin::Log);
            }
        }
        situation
    }

    /// Provider and model of the next request.
    pub fn route(mut self, route: Route) -> Self {
        self.route = Some(route);
        self
    }

    /// The window of the next request's model, in tokens. 0 is unknown.
    pub fn window(mut self, tokens: u64, origin: WindowOrigin) -> Self {
        self.window = (tokens > 0).then_some(Window { tokens, origin });
        self
    }

    /// Output tokens that the next request reserves.
    pub fn max_output(mut self, tokens: u64) -> Self {
        self.max_output = Some(tokens);
        self
    }

    /// The window of the model that writes the summary, in tokens, where it is known. Requests are cut to it before they are sent.
    pub fn summarizer_window(mut self, tokens: u64) -> Self {
        self.summarizer_window = (tokens > 0).then_some(tokens);
        self
    }

    /// System prompt of the next request, where it is not the logged one.
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Tools of the next request, where they are not the logged ones.
    pub fn tools(mut self, tools: Vec<Value>) -> Self {
        self.tools = Some(tools);
        self
    }

    /// What is about to be sent and is not in the log.
    pub fn unsent(mut self, unsent: Unsent) -> Self {
        self.unsent = unsent;
        self
    }

    /// Usage of the last call.
    pub fn usage(mut self, usage: UsageReport) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The time, in milliseconds since the epoch. Without it, events get the time of the last one.
    pub fn now(mut self, now: i64) -> Self {
        self.now = Some(now);
        self
    }

    /// The window in tokens, where it is known.
    pub fn window_tokens(&self) -> Option<u64> {
        self.window.as_ref().map(|window| window.tokens)
    }

    /// The route: the stated one, else the logged one.
    pub fn route_in(&self, session: &Session) -> Option<Route> {
        self.route.clone().or_else(|| {
            session.request_header().map(|header| Route::new(&header.config.provider, &header.config.model))
        })
    }

    /// The header of the next request, where it differs from the logged one.
    pub(crate) fn header_over(&self, session: &Session) -> Option<RequestHeader> {
        let logged = session.request_header();
        let same_route = self.route.as_ref().is_none_or(|route| {
            logged.is_some_and(|header| {
                (&header.config.provider, &header.config.model) == (&route.provider, &route.model)
            })
        });
        if same_route && self.system.is_none() && self.tools.is_none() {
            return None;
        }
        let route = self.route_in(session).unwrap_or_else(|| Route::new("", ""));
        let mut header = logged.cloned().unwrap_or_else(|| RequestHeader::new("", ""));
        header.config.provider = route.provider;
        header.config.model = route.model;
        if let Some(system) = &self.system {
            header.system = Some(system.clone());
        }
        if let Some(tools) = &self.tools {
            header.tools = Some(tools.clone());
        }
        Some(header)
    }
}
