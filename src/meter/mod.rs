//! How full the window is: an incremental fold from log to measurement.
//!
//! Owns token counters and prices. Every event is priced once; asking again costs what is new.

mod assemble;
mod counter;
mod price;

use crate::message::Usage;
use crate::session::{AssistantMessage, Event, EventData, RequestHeader, Seq, Session, SurfaceOp};

#[cfg(feature = "tiktoken")]
pub use counter::Bpe;
#[cfg(feature = "bpe")]
pub use counter::LinearBpe;
pub use counter::{ClassAware, HarnessHeuristic, TokenCounter, default_counter};
pub(crate) use price::total;
pub use price::{MediaPricing, Pricing};

/// Why a log cannot be measured. The fold stays before the event, so every later call fails the same way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeterError {
    /// A step starts while another is open.
    #[error("step/start at seq {seq} while turn {turn}, step {step} is open")]
    StepOverlaps {
        /// Seq of the event.
        seq: Seq,
        /// Turn of the open step.
        turn: u64,
        /// The open step.
        step: u64,
    },
    /// A step ends, or the model answers, outside a step of that number.
    #[error("{kind} at seq {seq} is in no open step of its turn and number")]
    OutsideStep {
        /// The event's type.
        kind: &'static str,
        /// Seq of the event.
        seq: Seq,
    },
    /// An answer cites an event that is no piece of an answer.
    #[error("assistant/message at seq {seq} cites seq {source_seq}, which is no assistant/chunk")]
    SourceIsNoChunk {
        /// Seq of the answer.
        seq: Seq,
        /// The cited event.
        source_seq: Seq,
    },
    /// An answer cites a piece of another step.
    #[error("assistant/message at seq {seq} cites seq {source_seq}, which belongs to another step")]
    SourceOfAnotherStep {
        /// Seq of the answer.
        seq: Seq,
        /// The cited event.
        source_seq: Seq,
    },
    /// An answer has a block of unknown type whose end was not logged.
    #[error("assistant/message at seq {seq}: its block of type {kind:?} was never closed")]
    OpenBlock {
        /// Seq of the answer.
        seq: Seq,
        /// Type of the block.
        kind: String,
    },
}

/// Which readings of usage a meter takes. Each field is one difference between the rule sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct MeterRules {
    /// Refuse logs whose answers stand outside their steps.
    pub strict_steps: bool,
    /// Trust usage below the heuristic and usage without a logged header.
    pub trust_low_usage: bool,
    /// Let the anchor of a step follow a replacement inside the step.
    pub anchor_follows_fold: bool,
    /// Ignore usage that was reported before the newest fold.
    pub fold_voids_usage: bool,
}

impl MeterRules {
    /// What the harness does.
    pub const HARNESS: Self =
        Self { strict_steps: true, trust_low_usage: false, anchor_follows_fold: false, fold_voids_usage: false };
    /// What experience in the field asks for.
    pub const DEFAULT: Self =
        Self { strict_steps: false, trust_low_usage: true, anchor_follows_fold: true, fold_voids_usage: true };
}

/// What a measurement starts from.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Baseline {
    /// There is nothing yet.
    None,
    /// The estimate.
    Estimated {
        /// Tokens.
        tokens: u64,
    },
    /// What the provider reported of the last answer in the log.
    Usage {
        /// Tokens.
        tokens: u64,
        /// The report.
        usage: Usage,
    },
    /// What the host reported of the last call.
    Reported {
        /// Tokens.
        tokens: u64,
    },
}

impl Baseline {
    /// Its tokens.
    pub fn tokens(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Estimated { tokens } | Self::Usage { tokens, .. } | Self::Reported { tokens } => *tokens,
        }
    }

    /// Its name in reports.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Estimated { .. } => "estimated",
            Self::Usage { .. } => "usage",
            Self::Reported { .. } => "reported",
        }
    }
}

