//! The rows that a model filters, and what it says of the rows after them.

/// Rows of a series and where they begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// One value each, in time order.
    pub(crate) values: &'a [f64],
    /// The first row, counted from the first row of the fit.
    pub(crate) start: i64,
}

impl Rows<'_> {
    /// The place in a season of the row `i` of these, or after them.
    pub(crate) fn place(&self, i: usize, season: usize) -> usize {
        let season_rows = i64::try_from(season).unwrap_or(i64::MAX);
        (self.start.rem_euclid(season_rows) as usize + i % season) % season
    }
}

/// A forecast: for each step after the rows, the value and how far the actual one lies from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The forecast values.
    pub values: Vec<f64>,
    /// The standard deviation of the error of each step, in the unit of the values.
    pub spread: Vec<f64>,
}

/// Intercept and slope of the least-squares line through `values` at 0, 1, …; the slope of one value is 0.
pub(crate) fn line(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, mean(values));
    let (mut cross, mut square) = (0.0, 0.0);
    for (i, y) in values.iter().enumerate() {
        let t = i as f64 - middle;
        cross += t * (y - mean);
        square += t * t;
    }
    let slope = if square > 0.0 { cross / square } else { 0.0 };
    (mean - slope * middle, slope)
}

/// The mean; of no values 0.
pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// √(Σ e² / (rows − parameters)); the errors of too few rows are divided by 1.
pub(crate) fn deviation(errors: &[f64], parameters: usize) -> f64 {
    let free = errors.len().saturating_sub(parameters).max(1);
    (errors.iter().map(|e| e * e).sum::<f64>() / free as f64).sqrt()
}
