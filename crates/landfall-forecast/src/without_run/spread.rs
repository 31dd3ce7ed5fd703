//! What a forecast holds beside its medians, from the quantiles of a network.

use crate::data::Digits;
use crate::zero_shot::quantile_at;

/// Level of the interval, in percent, that a forecast has where none is asked for: the outermost quantiles of the network.
pub const INTERVAL: f64 = 80.0;

/// What a forecast holds beside its medians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread<'a> {
    /// Levels of quantiles, above 0 and below 1.
    pub quantiles: &'a [f64],
    /// Levels of central intervals, in percent.
    pub intervals: &'a [f64],
}

/// What is forecast of a column: of each row the quantiles at the forecaster's levels.
pub type Rows = Vec<Vec<f64>>;

/// What follows from the quantiles of a column.
pub(super) struct Made {
    pub(super) median: Vec<f64>,
    pub(super) quantiles: Vec<Vec<f64>>,
    pub(super) intervals: Vec<[Vec<f64>; 2]>,
}

/// Of a column with this lowest and highest value, from its quantiles at these levels.
pub(super) fn spread(rows: &Rows, (low, high): (f64, f64), levels: &[f64], asked: Spread<'_>) -> Made {
    // The network's numbers are f32, in units of about this width.
    let digits = Digits::of_f32(high / 2.0 - low / 2.0);
    let at = |level: f64| -> Vec<f64> {
        let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        // Beyond the quantiles of the network there may be no number.
        let round = |x: f64| digits.round(x).clamp(f64::MIN, f64::MAX).max(floor);
        rows.iter().map(|row| round(quantile_at(levels, row, level))).collect()
    };
    let bounds = |level: &f64| [at(0.5 - level / 200.0), at(0.5 + level / 200.0)];
    Made {
        median: at(0.5),
        quantiles: asked.quantiles.iter().map(|level| at(*level)).collect(),
        intervals: asked.intervals.iter().map(bounds).collect(),
    }
}