/// Why a reported usage was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageDoubt {
    /// Its request was made before the newest fold.
    #[error("its request was made before the newest fold")]
    BeforeNewestFold,
    /// It is a sum over several calls.
    #[error("it is a sum over several calls")]
    Sum,
    /// It is more than twice the window, so it cannot be one call's.
    #[error("it is more than twice the window")]
    BeyondWindow,
    /// It names a revision that the log has not reached.
    #[error("it names a revision that the log has not reached")]
    FutureRevision,
    /// It is zero.
    #[error("it is zero")]
    Zero,
}

/// What a host knows of the last call's usage.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageReport {
    /// Tokens that the call occupied: uncached input, cache reads, cache writes and output.
    pub total_tokens: u64,
    /// Revision of the log that the call's request was made from; none when the host does not know, then the newest answer's.
    pub revision: Option<Seq>,
    /// Whether the figure is a sum over several calls. Such a figure says nothing about occupancy and is not used.
    pub is_sum: bool,
}

impl UsageReport {
    /// The usage of one call.
    pub fn of_call(usage: &Usage, revision: Seq) -> Self {
        Self { total_tokens: usage.total_tokens(), revision: Some(revision), is_sum: false }
    }
}

/// What a measurement may take into account beside the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Surroundings<'a> {
    /// The header of the next request, where it is not the logged one.
    pub header: Option<&'a RequestHeader>,
    /// What the host knows of the last call's usage.
    pub usage: Option<&'a UsageReport>,
    /// The window in tokens, to judge whether usage is credible.
    pub window: Option<u64>,
    /// Tokens that are about to be sent and are not in the log.
    pub unsent_tokens: u64,
}

/// How full the window is.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Number of events that were taken into account.
    pub log_revision: Seq,
    /// What the figure starts from.
    pub baseline: Baseline,
    /// Priced change of the surface since the baseline.
    pub surface_delta_tokens: i64,
    /// Tokens that are about to be sent and are not in the log.
    pub unsent_tokens: u64,
    /// What an engine adds to the estimated part, because the provider has refused a request that the estimate called small
    /// enough. A meter alone adds nothing.
    pub correction_tokens: u64,
    /// Baseline, change, unsent and correction together.
    pub total_tokens: u64,
    /// Price of the surface alone.
    pub surface_tokens: u64,
    /// Price of system prompt and tools.
    pub header_tokens: u64,
    /// Why a reported usage was not used.
    pub doubt: Option<UsageDoubt>,
}

#[derive(Debug, Clone)]
struct Anchor {
    seq: Seq,
    surface: u64,
    tokens: u64,
    header: Option<Seq>,
    usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy)]
struct OpenStep {
    turn: u64,
    step: u64,
    start: Seq,
    surface: u64,
}

/// The incremental fold from a session's log to its measurement.
///
/// A meter follows one session object; handed another, it starts over.
#[derive(Debug, Clone)]
pub struct Meter {
    pricing: Pricing,
    rules: MeterRules,
    instance: u64,
    /// Price by seq; 0 for events that stand on no surface.
    prices: Vec<u64>,
    /// Price of the surface after each event.
    totals: Vec<u64>,
    step: Option<OpenStep>,
    anchor: Option<Anchor>,
    header: Option<(Seq, u64)>,
    last_fold: Option<Seq>,
}

impl Meter {
    /// A meter with the given prices and rules.
    pub fn new(pricing: Pricing, rules: MeterRules) -> Self {
        Self {
            pricing,
            rules,
            instance: 0,
            prices: Vec::new(),
            totals: Vec::new(),
            step: None,
            anchor: None,
            header: None,
            last_fold: None,
        }
    }

    /// The prices.
    pub fn pricing(&self) -> &Pricing {
        &self.pricing
    }

