//! Classical decomposition: whether a series has a season, its indices, and the series without them.

use serde::{Deserialize, Serialize};

use crate::rows::{Rows, mean};

/// One index for each row of a season.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Indices {
    /// Whether a row is its adjusted value times the index, or plus it.
    multiplicative: bool,
    /// The index of each row of a season, from the first row of the fit; their mean is 1, or 0 where they are added.
    values: Vec<f64>,
}

/// An index below this makes the adjusted value too large to be one, so the indices are added instead.
const SMALLEST: f64 = 0.01;

impl Indices {
    /// The indices of a series: the mean ratio of the rows to their centred moving average over a season, or the mean difference
    /// where a row is 0 or less. `None` below two seasons.
    pub(crate) fn of(values: &[f64], season: usize) -> Option<Self> {
        if season < 2 || values.len() < 2 * season {
            return None;
        }
        let trend = moving_average(values, season);
        let multiplicative = values.iter().all(|y| *y > 0.0);
        let found = Self::means(values, &trend, season, multiplicative);
        if multiplicative && found.values.iter().any(|v| *v < SMALLEST) {
            return Some(Self::means(values, &trend, season, false));
        }
        Some(found)
    }

    /// As [`Indices::of`], of a kind that is given.
    pub(crate) fn of_kind(values: &[f64], season: usize, multiplicative: bool) -> Self {
        Self::means(values, &moving_average(values, season), season, multiplicative)
    }

    fn means(values: &[f64], trend: &[f64], season: usize, multiplicative: bool) -> Self {
        let half = season / 2;
        let mut sums = vec![(0.0, 0.0); season];
        for (i, t) in trend.iter().enumerate() {
            let y = values[i + half];
            let sum = &mut sums[(i + half) % season];
            sum.0 += if multiplicative { y / t } else { y - t };
            sum.1 += 1.0;
        }
        let found: Vec<f64> = sums.iter().map(|(s, n)| s / n).collect();
        let centre = mean(&found);
        let values = found.iter().map(|v| if multiplicative { v / centre } else { v - centre }).collect();
        Self { multiplicative, values }
    }

    /// The indices, from the first row of the fit.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// The rows without their season.
    pub(crate) fn remove(&self, rows: Rows) -> Vec<f64> {
        let index = |i| self.values[rows.place(i, self.values.len())];
        rows.values
            .iter()
            .enumerate()
            .map(|(i, y)| if self.multiplicative { y / index(i) } else { y - index(i) })
            .collect()
    }

    /// Puts the season back on the steps after `rows`.
    pub(crate) fn restore(&self, rows: Rows, values: &mut [f64], spread: &mut [f64]) {
        for (i, (y, s)) in values.iter_mut().zip(spread).enumerate() {
            let index = self.values[rows.place(rows.values.len() + i, self.values.len())];
            if self.multiplicative {
                *y *= index;
                *s *= index;
            } else {
                *y += index;
            }
        }
    }
}

/// The centred moving average over a season, from row `season / 2` on; an even season weighs its two ends by half.
fn moving_average(values: &[f64], season: usize) -> Vec<f64> {
    let width = if season.is_multiple_of(2) { season + 1 } else { season };
    values
        .windows(width)
        .map(|w| {
            let ends = if season.is_multiple_of(2) { (w[0] + w[width - 1]) / 2.0 } else { 0.0 };
            (w.iter().sum::<f64>() - ends) / season as f64
        })
        .collect()
}

/// The test of the M competitions: whether the autocorrelation at the season exceeds its 90 % limit
/// 1.645 √((1 + 2 Σ r_k²) / n), the sum over the lags before it. Never below three seasons.
pub(crate) fn is_seasonal(values: &[f64], season: usize) -> bool {
    if season < 2 || values.len() < 3 * season {
        return false;
    }
    let centre = mean(values);
    let x: Vec<f64> = values.iter().map(|y| y - centre).collect();
    let total: f64 = x.iter().map(|x| x * x).sum();
    if total <= 0.0 {
        return false;
    }
    let correlation = |lag: usize| x[lag..].iter().zip(&x).map(|(a, b)| a * b).sum::<f64>() / total;
    let before: f64 = (1..season).map(|lag| correlation(lag).powi(2)).sum();
    correlation(season).abs() > 1.645 * ((1.0 + 2.0 * before) / values.len() as f64).sqrt()
}
