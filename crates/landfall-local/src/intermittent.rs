//! Demand with many zeros: its size and how often it comes, smoothed apart.
//!
//! Croston (1972) smooths the size z of a demand and the interval p between two, each where there is a demand; the rate is z / p.
//! Syntetos & Boylan (2005) take its bias away: (1 − α/2) z / p. Teunter, Syntetos & Babai (2011) smooth the probability of a demand at
//! each row instead, so that the rate falls while there is none.

use serde::{Deserialize, Serialize};

use crate::rows::{Prediction, Rows, deviation, mean};

/// The share of rows with demand below which a series is intermittent: intervals of 1.32 rows on average (Syntetos, Boylan &
/// Croston 2005).
const FREQUENT: f64 = 1.0 / 1.32;
/// The smoothing parameters that are tried, the range that Syntetos & Boylan recommend.
const TRIED: [f64; 6] = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3];

/// Whether a series is demand with many zeros: no value is below 0, and a demand comes at most every 1.32 rows on average.
///
/// ```
/// assert!(landfall_local::is_intermittent(&[0.0, 3.0, 0.0, 0.0, 1.0, 0.0]));
/// assert!(!landfall_local::is_intermittent(&[4.0, 3.0, 0.0, 2.0, 1.0, 5.0]));
/// ```
pub fn is_intermittent(values: &[f64]) -> bool {
    let demands = values.iter().filter(|y| **y > 0.0).count();
    values.iter().all(|y| *y >= 0.0) && (demands as f64) < FREQUENT * values.len() as f64
}

/// A model of demand; its parameters are those of the smallest squared error one step ahead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Intermittent {
    /// Whether the probability is smoothed at each row (TSB), not the interval at each demand.
    each_row: bool,
    /// Smoothing of the size.
    size: f64,
    /// Smoothing of the interval or the probability.
    often: f64,
    /// The deviation of one step.
    sigma: f64,
}

impl Intermittent {
    /// Croston's model with the correction of Syntetos & Boylan; one parameter smooths both.
    pub(crate) fn croston(values: &[f64]) -> Self {
        Self::best(values, TRIED.iter().map(|a| (*a, *a)), false)
    }

    /// The model of Teunter, Syntetos & Babai.
    pub(crate) fn tsb(values: &[f64]) -> Self {
        Self::best(values, TRIED.iter().flat_map(|a| TRIED.iter().map(move |b| (*a, *b))), true)
    }

    fn best(values: &[f64], tried: impl Iterator<Item = (f64, f64)>, each_row: bool) -> Self {
        let fits = tried.map(|(size, often)| {
            let mut one = Self { each_row, size, often, sigma: 0.0 };
            let mut errors = Vec::with_capacity(values.len());
            one.filter(values, |rate, y| errors.push(y - rate));
            one.sigma = deviation(&errors, 1);
            one
        });
        let start = Self { each_row, size: TRIED[1], often: TRIED[1], sigma: f64::INFINITY };
        fits.fold(start, |best, one| if one.sigma < best.sigma { one } else { best })
    }

    /// The rate after the rows; `seen` gets the rate before each row and the row. The state begins at the mean size and the share
    /// of rows with demand.
    fn filter(&self, values: &[f64], mut seen: impl FnMut(f64, f64)) -> f64 {
        let demands: Vec<f64> = values.iter().copied().filter(|y| *y > 0.0).collect();
        if demands.is_empty() {
            values.iter().for_each(|y| seen(0.0, *y));
            return 0.0;
        }
        let mut size = mean(&demands);
        let mut share = demands.len() as f64 / values.len() as f64;
        let mut interval = 1.0 / share;
        let mut since = 0.0;
        for y in values {
            seen(self.rate(size, share, interval), *y);
            since += 1.0;
            let demand = *y > 0.0;
            share += self.often * (f64::from(u8::from(demand)) - share);
            if demand {
                size += self.size * (y - size);
                interval += self.often * (since - interval);
                since = 0.0;
            }
        }
        self.rate(size, share, interval)
    }

    fn rate(&self, size: f64, share: f64, interval: f64) -> f64 {
        if self.each_row { size * share } else { (1.0 - self.size / 2.0) * size / interval }
    }

    /// The rate at every step; a demand lies from it about as far at each.
    pub(crate) fn predict(&self, rows: Rows, horizon: usize) -> Prediction {
        let rate = self.filter(rows.values, |_, _| ());
        Prediction { values: vec![rate; horizon], spread: vec![self.sigma; horizon] }
    }
}