    /// Takes in the events that are new since the last call.
    pub fn sync(&mut self, session: &Session) -> Result<(), MeterError> {
        if self.instance != session.instance() || self.prices.len() > session.events().len() {
            *self = Self::new(self.pricing.clone(), self.rules);
            self.instance = session.instance();
        }
        let new = session.events().get(self.prices.len()..).unwrap_or_default();
        for event in new {
            self.fold(session, event)?;
        }
        Ok(())
    }

    /// Measures the log alone.
    pub fn measure(&mut self, session: &Session) -> Result<Measurement, MeterError> {
        self.measure_in(session, &Surroundings::default())
    }

    /// Measures the log in its surroundings. The logged usage is taken where the rules allow, the host's where it is newer.
    pub fn measure_in(&mut self, session: &Session, around: &Surroundings<'_>) -> Result<Measurement, MeterError> {
        self.sync(session)?;
        let surface = self.surface_tokens();
        let logged = self.header.and_then(|_| session.request_header());
        let header_tokens = match around.header {
            Some(header) => self.pricing.header(header),
            None => self.header.map_or(0, |(_, price)| price),
        };
        let has_header = around.header.or(logged).is_some();
        let mut doubt = None;
        let mut base: Option<(Baseline, u64)> = None;
        if let Some(anchor) = self.anchor.as_ref().filter(|anchor| self.anchor_holds(session, anchor, around.header)) {
            match anchor.usage.as_ref().and_then(|_| self.doubt_anchor(anchor, around.window)) {
                Some(why) => doubt = Some(why),
                None => {
                    let baseline = match &anchor.usage {
                        Some(usage) => Baseline::Usage { tokens: anchor.tokens, usage: usage.clone() },
                        None => Baseline::Estimated { tokens: anchor.tokens },
                    };
                    base = Some((baseline, anchor.surface));
                }
            }
        }
        let newest = matches!(base, Some((Baseline::Usage { .. }, _))).then_some(self.anchor.as_ref()).flatten();
        if let Some(report) =
            around.usage.filter(|report| !newest.is_some_and(|anchor| is_older(session, report, anchor)))
        {
            match self.reported_surface(session, report, around.window) {
                Ok(at) => {
                    base = Some((Baseline::Reported { tokens: report.total_tokens }, at));
                    doubt = None;
                }
                Err(why) => doubt = Some(why),
            }
        }
        let (baseline, at) = match base {
            Some(base) => base,
            None if !has_header && surface == 0 => (Baseline::None, 0),
            None => (Baseline::Estimated { tokens: header_tokens.saturating_add(surface) }, surface),
        };
        let surface_delta_tokens = signed(surface) - signed(at);
        let total = signed(baseline.tokens()).saturating_add(surface_delta_tokens).max(0);
        Ok(Measurement {
            log_revision: self.prices.len() as Seq,
            baseline,
            surface_delta_tokens,
            unsent_tokens: around.unsent_tokens,
            correction_tokens: 0,
            total_tokens: total.unsigned_abs().saturating_add(around.unsent_tokens),
            surface_tokens: surface,
            header_tokens,
            doubt,
        })
    }

    /// Price of the message of an event; 0 for an event without one. The event must have been taken in by
    /// [`sync`](Self::sync) or a measurement.
    pub fn price(&self, seq: Seq) -> u64 {
        usize::try_from(seq).ok().and_then(|index| self.prices.get(index)).copied().unwrap_or(0)
    }

    /// Price of the surface.
    pub fn surface_tokens(&self) -> u64 {
        self.totals.last().copied().unwrap_or(0)
    }

    /// Price of the surface as it was behind an event.
    pub fn surface_tokens_at(&self, seq: Seq) -> u64 {
        usize::try_from(seq).ok().and_then(|at| self.totals.get(at)).copied().unwrap_or(0)
    }

