//! What a refused request teaches about the estimate.

use crate::meter::{Baseline, Measurement};
use crate::session::Route;

/// No more is learnt than that the estimate is half of the truth: a refusal can have other causes, such as the room that a
/// provider reserves for the answer.
const MOST_RATIO: f64 = 2.0;
/// An estimate below this part of the request says nothing about why the request was too large.
const LEAST_JUDGED_PART: u64 = 20;

/// How far estimates stay below what a route's provider counts.
#[derive(Debug, Clone)]
pub(super) struct Correction {
    route: Option<Route>,
    /// Counted tokens for each estimated one, from 1 to [`MOST_RATIO`].
    ratio: f64,
}

impl Correction {
    /// What an overflow teaches, if the request was in truth at least `counted_tokens` large. The measurement is uncorrected.
    pub(super) fn learn(route: Option<Route>, measured: &Measurement, counted_tokens: u64) -> Option<Self> {
        let estimated = estimated_tokens(measured);
        let known = measured.total_tokens.saturating_sub(estimated);
        let counted = counted_tokens.saturating_sub(known);
        if counted <= estimated || estimated <= counted_tokens / LEAST_JUDGED_PART {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "a ratio of this size needs no more digits")]
        let ratio = (counted as f64 / estimated as f64).min(MOST_RATIO);
        Some(Self { route, ratio })
    }

    /// The larger of two lessons about one route, the newer of two about different ones.
    pub(super) fn or(self, older: Option<Self>) -> Self {
        match older {
            Some(older) if older.route == self.route && older.ratio > self.ratio => older,
            _ => self,
        }
    }

    /// Adds what the estimated part of a measurement lacks on this route.
    pub(super) fn apply(&self, route: Option<&Route>, measured: &mut Measurement) {
        if self.route.as_ref() != route {
            return;
        }
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let lacking = (estimated_tokens(measured) as f64 * (self.ratio - 1.0)) as u64;
        measured.correction_tokens = lacking;
        measured.total_tokens = measured.total_tokens.saturating_add(lacking);
    }
}

/// The part of a measurement that no provider has counted.
fn estimated_tokens(measured: &Measurement) -> u64 {
    match measured.baseline {
        Baseline::None | Baseline::Estimated { .. } => measured.total_tokens,
        Baseline::Usage { .. } | Baseline::Reported { .. } => {
            let added = u64::try_from(measured.surface_delta_tokens).unwrap_or(0);
            added.saturating_add(measured.unsent_tokens).min(measured.total_tokens)
        }
    }
}
