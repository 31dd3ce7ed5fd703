//! The forecast of one window, whoever made it.

use crate::series::Series;

/// The forecast of one window of a segment, in the units of the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowForecast<'a> {
    /// Its series' place among those of the panel.
    pub series: usize,
    /// Its number among the windows of that series, from 0.
    pub window: usize,
    /// The first row that is forecast, from 0; the context ends with the row before.
    pub start_row: usize,
    /// Number of rows that are forecast, H.
    pub horizon: usize,
    /// Number of values for each row, Q: one for each quantile level, or 1.
    pub outputs: usize,
    /// Which of these is the point forecast.
    pub point: usize,
    /// The forecast `[targets, Q, H]`.
    pub values: &'a [f64],
    /// Lower and upper bounds of its intervals, `[targets, intervals, 2, H]`; empty where it has none.
    pub bounds: &'a [f64],
    /// Half the widths of the 80 % intervals that the forecaster itself gives, `[targets, H]`; empty where it gives none.
    pub widths: &'a [f64],
}

impl<'a> WindowForecast<'a> {
    /// The point forecast of a target column, H values.
    #[must_use]
    pub fn of(&self, target: usize) -> &'a [f64] {
        self.level(target, self.point)
    }

    /// The forecast of a target column at one of its Q levels, H values.
    #[must_use]
    pub fn level(&self, target: usize, level: usize) -> &'a [f64] {
        let first = (target * self.outputs + level) * self.horizon;
        self.values.get(first..first + self.horizon).unwrap_or_default()
    }

    /// Lower and upper bounds of an interval of a target column, H values each; `which` is its place among the intervals.
    #[must_use]
    pub fn interval(&self, target: usize, which: usize) -> (&'a [f64], &'a [f64]) {
        let point = self.values.len() / self.outputs.max(1);
        let first = (target * (self.bounds.len() / point.max(1)) + 2 * which) * self.horizon;
        let of = |first: usize| self.bounds.get(first..first + self.horizon).unwrap_or_default();
        (of(first), of(first + self.horizon))
    }

    /// What a column of the window's series came to in the rows that are forecast, H values.
    #[must_use]
    pub fn actual<'s>(&self, series: &'s Series, target: usize) -> &'s [f64] {
        let rows = self.start_row..self.start_row + self.horizon;
        series.values().get(target).and_then(|values| values.get(rows)).unwrap_or_default()
    }
}