    fn fold(&mut self, session: &Session, event: &Event) -> Result<(), MeterError> {
        let seq = event.seq;
        let mut surface = self.surface_tokens();
        let mut price = 0;
        match &event.data {
            EventData::StepStart(mark) => {
                if let Some(open) = self.step.filter(|_| self.rules.strict_steps) {
                    return Err(MeterError::StepOverlaps { seq, turn: open.turn, step: open.step });
                }
                self.step = Some(OpenStep { turn: mark.turn, step: mark.step, start: seq, surface });
            }
            EventData::StepEnd(mark) => {
                let matches = self.step.is_some_and(|open| (open.turn, open.step) == (mark.turn, mark.step));
                if self.rules.strict_steps && !matches {
                    return Err(MeterError::OutsideStep { kind: "step/end", seq });
                }
                self.step = None;
            }
            EventData::RequestHeader(data) => self.header = Some((seq, self.pricing.header(&data.header))),
            EventData::AssistantMessage(data) => {
                price = self.pricing.content(&data.message.content);
                self.anchor = Some(self.anchor_at(session, event, data, price, surface)?);
            }
            EventData::UserMessage(message) => price = self.pricing.message(message),
            EventData::ToolResult(data) => price = self.pricing.message(&data.message),
            _ => {}
        }
        if let Some(op) = &event.surface_op {
            if let SurfaceOp::Replace { .. } = op {
                let hidden = session.shadowed_by(seq).unwrap_or_default();
                surface = surface.saturating_sub(total(hidden.iter().map(|seq| self.price(*seq))));
                self.follow_replacement(hidden, price);
                if matches!(event.data, EventData::UserMessage(_)) {
                    self.last_fold = Some(seq);
                }
            }
            surface = surface.saturating_add(price);
        }
        self.prices.push(price);
        self.totals.push(surface);
        Ok(())
    }

    /// A replacement inside a step changes what the step's next request holds.
    fn follow_replacement(&mut self, hidden: &[Seq], price: u64) {
        let Some(mut open) = self.step.filter(|_| self.rules.anchor_follows_fold) else {
            return;
        };
        let at_start: Vec<Seq> = hidden.iter().copied().filter(|seq| *seq < open.start).collect();
        if at_start.is_empty() {
            return;
        }
        let gone = total(at_start.iter().map(|seq| self.price(*seq)));
        open.surface = open.surface.saturating_sub(gone).saturating_add(price);
        self.step = Some(open);
    }

    fn anchor_at(
        &self,
        session: &Session,
        event: &Event,
        data: &AssistantMessage,
        own_price: u64,
        surface: u64,
    ) -> Result<Anchor, MeterError> {
        let seq = event.seq;
        let open = self.step.filter(|open| (open.turn, open.step) == (data.turn, data.step));
        if self.rules.strict_steps && open.is_none() {
            return Err(MeterError::OutsideStep { kind: "assistant/message", seq });
        }
        let at_start = open.map_or(surface, |open| open.surface);
        let header_tokens = self.header.map_or(0, |(_, price)| price);
        let usage = data
            .usage
            .as_ref()
            .filter(|_| self.header.is_some() || self.rules.trust_low_usage)
            .filter(|usage| !(self.rules.trust_low_usage && usage.total_tokens() == 0))
            .filter(|_| !(self.rules.fold_voids_usage && self.is_stale(data)));
        let output = match (usage, &event.sources) {
            (Some(_), Some(sources)) if sources.is_empty() => 0,
            (Some(_), Some(sources)) => {
                self.pricing.content(&assemble::assemble(session, seq, data.turn, data.step, sources)?)
            }
            _ => own_price,
        };
        let estimate = total([header_tokens, at_start, output].into_iter());
        let usage = usage.filter(|usage| self.rules.trust_low_usage || usage.total_tokens() >= estimate);
        Ok(Anchor {
            seq,
            surface: at_start.saturating_add(output),
            tokens: usage.map_or(estimate, Usage::total_tokens),
            header: self.header.map(|(seq, _)| seq),
            usage: usage.cloned(),
        })
    }

