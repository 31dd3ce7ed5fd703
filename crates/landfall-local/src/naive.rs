//! The last value, and the last value with the drift of the rows.

use serde::{Deserialize, Serialize};

use crate::rows::{Prediction, Rows, deviation};

/// y(n + h) = y(n), or y(n) + h (y(n) − y(1)) / (n − 1) with the drift (Hyndman & Athanasopoulos 2021, section 5.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Naive {
    drift: bool,
    /// The deviation of one step.
    sigma: f64,
}

impl Naive {
    pub(crate) fn fit(values: &[f64], drift: bool) -> Self {
        let slope = slope(values, drift);
        let errors: Vec<f64> = values.windows(2).map(|w| w[1] - w[0] - slope).collect();
        Self { drift, sigma: deviation(&errors, usize::from(drift)) }
    }

    /// The variance of the last value grows with each step, that of the drift with the square: σ² h (1 + h / (n − 1)).
    pub(crate) fn predict(&self, rows: Rows, horizon: usize) -> Prediction {
        let slope = slope(rows.values, self.drift);
        let last = rows.values.last().copied().unwrap_or(0.0);
        let known = rows.values.len().saturating_sub(1).max(1) as f64;
        let steps = || (1..=horizon).map(|h| h as f64);
        let grown = |h: f64| if self.drift { h * (1.0 + h / known) } else { h };
        Prediction {
            values: steps().map(|h| last + h * slope).collect(),
            spread: steps().map(|h| self.sigma * grown(h).sqrt()).collect(),
        }
    }
}

fn slope(values: &[f64], drift: bool) -> f64 {
    match values {
        [first, .., last] if drift => (last - first) / (values.len() - 1) as f64,
        _ => 0.0,
    }
}
