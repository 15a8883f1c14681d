//! The size of the next request in bytes, kept up event by event.

use crate::message::json::json_bytes;
use crate::meter::total;
use crate::policy::{Situation, Unsent};
use crate::session::{Event, EventData, Session, SurfaceOp};

/// The bytes that the messages on a session's surface take as JSON. Counting the same session again costs what is new.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestBytes {
    instance: u64,
    /// Bytes by seq; 0 for events that stand on no surface.
    by_seq: Vec<u64>,
    surface: u64,
}

impl RequestBytes {
    /// Bytes of the next request: its messages, system prompt and tools.
    pub(super) fn of_next(&mut self, session: &Session, situation: &Situation) -> u64 {
        self.sync(session);
        let unsent = match &situation.unsent {
            Unsent::Message(message) => json_bytes(message) as u64,
            _ => 0,
        };
        let header = situation.header_over(session);
        let header = header.as_ref().or(session.request_header()).map_or(0, |header| json_bytes(header) as u64);
        total([self.surface, unsent, header].into_iter())
    }

    fn sync(&mut self, session: &Session) {
        if self.instance != session.instance() || self.by_seq.len() > session.events().len() {
            *self = Self { instance: session.instance(), ..Self::default() };
        }
        let known = self.by_seq.len();
        for event in session.events().get(known..).unwrap_or_default() {
            let bytes = bytes_on_surface(event);
            if let Some(SurfaceOp::Replace { .. }) = event.surface_op {
                let hidden = session.shadowed_by(event.seq).unwrap_or_default();
                let gone = total(hidden.iter().filter_map(|seq| self.by_seq.get(usize::try_from(*seq).ok()?).copied()));
                self.surface = self.surface.saturating_sub(gone);
            }
            self.surface = self.surface.saturating_add(bytes);
            self.by_seq.push(bytes);
        }
    }
}

/// What an event's message adds to a request; an answer without content is not sent.
fn bytes_on_surface(event: &Event) -> u64 {
    let is_answer = matches!(event.data, EventData::AssistantMessage(_));
    let message = event.surface_op.as_ref().and(event.data.message());
    message
        .filter(|message| !(is_answer && message.content.is_empty()))
        .map_or(0, |message| json_bytes(message.as_ref()) as u64)
}