    /// A host may state with an answer the revision that its request was made from, as `requestRevision`. An answer to a
    /// request older than the newest fold reports what stood on the surface before it.
    fn is_stale(&self, data: &AssistantMessage) -> bool {
        let revision = data.extra.get("requestRevision").and_then(serde_json::Value::as_u64);
        match (revision, self.last_fold) {
            (Some(revision), Some(fold)) => revision <= fold,
            _ => false,
        }
    }

    fn anchor_holds(&self, session: &Session, anchor: &Anchor, header: Option<&RequestHeader>) -> bool {
        let current = self.header.map(|(seq, _)| seq);
        if header.is_none() && anchor.header == current {
            return true;
        }
        let logged = |seq: Option<Seq>| match &session.event(seq?)?.data {
            EventData::RequestHeader(data) => Some(data.header.clone().canonical()),
            _ => None,
        };
        let wanted = header.cloned().map(RequestHeader::canonical).or_else(|| logged(current));
        match (logged(anchor.header), wanted) {
            (Some(then), Some(now)) => then.same_prefix(&now),
            (None, None) => true,
            _ => false,
        }
    }

    fn doubt_anchor(&self, anchor: &Anchor, window: Option<u64>) -> Option<UsageDoubt> {
        let folded = self.last_fold.is_some_and(|fold| fold > anchor.seq);
        if self.rules.fold_voids_usage && folded {
            return Some(UsageDoubt::BeforeNewestFold);
        }
        window.filter(|window| is_beyond(anchor.tokens, *window)).map(|_| UsageDoubt::BeyondWindow)
    }

    /// Price of what the reported call covers: the surface at its request, and the answer that followed.
    fn reported_surface(
        &self,
        session: &Session,
        report: &UsageReport,
        window: Option<u64>,
    ) -> Result<u64, UsageDoubt> {
        if report.is_sum {
            return Err(UsageDoubt::Sum);
        }
        if report.total_tokens == 0 {
            return Err(UsageDoubt::Zero);
        }
        if window.is_some_and(|window| is_beyond(report.total_tokens, window)) {
            return Err(UsageDoubt::BeyondWindow);
        }
        let Some(revision) = report.revision else {
            let anchor = self.anchor.as_ref();
            if self.last_fold > anchor.map(|anchor| anchor.seq) {
                return Err(UsageDoubt::BeforeNewestFold);
            }
            return Ok(anchor.map_or(self.surface_tokens(), |anchor| anchor.surface));
        };
        if self.last_fold.is_some_and(|fold| fold >= revision) {
            return Err(UsageDoubt::BeforeNewestFold);
        }
        let index = usize::try_from(revision).map_err(|_| UsageDoubt::FutureRevision)?;
        if index > self.totals.len() {
            return Err(UsageDoubt::FutureRevision);
        }
        let at_request = index.checked_sub(1).and_then(|last| self.totals.get(last)).copied().unwrap_or(0);
        let answer = session
            .events()
            .get(index..self.totals.len())
            .unwrap_or_default()
            .iter()
            .find(|event| matches!(event.data, EventData::AssistantMessage(_)));
        Ok(at_request.saturating_add(answer.map_or(0, |event| self.price(event.seq))))
    }
}

/// Whether a report is of an earlier call than the answer whose usage the log holds.
fn is_older(session: &Session, report: &UsageReport, anchor: &Anchor) -> bool {
    let Some(from) = report.revision.and_then(|revision| usize::try_from(revision).ok()) else { return false };
    let later = session.events().get(from..).unwrap_or_default();
    let answer = later.iter().find(|event| matches!(event.data, EventData::AssistantMessage(_)));
    answer.is_some_and(|event| event.seq < anchor.seq)
}

/// A call cannot occupy much more than the window; some windows are understated, so only twice as much is disbelieved.
fn is_beyond(tokens: u64, window: u64) -> bool {
    tokens > window.saturating_mul(2)
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
