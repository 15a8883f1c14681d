//! Where events go to be kept.

use super::error::SinkError;
use super::event::Event;

/// Takes the events of a session, in order, before the session shows them.
///
/// A call hands over the events of one transaction; the sink keeps all of them or none. When it refuses, the session stays as it
/// was. `Send`, so that a session can move between threads.
pub trait EventSink: Send {
    /// Keeps the events, all or none.
    fn append(&mut self, events: &[Event]) -> Result<(), SinkError>;

    /// Makes durable what was kept.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
