//! A sink that keeps what it is given, and refuses or panics when told to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arya_presets::{Event, EventSink, SinkError};

/// Which appends go wrong, counted from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) times: usize,
    pub(crate) panics: bool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) kept: Vec<Event>,
    pub(crate) calls: usize,
    pub(crate) fault: Option<Fault>,
}

/// The test's half of a sink.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tape(Arc<Mutex<State>>);

impl Tape {
    pub(crate) fn failing(fault: Fault) -> Self {
        let tape = Self::default();
        tape.state().fault = Some(fault);
        tape
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was kept so far.
    pub(crate) fn kept(&self) -> Vec<Event> {
        self.state().kept.clone()
    }

    pub(crate) fn sink(&self) -> Box<dyn EventSink> {
        Box::new(Sink(self.clone()))
    }

    /// From now on nothing goes wrong.
    pub(crate) fn mend(&self) {
        self.state().fault = None;
    }

    /// The next `times` appends are refused.
    pub(crate) fn refuse(&self, times: usize) {
        let mut state = self.state();
        state.fault = Some(Fault { at: state.calls, times, panics: false });
    }
}

struct Sink(Tape);

impl EventSink for Sink {
    fn append(&mut self, events: &[Event]) -> Result<(), SinkError> {
        let mut state = self.0.state();
        let call = state.calls;
        state.calls += 1;
        if let Some(fault) = state.fault.filter(|fault| (fault.at..fault.at + fault.times).contains(&call)) {
            drop(state);
            if fault.panics {
                // Unwinds without a word on the console.
                std::panic::resume_unwind(Box::new("the sink panics"));
            }
            return Err(SinkError::new("the sink refuses"));
        }
        state.kept.extend_from_slice(events);
        Ok(())
    }
}
