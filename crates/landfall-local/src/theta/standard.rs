//! The standard Theta method.

use serde::{Deserialize, Serialize};

use super::{ALPHA, best_level, growth, minimise_within};
use crate::rows::{Prediction, Rows, deviation, line};

/// Simple exponential smoothing ℓ(t) = α y(t) + (1 − α) ℓ(t − 1), and half the slope b of the line through the rows:
/// ŷ(n + h) = ℓ(n) + b/2 (h − 1 + (1 − (1 − α)ⁿ) / α). That is the mean of the line and of the smoothed series of doubled
/// curvature (Hyndman & Billah 2003).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Theta {
    alpha: f64,
    /// The level before the first row of the fit.
    level: f64,
    /// The deviation of one step.
    sigma: f64,
}

impl Theta {
    pub(crate) fn fit(values: &[f64]) -> Self {
        let alpha = minimise_within(ALPHA, |a| errors(values, a, level(values, a)).map(|e| e * e).sum());
        let level = level(values, alpha);
        let half = line(values).1 / 2.0;
        let found: Vec<f64> =
            errors(values, alpha, level).enumerate().map(|(n, e)| e - half * lag(alpha, n)).collect();
        Self { alpha, level, sigma: deviation(&found, 2) }
    }

    pub(crate) fn predict(&self, rows: Rows, horizon: usize) -> Prediction {
        let start = if rows.start == 0 { self.level } else { level(rows.values, self.alpha) };
        let end = rows.values.iter().fold(start, |l, y| l + self.alpha * (y - l));
        let half = line(rows.values).1 / 2.0;
        let n = rows.values.len();
        Prediction {
            values: (0..horizon).map(|h| end + half * (h as f64 + lag(self.alpha, n))).collect(),
            spread: (1..=horizon).map(|h| self.sigma * growth(self.alpha, h).sqrt()).collect(),
        }
    }
}

/// How many rows the level lags behind a trend after n rows: (1 − (1 − α)ⁿ) / α.
fn lag(alpha: f64, n: usize) -> f64 {
    (1.0 - (1.0 - alpha).powf(n as f64)) / alpha
}

/// The errors one step ahead of exponential smoothing.
fn errors(values: &[f64], alpha: f64, level: f64) -> impl Iterator<Item = f64> {
    values.iter().scan(level, move |l, y| {
        let error = y - *l;
        *l += alpha * error;
        Some(error)
    })
}

fn level(values: &[f64], alpha: f64) -> f64 {
    let weights = std::iter::successors(Some(1.0), move |w| Some(w * (1.0 - alpha)));
    best_level(errors(values, alpha, 0.0).zip(weights))
}
