//! A sink that refuses events on demand and counts its flushes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arya_presets::{Event, EventSink, SinkError};
use serde::Deserialize;

use crate::script::{Moment, Signals};

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes appends of a type fail: `times` of them, or all, after the first `skip`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailRule {
    r#type: String,
    pub(crate) message: String,
    #[serde(default)]
    skip: u64,
    times: Option<u64>,
}

impl FailRule {
    fn refuses(&mut self, event: &Event) -> bool {
        if event.data.kind() != self.r#type {
            return false;
        }
        match (&mut self.skip, &mut self.times) {
            (0, None) => true,
            (0, Some(0)) => false,
            (0, Some(times)) => {
                *times -= 1;
                true
            }
            (skip, _) => {
                *skip -= 1;
                false
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct SinkState {
    rules: Vec<FailRule>,
    flush_error: Option<String>,
    flushes: u64,
}

impl SinkState {
    pub(crate) fn new(rules: Vec<FailRule>, flush_error: Option<String>) -> Self {
        Self { rules, flush_error, flushes: 0 }
    }

    pub(crate) fn flushes(&self) -> u64 {
        self.flushes
    }
}

/// Refuses the batches that hold an event which a rule names.
pub(crate) struct FailingSink {
    state: Arc<Mutex<SinkState>>,
    signals: Signals,
}

impl FailingSink {
    pub(crate) fn new(state: Arc<Mutex<SinkState>>, signals: Signals) -> Self {
        Self { state, signals }
    }
}

impl EventSink for FailingSink {
    fn append(&mut self, events: &[Event]) -> Result<(), SinkError> {
        let mut state = locked(&self.state);
        for event in events {
            if let Some(rule) = state.rules.iter_mut().find_map(|rule| rule.refuses(event).then_some(rule)) {
                return Err(SinkError::new(rule.message.clone()));
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.signals.reach(Moment::Flush);
        let mut state = locked(&self.state);
        state.flushes += 1;
        state.flush_error.clone().map_or(Ok(()), |message| Err(SinkError::new(message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arya_presets::{Draft, Session};
    use serde_json::json;

    #[test]
    fn a_rule_skips_then_refuses_as_often_as_it_says() {
        let rules =
            serde_json::from_value(json!([{"type": "turn/start", "message": "no", "skip": 1, "times": 1}])).unwrap();
        let state = Arc::new(Mutex::new(SinkState::new(rules, Some("disk full".into()))));
        let mut session = Session::new("s");
        session.set_sink(Box::new(FailingSink::new(Arc::clone(&state), Signals::default())));
        session.append(Draft::turn_start(1)).unwrap();
        let refused = session.append_all(vec![Draft::step_start(1, 1), Draft::turn_start(2)]).unwrap_err();
        assert_eq!((refused.to_string().as_str(), session.revision()), ("no", 1));
        session.append(Draft::turn_start(2)).unwrap();
        assert_eq!(session.flush().unwrap_err().to_string(), "disk full");
        assert_eq!(locked(&state).flushes(), 1);
    }
}
