//! A running count that stops at a limit.

/// A count that has not gone over its limit.
pub(super) struct Tally {
    total: u64,
    limit: u64,
}

impl Tally {
    pub(super) fn new(limit: u64) -> Self {
        Self { total: 0, limit }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Adds tokens; none as soon as there are more than the limit allows.
    pub(super) fn add(&mut self, tokens: usize) -> Option<()> {
        self.total = self.total.saturating_add(tokens as u64);
        (self.total <= self.limit).then_some(())
    }
}
